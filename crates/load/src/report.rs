//! What a load did.

use std::time::{Duration, Instant};

use pelton_store::ColumnChoice;

use crate::progress::Phase;

/// What a load did, of its own rows only.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReport {
    /// Rows added to the table.
    pub row_count: u64,
    /// Row groups they make.
    pub row_group_count: u64,
    /// Rows of a full row group.
    pub row_group_rows: u32,
    /// Uncompressed bytes.
    pub raw_bytes: u64,
    /// Bytes of the chunks on disk.
    pub stored_bytes: u64,
    /// Bytes of zone maps and sketches, sideways metadata among them.
    pub metadata_bytes: u64,
    /// Bytes written to scratch files, each pass counted.
    pub spilled_bytes: u64,
    /// The most bytes of rows held in memory at once.
    pub held_bytes_max: u64,
    /// Time by phase, in the order in which phases were first entered.
    pub phases: Vec<(Phase, Duration)>,
    /// The columns by which rows were sorted, most significant first.
    pub cluster_by: Vec<String>,
    /// Per column what was chosen; empty where there were no rows.
    pub choices: Vec<ColumnChoice>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl LoadReport {
    /// Time in all.
    pub fn duration(&self) -> Duration {
        self.phases.iter().map(|(_, duration)| *duration).sum()
    }
}

/// Adds up time by phase.
#[derive(Debug)]
pub(crate) struct Clock {
    since: Instant,
    current: Phase,
    phases: Vec<(Phase, Duration)>,
}

impl Clock {
    pub(crate) fn start(phase: Phase) -> Self {
        Self { since: Instant::now(), current: phase, phases: Vec::new() }
    }

    /// Books the time so far on the current phase and goes on with `phase`.
    pub(crate) fn enter(&mut self, phase: Phase) {
        let now = Instant::now();
        let spent = now - self.since;
        match self.phases.iter_mut().find(|(known, _)| *known == self.current) {
            Some((_, duration)) => *duration += spent,
            None => self.phases.push((self.current, spent)),
        }
        (self.since, self.current) = (now, phase);
    }

    /// The time by phase up to now.
    pub(crate) fn stop(&mut self) -> Vec<(Phase, Duration)> {
        self.enter(self.current);
        self.phases.clone()
    }
}
