//! What the values of a column were seen to be, and the narrowest type that holds them all without a loss.
//!
//! ```text
//!   bool            int ─▶ float           date ─▶ timestamp(0) ─▶ (3) ─▶ (6) ─▶ (9)        with zone, the same
//!     └──────────────┴───────┴──────────────┴─────────── text ───────────────────────────────────┘
//! ```
//!
//! What is seen is a set, so the order of values, blocks and files does not matter.

use arrow::datatypes::{DataType, TimeUnit};

use crate::types::UTC;
use crate::values::{ZoneText, float64, moment, utc};

/// A set of kinds of values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen(u16);

impl Seen {
    pub(crate) const NOTHING: Self = Self(0);
    pub(crate) const BOOL: Self = Self(1);
    pub(crate) const INT: Self = Self(1 << 1);
    pub(crate) const FLOAT: Self = Self(1 << 2);
    pub(crate) const TEXT: Self = Self(1 << 3);
    const DATE: Self = Self(1 << 4);
    const SECONDS: Self = Self(1 << 5);
    const MILLIS: Self = Self(1 << 6);
    const MICROS: Self = Self(1 << 7);
    const NANOS: Self = Self(1 << 8);
    /// Dates, and timestamps without an offset.
    const LOCAL: Self = Self(1 << 9);
    const ZONED: Self = Self(1 << 10);
    /// Years that 64 bits of nanoseconds do not reach.
    const FAR: Self = Self(1 << 11);
    /// Integers that a double would round.
    const BIG: Self = Self(1 << 12);

    /// Doubles that are no numbers, written as text: they are text where no number is seen.
    pub(crate) const SPECIAL: Self = Self(1 << 13);

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True once no further value changes the type.
    pub(crate) fn is_text(self) -> bool {
        self.has(Self::TEXT)
    }

    pub(crate) fn is_nothing(self) -> bool {
        self.0 == 0
    }

    /// Text where nothing was seen.
    pub(crate) fn data_type(self) -> DataType {
        let times = Self(Self::SECONDS.0 | Self::MILLIS.0 | Self::MICROS.0 | Self::NANOS.0);
        let classes = [
            self.has(Self::BOOL),
            self.has(Self::INT) || self.has(Self::FLOAT),
            self.has(Self::LOCAL),
            self.has(Self::ZONED),
            self.has(Self::TEXT),
        ];
        if classes.iter().filter(|class| **class).count() != 1 || self.has(Self::TEXT) {
            return DataType::Utf8;
        }
        if self.has(Self::SPECIAL) {
            let is_number = classes[1] && !self.has(Self::BIG);
            return if is_number { DataType::Float64 } else { DataType::Utf8 };
        }
        let zone = self.has(Self::ZONED).then(|| UTC.into());
        match self {
            _ if self.has(Self::BOOL) => DataType::Boolean,
            _ if self.has(Self::FLOAT) && self.has(Self::BIG) => DataType::Utf8,
            _ if self.has(Self::FLOAT) => DataType::Float64,
            _ if self.has(Self::INT) => DataType::Int64,
            _ if self.has(Self::NANOS) && self.has(Self::FAR) => DataType::Utf8,
            _ if self.has(Self::NANOS) => DataType::Timestamp(TimeUnit::Nanosecond, zone),
            _ if self.has(Self::MICROS) => DataType::Timestamp(TimeUnit::Microsecond, zone),
            _ if self.has(Self::MILLIS) => DataType::Timestamp(TimeUnit::Millisecond, zone),
            _ if self.has(times) => DataType::Timestamp(TimeUnit::Second, zone),
            _ => DataType::Date32,
        }
    }

    /// What a field of a text file is.
    pub(crate) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        match bytes {
            [b'0'..=b'9' | b'-' | b'.', ..] => of_number_or_time(text),
            [b't' | b'T', ..] if text.eq_ignore_ascii_case("true") => Self::BOOL,
            [b'f' | b'F', ..] if text.eq_ignore_ascii_case("false") => Self::BOOL,
            [b'n' | b'N' | b'i' | b'I', ..] if is_special(text) => Self::FLOAT,
            _ => Self::TEXT,
        }
    }

    /// What the text of a JSON number is.
    pub(crate) fn of_number(text: &str) -> Self {
        of_number_or_time(text)
    }
}

/// True for what stands for a double that is no number.
pub(crate) fn is_special(text: &str) -> bool {
    matches!(text, "NaN" | "nan" | "inf" | "-inf" | "Infinity" | "-Infinity")
}

fn of_number_or_time(text: &str) -> Seen {
    let bytes = text.as_bytes();
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        return of_integer(text, digits.len());
    }
    if bytes.len() >= 10 && bytes[4] == b'-' && bytes[7] == b'-' {
        return of_time(text);
    }
    let is_decimal = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if (is_decimal && float64(text).is_some()) || is_special(text) { Seen::FLOAT } else { Seen::TEXT }
}

fn of_integer(text: &str, digit_count: usize) -> Seen {
    if digit_count <= 15 {
        return Seen::INT;
    }
    match text.parse::<i64>() {
        Ok(value) if value.unsigned_abs() > 1 << 53 => Seen(Seen::INT.0 | Seen::BIG.0),
        Ok(_) => Seen::INT,
        Err(_) => Seen::TEXT,
    }
}

fn of_time(text: &str) -> Seen {
    // Ten digits after the point are more than any unit has.
    let Some(found) = moment(text, &utc()).filter(|found| found.digits <= 9) else { return Seen::TEXT };
    let far = match text[..4].parse::<u16>() {
        Ok(1678..=2261) => Seen::NOTHING,
        _ => Seen::FAR,
    };
    let written = text
        .get(10..)
        .and_then(|time| time.split_once('.'))
        .map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count().min(9));
    let kind = match (text.len(), written) {
        (10, _) => Seen::DATE,
        (_, 0) => Seen::SECONDS,
        (_, 1..=3) => Seen::MILLIS,
        (_, 4..=6) => Seen::MICROS,
        _ => Seen::NANOS,
    };
    let zone = if found.zone == ZoneText::None { Seen::LOCAL } else { Seen::ZONED };
    Seen(kind.0 | zone.0 | far.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::type_name;
    use crate::values::is_value;

    #[test]
    fn the_type_holds_every_value_that_was_seen() {
        let cases = [
            (&["1", "-7"][..], "BIGINT"),
            (&["1", "1.5"], "DOUBLE"),
            (&["9007199254740993", "1"], "BIGINT"),
            (&["9007199254740993", "1.5"], "VARCHAR"),
            (&["99999999999999999999"], "VARCHAR"),
            (&["-1e5", ".5", "5.", "NaN", "-inf", "Infinity"], "DOUBLE"),
            (&["1e999"], "VARCHAR"),
            (&["1-2"], "VARCHAR"),
            (&["-"], "VARCHAR"),
            (&["true", "FALSE"], "BOOLEAN"),
            (&["true", "1"], "VARCHAR"),
            (&["2024-02-29"], "DATE"),
            (&["2024-02-30"], "VARCHAR"),
            (&["2024-02-29", "2024-02-29T10:00:00"], "TIMESTAMP(0)"),
            (&["2024-02-29 10:00:00.5", "2024-02-29 10:00:00"], "TIMESTAMP(3)"),
            (&["2024-02-29 10:00:00.1234"], "TIMESTAMP(6)"),
            (&["2024-02-29 10:00:00.1234567"], "TIMESTAMP(9)"),
            (&["2024-02-29 10:00:00.1234567", "2262-01-01"], "VARCHAR"),
            (&["2024-02-29 10:00:00.1234567891"], "VARCHAR"),
            (&["9999-12-31 00:00:00", "0001-01-01"], "TIMESTAMP(0)"),
            (&["2024-02-29T10:00:00Z", "2024-02-29T10:00:00.5+02:00"], "TIMESTAMPTZ(3)"),
            (&["2024-02-29T10:00:00Z", "2024-02-29T10:00:00"], "VARCHAR"),
            (&["2024-02-29", "7"], "VARCHAR"),
            (&[], "VARCHAR"),
        ];
        for (texts, expected) in cases {
            let mut seen = Seen::NOTHING;
            texts.iter().for_each(|text| seen.add(Seen::of(text)));
            assert_eq!(type_name(&seen.data_type()), expected, "{texts:?}");
            assert!(texts.iter().all(|text| is_value(text, &seen.data_type())), "{texts:?}");
        }
    }
}
