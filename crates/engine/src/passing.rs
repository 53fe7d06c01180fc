//! Scans whose rows nobody holds do not copy texts.
//!
//! ```text
//!   SortExec, joins, results   count what they hold by the buffers of its batches: slices get buffers of their own size
//!   AggregateExec              sum, count, avg, min, max: keeps values of its own, never a batch
//!     ProjectionExec             passes on
//!       PeltonScanExec           ◀── PassingRule: texts stay in the buffers of their row group
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::scan::PeltonScanExec;

/// Aggregates that keep numbers and copies of values; `array_agg` and `first_value`, for instance, may keep arrays.
const KEEP_VALUES: [&str; 5] = ["sum", "count", "avg", "min", "max"];

/// Tells scans that their rows pass.
#[derive(Debug, Default)]
pub(crate) struct PassingRule;

impl PhysicalOptimizerRule for PassingRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(marked(plan, false)?.data)
    }

    fn name(&self) -> &str {
        "pelton_passing"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` with its scans told; `passes`: nothing above holds its batches.
fn marked(plan: Arc<dyn ExecutionPlan>, passes: bool) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
        return Ok(match passes {
            true => Transformed::yes(Arc::new(scan.passing())),
            false => Transformed::no(plan),
        });
    }
    let passes = if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        aggregate.aggr_expr().iter().all(|call| KEEP_VALUES.contains(&call.fun().name()))
    } else {
        passes && passes_on(plan.as_ref())
    };
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let child = marked(Arc::clone(child), passes)?;
        changed |= child.transformed;
        children.push(child.data);
    }
    Ok(match changed {
        true => Transformed::yes(replace_children_if_necessary(plan, children)?),
        false => Transformed::no(plan),
    })
}

fn passes_on(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
}
