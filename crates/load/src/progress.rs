//! What a load tells while it works, and how it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a load is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Parsing input that cannot be read at random positions into a scratch file.
    Staging,
    /// Reading random row groups and choosing encodings from them.
    Sampling,
    /// Forming and merging sorted runs.
    Sorting,
    /// Encoding row groups and appending them to the table.
    Writing,
}

impl Phase {
    /// The phase as a progress bar shows it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Staging => "reading",
            Phase::Sampling => "sampling",
            Phase::Sorting => "sorting",
            Phase::Writing => "writing",
        }
    }
}

/// How far a load has come, counted from the start of its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The phase under way.
    pub phase: Phase,
    /// Rows that went through this phase.
    pub row_count: u64,
    /// Rows that will go through it, where that is known.
    pub row_count_total: Option<u64>,
    /// Uncompressed bytes that went through this phase.
    pub raw_bytes: u64,
    /// Bytes read from the input files since the load began (compressed files: compressed bytes).
    pub input_bytes: u64,
    /// Bytes of all input files; `None` for generators.
    pub input_bytes_total: Option<u64>,
}

/// Receives snapshots; called from the loading thread a few times per row group.
pub trait Progress: Send + Sync {
    /// Shows `snapshot`. Must return quickly.
    fn update(&self, snapshot: &Snapshot);
}

/// Shows nothing.
pub struct NoProgress;

impl Progress for NoProgress {
    fn update(&self, _snapshot: &Snapshot) {}
}

/// Counts what passes and reports it; one per load.
pub(crate) struct Meter<'a> {
    progress: &'a dyn Progress,
    /// Shared with the readers, which count the bytes they take from files.
    input_bytes: Arc<AtomicU64>,
    snapshot: Snapshot,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(
        progress: &'a dyn Progress,
        input_bytes: Arc<AtomicU64>,
        input_bytes_total: Option<u64>,
    ) -> Self {
        let snapshot = Snapshot {
            phase: Phase::Sampling,
            row_count: 0,
            row_count_total: None,
            raw_bytes: 0,
            input_bytes: 0,
            input_bytes_total,
        };
        Self { progress, input_bytes, snapshot }
    }

    /// Starts counting anew for `phase`.
    pub(crate) fn enter(&mut self, phase: Phase, row_count_total: Option<u64>) {
        self.snapshot = Snapshot { phase, row_count: 0, row_count_total, raw_bytes: 0, ..self.snapshot };
        self.add(0, 0);
    }

    /// Counts rows that went through the phase and reports the new state.
    pub(crate) fn add(&mut self, row_count: u64, raw_bytes: u64) {
        self.snapshot.row_count += row_count;
        self.snapshot.raw_bytes += raw_bytes;
        self.snapshot.input_bytes = self.input_bytes.load(Ordering::Relaxed);
        self.progress.update(&self.snapshot);
    }
}
