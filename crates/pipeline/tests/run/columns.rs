//! Every encoding, type and kind of validity, decoded inside kernels.

use pelton_chunk::Codec;
use pelton_pipeline::ir::{CompareOp, Expr, Op, Sink};

use crate::fixture::table;
use crate::oracle::{Cell, all_rows, column, int, options, run, runtime, single, sort, sorted, source};

fn check_all(codec: Codec, row_group_rows: u32, rows: u64) {
    let place = table(codec, row_group_rows, rows);
    let (source, columns) = source(&runtime(options()), &place.table);
    let sink = Sink::Materialize { columns: (0..columns.len()).map(column).collect() };
    let (rows, _) = run(options(), &single(source, columns, Vec::new(), sink));
    let mut expected = all_rows(&place.table);
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn every_encoding_is_decoded() {
    check_all(Codec::None, 5000, 12_345);
}

#[test]
fn row_groups_of_7_rows_are_decoded() {
    check_all(Codec::None, 7, 100);
}

#[test]
fn codecs_are_undone_before_kernels_read() {
    check_all(Codec::Lz4, 4096, 9000);
    check_all(Codec::Zstd, 3000, 5000);
}

#[test]
fn a_range_of_a_packed_column_keeps_its_rows_and_no_null() {
    let place = table(Codec::None, 5000, 12_345);
    let (source, columns) = source(&runtime(options()), &place.table);
    let between = Expr::And(vec![compare(CompareOp::Ge, 1, 5), compare(CompareOp::Lt, 1, 20)]);
    let sink = Sink::Materialize { columns: vec![column(0), column(1)] };
    let (rows, _) = run(options(), &single(source, columns, vec![Op::Filter(between)], sink));
    let mut expected: Vec<Vec<Cell>> = all_rows(&place.table).into_iter().map(|row| row[..2].to_vec()).collect();
    expected.retain(|row| matches!(row[1], Cell::Int(value) if (5..20).contains(&value)));
    sort(&mut expected);
    assert!(expected.len() > 1000);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn three_valued_logic_keeps_what_is_true() {
    let place = table(Codec::None, 5000, 3000);
    let (source, columns) = source(&runtime(options()), &place.table);
    // quantity < 10 OR NOT (flag = true): a NULL quantity passes where the flag is false.
    let is_set = Expr::Column(4);
    let either = Expr::Or(vec![compare(CompareOp::Lt, 1, 10), Expr::Not(Box::new(is_set))]);
    let sink = Sink::Materialize { columns: vec![column(0)] };
    let (rows, _) = run(options(), &single(source, columns, vec![Op::Filter(either)], sink));
    let passes = |row: &Vec<Cell>| matches!(row[1], Cell::Int(value) if value < 10) || row[4] == Cell::Int(0);
    let mut expected: Vec<Vec<Cell>> =
        all_rows(&place.table).into_iter().filter(passes).map(|row| row[..1].to_vec()).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

fn compare(op: CompareOp, index: usize, value: i32) -> Expr {
    Expr::Compare { op, left: Box::new(column(index)), right: Box::new(int(value)) }
}
