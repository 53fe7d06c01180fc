//! How large the result of a function will be, from its arguments.
//!
//! Sizes are of values; what arrays keep beside them (offsets, views, validity) is less than a few bytes a value. Where
//! an argument is of a type that these rules do not know, there is no size, and the function runs unasked.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::length::length;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

/// The rule for one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Size {
    /// A text of so many characters: lpad, rpad.
    Pad,
    /// A text so many times: repeat.
    Repeat,
    /// Each occurrence of one text replaced by another: replace.
    Replace,
    /// Each match of an expression replaced by a text: regexp_replace.
    RegexpReplace,
    /// All arguments, one behind the other: concat, make_array.
    Sum,
    /// An array of numbers from the first to the last: range, generate_series.
    Series,
    /// A value so many times as an array: array_repeat.
    RepeatValue,
    /// An array of so many values: array_resize.
    Resize,
    /// The elements of an array with a text between them: array_to_string.
    Join,
    /// A value written by a pattern: to_char.
    Pattern,
}

/// Bytes of an array's element that has none of its own: an offset or a view.
const ELEMENT_BYTES: i64 = 16;
/// Letters that one letter of a pattern becomes at most, such as the name of a month.
const PATTERN_LETTERS: i64 = 10;

impl Size {
    /// The rule for function `name`; `None`: it makes no more than some times its arguments.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "lpad" | "rpad" => Self::Pad,
            "repeat" => Self::Repeat,
            "replace" => Self::Replace,
            "regexp_replace" => Self::RegexpReplace,
            "concat" | "concat_ws" | "make_array" | "array_concat" | "array_append" | "array_prepend"
            | "overlay" | "named_struct" | "struct" | "map" => Self::Sum,
            "range" | "generate_series" => Self::Series,
            "array_repeat" => Self::RepeatValue,
            "array_resize" => Self::Resize,
            "array_to_string" => Self::Join,
            "to_char" => Self::Pattern,
            _ => return None,
        })
    }

    /// True where the result may be far smaller than [`bytes`](Self::bytes) says.
    pub(super) fn is_loose(self) -> bool {
        matches!(self, Self::Replace | Self::RegexpReplace | Self::Pattern)
    }

    /// Bytes of the result for `rows` rows.
    pub(super) fn bytes(self, args: &[ColumnarValue], rows: usize) -> Option<u64> {
        let arg = |index: usize| args.get(index);
        match self {
            Self::Pad => {
                let (count, width) = (numbers(arg(1)?)?, letter_bytes(arg(2)));
                Some(sum(rows, |row| count.at(row).max(0).saturating_mul(width)))
            }
            Self::Repeat => {
                let (text, count) = (lengths(arg(0)?)?, numbers(arg(1)?)?);
                Some(sum(rows, |row| text.at(row).saturating_mul(count.at(row).max(0))))
            }
            Self::Replace => {
                let (text, from, to) = (lengths(arg(0)?)?, lengths(arg(1)?)?, lengths(arg(2)?)?);
                Some(sum(rows, |row| {
                    let (text, from) = (text.at(row), from.at(row));
                    // An empty text is found before and behind each letter.
                    let found = if from == 0 { text + 1 } else { text / from };
                    text.saturating_add(found.saturating_mul(to.at(row)))
                }))
            }
            Self::RegexpReplace => {
                let (text, to) = (lengths(arg(0)?)?, lengths(arg(2)?)?);
                // A `\1` stands for as much as was matched; matches together are the text at most.
                let parts = match arg(2)? {
                    ColumnarValue::Scalar(text) => {
                        text.try_as_str().flatten().map_or(0, |text| text.matches('\\').count())
                    }
                    ColumnarValue::Array(_) => 9,
                } as i64;
                let is_once = arg(3).is_none();
                Some(sum(rows, |row| {
                    let (text, to) = (text.at(row), to.at(row));
                    let found = if is_once { 1 } else { text + 1 };
                    text.saturating_mul(1 + parts).saturating_add(found.saturating_mul(to))
                }))
            }
            Self::Sum => {
                args.iter().try_fold(0u64, |sum, arg| Some(sum.saturating_add(all_bytes(arg, rows)?)))
            }
            Self::Series => series(args, rows),
            Self::RepeatValue => {
                let (value, count) = (widths(arg(0)?)?, numbers(arg(1)?)?);
                Some(sum(rows, |row| value.at(row).saturating_mul(count.at(row).max(0))))
            }
            Self::Resize => {
                let (count, value) =
                    (numbers(arg(1)?)?, arg(2).map_or(Some(Each::Same(ELEMENT_BYTES)), widths)?);
                Some(sum(rows, |row| count.at(row).max(0).saturating_mul(value.at(row))))
            }
            Self::Join => {
                let (values, between) = (all_bytes(arg(0)?, rows)?, lengths(arg(1)?)?);
                let elements = lengths(arg(0)?)?;
                let between = sum(rows, |row| elements.at(row).saturating_mul(between.at(row)));
                Some(values.saturating_mul(3).saturating_add(between))
            }
            Self::Pattern => {
                let pattern = lengths(arg(1)?)?;
                Some(sum(rows, |row| pattern.at(row).saturating_mul(PATTERN_LETTERS)))
            }
        }
    }
}

/// A number for each row.
enum Each {
    Same(i64),
    Column(Int64Array),
}

impl Each {
    /// That of `row`; 0 for NULL.
    fn at(&self, row: usize) -> i64 {
        match self {
            Self::Same(number) => *number,
            Self::Column(numbers) if numbers.is_valid(row) => numbers.value(row),
            Self::Column(_) => 0,
        }
    }
}

fn sum(rows: usize, of: impl Fn(usize) -> i64) -> u64 {
    (0..rows).fold(0u64, |sum, row| sum.saturating_add(of(row).max(0) as u64))
}

/// `of` for the one value of a constant, or for the array.
fn each(value: &ColumnarValue, of: impl Fn(&ArrayRef) -> Option<ArrayRef>) -> Option<Each> {
    let as_numbers = |array: ArrayRef| {
        Some(cast(&of(&array)?, &DataType::Int64).ok()?.as_primitive::<Int64Type>().clone())
    };
    Some(match value {
        ColumnarValue::Scalar(scalar) => {
            let numbers = as_numbers(scalar.to_array().ok()?)?;
            Each::Same(if numbers.is_valid(0) { numbers.value(0) } else { 0 })
        }
        ColumnarValue::Array(array) => Each::Column(as_numbers(array.clone())?),
    })
}

/// The numbers themselves; for dates and times, in their own unit.
fn numbers(value: &ColumnarValue) -> Option<Each> {
    each(value, |array| Some(array.clone()))
}

/// Bytes of texts, elements of arrays.
fn lengths(value: &ColumnarValue) -> Option<Each> {
    if value.data_type() == DataType::Null {
        return Some(Each::Same(0));
    }
    each(value, |array| length(array.as_ref()).ok())
}

/// Bytes of each value as the element of an array.
fn widths(value: &ColumnarValue) -> Option<Each> {
    if let Some(width) = value.data_type().primitive_width() {
        return Some(Each::Same(width as i64));
    }
    match value.data_type() {
        DataType::Boolean | DataType::Null => Some(Each::Same(1)),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary => {
            let lengths = lengths(value)?;
            Some(match lengths {
                Each::Same(length) => Each::Same(length.saturating_add(ELEMENT_BYTES)),
                column @ Each::Column(_) => column,
            })
        }
        _ => {
            let rows = match value {
                ColumnarValue::Scalar(_) => 1,
                ColumnarValue::Array(array) => array.len().max(1),
            };
            Some(Each::Same(i64::try_from(all_bytes(value, rows)? / rows as u64).unwrap_or(i64::MAX)))
        }
    }
}

/// Bytes of all rows of a value.
fn all_bytes(value: &ColumnarValue, rows: usize) -> Option<u64> {
    let of = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => {
            let lengths = cast(&length(array.as_ref()).ok()?, &DataType::Int64).ok()?;
            let lengths = Each::Column(lengths.as_primitive::<Int64Type>().clone());
            Some(sum(array.len(), |row| lengths.at(row)))
        }
        _ => Some(array.to_data().get_slice_memory_size().ok()? as u64),
    };
    match value {
        ColumnarValue::Scalar(scalar) => Some(of(&scalar.to_array().ok()?)?.saturating_mul(rows as u64)),
        ColumnarValue::Array(array) => of(array),
    }
}

/// Bytes of arrays from a start to an end by a step.
fn series(args: &[ColumnarValue], rows: usize) -> Option<u64> {
    let data_type = args.first()?.data_type();
    let (width, per_day) = match &data_type {
        DataType::Date32 => (4, 1),
        DataType::Timestamp(unit, _) => (8, units_per_day(*unit)),
        data_type if data_type.is_integer() => (8, 1),
        _ => return None,
    };
    let (start, end) = match args {
        [end] => (Each::Same(0), numbers(end)?),
        [start, end, ..] => (numbers(start)?, numbers(end)?),
        [] => return None,
    };
    let step = match args.get(2) {
        None => Each::Same(1),
        Some(ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(step))) => {
            let step = (*step)?;
            let days = i64::from(step.months) * 28 + i64::from(step.days);
            let day_ns = units_per_day(TimeUnit::Nanosecond);
            let part = (i128::from(step.nanoseconds) * i128::from(per_day) / i128::from(day_ns)) as i64;
            Each::Same(days.saturating_mul(per_day).saturating_add(part))
        }
        Some(step) if step.data_type().is_integer() => numbers(step)?,
        Some(_) => return None,
    };
    Some(sum(rows, |row| {
        let span = end.at(row).saturating_sub(start.at(row));
        let step = step.at(row);
        // The wrong way round there are none; the function itself refuses a step of 0.
        if step == 0 || (span < 0) != (step < 0) {
            return 0;
        }
        (span.saturating_abs() / step.saturating_abs()).saturating_add(1).saturating_mul(width)
    }))
}

fn units_per_day(unit: TimeUnit) -> i64 {
    let seconds = 24 * 60 * 60;
    match unit {
        TimeUnit::Second => seconds,
        TimeUnit::Millisecond => seconds * 1_000,
        TimeUnit::Microsecond => seconds * 1_000_000,
        TimeUnit::Nanosecond => seconds * 1_000_000_000,
    }
}

/// Bytes of a letter of the text that fills; a blank where there is none.
fn letter_bytes(fill: Option<&ColumnarValue>) -> i64 {
    match fill {
        None => 1,
        Some(ColumnarValue::Scalar(text)) if text.try_as_str().flatten().is_none_or(str::is_ascii) => 1,
        Some(_) => 4,
    }
}
