//! Whether a device is worth it: predicted times of both, from bytes alone.
//!
//! ```text
//!   device   3 ms + bytes of chunks / (50 GB/s from pinned memory, 2 GB/s from disk)
//!   CPU      bytes decoded / (1.5 GB/s a thread)
//! ```
//!
//! Bytes are those of the row groups that planning left, in the columns that are needed. Rows that the CPU brings over
//! cost the CPU the same either way and are left out. The rates are guesses: a PCIe 5 link, one NVMe drive, and what a
//! core decodes and probes.

use std::fmt;

use pelton_error::Result;
use pelton_pipeline::ir::{Plan, Source, TableScan};

use super::device::DeviceHandle;

/// Launches, and waiting for the result.
const FIXED_S: f64 = 0.003;
const LINK_BYTES_PER_S: f64 = 50e9;
const DISK_BYTES_PER_S: f64 = 2e9;
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
    /// Stored, that come over the link from pinned memory, or lie on the device.
    at_hand: u64,
    /// Stored, that come from disk.
    on_disk: u64,
    /// Decoded.
    raw: u64,
}

impl Prediction {
    /// Of `plan`.
    ///
    /// # Errors
    ///
    /// Of reading a chunk directory.
    pub(super) fn of(plan: &Plan, device: &DeviceHandle) -> Result<Self> {
        let mut total = ScanBytes::default();
        for pipeline in &plan.pipelines {
            if let Source::Table(scan) = &pipeline.source {
                let bytes = scan_bytes(scan, device)?;
                total.at_hand += bytes.at_hand;
                total.on_disk += bytes.on_disk;
                total.raw += bytes.raw;
            }
        }
        Ok(Self::from_bytes(total, device.threads()))
    }

    fn from_bytes(bytes: ScanBytes, threads: usize) -> Self {
        let at_hand_s = bytes.at_hand as f64 / LINK_BYTES_PER_S;
        let disk_s = bytes.on_disk as f64 / DISK_BYTES_PER_S;
        let cpu_s = bytes.raw as f64 / (CPU_BYTES_PER_S_AND_THREAD * threads.max(1) as f64);
        Self { device_s: FIXED_S + at_hand_s + disk_s, cpu_s }
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

fn scan_bytes(scan: &TableScan, device: &DeviceHandle) -> Result<ScanBytes> {
    let mut bytes = ScanBytes::default();
    for &column in &scan.columns {
        let is_at_hand = device.is_at_hand(&scan.table, column);
        for &row_group in &scan.row_groups {
            let chunk = scan.table.chunk(row_group as usize, column)?;
            bytes.raw += chunk.raw_bytes;
            *if is_at_hand { &mut bytes.at_hand } else { &mut bytes.on_disk } += chunk.stored_bytes;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_worth_it_for_much_that_is_pinned() {
        let pinned = ScanBytes { at_hand: 3_000_000_000, on_disk: 0, raw: 10_000_000_000 };
        assert!(Prediction::from_bytes(pinned, 16).prefers_device());
        let on_disk = ScanBytes { at_hand: 0, on_disk: 3_000_000_000, raw: 10_000_000_000 };
        assert!(!Prediction::from_bytes(on_disk, 16).prefers_device());
    }

    #[test]
    fn little_stays_on_the_cpu() {
        let little = ScanBytes { at_hand: 1_000, on_disk: 0, raw: 3_000 };
        assert!(!Prediction::from_bytes(little, 1).prefers_device());
        assert!(!Prediction::from_bytes(ScanBytes::default(), 1).prefers_device());
    }
}
