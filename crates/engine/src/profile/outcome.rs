//! Runs a query under a trace, and keeps what became of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use datafusion::error::Result as DataFusionResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use pelton_trace::Trace;

use super::QueryState;

/// The trace of one query, and how it ended.
#[derive(Debug)]
pub(crate) struct Recorder {
    trace: Arc<Trace>,
    /// When the trace began, by the wall clock: what DataFusion's timestamps are compared with.
    pub(crate) started_at: SystemTime,
    state: Mutex<Outcome>,
}

/// What became of a query.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) state: QueryState,
    pub(crate) rows: u64,
    /// From the start of the trace.
    pub(crate) began: Duration,
    pub(crate) ended: Option<Duration>,
}

impl Recorder {
    /// Begins now.
    pub(crate) fn start() -> Arc<Self> {
        let outcome = Outcome { state: QueryState::Planned, rows: 0, began: Duration::ZERO, ended: None };
        Arc::new(Self { started_at: SystemTime::now(), trace: Trace::start(), state: Mutex::new(outcome) })
    }

    /// The trace.
    pub(crate) fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// What became of the query so far.
    pub(crate) fn outcome(&self) -> Outcome {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The query runs from now on.
    pub(crate) fn begin(&self) {
        self.trace.look_at_process();
        let began = self.trace.now();
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) =
            Outcome { state: QueryState::Stopped, rows: 0, began, ended: None };
    }

    /// The query gave `rows` rows and is over.
    pub(crate) fn end(&self, state: QueryState, rows: u64) {
        let ended = self.trace.now();
        let mut outcome = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.state = state;
        outcome.rows = rows;
        outcome.ended = Some(ended);
    }

    /// `rows`, watched until their end.
    pub(crate) fn watch(self: &Arc<Self>, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let watched = Watched { recorder: Arc::clone(self), rows: 0, is_over: false };
        let stream = futures::stream::unfold((rows, watched), |(mut rows, mut watched)| async move {
            let next = rows.next().await;
            watched.see(next.as_ref());
            next.map(|batch| (batch, (rows, watched)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream))
    }
}

/// The rows on their way out; dropped early, the query was stopped.
struct Watched {
    recorder: Arc<Recorder>,
    rows: u64,
    is_over: bool,
}

impl Watched {
    fn see(&mut self, next: Option<&DataFusionResult<datafusion::arrow::array::RecordBatch>>) {
        let state = match next {
            Some(Ok(batch)) => {
                self.rows += batch.num_rows() as u64;
                return;
            }
            Some(Err(error)) => QueryState::Failed(error.to_string()),
            None => QueryState::Finished,
        };
        if !std::mem::replace(&mut self.is_over, true) {
            self.recorder.end(state, self.rows);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_over {
            self.recorder.end(QueryState::Stopped, self.rows);
        }
    }
}
