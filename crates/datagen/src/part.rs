//! How a table of known length is cut into batches and parts.
//!
//! Batch `b` holds rows `b * BATCH_ROWS ..` and has its own random sequence, so any batch can be made
//! without the ones before it. A part is a range of whole batches.

use std::ops::Range;

use arrow::array::RecordBatch;
use pelton_error::{Error, Result};

use crate::random::Random;

/// Rows per batch.
pub(crate) const BATCH_ROWS: u64 = 32_768;

/// One of `count` shares of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) index: u32,
    pub(crate) count: u32,
}

impl Part {
    pub(crate) fn new(index: u32, count: u32) -> Result<Self> {
        if index < count && count <= i32::MAX as u32 {
            return Ok(Self { index, count });
        }
        Err(Error::invalid_input(format!("there is no part {index} of {count}; parts count from 0")))
    }

    /// The share of `batches` that belongs to this part; the shares of all parts are disjoint and complete.
    fn of(self, batches: u64) -> Range<u64> {
        let boundary = |index: u32| {
            let product = u128::from(batches) * u128::from(index);
            (product / u128::from(self.count)) as u64
        };
        boundary(self.index)..boundary(self.index + 1)
    }
}

/// Makes the rows of one table.
pub(crate) trait TableGenerator: Send {
    /// The rows `rows` (a whole batch, or what there is of the last one), drawn from `random`.
    fn batch(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch;
}

/// The batches of one part of one table.
pub(crate) struct PartBatches<G> {
    generator: G,
    table: &'static str,
    seed: u64,
    row_count: u64,
    batches: Range<u64>,
}

impl<G: TableGenerator> PartBatches<G> {
    pub(crate) fn new(generator: G, table: &'static str, row_count: u64, part: Part, seed: u64) -> Self {
        let batches = part.of(row_count.div_ceil(BATCH_ROWS));
        Self { generator, table, seed, row_count, batches }
    }
}

impl<G: TableGenerator> Iterator for PartBatches<G> {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.batches.next()?;
        let first = batch * BATCH_ROWS;
        let rows = first..(first + BATCH_ROWS).min(self.row_count);
        Some(self.generator.batch(rows, &mut Random::for_batch(self.seed, self.table, batch)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_batches_without_overlap() {
        for batches in [0, 1, 2, 7, 100] {
            for count in [1, 2, 3, 8, 200] {
                let mut next = 0;
                for index in 0..count {
                    let share = Part::new(index, count).unwrap().of(batches);
                    assert_eq!(share.start, next, "part {index} of {count} of {batches} batches");
                    next = share.end;
                }
                assert_eq!(next, batches);
            }
        }
    }

    #[test]
    fn a_part_beyond_the_count_is_refused() {
        assert!(Part::new(0, 0).is_err());
        assert!(Part::new(2, 2).is_err());
    }
}
