//! A second reader, written from `docs/specs/chunk.md` alone and as plainly as it says it: page and code agree.
//!
//! It reads light encodings of integers, and texts that lie row by row; what it shares with the crate is nothing.

use pelton_chunk::{Encoding, PhysicalType, Values, encode_chunk};

use crate::columns::{Nulls, SHAPES, column};

const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

/// Little-endian integer of `width` bytes.
fn int(bytes: &[u8], offset: usize, width: usize) -> u64 {
    bytes[offset..offset + width].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn bits(bytes: &[u8], bit: usize, width: usize) -> u64 {
    (0..width).map(|i| u64::from(bytes[(bit + i) / 8] >> ((bit + i) % 8) & 1) << i).sum()
}

/// Words of a packed vector by position.
fn unpack(bytes: &[u8], word_bits: usize, width: usize) -> Vec<u64> {
    let lanes = 1024 / word_bits;
    let mut words = vec![0; 1024];
    for lane in 0..lanes {
        for row in 0..word_bits {
            let position = ORDER[row / 8] * 16 + row % 8 * 128 + lane;
            for bit in row * width..(row + 1) * width {
                let word = bit / word_bits * lanes + lane;
                words[position] |= bits(bytes, word * word_bits + bit % word_bits, 1) << (bit - row * width);
            }
        }
    }
    words
}

struct Page<'a> {
    rows: usize,
    base: u64,
    base_of_bases: u64,
    count: usize,
    width: usize,
    extra: usize,
    body: &'a [u8],
}

fn bit_packed(page: &Page<'_>, word_bits: usize) -> Vec<u64> {
    let vectors = page.body.chunks(128 * page.width.max(1)).take(page.rows.div_ceil(1024));
    let mut values: Vec<u64> = if page.width == 0 {
        vec![0; page.rows]
    } else {
        vectors.flat_map(|vector| unpack(vector, word_bits, page.width)).collect()
    };
    values.truncate(page.rows);
    values.iter().map(|offset| page.base.wrapping_add(*offset)).collect()
}

fn delta(page: &Page<'_>, word_bits: usize) -> Vec<u64> {
    let lanes = 1024 / word_bits;
    let vectors = page.rows.div_ceil(1024);
    let packed = &page.body[(vectors * lanes * page.extra).next_multiple_of(128)..];
    let mut values = vec![0u64; vectors * 1024];
    for vector in 0..vectors {
        let words = unpack(&packed[vector * 128 * page.width..], word_bits, page.width);
        for lane in 0..lanes {
            let base = int(page.body, (vector * lanes + lane) * page.extra, page.extra);
            let mut value = page.base_of_bases.wrapping_add(base);
            for row in 0..word_bits {
                let position = ORDER[row / 8] * 16 + row % 8 * 128 + lane;
                let target = position % 16 * 64 + ORDER[position / 16 % 8] * 8 + position / 128;
                value = value.wrapping_add(page.base).wrapping_add(words[position]);
                values[vector * 1024 + target] = value;
            }
        }
    }
    values.truncate(page.rows);
    values
}

fn run_length(page: &Page<'_>) -> Vec<u64> {
    let values = &page.body[(page.count * page.extra / 64 + 2) * 8..];
    let mut rows = Vec::new();
    for run in 0..page.count {
        let last_row = bits(page.body, run * page.extra, page.extra) as usize;
        rows.resize(last_row + 1, page.base.wrapping_add(bits(values, run * page.width, page.width)));
    }
    rows
}

/// The pages of a chunk without NULLs and codec.
fn pages(chunk: &[u8]) -> impl Iterator<Item = Page<'_>> {
    let (row_count, page_rows) = (int(chunk, 8, 4) as usize, int(chunk, 12, 4) as usize);
    (0..row_count.div_ceil(page_rows)).map(move |page| {
        let entry = &chunk[64 + 48 * page..][..48];
        assert_eq!(entry[44], 0, "these columns have no NULLs");
        assert_eq!(int(entry, 0, 8) % 128, 0);
        Page {
            rows: page_rows.min(row_count - page * page_rows),
            base: int(entry, 16, 8),
            base_of_bases: int(entry, 32, 8),
            count: int(entry, 40, 4) as usize,
            width: entry[45].into(),
            extra: entry[46].into(),
            body: &chunk[int(entry, 0, 8) as usize..][..int(entry, 12, 4) as usize],
        }
    })
}

/// Where the dictionary section starts.
fn dictionary_offset(chunk: &[u8]) -> usize {
    (64 + 48 * pages(chunk).count()).next_multiple_of(128)
}

/// The rows of a chunk of integers, as the low bits of words.
fn read(chunk: &[u8], width_bytes: usize) -> Vec<u64> {
    let (transform, layout) = (chunk[2], chunk[3]);
    let dictionary = dictionary_offset(chunk);
    let word_bits = if transform == 1 { 32 } else { width_bytes * 8 };
    let mut rows = Vec::new();
    for page in pages(chunk) {
        rows.extend(match layout {
            1 => (0..page.rows).map(|row| int(page.body, row * width_bytes, width_bytes)).collect(),
            2 => bit_packed(&page, word_bits),
            3 => delta(&page, word_bits),
            4 => run_length(&page),
            other => panic!("layout {other}"),
        });
    }
    if transform == 1 {
        rows.iter_mut()
            .for_each(|code| *code = int(chunk, dictionary + *code as usize * width_bytes, width_bytes));
    }
    rows
}

/// The rows of a chunk of texts that lie row by row.
fn read_texts(chunk: &[u8]) -> Vec<Vec<u8>> {
    let (has_symbols, symbol_count) = (chunk[2] == 3, int(chunk, 32, 4) as usize);
    let symbols = &chunk[dictionary_offset(chunk)..];
    let mut rows = Vec::new();
    for page in pages(chunk) {
        let mut at = page.body.len() - page.count;
        let mut text_bytes = 0;
        for length in bit_packed(&page, 32) {
            let stored = &page.body[at..at + length as usize];
            at += length as usize;
            let mut text = Vec::new();
            let mut codes = stored.iter();
            while let Some(&code) = codes.next() {
                match usize::from(code) {
                    _ if !has_symbols => text.push(code),
                    255 => text.push(*codes.next().unwrap()),
                    code => {
                        assert!(code < symbol_count);
                        let length = usize::from(symbols[8 * symbol_count + code]);
                        text.extend_from_slice(&symbols[8 * code..][..length]);
                    }
                }
            }
            text_bytes += text.len() as u64;
            rows.push(text);
        }
        assert_eq!(at, page.body.len());
        assert!(!has_symbols || text_bytes == page.base_of_bases);
    }
    rows
}

#[test]
fn a_reader_written_from_the_specification_reads_the_same() {
    use PhysicalType::*;
    for ty in [U8, I16, I32, U32, I64, U64] {
        for shape in SHAPES {
            let column = column(ty, shape, Nulls::None, 2600, 17);
            for encoding in Encoding::all_light(ty).filter(|encoding| *encoding != Encoding::CONSTANT) {
                let Ok(chunk) = encode_chunk(&column, encoding, 2048) else { continue };
                let width_bytes = ty.width_bytes().unwrap();
                let mask = u64::MAX >> (64 - 8 * width_bytes);
                let actual: Vec<u64> = read(&chunk, width_bytes).iter().map(|word| word & mask).collect();
                let expected: Vec<u64> = pelton_chunk::match_fixed_width!(&column.values,
                    values => values.iter().map(|value| int(&value.to_le_bytes(), 0, width_bytes)).collect(),
                    bytes _values => unreachable!("integers only"));
                assert!(actual == expected, "{ty:?} {shape:?} {encoding}");
            }
        }
    }
}

#[test]
fn so_it_reads_texts() {
    for shape in SHAPES {
        let column = column(PhysicalType::Bytes, shape, Nulls::None, 2600, 17);
        let Values::Bytes(texts) = &column.values else { unreachable!() };
        for encoding in ["plain", "fsst+plain"] {
            let chunk = encode_chunk(&column, encoding.parse().unwrap(), 2048).unwrap();
            // One value is constant whatever was asked for.
            if chunk[3] != 0 {
                let actual = read_texts(&chunk);
                assert!(actual.iter().map(Vec::as_slice).eq(texts.iter()), "{shape:?} {encoding}");
            }
        }
    }
}
