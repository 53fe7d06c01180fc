//! Memory of a pipeline on the device: its sink's tables and groups, cleared; the results of text functions;
//! what texts are held against; ranges.

use std::sync::Arc;

use pelton_device::cuda::Grid;
use pelton_device::{Span, Stream};
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{
    Arg, COMPACT_ENTRY, FILL_ENTRY, FIXED_ARGS, GroupKind, GroupLayout, KEYS_NOTED_MAX, SinkLayout,
    TableKind, TableLayout, WordKind, hashed_slots,
};
use pelton_pipeline::{Launch, Program};

use super::execution::{Execution, Kernel};
use super::finish::output_arrays;
use super::memory::{State, upload};

/// Rows of a hashed table at most: chains count them from 1, in 32 bits.
pub(super) const TABLE_ROWS_MAX: u64 = u32::MAX as u64 - 1;
/// Threads of a multiprocessor that a grid fills.
pub(super) const THREADS_PER_MULTIPROCESSOR: u32 = 2048;

impl Execution<'_> {
    /// The memory of the sink, cleared: where it is found by hashing, with `room` for so many rows or groups.
    pub(super) fn allocate(&self, kernel: &mut Kernel, room: u64) -> Result<()> {
        let sink = kernel.generated.sink.clone();
        self.refuse_first(Arg::Flags, 0)?;
        upload(&mut kernel.state, self.stream(), self.worker.device, Arg::Flags, &head(&sink))?;
        let mut state = State::default();
        match &sink {
            SinkLayout::Build(layout) => {
                let table = built_table(kernel)?;
                kernel.state.set_part(Arg::TableStats(table), Arg::Flags, 8);
                self.allocate_table(table, layout, room, &mut state)
            }
            SinkLayout::Groups(layout) => {
                self.allocate_groups(layout, room, &mut state).and_then(|()| match layout.has_text_heap() {
                    true => self.allocate_heap(self.first_heap_bytes(layout, room)?, &mut state),
                    false => Ok(()),
                })
            }
            SinkLayout::Rows(layout) if layout.order.is_some() => {
                output_arrays(self, layout, room).and_then(|arrays| {
                    state = arrays;
                    self.clear(self.stream(), state.span(Arg::OutputCount)?)
                })
            }
            SinkLayout::Rows(_) => Ok(()),
        }?;
        kernel.state.adopt(&state, |_| true);
        let generated = Arc::clone(&kernel.generated);
        for (index, lut) in generated.luts.iter().enumerate() {
            self.refuse_first(Arg::Lut(index), lut.bytes.len())?;
            upload(&mut kernel.state, self.stream(), self.worker.device, Arg::Lut(index), &lut.bytes)?;
            if let Some(valid) = &lut.valid {
                upload(&mut kernel.state, self.stream(), self.worker.device, Arg::LutValid(index), valid)?;
            }
        }
        // Patterns such as '%' lead to the table and have nothing in it.
        if generated.args.contains(&Arg::TextConstants) {
            let constants = &generated.text_constants;
            self.refuse_first(Arg::TextConstants, constants.len())?;
            upload(&mut kernel.state, self.stream(), self.worker.device, Arg::TextConstants, constants)?;
        }
        for (index, range) in generated.ranges.iter().enumerate() {
            kernel.state.set(Arg::RangeLow(index), range.low as u64);
            kernel.state.set(Arg::RangeHigh(index), range.high as u64);
        }
        for (index, bits) in generated.literals.iter().enumerate() {
            kernel.state.set(Arg::Literal(index), *bits);
        }
        Ok(())
    }

    pub(super) fn array(&self, state: &mut State, arg: Arg, bytes: usize) -> Result<Span> {
        self.refuse_first(arg, bytes)?;
        state.allocate(&self.runtime.machine, self.worker.device, arg, bytes)
    }

    fn allocate_table(&self, table: usize, layout: &TableLayout, rows: u64, state: &mut State) -> Result<()> {
        if layout.kind == TableKind::Hashed {
            if rows > TABLE_ROWS_MAX {
                let most = TABLE_ROWS_MAX;
                return Err(Error::unsupported(format!("a hash table of {rows} rows; {most} is the most")));
            }
            return self.allocate_hashed(table, layout, rows, state);
        }
        let bitmap =
            self.array(state, Arg::Bitmap(table), layout.packed_key_count.div_ceil(64) as usize * 8)?;
        self.fill(self.stream(), &bitmap, 0, 0, 1)?;
        self.allocate_payload(table, layout, layout.packed_key_count, state)
    }

    /// A hashed table for `rows_max` rows.
    pub(super) fn allocate_hashed(
        &self,
        table: usize,
        layout: &TableLayout,
        rows_max: u64,
        state: &mut State,
    ) -> Result<()> {
        let slots = (rows_max + rows_max / 2).next_power_of_two().max(64);
        let bloom_words = (rows_max / 4).next_power_of_two().max(64);
        state.set(Arg::TableRowsMax(table), rows_max);
        state.set(Arg::TableSlotMask(table), slots - 1);
        state.set(Arg::BloomMask(table), bloom_words - 1);
        let keys = self.array(state, Arg::TableKeys(table), slots as usize * 8)?;
        self.fill(self.stream(), &keys, u64::MAX, 0, 1)?;
        let heads = self.array(state, Arg::Heads(table), slots as usize * 4)?;
        self.fill(self.stream(), &heads, 0, 0, 1)?;
        let bloom = self.array(state, Arg::Bloom(table), bloom_words as usize * 8)?;
        self.fill(self.stream(), &bloom, 0, 0, 1)?;
        self.array(state, Arg::Next(table), rows_max as usize * 4)?;
        self.allocate_payload(table, layout, rows_max, state)
    }

    fn allocate_payload(
        &self,
        table: usize,
        layout: &TableLayout,
        places: u64,
        state: &mut State,
    ) -> Result<()> {
        for (index, column) in layout.payload.iter().enumerate() {
            self.array(state, Arg::Payload(table, index), places as usize * column.form.bytes())?;
            if column.is_nullable {
                self.array(state, Arg::PayloadValid(table, index), places as usize)?;
            }
        }
        Ok(())
    }

    /// Bytes of the heap of texts that an aggregation with room for so many groups begins with.
    fn first_heap_bytes(&self, layout: &GroupLayout, groups: u64) -> Result<u64> {
        let texts = groups.min(HEAP_GROUPS_MAX).saturating_mul(layout.text_words() as u64);
        let wanted = texts.saturating_mul(HEAP_TEXT_BYTES).max(HEAP_BYTES_LEAST);
        Ok(wanted.min((self.device_memory_limit()? / 8).max(HEAP_BYTES_LEAST)))
    }

    /// A heap of so many bytes, without texts.
    pub(super) fn allocate_heap(&self, bytes: u64, state: &mut State) -> Result<()> {
        // Kernels read texts in blocks of 16 bytes.
        let bytes = bytes.max(HEAP_BYTES_LEAST).next_multiple_of(16);
        let heap = self.array(state, Arg::TextHeap, bytes as usize)?;
        self.describe_heap(&heap, HEAP_HEAD_BYTES)
    }

    /// Notes in `heap` how many of its bytes are used, and how many there are.
    pub(super) fn describe_heap(&self, heap: &Span, used: u64) -> Result<()> {
        self.fill(self.stream(), &heap.slice(0..8), used, 0, 1)?;
        self.fill(self.stream(), &heap.slice(8..16), heap.len() as u64, 0, 1)
    }

    /// Room for at least so many groups, none of which has rows.
    pub(super) fn allocate_groups(&self, layout: &GroupLayout, groups: u64, state: &mut State) -> Result<()> {
        match layout.kind {
            GroupKind::Global => self.allocate_state(layout, 1, state),
            GroupKind::Direct => self.allocate_state(layout, layout.packed_key_count, state),
            GroupKind::Hashed | GroupKind::Wide => {
                let slots = hashed_slots(layout.packed_key_count, groups);
                self.allocate_hashed_groups(layout, slots, state)
            }
        }
    }

    /// Groups found by hashing, with so many slots.
    pub(super) fn allocate_hashed_groups(
        &self,
        layout: &GroupLayout,
        slots: u64,
        state: &mut State,
    ) -> Result<()> {
        state.set(Arg::GroupSlotMask, slots - 1);
        let keys = self.array(state, Arg::GroupKeys, slots as usize * 8)?;
        self.fill(self.stream(), &keys, u64::MAX, 0, 1)?;
        self.allocate_state(layout, slots, state)
    }

    /// Makes the groups in `state`, found by hashing, those of no rows.
    pub(super) fn clear_groups(&self, layout: &GroupLayout, state: &State) -> Result<()> {
        self.fill(self.stream(), state.span(Arg::GroupKeys)?, u64::MAX, 0, 1)?;
        self.clear_state(layout, state.span(Arg::Groups)?)
    }

    /// The state of `places` groups, none of which has rows.
    fn allocate_state(&self, layout: &GroupLayout, places: u64, state: &mut State) -> Result<()> {
        let groups = self.array(state, Arg::Groups, places as usize * layout.words.len() * 8)?;
        self.clear_state(layout, &groups)
    }

    fn clear_state(&self, layout: &GroupLayout, groups: &Span) -> Result<()> {
        let is_plain = layout.words.iter().all(|kind| kind.identity() == 0);
        if is_plain || layout.words.len() > FILLED_WORDS_MAX {
            self.fill(self.stream(), groups, 0, 0, 1)?;
        }
        if is_plain {
            return Ok(());
        }
        if layout.words.len() <= FILLED_WORDS_MAX {
            let (count, words) = (groups.len() as u64 / 8, layout.words.len() as u64);
            let words = vec![groups.address(), count, 0, 1, words, identities(&layout.words)];
            let writes = vec![groups.clone()];
            return self.run_fixed(self.stream(), FILL_ENTRY, words, count, Vec::new(), writes);
        }
        for (word, kind) in layout.words.iter().enumerate() {
            if kind.identity() != 0 {
                self.fill(self.stream(), groups, kind.identity(), word, layout.words.len())?;
            }
        }
        Ok(())
    }

    /// Sets each `stride`-th word of `span` from word `first` on.
    pub(super) fn fill(
        &self,
        stream: &Stream,
        span: &Span,
        value: u64,
        first: usize,
        stride: usize,
    ) -> Result<()> {
        let count = (span.len() / 8 - first).div_ceil(stride) as u64;
        let words = vec![span.address() + first as u64 * 8, count, value, stride as u64];
        self.run_fixed(stream, FILL_ENTRY, words, count, Vec::new(), vec![span.clone()])
    }

    /// Gathers groups, or counts them: see `k_compact`.
    pub(crate) fn compact(&self, words: Vec<u64>, reads: Vec<Span>, writes: Vec<Span>) -> Result<()> {
        let places = words[1];
        self.run_fixed(self.stream(), COMPACT_ENTRY, words, places, reads, writes)
    }

    /// Clears `span`.
    pub(crate) fn clear(&self, stream: &Stream, span: &Span) -> Result<()> {
        self.fill(stream, span, 0, 0, 1)
    }

    /// Runs a kernel that is the same for every query over so many `items`.
    pub(super) fn run_fixed(
        &self,
        stream: &Stream,
        entry: &'static str,
        words: Vec<u64>,
        items: u64,
        reads: Vec<Span>,
        writes: Vec<Span>,
    ) -> Result<()> {
        let (program, _) = self.runtime.fixed_program(self.worker)?;
        self.run_entry((&program, entry), stream, words, items, reads, writes)
    }

    /// The same of a kernel of `program`.
    pub(super) fn run_entry(
        &self,
        (program, entry): (&Arc<Program>, &'static str),
        stream: &Stream,
        mut words: Vec<u64>,
        items: u64,
        reads: Vec<Span>,
        writes: Vec<Span>,
    ) -> Result<()> {
        words.resize(FIXED_ARGS, 0);
        let launch = Launch { grid: self.grid(items.div_ceil(256), 256, 0)?, workers: 1 };
        stream.run(program.work(entry, entry, words, launch, reads, writes)?)
    }

    pub(super) fn grid(&self, blocks_wanted: u64, threads: u32, shared_bytes: u32) -> Result<Grid> {
        let multiprocessors = self.runtime.machine.device(self.worker.device)?.multiprocessors;
        let resident = u64::from(multiprocessors) * u64::from(THREADS_PER_MULTIPROCESSOR / threads);
        Ok(Grid { blocks: blocks_wanted.clamp(1, resident.max(1)) as u32, threads, shared_bytes })
    }
}

/// What a heap of texts begins with: see `cuda/pipeline/heap.h`.
pub(super) const HEAP_HEAD_BYTES: u64 = 16;
/// A heap has so many bytes at least, where memory is short.
const HEAP_BYTES_LEAST: u64 = 1 << 8;
/// Bytes that a heap begins with for each text of a group. A guess: a URL or two.
const HEAP_TEXT_BYTES: u64 = 128;
/// Groups that a heap begins with room for at most; it grows.
const HEAP_GROUPS_MAX: u64 = 1 << 18;

/// Words of a group's state that are filled in one go.
const FILLED_WORDS_MAX: usize = 32;

/// What the words of a state start with, in two bits each: 0, or 1 for the greatest number, or 2 for the least.
fn identities(words: &[WordKind]) -> u64 {
    let code = |kind: &WordKind| match kind {
        WordKind::Min => 1,
        WordKind::Max => 2,
        _ => 0,
    };
    words.iter().enumerate().fold(0, |all, (word, kind)| all | code(kind) << (2 * word))
}

/// Flags, then of a table: rows, least and greatest packed key, how many keys are noted, those. One array, one copy
/// either way.
fn head(sink: &SinkLayout) -> Vec<u8> {
    let noted = if matches!(sink, SinkLayout::Build(_)) { 1 + KEYS_NOTED_MAX } else { 0 };
    let words = [0, 0, i64::MAX as u64, u64::MAX].into_iter().chain(std::iter::repeat_n(0, noted));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The number of the table that a kernel builds.
pub(super) fn built_table(kernel: &Kernel) -> Result<usize> {
    let number = |arg: &Arg| if let Arg::TableStats(table) = arg { Some(*table) } else { None };
    kernel
        .generated
        .args
        .iter()
        .find_map(number)
        .ok_or_else(|| Error::invalid_input("a build without a table"))
}
