//! `pelton bench sampling`: how far the choice of encodings from a sample falls behind the choice from the
//! whole column (GOLAP, section 6.5 and Table 1).
//!
//! ```text
//! 1. cut the fact table into chunks of 8192 rows
//! 2. try every encoding on all of them: the best cost of each column is the reference
//! 3. load the table with samples of 1, 5 and 10 % of the chunks: what the load chose is the choice under test
//! 4. deviation = cost, on the whole column, of what the load chose / the reference
//! ```
//!
//! A deviation of 1.0 is a perfect choice. Where step 2 left out what the load chose, it is tried on the whole column too. Decode times come from this machine's cores, where the paper's
//! came from its GPU.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use pelton_chunk::{Column, Encoding};
use pelton_datagen::Dataset;
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_load::{CancelFlag, LoadOptions, LoadRequest, NoProgress, load_batches};
use pelton_store::{
    ColumnChoice, Objective, Sample, SampleOptions, TableSchema, Warehouse, WriteMode, choose,
    column_from_arrow,
};
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
    let rows = fact_rows(workload, cancel)?;
    let whole = chunks(&rows)?;
    say(&format!("{} chunks of {CHUNK_ROWS} rows, {} columns", whole.runs.len(), whole.schema.columns.len()));
    let mut results = Vec::new();
    let fastest = Objective::Fastest { storage_bytes_per_s: PAPER_STORAGE_BYTES_PER_S };
    for (name, objective) in [("time", fastest), ("ratio", Objective::Smallest)] {
        let reference = choose_from(&whole, objective)?;
        say(&format!("chose by {name} from whole columns"));
        for (position, sample_ratio) in [0.01, 0.05, 0.10].into_iter().enumerate() {
            cancel.check()?;
            let sampled = choose_in_load(workload, &rows, objective, sample_ratio, seed, cancel)?;
            let (paper_mean, paper_max) = paper(workload.dataset, name, position).unzip();
            let mut result = compare(&reference, &sampled, &|column, encoding| {
                cost_of(&whole, objective, column, encoding)
            })?;
            result.workload = format!("{}-sf{}", workload.dataset, workload.scale);
            results.push(SamplingResult { objective: name, sample_ratio, paper_mean, paper_max, ..result });
        }
    }
    Ok(results)
}

/// The fact table.
fn fact_rows(workload: &Workload, cancel: &CancelFlag) -> Result<RecordBatch> {
    let table = workload.fact_table()?;
    let mut batches = Vec::new();
    for batch in pelton_datagen::batches(workload.dataset, table.name, workload.scale, 0, 1, workload.seed)? {
        cancel.check()?;
        batches.push(batch);
    }
    concat_batches(&table.schema, &batches)
        .map_err(|error| Error::new(ErrorKind::Io, "collecting the table").with_source(error))
}

/// The rows in chunks.
fn chunks(rows: &RecordBatch) -> Result<Sample> {
    let schema = TableSchema::from_arrow(&rows.schema())?;
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
    Ok(choose(sample, &sample_options(objective))?.columns)
}

fn sample_options(objective: Objective) -> SampleOptions {
    SampleOptions {
        objective,
        row_group_rows: vec![CHUNK_ROWS as u32],
        page_rows: CHUNK_ROWS as u32,
        rows_max: u64::MAX,
        ..SampleOptions::default()
    }
}

/// What a load of `rows` chooses that looks at this share of them. The table is gone when this returns.
fn choose_in_load(
    workload: &Workload,
    rows: &RecordBatch,
    objective: Objective,
    sample_ratio: f64,
    seed: u64,
    cancel: &CancelFlag,
) -> Result<Vec<ColumnChoice>> {
    let root = workload.root();
    std::fs::create_dir_all(&root).context(|| format!("creating '{}'", root.display()))?;
    let folder = tempfile::Builder::new().prefix("sampling-").tempdir_in(&root);
    let folder = folder.context(|| format!("creating a folder in '{}'", root.display()))?;
    let warehouse = Warehouse::open_or_create(folder.path())?;
    let options = LoadOptions {
        choose: sample_options(objective),
        sample_ratio,
        sample_row_groups_max: u64::MAX,
        seed,
        thread_count: workload.threads,
        ..LoadOptions::default()
    };
    let request = LoadRequest { options, ..LoadRequest::new("sampled", WriteMode::Create, Vec::new()) };
    let batches = Box::new(std::iter::once(Ok(rows.clone())));
    let report = load_batches(&warehouse, &request, &rows.schema(), batches, &NoProgress, cancel)?;
    Ok(report.choices)
}

/// The cost of `encoding` on all of column `index`, as the reference's candidates were costed: where a chunk cannot have
/// it, the writer's fallback counts.
fn cost_of(whole: &Sample, objective: Objective, index: usize, encoding: Encoding) -> Result<f64> {
    let schema = TableSchema { columns: vec![whole.schema.columns[index].clone()] };
    let runs = whole.runs.iter().map(|run| vec![run[index].clone()]).collect();
    let options = SampleOptions {
        force_encoding: Some(encoding),
        force_codec: Some(encoding.codec),
        ..sample_options(objective)
    };
    let plan = choose(&Sample { schema, runs }, &options)?;
    let tried = plan.columns[0].candidates.first();
    tried.map(|tried| tried.cost).ok_or_else(|| Error::invalid_input("a column without rows has no cost"))
}

/// Tries an encoding on a whole column, which goes by its number; gives the cost.
type CostOf<'a> = &'a dyn Fn(usize, Encoding) -> Result<f64>;

fn compare(
    reference: &[ColumnChoice],
    sampled: &[ColumnChoice],
    cost_of: CostOf<'_>,
) -> Result<SamplingResult> {
    let mut deviations = Vec::new();
    let mut same_choice = 0;
    for (index, (whole, chosen)) in reference.iter().zip(sampled).enumerate() {
        let known = whole.candidates.iter().find(|candidate| candidate.encoding == chosen.encoding);
        let cost = match known {
            Some(candidate) => candidate.cost,
            None => cost_of(index, chosen.encoding)?,
        };
        let best = whole.candidates.iter().map(|candidate| candidate.cost).fold(cost, f64::min);
        same_choice += usize::from(whole.encoding == chosen.encoding);
        deviations.push((cost / best.max(f64::MIN_POSITIVE), whole.column.clone()));
    }
    let worst = deviations.iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("a table has a column");
    Ok(SamplingResult {
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
    })
}

/// Mean and worst deviation of Table 1, by sample size.
fn paper(dataset: Dataset, objective: &str, position: usize) -> Option<(f64, f64)> {
    let table = match (dataset, objective) {
        (Dataset::Ssb, "time") => [(1.26, 2.4), (1.13, 1.43), (1.06, 1.26)],
        (Dataset::Ssb, _) => [(1.01, 1.01), (1.0, 1.0), (1.0, 1.0)],
        (Dataset::Taxi, "time") => [(2.03, 4.15), (1.36, 3.32), (1.44, 2.06)],
        (Dataset::Taxi, _) => [(1.033, 1.26), (1.03, 1.11), (1.05, 1.3)],
        (Dataset::Tpch | Dataset::Hits, _) => return None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use pelton_store::Candidate;

    #[test]
    fn a_choice_that_was_not_among_the_candidates_is_tried_and_not_taken_for_perfect() {
        let candidate = |encoding, cost| Candidate {
            encoding,
            row_group_rows: 1,
            stored_bytes: 1,
            decode_bytes_per_s: 1,
            cost,
        };
        let choice = |encoding, candidates| ColumnChoice { candidates, ..ColumnChoice::fixed("c", encoding) };
        let reference = [choice(Encoding::CONSTANT, vec![candidate(Encoding::CONSTANT, 10.0)])];
        let sampled = [choice(Encoding::PLAIN, Vec::new())];
        let result = compare(&reference, &sampled, &|_, _| Ok(25.0)).unwrap();
        assert_eq!((result.deviation_mean, result.same_choice), (2.5, 0));
        let better = compare(&reference, &sampled, &|_, _| Ok(5.0)).unwrap();
        assert_eq!(better.deviation_mean, 1.0, "the best that is known is what was chosen");
    }
}
