//! Rows in memory of the host, split by a hash of keys: equal keys are in parts of the same number, of whichever side
//! of a join and in whichever width.
//!
//! Traffic: each row is read once and written once a split. What is split is let go column by column.

use std::ops::Range;

use pelton_pipeline::{RowColumn, RowValues, Rows};

use super::memory::VECTOR_ROWS;

/// Splits of what does not fit, each by another hash.
pub(super) const SPLITS_MAX: u32 = 6;

/// Splits `rows` into `count` parts by the columns `keys`, by another hash for each number of `splits`.
pub(super) fn split(rows: Rows, keys: &[usize], count: usize, splits: u32) -> Vec<Rows> {
    if count == 1 {
        return vec![rows];
    }
    let parts: Vec<u32> =
        hashes(&rows, keys, splits).into_iter().map(|hash| part_of(hash, count) as u32).collect();
    let mut row_counts = vec![0; count];
    parts.iter().for_each(|part| row_counts[*part as usize] += 1);
    let of_count = |row_count: &usize| Rows { row_count: *row_count, columns: Vec::new() };
    let mut split: Vec<Rows> = row_counts.iter().map(of_count).collect();
    for column in rows.columns {
        for (rows, column) in split.iter_mut().zip(split_column(column, &parts, &row_counts)) {
            rows.columns.push(column);
        }
    }
    split
}

/// The part of several that a hash belongs to.
fn part_of(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// One hash a row of the columns `keys`: of equal keys the same, whichever integer type they have. NULL hashes like some
/// value.
fn hashes(rows: &Rows, keys: &[usize], splits: u32) -> Vec<u64> {
    let seed = 0x9E37_79B9_7F4A_7C15 ^ u64::from(splits) << 57;
    let mut hashes = vec![seed; rows.row_count];
    for key in keys {
        let add =
            |(hash, word): (&mut u64, i128)| *hash = mixed(mixed(*hash, word as u64), (word >> 64) as u64);
        let each = hashes.iter_mut();
        match &rows.columns[*key].values {
            RowValues::Bool(values) => each.zip(values.iter().map(|value| i128::from(*value))).for_each(add),
            RowValues::I32(values) => each.zip(values.iter().map(|value| i128::from(*value))).for_each(add),
            RowValues::I64(values) => each.zip(values.iter().map(|value| i128::from(*value))).for_each(add),
            RowValues::I128(values) => each.zip(values.iter().copied()).for_each(add),
            RowValues::F64(values) => each.zip(values.iter().map(|value| key_bits(*value))).for_each(add),
            RowValues::Text { .. } => unreachable!("texts are looked up by their hashes"),
        }
    }
    hashes
}

/// The bits of a double as a key: those of both zeros are the same, and those of all NaNs.
fn key_bits(value: f64) -> i128 {
    let value = if value == 0.0 { 0.0 } else { value };
    let value = if value.is_nan() { f64::NAN } else { value };
    i128::from(value.to_bits())
}

fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = (hash ^ hash >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^ hash >> 32
}

fn split_column(column: RowColumn, parts: &[u32], row_counts: &[usize]) -> Vec<RowColumn> {
    let valid: Vec<Option<Vec<bool>>> = match &column.valid {
        Some(valid) => scattered(valid, parts, row_counts).into_iter().map(Some).collect(),
        None => vec![None; row_counts.len()],
    };
    let values: Vec<RowValues> = match &column.values {
        RowValues::Bool(values) => {
            scattered(values, parts, row_counts).into_iter().map(RowValues::Bool).collect()
        }
        RowValues::I32(values) => {
            scattered(values, parts, row_counts).into_iter().map(RowValues::I32).collect()
        }
        RowValues::I64(values) => {
            scattered(values, parts, row_counts).into_iter().map(RowValues::I64).collect()
        }
        RowValues::I128(values) => {
            scattered(values, parts, row_counts).into_iter().map(RowValues::I128).collect()
        }
        RowValues::F64(values) => {
            scattered(values, parts, row_counts).into_iter().map(RowValues::F64).collect()
        }
        RowValues::Text { ids, dictionary } => scattered(ids, parts, row_counts)
            .into_iter()
            .map(|ids| RowValues::Text { ids, dictionary: dictionary.clone() })
            .collect(),
    };
    values.into_iter().zip(valid).map(|(values, valid)| RowColumn { values, valid }).collect()
}

fn scattered<T: Copy>(values: &[T], parts: &[u32], row_counts: &[usize]) -> Vec<Vec<T>> {
    let mut split: Vec<Vec<T>> = row_counts.iter().map(|count| Vec::with_capacity(*count)).collect();
    for (value, part) in values.iter().zip(parts) {
        split[*part as usize].push(*value);
    }
    split
}

/// Some of `rows`.
pub(super) fn some_of(rows: &Rows, range: Range<usize>) -> Rows {
    let column = |column: &RowColumn| RowColumn {
        values: match &column.values {
            RowValues::Bool(values) => RowValues::Bool(values[range.clone()].to_vec()),
            RowValues::I32(values) => RowValues::I32(values[range.clone()].to_vec()),
            RowValues::I64(values) => RowValues::I64(values[range.clone()].to_vec()),
            RowValues::I128(values) => RowValues::I128(values[range.clone()].to_vec()),
            RowValues::F64(values) => RowValues::F64(values[range.clone()].to_vec()),
            RowValues::Text { ids, dictionary } => {
                RowValues::Text { ids: ids[range.clone()].to_vec(), dictionary: dictionary.clone() }
            }
        },
        valid: column.valid.as_ref().map(|valid| valid[range.clone()].to_vec()),
    };
    Rows { row_count: range.len(), columns: rows.columns.iter().map(column).collect() }
}

/// Of rows whose first `key_count` columns are keys, none of which is NULL: the first of each key.
pub(super) fn first_of_each_key(rows: &Rows, key_count: usize) -> Rows {
    let word = |column: usize, row: usize| match &rows.columns[column].values {
        RowValues::Bool(values) => i128::from(values[row]),
        RowValues::I32(values) => i128::from(values[row]),
        RowValues::I64(values) => i128::from(values[row]),
        RowValues::I128(values) => values[row],
        RowValues::F64(values) => key_bits(values[row]),
        RowValues::Text { .. } => unreachable!("texts are looked up by their hashes"),
    };
    let mut seen = std::collections::HashSet::new();
    let is_first = |row: usize| seen.insert((0..key_count).map(|key| word(key, row)).collect::<Vec<i128>>());
    let is_kept: Vec<bool> = (0..rows.row_count).map(is_first).collect();
    let mut kept = some_of(rows, 0..rows.row_count);
    super::results::retain(&mut kept, &is_kept);
    kept
}

/// Bytes of a row as chunks hold it, at least.
pub(super) fn row_bytes(rows: &Rows) -> usize {
    let of_column = |column: &RowColumn| {
        let values = match &column.values {
            RowValues::Bool(_) => 1,
            RowValues::I32(_) | RowValues::Text { .. } => 4,
            RowValues::I64(_) | RowValues::F64(_) => 8,
            RowValues::I128(_) => 16,
        };
        values + usize::from(column.valid.is_some())
    };
    rows.columns.iter().map(of_column).sum::<usize>().max(1)
}

/// Bytes of all rows.
pub(super) fn bytes(rows: &Rows) -> u64 {
    (row_bytes(rows) * rows.row_count) as u64
}

/// The fewest rows that are copied to the device in one go.
pub(super) const ROWS_LEAST: usize = VECTOR_ROWS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn column(values: RowValues) -> RowColumn {
        RowColumn { values, valid: None }
    }

    fn numbers(rows: &Rows, index: usize) -> Vec<i64> {
        match &rows.columns[index].values {
            RowValues::I32(values) => values.iter().map(|value| i64::from(*value)).collect(),
            RowValues::I64(values) => values.clone(),
            _ => unreachable!("numbers"),
        }
    }

    #[test]
    fn equal_keys_of_two_widths_are_in_parts_of_the_same_number() {
        let (build, probe): (Vec<i64>, Vec<i32>) = ((-500..500).collect(), (-100..100).rev().collect());
        let build = Rows { row_count: 1000, columns: vec![column(RowValues::I64(build))] };
        let valid = Some(vec![true; 200]);
        let probe =
            Rows { row_count: 200, columns: vec![RowColumn { values: RowValues::I32(probe), valid }] };
        for splits in [0, 3] {
            let (build, probe) =
                (split(build.clone(), &[0], 7, splits), split(probe.clone(), &[0], 7, splits));
            assert_eq!(build.iter().map(|rows| rows.row_count).sum::<usize>(), 1000);
            assert!(build.iter().all(|rows| rows.row_count > 80), "{:?}", build[0]);
            for (build, probe) in build.iter().zip(&probe) {
                let build = numbers(build, 0);
                assert!(numbers(probe, 0).iter().all(|key| build.contains(key)));
                assert_eq!(probe.columns[0].valid.as_ref().map(Vec::len), Some(probe.row_count));
            }
        }
    }

    #[test]
    fn zeros_and_nans_are_one_key_each() {
        let values = vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0];
        let rows = Rows { row_count: 5, columns: vec![column(RowValues::F64(values))] };
        let hashes = hashes(&rows, &[0], 0);
        assert_eq!((hashes[0], hashes[2]), (hashes[1], hashes[3]));
        assert_ne!(hashes[0], hashes[4]);
        assert_eq!(first_of_each_key(&rows, 1).row_count, 3);
    }

    #[test]
    fn another_split_tells_keys_apart_that_one_put_together() {
        let keys: Vec<i64> = (0..4096).collect();
        let rows = Rows { row_count: 4096, columns: vec![column(RowValues::I64(keys))] };
        let first = split(rows, &[0], 16, 0).swap_remove(3);
        let count = first.row_count;
        assert!(split(first, &[0], 4, 1).iter().all(|rows| rows.row_count < count / 2));
    }
}
