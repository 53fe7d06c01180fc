//! Queries that somebody waits for, and how fast work in the background may bring bytes meanwhile.
//!
//! ```text
//!   a query's stream ── from its start to its end ──▶ one more in the foreground
//!   a trial ── before it reads or copies bytes ──▶ nobody there: at once
//!                                                  else: in turn with all other trials, at the background's rate
//! ```
//!
//! CPU queries over data in memory are bound by the host's memory, which reads of page cache and copies to a device take
//! from them whatever the priority of the threads is. So all trials together take a small share of what the memory gives; and
//! as cores that look idle may be halves of busy ones, few compilers run meanwhile. A query that comes again while it is on
//! trial is awaited: its trial gets more of both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use pelton_fabric::Rates;

/// Of the host's memory, what work in the background takes while a query runs.
const SHARE: f64 = 0.03;
/// The same of work whose query has come again.
const AWAITED_SHARE: f64 = 0.1;
/// Of pieces of work that could be done at once, those that are while a query runs.
const AT_ONCE: f64 = 1.0 / 6.0;
/// The same of work whose query has come again.
const AWAITED_AT_ONCE: f64 = 1.0 / 3.0;
/// The next query of a script comes within so long after the one before.
const LINGER: Duration = Duration::from_millis(100);
/// How often a byte that is brought goes over the bus of the host's memory: read from the page cache, written to pinned
/// memory, checked, and read by the copy to the device.
const TOUCHES: f64 = 4.0;
/// How often who waits looks whether it was cancelled, or everybody has left.
const LOOK: Duration = Duration::from_millis(20);

/// What of a device's session runs in the foreground.
#[derive(Debug)]
pub(crate) struct Foreground {
    state: Mutex<State>,
    /// What work in the background could bring if it had all of the host's memory.
    bytes_per_s: f64,
}

#[derive(Debug, Default)]
struct State {
    queries: usize,
    /// When the last one left.
    left_at: Option<Instant>,
    /// When what was brought before is paid for; none while nobody was in the foreground.
    free_at: Option<Instant>,
}

impl State {
    /// Whether somebody runs queries.
    fn is_busy(&self, now: Instant) -> bool {
        self.queries > 0
            || self.left_at.is_some_and(|left_at| now.saturating_duration_since(left_at) < LINGER)
    }

    /// When `bytes` that are asked for `now` may be brought: at once while nobody is in the foreground, else when all
    /// that was asked for before has had its time.
    fn admit(&mut self, bytes: u64, now: Instant, bytes_per_s: f64) -> Instant {
        if !self.is_busy(now) {
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
        let bytes_per_s = rates.host_memory.bytes_per_s / TOUCHES;
        Arc::new(Self { state: Mutex::default(), bytes_per_s })
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

    /// Waits until work in the background may bring so many bytes more, or until `is_cancelled`.
    pub(super) fn wait_for(&self, bytes: u64, is_awaited: bool, is_cancelled: &dyn Fn() -> bool) {
        let share = if is_awaited { AWAITED_SHARE } else { SHARE };
        let start = self.state().admit(bytes, Instant::now(), self.bytes_per_s * share);
        loop {
            let now = Instant::now();
            let left = start.saturating_duration_since(now);
            if left.is_zero() || is_cancelled() || !self.state().is_busy(now) {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Of pieces of work in the background of which `most` could be done at once, how many are to be.
    pub(super) fn at_once(&self, most: usize, is_awaited: bool) -> usize {
        if !self.state().is_busy(Instant::now()) {
            return most;
        }
        let share = if is_awaited { AWAITED_AT_ONCE } else { AT_ONCE };
        ((most as f64 * share).round() as usize).max(1)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            state.left_at = Some(Instant::now());
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
        // What was owed is forgotten once nobody has come for a while after the last query.
        state.queries = 0;
        state.left_at = Some(after(10.5));
        assert_eq!(state.admit(GB, after(10.5), 1e9), after(12.0));
        let later = after(10.5) + LINGER;
        assert_eq!(state.admit(GB, later, 1e9), later);
        state.queries = 1;
        assert_eq!(state.admit(GB, later, 1e9), later);
    }

    #[test]
    fn who_waits_goes_on_after_the_last_query_or_when_cancelled() {
        // A byte takes a century.
        let foreground = Arc::new(Foreground { state: Mutex::default(), bytes_per_s: 1e-9 });
        foreground.wait_for(GB, false, &|| false);
        let first = foreground.enter();
        let second = foreground.enter();
        foreground.wait_for(1, false, &|| false); // nothing is owed yet
        foreground.wait_for(1, true, &|| true);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                foreground.wait_for(1, true, &|| false);
                assert!(is_over.load(Ordering::SeqCst));
            });
            drop(first);
            is_over.store(true, Ordering::SeqCst);
            drop(second);
            waiting.join().unwrap();
        });
    }

    #[test]
    fn compilers_are_few_while_a_query_runs_and_more_once_it_is_awaited() {
        let foreground = Foreground::new(&Rates::of_preset());
        let at_once = |most: usize| [false, true].map(|is_awaited| foreground.at_once(most, is_awaited));
        assert_eq!(at_once(12), [12, 12]);
        let query = foreground.enter();
        assert_eq!([12, 3, 1].map(at_once), [[2, 4], [1, 1], [1, 1]]);
        drop(query);
        assert_eq!(at_once(12), [2, 4], "the next one may come at once");
        foreground.state().left_at = Instant::now().checked_sub(LINGER);
        assert_eq!(at_once(12), [12, 12]);
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
