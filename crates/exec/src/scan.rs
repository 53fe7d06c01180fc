//! Running a pipeline over a table, morsel by morsel.
//!
//! ```text
//!   buffer 0   chunks, descriptors ── kernel ── done
//!   buffer 1      chunks, descriptors ── kernel ── done        a buffer is used again when its kernel is done, and
//!                                                              no row of its morsel waits for room in the sink
//!
//!   part       buffers, lanes, mappings; row groups until it ends, is asked to park or is refused memory
//!   between    the sink alone is on the device, and can be moved; rows that wait are noted on the host
//!   next part  first the row groups of which rows wait, those rows alone; then those that nobody has come to
//! ```

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pelton_device::{Event, Span};
use pelton_error::{Error, Result};
use pelton_pipeline::Rows;
use pelton_pipeline::codegen::{Arg, SinkLayout};
use pelton_pipeline::ir::{Pipeline, TableScan};
use pelton_scan::{DataTier, MorselTimings, PrefetchOptions, Prefetcher, RowGroups};
use pelton_trace::{Activity, SpanSize};

use super::execution::{Execution, Kernel};
use super::host_worker;
use super::launch::{Launched, Morsel, vectors};
use super::memory::{HeldLanes, State, is_out_of_memory, upload};
use super::parking::Memory;
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::results::append;
use super::rows_out::RowsOut;
use super::runtime_filter::RuntimeFilter;
use super::tasks::Tasks;
use super::top::Top;
use super::waiting::{Flight, Flights, Notes};

/// Rows of a morsel at most, where some may wait: their words take 8 MiB.
const WAITING_ROWS_MAX: usize = 1 << 26;
/// Morsels that a worker's share of a scan is cut into at least. A guess.
const MORSELS_OF_SHARE: usize = 4;
/// Morsels are made half as large so often at most.
const HALVINGS_MAX: u32 = 20;

/// Row groups that a prefetcher has taken.
type Taken = Arc<Mutex<Vec<u32>>>;

/// What was done of a scan, and what is left: all on the host.
struct Progress<'r> {
    tasks: Arc<Tasks>,
    /// The number under which they are taken.
    number: usize,
    /// Row groups that were taken and not come to.
    left: Vec<u32>,
    again: Vec<Again>,
    rows: Option<Rows>,
    /// They wait on the host for a spilled table.
    is_part: bool,
    /// Where they go instead, if they are given out.
    out: Option<RowsOut<'r>>,
    top: Option<Top>,
    /// How often morsels were made half as large, since memory was short.
    halvings: u32,
    /// Buffers of the last part, and bytes of each on the device.
    staging: (usize, usize),
    /// The same when morsels were last made smaller.
    staging_before: (usize, usize),
    parts: usize,
}

/// Row groups that were brought before, but not all of whose rows are in the sink.
struct Again {
    row_groups: Vec<u32>,
    /// The rows that wait; `None`: all, and none was looked at.
    notes: Option<Notes>,
}

/// A part of a scan, with the memory that is its own.
struct Part<'p> {
    scan: &'p TableScan,
    mappings: &'p [Mappings],
    prefetcher: Prefetcher,
    lanes: HeldLanes<'p>,
    flights: Flights,
    runtime_filter: RuntimeFilter,
    launched: Vec<Launched>,
    /// Row groups that were given out, or are not wanted.
    gone: RefCell<HashSet<u32>>,
}

impl Progress<'_> {
    /// What comes next: row groups that were taken before, then others, which are noted in `taken`.
    fn coming(&self, taken: &Taken) -> RowGroups {
        let taken = Arc::clone(taken);
        let note = move |group: &u32| taken.lock().unwrap_or_else(PoisonError::into_inner).push(*group);
        let others = self.tasks.of_worker(self.number).inspect(note);
        Box::new(self.left.clone().into_iter().chain(others))
    }

    /// Makes morsels, and the number of their buffers, half as large as they were; false where they were as small as they
    /// get.
    fn make_smaller(&mut self, morsel_bytes: usize) -> bool {
        if self.halvings >= HALVINGS_MAX || self.staging == self.staging_before {
            return false;
        }
        self.staging_before = self.staging;
        self.halvings += 1;
        while self.halvings < HALVINGS_MAX && morsel_bytes >> self.halvings > self.staging.1 / 2 {
            self.halvings += 1;
        }
        true
    }

    /// Takes the rows that came out of a morsel.
    fn add(&mut self, more: Option<Rows>) -> Result<()> {
        if let (Some(rows), Some(more)) = (&mut self.rows, more) {
            append(rows, more)?;
            self.top.iter_mut().for_each(|top| top.keep_best(rows));
        }
        Ok(())
    }
}

impl Execution<'_> {
    /// Admits columns that `scan` reads to caches. Before its kernel is generated: what is cached has known widths, and
    /// other kernels for that.
    pub(super) fn admit(&self, scan: &TableScan, report: &mut PipelineReport) -> Result<()> {
        // The host's cores read columns where they are.
        if !self.runtime.has_column_cache || self.worker.is_beside {
            return Ok(());
        }
        let started = Instant::now();
        let (device, run) = (self.worker.device, self.turn.query());
        report.admitted += self.runtime.admit_used(device, scan, run, self.stream(), self.cancel)?;
        report.admit += started.elapsed();
        self.traced(Activity::Admit, started);
        Ok(())
    }

    pub(super) fn run_scan(
        &mut self,
        kernel: &mut Kernel,
        (index, pipeline, scan): (usize, &Pipeline, &TableScan),
        prepared: &mut Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let top = Top::of(kernel, Some(scan))?;
        let (tasks, number) = self.tasks(index);
        let in_order = |list: &[u32]| top.as_ref().map_or_else(|| list.to_vec(), |top| top.in_order(list));
        tasks.deal(&scan.row_groups, scan.table.row_group_count(), in_order);
        let gives_rows = matches!(kernel.generated.sink, SinkLayout::Rows(_)) && kernel.held_rows().is_none();
        let rows = gives_rows.then(Rows::default);
        let out = RowsOut::of(self, pipeline, &kernel.generated)?;
        let mut progress = Progress {
            tasks,
            number,
            left: Vec::new(),
            again: Vec::new(),
            rows,
            is_part: prepared.is_part,
            out,
            top,
            halvings: 0,
            staging: (0, 0),
            staging_before: (0, 0),
            parts: 0,
        };
        loop {
            let is_over = self.run_part(kernel, scan, prepared, &mut progress, report);
            let is_short = is_over.as_ref().is_err_and(is_out_of_memory);
            if let Some(out) = progress.out.as_mut().filter(|_| is_short || is_over.is_ok()) {
                out.let_go()?;
            }
            let memory = &mut Memory { kernel: Some(kernel), prepared: Some(prepared) };
            match is_over {
                Ok(true) => break,
                Ok(false) => self.park(0, memory, report)?,
                Err(refusal) if is_out_of_memory(&refusal) => match self.make_way(refusal, memory, report) {
                    Err(refusal) if is_out_of_memory(&refusal) => {
                        self.make_room_alone(refusal, kernel, &mut progress, report)?;
                    }
                    way => way?,
                },
                Err(error) => return Err(error),
            }
        }
        progress.top.iter().for_each(|top| top.add_to(report));
        report.rows_out += progress.out.as_ref().map_or(0, RowsOut::row_count);
        Ok(progress.rows)
    }

    /// The oldest query alone was refused memory: takes smaller morsels, then spills groups.
    fn make_room_alone(
        &self,
        refusal: Error,
        kernel: &mut Kernel,
        progress: &mut Progress<'_>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let staging_bytes = (progress.staging.0 * progress.staging.1) as u64;
        let is_large = match kernel.may_spill() {
            // Large morsels are not worth many runs.
            true => staging_bytes > self.device_memory_limit()? / 4,
            false => staging_bytes > 0,
        };
        if is_large && progress.make_smaller(self.runtime.options.morsel_bytes) {
            return Ok(());
        }
        let is_full = progress.again.iter().any(|again| again.notes.is_some());
        self.relieve(kernel, refusal, is_full, report)
    }

    /// Goes on with the scan; whether it is over, or else asked to park. However it ends, `progress` says what is left.
    fn run_part(
        &self,
        kernel: &mut Kernel,
        scan: &TableScan,
        prepared: &Prepared,
        progress: &mut Progress<'_>,
        report: &mut PipelineReport,
    ) -> Result<bool> {
        progress.staging = (0, 0);
        let started = Instant::now();
        let mappings = self.send_mappings(prepared, scan)?;
        self.traced(Activity::Prepare, started);
        let ready = self.stream().record()?;
        while let Some(mut again) = progress.again.pop() {
            let outcome = self.run_again(kernel, (scan, &mappings, &ready), &mut again, progress, report);
            progress.again.extend((!again.row_groups.is_empty()).then_some(again));
            outcome?;
            self.turn.go_on();
        }
        let is_left = !progress.left.is_empty() || progress.tasks.take_over(progress.number);
        if !is_left && progress.parts > 0 {
            return Ok(true);
        }
        let started = Instant::now();
        let is_output = progress.rows.is_some();
        let row_groups_max = self.row_groups_max(kernel, scan, progress);
        let taken = Taken::default();
        let prefetcher = self.prefetcher(scan, (progress, &taken), row_groups_max, is_output, report)?;
        let lanes = self.lanes(&prefetcher, scan.columns.len() + mappings.len() + 2, scan, &ready)?;
        let flights = Flights::new(lanes.list().len());
        let runtime_filter = RuntimeFilter::new(scan, kernel, prepared)?;
        self.traced(Activity::Allocate, started);
        progress.parts += 1;
        let (launched, gone) = (Vec::new(), RefCell::default());
        let mappings = mappings.as_slice();
        let mut part = Part { scan, mappings, prefetcher, lanes, flights, runtime_filter, launched, gone };
        let outcome = self.run_morsels(kernel, &mut part, row_groups_max, progress, report);
        part.lanes.wait_blocking()?;
        if outcome.as_ref().is_err_and(is_out_of_memory) {
            for index in part.flights.indexes() {
                let (lane, morsel) = (&part.lanes.list()[index], &part.flights.get(index).morsel);
                if lane.waiting.count()? > 0 {
                    let notes = lane.waiting.bring_notes(&lane.stream, morsel.vectors())?;
                    let row_groups = morsel.row_groups.clone();
                    progress.again.push(Again { row_groups, notes: Some(notes) });
                }
            }
        }
        let gone = part.gone.into_inner();
        progress.left.append(&mut taken.lock().unwrap_or_else(PoisonError::into_inner));
        progress.left.retain(|group| !gone.contains(group));
        for launched in &part.launched {
            report.kernels += launched.done.elapsed_since(&launched.started)?;
        }
        self.trace_morsels(&part.prefetcher.take_timings(), &part.launched)?;
        report.add_prefetch(&part.prefetcher.report());
        part.runtime_filter.add_to(report);
        outcome
    }

    /// Morsel after morsel; whether all are done, or else asked to park.
    fn run_morsels(
        &self,
        kernel: &mut Kernel,
        part: &mut Part<'_>,
        row_groups_max: usize,
        progress: &mut Progress<'_>,
        report: &mut PipelineReport,
    ) -> Result<bool> {
        // Rows that come out are taken before the next morsel.
        let may_wait = kernel.generated.sink.may_be_full() && progress.rows.is_none();
        let spills = self.spills_after_morsels(kernel);
        let mut is_over = true;
        for turn in 0.. {
            self.cancel.check()?;
            if turn > 0 {
                self.turn.go_on();
                if self.turn.is_asked_to_park() {
                    is_over = false;
                    break;
                }
            }
            if let Some(out) = &mut progress.out {
                out.wait_for_taker(self, report)?;
            }
            let buffer = turn % part.lanes.list().len();
            let started = Instant::now();
            self.settle_part(kernel, part, buffer, report)?;
            if self.is_in_vain(kernel, &part.lanes, &part.launched, buffer)? {
                break;
            }
            if let Some(trace) = self.trace.as_ref().filter(|_| may_wait) {
                trace.host(buffer, Activity::BufferWait, started, Instant::now(), 0);
            }
            let lane = &part.lanes.list()[buffer];
            let stream = &lane.stream;
            if let Some(top) = &mut progress.top {
                top.exchange(&progress.tasks);
                part.prefetcher.limit_row_groups(top.row_groups_max(row_groups_max));
                top.set_threshold(kernel);
            }
            let is_beyond = |group| progress.top.as_ref().is_some_and(|top| top.rules_out(group));
            let mut is_unwanted = |group| {
                let is_unwanted = part.runtime_filter.rules_out(group) || is_beyond(group);
                if is_unwanted {
                    part.gone.borrow_mut().insert(group);
                }
                is_unwanted
            };
            let mut brought = part.prefetcher.next(buffer, stream, &mut is_unwanted)?;
            while brought.is_none() {
                // Only who has nothing left to do takes from others: what is launched is not done yet.
                part.lanes.wait_blocking()?;
                if !progress.tasks.take_over(progress.number) {
                    break;
                }
                brought = part.prefetcher.next(buffer, stream, &mut is_unwanted)?;
            }
            let Some(brought) = brought else { break };
            part.gone.borrow_mut().extend(&brought.row_groups);
            let rows_before = report.rows_in;
            let morsel = self.morsel_of(part.scan, part.mappings, brought);
            report.rows_in += morsel.rows;
            report.raw_bytes += raw_bytes(part.scan, &morsel.row_groups)?;
            let out = progress.out.as_mut();
            match self.run_morsel(kernel, (lane, &morsel), out, &mut part.launched, report) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    progress.again.push(Again { row_groups: morsel.row_groups, notes: None });
                    return Err(refusal);
                }
                more => progress.add(more?)?,
            }
            if progress.is_part {
                self.check_host_bytes(&progress.rows)?;
            }
            let done = stream.record()?;
            match may_wait {
                true => part.flights.add(buffer, Flight { morsel, done: done.clone() }),
                false => part.prefetcher.release(buffer, done.clone()),
            }
            let (launched, rows) = (kernel.started.take(), report.rows_in - rows_before);
            part.launched.extend(launched.map(|started| Launched { buffer, rows, started, done }));
            if let Some(trace) = &self.trace {
                trace.memory(&self.runtime.machine, self.worker.device);
            }
            if !self.runtime.options.overlap {
                part.lanes.list()[buffer].stream.wait_blocking()?;
            }
            if spills {
                (0..part.lanes.list().len())
                    .try_for_each(|buffer| self.settle_part(kernel, part, buffer, report))?;
                part.lanes.wait_blocking()?;
                self.spill(kernel, report)?;
            }
        }
        (0..part.lanes.list().len()).try_for_each(|buffer| self.settle_part(kernel, part, buffer, report))?;
        Ok(is_over)
    }

    /// Waits until no row of the morsel in `buffer` waits, and gives buffers free.
    fn settle_part(
        &self,
        kernel: &mut Kernel,
        part: &mut Part<'_>,
        buffer: usize,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let settled =
            self.settle(kernel, &part.lanes, &mut part.flights, buffer, &mut part.launched, report)?;
        settled.into_iter().for_each(|(free, done)| part.prefetcher.release(free, done));
        Ok(())
    }

    /// Brings row groups again of which rows wait, and sends those rows alone to the sink. `again` is what is left.
    fn run_again(
        &self,
        kernel: &mut Kernel,
        (scan, mappings, ready): (&TableScan, &[Mappings], &Event),
        again: &mut Again,
        progress: &mut Progress<'_>,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let options = PrefetchOptions {
            morsel_bytes: self.morsel_bytes(progress),
            row_groups_max: again.row_groups.len(),
            staging_buffers: 1,
            reads_ahead: 1,
        };
        let (cache, device, cancel) = (&self.runtime.column_cache, self.worker.device, self.cancel.clone());
        let (table, columns) = (&scan.table, &scan.columns);
        let mut prefetcher =
            Prefetcher::new(cache, device, table, columns, &again.row_groups, options, cancel)?;
        let lanes = self.lanes(&prefetcher, scan.columns.len() + mappings.len() + 2, scan, ready)?;
        let lane = &lanes.list()[0];
        let mut launched = Vec::new();
        while let Some(brought) = prefetcher.next(0, &lane.stream, &mut |_| false)? {
            let morsel = self.morsel_of(scan, mappings, brought);
            let (row_groups, row_counts) = (morsel.row_groups.clone(), morsel.row_counts.clone());
            match &again.notes {
                Some(notes) => {
                    lane.waiting.make_room(self, kernel, &lane.stream, morsel.vectors())?;
                    lane.waiting.send_notes(&lane.stream, &notes.first(morsel.vectors()))?;
                    self.redo(kernel, lane, &morsel)?;
                }
                None => {
                    let out = progress.out.as_mut();
                    let more = self.run_morsel(kernel, (lane, &morsel), out, &mut launched, report)?;
                    progress.add(more)?;
                }
            }
            // From here on it is in the sink, or noted as waiting for it.
            again.row_groups.drain(..row_groups.len());
            again.notes = again.notes.take().map(|notes| notes.rest(vectors(&row_counts)));
            let done = lane.stream.record()?;
            launched.extend(Launched::without_rows(0, kernel, &done));
            if progress.rows.is_none() && kernel.generated.sink.may_be_full() {
                let mut flights = Flights::new(1);
                flights.add(0, Flight { morsel, done: done.clone() });
                let settled = self.settle(kernel, &lanes, &mut flights, 0, &mut launched, report);
                if settled.as_ref().is_err_and(is_out_of_memory) {
                    lanes.wait_blocking()?;
                    let notes = Some(lane.waiting.bring_notes(&lane.stream, vectors(&row_counts))?);
                    progress.again.push(Again { row_groups, notes });
                }
                settled?;
            }
            prefetcher.release(0, done);
        }
        lanes.wait_blocking()?;
        for launched in &launched {
            report.kernels += launched.done.elapsed_since(&launched.started)?;
        }
        report.add_prefetch(&prefetcher.report());
        Ok(())
    }

    /// Bytes of a morsel at most.
    fn morsel_bytes(&self, progress: &Progress<'_>) -> usize {
        let halvings = if self.worker.is_beside { host_worker::MORSEL_HALVINGS } else { 0 };
        (self.runtime.options.morsel_bytes >> (progress.halvings + halvings)).max(1)
    }

    /// The prefetcher for what is left of `scan`. Rows that come out are waited for morsel by morsel, so one buffer
    /// does.
    fn prefetcher(
        &self,
        scan: &TableScan,
        (progress, taken): (&mut Progress<'_>, &Taken),
        row_groups_max: usize,
        is_output: bool,
        report: &mut PipelineReport,
    ) -> Result<Prefetcher> {
        self.refuse_first(Arg::RowGroupCount, 0)?;
        let (options, is_top) = (&self.runtime.options, progress.top.is_some());
        let most = match self.worker.is_beside {
            true => options.staging_buffers.min(host_worker::STAGING_BUFFERS),
            false => options.staging_buffers,
        };
        let wanted = if options.overlap && !is_output { most } else { 1 };
        let buffers = (wanted >> progress.halvings.min(8)).clamp(1, self.morsels_expected(scan)?);
        let prefetch_options = PrefetchOptions {
            morsel_bytes: self.morsel_bytes(progress),
            row_groups_max,
            staging_buffers: buffers,
            reads_ahead: self.reads_ahead(buffers, is_top),
        };
        let (column_cache, cancel) = (&self.runtime.column_cache, self.cancel.clone());
        let mut prefetcher = Prefetcher::of_shared(
            column_cache,
            self.worker.device,
            &scan.table,
            &scan.columns,
            (&scan.row_groups, progress.coming(taken)),
            prefetch_options,
            cancel,
        )?;
        if self.trace.is_some() {
            prefetcher.record_timings();
        }
        let taken = prefetcher.report();
        progress.staging = (taken.staging_buffers, taken.buffer_device_bytes);
        if prefetcher.buffer_count() < buffers {
            report.notes.push(format!(
                "{} buffers in flight in place of {buffers}: device or pinned memory is short; raise \
                 --device-memory-limit or pin fewer tables",
                prefetcher.buffer_count()
            ));
        }
        Ok(prefetcher)
    }

    /// Morsels whose reads are under way at once: those of all pipelines and, with overlap, the one after them. Rows
    /// that come out share one buffer; their reads run as far ahead all the same. A top-k may find that it needs few.
    fn reads_ahead(&self, buffers: usize, is_top: bool) -> usize {
        let options = &self.runtime.options;
        let is_near = is_top || self.worker.is_beside;
        let pipelines = if is_near { buffers } else { options.staging_buffers.max(buffers) };
        pipelines + usize::from(options.overlap)
    }

    /// A lane for each buffer of `prefetcher`, with room for `words_per_group` words per row group; what they do comes
    /// after `ready`.
    fn lanes(
        &self,
        prefetcher: &Prefetcher,
        words_per_group: usize,
        scan: &TableScan,
        ready: &Event,
    ) -> Result<HeldLanes<'_>> {
        let groups = self.runtime.options.row_groups_max.min(scan.row_groups.len());
        let (worker, words) = (self.worker, words_per_group * groups);
        let (machine, buffers) = (&self.runtime.machine, prefetcher.buffer_count());
        let lanes = worker.lanes.hold(machine, worker.device, buffers, words)?;
        for lane in lanes.list() {
            lane.stream.wait_for(ready)?;
        }
        Ok(lanes)
    }

    /// Row groups of a morsel at most. Where others may want some, a morsel is not all that a worker has, however
    /// little of it must be moved.
    fn row_groups_max(&self, kernel: &Kernel, scan: &TableScan, progress: &Progress<'_>) -> usize {
        let most = match progress.tasks.worker_count() {
            1 => self.runtime.options.row_groups_max,
            workers => {
                let share = scan.row_groups.len().div_ceil(workers * MORSELS_OF_SHARE);
                self.runtime.options.row_groups_max.min(share.max(1))
            }
        };
        let most = if self.worker.is_beside { most.min(row_groups_of_host(scan)) } else { most };
        if !kernel.generated.sink.may_be_full() {
            return most;
        }
        let rows = |group: &u32| scan.table.row_group(*group as usize).row_count as usize;
        let largest = scan.row_groups.iter().map(rows).max().unwrap_or(0).max(1);
        let rows_max = match (&progress.out, &kernel.generated.sink) {
            (Some(out), SinkLayout::Rows(layout)) => {
                WAITING_ROWS_MAX.min(out.part_rows(self, layout) as usize)
            }
            _ => WAITING_ROWS_MAX,
        };
        most.min(rows_max / largest).max(1)
    }

    /// What a launch goes through for the row groups that were brought.
    fn morsel_of(&self, scan: &TableScan, mappings: &[Mappings], brought: pelton_scan::Morsel) -> Morsel {
        let row_count = |group: &u32| scan.table.row_group(*group as usize).row_count;
        let row_counts: Vec<u32> = brought.row_groups.iter().map(row_count).collect();
        let addresses = with_mappings(&brought.addresses, &brought.row_groups, scan, mappings);
        let mut reads = brought.reads;
        reads.extend(mappings.iter().map(|mapping| mapping.span.clone()));
        let rows = row_counts.iter().map(|count| u64::from(*count)).sum();
        Morsel { row_groups: brought.row_groups, addresses, row_counts, rows, reads }
    }

    /// Leaves spans of what was done for morsels; their streams have been waited for.
    fn trace_morsels(&self, timings: &[MorselTimings], kernels: &[Launched]) -> Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        for timings in timings {
            for lap in &timings.laps {
                trace.host(timings.buffer, lap.activity, lap.start, lap.end, lap.bytes);
            }
            if let Some((before, after)) = &timings.copy {
                let size = SpanSize { bytes: timings.copied_bytes, rows: 0 };
                trace.device(timings.buffer, Activity::Copy, (before, after), size)?;
            }
        }
        for Launched { buffer, rows, started, done } in kernels {
            let size = SpanSize { bytes: 0, rows: *rows };
            trace.device(*buffer, Activity::Kernel, (started, done), size)?;
        }
        Ok(())
    }

    /// Morsels that the scan makes at most, as far as sizes tell; at least 1.
    fn morsels_expected(&self, scan: &TableScan) -> Result<usize> {
        let options = &self.runtime.options;
        let mut bytes = 0;
        for &column in &scan.columns {
            if matches!(
                self.runtime.column_cache.tier(&scan.table, column, self.worker.device),
                DataTier::Device(_)
            ) {
                continue;
            }
            for &group in &scan.row_groups {
                bytes += scan.table.chunk(group as usize, column)?.raw_bytes;
            }
        }
        let by_bytes = bytes as usize / options.morsel_bytes;
        Ok((by_bytes + scan.row_groups.len() / options.row_groups_max + 1).max(1))
    }

    /// Copies the dictionary mappings of all row groups of each text column to the device.
    fn send_mappings(&self, prepared: &Prepared, scan: &TableScan) -> Result<Vec<Mappings>> {
        let mut all = Vec::with_capacity(prepared.texts.len());
        for (_, text) in &prepared.texts {
            let by_group = text.mappings()?;
            let mut bytes = Vec::new();
            let mut offsets = HashMap::with_capacity(scan.row_groups.len());
            for &group in &scan.row_groups {
                offsets.insert(group, bytes.len() as u64);
                let mapping = &by_group[group as usize];
                mapping.iter().for_each(|entry| bytes.extend_from_slice(&entry.to_le_bytes()));
                if mapping.is_empty() {
                    bytes.extend_from_slice(&[0; 4]);
                }
            }
            self.refuse_first(Arg::Chunks, all.len())?;
            // Not an argument of the kernel: addresses go with the chunks.
            let mut state = State::default();
            upload(&mut state, self.stream(), self.worker.device, Arg::Chunks, &bytes)?;
            all.push(Mappings { span: state.span(Arg::Chunks)?.clone(), offsets });
        }
        Ok(all)
    }
}

/// The dictionary mappings of a text column on the device.
struct Mappings {
    span: Span,
    /// By row group, bytes.
    offsets: HashMap<u32, u64>,
}

/// The addresses of each row group's chunks, then of its dictionary mappings; then its first row.
fn with_mappings(addresses: &[u64], row_groups: &[u32], scan: &TableScan, mappings: &[Mappings]) -> Vec<u64> {
    let columns = scan.columns.len();
    let mut all = Vec::with_capacity(addresses.len() + row_groups.len() * (mappings.len() + 1));
    for (at, group) in row_groups.iter().enumerate() {
        all.extend_from_slice(&addresses[at * columns..(at + 1) * columns]);
        all.extend(mappings.iter().map(|mapping| mapping.span.address() + mapping.offsets[group]));
        all.push(scan.table.row_group(*group as usize).row_offset);
    }
    all
}

/// Row groups of a morsel of the host's cores beside devices, at most.
fn row_groups_of_host(scan: &TableScan) -> usize {
    let rows = |group: &u32| u64::from(scan.table.row_group(*group as usize).row_count);
    let largest = scan.row_groups.iter().map(rows).max().unwrap_or(1).max(1);
    (host_worker::MORSEL_ROWS_MAX / largest).max(1) as usize
}

fn raw_bytes(scan: &TableScan, row_groups: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for &group in row_groups {
        for &column in &scan.columns {
            bytes += scan.table.chunk(group as usize, column)?.raw_bytes;
        }
    }
    Ok(bytes)
}
