//! Groups by several keys that fit into one or two words: integers, dates and times.
//!
//! ```text
//!   column of a batch ─▶ bits of each row's value, then one that says NULL ─┐
//!   column of a batch ─▶ bits of each row's value ──────────────────────────┴▶ one key of 64 or 128 bits ─▶ its group
//! ```
//!
//! Each column of a table that is grouped has its place in the key, by its type, and one bit more where it may be NULL. So rows
//! are compared at once, however many columns there are, and what is given out is taken apart again.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayData, ArrayRef, make_array};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Field, Schema};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

use super::keys::{Key, KeyGroups};

/// Groups by keys of `schema`, with room for so many; `None` where there is one key alone, one of another type, or too many.
pub(super) fn groups_of(schema: &Schema, room: usize) -> Option<Box<dyn GroupValues>> {
    let columns = columns_of(schema)?;
    let bits = columns.last()?.end();
    Some(match bits {
        0..=64 => Box::new(PackedGroups::<u64>::new(columns, room)),
        65..=128 => Box::new(PackedGroups::<[u64; 2]>::new(columns, room)),
        _ => return None,
    })
}

/// The places of the columns in a key, one after the other.
fn columns_of(schema: &Schema) -> Option<Vec<Column>> {
    if schema.fields().len() < 2 {
        return None;
    }
    let mut at = 0;
    let column = |field: &Arc<Field>| {
        let bits = bits_of(field.data_type())?;
        let column =
            Column { at, bits, may_be_null: field.is_nullable(), data_type: field.data_type().clone() };
        at = column.end();
        Some(column)
    };
    schema.fields().iter().map(column).collect()
}

/// Bits of a value; `None` for types that are not packed.
fn bits_of(ty: &DataType) -> Option<u32> {
    Some(match ty {
        DataType::Int8 | DataType::UInt8 => 8,
        DataType::Int16 | DataType::UInt16 => 16,
        DataType::Int32 | DataType::UInt32 | DataType::Date32 | DataType::Time32(_) => 32,
        DataType::Int64
        | DataType::UInt64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..) => 64,
        _ => return None,
    })
}

/// Where a column's values lie in a key.
#[derive(Debug)]
struct Column {
    /// The lowest bit.
    at: u32,
    bits: u32,
    /// One bit more is 1 for NULL, whose value is 0.
    may_be_null: bool,
    data_type: DataType,
}

impl Column {
    fn end(&self) -> u32 {
        self.at + self.bits + u32::from(self.may_be_null)
    }

    /// Adds the values of `array`, which is of this column, to `keys`.
    fn pack<W: Word>(&self, array: &ArrayRef, keys: &mut [W]) -> Result<()> {
        if !self.may_be_null && array.null_count() > 0 {
            return internal_err!("a NULL among keys of groups that were said to have none");
        }
        let data = array.to_data();
        match self.bits {
            8 => self.pack_values(data.buffer::<u8>(0), array.nulls(), keys),
            16 => self.pack_values(data.buffer::<u16>(0), array.nulls(), keys),
            32 => self.pack_values(data.buffer::<u32>(0), array.nulls(), keys),
            _ => self.pack_values(data.buffer::<u64>(0), array.nulls(), keys),
        }
        Ok(())
    }

    fn pack_values<W: Word, V: Copy + Into<u64>>(
        &self,
        values: &[V],
        nulls: Option<&NullBuffer>,
        keys: &mut [W],
    ) {
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            keys.iter_mut().zip(values).for_each(|(key, value)| key.put(self.at, (*value).into()));
            return;
        };
        for ((key, value), is_valid) in keys.iter_mut().zip(values).zip(nulls) {
            match is_valid {
                true => key.put(self.at, (*value).into()),
                false => key.put(self.at + self.bits, 1),
            }
        }
    }

    /// The values of these keys.
    fn unpack<W: Word>(&self, keys: &[W]) -> Result<ArrayRef> {
        let values = match self.bits {
            8 => self.values(keys, |bits| bits as u8),
            16 => self.values(keys, |bits| bits as u16),
            32 => self.values(keys, |bits| bits as u32),
            _ => self.values(keys, |bits| bits),
        };
        let valid = |row: usize| keys[row].take(self.at + self.bits) & 1 == 0;
        let nulls = self.may_be_null.then(|| NullBuffer::new(BooleanBuffer::collect_bool(keys.len(), valid)));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let data = ArrayData::builder(self.data_type.clone()).len(keys.len()).add_buffer(values).nulls(nulls);
        Ok(make_array(data.build()?))
    }

    fn values<W: Word, V: ArrowNativeType>(&self, keys: &[W], value: impl Fn(u64) -> V) -> Buffer {
        Buffer::from_vec(keys.iter().map(|key| value(key.take(self.at))).collect::<Vec<V>>())
    }
}

/// A key of several columns.
trait Word: Key {
    /// Puts bits from `at` on, where there are none yet.
    fn put(&mut self, at: u32, bits: u64);

    /// 64 bits from `at` on, or as many as there are.
    fn take(self, at: u32) -> u64;
}

impl Word for u64 {
    #[inline]
    fn put(&mut self, at: u32, bits: u64) {
        *self |= bits << at;
    }

    #[inline]
    fn take(self, at: u32) -> u64 {
        self >> at
    }
}

impl Word for [u64; 2] {
    #[inline]
    fn put(&mut self, at: u32, bits: u64) {
        let wide = u128::from(bits) << at;
        self[0] |= wide as u64;
        self[1] |= (wide >> 64) as u64;
    }

    #[inline]
    fn take(self, at: u32) -> u64 {
        let wide = u128::from(self[0]) | u128::from(self[1]) << 64;
        (wide >> at) as u64
    }
}

/// Groups, in the order in which their keys came first.
struct PackedGroups<W> {
    columns: Vec<Column>,
    groups: KeyGroups<W>,
    /// The keys of a batch.
    rows: Vec<W>,
}

impl<W: Word> PackedGroups<W> {
    fn new(columns: Vec<Column>, room: usize) -> Self {
        Self { columns, groups: KeyGroups::new(room), rows: Vec::new() }
    }
}

impl<W: Word> GroupValues for PackedGroups<W> {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        self.rows.clear();
        self.rows.resize(columns[0].len(), W::default());
        for (column, array) in self.columns.iter().zip(columns) {
            column.pack(array, &mut self.rows)?;
        }
        groups.clear();
        groups.reserve(self.rows.len());
        self.groups.add(&self.rows, groups)
    }

    fn size(&self) -> usize {
        self.groups.size() + self.rows.capacity() * size_of::<W>()
    }

    fn is_empty(&self) -> bool {
        self.groups.keys().is_empty()
    }

    fn len(&self) -> usize {
        self.groups.keys().len()
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let given = match emit_to {
            EmitTo::All => self.len(),
            EmitTo::First(count) => count,
        };
        let keys = &self.groups.keys()[..given];
        let arrays = self.columns.iter().map(|column| column.unpack(keys)).collect::<Result<Vec<_>>>();
        self.groups.forget_first(given);
        arrays
    }

    fn clear_shrink(&mut self, rows: usize) {
        (self.groups, self.rows) = (KeyGroups::new(rows), Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use datafusion::arrow::array::{
        Date32Array, Int8Array, Int16Array, Int32Array, Int64Array, TimestampMicrosecondArray, UInt64Array,
    };
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::common::ScalarValue;

    use super::*;

    fn schema_of(columns: &[ArrayRef], may_be_null: bool) -> Schema {
        let field = |column: &ArrayRef| Field::new("k", column.data_type().clone(), may_be_null);
        Schema::new(columns.iter().map(field).collect::<Vec<Field>>())
    }

    /// What each row of `columns` has.
    fn rows_of(columns: &[ArrayRef]) -> Vec<String> {
        let of_row = |row| -> Vec<ScalarValue> {
            columns.iter().map(|column| ScalarValue::try_from_array(column, row).unwrap()).collect()
        };
        (0..columns[0].len()).map(|row| format!("{:?}", of_row(row))).collect()
    }

    /// Groups are numbered as their keys come first, also after some or all of them were given, and given as they came.
    fn check(batches: impl Iterator<Item = Vec<ArrayRef>>, may_be_null: bool, given_every: usize) {
        let mut groups: Option<Box<dyn GroupValues>> = None;
        let mut known: Vec<String> = Vec::new();
        for (number, columns) in batches.enumerate() {
            let schema = schema_of(&columns, may_be_null);
            let groups = groups.get_or_insert_with(|| groups_of(&schema, given_every * 30).unwrap());
            let mut numbers: HashMap<String, usize> = known.iter().cloned().zip(0..).collect();
            let mut number_of = |row: String| {
                *numbers.entry(row.clone()).or_insert_with(|| {
                    known.push(row);
                    known.len() - 1
                })
            };
            let expected: Vec<usize> = rows_of(&columns).into_iter().map(&mut number_of).collect();
            let mut found = vec![7; 3];
            groups.intern(&columns, &mut found).unwrap();
            assert_eq!((found, groups.len()), (expected, known.len()), "batch {number}");
            if number % given_every == given_every - 1 {
                let (what, count) = match number % 2 {
                    0 => (EmitTo::First(known.len() / 3), known.len() / 3),
                    _ => (EmitTo::All, known.len()),
                };
                let given = groups.emit(what).unwrap();
                let types = |columns: &[ArrayRef]| -> Vec<DataType> {
                    columns.iter().map(|column| column.data_type().clone()).collect()
                };
                assert_eq!(types(&given), types(&columns));
                assert_eq!(rows_of(&given), known.drain(..count).collect::<Vec<String>>());
                assert_eq!((groups.len(), groups.is_empty()), (known.len(), known.is_empty()));
                if groups.is_empty() {
                    groups.clear_shrink(0);
                }
            }
        }
    }

    /// Numbers that look random.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed + 1), |last| {
            Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        })
        .map(|number| number >> 30)
    }

    #[test]
    fn equal_keys_have_one_group() {
        for below in [2, 9, 300, 1 << 34] {
            for null_every in [2, 10, u64::MAX] {
                let of = |seed: u64| {
                    numbers(seed).take(700).map(move |number| {
                        (null_every == u64::MAX || !number.is_multiple_of(null_every))
                            .then_some((number % below) as i64 - 4)
                    })
                };
                let may_be_null = null_every < u64::MAX;
                let narrow = (0..24).map(|batch| {
                    vec![
                        Arc::new(of(batch).map(|n| n.map(|n| n as i32)).collect::<Int32Array>()) as ArrayRef,
                        Arc::new(of(batch + 90).map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
                        Arc::new(of(batch + 70).map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
                    ]
                });
                check(narrow, may_be_null, 7);
                let wide = (0..24).map(|batch| {
                    vec![
                        Arc::new(of(batch).map(|n| n.map(|n| n as i8)).collect::<Int8Array>()) as ArrayRef,
                        Arc::new(of(batch + 90).collect::<Int64Array>()),
                        // Days that can be told apart in words, as the oracle does.
                        Arc::new(
                            of(batch + 70).map(|n| n.map(|n| n as i32 % 90_000)).collect::<Date32Array>(),
                        ),
                    ]
                });
                check(wide, may_be_null, 5);
            }
        }
    }

    #[test]
    fn ends_of_ranges_are_given_as_they_came() {
        let ends = [i64::MIN, i64::MAX, 0, -1, 1, i64::MIN];
        let first = |of: [i64; 6]| Arc::new(Int64Array::from(of.to_vec())) as ArrayRef;
        let unsigned = UInt64Array::from(ends.map(|end| end as u64).to_vec());
        let times = TimestampMicrosecondArray::from(ends.to_vec()).with_timezone("Europe/Berlin");
        check((0..4).map(|_| vec![first(ends), Arc::new(unsigned.clone())]), false, 2);
        check((0..4).map(|_| vec![Arc::new(times.clone()), first([1, 1, 2, 2, 3, 1])]), false, 2);
        let sliced = |array: &ArrayRef| array.slice(2, 3);
        check(
            (0..4).map(|_| vec![sliced(&first(ends)), sliced(&(Arc::new(unsigned.clone()) as _))]),
            false,
            2,
        );
    }

    #[test]
    fn what_does_not_fit_is_left_to_datafusion() {
        let of = |types: &[DataType], may_be_null| {
            let field = |ty: &DataType| Field::new("k", ty.clone(), may_be_null);
            groups_of(&Schema::new(types.iter().map(field).collect::<Vec<Field>>()), 0).is_some()
        };
        let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
        assert!(of(&[DataType::Int64, time.clone()], false));
        assert!(!of(&[DataType::Int64, time.clone()], true));
        assert!(!of(&[DataType::Int64], false));
        assert!(!of(&[DataType::Int64, DataType::Utf8View], false));
        assert!(!of(&[DataType::Int64, DataType::Float64], false));
        assert!(of(&[time, DataType::Int32, DataType::Int16], true));
    }
}
