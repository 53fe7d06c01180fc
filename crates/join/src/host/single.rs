//! One table for all cores, without partitions (NOPA): the table of the GPU's join, with atomic operations of the host.
//!
//! ```text
//!   slots   │ k v │     │ k v │ ... │ slot of the empty key │     further rows of a key in a chain beside
//! ```
//!
//! Traffic: rows once; a cache line of the table for each row of either side, at random. Clearing the table is the time
//! of taking its memory.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Side, Sink, Word, hash};

const NO_ROW: u32 = u32::MAX;
/// Rows of a table at most: they are counted in 32 bits.
pub(crate) const TABLE_ROWS_MAX: usize = NO_ROW as usize - 1;

/// A key and its first value.
struct Slot<W: Word> {
    key: W::Shared,
    value: W::Shared,
}

/// A table with room for twice the rows.
pub(crate) struct Table<W: Word> {
    slots: Vec<Slot<W>>,
    heads: Vec<AtomicU32>,
    chain: Vec<(W::Shared, AtomicU32)>,
}

impl<W: Word> Table<W> {
    /// An empty table for so many rows.
    pub(crate) fn new(row_count: usize) -> Self {
        assert!(row_count <= TABLE_ROWS_MAX, "{row_count} rows of a table on the host");
        let slot_count = 2 * row_count + 1;
        let slot = || Slot { key: W::EMPTY.shared(), value: W::EMPTY.shared() };
        Self {
            slots: (0..=slot_count).map(|_| slot()).collect(),
            heads: (0..=slot_count).map(|_| AtomicU32::new(NO_ROW)).collect(),
            chain: (0..row_count).map(|_| (W::EMPTY.shared(), AtomicU32::new(NO_ROW))).collect(),
        }
    }

    fn slot_count(&self) -> usize {
        self.slots.len() - 1
    }

    fn first_slot(&self, key: W) -> usize {
        match key == W::EMPTY {
            true => self.slot_count(),
            false => ((u128::from(hash(key)) * self.slot_count() as u128) >> 64) as usize,
        }
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slot_count() { 0 } else { slot + 1 }
    }

    fn insert(&self, key: W, value: W, row: usize) {
        let wanted = if key == W::EMPTY { W::of(0) } else { key };
        let mut slot = self.first_slot(key);
        loop {
            let found = wanted.claim(&self.slots[slot].key);
            if found == W::EMPTY {
                value.store(&self.slots[slot].value);
                return;
            }
            if found == wanted {
                value.store(&self.chain[row].0);
                let next = self.heads[slot].swap(row as u32, Ordering::Relaxed);
                self.chain[row].1.store(next, Ordering::Relaxed);
                return;
            }
            slot = self.after(slot);
        }
    }

    /// Calls `each` with the value of every row of this key. Building has ended.
    fn for_each(&self, key: W, mut each: impl FnMut(W)) {
        let wanted = if key == W::EMPTY { W::of(0) } else { key };
        let mut slot = self.first_slot(key);
        loop {
            let found = W::load(&self.slots[slot].key);
            if found == W::EMPTY {
                return;
            }
            if found == wanted {
                break;
            }
            slot = self.after(slot);
        }
        each(W::load(&self.slots[slot].value));
        let mut row = self.heads[slot].load(Ordering::Relaxed);
        while row != NO_ROW {
            let (value, next) = &self.chain[row as usize];
            each(W::load(value));
            row = next.load(Ordering::Relaxed);
        }
    }
}

/// Joins by an empty table for the build side, which is filled first; `built` is told when it is.
pub(crate) fn single<W: Word, S: Sink<W>>(
    table: &Table<W>,
    build: Side<'_, W>,
    probe: Side<'_, W>,
    thread_count: usize,
    built: impl FnOnce(),
) -> Vec<S> {
    std::thread::scope(|scope| {
        let mut begin = 0;
        for part in build.parts(thread_count) {
            let first = begin;
            begin += part.keys.len();
            scope.spawn(move || {
                for (number, (key, value)) in part.keys.iter().zip(part.values).enumerate() {
                    table.insert(*key, *value, first + number);
                }
            });
        }
    });
    built();
    std::thread::scope(|scope| {
        let look_up = |part: Side<'_, W>| {
            let mut sink = S::default();
            for (key, value) in part.keys.iter().zip(part.values) {
                table.for_each(*key, |build_value| sink.add(build_value, *value));
            }
            sink
        };
        let threads: Vec<_> =
            probe.parts(thread_count).into_iter().map(|part| scope.spawn(move || look_up(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that probes")).collect()
    })
}
