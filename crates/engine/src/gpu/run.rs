//! One execution of a subtree on a device, and what the CPU does in its place.
//!
//! ```text
//!   host inputs, run at once ─▶ Runtime::run_with, off the async threads ─▶ parts while it goes on │ all rows in the end
//!                                     │ refused, before the first rows
//!                                     └▶ the plan of the CPU
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ColumnarValue, ExecutionPlan, collect, execute_stream};
use futures::{Stream, StreamExt, TryStreamExt};
use pelton_error::{CancelFlag, Error, ErrorKind, ResultExt};
use pelton_exec::{RunReport, RunWith, TakeGroups, TakeRows};
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{Inputs, Literal, Plan, Source};
use tokio::task::JoinHandle;

use super::again::anew;
use super::background::{Way, give_way};
use super::cost::{StepPrediction, predict};
use super::device::DeviceHandle;
use super::exec::Outcome;
use super::host_input::{HostInput, describe_by_rows};
use super::of_groups::OfGroups;
use super::rows_out::{self, Conversion, Inlet};
use super::trial::TrialPace;
use super::value::LateText;
use super::{late, value};
use crate::error::{from_datafusion, to_datafusion};
use crate::plan_copy::NewResults;
use crate::profile::tracer;

/// What comes of a run on the device.
pub(super) enum Made {
    /// All rows, after its end.
    Whole(Vec<RecordBatch>),
    /// Rows while it goes on.
    InParts(Parts),
}

/// What a run brings to the host in the end: rows that it has not given out, and texts of them.
pub(super) struct Brought {
    rows: Rows,
    predicted: Vec<StepPrediction>,
    pub(super) report: RunReport,
    fetched: Vec<Option<ArrayRef>>,
    /// How long the texts took.
    fetched_in: Duration,
}

/// A run that gives out rows.
pub(super) struct Parts {
    first: Option<Vec<RecordBatch>>,
    inlet: Inlet,
    pub(super) running: JoinHandle<pelton_error::Result<Brought>>,
    /// Of host inputs.
    memory: MemoryReservation,
    _cancel: CancelOnDrop,
}

impl Parts {
    pub(super) async fn next(&mut self) -> Option<pelton_error::Result<Vec<RecordBatch>>> {
        match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => self.inlet.next().await,
        }
    }
}

/// How `running` ended.
pub(super) async fn ended<T>(running: &mut JoinHandle<pelton_error::Result<T>>) -> pelton_error::Result<T> {
    running.await.map_err(|error| {
        // A panic of the run is a bug, and stays one.
        match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Error::cancelled(),
        }
    })?
}

/// One execution.
pub(super) struct Run {
    pub(super) started: Instant,
    pub(super) plan: Plan,
    pub(super) host_inputs: Vec<HostInput>,
    pub(super) children: Vec<Arc<dyn ExecutionPlan>>,
    pub(super) parameters: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) late: Vec<Option<LateText>>,
    /// By key of the order of rows.
    pub(super) key_texts: Vec<Option<LateText>>,
    pub(super) key_rows: Vec<(usize, usize)>,
    pub(super) average_counts: Vec<usize>,
    pub(super) of_groups: Option<Arc<OfGroups>>,
    pub(super) cpu: Arc<dyn ExecutionPlan>,
    pub(super) cpu_has_run: Arc<AtomicBool>,
    pub(super) results: NewResults,
    pub(super) device: Arc<DeviceHandle>,
    pub(super) outcome: Arc<Mutex<Outcome>>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    /// What `auto` calls it.
    pub(super) key: Option<u64>,
    /// Where the node is: whose spans a trace gets.
    pub(super) owner: usize,
    /// Nobody waits for it: its threads give way to those of queries, this far. And what `auto` calls what is tried out.
    pub(super) in_background: Option<(Way, u64)>,
    /// So many rows are enough, whichever they are.
    pub(super) rows_enough: Option<usize>,
    /// The host's cores take some of the rows, where they can.
    pub(super) uses_host: bool,
}

/// Asks for the stop of a run that nobody waits for any more.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Run {
    pub(super) fn in_background(self, way: Way, key: u64) -> Self {
        Self { in_background: Some((way, key)), ..self }
    }

    /// The result as a stream: of the device or, where that refuses before its first rows are out, of the CPU.
    pub(super) async fn stream(mut self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // Whoever asked for the stream may have waited with it.
        self.started = Instant::now();
        self.record(|outcome| *outcome = Outcome::default());
        let baseline = BaselineMetrics::new(&self.metrics, 0);
        let schema = self.cpu.schema();
        match self.on_device(&context).await {
            Ok(Made::Whole(batches)) => {
                let counted = futures::stream::iter(batches).map(move |batch| {
                    baseline.record_output(batch.num_rows());
                    Ok(batch)
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
            }
            Ok(Made::InParts(parts)) => {
                let counted = self
                    .in_parts(parts)
                    .inspect_ok(move |batch: &RecordBatch| baseline.record_output(batch.num_rows()));
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
            }
            Err(error) if may_run_elsewhere(error.kind()) => {
                if let (Some(key), ErrorKind::Unsupported) = (self.key, error.kind()) {
                    self.device.experience().refused(key);
                }
                MetricBuilder::new(&self.metrics).global_counter("fallbacks").add(1);
                let cpu = self.cpu_plan()?;
                self.record(|outcome| {
                    outcome.fallback = Some(error.to_string());
                    outcome.ran_instead = Some(Arc::clone(&cpu));
                });
                let rows = execute_stream(cpu, context)?;
                let counted = rows.inspect_ok(move |batch| baseline.record_output(batch.num_rows()));
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
            }
            Err(error) => Err(to_datafusion(error)),
        }
    }

    /// The batches of all parts, then what the run says in the end.
    fn in_parts(self, parts: Parts) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let state = (self, parts, Vec::new().into_iter(), false);
        futures::stream::unfold(state, |(run, mut parts, mut batches, is_over)| async move {
            if is_over {
                return None;
            }
            loop {
                if let Some(batch) = batches.next() {
                    return Some((Ok(batch), (run, parts, batches, false)));
                }
                let error = match parts.next().await {
                    Some(Ok(more)) => {
                        batches = more.into_iter();
                        continue;
                    }
                    Some(Err(error)) => error,
                    None => match ended(&mut parts.running).await {
                        Ok(brought) => {
                            run.ran_on_device(&brought);
                            return None;
                        }
                        Err(error) => error,
                    },
                };
                let error = error.context("after rows of the result had been given out");
                return Some((Err(to_datafusion(error)), (run, parts, batches, true)));
            }
        })
    }

    /// Takes note of a run that went to its end.
    fn ran_on_device(&self, brought: &Brought) {
        if let Some(key) = self.key.filter(|_| brought.report.is_warm()) {
            let is_with_host = brought.report.is_with_host;
            self.device.experience().took_on_device(key, is_with_host, self.started.elapsed());
        }
        let fetched = brought.fetched.iter().flatten().count();
        self.record(|outcome| {
            outcome.predicted.clone_from(&brought.predicted);
            outcome.report = Some(brought.report.clone());
            outcome.fetched = (fetched, brought.fetched_in);
        });
    }

    /// The plan for the CPU, to be run once: as it is for the first to ask, a copy for all others. Host inputs are
    /// subtrees of it and have run.
    fn cpu_plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let has_run = self.cpu_has_run.swap(true, Ordering::Relaxed) || !self.host_inputs.is_empty();
        let plan = if has_run { anew(&self.cpu)? } else { Arc::clone(&self.cpu) };
        self.results.in_plan(plan)
    }

    /// Runs on the device, up to the end or to the first rows that it gives out.
    pub(super) async fn on_device(&self, context: &Arc<TaskContext>) -> pelton_error::Result<Made> {
        let memory = MemoryConsumer::new("PeltonGpuExec").register(context.memory_pool());
        let parameters = self.parameters.iter().map(parameter_value).collect::<pelton_error::Result<_>>()?;
        let host_inputs = self.make_host_inputs(context, &memory).await?;
        let mut plan = self.plan.clone();
        for pipeline in &mut plan.pipelines {
            if let Source::HostInput(number) = pipeline.source {
                describe_by_rows(pipeline, &host_inputs[number]);
            }
        }
        let cancel = CancelOnDrop(match self.in_background {
            Some((_, key)) => CancelFlag::new().at_pace(TrialPace::of(Arc::clone(&self.device), key)),
            None => CancelFlag::new(),
        });
        let (device, flag) = (Arc::clone(&self.device), cancel.0.clone());
        let tracer = tracer(context, self.owner);
        let schema = match &self.of_groups {
            Some(of_groups) => Arc::clone(of_groups.aggregate_schema()),
            None => self.cpu.schema(),
        };
        let texts = late::KeyTexts {
            keys: self.key_texts.clone(),
            device: Arc::clone(&device),
            cancel: flag.clone(),
        };
        let conversion = Arc::new(Conversion {
            schema: Arc::clone(&schema),
            late: self.late.clone(),
            key_rows: self.key_rows.clone(),
            average_counts: self.average_counts.clone(),
            of_groups: self.of_groups.clone(),
            batch_rows: context.session_config().batch_size(),
            device: Arc::clone(&device),
            cancel: flag.clone(),
        });
        let (outlet, inlet) = rows_out::channel(&conversion, context);
        let converting = Arc::clone(&conversion);
        let gives_out = rows_out::may_be_given_out(&plan, &schema, &self.average_counts);
        let groups_enough = self.rows_enough.map(|rows| rows as u64);
        let host_bytes_max = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => Some(bytes as u64 / 2),
            _ => None,
        };
        let uses_host = self.uses_host;
        let work = move || {
            let inputs = Inputs { host_inputs, parameters };
            let rows_taker = gives_out.then_some(&outlet as &dyn TakeRows);
            let with = RunWith {
                tracer: tracer.as_ref(),
                rows_taker,
                host_bytes_max,
                groups_taker: Some(&outlet as &dyn TakeGroups),
                groups_enough,
                uses_host,
                texts: Some(&texts),
            };
            let runtime = device.runtime()?;
            let host_rows: Vec<usize> = inputs.host_inputs.iter().map(|rows| rows.row_count).collect();
            let predicted = predict(&plan, &device, &host_rows);
            let (mut rows, report) = runtime.run_with(&plan, inputs, &flag, with)?;
            // Of devices alone.
            if !report.is_with_host {
                learn(&device, &predicted, &report);
            }
            let started = Instant::now();
            let fetched = conversion.fetch(&mut rows)?;
            Ok::<_, Error>(Brought { rows, predicted, report, fetched, fetched_in: started.elapsed() })
        };
        let running = match self.in_background {
            Some((way, _)) => tokio::task::spawn_blocking(move || give_way(way, work)),
            None => tokio::task::spawn_blocking(work),
        };
        let mut parts = Parts { first: None, inlet, running, memory, _cancel: cancel };
        // Up to here nobody has any rows.
        if let Some(first) = parts.inlet.next().await {
            parts.first = Some(first?);
            return Ok(Made::InParts(parts));
        }
        let brought = ended(&mut parts.running).await?;
        self.ran_on_device(&brought);
        let Brought { rows, fetched, .. } = brought;
        parts.memory.try_grow(rows_bytes(&rows)).map_err(from_datafusion)?;
        converting.of_all(rows, fetched).map(Made::Whole)
    }

    /// Runs the plans of the host inputs, all at once.
    async fn make_host_inputs(
        &self,
        context: &Arc<TaskContext>,
        memory: &MemoryReservation,
    ) -> pelton_error::Result<Vec<Rows>> {
        let made = self.host_inputs.iter().zip(&self.children).map(|(host_input, plan)| async move {
            let batches = match self.in_background {
                Some((way, _)) => collect_in_background(way, Arc::clone(plan), Arc::clone(context)).await?,
                None => collect(Arc::clone(plan), Arc::clone(context)).await.map_err(from_datafusion)?,
            };
            let rows = host_input.rows(&batches)?;
            memory.try_grow(rows_bytes(&rows)).map_err(from_datafusion)?;
            Ok::<Rows, Error>(rows)
        });
        futures::future::try_join_all(made).await
    }

    fn record(&self, what: impl FnOnce(&mut Outcome)) {
        what(&mut self.outcome.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The rows of `plan`, computed by threads that give way: those of the session are for queries.
async fn collect_in_background(
    way: Way,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> pelton_error::Result<Vec<RecordBatch>> {
    let work = move || {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        let threads = threads.worker_threads(context.session_config().target_partitions()).enable_all();
        let threads = threads.build().context(|| "starting threads for a trial of the device".into())?;
        threads.block_on(collect(plan, context)).map_err(from_datafusion)
    };
    let mut running = tokio::task::spawn_blocking(move || give_way(way, work));
    ended(&mut running).await
}

/// Corrects predictions by what `report` says. Steps that were repeated, gave way to another query, or joined a table that
/// did not fit, say nothing of the next time.
fn learn(device: &DeviceHandle, predicted: &[StepPrediction], report: &RunReport) {
    for (step, ran) in predicted.iter().zip(&report.pipelines) {
        let has_spilled = ran.spilled_table_partitions + ran.partitions_joined > 0;
        if ran.repeats == 0 && ran.parked == 0 && !has_spilled {
            device.corrections().learn(&step.kind, step.model_s, ran.elapsed.as_secs_f64());
        }
    }
}

/// The value of a parameter now.
fn parameter_value(expr: &Arc<dyn PhysicalExpr>) -> pelton_error::Result<Literal> {
    let no_columns = RecordBatch::new_empty(Arc::new(Schema::empty()));
    match expr.evaluate(&no_columns).map_err(from_datafusion)? {
        ColumnarValue::Scalar(scalar) => value::parameter(&scalar),
        ColumnarValue::Array(_) => unreachable!("a scalar subquery has one value"),
    }
}

/// Whether the CPU may succeed where the device failed.
fn may_run_elsewhere(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unsupported | ErrorKind::OutOfMemory { .. } | ErrorKind::DeviceLost)
}

/// Host memory that `rows` take, without dictionaries, which are shared.
fn rows_bytes(rows: &Rows) -> usize {
    let width = |column: &pelton_pipeline::RowColumn| match column.values.ty() {
        pelton_pipeline::ir::Type::Bool => 1,
        pelton_pipeline::ir::Type::I32 | pelton_pipeline::ir::Type::Text => 4,
        pelton_pipeline::ir::Type::I64 | pelton_pipeline::ir::Type::F64 => 8,
        pelton_pipeline::ir::Type::I128 => 16,
    };
    rows.columns.iter().map(|column| column.values.len() * width(column)).sum()
}
