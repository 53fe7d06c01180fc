//! Blocks: how a table of known length is cut into batches and parts.
//!
//! Block `b` holds rows `b * BLOCK_ROWS ..` and has its own random stream, so any block can be made
//! without the ones before it. A part is a range of whole blocks.

use std::ops::Range;

use arrow::array::RecordBatch;
use pelton_error::{Error, Result};

use crate::random::Random;

/// Rows per block, and so per batch.
pub(crate) const BLOCK_ROWS: u64 = 32_768;

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

    /// The share of `blocks` that belongs to this part; the shares of all parts are disjoint and complete.
    fn of(self, blocks: u64) -> Range<u64> {
        let boundary = |index: u32| {
            let product = u128::from(blocks) * u128::from(index);
            (product / u128::from(self.count)) as u64
        };
        boundary(self.index)..boundary(self.index + 1)
    }
}

/// Makes the rows of one table.
pub(crate) trait BlockGenerator: Send {
    /// The rows `rows` (a whole block, or what there is of the last one), drawn from `random`.
    fn block(&self, rows: Range<u64>, random: &mut Random) -> RecordBatch;
}

/// One part of one table, a batch per block.
pub(crate) struct Blocks<G> {
    generator: G,
    table: &'static str,
    seed: u64,
    row_count: u64,
    blocks: Range<u64>,
}

impl<G: BlockGenerator> Blocks<G> {
    pub(crate) fn new(generator: G, table: &'static str, row_count: u64, part: Part, seed: u64) -> Self {
        let blocks = part.of(row_count.div_ceil(BLOCK_ROWS));
        Self { generator, table, seed, row_count, blocks }
    }
}

impl<G: BlockGenerator> Iterator for Blocks<G> {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let block = self.blocks.next()?;
        let first = block * BLOCK_ROWS;
        let rows = first..(first + BLOCK_ROWS).min(self.row_count);
        Some(self.generator.block(rows, &mut Random::for_block(self.seed, self.table, block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_blocks_without_overlap() {
        for blocks in [0, 1, 2, 7, 100] {
            for count in [1, 2, 3, 8, 200] {
                let mut next = 0;
                for index in 0..count {
                    let share = Part::new(index, count).unwrap().of(blocks);
                    assert_eq!(share.start, next, "part {index} of {count} of {blocks} blocks");
                    next = share.end;
                }
                assert_eq!(next, blocks);
            }
        }
    }

    #[test]
    fn a_part_beyond_the_count_is_refused() {
        assert!(Part::new(0, 0).is_err());
        assert!(Part::new(2, 2).is_err());
    }
}
