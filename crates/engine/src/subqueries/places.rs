//! Where conditions stand: each node that has some gets an input with their marks.
//!
//! ```text
//!   WHERE, HAVING        Filter       semi and anti joins are made of conjuncts above, what has no conditions is below
//!   SELECT               Projection
//!   GROUP BY, sum(…)     Aggregate    }
//!   OVER (…)             Window       } values of scalar subqueries are there, too; above, marks are taken off
//!   ORDER BY             Sort         }
//!   FROM                 Join         computed for each row of the left side, the right side is for all of them (lateral.rs)
//!   VALUES               Values       becomes a SELECT for each row
//!   ON                   Join         filters the side whose columns it names where that may be, else has marks there
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Sort, Union,
    Values, not_exists,
};
use pelton_error::Error;

use super::Names;
use super::comparison::Comparison;
use super::lateral;
use super::marks::{Marks, is_condition};
use super::outer::{has_outer, has_subquery, lateral_of, outer_columns, subquery_of};
use super::peel::{joins_as_it_is, value_joins_as_it_is};
use crate::error::to_datafusion;

/// `plan` with its own conditions rewritten.
pub(super) fn rewrite(plan: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= has_condition(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
            let schema = Arc::clone(plan.schema());
            let is_aggregate = matches!(plan, LogicalPlan::Aggregate(_));
            let plan = match plan {
                LogicalPlan::Sort(sort) => with_named_columns(sort)?,
                other => other,
            };
            let mut rewritten = with_values_below(plan, names)?;
            if found {
                rewritten = rewritten.transform_data(|plan| of_input(plan, names))?;
            }
            rewritten.map_data(|plan| if is_aggregate { Ok(plan) } else { only_columns_of(plan, &schema) })
        }
        LogicalPlan::Join(join) if lateral_of(&join.right).is_some() => lateral::rewrite(join, names),
        LogicalPlan::Join(join) if found || join.filter.as_ref().is_some_and(has_value) => {
            of_join(join, names)
        }
        LogicalPlan::Values(values) if values.values.iter().flatten().any(is_of_a_query) => {
            of_values(values, names)
        }
        plan if !found => Ok(Transformed::no(plan)),
        LogicalPlan::Filter(filter) => of_filter(filter, names),
        LogicalPlan::Projection(_) => of_input(plan, names),
        other => Ok(Transformed::no(other)),
    }
}

/// `plan` with the values of subqueries of its rows computed by a projection below it, of which DataFusion makes joins.
fn with_values_below(plan: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let mut has_value = false;
    plan.apply_expressions(|expr| {
        has_value |= expr.exists(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_))))?;
        Ok(if has_value { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_value {
        return Ok(Transformed::no(plan));
    }
    let mut values = Vec::new();
    let exprs = plan.expressions().into_iter();
    let exprs = mapped_under_names(&plan, exprs, &mut |expr| {
        let replaced = expr.transform_down(|expr| match &expr {
            Expr::ScalarSubquery(value)
                if has_outer(&value.subquery) && value_joins_as_it_is(&value.subquery) =>
            {
                let name = names.next("value");
                values.push(expr.alias(&name));
                let column = Expr::Column(Column::new_unqualified(name));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(replaced.data)
    })?;
    if values.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let input = plan.inputs()[0].clone();
    let columns = input.schema().columns().into_iter().map(Expr::Column).chain(values);
    let columns: Vec<Expr> = columns.collect();
    let below = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    Ok(Transformed::yes(plan.with_new_exprs(exprs, vec![below])?))
}

/// `sort`, whose subqueries may name columns of rows that its input does not have any more, over an input that has them.
fn with_named_columns(sort: Sort) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(selected) = sort.input.as_ref() else { return Ok(LogicalPlan::Sort(sort)) };
    let mut named: Vec<Column> = Vec::new();
    for key in &sort.expr {
        key.expr.apply(|expr| {
            let outer = subquery_of(expr).map(|subquery| outer_columns(&subquery.subquery));
            named.extend(outer.into_iter().flatten().map(|(_, column)| column));
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    named.retain(|column| !selected.schema.has_column(column) && selected.input.schema().has_column(column));
    named.sort();
    named.dedup();
    if named.is_empty() {
        return Ok(LogicalPlan::Sort(sort));
    }
    let columns: Vec<Expr> =
        selected.expr.iter().cloned().chain(named.into_iter().map(Expr::Column)).collect();
    let input = LogicalPlanBuilder::from(Arc::clone(&selected.input)).project(columns)?.build()?;
    Ok(LogicalPlan::Sort(Sort { input: Arc::new(input), ..sort }))
}

/// `exprs`, which are those of `plan`, rewritten; each has the name that it had.
fn mapped_under_names(
    plan: &LogicalPlan,
    exprs: impl Iterator<Item = Expr>,
    rewrite: &mut dyn FnMut(Expr) -> Result<Expr>,
) -> Result<Vec<Expr>> {
    let preserver = NamePreserver::new(plan);
    let mut renamed = |expr: Expr| {
        let name = preserver.save(&expr);
        Ok(Transformed::yes(name.restore(rewrite(expr)?)))
    };
    exprs
        .map(|expr| match expr {
            Expr::GroupingSet(_) => Ok(expr.map_children(&mut renamed)?.data),
            other => Ok(renamed(other)?.data),
        })
        .collect()
}

/// Whether there is an IN, an EXISTS, an ANY or an ALL over a subquery in `expr`.
fn has_condition(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_condition(expr))).unwrap_or(true)
}

/// Whether there is a scalar subquery in `expr` that names a column of its query.
fn has_value(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(is_value(expr))).unwrap_or(true)
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(value) if has_outer(&value.subquery))
}

/// Whether `expr`, an item of VALUES, is known only while a query runs.
fn is_of_a_query(expr: &Expr) -> bool {
    has_subquery(expr) || expr.contains_outer()
}

/// Where a conjunct of a filter stands, seen from the marks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Below,
    Marked,
    Above,
}

fn of_filter(filter: Filter, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let mut conjuncts = Vec::new();
    for conjunct in split_conjunction_owned(filter.predicate) {
        let (place, conjunct) = match has_condition(&conjunct) {
            true => match as_a_join(&conjunct, &schema)? {
                Some(join) => (Place::Above, join),
                None => (Place::Marked, conjunct),
            },
            // What compares with a row of a query around stays where a join with that query finds it.
            false if conjunct.contains_outer() => (Place::Above, conjunct),
            false => (Place::Below, conjunct),
        };
        conjuncts.push((place, conjunct));
    }
    if !conjuncts.iter().any(|(place, _)| *place == Place::Marked) {
        let predicate = conjunction(conjuncts.into_iter().map(|(_, conjunct)| conjunct));
        let predicate = predicate.expect("a filter has a predicate");
        return Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)));
    }
    let mut at = |wanted: Place| -> Vec<Expr> {
        conjuncts.extract_if(.., |(place, _)| *place == wanted).map(|(_, conjunct)| conjunct).collect()
    };
    let (below, mut stay, marked) = (at(Place::Below), at(Place::Above), at(Place::Marked));
    let mut input = filter.input;
    if let Some(predicate) = conjunction(below) {
        input = Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, input)?));
    }
    let mut marks = Marks::over(Arc::unwrap_or_clone(input), names);
    for conjunct in marked {
        stay.push(marks.settle_filter(conjunct)?);
    }
    let predicate = conjunction(stay).expect("there is a condition");
    let filtered = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(marks.into_plan()))?);
    Ok(Transformed::yes(only_columns_of(filtered, &schema)?))
}

/// What `conjunct` is to DataFusion where that makes a semi or an anti join of it, and a right one; `schema` is of the
/// filter's input.
fn as_a_join(conjunct: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (condition, is_not) = match conjunct {
        Expr::Not(condition) => (condition.as_ref(), true),
        other => (other, false),
    };
    match condition {
        Expr::Exists(Exists { subquery, .. }) if joins_as_it_is(&subquery.subquery) => {
            Ok(Some(conjunct.clone()))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let plan = &subquery.subquery;
            if has_subquery(expr) || !joins_as_it_is(plan) {
                return Ok(None);
            }
            if *negated == is_not {
                return Ok(Some(conjunct.clone()));
            }
            // NOT IN: the join that knows NULLs has one key and no other condition.
            let may_be_null = expr.nullable(schema)? || plan.schema().field(0).is_nullable();
            if !has_outer(plan) && expr.any_column_refs() {
                return Ok(Some(conjunct.clone()));
            }
            if may_be_null {
                return Ok(None);
            }
            let comparison = Comparison { op: Operator::Eq, subquery: plan, sought: true, decided: false };
            let equal = Filter::try_new(comparison.decides(expr, schema)?, Arc::clone(plan))?;
            let equal = LogicalPlan::Filter(equal);
            Ok(joins_as_it_is(&equal).then(|| not_exists(Arc::new(equal))))
        }
        _ => Ok(None),
    }
}

/// VALUES as a SELECT for each row: DataFusion computes items while it plans.
fn of_values(values: Values, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let Values { schema, values } = values;
    let mut rows = Vec::new();
    for row in values {
        let items = row.into_iter().zip(schema.iter());
        let items = items
            .map(|(item, (relation, field))| item.alias_qualified(relation.cloned(), field.name()))
            .collect::<Vec<Expr>>();
        let row = LogicalPlanBuilder::empty(true).project(items)?.build()?;
        rows.push(Arc::new(rewrite(row, names)?.data));
    }
    Ok(Transformed::yes(match rows.len() {
        1 => Arc::unwrap_or_clone(rows.remove(0)),
        _ => LogicalPlan::Union(Union { inputs: rows, schema }),
    }))
}

fn of_input(plan: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let mut marks = Marks::over(plan.inputs()[0].clone(), names);
    let exprs = mapped_under_names(&plan, plan.expressions().into_iter(), &mut |expr| marks.settle(expr))?;
    let rewritten = plan.with_new_exprs(exprs, vec![marks.into_plan()])?;
    Ok(Transformed::yes(match plan {
        LogicalPlan::Sort(_) | LogicalPlan::Window(_) => only_columns_of(rewritten, plan.schema())?,
        _ => rewritten,
    }))
}

pub(super) fn of_join(join: Join, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(&join.schema);
    // The sides that a condition may filter before they are joined.
    let (may_filter_left, may_filter_right) = match join.join_type {
        JoinType::Inner => (true, true),
        JoinType::Left => (false, true),
        JoinType::Right => (true, false),
        _ => (false, false),
    };
    let (mut of_left, mut of_right, mut on_both, mut above) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for conjunct in join.filter.map(split_conjunction_owned).into_iter().flatten() {
        match side_of(&conjunct, join.left.schema(), join.right.schema()) {
            _ if !has_condition(&conjunct) && !has_value(&conjunct) => on_both.push(conjunct),
            Some(Side::Left) if may_filter_left => of_left.push(conjunct),
            Some(Side::Right) if may_filter_right => of_right.push(conjunct),
            _ if join.join_type == JoinType::Inner => above.push(conjunct),
            _ => on_both.push(conjunct),
        }
    }
    let mut left = Marks::over(filtered(join.left, of_left, names)?, names);
    let mut right = Marks::over(filtered(join.right, of_right, names)?, names);
    let on =
        join.on.into_iter().map(|(a, b)| Ok((left.settle(a)?, right.settle(b)?))).collect::<Result<_>>()?;
    let on_both = on_both.into_iter().map(|conjunct| of_sides(conjunct, &mut left, &mut right));
    let on_both = on_both.collect::<Result<Vec<Expr>>>()?;
    let joined = LogicalPlan::Join(Join::try_new(
        Arc::new(left.into_plan()),
        Arc::new(right.into_plan()),
        on,
        conjunction(on_both),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?);
    let joined = Arc::new(only_columns_of(joined, &schema)?);
    Ok(Transformed::yes(filtered(joined, above, names)?))
}

/// The rows of `input` for which all of `conjuncts` hold.
pub(super) fn filtered(input: Arc<LogicalPlan>, conjuncts: Vec<Expr>, names: &Names) -> Result<LogicalPlan> {
    match conjunction(conjuncts) {
        Some(predicate) => Ok(of_filter(Filter::try_new(predicate, input)?, names)?.data),
        None => Ok(Arc::unwrap_or_clone(input)),
    }
}

/// A conjunct of ON with marks of the sides whose columns its conditions name, and values of subqueries as columns of these.
///
/// # Errors
///
/// `Unsupported` where a condition names columns of both.
fn of_sides<'a>(conjunct: Expr, left: &mut Marks<'a>, right: &mut Marks<'a>) -> Result<Expr> {
    let settled = conjunct.transform_down(|expr| {
        let is_condition = is_condition(&expr);
        if !is_condition && !is_value(&expr) {
            return Ok(Transformed::no(expr));
        }
        let side = match side_of(&expr, left.schema(), right.schema()) {
            Some(Side::Left) => &mut *left,
            Some(Side::Right) => &mut *right,
            None => return Err(names_both_sides()),
        };
        let settled = if is_condition { side.settle(expr)? } else { side.named(expr)? };
        Ok(Transformed::new(settled, true, TreeNodeRecursion::Jump))
    })?;
    Ok(settled.data)
}

fn names_both_sides() -> DataFusionError {
    to_datafusion(Error::unsupported(
        "a subquery in ON of an outer join names columns of both sides of the join; compute its condition in the \
         SELECT list of a subquery in FROM, and name that column in ON",
    ))
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
pub(super) fn only_columns_of(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
