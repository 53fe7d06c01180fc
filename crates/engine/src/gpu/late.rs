//! Texts that come out of a run as the numbers of their rows: fetched from the table, for those rows alone.
//!
//! ```text
//!   row numbers   57, 1048580, 3   ─▶  by row group: read and decode the pages that hold a row, pick the rows
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt64Array, new_null_array};
use datafusion::arrow::compute::{cast, concat, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use pelton_error::{CancelFlag, Error, Result};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_scan::parallel;
use pelton_store::{IoEngine, Table, column_to_arrow, read_chunk_pages_blocking};

use super::value::LateText;
use crate::error::from_datafusion;

/// Bytes of chunks that are in memory at once. A guess.
const BATCH_BYTES: u64 = 256 << 20;

/// The late columns of a result as arrays, by column: the pages of all at once, in as many threads as `threads`.
///
/// # Errors
///
/// Of reading the tables, which name the chunk; `Cancelled`.
pub(super) fn fetch_all(
    late: &[Option<LateText>],
    rows: &Rows,
    schema: &SchemaRef,
    io: &Arc<IoEngine>,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<Vec<Option<ArrayRef>>> {
    let mut wanted = Vec::new();
    // A run in which no row group was left has no columns.
    for (output, (late, column)) in late.iter().zip(&rows.columns).enumerate() {
        let Some(late) = late else { continue };
        wanted.extend(wanted_of(output, late, column)?);
    }
    let mut found: BTreeMap<usize, (Vec<ArrayRef>, Vec<usize>)> = BTreeMap::new();
    for wanted in batches(&wanted)? {
        let chunks = parallel::map(wanted.iter().collect(), threads, cancel, |wanted| {
            let (table, column) = (&wanted.late.table, wanted.late.column);
            read_chunk_pages_blocking(io, table, wanted.group, column, &wanted.pages())
        })?;
        let pages = wanted.iter().zip(&chunks).flat_map(|(wanted, bytes)| {
            wanted.by_page.iter().map(move |(page, rows)| (wanted, bytes, *page, rows))
        });
        let texts =
            parallel::map(pages.clone().collect(), threads, cancel, |(wanted, bytes, page, rows)| {
                wanted.texts(page, rows, bytes)
            })?;
        for ((wanted, _, _, rows), texts) in pages.zip(texts) {
            let (arrays, places) = found.entry(wanted.output).or_default();
            arrays.push(texts);
            places.extend(rows.iter().map(|(_, place)| *place));
        }
    }
    let fetched = late.iter().zip(schema.fields()).enumerate().map(|(column, (late, field))| {
        let (arrays, places) = found.remove(&column).unwrap_or_default();
        late.as_ref().map(|_| in_order(&arrays, &places, rows.row_count, field.data_type())).transpose()
    });
    fetched.collect()
}

/// Rows of one chunk.
struct Wanted<'a> {
    late: &'a LateText,
    /// The column of the result.
    output: usize,
    group: usize,
    by_page: BTreeMap<usize, Vec<RowOfPage>>,
}

/// The row in its page, and its place in the result.
type RowOfPage = (u64, usize);

/// `wanted` in batches of at most [`BATCH_BYTES`] of chunks, or of one chunk.
fn batches<'w, 'a>(wanted: &'w [Wanted<'a>]) -> Result<Vec<&'w [Wanted<'a>]>> {
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, next) in wanted.iter().enumerate() {
        let more = next.late.table.chunk(next.group, next.late.column)?.stored_bytes;
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
    let mut wanted: BTreeMap<usize, Wanted<'a>> = BTreeMap::new();
    for (place, &number) in numbers.iter().enumerate().filter(|(place, _)| is_valid(*place)) {
        let group = firsts.partition_point(|first| *first <= number as u64) - 1;
        let row = number as u64 - firsts[group];
        let of_chunk =
            wanted.entry(group).or_insert_with(|| Wanted { late, output, group, by_page: BTreeMap::new() });
        of_chunk.by_page.entry((row / page_rows) as usize).or_default().push((row % page_rows, place));
    }
    Ok(wanted.into_values().collect())
}

impl Wanted<'_> {
    /// Which pages of the chunk hold a row.
    fn pages(&self) -> Vec<bool> {
        let row_count = self.late.table.row_group(self.group).row_count;
        let page_count = row_count.div_ceil(self.late.table.page_rows()) as usize;
        (0..page_count).map(|page| self.by_page.contains_key(&page)).collect()
    }

    /// The texts of these rows of `page`, in their order.
    fn texts(&self, page: usize, rows: &[RowOfPage], bytes: &[u8]) -> Result<ArrayRef> {
        let (table, column) = (&self.late.table, self.late.column);
        let decode = || {
            let view = table.chunk_view(self.group, column, bytes)?;
            let pages: Vec<bool> = (0..view.page_count()).map(|other| other == page).collect();
            let array = column_to_arrow(view.decode_pages(&pages)?, &table.schema().columns[column].logical)?;
            let rows = UInt64Array::from_iter_values(rows.iter().map(|(row, _)| *row));
            take(array.as_ref(), &rows, None).map_err(arrow_error)
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
