//! The queries that wait or run: who asked, what they hold, and how to end them.
//!
//! ```text
//!   begin ─▶ (queue) ─▶ permit ─▶ rows ─▶ end
//!               └─ cancelled by: the client · its silence · time · shutdown ─▶ end
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pelton_engine::QueryMemory;
use pelton_error::CancelFlag;
use tokio::sync::watch;
use tonic::Status;

use crate::handles::Handle;

/// Who or what ended a query before its last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CancelledBy {
    /// The client asked for it.
    Client,
    /// The client stopped reading.
    Silence,
    /// The client stopped reading while others waited for the permit.
    Stall,
    /// The query ran for too long.
    Timeout,
    /// The client went away.
    Disconnect,
    /// The server shuts down.
    Shutdown,
}

impl CancelledBy {
    /// As metrics and the log name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Silence => "silence",
            Self::Stall => "stall",
            Self::Timeout => "timeout",
            Self::Disconnect => "disconnect",
            Self::Shutdown => "shutdown",
        }
    }

    /// As the client is told.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Client | Self::Disconnect => Status::cancelled("cancelled"),
            Self::Silence => Status::cancelled(
                "cancelled: nobody read the result for --idle-seconds; read it in one go, or select less",
            ),
            Self::Stall => Status::cancelled(
                "cancelled: nobody read the result for --stall-seconds, while its query held memory and others waited; \
                 read it in one go, or select less",
            ),
            Self::Timeout => Status::deadline_exceeded(
                "cancelled: the query ran for longer than --query-seconds; select less, or have the server's operator \
                 raise it",
            ),
            Self::Shutdown => Status::unavailable("the server shut down before the query ended"),
        }
    }
}

/// One query that waits or runs.
pub(crate) struct Ongoing {
    /// Numbers queries for the log.
    pub(crate) id: u64,
    /// The ticket it was asked for with.
    ticket: Handle,
    /// Where the client is.
    pub(crate) peer: Option<SocketAddr>,
    /// When the client asked for rows.
    pub(crate) began: Instant,
    /// How long it waited for its permit, once it has one.
    pub(crate) waited: OnceLock<Duration>,
    /// Rows handed to the client.
    pub(crate) rows: AtomicU64,
    /// What its operators hold, once it runs.
    pub(crate) memory: OnceLock<QueryMemory>,
    phase: AtomicU8,
    /// For operators deep in their work.
    pub(crate) flag: CancelFlag,
    cancelled: watch::Sender<Option<CancelledBy>>,
}

/// Where a query is between its begin and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// It waits for its first permit.
    Queued,
    /// It has a permit.
    Running,
    /// It waits for its client, without a permit.
    Aside,
}

impl Ongoing {
    /// It is in this phase from now on.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// Ends the query; false where somebody has done so before.
    pub(crate) fn cancel(&self, by: CancelledBy) -> bool {
        self.flag.cancel();
        self.cancelled.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(by);
            is_first
        })
    }

    /// Who cancelled the query, if somebody has.
    pub(crate) fn is_cancelled(&self) -> Option<CancelledBy> {
        *self.cancelled.borrow()
    }

    /// Ends when the query is to end.
    pub(crate) async fn cancelled(&self) -> CancelledBy {
        let mut receiver = self.cancelled.subscribe();
        loop {
            if let Some(by) = *receiver.borrow_and_update() {
                return by;
            }
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// All queries that wait or run.
#[derive(Default)]
pub(crate) struct Running {
    queries: Mutex<HashMap<u64, Arc<Ongoing>>>,
    count: watch::Sender<usize>,
    next_id: AtomicU64,
}

impl Running {
    /// A number for a query's log line.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Another query, until [`end`](Self::end).
    pub(crate) fn begin(&self, ticket: Handle, peer: Option<SocketAddr>) -> Arc<Ongoing> {
        let ongoing = Arc::new(Ongoing {
            id: self.next_id(),
            ticket,
            peer,
            began: Instant::now(),
            waited: OnceLock::new(),
            rows: AtomicU64::new(0),
            memory: OnceLock::new(),
            phase: AtomicU8::new(Phase::Queued as u8),
            flag: CancelFlag::new(),
            cancelled: watch::Sender::new(None),
        });
        let mut queries = self.queries();
        queries.insert(ongoing.id, Arc::clone(&ongoing));
        self.count.send_replace(queries.len());
        ongoing
    }

    /// The query is over and holds nothing any more.
    pub(crate) fn end(&self, id: u64) {
        let mut queries = self.queries();
        queries.remove(&id);
        self.count.send_replace(queries.len());
    }

    /// Cancels every query that was asked for with `ticket`; whether there was one to cancel.
    pub(crate) fn cancel(&self, ticket: &[u8], by: CancelledBy) -> bool {
        let queries = self.queries();
        let mut is_any = false;
        for ongoing in queries.values().filter(|ongoing| ongoing.ticket == ticket) {
            is_any |= ongoing.cancel(by);
        }
        is_any
    }

    /// Cancels all.
    pub(crate) fn cancel_all(&self, by: CancelledBy) {
        for ongoing in self.queries().values() {
            ongoing.cancel(by);
        }
    }

    /// Those there are.
    pub(crate) fn all(&self) -> Vec<Arc<Ongoing>> {
        self.queries().values().cloned().collect()
    }

    /// Queries in this phase.
    pub(crate) fn count(&self, phase: Phase) -> usize {
        self.queries().values().filter(|ongoing| ongoing.is_in(phase)).count()
    }

    /// Bytes that operators of all queries hold.
    pub(crate) fn memory_used_bytes(&self) -> u64 {
        let queries = self.queries();
        queries.values().filter_map(|ongoing| ongoing.memory.get()).map(QueryMemory::reserved_bytes).sum()
    }

    /// Ends when no query waits or runs.
    pub(crate) async fn wait_for_none(&self) {
        // The sender lives as long as this does, so that waiting can only succeed.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn queries(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Ongoing>>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_ticket_cancels_its_own_queries_alone() {
        let running = Running::default();
        let (one, two) = (running.begin([1; 16], None), running.begin([2; 16], None));
        assert!(running.cancel(&[1; 16], CancelledBy::Client));
        assert!(!running.cancel(&[1; 16], CancelledBy::Client), "it is cancelled already");
        assert!(!running.cancel(&[3; 16], CancelledBy::Client));
        assert_eq!(one.cancelled().await, CancelledBy::Client);
        let still = tokio::time::timeout(Duration::from_millis(10), two.cancelled()).await;
        assert!(still.is_err(), "another query was cancelled");
    }

    #[tokio::test]
    async fn none_is_running_once_all_have_ended() {
        let running = Running::default();
        running.wait_for_none().await;
        let one = running.begin([1; 16], None);
        assert_eq!(running.count(Phase::Running), 0, "it has no permit yet");
        one.set_phase(Phase::Running);
        assert_eq!((running.count(Phase::Running), running.count(Phase::Aside)), (1, 0));
        running.cancel_all(CancelledBy::Shutdown);
        assert_eq!(one.cancelled().await, CancelledBy::Shutdown);
        running.end(one.id);
        running.wait_for_none().await;
        assert_eq!(running.count(Phase::Running), 0);
    }
}
