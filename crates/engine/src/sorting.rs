//! Sorts by keys that go into one word together, or by keys as bytes.
//!
//! ```text
//!   rows, held ─▶ each key as its distance from the least value ─┐
//!                                                                ├─▶ a word a row ─▶ sorted ─▶ rows, gathered
//!                 the row's place, in the bits that are left ────┘
//!   they do not fit into memory, or the keys into a word; texts ─▶ by bytes, in runs (external.rs), or SortExec
//!
//!   SortPreservingMergeExec over such sorts of each partition ─▶ all partitions are sorted together, by ranges (run.rs)
//! ```
//!
//! DataFusion sorts batch by batch and merges some hundred of them, comparing keys as bytes, and one thread merges the
//! partitions: 60 million rows took 10.7 s on 16 cores. Words of 64 or 128 bits are compared in one or two instructions, and hold
//! three keys of 32 bits, or one of 64 bits and some.
//!
//! Graefe, "Implementing Sorting in Database Systems", ACM Computing Surveys 2006, section 3.1 (normalized keys). DeWitt, Naughton,
//! Schneider, "Parallel Sorting on a Shared-Nothing Architecture using Probabilistic Splitting", PDIS 1991 (splitters).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
use futures::TryStreamExt;

use crate::expected;
use crate::stand_in::answers_of;

mod external;
mod keys;
mod run;
#[cfg(test)]
mod tests;

use keys::{goes_into_words, is_text};
use run::Run;

/// Sorts of fewer rows stay DataFusion's: nobody waits for them.
const ROWS_MIN: usize = 50_000;

/// Puts these sorts in place of DataFusion's. After all rules that look for sorts.
#[derive(Debug)]
pub(crate) struct WordSorts;

impl PhysicalOptimizerRule for WordSorts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let estimates = expected::estimates();
        let changed = plan.transform_up(|node| {
            if let Some(together) = WordSortExec::of_all(&node) {
                return Ok(Transformed::yes(Arc::new(together) as _));
            }
            let Some(sort) = WordSortExec::of(&node) else { return Ok(Transformed::no(node)) };
            let rows = expected::rows(&estimates, sort.sort.input());
            Ok(match rows.is_none_or(|rows| rows >= ROWS_MIN) {
                true => Transformed::yes(Arc::new(sort) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
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
    /// What would merge its partitions, where all are sorted together.
    merge: Option<Arc<dyn ExecutionPlan>>,
    metrics: ExecutionPlanMetricsSet,
}

impl WordSortExec {
    /// In place of `node`, where it sorts all rows by numbers or texts.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let sort: Arc<dyn Any + Send + Sync> = Arc::clone(node) as _;
        let sort = sort.downcast::<SortExec>().ok()?;
        let schema = sort.input().schema();
        let goes_in = |key: &Arc<dyn PhysicalExpr>| {
            key.data_type(&schema).is_ok_and(|ty| goes_into_words(&ty) || is_text(&ty))
        };
        // Rows without columns have no order; DataFusion counts them.
        let is_one = sort.fetch().is_none()
            && !schema.fields().is_empty()
            && sort.expr().iter().all(|key| goes_in(&key.expr));
        is_one.then(|| Self { sort, merge: None, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// In place of `node`, where it merges partitions that such sorts have sorted.
    fn of_all(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let merge = node.downcast_ref::<SortPreservingMergeExec>()?;
        let below = merge.input().downcast_ref::<Self>()?;
        let is_one = below.merge.is_none()
            && merge.fetch().is_none()
            && merge.expr() == below.sort.expr()
            && below.is_by_words();
        is_one.then(|| Self {
            sort: Arc::clone(&below.sort),
            merge: Some(Arc::clone(node)),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Whether all keys are numbers, which mostly go into a word.
    fn is_by_words(&self) -> bool {
        let schema = self.sort.input().schema();
        self.sort.expr().iter().all(|key| key.expr.data_type(&schema).is_ok_and(|ty| goes_into_words(&ty)))
    }

    /// DataFusion's operator: of all partitions together, what would merge them.
    pub(crate) fn replaced(&self) -> Arc<dyn ExecutionPlan> {
        self.merge.clone().unwrap_or_else(|| Arc::clone(&self.sort) as _)
    }

    /// What it stands for, as far as others are to know: of all partitions together, or of each.
    fn outer(&self) -> &dyn ExecutionPlan {
        self.merge.as_deref().unwrap_or(self.sort.as_ref())
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
            f.write_str(if self.merge.is_some() { "WordSortExec, merged, of " } else { "WordSortExec of " })?;
        }
        self.sort.fmt_as(form, f)
    }
}

impl ExecutionPlan for WordSortExec {
    answers_of!(sort);

    fn name(&self) -> &str {
        "WordSortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.outer().properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.sort.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.sort.benefits_from_input_partitioning()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = replace_children_if_necessary(Arc::clone(&self.sort) as _, children)?;
        let node: Arc<dyn ExecutionPlan> = match Self::of(&node) {
            Some(sort) => Arc::new(sort),
            None => node,
        };
        let Some(merge) = &self.merge else { return Ok(node) };
        let merged = replace_children_if_necessary(Arc::clone(merge), vec![node])?;
        Ok(match Self::of_all(&merged) {
            Some(together) => Arc::new(together),
            None => merged,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = match self.merge {
            Some(_) => 0..self.sort.input().output_partitioning().partition_count(),
            None => partition..partition + 1,
        };
        let inputs = partitions.map(|partition| {
            let consumer = MemoryConsumer::new(format!("WordSort[{partition}]")).with_can_spill(true);
            let reservation = consumer.register(context.memory_pool());
            Ok((self.sort.input().execute(partition, Arc::clone(&context))?, reservation))
        });
        let run = Run {
            sort: Arc::clone(&self.sort),
            inputs: inputs.collect::<Result<_>>()?,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            spilled: SpillMetrics::new(&self.metrics, partition),
            is_by_words: self.is_by_words(),
            context,
        };
        let rows = futures::stream::once(run.rows()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
