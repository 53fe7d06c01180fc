//! Groups of keys that were seen before, found by the bits of the keys.
//!
//! ```text
//!   batch ─▶ bits of each row's keys ─▶ seen before?  yes: the group it had then
//!                                                     no:  DataFusion's groups say which one it is
//! ```
//!
//! DataFusion hashes and compares each row's texts. A text of up to 12 bytes lies in its view, and a longer one that came from
//! a dictionary has one view in all rows: equal bits are equal keys as long as the bytes behind them stay where they are. Keys
//! with other bits may be equal all the same, which DataFusion's groups find out once. Where most rows are new, nobody asks.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;

/// Keys that are remembered at most: they stay in a core's cache. A guess.
const KEYS_MAX: usize = 1 << 12;
/// Places that are looked at for a key; hashes that meet more often are not worth more.
const STEPS_MAX: usize = 16;
/// Words that the keys of a row have at most.
const WORDS_MAX: usize = 8;
/// Of a batch's rows, a share that is more than this many-th new to it is too much.
const NEW_SHARE: usize = 4;
/// Batches in a row that are not asked about after one that was mostly new: doubled each time, up to the second.
const PAUSE: usize = 8;
const PAUSE_MAX: usize = 1 << 10;
/// A text of so many bytes lies in its view.
const INLINE_BYTES: u32 = 12;
/// Odd, with bits everywhere: 2^64 over the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const EMPTY: u32 = u32::MAX;

/// Groups that `groups` knows, and a memory of those that came often.
pub(super) struct SeenGroups {
    groups: Box<dyn GroupValues>,
    /// Words of a row: those of its keys, and one that says which are NULL.
    stride: usize,
    /// Where the rest of long texts lies, by key: held, so that nothing else comes to lie there.
    behind: Vec<Vec<Buffer>>,
    /// Whether keys with something behind them are remembered.
    is_behind: bool,
    words_seen: Vec<u64>,
    group_of: Vec<usize>,
    /// Positions in `group_of`, by hash.
    places: Vec<u32>,
    to_pass: usize,
    pause: usize,
    words: Vec<u64>,
    hashes: Vec<u64>,
}

impl SeenGroups {
    /// In place of `groups`, which have no group yet, of keys of `schema`; they themselves where keys are no texts, or of other
    /// kinds than those that are looked at here.
    pub(super) fn over(groups: Box<dyn GroupValues>, schema: &Schema) -> Box<dyn GroupValues> {
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        let words: Option<Vec<usize>> = types.iter().map(|ty| words_of(ty)).collect();
        let stride = words.map(|words| words.iter().sum::<usize>() + 1);
        match stride.filter(|stride| *stride <= WORDS_MAX && types.contains(&&DataType::Utf8View)) {
            Some(stride) => Box::new(Self {
                groups,
                stride,
                behind: vec![Vec::new(); types.len()],
                is_behind: false,
                words_seen: Vec::new(),
                group_of: Vec::new(),
                places: Vec::new(),
                to_pass: 0,
                pause: PAUSE,
                words: Vec::new(),
                hashes: Vec::new(),
            }),
            None => groups,
        }
    }

    fn forget(&mut self) {
        self.words_seen.clear();
        self.group_of.clear();
        self.places.clear();
        self.behind.iter_mut().for_each(Vec::clear);
        self.is_behind = false;
    }

    /// Takes the bits of all rows' keys; forgets what was seen where the same bits may now be another text.
    fn read(&mut self, columns: &[ArrayRef]) {
        let rows = columns[0].len();
        self.words.clear();
        self.words.resize(rows * self.stride, 0);
        self.hashes.clear();
        self.hashes.resize(rows, 0);
        let (mut at, mut is_behind) = (1, false);
        for (number, column) in columns.iter().enumerate() {
            let mut rows = Rows { words: &mut self.words, hashes: &mut self.hashes, stride: self.stride, at };
            is_behind |= rows.read(column.as_ref());
            if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
                rows.note_nulls(nulls.iter().map(|is_valid| !is_valid), number);
            }
            at += words_of(column.data_type()).unwrap_or(0);
        }
        if is_behind || self.is_behind {
            let is_same = |(held, column): (&Vec<Buffer>, &ArrayRef)| match column.as_string_view_opt() {
                Some(texts) => are_same(held, texts.data_buffers()),
                None => true,
            };
            if !self.behind.iter().zip(columns).all(is_same) {
                self.forget();
                for (held, column) in self.behind.iter_mut().zip(columns) {
                    if let Some(texts) = column.as_string_view_opt() {
                        held.extend_from_slice(texts.data_buffers());
                    }
                }
            }
            self.is_behind |= is_behind;
        }
    }

    /// The groups of rows that were seen before into `groups`; gives the others.
    fn look_up(&self, groups: &mut [usize]) -> Vec<u64> {
        // Of a number of words that is known, which is compared without a call.
        match self.stride {
            3 => self.look_up_of::<3>(groups),
            4 => self.look_up_of::<4>(groups),
            5 => self.look_up_of::<5>(groups),
            _ => self.look_up_of::<0>(groups),
        }
    }

    fn look_up_of<const STRIDE: usize>(&self, groups: &mut [usize]) -> Vec<u64> {
        let mut new = Vec::new();
        let stride = if STRIDE == 0 { self.stride } else { STRIDE };
        if self.places.is_empty() {
            return (0..groups.len() as u64).collect();
        }
        let (mask, shift) = (self.places.len() - 1, 64 - self.places.len().ilog2());
        let rows = self.words.chunks_exact(stride).zip(&self.hashes);
        for ((row, (words, hash)), group) in rows.enumerate().zip(groups) {
            let mut place = (hash >> shift) as usize;
            let found = (0..STEPS_MAX).find_map(|_| {
                let key = self.places[place] as usize;
                place = (place + 1) & mask;
                if key == EMPTY as usize {
                    return Some(None);
                }
                let is_it = self.words_seen[key * stride..][..stride].iter().eq(words);
                is_it.then_some(Some(key))
            });
            match found.flatten() {
                Some(key) => *group = self.group_of[key],
                None => new.push(row as u64),
            }
        }
        new
    }

    /// Remembers that the keys of `row` are `group`.
    fn remember(&mut self, row: usize, group: usize) {
        if self.group_of.len() == KEYS_MAX {
            return;
        }
        if self.group_of.len() * 4 >= self.places.len() {
            self.grow();
        }
        let words = row * self.stride..(row + 1) * self.stride;
        let hash = self.hashes[row];
        if let Some(place) = self.free_place(hash, &self.words[words.clone()]) {
            self.places[place] = self.group_of.len() as u32;
            self.words_seen.extend_from_slice(&self.words[words]);
            self.group_of.push(group);
        }
    }

    /// Where a key goes that is not there yet.
    fn free_place(&self, hash: u64, words: &[u64]) -> Option<usize> {
        let (mask, shift) = (self.places.len() - 1, 64 - self.places.len().ilog2());
        for step in 0..STEPS_MAX {
            let place = ((hash >> shift) as usize + step) & mask;
            let key = self.places[place];
            if key == EMPTY {
                return Some(place);
            }
            if self.words_seen[key as usize * self.stride..][..self.stride] == *words {
                return None;
            }
        }
        None
    }

    /// Twice the room.
    fn grow(&mut self) {
        let room = (self.places.len() * 2).max(64);
        self.places = vec![EMPTY; room];
        let seen = std::mem::take(&mut self.words_seen);
        let groups = std::mem::take(&mut self.group_of);
        for (words, group) in seen.chunks_exact(self.stride).zip(groups) {
            if let Some(place) = self.free_place(hash_of(words), words) {
                self.places[place] = self.group_of.len() as u32;
                self.words_seen.extend_from_slice(words);
                self.group_of.push(group);
            }
        }
    }
}

impl GroupValues for SeenGroups {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if self.to_pass > 0 {
            self.to_pass -= 1;
            return self.groups.intern(columns, groups);
        }
        self.read(columns);
        let rows = columns[0].len();
        groups.clear();
        groups.resize(rows, 0);
        let new = self.look_up(groups);
        if new.is_empty() {
            return Ok(());
        }
        if new.len() == rows {
            self.groups.intern(columns, groups)?;
        } else {
            let which = UInt64Array::from(new.clone());
            let keys: Vec<ArrayRef> =
                columns.iter().map(|column| take(column, &which, None)).collect::<Result<_, _>>()?;
            let mut found = Vec::with_capacity(new.len());
            self.groups.intern(&keys, &mut found)?;
            new.iter().zip(found).for_each(|(row, group)| groups[*row as usize] = group);
        }
        let known = self.group_of.len();
        for row in new.iter().map(|row| *row as usize) {
            self.remember(row, groups[row]);
        }
        // A batch that brings few keys, all of them new, says nothing against the next one.
        if (self.group_of.len() - known) * NEW_SHARE > rows || self.group_of.len() == KEYS_MAX {
            self.to_pass = self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
            self.forget();
        } else if new.len() * NEW_SHARE <= rows {
            self.pause = PAUSE;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let words = self.words.capacity() + self.words_seen.capacity() + self.hashes.capacity();
        let behind: usize = self.behind.iter().flatten().map(Buffer::capacity).sum();
        self.groups.size()
            + words * size_of::<u64>()
            + self.group_of.capacity() * size_of::<usize>()
            + self.places.capacity() * size_of::<u32>()
            + behind
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
        (self.words, self.hashes) = (Vec::new(), Vec::new());
        self.groups.clear_shrink(rows);
    }
}

/// Words that a key of type `ty` takes; `None` for types that are not looked at here.
fn words_of(ty: &DataType) -> Option<usize> {
    match ty {
        DataType::Utf8View | DataType::Decimal128(..) => Some(2),
        DataType::Int64 | DataType::Int32 | DataType::Date32 => Some(1),
        _ => None,
    }
}

/// Words of the rows of a batch from `at` in each row on.
struct Rows<'a> {
    words: &'a mut [u64],
    hashes: &'a mut [u64],
    stride: usize,
    at: usize,
}

impl Rows<'_> {
    /// Those of `column`; true where they stand for bytes that lie elsewhere.
    fn read(&mut self, column: &dyn Array) -> bool {
        match column.data_type() {
            DataType::Utf8View => return self.read_views(column.as_string_view().views()),
            DataType::Decimal128(..) => {
                let values = column.as_primitive::<Decimal128Type>().values();
                self.put(values.iter().map(|value| [*value as u64, (*value >> 64) as u64]));
            }
            DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>().values();
                self.put(values.iter().map(|value| [*value as u64]));
            }
            DataType::Int32 => {
                let values = column.as_primitive::<Int32Type>().values();
                self.put(values.iter().map(|value| [*value as u64]));
            }
            _ => {
                let values = column.as_primitive::<Date32Type>().values();
                self.put(values.iter().map(|value| [*value as u64]));
            }
        }
        false
    }

    fn read_views(&mut self, views: &[u128]) -> bool {
        self.put(views.iter().map(|view| [*view as u64, (*view >> 64) as u64]));
        views.iter().any(|view| *view as u32 > INLINE_BYTES)
    }

    fn put<const WORDS: usize>(&mut self, values: impl Iterator<Item = [u64; WORDS]>) {
        let rows = self.words.chunks_exact_mut(self.stride).zip(self.hashes.iter_mut());
        for ((words, hash), value) in rows.zip(values) {
            for (word, value) in words[self.at..self.at + WORDS].iter_mut().zip(value) {
                *word = value;
                *hash = mixed(*hash, value);
            }
        }
    }

    /// Rows that are NULL in the column of this number: what lies there says nothing.
    fn note_nulls(&mut self, nulls: impl Iterator<Item = bool>, number: usize) {
        for (words, is_null) in self.words.chunks_exact_mut(self.stride).zip(nulls) {
            words[0] |= u64::from(is_null) << number;
        }
    }
}

/// The hash of a row's words. The first, which says what is NULL, is left out.
fn hash_of(words: &[u64]) -> u64 {
    words[1..].iter().fold(0, |hash, word| mixed(hash, *word))
}

/// Multiplies so that all bits of both reach those on top.
fn mixed(hash: u64, word: u64) -> u64 {
    let wide = u128::from(hash ^ word ^ FACTOR) * u128::from(FACTOR);
    (wide as u64) ^ (wide >> 64) as u64
}

fn are_same(held: &[Buffer], now: &[Buffer]) -> bool {
    held.len() == now.len()
        && held.iter().zip(now).all(|(held, now)| held.as_ptr() == now.as_ptr() && held.len() == now.len())
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
        // Of two words the second cancels what the first did: all rows have one hash.
        let clashing = |number: u64| i128::from(number) | i128::from(mixed(0, number)) << 64;
        assert_eq!(hash_of(&[0, 1, mixed(0, 1)]), hash_of(&[0, 9, mixed(0, 9)]));
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
