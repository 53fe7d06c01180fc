//! Time zones: TIMESTAMPTZ is an instant in every session, and AT TIME ZONE goes from instants to wall clocks and back.
//!
//! ```text
//!   now(), TIMESTAMPTZ '…', CAST(… AS TIMESTAMPTZ)    instants, shown in the session's time zone, which is UTC unless SET
//!   instant AT TIME ZONE 'Asia/Tokyo'                 the wall clock there: a timestamp without a zone
//!   wall clock AT TIME ZONE 'Asia/Tokyo'              the instant that a clock there reads so
//!   SET TIME ZONE 'Europe/Berlin', RESET timezone     SET timezone = 'Europe/Berlin', SET timezone = 'UTC'
//! ```
//!
//! A DataFusion session has no time zone of its own, and what is an instant is then read as a wall clock. Its AT TIME ZONE is
//! a cast, which keeps instants and takes wall clocks for nothing else. Here it is `timezone(zone, timestamp)`, a function
//! that PostgreSQL and DuckDB have by this name.
//!
//! A wall clock is set back and forward once a year in many zones. What it reads twice is the later instant, and what it never
//! reads is counted from before the change, as in PostgreSQL and DuckDB. Offsets such as `+02:00` are east of Greenwich.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, new_null_array};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::common::plan_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName, Set, Value};
use pelton_error::{Error, Result};

use crate::error::to_datafusion;

/// The time zone of a session that has set none.
const UTC: &str = "UTC";

/// What the setting is called: by PostgreSQL, by MySQL, by DataFusion.
const SETTINGS: [&str; 3] = ["timezone", "time.zone", "datafusion.execution.time_zone"];

/// Seconds between a wall clock and the instants by which the offsets before and after it are looked up.
const DAY: i64 = 86_400;

/// How far from 1970 offsets are looked up: some 250 000 years, within what chrono's dates reach.
const SECONDS_MAX: i64 = 8_000_000_000_000;

/// Gives the session a time zone, and `timezone(zone, timestamp)`.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut config = builder.config().take().unwrap_or_default();
    config.options_mut().execution.time_zone.get_or_insert_with(|| UTC.to_owned());
    let function = ScalarUDF::from(Timezone::of(config.options()));
    builder.scalar_functions().get_or_insert_default().push(Arc::new(function));
    builder.with_config(config)
}

/// Writes what sets the time zone as the setting that DataFusion knows, with a zone that there is.
///
/// # Errors
///
/// Names a zone that there is not.
pub(crate) fn write_zone_settings(statement: &mut Statement) -> Result<()> {
    let value = match &*statement {
        Statement::Statement(inner) => match inner.as_ref() {
            ast::Statement::Set(Set::SetTimeZone { local: false, value }) => value.clone(),
            ast::Statement::Set(Set::SingleAssignment { scope: None, variable, values, .. })
                if is_zone(variable) && values.len() == 1 =>
            {
                values[0].clone()
            }
            _ => return Ok(()),
        },
        Statement::Reset(ResetStatement::Variable(variable)) if is_zone(variable) => text(UTC.to_owned()),
        _ => return Ok(()),
    };
    let zone = match &value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(zone) => known(zone),
            _ => None,
        },
        Expr::Identifier(word) if word.quote_style.is_none() && is_default(&word.value) => {
            Some(UTC.to_owned())
        }
        Expr::Identifier(word) => known(&word.value),
        _ => None,
    };
    let zone = zone.ok_or_else(|| unknown(value.to_string().trim_matches(['\'', '"'])))?;
    *statement = Statement::Statement(Box::new(ast::Statement::Set(Set::SingleAssignment {
        scope: None,
        hivevar: false,
        variable: ObjectName::from(vec![Ident::new(SETTINGS[0])]),
        values: vec![text(zone)],
    })));
    Ok(())
}

fn is_zone(variable: &ObjectName) -> bool {
    SETTINGS.iter().any(|setting| variable.to_string().eq_ignore_ascii_case(setting))
}

fn is_default(word: &str) -> bool {
    word.eq_ignore_ascii_case("default") || word.eq_ignore_ascii_case("local")
}

fn text(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}

fn unknown(zone: &str) -> Error {
    Error::invalid_input(format!(
        "unknown time zone '{zone}'; expected a name or an offset, as 'Europe/Berlin' or '+02:00'"
    ))
}

/// `zone` as it is spelled where zones are looked up: `europe/berlin` is `Europe/Berlin`, `utc` is `UTC`.
fn known(zone: &str) -> Option<String> {
    let mut starts = true;
    let capitalized = zone.chars().map(|char| {
        let written = if starts { char.to_ascii_uppercase() } else { char.to_ascii_lowercase() };
        starts = matches!(char, '/' | '_' | '-');
        written
    });
    let spellings = [zone.to_owned(), zone.to_ascii_uppercase(), capitalized.collect()];
    spellings.into_iter().find(|zone| zone.parse::<Tz>().is_ok())
}

/// `timezone(zone, timestamp)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Timezone {
    /// The session's time zone, which instants of the result are shown in.
    session: Arc<str>,
    signature: Signature,
}

impl Timezone {
    fn of(config: &ConfigOptions) -> Self {
        let session = config.execution.time_zone.as_deref().unwrap_or(UTC).into();
        Self { session, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Timezone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        Some(Self::of(config).into())
    }

    /// Dates and texts are instants, read in the session's time zone, as in PostgreSQL.
    fn coerce_types(&self, arg_types: &[DataType]) -> DataFusionResult<Vec<DataType>> {
        let [zone, timestamp] = arg_types else {
            return plan_err!("timezone takes a zone and a timestamp, not {} arguments", arg_types.len());
        };
        let is_text = |data_type: &DataType| {
            matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
        };
        if !is_text(zone) {
            return plan_err!(
                "AT TIME ZONE takes the name of a zone as text, as 'Europe/Berlin', not {zone}"
            );
        }
        let session = || Some(Arc::clone(&self.session));
        let timestamp = match timestamp {
            DataType::Timestamp(..) => timestamp.clone(),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, session()),
            other if is_text(other) => DataType::Timestamp(TimeUnit::Nanosecond, session()),
            other => return plan_err!("AT TIME ZONE takes a timestamp, not {other}"),
        };
        Ok(vec![DataType::Utf8, timestamp])
    }

    fn return_type(&self, arg_types: &[DataType]) -> DataFusionResult<DataType> {
        match arg_types {
            [_, DataType::Timestamp(unit, Some(_))] => Ok(DataType::Timestamp(*unit, None)),
            [_, DataType::Timestamp(unit, None)] => {
                Ok(DataType::Timestamp(*unit, Some(Arc::clone(&self.session))))
            }
            _ => plan_err!("timezone takes a zone and a timestamp"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), self.return_type(&types)?, is_nullable).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (zones, result) = (&args.args[0], args.return_field.data_type());
        let timestamps = args.args[1].to_array(rows)?;
        let found = match timestamps.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => {
                moved::<TimestampSecondType>(zones, &timestamps, result)?
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                moved::<TimestampMillisecondType>(zones, &timestamps, result)?
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                moved::<TimestampMicrosecondType>(zones, &timestamps, result)?
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                moved::<TimestampNanosecondType>(zones, &timestamps, result)?
            }
            // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
            _ => new_null_array(result, rows),
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?),
            false => ColumnarValue::Array(found),
        })
    }
}

/// `timestamps`, which are instants where they have a zone and else wall clocks in `zones`, as the other of the two, of type
/// `result`.
fn moved<T: ArrowTimestampType>(
    zones: &ColumnarValue,
    timestamps: &ArrayRef,
    result: &DataType,
) -> DataFusionResult<ArrayRef> {
    let are_instants = matches!(timestamps.data_type(), DataType::Timestamp(_, Some(_)));
    let timestamps = timestamps.as_primitive::<T>();
    let move_one = |zone: Tz, timestamp: i64| match are_instants {
        true => wall_clock(zone, timestamp, T::UNIT),
        false => instant(zone, timestamp, T::UNIT),
    };
    let mut found = PrimitiveArray::<T>::builder(timestamps.len());
    match zones {
        ColumnarValue::Scalar(zone) => {
            let zone = zone.try_as_str().flatten().map(zone_of).transpose()?;
            for timestamp in timestamps {
                let pair = zone.zip(timestamp);
                found.append_option(pair.map(|(zone, timestamp)| move_one(zone, timestamp)).transpose()?);
            }
        }
        ColumnarValue::Array(zones) => match zones.as_string_opt::<i32>() {
            Some(zones) => {
                for (zone, timestamp) in zones.iter().zip(timestamps) {
                    let pair = zone.zip(timestamp);
                    let moved = pair.map(|(zone, timestamp)| move_one(zone_of(zone)?, timestamp));
                    found.append_option(moved.transpose()?);
                }
            }
            None => found.append_nulls(timestamps.len()),
        },
    }
    let zone = match result {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    Ok(Arc::new(found.finish().with_timezone_opt(zone)))
}

/// # Errors
///
/// That there is no such zone.
pub(crate) fn zone_of(zone: &str) -> DataFusionResult<Tz> {
    known(zone).and_then(|zone| zone.parse().ok()).ok_or_else(|| to_datafusion(unknown(zone)))
}

/// What a clock in `zone` reads at `instant`; both count in `unit` from 1970.
fn wall_clock(zone: Tz, instant: i64, unit: TimeUnit) -> DataFusionResult<i64> {
    let per_second = per_second(unit);
    let offset = offset(zone, instant.div_euclid(per_second));
    let moved = offset.and_then(|offset| instant.checked_add(offset.checked_mul(per_second)?));
    moved.ok_or_else(out_of_range)
}

/// When a clock in `zone` reads `wall_clock`; both count in `unit` from 1970.
pub(crate) fn instant(zone: Tz, wall_clock: i64, unit: TimeUnit) -> DataFusionResult<i64> {
    let per_second = per_second(unit);
    let seconds = wall_clock.div_euclid(per_second);
    let offset_of_clock = || {
        // No zone changes its offset twice in two days.
        let (before, after) =
            (offset(zone, seconds.saturating_sub(DAY))?, offset(zone, seconds.saturating_add(DAY))?);
        Some(if offset(zone, seconds - after)? == after { after } else { before })
    };
    let moved = offset_of_clock().and_then(|offset| wall_clock.checked_sub(offset.checked_mul(per_second)?));
    moved.ok_or_else(out_of_range)
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Seconds by which clocks in `zone` are ahead of UTC `seconds` after 1970 began; `None` further away than dates reach.
fn offset(zone: Tz, seconds: i64) -> Option<i64> {
    if !(-SECONDS_MAX..=SECONDS_MAX).contains(&seconds) {
        return None;
    }
    let instant = as_datetime_with_timezone::<TimestampSecondType>(seconds, zone)?;
    Some(instant.naive_local().and_utc().timestamp() - instant.timestamp())
}

fn out_of_range() -> DataFusionError {
    to_datafusion(Error::invalid_input("AT TIME ZONE gives a timestamp that its type cannot hold"))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{StringArray, TimestampMicrosecondArray, TimestampSecondArray};

    use super::*;
    use crate::parse;

    fn berlin() -> Tz {
        "Europe/Berlin".parse().unwrap()
    }

    /// Seconds from 1970 to 00:00 on 2024-03-31, when clocks in Berlin are set from 02:00 to 03:00.
    const SPRING: i64 = 1_711_843_200;
    /// Seconds from 1970 to 00:00 on 2024-10-27, when clocks in Berlin are set from 03:00 to 02:00.
    const AUTUMN: i64 = 1_729_987_200;
    const HOUR: i64 = 3_600;

    #[test]
    fn wall_clocks_and_instants_are_each_the_other_of_the_other() {
        for (day, hours) in [(SPRING, [-30, 0, 1, 4, 30]), (AUTUMN, [-30, 0, 1, 4, 30])] {
            for hour in hours {
                let clock = day + hour * HOUR;
                let found = instant(berlin(), clock, TimeUnit::Second).unwrap();
                assert_eq!(wall_clock(berlin(), found, TimeUnit::Second).unwrap(), clock, "hour {hour}");
            }
        }
        let nanoseconds = -1_500_000_001;
        let found = instant(berlin(), nanoseconds, TimeUnit::Nanosecond).unwrap();
        assert_eq!(found, nanoseconds - HOUR * 1_000_000_000);
        assert_eq!(wall_clock(berlin(), found, TimeUnit::Nanosecond).unwrap(), nanoseconds);
    }

    #[test]
    fn a_clock_that_is_set_reads_the_later_instant_or_counts_on_from_before() {
        let half_past_two = 2 * HOUR + HOUR / 2;
        let found = instant(berlin(), AUTUMN + half_past_two, TimeUnit::Second).unwrap();
        assert_eq!(found, AUTUMN + half_past_two - HOUR);
        let found = instant(berlin(), SPRING + half_past_two, TimeUnit::Second).unwrap();
        assert_eq!(found, SPRING + half_past_two - HOUR);
        assert_eq!(wall_clock(berlin(), found, TimeUnit::Second).unwrap(), SPRING + half_past_two + HOUR);
    }

    #[test]
    fn what_no_type_holds_is_refused() {
        assert!(wall_clock(berlin(), i64::MAX, TimeUnit::Nanosecond).is_err());
        assert!(instant(berlin(), i64::MAX, TimeUnit::Second).is_err());
        assert!(instant(berlin(), i64::MIN, TimeUnit::Second).is_err());
    }

    #[test]
    fn each_row_may_have_a_zone_of_its_own() {
        let zones = StringArray::from(vec![Some("UTC"), Some("Asia/Tokyo"), None, Some("+02:00")]);
        let zones = ColumnarValue::Array(Arc::new(zones));
        let clocks: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, 0, 0, 0]));
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
        let found = moved::<TimestampMicrosecondType>(&zones, &clocks, &utc).unwrap();
        assert_eq!(found.data_type(), &utc);
        let found: Vec<_> = found.as_primitive::<TimestampMicrosecondType>().iter().collect();
        assert_eq!(found, [Some(0), Some(-9 * HOUR * 1_000_000), None, Some(-2 * HOUR * 1_000_000)]);
        let zone = ColumnarValue::Scalar(ScalarValue::Utf8(Some("nowhere".to_owned())));
        let clocks: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
        let error = moved::<TimestampSecondType>(&zone, &clocks, &utc).unwrap_err().to_string();
        assert!(error.contains("unknown time zone 'nowhere'"), "{error}");
    }

    #[test]
    fn zones_are_found_in_capitals_and_without() {
        for (zone, expected) in [
            ("utc", Some("UTC")),
            ("europe/berlin", Some("Europe/Berlin")),
            ("AMERICA/NEW_YORK", Some("America/New_York")),
            ("+02", Some("+02")),
            ("", None),
            ("Nonsense/Zone", None),
        ] {
            assert_eq!(known(zone).as_deref(), expected, "{zone}");
        }
    }

    #[test]
    fn every_way_to_set_a_zone_is_one_setting() {
        for (sql, zone) in [
            ("SET TIME ZONE 'Europe/Berlin'", "Europe/Berlin"),
            ("SET TIME ZONE LOCAL", "UTC"),
            ("SET TIME ZONE default", "UTC"),
            ("SET timezone = 'europe/berlin'", "Europe/Berlin"),
            ("SET TimeZone TO 'UTC'", "UTC"),
            ("SET datafusion.execution.time_zone = '+02:00'", "+02:00"),
            ("RESET timezone", "UTC"),
            ("RESET datafusion.execution.time_zone", "UTC"),
        ] {
            assert_eq!(parse(sql).unwrap()[0].to_string(), format!("SET timezone = '{zone}'"), "{sql}");
        }
        let error = parse("SET timezone = 'Nonsense/Zone'").unwrap_err().to_string();
        assert!(error.contains("unknown time zone 'Nonsense/Zone'"), "{error}");
        assert!(parse("SET TIME ZONE INTERVAL '2 hours'").is_err());
        let other = "SET datafusion.execution.batch_size = 10";
        assert_eq!(parse(other).unwrap()[0].to_string(), other);
    }
}
