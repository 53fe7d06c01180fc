//! Rows in an order: by all types, whatever memory there is, from tables, groups and rows that a caller gives.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};

use pelton_chunk::Codec;
use pelton_error::{CancelFlag, ErrorKind};
use pelton_exec::{MemoryTest, RowsPart, RunReport, RunWith, RuntimeOptions, TakeRows};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, Column, CompareOp, Expr, Inputs, Op, Pipeline, Plan, RowOrder,
    Sink, SortKey, Source, Type,
};
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows};

use crate::fixture::table;
use crate::oracle::{
    Cell, all_rows, as_they_come, column, has_three_devices, int, options, run, runtime, single, source,
};

/// A key: the number of the column, whether the greatest come first, whether NULL does.
type Key = (usize, bool, bool);

fn order(keys: &[Key], row_count: Option<u64>) -> Option<RowOrder> {
    let key = |&(index, is_descending, nulls_first): &Key| SortKey {
        key: column(index),
        is_descending,
        nulls_first,
        text: None,
    };
    Some(RowOrder { keys: keys.iter().map(key).collect(), row_count, expected: None, windows: None })
}

/// By the keys alone: doubles by their bits, as in the total order.
fn compare(keys: &[Key], a: &[Cell], b: &[Cell]) -> Ordering {
    let orders = keys.iter().map(|&(index, is_descending, nulls_first)| {
        let (a, b) = (&a[index], &b[index]);
        let by_value = match (a, b) {
            (Cell::Null, Cell::Null) => return Ordering::Equal,
            (Cell::Null, _) => return if nulls_first { Ordering::Less } else { Ordering::Greater },
            (_, Cell::Null) => return if nulls_first { Ordering::Greater } else { Ordering::Less },
            (Cell::Int(a), Cell::Int(b)) => a.cmp(b),
            (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            _ => panic!("{a:?} beside {b:?}"),
        };
        if is_descending { by_value.reverse() } else { by_value }
    });
    orders.fold(Ordering::Equal, Ordering::then)
}

/// Rows told apart by bits.
fn bits(row: &[Cell]) -> String {
    let bits = |cell: &Cell| match cell {
        Cell::Float(value) => format!("{:x}", value.to_bits()),
        other => format!("{other:?}"),
    };
    row.iter().map(bits).collect::<Vec<_>>().join(" ")
}

/// That `found` are the first rows of `all` by `keys`, of equal ones any.
fn assert_in_order(found: &[Vec<Cell>], all: &[Vec<Cell>], keys: &[Key], row_count: Option<u64>, what: &str) {
    let mut expected = all.to_vec();
    expected.sort_by(|a, b| compare(keys, a, b));
    expected.truncate(row_count.map_or(usize::MAX, |rows| rows as usize));
    assert_eq!(found.len(), expected.len(), "{what}: {keys:?}");
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(compare(keys, found, expected), Ordering::Equal, "{what}: {keys:?}: row {at} {found:?}");
    }
    let sorted = |rows: &[Vec<Cell>]| {
        let mut rows: Vec<String> = rows.iter().map(|row| bits(row)).collect();
        rows.sort();
        rows
    };
    let (found, all) = (sorted(found), sorted(all));
    match row_count {
        None => assert_eq!(found, all, "{what}: {keys:?}"),
        Some(_) => found.iter().for_each(|row| assert!(all.binary_search(row).is_ok(), "{what}: {row}")),
    }
}

/// Takes rows in the order in which they come.
#[derive(Default)]
struct Taker(Mutex<Vec<Vec<Cell>>>);

impl TakeRows for Taker {
    fn take(&self, rows: RowsPart) -> pelton_error::Result<()> {
        self.0.lock().unwrap().extend(as_they_come(&rows.into_rows()?));
        Ok(())
    }

    fn is_full(&self) -> bool {
        false
    }

    fn part_bytes(&self) -> usize {
        1 << 10
    }
}

/// Ways to run a plan, each with who sorts its rows.
fn ways() -> Vec<(&'static str, RuntimeOptions, &'static str)> {
    let few = RuntimeOptions { first_rows: Some(1), ..options() };
    let refused = RuntimeOptions { memory_test: MemoryTest::RefuseOnce, ..options() };
    let spilled = RuntimeOptions { memory_test: MemoryTest::SpillAlways, ..options() };
    let mut ways = vec![
        ("default", options(), "device"),
        ("room for one row", few, "device"),
        ("each array refused once", refused, "device"),
        ("spilled after each morsel", spilled.clone(), "device"),
        ("merged in parts of few rows", RuntimeOptions { first_rows: Some(1), ..spilled }, "device"),
    ];
    if has_three_devices() {
        let three = RuntimeOptions { more_devices: vec![1, 2], ..options() };
        let spilled = RuntimeOptions { memory_test: MemoryTest::SpillAlways, ..three.clone() };
        let refused = RuntimeOptions { memory_test: MemoryTest::RefuseOnce, ..three.clone() };
        let few = RuntimeOptions { first_rows: Some(1), ..three.clone() };
        ways.push(("three devices", three, "device"));
        ways.push(("three devices, spilled after each morsel", spilled, "device"));
        ways.push(("three devices, each array refused once", refused, "device"));
        ways.push(("three devices, merged in parts of few rows", few, "device"));
    }
    ways
}

/// Runs `plan`, which ends in rows by `keys`, in all ways, and holds them against `all`.
fn check(plan: &Plan, inputs: &[Rows], all: &[Vec<Cell>], keys: &[Key], row_count: Option<u64>) {
    for (what, options, by) in ways() {
        for gives_out in [false, true] {
            let taker = Taker::default();
            let rows_taker = gives_out.then_some(&taker as &dyn TakeRows);
            let with = RunWith { rows_taker, ..RunWith::default() };
            let given = Inputs { host_inputs: inputs.to_vec(), parameters: Vec::new() };
            let (rows, report) =
                runtime(options.clone()).run_with(plan, given, &CancelFlag::new(), with).unwrap();
            let mut found = taker.0.into_inner().unwrap();
            assert!(found.is_empty() || rows.row_count == 0, "given out, or all in the end");
            found.extend(as_they_come(&rows));
            assert_in_order(&found, all, keys, row_count, what);
            let last: &pelton_exec::PipelineReport = report.pipelines.last().unwrap();
            let is_divided = !last.rows_by_worker.is_empty();
            if all.is_empty() {
                continue;
            }
            assert_eq!((last.sorted_by, last.sorted_rows), (by, all.len() as u64), "{what}: {keys:?}");
            assert_eq!(last.rows_out, found.len() as u64, "{what}");
            let spills = options.memory_test == MemoryTest::SpillAlways;
            assert_eq!(last.sorted_runs > 0, spills || is_divided, "{what}");
            if is_divided {
                assert_eq!(last.run_bytes, last.run_bytes_by_worker.iter().sum::<u64>(), "{what}");
            }
            let in_order = last.ordered_bytes > 0;
            assert_eq!(in_order, !(spills || is_divided || found.is_empty()), "{what}: {:?}", last.lines());
        }
    }
}

/// Rows of the fixture's table, those that pass `ops`, by `keys`.
fn check_table(
    (row_group_rows, rows): (u32, u64),
    ops: Vec<Op>,
    passes: fn(&[Cell]) -> bool,
    keys: &[Key],
    row_count: Option<u64>,
) {
    let place = table(Codec::None, row_group_rows, rows);
    let (source, columns) = source(&runtime(options()), &place.table);
    let all = (0..columns.len()).map(column).collect();
    let sink = Sink::Materialize { columns: all, top: None, order: order(keys, row_count) };
    let rows: Vec<Vec<Cell>> = all_rows(&place.table).into_iter().filter(|row| passes(row)).collect();
    check(&single(source, columns, ops, sink), &[], &rows, keys, row_count);
}

#[test]
fn rows_come_by_columns_of_all_types() {
    for index in [1, 2, 3, 6] {
        let (is_descending, nulls_first) = (index % 2 == 0, index % 3 == 0);
        check_table((900, 2500), Vec::new(), |_| true, &[(index, is_descending, nulls_first)], None);
    }
}

#[test]
fn further_keys_decide_between_equal_ones() {
    let keys: [&[Key]; 4] = [
        &[(4, true, false), (1, false, true), (0, true, true)],
        &[(6, false, false), (7, true, true), (2, true, false)],
        &[(3, true, true), (2, false, false), (0, false, false), (1, true, true)],
        // A constant, and nothing but NULL: all rows are equal.
        &[(8, true, true), (9, false, false)],
    ];
    for keys in keys {
        check_table((700, 2100), Vec::new(), |_| true, keys, None);
    }
}

#[test]
fn conditions_leave_few_rows_or_none() {
    let keeps = |most: i32| {
        let (left, right) = (Box::new(column(1)), Box::new(int(most)));
        vec![Op::Filter(Expr::Compare { op: CompareOp::Lt, left, right })]
    };
    let below_two = |row: &[Cell]| matches!(row[1], Cell::Int(value) if value < 2);
    check_table((900, 2500), keeps(2), below_two, &[(2, true, true), (0, false, false)], None);
    check_table((900, 2500), keeps(-3), |_| false, &[(2, true, true)], None);
}

#[test]
fn the_first_rows_are_those_of_all_in_order() {
    for wanted in [0, 1, 63, 64, 1000, 2499, 2500, 1 << 40] {
        check_table((900, 2500), Vec::new(), |_| true, &[(1, false, false), (0, true, false)], Some(wanted));
    }
}

#[test]
fn tables_of_few_rows_come_in_order() {
    for rows in [1, 2, 31, 1023, 1024, 1025] {
        check_table((1024, rows), Vec::new(), |_| true, &[(1, true, true), (0, true, false)], None);
    }
}

/// Rows of extremes that a caller gives.
fn extremes() -> (Vec<Column>, Rows) {
    let f64s = [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::MIN,
        f64::MAX,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        1.5,
        -1.5,
        1.5,
        7.0,
    ];
    let i64s = [
        i64::MIN,
        i64::MAX,
        0,
        -1,
        1,
        i64::MIN + 1,
        i64::MAX - 1,
        42,
        -42,
        0,
        i64::MIN,
        i64::MAX,
        7,
        7,
        7,
        7,
    ];
    let i128s = i64s.map(|value| i128::from(value) * (i128::MAX / i128::from(i64::MAX)));
    let i32s = i64s.map(|value| (value >> 32) as i32);
    let bools = i64s.map(|value| u8::from(value % 2 == 0));
    let texts = ["b", "", "a", "aa", "B", "ab", "\u{e9}", "z", "\u{0}"];
    let mut dictionary = Dictionary::default();
    texts.iter().for_each(|text| dictionary.entries.push(text.as_bytes()).unwrap());
    let ids = (0..16).map(|row| (row * 7 % texts.len()) as u32).collect();
    let valid = |modulus: usize| Some((0..16).map(|row| row % modulus != 1).collect::<Vec<bool>>());
    let dictionary = Arc::new(dictionary);
    let columns = vec![
        RowColumn { values: RowValues::F64(f64s.to_vec()), valid: None },
        RowColumn { values: RowValues::F64(f64s.to_vec()), valid: valid(5) },
        RowColumn { values: RowValues::I64(i64s.to_vec()), valid: None },
        RowColumn { values: RowValues::I64(i64s.to_vec()), valid: valid(6) },
        RowColumn { values: RowValues::I128(i128s.to_vec()), valid: None },
        RowColumn { values: RowValues::I128(i128s.to_vec()), valid: valid(7) },
        RowColumn { values: RowValues::I32(i32s.to_vec()), valid: valid(4) },
        RowColumn { values: RowValues::Bool(bools.to_vec()), valid: valid(3) },
        RowColumn { values: RowValues::Text { ids, dictionary: Arc::clone(&dictionary) }, valid: valid(8) },
    ];
    let bounds = |ty| match ty {
        Type::I32 => Some(Bounds { min: i32::MIN.into(), max: i32::MAX.into() }),
        Type::I64 => Some(Bounds { min: i64::MIN.into(), max: i64::MAX.into() }),
        _ => None,
    };
    let described = columns.iter().enumerate().map(|(index, column)| {
        let ty = column.values.ty();
        let text = (ty == Type::Text).then(|| Arc::new(Fixed(Arc::clone(&dictionary))) as Arc<_>);
        let (name, is_nullable) = (format!("c{index}"), column.valid.is_some());
        Column { name, ty, is_nullable, bounds: bounds(ty), text }
    });
    (described.collect(), Rows { row_count: 16, columns })
}

/// A dictionary that is there.
#[derive(Debug)]
struct Fixed(Arc<Dictionary>);

impl pelton_pipeline::TextSource for Fixed {
    fn dictionary(&self) -> pelton_error::Result<Arc<Dictionary>> {
        Ok(Arc::clone(&self.0))
    }
}

#[test]
fn extremes_zeros_and_nans_have_the_order_of_their_bits() {
    let (columns, rows) = extremes();
    let all = as_they_come(&rows);
    for index in 0..columns.len() {
        let (is_descending, nulls_first) = (index % 2 == 0, index % 3 == 0);
        let keys: [Key; 2] = [(index, is_descending, nulls_first), (2, !is_descending, false)];
        let outputs = (0..columns.len()).map(column).collect();
        let sink = Sink::Materialize { columns: outputs, top: None, order: order(&keys, None) };
        let plan = single(Source::HostInput(0), columns.clone(), Vec::new(), sink);
        let plan = Plan { host_input_count: 1, ..plan };
        check(&plan, std::slice::from_ref(&rows), &all, &keys, None);
    }
}

#[test]
fn groups_come_in_order_without_leaving_the_device_before() {
    let place = table(Codec::None, 900, 2700);
    let (source, columns) = source(&runtime(options()), &place.table);
    let sum = Aggregate { function: AggregateFunction::Sum, input: Some(column(3)) };
    let least = Aggregate { function: AggregateFunction::Min, input: Some(column(6)) };
    let count = Aggregate { function: AggregateFunction::Count, input: None };
    let sink = |keys| Sink::Aggregate {
        keys,
        aggregates: vec![sum.clone(), least.clone(), count.clone()],
        expected: None,
    };
    let unknown = |ty| Column { name: "g".into(), ty, is_nullable: true, bounds: None, text: None };
    for key in [column(1), column(5), column(2)] {
        let ty = match key {
            Expr::Column(2) => Type::F64,
            _ => Type::I32,
        };
        let groups = Pipeline {
            name: "groups".into(),
            source: source.clone(),
            columns: columns.clone(),
            ops: Vec::new(),
            sink: sink(vec![key]),
        };
        let all = Sink::Materialize { columns: (0..4).map(column).collect(), top: None, order: None };
        let plan = |sink| Plan {
            pipelines: vec![
                groups.clone(),
                Pipeline {
                    name: "rows".into(),
                    source: Source::Groups(0),
                    columns: vec![unknown(ty), unknown(Type::I128), unknown(Type::Text), unknown(Type::I64)],
                    ops: Vec::new(),
                    sink,
                },
            ],
            table_count: 0,
            host_input_count: 0,
            unique_tables: Vec::new(),
        };
        let (rows, _) = run(options(), &plan(all));
        let all = as_they_come(&rows);
        for (keys, row_count) in [
            (vec![(1, true, true), (0, false, false)], None),
            (vec![(2, false, true), (3, true, false), (0, true, true)], None),
            (vec![(0, true, false)], Some(5)),
        ] {
            let columns = (0..4).map(column).collect();
            let sink = Sink::Materialize { columns, top: None, order: order(&keys, row_count) };
            check(&plan(sink), &[], &all, &keys, row_count);
        }
    }
}

#[test]
fn more_rows_than_the_host_is_to_sort_are_refused_and_no_memory_is_lost() {
    let place = table(Codec::None, 900, 2500);
    let (source, columns) = source(&runtime(options()), &place.table);
    let order = order(&[(0, true, false)], None);
    let sink = Sink::Materialize { columns: vec![column(0)], top: None, order };
    let plan = single(source, columns, Vec::new(), sink);
    let spilled = RuntimeOptions { memory_test: MemoryTest::SpillAlways, ..options() };
    let run = |most: u64| {
        let with = RunWith { host_bytes_max: Some(most), ..RunWith::default() };
        runtime(spilled.clone()).run_with(&plan, Inputs::default(), &CancelFlag::new(), with)
    };
    let refused = run(10_000).unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("bytes of sorted rows to be merged on the host"), "{refused}");
    let (rows, report): (Rows, RunReport) = run(1 << 20).unwrap();
    let all = place.table.row_count() as usize;
    assert_eq!((rows.row_count, report.pipelines[0].sorted_by), (all, "device"));
}

#[test]
fn a_device_without_room_for_all_rows_sorts_them_in_runs_and_scans_none_twice() {
    let place = table(Codec::None, 20_000, 200_000);
    let (source, columns) = source(&runtime(options()), &place.table);
    let keys = [(2, true, true), (0, false, false)];
    let sink =
        Sink::Materialize { columns: (0..4).map(column).collect(), top: None, order: order(&keys, None) };
    let plan = single(source, columns, Vec::new(), sink);
    let short = RuntimeOptions {
        device_memory_limit_bytes: Some(6 << 20),
        morsel_bytes: 1 << 20,
        staging_buffers: 2,
        ..options()
    };
    let (rows, report) = runtime(short.clone()).run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
    let mut all: Vec<Vec<Cell>> = all_rows(&place.table);
    all.iter_mut().for_each(|row| row.truncate(4));
    assert_in_order(&as_they_come(&rows), &all, &keys, None, "short of memory");
    let report = &report.pipelines[0];
    let lines = report.lines();
    assert_eq!((report.sorted_by, report.rows_in), ("device", place.table.row_count()), "{lines:?}");
    assert!(report.sorted_runs > 1 && report.run_bytes >= 200_000 * 30, "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("  sorted runs: ")), "{lines:?}");
    // Of each run no more rows than are wanted leave the device.
    let mut plan = plan;
    let Sink::Materialize { order: Some(order), .. } = &mut plan.pipelines[0].sink else { unreachable!() };
    order.row_count = Some(10);
    let (rows, first) = runtime(short).run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
    assert_in_order(&as_they_come(&rows), &all, &keys, Some(10), "the first of runs");
    let first = &first.pipelines[0];
    assert!(
        first.sorted_runs > 1 && first.run_bytes < 10 * 80 * first.sorted_runs as u64,
        "{:?}",
        first.lines()
    );
}
