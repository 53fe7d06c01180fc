//! What is asked of the rows of a subquery as a whole.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, Spans};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Subquery, lit};

use super::only_value::is_only_value;
use super::values::is_or_null;

/// What [`contents`] says of a subquery.
const EMPTY: i64 = 0;
const NO_NULLS: i64 = 1;
const WITH_NULLS: i64 = 2;

/// Whether two computations of `plan` may give different rows, over the same tables.
pub(super) fn differ(plan: &LogicalPlan) -> Result<bool> {
    let mut differ = false;
    plan.apply_with_subqueries(|plan| {
        differ |= chooses(plan);
        plan.apply_expressions(|expr| {
            differ |= may_change(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if differ { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(differ)
}

/// Whether two evaluations of `expr` over the same row may differ. What marks the values of subqueries is declared volatile
/// so that it stays where it is.
pub(crate) fn may_change(expr: &Expr) -> bool {
    let changes = |part: &Expr| part.is_volatile_node() && !is_or_null(part) && !is_only_value(part);
    expr.exists(|part| Ok(changes(part))).unwrap_or(true)
}

/// Whether `plan` itself chooses among rows by an order that need not be one of all rows.
fn chooses(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Limit(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        LogicalPlan::TableScan(scan) => scan.fetch.is_some(),
        _ => false,
    }
}

pub(super) fn first_column(subquery: &LogicalPlan) -> Expr {
    Expr::Column(Column::from(subquery.schema().qualified_field(0)))
}

/// Whether a comparison of `value` with a row of `subquery`, which names no column of a query around, is
/// NULL.
pub(super) fn unknown(value: &Expr, value_may_be_null: bool, subquery: &Arc<LogicalPlan>) -> Result<Expr> {
    let contents = scalar(contents(subquery)?);
    Ok(match value_may_be_null {
        // More than nothing makes it NULL where the value is, a NULL among the rows where it is not.
        true => contents.gt(case(value.clone().is_null(), lit(EMPTY), lit(NO_NULLS))),
        false => contents.eq(lit(WITH_NULLS)),
    })
}

/// One row: whether `subquery` is empty, and whether its first column holds a NULL.
fn contents(subquery: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let [rows, values] = ["rows", "values"];
    let counts = [count(lit(1_i64)).alias(rows), count(first_column(subquery)).alias(values)];
    let column = |name| Expr::Column(Column::new_unqualified(name));
    let has_nulls = column(values).lt(column(rows));
    let contents =
        case(column(rows).eq(lit(0_i64)), lit(EMPTY), case(has_nulls, lit(WITH_NULLS), lit(NO_NULLS)));
    LogicalPlanBuilder::new_from_arc(Arc::clone(subquery))
        .aggregate(Vec::<Expr>::new(), counts)?
        .project([contents.alias("contents")])?
        .build()
}

/// One row: whether `subquery` has any.
pub(super) fn is_there(subquery: &LogicalPlan) -> Result<LogicalPlan> {
    let rows = "rows";
    LogicalPlanBuilder::from(subquery.clone())
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias(rows)])?
        .project([Expr::Column(Column::new_unqualified(rows)).gt(lit(0_i64)).alias("is_there")])?
        .build()
}

/// The value of a plan of one row and one column.
pub(super) fn scalar(plan: LogicalPlan) -> Expr {
    Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: Vec::new(),
        spans: Spans::new(),
    })
}

fn case(when: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::Case(Case::new(None, vec![(Box::new(when), Box::new(then))], Some(Box::new(otherwise))))
}
