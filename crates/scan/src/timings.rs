//! Timings of a prefetcher, for traces.

use std::time::Instant;

use pelton_device::Event;
use pelton_trace::Activity;

/// What was done for one morsel, and when.
#[derive(Debug)]
pub struct MorselTimings {
    /// Its buffer.
    pub buffer: usize,
    /// What the host did, in order.
    pub laps: Vec<Lap>,
    /// Before and after its copies; none where nothing was copied.
    pub copy: Option<(Event, Event)>,
    /// Bytes of the copies.
    pub copied_bytes: u64,
    /// When the next lap begins.
    at: Instant,
}

/// Something that the host did.
#[derive(Debug)]
pub struct Lap {
    /// What was done.
    pub activity: Activity,
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Bytes that were read, checked or moved; 0 where nobody counted.
    pub bytes: u64,
}

impl MorselTimings {
    /// Of a morsel that is begun now.
    pub(crate) fn begin(buffer: usize) -> Self {
        Self { buffer, laps: Vec::with_capacity(4), copy: None, copied_bytes: 0, at: Instant::now() }
    }

    /// Since the last lap the host did this.
    pub(crate) fn lap(&mut self, activity: Activity, bytes: u64) {
        let end = Instant::now();
        self.laps.push(Lap { activity, start: self.at, end, bytes });
        self.at = end;
    }
}
