//! Texts of intervals that DataFusion 55 does not read, with the names of units.
//!
//! ```text
//!   INTERVAL '02:30'                             2 hours 30 minutes
//!   INTERVAL '1 day -02:00:00.5'                 1 day -2 hours -0 minutes -0.5 seconds
//!   INTERVAL '3 04:05:06', '3 04:05' DAY TO MINUTE
//!   INTERVAL '1-2', '1-2' YEAR TO MONTH          1 years 2 months
//!   INTERVAL '05:06' MINUTE TO SECOND            5 minutes 6 seconds
//! ```
//!
//! A sign belongs to the clock or the years that it stands before, as in PostgreSQL. What does not have these forms, or has
//! more parts than its fields, stays as it is.

use datafusion::sql::sqlparser::ast::{DataType, DateTimeField, Expr, Interval, Value};

/// Units of a clock's parts, from the longest.
const CLOCK: [&str; 3] = ["hours", "minutes", "seconds"];

/// Writes an interval's text in units, and drops its fields where the text then says them.
pub(crate) fn write_interval(interval: &mut Interval) {
    let Expr::Value(value) = interval.value.as_mut() else { return };
    let Value::SingleQuotedString(text) = &mut value.value else { return };
    let is_precise = interval.leading_precision.is_some() || interval.fractional_seconds_precision.is_some();
    let written = match (&interval.leading_field, &interval.last_field) {
        _ if is_precise => None,
        (None, None) => in_units(text),
        (Some(first), Some(last)) => in_fields(text, first, last),
        _ => None,
    };
    if let Some(written) = written {
        *text = written;
        (interval.leading_field, interval.last_field) = (None, None);
    }
}

/// Writes a text that is cast to an interval in units.
pub(crate) fn write_interval_text(value: &mut Value, data_type: &DataType) {
    if let Value::SingleQuotedString(text) = value
        && matches!(data_type, DataType::Interval { fields: None, precision: None })
        && let Some(written) = in_units(text)
    {
        *text = written;
    }
}

/// The units of a text that has a clock, or years and months.
fn in_units(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut written = Vec::new();
    let mut is_other = false;
    for (place, word) in words.iter().enumerate() {
        let is_last = place + 1 == words.len();
        if let Some(clock) = clock(word, 0).filter(|_| is_last) {
            // A number alone before a clock counts days.
            let is_number = |word: &&str| unsigned(word).1.bytes().all(|byte| byte.is_ascii_digit());
            if place > 0 && is_number(&words[place - 1]) {
                written.push("days".to_owned());
            }
            written.push(clock);
            is_other = true;
        } else if let Some(years) = years(word) {
            written.push(years);
            is_other = true;
        } else {
            written.push((*word).to_owned());
        }
    }
    is_other.then(|| written.join(" "))
}

/// The units of a text whose parts are those from field `first` to field `last`.
fn in_fields(text: &str, first: &DateTimeField, last: &DateTimeField) -> Option<String> {
    let nth = |field: &DateTimeField| match field {
        DateTimeField::Hour | DateTimeField::Hours => Some(0),
        DateTimeField::Minute | DateTimeField::Minutes => Some(1),
        DateTimeField::Second | DateTimeField::Seconds => Some(2),
        _ => None,
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match (first, nth(first), words.as_slice()) {
        (DateTimeField::Year | DateTimeField::Years, _, [word])
            if matches!(last, DateTimeField::Month | DateTimeField::Months) =>
        {
            years(word)
        }
        (DateTimeField::Day | DateTimeField::Days, _, [days, time]) => {
            let (last, (_, digits)) = (nth(last)?, unsigned(days));
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let time = clock(time, 0).filter(|_| is_number && parts(time) == last + 1)?;
            Some(format!("{days} days {time}"))
        }
        (_, Some(first), [time]) => {
            clock(time, first).filter(|_| Some(first + parts(time)) == nth(last).map(|last| last + 1))
        }
        _ => None,
    }
}

fn parts(clock: &str) -> usize {
    clock.split(':').count()
}

/// The sign of a number, `-` or nothing, and what follows it.
fn unsigned(word: &str) -> (&'static str, &str) {
    match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    }
}

/// The units of `02:30:00.5`, of which the first part counts the unit numbered `first`.
fn clock(word: &str, first: usize) -> Option<String> {
    let (sign, rest) = unsigned(word);
    let parts: Vec<&str> = rest.split(':').collect();
    if parts.len() < 2 || first + parts.len() > CLOCK.len() {
        return None;
    }
    let mut written = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        let unit = CLOCK[first + place];
        let (whole, fraction) = match part.split_once('.') {
            Some((whole, fraction)) if unit == "seconds" => (whole, fraction),
            Some(_) => return None,
            None => (*part, ""),
        };
        let is_whole = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
        let is_in_range = place == 0 || whole.parse::<u8>().is_ok_and(|number| number < 60);
        if !is_whole || !is_in_range || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        written.push(format!("{sign}{part} {unit}"));
    }
    Some(written.join(" "))
}

/// The units of `1-2`, years and months.
fn years(word: &str) -> Option<String> {
    let (sign, rest) = unsigned(word);
    let (years, months) = rest.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_in_range = months.parse::<u8>().is_ok_and(|months| months < 12);
    (is_number(years) && is_number(months) && is_in_range)
        .then(|| format!("{sign}{years} years {sign}{months} months"))
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::titles::untitle;

    fn check(interval: &str, expected: &str) {
        let mut statement = parse(&format!("SELECT {interval}")).unwrap().remove(0);
        untitle(&mut statement);
        assert_eq!(statement.to_string(), format!("SELECT {expected}"), "{interval}");
    }

    #[test]
    fn clocks_and_years_get_units() {
        for (interval, expected) in [
            ("INTERVAL '02:30'", "INTERVAL '02 hours 30 minutes'"),
            ("INTERVAL '1 day -02:00:00.5'", "INTERVAL '1 day -02 hours -00 minutes -00.5 seconds'"),
            ("INTERVAL '3 04:05:06'", "INTERVAL '3 days 04 hours 05 minutes 06 seconds'"),
            ("INTERVAL '-3 04:05' DAY TO MINUTE", "INTERVAL '-3 days 04 hours 05 minutes'"),
            ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1 years 2 months'"),
            ("INTERVAL '-1-2 100:00'", "INTERVAL '-1 years -2 months 100 hours 00 minutes'"),
            ("INTERVAL '05:06.7' MINUTE TO SECOND", "INTERVAL '05 minutes 06.7 seconds'"),
            ("INTERVAL '01:05:06' HOUR TO SECOND", "INTERVAL '01 hours 05 minutes 06 seconds'"),
            ("CAST('1 day 02:00' AS INTERVAL)", "CAST('1 day 02 hours 00 minutes' AS INTERVAL)"),
        ] {
            check(interval, expected);
        }
    }

    #[test]
    fn what_has_no_such_form_stays() {
        for interval in [
            "INTERVAL '1 day'",
            "INTERVAL '1' DAY",
            "INTERVAL '02:75'",
            "INTERVAL '02:00 1 day'",
            "INTERVAL '1:2:3:4'",
            "INTERVAL '1-12'",
            "INTERVAL '2020-01-01'",
            "INTERVAL '1:30' HOUR",
            "INTERVAL '01:05:06' HOUR TO MINUTE",
            "CAST('02:30:00' AS TIME)",
        ] {
            check(interval, interval);
        }
    }
}
