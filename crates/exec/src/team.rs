//! The workers of one run: who runs which pipeline, and how what several have made becomes one.
//!
//! ```text
//!              worker 0            worker 1            worker 2
//!   build      table, all rows     table, all rows     table, all rows      each for itself: small tables
//!   aggregate  groups of its rows  groups of its rows  groups of its rows   row groups are tasks (tasks.rs)
//!                   ◄────────────────────┴───────────────────┘              records, added up (combine.rs)
//!   groups     the first alone; their tables are built by each, of a copy of the groups
//!   rows       ◄────────────────────┴───────────────────┘                  appended on the host, the best k kept; or sorted
//!                                                                          by each worker, merged (sorted_runs.rs)
//! ```
//!
//! The host's cores may be the last worker (host_worker.rs), of pipelines that end in groups. A pipeline is run by the first so many workers: by as many as have a task, or need the table that it builds. With one
//! worker nothing is divided, copied or brought together.
//!
//! That every worker builds every table from all rows of its source is right as long as building takes little of the
//! time that probing saves, and every device holds every table: the tables of a star. Once a build side takes a
//! considerable part of a device's memory, its rows are to be divided by a hash of their key, those of the probe side
//! sent to where their partition is, and only then do more devices hold larger tables. Nothing here does that.
//!
//! The first error ends all workers: it sets the flag that all of them look at. Memory is given back when the team is
//! dropped, which waits for what streams still do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pelton_device::{Buffer, DeviceId, Machine, MemoryArbiter, MemoryKind, OnFull, Span, Stream, Turn};
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{Generated, GroupKind, RowsLayout, SinkLayout};
use pelton_pipeline::ir::{Inputs, Literal, Op, Plan, Sink, Source};
use pelton_trace::Tracer;

use crate::Runtime;
use crate::combine::{Combiner, GroupPartition, GroupsPart, combining_kernel};
use crate::execution::{Execution, Groups, HeldGroups};
use crate::finish::{Outcome, gather_on_host, gather_to, without_key};
use crate::groups_out::{WantedGroups, result_of_groups};
use crate::memory::is_out_of_memory;
use crate::report::PipelineReport;
use crate::results::{append, with_texts};
use crate::rows_out::TakeRows;
use crate::runtime::{RunWith, Worker};
use crate::tasks::{Tasks, in_threads};
use crate::text_ties::ReadTexts;
use crate::top::Top;

/// Bytes of groups that are on their way between two devices at once.
const PIECE_BYTES: usize = 32 << 20;

/// What a caller gives, for each worker to read.
pub(crate) struct Given<'r> {
    pub(crate) host_inputs: Vec<Arc<Rows>>,
    pub(crate) parameters: Arc<[Literal]>,
    pub(crate) rows_taker: Option<&'r dyn TakeRows>,
    pub(crate) host_bytes_max: u64,
    pub(crate) wanted_groups: WantedGroups<'r>,
    pub(crate) texts: Option<&'r dyn ReadTexts>,
}

impl<'r> Given<'r> {
    pub(crate) fn new(plan: &Plan, inputs: Inputs, with: &RunWith<'r>) -> Result<Self> {
        let Inputs { host_inputs, parameters } = inputs;
        if host_inputs.len() != plan.host_input_count {
            let (given, expected) = (host_inputs.len(), plan.host_input_count);
            return Err(Error::invalid_input(format!("{given} host inputs in place of {expected}")));
        }
        let host_inputs = host_inputs.into_iter().map(Arc::new).collect();
        let host_bytes_max = with.host_bytes_max.unwrap_or(u64::MAX);
        let enough = with.groups_enough.unwrap_or(u64::MAX);
        let wanted_groups = WantedGroups { taker: with.groups_taker, enough };
        let (parameters, rows_taker, texts) = (parameters.into(), with.rows_taker, with.texts);
        Ok(Self { host_inputs, parameters, rows_taker, host_bytes_max, wanted_groups, texts })
    }
}

/// What kernels of one pipeline differ in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The table that it builds is hashed.
    pub(crate) is_hashed: bool,
    /// It is for the host's cores beside devices.
    pub(crate) is_beside: bool,
    /// Of each table that it probes, whether that is hashed. A worker whose memory is short hashes what others find by
    /// position.
    pub(crate) hashed_tables: Vec<bool>,
}

/// What the workers of a pipeline share.
pub(crate) struct Shared {
    /// The first so many run it.
    workers: usize,
    pub(crate) tasks: Arc<Tasks>,
    /// Its kernels.
    generated: Mutex<Vec<(Kind, Arc<Generated>)>>,
}

impl Shared {
    /// For each pipeline of `plan`, which so many devices run, and the host's cores where `of_host` says so.
    pub(crate) fn of(plan: &Plan, devices: usize, of_host: &[bool]) -> Arc<[Self]> {
        let shared = |workers| {
            let tasks = if workers > devices { Tasks::of_one_list(workers) } else { Tasks::new(workers) };
            Self { workers, tasks, generated: Mutex::default() }
        };
        workers_of(plan, devices, of_host).into_iter().map(shared).collect()
    }

    /// How many workers run it.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers
    }

    /// Whether each of several workers takes some of the rows.
    pub(crate) fn is_divided(&self, sink: &Sink) -> bool {
        self.workers > 1 && !matches!(sink, Sink::Build { .. })
    }

    /// The kernel, made by `make` if nobody has. Others wait meanwhile.
    pub(crate) fn generated(
        &self,
        kind: Kind,
        make: impl FnOnce() -> Result<Generated>,
    ) -> Result<Arc<Generated>> {
        let mut all = self.generated.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, generated)) = all.iter().find(|(of, _)| *of == kind) {
            return Ok(Arc::clone(generated));
        }
        let generated = Arc::new(make()?);
        all.push((kind, Arc::clone(&generated)));
        Ok(generated)
    }
}

/// How many workers run each pipeline of `plan`, of so many devices and, where `of_host` says so, the host's cores.
fn workers_of(plan: &Plan, workers: usize, of_host: &[bool]) -> Vec<usize> {
    let mut of_tables = vec![1; plan.table_count];
    let mut of_pipelines = vec![1; plan.pipelines.len()];
    for (index, pipeline) in plan.pipelines.iter().enumerate().rev() {
        let count = match (&pipeline.sink, &pipeline.source) {
            (Sink::Build { table, .. }, _) => of_tables[*table],
            _ if of_host.get(index) == Some(&true) => workers + 1,
            (_, Source::Table(scan)) => scan.row_groups.len().clamp(1, workers),
            // Groups are with the first worker; rows that a caller gives are few.
            (_, Source::Groups(_) | Source::HostInput(_)) => 1,
        };
        of_pipelines[index] = count;
        for op in &pipeline.ops {
            if let Op::Probe { table, .. } = op {
                of_tables[*table] = of_tables[*table].max(count);
            }
        }
    }
    of_pipelines
}

/// The workers of a run.
pub(crate) struct Team<'r> {
    plan: &'r Plan,
    /// Of this run alone.
    cancel: &'r CancelFlag,
    shared: Arc<[Shared]>,
    /// The first brings together what the others have made.
    executions: Vec<Execution<'r>>,
    /// By pipeline: groups of all workers together, and how long it took to make them so.
    combined: Vec<Option<(u64, Duration)>>,
    /// How long rows that were merged waited for who takes them.
    reader_wait: Duration,
}

impl<'r> Team<'r> {
    pub(crate) fn new(
        runtime: &'r Runtime,
        plan: &'r Plan,
        given: &Given<'r>,
        of_host: &[bool],
        cancel: &'r CancelFlag,
        tracer: Option<&'r Tracer>,
    ) -> Result<Self> {
        let shared = Shared::of(plan, runtime.workers.len(), of_host);
        // Who runs no pipeline takes nothing.
        let most = shared.iter().map(|shared| shared.workers).max().unwrap_or(1);
        let workers = || runtime.workers.iter().chain(&runtime.host_worker).take(most);
        let devices: Vec<_> = workers().map(|worker| worker.device).collect();
        let turns = match cancel.is_in_background() {
            true => runtime.machine.turns_in_background(&devices)?,
            false => runtime.machine.turns(&devices)?,
        };
        if most > 1 {
            turns.iter().for_each(Turn::rest);
        }
        let execution = |(worker, turn): (&'r Worker, Turn)| {
            turn.resume();
            let execution = Execution::new((runtime, worker, turn), plan, &shared, given, cancel, tracer)?;
            if most > 1 {
                execution.turn.rest();
            }
            Ok(execution)
        };
        let executions = workers().zip(turns).map(execution).collect::<Result<_>>()?;
        let (combined, reader_wait) = (vec![None; plan.pipelines.len()], Duration::ZERO);
        Ok(Self { plan, cancel, shared, executions, combined, reader_wait })
    }

    /// Whether the host's cores take part in pipelines of a stage.
    pub(crate) fn has_host_in(&self, indexes: &[usize]) -> bool {
        let devices = self.executions.iter().filter(|execution| !execution.worker.is_beside).count();
        indexes.iter().any(|index| self.shared[*index].workers > devices)
    }

    /// Runs the pipelines of a stage; gives the rows of the one that ends in any.
    pub(crate) fn stage(&mut self, indexes: &[usize]) -> Result<Option<Rows>> {
        self.in_turn(|team| team.copy_groups(indexes))?;
        let parts = self.run(indexes)?;
        self.let_copies_go(indexes);
        let is_divided = |index: &usize| self.shared[*index].is_divided(&self.plan.pipelines[*index].sink);
        let is_aggregate = |index: &usize| matches!(self.plan.pipelines[*index].sink, Sink::Aggregate { .. });
        let (aggregates, others): (Vec<usize>, Vec<usize>) =
            indexes.iter().copied().filter(is_divided).partition(is_aggregate);
        let mut rows = match others.first() {
            Some(index) => self.append(*index, parts)?,
            // What is not divided, the first worker has.
            None => parts.into_iter().next().flatten(),
        };
        for index in aggregates {
            rows = self.combine(index)?.or(rows);
        }
        Ok(rows)
    }

    /// All workers run their pipelines of a stage; gives the rows that each has.
    fn run(&mut self, indexes: &[usize]) -> Result<Vec<Option<Rows>>> {
        let (cancel, shared, is_alone) = (self.cancel, &self.shared, self.executions.len() == 1);
        let barrier = Barrier::of(&self.executions);
        let outcomes = in_threads(&mut self.executions, |execution| {
            let stop = StopAll(cancel);
            let is_own = |index: &usize| shared[*index].workers > execution.worker.index;
            let own: Vec<usize> = indexes.iter().copied().filter(is_own).collect();
            execution.turn.resume();
            let rows = execution.stage(&own)?;
            if !is_alone {
                execution.wait_for_others(&barrier)?;
                execution.turn.be_busy();
            }
            std::mem::forget(stop);
            Ok(rows)
        });
        let is_cause = |outcome: &Result<_>| {
            outcome.as_ref().is_err_and(|error: &Error| *error.kind() != ErrorKind::Cancelled)
        };
        // The others say that they were cancelled.
        match outcomes.iter().position(is_cause) {
            Some(cause) => Err(outcomes.into_iter().nth(cause).and_then(Result::err).expect("an error")),
            None => outcomes.into_iter().collect(),
        }
    }

    /// The rows of all workers.
    fn append(&mut self, index: usize, parts: Vec<Option<Rows>>) -> Result<Option<Rows>> {
        let never = || unreachable!("the workers have generated it");
        let kind = self.executions[0].kind(&self.plan.pipelines[index], false);
        let generated = self.shared[index].generated(kind, never)?;
        let SinkLayout::Rows(layout) = &generated.sink else { unreachable!("a pipeline that ends in rows") };
        if layout.order.is_some() {
            return self.merge_sorted(index, layout).map(Some);
        }
        let mut rows = Rows::default();
        parts.into_iter().flatten().try_for_each(|part| append(&mut rows, part))?;
        if let Some(mut top) = Top::of_rows(layout) {
            top.keep_best(&mut rows);
        }
        with_texts(without_key(rows, layout), &layout.columns, &[]).map(Some)
    }

    /// The rows that each worker has sorted, in one order.
    fn merge_sorted(&mut self, index: usize, layout: &RowsLayout) -> Result<Rows> {
        let runs =
            self.executions.iter_mut().flat_map(|execution| std::mem::take(&mut execution.sorted_runs));
        let runs = runs.collect();
        // Nothing of it is on devices but the tables that it probed: others do not wait for the rest of this query.
        self.executions[1..].iter().for_each(|execution| execution.turn.rest());
        let (started, mut report) = (Instant::now(), PipelineReport::default());
        let rows = self.executions[0].merge_sorted(runs, layout, &[], true, &mut report)?;
        let elapsed = started.elapsed().saturating_sub(report.reader_wait);
        self.combined[index] = Some((report.rows_out + rows.row_count as u64, elapsed));
        self.reader_wait += report.reader_wait;
        Ok(rows)
    }

    /// Makes one of the groups that workers have made of their rows; gives them as rows where nobody reads them.
    fn combine(&mut self, index: usize) -> Result<Option<Rows>> {
        let started = Instant::now();
        if !self.in_turn(|team| team.combine_held(index))? {
            return self.combine_spilled(index, started);
        }
        let Some(Groups::Held(held)) = self.executions[0].let_go(index) else {
            unreachable!("the first worker has the groups of all")
        };
        let (first, mut report, count) = (&self.executions[0], PipelineReport::default(), held.count);
        let rows = match self.plan.has_groups_reader(index) {
            true => None,
            false => Some(result_of_groups(first, &held, Some(count), &mut report)?),
        };
        self.combined[index] = Some((count, started.elapsed().saturating_sub(report.reader_wait)));
        self.reader_wait += report.reader_wait;
        if rows.is_none() {
            self.executions[0].hold(index, Groups::Held(held));
        }
        Ok(rows)
    }

    /// Adds the groups of all workers to a table of the first one, as long as they are on devices and it has room; whether
    /// it has all of them. A worker holds its groups until they are added, so this may be tried again.
    fn combine_held(&mut self, index: usize) -> Result<bool> {
        let mut parts = Vec::new();
        for (worker, execution) in self.executions[..self.shared[index].workers].iter().enumerate() {
            match execution.held(index) {
                Some(Groups::Held(held)) => parts.push((worker, HeldGroups::clone(held))),
                Some(Groups::Spilled(_)) => return Ok(false),
                // They were added when this was tried before.
                None => {}
            }
        }
        let (_, own) = parts.remove(0);
        if let Some((_, other)) = parts.iter().find(|(_, part)| !part.layout.lies_as(&own.layout)) {
            let (one, other) = (&own.layout.kind, &other.layout.kind);
            return Err(Error::unsupported(format!("groups that lie differently: {one:?} and {other:?}")));
        }
        let all = || [&own].into_iter().chain(parts.iter().map(|(_, part)| part));
        let groups_max = all().map(|part| part.count).sum();
        let heap_bytes = all().flat_map(|part| &part.heap).map(|heap| heap.len() as u64).sum();
        let is_hashed = matches!(own.layout.kind, GroupKind::Hashed | GroupKind::Wide);
        // Texts are not merged on the host.
        let is_spillable = is_hashed && own.heap.is_none();
        let refused = |refusal: Error| match is_spillable && is_out_of_memory(&refusal) {
            true => Ok(false),
            false => Err(refusal),
        };
        // Where a larger table is made, this one is not needed any more.
        drop(self.executions[0].let_go(index));
        let first = &self.executions[0];
        let made = first.making_room(|| Combiner::onto(first, &own, groups_max, heap_bytes));
        let combiner = match made {
            Ok(combiner) => combiner,
            Err(refusal) => {
                self.executions[0].hold(index, Groups::Held(Box::new(own)));
                return refused(refusal);
            }
        };
        drop(own);
        let (mut added, mut refusal) = (Vec::new(), None);
        for (worker, part) in parts {
            self.cancel.check()?;
            let other = &self.executions[worker];
            let says = || format!("adding groups of {} to those of {}", other.device(), first.device());
            match Crossing::between(first, other, &part) {
                Err(error) => {
                    refusal = Some(error.context(says()));
                    break;
                }
                Ok(crossing) => crossing.add_to(&combiner, &part).context(says)?,
            }
            added.push(worker);
        }
        let held = combiner.finish()?;
        self.executions[0].hold(index, Groups::Held(Box::new(held)));
        added.into_iter().for_each(|worker| drop(self.executions[worker].let_go(index)));
        refusal.map_or(Ok(true), refused)
    }

    /// As `attempt`, which may be tried again. Where it finds no memory since older queries hold it, all workers let go
    /// of theirs until there is no older one: they cannot wait one by one, each for what a query holds that waits for
    /// another of them.
    fn in_turn<T>(&mut self, mut attempt: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        match attempt(self) {
            Err(refusal) if is_out_of_memory(&refusal) => {
                if self.executions.iter().all(|execution| execution.turn.is_oldest()) {
                    return Err(refusal);
                }
                self.executions.iter_mut().try_for_each(Execution::let_memory_go)?;
                self.executions.iter_mut().try_for_each(Execution::take_memory_as_oldest)?;
                attempt(self)
            }
            outcome => outcome,
        }
    }

    /// Merges groups of several workers as the first merges its runs.
    fn combine_spilled(&mut self, index: usize, started: Instant) -> Result<Option<Rows>> {
        // The first one may wait for memory: others do not wait for the rest of this query meanwhile.
        self.executions.iter().for_each(|execution| execution.turn.rest());
        self.executions[0].turn.resume();
        let (mut layout, mut runs) = (None, Vec::new());
        for execution in &mut self.executions[..self.shared[index].workers] {
            let part = execution.let_go(index);
            layout = layout.or_else(|| part.as_ref().map(|part| part.layout().clone()));
            match part {
                Some(Groups::Held(held)) => runs.push(gather_on_host(execution, &held)?),
                Some(Groups::Spilled(spilled)) => runs.extend(spilled.partitions.iter().cloned()),
                // They are among those of the first.
                None => {}
            }
        }
        let layout = layout.expect("a worker of an aggregate has groups");
        let (first, mut report) = (&mut self.executions[0], PipelineReport::default());
        let mut kernel = combining_kernel(first, &layout)?;
        kernel.runs = runs;
        let is_read = self.plan.has_groups_reader(index);
        let (rows, groups) = match first.merge_all(kernel, &layout, is_read, &mut report)? {
            Outcome::Groups(groups) => {
                let count = groups.count();
                first.hold(index, groups);
                (None, count)
            }
            Outcome::Rows(rows) => {
                let count = rows.row_count as u64;
                (Some(rows), count)
            }
            _ => unreachable!("groups are merged to groups or rows"),
        };
        self.combined[index] = Some((groups, started.elapsed()));
        Ok(rows)
    }

    /// The groups that pipelines of a stage read on other workers than the first.
    fn copied_groups(&self, indexes: &[usize]) -> Vec<(usize, usize)> {
        let source = |index: &usize| match self.plan.pipelines[*index].source {
            Source::Groups(from) => Some((from, self.shared[*index].workers)),
            _ => None,
        };
        indexes.iter().filter_map(source).filter(|(_, workers)| *workers > 1).collect()
    }

    fn copy_groups(&mut self, indexes: &[usize]) -> Result<()> {
        for (from, workers) in self.copied_groups(indexes) {
            let (first, others) = self.executions.split_first_mut().expect("a team has a worker");
            let machine = first.runtime.machine();
            let held = match first.held(from) {
                Some(Groups::Held(held)) => HeldGroups::clone(held),
                Some(spilled) => {
                    let spilled = spilled.clone();
                    others[..workers - 1].iter_mut().for_each(|other| other.hold(from, spilled.clone()));
                    continue;
                }
                None => continue,
            };
            for other in &mut others[..workers - 1] {
                if other.held(from).is_some() {
                    continue;
                }
                let copied = other.making_room(|| {
                    let copy = |span: &Span| {
                        let target = on_device(other, span.len())?;
                        let staged = staging(machine, first.device(), other.device(), span.len())?;
                        copy_across((first.stream(), span), (other.stream(), &target), staged.as_ref())?;
                        Ok(target)
                    };
                    Ok(HeldGroups {
                        layout: held.layout.clone(),
                        groups: copy(&held.groups)?,
                        keys: held.keys.as_ref().map(copy).transpose()?,
                        heap: held.heap.as_ref().map(copy).transpose()?,
                        count: held.count,
                    })
                });
                other.hold(from, Groups::Held(Box::new(copied?)));
            }
        }
        Ok(())
    }

    fn let_copies_go(&mut self, indexes: &[usize]) {
        for (from, workers) in self.copied_groups(indexes) {
            self.executions[1..workers].iter_mut().for_each(|other| drop(other.let_go(from)));
        }
    }

    /// The reports of all pipelines, in order, each of all its workers.
    pub(crate) fn finish(self) -> Vec<PipelineReport> {
        let devices = self.executions.iter().filter(|execution| !execution.worker.is_beside).count();
        let mut reports: Vec<Option<PipelineReport>> = vec![None; self.plan.pipelines.len()];
        for (index, report) in self.executions.into_iter().flat_map(Execution::finish) {
            let (workers, sink) = (self.shared[index].workers, &self.plan.pipelines[index].sink);
            let is_divided = self.shared[index].is_divided(sink);
            match &mut reports[index] {
                Some(all) => all.add_worker(report, is_divided),
                None if is_divided => {
                    let (rows, run_bytes) = (vec![report.rows_in], vec![report.run_bytes]);
                    reports[index] = Some(PipelineReport {
                        rows_by_worker: rows,
                        run_bytes_by_worker: run_bytes,
                        is_with_host: workers > devices,
                        ..report
                    });
                }
                None => {
                    let copies = if workers > 1 { 1 } else { 0 };
                    reports[index] = Some(PipelineReport { copies, ..report });
                }
            }
        }
        for (report, combined) in reports.iter_mut().zip(self.combined) {
            if let (Some(report), Some((groups, elapsed))) = (report, combined) {
                report.rows_out = groups;
                if report.sorted_runs > 0 {
                    report.merge += elapsed;
                    report.reader_wait += self.reader_wait;
                }
                report.finish += elapsed;
                report.elapsed += elapsed;
            }
        }
        reports.into_iter().flatten().collect()
    }
}

/// Where workers wait for each other at the end of a stage. Once it is over none of them is parked.
pub(crate) struct Barrier {
    left: AtomicUsize,
    arbiters: Vec<Arc<MemoryArbiter>>,
}

impl Barrier {
    fn of(executions: &[Execution<'_>]) -> Self {
        let arbiters = executions.iter().map(|execution| Arc::clone(execution.turn.arbiter())).collect();
        Self { left: AtomicUsize::new(executions.len()), arbiters }
    }

    /// One worker is done.
    pub(crate) fn arrive(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.arbiters.iter().for_each(|arbiter| arbiter.wake());
        }
    }

    /// One worker parks, so that others go on waiting for it; false where all are done already. It arrives again later.
    pub(crate) fn leave(&self) -> bool {
        let leave = |left| (left > 0).then_some(left + 1);
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave).is_ok()
    }

    /// Whether all are.
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// Ends all workers when it is dropped: by an error, or a panic.
struct StopAll<'f>(&'f CancelFlag);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn on_device(execution: &Execution<'_>, bytes: usize) -> Result<Span> {
    allocate(execution.runtime.machine(), execution.device(), bytes)
}

fn allocate(machine: &Machine, device: DeviceId, bytes: usize) -> Result<Span> {
    Ok(machine.allocate(MemoryKind::Device(device), bytes.max(8), OnFull::Refuse)?.span())
}

/// The way of one worker's groups to another, with all memory that it takes: once some are added, nothing is refused.
struct Crossing<'e, 'r> {
    first: &'e Execution<'r>,
    other: &'e Execution<'r>,
    /// Places that cross at once.
    step: u64,
    group_bytes: usize,
    landing: Span,
    /// Of hashed groups: the number of those that there are, then these.
    gathered: Option<Span>,
    heap: Option<Span>,
    staged: Option<Buffer>,
}

impl<'e, 'r> Crossing<'e, 'r> {
    /// For what `other` holds: of hashed groups only those that there are, of others all places.
    fn between(first: &'e Execution<'r>, other: &'e Execution<'r>, held: &HeldGroups) -> Result<Self> {
        let state_bytes = held.layout.width() * 8;
        let is_hashed = matches!(held.layout.kind, GroupKind::Hashed | GroupKind::Wide);
        let group_bytes = if is_hashed { state_bytes + 8 } else { state_bytes };
        let piece = (PIECE_BYTES / group_bytes).max(1) as u64;
        let groups = if is_hashed { held.count } else { held.places() };
        // Groups that fit are brought at once, however many places they are spread over.
        let step = if groups <= piece { held.places() } else { piece };
        let room = groups.min(step) as usize;
        let landing = first.making_room(|| on_device(first, room * group_bytes))?;
        let gathered =
            is_hashed.then(|| other.making_room(|| on_device(other, 8 + room * group_bytes))).transpose()?;
        let heap = held.heap.as_ref().map(|heap| first.making_room(|| on_device(first, heap.len())));
        let heap = heap.transpose()?;
        let longest = landing.len().max(heap.as_ref().map_or(0, Span::len));
        let staged = staging(first.runtime.machine(), other.device(), first.device(), longest)?;
        Ok(Self { first, other, step, group_bytes, landing, gathered, heap, staged })
    }

    /// Adds the groups piece by piece.
    fn add_to(&self, combiner: &Combiner<'_, '_>, held: &HeldGroups) -> Result<()> {
        let Self { first, other, landing, .. } = self;
        let (stream, staged) = (first.stream(), self.staged.as_ref());
        let cross = |from: &Span, to: &Span| copy_across((other.stream(), from), (stream, to), staged);
        if let Some((from, to)) = held.heap.as_ref().zip(self.heap.as_ref()) {
            cross(from, to)?;
        }
        for first_place in (0..held.places()).step_by(self.step as usize) {
            let places = first_place..held.places().min(first_place + self.step);
            match &self.gathered {
                Some(gathered) => {
                    let count = gather_to(other, held, places, gathered)?;
                    let bytes = 8..8 + count as usize * self.group_bytes;
                    let records = landing.slice(0..bytes.len());
                    cross(&gathered.slice(bytes), &records)?;
                    let part = GroupsPart::Records { records: &records, count };
                    combiner.add_with_texts(&part, GroupPartition::ALL, self.heap.as_ref())?;
                }
                None => {
                    let width = self.group_bytes;
                    let bytes = places.start as usize * width..places.end as usize * width;
                    let states = landing.slice(0..bytes.len());
                    cross(&held.groups.slice(bytes), &states)?;
                    let part = GroupsPart::Places { states: &states, first_place };
                    combiner.add_with_texts(&part, GroupPartition::ALL, self.heap.as_ref())?;
                }
            }
            // The next piece lands where this one lies.
            stream.wait_blocking()?;
        }
        Ok(())
    }
}

/// Pinned memory through which up to so many bytes go from one device to another; none where that reaches the memory of
/// the first.
fn staging(machine: &Machine, from: DeviceId, to: DeviceId, bytes: usize) -> Result<Option<Buffer>> {
    if machine.is_peer(to, from) {
        return Ok(None);
    }
    machine.allocate(MemoryKind::PINNED, bytes.clamp(8, PIECE_BYTES), OnFull::Refuse).map(Some)
}

/// Copies between two devices, each of which is given with a stream of its own, and waits: through `staged` where there is
/// some, else over their link. The source is complete.
fn copy_across(
    (source_stream, source): (&Stream, &Span),
    (stream, target): (&Stream, &Span),
    staged: Option<&Buffer>,
) -> Result<()> {
    let Some(staged) = staged else {
        stream.copy(source, target)?;
        return stream.wait_blocking();
    };
    for (source, target) in source.chunks(staged.len()).zip(target.chunks(staged.len())) {
        let staged = staged.slice(0..source.len());
        source_stream.copy(&source, &staged)?;
        source_stream.wait_blocking()?;
        stream.copy(&staged, &target)?;
        stream.wait_blocking()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pelton_device::Place;
    use pelton_device::host::{self, HostOptions};

    use super::*;
    use crate::memory::download_blocking;

    #[test]
    fn groups_are_copied_between_devices_that_do_not_reach_each_other() {
        for has_peer_access in [true, false] {
            let options = HostOptions { device_count: 2, has_peer_access, ..HostOptions::default() };
            let machine = host::open(&options);
            let [first, second] =
                [0, 1].map(|device| machine.stream(Place::Device(DeviceId(device))).unwrap());
            let bytes: Vec<u8> = (0..PIECE_BYTES + 4096).map(|at| (at % 251) as u8).collect();
            let given = machine.allocate(MemoryKind::PINNED, bytes.len(), OnFull::Refuse).unwrap();
            given.with_bytes_mut(|target| target.copy_from_slice(&bytes)).unwrap();
            let [source, target] =
                [0, 1].map(|device| allocate(&machine, DeviceId(device), bytes.len()).unwrap());
            first.copy(&given.span(), &source).unwrap();
            first.wait_blocking().unwrap();
            let staged = staging(&machine, DeviceId(0), DeviceId(1), bytes.len()).unwrap();
            assert_eq!(staged.is_none(), has_peer_access);
            copy_across((&first, &source), (&second, &target), staged.as_ref()).unwrap();
            assert_eq!(download_blocking(&second, &target).unwrap(), bytes, "peers: {has_peer_access}");
        }
    }
}
