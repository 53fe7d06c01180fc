//! Writers killed at random moments: the table is the state of a commit after every one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use pelton_store::{Warehouse, WriteMode};

use crate::fixture::*;

const COMMIT_ROWS: u64 = 2500;
const CHILD_DIR: &str = "PELTON_CRASH_TEST_WAREHOUSE";

fn rows(first: u64) -> RecordBatch {
    batch(first, COMMIT_ROWS).project(&[0, 12, 18]).unwrap()
}

/// Appends for ever, replacing when the table has grown; does nothing unless the test below started it.
#[test]
fn child_that_is_killed() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let warehouse = Warehouse::open(dir).unwrap();
    loop {
        let row_count = warehouse.table("t").map_or(0, |table| table.row_count());
        if row_count < 10 * COMMIT_ROWS {
            save(&warehouse, "t", WriteMode::Append, &rows(row_count)).unwrap();
        } else {
            save(&warehouse, "t", WriteMode::Replace, &rows(0)).unwrap();
        }
    }
}

fn kill_a_writer_after(dir: &Path, delay: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_is_killed"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_table_is_whole_after_every_kill() {
    let place = place();
    let engine = engine();
    let mut generation = 0;
    let kills = tries("PELTON_KILLS", 10);
    for kill in 0..kills {
        kill_a_writer_after(place.dir.path(), Duration::from_millis(20 + kill * 37 % 90));
        if !place.warehouse.has_table("t") {
            assert_eq!(generation, 0);
            continue;
        }
        let table = place.warehouse.table("t").unwrap();
        assert!(table.generation() >= generation);
        generation = table.generation();
        assert!(table.row_count() > 0 && table.row_count().is_multiple_of(COMMIT_ROWS));
        let found = read(&engine, &table).unwrap();
        let ids = found.column(0).as_primitive::<UInt64Type>().values();
        assert!(ids.iter().copied().eq(0..table.row_count()));
        assert_eq!(found, batch(0, table.row_count()).project(&[0, 12, 18]).unwrap());
    }
    assert!(generation > kills, "the writers made {generation} commits only");

    // The next writer cleans up: a manifest, a lock, two files a segment.
    let table = save(&place.warehouse, "t", WriteMode::Replace, &rows(0)).unwrap();
    assert_eq!(table.generation(), generation + 1);
    assert_eq!(std::fs::read_dir(place.dir.path().join("t")).unwrap().count(), 4);
}
