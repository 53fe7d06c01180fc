//! Aggregates: without keys, in shared memory, by position, by hashing.

use std::collections::BTreeMap;

use pelton_chunk::Codec;
use pelton_error::CancelFlag;
use pelton_exec::RuntimeOptions;
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, CompareOp, Expr, Literal, Op, Sink, Source,
    Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use crate::fixture::table;
use crate::oracle::{Cell, all_rows, column, int, options, run, runtime, single, sort, sorted, source};

fn aggregates() -> Vec<Aggregate> {
    use AggregateFunction::*;
    let of = |function, input: usize| Aggregate { function, input: Some(column(input)) };
    vec![
        Aggregate { function: Count, input: None },
        of(Count, 1),
        of(Sum, 1),
        of(Min, 1),
        of(Max, 0),
        of(Sum, 3),
        of(Sum, 0),
    ]
}

fn number(cell: &Cell) -> Option<i128> {
    if let Cell::Int(value) = cell { Some(*value) } else { None }
}

fn expected(rows: &[Vec<Cell>]) -> Vec<Cell> {
    let values = |column: usize| rows.iter().filter_map(move |row| number(&row[column]));
    let cell = |value: Option<i128>| value.map_or(Cell::Null, Cell::Int);
    let sum = |column: usize| cell(values(column).reduce(|a, b| a + b));
    vec![
        Cell::Int(rows.len() as i128),
        Cell::Int(values(1).count() as i128),
        sum(1),
        cell(values(1).min()),
        cell(values(0).max()),
        sum(3),
        sum(0),
    ]
}

fn check_groups(keys: &[usize], options: RuntimeOptions) {
    let place = table(Codec::None, 2048, 9000);
    let (source, columns) = source(&runtime(options.clone()), &place.table);
    let sink = Sink::Aggregate {
        keys: keys.iter().map(|key| column(*key)).collect(),
        aggregates: aggregates(),
        expected: None,
    };
    let (rows, _) = run(options, &single(source, columns, Vec::new(), sink));
    let mut groups: BTreeMap<String, (Vec<Cell>, Vec<Vec<Cell>>)> = BTreeMap::new();
    for row in all_rows(&place.table) {
        let key: Vec<Cell> = keys.iter().map(|key| row[*key].clone()).collect();
        groups.entry(format!("{key:?}")).or_insert((key, Vec::new())).1.push(row);
    }
    let mut expected: Vec<Vec<Cell>> =
        groups.into_values().map(|(key, rows)| [key, expected(&rows)].concat()).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn one_group_without_keys() {
    check_groups(&[], options());
}

#[test]
fn no_rows_make_one_group_without_keys() {
    let place = table(Codec::None, 2048, 3000);
    let (source, columns) = source(&runtime(options()), &place.table);
    let never = pelton_pipeline::ir::Op::Filter(Expr::Literal(pelton_pipeline::ir::Literal::Bool(false)));
    let sink = Sink::Aggregate { keys: Vec::new(), aggregates: aggregates(), expected: None };
    let (rows, _) = run(options(), &single(source, columns, vec![never], sink));
    assert_eq!(sorted(&rows), [expected(&[])]);
}

#[test]
fn few_groups_of_nullable_text_and_flags() {
    check_groups(&[6, 4], options());
}

#[test]
fn groups_of_a_column_that_is_always_null() {
    check_groups(&[9], options());
}

#[test]
fn some_groups_by_position() {
    check_groups(&[7, 1, 6], options());
}

#[test]
fn many_groups_by_hashing() {
    check_groups(&[0, 1], options());
}

#[test]
fn groups_whose_keys_all_collide() {
    check_groups(&[0, 7], RuntimeOptions { equal_hashes: true, ..options() });
}

/// More groups than there are places at first: what finds no place must not look through all of them.
#[test]
fn more_groups_than_expected_are_made_room_for() {
    const GROUPS: i64 = 2_500_000;
    let roomy = RuntimeOptions { device_memory_limit_bytes: Some(1 << 30), ..options() };
    let keys: Vec<i64> = (0..GROUPS).map(|group| group * 1_000_003).collect();
    let rows = Rows {
        row_count: keys.len(),
        columns: vec![RowColumn { values: RowValues::I64(keys.clone()), valid: None }],
    };
    let columns = vec![Column {
        name: "key".into(),
        ty: Type::I64,
        is_nullable: false,
        bounds: Some(Bounds { min: 0, max: i128::from(GROUPS) * 1_000_003 }),
        text: None,
    }];
    for (expected, grown) in [(None, 1), (Some(GROUPS as u64), 0)] {
        let count = Aggregate { function: AggregateFunction::Count, input: None };
        let sink = Sink::Aggregate { keys: vec![column(0)], aggregates: vec![count], expected };
        let mut plan = single(Source::HostInput(0), columns.clone(), Vec::new(), sink);
        plan.host_input_count = 1;
        let (found, report) =
            runtime(roomy.clone()).run(&plan, vec![rows.clone()], &CancelFlag::new()).unwrap();
        let pipeline = &report.pipelines[0];
        assert_eq!((pipeline.repeats, pipeline.sink_grown, pipeline.rows_in), (0, grown, GROUPS as u64));
        assert_eq!(pipeline.rows_waited > 0, grown > 0);
        let RowValues::I64(found) = &found.columns[0].values else { panic!("keys are 64-bit integers") };
        let mut found = found.clone();
        found.sort_unstable();
        assert_eq!(found, keys);
    }
}

/// All possible keys take less memory by position than those that are expected take by hashing.
#[test]
fn many_groups_of_a_dense_key_are_by_position() {
    const KEYS: i64 = 5_000_000;
    let roomy = RuntimeOptions { device_memory_limit_bytes: Some(1 << 30), ..options() };
    let keys: Vec<i64> = (0..KEYS).rev().filter(|key| key % 3 != 0).collect();
    let of = |function| Aggregate { function, input: Some(column(0)) };
    let aggregates = vec![of(AggregateFunction::Min), of(AggregateFunction::Max)];
    let columns = vec![Column {
        name: "key".into(),
        ty: Type::I64,
        is_nullable: false,
        bounds: Some(Bounds { min: 0, max: i128::from(KEYS) }),
        text: None,
    }];
    let state_bytes = KEYS as u64 * 3 * 8;
    for (expected, is_by_position) in [(None, false), (Some(keys.len() as u64), true)] {
        let sink = Sink::Aggregate { keys: vec![column(0)], aggregates: aggregates.clone(), expected };
        let mut plan = single(Source::HostInput(0), columns.clone(), Vec::new(), sink);
        plan.host_input_count = 1;
        let values = RowColumn { values: RowValues::I64(keys.clone()), valid: None };
        let rows = Rows { row_count: keys.len(), columns: vec![values] };
        let (found, report) = runtime(roomy.clone()).run(&plan, vec![rows], &CancelFlag::new()).unwrap();
        let taken = report.pipelines[0].state_bytes;
        assert_eq!((state_bytes..state_bytes + 4096).contains(&taken), is_by_position, "{taken} bytes");
        let [found, min, max] = [0, 1, 2].map(|column| match &found.columns[column].values {
            RowValues::I64(values) => values.clone(),
            _ => panic!("keys are 64-bit integers"),
        });
        assert!(min == found && max == found);
        let mut found = found;
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert!(found == keys, "{} groups", found.len());
    }
}

#[test]
fn rows_that_fail_conditions_add_nothing_to_one_group() {
    let place = table(Codec::None, 2048, 9000);
    let (source, columns) = source(&runtime(options()), &place.table);
    let between = |op, value| Expr::Compare { op, left: Box::new(column(1)), right: Box::new(int(value)) };
    let twice = Expr::Arithmetic {
        op: ArithmeticOp::Add,
        left: Box::new(Expr::Cast { input: Box::new(column(1)), to: Type::I64 }),
        right: Box::new(Expr::Cast { input: Box::new(column(5)), to: Type::I64 }),
    };
    let large = Expr::Compare {
        op: CompareOp::Gt,
        left: Box::new(column(columns.len())),
        right: Box::new(Expr::Literal(Literal::I64(500))),
    };
    let ops = vec![
        Op::Filter(Expr::And(vec![between(CompareOp::Ge, 5), between(CompareOp::Lt, 20), column(4)])),
        Op::Compute { name: "sum".into(), value: twice },
        Op::Filter(large),
    ];
    let sink = Sink::Aggregate { keys: Vec::new(), aggregates: aggregates(), expected: None };
    let (rows, _) = run(options(), &single(source, columns, ops, sink));
    let passes = |row: &Vec<Cell>| {
        let (quantity, plain) = (number(&row[1]), number(&row[5]));
        let is_between = quantity.is_some_and(|value| (5..20).contains(&value));
        is_between && row[4] == Cell::Int(1) && quantity.zip(plain).is_some_and(|(a, b)| a + b > 500)
    };
    let passing: Vec<Vec<Cell>> = all_rows(&place.table).into_iter().filter(passes).collect();
    assert!(passing.len() > 100);
    assert_eq!(sorted(&rows), [expected(&passing)]);
}
