//! Running a pipeline over its source: morsel by morsel from a table, or all at once from a host input.
//!
//! ```text
//!   buffer 0   chunks, descriptors ── kernel ── done
//!   buffer 1      chunks, descriptors ── kernel ── done        a buffer is used again when its kernel is done, and
//!                                                              no row of its morsel waits for room in the sink
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pelton_device::{Event, Span, Work};
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{Arg, ENTRY, ROW_GROUP_PLACES, SinkLayout};
use pelton_pipeline::ir::TableScan;
use pelton_pipeline::{Launch, Rows};
use pelton_scan::{DataTier, MorselTimings, PrefetchOptions, Prefetcher, RowGroups};
use pelton_trace::{Activity, SpanSize};

use super::allocate::THREADS_PER_MULTIPROCESSOR;
use super::execution::{Execution, HeldGroups, Kernel, Prepared};
use super::finish::Output;
use super::host_input::CopiedInput;
use super::memory::{HeldLanes, Lane, State, VECTOR_ROWS, descriptor_words, upload};
use super::report::PipelineReport;
use super::results::append;
use super::runtime_filter::RuntimeFilter;
use super::tasks::Tasks;
use super::top::Top;
use super::waiting::{Flight, Flights};

/// Places of groups that a top-k goes through first.
const FIRST_TOP_PLACES: u64 = 1 << 15;
/// Morsels that a worker's share of a scan is cut into at least. A guess.
const MORSELS_OF_SHARE: usize = 4;
/// Blocks of a grid at most.
const BLOCKS_MAX: u64 = 1 << 20;
/// Rows of a morsel at most, where some may wait: their words take 8 MiB.
const WAITING_ROWS_MAX: usize = 1 << 26;

impl Execution<'_> {
    pub(super) fn run_host_input(
        &mut self,
        kernel: &mut Kernel,
        copied: &CopiedInput,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        report.rows_in += copied.row_counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        report.link_bytes += copied.bytes;
        let morsel = Morsel {
            addresses: copied.addresses.clone(),
            row_counts: copied.row_counts.clone(),
            rows: copied.row_counts.iter().map(|count| u64::from(*count)).sum(),
            reads: vec![copied.span.clone()],
        };
        let words = descriptor_words(copied.row_counts.len(), copied.columns.len() + 1);
        let mut top = Top::of(kernel, None)?;
        top.iter().for_each(|top| top.set_threshold(kernel));
        let (mut rows, launched) = self.run_at_once(kernel, words, morsel, report)?;
        if let (Some(top), Some(rows)) = (&mut top, &mut rows) {
            top.keep_best(rows);
        }
        if let Some(trace) = &self.trace {
            for Launched { rows, started, done, .. } in &launched {
                let size = SpanSize { bytes: copied.bytes, rows: *rows };
                trace.device(0, Activity::Kernel, (started, done), size)?;
            }
            let size =
                SpanSize { bytes: copied.bytes, rows: launched.iter().map(|launch| launch.rows).sum() };
            // It was copied once, however often kernels go through it.
            if let (Some((before, after)), 0) = (&copied.copy, report.repeats) {
                trace.device(0, Activity::Copy, (before, after), size)?;
            }
        }
        Ok(rows)
    }

    /// Goes through groups that an earlier pipeline left on the device.
    pub(super) fn run_groups(
        &mut self,
        kernel: &mut Kernel,
        held: &HeldGroups,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        kernel.state.set(Arg::SourceGroups, held.groups.address());
        kernel.state.set(Arg::SourceGroupKeys, held.keys.as_ref().map_or(0, Span::address));
        report.rows_in += held.count;
        let mut top = Top::of(kernel, None)?;
        let mut rows: Option<Rows> = None;
        let mut first = 0;
        // A threshold early, where one helps.
        let mut step = if top.is_some() { FIRST_TOP_PLACES } else { u64::MAX };
        while first < held.places() {
            self.cancel.check()?;
            let end = first.saturating_add(step).min(held.places());
            top.iter().for_each(|top| top.set_threshold(kernel));
            let more = self.run_places(kernel, held, first..end, report)?;
            match (&mut rows, more) {
                (Some(rows), Some(more)) => append(rows, more),
                (rows, more) => *rows = more.or(rows.take()),
            }
            if let (Some(top), Some(rows)) = (&mut top, &mut rows) {
                top.keep_best(rows);
            }
            (first, step) = (end, step.saturating_mul(8));
        }
        Ok(rows)
    }

    /// Goes through these places.
    fn run_places(
        &mut self,
        kernel: &mut Kernel,
        held: &HeldGroups,
        places: Range<u64>,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let firsts: Vec<u64> = places.clone().step_by(ROW_GROUP_PLACES as usize).collect();
        let row_counts: Vec<u32> =
            firsts.iter().map(|first| (places.end - first).min(ROW_GROUP_PLACES) as u32).collect();
        let words = descriptor_words(firsts.len(), 1);
        let reads = [&held.groups].into_iter().chain(&held.keys).cloned().collect();
        let rows = held.count.min(places.end - places.start);
        let morsel = Morsel { addresses: firsts, row_counts, rows, reads };
        let (rows, launched) = self.run_at_once(kernel, words, morsel, report)?;
        for Launched { rows, started, done, .. } in &launched {
            report.kernels += done.elapsed_since(started)?;
            if let Some(trace) = &self.trace {
                let size = SpanSize { bytes: 0, rows: *rows };
                trace.device(0, Activity::Kernel, (started, done), size)?;
            }
        }
        Ok(rows)
    }

    /// Runs the kernel over all of a source that is on the device, `words` of descriptors long.
    fn run_at_once(
        &self,
        kernel: &mut Kernel,
        words: usize,
        morsel: Morsel,
        report: &mut PipelineReport,
    ) -> Result<(Option<Rows>, Vec<Launched>)> {
        let ready = self.stream().record()?;
        let lanes = self.worker.lanes.hold(&self.runtime.machine, self.worker.device, 1, words)?;
        let lane = &lanes.list()[0];
        lane.stream.wait_for(&ready)?;
        let row_count = morsel.rows;
        let mut launched = Vec::new();
        let rows = self.run_morsel(kernel, lane, &morsel, &mut launched, report)?;
        let done = lane.stream.record()?;
        let first = kernel.started.take();
        launched.extend(first.map(|started| Launched {
            buffer: 0,
            rows: row_count,
            started,
            done: done.clone(),
        }));
        if row_count > 0 && rows.is_none() && kernel.generated.sink.may_be_full() {
            let mut flights = Flights::new(1);
            flights.add(0, Flight { morsel, done });
            self.settle(kernel, &lanes, &mut flights, 0, &mut launched, report)?;
        }
        lanes.wait_blocking()?;
        Ok((rows, launched))
    }

    pub(super) fn run_scan(
        &mut self,
        kernel: &mut Kernel,
        (index, scan): (usize, &TableScan),
        prepared: &Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let mut top = Top::of(kernel, Some(scan))?;
        let (tasks, number) = self.tasks(index);
        let in_order = |list: &[u32]| top.as_ref().map_or_else(|| list.to_vec(), |top| top.in_order(list));
        tasks.deal(&scan.row_groups, scan.table.row_group_count(), in_order);
        let rows = self.run_tasks(kernel, scan, prepared, (&tasks, number), &mut top, report);
        if rows.is_err() {
            tasks.give_back(number);
        }
        rows
    }

    /// Runs the kernel over the row groups that this worker takes.
    fn run_tasks(
        &mut self,
        kernel: &mut Kernel,
        scan: &TableScan,
        prepared: &Prepared,
        (tasks, number): (&Arc<Tasks>, usize),
        top: &mut Option<Top>,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let started = Instant::now();
        let mappings = self.send_mappings(prepared, scan)?;
        self.traced(Activity::Prepare, started);
        let ready = self.stream().record()?;
        let started = Instant::now();
        self.runtime.admit_hot(self.worker.device, scan, self.stream(), self.cancel)?;
        if self.runtime.has_column_cache {
            self.traced(Activity::Admit, started);
        }
        let started = Instant::now();
        let is_output = matches!(kernel.generated.sink, SinkLayout::Rows(_));
        // Rows that come out are taken before the next morsel.
        let may_wait = kernel.generated.sink.may_be_full() && !is_output;
        let row_groups_max = self.row_groups_max(kernel, scan, tasks);
        let coming = Box::new(tasks.of_worker(number));
        let mut prefetcher =
            self.prefetcher(scan, coming, row_groups_max, is_output, top.is_some(), report)?;
        let lanes = self.lanes(&prefetcher, scan.columns.len() + mappings.len() + 2, scan, &ready)?;
        let runtime_filter = RuntimeFilter::new(scan, kernel, prepared)?;
        self.traced(Activity::Allocate, started);
        let mut rows = is_output.then(Rows::default);
        let mut kernels = Vec::new();
        let mut flights = Flights::new(lanes.list().len());
        for turn in 0.. {
            self.cancel.check()?;
            let buffer = turn % lanes.list().len();
            let started = Instant::now();
            for (free, done) in self.settle(kernel, &lanes, &mut flights, buffer, &mut kernels, report)? {
                prefetcher.release(free, done);
            }
            if self.is_in_vain(kernel, &lanes, &kernels, buffer)? {
                break;
            }
            if let Some(trace) = self.trace.as_ref().filter(|_| may_wait) {
                trace.host(buffer, Activity::BufferWait, started, Instant::now(), 0);
            }
            let lane = &lanes.list()[buffer];
            let stream = &lane.stream;
            if let Some(top) = top {
                top.exchange(tasks);
                prefetcher.limit_row_groups(top.row_groups_max(row_groups_max));
                top.set_threshold(kernel);
            }
            let is_beyond = |group| top.as_ref().is_some_and(|top| top.rules_out(group));
            let mut is_unwanted = |group| runtime_filter.rules_out(group) || is_beyond(group);
            let mut morsel = prefetcher.next(buffer, stream, &mut is_unwanted)?;
            while morsel.is_none() {
                // Only who has nothing left to do takes from others: what is launched is not done yet.
                lanes.wait_blocking()?;
                if !tasks.take_over(number) {
                    break;
                }
                morsel = prefetcher.next(buffer, stream, &mut is_unwanted)?;
            }
            let Some(morsel) = morsel else { break };
            let rows_before = report.rows_in;
            let morsel = self.morsel_of(scan, &mappings, morsel, report)?;
            let more = self.run_morsel(kernel, lane, &morsel, &mut kernels, report)?;
            if let (Some(rows), Some(more)) = (&mut rows, more) {
                append(rows, more);
                top.iter_mut().for_each(|top| top.keep_best(rows));
            }
            let done = stream.record()?;
            match may_wait {
                true => flights.add(buffer, Flight { morsel, done: done.clone() }),
                false => prefetcher.release(buffer, done.clone()),
            }
            let (launched, row_count) = (kernel.started.take(), report.rows_in - rows_before);
            kernels.extend(launched.map(|started| Launched { buffer, rows: row_count, started, done }));
            if let Some(trace) = &self.trace {
                trace.memory(&self.runtime.machine, self.worker.device);
            }
            if !self.runtime.options.overlap {
                stream.wait_blocking()?;
            }
        }
        for buffer in 0..lanes.list().len() {
            self.settle(kernel, &lanes, &mut flights, buffer, &mut kernels, report)?;
        }
        lanes.wait_blocking()?;
        for launched in &kernels {
            report.kernels += launched.done.elapsed_since(&launched.started)?;
        }
        self.trace_morsels(&prefetcher.take_timings(), &kernels)?;
        report.add_prefetch(&prefetcher.report());
        runtime_filter.add_to(report);
        top.iter().for_each(|top| top.add_to(report));
        Ok(rows)
    }

    /// The prefetcher for those row groups of `scan` that are `coming`. Rows that come out are waited for morsel by
    /// morsel, so one buffer does.
    fn prefetcher(
        &self,
        scan: &TableScan,
        coming: RowGroups,
        row_groups_max: usize,
        is_output: bool,
        is_top: bool,
        report: &mut PipelineReport,
    ) -> Result<Prefetcher> {
        let options = &self.runtime.options;
        let wanted = if options.overlap && !is_output { options.staging_buffers } else { 1 };
        let buffers = wanted.min(self.morsels_expected(scan)?);
        let prefetch_options = PrefetchOptions {
            morsel_bytes: options.morsel_bytes,
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
            (&scan.row_groups, coming),
            prefetch_options,
            cancel,
        )?;
        if self.trace.is_some() {
            prefetcher.record_timings();
        }
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
        let pipelines = if is_top { buffers } else { options.staging_buffers.max(buffers) };
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
    fn row_groups_max(&self, kernel: &Kernel, scan: &TableScan, tasks: &Tasks) -> usize {
        let most = match tasks.worker_count() {
            1 => self.runtime.options.row_groups_max,
            workers => {
                let share = scan.row_groups.len().div_ceil(workers * MORSELS_OF_SHARE);
                self.runtime.options.row_groups_max.min(share.max(1))
            }
        };
        if !kernel.generated.sink.may_be_full() {
            return most;
        }
        let rows = |group: &u32| scan.table.row_group(*group as usize).row_count as usize;
        let largest = scan.row_groups.iter().map(rows).max().unwrap_or(0).max(1);
        most.min(WAITING_ROWS_MAX / largest).max(1)
    }

    /// What a launch goes through for the row groups that were brought.
    fn morsel_of(
        &self,
        scan: &TableScan,
        mappings: &[Mappings],
        prefetched: pelton_scan::Morsel,
        report: &mut PipelineReport,
    ) -> Result<Morsel> {
        let row_count = |group: &u32| scan.table.row_group(*group as usize).row_count;
        let row_counts: Vec<u32> = prefetched.row_groups.iter().map(row_count).collect();
        report.rows_in += row_counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        report.raw_bytes += raw_bytes(scan, &prefetched.row_groups)?;
        let addresses = with_mappings(&prefetched.addresses, &prefetched.row_groups, scan, mappings);
        let mut reads = prefetched.reads;
        reads.extend(mappings.iter().map(|mapping| mapping.span.clone()));
        let rows = row_counts.iter().map(|count| u64::from(*count)).sum();
        Ok(Morsel { addresses, row_counts, rows, reads })
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
            // Not an argument of the kernel: addresses go with the chunks.
            let mut state = State::default();
            upload(&mut state, self.stream(), self.worker.device, Arg::Chunks, &bytes)?;
            all.push(Mappings { span: state.span(Arg::Chunks)?.clone(), offsets });
        }
        Ok(all)
    }

    /// Enqueues the kernel over a morsel; where it gives rows, waits for them.
    fn run_morsel(
        &self,
        kernel: &mut Kernel,
        lane: &Lane,
        morsel: &Morsel,
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        if morsel.rows == 0 {
            return Ok(None);
        }
        if let SinkLayout::Rows(layout) = kernel.generated.sink.clone() {
            return Output { layout: &layout, lane }.run(self, kernel, morsel, launched, report).map(Some);
        }
        self.launch(kernel, lane, morsel, false)?;
        Ok(None)
    }

    /// Enqueues the kernel over a morsel, or over its rows that wait.
    pub(super) fn launch(&self, kernel: &Kernel, lane: &Lane, morsel: &Morsel, is_redo: bool) -> Result<()> {
        let Lane { stream, descriptors, waiting } = lane;
        let may_wait = kernel.generated.sink.may_be_full();
        if may_wait {
            let vectors = morsel.row_counts.iter().map(|rows| rows.div_ceil(VECTOR_ROWS) as usize).sum();
            waiting.make_room(self, kernel, stream, vectors)?;
        }
        let (chunks, row_counts) = descriptors.send(stream, &morsel.addresses, &morsel.row_counts)?;
        let largest = morsel.row_counts.iter().copied().max().unwrap_or(0);
        let rows: u64 = morsel.row_counts.iter().map(|count| u64::from(*count)).sum();
        let (tile_rows, tiles_per_group) = self.tiles(rows, largest)?;
        let generated = &kernel.generated;
        let mut words = Vec::with_capacity(generated.word_count());
        for arg in &generated.args {
            words.push(match arg {
                Arg::Chunks => chunks,
                Arg::RowGroupRows => row_counts,
                Arg::RowGroupCount => morsel.row_counts.len() as u64,
                Arg::TileRows => u64::from(tile_rows),
                Arg::TilesPerGroup => u64::from(tiles_per_group),
                Arg::IsRedo => u64::from(is_redo),
                Arg::Undone => waiting.undone_address(),
                Arg::Emitted => waiting.emitted_address(),
                Arg::Waiting => waiting.count_address(),
                other => kernel.state.word(*other).ok_or_else(|| {
                    Error::invalid_input(format!("a pipeline without a value for its argument {other:?}"))
                })?,
            });
        }
        words.resize(generated.word_count(), 0);
        let warps = u64::from(generated.block_threads / 32);
        let tiles = morsel.row_counts.len() as u64 * u64::from(tiles_per_group);
        let mut grid = self.grid(tiles.div_ceil(warps), generated.block_threads, generated.shared_bytes)?;
        if generated.shared_bytes == 0 {
            // Blocks without anything to set up are cheap, and as many as there are tiles balance themselves.
            grid.blocks = tiles.div_ceil(warps).clamp(1, BLOCKS_MAX) as u32;
        }
        let workers = (self.runtime.options.workers as u64).clamp(1, tiles.max(1)) as u32;
        let mut reads = morsel.reads.clone();
        reads.push(descriptors.span().clone());
        let mut writes: Vec<Span> = kernel.state.spans().cloned().collect();
        if may_wait {
            writes.extend(waiting.spans());
        }
        let work: Work =
            kernel.program.work("pipeline", ENTRY, words, Launch { grid, workers }, reads, writes)?;
        kernel.started.replace(Some(stream.record()?));
        stream.run(work)?;
        match may_wait {
            true => waiting.bring(stream),
            false if kernel.is_direct_build() => waiting.bring_flags(stream, kernel.state.span(Arg::Flags)?),
            false => Ok(()),
        }
    }

    /// Rows of a tile, so that a morsel keeps the whole device busy, and tiles of the largest row group.
    fn tiles(&self, rows: u64, largest_group_rows: u32) -> Result<(u32, u32)> {
        let multiprocessors = self.runtime.machine.device(self.worker.device)?.multiprocessors;
        let warps = u64::from(multiprocessors * THREADS_PER_MULTIPROCESSOR / 32);
        let tile_rows = (rows / warps / 1024).clamp(1, 8) as u32 * 1024;
        Ok((tile_rows, largest_group_rows.div_ceil(tile_rows).max(1)))
    }
}

/// A kernel under way.
pub(super) struct Launched {
    pub(super) buffer: usize,
    rows: u64,
    started: Event,
    pub(super) done: Event,
}

impl Launched {
    /// The last launch of `kernel`, whose rows are counted with another one.
    pub(super) fn without_rows(buffer: usize, kernel: &Kernel, done: &Event) -> Option<Self> {
        kernel.started.take().map(|started| Self { buffer, rows: 0, started, done: done.clone() })
    }
}

/// Row groups that one launch goes through.
pub(super) struct Morsel {
    addresses: Vec<u64>,
    /// Of each, or places for rows.
    row_counts: Vec<u32>,
    /// Of all together.
    pub(super) rows: u64,
    reads: Vec<Span>,
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

fn raw_bytes(scan: &TableScan, row_groups: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for &group in row_groups {
        for &column in &scan.columns {
            bytes += scan.table.chunk(group as usize, column)?.raw_bytes;
        }
    }
    Ok(bytes)
}
