//! The rule for keys of orders that DataFusion does not recognise as what rows are sorted by, and for keys that come twice.
//!
//! ```text
//!   PARTITION BY length(t) > 1               ─▶  PARTITION BY as_is(length(t)) > 1
//!   string_agg(t, ',' ORDER BY k, k DESC)    ─▶  string_agg(t, ',' ORDER BY k)
//! ```
//!
//! To tell whether rows are in the order of a comparison, DataFusion 55 computes the ranges of both sides. That of most functions,
//! of CASE and of subqueries has the type NULL, ranges of two types are not compared, and for the error rows that were just
//! sorted count as not sorted: the plan is refused in the last check. `as_is` has a range of the type that it is of.
//!
//! What equals in one key equals in the same key once more, in whatever direction; aggregates have a column for each key that is
//! written, and fill one for each that is different.
//!
//! It runs after types are coerced, so that both sides of a comparison are of one type.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, SortExpr};
use datafusion::optimizer::AnalyzerRule;

use super::function::{as_is_of, is_as_is_of};
use crate::floats::NAME as FLOAT_KEY;

/// Makes keys such that DataFusion finds them in what rows are sorted by.
#[derive(Debug)]
pub(crate) struct ComparedKeys;

impl AnalyzerRule for ComparedKeys {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }

    fn name(&self) -> &str {
        "pelton_compared_keys"
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_sort = matches!(plan, LogicalPlan::Sort(_));
    let has_calls = matches!(plan, LogicalPlan::Window(_) | LogicalPlan::Aggregate(_));
    if !(is_sort || has_calls) || !plan.expressions().iter().any(may_change) {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        if let Expr::GroupingSet(_) = expr {
            return Ok(Transformed::no(expr));
        }
        let name = names.save(&expr);
        let rewritten = match is_sort {
            true => compared(expr, &schema)?,
            false => expr.transform_up(|expr| in_call(expr, &schema))?,
        };
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })
}

/// Cheap to tell and mostly false.
fn may_change(expr: &Expr) -> bool {
    let is_such = |part: &Expr| match part {
        Expr::BinaryExpr(binary) => compares(binary.op),
        Expr::Between(_) => true,
        Expr::AggregateFunction(call) => call.params.order_by.len() > 1,
        _ => false,
    };
    expr.exists(|part| Ok(is_such(part))).unwrap_or(true)
}

/// `expr` with other keys if it is a window or an aggregate.
fn in_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut is_changed = false;
    let mut in_key = |key: Expr| -> Result<Expr> {
        let key = compared(key, schema)?;
        is_changed |= key.transformed;
        Ok(key.data)
    };
    let expr = match expr {
        Expr::WindowFunction(mut call) => {
            let keys = std::mem::take(&mut call.params.partition_by).into_iter();
            call.params.partition_by = keys.map(&mut in_key).collect::<Result<_>>()?;
            call.params.order_by = sorted(std::mem::take(&mut call.params.order_by), &mut in_key)?;
            Expr::WindowFunction(call)
        }
        Expr::AggregateFunction(mut call) => {
            let keys = sorted(std::mem::take(&mut call.params.order_by), &mut in_key)?;
            let count = keys.len();
            call.params.order_by = without_repeats(keys);
            is_changed |= call.params.order_by.len() < count;
            Expr::AggregateFunction(call)
        }
        other => other,
    };
    Ok(Transformed::new_transformed(expr, is_changed))
}

fn sorted(keys: Vec<SortExpr>, in_key: &mut impl FnMut(Expr) -> Result<Expr>) -> Result<Vec<SortExpr>> {
    keys.into_iter().map(|key| Ok(SortExpr { expr: in_key(key.expr)?, ..key })).collect()
}

/// The first of `keys` that are the same but for their directions.
fn without_repeats(keys: Vec<SortExpr>) -> Vec<SortExpr> {
    let mut kept: Vec<SortExpr> = Vec::with_capacity(keys.len());
    for key in keys {
        if !kept.iter().any(|other| other.expr == key.expr) {
            kept.push(key);
        }
    }
    kept
}

/// `key` with ranges of one type on both sides of its comparisons.
fn compared(key: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    key.transform_up(|expr| {
        let mut is_changed = false;
        let mut of_type = |operand: Box<Expr>| -> Box<Expr> {
            let operand = of_its_type(*operand, schema);
            is_changed |= operand.transformed;
            Box::new(operand.data)
        };
        let expr = match expr {
            Expr::BinaryExpr(mut binary) if compares(binary.op) => {
                binary.left = of_type(binary.left);
                binary.right = of_type(binary.right);
                Expr::BinaryExpr(binary)
            }
            Expr::Between(mut between) => {
                between.expr = of_type(between.expr);
                between.low = of_type(between.low);
                between.high = of_type(between.high);
                Expr::Between(between)
            }
            other => other,
        };
        Ok(Transformed::new_transformed(expr, is_changed))
    })
}

/// `operand` such that DataFusion finds its type with its range.
fn of_its_type(operand: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match operand.get_type(schema) {
        Ok(data_type) if !has_typed_range(&operand) => Transformed::yes(as_is_of(operand, data_type)),
        _ => Transformed::no(operand),
    }
}

/// Whether DataFusion finds the type of `expr` with its range. A cast may be moved to the other side of a comparison later.
fn has_typed_range(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Cast(cast) => has_typed_range(&cast.expr),
        Expr::ScalarFunction(call) => call.name() == FLOAT_KEY || is_as_is_of(expr),
        _ => false,
    }
}

/// Whether DataFusion compares ranges for `op`.
fn compares(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    #[test]
    fn a_key_that_comes_again_is_left_out_whatever_its_direction() {
        let keys = vec![
            col("k").sort(true, false),
            col("t").sort(false, true),
            col("k").sort(false, true),
            (col("k") + col("t")).sort(true, true),
        ];
        let kept: Vec<Expr> = without_repeats(keys).into_iter().map(|key| key.expr).collect();
        assert_eq!(kept, [col("k"), col("t"), col("k") + col("t")]);
    }
}
