//! A decompressed chunk is a valid chunk of the same values without a codec.

use pelton_chunk::{
    ByteValues, ChunkView, Codec, Column, Encoding, Layout, PhysicalType, Validity, Values, decompress_chunk,
    decompressed_bytes, encode_chunk,
};
use pelton_error::ErrorKind;

use crate::columns::{NULLS, Nulls, SHAPES, Shape, TYPES, column};

/// Decompresses into memory that was used for something else before.
fn decompress(view: &ChunkView<'_>) -> pelton_error::Result<Vec<u8>> {
    let mut target = vec![0xA5; decompressed_bytes(view)];
    decompress_chunk(view, &mut target).map(|()| target)
}

/// Decompressing gives everything that the encoding without codec writes.
fn check(column: &Column, light: Encoding, page_rows: u32) {
    let (ty, rows) = (column.values.physical_type(), column.len() as u32);
    let Ok(expected) = encode_chunk(column, light, page_rows) else { return };
    for codec in Codec::ALL {
        let chunk = encode_chunk(column, light.with_codec(codec), page_rows).unwrap();
        let view = ChunkView::parse(&chunk, ty, rows).unwrap();
        let decompressed = decompress(&view).unwrap();
        let what = format!("{ty:?} {light}/{codec} {rows} rows");
        assert_eq!(decompressed, expected, "{what}");
        let again = ChunkView::parse(&decompressed, ty, rows).unwrap();
        assert_eq!(again.encoding().codec, Codec::None, "{what}");
        assert_eq!(
            again.packed_widths().collect::<Vec<_>>(),
            view.packed_widths().collect::<Vec<_>>(),
            "{what}"
        );
    }
}

#[test]
fn a_decompressed_chunk_is_the_chunk_that_would_have_been_written_without_codec() {
    for ty in TYPES {
        for shape in SHAPES {
            for nulls in NULLS {
                for rows in [0, 1, 7, 1024, 5000] {
                    let column = column(ty, shape, nulls, rows, rows as u64 + 3);
                    Encoding::all_light(ty).for_each(|light| check(&column, light, 1024));
                }
            }
        }
    }
}

#[test]
fn codecs_do_shrink_what_is_decompressed_here() {
    let column = column(PhysicalType::I64, Shape::Few, Nulls::Some, 50_000, 1);
    for codec in [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate] {
        let chunk = encode_chunk(&column, Encoding::PLAIN.with_codec(codec), 1024).unwrap();
        let view = ChunkView::parse(&chunk, PhysicalType::I64, 50_000).unwrap();
        assert!(decompressed_bytes(&view) > 2 * chunk.len(), "{codec}");
    }
}

#[test]
fn a_page_that_does_not_decompress_is_corrupt_and_named() {
    let column = column(PhysicalType::I64, Shape::Few, Nulls::None, 4096, 1);
    for codec in [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate] {
        let mut chunk = encode_chunk(&column, Encoding::PLAIN.with_codec(codec), 1024).unwrap();
        let second_page = u64::from_le_bytes(chunk[64 + 48..][..8].try_into().unwrap()) as usize;
        chunk[second_page..second_page + 16].fill(0xFF);
        let view = ChunkView::parse(&chunk, PhysicalType::I64, 4096).unwrap();
        let error = decompress(&view).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Corrupt, "{codec}: {error}");
        assert!(error.to_string().starts_with("page 1"), "{codec}: {error}");
    }
}

fn texts(values: &[&str]) -> ByteValues {
    let mut strings = ByteValues::default();
    values.iter().for_each(|value| strings.push(value.as_bytes()).unwrap());
    strings
}

/// What `strings` says of a chunk of `values` under `encoding`.
fn strings_of(values: &[&str], validity: Option<Validity>, encoding: &str) -> Option<ByteValues> {
    let column = Column { values: Values::Bytes(texts(values)), validity };
    let chunk = encode_chunk(&column, encoding.parse().unwrap(), 1024).unwrap();
    ChunkView::parse(&chunk, PhysicalType::Bytes, values.len() as u32).unwrap().strings().unwrap()
}

#[test]
fn strings_are_those_that_codes_stand_for() {
    let values = ["b", "a", "b", "", "b", "a", "a", "b"];
    for encoding in ["dict+bitpack", "dict+rle", "dict+bitpack/zstd"] {
        assert_eq!(strings_of(&values, None, encoding), Some(texts(&["", "a", "b"])), "{encoding}");
    }
    assert_eq!(strings_of(&values, None, "plain"), None);
    assert_eq!(strings_of(&["x", "x"], None, "plain"), Some(texts(&["x"])), "a constant has one");
    let all_null = Validity::from_bools([false, false].into_iter());
    assert_eq!(strings_of(&["x", "y"], Some(all_null), "plain"), Some(texts(&[])), "NULLs have none");

    let numbers = encode_chunk(&Column::new(Values::I32(vec![1, 1])), Encoding::PLAIN, 1024).unwrap();
    assert_eq!(ChunkView::parse(&numbers, PhysicalType::I32, 2).unwrap().strings().unwrap(), None);
}

#[test]
fn packed_widths_are_those_of_bit_packed_pages_with_values() {
    let mut values = vec![0; 1024];
    values.extend(vec![9; 1024]);
    values.extend((0..1000).map(|row| row % 16));
    let validity = Validity::from_bools((0..3048).map(|row| !(1024..2048).contains(&row)));
    let column = Column { values: Values::I32(values), validity: Some(validity) };
    let widths = |encoding: &str| {
        let chunk = encode_chunk(&column, encoding.parse().unwrap(), 1024).unwrap();
        let view = ChunkView::parse(&chunk, PhysicalType::I32, 3048).unwrap();
        assert_ne!(view.encoding().layout, Layout::Constant);
        view.packed_widths().collect::<Vec<_>>()
    };
    assert_eq!(widths("bitpack/lz4"), [0, 4]);
    assert_eq!(widths("plain"), []);
}
