//! Making way when memory is short: what is cached goes, younger queries step aside, or this one does.
//!
//! ```text
//!   device   tables, groups, the sink ──copy──► host        all that is under way is waited for first; what brings
//!                                                │           and scans has been given up by then
//!                                                │ waits     (pelton_device::MemoryArbiter)
//!   device   the same arrays elsewhere ◄──copy── host        words of arguments lead there now
//! ```
//!
//! Arrays refer to each other by index, so they may lie anywhere. A scan goes on with the row groups that it has not
//! come to; rows that wait in its sink are noted (`scan.rs`). So a query that was parked does nothing twice.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use pelton_device::{Buffer, MemoryKind, OnFull, Span};
use pelton_error::{Error, ErrorKind, Result, Tier};
use pelton_pipeline::codegen::Arg;

use super::MemoryTest;
use super::execution::{Execution, Groups, Kernel};
use super::memory::{State, is_out_of_memory, lasting_host_buffer};
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::team::Barrier;

/// Said where cached columns made room.
const EVICTED: &str = "cached columns were evicted to make room; --device-memory-limit gives more";
/// A wish grows no further.
const DOUBLINGS_MAX: u32 = 20;

/// What a pipeline holds beside the tables and groups of its query.
#[derive(Default)]
pub(super) struct Memory<'m> {
    pub(super) kernel: Option<&'m mut Kernel>,
    pub(super) prepared: Option<&'m mut Prepared>,
}

/// Memory that a test has had refused, once each.
#[derive(Default)]
pub(super) struct Refusals {
    seen: RefCell<HashSet<(Arg, usize)>>,
    /// The last refusal was one of these.
    is_forced: Cell<bool>,
    /// Idle lanes have been let go for this pipeline.
    has_let_go: Cell<bool>,
}

impl Refusals {
    /// Another pipeline begins.
    pub(super) fn clear(&self) {
        self.seen.borrow_mut().clear();
        self.is_forced.set(false);
        self.has_let_go.set(false);
    }
}

impl Execution<'_> {
    /// Refuses this memory where it is a test that each is refused once.
    pub(super) fn refuse_first(&self, arg: Arg, bytes: usize) -> Result<()> {
        let is_test = self.runtime.options.memory_test == MemoryTest::RefuseOnce;
        if !is_test || !self.refusals.seen.borrow_mut().insert((arg, bytes)) {
            return Ok(());
        }
        self.refusals.is_forced.set(true);
        let kind =
            ErrorKind::OutOfMemory { tier: Tier::Device, requested_bytes: bytes as u64, available_bytes: 0 };
        Err(Error::new(kind, format!("{bytes} bytes for {arg:?}, which a test refuses once")))
    }

    /// After `refusal`: makes room, or waits until there is some. An error, mostly `refusal`, where nothing is left to
    /// do: this is the oldest query, and nobody else holds memory.
    pub(super) fn make_way(
        &mut self,
        refusal: Error,
        memory: &mut Memory<'_>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let ErrorKind::OutOfMemory { tier, requested_bytes, .. } = *refusal.kind() else {
            return Err(refusal);
        };
        self.cancel.check()?;
        self.lane.wait_blocking()?;
        if self.refusals.is_forced.take() {
            return self.park(requested_bytes, memory, report);
        }
        if self.evict(tier, requested_bytes, report) {
            return Ok(());
        }
        if !self.turn.is_oldest() {
            return self.park(requested_bytes, memory, report);
        }
        let is_better = self.turn.ask_younger_blocking(self.cancel)?
            || (!self.refusals.has_let_go.replace(true) && self.worker.lanes.evict() > 0);
        if is_better { Ok(()) } else { Err(refusal) }
    }

    /// The same where only others may step aside, since rows are under way; whether it helped.
    pub(super) fn make_others_way(&self, refusal: &Error, report: &mut PipelineReport) -> Result<bool> {
        let ErrorKind::OutOfMemory { tier, requested_bytes, .. } = *refusal.kind() else { return Ok(false) };
        if self.refusals.is_forced.get() {
            return Ok(false);
        }
        if self.evict(tier, requested_bytes, report) {
            return Ok(true);
        }
        Ok(self.turn.is_oldest() && self.turn.ask_younger_blocking(self.cancel)?)
    }

    /// As `make`; where memory is short, others make room for it, as far as they can.
    pub(crate) fn making_room<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        let mut report = PipelineReport::default();
        loop {
            match make() {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let is_forced = self.refusals.is_forced.take();
                    if !is_forced && !self.make_others_way(&refusal, &mut report)? {
                        return Err(refusal);
                    }
                }
                made => {
                    self.turn.go_on();
                    return made;
                }
            }
        }
    }

    fn evict(&self, tier: Tier, bytes: u64, report: &mut PipelineReport) -> bool {
        let is_evicted = tier == Tier::Device && self.turn.arbiter().evict(bytes.max(1)) > 0;
        if is_evicted && !report.notes.iter().any(|note| note == EVICTED) {
            report.notes.push(EVICTED.into());
        }
        is_evicted
    }

    /// Parks if an older query asks for that.
    pub(super) fn step_aside_if_asked(
        &mut self,
        memory: &mut Memory<'_>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        if !self.turn.is_asked_to_park() {
            return Ok(());
        }
        self.park(0, memory, report)
    }

    /// Waits until all workers of a run are done with a stage; parks meanwhile if an older query asks for that.
    pub(crate) fn wait_for_others(&mut self, barrier: &Barrier) -> Result<()> {
        barrier.arrive();
        while self.turn.wait_blocking(&|| barrier.is_over(), self.cancel)? && barrier.leave() {
            let last = self.reports.pop();
            let (index, mut report) = last.unwrap_or_default();
            self.park(0, &mut Memory::default(), &mut report)?;
            self.reports.extend((!report.name.is_empty()).then_some((index, report)));
            barrier.arrive();
        }
        Ok(())
    }

    /// Gives all device memory back, and goes on when it is the oldest or fits with `more_bytes`. Each time in a pipeline
    /// it waits for more, so that it does not come back in vain again and again.
    pub(super) fn park(
        &mut self,
        more_bytes: u64,
        memory: &mut Memory<'_>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let started = Instant::now();
        self.lane.wait_blocking()?;
        if let Some(kernel) = memory.kernel.as_mut().filter(|kernel| kernel.held_rows().is_none()) {
            // Rows that came out have been taken.
            kernel.state.forget(Arg::is_of_output);
        }
        let machine = self.runtime.machine.clone();
        let bytes = self.move_all(memory, &|bytes| lasting_host_buffer(&machine, bytes))?;
        self.worker.lanes.evict();
        let doublings = report.parked.min(DOUBLINGS_MAX as usize) as u32;
        let mut wish = bytes.saturating_add(more_bytes.saturating_mul(1 << doublings));
        report.parked += 1;
        report.moved_down_bytes += bytes;
        self.turn.park_blocking(wish, self.cancel)?;
        let kind = MemoryKind::Device(self.worker.device);
        loop {
            match self.move_all(memory, &|bytes| machine.allocate(kind.clone(), bytes, OnFull::Refuse)) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let is_better = self.make_others_way(&refusal, report)?;
                    if !is_better && self.turn.is_oldest() {
                        return Err(refusal);
                    }
                    if !is_better {
                        wish = wish.saturating_mul(2);
                        self.turn.park_blocking(wish, self.cancel)?;
                    }
                }
                moved => break report.moved_up_bytes += moved?,
            }
        }
        // Where it wants more, it takes that first.
        if more_bytes == 0 {
            self.turn.go_on();
        }
        report.parked_for += started.elapsed();
        Ok(())
    }

    /// Gives all device memory back between pipelines; [`take_memory_as_oldest`](Self::take_memory_as_oldest) takes it again.
    pub(crate) fn let_memory_go(&mut self) -> Result<()> {
        self.lane.wait_blocking()?;
        let machine = self.runtime.machine.clone();
        self.move_all(&mut Memory::default(), &|bytes| lasting_host_buffer(&machine, bytes))?;
        self.worker.lanes.evict();
        self.turn.gave_back();
        // It holds nothing, so nobody is to wait for it.
        self.turn.rest();
        Ok(())
    }

    /// Waits until no older query is left on its device, and takes the memory that it gave back.
    pub(crate) fn take_memory_as_oldest(&mut self) -> Result<()> {
        // No device has so much: it is not its wish that lets it go on.
        self.turn.park_blocking(u64::MAX, self.cancel)?;
        let (machine, kind) = (self.runtime.machine.clone(), MemoryKind::Device(self.worker.device));
        loop {
            let allocate = |bytes| machine.allocate(kind.clone(), bytes, OnFull::Refuse);
            match self.move_all(&mut Memory::default(), &allocate) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    if !self.make_others_way(&refusal, &mut PipelineReport::default())? {
                        return Err(refusal);
                    }
                }
                moved => {
                    self.turn.go_on();
                    return moved.map(drop);
                }
            }
        }
    }

    /// Moves all arrays to where `allocate` gives memory; all or none. Answers how many bytes these are.
    fn move_all(
        &mut self,
        memory: &mut Memory<'_>,
        allocate: &dyn Fn(usize) -> Result<Buffer>,
    ) -> Result<u64> {
        let mut moved: HashMap<u64, (Span, Span)> = HashMap::new();
        for span in self.arrays(memory) {
            if let Entry::Vacant(entry) = moved.entry(span.address()) {
                entry.insert((span.clone(), allocate(span.len())?.span()));
            }
        }
        for (old, new) in moved.values() {
            self.stream().copy(old, new)?;
        }
        self.stream().wait_blocking()?;
        for span in self.arrays(memory) {
            *span = moved[&span.address()].1.clone();
        }
        self.tables.readdress();
        self.resting.iter_mut().for_each(State::readdress);
        if let Some(kernel) = &mut memory.kernel {
            kernel.state.readdress();
        }
        Ok(moved.values().map(|(old, _)| old.len() as u64).sum())
    }

    /// All arrays of this query, or of its part that runs apart: without those that the parts share.
    fn arrays<'a>(&'a mut self, memory: &'a mut Memory<'_>) -> Vec<&'a mut Span> {
        let Self { tables, groups, resting, is_apart, .. } = self;
        let held = groups.values_mut().flat_map(|groups| match groups {
            Groups::Held(held) => [Some(&mut held.groups), held.keys.as_mut(), held.heap.as_mut()],
            Groups::Spilled(_) => [None, None, None],
        });
        let of_query: Vec<&mut Span> = tables.spans_mut().chain(held.flatten()).collect();
        let shared: HashSet<u64> = match is_apart {
            true => of_query.iter().map(|span| span.address()).collect(),
            false => HashSet::new(),
        };
        let kernel = memory.kernel.iter_mut().flat_map(|kernel| kernel.state.spans_mut());
        let input = memory.prepared.iter_mut().filter_map(|prepared| prepared.host_input.as_mut());
        let resting = resting.iter_mut().flat_map(State::spans_mut);
        let of_pipeline = kernel.chain(resting).chain(input.map(|input| &mut input.span));
        let of_query = if *is_apart { Vec::new() } else { of_query };
        of_query.into_iter().chain(of_pipeline.filter(|span| !shared.contains(&span.address()))).collect()
    }
}
