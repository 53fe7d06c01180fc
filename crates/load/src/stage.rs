//! All rows of an input that can be read only once, kept to be sampled and then read again.
//!
//! The first rows stay in memory up to the stage's share of the budget; the rest goes to one scratch file.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton_error::Result;

use crate::budget::{Budget, Held, batch_bytes};
use crate::scratch::{Scratch, SpillFile, overlap};
use pelton_error::CancelFlag;

/// Staged rows, in input order.
pub(crate) struct Stage {
    memory: Vec<RecordBatch>,
    held: Held,
    file: Option<SpillFile>,
    row_count: u64,
}

impl Stage {
    /// Takes in all of `batches`; `on_batch` sees each on the way.
    pub(crate) fn collect(
        batches: impl Iterator<Item = Result<RecordBatch>>,
        schema: &SchemaRef,
        scratch: &Scratch,
        budget: &Arc<Budget>,
        cancel: &CancelFlag,
        mut on_batch: impl FnMut(&RecordBatch),
    ) -> Result<Self> {
        let mut stage = Self { memory: Vec::new(), held: budget.hold(0), file: None, row_count: 0 };
        let mut writer = None;
        for batch in batches {
            let batch = batch?;
            cancel.check()?;
            on_batch(&batch);
            stage.row_count += batch.num_rows() as u64;
            let bytes = batch_bytes(&batch);
            if writer.is_none() && stage.held.bytes() + bytes <= budget.stage_bytes() {
                stage.held.grow(bytes);
                stage.memory.push(batch);
                continue;
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(scratch.writer(schema)?),
            };
            writer.write(&batch)?;
        }
        stage.file = writer.map(|writer| writer.finish()).transpose()?;
        Ok(stage)
    }

    pub(crate) fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Rows `range` of the stage, in pieces.
    pub(crate) fn rows(&self, range: Range<u64>) -> Result<Vec<RecordBatch>> {
        let mut rows = Vec::new();
        let mut start = 0;
        for batch in &self.memory {
            rows.extend(overlap(batch, start, &range));
            start += batch.num_rows() as u64;
        }
        if let Some(file) = &self.file {
            rows.extend(file.rows(start, &range)?);
        }
        Ok(rows)
    }

    /// All rows; memory is let go of as they are taken.
    pub(crate) fn into_batches(self) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let reader = self.file.as_ref().map(SpillFile::reader).transpose()?;
        // The count and the file go with the last batch.
        let keep = (self.held, self.file);
        let batches = self.memory.into_iter().map(Ok).chain(reader.into_iter().flatten());
        Ok(batches.inspect(move |_| {
            let _ = &keep;
        }))
    }
}
