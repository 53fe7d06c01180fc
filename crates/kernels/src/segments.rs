//! Segmented sort: elements that lie one after the other and belong together, each such segment sorted on its own.
//! (What a table consists of is called segments too and has nothing to do with it.)
//!
//! ```text
//!   offsets   0         3   3               8        segment s begins at offsets[s] and ends where the next one begins
//!   numbers   0  0  0       2  2  2  2  2   3  ...   which segment each element is of
//! ```
//!
//! All segments are sorted at once, however long or short each is: by key with the segment's number beside it, then,
//! stable, by number with the key beside it. That costs a sort of pairs and a pass for every 8 bits of the number of
//! segments, and nothing is lost where segments are uneven.

use std::sync::Arc;

use pelton_device::{Span, Work};
use pelton_error::Result;

use crate::library::{Library, cuda_form};
use crate::memory::{with_source, with_target};
use crate::mix::short_word;
use crate::order::{Direction, KeyOrder, KeyType};
use crate::shape::{assert_apart, element_count, key_count};
use crate::sort::{RadixSort, sort_pairs};
use crate::sys;

/// Element i of `target`, 32 bits, becomes the number of the segment that i is in. `offsets` are words: where each
/// segment begins, in ascending order, the first of them 0; equal ones make empty segments.
///
/// # Panics
///
/// If elements or offsets are not whole or not aligned, spans overlap, there are elements and no offsets, or more than
/// 2^32 offsets.
pub fn number_segments(library: Option<&Arc<Library>>, offsets: Span, target: Span) -> Work {
    let segment_count = element_count(&offsets, 8);
    let count = element_count(&target, 4);
    assert!(segment_count > 0 || count == 0, "elements are of a segment");
    assert!(segment_count <= 1 << 32, "numbers of segments have 32 bits");
    assert_apart([&offsets, &target]);
    let (from, to) = (offsets.address(), target.address());
    let cuda = cuda_form(
        library,
        |entries| entries.number_segments,
        move |launch| sys::NumberSegmentsArgs { offsets: from, segment_count, count, target: to, launch },
    );
    let (reads, writes) = (vec![offsets.clone()], vec![target.clone()]);
    Work::new("number segments", reads, writes).with_cuda(cuda).with_host(move || -> Result<()> {
        let offsets: Vec<u64> =
            with_source(&offsets, |offsets| offsets.chunks_exact(8).map(short_word).collect())?;
        with_target(&target, |target| {
            for (index, number) in (0_u64..).zip(target.chunks_exact_mut(4)) {
                let segment = offsets.partition_point(|offset| *offset <= index).saturating_sub(1);
                number.copy_from_slice(&(segment as u32).to_le_bytes());
            }
        })
    })
}

/// Work to be run in this order, and which of the two buffers of keys holds the result then.
#[derive(Debug)]
pub struct SortSegments {
    /// Numbers segments, sorts by key, sorts by number.
    pub works: Vec<Work>,
    /// 0 or 1.
    pub result_index: usize,
}

/// Sorts the keys of each segment in `keys[0]` on its own, of types of 4 or 8 bytes. `numbers` are two buffers of 32 bits
/// for each key; `scratch` is that of [`RadixSort::scratch_bytes`] for all bits of the keys.
///
/// # Panics
///
/// If keys are of 16 bytes, `numbers` are not as many as keys, or as [`number_segments`] and
/// [`sort_pairs`].
pub fn sort_segments(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    offsets: Span,
    keys: [Span; 2],
    numbers: [Span; 2],
    scratch: Span,
) -> SortSegments {
    assert!(order.key_type.width_bytes() <= 8, "keys of 4 or 8 bytes: they travel as values too");
    let count = key_count(&keys[0], order.key_type);
    assert_eq!(element_count(&numbers[0], 4), count, "a number for each key");
    let by_key = RadixSort::by(order.key_type, order.direction);
    let number_bits = u64::BITS - (element_count(&offsets, 8).max(1) - 1).leading_zeros();
    let by_number = RadixSort::by_bits(
        KeyOrder { key_type: KeyType::U32, direction: Direction::Ascending },
        0,
        number_bits,
    );
    let works = vec![
        number_segments(library, offsets, numbers[0].clone()),
        sort_pairs(library, by_key, keys.clone(), numbers.clone(), scratch.clone()),
        sort_pairs(library, by_number, numbers, keys, scratch),
    ];
    SortSegments { works, result_index: by_number.result_index() }
}
