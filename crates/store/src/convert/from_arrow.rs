//! Arrow in: every flavour of a logical type becomes the one vector it is stored from.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, ByteView, GenericByteArray, GenericByteViewArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowNativeType, ByteArrayType, ByteViewType, DataType, Date32Type, Decimal32Type, Decimal64Type,
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pelton_chunk::{ByteValues, Column, PhysicalType, Validity, Values};
use pelton_error::{Error, Result};

use crate::schema::LogicalType;

/// Takes the values of `array`, whose type must be a flavour of `logical`, into a column.
///
/// # Errors
///
/// Another logical type, a decimal with more digits than its type has, text of more than 4 GiB.
pub fn column_from_arrow(array: &dyn Array, logical: &LogicalType) -> Result<Column> {
    if LogicalType::from_arrow(array.data_type()).as_ref() != Some(logical) {
        return Err(Error::invalid_input(format!(
            "values of type {} where the column holds {logical}",
            array.data_type()
        )));
    }
    let plain: Option<ArrayRef> = match array.data_type() {
        DataType::Dictionary(_, values) => Some(cast_to(array, values)?),
        DataType::FixedSizeBinary(_) => Some(cast_to(array, &DataType::Binary)?),
        DataType::Decimal256(precision, scale) => {
            Some(cast_to(array, &DataType::Decimal128(*precision, *scale))?)
        }
        _ => None,
    };
    match plain {
        Some(plain) => column_from_arrow(plain.as_ref(), logical),
        None => Ok(Column {
            values: values_from(array, logical)?,
            validity: array.nulls().and_then(validity_from),
        }),
    }
}

fn cast_to(array: &dyn Array, data_type: &DataType) -> Result<ArrayRef> {
    cast(array, data_type).map_err(|error| {
        Error::invalid_input(format!("converting values of type {} to {data_type}", array.data_type()))
            .with_source(error)
    })
}

fn values_from(array: &dyn Array, logical: &LogicalType) -> Result<Values> {
    use LogicalType as L;
    Ok(match logical {
        L::Bool => Values::U8(array.as_boolean().values().iter().map(u8::from).collect()),
        L::Int8 => Values::I8(primitive::<Int8Type>(array)),
        L::Int16 => Values::I16(primitive::<Int16Type>(array)),
        L::Int32 => Values::I32(primitive::<Int32Type>(array)),
        L::Int64 => Values::I64(primitive::<Int64Type>(array)),
        L::UInt8 => Values::U8(primitive::<UInt8Type>(array)),
        L::UInt16 => Values::U16(primitive::<UInt16Type>(array)),
        L::UInt32 => Values::U32(primitive::<UInt32Type>(array)),
        L::UInt64 => Values::U64(primitive::<UInt64Type>(array)),
        L::Float32 => Values::F32(primitive::<Float32Type>(array)),
        L::Float64 => Values::F64(primitive::<Float64Type>(array)),
        L::Date => Values::I32(primitive::<Date32Type>(array)),
        L::Timestamp { unit, .. } => Values::I64(match unit {
            TimeUnit::Second => primitive::<TimestampSecondType>(array),
            TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(array),
            TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(array),
            TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(array),
        }),
        L::Decimal { .. } => decimals(array, logical)?,
        L::Utf8 | L::Binary => Values::Bytes(match array.data_type() {
            DataType::Utf8 => offset_bytes(array.as_string::<i32>())?,
            DataType::LargeUtf8 => offset_bytes(array.as_string::<i64>())?,
            DataType::Utf8View => view_bytes(array.as_string_view())?,
            DataType::Binary => offset_bytes(array.as_binary::<i32>())?,
            DataType::LargeBinary => offset_bytes(array.as_binary::<i64>())?,
            _ => view_bytes(array.as_binary_view())?,
        }),
    })
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<T::Native> {
    array.as_primitive::<T>().values().to_vec()
}

fn decimals(array: &dyn Array, logical: &LogicalType) -> Result<Values> {
    let is_narrow = logical.physical_type() == PhysicalType::I64;
    Ok(match array.data_type() {
        DataType::Decimal32(..) => Values::I64(
            array.as_primitive::<Decimal32Type>().values().iter().map(|&value| value.into()).collect(),
        ),
        DataType::Decimal64(..) if is_narrow => Values::I64(primitive::<Decimal64Type>(array)),
        DataType::Decimal64(..) => Values::I128(
            array.as_primitive::<Decimal64Type>().values().iter().map(|&value| value.into()).collect(),
        ),
        _ if is_narrow => Values::I64(narrowed_decimals(array, logical)?),
        _ => Values::I128(primitive::<Decimal128Type>(array)),
    })
}

/// The low halves; the check that nothing was cut off runs over all rows at once and looks at NULL rows
/// only where it fails.
fn narrowed_decimals(array: &dyn Array, logical: &LogicalType) -> Result<Vec<i64>> {
    let array = array.as_primitive::<Decimal128Type>();
    let mut cut_off = 0i128;
    let narrow = array
        .values()
        .iter()
        .map(|&value| {
            cut_off |= value ^ i128::from(value as i64);
            value as i64
        })
        .collect();
    if cut_off != 0
        && let Some(row) =
            (0..array.len()).find(|&row| array.is_valid(row) && i64::try_from(array.value(row)).is_err())
    {
        return Err(Error::invalid_input(format!(
            "row {row}: the unscaled value {} has more digits than {logical} holds",
            array.value(row)
        )));
    }
    Ok(narrow)
}

fn offset_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Result<ByteValues> {
    let offsets = array.value_offsets();
    let (first, last) = (offsets[0].as_usize(), offsets[array.len()].as_usize());
    refuse_beyond_4_gib(last - first)?;
    Ok(ByteValues {
        offsets: offsets.iter().map(|offset| (offset.as_usize() - first) as u32).collect(),
        data: array.value_data()[first..last].to_vec(),
    })
}

fn view_bytes<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Result<ByteValues> {
    let total: usize = array.views().iter().map(|&view| ByteView::from(view).length as usize).sum();
    refuse_beyond_4_gib(total)?;
    let mut offsets = Vec::with_capacity(array.len() + 1);
    let mut data = Vec::with_capacity(total);
    offsets.push(0);
    for value in array.iter() {
        if let Some(value) = value {
            data.extend_from_slice(value.as_ref());
        }
        offsets.push(data.len() as u32);
    }
    Ok(ByteValues { offsets, data })
}

fn refuse_beyond_4_gib(bytes: usize) -> Result<()> {
    if u32::try_from(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::invalid_input("more than 4 GiB of text in one row group; use fewer rows per row group"))
}

/// The bits from row 0, zero past the last row; `None` where no row is NULL.
fn validity_from(nulls: &NullBuffer) -> Option<Validity> {
    if nulls.null_count() == 0 {
        return None;
    }
    let len = nulls.len();
    let mut bits = nulls.inner().sliced().as_slice()[..len.div_ceil(8)].to_vec();
    if !len.is_multiple_of(8) {
        *bits.last_mut().expect("a NULL has a row") &= (1 << (len % 8)) - 1;
    }
    Some(Validity { bits, len })
}
