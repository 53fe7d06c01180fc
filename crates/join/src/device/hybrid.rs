//! The hybrid hash join: what does not fit a device waits in pinned memory of the host, partition by partition.
//!
//! ```text
//!   build   host ─► chunk, by partitions ─┬─ the first ones ─► table on the device
//!                                         └─ the others ─────► host, chunk by chunk        as many first ones as fit
//!   probe   host ─► chunk, by partitions ─┬─ looked up at once
//!                                         └─ the others ─────► host
//!   then    partition after partition: build rows ─► table; probe rows ─► looked up
//! ```
//!
//! A table has room for so many rows and no more. Should the first partitions turn out larger than foreseen, as skewed keys
//! make them, fewer of them go on into the table: a partition may have build rows in the table and others in the host, and
//! its probe rows are then looked up at once and later again. So no estimate has to be right. What is still too large
//! is partitioned again by other bits; what does not get smaller, a partition of one key, goes by blocks of the table's
//! size, past which its probe rows are streamed. The smaller side is the build side.
//!
//! Traffic, with f the share of rows that stay: 2 - f times over the link in, 1 - f times out, at the same time as in.
//! So at a link that keeps its rate in both directions at once it takes 2 - f times what one way takes.

use std::collections::VecDeque;
use std::ops::Range;

use pelton_device::{Buffer, Event, Place, Span, Stream};
use pelton_error::{Error, Result, ResultExt};
use pelton_kernels::{
    JOIN_ROWS_MAX, JoinDigits, JoinTable, JoinTableKind, join_build, join_clear, scan_scratch_bytes,
};

use super::radix::Partition;
use super::rig::{Chain, Emit, Rig, words};
use crate::options::Algorithm;
use crate::report::Report;
use crate::rows::{Rows, Target};

/// Chunks in flight: one enters, one is partitioned, one leaves.
const SLOTS: usize = 3;
/// Chunks take this share of the memory at most; the table has the rest.
const CHUNK_SHARE: u64 = 5;
/// Bits of partitions of a level at most, and where those of each level begin.
const BITS_MAX: u32 = 8;
const LEVEL_BITS: u32 = 12;
const LEVELS: u32 = 2;
/// The least partitions: what stays is a whole number of them.
const BITS_MIN: u32 = 4;
const WORD_BYTES: usize = 8;

/// Rows of a chunk, and of the table, for so much memory.
fn shares(limit_bytes: u64, chunk_bytes: usize, width_bytes: usize) -> (usize, u64) {
    let row_bytes = 2 * width_bytes;
    let chunk_limit = limit_bytes / CHUNK_SHARE;
    let chunk_rows = (chunk_limit as usize / (2 * SLOTS * row_bytes)).min(chunk_bytes / row_bytes).max(1);
    let words = SLOTS * (3 * ((1 << BITS_MAX) + 4) * WORD_BYTES + scan_scratch_bytes(1 << BITS_MAX) + 2048);
    let rest = limit_bytes
        .saturating_sub((2 * SLOTS * (chunk_rows * row_bytes + 512) + words) as u64 + 4096)
        .min(limit_bytes - limit_bytes / 16);
    (chunk_rows, table_rows(rest, width_bytes))
}

/// The most rows of a table of so many bytes.
fn table_rows(bytes: u64, width_bytes: usize) -> u64 {
    let fits =
        |rows: u64| JoinTable::bytes(JoinTableKind::General { row_count: rows }, width_bytes) as u64 <= bytes;
    let (mut low, mut high) = (0, (bytes / (4 * width_bytes as u64)).min(JOIN_ROWS_MAX));
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Build rows of which a hybrid join with so much memory keeps all on the device.
pub(crate) fn resident_rows(limit_bytes: u64, chunk_bytes: usize, width_bytes: usize) -> u64 {
    shares(limit_bytes, chunk_bytes, width_bytes).1
}

/// A chunk on the device.
struct Slot {
    stream: Stream,
    input: Rows,
    output: Rows,
    bounds: Span,
    offsets: Span,
    units: Span,
    cursors: Span,
    scratch: Span,
    /// Where partitions begin, for the host.
    back: Buffer,
}

/// Rows of the host that a chunk left there: those of partitions from `first` on.
struct Spilled {
    rows: Rows,
    first: usize,
    /// Where each partition begins in all of the chunk.
    offsets: Vec<u64>,
}

impl Spilled {
    /// Rows of one partition.
    fn partition(&self, number: usize) -> Option<Rows> {
        if number < self.first {
            return None;
        }
        let begin = self.offsets[self.first];
        let range = (self.offsets[number] - begin) as usize..(self.offsets[number + 1] - begin) as usize;
        (!range.is_empty()).then(|| self.rows.slice(range))
    }
}

/// Pinned memory for rows that wait.
struct Arena {
    blocks: Vec<(Rows, usize)>,
}

impl Arena {
    fn take(&mut self, rig: &Rig<'_>, count: usize, width_bytes: usize) -> Result<Rows> {
        let has_room = |(block, used): &&mut (Rows, usize)| block.count() - *used >= count;
        if let Some((block, used)) = self.blocks.iter_mut().find(has_room) {
            *used += count;
            return Ok(block.slice(*used - count..*used));
        }
        self.grow(rig, count.max(1 << 16), width_bytes)?;
        self.take(rig, count, width_bytes)
    }

    fn grow(&mut self, rig: &Rig<'_>, count: usize, width_bytes: usize) -> Result<()> {
        let column = || rig.take_pinned(count * width_bytes).map(|buffer| buffer.span());
        let what = || {
            format!(
                "pinned memory for {count} rows that a device does not hold; raise its limit, or take pro"
            )
        };
        let block = Rows::new(column().context(what)?, column().context(what)?, width_bytes)?;
        self.blocks.push((block, 0));
        Ok(())
    }
}

struct Hybrid<'a, 'b> {
    rig: &'a Rig<'b>,
    width_bytes: usize,
    slots: Vec<Slot>,
    next_slot: usize,
    chunk_rows: usize,
    table_memory: Span,
    table_rows: u64,
    emit: Emit,
    chain: Chain,
    arena: Arena,
    report: Report,
}

/// Joins rows of the host.
pub(crate) fn hybrid(rig: &Rig<'_>, build: &Rows, probe: &Rows, target: &Target) -> Result<Report> {
    let device = rig.options.device;
    if [build, probe].into_iter().any(|rows| rows.count() > 0 && rows.is_on(device)) {
        return Err(Error::unsupported(
            "rows on the device already; a hybrid join takes them from pinned memory",
        ));
    }
    let width_bytes = build.width_bytes();
    let limit = rig.left();
    let staging_bytes = match target {
        Target::Sum => 0,
        Target::Pairs { .. } => limit / 8,
    };
    let emit = Emit::new(rig, target, width_bytes, staging_bytes as usize / (2 * width_bytes))?;
    let (chunk_rows, table_rows) = shares(rig.left(), rig.options.chunk_bytes, width_bytes);
    let least = build.count().min(probe.count()) as u64;
    let table_rows = table_rows.min(build.count().max(probe.count()) as u64);
    if table_rows == 0 && least > 0 {
        return Err(Error::invalid_input(format!(
            "{limit} bytes of device memory hold no table; raise the limit, or take pro"
        )));
    }
    let slots = (0..SLOTS).map(|_| Slot::new(rig, chunk_rows, width_bytes)).collect::<Result<_>>()?;
    let kind = JoinTableKind::General { row_count: table_rows };
    let table_memory = rig.take(JoinTable::bytes(kind, width_bytes), "a table")?;
    let mut arena = Arena { blocks: Vec::new() };
    if least > table_rows {
        // What stays is not known yet.
        arena.grow(rig, build.count() + probe.count(), width_bytes)?;
    }
    let report = Report::of(Algorithm::Hybrid);
    let mut join = Hybrid {
        rig,
        width_bytes,
        slots,
        next_slot: 0,
        chunk_rows,
        table_memory,
        table_rows,
        emit,
        chain: Chain::default(),
        arena,
        report,
    };
    let started = rig.machine.now();
    join.join(0, vec![build.clone()], vec![probe.clone()])?;
    join.wait_blocking()?;
    [join.report.match_count, join.report.value_sum] = join.emit.finish(rig)?;
    join.report.time = rig.machine.now() - started;
    if let Target::Pairs { .. } = target {
        join.report.value_sum = 0;
    }
    Ok(join.report)
}

impl Hybrid<'_, '_> {
    /// Joins all build pieces with all probe pieces, of the host.
    fn join(&mut self, level: u32, build: Vec<Rows>, probe: Vec<Rows>) -> Result<()> {
        self.rig.options.cancel.check()?;
        let (build_count, probe_count) = (count(&build), count(&probe));
        if build_count == 0 || probe_count == 0 {
            return Ok(());
        }
        if build_count > self.table_rows && probe_count < build_count {
            self.emit.swap();
            let outcome = self.join_sides(level, &probe, &build);
            self.emit.swap();
            return outcome;
        }
        self.join_sides(level, &build, &probe)
    }

    fn join_sides(&mut self, level: u32, build: &[Rows], probe: &[Rows]) -> Result<()> {
        let build_count = count(build);
        if build_count <= self.table_rows {
            return self.join_block(build, probe);
        }
        if level < LEVELS {
            return self.join_partitions(level, build, probe);
        }
        for block in batches(build, self.table_rows as usize) {
            self.join_block(&block, probe)?;
        }
        Ok(())
    }

    /// A build side that fits, in one table.
    fn join_block(&mut self, build: &[Rows], probe: &[Rows]) -> Result<()> {
        let table = self.new_table(count(build))?;
        let mut first_row = 0;
        for batch in batches(build, self.chunk_rows) {
            let slot = self.enter(&batch)?;
            let rows = self.slots[slot].input.slice(0..count(&batch) as usize);
            self.insert(slot, &table, &rows, first_row)?;
            first_row += rows.count() as u64;
        }
        for batch in batches(probe, self.chunk_rows) {
            let slot = self.enter(&batch)?;
            let rows = self.slots[slot].input.slice(0..count(&batch) as usize);
            self.emit.probe(self.rig, &mut self.chain, &self.slots[slot].stream, &table, &rows)?;
        }
        Ok(())
    }

    /// A build side that does not fit: the first partitions in a table, the others later.
    fn join_partitions(&mut self, level: u32, build: &[Rows], probe: &[Rows]) -> Result<()> {
        let build_count = count(build);
        let wanted = (2 * build_count).div_ceil(self.table_rows).next_power_of_two().ilog2();
        let digits = JoinDigits { begin_bit: level * LEVEL_BITS, bits: wanted.clamp(BITS_MIN, BITS_MAX) };
        let partition_count = 1_usize << digits.bits;
        self.report.partition_count += partition_count as u64;
        // So many are foreseen to fit; a tenth more than their share may come.
        let share = 1.1 * build_count as f64 / partition_count as f64;
        let resident_first = ((self.table_rows as f64 / share) as usize).min(partition_count);
        let mut resident = resident_first;
        let mut inserted = 0;
        let table = self.new_table(self.table_rows)?;
        let mut build_spilled = Vec::new();
        let table_rows = self.table_rows;
        self.partitioned(build, digits, |this, slot, offsets| {
            while inserted + offsets[resident] > table_rows {
                resident -= 1;
            }
            let rows = this.slots[slot].output.slice(0..offsets[resident] as usize);
            this.insert(slot, &table, &rows, inserted)?;
            inserted += offsets[resident];
            let spilled = this.spill(slot, resident, offsets)?;
            build_spilled.push(spilled);
            Ok(())
        })?;
        self.report.resident_rows += inserted;
        let mut probe_spilled = Vec::new();
        self.partitioned(probe, digits, |this, slot, offsets| {
            if inserted > 0 {
                let rows = this.slots[slot].output.slice(0..offsets[resident_first] as usize);
                this.emit.probe(this.rig, &mut this.chain, &this.slots[slot].stream, &table, &rows)?;
            }
            let spilled = this.spill(slot, resident, offsets)?;
            probe_spilled.push(spilled);
            Ok(())
        })?;
        // What has left is read again, by other streams.
        self.wait_blocking()?;
        for number in resident..partition_count {
            let of = |spilled: &[Spilled]| -> Vec<Rows> {
                spilled.iter().filter_map(|chunk| chunk.partition(number)).collect()
            };
            let (build, probe) = (of(&build_spilled), of(&probe_spilled));
            // What did not get smaller has few keys.
            let next = if 2 * count(&build) > build_count { LEVELS } else { level + 1 };
            self.join(next, build, probe)?;
        }
        Ok(())
    }

    /// Brings pieces in, chunk by chunk, partitions each, and calls `each` with the slot and where its partitions begin. The
    /// next chunks are on their way meanwhile.
    fn partitioned(
        &mut self,
        pieces: &[Rows],
        digits: JoinDigits,
        mut each: impl FnMut(&mut Self, usize, Vec<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut waiting: VecDeque<(usize, Event)> = VecDeque::with_capacity(SLOTS);
        let mut leave = |this: &mut Self, (slot, event): (usize, Event)| {
            let offsets = this.slots[slot].offsets_when(&event, digits)?;
            each(this, slot, offsets)
        };
        for batch in batches(pieces, self.chunk_rows) {
            self.rig.options.cancel.check()?;
            // Its slot is free for what comes after what leaves it.
            if waiting.len() == SLOTS
                && let Some(first) = waiting.pop_front()
            {
                leave(self, first)?;
            }
            let slot = self.enter(&batch)?;
            let event = self.slots[slot].partition(self.rig, count(&batch) as usize, digits)?;
            waiting.push_back((slot, event));
        }
        waiting.into_iter().try_for_each(|chunk| leave(self, chunk))
    }

    /// Enqueues the copy of pieces to the next slot.
    fn enter(&mut self, pieces: &[Rows]) -> Result<usize> {
        let slot = self.next_slot;
        self.next_slot = (slot + 1) % SLOTS;
        let mut begin = 0;
        for piece in pieces {
            let target = self.slots[slot].input.slice(begin..begin + piece.count());
            piece.copy_to(&self.slots[slot].stream, &target)?;
            begin += piece.count();
        }
        Ok(slot)
    }

    /// Enqueues that partitions of the slot from `first` on leave for the host.
    fn spill(&mut self, slot: usize, first: usize, offsets: Vec<u64>) -> Result<Spilled> {
        let range = offsets[first] as usize..offsets[offsets.len() - 1] as usize;
        let rows = self.arena.take(self.rig, range.len(), self.width_bytes)?;
        let slot = &self.slots[slot];
        slot.output.slice(range).copy_to(&slot.stream, &rows)?;
        self.report.spilled_rows += rows.count() as u64;
        Ok(Spilled { rows, first, offsets })
    }

    /// An empty table, once nothing needs the one before.
    fn new_table(&mut self, row_count: u64) -> Result<JoinTable> {
        let table =
            JoinTable::new(JoinTableKind::General { row_count }, self.width_bytes, &self.table_memory);
        for work in join_clear(self.rig.library, &table) {
            self.chain.run(&self.rig.stream, work)?;
        }
        self.report.table_count += 1;
        Ok(table)
    }

    fn insert(&mut self, slot: usize, table: &JoinTable, rows: &Rows, first_row: u64) -> Result<()> {
        if rows.count() == 0 {
            return Ok(());
        }
        let (keys, values) = (rows.keys().clone(), rows.values().clone());
        self.chain.run(&self.slots[slot].stream, join_build(self.rig.library, table, keys, values, first_row))
    }

    fn wait_blocking(&self) -> Result<()> {
        let streams = self.slots.iter().map(|slot| &slot.stream).chain([&self.rig.stream]);
        let outcomes: Vec<Result<()>> = streams.map(Stream::wait_blocking).collect();
        outcomes.into_iter().collect()
    }
}

impl Slot {
    fn new(rig: &Rig<'_>, rows: usize, width_bytes: usize) -> Result<Self> {
        let word_count = (1 << BITS_MAX) + 1;
        let take = |words: usize| rig.take(words * WORD_BYTES, "offsets of a chunk");
        Ok(Self {
            stream: rig.machine.stream(Place::Device(rig.options.device))?,
            input: rig.take_rows(rows, width_bytes, "a chunk")?,
            output: rig.take_rows(rows, width_bytes, "a chunk, by partitions")?,
            bounds: take(2)?,
            offsets: take(word_count)?,
            units: take(2)?,
            cursors: take(word_count)?,
            scratch: rig.take(scan_scratch_bytes(word_count as u64), "scratch")?,
            back: rig.take_pinned(word_count * WORD_BYTES)?,
        })
    }

    /// Enqueues the partition of the first rows, and where partitions begin for the host; when that is there.
    fn partition(&self, rig: &Rig<'_>, row_count: usize, digits: JoinDigits) -> Result<Event> {
        let Self { stream, units, cursors, scratch, .. } = self;
        let work = Partition { rig, stream, units, cursors, scratch };
        let segments = work.whole(&self.input.slice(0..row_count), &self.bounds)?;
        let target = self.output.slice(0..row_count);
        let parts = work.pass(&segments, digits, &target, &self.offsets)?;
        stream.copy(&parts.offsets, &self.back.slice(0..parts.offsets.len()))?;
        stream.record()
    }

    fn offsets_when(&self, event: &Event, digits: JoinDigits) -> Result<Vec<u64>> {
        event.wait_blocking()?;
        self.back.with_bytes(|bytes| words(&bytes[..((1 << digits.bits) + 1) * WORD_BYTES]))
    }
}

fn count(pieces: &[Rows]) -> u64 {
    pieces.iter().map(|piece| piece.count() as u64).sum()
}

/// Pieces in batches of so many rows at most, in order.
fn batches(pieces: &[Rows], rows_max: usize) -> Vec<Vec<Rows>> {
    let mut batches: Vec<Vec<Rows>> = Vec::new();
    let mut room = 0;
    for piece in pieces {
        let mut rest: Range<usize> = 0..piece.count();
        while !rest.is_empty() {
            if room == 0 {
                batches.push(Vec::new());
                room = rows_max;
            }
            let here = rest.len().min(room);
            let batch = batches.last_mut().expect("a batch with room");
            batch.push(piece.slice(rest.start..rest.start + here));
            (rest.start, room) = (rest.start + here, room - here);
        }
    }
    batches
}
