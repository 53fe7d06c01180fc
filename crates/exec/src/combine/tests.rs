//! Parts of groups of every kind, made one, against the same rows grouped here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pelton_device::{MemoryKind, OnFull};
use pelton_error::{CancelFlag, ErrorKind, Result};
use pelton_io::{IoEngine, IoOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, Column, Expr, Inputs, Pipeline, Plan, Sink, Source, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use super::*;
use crate::execution::Groups;
use crate::finish::{gather_to, group_rows_of};
use crate::runtime::RunWith;
use crate::team::{Given, Shared};
use crate::{Runtime, RuntimeOptions, TargetChoice};

/// Keys, a value that may be NULL, a decimal.
#[derive(Debug, Clone, Copy)]
struct Row {
    keys: [i64; 2],
    value: Option<i64>,
    decimal: i128,
}

/// A key, NULL being the greatest number; then rows, values, their sum, least and greatest, sums of doubles and decimals.
type Group = ([i64; 2], i64, i64, i128, i64, i64, i64, i128);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Global,
    Direct,
    Hashed,
    Wide,
}

const KINDS: [Kind; 4] = [Kind::Global, Kind::Direct, Kind::Hashed, Kind::Wide];

impl Kind {
    fn key_count(self) -> usize {
        match self {
            Kind::Global => 0,
            Kind::Direct | Kind::Hashed => 1,
            Kind::Wide => 2,
        }
    }

    fn bounds(self) -> Option<Bounds> {
        match self {
            Kind::Direct => Some(Bounds { min: 0, max: 99 }),
            Kind::Hashed => Some(Bounds { min: 0, max: 1 << 40 }),
            _ => None,
        }
    }
}

fn runtime(equal_hashes: bool) -> Arc<Runtime> {
    let options = RuntimeOptions {
        target: TargetChoice::Host,
        cache: Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/programs")),
        workers: 2,
        device_memory_limit_bytes: Some(256 << 20),
        equal_hashes,
        first_rows: Some(16),
        check_for: pelton_pipeline::nvrtc_status().is_ok().then_some((9, 0)),
        ..RuntimeOptions::default()
    };
    Runtime::open(options, Arc::new(IoEngine::start(IoOptions::default()).unwrap())).unwrap()
}

/// Part `part` of three, whose keys overlap.
fn part(part: i64, row_count: i64) -> Vec<Row> {
    let row = |row: i64| {
        let key = (row * 7 + part * 31) % 100;
        Row {
            keys: [key, key % 3 - 1],
            value: (row % 5 != part && key != 50).then_some(row * (part - 1) - 7),
            decimal: i128::from(row) * if part == 1 { -1 } else { 1 << 70 },
        }
    };
    (0..row_count).map(row).collect()
}

fn rows_of(rows: &[Row]) -> Rows {
    let column = |values| RowColumn { values, valid: None };
    let key = |index: usize| column(RowValues::I64(rows.iter().map(|row| row.keys[index]).collect()));
    let values = RowValues::I64(rows.iter().map(|row| row.value.unwrap_or(0)).collect());
    let valid = Some(rows.iter().map(|row| row.value.is_some()).collect());
    let decimals = column(RowValues::I128(rows.iter().map(|row| row.decimal).collect()));
    let doubles = column(RowValues::F64(rows.iter().map(|row| row.keys[0] as f64).collect()));
    let columns = vec![key(0), key(1), RowColumn { values, valid }, decimals, doubles];
    Rows { row_count: rows.len(), columns }
}

/// Grouping each host input, for somebody to read.
fn plan(kind: Kind, parts: usize) -> Plan {
    let columns = || {
        let column = |name: &str, ty, is_nullable, bounds| Column {
            name: name.into(),
            ty,
            is_nullable,
            bounds,
            text: None,
        };
        vec![
            column("a", Type::I64, false, kind.bounds()),
            column("b", Type::I64, false, None),
            column("value", Type::I64, true, Some(Bounds { min: -1 << 40, max: 1 << 40 })),
            column("decimal", Type::I128, false, None),
            column("double", Type::F64, false, None),
        ]
    };
    let of = |function, input| Aggregate { function, input: Some(Expr::Column(input)) };
    let aggregates = vec![
        Aggregate { function: AggregateFunction::Count, input: None },
        of(AggregateFunction::Count, 2),
        of(AggregateFunction::Sum, 2),
        of(AggregateFunction::Min, 2),
        of(AggregateFunction::Max, 2),
        of(AggregateFunction::Sum, 4),
        of(AggregateFunction::Sum, 3),
    ];
    let keys: Vec<Expr> = (0..kind.key_count()).map(Expr::Column).collect();
    let sink = Sink::Aggregate { keys, aggregates, expected: None };
    let pipeline =
        |source, sink| Pipeline { name: "part".into(), source, columns: columns(), ops: Vec::new(), sink };
    let groups = (0..parts).map(|part| pipeline(Source::HostInput(part), sink.clone()));
    let nothing = || Sink::Materialize { columns: Vec::new(), top: None, order: None };
    let readers = (0..parts).map(|part| pipeline(Source::Groups(part), nothing()));
    let pipelines = groups.chain(readers).collect();
    Plan { pipelines, table_count: 0, host_input_count: parts, unique_tables: Vec::new() }
}

fn expected(kind: Kind, rows: impl Iterator<Item = Row>) -> Vec<Group> {
    let mut groups: BTreeMap<[i64; 2], Group> = BTreeMap::new();
    for row in rows {
        let keys = match kind {
            Kind::Global => [0, 0],
            Kind::Wide => row.keys,
            _ => [row.keys[0], 0],
        };
        let group = groups.entry(keys).or_insert((keys, 0, 0, 0, i64::MAX, i64::MIN, 0, 0));
        group.1 += 1;
        if let Some(value) = row.value {
            group.2 += 1;
            group.3 += i128::from(value);
            (group.4, group.5) = (group.4.min(value), group.5.max(value));
        }
        group.6 += row.keys[0];
        group.7 += row.decimal;
    }
    let without_values = |mut group: Group| {
        if group.2 == 0 {
            (group.4, group.5) = (0, 0);
        }
        group
    };
    groups.into_values().map(without_values).collect()
}

fn found(kind: Kind, rows: &Rows) -> Vec<Group> {
    let keys = kind.key_count();
    let wide = |column: usize, row: usize| {
        let column = &rows.columns[column];
        let is_valid = column.valid.as_ref().is_none_or(|valid| valid[row]);
        match &column.values {
            _ if !is_valid => 0,
            RowValues::I64(values) => i128::from(values[row]),
            RowValues::I128(values) => values[row],
            RowValues::F64(values) => values[row] as i128,
            other => panic!("no such column: {other:?}"),
        }
    };
    let group = |row: usize| {
        let key = |index: usize| if index < keys { wide(index, row) as i64 } else { 0 };
        let of = |index: usize| wide(keys + index, row);
        let small = |index: usize| of(index) as i64;
        ([key(0), key(1)], small(0), small(1), of(2), small(3), small(4), small(5), of(6))
    };
    let mut groups: Vec<Group> = (0..rows.row_count).map(group).collect();
    groups.sort_unstable();
    groups
}

/// Groups `parts` one by one and lets `look` see the execution and what it holds.
fn grouped<R>(
    kind: Kind,
    equal_hashes: bool,
    parts: &[Vec<Row>],
    look: impl FnOnce(&Execution<'_>, Vec<HeldGroups>) -> R,
) -> R {
    let (runtime, plan, cancel) = (runtime(equal_hashes), plan(kind, parts.len()), CancelFlag::new());
    let inputs = Inputs::from(parts.iter().map(|rows| rows_of(rows)).collect::<Vec<_>>());
    let given = Given::new(&plan, inputs, &RunWith::default()).unwrap();
    let turn = runtime.machine().arbiter(runtime.device()).unwrap().turn();
    let runs_on = (&*runtime, &runtime.workers[0], turn);
    let mut execution =
        Execution::new(runs_on, &plan, &Shared::of(&plan, 1, &[]), &given, &cancel, None).unwrap();
    for index in 0..parts.len() {
        execution.pipeline(index).unwrap();
    }
    let held = |index| match execution.held(index) {
        Some(Groups::Held(held)) => HeldGroups::clone(held),
        _ => panic!("groups that fit are on the device"),
    };
    let held = (0..parts.len()).map(held).collect();
    look(&execution, held)
}

fn rows(execution: &Execution<'_>, combiner: Combiner<'_, '_>) -> Result<Rows> {
    let held = combiner.finish()?;
    group_rows_of(execution, &held, Some(held.count), u64::MAX)
}

fn three_parts() -> [Vec<Row>; 3] {
    [part(0, 1000), part(1, 1000), part(2, 1000)]
}

#[test]
fn parts_of_every_kind_become_the_groups_of_all_rows() {
    for (kind, equal_hashes) in KINDS.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let parts = three_parts();
        let expected = expected(kind, parts.iter().flatten().copied());
        grouped(kind, equal_hashes, &parts, |execution, held| {
            let total = held.iter().map(|held| held.count).sum();
            let new = Combiner::new(execution, &held[0].layout, total, 0).unwrap();
            for held in &held {
                new.add(&GroupsPart::Held(held), GroupPartition::ALL).unwrap();
            }
            assert_eq!(found(kind, &rows(execution, new).unwrap()), expected, "{kind:?}");
            let onto = Combiner::onto(execution, &held[0], total, 0).unwrap();
            for held in &held[1..] {
                onto.add(&GroupsPart::Held(held), GroupPartition::ALL).unwrap();
            }
            assert_eq!(found(kind, &rows(execution, onto).unwrap()), expected, "{kind:?} onto the first");
        });
    }
}

#[test]
fn each_group_is_in_one_partition() {
    for kind in [Kind::Direct, Kind::Hashed, Kind::Wide] {
        let parts = three_parts();
        let expected = expected(kind, parts.iter().flatten().copied());
        grouped(kind, false, &parts, |execution, held| {
            let mut all = Vec::new();
            for index in 0..5 {
                let combiner = Combiner::new(execution, &held[0].layout, 100, 0).unwrap();
                for held in &held {
                    combiner.add(&GroupsPart::Held(held), GroupPartition { index, count: 5 }).unwrap();
                }
                let partition = found(kind, &rows(execution, combiner).unwrap());
                assert!((5..40).contains(&partition.len()), "{kind:?}: {} of 100 groups", partition.len());
                all.extend(partition);
            }
            all.sort_unstable();
            assert_eq!(all, expected, "{kind:?}");
        });
    }
}

#[test]
fn records_and_ranges_of_places_are_parts_too() {
    for kind in [Kind::Direct, Kind::Hashed, Kind::Wide] {
        let parts = three_parts();
        let expected = expected(kind, parts.iter().flatten().copied());
        grouped(kind, false, &parts, |execution, held| {
            let combiner = Combiner::new(execution, &held[0].layout, 300, 0).unwrap();
            for held in &held[..2] {
                let (records, count) = records(execution, held);
                let part = GroupsPart::Records { records: &records, count };
                combiner.add(&part, GroupPartition::ALL).unwrap();
            }
            if kind == Kind::Direct {
                let (states, half) = (&held[2].groups, held[2].groups.len() / 2);
                for (range, first_place) in [(0..half, 0), (half..states.len(), held[2].places() / 2)] {
                    let part = GroupsPart::Places { states: &states.slice(range), first_place };
                    combiner.add(&part, GroupPartition::ALL).unwrap();
                }
            } else {
                combiner.add(&GroupsPart::Held(&held[2]), GroupPartition::ALL).unwrap();
            }
            assert_eq!(found(kind, &rows(execution, combiner).unwrap()), expected, "{kind:?}");
        });
    }
}

/// The groups of `held`, gathered.
fn records(execution: &Execution<'_>, held: &HeldGroups) -> (Span, u64) {
    let bytes = 8 + held.count as usize * (held.layout.width() + 1) * 8;
    let kind = MemoryKind::Device(execution.device());
    let out = execution.runtime.machine().allocate(kind, bytes, OnFull::Refuse).unwrap().span();
    let count = gather_to(execution, held, 0..held.places(), &out).unwrap();
    (out.slice(8..bytes), count)
}

#[test]
fn no_rows_are_no_groups_and_one_without_keys() {
    for kind in KINDS {
        let parts = [Vec::new(), part(1, 40), Vec::new()];
        let expected = expected(kind, parts.iter().flatten().copied());
        grouped(kind, false, &parts, |execution, held| {
            let combiner = Combiner::onto(execution, &held[0], 40, 0).unwrap();
            combiner.add(&GroupsPart::Held(&held[1]), GroupPartition::ALL).unwrap();
            combiner.add(&GroupsPart::Held(&held[2]), GroupPartition::ALL).unwrap();
            assert_eq!(found(kind, &rows(execution, combiner).unwrap()), expected, "{kind:?}");
        });
    }
}

#[test]
fn a_sum_that_only_all_parts_together_overflow_is_an_error() {
    for kind in KINDS {
        let row = Row { keys: [3, 4], value: None, decimal: i128::MAX / 5 * 2 };
        let parts = [vec![row; 2], vec![row; 2]];
        grouped(kind, false, &parts, |execution, held| {
            let combiner = Combiner::new(execution, &held[0].layout, 10, 0).unwrap();
            combiner.add(&GroupsPart::Held(&held[0]), GroupPartition::ALL).unwrap();
            combiner.add(&GroupsPart::Held(&held[1]), GroupPartition::ALL).unwrap();
            let error = combiner.finish().err().expect("an overflow");
            assert_eq!(error.kind(), &ErrorKind::Unsupported, "{kind:?}: {error}");
            assert!(error.to_string().contains("may overflow for some row"), "{kind:?}: {error}");
        });
    }
}

#[test]
fn more_groups_than_there_is_room_for_are_an_error() {
    for kind in [Kind::Hashed, Kind::Wide] {
        grouped(kind, false, &three_parts(), |execution, held| {
            let combiner = Combiner::new(execution, &held[0].layout, 20, 0).unwrap();
            combiner.add(&GroupsPart::Held(&held[0]), GroupPartition::ALL).unwrap();
            let error = combiner.finish().err().expect("too many groups");
            assert!(error.to_string().contains("beyond the room"), "{kind:?}: {error}");
        });
    }
}
