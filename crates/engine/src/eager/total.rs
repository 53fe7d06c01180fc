//! What may be computed of rows that a join, or another filter, would have dropped: what never fails.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;

use crate::numbers::{Checked, CheckedOp};

/// Aggregates that put their states together whatever order these come in.
const OF_ANY_ROWS: [&str; 8] = ["count", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"];
/// And those that overflow where values are large.
const SUMS: [&str; 2] = ["sum", "avg"];
/// Digits of values whose sum is taken for never too large: products of two usual decimals have 32, and a million rows of
/// that many nines fit.
const SUMMED_DIGITS_MAX: u8 = 32;
/// And those of integers, whose sums have 64 bits.
const SUMMED_INTEGER_DIGITS_MAX: u8 = 10;
/// Digits of the widest decimal. Results of as many may have been cut to them.
const DIGITS_MAX: u8 = 38;

/// Whether groups of `call` may be made of any rows of `schema`, and their states be put together.
pub(super) fn is_total(call: &AggregateFunctionExpr, schema: &Schema) -> bool {
    let name = call.fun().name();
    let is_summed = |ty: DataType| match ty {
        DataType::Decimal128(digits, _) => digits <= SUMMED_DIGITS_MAX,
        of_few_bits => {
            is_float(&of_few_bits)
                || integer_digits(&of_few_bits).is_some_and(|digits| digits <= SUMMED_INTEGER_DIGITS_MAX)
        }
    };
    let sums = || call.expressions().iter().all(|expr| expr.data_type(schema).is_ok_and(is_summed));
    !call.is_distinct()
        && !call.ignore_nulls()
        && call.order_bys().is_empty()
        && (OF_ANY_ROWS.contains(&name) || (SUMS.contains(&name) && sums()))
}

/// Whether `expr` has a value, or is NULL, for any row of `schema`.
pub(crate) fn never_fails(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let is_known = expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NotExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<CaseExpr>()
        || expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| is_exact(binary, schema))
        || expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(is_exact_call)
        || expr.downcast_ref::<CastExpr>().is_some_and(|cast| widens(cast, schema));
    is_known && expr.children().into_iter().all(|part| never_fails(part, schema))
}

/// Whether `binary` compares, or computes with floats.
fn is_exact(binary: &BinaryExpr, schema: &Schema) -> bool {
    use Operator as O;
    match binary.op() {
        O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq | O::And | O::Or => true,
        O::IsDistinctFrom | O::IsNotDistinctFrom => true,
        O::Plus | O::Minus | O::Multiply => binary.data_type(schema).is_ok_and(|ty| is_float(&ty)),
        _ => false,
    }
}

/// Whether `call` is arithmetic of decimals whose result has room for all values.
fn is_exact_call(call: &ScalarFunctionExpr) -> bool {
    let Some(checked) = call.fun().inner().downcast_ref::<Checked>() else { return false };
    match checked.op() {
        CheckedOp::Add | CheckedOp::Subtract | CheckedOp::Multiply => {
            matches!(checked.data_type(), DataType::Decimal128(digits, _) if *digits < DIGITS_MAX)
        }
        CheckedOp::Divide => call.args().get(1).is_some_and(is_not_zero),
        CheckedOp::Negate => false,
    }
}

/// Whether `expr` is a number other than zero.
fn is_not_zero(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let value = expr.downcast_ref::<Literal>().map(Literal::value).filter(|value| !value.is_null());
    value.is_some_and(|value| ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero != *value))
}

/// Whether `cast` is to a number with room for all that it is given.
fn widens(cast: &CastExpr, schema: &Schema) -> bool {
    let Ok(from) = cast.expr().data_type(schema) else { return false };
    let whole_digits = match &from {
        DataType::Decimal128(digits, scale) => Some((i16::from(*digits) - i16::from(*scale), *scale)),
        integer => integer_digits(integer).map(|digits| (i16::from(digits), 0)),
    };
    match (whole_digits, cast.cast_type()) {
        (Some(_), DataType::Float64) => true,
        (Some((whole, of)), DataType::Decimal128(digits, scale)) => {
            of <= *scale && whole <= i16::from(*digits) - i16::from(*scale)
        }
        (None, DataType::Float64) => is_float(&from),
        _ => false,
    }
}

fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float64)
}

/// Digits of the largest value of an integer type.
fn integer_digits(ty: &DataType) -> Option<u8> {
    Some(match ty {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}
