//! Whether a device may be worth it, before anything is known of it: predicted times of both, from bytes alone.
//!
//! ```text
//!   device   3 ms + bytes of chunks / 50 GB/s        warm: in pinned memory, or better
//!   CPU      bytes decoded / (1.5 GB/s a thread)
//! ```
//!
//! Bytes are those of the row groups that planning left, in the columns that are needed. What both read from disk, and
//! rows that the CPU brings over, cost the same either way and are left out. The rates are guesses: a PCIe 5 link, and
//! what a core decodes and probes. They only keep small queries from being tried out: what is large enough is
//! measured (`trial.rs`).

use std::fmt;

use pelton_error::Result;
use pelton_pipeline::ir::{Plan, Source, TableScan};

/// Launches, and waiting for the result.
const FIXED_S: f64 = 0.003;
const LINK_BYTES_PER_S: f64 = 50e9;
const CPU_BYTES_PER_S_AND_THREAD: f64 = 1.5e9;

/// What a plan is predicted to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    /// On the device, in seconds.
    pub(super) device_s: f64,
    /// On the CPU, in seconds.
    pub(super) cpu_s: f64,
}

/// Bytes of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ScanBytes {
    stored: u64,
    /// Decoded.
    raw: u64,
}

impl Prediction {
    /// Of `plan`, beside `threads` of the CPU.
    ///
    /// # Errors
    ///
    /// Of reading a chunk directory.
    pub(super) fn of(plan: &Plan, threads: usize) -> Result<Self> {
        let mut total = ScanBytes::default();
        for pipeline in &plan.pipelines {
            if let Source::Table(scan) = &pipeline.source {
                let bytes = scan_bytes(scan)?;
                total.stored += bytes.stored;
                total.raw += bytes.raw;
            }
        }
        Ok(Self::from_bytes(total, threads))
    }

    fn from_bytes(bytes: ScanBytes, threads: usize) -> Self {
        let link_s = bytes.stored as f64 / LINK_BYTES_PER_S;
        let cpu_s = bytes.raw as f64 / (CPU_BYTES_PER_S_AND_THREAD * threads.max(1) as f64);
        Self { device_s: FIXED_S + link_s, cpu_s }
    }

    /// True where the device is predicted to be faster.
    pub(super) fn prefers_device(&self) -> bool {
        self.device_s < self.cpu_s
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "predicted {:.1} ms on the device, {:.1} ms on the CPU",
            self.device_s * 1e3,
            self.cpu_s * 1e3
        )
    }
}

fn scan_bytes(scan: &TableScan) -> Result<ScanBytes> {
    let mut bytes = ScanBytes::default();
    for &column in &scan.columns {
        for &row_group in &scan.row_groups {
            let chunk = scan.table.chunk(row_group as usize, column)?;
            bytes.raw += chunk.raw_bytes;
            bytes.stored += chunk.stored_bytes;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_may_be_worth_it_for_much() {
        let much = ScanBytes { stored: 3_000_000_000, raw: 10_000_000_000 };
        assert!(Prediction::from_bytes(much, 16).prefers_device());
        let hardly_compressed = ScanBytes { stored: 30_000_000_000, raw: 30_000_000_000 };
        assert!(!Prediction::from_bytes(hardly_compressed, 64).prefers_device());
    }

    #[test]
    fn little_stays_on_the_cpu() {
        let little = ScanBytes { stored: 1_000, raw: 3_000 };
        assert!(!Prediction::from_bytes(little, 1).prefers_device());
        assert!(!Prediction::from_bytes(ScanBytes::default(), 1).prefers_device());
    }
}
