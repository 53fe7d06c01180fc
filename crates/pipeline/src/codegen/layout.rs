//! How hash tables and groups lie in memory. The generator and the run agree through these.
//!
//! Keys become one number, the *packed key*: each key minus its least value, times the product of the sizes before it.
//! Packed keys are below 2^63, so one word of all ones is free to mean "no key".
//!
//! Keys of tables that one number does not hold, such as doubles and hashes of texts, are found by 62 bits of a hash of them,
//! which is their packed key. The keys themselves lie behind the payload, and only rows whose keys are equal match.
//!
//! ```text
//!   table, direct    bitmap [key], payload columns [key]                         unique keys of a small range
//!   table, hashed    keys [slot], heads [slot] ─► rows: next, payload [row]      anything else; Bloom filter beside
//!   groups, direct   state [key]                                                 few possible groups
//!   groups, hashed   keys [slot], state [slot]                                   many
//!   groups, wide     tags [slot], state and keys [slot]                          keys that one number does not hold
//! ```

use std::sync::Arc;

use pelton_error::{Error, Result};

use super::value::{Form, Value};
use crate::ir::{Bounds, Type, Windows};
use crate::text::Dictionary;

/// Codes stay below this.
const PACKED_KEY_MAX: u128 = 1 << 63;

/// The values that one key may have.
#[derive(Debug, Clone)]
pub struct KeyDomain {
    /// Of the values.
    pub ty: Type,
    /// The least value; 0 for what is numbered.
    pub min: i128,
    /// Number of values, NULL not counted.
    pub size: u64,
    /// NULL has the number `size`.
    pub is_nullable: bool,
    /// What the numbers stand for, of a text.
    pub dictionary: Option<Arc<Dictionary>>,
}

impl KeyDomain {
    /// The domain of `value` as a key of what `what` says.
    pub(crate) fn of(value: &Value, what: &str) -> Result<Self> {
        let unknown = || Error::unsupported(format!("{what} of {:?} without known bounds", value.ty));
        let (min, size) = match (value.form, &value.dictionary) {
            (Form::Id, Some(dictionary)) => (0, dictionary.entries.len().max(1) as u128),
            (Form::Bool, _) => (0, 2),
            (Form::I32 | Form::I64, _) => {
                let bounds = value.bounds.ok_or_else(unknown)?;
                (bounds.min, (bounds.max - bounds.min) as u128 + 1)
            }
            _ => return Err(unknown()),
        };
        let is_nullable = value.valid.is_some();
        let size = u64::try_from(size)
            .ok()
            .filter(|size| u128::from(*size) < PACKED_KEY_MAX)
            .ok_or_else(|| Error::unsupported(format!("{what} whose values span all of 64 bits")))?;
        Ok(Self { ty: value.ty, min, size, is_nullable, dictionary: value.dictionary.clone() })
    }

    /// What it lies between, for integers.
    pub fn bounds(&self) -> Option<Bounds> {
        let bounds = Bounds { min: self.min, max: self.min + i128::from(self.size) - 1 };
        matches!(self.ty, Type::I32 | Type::I64 | Type::I128).then_some(bounds)
    }

    /// Packed keys of this key alone.
    pub fn count(&self) -> u64 {
        self.size + u64::from(self.is_nullable)
    }
}

/// How many packed keys all keys together can have.
pub(crate) fn count_packed_keys(domains: &[KeyDomain], what: &str) -> Result<u64> {
    let count = domains.iter().try_fold(1u128, |count, domain| {
        count.checked_mul(domain.count().into()).filter(|count| *count < PACKED_KEY_MAX)
    });
    count.map(|count| count as u64).ok_or_else(|| {
        Error::unsupported(format!(
            "{what} whose possible combinations of {} columns pass 2^63",
            domains.len()
        ))
    })
}

/// The domains of keys that one number holds together, and how many numbers that are; `None` for others.
pub(crate) fn packed_domains(keys: &[Value], what: &str) -> Option<(Vec<KeyDomain>, u64)> {
    let domains = keys.iter().map(|key| KeyDomain::of(key, what)).collect::<Result<Vec<_>>>().ok()?;
    let count = count_packed_keys(&domains, what).ok()?;
    Some((domains, count))
}

/// What a match brings.
#[derive(Debug, Clone)]
pub struct PayloadColumn {
    /// Of the values.
    pub ty: Type,
    /// How they lie.
    pub form: Form,
    /// What it lies between, for integers.
    pub bounds: Option<Bounds>,
    /// Whether an array says which are not NULL.
    pub is_nullable: bool,
    /// What the numbers stand for, of a text.
    pub dictionary: Option<Arc<Dictionary>>,
}

impl PayloadColumn {
    /// What is known of `value`, to keep it.
    pub(crate) fn of(value: &Value) -> Result<Self> {
        if value.form == Form::View {
            return Err(Error::unsupported("text without a dictionary as a value: only functions of it"));
        }
        Ok(Self {
            ty: value.ty,
            form: value.form,
            bounds: value.bounds,
            is_nullable: value.valid.is_some(),
            dictionary: value.dictionary.clone(),
        })
    }
}

/// How a table finds keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// By position. Keys are unique.
    Direct,
    /// By hashing; equal keys are chained.
    Hashed,
}

/// A hash table.
#[derive(Debug, Clone)]
pub struct TableLayout {
    /// How it finds keys.
    pub kind: TableKind,
    /// Of the keys that are packed; empty where the packed key is a hash.
    pub(crate) keys: Vec<KeyDomain>,
    /// How many packed keys there may be: places of a direct table.
    pub packed_key_count: u64,
    /// Its columns: what a match brings, then the keys that are compared.
    pub payload: Vec<PayloadColumn>,
    /// How many of its last columns are keys; none where they are packed.
    pub(crate) compared_keys: usize,
}

impl TableLayout {
    /// How many columns a match brings; those of the payload behind them are keys.
    pub fn brought_columns(&self) -> usize {
        self.payload.len() - self.compared_keys
    }

    /// The keys that packed keys are made of, the first of which varies fastest; none where packed keys are hashes.
    pub fn packed_keys(&self) -> &[KeyDomain] {
        &self.keys
    }
}

/// What is known of a table once it is built, to probe it by.
#[derive(Debug, Clone)]
pub struct BuiltTable {
    /// As it was generated.
    pub layout: TableLayout,
    /// Whether no two rows have the same key.
    pub is_unique: bool,
    /// Rows that went in.
    pub row_count: u64,
    /// The packed keys that occur lie between these.
    pub packed_key_range: Option<(u64, u64)>,
    /// The packed keys that occur, where they are few and somebody wants them.
    pub few_packed_keys: Option<Vec<u64>>,
}

impl BuiltTable {
    /// The keys that occur, where there is one key column.
    pub(crate) fn key_range(&self) -> Option<Bounds> {
        let [key] = self.layout.keys.as_slice() else { return None };
        let (low, high) = self.packed_key_range?;
        Some(Bounds { min: key.min + i128::from(low), max: key.min + i128::from(high) })
    }

    /// Each key that occurs, where there is one key column and few occur.
    pub(crate) fn key_values(&self) -> Option<Vec<i128>> {
        let [key] = self.layout.keys.as_slice() else { return None };
        let packed_keys = self.few_packed_keys.as_ref()?;
        Some(packed_keys.iter().map(|packed| key.min + i128::from(*packed)).collect())
    }

    /// The share of possible keys that occur.
    pub(crate) fn density(&self) -> f64 {
        self.row_count as f64 / self.layout.packed_key_count.max(1) as f64
    }
}

/// What a word of a group's state does with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordKind {
    /// Adds modulo 2^64.
    Add,
    /// The lower half of a 128-bit sum; the next word is the upper.
    AddLow {
        /// The number of the check, where the sum might leave 128 bits.
        check: Option<u32>,
    },
    /// See `AddLow`; nothing is applied to it by itself.
    AddHigh,
    /// Adds doubles.
    AddDouble,
    /// Keeps the least; of doubles, of the numbers that their bits are ordered by ([`of_order`]).
    Min,
    /// Keeps the greatest, likewise.
    Max,
    /// A word of the keys, written once.
    Key,
    /// Keeps the least text: where it lies in the heap of texts; 0 is none.
    LeastText,
    /// Keeps the greatest, likewise.
    GreatestText,
}

impl WordKind {
    /// Whether it leads to a text in a heap.
    pub fn is_text(self) -> bool {
        matches!(self, WordKind::LeastText | WordKind::GreatestText)
    }

    /// What the word starts with.
    pub fn identity(self) -> u64 {
        match self {
            WordKind::Min => i64::MAX as u64,
            WordKind::Max => i64::MIN as u64,
            _ => 0,
        }
    }
}

/// The double that `order_of_bits` of `cuda/pipeline/target.h` makes a number of.
pub fn of_order(order: i64) -> f64 {
    f64::from_bits((order ^ ((order >> 63) as u64 >> 1) as i64) as u64)
}

/// One aggregate of a group, in the words of its state.
#[derive(Debug, Clone)]
pub struct AggregateOutput {
    /// Of the value.
    pub ty: Type,
    /// The word (or the lower of two) that holds the value.
    pub word: usize,
    /// The word that counts values: NULL where it is 0. `None` where the aggregate is never NULL.
    pub count_word: Option<usize>,
    /// What it lies between, for integers.
    pub bounds: Option<Bounds>,
    /// What it is a number of, of a text that has a dictionary.
    pub dictionary: Option<Arc<Dictionary>>,
}

/// The slots that a hashed table with room for so many groups has, of which there may be no more than `packed_key_count`.
pub fn hashed_slots(packed_key_count: u64, groups: u64) -> u64 {
    (packed_key_count.min(groups) * 2).next_power_of_two()
}

/// How groups lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// One group, without keys.
    Global,
    /// By position.
    Direct,
    /// By hashing.
    Hashed,
    /// By hashing keys of several words, which are compared in full.
    Wide,
}

/// A key of wide groups, in the words behind their state.
#[derive(Debug, Clone)]
pub struct WideKey {
    /// What is known of it.
    pub column: PayloadColumn,
    /// The word (or the lower of two, for 128 bits) that holds it; 0 where it is NULL.
    pub word: usize,
}

/// The keys of wide groups.
#[derive(Debug, Clone)]
pub struct WideKeys {
    /// In order.
    pub keys: Vec<WideKey>,
    /// The first of their words.
    pub first_word: usize,
    /// How many words there are.
    pub word_count: usize,
    /// The word whose bits say which keys are NULL, where some may be; at most 64 keys may.
    pub null_word: Option<usize>,
}

/// The groups of an aggregation. Word 0 counts rows.
#[derive(Debug, Clone)]
pub struct GroupLayout {
    /// How they are found.
    pub kind: GroupKind,
    /// The first varies fastest in packed keys.
    pub keys: Vec<KeyDomain>,
    /// The keys of wide groups.
    pub wide: Option<WideKeys>,
    /// How many packed keys there may be; of wide keys the greatest number.
    pub packed_key_count: u64,
    /// The state of a group.
    pub words: Vec<WordKind>,
    /// What is made of it, one an aggregate.
    pub outputs: Vec<AggregateOutput>,
    /// Copies of the state that a block keeps in shared memory; 0: none.
    pub(crate) shared_copies: u32,
}

impl GroupLayout {
    /// Whether groups of `other` lie in the same places and words, whatever device made them.
    pub fn lies_as(&self, other: &Self) -> bool {
        let places = |layout: &Self| format!("{:?} {:?} {:?}", layout.keys, layout.wide, layout.words);
        self.kind == other.kind
            && self.packed_key_count == other.packed_key_count
            && places(self) == places(other)
    }

    /// The words of each group's state.
    pub fn width(&self) -> usize {
        self.words.len()
    }

    /// How many words of a state lead to texts in a heap.
    pub fn text_words(&self) -> usize {
        self.words.iter().filter(|kind| kind.is_text()).count()
    }

    /// Whether there is a heap of texts beside the states.
    pub fn has_text_heap(&self) -> bool {
        self.text_words() > 0
    }

    /// How many of its columns are keys.
    pub fn key_count(&self) -> usize {
        self.wide.as_ref().map_or(self.keys.len(), |wide| wide.keys.len())
    }

    /// What is known of its columns: keys, then aggregates.
    pub fn columns(&self) -> Vec<PayloadColumn> {
        let packed = self.keys.iter().map(|key| {
            let bounds = key.bounds();
            PayloadColumn {
                ty: key.ty,
                form: Form::of(key.ty, bounds),
                bounds,
                is_nullable: key.is_nullable,
                dictionary: key.dictionary.clone(),
            }
        });
        let wide = self.wide.iter().flat_map(|wide| wide.keys.iter().map(|key| key.column.clone()));
        let aggregates = self.outputs.iter().map(|output| PayloadColumn {
            ty: output.ty,
            form: match self.words[output.word].is_text() {
                true => Form::View,
                false => Form::of(output.ty, output.bounds),
            },
            bounds: output.bounds,
            // Every group but the one without keys has rows.
            is_nullable: output.count_word.is_some_and(|word| word > 0 || self.kind == GroupKind::Global),
            dictionary: output.dictionary.clone(),
        });
        packed.chain(wide).chain(aggregates).collect()
    }
}

/// What a pipeline leaves behind.
#[derive(Debug, Clone)]
pub enum SinkLayout {
    /// A hash table.
    Build(TableLayout),
    /// Groups.
    Groups(GroupLayout),
    /// Rows.
    Rows(RowsLayout),
}

impl SinkLayout {
    /// Whether a row may find no room in it.
    pub fn may_be_full(&self) -> bool {
        match self {
            SinkLayout::Build(table) => table.kind == TableKind::Hashed,
            SinkLayout::Groups(groups) => {
                matches!(groups.kind, GroupKind::Hashed | GroupKind::Wide) || groups.has_text_heap()
            }
            SinkLayout::Rows(_) => true,
        }
    }
}

/// Rows that come out.
#[derive(Debug, Clone)]
pub struct RowsLayout {
    /// One array each.
    pub columns: Vec<PayloadColumn>,
    /// Where not all are asked for. Then the last column is the key, for the run alone.
    pub top: Option<TopLayout>,
    /// The order that they are asked for in. Then the last columns are the words that it is by, and behind them the place
    /// where the row lies (u32), for the run alone.
    pub order: Option<OrderLayout>,
}

impl RowsLayout {
    /// How many columns are the result, before those that are for the run alone.
    pub fn output_columns(&self) -> usize {
        let of_run = match (&self.top, &self.order) {
            (_, Some(order)) => order.word_bits.len() + 1,
            (Some(_), None) => 1,
            (None, None) => 0,
        };
        self.columns.len() - of_run
    }
}

/// The order of rows: that of unsigned words, of which the first decides, then the next, and so on.
#[derive(Debug, Clone)]
pub struct OrderLayout {
    /// The lowest bits of each word that may differ between rows: 1 to 64. No word where all rows are equal.
    pub word_bits: Vec<u32>,
    /// How many bits each key has, of all words put together; the first keys have the highest.
    pub key_bits: Vec<u32>,
    /// The keys that are texts of which words hold the beginning, in order.
    pub texts: Vec<TextKey>,
    /// How many of the first rows are wanted; `None`: all.
    pub row_count: Option<u64>,
    /// What is computed of the rows in order.
    pub windows: Option<Windows>,
}

/// A key of 128 bits that is the beginning of a text: rows that are equal by it may not be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextKey {
    /// The number of the key.
    pub key: usize,
    /// The number of the column by which the text is found.
    pub column: usize,
    /// The greatest texts come first.
    pub is_descending: bool,
    /// The lowest byte of the key where the text goes on beyond its beginning, and of no other: neither of a shorter text
    /// nor of NULL.
    pub goes_on: u8,
}

impl OrderLayout {
    /// The lowest byte of key `key`, whose bits are at least as many, of a row with these words.
    pub fn lowest_byte(&self, key: usize, words: &[u64]) -> u8 {
        let below: u32 = self.key_bits[key + 1..].iter().sum();
        let (word, bit) = (words.len() - 1 - (below / u64::BITS) as usize, below % u64::BITS);
        let more = if bit > 0 && word > 0 { words[word - 1] << (u64::BITS - bit) } else { 0 };
        (words[word] >> bit | more) as u8
    }

    /// The bits of each word by which the first `keys` keys of rows differ.
    pub fn masks_of(&self, keys: usize) -> Vec<u64> {
        let mut below: u32 = self.key_bits.iter().skip(keys).sum();
        let masks = self.word_bits.iter().rev().map(|&bits| {
            let all = u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
            let cut = below.min(bits);
            below -= cut;
            all & u64::MAX.checked_shl(cut).unwrap_or(0)
        });
        let mut masks: Vec<u64> = masks.collect();
        masks.reverse();
        masks
    }
}

/// The first rows by a key.
#[derive(Debug, Clone)]
pub struct TopLayout {
    /// Whether the greatest keys come first.
    pub is_descending: bool,
    /// Whether all rows like the last one are wanted.
    pub keeps_ties: bool,
    /// Rows that are wanted.
    pub row_count: u64,
    /// The column of the source that the key is.
    pub source_column: Option<usize>,
    /// The number of the range filter that leaves out rows beyond the threshold; without one the sink does.
    pub range: Option<usize>,
}
