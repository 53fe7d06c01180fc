//! What all connections of a server share.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use pelton_engine::{PeltonSession, Prepared, Query, cancellable};
use pelton_error::CancelFlag;
use tokio::runtime::Handle as RuntimeHandle;
use tonic::Status;

use crate::admission::{Admission, Size};
use crate::handles::{Bounds, Handles};
use crate::metrics::{Gauges, Metrics};
use crate::options::{Limits, ServerOptions};
use crate::parameters::Bound;
use crate::running::{CancelledBy, Phase, Running};

/// Results that wait for their clients to fetch them.
const TICKETS: Bounds = Bounds {
    what: "ticket",
    gone: "a ticket is for one fetch within 300 s; run the query again",
    full: "fetch what was asked for, or cancel it (CancelFlightInfo), before asking for more",
    count_max: 2048,
    count_each_max: 512,
    bytes_max: 256 << 20,
    lifetime: Duration::from_secs(300),
    is_renewed_by_use: false,
};
/// Prepared statements. Their time starts anew with each use.
const PREPARED: Bounds = Bounds {
    what: "prepared statement",
    gone: "prepare the statement again",
    full: "close those that are not needed any more (ClosePreparedStatement)",
    count_max: 8192,
    count_each_max: 1024,
    bytes_max: 256 << 20,
    lifetime: Duration::from_secs(3600),
    is_renewed_by_use: true,
};
/// Bytes that a statement takes when it is understood, for each of its text: 100,000 numbers in an IN list of 700 kB took
/// 20 MB. A guess for others.
const BYTES_PER_TEXT_BYTE: u64 = 32;
/// Bytes of a step of a plan that is ready to run, a guess.
const BYTES_PER_STEP: u64 = 4096;
/// Steps of a plan that is kept with its ticket; a larger one is planned again when its rows are fetched.
const STEPS_KEPT_MAX: u64 = 500;
/// Steps of a statement that is planned apart from others: some hundred milliseconds.
const STEPS_USUAL_MAX: u64 = 300;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) session: PeltonSession,
    pub(crate) limits: Limits,
    pub(crate) log_queries: bool,
    pub(crate) bearer: Option<tonic::metadata::MetadataValue<tonic::metadata::Ascii>>,
    pub(crate) tickets: Handles<Planned>,
    pub(crate) prepared: Handles<Statement>,
    pub(crate) admission: Admission,
    pub(crate) running: Running,
    pub(crate) metrics: Metrics,
    /// Where queries are planned and run, apart from connections: a long join must not keep a ping waiting.
    queries: RuntimeHandle,
}

/// A prepared statement and the values bound to it last.
pub(crate) struct Statement {
    pub(crate) prepared: Prepared,
    pub(crate) sql: Arc<str>,
    pub(crate) bound: Bound,
}

/// A result that a client may fetch.
pub(crate) struct Planned {
    pub(crate) prepared: Prepared,
    pub(crate) sql: Arc<str>,
    pub(crate) values: Option<arrow::array::RecordBatch>,
    /// The columns that the client was told of.
    pub(crate) schema: SchemaRef,
    /// The plan that told them, until it is fetched; a plan runs once.
    pub(crate) query: std::sync::Mutex<Option<Query>>,
    /// Whether the plan was too large to keep.
    pub(crate) is_replanned: bool,
    /// How it was asked for: `statement` or `prepared`.
    pub(crate) kind: &'static str,
}

impl Shared {
    pub(crate) fn new(session: PeltonSession, options: &ServerOptions, queries: RuntimeHandle) -> Self {
        Self {
            session,
            limits: options.limits.clone(),
            log_queries: options.log_queries,
            bearer: options.token.as_ref().and_then(crate::auth::Token::bearer),
            tickets: Handles::new(TICKETS),
            prepared: Handles::new(PREPARED),
            admission: Admission::new(&options.limits),
            running: Running::default(),
            metrics: Metrics::default(),
            queries,
        }
    }

    /// Runs `work` where queries run, and waits for it. Dropping the future ends the work.
    pub(crate) async fn on_queries<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let task = AbortOnDrop(self.queries.spawn(work));
        task.finished().await
    }

    /// Plans in a thread of its own, once there is a permit for it. `work` may not wait for another. It is cancelled when
    /// the future is dropped, which it is when the client goes away, or when its time is over.
    pub(crate) async fn planning<T: Send + 'static>(
        &self,
        size: Size,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let permit = self.admission.enter_planning(size).await?;
        let began = Instant::now();
        let cancel = CancelOnDrop(CancelFlag::new());
        let (flag, queries) = (cancel.0.clone(), self.queries.clone());
        // Planning hardly ever waits, and would keep a thread of the runtime from all other queries.
        let planned = self.queries.spawn_blocking(move || {
            let planned = queries.block_on(cancellable(&flag, work));
            drop(permit);
            planned
        });
        let limit = self.limits.planning_timeout;
        let planned = tokio::time::timeout(limit, planned).await;
        self.metrics.planning_seconds.observe(began.elapsed());
        match planned {
            Ok(Ok(planned)) => planned,
            Ok(Err(error)) if error.is_panic() => Err(panicked()),
            Ok(Err(_)) => Err(CancelledBy::Shutdown.status()),
            Err(_elapsed) => Err(Status::deadline_exceeded(format!(
                "planning the query took longer than {} s (--planning-seconds); join fewer tables in one query, or use \
                 the names of a WITH less often",
                limit.as_secs_f64()
            ))),
        }
    }

    /// Starts `work` where queries run. It ends at the latest when the handle is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortOnDrop<()> {
        AbortOnDrop(self.queries.spawn(work))
    }

    /// What is true at this moment.
    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            running: self.running.count(Phase::Running),
            aside: self.running.count(Phase::Aside),
            planning: self.admission.planning(),
            queued: self.admission.queued(),
            at_once: self.admission.permit_count(),
            memory_used_bytes: self.running.memory_used_bytes(),
            memory_limit_bytes: self.limits.memory_limit_bytes,
            tickets: self.tickets.count(),
            prepared: self.prepared.count(),
            evicted: self.tickets.evicted() + self.prepared.evicted(),
            resident_bytes: resident_bytes(),
        }
    }
}

impl Planned {
    /// Whether a plan of this many steps is kept until it is fetched.
    pub(crate) fn is_kept(step_count: u64) -> bool {
        step_count <= STEPS_KEPT_MAX
    }

    /// About how much this takes.
    pub(crate) fn bytes(&self) -> u64 {
        let steps = if self.is_replanned { 0 } else { self.prepared.step_count() };
        let values = self.values.as_ref().map_or(0, arrow::array::RecordBatch::get_array_memory_size);
        bytes_of_text(&self.sql) + (steps + 1) * BYTES_PER_STEP + values as u64
    }
}

impl Statement {
    /// About how much this takes.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of_text(&self.sql) + BYTES_PER_STEP
    }
}

/// How long planning a statement of this many steps may take, roughly.
pub(crate) fn size_of(prepared: &Prepared) -> Size {
    if prepared.step_count() > STEPS_USUAL_MAX { Size::Large } else { Size::Usual }
}

fn bytes_of_text(sql: &str) -> u64 {
    sql.len() as u64 * BYTES_PER_TEXT_BYTE
}

/// Cancels planning that nobody waits for any more.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A task that ends when its handle goes.
pub(crate) struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<Result<T, Status>> {
    async fn finished(mut self) -> Result<T, Status> {
        match (&mut self.0).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => Err(panicked()),
            Err(_) => Err(CancelledBy::Shutdown.status()),
        }
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A bug, told to the client; what panicked is on the server's standard error.
pub(crate) fn panicked() -> Status {
    Status::internal(
        "the query met a bug in Pelton; the server's log says where. Other queries are not affected",
    )
}

/// Memory of this process that is in use, as Linux counts it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pelton_engine::SessionOptions;
    use tonic::Code;

    use super::*;

    fn shared(change: impl Fn(&mut Limits)) -> Arc<Shared> {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        change(&mut options.limits);
        let session = PeltonSession::open(None, &SessionOptions::default()).unwrap();
        Arc::new(Shared::new(session, &options, RuntimeHandle::current()))
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_more_queries_are_planned_at_once_than_may_run() {
        let shared = shared(|limits| limits.max_queries = 2);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let plan = |_| {
            let (shared, now, most) = (Arc::clone(&shared), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let work = async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                shared.planning(Size::Usual, work).await
            })
        };
        for planned in (0..8).map(plan).collect::<Vec<_>>() {
            planned.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
        assert_eq!(shared.admission.queued(), 0);
    }

    /// Planning that takes until the end of the test unless it is cancelled, without ever waiting.
    async fn stubborn(shared: Arc<Shared>) -> Result<(), Status> {
        let steps = (1..=13).map(|step| format!("a{step} AS (SELECT x.v FROM a{0} x, a{0} y)", step - 1));
        let steps: Vec<String> = steps.collect();
        let sql = format!("WITH a0 AS (SELECT 1 AS v), {} SELECT count(*) FROM a13", steps.join(", "));
        let work = {
            let shared = Arc::clone(&shared);
            async move { shared.session.query(&sql).await.map(drop).map_err(|error| crate::status::of(&error)) }
        };
        shared.planning(Size::Large, work).await
    }

    async fn wait_for_no_planning(shared: &Shared) {
        let began = Instant::now();
        while shared.admission.planning() > 0 {
            assert!(began.elapsed() < Duration::from_secs(5), "planning goes on for nobody");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn planning_keeps_nobody_waiting_and_ends_with_its_client_and_with_its_time() {
        let shared = shared(|limits| limits.planning_timeout = Duration::from_millis(600));
        let client = tokio::spawn(stubborn(Arc::clone(&shared)));
        while shared.admission.planning() == 0 {
            tokio::task::yield_now().await;
        }
        let other = shared.planning(Size::Usual, async { Ok(7) });
        assert_eq!(tokio::time::timeout(Duration::from_millis(300), other).await.unwrap().unwrap(), 7);
        client.abort();
        wait_for_no_planning(&shared).await;
        let status = stubborn(Arc::clone(&shared)).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert!(status.message().contains("--planning-seconds"), "{}", status.message());
        wait_for_no_planning(&shared).await;
    }
}
