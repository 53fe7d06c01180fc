//! Groups by one key that is an integer or a date.
//!
//! ```text
//!   key ─▶ hash of key / 4, then key % 4 ─▶ [ key, group ]  [ key, group ]  [      ]  ...   one line of a cache has four
//! ```
//!
//! DataFusion keeps hashes in one place and keys in another, so that a row waits for memory twice; here the key lies beside its
//! group. Keys that are close to each other lie close to each other: those of a table that is sorted by them, which come one
//! after the other, are found in the lines of a cache that the ones before brought. Places of several rows are read before any is
//! looked at, so that what comes from memory comes at the same time.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

/// Four keys lie beside each other: of 64 bits, as many as a line has.
const NEAR_BITS: u32 = 2;
/// Rows whose places are read at the same time: a core waits for some ten lines at once.
const AT_ONCE: usize = 16;
const PLACES_MIN: usize = 64;
/// What bits are mixed with: 2^64 over the golden ratio, and the square root of two.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909];

/// Groups, in the order in which their keys came first.
pub(super) struct IntegerGroups<T: ArrowPrimitiveType> {
    /// By hash, a power of two of them, at most half of which are taken: a key, and one more than its group; 0 where no key is.
    /// Pairs, because memory for these comes as zeros from the system.
    places: Vec<(T::Native, u32)>,
    /// Of each group; of the one of NULL anything.
    keys: Vec<T::Native>,
    /// The group of NULL.
    null: Option<usize>,
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
    T::Native: Into<i64> + Eq + Default,
{
    fn new(ty: &DataType, room: usize) -> Self {
        Self { places: empty_places(room), keys: Vec::new(), null: None, data_type: ty.clone() }
    }

    /// The first place where `key` may be.
    #[inline]
    fn place_of(&self, key: T::Native) -> usize {
        let key: i64 = key.into();
        let far = far_hash(key) >> (u64::BITS - self.places.len().ilog2());
        let near = key as u64 & ((1 << NEAR_BITS) - 1);
        (far ^ near) as usize
    }

    /// The group of `key`, which is looked for from `place` on; a new one if it has none.
    #[inline]
    fn group_from(&mut self, mut place: usize, key: T::Native) -> Result<usize> {
        let mask = self.places.len() - 1;
        loop {
            let (known, group) = self.places[place];
            if group == 0 {
                break;
            }
            if known == key {
                return Ok(group as usize - 1);
            }
            place = (place + 1) & mask;
        }
        let group = self.next_group()?;
        self.places[place] = (key, group as u32 + 1);
        self.keys.push(key);
        Ok(group)
    }

    /// The number of a group that is about to be made.
    fn next_group(&self) -> Result<usize> {
        let group = self.keys.len();
        if group as u64 >= u64::from(u32::MAX - 1) {
            let text = "more than 4,294,967,294 groups in one partition; use more --threads";
            return Err(DataFusionError::ResourcesExhausted(text.to_owned()));
        }
        Ok(group)
    }

    /// Room for so many more groups, such that at most half of the places are taken.
    fn make_room(&mut self, more: usize) {
        let room = self.keys.len() + more;
        if room * 2 > self.places.len() {
            self.places = empty_places(room);
            self.place_all();
        }
    }

    /// Puts all groups into their places, of which none is taken.
    fn place_all(&mut self) {
        let mask = self.places.len() - 1;
        for group in (0..self.keys.len()).filter(|group| Some(*group) != self.null) {
            let key = self.keys[group];
            let mut place = self.place_of(key);
            while self.places[place].1 != 0 {
                place = (place + 1) & mask;
            }
            self.places[place] = (key, group as u32 + 1);
        }
    }

    fn group_of_null(&mut self) -> Result<usize> {
        if let Some(group) = self.null {
            return Ok(group);
        }
        let group = self.next_group()?;
        self.keys.push(T::Native::default());
        self.null = Some(group);
        Ok(group)
    }

    /// The groups of `keys`, of which none is NULL.
    fn add(&mut self, keys: &[T::Native], groups: &mut Vec<usize>) -> Result<()> {
        let mut places = [0; AT_ONCE];
        for keys in keys.chunks(AT_ONCE) {
            self.make_room(keys.len());
            for (place, key) in places.iter_mut().zip(keys) {
                *place = self.place_of(*key);
            }
            // Each load waits for none before it. The compiler may not leave them out.
            let read = places[..keys.len()].iter().map(|place| self.places[*place].1);
            std::hint::black_box(read.fold(0, |all, group| all | group));
            let mut last: Option<(T::Native, usize)> = None;
            for (place, key) in places.into_iter().zip(keys) {
                let group = match last {
                    Some((last, group)) if last == *key => group,
                    _ => self.group_from(place, *key)?,
                };
                last = Some((*key, group));
                groups.push(group);
            }
        }
        Ok(())
    }

    fn array(&self, keys: &[T::Native], null: Option<usize>) -> ArrayRef {
        let nulls = null.map(|null| (0..keys.len()).map(|group| group != null).collect::<NullBuffer>());
        let array = PrimitiveArray::<T>::new(keys.to_vec().into(), nulls);
        Arc::new(array.with_data_type(self.data_type.clone()))
    }
}

/// Room for so many groups.
fn empty_places<K: Default + Clone>(room: usize) -> Vec<(K, u32)> {
    vec![Default::default(); (room * 2).next_power_of_two().max(PLACES_MIN)]
}

/// One hash for keys that lie beside each other, whose high bits are good.
#[inline]
fn far_hash(key: i64) -> u64 {
    let wide = u128::from((key as u64 >> NEAR_BITS) ^ FACTORS[0]) * u128::from(FACTORS[1]);
    (wide as u64) ^ (wide >> 64) as u64
}

impl<T: ArrowPrimitiveType> GroupValues for IntegerGroups<T>
where
    T::Native: Into<i64> + Eq + Default,
{
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        let column = columns[0].as_primitive::<T>();
        groups.clear();
        groups.reserve(column.len());
        let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.add(column.values(), groups);
        };
        for (key, is_valid) in column.values().iter().zip(nulls) {
            let group = if is_valid {
                self.make_room(1);
                self.group_from(self.place_of(*key), *key)?
            } else {
                self.group_of_null()?
            };
            groups.push(group);
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.places.capacity() * size_of::<(T::Native, u32)>() + self.keys.capacity() * size_of::<T::Native>()
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let given = match emit_to {
            EmitTo::All => self.keys.len(),
            EmitTo::First(count) => count,
        };
        let array = self.array(&self.keys[..given], self.null.filter(|null| *null < given));
        self.keys.drain(..given);
        self.null = self.null.and_then(|null| null.checked_sub(given));
        // What comes next may be as many.
        self.places.fill(Default::default());
        self.place_all();
        Ok(vec![array])
    }

    fn clear_shrink(&mut self, rows: usize) {
        (self.places, self.keys, self.null) = (empty_places(rows), Vec::new(), None);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Date32Array, Int8Array, Int32Array, Int64Array};
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_plan::aggregates::group_values::new_group_values;
    use datafusion::physical_plan::aggregates::order::GroupOrdering;

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
            (0..400_000).map(|key| key << NEAR_BITS).filter(|key| far_hash(*key) >> 52 == 5).collect();
        assert!(clashing.len() > 50);
        let clashing = |number: u64| clashing[number as usize % clashing.len()];
        check((0..20).map(|batch| whole(numbers(batch).take(200).map(|number| Some(clashing(number))))), 9);
    }
}
