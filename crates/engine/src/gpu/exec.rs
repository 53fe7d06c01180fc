//! The plan node of a subtree that runs on a device.
//!
//! ```text
//!   execute ─▶ host inputs (plans of the CPU) ─▶ Runtime::run, off the async threads ─▶ rows ─▶ batches
//!                                                      │ refused, no memory, device lost
//!                                                      └▶ the subtree as planned, on the CPU; the reason is kept
//! ```
//!
//! Rows go out before the run is complete only where nothing can make the CPU look at them again ([`rows_out`]), so
//! falling back never gives a row twice. Dropping the stream cancels
//! the run. Damaged data, invalid input and cancellation are errors of the query, on the CPU as here.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ColumnarValue, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    collect, execute_stream,
};
use futures::{Stream, StreamExt, TryStreamExt};
use pelton_error::{CancelFlag, Error, ErrorKind};
use pelton_exec::{RunReport, RunWith, TakeRows};
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{Inputs, Literal, Plan, Source};
use tokio::task::JoinHandle;

use super::again::anew;
use super::cost::{StepPrediction, predict};
use super::device::DeviceHandle;
use super::host_input::{HostInput, describe_by_rows};
use super::lower::Lowered;
use super::of_groups::OfGroups;
use super::rows_out::{self, Conversion, Inlet};
use super::value::LateText;
use super::{late, result, value};
use crate::error::{from_datafusion, to_datafusion};
use crate::plan_copy::NewResults;
use crate::profile::tracer;
use crate::scan::{PeltonScanExec, ScanReport};

/// What became of the latest execution.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What the device did, where it ran to the end.
    pub(super) report: Option<RunReport>,
    /// How many of its columns are texts that were fetched, and how long that took.
    pub(super) fetched: (usize, Duration),
    /// What was predicted of each pipeline before it ran.
    predicted: Vec<StepPrediction>,
    /// Why the CPU ran it instead, where it did.
    pub(super) fallback: Option<String>,
    /// What the CPU ran.
    ran_instead: Option<Arc<dyn ExecutionPlan>>,
}

/// What a pipeline on a device was predicted to take before it ran, and what it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// Predicted, in seconds.
    pub predicted_s: f64,
    /// Taken, in seconds, without compiling.
    pub took_s: f64,
}

impl StepTime {
    /// What it took in terms of what was predicted.
    pub fn ratio(&self) -> f64 {
        self.took_s / self.predicted_s
    }
}

impl fmt::Display for StepTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (predicted_ms, took_ms) = (self.predicted_s * 1e3, self.took_s * 1e3);
        write!(f, "predicted {predicted_ms:.2} ms, took {took_ms:.2} ms, ratio {:.2}", self.ratio())
    }
}

impl Outcome {
    /// The times of pipeline `number`, where it ran.
    pub(super) fn step_time(&self, number: usize) -> Option<StepTime> {
        let (predicted, ran) = (self.predicted.get(number)?, self.report.as_ref()?.pipelines.get(number)?);
        Some(StepTime { predicted_s: predicted.predicted_s, took_s: ran.elapsed.as_secs_f64() })
    }
}

/// A subtree that runs on a device.
#[derive(Debug)]
pub struct PeltonGpuExec {
    plan: Plan,
    host_inputs: Vec<HostInput>,
    /// The plans of the host inputs.
    children: Vec<Arc<dyn ExecutionPlan>>,
    scans: Vec<(usize, PeltonScanExec)>,
    parameters: Vec<Arc<dyn PhysicalExpr>>,
    late: Vec<Option<LateText>>,
    average_counts: Vec<usize>,
    of_groups: Option<Arc<OfGroups>>,
    /// The subtree as it was planned.
    cpu: Arc<dyn ExecutionPlan>,
    device: Arc<DeviceHandle>,
    /// Why this runs here, for EXPLAIN.
    reason: String,
    estimated_rows: Option<f64>,
    /// Whether `cpu` has been run, by this node or by one that it shares it with.
    cpu_has_run: Arc<AtomicBool>,
    /// What expressions of `cpu` are to read in place of the results that they do; all else here reads these already.
    results: NewResults,
    outcome: Arc<Mutex<Outcome>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What `auto` calls it, which learns from its runs.
    key: Option<u64>,
}

impl PeltonGpuExec {
    /// Runs `lowered` in place of `cpu`; `children` make the host inputs, in their order.
    pub(super) fn new(
        lowered: Lowered,
        children: Vec<Arc<dyn ExecutionPlan>>,
        cpu: Arc<dyn ExecutionPlan>,
        device: Arc<DeviceHandle>,
        reason: String,
    ) -> Self {
        assert_eq!(lowered.host_inputs.len(), children.len());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(lowered.schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            plan: lowered.plan,
            host_inputs: lowered.host_inputs,
            children,
            scans: lowered.scans,
            parameters: lowered.parameters,
            late: lowered.late,
            average_counts: lowered.average_counts,
            of_groups: lowered.of_groups.map(Arc::new),
            estimated_rows: pelton_planner::estimated_rows(&cpu),
            cpu,
            device,
            reason,
            cpu_has_run: Arc::default(),
            results: NewResults::default(),
            outcome: Arc::default(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            key: None,
        }
    }

    /// This node, chosen because of what was learnt of `key`.
    pub(super) fn learnt(mut self, key: u64, reason: String) -> Self {
        (self.key, self.reason) = (Some(key), reason);
        self
    }

    /// The pipelines.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What the host computes of the groups that come out.
    pub(super) fn host_texts(&self) -> Vec<String> {
        self.of_groups.as_ref().map(|of_groups| of_groups.texts()).unwrap_or_default()
    }

    /// Why this runs on the device.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// The device that it runs on.
    pub(crate) fn device(&self) -> &Arc<DeviceHandle> {
        &self.device
    }

    /// What each pipeline is predicted to take now, in seconds; nothing where the tables cannot be read.
    pub(super) fn predictions(&self) -> Vec<f64> {
        let steps = predict(&self.plan, &self.device, &[]).unwrap_or_default();
        steps.into_iter().map(|step| step.predicted_s).collect()
    }

    /// Of each pipeline, what the latest execution was predicted to take on the device and what it took.
    pub fn step_times(&self) -> Vec<StepTime> {
        self.with_outcome(|outcome| {
            (0..self.plan.pipelines.len()).filter_map(|number| outcome.step_time(number)).collect()
        })
    }

    /// Asks about the latest execution.
    pub(super) fn with_outcome<T>(&self, ask: impl FnOnce(&Outcome) -> T) -> T {
        ask(&self.outcome.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why the CPU ran the latest execution after all, where it did.
    pub fn fallback_reason(&self) -> Option<String> {
        self.with_outcome(|outcome| outcome.fallback.clone())
    }

    /// How often the latest execution gave its device memory to an older query and waited.
    pub fn times_parked(&self) -> usize {
        let of = |report: &RunReport| report.pipelines.iter().map(|pipeline| pipeline.parked).sum();
        self.with_outcome(|outcome| outcome.report.as_ref().map_or(0, of))
    }

    /// The subtree as it was planned for the CPU.
    pub(crate) fn planned(&self) -> &Arc<dyn ExecutionPlan> {
        &self.cpu
    }

    /// What was run instead of this, if the device did not.
    pub(crate) fn fallback_plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.with_outcome(|outcome| outcome.ran_instead.clone())
    }

    /// What its scans skipped and read; after execution with what the run counted.
    pub(crate) fn scan_reports(&self) -> Result<Vec<ScanReport>> {
        let of_scan = |(pipeline, scan): &(usize, PeltonScanExec)| {
            let mut report = scan.report()?;
            self.with_outcome(|outcome| {
                let Some(ran) = outcome.report.as_ref().and_then(|run| run.pipelines.get(*pipeline)) else {
                    return;
                };
                report.bytes_read = ran.disk_bytes;
                report.io = scan.device_io_text(ran.disk_bytes);
                report.pinned_bytes = ran.pinned_bytes;
                report.device_bytes = ran.device_bytes;
                report.row_groups_read =
                    (scan.row_groups().len() as u64).saturating_sub(ran.row_groups_skipped);
                report.output_rows = ran.rows_in;
                report.bytes_decoded = ran.raw_bytes;
            });
            Ok(report)
        };
        self.scans.iter().map(of_scan).collect()
    }

    /// This node over these plans of host inputs, as if it had never run.
    fn copy_with(&self, children: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        Self {
            plan: self.plan.clone(),
            host_inputs: self.host_inputs.clone(),
            children,
            scans: self.scans.clone(),
            parameters: self.parameters.clone(),
            late: self.late.clone(),
            average_counts: self.average_counts.clone(),
            of_groups: self.of_groups.clone(),
            cpu: Arc::clone(&self.cpu),
            device: Arc::clone(&self.device),
            reason: self.reason.clone(),
            estimated_rows: self.estimated_rows,
            cpu_has_run: Arc::clone(&self.cpu_has_run),
            results: self.results.clone(),
            outcome: Arc::default(),
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            key: self.key,
        }
    }

    /// The values that the pipelines are given, such as the results of scalar subqueries.
    pub(crate) fn parameters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.parameters
    }

    /// A copy that reads `results`.
    ///
    /// # Errors
    ///
    /// Of DataFusion's expressions, where they are not put together again.
    pub(crate) fn with_results(&self, results: &NewResults) -> Result<Self> {
        let mut copy = self.copy_with(self.children.clone());
        copy.read(results)?;
        copy.results = self.results.then(results);
        Ok(copy)
    }

    /// As [`with_results`](Self::with_results), with a plan of the CPU of its own. That is never run itself, so nothing
    /// that a run leaves behind is kept with it.
    ///
    /// # Errors
    ///
    /// Likewise, and of operators.
    pub(crate) fn to_keep(&self, results: &NewResults) -> Result<Self> {
        let mut copy = self.copy_with(self.children.clone());
        copy.read(results)?;
        for (host_input, child) in copy.host_inputs.iter_mut().zip(&copy.children) {
            host_input.plan = Arc::clone(child);
        }
        copy.results = NewResults::default();
        copy.cpu = results.copy_for_keeping(&self.results.in_plan(Arc::clone(&self.cpu))?)?;
        copy.cpu_has_run = Arc::new(AtomicBool::new(true));
        Ok(copy)
    }

    /// Makes parameters and scans read `results`.
    fn read(&mut self, results: &NewResults) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        for parameter in &mut self.parameters {
            *parameter = results.in_expr(parameter)?;
        }
        for (_, scan) in &mut self.scans {
            *scan = scan.with_results(results)?;
        }
        Ok(())
    }

    /// The scans, each with the number of its pipeline.
    pub(super) fn scans(&self) -> &[(usize, PeltonScanExec)] {
        &self.scans
    }

    /// Runs on the device alone, after the plan of the CPU has run, and drops what comes out; gives how long that took.
    ///
    /// # Errors
    ///
    /// Where the device refuses or fails.
    pub(super) async fn try_run(&self, context: &Arc<TaskContext>) -> pelton_error::Result<Tried> {
        let anew = self.children.iter().map(anew).collect::<Result<Vec<_>>>().map_err(from_datafusion)?;
        let copy = self.copy_with(anew);
        let started = Instant::now();
        let report = match copy.run().on_device(context).await? {
            Made::Whole(_) => copy.run_report(),
            Made::InParts(mut parts) => {
                while let Some(batches) = parts.next().await {
                    batches?;
                }
                Some(ended(&mut parts.running).await?.report)
            }
        };
        Ok(Tried { elapsed: started.elapsed(), is_warm: report.is_some_and(|report| report.is_warm()) })
    }

    /// The scans of [`scan_reports`](Self::scan_reports): the pipeline that each is the source of.
    pub(crate) fn scan_pipelines(&self) -> impl Iterator<Item = usize> {
        self.scans.iter().map(|(pipeline, _)| *pipeline)
    }

    /// What the latest execution did on the device, where it ran there to the end.
    pub(crate) fn run_report(&self) -> Option<RunReport> {
        self.with_outcome(|outcome| outcome.report.clone())
    }

    /// The run to make, apart from this node.
    fn run(&self) -> Run {
        Run {
            started: Instant::now(),
            plan: self.plan.clone(),
            host_inputs: self.host_inputs.clone(),
            children: self.children.clone(),
            parameters: self.parameters.clone(),
            late: self.late.clone(),
            average_counts: self.average_counts.clone(),
            of_groups: self.of_groups.clone(),
            cpu: Arc::clone(&self.cpu),
            cpu_has_run: Arc::clone(&self.cpu_has_run),
            results: self.results.clone(),
            device: Arc::clone(&self.device),
            outcome: Arc::clone(&self.outcome),
            metrics: self.metrics.clone(),
            key: self.key,
            owner: std::ptr::from_ref(self).addr(),
        }
    }
}

/// A run that was a trial.
pub(super) struct Tried {
    pub(super) elapsed: Duration,
    /// Whether a repetition would take as long.
    pub(super) is_warm: bool,
}

/// What comes of a run on the device.
enum Made {
    /// All rows, after its end.
    Whole(Vec<RecordBatch>),
    /// Rows while it goes on.
    InParts(Parts),
}

/// What a run brings to the host in the end: rows that it has not given out, and texts of them.
struct Brought {
    rows: Rows,
    predicted: Vec<StepPrediction>,
    report: RunReport,
    fetched: Vec<Option<ArrayRef>>,
    /// How long the texts took.
    fetched_in: Duration,
}

/// A run that gives out rows.
struct Parts {
    first: Option<Vec<RecordBatch>>,
    inlet: Inlet,
    running: JoinHandle<pelton_error::Result<Brought>>,
    /// Of host inputs.
    memory: MemoryReservation,
    _cancel: CancelOnDrop,
}

impl Parts {
    async fn next(&mut self) -> Option<pelton_error::Result<Vec<RecordBatch>>> {
        match self.first.take() {
            Some(first) => Some(Ok(first)),
            None => self.inlet.next().await,
        }
    }
}

/// How `running` ended.
async fn ended(running: &mut JoinHandle<pelton_error::Result<Brought>>) -> pelton_error::Result<Brought> {
    running.await.map_err(|error| {
        // A panic of the run is a bug, and stays one.
        match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Error::cancelled(),
        }
    })?
}

/// One execution.
struct Run {
    started: Instant,
    plan: Plan,
    host_inputs: Vec<HostInput>,
    children: Vec<Arc<dyn ExecutionPlan>>,
    parameters: Vec<Arc<dyn PhysicalExpr>>,
    late: Vec<Option<LateText>>,
    average_counts: Vec<usize>,
    of_groups: Option<Arc<OfGroups>>,
    cpu: Arc<dyn ExecutionPlan>,
    cpu_has_run: Arc<AtomicBool>,
    results: NewResults,
    device: Arc<DeviceHandle>,
    outcome: Arc<Mutex<Outcome>>,
    metrics: ExecutionPlanMetricsSet,
    /// What `auto` calls it.
    key: Option<u64>,
    /// Where the node is: whose spans a trace gets.
    owner: usize,
}

/// Asks for the stop of a run that nobody waits for any more.
struct CancelOnDrop(CancelFlag);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Run {
    /// The result as a stream: of the device or, where that refuses before its first rows are out, of the CPU.
    async fn stream(mut self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
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
            self.device.experience().took_on_device(key, self.started.elapsed());
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
    async fn on_device(&self, context: &Arc<TaskContext>) -> pelton_error::Result<Made> {
        let memory = MemoryConsumer::new("PeltonGpuExec").register(context.memory_pool());
        let parameters = self.parameters.iter().map(parameter_value).collect::<pelton_error::Result<_>>()?;
        let host_inputs = self.make_host_inputs(context, &memory).await?;
        let mut plan = self.plan.clone();
        for pipeline in &mut plan.pipelines {
            if let Source::HostInput(number) = pipeline.source {
                describe_by_rows(pipeline, &host_inputs[number]);
            }
        }
        let cancel = CancelOnDrop(CancelFlag::new());
        let (device, flag) = (Arc::clone(&self.device), cancel.0.clone());
        let tracer = tracer(context, self.owner);
        let schema = match &self.of_groups {
            Some(of_groups) => Arc::clone(of_groups.aggregate_schema()),
            None => self.cpu.schema(),
        };
        let late = self.late.clone();
        let batch_rows = context.session_config().batch_size();
        let conversion = Conversion {
            schema: Arc::clone(&schema),
            late: late.clone(),
            batch_rows,
            device: Arc::clone(&device),
            cancel: flag.clone(),
        };
        let (outlet, inlet) = rows_out::channel(conversion, context);
        let gives_out = rows_out::may_be_given_out(&plan, &schema, &self.average_counts);
        let running = tokio::task::spawn_blocking(move || {
            let inputs = Inputs { host_inputs, parameters };
            let rows_taker = gives_out.then_some(&outlet as &dyn TakeRows);
            let with = RunWith { tracer: tracer.as_ref(), rows_taker };
            let runtime = device.runtime()?;
            let host_rows: Vec<usize> = inputs.host_inputs.iter().map(|rows| rows.row_count).collect();
            let predicted = predict(&plan, &device, &host_rows)?;
            let (rows, report) = runtime.run_with(&plan, inputs, &flag, with)?;
            learn(&device, &predicted, &report);
            let started = Instant::now();
            let fetched = late::fetch_all(&late, &rows, &schema, &late::Reader::of(&device, &flag))?;
            Ok::<_, Error>(Brought { rows, predicted, report, fetched, fetched_in: started.elapsed() })
        });
        let mut parts = Parts { first: None, inlet, running, memory, _cancel: cancel };
        // Up to here nobody has any rows.
        if let Some(first) = parts.inlet.next().await {
            parts.first = Some(first?);
            return Ok(Made::InParts(parts));
        }
        let brought = ended(&mut parts.running).await?;
        self.ran_on_device(&brought);
        let Brought { mut rows, fetched, .. } = brought;
        parts.memory.try_grow(rows_bytes(&rows)).map_err(from_datafusion)?;
        if let Some(of_groups) = &self.of_groups {
            return of_groups.batches(rows, fetched, batch_rows).map(Made::Whole);
        }
        result::counts_are_null_with_sums(&mut rows, &self.average_counts);
        result::batches(rows, fetched, &self.cpu.schema(), batch_rows).map(Made::Whole)
    }

    /// Runs the plans of the host inputs, all at once.
    async fn make_host_inputs(
        &self,
        context: &Arc<TaskContext>,
        memory: &MemoryReservation,
    ) -> pelton_error::Result<Vec<Rows>> {
        let made = self.host_inputs.iter().zip(&self.children).map(|(host_input, plan)| async move {
            let batches = collect(Arc::clone(plan), Arc::clone(context)).await.map_err(from_datafusion)?;
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

/// Corrects predictions by what `report` says. Steps that were repeated, or gave way to another query, say nothing of
/// the next time.
fn learn(device: &DeviceHandle, predicted: &[StepPrediction], report: &RunReport) {
    for (step, ran) in predicted.iter().zip(&report.pipelines) {
        if ran.repeats == 0 && ran.parked == 0 {
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

impl DisplayAs for PeltonGpuExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let device = match self.device.opened() {
            Some(runtime) => runtime.describe(),
            None => "not opened".to_owned(),
        };
        write!(f, "PeltonGpuExec: device={device}, pipelines={}", self.plan.pipelines.len())?;
        if !self.host_inputs.is_empty() {
            write!(f, ", host_inputs={}", self.host_inputs.len())?;
        }
        Ok(())
    }
}

impl ExecutionPlan for PeltonGpuExec {
    fn name(&self) -> &'static str {
        "PeltonGpuExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert_eq!(children.len(), self.host_inputs.len(), "one child per host input");
        Ok(Arc::new(self.copy_with(children)))
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        #[expect(deprecated)]
        self.with_new_children(children)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.copy_with(self.children.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        assert_eq!(partition, 0, "one partition");
        let stream = futures::stream::once(self.run().stream(context)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = self.estimated_rows.map_or(Precision::Absent, |rows| Precision::Inexact(rows as usize));
        let unknown = vec![ColumnStatistics::new_unknown(); self.schema().fields().len()];
        Ok(Arc::new(Statistics {
            num_rows: rows,
            total_byte_size: Precision::Absent,
            column_statistics: unknown,
        }))
    }
}
