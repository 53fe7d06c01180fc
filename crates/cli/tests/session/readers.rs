//! The readers of stored bytes on mutated seeds: what `fuzz/` runs under libFuzzer, for as long as
//! `PELTON_FUZZ_SECONDS` says.

#[allow(unreachable_pub)] // a library of its own in fuzz/
#[path = "../../../../fuzz/src/readers.rs"]
#[expect(clippy::module_inception, reason = "the file is the fuzz targets' own")]
pub(crate) mod readers;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::scratch;
use pelton_testkit::Random;
use readers::{PatchedTable, chunk_seeds, mutate, table_seeds, zone_seeds};

/// For each reader, where the variable does not say.
const SECONDS: u64 = 2;
/// The slowest answer to any input of a few kilobytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Mutates seeds and feeds them to `reader` until the time is over.
fn feed(name: &str, seeds: &[Vec<u8>], reader: impl Fn(&[u8])) {
    let seconds =
        std::env::var("PELTON_FUZZ_SECONDS").ok().map_or(SECONDS, |text| text.parse().expect("a number"));
    let seed = std::env::var("PELTON_FUZZ_SEED").ok().map_or(1, |text| text.parse().expect("a number"));
    let start = Instant::now();
    let mut random = Random::new(seed);
    let (mut executions, mut slowest) = (0u64, Duration::ZERO);
    for seed in seeds {
        reader(seed);
    }
    while start.elapsed() < Duration::from_secs(seconds) {
        let input = mutate(&seeds[random.below(seeds.len() as u64) as usize], &mut random);
        let began = Instant::now();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| reader(&input)));
        if result.is_err() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-crash"));
            std::fs::write(&path, &input).unwrap();
            panic!("{name} panicked on execution {executions}; the input is {}", path.display());
        }
        slowest = slowest.max(began.elapsed());
        executions += 1;
    }
    println!("{name}: {executions} executions in {seconds} s, slowest {slowest:?}");
    assert!(executions > 0);
    assert!(slowest < PATIENCE, "an input took {slowest:?}");
}

#[test]
fn any_bytes_are_a_chunk_or_refused() {
    feed("chunk", &chunk_seeds(), readers::chunk);
}

#[test]
fn any_bytes_are_zone_maps_or_refused() {
    feed("zone_maps", &zone_seeds(), readers::zone_maps);
}

#[test]
fn any_manifest_and_metadata_are_a_table_or_refused() {
    let table = PatchedTable::new(scratch());
    feed("table", &table_seeds(), |data| table.table(data));
}
