//! One plan, run under several options and over several host inputs, beside the interpreter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use pelton_error::{CancelFlag, Error, ErrorKind};
use pelton_exec::{
    Filters, MemoryTest, OverflowChecks, RowsPart, RunWith, Runtime, RuntimeOptions, TakeRows, TargetChoice,
};
use pelton_pipeline::ir::{Inputs, Plan, RowOrder, Sink, Source, TopK};
use pelton_scan::Decompress;
use pelton_store::{IoEngine, IoOptions};

use super::cell::{Cell, Row, rows_of};
use super::generate::{Draft, generate, vary};
use super::interpret::{Data, Outcome, interpret};
use super::random::Random;
use super::recipe::Recipe;
use super::tables::{Tables, host_input};

/// Rows of a host input at most.
pub(crate) const HOST_ROWS_MAX: u64 = 300;
/// Runs of a plan: with other constants, host inputs and options, as far as kernels stay the same.
const RUNS: u64 = 4;
/// Plans that are looked at for one that does.
const DRAFTS: u64 = 20;

/// What became of the runs of plans.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    /// The interpreter's rows, made of some.
    pub(crate) with_rows: u64,
    /// The interpreter's rows, made of none.
    pub(crate) empty: u64,
    /// An overflow, as the interpreter found it.
    pub(crate) overflows: u64,
    /// A key that repeats where none may.
    pub(crate) repeated_keys: u64,
    /// Memory that was made short was too short.
    pub(crate) short_of_memory: u64,
    /// Rows that were compared, of plans that have something rare, by what they have.
    pub(crate) rare: BTreeMap<&'static str, u64>,
    /// Refused before anything ran, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Too many rows for the interpreter: not run.
    pub(crate) too_large: u64,
    /// Row groups were divided among several devices.
    pub(crate) divided: u64,
    /// Rows were given out while the run went on.
    pub(crate) given_out: u64,
    pub(crate) kernels_compiled: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.with_rows += other.with_rows;
        self.empty += other.empty;
        self.overflows += other.overflows;
        self.short_of_memory += other.short_of_memory;
        self.repeated_keys += other.repeated_keys;
        self.too_large += other.too_large;
        self.kernels_compiled += other.kernels_compiled;
        self.divided += other.divided;
        self.given_out += other.given_out;
        other.rare.iter().for_each(|(what, count)| *self.rare.entry(what).or_default() += count);
        other.refused.iter().for_each(|(reason, count)| *self.refused.entry(reason).or_default() += count);
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refused.values().sum()
    }
}

/// What every few plans should have, as descriptions of plans show it.
pub(crate) const RARE: [&str; 10] = [
    "groups of pipeline",
    "kind: Mark",
    "kind: Outer, residual: Some",
    "residual: Some",
    "Parameter",
    "RowNumber",
    "ByKernel",
    "Repeat {",
    "RowOrder {",
    "Where {",
];

/// What kernels refuse when their source is generated: what bounds do not show, and what they have no form of. Any
/// other refusal is a failure; so is a source that does not compile.
const REFUSALS: [&str; 9] = [
    "every row would look at each of",
    "is text with layout plain, without a dictionary",
    "a join key of",
    "a join key whose values span all of 64 bits",
    "join keys whose possible combinations",
    "dates beyond the calendar",
    "whole quotients of",
    "Min of",
    "Max of",
];

/// Options that change the source of kernels: the same for all runs of a plan.
fn options(random: &mut Random) -> RuntimeOptions {
    let is_short = random.one_in(12);
    RuntimeOptions {
        target: target(),
        cache: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs")),
        device_memory_limit_bytes: Some(if is_short { 1 << 20 } else { 256 << 20 }),
        pinned_memory_limit_bytes: Some(256 << 20),
        equal_hashes: random.one_in(6),
        filters: *random.pick(&[Filters::Branching, Filters::Branching, Filters::Predicated]),
        overflow_checks: match random.one_in(4) {
            true => OverflowChecks::Everywhere,
            false => OverflowChecks::WhereNeeded,
        },
        ..RuntimeOptions::default()
    }
}

/// Options that leave it as it is.
fn vary_options(options: &RuntimeOptions, random: &mut Random) -> RuntimeOptions {
    RuntimeOptions {
        morsel_bytes: *random.pick(&[1, 10_000, 32 << 20]),
        row_groups_max: *random.pick(&[1, 3, 4096]),
        staging_buffers: *random.pick(&[1, 2, 4]),
        overlap: random.percent(70),
        memory_test: *random.pick(&[
            MemoryTest::Off,
            MemoryTest::Off,
            MemoryTest::RefuseOnce,
            MemoryTest::SpillAlways,
        ]),
        first_rows: *random.pick(&[None, None, Some(1), Some(50)]),
        workers: *random.pick(&[1, 2, 3]),
        decompress: match random.pick(&[Decompress::Auto, Decompress::Host, Decompress::Device]) {
            Decompress::Device if !can_decompress() => Decompress::Auto,
            chosen => *chosen,
        },
        ..options.clone()
    }
}

/// The first GPU where there is one, else the host target.
fn target() -> TargetChoice {
    static TARGET: OnceLock<TargetChoice> = OnceLock::new();
    *TARGET.get_or_init(|| match pelton_device::cuda::open(&pelton_device::cuda::CudaOptions::default()) {
        Ok(_) => TargetChoice::Cuda { device: 0 },
        Err(_) => TargetChoice::Host,
    })
}

/// Whether the device decompresses what chunks come in: a GPU does with nvCOMP.
fn can_decompress() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let options =
            RuntimeOptions { target: target(), decompress: Decompress::Device, ..RuntimeOptions::default() };
        Runtime::open(options, engine()).is_ok()
    })
}

/// Whether there are as many devices as one likes.
pub(crate) fn has_logical_devices() -> bool {
    target() == TargetChoice::Host
}

fn engine() -> Arc<IoEngine> {
    static ENGINE: OnceLock<Arc<IoEngine>> = OnceLock::new();
    Arc::clone(ENGINE.get_or_init(|| Arc::new(IoEngine::start(IoOptions::default()).unwrap())))
}

/// Where chunks are when a plan runs: on disk, pinned, or admitted to the device as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Disk,
    Pinned,
    Device,
}

/// A plan of `seed`: mostly one that gives rows or overflows.
fn draft_of(seed: u64, tables: &Tables, random: &mut Random) -> Draft {
    let is_wild = random.one_in(5);
    let first = generate(seed, 0, is_wild, tables);
    if random.one_in(6) {
        return first;
    }
    let is_wanted = |draft: &Draft| {
        let (inputs, cells) = inputs(draft, &mut random.clone());
        let outcome = interpret(&draft.plan, &data(tables, &inputs, &cells));
        let is_refused = outcome.must_refuse || outcome.is_too_large;
        outcome.ended > 0 && outcome.must_overflow == is_wild && !is_refused
    };
    (0..DRAFTS).map(|turn| generate(seed, turn, is_wild, tables)).find(is_wanted).unwrap_or(first)
}

/// Inputs for a run, and the host inputs for the interpreter.
fn inputs(draft: &Draft, random: &mut Random) -> (Inputs, Vec<Vec<Row>>) {
    let input = |recipes: &Vec<Recipe>| {
        let row_count = if random.one_in(8) { random.below(2) } else { random.below(HOST_ROWS_MAX) };
        host_input(recipes, row_count, random)
    };
    let (host_inputs, cells) = draft.host_inputs.iter().map(input).unzip();
    let parameters = draft.parameters.iter().map(|parameter| parameter.value(random)).collect();
    (Inputs { host_inputs, parameters }, cells)
}

fn data<'d>(tables: &'d Tables, inputs: &'d Inputs, host_inputs: &'d [Vec<Row>]) -> Data<'d> {
    Data { relations: &tables.relations, host_inputs, parameters: &inputs.parameters }
}

/// Runs the plan of `seed` and says what became of it.
///
/// # Panics
///
/// Where a run does not give what the interpreter says.
pub(crate) fn check(seed: u64, tables: &Tables) -> Tally {
    let random = &mut Random::new(seed, 3);
    let devices = &mut Random::new(seed, 5);
    let draft = draft_of(seed, tables, random);
    let mut options = options(random);
    let place = *random.pick(&[Place::Disk, Place::Disk, Place::Pinned, Place::Device]);
    options.device_cache_bytes = Some(if place == Place::Device { 32 << 20 } else { 0 });
    options.pinned_cache_bytes = Some(0);
    let mut tally = Tally::default();
    for run in 0..RUNS {
        let mut varied = vary_options(&options, random);
        if has_logical_devices() {
            varied.more_devices.clone_from(devices.pick(&[vec![], vec![1], vec![1, 2], vec![2, 1]]));
        }
        let is_varied = run > 0 && options.filters == Filters::Branching;
        let plan = if is_varied { vary(&draft.plan, random) } else { draft.plan.clone() };
        let is_over = check_run(&Draft { plan, ..draft.clone() }, varied, place, tables, random, &mut tally);
        if is_over {
            break;
        }
    }
    tally
}

/// Collects the rows that are given out.
#[derive(Default)]
struct Taker {
    rows: Mutex<Vec<Row>>,
}

impl TakeRows for Taker {
    fn take(&self, rows: RowsPart) -> pelton_error::Result<()> {
        let rows = rows_of(&rows.into_rows()?);
        self.rows.lock().unwrap().extend(rows);
        Ok(())
    }

    fn is_full(&self) -> bool {
        false
    }

    fn part_bytes(&self) -> usize {
        1 << 10
    }
}

/// One run; true where further ones would end as it did.
fn check_run(
    draft: &Draft,
    options: RuntimeOptions,
    place: Place,
    tables: &Tables,
    random: &mut Random,
    tally: &mut Tally,
) -> bool {
    let (inputs, cells) = inputs(draft, random);
    let plan = &draft.plan;
    let expected = interpret(plan, &data(tables, &inputs, &cells));
    if expected.is_too_large {
        tally.too_large += 1;
        return true;
    }
    tally.runs += 1;
    let is_short = options.device_memory_limit_bytes.is_some_and(|limit| limit < 16 << 20);
    let parameters = inputs.parameters.clone();
    let shown = || format!("{options:?}\n{}  parameters: {parameters:?}", describe(plan));
    let runtime = Runtime::open(options.clone(), engine()).unwrap();
    if place == Place::Pinned {
        for relation in &tables.relations {
            runtime.column_cache().pin(&relation.table, None, &CancelFlag::new()).unwrap();
        }
    }
    // Every other plan gives its rows out while it runs, where it can.
    let taker = Taker::default();
    let rows_taker = tally.runs.is_multiple_of(2).then_some(&taker as &dyn TakeRows);
    let with = RunWith { rows_taker, ..RunWith::default() };
    let (rows, report) = match runtime.run_with(plan, inputs, &CancelFlag::new(), with) {
        Ok(result) => result,
        Err(error) => return check_error(&error, &expected, is_short, tally, &shown),
    };
    let is_divided = report.pipelines.iter().any(|report| !report.rows_by_worker.is_empty());
    tally.divided += u64::from(is_divided);
    tally.kernels_compiled += report.pipelines.iter().map(|report| report.compiled as u64).sum::<u64>();
    assert!(!expected.must_overflow, "an overflow was not noticed\n{}", shown());
    assert!(!expected.must_refuse, "a key that repeats was not noticed\n{}", shown());
    let mut found = taker.rows.into_inner().unwrap();
    tally.given_out += u64::from(!found.is_empty());
    found.extend(rows_of(&rows));
    let difference = match &plan.pipelines.last().expect("a plan has a pipeline").sink {
        Sink::Materialize { top: Some(top), .. } => top_difference(top, &expected.rows, &found),
        Sink::Materialize { order: Some(order), .. } => order_difference(order, &expected.rows, &found),
        _ => difference(expected.rows.clone(), found),
    };
    if let Some(difference) = difference {
        panic!("{difference}\n{}", shown());
    }
    let described = describe(plan);
    for what in RARE.into_iter().filter(|what| described.contains(what)) {
        *tally.rare.entry(what).or_default() += 1;
    }
    match expected.ended {
        0 => tally.empty += 1,
        _ => tally.with_rows += 1,
    }
    false
}

fn check_error(
    error: &Error,
    expected: &Outcome,
    is_short: bool,
    tally: &mut Tally,
    shown: &dyn Fn() -> String,
) -> bool {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::OutOfMemory { .. } if is_short => tally.short_of_memory += 1,
        ErrorKind::Unsupported if text.contains("may overflow for some row") => {
            assert!(expected.may_overflow, "nothing overflows: {text}\n{}", shown());
            tally.overflows += 1;
        }
        ErrorKind::Unsupported if text.contains("a join whose keys repeat") => {
            assert!(expected.must_refuse, "no key repeats: {text}\n{}", shown());
            tally.repeated_keys += 1;
        }
        ErrorKind::Unsupported => {
            let reason = REFUSALS.into_iter().find(|reason| text.contains(reason));
            let reason = reason.unwrap_or_else(|| panic!("refused: {text}\n{}", shown()));
            *tally.refused.entry(reason).or_default() += 1;
            return true;
        }
        kind => panic!("{kind:?}: {text}\n{}", shown()),
    }
    false
}

/// What differs between two multisets of rows.
fn difference(mut expected: Vec<Row>, mut found: Vec<Row>) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!("{} rows in place of {}", found.len(), expected.len()));
    }
    // Sums of doubles decide last: the keys of groups tell rows apart.
    let width = expected.first().map_or(0, Vec::len);
    let is_about = |at: usize| expected.iter().any(|row| matches!(row[at], Cell::About(..)));
    let exact: Vec<usize> = (0..width).filter(|at| !is_about(*at)).collect();
    let by_exact = |a: &Row, b: &Row| {
        let pairs = exact.iter().map(|at| a[*at].cmp(&b[*at]));
        pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    expected.sort_by(by_exact);
    found.sort_by(by_exact);
    let admits = |(expected, found): &(&Row, &Row)| {
        expected.len() == found.len() && expected.iter().zip(*found).all(|(a, b)| a.admits(b))
    };
    let (expected, found) = expected.iter().zip(&found).find(|pair| !admits(pair))?;
    Some(format!("a row is {found:?} in place of {expected:?}"))
}

fn counted(rows: &[Row]) -> BTreeMap<&Row, usize> {
    let mut counts = BTreeMap::new();
    rows.iter().for_each(|row| *counts.entry(row).or_default() += 1);
    counts
}

/// Which ranks are meant.
type Among<'a> = &'a dyn Fn(Option<i128>) -> bool;

/// What [`TopK`] promises and `found` lacks; the last column is the key.
fn top_difference(top: &TopK, all: &[Row], found: &[Row]) -> Option<String> {
    let (all_counts, found_counts) = (counted(all), counted(found));
    for (row, count) in &found_counts {
        let there = all_counts.get(row).copied().unwrap_or(0);
        if *count > there {
            return Some(format!("{row:?} came {count} times, and {there} there are"));
        }
    }
    let rank = |row: &Row| match row.last() {
        Some(Cell::Int(key)) => Some(if top.is_descending { *key } else { -*key }),
        _ => None,
    };
    let mut ranks: Vec<i128> = all.iter().filter_map(rank).collect();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    let wanted = usize::try_from(top.row_count).unwrap_or(usize::MAX);
    let last = wanted.checked_sub(1)?;
    let worst = ranks.get(last).copied().unwrap_or(i128::MIN);
    let among = |rows: &[Row], of: Among<'_>| rows.iter().filter(|row| of(rank(row))).count();
    let better = |rank: Option<i128>| rank.is_some_and(|rank| rank > worst);
    let equal = |rank: Option<i128>| rank == Some(worst);
    let unknown = |rank: Option<i128>| rank.is_none();
    let better_count = among(all, &better);
    let needed = |all: usize, some: usize| if top.keeps_ties { all } else { all.min(some) };
    let demands: [(&str, usize, Among<'_>); 3] = [
        ("better than the last one", better_count, &better),
        ("like the last one", needed(among(all, &equal), wanted.saturating_sub(better_count)), &equal),
        ("without a key", needed(among(all, &unknown), wanted), &unknown),
    ];
    let lacking = demands.iter().find(|(_, count, is_one)| among(found, *is_one) < *count);
    lacking.map(|(what, count, is_one)| format!("{} rows {what} in place of {count}", among(found, *is_one)))
}

/// What [`RowOrder`] promises and `found` lacks; the last columns are the keys.
fn order_difference(order: &RowOrder, all: &[Row], found: &[Row]) -> Option<String> {
    let keys = |row: &Row| row[row.len() - order.keys.len()..].to_vec();
    // The order of cells as such is any order.
    let in_order = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
        _ => a.cmp(b),
    };
    let compare = |a: &Vec<Cell>, b: &Vec<Cell>| {
        let orders =
            order.keys.iter().zip(a.iter().zip(b)).map(|(key, (a, b))| match (a.is_null(), b.is_null()) {
                (true, true) => std::cmp::Ordering::Equal,
                (false, false) if key.is_descending => in_order(b, a),
                (false, false) => in_order(a, b),
                (is_null, _) if is_null == key.nulls_first => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            });
        orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    let mut expected: Vec<Vec<Cell>> = all.iter().map(keys).collect();
    expected.sort_by(compare);
    expected.truncate(order.row_count.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX)));
    let found_keys: Vec<Vec<Cell>> = found.iter().map(keys).collect();
    if expected.len() != found.len() {
        return Some(format!("{} rows in order in place of {}", found.len(), expected.len()));
    }
    if let Some(at) = (0..found.len()).find(|at| expected[*at] != found_keys[*at]) {
        return Some(format!("row {at} has the keys {:?} in place of {:?}", found_keys[at], expected[at]));
    }
    // Where not all are wanted, those of equal keys may be any of them.
    match found.len() == all.len() {
        true => difference(all.to_vec(), found.to_vec()),
        false if all.iter().flatten().any(|cell| matches!(cell, Cell::About(..))) => None,
        false => {
            let there = counted(all);
            let is_too_often = |(row, count): (&Row, usize)| there.get(row).is_none_or(|all| count > *all);
            counted(found)
                .into_iter()
                .find(|(row, count)| is_too_often((row, *count)))
                .map(|(row, count)| format!("{row:?} came {count} times"))
        }
    }
}

/// The plan, without what its tables hold.
fn describe(plan: &Plan) -> String {
    let mut text = format!("tables without a key twice: {:?}\n", plan.unique_tables);
    for pipeline in &plan.pipelines {
        let source = match &pipeline.source {
            Source::HostInput(number) => format!("host input {number}"),
            Source::Groups(from) => format!("groups of pipeline {from}"),
            Source::Table(scan) => format!(
                "table {} of {} rows, columns {:?}, {} of {} row groups, runtime filters: {}",
                scan.table.name(),
                scan.table.row_count(),
                scan.columns,
                scan.row_groups.len(),
                scan.table.row_group_count(),
                scan.uses_runtime_filters,
            ),
        };
        let _ = writeln!(text, "{}: {source}", pipeline.name);
        for (at, column) in pipeline.columns.iter().enumerate() {
            let (name, ty, nullable) = (&column.name, column.ty, column.is_nullable);
            let _ = writeln!(text, "  column {at} {name}: {ty:?}, nullable: {nullable}, {:?}", column.bounds);
        }
        pipeline.ops.iter().for_each(|op| {
            let _ = writeln!(text, "  {op:?}");
        });
        let _ = writeln!(text, "  {:?}", pipeline.sink);
    }
    text
}
