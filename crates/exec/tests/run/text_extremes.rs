//! Least and greatest texts of groups, of which kernels read the bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_chunk::Codec;
use pelton_error::{CancelFlag, ErrorKind};
use pelton_exec::{RunReport, RuntimeOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, Expr, Literal, Op, Pipeline, Plan, Sink,
    Source, TextKernel, TopK, Type,
};
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows};
use pelton_store::Table;

use crate::oracle::{Cell, cells, column, options, run, runtime, single, sort, sorted};
use crate::texts::{Kind, MIXED, TEXT, like, mixtures, of_text, part, place, source};

use AggregateFunction::{Count, Max, Min, Sum};

/// Room for one row at first, and a heap of a few hundred bytes.
fn tiny() -> RuntimeOptions {
    RuntimeOptions { first_rows: Some(1), row_groups_max: 2, ..options() }
}

fn modulo(by: i64) -> Expr {
    Expr::Modulo { input: Box::new(column(0)), by }
}

fn wide(expr: Expr) -> Expr {
    Expr::Cast { input: Box::new(expr), to: Type::I64 }
}

/// A key of the row's number that spans so much that groups are found by hashing.
fn sparse(by: i64) -> Expr {
    let factor = Box::new(Expr::Literal(Literal::I64(1 << 40)));
    Expr::Arithmetic { op: ArithmeticOp::Multiply, left: Box::new(wide(modulo(by))), right: factor }
}

fn of(function: AggregateFunction, input: Expr) -> Aggregate {
    Aggregate { function, input: Some(input) }
}

/// Rows, the sum of their numbers, the least and the greatest text, and the greatest of those of even rows.
fn aggregates() -> Vec<Aggregate> {
    let is_even = Expr::In { input: Box::new(modulo(2)), values: vec![0] };
    let of_even = Expr::Where { input: Box::new(column(TEXT)), condition: Box::new(is_even) };
    let rows = Aggregate { function: Count, input: None };
    vec![rows, of(Sum, column(0)), of(Min, column(TEXT)), of(Max, column(TEXT)), of(Max, of_even)]
}

fn number(cell: &Cell) -> i128 {
    let Cell::Int(number) = cell else { panic!("{cell:?} is no number") };
    *number
}

fn text(cell: Option<&Cell>) -> Cell {
    cell.cloned().unwrap_or(Cell::Null)
}

/// What `aggregates` are of `rows`, numbers and texts, each of which counts `times`.
fn state(rows: &[(Cell, Cell)], times: i128) -> Vec<Cell> {
    let bytes = |cell: &&Cell| if let Cell::Text(bytes) = cell { bytes.clone() } else { Vec::new() };
    let texts = || rows.iter().filter(|(_, text)| *text != Cell::Null);
    let even = texts().filter(|(row, _)| number(row) % 2 == 0);
    let sum: i128 = rows.iter().map(|(row, _)| number(row)).sum();
    let sum = if rows.is_empty() { Cell::Null } else { Cell::Int(sum * times) };
    vec![
        Cell::Int(rows.len() as i128 * times),
        sum,
        text(texts().map(|(_, text)| text).min_by_key(bytes)),
        text(texts().map(|(_, text)| text).max_by_key(bytes)),
        text(even.map(|(_, text)| text).max_by_key(bytes)),
    ]
}

/// What keys are of a row's number and text.
type KeyOf<'k> = dyn Fn(&Cell, &Cell) -> Vec<Cell> + 'k;
/// Keys, and the rows that have them.
type Group = (Vec<Cell>, Vec<(Cell, Cell)>);

/// Groups of all rows of `table` by `keys`, of which `key` says what they are of a row.
fn check(
    table: &Arc<Table>,
    (keys, key): (Vec<Expr>, &KeyOf<'_>),
    times: u32,
    options: RuntimeOptions,
) -> RunReport {
    let (source, columns) = source(table);
    let ops = if times == 1 { Vec::new() } else { vec![Op::Repeat { count: times }] };
    let is_global = keys.is_empty();
    let sink = Sink::Aggregate { keys, aggregates: aggregates(), expected: None };
    let (rows, report) = run(options, &single(source, columns, ops, sink));
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    if is_global {
        groups.insert("[]".into(), Default::default());
    }
    for (row, text) in cells(table, 0).into_iter().zip(cells(table, TEXT)) {
        let key = key(&row, &text);
        groups.entry(format!("{key:?}")).or_insert((key, Vec::new())).1.push((row, text));
    }
    let groups = groups.into_values();
    let mut expected: Vec<Vec<Cell>> =
        groups.map(|(key, rows)| key.into_iter().chain(state(&rows, times.into())).collect()).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
    report
}

/// All kinds of keys: none, by position, by hashing, of several words.
fn check_all(table: &Arc<Table>, times: u32, options: &RuntimeOptions) {
    check(table, (Vec::new(), &|_, _| Vec::new()), times, options.clone());
    let by_seven = |row: &Cell, _: &Cell| vec![Cell::Int(number(row) % 7)];
    check(table, (vec![modulo(7)], &by_seven), times, options.clone());
    let by_sparse = |row: &Cell, _: &Cell| vec![Cell::Int((number(row) % 311) << 40)];
    check(table, (vec![sparse(311)], &by_sparse), times, options.clone());
    let characters = |text: &Cell| match text {
        Cell::Text(bytes) => {
            Cell::Text(std::str::from_utf8(bytes).unwrap().chars().take(2).collect::<String>().into_bytes())
        }
        _ => Cell::Null,
    };
    let by_text = |row: &Cell, text: &Cell| vec![characters(text), Cell::Int(number(row) % 3)];
    let start = of_text(&TextKernel::Text(part(1, 2)));
    check(table, (vec![start, modulo(3)], &by_text), times, options.clone());
}

#[test]
fn the_least_and_the_greatest_text_of_each_group_are_found_however_texts_are_stored() {
    for kinds in mixtures() {
        let place = place(Codec::None, kinds, 1500, 1100, 1024);
        check_all(&place.table, 1, &options());
    }
}

#[test]
fn each_row_counts_once_where_the_heap_of_texts_grows() {
    let place = place(Codec::None, &[Kind::Plain, Kind::Coded, Kind::Null], 1200, 500, 1024);
    check_all(&place.table, 1, &tiny());
    check_all(&place.table, 3, &tiny());
    // Groups found by position have their room from the start, so that what grows is the heap; 101 of them keep more than fits
    // it in whatever order their rows come.
    let by_position = |row: &Cell, _: &Cell| vec![Cell::Int(number(row) % 101)];
    let report = check(&place.table, (vec![modulo(101)], &by_position), 1, tiny());
    let report = &report.pipelines[0];
    assert!(report.sink_grown > 0 && report.rows_waited > 0, "{report:?}");
    let by_row = |row: &Cell, _: &Cell| vec![row.clone()];
    let report = check(&place.table, (vec![column(0)], &by_row), 1, tiny());
    assert!(report.pipelines[0].sink_grown > 1, "{report:?}");
}

#[test]
fn equal_hashes_and_one_row_and_no_text_give_the_same() {
    let equal = RuntimeOptions { equal_hashes: true, ..tiny() };
    check_all(&place(Codec::None, &[Kind::Packed, Kind::One], 300, 100, 1024).table, 1, &equal);
    check_all(&place(Codec::None, &[Kind::Plain], 1, 100, 1024).table, 1, &tiny());
    check_all(&place(Codec::None, &[Kind::Null], 100, 100, 1024).table, 1, &tiny());
    check_all(&place(Codec::Zstd, &[Kind::One], 2000, 1 << 20, 1024).table, 1, &tiny());
}

#[test]
fn short_texts_are_kept_like_others() {
    let kinds = [&MIXED[..], &[Kind::Coded]].concat();
    let place = place(Codec::None, &kinds, 1500, 1100, 1024);
    let (source, columns) = source(&place.table);
    let start = || of_text(&TextKernel::Text(part(2, 3)));
    let aggregates = vec![of(Min, start()), of(Max, start())];
    let sink = Sink::Aggregate { keys: vec![modulo(5)], aggregates, expected: None };
    let (rows, _) = run(tiny(), &single(source, columns, Vec::new(), sink));
    let mut groups: BTreeMap<i128, Vec<Vec<u8>>> = BTreeMap::new();
    for (row, text) in cells(&place.table, 0).iter().zip(cells(&place.table, TEXT)) {
        let texts = groups.entry(number(row) % 5).or_default();
        if let Cell::Text(bytes) = text {
            let characters = String::from_utf8(bytes).unwrap();
            texts.push(characters.chars().skip(1).take(3).collect::<String>().into_bytes());
        }
    }
    let text = |text: Option<&Vec<u8>>| text.map_or(Cell::Null, |text| Cell::Text(text.clone()));
    let expected = groups
        .iter()
        .map(|(key, texts)| vec![Cell::Int(*key), text(texts.iter().min()), text(texts.iter().max())]);
    assert_eq!(sorted(&rows), expected.collect::<Vec<_>>());
}

/// Groups by 97 keys, of which those go on whose least text holds an `a`.
fn two_stages(table: &Arc<Table>, sink: Sink) -> Plan {
    let (source, columns) = source(table);
    let first = Sink::Aggregate {
        keys: vec![modulo(97)],
        aggregates: vec![of(Min, column(TEXT)), of(Max, column(TEXT))],
        expected: None,
    };
    let mut plan = single(source, columns.clone(), Vec::new(), first);
    let mut groups = vec![columns[0].clone(), columns[TEXT].clone(), columns[TEXT].clone()];
    groups[0].ty = Type::I32;
    plan.pipelines.push(Pipeline {
        name: "groups of groups".into(),
        source: Source::Groups(0),
        columns: groups,
        ops: vec![Op::Filter(of_text(&like("%a%")))],
        sink,
    });
    plan
}

/// What `two_stages` goes on with: keys, least and greatest texts.
fn first_stage(table: &Arc<Table>) -> Vec<(i128, Vec<u8>, Vec<u8>)> {
    let mut groups: BTreeMap<i128, Vec<Vec<u8>>> = BTreeMap::new();
    for (row, text) in cells(table, 0).iter().zip(cells(table, TEXT)) {
        if let Cell::Text(bytes) = text {
            groups.entry(number(row) % 97).or_default().push(bytes);
        }
    }
    let extremes = groups.into_iter().map(|(key, mut texts)| {
        texts.sort();
        (key, texts[0].clone(), texts[texts.len() - 1].clone())
    });
    let found: Vec<_> = extremes.filter(|(_, least, _)| least.contains(&b'a')).collect();
    assert!(!found.is_empty());
    found
}

#[test]
fn texts_of_groups_are_read_where_they_lie() {
    let place = place(Codec::None, &[Kind::Plain, Kind::Even], 1000, 300, 1024);
    let rows = Aggregate { function: Count, input: None };
    let aggregates = vec![rows, of(Min, column(TEXT)), of(Max, column(2))];
    let sink = Sink::Aggregate { keys: vec![modulo(7)], aggregates, expected: None };
    let (rows, _) = run(tiny(), &two_stages(&place.table, sink));
    let mut groups: BTreeMap<i128, (i128, Vec<u8>, Vec<u8>)> = BTreeMap::new();
    for (key, least, greatest) in first_stage(&place.table) {
        let all = groups.entry(key % 7).or_insert((0, least.clone(), greatest.clone()));
        *all = (all.0 + 1, all.1.clone().min(least), all.2.clone().max(greatest));
    }
    let expected = groups.into_iter().map(|(key, (count, least, greatest))| {
        vec![Cell::Int(key), Cell::Int(count), Cell::Text(least), Cell::Text(greatest)]
    });
    assert_eq!(sorted(&rows), expected.collect::<Vec<_>>());
}

#[test]
fn texts_of_groups_come_out_as_rows() {
    let place = place(Codec::None, &[Kind::Plain, Kind::Even], 1000, 300, 1024);
    let is_even = Expr::In { input: Box::new(modulo(2)), values: vec![0] };
    let of_even = Expr::Where { input: Box::new(column(2)), condition: Box::new(is_even) };
    let columns = vec![column(0), column(TEXT), of_even];
    let sink = |top| Sink::Materialize { columns: columns.clone(), top, order: None };
    let expected = first_stage(&place.table).into_iter().map(|(key, least, greatest)| {
        let greatest = if key % 2 == 0 { Cell::Text(greatest) } else { Cell::Null };
        vec![Cell::Int(key), Cell::Text(least), greatest]
    });
    let mut expected: Vec<Vec<Cell>> = expected.collect();
    sort(&mut expected);
    let (rows, _) = run(tiny(), &two_stages(&place.table, sink(None)));
    assert_eq!(sorted(&rows), expected);
    let top = TopK { key: column(0), is_descending: false, keeps_ties: false, row_count: 3 };
    let (rows, _) = run(tiny(), &two_stages(&place.table, sink(Some(top))));
    expected.sort_by_key(|row| number(&row[0]));
    expected.truncate(3);
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn texts_that_do_not_fit_the_device_end_the_run_and_nothing_else() {
    let place = place(Codec::None, &[Kind::Plain], 4000, 1000, 1024);
    let (source, columns) = source(&place.table);
    let sink =
        Sink::Aggregate { keys: vec![column(0)], aggregates: vec![of(Min, column(TEXT))], expected: None };
    let plan = single(source, columns, Vec::new(), sink);
    let options = RuntimeOptions { device_memory_limit_bytes: Some(5 << 18), ..tiny() };
    let runtime = runtime(options);
    let error = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error}");
}

#[test]
fn numbers_of_a_dictionary_in_any_order_have_the_extremes_of_its_texts() {
    let texts = ["pear", "", "apple", "é", "pea"];
    let mut dictionary = Dictionary::default();
    texts.iter().for_each(|text| dictionary.entries.push(text.as_bytes()).unwrap());
    let ids: Vec<u32> = (0..200).map(|row| row * 7 % 5).collect();
    let keys: Vec<i32> = (0..200).map(|row| row / 3 % 17).collect();
    let valid: Vec<bool> = (0..200).map(|row| row % 4 != 0 && row / 3 % 17 != 5).collect();
    let text = RowValues::Text { ids: ids.clone(), dictionary: Arc::new(dictionary) };
    let columns = vec![
        RowColumn { values: RowValues::I32(keys.clone()), valid: None },
        RowColumn { values: text, valid: Some(valid.clone()) },
    ];
    let rows = Rows { row_count: 200, columns };
    let bounds = Some(Bounds { min: 0, max: 16 });
    let column_of =
        |name: &str, ty, bounds| Column { name: name.into(), ty, is_nullable: true, bounds, text: None };
    let sink = Sink::Aggregate {
        keys: vec![column(0)],
        aggregates: vec![of(Min, column(TEXT)), of(Max, column(TEXT))],
        expected: None,
    };
    let source_columns = vec![column_of("key", Type::I32, bounds), column_of("text", Type::Text, None)];
    let mut plan = single(Source::HostInput(0), source_columns, Vec::new(), sink);
    plan.host_input_count = 1;
    let (found, _) = runtime(options()).run(&plan, vec![rows], &CancelFlag::new()).unwrap();
    let expected = (0..17).map(|key| {
        let of_key = (0..200).filter(|row| keys[*row] == key && valid[*row]);
        let texts: Vec<&str> = of_key.map(|row| texts[ids[row] as usize]).collect();
        let cell = |text: Option<&&str>| text.map_or(Cell::Null, |text| Cell::Text(text.as_bytes().to_vec()));
        vec![Cell::Int(key.into()), cell(texts.iter().min()), cell(texts.iter().max())]
    });
    assert_eq!(sorted(&found), expected.collect::<Vec<_>>());
}
