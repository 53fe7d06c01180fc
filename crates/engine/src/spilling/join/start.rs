//! How a join that may spill begins: the build side is collected, or it goes to files, and then the probe side too.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::NullEquality;
use datafusion::common::runtime::JoinSet;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics,
};
use datafusion::physical_plan::stream::EmptyRecordBatchStream;
use futures::StreamExt;
use pelton_planner::keys_are_words;

use super::probe::{Probed, columns_of};
use super::table::Build;
use super::{table_bytes, told};
use crate::expected;
use crate::spilling::files::{Keys, Partitioner, Rows, Spill};
use crate::spilling::given::{Given, Within};
use crate::task_context::with_runtime;

/// Files of one pass, at least and at most.
const PARTS_MIN: usize = 8;
const PARTS_MAX: usize = 64;
/// Bytes that wait to be dealt out to files, at least and at most.
const BUFFER_MIN: usize = 256 << 10;
const BUFFER_MAX: usize = 16 << 20;

/// A join that is to begin.
pub(super) struct Start {
    pub(super) join: Arc<HashJoinExec>,
    /// The partition of the build side.
    pub(super) left: usize,
    /// Those of the probe side.
    pub(super) rights: Vec<usize>,
    pub(super) budget_bytes: usize,
    pub(super) context: Arc<TaskContext>,
    pub(super) spilled: SpillMetrics,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) reservation: MemoryReservation,
}

/// What a join has come to once its build side was read.
pub(super) enum Built {
    Fits(Fits),
    Spilled(Box<Spilled>),
}

/// A build side in memory.
pub(super) struct Fits {
    join: Joined,
    context: Arc<TaskContext>,
    _reserved: MemoryReservation,
}

/// What joins it with the probe side.
enum Joined {
    /// A table, in these partitions of the probe side.
    Table {
        probed: Arc<Probed>,
        right: Arc<dyn ExecutionPlan>,
        rights: Vec<usize>,
        metrics: ExecutionPlanMetricsSet,
    },
    /// DataFusion's own operator, for keys that do not go into words.
    Operator(Arc<HashJoinExec>),
}

impl Fits {
    /// What the join gives in the partition in `place`.
    pub(super) fn rows(&self, place: usize) -> Result<SendableRecordBatchStream> {
        let context = Arc::clone(&self.context);
        match &self.join {
            Joined::Operator(join) => join.execute(place, context),
            Joined::Table { probed, .. } if probed.is_empty() => {
                Ok(Box::pin(EmptyRecordBatchStream::new(probed.schema())))
            }
            Joined::Table { probed, right, rights, metrics } => {
                let partition = rights[place];
                let batch_rows = context.session_config().batch_size();
                let times = (
                    BaselineMetrics::new(metrics, partition),
                    MetricBuilder::new(metrics).subset_time("join_time", partition),
                );
                Ok(probed.rows(right.execute(partition, context)?, place, batch_rows, times))
            }
        }
    }
}

/// Both sides in files.
pub(super) struct Spilled {
    /// Without inputs of its own.
    pub(super) join: Arc<HashJoinExec>,
    pub(super) pairs: Vec<[Rows; 2]>,
    pub(super) spills: [Spill; 2],
    /// Memory of one lane.
    pub(super) budget_bytes: usize,
    /// Lanes that take pairs in turn.
    pub(super) lanes: usize,
    /// NOT IN: where the probe side has a NULL, nothing is left; where it has rows, no NULL of the build side is.
    pub(super) probe_rows: usize,
    pub(super) probe_nulls: usize,
    /// Without a limit: what is inside reserves nothing.
    pub(super) context: Arc<TaskContext>,
    /// With one.
    pub(super) reservations: Vec<MemoryReservation>,
}

impl Start {
    /// Reads the build side; where it does not fit, both sides.
    pub(super) async fn run(self) -> Result<Built> {
        let mut left = self.join.left().execute(self.left, Arc::clone(&self.context))?;
        let (mut batches, mut rows, mut counter) = (Vec::new(), 0, RecordBatchMemoryCounter::new());
        while let Some(batch) = left.next().await.transpose()? {
            rows += batch.num_rows();
            counter.count_batch(&batch);
            let bytes = counter.memory_usage();
            let needed = table_bytes(rows, bytes);
            let fits = needed <= self.budget_bytes && self.reservation.try_resize(needed).is_ok();
            batches.push(batch);
            if !fits {
                return self
                    .spill(batches, left, rows, bytes)
                    .await
                    .map(|spilled| Built::Spilled(Box::new(spilled)));
            }
        }
        self.fits(batches, rows).await
    }

    async fn fits(self, batches: Vec<RecordBatch>, rows: usize) -> Result<Built> {
        let batches = Arc::new(batches);
        let join = match self.probed(&batches, rows).await? {
            Some(probed) => Joined::Table {
                probed: Arc::new(probed),
                right: Arc::clone(self.join.right()),
                rights: self.rights.clone(),
                metrics: self.metrics.clone(),
            },
            None => Joined::Operator(Arc::new(self.operator(Arc::unwrap_or_clone(batches))?)),
        };
        let context = match join {
            Joined::Table { .. } => Arc::clone(&self.context),
            Joined::Operator(_) => unlimited(&self.context),
        };
        Ok(Built::Fits(Fits { join, context, _reserved: self.reservation }))
    }

    /// A table of `batches`, of `rows` rows, with the scans of the probe side told of it; `None` where keys do not go into
    /// words.
    async fn probed(&self, batches: &Arc<Vec<RecordBatch>>, rows: usize) -> Result<Option<Probed>> {
        let (join, config) = (&self.join, self.context.session_config());
        if !keys_are_words(join) {
            return Ok(None);
        }
        let is_shared = *join.partition_mode() == PartitionMode::CollectLeft;
        let told = match dynamic_filter(join).filter(|_| is_shared) {
            Some(told) if told::reads(join.right(), told.expression_id().unwrap_or(0))? => Some(told),
            _ => None,
        };
        let time = MetricBuilder::new(&self.metrics).subset_time("build_time", self.left);
        MetricBuilder::new(&self.metrics).counter("build_input_rows", self.left).add(rows);
        let timed = time.timer();
        let build = Build {
            schema: join.left().schema(),
            batches: Arc::clone(batches),
            keys: join.on().iter().map(|(left, _)| Arc::clone(left)).collect(),
            wanted: columns_of(join).1,
            wants_filter: told.is_some(),
            threads: if is_shared { config.target_partitions() } else { 1 },
        };
        let few = match build.keys.len() {
            1 if rows <= config.options().optimizer.hash_join_inlist_pushdown_max_distinct_values => {
                Some(build.values_of_keys()?)
            }
            _ => None,
        };
        let table = build.run().await?;
        timed.done();
        if let (Some(told), Some(table)) = (told, &table) {
            let keys: Vec<_> = join.on().iter().map(|(_, right)| Arc::clone(right)).collect();
            told.update(told::filter(table, &keys, few, &join.right().schema())?)?;
            told.mark_complete();
        }
        Ok(table.map(|table| Probed::new(table, join, self.rights.len())))
    }

    /// DataFusion's operator over `batches`.
    fn operator(&self, batches: Vec<RecordBatch>) -> Result<HashJoinExec> {
        let left = Given::batches(self.join.left().schema(), batches);
        match self.join.partition_mode() {
            PartitionMode::CollectLeft => {
                let filter = dynamic_filter(&self.join);
                // The probe side reserves what it takes, from the query's pool.
                let right = Within::over(self.join.right(), &self.context);
                let join = again(&self.join, [left, right], PartitionMode::CollectLeft, true)?;
                match filter {
                    Some(filter) => join.with_dynamic_filter_expr(filter),
                    None => Ok(join),
                }
            }
            _ => {
                let [right] = self.rights[..] else {
                    return Err(DataFusionError::Internal("one partition has one probe side".to_owned()));
                };
                let right = Given::stream(self.join.right().execute(right, Arc::clone(&self.context))?);
                again(&self.join, [left, right], PartitionMode::CollectLeft, true)
            }
        }
    }

    async fn spill(
        self,
        batches: Vec<RecordBatch>,
        mut rest: SendableRecordBatchStream,
        rows: usize,
        bytes: usize,
    ) -> Result<Spilled> {
        let lanes = self.rights.len();
        let budget_bytes = (self.budget_bytes / lanes).max(1);
        let parts = self.part_count(rows, bytes);
        let buffer_bytes = buffer_bytes(self.budget_bytes);
        let sides = [self.join.left(), self.join.right()];
        let spills = sides.map(|side| Spill::new(&self.context, &self.spilled, side.schema()));
        let [left_keys, right_keys] = keys(&self.join, 0);
        let mut partitioner = Partitioner::new(left_keys, parts, buffer_bytes, &spills[0]);
        batches.into_iter().try_for_each(|batch| partitioner.add(batch))?;
        self.reservation.free();
        self.reservation.grow(buffer_bytes);
        while let Some(batch) = rest.next().await.transpose()? {
            partitioner.add(batch)?;
        }
        drop(rest);
        let (build, _) = partitioner.end()?;
        let mut tasks = JoinSet::new();
        for &right in &self.rights {
            let mut right = self.join.right().execute(right, Arc::clone(&self.context))?;
            let mut partitioner = Partitioner::new(
                right_keys.clone(),
                parts,
                (buffer_bytes / lanes).max(BUFFER_MIN),
                &spills[1],
            );
            tasks.spawn(async move {
                while let Some(batch) = right.next().await.transpose()? {
                    partitioner.add(batch)?;
                }
                partitioner.end()
            });
        }
        let mut pairs: Vec<[Rows; 2]> = build.into_iter().map(|build| [build, Rows::default()]).collect();
        let (mut probe_rows, mut probe_nulls) = (0, 0);
        while let Some(done) = tasks.join_next().await {
            let (probe, nulls) = done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            probe_nulls += nulls;
            for (pair, probe) in pairs.iter_mut().zip(probe) {
                probe_rows += probe.rows;
                pair[1].append(probe);
            }
        }
        self.reservation.free();
        let mut reservations: Vec<MemoryReservation> =
            (1..lanes).map(|_| self.reservation.new_empty()).collect();
        reservations.push(self.reservation);
        let context = unlimited(&self.context);
        let join = self.join;
        Ok(Spilled {
            join,
            pairs,
            spills,
            budget_bytes,
            lanes,
            probe_rows,
            probe_nulls,
            context,
            reservations,
        })
    }

    /// Files to deal the build side out to, of which `rows` rows of `bytes` bytes have come already.
    fn part_count(&self, rows: usize, bytes: usize) -> usize {
        let expected_rows = expected::rows(&expected::estimates(), self.join.left());
        // Where nothing is known, what came may be anything from all of it to a small part.
        let all_rows = expected_rows.unwrap_or(rows * 16).max(rows * 2);
        let all_bytes = (bytes as f64 / rows.max(1) as f64 * all_rows as f64) as usize;
        let lanes = self.rights.len();
        // Parts differ in size: half as many again.
        let parts = table_bytes(all_rows, all_bytes) / 2 * 3 / (self.budget_bytes / lanes).max(1);
        parts.clamp(PARTS_MIN, PARTS_MAX)
    }
}

/// Bytes that may wait to be dealt out in a join of `budget_bytes`.
pub(super) fn buffer_bytes(budget_bytes: usize) -> usize {
    (budget_bytes / 4).clamp(BUFFER_MIN, BUFFER_MAX)
}

/// The keys of both sides at `level`.
pub(super) fn keys(join: &HashJoinExec, level: u64) -> [Keys; 2] {
    let nulls = join.null_equality();
    let of = |exprs: Vec<Arc<dyn PhysicalExpr>>| Keys { exprs, nulls, seed: 0x5e11 + level };
    let (left, right) = join.on().iter().cloned().unzip();
    debug_assert!(!join.null_aware || nulls == NullEquality::NullEqualsNothing);
    [of(left), of(right)]
}

/// `context` with memory that nothing is refused of.
fn unlimited(context: &Arc<TaskContext>) -> Arc<TaskContext> {
    let runtime = context.runtime_env();
    let pool = Arc::new(UnboundedMemoryPool::default());
    let runtime = RuntimeEnv { memory_pool: pool, ..runtime.as_ref().clone() };
    with_runtime(context, Arc::new(runtime))
}

/// `join` over other inputs, with a state of its own; `is_whole`: with projection and limit.
pub(super) fn again(
    join: &HashJoinExec,
    sides: [Arc<dyn ExecutionPlan>; 2],
    mode: PartitionMode,
    is_whole: bool,
) -> Result<HashJoinExec> {
    use datafusion::physical_plan::joins::HashJoinExecBuilder;
    let [left, right] = sides;
    let builder = HashJoinExecBuilder::new(left, right, join.on().to_vec(), *join.join_type())
        .with_filter(join.filter().cloned())
        .with_partition_mode(mode)
        .with_null_equality(join.null_equality());
    match is_whole {
        true => builder
            .with_projection_ref(join.projection.clone())
            .with_fetch(join.fetch())
            .with_null_aware(join.null_aware)
            .build(),
        false => builder.build(),
    }
}

/// The filter that `join` narrows while it builds, if its probe side reads one.
fn dynamic_filter(join: &HashJoinExec) -> Option<Arc<DynamicFilterPhysicalExpr>> {
    let produced: Arc<dyn Any + Send + Sync> = join.dynamic_expressions_produced().pop()?;
    produced.downcast().ok()
}
