//! Sorted distinct values of a chunk and each row's position among them.
//!
//! Sorted, so that a comparison with a constant becomes a comparison of codes.
//!
//! ```text
//! fixed width:  entry 0 │ entry 1 │ …
//! byte strings: offset of each entry and of the end (u32 each) │ bytes of all entries
//! ```

use pelton_error::{Error, Result};

use crate::format::corrupt;
use crate::types::{ByteValues, Validity};

/// Most distinct values: codes fit 16 bits, and the entries stay in a second-level cache.
pub(crate) const ENTRIES_MAX: usize = 65_536;

/// Sorted distinct values and a code for each row.
pub(crate) struct Dictionary<T> {
    pub(crate) entries: Vec<T>,
    /// A NULL row has the code of the value before it.
    pub(crate) codes: Vec<u32>,
}

/// The dictionary of the valid rows of `values`; unsupported where it has too many entries to be of use.
///
/// `hash` must spread over all 64 bits; entries are sorted by `key`.
pub(crate) fn build<T: Copy + PartialEq, K: Ord>(
    values: impl ExactSizeIterator<Item = T>,
    validity: Option<&Validity>,
    hash: impl Fn(T) -> u64,
    key: impl Fn(T) -> K,
) -> Result<Dictionary<T>> {
    let entries_max = (values.len() / 2).min(ENTRIES_MAX);
    let mut codes: Vec<u32> = Vec::with_capacity(values.len());
    let mut distinct = Distinct::new();
    let mut code = 0;
    for (row, value) in values.enumerate() {
        let is_repeat = || distinct.entries.get(code as usize).is_some_and(|previous| *previous == value);
        if validity.is_none_or(|validity| validity.is_valid(row)) && !is_repeat() {
            code = distinct.code_of(value, &hash);
            if distinct.entries.len() > entries_max {
                return Err(Error::unsupported(format!(
                    "a dictionary holds {entries_max} distinct values of these rows, there are more"
                )));
            }
        }
        codes.push(code);
    }

    let mut order: Vec<u32> = (0..distinct.entries.len() as u32).collect();
    order.sort_unstable_by_key(|code| key(distinct.entries[*code as usize]));
    let mut ranks = vec![0; order.len()];
    for (rank, code) in order.iter().enumerate() {
        ranks[*code as usize] = rank as u32;
    }
    codes.iter_mut().for_each(|code| *code = ranks[*code as usize]);
    Ok(Dictionary { entries: order.iter().map(|code| distinct.entries[*code as usize]).collect(), codes })
}

/// Distinct values in order of appearance, found again through open addressing with linear probing.
struct Distinct<T> {
    entries: Vec<T>,
    hashes: Vec<u64>,
    /// Positions in `entries`, or `EMPTY`; a power of two of slots, at most half of them taken.
    slots: Vec<u32>,
}

const EMPTY: u32 = u32::MAX;

impl<T: Copy + PartialEq> Distinct<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), hashes: Vec::new(), slots: vec![EMPTY; 1024] }
    }

    /// The position of `value`, which is added where it is new.
    fn code_of(&mut self, value: T, hash: impl Fn(T) -> u64) -> u32 {
        let hash = hash(value);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != EMPTY {
            let code = self.slots[slot] as usize;
            if self.hashes[code] == hash && self.entries[code] == value {
                return code as u32;
            }
            slot = (slot + 1) & mask;
        }
        let code = self.entries.len() as u32;
        self.slots[slot] = code;
        self.entries.push(value);
        self.hashes.push(hash);
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        }
        code
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 4 - 1;
        self.slots = vec![EMPTY; mask + 1];
        for (code, hash) in self.hashes.iter().enumerate() {
            let mut slot = *hash as usize & mask;
            while self.slots[slot] != EMPTY {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = code as u32;
        }
    }
}

/// Spreads an integer over 64 bits: the finalizer of MurmurHash3 (Appleby 2011).
pub(crate) fn hash_word(word: u64) -> u64 {
    let word = (word ^ word >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let word = (word ^ word >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    word ^ word >> 33
}

/// Spreads a byte string over 64 bits.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// The section of a dictionary of byte strings.
pub(crate) fn strings_to_bytes(entries: &[&[u8]]) -> Vec<u8> {
    let mut bytes =
        Vec::with_capacity(4 * (entries.len() + 1) + entries.iter().map(|e| e.len()).sum::<usize>());
    let mut end = 0u32;
    bytes.extend_from_slice(&end.to_le_bytes());
    for entry in entries {
        end += entry.len() as u32;
        bytes.extend_from_slice(&end.to_le_bytes());
    }
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry));
    bytes
}

/// Reads a dictionary of `count` byte strings; `bytes` holds at least the offsets.
pub(crate) fn strings_from_bytes(bytes: &[u8], count: usize) -> Result<ByteValues> {
    let (offsets, data) = bytes.split_at((count + 1) * 4);
    let words = offsets.chunks_exact(4);
    let offsets: Vec<u32> =
        words.map(|word| u32::from_le_bytes(word.try_into().expect("chunks are exact"))).collect();
    if offsets[0] != 0 || !offsets.is_sorted() || offsets[count] as usize != data.len() {
        return Err(corrupt("dictionary offsets do not cover the dictionary's text"));
    }
    Ok(ByteValues { offsets, data: data.to_vec() })
}

/// Checks that every code has an entry.
pub(crate) fn check_codes(codes: &[u32], entry_count: u32) -> Result<()> {
    let largest = codes.iter().fold(0, |max, code| max.max(*code));
    if largest < entry_count {
        return Ok(());
    }
    Err(corrupt(format!("code {largest} in a dictionary of {entry_count} entries")))
}
