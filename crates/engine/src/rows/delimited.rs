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
use arrow::buffer::NullBuffer;
use arrow::csv::{QuoteStyle, WriterBuilder};
use arrow::datatypes::{FieldRef, Schema};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::json::ENCODING;

/// How rows are written as lines of fields.
#[derive(Debug, Clone)]
pub struct Delimited(WriterBuilder);

impl Delimited {
    /// With fields apart by `delimiter`; all else as the table above says.
    pub fn new(delimiter: u8) -> Self {
        Self(WriterBuilder::new().with_delimiter(delimiter))
    }

    /// As `asked`, where that is no more than delimiter, quote, what stands for NULL, and formats of dates and times.
    pub(crate) fn of(asked: &WriterBuilder) -> Option<Self> {
        let doubles = asked.double_quote() || asked.escape() == asked.quote();
        let trims = asked.ignore_leading_whitespace() || asked.ignore_trailing_whitespace();
        let is_plain = doubles && !trims && matches!(asked.quote_style(), QuoteStyle::Necessary);
        is_plain.then(|| Self(asked.clone()))
    }

    /// The names of the columns, one line.
    ///
    /// # Errors
    ///
    /// Of writing.
    pub fn write_header(&self, out: &mut impl Write, schema: &Schema) -> std::io::Result<()> {
        let mut line = Vec::new();
        for (column, field) in schema.fields().iter().enumerate() {
            if column > 0 {
                line.push(self.0.delimiter());
            }
            self.push_field(&mut line, field.name().as_bytes());
        }
        line.push(b'\n');
        out.write_all(&line)
    }

    /// A line for each row of `batch`.
    ///
    /// # Errors
    ///
    /// Of writing; of values that have no text.
    pub fn write_rows(&self, out: &mut impl Write, batch: &RecordBatch) -> Result<(), ArrowError> {
        let (schema, formats) = (batch.schema(), self.formats());
        let columns = schema.fields().iter().zip(batch.columns());
        let mut columns = columns
            .map(|(field, column)| Cells::of(field, column, &formats))
            .collect::<Result<Vec<_>, _>>()?;
        let (mut line, mut text) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            line.clear();
            for (column, cells) in columns.iter_mut().enumerate() {
                if column > 0 {
                    line.push(self.0.delimiter());
                }
                text.clear();
                match cells.write(row, &mut text)? {
                    true => self.push_field(&mut line, &text),
                    false => line.extend_from_slice(self.0.null().as_bytes()),
                }
            }
            line.push(b'\n');
            out.write_all(&line)?;
        }
        Ok(())
    }

    fn formats(&self) -> FormatOptions<'_> {
        FormatOptions::new()
            .with_display_error(false)
            .with_date_format(self.0.date_format())
            .with_datetime_format(self.0.datetime_format())
            .with_time_format(self.0.time_format())
            .with_timestamp_format(self.0.timestamp_format())
            .with_timestamp_tz_format(self.0.timestamp_tz_format())
    }

    /// Appends `text`, in quotes where it would be read as something else without them.
    fn push_field(&self, line: &mut Vec<u8>, text: &[u8]) {
        let (delimiter, quote) = (self.0.delimiter(), self.0.quote());
        let is_special = |byte: &u8| [delimiter, quote, b'\n', b'\r'].contains(byte);
        let is_null = text.is_empty() || text == self.0.null().as_bytes();
        if !is_null && !text.iter().any(is_special) {
            return line.extend_from_slice(text);
        }
        line.push(quote);
        for &byte in text {
            line.extend(std::iter::repeat_n(byte, if byte == quote { 2 } else { 1 }));
        }
        line.push(quote);
    }
}

/// The values of one column as text.
enum Cells<'a> {
    /// NULLs are the logical ones: a dictionary may have one among its values, and a column of type Null has nothing else.
    Plain(Option<NullBuffer>, ArrayFormatter<'a>),
    Nested(NullableEncoder<'a>),
}

impl<'a> Cells<'a> {
    fn of(
        field: &'a FieldRef,
        column: &'a dyn Array,
        formats: &FormatOptions<'a>,
    ) -> Result<Self, ArrowError> {
        if column.data_type().is_nested() {
            return make_encoder(field, column, &ENCODING).map(Self::Nested);
        }
        let formatter = ArrayFormatter::try_new(column, formats)?;
        Ok(Self::Plain(column.logical_nulls(), formatter))
    }

    /// Appends the value in `row` to `text`; false for NULL.
    fn write(&mut self, row: usize, text: &mut Vec<u8>) -> Result<bool, ArrowError> {
        match self {
            Self::Plain(Some(nulls), _) if nulls.is_null(row) => return Ok(false),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, DictionaryArray, Float64Array, Int32Array, ListArray, NullArray, StringArray, StructArray,
    };
    use arrow::datatypes::{Int32Type, Int64Type};

    use super::*;

    fn written(columns: Vec<(&str, ArrayRef)>, delimiter: u8) -> String {
        lines(&Delimited::new(delimiter), columns)
    }

    fn lines(delimited: &Delimited, columns: Vec<(&str, ArrayRef)>) -> String {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        delimited.write_header(&mut out, &batch.schema()).unwrap();
        delimited.write_rows(&mut out, &batch).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_stands_for_null_is_quoted_where_it_is_a_text() {
        let asked = WriterBuilder::new().with_delimiter(b';').with_quote(b'\'').with_null("NULL".into());
        let texts: ArrayRef =
            Arc::new(StringArray::from(vec![Some("NULL"), None, Some(""), Some("it's; \"a\"")]));
        let delimited = Delimited::of(&asked).unwrap();
        assert_eq!(lines(&delimited, vec![("t", texts)]), "t\n'NULL'\nNULL\n''\n'it''s; \"a\"'\n");
        assert!(Delimited::of(&asked.clone().with_double_quote(false)).is_none());
        assert!(Delimited::of(&asked.with_quote_style(QuoteStyle::Always)).is_none());
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
    fn null_is_no_text_in_columns_that_hold_it_elsewhere() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
        let keys = Int32Array::from(vec![0, 1]);
        let coded: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(keys, texts).unwrap());
        let nothing: ArrayRef = Arc::new(NullArray::new(2));
        assert_eq!(written(vec![("d", coded), ("n", nothing)], b','), "d,n\nx,\n,\n");
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
