//! Builds and probes: direct and hashed tables, every kind of match.

use std::sync::Arc;

use pelton_chunk::Codec;
use pelton_error::CancelFlag;
use pelton_exec::RuntimeOptions;
use pelton_pipeline::ir::{
    ArithmeticOp, Column, Expr, Literal, Op, Pipeline, Plan, ProbeKind, Sink, Source, Type,
};
use pelton_store::Table;

use crate::fixture::table;
use crate::oracle::{Cell, all_rows, column, int, options, run, runtime, single, sort, sorted, source};

/// The build side: rows with quantity >= 30 by `key`; payload quantity and city.
fn plan(table: &Arc<Table>, options: &RuntimeOptions, key: &Expr, probe_key: &Expr, kind: ProbeKind) -> Plan {
    let (source, columns): (Source, Vec<Column>) = source(&runtime(options.clone()), table);
    let large = Expr::Compare {
        op: pelton_pipeline::ir::CompareOp::Ge,
        left: Box::new(column(1)),
        right: Box::new(int(30)),
    };
    let build = Pipeline {
        name: "build".into(),
        source: source.clone(),
        columns: columns.clone(),
        ops: vec![Op::Filter(large)],
        sink: Sink::Build { table: 0, keys: vec![key.clone()], payload: vec![column(1), column(7)] },
    };
    let count = columns.len();
    let output = [0].into_iter().chain(count..count + kind.added_columns(2)).map(column).collect();
    let mut plan = single(
        source,
        columns,
        vec![Op::Probe { table: 0, keys: vec![probe_key.clone()], kind, residual: None }],
        Sink::Materialize { columns: output, top: None, order: None },
    );
    plan.pipelines.insert(0, build);
    plan.table_count = 1;
    plan
}

fn check(
    key: Expr,
    probe_key: Expr,
    value: impl Fn(&Cell, bool) -> Option<i128>,
    options: RuntimeOptions,
    of: usize,
) {
    let all = [ProbeKind::Inner, ProbeKind::Outer, ProbeKind::Semi, ProbeKind::Anti, ProbeKind::Mark];
    for kind in all {
        let place = table(Codec::None, 1500, 2000);
        let rows = all_rows(&place.table);
        let (result, _) = run(options.clone(), &plan(&place.table, &options, &key, &probe_key, kind));
        let built: Vec<(i128, &Vec<Cell>)> = rows
            .iter()
            .filter(|row| matches!(row[1], Cell::Int(quantity) if quantity >= 30))
            .filter_map(|row| Some((value(&row[of], true)?, row)))
            .collect();
        let mut expected = Vec::new();
        for row in &rows {
            let probed = value(&row[of], false);
            let matches: Vec<_> = built.iter().filter(|(key, _)| Some(*key) == probed).collect();
            let id = row[0].clone();
            match kind {
                ProbeKind::Semi if !matches.is_empty() => expected.push(vec![id]),
                ProbeKind::Anti if matches.is_empty() => expected.push(vec![id]),
                ProbeKind::Mark => expected.push(vec![id, Cell::Int(i128::from(!matches.is_empty()))]),
                ProbeKind::Outer if matches.is_empty() => expected.push(vec![id, Cell::Null, Cell::Null]),
                ProbeKind::Inner | ProbeKind::Outer => expected.extend(
                    matches.iter().map(|(_, other)| vec![id.clone(), other[1].clone(), other[7].clone()]),
                ),
                _ => {}
            }
        }
        sort(&mut expected);
        assert!(!expected.is_empty());
        assert_eq!(sorted(&result), expected, "{kind:?}");
    }
}

fn as_is(cell: &Cell, _: bool) -> Option<i128> {
    if let Cell::Int(value) = cell { Some(*value) } else { None }
}

#[test]
fn unique_keys_of_a_small_range_are_found_by_position() {
    check(column(0), column(0), as_is, options(), 0);
}

#[test]
fn many_rows_of_one_constant_key_are_refused() {
    let place = table(Codec::None, 1500, 2000);
    for (rows_max, is_refused) in [(1024, false), (1025, true)] {
        let mut plan = plan(&place.table, &options(), &int(0), &int(0), ProbeKind::Mark);
        let first = Expr::Compare {
            op: pelton_pipeline::ir::CompareOp::Lt,
            left: Box::new(column(0)),
            right: Box::new(Expr::Literal(Literal::I64(1_000_000 + 3 * rows_max))),
        };
        plan.pipelines[0].ops = vec![Op::Filter(first)];
        let ran = runtime(options()).run(&plan, Vec::new(), &CancelFlag::new());
        let refused = ran.err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), is_refused, "{refused:?}");
        assert!(refused.is_none_or(|reason| reason.contains("1025 others, of 1024 at most")));
    }
}

#[test]
fn keys_that_repeat_are_chained() {
    check(column(5), column(5), as_is, options(), 5);
}

#[test]
fn keys_that_all_collide_are_found() {
    check(column(5), column(5), as_is, RuntimeOptions { equal_hashes: true, ..options() }, 5);
}

#[test]
fn probe_keys_outside_the_tables_range_match_nothing() {
    let shifted = Expr::Arithmetic {
        op: ArithmeticOp::Subtract,
        left: Box::new(Expr::Cast { input: Box::new(column(5)), to: Type::I64 }),
        right: Box::new(Expr::Literal(pelton_pipeline::ir::Literal::I64(100))),
    };
    let key = Expr::Cast { input: Box::new(column(5)), to: Type::I64 };
    let value = |cell: &Cell, is_build: bool| {
        as_is(cell, is_build).map(|value| if is_build { value } else { value - 100 })
    };
    check(key, shifted, value, options(), 5);
}

#[test]
fn null_keys_match_nothing() {
    check(column(1), column(1), as_is, options(), 1);
}
