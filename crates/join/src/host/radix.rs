//! Partitions that fit caches, joined one by one (PRO): all cores partition both sides, then take pairs of partitions.
//!
//! ```text
//!   thread 0   │ counts of its part │      sums over threads, partition by partition: each has a place of its own
//!   thread 1   │ counts of its part │      in each partition, and moves its rows there through buffers of a line
//! ```
//!
//! One pass of at most 12 bits. Traffic: keys read twice, values once, both written once; then both read once, with
//! tables in the caches. Pages are those that the system gives.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Side, Sink, Word, hash};

/// Build rows of a partition: keys, values and chains of 8 bytes are some 100 KB, a part of a core's own cache. A guess.
const PARTITION_ROWS: usize = 4096;
const BITS_MAX: u32 = 12;
/// Rows that are gathered before they are written: a line of 64 bytes of 8 byte keys.
const BUFFER_ROWS: usize = 8;

/// Rows by partition.
struct Partitioned<W> {
    keys: Vec<W>,
    values: Vec<W>,
    offsets: Vec<usize>,
}

impl<W: Word> Partitioned<W> {
    fn partition(&self, number: usize) -> Side<'_, W> {
        Side { keys: &self.keys, values: &self.values }.slice(self.offsets[number]..self.offsets[number + 1])
    }
}

/// Bits of partitions for so many build rows.
pub(crate) fn bits(row_count: usize) -> u32 {
    row_count.div_ceil(PARTITION_ROWS).next_power_of_two().ilog2().min(BITS_MAX)
}

/// Joins; `built` is told when both sides are partitioned.
pub(crate) fn radix<W: Word, S: Sink<W>>(
    build: Side<'_, W>,
    probe: Side<'_, W>,
    thread_count: usize,
    built: impl FnOnce(),
) -> Vec<S> {
    let bits = bits(build.keys.len());
    let (build, probe) = (partition(build, bits, thread_count), partition(probe, bits, thread_count));
    built();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            let mut sink = S::default();
            let mut table = Chains::default();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= 1 << bits {
                    return sink;
                }
                table.join(build.partition(number), probe.partition(number), bits, &mut sink);
            }
        };
        let threads: Vec<_> = (0..thread_count).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that joins")).collect()
    })
}

fn digit<W: Word>(key: W, bits: u32) -> usize {
    (hash(key) & ((1 << bits) - 1)) as usize
}

fn partition<W: Word>(side: Side<'_, W>, bits: u32, thread_count: usize) -> Partitioned<W> {
    let parts = side.parts(thread_count);
    let counts: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let count = |part: Side<'_, W>| {
            let mut counts = vec![0; 1 << bits];
            part.keys.iter().for_each(|key| counts[digit(*key, bits)] += 1);
            counts
        };
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || count(*part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that counts")).collect()
    });
    let (mut keys, mut values) = (vec![W::default(); side.keys.len()], vec![W::default(); side.keys.len()]);
    let mut offsets = vec![0];
    // Each thread gets a place of its own in each partition.
    let mut places: Vec<Vec<(&mut [W], &mut [W])>> =
        parts.iter().map(|_| Vec::with_capacity(1 << bits)).collect();
    let (mut keys_left, mut values_left) = (&mut keys[..], &mut values[..]);
    for number in 0..1 << bits {
        let mut end = offsets[number];
        for (counts, places) in counts.iter().zip(&mut places) {
            let (keys, keys_after) = keys_left.split_at_mut(counts[number]);
            let (values, values_after) = values_left.split_at_mut(counts[number]);
            (keys_left, values_left) = (keys_after, values_after);
            places.push((keys, values));
            end += counts[number];
        }
        offsets.push(end);
    }
    std::thread::scope(|scope| {
        for (part, places) in parts.iter().zip(places) {
            scope.spawn(move || scatter(*part, bits, places));
        }
    });
    Partitioned { keys, values, offsets }
}

/// Moves rows to their partitions, a line at a time.
fn scatter<W: Word>(part: Side<'_, W>, bits: u32, mut places: Vec<(&mut [W], &mut [W])>) {
    let mut keys = vec![[W::default(); BUFFER_ROWS]; 1 << bits];
    let mut values = vec![[W::default(); BUFFER_ROWS]; 1 << bits];
    // Rows of each partition so far.
    let mut counts = vec![0_usize; 1 << bits];
    for (key, value) in part.keys.iter().zip(part.values) {
        let number = digit(*key, bits);
        let count = counts[number];
        keys[number][count % BUFFER_ROWS] = *key;
        values[number][count % BUFFER_ROWS] = *value;
        counts[number] = count + 1;
        if (count + 1).is_multiple_of(BUFFER_ROWS) {
            let begin = count + 1 - BUFFER_ROWS;
            places[number].0[begin..=count].copy_from_slice(&keys[number]);
            places[number].1[begin..=count].copy_from_slice(&values[number]);
        }
    }
    for (number, count) in counts.into_iter().enumerate() {
        let rest = count % BUFFER_ROWS;
        places[number].0[count - rest..count].copy_from_slice(&keys[number][..rest]);
        places[number].1[count - rest..count].copy_from_slice(&values[number][..rest]);
    }
}

/// Chains of build rows by hash.
#[derive(Default)]
struct Chains {
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Chains {
    fn join<W: Word>(&mut self, build: Side<'_, W>, probe: Side<'_, W>, bits: u32, sink: &mut impl Sink<W>) {
        const NONE: u32 = u32::MAX;
        if build.keys.is_empty() || probe.keys.is_empty() {
            return;
        }
        assert!(build.keys.len() < NONE as usize, "rows of a partition");
        let head_count = build.keys.len().next_power_of_two();
        let head = |key: W| (hash(key) >> bits) as usize & (head_count - 1);
        self.heads.clear();
        self.heads.resize(head_count, NONE);
        self.next.clear();
        for (row, key) in build.keys.iter().enumerate() {
            let head = &mut self.heads[head(*key)];
            self.next.push(std::mem::replace(head, row as u32));
        }
        for (key, value) in probe.keys.iter().zip(probe.values) {
            let mut row = self.heads[head(*key)];
            while row != NONE {
                if build.keys[row as usize] == *key {
                    sink.add(build.values[row as usize], *value);
                }
                row = self.next[row as usize];
            }
        }
    }
}
