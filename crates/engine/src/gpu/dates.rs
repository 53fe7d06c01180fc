//! Dates and timestamps, as Arrow and DataFusion compute them.
//!
//! ```text
//!   date                 days since 1970-01-01
//!   timestamp            units since 1970-01-01 00:00; its day is the quotient by the units of a day, rounded down
//!   date_part            of the day, or of what the quotient leaves
//!   date_trunc           multiples of a unit of time, or the first day of a week, month, quarter or year
//!   + - interval         months by the calendar, then days, then units
//! ```
//!
//! In zones other than UTC days begin at other times: what depends on that is refused, and so is whatever might leave
//! the range in which the CPU computes it, which would report that.

use std::str::FromStr;

use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::scalar::ScalarValue;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{ArithmeticOp, Bounds, DatePart, DateUnit, Expr, Literal, Type};

use super::value::Value;

const SECONDS_A_DAY: i64 = 86_400;
/// Days of dates that Arrow computes with, a few years less on both sides: 260,000 years before and after 1970.
const CALENDAR: Bounds = Bounds { min: -94_900_000, max: 94_900_000 };
/// Days of timestamps that have a number of nanoseconds, through which `date_trunc` computes; less a year.
const NANOSECOND_DAYS: Bounds = Bounds { min: -106_000, max: 106_000 };

/// `date_part(name, input)`.
///
/// # Errors
///
/// `Unsupported` for parts and types that kernels do not have.
pub(super) fn part(name: &str, input: Value) -> Result<Value> {
    let refused = || Error::unsupported(format!("kernels have no {name} of {}", input.data_type));
    let name = name.trim_matches(['\'', '"']).to_lowercase();
    if name == "epoch" {
        return epoch(&input).ok_or_else(refused);
    }
    if let Some(part) = day_part(&name) {
        let days = days(&input)?.ok_or_else(refused)?;
        let expr = Expr::DatePart { part, input: Box::new(days.expr) };
        return Ok(Value {
            expr,
            data_type: DataType::Int32,
            is_nullable: days.is_nullable,
            bounds: None,
            late: None,
        });
    }
    let DataType::Timestamp(unit, zone) = &input.data_type else { return Err(refused()) };
    let (length_ns, count) = time_part(&name).ok_or_else(refused)?;
    if !is_utc(zone.as_deref()) {
        return Err(refused());
    }
    let per_second = units_a_second(*unit);
    let unit_ns = 1_000_000_000 / per_second;
    // In the time unit of the input: units of the part, or parts of a unit.
    let whole = match length_ns >= unit_ns {
        true => divided(input.clone(), length_ns / unit_ns),
        false => times(modulo(input.clone(), 60 * per_second), unit_ns / length_ns).ok_or_else(refused)?,
    };
    let within = modulo(whole, count);
    let expr = Expr::Cast { input: Box::new(within.expr), to: Type::I32 };
    Ok(Value { expr, data_type: DataType::Int32, ..within })
}

/// Parts of a day's date.
fn day_part(name: &str) -> Option<DatePart> {
    match IntervalUnit::from_str(name) {
        Ok(IntervalUnit::Year) => return Some(DatePart::Year),
        Ok(IntervalUnit::Month) => return Some(DatePart::Month),
        Ok(IntervalUnit::Week) => return Some(DatePart::Week),
        Ok(IntervalUnit::Day) => return Some(DatePart::Day),
        _ => {}
    }
    match name {
        "isoyear" => Some(DatePart::IsoYear),
        "qtr" | "quarter" => Some(DatePart::Quarter),
        "doy" => Some(DatePart::DayOfYear),
        "dow" => Some(DatePart::DayOfWeek),
        "isodow" => Some(DatePart::IsoDayOfWeek),
        _ => None,
    }
}

/// Parts of a time of day: how long one is, nanoseconds, and how many there are before they begin anew.
fn time_part(name: &str) -> Option<(i64, i64)> {
    match IntervalUnit::from_str(name).ok()? {
        IntervalUnit::Hour => Some((3_600_000_000_000, 24)),
        IntervalUnit::Minute => Some((60_000_000_000, 60)),
        IntervalUnit::Second => Some((1_000_000_000, 60)),
        // With the seconds: 12.3 seconds have 12,300 milliseconds.
        IntervalUnit::Millisecond => Some((1_000_000, 60_000)),
        IntervalUnit::Microsecond => Some((1_000, 60_000_000)),
        _ => None,
    }
}

/// Seconds since 1970, with what is less than a second.
fn epoch(input: &Value) -> Option<Value> {
    let double = |op, by: f64| {
        let left = Box::new(Expr::Cast { input: Box::new(input.expr.clone()), to: Type::F64 });
        Expr::Arithmetic { op, left, right: Box::new(Expr::Literal(Literal::F64(by))) }
    };
    let expr = match &input.data_type {
        DataType::Date32 => double(ArithmeticOp::Multiply, SECONDS_A_DAY as f64),
        DataType::Timestamp(unit, _) => double(ArithmeticOp::Divide, units_a_second(*unit) as f64),
        _ => return None,
    };
    Some(Value {
        expr,
        data_type: DataType::Float64,
        is_nullable: input.is_nullable,
        bounds: None,
        late: None,
    })
}

/// `date_trunc(name, input)`.
///
/// # Errors
///
/// `Unsupported` for units and types that kernels do not have.
pub(super) fn trunc(name: &str, input: Value) -> Result<Value> {
    let data_type = input.data_type.clone();
    let refused = || Error::unsupported(format!("kernels do not truncate {data_type} to {name}"));
    let DataType::Timestamp(unit, zone) = &data_type else { return Err(refused()) };
    let (per_second, zone) = (units_a_second(*unit), zone.as_deref());
    let name = name.to_lowercase();
    let span = match name.as_str() {
        "microsecond" => per_second / 1_000_000,
        "millisecond" => per_second / 1_000,
        "second" => per_second,
        "minute" => per_second * 60,
        "hour" => per_second * 3_600,
        "day" => per_second * SECONDS_A_DAY,
        _ => 0,
    };
    let starts_by_zone = !matches!(name.as_str(), "microsecond" | "millisecond" | "second" | "minute");
    if starts_by_zone && !is_utc(zone) {
        return Err(refused());
    }
    let first_day = match name.as_str() {
        "week" => DateUnit::Week,
        "month" => DateUnit::Month,
        "quarter" => DateUnit::Quarter,
        "year" => DateUnit::Year,
        "microsecond" | "millisecond" | "second" | "minute" | "hour" | "day" => {
            if starts_by_zone && zone.is_some() {
                days_within(&input, NANOSECOND_DAYS)?.ok_or_else(refused)?;
            }
            // Of coarser timestamps nothing is cut off.
            return if span <= 1 { Ok(input) } else { times(divided(input, span), span).ok_or_else(refused) };
        }
        _ => return Err(refused()),
    };
    let days = days_within(&input, NANOSECOND_DAYS)?.ok_or_else(refused)?;
    let bounds = days.bounds.map(|bounds| Bounds { min: bounds.min - 365, max: bounds.max });
    let expr = Expr::DateTrunc { unit: first_day, input: Box::new(days.expr) };
    let first = wide(Value { expr, bounds, ..days });
    let truncated = times(first, per_second * SECONDS_A_DAY).ok_or_else(refused)?;
    Ok(Value { data_type: data_type.clone(), ..truncated })
}

/// A date, timestamp or duration as another of these types.
///
/// # Errors
///
/// `Unsupported` for casts that round towards zero, depend on a time zone or may fail on a value.
pub(super) fn cast(value: Value, to: &DataType) -> Result<Value> {
    let from = value.data_type.clone();
    let refused = || Error::unsupported(format!("kernels do not turn {from} into {to}"));
    match (&from, to) {
        (DataType::Timestamp(..), DataType::Date32) => days(&value)?.ok_or_else(refused),
        (DataType::Date32, DataType::Timestamp(unit, zone)) if is_utc(zone.as_deref()) => {
            let units = times(wide(value), units_a_second(*unit) * SECONDS_A_DAY).ok_or_else(refused)?;
            Ok(Value { data_type: to.clone(), ..units })
        }
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, same)) if zone == same => {
            let (from, into) = (units_a_second(*unit), units_a_second(*other));
            let is_never_negative = value.bounds.is_some_and(|bounds| bounds.min >= 0);
            let converted = match into >= from {
                true => times(value, into / from).ok_or_else(refused)?,
                false if is_never_negative => divided(value, from / into),
                false => return Err(refused()),
            };
            Ok(Value { data_type: to.clone(), ..converted })
        }
        _ => Err(refused()),
    }
}

/// A date or timestamp plus (`sign` 1) or minus (-1) an interval.
///
/// # Errors
///
/// `Unsupported` for what leaves the range that the CPU computes in, and for zones other than UTC.
pub(super) fn plus_interval(value: Value, interval: &ScalarValue, sign: i32) -> Result<Value> {
    let data_type = value.data_type.clone();
    let refused = || Error::unsupported(format!("kernels do not add {interval} to {data_type}"));
    let (months, day_count, nanoseconds) = match interval {
        ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0, 0),
        ScalarValue::IntervalDayTime(Some(time)) => (0, time.days, i64::from(time.milliseconds) * 1_000_000),
        ScalarValue::IntervalMonthDayNano(Some(all)) => (all.months, all.days, all.nanoseconds),
        _ => return Err(refused()),
    };
    let months = months.checked_mul(sign).ok_or_else(refused)?;
    let day_count = i64::from(day_count) * i64::from(sign);
    let units = match &data_type {
        DataType::Date32 if nanoseconds == 0 => 0,
        DataType::Timestamp(unit, zone) if is_utc(zone.as_deref()) => {
            let unit_ns = 1_000_000_000 / units_a_second(*unit);
            let is_whole = nanoseconds % unit_ns == 0;
            is_whole.then(|| nanoseconds / unit_ns * i64::from(sign)).ok_or_else(refused)?
        }
        _ => return Err(refused()),
    };
    let before = days_within(&value, CALENDAR)?.ok_or_else(refused)?;
    let later = plus(added_months(before, months), day_count, CALENDAR).ok_or_else(refused)?;
    let DataType::Timestamp(unit, _) = &data_type else {
        return Ok(Value { data_type, ..later });
    };
    let a_day = units_a_second(*unit) * SECONDS_A_DAY;
    let all = Bounds { min: i64::MIN.into(), max: i64::MAX.into() };
    let since_midnight = modulo(value, a_day);
    let sum = sum(times(wide(later), a_day).ok_or_else(refused)?, since_midnight).ok_or_else(refused)?;
    let sum = plus(sum, units, all).ok_or_else(refused)?;
    Ok(Value { data_type, ..sum })
}

/// The time from `right` to `left`, which the plan says is a `data_type`.
///
/// # Errors
///
/// `Unsupported` for other types than these, and where it might overflow.
pub(super) fn difference(left: Value, right: Value, data_type: &DataType) -> Result<Value> {
    let refused = || {
        let types = (&left.data_type, &right.data_type);
        Error::unsupported(format!("kernels do not compute the time from {} to {}", types.1, types.0))
    };
    let scale = match (&left.data_type, &right.data_type, data_type) {
        (DataType::Date32, DataType::Date32, DataType::Duration(TimeUnit::Second)) => SECONDS_A_DAY,
        (DataType::Timestamp(unit, _), DataType::Timestamp(same, _), DataType::Duration(result))
            if unit == same && same == result =>
        {
            1
        }
        _ => return Err(refused()),
    };
    let (one, other) = (wide(left.clone()), wide(right.clone()));
    let bounds = one.bounds.zip(other.bounds).ok_or_else(refused)?;
    let bounds = Bounds { min: bounds.0.min - bounds.1.max, max: bounds.0.max - bounds.1.min };
    let expr = Expr::Arithmetic {
        op: ArithmeticOp::Subtract,
        left: Box::new(one.expr),
        right: Box::new(other.expr),
    };
    let is_nullable = left.is_nullable || right.is_nullable;
    let difference =
        Value { expr, data_type: data_type.clone(), is_nullable, bounds: Some(bounds), late: None };
    times(difference, scale).ok_or_else(refused)
}

fn units_a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// True where days begin at midnight in UTC.
fn is_utc(zone: Option<&str>) -> bool {
    matches!(zone, None | Some("UTC" | "+00:00"))
}

/// The date of a date or timestamp; `None` for other types and zones.
fn days(value: &Value) -> Result<Option<Value>> {
    days_within(value, CALENDAR)
}

/// As [`days`], refused unless all of them are known to lie there.
fn days_within(value: &Value, range: Bounds) -> Result<Option<Value>> {
    let days = match &value.data_type {
        DataType::Date32 => value.clone(),
        DataType::Timestamp(unit, zone) if is_utc(zone.as_deref()) => {
            let whole = divided(value.clone(), units_a_second(*unit) * SECONDS_A_DAY);
            let expr = Expr::Cast { input: Box::new(whole.expr), to: Type::I32 };
            Value { expr, data_type: DataType::Date32, ..whole }
        }
        _ => return Ok(None),
    };
    let is_within = days.bounds.is_some_and(|bounds| range.min <= bounds.min && bounds.max <= range.max);
    match is_within {
        true => Ok(Some(days)),
        false => {
            let message = format!("some {} may lie beyond the years that are computed", value.data_type);
            Err(Error::unsupported(message))
        }
    }
}

fn divided(value: Value, by: i64) -> Value {
    let of = i128::from(by);
    let bounds =
        value.bounds.map(|bounds| Bounds { min: bounds.min.div_euclid(of), max: bounds.max.div_euclid(of) });
    Value { expr: Expr::FloorDivide { input: Box::new(value.expr), by }, bounds, ..value }
}

fn modulo(value: Value, by: i64) -> Value {
    let bounds = Some(Bounds { min: 0, max: i128::from(by) - 1 });
    Value { expr: Expr::Modulo { input: Box::new(value.expr), by }, bounds, ..value }
}

/// An `I64` value times `by`; `None` where that may overflow.
fn times(value: Value, by: i64) -> Option<Value> {
    let scaled = |number: i128| number.checked_mul(by.into()).filter(|number| i64::try_from(*number).is_ok());
    let bounds = value.bounds?;
    let bounds = Some(Bounds { min: scaled(bounds.min)?, max: scaled(bounds.max)? });
    if by == 1 {
        return Some(value);
    }
    let right = Box::new(Expr::Literal(Literal::I64(by)));
    let expr = Expr::Arithmetic { op: ArithmeticOp::Multiply, left: Box::new(value.expr), right };
    Some(Value { expr, bounds, ..value })
}

/// A value plus a constant, of the value's type; `None` where that may leave `range`.
fn plus(value: Value, number: i64, range: Bounds) -> Option<Value> {
    let bounds = value.bounds?;
    let bounds = Bounds { min: bounds.min + i128::from(number), max: bounds.max + i128::from(number) };
    if bounds.min < range.min || bounds.max > range.max {
        return None;
    }
    if number == 0 {
        return Some(value);
    }
    let right = match value.data_type {
        DataType::Date32 => Literal::I32(i32::try_from(number).ok()?),
        _ => Literal::I64(number),
    };
    let right = Box::new(Expr::Literal(right));
    let expr = Expr::Arithmetic { op: ArithmeticOp::Add, left: Box::new(value.expr), right };
    Some(Value { expr, bounds: Some(bounds), ..value })
}

/// Two `I64` values; `None` where the sum may overflow.
fn sum(left: Value, right: Value) -> Option<Value> {
    let (one, other) = (left.bounds?, right.bounds?);
    let bounds = Bounds { min: one.min + other.min, max: one.max + other.max };
    i64::try_from(bounds.min).ok().zip(i64::try_from(bounds.max).ok())?;
    let (one, other) = (Box::new(left.expr), Box::new(right.expr));
    let expr = Expr::Arithmetic { op: ArithmeticOp::Add, left: one, right: other };
    Some(Value { expr, bounds: Some(bounds), is_nullable: left.is_nullable || right.is_nullable, ..right })
}

/// A date so many months later; one has 28 to 31 days.
fn added_months(date: Value, months: i32) -> Value {
    if months == 0 {
        return date;
    }
    let (one, other) = (28 * i128::from(months), 31 * i128::from(months));
    let bounds = date
        .bounds
        .map(|bounds| Bounds { min: bounds.min + one.min(other), max: bounds.max + one.max(other) });
    Value { expr: Expr::AddMonths { input: Box::new(date.expr), months }, bounds, ..date }
}

/// A date's days in 64 bits.
fn wide(value: Value) -> Value {
    match value.data_type {
        DataType::Date32 => {
            let expr = Expr::Cast { input: Box::new(value.expr), to: Type::I64 };
            Value { expr, data_type: DataType::Int64, ..value }
        }
        _ => value,
    }
}
