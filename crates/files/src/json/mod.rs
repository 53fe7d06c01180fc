//! JSON lines: one object per line. What the members are, parsing a block, and saying exactly what is wrong with one.
//!
//! Three habits of arrow-json are turned off. It reads `1.5` into an integer column as 1, and cuts fractions of seconds:
//! what is no text, boolean or double is therefore taken as text and parsed strictly. It drops members it does not know:
//! they are errors here where all columns are wanted. A scalar in a text column is taken as its text.

mod member;
mod scan;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, new_empty_array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::{ArrowError, Result as ArrowResult};
use arrow::json::ReaderBuilder;
use arrow::json::reader::{Decoder, infer_json_schema};
use pelton_error::{Error, Result};

use crate::column::{Fit, WantedColumn, shown};
use crate::seen::Seen;
use crate::text::TextBlock;
use crate::values::{Texts, is_parsed, parsed};
use member::Clash;
pub(crate) use member::MemberSeen;
use scan::{Problem, members};

/// Rows parsed into one batch.
const BATCH_ROWS: usize = 8192;

/// The members of the objects in a file, or in a part of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct JsonShape {
    names: Vec<String>,
    seen: Vec<MemberSeen>,
    by_name: HashMap<String, usize>,
}

impl JsonShape {
    /// What the first `row_count` objects of `block`, a block of file `name`, hold, and how many these are.
    pub(crate) fn look(name: &str, block: &TextBlock, row_count: usize) -> Result<(Self, usize)> {
        let mut shape = Self::default();
        let (mut rows, mut line_number) = (0, block.first_line);
        for line in lines(&block.bytes) {
            if rows == row_count {
                break;
            }
            let place = || format!("{name}, line {line_number}");
            if !line.iter().all(u8::is_ascii_whitespace) {
                shape.add_line(line, &place)?;
                rows += 1;
            }
            line_number += 1;
        }
        Ok((shape, rows))
    }

    fn add_line(&mut self, line: &[u8], place: &dyn Fn() -> String) -> Result<()> {
        let (mut position, mut clash) = (0, None);
        let walked = members(line, |name, seen| {
            let found = self.position(name, position);
            if let Err(problem) = self.add(found, seen) {
                clash.get_or_insert(problem);
            }
            position = found + 1;
        });
        let clash = match (walked, clash) {
            (Err(Problem::NoObject), _) => {
                return Err(Error::invalid_input(format!("{}: not one JSON object", place())));
            }
            (Err(Problem::Clash(clash)), _) | (Ok(()), Some(clash)) => clash,
            (Ok(()), None) => return Ok(()),
        };
        Err(Error::invalid_input(format!("{}: {clash}", place())))
    }

    /// Where member `name` is among the columns, likely at `guess`; it is made one if it is none yet.
    fn position(&mut self, name: &str, guess: usize) -> usize {
        if self.names.get(guess).is_some_and(|guessed| guessed == name) {
            return guess;
        }
        if let Some(&position) = self.by_name.get(name) {
            return position;
        }
        let position = self.names.len();
        self.by_name.insert(name.to_owned(), position);
        self.names.push(name.to_owned());
        self.seen.push(MemberSeen::NOTHING);
        position
    }

    /// Adds what was seen of the column at `position`.
    fn add(&mut self, position: usize, seen: MemberSeen) -> std::result::Result<(), Clash> {
        self.seen[position].add(seen).map_err(|clash| clash.within(&self.names[position]))
    }

    /// Adds what a later part of the file holds.
    pub(crate) fn append(&mut self, name: &str, later: Self) -> Result<()> {
        for (member, seen) in later.names.iter().zip(later.seen) {
            let position = self.position(member, self.names.len());
            self.add(position, seen).map_err(|clash| Error::invalid_input(format!("{name}: {clash}")))?;
        }
        Ok(())
    }

    /// The members and what was seen of them.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, &MemberSeen)> {
        self.names.iter().map(String::as_str).zip(&self.seen)
    }
}

/// The lines of `bytes`, whatever ends them, without the breaks. A CR LF is one break.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        let after = if rest[end..].starts_with(b"\r\n") { end + 2 } else { (end + 1).min(rest.len()) };
        rest = &rest[after..];
        Some(line)
    })
}

/// An array of texts.
struct TextArray<'a>(&'a StringArray);

impl Texts for TextArray<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// The wanted members of `block`, a block of file `name`, and its rows. `known` are all members that the file may have,
/// where one that it may not have is an error.
pub(crate) fn parse(
    name: &str,
    block: &TextBlock,
    wanted: &[WantedColumn<'_>],
    known: Option<&[String]>,
    fit: &Fit,
) -> Result<(Vec<ArrayRef>, usize)> {
    if std::str::from_utf8(&block.bytes).is_err() {
        return Err(not_text(name, block));
    }
    let reader = JsonReader::new(wanted, known);
    reader.decode(&block.bytes).map_err(|error| reader.locate(name, block, fit, error))
}

struct JsonReader<'a> {
    wanted: &'a [WantedColumn<'a>],
    known: Option<&'a [String]>,
    /// The wanted columns as arrow-json takes them.
    taken: SchemaRef,
}

/// The type that a column is taken as, before it is parsed or cast.
fn taken_as(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Boolean | DataType::Float64 | DataType::Float32 | DataType::Utf8 | DataType::Binary => {
            data_type.clone()
        }
        DataType::List(field) => DataType::List(Arc::new(taken_field(field))),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|field| Arc::new(taken_field(field))).collect())
        }
        _ if is_parsed(data_type) => DataType::Utf8,
        _ => data_type.clone(),
    }
}

fn taken_field(field: &Field) -> Field {
    field.clone().with_data_type(taken_as(field.data_type())).with_nullable(true)
}

impl<'a> JsonReader<'a> {
    fn new(wanted: &'a [WantedColumn<'a>], known: Option<&'a [String]>) -> Self {
        let field = |column: &WantedColumn<'_>| Field::new(column.name, taken_as(column.data_type), true);
        let taken = Arc::new(Schema::new(wanted.iter().map(field).collect::<Fields>()));
        Self { wanted, known, taken }
    }

    /// All rows of `bytes`.
    fn decode(&self, bytes: &[u8]) -> ArrowResult<(Vec<ArrayRef>, usize)> {
        let (batches, row_count) = decode(&self.taken, self.known.is_some(), bytes)?;
        let arrays = self.wanted.iter().enumerate().map(|(index, column)| {
            let pieces: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(index).as_ref()).collect();
            let all = match pieces[..] {
                [] => new_empty_array(self.taken.field(index).data_type()),
                _ => concat(&pieces)?,
            };
            if all.data_type() == column.data_type {
                return Ok(all);
            }
            if all.data_type() == &DataType::Utf8 && is_parsed(column.data_type) {
                let texts = TextArray(all.as_string());
                return parsed(&texts, column.data_type)
                    .map_err(|row| ArrowError::ParseError(texts.get(row).unwrap_or_default().to_owned()));
            }
            let strictly = CastOptions { safe: false, ..Default::default() };
            cast_with_options(&all, column.data_type, &strictly)
        });
        Ok((arrays.collect::<ArrowResult<_>>()?, row_count))
    }

    /// The error that names the first line that does not parse; `found` where none does alone.
    fn locate(&self, name: &str, block: &TextBlock, fit: &Fit, found: ArrowError) -> Error {
        for (index, line) in lines(&block.bytes).enumerate() {
            if let Err(error) = self.decode(line) {
                let place = format!("{name}, line {}", block.first_line + index as u64);
                return self.explain(&place, line, fit, error);
            }
        }
        Error::invalid_input(format!("{name}, after line {}", block.first_line)).with_source(found)
    }

    /// What is wrong with `line`.
    fn explain(&self, place: &str, line: &[u8], fit: &Fit, found: ArrowError) -> Error {
        if decode(&Arc::new(Schema::empty()), false, line).is_err() {
            return Error::invalid_input(format!("{place}: not one JSON object")).with_source(found);
        }
        for index in 0..self.wanted.len() {
            let alone = JsonReader::new(&self.wanted[index..=index], None);
            if alone.decode(line).is_err() {
                let column = &self.wanted[index];
                let (text, wider) = member_text(column.name, line);
                return column.misfit_of(place, &text, &wider);
            }
        }
        let members = infer_json_schema(line, None).map(|(members, _)| members);
        let known = self.known.unwrap_or_default();
        let is_known = |field: &&Arc<Field>| known.contains(field.name());
        match members.as_ref().ok().and_then(|members| members.fields().iter().find(|field| !is_known(field)))
        {
            Some(unknown) => {
                fit.note_misfit();
                Error::invalid_input(format!(
                    "{place}: column '{}' is not among the columns that were found before; infer from more rows \
                     (--infer-rows all, or SET pelton.infer_rows = 'all'), or load into a table that has it",
                    unknown.name()
                ))
            }
            None => Error::invalid_input(place).with_source(found),
        }
    }
}

fn not_text(name: &str, block: &TextBlock) -> Error {
    let line = lines(&block.bytes).position(|line| std::str::from_utf8(line).is_err());
    Error::invalid_input(format!(
        "{name}, line {}: the text is not UTF-8; name its encoding (--encoding latin1, or SET pelton.encoding)",
        block.first_line + line.unwrap_or_default() as u64
    ))
}

/// The value of member `name` as a message shows it, and a type that would hold it.
fn member_text(name: &str, line: &[u8]) -> (String, DataType) {
    let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]));
    let text = decode(&schema, false, line).ok().and_then(|(batches, _)| {
        let batch = batches.into_iter().next()?;
        Some(batch.column(0).as_string::<i32>().value(0).to_owned())
    });
    match text {
        Some(text) => {
            let is_number = matches!(Seen::of_number(&text).data_type(), DataType::Int64 | DataType::Float64);
            let wider = if is_number { DataType::Float64 } else { DataType::Utf8 };
            (format!("'{}'", shown(&text)), wider)
        }
        None => ("a list or an object".to_owned(), DataType::Utf8),
    }
}

/// All rows of `bytes` as `schema`, and how many; `strict` refuses members that are not in it.
fn decode(schema: &SchemaRef, strict: bool, mut bytes: &[u8]) -> ArrowResult<(Vec<RecordBatch>, usize)> {
    let mut decoder = decoder(schema, strict)?;
    let (mut batches, mut row_count) = (Vec::new(), 0);
    loop {
        let count = decoder.decode(bytes)?;
        bytes = &bytes[count..];
        if bytes.is_empty() || decoder.len() == BATCH_ROWS {
            row_count += decoder.len();
            match decoder.flush()? {
                Some(batch) => batches.push(batch),
                None => return Ok((batches, row_count)),
            }
        }
    }
}

fn decoder(schema: &SchemaRef, strict: bool) -> ArrowResult<Decoder> {
    ReaderBuilder::new(Arc::clone(schema))
        .with_strict_mode(strict)
        .with_coerce_primitive(true)
        .with_batch_size(BATCH_ROWS)
        .build_decoder()
}
