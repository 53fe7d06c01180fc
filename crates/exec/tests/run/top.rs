//! The first rows by a key: at least those that a sort would take, whatever it does with NULLs and ties.

use std::collections::HashMap;

use pelton_chunk::Codec;
use pelton_error::CancelFlag;
use pelton_exec::{Filters, RunReport, RuntimeOptions};
use pelton_pipeline::ir::{
    ArithmeticOp, Bounds, Column, CompareOp, Expr, Literal, Op, Pipeline, Plan, ProbeKind, Sink, Source,
    TopK, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use crate::fixture::table;
use crate::oracle::{
    Cell, all_rows, column, has_three_devices, int, options, run, runtime, single, sort, sorted, source,
};

/// One case: what a test varies.
struct Case {
    row_group_rows: u32,
    rows: u64,
    key: Expr,
    /// The key of a row of the fixture.
    value: fn(&[Cell]) -> Option<i128>,
    ops: Vec<Op>,
    /// Whether a row passes `ops`.
    passes: fn(&[Cell]) -> bool,
    /// Columns of which the plan knows that they are never NULL.
    never_null: Vec<usize>,
    is_descending: bool,
    keeps_ties: bool,
    k: u64,
    options: RuntimeOptions,
}

fn int_of(cell: &Cell) -> Option<i128> {
    if let Cell::Int(value) = cell { Some(*value) } else { None }
}

/// The greatest ten of `id`, which ascends from row group to row group.
fn case() -> Case {
    Case {
        row_group_rows: 1500,
        rows: 9000,
        key: column(0),
        value: |row| int_of(&row[0]),
        ops: Vec::new(),
        passes: |_| true,
        never_null: Vec::new(),
        is_descending: true,
        keeps_ties: false,
        k: 10,
        options: options(),
    }
}

fn top(key: Expr, is_descending: bool, keeps_ties: bool, row_count: u64) -> Option<TopK> {
    Some(TopK { key, is_descending, keeps_ties, row_count })
}

/// Runs `case`, holds its rows against those that a sort takes, and gives the report.
fn check(case: &Case) -> RunReport {
    let place = table(Codec::None, case.row_group_rows, case.rows);
    let (source, mut columns) = source(&runtime(case.options.clone()), &place.table);
    case.never_null.iter().for_each(|column| columns[*column].is_nullable = false);
    let sink = Sink::Materialize {
        columns: vec![column(0), column(1)],
        top: top(case.key.clone(), case.is_descending, case.keeps_ties, case.k),
        order: None,
    };
    let plan = single(source, columns, case.ops.clone(), sink);
    let (rows, report) = run(case.options.clone(), &plan);
    let of_all = all_rows(&place.table).into_iter().filter(|row| (case.passes)(row));
    let keyed: Vec<(Option<i128>, Vec<Cell>)> =
        of_all.map(|row| ((case.value)(&row), row[..2].to_vec())).collect();
    check_rows(case, &sorted(&rows), &keyed);
    if has_three_devices() {
        let (rows, _) = run(RuntimeOptions { more_devices: vec![1, 2], ..case.options.clone() }, &plan);
        check_rows(case, &sorted(&rows), &keyed);
    }
    report
}

fn check_rows(case: &Case, found: &[Vec<Cell>], all: &[(Option<i128>, Vec<Cell>)]) {
    let rank = |key: i128| if case.is_descending { key } else { -key };
    let mut ranks: Vec<i128> = all.iter().filter_map(|(key, _)| key.map(rank)).collect();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    let k = case.k as usize;
    // The worst rank that is wanted: every better row is there, and of those like it enough.
    let worst = if k == 0 { i128::MAX } else { ranks.get(k - 1).copied().unwrap_or(i128::MIN) };
    let found_by_id: HashMap<i128, &Vec<Cell>> =
        found.iter().filter_map(|row| Some((int_of(&row[0])?, row))).collect();
    let is_there = |row: &Vec<Cell>| int_of(&row[0]).and_then(|id| found_by_id.get(&id)) == Some(&row);
    let count = |is_counted: &dyn Fn(i128) -> bool| {
        all.iter().filter(|(key, row)| key.is_some_and(|key| is_counted(rank(key))) && is_there(row)).count()
    };
    let better = ranks.iter().filter(|rank| **rank > worst).count();
    let equal = ranks.iter().filter(|rank| **rank == worst).count();
    assert_eq!(count(&|rank| rank > worst), better, "better rows than the last");
    let ties = if case.keeps_ties { equal } else { equal.min(k - better.min(k)) };
    assert_eq!(count(&|rank| rank == worst), ties, "rows like the last");
    let without_key = all.iter().filter(|(key, _)| key.is_none());
    let unknown = without_key.clone().count();
    let unknown_found = without_key.filter(|(_, row)| is_there(row)).count();
    let unknown_wanted = if case.keeps_ties && k > 0 { unknown } else { unknown.min(k) };
    assert_eq!(unknown_found, unknown_wanted, "rows without a key");
    assert_eq!(found.len(), better + ties + unknown_wanted, "no other rows");
}

#[test]
fn the_greatest_keys_of_ascending_row_groups_are_in_the_last_one_and_no_other_is_read() {
    let report = check(&case());
    let pipeline = &report.pipelines[0];
    assert_eq!((pipeline.row_groups_beyond_top, pipeline.rows_in), (11, 1500));
    assert_eq!(pipeline.row_groups_skipped, 11);
    assert!(report.lines().iter().any(|line| line.contains("skipped beyond the threshold: 11 row groups")));
    let ascending = check(&Case { is_descending: false, ..case() });
    assert_eq!((ascending.pipelines[0].row_groups_beyond_top, ascending.pipelines[0].rows_in), (11, 1500));
}

#[test]
fn any_number_of_rows_may_be_wanted() {
    for is_descending in [true, false] {
        for k in [0, 1, 499, 500, 501, 3000, u64::MAX] {
            for keeps_ties in [true, false] {
                check(&Case { k, is_descending, keeps_ties, row_group_rows: 500, rows: 1500, ..case() });
            }
        }
    }
}

#[test]
fn rows_without_a_key_come_whichever_end_they_are_sorted_to() {
    for is_descending in [true, false] {
        for keeps_ties in [true, false] {
            let by_quantity = Case { key: column(1), value: |row| int_of(&row[1]), ..case() };
            let report = check(&Case { is_descending, keeps_ties, ..by_quantity });
            assert_eq!(report.pipelines[0].row_groups_beyond_top, 0, "a row group with NULLs is always read");
        }
    }
}

#[test]
fn equal_keys_all_come_where_further_keys_decide_and_as_many_as_are_wanted_else() {
    let constant = Case { key: column(8), value: |row| int_of(&row[8]), never_null: vec![8], ..case() };
    check(&Case { keeps_ties: true, ..constant });
    let constant = Case { key: column(8), value: |row| int_of(&row[8]), never_null: vec![8], ..case() };
    let report = check(&constant);
    assert_eq!(report.pipelines[0].row_groups_beyond_top, 11, "as good as the first is no better");
}

#[test]
fn a_packed_column_without_nulls_is_compared_as_a_range() {
    for (key, value) in [
        (column(5), (|row| int_of(&row[5])) as fn(&[Cell]) -> Option<i128>),
        (Expr::Cast { input: Box::new(column(5)), to: Type::I64 }, |row| int_of(&row[5])),
    ] {
        for is_descending in [true, false] {
            for row_group_rows in [7, 1500] {
                let rows = if row_group_rows == 7 { 100 } else { 9000 };
                let key = key.clone();
                let case =
                    Case { key, value, never_null: vec![5], is_descending, row_group_rows, rows, ..case() };
                let report = check(&case);
                assert!(report.pipelines[0].row_groups_beyond_top > 0);
            }
        }
    }
}

#[test]
fn a_range_filter_and_a_threshold_on_the_same_column_both_hold() {
    let below = Expr::Compare { op: CompareOp::Lt, left: Box::new(column(5)), right: Box::new(int(700)) };
    for is_descending in [true, false] {
        let ops = vec![Op::Filter(below.clone())];
        let passes = |row: &[Cell]| int_of(&row[5]).is_some_and(|value| value < 700);
        let value = |row: &[Cell]| int_of(&row[5]);
        check(&Case { key: column(5), value, ops, passes, never_null: vec![5], is_descending, ..case() });
    }
}

#[test]
fn keys_may_be_computed_negative_and_decimal() {
    let negative = Expr::Arithmetic {
        op: ArithmeticOp::Subtract,
        left: Box::new(Expr::Literal(Literal::I64(5))),
        right: Box::new(column(0)),
    };
    for is_descending in [true, false] {
        let key = negative.clone();
        let value = |row: &[Cell]| int_of(&row[0]).map(|id| 5 - id);
        check(&Case { key, value, is_descending, ..case() });
        check(&Case { key: column(3), value: |row| int_of(&row[3]), is_descending, ..case() });
    }
}

#[test]
fn row_groups_of_7_rows_and_conditions_that_few_rows_pass_lose_nothing() {
    let few = Expr::Compare { op: CompareOp::Eq, left: Box::new(column(1)), right: Box::new(int(11)) };
    for is_descending in [true, false] {
        for filters in [Filters::Branching, Filters::Predicated] {
            let (ops, options) = (vec![Op::Filter(few.clone())], RuntimeOptions { filters, ..options() });
            let passes = |row: &[Cell]| row[1] == Cell::Int(11);
            check(&Case { ops, passes, row_group_rows: 7, rows: 400, is_descending, options, ..case() });
        }
    }
}

#[test]
fn other_morsels_and_room_that_is_too_small_give_the_same_rows() {
    let small = RuntimeOptions { overlap: false, morsel_bytes: 1, row_groups_max: 3, ..options() };
    check(&Case { options: small, ..case() });
    // More rows than there is room for at first pass before there is a threshold.
    check(&Case { row_group_rows: 100_000, rows: 100_000, k: 90_000, ..case() });
}

#[test]
fn the_key_may_come_from_a_hash_table() {
    let place = table(Codec::None, 1500, 4000);
    let (source, columns) = source(&runtime(options()), &place.table);
    let build = Pipeline {
        name: "build".into(),
        source: source.clone(),
        columns: columns.clone(),
        ops: Vec::new(),
        sink: Sink::Build { table: 0, keys: vec![column(0)], payload: vec![column(1)] },
    };
    let quantity = column(columns.len());
    let probe = Op::Probe { table: 0, keys: vec![column(0)], kind: ProbeKind::Inner, residual: None };
    let sink = Sink::Materialize {
        columns: vec![quantity.clone()],
        top: top(quantity, false, false, 20),
        order: None,
    };
    let mut plan = single(source, columns, vec![probe], sink);
    plan.pipelines.insert(0, build);
    plan.table_count = 1;
    let (rows, _) = run(options(), &plan);
    let mut expected: Vec<i128> = all_rows(&place.table).iter().filter_map(|row| int_of(&row[1])).collect();
    expected.sort_unstable();
    let mut found: Vec<i128> = sorted(&rows).iter().filter_map(|row| int_of(&row[0])).collect();
    found.sort_unstable();
    assert_eq!(found, expected[..20]);
    assert_eq!(rows.row_count, 40, "and as many without a key");
}

#[test]
fn rows_that_the_caller_brings_have_first_ones_too() {
    let values: Vec<i64> = (0..5000).map(|row| row * 7919 % 5003 - 2000).collect();
    let host_input = Rows {
        row_count: values.len(),
        columns: vec![RowColumn { values: RowValues::I64(values.clone()), valid: None }],
    };
    let bounds = Some(Bounds { min: -2000, max: 3003 });
    let columns = vec![Column { name: "v".into(), ty: Type::I64, is_nullable: false, bounds, text: None }];
    let sink =
        Sink::Materialize { columns: vec![column(0)], top: top(column(0), true, false, 3), order: None };
    let mut plan: Plan = single(Source::HostInput(0), columns, Vec::new(), sink);
    plan.host_input_count = 1;
    let (rows, _) = runtime(options()).run(&plan, vec![host_input], &CancelFlag::new()).unwrap();
    let mut expected: Vec<Vec<Cell>> = values.iter().map(|value| vec![Cell::Int((*value).into())]).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected[expected.len() - 3..]);
}

#[test]
fn a_key_that_is_no_integer_is_refused() {
    let place = table(Codec::None, 1500, 1500);
    let (source, columns) = source(&runtime(options()), &place.table);
    let sink =
        Sink::Materialize { columns: vec![column(0)], top: top(column(2), true, false, 3), order: None };
    let error = runtime(options())
        .run(&single(source, columns, Vec::new(), sink), Vec::new(), &CancelFlag::new())
        .unwrap_err();
    assert!(matches!(error.kind(), pelton_error::ErrorKind::Unsupported), "{error}");
}

#[test]
fn by_a_key_that_64_bits_do_not_hold_all_rows_come() {
    let place = table(Codec::None, 1500, 1500);
    let (source, mut columns) = source(&runtime(options()), &place.table);
    columns[3].bounds = None;
    let sink =
        Sink::Materialize { columns: vec![column(3)], top: top(column(3), true, false, 3), order: None };
    let (rows, _) = run(options(), &single(source, columns, Vec::new(), sink));
    let mut expected: Vec<Vec<Cell>> =
        all_rows(&place.table).into_iter().map(|row| vec![row[3].clone()]).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}
