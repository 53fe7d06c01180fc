//! How many rows are expected where: the planner's estimates, whoever carries an operator out.
//!
//! ```text
//!   join order, build sides       chosen by estimates of DataFusion's operators
//!   operators of ours             put in their place afterwards; each is estimated as what it stands for
//!   rules that ask, EXPLAIN       see the numbers that the order of joins was chosen by
//! ```
//!
//! DataFusion's own statistics of a join know nothing of conditions beside its equalities, and little of several keys and of
//! ranges in common; over several joins they are off by orders of magnitude.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use pelton_planner::Estimates;

use crate::gpu::PeltonGpuExec;
use crate::shared::SharedExec;
use crate::spilling::{DistinctMergeExec, PartialAggregateExec, PeltonJoinExec, SpillingAggregateExec};
use crate::yielding::as_planned;

/// To be asked for estimates of plans with operators of ours. A rule asks one for all nodes.
pub(crate) fn estimates() -> Estimates {
    Estimates::new(stands_for)
}

/// Rows that `estimates` expect of `plan`, rounded up: what may give a row is not taken for empty.
pub(crate) fn rows(estimates: &Estimates, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    estimates.rows(plan).map(|rows| rows.ceil() as usize)
}

/// What makes the rows of `node`, as far as the planner knows it: DataFusion's operator, or a plan of such. Sorts and windows
/// of ours keep the rows of their input, which it sees from their schema.
fn stands_for(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(join) = node.downcast_ref::<PeltonJoinExec>() {
        return Some(Arc::clone(join.join()) as _);
    }
    if let Some(groups) = node.downcast_ref::<SpillingAggregateExec>() {
        return Some(groups.replaced());
    }
    if let Some(groups) = node.downcast_ref::<PartialAggregateExec>() {
        return Some(Arc::clone(groups.aggregate()) as _);
    }
    if let Some(merging) = node.downcast_ref::<DistinctMergeExec>() {
        return Some(merging.replaced());
    }
    if let Some(shared) = node.downcast_ref::<SharedExec>() {
        return shared.made_by().cloned();
    }
    if let Some(device) = node.downcast_ref::<PeltonGpuExec>() {
        return Some(Arc::clone(device.planned()));
    }
    as_planned(node)
}
