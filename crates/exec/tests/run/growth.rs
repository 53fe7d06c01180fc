//! Sinks that are too small at first: they grow while rows come, no row is lost and none is taken twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_chunk::Codec;
use pelton_error::CancelFlag;
use pelton_exec::{Filters, MemoryTest, PipelineReport, RunReport, RuntimeOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, CompareOp, Expr, Literal, Op, Pipeline, Plan,
    ProbeKind, Sink, Source, TopK, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_store::Table;

use crate::fixture::{Place, table};
use crate::oracle::{
    Cell, all_rows, assert_same, column, has_three_devices, int, options, runtime, single, sort, sorted,
    source,
};

/// Rows of each of the two segments.
const ROWS: u64 = 3000;

fn fixture() -> Place {
    table(Codec::None, 500, ROWS)
}

/// Several morsels in flight, of some row groups each, and room for `rows` rows.
fn small(rows: u64) -> RuntimeOptions {
    RuntimeOptions { first_rows: Some(rows), row_groups_max: 3, ..options() }
}

/// All ways of running that must give the same: one morsel or several, branches or none, one hash for all keys, memory
/// that is refused once, groups that are spilled after each morsel.
fn ways() -> Vec<RuntimeOptions> {
    let predicated = |options| RuntimeOptions { filters: Filters::Predicated, ..options };
    vec![
        small(1),
        small(100),
        predicated(small(7)),
        RuntimeOptions { row_groups_max: 4096, ..small(5) },
        RuntimeOptions { overlap: false, ..small(5) },
        RuntimeOptions { equal_hashes: true, ..small(9) },
        RuntimeOptions { memory_test: MemoryTest::RefuseOnce, ..small(5) },
        RuntimeOptions { memory_test: MemoryTest::SpillAlways, ..small(5) },
    ]
}

/// By one worker, and by three, which must give the same.
fn run(options: RuntimeOptions, plan: &Plan) -> (Rows, RunReport) {
    let run = |options| runtime(options).run(plan, Vec::new(), &CancelFlag::new()).unwrap();
    let result = run(options.clone());
    if has_three_devices() {
        let (rows, _) = run(RuntimeOptions { more_devices: vec![1, 2], ..options });
        assert_same(&rows, &result.0, "three workers");
    }
    result
}

fn number(cell: &Cell) -> Option<i128> {
    if let Cell::Int(value) = cell { Some(*value) } else { None }
}

fn wide(expr: Expr) -> Expr {
    Expr::Cast { input: Box::new(expr), to: Type::I64 }
}

fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic { op, left: Box::new(left), right: Box::new(right) }
}

/// Rows waited, the sink grew, and each row counts once.
fn check_grown(report: &PipelineReport, rows_in: u64) {
    assert!(report.sink_grown > 0 && report.rows_waited > 0, "{report:?}");
    assert_eq!((report.rows_in, report.repeats), (rows_in, 0));
    let said =
        format!("{} grew {} times, {} rows waited", report.sink, report.sink_grown, report.rows_waited);
    assert!(report.lines().iter().any(|line| line.contains(&said)));
}

/// A key, as an expression and as what it is of a row of the fixture.
type Key = (Expr, fn(&[Cell]) -> Cell);

/// Groups of the rows whose quantity is below 40, by `keys`.
fn check_groups(keys: &[Key], options: RuntimeOptions) {
    let place = fixture();
    let (source, columns) = source(&runtime(options.clone()), &place.table);
    let of = |function, input: usize| Aggregate { function, input: Some(column(input)) };
    let aggregates = vec![
        Aggregate { function: AggregateFunction::Count, input: None },
        of(AggregateFunction::Sum, 3),
        of(AggregateFunction::Min, 1),
        of(AggregateFunction::Max, 0),
    ];
    let below = Expr::Compare { op: CompareOp::Lt, left: Box::new(column(1)), right: Box::new(int(40)) };
    let sink = Sink::Aggregate {
        keys: keys.iter().map(|(key, _)| key.clone()).collect(),
        aggregates,
        expected: Some(ROWS),
    };
    let (rows, report) = run(options, &single(source, columns, vec![Op::Filter(below)], sink));
    check_grown(&report.pipelines[0], 2 * ROWS);
    let mut groups: BTreeMap<String, (Vec<Cell>, Vec<Vec<Cell>>)> = BTreeMap::new();
    for row in all_rows(&place.table) {
        if number(&row[1]).is_none_or(|quantity| quantity >= 40) {
            continue;
        }
        let key: Vec<Cell> = keys.iter().map(|(_, key)| key(&row)).collect();
        groups.entry(format!("{key:?}")).or_insert((key, Vec::new())).1.push(row);
    }
    let state = |rows: &[Vec<Cell>]| {
        let values = |column: usize| rows.iter().filter_map(move |row| number(&row[column]));
        let cell = |value: Option<i128>| value.map_or(Cell::Null, Cell::Int);
        vec![
            Cell::Int(rows.len() as i128),
            cell(values(3).reduce(|a, b| a + b)),
            cell(values(1).min()),
            cell(values(0).max()),
        ]
    };
    let mut expected: Vec<Vec<Cell>> =
        groups.into_values().map(|(key, rows)| [key, state(&rows)].concat()).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

/// The row's number, times what makes it too many for groups by position.
fn spread() -> Key {
    let key = arithmetic(ArithmeticOp::Multiply, column(0), Expr::Literal(Literal::I64(1_000_003)));
    (key, |row| number(&row[0]).map_or(Cell::Null, |id| Cell::Int(id * 1_000_003)))
}

#[test]
fn hashed_groups_grow() {
    for options in ways() {
        check_groups(&[spread(), (column(7), |row| row[7].clone())], options);
    }
}

#[test]
fn groups_of_wide_keys_grow() {
    for options in ways() {
        let decimal: Key = (column(3), |row| row[3].clone());
        let price: Key = (column(2), |row| row[2].clone());
        check_groups(&[spread(), decimal, price, (column(6), |row| row[6].clone())], options);
    }
}

/// Builds the rows of the table by the column `build_key`, and probes them with those of the column `probe_key`.
fn join(table: &Arc<Table>, build_key: Expr, probe_key: Expr, kind: ProbeKind, sink: Sink) -> Plan {
    let (source, columns) = source(&runtime(options()), table);
    let build = Pipeline {
        name: "build".into(),
        source: source.clone(),
        columns: columns.clone(),
        ops: Vec::new(),
        sink: Sink::Build { table: 0, keys: vec![build_key], payload: vec![column(0), column(1)] },
    };
    let below = Expr::Compare { op: CompareOp::Lt, left: Box::new(column(1)), right: Box::new(int(20)) };
    let probe = Op::Probe { table: 0, keys: vec![probe_key], kind, residual: None };
    let mut plan = single(source, columns, vec![Op::Filter(below), probe], sink);
    plan.pipelines.insert(0, build);
    plan.table_count = 1;
    plan
}

/// Pairs of a row whose quantity is below 20 and a row that it matches, if any.
fn pairs(
    rows: &[Vec<Cell>],
    key: impl Fn(&[Cell]) -> i128,
    kind: ProbeKind,
) -> Vec<(&Vec<Cell>, Option<&Vec<Cell>>)> {
    let mut built: BTreeMap<i128, Vec<&Vec<Cell>>> = BTreeMap::new();
    rows.iter().for_each(|row| built.entry(key(row)).or_default().push(row));
    let mut pairs = Vec::new();
    for row in rows.iter().filter(|row| number(&row[1]).is_some_and(|quantity| quantity < 20)) {
        match built.get(&(key(row) + 1)) {
            Some(matches) => pairs.extend(matches.iter().map(|other| (row, Some(*other)))),
            None if kind == ProbeKind::Outer => pairs.push((row, None)),
            None => {}
        }
    }
    pairs
}

/// A key of too many values for a table by position.
fn hashed(key: Expr) -> Expr {
    arithmetic(ArithmeticOp::Multiply, wide(key), Expr::Literal(Literal::I64(1 << 20)))
}

/// Column `key`, so much greater that it is the next key.
fn next(key: usize) -> Expr {
    arithmetic(ArithmeticOp::Add, wide(column(key)), Expr::Literal(Literal::I64(step(key))))
}

/// What lies between the keys in column `key`: each row has its own `id`, five rows share a `plain`.
fn step(key: usize) -> i64 {
    if key == 0 { 3 } else { 1 }
}

fn key_of(key: usize) -> impl Fn(&[Cell]) -> i128 {
    move |row| number(&row[key]).unwrap() / i128::from(step(key))
}

/// Each row beside the rows with the next key.
fn check_join(key: usize, kind: ProbeKind, top: Option<TopK>, options: RuntimeOptions) {
    let place = fixture();
    let count = crate::fixture::READABLE.len();
    let output = vec![column(0), column(count), column(count + 1)];
    let row_count = top.as_ref().map(|top| top.row_count as usize);
    let sink = Sink::Materialize { columns: output, top, order: None };
    let plan = join(&place.table, hashed(column(key)), hashed(next(key)), kind, sink);
    let (rows, report) = run(options, &plan);
    check_grown(&report.pipelines[0], 2 * ROWS);
    check_grown(&report.pipelines[1], 2 * ROWS);
    let all = all_rows(&place.table);
    let mut expected: Vec<Vec<Cell>> = pairs(&all, key_of(key), kind)
        .into_iter()
        .map(|(row, other)| {
            let other = |column: usize| other.map_or(Cell::Null, |other| other[column].clone());
            vec![row[0].clone(), other(0), other(1)]
        })
        .collect();
    sort(&mut expected);
    assert!(expected.len() > 1000);
    let Some(row_count) = row_count else {
        assert_eq!(sorted(&rows), expected);
        return;
    };
    // The first rows and all that are like the last of them.
    expected.sort_by(|a, b| a[1].partial_cmp(&b[1]).expect("numbers"));
    let last = expected[row_count - 1][1].clone();
    expected.retain(|row| row[1] <= last);
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn tables_and_rows_of_a_join_with_unique_keys_grow() {
    for kind in [ProbeKind::Inner, ProbeKind::Outer] {
        for options in ways() {
            check_join(0, kind, None, options);
        }
    }
}

#[test]
fn each_match_comes_once_where_a_row_has_several() {
    for kind in [ProbeKind::Inner, ProbeKind::Outer] {
        for options in ways() {
            check_join(5, kind, None, options);
        }
    }
}

#[test]
fn the_first_rows_of_a_join_come_through_little_room() {
    for filters in [Filters::Branching, Filters::Predicated] {
        // By a column that no zone map knows of.
        let key = column(crate::fixture::READABLE.len());
        let top = TopK { key, is_descending: false, keeps_ties: true, row_count: 500 };
        let options = RuntimeOptions { filters, row_groups_max: 4096, ..small(20) };
        check_join(5, ProbeKind::Inner, Some(top), options);
    }
}

/// Groups of the pairs of a join, by keys of both sides.
fn check_groups_of_join(is_wide: bool, options: RuntimeOptions) {
    let place = fixture();
    let count = crate::fixture::READABLE.len();
    let other = arithmetic(ArithmeticOp::Multiply, wide(column(count)), Expr::Literal(Literal::I64(1 << 20)));
    let mut keys = vec![other];
    keys.extend(is_wide.then(|| column(3)));
    let aggregates = vec![
        Aggregate { function: AggregateFunction::Count, input: None },
        Aggregate { function: AggregateFunction::Sum, input: Some(column(0)) },
    ];
    let sink = Sink::Aggregate { keys: keys.clone(), aggregates, expected: None };
    let plan = join(&place.table, hashed(column(5)), hashed(next(5)), ProbeKind::Inner, sink);
    let (rows, report) = run(options, &plan);
    check_grown(&report.pipelines[1], 2 * ROWS);
    let all = all_rows(&place.table);
    let mut groups: BTreeMap<(i128, Option<i128>), (i128, i128)> = BTreeMap::new();
    for (row, other) in pairs(&all, key_of(5), ProbeKind::Inner) {
        let key = number(&other.unwrap()[0]).unwrap() << 20;
        let group = groups.entry((key, number(&row[3]).filter(|_| is_wide))).or_default();
        *group = (group.0 + 1, group.1 + number(&row[0]).unwrap());
    }
    let cells = |((first, second), (count, sum)): ((i128, Option<i128>), (i128, i128))| {
        [Some(first), second, Some(count), Some(sum)].into_iter().flatten().map(Cell::Int).collect()
    };
    let mut expected: Vec<Vec<Cell>> = groups.into_iter().map(cells).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn groups_of_a_join_with_several_matches_count_each_once() {
    for is_wide in [false, true] {
        for options in ways() {
            check_groups_of_join(is_wide, options);
        }
    }
}

/// The pairs of a join as another table, which a third pass goes through.
fn check_build_of_join(options: RuntimeOptions) {
    let place = fixture();
    let count = crate::fixture::READABLE.len();
    let sink =
        Sink::Build { table: 1, keys: vec![hashed(column(count))], payload: vec![column(0), column(1)] };
    let mut plan = join(&place.table, hashed(column(5)), hashed(next(5)), ProbeKind::Inner, sink);
    let (source, columns) = source(&runtime(options.clone()), &place.table);
    let probe = Op::Probe { table: 1, keys: vec![hashed(column(0))], kind: ProbeKind::Inner, residual: None };
    let output = vec![column(0), column(count), column(count + 1)];
    plan.pipelines.push(Pipeline {
        name: "last".into(),
        source,
        columns,
        ops: vec![probe],
        sink: Sink::Materialize { columns: output, top: None, order: None },
    });
    plan.table_count = 2;
    let (rows, report) = run(options, &plan);
    for pipeline in &report.pipelines {
        check_grown(pipeline, 2 * ROWS);
    }
    let all = all_rows(&place.table);
    let pairs = pairs(&all, key_of(5), ProbeKind::Inner);
    let mut expected: Vec<Vec<Cell>> = pairs
        .into_iter()
        .map(|(row, other)| vec![other.unwrap()[0].clone(), row[0].clone(), row[1].clone()])
        .collect();
    sort(&mut expected);
    assert_eq!(report.pipelines[1].rows_out, expected.len() as u64);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn tables_of_more_rows_than_were_scanned_grow() {
    for options in ways() {
        check_build_of_join(options);
    }
}

#[test]
fn groups_that_are_read_again_grow_in_both_passes() {
    let place = fixture();
    for options in ways() {
        let (source, columns) = source(&runtime(options.clone()), &place.table);
        let count = Aggregate { function: AggregateFunction::Count, input: None };
        let sink =
            |key: Expr| Sink::Aggregate { keys: vec![key], aggregates: vec![count.clone()], expected: None };
        let mut plan = single(source, columns.clone(), Vec::new(), sink(spread().0));
        let half = Expr::FloorDivide { input: Box::new(column(0)), by: 1_000_003 * 6 };
        let half = arithmetic(ArithmeticOp::Multiply, half, Expr::Literal(Literal::I64(1_000_003)));
        plan.pipelines.push(Pipeline {
            name: "again".into(),
            source: Source::Groups(0),
            columns: columns[..2].to_vec(),
            ops: Vec::new(),
            sink: sink(half),
        });
        let (rows, report) = run(options, &plan);
        report.pipelines.iter().for_each(|pipeline| check_grown(pipeline, 2 * ROWS));
        let mut groups: BTreeMap<i128, i128> = BTreeMap::new();
        for row in all_rows(&place.table) {
            *groups.entry(number(&row[0]).unwrap() / 6 * 1_000_003).or_default() += 1;
        }
        let expected: Vec<Vec<Cell>> =
            groups.into_iter().map(|(key, count)| vec![Cell::Int(key), Cell::Int(count)]).collect();
        assert_eq!(sorted(&rows), expected);
    }
}

/// Rows that come out of a join of as many rows as it is given, all of one key.
#[test]
fn a_join_that_gives_many_more_rows_than_memory_holds_streams_through_bounded_room() {
    const SIDE: usize = 1800;
    let rows = Rows {
        row_count: SIDE,
        columns: vec![
            RowColumn { values: RowValues::I64(vec![7 << 40; SIDE]), valid: None },
            RowColumn { values: RowValues::I64((0..SIDE as i64).collect()), valid: None },
        ],
    };
    let column_of = |name: &str, max: i128| Column {
        name: name.into(),
        ty: Type::I64,
        is_nullable: false,
        bounds: Some(Bounds { min: 0, max }),
        text: None,
    };
    let columns = vec![column_of("key", 1 << 50), column_of("number", SIDE as i128)];
    let probe = Op::Probe { table: 0, keys: vec![column(0)], kind: ProbeKind::Inner, residual: None };
    let sink = Sink::Materialize { columns: vec![column(1), column(2)], top: None, order: None };
    let mut plan = single(Source::HostInput(0), columns.clone(), vec![probe], sink);
    let build = Sink::Build { table: 0, keys: vec![column(0)], payload: vec![column(1)] };
    let build = Pipeline { sink: build, ops: Vec::new(), name: "build".into(), ..plan.pipelines[0].clone() };
    plan.pipelines.insert(0, build);
    (plan.table_count, plan.host_input_count) = (1, 1);
    // All rows at once would take three times as much.
    let options = RuntimeOptions { device_memory_limit_bytes: Some(20 << 20), ..options() };
    let (found, report) = runtime(options).run(&plan, vec![rows], &CancelFlag::new()).unwrap();
    assert!(report.pipelines[1].rows_waited > 0 && report.pipelines[1].state_bytes < 20 << 20);
    assert_eq!((report.pipelines[1].rows_in, found.row_count), (SIDE as u64, SIDE * SIDE));
    let [RowValues::I64(left), RowValues::I64(right)] = [0, 1].map(|index| &found.columns[index].values)
    else {
        panic!("numbers")
    };
    let mut pairs: Vec<i64> =
        left.iter().zip(right).map(|(left, right)| left * SIDE as i64 + right).collect();
    pairs.sort_unstable();
    assert!(pairs.into_iter().eq(0..(SIDE * SIDE) as i64));
}

/// Morsels of many vectors on all streams at once, over what is first too small and then not.
#[test]
fn many_rows_in_many_morsels_grow_groups_and_tables_alike() {
    let place = table(Codec::None, 20_000, 200_000);
    for first in [1000, 60_000] {
        let options = RuntimeOptions { first_rows: Some(first), row_groups_max: 1, ..options() };
        let (source, columns) = source(&runtime(options.clone()), &place.table);
        let build = Sink::Build { table: 0, keys: vec![hashed(column(0))], payload: vec![column(3)] };
        let probe =
            Op::Probe { table: 0, keys: vec![hashed(column(0))], kind: ProbeKind::Inner, residual: None };
        let sum = Aggregate {
            function: AggregateFunction::Sum,
            input: Some(column(crate::fixture::READABLE.len())),
        };
        let sink = Sink::Aggregate { keys: vec![spread().0], aggregates: vec![sum], expected: None };
        let mut plan = single(source, columns, vec![probe], sink);
        let build = Pipeline { sink: build, ops: Vec::new(), ..plan.pipelines[0].clone() };
        plan.pipelines.insert(0, build);
        plan.table_count = 1;
        let (rows, report) = run(options, &plan);
        report.pipelines.iter().for_each(|pipeline| check_grown(pipeline, 400_000));
        let expected = (0..400_000).map(|row| vec![(1_000_000 + row * 3) * 1_000_003, row * 1_000_003]);
        let expected: Vec<Vec<Cell>> = expected.map(|row| row.into_iter().map(Cell::Int).collect()).collect();
        assert_eq!(sorted(&rows), expected);
    }
}

#[test]
fn a_table_by_position_ends_at_the_first_morsel_with_a_key_that_is_there_already() {
    let place = fixture();
    let without_cache = RuntimeOptions { device_cache_bytes: Some(0), row_groups_max: 1, ..options() };
    let report_of = |key: Expr, options: &RuntimeOptions| {
        let sink = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
        let mut plan = join(&place.table, key.clone(), key, ProbeKind::Semi, sink);
        // A condition on the match: more is asked than whether there is the key.
        for op in plan.pipelines.iter_mut().flat_map(|pipeline| &mut pipeline.ops) {
            if let Op::Probe { residual, .. } = op {
                *residual = Some(Expr::Literal(Literal::Bool(true)));
            }
        }
        let (rows, report) = run(options.clone(), &plan);
        let expected =
            all_rows(&place.table).iter().filter(|row| number(&row[1]).is_some_and(|q| q < 20)).count();
        assert_eq!(rows.row_count, expected);
        report.pipelines[0].clone()
    };
    let hashed = report_of(hashed(column(5)), &without_cache);
    for options in [without_cache.clone(), RuntimeOptions { overlap: false, ..without_cache }] {
        let direct = report_of(column(5), &options);
        assert_eq!((direct.repeats, direct.rows_in), (1, 2 * ROWS));
        assert!(
            direct.link_bytes < hashed.link_bytes * 3 / 2 + 1,
            "{} of {}",
            direct.link_bytes,
            hashed.link_bytes
        );
    }
}
