//! Plans that several devices run together: the same rows as one gives, however row groups come to them, and nothing left
//! behind where one fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pelton_chunk::Codec;
use pelton_device::{Buffer, DeviceId, MemoryKind, OnFull};
use pelton_error::{CancelFlag, ErrorKind};
use pelton_exec::{HostRows, PipelineReport, RunReport, RunWith, Runtime, RuntimeOptions, TargetChoice};
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, Bounds, Column, CompareOp, Expr, Inputs, Literal, Op, Pipeline, Plan,
    ProbeKind, Sink, Source, TableScan, TopK, Type,
};

use crate::fixture::{Place, engine, table};
use crate::oracle::{
    Cell, all_rows, assert_same, column, has_three_devices, options, runtime, single, sorted, source,
};

/// So many devices.
fn workers(count: u32, options: RuntimeOptions) -> RuntimeOptions {
    RuntimeOptions { more_devices: (1..count).collect(), ..options }
}

fn run(runtime: &Runtime, plan: &Plan) -> Rows {
    runtime.run(plan, Vec::new(), &CancelFlag::new()).unwrap().0
}

/// Memory in use, bytes: of each device, and pinned.
fn in_use(runtime: &Runtime) -> Vec<u64> {
    let machine = runtime.machine();
    let used = |device: &DeviceId| machine.device_budget(*device).unwrap().used_bytes();
    let devices = runtime.devices();
    devices.iter().map(used).chain([machine.pinned_budget().used_bytes()]).collect()
}

/// The same, without what is kept for the next run.
fn left_over(runtime: &Runtime) -> Vec<u64> {
    runtime.release_idle();
    in_use(runtime)
}

fn of(function: AggregateFunction, input: usize) -> Aggregate {
    Aggregate { function, input: Some(column(input)) }
}

/// Count, and of quantity (which may be NULL), price (doubles) and wide (128 bits) what there is.
fn aggregates() -> Vec<Aggregate> {
    let wide = Expr::Arithmetic {
        op: pelton_pipeline::ir::ArithmeticOp::Multiply,
        left: Box::new(column(3)),
        right: Box::new(Expr::Literal(Literal::I128(1 << 40))),
    };
    vec![
        Aggregate { function: AggregateFunction::Count, input: None },
        of(AggregateFunction::Count, 1),
        of(AggregateFunction::Sum, 1),
        of(AggregateFunction::Min, 1),
        of(AggregateFunction::Max, 1),
        of(AggregateFunction::Sum, 2),
        Aggregate { function: AggregateFunction::Sum, input: Some(wide) },
    ]
}

fn grouped(keys: Vec<Expr>) -> Sink {
    Sink::Aggregate { keys, aggregates: aggregates(), expected: None }
}

/// Keys of groups of each kind: none, few by position, many by hashing, several words.
fn kinds_of_keys() -> [Vec<Expr>; 4] {
    let spread = Expr::Arithmetic {
        op: pelton_pipeline::ir::ArithmeticOp::Multiply,
        left: Box::new(column(0)),
        right: Box::new(Expr::Literal(Literal::I64(1 << 20))),
    };
    [Vec::new(), vec![column(7), column(1)], vec![spread], vec![column(2), column(0), column(6)]]
}

/// A plan with these row groups of the table alone.
fn of_row_groups(mut plan: Plan, row_groups: impl Iterator<Item = u32>) -> Plan {
    let row_groups: Vec<u32> = row_groups.collect();
    for pipeline in &mut plan.pipelines {
        if let Source::Table(scan) = &mut pipeline.source {
            scan.row_groups.clone_from(&row_groups);
        }
    }
    plan
}

#[test]
fn groups_of_every_kind_are_those_of_one_worker_whatever_row_groups_there_are() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 4000);
    let runtimes = [1, 2, 3].map(|count| runtime(workers(count, options())));
    let (from, columns) = source(&runtimes[0], &place.table);
    for keys in kinds_of_keys() {
        let plan = single(from.clone(), columns.clone(), Vec::new(), grouped(keys));
        for row_groups in [0..16, 3..10, 5..7, 15..16, 4..4] {
            let plan = of_row_groups(plan.clone(), row_groups.clone());
            let [one, two, three] = [0, 1, 2].map(|index| run(&runtimes[index], &plan));
            assert_same(&two, &one, &format!("{row_groups:?} by two workers"));
            assert_same(&three, &one, &format!("{row_groups:?} by three workers"));
        }
    }
}

#[test]
fn tables_of_one_row_and_of_none_have_workers_without_work() {
    if !has_three_devices() {
        return;
    }
    let runtime = runtime(workers(3, options()));
    for rows in [0, 1] {
        let place = table(Codec::None, 500, rows);
        let (from, columns) = source(&runtime, &place.table);
        let plan = single(from.clone(), columns.clone(), Vec::new(), grouped(vec![column(2), column(7)]));
        assert_eq!(run(&runtime, &plan).row_count, 2 * rows as usize);
        let total = single(from.clone(), columns.clone(), Vec::new(), grouped(Vec::new()));
        let found = sorted(&run(&runtime, &total));
        assert_eq!(found[0][0], Cell::Int(i128::from(2 * rows)));
        let all = Sink::Materialize { columns: vec![column(0)], top: None, order: None };
        let plan = single(from, columns, Vec::new(), all);
        assert_eq!(run(&runtime, &plan).row_count, 2 * rows as usize);
    }
}

#[test]
fn each_worker_takes_some_of_a_large_table() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::Lz4, 500, 40_000);
    for options in [options(), RuntimeOptions { morsel_bytes: 1, ..options() }] {
        let runtime = runtime(workers(3, options));
        let (from, columns) = source(&runtime, &place.table);
        let plan = single(from, columns, Vec::new(), grouped(vec![column(2)]));
        // Where the machine is busy, one may begin when the others have taken all.
        let reports = (0..20).map(|_| {
            let (_, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
            report.pipelines.into_iter().next().unwrap()
        });
        let is_by_all = |report: &PipelineReport| {
            assert_eq!(report.rows_by_worker.len(), 3);
            report.rows_by_worker.iter().all(|rows| *rows > 0)
        };
        let report = reports.into_iter().find(is_by_all).expect("a run to which all workers came");
        assert_eq!((report.rows_by_worker.iter().sum(), report.rows_in), (80_000, 80_000));
        assert!(report.lines().iter().any(|line| line.contains("workers: ")), "{:?}", report.lines());
    }
}

/// One device, as a GPU goes through rows, and the host's cores beside it.
fn with_host(host_worker_bytes: u64, options: RuntimeOptions) -> RuntimeOptions {
    RuntimeOptions {
        host_worker_bytes: Some(host_worker_bytes),
        host_rows: HostRows::Lanes,
        always_with_host: true,
        ..options
    }
}

fn run_with_host(runtime: &Runtime, plan: &Plan) -> (Rows, RunReport) {
    let with = RunWith { uses_host: true, ..RunWith::default() };
    runtime.run_with(plan, Inputs::default(), &CancelFlag::new(), with).unwrap()
}

#[test]
fn the_cores_of_the_host_take_some_of_the_rows_where_they_are_asked_to() {
    let place = table(Codec::Lz4, 500, 40_000);
    let pinned = RuntimeOptions { morsel_bytes: 1, pinned_cache_bytes: Some(64 << 20), ..options() };
    let is_gpu = options().target != TargetChoice::Host;
    for options in [RuntimeOptions { morsel_bytes: 1, ..options() }, pinned] {
        let runtime = runtime(with_host(64 << 20, options));
        let (from, columns) = source(&runtime, &place.table);
        for keys in kinds_of_keys() {
            let plan = single(from.clone(), columns.clone(), Vec::new(), grouped(keys));
            let (expected, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
            assert!(!report.is_with_host && report.pipelines[0].rows_by_worker.is_empty());
            // Where the machine is busy, one may begin when the other has taken all.
            let is_by_both = (0..20).any(|_| {
                let (rows, report) = run_with_host(&runtime, &plan);
                assert_same(&rows, &expected, "with the host's cores");
                let pipeline = &report.pipelines[0];
                assert_eq!((report.is_with_host, pipeline.rows_by_worker.len()), (true, 2));
                assert_eq!(pipeline.rows_by_worker.iter().sum::<u64>(), 80_000);
                pipeline.rows_by_worker.iter().all(|rows| *rows > 0)
            });
            // A GPU takes all before cores have begun.
            assert!(is_by_both || is_gpu);
        }
    }
}

#[test]
fn a_run_that_the_cores_have_no_memory_for_is_made_without_them() {
    let place = table(Codec::None, 500, 40_000);
    let runtime = runtime(with_host(4 << 10, options()));
    let (from, columns) = source(&runtime, &place.table);
    let plan = single(from, columns, Vec::new(), grouped(vec![column(0), column(6)]));
    let expected = run(&runtime, &plan);
    let before = left_over(&runtime);
    let (rows, report) = run_with_host(&runtime, &plan);
    assert_same(&rows, &expected, "without the host's cores");
    assert_eq!((report.is_with_host, report.is_without_host), (false, true));
    assert_eq!(left_over(&runtime), before);
}

#[test]
fn the_cores_stay_out_where_they_would_hold_a_device_up() {
    let place = table(Codec::None, 500, 4000);
    let options = RuntimeOptions { host_link_bytes_min: 0, ..with_host(64 << 20, options()) };
    let runtime = runtime(RuntimeOptions { always_with_host: false, ..options });
    let (from, columns) = source(&runtime, &place.table);
    let groups_of = |expected| Sink::Aggregate {
        keys: vec![column(2)],
        aggregates: aggregates(),
        expected: Some(expected),
    };
    let of_groups = |expected| single(from.clone(), columns.clone(), Vec::new(), groups_of(expected));
    let is_with_host = |plan: &Plan| run_with_host(&runtime, plan).1.is_with_host;
    assert!(!is_with_host(&of_groups(10)), "it comes from files");
    runtime.column_cache().pin(&place.table, None, &CancelFlag::new()).unwrap();
    assert!(is_with_host(&of_groups(10)));
    assert!(!is_with_host(&of_groups(1 << 20)), "there are many groups");
    let build = Pipeline {
        name: "build".into(),
        source: from.clone(),
        columns: columns.clone(),
        ops: Vec::new(),
        sink: Sink::Build { table: 0, keys: vec![column(0)], payload: Vec::new() },
    };
    let probe = Op::Probe { table: 0, keys: vec![column(0)], kind: ProbeKind::Semi, residual: None };
    let mut pipelines = vec![build];
    pipelines.extend(of_groups(10).pipelines);
    pipelines[1].ops.push(probe);
    let plan = Plan { pipelines, table_count: 1, host_input_count: 0, unique_tables: Vec::new() };
    assert!(!is_with_host(&plan), "as many rows are built as are looked up");
}

#[test]
fn columns_are_kept_by_every_worker_and_found_again() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 20_000);
    let runtime = runtime(workers(3, RuntimeOptions { device_cache_bytes: Some(64 << 20), ..options() }));
    let (from, columns) = source(&runtime, &place.table);
    let plan = single(from, columns, Vec::new(), grouped(vec![column(1)]));
    let first = run(&runtime, &plan);
    let (second, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
    assert_same(&second, &first, "kept");
    let report = &report.pipelines[0];
    assert_eq!((report.disk_bytes, report.link_bytes), (0, 0));
    for device in runtime.devices() {
        assert!(runtime.column_cache().device_bytes_used(device) > 0, "{device}");
    }
}

#[test]
fn columns_are_cached_before_a_kernel_is_made_in_pinned_memory_where_a_device_has_no_room() {
    let place = table(Codec::Zstd, 500, 20_000);
    let caches = |device_cache_bytes| RuntimeOptions {
        check_for: None,
        device_cache_bytes: Some(device_cache_bytes),
        pinned_cache_bytes: Some(64 << 20),
        ..options()
    };
    for (device_cache_bytes, first, later) in [(64 << 20, 2, [0, 0]), (0, 0, [2, 0])] {
        let runtime = runtime(caches(device_cache_bytes));
        let (from, columns) = source(&runtime, &place.table);
        let kept = [columns[0].clone(), columns[1].clone()];
        let Source::Table(scan) = from else { unreachable!("of a table") };
        let two = Source::Table(TableScan { columns: scan.columns[..2].to_vec(), ..scan });
        let greatest = vec![of(AggregateFunction::Max, 0)];
        let by_second = Sink::Aggregate { keys: vec![column(1)], aggregates: greatest, expected: None };
        let plan = single(two, kept.to_vec(), Vec::new(), by_second);
        let run = || {
            let (rows, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
            (rows, report.pipelines.into_iter().next().unwrap())
        };
        let (expected, report) = run();
        assert_eq!(report.admitted, first, "most of them is read");
        for admitted in later {
            let (rows, report) = run();
            assert_same(&rows, &expected, "cached");
            assert_eq!(report.admitted, admitted);
            assert_eq!(report.disk_bytes, 0);
            // In device memory columns were before the first kernel was made, which therefore serves again.
            assert!(report.compiled == 0 || admitted > 0, "{:?}", report.lines());
            let is_pinned = device_cache_bytes == 0;
            assert_eq!((report.pinned_bytes > 0, report.device_bytes > 0), (is_pinned, !is_pinned));
        }
        assert_eq!(runtime.column_cache().pinned_bytes_cached() > 0, device_cache_bytes == 0);
    }
}

/// A fact table that is joined with two tables, one of them of groups, and grouped: as in the star schema benchmark.
fn star(runtime: &Runtime, place: &Place) -> Plan {
    let (from, columns) = source(runtime, &place.table);
    let pipeline = |name: &str, source: &Source, columns: &[Column], ops, sink| Pipeline {
        name: name.into(),
        source: source.clone(),
        columns: columns.to_vec(),
        ops,
        sink,
    };
    let less = |index: usize, value: Literal| {
        let (left, right) = (Box::new(column(index)), Box::new(Expr::Literal(value)));
        Op::Filter(Expr::Compare { op: CompareOp::Lt, left, right })
    };
    let small = pipeline(
        "dimension",
        &from,
        &columns,
        vec![less(0, Literal::I64(1_000_000 + 3 * 3000))],
        Sink::Build { table: 0, keys: vec![column(0)], payload: vec![column(7), column(1)] },
    );
    let counted = Sink::Aggregate {
        keys: vec![column(1)],
        aggregates: vec![of(AggregateFunction::Max, 0)],
        expected: None,
    };
    let group_columns = [Type::I32, Type::I64].map(|ty| Column {
        name: "group".into(),
        ty,
        is_nullable: true,
        bounds: None,
        text: None,
    });
    let groups = pipeline("groups", &from, &columns, Vec::new(), counted);
    let of_groups = pipeline(
        "table of groups",
        &Source::Groups(1),
        &group_columns,
        vec![less(0, Literal::I32(20))],
        Sink::Build { table: 1, keys: vec![column(0)], payload: vec![column(1)] },
    );
    let probe = |table, key: usize| Op::Probe {
        table,
        keys: vec![column(key)],
        kind: ProbeKind::Inner,
        residual: None,
    };
    let at = columns.len();
    let sink = Sink::Aggregate {
        keys: vec![column(at)],
        aggregates: vec![of(AggregateFunction::Sum, at + 1), of(AggregateFunction::Max, at + 2)],
        expected: None,
    };
    let fact = pipeline("fact", &from, &columns, vec![probe(0, 0), probe(1, 1)], sink);
    let pipelines = vec![small, groups, of_groups, fact];
    Plan { pipelines, table_count: 2, host_input_count: 0, unique_tables: Vec::new() }
}

#[test]
fn a_star_is_built_by_every_worker_and_probed_by_all() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 300, 6000);
    let [one, three] = [1, 3].map(|count| runtime(workers(count, options())));
    let plan = star(&one, &place);
    let (expected, report) = one.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
    assert!(expected.row_count > 10, "{} groups", expected.row_count);
    let skipped = report.pipelines[3].row_groups_skipped;
    let (found, report) = three.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
    assert_same(&found, &expected, "by three workers");
    let [small, groups, of_groups, fact] = &report.pipelines[..] else { panic!("four pipelines") };
    assert_eq!((small.copies, groups.copies, of_groups.copies, fact.copies), (3, 0, 3, 0));
    assert_eq!((small.rows_in, groups.rows_in, fact.rows_by_worker.len()), (12_000, 12_000, 3));
    assert_eq!(groups.rows_out, 51, "50 quantities and NULL");
    assert_eq!((fact.row_groups_skipped, fact.rows_out), (skipped, found.row_count as u64));
}

#[test]
fn the_first_rows_come_from_all_workers() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 250, 4000);
    let rows = all_rows(&place.table);
    let runtimes = [1, 2, 3].map(|count| runtime(workers(count, options())));
    let (from, columns) = source(&runtimes[0], &place.table);
    for (key, is_descending, keeps_ties, row_count) in [
        (0, true, false, 10),
        (0, false, true, 300),
        (1, true, true, 100),
        (1, false, false, 7),
        (0, true, true, 0),
    ] {
        let top = TopK { key: column(key), is_descending, keeps_ties, row_count };
        let sink = Sink::Materialize { columns: vec![column(0), column(1)], top: Some(top), order: None };
        let plan = single(from.clone(), columns.clone(), Vec::new(), sink);
        let keys = |rows: &Rows| {
            let mut keys: Vec<_> = sorted(rows).into_iter().map(|row| row[key].clone()).collect();
            keys.sort_by(|a, b| a.partial_cmp(b).unwrap());
            keys
        };
        let expected = run(&runtimes[0], &plan);
        for runtime in &runtimes[1..] {
            let found = run(runtime, &plan);
            assert_eq!(keys(&found), keys(&expected), "{row_count} rows by column {key}");
            assert_eq!(found.columns.len(), if row_count == 0 { found.columns.len() } else { 2 });
            let is_one = |row: &Vec<_>| rows.iter().any(|all| all[..2] == row[..]);
            assert!(sorted(&found).iter().all(is_one));
        }
    }
}

#[test]
fn what_one_worker_knows_of_the_first_rows_spares_the_others_row_groups() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 250, 20_000);
    let runtime = runtime(workers(3, options()));
    let (from, mut columns) = source(&runtime, &place.table);
    columns[0].is_nullable = false;
    let top = TopK { key: column(0), is_descending: true, keeps_ties: true, row_count: 5 };
    let sink = Sink::Materialize { columns: vec![column(0)], top: Some(top), order: None };
    let plan = single(from, columns, Vec::new(), sink);
    let (rows, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
    let expected: Vec<_> = (39_995..40_000).map(|row| vec![Cell::Int(1_000_000 + row * 3)]).collect();
    assert_eq!(sorted(&rows), expected);
    let report = &report.pipelines[0];
    assert!(report.row_groups_beyond_top > 100, "{} of 160", report.row_groups_beyond_top);
    assert_eq!(report.rows_in + 250 * report.row_groups_beyond_top, 40_000);
}

#[test]
fn an_overflow_in_one_row_group_or_of_all_together_is_an_error_that_leaves_nothing() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 4000);
    let runtime = runtime(workers(3, options()));
    let (from, mut columns) = source(&runtime, &place.table);
    // Bounds that are not believed: without them sums are checked.
    columns[3].bounds = None;
    let times = |factor: i128| Expr::Arithmetic {
        op: pelton_pipeline::ir::ArithmeticOp::Multiply,
        left: Box::new(column(3)),
        right: Box::new(Expr::Literal(Literal::I128(factor))),
    };
    // 8000 rows of up to 8 * 10^9: together 3.2 * 10^13 times the factor, and a row group a sixth of that at most.
    let sum = |factor| Aggregate { function: AggregateFunction::Sum, input: Some(times(factor)) };
    let plan = |keys: Vec<Expr>, factor| {
        let sink = Sink::Aggregate { keys, aggregates: vec![sum(factor)], expected: None };
        single(from.clone(), columns.clone(), Vec::new(), sink)
    };
    let fits = 1_000_000_000_000_000_000_000_000;
    for keys in [Vec::new(), vec![column(8)], vec![column(8), column(2)]] {
        let keys = || keys.clone();
        run(&runtime, &plan(keys(), fits));
        for factor in [6 * fits, 20_000_000 * fits] {
            let outcome = runtime.run(&plan(vec![column(8)], factor), Vec::new(), &CancelFlag::new());
            let error = outcome.expect_err("an overflow");
            assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("may overflow for some row"), "{error}");
        }
        assert_eq!(left_over(&runtime), [0; 4]);
        run(&runtime, &plan(keys(), fits));
    }
}

/// All but so many bytes of the memory of `device`.
fn take_all_but(runtime: &Runtime, device: DeviceId, left: u64) -> Buffer {
    let machine = runtime.machine();
    let budget = machine.device_budget(device).unwrap();
    let bytes = budget.limit_bytes() - budget.used_bytes() - left;
    machine.allocate(MemoryKind::Device(device), bytes as usize, OnFull::Refuse).unwrap()
}

#[test]
fn a_worker_that_is_short_of_memory_spills_and_nothing_is_left() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 20_000);
    let options = RuntimeOptions { device_memory_limit_bytes: Some(64 << 20), ..options() };
    let runtime = runtime(workers(3, options));
    let (from, columns) = source(&runtime, &place.table);
    let plan = single(from, columns, Vec::new(), grouped(vec![column(2), column(0)]));
    let expected = run(&runtime, &plan);
    for device in [0, 1, 2].map(DeviceId) {
        runtime.release_idle();
        let taken = take_all_but(&runtime, device, 300_000);
        let with = in_use(&runtime);
        // Workers pull their row groups: on a busy machine one may come too late for any.
        let has_spilled = (0..200).any(|_| {
            let (rows, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
            assert_same(&rows, &expected, "with little memory");
            assert_eq!(left_over(&runtime), with, "{device}");
            report.pipelines[0].spilled_runs > 0
        });
        assert!(has_spilled, "{device}");
        drop(taken);
        assert_eq!(in_use(&runtime), [0; 4], "{device}");
    }
    assert_same(&run(&runtime, &plan), &expected, "after all that");
}

#[test]
fn groups_that_the_first_worker_has_no_room_for_are_merged_by_partitions() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 40_000);
    let options = RuntimeOptions {
        device_memory_limit_bytes: Some(64 << 20),
        first_rows: Some(16),
        morsel_bytes: 1,
        ..options()
    };
    let runtime = runtime(workers(3, options));
    let (from, columns) = source(&runtime, &place.table);
    let plan = single(from, columns, Vec::new(), grouped(vec![column(2), column(0)]));
    let expected = run(&runtime, &plan);
    assert_eq!(expected.row_count, 80_000);
    for left in [2 << 20, 4 << 20, 8 << 20, 16 << 20, 24 << 20] {
        let taken = take_all_but(&runtime, DeviceId(0), left);
        let (rows, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
        assert_same(&rows, &expected, "with little room");
        assert_eq!(report.pipelines[0].rows_in, 80_000);
        drop(taken);
        assert_eq!(left_over(&runtime), [0; 4], "{left} bytes left");
    }
}

#[test]
fn a_worker_without_room_for_a_table_by_position_hashes_it_and_the_others_do_not() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 500, 4000);
    let options = RuntimeOptions { device_memory_limit_bytes: Some(64 << 20), ..options() };
    let runtime = runtime(workers(3, options));
    let (from, columns) = source(&runtime, &place.table);
    // Nearly a million places, of which few are taken.
    let key = Expr::Arithmetic {
        op: pelton_pipeline::ir::ArithmeticOp::Multiply,
        left: Box::new(column(0)),
        right: Box::new(Expr::Literal(Literal::I64(40))),
    };
    let build = Pipeline {
        name: "build".into(),
        source: from.clone(),
        columns: columns.clone(),
        ops: Vec::new(),
        sink: Sink::Build { table: 0, keys: vec![key.clone()], payload: vec![column(2), column(3)] },
    };
    let probe = Op::Probe { table: 0, keys: vec![key], kind: ProbeKind::Inner, residual: None };
    let at = columns.len();
    let rows = vec![column(0), column(at), column(at + 1)];
    let rows = Sink::Materialize { columns: rows, top: None, order: None };
    let groups = Sink::Aggregate {
        keys: vec![column(7)],
        aggregates: vec![of(AggregateFunction::Sum, at), of(AggregateFunction::Sum, at + 1)],
        expected: None,
    };
    for sink in [rows, groups] {
        let mut plan = single(from.clone(), columns.clone(), vec![probe.clone()], sink);
        plan.pipelines.insert(0, build.clone());
        let plan = Plan { table_count: 1, ..plan };
        let (expected, roomy) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
        for device in [0, 1, 2].map(DeviceId) {
            runtime.release_idle();
            let taken = take_all_but(&runtime, device, 8 << 20);
            let (found, report) = runtime.run(&plan, Vec::new(), &CancelFlag::new()).unwrap();
            assert_same(&found, &expected, &format!("without room on {device}"));
            let [with, without] = [&roomy, &report].map(|report| report.pipelines[0].state_bytes);
            assert!(without < with, "{device}: {without} bytes, where it is hashed, and {with} else");
            drop(taken);
        }
    }
}

/// Runs `plan` and cancels it from another thread as soon as device `device` has given memory.
fn run_cancelled(runtime: &Arc<Runtime>, plan: &Plan, device: usize) -> Option<ErrorKind> {
    let (before, flag, is_over) = (in_use(runtime), CancelFlag::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while in_use(runtime)[device] == before[device] && !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            flag.cancel();
        });
        let outcome = runtime.run(plan, Vec::new(), &flag);
        is_over.store(true, Ordering::Relaxed);
        outcome.err().map(|error| error.kind().clone())
    })
}

#[test]
fn a_cancelled_run_gives_the_memory_of_all_workers_back() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::Lz4, 500, 20_000);
    let runtime = runtime(workers(3, RuntimeOptions { morsel_bytes: 1, ..options() }));
    let plans = [single_groups(&runtime, &place), star(&runtime, &place)];
    for plan in plans {
        let expected = run(&runtime, &plan);
        let mut cancelled = 0;
        for turn in 0..15 {
            let Some(kind) = run_cancelled(&runtime, &plan, turn % 3) else { continue };
            assert_eq!(kind, ErrorKind::Cancelled);
            assert_eq!(left_over(&runtime), [0; 4], "memory in use after a cancelled run");
            cancelled += 1;
        }
        assert!(cancelled > 0, "no run was cancelled under way");
        assert_same(&run(&runtime, &plan), &expected, "after cancelled runs");
        assert_eq!(left_over(&runtime), [0; 4]);
    }
}

fn single_groups(runtime: &Runtime, place: &Place) -> Plan {
    let (from, columns) = source(runtime, &place.table);
    single(from, columns, Vec::new(), grouped(vec![column(2), column(0)]))
}

#[test]
fn devices_that_are_not_there_or_named_twice_are_refused() {
    if !has_three_devices() {
        return;
    }
    let refused = |more_devices| {
        let opened = Runtime::open(RuntimeOptions { more_devices, ..options() }, engine());
        opened.err().expect("no such devices")
    };
    assert_eq!(refused(vec![0]).kind(), &ErrorKind::InvalidInput);
    assert_eq!(refused(vec![1, 2, 1]).kind(), &ErrorKind::InvalidInput);
    let runtime = runtime(workers(3, options()));
    assert_eq!(runtime.devices(), [0, 1, 2].map(DeviceId));
    assert_eq!(runtime.device(), DeviceId(0));
    assert!(runtime.describe().ends_with(" and 2 more"), "{}", runtime.describe());
}

#[test]
fn bounds_of_counts_and_sums_hold_for_all_workers_together() {
    if !has_three_devices() {
        return;
    }
    let place = table(Codec::None, 400, 4000);
    let [one, three] = [1, 3].map(|count| runtime(workers(count, options())));
    let (from, columns) = source(&one, &place.table);
    let first = Sink::Aggregate {
        keys: vec![column(6)],
        aggregates: vec![
            Aggregate { function: AggregateFunction::Count, input: None },
            of(AggregateFunction::Sum, 5),
            of(AggregateFunction::Min, 1),
        ],
        expected: None,
    };
    let group_column =
        |ty| Column { name: "group".into(), ty, is_nullable: true, bounds: None::<Bounds>, text: None };
    let group_columns = [Type::Text, Type::I64, Type::I64, Type::I32].map(group_column);
    // Keys by position need bounds that all groups keep.
    let second = Sink::Aggregate {
        keys: vec![column(1), column(3)],
        aggregates: vec![of(AggregateFunction::Sum, 2)],
        expected: None,
    };
    let pipelines = vec![
        Pipeline { name: "first".into(), source: from, columns, ops: Vec::new(), sink: first },
        Pipeline {
            name: "second".into(),
            source: Source::Groups(0),
            columns: group_columns.to_vec(),
            ops: Vec::new(),
            sink: second,
        },
    ];
    let plan = Plan { pipelines, table_count: 0, host_input_count: 0, unique_tables: Vec::new() };
    assert_same(&run(&three, &plan), &run(&one, &plan), "groups of groups");
}
