//! Every encoding, type and kind of validity, decoded inside kernels.

use std::sync::Arc;

use pelton_chunk::{Codec, Column as Values, Values as Data};
use pelton_error::CancelFlag;
use pelton_exec::{Filters, Runtime, RuntimeOptions};
use pelton_pipeline::ir::{Bounds, Column, CompareOp, Expr, Literal, Op, Sink, Source, TableScan, Type};
use pelton_scan::Decompress;
use pelton_store::{ColumnSchema, LogicalType, Table, TableSchema};

use crate::fixture::{strings, table};
use crate::oracle::{
    Cell, all_rows, cells, column, column as column_of, int, options, run, runtime, single, sort, sorted,
    source,
};

fn check_all(codec: Codec, row_group_rows: u32, rows: u64) {
    let place = table(codec, row_group_rows, rows);
    let (source, columns) = source(&runtime(options()), &place.table);
    let sink =
        Sink::Materialize { columns: (0..columns.len()).map(column).collect(), top: None, order: None };
    let plan = single(source, columns, Vec::new(), sink);
    let mut expected = all_rows(&place.table);
    sort(&mut expected);
    assert_eq!(sorted(&run(options(), &plan).0), expected);
    if codec != Codec::None && has_decompressor() {
        let on_device =
            RuntimeOptions { decompress: Decompress::Device, device_cache_bytes: Some(0), ..options() };
        let (rows, report) = run(on_device, &plan);
        assert_eq!(sorted(&rows), expected, "decompressed on the device");
        let text = report.lines().join("\n");
        assert!(text.contains("decompressed by ") && !text.contains("decompressed on the host"), "{text}");
    }
}

/// A GPU needs nvCOMP; the host target has this crate's codecs.
fn has_decompressor() -> bool {
    let is_gpu = pelton_device::cuda::open(&pelton_device::cuda::CudaOptions::default()).is_ok();
    !is_gpu || pelton_device::cuda::nvcomp().is_ok()
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
fn codecs_are_decompressed_before_kernels_read() {
    check_all(Codec::Lz4, 4096, 9000);
    check_all(Codec::Zstd, 3000, 5000);
}

#[test]
fn a_range_of_a_packed_column_keeps_its_rows_and_no_null() {
    let place = table(Codec::None, 5000, 12_345);
    let (source, columns) = source(&runtime(options()), &place.table);
    let between = Expr::And(vec![compare(CompareOp::Ge, 1, 5), compare(CompareOp::Lt, 1, 20)]);
    let sink = Sink::Materialize { columns: vec![column(0), column(1)], top: None, order: None };
    let (rows, _) = run(options(), &single(source, columns, vec![Op::Filter(between)], sink));
    let mut expected: Vec<Vec<Cell>> =
        all_rows(&place.table).into_iter().map(|row| row[..2].to_vec()).collect();
    expected.retain(|row| matches!(row[1], Cell::Int(value) if (5..20).contains(&value)));
    sort(&mut expected);
    assert!(expected.len() > 1000);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn pages_without_the_first_codes_of_their_dictionary_are_decoded() {
    // Sorted dates and texts: every page but the first packs codes less the smallest that it has.
    let encodings = ["dict+bitpack", "dict+bitpack", "bitpack"].map(|text| text.parse().unwrap());
    let column = |name: &str, logical| ColumnSchema { name: name.into(), logical, nullable: false };
    let columns = [("date", LogicalType::Int32), ("text", LogicalType::Utf8), ("amount", LogicalType::Int32)];
    let schema = TableSchema::new(columns.map(|(name, logical)| column(name, logical)).to_vec()).unwrap();
    let columns = |first: u64, count: u64| {
        let dates = (first..first + count).map(|row| 19_920_000 + (row / 100) as i32).collect();
        let texts = strings((first..first + count).map(|row| format!("text {:04}", row / 70)));
        let amounts = (first..first + count).map(|row| (row * 7919 % 61) as i32 - 9).collect();
        [Data::I32(dates), Data::Bytes(texts), Data::I32(amounts)].map(Values::new).to_vec()
    };
    let place = crate::fixture::place(schema, &encodings, 5000, 10_000, columns);
    for filters in [Filters::Branching, Filters::Predicated] {
        check_sorted(&runtime(RuntimeOptions { filters, ..options() }), &place.table);
    }
}

/// Ranges over the columns date, text and amount of `table`.
fn check_sorted(runtime: &Runtime, table: &Arc<Table>) {
    let bounds = Some(Bounds { min: 19_920_000, max: 19_930_000 });
    let text = Some(runtime.column_cache().text(table, 1) as Arc<dyn pelton_pipeline::TextSource>);
    let columns = vec![
        Column { name: "date".into(), ty: Type::I32, is_nullable: false, bounds, text: None },
        Column { name: "text".into(), ty: Type::Text, is_nullable: false, bounds: None, text },
        Column {
            name: "amount".into(),
            ty: Type::I32,
            is_nullable: false,
            bounds: Some(Bounds { min: -9, max: 51 }),
            text: None,
        },
    ];
    let row_groups = (0..table.row_group_count() as u32).collect();
    let scan = TableScan {
        table: Arc::clone(table),
        columns: vec![0, 1, 2],
        row_groups,
        uses_runtime_filters: true,
    };
    let between = |low: i32, high: i32| {
        let dates = [compare(CompareOp::Ge, 0, low), compare(CompareOp::Le, 0, high)];
        Expr::And(
            dates.into_iter().chain([compare(CompareOp::Gt, 2, 3), compare(CompareOp::Lt, 2, 40)]).collect(),
        )
    };
    // From disk, widths are not known; once pinned they are, and ranges are compared in registers.
    let ranges = [(0, i32::MAX), (19_920_037, 19_920_061), (19_920_120, 19_920_120), (5, 6)];
    for (turn, (low, high)) in ranges.into_iter().chain(ranges).enumerate() {
        if turn == ranges.len() {
            runtime.column_cache().pin(table, None, &CancelFlag::new()).unwrap();
        }
        let sink = Sink::Materialize { columns: vec![column_of(0), column_of(1)], top: None, order: None };
        let plan =
            single(Source::Table(scan.clone()), columns.clone(), vec![Op::Filter(between(low, high))], sink);
        let (rows, _) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
        let all = cells(table, 0).into_iter().zip(cells(table, 1)).zip(cells(table, 2));
        let is_within = |cell: &Cell, low: i32, high: i32| matches!(cell, Cell::Int(value) if (low.into()..=high.into()).contains(value));
        let mut expected: Vec<Vec<Cell>> = all
            .filter(|((date, _), amount)| is_within(date, low, high) && is_within(amount, 4, 39))
            .map(|((date, text), _)| vec![date, text])
            .collect();
        sort(&mut expected);
        assert_eq!(sorted(&rows), expected, "{low} to {high}");
    }
}

#[test]
fn three_valued_logic_keeps_what_is_true() {
    let place = table(Codec::None, 5000, 3000);
    let (source, columns) = source(&runtime(options()), &place.table);
    // quantity < 10 OR NOT (flag = true): a NULL quantity passes where the flag is false.
    let is_set = Expr::Column(4);
    let either = Expr::Or(vec![compare(CompareOp::Lt, 1, 10), Expr::Not(Box::new(is_set))]);
    let sink = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
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

/// Numbers that columns are compared with, in conditions that are no range filters.
fn conditions_with(columns: &[Column], numbers: [i64; 3]) -> Expr {
    let literal = |ty: Type, number: i64| match ty {
        Type::I32 => Literal::I32(number as i32),
        Type::I64 => Literal::I64(number),
        Type::I128 => Literal::I128(number.into()),
        Type::F64 => Literal::F64(number as f64 / 2.0),
        other => unreachable!("no numbers of type {other:?}"),
    };
    let is_number = |column: &&Column| matches!(column.ty, Type::I32 | Type::I64 | Type::I128 | Type::F64);
    let of_column = |(index, column): (usize, &Column)| {
        let compare = |op, number| Expr::Compare {
            op,
            left: Box::new(Expr::Literal(literal(column.ty, number))),
            right: Box::new(Expr::Column(index)),
        };
        let in_list = || Expr::In {
            input: Box::new(Expr::Column(index)),
            values: numbers.iter().map(|number| (*number).into()).collect(),
        };
        let mut all = vec![
            compare(CompareOp::Eq, numbers[0]),
            Expr::And(vec![compare(CompareOp::Lt, numbers[1]), compare(CompareOp::Ne, numbers[2])]),
        ];
        all.extend((column.ty != Type::F64).then(in_list));
        Expr::Or(all)
    };
    let numbers = columns.iter().enumerate().filter(|(_, column)| is_number(column));
    Expr::Or(numbers.map(of_column).collect())
}

#[test]
fn other_numbers_find_the_program_in_the_cache() {
    let place = table(Codec::None, 5000, 3000);
    // Columns that come to be cached have widths that are known, and other programs for that.
    let runtime = runtime(RuntimeOptions { check_for: None, device_cache_bytes: Some(0), ..options() });
    let (source, columns) = source(&runtime, &place.table);
    assert!(
        [Type::I32, Type::I64, Type::I128, Type::F64].iter().all(|ty| columns.iter().any(|c| c.ty == *ty))
    );
    let rows = all_rows(&place.table);
    let expected_of = |numbers: [i64; 3]| {
        let passes = |(cell, column): (&Cell, &Column)| {
            let numbers =
                numbers.map(|number| number as f64 / if column.ty == Type::F64 { 2.0 } else { 1.0 });
            let value = match (cell, column.ty) {
                (Cell::Int(value), Type::I32 | Type::I64 | Type::I128) => *value as f64,
                (Cell::Float(value), Type::F64) => *value,
                _ => return false,
            };
            let is_listed = column.ty != Type::F64 && numbers.contains(&value);
            value == numbers[0] || (numbers[1] < value && numbers[2] != value) || is_listed
        };
        let mut expected: Vec<Vec<Cell>> = rows
            .iter()
            .filter(|row| row.iter().zip(&columns).any(passes))
            .map(|row| vec![row[0].clone()])
            .collect();
        sort(&mut expected);
        expected
    };
    let all = [[7, 90_000, 11], [-3, i32::MAX.into(), 20], [19, -1, 19]];
    for (turn, numbers) in all.into_iter().enumerate() {
        let ops = vec![Op::Filter(conditions_with(&columns, numbers))];
        let sink = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
        let plan = single(source.clone(), columns.clone(), ops, sink);
        let (found, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
        assert_eq!(sorted(&found), expected_of(numbers), "{numbers:?}");
        assert!(turn == 0 || report.pipelines[0].compiled == 0, "{numbers:?}");
    }
}
