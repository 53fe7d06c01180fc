//! `pelton bench queries`: a data set's queries on Pelton tables, and the same rows as Parquet through plain
//! DataFusion beside them.
//!
//! A time runs from the text of the query to its last row: parsing, planning, reading, computing. Tables are
//! opened and files are listed anew for every run. Both engines' rows are compared on every query.

use std::path::PathBuf;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use pelton_device::Place;
use pelton_engine::{
    PeltonSession, ScanReport, SessionOptions, SkippedBy, StepTime, bytes_text, from_datafusion,
};
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};
use pelton_store::Warehouse;
use serde::Serialize;

use crate::results::{TextTable, median};
use crate::wait::wait_for;
use crate::workload::{Prepared, Workload};

/// The tier of all tables' columns while queries on a device are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataTier {
    /// In the tables' files; nothing is cached on the device.
    Disk,
    /// In pinned host memory; nothing is cached on the device.
    Pinned,
    /// In device memory.
    Device,
}

/// How to run.
#[derive(Debug, Clone)]
pub struct QueriesOptions {
    /// Counted runs of each query.
    pub runs: usize,
    /// Drop the files from the page cache before every run.
    pub cold: bool,
    /// Queries to run, by the beginning of their names; empty for all.
    pub only: Vec<String>,
    /// Leave the peer out.
    pub pelton_only: bool,
    /// The session that queries run in: a new one for each run, or one for all where a tier is chosen.
    pub session: SessionOptions,
    /// The tier of all columns; `None` where no device is meant.
    pub tier: Option<DataTier>,
}

/// One query's figures.
#[derive(Debug, Clone, Serialize)]
pub struct QueryResult {
    /// The data set and scale, `ssb-sf1`.
    pub workload: String,
    /// The query's name.
    pub query: String,
    /// True where files were dropped from the page cache before each run.
    pub cold: bool,
    /// Rows of the answer.
    pub rows: usize,
    /// Median over the runs.
    pub pelton_ms: f64,
    /// Median over the runs of the peer.
    pub datafusion_ms: Option<f64>,
    /// Stored bytes of the columns needed, all row groups.
    pub stored_bytes: u64,
    /// Uncompressed bytes of the columns needed: what was answered for.
    pub raw_bytes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Stored bytes skipped, by kind of metadata.
    pub bytes_skipped: Vec<(&'static str, u64)>,
    /// Uncompressed bytes answered for per second.
    pub effective_bytes_per_s: f64,
    /// True where both engines gave the same rows; `None` where the peer did not run.
    pub equal: Option<bool>,
    /// The pipelines on the device of each run, the one to warm up among them.
    pub steps: Vec<Vec<Step>>,
}

/// A pipeline that ran on a device.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Step {
    /// What it was predicted to take by rates alone.
    pub model_ms: f64,
    /// What it was predicted to take after what runs before it had shown.
    pub predicted_ms: f64,
    /// What it took.
    pub took_ms: f64,
}

impl Step {
    fn of(time: &StepTime) -> Self {
        let StepTime { model_s, predicted_s, took_s } = time;
        Self { model_ms: model_s * 1e3, predicted_ms: predicted_s * 1e3, took_ms: took_s * 1e3 }
    }

    /// How far the prediction was off: twice as long and half as long are as far.
    fn off(&self) -> f64 {
        let ratio = self.took_ms / self.predicted_ms;
        ratio.max(1.0 / ratio)
    }
}

/// Runs the queries of `workload`.
pub fn run(
    workload: &Workload,
    prepared: &Prepared,
    options: &QueriesOptions,
    cancel: &CancelFlag,
    say: &dyn Fn(&str),
) -> Result<Vec<QueryResult>> {
    let runtime = tokio::runtime::Runtime::new().context(|| "starting the thread pool".into())?;
    let wanted =
        |name: &str| options.only.is_empty() || options.only.iter().any(|start| name.starts_with(start));
    let shared = options.tier.map(|tier| at_tier(tier, prepared, options, cancel, say)).transpose()?;
    let mut results = Vec::new();
    for query in pelton_datagen::queries(workload.dataset).iter().filter(|query| wanted(query.name)) {
        cancel.check()?;
        let sql = query.sql_for_scale(workload.scale);
        let ask = |sql: &str| match &shared {
            Some(session) => wait_for(&runtime, cancel, run_query(session, sql)),
            None => {
                let session = PeltonSession::open(Some(prepared.warehouse.clone()), &options.session)?;
                wait_for(&runtime, cancel, run_query(&session, sql))
            }
        };
        let ask_peer = |sql: &str| wait_for(&runtime, cancel, run_datafusion(prepared, options, sql));
        let mut steps = Vec::new();
        let ask_and_note = || {
            let answer = ask(&sql)?;
            steps.push(answer.steps.iter().map(Step::of).collect());
            Ok(answer)
        };
        let ours =
            measure(options, prepared, ask_and_note).context(|| format!("{} on Pelton", query.name))?;
        let peer = match options.pelton_only {
            true => None,
            false => {
                let measured = measure(options, prepared, || ask_peer(&sql));
                Some(measured.context(|| format!("{} on DataFusion", query.name))?)
            }
        };
        let equal = match &peer {
            None => None,
            Some(peer) => Some(is_same_answer(&sql, [&ours.last, &peer.last], [&ask, &ask_peer])?),
        };
        let result = combine(workload, query.name, options.cold, ours, peer, equal);
        let result = QueryResult { steps, ..result };
        say(&format!("{} {:.1} ms", result.query, result.pelton_ms));
        results.push(result);
    }
    Ok(results)
}

struct Measured<T> {
    ms: Vec<f64>,
    last: T,
}

/// One run to warm up (unless cold), then the counted ones.
fn measure<T>(
    options: &QueriesOptions,
    prepared: &Prepared,
    mut run: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    assert!(options.runs > 0);
    if !options.cold {
        run()?;
    }
    let (mut ms, mut last) = (Vec::with_capacity(options.runs), None);
    for _ in 0..options.runs {
        if options.cold {
            drop_from_page_cache(prepared)?;
        }
        let started = Instant::now();
        last = Some(run()?);
        ms.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Measured { ms, last: last.expect("at least one run") })
}

struct Answer {
    batches: Vec<RecordBatch>,
    scans: Vec<ScanReport>,
    steps: Vec<StepTime>,
}

impl Answer {
    fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// A session over tables whose columns are in `tier`.
fn at_tier(
    tier: DataTier,
    prepared: &Prepared,
    options: &QueriesOptions,
    cancel: &CancelFlag,
    say: &dyn Fn(&str),
) -> Result<PeltonSession> {
    let mut session = options.session.clone();
    session.runtime.device_cache_bytes = Some(if tier == DataTier::Device { u64::MAX } else { 0 });
    session.runtime.pinned_cache_bytes = Some(0);
    let session = PeltonSession::open(Some(prepared.warehouse.clone()), &session)?;
    if tier == DataTier::Disk {
        return Ok(session);
    }
    let runtime = session.open_runtime().context(|| "--data-tier needs a device".into())?;
    let (column_cache, device) = (runtime.column_cache(), runtime.device());
    let warehouse = Warehouse::open(&prepared.warehouse)?;
    for name in warehouse.tables()? {
        let table = warehouse.table(&name)?;
        let pinned = column_cache.pin(&table, None, cancel)?;
        say(&format!("{name}: {} pinned in {:.2} s", bytes_text(pinned.bytes), pinned.elapsed.as_secs_f64()));
        if tier == DataTier::Device {
            let left_out = |column: &str| pinned.columns_left_out.iter().any(|(name, _)| name == column);
            let stream = runtime.machine().stream(Place::Device(device))?;
            for (index, column) in table.schema().columns.iter().enumerate() {
                if !left_out(&column.name) && !column_cache.admit(&table, index, device, &stream, cancel)? {
                    return Err(Error::invalid_input(format!(
                        "no room for {name}.{} on the device",
                        column.name
                    )));
                }
            }
        }
    }
    Ok(session)
}

async fn run_query(session: &PeltonSession, sql: &str) -> Result<Answer> {
    let query = session.query(sql).await?;
    let batches = query.collect().await?;
    Ok(Answer { batches, scans: query.scan_reports()?, steps: query.step_times() })
}

async fn run_datafusion(prepared: &Prepared, options: &QueriesOptions, sql: &str) -> Result<Answer> {
    let mut config = SessionConfig::new().with_batch_size(options.session.batch_rows);
    if let Some(threads) = options.session.threads {
        config = config.with_target_partitions(threads);
    }
    let ctx = SessionContext::new_with_config(config);
    for (table, directory) in &prepared.parquet {
        ctx.register_parquet(table, directory.display().to_string(), ParquetReadOptions::default())
            .await
            .map_err(from_datafusion)?;
    }
    let batches = ctx.sql(sql).await.map_err(from_datafusion)?.collect().await.map_err(from_datafusion)?;
    Ok(Answer { batches, scans: Vec::new(), steps: Vec::new() })
}

fn combine(
    workload: &Workload,
    query: &str,
    cold: bool,
    ours: Measured<Answer>,
    peer: Option<Measured<Answer>>,
    equal: Option<bool>,
) -> QueryResult {
    let scans = &ours.last.scans;
    let sum = |figure: fn(&ScanReport) -> u64| scans.iter().map(figure).sum::<u64>();
    let pelton_ms = median(&ours.ms);
    let skipped = SkippedBy::ALL.map(|by| {
        let bytes =
            scans.iter().filter_map(|scan| scan.skipped.get(&by)).map(|skipped| skipped.stored_bytes).sum();
        (by.name(), bytes)
    });
    QueryResult {
        workload: format!("{}-sf{}", workload.dataset, workload.scale),
        query: query.to_owned(),
        cold,
        rows: ours.last.row_count(),
        pelton_ms,
        datafusion_ms: peer.as_ref().map(|peer| median(&peer.ms)),
        stored_bytes: sum(|scan| scan.stored_bytes),
        raw_bytes: sum(|scan| scan.raw_bytes),
        bytes_read: sum(|scan| scan.bytes_read),
        bytes_skipped: skipped.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
        effective_bytes_per_s: sum(|scan| scan.raw_bytes) as f64 / (pelton_ms / 1e3),
        equal,
        steps: Vec::new(),
    }
}

/// Asks an engine.
type Ask<'a> = &'a dyn Fn(&str) -> Result<Answer>;

/// Whether both engines gave the same rows. Which of the rows that tie at a limit an answer has is free, so where
/// limited answers differ all rows are asked for; that the limit took the right ones of them, `tests/oracle` checks.
fn is_same_answer(sql: &str, answers: [&Answer; 2], engines: [Ask<'_>; 2]) -> Result<bool> {
    let [ours, theirs] = answers;
    if same_rows(&ours.batches, &theirs.batches) {
        return Ok(true);
    }
    let Some(all_rows) = without_limit(sql) else { return Ok(false) };
    if ours.row_count() != theirs.row_count() {
        return Ok(false);
    }
    let [ours, theirs] = engines.map(|ask| ask(all_rows));
    Ok(same_rows(&ours?.batches, &theirs?.batches))
}

/// The statement without the line that limits it; `None` where it has none.
fn without_limit(sql: &str) -> Option<&str> {
    sql.rsplit_once("\nlimit ").map(|(all_rows, _)| all_rows)
}

/// How far the times that were predicted of pipelines on a device are off, in sentences; none where none ran there.
pub fn predictions(results: &[QueryResult]) -> Vec<String> {
    let in_runs = |of: fn(&QueryResult) -> &[Vec<Step>]| {
        results.iter().flat_map(|result| of(result).iter().flatten().map(Step::off)).collect::<Vec<f64>>()
    };
    let runs = [
        ("the first runs", in_runs(|result| result.steps.get(..1).filter(|_| !result.cold).unwrap_or(&[]))),
        ("the last runs", in_runs(|result| result.steps.last().map_or(&[], std::slice::from_ref))),
        ("all runs", in_runs(|result| &result.steps)),
    ];
    let runs = runs.into_iter().filter(|(_, off)| !off.is_empty());
    runs.map(|(name, off)| prediction_text(name, &off)).collect()
}

fn prediction_text(runs: &str, factors: &[f64]) -> String {
    let within = |factor: f64| {
        let count = factors.iter().filter(|off| **off <= factor).count();
        100.0 * count as f64 / factors.len() as f64
    };
    format!(
        "predicted and actual times of {} pipelines in {runs}: median ratio {:.2}, {:.0}% within 1.3, {:.0}% within 2",
        factors.len(),
        median(factors),
        within(1.3),
        within(2.0)
    )
}

/// The figures as a table, with a line of totals.
pub fn table(results: &[QueryResult]) -> TextTable {
    let mut table = TextTable::new(&[
        "query",
        "rows",
        "Pelton ms",
        "raw",
        "stored",
        "read",
        "skipped",
        "by",
        "effective",
        "Parquet ms",
        "speed-up",
        "equal",
    ]);
    for result in results {
        table.push(row(result));
    }
    let total = |figure: fn(&QueryResult) -> f64| results.iter().map(figure).sum::<f64>();
    let pelton_ms = total(|result| result.pelton_ms);
    let peer_ms = results.iter().map(|result| result.datafusion_ms).sum::<Option<f64>>();
    let raw = total(|result| result.raw_bytes as f64);
    table.push(vec![
        "total".into(),
        results.iter().map(|result| result.rows).sum::<usize>().to_string(),
        format!("{pelton_ms:.1}"),
        bytes_text(raw as u64),
        bytes_text(total(|result| result.stored_bytes as f64) as u64),
        bytes_text(total(|result| result.bytes_read as f64) as u64),
        bytes_text(total(|result| result.bytes_skipped.iter().map(|(_, bytes)| *bytes as f64).sum()) as u64),
        String::new(),
        format!("{}/s", bytes_text((raw / (pelton_ms / 1e3).max(1e-9)) as u64)),
        peer_ms.map_or("-".into(), |ms| format!("{ms:.1}")),
        peer_ms.map_or("-".into(), |ms| format!("{:.2}x", ms / pelton_ms)),
        String::new(),
    ]);
    table
}

fn row(result: &QueryResult) -> Vec<String> {
    let skipped: u64 = result.bytes_skipped.iter().map(|(_, bytes)| bytes).sum();
    let by: Vec<String> = result
        .bytes_skipped
        .iter()
        .map(|(by, bytes)| format!("{by} {:.0}%", 100.0 * *bytes as f64 / result.stored_bytes.max(1) as f64))
        .collect();
    vec![
        result.query.clone(),
        result.rows.to_string(),
        format!("{:.1}", result.pelton_ms),
        bytes_text(result.raw_bytes),
        bytes_text(result.stored_bytes),
        bytes_text(result.bytes_read),
        bytes_text(skipped),
        by.join(" "),
        format!("{}/s", bytes_text(result.effective_bytes_per_s as u64)),
        result.datafusion_ms.map_or("-".into(), |ms| format!("{ms:.1}")),
        result.datafusion_ms.map_or("-".into(), |ms| format!("{:.2}x", ms / result.pelton_ms)),
        match result.equal {
            Some(true) => "yes".into(),
            Some(false) => "NO".into(),
            None => "-".into(),
        },
    ]
}

/// True where both hold the same rows; order does not count. Doubles may differ by 1e-9 relative, and from a DECIMAL by
/// one unit of its last digit: plain DataFusion cuts averages and quotients of decimals, of which ours are doubles.
pub fn same_rows(ours: &[RecordBatch], theirs: &[RecordBatch]) -> bool {
    let units = units_of_last_digits(ours, theirs);
    let (mut ours, mut theirs) = (text_rows(ours), text_rows(theirs));
    ours.sort_unstable();
    theirs.sort_unstable();
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(our_row, their_row)| {
            our_row.len() == their_row.len()
                && our_row
                    .iter()
                    .zip(their_row)
                    .enumerate()
                    .all(|(column, (a, b))| same_cell(a, b, units.get(column).copied().unwrap_or_default()))
        })
}

/// For each column that is a double in `ours` and a decimal in `theirs` the unit of its last digit, else zero.
fn units_of_last_digits(ours: &[RecordBatch], theirs: &[RecordBatch]) -> Vec<f64> {
    let (Some(ours), Some(theirs)) = (ours.first(), theirs.first()) else { return Vec::new() };
    let columns = ours.columns().iter().zip(theirs.columns());
    let unit = |(ours, theirs): (&ArrayRef, &ArrayRef)| match (ours.data_type(), theirs.data_type()) {
        (DataType::Float64, DataType::Decimal128(_, scale)) => 10_f64.powi(-i32::from(*scale)),
        _ => 0.0,
    };
    columns.map(unit).collect()
}

fn text_rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    use arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::default().with_null("∅");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> = batch
            .columns()
            .iter()
            .map(|column| {
                ArrayFormatter::try_new(column.as_ref(), &options).expect("every result type has a text")
            })
            .collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect()),
        );
    }
    rows
}

fn same_cell(a: &str, b: &str, unit: f64) -> bool {
    if a == b {
        return true;
    }
    let (Ok(a), Ok(b)) = (a.parse::<f64>(), b.parse::<f64>()) else { return false };
    (a - b).abs() <= unit.max(1e-9 * a.abs().max(b.abs()))
}

/// Asks the kernel to forget the data files, as if the machine had just started.
fn drop_from_page_cache(prepared: &Prepared) -> Result<()> {
    let mut directories: Vec<PathBuf> =
        prepared.parquet.iter().map(|(_, directory)| directory.clone()).collect();
    directories.push(prepared.warehouse.clone());
    while let Some(directory) = directories.pop() {
        let listing = || format!("listing '{}'", directory.display());
        for entry in std::fs::read_dir(&directory).context(listing)? {
            let path = entry.context(listing)?.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let file = std::fs::File::open(&path).context(|| format!("opening '{}'", path.display()))?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|error| {
                Error::new(ErrorKind::Io, format!("dropping '{}' from the page cache", path.display()))
                    .with_source(std::io::Error::from(error))
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_as_far_off_above_as_below() {
        let off =
            [0.5, 1.0, 1.2, 2.5, 0.8].map(|took_ms| Step { model_ms: 9.0, predicted_ms: 1.0, took_ms }.off());
        let text = prediction_text("the last runs", &off);
        let expected = "predicted and actual times of 5 pipelines in the last runs: median ratio 1.25, 60% within 1.3, \
                        80% within 2";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_a_limited_statement_is_cut() {
        assert_eq!(without_limit("select a\nfrom t\nlimit 10 offset 5;\n"), Some("select a\nfrom t"));
        assert_eq!(without_limit("select a from t;\n"), None);
    }

    #[test]
    fn cells_compare_exactly_but_for_float_noise() {
        assert!(same_cell("1.0000000001", "1.0000000002", 0.0));
        assert!(!same_cell("1.001", "1.002", 0.0));
        assert!(same_cell("0.33333333", "0.3333", 1e-4) && !same_cell("0.3336", "0.3333", 1e-4));
        assert!(!same_cell("ASIA", "EUROPE", 1.0));
        assert!(!same_cell("∅", "0", 1.0));
    }
}
