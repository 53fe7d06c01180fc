//! Shapes of plans, and the plans of a shape, each run beside the interpreter.
//!
//! ```text
//!   shape ─┬─ pipelines, types, what kernels are compiled from ─────────────────────────┐
//!          │                                                                            │
//!   plan ──┴─▶ a set of tables ─ constants, parameters, host inputs ─ a configuration ──┴─▶ run, interpreter: the same rows
//! ```

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use pelton_error::{CancelFlag, Error, ErrorKind};
use pelton_exec::{
    Filters, HostRows, MemoryTest, OverflowChecks, RowsPart, RunWith, Runtime, RuntimeOptions, SomeGroups,
    TakeGroups, TakeRows, TargetChoice,
};
use pelton_io::{IoEngine, IoOptions};
use pelton_pipeline::codegen::GroupLayout;
use pelton_pipeline::ir::Inputs;
use pelton_scan::Decompress;

use super::cell::{Row, rows_of};
use super::compare::wrong;
use super::describe::describe;
use super::generate::{Draft, generate};
use super::interpret::{Data, Outcome, interpret};
use super::random::Random;
use super::recipe::Recipe;
use super::tables::{Family, Tables, host_input};
use super::vary::{moved, with_other_constants};

/// Rows of a host input at most.
pub(crate) const HOST_ROWS_MAX: u64 = 300;
/// Drafts that are looked at for a shape that gives rows, or overflows where that is wanted.
const DRAFTS: u64 = 20;
/// Drafts that may be refused before a shape is taken that is.
const REFUSED_MAX: u64 = 3;
/// Configurations that the plans of a shape run under.
const CONFIGURATIONS: usize = 4;
/// Sets of tables of a family.
pub(crate) const SETS: usize = 2;
/// Of these, how many a shape reads whose columns are cached: kernels know widths of what is packed there.
const CACHED_SETS: u64 = 1;

/// What became of the runs of plans.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) shapes: u64,
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
    /// The host's cores took some beside devices.
    pub(crate) with_host: u64,
    /// Rows were given out while the run went on.
    pub(crate) given_out: u64,
    pub(crate) kernels_compiled: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.shapes += other.shapes;
        self.runs += other.runs;
        self.with_rows += other.with_rows;
        self.empty += other.empty;
        self.overflows += other.overflows;
        self.short_of_memory += other.short_of_memory;
        self.repeated_keys += other.repeated_keys;
        self.too_large += other.too_large;
        self.kernels_compiled += other.kernels_compiled;
        self.divided += other.divided;
        self.with_host += other.with_host;
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

/// Options that change the source of kernels: the same for all plans of a shape.
fn options(random: &mut Random) -> RuntimeOptions {
    let is_short = random.one_in(12);
    RuntimeOptions {
        target: target(),
        cache: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs")),
        device_memory_limit_bytes: Some(if is_short { 1 << 20 } else { 256 << 20 }),
        pinned_memory_limit_bytes: Some(256 << 20),
        equal_hashes: random.one_in(6),
        first_rows: *random.pick(&[None, None, Some(1), Some(50)]),
        filters: *random.pick(&[Filters::Branching, Filters::Branching, Filters::Predicated]),
        host_rows: *random.pick(&[HostRows::Slices, HostRows::Slices, HostRows::Lanes]),
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
            MemoryTest::SpillTables,
        ]),
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

/// A shape, and what its plans run on. One thread has it.
pub(crate) struct Shape<'f> {
    family: &'f Family,
    draft: Draft,
    place: Place,
    configurations: Vec<Configuration>,
}

/// Options, and what is opened with them by the first plan to use them.
struct Configuration {
    options: RuntimeOptions,
    runtime: OnceCell<Arc<Runtime>>,
    /// Sets of tables that are pinned.
    pinned: RefCell<BTreeSet<usize>>,
}

impl Configuration {
    fn runtime(&self) -> &Arc<Runtime> {
        self.runtime.get_or_init(|| Runtime::open(self.options.clone(), engine()).unwrap())
    }
}

impl<'f> Shape<'f> {
    /// Shape `number` over tables of `family`: mostly one that gives rows or overflows, and that kernels can compute.
    pub(crate) fn new(number: u64, family: &'f Family, tally: &mut Tally) -> Self {
        let random = &mut Random::new(number, 3);
        let is_wild = random.one_in(5);
        let wanted = match random.below(12) {
            0 | 1 => Wanted::Anything,
            2 => Wanted::RepeatedKeys,
            _ if is_wild => Wanted::Overflow,
            _ => Wanted::Rows,
        };
        let options = options(random);
        let place = *random.pick(&[Place::Disk, Place::Disk, Place::Pinned, Place::Device]);
        // Kernels of rows that are divided among devices are others.
        let is_divided = has_logical_devices() && random.percent(60);
        // Those of the host's cores beside others too. What else is random stays as it was before there were any.
        let is_with_host = Random::new(number, 7).percent(25);
        let configurations = (0..CONFIGURATIONS).map(|_| {
            let mut options = vary_options(&options, random);
            if is_divided {
                options.more_devices.clone_from(random.pick(&[vec![1], vec![1, 2], vec![2, 1]]));
            }
            if is_with_host {
                options.host_worker_bytes = Some(64 << 20);
                options.always_with_host = true;
            }
            options.device_cache_bytes = Some(if place == Place::Device { 32 << 20 } else { 0 });
            options.pinned_cache_bytes = Some(0);
            Configuration { options, runtime: OnceCell::new(), pinned: RefCell::default() }
        });
        let configurations = configurations.collect();
        let tables = family.tables(0);
        let mut shape = Self { family, draft: generate(number, 0, is_wild, tables), place, configurations };
        let mut refused = Tally::default();
        for turn in 0..DRAFTS {
            let draft = generate(number, turn, is_wild, tables);
            if !wanted.is_given_by(&draft, tables, random) {
                continue;
            }
            shape.draft = draft;
            let mut tally = Tally::default();
            let planned = Planned { draft: shape.draft.clone(), set: 0, configuration: 0, gives_out: false };
            shape.run(&planned, &mut Random::new(number, 6), &mut tally);
            if tally.refusals() == 0 {
                refused.kernels_compiled += tally.kernels_compiled;
                break;
            }
            refused.add(&tally);
            if refused.refusals() == REFUSED_MAX {
                break;
            }
        }
        tally.kernels_compiled += refused.kernels_compiled;
        shape
    }

    /// Runs plan `number` of this shape.
    ///
    /// # Panics
    ///
    /// Where the run does not give what the interpreter says.
    pub(crate) fn check(&self, number: u64, tally: &mut Tally) {
        let random = &mut Random::new(number, 2);
        let sets = if self.place == Place::Disk { SETS as u64 } else { CACHED_SETS };
        let set = random.below(sets) as usize;
        let mut draft = self.draft.clone();
        draft.plan = moved(&draft.plan, self.family.tables(0), self.family.tables(set), random);
        // Kernels without branches have constants in them.
        let is_predicated = self.configurations[0].options.filters == Filters::Predicated;
        if !random.one_in(8) && !is_predicated {
            draft.plan = with_other_constants(&draft.plan, random);
        }
        draft.host_inputs.iter_mut().flatten().for_each(|recipe| *recipe = recipe.for_other_input(random));
        let configuration = random.below(CONFIGURATIONS as u64) as usize;
        let planned = Planned { draft, set, configuration, gives_out: random.one_in(2) };
        self.run(&planned, random, tally);
    }

    fn run(&self, planned: &Planned, random: &mut Random, tally: &mut Tally) {
        let Planned { draft, set, configuration, gives_out } = planned;
        let (plan, tables) = (&draft.plan, self.family.tables(*set));
        let configuration = &self.configurations[*configuration];
        let (inputs, cells) = inputs(draft, random);
        let expected = interpret(plan, &data(tables, &inputs, &cells));
        if expected.is_too_large {
            tally.too_large += 1;
            return;
        }
        tally.runs += 1;
        let options = &configuration.options;
        let is_short = options.device_memory_limit_bytes.is_some_and(|limit| limit < 16 << 20);
        let parameters = inputs.parameters.clone();
        let shown = || format!("{options:?}\n{}  parameters: {parameters:?}", describe(plan));
        let runtime = configuration.runtime();
        if self.place == Place::Pinned && configuration.pinned.borrow_mut().insert(*set) {
            for relation in &tables.relations {
                runtime.column_cache().pin(&relation.table, None, &CancelFlag::new()).unwrap();
            }
        }
        let taker = Taker::default();
        let rows_taker = gives_out.then_some(&taker as &dyn TakeRows);
        let groups_taker = gives_out.then_some(&taker as &dyn TakeGroups);
        let with = RunWith { rows_taker, groups_taker, uses_host: true, ..RunWith::default() };
        let (rows, report) = match runtime.run_with(plan, inputs, &CancelFlag::new(), with) {
            Ok(result) => result,
            Err(error) => return check_error(&error, &expected, is_short, tally, &shown),
        };
        let is_divided = report.pipelines.iter().any(|report| !report.rows_by_worker.is_empty());
        tally.divided += u64::from(is_divided);
        tally.with_host += u64::from(report.is_with_host);
        tally.kernels_compiled += report.pipelines.iter().map(|report| report.compiled as u64).sum::<u64>();
        assert!(!expected.must_overflow, "an overflow was not noticed\n{}", shown());
        assert!(!expected.must_refuse, "a key that repeats was not noticed\n{}", shown());
        let mut found = taker.rows.into_inner().unwrap();
        tally.given_out += u64::from(!found.is_empty());
        found.extend(rows_of(&rows));
        let sink = &plan.pipelines.last().expect("a plan has a pipeline").sink;
        if let Some(difference) = wrong(sink, &expected.rows, found) {
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
    }
}

/// One plan.
struct Planned {
    draft: Draft,
    /// The set of tables that it reads.
    set: usize,
    configuration: usize,
    /// Its rows or groups are given out before its end, where they can be.
    gives_out: bool,
}

/// What a shape is to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Anything,
    Rows,
    Overflow,
    /// Of a table that must have no key twice.
    RepeatedKeys,
}

impl Wanted {
    fn is_given_by(self, draft: &Draft, tables: &Tables, random: &Random) -> bool {
        if self == Self::Anything {
            return true;
        }
        let (inputs, cells) = inputs(draft, &mut random.clone());
        let outcome = interpret(&draft.plan, &data(tables, &inputs, &cells));
        if outcome.is_too_large || outcome.must_refuse != (self == Self::RepeatedKeys) {
            return false;
        }
        outcome.must_refuse || (outcome.ended > 0 && outcome.must_overflow == (self == Self::Overflow))
    }
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

impl TakeGroups for Taker {
    fn wants(&self, _: &GroupLayout) -> bool {
        true
    }

    fn take_groups(&self, groups: SomeGroups) -> pelton_error::Result<()> {
        let rows = rows_of(&groups.into_rows()?);
        self.rows.lock().unwrap().extend(rows);
        Ok(())
    }
}

fn check_error(
    error: &Error,
    expected: &Outcome,
    is_short: bool,
    tally: &mut Tally,
    shown: &dyn Fn() -> String,
) {
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
        }
        kind => panic!("{kind:?}: {text}\n{}", shown()),
    }
}
