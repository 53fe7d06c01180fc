//! Arrow's types as kernels hold them, and values on their way through a pipeline.
//!
//! ```text
//!   Arrow                                   kernel    arithmetic
//!   Boolean                                 Bool      -
//!   Int8, Int16, UInt8, UInt16, Int32       I32       yes, checked to stay within the type
//!   Date32                                  I32       no
//!   Int64, UInt32                           I64       yes, checked
//!   Timestamp, Duration                     I64       no
//!   Decimal128(p, s)                        I128      on unscaled values, checked
//!   Float64                                 F64       yes
//!   Utf8, LargeUtf8, Utf8View               Text      functions of one column, by dictionary
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Bounds, Expr, Literal, TextExtract, Type};
use pelton_store::Table;

/// A value of a row: how it is computed, and what the plan knows of it.
#[derive(Debug, Clone)]
pub(super) struct Value {
    /// Over the columns of the pipeline.
    pub(super) expr: Expr,
    /// Its type in the plan.
    pub(super) data_type: DataType,
    /// Whether it may be NULL.
    pub(super) is_nullable: bool,
    /// What it lies between, where that is known more closely than by its type; of text, the numbers of its entries.
    pub(super) bounds: Option<Bounds>,
    /// A text that is fetched for the rows that come out: kernels hold the number of its row in its table.
    pub(super) late: Option<LateText>,
}

/// A text that kernels hand on as the number of its row.
#[derive(Debug, Clone)]
pub(super) struct LateText {
    /// Where it is.
    pub(super) table: Arc<Table>,
    /// Which column of the table.
    pub(super) column: usize,
    /// Further columns that it may be of: the number of a row and as many times the rows of the table name one of them.
    pub(super) further: Arc<[usize]>,
    /// What of it is taken once it is fetched; `None` is all of it.
    pub(super) extract: Option<Arc<TextExtract>>,
    /// The column of this pipeline that has its bytes, where there is one: kernels compute functions of it.
    pub(super) view: Option<usize>,
    /// Over the columns of this pipeline: its hash, where that is not the hash of `view`.
    pub(super) hash: Option<Expr>,
    /// What numbers of rows below 0 stand for, the first one -1.
    pub(super) constants: Arc<[String]>,
    /// Hash tables that it came through, each with the columns that were looked up there: where no key of the table
    /// repeats, these determine the row.
    pub(super) brought_by: Vec<(usize, Vec<usize>)>,
}

impl LateText {
    /// The same in another pipeline, where columns have other numbers; what names a column that has none any more is
    /// left out, and so are its bytes.
    pub(super) fn renumbered(mut self, number: impl Fn(usize) -> Option<usize>) -> Self {
        let renumbered = self.brought_by.into_iter().filter_map(|(table, columns)| {
            Some((table, columns.into_iter().map(&number).collect::<Option<_>>()?))
        });
        self.brought_by = renumbered.collect();
        self.view = None;
        self.hash = None;
        self
    }
}

impl Value {
    /// Column `index` of a pipeline.
    pub(super) fn column(index: usize, data_type: DataType, is_nullable: bool) -> Self {
        Self { expr: Expr::Column(index), data_type, is_nullable, bounds: None, late: None }
    }

    /// The number of the column that this is, if it is one.
    pub(super) fn as_column(&self) -> Option<usize> {
        match self.expr {
            Expr::Column(index) => Some(index),
            _ => None,
        }
    }

    /// True for text.
    pub(super) fn is_text(&self) -> bool {
        is_text(&self.data_type)
    }

    /// What it lies between, by what is known or by its type.
    pub(super) fn bounds_or_type(&self) -> Option<Bounds> {
        self.bounds.or_else(|| type_bounds(&self.data_type))
    }
}

/// True for the types of text.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// How kernels hold `data_type`.
///
/// # Errors
///
/// `Unsupported` for types that they do not hold.
pub(super) fn kernel_type(data_type: &DataType) -> Result<Type> {
    Ok(match data_type {
        DataType::Boolean => Type::Bool,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Date32 => Type::I32,
        DataType::UInt8 | DataType::UInt16 => Type::I32,
        DataType::Int64 | DataType::UInt32 | DataType::Timestamp(..) | DataType::Duration(_) => Type::I64,
        DataType::Decimal128(..) => Type::I128,
        DataType::Float64 => Type::F64,
        text if is_text(text) => Type::Text,
        other => return Err(Error::unsupported(format!("kernels have no type for {other}"))),
    })
}

/// What values of an integer type lie between.
pub(super) fn type_bounds(data_type: &DataType) -> Option<Bounds> {
    let (min, max) = match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 | DataType::Date32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 | DataType::Timestamp(..) | DataType::Duration(_) => {
            (i64::MIN.into(), i64::MAX.into())
        }
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::Decimal128(precision, _) => {
            let max = 10_i128.checked_pow(u32::from(*precision))? - 1;
            (-max, max)
        }
        _ => return None,
    };
    Some(Bounds { min, max })
}

/// A constant of the plan.
///
/// # Errors
///
/// `Unsupported` for text but NULL (only functions of a text column may hold it) and for types that kernels lack.
pub(super) fn literal(scalar: &ScalarValue) -> Result<Value> {
    let data_type = scalar.data_type();
    let ty = kernel_type(&data_type)?;
    if ty == Type::Text && !scalar.is_null() {
        return Err(Error::unsupported(format!("the text constant {scalar} stands by itself")));
    }
    if scalar.is_null() {
        let expr = Expr::Literal(Literal::Null(ty));
        return Ok(Value { expr, data_type, is_nullable: true, bounds: None, late: None });
    }
    let literal = match scalar {
        ScalarValue::Boolean(Some(value)) => Literal::Bool(*value),
        ScalarValue::Float64(Some(value)) => Literal::F64(*value),
        other => integer_literal(ty, integer(other)?)?,
    };
    let bounds = match literal {
        Literal::I32(value) => Some(i128::from(value)),
        Literal::I64(value) => Some(i128::from(value)),
        Literal::I128(value) => Some(value),
        _ => None,
    };
    let bounds = bounds.map(|value| Bounds { min: value, max: value });
    Ok(Value { expr: Expr::Literal(literal), data_type, is_nullable: false, bounds, late: None })
}

/// The value of a parameter.
///
/// # Errors
///
/// As [`literal`].
pub(super) fn parameter(scalar: &ScalarValue) -> Result<Literal> {
    match literal(scalar)?.expr {
        Expr::Literal(literal) => Ok(literal),
        _ => Err(Error::unsupported(format!("the value {scalar} of a subquery"))),
    }
}

/// The number that an integer, date, timestamp or decimal is held as.
///
/// # Errors
///
/// `Unsupported` for NULL and for everything else.
pub(super) fn integer(scalar: &ScalarValue) -> Result<i128> {
    let number = match scalar {
        ScalarValue::Int8(value) => value.map(i128::from),
        ScalarValue::Int16(value) => value.map(i128::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i128::from),
        ScalarValue::Int64(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _)
        | ScalarValue::DurationSecond(value)
        | ScalarValue::DurationMillisecond(value)
        | ScalarValue::DurationMicrosecond(value)
        | ScalarValue::DurationNanosecond(value) => value.map(i128::from),
        ScalarValue::UInt8(value) => value.map(i128::from),
        ScalarValue::UInt16(value) => value.map(i128::from),
        ScalarValue::UInt32(value) => value.map(i128::from),
        ScalarValue::Decimal128(value, ..) => *value,
        _ => None,
    };
    number.ok_or_else(|| Error::unsupported(format!("the constant {scalar} is no integer")))
}

/// `number` as a constant of `ty`.
fn integer_literal(ty: Type, number: i128) -> Result<Literal> {
    let does_not_fit = || Error::unsupported(format!("the constant {number} does not fit its type"));
    Ok(match ty {
        Type::I32 => Literal::I32(i32::try_from(number).map_err(|_| does_not_fit())?),
        Type::I64 => Literal::I64(i64::try_from(number).map_err(|_| does_not_fit())?),
        Type::I128 => Literal::I128(number),
        _ => return Err(does_not_fit()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_decimal_are_those_of_its_digits() {
        let bounds = type_bounds(&DataType::Decimal128(4, 2)).unwrap();
        assert_eq!((bounds.min, bounds.max), (-9999, 9999));
        assert_eq!(type_bounds(&DataType::Decimal128(38, 0)).unwrap().max, 10_i128.pow(38) - 1);
        assert_eq!(type_bounds(&DataType::Float64), None);
    }

    #[test]
    fn constants_are_held_as_their_type_is() {
        let of = |scalar: ScalarValue| literal(&scalar).unwrap().expr;
        assert!(matches!(of(ScalarValue::Int16(Some(-3))), Expr::Literal(Literal::I32(-3))));
        assert!(matches!(of(ScalarValue::Date32(Some(9))), Expr::Literal(Literal::I32(9))));
        assert!(matches!(of(ScalarValue::Decimal128(Some(150), 5, 2)), Expr::Literal(Literal::I128(150))));
        assert!(matches!(of(ScalarValue::Int64(None)), Expr::Literal(Literal::Null(Type::I64))));
        assert!(literal(&ScalarValue::Utf8(Some("a".into()))).is_err());
        assert!(literal(&ScalarValue::Float32(Some(1.0))).is_err());
    }
}
