//! One result on its way to one client.
//!
//! ```text
//!   service ── begin ── wait for a permit ──┐
//!                                         ▼ query runtime
//!                    producer: plan ─▶ rows ─▶ messages ═▶ channel of 2 ═▶ Rows, which the connection polls
//!                       ▲ select: cancelled                 │ full: the producer waits, operators wait for it
//!                       └────────── aborted ◀── dropped ────┘ nobody reads for --idle-seconds: cancelled
//! ```
//!
//! Permit and memory are free before the client hears of an end, and the query has its line in the log. Only a
//! cancellation does not wait for an operator that is deep in its work: it is told at once, and the operator by a flag.
//! An end that is not announced (the producer vanished) is an error, never a short result.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use pelton_engine::{Query, QueryMemory, from_datafusion};
use pelton_error::ErrorKind;
use tokio::sync::mpsc;
use tonic::{Code, Status};

use crate::handles::Handle;
use crate::metrics::Metrics;
use crate::running::{CancelledBy, Ongoing};
use crate::shared::{AbortOnDrop, Planned, Shared, panicked};
use crate::{status, wire};

/// Messages that may wait for the connection; each is of some 2 MiB at most, unless one row is larger.
const MESSAGES_WAITING: usize = 2;
/// How long a client that does not read has to take the message that says so.
const LAST_WORD: Duration = Duration::from_secs(2);

enum Sent {
    Data(FlightData),
    End(Result<(), Status>),
}

/// Messages of a result, as the connection polls them. Dropping it ends the query.
pub(crate) struct Rows {
    messages: mpsc::Receiver<Sent>,
    ongoing: Arc<Ongoing>,
    cancelled: BoxFuture<'static, CancelledBy>,
    is_ended: bool,
    _producer: AbortOnDrop<()>,
}

impl Stream for Rows {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(message) = self.messages.poll_recv(context) else {
            let by = ready!(self.cancelled.poll_unpin(context));
            self.is_ended = true;
            return Poll::Ready(Some(Err(by.status())));
        };
        self.is_ended = !matches!(message, Some(Sent::Data(_)));
        Poll::Ready(match message {
            Some(Sent::Data(data)) => Some(Ok(data)),
            Some(Sent::End(Ok(()))) => None,
            Some(Sent::End(Err(status))) => Some(Err(status)),
            None => {
                let by = (&mut self.cancelled).now_or_never().unwrap_or(CancelledBy::Shutdown);
                Some(Err(by.status()))
            }
        })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if !self.is_ended {
            self.ongoing.cancel(CancelledBy::Disconnect);
        }
    }
}

/// Runs what `planned` says once: waits for a permit, then begins to send rows.
pub(crate) async fn fetch(
    shared: &Arc<Shared>,
    ticket: Handle,
    planned: Arc<Planned>,
    peer: Option<SocketAddr>,
) -> Result<Rows, Status> {
    shared.metrics.began.add(planned.kind);
    let mut run = Run::begin(shared, ticket, &planned, peer);
    let entered = tokio::select! {
        by = run.ongoing.cancelled() => Err(run.cancelled(by)),
        entered = shared.admission.enter_running() => entered,
    };
    let permit = match entered {
        Ok(permit) => permit,
        Err(status) => return Err(run.failed(status)),
    };
    let _ = run.ongoing.waited.set(run.ongoing.began.elapsed());
    let (sender, messages) = mpsc::channel(MESSAGES_WAITING);
    let ongoing = Arc::clone(&run.ongoing);
    let waiting = Arc::clone(&ongoing);
    let cancelled = async move { waiting.cancelled().await }.boxed();
    let producer = shared.spawn(async move {
        let result = run.run_out(&sender).await;
        drop(run);
        drop(permit);
        // A client that is not there any more needs no answer.
        let _ = tokio::time::timeout(LAST_WORD, sender.send(Sent::End(result))).await;
    });
    Ok(Rows { messages, ongoing, cancelled, is_ended: false, _producer: producer })
}

/// A query that waits or runs; its end is counted and logged when this is dropped, however that comes about.
struct Run {
    shared: Arc<Shared>,
    planned: Arc<Planned>,
    ongoing: Arc<Ongoing>,
    outcome: Outcome,
}

enum Outcome {
    Completed,
    Failed(Status),
    Cancelled(CancelledBy),
}

impl Run {
    fn begin(shared: &Arc<Shared>, ticket: Handle, planned: &Arc<Planned>, peer: Option<SocketAddr>) -> Self {
        let ongoing = shared.running.begin(ticket, peer);
        // Until something else is known: whoever drops this without a word is the connection.
        let outcome = Outcome::Cancelled(CancelledBy::Disconnect);
        Self { shared: Arc::clone(shared), planned: Arc::clone(planned), ongoing, outcome }
    }

    fn cancelled(&mut self, by: CancelledBy) -> Status {
        self.ongoing.cancel(by);
        self.outcome = Outcome::Cancelled(by);
        by.status()
    }

    /// Keeps `status` as the outcome, unless it says that the query was cancelled.
    fn failed(&mut self, status: Status) -> Status {
        if status.code() != Code::Cancelled {
            self.outcome = Outcome::Failed(status.clone());
        }
        status
    }

    /// All messages to `sender`, until the last row, an error or a cancellation.
    async fn run_out(&mut self, sender: &mpsc::Sender<Sent>) -> Result<(), Status> {
        let ongoing = Arc::clone(&self.ongoing);
        let sending = send_rows(&self.shared, &self.planned, &ongoing, sender);
        let ended = tokio::select! {
            by = ongoing.cancelled() => Err(Stopped::Cancelled(by)),
            ended = AssertUnwindSafe(sending).catch_unwind() => {
                ended.unwrap_or_else(|_| Err(Stopped::Failed(panicked())))
            }
        };
        match ended {
            Ok(()) => {
                self.outcome = Outcome::Completed;
                Ok(())
            }
            Err(Stopped::Cancelled(by)) => Err(self.cancelled(by)),
            Err(Stopped::Failed(status)) => Err(self.failed(status)),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let (Outcome::Cancelled(by), Some(told)) = (&mut self.outcome, self.ongoing.is_cancelled()) {
            *by = told; // the connection went because it had been told, or at the same moment
        }
        self.shared.running.end(self.ongoing.id);
        let metrics = &self.shared.metrics;
        metrics.seconds.observe(self.ongoing.began.elapsed());
        match &self.outcome {
            Outcome::Completed => drop(metrics.completed.fetch_add(1, Ordering::Relaxed)),
            Outcome::Failed(status) => metrics.failed.add(code_name(status.code())),
            Outcome::Cancelled(by) => metrics.cancelled.add(by.name()),
        }
        log_end(&self.shared, &self.ongoing, &self.outcome, &self.planned.sql);
    }
}

enum Stopped {
    Failed(Status),
    Cancelled(CancelledBy),
}

impl From<Status> for Stopped {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

async fn send_rows(
    shared: &Arc<Shared>,
    planned: &Planned,
    ongoing: &Arc<Ongoing>,
    sender: &mpsc::Sender<Sent>,
) -> Result<(), Stopped> {
    let query = Counted { query: plan_of(shared, planned).await?, metrics: &shared.metrics };
    let limit = shared.limits.query_bytes();
    let memory = ongoing.memory.get_or_init(|| QueryMemory::new(limit));
    let rows =
        query.query.stream_within(memory, &ongoing.flag).await.map_err(|error| of_query(&error, limit))?;
    let (schema, counters) = (Arc::clone(&planned.schema), (Arc::clone(shared), Arc::clone(ongoing)));
    let batches = rows.map(move |batch| {
        let batch = batch.map_err(|error| of_query(&from_datafusion(error), limit))?;
        let sent = wire::batch(&batch, &schema)?;
        counters.1.rows.fetch_add(sent.num_rows() as u64, Ordering::Relaxed);
        counters.0.metrics.rows.fetch_add(sent.num_rows() as u64, Ordering::Relaxed);
        Ok::<_, FlightError>(sent)
    });
    let encoder = FlightDataEncoderBuilder::new().with_schema(Arc::clone(&planned.schema));
    let mut messages = encoder.build(batches);
    while let Some(message) = messages.next().await {
        let message = Sent::Data(message.map_err(Status::from)?);
        match tokio::time::timeout(shared.limits.idle_timeout, sender.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_closed)) => return Err(Stopped::Cancelled(CancelledBy::Disconnect)),
            Err(_elapsed) => return Err(Stopped::Cancelled(CancelledBy::Silence)),
        }
    }
    Ok(())
}

/// The plan that the ticket was made with; a new one for every fetch after the first, made with the permit to run.
async fn plan_of(shared: &Shared, planned: &Planned) -> Result<Query, Status> {
    let first = planned.first.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(query) = first {
        return Ok(query);
    }
    let query = shared.session.query_prepared(&planned.prepared, planned.values.as_ref()).await;
    let query = query.map_err(|error| status::of(&error))?;
    if wire::schema(&query.schema()) == planned.schema {
        return Ok(query);
    }
    Err(Status::failed_precondition(
        "the result's columns have changed since its ticket was made; run the query again",
    ))
}

/// The status of an error while rows are made; where memory was short, with the knob that a server has for it.
fn of_query(error: &pelton_error::Error, limit_bytes: Option<u64>) -> Status {
    let status = status::of(error);
    match (error.kind(), limit_bytes) {
        (ErrorKind::OutOfMemory { .. }, Some(limit)) => Status::resource_exhausted(format!(
            "{}; a query of this server may hold {} (--query-memory-limit)",
            status.message(),
            pelton_engine::bytes_text(limit)
        )),
        _ => status,
    }
}

/// A query whose reading is counted, however far it came.
struct Counted<'a> {
    query: Query,
    metrics: &'a Metrics,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        for report in self.query.scan_reports().unwrap_or_default() {
            self.metrics.bytes_read.fetch_add(report.bytes_read, Ordering::Relaxed);
            self.metrics.bytes_skipped.fetch_add(report.bytes_skipped(), Ordering::Relaxed);
        }
    }
}

/// `RESOURCE_EXHAUSTED` as metrics name it: `resource_exhausted`.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "invalid_argument",
        Code::ResourceExhausted => "resource_exhausted",
        Code::Unimplemented => "unimplemented",
        Code::Unavailable => "unavailable",
        Code::NotFound => "not_found",
        Code::DataLoss => "data_loss",
        Code::Cancelled => "cancelled",
        Code::FailedPrecondition => "failed_precondition",
        _ => "internal",
    }
}

/// One line a query: who, how many rows, how long. Text of queries, and of errors that quote them, where that is asked
/// for.
fn log_end(shared: &Shared, ongoing: &Ongoing, outcome: &Outcome, sql: &str) {
    let rows = ongoing.rows.load(Ordering::Relaxed);
    let end = match outcome {
        Outcome::Completed => format!("{rows} rows"),
        Outcome::Cancelled(by) => format!("cancelled by {} after {rows} rows", by.name()),
        Outcome::Failed(status) => format!("failed: {}", failure(shared, status)),
    };
    let waited = ongoing.waited.get().copied().unwrap_or_else(|| ongoing.began.elapsed());
    let line = format!(
        "query {} from {}: {end} in {:.3} s, {:.3} s of them queued",
        ongoing.id,
        name_of(ongoing.peer),
        ongoing.began.elapsed().as_secs_f64(),
        waited.as_secs_f64(),
    );
    log(shared, &line, sql);
}

/// The line of a query that was still at work when the process ended. Its text stays with its task.
pub(crate) fn log_cut_off(ongoing: &Ongoing) {
    let (rows, peer) = (ongoing.rows.load(Ordering::Relaxed), name_of(ongoing.peer));
    let seconds = ongoing.began.elapsed().as_secs_f64();
    eprintln!(
        "query {} from {peer}: cancelled by shutdown after {rows} rows in {seconds:.3} s; its operators had not noticed yet",
        ongoing.id
    );
}

/// The line of a query that had no rows to fetch: it could not be planned.
pub(crate) fn log_refused(shared: &Shared, status: &Status, sql: &str, peer: Option<SocketAddr>) {
    let (id, peer) = (shared.running.next_id(), name_of(peer));
    log(shared, &format!("query {id} from {peer}: refused: {}", failure(shared, status)), sql);
}

fn log(shared: &Shared, line: &str, sql: &str) {
    if shared.log_queries {
        eprintln!("{line}: {}", sql.split_whitespace().collect::<Vec<_>>().join(" "));
    } else {
        eprintln!("{line}");
    }
}

fn failure(shared: &Shared, status: &Status) -> String {
    let code = code_name(status.code());
    if shared.log_queries { format!("{code}: {}", status.message()) } else { code.to_owned() }
}

fn name_of(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "an unknown address".to_owned(), |peer| peer.to_string())
}
