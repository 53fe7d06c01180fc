//! The rule that puts joins into the cheapest order.
//!
//! 1. Cut a region of joins out of the plan, its leaves optimized first (`region.rs`).
//! 2. Estimate the leaves and search (`enumerate.rs`). Without a row count for every leaf, the order
//!    of the query stays.
//! 3. If the best order is estimated to be at least 10 % cheaper, rebuild (`rebuild.rs`).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::enumerate::{best_order, original_cost};
use crate::rebuild::rebuild;
use crate::region::Region;
use crate::sides::JoinSides;

/// A new order must cost less than this share of the original's, or estimation noise decides.
const COST_RATIO_MAX: f64 = 0.9;

/// Adds [`JoinOrder`] before DataFusion's `JoinSelection` and [`JoinSides`] after it.
///
/// Without `JoinSelection` among `rules` the two go first, in the same order.
pub fn install(
    mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let name = JoinSelection::new().name().to_owned();
    let selection = rules.iter().position(|rule| rule.name() == name);
    let (before, after) = selection.map_or((0, 0), |position| (position, position + 1));
    rules.insert(after, Arc::new(JoinSides::new()));
    rules.insert(before, Arc::new(JoinOrder::new()));
    rules
}

/// Orders inner joins by estimated cost; the physical optimizer rule `pelton_join_order`.
///
/// Must run before `JoinSelection` settles build sides and partition modes, while plans have no
/// exchanges yet.
#[derive(Debug, Default)]
pub struct JoinOrder {}

impl JoinOrder {
    /// The rule; it has no state.
    pub fn new() -> Self {
        Self {}
    }
}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        reorder(&plan)
    }

    fn name(&self) -> &str {
        "pelton_join_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` with all of its join regions in the best order found.
fn reorder(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(mut region) = Region::cut(plan)? else {
        let children = plan.children().into_iter().map(reorder).collect::<Result<_>>()?;
        return replace_children_if_necessary(Arc::clone(plan), children);
    };
    region.leaves = region.leaves.iter().map(reorder).collect::<Result<_>>()?;
    let mut leaves = region.leaves.clone().into_iter();
    let null_equality = region.null_equality;
    if let Some(reordered) = cheaper_order(&mut region, plan)? {
        return Ok(reordered);
    }
    Region::map_leaves(plan, null_equality, &mut |_| {
        Ok(leaves.next().expect("the region has as many leaves as when it was cut"))
    })
}

/// `region` in a new order, if that is known to be worth it.
fn cheaper_order(
    region: &mut Region,
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(graph) = region.graph()? else {
        return Ok(None);
    };
    let best = best_order(&graph);
    if best.cost > COST_RATIO_MAX * original_cost(&graph, &region.shape) {
        return Ok(None);
    }
    rebuild(region, &graph, &best.tree, &plan.schema())
}
