//! Scans of one column, by the device as a pipeline or by the CPU engine as a query.
//!
//! ```text
//!   sum          column ──► one value             E4, E5
//!   copy         column ──► all of it, in host memory    E6, on devices alone
//! ```
//!
//! Text has no sum: its groups are counted, which reads every value.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pelton_engine::{DeviceChoice, PeltonSession, ScanOptions};
use pelton_error::{CancelFlag, Error, ErrorKind, Result};
use pelton_exec::{Runtime, RuntimeOptions, TargetChoice};
use pelton_io::IoEngine;
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, Column, Expr, Pipeline, Plan, Sink, Source, TableScan, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows, TextSource};
use pelton_store::{LogicalType, Table, Warehouse};
use pelton_zone::Scalar;

use super::Stage;
use super::stage::{Setup, unpruned};

/// How a scan keeps storage and device busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// Row groups in flight; `None`: as many as the device, or the engine, takes by itself.
    pub(super) slots: Option<usize>,
    /// Whether the next is brought while one is worked on.
    pub(super) has_overlap: bool,
}

impl Pace {
    /// As the device, or the engine, does by itself.
    pub(super) const USUAL: Self = Self { slots: None, has_overlap: true };
}

/// What becomes of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Its sum.
    Sum,
    /// All of it, in host memory.
    Copy,
}

/// Scans columns of one table.
pub(super) enum Scanner {
    /// By pipelines.
    Device {
        /// Runs them.
        runtime: Arc<Runtime>,
        /// Whose columns.
        table: Arc<Table>,
    },
    /// By queries.
    Engine {
        /// Runs them.
        session: Box<PeltonSession>,
        /// Whose columns.
        table: Arc<Table>,
    },
}

/// The times of a scan, and what it gave.
pub(super) struct Scanned {
    /// Each repetition.
    pub(super) seconds: Vec<f64>,
    /// The sum, the sum of what was copied, or the rows of each text: the same however it was computed.
    pub(super) answer: String,
    /// Row groups that were read ahead at once at most, the one worked on included; of the CPU engine nobody counts.
    pub(super) row_groups_ahead_max: Option<usize>,
    /// Uncompressed bytes per second that the device decompressed codecs at, by its own events; `None` where it did not.
    pub(super) device_codec_bytes_per_s: Option<f64>,
}

impl Scanner {
    /// Scans `table` of the tables in `warehouse` on the stage's device.
    pub(super) fn open(
        stage: &Stage<'_>,
        warehouse: &Path,
        table: &str,
        is_stored: bool,
        pace: Pace,
    ) -> Result<Self> {
        if !stage.has_device() {
            return Self::engine(stage, warehouse, table, is_stored, pace);
        }
        let io = Arc::new(IoEngine::start(stage.io_options(is_stored))?);
        let target = match stage.device {
            DeviceChoice::Gpu(device) | DeviceChoice::GpuAndHost(device) => {
                TargetChoice::Cuda { device: device.unwrap_or(0) }
            }
            _ => TargetChoice::Host,
        };
        let defaults = RuntimeOptions::default();
        let options = RuntimeOptions {
            target,
            overlap: pace.has_overlap,
            staging_buffers: pace.slots.unwrap_or(defaults.staging_buffers),
            // One row group each, as a pipeline of the paper holds one chunk a column.
            row_groups_max: if pace.slots.is_some() { 1 } else { defaults.row_groups_max },
            device_cache_bytes: Some(0),
            pinned_cache_bytes: Some(0),
            workers: stage.options.threads as u32,
            ..defaults
        };
        let table = Warehouse::open(warehouse)?.table(table)?;
        Ok(Self::Device { runtime: Runtime::open(options, io)?, table })
    }

    /// Scans with the CPU engine.
    pub(super) fn engine(
        stage: &Stage<'_>,
        warehouse: &Path,
        table: &str,
        is_stored: bool,
        pace: Pace,
    ) -> Result<Self> {
        let read_ahead = pace.slots.unwrap_or(ScanOptions::default().read_ahead);
        let setup =
            Setup { device: DeviceChoice::Cpu, is_stored, scan: ScanOptions { read_ahead, ..unpruned() } };
        let session = Box::new(stage.session(warehouse, setup)?);
        Ok(Self::Engine { session, table: Warehouse::open(warehouse)?.table(table)? })
    }

    /// The table that is scanned.
    pub(super) fn table(&self) -> &Arc<Table> {
        match self {
            Self::Device { table, .. } | Self::Engine { table, .. } => table,
        }
    }

    /// Uncompressed and stored bytes of a column.
    pub(super) fn bytes(&self, column: usize) -> (f64, f64) {
        let summary = self.table().column_summary(column);
        (summary.raw_bytes as f64, summary.stored_bytes as f64)
    }

    /// Scans a column once to warm up and then as often as counts.
    pub(super) fn time(&self, stage: &Stage<'_>, column: usize, target: Target) -> Result<Scanned> {
        let mut scanned = self.once(stage, column, target)?;
        scanned.seconds.clear();
        for _ in 0..stage.options.repetitions {
            stage.cancel.check()?;
            let next = self.once(stage, column, target)?;
            if next.answer != scanned.answer {
                return Err(other_answer(self.table(), column));
            }
            scanned.seconds.extend(next.seconds);
            scanned.row_groups_ahead_max = scanned.row_groups_ahead_max.max(next.row_groups_ahead_max);
        }
        Ok(scanned)
    }

    /// Scans a column once.
    pub(super) fn once(&self, stage: &Stage<'_>, column: usize, target: Target) -> Result<Scanned> {
        match self {
            Self::Device { runtime, table } => by_pipeline(runtime, table, column, target, stage.cancel),
            Self::Engine { session, table } => by_query(stage, session, table, column),
        }
    }
}

/// Two scans of the same column differ.
pub(super) fn other_answer(table: &Table, column: usize) -> Error {
    let name = &table.schema().columns[column].name;
    Error::new(ErrorKind::Corrupt, format!("scans of column '{name}' of table '{}' differ", table.name()))
}

fn is_text(table: &Table, column: usize) -> bool {
    matches!(table.schema().columns[column].logical, LogicalType::Utf8 | LogicalType::Binary)
}

fn by_query(stage: &Stage<'_>, session: &PeltonSession, table: &Table, column: usize) -> Result<Scanned> {
    let name = &table.schema().columns[column].name;
    let sql = match is_text(table, column) {
        true => format!("SELECT \"{name}\", count(*) FROM {} GROUP BY 1", table.name()),
        false => format!("SELECT sum(\"{name}\") FROM {}", table.name()),
    };
    let timed = stage.once(session, &sql)?;
    let mut lines = Vec::new();
    for batch in &timed.answer {
        for row in 0..batch.num_rows() {
            let cell = |column: &arrow::array::ArrayRef| {
                arrow::util::display::array_value_to_string(column, row).map_err(|error| {
                    Error::new(ErrorKind::Corrupt, "a cell without a text").with_source(error)
                })
            };
            lines.push(batch.columns().iter().map(cell).collect::<Result<Vec<_>>>()?.join(" "));
        }
    }
    lines.sort_unstable();
    let answer = lines.join("\n");
    Ok(Scanned { seconds: timed.seconds, answer, row_groups_ahead_max: None, device_codec_bytes_per_s: None })
}

fn by_pipeline(
    runtime: &Runtime,
    table: &Arc<Table>,
    column: usize,
    target: Target,
    cancel: &CancelFlag,
) -> Result<Scanned> {
    let plan = plan(runtime, table, column, target)?;
    let started = Instant::now();
    let (rows, report) = runtime.run(&plan, Vec::new(), cancel)?;
    let seconds = (started.elapsed() - report.compile().min(started.elapsed())).as_secs_f64();
    let scans = &report.pipelines;
    let ahead = scans.iter().map(|scan| scan.row_groups_ahead_max).max();
    let codec_seconds: f64 = scans.iter().map(|scan| scan.device_codec_time.as_secs_f64()).sum();
    let raw_bytes = table.column_summary(column).raw_bytes as f64;
    Ok(Scanned {
        seconds: vec![seconds],
        answer: answer(&rows, target)?,
        row_groups_ahead_max: ahead,
        device_codec_bytes_per_s: (codec_seconds > 0.0).then(|| raw_bytes / codec_seconds),
    })
}

fn plan(runtime: &Runtime, table: &Arc<Table>, column: usize, target: Target) -> Result<Plan> {
    let value = Expr::Column(0);
    let aggregate = |function, input| vec![Aggregate { function, input }];
    let sink = match (target, is_text(table, column)) {
        (Target::Copy, _) => Sink::Materialize { columns: vec![value], top: None, order: None },
        (Target::Sum, true) => Sink::Aggregate {
            keys: vec![value],
            aggregates: aggregate(AggregateFunction::Count, None),
            expected: None,
        },
        (Target::Sum, false) => Sink::Aggregate {
            keys: Vec::new(),
            aggregates: aggregate(AggregateFunction::Sum, Some(value)),
            expected: None,
        },
    };
    let row_groups = (0..table.row_group_count() as u32).collect();
    let scan =
        TableScan { table: Arc::clone(table), columns: vec![column], row_groups, uses_runtime_filters: true };
    let pipeline = Pipeline {
        name: format!("scan of {}", table.schema().columns[column].name),
        source: Source::Table(scan),
        columns: vec![source_column(runtime, table, column)?],
        ops: Vec::new(),
        sink,
    };
    Ok(Plan { pipelines: vec![pipeline], table_count: 0, host_input_count: 0, unique_tables: Vec::new() })
}

fn source_column(runtime: &Runtime, table: &Arc<Table>, column: usize) -> Result<Column> {
    use LogicalType::{Date, Decimal, Float64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, Utf8};
    let schema = &table.schema().columns[column];
    let ty = match &schema.logical {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | Date => Type::I32,
        Int64 | Timestamp { .. } => Type::I64,
        Decimal { .. } => Type::I128,
        Float64 => Type::F64,
        Utf8 => Type::Text,
        other => {
            return Err(Error::unsupported(format!("scans of column '{}' of type {other}", schema.name)));
        }
    };
    let summary = table.column_summary(column);
    let bounds = match (&summary.min, &summary.max) {
        (Some(Scalar::Int(min)), Some(Scalar::Int(max))) => Some(Bounds { min: *min, max: *max }),
        _ => None,
    };
    let text = (ty == Type::Text).then(|| runtime.column_cache().text(table, column) as Arc<dyn TextSource>);
    Ok(Column { name: schema.name.clone(), ty, is_nullable: summary.null_count > 0, bounds, text })
}

fn answer(rows: &Rows, target: Target) -> Result<String> {
    let unexpected = || Error::new(ErrorKind::Corrupt, "a scan gave other columns than asked for");
    match (target, &rows.columns[..]) {
        (_, [column]) if target == Target::Copy || rows.row_count == 1 => Ok(sum(column)),
        (Target::Sum, [RowColumn { values: RowValues::Text { ids, dictionary }, .. }, counts]) => {
            let RowValues::I64(counts) = &counts.values else { return Err(unexpected()) };
            let text = |id: &u32| String::from_utf8_lossy(dictionary.entries.get(*id as usize)).into_owned();
            let mut lines: Vec<String> =
                ids.iter().zip(counts).map(|(id, count)| format!("{} {count}", text(id))).collect();
            lines.sort_unstable();
            Ok(lines.join("\n"))
        }
        _ => Err(unexpected()),
    }
}

/// The sum of a column in host memory; of text, how many.
fn sum(column: &RowColumn) -> String {
    let is_valid = |row: usize| column.valid.as_ref().is_none_or(|valid| valid[row]);
    fn of<T: Copy + Into<i128>>(values: &[T], is_valid: impl Fn(usize) -> bool) -> i128 {
        values.iter().enumerate().filter(|(row, _)| is_valid(*row)).map(|(_, value)| (*value).into()).sum()
    }
    match &column.values {
        RowValues::Bool(values) => of(values, is_valid).to_string(),
        RowValues::I32(values) => of(values, is_valid).to_string(),
        RowValues::I64(values) => of(values, is_valid).to_string(),
        RowValues::I128(values) => of(values, is_valid).to_string(),
        RowValues::F64(values) => values.iter().sum::<f64>().to_string(),
        RowValues::Text { ids, .. } => ids.len().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_left_out_of_the_sum_of_a_copy() {
        let column =
            RowColumn { values: RowValues::I32(vec![1, 20, 300]), valid: Some(vec![true, false, true]) };
        assert_eq!(sum(&column), "301");
        let rows = Rows { row_count: 3, columns: vec![column] };
        assert_eq!(answer(&rows, Target::Copy).unwrap(), "301");
        assert!(answer(&rows, Target::Sum).is_err(), "three rows are no sum");
    }
}
