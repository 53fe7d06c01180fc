//! From a column to the bytes of a chunk.
//!
//! 1. All rows equal, or all NULL: a constant chunk, whatever was asked for.
//! 2. NULL rows get the value of the row before, which no layout pays for.
//! 3. The transform makes integers; its dictionary goes into the chunk.
//! 4. The layout writes page after page; the writer adds validity bits and applies the codec.

use std::borrow::Cow;

use pelton_error::{Error, Result};

use crate::alp::{self, FloatLane};
use crate::bitpack;
use crate::delta;
use crate::dictionary::{self, Dictionary};
use crate::encoding::{Encoding, Layout, Transform};
use crate::format::{PAGE_ROWS_MAX, PageParams, is_page_rows};
use crate::fsst;
use crate::lanes::{Lane, Native, Word, as_bytes, as_lanes};
use crate::plain;
use crate::runs;
use crate::types::{ByteValues, Column, Validity, Values};
use crate::writer::ChunkWriter;

/// Encodes `column` in pages of `page_rows` rows.
///
/// A column of one value, or of NULLs only, becomes [`Layout::Constant`] whatever was asked for. `Unsupported`
/// where the encoding does not apply to the type or cannot hold these values; the caller takes another one,
/// [`Encoding::PLAIN`] at the latest.
pub fn encode_chunk(column: &Column, encoding: Encoding, page_rows: u32) -> Result<Vec<u8>> {
    check_arguments(column, page_rows)?;
    if let Some(constant) = constant_of(column) {
        return encode_constant(column, constant, page_rows);
    }
    if encoding.layout == Layout::Constant {
        return Err(Error::unsupported("constant needs a column of one value"));
    }
    if !encoding.applies_to(column.values.physical_type()) {
        let ty = column.values.physical_type();
        return Err(Error::unsupported(format!("encoding {encoding} does not apply to {ty:?}")));
    }

    let mut chunk = ChunkWriter::new(column, encoding, page_rows);
    let validity = column.validity.as_ref();
    match &column.values {
        Values::F32(values) if encoding.transform == Transform::Alp => {
            encode_decimals(as_lanes(values), validity, &mut chunk)?
        }
        Values::F64(values) if encoding.transform == Transform::Alp => {
            encode_decimals(as_lanes(values), validity, &mut chunk)?
        }
        Values::U8(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::U16(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::U32(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::U64(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::I8(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::I16(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::I32(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::I64(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::F32(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::F64(values) => encode_native(values, validity, encoding, &mut chunk)?,
        Values::I128(values) => encode_wide(values, validity, encoding, &mut chunk)?,
        Values::Bytes(values) => encode_strings(values, validity, encoding, &mut chunk)?,
    }
    Ok(chunk.finish())
}

fn check_arguments(column: &Column, page_rows: u32) -> Result<()> {
    if let Some(validity) = &column.validity {
        assert_eq!(validity.len, column.len());
        assert_eq!(validity.bits.len(), column.len().div_ceil(8));
    }
    if u32::try_from(column.len()).is_err() {
        return Err(Error::invalid_input(format!(
            "a row group of {} rows; use fewer than 4,294,967,296",
            column.len()
        )));
    }
    if !is_page_rows(page_rows) {
        return Err(Error::invalid_input(format!(
            "pages of {page_rows} rows; use a multiple of 1024 of at most {PAGE_ROWS_MAX}"
        )));
    }
    Ok(())
}

/// What a constant column holds in every row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant {
    Null,
    /// The value of row 0.
    Value,
}

/// Whether all rows are alike; floats are compared by their bits.
pub(crate) fn constant_of(column: &Column) -> Option<Constant> {
    let null_count = column.null_count();
    if null_count == column.len() {
        return Some(Constant::Null);
    }
    let is_constant = null_count == 0
        && match &column.values {
            Values::F32(values) => is_uniform(as_lanes(values)),
            Values::F64(values) => is_uniform(as_lanes(values)),
            values => crate::match_fixed_width!(values, values => is_uniform(values),
                bytes values => values.iter().all(|value| value == values.get(0))),
        };
    is_constant.then_some(Constant::Value)
}

fn is_uniform<T: PartialEq>(values: &[T]) -> bool {
    values.iter().all(|value| *value == values[0])
}

fn encode_constant(column: &Column, constant: Constant, page_rows: u32) -> Result<Vec<u8>> {
    let mut chunk = ChunkWriter::new(column, Encoding::CONSTANT, page_rows);
    match constant {
        Constant::Null => chunk.set_all_null(),
        Constant::Value => crate::match_fixed_width!(&column.values,
            values => chunk.set_dictionary(1, as_bytes(&values[..1])),
            bytes values => chunk.set_dictionary(1, &dictionary::strings_to_bytes(&[values.get(0)])))?,
    }
    Ok(chunk.finish())
}

fn encode_native<T: Native>(
    values: &[T],
    validity: Option<&Validity>,
    encoding: Encoding,
    chunk: &mut ChunkWriter<'_>,
) -> Result<()> {
    if encoding.transform == Transform::Dictionary {
        let lanes = as_lanes(values).iter().copied();
        let hash = |lane: T::Lane| dictionary::hash_word(lane.to_u64());
        let dictionary = dictionary::build(lanes, validity, hash, |lane| T::ORDER.key(lane))?;
        return encode_codes(&dictionary, as_bytes(&dictionary.entries), encoding.layout, chunk);
    }
    let lanes = fill_nulls(as_lanes(values), validity);
    encode_lanes(&lanes, T::ORDER.flip(), encoding.layout, chunk)
}

/// Writes the pages of integers without a transform.
fn encode_lanes<L: Lane>(values: &[L], flip: L, layout: Layout, chunk: &mut ChunkWriter<'_>) -> Result<()> {
    chunk.write_pages(|rows, body| {
        let values = &values[rows];
        Ok(match layout {
            Layout::Plain => plain::encode(values, body),
            Layout::BitPacked => bitpack::encode(values, flip, body),
            Layout::Delta => delta::encode(values, flip, body),
            Layout::RunLength => runs::encode(values, flip, body),
            Layout::Constant => unreachable!("constant chunks have no pages"),
        })
    })
}

fn encode_codes<T>(
    dictionary: &Dictionary<T>,
    entries: &[u8],
    layout: Layout,
    chunk: &mut ChunkWriter<'_>,
) -> Result<()> {
    chunk.set_dictionary(dictionary.entries.len(), entries)?;
    encode_lanes(&dictionary.codes, 0, layout, chunk)
}

fn encode_decimals<L: FloatLane>(
    values: &[L],
    validity: Option<&Validity>,
    chunk: &mut ChunkWriter<'_>,
) -> Result<()> {
    let values = fill_nulls(values, validity);
    chunk.write_pages(|rows, body| Ok(alp::encode(&values[rows], body)))
}

fn encode_wide(
    values: &[i128],
    validity: Option<&Validity>,
    encoding: Encoding,
    chunk: &mut ChunkWriter<'_>,
) -> Result<()> {
    if encoding.transform == Transform::Dictionary {
        let hash =
            |value: i128| dictionary::hash_word(value as u64 ^ dictionary::hash_word((value >> 64) as u64));
        let dictionary = dictionary::build(values.iter().copied(), validity, hash, |value| value)?;
        return encode_codes(&dictionary, as_bytes(&dictionary.entries), encoding.layout, chunk);
    }
    let values = fill_nulls(values, validity);
    chunk.write_pages(|rows, body| {
        if encoding.layout == Layout::Plain {
            return Ok(plain::encode(&values[rows], body));
        }
        let (base, offsets) = narrow(&values[rows])?;
        let params = match encoding.layout {
            Layout::BitPacked => bitpack::encode(&offsets, 0, body),
            Layout::RunLength => runs::encode(&offsets, 0, body),
            layout => unreachable!("{layout:?} does not apply to 128-bit values"),
        };
        Ok(PageParams { base, ..params })
    })
}

/// The smallest value and the others as offsets from it, where these fit 64 bits.
fn narrow(values: &[i128]) -> Result<(i128, Vec<u64>)> {
    let base = *values.iter().min().expect("pages are not empty");
    let offsets = values.iter().map(|value| u64::try_from(value.wrapping_sub(base) as u128));
    let offsets: std::result::Result<_, _> = offsets.collect();
    let offsets =
        offsets.map_err(|_| Error::unsupported("128-bit values of a page that lie more than 2^64 apart"))?;
    Ok((base, offsets))
}

fn encode_strings(
    values: &ByteValues,
    validity: Option<&Validity>,
    encoding: Encoding,
    chunk: &mut ChunkWriter<'_>,
) -> Result<()> {
    if encoding.transform == Transform::Dictionary {
        let dictionary = dictionary::build(values.iter(), validity, dictionary::hash_bytes, |value| value)?;
        let entries = dictionary::strings_to_bytes(&dictionary.entries);
        return encode_codes(&dictionary, &entries, encoding.layout, chunk);
    }
    if encoding.transform == Transform::Fsst {
        let compressor = fsst::train(values, validity);
        let (count, symbols) = fsst::symbols_to_bytes(&compressor);
        chunk.set_dictionary(count, &symbols)?;
        let text = |row| if validity.is_none_or(|v| v.is_valid(row)) { values.get(row) } else { &[] };
        return chunk
            .write_pages(|rows, body| fsst::encode(&compressor, &rows.map(text).collect::<Vec<_>>(), body));
    }
    chunk.write_pages(|rows, body| {
        let length = |row: usize| values.offsets[row + 1] - values.offsets[row];
        let Some(validity) = validity else {
            let text = values.offsets[rows.start] as usize..values.offsets[rows.end] as usize;
            let lengths: Vec<u32> = rows.map(length).collect();
            return Ok(plain::encode_strings(&lengths, std::iter::once(&values.data[text]), body));
        };
        // A NULL row is an empty string.
        let valid_length = |row| if validity.is_valid(row) { length(row) } else { 0 };
        let lengths: Vec<u32> = rows.clone().map(valid_length).collect();
        let texts = rows.filter(|row| validity.is_valid(*row)).map(|row| values.get(row));
        Ok(plain::encode_strings(&lengths, texts, body))
    })
}

/// The values with the value of the row before in each NULL row, of the first valid row in front of that.
pub(crate) fn fill_nulls<'a, T: Word>(values: &'a [T], validity: Option<&Validity>) -> Cow<'a, [T]> {
    let Some(validity) = validity else { return Cow::Borrowed(values) };
    let first_valid = (0..values.len()).find(|row| validity.is_valid(*row));
    let mut previous = first_valid.map(|row| values[row]).unwrap_or_default();
    let filled = values.iter().enumerate().map(|(row, value)| {
        if validity.is_valid(row) {
            previous = *value;
        }
        previous
    });
    Cow::Owned(filled.collect())
}
