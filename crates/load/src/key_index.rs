//! From the key values of a dimension to its rows.
//!
//! Whole numbers in a compact range index a vector; other whole numbers, and values of other types, are
//! hashed. Rows that share a key are chained, so that joins that match several rows see all of them.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow::array::ArrayRef;
use pelton_chunk::{Column, Values};
use pelton_error::{Error, Result};
use pelton_store::{LogicalType, column_from_arrow};

/// Marks "no row".
pub(crate) const NO_ROW: u32 = u32::MAX;

/// A vector index may be this many times longer than there are rows.
const DENSE_SLOTS_PER_ROW: u64 = 8;

/// Finds rows by key.
#[derive(Debug)]
pub(crate) struct KeyIndex {
    first: FirstRows,
    /// For each row the next one with the same key; empty where keys are unique.
    chain: Vec<u32>,
}

/// The first row of each key.
#[derive(Debug)]
enum FirstRows {
    Dense { least: i64, rows: Vec<u32> },
    Whole(HashMap<i64, u32>),
    Bytes(HashMap<Box<[u8]>, u32>),
}

impl KeyIndex {
    /// Indexes `keys` of type `key_type` for look-ups by values of type `referring`.
    pub(crate) fn build(keys: &ArrayRef, key_type: &LogicalType, referring: &LogicalType) -> Result<Self> {
        let column = column_from_arrow(keys, key_type)?;
        if column.len() >= NO_ROW as usize {
            return Err(Error::unsupported("dimensions have at most 4,294,967,294 rows"));
        }
        if !are_comparable(key_type, referring) {
            return Err(Error::invalid_input(format!(
                "the referring column is {referring} but the key is {key_type}; they must be of one type"
            )));
        }
        let first = match whole_numbers(&column.values) {
            Some(values) => FirstRows::of_whole_numbers(&values, &column),
            None => FirstRows::Bytes(HashMap::new()),
        };
        let mut index = Self { first, chain: Vec::new() };
        // Back to front, so that the first row of each key ends up in front of its chain.
        for row in (0..column.len()).rev().filter(|&row| column.is_valid(row)) {
            index.add(&column, row);
        }
        Ok(index)
    }

    fn add(&mut self, column: &Column, row: usize) {
        let row_count = column.len();
        let row_id = row as u32;
        let previous = match &mut self.first {
            FirstRows::Dense { least, rows } => {
                let slot = &mut rows[whole_number(&column.values, row).wrapping_sub(*least) as usize];
                std::mem::replace(slot, row_id)
            }
            FirstRows::Whole(rows) => {
                rows.insert(whole_number(&column.values, row), row_id).unwrap_or(NO_ROW)
            }
            FirstRows::Bytes(rows) => {
                rows.insert(key_bytes(&column.values, row).into(), row_id).unwrap_or(NO_ROW)
            }
        };
        if previous != NO_ROW {
            self.chain.resize(row_count, NO_ROW);
            self.chain[row] = previous;
        }
    }

    /// For each row of `column` the first row with its value, or `NO_ROW`.
    pub(crate) fn look_up(&self, column: &Column) -> Vec<u32> {
        let mut rows = match &self.first {
            FirstRows::Bytes(index) => (0..column.len())
                .map(|row| index.get(key_bytes(&column.values, row).as_ref()).copied().unwrap_or(NO_ROW))
                .collect(),
            whole => {
                let values =
                    whole_numbers(&column.values).expect("the types were compared when the index was built");
                values.iter().map(|&value| whole.row_of(value)).collect::<Vec<u32>>()
            }
        };
        if let Some(validity) = &column.validity {
            for (row, found) in rows.iter_mut().enumerate() {
                if !validity.is_valid(row) {
                    *found = NO_ROW;
                }
            }
        }
        rows
    }

    /// The rows after `row` that have its key.
    pub(crate) fn same_key(&self, row: u32) -> impl Iterator<Item = u32> {
        let next = |row: u32| self.chain.get(row as usize).copied().filter(|&next| next != NO_ROW);
        std::iter::successors(next(row), move |&row| next(row))
    }

    /// True where no two rows share a key.
    pub(crate) fn is_unique(&self) -> bool {
        self.chain.is_empty()
    }
}

impl FirstRows {
    /// A vector where the keys lie close together, else a hash table; without rows yet.
    fn of_whole_numbers(values: &[i64], column: &Column) -> Self {
        let valid =
            || values.iter().enumerate().filter(|(row, _)| column.is_valid(*row)).map(|(_, &value)| value);
        let (Some(least), Some(greatest)) = (valid().min(), valid().max()) else {
            return Self::Whole(HashMap::new());
        };
        let span = greatest.wrapping_sub(least) as u64;
        if span <= DENSE_SLOTS_PER_ROW * values.len() as u64 + 1024 {
            return Self::Dense { least, rows: vec![NO_ROW; span as usize + 1] };
        }
        Self::Whole(HashMap::with_capacity(values.len()))
    }

    fn row_of(&self, value: i64) -> u32 {
        match self {
            Self::Dense { least, rows } => {
                let slot = value.wrapping_sub(*least) as u64;
                usize::try_from(slot).ok().and_then(|slot| rows.get(slot)).copied().unwrap_or(NO_ROW)
            }
            Self::Whole(rows) => rows.get(&value).copied().unwrap_or(NO_ROW),
            Self::Bytes(_) => unreachable!("whole numbers are not kept as bytes"),
        }
    }
}

/// Types whose equal values have equal keys here: all whole numbers, else one and the same type.
fn are_comparable(key: &LogicalType, referring: &LogicalType) -> bool {
    key == referring || (is_whole(key) && is_whole(referring))
}

fn is_whole(logical: &LogicalType) -> bool {
    use LogicalType::*;
    matches!(logical, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32)
}

/// The values as 64-bit integers, for the physical types of which each is one.
fn whole_numbers(values: &Values) -> Option<Cow<'_, [i64]>> {
    Some(match values {
        Values::I64(values) => Cow::Borrowed(values.as_slice()),
        Values::U8(values) => values.iter().map(|&value| i64::from(value)).collect(),
        Values::U16(values) => values.iter().map(|&value| i64::from(value)).collect(),
        Values::U32(values) => values.iter().map(|&value| i64::from(value)).collect(),
        Values::I8(values) => values.iter().map(|&value| i64::from(value)).collect(),
        Values::I16(values) => values.iter().map(|&value| i64::from(value)).collect(),
        Values::I32(values) => values.iter().map(|&value| i64::from(value)).collect(),
        Values::U64(_) | Values::I128(_) | Values::F32(_) | Values::F64(_) | Values::Bytes(_) => return None,
    })
}

fn whole_number(values: &Values, row: usize) -> i64 {
    match values {
        Values::I64(values) => values[row],
        Values::U8(values) => values[row].into(),
        Values::U16(values) => values[row].into(),
        Values::U32(values) => values[row].into(),
        Values::I8(values) => values[row].into(),
        Values::I16(values) => values[row].into(),
        Values::I32(values) => values[row].into(),
        _ => unreachable!("asked only of whole numbers"),
    }
}

/// Bytes that are equal where the values are.
fn key_bytes(values: &Values, row: usize) -> Cow<'_, [u8]> {
    match values {
        Values::Bytes(values) => Cow::Borrowed(values.get(row)),
        Values::U64(values) => Cow::Owned(values[row].to_le_bytes().to_vec()),
        Values::I128(values) => Cow::Owned(values[row].to_le_bytes().to_vec()),
        // Adding zero turns -0.0 into 0.0, which SQL holds equal.
        Values::F32(values) => Cow::Owned((values[row] + 0.0).to_bits().to_le_bytes().to_vec()),
        Values::F64(values) => Cow::Owned((values[row] + 0.0).to_bits().to_le_bytes().to_vec()),
        _ => unreachable!("whole numbers are not kept as bytes"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, StringArray};

    use super::*;

    /// All rows found for each value.
    fn found(index: &KeyIndex, column: &Column) -> Vec<Vec<u32>> {
        let all = |first: u32| match first {
            NO_ROW => vec![],
            first => std::iter::once(first).chain(index.same_key(first)).collect(),
        };
        index.look_up(column).into_iter().map(all).collect()
    }

    #[test]
    fn every_kind_of_index_finds_all_rows_of_a_key_in_order() {
        for scale in [1, 1_000_000_007] {
            let keys: ArrayRef = Arc::new(Int64Array::from(vec![
                Some(3 * scale),
                None,
                Some(-scale),
                Some(3 * scale),
                Some(0),
            ]));
            let index = KeyIndex::build(&keys, &LogicalType::Int64, &LogicalType::Int64).unwrap();
            assert!(!index.is_unique());
            let asked = Column::new(Values::I64(vec![3 * scale, 0, 7, -scale, i64::MIN]));
            assert_eq!(found(&index, &asked), [vec![0, 3], vec![4], vec![], vec![2], vec![]]);
        }
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["b", "a", "b"]));
        let index = KeyIndex::build(&keys, &LogicalType::Utf8, &LogicalType::Utf8).unwrap();
        let asked: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("z")]));
        let asked = column_from_arrow(&asked, &LogicalType::Utf8).unwrap();
        assert_eq!(found(&index, &asked), [vec![0, 2], vec![], vec![]]);
    }

    #[test]
    fn widths_of_whole_numbers_mix_and_other_types_do_not() {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let index = KeyIndex::build(&keys, &LogicalType::Int32, &LogicalType::Int64).unwrap();
        assert!(index.is_unique());
        assert_eq!(found(&index, &Column::new(Values::I64(vec![2, 1 << 40]))), [vec![1], vec![]]);
        let error = KeyIndex::build(&keys, &LogicalType::Int32, &LogicalType::Utf8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the referring column is utf8 but the key is int32; they must be of one type"
        );
    }
}
