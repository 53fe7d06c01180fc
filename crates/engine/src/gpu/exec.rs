//! The plan node of a subtree that runs on a device.
//!
//! ```text
//!   execute ─▶ host inputs (plans of the CPU) ─▶ the run (run.rs) ─▶ rows ─▶ batches
//!                                                      │ refused, no memory, device lost
//!                                                      └▶ the subtree as planned, on the CPU; the reason is kept
//! ```
//!
//! Rows go out before the run is complete only where nothing can make the CPU look at them again ([`rows_out`](super::rows_out)), so
//! falling back never gives a row twice. Dropping the stream cancels
//! the run. Damaged data, invalid input and cancellation are errors of the query, on the CPU as here.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;
use pelton_exec::RunReport;
use pelton_pipeline::ir::Plan;

use super::again::anew;
use super::background::Way;
use super::cost::{StepPrediction, predict};
use super::device::DeviceHandle;
use super::host_input::HostInput;
use super::lower::Lowered;
use super::of_groups::OfGroups;
use super::run::{Made, Run, ended};
use super::trial::try_with_host;
use super::value::LateText;
use crate::error::from_datafusion;
use crate::plan_copy::NewResults;
use crate::same_rows::then_run;
use crate::scan::{PeltonScanExec, ScanReport};

/// What became of the latest execution.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What the device did, where it ran to the end.
    pub(super) report: Option<RunReport>,
    /// How many of its columns are texts that were fetched, and how long that took.
    pub(super) fetched: (usize, Duration),
    /// What was predicted of each pipeline before it ran.
    pub(super) predicted: Vec<StepPrediction>,
    /// Why the CPU ran it instead, where it did.
    pub(super) fallback: Option<String>,
    /// What the CPU ran.
    pub(super) ran_instead: Option<Arc<dyn ExecutionPlan>>,
}

/// What a pipeline on a device was predicted to take before it ran, and what it took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// What rates alone say, in seconds.
    pub model_s: f64,
    /// Predicted, in seconds.
    pub predicted_s: f64,
    /// Taken, in seconds, without writing and compiling its source.
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
        let (model_s, predicted_s) = (predicted.model_s, predicted.predicted_s);
        Some(StepTime { model_s, predicted_s, took_s: ran.elapsed.as_secs_f64() })
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
    key_texts: Vec<Option<LateText>>,
    key_rows: Vec<(usize, usize)>,
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
    /// So many rows are enough for what is above, whichever they are.
    rows_enough: Option<usize>,
    /// What the host's cores do beside the device.
    cores: Cores,
}

/// What the host's cores do beside a device that runs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    /// Nothing.
    Unused,
    /// The same, but it is tried out afterwards whether both together are faster.
    ToTry,
    /// They take some of the rows.
    Used,
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
            key_texts: lowered.key_texts,
            key_rows: lowered.key_rows,
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
            rows_enough: None,
            cores: Cores::Unused,
        }
    }

    /// This node, of whose rows this is known.
    pub(super) fn with_properties(mut self, known: EquivalenceProperties) -> Self {
        let properties = PlanProperties::clone(&self.properties).with_eq_properties(known);
        self.properties = Arc::new(properties);
        self
    }

    /// This node, chosen because of what was learnt of `key`.
    pub(super) fn learnt(mut self, key: u64, reason: String) -> Self {
        (self.key, self.reason) = (Some(key), reason);
        self
    }

    /// This node, for which the host's cores do this.
    pub(super) fn with_cores(mut self, cores: Cores) -> Self {
        self.cores = cores;
        self
    }

    /// This node, of whose rows so many are enough. More may come.
    pub(super) fn with_rows_enough(&self, rows: usize) -> Self {
        Self { rows_enough: Some(rows.max(1)), ..self.copy_with(self.children.clone()) }
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

    /// Whether the CPU goes on with these rows faster if they are dealt to all its cores, as far as is known.
    pub(super) fn is_worth_dealing(&self) -> bool {
        self.estimated_rows.is_none_or(|rows| rows >= self.device.dealt_rows_min() as f64)
    }

    /// The device that it runs on.
    pub(crate) fn device(&self) -> &Arc<DeviceHandle> {
        &self.device
    }

    /// What each pipeline is predicted to take now, in seconds.
    pub(super) fn predictions(&self) -> Vec<f64> {
        let steps = predict(&self.plan, &self.device, &[]);
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
            key_texts: self.key_texts.clone(),
            key_rows: self.key_rows.clone(),
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
            rows_enough: self.rows_enough,
            cores: self.cores,
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
    pub(super) async fn try_run(
        &self,
        (way, key): (Way, u64),
        cores: Cores,
        context: &Arc<TaskContext>,
    ) -> pelton_error::Result<Tried> {
        let anew = self.children.iter().map(anew).collect::<Result<Vec<_>>>().map_err(from_datafusion)?;
        let copy = self.copy_with(anew).with_cores(cores);
        let started = Instant::now();
        let report = match copy.run().in_background(way, key).on_device(context).await? {
            Made::Whole(_) => copy.run_report(),
            Made::InParts(mut parts) => {
                while let Some(batches) = parts.next().await {
                    batches?;
                }
                Some(ended(&mut parts.running).await?.report)
            }
        };
        let elapsed = started.elapsed();
        let is_warm = report.as_ref().is_some_and(RunReport::is_warm);
        Ok(Tried { elapsed, is_warm, is_with_host: report.is_some_and(|report| report.is_with_host) })
    }

    /// The scans of [`scan_reports`](Self::scan_reports): the pipeline that each is the source of.
    pub(crate) fn scan_pipelines(&self) -> impl Iterator<Item = usize> {
        self.scans.iter().map(|(pipeline, _)| *pipeline)
    }

    /// What the latest execution did on the device, where it ran there to the end.
    pub fn run_report(&self) -> Option<RunReport> {
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
            key_texts: self.key_texts.clone(),
            key_rows: self.key_rows.clone(),
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
            in_background: None,
            rows_enough: self.rows_enough,
            uses_host: self.cores == Cores::Used,
        }
    }
}

/// A run that was a trial.
pub(super) struct Tried {
    pub(super) elapsed: Duration,
    /// Whether a repetition would take as long.
    pub(super) is_warm: bool,
    /// The host's cores took some of the rows.
    pub(super) is_with_host: bool,
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

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.copy_with(self.children.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        assert_eq!(partition, 0, "one partition");
        let stream = futures::stream::once(self.run().stream(Arc::clone(&context))).try_flatten();
        let (Cores::ToTry, Some(key)) = (self.cores, self.key) else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)));
        };
        let candidate = Arc::new(self.copy_with(self.children.clone()));
        let stream = then_run(stream, async move {
            tokio::spawn(try_with_host(candidate, key, context));
        });
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
