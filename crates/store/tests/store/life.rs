//! The life of a table: create, append, replace, drop; one writer, any number of readers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use pelton_error::ErrorKind;
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_store::{TablePlan, Warehouse, WriteMode};

use crate::fixture::*;

fn files(place: &Place, table: &str) -> Vec<String> {
    let names = std::fs::read_dir(place.dir.path().join(table)).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn append_adds_rows_and_widens_summaries() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 1500)).unwrap();
    let first = place.warehouse.table("t").unwrap();
    let table = save(&place.warehouse, "t", WriteMode::Append, &batch(1500, 1200)).unwrap();

    assert_eq!(read(&engine(), &table).unwrap(), batch(0, 2700));
    assert_eq!((table.segment_count(), table.row_group_count()), (2, 4));
    assert_eq!((table.generation(), first.generation()), (2, 1));
    assert_ne!(table.id(), first.id());
    let summary = table.column_summary(0);
    assert_eq!(summary.max, Some(pelton_zone::Scalar::Int(2699)));
    assert!((2500..=2700).contains(&summary.distinct_count), "{}", summary.distinct_count);
    assert_eq!(table.column_summary(17).distinct_count, 3);
    assert!(summary.stored_bytes > first.column_summary(0).stored_bytes);
}

#[test]
fn open_readers_keep_their_snapshot_in_every_mode() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 1500)).unwrap();
    let old = place.warehouse.table("t").unwrap();
    let new = save(&place.warehouse, "t", WriteMode::Replace, &batch(9000, 700)).unwrap();
    for mode in [IoMode::Direct, IoMode::Buffered] {
        let engine = IoEngine::start(IoOptions { mode, ..IoOptions::default() }).unwrap();
        assert_eq!(read(&engine, &old).unwrap(), batch(0, 1500));
        assert_eq!(read(&engine, &new).unwrap(), batch(9000, 700));
    }
    assert_eq!(old.zone_maps(0).unwrap().len(), 2);
    assert_eq!(files(&place, "t").len(), 4, "{:?}", files(&place, "t"));

    place.warehouse.drop_table("t").unwrap();
    assert_eq!(read(&engine(), &new).unwrap(), batch(9000, 700));
    assert!(!place.dir.path().join("t").exists());
}

#[test]
fn a_writer_that_does_not_commit_leaves_nothing() {
    let place = place();
    let rows = batch(0, 1500);
    let plan = plain_plan(&schema_of(&rows), ROW_GROUP_ROWS);
    drop(write(&place.warehouse, "t", WriteMode::Create, &rows, &plan).unwrap());
    assert!(!place.dir.path().join("t").exists());

    save(&place.warehouse, "t", WriteMode::Create, &rows).unwrap();
    let before = files(&place, "t");
    for mode in [WriteMode::Append, WriteMode::Replace] {
        drop(write(&place.warehouse, "t", mode, &rows, &plan).unwrap());
        assert_eq!(files(&place, "t"), before);
    }
    assert_eq!(read(&engine(), &place.warehouse.table("t").unwrap()).unwrap(), rows);
}

#[test]
fn a_table_being_created_is_not_listed() {
    let place = place();
    let rows = batch(0, 10);
    let plan = plain_plan(&schema_of(&rows), ROW_GROUP_ROWS);
    let writer = write(&place.warehouse, "t", WriteMode::Create, &rows, &plan).unwrap();
    assert!(place.warehouse.tables().unwrap().is_empty());
    assert!(!place.warehouse.has_table("t"));
    writer.commit().unwrap();
    assert_eq!(place.warehouse.tables().unwrap(), ["t"]);
}

#[test]
fn a_second_writer_is_told_who_holds_the_table() {
    let place = place();
    let rows = batch(0, 10);
    let plan = plain_plan(&schema_of(&rows), ROW_GROUP_ROWS);
    let writer = write(&place.warehouse, "t", WriteMode::Create, &rows, &plan).unwrap();
    let error = save(&place.warehouse, "t", WriteMode::Append, &rows).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    writer.commit().unwrap();
    save(&place.warehouse, "t", WriteMode::Append, &rows).unwrap();
}

#[test]
fn leftovers_of_killed_writers_are_removed_by_the_next() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 10)).unwrap();
    let dir = place.dir.path().join("t");
    for name in ["data-00000000000000aa.pel", "meta-00000000000000aa.pel", "manifest.tmp"] {
        std::fs::write(dir.join(name), "half").unwrap();
    }
    std::fs::write(dir.join("notes.txt"), "the user's own").unwrap();
    save(&place.warehouse, "t", WriteMode::Append, &batch(10, 10)).unwrap();
    let names = files(&place, "t");
    assert_eq!(names.len(), 7, "{names:?}");
    assert!(!names.iter().any(|name| name.contains("aa.pel") || name.ends_with(".tmp")), "{names:?}");
    assert!(names.contains(&"notes.txt".to_string()));
}

#[test]
fn creating_over_a_table_and_appending_other_columns_are_refused() {
    let place = place();
    let rows = batch(0, 10);
    save(&place.warehouse, "t", WriteMode::Create, &rows).unwrap();
    let error = save(&place.warehouse, "t", WriteMode::Create, &rows).unwrap_err();
    assert!(error.to_string().contains("append to it (--append) or replace it (--replace)"), "{error}");

    let fewer = rows.project(&[0, 1]).unwrap();
    let error = save(&place.warehouse, "t", WriteMode::Append, &fewer).unwrap_err();
    assert!(error.to_string().contains("appending to table 't'"), "{error}");

    let plan = TablePlan { row_group_rows: 500, ..plain_plan(&schema_of(&rows), ROW_GROUP_ROWS) };
    let error = write(&place.warehouse, "t", WriteMode::Append, &rows, &plan).err().unwrap();
    assert!(error.to_string().contains("1000 rows a row group"), "{error}");
    assert_eq!(place.warehouse.table("t").unwrap().row_count(), 10);
}

#[test]
fn appending_nullable_rows_widens_a_column() {
    let place = place();
    let rows = batch(0, 10);
    let mut schema = schema_of(&rows);
    schema.columns[0].nullable = false;
    save(&place.warehouse, "t", WriteMode::Create, &rows).unwrap();
    schema.columns[0].nullable = true;
    let plan = plain_plan(&schema, ROW_GROUP_ROWS);
    let options = pelton_store::WriteOptions::default();
    let mut writer =
        pelton_store::TableWriter::begin(&place.warehouse, "t", schema, WriteMode::Append, options).unwrap();
    writer.set_plan(&plan).unwrap();
    append_all(&mut writer, &rows, &plan).unwrap();
    let table = writer.commit().unwrap();
    assert!(table.schema().columns[0].nullable);
    assert_eq!(table.row_count(), 20);
}

#[test]
fn missing_tables_and_odd_names_are_explained() {
    let place = place();
    save(&place.warehouse, "orders", WriteMode::Create, &batch(0, 10)).unwrap();
    let error = place.warehouse.table("lineitem").unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::InvalidInput);
    assert!(error.to_string().contains("orders"), "{error}");
    for name in ["", ".", "..", "a/b", ".hidden", "new\nline", &"x".repeat(300)] {
        assert_eq!(place.warehouse.table(name).unwrap_err().kind(), &ErrorKind::InvalidInput);
        assert!(save(&place.warehouse, name, WriteMode::Create, &batch(0, 10)).is_err());
    }
    assert!(place.warehouse.drop_table("lineitem").is_err());
    let error = Warehouse::open(place.dir.path().join("nowhere")).unwrap_err();
    assert!(error.to_string().contains("no warehouse"), "{error}");
    let file: PathBuf = place.dir.path().join("orders/manifest");
    assert!(Warehouse::open(file).unwrap_err().to_string().contains("not a directory"));
}

#[test]
fn readers_see_whole_tables_while_a_writer_replaces_and_appends() {
    let place = place();
    save(&place.warehouse, "t", WriteMode::Create, &batch(0, 100)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let engine = engine();
                while !is_done.load(Ordering::Relaxed) {
                    let rows = read(&engine, &place.warehouse.table("t").unwrap()).unwrap();
                    let first =
                        rows.column(0).as_any().downcast_ref::<arrow::array::UInt64Array>().unwrap().value(0);
                    assert_eq!(rows, batch(first, rows.num_rows() as u64));
                }
            });
        }
        for round in 0..10 {
            save(&place.warehouse, "t", WriteMode::Replace, &batch(round * 1000, 100)).unwrap();
            save(&place.warehouse, "t", WriteMode::Append, &batch(round * 1000 + 100, 50)).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
}
