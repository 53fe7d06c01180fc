//! JSON lines: one object a line. Parsing a block, and saying exactly what is wrong with one.
//!
//! Two habits of arrow-json are turned off. It reads `1.5` into an integer column as 1: integers are
//! therefore taken as text and parsed strictly. It drops members it does not know: they are errors here.
//! A scalar in a text column is taken as its text, as schema inference over mixed values promises.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::{ArrowError, Result as ArrowResult};
use arrow::json::ReaderBuilder;
use arrow::json::reader::{Decoder, infer_json_schema};
use pelton_error::{Error, Result};

use super::files::ListedFile;
use super::place::of_store;
use super::text::{TextBlock, open_text};

/// Rows parsed into one batch.
const BATCH_ROWS: usize = 8192;
/// Text of a bad value shown in a message.
const SHOWN_CHARS: usize = 80;

/// The members of the objects in one file.
#[derive(Debug, Clone)]
pub(crate) struct JsonFile {
    schema: SchemaRef,
}

impl JsonFile {
    /// Infers the members from the first rows; `None` where there is no row.
    pub(crate) fn infer(listed: &ListedFile, infer_row_count: usize) -> Result<Option<Self>> {
        let reader = BufReader::new(open_text(listed, Arc::new(AtomicU64::new(0)))?);
        let (inferred, row_count) = infer_json_schema(reader, Some(infer_row_count))
            .map_err(|error| locate_in_head(listed, infer_row_count, error))?;
        if row_count == 0 {
            return Ok(None);
        }
        let fields: Fields = inferred.fields().iter().map(|field| inferred_field(field)).collect();
        Ok(Some(Self { schema: Arc::new(Schema::new(fields)) }))
    }

    /// A file of objects with the members of `staging`.
    pub(crate) fn with_schema(staging: &Schema) -> Self {
        let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
        Self { schema: Arc::new(Schema::new(staging.fields().iter().map(nullable).collect::<Fields>())) }
    }

    pub(crate) fn arrow_schema(&self) -> &Schema {
        &self.schema
    }

    /// The rows of `block`.
    pub(crate) fn parse(&self, name: &str, block: &TextBlock) -> Result<Vec<RecordBatch>> {
        decode(&self.schema, true, &block.bytes).map_err(|error| self.locate(name, block, error))
    }

    /// The error that names the first line that does not parse; `found` where none does alone.
    fn locate(&self, name: &str, block: &TextBlock, found: ArrowError) -> Error {
        for (index, line) in block.bytes.split(|&byte| byte == b'\n').enumerate() {
            if let Err(error) = decode(&self.schema, true, line) {
                return self.explain(
                    &format!("{name}, line {}", block.first_line + index as u64),
                    line,
                    error,
                );
            }
        }
        Error::invalid_input(format!("{name}, after line {}", block.first_line)).with_source(found)
    }

    /// What is wrong with `line`.
    fn explain(&self, place: &str, line: &[u8], found: ArrowError) -> Error {
        let nothing = Arc::new(Schema::empty());
        if decode(&nothing, false, line).is_err() {
            return Error::invalid_input(format!("{place}: not one JSON object")).with_source(found);
        }
        for field in self.schema.fields() {
            let alone = Arc::new(Schema::new(vec![Arc::clone(field)]));
            if decode(&alone, false, line).is_err() {
                return Error::invalid_input(format!(
                    "{place}, column '{}': {} is not a valid {}",
                    field.name(),
                    member_text(field.name(), line),
                    super::type_name(field.data_type())
                ));
            }
        }
        match infer_json_schema(line, None) {
            Ok((members, _)) => {
                match members.fields().iter().find(|m| self.schema.field_with_name(m.name()).is_err()) {
                    Some(unknown) => Error::invalid_input(format!(
                        "{place}: column '{}' is not among the columns of the table; infer from more rows or load into a \
                     table that has it",
                        unknown.name()
                    )),
                    None => Error::invalid_input(place).with_source(found),
                }
            }
            Err(_) => Error::invalid_input(place).with_source(found),
        }
    }
}

/// The error that names the first line of the head that is no object; all of the head where each is one.
fn locate_in_head(listed: &ListedFile, infer_row_count: usize, found: ArrowError) -> Error {
    if let Some(error) = of_store(&found) {
        return error;
    }
    let name = listed.name();
    let text = match open_text(listed, Arc::new(AtomicU64::new(0))) {
        Ok(text) => text,
        Err(error) => return error,
    };
    for (index, line) in BufReader::new(text).split(b'\n').take(infer_row_count).enumerate() {
        let Ok(line) = line else { break };
        if let Err(error) = infer_json_schema(line.as_slice(), None) {
            return Error::invalid_input(format!("{name}, line {}: not one JSON object", index + 1))
                .with_source(error);
        }
    }
    Error::invalid_input(format!("{name}, within the first {infer_row_count} lines")).with_source(found)
}

/// The value of member `name` as text.
fn member_text(name: &str, line: &[u8]) -> String {
    let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]));
    let text = decode(&schema, false, line).ok().and_then(|batches| {
        let batch = batches.into_iter().next()?;
        arrow::util::display::array_value_to_string(batch.column(0), 0).ok()
    });
    match text {
        Some(text) => format!("'{}'", text.chars().take(SHOWN_CHARS).collect::<String>()),
        None => "a list or an object".to_string(),
    }
}

/// All rows of `bytes` as `schema`; `strict` refuses members that are not in it.
fn decode(schema: &SchemaRef, strict: bool, mut bytes: &[u8]) -> ArrowResult<Vec<RecordBatch>> {
    let mut decoder = decoder(schema, strict)?;
    let mut batches = Vec::new();
    loop {
        let count = decoder.decode(bytes)?;
        bytes = &bytes[count..];
        if bytes.is_empty() || decoder.len() == BATCH_ROWS {
            match decoder.flush()? {
                Some(batch) => batches.push(with_integers(&batch, schema)?),
                None => return Ok(batches),
            }
        }
    }
}

fn decoder(schema: &SchemaRef, strict: bool) -> ArrowResult<Decoder> {
    let as_text = |field: &Arc<Field>| match field.data_type().is_integer() {
        true => field.as_ref().clone().with_data_type(DataType::Utf8),
        false => field.as_ref().clone(),
    };
    let parsed = Schema::new(schema.fields().iter().map(as_text).collect::<Fields>());
    ReaderBuilder::new(Arc::new(parsed))
        .with_strict_mode(strict)
        .with_coerce_primitive(true)
        .with_batch_size(BATCH_ROWS)
        .build_decoder()
}

/// Parses the columns that were taken as text for it into integers.
fn with_integers(batch: &RecordBatch, schema: &SchemaRef) -> ArrowResult<RecordBatch> {
    let strictly = CastOptions { safe: false, ..Default::default() };
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast_with_options(column, field.data_type(), &strictly));
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<ArrowResult<_>>()?, &options)
}

/// A column that is null as far as one looked is text.
fn inferred_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Null => DataType::Utf8,
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}
