//! A session for Python: the engine's, with the threads that its queries run on.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, RecordBatchReader};
use crossbeam_channel::{Receiver, bounded};
use pelton_engine::{PeltonSession, STACK_BYTES, Statement, only_reads};
use pelton_error::{Error, Result, ResultExt};
use pelton_limits::check_threads;
use pelton_store::Warehouse;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

use crate::error::OrRaise;
use crate::load::{LoadArgs, load};
use crate::options::SessionArgs;
use crate::query::{Planned, Query};
use crate::stored;
use crate::wait::{self, Display};

/// What queries of a session share.
pub(crate) struct Shared {
    pub(crate) session: Arc<PeltonSession>,
    /// Taken when the session is dropped.
    runtime: Option<Runtime>,
    directory: Option<PathBuf>,
    process: u32,
}

impl Shared {
    fn open(directory: Option<PathBuf>, args: &SessionArgs) -> Result<Self> {
        let options = args.options()?;
        let session = Arc::new(PeltonSession::open(directory.clone(), &options)?);
        check_threads(options.threads)?;
        let mut builder = Builder::new_multi_thread();
        if let Some(threads) = options.threads {
            builder.worker_threads(threads);
        }
        let runtime = builder.thread_name("pelton").thread_stack_size(STACK_BYTES).enable_all().build();
        let runtime = runtime.context(|| "starting the thread pool".into())?;
        Ok(Self { session, runtime: Some(runtime), directory, process: std::process::id() })
    }

    /// Starts `work` on the session's threads.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Task<T>> {
        let (sender, receiver) = bounded(1);
        let handle = self.spawn(async move {
            // Nobody listens any more once the work is cancelled.
            let _ = sender.send(work.await);
        })?;
        Ok(Task { receiver, _handle: handle })
    }

    /// Starts `work`, whose results go elsewhere; dropping the handle cancels it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` in a process that was forked from the one that opened the session: it has none of its threads.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<CancelOnDrop> {
        match &self.runtime {
            Some(runtime) if self.process == std::process::id() => {
                Ok(CancelOnDrop(runtime.spawn(work).abort_handle()))
            }
            _ => Err(Error::invalid_input(
                "this connection was opened before the process forked, and its threads stayed behind: call \
                 pelton.connect in the new process, or start processes by the method 'spawn'",
            )),
        }
    }

    fn warehouse_dir(&self) -> Result<&PathBuf> {
        self.directory.as_ref().ok_or_else(|| {
            Error::invalid_input(
                "this connection has no warehouse: name a directory, as in pelton.connect('warehouse')",
            )
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if self.process == std::process::id() {
            // Readers and spill files go with their owners; nobody should wait for that.
            runtime.shutdown_background();
        } else {
            std::mem::forget(runtime); // its threads are another process's
        }
    }
}

/// Cancels a task when it is dropped.
pub(crate) struct CancelOnDrop(AbortHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Work with one result; dropping it cancels the work.
pub(crate) struct Task<T> {
    receiver: Receiver<Result<T>>,
    _handle: CancelOnDrop,
}

impl<T: Send> Task<T> {
    /// Waits for the result.
    pub(crate) fn wait(self, py: Python<'_>, mut display: Display<'_>) -> PyResult<T> {
        wait::next(py, &self.receiver, &mut display)?.or_raise(py)
    }
}

/// A session; `pelton.Connection` wraps it.
#[pyclass(frozen, module = "pelton._native")]
pub(crate) struct Session {
    /// `None` once it is closed.
    shared: Mutex<Option<Arc<Shared>>>,
}

impl Session {
    fn shared(&self) -> Result<Arc<Shared>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clone().ok_or_else(|| {
            Error::invalid_input("this connection is closed: open another with pelton.connect")
        })
    }
}

#[pymethods]
impl Session {
    /// Opens a session over a warehouse, which is made where it is missing, or over files and memory alone.
    #[new]
    #[pyo3(signature = (directory, options))]
    fn new(py: Python<'_>, directory: Option<PathBuf>, options: SessionArgs) -> PyResult<Self> {
        let shared = py.detach(|| {
            if let Some(directory) = &directory {
                Warehouse::open_or_create(directory)?;
            }
            Shared::open(directory, &options)
        });
        Ok(Self { shared: Mutex::new(Some(Arc::new(shared.or_raise(py)?))) })
    }

    /// Runs all statements of `sql` but the last, and the last as well where it does more than read.
    fn run(&self, py: Python<'_>, sql: String) -> PyResult<Query> {
        let shared = self.shared().or_raise(py)?;
        let session = Arc::clone(&shared.session);
        let task = shared.start(run_statements(session, sql)).or_raise(py)?;
        let (statement, planned) = task.wait(py, Display::none())?;
        Ok(Query::new(shared, statement, planned))
    }

    /// Makes what `source` exports, an Arrow stream or array, the table `name` of this session.
    fn register(&self, py: Python<'_>, name: &str, source: AnyRecordBatch) -> PyResult<()> {
        let shared = self.shared().or_raise(py)?;
        let mut reader = source.into_reader()?;
        let schema = reader.schema();
        let mut batches = Vec::new();
        while let Some(batch) = py.detach(|| next_batch(&mut reader)) {
            batches.push(batch.or_raise(py)?);
            py.check_signals()?;
        }
        shared.session.register(name, schema, batches).or_raise(py)
    }

    /// Forgets a registered table or a view; False where there is none of this name.
    fn unregister(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.shared().and_then(|shared| shared.session.unregister(name)).or_raise(py)
    }

    /// Loads files, or what `source` exports, into a table; returns the report as JSON.
    #[pyo3(signature = (args, source, progress))]
    fn load(
        &self,
        py: Python<'_>,
        args: LoadArgs,
        source: Option<AnyRecordBatch>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let shared = self.shared().or_raise(py)?;
        let warehouse = py.detach(|| shared.warehouse_dir().and_then(Warehouse::open_or_create));
        let reader = source.map(AnyRecordBatch::into_reader).transpose()?;
        load(py, warehouse.or_raise(py)?, &args, reader, progress.as_ref())
    }

    /// The warehouse's tables with their sizes, as JSON.
    fn tables(&self, py: Python<'_>) -> PyResult<String> {
        let shared = self.shared().or_raise(py)?;
        py.detach(|| stored::tables(&Warehouse::open(shared.warehouse_dir()?)?)).or_raise(py)
    }

    /// How a table is stored, as JSON.
    fn inspect(&self, py: Python<'_>, table: &str) -> PyResult<String> {
        let shared = self.shared().or_raise(py)?;
        py.detach(|| stored::inspect(&Warehouse::open(shared.warehouse_dir()?)?, table)).or_raise(py)
    }

    /// Deletes a table of the warehouse.
    fn drop_table(&self, py: Python<'_>, table: &str) -> PyResult<()> {
        let shared = self.shared().or_raise(py)?;
        py.detach(|| Warehouse::open(shared.warehouse_dir()?)?.drop_table(table)).or_raise(py)
    }

    /// Closes the session; queries that it gave out before go on to their end.
    fn close(&self) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

/// Runs all statements but the last, and plans that one; runs it too if it changes something, since nobody may ever
/// ask for its rows.
async fn run_statements(session: Arc<PeltonSession>, sql: String) -> Result<(Statement, Planned)> {
    let ran = run_all(&session, &sql).await;
    ran.map_err(|error| pelton_cli::pointed_plainly(error, &sql, &session))
}

async fn run_all(session: &PeltonSession, sql: &str) -> Result<(Statement, Planned)> {
    let mut statements = session.parse(sql)?;
    let Some(last) = statements.pop() else { return Err(Error::invalid_input("the query is empty")) };
    for statement in statements {
        session.plan(statement).await?.collect().await?;
    }
    let query = session.plan(last.clone()).await?;
    let planned = if only_reads(&last) {
        Planned::ToRun(Arc::new(query))
    } else {
        Planned::Done { schema: query.schema(), batches: query.collect().await? }
    };
    Ok((last, planned))
}

/// The next batch of a foreign stream.
pub(crate) fn next_batch(reader: &mut Box<dyn RecordBatchReader + Send>) -> Option<Result<RecordBatch>> {
    let batch = reader.next()?;
    Some(batch.map_err(|error| Error::invalid_input("reading the Arrow stream").with_source(error)))
}
