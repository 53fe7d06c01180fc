//! Groups by one key that is an integer or a date.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

use super::keys::{Key, KeyGroups};

/// Groups, in the order in which their keys came first; NULL is what has no key.
struct IntegerGroups<T: ArrowPrimitiveType> {
    groups: KeyGroups<T::Native>,
    data_type: DataType,
}

/// Groups by a key of type `ty`, with room for so many; `None` where that is no integer or date.
pub(super) fn groups_of(ty: &DataType, room: usize) -> Option<Box<dyn GroupValues>> {
    Some(match ty {
        DataType::Int8 => Box::new(IntegerGroups::<Int8Type>::new(ty, room)),
        DataType::Int16 => Box::new(IntegerGroups::<Int16Type>::new(ty, room)),
        DataType::Int32 => Box::new(IntegerGroups::<Int32Type>::new(ty, room)),
        DataType::Int64 => Box::new(IntegerGroups::<Int64Type>::new(ty, room)),
        DataType::Date32 => Box::new(IntegerGroups::<Date32Type>::new(ty, room)),
        _ => return None,
    })
}

impl<T: ArrowPrimitiveType> IntegerGroups<T>
where
    T::Native: Key,
{
    fn new(ty: &DataType, room: usize) -> Self {
        Self { groups: KeyGroups::new(room), data_type: ty.clone() }
    }

    fn array(&self, keys: &[T::Native], null: Option<usize>) -> ArrayRef {
        let nulls = null.map(|null| (0..keys.len()).map(|group| group != null).collect::<NullBuffer>());
        let array = PrimitiveArray::<T>::new(keys.to_vec().into(), nulls);
        Arc::new(array.with_data_type(self.data_type.clone()))
    }
}

impl<T: ArrowPrimitiveType> GroupValues for IntegerGroups<T>
where
    T::Native: Key,
{
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        let column = columns[0].as_primitive::<T>();
        groups.clear();
        groups.reserve(column.len());
        let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.groups.add(column.values(), groups);
        };
        for (key, is_valid) in column.values().iter().zip(nulls) {
            groups.push(match is_valid {
                true => self.groups.group_of(*key)?,
                false => self.groups.group_without_key()?,
            });
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.groups.size()
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
        let null = self.groups.without().filter(|null| *null < given);
        let array = self.array(&self.groups.keys()[..given], null);
        self.groups.forget_first(given);
        Ok(vec![array])
    }

    fn clear_shrink(&mut self, rows: usize) {
        self.groups = KeyGroups::new(rows);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Date32Array, Int8Array, Int32Array, Int64Array};
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_plan::aggregates::group_values::new_group_values;
    use datafusion::physical_plan::aggregates::order::GroupOrdering;

    use super::super::keys::NEAR_BITS;
    use super::*;

    /// The groups of all batches are DataFusion's, in their order, also after some or all of them were given.
    fn check(batches: impl Iterator<Item = ArrayRef>, given_every: usize) {
        let mut both: Option<[Box<dyn GroupValues>; 2]> = None;
        for (number, keys) in batches.enumerate() {
            let [ours, theirs] = both.get_or_insert_with(|| {
                let schema = Schema::new(vec![Field::new("k", keys.data_type().clone(), true)]);
                let theirs = new_group_values(Arc::new(schema), &GroupOrdering::None).unwrap();
                [groups_of(keys.data_type(), given_every * 50).unwrap(), theirs]
            });
            let (mut found, mut expected) = (vec![7; 3], Vec::new());
            ours.intern(std::slice::from_ref(&keys), &mut found).unwrap();
            theirs.intern(std::slice::from_ref(&keys), &mut expected).unwrap();
            assert_eq!((found, ours.len()), (expected, theirs.len()), "batch {number}");
            if number % given_every == given_every - 1 {
                let some = EmitTo::First(ours.len() / 3);
                let what = if number % 2 == 0 { some } else { EmitTo::All };
                assert_eq!(ours.emit(what).unwrap(), theirs.emit(what).unwrap());
                assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
                if ours.is_empty() {
                    [ours, theirs].into_iter().for_each(|groups| groups.clear_shrink(0));
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

    fn whole(keys: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(keys.collect::<Int64Array>())
    }

    #[test]
    fn groups_are_those_of_datafusion() {
        // Few, many, all of them new, in order, far from each other, and NULLs among them.
        for below in [1, 3, 17, 1000, 1 << 34] {
            for null_every in [1, 2, 10, u64::MAX] {
                let key = |number: u64| {
                    (!number.is_multiple_of(null_every)).then_some((number % below) as i64 - 500)
                };
                check((0..30).map(|batch| whole(numbers(batch).take(700).map(key))), 7);
            }
        }
        check((0..30).map(|batch| whole((0..500).map(|row| Some((batch * 500 + row) / 3)))), 11);
        check((0..30).map(|batch| whole((0..500).map(|row| Some(-(batch * 500 + row) << 20)))), 11);
        check((0..8).map(|_| whole([i64::MIN, -1, 0, i64::MAX, i64::MIN, 15, 16].into_iter().map(Some))), 3);
        check((0..3).map(|_| whole(std::iter::empty())), 2);
    }

    #[test]
    fn keys_of_all_types_are_given_as_they_came() {
        let of = |batch| numbers(batch).take(300);
        check((0..10).map(|batch| Arc::new(of(batch).map(|n| n as i8).collect::<Int8Array>()) as _), 3);
        check((0..10).map(|batch| Arc::new(of(batch).map(|n| n as i32).collect::<Int32Array>()) as _), 3);
        check(
            (0..10)
                .map(|batch| Arc::new(of(batch).map(|n| Some(n as i32 % 90)).collect::<Date32Array>()) as _),
            3,
        );
        assert!(groups_of(&DataType::Utf8View, 0).is_none() && groups_of(&DataType::Float64, 0).is_none());
    }

    #[test]
    fn keys_whose_hashes_meet_are_told_apart() {
        // All of them have the same place in tables of up to 2^12.
        let clashing: Vec<i64> =
            (0..400_000).map(|key| key << NEAR_BITS).filter(|key: &i64| key.far_hash() >> 52 == 5).collect();
        assert!(clashing.len() > 50);
        let clashing = |number: u64| clashing[number as usize % clashing.len()];
        check((0..20).map(|batch| whole(numbers(batch).take(200).map(|number| Some(clashing(number))))), 9);
    }
}
