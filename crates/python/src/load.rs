//! Loading for Python: on a thread of its own, while the calling thread shows progress and listens to Ctrl-C.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatchReader;
use crossbeam_channel::bounded;
use pelton_engine::bytes_text;
use pelton_error::{CancelFlag, Error, Result};
use pelton_load::{
    DISK_BYTES_PER_S, InputFormat, LoadOptions, LoadReport, LoadRequest, Progress, Purpose, Snapshot,
    TextOptions, parse_char, parse_column_types, parse_optional_char,
};
use pelton_store::{Objective, SampleOptions, Warehouse, WriteMode};
use pyo3::prelude::*;
use serde_json::json;

use crate::error::OrRaise;
use crate::options::{Size, spill_options};
use crate::session::next_batch;
use crate::wait::{self, Display};

/// The arguments of `Connection.load`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct LoadArgs {
    table: String,
    files: Vec<String>,
    mode: String,
    cluster_by: Option<String>,
    star: Vec<String>,
    format: Option<String>,
    delimiter: Option<String>,
    header: Option<bool>,
    null: Vec<String>,
    quote: Option<String>,
    escape: Option<String>,
    comment: Option<String>,
    encoding: String,
    infer_rows: String,
    column_types: String,
    purpose: Option<String>,
    objective: Option<String>,
    storage_rate: Option<Size>,
    sample: f64,
    row_group_rows: Vec<u32>,
    page_rows: u32,
    force_codec: Option<String>,
    memory_limit: Option<Size>,
    spill_dir: Option<PathBuf>,
    spill_limit: Option<Size>,
    threads: Option<usize>,
    seed: u64,
}

impl LoadArgs {
    fn request(&self) -> Result<LoadRequest> {
        Ok(LoadRequest {
            table: self.table.clone(),
            mode: write_mode(&self.mode)?,
            inputs: self.files.clone(),
            format: self.format.as_deref().map(input_format).transpose()?,
            text: self.text()?,
            columns: None,
            is_scratch: false,
            cluster_by: pelton_cli::cluster_by(self.cluster_by.as_deref()),
            star: self.star.iter().map(|link| pelton_cli::star_link(link)).collect::<Result<_>>()?,
            options: self.options()?,
        })
    }

    fn text(&self) -> Result<TextOptions> {
        let character =
            |what, text: &Option<String>| parse_optional_char(what, text.as_deref().unwrap_or_default());
        let quote = self.quote.as_deref().map(|text| parse_optional_char("quote", text)).transpose()?;
        let text = TextOptions {
            delimiter: self.delimiter.as_deref().map(|text| parse_char("delimiter", text)).transpose()?,
            header: self.header,
            quote: quote.unwrap_or(Some(b'"')),
            escape: character("escape", &self.escape)?,
            nulls: self.null.clone(),
            comment: character("comment", &self.comment)?,
            encoding: self.encoding.parse()?,
            infer_rows: self.infer_rows.parse()?,
            column_types: parse_column_types(&self.column_types)
                .map_err(|error| error.context("column_types"))?,
        };
        text.check()?;
        Ok(text)
    }

    fn options(&self) -> Result<LoadOptions> {
        let defaults = LoadOptions::default();
        Ok(LoadOptions {
            choose: SampleOptions {
                row_group_rows: self.row_group_rows.clone(),
                page_rows: self.page_rows,
                force_codec: self.force_codec.as_deref().map(str::parse).transpose()?,
                ..self.choose()?
            },
            sample_ratio: self.sample,
            sample_row_groups_max: defaults.sample_row_groups_max,
            seed: self.seed,
            memory_limit_bytes: Size::limit(self.memory_limit.as_ref())?.bytes().unwrap_or(u64::MAX),
            spill: spill_options(self.spill_dir.clone(), self.spill_limit.as_ref())?,
            thread_count: self.threads.unwrap_or(defaults.thread_count),
        })
    }

    /// Among which encodings, and what for.
    fn choose(&self) -> Result<SampleOptions> {
        let rate = self.storage_rate.as_ref().map(Size::bytes).transpose()?;
        let objective = match self.objective.as_deref() {
            Some("smallest") => Objective::Smallest,
            Some("fastest") | None => {
                Objective::Fastest { storage_bytes_per_s: rate.unwrap_or(DISK_BYTES_PER_S) }
            }
            Some(other) => return Err(unknown("objective", other, "'fastest' or 'smallest'")),
        };
        let purpose = match self.purpose.as_deref() {
            None if self.objective.is_some() || rate.is_some() => {
                return Ok(SampleOptions { objective, ..SampleOptions::default() });
            }
            Some("auto") | None => Purpose::Auto,
            Some("gpu") => Purpose::Gpu,
            Some("cpu") => Purpose::Cpu,
            Some("archive") => Purpose::Archive,
            Some(other) => return Err(unknown("purpose", other, "'auto', 'gpu', 'cpu' or 'archive'")),
        };
        Ok(purpose.choose())
    }
}

fn unknown(what: &str, given: &str, known: &str) -> Error {
    Error::invalid_input(format!("{what} is {known}, not '{given}'"))
}

fn write_mode(text: &str) -> Result<WriteMode> {
    match text {
        "create" => Ok(WriteMode::Create),
        "append" => Ok(WriteMode::Append),
        "replace" => Ok(WriteMode::Replace),
        other => Err(unknown("mode", other, "'create', 'append' or 'replace'")),
    }
}

fn input_format(text: &str) -> Result<InputFormat> {
    match text {
        "parquet" => Ok(InputFormat::Parquet),
        "csv" => Ok(InputFormat::Csv),
        "json" => Ok(InputFormat::Json),
        "arrow" => Ok(InputFormat::Arrow),
        other => Err(unknown("format", other, "'parquet', 'csv', 'json' or 'arrow'")),
    }
}

/// The newest snapshot of a load.
#[derive(Default)]
struct Latest(Mutex<Option<Snapshot>>);

impl Progress for Latest {
    fn update(&self, snapshot: &Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(*snapshot);
    }
}

impl Latest {
    fn text(&self, elapsed: Duration) -> Option<String> {
        let snapshot = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let rows = match snapshot.row_count_total {
            Some(total) => format!("{} of {total} rows", snapshot.row_count),
            None => format!("{} rows", snapshot.row_count),
        };
        let input = match snapshot.input_bytes_total {
            Some(total) if total > 0 => format!(", {}% of input", 100 * snapshot.input_bytes / total),
            _ => String::new(),
        };
        let (seconds, raw) = (elapsed.as_secs_f64(), bytes_text(snapshot.raw_bytes));
        Some(format!("{seconds:.1} s  {}: {rows}, {raw} raw{input}", snapshot.phase.name()))
    }
}

/// Loads files, or what `reader` gives; the report as JSON. After Ctrl-C it returns when the load has cleaned up.
pub(crate) fn load(
    py: Python<'_>,
    warehouse: Warehouse,
    args: &LoadArgs,
    reader: Option<Box<dyn RecordBatchReader + Send>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let request = args.request().or_raise(py)?;
    let (cancel, latest) = (CancelFlag::new(), Arc::new(Latest::default()));
    let (sender, receiver) = bounded(1);
    let (flag, watched) = (cancel.clone(), Arc::clone(&latest));
    std::thread::spawn(move || {
        let report = run(&warehouse, &request, reader, &watched, &flag);
        // The other end waits for this, come what may.
        let _ = sender.send(report.map_err(|error| error.context(format!("loading '{}'", request.table))));
    });
    let text = |elapsed| latest.text(elapsed);
    match wait::next(py, &receiver, &mut Display::new(progress, &text)) {
        Ok(report) => report.map(|report| report_json(&args.table, &report)).or_raise(py),
        Err(interruption) => {
            cancel.cancel();
            let _ = py.detach(|| receiver.recv());
            Err(interruption)
        }
    }
}

fn run(
    warehouse: &Warehouse,
    request: &LoadRequest,
    reader: Option<Box<dyn RecordBatchReader + Send>>,
    progress: &Latest,
    cancel: &CancelFlag,
) -> Result<LoadReport> {
    let Some(mut reader) = reader else { return pelton_load::load(warehouse, request, progress, cancel) };
    let schema = reader.schema();
    let batches = Box::new(std::iter::from_fn(move || next_batch(&mut reader)));
    pelton_load::load_batches(warehouse, request, &schema, batches, progress, cancel)
}

fn report_json(table: &str, report: &LoadReport) -> String {
    json!({
        "table": table,
        "row_count": report.row_count,
        "row_group_count": report.row_group_count,
        "raw_bytes": report.raw_bytes,
        "stored_bytes": report.stored_bytes,
        "metadata_bytes": report.metadata_bytes,
        "spilled_bytes": report.spilled_bytes,
        "seconds": report.duration().as_secs_f64(),
        "cluster_by": report.cluster_by,
        "warnings": report.warnings,
    })
    .to_string()
}
