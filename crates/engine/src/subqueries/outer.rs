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
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

/// A column of a query around, with its field.
pub(super) type OuterColumn = (FieldRef, Column);

/// The outer references in `plan`, each once, in the order found; with those of subqueries in it that mean no
/// column of `plan`'s own.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Vec<OuterColumn> {
    let mut found: Vec<OuterColumn> = Vec::new();
    // The closures give no errors.
    let _ = plan.apply(|plan| {
        let inputs = plan.inputs();
        plan.apply_expressions(|expr| {
            collect(expr, &inputs, &mut found);
            Ok(TreeNodeRecursion::Continue)
        })?;
        let LogicalPlan::Join(join) = plan else { return Ok(TreeNodeRecursion::Continue) };
        if lateral_of(&join.right).is_none() {
            return Ok(TreeNodeRecursion::Continue);
        }
        // The right side names columns of the left one first.
        let of_right = outer_columns(&join.right).into_iter();
        let further_out = of_right.filter(|(_, column)| !join.left.schema().has_column(column));
        for (field, column) in outer_columns(&join.left).into_iter().chain(further_out) {
            if !found.iter().any(|(_, other)| *other == column) {
                found.push((field, column));
            }
        }
        Ok(TreeNodeRecursion::Jump)
    });
    found
}

/// What `plan`, the right side of a join, computes for each row of the left one: a subquery of FROM after LATERAL, or a
/// function there.
pub(super) fn lateral_of(plan: &LogicalPlan) -> Option<&Arc<LogicalPlan>> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(&subquery.subquery),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(&subquery.subquery),
            _ => None,
        },
        _ => None,
    }
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
    let to = |field: &FieldRef, column: &Column| to(column).map(|column| (Arc::clone(field), column));
    replaced(expr, inputs, &to, &|_, column| Expr::Column(column))
}

/// What becomes of an outer reference; `None`: it stays.
type To<'a> = &'a dyn Fn(&FieldRef, &Column) -> Option<OuterColumn>;

fn replaced(
    expr: Expr,
    inputs: &[DFSchemaRef],
    to: To<'_>,
    named: &dyn Fn(FieldRef, Column) -> Expr,
) -> Result<Expr> {
    let further_out =
        |field: &FieldRef, column: &Column| match inputs.iter().any(|schema| schema.has_column(column)) {
            true => None,
            false => to(field, column),
        };
    let replaced = expr.transform_up(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => Ok(match to(&field, &column) {
            Some((field, column)) => Transformed::yes(named(field, column)),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        }),
        other if subquery_of(&other).is_some() => {
            map_subquery(other, &|subquery| renamed(subquery, &further_out)).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(replaced?.data)
}

/// `expr` with the subquery that it itself is about made another.
fn map_subquery(mut expr: Expr, to: &dyn Fn(Subquery) -> Result<Subquery>) -> Result<Expr> {
    let subquery = match &mut expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => subquery,
        _ => return Ok(expr),
    };
    *subquery = to(subquery.clone())?;
    Ok(expr)
}

/// `subquery` with its outer references named anew.
fn renamed(subquery: Subquery, to: To<'_>) -> Result<Subquery> {
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

/// `plan` in which its subqueries name its columns with the types that these have.
///
/// The branches of a UNION get their common type only after what is around it has been planned, with the types of the first
/// branch.
pub(super) fn with_types(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut may_be_named = matches!(&plan, LogicalPlan::Join(join) if lateral_of(&join.right).is_some());
    plan.apply_expressions(|expr| {
        may_be_named |= has_subquery(expr);
        Ok(if may_be_named { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !may_be_named {
        return Ok(Transformed::no(plan));
    }
    let as_typed = |schema: &DFSchema, field: &FieldRef, column: &Column| {
        let known = schema.field_from_column(column).ok()?;
        (known.data_type() != field.data_type()).then(|| (Arc::clone(known), column.clone()))
    };
    let schema = merge_schema(&plan.inputs());
    let to = |field: &FieldRef, column: &Column| as_typed(&schema, field, column);
    let retyped = |expr: Expr| {
        let is_other = |subquery: &Subquery| has_any(&subquery.subquery, &to);
        match subquery_of(&expr).is_some_and(is_other) {
            true => map_subquery(expr, &|subquery| renamed(subquery, &to)).map(Transformed::yes),
            false => Ok(Transformed::no(expr)),
        }
    };
    plan.map_expressions(|expr| expr.transform_up(&retyped))?.transform_data(|plan| {
        let LogicalPlan::Join(mut join) = plan else { return Ok(Transformed::no(plan)) };
        let left = Arc::clone(join.left.schema());
        let to = |field: &FieldRef, column: &Column| as_typed(&left, field, column);
        if !lateral_of(&join.right).is_some_and(|lateral| has_any(lateral, &to)) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let right = Arc::unwrap_or_clone(join.right).transform_down(|plan| match plan {
            LogicalPlan::Subquery(subquery) => {
                let subquery = LogicalPlan::Subquery(renamed(subquery, &to)?);
                Ok(Transformed::new(subquery, true, TreeNodeRecursion::Stop))
            }
            other => Ok(Transformed::no(other)),
        })?;
        join.right = Arc::new(right.data);
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    })
}

/// Whether `plan` has an outer reference of which `to` makes something.
fn has_any(plan: &LogicalPlan, to: To<'_>) -> bool {
    outer_columns(plan).iter().any(|(field, column)| to(field, column).is_some())
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
