//! Outer references: columns of the query around a subquery, as expressions in the subquery name them.
//!
//! DataFusion says by its name only which column is meant. A name means the innermost query that has such a
//! column, so references are looked up from the inside out, and what the nearest query does not have is left
//! to those around it.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// A column of a query around, with its field.
pub(super) type OuterColumn = (FieldRef, Column);

/// The outer references in `plan`, each once, in the order found; with those of subqueries in it that mean no
/// column of `plan`'s own.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Vec<OuterColumn> {
    let mut found = Vec::new();
    // The closures give no errors.
    let _ = plan.apply(|plan| {
        let inputs = plan.inputs();
        plan.apply_expressions(|expr| {
            collect(expr, &inputs, &mut found);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found
}

/// The outer references in `expr`, an expression over the rows of `inputs`, likewise.
pub(super) fn outer_columns_of(expr: &Expr, inputs: &[&LogicalPlan]) -> Vec<OuterColumn> {
    let mut found = Vec::new();
    collect(expr, inputs, &mut found);
    found
}

fn collect(expr: &Expr, inputs: &[&LogicalPlan], found: &mut Vec<OuterColumn>) {
    let mut add = |field: &FieldRef, column: &Column| {
        if !found.iter().any(|(_, other)| other == column) {
            found.push((Arc::clone(field), column.clone()));
        }
    };
    let _ = expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(field, column) = expr {
            add(field, column);
        } else if let Some(subquery) = subquery_of(expr) {
            for (field, column) in outer_columns(&subquery.subquery) {
                if !inputs.iter().any(|input| input.schema().has_column(&column)) {
                    add(&field, &column);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
}

/// Whether `plan` names a column of a query around.
pub(super) fn has_outer(plan: &LogicalPlan) -> bool {
    !outer_columns(plan).is_empty()
}

/// The subquery that `expr` itself is about.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether there is a subquery in `expr`.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subquery_of(expr).is_some())).unwrap_or(true)
}

/// `expr`, over the rows of `inputs`, with each outer reference for which `to` has a column made that column;
/// in subqueries of `expr` it is an outer reference to that column.
pub(super) fn replace_outer(
    expr: Expr,
    inputs: &[DFSchemaRef],
    to: &dyn Fn(&Column) -> Option<Column>,
) -> Result<Expr> {
    replaced(expr, inputs, to, &|_, column| Expr::Column(column))
}

fn replaced(
    expr: Expr,
    inputs: &[DFSchemaRef],
    to: &dyn Fn(&Column) -> Option<Column>,
    named: &dyn Fn(FieldRef, Column) -> Expr,
) -> Result<Expr> {
    let further_out = |column: &Column| match inputs.iter().any(|schema| schema.has_column(column)) {
        true => None,
        false => to(column),
    };
    let replaced = expr.transform_up(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => Ok(match to(&column) {
            Some(column) => Transformed::yes(named(field, column)),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        }),
        Expr::Exists(mut exists) => {
            exists.subquery = renamed(exists.subquery, &further_out)?;
            Ok(Transformed::yes(Expr::Exists(exists)))
        }
        Expr::InSubquery(mut query) => {
            query.subquery = renamed(query.subquery, &further_out)?;
            Ok(Transformed::yes(Expr::InSubquery(query)))
        }
        Expr::SetComparison(mut comparison) => {
            comparison.subquery = renamed(comparison.subquery, &further_out)?;
            Ok(Transformed::yes(Expr::SetComparison(comparison)))
        }
        Expr::ScalarSubquery(subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(renamed(subquery, &further_out)?)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(replaced?.data)
}

/// `subquery` with its outer references named anew.
fn renamed(subquery: Subquery, to: &dyn Fn(&Column) -> Option<Column>) -> Result<Subquery> {
    let plan = Arc::unwrap_or_clone(subquery.subquery).transform_up(|plan| {
        let inputs: Vec<DFSchemaRef> =
            plan.inputs().into_iter().map(|input| Arc::clone(input.schema())).collect();
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = replaced(expr, &inputs, to, &Expr::OuterReferenceColumn)?;
            Ok(Transformed::yes(name.restore(expr)))
        })
    })?;
    let outer = outer_columns(&plan.data).into_iter();
    Ok(Subquery {
        outer_ref_columns: outer.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect(),
        subquery: Arc::new(plan.data),
        spans: subquery.spans,
    })
}

/// `expr` over the rows of `schema` as a subquery of them names it.
pub(super) fn as_outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(outer?.data)
}
