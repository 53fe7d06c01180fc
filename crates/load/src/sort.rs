//! Stable external sort of batches.
//!
//! ```text
//!  batches ──▶ run buffer ──full──▶ order by key ──▶ spilled run ─┐
//!                   │                                spilled run ─┼─▶ merge (several passes where the
//!                   └──all fit──▶ order by key                    ┘   fan-in is smaller than the runs)
//!                                      └─────────────────────────────▶ batches in order
//! ```
//!
//! Keys are arrow's row format: bytes that compare like the values, NULLs first. Within a run, rows are
//! ordered by counting (`keys.rs`); between runs, the merge prefers the earlier run among equal keys.
//! Bound: half of the budget for the run buffer with its keys; an eighth for the batches being merged.
//! Traffic: every row once to disk and back for each pass, none where all rows fit.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use pelton_error::{Error, Result};
use std::sync::Arc;

use crate::budget::{Budget, Held, batch_bytes};
use crate::keys::{Interner, order_by_rank};
use crate::merge::{Merge, RunReader};
use crate::scratch::{Scratch, SpillFile};
use pelton_error::CancelFlag;

/// The most rows in a batch that leaves the sort.
const BATCH_ROWS_MAX: usize = 8192;
/// Batches of a run that should fit the merge share of the budget.
const MERGE_BATCHES: u64 = 32;
/// Bytes per row for its id and its place in the order.
const ORDER_BYTES: u64 = 8;

/// Computes the columns to sort by from a batch.
pub(crate) trait KeyColumns {
    /// The types of the key columns.
    fn fields(&self) -> Vec<SortField>;
    /// The key columns of `batch`.
    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>>;
}

/// Turns batches into comparable keys.
pub(crate) struct SortKeys<'a> {
    columns: &'a dyn KeyColumns,
    converter: RowConverter,
}

impl<'a> SortKeys<'a> {
    pub(crate) fn new(columns: &'a dyn KeyColumns) -> Result<Self> {
        let converter = RowConverter::new(columns.fields()).map_err(|error| sort_error(&error))?;
        Ok(Self { columns, converter })
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
    /// Batch and row of each position.
    pub(crate) order: Vec<(u32, u32)>,
    batch_rows: usize,
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
        let batch_cost = batch_bytes(&batch) + ORDER_BYTES * batch.num_rows() as u64;
        if !buffer.batches.is_empty() && buffer.bytes() + batch_cost > context.budget.run_bytes() {
            let full = std::mem::replace(&mut buffer, RunBuffer::new(context.budget));
            spilled.push(full.into_run(context.budget).spill(context)?);
        }
        buffer.push(context, batch, batch_cost)?;
    }
    let last = buffer.into_run(context.budget);
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
        self.interner.intern(&context.keys.rows(&batch)?, &mut self.ids);
        self.held.grow(cost + self.interner.bytes() - known_bytes);
        self.batches.push(batch);
        Ok(())
    }

    fn into_run(self, budget: &Budget) -> MemoryRun {
        let positions = order_by_rank(&self.ids, &self.interner.ranks());
        let mut places = Vec::with_capacity(positions.len());
        for (batch, rows) in self.batches.iter().enumerate() {
            places.extend((0..rows.num_rows()).map(|row| (batch as u32, row as u32)));
        }
        let order: Vec<(u32, u32)> =
            positions.into_iter().map(|position| places[position as usize]).collect();
        let row_bytes = self.held.bytes() / (order.len() as u64).max(1);
        let batch_rows = budget.merge_bytes() / MERGE_BATCHES / row_bytes.max(1);
        let batch_rows = (batch_rows as usize).clamp(64, BATCH_ROWS_MAX);
        MemoryRun { batches: self.batches, order, batch_rows, _held: self.held }
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

    fn into_batches(self) -> impl Iterator<Item = Result<RecordBatch>> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let end = (next + self.batch_rows).min(self.order.len());
            let range = std::mem::replace(&mut next, end)..end;
            (!range.is_empty()).then(|| self.gather(range))
        })
    }

    /// The rows at positions `range` of the order.
    pub(crate) fn gather(&self, range: std::ops::Range<usize>) -> Result<RecordBatch> {
        let indices: Vec<(usize, usize)> =
            self.order[range].iter().map(|&(batch, row)| (batch as usize, row as usize)).collect();
        interleave(&self.batches, &indices)
    }
}

/// The rows at `indices` (batch, row) of `batches`.
pub(crate) fn interleave(batches: &[RecordBatch], indices: &[(usize, usize)]) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    interleave_record_batch(&batches, indices).map_err(|error| sort_error(&error))
}

fn sort_error(error: &ArrowError) -> Error {
    Error::invalid_input("sorting the rows").with_source(error.to_string())
}
