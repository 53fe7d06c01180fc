//! Limits without an order: a device is told how many of its rows are enough, whichever they are.
//!
//! ```text
//!   GlobalLimitExec: skip=5, fetch=10          15 rows are enough
//!     CoalescePartitionsExec
//!       LocalLimitExec: fetch=15
//!         PeltonGpuExec                        brings 15 of a million groups to the host
//! ```
//!
//! The limits stay, since more may come.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use super::exec::PeltonGpuExec;
use super::lower::moves_rows_only;

/// `plan` whose devices know how many of their rows are enough; of its own rows `enough` are, where that is known.
pub(super) fn tell(plan: &Arc<dyn ExecutionPlan>, enough: Option<usize>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(node) = plan.downcast_ref::<PeltonGpuExec>() {
        // What its host inputs give is needed whole.
        return Ok(match enough {
            Some(rows) => Arc::new(node.with_rows_enough(rows)),
            None => Arc::clone(plan),
        });
    }
    let of_children = of_children(plan, enough);
    let children = plan.children().into_iter().map(|child| tell(child, of_children));
    replace_children_if_necessary(Arc::clone(plan), children.collect::<Result<_>>()?)
}

/// How many rows of its child are enough for so many of `plan`'s.
fn of_children(plan: &Arc<dyn ExecutionPlan>, enough: Option<usize>) -> Option<usize> {
    let least = |fetch: Option<usize>| fetch.into_iter().chain(enough).min();
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return least(limit.fetch()).map(|rows| rows.saturating_add(limit.skip()));
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return least(Some(limit.fetch()));
    }
    if plan.is::<CoalescePartitionsExec>() {
        return least(plan.fetch());
    }
    let is_row_by_row = plan.is::<ProjectionExec>() || moves_rows_only(plan);
    enough.filter(|_| is_row_by_row)
}
