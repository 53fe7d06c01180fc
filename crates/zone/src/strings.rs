//! Strings of a column, each with how often it was met, so that repeated ones are looked at once.
//!
//! A direct-mapped cache of recent strings finds repetitions near and far while there are few different
//! ones. It is no hash table: a string pushed out is met as a new one, which costs time and nothing else.

use pelton_chunk::types::{ByteValues, Validity};

const SLOT_BITS: u32 = 10;

/// Valid rows with the same string; another group may have that string, too.
#[derive(Clone, Copy)]
pub(crate) struct StringGroup {
    /// A row that holds the string.
    pub(crate) row: u32,
    /// How many rows do.
    pub(crate) rows: u32,
}

/// All valid rows of a column in groups.
pub(crate) fn string_groups(values: &ByteValues, validity: Option<&Validity>) -> Vec<StringGroup> {
    let mut groups: Vec<StringGroup> = Vec::new();
    // A digest of the string and its group; strings in memory are compared only where digests agree.
    let mut recent = [(0u64, u32::MAX); 1 << SLOT_BITS];
    for (row, value) in values.iter().enumerate() {
        if validity.is_some_and(|validity| !validity.is_valid(row)) {
            continue;
        }
        let digest = digest_of(value);
        let (recent_digest, recent_group) = &mut recent[(digest >> (u64::BITS - SLOT_BITS)) as usize];
        if *recent_digest == digest
            && let Some(group) = groups.get_mut(*recent_group as usize)
            && values.get(group.row as usize) == value
        {
            group.rows += 1;
            continue;
        }
        (*recent_digest, *recent_group) = (digest, groups.len() as u32);
        groups.push(StringGroup { row: row as u32, rows: 1 });
    }
    groups
}

/// Eight bytes made of the length and both ends of a string.
#[inline]
fn digest_of(value: &[u8]) -> u64 {
    let (head, tail) = match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => (value.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0),
    };
    // An odd multiplier carries the bits upwards, where slots are taken from; this is 2^64 over the golden ratio.
    (head ^ tail.rotate_left(23) ^ value.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
