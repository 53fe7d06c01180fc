//! One run of a plan: what was built so far, and the pipeline at hand.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use pelton_device::cuda::Grid;
use pelton_device::{Event, Span, Stream, Work};
use pelton_error::{CancelFlag, Error, ErrorKind, Result, ResultExt, Tier};
use pelton_store::Table;
use pelton_zone::{ColumnTest, Scalar, SkipKinds, Verdict};

use super::Runtime;
use super::finish::{Outcome, finish};
use super::memory::{Descriptors, Lane, State, upload};
use super::report::PipelineReport;
use super::results::append;
use super::upload::{Uploaded, upload_rows};
use crate::codegen::{
    self, Arg, BuiltTable, COMPACT_ENTRY, ENTRY, FILL_ENTRY, Generated, GroupKind, GroupLayout, Request,
    SinkLayout, SourceColumn, StoredAs, TableKind, TableLayout, WordKind,
};
use crate::home::{ColumnText, Feed, FeedOptions, Home, formats};
use crate::ir::{Pipeline, Plan, Sink, Source, TableScan, Type};
use crate::program::{Launch, Program};
use crate::rows::{RowValues, Rows};
use crate::text::{Dictionary, TextSource};

/// Codes of groups by position, where memory allows: their state is cleared and gone through in every run.
const DIRECT_CODES_MAX: u64 = 1 << 22;
/// Codes of a direct table, where memory allows: only its bitmap is cleared.
const TABLE_CODES_MAX: u64 = 1 << 31;
/// Groups that a hashed aggregation starts with room for.
const FIRST_GROUPS: u64 = 1 << 20;
/// How much larger the next try is after one that was too small.
pub(crate) const GROWTH: u64 = 8;
/// Threads of a multiprocessor that a grid fills.
const THREADS_PER_MULTIPROCESSOR: u32 = 2048;

/// Blocks of a grid at most.
const BLOCKS_MAX: u64 = 1 << 20;

/// What the last try of a pipeline taught.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) number: usize,
    pub(crate) is_hashed: bool,
    pub(crate) groups: u64,
    pub(crate) build_rows_factor: u64,
}

/// A run of a plan.
pub(crate) struct Execution<'r> {
    pub(crate) runtime: &'r Runtime,
    plan: &'r Plan,
    cancel: &'r CancelFlag,
    uploads: Vec<Option<Rows>>,
    built: Vec<Option<BuiltTable>>,
    /// Arrays of the tables built so far.
    tables: State,
    lane: Lane,
    reports: Vec<PipelineReport>,
}

/// The source of a pipeline, ready to be read.
struct Prepared {
    columns: Vec<SourceColumn>,
    dictionaries: HashMap<usize, Arc<Dictionary>>,
    texts: Vec<(usize, Arc<ColumnText>)>,
    uploaded: Option<Uploaded>,
    row_count: u64,
}

/// A kernel with its memory.
pub(crate) struct Kernel {
    pub(crate) program: Arc<Program>,
    pub(crate) generated: Generated,
    pub(crate) state: State,
    /// Just before its last launch.
    started: RefCell<Option<Event>>,
}

impl<'r> Execution<'r> {
    pub(crate) fn new(
        runtime: &'r Runtime,
        plan: &'r Plan,
        uploads: Vec<Rows>,
        cancel: &'r CancelFlag,
    ) -> Result<Self> {
        if uploads.len() != plan.upload_count {
            return Err(Error::invalid_input(format!("{} uploads for {}", uploads.len(), plan.upload_count)));
        }
        Ok(Self {
            runtime,
            plan,
            cancel,
            uploads: uploads.into_iter().map(Some).collect(),
            built: vec![None; plan.table_count],
            tables: State::default(),
            lane: runtime.lanes.take(&runtime.machine, runtime.device, 0)?,
            reports: Vec::with_capacity(plan.pipelines.len()),
        })
    }

    /// The reports, once all is done.
    pub(crate) fn finish(self) -> Vec<PipelineReport> {
        self.runtime.lanes.give_back(self.lane);
        self.reports
    }

    /// The stream of everything but morsels.
    pub(crate) fn stream(&self) -> &Stream {
        &self.lane.stream
    }

    /// Runs pipeline `index`; gives its rows, if it ends in any.
    pub(crate) fn pipeline(&mut self, index: usize) -> Result<Option<Rows>> {
        let pipeline = &self.plan.pipelines[index];
        let started = Instant::now();
        let mut report = PipelineReport { name: pipeline.name.clone(), ..PipelineReport::default() };
        let prepared = self.prepare(pipeline)?;
        report.prepare = started.elapsed();
        let mut attempt = Attempt { number: 0, is_hashed: false, groups: FIRST_GROUPS, build_rows_factor: 1 };
        let rows = loop {
            self.cancel.check()?;
            match self.attempt_evicting(pipeline, &prepared, attempt, &mut report)? {
                Outcome::Built(table, state) => {
                    report.rows_out = table.row_count;
                    self.keep_table(&pipeline.sink, table, state);
                    break None;
                }
                Outcome::Rows(rows) => {
                    report.rows_out = rows.row_count as u64;
                    break Some(rows);
                }
                Outcome::Again(next) => {
                    report.repeats += 1;
                    attempt = next;
                }
            }
        };
        report.elapsed = started.elapsed().saturating_sub(report.compile);
        self.reports.push(report);
        Ok(rows)
    }

    fn keep_table(&mut self, sink: &Sink, table: BuiltTable, state: State) {
        let Sink::Build { table: number, .. } = sink else { unreachable!("only builds leave tables") };
        self.tables.adopt(&state, |arg| arg.is_of_table(*number));
        self.built[*number] = Some(table);
    }

    fn prepare(&mut self, pipeline: &Pipeline) -> Result<Prepared> {
        match &pipeline.source {
            Source::Table(scan) => self.prepare_table(pipeline, scan),
            Source::Upload(upload) => self.prepare_upload(pipeline, *upload),
        }
    }

    fn prepare_table(&self, pipeline: &Pipeline, scan: &TableScan) -> Result<Prepared> {
        let mut prepared = Prepared {
            columns: Vec::with_capacity(scan.columns.len()),
            dictionaries: HashMap::new(),
            texts: Vec::new(),
            uploaded: None,
            row_count: scan.row_groups.iter().map(|group| row_count(&scan.table, *group)).sum(),
        };
        for (k, &table_column) in scan.columns.iter().enumerate() {
            let physical = scan.table.schema().columns[table_column].logical.physical_type();
            let stored = match pipeline.columns[k].ty {
                Type::Text => {
                    let text = self.runtime.homes.text(&scan.table, table_column);
                    prepared.dictionaries.insert(k, text.dictionary()?);
                    prepared.texts.push((k, text));
                    StoredAs::TextCodes
                }
                _ => StoredAs::Values(physical),
            };
            prepared.columns.push(SourceColumn {
                stored,
                formats: formats(&scan.table, table_column, &scan.row_groups)?
                    .into_iter()
                    .collect::<BTreeSet<_>>(),
                widths: self.runtime.homes.widths(&scan.table, table_column),
            });
        }
        Ok(prepared)
    }

    fn prepare_upload(&mut self, pipeline: &Pipeline, upload: usize) -> Result<Prepared> {
        let rows = self.uploads.get_mut(upload).and_then(Option::take).ok_or_else(|| {
            Error::invalid_input(format!("upload {upload} of pipeline '{}' is not there", pipeline.name))
        })?;
        let uploaded = upload_rows(&rows, self.runtime.device, self.stream())?;
        let mut dictionaries = HashMap::new();
        for (k, column) in rows.columns.iter().enumerate() {
            if let RowValues::Text { dictionary, .. } = &column.values {
                dictionaries.insert(k, Arc::clone(dictionary));
            }
        }
        Ok(Prepared {
            columns: uploaded.columns.clone(),
            dictionaries,
            texts: Vec::new(),
            row_count: rows.row_count as u64,
            uploaded: Some(uploaded),
        })
    }

    /// As `attempt`; columns that are only kept for later make room for what is needed now.
    fn attempt_evicting(
        &mut self,
        pipeline: &Pipeline,
        prepared: &Prepared,
        attempt: Attempt,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let outcome = self.attempt(pipeline, prepared, attempt, report);
        let Err(error) = &outcome else { return outcome };
        let is_full = matches!(error.kind(), ErrorKind::OutOfMemory { tier: Tier::Device, .. });
        if !is_full || self.runtime.homes.evict(self.runtime.device, u64::MAX) == 0 {
            return outcome;
        }
        report.notes.push("columns kept on the device made room; --device-mem-cap gives more".into());
        self.attempt(pipeline, prepared, attempt, report)
    }

    fn attempt(
        &mut self,
        pipeline: &Pipeline,
        prepared: &Prepared,
        attempt: Attempt,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let started = Instant::now();
        let generated = codegen::generate(Request {
            pipeline,
            source: &prepared.columns,
            tables: &self.built,
            dictionaries: prepared.dictionaries.clone(),
            row_count: prepared.row_count,
            is_hashed: attempt.is_hashed,
            direct_codes_max: DIRECT_CODES_MAX.min(self.memory_cap()? / 256).max(1024),
            table_codes_max: TABLE_CODES_MAX.min(self.memory_cap()? / 64),
            has_equal_hashes: self.runtime.options.equal_hashes,
        })?;
        report.generate += started.elapsed();
        let compiled = self.runtime.compile(&generated.text);
        let (program, compile) = compiled.context(|| format!("pipeline '{}'", pipeline.name))?;
        report.add_compile(&compile);
        let mut kernel =
            Kernel { program, generated, state: self.tables.clone(), started: RefCell::new(None) };
        let started = Instant::now();
        self.allocate(&mut kernel, prepared, &attempt)?;
        report.allocate += started.elapsed();
        report.state_bytes = kernel.state.bytes();
        let started = Instant::now();
        let rows = match (&pipeline.source, &prepared.uploaded) {
            (Source::Table(scan), _) => self.run_scan(&mut kernel, scan, prepared, report)?,
            (Source::Upload(_), Some(uploaded)) => self.run_upload(&mut kernel, uploaded, report)?,
            (Source::Upload(_), None) => unreachable!("uploads are prepared"),
        };
        report.run += started.elapsed();
        let started = Instant::now();
        let outcome = finish(self, kernel, rows, attempt);
        report.finish += started.elapsed();
        outcome
    }

    fn memory_cap(&self) -> Result<u64> {
        Ok(self.runtime.machine.device_budget(self.runtime.device)?.cap_bytes())
    }

    /// The memory of the sink, cleared.
    fn allocate(&self, kernel: &mut Kernel, prepared: &Prepared, attempt: &Attempt) -> Result<()> {
        // Flags, then the statistics of a table: rows, least and greatest code. One array, one copy either way.
        let head: Vec<u8> =
            [0, 0, i64::MAX as u64, u64::MAX].iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        upload(&mut kernel.state, self.stream(), self.runtime.device, Arg::Flags, &head)?;
        let sink = kernel.generated.sink.clone();
        match &sink {
            SinkLayout::Build(layout) => self.allocate_table(kernel, layout, prepared.row_count, attempt),
            SinkLayout::Groups(layout) => self.allocate_groups(kernel, layout, prepared.row_count, attempt),
            SinkLayout::Rows(_) => Ok(()),
        }?;
        let luts = std::mem::take(&mut kernel.generated.luts);
        for (index, lut) in luts.iter().enumerate() {
            upload(&mut kernel.state, self.stream(), self.runtime.device, Arg::Lut(index), &lut.bytes)?;
            if let Some(valid) = &lut.valid {
                upload(&mut kernel.state, self.stream(), self.runtime.device, Arg::LutValid(index), valid)?;
            }
        }
        for (index, range) in kernel.generated.ranges.iter().enumerate() {
            kernel.state.set(Arg::RangeLow(index), range.low as u64);
            kernel.state.set(Arg::RangeHigh(index), range.high as u64);
        }
        Ok(())
    }

    fn array(&self, kernel: &mut Kernel, arg: Arg, bytes: usize) -> Result<Span> {
        kernel.state.allocate(&self.runtime.machine, self.runtime.device, arg, bytes)
    }

    fn allocate_table(
        &self,
        kernel: &mut Kernel,
        layout: &TableLayout,
        row_count: u64,
        attempt: &Attempt,
    ) -> Result<()> {
        let table = built_table(kernel)?;
        kernel.state.set_part(Arg::TableStats(table), Arg::Flags, 8);
        let places = match layout.kind {
            TableKind::Direct => {
                let bitmap =
                    self.array(kernel, Arg::Bitmap(table), layout.code_count.div_ceil(64) as usize * 8)?;
                self.fill(kernel, &bitmap, 0, 0, 1)?;
                layout.code_count
            }
            TableKind::Hashed => self.allocate_hashed(kernel, table, row_count, attempt)?,
        };
        for (index, column) in layout.payload.iter().enumerate() {
            self.array(kernel, Arg::Payload(table, index), places as usize * column.form.bytes())?;
            if column.is_nullable {
                self.array(kernel, Arg::PayloadValid(table, index), places as usize)?;
            }
        }
        Ok(())
    }

    fn allocate_hashed(
        &self,
        kernel: &mut Kernel,
        table: usize,
        row_count: u64,
        attempt: &Attempt,
    ) -> Result<u64> {
        let rows_max = row_count.max(1) * attempt.build_rows_factor;
        if rows_max >= u64::from(u32::MAX) {
            return Err(Error::unsupported(format!(
                "a hash table of {rows_max} rows; 4294967294 is the most"
            )));
        }
        let slots = (rows_max + rows_max / 2).next_power_of_two().max(64);
        let bloom_words = (rows_max / 4).next_power_of_two().max(64);
        kernel.state.set(Arg::TableRowsMax(table), rows_max);
        kernel.state.set(Arg::TableSlotMask(table), slots - 1);
        kernel.state.set(Arg::BloomMask(table), bloom_words - 1);
        let keys = self.array(kernel, Arg::TableKeys(table), slots as usize * 8)?;
        self.fill(kernel, &keys, u64::MAX, 0, 1)?;
        let heads = self.array(kernel, Arg::Heads(table), slots as usize * 4)?;
        self.fill(kernel, &heads, 0, 0, 1)?;
        let bloom = self.array(kernel, Arg::Bloom(table), bloom_words as usize * 8)?;
        self.fill(kernel, &bloom, 0, 0, 1)?;
        self.array(kernel, Arg::Next(table), rows_max as usize * 4)?;
        Ok(rows_max)
    }

    fn allocate_groups(
        &self,
        kernel: &mut Kernel,
        layout: &GroupLayout,
        row_count: u64,
        attempt: &Attempt,
    ) -> Result<()> {
        let places = match layout.kind {
            GroupKind::Global => 1,
            GroupKind::Direct => layout.code_count,
            GroupKind::Hashed => {
                let groups = layout.code_count.min(attempt.groups).min(row_count.max(64));
                let slots = (groups * 2).next_power_of_two();
                kernel.state.set(Arg::GroupSlotMask, slots - 1);
                let keys = self.array(kernel, Arg::GroupKeys, slots as usize * 8)?;
                self.fill(kernel, &keys, u64::MAX, 0, 1)?;
                slots
            }
        };
        let words = layout.words.len();
        let groups = self.array(kernel, Arg::Groups, places as usize * words * 8)?;
        self.fill(kernel, &groups, 0, 0, 1)?;
        for (word, kind) in layout.words.iter().enumerate() {
            if matches!(kind, WordKind::Min | WordKind::Max) {
                self.fill(kernel, &groups, kind.identity(), word, words)?;
            }
        }
        Ok(())
    }

    /// Sets each `stride`-th word of `span` from word `first` on.
    fn fill(&self, kernel: &Kernel, span: &Span, value: u64, first: usize, stride: usize) -> Result<()> {
        let count = (span.len() / 8 - first).div_ceil(stride) as u64;
        let words = vec![span.address() + first as u64 * 8, count, value, stride as u64];
        self.run_fixed(kernel, FILL_ENTRY, words, count, Vec::new(), vec![span.clone()])
    }

    /// Gathers groups: see `k_compact`.
    pub(crate) fn compact(
        &self,
        kernel: &Kernel,
        words: Vec<u64>,
        reads: Vec<Span>,
        writes: Vec<Span>,
    ) -> Result<()> {
        let places = words[1];
        self.run_fixed(kernel, COMPACT_ENTRY, words, places, reads, writes)
    }

    /// Clears `span`.
    pub(crate) fn clear(&self, kernel: &Kernel, span: &Span) -> Result<()> {
        self.fill(kernel, span, 0, 0, 1)
    }

    fn run_fixed(
        &self,
        kernel: &Kernel,
        entry: &'static str,
        mut words: Vec<u64>,
        items: u64,
        reads: Vec<Span>,
        writes: Vec<Span>,
    ) -> Result<()> {
        words.resize(kernel.generated.word_count(), 0);
        let launch = Launch { grid: self.grid(items.div_ceil(256), 256, 0)?, workers: 1 };
        self.stream().run(kernel.program.work(entry, entry, words, launch, reads, writes)?)
    }

    fn grid(&self, blocks_wanted: u64, threads: u32, shared_bytes: u32) -> Result<Grid> {
        let multiprocessors = self.runtime.machine.device(self.runtime.device)?.multiprocessors;
        let resident = u64::from(multiprocessors) * u64::from(THREADS_PER_MULTIPROCESSOR / threads);
        Ok(Grid { blocks: blocks_wanted.clamp(1, resident.max(1)) as u32, threads, shared_bytes })
    }

    fn run_upload(
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
        self.stream().wait_blocking()?;
        Ok(rows)
    }

    fn run_scan(
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
        let remaps = self.send_remaps(prepared, scan)?;
        let ready = self.stream().record()?;
        self.runtime.keep_hot(scan, self.stream(), self.cancel)?;
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
        let slot_count = feed.slot_count();
        if slot_count < slots {
            report.notes.push(format!(
                "{slot_count} buffers in flight in place of {slots}: device or pinned memory is short; \
                 --device-mem-cap and --pinned-mem-cap give more"
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
            kernels.extend(kernel.started.take().map(|started| (started, done)));
            if !options.overlap {
                stream.wait_blocking()?;
            }
        }
        for lane in &lanes {
            lane.stream.wait_blocking()?;
        }
        lanes.into_iter().for_each(|lane| self.runtime.lanes.give_back(lane));
        for (before, done) in &kernels {
            report.kernels += done.elapsed_since(before)?;
        }
        report.add_feed(&feed.report());
        Ok(rows)
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
            let output = super::finish::Output { columns: &columns, rows };
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

/// The number of the table that a kernel builds.
fn built_table(kernel: &Kernel) -> Result<usize> {
    let number = |arg: &Arg| if let Arg::TableStats(table) = arg { Some(*table) } else { None };
    kernel
        .generated
        .args
        .iter()
        .find_map(number)
        .ok_or_else(|| Error::invalid_input("a build without a table"))
}

fn row_count(table: &Table, group: u32) -> u64 {
    u64::from(table.row_group(group as usize).row_count)
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
