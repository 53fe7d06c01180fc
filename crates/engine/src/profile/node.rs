//! A node of the plan in a profile.

use std::time::Duration;

use crate::scan::ScanReport;

/// Where a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the CPU.
    Cpu,
    /// On a device, or on what stands in for one.
    Device,
}

impl Place {
    /// The word used in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Device => "device",
        }
    }
}

/// What a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Rows.
    Rows,
    /// Bytes.
    Bytes,
    /// Nanoseconds; of several threads or partitions together, their sum.
    Nanoseconds,
}

impl Unit {
    /// The word used in profiles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Nanoseconds => "ns",
        }
    }
}

/// A number that a node counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// How many.
    pub value: u64,
}

/// A node of the plan, or a pipeline of one that runs on a device.
#[derive(Debug, Clone)]
pub struct ProfileNode {
    /// Its number in the profile: from 0, parents before their children.
    pub id: usize,
    /// Such as `HashJoinExec`, or `pipeline 2`.
    pub name: String,
    /// What it does, as EXPLAIN says it; of a pipeline, a line a step.
    pub detail: String,
    /// Where it runs, or ran.
    pub place: Place,
    /// Why there.
    pub reason: String,
    /// Rows that it was planned to give; `None` where nobody could tell.
    pub estimated_rows: Option<f64>,
    /// Rows that it gave; `None` where it has not run or does not count.
    pub actual_rows: Option<u64>,
    /// Time that it was busy, of all partitions together; `None` as for rows.
    pub busy: Option<Duration>,
    /// When its first partition began and its last one ended, since the start of the query; `None` without a trace.
    pub active: Option<(Duration, Duration)>,
    /// All that it counted.
    pub metrics: Vec<Metric>,
    /// What it read and skipped, if it scans a Pelton table.
    pub scan: Option<ScanReport>,
    /// What gives it rows.
    pub children: Vec<ProfileNode>,
}

impl ProfileNode {
    /// A node without figures.
    pub(super) fn new(id: usize, name: String, detail: String, place: Place, reason: String) -> Self {
        Self {
            id,
            name,
            detail,
            place,
            reason,
            estimated_rows: None,
            actual_rows: None,
            busy: None,
            active: None,
            metrics: Vec::new(),
            scan: None,
            children: Vec::new(),
        }
    }

    /// Calls `each` with this node and all below it, parents first.
    pub fn visit<'n>(&'n self, each: &mut impl FnMut(&'n ProfileNode)) {
        each(self);
        self.children.iter().for_each(|child| child.visit(each));
    }

    /// Counts `value`.
    pub(super) fn count(&mut self, name: &str, unit: Unit, value: u64) {
        self.metrics.push(Metric { name: name.to_owned(), unit, value });
    }
}
