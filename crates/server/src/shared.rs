//! What all connections of a server share.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use pelton_engine::{PeltonSession, Prepared, Query};
use tokio::runtime::Handle as RuntimeHandle;
use tonic::Status;

use crate::admission::Admission;
use crate::handles::Handles;
use crate::metrics::{Gauges, Metrics};
use crate::options::{Limits, ServerOptions};
use crate::parameters::Bound;
use crate::running::Running;

/// Results that may wait for their clients at once; a guess, for plans of some hundred KiB.
const TICKETS_MAX: usize = 2048;
/// How long they wait.
const TICKET_LIFETIME: Duration = Duration::from_secs(300);
/// Prepared statements that may be kept at once.
const PREPARED_MAX: usize = 8192;
/// How long one is kept after its last use.
const PREPARED_LIFETIME: Duration = Duration::from_secs(3600);

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
    /// The plan that told them, for the first fetch; a plan runs once.
    pub(crate) first: std::sync::Mutex<Option<Query>>,
    /// How it was asked for: `statement` or `prepared`.
    pub(crate) kind: &'static str,
}

impl Shared {
    pub(crate) fn new(session: PeltonSession, options: &ServerOptions, queries: RuntimeHandle) -> Self {
        let ask = "run the query again";
        let prepare = "prepare the statement again";
        Self {
            session,
            limits: options.limits.clone(),
            log_queries: options.log_queries,
            bearer: options.token.as_ref().and_then(crate::auth::Token::bearer),
            tickets: Handles::new("ticket", ask, TICKETS_MAX, TICKET_LIFETIME),
            prepared: Handles::new("prepared statement", prepare, PREPARED_MAX, PREPARED_LIFETIME)
                .renewed_by_use(),
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

    /// Plans where queries run, once there is a permit for it. `work` may not wait for another.
    pub(crate) async fn planning<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        let permit = self.admission.enter_planning().await?;
        self.on_queries(async move {
            let planned = work.await;
            drop(permit);
            planned
        })
        .await
    }

    /// Starts `work` where queries run. It ends at the latest when the handle is dropped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortOnDrop<()> {
        AbortOnDrop(self.queries.spawn(work))
    }

    /// What is true at this moment.
    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            running: self.running.count(),
            queued: self.admission.queued(),
            at_once: self.admission.permit_count(),
            memory_used_bytes: self.running.memory_used_bytes(),
            memory_limit_bytes: self.limits.memory_limit_bytes,
            tickets: self.tickets.count(),
            prepared: self.prepared.count(),
            resident_bytes: resident_bytes(),
        }
    }
}

/// A task that ends when its handle goes.
pub(crate) struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<Result<T, Status>> {
    async fn finished(mut self) -> Result<T, Status> {
        match (&mut self.0).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => Err(panicked()),
            Err(_) => Err(crate::running::CancelledBy::Shutdown.status()),
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

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_more_queries_are_planned_at_once_than_may_run() {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().unwrap());
        options.limits.max_queries = 2;
        let session = PeltonSession::open(None, &SessionOptions::default()).unwrap();
        let shared = Arc::new(Shared::new(session, &options, RuntimeHandle::current()));
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
                shared.planning(work).await
            })
        };
        for planned in (0..8).map(plan).collect::<Vec<_>>() {
            planned.await.unwrap().unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
        assert_eq!(shared.admission.queued(), 0);
    }
}
