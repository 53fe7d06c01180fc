//! The first rows of a query as text, for `repr` and for notebooks.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pelton_error::{Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::error::OrRaise;
use crate::stream::BatchStream;
use crate::wait::Display;

/// Column names, column types, rows of cells (`None` for NULL), and whether there are more rows.
pub(crate) type Preview = (Vec<String>, Vec<String>, Vec<Vec<Option<String>>>, bool);

/// The first `limit` rows of `stream`, which is dropped as soon as it gave one more.
pub(crate) fn preview(
    py: Python<'_>,
    mut stream: BatchStream,
    limit: usize,
    display: &mut Display<'_>,
) -> PyResult<Preview> {
    let mut rows = Vec::new();
    let mut has_more = false;
    while !has_more && let Some(batch) = stream.next_batch(py, display)? {
        let shown = batch.num_rows().min(limit - rows.len());
        has_more = shown < batch.num_rows();
        rows.extend(cells(&batch.slice(0, shown)).or_raise(py)?);
    }
    let (names, types) = header(stream.schema());
    Ok((names, types, rows, has_more))
}

fn header(schema: &Schema) -> (Vec<String>, Vec<String>) {
    let fields = schema.fields().iter();
    fields.map(|field| (field.name().clone(), type_name(field.data_type()))).unzip()
}

fn cells(batch: &RecordBatch) -> Result<Vec<Vec<Option<String>>>> {
    let options = FormatOptions::default().with_display_error(true);
    let columns = batch.columns().iter();
    let formatters: std::result::Result<Vec<_>, _> =
        columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options)).collect();
    let formatters = formatters
        .map_err(|error| Error::new(ErrorKind::Unsupported, "showing the rows").with_source(error))?;
    // The logical ones: a dictionary may hold NULL among its values, and a column of type Null holds nothing else.
    let nulls: Vec<_> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
    let cell = |row: usize, column: usize| {
        let is_null = nulls[column].as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!is_null).then(|| formatters[column].value(row).to_string())
    };
    Ok((0..batch.num_rows())
        .map(|row| (0..batch.num_columns()).map(|column| cell(row, column)).collect())
        .collect())
}

/// A type as short as users know it: how text lies in memory is of no interest here.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".into(),
        DataType::Dictionary(_, values) => type_name(values),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Boolean => "bool".into(),
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Timestamp(unit, Some(zone)) => {
            format!("{}, {zone})", type_name(&DataType::Timestamp(*unit, None)).trim_end_matches(')'))
        }
        other => other.to_string().to_lowercase(),
    }
}
