//! The dictionary of a text column: the union of those of its chunks.
//!
//! ```text
//!   chunk 0   AIR RAIL SHIP            union   0 AIR  1 MAIL  2 RAIL  3 SHIP        sorted, so numbers compare
//!   chunk 1   MAIL SHIP                        chunk 0: 0 2 3   chunk 1: 1 3        as the texts do
//! ```
//!
//! Small tables' columns without a dictionary get one here, with a number for each row in place of each code.
//!
//! One pass over the chunks, in pinned memory or on disk: their entries get numbers in the order in which they come;
//! at the end the entries are sorted and the numbers replaced. Bound: each distinct text once, one number an entry of
//! a chunk, and [`READ_AHEAD_BYTES`] of chunks.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pelton_chunk::{ByteValues, DecodedColumn, DecodedValues, PhysicalType, Values};
use pelton_error::{CancelFlag, Error, Result, ResultExt};
use pelton_io::IoEngine;
use pelton_pipeline::{Dictionary, TextSource};
use pelton_store::{ChunkRead, Table, read_chunk};

use super::ColumnCache;
use super::extent::StoredColumn;
use super::formats::{TextForm, check_has_dictionary, may_have_dictionary, text_form};

/// Chunks read ahead.
const READ_AHEAD_BYTES: u64 = 32 << 20;
/// What a NULL row has in place of a number, until there are none.
const NO_NUMBER: u32 = u32::MAX;
/// Entries of all dictionary mappings together, at most: 256 MiB of numbers.
const MAPPING_ENTRIES_MAX: usize = 64 << 20;

/// The dictionary of a column over all row groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableText {
    /// Distinct texts, in ascending order of their bytes.
    pub dictionary: Arc<Dictionary>,
    /// Dictionary mappings: by row group, for each code of its chunk the number of the entry. A constant chunk has one
    /// code, 0; one without values has none. Of a column that has a chunk without a dictionary: for each row of the row
    /// group, and anything for NULL.
    pub mappings: Vec<Vec<u32>>,
}

/// Where a dictionary is cached once it was read.
pub(super) type TextCell = Mutex<Option<Arc<TableText>>>;

/// Reads the dictionary of a text column from disk.
///
/// # Errors
///
/// `Unsupported` for a column that is not stored by dictionary or has too many entries, `InvalidInput` for one that is
/// not text, `Corrupt` for damaged chunks, `Cancelled`, errors of reading.
pub fn column_dictionary(
    table: &Arc<Table>,
    column: usize,
    io: &IoEngine,
    cancel: &CancelFlag,
) -> Result<TableText> {
    union_of(table, column, cancel, |union| {
        let mut ahead: VecDeque<(usize, ChunkRead, u64)> = VecDeque::new();
        let mut ahead_bytes = 0;
        let mut next = 0;
        while next < table.row_group_count() || !ahead.is_empty() {
            cancel.check()?;
            while next < table.row_group_count() && (ahead.is_empty() || ahead_bytes < READ_AHEAD_BYTES) {
                let bytes = table.chunk(next, column)?.stored_bytes;
                ahead.push_back((next, read_chunk(io, table, next, column)?, bytes));
                ahead_bytes += bytes;
                next += 1;
            }
            if let Some((row_group, read, bytes)) = ahead.pop_front() {
                ahead_bytes -= bytes;
                union.add(&read.wait_blocking()?, row_group)?;
            }
        }
        Ok(())
    })
}

/// As [`column_dictionary`], from memory.
fn pinned_dictionary(
    table: &Arc<Table>,
    column: usize,
    pinned: &StoredColumn,
    cancel: &CancelFlag,
) -> Result<TableText> {
    union_of(table, column, cancel, |union| {
        for (row_group, place) in pinned.places.iter().enumerate() {
            cancel.check()?;
            let range = place.start..place.start + place.bytes;
            pinned.extents[place.extent].with_bytes(|bytes| union.add(&bytes[range], row_group))??;
        }
        Ok(())
    })
}

fn union_of(
    table: &Arc<Table>,
    column: usize,
    cancel: &CancelFlag,
    read: impl FnOnce(&mut Union<'_>) -> Result<()>,
) -> Result<TableText> {
    if table.schema().columns[column].logical.physical_type() == PhysicalType::Bytes
        && !may_have_dictionary(table, column)?
    {
        check_has_dictionary(table, column)?;
    }
    let mut union = Union::new(table, column)?;
    let text = read(&mut union).and_then(|()| cancel.check()).and_then(|()| union.finish());
    let name = &table.schema().columns[column].name;
    text.context(|| format!("reading the dictionary of column '{name}' of table '{}'", table.name()))
}

/// Builds the dictionary of a column.
struct Union<'a> {
    table: &'a Table,
    column: usize,
    /// By text, in order of appearance.
    numbers: HashMap<Box<[u8]>, u32>,
    mappings: Vec<Vec<u32>>,
    /// Chunks often have the dictionary of the one before.
    last: ByteValues,
    entry_count: usize,
    /// Whether mappings are by row, not by code.
    is_by_row: bool,
}

impl<'a> Union<'a> {
    fn new(table: &'a Table, column: usize) -> Result<Self> {
        Ok(Self {
            is_by_row: is_by_row(table, column)?,
            table,
            column,
            numbers: HashMap::new(),
            mappings: Vec::with_capacity(table.row_group_count()),
            last: ByteValues::default(),
            entry_count: 0,
        })
    }

    /// Adds the dictionary of the next row group's chunk.
    fn add(&mut self, bytes: &[u8], row_group: usize) -> Result<()> {
        let view = self.table.chunk_view(row_group, self.column, bytes)?;
        if self.is_by_row {
            let decoded =
                view.decode().map_err(|error| self.table.of_chunk(row_group, self.column, error))?;
            self.add_rows(&decoded);
            return Ok(());
        }
        let strings = view.strings().map_err(|error| self.table.of_chunk(row_group, self.column, error))?;
        let strings = strings.ok_or_else(|| Error::invalid_input("its values are numbers, not text"))?;
        self.entry_count += strings.len();
        if self.entry_count > MAPPING_ENTRIES_MAX {
            return Err(Error::unsupported(format!(
                "the dictionaries of its row groups have more than {MAPPING_ENTRIES_MAX} entries; leave the column out \
                 of the query, or load the table with more rows a row group"
            )));
        }
        let mapping = match self.mappings.last() {
            Some(mapping) if strings == self.last => mapping.clone(),
            _ => strings.iter().map(|text| self.number_of(text)).collect(),
        };
        self.mappings.push(mapping);
        self.last = strings;
        Ok(())
    }

    /// Adds each row of the next row group.
    fn add_rows(&mut self, decoded: &DecodedColumn) {
        let is_valid = |row: usize| decoded.validity.as_ref().is_none_or(|validity| validity.is_valid(row));
        let mut mapping = vec![NO_NUMBER; decoded.len()];
        for (row, number) in mapping.iter_mut().enumerate().filter(|(row, _)| is_valid(*row)) {
            let text = match &decoded.values {
                DecodedValues::Plain(Values::Bytes(texts)) => texts.get(row),
                DecodedValues::Dictionary { codes, dictionary } => dictionary.get(codes[row] as usize),
                DecodedValues::Plain(_) => unreachable!("the column is text"),
            };
            *number = self.number_of(text);
        }
        self.mappings.push(mapping);
    }

    fn number_of(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.into(), number);
        number
    }

    fn finish(self) -> Result<TableText> {
        let mut texts: Vec<(Box<[u8]>, u32)> = self.numbers.into_iter().collect();
        texts.sort_unstable();
        let byte_count: usize = texts.iter().map(|(text, _)| text.len()).sum();
        if u32::try_from(byte_count).is_err() {
            return Err(Error::unsupported(format!(
                "its distinct texts have {byte_count} bytes and 4 GiB is the most; leave the column out of the query"
            )));
        }
        let mut entries = ByteValues::default();
        let mut ranks = vec![0; texts.len()];
        for (rank, (text, number)) in texts.iter().enumerate() {
            entries.push(text)?;
            ranks[*number as usize] = rank as u32;
        }
        let mut mappings = self.mappings;
        for number in mappings.iter_mut().flatten() {
            *number = ranks.get(*number as usize).copied().unwrap_or(0);
        }
        Ok(TableText { dictionary: Arc::new(Dictionary::new(entries)), mappings })
    }
}

fn is_by_row(table: &Table, column: usize) -> Result<bool> {
    let is_text = table.schema().columns[column].logical.physical_type() == PhysicalType::Bytes;
    Ok(is_text && text_form(table, column)? == TextForm::Views)
}

/// The dictionary of a text column of a snapshot, read when it is first asked for.
pub struct ColumnText {
    column_cache: Arc<ColumnCache>,
    table: Arc<Table>,
    column: usize,
    /// Shared by all who ask for this column.
    cell: Arc<TextCell>,
    text: OnceLock<Arc<TableText>>,
}

impl ColumnText {
    pub(super) fn new(
        column_cache: Arc<ColumnCache>,
        table: Arc<Table>,
        column: usize,
        cell: Arc<TextCell>,
    ) -> Self {
        Self { column_cache, table, column, cell, text: OnceLock::new() }
    }

    /// Whether mappings say the entry of each row, not of each code: of a column that is stored without a dictionary.
    ///
    /// # Errors
    ///
    /// Of reading the chunk directory.
    pub fn is_by_row(&self) -> Result<bool> {
        is_by_row(&self.table, self.column)
    }

    /// The dictionary mapping of each row group; see [`TableText::mappings`].
    ///
    /// # Errors
    ///
    /// As [`column_dictionary`], where it has not been read.
    pub fn mappings(&self) -> Result<&[Vec<u32>]> {
        self.load(&CancelFlag::new()).map(|text| text.mappings.as_slice())
    }

    /// Reads the dictionary unless it is here: from pinned memory if it is there, else from disk. One reads, others
    /// who ask for the same column wait.
    ///
    /// # Errors
    ///
    /// As [`column_dictionary`]; the next call tries again.
    pub fn load(&self, cancel: &CancelFlag) -> Result<&Arc<TableText>> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let mut cell = self.cell.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match &*cell {
            Some(text) => Arc::clone(text),
            None => {
                let text = Arc::new(self.read(cancel)?);
                *cell = Some(Arc::clone(&text));
                text
            }
        };
        Ok(self.text.get_or_init(|| text))
    }

    fn read(&self, cancel: &CancelFlag) -> Result<TableText> {
        match self.column_cache.pinned((self.table.id(), self.column)) {
            Some(pinned) => pinned_dictionary(&self.table, self.column, &pinned, cancel),
            None => column_dictionary(&self.table, self.column, &self.column_cache.io, cancel),
        }
    }
}

impl TextSource for ColumnText {
    fn dictionary(&self) -> Result<Arc<Dictionary>> {
        self.load(&CancelFlag::new()).map(|text| Arc::clone(&text.dictionary))
    }
}

impl fmt::Debug for ColumnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.table.schema().columns[self.column].name;
        write!(f, "text of column '{name}' of table '{}'", self.table.name())
    }
}
