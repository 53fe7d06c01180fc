//! A table with a column of every type that Pelton stores, NULLs everywhere, values that tempt codecs and
//! zone maps: runs, few distinct values, sorted stretches, extremes, NaN.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::random::Random;

/// The columns of [`random_rows`].
pub fn schema() -> SchemaRef {
    let field = |name: &str, ty: DataType| Field::new(name, ty, true);
    Arc::new(Schema::new(vec![
        field("id", DataType::Int64),
        field("flag", DataType::Boolean),
        field("tiny", DataType::Int8),
        field("small", DataType::Int16),
        field("int", DataType::Int32),
        field("big", DataType::Int64),
        field("utiny", DataType::UInt8),
        field("usmall", DataType::UInt16),
        field("uint", DataType::UInt32),
        field("ubig", DataType::UInt64),
        field("single", DataType::Float32),
        field("double", DataType::Float64),
        field("price", DataType::Decimal128(15, 2)),
        field("huge", DataType::Decimal128(38, 4)),
        field("day", DataType::Date32),
        field("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("at_utc", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        field("word", DataType::Utf8),
        field("text", DataType::Utf8),
        field("bytes", DataType::Binary),
    ]))
}

/// `row_count` rows; `id` ascends from 0 and is never NULL.
pub fn random_rows(seed: u64, row_count: usize) -> RecordBatch {
    let mut random = Random::new(seed);
    let columns =
        schema().fields().iter().map(|field| column(field.name(), row_count, &mut random)).collect();
    RecordBatch::try_new(schema(), columns).expect("columns follow the schema")
}

/// Values in stretches: constant, ascending, few distinct, anything; one in twelve NULL.
fn numbers(row_count: usize, random: &mut Random) -> Vec<Option<i64>> {
    let mut values = Vec::with_capacity(row_count);
    while values.len() < row_count {
        let len = (1 + random.below(60)) as usize;
        let style = random.below(5);
        let base = random.below(1000) as i64 - 500;
        for step in 0..len {
            let value = match style {
                0 => base,
                1 => base + step as i64,
                2 => base + random.below(4) as i64,
                3 => random.next_u64() as i64,
                _ => *random.pick(&[i64::MIN, i64::MAX, -1, 0, 1]),
            };
            values.push((!random.one_in(12)).then_some(value));
        }
    }
    values.truncate(row_count);
    values
}

fn texts(row_count: usize, words: &[&str], random: &mut Random) -> Vec<Option<String>> {
    let mut text = || match random.below(12) {
        0 => None,
        1 => Some(format!("{}{}", random.pick(words), random.below(100_000))),
        2 => Some(format!(
            "{}{}",
            "a long common beginning of more than twelve bytes ".repeat(2),
            random.below(50)
        )),
        _ => Some((*random.pick(words)).to_owned()),
    };
    (0..row_count).map(|_| text()).collect()
}

fn floats(row_count: usize, random: &mut Random) -> Vec<Option<f64>> {
    let mut float = || match random.below(20) {
        0 => None,
        1 => Some(f64::NAN),
        2 => Some(*random.pick(&[f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, f64::MIN_POSITIVE])),
        3 => Some(f64::from_bits(random.next_u64())),
        _ => Some(random.below(100_000) as f64 / 100.0 - 300.0),
    };
    (0..row_count).map(|_| float()).collect()
}

fn column(name: &str, row_count: usize, random: &mut Random) -> ArrayRef {
    let numbers = numbers(row_count, random);
    let cast = |value: Option<i64>| value;
    let words = ["ASIA", "EUROPE", "", "AMERICA", "Ägypten", "MIDDLE EAST", "z"];
    match name {
        "id" => Arc::new(Int64Array::from_iter_values(0..row_count as i64)),
        "flag" => Arc::new(BooleanArray::from_iter(numbers.into_iter().map(|v| v.map(|v| v % 2 == 0)))),
        "tiny" => Arc::new(Int8Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as i8)))),
        "small" => Arc::new(Int16Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as i16)))),
        "int" => Arc::new(Int32Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as i32)))),
        "big" => Arc::new(Int64Array::from_iter(numbers.into_iter().map(cast))),
        "utiny" => Arc::new(UInt8Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as u8)))),
        "usmall" => Arc::new(UInt16Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as u16)))),
        "uint" => Arc::new(UInt32Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as u32)))),
        "ubig" => Arc::new(UInt64Array::from_iter(numbers.into_iter().map(|v| v.map(|v| v as u64)))),
        "single" => {
            let singles = floats(row_count, random).into_iter().map(|v| v.map(|v| v as f32));
            Arc::new(Float32Array::from_iter(singles))
        }
        "double" => Arc::new(Float64Array::from_iter(floats(row_count, random))),
        "price" => {
            let prices = numbers.into_iter().map(|v| v.map(|v| i128::from(v % 1_000_000_000)));
            Arc::new(Decimal128Array::from_iter(prices).with_precision_and_scale(15, 2).expect("15 digits"))
        }
        "huge" => {
            let widest = 10i128.pow(38) - 1;
            let values =
                numbers.into_iter().map(|v| v.map(|v| (i128::from(v) * 1_000_000_007_000_003) % widest));
            Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(38, 4).expect("38 digits"))
        }
        "day" => {
            Arc::new(Date32Array::from_iter(numbers.into_iter().map(|v| v.map(|v| (v % 40_000) as i32))))
        }
        "at" => {
            let instants = numbers.into_iter().map(|v| v.map(|v| v % 4_000_000_000_000_000));
            Arc::new(TimestampMicrosecondArray::from_iter(instants))
        }
        "at_utc" => {
            let instants = numbers.into_iter().map(|v| v.map(|v| v % 4_000_000_000_000_000));
            Arc::new(TimestampMicrosecondArray::from_iter(instants).with_timezone("UTC"))
        }
        "word" => Arc::new(StringArray::from_iter(texts(row_count, &words, random))),
        "text" => {
            let long = ["carefully final deposits detect slyly", "x", "quickly ironic packages among the"];
            Arc::new(StringArray::from_iter(texts(row_count, &long, random)))
        }
        "bytes" => {
            let values = texts(row_count, &words, random).into_iter().map(|v| v.map(String::into_bytes));
            Arc::new(BinaryArray::from_iter(values))
        }
        other => unreachable!("no column '{other}'"),
    }
}
