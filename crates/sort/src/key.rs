//! Keys, their order, and what travels with them.
//!
//! Every key type is compared as unsigned bits, the words of [`KeyOrder`]: a map that keeps order is applied to a key
//! whenever it is looked at, and the bits are inverted where the order is descending. So one comparison serves all
//! types, and a descending sort is as stable as an ascending one. Floats: -inf, ..., -0, +0, ..., +inf, then NaNs,
//! whatever their sign.

use pelton_error::{Error, Result};
use pelton_kernels::{Direction, KeyOrder, KeyType};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The name of a key type: `u32`, `f64`, ….
pub fn key_name(key: KeyType) -> &'static str {
    match key {
        KeyType::U32 => "u32",
        KeyType::I32 => "i32",
        KeyType::U64 => "u64",
        KeyType::I64 => "i64",
        KeyType::F32 => "f32",
        KeyType::F64 => "f64",
        KeyType::I128 => "i128",
    }
}

/// The key type of that name.
///
/// # Errors
///
/// `InvalidInput` that lists the names.
pub fn parse_key(name: &str) -> Result<KeyType> {
    KeyType::ALL.into_iter().find(|key| key_name(*key) == name).ok_or_else(|| {
        let names = KeyType::ALL.map(key_name).join(", ");
        Error::invalid_input(format!("no key type '{name}'; there are {names}"))
    })
}

/// What travels with each key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Payload {
    /// Nothing: the keys are all there is.
    #[default]
    None,
    /// 4 bytes, such as a row's number.
    U32,
    /// 8 bytes.
    U64,
}

impl Payload {
    /// All of them.
    pub const ALL: [Payload; 3] = [Payload::None, Payload::U32, Payload::U64];

    /// Bytes with each key.
    pub fn bytes(self) -> usize {
        match self {
            Payload::None => 0,
            Payload::U32 => 4,
            Payload::U64 => 8,
        }
    }
}

/// What is sorted, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortSpec {
    /// The keys and their order.
    pub order: KeyOrder,
    /// What travels with them.
    pub payload: Payload,
}

impl SortSpec {
    /// Keys alone, the least first.
    pub fn keys(key: KeyType) -> Self {
        Self { order: KeyOrder::ascending(key), payload: Payload::None }
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        self.order.key_type.width_bytes()
    }

    /// Bytes of a key and its payload.
    pub fn row_bytes(&self) -> usize {
        self.key_bytes() + self.payload.bytes()
    }
}

/// A key as the host's cores compare it.
pub trait Key: Copy + Send + Sync + FromBytes + IntoBytes + Immutable + KnownLayout + 'static {
    /// Unsigned bits that compare as the keys do.
    type Bits: Bits;
    /// How many keys are no numbers.
    const NAN_COUNT: u128 = 0;
    /// The bits of this key.
    fn bits(self) -> Self::Bits;
    /// The key of these bits.
    fn of_bits(bits: Self::Bits) -> Self;
}

/// Unsigned bits.
pub trait Bits:
    Copy + Ord + Send + Sync + std::fmt::Debug + std::ops::BitXor<Output = Self> + Default + 'static
{
    /// Bits with the number of a run below them, so that one comparison decides by key and then by run.
    type Tagged: Copy + Ord + Send + Sync;
    /// After every key of every run.
    const PAST_ALL: Self::Tagged;
    /// The greatest.
    const MAX: Self;
    /// How many there are.
    const COUNT: u32;
    /// These bits of run `run`.
    fn tagged(self, run: u32) -> Self::Tagged;
    /// Bits and run.
    fn untag(tagged: Self::Tagged) -> (Self, u32);
    /// 8 bits from `shift` on.
    fn digit(self, shift: u32) -> usize;
    /// Half-way from this to `upper`, rounded down; `upper` is not smaller.
    fn midpoint(self, upper: Self) -> Self;
    /// The next greater; not of [`MAX`](Self::MAX).
    fn next(self) -> Self;
    /// The bits that are set in either.
    fn or(self, other: Self) -> Self;
    /// The lowest bits of a word.
    fn of_word(word: u128) -> Self;
    /// As a word of 128 bits, zeros above.
    fn word(self) -> u128;
    /// The number of the highest bit that is set.
    fn highest_bit(self) -> Option<u32>;
}

/// What is carried with a key.
pub trait Carried: Copy + Send + Sync + Default + FromBytes + IntoBytes + Immutable + 'static {
    /// Bytes of each as values of this type.
    fn slice(bytes: &[u8], count: usize) -> &[Self];
    /// The same to write to.
    fn slice_mut(bytes: &mut [u8], count: usize) -> &mut [Self];
    /// As a word.
    fn word(self) -> u64;
}

impl Carried for () {
    fn slice(_bytes: &[u8], count: usize) -> &[Self] {
        assert!(count <= NOTHING.len());
        &NOTHING[..count]
    }

    fn slice_mut(_bytes: &mut [u8], count: usize) -> &mut [Self] {
        // Values without a size: the vector holds no memory, so leaking it leaks none.
        Vec::leak(vec![(); count])
    }

    fn word(self) -> u64 {
        0
    }
}

/// As many values without a size as there may be keys.
static NOTHING: [(); isize::MAX as usize] = [(); isize::MAX as usize];

macro_rules! carried {
    ($($type:ty),*) => {$(
        impl Carried for $type {
            fn slice(bytes: &[u8], count: usize) -> &[Self] {
                if count == 0 {
                    return &[];
                }
                let values = <[Self]>::ref_from_bytes(bytes).expect("whole values, aligned");
                assert_eq!(values.len(), count, "a payload for each key");
                values
            }

            fn slice_mut(bytes: &mut [u8], count: usize) -> &mut [Self] {
                if count == 0 {
                    return &mut [];
                }
                let values = <[Self]>::mut_from_bytes(bytes).expect("whole values, aligned");
                assert_eq!(values.len(), count, "a payload for each key");
                values
            }

            #[inline(always)]
            fn word(self) -> u64 {
                self.into()
            }
        }
    )*};
}
carried!(u32, u64);

macro_rules! bits {
    ($type:ty, $tagged:ty, $tag:expr, $untag:expr, $past:expr) => {
        impl Bits for $type {
            type Tagged = $tagged;
            const PAST_ALL: $tagged = $past;
            const MAX: Self = <$type>::MAX;
            const COUNT: u32 = <$type>::BITS;

            #[inline(always)]
            fn tagged(self, run: u32) -> $tagged {
                $tag(self, run)
            }

            #[inline(always)]
            fn untag(tagged: $tagged) -> (Self, u32) {
                $untag(tagged)
            }

            #[inline(always)]
            fn digit(self, shift: u32) -> usize {
                ((self >> shift) & 0xff) as usize
            }

            fn midpoint(self, upper: Self) -> Self {
                self + (upper - self) / 2
            }

            fn next(self) -> Self {
                self + 1
            }

            fn or(self, other: Self) -> Self {
                self | other
            }

            fn of_word(word: u128) -> Self {
                word as $type
            }

            fn word(self) -> u128 {
                self as u128
            }

            fn highest_bit(self) -> Option<u32> {
                self.checked_ilog2()
            }
        }
    };
}
bits!(
    u32,
    u64,
    |bits: u32, run: u32| u64::from(bits) << 32 | u64::from(run),
    |tagged: u64| ((tagged >> 32) as u32, tagged as u32),
    u64::MAX
);
bits!(
    u64,
    u128,
    |bits: u64, run: u32| u128::from(bits) << 64 | u128::from(run),
    |tagged: u128| ((tagged >> 64) as u64, tagged as u32),
    u128::MAX
);
bits!(
    u128,
    (u128, u32),
    |bits: u128, run: u32| (bits, run),
    |tagged: (u128, u32)| tagged,
    (u128::MAX, u32::MAX)
);

macro_rules! integer_keys {
    ($($unsigned:ty, $signed:ty);*) => {$(
        impl Key for $unsigned {
            type Bits = $unsigned;
            #[inline(always)]
            fn bits(self) -> $unsigned {
                self
            }
            #[inline(always)]
            fn of_bits(bits: $unsigned) -> Self {
                bits
            }
        }
        impl Key for $signed {
            type Bits = $unsigned;
            #[inline(always)]
            fn bits(self) -> $unsigned {
                self as $unsigned ^ (1 << (<$unsigned>::BITS - 1))
            }
            #[inline(always)]
            fn of_bits(bits: $unsigned) -> Self {
                (bits ^ (1 << (<$unsigned>::BITS - 1))) as $signed
            }
        }
    )*};
}
integer_keys!(u32, i32; u64, i64; u128, i128);

macro_rules! float_keys {
    ($($float:ty, $unsigned:ty, $mantissa_bits:literal);*) => {$(
        impl Key for $float {
            type Bits = $unsigned;
            const NAN_COUNT: u128 = 2 * ((1 << $mantissa_bits) - 1);
            #[inline(always)]
            fn bits(self) -> $unsigned {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                const NAN_COUNT: $unsigned = (1 << $mantissa_bits) - 1;
                let bits = self.to_bits();
                let flipped = if bits & SIGN == 0 { bits } else { bits ^ (SIGN - 1) };
                flipped.wrapping_add(SIGN - NAN_COUNT)
            }
            #[inline(always)]
            fn of_bits(bits: $unsigned) -> Self {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                const NAN_COUNT: $unsigned = (1 << $mantissa_bits) - 1;
                let flipped = bits.wrapping_sub(SIGN - NAN_COUNT);
                <$float>::from_bits(if flipped & SIGN == 0 { flipped } else { flipped ^ (SIGN - 1) })
            }
        }
    )*};
}
float_keys!(f32, u32, 23; f64, u64, 52);

/// What bits are combined with, by exclusive or, so that they come in this direction.
pub(crate) fn mask<B: Bits>(direction: Direction) -> B {
    match direction {
        Direction::Ascending => B::default(),
        Direction::Descending => B::MAX,
    }
}

/// Calls a function that is generic over the key's and the payload's type for the types that a spec names.
macro_rules! with_types {
    ($spec:expr, $function:ident ( $($argument:expr),* $(,)? )) => {{
        macro_rules! with_payload {
            ($key:ty) => {
                match $spec.payload {
                    $crate::key::Payload::None => $function::<$key, ()>($($argument),*),
                    $crate::key::Payload::U32 => $function::<$key, u32>($($argument),*),
                    $crate::key::Payload::U64 => $function::<$key, u64>($($argument),*),
                }
            };
        }
        match $spec.order.key_type {
            pelton_kernels::KeyType::U32 => with_payload!(u32),
            pelton_kernels::KeyType::I32 => with_payload!(i32),
            pelton_kernels::KeyType::U64 => with_payload!(u64),
            pelton_kernels::KeyType::I64 => with_payload!(i64),
            pelton_kernels::KeyType::F32 => with_payload!(f32),
            pelton_kernels::KeyType::F64 => with_payload!(f64),
            pelton_kernels::KeyType::I128 => with_payload!(i128),
        }
    }};
}
pub(crate) use with_types;

/// The same for functions of the key's type alone.
macro_rules! with_key {
    ($key:expr, $function:ident ( $($argument:expr),* $(,)? )) => {
        match $key {
            pelton_kernels::KeyType::U32 => $function::<u32>($($argument),*),
            pelton_kernels::KeyType::I32 => $function::<i32>($($argument),*),
            pelton_kernels::KeyType::U64 => $function::<u64>($($argument),*),
            pelton_kernels::KeyType::I64 => $function::<i64>($($argument),*),
            pelton_kernels::KeyType::F32 => $function::<f32>($($argument),*),
            pelton_kernels::KeyType::F64 => $function::<f64>($($argument),*),
            pelton_kernels::KeyType::I128 => $function::<i128>($($argument),*),
        }
    };
}
pub(crate) use with_key;

/// Bytes as keys.
///
/// # Panics
///
/// If they are no whole number of keys or not aligned to one.
pub(crate) fn keys_of<K: Key>(bytes: &[u8]) -> &[K] {
    if bytes.is_empty() {
        return &[];
    }
    <[K]>::ref_from_bytes(bytes).expect("whole keys, aligned")
}

/// The same to write to.
///
/// # Panics
///
/// As [`keys_of`].
pub(crate) fn keys_of_mut<K: Key>(bytes: &mut [u8]) -> &mut [K] {
    if bytes.is_empty() {
        return &mut [];
    }
    <[K]>::mut_from_bytes(bytes).expect("whole keys, aligned")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of keys of all kinds are the words of their order.
    #[test]
    fn bits_are_the_words_of_the_order_of_the_kernels() {
        let word = |key, bits: u128| KeyOrder::ascending(key).word(bits);
        let doubles = [-f64::NAN, f64::NEG_INFINITY, -1.5, -0.0, 0.0, 1e-300, f64::INFINITY, f64::NAN];
        for key in doubles {
            assert_eq!(u128::from(key.bits()), word(KeyType::F64, key.to_bits().into()));
            assert_eq!(f64::of_bits(key.bits()).to_bits(), key.to_bits());
            let key = key as f32;
            assert_eq!(u128::from(key.bits()), word(KeyType::F32, key.to_bits().into()));
            assert_eq!(f32::of_bits(key.bits()).to_bits(), key.to_bits());
        }
        for key in [i128::MIN, -1, 0, 1, i128::MAX] {
            assert_eq!(key.bits(), word(KeyType::I128, key.cast_unsigned()));
            let (long, short) = (key as i64, key as i32);
            assert_eq!(u128::from(long.bits()), word(KeyType::I64, long.cast_unsigned().into()));
            assert_eq!(u128::from(short.bits()), word(KeyType::I32, short.cast_unsigned().into()));
        }
    }

    #[test]
    fn signed_keys_are_in_order() {
        assert!([i32::MIN, -1, 0, 1, i32::MAX].windows(2).all(|pair| pair[0].bits() < pair[1].bits()));
        assert!([i128::MIN, -1, 0, 1, i128::MAX].iter().all(|key| i128::of_bits(key.bits()) == *key));
    }

    #[test]
    fn a_run_decides_between_equal_keys_and_past_all_is_past_the_greatest() {
        assert!(5_u32.tagged(1) < 5_u32.tagged(2));
        assert!(u64::MAX.tagged(u32::MAX - 1) < u64::PAST_ALL);
        assert_eq!(u64::untag(9_u64.tagged(4)), (9, 4));
    }
}
