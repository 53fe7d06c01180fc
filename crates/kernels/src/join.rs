//! Tables of hash joins: clearing, building, probing.
//!
//! ```text
//!   general   slots of key and value, open addressing; further rows of a key in a chain beside     any keys
//!   perfect   an array by key, a bit for each place                                            unique keys of a range
//! ```
//!
//! Keys and values are words of one width, 4 or 8 bytes, without a sign; every key is legal. What probing writes is in
//! any order. The layout is `cuda/include/pelton/abi/join.h`'s, the kernels are in `cuda/join`.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{Access, Cost, Span, Work};
use pelton_error::Result;

use crate::fill::fill_word;
use crate::join_args as args;
use crate::library::{Library, cuda_form};
use crate::memory::{Accumulator, assert_accumulator, with_source, with_target};
use crate::mix::{mix, short_word};
use crate::shape::{assert_apart, element_count};
use crate::sys;

/// Most rows of a general table: their numbers have 32 bits, and one number means none.
pub const JOIN_ROWS_MAX: u64 = u32::MAX as u64 - 1;

const NO_ROW: u32 = u32::MAX;
/// Parts of a table begin at multiples of this.
const PART_BYTES: usize = 256;
const STATE_BYTES: usize = 16;

/// The hash of a key by which joins partition and find slots: bits 0 to 23 are for whoever partitions what no device
/// holds, bits 24 to 47 for partitions on a device.
pub const fn join_hash(key: u64) -> u64 {
    mix(key)
}

/// What a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinTableKind {
    /// Open addressing.
    General {
        /// Build rows, at most.
        row_count: u64,
    },
    /// An array of the keys from `first_key` on.
    Perfect {
        /// The least key.
        first_key: u64,
        /// Keys of the range.
        place_count: u64,
        /// Whether there is a row of every key of the range, so that bits need not be read.
        is_full: bool,
    },
}

/// A table in memory of a device.
#[derive(Debug, Clone)]
pub struct JoinTable {
    kind: JoinTableKind,
    width_bytes: usize,
    slot_count: u64,
    slots: Span,
    marks: Span,
    chain_values: Span,
    chain_next: Span,
    state: Span,
}

/// Bytes of the parts of a table: slots, marks, values of chains, links of chains.
const fn part_bytes(kind: JoinTableKind, width_bytes: usize) -> [usize; 4] {
    match kind {
        JoinTableKind::General { row_count } => {
            let (slots, rows) = (slot_count(kind) as usize + 1, row_count as usize);
            [2 * width_bytes * slots, 4 * slots, width_bytes * rows, 4 * rows]
        }
        JoinTableKind::Perfect { place_count, .. } => {
            [width_bytes * place_count as usize, 4 * place_count.div_ceil(32) as usize, 0, 0]
        }
    }
}

/// Half of the slots are taken if all keys are unique.
const fn slot_count(kind: JoinTableKind) -> u64 {
    match kind {
        JoinTableKind::General { row_count } => 2 * row_count + 1,
        JoinTableKind::Perfect { place_count, .. } => place_count,
    }
}

impl JoinTable {
    /// Bytes of memory for a table; of a general one with 8 bytes 52 a row, with 4 bytes 32.
    pub const fn bytes(kind: JoinTableKind, width_bytes: usize) -> usize {
        let [slots, marks, values, links] = part_bytes(kind, width_bytes);
        PART_BYTES
            + slots.next_multiple_of(PART_BYTES)
            + marks.next_multiple_of(PART_BYTES)
            + values.next_multiple_of(PART_BYTES)
            + links.next_multiple_of(PART_BYTES)
    }

    /// A table in `memory`, which begins at a multiple of 16; [`join_clear`] empties it.
    ///
    /// # Panics
    ///
    /// If the width is neither 4 nor 8, there are more rows than [`JOIN_ROWS_MAX`], a perfect table has no place, or
    /// `memory` is shorter than [`bytes`](Self::bytes) or not aligned.
    pub fn new(kind: JoinTableKind, width_bytes: usize, memory: &Span) -> Self {
        assert!(width_bytes == 4 || width_bytes == 8, "keys of 4 or 8 bytes, not {width_bytes}");
        match kind {
            JoinTableKind::General { row_count } => {
                assert!(row_count <= JOIN_ROWS_MAX, "{row_count} rows of a table");
            }
            JoinTableKind::Perfect { place_count, .. } => assert!(place_count > 0, "a table of no places"),
        }
        let bytes = Self::bytes(kind, width_bytes);
        assert!(memory.len() >= bytes, "a table of {bytes} bytes in {}", memory.len());
        assert!(memory.address().is_multiple_of(16), "a table is aligned to 16 bytes");
        let mut at = PART_BYTES;
        let parts = part_bytes(kind, width_bytes).map(|bytes| {
            let part = memory.slice(at..at + bytes);
            at += bytes.next_multiple_of(PART_BYTES);
            part
        });
        let [slots, marks, chain_values, chain_next] = parts;
        let state = memory.slice(0..STATE_BYTES);
        Self {
            kind,
            width_bytes,
            slot_count: slot_count(kind),
            slots,
            marks,
            chain_values,
            chain_next,
            state,
        }
    }

    /// Two words: build rows whose key was there before, and those whose key a perfect table has no place for. A perfect
    /// table is what was built only if both are 0.
    pub fn state(&self) -> &Span {
        &self.state
    }

    /// Bytes of a key, and of a value.
    pub fn width_bytes(&self) -> usize {
        self.width_bytes
    }

    fn is_general(&self) -> bool {
        matches!(self.kind, JoinTableKind::General { .. })
    }

    fn args(&self) -> args::Table {
        let (kind, first_key) = match self.kind {
            JoinTableKind::General { .. } => (0, 0),
            JoinTableKind::Perfect { first_key, is_full: false, .. } => (1, first_key),
            JoinTableKind::Perfect { first_key, .. } => (2, first_key),
        };
        args::Table {
            slots: self.slots.address(),
            marks: self.marks.address(),
            chain_values: self.chain_values.address(),
            chain_next: self.chain_next.address(),
            state: self.state.address(),
            slot_count: self.slot_count,
            first_key,
            kind,
            width_bytes: self.width_bytes as u32,
        }
    }

    fn parts(&self) -> [Span; 4] {
        [&self.slots, &self.marks, &self.chain_values, &self.chain_next].map(Span::clone)
    }
}

/// Where matches of a join go. The first word of `result` has the number of matches added.
#[derive(Debug, Clone)]
pub enum JoinOutput {
    /// The second word of `result` has the sum of the products of build and probe values added, modulo 2^64.
    Sum {
        /// An accumulator of two words.
        result: Span,
    },
    /// The values of both sides are written, as many as there is room for, each pair at one place.
    Pairs {
        /// An accumulator of two words. Pairs are written from the number on that it has.
        result: Span,
        /// Values of the build side.
        build_values: Span,
        /// Values of the probe side.
        probe_values: Span,
        /// Number of the first pair that is written; of use where the order is known, as of the pairs of one probe row.
        window_begin: u64,
    },
}

impl JoinOutput {
    pub(crate) fn result(&self) -> &Span {
        match self {
            JoinOutput::Sum { result } | JoinOutput::Pairs { result, .. } => result,
        }
    }

    pub(crate) fn check(&self, width_bytes: usize) {
        assert_accumulator(self.result(), 2);
        if let JoinOutput::Pairs { build_values, probe_values, .. } = self {
            let count = element_count(build_values, width_bytes);
            assert_eq!(
                element_count(probe_values, width_bytes),
                count,
                "room for as many values of both sides"
            );
        }
    }

    pub(crate) fn args(&self, width_bytes: usize) -> args::Output {
        let result = self.result().address();
        match self {
            JoinOutput::Sum { .. } => args::Output {
                result,
                build_values: 0,
                probe_values: 0,
                capacity: 0,
                window_begin: 0,
                mode: 0,
            },
            JoinOutput::Pairs { build_values, probe_values, window_begin, .. } => args::Output {
                result,
                build_values: build_values.address(),
                probe_values: probe_values.address(),
                capacity: (build_values.len() / width_bytes) as u64,
                window_begin: *window_begin,
                mode: 1,
            },
        }
    }

    /// What is written.
    pub(crate) fn spans(&self) -> Vec<Span> {
        match self {
            JoinOutput::Sum { result } => vec![result.clone()],
            JoinOutput::Pairs { result, build_values, probe_values, .. } => {
                vec![result.clone(), build_values.clone(), probe_values.clone()]
            }
        }
    }

    /// Adds matches: what the host forms do with them.
    pub(crate) fn add(&self, width_bytes: usize, matches: &[(u64, u64)]) -> Result<()> {
        let result = Accumulator::of(self.result())?;
        match self {
            JoinOutput::Sum { .. } => {
                result.add(
                    1,
                    matches
                        .iter()
                        .fold(0, |sum: u64, (one, other)| sum.wrapping_add(one.wrapping_mul(*other))),
                );
            }
            JoinOutput::Pairs { build_values, probe_values, window_begin, .. } => {
                let begin =
                    with_source(self.result(), |words| word_at(words, 8, 0))?.wrapping_sub(*window_begin);
                with_target(build_values, |build_values| {
                    with_target(probe_values, |probe_values| {
                        let capacity = (build_values.len() / width_bytes) as u64;
                        for (number, (build, probe)) in matches.iter().enumerate() {
                            let at = begin.wrapping_add(number as u64);
                            if at < capacity {
                                set_word(build_values, width_bytes, at as usize, *build);
                                set_word(probe_values, width_bytes, at as usize, *probe);
                            }
                        }
                    })
                })??;
            }
        }
        result.add(0, matches.len() as u64);
        Ok(())
    }
}

/// Empties a table: work to be run in this order.
pub fn join_clear(library: Option<&Arc<Library>>, table: &JoinTable) -> Vec<Work> {
    let (slots, marks) = (table.slots.clone(), table.marks.clone());
    let state = fill_word(library, table.state.clone(), 0);
    match table.is_general() {
        true => vec![fill_word(library, slots, u64::MAX), fill_word(library, marks, u64::MAX), state],
        false => vec![fill_word(library, marks, 0), state],
    }
}

/// Inserts rows into a table. A general one numbers them from `first_row` on; no number may be given twice.
///
/// # Panics
///
/// If keys and values are not as many words of the table's width, aligned, or there are more rows than the table is for.
pub fn join_build(
    library: Option<&Arc<Library>>,
    table: &JoinTable,
    keys: Span,
    values: Span,
    first_row: u64,
) -> Work {
    let width_bytes = table.width_bytes;
    let count = element_count(&keys, width_bytes);
    assert_eq!(element_count(&values, width_bytes), count, "a value for each key");
    if let JoinTableKind::General { row_count } = table.kind {
        assert!(first_row + count <= row_count, "rows up to {} of {row_count}", first_row + count);
    }
    let args = args::BuildArgs {
        table: table.args(),
        keys: keys.address(),
        values: values.address(),
        count,
        first_row,
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda =
        cuda_form(library, |entries| entries.join_build, move |launch| args::BuildArgs { launch, ..args });
    let mut writes = table.parts().to_vec();
    writes.push(table.state.clone());
    let reads = vec![keys.clone(), values.clone()];
    assert_apart(reads.iter().chain(&writes));
    let table = table.clone();
    Work::new("build join table", reads, writes)
        .with_cost(build_cost(&table, count))
        .with_cuda(cuda)
        .with_host(move || {
            let rows = with_source(&keys, |keys| {
                with_source(&values, |values| rows_of(width_bytes, keys, values))
            })??;
            let (known, outside) = with_parts(&table, |mut host| host.insert(&rows, first_row))?;
            let state = Accumulator::of(&table.state)?;
            state.add(0, known);
            state.add(1, outside);
            Ok(())
        })
}

/// Looks rows up in a table.
///
/// # Panics
///
/// If keys and values are not as many words of the table's width, aligned, the output has not as much room for both
/// sides, or spans overlap.
pub fn join_probe(
    library: Option<&Arc<Library>>,
    table: &JoinTable,
    keys: Span,
    values: Span,
    output: JoinOutput,
) -> Work {
    let width_bytes = table.width_bytes;
    let count = element_count(&keys, width_bytes);
    assert_eq!(element_count(&values, width_bytes), count, "a value for each key");
    output.check(width_bytes);
    let args = args::ProbeArgs {
        table: table.args(),
        keys: keys.address(),
        values: values.address(),
        count,
        output: output.args(width_bytes),
        launch: sys::Launch { multiprocessors: 0, policy: 0 },
    };
    let cuda =
        cuda_form(library, |entries| entries.join_probe, move |launch| args::ProbeArgs { launch, ..args });
    let mut reads = table.parts().to_vec();
    reads.extend([table.state.clone(), keys.clone(), values.clone()]);
    let writes = output.spans();
    assert_apart(reads.iter().chain(&writes));
    let table = table.clone();
    Work::new("probe join table", reads, writes)
        .with_cost(probe_cost(&table, count))
        .with_cuda(cuda)
        .with_host(move || {
            let rows = with_source(&keys, |keys| {
                with_source(&values, |values| rows_of(width_bytes, keys, values))
            })??;
            let matches = with_parts(&table, |host| host.matches(&rows))?;
            output.add(width_bytes, &matches)
        })
}

/// Bytes of a slot.
fn slot_bytes(table: &JoinTable) -> u64 {
    table.width_bytes as u64 * if table.is_general() { 2 } else { 1 }
}

/// One access at random for each row, as of unique keys; rows in sequence. Marks of an array by key are a bit for each
/// place and left out: they stay in caches longer than anything else.
fn random_cost(table: &JoinTable, count: u64) -> Cost {
    let width_bytes = slot_bytes(table) as u32;
    let compute = Duration::from_nanos(count / 1000);
    Cost { access: Access::Random { width_bytes }, compute, ..Cost::STREAMING }
}

fn build_cost(table: &JoinTable, count: u64) -> Cost {
    let written = vec![count * slot_bytes(table), 0, 0, 0, 0];
    Cost { in_sequence: vec![0, 1], write_bytes: Some(written), ..random_cost(table, count) }
}

fn probe_cost(table: &JoinTable, count: u64) -> Cost {
    let rows = count * table.width_bytes as u64;
    let read = vec![count * slot_bytes(table), 0, 0, 0, 0, rows, rows];
    Cost { in_sequence: vec![4, 5, 6], read_bytes: Some(read), ..random_cost(table, count) }
}

/// Keys and values as words.
pub(crate) fn rows_of(width_bytes: usize, keys: &[u8], values: &[u8]) -> Vec<(u64, u64)> {
    let words = |bytes| <[u8]>::chunks_exact(bytes, width_bytes).map(short_word_of);
    words(keys).zip(words(values)).collect()
}

fn short_word_of(bytes: &[u8]) -> u64 {
    if bytes.len() == 8 { u64::from_le_bytes(bytes.try_into().expect("8 bytes")) } else { short_word(bytes) }
}

pub(crate) fn word_at(bytes: &[u8], width_bytes: usize, index: usize) -> u64 {
    short_word_of(&bytes[index * width_bytes..(index + 1) * width_bytes])
}

pub(crate) fn set_word(bytes: &mut [u8], width_bytes: usize, index: usize, word: u64) {
    bytes[index * width_bytes..(index + 1) * width_bytes].copy_from_slice(&word.to_le_bytes()[..width_bytes]);
}

/// A table as the host's cores see it.
struct HostTable<'a> {
    table: &'a JoinTable,
    slots: &'a mut [u8],
    marks: &'a mut [u8],
    chain_values: &'a mut [u8],
    chain_next: &'a mut [u8],
}

fn with_parts<R>(table: &JoinTable, look: impl FnOnce(HostTable<'_>) -> R) -> Result<R> {
    with_target(&table.slots, |slots| {
        with_target(&table.marks, |marks| {
            with_target(&table.chain_values, |chain_values| {
                with_target(&table.chain_next, |chain_next| {
                    look(HostTable { table, slots, marks, chain_values, chain_next })
                })
            })
        })
    })???
}

impl HostTable<'_> {
    fn empty(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.table.width_bytes)
    }

    fn slot(&self, slot: u64) -> (u64, u64) {
        let width = self.table.width_bytes;
        (word_at(self.slots, width, 2 * slot as usize), word_at(self.slots, width, 2 * slot as usize + 1))
    }

    fn first_slot(&self, key: u64) -> u64 {
        let count = self.table.slot_count;
        if key == self.empty() {
            count
        } else {
            ((u128::from(join_hash(key)) * u128::from(count)) >> 64) as u64
        }
    }

    /// The slot that has `key`, or the empty one where it belongs.
    fn find(&self, key: u64) -> (u64, bool) {
        let mut slot = self.first_slot(key);
        if slot == self.table.slot_count {
            return (slot, self.slot(slot).0 != self.empty());
        }
        loop {
            match self.slot(slot).0 {
                found if found == key => return (slot, true),
                found if found == self.empty() => return (slot, false),
                _ => slot = if slot + 1 == self.table.slot_count { 0 } else { slot + 1 },
            }
        }
    }

    fn place(&self, key: u64, first_key: u64) -> u64 {
        key.wrapping_sub(first_key) & self.empty()
    }

    /// Rows whose key was there, and rows whose key has no place.
    fn insert(&mut self, rows: &[(u64, u64)], first_row: u64) -> (u64, u64) {
        let width = self.table.width_bytes;
        let (mut known, mut outside) = (0, 0);
        for (number, (key, value)) in rows.iter().copied().enumerate() {
            if let JoinTableKind::Perfect { first_key, place_count, .. } = self.table.kind {
                let place = self.place(key, first_key);
                if place >= place_count {
                    outside += 1;
                } else if self.bit(place) {
                    known += 1;
                } else {
                    self.marks[place as usize / 8] |= 1 << (place % 8);
                    set_word(self.slots, width, place as usize, value);
                }
                continue;
            }
            let (slot, is_known) = self.find(key);
            let slot = slot as usize;
            if is_known {
                known += 1;
                let row = first_row as usize + number;
                set_word(self.chain_values, width, row, value);
                let head = word_at(self.marks, 4, slot);
                set_word(self.chain_next, 4, row, head);
                set_word(self.marks, 4, slot, row as u64);
            } else {
                set_word(self.slots, width, 2 * slot, if key == self.empty() { 0 } else { key });
                set_word(self.slots, width, 2 * slot + 1, value);
            }
        }
        (known, outside)
    }

    fn bit(&self, place: u64) -> bool {
        self.marks[place as usize / 8] >> (place % 8) & 1 != 0
    }

    /// Values of both sides of each match.
    fn matches(&self, rows: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let width = self.table.width_bytes;
        let mut matches = Vec::new();
        for (key, probe_value) in rows.iter().copied() {
            if let JoinTableKind::Perfect { first_key, place_count, is_full } = self.table.kind {
                let place = self.place(key, first_key);
                if place < place_count && (is_full || self.bit(place)) {
                    matches.push((word_at(self.slots, width, place as usize), probe_value));
                }
                continue;
            }
            let (slot, is_known) = self.find(key);
            if !is_known {
                continue;
            }
            matches.push((self.slot(slot).1, probe_value));
            let mut row = word_at(self.marks, 4, slot as usize);
            while row != u64::from(NO_ROW) {
                matches.push((word_at(self.chain_values, width, row as usize), probe_value));
                row = word_at(self.chain_next, 4, row as usize);
            }
        }
        matches
    }
}
