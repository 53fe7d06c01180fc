//! Byte strings as codes of symbols (FSST): a code of one byte stands for the same 1 to 8 bytes wherever it is, so that
//! every string is decoded alone, from front to back.
//!
//! ```text
//! dictionary section: symbol of code 0 (8 bytes, zeros behind it) │ of code 1 │ … │ length of each (1 byte)
//! body:               lengths in codes as in the bit-packed layout │ codes of all strings
//!                     params: base = smallest length in codes, width, count = bytes of all codes,
//!                             base_of_bases = bytes of all strings
//! codes:              0 to count − 1: a symbol │ 255: the next byte is itself
//! ```
//!
//! Symbols are found in a sample of the chunk's own strings. Bound: a code gives at most 8 bytes, so a page's strings
//! take at most 8 times its codes; a string of bytes that no symbol has takes twice its length.
//!
//! Boncz, Neumann, Leis: FSST: Fast Random Access String Compression, 2020; the `fsst-rs` crate finds the symbols and
//! encodes. Decoding is here, since bytes of a file may be damaged.

use fsst::Compressor;
use pelton_error::{Error, Result};

use crate::bitpack;
use crate::format::{PageParams, corrupt};
use crate::plain;
use crate::types::{ByteValues, Validity};
use crate::view::Page;

/// Most symbols: the code above them all is [`ESCAPE`].
pub(crate) const SYMBOLS_MAX: usize = 255;
/// Bytes that a symbol takes in the dictionary section, its length included.
pub(crate) const SYMBOL_STORED_BYTES: usize = SYMBOL_BYTES + 1;

/// The longest symbol.
const SYMBOL_BYTES: usize = 8;
/// The code that is followed by a byte as it is.
const ESCAPE: u8 = 255;
/// Strings that symbols are looked for in; of those, 16 KiB are looked at.
const SAMPLED_STRINGS: usize = 1 << 16;
/// Strings that are encoded side by side, which hides how long a table's look-up takes.
const LANES: usize = Compressor::DEFAULT_BULK_LANES;

/// Bytes of a body of `rows` strings; `None` where the parameters are impossible.
pub(crate) fn body_bytes(params: &PageParams, rows: usize) -> Option<u64> {
    let is_possible = params.base_of_bases <= SYMBOL_BYTES as u64 * u64::from(params.count);
    is_possible.then(|| plain::strings_body_bytes(params, rows))?
}

/// The symbols for the valid strings of a column.
pub(crate) fn train(values: &ByteValues, validity: Option<&Validity>) -> Compressor {
    let step = values.len().div_ceil(SAMPLED_STRINGS).max(1);
    let is_valid = |row: &usize| validity.is_none_or(|validity| validity.is_valid(*row));
    let sample = (0..values.len()).step_by(step).filter(is_valid).map(|row| values.get(row));
    Compressor::train(&sample.collect())
}

/// The dictionary section of these symbols, and their number.
pub(crate) fn symbols_to_bytes(compressor: &Compressor) -> (usize, Vec<u8>) {
    let symbols = compressor.symbol_table();
    let mut bytes = Vec::with_capacity(symbols.len() * SYMBOL_STORED_BYTES);
    symbols.iter().for_each(|symbol| bytes.extend_from_slice(&symbol.to_u64().to_le_bytes()));
    bytes.extend_from_slice(compressor.symbol_lengths());
    (symbols.len(), bytes)
}

/// Appends the body of a page of these strings.
pub(crate) fn encode(compressor: &Compressor, strings: &[&[u8]], body: &mut Vec<u8>) -> Result<PageParams> {
    let mut codes = Vec::new();
    let mut ends = Vec::with_capacity(strings.len());
    compressor.compress_bulk_into::<LANES>(strings, &mut codes, &mut ends);
    if u32::try_from(codes.len()).is_err() {
        return Err(Error::unsupported("more than 4 GiB of codes in one page; use fewer rows a page"));
    }
    let mut start = 0;
    let lengths: Vec<u32> =
        ends.iter().map(|end| (end - std::mem::replace(&mut start, *end)) as u32).collect();
    let params = bitpack::encode(&lengths, 0, body);
    body.extend_from_slice(&codes);
    let text_bytes = strings.iter().map(|text| text.len() as u64).sum();
    Ok(PageParams { count: codes.len() as u32, base_of_bases: text_bytes, ..params })
}

/// What codes stand for.
pub(crate) struct Symbols {
    bytes: [[u8; SYMBOL_BYTES]; 256],
    lengths: [usize; 256],
}

/// The length of a code without a symbol: what follows it lies behind every text.
const NO_SYMBOL: usize = 1 << 40;

impl Symbols {
    /// Reads a dictionary section of `count` symbols, whose length the header was checked for.
    pub(crate) fn from_bytes(section: &[u8], count: usize) -> Result<Self> {
        let (bytes, lengths) = section.split_at(count * SYMBOL_BYTES);
        let mut symbols = Self { bytes: [[0; SYMBOL_BYTES]; 256], lengths: [NO_SYMBOL; 256] };
        for (code, (symbol, length)) in bytes.chunks_exact(SYMBOL_BYTES).zip(lengths).enumerate() {
            let length = usize::from(*length);
            if !(1..=SYMBOL_BYTES).contains(&length) || symbol[length..].iter().any(|byte| *byte != 0) {
                return Err(corrupt(format!("symbol {code} claims {length} bytes")));
            }
            symbols.bytes[code].copy_from_slice(symbol);
            symbols.lengths[code] = length;
        }
        Ok(symbols)
    }

    /// Writes what `codes` stand for to `target` from `at` on; gives its end. A symbol is written with the zeros behind
    /// it, which need room too.
    fn decode(&self, codes: &[u8], target: &mut [u8], mut at: usize) -> Result<usize> {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            if code == ESCAPE {
                let byte = codes.next().ok_or_else(|| corrupt("a text ends with an escape"))?;
                *target.get_mut(at).ok_or_else(too_long)? = *byte;
                at += 1;
            } else {
                let room = target.get_mut(at..at + SYMBOL_BYTES).ok_or_else(too_long)?;
                room.copy_from_slice(&self.bytes[usize::from(code)]);
                at += self.lengths[usize::from(code)];
            }
        }
        Ok(at)
    }
}

fn too_long() -> Error {
    corrupt("codes stand for more text than their page says, or for none")
}

/// Appends a page's strings to `strings`.
pub(crate) fn decode(page: &Page<'_>, symbols: &Symbols, strings: &mut ByteValues) -> Result<()> {
    let codes = &page.body[page.body.len() - page.params.count as usize..];
    let text_end = strings.data.len() as u64 + page.params.base_of_bases;
    if text_end > u64::from(u32::MAX) {
        return Err(corrupt("more than 4 GiB of text in one chunk"));
    }
    let text_end = text_end as usize;
    let mut at = strings.data.len();
    strings.data.resize(text_end + SYMBOL_BYTES, 0);

    let mut code_end = 0;
    bitpack::for_each_vector::<u32, _>(page, page.params.base as u32, |lengths| {
        for length in lengths {
            let code_start = code_end;
            code_end += *length as usize;
            let codes = codes.get(code_start..code_end);
            let codes = codes.ok_or_else(|| corrupt("text lengths exceed the codes"))?;
            at = symbols.decode(codes, &mut strings.data, at)?;
            strings.offsets.push(at as u32);
        }
        Ok(())
    })?;
    if code_end != codes.len() || at != text_end {
        return Err(corrupt("text is not as long as its page says"));
    }
    strings.data.truncate(text_end);
    Ok(())
}

#[cfg(test)]
mod tests;
