//! Merging many sorted runs: a tree of merges of two neighbours.
//!
//! ```text
//!   buffers[0]   │ run 0 │ run 1 │ run 2 │ run 3 │ run 4 │
//!                    └───┬───┘       └───┬───┘       │ copied
//!   buffers[1]       │ 0, 1 │        │ 2, 3 │      │ 4 │       ... to and fro, ceil(log2 k) times
//! ```
//!
//! Each level reads and writes everything once. Neighbours alone are merged, the left one first, so the whole is stable.

use std::sync::Arc;

use pelton_device::{Span, Work};

use crate::copy::copy;
use crate::library::Library;
use crate::merge::{merge_keys, merge_pairs};
use crate::order::KeyOrder;
use crate::shape::{key_count, value_width};

/// Work to be run in this order, and which of the two buffers holds the result then.
#[derive(Debug)]
pub struct MergeMany {
    /// One merge, or one copy of what has no neighbour, each.
    pub works: Vec<Work>,
    /// 0 or 1.
    pub result_index: usize,
}

/// Merges the sorted runs that lie one after the other in `keys[0]`, of as many keys as `run_counts` says, and with the
/// keys the values of 4 or 8 bytes that lie in `values[0]`, if there are any. Both buffers are written to. Of equal keys
/// those of earlier runs come first.
///
/// # Panics
///
/// If the runs are not all of `keys[0]`, the buffers of a pair differ in length or overlap, or keys and values are not as
/// for [`merge_pairs`].
pub fn merge_many(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    run_counts: &[u64],
    keys: [Span; 2],
    values: Option<[Span; 2]>,
) -> MergeMany {
    let count = key_count(&keys[0], order.key_type);
    assert_eq!(run_counts.iter().sum::<u64>(), count, "the runs are all of the keys");
    assert_eq!(keys[0].len(), keys[1].len(), "two buffers of one length");
    let key_bytes = order.key_type.width_bytes() as u64;
    let value_bytes = values.as_ref().map_or(0, |values| value_width(&values[0], count)) as u64;
    let mut works = Vec::new();
    let mut counts = run_counts.to_vec();
    let mut from = 0;
    while counts.len() > 1 {
        let cut = |buffers: &[Span; 2], index: usize, begin: u64, count: u64, bytes: u64| {
            buffers[index].slice((begin * bytes) as usize..((begin + count) * bytes) as usize)
        };
        let mut begin = 0;
        for pair in counts.chunks(2) {
            let here = pair.iter().sum();
            let halves = |buffers: &[Span; 2], bytes| {
                [
                    cut(buffers, from, begin, pair[0], bytes),
                    cut(buffers, from, begin + pair[0], here - pair[0], bytes),
                ]
            };
            let whole = |buffers: &[Span; 2], index, bytes| cut(buffers, index, begin, here, bytes);
            let target = whole(&keys, 1 - from, key_bytes);
            match (&values, pair.len()) {
                (None, 2) => works.push(merge_keys(library, order, halves(&keys, key_bytes), target)),
                (Some(values), 2) => {
                    let runs = (halves(&keys, key_bytes), halves(values, value_bytes));
                    let target_values = whole(values, 1 - from, value_bytes);
                    works.push(merge_pairs(library, order, runs.0, runs.1, target, target_values));
                }
                (values, _) => {
                    works.push(copy(library, whole(&keys, from, key_bytes), target));
                    if let Some(values) = values {
                        let target = whole(values, 1 - from, value_bytes);
                        works.push(copy(library, whole(values, from, value_bytes), target));
                    }
                }
            }
            begin += here;
        }
        counts = counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        from = 1 - from;
    }
    MergeMany { works, result_index: from }
}
