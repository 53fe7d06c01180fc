//! Running statements: on a pool of threads of their own, watched by the thread that asked, which Ctrl-C wakes.
//!
//! ```text
//!   this thread:  start ── wait, draw the meter, look at the flag ── rows are out, or the work is told to stop
//!   the pool:       └── plan ── run ── write rows ───────────────────┘
//! ```

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use futures::StreamExt;
use pelton_engine::{Query, STACK_BYTES, bytes_text, cancellable, counted, from_datafusion};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_limits::check_threads;
use pelton_load::CancelFlag;
use tokio::runtime::{Handle, Runtime};

use crate::console;
use crate::meter::Meter;
use crate::output::{Output, RowWriter};
use crate::paint::{Paint, Shade};

/// How often the waiting thread looks at the flag.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// What cancelled work gets to release memory and files, before it is left to itself.
const PATIENCE: Duration = Duration::from_millis(700);

/// A pool that runs one piece of work at a time.
pub(crate) struct Runner {
    runtime: Runtime,
    threads: Option<usize>,
    cancel: CancelFlag,
}

impl Runner {
    /// A pool of `threads` threads (`None`: one a core), whose work `cancel` stops.
    ///
    /// # Errors
    ///
    /// Of starting threads.
    pub(crate) fn new(threads: Option<usize>, cancel: CancelFlag) -> Result<Self> {
        Ok(Self { runtime: tokio_runtime(threads)?, threads, cancel })
    }

    /// The pool, for short questions.
    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Runs `work` to its end and draws `meter` meanwhile.
    ///
    /// # Errors
    ///
    /// Of the work; `Cancelled` once the flag is set.
    pub(crate) fn run_blocking<T: Send + 'static>(
        &mut self,
        meter: &Meter,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = channel();
        let cancel = self.cancel.clone();
        let task = self.runtime.spawn(async move {
            let work = cancellable(&cancel, work);
            // Nobody listens any more once the work is cancelled.
            let _ = sender.send(work.await);
        });
        let result = loop {
            match receiver.recv_timeout(LOOK_INTERVAL) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Disconnected) => break Err(panicked()),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => {
                    meter.hide();
                    task.abort();
                    self.give_up_after_patience(&receiver)?;
                    break Err(Error::cancelled());
                }
                Err(RecvTimeoutError::Timeout) => meter.tick(),
            }
        };
        meter.hide();
        result
    }

    /// Waits for cancelled work to drop what it holds. Work that does not come to an end keeps its threads, and the
    /// next gets new ones.
    fn give_up_after_patience<T>(&mut self, receiver: &Receiver<T>) -> Result<()> {
        if matches!(receiver.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout)) {
            let fresh = tokio_runtime(self.threads)?;
            std::mem::replace(&mut self.runtime, fresh).shutdown_background();
        }
        Ok(())
    }

    /// Ends the pool. Readers and spill files go with their owners; a task that is still running does not delay it
    /// for long.
    pub(crate) fn end(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// A pool of `threads` threads, or of one a core.
pub(crate) fn tokio_runtime(threads: Option<usize>) -> Result<Runtime> {
    check_threads(threads)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.thread_stack_size(STACK_BYTES).enable_all().build().context(|| "starting the thread pool".into())
}

/// The message of a panic is on standard error already.
fn panicked() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the statement met a bug, which the message above locates; please report it",
    )
}

/// What came of a query.
pub(crate) struct Ran {
    pub(crate) query: Arc<Query>,
    pub(crate) rows: usize,
    /// Drawn rows that are to be shown yet.
    pub(crate) held: Option<String>,
}

/// Runs `query` and writes its rows to `output`.
///
/// # Errors
///
/// Of the query and of writing.
pub(crate) async fn write_rows(
    query: impl Into<Arc<Query>>,
    output: Output,
    meter: Arc<Meter>,
) -> Result<Ran> {
    let query = query.into();
    let (format, _) = output.form()?;
    meter.watch(&query);
    if query.is_explanation() && format == crate::args::Format::Table && output.path.is_none() {
        let text = explanation(&query).await?;
        return Ok(Ran { query, rows: 0, held: Some(text) });
    }
    let schema = query.schema();
    if schema.fields().is_empty() {
        query.collect().await?; // a definition: nothing to show
        return Ok(Ran { query, rows: 0, held: None });
    }
    let mut stream = query.stream().await?;
    let mut writer = RowWriter::open(&output, &schema)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(from_datafusion)?;
        rows += batch.num_rows();
        if writer.writes_at_once() {
            meter.hide();
        }
        writer.write(batch)?;
    }
    drop(stream);
    meter.hide();
    let held = writer.finish()?;
    Ok(Ran { query, rows, held })
}

/// An explanation is text to read, not a table of two cells.
async fn explanation(query: &Query) -> Result<String> {
    use arrow::array::AsArray;
    let mut text = String::new();
    for batch in query.collect().await? {
        for row in 0..batch.num_rows() {
            let cell = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            text.push_str(&format!("── {}\n{}\n", cell(0), cell(1)));
        }
    }
    Ok(text)
}

/// Says on standard error how long `ran` took, what it read and what it skipped.
///
/// # Errors
///
/// Of reading metadata.
pub(crate) fn print_stats(ran: &Ran, elapsed: Duration) -> Result<()> {
    let reports = ran.query.scan_reports()?;
    let read: u64 = reports.iter().map(|report| report.bytes_read).sum();
    let skipped: u64 = reports.iter().map(|report| report.bytes_skipped()).sum();
    let raw: u64 = reports.iter().map(|report| report.raw_bytes).sum();
    let time = format!("{} in {:.3} s", counted(ran.rows as u64, "row"), elapsed.as_secs_f64());
    let time = Paint::of_stderr().shade(Shade::Strong, time);
    if reports.is_empty() {
        console::say(time);
        return Ok(());
    }
    let effective = (raw as f64 / elapsed.as_secs_f64().max(1e-9)) as u64;
    console::say(format_args!(
        "{time}; read {}, skipped {}, {}/s effective",
        bytes_text(read),
        bytes_text(skipped),
        bytes_text(effective)
    ));
    Ok(())
}
