//! Tables written by earlier versions of the format still read.
//!
//! `tests/golden/v<version>/warehouse` holds a table of every type, with a column for each encoding and codec, in two
//! segments with sideways metadata. To add one for a new format version, write it with
//! `PELTON_GOLDEN_DIR=crates/store/tests/golden/v<version>/warehouse cargo test --release -p pelton-store golden`
//! before anything else changes, and commit it.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use pelton_store::{
    ColumnChoice, LogicalType, SidewaysColumn, SidewaysLink, TableId, TablePlan, TableWriter, Warehouse,
    WriteMode, WriteOptions, encode_row_group,
};
use pelton_zone::{ZoneMap, ZoneOptions};

use crate::fixture::*;

/// The versions that there are tables of.
const VERSIONS: [&str; 2] = ["v1", "v2"];

/// Column of the fixture and what it is stored as in version 2; version 1 has `plain/zstd` for FSST. Changing this changes
/// what new golden tables hold, not what the committed ones must give.
const STORED: [(&str, &str); 21] = [
    ("id", "delta"),
    ("bool", "bitpack"),
    ("int8", "plain"),
    ("int16", "plain/lz4"),
    ("int32", "rle"),
    ("int64", "delta/zstd"),
    ("uint8", "bitpack/snappy"),
    ("uint16", "bitpack/deflate"),
    ("uint32", "bitpack"),
    ("uint64", "delta"),
    ("float32", "alp+bitpack"),
    ("float64", "dict+bitpack"),
    ("narrow", "bitpack/zstd"),
    ("wide", "plain/deflate"),
    ("date", "rle/lz4"),
    ("local", "delta/deflate"),
    ("zoned", "plain/snappy"),
    ("mode", "dict+bitpack"),
    ("comment", "fsst+plain"),
    ("binary", "dict+rle/zstd"),
    ("null", "constant"),
];

const COMMITS: [(u64, u64); 2] = [(0, 1100), (1100, 70)];

fn sideways() -> SidewaysColumn {
    SidewaysColumn {
        path: vec![SidewaysLink {
            fact_column: "int32".into(),
            dimension_table: "customer".into(),
            dimension_key: "key".into(),
        }],
        column: "c_region".into(),
        dimension_ids: vec![TableId(0x1234_5678_9abc_def0)],
        logical: LogicalType::Utf8,
    }
}

fn write_golden(dir: &Path) {
    let warehouse = Warehouse::open_or_create(dir).unwrap();
    for (first, rows) in COMMITS {
        let rows = batch(first, rows);
        let choices =
            STORED.iter().map(|(name, encoding)| ColumnChoice::fixed(*name, encoding.parse().unwrap()));
        let plan = TablePlan { row_group_rows: 1000, page_rows: 1024, ..TablePlan::new(choices.collect()) };
        let options = WriteOptions { sideways: vec![sideways()], ..WriteOptions::default() };
        let mut writer =
            TableWriter::begin(&warehouse, "golden", schema_of(&rows), WriteMode::Append, options).unwrap();
        writer.set_plan(&plan).unwrap();
        for start in (0..rows.num_rows()).step_by(1000) {
            let columns =
                columns_of(&rows.slice(start, (rows.num_rows() - start).min(1000)), writer.schema());
            let zone_map = ZoneMap::build(&columns[17], &ZoneOptions::default()).0;
            let row_group = encode_row_group(&columns, &plan).unwrap().with_sideways(vec![zone_map]);
            writer.append(row_group).unwrap();
        }
        writer.commit().unwrap();
    }
    std::fs::remove_file(dir.join("golden/lock")).unwrap();
}

/// The rows of the golden tables. Frozen: `batch` may gain columns for later versions only.
fn expected() -> RecordBatch {
    let parts = COMMITS.map(|(first, rows)| batch(first, rows));
    concat_batches(&parts[0].schema(), &parts).unwrap()
}

#[test]
fn golden_tables_of_every_version_still_read() {
    if let Ok(dir) = std::env::var("PELTON_GOLDEN_DIR") {
        write_golden(Path::new(&dir));
    }
    for version in VERSIONS {
        check_golden(version);
    }
}

fn check_golden(version: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let table = Warehouse::open(golden.join(version).join("warehouse")).unwrap().table("golden").unwrap();
    let expected = expected();
    assert_eq!(read(&engine(), &table).unwrap(), expected);
    assert_eq!((table.generation(), table.segment_count(), table.row_group_count()), (2, 2, 3));
    assert_eq!(table.sideways(), [sideways()]);
    assert_eq!(table.sideways_zone_maps(0).unwrap().len(), 3);
    for column in 0..expected.num_columns() {
        assert_eq!(table.column_summary(column).null_count, expected.column(column).null_count() as u64);
        let nulls: u64 = table.zone_maps(column).unwrap().iter().map(|zone| u64::from(zone.null_count)).sum();
        assert_eq!(nulls, table.column_summary(column).null_count);
    }
}

#[test]
fn a_table_written_now_has_the_encodings_of_the_golden_one() {
    let place = place();
    write_golden(place.dir.path());
    let table = place.warehouse.table("golden").unwrap();
    assert_eq!(read(&engine(), &table).unwrap(), expected());
    for (column, (name, encoding)) in STORED.iter().enumerate() {
        assert_eq!(table.chunk(0, column).unwrap().encoding.to_string(), *encoding, "{name}");
    }
}

#[test]
fn a_table_of_version_1_takes_more_rows_in_version_2() {
    let place = place();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/warehouse/golden");
    let copy = place.dir.path().join("golden");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(golden).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let first_line = || std::fs::read_to_string(copy.join("manifest")).unwrap()[..9].to_owned();
    assert_eq!(first_line(), "PELTON 1 ");

    let more = batch(1170, 1100);
    let choices = STORED.map(|(name, encoding)| ColumnChoice::fixed(name, encoding.parse().unwrap()));
    let plan = TablePlan { row_group_rows: 1000, page_rows: 1024, ..TablePlan::new(choices.to_vec()) };
    let options = WriteOptions { sideways: vec![sideways()], ..WriteOptions::default() };
    let mut writer =
        TableWriter::begin(&place.warehouse, "golden", schema_of(&more), WriteMode::Append, options).unwrap();
    writer.set_plan(&plan).unwrap();
    for (start, rows) in [(0, 1000), (1000, 100)] {
        let columns = columns_of(&more.slice(start, rows), writer.schema());
        let zone_map = ZoneMap::build(&columns[17], &ZoneOptions::default()).0;
        writer.append(encode_row_group(&columns, &plan).unwrap().with_sideways(vec![zone_map])).unwrap();
    }
    let table = writer.commit().unwrap();
    assert_eq!(first_line(), "PELTON 2 ");
    let comment = |row_group| table.chunk(row_group, 18).unwrap().encoding.to_string();
    assert_eq!([comment(0), comment(3)], ["plain/zstd", "fsst+plain"]);
    let reopened = place.warehouse.table("golden").unwrap();
    assert_eq!(
        read(&engine(), &reopened).unwrap(),
        concat_batches(&more.schema(), &[expected(), more]).unwrap()
    );
}
