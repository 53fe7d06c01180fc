//! Texts as values of a column's type, without a loss: what the type cannot hold exactly is refused.
//!
//! A date does not take a time of day, a timestamp no digits beyond its unit and no offset unless it has a zone, a decimal
//! no digits beyond its scale, a number none that it would round to infinity. Doubles round, as doubles do.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder,
};
use arrow::compute::kernels::cast_utils::{Parser, parse_decimal, string_to_datetime};
use arrow::datatypes::{
    ArrowTimestampType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

use crate::types::fraction_digits;

/// A column as text.
pub(crate) trait Texts {
    fn len(&self) -> usize;
    /// `None`: NULL.
    fn get(&self, row: usize) -> Option<&str>;
}

/// True for types that [`parsed`] makes columns of.
pub(crate) fn is_parsed(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::Date32 | DataType::Utf8 | DataType::Binary => true,
        DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) | DataType::Timestamp(..) => true,
        other => other.is_integer(),
    }
}

/// The column of `texts`; the first row whose text is not a value of the type where there is one.
pub(crate) fn parsed(texts: &impl Texts, data_type: &DataType) -> Result<ArrayRef, usize> {
    match data_type {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(texts.len());
            for row in 0..texts.len() {
                builder.append_option(texts.get(row).map(|text| boolean(text).ok_or(row)).transpose()?);
            }
            Ok(Arc::new(builder.finish()))
        }
        DataType::Int8 => primitive::<Int8Type>(texts, data_type, Int8Type::parse),
        DataType::Int16 => primitive::<Int16Type>(texts, data_type, Int16Type::parse),
        DataType::Int32 => primitive::<Int32Type>(texts, data_type, Int32Type::parse),
        DataType::Int64 => primitive::<Int64Type>(texts, data_type, Int64Type::parse),
        DataType::UInt8 => primitive::<UInt8Type>(texts, data_type, UInt8Type::parse),
        DataType::UInt16 => primitive::<UInt16Type>(texts, data_type, UInt16Type::parse),
        DataType::UInt32 => primitive::<UInt32Type>(texts, data_type, UInt32Type::parse),
        DataType::UInt64 => primitive::<UInt64Type>(texts, data_type, UInt64Type::parse),
        DataType::Float32 => primitive::<Float32Type>(texts, data_type, |text| {
            Float32Type::parse(text).filter(|value| value.is_finite() || !has_digit(text))
        }),
        DataType::Float64 => primitive::<Float64Type>(texts, data_type, float64),
        DataType::Decimal128(precision, scale) => {
            primitive::<Decimal128Type>(texts, data_type, |text| decimal(text, *precision, *scale))
        }
        DataType::Date32 => primitive::<Date32Type>(texts, data_type, date),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.as_ref().map(|zone| Tz::from_str(zone));
            let Ok(zone) = zone.transpose() else { return Err(0) };
            let parse = |text: &str| timestamp(text, *unit, zone.as_ref());
            match unit {
                TimeUnit::Second => timestamps::<TimestampSecondType>(texts, data_type, parse),
                TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(texts, data_type, parse),
                TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(texts, data_type, parse),
                TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(texts, data_type, parse),
            }
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::with_capacity(texts.len(), 16 * texts.len());
            (0..texts.len()).for_each(|row| builder.append_option(texts.get(row)));
            Ok(Arc::new(builder.finish()))
        }
        _ => {
            let mut builder = StringBuilder::with_capacity(texts.len(), 16 * texts.len());
            (0..texts.len()).for_each(|row| builder.append_option(texts.get(row)));
            Ok(Arc::new(builder.finish()))
        }
    }
}

/// True where `text` is a value of the type.
#[cfg(test)]
pub(crate) fn is_value(text: &str, data_type: &DataType) -> bool {
    struct One<'a>(&'a str);
    impl Texts for One<'_> {
        fn len(&self) -> usize {
            1
        }
        fn get(&self, _row: usize) -> Option<&str> {
            Some(self.0)
        }
    }
    parsed(&One(text), data_type).is_ok()
}

fn primitive<T: ArrowPrimitiveType>(
    texts: &impl Texts,
    data_type: &DataType,
    parse: impl Fn(&str) -> Option<T::Native>,
) -> Result<ArrayRef, usize> {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(texts.len()).with_data_type(data_type.clone());
    for row in 0..texts.len() {
        match texts.get(row) {
            Some(text) => builder.append_value(parse(text).ok_or(row)?),
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn timestamps<T: ArrowTimestampType>(
    texts: &impl Texts,
    data_type: &DataType,
    parse: impl Fn(&str) -> Option<i64>,
) -> Result<ArrayRef, usize> {
    primitive::<T>(texts, data_type, parse)
}

fn boolean(text: &str) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("t") || text == "1" {
        return Some(true);
    }
    (is("false") || is("f") || text == "0").then_some(false)
}

/// A double; not a number that is too large for one.
pub(crate) fn float64(text: &str) -> Option<f64> {
    Float64Type::parse(text).filter(|value| value.is_finite() || !has_digit(text))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction).trim_end_matches('0');
    let digits = fraction.len() as i64 - exponent;
    if digits > i64::from(scale) && has_digit(mantissa.trim_matches(['0', '.', '-', '+'])) {
        return None;
    }
    parse_decimal::<Decimal128Type>(text, precision, scale).ok()
}

/// Days since 1970-01-01; a time of day only where it is midnight.
fn date(text: &str) -> Option<i32> {
    if text.len() > 10 && !text.starts_with(['+', '-']) {
        let (day, time) = (text.get(..10)?, text.get(10..)?);
        if time.bytes().any(|byte| !matches!(byte, b'T' | b't' | b' ' | b'0' | b':' | b'.')) {
            return None;
        }
        string_to_datetime(&utc(), text).ok()?;
        return Date32Type::parse(day);
    }
    Date32Type::parse(text)
}

pub(crate) fn utc() -> Tz {
    Tz::from_str(crate::types::UTC).expect("an offset is a zone")
}

/// What a text says of a point in time.
pub(crate) struct Moment {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    /// Digits after the point of its seconds.
    pub(crate) digits: u32,
    pub(crate) zone: ZoneText,
}

/// How a text says in which zone it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneText {
    None,
    Utc,
    Other,
}

/// Reads a date and a time of day; without an offset it is in `zone`.
pub(crate) fn moment(text: &str, zone: &Tz) -> Option<Moment> {
    let found = string_to_datetime(zone, text).ok()?;
    let time = text.get(11..).unwrap_or_default();
    let (clock, offset) =
        time.split_at(time.find(|c: char| !matches!(c, '0'..='9' | ':' | '.')).unwrap_or(time.len()));
    let digits = clock.split_once('.').map_or(0, |(_, digits)| digits.trim_end_matches('0').len() as u32);
    let zone = match offset.trim() {
        "" => ZoneText::None,
        "Z" | "z" | "+00:00" | "-00:00" | "+0000" | "+00" | "UTC" => ZoneText::Utc,
        _ => ZoneText::Other,
    };
    Some(Moment { seconds: found.timestamp(), nanos: found.timestamp_subsec_nanos(), digits, zone })
}

/// Units since 1970-01-01. A column without a zone takes no offset but that of UTC, which changes nothing.
fn timestamp(text: &str, unit: TimeUnit, zone: Option<&Tz>) -> Option<i64> {
    let found = match zone {
        Some(zone) => moment(text, zone)?,
        None => moment(text, &utc()).filter(|found| found.zone != ZoneText::Other)?,
    };
    if found.digits > fraction_digits(unit) {
        return None;
    }
    let per_second = 10_i64.pow(fraction_digits(unit));
    let fraction = i64::from(found.nanos) / (1_000_000_000 / per_second);
    found.seconds.checked_mul(per_second)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::parse_type;

    #[test]
    fn a_text_is_a_value_only_where_nothing_of_it_is_lost() {
        let cases = [
            (
                "BIGINT",
                &["0", "-9223372036854775808", "007"][..],
                &["1.5", "9223372036854775808", "1 1", "x"][..],
            ),
            ("TINYINT UNSIGNED", &["255"], &["256", "-1"]),
            ("DOUBLE", &["1", "-1.5e3", "NaN", "inf", "-Infinity"], &["1e999", "1,5", ""]),
            (
                "DATE",
                &["2024-02-29", "2024-02-29 00:00:00", "2024-02-29T00:00:00.000"],
                &["2024-02-30", "2024-02-29 00:00:01", "2024-02-29T00:00:00Z", "2024"],
            ),
            (
                "TIMESTAMP(0)",
                &["2024-01-01 10:00:00", "2024-01-01", "2024-01-01T10:00:00.000", "2024-01-01T10:00:00Z"],
                &["2024-01-01 10:00:00.5", "2024-01-01 10:00:00.0000000001", "2024-01-01 10:00:00+02:00"],
            ),
            (
                "TIMESTAMP(9)",
                &["2024-01-01 10:00:00.123456789"],
                &["2024-01-01 10:00:00.1234567891", "2500-01-01"],
            ),
            ("TIMESTAMPTZ(3)", &["2024-01-01 10:00:00.123+02:00"], &["2024-01-01 10:00:00.1234Z"]),
            (
                "DECIMAL(5,2)",
                &["1.20", "-999.99", "1.2000", "12e1", "1.25e1"],
                &["1.234", "1000", "1e-3", "x", "1.1251e1"],
            ),
            ("BOOLEAN", &["true", "F", "1"], &["yes", "2", ""]),
            ("VARCHAR", &["", "ä"], &[]),
        ];
        for (name, good, bad) in cases {
            let data_type = parse_type(name).unwrap();
            for text in good {
                assert!(is_value(text, &data_type), "'{text}' is a {name}");
            }
            for text in bad {
                assert!(!is_value(text, &data_type), "'{text}' is no {name}");
            }
        }
    }

    #[test]
    fn offsets_are_taken_into_account_where_the_column_has_a_zone() {
        let zone = Tz::from_str("+02:00").unwrap();
        let at = |text| timestamp(text, TimeUnit::Second, Some(&zone)).unwrap();
        assert_eq!(at("1970-01-01T02:00:00"), 0);
        assert_eq!(at("1970-01-01T02:00:00Z"), 7200);
        assert_eq!(at("1970-01-01 02:00:00 +01:00"), 3600);
        assert_eq!(timestamp("1969-12-31T23:59:59.5", TimeUnit::Millisecond, None), Some(-500));
    }
}
