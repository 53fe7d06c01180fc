//! Hash joins: of tables that all threads build, and whose build side need not fit into memory.
//!
//! ```text
//!   PeltonJoinExec       collects the build side
//!      │ it fits           keys that are integers ─▶ a table that all threads build (table.rs) and probe (probe.rs)
//!      │                   other keys             ─▶ HashJoinExec over what was collected
//!      │ it does not       build side and probe side go to files by the hash of their keys; then, pair by pair:
//!      │                      HashJoinExec where the build side or, in its place, the probe side fits
//!      │                      both into files again, by another hash, where neither does
//!      └                      blocks of the build side, each with all of the probe side, where that does not help:
//!                             one key, many times
//! ```
//!
//! Pairs of files are joined by DataFusion's own operator. A block is a build side of its own; that is right where only
//! rows of the build side can be left over, and other types change sides first. A full join is a left join by blocks, and
//! the rest of the probe side by blocks of that.
//!
//! Memory: what a build side takes is computed from its rows and bytes, held against a share of the limit, and reserved
//! from the pool; the joins inside reserve nothing. Rows come out in another order once files are used, so the node
//! promises none.
//!
//! DeWitt et al., "Implementation Techniques for Main Memory Database Systems", SIGMOD 1984, section 3.3 (Grace).

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    StatisticsArgs,
};
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt, TryStreamExt};
use tokio::sync::watch;

mod keys;
mod pairs;
mod probe;
mod slots;
mod start;
mod table;
mod told;

pub(crate) use keys::{Bounds, both_bounds, bounds_of};
use pairs::Lane;
use start::{Built, Start};
pub(crate) use told::bounds_as;

use crate::expected;

/// A join whose table all threads build, and that spills. See the module.
pub(crate) struct PeltonJoinExec {
    join: Arc<HashJoinExec>,
    /// Memory of all its partitions together.
    budget_bytes: usize,
    properties: Arc<PlanProperties>,
    /// Rows that are expected of it, once somebody asked.
    expected_rows: OnceLock<Option<usize>>,
    /// Of a join whose build side all partitions share.
    shared: Arc<Mutex<Shared>>,
    metrics: ExecutionPlanMetricsSet,
}

/// How far the build side that all partitions share has come.
#[derive(Default)]
enum Shared {
    #[default]
    None,
    /// It begins when a partition asks for rows: until then filters may arrive for it.
    ToBegin(Box<Start>),
    Begun(SharedBuilt),
}

/// A build side that a task of its own makes: its end wakes all partitions at once, wherever they were. Did one of them make
/// it, the others would wait behind that one, on its thread.
struct SharedBuilt {
    _task: SpawnedTask<()>,
    place: BuiltPlace,
    is_there: watch::Receiver<bool>,
}

/// Where a build side is put, and taken from again at the end of the join: its task may end later than that.
type BuiltPlace = Arc<Mutex<Option<std::result::Result<Arc<Built>, Arc<DataFusionError>>>>>;

impl Drop for SharedBuilt {
    fn drop(&mut self) {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl PeltonJoinExec {
    /// `join`, in at most about `budget_bytes`. `None` for what it cannot do: NOT IN with a further condition.
    pub(crate) fn new(join: Arc<HashJoinExec>, budget_bytes: usize) -> Option<Self> {
        if join.null_aware && join.filter().is_some() || *join.partition_mode() == PartitionMode::Auto {
            return None;
        }
        let of_join = join.properties();
        let mut equal = of_join.eq_properties.clone();
        equal.clear_orderings();
        let properties = PlanProperties::new(
            equal,
            of_join.partitioning.clone(),
            of_join.emission_type,
            of_join.boundedness,
        );
        let properties = Arc::new(properties);
        let metrics = ExecutionPlanMetricsSet::new();
        let expected_rows = OnceLock::new();
        Some(Self { join, budget_bytes, properties, expected_rows, shared: Arc::default(), metrics })
    }

    /// The join that it carries out.
    pub(crate) fn join(&self) -> &Arc<HashJoinExec> {
        &self.join
    }

    /// This, of `join` in place of its own.
    pub(crate) fn with_join(&self, join: HashJoinExec) -> Self {
        let is_alike = Arc::ptr_eq(join.properties(), self.join.properties());
        let new = Self::new(Arc::new(join), self.budget_bytes).expect("the sides were changed, not the join");
        // So that whoever is above it need not look at its properties again.
        let properties = if is_alike { Arc::clone(&self.properties) } else { Arc::clone(&new.properties) };
        Self { properties, ..new }
    }

    fn of(&self, join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let join: Arc<dyn Any + Send + Sync> = join;
        let join = join.downcast::<HashJoinExec>().ok().and_then(|join| Self::new(join, self.budget_bytes));
        let lost = || DataFusionError::Internal("a join became something else".to_owned());
        Ok(Arc::new(join.ok_or_else(lost)?))
    }

    /// What begins it for the partitions `rights`, in `budget_bytes`.
    fn start(&self, left: usize, rights: Vec<usize>, context: &Arc<TaskContext>) -> Start {
        let partitions = self.properties.partitioning.partition_count().max(1);
        let budget_bytes = match self.join.partition_mode() {
            PartitionMode::Partitioned => self.budget_bytes / partitions,
            _ => self.budget_bytes,
        };
        let name = format!("SpillingJoin[{left}]");
        let reservation = MemoryConsumer::new(name).with_can_spill(true).register(context.memory_pool());
        Start {
            join: Arc::clone(&self.join),
            left,
            rights,
            budget_bytes,
            context: Arc::clone(context),
            spilled: SpillMetrics::new(&self.metrics, left),
            metrics: self.metrics.clone(),
            reservation,
        }
    }

    /// Rows that the planner expects of it, of all partitions.
    fn expected_rows(&self) -> Option<usize> {
        let join: Arc<dyn ExecutionPlan> = Arc::clone(&self.join) as _;
        *self.expected_rows.get_or_init(|| expected::rows(&expected::estimates(), &join))
    }

    /// The build side that all partitions share, once it is there; the first that polls this begins it.
    fn shared(&self, context: &Arc<TaskContext>) -> impl Future<Output = Result<Arc<Built>>> + use<> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*shared, Shared::None) {
            let rights = (0..self.properties.partitioning.partition_count()).collect();
            *shared = Shared::ToBegin(Box::new(self.start(0, rights, context)));
        }
        let shared = Arc::clone(&self.shared);
        async move {
            let (place, mut is_there) = begun(&shared)?;
            // Where the task was aborted or has panicked, nothing is there.
            let _ = is_there.wait_for(|is_there| *is_there).await;
            let built = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let lost = || DataFusionError::Internal("the build side of a join was given up".to_owned());
            built.ok_or_else(lost)?.map_err(DataFusionError::Shared)
        }
    }
}

/// Where the build side will be, and how to know; its task is begun if nobody has.
fn begun(shared: &Mutex<Shared>) -> Result<(BuiltPlace, watch::Receiver<bool>)> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*shared, Shared::ToBegin(_))
        && let Shared::ToBegin(start) = std::mem::take(&mut *shared)
    {
        let (sender, is_there) = watch::channel(false);
        let place = BuiltPlace::default();
        let to_fill = Arc::clone(&place);
        let task = SpawnedTask::spawn(async move {
            let built = start.run().await.map(Arc::new).map_err(Arc::new);
            *to_fill.lock().unwrap_or_else(PoisonError::into_inner) = Some(built);
            sender.send_replace(true);
        });
        *shared = Shared::Begun(SharedBuilt { _task: task, place, is_there });
    }
    match &*shared {
        Shared::Begun(built) => Ok((Arc::clone(&built.place), built.is_there.clone())),
        _ => Err(DataFusionError::Internal("a join without a build side".to_owned())),
    }
}

/// What the partition in `place` gives of `built`.
fn rows_of(built: &Arc<Built>, place: usize) -> Result<SendableRecordBatchStream> {
    match built.as_ref() {
        Built::Fits(fits) => fits.rows(place),
        Built::Spilled(spilled) => Ok(Lane::new(Arc::clone(built), spilled, place).rows()),
    }
}

impl ExecutionPlan for PeltonJoinExec {
    fn name(&self) -> &str {
        "PeltonJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().recompute_properties().with_new_children(children)?;
        self.of(join.build_exec()?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.of(Arc::clone(&self.join).reset_state()?)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let is_shared = *self.join.partition_mode() == PartitionMode::CollectLeft;
        let built: BoxFuture<'static, Result<Arc<Built>>> = match is_shared {
            true => self.shared(&context).boxed(),
            false => {
                let start = self.start(partition, vec![partition], &context);
                async move { start.run().await.map(Arc::new) }.boxed()
            }
        };
        // Of a build side of its own there is one lane and one partition.
        let place = if is_shared { partition } else { 0 };
        let rows = built.and_then(move |built| async move { rows_of(&built, place) });
        let rows = futures::stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let share = match args.partition() {
            Some(_) => self.properties.partitioning.partition_count().max(1),
            None => 1,
        };
        let rows = self.expected_rows().map(|rows| rows.div_ceil(share));
        let num_rows = rows.map_or(Precision::Absent, Precision::Inexact);
        // DataFusion's bytes are those of as many rows as it expects itself.
        let total_byte_size = Precision::Absent;
        let of_join = Arc::unwrap_or_clone(self.join.statistics_from_inputs(inputs, args)?);
        Ok(Arc::new(Statistics { num_rows, total_byte_size, ..of_join }))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.join.cardinality_effect()
    }
}

impl DisplayAs for PeltonJoinExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("PeltonJoinExec of ")?;
        }
        self.join.fmt_as(form, f)
    }
}

impl fmt::Debug for PeltonJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PeltonJoinExec");
        shown.field("join", &self.join).field("budget_bytes", &self.budget_bytes).finish_non_exhaustive()
    }
}

/// Memory of a hash table over `rows` rows of `bytes` bytes: the rows twice while they are put together, and for each
/// row its hash, a slot of a table that is half full, and the number of the row before it of the same hash.
fn table_bytes(rows: usize, bytes: usize) -> usize {
    const ROW_BYTES: usize = 48;
    bytes.saturating_mul(2).saturating_add(rows.saturating_mul(ROW_BYTES))
}

/// True where rows of the build side alone, the left one, may be left over or marked.
fn is_of_build_side(join_type: JoinType) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi};
    matches!(join_type, Inner | Left | LeftAnti | LeftMark | LeftSemi)
}

/// `batch` with the columns `projection` of it, as `schema` has them.
fn projected(batch: RecordBatch, projection: Option<&[usize]>, schema: &SchemaRef) -> Result<RecordBatch> {
    let batch = match projection {
        Some(columns) => batch.project(columns)?,
        None => batch,
    };
    Ok(batch.with_schema(Arc::clone(schema))?)
}

#[cfg(test)]
mod tests;
