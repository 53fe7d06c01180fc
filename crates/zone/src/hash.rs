//! One 64-bit hash a value, shared by the Bloom filter and the distinct-count sketch.
//!
//! The hash depends on the value alone, never on the width of its column, so that a constant from a query
//! finds what a column of any type put in:
//!
//! - integers that fit 64 bits signed: the first output of SplitMix64 seeded with the value (Steele, Lea and
//!   Flood, Fast Splittable Pseudorandom Number Generators, 2014);
//! - other integers: XXH3-64, seed 0, over the 16 little-endian bytes of the 128-bit value;
//! - floats: as doubles, -0.0 as 0.0, every NaN as the one with bits `0x7FF8_0000_0000_0000`; SplitMix64 of the bits;
//! - byte strings: XXH3-64, seed 0.

use xxhash_rust::xxh3::xxh3_64;

use crate::Scalar;

const NAN_BITS: u64 = 0x7FF8_0000_0000_0000;

/// The hash of `value` as zone maps use it.
pub fn hash_scalar(value: &Scalar) -> u64 {
    match value {
        Scalar::Int(value) => hash_i128(*value),
        Scalar::Float(value) => hash_float(*value),
        Scalar::Bytes(value) => hash_bytes(value),
    }
}

#[inline]
pub(crate) fn hash_i64(value: i64) -> u64 {
    split_mix(value as u64)
}

#[inline]
pub(crate) fn hash_i128(value: i128) -> u64 {
    match i64::try_from(value) {
        Ok(value) => hash_i64(value),
        Err(_) => xxh3_64(&value.to_le_bytes()),
    }
}

#[inline]
pub(crate) fn hash_float(value: f64) -> u64 {
    // Adding 0.0 turns -0.0 into 0.0 and changes nothing else.
    split_mix(if value.is_nan() { NAN_BITS } else { (value + 0.0).to_bits() })
}

#[inline]
pub(crate) fn hash_bytes(value: &[u8]) -> u64 {
    xxh3_64(value)
}

#[inline]
fn split_mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        assert_eq!(hash_scalar(&Scalar::Int(0)), 0xE220_A839_7B1D_CDAF);
        assert_eq!(hash_scalar(&Scalar::Int(-1)), hash_i64(-1));
        assert_eq!(hash_scalar(&Scalar::Bytes(Vec::new())), 0x2D06_8005_38D3_94C2);
        assert_eq!(hash_scalar(&Scalar::Float(0.0)), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn equal_floats_hash_alike() {
        assert_eq!(hash_float(-0.0), hash_float(0.0));
        assert_eq!(hash_float(f64::NAN), hash_float(-f64::NAN));
    }

    #[test]
    fn integers_beyond_64_bits_have_hashes_of_their_own() {
        let wide = i128::from(i64::MAX) + 1;
        assert_ne!(hash_i128(wide), hash_i64(wide as i64));
    }
}
