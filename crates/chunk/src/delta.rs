//! Differences of neighbours, for sorted and nearly sorted integers.
//!
//! A vector of 1024 values of T bits is cut into 1024/T lanes of T consecutive values (the FastLanes transposed
//! order), so that all lanes add up in parallel. Each lane starts from a base: the value before the lane's first.
//! The differences are then packed with a frame of reference, the bases as offsets of 1, 2, 4 or 8 bytes from the
//! page's smallest base. At two bytes the bases of a vector of 64-bit values cost a quarter of a bit a value.
//!
//! ```text
//! body: bases of all vectors (lanes × base bytes each), padded to 128 │ packed vector 0 │ packed vector 1 │ …
//! params: base = smallest difference (signed), width, base_of_bases = smallest base, extra = bytes of a base
//! ```

use crate::bitpack;
use crate::format::{PageParams, SECTION_ALIGN};
use crate::lanes::{LANES_MAX, Lane, VECTOR, lane_start};
use crate::view::Page;

/// Bytes of a body of `rows` values; `None` where the parameters are impossible for words of `bits`.
pub(crate) fn body_bytes(bits: u32, params: &PageParams, rows: usize) -> Option<u64> {
    let is_base_width = matches!(params.extra, 1 | 2 | 4 | 8) && u32::from(params.extra) * 8 <= bits;
    if !is_base_width {
        return None;
    }
    let bases = bases_bytes(VECTOR / bits as usize, params.extra, rows);
    Some(bases as u64 + bitpack::body_bytes(bits, params.width, rows)?)
}

fn bases_bytes(lanes: usize, base_width_bytes: u8, rows: usize) -> usize {
    (rows.div_ceil(VECTOR) * lanes * usize::from(base_width_bytes)).next_multiple_of(SECTION_ALIGN)
}

/// Appends the body of a page of at least one value.
pub(crate) fn encode<L: Lane>(values: &[L], flip: L, body: &mut Vec<u8>) -> PageParams {
    let mut bases: Vec<L> = Vec::new();
    let mut deltas: Vec<L> = Vec::with_capacity(values.len().next_multiple_of(VECTOR));
    let mut previous = value_before(values, flip);
    for vector in values.chunks(VECTOR) {
        let vector = continued(vector);
        let bases_start = bases.len();
        bases.push(previous);
        bases.extend((1..L::LANES).map(|lane| vector[lane_start(lane) - 1]));
        previous = vector[VECTOR - 1];

        let mut vector_deltas = [L::default(); VECTOR];
        L::delta(&vector, &bases[bases_start..], &mut vector_deltas);
        deltas.extend_from_slice(&vector_deltas);
    }

    let (base_of_bases, base_width_bytes) = write_bases(&bases, flip, values.len(), body);
    let params = bitpack::encode(&deltas, L::SIGN, body);
    PageParams { base_of_bases: base_of_bases.to_u64(), extra: base_width_bytes, ..params }
}

/// What to imagine before the first value: a step like the next one where that does not wrap around, so that
/// evenly spaced values have one difference only.
fn value_before<L: Lane>(values: &[L], flip: L) -> L {
    let [first, second, ..] = values else { return values[0] };
    let before = first.wrapping_sub(second.wrapping_sub(*first));
    if before ^ flip <= *first ^ flip { before } else { *first }
}

/// The vector, filled up with values that go on in the last step.
fn continued<L: Lane>(vector: &[L]) -> [L; VECTOR] {
    let last = vector.len() - 1;
    let step = vector[last].wrapping_sub(vector[last.saturating_sub(1)]);
    let mut full = [vector[last]; VECTOR];
    full[..vector.len()].copy_from_slice(vector);
    for row in vector.len()..VECTOR {
        full[row] = full[row - 1].wrapping_add(step);
    }
    full
}

/// Appends the bases and their padding; returns the smallest and the bytes each takes.
fn write_bases<L: Lane>(bases: &[L], flip: L, rows: usize, body: &mut Vec<u8>) -> (L, u8) {
    let (smallest, bits) = bitpack::frame(bases, flip);
    let width_bytes = (bits.div_ceil(8) as usize).next_power_of_two();
    let end = body.len() + bases_bytes(L::LANES, width_bytes as u8, rows);
    for base in bases {
        let offset = base.wrapping_sub(smallest).to_u64();
        body.extend_from_slice(&offset.to_le_bytes()[..width_bytes]);
    }
    body.resize(end, 0);
    (smallest, width_bytes as u8)
}

/// Appends a page's values to `values`.
pub(crate) fn decode<L: Lane>(page: &Page<'_>, values: &mut Vec<L>) {
    let PageParams { base, base_of_bases, width, extra, .. } = page.params;
    let (bases, packed) = page.body.split_at(bases_bytes(L::LANES, extra, page.rows));
    let rows_end = values.len() + page.rows;
    let mut deltas = [L::default(); VECTOR];
    let mut vector_bases = [L::default(); LANES_MAX];
    let bases = bases.chunks_exact(L::LANES * usize::from(extra));
    for (packed, bases) in bitpack::vectors(packed, width, page.rows).zip(bases) {
        L::unpack(width.into(), L::from_u64(base as u64), packed, &mut deltas);
        for (base, offset) in vector_bases.iter_mut().zip(bases.chunks_exact(extra.into())) {
            let mut word = [0; 8];
            word[..offset.len()].copy_from_slice(offset);
            *base = L::from_u64(base_of_bases.wrapping_add(u64::from_le_bytes(word)));
        }
        values.resize(values.len() + VECTOR, L::default());
        L::undelta(&deltas, &vector_bases[..L::LANES], values.last_chunk_mut().expect("just made room"));
    }
    values.truncate(rows_end);
}
