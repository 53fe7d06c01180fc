//! What is decoded is what was encoded, for every type, encoding, codec and pattern of NULLs.

use crate::columns::{NULLS, Nulls, SHAPES, Shape, TYPES, assert_same, column};
use pelton_chunk::{
    ChunkView, Codec, Column, DecodedValues, Encoding, PhysicalType, Values, best_light, candidates,
    encode_chunk,
};
use pelton_error::ErrorKind;
use proptest::prelude::*;

/// Encodes, unless the encoding cannot hold the column, and checks all rows and the rows of selected pages.
fn check(column: &Column, encoding: Encoding, page_rows: u32, selection_seed: u64) -> bool {
    let what = format!("{:?} {encoding} {} rows", column.values.physical_type(), column.len());
    let chunk = match encode_chunk(column, encoding, page_rows) {
        Ok(chunk) => chunk,
        Err(error) if *error.kind() == ErrorKind::Unsupported => return false,
        Err(error) => panic!("{what}: {error}"),
    };
    assert_eq!(chunk.len() % 8, 0, "{what}");
    let view = ChunkView::parse(&chunk, column.values.physical_type(), column.len() as u32).unwrap();
    assert!([encoding, Encoding::CONSTANT].contains(&view.encoding()), "{what}");
    assert_eq!(view.page_count(), column.len().div_ceil(page_rows as usize), "{what}");
    assert_eq!(view.raw_bytes(), column.values.raw_bytes());
    assert_same(view.decode().unwrap(), column, 0..column.len(), &what);

    let mut random = crate::columns::Random(selection_seed);
    let pages: Vec<bool> = (0..view.page_count()).map(|_| random.below(2) == 0).collect();
    let rows = (0..column.len()).filter(|row| pages[row / page_rows as usize]);
    assert_same(view.decode_pages(&pages).unwrap(), column, rows, &format!("{what}, pages {pages:?}"));
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_column_survives_any_encoding(
        ty in prop::sample::select(&TYPES[..]),
        shape in prop::sample::select(&SHAPES[..]),
        nulls in prop::sample::select(&NULLS[..]),
        rows in prop_oneof![0usize..40, 1000usize..1050, 2000usize..5000],
        page_rows in prop::sample::select(&[1024u32, 2048, 16384][..]),
        codec in prop::sample::select(&Codec::ALL[..]),
        seed in any::<u64>(),
    ) {
        let column = column(ty, shape, nulls, rows, seed);
        for encoding in Encoding::all_light(ty) {
            check(&column, encoding.with_codec(codec), page_rows, seed);
        }
    }
}

#[test]
fn every_length_at_a_border_survives() {
    for rows in [0, 1, 2, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 4097] {
        for ty in TYPES {
            for nulls in NULLS {
                let column = column(ty, Shape::Runs, nulls, rows, rows as u64);
                for encoding in Encoding::all_light(ty) {
                    for codec in Codec::ALL {
                        check(&column, encoding.with_codec(codec), 2048, 1);
                    }
                }
            }
        }
    }
}

#[test]
fn only_dictionaries_and_wide_offsets_are_ever_refused() {
    for ty in TYPES {
        for shape in SHAPES {
            let column = column(ty, shape, Nulls::None, 3000, 7);
            for encoding in Encoding::all_light(ty).filter(|encoding| *encoding != Encoding::CONSTANT) {
                let may_refuse = encoding.transform == pelton_chunk::Transform::Dictionary
                    || (ty == PhysicalType::I128 && shape == Shape::Wild);
                assert!(check(&column, encoding, 1024, 0) || may_refuse, "{ty:?} {shape:?} {encoding}");
            }
        }
    }
}

#[test]
fn one_value_or_none_is_constant_whatever_was_asked_for() {
    let one = Column::new(Values::I64(vec![-7; 5000]));
    let none = column(PhysicalType::F64, Shape::Wild, Nulls::All, 5000, 3);
    for (column, encoding) in [(one, "delta/zstd"), (none, "plain")] {
        let chunk = encode_chunk(&column, encoding.parse().unwrap(), 1024).unwrap();
        assert!(chunk.len() <= 256);
        let view = ChunkView::parse(&chunk, column.values.physical_type(), 5000).unwrap();
        assert_eq!(view.encoding(), Encoding::CONSTANT);
        assert!(check(&column, encoding.parse().unwrap(), 1024, 5));
    }
}

#[test]
fn dictionary_strings_keep_their_dictionary_sorted() {
    let column = column(PhysicalType::Bytes, Shape::Few, Nulls::Some, 4000, 11);
    let chunk = encode_chunk(&column, "dict+rle/lz4".parse().unwrap(), 1024).unwrap();
    let decoded = ChunkView::parse(&chunk, PhysicalType::Bytes, 4000).unwrap().decode().unwrap();
    let DecodedValues::Dictionary { codes, dictionary } = decoded.values else {
        panic!("a dictionary was asked for")
    };
    assert!(dictionary.iter().is_sorted());
    assert!(codes.iter().all(|code| (*code as usize) < dictionary.len()));
}

#[test]
fn a_dictionary_refuses_too_many_distinct_values() {
    let many = Column::new(Values::U32((0..140_000).map(|row| row % 65_537).collect()));
    let over_half = Column::new(Values::U32((0..1000).map(|row| row % 501).collect()));
    let exactly_half = Column::new(Values::U32((0..1000).map(|row| row % 500).collect()));
    let encode = |column: &Column| encode_chunk(column, "dict+bitpack".parse().unwrap(), 1024);
    assert_eq!(*encode(&many).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(*encode(&over_half).unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(encode(&exactly_half).is_ok());
}

#[test]
fn page_rows_must_be_whole_vectors() {
    let column = column(PhysicalType::I32, Shape::Wild, Nulls::None, 10, 0);
    for page_rows in [0, 1, 1000, 1025, 1 << 21] {
        let error = encode_chunk(&column, Encoding::PLAIN, page_rows).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidInput, "{page_rows}");
    }
}

#[test]
fn the_best_light_encoding_is_the_one_for_the_shape() {
    let best =
        |ty, shape| best_light(&column(ty, shape, Nulls::None, 50_000, 1), 16384).unwrap().0.to_string();
    assert_eq!(best(PhysicalType::I64, Shape::Sorted), "delta");
    assert_eq!(best(PhysicalType::I32, Shape::Decimals), "bitpack");
    assert_eq!(best(PhysicalType::F64, Shape::Wild), "plain");
    assert_eq!(best(PhysicalType::Bytes, Shape::Few), "dict+bitpack");
    assert_eq!(best(PhysicalType::Bytes, Shape::Runs), "dict+rle");
    assert_eq!(best(PhysicalType::I16, Shape::Runs), "rle");
}

#[test]
fn candidates_hold_the_smallest_of_all_light_encodings() {
    for ty in TYPES {
        for shape in SHAPES {
            let column = column(ty, shape, Nulls::Some, 40_000, 9);
            let size =
                |encoding| encode_chunk(&column, encoding, 16384).map_or(usize::MAX, |chunk| chunk.len());
            let smallest = Encoding::all_light(ty).map(size).min().unwrap();
            let smallest_candidate = candidates(&column).into_iter().map(size).min().unwrap();
            assert!(
                smallest_candidate <= smallest + smallest / 8,
                "{ty:?} {shape:?}: {smallest_candidate} against {smallest}"
            );
        }
    }
}
