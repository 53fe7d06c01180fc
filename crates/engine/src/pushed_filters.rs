//! Filters stay above what gives other rows when its input is filtered.
//!
//! ```text
//!   SELECT count(*) FROM t HAVING (SELECT max(y) FROM u) > 100
//!
//!   Filter  m > 100                  Aggregate  count(*)           a row, with 0, in place of none
//!     Aggregate  count(*)              Filter  m > 100
//!
//!   SELECT n FROM (SELECT count(*) OVER () AS n FROM t) WHERE random() < 0.5
//!
//!   Filter  random() < 0.5           Window  count(*)              half of the count
//!     Window  count(*)                 Filter  random() < 0.5
//!
//!   SELECT * FROM t LEFT JOIN u ON random() < 0.5
//!
//!   Join LEFT  random() < 0.5        Join LEFT                     the same rows of u for all rows of t
//!     t                                t
//!     u                                Filter  random() < 0.5
//!                                        u
//! ```
//!
//! DataFusion 55 takes a condition without columns for one of any input, and of the keys of all groups: it pushes it down below
//! groups, windows and joins. A condition of a key of a join it pushes to both sides. Two kinds of conditions stay:
//!
//! - those over a total, which is one row where there are none. Conditions that have columns would stay there anyway, for no
//!   column is a key of all sets of groups;
//! - those on chance, where a row that is dropped takes others with it. They may go below projections, sorts and unions, which
//!   give a row for each row. A condition of an inner join becomes a filter above it, that of another join stays with it.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::subqueries::may_change;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with the one that pushes filters down kept from those that are to stay.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let theirs = rules.iter().position(|rule| rule.name() == "push_down_filter");
    let place = theirs.expect("DataFusion pushes filters down by another rule now");
    rules[place] = Arc::new(PushDownFilters { theirs: Arc::clone(&rules[place]) });
    rules
}

/// Takes the place of the rule of the same name.
#[derive(Debug)]
struct PushDownFilters {
    theirs: Arc<dyn OptimizerRule + Send + Sync>,
}

impl OptimizerRule for PushDownFilters {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.theirs.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if is_of_total(&plan) {
            return Ok(Transformed::no(plan));
        }
        if !has_chance(&plan) {
            return self.theirs.rewrite(plan, config);
        }
        let (mut above, others, mut below) = taken_apart(plan);
        let mut of_join = match &mut below {
            LogicalPlan::Join(join) => take_chance(join),
            _ => Vec::new(),
        };
        let moves = is_inner(&below) && !of_join.is_empty();
        if moves {
            above.append(&mut of_join);
        }
        let rest = filtered(others, below);
        let mut rewritten = match rest {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => self.theirs.rewrite(rest, config)?,
            rest => Transformed::no(rest),
        };
        rewritten.transformed |= moves;
        rewritten.map_data(|plan| Ok(filtered(above, with_conditions(plan, of_join)?)))
    }
}

/// Whether `plan` is a filter, or several, over an aggregate that gives a row where it gets none.
fn is_of_total(plan: &LogicalPlan) -> bool {
    if !matches!(plan, LogicalPlan::Filter(_)) {
        return false;
    }
    matches!(below_filters(plan), LogicalPlan::Aggregate(aggregate)
        if aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_))))
}

/// Whether `plan` has conditions on chance that the rule would push below what they are not to go below.
fn has_chance(plan: &LogicalPlan) -> bool {
    match below_filters(plan) {
        LogicalPlan::Join(join) => join.filter.as_ref().is_some_and(may_change) || filters_by_chance(plan),
        LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Unnest(_) => filters_by_chance(plan),
        _ => false,
    }
}

/// Whether one of the filters on top of `plan` asks something of chance.
fn filters_by_chance(mut plan: &LogicalPlan) -> bool {
    while let LogicalPlan::Filter(filter) = plan {
        if may_change(&filter.predicate) {
            return true;
        }
        plan = &*filter.input;
    }
    false
}

fn below_filters(mut plan: &LogicalPlan) -> &LogicalPlan {
    while let LogicalPlan::Filter(filter) = plan {
        plan = &*filter.input;
    }
    plan
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

/// Takes from `join` what it asks of chance; it is asked of each pair, so that no side can be filtered by it and it is no key.
pub(crate) fn take_chance(join: &mut Join) -> Vec<Expr> {
    if !join.filter.as_ref().is_some_and(may_change) {
        return Vec::new();
    }
    let parts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (chance, others): (Vec<Expr>, Vec<Expr>) = parts.into_iter().partition(may_change);
    join.filter = conjunction(others);
    chance
}

/// `plan`, a join that may be below filters, with `conditions` added to those of the join.
///
/// # Errors
///
/// That there is no join, unless there are no conditions.
pub(crate) fn with_conditions(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    if conditions.is_empty() {
        return Ok(plan);
    }
    match plan {
        LogicalPlan::Join(mut join) => {
            join.filter = conjunction(join.filter.take().into_iter().chain(conditions));
            Ok(LogicalPlan::Join(join))
        }
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let input = with_conditions(Arc::unwrap_or_clone(input), conditions)?;
            Ok(LogicalPlan::Filter(Filter::new(predicate, Arc::new(input))))
        }
        other => internal_err!("a join with conditions on chance became {}", other.display()),
    }
}

fn is_inner(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner)
}

fn filtered(conditions: Vec<Expr>, plan: LogicalPlan) -> LogicalPlan {
    match conjunction(conditions) {
        Some(predicate) => LogicalPlan::Filter(Filter::new(predicate, Arc::new(plan))),
        None => plan,
    }
}
