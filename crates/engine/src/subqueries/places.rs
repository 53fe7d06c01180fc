//! Where conditions stand: each node that has some gets an input with their marks.
//!
//! ```text
//!   WHERE, HAVING        Filter       conjuncts that become semi or anti joins stay; those without conditions go below marks
//!   SELECT               Projection
//!   GROUP BY, sum(…)     Aggregate
//!   OVER (…)             Window       } marks are taken off above
//!   ORDER BY             Sort         }
//!   ON                   Join         marks come to the side whose columns the condition names
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use pelton_error::Error;

use super::Names;
use super::marks::Marks;
use super::outer::{has_outer, outer_columns, subquery_of};
use super::peel::joins_as_it_is;
use crate::error::to_datafusion;

/// `plan` with its own conditions rewritten.
pub(super) fn rewrite(plan: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= has_condition(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match plan {
        plan if !found => Ok(Transformed::no(plan)),
        LogicalPlan::Filter(filter) => of_filter(filter, names),
        LogicalPlan::Join(join) => of_join(join, names),
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => of_input(plan, names),
        other => Ok(Transformed::no(other)),
    }
}

/// Whether there is an IN, an EXISTS, an ANY or an ALL over a subquery in `expr`.
fn has_condition(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))))
        .unwrap_or(true)
}

fn of_filter(filter: Filter, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let (mut below, mut stay, mut marked) = (Vec::new(), Vec::new(), Vec::new());
    for conjunct in split_conjunction_owned(filter.predicate.clone()) {
        match &conjunct {
            plain if !has_condition(plain) => below.push(conjunct),
            condition if becomes_a_join(condition, &schema)? => stay.push(conjunct),
            _ => marked.push(conjunct),
        }
    }
    if marked.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let mut input = filter.input;
    if let Some(predicate) = conjunction(below) {
        input = Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, input)?));
    }
    let mut marks = Marks::over(Arc::unwrap_or_clone(input), names);
    for conjunct in marked {
        stay.push(marks.settle(conjunct)?);
    }
    let predicate = conjunction(stay).expect("there is a condition");
    let filtered = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(marks.into_plan()))?);
    Ok(Transformed::yes(only_columns_of(filtered, &schema)?))
}

/// Whether DataFusion makes a semi or an anti join of `conjunct`, and a right one.
fn becomes_a_join(conjunct: &Expr, schema: &DFSchema) -> Result<bool> {
    let (condition, is_not) = match conjunct {
        Expr::Not(condition) => (condition.as_ref(), true),
        other => (other, false),
    };
    match condition {
        Expr::Exists(Exists { subquery, .. }) => Ok(joins_as_it_is(&subquery.subquery)),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            if has_condition(expr) || !joins_as_it_is(&subquery.subquery) {
                return Ok(false);
            }
            if *negated == is_not {
                return Ok(true);
            }
            // NOT IN: the join that knows NULLs has one key and no other condition.
            let may_be_null = expr.nullable(schema)? || subquery.subquery.schema().field(0).is_nullable();
            Ok(!may_be_null || !has_outer(&subquery.subquery) && expr.any_column_refs())
        }
        _ => Ok(false),
    }
}

fn of_input(plan: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let input = plan.inputs()[0].clone();
    let mut marks = Marks::over(input, names);
    let preserver = NamePreserver::new(&plan);
    let mut settled = |expr: Expr| {
        let name = preserver.save(&expr);
        Ok(Transformed::yes(name.restore(marks.settle(expr)?)))
    };
    let exprs = plan
        .expressions()
        .into_iter()
        .map(|expr| match expr {
            Expr::GroupingSet(_) => Ok(expr.map_children(&mut settled)?.data),
            other => Ok(settled(other)?.data),
        })
        .collect::<Result<Vec<_>>>()?;
    let rewritten = plan.with_new_exprs(exprs, vec![marks.into_plan()])?;
    Ok(Transformed::yes(match plan {
        LogicalPlan::Sort(_) | LogicalPlan::Window(_) => only_columns_of(rewritten, plan.schema())?,
        _ => rewritten,
    }))
}

fn of_join(join: Join, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(&join.schema);
    let mut left = Marks::over(Arc::unwrap_or_clone(join.left), names);
    let mut right = Marks::over(Arc::unwrap_or_clone(join.right), names);
    let (mut on, mut filters, mut above) = (Vec::new(), Vec::new(), Vec::new());
    for (a, b) in join.on {
        on.push((left.settle(a)?, right.settle(b)?));
    }
    for conjunct in join.filter.map(split_conjunction_owned).into_iter().flatten() {
        match of_sides(&conjunct, &mut left, &mut right)? {
            Some(settled) => filters.push(settled),
            None if join.join_type == JoinType::Inner => above.push(conjunct),
            None => {
                let message = "a subquery in ON of an outer join names columns of both sides of the join; compute its \
                               condition in the SELECT list of a subquery in FROM, and name that column in ON";
                return Err(to_datafusion(Error::unsupported(message)));
            }
        }
    }
    let (left, right) = (Arc::new(left.into_plan()), Arc::new(right.into_plan()));
    let joined = LogicalPlan::Join(Join::try_new(
        left,
        right,
        on,
        conjunction(filters),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?);
    let joined = only_columns_of(joined, &schema)?;
    Ok(Transformed::yes(match conjunction(above) {
        Some(predicate) => of_filter(Filter::try_new(predicate, Arc::new(joined))?, names)?.data,
        None => joined,
    }))
}

/// A conjunct of ON with marks of the sides whose columns its conditions name; `None` where one names columns of both.
fn of_sides(conjunct: &Expr, left: &mut Marks, right: &mut Marks) -> Result<Option<Expr>> {
    let mut one_side = true;
    conjunct.apply(|expr| {
        if has_condition_itself(expr) {
            one_side &= side_of(expr, left.schema(), right.schema()).is_some();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !one_side {
        return Ok(None);
    }
    let settled = conjunct.clone().transform_down(|expr| {
        if !has_condition_itself(&expr) {
            return Ok(Transformed::no(expr));
        }
        let is_left = side_of(&expr, left.schema(), right.schema()) == Some(Side::Left);
        let settled = if is_left { left.settle(expr)? } else { right.settle(expr)? };
        Ok(Transformed::new(settled, true, TreeNodeRecursion::Jump))
    })?;
    Ok(Some(settled.data))
}

fn has_condition_itself(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The side that has all columns of the join that `condition` names.
fn side_of(condition: &Expr, left: &DFSchema, right: &DFSchema) -> Option<Side> {
    let mut columns: Vec<_> = condition.column_refs().into_iter().cloned().collect();
    let _ = condition.apply(|expr| {
        if let Some(subquery) = subquery_of(expr) {
            columns.extend(outer_columns(&subquery.subquery).into_iter().map(|(_, column)| column));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let none_of = |schema: &DFSchema| !columns.iter().any(|column| schema.has_column(column));
    match (none_of(left), none_of(right)) {
        (_, true) => Some(Side::Left),
        (true, false) => Some(Side::Right),
        (false, false) => None,
    }
}

/// `plan` without the columns that `schema` lacks.
fn only_columns_of(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
