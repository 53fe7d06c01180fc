//! Admission: a query is planned, and then runs, when it has a permit for it. First come, first served; who waits too
//! long is told what to change.
//!
//! ```text
//!   GetFlightInfo, CreatePreparedStatement ─▶ (queue) ─▶ permit to plan ─▶ ticket, statement
//!   DoGet ─────────────────────────────────▶ (queue) ─▶ permit to run ──▶ rows
//!                                                          ▲  │ the client does not read
//!                                             (no queue) ──┘  ▼
//!                                                        set aside: a place, no permit
//! ```
//!
//! A permit to run stands for one query's memory. All queries together stay within the memory limit because there are no
//! more permits than shares of it, and no query can take from another's share: so none fails, or waits, for the sake of
//! another that runs. A result that waits for its client gives its permit back where its operators hold next to nothing,
//! and waits in one of a number of places; it gets a permit again before it goes on.
//!
//! There are as many permits to plan, and they are others: a client may plan its next query while it reads the rows of
//! one. Nobody waits for a permit who holds one, so nobody waits for himself. Large statements, which take long to plan,
//! have permits of their own, fewer: they wait for each other, and others do not wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Status;

use crate::options::Limits;

/// Results that may wait for slow clients without a permit, for each permit there is.
const ASIDE_PER_PERMIT: usize = 8;
/// One large statement is planned at once for this many permits.
const PERMITS_PER_LARGE: usize = 4;

/// The permits, and who waits for them.
pub(crate) struct Admission {
    planning: Permits,
    planning_large: Permits,
    running: Permits,
    aside: Arc<Semaphore>,
    permit_count: usize,
    queued: AtomicUsize,
    queued_max: usize,
    timeout: Duration,
    is_closed: watch::Sender<bool>,
}

/// What is to be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Some milliseconds.
    Usual,
    /// Seconds, perhaps.
    Large,
}

/// Permits of one kind.
struct Permits {
    semaphore: Arc<Semaphore>,
    count: usize,
    /// What those do who have one, for messages.
    doing: &'static str,
    /// Who waits for one.
    waiting: AtomicUsize,
}

impl Permits {
    fn new(count: usize, doing: &'static str) -> Self {
        Self { semaphore: Arc::new(Semaphore::new(count)), count, doing, waiting: AtomicUsize::new(0) }
    }

    async fn acquire(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.semaphore).acquire_owned().await;
        permit.expect("semaphores of permits are never closed")
    }

    fn taken(&self) -> usize {
        self.count.saturating_sub(self.semaphore.available_permits())
    }
}

impl Admission {
    /// As `limits` say.
    pub(crate) fn new(limits: &Limits) -> Self {
        let permit_count = limits.queries_at_once().min(Semaphore::MAX_PERMITS / ASIDE_PER_PERMIT);
        let large_count = (permit_count / PERMITS_PER_LARGE).max(1);
        Self {
            planning: Permits::new(permit_count, "are planned"),
            planning_large: Permits::new(large_count, "with large plans are planned"),
            running: Permits::new(permit_count, "run"),
            aside: Arc::new(Semaphore::new(permit_count * ASIDE_PER_PERMIT)),
            permit_count,
            queued: AtomicUsize::new(0),
            queued_max: limits.max_queued,
            timeout: limits.queue_timeout,
            is_closed: watch::Sender::new(false),
        }
    }

    /// Waits for a permit to plan; dropping it gives it back. Dropping the future leaves the queue.
    pub(crate) async fn enter_planning(&self, size: Size) -> Result<OwnedSemaphorePermit, Status> {
        match size {
            Size::Usual => self.enter(&self.planning).await,
            Size::Large => self.enter(&self.planning_large).await,
        }
    }

    /// Waits for a permit to run, likewise.
    pub(crate) async fn enter_running(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.enter(&self.running).await
    }

    async fn enter(&self, permits: &Permits) -> Result<OwnedSemaphorePermit, Status> {
        self.check_open()?;
        if let Ok(permit) = Arc::clone(&permits.semaphore).try_acquire_owned() {
            return Ok(permit);
        }
        let _place = self.join_queue(permits)?;
        let _waiting = Counted::one_more(&permits.waiting);
        let permit = tokio::time::timeout(self.timeout, permits.acquire());
        let permit = tokio::select! {
            () = self.closed() => return Err(shutting_down()),
            permit = permit => permit,
        };
        match permit {
            Ok(permit) => Ok(permit),
            Err(_elapsed) => Err(Status::resource_exhausted(format!(
                "{} queries {} at once (--max-queries, --memory-limit), and for {} s (--queue-seconds) none of them \
                 ended; try again later",
                permits.count,
                permits.doing,
                self.timeout.as_secs()
            ))),
        }
    }

    /// A place for a result that gives its permit back while its client does not read; `None` where all are taken.
    pub(crate) fn set_aside(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.aside).try_acquire_owned().ok()
    }

    /// A permit for a result that goes on, after those who asked before, however long that takes; also while the server
    /// shuts down.
    pub(crate) async fn enter_again(&self) -> OwnedSemaphorePermit {
        let _waiting = Counted::one_more(&self.running.waiting);
        self.running.acquire().await
    }

    /// True where somebody waits for a permit to run.
    pub(crate) fn is_awaited(&self) -> bool {
        self.running.waiting.load(Ordering::Relaxed) > 0
    }

    /// Refuses everybody who waits and everybody who comes from now on.
    pub(crate) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// # Errors
    ///
    /// `UNAVAILABLE` once the server shuts down.
    pub(crate) fn check_open(&self) -> Result<(), Status> {
        if *self.is_closed.borrow() { Err(shutting_down()) } else { Ok(()) }
    }

    /// Ends once the server shuts down.
    async fn closed(&self) {
        // The sender lives as long as this does, so that waiting can only succeed.
        let _ = self.is_closed.subscribe().wait_for(|is_closed| *is_closed).await;
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// How many are planned now.
    pub(crate) fn planning(&self) -> usize {
        self.planning.taken() + self.planning_large.taken()
    }

    /// How many may run at once.
    pub(crate) fn permit_count(&self) -> usize {
        self.permit_count
    }

    fn join_queue(&self, permits: &Permits) -> Result<Counted<'_>, Status> {
        let place = Counted::one_more(&self.queued);
        if place.others < self.queued_max {
            return Ok(place);
        }
        Err(Status::resource_exhausted(format!(
            "{} queries {} and {} wait, which is all that may (--max-queries, --max-queued); try again later",
            permits.count, permits.doing, self.queued_max
        )))
    }
}

/// One more of something, until it is dropped.
struct Counted<'a> {
    count: &'a AtomicUsize,
    /// How many there were before.
    others: usize,
}

impl<'a> Counted<'a> {
    fn one_more(count: &'a AtomicUsize) -> Self {
        Self { count, others: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
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
        let planning = admission.enter_planning(Size::Usual).await.unwrap();
        let status = admission.enter_planning(Size::Usual).await.unwrap_err();
        assert!(status.message().starts_with("1 queries are planned at once"), "{}", status.message());
        drop(planning);
        let _large = admission.enter_planning(Size::Large).await.unwrap();
        assert!(admission.enter_planning(Size::Large).await.unwrap_err().message().contains("large"));
        assert!(admission.enter_planning(Size::Usual).await.is_ok(), "it waits for no large one");
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
        assert_eq!(admission.enter_planning(Size::Usual).await.unwrap_err().code(), Code::Unavailable);
    }

    #[tokio::test]
    async fn who_was_set_aside_waits_in_line_and_not_in_the_queue() {
        let admission = Arc::new(admission(1, 0, Duration::from_millis(1)));
        let running = admission.enter_running().await.unwrap();
        let places: Vec<_> = std::iter::from_fn(|| admission.set_aside()).collect();
        assert_eq!(places.len(), ASIDE_PER_PERMIT);
        assert!(!admission.is_awaited());
        let again = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { drop(admission.enter_again().await) }
        });
        while !admission.is_awaited() {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // longer than anybody may wait in the queue
        assert_eq!(admission.queued(), 0);
        drop(running);
        again.await.unwrap();
        assert!(!admission.is_awaited());
    }
}
