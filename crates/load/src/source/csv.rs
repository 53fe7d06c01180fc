//! CSV: what a file's columns are, parsing a block, and saying exactly what is wrong with one.
//!
//! arrow-csv parses whole blocks and stops at the first value it cannot take. The block is then read again
//! one record at a time to find the line, and that record one column at a time to find the column and the
//! text; only a load that fails pays for it.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::{Decoder, Format};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::{ArrowError, Result as ArrowResult};
use pelton_error::{Error, Result};
use regex::Regex;

use super::files::{ListedFile, inner_extension};
use super::place::of_store;
use super::text::{Records, TextBlock, first_record, line_count, open_text, read_error};
use crate::request::CsvOptions;

/// Rows parsed into one batch.
const BATCH_ROWS: usize = 8192;
/// Text looked at to find the first record.
const HEAD_BYTES: u64 = 1 << 20;

/// How the CSV files of one kind are written.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    delimiter: u8,
    quote: u8,
    pub(crate) header: bool,
    /// What stands for NULL beside the empty field.
    null: Option<Regex>,
    /// Files of dbgen end each line with the delimiter.
    may_trail: bool,
    infer_row_count: usize,
}

impl Dialect {
    /// The dialect that `options` and the name of the file tell.
    pub(crate) fn of(path: &Path, options: &CsvOptions) -> Self {
        let extension = inner_extension(path);
        let is_dbgen = extension.as_deref() == Some("tbl");
        let by_name = match extension.as_deref() {
            Some("tsv") => b'\t',
            Some("tbl") => b'|',
            _ => b',',
        };
        let null = (!options.null.is_empty()).then(|| {
            let pattern = format!("^(?:{})?$", regex::escape(&options.null));
            Regex::new(&pattern).expect("an escaped text is a pattern")
        });
        Self {
            delimiter: options.delimiter.unwrap_or(by_name),
            quote: options.quote,
            header: options.header.unwrap_or(!is_dbgen),
            null,
            may_trail: is_dbgen,
            infer_row_count: options.infer_row_count,
        }
    }

    pub(crate) fn records(&self) -> Records {
        Records::Quoted { delimiter: self.delimiter, quote: self.quote }
    }

    /// For arrow-csv; whether the first record is a header is decided here, not by the options.
    fn format(&self, header: bool) -> Format {
        let format =
            Format::default().with_delimiter(self.delimiter).with_quote(self.quote).with_header(header);
        match &self.null {
            Some(null) => format.with_null_regex(null.clone()),
            None => format,
        }
    }

    /// The fields of one record, as text.
    fn fields(&self, record: &[u8]) -> ArrowResult<Vec<String>> {
        let text = String::from_utf8_lossy(record);
        let (schema, _) = self.format(true).infer_schema(Cursor::new(text.as_bytes()), Some(0))?;
        Ok(schema.fields().iter().map(|field| field.name().clone()).collect())
    }
}

/// The columns of one CSV file.
#[derive(Debug, Clone)]
pub(crate) struct CsvFile {
    pub(crate) dialect: Dialect,
    /// As the table has them.
    columns: Vec<Field>,
    /// As parsed: binary as text, a nameless last column for a trailing delimiter.
    parsed: SchemaRef,
}

impl CsvFile {
    /// Reads the head of the file and infers names and types; `None` where the file holds no record.
    pub(crate) fn infer(listed: &ListedFile, dialect: Dialect) -> Result<Option<Self>> {
        let Some(first) = head_fields(listed, &dialect)? else { return Ok(None) };
        let trails = trails(&dialect, &first, None);
        let reader = open_text(listed, Arc::new(AtomicU64::new(0)))?;
        // Ragged rows, and text that is not UTF-8, are for the parser to report with their line.
        let format = dialect.format(dialect.header).with_truncated_rows(true);
        let inferred = format.infer_schema(reader, Some(dialect.infer_row_count));
        let fields: Fields = match &inferred {
            Ok((schema, _)) => schema.fields().clone(),
            Err(error) => {
                if let Some(error) = of_store(error) {
                    return Err(error);
                }
                first.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect()
            }
        };
        let column_count = fields.len() - usize::from(trails);
        let columns = fields[..column_count].iter().map(|field| inferred_field(field)).collect();
        Ok(Some(Self::new(dialect, columns, trails)))
    }

    /// Reads the head of a file whose columns are those of `staging`; `None` where the file holds no record.
    pub(crate) fn with_schema(
        listed: &ListedFile,
        dialect: Dialect,
        staging: &Schema,
    ) -> Result<Option<Self>> {
        let Some(first) = head_fields(listed, &dialect)? else { return Ok(None) };
        let trails = trails(&dialect, &first, Some(staging.fields().len()));
        let column_count = first.len() - usize::from(trails);
        let columns: Vec<Field> = if dialect.header {
            // A name the table lacks is reported where the files are held against each other.
            let field = |name: &String| staging.field_with_name(name).cloned();
            let unknown = |name: &String| Field::new(name, DataType::Utf8, true);
            first[..column_count].iter().map(|name| field(name).unwrap_or_else(|_| unknown(name))).collect()
        } else if column_count == staging.fields().len() {
            staging.fields().iter().map(|field| field.as_ref().clone()).collect()
        } else {
            return Err(Error::invalid_input(format!(
                "{}, line 1: {column_count} fields where {} are expected",
                listed.name(),
                staging.fields().len()
            )));
        };
        Ok(Some(Self::new(dialect, columns, trails)))
    }

    fn new(dialect: Dialect, columns: Vec<Field>, trails: bool) -> Self {
        let columns: Vec<Field> = columns.into_iter().map(|field| field.with_nullable(true)).collect();
        let parsed = parsed_schema(&columns, trails);
        Self { dialect, columns, parsed }
    }

    /// The columns as the table would have them.
    pub(crate) fn arrow_schema(&self) -> Schema {
        Schema::new(self.columns.clone())
    }

    /// The rows of `block`; the nameless column comes with them.
    pub(crate) fn parse(&self, name: &str, block: &TextBlock) -> Result<Vec<RecordBatch>> {
        self.decode(&block.bytes).map_err(|error| self.locate(name, block, error))
    }

    fn decoder(&self, batch_rows: usize) -> Decoder {
        ReaderBuilder::new(Arc::clone(&self.parsed))
            .with_format(self.dialect.format(false))
            .with_batch_size(batch_rows)
            .build_decoder()
    }

    fn decode(&self, mut bytes: &[u8]) -> ArrowResult<Vec<RecordBatch>> {
        let mut decoder = self.decoder(BATCH_ROWS);
        let mut batches = Vec::new();
        loop {
            // An empty slice ends the last record, which may lack its newline.
            let count = decoder.decode(bytes)?;
            bytes = &bytes[count..];
            if decoder.capacity() == 0 || count == 0 {
                match decoder.flush()? {
                    Some(batch) => batches.push(batch),
                    None => return Ok(batches),
                }
            }
        }
    }

    /// The error that names the first record that does not parse; `found` where none does alone.
    fn locate(&self, name: &str, block: &TextBlock, found: ArrowError) -> Error {
        let mut start = 0;
        while start < block.bytes.len() {
            let record = first_record(&block.bytes[start..], self.dialect.records());
            if self.decode(record).is_err() {
                let blank = record.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
                let line = block.first_line + line_count(&block.bytes[..start + blank]);
                return self.explain(&format!("{name}, line {line}"), &record[blank..], found);
            }
            start += record.len();
        }
        Error::invalid_input(format!("{name}, after line {}", block.first_line)).with_source(found)
    }

    /// What is wrong with `record`.
    fn explain(&self, place: &str, record: &[u8], found: ArrowError) -> Error {
        let Ok(fields) = self.dialect.fields(record) else {
            return Error::invalid_input(place).with_source(found);
        };
        if fields.len() != self.parsed.fields().len() {
            let trailing = self.parsed.fields().len() - self.columns.len();
            return Error::invalid_input(format!(
                "{place}: {} fields where {} are expected",
                fields.len().saturating_sub(trailing),
                self.columns.len()
            ));
        }
        let is_text = std::str::from_utf8(record).is_ok();
        for (field, text) in self.parsed.fields().iter().zip(&fields) {
            if !is_text && text.contains(char::REPLACEMENT_CHARACTER) {
                return Error::invalid_input(format!(
                    "{place}, column '{}': the text is not UTF-8",
                    field.name()
                ));
            }
            if is_text && !self.parses(field, text) {
                return Error::invalid_input(format!(
                    "{place}, column '{}': '{text}' is not a valid {}",
                    field.name(),
                    super::type_name(field.data_type())
                ));
            }
        }
        Error::invalid_input(place).with_source(found)
    }

    /// Whether `text` alone is a value of `field`.
    fn parses(&self, field: &Field, text: &str) -> bool {
        if text.is_empty() {
            return true;
        }
        let quoted = format!("\"{}\"\n", text.replace('"', "\"\""));
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let format = Dialect { quote: b'"', ..self.dialect.clone() }.format(false);
        let mut decoder = ReaderBuilder::new(schema).with_format(format).with_batch_size(1).build_decoder();
        decoder.decode(quoted.as_bytes()).is_ok() && decoder.flush().is_ok()
    }
}

/// The fields of the first record; `None` in a file without one.
fn head_fields(listed: &ListedFile, dialect: &Dialect) -> Result<Option<Vec<String>>> {
    let name = listed.name();
    let mut head = Vec::new();
    open_text(listed, Arc::new(AtomicU64::new(0)))?
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(|error| read_error(&name, error))?;
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    let record = first_record(text, dialect.records());
    if record.iter().all(|byte| matches!(byte, b'\n' | b'\r')) {
        return Ok(None);
    }
    let fields = dialect.fields(record);
    fields.map(Some).map_err(|error| Error::invalid_input(format!("{name}, line 1")).with_source(error))
}

/// Whether the last field of the first record is only what follows a trailing delimiter.
fn trails(dialect: &Dialect, first: &[String], column_count: Option<usize>) -> bool {
    let ends_empty = first.len() > 1 && first.last().is_some_and(String::is_empty);
    match column_count {
        Some(count) => ends_empty && (dialect.header || first.len() == count + 1),
        None => ends_empty && (dialect.header || dialect.may_trail),
    }
}

fn parsed_schema(columns: &[Field], trails: bool) -> SchemaRef {
    let parsed = |field: &Field| {
        // arrow-csv does not parse binary; the text is taken as it stands.
        let data_type = match field.data_type() {
            DataType::Binary => DataType::Utf8,
            other => other.clone(),
        };
        field.clone().with_data_type(data_type)
    };
    let nameless = trails.then(|| Field::new("", DataType::Utf8, true));
    Arc::new(Schema::new(columns.iter().map(parsed).chain(nameless).collect::<Fields>()))
}

/// A column that is empty as far as one looked is text.
fn inferred_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Null => DataType::Utf8,
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true)
}
