//! What COPY and INSERT write is there whole, or not at all.
//!
//! ```text
//!   DataSinkExec ──▶ WholeSink     rows pass; an error or a panic of the query stays here, and what was being written is dropped
//!     query            the sink    knows the end of its rows alone, where it gives a file its name
//! ```
//!
//! DataFusion's sinks take an error of their input for the end of the rows, and finish the file: a valid one, with the rows
//! that came before.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, replace_children_if_necessary};
use futures::{Stream, StreamExt};
use tokio::sync::oneshot;

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

/// The sink of `writing`, told of nothing but rows and their end.
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
        let (tell, told) = oneshot::channel();
        let rows = Rows { rows: data, tell: Some(tell) };
        tokio::select! {
            written = self.writing.sink().write_all(Box::pin(rows), context) => written,
            Ok(failure) = told => match failure {
                Failure::Error(error) => Err(error),
                Failure::Panic(panic) => resume_unwind(panic),
            },
        }
    }
}

/// What ended the rows before their end.
enum Failure {
    Error(DataFusionError),
    Panic(Box<dyn Any + Send>),
}

/// The rows of a query up to an error or a panic, which is told elsewhere; nothing comes after it, not even an end.
struct Rows {
    rows: SendableRecordBatchStream,
    /// `None` once it has failed.
    tell: Option<oneshot::Sender<Failure>>,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.tell.is_none() {
            return Poll::Pending;
        }
        // What panicked is not polled again.
        let failure = match catch_unwind(AssertUnwindSafe(|| self.rows.poll_next_unpin(context))) {
            Ok(Poll::Ready(Some(Err(error)))) => Failure::Error(error),
            Ok(polled) => return polled,
            Err(panic) => Failure::Panic(panic),
        };
        if let Some(tell) = self.tell.take() {
            drop(tell.send(failure)); // nobody listens where the statement was cancelled
        }
        Poll::Pending
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
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
