//! The bytes a load may hold in memory, counted.
//!
//! One [`Budget`] per load. Whoever keeps batches holds a [`Held`] for them and lets it go with them:
//! readers that run ahead of the table's order, the stage, sort runs, the row groups being encoded. The
//! shares below keep the sum under the limit; the largest sum seen is reported, so a test can hold the
//! load to its word.
//!
//! ```text
//!  phase        read ahead   staged rows   run buffer or merge   row groups being encoded
//!  staging         1/8           1/4               -                       -
//!  sorting         1/8          (1/4)             1/2                      -
//!  writing         1/8           1/4              1/8                     1/2     (staged or merged)
//! ```
//!
//! Before all of them dimensions are read: half of the limit decides how many of their columns are numbered at once.
//!
//! Not counted is what is small and fixed: a block of text and the batch being parsed for each reader, the
//! page that a format library decodes, the table of contents of scratch files. Nor is what is on its way from object
//! stores: a sixteenth of the limit, at least some pieces of 64 KiB a column.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, RecordBatch};

/// Counts bytes held against a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: u64,
    held_bytes: AtomicU64,
    held_bytes_max: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, held_bytes: AtomicU64::new(0), held_bytes_max: AtomicU64::new(0) })
    }

    /// Bytes that each of `thread_count` readers may have on their way from object stores.
    pub(crate) fn object_bytes(limit_bytes: u64, thread_count: usize) -> u64 {
        limit_bytes / 16 / (thread_count.max(1) as u64)
    }

    /// Bytes that readers may hold ahead of the row the table waits for.
    pub(crate) fn read_ahead_bytes(&self) -> u64 {
        self.limit_bytes / 8
    }

    /// Staged bytes beyond which rows go to the scratch file.
    pub(crate) fn stage_bytes(&self) -> u64 {
        self.limit_bytes / 4
    }

    /// Bytes of rows and keys sorted at once.
    pub(crate) fn run_bytes(&self) -> u64 {
        self.limit_bytes / 2
    }

    /// Bytes of a dimension's columns that are numbered at once.
    pub(crate) fn dimension_bytes(&self) -> u64 {
        self.limit_bytes / 2
    }

    /// Bytes of batches that the runs being merged may hold.
    pub(crate) fn merge_bytes(&self) -> u64 {
        self.limit_bytes / 8
    }

    /// Bytes of row groups between assembly and the table.
    pub(crate) fn encode_bytes(&self) -> u64 {
        self.limit_bytes / 2
    }

    /// The largest sum held so far.
    pub(crate) fn held_bytes_max(&self) -> u64 {
        self.held_bytes_max.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as held until the guard goes.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Held {
        let mut held = Held { budget: Arc::clone(self), bytes: 0 };
        held.grow(bytes);
        held
    }
}

/// Bytes counted as held; dropping gives them back.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Held {
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        let now = self.budget.held_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.budget.held_bytes_max.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes the rows of `batch` take, without what its buffers hold beyond them.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64).sum()
}
