//! From what kernels left in memory to rows.

use std::collections::HashMap;
use std::sync::Arc;

use pelton_chunk::ByteValues;
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{
    AggregateOutput, Form, GroupLayout, KeyDomain, PayloadColumn, WideKey, WordKind, of_order,
};
use pelton_pipeline::ir::{SHORT_TEXT_BYTES, Type};
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows};

/// The groups in `records`: the packed key of each, then the words of its state, which lead to texts in `heap`.
pub(crate) fn group_rows(layout: &GroupLayout, records: &[u64], heap: &[u8]) -> Result<Rows> {
    let width = layout.words.len() + 1;
    let records: Vec<&[u64]> = records.chunks_exact(width).collect();
    let mut columns = Vec::with_capacity(layout.keys.len() + layout.outputs.len());
    let mut stride = 1u64;
    for key in layout.wide.iter().flat_map(|wide| &wide.keys).enumerate() {
        columns.push(wide_key_column(layout, key, &records)?);
    }
    for key in &layout.keys {
        let numbers = records.iter().map(|record| record[0] / stride % key.count());
        columns.push(key_column(key, numbers)?);
        stride *= key.count();
    }
    for output in &layout.outputs {
        columns.push(aggregate_column(layout, output, &records, heap)?);
    }
    Ok(Rows { row_count: records.len(), columns })
}

/// Key `index` of wide groups.
fn wide_key_column(
    layout: &GroupLayout,
    (index, key): (usize, &WideKey),
    records: &[&[u64]],
) -> Result<RowColumn> {
    let null_word = layout.wide.as_ref().and_then(|wide| wide.null_word).filter(|_| key.column.is_nullable);
    let word = key.word + 1;
    let wide = |record: &&[u64]| match key.column.form {
        Form::I128 | Form::Short => (u128::from(record[word]) | u128::from(record[word + 1]) << 64) as i128,
        _ => i128::from(record[word] as i64),
    };
    let low = records.iter().map(|record| record[word]);
    let values = match key.column.ty {
        Type::Bool => RowValues::Bool(low.map(|value| u8::from(value != 0)).collect()),
        Type::I32 => RowValues::I32(low.map(|value| value as i32).collect()),
        Type::I64 => RowValues::I64(low.map(|value| value as i64).collect()),
        Type::I128 => RowValues::I128(records.iter().map(wide).collect()),
        Type::F64 => RowValues::F64(low.map(f64::from_bits).collect()),
        Type::Text if key.column.form == Form::Short => short_texts(records.iter().map(wide))?,
        Type::Text => RowValues::Text {
            ids: low.map(|value| value as u32).collect(),
            dictionary: key.column.dictionary.clone().unwrap_or_else(|| Dictionary::default().into()),
        },
    };
    let is_valid =
        |null_word: usize| records.iter().map(|record| record[null_word + 1] >> index & 1 == 0).collect();
    Ok(RowColumn { values, valid: null_word.map(is_valid) })
}

pub(crate) fn key_column(key: &KeyDomain, numbers: impl Iterator<Item = u64>) -> Result<RowColumn> {
    let numbers: Vec<u64> = numbers.collect();
    let value = |number: &u64| key.min + i128::from(if *number == key.size { 0 } else { *number });
    let values = match key.ty {
        Type::Bool => RowValues::Bool(numbers.iter().map(|number| u8::from(*number == 1)).collect()),
        Type::I32 => RowValues::I32(numbers.iter().map(|number| value(number) as i32).collect()),
        Type::I64 => RowValues::I64(numbers.iter().map(|number| value(number) as i64).collect()),
        Type::I128 => RowValues::I128(numbers.iter().map(value).collect()),
        Type::Text => RowValues::Text {
            ids: numbers.iter().map(|number| if *number == key.size { 0 } else { *number as u32 }).collect(),
            dictionary: key.dictionary.clone().unwrap_or_else(|| Dictionary::default().into()),
        },
        Type::F64 => return Err(Error::unsupported("groups by doubles")),
    };
    let valid = key.is_nullable.then(|| numbers.iter().map(|number| *number != key.size).collect());
    Ok(RowColumn { values, valid })
}

fn aggregate_column(
    layout: &GroupLayout,
    output: &AggregateOutput,
    records: &[&[u64]],
    heap: &[u8],
) -> Result<RowColumn> {
    let word = output.word + 1;
    let low = |record: &&[u64]| record[word];
    let wide = |record: &&[u64]| match layout.words[output.word] {
        WordKind::AddLow { .. } => (u128::from(record[word]) | u128::from(record[word + 1]) << 64) as i128,
        _ => i128::from(record[word] as i64),
    };
    let values = match output.ty {
        Type::I32 => RowValues::I32(records.iter().map(|record| low(record) as i32).collect()),
        Type::I64 => RowValues::I64(records.iter().map(|record| low(record) as i64).collect()),
        Type::I128 => RowValues::I128(records.iter().map(wide).collect()),
        Type::F64 => {
            let value: fn(u64) -> f64 = match layout.words[output.word] {
                WordKind::Min | WordKind::Max => |word| of_order(word as i64),
                _ => f64::from_bits,
            };
            RowValues::F64(records.iter().map(|record| value(low(record))).collect())
        }
        Type::Text if layout.words[output.word].is_text() => kept_texts(heap, records.iter().map(low))?,
        Type::Text => RowValues::Text {
            // Of NULL there is the number that the search begins with.
            ids: records.iter().map(|record| low(record) as u32).collect(),
            dictionary: output.dictionary.clone().unwrap_or_else(|| Dictionary::default().into()),
        },
        other => return Err(Error::unsupported(format!("an aggregate of type {other:?}"))),
    };
    let valid = output.count_word.map(|count| records.iter().map(|record| record[count + 1] != 0).collect());
    Ok(RowColumn { values, valid })
}

/// An output column from the bytes of its arrays, the first `count` values of each. Texts that have no
/// dictionary are numbers until all rows are there ([`with_texts`]).
pub(crate) fn output_column(
    column: &PayloadColumn,
    values: &[u8],
    valid: Option<&[u8]>,
    count: usize,
) -> RowColumn {
    let words = |bytes: usize| values.chunks_exact(bytes).take(count);
    let narrow = || words(8).map(|word| i64::from_le_bytes(word.try_into().expect("8 bytes")));
    let values = match (column.ty, column.form) {
        (Type::Bool, _) => RowValues::Bool(values[..count].to_vec()),
        (Type::I32, _) => RowValues::I32(
            words(4).map(|word| i32::from_le_bytes(word.try_into().expect("4 bytes"))).collect(),
        ),
        (Type::I128, Form::I128) | (Type::Text, Form::Short) => RowValues::I128(
            words(16).map(|word| i128::from_le_bytes(word.try_into().expect("16 bytes"))).collect(),
        ),
        (Type::Text, Form::Kept) => RowValues::I64(narrow().collect()),
        (Type::Text, _) => RowValues::Text {
            ids: words(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect(),
            dictionary: column.dictionary.clone().unwrap_or_else(|| Dictionary::default().into()),
        },
        (Type::F64, _) => RowValues::F64(
            words(8).map(|word| f64::from_le_bytes(word.try_into().expect("8 bytes"))).collect(),
        ),
        (Type::I128, _) => RowValues::I128(narrow().map(i128::from).collect()),
        (Type::I64, _) => RowValues::I64(narrow().collect()),
    };
    let valid = valid.map(|valid| valid[..count].iter().map(|valid| *valid != 0).collect());
    RowColumn { values, valid }
}

/// `rows` of these columns, short texts and those in `heap` as numbers of a dictionary made of them. (Where no morsel ran,
/// there are no columns.)
pub(crate) fn with_texts(mut rows: Rows, columns: &[PayloadColumn], heap: &[u8]) -> Result<Rows> {
    for (column, layout) in rows.columns.iter_mut().zip(columns) {
        column.values = match (layout.form, &column.values) {
            (Form::Short, RowValues::I128(values)) => short_texts(values.iter().copied())?,
            (Form::Kept, RowValues::I64(values)) => kept_texts(heap, values.iter().map(|word| *word as u64))?,
            _ => continue,
        };
    }
    Ok(rows)
}

/// Short texts, as kernels hold them, as numbers of their sorted dictionary.
fn short_texts(values: impl Iterator<Item = i128>) -> Result<RowValues> {
    let values: Vec<u128> = values.map(|value| value as u128).collect();
    let mut distinct = values.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let mut entries = ByteValues::default();
    for text in &distinct {
        let length = usize::from(*text as u8).min(SHORT_TEXT_BYTES);
        entries.push(&text.to_be_bytes()[..length])?;
    }
    let numbers: HashMap<u128, u32> = distinct.into_iter().zip(0..).collect();
    let ids = values.iter().map(|value| numbers[value]).collect();
    Ok(RowValues::Text { ids, dictionary: Dictionary::new(entries).into() })
}

/// The texts that words of state lead to in `heap`, as numbers of a dictionary made of them.
fn kept_texts(heap: &[u8], words: impl Iterator<Item = u64>) -> Result<RowValues> {
    let mut entries = ByteValues::default();
    let mut numbers: HashMap<&[u8], u32> = HashMap::new();
    let mut ids = Vec::new();
    for word in words {
        if word == 0 {
            ids.push(0);
            continue;
        }
        let text = text_in(heap, word)?;
        let next = entries.len() as u32;
        let number = *numbers.entry(text).or_insert(next);
        if number == next {
            entries.push(text)?;
        }
        ids.push(number);
    }
    Ok(RowValues::Text { ids, dictionary: Dictionary::new(entries).into() })
}

/// The text that `word`, which is not NULL, leads to in `heap`.
pub(crate) fn text_in(heap: &[u8], word: u64) -> Result<&[u8]> {
    let lost = || Error::corrupt(format!("a text at {word} of a heap of {} bytes", heap.len()));
    let (length, bytes) =
        heap.get(word as usize..).and_then(|rest| rest.split_at_checked(8)).ok_or_else(lost)?;
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes"));
    bytes.get(..length as usize).ok_or_else(lost)
}

/// `more` after `rows`, of the same columns.
///
/// # Errors
///
/// Where their texts are more than a dictionary holds.
pub(crate) fn append(rows: &mut Rows, more: Rows) -> Result<()> {
    if rows.columns.is_empty() && rows.row_count == 0 {
        *rows = more;
        return Ok(());
    }
    rows.row_count += more.row_count;
    for (column, more) in rows.columns.iter_mut().zip(more.columns) {
        match (&mut column.values, more.values) {
            (RowValues::Bool(all), RowValues::Bool(more)) => all.extend(more),
            (RowValues::I32(all), RowValues::I32(more)) => all.extend(more),
            (RowValues::I64(all), RowValues::I64(more)) => all.extend(more),
            (RowValues::I128(all), RowValues::I128(more)) => all.extend(more),
            (RowValues::F64(all), RowValues::F64(more)) => all.extend(more),
            (RowValues::Text { ids, dictionary }, RowValues::Text { ids: more, dictionary: other }) => {
                append_texts((ids, dictionary), more, &other)?;
            }
            _ => unreachable!("morsels of one pipeline have the same columns"),
        }
        if let (Some(all), Some(more)) = (&mut column.valid, more.valid) {
            all.extend(more);
        }
    }
    Ok(())
}

/// Texts of a dictionary of their own after those of another: dictionaries that were made of the rows of a part differ.
fn append_texts(
    (ids, dictionary): (&mut Vec<u32>, &mut Arc<Dictionary>),
    more: Vec<u32>,
    other: &Arc<Dictionary>,
) -> Result<()> {
    if Arc::ptr_eq(dictionary, other) || dictionary == other {
        ids.extend(more);
        return Ok(());
    }
    let mut entries = dictionary.entries.clone();
    let mut numbers: HashMap<&[u8], u32> = dictionary.entries.iter().zip(0..).collect();
    let mut mapping = Vec::with_capacity(other.entries.len());
    for text in other.entries.iter() {
        let next = entries.len() as u32;
        let number = *numbers.entry(text).or_insert(next);
        if number == next {
            entries.push(text)?;
        }
        mapping.push(number);
    }
    // What is NULL may be anything.
    ids.extend(more.into_iter().map(|id| mapping.get(id as usize).copied().unwrap_or(0)));
    *dictionary = Dictionary::new(entries).into();
    Ok(())
}

/// Leaves of `rows` those that `is_kept`.
pub(crate) fn retain(rows: &mut Rows, is_kept: &[bool]) {
    fn chosen<T>(values: &mut Vec<T>, is_kept: &[bool]) {
        let mut kept = is_kept.iter();
        values.retain(|_| *kept.next().expect("one a row"));
    }
    rows.row_count = is_kept.iter().filter(|kept| **kept).count();
    if rows.row_count == is_kept.len() {
        return;
    }
    for column in &mut rows.columns {
        match &mut column.values {
            RowValues::Bool(values) => chosen(values, is_kept),
            RowValues::I32(values) => chosen(values, is_kept),
            RowValues::I64(values) => chosen(values, is_kept),
            RowValues::I128(values) => chosen(values, is_kept),
            RowValues::F64(values) => chosen(values, is_kept),
            RowValues::Text { ids, .. } => chosen(ids, is_kept),
        }
        column.valid.iter_mut().for_each(|valid| chosen(valid, is_kept));
    }
}
