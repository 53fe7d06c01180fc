//! A disk that fills up: said with path, bytes and remedy; what was written is removed.

use std::process::Command;

use pelton_error::{ErrorKind, Tier};
use pelton_store::{Warehouse, WriteMode};

use crate::fixture::*;

const CHILD_DIR: &str = "PELTON_FULL_DISK_TEST_WAREHOUSE";

/// Runs on a disk of 1 MiB; does nothing unless the test below started it.
#[test]
fn child_on_a_small_disk() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let warehouse = Warehouse::open(&dir).unwrap();
    save(&warehouse, "kept", WriteMode::Create, &batch(0, 100)).unwrap();
    let rows = batch(0, 20_000);
    for (name, mode) in
        [("new", WriteMode::Create), ("kept", WriteMode::Append), ("kept", WriteMode::Replace)]
    {
        let error = save(&warehouse, name, mode, &rows).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Disk, .. }), "{error}");
        let message = error.to_string();
        for part in ["the disk is full", &dir, "more bytes", "free some space"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(warehouse.tables().unwrap(), ["kept"]);
        assert_eq!(std::fs::read_dir(warehouse.dir()).unwrap().count(), 1);
        let kept = warehouse.table("kept").unwrap();
        assert_eq!(std::fs::read_dir(kept.dir()).unwrap().count(), 4);
        assert_eq!(read(&engine(), &kept).unwrap(), batch(0, 100));
    }
}

#[test]
fn a_full_disk_is_explained_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$1\" || exit 77; exec \"$2\" --exact full_disk::child_on_a_small_disk";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .env(CHILD_DIR, dir.path())
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stdout));
        }
        // Without the right to mount there is no small disk to fill.
        other => eprintln!("skipped: a small disk could not be mounted: {other:?}"),
    }
}
