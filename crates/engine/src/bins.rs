//! `date_bin` of timestamps that a number of nanoseconds does not reach, before 1677 and after 2262.
//!
//! ```text
//!   date_bin(INTERVAL '1 day', CAST('3000-01-01 12:34' AS TIMESTAMP(6)))     3000-01-01T00:00:00
//! ```
//!
//! DataFusion 55 counts all timestamps in nanoseconds and gives NULL where there are too many. Here bins of days and times are
//! computed in numbers of 128 bits where that has happened; those of months are an error. All else is DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::scalar::ScalarValue;

/// Nanoseconds.
const DAY: i128 = 86_400 * 1_000_000_000;

/// Puts it in the place of DataFusion's.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    for function in builder.scalar_functions().iter_mut().flatten() {
        if function.name() == "date_bin" {
            *function = Arc::new(ScalarUDF::from(DateBin { theirs: Arc::clone(function) }));
        }
    }
    builder
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateBin {
    /// DataFusion's.
    theirs: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.theirs.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let call = args.args.clone();
        let found = self.theirs.invoke_with_args(args)?;
        let (DataType::Timestamp(unit, zone), false) = (call[1].data_type(), is_null(&call[0])) else {
            return Ok(found);
        };
        let bins = match (&found, &call[1]) {
            (ColumnarValue::Scalar(bin), ColumnarValue::Scalar(source)) => {
                if bin.is_null() == source.is_null() {
                    return Ok(found);
                }
                source.to_array()?
            }
            (ColumnarValue::Array(bins), ColumnarValue::Array(source)) => {
                if bins.null_count() == source.null_count() {
                    return Ok(found);
                }
                Arc::clone(source)
            }
            _ => return Ok(found),
        };
        let (stride, origin) = (stride(&call[0])?, call.get(2).map_or(0, origin));
        let bins = match unit {
            TimeUnit::Second => far_bins::<TimestampSecondType>(&bins, stride, origin, zone)?,
            TimeUnit::Millisecond => far_bins::<TimestampMillisecondType>(&bins, stride, origin, zone)?,
            TimeUnit::Microsecond => far_bins::<TimestampMicrosecondType>(&bins, stride, origin, zone)?,
            TimeUnit::Nanosecond => far_bins::<TimestampNanosecondType>(&bins, stride, origin, zone)?,
        };
        Ok(match found {
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&bins, 0)?),
            ColumnarValue::Array(_) => ColumnarValue::Array(bins),
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.theirs.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

fn is_null(value: &ColumnarValue) -> bool {
    matches!(value, ColumnarValue::Scalar(value) if value.is_null())
}

/// The nanoseconds of a bin.
///
/// # Errors
///
/// That it is one of months, or none that goes on.
fn stride(stride: &ColumnarValue) -> Result<i128> {
    let nanoseconds = match stride {
        ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(stride))) if stride.months == 0 => {
            i128::from(stride.days) * DAY + i128::from(stride.nanoseconds)
        }
        ColumnarValue::Scalar(ScalarValue::IntervalDayTime(Some(stride))) => {
            i128::from(stride.days) * DAY + i128::from(stride.milliseconds) * 1_000_000
        }
        _ => 0,
    };
    if nanoseconds > 0 {
        return Ok(nanoseconds);
    }
    exec_err!("date_bin takes timestamps before 1677 and after 2262 by bins of days and times alone")
}

/// The nanoseconds from 1970 to where a bin begins.
fn origin(origin: &ColumnarValue) -> i128 {
    match origin {
        ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(Some(origin), _)) => i128::from(*origin),
        _ => 0,
    }
}

/// The beginnings of the bins that `timestamps` are in.
///
/// # Errors
///
/// That their type does not hold one.
fn far_bins<T: ArrowTimestampType>(
    timestamps: &ArrayRef,
    stride: i128,
    origin: i128,
    zone: Option<Arc<str>>,
) -> Result<ArrayRef> {
    let scale: i128 = match T::UNIT {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let begin = |timestamp: i64| {
        let begin = origin + (i128::from(timestamp) * scale - origin).div_euclid(stride) * stride;
        i64::try_from(begin.div_euclid(scale)).or_else(|_| {
            exec_err!("date_bin gives a timestamp that its type cannot hold; cast to TIMESTAMP(6) before")
        })
    };
    let begins: PrimitiveArray<T> =
        timestamps.as_primitive::<T>().try_unary::<_, T, DataFusionError>(begin)?;
    Ok(Arc::new(begins.with_timezone_opt(zone)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{TimestampMicrosecondArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn bins_go_on_in_both_directions_and_null_stays() {
        let hour = 3_600_000_000_i64;
        let far = 2_000_000_000 * hour;
        let values = vec![Some(far + 1), Some(-far - 1), Some(-1), None, Some(hour - 1)];
        let source: ArrayRef = Arc::new(TimestampMicrosecondArray::from(values));
        let bins = far_bins::<TimestampMicrosecondType>(&source, 1_000 * i128::from(hour), 0, None).unwrap();
        let bins: Vec<_> = bins.as_primitive::<TimestampMicrosecondType>().iter().collect();
        assert_eq!(bins, [Some(far), Some(-far - hour), Some(-hour), None, Some(0)]);
    }

    #[test]
    fn a_bin_that_begins_too_early_is_an_error() {
        let source: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![i64::MIN]));
        assert!(far_bins::<TimestampNanosecondType>(&source, DAY, 0, None).is_err());
    }
}
