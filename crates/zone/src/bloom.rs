//! Split-block Bloom filter: 32-byte blocks of eight 32-bit lanes, one bit a lane.
//!
//! ```text
//!   hash   63 .............. 32 | 31 .............. 0
//!          picks the block        times salt[lane], top 5 bits: the bit in that lane
//! ```
//!
//! A lookup touches one block, half a cache line, and is the same bytes that Parquet filters hold (format
//! specification, BloomFilter.md; Putze, Sanders and Singler, Cache-, Hash- and Space-Efficient Bloom
//! Filters, 2007), with fewer lanes in use where fewer hashes are asked for.
//! Bound: past half of the bits in use (about 710 values at 1 KiB and 8 hashes) a filter answers wrongly
//! too often to be worth its bytes and is dropped.

/// Odd multipliers of Parquet's split-block filter.
const SALT: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

pub(crate) const BLOCK_BYTES: usize = 32;
pub(crate) const HASHES_MAX: u32 = SALT.len() as u32;

/// The set of values in a chunk, with false positives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bloom {
    blocks: Vec<[u32; 8]>,
    hashes: u32,
}

impl Bloom {
    /// An empty filter of `bytes` (a multiple of 32) with `hashes` bits (1 to 8) a value.
    pub(crate) fn new(bytes: usize, hashes: u32) -> Self {
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES));
        assert!((1..=HASHES_MAX).contains(&hashes));
        Self { blocks: vec![[0; 8]; bytes / BLOCK_BYTES], hashes }
    }

    /// A filter from its stored lanes, little endian.
    pub(crate) fn from_bytes(bytes: &[u8], hashes: u32) -> Self {
        let mut bloom = Self::new(bytes.len(), hashes);
        for (lane, stored) in bloom.blocks.as_flattened_mut().iter_mut().zip(bytes.as_chunks::<4>().0) {
            *lane = u32::from_le_bytes(*stored);
        }
        bloom
    }

    /// The lanes in order, little endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.blocks.as_flattened().iter().flat_map(|lane| lane.to_le_bytes()).collect()
    }

    /// Bytes of the filter.
    pub fn size_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Bits set a value.
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Share of the usable bits that are set, 0 to 1.
    pub fn fill(&self) -> f64 {
        let set: u32 = self.blocks.as_flattened().iter().map(|lane| lane.count_ones()).sum();
        f64::from(set) / (self.blocks.len() * self.hashes as usize * 32) as f64
    }

    /// Puts in the value with this hash, see [`crate::hash_scalar`].
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64) {
        let (block, hashes) = (self.block_of(hash), self.hashes as usize);
        for (lane, bit) in self.blocks[block].iter_mut().zip(bits_of(hash)).take(hashes) {
            *lane |= bit;
        }
    }

    /// False where no value with this hash was put in.
    pub fn may_contain(&self, hash: u64) -> bool {
        let lanes = self.blocks[self.block_of(hash)].iter().zip(bits_of(hash));
        lanes.take(self.hashes as usize).all(|(lane, bit)| lane & bit != 0)
    }

    #[inline]
    fn block_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.blocks.len() as u64) >> 32) as usize
    }
}

#[inline]
fn bits_of(hash: u64) -> [u32; 8] {
    SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_i64;

    #[test]
    fn what_was_put_in_is_found_with_any_number_of_hashes() {
        for hashes in 1..=8 {
            let mut bloom = Bloom::new(1024, hashes);
            (0..500).for_each(|value| bloom.insert(hash_i64(value)));
            assert!((0..500).all(|value| bloom.may_contain(hash_i64(value))));
        }
    }

    #[test]
    fn few_absent_values_are_found_while_half_is_free() {
        let mut bloom = Bloom::new(1024, 8);
        (0..700).for_each(|value| bloom.insert(hash_i64(value)));
        assert!(bloom.fill() < 0.5);
        let found = (700..100_700).filter(|value| bloom.may_contain(hash_i64(*value))).count();
        assert!(found < 2_000, "{found} of 100,000");
    }

    #[test]
    fn bytes_round_trip() {
        let mut bloom = Bloom::new(64, 3);
        (0..5).for_each(|value| bloom.insert(hash_i64(value)));
        assert_eq!(Bloom::from_bytes(&bloom.to_bytes(), 3), bloom);
    }
}
