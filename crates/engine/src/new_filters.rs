//! The filters of a copy of a plan: those that joins and sorts narrow while the copy runs, and no other plan reads.
//!
//! ```text
//!   HashJoinExec ── narrows ──▶ filter of the plan        copy of HashJoinExec ── narrows ──▶ new filter
//!     scan of b                   │                         copy of scan of b                   │
//!     scan of a ◀── is told ──────┘  over its columns       copy of scan of a ◀── is told ──────┘  over the same
//! ```
//!
//! A filter is one thing that two operators hold: who narrows it, and who drops rows by it, in whose expression the columns
//! are those of its own input. So both get the new one at once, or none does. Aggregates also narrow filters, by bounds
//! that their copies would share; nobody may be told one of these.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::spilling::PeltonJoinExec;

type Filter = Arc<DynamicFilterPhysicalExpr>;

/// New filters by the ids of those that they stand in place of.
#[derive(Debug, Default)]
pub(crate) struct NewFilters(HashMap<u64, Filter>);

impl NewFilters {
    /// A filter that passes all rows for each that a join or a sort of `plan` narrows; `None` where two operators narrow
    /// the same one, or one narrows a filter over something else than its keys.
    ///
    /// # Errors
    ///
    /// None of its own; those of walking a plan.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let (mut new, mut can_be_made) = (HashMap::new(), true);
        plan.apply(|node| {
            if let Some(old) = narrowed_by(node) {
                let (id, keys) = (old.expression_id(), keys_of(node));
                can_be_made &= old.children().into_iter().eq(&keys);
                let filter = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
                can_be_made &= id.is_some_and(|id| new.insert(id, filter).is_none());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(can_be_made.then_some(Self(new)))
    }

    /// The filter for a copy of `node` to narrow.
    pub(crate) fn for_copy_of(&self, node: &Arc<dyn ExecutionPlan>) -> Option<Filter> {
        self.0.get(&narrowed_by(node)?.expression_id()?).cloned()
    }

    /// `expr`, which reads these filters.
    ///
    /// # Errors
    ///
    /// Of expressions that are not put together again.
    pub(crate) fn in_expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        Arc::clone(expr)
            .transform_up(|part| {
                let old = part.downcast_ref::<DynamicFilterPhysicalExpr>();
                let new = old.and_then(|old| self.0.get(&old.expression_id()?));
                let Some(new) = new else { return Ok(Transformed::no(part)) };
                // What the filter is over goes by position, here as in the old one.
                let columns = part.children().into_iter().cloned().collect();
                let new: Arc<dyn PhysicalExpr> = Arc::clone(new) as _;
                new.with_new_children(columns).map(Transformed::yes)
            })
            .data()
    }

    /// Whether `copy` reads no other filters than these.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(crate) fn are_all_in(&self, copy: &Arc<dyn ExecutionPlan>) -> Result<bool> {
        let mut are_all = true;
        copy.apply(|node| {
            // What an aggregate narrows and nobody reads does nothing.
            let of_its_own =
                if node.is::<AggregateExec>() { node.dynamic_expressions_produced() } else { vec![] };
            node.apply_expressions(&mut |expr| {
                expr.apply(|part| {
                    if part.is::<DynamicFilterPhysicalExpr>() {
                        let is_part =
                            |filter: &Arc<dyn PhysicalExpr>| filter.expression_id() == part.expression_id();
                        are_all &= self.has(part) || of_its_own.iter().any(is_part);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(if are_all { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        Ok(are_all)
    }

    fn has(&self, part: &Arc<dyn PhysicalExpr>) -> bool {
        self.0.values().any(|filter| filter.expression_id() == part.expression_id())
    }
}

/// The filter that `node` narrows, if it is a join or a sort.
fn narrowed_by(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn PhysicalExpr>> {
    let is_known = node.is::<SortExec>() || node.is::<HashJoinExec>() || node.is::<PeltonJoinExec>();
    if is_known { node.dynamic_expressions_produced().pop() } else { None }
}

/// What the filter of `node`, a join or a sort, is over.
fn keys_of(node: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn PhysicalExpr>> {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return sort.expr().iter().map(|key| Arc::clone(&key.expr)).collect();
    }
    let join = node.downcast_ref::<HashJoinExec>();
    let join = join.or_else(|| node.downcast_ref::<PeltonJoinExec>().map(|node| node.join().as_ref()));
    join.map_or_else(Vec::new, |join| join.on().iter().map(|(_, probe)| Arc::clone(probe)).collect())
}
