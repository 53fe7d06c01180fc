//! Projections go down a plan only where the orders that its operators count on are still known afterwards.
//!
//! ```text
//!   Window ORDER BY t                  that needs the order of t
//!     Sort p                             t is left out, for it is constant
//!       Projection p, CAST(t) AS t
//!         Filter CAST(t) = 1             given columns to leave out, the filter forgets that, for CAST(t) is no column
//! ```
//!
//! DataFusion 55 then says that the plan is wrong, in its last check. These rules take the place of the two that push
//! projections down; a plan that would be refused for it stays as it was.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;

/// DataFusion's rules with these in place of its own.
pub(super) fn install(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
    let theirs = ProjectionPushdown::new();
    for place in rules.iter_mut().filter(|rule| rule.name() == theirs.name()) {
        *place = Arc::new(PushedInOrder { theirs: ProjectionPushdown::new() });
    }
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug)]
struct PushedInOrder {
    theirs: ProjectionPushdown,
}

impl PhysicalOptimizerRule for PushedInOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = self.theirs.optimize(Arc::clone(&plan), config)?;
        let is_sound =
            |plan: &Arc<dyn ExecutionPlan>| SanityCheckPlan::new().optimize(Arc::clone(plan), config).is_ok();
        Ok(if is_sound(&pushed) || !is_sound(&plan) { pushed } else { plan })
    }

    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn schema_check(&self) -> bool {
        self.theirs.schema_check()
    }
}
