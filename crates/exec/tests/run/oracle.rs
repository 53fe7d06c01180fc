//! The fixture's rows as plain values, and plans over its table. Plans run on a GPU where there is one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use pelton_chunk::DecodedValues;
use pelton_error::CancelFlag;
use pelton_exec::{
    Filters, HostRows, MemoryTest, RowsPart, RunReport, RunWith, Runtime, RuntimeOptions, SomeGroups,
    TakeGroups, TakeRows, TargetChoice,
};
use pelton_pipeline::codegen::GroupLayout;
use pelton_pipeline::ir::{
    Bounds, Column, Expr, Inputs, Literal, Op, Pipeline, Plan, Sink, Source, TableScan, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_store::{LogicalType, Table, read_chunk};

use crate::fixture::{COLUMNS, READABLE, engine};

/// A value of a row.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(crate) enum Cell {
    Null,
    Int(i128),
    Float(f64),
    Text(Vec<u8>),
}

/// One folder of compiled programs for all tests of this process and the next.
fn cache() -> PathBuf {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs")).clone()
}

/// The first GPU where there is one, else the host target; and how many devices there are.
fn target() -> (TargetChoice, usize) {
    static TARGET: OnceLock<(TargetChoice, usize)> = OnceLock::new();
    *TARGET.get_or_init(|| match pelton_device::cuda::open(&pelton_device::cuda::CudaOptions::default()) {
        Ok(machine) => (TargetChoice::Cuda { device: 0 }, machine.info().devices.len()),
        Err(_) => (TargetChoice::Host, usize::MAX),
    })
}

/// Options for small tables.
pub(crate) fn options() -> RuntimeOptions {
    RuntimeOptions {
        target: target().0,
        cache: Some(cache()),
        workers: 3,
        device_memory_limit_bytes: Some(256 << 20),
        pinned_memory_limit_bytes: Some(256 << 20),
        check_for: pelton_pipeline::nvrtc_status().is_ok().then_some((9, 0)),
        pinned_cache_bytes: Some(0),
        ..RuntimeOptions::default()
    }
}

pub(crate) fn runtime(options: RuntimeOptions) -> Arc<Runtime> {
    Runtime::open(options, engine()).unwrap()
}

/// Runs `plan`; where it has conditions, with and without branches, which must give the same rows; on the host target,
/// going through rows as a GPU does; by three workers; and with memory that is made short, where no row may be scanned
/// twice. (A top-k may choose others of equal keys.)
pub(crate) fn run(options: RuntimeOptions, plan: &Plan) -> (Rows, RunReport) {
    let run = |options| runtime(options).run(plan, Vec::new(), &CancelFlag::new()).unwrap();
    let result = run(options.clone());
    let has_conditions =
        |pipeline: &Pipeline| pipeline.ops.iter().any(|op| !matches!(op, Op::Compute { .. }));
    let is_top = |pipeline: &Pipeline| matches!(pipeline.sink, Sink::Materialize { top: Some(_), .. });
    if plan.pipelines.iter().any(has_conditions) && !plan.pipelines.iter().any(is_top) {
        let (predicated, _) = run(RuntimeOptions { filters: Filters::Predicated, ..options.clone() });
        assert_eq!(sorted(&predicated), sorted(&result.0), "predicated");
    }
    if options.target == TargetChoice::Host && !plan.pipelines.iter().any(is_top) {
        let (rows, _) = run(RuntimeOptions { host_rows: HostRows::Lanes, ..options.clone() });
        assert_same(&rows, &result.0, "as a GPU goes through rows");
    }
    for memory_test in [MemoryTest::RefuseOnce, MemoryTest::SpillAlways] {
        let (rows, report) = run(RuntimeOptions { memory_test, ..options.clone() });
        match plan.pipelines.iter().any(is_top) {
            true => assert_eq!(rows.row_count, result.0.row_count, "{memory_test:?}"),
            false => assert_eq!(sorted(&rows), sorted(&result.0), "{memory_test:?}"),
        }
        let rows_in = |report: &RunReport| report.pipelines.iter().map(|one| one.rows_in).collect::<Vec<_>>();
        let is_skipping = plan.pipelines.iter().any(is_top);
        assert!(
            is_skipping || rows_in(&report) == rows_in(&result.1),
            "{memory_test:?}: rows are scanned once"
        );
        if memory_test == MemoryTest::RefuseOnce {
            assert!(report.pipelines.iter().all(|one| one.parked > 0), "{report:?}");
        }
    }
    if has_three_devices() && !plan.pipelines.iter().any(is_top) {
        let (rows, _) = run(RuntimeOptions { more_devices: vec![1, 2], ..options.clone() });
        assert_same(&rows, &result.0, "three workers");
    }
    let with_host = RuntimeOptions {
        host_worker_bytes: Some(256 << 20),
        always_with_host: true,
        host_rows: HostRows::Lanes,
        ..options.clone()
    };
    let with = RunWith { uses_host: true, ..RunWith::default() };
    let run = runtime(with_host).run_with(plan, Inputs::default(), &CancelFlag::new(), with).unwrap();
    if !plan.pipelines.iter().any(is_top) {
        assert_same(&run.0, &result.0, "with the host's cores");
        given_out_is_the_same(&options, plan, &result);
    }
    result
}

/// Rows and groups that are given out before the end of a run are those that it else ends with: some at a time, with
/// memory that is made short, and by three workers.
fn given_out_is_the_same(options: &RuntimeOptions, plan: &Plan, (rows, report): &(Rows, RunReport)) {
    let expected = sorted(rows);
    let few = RuntimeOptions { first_rows: Some(700), ..options.clone() };
    let short = RuntimeOptions { memory_test: MemoryTest::RefuseOnce, ..options.clone() };
    let few_of_short = RuntimeOptions { first_rows: Some(90), ..short.clone() };
    let shared = RuntimeOptions { more_devices: vec![1, 2], first_rows: Some(90), ..options.clone() };
    for options in [few, short, few_of_short].into_iter().chain(has_three_devices().then_some(shared)) {
        let taker = Taker::default();
        let with = RunWith { rows_taker: Some(&taker), groups_taker: Some(&taker), ..RunWith::default() };
        let run = runtime(options.clone()).run_with(plan, Inputs::default(), &CancelFlag::new(), with);
        let (rest, report_of_parts) = run.unwrap();
        let mut found = taker.rows.into_inner().unwrap();
        assert!(found.is_empty() || rest.row_count == 0, "rows are given out, or all come in the end");
        found.extend(sorted(&rest));
        sort(&mut found);
        let is_same = |(a, b): (&Cell, &Cell)| match (a, b) {
            (Cell::Float(a), Cell::Float(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
            (a, b) => a == b,
        };
        let rows = found.iter().flatten().zip(expected.iter().flatten());
        assert!(found.len() == expected.len() && rows.into_iter().all(is_same), "given out: {options:?}");
        let rows_out = |report: &RunReport| report.pipelines.last().map(|last| last.rows_out);
        assert_eq!(rows_out(&report_of_parts), rows_out(report), "{options:?}");
    }
}

/// Collects rows, and has enough now and then.
#[derive(Default)]
struct Taker {
    rows: Mutex<Vec<Vec<Cell>>>,
    asked: AtomicUsize,
}

impl TakeRows for Taker {
    fn take(&self, rows: RowsPart) -> pelton_error::Result<()> {
        let rows = sorted(&rows.into_rows()?);
        self.rows.lock().unwrap().extend(rows);
        Ok(())
    }

    fn is_full(&self) -> bool {
        !self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
    }

    fn part_bytes(&self) -> usize {
        1 << 10
    }
}

impl TakeGroups for Taker {
    fn wants(&self, _: &GroupLayout) -> bool {
        true
    }

    fn take_groups(&self, groups: SomeGroups) -> pelton_error::Result<()> {
        let rows = sorted(&groups.into_rows()?);
        self.rows.lock().unwrap().extend(rows);
        Ok(())
    }
}

/// Whether there are three devices: GPUs, or logical devices, of which there are as many as one likes.
pub(crate) fn has_three_devices() -> bool {
    target().1 >= 3
}

/// The same rows, but for the order in which doubles were added.
pub(crate) fn assert_same(found: &Rows, expected: &Rows, what: &str) {
    let (found, expected) = (sorted(found), sorted(expected));
    let is_same = |pair: (&Cell, &Cell)| match pair {
        (Cell::Float(a), Cell::Float(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    let is_same_row = |(a, b): (&Vec<Cell>, &Vec<Cell>)| a.len() == b.len() && a.iter().zip(b).all(is_same);
    assert_eq!(found.len(), expected.len(), "{what}");
    assert!(found.iter().zip(&expected).all(is_same_row), "{what}: {found:?} in place of {expected:?}");
}

/// All readable columns of `table` as the source of a pipeline.
pub(crate) fn source(runtime: &Runtime, table: &Arc<Table>) -> (Source, Vec<Column>) {
    let columns = READABLE.map(|index| {
        let (name, logical, _) = &COLUMNS[index];
        let ty = match logical {
            LogicalType::Int64 => Type::I64,
            LogicalType::Float64 => Type::F64,
            LogicalType::Decimal { .. } => Type::I128,
            LogicalType::Bool => Type::Bool,
            LogicalType::Utf8 => Type::Text,
            _ => Type::I32,
        };
        let all: Vec<i128> = cells(table, index)
            .iter()
            .filter_map(|cell| if let Cell::Int(value) = cell { Some(*value) } else { None })
            .collect();
        let bounds = all.iter().min().zip(all.iter().max()).map(|(min, max)| Bounds { min: *min, max: *max });
        let text = (ty == Type::Text)
            .then(|| runtime.column_cache().text(table, index) as Arc<dyn pelton_pipeline::TextSource>);
        Column { name: (*name).into(), ty, is_nullable: true, bounds, text }
    });
    let row_groups = (0..table.row_group_count() as u32).collect();
    let scan = TableScan {
        table: Arc::clone(table),
        columns: READABLE.to_vec(),
        row_groups,
        uses_runtime_filters: true,
    };
    (Source::Table(scan), columns.to_vec())
}

/// The values of a column of the table, by the CPU's decoder.
pub(crate) fn cells(table: &Arc<Table>, column: usize) -> Vec<Cell> {
    let io = engine();
    let mut cells = Vec::new();
    for group in 0..table.row_group_count() {
        let bytes = read_chunk(&io, table, group, column).unwrap().wait_blocking().unwrap();
        let decoded = table.chunk_view(group, column, &bytes).unwrap().decode().unwrap();
        let count = table.row_group(group).row_count as usize;
        for row in 0..count {
            let is_valid = decoded.validity.as_ref().is_none_or(|validity| validity.is_valid(row));
            cells.push(if is_valid { cell(&decoded.values, row) } else { Cell::Null });
        }
    }
    cells
}

fn cell(values: &DecodedValues, row: usize) -> Cell {
    use pelton_chunk::Values::*;
    match values {
        DecodedValues::Plain(values) => match values {
            U8(values) => Cell::Int(values[row].into()),
            U16(values) => Cell::Int(values[row].into()),
            I32(values) => Cell::Int(values[row].into()),
            I64(values) => Cell::Int(values[row].into()),
            I128(values) => Cell::Int(values[row]),
            F64(values) => Cell::Float(values[row]),
            Bytes(values) => Cell::Text(values.get(row).to_vec()),
            other => panic!("no such column in the fixture: {other:?}"),
        },
        DecodedValues::Dictionary { codes, dictionary } => {
            Cell::Text(dictionary.get(codes[row] as usize).to_vec())
        }
    }
}

/// The rows that came out, in sorted order.
pub(crate) fn sorted(rows: &Rows) -> Vec<Vec<Cell>> {
    let mut all = as_they_come(rows);
    sort(&mut all);
    all
}

/// The rows that came out, in their order.
pub(crate) fn as_they_come(rows: &Rows) -> Vec<Vec<Cell>> {
    let row = |row| rows.columns.iter().map(|column| output_cell(column, row)).collect();
    (0..rows.row_count).map(row).collect()
}

pub(crate) fn sort(rows: &mut [Vec<Cell>]) {
    rows.sort_by(|a, b| a.partial_cmp(b).expect("no NaN in the fixture"));
}

fn output_cell(column: &RowColumn, row: usize) -> Cell {
    if column.valid.as_ref().is_some_and(|valid| !valid[row]) {
        return Cell::Null;
    }
    match &column.values {
        RowValues::Bool(values) => Cell::Int(values[row].into()),
        RowValues::I32(values) => Cell::Int(values[row].into()),
        RowValues::I64(values) => Cell::Int(values[row].into()),
        RowValues::I128(values) => Cell::Int(values[row]),
        RowValues::F64(values) => Cell::Float(values[row]),
        RowValues::Text { ids, dictionary } => Cell::Text(dictionary.entries.get(ids[row] as usize).to_vec()),
    }
}

/// The table's rows as cells, readable columns alone.
pub(crate) fn all_rows(table: &Arc<Table>) -> Vec<Vec<Cell>> {
    let columns: Vec<Vec<Cell>> = READABLE.iter().map(|column| cells(table, *column)).collect();
    (0..table.row_count() as usize)
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}

/// A plan of one pipeline.
pub(crate) fn single(source: Source, columns: Vec<Column>, ops: Vec<Op>, sink: Sink) -> Plan {
    let pipeline = Pipeline { name: "test".into(), source, columns, ops, sink };
    Plan { pipelines: vec![pipeline], table_count: 0, host_input_count: 0, unique_tables: Vec::new() }
}

pub(crate) fn column(index: usize) -> Expr {
    Expr::Column(index)
}

pub(crate) fn int(value: i32) -> Expr {
    Expr::Literal(Literal::I32(value))
}
