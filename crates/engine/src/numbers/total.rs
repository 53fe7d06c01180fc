//! Exact totals: what `sum` and `avg` add up before they round or divide.
//!
//! ```text
//!   input                      total    why it suffices
//!   integers up to 32 bits     i64      4 billion extreme rows fit; an addition that does not is an error
//!   BIGINT, unsigned BIGINT    i128     2^63 extreme rows fit
//!   DECIMAL(p, s)              i128     unscaled; an addition that does not fit is an error
//!   durations                  i128     as BIGINT
//! ```
//!
//! A total is checked where it leaves as a value: a DECIMAL has at most 38 digits, a BIGINT 64 bits. Between partial
//! and final stage it may be larger than its type, never than its bits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, new_null_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Int64Type,
};
use datafusion::error::Result;
use pelton_error::Error;

use super::name::sql_type;
use crate::error::to_datafusion;

/// The largest unscaled value of a DECIMAL.
pub(super) const DECIMAL_MAX: i128 = 10_i128.pow(38) - 1;

/// What values are added up in.
pub(crate) trait Total: ArrowNativeType + Into<i128> {
    /// The arrays that totals travel in.
    type Arrow: ArrowPrimitiveType<Native = Self> + Send + Sync + std::fmt::Debug;

    /// Wrapped, and whether it did.
    fn plus(self, other: Self) -> (Self, bool);
    fn minus(self, other: Self) -> (Self, bool);
    /// Whether a value of `result` can hold it.
    fn fits(self, result: &DataType) -> bool;
    fn as_f64(self) -> f64;
}

impl Total for i64 {
    type Arrow = Int64Type;

    #[inline]
    fn plus(self, other: Self) -> (Self, bool) {
        self.overflowing_add(other)
    }

    #[inline]
    fn minus(self, other: Self) -> (Self, bool) {
        self.overflowing_sub(other)
    }

    #[inline]
    fn fits(self, _: &DataType) -> bool {
        true
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self as f64
    }
}

impl Total for i128 {
    type Arrow = Decimal128Type;

    #[inline]
    fn plus(self, other: Self) -> (Self, bool) {
        self.overflowing_add(other)
    }

    #[inline]
    fn minus(self, other: Self) -> (Self, bool) {
        self.overflowing_sub(other)
    }

    #[inline]
    fn fits(self, result: &DataType) -> bool {
        match result {
            DataType::Duration(_) => i64::try_from(self).is_ok(),
            _ => (-DECIMAL_MAX..=DECIMAL_MAX).contains(&self),
        }
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self as f64
    }
}

/// Column types whose values are added up in an `A`.
pub(crate) trait Summand<A: Total>:
    ArrowPrimitiveType<Native: Into<A>> + Send + Sync + std::fmt::Debug
{
}

impl<A: Total, T: ArrowPrimitiveType<Native: Into<A>> + Send + Sync + std::fmt::Debug> Summand<A> for T {}

/// Calls `$make::<Summand, Total>($args)` for the types that are added up exactly; `$other` for the rest.
macro_rules! for_summand {
    ($data_type:expr, $make:ident($($arg:expr),*), $other:expr) => {{
        use datafusion::arrow::datatypes::*;
        match $data_type {
            DataType::Int8 => $make::<Int8Type, i64>($($arg),*),
            DataType::Int16 => $make::<Int16Type, i64>($($arg),*),
            DataType::Int32 => $make::<Int32Type, i64>($($arg),*),
            DataType::UInt8 => $make::<UInt8Type, i64>($($arg),*),
            DataType::UInt16 => $make::<UInt16Type, i64>($($arg),*),
            DataType::UInt32 => $make::<UInt32Type, i64>($($arg),*),
            DataType::Int64 => $make::<Int64Type, i128>($($arg),*),
            DataType::UInt64 => $make::<UInt64Type, i128>($($arg),*),
            DataType::Decimal32(..) => $make::<Decimal32Type, i128>($($arg),*),
            DataType::Decimal64(..) => $make::<Decimal64Type, i128>($($arg),*),
            DataType::Decimal128(..) => $make::<Decimal128Type, i128>($($arg),*),
            DataType::Duration(TimeUnit::Second) => $make::<DurationSecondType, i128>($($arg),*),
            DataType::Duration(TimeUnit::Millisecond) => $make::<DurationMillisecondType, i128>($($arg),*),
            DataType::Duration(TimeUnit::Microsecond) => $make::<DurationMicrosecondType, i128>($($arg),*),
            DataType::Duration(TimeUnit::Nanosecond) => $make::<DurationNanosecondType, i128>($($arg),*),
            _ => $other,
        }
    }};
}
pub(crate) use for_summand;

/// The type of the exact sum of `input`; `None` for what is not added up exactly.
pub(crate) fn sum_type(input: &DataType) -> Option<DataType> {
    use DataType::*;
    Some(match input {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Int64,
        Int64 | UInt64 => Decimal128(DECIMAL128_MAX_PRECISION, 0),
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) => {
            Decimal128(DECIMAL128_MAX_PRECISION, *scale)
        }
        Duration(unit) => Duration(*unit),
        _ => return None,
    })
}

/// The type that totals on their way from partial to final stage have.
pub(super) fn state_type(input: &DataType) -> Option<DataType> {
    match sum_type(input)? {
        DataType::Duration(_) => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)),
        same => Some(same),
    }
}

/// The error for a sum that has no place in `result`.
pub(crate) fn too_large(name: &str, result: &DataType) -> datafusion::error::DataFusionError {
    let remedy = match result {
        DataType::Int64 => "cast its argument to BIGINT, DECIMAL(38,0) or DOUBLE",
        DataType::Duration(_) => "sum fewer rows",
        _ => "cast its argument to DOUBLE",
    };
    to_datafusion(Error::invalid_input(format!("{name} overflows {}; {remedy}", sql_type(result))))
}

/// Adds the valid values of `column` to `total`; also how many they are and whether an addition did not fit.
pub(super) fn add_column<T: Summand<A>, A: Total>(
    column: &PrimitiveArray<T>,
    total: A,
    step: impl Fn(A, A) -> (A, bool),
) -> (A, u64, bool) {
    let (mut total, mut overflows) = (total, false);
    let mut add = |value: T::Native| {
        let (sum, overflow) = step(total, value.into());
        total = sum;
        overflows |= overflow;
    };
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => column.values().iter().for_each(|&value| add(value)),
        Some(nulls) => nulls.valid_indices().for_each(|row| add(column.value(row))),
    }
    (total, (column.len() - column.null_count()) as u64, overflows)
}

/// Totals as the values of `result`.
pub(crate) fn totals_as<A: Total>(
    totals: Vec<A>,
    nulls: Option<NullBuffer>,
    result: &DataType,
    name: &str,
) -> Result<ArrayRef> {
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let all_fit = totals.iter().fold(true, |fit, total| fit & total.fits(result));
    if !all_fit && (0..totals.len()).any(|row| is_valid(row) && !totals[row].fits(result)) {
        return Err(too_large(name, result));
    }
    let totals = PrimitiveArray::<A::Arrow>::new(totals.into(), nulls);
    Ok(match result {
        DataType::Duration(_) => {
            let narrow =
                totals.unary_opt::<_, Int64Type>(|total| i64::try_from(Into::<i128>::into(total)).ok());
            cast(&narrow, result)?
        }
        same => Arc::new(totals.with_data_type(same.clone())),
    })
}

/// Totals as states: unchecked, they are added up further.
pub(super) fn totals_as_states<A: Total>(
    totals: Vec<A>,
    nulls: Option<NullBuffer>,
    state: &DataType,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<A::Arrow>::new(totals.into(), nulls).with_data_type(state.clone()))
}

/// Each row of `column` as a total of its own, NULL where `filter` leaves it out.
pub(super) fn rows_as_states<T: Summand<A>, A: Total>(
    column: &dyn Array,
    filter: Option<&BooleanArray>,
    state: &DataType,
) -> ArrayRef {
    let column = column.as_primitive::<T>();
    let nulls = NullBuffer::union(filter.map(kept_rows).as_ref(), column.nulls());
    let totals = column.values().iter().map(|&value| value.into()).collect();
    totals_as_states::<A>(totals, nulls, state)
}

/// The rows that `filter` keeps, as validity.
pub(super) fn kept_rows(filter: &BooleanArray) -> NullBuffer {
    match filter.nulls() {
        None => NullBuffer::new(filter.values().clone()),
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
    }
}

/// A NULL of `data_type`.
pub(super) fn null_of(data_type: &DataType) -> ArrayRef {
    new_null_array(data_type, 1)
}
