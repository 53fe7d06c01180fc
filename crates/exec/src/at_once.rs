//! Sources that are in memory as a whole: rows that a caller gives, and groups of an earlier pipeline. One launch goes
//! through all of a host input, or through a range of places of groups.
//!
//! ```text
//!   groups   held on the device   ── places ──► kernel
//!            spilled to the host  ── some records ──► a small table on the device ── places ──► kernel
//! ```

use std::ops::Range;

use pelton_device::{MemoryKind, OnFull, Span};
use pelton_error::Result;
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{Arg, ROW_GROUP_PLACES};
use pelton_trace::{Activity, SpanSize};

use super::execution::{Execution, Groups, HeldGroups, Kernel};
use super::launch::{Launched, Morsel};
use super::memory::{descriptor_words, host_buffer, is_out_of_memory};
use super::parking::Memory;
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::results::append;
use super::spill::SpilledGroups;
use super::top::Top;
use super::waiting::{Flight, Flights, Notes};

/// Places of groups that a top-k goes through first.
const FIRST_TOP_PLACES: u64 = 1 << 15;
/// Spilled groups that are copied to the device at once; fewer where memory is short.
const SPILLED_AT_ONCE: usize = 1 << 20;
/// The fewest of them.
const SPILLED_LEAST: usize = 1 << 8;

/// What one launch goes through.
enum Whole {
    HostInput,
    /// Places of the groups that this pipeline has made.
    Places(usize, Range<u64>),
}

impl Execution<'_> {
    pub(super) fn run_host_input(
        &mut self,
        kernel: &mut Kernel,
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let copied = prepared.host_input.as_ref().expect("host inputs are prepared");
        let bytes = copied.bytes;
        report.rows_in += copied.rows();
        report.link_bytes += bytes;
        let mut top = Top::of(kernel, None)?;
        top.iter().for_each(|top| top.set_threshold(kernel));
        let (mut rows, launched) = self.run_at_once(kernel, prepared, &Whole::HostInput, report)?;
        if let (Some(top), Some(rows)) = (&mut top, &mut rows) {
            top.keep_best(rows);
        }
        if let Some(trace) = &self.trace {
            for Launched { rows, started, done, .. } in &launched {
                trace.device(0, Activity::Kernel, (started, done), SpanSize { bytes, rows: *rows })?;
            }
            let size = SpanSize { bytes, rows: launched.iter().map(|launch| launch.rows).sum() };
            let copy = prepared.host_input.as_ref().and_then(|copied| copied.copy.as_ref());
            // It was copied once, however often kernels go through it.
            if let (Some((before, after)), 0) = (copy, report.repeats) {
                trace.device(0, Activity::Copy, (before, after), size)?;
            }
        }
        Ok(rows)
    }

    /// Goes through the groups that pipeline `from` has made.
    pub(super) fn run_groups(
        &mut self,
        kernel: &mut Kernel,
        from: usize,
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        report.rows_in += self.groups[&from].count();
        let mut all = Scanned { top: Top::of(kernel, None)?, rows: None };
        match self.groups[&from].clone() {
            Groups::Held(held) => {
                let places = held.places();
                drop(held);
                self.run_held(kernel, (from, places), prepared, &mut all, report)?;
            }
            Groups::Spilled(spilled) => {
                let outcome = self.run_spilled(kernel, (from, &spilled), prepared, &mut all, report);
                self.groups.insert(from, Groups::Spilled(spilled));
                outcome?;
            }
        }
        Ok(all.rows)
    }

    /// Goes through spilled groups, some at a time: meanwhile these are the groups of pipeline `from`.
    fn run_spilled(
        &mut self,
        kernel: &mut Kernel,
        (from, spilled): (usize, &SpilledGroups),
        prepared: &mut Prepared,
        all: &mut Scanned,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let record = spilled.layout.width() + 1;
        let mut at_once = SPILLED_AT_ONCE;
        for partition in &spilled.partitions {
            let mut left = partition.as_slice();
            while !left.is_empty() {
                let (some, rest) = left.split_at(left.len().min(at_once * record));
                match self.bring_up(spilled, some) {
                    Err(error) if is_out_of_memory(&error) && at_once > SPILLED_LEAST => at_once /= 2,
                    Err(error) if is_out_of_memory(&error) => {
                        self.make_way(
                            error,
                            &mut Memory { kernel: Some(kernel), prepared: Some(prepared) },
                            report,
                        )?;
                    }
                    held => {
                        let held = held?;
                        let places = held.places();
                        report.moved_up_bytes += some.len() as u64 * 8;
                        self.groups.insert(from, Groups::Held(Box::new(held)));
                        self.run_held(kernel, (from, places), prepared, all, report)?;
                        left = rest;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies records of groups to the device, as a table without empty places.
    fn bring_up(&self, spilled: &SpilledGroups, records: &[u64]) -> Result<HeldGroups> {
        let width = spilled.layout.width();
        let count = records.len() / (width + 1);
        let machine = self.runtime.machine();
        let kind = MemoryKind::Device(self.worker.device);
        let array = |words: usize| {
            Ok::<_, pelton_error::Error>(machine.allocate(kind.clone(), words * 8, OnFull::Refuse)?.span())
        };
        let (keys, groups) = (array(count)?, array(count * width)?);
        let staged = host_buffer(machine, count * (width + 1) * 8)?;
        staged.with_bytes_mut(|bytes| {
            let (key_bytes, group_bytes) = bytes.split_at_mut(count * 8);
            let places = key_bytes.chunks_exact_mut(8).zip(group_bytes.chunks_exact_mut(width * 8));
            for (record, (key, group)) in records.chunks_exact(width + 1).zip(places) {
                key.copy_from_slice(&record[0].to_le_bytes());
                for (target, word) in group.chunks_exact_mut(8).zip(&record[1..]) {
                    target.copy_from_slice(&word.to_le_bytes());
                }
            }
        })?;
        self.stream().copy(&staged.slice(0..count * 8), &keys)?;
        self.stream().copy(&staged.slice(count * 8..staged.len()), &groups)?;
        self.stream().wait_blocking()?;
        let layout = spilled.layout.clone();
        Ok(HeldGroups { layout, groups, keys: Some(keys), heap: None, count: count as u64 })
    }

    /// Goes through all places of the groups of pipeline `from`, which are on the device.
    fn run_held(
        &mut self,
        kernel: &mut Kernel,
        (from, places): (usize, u64),
        prepared: &mut Prepared,
        all: &mut Scanned,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let mut first = 0;
        // A threshold early, where one helps.
        let mut step = if all.top.is_some() { FIRST_TOP_PLACES } else { u64::MAX };
        while first < places {
            self.cancel.check()?;
            self.step_aside_if_asked(&mut Memory { kernel: Some(kernel), prepared: Some(prepared) }, report)?;
            let end = first.saturating_add(step).min(places);
            all.top.iter().for_each(|top| top.set_threshold(kernel));
            let whole = Whole::Places(from, first..end);
            let (more, launched) = self.run_at_once(kernel, prepared, &whole, report)?;
            for Launched { rows, started, done, .. } in &launched {
                report.kernels += done.elapsed_since(started)?;
                if let Some(trace) = &self.trace {
                    trace.device(0, Activity::Kernel, (started, done), SpanSize { bytes: 0, rows: *rows })?;
                }
            }
            all.add(more)?;
            (first, step) = (end, step.saturating_mul(8));
        }
        Ok(())
    }

    /// Runs the kernel over `whole`, however often it is parked meanwhile.
    fn run_at_once(
        &mut self,
        kernel: &mut Kernel,
        prepared: &mut Prepared,
        whole: &Whole,
        report: &mut PipelineReport,
    ) -> Result<(Option<Rows>, Vec<Launched>)> {
        let mut launched = Vec::new();
        let mut notes = None;
        loop {
            let morsel = self.whole_morsel(kernel, prepared, whole);
            match self.try_at_once(kernel, morsel, &mut notes, &mut launched, report) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    let is_noted = notes.is_some();
                    let mut memory = Memory { kernel: Some(kernel), prepared: Some(prepared) };
                    match self.make_way(refusal, &mut memory, report) {
                        Err(error) if is_out_of_memory(&error) => {
                            self.relieve(kernel, error, is_noted, report)?
                        }
                        way => way?,
                    }
                }
                outcome => {
                    let rows = outcome?;
                    if self.spills_after_morsels(kernel) {
                        self.spill(kernel, report)?;
                    }
                    return Ok((rows, launched));
                }
            }
        }
    }

    /// What a launch goes through, where it lies now.
    fn whole_morsel(&self, kernel: &mut Kernel, prepared: &Prepared, whole: &Whole) -> Morsel {
        match (whole, &prepared.host_input) {
            (Whole::HostInput, Some(copied)) => Morsel {
                row_groups: Vec::new(),
                addresses: copied.addresses(),
                row_counts: copied.row_counts.clone(),
                rows: copied.rows(),
                reads: vec![copied.span.clone()],
            },
            (Whole::HostInput, None) => unreachable!("host inputs are prepared"),
            (Whole::Places(from, places), _) => {
                let Groups::Held(held) = &self.groups[from] else { unreachable!("they are on the device") };
                kernel.state.set(Arg::SourceGroups, held.groups.address());
                kernel.state.set(Arg::SourceGroupKeys, held.keys.as_ref().map_or(0, Span::address));
                kernel.state.set(Arg::SourceTextHeap, held.heap.as_ref().map_or(0, Span::address));
                let firsts: Vec<u64> = places.clone().step_by(ROW_GROUP_PLACES as usize).collect();
                let row_count = |first: &u64| (places.end - first).min(ROW_GROUP_PLACES) as u32;
                Morsel {
                    row_groups: Vec::new(),
                    row_counts: firsts.iter().map(row_count).collect(),
                    addresses: firsts,
                    rows: held.count.min(places.end - places.start),
                    reads: held.spans().cloned().collect(),
                }
            }
        }
    }

    /// As `run_at_once`; where memory is refused, `notes` say which rows still wait, if any has gone in.
    fn try_at_once(
        &self,
        kernel: &mut Kernel,
        morsel: Morsel,
        notes: &mut Option<Notes>,
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let ready = self.stream().record()?;
        let words = descriptor_words(morsel.row_counts.len(), 0) + morsel.addresses.len();
        let lanes = self.worker.lanes.hold(&self.runtime.machine, self.worker.device, 1, words)?;
        let lane = &lanes.list()[0];
        lane.stream.wait_for(&ready)?;
        let (row_count, vectors) = (morsel.rows, morsel.vectors());
        let mut rows = None;
        match notes {
            Some(notes) => {
                lane.waiting.make_room(self, kernel, &lane.stream, vectors)?;
                lane.waiting.send_notes(&lane.stream, notes)?;
                self.redo(kernel, lane, &morsel)?;
            }
            None => rows = self.run_morsel(kernel, (lane, &morsel), None, launched, report)?,
        }
        let done = lane.stream.record()?;
        let first = kernel.started.take();
        let rows_of_launch = if notes.is_some() { 0 } else { row_count };
        launched.extend(first.map(|started| Launched {
            buffer: 0,
            rows: rows_of_launch,
            started,
            done: done.clone(),
        }));
        if row_count > 0 && rows.is_none() && kernel.generated.sink.may_be_full() {
            let mut flights = Flights::new(1);
            flights.add(0, Flight { morsel, done });
            let settled = self.settle(kernel, &lanes, &mut flights, 0, launched, report);
            if settled.as_ref().is_err_and(is_out_of_memory) {
                lanes.wait_blocking()?;
                *notes = Some(lane.waiting.bring_notes(&lane.stream, vectors)?);
            }
            settled?;
        }
        lanes.wait_blocking()?;
        Ok(rows)
    }
}

/// The rows of a pipeline, part by part.
struct Scanned {
    top: Option<Top>,
    rows: Option<Rows>,
}

impl Scanned {
    fn add(&mut self, more: Option<Rows>) -> Result<()> {
        match (&mut self.rows, more) {
            (Some(rows), Some(more)) => append(rows, more)?,
            (rows, more) => *rows = more.or(rows.take()),
        }
        if let (Some(top), Some(rows)) = (&mut self.top, &mut self.rows) {
            top.keep_best(rows);
        }
        Ok(())
    }
}
