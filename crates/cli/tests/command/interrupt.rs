//! Ctrl-C: status 130 within two seconds, and nothing is left behind.

#![allow(clippy::type_complexity)] // a table of tests

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use crate::harness::{Place, csv, handles_interrupts, interrupt, nameless_bytes, outcome, wait_until};

/// From the signal to the end of the process.
const PROMPT: Duration = Duration::from_secs(2);

/// Starts a command, sends Ctrl-C once `ready`, and holds it to status and time.
fn interrupted(place: &Place, args: &[&str], ready: impl Fn(u32) -> bool) {
    let mut child = place.pelton().args(args).spawn().unwrap();
    let pid = child.id();
    let is_ready =
        wait_until(&mut child, || handles_interrupts(pid)) && wait_until(&mut child, || ready(pid));
    assert!(is_ready, "{args:?} ended too early: {}", outcome(child).stderr);
    let sent = Instant::now();
    interrupt(&child);
    let run = outcome(child);
    let waited = sent.elapsed();
    assert_eq!(run.status, Some(130), "{args:?}: {}", run.stderr);
    assert!(waited < PROMPT, "{args:?}: {waited:?}");
    assert!(run.stderr.contains("cancelled"), "{}", run.stderr);
    assert!(!run.stderr.contains("panic"), "{}", run.stderr);
    assert_eq!(place.temporary_files(), [""; 0], "{args:?}");
}

/// True once this long has passed since it was first asked.
fn after(duration: Duration) -> impl Fn(u32) -> bool {
    let start = OnceCell::new();
    move |_| start.get_or_init(Instant::now).elapsed() > duration
}

/// A place with table `t` and an input that takes long to load when named often.
fn place() -> (Place, String) {
    let place = Place::new();
    let input = place.file("rows.csv", &csv(0, 20_000));
    place.ok(&["load", "--quiet", "--table", "t", &input]);
    (place, input)
}

#[test]
fn a_long_join_stops() {
    let (place, _) = place();
    let query = "SELECT count(*) FROM t AS a JOIN t AS b ON a.k * b.k % 1000003 < b.g JOIN t AS c ON a.k + c.k % 7 < b.k";
    interrupted(&place, &["sql", query], after(Duration::from_millis(700)));
}

#[test]
fn writing_rows_stops() {
    let (place, _) = place();
    let query = "SELECT v, v * 3 AS w FROM generate_series(1, 4000000000) AS g(v)";
    let folder = place.text_path("");
    let is_writing = |pid| nameless_bytes(pid, &folder) > 0;
    interrupted(&place, &["sql", "--format", "csv", "--output", "rows.out", query], is_writing);
    assert!(!place.path("rows.out").exists() && !place.path("rows.out.part").exists());
}

#[test]
fn a_load_stops_in_every_phase_and_the_table_stays() {
    let (place, input) = place();
    let files = vec![input.as_str(); 400];
    let before = (place.warehouse_files(), place.rows("SELECT count(*), sum(k) FROM t"));
    let warehouse = place.text_path("warehouse");
    let is_spilling = |pid| nameless_bytes(pid, &warehouse) > 0;
    let is_writing =
        |_| place.warehouse_files().iter().filter(|name| name.starts_with("t/data-")).count() > 1;
    let cases: [(&[&str], &dyn Fn(u32) -> bool); 4] = [
        (&["load", "--table", "t", "--replace"], &after(Duration::from_millis(60))),
        (&["load", "--table", "t", "--append", "--memory-limit", "32MiB"], &is_spilling),
        (
            &["load", "--table", "t", "--replace", "--memory-limit", "32MiB", "--cluster-by", "g"],
            &after(Duration::from_millis(900)),
        ),
        (&["load", "--table", "t", "--replace", "--row-group-rows", "8192"], &is_writing),
    ];
    for (args, ready) in cases {
        let args: Vec<&str> = args.iter().chain(&files).copied().collect();
        interrupted(&place, &args, ready);
        assert_eq!(place.warehouse_files(), before.0, "{:?}", &args[..6]);
        assert_eq!(place.rows("SELECT count(*), sum(k) FROM t"), before.1);
    }
    let fresh: Vec<&str> = ["load", "--table", "fresh"].iter().chain(&files).copied().collect();
    interrupted(&place, &fresh, after(Duration::from_millis(300)));
    assert_eq!(place.warehouse_files(), before.0);
}

#[test]
fn a_second_loader_is_told_who_holds_the_table() {
    let (place, input) = place();
    let files = vec![input.as_str(); 400];
    let mut child = place.pelton().args(["load", "--table", "t", "--append"]).args(&files).spawn().unwrap();
    let holder = child.id().to_string();
    let lock = place.path("warehouse/t/lock");
    assert!(wait_until(&mut child, || std::fs::read_to_string(&lock).is_ok_and(|text| text == holder)));
    let message = place.fails(&["load", "--table", "t", "--append", &input]);
    assert!(message.contains(&format!("table 't' is being written by process {holder}")), "{message}");
    assert!(place.fails(&["drop", "t"]).contains(&holder));
    // Readers are not in the way, nor are other tables.
    assert_eq!(place.rows("SELECT count(*) FROM t"), ["20000"]);
    place.ok(&["load", "--quiet", "--table", "u", &input]);
    interrupt(&child);
    assert_eq!(outcome(child).status, Some(130));
    place.ok(&["load", "--quiet", "--table", "t", "--append", &input]);
    assert_eq!(place.rows("SELECT count(*) FROM t"), ["40000"]);
}
