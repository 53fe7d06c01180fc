//! The arithmetic that host and device share: mirrors `cuda/include/pelton/common`, which says why.

/// 2^64 divided by the golden ratio, odd.
pub(crate) const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;

/// The output function of splitmix64.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The output number `index`, from 0, of splitmix64 seeded with `seed`: what [`fill_random`](crate::fill_random)
/// writes as word `index`.
pub const fn random_word(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA)))
}

/// What word number `index` adds to a fingerprint; `byte_count` of its bytes (1 to 8) are there.
pub(crate) const fn fingerprint_term(index: u64, word: u64, byte_count: usize) -> u64 {
    let place = index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA);
    mix(word ^ place.wrapping_add((WORD_BYTES - byte_count) as u64))
}

/// Where `position` goes under a permutation of 2^`bits` positions, `bits` at most 32.
pub(crate) const fn permuted(position: u32, bits: u32, seed: u64) -> u32 {
    let mask = (1_u64 << bits) - 1;
    let half = bits.div_ceil(2);
    let mut value = position as u64 & mask;
    let mut round = 0;
    while round < 3 {
        value = value.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(random_word(seed, round)) & mask;
        value ^= value >> half;
        round += 1;
    }
    value as u32
}

/// The words of `bytes`, little-endian, with how many bytes of each are there.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = (u64, usize)> + '_ {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let last = (!rest.is_empty()).then(|| (short_word(rest), rest.len()));
    whole.iter().map(|word| (u64::from_le_bytes(*word), WORD_BYTES)).chain(last)
}

/// A word of which fewer than 8 bytes are there; zeros follow.
pub(crate) fn short_word(bytes: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_words_are_those_of_splitmix64() {
        let first = [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F];
        assert_eq!([0, 1, 2].map(|index| random_word(0, index)), first);
    }

    #[test]
    fn permutations_reach_every_position_once() {
        for bits in 0..=12 {
            let count = 1_u32 << bits;
            let mut reached: Vec<u32> = (0..count).map(|position| permuted(position, bits, 7)).collect();
            reached.sort_unstable();
            assert!(reached.into_iter().eq(0..count), "{bits} bits");
        }
    }

    #[test]
    fn the_last_word_is_short() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2, 3];
        assert_eq!(words(&bytes).collect::<Vec<_>>(), [(1, 8), (0x0302, 2)]);
        assert_eq!(words(&[]).count(), 0);
    }
}
