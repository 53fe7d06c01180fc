//! Which encodings are worth trying on a column: one pass over the values, no encoding.
//!
//! The bounds below drop what cannot win; what remains is encoded and measured by the caller.

use pelton_error::{ErrorKind, Result};

use crate::alp;
use crate::bitpack;
use crate::dictionary;
use crate::encode::{constant_of, encode_chunk, fill_nulls};
use crate::encoding::{Encoding, Layout, Transform};
use crate::format::DEFAULT_PAGE_ROWS;
use crate::lanes::{Lane, Native, Order, as_lanes};
use crate::types::{Column, Validity, Values};

/// Bits of a row number in a page of usual size.
const ROW_BITS: u64 = DEFAULT_PAGE_ROWS.ilog2() as u64;

/// How far symbols shrink text as a rule (Boncz, Neumann, Leis 2020, table 1: 2.2 on average).
const SYMBOLS_RATIO: u64 = 3;

/// What one pass shows.
#[derive(Debug, Default)]
struct Profile {
    /// Bits of a value as it is; a string's average.
    plain_bits: u64,
    /// Bits of an offset from the page's smallest value, if offsets apply.
    offset_bits: Option<u64>,
    /// Bits of a difference, bases included, if differences apply.
    delta_bits: Option<u64>,
    /// Bits of an ALP value, exceptions included, if it applies.
    alp_bits: Option<u64>,
    run_count: u64,
    /// Distinct values, if few enough for a dictionary.
    distinct_count: Option<u64>,
}

/// The encodings without codec that may suit `column`; never empty, best guess in no particular order.
///
/// [`Encoding::PLAIN`] is always among them, as what heavy codecs like best, unless the column is constant.
pub fn candidates(column: &Column) -> Vec<Encoding> {
    if constant_of(column).is_some() {
        return vec![Encoding::CONSTANT];
    }
    let Profile { plain_bits, offset_bits, delta_bits, alp_bits, run_count, distinct_count } =
        profile(column);
    let rows = column.len() as u64;
    let value_bits = offset_bits.into_iter().chain(alp_bits).fold(plain_bits, u64::min);
    let code_bits = distinct_count.map(|count| u64::from((count - 1).bit_len()));
    let dictionary_bits = distinct_count.map(|count| (count * plain_bits).div_ceil(rows));
    // Runs also compress well under a heavy codec, hence the second half of the condition.
    let are_runs_short_of = |run_bits: u64, limit_bits: u64| {
        run_count * (run_bits + ROW_BITS) < rows * limit_bits || run_count * 2 <= rows
    };

    let mut found = vec![Encoding::PLAIN];
    let mut add = |transform, layout| found.push(Encoding::light(transform, layout));
    if offset_bits.is_some_and(|bits| bits < plain_bits) {
        add(Transform::None, Layout::BitPacked);
    }
    if delta_bits.is_some_and(|bits| bits < value_bits) {
        add(Transform::None, Layout::Delta);
    }
    if alp_bits.is_some_and(|bits| bits < plain_bits) {
        add(Transform::Alp, Layout::BitPacked);
    }
    if !matches!(column.values, Values::Bytes(_))
        && are_runs_short_of(offset_bits.unwrap_or(plain_bits), value_bits)
    {
        add(Transform::None, Layout::RunLength);
    }
    // Where a dictionary shrinks text further than symbols do, it stays: its codes are what is read fastest.
    let dictionary_ratio =
        code_bits.zip(dictionary_bits).map_or(0, |(code, entries)| plain_bits / (code + entries).max(1));
    if matches!(column.values, Values::Bytes(_)) && dictionary_ratio < SYMBOLS_RATIO {
        add(Transform::Fsst, Layout::Plain);
    }
    if let (Some(code_bits), Some(dictionary_bits)) = (code_bits, dictionary_bits) {
        if code_bits + dictionary_bits < value_bits {
            add(Transform::Dictionary, Layout::BitPacked);
        }
        if dictionary_bits < value_bits && are_runs_short_of(code_bits, code_bits) {
            add(Transform::Dictionary, Layout::RunLength);
        }
    }
    found
}

/// The smallest chunk among the candidates without codec, and its encoding.
///
/// What a writer falls back to where a chunk cannot hold its table's chosen encoding.
pub fn best_light(column: &Column, page_rows: u32) -> Result<(Encoding, Vec<u8>)> {
    let mut best: Option<(Encoding, Vec<u8>)> = None;
    for encoding in candidates(column) {
        match encode_chunk(column, encoding, page_rows) {
            Ok(chunk) if best.as_ref().is_none_or(|(_, smallest)| chunk.len() < smallest.len()) => {
                best = Some((encoding, chunk));
            }
            Ok(_) => {}
            Err(error) if *error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
    }
    Ok(best.expect("every column is constant or can be plain"))
}

fn profile(column: &Column) -> Profile {
    let validity = column.validity.as_ref();
    match &column.values {
        Values::U8(values) => native_profile(values, validity),
        Values::U16(values) => native_profile(values, validity),
        Values::U32(values) => native_profile(values, validity),
        Values::U64(values) => native_profile(values, validity),
        Values::I8(values) => native_profile(values, validity),
        Values::I16(values) => native_profile(values, validity),
        Values::I32(values) => native_profile(values, validity),
        Values::I64(values) => native_profile(values, validity),
        Values::F32(values) => {
            Profile { alp_bits: Some(alp_bits(as_lanes(values))), ..native_profile(values, validity) }
        }
        Values::F64(values) => {
            Profile { alp_bits: Some(alp_bits(as_lanes(values))), ..native_profile(values, validity) }
        }
        Values::I128(values) => wide_profile(values, validity),
        Values::Bytes(values) => {
            let distinct = dictionary::build(values.iter(), validity, dictionary::hash_bytes, |_| ());
            Profile {
                plain_bits: (column.values.raw_bytes() * 8).div_ceil(values.len() as u64),
                run_count: values.iter().zip(values.iter().skip(1)).filter(|(a, b)| a != b).count() as u64
                    + 1,
                distinct_count: distinct.ok().map(|dictionary| dictionary.entries.len() as u64),
                ..Profile::default()
            }
        }
    }
}

fn native_profile<T: Native>(values: &[T], validity: Option<&Validity>) -> Profile {
    let lanes = as_lanes(values);
    let hash = |lane: T::Lane| dictionary::hash_word(lane.to_u64());
    let distinct = dictionary::build(lanes.iter().copied(), validity, hash, |_| ());
    let lanes = fill_nulls(lanes, validity);
    let is_integer = T::ORDER != Order::Float;
    Profile {
        plain_bits: T::Lane::BITS.into(),
        offset_bits: is_integer.then(|| mean_bits(&lanes, T::ORDER.flip())),
        delta_bits: is_integer.then(|| delta_bits(&lanes, T::ORDER.flip())),
        alp_bits: None,
        run_count: run_count(&lanes),
        distinct_count: distinct.ok().map(|dictionary| dictionary.entries.len() as u64),
    }
}

fn wide_profile(values: &[i128], validity: Option<&Validity>) -> Profile {
    let hash = |value: i128| dictionary::hash_word(value as u64 ^ (value >> 64) as u64);
    let distinct = dictionary::build(values.iter().copied(), validity, hash, |_| ());
    let values = fill_nulls(values, validity);
    let min = values.iter().min().copied().unwrap_or_default();
    let max = values.iter().max().copied().unwrap_or_default();
    let range = u64::try_from(max.wrapping_sub(min) as u128);
    Profile {
        plain_bits: i128::BITS.into(),
        offset_bits: range.ok().map(|range| range.bit_len().into()),
        run_count: run_count(&values),
        distinct_count: distinct.ok().map(|dictionary| dictionary.entries.len() as u64),
        ..Profile::default()
    }
}

fn run_count<T: PartialEq>(values: &[T]) -> u64 {
    values.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64 + 1
}

/// Mean over pages of the bits of an offset from the page's smallest value.
fn mean_bits<L: Lane>(values: &[L], flip: L) -> u64 {
    let pages = values.chunks(DEFAULT_PAGE_ROWS as usize);
    let page_count = pages.len() as u64;
    pages.map(|page| u64::from(bitpack::frame(page, flip).1)).sum::<u64>().div_ceil(page_count)
}

/// As [`mean_bits`] for differences, plus what the bases of their lanes take.
fn delta_bits<L: Lane>(values: &[L], flip: L) -> u64 {
    let deltas: Vec<L> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    if deltas.is_empty() {
        return 0;
    }
    let base_bits = mean_bits(values, flip).next_multiple_of(8);
    mean_bits(&deltas, L::SIGN) + base_bits / u64::from(L::BITS)
}

/// Bits of an ALP value, from a sample of the column.
fn alp_bits<L: alp::FloatLane>(values: &[L]) -> u64 {
    const SAMPLE: usize = 1024;
    let sample: Vec<L> = values.iter().copied().step_by(values.len().div_ceil(SAMPLE)).collect();
    alp::smallest_estimated_bits(&sample).div_ceil(sample.len() as u64)
}
