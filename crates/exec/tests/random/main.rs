//! Random plans over random tables give what a plain interpreter of the IR gives.
//!
//! ```text
//!   number ──► shape: pipelines, types, encodings ──────────────────► kernels, compiled once
//!      │         125 plans each                                          │
//!      └─────► plan: rows of the tables, which of them are read,         ▼
//!              constants, parameters, host inputs, memory, devices ──► run ──► rows ──┐
//!                                                                  └─► interpreter ───┴─ the same
//! ```
//!
//! **What counts as a plan.** A shape is what kernels are compiled from: pipelines of operators and expressions over
//! columns of certain types, bounds and encodings. A plan is a shape with everything else drawn anew: one of two
//! sets of tables (other numbers of rows, values, NULLs, row groups, pages, codecs), its row groups, the constants that
//! are arguments of kernels, parameters, host inputs, and one of four configurations (morsels, memory that is refused,
//! spilling, first room, devices, workers). Plans of one shape share kernels, so 10,000 plans have 80 shapes, and the
//! run says how many kernels it compiled. Numbers decide everything: other numbers are other shapes.
//!
//! Bound: the system's compiler, 0.4 s of one core a kernel, and some 10 ms a plan. The default numbers are always the
//! same, so that a failure is due to a change and programs are found on disk when the test runs again.
//!
//! What a plan has that kernels refuse counts as refused. What is new in the IR is added to `evaluate.rs` or
//! `interpret.rs`, which the compiler asks for, and then to `expressions.rs` or `generate.rs`, which nobody asks for.
//!
//! ```sh
//! PELTON_RANDOM_SEED=100000 PELTON_RANDOM_PLANS=2000 cargo test --release -p pelton-exec --test random -- --nocapture
//! PELTON_RANDOM_SEED=100042 PELTON_RANDOM_PLANS=1 cargo test --release -p pelton-exec --test random    # one again
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

mod calendar;
mod cell;
mod check;
mod compare;
mod conditions;
mod describe;
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
mod vary;

use check::{RARE, SETS, Shape, Tally, has_logical_devices};
use tables::Family;

/// Plans of a shape: numbers that follow each other.
const SHAPE_PLANS: u64 = 125;
/// Shapes over the same tables.
const FAMILY_SHAPES: u64 = 4;
/// Plans where nobody says how many.
const PLANS: u64 = 10_000;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is '{text}' and should be a number")))
}

#[test]
fn random_plans_give_what_the_interpreter_gives() {
    let first = variable("PELTON_RANDOM_SEED").unwrap_or(0);
    let count = variable("PELTON_RANDOM_PLANS").unwrap_or(PLANS);
    let started = Instant::now();
    println!("{count} plans from PELTON_RANDOM_SEED={first} on");
    let plans = Plans::new(first, count);
    let next = AtomicU64::new(first / SHAPE_PLANS);
    let (all, failures) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let shape = next.fetch_add(1, Ordering::Relaxed);
            if shape * SHAPE_PLANS >= first + count {
                return;
            }
            let mut tally = Tally { shapes: 1, ..Tally::default() };
            let failed = plans.check_shape(shape, &mut tally);
            all.lock().unwrap().add(&tally);
            failures.lock().unwrap().extend(failed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, |count| count.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (tally, mut failures) = (all.into_inner().unwrap(), failures.into_inner().unwrap());
    println!("{count} plans in {:.1} s: {tally:?}", started.elapsed().as_secs_f64());
    failures.sort_unstable();
    if let Some(number) = failures.first() {
        panic!("{} fails; all: {failures:?}", command_that_repeats(*number));
    }
    check_coverage(count, &tally);
}

/// Plans `first` to `first + count`, and the tables that they read.
struct Plans {
    first: u64,
    count: u64,
    families: Vec<OnceLock<Family>>,
}

impl Plans {
    fn new(first: u64, count: u64) -> Self {
        let family = |number: u64| number / SHAPE_PLANS / FAMILY_SHAPES;
        let families = (family(first)..=family(first + count)).map(|_| OnceLock::new()).collect();
        Self { first, count, families }
    }

    /// Runs the plans of `shape` and says which of them failed.
    fn check_shape(&self, shape: u64, tally: &mut Tally) -> Vec<u64> {
        let plans =
            (shape * SHAPE_PLANS).max(self.first)..((shape + 1) * SHAPE_PLANS).min(self.first + self.count);
        let family = shape / FAMILY_SHAPES;
        let first_family = self.first / SHAPE_PLANS / FAMILY_SHAPES;
        let family =
            self.families[(family - first_family) as usize].get_or_init(|| Family::new(family, SETS));
        let Some(shape) = caught(|| Shape::new(shape, family, tally)) else { return vec![plans.start] };
        plans.filter(|number| caught(|| shape.check(*number, tally)).is_none()).collect()
    }
}

/// What `work` gives; `None` where it panics.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The command that runs plan `number`, which failed, again: alone, or after those of its shape that were run before it,
/// where that is what it takes.
fn command_that_repeats(number: u64) -> String {
    let alone = Plans::new(number, 1).check_shape(number / SHAPE_PLANS, &mut Tally::default());
    let from = if alone.is_empty() { number / SHAPE_PLANS * SHAPE_PLANS } else { number };
    format!("PELTON_RANDOM_SEED={from} PELTON_RANDOM_PLANS={}", number - from + 1)
}

/// Random plans that are mostly refused, empty or too large would test nothing.
fn check_coverage(count: u64, tally: &Tally) {
    if count < PLANS {
        return;
    }
    assert!(tally.runs * 10 > count * 9, "a tenth of the plans was not run: {tally:?}");
    assert!(tally.refusals() * 4 < count, "a quarter of the plans is refused: {tally:?}");
    assert!(tally.too_large * 10 < count, "a tenth of the plans is too large: {tally:?}");
    assert!(tally.with_rows * 2 > tally.runs, "half of the runs give no row: {tally:?}");
    assert!(tally.overflows * 50 > tally.runs, "hardly anything overflows: {tally:?}");
    assert!(tally.given_out * 50 > tally.runs, "few runs give out rows: {tally:?}");
    assert!(!has_logical_devices() || tally.divided * 5 > tally.runs, "few runs are divided: {tally:?}");
    assert!(tally.with_host * 50 > tally.runs, "few runs are with the host's cores: {tally:?}");
    assert!(tally.repeated_keys > 0, "no key repeats where none may: {tally:?}");
    RARE.iter().for_each(|what| assert!(tally.rare.contains_key(what), "no plan has '{what}': {tally:?}"));
}
