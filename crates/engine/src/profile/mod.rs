//! The profile of a query: what it was planned as, what it did when, what that cost.
//!
//! ```text
//!   Query::traced ─▶ Trace: spans, memory ◀── scans (lane.rs), pool (pool.rs), runs on a device (pelton-exec)
//!        │ run                  │
//!        ▼                      ▼
//!   plan with metrics ─▶ node.rs  tree.rs       ─┐
//!                        timeline.rs  links.rs  ─┴▶ QueryProfile ─▶ to_json.rs ─▶ html.rs, a page in one file
//! ```
//!
//! A profile is plain data and can be taken at any time: of a query that has not run it holds the plan and its
//! estimates, of one that failed what was done until then. Its JSON is `docs/specs/query-profile.md`. Without a trace
//! nothing is recorded that EXPLAIN ANALYZE would not show.

mod html;
mod json;
mod lane;
mod links;
mod node;
mod outcome;
mod pool;
mod timeline;
mod to_json;
mod tree;

use std::time::{Duration, SystemTime};

pub(crate) use lane::{LaneTrace, tracer, with_trace};
pub use links::{Ceiling, Ceilings, LinkKind, LinkUse};
pub use node::{Metric, Place, ProfileNode, Unit};
pub(crate) use outcome::Recorder;
pub use timeline::{Lane, MemoryUse, Timeline, TimelineSpan};
pub(crate) use timeline::{Parts, assemble};

/// How far a query came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryState {
    /// It was planned and not run.
    Planned,
    /// It gave all its rows.
    Finished,
    /// Nobody took its rows to the end: they were enough, or the query was cancelled.
    Stopped,
    /// It failed with this message.
    Failed(String),
}

impl QueryState {
    /// The word used in profiles.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
        }
    }
}

/// What whoever asks for a profile knows besides the plan.
#[derive(Debug, Clone, Default)]
pub struct ProfileContext {
    /// The text of the query.
    pub sql: Option<String>,
    /// Time from its text to its plan.
    pub planning: Option<Duration>,
    /// How fast links were measured to be.
    pub ceilings: Ceilings,
}

/// What one query was planned as, did and cost.
#[derive(Debug, Clone)]
pub struct QueryProfile {
    /// The text of the query, if the caller told.
    pub sql: Option<String>,
    /// How far it came.
    pub state: QueryState,
    /// When it was started, by the wall clock; `None` without a trace.
    pub started_at: Option<SystemTime>,
    /// From text to plan, if the caller told.
    pub planning: Option<Duration>,
    /// From the start to the last row; `None` without a trace, and where it was not run.
    pub elapsed: Option<Duration>,
    /// Rows that it gave; `None` as for `elapsed`.
    pub rows: Option<u64>,
    /// Partitions that the CPU works in.
    pub threads: usize,
    /// The device that was opened, in words.
    pub device: Option<String>,
    /// The plan, from the root.
    pub plan: ProfileNode,
    /// Where bytes went, and how fast.
    pub links: Vec<LinkUse>,
    /// What memory was held when; empty without a trace.
    pub memory: Vec<MemoryUse>,
    /// What was done when; empty without a trace.
    pub timeline: Timeline,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

impl QueryProfile {
    /// As JSON: `docs/specs/query-profile.md`.
    pub fn to_json(&self) -> String {
        to_json::profile(self)
    }

    /// The plan alone as JSON: the field `plan` of [`to_json`](Self::to_json).
    pub fn plan_json(&self) -> String {
        to_json::plan(&self.plan)
    }

    /// As one page that needs nothing else: no network, no other file.
    pub fn to_html(&self) -> String {
        html::page(self)
    }
}
