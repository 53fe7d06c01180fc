//! Conditions over a total stay above it.
//!
//! ```text
//!   SELECT count(*) FROM t HAVING (SELECT max(y) FROM u) > 100
//!   SELECT n FROM (SELECT count(*) AS n, 5 AS c FROM t) WHERE c > 7
//!
//!   Filter  5 > 7              Aggregate  count(*)        a row, with 0, in place of none
//!     Aggregate  count(*)        Filter  5 > 7
//! ```
//!
//! A condition without columns is one of all groups' keys to DataFusion 55, which pushes it down below the aggregate: right for
//! groups, of which there are none without rows, and wrong for a total, which is one row of none.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with DataFusion's that pushes filters down kept from doing so below totals.
pub(crate) fn install(mut rules: Rules) -> Rules {
    if let Some(place) = rules.iter().position(|rule| rule.name() == "push_down_filter") {
        rules[place] = Arc::new(AboveTotals { theirs: Arc::clone(&rules[place]) });
    }
    rules
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug)]
struct AboveTotals {
    theirs: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for AboveTotals {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.theirs.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if is_of_total(&plan) { Ok(Transformed::no(plan)) } else { self.theirs.rewrite(plan, config) }
    }
}

/// Whether `plan` is a filter, or several, over an aggregate that gives a row where it gets none. No column is a key of all sets
/// of groups for DataFusion, so other conditions would stay above them as well.
fn is_of_total(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    let mut input = &*filter.input;
    while let LogicalPlan::Filter(inner) = input {
        input = &*inner.input;
    }
    matches!(input, LogicalPlan::Aggregate(aggregate)
        if aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))))
}
