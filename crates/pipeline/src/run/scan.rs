//! Feeding a pipeline: morsel by morsel from a table's homes, or all at once from an upload.
//!
//! ```text
//!   slot 0   chunks, descriptors ── kernel ── done
//!   slot 1      chunks, descriptors ── kernel ── done        a slot is used again when its kernel is done
//! ```

use std::collections::HashMap;
use std::time::Instant;

use pelton_device::{Event, Span, Stream, Work};
use pelton_error::{Error, Result};
use pelton_zone::{ColumnTest, Scalar, SkipKinds, Verdict};

use super::allocate::THREADS_PER_MULTIPROCESSOR;
use super::execution::{Execution, Kernel, Prepared};
use super::finish::Output;
use super::memory::{Descriptors, Lane, State, upload};
use super::report::PipelineReport;
use super::results::append;
use super::upload::Uploaded;
use crate::codegen::{Arg, ENTRY, SinkLayout};
use crate::home::{Feed, FeedOptions, Home, MorselMarks};
use crate::ir::TableScan;
use crate::program::Launch;
use crate::rows::Rows;
use crate::trace::{Activity, SpanSize};

/// Blocks of a grid at most.
const BLOCKS_MAX: u64 = 1 << 20;

impl Execution<'_> {
    pub(super) fn run_upload(
        &mut self,
        kernel: &mut Kernel,
        uploaded: &Uploaded,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let descriptors = Descriptors::new(
            &self.runtime.machine,
            self.runtime.device,
            uploaded.addresses.len() + uploaded.row_counts.len().div_ceil(2),
        )?;
        report.rows_in += uploaded.row_counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        report.link_bytes += uploaded.bytes;
        let morsel = Morsel {
            addresses: &uploaded.addresses,
            row_counts: &uploaded.row_counts,
            reads: vec![uploaded.span.clone()],
        };
        let rows = self.run_morsel(kernel, self.stream(), &descriptors, &morsel)?;
        let done = self.stream().record()?;
        done.wait_blocking()?;
        if let (Some(trace), Some(started)) = (&self.trace, kernel.started.take()) {
            let rows = uploaded.row_counts.iter().map(|count| u64::from(*count)).sum();
            let size = SpanSize { bytes: uploaded.bytes, rows };
            trace.device(0, Activity::Kernel, (&started, &done), size)?;
            // It was copied once, however often kernels go through it.
            if let (Some((before, after)), 0) = (&uploaded.copy, report.repeats) {
                trace.device(0, Activity::Copy, (before, after), size)?;
            }
        }
        Ok(rows)
    }

    pub(super) fn run_scan(
        &mut self,
        kernel: &mut Kernel,
        scan: &TableScan,
        prepared: &Prepared,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        let is_output = matches!(kernel.generated.sink, SinkLayout::Rows(_));
        let options = &self.runtime.options;
        let wanted = if options.overlap && !is_output { options.slots } else { 1 };
        let slots = wanted.min(self.morsels_expected(scan)?);
        let feed_options =
            FeedOptions { morsel_bytes: options.morsel_bytes, row_groups_max: options.row_groups_max, slots };
        let (machine, device) = (&self.runtime.machine, self.runtime.device);
        let started = Instant::now();
        let remaps = self.send_remaps(prepared, scan)?;
        self.traced(Activity::Prepare, started);
        let ready = self.stream().record()?;
        let started = Instant::now();
        self.runtime.keep_hot(scan, self.stream(), self.cancel)?;
        if self.runtime.keeps_columns {
            self.traced(Activity::Keep, started);
        }
        let started = Instant::now();
        let homes = &self.runtime.homes;
        let mut feed = Feed::new(
            homes,
            device,
            &scan.table,
            &scan.columns,
            &scan.row_groups,
            feed_options,
            self.cancel.clone(),
        )?;
        if self.trace.is_some() {
            feed.keep_marks();
        }
        let slot_count = feed.slot_count();
        if slot_count < slots {
            report.notes.push(format!(
                "{slot_count} buffers in flight in place of {slots}: device or pinned memory is short; \
                 --device-mem-cap gives more of the first, fewer pinned tables of the second"
            ));
        }
        let words =
            (scan.columns.len() + remaps.len() + 1) * options.row_groups_max.min(scan.row_groups.len());
        let mut lanes = Vec::with_capacity(slot_count);
        for _ in 0..slot_count {
            let lane = self.runtime.lanes.take(machine, device, words)?;
            lane.stream.wait_for(&ready)?;
            lanes.push(lane);
        }
        let late = LateFilter::new(scan, kernel, prepared)?;
        self.traced(Activity::Allocate, started);
        let mut rows = is_output.then(Rows::default);
        let mut kernels = Vec::new();
        for turn in 0.. {
            self.cancel.check()?;
            let slot = turn % slot_count;
            let Lane { stream, descriptors } = &lanes[slot];
            let Some(morsel) = feed.next(slot, stream, &mut |group| late.rules_out(group))? else { break };
            let row_counts: Vec<u32> = morsel
                .row_groups
                .iter()
                .map(|group| scan.table.row_group(*group as usize).row_count)
                .collect();
            report.rows_in += row_counts.iter().map(|count| u64::from(*count)).sum::<u64>();
            report.raw_bytes += raw_bytes(scan, &morsel.row_groups)?;
            let addresses = with_remaps(&morsel.addresses, &morsel.row_groups, scan.columns.len(), &remaps);
            let mut reads = morsel.reads;
            reads.extend(remaps.iter().map(|remap| remap.span.clone()));
            let work = Morsel { addresses: &addresses, row_counts: &row_counts, reads };
            let more = self.run_morsel(kernel, stream, descriptors, &work)?;
            if let (Some(rows), Some(more)) = (&mut rows, more) {
                append(rows, more);
            }
            let done = stream.record()?;
            feed.release(slot, done.clone());
            let rows_in = row_counts.iter().map(|count| u64::from(*count)).sum();
            let launched = kernel.started.take();
            kernels.extend(launched.map(|started| Launched { slot, rows: rows_in, started, done }));
            if let Some(trace) = &self.trace {
                trace.memory(machine, device);
            }
            if !options.overlap {
                stream.wait_blocking()?;
            }
        }
        for lane in &lanes {
            lane.stream.wait_blocking()?;
        }
        lanes.into_iter().for_each(|lane| self.runtime.lanes.give_back(lane));
        for launched in &kernels {
            report.kernels += launched.done.elapsed_since(&launched.started)?;
        }
        self.trace_morsels(&feed.take_marks(), &kernels)?;
        report.add_feed(&feed.report());
        Ok(rows)
    }

    /// Leaves spans of what was done for morsels; their streams have been waited for.
    fn trace_morsels(&self, marks: &[MorselMarks], kernels: &[Launched]) -> Result<()> {
        let Some(trace) = &self.trace else { return Ok(()) };
        for marks in marks {
            for lap in &marks.laps {
                trace.host(marks.slot, lap.activity, lap.start, lap.end, lap.bytes);
            }
            if let Some((before, after)) = &marks.copy {
                let size = SpanSize { bytes: marks.copied_bytes, rows: 0 };
                trace.device(marks.slot, Activity::Copy, (before, after), size)?;
            }
        }
        for Launched { slot, rows, started, done } in kernels {
            let size = SpanSize { bytes: 0, rows: *rows };
            trace.device(*slot, Activity::Kernel, (started, done), size)?;
        }
        Ok(())
    }

    /// Morsels that the scan makes at most, as far as sizes tell; at least 1.
    fn morsels_expected(&self, scan: &TableScan) -> Result<usize> {
        let options = &self.runtime.options;
        let mut bytes = 0;
        for &column in &scan.columns {
            if matches!(self.runtime.homes.home(&scan.table, column, self.runtime.device), Home::Device(_)) {
                continue;
            }
            for &group in &scan.row_groups {
                bytes += scan.table.chunk(group as usize, column)?.raw_bytes;
            }
        }
        let by_bytes = bytes as usize / options.morsel_bytes;
        Ok((by_bytes + scan.row_groups.len() / options.row_groups_max + 1).max(1))
    }

    /// Puts the remaps of all row groups of each text column on the device.
    fn send_remaps(&self, prepared: &Prepared, scan: &TableScan) -> Result<Vec<Remaps>> {
        let mut all = Vec::with_capacity(prepared.texts.len());
        for (_, text) in &prepared.texts {
            let by_group = text.remaps()?;
            let mut bytes = Vec::new();
            let mut offsets = HashMap::with_capacity(scan.row_groups.len());
            for &group in &scan.row_groups {
                offsets.insert(group, bytes.len() as u64);
                let remap = &by_group[group as usize];
                remap.iter().for_each(|entry| bytes.extend_from_slice(&entry.to_le_bytes()));
                if remap.is_empty() {
                    bytes.extend_from_slice(&[0; 4]);
                }
            }
            // Not an argument of the kernel: addresses go with the chunks.
            let mut state = State::default();
            upload(&mut state, self.stream(), self.runtime.device, Arg::Chunks, &bytes)?;
            all.push(Remaps { span: state.span(Arg::Chunks)?.clone(), offsets });
        }
        Ok(all)
    }

    /// Enqueues the kernel over a morsel; where it gives rows, waits for them.
    fn run_morsel(
        &self,
        kernel: &mut Kernel,
        stream: &Stream,
        descriptors: &Descriptors,
        morsel: &Morsel<'_>,
    ) -> Result<Option<Rows>> {
        let rows: u64 = morsel.row_counts.iter().map(|count| u64::from(*count)).sum();
        if rows == 0 {
            return Ok(None);
        }
        if let SinkLayout::Rows(columns) = kernel.generated.sink.clone() {
            let output = Output { columns: &columns, rows };
            return output
                .run(self, kernel, stream, |kernel| self.launch(kernel, stream, descriptors, morsel))
                .map(Some);
        }
        self.launch(kernel, stream, descriptors, morsel)?;
        Ok(None)
    }

    fn launch(
        &self,
        kernel: &Kernel,
        stream: &Stream,
        descriptors: &Descriptors,
        morsel: &Morsel<'_>,
    ) -> Result<()> {
        let (chunks, row_counts) = descriptors.send(stream, morsel.addresses, morsel.row_counts)?;
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
        let writes = kernel.state.spans().cloned().collect();
        let work: Work =
            kernel.program.work("pipeline", ENTRY, words, Launch { grid, workers }, reads, writes)?;
        kernel.started.replace(Some(stream.record()?));
        stream.run(work)
    }

    /// Rows of a tile, so that a morsel keeps the whole device busy, and tiles of the largest row group.
    fn tiles(&self, rows: u64, largest_group_rows: u32) -> Result<(u32, u32)> {
        let multiprocessors = self.runtime.machine.device(self.runtime.device)?.multiprocessors;
        let warps = u64::from(multiprocessors * THREADS_PER_MULTIPROCESSOR / 32);
        let tile_rows = (rows / warps / 1024).clamp(1, 8) as u32 * 1024;
        Ok((tile_rows, largest_group_rows.div_ceil(tile_rows).max(1)))
    }
}

/// A kernel under way.
struct Launched {
    slot: usize,
    rows: u64,
    started: Event,
    done: Event,
}

/// Row groups that one launch goes through.
struct Morsel<'m> {
    addresses: &'m [u64],
    row_counts: &'m [u32],
    reads: Vec<Span>,
}

/// The remaps of a text column on the device.
struct Remaps {
    span: Span,
    /// By row group, bytes.
    offsets: HashMap<u32, u64>,
}

/// The addresses of each row group's chunks, then of its remaps.
fn with_remaps(addresses: &[u64], row_groups: &[u32], columns: usize, remaps: &[Remaps]) -> Vec<u64> {
    let mut all = Vec::with_capacity(addresses.len() + row_groups.len() * remaps.len());
    for (at, group) in row_groups.iter().enumerate() {
        all.extend_from_slice(&addresses[at * columns..(at + 1) * columns]);
        all.extend(remaps.iter().map(|remap| remap.span.address() + remap.offsets[group]));
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

/// Range filters that finished tables have narrowed, against the zone maps of row groups that are still to come.
struct LateFilter {
    /// By row group.
    is_ruled_out: Vec<bool>,
}

impl LateFilter {
    fn new(scan: &TableScan, kernel: &Kernel, prepared: &Prepared) -> Result<Self> {
        let mut tests = Vec::new();
        for range in kernel.generated.ranges.iter().filter(|range| range.is_late && scan.skips_late) {
            debug_assert!(prepared.columns[range.column].has_ranges());
            let bound = |value: i64| std::ops::Bound::Included(Scalar::Int(value.into()));
            let test = ColumnTest::Range { lower: bound(range.low), upper: bound(range.high) };
            tests.push((scan.table.zone_maps(scan.columns[range.column])?, test));
        }
        let mut is_ruled_out = Vec::new();
        if !tests.is_empty() {
            is_ruled_out.resize(scan.table.row_group_count(), false);
            for &group in &scan.row_groups {
                is_ruled_out[group as usize] = tests.iter().any(|(zone_maps, test)| {
                    matches!(zone_maps[group as usize].test(test, SkipKinds::ALL), Verdict::Never(_))
                });
            }
        }
        Ok(Self { is_ruled_out })
    }

    fn rules_out(&self, group: u32) -> bool {
        self.is_ruled_out.get(group as usize).copied().unwrap_or(false)
    }
}
