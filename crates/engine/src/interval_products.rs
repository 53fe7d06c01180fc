//! Operators that PostgreSQL has and DataFusion 55 does not, planned while SQL becomes a plan, where types are known.
//!
//! ```text
//!   INTERVAL '2 hours' * 3, 3 * i, i / 2     interval_product(i, 3.0), interval_quotient(i, 2.0)
//!   p = 'true'                               p = CAST('true' AS BOOLEAN), where p is BOOLEAN
//!   NULL || NULL, 1 || NULL                  CAST(NULL AS VARCHAR) || NULL, 1 || CAST(NULL AS VARCHAR)
//!   'abc' ^@ 'ab'                            starts_with('abc', 'ab')
//! ```
//!
//! A fraction of a month is days, of which a month has 30, and a fraction of a day is a time. A difference of timestamps is
//! days and a time.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, Float64Type, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{DFSchema, exec_err};
use datafusion::error::Result;
use datafusion::functions::string::starts_with;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast, lit,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::date_parts::days_and_times;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const DAYS_PER_MONTH: f64 = 30.0;
const SECONDS_PER_DAY: f64 = 86_400.0;
/// Nanoseconds.
const SECOND: f64 = 1e9;

/// Plans these operators.
#[derive(Debug)]
pub(crate) struct MoreOperators;

impl ExprPlanner for MoreOperators {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Multiply, NotEq, PGStartsWith, StringConcat};
        match expr.op {
            Multiply if is_interval(&expr.left, schema) && is_number(&expr.right, schema) => {
                return Ok(PlannerResult::Planned(call(false, expr.left, expr.right)));
            }
            Multiply if is_interval(&expr.right, schema) && is_number(&expr.left, schema) => {
                return Ok(PlannerResult::Planned(call(false, expr.right, expr.left)));
            }
            Divide if is_interval(&expr.left, schema) && is_number(&expr.right, schema) => {
                return Ok(PlannerResult::Planned(call(true, expr.left, expr.right)));
            }
            Eq | NotEq | Lt | LtEq | Gt | GtEq => {
                if is_text(&expr.right) && is_boolean(&expr.left, schema) {
                    expr.right = cast(expr.right, DataType::Boolean);
                } else if is_text(&expr.left) && is_boolean(&expr.right, schema) {
                    expr.left = cast(expr.left, DataType::Boolean);
                }
            }
            StringConcat if is_null(&expr.left) && is_written_out(&expr.right, schema) => {
                expr.left = lit(ScalarValue::Utf8(None));
            }
            StringConcat if is_null(&expr.right) && is_written_out(&expr.left, schema) => {
                expr.right = lit(ScalarValue::Utf8(None));
            }
            PGStartsWith => {
                return Ok(PlannerResult::Planned(starts_with().call(vec![expr.left, expr.right])));
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }
}

fn call(is_quotient: bool, interval: Expr, number: Expr) -> Expr {
    let function = IntervalProduct { is_quotient, signature: Signature::any(2, Volatility::Immutable) };
    ScalarUDF::from(function).call(vec![interval, cast(number, DataType::Float64)])
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Null, _))
}

/// Whether `||` makes a text of `expr`, which is none itself.
fn is_written_out(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema)
        .is_ok_and(|data_type| !data_type.is_list() && !data_type.is_binary() && !data_type.is_string())
}

fn is_boolean(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean)
}

fn is_number(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_numeric() || data_type.is_null())
}

/// Whether `expr` is an interval or a duration. Arithmetic is long: its type is computed only where it begins with a time.
fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    let mut first = expr;
    while let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, .. }) = first {
        first = left;
    }
    if matches!(first, Expr::BinaryExpr(_)) {
        return false;
    }
    let is_interval =
        |data_type: &DataType| matches!(data_type, DataType::Interval(_) | DataType::Duration(_));
    let Ok(of_first) = first.get_type(schema) else { return false };
    match expr {
        Expr::BinaryExpr(_) if of_first.is_temporal() => {
            expr.get_type(schema).is_ok_and(|data_type| is_interval(&data_type))
        }
        Expr::BinaryExpr(_) => false,
        _ => is_interval(&of_first),
    }
}

/// `interval_product(i, x)` and `interval_quotient(i, x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalProduct {
    is_quotient: bool,
    signature: Signature,
}

impl ScalarUDFImpl for IntervalProduct {
    fn name(&self) -> &str {
        if self.is_quotient { "interval_quotient" } else { "interval_product" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let intervals: ArrayRef = args.args[0].to_array(rows)?;
        let numbers: ArrayRef = args.args[1].to_array(rows)?;
        // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
        if [&intervals, &numbers].iter().any(|values| values.logical_null_count() == rows) {
            return Ok(ColumnarValue::Array(new_null_array(&INTERVAL, rows)));
        }
        let intervals = days_and_times(&intervals)?;
        let numbers = numbers.as_primitive::<Float64Type>().iter();
        let products = intervals.iter().zip(numbers).map(|row| match row {
            (Some(_), Some(0.0)) if self.is_quotient => exec_err!("division by zero: an interval is divided"),
            (Some(interval), Some(number)) => {
                let by = |part: f64| if self.is_quotient { part / number } else { part * number };
                match product(interval, by) {
                    Some(product) => Ok(Some(product)),
                    None => {
                        exec_err!("an interval times or divided by {number} is out of range")
                    }
                }
            }
            _ => Ok(None),
        });
        let products: IntervalMonthDayNanoArray = products.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(products)))
    }
}

/// `interval` with each of its parts multiplied or divided, as PostgreSQL does it; `None` where it gets too long.
fn product(interval: IntervalMonthDayNano, by: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    // Fractions are rounded to microseconds, so that a tenth of a month is three days.
    let rounded = |seconds: f64| (seconds * 1e6).round_ties_even() / 1e6;
    let (months, mut days) = (by(f64::from(interval.months)), by(f64::from(interval.days)));
    let more_days = rounded(months.fract() * DAYS_PER_MONTH);
    let mut seconds = rounded((days.fract() + more_days.fract()) * SECONDS_PER_DAY);
    days = days.trunc() + more_days.trunc();
    if seconds.abs() >= SECONDS_PER_DAY {
        days += (seconds / SECONDS_PER_DAY).trunc();
        seconds %= SECONDS_PER_DAY;
    }
    let nanoseconds = (by(interval.nanoseconds as f64) + seconds * SECOND).round_ties_even();
    let as_int = |value: f64| (value.abs() <= f64::from(i32::MAX)).then_some(value as i32);
    Some(IntervalMonthDayNano {
        months: as_int(months.trunc())?,
        days: as_int(days)?,
        // 2^63 itself is too long.
        nanoseconds: (nanoseconds.abs() < -(i64::MIN as f64)).then_some(nanoseconds as i64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(interval: (i32, i32, i64), by: impl Fn(f64) -> f64, expected: Option<(i32, i32, i64)>) {
        let of = |(months, days, nanoseconds)| IntervalMonthDayNano { months, days, nanoseconds };
        assert_eq!(product(of(interval), by), expected.map(of), "{interval:?}");
    }

    /// As PostgreSQL 15 prints them.
    #[test]
    fn fractions_go_on_to_days_and_hours() {
        const HOUR: i64 = 3_600_000_000_000;
        check((0, 0, 2 * HOUR), |part| part * 3.0, Some((0, 0, 6 * HOUR)));
        check((0, 1, 0), |part| part * 40.0, Some((0, 40, 0)));
        check((0, 1, 0), |part| part / 2.0, Some((0, 0, 12 * HOUR)));
        check((1, 0, 0), |part| part / 2.0, Some((0, 15, 0)));
        check((1, 0, 0), |part| part * 0.1, Some((0, 3, 0)));
        check((1, 1, HOUR), |part| part * -1.5, Some((-1, -16, -HOUR * 27 / 2)));
        check((3, 0, 0), |part| part / 4.0, Some((0, 22, 12 * HOUR)));
        check((i32::MAX, 0, 0), |part| part * 2.0, None);
        check((0, 0, HOUR), |part| part * 1e9, None);
        check((1, 0, 0), |part| part * f64::NAN, None);
    }
}
