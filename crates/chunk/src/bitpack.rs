//! Frame of reference and bit packing: the layout under most others.
//!
//! A page's values become offsets from its smallest, and each vector of 1024 offsets is packed to the width of
//! the page's largest. The last vector is filled up with offset 0.
//!
//! ```text
//! body: vector 0 (128 × width bytes) │ vector 1 │ …        width 0: no body
//! params: base = smallest value, width
//! ```
//!
//! Frame of reference after Goldstein, Ramakrishnan, Shaft: "Compressing Relations and Indexes" (1998).

use crate::format::PageParams;
use crate::lanes::{Lane, VECTOR};
use crate::view::Page;

/// Bytes of a body of `rows` values; `None` where the width is impossible for words of `bits`.
pub(crate) fn body_bytes(bits: u32, width: u8, rows: usize) -> Option<u64> {
    (u32::from(width) <= bits).then(|| (rows.div_ceil(VECTOR) * vector_bytes(width)) as u64)
}

/// Bytes of a packed vector.
pub(crate) fn vector_bytes(width: u8) -> usize {
    VECTOR / 8 * usize::from(width)
}

/// The smallest value, ordered after `flip`ping bits, and the bits that the largest offset from it takes.
pub(crate) fn frame<L: Lane>(values: &[L], flip: L) -> (L, u32) {
    let smallest = values.iter().fold(!L::default(), |min, value| min.min(*value ^ flip));
    let largest = values.iter().fold(L::default(), |max, value| max.max(*value ^ flip));
    (smallest ^ flip, largest.wrapping_sub(smallest).bit_len())
}

/// Appends the body of a page of at least one value.
pub(crate) fn encode<L: Lane>(values: &[L], flip: L, body: &mut Vec<u8>) -> PageParams {
    let (base, width) = frame(values, flip);
    pack(values, base, width, body);
    PageParams { base: base.to_u64().into(), width: width as u8, ..PageParams::default() }
}

/// Appends the offsets of `values` from `base`, vector by vector.
pub(crate) fn pack<L: Lane>(values: &[L], base: L, width: u32, body: &mut Vec<u8>) {
    for vector in values.chunks(VECTOR) {
        let mut offsets = [L::default(); VECTOR];
        for (offset, value) in offsets.iter_mut().zip(vector) {
            *offset = value.wrapping_sub(base);
        }
        L::pack(width, &offsets, body);
    }
}

/// Appends a page's values to `values`.
pub(crate) fn decode<L: Lane>(page: &Page<'_>, values: &mut Vec<L>) {
    let base = L::from_u64(page.params.base as u64);
    let rows_end = values.len() + page.rows;
    for packed in vectors(page.body, page.params.width, page.rows) {
        values.resize(values.len() + VECTOR, L::default());
        L::unpack(page.params.width.into(), base, packed, values.last_chunk_mut().expect("just made room"));
    }
    values.truncate(rows_end);
}

/// Calls `take` with the values of each vector in turn, the last one cut to the rows there are.
pub(crate) fn for_each_vector<L: Lane, E>(
    page: &Page<'_>,
    base: L,
    mut take: impl FnMut(&[L]) -> Result<(), E>,
) -> Result<(), E> {
    let mut values = [L::default(); VECTOR];
    let mut rows_left = page.rows;
    for packed in vectors(page.body, page.params.width, page.rows) {
        L::unpack(page.params.width.into(), base, packed, &mut values);
        take(&values[..rows_left.min(VECTOR)])?;
        rows_left -= rows_left.min(VECTOR);
    }
    Ok(())
}

/// The packed vectors at the start of `body`.
pub(crate) fn vectors(body: &[u8], width: u8, rows: usize) -> impl Iterator<Item = &[u8]> {
    let bytes = vector_bytes(width);
    (0..rows.div_ceil(VECTOR)).map(move |vector| &body[vector * bytes..][..bytes])
}
