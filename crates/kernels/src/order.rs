//! The order of keys: every type as an unsigned word whose order is the order of the keys, and back.
//!
//! ```text
//!   key, little-endian ──► word: x ^ ((x >> top, signed) & flip) + shift, then inverted if descending ──► key
//!
//!             flip                              shift
//!   unsigned  0                                 0
//!   signed    0                                 2^top
//!   float     all bits below the top            2^top - (number of NaNs with the sign set)
//! ```
//!
//! Every step is one to one, so that equal words are equal bits. The total order of floats is: -infinity, ..., -0, +0,
//! ..., +infinity, then NaNs by their bits, those with the sign clear before those with it set, and these from the
//! greatest bits to the least. So NaNs are last, whatever their sign. A descending order is the exact reverse of the
//! ascending one: NaNs are first. Mirrors `cuda/include/pelton/common/order.h`.

use crate::sys;

/// What keys are, in memory: little-endian, aligned to their width.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum KeyType {
    /// 32 bits without a sign.
    U32 = 0,
    /// 32 bits with a sign.
    I32 = 1,
    /// 64 bits without a sign.
    U64 = 2,
    /// 64 bits with a sign.
    I64 = 3,
    /// IEEE 754 single precision; -0 before +0, NaNs last.
    F32 = 4,
    /// IEEE 754 double precision; -0 before +0, NaNs last.
    F64 = 5,
    /// 128 bits with a sign: decimals.
    I128 = 6,
}

impl KeyType {
    /// All of them.
    pub const ALL: [KeyType; 7] =
        [KeyType::U32, KeyType::I32, KeyType::U64, KeyType::I64, KeyType::F32, KeyType::F64, KeyType::I128];

    /// Bytes of a key: 4, 8 or 16.
    pub const fn width_bytes(self) -> usize {
        match self {
            KeyType::U32 | KeyType::I32 | KeyType::F32 => 4,
            KeyType::U64 | KeyType::I64 | KeyType::F64 => 8,
            KeyType::I128 => 16,
        }
    }

    /// Bits of a key.
    pub const fn width_bits(self) -> u32 {
        8 * self.width_bytes() as u32
    }
}

/// Which way an order goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
pub enum Direction {
    /// The least key first.
    #[default]
    Ascending = 0,
    /// The greatest key first.
    Descending = 1,
}

/// How keys are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyOrder {
    /// What they are.
    pub key_type: KeyType,
    /// Which come first.
    pub direction: Direction,
}

impl KeyOrder {
    /// The least key first.
    pub const fn ascending(key_type: KeyType) -> Self {
        Self { key_type, direction: Direction::Ascending }
    }

    /// The greatest key first.
    pub const fn descending(key_type: KeyType) -> Self {
        Self { key_type, direction: Direction::Descending }
    }

    /// The word of a key: words compare as unsigned numbers the way that keys are ordered, and are equal only where
    /// keys have the same bits. `key` is the key's bits, with zeros above.
    pub const fn word(self, key: u128) -> u128 {
        let Terms { top, flip, shift } = self.terms();
        let flipped = if key >> top & 1 == 1 { key ^ flip } else { key };
        let word = flipped.wrapping_add(shift) & self.mask();
        if self.is_descending() { !word & self.mask() } else { word }
    }

    /// The key of a word.
    pub const fn key(self, word: u128) -> u128 {
        let Terms { top, flip, shift } = self.terms();
        let word = if self.is_descending() { !word & self.mask() } else { word };
        let flipped = word.wrapping_sub(shift) & self.mask();
        if flipped >> top & 1 == 1 { flipped ^ flip } else { flipped }
    }

    const fn is_descending(self) -> bool {
        matches!(self.direction, Direction::Descending)
    }

    const fn mask(self) -> u128 {
        u128::MAX >> (128 - self.key_type.width_bits())
    }

    pub(crate) const fn terms(self) -> Terms {
        let top = self.key_type.width_bits() - 1;
        let sign = 1 << top;
        match self.key_type {
            KeyType::U32 | KeyType::U64 => Terms { top, flip: 0, shift: 0 },
            KeyType::I32 | KeyType::I64 | KeyType::I128 => Terms { top, flip: 0, shift: sign },
            KeyType::F32 => Terms { top, flip: sign - 1, shift: sign - ((1 << 23) - 1) },
            KeyType::F64 => Terms { top, flip: sign - 1, shift: sign - ((1 << 52) - 1) },
        }
    }
}

impl From<KeyOrder> for sys::KeyOrder {
    fn from(order: KeyOrder) -> Self {
        Self { key_type: order.key_type as u32, direction: order.direction as u32 }
    }
}

/// What makes a word of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The number of the bit that is the sign.
    pub(crate) top: u32,
    /// What is flipped where it is set.
    pub(crate) flip: u128,
    /// What is added then.
    pub(crate) shift: u128,
}

/// Keys of one width, as bytes.
pub(crate) trait KeyBytes: Copy + Send + Sync + 'static {
    type Word: Copy + Ord + Send;
    /// What makes words, in the width of a word.
    type Terms: Copy + Send;
    /// Of `order`, whose keys have this width.
    fn terms(order: KeyOrder) -> Self::Terms;
    /// The word of these bytes.
    fn word(&self, terms: Self::Terms) -> Self::Word;
    /// Bits `begin` to `begin + count` of a word, `count` below 32.
    fn digit(word: Self::Word, begin: u32, count: u32) -> usize;
}

macro_rules! key_bytes {
    ($($bytes:literal $word:ident),*) => {$(
        impl KeyBytes for [u8; $bytes] {
            type Word = $word;
            /// What is flipped, added, inverted.
            type Terms = ($word, $word, $word);

            fn terms(order: KeyOrder) -> Self::Terms {
                let Terms { flip, shift, .. } = order.terms();
                (flip as $word, shift as $word, if order.is_descending() { $word::MAX } else { 0 })
            }

            #[inline]
            fn word(&self, (flip, shift, inversion): Self::Terms) -> $word {
                let key = $word::from_le_bytes(*self);
                let is_set = (key.cast_signed() >> ($word::BITS - 1)).cast_unsigned();
                (key ^ is_set & flip).wrapping_add(shift) ^ inversion
            }

            #[inline]
            fn digit(word: $word, begin: u32, count: u32) -> usize {
                (word >> begin) as usize & ((1 << count) - 1)
            }
        }
    )*};
}

key_bytes!(4 u32, 8 u64, 16 u128);

/// `$body` with `$width` the width of keys of `$key_type`, as a constant.
macro_rules! with_key_width {
    ($key_type:expr, $width:ident => $body:expr) => {
        match $key_type.width_bytes() {
            4 => {
                const $width: usize = 4;
                $body
            }
            8 => {
                const $width: usize = 8;
                $body
            }
            _ => {
                const $width: usize = 16;
                $body
            }
        }
    };
}
pub(crate) use with_key_width;

#[cfg(test)]
mod tests {
    use super::*;

    fn word(order: KeyOrder, key: u128) -> u128 {
        let bytes = key.to_le_bytes();
        let short: u128 = with_key_width!(order.key_type, W => {
            #[allow(clippy::useless_conversion)]
            bytes.first_chunk::<W>().unwrap().word(<[u8; W]>::terms(order)).into()
        });
        assert_eq!(short, order.word(key), "{order:?} {key:#x}");
        assert_eq!(order.key(short), key, "{order:?} {key:#x}");
        short
    }

    fn check(key_type: KeyType, in_order: &[u128]) {
        for pair in in_order.windows(2) {
            let (up, down) = (KeyOrder::ascending(key_type), KeyOrder::descending(key_type));
            assert!(word(up, pair[0]) < word(up, pair[1]), "{key_type:?} {pair:x?}");
            assert!(word(down, pair[0]) > word(down, pair[1]), "{key_type:?} {pair:x?}");
        }
    }

    #[test]
    fn words_are_ordered_as_their_keys() {
        check(KeyType::U32, &[0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF]);
        check(KeyType::U64, &[0, 1, u64::MAX.into()]);
        check(KeyType::I32, &[i32::MIN, -2, -1, 0, 1, i32::MAX].map(|key| key.cast_unsigned().into()));
        check(KeyType::I64, &[i64::MIN, -2, -1, 0, 1, i64::MAX].map(|key| key.cast_unsigned().into()));
        check(KeyType::I128, &[i128::MIN, -2, -1, 0, 1, 1 << 64, i128::MAX].map(i128::cast_unsigned));
        let singles =
            [f32::NEG_INFINITY, f32::MIN, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, f32::MAX, f32::INFINITY];
        let nans = [0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF, 0xFFFF_FFFF, 0xFFC0_0000, 0xFF80_0001];
        check(KeyType::F32, &[singles.map(|key| key.to_bits().into()).as_slice(), &nans].concat());
        let doubles =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        let nans =
            [0x7FF0_0000_0000_0001, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF, 0xFFF0_0000_0000_0001];
        check(KeyType::F64, &[doubles.map(|key| key.to_bits().into()).as_slice(), &nans].concat());
    }

    #[test]
    fn the_least_word_is_that_of_the_least_key() {
        assert_eq!(word(KeyOrder::ascending(KeyType::F32), f32::NEG_INFINITY.to_bits().into()), 0);
        assert_eq!(word(KeyOrder::ascending(KeyType::F32), 0xFF80_0001), u32::MAX.into());
        assert_eq!(word(KeyOrder::ascending(KeyType::I32), 0x8000_0000), 0);
        assert_eq!(word(KeyOrder::descending(KeyType::U32), 0), u32::MAX.into());
    }
}
