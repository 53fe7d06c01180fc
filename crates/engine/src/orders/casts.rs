//! The rule that hides the order of what is cast, where the cast has another, and of two functions.
//!
//! ```text
//!   CAST(ts AS TIME)     ─▶  CAST(as_is(ts) AS TIME)      between temporal types, if the order is not kept
//!   log(0.5, x)          ─▶  as_is(log(0.5, x))           unless the base is a number above 1
//!   b OR NULL            ─▶  as_is(b OR NULL)             but for conditions: NULL, then true
//! ```
//!
//! It runs after types are coerced, so that no cast comes later. What several analyses have done is done once.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast};
use datafusion::optimizer::AnalyzerRule;

use super::function::{AS_IS, as_is, is_as_is};
use crate::cast_bounds::keeps_order;
use crate::opaque::is_utc;

/// Hides orders that are not those of the result.
#[derive(Debug)]
pub(crate) struct OrderlessCasts;

impl AnalyzerRule for OrderlessCasts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }

    fn name(&self) -> &str {
        "pelton_orderless_casts"
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !plan.expressions().iter().any(may_hide) {
        return Ok(Transformed::no(plan));
    }
    let schema = {
        let inputs = plan.inputs();
        if inputs.is_empty() { DFSchema::clone(plan.schema()) } else { merge_schema(&inputs) }
    };
    let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let mut rewrite = |expr: Expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| Ok(hidden(expr, &schema, is_condition)))?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        };
        match expr {
            Expr::GroupingSet(_) => expr.map_children(&mut rewrite),
            other => rewrite(other),
        }
    })
}

/// Cheap to tell and mostly false.
fn may_hide(expr: &Expr) -> bool {
    let is_such = |part: &Expr| match part {
        Expr::Cast(cast) => cast.field.data_type().is_temporal(),
        Expr::TryCast(cast) => cast.field.data_type().is_temporal(),
        Expr::ScalarFunction(call) => call.name() == "log",
        Expr::BinaryExpr(binary) => is_logic_of_null(binary.op, &binary.left, &binary.right),
        _ => false,
    };
    expr.exists(|part| Ok(is_such(part))).unwrap_or(true)
}

/// `expr` itself, of columns of `schema`; what is inside it is done.
fn hidden(expr: Expr, schema: &DFSchema, is_condition: bool) -> Transformed<Expr> {
    let mixes = |inside: &Expr, to: &DataType| {
        !is_as_is(inside) && inside.get_type(schema).is_ok_and(|from| is_mixing(&from, to))
    };
    match expr {
        Expr::Cast(Cast { expr, field }) if mixes(&expr, field.data_type()) => {
            Transformed::yes(Expr::Cast(Cast { expr: Box::new(as_is(*expr)), field }))
        }
        Expr::TryCast(TryCast { expr, field }) if mixes(&expr, field.data_type()) => {
            Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(as_is(*expr)), field }))
        }
        Expr::ScalarFunction(call) if is_falling_log(&call) => {
            Transformed::yes(as_is(Expr::ScalarFunction(call)))
        }
        Expr::BinaryExpr(binary)
            if !is_condition && is_logic_of_null(binary.op, &binary.left, &binary.right) =>
        {
            Transformed::yes(as_is(Expr::BinaryExpr(binary)))
        }
        // Of an earlier analysis, and of this one.
        Expr::ScalarFunction(mut call) if call.name() == AS_IS && call.args.first().is_some_and(is_as_is) => {
            Transformed::yes(call.args.swap_remove(0))
        }
        other => Transformed::no(other),
    }
}

/// Whether DataFusion takes a cast for one that keeps the order, and it is none.
fn is_mixing(from: &DataType, to: &DataType) -> bool {
    let without_utc = |data_type: &DataType| match data_type {
        DataType::Timestamp(unit, Some(zone)) if is_utc(zone) => DataType::Timestamp(*unit, None),
        other => other.clone(),
    };
    let is_temporal = from.is_temporal() && to.is_temporal();
    is_temporal && !keeps_order(from, to) && !keeps_order(&without_utc(from), &without_utc(to))
}

/// Whether `call` is a logarithm that may fall where its operand rises.
fn is_falling_log(call: &ScalarFunction) -> bool {
    let [base, _] = call.args.as_slice() else { return false };
    call.name() == "log" && !constant(base).is_some_and(is_above_one)
}

fn is_above_one(value: &ScalarValue) -> bool {
    matches!(value.cast_to(&DataType::Float64), Ok(ScalarValue::Float64(Some(base))) if base > 1.0)
}

fn is_logic_of_null(op: Operator, left: &Expr, right: &Expr) -> bool {
    let is_null = |expr: &Expr| constant(expr).is_some_and(ScalarValue::is_null);
    matches!(op, Operator::And | Operator::Or) && (is_null(left) || is_null(right))
}

/// The value of a constant, through casts.
fn constant(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Cast(cast) => constant(&cast.expr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_between_temporal_types_that_change_the_order_are_known() {
        let instant = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into));
        let time = DataType::Time64(TimeUnit::Nanosecond);
        for (from, to, expected) in [
            (instant(None), time.clone(), true),
            (instant(Some("UTC")), time.clone(), true),
            (instant(None), DataType::Date32, false),
            (DataType::Date32, instant(None), false),
            (instant(Some("UTC")), DataType::Date32, false),
            (instant(None), instant(Some("UTC")), false),
            (instant(Some("Europe/Berlin")), instant(None), true),
            (instant(Some("Europe/Berlin")), DataType::Date32, true),
            (instant(Some("Europe/Berlin")), instant(Some("UTC")), false),
            (time.clone(), time, false),
            (instant(None), DataType::Utf8, false), // DataFusion expects no order of it
            (DataType::Float64, DataType::Int32, false),
        ] {
            assert_eq!(is_mixing(&from, &to), expected, "{from} {to}");
        }
    }
}
