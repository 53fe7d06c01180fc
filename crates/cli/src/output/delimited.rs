//! Rows as comma- or tab-separated values, so that reading them gives back what was written.
//!
//! | value | field |
//! |---|---|
//! | NULL | empty, without quotes |
//! | the empty text | `""` |
//! | text with the delimiter, a quote or a line end | in quotes, quotes doubled |
//! | lists, structs, maps | JSON, in quotes where that has a comma or a quote |
//! | all else | as Arrow prints it: `2024-02-29`, `1.5`, `inf`, bytes as hexadecimal digits |

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{FieldRef, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::json::ENCODING;

/// The names of the columns, one line.
pub(super) fn write_header(out: &mut impl Write, schema: &Schema, delimiter: u8) -> std::io::Result<()> {
    let mut line = Vec::new();
    for (column, field) in schema.fields().iter().enumerate() {
        if column > 0 {
            line.push(delimiter);
        }
        push_field(&mut line, field.name().as_bytes(), delimiter);
    }
    line.push(b'\n');
    out.write_all(&line)
}

/// A line for each row of `batch`.
pub(super) fn write_rows(out: &mut impl Write, batch: &RecordBatch, delimiter: u8) -> Result<(), ArrowError> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let mut columns =
        columns.map(|(field, column)| Cells::of(field, column)).collect::<Result<Vec<_>, _>>()?;
    let (mut line, mut text) = (Vec::new(), Vec::new());
    for row in 0..batch.num_rows() {
        line.clear();
        for (column, cells) in columns.iter_mut().enumerate() {
            if column > 0 {
                line.push(delimiter);
            }
            text.clear();
            if cells.write(row, &mut text)? {
                push_field(&mut line, &text, delimiter);
            }
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

/// The values of one column as text.
enum Cells<'a> {
    Plain(&'a dyn Array, ArrayFormatter<'a>),
    Nested(NullableEncoder<'a>),
}

impl<'a> Cells<'a> {
    fn of(field: &'a FieldRef, column: &'a dyn Array) -> Result<Self, ArrowError> {
        if column.data_type().is_nested() {
            return make_encoder(field, column, &ENCODING).map(Self::Nested);
        }
        let options = FormatOptions::new().with_display_error(false);
        ArrayFormatter::try_new(column, &options).map(|formatter| Self::Plain(column, formatter))
    }

    /// Appends the value in `row` to `text`; false for NULL.
    fn write(&mut self, row: usize, text: &mut Vec<u8>) -> Result<bool, ArrowError> {
        match self {
            Self::Plain(column, _) if column.is_null(row) => return Ok(false),
            Self::Plain(_, formatter) => formatter.value(row).write(&mut Utf8(text))?,
            Self::Nested(encoder) if encoder.is_null(row) => return Ok(false),
            Self::Nested(encoder) => encoder.encode(row, text),
        }
        Ok(true)
    }
}

/// Text written to bytes.
struct Utf8<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Utf8<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn push_field(line: &mut Vec<u8>, text: &[u8], delimiter: u8) {
    let is_special = |byte: &u8| *byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    if !text.is_empty() && !text.iter().any(is_special) {
        return line.extend_from_slice(text);
    }
    line.push(b'"');
    for &byte in text {
        line.extend_from_slice(if byte == b'"' { b"\"\"" } else { std::slice::from_ref(&byte) });
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int32Array, ListArray, StringArray, StructArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>, delimiter: u8) -> String {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        write_header(&mut out, &batch.schema(), delimiter).unwrap();
        write_rows(&mut out, &batch, delimiter).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_and_the_empty_text_differ_and_quotes_stand_where_needed() {
        let numbers = Arc::new(Int32Array::from(vec![Some(1), None, None, Some(4), Some(5)]));
        let texts = vec![Some("a"), None, Some(""), Some("b,\t\"c\""), Some("d\r\ne")];
        let columns: Vec<(&str, ArrayRef)> =
            vec![("n", numbers), ("a,b", Arc::new(StringArray::from(texts)))];
        let expected = "n,\"a,b\"\n1,a\n,\n,\"\"\n4,\"b,\t\"\"c\"\"\"\n5,\"d\r\ne\"\n";
        assert_eq!(written(columns.clone(), b','), expected);
        let expected = "n\ta,b\n1\ta\n\t\n\t\"\"\n4\t\"b,\t\"\"c\"\"\"\n5\t\"d\r\ne\"\n";
        assert_eq!(written(columns, b'\t'), expected);
    }

    #[test]
    fn nested_values_are_json() {
        let lists = vec![Some(vec![Some(1), None]), None, Some(vec![])];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.5, f64::NAN, f64::NEG_INFINITY]));
        let structs: ArrayRef = Arc::new(StructArray::try_from(vec![("x", floats)]).unwrap());
        let expected = "l,s\n\"[1,null]\",\"{\"\"x\"\":1.5}\"\n,\"{\"\"x\"\":\"\"NaN\"\"}\"\n[],\"{\"\"x\"\":\"\"-Infinity\"\"}\"\n";
        assert_eq!(written(vec![("l", lists), ("s", structs)], b','), expected);
    }
}
