//! Admission: a query is planned, and then runs, when it has a permit for it. First come, first served; who waits too
//! long is told what to change.
//!
//! ```text
//!   GetFlightInfo, CreatePreparedStatement ─▶ (queue) ─▶ permit to plan ─▶ ticket, statement
//!   DoGet ─────────────────────────────────▶ (queue) ─▶ permit to run ──▶ rows
//! ```
//!
//! A permit to run stands for one query's memory. All queries together stay within the memory limit because there are no
//! more permits than shares of it, and no query can take from another's share: so none fails, or waits, for the sake of
//! another that runs.
//!
//! There are as many permits to plan, and they are others: a client may plan its next query while it reads the rows of
//! one. Nobody waits for a permit who holds one, so nobody waits for himself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::options::Limits;

/// The permits, and who waits for them.
pub(crate) struct Admission {
    planning: Permits,
    running: Permits,
    permit_count: usize,
    queued: AtomicUsize,
    queued_max: usize,
    timeout: Duration,
}

/// Permits of one kind.
struct Permits {
    semaphore: Arc<Semaphore>,
    /// What those do who have one, for messages.
    doing: &'static str,
}

impl Admission {
    /// As `limits` say.
    pub(crate) fn new(limits: &Limits) -> Self {
        let permit_count = limits.queries_at_once().min(Semaphore::MAX_PERMITS);
        let permits = |doing| Permits { semaphore: Arc::new(Semaphore::new(permit_count)), doing };
        Self {
            planning: permits("are planned"),
            running: permits("run"),
            permit_count,
            queued: AtomicUsize::new(0),
            queued_max: limits.max_queued,
            timeout: limits.queue_timeout,
        }
    }

    /// Waits for a permit to plan; dropping it gives it back. Dropping the future leaves the queue.
    pub(crate) async fn enter_planning(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.enter(&self.planning).await
    }

    /// Waits for a permit to run, likewise.
    pub(crate) async fn enter_running(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.enter(&self.running).await
    }

    async fn enter(&self, permits: &Permits) -> Result<OwnedSemaphorePermit, Status> {
        if let Ok(permit) = Arc::clone(&permits.semaphore).try_acquire_owned() {
            return Ok(permit);
        }
        let _waiting = self.join_queue(permits)?;
        match tokio::time::timeout(self.timeout, Arc::clone(&permits.semaphore).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(shutting_down()),
            Err(_elapsed) => Err(Status::resource_exhausted(format!(
                "{} queries {} at once (--max-queries, --memory-limit), and for {} s (--queue-seconds) none of them \
                 ended; try again later",
                self.permit_count,
                permits.doing,
                self.timeout.as_secs()
            ))),
        }
    }

    /// Refuses everybody who waits and everybody who comes from now on.
    pub(crate) fn close(&self) {
        self.running.semaphore.close();
        self.planning.semaphore.close();
    }

    /// # Errors
    ///
    /// `UNAVAILABLE` once the server shuts down.
    pub(crate) fn check_open(&self) -> Result<(), Status> {
        if self.running.semaphore.is_closed() { Err(shutting_down()) } else { Ok(()) }
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// How many may run at once.
    pub(crate) fn permit_count(&self) -> usize {
        self.permit_count
    }

    fn join_queue(&self, permits: &Permits) -> Result<Waiting<'_>, Status> {
        self.check_open()?;
        let waiting = Waiting(&self.queued);
        if self.queued.fetch_add(1, Ordering::Relaxed) < self.queued_max {
            return Ok(waiting);
        }
        Err(Status::resource_exhausted(format!(
            "{} queries {} and {} wait, which is all that may (--max-queries, --max-queued); try again later",
            self.permit_count, permits.doing, self.queued_max
        )))
    }
}

/// A place in the queue; counted until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn shutting_down() -> Status {
    Status::unavailable("the server is shutting down; connect again when it is back")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn admission(max_queries: usize, max_queued: usize, queue_timeout: Duration) -> Admission {
        Admission::new(&Limits { max_queries, max_queued, queue_timeout, ..Limits::default() })
    }

    #[tokio::test]
    async fn a_query_that_waits_too_long_is_told_which_knob_to_turn() {
        let admission = admission(1, 10, Duration::from_millis(10));
        let _running = admission.enter_running().await.unwrap();
        let status = admission.enter_running().await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("--max-queries"), "{}", status.message());
        assert_eq!(admission.queued(), 0);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let admission = admission(1, 0, Duration::from_secs(60));
        let _running = admission.enter_running().await.unwrap();
        let status = admission.enter_running().await.unwrap_err();
        assert!(status.message().contains("--max-queued"), "{}", status.message());
        assert_eq!(admission.queued(), 0);
    }

    #[tokio::test]
    async fn planning_waits_for_planning_and_not_for_what_runs() {
        let admission = admission(1, 10, Duration::from_millis(10));
        let _running = admission.enter_running().await.unwrap();
        let planning = admission.enter_planning().await.unwrap();
        let status = admission.enter_planning().await.unwrap_err();
        assert!(status.message().starts_with("1 queries are planned at once"), "{}", status.message());
        drop(planning);
        assert!(admission.enter_planning().await.is_ok());
    }

    #[tokio::test]
    async fn a_permit_goes_to_who_waits() {
        let admission = Arc::new(admission(1, 10, Duration::from_secs(60)));
        let running = admission.enter_running().await.unwrap();
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.enter_running().await.map(drop) }
        });
        while admission.queued() == 0 {
            tokio::task::yield_now().await;
        }
        drop(running);
        waiting.await.unwrap().unwrap();
        assert_eq!(admission.queued(), 0);
    }

    #[tokio::test]
    async fn closing_refuses_who_waits_and_who_comes() {
        let admission = Arc::new(admission(1, 10, Duration::from_secs(60)));
        let _running = admission.enter_running().await.unwrap();
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.enter_running().await.map(drop) }
        });
        while admission.queued() == 0 {
            tokio::task::yield_now().await;
        }
        admission.close();
        assert_eq!(waiting.await.unwrap().unwrap_err().code(), Code::Unavailable);
        assert_eq!(admission.enter_running().await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(admission.enter_planning().await.unwrap_err().code(), Code::Unavailable);
    }
}
