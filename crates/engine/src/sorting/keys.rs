//! Words that rows are sorted by.

use datafusion::arrow::array::types::*;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// A row to be sorted: in the upper bits its keys, in the lower ones its batch and its place in that.
pub(super) trait Word: Copy + Ord + Send + Sync + 'static {
    const NONE: Self;
    const BITS: u32;

    /// `code`, of `bits` bits, behind what is here.
    fn then(self, code: u128, bits: u32) -> Self;
    fn low(self) -> u64;
}

impl Word for u64 {
    const NONE: Self = 0;
    const BITS: u32 = u64::BITS;

    fn then(self, code: u128, bits: u32) -> Self {
        self.unbounded_shl(bits) | code as u64
    }

    fn low(self) -> u64 {
        self
    }
}

impl Word for u128 {
    const NONE: Self = 0;
    const BITS: u32 = u128::BITS;

    fn then(self, code: u128, bits: u32) -> Self {
        self.unbounded_shl(bits) | code
    }

    fn low(self) -> u64 {
        self as u64
    }
}

/// What the bits of words are.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    keys: Vec<Range>,
    /// Of the row's place in its batch, and of that and the batch.
    row_bits: u32,
    place_bits: u32,
}

impl Layout {
    /// For keys of `keys` and rows of `batches` batches, of which the longest has `rows` rows; `None` where words have not enough
    /// bits.
    pub(super) fn of(keys: Vec<Range>, batches: usize, rows: usize) -> Option<Self> {
        let row_bits = bits_of(rows.saturating_sub(1) as u128);
        let place_bits = row_bits + bits_of(batches.saturating_sub(1) as u128);
        let layout = Self { keys, row_bits, place_bits };
        (place_bits < u64::BITS && layout.bits() <= u128::BITS).then_some(layout)
    }

    fn bits(&self) -> u32 {
        self.place_bits + self.keys.iter().map(|range| range.bits).sum::<u32>()
    }

    /// True where words of 64 bits are enough.
    pub(super) fn is_short(&self) -> bool {
        self.bits() <= u64::BITS
    }

    /// The rows of `batches`, of which the first is number `first` of all, as they come.
    pub(super) fn words<W: Word>(&self, keys: &[Key], batches: &[RecordBatch], first: usize) -> Vec<W> {
        debug_assert!(self.bits() <= W::BITS);
        let mut words = vec![W::NONE; batches.iter().map(RecordBatch::num_rows).sum()];
        for ((arrays, options), range) in keys.iter().zip(&self.keys) {
            range.add(&mut words, arrays, *options);
        }
        let places = batches.iter().enumerate().flat_map(|(number, batch)| {
            let number = ((first + number) as u64) << self.row_bits;
            (0..batch.num_rows() as u64).map(move |row| number | row)
        });
        words
            .iter_mut()
            .zip(places)
            .for_each(|(word, at)| *word = word.then(u128::from(at), self.place_bits));
        words
    }

    /// The batch of `word`'s row, and the row in it.
    pub(super) fn place<W: Word>(&self, word: W) -> (usize, usize) {
        let of = |word: u64, bits: u32| word & ((1 << bits) - 1);
        let word = word.low();
        let batch = of(word >> self.row_bits, self.place_bits - self.row_bits);
        (batch as usize, of(word, self.row_bits) as usize)
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

/// True for types whose order is that of their bytes.
pub(super) fn is_text(ty: &DataType) -> bool {
    use DataType::*;
    matches!(ty, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
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

/// Bits of the numbers up to `most`.
fn bits_of(most: u128) -> u32 {
    u128::BITS - most.leading_zeros()
}

/// The values of a key: `None` at the ends for one that is always NULL.
#[derive(Debug, Clone)]
pub(super) struct Range {
    ends: Option<(i128, i128)>,
    has_nulls: bool,
    bits: u32,
}

impl Range {
    /// Of the values in `arrays`; `None` where they are further apart than words can tell.
    pub(super) fn of<'a>(arrays: impl Iterator<Item = &'a ArrayRef>) -> Option<Self> {
        let none = Self { ends: None, has_nulls: false, bits: 0 };
        arrays
            .map(|array| Self { ends: ends_of(array), has_nulls: array.null_count() > 0, bits: 0 })
            .try_fold(none, |all, one| all.and(&one))
    }

    /// Of the values of both.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        let ends = match (self.ends, other.ends) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (some, None) | (None, some) => some,
        };
        let has_nulls = self.has_nulls || other.has_nulls;
        let most = match ends {
            Some((least, greatest)) => greatest.checked_sub(least)? as u128 + u128::from(has_nulls),
            None => 0,
        };
        Some(Self { ends, has_nulls, bits: bits_of(most) })
    }

    /// Puts the key that `arrays` are the values of behind what `words` have already.
    fn add<W: Word>(&self, words: &mut [W], arrays: &[ArrayRef], options: SortOptions) {
        let Some((least, greatest)) = self.ends else { return };
        let first = u128::from(self.has_nulls && options.nulls_first);
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
                    *word = word.then(code, self.bits);
                }
            });
        }
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
