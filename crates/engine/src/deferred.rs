//! The build side of a join begins when the join asks for it, where a filter may arrive for it until then.
//!
//! ```text
//!   HashJoinExec                      1. builds from a
//!     a                                  its filter goes to the scans of b and c
//!     HashJoinExec                    2. builds from b
//!       DeferredExec  ◀── DeferringRule
//!         CoalescePartitionsExec         begins to read when it is executed, which is before 1 has begun
//!           b
//!       c
//! ```
//!
//! Where no filter comes from outside, both builds go on at the same time.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, replace_children_if_necessary};
use futures::TryStreamExt;

use crate::same_rows::gives_rows_of;
use crate::scan::PeltonScanExec;

/// Defers build sides that a filter may arrive for.
#[derive(Debug, Default)]
pub(crate) struct DeferringRule;

impl PhysicalOptimizerRule for DeferringRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let deferred = plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            if *join.partition_mode() != PartitionMode::CollectLeft || !is_told_from_outside(join.left(), 0) {
                return Ok(Transformed::no(node));
            }
            let left: Arc<dyn ExecutionPlan> = Arc::new(DeferredExec { input: Arc::clone(join.left()) });
            let children = vec![left, Arc::clone(join.right())];
            replace_children_if_necessary(node, children).map(Transformed::yes)
        })?;
        Ok(deferred.data)
    }

    fn name(&self) -> &str {
        "pelton_deferring"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a scan below is told more filters than there are joins above it, up to the build side, whose filters go that
/// way: `joins` of them so far.
fn is_told_from_outside(plan: &Arc<dyn ExecutionPlan>, joins: usize) -> bool {
    if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
        return scan.told_filters() > joins;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return is_told_from_outside(join.left(), joins) || is_told_from_outside(join.right(), joins + 1);
    }
    plan.children().into_iter().any(|child| is_told_from_outside(child, joins))
}

/// Its input's rows; the input is executed when the first of them is asked for.
#[derive(Debug)]
pub(crate) struct DeferredExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for DeferredExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeferredExec")
    }
}

impl ExecutionPlan for DeferredExec {
    gives_rows_of!(input);

    fn name(&self) -> &str {
        "DeferredExec"
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { input: children.swap_remove(0) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = Arc::clone(&self.input);
        let rows = futures::stream::once(async move { input.execute(partition, context) }).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }
}
