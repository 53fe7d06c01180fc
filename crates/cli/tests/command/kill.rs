//! `kill -9` at any moment of a load: the table is its old or its new self, and the next load works.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pelton_testkit::Random;

use crate::harness::{Place, csv};

/// Rounds where `PELTON_KILL_ROUNDS` does not say.
const ROUNDS: u64 = 12;
/// What tells one state of the table from another, and a torn one from all of them.
const STATE: &str = "SELECT count(*), sum(k), sum(g), min(x), max(t), count(DISTINCT k) FROM t";

struct Kind {
    args: &'static [&'static str],
    /// Rows stay when this is loaded.
    appends: bool,
}

const KINDS: [Kind; 4] = [
    Kind { args: &["--replace"], appends: false },
    Kind { args: &["--append"], appends: true },
    Kind { args: &["--replace", "--cluster-by", "g", "--memory-limit", "8MiB"], appends: false },
    Kind { args: &["--append", "--cluster-by", "x"], appends: true },
];

#[test]
fn a_killed_load_leaves_the_old_table_or_the_new() {
    let rounds =
        std::env::var("PELTON_KILL_ROUNDS").ok().map_or(ROUNDS, |text| text.parse().expect("a number"));
    let place = Place::new();
    let mut random = Random::new(2024);
    let base = place.file("base.csv", &csv(0, 30_000));
    place.ok(&load("warehouse", &["--replace"], &base));
    let mut old = place.rows(STATE);
    let (mut kept, mut changed, mut finished) = (0, 0, 0);
    for round in 0..rounds {
        let kind = &KINDS[random.below(KINDS.len() as u64) as usize];
        let next = place.file("next.csv", &csv(1_000_000 + round * 40_000, 20_000 + random.below(20_000)));
        let (new, duration) = rehearse(&place, kind, &next);
        let args = load("warehouse", kind.args, &next);
        let mut child =
            place.pelton().args(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(duration.mul_f64(random.below(1000) as f64 / 1000.0));
        finished += u64::from(child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        let now = place.rows(STATE);
        assert!(now == old || now == new, "round {round}, {args:?}: {now:?} is neither {old:?} nor {new:?}");
        kept += u64::from(now == old);
        changed += u64::from(now == new);
        old = now;
        if random.one_in(3) || kind.appends {
            // The next load clears what the killed one left.
            place.ok(&load("warehouse", &["--replace"], &base));
            old = place.rows(STATE);
            assert_nothing_left(&place, round);
        }
    }
    println!(
        "{rounds} kills: {kept} tables kept, {changed} changed, {finished} of them after the load had ended"
    );
}

/// The arguments of a load of `file` into table `t` of `warehouse`.
fn load<'a>(warehouse: &'a str, kind: &[&'a str], file: &'a str) -> Vec<&'a str> {
    let args = ["load", "--quiet", "--warehouse", warehouse, "--table", "t", "--row-group-rows", "4096"];
    args.iter().chain(kind).copied().chain([file]).collect()
}

/// Loads `file` into a copy of the table: the state it will bring, and how long it takes.
fn rehearse(place: &Place, kind: &Kind, file: &str) -> (Vec<String>, Duration) {
    let copy = place.path("copy");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("t")).unwrap();
    for entry in std::fs::read_dir(place.path("warehouse/t")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join("t").join(path.file_name().unwrap())).unwrap();
    }
    let start = Instant::now();
    place.ok(&load("copy", kind.args, file));
    let duration = start.elapsed();
    let text = place.ok(&["sql", "--format", "csv", "--warehouse", "copy", STATE]);
    (text.lines().skip(1).map(str::to_owned).collect(), duration)
}

/// One segment, its metadata and the manifest; no scratch.
fn assert_nothing_left(place: &Place, round: u64) {
    let files = place.warehouse_files();
    let shape: Vec<&str> = files.iter().map(|name| name.split('-').next().unwrap()).collect();
    assert_eq!(shape, ["t", "t/data", "t/manifest", "t/meta"], "round {round}: {files:?}");
}
