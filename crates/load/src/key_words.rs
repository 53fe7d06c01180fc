//! Sort keys of few bytes as numbers, and the order of rows by them: a radix sort on all cores.
//!
//! ```text
//!   batch 0   columns ── arrow's row format, at most 16 bytes ──► big-endian number, zeros behind
//!   batch 1      ⋮                                                   │ beside it the number of batch and row
//!                                                                    ▼
//!                                                stable radix sort (pelton_sort::host) ──► places in order
//! ```
//!
//! Keys of more bytes, and texts, are ordered by number (`keys.rs`). Bound: [`KeyWords::row_bytes`] for each row, half of
//! which is scratch.

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::DataType;
use arrow::row::RowConverter;
use pelton_error::Result;
use pelton_sort::host::{SortedColumns, sort};
use pelton_sort::{Bits, Direction, Key};

use crate::sort::{SortKeys, sort_error};

/// Where a row is: the number of its batch in the upper half, its place there in the lower.
pub(crate) type Place = u64;

/// The place of row `row` of batch `batch`.
pub(crate) fn place(batch: usize, row: usize) -> Place {
    (batch as u64) << 32 | row as u64
}

/// Batch and row of `place`.
pub(crate) fn batch_and_row(place: Place) -> (usize, usize) {
    ((place >> 32) as usize, place as u32 as usize)
}

/// Keys that all have as many bytes, at most 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyWords {
    key_bytes: usize,
}

impl KeyWords {
    /// For keys of these types, which `converter` converts; `None` where they are longer, or of several lengths.
    ///
    /// # Errors
    ///
    /// Of the converter.
    pub(crate) fn of(types: &[DataType], converter: &RowConverter) -> Result<Option<Self>> {
        if !types.iter().all(|data_type| data_type.is_primitive() || *data_type == DataType::Boolean) {
            return Ok(None);
        }
        let nulls: Vec<_> = types.iter().map(|data_type| new_null_array(data_type, 1)).collect();
        let rows = converter.convert_columns(&nulls).map_err(|error| sort_error(&error))?;
        // Of these types NULL has as many bytes as any value.
        let key_bytes = rows.row(0).data().len();
        Ok((key_bytes <= size_of::<u128>()).then_some(Self { key_bytes }))
    }

    /// Bytes that sorting takes for a row, beside the row.
    pub(crate) fn row_bytes(self) -> u64 {
        let key_bytes = if self.is_narrow() { size_of::<u64>() } else { size_of::<u128>() };
        2 * (key_bytes + size_of::<Place>()) as u64
    }

    fn is_narrow(self) -> bool {
        self.key_bytes <= size_of::<u64>()
    }

    /// The places of all rows of `batches` in the order of their keys; equal ones stay in the order in which they came.
    pub(crate) fn order(
        self,
        keys: &SortKeys<'_>,
        batches: &[RecordBatch],
        thread_count: usize,
    ) -> Result<Vec<Place>> {
        match self.is_narrow() {
            true => self.order_by::<u64>(keys, batches, thread_count),
            false => self.order_by::<u128>(keys, batches, thread_count),
        }
    }

    fn order_by<K: Key + Default>(
        self,
        keys: &SortKeys<'_>,
        batches: &[RecordBatch],
        thread_count: usize,
    ) -> Result<Vec<Place>> {
        let row_count = batches.iter().map(RecordBatch::num_rows).sum();
        let (mut words, mut places) = (vec![K::default(); row_count], vec![0; row_count]);
        let per_thread = batches.len().div_ceil(thread_count.max(1)).max(1);
        std::thread::scope(|threads| {
            let (mut words, mut places) = (words.as_mut_slice(), places.as_mut_slice());
            let mut started = Vec::new();
            for (number, some) in batches.chunks(per_thread).enumerate() {
                let rows = some.iter().map(RecordBatch::num_rows).sum();
                let own;
                (own, words) = words.split_at_mut(rows);
                let own_places;
                (own_places, places) = places.split_at_mut(rows);
                let first = number * per_thread;
                started.push(threads.spawn(move || self.fill(keys, some, first, own, own_places)));
            }
            started.into_iter().try_for_each(|thread| match thread.join() {
                Ok(filled) => filled,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        let (mut other_words, mut other_places) = (vec![K::default(); row_count], vec![0; row_count]);
        let rows = SortedColumns { keys: &mut words, payloads: &mut places };
        let scratch = SortedColumns { keys: &mut other_words, payloads: &mut other_places };
        sort(rows, scratch, Direction::Ascending, thread_count.max(1));
        Ok(places)
    }

    /// Keys and places of the rows of `batches`, the first of which has number `first`.
    fn fill<K: Key>(
        self,
        keys: &SortKeys<'_>,
        batches: &[RecordBatch],
        first: usize,
        words: &mut [K],
        places: &mut [Place],
    ) -> Result<()> {
        let mut targets = words.iter_mut().zip(places);
        for (number, batch) in (first..).zip(batches) {
            for (row, key) in keys.rows(batch)?.iter().enumerate() {
                let mut bytes = [0; size_of::<u128>()];
                let bytes_of_word = &mut bytes[size_of::<u128>() - size_of::<K>()..];
                bytes_of_word[..self.key_bytes].copy_from_slice(key.data());
                let (word, target) = targets.next().expect("room for all rows");
                *word = K::of_bits(K::Bits::of_word(u128::from_be_bytes(bytes)));
                *target = place(number, row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array};

    use super::*;
    use crate::sort::KeyColumns;

    /// The first columns of a batch.
    struct First(Vec<DataType>);

    impl KeyColumns for First {
        fn types(&self) -> Vec<DataType> {
            self.0.clone()
        }

        fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
            Ok(batch.columns()[..self.0.len()].to_vec())
        }
    }

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().enumerate().map(|(index, column)| (format!("c{index}"), column, true)),
        )
        .unwrap()
    }

    fn words_of(types: &[DataType]) -> Option<KeyWords> {
        let columns = First(types.to_vec());
        SortKeys::new(&columns).unwrap().words
    }

    /// The order of `batches` by all their columns is that of a stable sort by arrow's rows.
    fn check(batches: &[RecordBatch]) {
        let types: Vec<DataType> =
            batches[0].columns().iter().map(|column| column.data_type().clone()).collect();
        let columns = First(types);
        let keys = SortKeys::new(&columns).unwrap();
        let rows: Vec<_> = batches.iter().map(|batch| keys.rows(batch).unwrap()).collect();
        let mut expected: Vec<Place> = (0..batches.len())
            .flat_map(|batch| (0..batches[batch].num_rows()).map(move |row| place(batch, row)))
            .collect();
        expected.sort_by_key(|&place| {
            let (batch, row) = batch_and_row(place);
            rows[batch].row(row)
        });
        let words = keys.words.expect("keys of few bytes");
        for threads in [1, 2, 5] {
            assert_eq!(words.order(&keys, batches, threads).unwrap(), expected, "{threads} threads");
        }
    }

    #[test]
    fn rows_come_as_in_a_stable_sort() {
        let dates = |first: i32, count: i32| -> ArrayRef {
            let date = |row: i32| (row % 7 > 0).then_some((row * 7919) % 90 - 40);
            Arc::new((first..first + count).map(date).collect::<Date32Array>())
        };
        check(&[batch(vec![dates(0, 700)]), batch(vec![dates(5, 0)]), batch(vec![dates(9, 90_000)])]);
        let longs = |first: i64, count: i64| -> ArrayRef {
            let extremes = [Some(i64::MIN), Some(-1), None, Some(0), Some(i64::MAX)];
            Arc::new(
                (first..first + count).map(|row| extremes[(row * 31 % 5) as usize]).collect::<Int64Array>(),
            )
        };
        check(&[batch(vec![longs(0, 300)])]);
        check(&[batch(vec![dates(0, 400), longs(1, 400)]), batch(vec![dates(3, 500), longs(2, 500)])]);
        let flags: ArrayRef =
            Arc::new((0..50).map(|row| [None, Some(true), Some(false)][row % 3]).collect::<BooleanArray>());
        let doubles = [f64::NAN, -0.0, 0.0, f64::NEG_INFINITY, 1.5];
        let doubles: ArrayRef = Arc::new((0..50).map(|row| Some(doubles[row % 5])).collect::<Float64Array>());
        check(&[batch(vec![flags.clone(), doubles, flags])]);
        check(&[batch(vec![Arc::new(Int64Array::from(vec![1; 1000]))])]);
    }

    #[test]
    fn keys_of_many_bytes_and_texts_are_no_words() {
        assert_eq!(words_of(&[DataType::Date32]), Some(KeyWords { key_bytes: 5 }));
        assert_eq!(words_of(&[DataType::Date32, DataType::Int64]), Some(KeyWords { key_bytes: 14 }));
        assert_eq!(words_of(&[DataType::Int64, DataType::Int64]), None);
        assert_eq!(words_of(&[DataType::Utf8]), None);
        assert_eq!(words_of(&[DataType::Date32, DataType::Utf8]), None);
        let decimal = Decimal128Array::from(vec![1]);
        assert_eq!(words_of(&[arrow::array::Array::data_type(&decimal).clone()]), None);
    }
}
