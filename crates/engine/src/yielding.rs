//! Plans that can be cancelled at any time. Work is cancelled where it yields, and DataFusion's operators yield where
//! scans do; a join that makes thousands of rows of each it reads does not come to a scan for minutes. So joins yield
//! as well, after some of their batches.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};

/// `plan` with joins that yield. Its scans are those of `plan`.
pub(crate) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let transformed = plan.transform_up(|node| {
        if !multiplies_rows(&node) {
            return Ok(Transformed::no(node));
        }
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
    });
    Ok(transformed?.data)
}

fn multiplies_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>()
}
