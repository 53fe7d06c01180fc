//! The rule that has a subquery's ORDER BY and LIMIT choose rows, not an order around it.
//!
//! ```text
//!   Sort date_trunc('day', ts)              Sort date_trunc('day', ts)
//!     Sort ts, the first 3          ─▶        Limit 3
//!       input                                   Sort ts, the first 3
//!                                                 input
//! ```
//!
//! Rows in the order of ts are in that of their days, so DataFusion 55 takes one of two sorts for superfluous; it leaves the
//! outer order with the inner limit, and three rows of the first day come out, whichever. It asks a limit for no order of its
//! input, so what is below one is left alone. Later rules take the limit away, for the sort has it, too.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

/// Puts a limit above sorts that have one, where an order is asked for. Before the rule that looks for orders.
#[derive(Debug)]
pub(super) struct LimitsOfSorts;

impl PhysicalOptimizerRule for LimitsOfSorts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().map(limited).collect();
            let has_limit = inputs.iter().zip(node.children()).any(|(new, old)| !Arc::ptr_eq(new, old));
            if !has_limit || !asks_for_order(&node) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        "pelton_limits_of_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `input` below a limit, if it is a sort that has one.
fn limited(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let sort = input.downcast_ref::<SortExec>().filter(|sort| !sort.preserve_partitioning());
    let fetch = sort.and_then(SortExec::fetch);
    match fetch {
        Some(_) => Arc::new(GlobalLimitExec::new(Arc::clone(input), 0, fetch)),
        None => Arc::clone(input),
    }
}

/// Whether `node` may have an order of its input that the statement does not give there: not the statement as a whole, which
/// has the order of its own ORDER BY.
fn asks_for_order(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_statement = node.name() == "OutputRequirementExec";
    node.is::<SortExec>() || !is_statement && node.required_input_ordering().iter().any(Option::is_some)
}
