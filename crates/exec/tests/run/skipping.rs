//! Row groups that finished hash tables rule out: by the range of their keys, and by single keys where they are few.

use std::sync::Arc;

use pelton_chunk::{Column as Values, Values as Data};
use pelton_error::CancelFlag;
use pelton_exec::{RunReport, RuntimeOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, Column, Expr, Op, Pipeline, Plan, ProbeKind, Sink, Source,
    TableScan, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_store::{ColumnSchema, LogicalType, Table, TableSchema};

use crate::fixture::{Place, place};
use crate::oracle::{Cell, column, has_three_devices, options, runtime, sorted};

/// Row groups of each of the two segments.
const GROUPS: u64 = 20;
const ROWS: u64 = 500;

/// Row group `g` of a segment has the keys g, g + 40, g + 80, …: all have nearly the same bounds, and no bin of a
/// histogram is empty.
fn facts() -> Place {
    let key = ColumnSchema { name: "key".into(), logical: LogicalType::Int64, nullable: false };
    let keys = |first: u64, count: u64| {
        let key = |row: u64| (row / ROWS % GROUPS + row % ROWS * 40) as i64;
        vec![Values::new(Data::I64((first..first + count).map(key).collect()))]
    };
    let schema = TableSchema::new(vec![key]).unwrap();
    place(schema, &["bitpack".parse().unwrap()], ROWS as u32, GROUPS * ROWS, keys)
}

fn key_column() -> Column {
    let bounds = Some(Bounds { min: 0, max: 20_000 });
    Column { name: "key".into(), ty: Type::I64, is_nullable: false, bounds, text: None }
}

/// Counts the facts whose key is among those that are brought.
fn plan(table: &Arc<Table>, kind: ProbeKind, uses_runtime_filters: bool) -> Plan {
    let build = Pipeline {
        name: "build".into(),
        source: Source::HostInput(0),
        columns: vec![key_column()],
        ops: Vec::new(),
        sink: Sink::Build { table: 0, keys: vec![column(0)], payload: Vec::new() },
    };
    let row_groups = (0..table.row_group_count() as u32).collect();
    let scan = TableScan { table: Arc::clone(table), columns: vec![0], row_groups, uses_runtime_filters };
    let count = Aggregate { function: AggregateFunction::Count, input: None::<Expr> };
    let facts = Pipeline {
        name: "facts".into(),
        source: Source::Table(scan),
        columns: vec![key_column()],
        ops: vec![Op::Probe { table: 0, keys: vec![column(0)], kind, residual: None }],
        sink: Sink::Aggregate { keys: Vec::new(), aggregates: vec![count], expected: None },
    };
    Plan { pipelines: vec![build, facts], table_count: 1, host_input_count: 1, unique_tables: Vec::new() }
}

/// Runs it; the count is that of a look at every key.
fn check(place: &Place, keys: &[i64], kind: ProbeKind, uses_runtime_filters: bool) -> RunReport {
    let values = RowValues::I64(keys.to_vec());
    let host_input = Rows { row_count: keys.len(), columns: vec![RowColumn { values, valid: None }] };
    let plan = plan(&place.table, kind, uses_runtime_filters);
    let run = |options: RuntimeOptions| {
        runtime(options).run(&plan, vec![host_input.clone()], &CancelFlag::new()).unwrap()
    };
    let (rows, report) = run(options());
    if has_three_devices() {
        let (by_three, report_of_three) = run(RuntimeOptions { more_devices: vec![1, 2], ..options() });
        assert_eq!(sorted(&by_three), sorted(&rows), "three workers");
        assert_eq!(skipped(&report_of_three), skipped(&report), "three workers");
    }
    let facts = 0..2 * GROUPS * ROWS;
    let matches = facts.map(|row| {
        let key = (row / ROWS % GROUPS + row % ROWS * 40) as i64;
        let found = keys.iter().filter(|other| **other == key).count();
        match kind {
            ProbeKind::Inner => found,
            ProbeKind::Semi => found.min(1),
            ProbeKind::Anti => usize::from(found == 0),
            ProbeKind::Outer => found.max(1),
            ProbeKind::Mark => 1,
        }
    });
    assert_eq!(sorted(&rows), [[Cell::Int(matches.sum::<usize>() as i128)]], "{kind:?}");
    report
}

/// Row groups that were skipped, and of them by single keys.
fn skipped(report: &RunReport) -> (u64, u64) {
    (report.pipelines[1].row_groups_skipped, report.pipelines[1].row_groups_skipped_by_keys)
}

#[test]
fn few_keys_rule_out_row_groups_that_their_range_does_not() {
    let place = facts();
    for kind in [ProbeKind::Inner, ProbeKind::Semi] {
        let report = check(&place, &[7, 19_967], kind, true);
        assert_eq!(skipped(&report), (38, 38), "{kind:?}");
        assert_eq!(report.pipelines[1].rows_in, 2 * ROWS);
        let line = "skipped by finished hash tables: 38 row groups, 38 of them by single keys";
        assert!(report.lines().iter().any(|said| said.contains(line)), "{:?}", report.lines());
    }
}

#[test]
fn keys_that_repeat_are_noted_once() {
    let place = facts();
    let mut keys = vec![7; 300];
    keys.extend([19_967; 300]);
    assert_eq!(skipped(&check(&place, &keys, ProbeKind::Inner, true)), (38, 38));
}

#[test]
fn as_many_keys_as_are_noted_skip_and_one_more_do_not() {
    let place = facts();
    // All of the third row group of each segment.
    let keys: Vec<i64> = (0..65).map(|key| 2 + key * 40 * 7).collect();
    let (skipped_by_64, by_keys) = skipped(&check(&place, &keys[..64], ProbeKind::Inner, true));
    assert!(by_keys > 0 && skipped_by_64 == by_keys, "{skipped_by_64} and {by_keys}");
    assert_eq!(skipped(&check(&place, &keys, ProbeKind::Inner, true)), (0, 0));
}

#[test]
fn a_table_without_rows_reads_nothing_of_what_probes_it() {
    let place = facts();
    let report = check(&place, &[], ProbeKind::Inner, true);
    assert_eq!((skipped(&report), report.pipelines[1].rows_in), ((40, 40), 0));
}

#[test]
fn where_rows_without_a_match_go_on_or_nothing_may_be_skipped_everything_is_read() {
    let place = facts();
    for kind in [ProbeKind::Anti, ProbeKind::Outer] {
        assert_eq!(skipped(&check(&place, &[7], kind, true)), (0, 0), "{kind:?}");
    }
    assert_eq!(skipped(&check(&place, &[7], ProbeKind::Inner, false)), (0, 0));
}
