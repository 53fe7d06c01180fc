//! Files of operators that spill: bounded, and gone after any end.

use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, csv, handles_interrupts, nameless_bytes, outcome, wait_until};

/// Sorts far more than a limit of 100 MB, for longer than any test waits.
const SORT: &str =
    "SELECT v * 7919 % 100000007 AS w, v FROM generate_series(1, 400000000) AS g(v) ORDER BY w";
/// Without a header, so that nothing is written before the error.
const TO_STDOUT: [&str; 5] = ["sql", "--memory-limit", "100MB", "--format", "json"];
const LIMITED: [&str; 6] = ["sql", "--memory-limit", "100MB", "--format", "csv", "--output"];

/// The sort, once it has spilled.
fn spilling(place: &Place) -> Child {
    let mut child = place.pelton_of_terminal().args(LIMITED).args(["sorted.csv", SORT]).spawn().unwrap();
    let (pid, folder) = (child.id(), place.text_path("tmp"));
    let has_spilled = || handles_interrupts(pid) && nameless_bytes(pid, &folder) > 1 << 20;
    assert!(wait_until(&mut child, has_spilled), "it ended: {}", outcome(child).stderr);
    child
}

/// Files anywhere in the place.
fn left(place: &Place) -> Vec<String> {
    let mut names = place.temporary_files();
    let here = std::fs::read_dir(place.path("")).unwrap();
    names.extend(here.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    names.retain(|name| name != "tmp" && name != "warehouse");
    names
}

#[test]
fn no_signal_leaves_a_file() {
    let place = Place::with_warehouse();
    let signals: [&[Signal]; 6] = [
        &[Signal::INT],
        &[Signal::TERM],
        &[Signal::HUP],
        &[Signal::INT, Signal::INT],
        &[Signal::TERM, Signal::HUP],
        &[Signal::KILL],
    ];
    for signals in signals {
        let child = spilling(&place);
        let sent = Instant::now();
        for &signal in signals {
            let _ = kill_process(Pid::from_child(&child), signal);
        }
        let status = child.wait_with_output().unwrap().status;
        assert!(status.code() == Some(130) || status.signal() == Some(9), "{signals:?}: {status:?}");
        assert!(sent.elapsed() < Duration::from_secs(3), "{signals:?}: {:?}", sent.elapsed());
        assert_eq!(left(&place), [""; 0], "{signals:?}");
    }
}

#[test]
fn a_load_that_is_killed_leaves_no_spilled_rows() {
    let place = Place::with_warehouse();
    let input = place.file("rows.csv", &csv(0, 20_000));
    for signal in [Signal::HUP, Signal::KILL] {
        let mut command = place.pelton_of_terminal();
        command
            .args(["load", "--table", "t", "--memory-limit", "32MiB", "--cluster-by", "g"])
            .args(vec![&input; 400]);
        let mut child = command.spawn().unwrap();
        let (pid, folder) = (child.id(), place.text_path("warehouse"));
        assert!(wait_until(&mut child, || nameless_bytes(pid, &folder) > 1 << 20));
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        let scratch =
            place.warehouse_files().into_iter().filter(|name| name.starts_with('.')).collect::<Vec<_>>();
        assert_eq!(scratch, [""; 0]);
    }
}

#[test]
fn the_spill_limit_names_folder_and_flags() {
    let place = Place::with_warehouse();
    let folder = place.text_path("elsewhere");
    let flags = ["--spill-dir", &folder, "--spill-limit", "50MB"];
    let copy = format!("COPY ({SORT}) TO 'sorted.parquet'");
    for statement in [SORT, &copy] {
        let args = [&TO_STDOUT[..], &flags, &[statement]].concat();
        let error = place.fails(&args);
        for part in ["spill limit reached", &folder, "50.0 MB", "--spill-limit", "--spill-dir"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    let input = place.file("rows.csv", &csv(0, 20_000));
    let inputs = vec![input.as_str(); 100];
    let load = [
        "load",
        "--quiet",
        "--table",
        "t",
        "--memory-limit",
        "32MiB",
        "--cluster-by",
        "g",
        "--spill-limit",
        "1MB",
    ];
    let error = place.fails(&[&load[..], &inputs].concat());
    assert!(error.contains("spill limit reached") && error.contains("warehouse"), "{error}");
    assert!(error.contains("--spill-dir"), "{error}");
}

#[test]
fn a_full_disk_names_folder_and_flags() {
    let place = Place::with_warehouse();
    let copy = format!("COPY ({SORT}) TO 'sorted.parquet'");
    for statement in [SORT, &copy] {
        // As a full disk, for one file.
        let script = "ulimit -f 2000; exec \"$PELTON\" sql --memory-limit 100MB --format csv \"$STATEMENT\"";
        let mut shell = place.prepared("bash");
        shell.env("PELTON", env!("CARGO_BIN_EXE_pelton")).env("STATEMENT", statement).args(["-c", script]);
        let run = outcome(shell.spawn().unwrap());
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        for part in ["the disk is full", "pelton-spill-", "--spill-dir", "--memory-limit"] {
            assert!(run.stderr.contains(part), "{}", run.stderr);
        }
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        let files = std::fs::read_dir(place.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
        let left = files.filter(|name| name.to_string_lossy().contains("sorted")).collect::<Vec<_>>();
        assert!(left.is_empty(), "a file without its rows is left: {left:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let place = Place::with_warehouse();
    place.file("file", "");
    let folder = place.text_path("file/below");
    let error = place.fails(&[&TO_STDOUT[..], &["--spill-dir", &folder, SORT]].concat());
    assert!(error.contains(&folder) && error.contains("--spill-dir"), "{error}");
}
