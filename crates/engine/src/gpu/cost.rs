//! How long the pipelines of a plan are predicted to take on a device, and the plan there and on the CPU.
//!
//! ```text
//!   work       max(copies, kernels) + a share of the shorter          copies: bytes / link, bytes / storage
//!   pipeline   fixed + what each beside it adds + work                 kernels: rows × what each step costs
//!                    + for each beside it, the shorter of both works
//!   device     a query's fixed part + for each stage its longest pipeline
//!   CPU        bytes before encoding / (rate of a thread × threads)
//! ```
//!
//! Costs are the machine's [`Rates`]. What runs of this process took corrects them (`corrections.rs`). How many
//! rows pass a filter is not known before it runs: the shares below are guesses, and a probe passes the share of its
//! source that the table holds.

use std::collections::HashMap;
use std::fmt;

use pelton_exec::stages;
use pelton_fabric::Rates;
use pelton_pipeline::ir::{
    Column, CompareOp, Expr, Op, Pipeline, Plan, ProbeKind, Sink, Source, TableScan, Type,
};
use pelton_scan::DataTier;
use pelton_store::Table;

use super::corrections::{StepClass, StepKind};
use super::describe::plan_texts;
use super::device::DeviceHandle;
use super::sort::Runs;

/// Shares of the rows that pass: where a value is one, where it is in a range, where it is among several, and where it
/// is not one; of everything else, half. Guesses.
const EQUAL: f64 = 0.2;
const IN_RANGE: f64 = 0.4;
const AMONG: f64 = 0.3;
const NOT_EQUAL: f64 = 0.9;
const ELSE: f64 = 0.5;
/// Groups that are expected where nothing is: a guess.
const GROUPS: f64 = 1000.0;
/// What a key adds to the sort of a row, and a column to bringing it into its place: guesses, after what CUB and random reads
/// reach on an H100. `corrections.rs` learns what they take.
const SORT_KEY_S: f64 = 0.5e-9;
const TAKE_S: f64 = 0.05e-9;
/// What a thread of the CPU takes to sort a row: a guess.
const CPU_SORT_S: f64 = 100e-9;
/// What it takes to merge a row of sorted runs, with its columns: a guess.
const CPU_MERGE_S: f64 = 40e-9;
/// The device is tried out where it is predicted to take up to so many times what the CPU takes, if that is more than so many
/// seconds. Guesses.
const TRIED_TIMES: f64 = 4.0;
const TRIED_S: f64 = 5e-3;
/// A table of more rows does not fit a device's caches: one by position, one by hash.
const NEAR_ROWS: f64 = 1e6;
const NEAR_HASHED_ROWS: f64 = 1e5;

/// Where bytes of a scan are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tier {
    Device,
    Pinned,
    Disk,
}

/// What a pipeline has to do, in the terms of the rates.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Work {
    /// From files or over the link, whichever takes longer, in seconds.
    copies_s: f64,
    kernels_s: f64,
}

impl Work {
    fn elapsed_s(&self, rates: &Rates) -> f64 {
        let (shorter, longer) = (self.copies_s.min(self.kernels_s), self.copies_s.max(self.kernels_s));
        longer + rates.pipeline.overlap_left * shorter
    }
}

/// What is predicted of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StepPrediction {
    pub(super) kind: StepKind,
    /// By rates alone.
    pub(super) model_s: f64,
    /// With what runs of this process have shown.
    pub(super) predicted_s: f64,
}

/// What a plan is predicted to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    /// On the device, in seconds.
    pub(super) device_s: f64,
    /// On the CPU, in seconds.
    pub(super) cpu_s: f64,
}

impl Prediction {
    /// Of `plan` on `device` with its columns in pinned memory or better, and on the CPU. What both read from disk, and
    /// rows that the CPU computes for the device, cost the same either way and are left out.
    pub(super) fn of(plan: &Plan, device: &DeviceHandle) -> Self {
        let warm = |table: &Table, column: usize| match device.tier(table, column) {
            Some(DataTier::Device(_)) => Tier::Device,
            _ => Tier::Pinned,
        };
        let steps = predict_in(plan, device, &[], &warm);
        let rates = device.rates();
        let longest =
            |stage: Vec<usize>| stage.iter().map(|&step| steps[step].predicted_s).fold(0.0, f64::max);
        let device_s = rates.pipeline.query_s + stages(plan).into_iter().map(longest).sum::<f64>();
        let mut raw_bytes = 0;
        for pipeline in &plan.pipelines {
            if let Source::Table(scan) = &pipeline.source {
                for &column in &scan.columns {
                    raw_bytes += column_bytes(scan, column).raw;
                }
            }
        }
        let sorted_rows = match plan.pipelines.last().map(|last| &last.sink) {
            Some(Sink::Materialize { order: Some(order), .. }) => order.expected.unwrap_or(0),
            _ => 0,
        };
        let threads = device.threads().max(1) as f64;
        let sort_s = sorted_rows as f64 * CPU_SORT_S / threads;
        // Runs go over the link, and back to nobody: the host merges them.
        let runs_s = Runs::of(plan, device)
            .map_or(0.0, |runs| runs.bytes / rates.link.bytes_per_s + runs.kept_rows * CPU_MERGE_S / threads);
        let device_s = device_s + runs_s;
        Self { device_s, cpu_s: cpu_s(raw_bytes, device.threads(), rates) + sort_s }
    }

    /// True where the device is predicted to be faster.
    pub(super) fn prefers_device(&self) -> bool {
        self.device_s < self.cpu_s
    }

    /// True where the device may turn out to be faster, and it is worth finding out: predictions of queries that never ran
    /// are off by such factors, above all those of the CPU's joins and text functions.
    pub(super) fn may_prefer_device(&self) -> bool {
        self.prefers_device() || (self.cpu_s > TRIED_S && self.device_s < self.cpu_s * TRIED_TIMES)
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "predicted {:.1} ms on the device, {:.1} ms on the CPU",
            self.device_s * 1e3,
            self.cpu_s * 1e3
        )
    }
}

fn cpu_s(raw_bytes: u64, threads: usize, rates: &Rates) -> f64 {
    raw_bytes as f64 / (rates.cpu_bytes_per_s_and_thread * threads.max(1) as f64)
}

/// What each pipeline of `plan` is predicted to take on `device`, with its columns where they are now. While the device
/// is not open they count as pinned. `host_rows`: of each host input, where these are known.
pub(super) fn predict(plan: &Plan, device: &DeviceHandle, host_rows: &[usize]) -> Vec<StepPrediction> {
    let now = |table: &Table, column: usize| match device.tier(table, column) {
        Some(DataTier::Device(_)) => Tier::Device,
        Some(DataTier::Disk) => Tier::Disk,
        Some(DataTier::Pinned) | None => Tier::Pinned,
    };
    predict_in(plan, device, host_rows, &now)
}

fn predict_in(
    plan: &Plan,
    device: &DeviceHandle,
    host_rows: &[usize],
    tier_of: &dyn Fn(&Table, usize) -> Tier,
) -> Vec<StepPrediction> {
    let rates = device.rates();
    let models = model(plan, rates, host_rows, tier_of);
    let texts = plan_texts(plan, device);
    let steps = plan.pipelines.iter().zip(texts).zip(models).map(|((pipeline, text), model_s)| {
        let kind = StepKind::of(pipeline, &text, tier_of);
        StepPrediction { kind, model_s, predicted_s: device.corrections().predicted_s(&kind, model_s) }
    });
    steps.collect()
}

/// What each pipeline of `plan` takes by `rates` alone, in seconds.
fn model(
    plan: &Plan,
    rates: &Rates,
    host_rows: &[usize],
    tier_of: &dyn Fn(&Table, usize) -> Tier,
) -> Vec<f64> {
    let mut estimate = Estimate { rates, host_rows, tier_of, tables: HashMap::new(), rows_out: Vec::new() };
    let works = plan.pipelines.iter().map(|pipeline| estimate.work(pipeline).elapsed_s(rates));
    let works: Vec<f64> = works.collect();
    let mut elapsed = vec![0.0; works.len()];
    for stage in stages(plan) {
        for &step in &stage {
            let others = stage.iter().filter(|other| **other != step);
            let shared_s: f64 = others.map(|&other| works[other].min(works[step])).sum();
            let fixed_s = rates.pipeline.fixed_s + rates.pipeline.beside_s * (stage.len() - 1) as f64;
            elapsed[step] = fixed_s + works[step] + shared_s;
        }
    }
    elapsed
}

/// What later pipelines ask of a table.
#[derive(Debug, Clone, Copy)]
struct BuiltTable {
    rows: f64,
    /// Of the rows of its source.
    share: f64,
    is_far: bool,
}

/// Goes over the pipelines in order.
struct Estimate<'a> {
    rates: &'a Rates,
    host_rows: &'a [usize],
    tier_of: &'a dyn Fn(&Table, usize) -> Tier,
    tables: HashMap<usize, BuiltTable>,
    /// By pipeline.
    rows_out: Vec<f64>,
}

impl Estimate<'_> {
    fn work(&mut self, pipeline: &Pipeline) -> Work {
        let costs = &self.rates.pipeline;
        let rows_in = self.rows_in(&pipeline.source);
        let mut work = self.copies(&pipeline.source);
        let mut text_bytes = 0.0;
        let mut rows = rows_in;
        let mut kernels_s = rows * costs.row_s;
        for op in &pipeline.ops {
            match op {
                Op::Filter(condition) => {
                    kernels_s += rows * costs.expression_s;
                    text_bytes += searched_bytes(condition, pipeline) as f64 * (rows / rows_in.max(1.0));
                    rows *= share_that_passes(condition);
                }
                Op::Compute { .. } => kernels_s += rows * costs.expression_s,
                Op::Repeat { count } => rows *= f64::from(*count),
                Op::Probe { table, keys, kind, .. } => {
                    let none = BuiltTable { rows: 1.0, share: 1.0, is_far: false };
                    let table = self.tables.get(table).copied().unwrap_or(none);
                    kernels_s += rows * if table.is_far { costs.far_probe_s } else { costs.probe_s };
                    if keys.iter().all(|key| matches!(key, Expr::Literal(_))) {
                        // All rows of the table have this key: each is looked at.
                        kernels_s += rows * table.rows * costs.expression_s;
                        rows *= if kind.brings_payload() { table.rows } else { 1.0 };
                        continue;
                    }
                    rows *= match kind {
                        ProbeKind::Inner | ProbeKind::Semi => table.share,
                        ProbeKind::Outer | ProbeKind::Mark => 1.0,
                        ProbeKind::Anti => (1.0 - table.share).max(0.1),
                    };
                }
            }
        }
        let rows_out = match &pipeline.sink {
            Sink::Build { table, keys, payload } => {
                let is_hashed = keys.len() > 1 || !keys.iter().all(|key| has_bounds(key, &pipeline.columns));
                kernels_s += rows * if is_hashed { costs.hashed_build_s } else { costs.build_s };
                // Of keys by position without payload there is a bit a key.
                let near = if is_hashed { NEAR_HASHED_ROWS } else { NEAR_ROWS };
                let is_far = rows > near && (is_hashed || !payload.is_empty());
                let share = (rows / rows_in.max(1.0)).min(1.0);
                self.tables.insert(*table, BuiltTable { rows, share, is_far });
                rows
            }
            Sink::Aggregate { keys, aggregates, expected } => {
                kernels_s += rows * aggregates.len() as f64 * costs.aggregate_s;
                let expected = expected.map_or(GROUPS, |groups| groups as f64);
                let groups = if keys.is_empty() { 1.0 } else { expected.min(rows).max(1.0) };
                if !keys.is_empty() {
                    kernels_s += rows * costs.group_row_s + groups * costs.group_s;
                }
                groups
            }
            Sink::Materialize { columns, top: None, order } => {
                let bytes: f64 = columns.iter().map(|column| width(column, &pipeline.columns)).sum();
                let rows_out = match order {
                    Some(order) => {
                        kernels_s +=
                            rows * (order.keys.len() as f64 * SORT_KEY_S + columns.len() as f64 * TAKE_S);
                        order.row_count.map_or(rows, |wanted| rows.min(wanted as f64))
                    }
                    None => rows,
                };
                kernels_s += rows_out * bytes / self.rates.link.bytes_per_s;
                rows_out
            }
            Sink::Materialize { top: Some(top), .. } => {
                kernels_s += costs.top_s;
                rows.min(top.row_count as f64)
            }
        };
        work.kernels_s += kernels_s + text_bytes / costs.text_bytes_per_s;
        self.rows_out.push(rows_out);
        work
    }

    fn rows_in(&self, source: &Source) -> f64 {
        match source {
            Source::Table(scan) => scan_rows(scan) as f64,
            // What is large is scanned by the device itself.
            Source::HostInput(number) => self.host_rows.get(*number).map_or(GROUPS, |rows| *rows as f64),
            Source::Groups(from) => self.rows_out[*from],
        }
    }

    fn copies(&self, source: &Source) -> Work {
        let Source::Table(scan) = source else { return Work::default() };
        let (mut device, mut link, mut disk) = (0.0, 0.0, 0.0);
        for &column in &scan.columns {
            let stored = column_bytes(scan, column).stored as f64;
            match (self.tier_of)(&scan.table, column) {
                Tier::Device => device += stored,
                Tier::Pinned => link += stored,
                Tier::Disk => {
                    disk += stored;
                    link += stored;
                }
            }
        }
        let (link_s, disk_s) =
            (link / self.rates.scan_link_bytes_per_s(), disk / self.rates.storage.bytes_per_s);
        Work { copies_s: link_s.max(disk_s), kernels_s: device / self.rates.device_memory.bytes_per_s }
    }
}

/// Bytes of a value as it comes over the link: numbers of texts, decimals in 64 bits as most are.
fn width(expr: &Expr, columns: &[Column]) -> f64 {
    let Expr::Column(column) = expr else { return 8.0 };
    match columns.get(*column).map(|column| column.ty) {
        Some(Type::Bool) => 1.0,
        Some(Type::I32 | Type::Text) => 4.0,
        _ => 8.0,
    }
}

/// Bytes of a column in the row groups that planning left.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ColumnBytes {
    stored: u64,
    /// Decoded.
    raw: u64,
}

/// What the manifest says of the column, and of that the share of the rows: a chunk directory would have to be read for
/// what each row group has, and is a megabyte for a table of ten thousand chunks.
fn column_bytes(scan: &TableScan, column: usize) -> ColumnBytes {
    let summary = scan.table.column_summary(column);
    let share = scan_rows(scan) as f64 / scan.table.row_count().max(1) as f64;
    let of_rows = |bytes: u64| (bytes as f64 * share) as u64;
    ColumnBytes { stored: of_rows(summary.stored_bytes), raw: of_rows(summary.raw_bytes) }
}

/// Rows in the row groups that planning left.
fn scan_rows(scan: &TableScan) -> u64 {
    let rows = |group: &u32| u64::from(scan.table.row_group(*group as usize).row_count);
    scan.row_groups.iter().map(rows).sum()
}

/// Bytes of text without dictionary that `condition` looks at, of all rows.
fn searched_bytes(condition: &Expr, pipeline: &Pipeline) -> u64 {
    let Source::Table(scan) = &pipeline.source else { return 0 };
    match condition {
        Expr::OfText { column, .. } if *column < scan.columns.len() => {
            let has_dictionary = pipeline.columns[*column].text.is_some();
            if has_dictionary { 0 } else { column_bytes(scan, scan.columns[*column]).raw }
        }
        Expr::And(parts) | Expr::Or(parts) => parts.iter().map(|part| searched_bytes(part, pipeline)).sum(),
        Expr::Not(input) => searched_bytes(input, pipeline),
        _ => 0,
    }
}

/// Of the rows that `condition` tests, by its form alone.
fn share_that_passes(condition: &Expr) -> f64 {
    match condition {
        Expr::Compare { op: CompareOp::Eq, .. } | Expr::OfText { .. } => EQUAL,
        Expr::Compare { op: CompareOp::Ne, .. } => NOT_EQUAL,
        Expr::Compare { .. } => IN_RANGE,
        Expr::In { .. } | Expr::And(_) | Expr::Or(_) => AMONG,
        Expr::Not(input) => 1.0 - share_that_passes(input),
        _ => ELSE,
    }
}

/// Whether a table may have a position for each value of `key`.
fn has_bounds(key: &Expr, columns: &[Column]) -> bool {
    match key {
        Expr::Column(column) => columns.get(*column).is_none_or(|column| column.bounds.is_some()),
        Expr::Cast { input, .. } | Expr::Within { input, .. } => has_bounds(input, columns),
        _ => true,
    }
}

impl StepKind {
    /// What `pipeline`, which EXPLAIN describes by `text`, does, with its columns where `tier_of` says.
    fn of(pipeline: &Pipeline, text: &str, tier_of: &dyn Fn(&Table, usize) -> Tier) -> Self {
        let mut tiers = Vec::new();
        let mut table = None;
        if let Source::Table(scan) = &pipeline.source {
            table = Some(scan.table.id());
            tiers.extend(scan.columns.iter().map(|&column| tier_of(&scan.table, column)));
        }
        let source = match pipeline.source {
            Source::Table(_) => 0,
            Source::HostInput(_) => 1,
            Source::Groups(_) => 2,
        };
        let sink = match &pipeline.sink {
            Sink::Build { .. } => 0,
            Sink::Aggregate { keys, .. } if keys.is_empty() => 1,
            Sink::Aggregate { .. } => 2,
            Sink::Materialize { order: Some(_), .. } => 5,
            Sink::Materialize { top: None, .. } => 3,
            Sink::Materialize { top: Some(_), .. } => 4,
        };
        Self::new(text, &(table, tiers), StepClass { source, sink })
    }
}

#[cfg(test)]
mod tests {
    use pelton_pipeline::ir::{Aggregate, AggregateFunction, Bounds, Literal};

    use super::*;

    const NO_TABLE: &dyn Fn(&Table, usize) -> Tier = &|_, _| Tier::Pinned;

    fn column(bounds: Option<Bounds>) -> Column {
        Column { name: "key".into(), ty: Type::I64, is_nullable: false, bounds, text: None }
    }

    /// Reads host input `input`.
    fn pipeline(input: usize, ops: Vec<Op>, sink: Sink) -> Pipeline {
        let columns = vec![column(Some(Bounds { min: 0, max: 1000 }))];
        Pipeline { name: "test".into(), source: Source::HostInput(input), columns, ops, sink }
    }

    fn build(table: usize) -> Sink {
        Sink::Build { table, keys: vec![Expr::Column(0)], payload: vec![Expr::Column(0)] }
    }

    fn probe(table: usize) -> Op {
        Op::Probe { table, keys: vec![Expr::Column(0)], kind: ProbeKind::Inner, residual: None }
    }

    fn groups(expected: u64) -> Sink {
        let count = Aggregate { function: AggregateFunction::Count, input: None };
        Sink::Aggregate { keys: vec![Expr::Column(0)], aggregates: vec![count], expected: Some(expected) }
    }

    fn of(pipelines: Vec<Pipeline>, host_rows: &[usize]) -> Vec<f64> {
        let table_count = pipelines.iter().filter(|one| matches!(one.sink, Sink::Build { .. })).count();
        let plan =
            Plan { pipelines, table_count, host_input_count: host_rows.len(), unique_tables: Vec::new() };
        model(&plan, &Rates::of_preset(), host_rows, NO_TABLE)
    }

    #[test]
    fn copies_and_kernels_hide_behind_one_another_but_for_a_share() {
        let rates = Rates::of_preset();
        let (work, turned) =
            (Work { copies_s: 3e-3, kernels_s: 1e-3 }, Work { copies_s: 1e-3, kernels_s: 3e-3 });
        assert!((work.elapsed_s(&rates) - 3.4e-3).abs() < 1e-12);
        assert_eq!(work.elapsed_s(&rates), turned.elapsed_s(&rates));
    }

    #[test]
    fn no_rows_take_the_fixed_time_and_more_rows_and_groups_more() {
        let alone = |rows, expected| of(vec![pipeline(0, Vec::new(), groups(expected))], &[rows])[0];
        assert!((alone(0, 1) / 0.28e-3 - 1.0).abs() < 1e-3);
        assert!(alone(100_000_000, 10) > 1.5e-3);
        assert!(alone(100_000_000, 10_000_000) > alone(100_000_000, 10) + 2e-3);
        assert_eq!(alone(1000, 1_000_000_000), alone(1000, 1000), "no more groups than rows");
    }

    #[test]
    fn rows_that_come_out_take_as_long_as_the_link_needs() {
        let rows_of = |columns: usize| {
            let sink = Sink::Materialize { columns: vec![Expr::Column(0); columns], top: None, order: None };
            of(vec![pipeline(0, Vec::new(), sink)], &[100_000_000])[0]
        };
        let link_s = 100e6 * 8.0 / Rates::of_preset().link.bytes_per_s;
        assert!(((rows_of(4) - rows_of(1)) / (3.0 * link_s) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn pipelines_of_a_stage_share_the_device_and_those_of_others_do_not() {
        let rows = [1_000_000, 100_000_000];
        let small = of(vec![pipeline(0, Vec::new(), build(0))], &rows)[0];
        let large = of(vec![pipeline(1, Vec::new(), build(0))], &rows)[0];
        let one_stage = of(vec![pipeline(0, Vec::new(), build(0)), pipeline(1, Vec::new(), build(1))], &rows);
        // Each is held up by its sibling, by no more than the smaller one takes.
        assert!((one_stage[0] - small - 0.12e-3 - (small - 0.28e-3)).abs() < 1e-9, "{one_stage:?}");
        assert!((one_stage[1] - large - 0.12e-3 - (small - 0.28e-3)).abs() < 1e-9, "{one_stage:?}");
        let two_stages =
            of(vec![pipeline(0, Vec::new(), build(0)), pipeline(1, vec![probe(0)], groups(1))], &rows);
        assert_eq!(two_stages[0], small);
    }

    #[test]
    fn probing_a_large_table_takes_longer_and_a_selective_one_spares_what_follows() {
        let filter = || {
            let (left, right) = (Box::new(Expr::Column(0)), Box::new(Expr::Literal(Literal::I64(7))));
            Op::Filter(Expr::Compare { op: CompareOp::Eq, left, right })
        };
        let probing = |rows, ops| {
            let pipelines = vec![pipeline(0, ops, build(0)), pipeline(1, vec![probe(0)], groups(1))];
            of(pipelines, &[rows, 100_000_000])[1]
        };
        assert!(probing(2_000_000, Vec::new()) > probing(1000, Vec::new()) + 2e-3);
        assert!(probing(1000, vec![filter()]) < probing(1000, Vec::new()) - 0.5e-3);
    }

    #[test]
    fn keys_without_bounds_are_hashed() {
        let mut hashed = pipeline(0, Vec::new(), build(0));
        let by_position = of(vec![hashed.clone()], &[10_000_000])[0];
        hashed.columns = vec![column(None)];
        assert!(of(vec![hashed], &[10_000_000])[0] > by_position + 1e-3);
    }

    #[test]
    fn much_is_worth_a_device_and_little_is_not() {
        let rates = Rates::of_preset();
        let copy_s = |bytes: f64| rates.pipeline.query_s + bytes / rates.scan_link_bytes_per_s();
        assert!(copy_s(3e9) < cpu_s(10_000_000_000, 16, &rates));
        assert!(copy_s(30e9) > cpu_s(30_000_000_000, 64, &rates), "hardly compressed, and many cores");
        assert!(copy_s(1e3) > cpu_s(3_000, 1, &rates));
        assert_eq!(cpu_s(0, 0, &rates), 0.0);
    }
}
