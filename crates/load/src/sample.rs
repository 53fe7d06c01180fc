//! Rows at random positions, from which encodings are chosen and distinct values are counted.
//!
//! For encodings, a sample is some whole row groups: 10 % of them by default, at least 2 and at most 8, and all
//! rows of a small input. Where from:
//!
//! ```text
//!  files that can be read anywhere    parts at random, their first rows
//!  staged rows                        row groups at random
//!  sorted runs                        row groups of the merge at random: the rows at the same quantile of
//!                                     every run lie about where the merge will bring them together
//! ```
//!
//! Bound: a quarter of the memory limit; a sample that would take more is cut short.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_error::Result;
use pelton_store::{Sample, TableSchema};

use crate::budget::{Budget, Held, batch_bytes};
use crate::row_groups::column_of;
use crate::scratch::SpillFile;
use crate::sort::{SortContext, SortedRuns, sort};
use crate::stage::Stage;
use pelton_error::CancelFlag;
use pelton_files::{Part, View};

/// Which rows to sample: runs of neighbouring rows at random positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleSize {
    /// Rows of a run.
    pub(crate) run_rows: u64,
    /// Share of the input, within the bounds below.
    pub(crate) ratio: f64,
    run_count_min: u64,
    run_count_max: u64,
    pub(crate) seed: u64,
}

impl SampleSize {
    /// Whole row groups, from which encodings are chosen.
    pub(crate) fn row_groups(row_group_rows: u32, ratio: f64, most: u64, seed: u64) -> Self {
        Self { run_rows: row_group_rows.into(), ratio, run_count_min: 2, run_count_max: most.max(2), seed }
    }

    /// Short runs from all over the input, in which distinct values are counted: a column that follows the
    /// order of the input (a date, say) has few of them in any one place.
    pub(crate) fn spread(seed: u64) -> Self {
        Self { run_rows: 2048, ratio: 0.0, run_count_min: 64, run_count_max: 64, seed }
    }

    /// Runs to sample of `total`.
    fn run_count(&self, total: u64) -> u64 {
        let wanted = (total as f64 * self.ratio).ceil() as u64;
        wanted.clamp(self.run_count_min, self.run_count_max).min(total)
    }

    /// The rows to sample of `row_count`, in order.
    fn ranges(&self, row_count: u64) -> Vec<Range<u64>> {
        let total = row_count.div_ceil(self.run_rows);
        let mut chosen = Shuffle::new(self.seed).choose(total, self.run_count(total));
        chosen.sort_unstable();
        chosen
            .into_iter()
            .map(|index| index * self.run_rows..((index + 1) * self.run_rows).min(row_count))
            .collect()
    }
}

/// Sampled rows: one entry a run, each in pieces.
pub(crate) struct Sampled {
    pub(crate) runs: Vec<Vec<RecordBatch>>,
    held: Held,
    bytes_max: u64,
}

impl Sampled {
    fn new(budget: &Arc<Budget>) -> Self {
        Self { runs: Vec::new(), held: budget.hold(0), bytes_max: budget.stage_bytes() }
    }

    /// Adds rows; false once the sample is as large as it may be.
    fn add(&mut self, rows: Vec<RecordBatch>) -> bool {
        self.held.grow(rows.iter().map(batch_bytes).sum());
        if rows.iter().any(|batch| batch.num_rows() > 0) {
            self.runs.push(rows);
        }
        self.held.bytes() < self.bytes_max
    }

    /// Rows in all.
    pub(crate) fn row_count(&self) -> u64 {
        self.runs.iter().flatten().map(|batch| batch.num_rows() as u64).sum()
    }

    /// What the store chooses from.
    pub(crate) fn into_sample(self, schema: &TableSchema) -> Result<Sample> {
        let columns = |rows: &Vec<RecordBatch>| {
            (0..schema.columns.len()).map(|position| column_of(rows, position, schema)).collect()
        };
        let runs = self.runs.iter().map(columns).collect::<Result<_>>()?;
        Ok(Sample { schema: schema.clone(), runs })
    }

    /// Rows to be expected in files of `file_bytes`, which do not take more room than rows in memory.
    pub(crate) fn extrapolated_row_count(&self, file_bytes: u64) -> u64 {
        let row_bytes = self.held.bytes() as f64 / self.row_count().max(1) as f64;
        (file_bytes as f64 / row_bytes.max(1.0)).ceil() as u64
    }
}

/// Samples files whose parts can be read at random.
pub(crate) fn sample_sources(
    view: &View,
    size: &SampleSize,
    budget: &Arc<Budget>,
    cancel: &CancelFlag,
) -> Result<Sampled> {
    let sources = view.sources();
    let parts: Vec<Part> = sources.parts().collect::<Result<_>>()?;
    let wanted = match sources.row_count() {
        Some(row_count) => size.run_count(row_count.div_ceil(size.run_rows)),
        None => size.run_count_max,
    };
    let mut sampled = Sampled::new(budget);
    let rows_per_part = size.run_rows * wanted.div_ceil(parts.len().max(1) as u64);
    let mut missing = wanted * size.run_rows;
    for index in Shuffle::new(size.seed).choose(parts.len() as u64, parts.len() as u64) {
        cancel.check()?;
        let taken = first_rows(view, &parts[index as usize], rows_per_part.min(missing))?;
        missing -= taken.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        if !sampled.add(taken) || missing == 0 {
            break;
        }
    }
    Ok(sampled)
}

/// The first `row_count` rows of `part`.
fn first_rows(view: &View, part: &Part, row_count: u64) -> Result<Vec<RecordBatch>> {
    let mut missing = row_count;
    let mut rows = Vec::new();
    for batch in view.read(part)? {
        let batch = batch?;
        let taken = missing.min(batch.num_rows() as u64);
        rows.push(batch.slice(0, taken as usize));
        missing -= taken;
        if missing == 0 {
            break;
        }
    }
    Ok(rows)
}

/// Samples staged rows.
pub(crate) fn sample_stage(stage: &Stage, size: &SampleSize, budget: &Arc<Budget>) -> Result<Sampled> {
    let mut sampled = Sampled::new(budget);
    for range in size.ranges(stage.row_count()) {
        if !sampled.add(stage.rows(range)?) {
            break;
        }
    }
    Ok(sampled)
}

/// Samples rows about as the merge of `runs` will bring them together.
pub(crate) fn sample_runs(
    runs: &SortedRuns,
    size: &SampleSize,
    context: &SortContext<'_>,
) -> Result<Sampled> {
    let mut sampled = Sampled::new(context.budget);
    match runs {
        SortedRuns::Memory(run) => {
            let ranges = size.ranges(run.order.len() as u64);
            let ranges = ranges.into_iter().map(|range| range.start as usize..range.end as usize);
            for rows in run.gather_at_once(ranges) {
                if !sampled.add(vec![rows?]) {
                    break;
                }
            }
        }
        SortedRuns::Spilled(files) => {
            let row_count: u64 = files.iter().map(spilled_rows).sum();
            for range in size.ranges(row_count) {
                let pieces = files.iter().map(|file| share_of_run(file, &range, row_count));
                let pieces = pieces.collect::<Result<Vec<_>>>()?.into_iter().flatten();
                let sorted = sort(context, pieces.map(Ok), |_| {})?;
                let rows = sorted.into_batches(context)?.collect::<Result<Vec<_>>>()?;
                if !sampled.add(rows) {
                    break;
                }
            }
        }
    }
    Ok(sampled)
}

fn spilled_rows(file: &SpillFile) -> u64 {
    file.batch_rows.iter().map(|&rows| rows as u64).sum()
}

/// The batches of a run that hold the same share of it as `range` is of `row_count` rows, cut to that share.
fn share_of_run(file: &SpillFile, range: &Range<u64>, row_count: u64) -> Result<Vec<RecordBatch>> {
    let scale = spilled_rows(file) as f64 / row_count as f64;
    let share = (range.start as f64 * scale) as u64..(range.end as f64 * scale) as u64;
    file.rows(0, &share)
}

/// Random numbers without repetition (splitmix64 and a partial Fisher-Yates shuffle), the same for the same seed.
struct Shuffle {
    state: u64,
}

impl Shuffle {
    fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `count` of the numbers below `total`.
    fn choose(&mut self, total: u64, count: u64) -> Vec<u64> {
        let mut moved = std::collections::HashMap::new();
        let mut chosen = Vec::with_capacity(count as usize);
        for position in 0..count.min(total) {
            let other = position + self.next() % (total - position);
            chosen.push(*moved.get(&other).unwrap_or(&other));
            let here = *moved.get(&position).unwrap_or(&position);
            moved.insert(other, here);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_numbers_differ_and_depend_on_the_seed_alone() {
        let chosen = Shuffle::new(1).choose(100, 40);
        let mut sorted = chosen.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 40);
        assert!(sorted.iter().all(|&number| number < 100));
        assert_eq!(chosen, Shuffle::new(1).choose(100, 40));
        assert_ne!(chosen, Shuffle::new(2).choose(100, 40));
    }

    #[test]
    fn a_tenth_of_the_row_groups_is_sampled_within_bounds() {
        let size = SampleSize::row_groups(100, 0.1, 8, 0);
        for (row_count, expected) in [(0, 0), (50, 1), (150, 2), (1000, 2), (5000, 5), (1_000_000, 8)] {
            assert_eq!(size.ranges(row_count).len(), expected, "{row_count} rows");
        }
        assert_eq!(size.ranges(150), [0..100, 100..150]);
    }
}
