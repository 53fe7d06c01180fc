//! Arithmetic, comparisons and casts, as Arrow computes them.
//!
//! ```text
//!   decimal(p1,s1) + decimal(p2,s2)   both at scale max(s1, s2), then added
//!   decimal(p1,s1) * decimal(p2,s2)   unscaled values multiplied, scales added
//!   integer to decimal(p,s)           times 10^s
//!   decimal(p,s) to double            divided by 10^s as doubles; of many digits only where that is the nearest double
//! ```
//!
//! A result that its type does not hold is found where bounds do not rule it out: by the kernel, whose run then ends,
//! and the CPU reports it. What rounds (decimals to fewer digits) is refused here, and so is TRY_CAST of what may not
//! fit, which is NULL there.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{ArithmeticOp, Bounds, CompareOp, Expr, Literal, SignChange, Type};

use super::dates;
use super::value::{Value, is_text, kernel_type, type_bounds};
use crate::numbers::{INTEGER_MAX, POWER_MAX};

/// The comparison that `op` is.
pub(super) fn compare_op(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::Ne,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::Le,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::Ge,
        _ => return None,
    })
}

/// The arithmetic that `op` is.
pub(super) fn arithmetic_op(op: Operator) -> Option<ArithmeticOp> {
    Some(match op {
        Operator::Plus => ArithmeticOp::Add,
        Operator::Minus => ArithmeticOp::Subtract,
        Operator::Multiply => ArithmeticOp::Multiply,
        Operator::Divide => ArithmeticOp::Divide,
        Operator::Modulo => ArithmeticOp::Remainder,
        _ => return None,
    })
}

/// Two values that can be compared: of one type and, where they are decimals, of one scale.
///
/// # Errors
///
/// `Unsupported` for types that do not meet.
pub(super) fn to_one_type(left: Value, right: Value) -> Result<(Value, Value)> {
    if left.is_text() || right.is_text() {
        return Err(Error::unsupported("texts are compared with constants only"));
    }
    match (&left.data_type, &right.data_type) {
        (DataType::Decimal128(_, left_scale), DataType::Decimal128(_, right_scale)) => {
            let scale = *left_scale.max(right_scale);
            Ok((rescaled(left, scale)?, rescaled(right, scale)?))
        }
        (one, other) if one == other => Ok((left, right)),
        (one, other) => match (width(one), width(other)) {
            (Some(narrow), Some(wide)) if narrow < wide => {
                let wide = right.data_type.clone();
                Ok((cast(left, &wide)?, right))
            }
            (Some(_), Some(_)) => {
                let wide = left.data_type.clone();
                let right = cast(right, &wide)?;
                Ok((left, right))
            }
            _ => Err(Error::unsupported(format!("{one} is not compared with {other}"))),
        },
    }
}

/// Bits of a signed integer.
fn width(data_type: &DataType) -> Option<u8> {
    match data_type {
        DataType::Int8 => Some(8),
        DataType::Int16 => Some(16),
        DataType::Int32 => Some(32),
        DataType::Int64 => Some(64),
        _ => None,
    }
}

/// True for the types whose values are integers and nothing else.
pub(super) fn is_integer(data_type: &DataType) -> bool {
    width(data_type).is_some() || matches!(data_type, DataType::UInt8 | DataType::UInt16 | DataType::UInt32)
}

/// `left op right`, which the plan says is a `data_type`.
///
/// # Errors
///
/// `Unsupported` for types without arithmetic, quotients of decimals, and decimals that lose digits.
pub(super) fn arithmetic(op: ArithmeticOp, left: Value, right: Value, data_type: &DataType) -> Result<Value> {
    let is_nullable = left.is_nullable || right.is_nullable;
    let (left, right) = match (&left.data_type, &right.data_type, data_type) {
        (DataType::Decimal128(..), DataType::Decimal128(..), DataType::Decimal128(_, scale)) => {
            decimal_operands(op, left, right, *scale)?
        }
        (one, other, result) if is_integer(one) && one == other && other == result => (left, right),
        (DataType::Float64, DataType::Float64, DataType::Float64) => (left, right),
        (one, other, _) => {
            return Err(Error::unsupported(format!("kernels do not compute {op:?} of {one} and {other}")));
        }
    };
    let expr = Expr::Arithmetic { op, left: Box::new(left.expr), right: Box::new(right.expr) };
    Ok(within_type(Value { expr, data_type: data_type.clone(), is_nullable, bounds: None, late: None }))
}

/// `left / right` of decimals and integers as a double; by 0 it is an overflow.
///
/// # Errors
///
/// `Unsupported` for types that do not become doubles, and for powers of ten that are no doubles.
pub(super) fn quotient(left: Value, right: Value) -> Result<Value> {
    let is_exact = is_integer(&right.data_type) || matches!(right.data_type, DataType::Decimal128(..));
    if !is_exact {
        return Err(Error::unsupported(format!("kernels divide no decimal by {}", right.data_type)));
    }
    if let Some(side) = [&left, &right].into_iter().find(|side| !(0..=POWER_MAX).contains(&scale_of(side))) {
        return Err(Error::unsupported(format!(
            "kernels do not give the double nearest to {}",
            side.data_type
        )));
    }
    let right = Value { expr: Expr::NonZero { input: Box::new(right.expr) }, ..right };
    let (left, right) = (cast(left, &DataType::Float64)?, cast(right, &DataType::Float64)?);
    arithmetic(ArithmeticOp::Divide, left, right, &DataType::Float64)
}

/// The double by whose bits `value` is told from others.
///
/// # Errors
///
/// `Unsupported` for floats of fewer bits.
pub(super) fn float_key(value: Value) -> Result<Value> {
    match value.data_type {
        DataType::Float64 => Ok(Value { expr: Expr::FloatKey { input: Box::new(value.expr) }, ..value }),
        other => Err(Error::unsupported(format!("kernels have no {other}"))),
    }
}

/// `value`, whose type may be narrower than what kernels hold it in, checked to be of its type.
fn within_type(value: Value) -> Value {
    let narrow = [DataType::Int8, DataType::Int16, DataType::UInt8, DataType::UInt16, DataType::UInt32];
    match type_bounds(&value.data_type) {
        Some(bounds) if narrow.contains(&value.data_type) => {
            Value { expr: Expr::Within { input: Box::new(value.expr), bounds }, ..value }
        }
        _ => value,
    }
}

fn decimal_operands(op: ArithmeticOp, left: Value, right: Value, scale: i8) -> Result<(Value, Value)> {
    let (left_scale, right_scale) = (scale_of(&left), scale_of(&right));
    match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract if scale == left_scale.max(right_scale) => {
            Ok((rescaled(left, scale)?, rescaled(right, scale)?))
        }
        ArithmeticOp::Multiply if scale == left_scale + right_scale => Ok((left, right)),
        _ => Err(Error::unsupported(format!("{op:?} of decimals to {scale} digits after the point rounds"))),
    }
}

fn scale_of(value: &Value) -> i8 {
    match value.data_type {
        DataType::Decimal128(_, scale) => scale,
        _ => 0,
    }
}

/// A decimal with more digits after the point.
fn rescaled(value: Value, scale: i8) -> Result<Value> {
    let DataType::Decimal128(precision, from) = value.data_type else { return Ok(value) };
    if scale < from {
        return Err(Error::unsupported("a decimal that loses digits is rounded"));
    }
    let digits = (scale - from) as u8;
    let widened = times_power_of_ten(value, u32::from(digits))?;
    Ok(Value { data_type: DataType::Decimal128(precision.saturating_add(digits).min(38), scale), ..widened })
}

/// An `I128` value times 10^`exponent`.
fn times_power_of_ten(value: Value, exponent: u32) -> Result<Value> {
    if exponent == 0 {
        return Ok(value);
    }
    let too_large = || Error::unsupported("a decimal of more than 38 digits");
    let factor = 10_i128.checked_pow(exponent).ok_or_else(too_large)?;
    let scaled = |number: i128| number.checked_mul(factor);
    let bounds = match value.bounds {
        Some(Bounds { min, max }) => scaled(min).zip(scaled(max)).map(|(min, max)| Bounds { min, max }),
        None => None,
    };
    let expr = match value.expr {
        Expr::Literal(Literal::I128(number)) => {
            Expr::Literal(Literal::I128(scaled(number).ok_or_else(too_large)?))
        }
        other => Expr::Arithmetic {
            op: ArithmeticOp::Multiply,
            left: Box::new(other),
            right: Box::new(Expr::Literal(Literal::I128(factor))),
        },
    };
    Ok(Value { expr, bounds, ..value })
}

/// `value` as a `to`; a value that does not fit is an overflow.
///
/// # Errors
///
/// `Unsupported` for casts that round and for those that kernels do not have.
pub(super) fn cast(value: Value, to: &DataType) -> Result<Value> {
    cast_where(value, to, |value, to| fitting(&value, to).or_else(|| checked(value, to)))
}

/// As [`cast`], for a cast that gives NULL for what does not fit.
///
/// # Errors
///
/// Likewise, and where a value might not fit.
pub(super) fn try_cast(value: Value, to: &DataType) -> Result<Value> {
    cast_where(value, to, |value, to| fitting(&value, to))
}

/// `value` as a `to`; `fit` calls a value what it is to be, if it can.
fn cast_where(value: Value, to: &DataType, fit: impl Fn(Value, &DataType) -> Option<Value>) -> Result<Value> {
    if &value.data_type == to {
        return Ok(value);
    }
    if let Expr::Literal(Literal::Null(_)) = value.expr {
        let expr = Expr::Literal(Literal::Null(kernel_type(to)?));
        return Ok(Value { expr, data_type: to.clone(), ..value });
    }
    let from = value.data_type.clone();
    let refused = || Error::unsupported(format!("kernels do not turn {from} into {to}"));
    match (&from, to) {
        (one, other) if is_text(one) && is_text(other) => Ok(Value { data_type: to.clone(), ..value }),
        (DataType::Decimal128(..), DataType::Decimal128(_, scale)) => {
            let scaled = rescaled(value, *scale)?;
            fit(scaled, to).ok_or_else(refused)
        }
        (DataType::Decimal128(_, scale), DataType::Float64) => Ok(decimal_to_double(value, *scale)),
        (one, DataType::Decimal128(_, scale)) if is_integer(one) && *scale >= 0 => {
            let wide = converted(value, Type::I128, to);
            let scaled = times_power_of_ten(wide, u32::from(scale.unsigned_abs()))?;
            fit(scaled, to).ok_or_else(refused)
        }
        (one, DataType::Float64) if is_integer(one) => Ok(converted(value, Type::F64, to)),
        (DataType::Boolean, other) if matches!(other, DataType::Int32 | DataType::Int64) => {
            let ty = kernel_type(other)?;
            Ok(converted(value, ty, to))
        }
        (one, other) if is_integer(one) && is_integer(other) => {
            let ty = kernel_type(other)?;
            let value = fit(value, to).ok_or_else(refused)?;
            Ok(if kernel_type(&from)? == ty { value } else { converted(value, ty, to) })
        }
        (DataType::Date32 | DataType::Timestamp(..), DataType::Date32 | DataType::Timestamp(..)) => {
            dates::cast(value, to)
        }
        _ => Err(refused()),
    }
}

/// `value`, called a `to`, if what is known of it says that all of it fits.
fn fitting(value: &Value, to: &DataType) -> Option<Value> {
    let (inside, outside) = (value.bounds_or_type()?, type_bounds(to)?);
    let fits = outside.min <= inside.min && inside.max <= outside.max;
    fits.then(|| Value { data_type: to.clone(), ..value.clone() })
}

/// `value`, called a `to` and checked to be one.
fn checked(value: Value, to: &DataType) -> Option<Value> {
    let bounds = type_bounds(to)?;
    let expr = Expr::Within { input: Box::new(value.expr), bounds };
    Some(Value { expr, data_type: to.clone(), bounds: None, ..value })
}

fn converted(value: Value, ty: Type, to: &DataType) -> Value {
    let bounds = if ty == Type::F64 { None } else { value.bounds_or_type() };
    let expr = match (value.expr, ty) {
        (Expr::Literal(Literal::I32(number)), Type::I64) => Expr::Literal(Literal::I64(number.into())),
        (Expr::Literal(Literal::I32(number)), Type::I128) => Expr::Literal(Literal::I128(number.into())),
        (Expr::Literal(Literal::I64(number)), Type::I128) => Expr::Literal(Literal::I128(number.into())),
        (other, _) => Expr::Cast { input: Box::new(other), to: ty },
    };
    Value { expr, data_type: to.clone(), is_nullable: value.is_nullable, bounds, late: None }
}

/// The unscaled value as a double, divided by the power of ten as a double: both steps round, as Arrow's do.
fn decimal_to_double(value: Value, scale: i8) -> Value {
    let double = converted(value, Type::F64, &DataType::Float64);
    let expr = Expr::Arithmetic {
        op: ArithmeticOp::Divide,
        left: Box::new(double.expr),
        right: Box::new(Expr::Literal(Literal::F64(10_f64.powi(i32::from(scale))))),
    };
    Value { expr, ..double }
}

/// The double nearest to a decimal; where a division of two exact doubles does not give it, an overflow, so that the host
/// computes it.
///
/// # Errors
///
/// `Unsupported` for other types, and for powers of ten that are no doubles.
pub(super) fn nearest_double(value: Value) -> Result<Value> {
    let scale = match value.data_type {
        DataType::Decimal128(_, scale) if (0..=POWER_MAX).contains(&scale) => scale,
        ref other => {
            return Err(Error::unsupported(format!("kernels do not give the double nearest to {other}")));
        }
    };
    let exact = Bounds { min: -i128::from(INTEGER_MAX), max: i128::from(INTEGER_MAX) };
    let is_exact = value.bounds.is_some_and(|bounds| exact.min <= bounds.min && bounds.max <= exact.max);
    let value = match is_exact {
        true => value,
        false => Value {
            expr: Expr::Within { input: Box::new(value.expr), bounds: exact },
            bounds: Some(exact),
            ..value
        },
    };
    Ok(decimal_to_double(value, scale))
}

/// `-value`.
///
/// # Errors
///
/// `Unsupported` for what has no arithmetic.
pub(super) fn negate(value: Value) -> Result<Value> {
    if value.data_type == DataType::Float64 {
        return Ok(with_sign(value, SignChange::Flipped));
    }
    let refused = || Error::unsupported(format!("kernels do not negate {}", value.data_type));
    let zero = zero_of(&value).ok_or_else(refused)?;
    let (left, right) = (Box::new(Expr::Literal(zero)), Box::new(value.expr));
    let expr = Expr::Arithmetic { op: ArithmeticOp::Subtract, left, right };
    Ok(within_type(Value { expr, bounds: None, ..value }))
}

/// `abs(value)`.
///
/// # Errors
///
/// As [`negate`].
pub(super) fn absolute(value: Value) -> Result<Value> {
    if value.data_type == DataType::Float64 {
        return Ok(with_sign(value, SignChange::Cleared));
    }
    let negative = negate(value.clone())?;
    let zero = zero_of(&value).expect("what is negated has a zero");
    let (left, right) = (Box::new(value.expr.clone()), Box::new(Expr::Literal(zero)));
    let is_negative = Expr::Compare { op: CompareOp::Lt, left, right };
    let expr =
        Expr::Case { branches: vec![(is_negative, negative.expr)], otherwise: Some(Box::new(value.expr)) };
    Ok(Value { expr, bounds: None, ..value })
}

fn with_sign(value: Value, sign: SignChange) -> Value {
    Value { expr: Expr::WithSign { input: Box::new(value.expr), sign }, bounds: None, ..value }
}

fn zero_of(value: &Value) -> Option<Literal> {
    match value.data_type {
        ref integer if is_integer(integer) => match kernel_type(integer) {
            Ok(Type::I32) => Some(Literal::I32(0)),
            Ok(Type::I64) => Some(Literal::I64(0)),
            _ => None,
        },
        DataType::Decimal128(..) => Some(Literal::I128(0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::value::literal;
    use datafusion::scalar::ScalarValue;

    fn decimal(number: i128, precision: u8, scale: i8) -> Value {
        literal(&ScalarValue::Decimal128(Some(number), precision, scale)).unwrap()
    }

    fn column(data_type: DataType) -> Value {
        Value::column(0, data_type, true)
    }

    #[test]
    fn decimals_meet_at_the_larger_scale() {
        let (left, right) = to_one_type(decimal(5, 3, 1), column(DataType::Decimal128(10, 3))).unwrap();
        assert!(matches!(left.expr, Expr::Literal(Literal::I128(500))));
        assert!(matches!(right.expr, Expr::Column(0)));
    }

    #[test]
    fn products_of_decimals_add_their_scales_or_are_refused() {
        let product = |scale| {
            let (left, right) = (column(DataType::Decimal128(15, 2)), column(DataType::Decimal128(15, 2)));
            arithmetic(ArithmeticOp::Multiply, left, right, &DataType::Decimal128(31, scale))
        };
        assert!(product(4).is_ok());
        assert!(product(3).is_err());
        let (left, right) = (column(DataType::Decimal128(5, 2)), column(DataType::Decimal128(5, 2)));
        assert!(arithmetic(ArithmeticOp::Divide, left, right, &DataType::Decimal128(11, 6)).is_err());
    }

    #[test]
    fn casts_that_may_fail_on_a_value_are_checked() {
        use DataType::{Decimal128, Int8, Int16, Int32, Int64};
        let cases = [
            (Int64, Int32, true),
            (Int32, Int8, true),
            (Int16, Int64, false),
            (Int64, Decimal128(18, 0), true),
            (Int64, Decimal128(20, 0), false),
            (Decimal128(10, 2), Decimal128(10, 4), true),
            (Decimal128(10, 2), Decimal128(12, 4), false),
        ];
        for (from, to, is_checked) in cases {
            let value = cast(column(from.clone()), &to).unwrap();
            let found = format!("{:?}", value.expr).contains("Within");
            assert_eq!(found, is_checked, "{from} to {to}");
            assert_eq!(try_cast(column(from.clone()), &to).is_err(), is_checked, "{from} to {to}, or NULL");
        }
        assert!(cast(column(Decimal128(10, 2)), &Decimal128(12, 1)).is_err(), "it rounds");
    }

    #[test]
    fn a_cast_that_is_known_to_fit_is_made() {
        let years = Value { bounds: Some(Bounds { min: 1992, max: 1998 }), ..column(DataType::Int64) };
        let narrow = cast(years, &DataType::Int32).unwrap();
        assert!(matches!(narrow.expr, Expr::Cast { to: Type::I32, .. }));
    }

    #[test]
    fn integers_below_32_bits_are_checked_to_stay_there() {
        let (left, right) = (column(DataType::Int16), column(DataType::Int16));
        let sum = arithmetic(ArithmeticOp::Add, left, right, &DataType::Int16).unwrap();
        let Expr::Within { bounds, .. } = sum.expr else { panic!("{:?}", sum.expr) };
        assert_eq!((bounds.min, bounds.max), (-32_768, 32_767));
    }
}
