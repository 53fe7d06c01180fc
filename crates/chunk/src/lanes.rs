//! Vectors of 1024 values in FastLanes order, and values seen as unsigned words of the same width.
//!
//! The only module with unsafe code: calls into `fastlanes`, whose run-time widths are unchecked, and casts
//! between types whose every bit pattern is a value.
//!
//! Layout after Afroozeh, Boncz: "The FastLanes Compression Layout" (2023): a vector of 1024 values of T bits is
//! T rows of 1024/T lanes; packing to W bits leaves W rows of 1024/T words, so neighbouring threads (or SIMD
//! lanes) read neighbouring words.

#![allow(unsafe_code)]

use std::ops::{BitXor, Not};

use fastlanes::{BitPacking, Delta, FastLanes, FoR, Transpose};

use crate::types::Values;

/// Values in a vector, the unit of packing.
pub(crate) const VECTOR: usize = 1024;

/// Lanes of a vector of the narrowest words.
pub(crate) const LANES_MAX: usize = 128;

const _: () = assert!(cfg!(target_endian = "little"), "words are stored little-endian and read in place");

/// A type whose every bit pattern is a value and that has no padding.
///
/// # Safety
/// As said.
pub(crate) unsafe trait Word: Copy + Default + PartialEq + 'static {}

/// An unsigned word that a lane holds: what all integer layouts work on.
pub(crate) trait Lane: Word + Ord + BitXor<Output = Self> + Not<Output = Self> {
    /// Width of the word.
    const BITS: u32;
    /// Only the top bit set.
    const SIGN: Self;
    /// Words in a row of a vector; a vector's delta bases are as many.
    const LANES: usize;

    /// Appends the low `width` bits of each value, 128 bytes for each bit of width.
    fn pack(width: u32, values: &[Self; VECTOR], packed: &mut Vec<u8>);
    /// Sets `values` to the unpacked values plus `base`, wrapping.
    fn unpack(width: u32, base: Self, packed: &[u8], values: &mut [Self; VECTOR]);
    /// Puts values into transposed order and then subtracts each one's predecessor in its lane.
    fn delta(values: &[Self; VECTOR], bases: &[Self], deltas: &mut [Self; VECTOR]);
    /// The inverse of [`Lane::delta`].
    fn undelta(deltas: &[Self; VECTOR], bases: &[Self], values: &mut [Self; VECTOR]);

    /// Sum modulo 2^BITS.
    fn wrapping_add(self, other: Self) -> Self;
    /// Difference modulo 2^BITS.
    fn wrapping_sub(self, other: Self) -> Self;
    /// Zero-extended.
    fn to_u64(self) -> u64;
    /// The low bits.
    fn from_u64(bits: u64) -> Self;
    /// Appends the words stored little-endian in `bytes`, whose length is a multiple of the word's.
    fn extend_from_le(values: &mut Vec<Self>, bytes: &[u8]);

    /// Bits needed for this value; 0 for 0.
    fn bit_len(self) -> u32 {
        u64::BITS - self.to_u64().leading_zeros()
    }
}

macro_rules! impl_lane {
    ($($word:ty: $lanes:literal),*) => {$(
        // SAFETY: An unsigned integer.
        unsafe impl Word for $word {}

        impl Lane for $word {
            const BITS: u32 = <$word>::BITS;
            const SIGN: Self = 1 << (<$word>::BITS - 1);
            const LANES: usize = $lanes;

            fn pack(width: u32, values: &[Self; VECTOR], packed: &mut Vec<u8>) {
                assert!(width <= Self::BITS);
                let mut words = [0 as $word; VECTOR];
                let words = &mut words[..VECTOR * width as usize / Self::T];
                // SAFETY: 1024 values in, 1024 * width / T words out, as cut above.
                unsafe { BitPacking::unchecked_pack(width as usize, values, words) };
                packed.extend_from_slice(as_bytes(words));
            }

            fn unpack(width: u32, base: Self, packed: &[u8], values: &mut [Self; VECTOR]) {
                assert!(width <= Self::BITS);
                assert_eq!(packed.len(), VECTOR / 8 * width as usize);
                let mut copy: [$word; VECTOR]; // zeroed only where it is needed
                // SAFETY: Every bit pattern is a value of an unsigned integer.
                let words = match unsafe { packed.align_to::<$word>() } {
                    ([], words, []) => words,
                    _ => {
                        copy = [0; VECTOR];
                        let copy = &mut copy[..packed.len() / size_of::<$word>()];
                        for (word, bytes) in copy.iter_mut().zip(packed.chunks_exact(size_of::<$word>())) {
                            *word = <$word>::from_le_bytes(bytes.try_into().expect("chunks are exact"));
                        }
                        copy
                    }
                };
                // SAFETY: The width and the length of `packed` are asserted above, so that `words` has
                // 1024 * width / T words; `values` has 1024.
                unsafe { FoR::unchecked_unfor_pack(width as usize, words, base, values) };
            }

            fn delta(values: &[Self; VECTOR], bases: &[Self], deltas: &mut [Self; VECTOR]) {
                let bases: &[Self; $lanes] = bases.try_into().expect("one base a lane");
                let mut transposed = [0 as $word; VECTOR];
                Transpose::transpose(values, &mut transposed);
                Delta::delta(&transposed, bases, deltas);
            }

            fn undelta(deltas: &[Self; VECTOR], bases: &[Self], values: &mut [Self; VECTOR]) {
                let bases: &[Self; $lanes] = bases.try_into().expect("one base a lane");
                let mut transposed = [0 as $word; VECTOR];
                Delta::undelta(deltas, bases, &mut transposed);
                Transpose::untranspose(&transposed, values);
            }

            fn wrapping_add(self, other: Self) -> Self {
                <$word>::wrapping_add(self, other)
            }

            fn wrapping_sub(self, other: Self) -> Self {
                <$word>::wrapping_sub(self, other)
            }

            fn to_u64(self) -> u64 {
                self.into()
            }

            fn from_u64(bits: u64) -> Self {
                bits as $word
            }

            fn extend_from_le(values: &mut Vec<Self>, bytes: &[u8]) {
                let words = bytes.chunks_exact(size_of::<$word>());
                values.extend(words.map(|word| <$word>::from_le_bytes(word.try_into().expect("chunks are exact"))));
            }
        }
    )*};
}

impl_lane!(u8: 128, u16: 64, u32: 32, u64: 16);

// SAFETY: A signed integer.
unsafe impl Word for i128 {}

/// How bit patterns of a type compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As unsigned integers.
    Unsigned,
    /// As two's complement integers.
    Signed,
    /// As IEEE 754 totalOrder.
    Float,
}

impl Order {
    /// A word whose unsigned order is the order of the values with these bits.
    pub(crate) fn key<L: Lane>(self, bits: L) -> L {
        match self {
            Order::Float if bits >= L::SIGN => !bits,
            Order::Signed | Order::Float => bits ^ L::SIGN,
            Order::Unsigned => bits,
        }
    }

    /// What to exclusive-or to bits so that their unsigned order is that of integers; floats stay unsigned.
    pub(crate) fn flip<L: Lane>(self) -> L {
        match self {
            Order::Signed => L::SIGN,
            Order::Unsigned | Order::Float => L::default(),
        }
    }
}

/// A column type of at most 64 bits.
pub(crate) trait Native: Word {
    /// The unsigned word of the same width.
    type Lane: Lane;
    /// How the bits compare.
    const ORDER: Order;
    /// The vector as [`Values`].
    fn wrap(values: Vec<Self>) -> Values;
}

macro_rules! impl_native {
    ($($native:ty, $lane:ty, $order:ident, $variant:ident;)*) => {$(
        impl Native for $native {
            type Lane = $lane;
            const ORDER: Order = Order::$order;
            fn wrap(values: Vec<Self>) -> Values {
                Values::$variant(values)
            }
        }
    )*};
}

macro_rules! impl_word {
    ($($word:ty),*) => {$(
        // SAFETY: A signed integer or an IEEE float.
        unsafe impl Word for $word {}
    )*};
}

impl_word!(i8, i16, i32, i64, f32, f64);
impl_native! {
    u8, u8, Unsigned, U8;
    u16, u16, Unsigned, U16;
    u32, u32, Unsigned, U32;
    u64, u64, Unsigned, U64;
    i8, u8, Signed, I8;
    i16, u16, Signed, I16;
    i32, u32, Signed, I32;
    i64, u64, Signed, I64;
    f32, u32, Float, F32;
    f64, u64, Float, F64;
}

/// Runs `$body` with `$native` naming the type of `$ty`, which is neither `I128` nor `Bytes`.
macro_rules! with_native {
    ($ty:expr, $native:ident => $body:expr) => {{
        macro_rules! with {
            ($t:ty) => {{
                type $native = $t;
                $body
            }};
        }
        match $ty {
            $crate::types::PhysicalType::U8 => with!(u8),
            $crate::types::PhysicalType::U16 => with!(u16),
            $crate::types::PhysicalType::U32 => with!(u32),
            $crate::types::PhysicalType::U64 => with!(u64),
            $crate::types::PhysicalType::I8 => with!(i8),
            $crate::types::PhysicalType::I16 => with!(i16),
            $crate::types::PhysicalType::I32 => with!(i32),
            $crate::types::PhysicalType::I64 => with!(i64),
            $crate::types::PhysicalType::F32 => with!(f32),
            $crate::types::PhysicalType::F64 => with!(f64),
            $crate::types::PhysicalType::I128 | $crate::types::PhysicalType::Bytes => {
                unreachable!("types without a lane are dispatched before")
            }
        }
    }};
}
pub(crate) use with_native;

/// Where in its vector a lane's consecutive values start.
pub(crate) fn lane_start(lane: usize) -> usize {
    fastlanes::transpose(lane)
}

/// The memory of `words`.
pub(crate) fn as_bytes<T: Word>(words: &[T]) -> &[u8] {
    // SAFETY: A `Word` has no padding, the length is that of the slice, the lifetime is kept.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

/// The bits of `values`.
pub(crate) fn as_lanes<T: Native>(values: &[T]) -> &[T::Lane] {
    const { assert!(size_of::<T>() == size_of::<T::Lane>() && align_of::<T>() == align_of::<T::Lane>()) }
    // SAFETY: Same size and alignment (asserted), and every bit pattern is a lane.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

/// The values with the bits `lanes`, in the same memory.
pub(crate) fn from_lanes<T: Native>(lanes: Vec<T::Lane>) -> Vec<T> {
    const { assert!(size_of::<T>() == size_of::<T::Lane>() && align_of::<T>() == align_of::<T::Lane>()) }
    let mut lanes = std::mem::ManuallyDrop::new(lanes);
    // SAFETY: The allocation is given up by `lanes` and has the layout of a `Vec<T>` (asserted); every bit
    // pattern is a value.
    unsafe { Vec::from_raw_parts(lanes.as_mut_ptr().cast(), lanes.len(), lanes.capacity()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_keys_sort_as_the_values_do() {
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, 1.5, f64::INFINITY, f64::NAN];
        assert!(floats.map(|v| Order::Float.key(v.to_bits())).is_sorted());
        let signed = [i16::MIN, -1, 0, 1, i16::MAX];
        assert!(signed.map(|v| Order::Signed.key(v as u16)).is_sorted());
    }

    #[test]
    fn unpacking_does_not_depend_on_alignment() {
        let values: [u64; VECTOR] = std::array::from_fn(|i| i as u64 * 7 % 1000);
        let mut packed = vec![0u8];
        Lane::pack(10, &values, &mut packed);
        let mut shifted = vec![0u8; 5];
        shifted.extend_from_slice(&packed[1..]);
        for bytes in [&packed[1..], &shifted[5..]] {
            let mut unpacked = [0; VECTOR];
            Lane::unpack(10, 3, bytes, &mut unpacked);
            assert_eq!(unpacked, values.map(|v| v + 3));
        }
    }
}
