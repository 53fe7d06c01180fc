//! Texts that come out of a run as the numbers of their rows: fetched from the table, for those rows alone.
//!
//! ```text
//!   row numbers   57, 1048580, 3   ─▶  by row group: read and decode the pages that hold a row, pick the rows
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{ArrayRef, UInt64Array, new_null_array};
use datafusion::arrow::compute::{cast, concat, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use pelton_error::{CancelFlag, Error, Result};
use pelton_pipeline::{RowColumn, RowValues, Rows};
use pelton_store::{IoEngine, Table, column_to_arrow, read_chunk_pages_blocking};

use super::value::LateText;
use crate::error::from_datafusion;

/// The late columns of a result as arrays, by column: all their pages at once, in as many threads as `threads`.
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
    for (column, late) in late.iter().enumerate() {
        let Some(late) = late else { continue };
        wanted.extend(wanted_of(column, late, &rows.columns[column])?);
    }
    let chunks = in_parallel(&wanted, threads, cancel, |wanted| {
        let (table, column) = (&wanted.late.table, wanted.late.column);
        read_chunk_pages_blocking(io, table, wanted.group, column, &wanted.pages())
    })?;
    let pages: Vec<(usize, usize)> = wanted
        .iter()
        .enumerate()
        .flat_map(|(chunk, wanted)| wanted.by_page.keys().map(move |page| (chunk, *page)))
        .collect();
    let texts =
        in_parallel(&pages, threads, cancel, |(chunk, page)| wanted[*chunk].texts(*page, &chunks[*chunk]))?;
    let mut found: BTreeMap<usize, (Vec<ArrayRef>, Vec<usize>)> = BTreeMap::new();
    for ((chunk, page), texts) in pages.into_iter().zip(texts) {
        let (arrays, places) = found.entry(wanted[chunk].output).or_default();
        arrays.push(texts);
        places.extend(wanted[chunk].by_page[&page].iter().map(|(_, place)| *place));
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
    /// By page: the row in the page, and its place in the result.
    by_page: BTreeMap<usize, Vec<(u64, usize)>>,
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

    /// The texts of the rows in `page`, in their order.
    fn texts(&self, page: usize, bytes: &[u8]) -> Result<ArrayRef> {
        let (table, column) = (&self.late.table, self.late.column);
        let decode = || {
            let view = table.chunk_view(self.group, column, bytes)?;
            let pages: Vec<bool> = (0..view.page_count()).map(|other| other == page).collect();
            let array = column_to_arrow(view.decode_pages(&pages)?, &table.schema().columns[column].logical)?;
            let rows = self.by_page[&page].iter().map(|(row, _)| *row);
            take(array.as_ref(), &UInt64Array::from_iter_values(rows), None).map_err(arrow_error)
        };
        decode().map_err(|error| table.of_chunk(self.group, column, error))
    }
}

/// What `work` makes of each of `parts`, in order, in as many threads as `threads`.
fn in_parallel<P: Sync, T: Send>(
    parts: &[P],
    threads: usize,
    cancel: &CancelFlag,
    work: impl Fn(&P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(parts.len())));
    let run = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(index) else { return Ok(()) };
            cancel.check()?;
            let one = work(part)?;
            made.lock().unwrap_or_else(PoisonError::into_inner).push((index, one));
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let helpers = threads.min(parts.len()).saturating_sub(1);
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(run)).collect();
        let own = run();
        for helper in helpers {
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        own
    })?;
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_by_key(|(index, _)| *index);
    Ok(made.into_iter().map(|(_, one)| one).collect())
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
