//! Device memory that is shorter than what queries want: they park, they spill, and every answer stays the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pelton_chunk::Codec;
use pelton_device::{MemoryKind, OnFull};
use pelton_error::{CancelFlag, ErrorKind, Result};
use pelton_exec::{MemoryTest, RunReport, Runtime, RuntimeOptions};
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Column, Expr, Literal, Op, Pipeline, Plan, ProbeKind, Sink,
    Source, TopK, Type,
};

use crate::fixture::{Place, table};
use crate::oracle::{
    Cell, all_rows, column, has_three_devices, options, runtime, single, sort, sorted, source,
};

fn sum(input: usize) -> Aggregate {
    Aggregate { function: AggregateFunction::Sum, input: Some(column(input)) }
}

fn times(input: usize, factor: i64) -> Expr {
    let wide = Expr::Cast { input: Box::new(column(input)), to: Type::I64 };
    let factor = Expr::Literal(Literal::I64(factor));
    Expr::Arithmetic { op: ArithmeticOp::Multiply, left: Box::new(wide), right: Box::new(factor) }
}

/// As many groups as rows, found by hashing.
fn many_groups(runtime: &Runtime, place: &Place) -> Plan {
    let (source, columns) = source(runtime, &place.table);
    let aggregates = vec![sum(0), sum(1), sum(3), sum(5)];
    let sink = Sink::Aggregate { keys: vec![times(0, 1_000_003)], aggregates, expected: None };
    single(source, columns, Vec::new(), sink)
}

/// As many groups as rows, by keys that one number does not hold.
fn wide_groups(runtime: &Runtime, place: &Place) -> Plan {
    let keys = vec![column(0), column(3), column(6)];
    let sink = Sink::Aggregate { keys, aggregates: vec![sum(1), sum(5)], expected: None };
    Plan { pipelines: vec![Pipeline { sink, ..many_groups(runtime, place).pipelines.remove(0) }], ..empty() }
}

fn empty() -> Plan {
    Plan { pipelines: Vec::new(), table_count: 0, host_input_count: 0, unique_tables: Vec::new() }
}

/// Groups by what a hash table with all rows of the table gives.
fn groups_of_join(runtime: &Runtime, place: &Place, keys: Vec<Expr>) -> Plan {
    let (source, columns) = source(runtime, &place.table);
    let payload = vec![column(0), column(3)];
    let build = Sink::Build { table: 0, keys: vec![times(0, 1 << 20)], payload };
    let build = Pipeline {
        sink: build,
        ..single(source.clone(), columns.clone(), Vec::new(), rows_out(vec![column(0)])).pipelines.remove(0)
    };
    let keys_of_probe = vec![times(0, 1 << 20)];
    let probe = Op::Probe { table: 0, keys: keys_of_probe, kind: ProbeKind::Inner, residual: None };
    let matched = crate::fixture::READABLE.len();
    let sink = Sink::Aggregate { keys, aggregates: vec![sum(matched), sum(1)], expected: None };
    let mut plan = single(source, columns, vec![probe], sink);
    plan.pipelines.insert(0, build);
    Plan { table_count: 1, ..plan }
}

fn rows_out(columns: Vec<Expr>) -> Sink {
    Sink::Materialize { columns, top: None, order: None }
}

/// What reads the groups that `plan` ends in: all of them, or the first `top` by their sum.
fn read_again(mut plan: Plan, top: Option<u64>) -> Plan {
    let column_of = |ty| Column { name: "group".into(), ty, is_nullable: true, bounds: None, text: None };
    let top = top.map(|row_count| TopK { key: column(0), is_descending: true, keeps_ties: true, row_count });
    let from = plan.pipelines.len() - 1;
    plan.pipelines.push(Pipeline {
        name: "again".into(),
        source: Source::Groups(from),
        columns: vec![column_of(Type::I64), column_of(Type::I128)],
        ops: Vec::new(),
        sink: Sink::Materialize { columns: vec![column(0), column(1)], top, order: None },
    });
    plan
}

fn run(runtime: &Runtime, plan: &Plan) -> (Rows, RunReport) {
    runtime.run(plan, Vec::new(), &CancelFlag::new()).unwrap()
}

/// Device memory and pinned memory in use, bytes.
fn in_use(runtime: &Runtime) -> (u64, u64) {
    let machine = runtime.machine();
    (machine.device_budget(runtime.device()).unwrap().used_bytes(), machine.pinned_budget().used_bytes())
}

fn limited(bytes: u64) -> RuntimeOptions {
    let morsels = RuntimeOptions { morsel_bytes: 64 << 10, ..options() };
    RuntimeOptions { device_memory_limit_bytes: Some(bytes), device_cache_bytes: Some(0), ..morsels }
}

#[test]
fn groups_of_many_times_the_limit_are_spilled_and_merged() {
    let place = table(Codec::None, 5000, 100_000);
    let (large, small) = (runtime(limited(256 << 20)), runtime(limited(3 << 20)));
    type Make = fn(&Runtime, &Place) -> Plan;
    let plans: [(&str, Make); 4] = [
        ("packed keys", many_groups),
        ("wide keys", wide_groups),
        ("groups read again", |runtime, place| read_again(many_groups(runtime, place), None)),
        ("top-k over groups", |runtime, place| read_again(many_groups(runtime, place), Some(700))),
    ];
    for (name, plan) in plans {
        let (expected, alone) = run(&large, &plan(&large, &place));
        let (rows, report) = run(&small, &plan(&small, &place));
        assert_eq!(alone.pipelines[0].spilled_runs, 0, "{name}");
        let first = &report.pipelines[0];
        assert!(first.spilled_runs > 2 && first.spilled_partitions > 1, "{name}: {first:?}");
        assert_eq!((first.rows_in, first.repeats), (200_000, 0), "{name}");
        assert_eq!(first.rows_out, 200_000, "{name}");
        assert!(report.lines().iter().any(|line| line.contains("runs, merged in")), "{name}");
        assert_eq!(sorted(&rows), sorted(&expected), "{name}");
    }
    let (machine, device) = (small.machine(), small.device());
    assert!(machine.device_budget(device).unwrap().peak_bytes() <= 3 << 20);
}

#[test]
fn groups_that_find_no_room_by_position_are_hashed_and_spilled() {
    let place = table(Codec::None, 5000, 100_000);
    let (large, small) = (runtime(limited(256 << 20)), runtime(limited(64 << 20)));
    let by_number = |runtime: &Runtime| {
        let (source, columns) = source(runtime, &place.table);
        let aggregates = vec![sum(0), sum(1), sum(3), sum(5)];
        let sink = Sink::Aggregate { keys: vec![column(0)], aggregates, expected: None };
        single(source, columns, Vec::new(), sink)
    };
    let (expected, alone) = run(&large, &by_number(&large));
    assert_eq!(alone.pipelines[0].spilled_runs, 0);
    // What is left holds no state of all possible keys.
    let device = MemoryKind::Device(small.device());
    let held = small.machine().allocate(device, 60 << 20, OnFull::Refuse).unwrap();
    let (rows, report) = run(&small, &by_number(&small));
    drop(held);
    let first = &report.pipelines[0];
    assert!(first.spilled_runs > 0, "{first:?}");
    assert_eq!((first.rows_in, first.rows_out), (200_000, alone.pipelines[0].rows_out));
    assert_eq!(sorted(&rows), sorted(&expected));
}

#[test]
fn groups_with_few_rows_each_are_added_up_over_all_runs() {
    let place = table(Codec::None, 1000, 10_000);
    let runtime = runtime(RuntimeOptions {
        memory_test: MemoryTest::SpillAlways,
        row_groups_max: 2,
        ..limited(64 << 20)
    });
    let (source, columns) = source(&runtime, &place.table);
    // Keys come again in the second segment, whose rows have the same numbers there.
    let aggregates = vec![
        Aggregate { function: AggregateFunction::Count, input: None },
        sum(3),
        Aggregate { function: AggregateFunction::Min, input: Some(column(1)) },
        Aggregate { function: AggregateFunction::Max, input: Some(column(0)) },
    ];
    let sink = Sink::Aggregate { keys: vec![times(1, 1 << 30)], aggregates, expected: None };
    let (rows, report) = run(&runtime, &single(source, columns, Vec::new(), sink));
    assert!(report.pipelines[0].spilled_runs >= 10, "{:?}", report.pipelines[0]);
    let number = |cell: &Cell| if let Cell::Int(value) = cell { Some(*value) } else { None };
    let mut groups: std::collections::BTreeMap<Option<i128>, Vec<Vec<Cell>>> = Default::default();
    all_rows(&place.table).into_iter().for_each(|row| groups.entry(number(&row[1])).or_default().push(row));
    let cell = |value: Option<i128>| value.map_or(Cell::Null, Cell::Int);
    let group = |(key, rows): (Option<i128>, Vec<Vec<Cell>>)| {
        let of = |column: usize| rows.iter().filter_map(move |row| number(&row[column]));
        vec![
            cell(key.map(|key| key << 30)),
            Cell::Int(rows.len() as i128),
            Cell::Int(of(3).sum()),
            cell(of(1).min()),
            cell(of(0).max()),
        ]
    };
    let mut expected: Vec<Vec<Cell>> = groups.into_iter().map(group).collect();
    sort(&mut expected);
    assert_eq!(sorted(&rows), expected);
}

#[test]
fn a_hash_table_that_does_not_fit_alone_is_joined_in_partitions() {
    let place = table(Codec::None, 5000, 100_000);
    let large = runtime(limited(256 << 20));
    let (expected, alone) = run(&large, &groups_of_join(&large, &place, vec![column(7)]));
    assert_eq!(alone.pipelines[0].spilled_table_rows, 0);
    for first_rows in [None, Some(1000)] {
        let small = runtime(RuntimeOptions { first_rows, ..limited(3 << 20) });
        let (rows, report) = run(&small, &groups_of_join(&small, &place, vec![column(7)]));
        assert_eq!(sorted(&rows), sorted(&expected));
        let [build, probe] = report.pipelines.as_slice() else { panic!("two pipelines") };
        assert_eq!(
            (build.rows_in, build.spilled_table_rows, build.repeats),
            (200_000, 200_000, 0),
            "{build:?}"
        );
        assert!(build.spilled_table_partitions > 4 && build.spilled_table_bytes > 3 << 20, "{build:?}");
        assert_eq!((probe.rows_in, probe.rows_waited_for_tables), (200_000, 200_000), "{probe:?}");
        assert!(probe.partitions_joined >= build.spilled_table_partitions, "{probe:?}");
        let lines = report.lines().join("\n");
        assert!(lines.contains("spilled a hash table of 200000 rows"), "{lines}");
        assert!(lines.contains("200000 rows, ") && lines.contains("waited on the host for"), "{lines}");
        small.release_idle();
        assert_eq!(in_use(&small), (0, 0));
        assert!(small.machine().device_budget(small.device()).unwrap().peak_bytes() <= 3 << 20);
    }
}

#[test]
fn sixteen_queries_on_one_device_under_a_small_limit_give_what_each_gives_alone() {
    let place = table(Codec::None, 2500, 20_000);
    let alone = runtime(limited(256 << 20));
    let top = TopK { key: column(1), is_descending: true, keeps_ties: true, row_count: 50 };
    let plans = |runtime: &Runtime| {
        let (source, columns) = source(runtime, &place.table);
        let single = |sink| single(source.clone(), columns.clone(), Vec::new(), sink);
        vec![
            many_groups(runtime, &place),
            groups_of_join(runtime, &place, vec![column(7)]),
            single(rows_out(vec![column(0), column(3)])),
            groups_of_join(runtime, &place, vec![times(0, 1_000_003)]),
            single(Sink::Materialize {
                columns: vec![column(0), column(1)],
                top: Some(top.clone()),
                order: None,
            }),
            wide_groups(runtime, &place),
            read_again(many_groups(runtime, &place), Some(100)),
        ]
    };
    let all = plans(&alone);
    let expected: Vec<_> = all.iter().map(|plan| sorted(&run(&alone, plan).0)).collect();
    let peak = alone.machine().device_budget(alone.device()).unwrap().peak_bytes();
    // The largest one alone fits. Cached columns take what is left, until it is wanted.
    for (limit, cached) in [(peak + peak / 2, 0), (peak + peak / 8, 4 << 20)] {
        let shared = runtime(RuntimeOptions { device_cache_bytes: Some(cached), ..limited(limit) });
        check_at_once(&shared, &plans(&shared), &expected);
    }
    if has_three_devices() {
        let shared = runtime(RuntimeOptions { more_devices: vec![1, 2], ..limited(peak + peak / 2) });
        check_at_once(&shared, &plans(&shared), &expected);
    }
}

/// Sixteen threads run `plans` in turn, each plan several times.
fn check_at_once(shared: &Runtime, plans: &[Plan], expected: &[Vec<Vec<Cell>>]) {
    let (parked, next) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let number = next.fetch_add(1, Ordering::Relaxed) % plans.len();
                    let (rows, report) = run(shared, &plans[number]);
                    assert_eq!(sorted(&rows), expected[number], "plan {number}");
                    for pipeline in &report.pipelines {
                        assert_eq!(pipeline.repeats, 0);
                        assert!(pipeline.rows_in <= 40_000, "rows are scanned once: {pipeline:?}");
                        parked.fetch_add(pipeline.parked, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(parked.into_inner() > 0, "the limit makes nobody wait");
    assert_eq!(shared.machine().arbiter(shared.device()).unwrap().parked(), 0);
}

/// An older query takes all that is free on one of three devices, earlier or later in the run of a younger one: that waits,
/// also where it brings together what the devices have.
#[test]
fn a_query_on_several_devices_waits_for_what_an_older_one_takes_on_one() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 20_000);
    let shared = runtime(RuntimeOptions { more_devices: vec![1, 2], ..limited(256 << 20) });
    let (machine, device) = (shared.machine(), shared.device());
    let budget = machine.device_budget(device).unwrap();
    let single = |sink| {
        let (source, columns) = source(&shared, &place.table);
        single(source, columns, Vec::new(), sink)
    };
    let few = Sink::Aggregate { keys: vec![column(7)], aggregates: vec![sum(0), sum(1)], expected: None };
    let plans = [
        single(few.clone()),
        read_again(single(few), None),
        groups_of_join(&shared, &place, vec![column(7)]),
    ];
    for (number, plan) in plans.iter().enumerate() {
        let expected = sorted(&run(&shared, plan).0);
        let started = Instant::now();
        run(&shared, plan);
        let alone = started.elapsed();
        for step in 0..40 {
            let older = machine.arbiter(device).unwrap().turn();
            let rows = std::thread::scope(|scope| {
                let younger = scope.spawn(|| sorted(&run(&shared, plan).0));
                std::thread::sleep(alone * step / 32);
                let (started, mut held) = (Instant::now(), Vec::new());
                while started.elapsed() < Duration::from_millis(5) {
                    let free = (budget.limit_bytes() - budget.used_bytes()) as usize;
                    for bytes in [free, free / 2, 4096, 256] {
                        let kind = MemoryKind::Device(device);
                        held.extend(machine.allocate(kind, bytes.max(1), OnFull::Refuse));
                    }
                }
                drop(held);
                drop(older);
                younger.join().unwrap()
            });
            assert_eq!(rows, expected, "plan {number}, step {step}");
        }
    }
}

#[test]
fn a_thousand_runs_that_end_in_every_way_leave_no_memory_behind() {
    let place = table(Codec::None, 500, 1000);
    for memory_test in
        [MemoryTest::Off, MemoryTest::RefuseOnce, MemoryTest::SpillAlways, MemoryTest::SpillTables]
    {
        let options =
            RuntimeOptions { memory_test, first_rows: Some(100), row_groups_max: 1, ..limited(64 << 20) };
        let runtime = runtime(options);
        let good = groups_of_join(&runtime, &place, vec![times(0, 1_000_003)]);
        let overflowing = {
            let (source, columns) = source(&runtime, &place.table);
            let key = Expr::Arithmetic {
                op: ArithmeticOp::Multiply,
                left: Box::new(times(0, i64::MAX / 1_001_000)),
                right: Box::new(column(0)),
            };
            let sink = Sink::Aggregate { keys: vec![key], aggregates: vec![sum(1)], expected: None };
            single(source, columns, Vec::new(), sink)
        };
        let run = |plan: &Plan, flag: &CancelFlag| {
            runtime.run(plan, Vec::new(), flag).map(|(rows, _)| sorted(&rows))
        };
        let expected = run(&good, &CancelFlag::new()).unwrap();
        let mut kinds = [0; 3];
        for cycle in 0..340 {
            let flag = CancelFlag::new();
            let outcome = match cycle % 3 {
                0 => run(&good, &flag),
                1 => run(&overflowing, &flag),
                _ => std::thread::scope(|scope| {
                    let its_flag = flag.clone();
                    scope.spawn(move || {
                        std::thread::sleep(std::time::Duration::from_micros(cycle * 37 % 4000));
                        its_flag.cancel();
                    });
                    run(&good, &flag)
                }),
            };
            match outcome {
                Ok(rows) => {
                    kinds[0] += 1;
                    assert_eq!(rows, expected);
                }
                Err(error) if error.kind() == &ErrorKind::Cancelled => kinds[1] += 1,
                Err(error) => {
                    assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
                    kinds[2] += 1;
                }
            }
        }
        assert!(kinds.iter().all(|count| *count > 10), "{memory_test:?}: {kinds:?}");
        runtime.release_idle();
        assert_eq!(in_use(&runtime), (0, 0), "{memory_test:?}");
    }
}

/// Takes all device memory that is left.
fn take_all(runtime: &Runtime) -> Result<pelton_device::Buffer> {
    let budget = runtime.machine().device_budget(runtime.device())?;
    let bytes = (budget.limit_bytes() - budget.used_bytes()) as usize;
    runtime.machine().allocate(MemoryKind::Device(runtime.device()), bytes, OnFull::Refuse)
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn a_query_that_is_cancelled_while_it_is_parked_ends_at_once() {
    let place = table(Codec::None, 500, 1000);
    let runtime = runtime(limited(16 << 20));
    let plan = many_groups(&runtime, &place);
    run(&runtime, &plan);
    let arbiter = Arc::clone(runtime.machine().arbiter(runtime.device()).unwrap());
    let (_older, _held) = (arbiter.turn(), take_all(&runtime).unwrap());
    let (before, flag) = (in_use(&runtime), CancelFlag::new());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| runtime.run(&plan, Vec::new(), &flag));
        wait_until(|| arbiter.parked() == 1);
        flag.cancel();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), &ErrorKind::Cancelled);
    });
    assert_eq!(arbiter.parked(), 0);
    assert!(in_use(&runtime).0 <= before.0);
}

#[test]
fn the_oldest_gets_the_memory_of_younger_queries_which_go_on_where_they_were() {
    let place = table(Codec::None, 500, 20_000);
    let runtime = runtime(RuntimeOptions { row_groups_max: 1, first_rows: Some(1000), ..limited(64 << 20) });
    for plan in [
        many_groups(&runtime, &place),
        groups_of_join(&runtime, &place, vec![times(0, 1_000_003)]),
        single_rows(&runtime, &place),
    ] {
        let (expected, _) = run(&runtime, &plan);
        // Now and then it is over before it is asked.
        let parked = (0..50).any(|_| {
            let (rows, report) = run_beside_an_older_query(&runtime, &plan);
            assert!(report.pipelines.iter().all(|pipeline| pipeline.rows_in == 40_000), "{report:?}");
            assert_eq!(sorted(&rows), sorted(&expected));
            report.pipelines.iter().any(|pipeline| pipeline.parked > 0)
        });
        assert!(parked, "it never stepped aside");
    }
}

/// Runs `plan` while an older query asks for all memory, as soon as the plan has taken some.
fn run_beside_an_older_query(runtime: &Runtime, plan: &Plan) -> (Rows, RunReport) {
    let (machine, device) = (runtime.machine(), runtime.device());
    let arbiter = machine.arbiter(device).unwrap();
    let older = arbiter.turn();
    runtime.release_idle();
    let (before, limit) = (in_use(runtime).0, machine.device_budget(device).unwrap().limit_bytes());
    std::thread::scope(|scope| {
        let younger = scope.spawn(|| run(runtime, plan));
        wait_until(|| in_use(runtime).0 > before + (40 << 10) || younger.is_finished());
        assert!(older.ask_younger_blocking(&CancelFlag::new()).unwrap(), "something is given back");
        if arbiter.parked() == 1 {
            // All but a lane and the columns that nobody reads is free.
            let most = (limit - (128 << 10)) as usize;
            drop(machine.allocate(MemoryKind::Device(device), most, OnFull::Refuse).unwrap());
        }
        drop(older);
        younger.join().unwrap()
    })
}

fn single_rows(runtime: &Runtime, place: &Place) -> Plan {
    let (source, columns) = source(runtime, &place.table);
    single(source, columns, Vec::new(), rows_out(vec![column(0), column(3)]))
}
