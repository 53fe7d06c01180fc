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
use datafusion::arrow::datatypes::DataType;
use pelton_error::{CancelFlag, Error, Result};
use pelton_pipeline::{RowColumn, RowValues};
use pelton_store::{IoEngine, Table, column_to_arrow, read_chunk_pages_blocking};

use super::value::LateText;
use crate::error::from_datafusion;

/// The texts of the rows that `rows` numbers, as `data_type`; in as many threads as `threads`.
///
/// # Errors
///
/// Of reading the table, which name the chunk; `Cancelled`.
pub(super) fn fetch(
    late: &LateText,
    rows: &RowColumn,
    data_type: &DataType,
    io: &IoEngine,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<ArrayRef> {
    let RowValues::I64(numbers) = &rows.values else {
        return Err(Error::invalid_input("a run gave row numbers of another type"));
    };
    let is_valid = |row: usize| rows.valid.as_ref().is_none_or(|valid| valid[row]);
    let firsts = first_rows(&late.table);
    let mut wanted: BTreeMap<usize, Vec<(u32, usize)>> = BTreeMap::new();
    for (row, &number) in numbers.iter().enumerate().filter(|(row, _)| is_valid(*row)) {
        let group = firsts.partition_point(|first| *first <= number as u64) - 1;
        wanted.entry(group).or_default().push(((number as u64 - firsts[group]) as u32, row));
    }
    let groups: Vec<_> = wanted.into_iter().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(groups.len())));
    let work = || -> Result<()> {
        while let Some((group, rows)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            cancel.check()?;
            let texts = of_row_group(late, *group, rows, io)?;
            found.lock().unwrap_or_else(PoisonError::into_inner).push((*group, texts));
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let helpers = threads.min(groups.len()).saturating_sub(1);
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
        let own = work();
        for helper in helpers {
            helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        own
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(group, _)| *group);
    in_order(&groups, found, numbers.len(), data_type)
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

/// The texts of `rows` of row group `group`, in their order.
fn of_row_group(late: &LateText, group: usize, rows: &[(u32, usize)], io: &IoEngine) -> Result<ArrayRef> {
    let (table, column) = (&late.table, late.column);
    let row_count = table.row_group(group).row_count as usize;
    let page_rows = table.page_rows() as usize;
    let mut pages = vec![false; row_count.div_ceil(page_rows)];
    rows.iter().for_each(|(row, _)| pages[*row as usize / page_rows] = true);
    let bytes = read_chunk_pages_blocking(io, table, group, column, &pages)?;
    let decode = || {
        let view = table.chunk_view(group, column, &bytes)?;
        let array = column_to_arrow(view.decode_pages(&pages)?, &table.schema().columns[column].logical)?;
        // Where the rows of each decoded page begin.
        let mut begins = vec![0; pages.len()];
        let mut next = 0;
        for (page, _) in pages.iter().enumerate().filter(|(_, decoded)| **decoded) {
            begins[page] = next;
            next += page_rows.min(row_count - page * page_rows);
        }
        let places = rows.iter().map(|(row, _)| {
            let row = *row as usize;
            (begins[row / page_rows] + row % page_rows) as u64
        });
        take(array.as_ref(), &UInt64Array::from_iter_values(places), None).map_err(arrow_error)
    };
    decode().map_err(|error| table.of_chunk(group, column, error))
}

/// What was found, row by row of the result; NULL for rows without a number.
fn in_order(
    groups: &[(usize, Vec<(u32, usize)>)],
    found: Vec<(usize, ArrayRef)>,
    row_count: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    if found.is_empty() {
        return Ok(new_null_array(data_type, row_count));
    }
    let arrays: Vec<_> = found.iter().map(|(_, array)| array.as_ref()).collect();
    let all = concat(&arrays).map_err(arrow_error)?;
    let mut places = vec![None; row_count];
    for (place, (_, row)) in groups.iter().flat_map(|(_, rows)| rows).enumerate() {
        places[*row] = Some(place as u64);
    }
    let texts = take(all.as_ref(), &UInt64Array::from(places), None).map_err(arrow_error)?;
    if texts.data_type() == data_type { Ok(texts) } else { cast(&texts, data_type).map_err(arrow_error) }
}

fn arrow_error(error: datafusion::arrow::error::ArrowError) -> Error {
    from_datafusion(error.into())
}

/// The late columns of a result as arrays, by column.
pub(super) fn fetch_all(
    late: &[Option<LateText>],
    rows: &pelton_pipeline::Rows,
    schema: &datafusion::arrow::datatypes::SchemaRef,
    io: &Arc<IoEngine>,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<Vec<Option<ArrayRef>>> {
    let columns = late.iter().zip(&rows.columns).zip(schema.fields());
    let fetched = columns.map(|((late, column), field)| match late {
        Some(late) => fetch(late, column, field.data_type(), io, threads, cancel).map(Some),
        None => Ok(None),
    });
    fetched.collect()
}
