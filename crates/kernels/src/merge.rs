//! Merging two sorted runs into one, stable: of equal keys those of the first run come first.
//!
//! ```text
//!              run 1 ───────►            The path through the grid of all pairs of places is cut into pieces of equal
//!        ┌──┐                            length, one for each block of threads; where a cut crosses the path, binary
//!    run └─┐└───┐   path                 search along its diagonal finds without the rest of the path. Pieces are then
//!     2    └──┐ └──┐                     merged independently.
//!     │       └────┘
//!     ▼
//! ```
//!
//! Each key and value is read once and written once, and nothing else is needed. Source: O. Green, R. McColl, D. Bader,
//! "GPU Merge Path: A GPU Merging Algorithm", 2012.
//!
//! More than two runs are merged by [`merge_many`](crate::merge_many).

use std::sync::Arc;

use pelton_device::{Span, Work};
use pelton_error::Result;

use crate::library::{Library, cuda_form};
use crate::memory::{with_source, with_target};
use crate::order::{KeyBytes, KeyOrder, with_key_width};
use crate::shape::{addresses, as_elements, as_elements_mut, assert_apart, key_count, value_width};
use crate::sys;

/// Merges the keys of `runs`, each sorted by `order`, into `target`.
///
/// Runs that are not sorted give a target of no use.
///
/// # Panics
///
/// If the target is not as long as both runs, or spans are not whole keys, not aligned to keys, or overlap.
pub fn merge_keys(library: Option<&Arc<Library>>, order: KeyOrder, runs: [Span; 2], target: Span) -> Work {
    enqueue(library, order, runs, target, None)
}

/// Merges the keys of `runs`, each sorted by `order`, into `target`, and in the same way the values that belong to
/// them, of 4 or 8 bytes, into `target_values`.
///
/// # Panics
///
/// As [`merge_keys`]; and if values are not as many as keys, of one width of 4 or 8 bytes, and aligned to that.
pub fn merge_pairs(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    runs: [Span; 2],
    values: [Span; 2],
    target: Span,
    target_values: Span,
) -> Work {
    enqueue(library, order, runs, target, Some((values, target_values)))
}

fn enqueue(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    runs: [Span; 2],
    target: Span,
    values: Option<([Span; 2], Span)>,
) -> Work {
    let counts = [0, 1].map(|run| key_count(&runs[run], order.key_type));
    let count = key_count(&target, order.key_type);
    assert_eq!(counts[0] + counts[1], count, "the target is as long as both runs");
    let value_bytes = values.as_ref().map_or(0, |(values, target_values)| {
        let width = value_width(target_values, count);
        for (values, count) in values.iter().zip(counts) {
            assert_eq!(values.len() as u64, count * width as u64, "a value of {width} bytes for each key");
        }
        width
    });
    let args = sys::MergeArgs {
        keys: addresses(&runs),
        values: values.as_ref().map_or([0; 2], |(values, _)| addresses(values)),
        counts,
        target: target.address(),
        target_values: values.as_ref().map_or(0, |(_, target)| target.address()),
        order: order.into(),
        value_bytes: value_bytes as u64,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda = cuda_form(library, |entries| entries.merge, move |launch| sys::MergeArgs { launch, ..args });
    let (mut reads, mut writes) = (runs.to_vec(), vec![target.clone()]);
    if let Some((values, target_values)) = &values {
        reads.extend_from_slice(values);
        writes.push(target_values.clone());
    }
    assert_apart(reads.iter().chain(&writes));
    Work::new("merge", reads, writes).with_cuda(cuda).with_host(move || {
        with_key_width!(order.key_type, W => match (value_bytes, &values) {
            (4, Some((values, to))) => host_merge_pairs::<W, 4>(order, &runs, values, &target, to),
            (_, Some((values, to))) => host_merge_pairs::<W, 8>(order, &runs, values, &target, to),
            (_, None) => host_merge_keys::<W>(order, &runs, &target),
        })
    })
}

fn host_merge_keys<const W: usize>(order: KeyOrder, runs: &[Span; 2], target: &Span) -> Result<()>
where
    [u8; W]: KeyBytes,
{
    with_source(&runs[0], |first| {
        with_source(&runs[1], |second| {
            with_target(target, |target| {
                let (first, second) = (as_elements::<W>(first), as_elements::<W>(second));
                let target = as_elements_mut::<W>(target);
                merge(order, [first, second], |place, run, index| {
                    target[place] = [first, second][run][index]
                });
            })
        })
    })??
}

fn host_merge_pairs<const W: usize, const V: usize>(
    order: KeyOrder,
    runs: &[Span; 2],
    values: &[Span; 2],
    target: &Span,
    target_values: &Span,
) -> Result<()>
where
    [u8; W]: KeyBytes,
{
    let [first_values, second_values] = values;
    host_merge_keys::<W>(order, runs, target)?;
    with_source(&runs[0], |first| {
        with_source(&runs[1], |second| {
            with_source(first_values, |first_values| {
                with_source(second_values, |second_values| {
                    with_target(target_values, |target| {
                        let runs = [as_elements::<W>(first), as_elements::<W>(second)];
                        let values = [as_elements::<V>(first_values), as_elements::<V>(second_values)];
                        let target = as_elements_mut::<V>(target);
                        merge(order, runs, |place, run, index| target[place] = values[run][index]);
                    })
                })
            })
        })
    })????
}

/// Tells `put`, for each place in order, from which run and which place in it the element comes.
fn merge<const W: usize>(order: KeyOrder, runs: [&[[u8; W]]; 2], mut put: impl FnMut(usize, usize, usize))
where
    [u8; W]: KeyBytes,
{
    let terms = <[u8; W]>::terms(order);
    let mut next = [0, 0];
    for place in 0..runs[0].len() + runs[1].len() {
        let run = match (runs[0].get(next[0]), runs[1].get(next[1])) {
            (Some(first), Some(second)) => usize::from(second.word(terms) < first.word(terms)),
            (Some(_), None) => 0,
            _ => 1,
        };
        put(place, run, next[run]);
        next[run] += 1;
    }
}
