//! Running a plan whose nodes have run already.
//!
//! ```text
//!   PeltonGpuExec ── host inputs ──▶ subtrees of the plan for the CPU, executed
//!                 └─ falls back ───▶ that plan as a whole: the same nodes a second time
//! ```
//!
//! Nodes keep state: a repartition hands out each of its partitions once, a join keeps its build side, and a top-k
//! narrows a filter that the scans below it share. So whoever runs a plan after somebody else runs a copy, in which the
//! operators start anew and no scan is filtered by what an earlier run found.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;

/// `plan` as if none of its nodes had ever run. A top-k among them must not be running at the moment; anything else may.
pub(crate) fn anew(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.apply(|node| node.apply_expressions(&mut forget))?;
    reset_plan_states(Arc::clone(plan))
}

/// Lets every filter in `expr` that an operator narrowed pass all rows again. A top-k keeps the rows before the last
/// that it found, so the filter of a finished one would drop that row.
fn forget(expr: &Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion> {
    expr.apply(|part| {
        if let Some(filter) = part.downcast_ref::<DynamicFilterPhysicalExpr>() {
            filter.update(lit(true))?;
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(TreeNodeRecursion::Continue)
}
