//! `pelton bench sampling`: how far the choice of encodings from a sample falls behind the choice from the
//! whole column (GOLAP, section 6.5 and Table 1).
//!
//! ```text
//! 1. cut the fact table into chunks of 8192 rows
//! 2. try every encoding on all of them: the best cost of each column is the reference
//! 3. choose again from 1, 5 and 10 % of the chunks, at random
//! 4. deviation = cost, on the whole column, of what the sample chose / the reference
//! ```
//!
//! A deviation of 1.0 is a perfect choice. Decode times come from this machine's cores, where the paper's
//! came from its GPU.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use pelton_chunk::Column;
use pelton_datagen::Dataset;
use pelton_error::{Error, ErrorKind, Result};
use pelton_load::CancelFlag;
use pelton_store::{ColumnChoice, Objective, Sample, SampleOptions, TableSchema, choose, column_from_arrow};
use serde::Serialize;

use crate::results::TextTable;
use crate::workload::Workload;

/// Rows of a chunk: small, so that 1 % of a small table is still several chunks.
const CHUNK_ROWS: usize = 8192;

/// Storage of the paper's machine: three SSDs, 19.5 GiB/s.
const PAPER_STORAGE_BYTES_PER_S: u64 = 20_937_965_568;

/// How one sample size did for one objective.
#[derive(Debug, Clone, Serialize)]
pub struct SamplingResult {
    /// The data set and scale.
    pub workload: String,
    /// `time` or `ratio`.
    pub objective: &'static str,
    /// Share of the chunks looked at.
    pub sample_ratio: f64,
    /// Columns compared.
    pub columns: usize,
    /// Columns for which the sample chose the reference's encoding.
    pub same_choice: usize,
    /// Mean deviation over the columns.
    pub deviation_mean: f64,
    /// The worst column's deviation.
    pub deviation_max: f64,
    /// The worst column.
    pub worst_column: String,
    /// The paper's mean deviation, where it states one.
    pub paper_mean: Option<f64>,
    /// The paper's worst deviation.
    pub paper_max: Option<f64>,
}

/// Runs both objectives at 1, 5 and 10 %.
pub fn run(
    workload: &Workload,
    seed: u64,
    cancel: &CancelFlag,
    say: &dyn Fn(&str),
) -> Result<Vec<SamplingResult>> {
    let whole = chunks(workload, cancel)?;
    say(&format!("{} chunks of {CHUNK_ROWS} rows, {} columns", whole.runs.len(), whole.schema.columns.len()));
    let mut results = Vec::new();
    let fastest = Objective::Fastest { storage_bytes_per_s: PAPER_STORAGE_BYTES_PER_S };
    for (name, objective) in [("time", fastest), ("ratio", Objective::Smallest)] {
        let reference = choose_from(&whole, objective)?;
        say(&format!("chose by {name} from whole columns"));
        for (position, sample_ratio) in [0.01, 0.05, 0.10].into_iter().enumerate() {
            cancel.check()?;
            let sampled = choose_from(&sample(&whole, sample_ratio, seed), objective)?;
            let (paper_mean, paper_max) = paper(workload.dataset, name, position).unzip();
            let mut result = compare(&reference, &sampled);
            result.workload = format!("{}-sf{}", workload.dataset, workload.scale);
            results.push(SamplingResult { objective: name, sample_ratio, paper_mean, paper_max, ..result });
        }
    }
    Ok(results)
}

/// The fact table in chunks.
fn chunks(workload: &Workload, cancel: &CancelFlag) -> Result<Sample> {
    let table = workload.fact_table()?;
    let schema = TableSchema::from_arrow(&table.schema)?;
    let mut batches = Vec::new();
    for batch in pelton_datagen::batches(workload.dataset, table.name, workload.scale, 0, 1, workload.seed)? {
        cancel.check()?;
        batches.push(batch);
    }
    let rows = concat_batches(&table.schema, &batches)
        .map_err(|error| Error::new(ErrorKind::Io, "collecting the table").with_source(error))?;
    let starts = (0..rows.num_rows()).step_by(CHUNK_ROWS);
    let runs = starts.map(|first| {
        let chunk = rows.slice(first, CHUNK_ROWS.min(rows.num_rows() - first));
        columns_of(&chunk, &schema)
    });
    Ok(Sample { runs: runs.collect::<Result<_>>()?, schema })
}

fn columns_of(rows: &RecordBatch, schema: &TableSchema) -> Result<Vec<Column>> {
    rows.columns()
        .iter()
        .zip(&schema.columns)
        .map(|(array, column)| column_from_arrow(array.as_ref(), &column.logical))
        .collect()
}

fn choose_from(sample: &Sample, objective: Objective) -> Result<Vec<ColumnChoice>> {
    let options = SampleOptions {
        objective,
        row_group_rows: vec![CHUNK_ROWS as u32],
        page_rows: CHUNK_ROWS as u32,
        rows_max: u64::MAX,
        ..SampleOptions::default()
    };
    Ok(choose(sample, &options)?.columns)
}

/// Random chunks, at least one.
fn sample(whole: &Sample, ratio: f64, seed: u64) -> Sample {
    let wanted = ((whole.runs.len() as f64 * ratio).round() as usize).max(1);
    let mut order: Vec<usize> = (0..whole.runs.len()).collect();
    let mut state = seed;
    // Fisher-Yates with SplitMix64 steps: the first `wanted` are a uniform choice.
    for position in 0..wanted {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let other = position + ((mixed ^ (mixed >> 31)) % (order.len() - position) as u64) as usize;
        order.swap(position, other);
    }
    let runs = order[..wanted].iter().map(|&run| whole.runs[run].clone()).collect();
    Sample { runs, schema: whole.schema.clone() }
}

fn compare(reference: &[ColumnChoice], sampled: &[ColumnChoice]) -> SamplingResult {
    let mut deviations = Vec::new();
    let mut same_choice = 0;
    for (whole, chosen) in reference.iter().zip(sampled) {
        let best = whole.candidates.iter().map(|candidate| candidate.cost).fold(f64::MAX, f64::min);
        // An encoding that was not tried on the whole column cannot hold it: the writer would fall back.
        let cost =
            whole.candidates.iter().find(|candidate| candidate.encoding == chosen.encoding).map(|c| c.cost);
        same_choice += usize::from(whole.encoding == chosen.encoding);
        deviations.push((cost.unwrap_or(best) / best.max(f64::MIN_POSITIVE), whole.column.clone()));
    }
    let worst = deviations.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("a table has a column");
    SamplingResult {
        workload: String::new(),
        objective: "",
        sample_ratio: 0.0,
        columns: deviations.len(),
        same_choice,
        deviation_mean: deviations.iter().map(|(deviation, _)| deviation).sum::<f64>()
            / deviations.len() as f64,
        deviation_max: worst.0,
        worst_column: worst.1.clone(),
        paper_mean: None,
        paper_max: None,
    }
}

/// Mean and worst deviation of Table 1, by sample size.
fn paper(dataset: Dataset, objective: &str, position: usize) -> Option<(f64, f64)> {
    let table = match (dataset, objective) {
        (Dataset::Ssb, "time") => [(1.26, 2.4), (1.13, 1.43), (1.06, 1.26)],
        (Dataset::Ssb, _) => [(1.01, 1.01), (1.0, 1.0), (1.0, 1.0)],
        (Dataset::Taxi, "time") => [(2.03, 4.15), (1.36, 3.32), (1.44, 2.06)],
        (Dataset::Taxi, _) => [(1.033, 1.26), (1.03, 1.11), (1.05, 1.3)],
        (Dataset::Tpch, _) => return None,
    };
    Some(table[position])
}

/// The deviations as a table.
pub fn table(results: &[SamplingResult]) -> TextTable {
    let mut table = TextTable::new(&[
        "objective",
        "sample",
        "same choice",
        "mean",
        "max",
        "paper mean",
        "paper max",
        "worst column",
    ]);
    for result in results {
        let paper = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        table.push(vec![
            result.objective.into(),
            format!("{:.0}%", result.sample_ratio * 100.0),
            format!("{}/{}", result.same_choice, result.columns),
            format!("{:.2}", result.deviation_mean),
            format!("{:.2}", result.deviation_max),
            paper(result.paper_mean),
            paper(result.paper_max),
            result.worst_column.clone(),
        ]);
    }
    table
}
