//! Joins in which NULL matches NULL get no keys for which it does not.
//!
//! A join has one word for all of its keys: whether NULL equals NULL in them. DataFusion 55 sets it for
//! `ON o.k IS NOT DISTINCT FROM p.k`, and two of its rules then make a key of any equality that comes to the join, from
//! `WHERE o.a = p.a` for instance, or take inner joins of both kinds apart and give all of their keys the kind of the
//! topmost:
//!
//! ```text
//!   Filter o.a = p.a                                     Join o.k = p.k, o.a = p.a    NULL equals NULL in both
//!     Join o.k = p.k    NULL equals NULL    would become
//! ```
//!
//! Both run under guards here. The first leaves an equality in the filter of such a join, unless one of its sides is
//! never NULL. The second sees a projection of all columns wherever an inner join stands on one of the other kind, and
//! wherever a filter stands on a join in which NULL equals NULL; the projections are gone after it.
//!
//! A condition on chance is asked of each pair of its own join alone: the first makes no key of it, which a side would compute once
//! for each row, and the second sees such a projection wherever an inner join stands on one that has it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::pushed_filters::{take_chance, with_conditions};
use crate::subqueries::may_change;

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with both of DataFusion's rules under guards.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let guarded: [Arc<dyn OptimizerRule + Send + Sync>; 2] =
        [Arc::new(ExtractRule::default()), Arc::new(FlattenRule::default())];
    for ours in guarded {
        let mut alike = rules.iter_mut().filter(|rule| rule.name() == ours.name());
        let rule = alike.next().expect("DataFusion makes keys of equalities by other rules now");
        *rule = Arc::clone(&ours);
    }
    rules
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug, Default)]
struct ExtractRule {
    inner: ExtractEquijoinPredicate,
}

impl OptimizerRule for ExtractRule {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(
        &self,
        mut plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &mut plan else { return Ok(Transformed::no(plan)) };
        let chance = take_chance(join);
        let rewritten =
            if leaves_equalities(join) { Transformed::no(plan) } else { self.inner.rewrite(plan, config)? };
        rewritten.map_data(|plan| with_conditions(plan, chance))
    }
}

/// Whether the conditions of `join` are to stay where they are. NULL equals nothing in one without keys.
fn leaves_equalities(join: &mut Join) -> bool {
    if join.null_equality != NullEquality::NullEqualsNull {
        return false;
    }
    if join.on.is_empty() {
        join.null_equality = NullEquality::NullEqualsNothing;
        return false;
    }
    join.filter.as_ref().is_some_and(|filter| has_nullable_equality(filter, join))
}

/// Whether `filter` asks for an equality of which both sides may be NULL.
fn has_nullable_equality(filter: &Expr, join: &Join) -> bool {
    let may_be_null = |expr: &Expr| {
        let sides = [&join.left, &join.right];
        sides.iter().find_map(|side| expr.nullable(side.schema()).ok()).unwrap_or(true)
    };
    split_conjunction(filter).into_iter().any(|expr| match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            may_be_null(left) && may_be_null(right)
        }
        _ => false,
    })
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug, Default)]
struct FlattenRule {
    inner: EliminateCrossJoin,
}

impl OptimizerRule for FlattenRule {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !needs_projections(&plan) {
            return self.inner.rewrite(plan, config);
        }
        let apart = plan.transform_up_with_subqueries(set_apart)?.data;
        self.inner
            .rewrite(apart, config)?
            .transform_data(|plan| plan.transform_up_with_subqueries(bring_together))
    }
}

/// Whether a join of `plan` or of a subquery in it takes NULL for equal to NULL, or asks something of chance.
fn needs_projections(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let visited = plan.apply_with_subqueries(|plan| {
        found |= is_inner(plan, NullEquality::NullEqualsNull) || asks_chance(plan);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_err() || found
}

fn is_inner(plan: &LogicalPlan, nulls: NullEquality) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.null_equality == nulls)
}

fn asks_chance(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(may_change))
}

/// Joins below `plan` that may not become one with it, each below a projection of its columns.
fn set_apart(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let nulls = match &plan {
        LogicalPlan::Filter(_) => NullEquality::NullEqualsNull,
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => match join.null_equality {
            NullEquality::NullEqualsNull => NullEquality::NullEqualsNothing,
            NullEquality::NullEqualsNothing => NullEquality::NullEqualsNull,
        },
        _ => return Ok(Transformed::no(plan)),
    };
    let is_join = matches!(plan, LogicalPlan::Join(_));
    plan.map_children(|child| {
        Ok(if is_inner(&child, nulls) || is_join && asks_chance(&child) {
            let schema = Arc::clone(child.schema());
            Transformed::yes(LogicalPlan::Projection(Projection::new_from_schema(Arc::new(child), schema)))
        } else {
            Transformed::no(child)
        })
    })
}

/// What stands below `plan`, where `plan` is a projection as `set_apart` makes them.
fn bring_together(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = &plan else { return Ok(Transformed::no(plan)) };
    let columns = projection.input.schema().columns();
    let is_whole = projection.schema == *projection.input.schema()
        && projection.expr.len() == columns.len()
        && projection.expr.iter().zip(&columns).all(|(expr, column)| expr.try_as_col() == Some(column));
    Ok(if is_whole {
        Transformed::new(projection.input.as_ref().clone(), true, TreeNodeRecursion::Continue)
    } else {
        Transformed::no(plan)
    })
}
