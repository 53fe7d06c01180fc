//! The batches of a running query, one after another, for a reader that may be slow or go away.
//!
//! ```text
//!   query's task ──permit──▶ channel ──▶ next: __next__, or a consumer of the Arrow stream
//!        ▲                                 │
//!        └──────────── permit ◀────────────┘        a few batches in flight; dropping the stream cancels the task
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;
use crossbeam_channel::{Receiver, Sender, unbounded};
use futures::StreamExt;
use pelton_engine::{Query, from_datafusion};
use pelton_error::{Error, Result};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyRecordBatch;
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};
use tokio::sync::Semaphore;

use crate::error::{OrRaise, to_python};
use crate::session::{CancelOnDrop, Shared};
use crate::wait::{self, Display};

/// Batches that wait for a slow reader.
const DEPTH: usize = 4;

/// `None` ends the stream.
type Message = Option<Result<RecordBatch>>;

/// The batches of one run.
pub(crate) struct BatchStream {
    schema: SchemaRef,
    receiver: Receiver<Message>,
    permits: Arc<Semaphore>,
    /// The task and the threads that it runs on; `None` where the rows were there before.
    _running: Option<(CancelOnDrop, Arc<Shared>)>,
    is_over: bool,
}

impl BatchStream {
    /// Starts `query`.
    pub(crate) fn start(shared: &Arc<Shared>, query: Arc<Query>) -> Result<Self> {
        let (sender, receiver) = unbounded();
        let permits = Arc::new(Semaphore::new(DEPTH));
        let schema = query.schema();
        let task = shared.spawn(feed(query, sender, Arc::clone(&permits)))?;
        let running = Some((task, Arc::clone(shared)));
        Ok(Self { schema, receiver, permits, _running: running, is_over: false })
    }

    /// Rows that are there.
    pub(crate) fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let (sender, receiver) = unbounded();
        for message in batches.into_iter().map(|batch| Some(Ok(batch))).chain([None]) {
            sender.send(message).expect("the receiver is in this function");
        }
        Self { schema, receiver, permits: Arc::new(Semaphore::new(0)), _running: None, is_over: false }
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch; `None` after the last.
    ///
    /// # Errors
    ///
    /// The query's, or what a signal handler raised. Nothing comes after either.
    pub(crate) fn next_batch(
        &mut self,
        py: Python<'_>,
        display: &mut Display<'_>,
    ) -> PyResult<Option<RecordBatch>> {
        if self.is_over {
            return Ok(None);
        }
        let message = match self.receiver.try_recv() {
            Ok(message) => Ok(message),
            Err(_) => wait::next(py, &self.receiver, display),
        };
        let batch = message.and_then(|message| self.accept(message).or_raise(py));
        self.is_over |= batch.is_err();
        batch
    }

    fn accept(&mut self, message: Message) -> Result<Option<RecordBatch>> {
        self.permits.add_permits(1);
        self.is_over = !matches!(message, Some(Ok(_)));
        message.transpose()
    }
}

/// Runs `query` and sends its batches, as fast as permits come back.
async fn feed(query: Arc<Query>, sender: Sender<Message>, permits: Arc<Semaphore>) {
    // Where a send fails, the reader is gone, and this task with it.
    match query.stream().await {
        Ok(mut stream) => {
            while let Some(batch) = stream.next().await {
                if let Ok(permit) = permits.acquire().await {
                    permit.forget();
                }
                if sender.send(Some(batch.map_err(from_datafusion))).is_err() {
                    return;
                }
            }
            let _ = sender.send(None);
        }
        Err(error) => drop(sender.send(Some(Err(error)))),
    }
}

/// For consumers of the Arrow stream, which have no exceptions: they show the message of an error in one of their own.
impl Iterator for BatchStream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if let Ok(message) = self.receiver.try_recv() {
            return self.accept(message).map_err(external).transpose();
        }
        let waited = Python::try_attach(|py| {
            self.next_batch(py, &mut Display::none()).map_err(|error| unraised(py, error))
        });
        waited.unwrap_or_else(|| Err(external(Error::cancelled()))).transpose()
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn external(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// An exception for a caller that takes none: its text. A `KeyboardInterrupt` would be lost in it, so it is asked for
/// again, for as soon as Python runs.
fn unraised(py: Python<'_>, error: PyErr) -> ArrowError {
    if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        // Without the module there is no interpreter left to interrupt.
        let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
        return external(Error::cancelled());
    }
    ArrowError::ExternalError(error.value(py).to_string().into())
}

/// `reader` as an Arrow C stream of structs, cast to `requested_schema` if given.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
    requested_schema: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = reader.schema();
    let field =
        Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone());
    let arrays = reader.map(|batch| Ok(Arc::new(StructArray::from(batch?)) as ArrayRef));
    let arrays = Box::new(ArrayIterator::new(arrays, Arc::new(field)));
    Ok(to_stream_pycapsule(py, arrays, requested_schema)?)
}

/// The batches of a run, as a Python iterator of `pyarrow.RecordBatch` or as an Arrow stream.
#[pyclass(frozen, module = "pelton._native")]
pub(crate) struct Batches {
    slot: Mutex<Slot>,
}

enum Slot {
    Ready(BatchStream),
    /// Some thread waits for a batch.
    Busy,
    Closed,
}

impl Batches {
    pub(crate) fn new(stream: BatchStream) -> Self {
        Self { slot: Mutex::new(Slot::Ready(stream)) }
    }

    fn exchange(&self, slot: Slot) -> Slot {
        std::mem::replace(&mut *self.slot.lock().unwrap_or_else(PoisonError::into_inner), slot)
    }

    /// The stream, with `left` in its place; `None` if it is closed.
    fn take(&self, py: Python<'_>, left: Slot) -> PyResult<Option<BatchStream>> {
        match self.exchange(left) {
            Slot::Ready(stream) => Ok(Some(stream)),
            Slot::Closed => {
                self.exchange(Slot::Closed);
                Ok(None)
            }
            Slot::Busy => {
                self.exchange(Slot::Busy);
                let message =
                    "another thread is reading these batches: let one thread read, or run the query twice";
                Err(to_python(py, &Error::invalid_input(message)))
            }
        }
    }
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The next batch.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Some(mut stream) = self.take(py, Slot::Busy)? else { return Err(PyStopIteration::new_err(())) };
        let batch = stream.next_batch(py, &mut Display::none());
        self.exchange(if matches!(batch, Ok(Some(_))) { Slot::Ready(stream) } else { Slot::Closed });
        match batch? {
            Some(batch) => PyRecordBatch::new(batch).into_pyarrow(py),
            None => Err(PyStopIteration::new_err(())),
        }
    }

    /// What is left as an Arrow stream, once.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        match self.take(py, Slot::Closed)? {
            Some(stream) => stream_capsule(py, Box::new(stream), requested_schema),
            None => {
                Err(to_python(py, &Error::invalid_input("these batches have been read; run the query again")))
            }
        }
    }

    /// Cancels the query.
    fn close(&self) {
        self.exchange(Slot::Closed);
    }
}
