//! `kill -9` at any moment of a load: the table is its old or its new self, and the next load works.

use std::process::Stdio;
use std::time::{Duration, Instant};

use pelton_testkit::Random;

use crate::harness::{Place, csv, outcome};

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
    let load = |args: &[&str], file: &str| {
        let mut command = place.pelton();
        command.args(["load", "--quiet", "--table", "t", "--row-group-rows", "4096"]).args(args).arg(file);
        command
    };
    let start = Instant::now();
    assert_eq!(outcome(load(&["--replace"], &base).spawn().unwrap()).status, Some(0));
    let typical = start.elapsed();
    let mut old = place.rows(STATE);
    let (mut kept, mut changed, mut finished) = (0, 0, 0);
    for round in 0..rounds {
        let kind = &KINDS[random.below(KINDS.len() as u64) as usize];
        let next = place.file("next.csv", &csv(1_000_000 + round * 40_000, 20_000 + random.below(20_000)));
        let new = state_after(&place, kind, &next);
        let mut child = load(kind.args, &next).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(
            typical.mul_f64(random.below(1200) as f64 / 1000.0) + Duration::from_micros(random.below(2000)),
        );
        finished += u64::from(child.try_wait().unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        let now = place.rows(STATE);
        assert!(
            now == old || now == new,
            "round {round}, {:?}: {now:?} is neither {old:?} nor {new:?}",
            kind.args
        );
        kept += u64::from(now == old);
        changed += u64::from(now == new);
        if random.one_in(3) || kind.appends {
            // The next load clears what the killed one left, and starts the next round from a known table.
            let run = outcome(load(&["--replace"], &base).spawn().unwrap());
            assert_eq!(run.status, Some(0), "round {round}: {}", run.stderr);
            old = place.rows(STATE);
            assert_nothing_left(&place, round);
        } else {
            old = now;
        }
    }
    println!(
        "{rounds} kills: {kept} tables kept, {changed} changed, {finished} loads had ended by themselves"
    );
}

/// The state that a load of `file` would bring, asked of the same command on a copy of the table.
fn state_after(place: &Place, kind: &Kind, file: &str) -> Vec<String> {
    let copy = place.path("copy");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("t")).unwrap();
    for entry in std::fs::read_dir(place.path("warehouse/t")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join("t").join(path.file_name().unwrap())).unwrap();
    }
    let copy = copy.display().to_string();
    let mut args = vec!["load", "--quiet", "--table", "t", "--row-group-rows", "4096", "--warehouse", &copy];
    args.extend(kind.args);
    args.push(file);
    place.ok(&args);
    let text = place.ok(&["sql", "--format", "csv", "--warehouse", &copy, STATE]);
    text.lines().skip(1).map(str::to_owned).collect()
}

/// One segment, its metadata and the manifest; no scratch.
fn assert_nothing_left(place: &Place, round: u64) {
    let files = place.warehouse_files();
    let shape: Vec<&str> = files.iter().map(|name| name.split('-').next().unwrap()).collect();
    assert_eq!(shape, ["t", "t/data", "t/manifest", "t/meta"], "round {round}: {files:?}");
}
