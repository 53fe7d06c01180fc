//! INTERSECT ALL and EXCEPT ALL count: a row that is three times on the left and once on the right is one in the one and
//! two in the other.
//!
//! DataFusion 55 makes semi and anti joins of them, which keep all equal rows or none. Where each row also says the how
//! many-eth of its kind it is, those joins are right:
//!
//! ```text
//!   Projection  l.*
//!     LeftSemi  l.* = r.*, l.nth = r.nth        NULL equals NULL
//!       Window  l.*, nth = row_number() OVER (PARTITION BY l.*)
//!       Window  r.*, nth = row_number() OVER (PARTITION BY r.*)
//! ```

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::AnalyzerRule;

use crate::window_functions::row_number;

/// The column that counts equal rows; no user's name begins like this.
const NTH: &str = "__pelton_nth";

/// Runs before types are coerced, while the keys of such a join are columns yet.
#[derive(Debug)]
pub(crate) struct Multisets;

impl AnalyzerRule for Multisets {
    fn name(&self) -> &str {
        "pelton_multisets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match &plan {
            LogicalPlan::Join(join) => match set_columns(join) {
                Some(columns) => Ok(Transformed::yes(counted(join, columns)?)),
                None => Ok(Transformed::no(plan)),
            },
            _ => Ok(Transformed::no(plan)),
        });
        Ok(rewritten?.data)
    }
}

/// The columns of both sides where `join` is a set operation over rows that may be equal: nothing else that SQL has joins
/// all columns so that NULL equals NULL. On distinct rows the join is right as it is.
fn set_columns(join: &Join) -> Option<(Vec<Column>, Vec<Column>)> {
    let is_set_operation = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)));
    let columns =
        |(left, right): &(Expr, Expr)| Some((left.try_as_col()?.clone(), right.try_as_col()?.clone()));
    is_set_operation
        .then(|| join.on.iter().map(columns).collect::<Option<Vec<_>>>())?
        .map(|on| on.into_iter().unzip())
}

fn counted(join: &Join, (left, right): (Vec<Column>, Vec<Column>)) -> Result<LogicalPlan> {
    let output: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left_plan, left) = with_nth(&join.left, left, "left")?;
    let (right_plan, right) = with_nth(&join.right, right, "right")?;
    LogicalPlanBuilder::from(left_plan)
        .join_detailed(right_plan, join.join_type, (left, right), None, join.null_equality)?
        .project(output)?
        .build()
}

/// `plan` with the number of each row among its equals, and the columns to join by.
fn with_nth(
    plan: &Arc<LogicalPlan>,
    mut columns: Vec<Column>,
    side: &str,
) -> Result<(LogicalPlan, Vec<Column>)> {
    let name = format!("{NTH}_{side}");
    let equals = columns.iter().cloned().map(Expr::Column).collect();
    let nth = row_number().partition_by(equals).build()?.alias(&name);
    let plan = LogicalPlanBuilder::from(Arc::clone(plan)).window([nth])?.build()?;
    columns.push(Column::from_name(name));
    Ok((plan, columns))
}
