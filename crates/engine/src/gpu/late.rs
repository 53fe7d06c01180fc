//! Texts that come out of a run as the numbers of their rows: fetched from the table, for those rows alone.
//!
//! ```text
//!   row numbers   57, 1048580, 3   ─▶  by row group: the pages that hold a row, kept from before (text_pages.rs) or
//!                                      read, decoded and kept  ─▶  pick the rows
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, UInt64Array, new_null_array};
use datafusion::arrow::compute::{cast, concat, take};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use pelton_error::{CancelFlag, Error, Result};
use pelton_exec::ReadTexts;
use pelton_io::{AlignedBytes, IoEngine};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_scan::parallel;
use pelton_store::{Table, column_to_arrow, read_chunk_pages_blocking};

use super::device::DeviceHandle;
use super::text::{text_array, texts};
use super::text_pages::{PageKey, TextPages};
use super::value::LateText;
use crate::error::from_datafusion;
use crate::extract::parts_of;

/// Bytes of chunks that are in memory at once. A guess.
const BATCH_BYTES: u64 = 256 << 20;

/// Rows that are picked from kept pages in one thread: to start another takes as long. A guess.
const ROWS_OF_ONE_THREAD: usize = 1 << 14;

/// What reads texts.
pub(super) struct Reader<'r> {
    pub(super) io: &'r Arc<IoEngine>,
    pub(super) pages: &'r TextPages,
    pub(super) threads: usize,
    pub(super) cancel: &'r CancelFlag,
}

impl<'r> Reader<'r> {
    /// With what `device` has.
    pub(super) fn of(device: &'r DeviceHandle, cancel: &'r CancelFlag) -> Self {
        Self { io: device.io(), pages: device.text_pages(), threads: device.threads(), cancel }
    }
}

/// The late columns of a result as arrays, by column: the pages of all at once, in as many threads as `reader` may use.
///
/// # Errors
///
/// Of reading the tables, which name the chunk; `Cancelled`.
pub(super) fn fetch_all(
    late: &[Option<LateText>],
    rows: &Rows,
    schema: &SchemaRef,
    reader: &Reader<'_>,
) -> Result<Vec<Option<ArrayRef>>> {
    let (mut wanted, mut found) = (Vec::new(), Found::new());
    // A run in which no row group was left has no columns.
    for (output, (late, column)) in late.iter().zip(&rows.columns).enumerate() {
        let Some(late) = late else { continue };
        wanted.extend(wanted_of(output, late, column)?);
        add_constants(&mut found, output, late, column)?;
    }
    let wanted = reader.take_kept(wanted, &mut found)?;
    for wanted in batches(&wanted)? {
        reader.read(wanted, &mut found)?;
    }
    let fetched = late.iter().zip(schema.fields()).enumerate().map(|(column, (late, field))| {
        let (arrays, places) = found.remove(&column).unwrap_or_default();
        let Some(late) = late else { return Ok(None) };
        let texts = in_order(&arrays, &places, rows.row_count, field.data_type())?;
        Ok(Some(match &late.extract {
            Some(extract) => parts_of(&texts, extract).expect("type of the texts, asked when it was planned"),
            None => texts,
        }))
    });
    fetched.collect()
}

/// The texts that rows are sorted by, read for those rows whose texts begin alike.
pub(super) struct KeyTexts {
    /// By sort key.
    pub(super) keys: Vec<Option<LateText>>,
    pub(super) device: Arc<DeviceHandle>,
    pub(super) cancel: CancelFlag,
}

impl ReadTexts for KeyTexts {
    fn read(&self, key: usize, numbers: &[i64], give: &mut dyn FnMut(&[u8])) -> Result<()> {
        let Some(Some(late)) = self.keys.get(key) else {
            return Err(Error::invalid_input(format!("sort key {key} is no text that is read")));
        };
        let values = RowValues::I64(numbers.to_vec());
        let rows = Rows { row_count: numbers.len(), columns: vec![RowColumn { values, valid: None }] };
        let field = late.table.arrow_schema().field(late.column).clone();
        let (late, schema) = ([Some(late.clone())], Arc::new(Schema::new(vec![field])));
        let fetched = fetch_all(&late, &rows, &schema, &Reader::of(&self.device, &self.cancel))?;
        for array in fetched.iter().flatten() {
            for text in texts(array) {
                give(text.ok_or_else(|| Error::corrupt("a text that was there is NULL"))?);
            }
        }
        Ok(())
    }
}

/// Puts the numbers of rows in the place of keys that are hashes of texts, and drops the columns that they were.
pub(super) fn rows_as_keys(rows: &mut Rows, key_rows: &[(usize, usize)]) {
    // A run in which no row group was left has no columns.
    if rows.columns.is_empty() {
        return;
    }
    for &(key, row) in key_rows {
        rows.columns.swap(key, row);
    }
    rows.columns.truncate(rows.columns.len() - key_rows.len());
}

/// By column of the result: texts, and their places in it.
type Found = BTreeMap<usize, (Vec<ArrayRef>, Vec<usize>)>;

impl Reader<'_> {
    /// Takes what is on pages that are kept; gives the chunks with the pages that are not.
    fn take_kept<'a>(&self, mut wanted: Vec<Wanted<'a>>, found: &mut Found) -> Result<Vec<Wanted<'a>>> {
        let mut kept = Vec::new();
        for of_chunk in &mut wanted {
            for page in of_chunk.by_page.keys().copied().collect::<Vec<_>>() {
                let Some(texts) = self.pages.get(of_chunk.key(page)) else { continue };
                let rows = of_chunk.by_page.remove(&page).expect("it was just there");
                kept.push((of_chunk.output, texts, rows));
            }
        }
        let row_count: usize = kept.iter().map(|(_, _, rows)| rows.len()).sum();
        let threads = self.threads.min(row_count.div_ceil(ROWS_OF_ONE_THREAD));
        let texts = parallel::map(kept.iter().collect(), threads, self.cancel, |(_, texts, rows)| {
            rows_of_page(texts, rows)
        })?;
        for ((output, _, rows), texts) in kept.iter().zip(texts) {
            add(found, *output, texts, rows);
        }
        wanted.retain(|of_chunk| !of_chunk.by_page.is_empty());
        Ok(wanted)
    }

    /// Reads the pages of `wanted`, keeps them, and takes what is on them.
    fn read(&self, wanted: &[Wanted<'_>], found: &mut Found) -> Result<()> {
        let chunks = parallel::map(wanted.iter().collect(), self.threads, self.cancel, |wanted| {
            let (table, column) = (&wanted.late.table, wanted.column);
            read_chunk_pages_blocking(self.io, table, wanted.group, column, &wanted.pages())
        })?;
        let pages = wanted.iter().zip(&chunks).flat_map(|(wanted, bytes)| {
            wanted.by_page.iter().map(move |(page, rows)| (wanted, bytes, *page, rows))
        });
        let decode = |(wanted, bytes, page, rows): (&Wanted<'_>, &AlignedBytes, _, &Vec<_>)| {
            let texts = wanted.decode(page, bytes)?;
            self.pages.keep(wanted.key(page), &texts);
            rows_of_page(&texts, rows)
        };
        let texts = parallel::map(pages.clone().collect(), self.threads, self.cancel, decode)?;
        for ((wanted, _, _, rows), texts) in pages.zip(texts) {
            add(found, wanted.output, texts, rows);
        }
        Ok(())
    }
}

fn add(found: &mut Found, output: usize, texts: ArrayRef, rows: &[RowOfPage]) {
    let (arrays, places) = found.entry(output).or_default();
    arrays.push(texts);
    places.extend(rows.iter().map(|(_, place)| *place));
}

/// The texts of these rows of a page, in their order. They do not hold on to the page.
fn rows_of_page(page: &ArrayRef, rows: &[RowOfPage]) -> Result<ArrayRef> {
    let rows = UInt64Array::from_iter_values(rows.iter().map(|(row, _)| *row));
    let texts = take(page.as_ref(), &rows, None).map_err(arrow_error)?;
    match texts.as_string_view_opt() {
        Some(texts) => Ok(Arc::new(texts.gc())),
        None => Ok(texts),
    }
}

/// Rows of one chunk.
struct Wanted<'a> {
    late: &'a LateText,
    /// The column of the result.
    output: usize,
    /// The column of the table.
    column: usize,
    group: usize,
    by_page: BTreeMap<usize, Vec<RowOfPage>>,
}

/// The row in its page, and its place in the result.
type RowOfPage = (u64, usize);

/// `wanted` in batches of at most [`BATCH_BYTES`] of chunks, or of one chunk.
fn batches<'w, 'a>(wanted: &'w [Wanted<'a>]) -> Result<Vec<&'w [Wanted<'a>]>> {
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, next) in wanted.iter().enumerate() {
        let more = next.late.table.chunk(next.group, next.column)?.stored_bytes;
        if index > start && bytes + more > BATCH_BYTES {
            batches.push(&wanted[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += more;
    }
    if start < wanted.len() {
        batches.push(&wanted[start..]);
    }
    Ok(batches)
}

/// The chunks that hold what `rows` numbers.
fn wanted_of<'a>(output: usize, late: &'a LateText, rows: &RowColumn) -> Result<Vec<Wanted<'a>>> {
    let RowValues::I64(numbers) = &rows.values else {
        return Err(Error::invalid_input("a run gave row numbers of another type"));
    };
    let is_valid = |row: usize| rows.valid.as_ref().is_none_or(|valid| valid[row]);
    let firsts = first_rows(&late.table);
    let page_rows = u64::from(late.table.page_rows());
    let table_rows = late.table.row_count().max(1);
    let mut wanted: BTreeMap<(usize, usize), Wanted<'a>> = BTreeMap::new();
    let is_stored = |(place, number): &(usize, &i64)| **number >= 0 && is_valid(*place);
    for (place, &number) in numbers.iter().enumerate().filter(is_stored) {
        let (which, row) = ((number as u64 / table_rows) as usize, number as u64 % table_rows);
        let column = if which == 0 { late.column } else { late.further[which - 1] };
        let group = firsts.partition_point(|first| *first <= row) - 1;
        let row = row - firsts[group];
        let of_chunk = wanted.entry((which, group)).or_insert_with(|| Wanted {
            late,
            output,
            column,
            group,
            by_page: BTreeMap::new(),
        });
        of_chunk.by_page.entry((row / page_rows) as usize).or_default().push((row % page_rows, place));
    }
    Ok(wanted.into_values().collect())
}

/// Takes the texts of numbers below 0, which are of no row.
fn add_constants(found: &mut Found, output: usize, late: &LateText, rows: &RowColumn) -> Result<()> {
    let RowValues::I64(numbers) = &rows.values else { return Ok(()) };
    let is_valid = |row: usize| rows.valid.as_ref().is_none_or(|valid| valid[row]);
    let is_constant = |(place, number): &(usize, &i64)| **number < 0 && is_valid(*place);
    let of_constants = numbers.iter().enumerate().filter(is_constant);
    let places: Vec<RowOfPage> = of_constants.map(|(place, number)| ((-1 - number) as u64, place)).collect();
    if places.is_empty() {
        return Ok(());
    }
    let schema = late.table.arrow_schema();
    let constants = late.constants.iter().map(|text| Some(text.as_bytes()));
    let texts = text_array(schema.field(late.column).data_type(), constants)?;
    add(found, output, rows_of_page(&texts, &places)?, &places);
    Ok(())
}

impl Wanted<'_> {
    /// Which pages of the chunk hold a row.
    fn pages(&self) -> Vec<bool> {
        let row_count = self.late.table.row_group(self.group).row_count;
        let page_count = row_count.div_ceil(self.late.table.page_rows()) as usize;
        (0..page_count).map(|page| self.by_page.contains_key(&page)).collect()
    }

    fn key(&self, page: usize) -> PageKey {
        PageKey { table: self.late.table.id(), group: self.group, column: self.column, page }
    }

    /// The texts of `page`.
    fn decode(&self, page: usize, bytes: &[u8]) -> Result<ArrayRef> {
        let (table, column) = (&self.late.table, self.column);
        let decode = || {
            let view = table.chunk_view(self.group, column, bytes)?;
            let pages: Vec<bool> = (0..view.page_count()).map(|other| other == page).collect();
            column_to_arrow(view.decode_pages(&pages)?, &table.schema().columns[column].logical)
        };
        decode().map_err(|error| table.of_chunk(self.group, column, error))
    }
}

/// The first row of each row group.
fn first_rows(table: &Table) -> Vec<u64> {
    let counts = (0..table.row_group_count()).map(|group| u64::from(table.row_group(group).row_count));
    let firsts = counts.scan(0, |next, count| {
        let first = *next;
        *next += count;
        Some(first)
    });
    firsts.collect()
}

/// `arrays`, whose rows have these `places`, row by row of the result; NULL for the other rows.
fn in_order(
    arrays: &[ArrayRef],
    row_places: &[usize],
    row_count: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    if arrays.is_empty() {
        return Ok(new_null_array(data_type, row_count));
    }
    let all = concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>()).map_err(arrow_error)?;
    let mut places = vec![None; row_count];
    for (at, row) in row_places.iter().enumerate() {
        places[*row] = Some(at as u64);
    }
    let texts = take(all.as_ref(), &UInt64Array::from(places), None).map_err(arrow_error)?;
    if texts.data_type() == data_type { Ok(texts) } else { cast(&texts, data_type).map_err(arrow_error) }
}

fn arrow_error(error: datafusion::arrow::error::ArrowError) -> Error {
    from_datafusion(error.into())
}
