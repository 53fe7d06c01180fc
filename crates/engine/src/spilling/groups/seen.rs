//! Groups of keys that were seen before, found by the bits of the keys.
//!
//! ```text
//!   column of a batch ─▶ bits of each row ─▶ a small number a key, NULL 0 ─┐
//!   column of a batch ─▶ bits of each row ─▶ a small number a key, NULL 0 ─┴▶ both in one word ─▶ seen before?
//!                                                                yes: the group it had then ◀──────┤
//!                                                                no:  DataFusion's groups say which it is
//! ```
//!
//! DataFusion hashes and compares each row's texts. A text of up to 12 bytes lies in its view, and a longer one that came from
//! a dictionary has one view in all rows: equal bits are equal keys as long as the bytes behind them stay where they are. Keys
//! with other bits may be equal all the same, which DataFusion's groups find out once. Where many rows are new, nobody asks.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray, UInt64Array};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

/// Bits of a key's number: so many keys of a column stay in a core's cache. A guess.
const NUMBER_BITS: u32 = 12;
/// Columns whose numbers fit into a word.
const COLUMNS_MAX: usize = (u64::BITS / NUMBER_BITS) as usize;
/// Places that are looked at for a key; hashes that meet more often are not worth more.
const STEPS_MAX: usize = 16;
/// Of a batch's rows, more keys that are new than this share of them are too many.
const NEW_SHARE: usize = 4;
/// Batches that are not looked at after such a one: twice as many each time, up to the second.
const PAUSE: usize = 8;
const PAUSE_MAX: usize = 1 << 10;
/// A text of so many bytes lies in its view.
const INLINE_BYTES: u32 = 12;
/// What bits are mixed with: 2^64 over the golden ratio, and the square root of two.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909];

/// Groups that `groups` knows, and a memory of those that came often.
pub(super) struct SeenGroups {
    groups: Box<dyn GroupValues>,
    columns: Vec<Numbers>,
    /// Groups by the numbers of their keys.
    seen: Table<1>,
    /// Numbers of the keys of each row of a batch.
    rows: Vec<u64>,
    to_pass: usize,
    pause: usize,
}

impl SeenGroups {
    /// In place of `groups`, which have no group yet, of keys of `schema`; they themselves where no key is a text, or one is of
    /// a kind that is not looked at here.
    pub(super) fn over(groups: Box<dyn GroupValues>, schema: &Schema) -> Box<dyn GroupValues> {
        let types = || schema.fields().iter().map(|field| field.data_type());
        let columns: Option<Vec<Numbers>> = types().map(Numbers::of).collect();
        let has_text = types().any(|ty| *ty == DataType::Utf8View);
        match columns.filter(|columns| has_text && columns.len() <= COLUMNS_MAX) {
            Some(columns) => {
                let (seen, rows) = (Table::default(), Vec::new());
                Box::new(Self { groups, columns, seen, rows, to_pass: 0, pause: PAUSE })
            }
            None => groups,
        }
    }

    fn forget(&mut self) {
        self.seen = Table::default();
        self.columns.iter_mut().for_each(Numbers::forget);
    }

    /// Nothing is looked at for a while.
    fn pass(&mut self) {
        self.forget();
        self.to_pass = self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The numbers of all rows' keys; false where they are too many.
    fn read(&mut self, columns: &[ArrayRef]) -> bool {
        self.rows.clear();
        self.rows.resize(columns[0].len(), 0);
        self.columns.iter_mut().zip(columns).all(|(numbers, column)| {
            // Those of the columns before make room.
            self.rows.iter_mut().for_each(|row| *row <<= NUMBER_BITS);
            numbers.read(column, &mut self.rows)
        })
    }

    /// The groups of rows that were seen before into `groups`; gives the others.
    fn look_up(&self, groups: &mut [usize]) -> Vec<u64> {
        let mut new = Vec::new();
        for ((row, keys), group) in self.rows.iter().enumerate().zip(groups) {
            match self.seen.get([*keys]) {
                Some(known) => *group = known as usize,
                None => new.push(row as u64),
            }
        }
        new
    }
}

impl GroupValues for SeenGroups {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if self.to_pass > 0 {
            self.to_pass -= 1;
            return self.groups.intern(columns, groups);
        }
        if !self.read(columns) {
            self.pass();
            return self.groups.intern(columns, groups);
        }
        groups.clear();
        groups.resize(self.rows.len(), 0);
        let new = self.look_up(groups);
        if new.len() == self.rows.len() {
            self.groups.intern(columns, groups)?;
        } else if !new.is_empty() {
            let which = UInt64Array::from(new.clone());
            let keys = columns.iter().map(|column| take(column, &which, None));
            let mut found = Vec::with_capacity(new.len());
            self.groups.intern(&keys.collect::<Result<Vec<_>, _>>()?, &mut found)?;
            new.iter().zip(found).for_each(|(row, group)| groups[*row as usize] = group);
        }
        let known = self.seen.len;
        let has_room = new.iter().all(|row| {
            let row = *row as usize;
            u32::try_from(groups[row]).is_ok_and(|group| self.seen.put([self.rows[row]], group))
        });
        if !has_room || (self.seen.len - known) * NEW_SHARE > self.rows.len() {
            self.pass();
        } else if new.len() * NEW_SHARE <= self.rows.len() {
            self.pause = PAUSE;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let numbers: usize = self.columns.iter().map(Numbers::bytes).sum();
        self.groups.size() + numbers + self.seen.bytes() + self.rows.capacity() * size_of::<u64>()
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn len(&self) -> usize {
        self.groups.len()
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.forget();
        self.groups.emit(emit_to)
    }

    fn clear_shrink(&mut self, rows: usize) {
        self.forget();
        self.rows = Vec::new();
        self.groups.clear_shrink(rows);
    }
}

/// Numbers of the keys of one column.
enum Numbers {
    /// Of 64 bits at most.
    Words(Table<1>),
    Decimals(Table<2>),
    Texts {
        table: Table<2>,
        /// How many numbers were given. Those of texts that lay elsewhere are not given again.
        given: u32,
        /// Where the rest of long texts lies: held, so that nothing else comes to lie there.
        behind: Vec<Buffer>,
        /// Whether one of them is in the table.
        has_long: bool,
    },
}

impl Numbers {
    /// None yet, of keys of type `ty`; `None` for types that are not looked at here.
    fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Int64 | DataType::Int32 | DataType::Date32 => Self::Words(Table::default()),
            DataType::Decimal128(..) => Self::Decimals(Table::default()),
            DataType::Utf8View => {
                Self::Texts { table: Table::default(), given: 0, behind: Vec::new(), has_long: false }
            }
            _ => return None,
        })
    }

    fn forget(&mut self) {
        match self {
            Self::Words(table) => *table = Table::default(),
            Self::Decimals(table) => *table = Table::default(),
            Self::Texts { table, given, behind, has_long } => {
                (*table, *given, *has_long) = (Table::default(), 0, false);
                behind.clear();
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Words(table) => table.bytes(),
            Self::Decimals(table) => table.bytes(),
            Self::Texts { table, behind, .. } => {
                table.bytes() + behind.iter().map(Buffer::capacity).sum::<usize>()
            }
        }
    }

    /// Puts the number of each row's key below what `rows` have; false where there are too many keys.
    fn read(&mut self, column: &ArrayRef, rows: &mut [u64]) -> bool {
        let fits = match self {
            Self::Words(table) => {
                let mut given = table.len as u32;
                match column.data_type() {
                    DataType::Int64 => {
                        let values = column.as_primitive::<Int64Type>().values();
                        number(table, &mut given, values.iter().map(|value| [*value as u64]), rows)
                    }
                    DataType::Int32 => {
                        let values = column.as_primitive::<Int32Type>().values();
                        number(table, &mut given, values.iter().map(|value| [*value as u64]), rows)
                    }
                    _ => {
                        let values = column.as_primitive::<Date32Type>().values();
                        number(table, &mut given, values.iter().map(|value| [*value as u64]), rows)
                    }
                }
            }
            Self::Decimals(table) => {
                let (mut given, values) =
                    (table.len as u32, column.as_primitive::<Decimal128Type>().values());
                number(table, &mut given, values.iter().map(|value| halves(*value as u128)), rows)
            }
            Self::Texts { table, given, behind, has_long } => {
                let texts = column.as_string_view();
                if *has_long || is_any_long(texts) {
                    if !are_same(behind, texts.data_buffers()) {
                        *table = Table::default();
                        *behind = texts.data_buffers().to_vec();
                    }
                    *has_long = true;
                }
                number(table, given, texts.views().iter().map(|view| halves(*view)), rows)
            }
        };
        if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
            // What lies there says nothing.
            for (row, is_valid) in rows.iter_mut().zip(nulls) {
                *row &= if is_valid { u64::MAX } else { u64::MAX << NUMBER_BITS };
            }
        }
        fits
    }
}

fn halves(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

/// Adds to each row the number that `table` has for its key, a new one of those after `given` where it has none; false where
/// there is none left.
fn number<const WORDS: usize>(
    table: &mut Table<WORDS>,
    given: &mut u32,
    keys: impl Iterator<Item = [u64; WORDS]>,
    rows: &mut [u64],
) -> bool {
    for (row, key) in rows.iter_mut().zip(keys) {
        let number = match table.get(key) {
            Some(number) => number,
            None => {
                *given += 1;
                if *given >> NUMBER_BITS > 0 || !table.put(key, *given) {
                    return false;
                }
                *given
            }
        };
        *row |= u64::from(number);
    }
    true
}

/// Whether a text does not lie in its view.
fn is_any_long(texts: &StringViewArray) -> bool {
    // The length of a text is in the low half of its view.
    !texts.data_buffers().is_empty() && texts.views().iter().any(|view| *view as u32 > INLINE_BYTES)
}

fn are_same(held: &[Buffer], now: &[Buffer]) -> bool {
    held.len() == now.len()
        && held.iter().zip(now).all(|(held, now)| held.as_ptr() == now.as_ptr() && held.len() == now.len())
}

/// Values by keys of some words.
struct Table<const WORDS: usize> {
    /// By hash; where the value is [`NONE`](Self::NONE), there is no key.
    places: Vec<([u64; WORDS], u32)>,
    len: usize,
}

impl<const WORDS: usize> Default for Table<WORDS> {
    fn default() -> Self {
        Self { places: Vec::new(), len: 0 }
    }
}

impl<const WORDS: usize> Table<WORDS> {
    const NONE: u32 = u32::MAX;
    /// Keys at most.
    const LEN_MAX: usize = 1 << NUMBER_BITS;
    const PLACES_MIN: usize = 64;

    #[inline]
    fn get(&self, key: [u64; WORDS]) -> Option<u32> {
        for place in self.places_of(key) {
            let (known, value) = self.places[place];
            if value == Self::NONE {
                return None;
            }
            if known == key {
                return Some(value);
            }
        }
        None
    }

    /// Has `value` for `key`, if it has none yet; false where there is no place for it.
    fn put(&mut self, key: [u64; WORDS], value: u32) -> bool {
        if self.len == Self::LEN_MAX || value == Self::NONE {
            return false;
        }
        if self.len * 4 >= self.places.len() {
            let room = (self.places.len() * 4).max(Self::PLACES_MIN);
            let before = std::mem::replace(&mut self.places, vec![([0; WORDS], Self::NONE); room]);
            self.len = 0;
            if !before
                .into_iter()
                .filter(|place| place.1 != Self::NONE)
                .all(|(key, value)| self.put(key, value))
            {
                return false;
            }
        }
        let place = self.places_of(key).find(|place| {
            let (known, value) = self.places[*place];
            value == Self::NONE || known == key
        });
        let Some(place) = place else { return false };
        if self.places[place].1 == Self::NONE {
            self.places[place] = (key, value);
            self.len += 1;
        }
        true
    }

    /// Where `key` may be, in the order in which that is looked at.
    #[inline]
    fn places_of(&self, key: [u64; WORDS]) -> impl Iterator<Item = usize> + use<WORDS> {
        let (count, hash) = (self.places.len(), hash_of(key));
        let first = if count == 0 { 0 } else { (hash >> (u64::BITS - count.ilog2())) as usize };
        (0..STEPS_MAX.min(count)).map(move |step| (first + step) & (count - 1))
    }

    fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<([u64; WORDS], u32)>()
    }
}

#[inline]
fn hash_of<const WORDS: usize>(key: [u64; WORDS]) -> u64 {
    let first = key[0] ^ FACTORS[0];
    let second = if WORDS == 1 { FACTORS[1] } else { key[1] ^ FACTORS[1] };
    let wide = u128::from(first) * u128::from(second);
    (wide as u64) ^ (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Date32Array, Decimal128Array, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_plan::aggregates::group_values::new_group_values;
    use datafusion::physical_plan::aggregates::order::GroupOrdering;

    use super::*;

    fn groups(columns: &[ArrayRef], is_seen: bool) -> Box<dyn GroupValues> {
        let fields: Vec<Field> =
            columns.iter().map(|column| Field::new("k", column.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let groups = new_group_values(Arc::clone(&schema), &GroupOrdering::None).unwrap();
        if is_seen { SeenGroups::over(groups, &schema) } else { groups }
    }

    /// The groups of all batches are DataFusion's, in their order, also after they were given.
    fn check(batches: impl Iterator<Item = Vec<ArrayRef>>) {
        let mut both: Option<[Box<dyn GroupValues>; 2]> = None;
        for (number, columns) in batches.enumerate() {
            let [ours, theirs] =
                both.get_or_insert_with(|| [groups(&columns, true), groups(&columns, false)]);
            let (mut found, mut expected) = (vec![7; 3], Vec::new());
            ours.intern(&columns, &mut found).unwrap();
            theirs.intern(&columns, &mut expected).unwrap();
            assert_eq!((found, ours.len()), (expected, theirs.len()), "batch {number}");
            if number % 20 == 19 {
                assert_eq!(ours.emit(EmitTo::All).unwrap(), theirs.emit(EmitTo::All).unwrap());
                assert!(ours.is_empty());
                [ours, theirs].into_iter().for_each(|groups| groups.clear_shrink(0));
            }
        }
    }

    fn texts<'t>(texts: impl Iterator<Item = Option<&'t str>>) -> ArrayRef {
        Arc::new(texts.collect::<StringViewArray>())
    }

    /// Numbers that look random.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed + 1), |last| {
            Some(last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        })
        .map(|number| number >> 33)
    }

    #[test]
    fn short_texts_numbers_and_nulls_are_those_that_were_seen() {
        let known: [Option<&str>; 6] =
            [Some("A"), Some("R"), None, Some(""), Some("twelve bytes"), Some("A\0")];
        check((0..60).map(|batch| {
            let of = |number: u64| known[number as usize % if batch < 30 { 4 } else { 6 }];
            let first: Vec<u64> = numbers(batch).take(500).collect();
            let whole = first.iter().map(|number| (number % 5 > 0).then_some(*number as i64 % 3 - 1));
            let dates = first.iter().map(|number| Some(*number as i32 % 2));
            let decimals =
                first.iter().map(|number| (number % 7 > 0).then_some(i128::from(number % 2) << 70));
            vec![
                texts(first.iter().map(|number| of(*number))),
                Arc::new(whole.collect::<Int64Array>()) as ArrayRef,
                Arc::new(dates.collect::<Date32Array>()),
                Arc::new(decimals.collect::<Decimal128Array>().with_precision_and_scale(38, 2).unwrap()),
            ]
        }));
        check((0..60).map(|batch| {
            let of = |number: u64| known[number as usize % 6];
            vec![texts(numbers(batch).take(300).map(of)), texts(numbers(batch + 100).take(300).map(of))]
        }));
    }

    #[test]
    fn long_texts_of_a_dictionary_are_known_until_another_one_comes() {
        let dictionary = |round: u64| {
            let words: Vec<String> =
                (0..50).map(|word| format!("word {:030}", word + round % 7 * 25)).collect();
            texts(words.iter().map(|word| Some(word.as_str())))
        };
        check((0..60).flat_map(|round| {
            let words = dictionary(round);
            (0..3).map(move |batch| {
                let codes: UInt64Array = numbers(round * 3 + batch).take(200).map(|code| code % 50).collect();
                vec![take(&words, &codes, None).unwrap()]
            })
        }));
    }

    #[test]
    fn bytes_that_come_to_lie_where_others_were_are_no_texts_that_were_seen() {
        // Each batch is gone when the next one is made, in memory of the same size.
        check((0..200).map(|batch: u64| {
            let words: Vec<String> =
                numbers(batch).take(100).map(|number| format!("{:020}", number % 20 + batch)).collect();
            vec![texts(words.iter().map(|word| Some(word.as_str())))]
        }));
    }

    #[test]
    fn more_keys_than_are_remembered_are_told_apart_too() {
        check((0..60).map(|batch| {
            let words: Vec<String> =
                numbers(batch).take(1000).map(|number| format!("{}", number % (batch * 700 + 1))).collect();
            vec![texts(words.iter().map(|word| Some(word.as_str())))]
        }));
    }

    #[test]
    fn keys_whose_hashes_meet_are_told_apart() {
        // Of two words one makes the other's product nothing: all rows have one hash.
        let clashing = |number: u64| i128::from(FACTORS[0]) | i128::from(number) << 64;
        assert_eq!(hash_of(halves(clashing(1) as u128)), hash_of(halves(clashing(9) as u128)));
        check((0..40).map(|batch| {
            let values: Vec<u64> = numbers(batch).take(400).map(|number| number % 90).collect();
            let decimals = values.iter().map(|value| Some(clashing(*value))).collect::<Decimal128Array>();
            vec![
                Arc::new(decimals.with_precision_and_scale(38, 0).unwrap()) as ArrayRef,
                texts(values.iter().map(|_| Some("x"))),
            ]
        }));
    }

    #[test]
    fn keys_that_are_no_texts_are_left_to_datafusion() {
        let numbers = numbers(1).take(500).map(|number| number as i64);
        let numbers = [Arc::new(numbers.collect::<Int64Array>()) as ArrayRef];
        let [mut ours, mut theirs] = [true, false].map(|is_seen| groups(&numbers, is_seen));
        ours.intern(&numbers, &mut Vec::new()).unwrap();
        theirs.intern(&numbers, &mut Vec::new()).unwrap();
        assert_eq!(ours.size(), theirs.size());
    }
}
