//! Runs of equal values: where each ends and what it holds.
//!
//! Bound: a run costs the width of a row number in the page plus the width of its value, about 14 + 10 bits in
//! typical pages, so it pays from runs of three or four rows. Ends instead of lengths: a thread finds its run by
//! binary search without a prefix sum.
//!
//! ```text
//! body: stream of last rows (count × extra bits) │ stream of values (count × width bits), offsets from base
//! params: base = smallest value, width, count = runs, extra = bits of a row number
//! ```
//!
//! Run `i` holds the rows after run `i - 1`'s last row up to its own; the last run ends with the page.

use pelton_error::Result;

use crate::bitpack;
use crate::bitstream::{self, BitStream};
use crate::format::{PAGE_ROWS_MAX, PageParams, corrupt};
use crate::lanes::Lane;
use crate::view::Page;

/// A run is written in blocks of this many values, over the rows that later runs then overwrite.
const FILL_ROWS: usize = 8;

/// Bytes of a body of `rows` values; `None` where the parameters are impossible for words of `bits`.
pub(crate) fn body_bytes(bits: u32, params: &PageParams, rows: usize) -> Option<u64> {
    let is_possible = (1..=rows as u64).contains(&params.count.into())
        && u32::from(params.width) <= bits
        && u32::from(params.extra) <= PAGE_ROWS_MAX.ilog2();
    let stream_bytes = |width| bitstream::stream_bytes(params.count, width) as u64;
    is_possible.then(|| stream_bytes(params.extra) + stream_bytes(params.width))
}

/// Appends the body of a page of at least one value.
pub(crate) fn encode<L: Lane>(values: &[L], flip: L, body: &mut Vec<u8>) -> PageParams {
    let (last_rows, run_values) = find(values);
    let (base, width) = bitpack::frame(&run_values, flip);
    let row_bits = (values.len() as u64 - 1).bit_len() as u8;
    bitstream::write(last_rows.iter().map(|row| u64::from(*row)), row_bits, body);
    bitstream::write(run_values.iter().map(|value| value.wrapping_sub(base).to_u64()), width as u8, body);
    PageParams {
        base: base.to_u64().into(),
        base_of_bases: 0,
        count: last_rows.len() as u32,
        width: width as u8,
        extra: row_bits,
    }
}

/// The last row and the value of each run.
fn find<L: Lane>(values: &[L]) -> (Vec<u32>, Vec<L>) {
    let mut last_rows = Vec::new();
    let mut run_values = Vec::new();
    for (row, pair) in values.windows(2).enumerate() {
        if pair[0] != pair[1] {
            last_rows.push(row as u32);
            run_values.push(pair[0]);
        }
    }
    last_rows.push(values.len() as u32 - 1);
    run_values.push(values[values.len() - 1]);
    (last_rows, run_values)
}

/// Appends a page's values to `values`; `value_of` makes a value from a run's offset.
pub(crate) fn decode<T: Copy + Default>(
    page: &Page<'_>,
    values: &mut Vec<T>,
    value_of: impl Fn(u64) -> Result<T>,
) -> Result<()> {
    let PageParams { count, width, extra, .. } = page.params;
    let (last_rows, offsets) = page.body.split_at(bitstream::stream_bytes(count, extra));
    let (last_rows, offsets) = (BitStream::new(last_rows, extra), BitStream::new(offsets, width));

    let rows_start = values.len();
    values.resize(rows_start + page.rows + FILL_ROWS, T::default());
    let rows = &mut values[rows_start..];
    let mut start = 0;
    for run in 0..count as usize {
        let end = last_rows.get(run) as usize + 1;
        if end <= start || end > page.rows {
            return Err(corrupt(format!("run {run} ends at row {end} of {}", page.rows)));
        }
        let value = value_of(offsets.get(run))?;
        rows[start..start + FILL_ROWS].fill(value);
        if end > start + FILL_ROWS {
            rows[start + FILL_ROWS..end].fill(value);
        }
        start = end;
    }
    if start != page.rows {
        return Err(corrupt(format!("runs end at row {start} of {}", page.rows)));
    }
    values.truncate(rows_start + page.rows);
    Ok(())
}
