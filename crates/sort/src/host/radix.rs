//! Radix sort on all cores: what the CPU sorts with, and what is fastest of what is here for it.
//!
//! ```text
//!   keys ── scatter by the highest 8 bits that differ, all threads, strip by strip ──► scratch
//!   a bucket ── scatter again while it is larger than a cache ── least significant digit first ──► keys
//! ```
//!
//! Every scatter keeps the order of equal digits, so the sort is stable. A bucket that holds more than a thread's share
//! is scattered by all threads again. Bits in which no two keys differ cost nothing.
//!
//! Traffic: rows are read and written four times for 2^32 random 4-byte keys, twice of that within a cache.

use std::sync::{Mutex, PoisonError};

use pelton_kernels::Direction;

use super::useful_threads;
use crate::key::{Bits, Carried, Key, mask};

/// Buckets of a scatter.
const DIGITS: usize = 256;
/// Rows that are sorted by insertion.
const FEW: usize = 32;
/// Rows that a core's own cache holds twice: a guess, for 2 MiB of it and rows of 4 bytes.
const CACHED: usize = 128 << 10;

/// Keys and their payloads, to be sorted or to work in.
#[derive(Debug)]
pub struct SortedColumns<'a, K, P> {
    /// The keys.
    pub keys: &'a mut [K],
    /// As many payloads.
    pub payloads: &'a mut [P],
}

impl<'a, K, P> SortedColumns<'a, K, P> {
    fn split_at(self, row: usize) -> (Self, Self) {
        let (keys, more_keys) = self.keys.split_at_mut(row);
        let (payloads, more_payloads) = self.payloads.split_at_mut(row);
        (Self { keys, payloads }, Self { keys: more_keys, payloads: more_payloads })
    }

    fn reborrow(&mut self) -> SortedColumns<'_, K, P> {
        SortedColumns { keys: &mut *self.keys, payloads: &mut *self.payloads }
    }

    /// Consecutive parts of these lengths.
    fn cut(self, lengths: impl IntoIterator<Item = usize>) -> Vec<Self> {
        let mut rest = self;
        let mut parts = Vec::new();
        for length in lengths {
            let (part, more) = rest.split_at(length);
            parts.push(part);
            rest = more;
        }
        parts
    }
}

/// Sorts `rows` stably with up to `thread_count` threads; `scratch` is as long, and what is in it does not matter.
///
/// # Panics
///
/// If lengths differ.
pub fn sort<K: Key, P: Carried>(
    rows: SortedColumns<'_, K, P>,
    scratch: SortedColumns<'_, K, P>,
    direction: Direction,
    thread_count: usize,
) {
    sort_to(rows, scratch, direction, thread_count, true);
}

/// As [`sort`]; the result is in `target`, and what is in `rows` is of no use any more.
///
/// # Panics
///
/// If lengths differ.
pub fn sort_into<K: Key, P: Carried>(
    rows: SortedColumns<'_, K, P>,
    target: SortedColumns<'_, K, P>,
    direction: Direction,
    thread_count: usize,
) {
    sort_to(rows, target, direction, thread_count, false);
}

fn sort_to<K: Key, P: Carried>(
    rows: SortedColumns<'_, K, P>,
    other: SortedColumns<'_, K, P>,
    direction: Direction,
    thread_count: usize,
    stays: bool,
) {
    let count = rows.keys.len();
    assert_eq!(rows.payloads.len(), count, "a payload for each key");
    assert_eq!(other.keys.len(), count, "room for all keys");
    assert_eq!(other.payloads.len(), count, "room for all payloads");
    let mask = mask(direction);
    let thread_count = useful_threads(count, thread_count);
    match thread_count {
        1 => sort_alone(rows, other, mask, stays),
        _ => sort_together(rows, other, mask, thread_count, stays),
    }
}

/// What scatters go by: 8 bits of the key.
#[derive(Clone, Copy)]
struct Digit<B> {
    mask: B,
    shift: u32,
}

impl<B: Bits> Digit<B> {
    /// The highest 8 bits in which keys differ; nothing if they are all alike.
    fn highest<K: Key<Bits = B>>(keys: &[K], mask: B, thread_count: usize) -> Option<Self> {
        let first = keys.first()?.bits();
        let differing = parallel(keys.chunks(keys.len().div_ceil(thread_count)), |keys| {
            keys.iter().fold(B::default(), |all, key| all.or(key.bits() ^ first))
        });
        let differing = differing.into_iter().fold(B::default(), B::or);
        let highest = differing.highest_bit()?;
        Some(Self { mask, shift: (highest + 1).saturating_sub(8) })
    }

    #[inline(always)]
    fn of<K: Key<Bits = B>>(self, key: K) -> usize {
        (key.bits() ^ self.mask).digit(self.shift)
    }

    fn histogram<K: Key<Bits = B>>(self, keys: &[K]) -> Vec<usize> {
        let mut counts = vec![0; DIGITS];
        keys.iter().for_each(|key| counts[self.of(*key)] += 1);
        counts
    }
}

/// Calls `work` for each of `parts`, each on a thread of its own but the last.
pub(super) fn parallel<T: Send, R: Send>(
    parts: impl Iterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut parts: Vec<T> = parts.collect();
    let Some(last) = parts.pop() else { return Vec::new() };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || work(part))).collect();
        let of_last = work(last);
        let mut results: Vec<R> =
            threads.into_iter().map(|thread| thread.join().expect("sorting does not panic")).collect();
        results.push(of_last);
        results
    })
}

fn sort_together<K: Key, P: Carried>(
    rows: SortedColumns<'_, K, P>,
    mut scratch: SortedColumns<'_, K, P>,
    mask: K::Bits,
    thread_count: usize,
    stays: bool,
) {
    let count = rows.keys.len();
    let Some(digit) = Digit::highest(rows.keys, mask, thread_count) else {
        if !stays {
            copy_together(&rows, scratch, thread_count);
        }
        return;
    };
    let strip = count.div_ceil(thread_count);
    let histograms = parallel(rows.keys.chunks(strip), |keys| digit.histogram(keys));
    // Bucket by bucket, and in each strip by strip: where every thread writes.
    let mut targets: Vec<Vec<SortedColumns<'_, K, P>>> = histograms.iter().map(|_| Vec::new()).collect();
    let lengths = (0..DIGITS).flat_map(|value| histograms.iter().map(move |counts| counts[value]));
    for (index, part) in scratch.reborrow().cut(lengths).into_iter().enumerate() {
        targets[index % histograms.len()].push(part);
    }
    let strips = rows.keys.chunks(strip).zip(rows.payloads.chunks(strip)).zip(targets);
    parallel(strips, |((keys, payloads), mut targets)| {
        let mut filled = [0_usize; DIGITS];
        for (key, payload) in keys.iter().zip(payloads) {
            let value = digit.of(*key);
            let (target, place) = (&mut targets[value], filled[value]);
            target.keys[place] = *key;
            if size_of::<P>() > 0 {
                target.payloads[place] = *payload;
            }
            filled[value] += 1;
        }
    });
    let sizes: Vec<usize> =
        (0..DIGITS).map(|value| histograms.iter().map(|counts| counts[value]).sum()).collect();
    let buckets = scratch.cut(sizes.iter().copied()).into_iter().zip(rows.cut(sizes.iter().copied()));
    let share = count / thread_count + 1;
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for bucket in buckets {
        if bucket.0.keys.len() > share { large.push(bucket) } else { small.push(bucket) }
    }
    for (part, back) in large {
        match digit.shift {
            // All bits have been looked at, so these are all alike.
            0 if stays => copy_together(&part, back, thread_count),
            0 => {}
            _ => sort_together(part, back, mask, thread_count, !stays),
        }
    }
    small.sort_by_key(|(from, _)| from.keys.len());
    let queue = Mutex::new(small);
    parallel(0..thread_count, |_| {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((part, back)) = next else { return };
            sort_alone(part, back, mask, !stays);
        }
    });
}

fn copy_together<K: Key, P: Carried>(
    from: &SortedColumns<'_, K, P>,
    to: SortedColumns<'_, K, P>,
    thread_count: usize,
) {
    let strip = from.keys.len().div_ceil(thread_count).max(1);
    let targets = to.keys.chunks_mut(strip).zip(to.payloads.chunks_mut(strip));
    let copies = from.keys.chunks(strip).zip(from.payloads.chunks(strip)).zip(targets);
    parallel(copies, |((keys, payloads), (to_keys, to_payloads))| {
        to_keys.copy_from_slice(keys);
        to_payloads.copy_from_slice(payloads);
    });
}

/// Sorts `rows` on this thread; the result is in `rows` if `stays`, else in `other`.
fn sort_alone<K: Key, P: Carried>(
    mut rows: SortedColumns<'_, K, P>,
    mut other: SortedColumns<'_, K, P>,
    mask: K::Bits,
    stays: bool,
) {
    let count = rows.keys.len();
    let digit = if count <= FEW { None } else { Digit::highest(rows.keys, mask, 1) };
    let Some(digit) = digit else {
        insertion_sort(&mut rows, mask);
        if !stays {
            other.keys.copy_from_slice(rows.keys);
            other.payloads.copy_from_slice(rows.payloads);
        }
        return;
    };
    if count <= CACHED {
        return sort_by_digits(rows, other, mask, digit.shift + 8, stays);
    }
    let sizes = digit.histogram(rows.keys);
    scatter(&rows, &mut other, digit, &sizes);
    for (part, back) in other.cut(sizes.iter().copied()).into_iter().zip(rows.cut(sizes.iter().copied())) {
        if digit.shift == 0 {
            if stays {
                back.keys.copy_from_slice(part.keys);
                back.payloads.copy_from_slice(part.payloads);
            }
        } else {
            sort_alone(part, back, mask, !stays);
        }
    }
}

/// Least significant digit first, over the bits below `end`.
fn sort_by_digits<'a, K: Key, P: Carried>(
    mut rows: SortedColumns<'a, K, P>,
    mut other: SortedColumns<'a, K, P>,
    mask: K::Bits,
    end: u32,
    stays: bool,
) {
    let mut is_home = true;
    let count = rows.keys.len();
    for shift in (0..end.min(K::Bits::COUNT)).step_by(8) {
        let digit = Digit { mask, shift };
        let sizes = digit.histogram(rows.keys);
        if sizes.contains(&count) {
            continue;
        }
        scatter(&rows, &mut other, digit, &sizes);
        std::mem::swap(&mut rows, &mut other);
        is_home = !is_home;
    }
    if is_home != stays {
        other.keys.copy_from_slice(rows.keys);
        other.payloads.copy_from_slice(rows.payloads);
    }
}

fn scatter<K: Key, P: Carried>(
    from: &SortedColumns<'_, K, P>,
    to: &mut SortedColumns<'_, K, P>,
    digit: Digit<K::Bits>,
    sizes: &[usize],
) {
    let mut places = [0_usize; DIGITS];
    let mut sum = 0;
    for (place, size) in places.iter_mut().zip(sizes) {
        *place = sum;
        sum += size;
    }
    for (key, payload) in from.keys.iter().zip(from.payloads.iter()) {
        let place = &mut places[digit.of(*key)];
        to.keys[*place] = *key;
        if size_of::<P>() > 0 {
            to.payloads[*place] = *payload;
        }
        *place += 1;
    }
}

fn insertion_sort<K: Key, P: Carried>(rows: &mut SortedColumns<'_, K, P>, mask: K::Bits) {
    for row in 1..rows.keys.len() {
        let (key, payload) = (rows.keys[row], rows.payloads[row]);
        let bits = key.bits() ^ mask;
        let mut place = row;
        while place > 0 && rows.keys[place - 1].bits() ^ mask > bits {
            rows.keys[place] = rows.keys[place - 1];
            rows.payloads[place] = rows.payloads[place - 1];
            place -= 1;
        }
        rows.keys[place] = key;
        rows.payloads[place] = payload;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random_word;

    fn check(count: usize, bits: u32, direction: Direction, thread_count: usize) {
        let mut keys: Vec<u64> = (0..count as u64)
            .map(|row| random_word(1, row).checked_shr(64 - bits).unwrap_or(7) << 3)
            .collect();
        let mut payloads: Vec<u32> = (0..count as u32).collect();
        let mut expected: Vec<(u64, u32)> = keys.iter().copied().zip(payloads.iter().copied()).collect();
        expected.sort_by_key(|(key, _)| key ^ mask::<u64>(direction));
        let (mut other_keys, mut other_payloads) = (vec![0; count], vec![0; count]);
        let rows = SortedColumns { keys: keys.as_mut_slice(), payloads: payloads.as_mut_slice() };
        let other =
            SortedColumns { keys: other_keys.as_mut_slice(), payloads: other_payloads.as_mut_slice() };
        let stays = bits.is_multiple_of(2);
        sort_to(rows, other, direction, thread_count, stays);
        let sorted: Vec<(u64, u32)> = match stays {
            true => keys.into_iter().zip(payloads).collect(),
            false => other_keys.into_iter().zip(other_payloads).collect(),
        };
        assert!(sorted == expected, "{count} rows, {bits} bits, {direction:?}, {thread_count} threads");
    }

    #[test]
    fn rows_of_all_numbers_and_widths_are_sorted_stably() {
        for count in [0, 1, 2, FEW, FEW + 1, 5000, CACHED, CACHED + 1, 300_000] {
            for bits in [0, 1, 9, 20, 22, 61] {
                for (direction, threads) in [(Direction::Ascending, 1), (Direction::Descending, 3)] {
                    check(count, bits, direction, threads);
                }
            }
        }
    }

    #[test]
    fn a_bucket_of_nearly_everything_is_sorted_by_all_threads() {
        let count = 200_000_u32;
        let mut keys: Vec<u32> = (0..count)
            .map(|row| if row == 77 { u32::MAX } else { random_word(2, row.into()) as u16 as u32 })
            .collect();
        let mut expected = keys.clone();
        expected.sort_unstable();
        let (mut scratch, mut none, mut other) =
            (vec![0; count as usize], vec![(); count as usize], vec![(); count as usize]);
        let rows = SortedColumns { keys: keys.as_mut_slice(), payloads: none.as_mut_slice() };
        let scratch = SortedColumns { keys: scratch.as_mut_slice(), payloads: other.as_mut_slice() };
        sort(rows, scratch, Direction::Ascending, 4);
        assert!(keys == expected);
    }
}
