//! How transfers are cut and bounded.

use pelton_device::OnFull;
use pelton_error::{CancelFlag, Error, Result};

/// How a transfer is carried out. None of it changes what arrives.
#[derive(Debug, Clone)]
pub struct TransferOptions {
    /// Bytes of a chunk, over all columns. On PCIe 5 a copy of 16 MiB reaches 0.99 of what large ones do
    /// (docs/perf/transfer.md).
    pub chunk_bytes: usize,
    /// Chunks in flight.
    pub depth: usize,
    /// Threads that copy to pinned memory, where that is needed. The source paper saw four busy; PCIe 5 takes what eight
    /// copy (docs/perf/transfer.md).
    pub copy_threads: usize,
    /// Whether memory that was page-locked on demand stays so for the next transfer.
    pub keeps_page_locks: bool,
    /// What to do when memory for chunks is short.
    pub on_full: OnFull,
    /// Stops the transfer.
    pub cancel: CancelFlag,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self {
            chunk_bytes: 16 << 20,
            depth: 3,
            copy_threads: std::thread::available_parallelism().map_or(4, usize::from).min(8),
            keeps_page_locks: true,
            on_full: OnFull::Refuse,
            cancel: CancelFlag::default(),
        }
    }
}

impl TransferOptions {
    /// Refuses what cannot be.
    ///
    /// # Errors
    ///
    /// `InvalidInput` that names the option and its range.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: &str| Err(Error::invalid_input(what.to_string()));
        if self.chunk_bytes == 0 {
            return refuse("chunks of 0 bytes; take 4 KiB or more");
        }
        if !(1..=64).contains(&self.depth) {
            return refuse("chunks in flight: take 1 to 64");
        }
        if !(1..=64).contains(&self.copy_threads) {
            return refuse("copying threads: take 1 to 64");
        }
        Ok(())
    }
}
