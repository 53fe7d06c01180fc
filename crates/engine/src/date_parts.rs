//! `extract` and `date_part` where DataFusion 55 gives something else than PostgreSQL, or nothing.
//!
//! ```text
//!   extract(hour FROM b - a)           interval_part(b - a): a difference of timestamps is days and a time of day
//!   extract(second FROM interval)      interval_part(interval)
//!   extract(epoch FROM interval)       likewise: years have 365.25 days, months that make no year 30
//!   extract(century FROM day)          (extract(year FROM day) + 99) / 100
//! ```
//!
//! DataFusion counts all hours of a difference of timestamps, and leaves fractions of seconds out where the nanoseconds of a
//! minute, or of a whole difference, are too many for 32 bits. Years of an interval's `epoch` have 360 days there.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit as Unit;
use datafusion::arrow::datatypes::{
    DataType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Field, FieldRef, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::simplify::map_expressions;

/// Nanoseconds.
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// As PostgreSQL counts the seconds of an interval.
const MONTH: i64 = 30 * DAY;
const YEAR: i64 = 365 * DAY + 6 * HOUR;

/// Takes parts of dates and intervals as PostgreSQL does. It runs after types are coerced.
#[derive(Debug)]
pub(crate) struct DateParts;

impl AnalyzerRule for DateParts {
    fn name(&self) -> &str {
        "pelton_date_parts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            if !plan.expressions().iter().any(has_part) {
                return Ok(Transformed::no(plan));
            }
            let schema = merge_schema(&plan.inputs());
            map_expressions(plan, &|expr| expr.transform_up(|expr| of_part(expr, &schema)))
        });
        Ok(rewritten?.data)
    }
}

fn has_part(expr: &Expr) -> bool {
    let is_part = |expr: &Expr| matches!(expr, Expr::ScalarFunction(call) if call.name() == "date_part");
    expr.exists(|expr| Ok(is_part(expr))).unwrap_or(true)
}

fn of_part(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
    let [Expr::Literal(part, _), value] = &call.args[..] else { return Ok(Transformed::no(expr)) };
    let part = part.try_as_str().flatten().and_then(Part::of);
    let Some(part) = part.filter(|_| call.name() == "date_part") else { return Ok(Transformed::no(expr)) };
    let Ok(data_type) = value.get_type(schema) else { return Ok(Transformed::no(expr)) };
    Ok(match (data_type, part) {
        (DataType::Duration(_) | DataType::Interval(_), part) => {
            Transformed::yes(ScalarUDF::from(IntervalPart::new(part)).call(vec![value.clone()]))
        }
        (_, Part::Years(years)) => {
            let args = vec![lit("year"), value.clone()];
            let year = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args));
            Transformed::yes(number_of(year, years)?)
        }
        _ => Transformed::no(expr),
    })
}

/// The number of the decade, century or millennium of `year`, which counts 1 BC as 0. There is no century 0.
fn number_of(year: Expr, years: i32) -> Result<Expr> {
    let (first, after, before) = if years == 10 { (0, 0, 9) } else { (1, years - 1, years) };
    let since = (year.clone() + lit(after)) / lit(years);
    when(year.clone().gt_eq(lit(first)), since).otherwise((year - lit(before)) / lit(years))
}

/// What is taken of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    /// Decades, centuries and millennia, by the years in one.
    Years(i32),
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    /// All seconds, with their fraction.
    Epoch,
}

impl Part {
    /// The part of that name; `None` for what an interval does not have.
    fn of(name: &str) -> Option<Self> {
        let name = name.trim_matches(['\'', '"']);
        Some(match name.parse() {
            Ok(Unit::Century) => Self::Years(100),
            Ok(Unit::Decade) => Self::Years(10),
            Ok(Unit::Year) => Self::Year,
            Ok(Unit::Month) => Self::Month,
            Ok(Unit::Week) => Self::Week,
            Ok(Unit::Day) => Self::Day,
            Ok(Unit::Hour) => Self::Hour,
            Ok(Unit::Minute) => Self::Minute,
            Ok(Unit::Second) => Self::Second,
            Ok(Unit::Millisecond) => Self::Millisecond,
            Ok(Unit::Microsecond) => Self::Microsecond,
            Ok(Unit::Nanosecond) => Self::Nanosecond,
            Err(_) if matches!(name.to_lowercase().as_str(), "millennium" | "millenniums" | "millennia") => {
                Self::Years(1000)
            }
            Err(_) if matches!(name.to_lowercase().as_str(), "quarter" | "qtr") => Self::Quarter,
            Err(_) if name.eq_ignore_ascii_case("epoch") => Self::Epoch,
            Err(_) => return None,
        })
    }

    /// As `date_part` gives it.
    fn data_type(self) -> DataType {
        match self {
            Self::Nanosecond => DataType::Int64,
            Self::Epoch => DataType::Float64,
            _ => DataType::Int32,
        }
    }

    fn of_interval(self, interval: IntervalMonthDayNano) -> i64 {
        let (months, days, nanoseconds) =
            (i64::from(interval.months), i64::from(interval.days), interval.nanoseconds);
        match self {
            Self::Years(years) => months / 12 / i64::from(years),
            Self::Year => months / 12,
            Self::Quarter => months % 12 / 3 + 1,
            Self::Month => months % 12,
            Self::Week => days / 7,
            Self::Day => days,
            Self::Hour => nanoseconds / HOUR,
            Self::Minute => nanoseconds % HOUR / MINUTE,
            Self::Second => nanoseconds % MINUTE / SECOND,
            Self::Millisecond => nanoseconds % MINUTE / (SECOND / 1_000),
            Self::Microsecond => nanoseconds % MINUTE / (SECOND / 1_000_000),
            Self::Nanosecond => nanoseconds % MINUTE,
            Self::Epoch => unreachable!("seconds have a fraction"),
        }
    }
}

/// `interval_part(x)`: one part of an interval or a duration.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalPart {
    part: Part,
    signature: Signature,
}

impl IntervalPart {
    fn new(part: Part) -> Self {
        Self { part, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IntervalPart {
    fn name(&self) -> &str {
        "interval_part"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.part.data_type())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), self.part.data_type(), is_nullable).into())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.swap_remove(0) {
            ColumnarValue::Array(intervals) => Ok(ColumnarValue::Array(parts(&intervals, self.part)?)),
            ColumnarValue::Scalar(interval) => {
                let part = ScalarValue::try_from_array(&parts(&interval.to_array()?, self.part)?, 0)?;
                Ok(ColumnarValue::Scalar(part))
            }
        }
    }
}

fn parts(intervals: &ArrayRef, part: Part) -> Result<ArrayRef> {
    // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
    if intervals.logical_null_count() == intervals.len() {
        return Ok(new_null_array(&part.data_type(), intervals.len()));
    }
    let intervals = days_and_times(intervals)?;
    if part == Part::Epoch {
        return Ok(Arc::new(intervals.unary::<_, Float64Type>(seconds)));
    }
    let found = intervals.iter().map(|interval| interval.map(|interval| part.of_interval(interval)));
    if part == Part::Nanosecond {
        return Ok(Arc::new(found.collect::<Int64Array>()));
    }
    // All others fit.
    let found = found.map(|part| part.and_then(|part| i32::try_from(part).ok()));
    Ok(Arc::new(found.collect::<Int32Array>()))
}

/// All seconds of years, months, days and times.
fn seconds(interval: IntervalMonthDayNano) -> f64 {
    let lengths = [(interval.months / 12, YEAR), (interval.months % 12, MONTH), (interval.days, DAY)];
    let whole: i128 = lengths.iter().map(|&(count, length)| i128::from(count) * i128::from(length)).sum();
    (whole + i128::from(interval.nanoseconds)) as f64 / SECOND as f64
}

/// `intervals` in months, days and nanoseconds; durations in days of 24 hours and what is left, which has the same sign.
pub(crate) fn days_and_times(intervals: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    Ok(match intervals.data_type() {
        DataType::Duration(TimeUnit::Second) => split::<DurationSecondType>(intervals, SECOND),
        DataType::Duration(TimeUnit::Millisecond) => {
            split::<DurationMillisecondType>(intervals, SECOND / 1_000)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            split::<DurationMicrosecondType>(intervals, SECOND / 1_000_000)
        }
        DataType::Duration(TimeUnit::Nanosecond) => split::<DurationNanosecondType>(intervals, 1),
        _ => {
            let intervals = cast(intervals, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            intervals.as_primitive::<IntervalMonthDayNanoType>().clone()
        }
    })
}

/// Durations in units of so many nanoseconds.
fn split<T: ArrowPrimitiveType<Native = i64>>(intervals: &ArrayRef, unit: i64) -> IntervalMonthDayNanoArray {
    let day = DAY / unit;
    intervals.as_primitive::<T>().unary(|count| IntervalMonthDayNano {
        months: 0,
        days: (count / day) as i32, // of timestamps: at most 64 bits of microseconds
        nanoseconds: count % day * unit,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DurationMicrosecondArray, DurationSecondArray, NullArray};

    use super::*;

    fn check(intervals: impl Array + 'static, part: Part, expected: &[Option<i64>]) {
        let found = parts(&(Arc::new(intervals) as ArrayRef), part).unwrap();
        assert_eq!(found.data_type(), &part.data_type());
        let found = cast(&found, &DataType::Int64).unwrap();
        let found: Vec<Option<i64>> =
            found.as_primitive::<datafusion::arrow::datatypes::Int64Type>().iter().collect();
        assert_eq!(found, expected, "{part:?}");
    }

    #[test]
    fn durations_are_days_and_a_time_of_day() {
        let seconds = |count: i64| DurationSecondArray::from(vec![Some(count), Some(-count), None]);
        let (days, hours) = (9 * 86_400, 12 * 3_600);
        for (part, expected) in [
            (Part::Day, 9),
            (Part::Hour, 12),
            (Part::Minute, 34),
            (Part::Second, 56),
            (Part::Millisecond, 56_000),
            (Part::Nanosecond, 56_000_000_000),
            (Part::Week, 1),
            (Part::Month, 0),
        ] {
            let intervals = seconds(days + hours + 34 * 60 + 56);
            check(intervals, part, &[Some(expected), Some(-expected), None]);
        }
    }

    #[test]
    fn long_durations_do_not_overflow() {
        let years = 8_000 * 365 * 86_400 * 1_000_000;
        let intervals = DurationMicrosecondArray::from(vec![years + 1_500_000]);
        check(intervals.clone(), Part::Day, &[Some(8_000 * 365)]);
        check(intervals, Part::Microsecond, &[Some(1_500_000)]);
    }

    #[test]
    fn all_seconds_of_a_duration_keep_their_fraction() {
        let intervals = DurationMicrosecondArray::from(vec![Some(822_896_500_000), Some(-1_500_000), None]);
        let found = parts(&(Arc::new(intervals) as ArrayRef), Part::Epoch).unwrap();
        let found: Vec<Option<f64>> = found.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(found, [Some(822_896.5), Some(-1.5), None]);
    }

    #[test]
    fn years_of_intervals_have_a_quarter_of_a_day_more() {
        let interval = |months| {
            IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano { months, days: 3, nanoseconds: 0 }])
        };
        check(interval(25), Part::Epoch, &[Some(65_966_400)]);
        check(interval(-12), Part::Epoch, &[Some(3 * 86_400 - 31_557_600)]);
    }

    #[test]
    fn intervals_keep_their_months_and_hours() {
        let interval = |months, days, nanoseconds| {
            IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano { months, days, nanoseconds }])
        };
        check(interval(0, 1, 36 * HOUR), Part::Hour, &[Some(36)]);
        check(interval(0, 0, 5 * SECOND + SECOND / 2), Part::Millisecond, &[Some(5_500)]);
        check(interval(1_211, 0, 0), Part::Years(100), &[Some(1)]);
        check(interval(1_211, 0, 0), Part::Years(10), &[Some(10)]);
        check(interval(1_211, 0, 0), Part::Quarter, &[Some(4)]);
    }

    #[test]
    fn nulls_of_any_type_have_no_parts() {
        check(NullArray::new(2), Part::Hour, &[None, None]);
    }
}
