//! Subqueries and functions of FROM that name columns of what stands before them.
//!
//! ```text
//!   t, LATERAL (SELECT a FROM s WHERE s.k < t.k ORDER BY a LIMIT 2) AS l
//!
//!   Join  t.k = l.k                          the subquery for each combination of the columns that it names (domain.rs)
//!     t
//!     l: SELECT a, D.k FROM D JOIN s ON s.k < D.k, of which row_number() OVER (PARTITION BY D.k ORDER BY a) <= 2
//!
//!   t, LATERAL (SELECT t.a * 2 AS b)         SELECT t.*, t.a * 2 AS b FROM t
//!   t, unnest(t.list) AS u(v)                SELECT t.*, unnest(t.list) AS v FROM t
//! ```
//!
//! DataFusion 55 joins rows that are compared with those before, and aggregates of them, as well as this would. A window it
//! computes over the rows of all combinations together, and other subqueries it does not plan.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Unnest};
use datafusion::scalar::ScalarValue;

use super::Names;
use super::domain::{Domain, Pushed, equal, is_one_row, substituted};
use super::outer::{OuterColumn, has_subquery, lateral_of, outer_columns, replace_outer};
use super::peel::lateral_joins_as_it_is;
use super::places;
use super::values::or_null;

/// `join`, unless DataFusion joins its right side as it is.
pub(super) fn rewrite(join: Join, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let joins_as_it_is = lateral_of(&join.right).is_none_or(|lateral| {
        let outer = outer_columns(lateral);
        matches!(join.join_type, JoinType::Inner | JoinType::Left)
            && !join.filter.as_ref().is_some_and(has_subquery)
            && outer.iter().all(|(_, column)| join.left.schema().has_column(column))
            && lateral_joins_as_it_is(lateral)
    });
    if joins_as_it_is {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let plan = decorrelated(&join, names)?;
    Ok(Transformed::yes(plan.expect("the right side is computed for each row of the left one")))
}

/// `join`, the right side of which is computed for each row of the left one, with that computed for all of them at once;
/// `None` where it is computed once as it is.
///
/// # Errors
///
/// Those of [`Domain`].
pub(super) fn decorrelated(join: &Join, names: &Names) -> Result<Option<LogicalPlan>> {
    let Some(lateral) = lateral_of(&join.right) else { return Ok(None) };
    if let Some(plan) = beside(join, lateral, names)? {
        return Ok(Some(plan));
    }
    let left = join.left.schema();
    let mut outer: Vec<OuterColumn> = outer_columns(lateral);
    outer.retain(|(_, column)| left.has_column(column));
    for (field, column) in &mut outer {
        // As it is by now: types may have been coerced.
        *field = Arc::clone(left.field_from_column(column)?);
    }
    let (right, same) = if outer.is_empty() {
        (without_mark(&join.right)?, Vec::new())
    } else {
        let Pushed { plan, columns } = Domain::new(&join.left, outer.clone(), names)?.push(&join.right)?;
        let own = outer.iter().map(|(_, column)| Expr::Column(column.clone()));
        let same = equal(&outer, own.zip(columns.into_iter().map(Expr::Column)))?;
        (plan, same)
    };
    let joined = Join::try_new(
        Arc::clone(&join.left),
        Arc::new(right),
        join.on.clone(),
        same.into_iter().chain(join.filter.clone()).reduce(Expr::and),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let joined = places::of_join(joined, names)?.data;
    Ok(Some(places::only_columns_of(joined, &join.schema)?))
}

/// `plan`, which names no column of the left side, as any right side of a join.
fn without_mark(plan: &LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) => Ok(subquery.subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(alias) => {
            let input = without_mark(&alias.input)?;
            LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()
        }
        other => Ok(other.clone()),
    }
}

/// The columns of a SELECT without FROM beside those of the left side, and the items of its lists one below the other.
/// `None` where the subquery is another, and where rows of the left side may be lost that an outer join keeps.
fn beside(join: &Join, lateral: &LogicalPlan, names: &Names) -> Result<Option<LogicalPlan>> {
    let Some(Row { exprs, lists }) = row_of(lateral)? else { return Ok(None) };
    let condition = join.filter.iter().find(|condition| !is_true(condition));
    let keeps_rows = match join.join_type {
        JoinType::Inner => true,
        JoinType::Left => condition.is_none() && lists.is_none(),
        _ => false,
    };
    if !keeps_rows || !join.on.is_empty() {
        return Ok(None);
    }
    let left = join.left.schema();
    let of_left = || left.columns().into_iter().map(Expr::Column);
    let to_left = |column: &Column| left.has_column(column).then(|| column.clone());
    let under_names = |exprs: Vec<Expr>, schema: &DFSchema| -> Result<Vec<Expr>> {
        let own = exprs.into_iter().zip(schema.iter()).map(|(expr, (relation, field))| {
            Ok(replace_outer(expr, &[], &to_left)?.alias_qualified(relation.cloned(), field.name()))
        });
        own.collect()
    };
    let mut plan = LogicalPlanBuilder::new_from_arc(Arc::clone(&join.left));
    if let Some((lists, unnest)) = lists {
        let has_keys = has_keys(&join.left)?;
        let repeated = left.columns().into_iter().map(|column| repeated(column, |_| has_keys));
        let columns: Vec<Expr> = repeated.chain(under_names(lists, unnest.input.schema())?).collect();
        let (columns_of_lists, options) = (unnest.exec_columns.clone(), unnest.options.clone());
        let unnest = Unnest::try_new(Arc::new(plan.project(columns)?.build()?), columns_of_lists, options)?;
        plan = LogicalPlanBuilder::from(LogicalPlan::Unnest(unnest));
    }
    let columns: Vec<Expr> = of_left().chain(under_names(exprs, join.right.schema())?).collect();
    let plan = Arc::new(plan.project(columns)?.build()?);
    Ok(Some(places::filtered(plan, condition.cloned().into_iter().collect(), names)?))
}

/// `column` as it stands below `unnest`; `may_be_key`: it may be known to be unique. DataFusion 55 takes it for unique above, too,
/// where it is repeated for each item, and leaves items out of GROUP BY and DISTINCT.
pub(super) fn repeated(column: Column, may_be_key: impl Fn(&Column) -> bool) -> Expr {
    if !may_be_key(&column) {
        return Expr::Column(column);
    }
    let (relation, name) = (column.relation.clone(), column.name.clone());
    or_null(Expr::Column(column)).alias_qualified(relation, name)
}

/// Whether columns of `plan` may be known to be unique, now or once DISTINCT has become GROUP BY.
pub(super) fn has_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut has_keys = false;
    plan.apply(|node| {
        let groups = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_));
        has_keys |= groups || !node.schema().functional_dependencies().is_empty();
        Ok(if has_keys { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has_keys)
}

fn is_true(condition: &Expr) -> bool {
    matches!(condition, Expr::Literal(ScalarValue::Boolean(Some(true)), _))
}

/// A SELECT without FROM.
struct Row<'a> {
    /// Its columns, over columns of queries around and the items of `lists`.
    exprs: Vec<Expr>,
    /// What its columns are made of where `unnest` is among them.
    lists: Option<(Vec<Expr>, &'a Unnest)>,
}

fn row_of(plan: &LogicalPlan) -> Result<Option<Row<'_>>> {
    Ok(match plan {
        plan if is_one_row(plan) => Some(Row { exprs: Vec::new(), lists: None }),
        LogicalPlan::Subquery(subquery) => row_of(&subquery.subquery)?,
        LogicalPlan::SubqueryAlias(alias) => row_of(&alias.input)?,
        LogicalPlan::Projection(projection) => {
            let Some(Row { exprs, lists }) = row_of(&projection.input)? else { return Ok(None) };
            // A subquery would name the columns as outer ones, and what is volatile is computed once.
            if projection.expr.iter().any(has_subquery) || exprs.iter().any(Expr::is_volatile) {
                return Ok(None);
            }
            let inputs: HashMap<Column, Expr> =
                projection.input.schema().columns().into_iter().zip(exprs).collect();
            let exprs = projection.expr.iter().map(|expr| substituted(expr.clone().unalias(), &inputs));
            Some(Row { exprs: exprs.collect::<Result<_>>()?, lists })
        }
        LogicalPlan::Unnest(unnest) => match row_of(&unnest.input)? {
            Some(Row { exprs, lists: None }) => {
                let items = unnest.schema.columns().into_iter().map(Expr::Column).collect();
                Some(Row { exprs: items, lists: Some((exprs, unnest)) })
            }
            _ => None,
        },
        _ => None,
    })
}
