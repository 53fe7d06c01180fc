//! Columns for the tests: every type, several shapes of values, several patterns of NULLs.

use pelton_chunk::{ByteValues, Column, DecodedColumn, PhysicalType, Validity, Values};

/// Every physical type.
pub(crate) const TYPES: [PhysicalType; 12] = {
    use PhysicalType::*;
    [U8, U16, U32, U64, I8, I16, I32, I64, I128, F32, F64, Bytes]
};

/// How values follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Anything the type holds; for floats also NaN, infinities and -0.0.
    Wild,
    /// Few distinct values in random order.
    Few,
    /// Rising by small steps.
    Sorted,
    /// Runs of 1 to 40 equal values.
    Runs,
    /// Two decimals, with an odd one out now and then; integers in a narrow range.
    Decimals,
}

pub(crate) const SHAPES: [Shape; 5] = [Shape::Wild, Shape::Few, Shape::Sorted, Shape::Runs, Shape::Decimals];

/// Which rows are NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    None,
    Some,
    /// The first 1500 rows, which makes whole pages NULL.
    Leading,
    All,
}

pub(crate) const NULLS: [Nulls; 4] = [Nulls::None, Nulls::Some, Nulls::Leading, Nulls::All];

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A column of `rows` rows, the same for the same arguments.
pub(crate) fn column(ty: PhysicalType, shape: Shape, nulls: Nulls, rows: usize, seed: u64) -> Column {
    let mut random = Random(seed);
    let words = words(shape, rows, &mut random);
    let validity = match nulls {
        Nulls::None => None,
        Nulls::Some => Some(Validity::from_bools((0..rows).map(|_| random.below(3) > 0))),
        Nulls::Leading => Some(Validity::from_bools((0..rows).map(|row| row >= 1500))),
        Nulls::All => Some(Validity::from_bools((0..rows).map(|_| false))),
    };
    Column { values: values(ty, shape, &words), validity }
}

fn words(shape: Shape, rows: usize, random: &mut Random) -> Vec<u64> {
    let mut word = random.below(1000);
    let mut run_left = 0;
    let next = |_| {
        match shape {
            Shape::Wild => word = random.next(),
            Shape::Few => word = random.below(12) * 7,
            Shape::Sorted => word += random.below(4),
            Shape::Runs if run_left > 0 => run_left -= 1,
            Shape::Runs => {
                run_left = random.below(40);
                word = random.below(200);
            }
            Shape::Decimals => word = 500 + random.below(9000),
        }
        word
    };
    (0..rows).map(next).collect()
}

fn values(ty: PhysicalType, shape: Shape, words: &[u64]) -> Values {
    macro_rules! integers {
        ($variant:ident, $ty:ty) => {
            Values::$variant(words.iter().map(|word| (*word as $ty).wrapping_sub(40)).collect())
        };
    }
    let is_decimal = shape == Shape::Decimals;
    match ty {
        PhysicalType::U8 => integers!(U8, u8),
        PhysicalType::U16 => integers!(U16, u16),
        PhysicalType::U32 => integers!(U32, u32),
        PhysicalType::U64 => integers!(U64, u64),
        PhysicalType::I8 => integers!(I8, i8),
        PhysicalType::I16 => integers!(I16, i16),
        PhysicalType::I32 => integers!(I32, i32),
        PhysicalType::I64 => integers!(I64, i64),
        PhysicalType::I128 => {
            let wide = |word: &u64| i128::from(*word as i64) * if shape == Shape::Wild { 1 << 60 } else { 3 };
            Values::I128(words.iter().map(wide).collect())
        }
        PhysicalType::F32 => Values::F32(words.iter().map(|word| float(*word, is_decimal) as f32).collect()),
        PhysicalType::F64 => Values::F64(words.iter().map(|word| float(*word, is_decimal)).collect()),
        PhysicalType::Bytes => {
            let mut strings = ByteValues::default();
            for word in words {
                let text = if shape == Shape::Wild { &word.to_le_bytes()[..*word as usize % 9] } else { &[] };
                strings.push(&[text, word.to_string().as_bytes()].concat()).unwrap();
            }
            Values::Bytes(strings)
        }
    }
}

fn float(word: u64, is_decimal: bool) -> f64 {
    let odd =
        [f64::NAN, -f64::NAN, f64::from_bits(0x7FF0_0000_0000_0001), f64::INFINITY, f64::NEG_INFINITY, -0.0];
    match word % 97 {
        _ if !is_decimal => f64::from_bits(word),
        index @ 0..6 => odd[index as usize],
        6 => std::f64::consts::PI * word as f64,
        _ => (word as f64 - 3000.0) / 100.0,
    }
}

/// Asserts that `actual` holds `rows` of `expected`: same validity, same bits in valid rows.
pub(crate) fn assert_same(
    actual: DecodedColumn,
    expected: &Column,
    rows: impl Iterator<Item = usize>,
    what: &str,
) {
    let actual = actual.into_column().unwrap();
    let rows: Vec<usize> = rows.collect();
    assert_eq!(actual.len(), rows.len(), "{what}");
    if let Some(validity) = &actual.validity {
        let exact = Validity::from_bools((0..validity.len).map(|row| validity.is_valid(row)));
        assert_eq!(*validity, exact, "{what}: bits past the last row");
    }
    for (row, expected_row) in rows.into_iter().enumerate() {
        assert_eq!(actual.is_valid(row), expected.is_valid(expected_row), "{what} row {row}");
        if actual.is_valid(row) {
            assert!(
                value_bits(&actual.values, row) == value_bits(&expected.values, expected_row),
                "{what} row {row}"
            );
        }
    }
}

fn value_bits(values: &Values, row: usize) -> Vec<u8> {
    match values {
        Values::F32(values) => values[row].to_bits().to_le_bytes().to_vec(),
        Values::F64(values) => values[row].to_bits().to_le_bytes().to_vec(),
        values => pelton_chunk::match_fixed_width!(values, values => values[row].to_le_bytes().to_vec(),
            bytes values => values.get(row).to_vec()),
    }
}
