//! Writers killed at random moments: the table is the state of a commit after every one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

fn generation(place: &Place) -> u64 {
    place.warehouse.table("t").map_or(0, |table| table.generation())
}

/// Starts a writer, lets it commit `commits` times and run for `delay` more, and kills it.
fn kill_a_writer_after(place: &Place, commits: u64, delay: Duration) {
    let wanted = generation(place) + commits;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_is_killed"])
        .env(CHILD_DIR, place.dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while generation(place) < wanted {
        assert!(Instant::now() < deadline, "the writer makes no commit");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_table_is_whole_after_every_kill() {
    let place = place();
    let engine = engine();
    let mut last_generation = 0;
    let kills = tries("PELTON_KILLS", 10);
    for kill in 0..kills {
        // The first is killed while it makes the table.
        kill_a_writer_after(&place, kill.min(1), Duration::from_millis(kill * 37 % 90));
        if kill == 0 && !place.warehouse.has_table("t") {
            continue;
        }
        let table = place.warehouse.table("t").unwrap();
        assert!(table.generation() > last_generation);
        last_generation = table.generation();
        assert!(table.row_count() > 0 && table.row_count().is_multiple_of(COMMIT_ROWS));
        let found = read(&engine, &table).unwrap();
        let ids = found.column(0).as_primitive::<UInt64Type>().values();
        assert!(ids.iter().copied().eq(0..table.row_count()));
        assert_eq!(found, batch(0, table.row_count()).project(&[0, 12, 18]).unwrap());
    }

    // The next writer cleans up: a manifest, a lock, two files a segment.
    let table = save(&place.warehouse, "t", WriteMode::Replace, &rows(0)).unwrap();
    assert_eq!(table.generation(), last_generation + 1);
    assert_eq!(std::fs::read_dir(place.dir.path().join("t")).unwrap().count(), 4);
}
