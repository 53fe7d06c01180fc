//! Sorts by keys that go into one word together.
//!
//! ```text
//!   rows of a partition, held ─▶ each key as its distance from the least value ─┐
//!                                                                               ├─▶ a word a row ─▶ sorted ─▶ rows, gathered
//!                                the row's place, in the bits that are left ────┘
//!   they do not fit into memory, or the keys into a word ─▶ SortExec over what is held and the rest
//! ```
//!
//! DataFusion sorts batch by batch and merges some hundred of them, comparing keys as bytes: of 5 million rows with three
//! integers that is most of the time of a window (docs/perf/limits.md). Words of 64 or 128 bits are compared in one or two
//! instructions, and hold three keys of 32 bits, or one of 64 bits and some.
//!
//! Graefe, "Implementing Sorting in Database Systems", ACM Computing Surveys 2006, section 3.1 (normalized keys).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{concat_batches, interleave_record_batch};
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    StatisticsArgs, replace_children_if_necessary,
};
use futures::{StreamExt, TryStreamExt};

use crate::spilling::Given;

mod keys;
#[cfg(test)]
mod tests;

use keys::{Words, goes_into_words, words};

/// Sorts of fewer rows stay DataFusion's: nobody waits for them.
const ROWS_MIN: usize = 50_000;
/// And of more rows too: they are sorted in one go, which takes seconds for as many, and cannot be cancelled meanwhile.
const ROWS_MAX: usize = 1 << 27;
/// Rows that are put together into one batch, in batches of the usual length.
const HELD_BATCHES: usize = 8;

/// Puts these sorts in place of DataFusion's. After all rules that look for sorts.
#[derive(Debug)]
pub(crate) struct WordSorts;

impl PhysicalOptimizerRule for WordSorts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let sort = WordSortExec::of(&node);
            let rows = match &sort {
                Some(sort) => crate::spilling::expected_rows(sort.sort.input())?,
                None => None,
            };
            Ok(match sort.filter(|_| rows.is_none_or(|rows| rows >= ROWS_MIN)) {
                Some(sort) => Transformed::yes(Arc::new(sort) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "pelton_word_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort by words. See the module.
pub(crate) struct WordSortExec {
    sort: Arc<SortExec>,
    metrics: ExecutionPlanMetricsSet,
}

impl WordSortExec {
    /// In place of `node`, where it sorts all rows by keys that may go into a word.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let sort: Arc<dyn Any + Send + Sync> = Arc::clone(node) as _;
        let sort = sort.downcast::<SortExec>().ok()?;
        let schema = sort.input().schema();
        let goes_in =
            |key: &Arc<dyn PhysicalExpr>| key.data_type(&schema).is_ok_and(|ty| goes_into_words(&ty));
        // Rows without columns have no order; DataFusion counts them.
        let is_one = sort.fetch().is_none()
            && !schema.fields().is_empty()
            && sort.expr().iter().all(|key| goes_in(&key.expr));
        is_one.then(|| Self { sort, metrics: ExecutionPlanMetricsSet::new() })
    }
}

impl fmt::Debug for WordSortExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordSortExec").field("sort", &self.sort).finish_non_exhaustive()
    }
}

impl DisplayAs for WordSortExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("WordSortExec of ")?;
        }
        self.sort.fmt_as(form, f)
    }
}

impl ExecutionPlan for WordSortExec {
    fn name(&self) -> &str {
        "WordSortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.sort.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.sort.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.sort.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.sort.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.sort.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.sort.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = replace_children_if_necessary(Arc::clone(&self.sort) as _, children)?;
        Ok(match Self::of(&node) {
            Some(sort) => Arc::new(sort),
            None => node,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.sort.input().execute(partition, Arc::clone(&context))?;
        let consumer = MemoryConsumer::new(format!("WordSort[{partition}]")).with_can_spill(true);
        let run = Run {
            sort: Arc::clone(&self.sort),
            input,
            reservation: consumer.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            context,
        };
        let rows = futures::stream::once(run.rows()).try_flatten();
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
        self.sort.statistics_from_inputs(inputs, args)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.sort.child_stats_requests(partition)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.sort.cardinality_effect()
    }
}

/// Rows that are held, in batches larger than they came: rows are gathered from all of them at once.
struct Held {
    /// Of a batch, at least.
    least_rows: usize,
    batches: Vec<RecordBatch>,
    batches_bytes: usize,
    few: Vec<RecordBatch>,
    few_rows: usize,
    few_bytes: RecordBatchMemoryCounter,
    rows: usize,
}

impl Held {
    fn new(least_rows: usize) -> Self {
        let few_bytes = RecordBatchMemoryCounter::new();
        Self {
            least_rows,
            batches: Vec::new(),
            batches_bytes: 0,
            few: Vec::new(),
            few_rows: 0,
            few_bytes,
            rows: 0,
        }
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.few_rows += batch.num_rows();
        self.few_bytes.count_batch(&batch);
        self.few.push(batch);
        if self.few_rows >= self.least_rows { self.put_together() } else { Ok(()) }
    }

    fn put_together(&mut self) -> Result<()> {
        let few = std::mem::take(&mut self.few);
        if self.few_rows > 0 {
            let batch = concat_batches(&few[0].schema(), &few)?;
            self.batches_bytes += get_record_batch_memory_size(&batch);
            self.batches.push(batch);
        }
        (self.few_rows, self.few_bytes) = (0, RecordBatchMemoryCounter::new());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.batches_bytes + self.few_bytes.memory_usage()
    }

    fn batches(mut self) -> Result<Vec<RecordBatch>> {
        self.put_together()?;
        Ok(self.batches)
    }
}

/// One partition while it runs.
struct Run {
    sort: Arc<SortExec>,
    input: SendableRecordBatchStream,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl Run {
    async fn rows(mut self) -> Result<SendableRecordBatchStream> {
        let mut held = Held::new(self.context.session_config().batch_size() * HELD_BATCHES);
        while let Some(batch) = self.input.next().await.transpose()? {
            held.push(batch)?;
            // A word a row, and keys before they are words.
            let needed = held.bytes() + held.rows * 2 * size_of::<u128>();
            if held.rows > ROWS_MAX || self.reservation.try_resize(needed).is_err() {
                return self.without_words(held.batches()?);
            }
        }
        let held = held.batches()?;
        let time = self.metrics.elapsed_compute().clone();
        let timer = time.timer();
        let Some(words) = self.words(&held)? else {
            timer.done();
            return self.without_words(held);
        };
        timer.done();
        Ok(self.gathered(held, words))
    }

    /// The order of the rows of `held`; `None` where their keys do not go into words.
    fn words(&self, held: &[RecordBatch]) -> Result<Option<Words>> {
        let keys = self.sort.expr().iter().map(|key| {
            let of = |batch: &RecordBatch| key.expr.evaluate(batch)?.into_array(batch.num_rows());
            Ok((held.iter().map(of).collect::<Result<Vec<ArrayRef>>>()?, key.options))
        });
        Ok(words(&keys.collect::<Result<Vec<_>>>()?, held))
    }

    /// The rows of `held` in the order of `words`.
    fn gathered(self, held: Vec<RecordBatch>, words: Words) -> SendableRecordBatchStream {
        let (batch_rows, schema) = (self.context.session_config().batch_size(), self.sort.schema());
        let state = (held, words, 0, self.reservation, self.metrics);
        let rows =
            futures::stream::try_unfold(state, move |(held, words, from, reservation, metrics)| async move {
                let to = words.len().min(from + batch_rows);
                if from == to {
                    return Ok(None);
                }
                let time = metrics.elapsed_compute().clone();
                let _timer = time.timer();
                let places: Vec<(usize, usize)> = (from..to).map(|number| words.place(number)).collect();
                let batch = interleave_record_batch(&held.iter().collect::<Vec<_>>(), &places)?;
                metrics.record_output(batch.num_rows());
                Ok::<_, DataFusionError>(Some((batch, (held, words, to, reservation, metrics))))
            });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// What is held and the rest, sorted by DataFusion's operator, which spills.
    fn without_words(self, held: Vec<RecordBatch>) -> Result<SendableRecordBatchStream> {
        self.reservation.free();
        let held = futures::stream::iter(held.into_iter().map(Ok));
        let all = RecordBatchStreamAdapter::new(self.sort.input().schema(), held.chain(self.input));
        let sort = SortExec::new(self.sort.expr().clone(), Given::stream(Box::pin(all)));
        sort.with_preserve_partitioning(true).execute(0, self.context)
    }
}
