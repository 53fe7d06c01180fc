//! Spans of one partition of a scan on the CPU: neighbours of one kind become one span.
//!
//! A row group's columns are decoded one after the other, each in tens of microseconds; what one wants to see is when
//! the partition decoded, filtered and waited.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::execution::TaskContext;
use pelton_trace::{Activity, SpanPlace, Trace, Tracer};

/// Spans of one kind that are closer than this become one; a guess at what no screen shows.
const MERGE_GAP: Duration = Duration::from_micros(50);

/// The tracer for the plan node at address `owner`, if the query is traced.
pub(crate) fn tracer(context: &TaskContext, owner: usize) -> Option<Tracer> {
    context.session_config().get_extension::<Trace>().map(|trace| Tracer::new(trace, owner))
}

/// Leaves the spans of one partition.
#[derive(Debug)]
pub(crate) struct LaneTrace {
    tracer: Tracer,
    place: SpanPlace,
    open: Mutex<Option<Open>>,
}

/// A span that may grow still.
#[derive(Debug, Clone, Copy)]
struct Open {
    activity: Activity,
    start: Instant,
    end: Instant,
    bytes: u64,
}

impl LaneTrace {
    /// Of partition `partition`.
    pub(crate) fn new(tracer: Tracer, partition: usize) -> Self {
        let place = SpanPlace { pipeline: 0, lane: partition as u32 };
        Self { tracer, place, open: Mutex::default() }
    }

    /// The partition was busy with `activity` from `start` to now, and went through `bytes`.
    pub(crate) fn add(&self, activity: Activity, start: Instant, bytes: u64) {
        self.add_until(Instant::now(), activity, start, bytes);
    }

    fn add_until(&self, end: Instant, activity: Activity, start: Instant, bytes: u64) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = open.as_mut()
            && last.activity == activity
            && start.saturating_duration_since(last.end) < MERGE_GAP
        {
            last.end = end;
            last.bytes += bytes;
            return;
        }
        if let Some(last) = open.replace(Open { activity, start, end, bytes }) {
            self.close(last);
        }
    }

    fn close(&self, span: Open) {
        self.tracer.add(self.place, span.activity, span.start, span.end, span.bytes);
        self.tracer.trace().look_at_process();
    }
}

impl Drop for LaneTrace {
    fn drop(&mut self) {
        if let Some(last) = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            self.close(last);
        }
    }
}

/// `context` with `trace` for the operators to find.
pub(crate) fn with_trace(context: TaskContext, trace: &Arc<Trace>) -> TaskContext {
    let config = context.session_config().clone().with_extension(Arc::clone(trace));
    let mut runtime = context.runtime_env().as_ref().clone();
    runtime.memory_pool = Arc::new(super::pool::TracedPool::new(runtime.memory_pool, Arc::clone(trace)));
    context.with_session_config(config).with_runtime(Arc::new(runtime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_kind_are_one_span() {
        let trace = Trace::start();
        let lane = LaneTrace::new(Tracer::new(Arc::clone(&trace), 7), 1);
        let after = |gaps: u32| trace.started() + MERGE_GAP * gaps / 2;
        lane.add_until(after(1), Activity::Decode, after(0), 10);
        lane.add_until(after(3), Activity::Decode, after(2), 5);
        lane.add_until(after(6), Activity::Decode, after(5), 3);
        lane.add_until(after(7), Activity::Filter, after(6), 0);
        drop(lane);
        let (spans, _) = trace.spans();
        let seen: Vec<_> =
            spans.iter().map(|span| (span.activity, span.bytes, span.owner, span.lane)).collect();
        assert_eq!(
            seen,
            [(Activity::Decode, 15, 7, 1), (Activity::Decode, 3, 7, 1), (Activity::Filter, 0, 7, 1)]
        );
    }
}
