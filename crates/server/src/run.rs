//! One result on its way to one client.
//!
//! ```text
//!   service ── begin ── wait for a permit ──┐
//!                                         ▼ query runtime
//!                    producer: rows ─▶ messages ═▶ delivery, of some MiB ═▶ Rows, which the connection polls
//!                       ▲ select: cancelled          │ full: the producer waits, operators wait for it; after a moment
//!                       │                            │ without its permit
//!                       └────── aborted ◀── dropped ─┘ nobody reads for --idle-seconds: cancelled
//! ```
//!
//! A client that reads slowly keeps nobody else waiting. What fits into the delivery needs no permit any more; what does
//! not fit gives its permit back while it waits, if its operators hold next to no memory (`aside.rs`).
//!
//! Permit and memory are free before the client hears of an end, and the query has its line in the log. Only a
//! cancellation does not wait for an operator that is deep in its work: it is told at once, and the operator by a flag.
//! An end that is not announced (the producer vanished) is an error, never a short result.

use std::io::Write;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use pelton_engine::{Query, QueryMemory, counted, from_datafusion};
use pelton_error::ErrorKind;
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Code, Status};

use crate::aside::{self, Place};
use crate::delivery::{self, Sender};
use crate::handles::Handle;
use crate::metrics::Metrics;
use crate::running::{CancelledBy, Ongoing};
use crate::shared::{AbortOnDrop, Planned, Shared, panicked};
use crate::{statements, status, wire};

/// Bytes of messages that may wait for the connection; one message is of some 2 MiB at most, unless one row is larger.
const DELIVERY_BYTES: usize = 8 << 20;
/// A rest that is as small as this is left to the connection: it needs no place to wait in.
const SMALL_BYTES: usize = 64 << 10;

/// Messages of a result, as the connection polls them. Dropping it ends the query.
pub(crate) struct Rows {
    messages: delivery::Receiver,
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
        let Poll::Ready(message) = self.messages.poll_next(context) else {
            let by = ready!(self.cancelled.poll_unpin(context));
            self.is_ended = true;
            return Poll::Ready(Some(Err(by.status())));
        };
        self.is_ended = !matches!(message, Ok(Some(_)));
        Poll::Ready(message.transpose())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if !self.is_ended {
            self.ongoing.cancel(CancelledBy::Disconnect);
        }
    }
}

/// Runs what `planned` says: waits for a permit, then begins to send rows. Its ticket, where it has one, is used up once
/// it has the permit; a query that was refused one can be fetched again.
pub(crate) async fn fetch(
    shared: &Arc<Shared>,
    ticket: Option<Handle>,
    planned: Arc<Planned>,
    peer: Option<SocketAddr>,
) -> Result<Rows, Status> {
    shared.metrics.began.add(planned.kind);
    let mut run = Run::begin(shared, ticket.unwrap_or_default(), &planned, peer);
    let entered = tokio::select! {
        by = run.ongoing.cancelled() => Err(run.cancelled(by)),
        entered = enter(shared, ticket, &planned) => entered.map_err(|status| match run.ongoing.is_cancelled() {
            Some(by) => run.cancelled(by), // whoever cancels it takes its ticket, too
            None => run.failed(status),
        }),
    };
    let (permit, query) = entered?;
    let _ = run.ongoing.waited.set(run.ongoing.began.elapsed());
    let place = Place::running(permit, Arc::clone(&run.ongoing));
    let (sender, messages) = delivery::channel(DELIVERY_BYTES);
    let ongoing = Arc::clone(&run.ongoing);
    let waiting = Arc::clone(&ongoing);
    let cancelled = async move { waiting.cancelled().await }.boxed();
    let producer = shared.spawn(async move {
        let result = run.run_out(query, place, &sender).await;
        drop(run);
        sender.finish(result);
    });
    Ok(Rows { messages, ongoing, cancelled, is_ended: false, _producer: producer })
}

/// A permit to run, and the plan that the ticket was made with or, where that was too large to keep, a new one.
async fn enter(
    shared: &Arc<Shared>,
    ticket: Option<Handle>,
    planned: &Arc<Planned>,
) -> Result<(OwnedSemaphorePermit, Query), Status> {
    let taken = || planned.query.lock().unwrap_or_else(PoisonError::into_inner).take();
    let replanned =
        if planned.is_replanned { Some(statements::plan_again(shared, planned).await?) } else { None };
    let permit = shared.admission.enter_running().await?;
    if ticket.is_some_and(|ticket| !shared.tickets.remove(&ticket)) {
        return Err(shared.tickets.gone()); // somebody else has fetched it meanwhile
    }
    let query = replanned.or_else(taken).ok_or_else(|| shared.tickets.gone())?;
    Ok((permit, query))
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

    /// Keeps `status` as the outcome, unless it says that the query was cancelled: then what is known of that counts, which
    /// the rows may have noticed first.
    fn failed(&mut self, status: Status) -> Status {
        match (status.code(), self.ongoing.is_cancelled()) {
            (Code::Cancelled, Some(by)) => self.cancelled(by),
            (Code::Cancelled, None) => status,
            _ => {
                self.outcome = Outcome::Failed(status.clone());
                status
            }
        }
    }

    /// All messages to `sender`, until the client has the last row, an error or a cancellation.
    async fn run_out(&mut self, query: Query, place: Place, sender: &Sender) -> Result<(), Status> {
        let ongoing = Arc::clone(&self.ongoing);
        let sending = send_rows(&self.shared, &self.planned, query, &ongoing, place, sender);
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

pub(crate) enum Stopped {
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
    query: Query,
    ongoing: &Arc<Ongoing>,
    mut place: Place,
    sender: &Sender,
) -> Result<(), Stopped> {
    let making = make_rows(shared, planned, query, ongoing, &mut place, sender);
    match shared.limits.query_timeout {
        Some(limit) => {
            let made = tokio::time::timeout(limit, making).await;
            made.unwrap_or(Err(Stopped::Cancelled(CancelledBy::Timeout)))?;
        }
        None => making.await?,
    }
    // What is left waits for the client without a query, and so without memory.
    let mut taken = sender.taken_count();
    if sender.waiting_bytes() > SMALL_BYTES {
        place.step_aside(shared);
    }
    while sender.waiting_bytes() > SMALL_BYTES {
        taken = aside::wait(shared, ongoing, &mut place, sender, taken).await?;
    }
    Ok(())
}

/// Makes all rows and puts them into the delivery.
async fn make_rows(
    shared: &Arc<Shared>,
    planned: &Planned,
    query: Query,
    ongoing: &Arc<Ongoing>,
    place: &mut Place,
    sender: &Sender,
) -> Result<(), Stopped> {
    let query = Counted { query, metrics: &shared.metrics };
    let limit = shared.limits.query_bytes();
    let memory = ongoing.memory.get_or_init(|| QueryMemory::new(limit));
    let rows = query.query.stream_within(memory, &ongoing.flag).await;
    let rows = rows.map_err(|error| of_query(error, shared, &planned.sql))?;
    let (schema, sql) = (Arc::clone(&planned.schema), Arc::clone(&planned.sql));
    let (counting, counted) = (Arc::clone(shared), Arc::clone(ongoing));
    let batches = rows.map(move |batch| {
        let batch = batch.map_err(|error| of_query(from_datafusion(error), &counting, &sql))?;
        let sent = wire::batch(&batch, &schema)?;
        counted.rows.fetch_add(sent.num_rows() as u64, Ordering::Relaxed);
        counting.metrics.rows.fetch_add(sent.num_rows() as u64, Ordering::Relaxed);
        Ok::<_, FlightError>(sent)
    });
    let encoder = FlightDataEncoderBuilder::new().with_schema(Arc::clone(&planned.schema));
    let mut messages = encoder.build(batches);
    while let Some(message) = messages.next().await {
        let mut message = Some(message.map_err(Status::from)?);
        let mut taken = sender.taken_count();
        loop {
            sender.put(&mut message);
            if message.is_none() {
                break;
            }
            taken = aside::wait(shared, ongoing, place, sender, taken).await?;
        }
        place.run_again(shared).await;
    }
    Ok(())
}

/// The status of an error while rows are made; where memory was short, with the knob that a server has for it.
fn of_query(error: pelton_error::Error, shared: &Shared, sql: &str) -> Status {
    let is_short_of_memory = matches!(error.kind(), ErrorKind::OutOfMemory { .. });
    let status = status::of_statement(error, sql, &shared.session);
    match (is_short_of_memory, shared.limits.query_bytes()) {
        (true, Some(limit)) => Status::resource_exhausted(format!(
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
        Code::DeadlineExceeded => "deadline_exceeded",
        _ => "internal",
    }
}

/// One line a query: who, how many rows, how long. Text of queries, and of errors that quote them, where that is asked
/// for.
fn log_end(shared: &Shared, ongoing: &Ongoing, outcome: &Outcome, sql: &str) {
    let rows = ongoing.rows.load(Ordering::Relaxed);
    let end = match outcome {
        Outcome::Completed => counted(rows, "row"),
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
    write_log(&format!(
        "query {} from {peer}: cancelled by shutdown after {rows} rows in {seconds:.3} s; its operators had not noticed yet",
        ongoing.id
    ));
}

/// The line of a query that had no rows to fetch: it could not be planned.
pub(crate) fn log_refused(shared: &Shared, status: &Status, sql: &str, peer: Option<SocketAddr>) {
    let (id, peer) = (shared.running.next_id(), name_of(peer));
    log(shared, &format!("query {id} from {peer}: refused: {}", failure(shared, status)), sql);
}

fn log(shared: &Shared, line: &str, sql: &str) {
    if shared.log_queries {
        write_log(&format!("{line}: {}", sql.split_whitespace().collect::<Vec<_>>().join(" ")));
    } else {
        write_log(line);
    }
}

/// A log that is full or closed is no reason to serve nobody.
pub(crate) fn write_log(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn failure(shared: &Shared, status: &Status) -> String {
    let code = code_name(status.code());
    let message = status.message().lines().next().unwrap_or_default(); // those that follow show the statement
    if shared.log_queries { format!("{code}: {message}") } else { code.to_owned() }
}

/// Where a client is, for the log.
pub(crate) fn name_of(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "an unknown address".to_owned(), |peer| peer.to_string())
}
