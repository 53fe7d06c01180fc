//! Tests of the manifest.

use pelton_chunk::{Codec, Encoding};
use pelton_zone::Scalar;

use super::*;
use crate::plan::Candidate;
use crate::schema::{ColumnSchema, LogicalType};
use crate::sideways::SidewaysLink;

fn manifest() -> Manifest {
    let columns = vec![
        ColumnSchema { name: "a \"quoted\" ü".into(), logical: LogicalType::Float64, nullable: true },
        ColumnSchema { name: "b".into(), logical: LogicalType::Utf8, nullable: false },
    ];
    let floats = ColumnSummary {
        min: Some(Scalar::Float(-0.0)),
        max: Some(Scalar::Float(f64::INFINITY)),
        null_count: u64::MAX,
        ..ColumnSummary::default()
    };
    let texts = ColumnSummary {
        min: Some(Scalar::Bytes(vec![0, 255, 34])),
        max: Some(Scalar::Int(i128::MIN)),
        ..ColumnSummary::default()
    };
    let candidate = Candidate {
        encoding: Encoding::PLAIN.with_codec(Codec::Zstd),
        row_group_rows: 1000,
        stored_bytes: 10,
        decode_bytes_per_s: 1 << 60,
        cost: 0.1,
    };
    let choice = ColumnChoice {
        candidates: vec![candidate],
        ..ColumnChoice::fixed("a \"quoted\" ü", Encoding::PLAIN)
    };
    Manifest {
        id: TableId(u64::MAX),
        generation: 7,
        schema: TableSchema::new(columns).unwrap(),
        row_group_rows: 1000,
        page_rows: 1024,
        segments: vec![SegmentEntry {
            id: SegmentId(1),
            data_bytes: 3 * 4096,
            meta_bytes: 17,
            meta_checksum: 0xdead_beef_dead_beef,
            row_count: 2001,
            sideways: vec![3],
        }],
        summaries: vec![floats, texts],
        choices: vec![choice, ColumnChoice::fixed("b", Encoding::PLAIN)],
        sideways: vec![SidewaysColumn {
            path: vec![SidewaysLink {
                fact_column: "b".into(),
                dimension_table: "d".into(),
                dimension_key: "k".into(),
            }],
            column: "c".into(),
            dimension_ids: vec![TableId(5)],
            logical: LogicalType::Date,
        }],
        cluster_by: vec!["b.d.c".into()],
    }
}

fn parse(bytes: &[u8]) -> Result<Manifest> {
    Manifest::parse(bytes, Path::new("w/t/manifest"))
}

#[test]
fn what_was_written_is_read() {
    assert_eq!(parse(&manifest().to_bytes()).unwrap(), manifest());
}

#[test]
fn newer_version_names_file_versions_and_remedy() {
    let text = String::from_utf8(manifest().to_bytes()).unwrap().replacen("PELTON 2 ", "PELTON 12 ", 1);
    let message = parse(text.as_bytes()).unwrap_err().to_string();
    for part in ["w/t/manifest", "version 12", "version 2;", "upgrade Pelton"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn every_changed_byte_and_every_cut_is_refused() {
    let bytes = manifest().to_bytes();
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[index] ^= 1 << bit;
            // Upper and lower case of a hexadecimal digit are the same digit.
            assert!(parse(&changed).map_or(true, |read| read == manifest()), "byte {index}, bit {bit}");
        }
        assert!(parse(&bytes[..index]).is_err());
    }
}

#[test]
fn a_manifest_that_contradicts_itself_is_refused() {
    let wrong: [fn(&mut Manifest); 6] = [
        |manifest| manifest.row_group_rows = 0,
        |manifest| manifest.page_rows = 1000,
        |manifest| manifest.segments[0].row_count = 0,
        |manifest| manifest.segments[0].row_count = u64::MAX,
        |manifest| manifest.segments[0].sideways.clear(),
        |manifest| manifest.segments[0].row_count = 4001,
    ];
    for change in wrong {
        let mut manifest = manifest();
        change(&mut manifest);
        let error = parse(&manifest.to_bytes()).unwrap_err();
        assert_eq!(error.kind(), &pelton_error::ErrorKind::Corrupt, "{error}");
    }
}
