//! Casts of decimals to DOUBLE give the nearest one.
//!
//! ```text
//!   CAST(x AS DOUBLE)      x of up to 15 digits, 22 of them after the point      Arrow's cast
//!                          x of more                                             nearest_double(x)
//! ```
//!
//! Arrow 59 divides the unscaled value as a double by a power of ten as a double. Where both are exact the quotient is the
//! nearest double, for a division rounds once; but 2^53 is the last of the integers that are all doubles, 10^22 the last such power
//! of ten. Past them operands are rounded before, and 1 as a DECIMAL(38,37) would become 0.9999999999999999. The function divides
//! where that is exact, too, and reads other values from their digits.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TryCast, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

/// The function's name in EXPLAIN.
pub(crate) const NEAREST_DOUBLE: &str = "nearest_double";

/// Powers of ten up to this one are doubles.
pub(crate) const POWER_MAX: i8 = 22;
/// Integers up to this one, and down to its negation, are doubles.
pub(crate) const INTEGER_MAX: i64 = 1 << 53;
/// Integers of so many digits are.
const DIGITS_MAX: u8 = 15;

/// Gives casts the function. It comes after the other rules of numbers, which know casts.
#[derive(Debug)]
pub(super) struct NearestDoubles;

impl AnalyzerRule for NearestDoubles {
    fn name(&self) -> &str {
        "pelton_nearest_doubles"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_plan)?.data)
    }
}

fn in_plan(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !plan.expressions().iter().any(gives_double) {
        return Ok(Transformed::no(plan));
    }
    let schema = {
        let inputs = plan.inputs();
        if inputs.is_empty() { DFSchema::clone(plan.schema()) } else { merge_schema(&inputs) }
    };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let mut rewrite = |expr: Expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| Ok(rewritten(expr, &schema)))?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        };
        match expr {
            Expr::GroupingSet(_) => expr.map_children(&mut rewrite),
            other => rewrite(other),
        }
    })
}

/// Cheap to tell and mostly false.
fn gives_double(expr: &Expr) -> bool {
    let is_such = |part: &Expr| match part {
        Expr::Cast(cast) => *cast.field.data_type() == DataType::Float64,
        Expr::TryCast(cast) => *cast.field.data_type() == DataType::Float64,
        _ => false,
    };
    expr.exists(|part| Ok(is_such(part))).unwrap_or(true)
}

/// `expr` itself, of columns of `schema`; what is inside it is done.
fn rewritten(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(NearestDouble::new())));
    let rounds = |inside: &Expr, to: &DataType| {
        *to == DataType::Float64 && inside.get_type(schema).is_ok_and(|from| has_many_digits(&from))
    };
    match expr {
        Expr::Cast(Cast { expr, field }) if rounds(&expr, field.data_type()) => {
            Transformed::yes(FUNCTION.call(vec![*expr]))
        }
        Expr::TryCast(TryCast { expr, field }) if rounds(&expr, field.data_type()) => {
            Transformed::yes(FUNCTION.call(vec![*expr]))
        }
        other => Transformed::no(other),
    }
}

/// Whether there are values of `data_type` whose unscaled value or whose power of ten is no double.
fn has_many_digits(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal128(precision, scale) => *precision > DIGITS_MAX || !(0..=POWER_MAX).contains(scale),
        _ => false,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NearestDouble {
    signature: Signature,
}

impl NearestDouble {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NearestDouble {
    fn name(&self) -> &str {
        NEAREST_DOUBLE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(NEAREST_DOUBLE, DataType::Float64, args.arg_fields[0].is_nullable()).into())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match args.args.swap_remove(0) {
            ColumnarValue::Array(values) => ColumnarValue::Array(doubles(&values)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&doubles(&value.to_array()?)?, 0)?)
            }
        })
    }

    fn evaluate_bounds(&self, _: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&DataType::Float64)
    }
}

/// The doubles nearest to decimals. To find out what a condition is for NULLs, rules compute it of NULLs of any type.
pub(super) fn doubles(values: &ArrayRef) -> Result<ArrayRef> {
    let &DataType::Decimal128(_, scale) = values.data_type() else {
        return Ok(cast(values, &DataType::Float64)?);
    };
    let power = (0..=POWER_MAX).contains(&scale).then(|| 10_f64.powi(i32::from(scale)));
    let nearest = |value: i128| match (power, i64::try_from(value)) {
        (Some(power), Ok(value)) if value.unsigned_abs() <= INTEGER_MAX.unsigned_abs() => {
            value as f64 / power
        }
        _ => spelled(value, scale),
    };
    let doubles: Float64Array = values.as_primitive::<Decimal128Type>().unary(nearest);
    Ok(Arc::new(doubles))
}

/// The double nearest to `value` with `scale` digits after the point.
fn spelled(value: i128, scale: i8) -> f64 {
    let number = format!("{value}e{}", -i32::from(scale));
    number.parse().expect("digits with an exponent are a number")
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, Decimal128Array};
    use datafusion::arrow::datatypes::Float64Type;

    use super::*;

    fn check(value: i128, scale: i8, expected: f64) {
        let decimals =
            Decimal128Array::from(vec![Some(value), None]).with_precision_and_scale(38, scale).unwrap();
        let found = doubles(&(Arc::new(decimals) as ArrayRef)).unwrap();
        assert_eq!(
            found.as_primitive::<Float64Type>().value(0).to_bits(),
            expected.to_bits(),
            "{value} {scale}"
        );
        assert!(found.is_null(1), "{value} {scale}");
    }

    #[test]
    fn doubles_are_the_nearest() {
        check(0, 37, 0.0);
        check(10_i128.pow(37), 37, 1.0);
        check(-3 * 10_i128.pow(36), 37, -0.3);
        check(1, 37, 1e-37);
        check(1, 22, 1e-22);
        check(1, 23, 1e-23);
        check((1 << 53) + 1, 0, 9_007_199_254_740_992.0);
        check((1 << 53) + 3, 0, 9_007_199_254_740_996.0);
        check((1 << 53) - 1, 2, 90_071_992_547_409.9);
        check((1 << 53) + 1, 2, 90_071_992_547_409.93);
        check(10_i128.pow(38) - 1, 0, 1e38);
        check(99_999_999_999_999_999_999_999_999_999_999_999_999, 2, 1e36);
    }

    #[test]
    fn few_digits_are_left_to_arrow() {
        assert!(!has_many_digits(&DataType::Decimal128(15, 2)));
        assert!(has_many_digits(&DataType::Decimal128(16, 2)));
        assert!(!has_many_digits(&DataType::Int64));
    }
}
