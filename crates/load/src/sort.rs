//! Stable external sort of batches.
//!
//! ```text
//!  batches ──▶ run buffer ──full──▶ order by key ──▶ spilled run ─┐
//!                   │                                spilled run ─┼─▶ merge (several passes where the
//!                   └──all fit──▶ order by key                    ┘   fan-in is smaller than the runs)
//!                                      └─────────────────────────────▶ batches in order
//! ```
//!
//! Keys are arrow's row format: bytes that compare like the values, NULLs first. Within a run, rows are ordered by a
//! radix sort on all cores, where keys have few bytes (`key_words.rs`), else by counting (`keys.rs`); and brought into
//! order some batches at a time, each by another core. Between runs, the merge prefers the earlier run among equal keys.
//! Bound: half of the budget for the run buffer with its keys and the batches in order; an eighth for the batches being
//! merged.
//! Traffic: every row once to disk and back for each pass, none where all rows fit.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use pelton_error::{Error, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::budget::{Budget, Held, batch_bytes};
use crate::key_words::{KeyWords, Place, batch_and_row, place};
use crate::keys::{Interner, order_by_rank};
use crate::merge::{Merge, RunReader};
use crate::scratch::{Scratch, SpillFile};
use crate::write::GroupRows;
use pelton_error::CancelFlag;

/// The most rows in a batch that leaves the sort: to bring some into order takes a look at all batches that came.
const BATCH_ROWS_MAX: usize = 1 << 16;
/// Batches of a run that should fit the merge share of the budget.
const MERGE_BATCHES: u64 = 32;
/// Of them, those that are brought into order at once at most.
const GATHERED_BATCHES: usize = 16;
/// Bytes per row for its id and its place in the order, where keys are numbered.
const ORDER_BYTES: u64 = 12;

/// Computes the columns to sort by from a batch.
pub(crate) trait KeyColumns: Sync {
    /// The types of the key columns.
    fn types(&self) -> Vec<DataType>;
    /// The key columns of `batch`.
    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>>;
}

/// Turns batches into comparable keys.
pub(crate) struct SortKeys<'a> {
    columns: &'a dyn KeyColumns,
    converter: RowConverter,
    /// How keys are sorted where they have few bytes.
    pub(crate) words: Option<KeyWords>,
}

impl<'a> SortKeys<'a> {
    pub(crate) fn new(columns: &'a dyn KeyColumns) -> Result<Self> {
        let converter = RowConverter::new(columns.types().into_iter().map(SortField::new).collect())
            .map_err(|error| sort_error(&error))?;
        let words = KeyWords::of(&columns.types(), &converter)?;
        Ok(Self { columns, converter, words })
    }

    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<Rows> {
        self.converter.convert_columns(&self.columns.columns(batch)?).map_err(|error| sort_error(&error))
    }
}

/// What a sort works with.
pub(crate) struct SortContext<'a> {
    pub(crate) keys: SortKeys<'a>,
    pub(crate) schema: SchemaRef,
    pub(crate) scratch: &'a Scratch,
    pub(crate) budget: &'a Arc<Budget>,
    pub(crate) cancel: &'a CancelFlag,
    pub(crate) thread_count: usize,
}

impl SortContext<'_> {
    /// Bytes that sorting takes for a row, beside the row and distinct keys.
    fn order_bytes(&self) -> u64 {
        self.keys.words.map_or(ORDER_BYTES, KeyWords::row_bytes)
    }

    /// Bytes of rows and keys of a run: less what is brought into order at once.
    fn run_bytes(&self) -> u64 {
        let gathered = self.budget.merge_bytes() / MERGE_BATCHES * self.gathered_batches() as u64;
        self.budget.run_bytes() - gathered
    }

    fn gathered_batches(&self) -> usize {
        self.thread_count.clamp(1, GATHERED_BATCHES)
    }
}

/// All rows, as sorted runs.
pub(crate) enum SortedRuns {
    /// They fit in memory.
    Memory(MemoryRun),
    /// They do not.
    Spilled(Vec<SpillFile>),
}

/// Rows in memory and their order.
pub(crate) struct MemoryRun {
    pub(crate) batches: Vec<RecordBatch>,
    /// The place of each position.
    pub(crate) order: Vec<Place>,
    batch_rows: usize,
    gathered_batches: usize,
    budget: Arc<Budget>,
    _held: Held,
}

/// Takes all of `batches` in; `on_batch` sees each on the way.
pub(crate) fn sort(
    context: &SortContext<'_>,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    mut on_batch: impl FnMut(&RecordBatch),
) -> Result<SortedRuns> {
    let mut spilled = Vec::new();
    let mut buffer = RunBuffer::new(context.budget);
    for batch in batches {
        let batch = batch?;
        context.cancel.check()?;
        on_batch(&batch);
        let batch_cost = batch_bytes(&batch) + context.order_bytes() * batch.num_rows() as u64;
        if !buffer.batches.is_empty() && buffer.bytes() + batch_cost > context.run_bytes() {
            let full = std::mem::replace(&mut buffer, RunBuffer::new(context.budget));
            spilled.push(full.into_run(context)?.spill(context)?);
        }
        buffer.push(context, batch, batch_cost)?;
    }
    let last = buffer.into_run(context)?;
    if spilled.is_empty() {
        return Ok(SortedRuns::Memory(last));
    }
    spilled.push(last.spill(context)?);
    Ok(SortedRuns::Spilled(spilled))
}

impl SortedRuns {
    /// The rows in order. Merges in several passes where there are more runs than can be read at once.
    pub(crate) fn into_batches<'a>(
        self,
        context: &'a SortContext<'a>,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>> {
        match self {
            SortedRuns::Memory(run) => Ok(Box::new(run.into_batches())),
            SortedRuns::Spilled(mut runs) => {
                let fan_in = fan_in(context.budget, &runs);
                while runs.len() > fan_in {
                    runs = merge_pass(context, runs, fan_in)?;
                }
                Ok(Box::new(merge(context, runs)?))
            }
        }
    }
}

/// Runs that can be merged at once: each holds the batch it reads and the one it just finished.
fn fan_in(budget: &Budget, runs: &[SpillFile]) -> usize {
    let batch_bytes = runs.iter().map(|run| run.batch_bytes_max).max().unwrap_or(0).max(1);
    usize::try_from(budget.merge_bytes() / (2 * batch_bytes)).unwrap_or(usize::MAX).max(2)
}

/// Merges each `fan_in` neighbouring runs into one.
fn merge_pass(context: &SortContext<'_>, runs: Vec<SpillFile>, fan_in: usize) -> Result<Vec<SpillFile>> {
    let mut merged = Vec::with_capacity(runs.len().div_ceil(fan_in));
    let mut runs = runs.into_iter();
    loop {
        let group: Vec<SpillFile> = runs.by_ref().take(fan_in).collect();
        if group.is_empty() {
            return Ok(merged);
        }
        let mut writer = context.scratch.writer(&context.schema)?;
        for batch in merge(context, group)? {
            context.cancel.check()?;
            writer.write(&batch?)?;
        }
        merged.push(writer.finish()?);
    }
}

fn merge<'a>(context: &'a SortContext<'a>, runs: Vec<SpillFile>) -> Result<Merge<'a>> {
    let batch_rows = runs.iter().flat_map(|run| run.batch_rows.first()).copied().max().unwrap_or(1);
    let readers = runs.into_iter().map(RunReader::open).collect::<Result<Vec<_>>>()?;
    Merge::new(&context.keys, readers, batch_rows, context.budget)
}

/// Rows waiting to become a run.
struct RunBuffer {
    batches: Vec<RecordBatch>,
    ids: Vec<u32>,
    interner: Interner,
    held: Held,
}

impl RunBuffer {
    fn new(budget: &Arc<Budget>) -> Self {
        Self { batches: Vec::new(), ids: Vec::new(), interner: Interner::default(), held: budget.hold(0) }
    }

    fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    fn push(&mut self, context: &SortContext<'_>, batch: RecordBatch, cost: u64) -> Result<()> {
        let known_bytes = self.interner.bytes();
        if context.keys.words.is_none() {
            self.interner.intern(&context.keys.rows(&batch)?, &mut self.ids);
        }
        self.held.grow(cost + self.interner.bytes() - known_bytes);
        self.batches.push(batch);
        Ok(())
    }

    fn into_run(self, context: &SortContext<'_>) -> Result<MemoryRun> {
        let order = match context.keys.words {
            Some(words) => words.order(&context.keys, &self.batches, context.thread_count)?,
            None => self.order_by_number(),
        };
        let row_bytes = self.held.bytes() / (order.len() as u64).max(1);
        let batch_rows = context.budget.merge_bytes() / MERGE_BATCHES / row_bytes.max(1);
        Ok(MemoryRun {
            batches: self.batches,
            order,
            batch_rows: (batch_rows as usize).clamp(64, BATCH_ROWS_MAX),
            gathered_batches: context.gathered_batches(),
            budget: Arc::clone(context.budget),
            _held: self.held,
        })
    }

    fn order_by_number(&self) -> Vec<Place> {
        let positions = order_by_rank(&self.ids, &self.interner.ranks());
        let rows = self.batches.iter().map(RecordBatch::num_rows).enumerate();
        let places: Vec<Place> =
            rows.flat_map(|(batch, rows)| (0..rows).map(move |row| place(batch, row))).collect();
        positions.into_iter().map(|position| places[position as usize]).collect()
    }
}

impl MemoryRun {
    fn spill(self, context: &SortContext<'_>) -> Result<SpillFile> {
        let mut writer = context.scratch.writer(&context.schema)?;
        for batch in self.into_batches() {
            context.cancel.check()?;
            writer.write(&batch?)?;
        }
        writer.finish()
    }

    /// The rows in order, some batches brought into it at once, each by a thread.
    fn into_batches(self) -> impl Iterator<Item = Result<RecordBatch>> {
        let mut next = 0;
        let mut ready: VecDeque<Result<RecordBatch>> = VecDeque::new();
        let mut held: Option<Held> = None;
        std::iter::from_fn(move || {
            if ready.is_empty() {
                drop(held.take());
                let end = (next + self.batch_rows * self.gathered_batches).min(self.order.len());
                let starts = (std::mem::replace(&mut next, end)..end).step_by(self.batch_rows);
                ready = self.gather_at_once(starts.map(|start| start..end.min(start + self.batch_rows)));
                held = Some(self.budget.hold(ready.iter().flatten().map(batch_bytes).sum()));
            }
            ready.pop_front()
        })
    }

    /// The rows at each of `ranges` of the order, each brought into it by a thread.
    pub(crate) fn gather_at_once(
        &self,
        ranges: impl Iterator<Item = Range<usize>>,
    ) -> VecDeque<Result<RecordBatch>> {
        let ranges: Vec<Range<usize>> = ranges.collect();
        let Some((first, others)) = ranges.split_first() else { return VecDeque::new() };
        std::thread::scope(|threads| {
            let others: Vec<_> =
                others.iter().map(|range| threads.spawn(|| self.gather(range.clone()))).collect();
            let first = self.gather(first.clone());
            let joined = others.into_iter().map(|other| match other.join() {
                Ok(batch) => batch,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            [first].into_iter().chain(joined).collect()
        })
    }

    /// The rows in order, so many at a time, to be brought into it by whoever takes them.
    pub(crate) fn row_groups(&self, row_group_rows: u32) -> impl Iterator<Item = GroupRows<'_>> {
        let (count, most) = (self.order.len(), row_group_rows as usize);
        let bytes: u64 = self.batches.iter().map(batch_bytes).sum();
        let row_bytes = bytes / (count as u64).max(1) + 1;
        (0..count).step_by(most.max(1)).map(move |start| {
            let positions = start..count.min(start + most);
            let held = self.budget.hold(row_bytes * positions.len() as u64);
            GroupRows::Sorted { run: self, positions, held }
        })
    }

    /// The rows at positions `range` of the order.
    pub(crate) fn gather(&self, range: Range<usize>) -> Result<RecordBatch> {
        let indices: Vec<(usize, usize)> =
            self.order[range].iter().map(|&place| batch_and_row(place)).collect();
        interleave(&self.batches, &indices)
    }
}

/// The rows at `indices` (batch, row) of `batches`.
pub(crate) fn interleave(batches: &[RecordBatch], indices: &[(usize, usize)]) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    interleave_record_batch(&batches, indices).map_err(|error| sort_error(&error))
}

pub(crate) fn sort_error(error: &ArrowError) -> Error {
    Error::invalid_input("sorting the rows").with_source(error.to_string())
}
