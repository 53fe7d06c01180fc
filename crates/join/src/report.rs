//! What a join did, and how long it took.

use std::time::Duration;

use crate::options::Algorithm;

/// What an algorithm was predicted to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its time, if it can do it.
    pub time: Option<Duration>,
}

/// What a join did.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which algorithm ran; never [`Algorithm::Auto`].
    pub algorithm: Algorithm,
    /// Matches: pairs of rows with equal keys.
    pub match_count: u64,
    /// The sum of the products of their values, modulo 2^64, where that was asked for.
    pub value_sum: u64,
    /// From the first copy or kernel to the last match in place; no allocation.
    pub time: Duration,
    /// How much of it went by until the table stood or both sides were partitioned, where that is a moment.
    pub build_time: Duration,
    /// Bytes of the table, wherever it lay; of `gpu`.
    pub table_bytes: u64,
    /// How many of them lay on the device that joined; of `gpu`.
    pub table_device_bytes: u64,
    /// Whether the table was an array by key.
    pub is_perfect: bool,
    /// Build rows that stayed on the device while the probe side went by; of the hybrid join.
    pub resident_rows: u64,
    /// Rows of both sides that went to the host and back; of the hybrid join.
    pub spilled_rows: u64,
    /// Partitions, of all levels.
    pub partition_count: u64,
    /// Tables that were built and probed one after the other.
    pub table_count: u64,
    /// What each algorithm was predicted to take, where that was asked for.
    pub predictions: Vec<Prediction>,
}

impl Report {
    pub(crate) fn of(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            match_count: 0,
            value_sum: 0,
            time: Duration::ZERO,
            build_time: Duration::ZERO,
            table_bytes: 0,
            table_device_bytes: 0,
            is_perfect: false,
            resident_rows: 0,
            spilled_rows: 0,
            partition_count: 0,
            table_count: 0,
            predictions: Vec::new(),
        }
    }
}
