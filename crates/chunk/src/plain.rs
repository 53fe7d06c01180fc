//! Values as they are: fixed-width words, or lengths and bytes.
//!
//! ```text
//! fixed width, body: value 0 │ value 1 │ …
//! byte strings, body: lengths as in the bit-packed layout │ bytes of all values
//!              params: base = shortest length, width, count = bytes of all values
//! ```

use pelton_error::Result;

use crate::bitpack;
use crate::format::{PageParams, corrupt};
use crate::lanes::{Lane, Word, as_bytes};
use crate::types::ByteValues;
use crate::view::Page;

/// Bytes of a body of `rows` byte strings; `None` where the parameters are impossible.
pub(crate) fn strings_body_bytes(params: &PageParams, rows: usize) -> Option<u64> {
    Some(bitpack::body_bytes(u32::BITS, params.width, rows)? + u64::from(params.count))
}

/// Appends the body of a page of fixed-width values.
pub(crate) fn encode<T: Word>(values: &[T], body: &mut Vec<u8>) -> PageParams {
    body.extend_from_slice(as_bytes(values));
    PageParams::default()
}

/// Appends a page's fixed-width values to `values`.
pub(crate) fn decode<L: Lane>(page: &Page<'_>, values: &mut Vec<L>) {
    L::extend_from_le(values, page.body);
}

/// Appends a page's 128-bit values to `values`.
pub(crate) fn decode_wide(page: &Page<'_>, values: &mut Vec<i128>) {
    let words = page.body.chunks_exact(size_of::<i128>());
    values.extend(words.map(|word| i128::from_le_bytes(word.try_into().expect("chunks are exact"))));
}

/// Appends the body of a page of byte strings of these lengths; `texts` has all their bytes, in any pieces.
pub(crate) fn encode_strings<'a>(
    lengths: &[u32],
    texts: impl Iterator<Item = &'a [u8]>,
    body: &mut Vec<u8>,
) -> PageParams {
    let params = bitpack::encode(lengths, 0, body);
    let text_start = body.len();
    texts.for_each(|text| body.extend_from_slice(text));
    PageParams { count: (body.len() - text_start) as u32, ..params }
}

/// Appends a page's byte strings to `strings`.
pub(crate) fn decode_strings(page: &Page<'_>, strings: &mut ByteValues) -> Result<()> {
    let bytes = &page.body[page.body.len() - page.params.count as usize..];
    let bytes_start = strings.data.len() as u64;
    let bytes_end = bytes_start + bytes.len() as u64;
    if bytes_end > u64::from(u32::MAX) {
        return Err(corrupt("more than 4 GiB of text in one chunk"));
    }

    let mut end = bytes_start;
    bitpack::for_each_vector::<u32, _>(page, page.params.base as u32, |lengths| {
        // 1024 lengths below 2^32 cannot overflow; nor can an offset that was cut to 32 bits and is checked here.
        strings.offsets.extend(lengths.iter().map(|length| {
            end += u64::from(*length);
            end as u32
        }));
        if end > bytes_end { Err(corrupt("text lengths exceed the text")) } else { Ok(()) }
    })?;
    if end != bytes_end {
        return Err(corrupt("text is longer than its lengths say"));
    }
    strings.data.extend_from_slice(bytes);
    Ok(())
}
