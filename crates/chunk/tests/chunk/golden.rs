//! Chunks written once and kept: this build reads them all, and writes the light ones byte for byte the same.
//!
//! `PELTON_WRITE_GOLDEN=1 cargo test -p pelton-chunk` writes the missing ones. A file that is there is never
//! written again: when a format changes, new files are added and the old ones go on being read.

use std::path::PathBuf;

use pelton_chunk::{ChunkView, Codec, Column, Encoding, PhysicalType, Transform, encode_chunk};

use crate::columns::{Nulls, Shape, assert_same, column};

/// Three pages, the last short and not a whole vector.
const ROWS: usize = 2300;
const PAGE_ROWS: u32 = 1024;

/// The file name, which starts with the version, without extension, the column, and how it is encoded.
fn cases() -> Vec<(String, Column, Encoding)> {
    let mut cases = Vec::new();
    let mut add = |ty: PhysicalType, shape, nulls, encoding: Encoding| {
        let version = if encoding.transform == Transform::Fsst { 2 } else { 1 };
        let name =
            format!("v{version}-{ty:?}-{}", encoding.to_string().replace(['+', '/'], "-")).to_lowercase();
        cases.push((name, column(ty, shape, nulls, ROWS, 42), encoding));
    };
    for (ty, shape) in [
        (PhysicalType::I32, Shape::Runs),
        (PhysicalType::I64, Shape::Sorted),
        (PhysicalType::U8, Shape::Runs),
        (PhysicalType::I128, Shape::Runs),
        (PhysicalType::F32, Shape::Decimals),
        (PhysicalType::F64, Shape::Decimals),
        (PhysicalType::Bytes, Shape::Few),
    ] {
        for encoding in Encoding::all_light(ty).filter(|encoding| *encoding != Encoding::CONSTANT) {
            add(ty, shape, Nulls::Leading, encoding);
        }
    }
    add(PhysicalType::I16, Shape::Few, Nulls::All, Encoding::CONSTANT);
    for codec in Codec::ALL {
        add(PhysicalType::U32, Shape::Few, Nulls::Some, Encoding::PLAIN.with_codec(codec));
    }
    // A dictionary holds no more than half as many values as rows; these cases have too many.
    cases.retain(|(_, column, encoding)| encode_chunk(column, *encoding, PAGE_ROWS).is_ok());
    cases
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.bin"))
}

#[test]
fn golden_chunks_are_read_and_light_ones_written_the_same() {
    for (name, column, encoding) in cases() {
        let chunk = encode_chunk(&column, encoding, PAGE_ROWS).unwrap();
        if std::env::var_os("PELTON_WRITE_GOLDEN").is_some() && !path(&name).exists() {
            std::fs::write(path(&name), &chunk).unwrap();
        }
        let golden = std::fs::read(path(&name)).unwrap_or_else(|e| panic!("{}: {e}", path(&name).display()));

        let view = ChunkView::parse(&golden, column.values.physical_type(), ROWS as u32).unwrap();
        assert_eq!(view.encoding(), encoding, "{name}");
        assert_same(view.decode().unwrap(), &column, 0..ROWS, &name);
        if encoding.codec == Codec::None {
            assert!(chunk == golden, "{name}: today's bytes differ");
        }
    }
}
