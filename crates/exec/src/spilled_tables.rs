//! Hash tables that are more than fits: their rows go to the host, in partitions by a hash of their keys, of which one at a
//! time comes back as a table.
//!
//! ```text
//!   rows ──► hash table ── full, and no memory for a larger one ──► run: keys and payload, on the host
//!               ▲    the table is cleared, the rows that wait go in ◄──┘
//!               └── rows …                                             in the end all runs are split into partitions
//!
//!   partition ──► chunks on the device ──► kernel ──► hash table       when a pipeline comes to probe it (partitions.rs)
//! ```
//!
//! A table that takes more than half of the device's memory is spilled too, so that the other half is left to who probes
//! it. Keys are brought from the slots of the table and unpacked on the host, so no row is scanned twice.
//!
//! Traffic: slots and rows are copied to the host once, rows back once for each pipeline that probes. Host memory: all
//! rows, and those of a run or a partition that is being split once more; on the process's heap.

use std::sync::Arc;

use pelton_device::Span;
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{
    Arg, BuiltTable, Form, Generated, PayloadColumn, SinkLayout, SourceColumn, TableKind, TableLayout,
};
use pelton_pipeline::ir::{Column, Expr, Pipeline, Sink, Source};
use pelton_pipeline::{Program, Rows};

use super::MemoryTest;
use super::allocate::built_table;
use super::execution::{Execution, Kernel, ROOM_LEAST};
use super::finish::{End, Outcome, finish, flags};
use super::host_input::copy_rows;
use super::keyed_rows::{bytes, split};
use super::memory::{State, download_blocking, download_words_blocking, is_out_of_memory};
use super::parking::Memory;
use super::prepare::Prepared;
use super::report::PipelineReport;
use super::results::{append, key_column, output_column};
use super::spill::advice;

/// Partitions that a table is split into at once.
const PARTITIONS_MAX: u64 = 1 << 10;
/// Partitions of a test that there are some.
const PARTITIONS_OF_TEST: u64 = 4;
/// Arrays are brought to the host in pieces of so many bytes.
const BROUGHT_BYTES: usize = 16 << 20;

/// Rows of a hash table on the host: keys, then payload.
pub(crate) struct SpilledTable {
    /// By a hash of the keys.
    pub(super) partitions: Vec<Arc<Rows>>,
    /// How many of the first columns are keys.
    pub(super) key_count: usize,
    pub(super) row_count: u64,
    /// Of all rows.
    bytes: u64,
    /// Makes a table of rows of a partition.
    pipeline: Pipeline,
}

/// The kernel that makes tables of partitions, all of one layout.
pub(super) struct PartitionBuild {
    generated: Arc<Generated>,
    program: Arc<Program>,
    columns: Vec<SourceColumn>,
    /// No key may repeat.
    must_be_unique: bool,
    pub(super) table: usize,
}

impl PartitionBuild {
    /// Bytes of the table of a partition of so many rows.
    pub(super) fn table_bytes(&self, rows: usize) -> u64 {
        match &self.generated.sink {
            SinkLayout::Build(layout) => hashed_bytes(layout, rows as u64),
            _ => unreachable!("it builds a table"),
        }
    }
}

impl Kernel {
    /// The layout of the hash table that it builds, if its rows can be moved to the host while more come.
    pub(super) fn spillable_table(&self) -> Option<&TableLayout> {
        match &self.generated.sink {
            SinkLayout::Build(layout) if self.spills_table && layout.kind == TableKind::Hashed => {
                Some(layout)
            }
            _ => None,
        }
    }
}

/// Whether rows of such a table can be on the host: all but texts without a dictionary.
fn can_spill(layout: &TableLayout) -> bool {
    let is_known = |column: &PayloadColumn| match column.form {
        Form::Id => column.dictionary.is_some(),
        form => !matches!(form, Form::View | Form::Kept | Form::Short),
    };
    layout.payload.iter().all(is_known)
}

impl Execution<'_> {
    /// Whether the table that `kernel` builds for `sink` may be spilled. Where several devices work, each holds every
    /// table; where all rows have one key, partitions are of no use.
    pub(super) fn may_spill_table(&self, kernel: &Kernel, sink: &Sink) -> bool {
        let (SinkLayout::Build(layout), Sink::Build { keys, .. }) = (&kernel.generated.sink, sink) else {
            return false;
        };
        let is_constant = keys.iter().all(|key| matches!(key, Expr::Literal(_)));
        self.runtime.workers.len() == 1 && !self.is_with_host() && !is_constant && can_spill(layout)
    }

    /// Bytes that a table may take at most: half of the memory, less the other tables.
    pub(super) fn table_bytes_max(&self) -> Result<u64> {
        Ok((self.device_memory_limit()? / 2).saturating_sub(self.tables.bytes()))
    }

    /// Rows that a hashed table has room for at first, of so many that may come.
    pub(super) fn table_rows_to_begin_with(&self, kernel: &Kernel, rows: u64) -> Result<u64> {
        let Some(layout) = kernel.spillable_table() else { return Ok(rows) };
        let bytes_max = self.table_bytes_max()?;
        let mut room = rows;
        while room > 1 && hashed_bytes(layout, room) > bytes_max {
            room = room.div_ceil(2);
        }
        Ok(room)
    }

    /// Whether the table of `kernel`, which is full, goes to the host rather than to a larger one.
    pub(super) fn is_table_to_spill(&self, kernel: &Kernel) -> Result<bool> {
        let Some(layout) = kernel.spillable_table() else { return Ok(false) };
        let rows_max = kernel.state.word(Arg::TableRowsMax(built_table(kernel)?)).unwrap_or(0);
        Ok(hashed_bytes(layout, rows_max * 2) > self.table_bytes_max()?)
    }

    /// Moves all rows of the table so far to the host; answers how many there were. No kernel is under way.
    pub(super) fn spill_table(&self, kernel: &mut Kernel, report: &mut PipelineReport) -> Result<u64> {
        let Some(layout) = kernel.spillable_table().cloned() else { return Ok(0) };
        let table = built_table(kernel)?;
        let head = kernel.state.span(Arg::Flags)?.slice(8..16);
        let rows_max = kernel.state.word(Arg::TableRowsMax(table)).unwrap_or(0);
        // Rows that found no room were counted all the same.
        let count = download_words_blocking(self.stream(), &head)?[0].min(rows_max);
        if count == 0 {
            return Ok(0);
        }
        let rows = self.rows_of_table(&kernel.state, table, &layout, count as usize)?;
        self.check_host_bytes(kernel.table_runs.iter().chain([&rows]))?;
        self.fill(self.stream(), kernel.state.span(Arg::TableKeys(table))?, u64::MAX, 0, 1)?;
        for span in [kernel.state.span(Arg::Heads(table))?, kernel.state.span(Arg::Bloom(table))?, &head] {
            self.clear(self.stream(), span)?;
        }
        // Morsels run in other streams.
        self.stream().wait_blocking()?;
        self.note_spilled(&rows, report);
        kernel.table_runs.push(rows);
        Ok(count)
    }

    /// Nobody else has memory to give: see `relieve`.
    pub(super) fn relieve_of_table(
        &self,
        kernel: &mut Kernel,
        refusal: Error,
        is_full: bool,
        report: &mut PipelineReport,
    ) -> Result<()> {
        let Some(layout) = kernel.spillable_table().cloned() else { unreachable!("a table that is spilled") };
        let spilled = self.spill_table(kernel, report)?;
        if is_full && spilled > 0 {
            return Ok(());
        }
        let table = built_table(kernel)?;
        let rows_max = kernel.state.word(Arg::TableRowsMax(table)).unwrap_or(0);
        if rows_max <= ROOM_LEAST {
            return Err(refusal.context(advice(kernel)));
        }
        kernel.state.forget(|arg| arg.is_of_table(table));
        let smaller = self.making_room(|| {
            let mut smaller = State::default();
            let allocated = self.allocate_hashed(table, &layout, rows_max / 2, &mut smaller);
            self.stream().wait_blocking()?;
            allocated.map(|()| smaller)
        })?;
        kernel.state.adopt(&smaller, |_| true);
        Ok(())
    }

    /// Looks whether the host has room for `rows` beside the tables that it holds.
    ///
    /// # Errors
    ///
    /// `Unsupported` where it has not.
    pub(super) fn check_host_bytes<'r>(&self, rows: impl IntoIterator<Item = &'r Rows>) -> Result<()> {
        let held: u64 = self.spilled.values().map(|spilled| spilled.bytes).sum();
        let (wanted, most) = (held + rows.into_iter().map(bytes).sum::<u64>(), self.host_bytes_max);
        match wanted > most {
            true => Err(Error::unsupported(format!(
                "{wanted} bytes of hash tables that the device has no room for, and of rows that wait for them, on the host, \
                 which has {most} for them; raise --device-memory-limit or --memory-limit"
            ))),
            false => Ok(()),
        }
    }

    fn note_spilled(&self, rows: &Rows, report: &mut PipelineReport) {
        report.spilled_table_rows += rows.row_count as u64;
        report.spilled_table_bytes += bytes(rows);
        report.moved_down_bytes += bytes(rows);
    }

    /// What became of a build of which some rows have been spilled: all of them are.
    pub(super) fn finish_spilled_table(
        &self,
        mut kernel: Kernel,
        sink: &Sink,
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        flags(self.stream(), &kernel)?;
        self.spill_table(&mut kernel, report)?;
        let SinkLayout::Build(layout) = &kernel.generated.sink else {
            unreachable!("only builds have tables")
        };
        let runs = std::mem::take(&mut kernel.table_runs);
        self.spilled(layout, sink, runs, report).map(|spilled| Outcome::Spilled(Arc::new(spilled)))
    }

    /// Spills a table that has been built, where it takes more than half of the memory.
    pub(super) fn spill_if_large(
        &self,
        outcome: Outcome,
        (sink, may_spill): (&Sink, bool),
        report: &mut PipelineReport,
    ) -> Result<Outcome> {
        let (Outcome::Built(built, state), Sink::Build { table, .. }) = (&outcome, sink) else {
            return Ok(outcome);
        };
        let is_test = self.runtime.options.memory_test == MemoryTest::SpillTables;
        let bytes: u64 = state.bytes_of(|arg| arg.is_of_table(*table));
        if !may_spill || (bytes <= self.table_bytes_max()? && !is_test) {
            return Ok(outcome);
        }
        let rows = self.rows_of_table(state, *table, &built.layout, built.row_count as usize)?;
        self.check_host_bytes([&rows])?;
        self.note_spilled(&rows, report);
        let spilled = self.spilled(&built.layout, sink, vec![rows], report)?;
        Ok(Outcome::Spilled(Arc::new(spilled)))
    }

    /// Bytes that the table of a partition is to take: a quarter of what other tables leave.
    pub(super) fn partition_bytes(&self) -> Result<u64> {
        Ok((self.device_memory_limit()?.saturating_sub(self.tables.bytes()) / 4).max(1))
    }

    /// Splits `runs` into partitions of which each has a table of about [`Self::partition_bytes`].
    fn spilled(
        &self,
        layout: &TableLayout,
        sink: &Sink,
        runs: Vec<Rows>,
        report: &mut PipelineReport,
    ) -> Result<SpilledTable> {
        let Sink::Build { table, keys, .. } = sink else { unreachable!("only builds have tables") };
        let row_count = runs.iter().map(|rows| rows.row_count as u64).sum();
        let bytes = runs.iter().map(bytes).sum();
        let count =
            hashed_bytes(layout, row_count).div_ceil(self.partition_bytes()?).clamp(1, PARTITIONS_MAX);
        let is_test = self.runtime.options.memory_test == MemoryTest::SpillTables;
        let count = if is_test { count.max(PARTITIONS_OF_TEST) } else { count } as usize;
        let key_count = keys.len();
        let key_columns: Vec<usize> = (0..key_count).collect();
        let mut partitions = vec![Rows::default(); count];
        for run in runs {
            for (partition, rows) in partitions.iter_mut().zip(split(run, &key_columns, count, 0)) {
                append(partition, rows)?;
            }
        }
        report.spilled_table_partitions += count;
        let partitions = partitions.into_iter().map(Arc::new).collect();
        let pipeline = partition_pipeline(layout, *table, key_count);
        Ok(SpilledTable { partitions, key_count, row_count, bytes, pipeline })
    }

    /// The rows of a table, `count` of them.
    fn rows_of_table(&self, state: &State, table: usize, layout: &TableLayout, count: usize) -> Result<Rows> {
        let (packed, places) = match layout.kind {
            TableKind::Hashed => (self.packed_keys(state, table, count)?, None),
            TableKind::Direct => {
                let keys = self.keys_of_bitmap(state.span(Arg::Bitmap(table))?)?;
                (keys.clone(), Some(keys))
            }
        };
        assert_eq!(packed.len(), count, "rows of a table are counted");
        let mut columns = Vec::with_capacity(layout.payload.len() + layout.packed_keys().len());
        let mut stride = 1;
        for key in layout.packed_keys() {
            columns.push(key_column(key, packed.iter().map(|packed| packed / stride % key.count()))?);
            stride = stride.saturating_mul(key.count());
        }
        drop(packed);
        let brought = layout.brought_columns();
        let keys_first = (brought..layout.payload.len()).chain(0..brought);
        for index in keys_first {
            let column = &layout.payload[index];
            let bring = |arg, width: usize| {
                let span = state.span(arg)?;
                match &places {
                    None => self.brought(&span.slice(0..count * width)),
                    Some(places) => self.brought_from(span, width, places),
                }
            };
            let values = bring(Arg::Payload(table, index), column.form.bytes())?;
            let valid = column.is_nullable.then(|| bring(Arg::PayloadValid(table, index), 1)).transpose()?;
            columns.push(output_column(column, &values, valid.as_deref(), count));
        }
        Ok(Rows { row_count: count, columns })
    }

    /// The packed key of each row of a hashed table: those of its slots, along the chains.
    fn packed_keys(&self, state: &State, table: usize, count: usize) -> Result<Vec<u64>> {
        let (keys, heads) = (state.span(Arg::TableKeys(table))?, state.span(Arg::Heads(table))?);
        let next = self.brought(&state.span(Arg::Next(table))?.slice(0..count * 4))?;
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes"));
        let mut packed = vec![0; count];
        let slots = heads.len() / 4;
        let at_once = BROUGHT_BYTES / 8;
        for first in (0..slots).step_by(at_once) {
            let end = slots.min(first + at_once);
            let keys = download_words_blocking(self.stream(), &keys.slice(first * 8..end * 8))?;
            let heads = download_blocking(self.stream(), &heads.slice(first * 4..end * 4))?;
            for (key, head) in keys.iter().zip(heads.chunks_exact(4)) {
                let mut row = word(head) as usize;
                while row > 0 {
                    packed[row - 1] = *key;
                    row = word(&next[(row - 1) * 4..row * 4]) as usize;
                }
            }
        }
        Ok(packed)
    }

    /// The keys of a table by position.
    fn keys_of_bitmap(&self, bitmap: &Span) -> Result<Vec<u64>> {
        let mut keys = Vec::new();
        for (at, word) in self.brought(bitmap)?.chunks_exact(8).enumerate() {
            let mut left = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            while left != 0 {
                keys.push(at as u64 * 64 + u64::from(left.trailing_zeros()));
                left &= left - 1;
            }
        }
        Ok(keys)
    }

    /// The bytes of `span`, in pieces.
    fn brought(&self, span: &Span) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(span.len());
        for piece in span.chunks(BROUGHT_BYTES) {
            bytes.extend(download_blocking(self.stream(), &piece)?);
        }
        Ok(bytes)
    }

    /// Values of `width` bytes at `places`, ascending, of `span`.
    fn brought_from(&self, span: &Span, width: usize, places: &[u64]) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(places.len() * width);
        let at_once = BROUGHT_BYTES / width;
        let mut left = places;
        while let Some(first) = left.first().map(|place| *place as usize) {
            let end = (first + at_once).min(span.len() / width);
            let piece = download_blocking(self.stream(), &span.slice(first * width..end * width))?;
            let count = left.partition_point(|place| (*place as usize) < end);
            for place in &left[..count] {
                let start = (*place as usize - first) * width;
                bytes.extend_from_slice(&piece[start..start + width]);
            }
            left = &left[count..];
        }
        Ok(bytes)
    }

    /// The kernel that makes tables of the partitions of `spilled`, and what is known of all of them for who probes.
    pub(super) fn partition_build(
        &self,
        index: usize,
        spilled: &SpilledTable,
        report: &mut PipelineReport,
    ) -> Result<(PartitionBuild, BuiltTable)> {
        let Sink::Build { table, .. } = spilled.pipeline.sink else { unreachable!("it builds a table") };
        let prepared = Prepared::of_rows(&spilled.partitions[0], spilled.row_count);
        let generated = self.generate((index, &spilled.pipeline), &prepared, true)?;
        let (program, compile) = self.runtime.compile(self.worker, &generated, self.cancel)?;
        report.add_compile(&compile);
        let SinkLayout::Build(layout) = generated.sink.clone() else { unreachable!("it builds a table") };
        let must_be_unique = self.plan.unique_tables.contains(&table);
        let built = BuiltTable {
            layout,
            is_unique: must_be_unique,
            row_count: spilled.row_count,
            packed_key_range: None,
            few_packed_keys: None,
        };
        let (generated, columns) = (Arc::new(generated), prepared.columns);
        Ok((PartitionBuild { generated, program, columns, must_be_unique, table }, built))
    }

    /// A table of `rows` on the device.
    pub(super) fn build_partition(
        &mut self,
        build: &PartitionBuild,
        rows: &Rows,
        report: &mut PipelineReport,
    ) -> Result<State> {
        loop {
            match self.try_to_build(build, rows, report) {
                Err(refusal) if is_out_of_memory(&refusal) => {
                    self.make_way(refusal, &mut Memory::default(), report)?;
                }
                state => return state,
            }
        }
    }

    fn try_to_build(
        &mut self,
        build: &PartitionBuild,
        rows: &Rows,
        report: &mut PipelineReport,
    ) -> Result<State> {
        let mut kernel = Kernel::new(Arc::clone(&build.program), Arc::clone(&build.generated));
        let mut prepared = Prepared::of_rows(rows, rows.row_count as u64);
        prepared.columns.clone_from(&build.columns);
        let copied =
            copy_rows(rows, 0..rows.row_count, self.worker.device, self.stream(), self.trace.is_some())?;
        prepared.host_input = Some(copied);
        self.allocate(&mut kernel, (rows.row_count as u64).max(1))?;
        let mut of_build = PipelineReport::default();
        self.run_host_input(&mut kernel, &mut prepared, &mut of_build)?;
        report.kernels += of_build.kernels;
        report.moved_up_bytes += of_build.link_bytes;
        let end = End { source: None, must_be_unique: build.must_be_unique, is_part: false };
        match finish(self, kernel, None, end, report)? {
            Outcome::Built(_, state) => Ok(state),
            _ => unreachable!("hashed tables are built of any keys"),
        }
    }
}

/// Bytes of a hashed table with room for so many rows: see `allocate_hashed`.
fn hashed_bytes(layout: &TableLayout, rows: u64) -> u64 {
    let slots = rows.saturating_add(rows / 2).max(64).checked_next_power_of_two().unwrap_or(u64::MAX / 16);
    let bloom_words = (rows / 4).max(64).checked_next_power_of_two().unwrap_or(u64::MAX / 16);
    let of_column = |column: &PayloadColumn| column.form.bytes() as u64 + u64::from(column.is_nullable);
    let row_bytes = 4 + layout.payload.iter().map(of_column).sum::<u64>();
    slots
        .saturating_mul(12)
        .saturating_add(bloom_words.saturating_mul(8))
        .saturating_add(rows.saturating_mul(row_bytes))
}

/// The pipeline that makes table `table` of rows whose first `key_count` columns are keys.
fn partition_pipeline(layout: &TableLayout, table: usize, key_count: usize) -> Pipeline {
    let brought = layout.brought_columns();
    let column = |known: &PayloadColumn| Column {
        name: "spilled".into(),
        ty: known.ty,
        is_nullable: known.is_nullable,
        bounds: known.bounds,
        text: None,
    };
    let packed = layout.packed_keys().iter().map(|key| Column {
        name: "spilled key".into(),
        ty: key.ty,
        is_nullable: false,
        bounds: key.bounds(),
        text: None,
    });
    let others = layout.payload[brought..].iter().chain(&layout.payload[..brought]).map(column);
    let columns: Vec<Column> = packed.chain(others).collect();
    assert_eq!(columns.len(), key_count + brought, "rows are keys and payload");
    let exprs = |range: std::ops::Range<usize>| range.map(Expr::Column).collect();
    let sink = Sink::Build { table, keys: exprs(0..key_count), payload: exprs(key_count..columns.len()) };
    Pipeline { name: "spilled table".into(), source: Source::HostInput(0), columns, ops: Vec::new(), sink }
}
