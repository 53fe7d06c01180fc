//! A profile put together: the plan's figures, and the trace's spans in lanes.
//!
//! Lanes are those of a node in the order of what happens in them: an operator's partitions, then what a scan did in
//! each of them; of a pipeline the host's phases, files, staging, copies, kernels. Spans of one lane may overlap where
//! several morsels are in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::physical_plan::ExecutionPlan;
use pelton_error::Result;
use pelton_trace::{Activity, MemoryTier, Trace, TraceSpan};

use super::links;
use super::node::ProfileNode;
use super::outcome::Recorder;
use super::tree::{OperatorTimes, Tree};
use super::{ProfileContext, QueryProfile, QueryState};
use crate::gpu::DeviceHandle;

/// What was done when.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Rows of the drawing, those of a node together.
    pub lanes: Vec<Lane>,
    /// By lane, then by start.
    pub spans: Vec<TimelineSpan>,
    /// Spans that were not kept, because there were more than a page can show.
    pub spans_dropped: u64,
}

/// A row of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The node that it is of; `None` for nodes that DataFusion made while the query ran.
    pub node: Option<usize>,
    /// Such as `partition 1`, or `copies, buffer 0`.
    pub name: String,
}

/// A stretch of time in which something was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineSpan {
    /// Index of its lane.
    pub lane: usize,
    /// What was done: `operator`, or a name of [`Activity`].
    pub activity: &'static str,
    /// Since the query was started.
    pub start: Duration,
    /// Since the query was started.
    pub end: Duration,
    /// Bytes that were moved or gone through; 0 where nobody counted.
    pub bytes: u64,
    /// Rows likewise.
    pub rows: u64,
}

/// What was held of one tier of memory.
#[derive(Debug, Clone)]
pub struct MemoryUse {
    /// `device`, `pinned`, `pool` or `process`.
    pub tier: &'static str,
    /// For people.
    pub name: String,
    /// The most that may be held, bytes; `None` without a limit.
    pub limit_bytes: Option<u64>,
    /// The most that was held, bytes.
    pub peak_bytes: u64,
    /// Moments since the start of the query, rising, with the bytes held from then on.
    pub points: Vec<(Duration, u64)>,
}

/// What a profile is made of.
pub(crate) struct Parts<'p> {
    pub(crate) plan: &'p Arc<dyn ExecutionPlan>,
    pub(crate) device: &'p Arc<DeviceHandle>,
    pub(crate) pool: &'p Arc<dyn MemoryPool>,
    pub(crate) threads: usize,
    pub(crate) recorder: Option<&'p Recorder>,
}

/// The profile of a query as it is now.
pub(crate) fn assemble(parts: &Parts<'_>, context: ProfileContext) -> Result<QueryProfile> {
    let mut tree = Tree::of(parts.plan, parts.device)?;
    let runtime = parts.device.opened();
    let spans = parts.recorder.map(|recorder| recorder.trace().spans());
    let (mut spans, spans_dropped) = spans.unwrap_or_default();
    let outcome = parts.recorder.map(Recorder::outcome);
    let began = outcome.as_ref().map_or(Duration::ZERO, |outcome| outcome.began);
    for span in &mut spans {
        (span.start, span.end) = (span.start.saturating_sub(began), span.end.saturating_sub(began));
    }
    let links = links::of(&tree, &spans, runtime.map(|runtime| runtime.describe()), &context.ceilings);
    let ran = outcome.as_ref().and_then(|outcome| Some((outcome.began, outcome.ended?)));
    let mut timeline = parts.recorder.map_or_else(Timeline::default, |recorder| {
        let end = ran.map_or_else(|| recorder.trace().now(), |(_, ended)| ended);
        timeline(&tree, &spans, recorder.started_at + began, end.saturating_sub(began))
    });
    timeline.spans_dropped = spans_dropped;
    activate(&mut tree.root, &timeline);
    let memory = parts.recorder.map(|recorder| memory(recorder.trace(), began, parts)).unwrap_or_default();
    Ok(QueryProfile {
        sql: context.sql,
        state: outcome.as_ref().map_or(QueryState::Planned, |outcome| outcome.state.clone()),
        started_at: parts.recorder.map(|recorder| recorder.started_at),
        planning: context.planning,
        elapsed: ran.map(|(began, ended)| ended.saturating_sub(began)),
        rows: ran.and(outcome.map(|outcome| outcome.rows)),
        threads: parts.threads,
        device: runtime.map(|runtime| runtime.describe()),
        plan: tree.root,
        links,
        memory,
        notes: notes(spans_dropped),
        timeline,
    })
}

fn notes(spans_dropped: u64) -> Vec<String> {
    let too_many = format!(
        "the timeline shows the first {} spans; {spans_dropped} later ones were counted only",
        pelton_trace::SPANS_MAX
    );
    (spans_dropped > 0).then_some(too_many).into_iter().collect()
}

/// Where a span is drawn: node, kind of lane, number of the lane among its kind.
type LaneKey = (Option<usize>, LaneKind, u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKind {
    Operator,
    Partition,
    Phases,
    Files,
    Staging,
    Copies,
    Kernels,
}

impl LaneKind {
    fn of(span: &TraceSpan, is_pipeline: bool) -> Self {
        match span.activity {
            Activity::Copy => Self::Copies,
            Activity::Kernel => Self::Kernels,
            Activity::Stage => Self::Staging,
            Activity::Decode | Activity::Filter => Self::Partition,
            Activity::Read | Activity::ReadWait if !is_pipeline => Self::Partition,
            Activity::Read | Activity::ReadWait | Activity::BufferWait => Self::Files,
            Activity::Prepare
            | Activity::Generate
            | Activity::Compile
            | Activity::Allocate
            | Activity::Admit
            | Activity::Result => Self::Phases,
        }
    }

    fn name(self, number: u32) -> String {
        match self {
            Self::Operator => format!("partition {number}"),
            Self::Partition => format!("scan, partition {number}"),
            Self::Phases => "phases".to_owned(),
            Self::Files => "files".to_owned(),
            Self::Staging => "staging".to_owned(),
            Self::Copies => format!("copies, buffer {number}"),
            Self::Kernels => format!("kernels, buffer {number}"),
        }
    }

    /// True where all buffers share a lane: the host does one after the other.
    fn is_shared(self) -> bool {
        matches!(self, Self::Phases | Self::Files | Self::Staging)
    }
}

/// A span that has no lane yet.
type Drawn = (&'static str, Duration, Duration, u64, u64);

fn timeline(tree: &Tree, spans: &[TraceSpan], started_at: SystemTime, end: Duration) -> Timeline {
    let mut lanes: BTreeMap<LaneKey, Vec<Drawn>> = BTreeMap::new();
    for span in spans {
        let pipeline = tree.owners.get(&(span.owner, Some(span.pipeline)));
        let node = pipeline.or_else(|| tree.owners.get(&(span.owner, None))).copied();
        let kind = LaneKind::of(span, pipeline.is_some());
        let number = if kind.is_shared() { 0 } else { span.lane };
        let drawn = (span.activity.name(), span.start, span.end, span.bytes, span.rows);
        lanes.entry((node, kind, number)).or_default().push(drawn);
    }
    for times in &tree.operators {
        let (start, end) = since(times, started_at, end);
        let key = (Some(times.node), LaneKind::Operator, times.partition);
        lanes.entry(key).or_default().push(("operator", start, end, 0, 0));
    }
    let mut timeline = Timeline::default();
    for (lane, ((node, kind, number), mut drawn)) in lanes.into_iter().enumerate() {
        timeline.lanes.push(Lane { node, name: kind.name(number) });
        drawn.sort_unstable_by_key(|(_, start, ..)| *start);
        timeline.spans.extend(drawn.into_iter().map(|(activity, start, end, bytes, rows)| TimelineSpan {
            lane,
            activity,
            start,
            end,
            bytes,
            rows,
        }));
    }
    timeline
}

/// When an operator began and ended since the start of the trace; what did not end, did with the query.
fn since(times: &OperatorTimes, started_at: SystemTime, query_end: Duration) -> (Duration, Duration) {
    let zero = started_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = |ns: u64| Duration::from_nanos(ns).saturating_sub(zero);
    let start = since(times.began_ns);
    (start, times.ended_ns.map_or(query_end, since).max(start))
}

/// Says of each node when it was active.
fn activate(node: &mut ProfileNode, timeline: &Timeline) {
    let mut active: BTreeMap<usize, (Duration, Duration)> = BTreeMap::new();
    for span in &timeline.spans {
        let Some(node) = timeline.lanes[span.lane].node else { continue };
        let known = active.entry(node).or_insert((span.start, span.end));
        *known = (known.0.min(span.start), known.1.max(span.end));
    }
    fn put(node: &mut ProfileNode, active: &BTreeMap<usize, (Duration, Duration)>) {
        node.active = active.get(&node.id).copied();
        node.children.iter_mut().for_each(|child| put(child, active));
    }
    put(node, &active);
}

/// The tiers of which the trace has heard, since the query `began`.
fn memory(trace: &Trace, began: Duration, parts: &Parts<'_>) -> Vec<MemoryUse> {
    let mut all = Vec::new();
    let mut add = |tier, word, name: String, limit_bytes| {
        let curve = trace.curve(tier);
        if !curve.points.is_empty() {
            let since = |(at, bytes): (Duration, u64)| (at.saturating_sub(began), bytes);
            let points = curve.points.into_iter().map(since).collect();
            let peak_bytes = curve.peak_bytes;
            all.push(MemoryUse { tier: word, name, limit_bytes, peak_bytes, points });
        }
    };
    if let Some(runtime) = parts.device.opened() {
        let machine = runtime.machine();
        let device_limit = machine.device_budget(runtime.device()).ok().map(|budget| budget.limit_bytes());
        add(MemoryTier::Device, "device", format!("device memory, {}", runtime.describe()), device_limit);
        let pinned_limit = Some(machine.pinned_budget().limit_bytes());
        add(MemoryTier::Pinned, "pinned", "pinned host memory".to_owned(), pinned_limit);
    }
    let pool_limit = match parts.pool.memory_limit() {
        MemoryLimit::Finite(bytes) => Some(bytes as u64),
        MemoryLimit::Infinite | MemoryLimit::Unknown => None,
    };
    add(MemoryTier::Pool, "pool", "host memory of joins, sorts and aggregates".to_owned(), pool_limit);
    add(MemoryTier::Process, "process", "host memory of the whole process".to_owned(), None);
    all
}
