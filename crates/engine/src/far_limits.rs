//! LIMIT and OFFSET that no number of rows reaches.
//!
//! ```text
//!   LIMIT 9223372036854775807 OFFSET 1     ─▶     OFFSET 1
//!   OFFSET 9223372036854775807             ─▶     no rows
//! ```
//!
//! DataFusion 55 gives joins, unions and LIMITs below the sum of both, as a number of 64 bits with a sign: one that is too large
//! for it is negative then, and refused. Sums of numbers below [`ROWS_MAX`] fit.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{EmptyRelation, FetchType, Limit, LogicalPlan, SkipType};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// More rows than there are: a billion of them a second take a hundred days.
const ROWS_MAX: usize = 1 << 53;

/// `rules` with the one of this file before DataFusion's that pushes limits down.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let theirs = rules.iter().position(|rule| rule.name() == "push_down_limit");
    let place = theirs.expect("DataFusion pushes limits down by another rule now");
    rules.insert(place, Arc::new(FarLimits));
    rules
}

/// See the module.
#[derive(Debug)]
struct FarLimits;

impl OptimizerRule for FarLimits {
    fn name(&self) -> &str {
        "pelton_far_limits"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Limit(limit) = plan else { return Ok(Transformed::no(plan)) };
        let skips_all = matches!(limit.get_skip_type()?, SkipType::Literal(skip) if skip >= ROWS_MAX);
        let has_all = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(fetch)) if fetch >= ROWS_MAX);
        Ok(match (skips_all, has_all) {
            (true, _) => Transformed::yes(LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: false,
                schema: Arc::clone(limit.input.schema()),
            })),
            (false, true) => Transformed::yes(LogicalPlan::Limit(Limit { fetch: None, ..limit })),
            (false, false) => Transformed::no(LogicalPlan::Limit(limit)),
        })
    }
}
