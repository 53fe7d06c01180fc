//! Arrow out: what decoding gave becomes an array, sharing its buffers.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, GenericByteArray, PrimitiveArray,
    StringViewArray, UInt32Array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{FilterPredicate, take};
use arrow::datatypes::{
    ByteArrayType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, GenericBinaryType,
    GenericStringType, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use pelton_chunk::{ByteValues, DecodedColumn, DecodedValues, Validity, Values};
use pelton_error::{Error, Result};

use crate::schema::LogicalType;

/// Gives decoded values out as Arrow, in the type [`LogicalType::to_arrow`] names.
///
/// # Errors
///
/// Corrupt where the column is text and its bytes are not UTF-8. A decoded column of another machine
/// type than `logical` is stored in is a bug and panics.
pub fn column_to_arrow(decoded: DecodedColumn, logical: &LogicalType) -> Result<ArrayRef> {
    match decoded.values {
        DecodedValues::Plain(values) if !matches!(values, Values::Bytes(_)) => {
            Ok(fixed_width(values, logical, decoded.validity.map(nulls_from)))
        }
        _ => column_to_stored_arrow(decoded, logical, None),
    }
}

/// The rows that `keep` chooses, all without it, in the type that [`LogicalType::to_stored_arrow`] names. `keep` is of as many
/// rows as were decoded.
///
/// # Errors
///
/// As [`column_to_arrow`].
pub fn column_to_stored_arrow(
    decoded: DecodedColumn,
    logical: &LogicalType,
    keep: Option<&FilterPredicate>,
) -> Result<ArrayRef> {
    let nulls = decoded.validity.map(nulls_from);
    let kept = |array: ArrayRef| match keep {
        Some(keep) => {
            keep.filter(&array).expect("a predicate of as many rows as there are filters any array")
        }
        None => array,
    };
    match decoded.values {
        DecodedValues::Plain(Values::Bytes(values)) => match logical {
            LogicalType::Utf8 => Ok(kept(Arc::new(string_views(values, nulls)?))),
            _ => Ok(kept(Arc::new(binary_views(values, nulls)?))),
        },
        DecodedValues::Plain(Values::I64(values)) if logical.to_stored_arrow() == DataType::Int64 => {
            Ok(kept(primitive::<Int64Type>(values, nulls)))
        }
        DecodedValues::Plain(values) => Ok(kept(fixed_width(values, logical, nulls))),
        DecodedValues::Dictionary { codes, dictionary } => {
            let codes = kept(Arc::new(UInt32Array::new(codes.into(), nulls)));
            let entries: ArrayRef = match logical {
                LogicalType::Utf8 => Arc::new(string_views(dictionary, None)?),
                _ => Arc::new(binary_views(dictionary, None)?),
            };
            Ok(take(&entries, codes.as_ref(), None)
                .expect("views are gathered by codes below the number of entries"))
        }
    }
}

fn fixed_width(values: Values, logical: &LogicalType, nulls: Option<NullBuffer>) -> ArrayRef {
    use LogicalType as L;
    match (logical, values) {
        (L::Bool, Values::U8(values)) => {
            let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        (L::Int8, Values::I8(values)) => primitive::<Int8Type>(values, nulls),
        (L::Int16, Values::I16(values)) => primitive::<Int16Type>(values, nulls),
        (L::Int32, Values::I32(values)) => primitive::<Int32Type>(values, nulls),
        (L::Int64, Values::I64(values)) => primitive::<Int64Type>(values, nulls),
        (L::UInt8, Values::U8(values)) => primitive::<UInt8Type>(values, nulls),
        (L::UInt16, Values::U16(values)) => primitive::<UInt16Type>(values, nulls),
        (L::UInt32, Values::U32(values)) => primitive::<UInt32Type>(values, nulls),
        (L::UInt64, Values::U64(values)) => primitive::<UInt64Type>(values, nulls),
        (L::Float32, Values::F32(values)) => primitive::<Float32Type>(values, nulls),
        (L::Float64, Values::F64(values)) => primitive::<Float64Type>(values, nulls),
        (L::Date, Values::I32(values)) => primitive::<Date32Type>(values, nulls),
        (L::Timestamp { unit, zone }, Values::I64(values)) => {
            timestamp(values, *unit, zone.as_deref(), nulls)
        }
        (L::Decimal { precision, scale }, Values::I64(values)) => {
            decimal(values.iter().map(|&value| value.into()).collect(), *precision, *scale, nulls)
        }
        (L::Decimal { precision, scale }, Values::I128(values)) => decimal(values, *precision, *scale, nulls),
        (logical, values) => panic!("{:?} values decoded for a column of {logical}", values.physical_type()),
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

fn decimal(values: Vec<i128>, precision: u8, scale: i8, nulls: Option<NullBuffer>) -> ArrayRef {
    let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls)
        .with_precision_and_scale(precision, scale)
        .expect("a table's decimals were checked when its schema was taken");
    Arc::new(array)
}

fn timestamp(values: Vec<i64>, unit: TimeUnit, zone: Option<&str>, nulls: Option<NullBuffer>) -> ArrayRef {
    let zone = zone.map(Arc::<str>::from);
    let values = ScalarBuffer::from(values);
    match unit {
        TimeUnit::Second => {
            Arc::new(PrimitiveArray::<TimestampSecondType>::new(values, nulls).with_timezone_opt(zone))
        }
        TimeUnit::Millisecond => {
            Arc::new(PrimitiveArray::<TimestampMillisecondType>::new(values, nulls).with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(PrimitiveArray::<TimestampMicrosecondType>::new(values, nulls).with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(PrimitiveArray::<TimestampNanosecondType>::new(values, nulls).with_timezone_opt(zone))
        }
    }
}

/// Views of text; UTF-8 is checked here, over all bytes at once and at the start of every value.
fn string_views(values: ByteValues, nulls: Option<NullBuffer>) -> Result<StringViewArray> {
    let not_utf8 = |error: ArrowError| Error::corrupt("stored text is not UTF-8").with_source(error);
    if is_beyond_i32(&values) {
        let array = offset_array::<GenericStringType<i64>>(wide_offsets(values.offsets), values.data, nulls);
        return array.map(|array| StringViewArray::from(&array)).map_err(not_utf8);
    }
    let array = offset_array::<GenericStringType<i32>>(narrow_offsets(values.offsets), values.data, nulls);
    array.map(|array| StringViewArray::from(&array)).map_err(not_utf8)
}

/// Views of bytes.
fn binary_views(values: ByteValues, nulls: Option<NullBuffer>) -> Result<BinaryViewArray> {
    let wrong =
        |error: ArrowError| Error::corrupt("stored byte strings do not fit together").with_source(error);
    if is_beyond_i32(&values) {
        let array = offset_array::<GenericBinaryType<i64>>(wide_offsets(values.offsets), values.data, nulls);
        return array.map(|array| BinaryViewArray::from(&array)).map_err(wrong);
    }
    let array = offset_array::<GenericBinaryType<i32>>(narrow_offsets(values.offsets), values.data, nulls);
    array.map(|array| BinaryViewArray::from(&array)).map_err(wrong)
}

fn offset_array<T: ByteArrayType>(
    offsets: ScalarBuffer<T::Offset>,
    data: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> std::result::Result<GenericByteArray<T>, ArrowError> {
    GenericByteArray::<T>::try_new(OffsetBuffer::new(offsets), Buffer::from_vec(data), nulls)
}

fn is_beyond_i32(values: &ByteValues) -> bool {
    i32::try_from(values.data.len()).is_err()
}

/// The same bytes, read as signed; every offset is at most `data.len()`, which was compared.
fn narrow_offsets(offsets: Vec<u32>) -> ScalarBuffer<i32> {
    ScalarBuffer::from(Buffer::from_vec(offsets))
}

fn wide_offsets(offsets: Vec<u32>) -> ScalarBuffer<i64> {
    offsets.into_iter().map(i64::from).collect()
}

fn nulls_from(validity: Validity) -> NullBuffer {
    NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(validity.bits), 0, validity.len))
}
