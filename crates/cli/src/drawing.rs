//! Rows as text for people: a drawn table, a Markdown table, or one line a value.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{
    ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult,
};
use arrow::util::pretty::pretty_format_batches_with_options;

use crate::console::{Keep, escaped};
use crate::screen::columns;

type Result<T> = std::result::Result<T, ArrowError>;

/// A table between rules, with its header even where it has no rows.
pub(crate) fn table(schema: &SchemaRef, batches: &[RecordBatch], for_terminal: bool) -> Result<String> {
    let empty = [RecordBatch::new_empty(schema.clone())];
    let batches = if batches.is_empty() { &empty } else { batches };
    let names = shown_schema(schema, for_terminal);
    let renamed = |batch: &RecordBatch| match Arc::ptr_eq(schema, &names) {
        true => Ok(batch.clone()),
        false => RecordBatch::try_new(names.clone(), batch.columns().to_vec()),
    };
    let batches = batches.iter().map(renamed).collect::<Result<Vec<_>>>()?;
    Ok(format!("{}\n", pretty_format_batches_with_options(&batches, &options(for_terminal))?))
}

/// A table as Markdown has it; numbers are right-aligned.
pub(crate) fn markdown(schema: &SchemaRef, batches: &[RecordBatch], for_terminal: bool) -> Result<String> {
    let schema = shown_schema(schema, for_terminal);
    let cell = |text: &str| text.replace('|', "\\|").replace("\r\n", "<br>").replace('\n', "<br>");
    let mut text = String::new();
    let names: Vec<String> = schema.fields().iter().map(|field| cell(field.name())).collect();
    push(&mut text, format_args!("| {} |\n", names.join(" | ")));
    let rules = schema.fields().iter().map(|field| if is_number(field.data_type()) { "---:" } else { "---" });
    push(&mut text, format_args!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
    for_each_row(batches, for_terminal, |cells| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        push(&mut text, format_args!("| {} |\n", cells.join(" | ")));
    })?;
    Ok(text)
}

/// A line for each value, a heading for each row: for rows wider than a terminal.
pub(crate) fn lines(schema: &SchemaRef, batches: &[RecordBatch], for_terminal: bool) -> Result<String> {
    let schema = shown_schema(schema, for_terminal);
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let width = names.iter().map(|name| columns(name)).max().unwrap_or(0);
    let mut text = String::new();
    let mut row = 0;
    for_each_row(batches, for_terminal, |cells| {
        row += 1;
        push(&mut text, format_args!("── row {row}\n"));
        for (name, cell) in names.iter().zip(cells) {
            let gap = " ".repeat(width - columns(name));
            push(&mut text, format_args!("{name}{gap} │ {cell}\n"));
        }
    })?;
    Ok(text)
}

fn push(text: &mut String, arguments: std::fmt::Arguments) {
    text.write_fmt(arguments).expect("writing to a string");
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// NULL is written out: an empty cell is the empty text.
fn options(for_terminal: bool) -> FormatOptions<'static> {
    let options = FormatOptions::default().with_display_error(true).with_null("NULL");
    if for_terminal { options.with_formatter_factory(Some(&Escaping)) } else { options }
}

/// `schema` with the names that are shown.
fn shown_schema(schema: &SchemaRef, for_terminal: bool) -> SchemaRef {
    let is_plain = |field: &FieldRef| !field.name().contains(char::is_control);
    if !for_terminal || schema.fields().iter().all(is_plain) {
        return schema.clone();
    }
    let shown = |field: &FieldRef| field.as_ref().clone().with_name(escaped(field.name(), Keep::Nothing));
    Arc::new(Schema::new(schema.fields().iter().map(shown).collect::<Vec<_>>()))
}

/// Formats values for a terminal, on which they may not do more than be seen.
#[derive(Debug)]
struct Escaping;

impl ArrayFormatterFactory for Escaping {
    fn create_array_formatter<'a>(
        &self,
        array: &'a dyn Array,
        options: &FormatOptions<'a>,
        _: Option<&'a Field>,
    ) -> Result<Option<ArrayFormatter<'a>>> {
        let plain = ArrayFormatter::try_new(array, &options.clone().with_formatter_factory(None))?;
        Ok(Some(ArrayFormatter::new(Box::new(Escaped(plain)), options.safe())))
    }
}

struct Escaped<'a>(ArrayFormatter<'a>);

impl DisplayIndex for Escaped<'_> {
    fn write(&self, row: usize, out: &mut dyn Write) -> FormatResult {
        let text = self.0.value(row).to_string();
        // Cells of several lines can be read; a tab would shift the rules beside it.
        let lines: Vec<String> = text.split('\n').map(|line| escaped(line, Keep::Nothing)).collect();
        out.write_str(&lines.join("\n"))?;
        Ok(())
    }
}

fn for_each_row(batches: &[RecordBatch], for_terminal: bool, mut each: impl FnMut(&[String])) -> Result<()> {
    let options = options(for_terminal);
    for batch in batches {
        let formatters = batch.columns().iter().map(|column| match options.formatter_factory() {
            None => ArrayFormatter::try_new(column.as_ref(), &options),
            Some(_) => Escaping
                .create_array_formatter(column.as_ref(), &options, None)
                .map(|made| made.expect("always made")),
        });
        let formatters = formatters.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = formatters.iter().map(|column| column.value(row).to_string()).collect();
            each(&cells);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringArray};

    use super::*;

    fn rows() -> (SchemaRef, RecordBatch) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int32, true),
            Field::new("long name", DataType::Utf8, true),
        ]));
        let columns: Vec<Arc<dyn Array>> = vec![
            Arc::new(Int32Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec!["a|b", "c\nd"])),
        ];
        (schema.clone(), RecordBatch::try_new(schema, columns).unwrap())
    }

    #[test]
    fn markdown_escapes_what_would_end_a_cell() {
        let (schema, batch) = rows();
        let expected = "| id | long name |\n| ---: | --- |\n| 1 | a\\|b |\n| NULL | c<br>d |\n";
        assert_eq!(markdown(&schema, &[batch], false).unwrap(), expected);
        assert_eq!(markdown(&schema, &[], false).unwrap(), "| id | long name |\n| ---: | --- |\n");
    }

    #[test]
    fn lines_name_each_value() {
        let (schema, batch) = rows();
        let expected =
            "── row 1\nid        │ 1\nlong name │ a|b\n── row 2\nid        │ NULL\nlong name │ c\nd\n";
        assert_eq!(lines(&schema, &[batch], false).unwrap(), expected);
        assert_eq!(lines(&schema, &[], false).unwrap(), "");
    }

    #[test]
    fn null_is_written_out_and_the_empty_text_is_not() {
        let texts: Arc<dyn Array> = Arc::new(StringArray::from(vec![None, Some("")]));
        let batch = RecordBatch::try_from_iter([("t", texts)]).unwrap();
        let expected = "+------+\n| t    |\n+------+\n| NULL |\n|      |\n+------+\n";
        assert_eq!(table(&batch.schema(), &[batch], false).unwrap(), expected);
    }

    #[test]
    fn a_terminal_gets_no_control_characters_of_values_or_names() {
        let texts: Arc<dyn Array> = Arc::new(StringArray::from(vec!["a\x1b[2J\tb\nc"]));
        let batch = RecordBatch::try_from_iter([("\x07t", texts)]).unwrap();
        for draw in [table, markdown, lines] {
            let shown = draw(&batch.schema(), std::slice::from_ref(&batch), true).unwrap();
            assert!(shown.contains("\\x07t") && shown.contains("a\\x1b[2J\\tb"), "{shown}");
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
            let raw = draw(&batch.schema(), std::slice::from_ref(&batch), false).unwrap();
            assert!(raw.contains("a\x1b[2J"), "{raw:?}");
        }
    }
}
