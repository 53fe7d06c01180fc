//! Runs that are cancelled while they are under way: memory is back, and the next run is none the worse.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pelton_chunk::Codec;
use pelton_error::{CancelFlag, ErrorKind};
use pelton_exec::{Runtime, RuntimeOptions};
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{Aggregate, AggregateFunction, Plan, Sink};

use crate::fixture::{Place, table};
use crate::oracle::{column, options, runtime, single, sorted, source};

/// Device memory and pinned memory in use, bytes.
fn in_use(runtime: &Runtime) -> (u64, u64) {
    let machine = runtime.machine();
    let device = machine.device_budget(runtime.device()).unwrap().used_bytes();
    (device, machine.pinned_budget().used_bytes())
}

/// A run of many morsels that ends in groups, or in rows.
fn plan(runtime: &Runtime, place: &Place, is_rows: bool) -> Plan {
    let (source, columns) = source(runtime, &place.table);
    let sum = Aggregate { function: AggregateFunction::Sum, input: Some(column(3)) };
    let sink = match is_rows {
        true => Sink::Materialize { columns: vec![column(0), column(3)], top: None, order: None },
        false => Sink::Aggregate { keys: vec![column(0)], aggregates: vec![sum], expected: None },
    };
    single(source, columns, Vec::new(), sink)
}

/// Runs `plan` and cancels it from another thread as soon as it has taken memory; `None` where it was too late.
fn run_cancelled(runtime: &Arc<Runtime>, plan: &Plan) -> Option<ErrorKind> {
    let (before, flag) = (in_use(runtime), CancelFlag::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while in_use(runtime) == before && !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            flag.cancel();
        });
        let outcome = runtime.run(plan, Vec::new(), &flag);
        is_over.store(true, Ordering::Relaxed);
        outcome.err().map(|error| error.kind().clone())
    })
}

fn check(options: RuntimeOptions, is_rows: bool) {
    let place = table(Codec::Lz4, 500, 20_000);
    let runtime = runtime(options);
    let plan = plan(&runtime, &place, is_rows);
    let run = || -> Rows { runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap().0 };
    let expected = sorted(&run());
    let before = in_use(&runtime);
    let mut cancelled = 0;
    for _ in 0..20 {
        let Some(kind) = run_cancelled(&runtime, &plan) else { continue };
        assert_eq!(kind, ErrorKind::Cancelled);
        assert_eq!(in_use(&runtime), before, "memory in use after a cancelled run");
        cancelled += 1;
    }
    assert!(cancelled > 0, "no run was cancelled under way");
    assert_eq!(sorted(&run()), expected);
    assert_eq!(in_use(&runtime), before);
}

#[test]
fn a_cancelled_run_gives_its_memory_back_and_the_next_one_is_right() {
    let many_morsels = RuntimeOptions { morsel_bytes: 1, ..options() };
    check(many_morsels.clone(), false);
    check(many_morsels, true);
}

#[test]
fn a_run_cancelled_while_columns_are_brought_to_the_device_leaves_nothing_half_there() {
    let kept = RuntimeOptions { morsel_bytes: 1, device_cache_bytes: Some(64 << 20), ..options() };
    let place = table(Codec::Lz4, 500, 20_000);
    let runtime = runtime(kept);
    let plan = plan(&runtime, &place, false);
    let mut kinds = Vec::new();
    for _ in 0..5 {
        kinds.extend(run_cancelled(&runtime, &plan));
    }
    assert!(kinds.iter().all(|kind| *kind == ErrorKind::Cancelled), "{kinds:?}");
    let rows = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap().0;
    let again = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap().0;
    assert_eq!((rows.row_count, sorted(&rows)), (40_000, sorted(&again)));
    runtime.column_cache().forget(place.table.id());
    assert_eq!(runtime.column_cache().device_bytes_used(runtime.device()), 0);
}
