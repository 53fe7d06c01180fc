//! The operator that gives the rows of a shared subtree at one of its places.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::StreamExt;

use super::rows::{Making, read};
use crate::gpu::{PeltonGpuExec, anew};

/// What the places of one subtree have in common.
pub(crate) struct Sharing {
    /// How many there are.
    places: AtomicUsize,
    /// Nothing but the rows is at most of the places: devices do not look through any.
    is_opaque: bool,
    /// What makes the rows, once all of the plan is made: see [`tied`].
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
    /// The subtree as it was planned first, and how many rows there may be.
    planned: OnceLock<Arc<dyn ExecutionPlan>>,
    estimate: OnceLock<Option<f64>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Somebody has asked for rows, and not all have had them.
    making: Option<Arc<Making>>,
    /// The plan has been run.
    has_run: bool,
    /// Places and partitions that have had their rows.
    served: HashSet<(usize, usize)>,
}

impl Sharing {
    /// Of a subtree that is in so many places.
    pub(super) fn new(places: usize, is_opaque: bool) -> Self {
        Self {
            places: AtomicUsize::new(places),
            is_opaque,
            plan: OnceLock::new(),
            planned: OnceLock::new(),
            estimate: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// As many for another run.
    fn anew(&self) -> Self {
        let (planned, estimate) = (self.planned.clone(), self.estimate.clone());
        Self { planned, estimate, ..Self::new(self.places(), self.is_opaque) }
    }

    fn places(&self) -> usize {
        self.places.load(Ordering::Relaxed)
    }

    /// How many rows there may be. Other places are planned before the subtree is at times, and ask later.
    fn estimate(&self) -> Option<f64> {
        let planned = self.planned.get()?;
        *self.estimate.get_or_init(|| pelton_planner::estimated_rows(planned))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows, which are made from the first call on. They are made anew for whoever comes once everybody has had them: a
    /// plan that falls back to the CPU, say.
    fn making(
        &self,
        own: Option<&Arc<dyn ExecutionPlan>>,
        metrics: &SpillMetrics,
        context: &Arc<TaskContext>,
    ) -> Result<Arc<Making>> {
        let mut state = self.state();
        if let Some(making) = &state.making {
            return Ok(Arc::clone(making));
        }
        // Of places that a device looked through, only those of the plan that the CPU falls back to have it.
        let plan = self.plan.get().or(own).ok_or_else(|| {
            DataFusionError::Internal("rows that are shared have no plan that makes them".to_owned())
        })?;
        let plan = if state.has_run { anew(plan)? } else { Arc::clone(plan) };
        let making = Arc::new(Making::start(&plan, metrics, context)?);
        (state.making, state.has_run) = (Some(Arc::clone(&making)), true);
        Ok(making)
    }

    /// Lets go of the rows with the last of so many `partitions` of all places.
    fn has_served(&self, place: usize, partition: usize, partitions: usize) {
        let mut state = self.state();
        state.served.insert((place, partition));
        if state.served.len() >= self.places() * partitions {
            state.served.clear();
            let made = state.making.take();
            drop(state);
            drop(made);
        }
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("places", &self.places()).finish_non_exhaustive()
    }
}

/// Gives the rows of a subtree at one of its places. While the plan is made, rules may see the subtree at several of them;
/// then the first keeps it as its input, whoever runs it.
#[derive(Debug)]
pub(crate) struct SharedExec {
    sharing: Arc<Sharing>,
    place: usize,
    input: Option<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    /// At `place`; rows are dealt to so many `partitions`.
    pub(super) fn new(sharing: Arc<Sharing>, place: usize, schema: SchemaRef, partitions: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        Self { sharing, place, input: None, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// This place, over the subtree.
    pub(super) fn with_input(self, input: Arc<dyn ExecutionPlan>) -> Self {
        self.sharing.planned.get_or_init(|| Arc::clone(&input));
        Self { input: Some(input), ..self }
    }

    /// The subtree, for a device that computes it as often as it is there, or shares it in a way of its own.
    pub(crate) fn seen_through(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.input.as_ref().filter(|_| !self.sharing.is_opaque)
    }

    /// What makes the rows, here or at another place, as far as it is planned: for estimates.
    pub(crate) fn made_by(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        let elsewhere = || self.sharing.plan.get().or(self.sharing.planned.get());
        self.input.as_ref().or_else(elsewhere)
    }

    /// What all places have in common.
    fn sharing(&self) -> &Arc<Sharing> {
        &self.sharing
    }

    /// This place among those of another `sharing`.
    fn among(&self, sharing: &Arc<Sharing>) -> Self {
        self.copy(self.input.clone(), sharing)
    }

    fn copy(&self, input: Option<Arc<dyn ExecutionPlan>>, sharing: &Arc<Sharing>) -> Self {
        Self {
            sharing: Arc::clone(sharing),
            place: self.place,
            input,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.sharing.places();
        match &self.input {
            Some(_) => write!(f, "SharedExec: computed once, used {places} times"),
            None => write!(f, "SharedExec: computed elsewhere"),
        }
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.iter().collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.input.iter().len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.copy(children.pop(), &self.sharing)))
    }

    /// The rows that are shared stay as they are.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.copy(self.input.clone(), &self.sharing)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.output_partitioning().partition_count();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let spilling = SpillMetrics::new(&self.metrics, partition);
        let making = self.sharing.making(self.input.as_ref(), &spilling, &context)?;
        let served = Served { sharing: Arc::clone(&self.sharing), place: self.place, partition, partitions };
        let schema = self.schema();
        let rows = read(making, partition, partitions).map(move |batch| {
            let _until_the_end = &served;
            let batch = batch?;
            baseline.output_rows().add(batch.num_rows());
            as_of(&schema, batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::Skip; self.input.iter().len()]
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let all = self.sharing.estimate();
        let partitions = self.properties.output_partitioning().partition_count();
        let share = if args.partition().is_some() { partitions as f64 } else { 1.0 };
        let num_rows =
            all.map_or(Precision::Absent, |rows| Precision::Inexact((rows / share).ceil() as usize));
        let columns = self.schema().fields().iter().map(|_| ColumnStatistics::new_unknown()).collect();
        let total_byte_size = Precision::Absent;
        Ok(Arc::new(Statistics { num_rows, total_byte_size, column_statistics: columns }))
    }
}

/// `batch` as rows of `schema`, which says the same of it in other words at times.
fn as_of(schema: &SchemaRef, batch: RecordBatch) -> Result<RecordBatch> {
    match batch.schema_ref() == schema {
        true => Ok(batch),
        false => Ok(batch.with_schema(Arc::clone(schema))?),
    }
}

/// Says so once a partition of a place has had its rows, or nobody wants more of them.
struct Served {
    sharing: Arc<Sharing>,
    place: usize,
    partition: usize,
    partitions: usize,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.sharing.has_served(self.place, self.partition, self.partitions);
    }
}

/// `plan`, in which one place of each subtree that is shared has it, now that no rule makes another plan of it. A subtree
/// with one place left, since a device runs the others, is no longer shared.
///
/// # Errors
///
/// Of operators that refuse their new inputs.
pub(crate) fn tied(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut found = Vec::new();
    let plan = with_one_place(plan, &mut found)?;
    for (sharing, count) in &found {
        sharing.places.store(*count, Ordering::Relaxed);
    }
    if found.iter().all(|(_, count)| *count > 1) {
        return Ok(plan);
    }
    let alone = plan.transform_up(|node| match node.downcast_ref::<SharedExec>() {
        Some(SharedExec { sharing, input: Some(input), .. }) if sharing.places() == 1 => {
            Ok(Transformed::yes(Arc::clone(input)))
        }
        _ => Ok(Transformed::no(node)),
    })?;
    Ok(alone.data)
}

/// `plan` with each subtree at the first place that has it; counts all places.
fn with_one_place(
    plan: Arc<dyn ExecutionPlan>,
    found: &mut Vec<(Arc<Sharing>, usize)>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(shared) = plan.downcast_ref::<SharedExec>() {
        let known = found.iter_mut().find(|(sharing, _)| Arc::ptr_eq(sharing, &shared.sharing));
        match known {
            Some((_, count)) => *count += 1,
            None => found.push((Arc::clone(&shared.sharing), 1)),
        }
        return Ok(match &shared.input {
            Some(input) if shared.sharing.plan.get().is_none() => {
                let tied = with_one_place(Arc::clone(input), found)?;
                let _ = shared.sharing.plan.set(Arc::clone(&tied));
                if Arc::ptr_eq(&tied, input) {
                    plan
                } else {
                    Arc::new(shared.copy(Some(tied), &shared.sharing))
                }
            }
            Some(_) => Arc::new(shared.copy(None, &shared.sharing)),
            None => plan,
        });
    }
    let children = plan.children().into_iter().map(|child| with_one_place(Arc::clone(child), found));
    let children = children.collect::<Result<Vec<_>>>()?;
    if children.is_empty() {
        return Ok(plan);
    }
    replace_children_if_necessary(plan, children)
}

/// The physical rule that [ties](tied).
#[derive(Debug)]
pub(crate) struct SharedPlans;

impl PhysicalOptimizerRule for SharedPlans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.exists(|node| Ok(node.is::<SharedExec>()))? {
            true => tied(plan),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "pelton_shared_plans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// For what the places of subtrees in a plan have in common, what those of a copy have.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewSharing(Vec<(Arc<Sharing>, Arc<Sharing>)>);

impl NewSharing {
    /// Of all that is shared in `plan`, and in what the CPU falls back to where a device refuses.
    ///
    /// # Errors
    ///
    /// None of its own; those of walking a plan.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut found = Self::default();
        found.add(plan)?;
        Ok(found)
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        plan.apply(|node| {
            if let Some(shared) = node.downcast_ref::<SharedExec>()
                && !self.is_old(shared)
            {
                self.0.push((Arc::clone(&shared.sharing), Arc::new(shared.sharing.anew())));
            }
            if let Some(device) = node.downcast_ref::<PeltonGpuExec>() {
                self.add(device.planned())?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These, and `later`, which stand in place of some of these.
    pub(crate) fn then(&self, later: &Self) -> Self {
        Self(self.0.iter().chain(&later.0).cloned().collect())
    }

    /// Whether `node` is among the places of the old plan.
    pub(crate) fn is_old(&self, node: &SharedExec) -> bool {
        self.0.iter().any(|(old, _)| Arc::ptr_eq(old, &node.sharing))
    }

    /// `node` among the places of the copy.
    pub(crate) fn in_node(&self, node: &SharedExec) -> SharedExec {
        let mut now = node.sharing();
        for (old, new) in &self.0 {
            now = if Arc::ptr_eq(now, old) { new } else { now };
        }
        node.among(now)
    }
}
