//! Groups by one text.
//!
//! ```text
//!   text of up to 12 bytes ─▶ its view, which is all of it ──────────────────────────┐
//!   longer text            ─▶ DataFusion's groups of long texts ─▶ its number there ─┴▶ a key of 128 bits ─▶ its group
//! ```
//!
//! The view of a short text is a key that fits beside its group ([`super::keys`]), so that nobody looks for bytes elsewhere. Where
//! most texts of the first rows are long, all are left to DataFusion.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray, UInt64Array};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::keys::KeyGroups;

/// A text of so many bytes lies in its view, behind its length.
const INLINE_BYTES: u32 = 12;
/// Where a short text has its length.
const LONG: u64 = u32::MAX as u64;

/// Groups, in the order in which their keys came first; NULL is what has no key.
pub(super) struct TextGroups {
    groups: KeyGroups<[u64; 2]>,
    /// Of long texts; their numbers are in keys.
    long: Box<dyn GroupValues>,
    mode: Mode,
    /// The keys of a batch.
    rows: Vec<[u64; 2]>,
}

/// Who groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No rows have come yet.
    Undecided,
    Here,
    /// DataFusion's groups of long texts have all.
    AllLong,
}

/// Groups by keys of `schema`; `None` where that is not one text.
pub(super) fn groups_of(schema: &Arc<Schema>) -> Result<Option<Box<dyn GroupValues>>> {
    match schema.fields().as_ref() {
        [key] if *key.data_type() == DataType::Utf8View => {
            let long = new_group_values(Arc::clone(schema), &GroupOrdering::None)?;
            let (groups, mode, rows) = (KeyGroups::new(0), Mode::Undecided, Vec::new());
            Ok(Some(Box::new(TextGroups { groups, long, mode, rows })))
        }
        _ => Ok(None),
    }
}

impl TextGroups {
    /// The keys of all rows; of NULL anything.
    fn read(&mut self, column: &ArrayRef) -> Result<()> {
        let texts = column.as_string_view();
        let nulls = texts.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut long_rows = Vec::new();
        self.rows.clear();
        self.rows.extend(texts.views().iter().enumerate().map(|(row, view)| {
            let length = *view as u32;
            if length > INLINE_BYTES && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                long_rows.push(row as u64);
            }
            key_of_short(*view)
        }));
        if long_rows.is_empty() {
            return Ok(());
        }
        let mut numbers = Vec::with_capacity(long_rows.len());
        let long_rows = UInt64Array::from(long_rows);
        self.long.intern(&[take(column, &long_rows, None)?], &mut numbers)?;
        for (row, number) in long_rows.values().iter().zip(numbers) {
            self.rows[*row as usize] = [LONG, number as u64];
        }
        Ok(())
    }

    /// The texts of all groups.
    fn texts(&mut self) -> Result<StringViewArray> {
        let long = match self.long.is_empty() {
            true => None,
            false => Some(self.long.emit(EmitTo::All)?.swap_remove(0)),
        };
        let long = long.as_ref().map(|texts| texts.as_string_view());
        let view = |key: &[u64; 2]| match (key[0] & LONG == LONG, long) {
            (true, Some(long)) => long.views()[key[1] as usize],
            _ => u128::from(key[0]) | u128::from(key[1]) << 64,
        };
        let views: ScalarBuffer<u128> = self.groups.keys().iter().map(view).collect();
        let without = self.groups.without();
        let nulls = without.map(|null| (0..views.len()).map(|group| group != null).collect::<NullBuffer>());
        let buffers = long.map(|long| long.data_buffers().to_vec()).unwrap_or_default();
        Ok(StringViewArray::try_new(views, buffers, nulls)?)
    }

    fn add(&mut self, column: &ArrayRef, groups: &mut Vec<usize>) -> Result<()> {
        self.read(column)?;
        let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.groups.add(&self.rows, groups);
        };
        for (key, is_valid) in self.rows.iter().zip(nulls) {
            groups.push(match is_valid {
                true => self.groups.group_of(*key)?,
                false => self.groups.group_without_key()?,
            });
        }
        Ok(())
    }
}

/// The key of a text of this view, if it is short: bytes behind it may be anything.
#[inline]
fn key_of_short(view: u128) -> [u64; 2] {
    let bits = u32::BITS + (view as u32).min(INLINE_BYTES) * u8::BITS;
    let view = view & (u128::MAX >> (u128::BITS - bits));
    [view as u64, (view >> 64) as u64]
}

impl GroupValues for TextGroups {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        if self.mode == Mode::Undecided && !columns[0].is_empty() {
            let views = columns[0].as_string_view().views();
            let long = views.iter().filter(|view| **view as u32 > INLINE_BYTES).count();
            self.mode = if long * 2 > views.len() { Mode::AllLong } else { Mode::Here };
        }
        if self.mode == Mode::AllLong {
            return self.long.intern(columns, groups);
        }
        groups.clear();
        groups.reserve(columns[0].len());
        self.add(&columns[0], groups)
    }

    fn size(&self) -> usize {
        self.groups.size() + self.long.size() + self.rows.capacity() * size_of::<[u64; 2]>()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        match self.mode {
            Mode::AllLong => self.long.len(),
            _ => self.groups.keys().len(),
        }
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        if self.mode == Mode::AllLong {
            return self.long.emit(emit_to);
        }
        let count = self.len();
        let texts: ArrayRef = Arc::new(self.texts()?);
        self.groups.forget_first(count);
        let given = match emit_to {
            EmitTo::All => count,
            EmitTo::First(given) => given,
        };
        if given < count {
            // Those that stay have other numbers now.
            self.add(&texts.slice(given, count - given), &mut Vec::new())?;
        }
        Ok(vec![texts.slice(0, given)])
    }

    fn clear_shrink(&mut self, rows: usize) {
        self.long.clear_shrink(rows);
        (self.groups, self.mode, self.rows) = (KeyGroups::new(rows), Mode::Undecided, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;

    use super::*;

    fn schema() -> Arc<Schema> {
        Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8View, true)]))
    }

    /// The groups of all batches are DataFusion's, in their order, also after some or all of them were given.
    fn check(batches: impl Iterator<Item = StringViewArray>, given_every: usize) {
        let mut ours = groups_of(&schema()).unwrap().unwrap();
        let mut theirs = new_group_values(schema(), &GroupOrdering::None).unwrap();
        for (number, keys) in batches.enumerate() {
            let keys: [ArrayRef; 1] = [Arc::new(keys)];
            let (mut found, mut expected) = (vec![7; 3], Vec::new());
            ours.intern(&keys, &mut found).unwrap();
            theirs.intern(&keys, &mut expected).unwrap();
            assert_eq!((found, ours.len()), (expected, theirs.len()), "batch {number}");
            if number % given_every == given_every - 1 {
                let some = EmitTo::First(ours.len() / 3);
                let what = if number % 2 == 0 { some } else { EmitTo::All };
                assert_eq!(ours.emit(what).unwrap(), theirs.emit(what).unwrap());
                assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
                if ours.is_empty() {
                    [&mut ours, &mut theirs].into_iter().for_each(|groups| groups.clear_shrink(0));
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
    fn groups_are_those_of_datafusion() {
        for below in [3, 40, 1 << 30] {
            for long_every in [1, 2, 5, u64::MAX] {
                for null_every in [6, u64::MAX] {
                    let text = |number: u64| {
                        let key = number % below;
                        (!number.is_multiple_of(null_every)).then(|| match key.is_multiple_of(long_every) {
                            true => format!("a text that is long {key}"),
                            false => format!("{key:x}"),
                        })
                    };
                    let batch = |seed| numbers(seed).take(400).map(text).collect::<StringViewArray>();
                    check((0..24).map(batch), 5);
                }
            }
        }
    }

    #[test]
    fn lengths_and_zero_bytes_tell_texts_apart() {
        let texts = [
            "",
            "\0",
            "\0\0",
            "eleven byte",
            "twelve bytes",
            "thirteen byte",
            "eleven byte\0",
            "twelve bytes\0",
        ];
        let all = || texts.iter().chain(&texts).map(|text| Some(*text)).chain([None, Some("")]);
        check((0..6).map(|_| all().collect::<StringViewArray>()), 2);
        let sliced = all().collect::<StringViewArray>();
        check((0..6).map(|at| sliced.slice(at, 9)), 2);
    }

    #[test]
    fn bytes_behind_a_short_text_mean_nothing() {
        let view = |behind: u128| u128::from(u32::from_le_bytes(*b"text")) << 32 | 4 | behind << 64;
        assert_eq!(key_of_short(view(0)), key_of_short(view(99)));
        assert_ne!(key_of_short(view(0)), key_of_short(view(0) | 8));
    }

    #[test]
    fn other_keys_are_left_to_datafusion() {
        let two = vec![Field::new("a", DataType::Utf8View, true), Field::new("b", DataType::Utf8View, true)];
        let other = vec![Field::new("a", DataType::Utf8, true)];
        for fields in [two, other] {
            assert!(groups_of(&Arc::new(Schema::new(fields))).unwrap().is_none());
        }
    }
}
