//! Groups as the source of later pipelines, and keys that one number does not hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use pelton_chunk::Codec;
use pelton_error::CancelFlag;
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Column, CompareOp, Expr, Literal, Op, Pipeline, Plan, ProbeKind, Sink,
    Source, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_store::Table;

use crate::fixture::{Place, table};
use crate::oracle::{Cell, all_rows, column, options, run, runtime, sort, sorted, source};

fn fixture() -> (Place, Source, Vec<Column>, Vec<Vec<Cell>>) {
    let place = table(Codec::None, 2048, 4000);
    let (source, columns) = source(&runtime(options()), &place.table);
    let rows = all_rows(&place.table);
    (place, source, columns, rows)
}

fn pipeline(source: &Source, columns: &[Column], ops: Vec<Op>, sink: Sink) -> Pipeline {
    Pipeline { name: "test".into(), source: source.clone(), columns: columns.to_vec(), ops, sink }
}

fn plan(pipelines: Vec<Pipeline>, table_count: usize) -> Plan {
    Plan { pipelines, table_count, host_input_count: 0, unique_tables: Vec::new() }
}

/// The groups of the first pipeline, whose columns are of these types.
fn groups(types: &[Type]) -> (Source, Vec<Column>) {
    let column =
        |ty: &Type| Column { name: "group".into(), ty: *ty, is_nullable: true, bounds: None, text: None };
    (Source::Groups(0), types.iter().map(column).collect())
}

fn grouped(keys: &[usize], aggregates: Vec<Aggregate>) -> Sink {
    Sink::Aggregate { keys: keys.iter().map(|key| column(*key)).collect(), aggregates, expected: None }
}

fn rows_of(columns: Vec<Expr>) -> Sink {
    Sink::Materialize { columns, top: None, order: None }
}

fn of(function: AggregateFunction, input: Expr) -> Aggregate {
    Aggregate { function, input: Some(input) }
}

fn count() -> Aggregate {
    Aggregate { function: AggregateFunction::Count, input: None }
}

/// A sum of integers, whose type bounds decide.
fn sum(index: usize) -> Expr {
    Expr::Cast { input: Box::new(column(index)), to: Type::I128 }
}

fn compare(op: CompareOp, left: Expr, right: Literal) -> Expr {
    Expr::Compare { op, left: Box::new(left), right: Box::new(Expr::Literal(right)) }
}

fn number(cell: &Cell) -> Option<i128> {
    if let Cell::Int(value) = cell { Some(*value) } else { None }
}

fn cell(value: Option<i128>) -> Cell {
    value.map_or(Cell::Null, Cell::Int)
}

/// The rows by what is in these columns.
fn by_key<'r>(rows: &'r [Vec<Cell>], keys: &[usize]) -> Vec<(Vec<Cell>, Vec<&'r Vec<Cell>>)> {
    let mut groups: BTreeMap<String, (Vec<Cell>, Vec<&Vec<Cell>>)> = BTreeMap::new();
    for row in rows {
        let key: Vec<Cell> = keys.iter().map(|key| row[*key].clone()).collect();
        groups.entry(format!("{key:?}")).or_insert((key, Vec::new())).1.push(row);
    }
    groups.into_values().collect()
}

#[test]
fn groups_are_filtered_built_probed_and_aggregated() {
    let (_place, source, columns, rows) = fixture();
    let (from, from_columns) = groups(&[Type::I32, Type::I64, Type::I128]);
    let aggregates = vec![count(), of(AggregateFunction::Sum, column(1))];
    let is_large = compare(CompareOp::Gt, sum(2), Literal::I128(1500));
    let build = Sink::Build { table: 0, keys: vec![column(0)], payload: vec![column(1), sum(2)] };
    let probe = Op::Probe { table: 0, keys: vec![column(1)], kind: ProbeKind::Inner, residual: None };
    let at = columns.len();
    let totals =
        vec![count(), of(AggregateFunction::Sum, column(at)), of(AggregateFunction::Sum, column(at + 1))];
    let first = pipeline(&source, &columns, Vec::new(), grouped(&[1], aggregates));
    let second = pipeline(&from, &from_columns, vec![Op::Filter(is_large)], build);
    let third = pipeline(&source, &columns, vec![probe], grouped(&[], totals));
    let (found, _) = run(options(), &plan(vec![first, second, third], 1));
    let mut expected = [0, 0, 0];
    for (key, rows) in by_key(&rows, &[1]) {
        let Some(quantity) = number(&key[0]) else { continue };
        let count = rows.len() as i128;
        if quantity * count > 1500 {
            expected =
                [expected[0] + count, expected[1] + count * count, expected[2] + count * count * quantity];
        }
    }
    assert!(expected[0] > 0 && expected[0] < rows.len() as i128);
    assert_eq!(sorted(&found), [expected.map(Cell::Int).to_vec()]);
}

#[test]
fn groups_of_no_rows_are_none_with_keys_and_one_without() {
    let (_place, source, columns, _) = fixture();
    let never = || vec![Op::Filter(compare(CompareOp::Gt, column(1), Literal::I32(1000)))];
    let aggregates = || vec![count(), of(AggregateFunction::Sum, column(1))];
    let (from, from_columns) = groups(&[Type::I32, Type::I64, Type::I128]);
    let with_keys = pipeline(&source, &columns, never(), grouped(&[1], aggregates()));
    let out = pipeline(&from, &from_columns, Vec::new(), rows_of(vec![column(0), column(1), sum(2)]));
    let (found, _) = run(options(), &plan(vec![with_keys.clone(), out], 0));
    assert_eq!(sorted(&found), [] as [Vec<Cell>; 0]);
    let counted = pipeline(&from, &from_columns, Vec::new(), grouped(&[], vec![count()]));
    let (found, _) = run(options(), &plan(vec![with_keys, counted], 0));
    assert_eq!(sorted(&found), [[Cell::Int(0)]]);
    let (from, from_columns) = groups(&[Type::I64, Type::I128]);
    let without = pipeline(&source, &columns, never(), grouped(&[], aggregates()));
    let out = pipeline(&from, &from_columns, Vec::new(), rows_of(vec![column(0), sum(1)]));
    let (found, _) = run(options(), &plan(vec![without, out], 0));
    assert_eq!(sorted(&found), [[Cell::Int(0), Cell::Null]]);
}

#[test]
fn two_pipelines_read_the_groups_of_one() {
    let (_place, source, columns, rows) = fixture();
    let least = of(AggregateFunction::Min, column(0));
    let (from, from_columns) = groups(&[Type::Text, Type::I32, Type::I64, Type::I64]);
    let is_true = |op, value| vec![Op::Filter(compare(op, column(2), Literal::I64(value)))];
    let first = pipeline(&source, &columns, Vec::new(), grouped(&[7, 1], vec![count(), least]));
    let build = Sink::Build { table: 0, keys: vec![column(1)], payload: Vec::new() };
    let second = pipeline(&from, &from_columns, is_true(CompareOp::Ge, 2), build);
    let probe = Op::Probe { table: 0, keys: vec![column(1)], kind: ProbeKind::Anti, residual: None };
    let out = rows_of(vec![column(0), column(1), column(3)]);
    let third = pipeline(&from, &from_columns, vec![probe], out);
    let (found, _) = run(options(), &plan(vec![first, second, third], 1));
    let groups = by_key(&rows, &[7, 1]);
    let is_built = |quantity: &Cell| {
        groups.iter().any(|(key, rows)| *quantity != Cell::Null && key[1] == *quantity && rows.len() >= 2)
    };
    let is_left = |(key, _): &&(Vec<Cell>, Vec<&Vec<Cell>>)| !is_built(&key[1]);
    let row = |(key, rows): &(Vec<Cell>, Vec<&Vec<Cell>>)| {
        let least = rows.iter().filter_map(|row| number(&row[0])).min();
        vec![key[0].clone(), key[1].clone(), cell(least)]
    };
    let mut expected: Vec<Vec<Cell>> = groups.iter().filter(is_left).map(row).collect();
    sort(&mut expected);
    assert!(!expected.is_empty());
    assert_eq!(sorted(&found), expected);
}

/// Semi, anti, mark and outer joins of the table with itself by column `key`, where a match has a lower number than 30 and is not
/// the row itself, if `is_other`.
fn check_residual(key: usize, is_other: bool) {
    let (place, source, columns, rows) = fixture();
    let at = columns.len();
    let lower = compare(CompareOp::Lt, column(at), Literal::I32(30));
    let differs =
        Expr::Compare { op: CompareOp::Ne, left: Box::new(column(at + 1)), right: Box::new(column(0)) };
    let residual = Expr::And(if is_other { vec![differs, lower] } else { vec![lower] });
    let is_low = |row: &&Vec<Cell>| number(&row[1]).is_some_and(|quantity| quantity < 30);
    let low: Vec<Vec<Cell>> = rows.iter().filter(is_low).cloned().collect();
    let low: BTreeMap<i128, Vec<&Vec<Cell>>> = by_key(&low, &[key])
        .into_iter()
        .filter_map(|(value, others)| number(&value[0]).map(|value| (value, others)))
        .collect();
    let matches_of = |row: &Vec<Cell>| -> Vec<&Vec<Cell>> {
        let others = number(&row[key]).and_then(|value| low.get(&value)).into_iter().flatten().copied();
        others.filter(|other| !is_other || row[0] != other[0]).collect()
    };
    for kind in [ProbeKind::Semi, ProbeKind::Anti, ProbeKind::Mark, ProbeKind::Outer] {
        let residual = Some(residual.clone());
        let probe = Op::Probe { table: 0, keys: vec![column(key)], kind, residual };
        let build = Sink::Build { table: 0, keys: vec![column(key)], payload: vec![column(1), column(0)] };
        let build = pipeline(&source, &columns, Vec::new(), build);
        let added = kind.added_columns(2);
        let out: Vec<Expr> = [0, 1].into_iter().chain(at..at + added).map(column).collect();
        let out = pipeline(&source, &columns, vec![probe], rows_of(out));
        let (found, _) = run(options(), &plan(vec![build, out], 1));
        let mut expected: Vec<Vec<Cell>> = Vec::new();
        for row in &rows {
            let matches = matches_of(row);
            let with = |more: &[Cell]| [&row[..2], more].concat();
            match kind {
                ProbeKind::Semi => expected.extend((!matches.is_empty()).then(|| with(&[]))),
                ProbeKind::Anti => expected.extend(matches.is_empty().then(|| with(&[]))),
                ProbeKind::Mark => expected.push(with(&[Cell::Int(i128::from(!matches.is_empty()))])),
                _ if matches.is_empty() => expected.push(with(&[Cell::Null, Cell::Null])),
                _ => expected.extend(matches.iter().map(|other| with(&[other[1].clone(), other[0].clone()]))),
            }
        }
        sort(&mut expected);
        assert!(!expected.is_empty(), "{kind:?} of {}", place.table.name());
        assert_eq!(sorted(&found), expected, "{kind:?}");
    }
}

#[test]
fn residuals_see_the_only_match_of_a_direct_table() {
    check_residual(0, false);
}

#[test]
fn residuals_look_for_one_of_several_matches() {
    check_residual(5, true);
}

#[test]
fn residuals_see_no_match_of_null_keys() {
    check_residual(1, true);
}

#[test]
fn a_parameter_may_be_null() {
    let (_place, source, columns, rows) = fixture();
    let parameter = || Expr::Parameter { number: 0, ty: Type::I32 };
    let is_greater =
        Expr::Compare { op: CompareOp::Gt, left: Box::new(column(1)), right: Box::new(parameter()) };
    let out = grouped(&[], vec![count(), of(AggregateFunction::Count, parameter())]);
    let is_null = Expr::IsNull(Box::new(parameter()));
    let condition = Expr::Or(vec![is_greater, is_null]);
    let plan = plan(vec![pipeline(&source, &columns, vec![Op::Filter(condition)], out)], 0);
    let all = rows.len() as i128;
    let large = rows.iter().filter(|row| number(&row[1]).is_some_and(|value| value > 20)).count() as i128;
    for (value, expected) in [(Literal::Null(Type::I32), [all, 0]), (Literal::I32(20), [large, large])] {
        let inputs = pelton_pipeline::ir::Inputs { host_inputs: Vec::new(), parameters: vec![value] };
        let (found, _) = runtime(options()).run(&plan, inputs, &CancelFlag::new()).unwrap();
        assert_eq!(sorted(&found), [expected.map(Cell::Int).to_vec()]);
    }
}

/// Groups by `keys`, of whose columns nothing is known, as they come out and as another pipeline reads them.
fn check_wide(table: &Arc<Table>, keys: &[usize], types: &[Type]) {
    let (source, mut columns) = source(&runtime(options()), table);
    columns.iter_mut().for_each(|column| column.bounds = None);
    let sink = grouped(keys, vec![count()]);
    let first = pipeline(&source, &columns, Vec::new(), sink);
    let (from, from_columns) = groups(&[types, &[Type::I64]].concat());
    let out = rows_of((0..=keys.len()).map(column).collect());
    let second = pipeline(&from, &from_columns, Vec::new(), out);
    let rows = all_rows(table);
    let group =
        |(key, rows): (Vec<Cell>, Vec<&Vec<Cell>>)| [key, vec![Cell::Int(rows.len() as i128)]].concat();
    let mut expected: Vec<Vec<Cell>> = by_key(&rows, keys).into_iter().map(group).collect();
    sort(&mut expected);
    for pipelines in [vec![first.clone()], vec![first, second]] {
        let (found, _) = run(options(), &plan(pipelines, 0));
        assert_eq!(sorted(&found), expected);
    }
}

#[test]
fn wide_keys_with_nulls_make_groups() {
    let place = table(Codec::None, 2048, 2000);
    check_wide(&place.table, &[3], &[Type::I128]);
    check_wide(&place.table, &[2, 9], &[Type::F64, Type::Text]);
    check_wide(
        &place.table,
        &[1, 3, 6, 0, 4, 2, 9],
        &[Type::I32, Type::I128, Type::Text, Type::I64, Type::Bool, Type::F64, Type::Text],
    );
}

#[test]
fn groups_of_doubles_have_one_zero_and_one_not_a_number() {
    let values = vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001), 7.0, 1.5, -0.0];
    let valid = Some(vec![true, true, true, true, true, false, true, true]);
    let rows =
        Rows { row_count: values.len(), columns: vec![RowColumn { values: RowValues::F64(values), valid }] };
    let (_, columns) = groups(&[Type::F64]);
    let first = pipeline(&Source::HostInput(0), &columns, Vec::new(), grouped(&[0], vec![count()]));
    let (from, from_columns) = groups(&[Type::F64, Type::I64]);
    let out = rows_of(vec![column(1), Expr::IsNull(Box::new(column(0)))]);
    let mut plan = plan(vec![first, pipeline(&from, &from_columns, Vec::new(), out)], 0);
    plan.host_input_count = 1;
    let (found, _) = runtime(options()).run(&plan, vec![rows], &CancelFlag::new()).unwrap();
    let expected = [[1, 0], [1, 1], [3, 0], [3, 0]];
    assert_eq!(sorted(&found), expected.map(|row| row.map(Cell::Int).to_vec()));
}

#[test]
fn a_join_may_make_more_groups_than_its_source_has_rows() {
    let (_place, source, columns, rows) = fixture();
    let build = Sink::Build { table: 0, keys: vec![column(5)], payload: vec![column(0)] };
    let probe = Op::Probe { table: 0, keys: vec![column(5)], kind: ProbeKind::Inner, residual: None };
    let sink = grouped(&[0, columns.len()], vec![count()]);
    let build = pipeline(&source, &columns, Vec::new(), build);
    let last = pipeline(&source, &columns, vec![probe], sink);
    let (found, report) = run(options(), &plan(vec![build, last], 1));
    let pairs: usize = by_key(&rows, &[5]).iter().map(|(_, rows)| rows.len() * rows.len()).sum();
    assert_eq!(found.row_count, pairs);
    assert!(pairs > 2 * rows.len(), "{pairs} groups of {}", rows.len());
    assert!(report.pipelines.last().is_some_and(|report| report.repeats == 0), "nothing is scanned twice");
}
