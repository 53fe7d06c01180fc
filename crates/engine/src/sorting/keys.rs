//! Words that rows are sorted by.

use datafusion::arrow::array::types::*;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// The rows in order: in the upper bits of each word the keys, in the lower ones the row's batch and place in it.
pub(super) enum Words {
    Short(Vec<u64>, Place),
    Long(Vec<u128>, Place),
}

/// How many bits are the row's place in its batch, and how many the place and the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    row_bits: u32,
    bits: u32,
}

impl Words {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(words, _) => words.len(),
            Self::Long(words, _) => words.len(),
        }
    }

    /// The batch, and the row in it, that is row `number` of all.
    pub(super) fn place(&self, number: usize) -> (usize, usize) {
        let (word, place) = match self {
            Self::Short(words, place) => (words[number], place),
            Self::Long(words, place) => (words[number] as u64, place),
        };
        let of = |word: u64, bits: u32| word & ((1 << bits) - 1);
        (of(word >> place.row_bits, place.bits - place.row_bits) as usize, of(word, place.row_bits) as usize)
    }
}

/// The values of a key in each batch, and how they are sorted.
pub(super) type Key = (Vec<ArrayRef>, SortOptions);

/// True for types whose order is that of numbers.
pub(super) fn goes_into_words(ty: &DataType) -> bool {
    use DataType::*;
    matches!(
        ty,
        Int8 | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Float32
            | Float64
            | Boolean
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Decimal128(..)
    )
}

/// Calls `$with!(type)` for the primitive type of an array.
macro_rules! with_type {
    ($ty:expr, $with:ident) => {
        match $ty {
            DataType::Int8 => $with!(Int8Type),
            DataType::Int16 => $with!(Int16Type),
            DataType::Int32 => $with!(Int32Type),
            DataType::Int64 => $with!(Int64Type),
            DataType::UInt8 => $with!(UInt8Type),
            DataType::UInt16 => $with!(UInt16Type),
            DataType::UInt32 => $with!(UInt32Type),
            DataType::UInt64 => $with!(UInt64Type),
            DataType::Float32 => $with!(Float32Type),
            DataType::Float64 => $with!(Float64Type),
            DataType::Date32 => $with!(Date32Type),
            DataType::Date64 => $with!(Date64Type),
            DataType::Time32(TimeUnit::Second) => $with!(Time32SecondType),
            DataType::Time32(_) => $with!(Time32MillisecondType),
            DataType::Time64(TimeUnit::Microsecond) => $with!(Time64MicrosecondType),
            DataType::Time64(_) => $with!(Time64NanosecondType),
            DataType::Timestamp(TimeUnit::Second, _) => $with!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => $with!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => $with!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => $with!(TimestampNanosecondType),
            DataType::Decimal128(..) => $with!(Decimal128Type),
            _ => None,
        }
    };
}

/// A value as a number of the same order.
trait Ranked: Copy {
    fn rank(self) -> i128;
}

macro_rules! ranked {
    ($($ty:ty),*) => {
        $(impl Ranked for $ty {
            fn rank(self) -> i128 {
                self as i128
            }
        })*
    };
}

ranked!(i8, i16, i32, i64, u8, u16, u32, u64, i128);

/// In the total order of IEEE 754, as DataFusion sorts.
impl Ranked for f64 {
    fn rank(self) -> i128 {
        let bits = self.to_bits() as i64;
        i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
    }
}

impl Ranked for f32 {
    fn rank(self) -> i128 {
        let bits = self.to_bits() as i32;
        i128::from(bits ^ (((bits >> 31) as u32) >> 1) as i32)
    }
}

/// The rows of `batches` in the order of `keys`; `None` where a row's keys and place take more than 128 bits.
pub(super) fn words(keys: &[Key], batches: &[RecordBatch]) -> Option<Words> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let most = batches.iter().map(RecordBatch::num_rows).max().unwrap_or(0);
    let row_bits = bits_of(most.saturating_sub(1) as u128);
    let place = Place { row_bits, bits: row_bits + bits_of(batches.len().saturating_sub(1) as u128) };
    let ranges = keys.iter().map(Range::of).collect::<Option<Vec<_>>>()?;
    let bits = place.bits + ranges.iter().map(|range| range.bits).sum::<u32>();
    if place.bits > u64::BITS - 1 || bits > u128::BITS {
        return None;
    }
    let places = batches.iter().enumerate().flat_map(|(number, batch)| {
        let number = (number as u64) << place.row_bits;
        (0..batch.num_rows() as u64).map(move |row| number | row)
    });
    if bits <= u64::BITS {
        let mut words = vec![0_u64; rows];
        add_keys(&mut words, keys, &ranges, |word: u64, code, bits| word.unbounded_shl(bits) | code as u64);
        words.iter_mut().zip(places).for_each(|(word, at)| *word = word.unbounded_shl(place.bits) | at);
        words.sort_unstable();
        return Some(Words::Short(words, place));
    }
    let mut words = vec![0_u128; rows];
    add_keys(&mut words, keys, &ranges, |word: u128, code, bits| word.unbounded_shl(bits) | code);
    words.iter_mut().zip(places).for_each(|(word, at)| *word = (*word << place.bits) | u128::from(at));
    words.sort_unstable();
    Some(Words::Long(words, place))
}

/// Bits of the numbers up to `most`.
fn bits_of(most: u128) -> u32 {
    u128::BITS - most.leading_zeros()
}

/// The values of a key: `None` at the ends for one that is always NULL.
struct Range {
    ends: Option<(i128, i128)>,
    has_nulls: bool,
    bits: u32,
}

impl Range {
    /// `None` where values are further apart than words can tell.
    fn of((arrays, _): &Key) -> Option<Self> {
        let (mut ends, mut has_nulls): (Option<(i128, i128)>, bool) = (None, false);
        for array in arrays {
            has_nulls |= array.null_count() > 0;
            let of_array = ends_of(array);
            ends = match (ends, of_array) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (some, None) | (None, some) => some,
            };
        }
        let span = match ends {
            Some((least, greatest)) => greatest.checked_sub(least)?,
            None => 0,
        };
        let most = (span as u128) + u128::from(has_nulls && ends.is_some());
        Some(Self { ends, has_nulls, bits: bits_of(most) })
    }
}

/// The least and the greatest value of `array`, as ranks.
fn ends_of(array: &ArrayRef) -> Option<(i128, i128)> {
    let mut ends: Option<(i128, i128)> = None;
    for_each_rank(array, |rank| {
        if let Some(rank) = rank {
            ends = Some(ends.map_or((rank, rank), |(least, greatest)| (least.min(rank), greatest.max(rank))));
        }
    });
    ends
}

/// Shows `with` the rank of each row of `array`, `None` of NULL.
fn for_each_rank(array: &ArrayRef, mut with: impl FnMut(Option<i128>)) {
    if let Some(array) = array.as_boolean_opt() {
        return array.iter().for_each(|value| with(value.map(i128::from)));
    }
    macro_rules! each {
        ($ty:ty) => {{
            let array = array.as_primitive::<$ty>();
            match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => array.values().iter().for_each(|value| with(Some(value.rank()))),
                Some(_) => array.iter().for_each(|value| with(value.map(Ranked::rank))),
            }
            Some(())
        }};
    }
    let known = with_type!(array.data_type(), each);
    debug_assert!(known.is_some(), "{} does not go into words", array.data_type());
}

/// Puts each of `keys` behind what `words` have already.
fn add_keys<W: Copy>(words: &mut [W], keys: &[Key], ranges: &[Range], behind: impl Fn(W, u128, u32) -> W) {
    for ((arrays, options), range) in keys.iter().zip(ranges) {
        let Some((least, greatest)) = range.ends else { continue };
        let (bits, first) = (range.bits, u128::from(range.has_nulls && options.nulls_first));
        let null = if options.nulls_first { 0 } else { (greatest - least) as u128 + 1 };
        let mut words = words.iter_mut();
        for array in arrays {
            for_each_rank(array, |rank| {
                let code = match rank {
                    None => null,
                    Some(rank) if options.descending => first + (greatest - rank) as u128,
                    Some(rank) => first + (rank - least) as u128,
                };
                if let Some(word) = words.next() {
                    *word = behind(*word, code, bits);
                }
            });
        }
    }
}
