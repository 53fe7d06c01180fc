//! Conditions on chance are asked of the rows that they stand above.
//!
//! ```text
//!   SELECT n FROM (SELECT count(*) OVER () AS n FROM t) WHERE random() < 0.5
//!
//!   Filter  random() < 0.5           Window  count(*)                  half of the count
//!     Window  count(*)                 Filter  random() < 0.5
//! ```
//!
//! A condition without columns is one of any input's to DataFusion 55, which pushes it down below groups, windows and joins, where
//! each row that is dropped takes others with it; and one of a key of a join it asks of both sides. The rule that pushes filters
//! down gets those alone that give the same for the same row. Projections, sorts and unions give a row for each row: below
//! these chance may go. A condition of an inner join goes above it; that of an outer join stays where DataFusion puts it.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::subqueries::may_change;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with the one that pushes filters down kept from those of chance.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let theirs = rules.iter().position(|rule| rule.name() == "push_down_filter");
    let place = theirs.expect("DataFusion pushes filters down by another rule now");
    rules[place] = Arc::new(ChanceStays { theirs: Arc::clone(&rules[place]) });
    rules
}

/// Takes the place of the rule of the same name.
#[derive(Debug)]
struct ChanceStays {
    theirs: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for ChanceStays {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.theirs.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_chance(&plan) {
            return self.theirs.rewrite(plan, config);
        }
        let (chance, others, below) = taken_apart(plan);
        let (below, of_join) = match below {
            LogicalPlan::Join(join) => without_chance(join),
            other => (other, Vec::new()),
        };
        let moves = !of_join.is_empty();
        let rest = filtered(others, below);
        let mut rewritten = match rest {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => self.theirs.rewrite(rest, config)?,
            rest => Transformed::no(rest),
        };
        rewritten.transformed |= moves;
        Ok(rewritten.update_data(|plan| filtered(chance.into_iter().chain(of_join).collect(), plan)))
    }
}

/// Whether `plan` has conditions on chance that the rule would push below what they are not to go below.
fn has_chance(plan: &LogicalPlan) -> bool {
    let (mut below, mut has_chance) = (plan, false);
    while let LogicalPlan::Filter(filter) = below {
        has_chance |= may_change(&filter.predicate);
        below = &*filter.input;
    }
    match below {
        LogicalPlan::Join(join) => has_chance || is_of_chance(join),
        LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_) => has_chance,
        _ => false,
    }
}

fn is_of_chance(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.filter.as_ref().is_some_and(may_change)
}

/// What the filters on top of `plan` ask of chance, what else they ask, the innermost first, and what is below them.
fn taken_apart(plan: LogicalPlan) -> (Vec<Expr>, Vec<Expr>, LogicalPlan) {
    let LogicalPlan::Filter(filter) = plan else { return (Vec::new(), Vec::new(), plan) };
    let (mut chance, mut others, below) = taken_apart(Arc::unwrap_or_clone(filter.input));
    for part in split_conjunction_owned(filter.predicate) {
        if may_change(&part) { chance.push(part) } else { others.push(part) }
    }
    (chance, others, below)
}

/// `join` without what an inner one asks of chance, and that.
fn without_chance(mut join: Join) -> (LogicalPlan, Vec<Expr>) {
    let mut chance = Vec::new();
    if is_of_chance(&join) {
        let parts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
        let (of_chance, others): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(may_change);
        chance = of_chance;
        join.filter = conjunction(others);
    }
    (LogicalPlan::Join(join), chance)
}

fn filtered(conditions: Vec<Expr>, plan: LogicalPlan) -> LogicalPlan {
    match conjunction(conditions) {
        Some(predicate) => LogicalPlan::Filter(Filter::new(predicate, Arc::new(plan))),
        None => plan,
    }
}
