//! Rows of a column as a column of their own.

use std::ops::Range;

use pelton_chunk::{ByteValues, Column, Validity, Values};

/// A copy of `rows`.
pub(super) fn slice(column: &Column, rows: Range<usize>) -> Column {
    let validity = column.validity.as_ref().map(|validity| {
        let valid: Vec<bool> = rows.clone().map(|row| validity.is_valid(row)).collect();
        Validity::from_bools(valid.into_iter())
    });
    Column { values: slice_values(&column.values, rows), validity }
}

fn slice_values(values: &Values, rows: Range<usize>) -> Values {
    match values {
        Values::U8(values) => Values::U8(values[rows].to_vec()),
        Values::U16(values) => Values::U16(values[rows].to_vec()),
        Values::U32(values) => Values::U32(values[rows].to_vec()),
        Values::U64(values) => Values::U64(values[rows].to_vec()),
        Values::I8(values) => Values::I8(values[rows].to_vec()),
        Values::I16(values) => Values::I16(values[rows].to_vec()),
        Values::I32(values) => Values::I32(values[rows].to_vec()),
        Values::I64(values) => Values::I64(values[rows].to_vec()),
        Values::I128(values) => Values::I128(values[rows].to_vec()),
        Values::F32(values) => Values::F32(values[rows].to_vec()),
        Values::F64(values) => Values::F64(values[rows].to_vec()),
        Values::Bytes(values) => {
            let first = values.offsets[rows.start];
            let data = values.data[first as usize..values.offsets[rows.end] as usize].to_vec();
            let offsets = values.offsets[rows.start..=rows.end].iter().map(|offset| offset - first).collect();
            Values::Bytes(ByteValues { offsets, data })
        }
    }
}
