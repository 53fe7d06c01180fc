//! Random plans over random tables give what a plain interpreter of the IR gives.
//!
//! ```text
//!   seed ──► tables of its block ──► plan ──► runs: other constants, host inputs, options ──► Rows ──┐
//!                │                    │                                                              ├─ the same
//!                └────────────────────┴──► interpreter, row by row ──────────────────────────► rows ─┘
//! ```
//!
//! Bound: the system's compiler, a quarter to half a second a kernel, two or three kernels a plan. The default seeds are
//! always the same, so that programs are found on disk when the test runs again.
//!
//! What a plan has that kernels refuse counts as refused. What is new in the IR is added to `evaluate.rs` or
//! `interpret.rs`, which the compiler asks for, and then to `expressions.rs` or `generate.rs`, which nobody asks for.
//!
//! ```sh
//! PELTON_RANDOM_SEED=1000 PELTON_RANDOM_PLANS=2000 cargo test --release -p pelton-exec --test random -- --nocapture
//! PELTON_RANDOM_SEED=1042 PELTON_RANDOM_PLANS=1 cargo test --release -p pelton-exec --test random    # one again
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

mod calendar;
mod cell;
mod check;
mod conditions;
mod evaluate;
mod expressions;
mod generate;
mod interpret;
mod parameter;
mod random;
mod recipe;
mod sinks;
mod tables;
mod text;
#[path = "../run/text_reference.rs"]
mod text_reference;

use check::{RARE, Tally, check, has_logical_devices};
use tables::Tables;

/// Seeds of plans over the same tables.
const BLOCK: u64 = 16;
/// Plans where nobody says how many: a minute on two cores that compile every kernel.
const PLANS: u64 = 120;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is '{text}' and should be a number")))
}

#[test]
fn random_plans_give_what_the_interpreter_gives() {
    let first = variable("PELTON_RANDOM_SEED").unwrap_or(0);
    let count = variable("PELTON_RANDOM_PLANS").unwrap_or(PLANS);
    let started = Instant::now();
    let blocks: Vec<OnceLock<Tables>> =
        (first / BLOCK..=(first + count) / BLOCK).map(|_| OnceLock::new()).collect();
    let next = AtomicU64::new(first);
    let (all, failures) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let block = seed / BLOCK;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let tables = blocks[(block - first / BLOCK) as usize].get_or_init(|| Tables::new(block));
                check(seed, tables)
            }));
            match outcome {
                Ok(tally) => all.lock().unwrap().add(&tally),
                Err(_) => failures.lock().unwrap().push(seed),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (tally, mut failures) = (all.into_inner().unwrap(), failures.into_inner().unwrap());
    println!("{count} plans in {:.1} s: {tally:?}", started.elapsed().as_secs_f64());
    failures.sort_unstable();
    assert!(
        failures.is_empty(),
        "PELTON_RANDOM_SEED={} PELTON_RANDOM_PLANS=1 fails; all: {failures:?}",
        failures[0]
    );
    check_coverage(count, &tally);
}

/// Random plans that are mostly refused, empty or too large would test nothing.
fn check_coverage(count: u64, tally: &Tally) {
    if count < PLANS {
        return;
    }
    assert!(tally.refusals() * 4 < count, "a quarter of the plans is refused: {tally:?}");
    assert!(tally.too_large * 10 < count, "a tenth of the plans is too large: {tally:?}");
    assert!(tally.with_rows * 2 > tally.runs, "half of the runs give no row: {tally:?}");
    assert!(tally.overflows * 50 > tally.runs, "hardly anything overflows: {tally:?}");
    assert!(tally.given_out * 50 > tally.runs, "few runs give out rows: {tally:?}");
    assert!(!has_logical_devices() || tally.divided * 5 > tally.runs, "few runs are divided: {tally:?}");
    assert!(count < 10 * PLANS || tally.repeated_keys > 0, "no key repeats where none may: {tally:?}");
    RARE.iter().for_each(|what| assert!(tally.rare.contains_key(what), "no plan has '{what}': {tally:?}"));
}
