//! What a subquery asks of its query's row, taken off the top of the subquery where that leaves the same
//! rows.
//!
//! ```text
//!   Filter  y = outer(x)                   conditions: a + b = outer(x), k = outer(k), a > 3
//!     Projection  a + b AS y          ─▶   base:       s
//!       Filter  k = outer(k) AND a > 3
//!         Scan s
//! ```
//!
//! Whether a row passes such a filter does not depend on other rows. Where it does, as below aggregates,
//! windows and LIMIT, or where another operator makes rows of those that pass, there is nothing to take off.

use std::collections::{HashMap, HashSet};

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, FetchType, Filter, Join, JoinType, Limit,
    LogicalPlan, Operator, Projection, SkipType,
};

use super::domain::substituted;
use super::outer::{has_outer, has_subquery, outer_columns_of};
use super::rows::may_change;

/// Whether DataFusion's own semi and anti joins are right for this subquery as a conjunct of WHERE.
pub(super) fn joins_as_it_is(subquery: &LogicalPlan) -> bool {
    is_plain(subquery) && names_are_distinct(subquery)
}

fn is_plain(subquery: &LogicalPlan) -> bool {
    match subquery {
        plan if !has_outer(plan) => true,
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            !expr.iter().any(|expr| names_outer(expr, input)) && is_plain(input)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => is_plain(input),
        LogicalPlan::SubqueryAlias(alias) => has_compared(&alias.input) && is_plain(&alias.input),
        // What it asks of chance is asked for each row of the query.
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let may_join = |expr: &&Expr| may_join(expr, input) && !may_change(expr);
            split_conjunction(predicate).iter().all(may_join) && is_plain(input)
        }
        _ => false,
    }
}

/// Whether `plan`, which gets another name, has all columns that conditions in it compare with the query's row: DataFusion
/// finds no others under that name.
fn has_compared(plan: &LogicalPlan) -> bool {
    let mut has_all = true;
    // The closure gives no errors.
    let _ = plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let conjuncts = split_conjunction(&filter.predicate).into_iter();
            let mut columns = conjuncts.filter(|expr| expr.contains_outer()).flat_map(Expr::column_refs);
            has_all &= columns.all(|column| plan.schema().has_column(column));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    has_all
}

/// Whether columns that conditions compare with the query's row, which join the output, can be told apart by
/// their names alone; those of floats among the output become keys under the same names.
fn names_are_distinct(subquery: &LogicalPlan) -> bool {
    let mut columns: HashSet<Column> = HashSet::new();
    let mut output: Vec<Expr> = Vec::new();
    // The closures give no errors.
    let _ = subquery.apply(|plan| {
        match plan {
            LogicalPlan::Filter(filter) => {
                let conjuncts = split_conjunction(&filter.predicate);
                let outer = conjuncts.into_iter().filter(|expr| expr.contains_outer());
                columns.extend(outer.flat_map(Expr::column_refs).cloned());
            }
            LogicalPlan::Projection(projection) => output.extend(projection.expr.iter().cloned()),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let names: HashSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let flat_names: HashSet<String> = columns.iter().map(Column::flat_name).collect();
    let is_other = |expr: &Expr| !matches!(expr, Expr::Column(_));
    let clashes = |(column, field): (Column, &FieldRef)| {
        names.contains(column.name.as_str())
            && (!columns.contains(&column) || field.data_type().is_floating())
    };
    names.len() == columns.len()
        && !subquery.schema().columns().into_iter().zip(subquery.schema().fields()).any(clashes)
        && !output.iter().any(|expr| is_other(expr) && flat_names.contains(&expr.schema_name().to_string()))
}

/// Whether DataFusion joins the value of this subquery: an aggregate of rows of which columns equal the
/// query's. It keeps no HAVING that holds for no rows.
pub(super) fn value_joins_as_it_is(subquery: &LogicalPlan) -> bool {
    match subquery {
        plan if !has_outer(plan) => true,
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            expr.iter().all(|expr| !names_outer(expr, input) && stays_of_rows(expr, input.schema()))
                && value_joins_as_it_is(input)
        }
        LogicalPlan::SubqueryAlias(alias) => value_joins_as_it_is(&alias.input),
        LogicalPlan::Aggregate(Aggregate { group_expr, aggr_expr, input, .. }) => {
            group_expr.is_empty() && !aggr_expr.iter().any(|expr| names_outer(expr, input)) && has_keys(input)
        }
        _ => false,
    }
}

/// Whether `expr`, over the one row of an aggregate, is sure to be no constant after it is simplified. DataFusion takes a
/// constant for one that only queries with rows have: `count(*) IS NULL` is FALSE before it asks what it is for no rows.
fn stays_of_rows(expr: &Expr, schema: &DFSchema) -> bool {
    let may_be_null =
        |column: &&Column| schema.field_from_column(column).is_ok_and(|field| field.is_nullable());
    let expr = expr.clone().unalias();
    if is_column(&expr) {
        return true;
    }
    if expr.column_refs().iter().all(may_be_null) {
        return is_computed(&expr);
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else { return false };
    let is_simple = matches!(op, Operator::Plus | Operator::Minus) || is_comparison(*op);
    is_simple && (is_column(left) && is_constant(right) || is_column(right) && is_constant(left))
}

/// Whether `expr`, over columns that may be NULL, computes with one of them.
fn is_computed(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Cast(cast) => is_computed(&cast.expr),
        Expr::Negative(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => is_computed(inner),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_operand = |expr: &Expr| is_constant(expr) || is_computed(expr);
            let computes = op.is_numerical_operators() || is_comparison(*op);
            computes && expr.any_column_refs() && is_operand(left) && is_operand(right)
        }
        // A function that looks at its arguments one by one may stop at a constant: coalesce(1, x).
        Expr::ScalarFunction(call) => {
            let computes = |args: &[Expr]| args.iter().any(is_computed);
            let is_first = call.args.first().is_some_and(is_computed);
            (is_first || !call.func.short_circuits() && computes(&call.args)) && !has_subquery(expr)
        }
        _ => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs() && !has_subquery(expr) && !expr.is_volatile()
}

/// Whether `expr` is a column, or a column as another type.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Column(_)),
        other => matches!(other, Expr::Column(_)),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Whether DataFusion joins this subquery of FROM, one that names columns of what stands before it: rows that it compares
/// with these, or an aggregate.
pub(super) fn lateral_joins_as_it_is(subquery: &LogicalPlan) -> bool {
    (has_rows_alone(subquery) || value_joins_as_it_is(subquery)) && names_are_distinct(subquery)
}

/// Whether `plan` is rows that are filtered by their query's row, of which nothing else is made.
fn has_rows_alone(plan: &LogicalPlan) -> bool {
    match plan {
        plan if !has_outer(plan) => true,
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            !expr.iter().any(|expr| names_outer(expr, input)) && has_rows_alone(input)
        }
        LogicalPlan::SubqueryAlias(alias) => has_compared(&alias.input) && has_rows_alone(&alias.input),
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let compares = |expr: &&Expr| !names_outer(expr, input) || may_filter(expr, input.schema());
            split_conjunction(predicate).iter().all(compares) && has_rows_alone(input)
        }
        _ => false,
    }
}

/// Whether `expr`, over the rows of `schema`, may become a condition of a join; floats are compared by what is made of them.
fn may_filter(expr: &Expr, schema: &DFSchema) -> bool {
    let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
    let compares_floats = |part: &Expr| match part {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => is_float(left) || is_float(right),
        _ => false,
    };
    !has_subquery(expr) && !expr.exists(|part| Ok(compares_floats(part))).unwrap_or(true)
}

/// Whether all that `plan` asks of its query's row is that columns equal something of it.
fn has_keys(plan: &LogicalPlan) -> bool {
    match plan {
        plan if !has_outer(plan) => true,
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            !expr.iter().any(|expr| names_outer(expr, input)) && has_keys(input)
        }
        LogicalPlan::SubqueryAlias(alias) => has_compared(&alias.input) && has_keys(&alias.input),
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let mut conjuncts = split_conjunction(predicate).into_iter();
            conjuncts.all(|expr| !names_outer(expr, input) || is_key(expr, input.schema())) && has_keys(input)
        }
        _ => false,
    }
}

/// Whether `expr` says that a column equals something of the query's row; floats are compared by what is made of them.
fn is_key(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return false };
    let is_outer = |expr: &Expr| !has_subquery(expr) && !expr.any_column_refs();
    let is_float = left.get_type(schema).is_ok_and(|of_key| of_key.is_floating());
    !is_float && (is_column(left) && is_outer(right) || is_column(right) && is_outer(left))
}

/// Whether `expr`, over the rows of `input`, names a column of a query around.
fn names_outer(expr: &Expr, input: &LogicalPlan) -> bool {
    !outer_columns_of(expr, &[input]).is_empty()
}

/// Whether `expr` may be a condition of a join with the query around: it names no column of that in a
/// subquery of its own.
fn may_join(expr: &Expr, input: &LogicalPlan) -> bool {
    !has_subquery(expr) || !names_outer(expr, input)
}

/// A subquery as rows and what is asked of them.
pub(super) struct Peeled {
    /// Names no column of a query around.
    pub(super) base: LogicalPlan,
    /// Conjuncts over rows of `base` and columns of queries around.
    pub(super) conditions: Vec<Expr>,
}

/// `plan`, of which only is asked whether it has rows, as rows and conditions; `None` where it has another
/// form.
pub(super) fn peel(plan: &LogicalPlan) -> Result<Option<Peeled>> {
    let mut conditions = Vec::new();
    let Some(base) = base_of(plan, &mut conditions)? else { return Ok(None) };
    Ok(Some(Peeled { base, conditions }))
}

fn base_of(plan: &LogicalPlan, conditions: &mut Vec<Expr>) -> Result<Option<LogicalPlan>> {
    match plan {
        plan if !has_outer(plan) => Ok(Some(plan.clone())),
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let conjuncts = split_conjunction(predicate);
            if !conjuncts.iter().all(|expr| may_join(expr, input)) {
                return Ok(None);
            }
            conditions.extend(conjuncts.into_iter().cloned());
            base_of(input, conditions)
        }
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            if expr.iter().any(|expr| expr.is_volatile() || has_subquery(expr)) {
                return Ok(None);
            }
            let output = plan.schema().columns().into_iter();
            let inputs = output.zip(expr.iter().map(|expr| expr.clone().unalias())).collect();
            substitute(conditions, &inputs, input)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let output = plan.schema().columns().into_iter();
            let inputs = output.zip(alias.input.schema().columns().into_iter().map(Expr::Column)).collect();
            substitute(conditions, &inputs, &alias.input)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => base_of(input, conditions),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => base_of(&sort.input, conditions),
        LogicalPlan::Limit(limit) if conditions.is_empty() && leaves_a_row(limit)? => {
            base_of(&limit.input, conditions)
        }
        LogicalPlan::Join(join)
            if join.join_type == JoinType::Inner && !has_outer(&join.left) && !has_outer(&join.right) =>
        {
            let named = join.on.iter().any(|(left, right)| has_subquery(left) || has_subquery(right))
                || join.on.iter().any(|(left, right)| left.contains_outer() || right.contains_outer())
                || join.filter.as_ref().is_some_and(has_subquery);
            if named {
                return Ok(None);
            }
            conditions.extend(join.filter.iter().flat_map(split_conjunction).cloned());
            Ok(Some(LogicalPlan::Join(Join { filter: None, ..join.clone() })))
        }
        _ => Ok(None),
    }
}

/// Goes on below a node that gives columns other names.
fn substitute(
    conditions: &mut Vec<Expr>,
    inputs: &HashMap<Column, Expr>,
    input: &LogicalPlan,
) -> Result<Option<LogicalPlan>> {
    // A subquery in a condition names the columns as outer ones.
    if conditions.iter().any(has_subquery) {
        return Ok(None);
    }
    for condition in conditions.iter_mut() {
        *condition = substituted(condition.clone(), inputs)?;
    }
    base_of(input, conditions)
}

/// LIMIT 1 and more, without OFFSET, of some rows is some rows.
fn leaves_a_row(limit: &Limit) -> Result<bool> {
    let skips = !matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let fetches = match limit.get_fetch_type()? {
        FetchType::Literal(Some(rows)) => rows > 0,
        FetchType::Literal(None) => true,
        FetchType::UnsupportedExpr => false,
    };
    Ok(!skips && fetches)
}
