//! The rule that takes limits from groups without aggregates which they cannot be computed with.
//!
//! `SELECT DISTINCT x … LIMIT 1` stops at the first group. Where DataFusion 55 finds out later that the groups come in an order,
//! or a rule changes what is known of them, it takes the limit for that of a top list, which has no direction: an internal error
//! when the query runs. The limit stands above the groups as well, so they can do without.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// Takes those limits away. After all rules that change what is known of rows.
#[derive(Debug)]
pub(super) struct LimitsOfDistinct;

impl PhysicalOptimizerRule for LimitsOfDistinct {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match node.downcast_ref::<AggregateExec>().filter(|groups| lacks_direction(groups)) {
                Some(groups) => Transformed::yes(Arc::new(groups.with_new_limit_options(None)) as _),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "pelton_limits_of_distinct"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn lacks_direction(groups: &AggregateExec) -> bool {
    let is_without = groups.limit_options().is_some_and(|limit| limit.descending.is_none());
    is_without && groups.aggr_expr().is_empty() && !groups.is_unordered_unfiltered_group_by_distinct()
}
