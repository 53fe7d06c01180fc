//! Cuts a stream of batches into row groups.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat;
use pelton_chunk::Column;
use pelton_error::{Error, ErrorKind, Result, ResultExt, Tier};
use pelton_store::{TableSchema, column_from_arrow};

use crate::budget::{Budget, Held, batch_bytes};

/// The rows of one row group, in pieces.
pub(crate) struct StagedRowGroup {
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) row_count: usize,
    /// Counts the rows against the budget.
    pub(crate) held: Held,
}

impl StagedRowGroup {
    /// One column after the other as the store takes them.
    pub(crate) fn columns(&self, schema: &TableSchema) -> Result<Vec<Column>> {
        (0..schema.columns.len()).map(|position| column_of(&self.batches, position, schema)).collect()
    }
}

/// Column `position` of `batches`, whole.
pub(crate) fn column_of(batches: &[RecordBatch], position: usize, schema: &TableSchema) -> Result<Column> {
    let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(position).as_ref()).collect();
    let schema = &schema.columns[position];
    let whole = concat(&parts).map_err(|error| {
        Error::invalid_input(format!("column '{}': choose fewer rows per row group", schema.name))
            .with_source(error)
    })?;
    column_from_arrow(&whole, &schema.logical).context(|| format!("column '{}'", schema.name))
}

/// Yields row groups of `row_group_rows` rows; the last may be short.
pub(crate) struct RowGroups<'a, I> {
    batches: I,
    row_group_rows: usize,
    budget: &'a Arc<Budget>,
    /// What is left of the batch that ended the last row group.
    rest: Option<RecordBatch>,
}

impl<'a, I: Iterator<Item = Result<RecordBatch>>> RowGroups<'a, I> {
    pub(crate) fn new(batches: I, row_group_rows: u32, budget: &'a Arc<Budget>) -> Self {
        Self { batches, row_group_rows: row_group_rows as usize, budget, rest: None }
    }

    fn assemble(&mut self) -> Result<Option<StagedRowGroup>> {
        let mut group = StagedRowGroup { batches: Vec::new(), row_count: 0, held: self.budget.hold(0) };
        while group.row_count < self.row_group_rows {
            let Some(batch) = self.rest.take().map(Ok).or_else(|| self.batches.next()) else { break };
            let batch = batch?;
            let missing = self.row_group_rows - group.row_count;
            let taken = batch.slice(0, missing.min(batch.num_rows()));
            if taken.num_rows() < batch.num_rows() {
                self.rest = Some(batch.slice(taken.num_rows(), batch.num_rows() - taken.num_rows()));
            }
            group.row_count += taken.num_rows();
            group.held.grow(batch_bytes(&taken));
            self.check(group.held.bytes(), group.row_count)?;
            group.batches.push(taken);
        }
        Ok((group.row_count > 0).then_some(group))
    }

    /// A row group must fit in memory to be encoded.
    fn check(&self, bytes: u64, row_count: usize) -> Result<()> {
        let available_bytes = self.budget.encode_bytes();
        if bytes <= available_bytes {
            return Ok(());
        }
        let kind = ErrorKind::OutOfMemory { tier: Tier::Host, requested_bytes: bytes, available_bytes };
        Err(Error::new(
            kind,
            format!(
                "{row_count} rows of a row group of {} already take {bytes} bytes, more than half of the memory limit; \
                 raise the limit or choose fewer rows per row group",
                self.row_group_rows
            ),
        ))
    }
}

impl<I: Iterator<Item = Result<RecordBatch>>> Iterator for RowGroups<'_, I> {
    type Item = Result<StagedRowGroup>;

    fn next(&mut self) -> Option<Self::Item> {
        self.assemble().transpose()
    }
}
