//! What one worker does in a run of a plan: what was built so far, and the current pipeline.

mod stage;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pelton_device::{DeviceId, Event, Span, Stream, Turn};
use pelton_error::{CancelFlag, Error, Result, ResultExt};
use pelton_pipeline::codegen::{
    self, Arg, BuiltTable, Generated, GroupKind, GroupLayout, Request, SinkLayout, TableKind,
};
use pelton_pipeline::ir::{CONSTANT_KEY_ROWS_MAX, Expr, Literal, Op, Pipeline, Plan, Sink, Source};
use pelton_pipeline::{Program, Rows};
use pelton_trace::{Activity, Tracer};

use super::finish::{End, Outcome, finish, hold_groups};
use super::groups_out::WantedGroups;
use super::memory::{HeldLanes, State, is_out_of_memory};
use super::parking::{Memory, Refusals};
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::rows_out::TakeRows;
use super::runtime::Worker;
use super::sorted_runs::SortedRun;
use super::spill::{Run, SpilledGroups, advice};
use super::spilled_tables::SpilledTable;
use super::tasks::Tasks;
use super::team::{Given, Kind, Shared};
use super::text_ties::ReadTexts;
use super::trace::RunTrace;
use super::{Filters, OverflowChecks, Runtime};

/// Packed keys of groups by position, where memory allows, however few groups there may be: their state is cleared and
/// scanned in every run. Where many groups are expected, so that a hashed table takes as much, there may be more.
const DIRECT_KEYS_MAX: u64 = 1 << 22;
/// How many times what a hashed table takes groups by position may take on the host, whose cores like to go through memory
/// in order: keys that tables are sorted by, as those of facts often are, lead them so. A guess.
const HOST_DIRECT_RATIO_MAX: u64 = 2;
/// Packed keys of a direct table, where memory allows: only its bitmap is cleared.
const TABLE_KEYS_MAX: u64 = 1 << 31;
/// Rows or groups that tables have room for at least, where memory is short.
pub(super) const ROOM_LEAST: u64 = 1 << 6;

/// A run of a plan, by one worker.
pub(crate) struct Execution<'r> {
    pub(crate) runtime: &'r Runtime,
    pub(crate) worker: &'r Worker,
    pub(super) plan: &'r Plan,
    /// By pipeline.
    shared: Arc<[Shared]>,
    pub(super) cancel: &'r CancelFlag,
    /// Who takes the rows of the result while the run goes on, if somebody does.
    pub(super) rows_taker: Option<&'r dyn TakeRows>,
    /// Bytes at most of rows that the host sorts, and of hash tables there with the rows that wait for them.
    pub(super) host_bytes_max: u64,
    /// Where groups are the result.
    pub(super) wanted_groups: WantedGroups<'r>,
    /// Who has the texts that rows are sorted by, if somebody does.
    pub(super) texts: Option<&'r dyn ReadTexts>,
    pub(super) host_inputs: Vec<Arc<Rows>>,
    parameters: Arc<[Literal]>,
    pub(super) built: Vec<Option<BuiltTable>>,
    /// The groups that later pipelines read, by the pipeline that made them.
    pub(super) groups: HashMap<usize, Groups>,
    /// Tables that are more than fits, on the host.
    pub(super) spilled: HashMap<usize, Arc<SpilledTable>>,
    /// Of kernels that wait while another one runs.
    pub(super) resting: Vec<State>,
    /// Sorted rows of a pipeline that several workers divide.
    pub(super) sorted_runs: Vec<SortedRun>,
    /// Arrays of the tables built so far.
    pub(super) tables: State,
    pub(super) lane: HeldLanes<'r>,
    /// By pipeline.
    pub(super) reports: Vec<(usize, PipelineReport)>,
    /// Of pipelines whose kernels were compiled ahead of their turn.
    begun: HashMap<usize, PipelineReport>,
    pub(super) trace: Option<RunTrace<'r>>,
    /// It runs one pipeline beside others, whose tables and groups it shares.
    pub(super) is_apart: bool,
    pub(super) refusals: Refusals,
    /// Dropped last, when all memory is free.
    pub(super) turn: Turn,
}

/// Groups that later pipelines read.
#[derive(Clone)]
pub(crate) enum Groups {
    /// On the device.
    Held(Box<HeldGroups>),
    /// On the host, since they are more than fits.
    Spilled(Arc<SpilledGroups>),
}

impl Groups {
    pub(super) fn layout(&self) -> &GroupLayout {
        match self {
            Groups::Held(held) => &held.layout,
            Groups::Spilled(spilled) => &spilled.layout,
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Groups::Held(held) => held.count,
            Groups::Spilled(spilled) => spilled.count,
        }
    }
}

/// A table of groups on the device.
#[derive(Clone)]
pub(crate) struct HeldGroups {
    pub(crate) layout: GroupLayout,
    pub(crate) groups: Span,
    /// Of hashed groups; of wide ones their tags.
    pub(crate) keys: Option<Span>,
    /// The texts that their state leads to, where it does.
    pub(crate) heap: Option<Span>,
    /// How many groups there are.
    pub(crate) count: u64,
}

impl HeldGroups {
    /// All arrays.
    pub(super) fn spans(&self) -> impl Iterator<Item = &Span> {
        [&self.groups].into_iter().chain(&self.keys).chain(&self.heap)
    }

    /// Places for groups, with a group or without.
    pub(super) fn places(&self) -> u64 {
        self.groups.len() as u64 / 8 / self.layout.width() as u64
    }
}

/// A kernel with its memory.
pub(crate) struct Kernel {
    pub(crate) program: Arc<Program>,
    pub(crate) generated: Arc<Generated>,
    pub(crate) state: State,
    /// Just before its last launch.
    pub(super) started: RefCell<Option<Event>>,
    /// Groups that found no room on the device.
    pub(super) runs: Vec<Run>,
    /// Sorted rows that found no room on the device.
    pub(super) sorted_runs: Vec<SortedRun>,
    /// Rows of a hash table that found no room on the device.
    pub(super) table_runs: Vec<Rows>,
    /// The hash table that it builds may be spilled.
    pub(super) spills_table: bool,
    /// Rows that come out at most, as far as that is known.
    pub(super) rows_max: u64,
}

impl Kernel {
    pub(crate) fn new(program: Arc<Program>, generated: Arc<Generated>) -> Self {
        let (state, started) = (State::default(), RefCell::new(None));
        Self {
            program,
            generated,
            state,
            started,
            runs: Vec::new(),
            sorted_runs: Vec::new(),
            table_runs: Vec::new(),
            spills_table: false,
            rows_max: u64::MAX,
        }
    }

    /// The layout of groups found by hashing that lead nowhere, if that is what it ends in: they can be spilled.
    pub(super) fn spillable_groups(&self) -> Option<&GroupLayout> {
        let SinkLayout::Groups(layout) = &self.generated.sink else { return None };
        let is_hashed = matches!(layout.kind, GroupKind::Hashed | GroupKind::Wide);
        (is_hashed && !layout.has_text_heap()).then_some(layout)
    }

    /// Whether it ends in groups by position.
    fn has_direct_groups(&self) -> bool {
        matches!(&self.generated.sink, SinkLayout::Groups(layout) if layout.kind == GroupKind::Direct)
    }

    /// Whether it builds a table by position, which is in vain where keys are not unique.
    pub(super) fn is_direct_build(&self) -> bool {
        matches!(&self.generated.sink, SinkLayout::Build(layout) if layout.kind == TableKind::Direct)
    }
}

impl<'r> Execution<'r> {
    /// For `worker`, of whose pipelines `shared` says who runs what.
    pub(crate) fn new(
        (runtime, worker, turn): (&'r Runtime, &'r Worker, Turn),
        plan: &'r Plan,
        shared: &Arc<[Shared]>,
        given: &Given<'r>,
        cancel: &'r CancelFlag,
        tracer: Option<&'r Tracer>,
    ) -> Result<Self> {
        let lane = worker.first_lane(&runtime.machine, &turn, cancel)?;
        let stream = &lane.list()[0].stream;
        let trace = tracer.map(|tracer| RunTrace::new(tracer, worker.index, stream)).transpose()?;
        Ok(Self {
            is_apart: false,
            refusals: Refusals::default(),
            turn,
            runtime,
            worker,
            plan,
            shared: Arc::clone(shared),
            cancel,
            rows_taker: given.rows_taker,
            host_bytes_max: given.host_bytes_max,
            wanted_groups: given.wanted_groups,
            texts: given.texts,
            host_inputs: given.host_inputs.clone(),
            parameters: Arc::clone(&given.parameters),
            built: vec![None; plan.table_count],
            groups: HashMap::new(),
            spilled: HashMap::new(),
            resting: Vec::new(),
            sorted_runs: Vec::new(),
            tables: State::default(),
            lane,
            reports: Vec::with_capacity(plan.pipelines.len()),
            trace,
            begun: HashMap::new(),
        })
    }

    /// The reports of the pipelines that it ran, by number, once all is done.
    pub(crate) fn finish(mut self) -> Vec<(usize, PipelineReport)> {
        self.reports.sort_by_key(|(index, _)| *index);
        self.reports
    }

    /// The device that it runs on.
    pub(crate) fn device(&self) -> DeviceId {
        self.worker.device
    }

    /// The groups that pipeline `index` has made.
    pub(crate) fn held(&self, index: usize) -> Option<&Groups> {
        self.groups.get(&index)
    }

    /// From now on these are the groups of pipeline `index`.
    pub(crate) fn hold(&mut self, index: usize, groups: Groups) {
        self.groups.insert(index, groups);
    }

    /// The groups of pipeline `index`, which are not held any longer.
    pub(crate) fn let_go(&mut self, index: usize) -> Option<Groups> {
        self.groups.remove(&index)
    }

    /// The stream of everything but morsels.
    pub(crate) fn stream(&self) -> &Stream {
        &self.lane.list()[0].stream
    }

    /// Leaves a span of the phase that began at `started`, and what memory is held after it.
    pub(super) fn traced(&self, activity: Activity, started: Instant) {
        if let Some(trace) = &self.trace {
            trace.phase(activity, started);
            trace.memory(&self.runtime.machine, self.worker.device);
        }
    }

    /// Runs pipeline `index`; gives its rows, if it ends in any.
    pub(crate) fn pipeline(&mut self, index: usize) -> Result<Option<Rows>> {
        let pipeline = &self.plan.pipelines[index];
        let begun = self.begun.remove(&index);
        let mut report = begun
            .unwrap_or_else(|| PipelineReport { name: pipeline.name.clone(), ..PipelineReport::default() });
        if let Some(trace) = &self.trace {
            trace.begin_pipeline(index);
        }
        self.refusals.clear();
        self.step_aside_if_asked(&mut Memory::default(), &mut report)?;
        if let Source::Table(scan) = &pipeline.source {
            self.admit(scan, &mut report)?;
        }
        let started = Instant::now();
        let mut prepared = loop {
            match self.prepare(pipeline) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    self.make_way(refusal, &mut Memory::default(), &mut report)?;
                }
                prepared => break prepared?,
            }
        };
        let described = self.described(pipeline, &prepared);
        let pipeline = described.as_ref().unwrap_or(pipeline);
        report.prepare = started.elapsed();
        self.traced(Activity::Prepare, started);
        report.sink = match &pipeline.sink {
            Sink::Build { .. } => "table",
            Sink::Aggregate { .. } => "groups",
            Sink::Materialize { .. } => "room for rows",
        };
        let outcome = match self.spilled_probe(pipeline, 0) {
            Some(at) => self.run_in_partitions((index, pipeline), prepared, at, &mut report)?,
            None => {
                let outcome = self.attempts((index, pipeline), &mut prepared, &mut report)?;
                drop(prepared);
                outcome
            }
        };
        let rows = match outcome {
            Outcome::Built(table, state) => {
                report.rows_out = table.row_count;
                check_constant_key(&pipeline.sink, table.row_count)?;
                self.keep_table(&pipeline.sink, *table, state);
                None
            }
            Outcome::Spilled(spilled) => {
                report.rows_out = spilled.row_count;
                self.keep_spilled(&pipeline.sink, spilled);
                None
            }
            Outcome::Groups(groups) => {
                report.rows_out = groups.count();
                self.groups.insert(index, groups);
                None
            }
            Outcome::Rows(rows) => {
                // Others may have been given out.
                report.rows_out += rows.row_count as u64;
                Some(rows)
            }
            Outcome::NotUnique | Outcome::NoRoom => unreachable!("another table was tried"),
        };
        self.turn.gave_back();
        let apart = report.generate + report.compile + report.reader_wait;
        report.elapsed = started.elapsed().saturating_sub(apart);
        self.reports.push((index, report));
        Ok(rows)
    }

    /// Runs a pipeline, or a part of one, with another kind of sink where the first is not the right one.
    pub(super) fn attempts(
        &mut self,
        (index, pipeline): (usize, &Pipeline),
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let keys = built_keys(pipeline);
        let mut is_hashed = self.has_repeating_keys(pipeline);
        loop {
            self.cancel.check()?;
            match self.attempt((index, pipeline), prepared, is_hashed, report)? {
                Outcome::NotUnique => {
                    report.repeats += 1;
                    is_hashed = true;
                    self.runtime.repeating_keys().extend(keys);
                }
                Outcome::NoRoom => is_hashed = true,
                outcome => return Ok(outcome),
            }
        }
    }

    /// `pipeline` as its source lies, where that is groups.
    fn described(&self, pipeline: &Pipeline, prepared: &Prepared) -> Option<Pipeline> {
        prepared.groups.map(|from| described(pipeline, self.groups[&from].layout()))
    }

    /// Whether an earlier run found that keys of the table that `pipeline` builds repeat.
    fn has_repeating_keys(&self, pipeline: &Pipeline) -> bool {
        built_keys(pipeline).is_some_and(|keys| self.runtime.repeating_keys().contains(&keys))
    }

    fn keep_table(&mut self, sink: &Sink, table: BuiltTable, state: State) {
        let Sink::Build { table: number, .. } = sink else { unreachable!("only builds leave tables") };
        self.tables.adopt(&state, |arg| arg.is_of_table(*number));
        self.built[*number] = Some(table);
    }

    fn keep_spilled(&mut self, sink: &Sink, table: Arc<SpilledTable>) {
        let Sink::Build { table: number, .. } = sink else { unreachable!("only builds leave tables") };
        self.spilled.insert(*number, table);
    }

    fn attempt(
        &mut self,
        (index, pipeline): (usize, &Pipeline),
        prepared: &mut Prepared,
        is_hashed: bool,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        // Rows of a try that came to nothing do not count.
        (report.rows_in, report.rows_out) = (0, 0);
        let (generated, program) = self.kernel((index, pipeline), prepared, is_hashed, report)?;
        let started = Instant::now();
        let mut kernel = Kernel::new(program, generated);
        if !kernel.generated.has_repeated_rows() {
            kernel.rows_max = prepared.row_count;
        }
        if let SinkLayout::Rows(layout) = &kernel.generated.sink {
            prepared.rows_layout = Some(layout.clone());
        }
        kernel.spills_table = self.may_spill_table(&kernel, &pipeline.sink);
        let is_divided = self.shared[index].is_divided(&pipeline.sink);
        // Workers that divide a pipeline find groups in the same way.
        let has_direct_groups = kernel.has_direct_groups() && !is_divided;
        let is_direct = kernel.is_direct_build() || has_direct_groups;
        let mut kernel = match self.with_sink(kernel, (pipeline, prepared), report) {
            // A hashed one may be smaller. Nothing was scanned.
            Err(refusal) if is_direct && is_out_of_memory(&refusal) => return Ok(Outcome::NoRoom),
            kernel => kernel?,
        };
        report.allocate += started.elapsed();
        self.traced(Activity::Allocate, started);
        report.state_bytes = kernel.state.bytes();
        let started = Instant::now();
        let rows = match &pipeline.source {
            Source::Table(scan) => self.run_scan(&mut kernel, (index, pipeline, scan), prepared, report),
            _ if prepared.waiting.is_some() => self.run_waiting(&mut kernel, prepared, report),
            Source::HostInput(_) => self.run_host_input(&mut kernel, prepared, report),
            Source::Groups(from) => self.run_groups(&mut kernel, *from, prepared, report),
        };
        let rows = match rows {
            // Hashed groups can be spilled.
            Err(refusal) if has_direct_groups && is_out_of_memory(&refusal) => {
                self.lane.wait_blocking()?;
                return Ok(Outcome::NoRoom);
            }
            rows => rows?,
        };
        report.run += started.elapsed();
        let started = Instant::now();
        let is_aggregate = matches!(pipeline.sink, Sink::Aggregate { .. });
        let is_read = is_aggregate && (is_divided || self.plan.has_groups_reader(index));
        let may_spill = self.may_spill_table(&kernel, &pipeline.sink);
        let outcome = match kernel.runs.is_empty() {
            true if !kernel.table_runs.is_empty() => {
                self.finish_spilled_table(kernel, &pipeline.sink, report)
            }
            false => self.merge_runs(kernel, is_read, report),
            true if is_read => hold_groups(self, kernel),
            true => {
                let must_be_unique = match &pipeline.sink {
                    Sink::Build { table, .. } => self.plan.unique_tables.contains(table),
                    _ => false,
                };
                let source = prepared.groups.and_then(|from| match &self.groups[&from] {
                    Groups::Held(held) => Some(&**held),
                    Groups::Spilled(_) => None,
                });
                let end = End { source, must_be_unique, is_part: is_divided };
                match kernel.held_rows().is_some() {
                    true => self.finish_held_rows(kernel, source.cloned(), is_divided, report),
                    false => finish(self, kernel, rows, end, report),
                }
            }
        };
        let outcome = self.spill_if_large(outcome?, (&pipeline.sink, may_spill), report);
        report.finish += started.elapsed();
        self.traced(Activity::Result, started);
        outcome
    }

    /// The kernel of a pipeline: generated and compiled by the first worker that comes here, so that what all of them
    /// make has one layout, and compilers do nothing twice.
    fn kernel(
        &self,
        (index, pipeline): (usize, &Pipeline),
        prepared: &Prepared,
        is_hashed: bool,
        report: &mut PipelineReport,
    ) -> Result<(Arc<Generated>, Arc<Program>)> {
        let mut compiled = None;
        let compile = |generated: &Generated| {
            let compiled = self.runtime.compile(self.worker, generated, self.cancel);
            compiled.context(|| format!("pipeline '{}'", pipeline.name))
        };
        let (mut started, mut generate) = (Instant::now(), Duration::ZERO);
        if prepared.is_part {
            let generated = Arc::new(self.generate((index, pipeline), prepared, is_hashed)?);
            report.generate += started.elapsed();
            let (program, compiled) = compile(&generated)?;
            report.add_compile(&compiled);
            self.fixed_kernels(report)?;
            return Ok((generated, program));
        }
        let kind = self.kind(pipeline, is_hashed);
        let generated = self.shared[index].generated(kind, || {
            started = Instant::now();
            let generated = self.generate((index, pipeline), prepared, is_hashed)?;
            generate = started.elapsed();
            self.traced(Activity::Generate, started);
            started = Instant::now();
            compiled = Some(compile(&generated)?);
            Ok(generated)
        })?;
        let (program, compile) = match compiled {
            Some(compiled) => compiled,
            None => compile(&generated)?,
        };
        report.generate += generate;
        report.add_compile(&compile);
        self.fixed_kernels(report)?;
        self.traced(Activity::Compile, started);
        Ok((generated, program))
    }

    /// Which of the kernels of `pipeline` is for this worker.
    pub(crate) fn kind(&self, pipeline: &Pipeline, is_hashed: bool) -> Kind {
        let is_hashed_table = |op: &Op| {
            let Op::Probe { table, .. } = op else { return None };
            Some(self.built[*table].as_ref().is_some_and(|built| built.layout.kind == TableKind::Hashed))
        };
        let hashed_tables = pipeline.ops.iter().filter_map(is_hashed_table).collect();
        Kind { is_hashed, is_beside: self.worker.is_beside, hashed_tables }
    }

    /// Compiles the kernels that are the same for every query, which any may come to need, unless they are there.
    fn fixed_kernels(&self, report: &mut PipelineReport) -> Result<()> {
        let (_, compiled) = self.runtime.fixed_program(self.worker)?;
        compiled.iter().for_each(|compiled| report.add_compile(compiled));
        Ok(())
    }

    pub(super) fn generate(
        &self,
        (index, pipeline): (usize, &Pipeline),
        prepared: &Prepared,
        is_hashed: bool,
    ) -> Result<Generated> {
        let memory_bytes = self.device_memory_limit()?;
        let is_divided = self.shared[index].is_divided(&pipeline.sink);
        let options = &self.runtime.options;
        let groups_expected = self.groups_to_begin_with(pipeline, prepared)?;
        let is_expected = matches!(&pipeline.sink, Sink::Aggregate { expected: Some(_), .. });
        // Beside devices groups lie as theirs do.
        let is_of_host = self.worker.is_host() && !self.worker.is_beside;
        let request = |is_sliced| Request {
            pipeline,
            source: &prepared.columns,
            tables: &self.built,
            groups: prepared.groups.map(|from| self.groups[&from].layout()),
            dictionaries: prepared.dictionaries.clone(),
            row_count: prepared.row_count,
            is_hashed,
            direct_keys_max: DIRECT_KEYS_MAX.min(memory_bytes / 256).max(1024),
            groups_expected,
            // States of all places go from one worker to another.
            direct_bytes_max: if is_divided { 0 } else { memory_bytes / 4 },
            direct_ratio_max: if is_expected && is_of_host { HOST_DIRECT_RATIO_MAX } else { 1 },
            table_keys_max: TABLE_KEYS_MAX.min(memory_bytes / 64),
            has_equal_hashes: options.equal_hashes,
            is_predicated: options.filters == Filters::Predicated,
            is_sliced,
            checks_everywhere: options.overflow_checks == OverflowChecks::Everywhere,
            wants_keys: self.wants_keys(&pipeline.sink),
            is_key_set: matches!(&pipeline.sink, Sink::Build { table, .. } if codegen::is_key_set(self.plan, *table)),
        };
        self.runtime.generate(self.worker, |is_sliced| codegen::generate(request(is_sliced)))
    }

    /// Whether the host's cores work beside devices in this run.
    pub(super) fn is_with_host(&self) -> bool {
        self.shared.iter().any(|shared| shared.worker_count() > self.runtime.workers.len())
    }

    /// The tasks of pipeline `index`, and the number under which this worker takes them: shared ones where the
    /// pipeline is divided, else all.
    pub(super) fn tasks(&self, index: usize) -> (Arc<Tasks>, usize) {
        match self.shared[index].is_divided(&self.plan.pipelines[index].sink) {
            true => (Arc::clone(&self.shared[index].tasks), self.worker.index),
            false => (Tasks::new(1), 0),
        }
    }

    /// `kernel` with the memory of its sink. What is found by hashing begins with less room where memory is short: it
    /// grows.
    fn with_sink(
        &mut self,
        mut kernel: Kernel,
        (pipeline, prepared): (&Pipeline, &mut Prepared),
        report: &mut PipelineReport,
    ) -> Result<Kernel> {
        let mut room = match &pipeline.sink {
            Sink::Aggregate { .. } => self.groups_to_begin_with(pipeline, prepared)?,
            Sink::Materialize { order: Some(order), .. } => {
                self.held_rows_to_begin_with(&kernel, order, prepared)?
            }
            _ => {
                self.table_rows_to_begin_with(&kernel, self.rows_to_begin_with(&kernel, pipeline, prepared))?
            }
        };
        loop {
            kernel.state = self.tables.clone();
            self.set_parameters(&mut kernel)?;
            let refusal = match self.allocate(&mut kernel, room) {
                Err(refusal) if is_out_of_memory(&refusal) => refusal,
                allocated => return allocated.map(|()| kernel),
            };
            // Nothing is in it.
            kernel.state = State::default();
            let memory = &mut Memory { kernel: None, prepared: Some(prepared) };
            match self.make_way(refusal, memory, report) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    if !kernel.generated.sink.may_be_full() || room <= ROOM_LEAST {
                        return Err(refusal.context(advice(&kernel)));
                    }
                    room /= 2;
                }
                way => way?,
            }
        }
    }

    /// Gives `kernel` the values of the parameters that it reads.
    fn set_parameters(&self, kernel: &mut Kernel) -> Result<()> {
        for arg in kernel.generated.args.clone() {
            let Arg::ParameterValid(number) = arg else { continue };
            let value = self.parameters.get(number).copied();
            let value = value.ok_or_else(|| {
                Error::invalid_input(format!("parameter {number} of the plan has no value"))
            })?;
            let bits = match value {
                Literal::Bool(value) => i128::from(value),
                Literal::I32(value) => value.into(),
                Literal::I64(value) => value.into(),
                Literal::I128(value) => value,
                Literal::F64(value) => value.to_bits().into(),
                Literal::Null(_) => 0,
            } as u128;
            kernel.state.set(Arg::Parameter(number), bits as u64);
            kernel.state.set(Arg::ParameterHigh(number), (bits >> 64) as u64);
            kernel.state.set(arg, u64::from(!matches!(value, Literal::Null(_))));
        }
        Ok(())
    }

    /// Whether a later pipeline has a use for the keys that end in `sink`.
    fn wants_keys(&self, sink: &Sink) -> bool {
        let Sink::Build { table, .. } = sink else { return false };
        self.plan.pipelines.iter().any(|pipeline| codegen::wants_keys(pipeline, *table))
    }

    /// Of the device that has the least.
    pub(super) fn device_memory_limit(&self) -> Result<u64> {
        let limit = |worker: &Worker| Ok(self.runtime.machine.device_budget(worker.device)?.limit_bytes());
        let limits = self.runtime.workers.iter().map(limit).collect::<Result<Vec<_>>>()?;
        Ok(limits.into_iter().min().expect("a runtime has a worker"))
    }
}

/// `pipeline`, which reads groups, with what is known of those as its source columns.
fn described(pipeline: &Pipeline, layout: &GroupLayout) -> Pipeline {
    let mut described = pipeline.clone();
    for (column, known) in described.columns.iter_mut().zip(layout.columns()) {
        (column.ty, column.is_nullable, column.bounds) = (known.ty, known.is_nullable, known.bounds);
    }
    described
}

/// What names the keys that `pipeline` builds a table by, if it builds one from a table: by now, and the next time.
fn built_keys(pipeline: &Pipeline) -> Option<u64> {
    let (Source::Table(scan), Sink::Build { keys, .. }) = (&pipeline.source, &pipeline.sink) else {
        return None;
    };
    let mut hasher = DefaultHasher::new();
    (scan.table.id(), &scan.columns, format!("{keys:?} {:?}", pipeline.ops)).hash(&mut hasher);
    Some(hasher.finish())
}

/// # Errors
///
/// `Unsupported` where a table has one key for very many rows.
fn check_constant_key(sink: &Sink, rows: u64) -> Result<()> {
    let Sink::Build { keys, .. } = sink else { unreachable!("only builds leave tables") };
    let is_constant = keys.iter().all(|key| matches!(key, Expr::Literal(_)));
    match is_constant && rows > CONSTANT_KEY_ROWS_MAX {
        true => Err(Error::unsupported(format!(
            "every row would look at each of {rows} others, of {CONSTANT_KEY_ROWS_MAX} at most"
        ))),
        false => Ok(()),
    }
}
