//! The keys of a row in a word.
//!
//! ```text
//!   build side   a 3..=9, b -1..=1        range of a 7, range of b 3
//!   a row        a 5, b 0                 (5 - 3) + (0 - -1) * 7 = 9
//!   NULL, or outside of the build side    NONE: it matches nothing
//! ```
//!
//! Words are equal where keys are, so that a table of words compares no keys. Keys whose ranges are too many words together
//! do not go this way.

use std::ops::RangeInclusive;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{max, min};
use datafusion::arrow::datatypes::{
    ArrowNumericType, DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::error::{DataFusionError, Result};

/// The word of a row that matches nothing.
pub(super) const NONE: u64 = u64::MAX;
/// Words of several keys are below this, so that their sum does not overflow.
const WORDS_MAX: u128 = 1 << 62;

/// The least and the greatest value of a key; `None` without any.
pub(crate) type Bounds = Option<RangeInclusive<i128>>;

/// Calls a function of an array and its type, for arrays of integers and what is kept in them.
macro_rules! for_integers {
    ($array:expr, $call:ident ( $($arg:expr),* )) => {
        match $array.data_type() {
            DataType::Int8 => $call::<Int8Type>($($arg),*),
            DataType::Int16 => $call::<Int16Type>($($arg),*),
            DataType::Int32 => $call::<Int32Type>($($arg),*),
            DataType::Int64 => $call::<Int64Type>($($arg),*),
            DataType::UInt8 => $call::<UInt8Type>($($arg),*),
            DataType::UInt16 => $call::<UInt16Type>($($arg),*),
            DataType::UInt32 => $call::<UInt32Type>($($arg),*),
            DataType::UInt64 => $call::<UInt64Type>($($arg),*),
            DataType::Date32 => $call::<Date32Type>($($arg),*),
            DataType::Date64 => $call::<Date64Type>($($arg),*),
            DataType::Timestamp(TimeUnit::Second, _) => $call::<TimestampSecondType>($($arg),*),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $call::<TimestampMillisecondType>($($arg),*),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $call::<TimestampMicrosecondType>($($arg),*),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $call::<TimestampNanosecondType>($($arg),*),
            other => Err(DataFusionError::Internal(format!("a join key of type {other} is no word"))),
        }
    };
}

/// The bounds of a key in `array`.
pub(crate) fn bounds_of(array: &ArrayRef) -> Result<Bounds> {
    fn of<T: ArrowNumericType<Native: Into<i128>>>(array: &ArrayRef) -> Result<Bounds> {
        let array = array.as_primitive::<T>();
        Ok(min(array).zip(max(array)).map(|(least, most)| least.into()..=most.into()))
    }
    for_integers!(array, of(array))
}

/// The bounds of both.
pub(crate) fn both_bounds(a: Bounds, b: Bounds) -> Bounds {
    match (a, b) {
        (Some(a), Some(b)) => Some(*a.start().min(b.start())..=*a.end().max(b.end())),
        (a, b) => a.or(b),
    }
}

/// How keys go into words.
#[derive(Debug)]
pub(super) struct Packing {
    keys: Vec<PackedKey>,
    /// The greatest word.
    word_max: u64,
}

#[derive(Debug)]
struct PackedKey {
    /// The least value, its low 64 bits.
    least: u64,
    /// What the greatest value is above it.
    range: u64,
    /// What one more of it is in the word.
    stride: u64,
}

impl Packing {
    /// For keys within `bounds`; `None` where they have too many words.
    pub(super) fn new(bounds: &[Bounds]) -> Option<Self> {
        let words_max = if bounds.len() == 1 { u128::from(NONE) } else { WORDS_MAX };
        let (mut keys, mut words) = (Vec::with_capacity(bounds.len()), 1_u128);
        for bounds in bounds {
            // Without any value of a key no row matches, whatever the others are.
            let (least, most) = bounds.clone().unwrap_or(0..=0).into_inner();
            let range = (most - least) as u64;
            keys.push(PackedKey { least: least as u64, range, stride: words as u64 });
            words *= u128::from(range) + 1;
            if words > words_max {
                return None;
            }
        }
        Some(Self { keys, word_max: (words - 1) as u64 })
    }

    /// The greatest word that a row may have.
    pub(super) fn word_max(&self) -> u64 {
        self.word_max
    }

    /// The words of rows, `keys` by key.
    pub(super) fn words(&self, keys: &[ArrayRef]) -> Result<Vec<u64>> {
        fn first<T: ArrowPrimitiveType<Native: Into<i128>>>(
            array: &ArrayRef,
            key: &PackedKey,
            words: &mut Vec<u64>,
        ) -> Result<()> {
            words.extend(array.as_primitive::<T>().values().iter().map(|&value| key.offset(value.into())));
            Ok(())
        }
        fn further<T: ArrowPrimitiveType<Native: Into<i128>>>(
            array: &ArrayRef,
            key: &PackedKey,
            words: &mut [u64],
        ) -> Result<()> {
            for (word, &value) in words.iter_mut().zip(array.as_primitive::<T>().values()) {
                let offset = key.offset(value.into());
                let is_none = *word == NONE || offset == NONE;
                *word = if is_none { NONE } else { *word + offset * key.stride };
            }
            Ok(())
        }
        let mut words = Vec::with_capacity(keys[0].len());
        for (number, (array, key)) in keys.iter().zip(&self.keys).enumerate() {
            match number {
                0 => for_integers!(array, first(array, key, &mut words))?,
                _ => for_integers!(array, further(array, key, &mut words))?,
            }
            if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
                (0..words.len()).filter(|&row| nulls.is_null(row)).for_each(|row| words[row] = NONE);
            }
        }
        Ok(words)
    }

    /// A bit for each row: `test` holds for its word, and it has one.
    pub(super) fn bits(&self, keys: &[ArrayRef], test: impl Fn(u64) -> bool) -> Result<BooleanBuffer> {
        fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(
            array: &ArrayRef,
            key: &PackedKey,
            test: impl Fn(u64) -> bool,
        ) -> Result<BooleanBuffer> {
            let values = array.as_primitive::<T>().values();
            let bits = BooleanBuffer::collect_bool(values.len(), |row| test(key.offset(values[row].into())));
            Ok(match array.nulls() {
                Some(nulls) => &bits & nulls.inner(),
                None => bits,
            })
        }
        if let ([array], [key]) = (keys, &self.keys[..]) {
            let test = |word| word != NONE && test(word);
            return for_integers!(array, of(array, key, test));
        }
        let words = self.words(keys)?;
        Ok(BooleanBuffer::collect_bool(words.len(), |row| words[row] != NONE && test(words[row])))
    }

    /// What `number` is of the word of each row; 0 where it has none.
    pub(super) fn numbers(&self, keys: &[ArrayRef], number: impl Fn(u64) -> u32) -> Result<Vec<u32>> {
        fn of<T: ArrowPrimitiveType<Native: Into<i128>>>(
            array: &ArrayRef,
            key: &PackedKey,
            number: impl Fn(u64) -> u32,
        ) -> Result<Vec<u32>> {
            let values = array.as_primitive::<T>().values();
            Ok(values.iter().map(|&value| number(key.offset(value.into()))).collect())
        }
        let number = |word| if word == NONE { 0 } else { number(word) };
        match (keys, &self.keys[..]) {
            ([array], [key]) if array.null_count() == 0 => for_integers!(array, of(array, key, number)),
            _ => Ok(self.words(keys)?.into_iter().map(number).collect()),
        }
    }
}

impl PackedKey {
    /// What `value` is above the least one, [`NONE`] outside.
    #[inline]
    fn offset(&self, value: i128) -> u64 {
        let offset = (value as u64).wrapping_sub(self.least);
        if offset <= self.range { offset } else { NONE }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int8Array, Int64Array, UInt64Array};

    use super::*;

    fn packing(keys: &[ArrayRef]) -> Option<Packing> {
        let bounds: Vec<Bounds> = keys.iter().map(|key| bounds_of(key).unwrap()).collect();
        Packing::new(&bounds)
    }

    #[test]
    fn rows_have_equal_words_where_their_keys_are_equal() {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(9), None, Some(3), Some(5)]));
        let b: ArrayRef = Arc::new(Int8Array::from(vec![Some(-1), Some(1), Some(0), None, Some(0)]));
        let build = [a, b];
        let packing = packing(&build).unwrap();
        assert_eq!(packing.word_max(), 20);
        assert_eq!(packing.words(&build).unwrap(), [0, 20, NONE, NONE, 9]);
        let a: ArrayRef = Arc::new(Int64Array::from(vec![2, 10, 5, 5, i64::MIN, i64::MAX]));
        let b: ArrayRef = Arc::new(Int8Array::from(vec![0, 0, 0, 2, 0, 0]));
        assert_eq!(packing.words(&[a, b]).unwrap(), [NONE, NONE, 9, NONE, NONE, NONE]);
    }

    #[test]
    fn one_key_may_be_any_but_for_two_of_all_numbers() {
        let keys = |least, most| [Arc::new(Int64Array::from(vec![least, 0, most])) as ArrayRef];
        let all = keys(i64::MIN, i64::MAX);
        assert!(packing(&all).is_none());
        let most = keys(i64::MIN + 2, i64::MAX);
        let words = packing(&most).unwrap().words(&most).unwrap();
        assert_eq!(words, [0, (1 << 63) - 2, u64::MAX - 2]);
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX, u64::MAX - 1, 5]));
        let packed = packing(&[Arc::clone(&unsigned)]).unwrap();
        assert_eq!(packed.words(&[unsigned]).unwrap(), [u64::MAX - 5, u64::MAX - 6, 0]);
        // Two of them are too many.
        assert!(packing(&[most[0].clone(), most[0].clone()]).is_none());
    }

    #[test]
    fn without_any_key_nothing_matches() {
        let none: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        let packing = packing(std::slice::from_ref(&none)).unwrap();
        assert_eq!(packing.words(&[none]).unwrap(), [NONE, NONE]);
    }
}
