//! Memory of a pipeline on the device: its sink's tables and groups, cleared; the results of text functions; ranges.

use pelton_device::Span;
use pelton_device::cuda::Grid;
use pelton_error::{Error, Result};
use pelton_pipeline::Launch;
use pelton_pipeline::codegen::{
    Arg, COMPACT_ENTRY, FILL_ENTRY, GroupKind, GroupLayout, KEYS_NOTED_MAX, SinkLayout, TableKind,
    TableLayout, WordKind,
};

use super::execution::{Attempt, Execution, GROWTH, Kernel, Prepared};
use super::memory::upload;

/// Threads of a multiprocessor that a grid fills.
pub(super) const THREADS_PER_MULTIPROCESSOR: u32 = 2048;

impl Execution<'_> {
    /// The memory of the sink, cleared.
    pub(super) fn allocate(&self, kernel: &mut Kernel, prepared: &Prepared, attempt: &Attempt) -> Result<()> {
        let sink = kernel.generated.sink.clone();
        upload(&mut kernel.state, self.stream(), self.runtime.device, Arg::Flags, &head(&sink))?;
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
                let bitmap = self.array(
                    kernel,
                    Arg::Bitmap(table),
                    layout.packed_key_count.div_ceil(64) as usize * 8,
                )?;
                self.fill(kernel, &bitmap, 0, 0, 1)?;
                layout.packed_key_count
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
            GroupKind::Direct => layout.packed_key_count,
            GroupKind::Hashed | GroupKind::Wide => {
                // Probes may make more rows than come from the source: further tries make room for them.
                let growth = GROWTH.saturating_pow(attempt.number as u32);
                let rows = row_count.max(64).saturating_mul(growth);
                let groups = layout.packed_key_count.min(attempt.groups).min(rows);
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

    pub(super) fn grid(&self, blocks_wanted: u64, threads: u32, shared_bytes: u32) -> Result<Grid> {
        let multiprocessors = self.runtime.machine.device(self.runtime.device)?.multiprocessors;
        let resident = u64::from(multiprocessors) * u64::from(THREADS_PER_MULTIPROCESSOR / threads);
        Ok(Grid { blocks: blocks_wanted.clamp(1, resident.max(1)) as u32, threads, shared_bytes })
    }
}

/// Flags, then of a table: rows, least and greatest packed key, how many keys are noted, those. One array, one copy
/// either way.
fn head(sink: &SinkLayout) -> Vec<u8> {
    let noted = if matches!(sink, SinkLayout::Build(_)) { 1 + KEYS_NOTED_MAX } else { 0 };
    let words = [0, 0, i64::MAX as u64, u64::MAX].into_iter().chain(std::iter::repeat_n(0, noted));
    words.flat_map(u64::to_le_bytes).collect()
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
