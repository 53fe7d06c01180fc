//! Counting keys by digit or bucket, and placing them in buckets, each in the order in which it was.
//!
//! ```text
//!   splitters     s0     s1          s2         n ascending splitters make n + 1 buckets;
//!   buckets    0  │  1   │    2      │  3       a key that equals a splitter is in the bucket after it
//! ```
//!
//! A stable partition by bits needs nothing of its own: it is a [`sort_keys`](crate::sort_keys) by these bits, and
//! [`count_digits`] tells how many keys each digit has.

use std::sync::Arc;

use pelton_device::{Cost, Span, Work};
use pelton_error::Result;

use crate::library::{Library, cuda_form};
use crate::memory::{Accumulator, assert_accumulator, with_source, with_target};
use crate::order::{KeyBytes, KeyOrder, with_key_width};
use crate::scan::scan_scratch_bytes;
use crate::shape::{as_elements, as_elements_mut, assert_apart, exclusive_sums, key_count, value_width};
use crate::sys;

/// Most bits of a digit that [`count_digits`] counts.
pub const DIGIT_BITS_MAX: u32 = 12;
/// Most splitters.
pub const SPLITTERS_MAX: usize = 1024;
/// `K_PARTITION_SHARES`.
const SHARES: usize = 2048;

/// Adds to word d of `counts` how many `keys` have d in bits `begin_bit` to `end_bit` of their words under `order`.
///
/// # Panics
///
/// If these are no bits of a key or more than [`DIGIT_BITS_MAX`], `counts` is not an accumulator of a word for each
/// digit, or keys are not whole or not aligned.
pub fn count_digits(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    (begin_bit, end_bit): (u32, u32),
    keys: Span,
    counts: Span,
) -> Work {
    assert!(begin_bit <= end_bit && end_bit <= order.key_type.width_bits(), "bits {begin_bit} to {end_bit}");
    let bits = end_bit - begin_bit;
    assert!(bits <= DIGIT_BITS_MAX, "{bits} bits; at most {DIGIT_BITS_MAX} are counted");
    assert_accumulator(&counts, 1 << bits);
    let count = key_count(&keys, order.key_type);
    assert_apart([&keys, &counts]);
    let (address, totals) = (keys.address(), counts.address());
    let cuda = cuda_form(
        library,
        |entries| entries.count_digits,
        move |launch| sys::CountDigitsArgs {
            keys: address,
            count,
            counts: totals,
            order: order.into(),
            begin_bit,
            end_bit,
            launch,
        },
    );
    Work::new("count digits", vec![keys.clone()], vec![counts.clone()]).with_cuda(cuda).with_host(move || {
        let mut found = vec![0; 1 << bits];
        // No bits may be asked for at the very end, where a shift would be by the width.
        let begin_bit = if bits == 0 { 0 } else { begin_bit };
        with_key_width!(order.key_type, W => with_source(&keys, |keys| {
            let terms = <[u8; W]>::terms(order);
            for key in as_elements::<W>(keys) {
                found[<[u8; W]>::digit(key.word(terms), begin_bit, bits)] += 1;
            }
        }))?;
        add(&counts, &found)
    })
}

/// Adds to word b of `counts` how many `keys` are in bucket b of those that `splitters` make, which are keys in the
/// order of `order`.
///
/// # Panics
///
/// If there are more than [`SPLITTERS_MAX`] splitters, `counts` is not an accumulator of a word for each bucket, or keys
/// are not whole or not aligned.
pub fn count_buckets(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    keys: Span,
    splitters: Span,
    counts: Span,
) -> Work {
    let splitter_count = splitter_count(order, &splitters);
    assert_accumulator(&counts, splitter_count + 1);
    let count = key_count(&keys, order.key_type);
    assert_apart([&keys, &splitters, &counts]);
    let (address, split, totals) = (keys.address(), splitters.address(), counts.address());
    let cuda = cuda_form(
        library,
        |entries| entries.count_buckets,
        move |launch| sys::CountBucketsArgs {
            keys: address,
            count,
            splitters: split,
            splitter_count: splitter_count as u64,
            counts: totals,
            order: order.into(),
            launch,
        },
    );
    let reads = vec![keys.clone(), splitters.clone()];
    Work::new("count buckets", reads, vec![counts.clone()]).with_cuda(cuda).with_host(move || {
        let mut found = vec![0; splitter_count + 1];
        with_key_width!(order.key_type, W => with_source(&keys, |keys| {
            with_source(&splitters, |splitters| {
                let words = words::<W>(order, splitters);
                as_elements::<W>(keys).iter().for_each(|key| found[bucket(order, &words, key)] += 1);
            })
        }))??;
        add(&counts, &found)
    })
}

/// Bytes of scratch for a partition of `count` keys by `splitter_count` splitters: at most 17 MB and the
/// [scan](crate::exclusive_scan)'s own; needs no device.
pub const fn partition_scratch_bytes(count: u64, splitter_count: usize) -> usize {
    // Shares are whole tiles; a bound of their number is enough.
    let shares = if count < SHARES as u64 { count as usize } else { SHARES };
    let entries = (splitter_count + 1) * shares;
    8 + 8 * entries + scan_scratch_bytes(entries as u64)
}

/// Puts `keys` into `target`, one bucket of those that `splitters` make after the other, keys of a bucket in their order.
///
/// # Panics
///
/// If there are more than [`SPLITTERS_MAX`] splitters, the target is not as long as the keys, keys are not whole or not
/// aligned, spans overlap, or `scratch` is shorter than [`partition_scratch_bytes`].
pub fn partition_keys(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    keys: Span,
    splitters: Span,
    target: Span,
    scratch: Span,
) -> Work {
    enqueue(library, order, [keys, target], None, splitters, scratch)
}

/// As [`partition_keys`], and in the same way `values[0]`, one of 4 or 8 bytes for each key, into `values[1]`; the keys
/// are in `keys[0]` and go to `keys[1]`.
///
/// # Panics
///
/// As [`partition_keys`]; and if values are not as many as keys, of one width of 4 or 8 bytes, and aligned to that.
pub fn partition_pairs(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    keys: [Span; 2],
    values: [Span; 2],
    splitters: Span,
    scratch: Span,
) -> Work {
    enqueue(library, order, keys, Some(values), splitters, scratch)
}

fn enqueue(
    library: Option<&Arc<Library>>,
    order: KeyOrder,
    [keys, target]: [Span; 2],
    values: Option<[Span; 2]>,
    splitters: Span,
    scratch: Span,
) -> Work {
    let splitter_count = splitter_count(order, &splitters);
    let count = key_count(&keys, order.key_type);
    assert_eq!(key_count(&target, order.key_type), count, "the target is as long as the keys");
    let value_bytes = values.as_ref().map_or(0, |[from, to]| {
        assert_eq!(from.len(), to.len(), "as many values as there were");
        value_width(to, count);
        value_width(from, count)
    });
    let scratch_bytes = partition_scratch_bytes(count, splitter_count);
    assert!(scratch.len() >= scratch_bytes, "scratch of {} bytes, not {scratch_bytes}", scratch.len());
    let args = sys::PartitionArgs {
        keys: keys.address(),
        values: values.as_ref().map_or(0, |[from, _]| from.address()),
        count,
        splitters: splitters.address(),
        splitter_count: splitter_count as u64,
        target: target.address(),
        target_values: values.as_ref().map_or(0, |[_, to]| to.address()),
        scratch: scratch.address(),
        scratch_bytes: scratch.len() as u64,
        order: order.into(),
        value_bytes: value_bytes as u64,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda =
        cuda_form(library, |entries| entries.partition, move |launch| sys::PartitionArgs { launch, ..args });
    let mut reads = vec![keys.clone(), splitters.clone()];
    let mut writes = vec![target.clone(), scratch];
    // Keys are read to be counted and to be placed.
    let mut read_bytes = vec![2 * keys.len() as u64, splitters.len() as u64];
    if let Some([from, to]) = &values {
        reads.push(from.clone());
        read_bytes.push(from.len() as u64);
        writes.push(to.clone());
    }
    assert_apart(reads.iter().chain(&writes));
    let cost = Cost { read_bytes: Some(read_bytes), ..Cost::STREAMING };
    Work::new("partition", reads, writes).with_cost(cost).with_cuda(cuda).with_host(move || {
        with_key_width!(order.key_type, W => {
            let places = with_source(&keys, |keys| {
                with_source(&splitters, |splitters| places::<W>(order, keys, &words::<W>(order, splitters)))
            })??;
            scatter::<W>(&keys, &target, &places)?;
            match (&values, value_bytes) {
                (None, _) => Ok(()),
                (Some([from, to]), 4) => scatter::<4>(from, to, &places),
                (Some([from, to]), _) => scatter::<8>(from, to, &places),
            }
        })
    })
}

/// Where each key goes.
fn places<const W: usize>(
    order: KeyOrder,
    keys: &[u8],
    splitters: &[<[u8; W] as KeyBytes>::Word],
) -> Vec<usize>
where
    [u8; W]: KeyBytes,
{
    let buckets: Vec<usize> =
        as_elements::<W>(keys).iter().map(|key| bucket(order, splitters, key)).collect();
    let mut next = vec![0; splitters.len() + 1];
    buckets.iter().for_each(|bucket| next[*bucket] += 1);
    exclusive_sums(&mut next);
    let take_place = |bucket: usize| {
        next[bucket] += 1;
        next[bucket] - 1
    };
    buckets.into_iter().map(take_place).collect()
}

fn scatter<const N: usize>(source: &Span, target: &Span, places: &[usize]) -> Result<()> {
    with_source(source, |source| {
        with_target(target, |target| {
            let target = as_elements_mut::<N>(target);
            for (element, place) in as_elements::<N>(source).iter().zip(places) {
                target[*place] = *element;
            }
        })
    })?
}

fn bucket<const W: usize>(order: KeyOrder, splitters: &[<[u8; W] as KeyBytes>::Word], key: &[u8; W]) -> usize
where
    [u8; W]: KeyBytes,
{
    let word = key.word(<[u8; W]>::terms(order));
    splitters.partition_point(|splitter| *splitter <= word)
}

fn words<const W: usize>(order: KeyOrder, keys: &[u8]) -> Vec<<[u8; W] as KeyBytes>::Word>
where
    [u8; W]: KeyBytes,
{
    as_elements::<W>(keys).iter().map(|key| key.word(<[u8; W]>::terms(order))).collect()
}

fn splitter_count(order: KeyOrder, splitters: &Span) -> usize {
    let count = key_count(splitters, order.key_type) as usize;
    assert!(count <= SPLITTERS_MAX, "{count} splitters; at most {SPLITTERS_MAX}");
    count
}

fn add(counts: &Span, found: &[u64]) -> Result<()> {
    let counts = Accumulator::of(counts)?;
    found.iter().enumerate().for_each(|(index, found)| counts.add(index, *found));
    Ok(())
}
