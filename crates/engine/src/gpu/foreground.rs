//! Queries that somebody waits for, and how fast work in the background may bring bytes meanwhile.
//!
//! ```text
//!   a query's stream ── from its start to its end ──▶ one more in the foreground
//!   a trial ── before it reads or copies bytes ──▶ nobody there: at once
//!                                                  else: in turn with all other trials, at the background's rate
//! ```
//!
//! CPU queries over data in memory are bound by the host's memory, which reads of page cache and copies to a device take
//! from them whatever the priority of the threads is. So all trials together take a tenth of what the memory gives.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use pelton_error::Pace;
use pelton_fabric::Rates;

/// Of the host's memory, what work in the background takes while a query runs.
const SHARE: f64 = 0.1;
/// How often a byte that is brought goes over the bus of the host's memory: read from the page cache, written to pinned
/// memory, checked, and read by the copy to the device.
const TOUCHES: f64 = 4.0;
/// How often who waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// What of a device's session runs in the foreground.
#[derive(Debug)]
pub(crate) struct Foreground {
    state: Mutex<State>,
    /// Nobody is in the foreground any more.
    over: Condvar,
    /// Of all work in the background together.
    bytes_per_s: f64,
}

#[derive(Debug, Default)]
struct State {
    queries: usize,
    /// When what was brought before is paid for; none while nobody was in the foreground.
    free_at: Option<Instant>,
}

impl State {
    /// When `bytes` that are asked for `now` may be brought: at once while nobody is in the foreground, else when all
    /// that was asked for before has had its time.
    fn admit(&mut self, bytes: u64, now: Instant, bytes_per_s: f64) -> Instant {
        if self.queries == 0 {
            self.free_at = None;
            return now;
        }
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        self.free_at = Some(start + Duration::from_secs_f64(bytes as f64 / bytes_per_s));
        start
    }
}

impl Foreground {
    /// On a machine of these rates.
    pub(super) fn new(rates: &Rates) -> Arc<Self> {
        let bytes_per_s = rates.host_memory.bytes_per_s * SHARE / TOUCHES;
        Arc::new(Self { state: Mutex::default(), over: Condvar::new(), bytes_per_s })
    }

    /// `rows`, which count as a query in the foreground until their end, or until they are dropped.
    pub(crate) fn watch(self: &Arc<Self>, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (schema, guard) = (rows.schema(), self.enter());
        let at_end = futures::stream::once(async move {
            drop(guard);
            None
        });
        let rows = rows.map(Some).chain(at_end).filter_map(std::future::ready);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// One more query, until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InForeground {
        self.state().queries += 1;
        InForeground(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pace for Foreground {
    fn wait_for(&self, bytes: u64, is_cancelled: &dyn Fn() -> bool) {
        let mut state = self.state();
        let start = state.admit(bytes, Instant::now(), self.bytes_per_s);
        while state.queries > 0 && !is_cancelled() {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.over.wait_timeout(state, left.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A query in the foreground.
#[derive(Debug)]
pub(crate) struct InForeground(Arc<Foreground>);

impl Drop for InForeground {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.queries -= 1;
        if state.queries == 0 {
            self.0.over.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::datatypes::Schema;

    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn bytes_pass_at_once_while_nobody_waits_and_at_the_rate_while_somebody_does() {
        let mut state = State::default();
        let begin = Instant::now();
        let after = |seconds: f64| begin + Duration::from_secs_f64(seconds);
        assert_eq!(state.admit(100 * GB, begin, 1e9), begin);
        assert_eq!(state.admit(100 * GB, begin, 1e9), begin);
        state.queries = 1;
        // The first of them pass, and what comes next waits for their time.
        assert_eq!(state.admit(2 * GB, begin, 1e9), begin);
        assert_eq!(state.admit(GB, begin, 1e9), after(2.0));
        assert_eq!(state.admit(GB, after(1.0), 1e9), after(3.0));
        // Time that nobody used is no credit.
        assert_eq!(state.admit(GB, after(10.0), 1e9), after(10.0));
        assert_eq!(state.admit(GB, after(10.0), 1e9), after(11.0));
        // What was owed is forgotten with the last query.
        state.queries = 0;
        assert_eq!(state.admit(GB, after(10.5), 1e9), after(10.5));
        state.queries = 1;
        assert_eq!(state.admit(GB, after(10.5), 1e9), after(10.5));
    }

    #[test]
    fn who_waits_goes_on_with_the_last_query_or_when_cancelled() {
        // A byte takes a century.
        let slow = Foreground { state: Mutex::default(), over: Condvar::new(), bytes_per_s: 1e-9 };
        let foreground = Arc::new(slow);
        foreground.wait_for(GB, &|| false);
        let first = foreground.enter();
        let second = foreground.enter();
        foreground.wait_for(1, &|| false); // nothing is owed yet
        foreground.wait_for(1, &|| true);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                foreground.wait_for(1, &|| false);
                assert!(is_over.load(Ordering::SeqCst));
            });
            drop(first);
            is_over.store(true, Ordering::SeqCst);
            drop(second);
            waiting.join().unwrap();
        });
    }

    #[test]
    fn trials_take_a_fortieth_of_the_rate_of_host_memory() {
        let rates = Rates::of_preset();
        let foreground = Foreground::new(&rates);
        assert!((foreground.bytes_per_s * 40.0 / rates.host_memory.bytes_per_s - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_query_is_in_the_foreground_until_its_rows_end_or_are_dropped() {
        let foreground = Foreground::new(&Rates::of_preset());
        let rows = || {
            let schema = Arc::new(Schema::empty());
            let batches = futures::stream::iter([Ok(RecordBatch::new_empty(Arc::clone(&schema)))]);
            Box::pin(RecordBatchStreamAdapter::new(schema, batches)) as SendableRecordBatchStream
        };
        let mut watched = foreground.watch(rows());
        assert_eq!(foreground.state().queries, 1);
        let dropped = foreground.watch(rows());
        assert_eq!(foreground.state().queries, 2);
        drop(dropped);
        assert_eq!(foreground.state().queries, 1);
        futures::executor::block_on(async {
            assert!(watched.next().await.unwrap().is_ok());
            assert_eq!(foreground.state().queries, 1);
            assert!(watched.next().await.is_none());
        });
        assert_eq!(foreground.state().queries, 0);
    }
}
