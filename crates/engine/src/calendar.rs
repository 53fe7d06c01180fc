//! Functions of dates and timestamps that PostgreSQL and DuckDB have and DataFusion 55 does not.
//!
//! ```text
//!   age(a, b)                    the months, days and time of day from b to a
//!   truncate_to_years(100, a)    when the century of a began: date_trunc('century', a), written so by spellings.rs
//! ```
//!
//! Both give microseconds, whatever digits a timestamp has: what began in 1001 is too long ago to be counted in nanoseconds.
//! Timestamps with a time zone are read as clocks show them there.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, IntervalMonthDayNanoArray, TimestampMicrosecondArray,
    new_null_array,
};
use datafusion::arrow::compute::{DatePart, date_part};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int32Type, IntervalMonthDayNano, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::zones::{instant, zone_of};

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Microseconds.
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Days from the first of year 1 to 1970.
const DAYS_TO_1970: i64 = 719_162;

/// Adds the functions to the session.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let signature = Signature::user_defined(Volatility::Immutable);
    let functions = [
        ScalarUDF::from(Age { signature: signature.clone() }),
        ScalarUDF::from(TruncateToYears { signature }),
    ];
    builder.scalar_functions().get_or_insert_default().extend(functions.map(Arc::new));
    builder
}

/// The type that `function` reads a date or timestamp as.
fn microseconds(function: &str, data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Timestamp(_, zone) => Ok(DataType::Timestamp(TimeUnit::Microsecond, zone.clone())),
        DataType::Date32
        | DataType::Date64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Null => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
        other => plan_err!("{function} takes dates and timestamps, not {other}"),
    }
}

/// `age(a, b)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Age {
    signature: Signature,
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &str {
        "age"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        if arg_types.len() != 2 {
            return plan_err!("age takes one or two timestamps, not {}", arg_types.len());
        }
        arg_types.iter().map(|data_type| microseconds(self.name(), data_type)).collect()
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), INTERVAL, is_nullable).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let (to, from) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
        if [&to, &from].iter().any(|timestamps| timestamps.logical_null_count() == rows) {
            return Ok(ColumnarValue::Array(new_null_array(&INTERVAL, rows)));
        }
        let (to, from) = (Clocks::of(&to)?, Clocks::of(&from)?);
        let ages = (0..rows).map(|row| Some(age(to.at(row)?, from.at(row)?)));
        Ok(ColumnarValue::Array(Arc::new(ages.collect::<IntervalMonthDayNanoArray>())))
    }
}

/// What clocks show at timestamps.
struct Clocks {
    timestamps: TimestampMicrosecondArray,
    years: Int32Array,
    months: Int32Array,
    days: Int32Array,
    hours: Int32Array,
    minutes: Int32Array,
    seconds: Int32Array,
}

impl Clocks {
    fn of(timestamps: &ArrayRef) -> Result<Self> {
        let part = |part| -> Result<Int32Array> {
            Ok(date_part(timestamps.as_ref(), part)?.as_primitive::<Int32Type>().clone())
        };
        Ok(Self {
            timestamps: timestamps.as_primitive::<TimestampMicrosecondType>().clone(),
            years: part(DatePart::Year)?,
            months: part(DatePart::Month)?,
            days: part(DatePart::Day)?,
            hours: part(DatePart::Hour)?,
            minutes: part(DatePart::Minute)?,
            seconds: part(DatePart::Second)?,
        })
    }

    /// `None` for NULL, and for what is too far away for a date.
    fn at(&self, row: usize) -> Option<Clock> {
        if self.years.is_null(row) {
            return None;
        }
        let [hour, minute, second] =
            [&self.hours, &self.minutes, &self.seconds].map(|part| i64::from(part.value(row)));
        let whole = (hour * 60 + minute) * 60 + second;
        Some(Clock {
            year: self.years.value(row),
            month: self.months.value(row),
            day: self.days.value(row),
            // Zones are whole seconds away from each other.
            microseconds: whole * SECOND + self.timestamps.value(row).rem_euclid(SECOND),
        })
    }
}

/// A date and the microseconds of its day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Clock {
    year: i32,
    month: i32,
    day: i32,
    microseconds: i64,
}

/// From `from` to `to`, which may be the earlier of the two. Days that do not make a month are counted by the length of the month
/// that the earlier one is in, as PostgreSQL does.
fn age(to: Clock, from: Clock) -> IntervalMonthDayNano {
    let (earlier, later) = (to.min(from), to.max(from));
    let mut months = (later.year - earlier.year) * 12 + later.month - earlier.month;
    let mut days = later.day - earlier.day;
    let mut microseconds = later.microseconds - earlier.microseconds;
    if microseconds < 0 {
        microseconds += DAY;
        days -= 1;
    }
    if days < 0 {
        days += days_of_month(earlier.year, earlier.month);
        months -= 1;
    }
    let sign = if to < from { -1 } else { 1 };
    IntervalMonthDayNano {
        months: sign * months,
        days: sign * days,
        nanoseconds: i64::from(sign) * microseconds * 1_000,
    }
}

fn days_of_month(year: i32, month: i32) -> i32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `truncate_to_years(years, a)`, where `years` is 10, 100 or 1000.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TruncateToYears {
    signature: Signature,
}

impl ScalarUDFImpl for TruncateToYears {
    fn name(&self) -> &str {
        "truncate_to_years"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, timestamp] = arg_types else {
            return plan_err!("truncate_to_years takes years and a timestamp");
        };
        let function = "date_trunc of decades, centuries and millennia";
        Ok(vec![DataType::Int64, microseconds(function, timestamp)?])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, timestamp @ DataType::Timestamp(..)] => Ok(timestamp.clone()),
            _ => plan_err!("truncate_to_years takes years and a timestamp"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), self.return_type(&types)?, is_nullable).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(ScalarValue::Int64(Some(period @ 1..))) = &args.args[0] else {
            return exec_err!("truncate_to_years takes a constant number of years");
        };
        let timestamps = args.args[1].to_array(args.number_rows)?;
        let DataType::Timestamp(TimeUnit::Microsecond, zone) = timestamps.data_type() else {
            // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
            let nulls = new_null_array(args.return_field.data_type(), timestamps.len());
            return Ok(ColumnarValue::Array(nulls));
        };
        let in_zone = zone.as_deref().map(zone_of).transpose()?;
        let begin_of = |year: i32| {
            let clock = days_to_year(first_year(i64::from(year), *period)) * DAY;
            in_zone.map_or(Ok(clock), |zone| instant(zone, clock, TimeUnit::Microsecond))
        };
        let years = date_part(timestamps.as_ref(), DatePart::Year)?;
        let begins = years.as_primitive::<Int32Type>().iter().map(|year| year.map(begin_of).transpose());
        let begins: TimestampMicrosecondArray = begins.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(Arc::new(begins.with_timezone_opt(zone.clone()))))
    }
}

/// The first year of the decade, century or millennium of `year`: 2020 or 2001. 1 BC is year 0.
fn first_year(year: i64, period: i64) -> i64 {
    let first = if period == 10 { 0 } else { 1 };
    (year - first).div_euclid(period) * period + first
}

/// Days from 1970 to the first of `year`.
fn days_to_year(year: i64) -> i64 {
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    before * 365 + leap_days - DAYS_TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(year: i32, month: i32, day: i32, hour: i64) -> Clock {
        Clock { year, month, day, microseconds: hour * 3_600 * SECOND }
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn ages_are_months_days_and_a_time() {
        const HOUR: i64 = 3_600_000_000_000;
        for (to, from, expected) in [
            (clock(2001, 4, 10, 0), clock(1957, 6, 13, 0), (525, 27, 0)),
            (clock(2024, 3, 1, 0), clock(2024, 1, 31, 12), (1, 0, 12 * HOUR)),
            (clock(2024, 1, 31, 12), clock(2024, 3, 1, 0), (-1, 0, -12 * HOUR)),
            (clock(2024, 3, 1, 0), clock(2024, 2, 29, 0), (0, 1, 0)),
            (clock(2024, 3, 30, 6), clock(2024, 2, 29, 12), (1, 0, 18 * HOUR)),
            (clock(2023, 3, 1, 0), clock(2023, 2, 28, 1), (0, 0, 23 * HOUR)),
            (clock(2024, 1, 1, 0), clock(1, 1, 1, 0), (2023 * 12, 0, 0)),
            (clock(2024, 1, 1, 5), clock(2024, 1, 1, 5), (0, 0, 0)),
        ] {
            let (months, days, nanoseconds) = expected;
            assert_eq!(age(to, from), IntervalMonthDayNano { months, days, nanoseconds }, "{to:?} {from:?}");
        }
    }

    #[test]
    fn periods_begin_with_the_year_that_their_number_says() {
        for (year, decade, century, millennium) in [
            (2024, 2020, 2001, 2001),
            (2000, 2000, 1901, 1001),
            (2001, 2000, 2001, 2001),
            (9, 0, 1, 1),
            (0, 0, -99, -999),
            (-1, -10, -99, -999),
        ] {
            let found = [10, 100, 1000].map(|period| first_year(year, period));
            assert_eq!(found, [decade, century, millennium], "{year}");
        }
    }

    #[test]
    fn years_begin_on_days_from_1970() {
        let known = [(1970, 0), (1971, 365), (1973, 1_096), (2000, 10_957), (1, -719_162), (0, -719_528)];
        for (year, days) in known {
            assert_eq!(days_to_year(year), days, "{year}");
        }
    }
}
