//! Merges sorted runs that lie on disk.
//!
//! A binary heap holds the runs by the key of their next row; among equal keys the earlier run comes first,
//! which keeps the sort stable. The winner gives rows as long as it beats the second best, so that clustered
//! data - long stretches of equal keys in one run - moves without touching the heap.
//!
//! Bound: for each run the batch it is read at and its keys; batches whose rows are not yet given out.

use arrow::array::RecordBatch;
use arrow::row::Rows;
use pelton_error::Result;
use std::sync::Arc;

use crate::budget::{Budget, Held, batch_bytes};
use crate::scratch::{SpillFile, SpillReader};
use crate::sort::{SortKeys, interleave};

/// One run being read; its file goes with it.
pub(crate) struct RunReader {
    reader: SpillReader,
    _file: SpillFile,
}

impl RunReader {
    pub(crate) fn open(file: SpillFile) -> Result<Self> {
        Ok(Self { reader: file.reader()?, _file: file })
    }
}

/// A run and its next row.
struct Cursor {
    run: RunReader,
    keys: Option<Rows>,
    row: usize,
    /// Where the current batch stands in `Merge::batches`.
    batch: usize,
}

/// The merged rows.
pub(crate) struct Merge<'a> {
    keys: &'a SortKeys<'a>,
    budget: &'a Arc<Budget>,
    batch_rows: usize,
    cursors: Vec<Cursor>,
    /// Runs that have rows left, least first.
    heap: Vec<usize>,
    /// Batches that `picked` or a cursor refers to.
    batches: Vec<RecordBatch>,
    held: Vec<Held>,
    /// Batch and row of the rows to give out next.
    picked: Vec<(usize, usize)>,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(
        keys: &'a SortKeys<'a>,
        runs: Vec<RunReader>,
        batch_rows: usize,
        budget: &'a Arc<Budget>,
    ) -> Result<Self> {
        let cursors = runs.into_iter().map(|run| Cursor { run, keys: None, row: 0, batch: 0 }).collect();
        let (heap, batches, held, picked) = Default::default();
        let mut merge = Self { keys, budget, batch_rows, cursors, heap, batches, held, picked };
        for run in 0..merge.cursors.len() {
            if merge.load(run)? {
                merge.heap.push(run);
            }
        }
        for position in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(position);
        }
        Ok(merge)
    }

    /// Reads the next batch of `run`; false at its end.
    fn load(&mut self, run: usize) -> Result<bool> {
        let cursor = &mut self.cursors[run];
        loop {
            let Some(batch) = cursor.run.reader.next() else { return Ok(false) };
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let keys = self.keys.rows(&batch)?;
            self.held.push(self.budget.hold(batch_bytes(&batch) + keys.size() as u64));
            (cursor.keys, cursor.row, cursor.batch) = (Some(keys), 0, self.batches.len());
            self.batches.push(batch);
            return Ok(true);
        }
    }

    fn key(&self, run: usize) -> &[u8] {
        let cursor = &self.cursors[run];
        cursor.keys.as_ref().expect("a run in the heap has a row").row(cursor.row).data()
    }

    fn is_before(&self, first: usize, second: usize) -> bool {
        (self.key(first), first) < (self.key(second), second)
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let mut least = position;
            for child in [2 * position + 1, 2 * position + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == position {
                return;
            }
            self.heap.swap(position, least);
            position = least;
        }
    }

    /// The run that comes next after the winner.
    fn second(&self) -> Option<usize> {
        match self.heap.get(1..3).or_else(|| self.heap.get(1..2)) {
            Some(&[left, right]) => Some(if self.is_before(left, right) { left } else { right }),
            Some(&[only]) => Some(only),
            _ => None,
        }
    }

    /// Picks rows of the winner until the second best comes first, its batch ends or there are enough.
    fn pick(&mut self) -> Result<()> {
        let (winner, second) = (self.heap[0], self.second());
        loop {
            let cursor = &mut self.cursors[winner];
            self.picked.push((cursor.batch, cursor.row));
            cursor.row += 1;
            if cursor.row == self.batches[cursor.batch].num_rows() {
                if !self.load(winner)? {
                    self.heap.swap_remove(0);
                }
                break;
            }
            if self.picked.len() == self.batch_rows
                || second.is_some_and(|second| self.is_before(second, winner))
            {
                break;
            }
        }
        if !self.heap.is_empty() {
            self.sift_down(0);
        }
        Ok(())
    }

    /// Gathers the picked rows and lets go of batches no cursor stands in.
    fn give_out(&mut self) -> Result<RecordBatch> {
        let merged = interleave(&self.batches, &self.picked)?;
        self.picked.clear();
        let batches = std::mem::take(&mut self.batches);
        let mut held: Vec<Option<Held>> = std::mem::take(&mut self.held).into_iter().map(Some).collect();
        for &run in &self.heap {
            let cursor = &mut self.cursors[run];
            self.batches.push(batches[cursor.batch].clone());
            self.held.push(held[cursor.batch].take().expect("each batch is of one run"));
            cursor.batch = self.batches.len() - 1;
        }
        Ok(merged)
    }
}

impl Iterator for Merge<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.picked.len() < self.batch_rows && !self.heap.is_empty() {
            if let Err(error) = self.pick() {
                return Some(Err(error));
            }
        }
        (!self.picked.is_empty()).then(|| self.give_out())
    }
}
