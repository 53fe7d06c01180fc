//! Tests of the conversion from and to Arrow.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal32Array, Decimal64Array,
    Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::{FilterBuilder, cast, filter};
use arrow::datatypes::{DataType, Int32Type};
use pelton_chunk::{ByteValues, DecodedColumn, DecodedValues, Validity, Values};
use pelton_error::ErrorKind;

use super::*;
use crate::schema::LogicalType;

/// Through a column and back: equal to the array cast to the type in which rows go out.
fn check(array: ArrayRef) {
    let logical = LogicalType::from_arrow(array.data_type()).unwrap();
    for array in [Arc::clone(&array), array.slice(1, array.len() - 1), array.slice(0, 0)] {
        let column = column_from_arrow(array.as_ref(), &logical).unwrap();
        assert_eq!(column.values.physical_type(), logical.physical_type());
        let decoded =
            DecodedColumn { values: DecodedValues::Plain(column.values), validity: column.validity };
        let back = column_to_arrow(decoded, &logical).unwrap();
        assert_eq!(&back, &cast(&array, &logical.to_arrow()).unwrap(), "{logical}");
    }
}

#[test]
fn rows_are_chosen_of_the_stored_form() {
    let numbers = |precision| -> ArrayRef {
        let values = Decimal128Array::from(vec![Some(7), None, Some(-300), Some(5)]);
        Arc::new(values.with_precision_and_scale(precision, 2).unwrap())
    };
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![Some("a"), None, Some("a longer text than twelve"), Some("")]));
    let mask = BooleanArray::from(vec![true, true, false, true]);
    let keep = FilterBuilder::new(&mask).build();
    for array in [numbers(18), numbers(19), texts] {
        let logical = LogicalType::from_arrow(array.data_type()).unwrap();
        let is_narrow = logical == LogicalType::Decimal { precision: 18, scale: 2 };
        let stored = if is_narrow { DataType::Int64 } else { logical.to_arrow() };
        assert_eq!(logical.to_stored_arrow(), stored);
        for keep in [None, Some(&keep)] {
            let column = column_from_arrow(array.as_ref(), &logical).unwrap();
            let values = DecodedValues::Plain(column.values);
            let found =
                column_to_stored_arrow(DecodedColumn { values, validity: column.validity }, &logical, keep)
                    .unwrap();
            let expected = keep.map_or_else(|| Arc::clone(&array), |_| filter(&array, &mask).unwrap());
            assert_eq!(found.data_type(), &stored);
            // What is stored of a decimal is its number of hundredths.
            let found = if is_narrow {
                let whole: &Int64Array = found.as_any().downcast_ref().unwrap();
                let wide: Decimal128Array = whole.iter().map(|value| value.map(i128::from)).collect();
                Arc::new(wide.with_precision_and_scale(18, 2).unwrap())
            } else {
                found
            };
            assert_eq!(&found, &cast(&expected, &logical.to_arrow()).unwrap());
        }
    }

    let (codes, dictionary) =
        (vec![1, 0, 1, 0], ByteValues { offsets: vec![0, 1, 3], data: b"xyz".to_vec() });
    let validity = Some(Validity { bits: vec![0b0111], len: 4 });
    let coded = DecodedColumn { values: DecodedValues::Dictionary { codes, dictionary }, validity };
    let found = column_to_stored_arrow(coded, &LogicalType::Utf8, Some(&keep)).unwrap();
    assert_eq!(found.as_ref(), &StringViewArray::from(vec![Some("yz"), Some("x"), None]) as &dyn Array);
}

#[test]
fn every_type_round_trips_with_and_without_nulls() {
    check(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])));
    check(Arc::new(Int8Array::from(vec![Some(-1), None, Some(7)])));
    check(Arc::new(Int16Array::from(vec![1, -2, i16::MIN])));
    check(Arc::new(Int32Array::from(vec![Some(1), None, Some(i32::MAX)])));
    check(Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)])));
    check(Arc::new(UInt8Array::from(vec![1, 2, 255])));
    check(Arc::new(UInt16Array::from(vec![1, 2, u16::MAX])));
    check(Arc::new(UInt32Array::from(vec![Some(1), None, Some(u32::MAX)])));
    check(Arc::new(UInt64Array::from(vec![Some(1), None, Some(u64::MAX)])));
    check(Arc::new(Float32Array::from(vec![Some(1.5), None, Some(f32::NEG_INFINITY)])));
    check(Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(1e300)])));
    check(Arc::new(Date32Array::from(vec![Some(0), None, Some(-1)])));
    check(Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None, Some(-5)]).with_timezone("UTC")));
    check(Arc::new(TimestampNanosecondArray::from(vec![Some(1), None, Some(-5)])));
}

#[test]
fn every_decimal_flavour_becomes_decimal128() {
    let wide = Decimal128Array::from(vec![Some(i128::from(i64::MAX) * 1000), None, Some(-1)]);
    check(Arc::new(wide.with_precision_and_scale(38, 4).unwrap()));
    let narrow = Decimal128Array::from(vec![Some(123_456), None, Some(-7)]);
    check(Arc::new(narrow.clone().with_precision_and_scale(15, 2).unwrap()));
    let narrow = narrow.with_precision_and_scale(15, 2).unwrap();
    check(cast(&narrow, &arrow::datatypes::DataType::Decimal256(20, 2)).unwrap());
    check(Arc::new(
        Decimal64Array::from(vec![Some(5), None, Some(-7)]).with_precision_and_scale(12, 2).unwrap(),
    ));
    check(Arc::new(
        Decimal32Array::from(vec![Some(5), None, Some(-7)]).with_precision_and_scale(9, 9).unwrap(),
    ));
}

#[test]
fn every_string_and_binary_flavour_becomes_views() {
    let texts = vec![Some("short"), None, Some(""), Some("longer than twelve bytes, ünïcode"), Some("a")];
    check(Arc::new(StringArray::from(texts.clone())));
    check(Arc::new(LargeStringArray::from(texts.clone())));
    check(Arc::new(StringViewArray::from(texts.clone())));
    let dictionary: DictionaryArray<Int32Type> = texts.clone().into_iter().collect();
    check(Arc::new(dictionary));
    let bytes: Vec<Option<&[u8]>> = texts.iter().map(|text| text.map(str::as_bytes)).collect();
    check(Arc::new(BinaryArray::from(bytes.clone())));
    check(Arc::new(LargeBinaryArray::from(bytes.clone())));
    check(Arc::new(BinaryViewArray::from(bytes)));
    let fixed = FixedSizeBinaryArray::try_from_iter([b"abcd", b"efgh"].into_iter()).unwrap();
    check(Arc::new(fixed));
}

#[test]
fn dictionary_of_numbers_is_taken_as_its_values() {
    let keys = Int32Array::from(vec![Some(1), None, Some(0)]);
    let values = Arc::new(Int64Array::from(vec![10, 20]));
    check(Arc::new(DictionaryArray::new(keys, values)));
}

#[test]
fn dictionary_codes_gather_views_and_skip_nulls() {
    let mut dictionary = ByteValues::default();
    dictionary.push(b"AIR").unwrap();
    dictionary.push("a long entry with ünïcode".as_bytes()).unwrap();
    let decoded = DecodedColumn {
        values: DecodedValues::Dictionary { codes: vec![1, 0, 99, 1], dictionary },
        validity: Some(Validity::from_bools([true, true, false, true].into_iter())),
    };
    let array = column_to_arrow(decoded, &LogicalType::Utf8).unwrap();
    let long = "a long entry with ünïcode";
    assert_eq!(
        array.as_ref(),
        &StringViewArray::from(vec![Some(long), Some("AIR"), None, Some(long)]) as &dyn Array
    );
}

#[test]
fn text_that_is_not_utf8_is_corrupt_and_binary_is_not() {
    let mut values = ByteValues::default();
    values.push(b"fine").unwrap();
    values.push(b"\xff\xfe").unwrap();
    let split = ByteValues { offsets: vec![0, 1, 2], data: "ü".as_bytes().to_vec() };
    let plain =
        |values| DecodedColumn { values: DecodedValues::Plain(Values::Bytes(values)), validity: None };
    for values in [values, split] {
        let error = column_to_arrow(plain(values.clone()), &LogicalType::Utf8).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        let coded = DecodedValues::Dictionary { codes: vec![0], dictionary: values.clone() };
        let error =
            column_to_arrow(DecodedColumn { values: coded, validity: None }, &LogicalType::Utf8).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt);
        column_to_arrow(plain(values), &LogicalType::Binary).unwrap();
    }
}

#[test]
fn decimals_beyond_their_digits_are_refused_unless_null() {
    let logical = LogicalType::Decimal { precision: 15, scale: 2 };
    let huge = i128::from(i64::MAX) + 1;
    let values = arrow::buffer::ScalarBuffer::from(vec![1, huge]);
    let array = |nulls: Option<Vec<bool>>| {
        Decimal128Array::new(values.clone(), nulls.map(Into::into)).with_precision_and_scale(15, 2).unwrap()
    };
    let error = column_from_arrow(&array(None), &logical).unwrap_err();
    assert!(error.to_string().contains("row 1"), "{error}");
    column_from_arrow(&array(Some(vec![true, false])), &logical).unwrap();
}

#[test]
fn another_type_is_refused() {
    let error = column_from_arrow(&Int8Array::from(vec![1]), &LogicalType::Int16).unwrap_err();
    assert!(error.to_string().contains("Int8") && error.to_string().contains("int16"), "{error}");
}
