//! PARADIS: a parallel radix sort in place, the CPU baseline of the source paper.
//!
//! ```text
//!   buckets of the highest 8 bits      ├── bucket 0 ──┤├── bucket 1 ──┤ …     known by a histogram
//!   strips of two threads             ├─ 0 ─┼── 1 ───┤├─ 0 ─┼── 1 ───┤
//!
//!   until all keys are placed:
//!     1. permute   every thread follows displacements within its own strips alone
//!     2. repair    in every bucket the keys that belong there move to the front; the rest is what is left
//! ```
//!
//! Then each bucket by the next 8 bits: large ones by all threads, small ones by one each; below 64 keys by insertion.
//! It needs counters and no other memory, and is not stable.
//!
//! Follows M. Cho, D. Brand, R. Bordawekar, U. Finkler, V. Kulandaisamy, R. Puri, "PARADIS: An Efficient Parallel
//! Algorithm for In-place Radix Sort", 2015, sections 4 and 5.

use std::sync::{Mutex, PoisonError};

use pelton_kernels::Direction;

use super::radix::parallel;
use super::useful_threads;
use crate::key::{Bits, Key, mask};

const DIGITS: usize = 256;
/// Keys that are sorted by insertion.
const FEW: usize = 64;
/// Rounds after which one thread places what is left: each finds less, and one thread places everything.
const ROUNDS_MAX: usize = 8;

/// Sorts `keys` in place with up to `thread_count` threads. Not stable.
pub fn paradis<K: Key>(keys: &mut [K], direction: Direction, thread_count: usize) {
    let thread_count = useful_threads(keys.len(), thread_count);
    sort(keys, mask(direction), K::Bits::COUNT, thread_count);
}

/// By the bits below `end`.
fn sort<K: Key>(keys: &mut [K], mask: K::Bits, end: u32, thread_count: usize) {
    if keys.len() < FEW {
        return insertion_sort(keys, mask);
    }
    let shift = end - 8;
    let digit = |key: K| (key.bits() ^ mask).digit(shift);
    let strip = keys.len().div_ceil(thread_count);
    let histograms = parallel(keys.chunks(strip), |keys| {
        let mut counts = vec![0_usize; DIGITS];
        keys.iter().for_each(|key| counts[digit(*key)] += 1);
        counts
    });
    let sizes: Vec<usize> =
        (0..DIGITS).map(|value| histograms.iter().map(|counts| counts[value]).sum()).collect();
    if !sizes.contains(&keys.len()) {
        place(keys, &sizes, &digit, thread_count);
    }
    if shift == 0 {
        return;
    }
    let share = keys.len() / thread_count + 1;
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for bucket in cut(keys, sizes) {
        if bucket.len() > share || thread_count == 1 { large.push(bucket) } else { small.push(bucket) }
    }
    for bucket in large {
        sort(bucket, mask, shift, thread_count);
    }
    small.sort_by_key(|bucket| bucket.len());
    let queue = Mutex::new(small);
    if thread_count > 1 {
        parallel(0..thread_count, |_| {
            loop {
                let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some(bucket) = next else { return };
                sort(bucket, mask, shift, 1);
            }
        });
    }
}

/// Moves every key to the bucket of its digit; buckets are of `sizes`.
fn place<K: Key>(keys: &mut [K], sizes: &[usize], digit: &(impl Fn(K) -> usize + Sync), thread_count: usize) {
    // How many keys of each bucket, from its front, are in place.
    let mut placed = vec![0_usize; DIGITS];
    for round in 0.. {
        let buckets = cut(keys, sizes.iter().copied());
        let unplaced: Vec<&mut [K]> =
            buckets.into_iter().zip(&placed).map(|(bucket, placed)| &mut bucket[*placed..]).collect();
        let thread_count = if round < ROUNDS_MAX { thread_count } else { 1 };
        let mut strips: Vec<Vec<&mut [K]>> = (0..thread_count).map(|_| Vec::new()).collect();
        for bucket in unplaced {
            let strip = bucket.len().div_ceil(thread_count).max(1);
            let mut parts = bucket.chunks_mut(strip);
            strips.iter_mut().for_each(|own| own.push(parts.next().unwrap_or_default()));
        }
        parallel(strips.into_iter(), |mut own| permute(&mut own, digit));
        let buckets = cut(keys, sizes.iter().copied());
        let mut work: Vec<Vec<_>> = (0..thread_count).map(|_| Vec::new()).collect();
        for (value, (bucket, placed)) in buckets.into_iter().zip(&mut placed).enumerate() {
            work[value % thread_count].push((value, bucket, placed));
        }
        parallel(work.into_iter(), |own| {
            for (value, bucket, placed) in own {
                *placed += repair(&mut bucket[*placed..], |key| digit(key) == value);
            }
        });
        if placed.iter().zip(sizes).all(|(placed, size)| placed == size) {
            return;
        }
    }
}

/// Follows displacements within the strips of one thread, one of each bucket.
fn permute<K: Key>(strips: &mut [&mut [K]], digit: &impl Fn(K) -> usize) {
    let mut heads = [0_usize; DIGITS];
    for value in 0..DIGITS {
        let mut place = heads[value];
        while place < strips[value].len() {
            let mut key = strips[value][place];
            let mut target = digit(key);
            while target != value && heads[target] < strips[target].len() {
                std::mem::swap(&mut key, &mut strips[target][heads[target]]);
                heads[target] += 1;
                target = digit(key);
            }
            if target == value {
                strips[value][place] = strips[value][heads[value]];
                strips[value][heads[value]] = key;
                heads[value] += 1;
            } else {
                strips[value][place] = key;
            }
            place += 1;
        }
    }
}

/// Moves keys that belong here to the front; how many they are.
fn repair<K: Key>(keys: &mut [K], belongs: impl Fn(K) -> bool) -> usize {
    let (mut front, mut back) = (0, keys.len());
    loop {
        while front < back && belongs(keys[front]) {
            front += 1;
        }
        while front < back && !belongs(keys[back - 1]) {
            back -= 1;
        }
        if front == back {
            return front;
        }
        keys.swap(front, back - 1);
    }
}

/// Consecutive parts of `keys` of these lengths.
fn cut<K>(keys: &mut [K], lengths: impl IntoIterator<Item = usize>) -> Vec<&mut [K]> {
    let mut rest = keys;
    let mut parts = Vec::new();
    for length in lengths {
        let (part, more) = rest.split_at_mut(length);
        parts.push(part);
        rest = more;
    }
    parts
}

fn insertion_sort<K: Key>(keys: &mut [K], mask: K::Bits) {
    for row in 1..keys.len() {
        let key = keys[row];
        let mut place = row;
        while place > 0 && keys[place - 1].bits() ^ mask > key.bits() ^ mask {
            keys[place] = keys[place - 1];
            place -= 1;
        }
        keys[place] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::random_word;

    fn check(count: u64, range: u64, direction: Direction, thread_count: usize) {
        let mut keys: Vec<i64> = (0..count).map(|row| (random_word(5, row) % range) as i64 - 9).collect();
        let mut expected = keys.clone();
        expected.sort_unstable_by_key(|key| key.bits() ^ mask::<u64>(direction));
        paradis(&mut keys, direction, thread_count);
        assert!(keys == expected, "{count} keys below {range}, {direction:?}, {thread_count} threads");
    }

    #[test]
    fn keys_of_all_numbers_and_ranges_are_sorted() {
        for count in [0, 1, 63, 64, 65, 1000, 200_000] {
            for range in [1, 2, 300, 1 << 30, u64::MAX] {
                check(count, range, Direction::Ascending, 1);
                check(count, range, Direction::Descending, 4);
            }
        }
    }
}
