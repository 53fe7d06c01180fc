//! Replaces arithmetic that could overflow by its checked form, once DataFusion has given all operands their types.
//!
//! It comes before all rules that fold constants, so that these are checked too. Arithmetic on floats, timestamps and
//! intervals stays as it is: floats have infinities, and Arrow checks the others. So does that of dates, but for one:
//!
//! ```text
//!   day - DATE '2024-02-28'      CAST(day AS BIGINT) - CAST(DATE '2024-02-28' AS BIGINT)
//! ```
//!
//! Both are numbers of days. DataFusion 55 computes the bounds of a date minus a date as a duration, which a filter over
//! rows of known bounds then fails to compare with a number.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast};
use datafusion::optimizer::AnalyzerRule;

use super::checked::{Checked, CheckedOp};
use super::types::rewrite_expressions;

/// The rule.
#[derive(Debug)]
pub(super) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, rewrite)
    }
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if let Some(checked) = checked_op(op) => {
            let types = (type_of(&left, schema)?, type_of(&right, schema)?);
            match result_type(checked, &types.0, &types.1) {
                Some(result) => Transformed::yes(Checked::binary(checked, *left, *right, result)),
                None if checked == CheckedOp::Subtract && types == (DataType::Date32, DataType::Date32) => {
                    let [left, right] = [*left, *right].map(|date| cast(date, DataType::Int64));
                    Transformed::yes(Checked::binary(checked, left, right, DataType::Int64))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(operand) => match type_of(&operand, schema)? {
            integer if integer.is_signed_integer() => Transformed::yes(Checked::negation(*operand, integer)),
            _ => Transformed::no(Expr::Negative(operand)),
        },
        other => Transformed::no(other),
    })
}

fn checked_op(op: Operator) -> Option<CheckedOp> {
    match op {
        Operator::Plus => Some(CheckedOp::Add),
        Operator::Minus => Some(CheckedOp::Subtract),
        Operator::Multiply => Some(CheckedOp::Multiply),
        _ => None,
    }
}

/// The type of `expr`; of checked arithmetic at once, so that long sums are not walked for each of their terms.
fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    if let Expr::ScalarFunction(call) = expr
        && let Some(checked) = call.func.inner().downcast_ref::<Checked>()
    {
        return Ok(checked.data_type().clone());
    }
    expr.get_type(schema)
}

/// The type of what is checked, as Arrow has it; `None` for what is not.
fn result_type(op: CheckedOp, left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        (left, right) if left == right && left.is_integer() => Some(left.clone()),
        (&DataType::Decimal128(p1, s1), &DataType::Decimal128(p2, s2)) => {
            let (precision, scale) = match op {
                CheckedOp::Multiply => (i16::from(p1) + i16::from(p2) + 1, i16::from(s1) + i16::from(s2)),
                _ => {
                    let scale = i16::from(s1.max(s2));
                    let whole = (i16::from(p1) - i16::from(s1)).max(i16::from(p2) - i16::from(s2));
                    (whole + scale + 1, scale)
                }
            };
            Some(DataType::Decimal128(
                precision.min(38) as u8,
                i8::try_from(scale).ok().filter(|s| *s <= 38)?,
            ))
        }
        _ => None,
    }
}
