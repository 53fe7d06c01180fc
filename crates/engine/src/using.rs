//! USING and NATURAL make one column of the two that they compare, whichever side of the join has the row.
//!
//! ```text
//!   SELECT k, a.k FROM a FULL JOIN b USING (k) WHERE k > 2          k is COALESCE(a.k, b.k); of a RIGHT JOIN, b.k
//! ```
//!
//! DataFusion 55 takes the column of the left side for it, which is NULL where only the right side has a row; knows it
//! neither in WHERE nor after a third table; and in a subquery takes a column of that name of a query around for it.
//! A plan does not tell `k` from `a.k` any more, so the column is made while the statement is planned:
//!
//! 1. `statement.rs`: such a join becomes a relation with a name of ours, and conditions name the column by it.
//!
//!    ```text
//!      FROM (a FULL JOIN b USING (k)) AS "!using_1" WHERE "!using_1".k > 2
//!    ```
//! 2. `relation.rs` plans the relation. Its tag is no join: DataFusion looks among the joins by USING for what a name
//!    without a table may mean, and for what `*` leaves out.
//!
//!    ```text
//!      LeftSemi  !using_1.k = a.k, !using_1.k = b.k          the tag: k means the first of these columns
//!        Projection  COALESCE(a.k, b.k) AS !using_1.k, a.*, b.*
//!          Full  a.k = b.k
//!    ```
//! 3. The first rule of the analyzer takes the tags off.
//!
//! All joins by USING and NATURAL of a FROM that has a RIGHT or a FULL one are planned like this, and those of subqueries.
//! The others are where DataFusion has no plan for the statement: it does not find their column in WHERE, in the ON of a
//! third table, and where a third table has it too.

mod relation;
mod statement;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinConstraint, JoinType};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::{self, JoinOperator};
use pelton_error::Error;

use crate::error::to_datafusion;

pub(crate) use relation::MergedJoins;
pub(crate) use statement::{NameJoins, merges, name_joins};

/// What the relations that `statement.rs` names are called, with a number: of a join by USING, of a NATURAL one, and of
/// what has each merged column once. They sort before all names that are not quoted, which `relation.rs` counts on.
const USING: &str = "!using_";
const NATURAL: &str = "!natural_";
const ROWS: &str = "!rows_";

fn is_ours(relation: &str) -> bool {
    [USING, NATURAL, ROWS].iter().any(|prefix| relation.starts_with(prefix))
}

/// The kind of a join that merges columns, and by what.
fn merging(operator: &JoinOperator) -> Option<(JoinType, &ast::JoinConstraint)> {
    let (join_type, constraint) = match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinType::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinType::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
            (JoinType::Right, constraint)
        }
        JoinOperator::FullOuter(constraint) => (JoinType::Full, constraint),
        _ => return None,
    };
    let merges = matches!(constraint, ast::JoinConstraint::Using(_) | ast::JoinConstraint::Natural);
    merges.then_some((join_type, constraint))
}

/// Takes the tags off, before any rule takes them for joins.
#[derive(Debug)]
pub(crate) struct MergedColumns;

impl AnalyzerRule for MergedColumns {
    fn name(&self) -> &str {
        "pelton_using"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_tags = false;
        plan.apply_with_subqueries(|plan| {
            has_tags |= is_tag(plan);
            Ok(if has_tags { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !has_tags {
            return Ok(plan);
        }
        let settled = plan.transform_up_with_subqueries(|plan| {
            check_outer_names(&plan)?;
            Ok(match plan {
                LogicalPlan::Join(tag) if is_tag_join(&tag) => {
                    Transformed::yes(Arc::unwrap_or_clone(tag.left))
                }
                other => Transformed::no(other),
            })
        });
        Ok(settled?.data)
    }
}

fn is_tag(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if is_tag_join(join))
}

/// A join by USING has a column on each side.
fn is_tag_join(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using && join.right.schema().fields().is_empty()
}

/// That no expression of `plan` names a column of a query around by a name that is also of a NATURAL join in its own
/// FROM. DataFusion looks for such a name without a table outside, where the join has several columns of it.
fn check_outer_names(plan: &LogicalPlan) -> Result<()> {
    let inputs = plan.inputs();
    let is_merged = |name: &str| {
        inputs.iter().flat_map(|input| input.schema().iter()).any(|(relation, field)| {
            field.name() == name && relation.is_some_and(|relation| relation.table().starts_with(NATURAL))
        })
    };
    plan.apply_expressions(|expr| {
        expr.apply(|part| match part {
            Expr::OuterReferenceColumn(_, column) if is_merged(&column.name) => {
                Err(may_be_either(&column.name))
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })
    })?;
    Ok(())
}

fn may_be_either(column: &str) -> DataFusionError {
    to_datafusion(Error::unsupported(format!(
        "{column} in a subquery may be the column of its NATURAL JOIN or that of a query around; write \
         USING ({column}) in place of NATURAL"
    )))
}
