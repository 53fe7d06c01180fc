//! An engine as sqllogictest sees it, and its rows as text.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use pelton_error::{Error, Result};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};

use crate::statement::Statement;

/// What a statement gave.
pub(crate) enum Answer {
    /// Rows.
    Rows(SchemaRef, Vec<RecordBatch>),
    /// A change of this many rows.
    Changed(u64),
    /// Rows that are text already.
    Text(Vec<Vec<String>>),
}

/// One of the engines under test.
#[async_trait]
pub(crate) trait Database: Send {
    /// The label by which test files tell engines apart.
    fn name(&self) -> &'static str;
    /// Runs one statement to its end.
    async fn run(&mut self, statement: Statement) -> Result<Answer>;
}

/// Lends a [`Database`] to sqllogictest.
pub(crate) struct Connection(pub(crate) Box<dyn Database>);

#[async_trait]
impl AsyncDB for Connection {
    type Error = Error;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        Ok(match self.0.run(Statement::parse(sql)?).await? {
            Answer::Changed(count) => DBOutput::StatementComplete(count),
            Answer::Text(rows) => {
                let width = rows.first().map_or(0, Vec::len);
                DBOutput::Rows { types: vec![DefaultColumnType::Any; width], rows }
            }
            Answer::Rows(schema, batches) => DBOutput::Rows {
                types: schema.fields().iter().map(|field| column_type(field.data_type())).collect(),
                rows: text_rows(&batches)?,
            },
        })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        self.0.name()
    }
}

/// `B` is no type of sqllogictest; what is neither number nor text is `?`.
fn column_type(data_type: &DataType) -> DefaultColumnType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DefaultColumnType::Text,
        DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => DefaultColumnType::FloatingPoint,
        other if other.is_integer() => DefaultColumnType::Integer,
        _ => DefaultColumnType::Any,
    }
}

fn text_rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let formatters = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| Error::unsupported("no text for this type").with_source(error))?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                formatters.iter().map(|formatter| cell(formatter.value(row).to_string())).collect();
            rows.extend(lines(cells));
        }
    }
    Ok(rows)
}

fn cell(text: String) -> String {
    if text.is_empty() { "(empty)".to_owned() } else { text }
}

/// A row of one or two cells of which the last has several lines: one row a line of it.
fn lines(cells: Vec<String>) -> Vec<Vec<String>> {
    match cells.last() {
        Some(last) if last.contains('\n') && cells.len() <= 2 => {
            last.lines().map(|line| vec![line.to_owned()]).collect()
        }
        _ => vec![cells],
    }
}
