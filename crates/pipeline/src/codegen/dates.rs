//! Dates, days since 1970-01-01, in the proleptic Gregorian calendar.

use pelton_error::{Error, Result};

use super::block::Block;
use super::value::{Value, type_bounds, within};
use crate::ir::{Bounds, DatePart, DateUnit, Type};

/// A part of a date.
pub(super) fn part(part: DatePart, input: &Value, block: &mut Block) -> Value {
    let (function, bounds) = match part {
        DatePart::Year => ("civil_date({}).year", years(input)),
        DatePart::IsoYear => ("civil_date(iso_thursday({})).year", years(input)),
        DatePart::Quarter => ("(civil_date({}).month + 2) / 3", between(1, 4)),
        DatePart::Month => ("civil_date({}).month", between(1, 12)),
        DatePart::Week => ("iso_week({})", between(1, 53)),
        DatePart::Day => ("civil_date({}).day", between(1, 31)),
        DatePart::DayOfYear => ("day_of_year({})", between(1, 366)),
        DatePart::DayOfWeek => ("days_after_monday({} + 1ll)", between(0, 6)),
        DatePart::IsoDayOfWeek => ("days_after_monday({}) + 1", between(1, 7)),
    };
    let code = block.define("i32", "i", function.replace("{}", &input.code));
    Value::new(code, Type::I32, bounds).with_valid(input.valid.clone())
}

fn between(min: i128, max: i128) -> Option<Bounds> {
    Some(Bounds { min, max })
}

/// A year has at least 365 days: generous by one on both sides.
fn years(input: &Value) -> Option<Bounds> {
    input.bounds.map(|bounds| Bounds {
        min: 1970 + bounds.min.div_euclid(365).min(bounds.min.div_euclid(366)) - 1,
        max: 1970 + bounds.max.div_euclid(365).max(bounds.max.div_euclid(366)) + 1,
    })
}

/// The first day of its week, month, quarter or year.
pub(super) fn trunc(unit: DateUnit, input: &Value, block: &mut Block) -> Value {
    let (function, days) = match unit {
        DateUnit::Week => ("{} - days_after_monday({})", 6),
        DateUnit::Month => ("{} - (civil_date({}).day - 1)", 30),
        DateUnit::Quarter => ("first_of_quarter({})", 91),
        DateUnit::Year => ("{} - (day_of_year({}) - 1)", 365),
    };
    let bounds = input.bounds.map(|bounds| Bounds { min: bounds.min - days, max: bounds.max });
    let code = block.define("i32", "i", function.replace("{}", &input.code));
    Value::new(code, Type::I32, bounds).with_valid(input.valid.clone())
}

/// So many months later; a month has 28 to 31 days.
pub(super) fn add_months(input: &Value, months: i32, block: &mut Block) -> Result<Value> {
    let (one, other) = (28 * i128::from(months), 31 * i128::from(months));
    let bounds = input
        .bounds
        .map(|bounds| Bounds { min: bounds.min + one.min(other), max: bounds.max + one.max(other) })
        .filter(|bounds| type_bounds(Type::I32).is_some_and(|all| within(*bounds, all)))
        .ok_or_else(|| Error::unsupported("dates beyond the calendar"))?;
    let code = block.define("i32", "i", format!("add_months({}, {months})", input.code));
    Ok(Value::new(code, Type::I32, Some(bounds)).with_valid(input.valid.clone()))
}
