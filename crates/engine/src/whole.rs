//! What COPY and INSERT write is there whole, or not at all.
//!
//! ```text
//!   DataSinkExec
//!     WholeSink ─────▶ the sink ─────▶ WholeStore ──▶ the folder or bucket
//!       ▲                                  a file gets its name here, unless the query has failed or was cancelled before
//!     query ─▶ Rows: tells of an error or a panic
//! ```
//!
//! DataFusion's sinks take an error of their input for the end of the rows, and finish the file: a valid one, with the rows
//! that came before. So does a writer that is still running while its statement is dropped.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_datafusion_err;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, replace_children_if_necessary};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, UploadPart,
};
use url::Url;

use crate::task_context::with_runtime;

/// Wraps the sink of a statement that writes.
#[derive(Debug, Default)]
pub(crate) struct WholeWrites;

impl PhysicalOptimizerRule for WholeWrites {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() {
            let wrapped = wrapped(Arc::clone(analyze.input()));
            return replace_children_if_necessary(plan, vec![wrapped]);
        }
        Ok(wrapped(plan))
    }

    fn name(&self) -> &str {
        "pelton_whole_writes"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn wrapped(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<DataSinkExec>() {
        Some(writing) if !writing.sink().is::<WholeSink>() => {
            let (input, order) = (Arc::clone(writing.input()), writing.sort_order().clone());
            Arc::new(DataSinkExec::new(input, Arc::new(WholeSink { writing: writing.clone() }), order))
        }
        _ => plan,
    }
}

/// The sink of `writing`, which gives files their names only while the query has not failed.
#[derive(Debug)]
struct WholeSink {
    /// Never run; it holds its sink, which nobody can take out of it.
    writing: DataSinkExec,
}

impl DisplayAs for WholeSink {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writing.sink().fmt_as(format, f)
    }
}

#[async_trait::async_trait]
impl DataSink for WholeSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.writing.sink().metrics()
    }

    fn schema(&self) -> &SchemaRef {
        self.writing.sink().schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let state = Arc::new(State::default());
        let registry = WholeStores { context: Arc::clone(context), state: Arc::clone(&state) };
        let env = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env())
            .with_object_store_registry(Arc::new(registry))
            .build_arc()?;
        let context = with_runtime(context, env);
        let rows = Rows { rows: data, state: Arc::clone(&state) };
        let writing = pin!(self.writing.sink().write_all(Box::pin(rows), &context));
        // Dropped before what writes is.
        let cancelled = EndsHere(Arc::clone(&state));
        let written = writing.await;
        drop(cancelled);
        match state.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => written,
            Some(Failure::Error(error)) => Err(error),
            Some(Failure::Panic(panic)) => resume_unwind(panic),
        }
    }
}

/// What became of a statement that writes.
#[derive(Debug, Default)]
struct State {
    /// No file gets a name any more.
    has_ended: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl State {
    fn check(&self) -> object_store::Result<()> {
        if !self.has_ended.load(Ordering::Acquire) {
            return Ok(());
        }
        let source = "the query that writes the file has failed or was cancelled".into();
        Err(object_store::Error::Generic { store: "COPY", source })
    }
}

struct EndsHere(Arc<State>);

impl Drop for EndsHere {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
    }
}

/// What ended the rows before their end.
enum Failure {
    Error(DataFusionError),
    Panic(Box<dyn Any + Send>),
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error(_) => "Error",
            Self::Panic(_) => "Panic",
        })
    }
}

/// The rows of a query.
struct Rows {
    rows: SendableRecordBatchStream,
    state: Arc<State>,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // What panicked is not polled again: the sink ends with the error.
        let failure = match catch_unwind(AssertUnwindSafe(|| self.rows.poll_next_unpin(context))) {
            Ok(Poll::Ready(Some(Err(error)))) => Failure::Error(error),
            Ok(polled) => return polled,
            Err(panic) => Failure::Panic(panic),
        };
        self.state.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.state.has_ended.store(true, Ordering::Release);
        Poll::Ready(Some(Err(exec_datafusion_err!("the query failed"))))
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// The stores of a statement that writes.
#[derive(Debug)]
struct WholeStores {
    context: Arc<TaskContext>,
    state: Arc<State>,
}

impl ObjectStoreRegistry for WholeStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.context.runtime_env().register_object_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.context.runtime_env().deregister_object_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let inner = self.context.runtime_env().object_store_registry.get_store(url)?;
        Ok(Arc::new(WholeStore { inner, state: Arc::clone(&self.state) }))
    }
}

/// A store in which files get their names only while the query has not failed.
#[derive(Debug)]
struct WholeStore {
    inner: Arc<dyn ObjectStore>,
    state: Arc<State>,
}

impl fmt::Display for WholeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for WholeStore {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.state.check()?;
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(path, options).await?;
        Ok(Box::new(WholeUpload { inner, state: Arc::clone(&self.state) }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A file that is being written.
#[derive(Debug)]
struct WholeUpload {
    inner: Box<dyn MultipartUpload>,
    state: Arc<State>,
}

#[async_trait::async_trait]
impl MultipartUpload for WholeUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        self.inner.put_part(payload)
    }

    async fn complete(&mut self) -> object_store::Result<PutResult> {
        if let Err(refused) = self.state.check() {
            // What was uploaded takes room until somebody ends it; the query's own error is the one to tell.
            drop(self.inner.abort().await);
            return Err(refused);
        }
        self.inner.complete().await
    }

    async fn abort(&mut self) -> object_store::Result<()> {
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;
    use datafusion::common::exec_err;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::session::SessionOptions;
    use crate::with_pelton;

    const ROWS: i64 = 200_000;

    /// A session with `fails_at(v, text)`, which gives `v` and fails at the last one: with an error, or a panic.
    fn session() -> SessionContext {
        use datafusion::arrow::datatypes::DataType::{Boolean, Int64};
        let builder = datafusion::execution::SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(
            with_pelton(builder, &SessionOptions::default()).unwrap().builder.build(),
        );
        let body = |args: &[ColumnarValue]| {
            let panics = matches!(&args[1], ColumnarValue::Scalar(flag) if flag.to_string() == "true");
            let ColumnarValue::Array(values) = &args[0] else { return Ok(args[0].clone()) };
            let values = values.as_any().downcast_ref::<Int64Array>().unwrap();
            let fails = values.values().contains(&ROWS);
            assert!(!fails || !panics, "a bug in a function");
            if fails { exec_err!("the last row") } else { Ok(args[0].clone()) }
        };
        let function =
            create_udf("fails_at", vec![Int64, Boolean], Int64, Volatility::Volatile, Arc::new(body));
        context.register_udf(function);
        context
    }

    async fn run(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>> {
        context.sql(sql).await?.collect().await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_fails_half_way_leaves_nothing_and_what_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        for ending in ["parquet", "csv", "json", "arrow"] {
            let file = folder.path().join(format!("out.{ending}"));
            for (panics, before) in [(false, false), (true, false), (false, true), (true, true)] {
                let target = file.display();
                if before {
                    run(&context, &format!("COPY (SELECT 7 AS v) TO '{target}'")).await.unwrap();
                }
                let kept = std::fs::read(&file).ok();
                let sql = format!(
                    "COPY (SELECT fails_at(v, {panics}) AS v FROM generate_series(1, {ROWS}) AS t(v)) TO '{target}'"
                );
                let task = tokio::spawn({
                    let (context, sql) = (context.clone(), sql.clone());
                    async move { run(&context, &sql).await }
                });
                match task.await {
                    Ok(failed) => {
                        let error = failed.unwrap_err().to_string();
                        assert!(!panics && error.contains("the last row"), "{ending}: {error}");
                    }
                    Err(panic) => assert!(panics && panic.is_panic(), "{ending}: {panic}"),
                }
                assert_eq!(std::fs::read(&file).ok(), kept, "{ending}, {panics}");
                let expected = usize::from(before);
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), expected, "{ending}, {panics}");
            }
            std::fs::remove_file(&file).unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_succeeds_is_counted_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        let target = folder.path().join("out.parquet").display().to_string();
        let copy = format!("COPY (SELECT v FROM generate_series(1, {ROWS}) AS t(v)) TO '{target}'");
        let plan = context.sql(&copy).await.unwrap().create_physical_plan().await.unwrap();
        assert!(plan.downcast_ref::<DataSinkExec>().unwrap().sink().is::<WholeSink>());
        let written = run(&context, &copy).await.unwrap();
        assert_eq!(
            written[0]
                .column(0)
                .as_any()
                .downcast_ref::<datafusion::arrow::array::UInt64Array>()
                .unwrap()
                .value(0),
            ROWS as u64
        );
        let read = context.read_parquet(&target, Default::default()).await.unwrap().count().await.unwrap();
        assert_eq!(read, ROWS as usize);
    }
}
