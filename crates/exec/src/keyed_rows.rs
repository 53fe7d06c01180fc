//! Rows in memory of the host, split by a hash of keys: equal keys are in parts of the same number, of whichever side
//! of a join and in whichever width.
//!
//! Traffic: each row is read once and written once a split, by all cores where rows are many: first parts are found, a piece
//! of the rows a core, then columns are split, a column a core. What is split is let go as many columns at a time.

use std::collections::HashSet;
use std::ops::Range;

use pelton_pipeline::{RowColumn, RowValues, Rows};

use super::memory::VECTOR_ROWS;
use super::results::retain;
use super::tasks::in_threads;

/// Splits of what does not fit, each by another hash: beside a key with many rows no other is left in the end.
pub(super) const SPLITS_MAX: u32 = 16;

/// Rows that are worth a thread at least. A guess.
const ROWS_OF_THREAD: usize = 1 << 16;

/// Splits `rows` into `count` parts by the columns `keys`, by another hash for each number of `splits`.
pub(super) fn split(rows: Rows, keys: &[usize], count: usize, splits: u32) -> Vec<Rows> {
    if count == 1 {
        return vec![rows];
    }
    let parts = parts_of(&rows, keys, count, splits);
    split_by(rows, &parts, count)
}

/// The part of each row, of `count` parts by the columns `keys`, by another hash for each number of `splits`.
pub(super) fn parts_of(rows: &Rows, keys: &[usize], count: usize, splits: u32) -> Vec<u32> {
    let mut parts = vec![0; rows.row_count];
    let piece_rows = rows.row_count.div_ceil(threads(rows.row_count)).max(1);
    let pieces = parts.chunks_mut(piece_rows).enumerate();
    let mut pieces: Vec<(usize, &mut [u32])> =
        pieces.map(|(piece, parts)| (piece * piece_rows, parts)).collect();
    in_threads(&mut pieces, |(first, parts)| {
        let hashes = hashes(rows, keys, *first..*first + parts.len(), splits);
        parts.iter_mut().zip(hashes).for_each(|(part, hash)| *part = part_of(hash, count) as u32);
    });
    parts
}

/// Threads for work on so many rows.
fn threads(row_count: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    (row_count / ROWS_OF_THREAD).clamp(1, cores)
}

/// Whether all rows are in one part.
pub(super) fn are_together(parts: &[u32]) -> bool {
    parts.iter().all(|part| *part == parts[0])
}

/// Splits `rows` into `count` parts, of which `parts` has one for each row.
pub(super) fn split_by(rows: Rows, parts: &[u32], count: usize) -> Vec<Rows> {
    let mut row_counts = vec![0; count];
    parts.iter().for_each(|part| row_counts[*part as usize] += 1);
    let of_count = |row_count: &usize| Rows { row_count: *row_count, columns: Vec::new() };
    let mut split: Vec<Rows> = row_counts.iter().map(of_count).collect();
    let threads = threads(rows.row_count);
    let mut left = rows.columns.into_iter();
    loop {
        let mut columns: Vec<RowColumn> = left.by_ref().take(threads).collect();
        if columns.is_empty() {
            return split;
        }
        for columns in in_threads(&mut columns, |column| split_column(column, parts, &row_counts)) {
            split.iter_mut().zip(columns).for_each(|(rows, column)| rows.columns.push(column));
        }
    }
}

/// The part of several that a hash belongs to.
fn part_of(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// One hash for each row in `range`, of the columns `keys`: of equal keys the same, whichever integer type they have. NULL
/// hashes like some value.
fn hashes(rows: &Rows, keys: &[usize], range: Range<usize>, splits: u32) -> Vec<u64> {
    let seed = 0x9E37_79B9_7F4A_7C15 ^ u64::from(splits) << 57;
    let mut hashes = vec![seed; range.len()];
    for key in keys {
        let add =
            |(hash, word): (&mut u64, i128)| *hash = mixed(mixed(*hash, word as u64), (word >> 64) as u64);
        let (each, range) = (hashes.iter_mut(), range.clone());
        match &rows.columns[*key].values {
            RowValues::Bool(values) => {
                each.zip(values[range].iter().map(|value| i128::from(*value))).for_each(add)
            }
            RowValues::I32(values) => {
                each.zip(values[range].iter().map(|value| i128::from(*value))).for_each(add)
            }
            RowValues::I64(values) => {
                each.zip(values[range].iter().map(|value| i128::from(*value))).for_each(add)
            }
            RowValues::I128(values) => each.zip(values[range].iter().copied()).for_each(add),
            RowValues::F64(values) => {
                each.zip(values[range].iter().map(|value| key_bits(*value))).for_each(add)
            }
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

fn split_column(column: &RowColumn, parts: &[u32], row_counts: &[usize]) -> Vec<RowColumn> {
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

/// The key of a row, a word for each of the columns `keys`; `None` where one is NULL.
fn key_of(rows: &Rows, keys: &[usize], row: usize) -> Option<Vec<i128>> {
    let word = |key: &usize| {
        let RowColumn { values, valid } = &rows.columns[*key];
        let is_null = valid.as_ref().is_some_and(|valid| !valid[row]);
        (!is_null).then(|| match values {
            RowValues::Bool(values) => i128::from(values[row]),
            RowValues::I32(values) => i128::from(values[row]),
            RowValues::I64(values) => i128::from(values[row]),
            RowValues::I128(values) => values[row],
            RowValues::F64(values) => key_bits(values[row]),
            RowValues::Text { .. } => unreachable!("texts are looked up by their hashes"),
        })
    };
    keys.iter().map(word).collect()
}

/// The first row of each key of `rows`.
pub(super) fn first_of_each_key(rows: &Rows, keys: &[usize]) -> Rows {
    let mut seen = HashSet::new();
    let is_first: Vec<bool> = (0..rows.row_count).map(|row| seen.insert(key_of(rows, keys, row))).collect();
    chosen(rows, &is_first)
}

/// The key that all `rows` have, if they have one in common.
pub(super) fn common_key(rows: &Rows, keys: &[usize]) -> Option<Vec<i128>> {
    let key = (rows.row_count > 0).then(|| key_of(rows, keys, 0)).flatten()?;
    (1..rows.row_count).all(|row| key_of(rows, keys, row).as_ref() == Some(&key)).then_some(key)
}

/// Those of `rows` that have this key, and the others.
pub(super) fn with_key(rows: &Rows, keys: &[usize], key: &[i128]) -> (Rows, Rows) {
    let has_key: Vec<bool> =
        (0..rows.row_count).map(|row| key_of(rows, keys, row).is_some_and(|of_row| of_row == key)).collect();
    let has_another: Vec<bool> = has_key.iter().map(|has_key| !has_key).collect();
    (chosen(rows, &has_key), chosen(rows, &has_another))
}

fn chosen(rows: &Rows, is_chosen: &[bool]) -> Rows {
    let mut chosen = rows.clone();
    retain(&mut chosen, is_chosen);
    chosen
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
    fn many_rows_are_split_by_several_threads_as_few_are_by_one() {
        let count = 3 * ROWS_OF_THREAD + 77;
        let keys: Vec<i64> = (0..count as i64).map(|row| row * 7919 % 1000).collect();
        let columns = vec![column(RowValues::I64(keys)), column(RowValues::I64((0..count as i64).collect()))];
        let rows = Rows { row_count: count, columns };
        let alone: Vec<u32> =
            hashes(&rows, &[0], 0..count, 2).into_iter().map(|hash| part_of(hash, 5) as u32).collect();
        assert_eq!(parts_of(&rows, &[0], 5, 2), alone);
        let split = split(rows, &[0], 5, 2);
        for (part, rows) in split.iter().enumerate() {
            let of_part: Vec<i64> =
                (0..count).filter(|row| alone[*row] == part as u32).map(|row| row as i64).collect();
            assert_eq!(numbers(rows, 1), of_part);
        }
    }

    #[test]
    fn zeros_and_nans_are_one_key_each() {
        let values = vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0];
        let rows = Rows { row_count: 5, columns: vec![column(RowValues::F64(values))] };
        let hashes = hashes(&rows, &[0], 0..5, 0);
        assert_eq!((hashes[0], hashes[2]), (hashes[1], hashes[3]));
        assert_ne!(hashes[0], hashes[4]);
        assert_eq!(first_of_each_key(&rows, &[0]).row_count, 3);
    }

    #[test]
    fn rows_with_a_key_are_told_from_others_and_from_null() {
        let build = column(RowValues::I64(vec![7, 7]));
        let build = Rows { row_count: 2, columns: vec![build.clone(), build] };
        let key = common_key(&build, &[0, 1]).unwrap();
        let (first, second) = (vec![7, 7, 7, 6], vec![7, 6, 7, 7]);
        let valid = Some(vec![true, true, false, true]);
        let second = RowColumn { values: RowValues::I32(second), valid };
        let probe = Rows { row_count: 4, columns: vec![second, column(RowValues::I64(first))] };
        let (same, others) = with_key(&probe, &[1, 0], &key);
        assert_eq!((numbers(&same, 0), numbers(&others, 0)), (vec![7], vec![6, 7, 7]));
        assert_eq!(common_key(&probe, &[1]), None);
        assert_eq!(common_key(&Rows::default(), &[]), None);
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
