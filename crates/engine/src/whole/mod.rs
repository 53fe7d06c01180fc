//! What COPY and INSERT write is there whole, or not at all.
//!
//! ```text
//!   DataSinkExec
//!     WholeSink ─────▶ the sink (files.rs, folders.rs) ─────▶ WholeStore (stores.rs, local.rs) ──▶ the folder or bucket
//!       ▲        └──▶ State (state.rs) ─────────────────────────── all files get their names here, after the last row
//!     query ─▶ Rows: tells of an error or a panic
//! ```
//!
//! DataFusion's sinks take an error of their input for the end of the rows, and finish the file: a valid one, with the rows
//! that came before. After an error of their own they finish it too. So does a writer that is still running while its
//! statement is dropped.

mod files;
mod folders;
mod local;
mod state;
mod stores;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_datafusion_err;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, replace_children_if_necessary};
use futures::{Stream, StreamExt};

use crate::task_context::with_runtime;
use files::Files;
use state::{Failure, State};
use stores::WholeStores;

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
        let rows = Box::pin(Rows { rows: data, state: Arc::clone(&state) });
        let files = Files::of(&self.writing);
        let writing = pin!(async {
            match &files {
                Some(files) => files.write(rows, &context).await,
                None => self.writing.sink().write_all(rows, &context).await,
            }
        });
        // Dropped before what writes is.
        let cancelled = EndsHere(Arc::clone(&state));
        let written = writing.await;
        drop(cancelled);
        match (state.failure(), written) {
            (None, Ok(count)) => {
                state.publish().await?;
                Ok(count)
            }
            (failure, written) => {
                state.abandon().await;
                match failure {
                    None => written,
                    Some(Failure::Error(error)) => Err(error),
                    Some(Failure::Panic(panic)) => resume_unwind(panic),
                }
            }
        }
    }
}

struct EndsHere(Arc<State>);

impl Drop for EndsHere {
    fn drop(&mut self) {
        self.0.end();
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
        self.state.end_with(failure);
        Poll::Ready(Some(Err(exec_datafusion_err!("the query failed"))))
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

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_cannot_be_written_leaves_what_was_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        let file = folder.path().join("k.csv");
        std::fs::write(&file, "old").unwrap();
        // DataFusion's own writer, which this option asks for, has no text for lists.
        let options = "OPTIONS ('format.double_quote' 'false')";
        let list = "(SELECT [1] AS a, 1 AS k)";
        let copy = format!("COPY {list} TO '{}' {options}", file.display());
        run(&context, &copy).await.unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
        let copy = format!(
            "COPY {list} TO '{}/new/' STORED AS CSV PARTITIONED BY (k) {options}",
            folder.path().display()
        );
        run(&context, &copy).await.unwrap_err();
        assert_eq!(names(folder.path()), ["k.csv"]);
        let error = run(&context, &format!("COPY (SELECT 1 AS a) TO '{}/x.csv'", file.display())).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("creating the folder") && error.contains("k.csv"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn null_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        let rows =
            "(VALUES (1, 0, '', DATE '1970-01-01', false), (2, NULL, NULL, NULL, NULL)) AS t(v, i, s, d, b)";
        for (key, value) in [("i", "0"), ("s", ""), ("d", "1970-01-01"), ("b", "false")] {
            for (format, keeps) in [("parquet", false), ("csv", false), ("json", true), ("parquet", true)] {
                let target = folder.path().join(format!("{key}_{format}_{keeps}"));
                let copy = format!(
                    "COPY (SELECT v, {key} FROM {rows}) TO '{}/' STORED AS {format} PARTITIONED BY ({key}) \
                     OPTIONS ('execution.keep_partition_by_columns' '{keeps}')",
                    target.display()
                );
                run(&context, &copy).await.unwrap();
                let mut expected = [format!("{key}={value}"), format!("{key}=__HIVE_DEFAULT_PARTITION__")];
                expected.sort();
                assert_eq!(names(&target), expected, "{copy}");
                for folder in expected {
                    assert_eq!(names(&target.join(folder)).len(), 1, "{copy}");
                }
            }
        }
        let copy = format!(
            "COPY (SELECT 1 AS v, '__HIVE_DEFAULT_PARTITION__' AS s) TO '{}/no/' STORED AS CSV PARTITIONED BY (s)",
            folder.path().display()
        );
        let error = run(&context, &copy).await.unwrap_err().to_string();
        assert!(error.contains("which means NULL"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn text_tells_null_from_the_empty_text_and_holds_nested_values() {
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        let rows = "(SELECT * FROM (VALUES (1, 'a'), (2, ''), (NULL, NULL)) AS t(n, s))";
        let nested = "(SELECT [1, 2] AS l, named_struct('x', 1) AS r)";
        for (query, ending, expected) in [
            (rows, "csv", "n,s\n1,a\n2,\"\"\n,\n"),
            (rows, "json", "{\"n\":1,\"s\":\"a\"}\n{\"n\":2,\"s\":\"\"}\n{\"n\":null,\"s\":null}\n"),
            (nested, "csv", "l,r\n\"[1,2]\",\"{\"\"x\"\":1}\"\n"),
        ] {
            let file = folder.path().join(format!("out.{ending}"));
            run(&context, &format!("COPY {query} TO '{}'", file.display())).await.unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), expected, "{query}");
        }
        let table = folder.path().join("table");
        std::fs::create_dir(&table).unwrap();
        let create = format!(
            "CREATE EXTERNAL TABLE t (n INT, s TEXT) STORED AS CSV LOCATION '{}/' OPTIONS ('format.has_header' 'true')",
            table.display()
        );
        run(&context, &create).await.unwrap();
        run(&context, "INSERT INTO t VALUES (1, ''), (2, NULL)").await.unwrap();
        let file = table.join(&names(&table)[0]);
        assert_eq!(std::fs::read_to_string(file).unwrap(), "n,s\n1,\"\"\n2,\n");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_folder_that_has_files_is_not_added_to() {
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        for partitioned in ["", "PARTITIONED BY (v)"] {
            let target = folder.path().join(format!("out{}", partitioned.len()));
            let copy = format!(
                "COPY (SELECT 1 AS v, 2 AS w) TO '{}/' STORED AS PARQUET {partitioned}",
                target.display()
            );
            run(&context, &copy).await.unwrap();
            let before = names(&target);
            let error = run(&context, &copy).await.unwrap_err().to_string();
            assert!(error.contains("empty folder") && error.contains("INSERT INTO"), "{error}");
            assert_eq!(names(&target), before);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn devices_pipes_and_links_are_written_through() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let context = session();
        let [pipe, link, file] = ["pipe.csv", "link.csv", "file.csv"].map(|name| folder.path().join(name));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe).unwrap()
        });
        run(&context, &format!("COPY (SELECT 1 AS a) TO '{}'", pipe.display())).await.unwrap();
        assert_eq!(reader.join().unwrap(), "a\n1\n");
        assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());

        run(&context, "COPY (SELECT 1 AS a) TO '/dev/null' STORED AS CSV").await.unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());

        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file.csv", &link).unwrap();
        run(&context, &format!("COPY (SELECT 1 AS a) TO '{}'", link.display())).await.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\n1\n");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
