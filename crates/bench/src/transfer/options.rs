//! What the experiment is called with.

use std::path::PathBuf;
use std::sync::Arc;

use pelton_device::Machine;
use pelton_error::{Error, Result};
use pelton_kernels::Library;
use pelton_transfer::TransferOptions;

/// Bytes that the paper's joins read from host memory: 2 GiB and 32 GiB.
pub(super) const PAPER_BYTES: u64 = 34 << 30;

/// A buffer takes at most this part of what a device's buffers, or pinned memory, may take.
const LIMIT_SHARE: u64 = 4;

/// Where and how much.
pub struct TransferExperiment {
    /// The machine.
    pub machine: Machine,
    /// Kernels for its CUDA devices.
    pub library: Option<Arc<Library>>,
    /// Share of the paper's 34 GiB that each method moves.
    pub scale: f64,
    /// Bytes that loads go through; the paper's is 1 GiB.
    pub footprint_bytes: u64,
    /// Repetitions.
    pub repetitions: u32,
    /// Chunks and threads.
    pub transfer: TransferOptions,
    /// A folder on storage to read from, if any.
    pub storage: Option<PathBuf>,
}

impl TransferExperiment {
    /// The paper's sizes on `machine`, scaled to 1/32.
    pub fn on(machine: Machine, library: Option<Arc<Library>>) -> Self {
        Self {
            machine,
            library,
            scale: 1.0 / 32.0,
            footprint_bytes: 1 << 30,
            repetitions: 10,
            transfer: TransferOptions { keeps_page_locks: false, ..TransferOptions::default() },
            storage: None,
        }
    }

    /// Bytes that each method moves: scaled, and within the limits.
    pub(super) fn bytes(&self) -> usize {
        // Whole pages, so that every method may be asked.
        let scaled = (PAPER_BYTES as f64 * self.scale) as u64;
        (scaled.min(self.room()) / 4096 * 4096).max(4096) as usize
    }

    /// Bytes that loads go through, within the limits.
    pub(super) fn footprint(&self) -> usize {
        self.footprint_bytes.min(self.room()).max(4096) as usize
    }

    fn room(&self) -> u64 {
        let info = self.machine.info();
        let limits = info
            .devices
            .iter()
            .map(|device| device.memory_limit_bytes)
            .chain([info.pinned_memory_limit_bytes]);
        limits.min().unwrap_or(0) / LIMIT_SHARE
    }

    pub(super) fn check(&self) -> Result<()> {
        if !self.scale.is_finite() || self.scale <= 0.0 {
            return Err(Error::invalid_input(format!("scale {}; it is a finite number above 0", self.scale)));
        }
        if self.repetitions == 0 {
            return Err(Error::invalid_input(
                "0 repetitions measure nothing; ask for 1 at least, 10 as a rule",
            ));
        }
        self.transfer.check()
    }

    pub(super) fn settings(&self) -> Vec<(String, String)> {
        vec![
            ("bytes by method".into(), self.bytes().to_string()),
            ("bytes that loads go through".into(), self.footprint().to_string()),
            ("chunk bytes".into(), self.transfer.chunk_bytes.to_string()),
            ("chunks in flight".into(), self.transfer.depth.to_string()),
            ("copying threads of staged copies".into(), self.transfer.copy_threads.to_string()),
            ("repetitions".into(), self.repetitions.to_string()),
            (
                "times include".into(),
                "transfer and a kernel that reads once; no allocation of the source".into(),
            ),
        ]
    }
}
