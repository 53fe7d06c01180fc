//! Damaged chunks give an error or other values: never a panic, a hang or a large allocation.
//!
//! The checksum one level up finds every damage; here it is as if it did not.

use pelton_chunk::{ChunkView, Codec, Encoding, PhysicalType, encode_chunk};
use pelton_error::ErrorKind;
use proptest::prelude::*;

use crate::columns::{NULLS, Nulls, Random, SHAPES, Shape, TYPES, column};

const ROWS: usize = 2500;

/// Reads the chunk as a query would, all of it and some pages; whatever comes out has the right form.
fn read(chunk: &[u8], ty: PhysicalType, rows: usize) {
    let view = match ChunkView::parse(chunk, ty, rows as u32) {
        Ok(view) => view,
        Err(error) => return assert_is_expected(&error),
    };
    let pages: Vec<bool> = (0..view.page_count()).map(|page| page % 2 == 0).collect();
    for decoded in [view.decode(), view.decode_pages(&pages)] {
        match decoded {
            // Writing strings out looks up every code.
            Ok(decoded) => drop(decoded.into_column()),
            Err(error) => assert_is_expected(&error),
        }
    }
}

fn assert_is_expected(error: &pelton_error::Error) {
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
}

fn chunks(ty: PhysicalType, shape: Shape, nulls: Nulls, codec: Codec, seed: u64) -> Vec<Vec<u8>> {
    let column = column(ty, shape, nulls, ROWS, seed);
    Encoding::all_light(ty)
        .filter_map(|encoding| encode_chunk(&column, encoding.with_codec(codec), 1024).ok())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn flipped_bits_never_panic(
        ty in prop::sample::select(&TYPES[..]),
        shape in prop::sample::select(&SHAPES[..]),
        nulls in prop::sample::select(&NULLS[..]),
        codec in prop::sample::select(&Codec::ALL[..]),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        for chunk in chunks(ty, shape, nulls, codec, seed) {
            for _ in 0..20 {
                let mut damaged = chunk.clone();
                for _ in 0..=random.below(3) {
                    let byte = random.below(damaged.len() as u64) as usize;
                    damaged[byte] ^= 1 << random.below(8);
                }
                read(&damaged, ty, ROWS);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600),
        ty in prop::sample::select(&TYPES[..]),
        rows in 0usize..5000,
    ) {
        // A plausible start, so that not every case ends at the first check.
        let plausible = [2, ty as u8].into_iter().chain(bytes.get(2).map(|tag| tag % 4));
        bytes.splice(..bytes.len().min(3), plausible).for_each(drop);
        read(&bytes, ty, rows);
    }
}

#[test]
fn every_bit_of_header_and_directory_may_flip() {
    for ty in [PhysicalType::I32, PhysicalType::I128, PhysicalType::F64, PhysicalType::Bytes] {
        for chunk in chunks(ty, Shape::Runs, Nulls::Leading, Codec::Zstd, 5) {
            for bit in 0..(64 + 3 * 48).min(chunk.len()) * 8 {
                let mut damaged = chunk.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                read(&damaged, ty, ROWS);
            }
        }
    }
}

#[test]
fn every_truncation_is_corrupt() {
    for ty in TYPES {
        for chunk in chunks(ty, Shape::Few, Nulls::Some, Codec::None, 5) {
            for end in (0..chunk.len()).step_by(97).chain([chunk.len() - 1]) {
                let error = ChunkView::parse(&chunk[..end], ty, ROWS as u32).map(drop).unwrap_err();
                assert_eq!(*error.kind(), ErrorKind::Corrupt);
            }
        }
    }
}

#[test]
fn another_type_or_row_count_is_corrupt() {
    let chunk = &chunks(PhysicalType::I32, Shape::Few, Nulls::None, Codec::None, 5)[0];
    for (ty, rows) in [(PhysicalType::U32, ROWS), (PhysicalType::I32, ROWS + 1)] {
        let error = ChunkView::parse(chunk, ty, rows as u32).map(drop).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_newer_version_asks_for_a_newer_pelton() {
    let mut chunk = chunks(PhysicalType::I32, Shape::Few, Nulls::None, Codec::None, 5).remove(0);
    chunk[0] = 3;
    let error = ChunkView::parse(&chunk, PhysicalType::I32, ROWS as u32).map(drop).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("newer pelton"));
}

#[test]
fn an_encoding_that_is_younger_than_the_chunk_says_is_corrupt() {
    let column = column(PhysicalType::Bytes, Shape::Wild, Nulls::None, ROWS, 5);
    let mut chunk = encode_chunk(&column, "fsst+plain".parse().unwrap(), 1024).unwrap();
    assert_eq!(chunk[0], 2);
    for version in [0, 1] {
        chunk[0] = version;
        let error = ChunkView::parse(&chunk, PhysicalType::Bytes, ROWS as u32).map(drop).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Corrupt, "{version}");
    }
}

#[test]
fn every_bit_of_the_symbols_may_flip() {
    let column = column(PhysicalType::Bytes, Shape::Sorted, Nulls::Some, ROWS, 5);
    let chunk = encode_chunk(&column, "fsst+plain".parse().unwrap(), 1024).unwrap();
    let start = (64 + 3 * 48_usize).next_multiple_of(128);
    let count = u32::from_le_bytes(chunk[32..36].try_into().unwrap()) as usize;
    assert!(count > 20, "{count} symbols");
    for bit in start * 8..(start + 9 * count) * 8 {
        let mut damaged = chunk.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        read(&damaged, PhysicalType::Bytes, ROWS);
    }
}
