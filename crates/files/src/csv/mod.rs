//! CSV: what a file's columns are, parsing a block, and saying exactly what is wrong with one.
//!
//! ```text
//!   block ──split──▶ fields of the wanted columns ──values──▶ arrays
//!                          └─ a field that is no value: its row, its line, the column's name, the text
//! ```
//!
//! A column without a name in the header is called by its position, as all are where there is no header. The last one,
//! where it is empty in every row that was looked at, is no column: each line ends with a delimiter.

mod split;

use std::path::Path;

use arrow::array::ArrayRef;
use pelton_error::{Error, Result};

use crate::column::{WantedColumn, shown};
use crate::files::inner_extension;
use crate::options::TextOptions;
use crate::seen::Seen;
use crate::text::{Records, Syntax, TextBlock, first_record, line_count};
use crate::values::{Texts, parsed};
use split::{Split, Unsplit, first_fields};

/// How the CSV files of one kind are written.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    pub(crate) syntax: Syntax,
    pub(crate) header: bool,
    /// What stands for NULL beside the empty field.
    nulls: Vec<String>,
    /// Files of dbgen end each line with the delimiter.
    may_trail: bool,
}

impl Dialect {
    /// The dialect that `options` and the name of the file tell.
    pub(crate) fn of(path: &Path, options: &TextOptions) -> Self {
        let extension = inner_extension(path);
        let is_dbgen = extension.as_deref() == Some("tbl");
        let by_name = match extension.as_deref() {
            Some("tsv") => b'\t',
            Some("tbl") => b'|',
            _ => b',',
        };
        let syntax = Syntax {
            delimiter: options.delimiter.unwrap_or(by_name),
            quote: options.quote,
            escape: options.escape.filter(|&escape| Some(escape) != options.quote),
            comment: options.comment,
        };
        let header = options.header.unwrap_or(!is_dbgen);
        Self { syntax, header, nulls: options.nulls.clone(), may_trail: is_dbgen }
    }

    pub(crate) fn records(&self) -> Records {
        Records::Quoted(self.syntax)
    }

    fn is_null(&self, text: &str) -> bool {
        text.is_empty() || self.nulls.iter().any(|null| null == text)
    }
}

/// What was found out about a file.
#[derive(Debug, Clone)]
pub(crate) struct CsvShape {
    /// As the header has them, or by position.
    names: Vec<String>,
    /// True where the last column may be only what follows a trailing delimiter.
    may_trail: bool,
    seen: Vec<Seen>,
}

impl CsvShape {
    /// Takes the header of file `name` from the front of its first block; `None` where the block holds no record.
    pub(crate) fn of_head(name: &str, dialect: &Dialect, block: &mut TextBlock) -> Result<Option<Self>> {
        let (start, record) = first_record(&block.bytes, dialect.records());
        if start == record.len() {
            return Ok(None);
        }
        let end = record.len();
        let line = block.first_line + line_count(&block.bytes[..start]);
        let text = String::from_utf8_lossy(&record[start..]);
        let fields = first_fields(&text, dialect.syntax).map_err(|_| {
            Error::invalid_input(format!("{name}, line {line}: the quote of a field is not closed"))
        })?;
        let ends_empty = fields.len() > 1 && fields.last().is_some_and(String::is_empty);
        let names = names_of(name, dialect, fields)?;
        if dialect.header {
            block.first_line += line_count(&block.bytes[..end]);
            block.bytes.drain(..end);
        }
        let may_trail = ends_empty && (dialect.header || dialect.may_trail);
        Ok(Some(Self { seen: vec![Seen::NOTHING; names.len()], names, may_trail }))
    }

    /// What the first `row_count` rows of `block` hold, and how many these are.
    pub(crate) fn look(&self, dialect: &Dialect, block: &TextBlock, row_count: usize) -> (Vec<Seen>, usize) {
        let text = String::from_utf8_lossy(&block.bytes);
        let slots: Vec<Option<usize>> = (0..self.names.len()).map(Some).collect();
        let mut seen = vec![Seen::NOTHING; slots.len()];
        // A quote that is never closed is for the parser to report.
        let Ok(split) = Split::head(&text, dialect.syntax, &slots, row_count) else { return (seen, 0) };
        for (slot, seen) in seen.iter_mut().enumerate() {
            for (field, _) in split.fields(&text, slot) {
                if seen.is_text() {
                    break;
                }
                if !dialect.is_null(field) {
                    seen.add(Seen::of(field));
                }
            }
        }
        (seen, split.row_count())
    }

    pub(crate) fn add(&mut self, seen: &[Seen]) {
        self.seen.iter_mut().zip(seen).for_each(|(all, seen)| all.add(*seen));
    }

    /// The file's columns and what was seen in them.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, Seen)> {
        let count = self.names.len() - usize::from(self.trails());
        self.names[..count].iter().map(String::as_str).zip(self.seen.iter().copied())
    }

    fn trails(&self) -> bool {
        self.may_trail && self.seen.last().is_some_and(|seen| seen.is_nothing())
    }

    /// Gives the columns of file `name`, which has no header, the names of a table's.
    pub(crate) fn rename(&mut self, name: &str, names: &[String]) -> Result<()> {
        let count = self.names.len() - usize::from(self.trails());
        if count != names.len() {
            return Err(Error::invalid_input(format!(
                "{name}, line 1: {count} fields where {} are expected",
                names.len()
            )));
        }
        self.names[..count].clone_from_slice(names);
        Ok(())
    }
}

/// The names of the columns whose first record is `fields`.
fn names_of(file: &str, dialect: &Dialect, fields: Vec<String>) -> Result<Vec<String>> {
    let by_position = |index: usize| format!("column_{}", index + 1);
    if !dialect.header {
        return Ok((0..fields.len()).map(by_position).collect());
    }
    let names: Vec<String> =
        fields.into_iter().map(|field| field.trim_start_matches('\u{feff}').to_owned()).collect();
    let mut found: Vec<String> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let mut called = name.clone();
        if name.is_empty() {
            called = by_position(index);
            while names.contains(&called) {
                called.push('_');
            }
        }
        if found.contains(&called) {
            return Err(crate::column::named_twice(file, &called));
        }
        found.push(called);
    }
    Ok(found)
}

/// The columns of one CSV file, as they are parsed.
#[derive(Debug, Clone)]
pub(crate) struct CsvFile {
    pub(crate) dialect: Dialect,
    /// Of the file, without what follows a trailing delimiter.
    pub(crate) names: Vec<String>,
    trails: bool,
}

/// The column in a slot of a split, as text.
struct Column<'a> {
    split: &'a Split,
    text: &'a str,
    slot: usize,
    dialect: &'a Dialect,
    /// A quoted field of a text column is never NULL.
    is_text: bool,
}

impl Texts for Column<'_> {
    fn len(&self) -> usize {
        self.split.row_count()
    }

    fn get(&self, row: usize) -> Option<&str> {
        let (field, is_quoted) = self.split.field(self.text, self.slot, row);
        let is_null = (!is_quoted || !self.is_text) && self.dialect.is_null(field);
        (!is_null).then_some(field)
    }
}

impl CsvFile {
    pub(crate) fn new(dialect: Dialect, shape: &CsvShape) -> Self {
        let names = shape.columns().map(|(name, _)| name.to_owned()).collect();
        Self { dialect, names, trails: shape.trails() }
    }

    /// The wanted columns of `block`, a block of file `name`, and its rows.
    pub(crate) fn parse(
        &self,
        name: &str,
        block: &TextBlock,
        wanted: &[WantedColumn<'_>],
    ) -> Result<(Vec<ArrayRef>, usize)> {
        let text = std::str::from_utf8(&block.bytes)
            .map_err(|error| self.not_text(name, block, error.valid_up_to()))?;
        let mut slots: Vec<Option<usize>> = vec![None; self.names.len()];
        wanted.iter().enumerate().for_each(|(slot, column)| slots[column.position] = Some(slot));
        // What follows a trailing delimiter must stay empty.
        slots.extend(self.trails.then_some(Some(wanted.len())));
        let split =
            Split::of(text, self.dialect.syntax, &slots).map_err(|why| self.unsplit(name, block, why))?;
        if self.trails {
            self.check_trail(name, block, text, &split, wanted)?;
        }
        let arrays = wanted.iter().enumerate().map(|(slot, column)| {
            let is_text = column.data_type.is_string() || column.data_type.is_binary();
            let texts = Column { split: &split, text, slot, dialect: &self.dialect, is_text };
            parsed(&texts, column.data_type).map_err(|row| {
                let place = self.place(name, block, split.row_starts[row] as usize);
                column.misfit(&place, texts.get(row).unwrap_or_default())
            })
        });
        Ok((arrays.collect::<Result<_>>()?, split.row_count()))
    }

    fn check_trail(
        &self,
        name: &str,
        block: &TextBlock,
        text: &str,
        split: &Split,
        wanted: &[WantedColumn<'_>],
    ) -> Result<()> {
        let Some(row) = split.fields(text, wanted.len()).position(|(field, _)| !field.is_empty()) else {
            return Ok(());
        };
        wanted.iter().for_each(|column| column.fit.note_misfit());
        let place = self.place(name, block, split.row_starts[row] as usize);
        Err(Error::invalid_input(format!(
            "{place}: '{}' lies in a column without a name that was empty in the rows before; infer from more rows \
             (--infer-rows all, or SET pelton.infer_rows = 'all')",
            shown(split.field(text, wanted.len(), row).0)
        )))
    }

    /// File and line of the record at `offset` of `block`.
    fn place(&self, name: &str, block: &TextBlock, offset: usize) -> String {
        format!("{name}, line {}", block.first_line + line_count(&block.bytes[..offset]))
    }

    fn unsplit(&self, name: &str, block: &TextBlock, why: Unsplit) -> Error {
        match why {
            Unsplit::Ragged { start, found } => Error::invalid_input(format!(
                "{}: {} fields where {} are expected",
                self.place(name, block, start),
                found.saturating_sub(usize::from(self.trails)),
                self.names.len()
            )),
            Unsplit::Unclosed { start } => Error::invalid_input(format!(
                "{}: the quote of a field is not closed; if quotes enclose nothing here, say --quote ''",
                self.place(name, block, start)
            )),
        }
    }

    /// The error of a block that is not UTF-8 from `offset` on.
    fn not_text(&self, name: &str, block: &TextBlock, offset: usize) -> Error {
        let slots: Vec<Option<usize>> = (0..self.names.len() + usize::from(self.trails)).map(Some).collect();
        let mut start = 0;
        while start < block.bytes.len() {
            let (skipped, record) = first_record(&block.bytes[start..], self.dialect.records());
            if offset < start + record.len() {
                let text = String::from_utf8_lossy(&record[skipped..]);
                let split = Split::head(&text, self.dialect.syntax, &slots, 1);
                let is_wrong = |slot: &usize| {
                    let field = split.as_ref().ok().filter(|split| split.row_count() > 0);
                    field.is_some_and(|split| {
                        split.field(&text, *slot, 0).0.contains(char::REPLACEMENT_CHARACTER)
                    })
                };
                let column = (0..self.names.len()).find(is_wrong);
                let column = column.map_or(String::new(), |slot| format!(", column '{}'", self.names[slot]));
                let place = self.place(name, block, start + skipped);
                return Error::invalid_input(format!(
                    "{place}{column}: the text is not UTF-8; name its encoding (--encoding latin1, or SET pelton.encoding)"
                ));
            }
            start += record.len();
        }
        Error::invalid_input(format!("{name}, after line {}: the text is not UTF-8", block.first_line))
    }
}
