//! Rows as text for people: a drawn table, a Markdown table, or one line a value.

use std::fmt::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;

use crate::screen::columns;

type Result<T> = std::result::Result<T, ArrowError>;

/// A table between rules, with its header even where it has no rows.
pub(crate) fn table(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String> {
    let options = options();
    let empty = [RecordBatch::new_empty(schema.clone())];
    let batches = if batches.is_empty() { &empty } else { batches };
    Ok(format!("{}\n", pretty_format_batches_with_options(batches, &options)?))
}

/// A table as Markdown has it; numbers are right-aligned.
pub(crate) fn markdown(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String> {
    let cell = |text: &str| text.replace('|', "\\|").replace("\r\n", "<br>").replace('\n', "<br>");
    let mut text = String::new();
    let names: Vec<String> = schema.fields().iter().map(|field| cell(field.name())).collect();
    push(&mut text, format_args!("| {} |\n", names.join(" | ")));
    let rules = schema.fields().iter().map(|field| if is_number(field.data_type()) { "---:" } else { "---" });
    push(&mut text, format_args!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
    for_each_row(batches, |cells| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        push(&mut text, format_args!("| {} |\n", cells.join(" | ")));
    })?;
    Ok(text)
}

/// A line for each value, a heading for each row: for rows wider than a terminal.
pub(crate) fn lines(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<String> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let width = names.iter().map(|name| columns(name)).max().unwrap_or(0);
    let mut text = String::new();
    let mut row = 0;
    for_each_row(batches, |cells| {
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

fn options() -> FormatOptions<'static> {
    FormatOptions::default().with_display_error(true)
}

fn for_each_row(batches: &[RecordBatch], mut each: impl FnMut(&[String])) -> Result<()> {
    let options = options();
    for batch in batches {
        let formatters =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
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
    use std::sync::Arc;

    use arrow::array::{Array, Int32Array, StringArray};
    use arrow::datatypes::{Field, Schema};

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
        let expected = "| id | long name |\n| ---: | --- |\n| 1 | a\\|b |\n|  | c<br>d |\n";
        assert_eq!(markdown(&schema, &[batch]).unwrap(), expected);
        assert_eq!(markdown(&schema, &[]).unwrap(), "| id | long name |\n| ---: | --- |\n");
    }

    #[test]
    fn lines_name_each_value() {
        let (schema, batch) = rows();
        let expected = "── row 1\nid        │ 1\nlong name │ a|b\n── row 2\nid        │ \nlong name │ c\nd\n";
        assert_eq!(lines(&schema, &[batch]).unwrap(), expected);
        assert_eq!(lines(&schema, &[]).unwrap(), "");
    }
}
