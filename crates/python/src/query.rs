//! A statement that was planned: it can be run for all rows, for batches one after another, for the first few rows, or
//! to be explained.
//!
//! A plan runs once, since what its operators learn stays with them; each later run plans the statement anew and so
//! sees the tables as they are then. A statement that changes something has run before it comes here, once, and keeps
//! its rows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use pelton_engine::{ProfileContext, Query as EngineQuery, ScanReport, Statement, bytes_text, only_reads};
use pelton_error::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::ffi::to_schema_pycapsule;

use crate::error::OrRaise;
use crate::preview::{Preview, preview};
use crate::rows::Rows;
use crate::session::{Shared, Task};
use crate::stream::{BatchStream, Batches};
use crate::wait::Display;

/// What planning a statement gave.
pub(crate) enum Planned {
    /// A query, for its first run.
    ToRun(Arc<EngineQuery>),
    /// Something that was done, with its rows.
    Done { schema: SchemaRef, batches: Vec<RecordBatch> },
}

/// A planned statement; `pelton.Result` wraps it.
#[pyclass(frozen, module = "pelton._native")]
pub(crate) struct Query {
    shared: Arc<Shared>,
    statement: Statement,
    schema: SchemaRef,
    #[pyo3(get)]
    is_explanation: bool,
    first: Mutex<Option<Arc<EngineQuery>>>,
    done: Option<Vec<RecordBatch>>,
}

impl Query {
    pub(crate) fn new(shared: Arc<Shared>, statement: Statement, planned: Planned) -> Self {
        let (schema, is_explanation, first, done) = match planned {
            Planned::ToRun(query) => (query.schema(), query.is_explanation(), Some(query), None),
            Planned::Done { schema, batches } => (schema, false, None, Some(batches)),
        };
        Self { shared, statement, schema, is_explanation, first: Mutex::new(first), done }
    }

    /// A plan that has not run.
    fn plan(&self, py: Python<'_>) -> PyResult<Arc<EngineQuery>> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(query) = first {
            return Ok(query);
        }
        let (session, statement) = (Arc::clone(&self.shared.session), self.statement.clone());
        let planning = self.shared.start(async move { session.plan(statement).await.map(Arc::new) });
        planning.or_raise(py)?.wait(py, Display::none())
    }

    fn collected(
        &self,
        py: Python<'_>,
        query: &Arc<EngineQuery>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<RecordBatch>> {
        let work = Arc::clone(query);
        let task: Task<Vec<RecordBatch>> =
            self.shared.start(async move { work.collect().await }).or_raise(py)?;
        let text = |elapsed| progress_text(query, elapsed);
        task.wait(py, Display::new(progress, &text))
    }

    /// The rows as they come, and the query that they come from unless it is done.
    fn batch_stream(&self, py: Python<'_>) -> PyResult<(BatchStream, Option<Arc<EngineQuery>>)> {
        if let Some(batches) = &self.done {
            return Ok((BatchStream::of(Arc::clone(&self.schema), batches.clone()), None));
        }
        let query = self.plan(py)?;
        let stream = BatchStream::start(&self.shared, Arc::clone(&query)).or_raise(py)?;
        Ok((stream, Some(query)))
    }
}

#[pymethods]
impl Query {
    /// The columns as an Arrow schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Runs the query to its end.
    #[pyo3(signature = (progress))]
    fn collect(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Rows> {
        let batches = match &self.done {
            Some(batches) => batches.clone(),
            None => self.collected(py, &self.plan(py)?, progress.as_ref())?,
        };
        Ok(Rows::new(Arc::clone(&self.schema), batches))
    }

    /// Starts the query; its batches come one after another.
    fn stream(&self, py: Python<'_>) -> PyResult<Batches> {
        Ok(Batches::new(self.batch_stream(py)?.0))
    }

    /// Runs the query until it has given `limit` rows and one more: column names, their types, the cells as text, and
    /// whether there are more rows.
    #[pyo3(signature = (limit, progress))]
    fn preview(&self, py: Python<'_>, limit: usize, progress: Option<Bound<'_, PyAny>>) -> PyResult<Preview> {
        let (stream, query) = self.batch_stream(py)?;
        let text = |elapsed| query.as_ref().and_then(|query| progress_text(query, elapsed));
        preview(py, stream, limit, &mut Display::new(progress.as_ref(), &text))
    }

    /// The plan as sections of a title and a text, and its nodes as JSON; with `analyze` the query runs.
    #[pyo3(signature = (analyze, progress))]
    fn explain(
        &self,
        py: Python<'_>,
        analyze: bool,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<(String, String)>, String)> {
        let sql = self.explanation(analyze).or_raise(py)?;
        let session = Arc::clone(&self.shared.session);
        let planning = self.shared.start(async move { session.query(&sql).await.map(Arc::new) });
        let query = planning.or_raise(py)?.wait(py, Display::none())?;
        let batches = self.collected(py, &query, progress.as_ref())?;
        let profile = query.profile(ProfileContext::default()).or_raise(py)?;
        Ok((sections(&batches), profile.plan_json()))
    }
}

impl Query {
    fn explanation(&self, analyze: bool) -> Result<String> {
        if self.is_explanation || !only_reads(&self.statement) {
            return Err(Error::invalid_input("only a query can be explained, such as a SELECT"));
        }
        Ok(format!("EXPLAIN {}{}", if analyze { "ANALYZE " } else { "" }, self.statement))
    }
}

/// The rows of an explanation.
fn sections(batches: &[RecordBatch]) -> Vec<(String, String)> {
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    let text = |batch: &RecordBatch, column: usize, row: usize| {
        batch.column(column).as_string::<i32>().value(row).to_owned()
    };
    rows.map(|(batch, row)| (text(batch, 0, row), text(batch, 1, row))).collect()
}

/// How far `query` is, as one line; nothing for plans without a Pelton table.
fn progress_text(query: &EngineQuery, elapsed: Duration) -> Option<String> {
    let reports = query.scan_reports().ok().filter(|reports| !reports.is_empty())?;
    let sum = |figure: fn(&ScanReport) -> u64| reports.iter().map(figure).sum::<u64>();
    let answered: f64 = reports.iter().map(answered_bytes).sum();
    let groups = sum(|report| report.row_groups_total);
    let done: u64 = reports.iter().map(row_groups_done).sum();
    Some(format!(
        "{:.1} s  {done} of {groups} row groups, {} rows, {} read, {} skipped, {}/s effective",
        elapsed.as_secs_f64(),
        sum(|report| report.output_rows),
        bytes_text(sum(|report| report.bytes_read)),
        bytes_text(sum(ScanReport::bytes_skipped)),
        bytes_text((answered / elapsed.as_secs_f64().max(1e-9)) as u64),
    ))
}

/// Row groups that were read or skipped.
fn row_groups_done(report: &ScanReport) -> u64 {
    let skipped: u64 = report.skipped.values().map(|skipped| skipped.row_groups).sum();
    (report.row_groups_read + skipped).min(report.row_groups_total)
}

/// Uncompressed bytes that have been answered for so far.
fn answered_bytes(report: &ScanReport) -> f64 {
    report.raw_bytes as f64 * row_groups_done(report) as f64 / report.row_groups_total.max(1) as f64
}
