//! What a sort did, and how long it took.

use std::time::Duration;

use pelton_device::{DeviceId, Place};

use crate::options::Algorithm;

/// How long phases took: a phase ends when the last device leaves it, so they add up to the time of the whole
/// (Maltenberger et al. 2022, section 6.1). Where phases overlap, each has what it took beyond the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Host to devices.
    pub htod: Duration,
    /// Sorts on devices, or on the CPU.
    pub sort: Duration,
    /// Merges and exchanges between devices, or merges on the CPU.
    pub merge: Duration,
    /// Devices to host.
    pub dtoh: Duration,
}

/// Bytes over the link between two places, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkBytes {
    /// Where they came from.
    pub from: Place,
    /// Where they went.
    pub to: Place,
    /// How many.
    pub bytes: u64,
}

/// A stage in which devices exchange keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The devices, in order.
    pub devices: Vec<DeviceId>,
    /// Keys that changed their device, over both directions.
    pub keys_moved: u64,
}

/// What an algorithm was predicted to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its time, if it can do it.
    pub time: Option<Duration>,
}

/// What a sort did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which algorithm ran; never [`Algorithm::Auto`].
    pub algorithm: Algorithm,
    /// The devices that took part, in the order of their parts.
    pub devices: Vec<DeviceId>,
    /// Rows that were sorted.
    pub row_count: u64,
    /// From the first copy enqueued to the last row in place; no allocation.
    pub time: Duration,
    /// The same by phases.
    pub phases: Phases,
    /// Bytes over each link.
    pub links: Vec<LinkBytes>,
    /// Stages of exchanges between devices.
    pub stages: Vec<Stage>,
    /// Sorted runs that were merged, or cut into ranges, at the end; 1 if there was nothing to merge.
    pub run_count: u64,
    /// Groups of runs that the CPU merged while devices went on.
    pub eager_merge_count: u64,
    /// The most such groups that waited at once.
    pub pending_max: u64,
    /// Bytes written to disk.
    pub spilled_bytes: u64,
    /// True if devices that exchanged do not reach each other's memory, so that the driver staged copies in the host's.
    pub is_staged: bool,
    /// What each algorithm was predicted to take, where that was asked for.
    pub predictions: Vec<Prediction>,
}

impl Report {
    /// Keys that changed their device, over all stages.
    pub fn keys_moved(&self) -> u64 {
        self.stages.iter().map(|stage| stage.keys_moved).sum()
    }

    /// Bytes from the host to devices.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_where(|from, to| matches!((from, to), (Place::Host(_), Place::Device(_))))
    }

    /// Bytes from devices to the host.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_where(|from, to| matches!((from, to), (Place::Device(_), Place::Host(_))))
    }

    fn bytes_where(&self, is_meant: impl Fn(Place, Place) -> bool) -> u64 {
        self.links.iter().filter(|link| is_meant(link.from, link.to)).map(|link| link.bytes).sum()
    }
}
