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
        let end = Instant::now();
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
        // The first time takes longer than the gap at times: its code is brought into memory.
        let [_, seen] = [(); 2].map(|()| {
            let trace = Trace::start();
            let lane = LaneTrace::new(Tracer::new(Arc::clone(&trace), 7), 1);
            lane.add(Activity::Decode, trace.started(), 10);
            lane.add(Activity::Decode, Instant::now(), 5);
            lane.add(Activity::Filter, Instant::now(), 0);
            drop(lane);
            let (spans, _) = trace.spans();
            spans.iter().map(|span| (span.activity, span.bytes, span.owner, span.lane)).collect::<Vec<_>>()
        });
        assert_eq!(seen, [(Activity::Decode, 15, 7, 1), (Activity::Filter, 0, 7, 1)]);
    }
}
