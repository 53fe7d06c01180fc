//! Feeds a scan: deals row groups into morsels and brings their chunks to the device.
//!
//! ```text
//!   next(slot k)   1. begins reads of chunks on disk, some morsels ahead
//!                  2. waits until slot k is free           (back-pressure)
//!                  3. takes row groups while they fit      (asks whether each is wanted still)
//!                  4. waits for their chunks on disk; checksums, codecs off, into the slot's pinned memory
//!                  5. enqueues the copies: one of the pinned memory, one a run of each pinned column; runs may come
//!                     in part over the host links of idle neighbours
//!                  Where the device decompresses codecs, 4 leaves them on, 1 to 5 are done for every free slot at once, and
//!                  a slot's morsel is given out when it is decompressed
//!   release(k)     says when kernels are done with it
//! ```
//!
//! A morsel is a number of row groups whose chunks take a slot's memory at most; of columns cached on the device it
//! takes nothing. Bounds: slots as they were taken at the start; reads of `reads_ahead` morsels.
//!
//! Traffic: the bytes of chunks without codec, once over the host link, unless they are cached on the device.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pelton_chunk::Codec;
use pelton_device::{DeviceId, Event, Span, Stream};
use pelton_error::{CancelFlag, ErrorKind, Result, ResultExt};
use pelton_fabric::transfer::MultiLinkCopier;
use pelton_store::Table;

use super::ColumnCache;
use super::draft::{Draft, Piece, SlotBytes};
use super::extent::StoredColumn;
use super::formats::{check_readable, estimated_chunk_bytes};
use super::intake::{DropRowGroup, Incoming, Intake, estimated_packing};
use super::marks::MorselMarks;
use super::slots::{Need, Slot, SlotSource, take_slots};
use super::unpack::{Packed, UnpackPlan, Unpacking};
use crate::trace::Activity;

/// How a feed deals.
#[derive(Debug, Clone, Copy)]
pub struct FeedOptions {
    /// Bytes of chunks that a morsel moves at most, if one row group is not more.
    pub morsel_bytes: usize,
    /// Row groups of a morsel at most; at least 1.
    pub row_groups_max: usize,
    /// Morsels in flight at most; at least 1, and 3 to keep the link busy.
    pub slots: usize,
    /// Morsels whose reads may be under way at once, that of the next call included; at least 1.
    pub reads_ahead: usize,
}

/// Feeds one scan on one device.
pub struct Feed {
    column_cache: Arc<ColumnCache>,
    device: DeviceId,
    /// By column of the scan.
    sources: Vec<Source>,
    slots: Vec<Slot>,
    /// What a slot that grows takes.
    temp_bytes: usize,
    intake: Intake,
    /// Where the device decompresses codecs.
    unpacking: Option<Unpacking>,
    row_groups_max: usize,
    /// Copies over neighbours' links too, where there are any that pay.
    copier: Option<MultiLinkCopier>,
    report: FeedReport,
    /// Of the morsels given out, where somebody asked for them.
    marks: Option<Vec<MorselMarks>>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(copier) = self.copier.take() {
            self.column_cache.return_copier(self.device, copier);
        }
    }
}

/// Where a column is read from.
enum Source {
    Device(Arc<StoredColumn>),
    Pinned(Arc<StoredColumn>),
    /// The next of the chunks that come in.
    Disk,
}

/// Row groups whose chunks are, or will be, on the device.
#[derive(Debug)]
pub struct Morsel {
    /// Which, in order.
    pub row_groups: Vec<u32>,
    /// Where each chunk starts, row group major: `[row group * columns + column]`. Multiples of 128.
    pub addresses: Vec<u64>,
    /// What kernels that read these chunks read.
    pub reads: Vec<Span>,
}

/// What a feed did so far.
#[derive(Debug, Clone, Default)]
pub struct FeedReport {
    /// Staging buffers, each for one morsel in flight.
    pub slots: usize,
    /// Device memory of each slot, bytes.
    pub slot_device_bytes: usize,
    /// Pinned memory of each slot, bytes.
    pub slot_pinned_bytes: usize,
    /// Morsels given out.
    pub morsels: u64,
    /// Their row groups.
    pub row_groups: u64,
    /// Row groups that were not wanted any more when their turn came, or after they had been read.
    pub row_groups_dropped: u64,
    /// The most row groups whose reads were under way or done, and that were in no morsel yet.
    pub row_groups_ahead_max: usize,
    /// Bytes asked of the table's files, those found in the page cache included.
    pub disk_bytes: u64,
    /// Bytes copied to the device.
    pub moved_bytes: u64,
    /// Of them, over links of neighbours.
    pub helper_link_bytes: u64,
    /// Bytes of chunks taken from pinned memory.
    pub pinned_bytes: u64,
    /// Bytes of chunks found on the device.
    pub device_bytes: u64,
    /// Bytes of chunks with a codec that the host decompressed, with it.
    pub codec_bytes_before: u64,
    /// Bytes of the same chunks without it.
    pub codec_bytes_after: u64,
    /// Time that threads took to decompress, all together.
    pub codec_time: Duration,
    /// Why the host decompressed, where it did.
    pub codec_reason: Option<String>,
    /// Bytes of chunks that the device decompressed, with their codec.
    pub device_codec_bytes_before: u64,
    /// Bytes of the same chunks without it.
    pub device_codec_bytes_after: u64,
    /// Time that the device took to decompress; morsels that did so at once count each.
    pub device_codec_time: Duration,
    /// What decompressed on the device.
    pub device_codec_name: Option<String>,
    /// Time spent waiting for reads.
    pub disk_wait: Duration,
}

impl Feed {
    /// A feed of these columns of these row groups, in this order; takes the slots. Where columns are now is where
    /// they are read from to the end.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` where even one slot for the largest row group is refused, `Unsupported` for text without
    /// dictionary, `InvalidInput` for a device that the machine lacks, errors of reading the chunk directory.
    pub fn new(
        column_cache: &Arc<ColumnCache>,
        device: DeviceId,
        table: &Arc<Table>,
        columns: &[usize],
        row_groups: &[u32],
        options: FeedOptions,
        cancel: CancelFlag,
    ) -> Result<Self> {
        assert!(options.slots > 0, "a feed has a slot");
        assert!(options.row_groups_max > 0, "a morsel has a row group");
        assert!(options.reads_ahead > 0, "the next morsel is read");
        column_cache.machine().device(device)?;
        columns.iter().try_for_each(|column| check_readable(table, *column))?;
        let sources: Vec<Source> =
            columns.iter().map(|column| source(column_cache, table, *column, device)).collect();
        let on_disk = columns.iter().zip(&sources).filter(|(_, source)| matches!(source, Source::Disk));
        let on_disk: Vec<usize> = on_disk.map(|(column, _)| *column).collect();
        let scan = Scan { table, columns, row_groups, sources: &sources };
        let plan = UnpackPlan::of(column_cache, table, &on_disk, row_groups)?;
        let taken = scan.take_slots(column_cache, device, plan, options)?;
        let Taken { slots, plan, temp_bytes, pinned_bytes } = taken;
        let copier = column_cache.take_copier(device, pinned_bytes)?;
        let (threads, codecs) = (column_cache.options.threads, plan.codecs.clone());
        let mut intake =
            Intake::new(table, &column_cache.io, on_disk, codecs, row_groups.to_vec(), threads, cancel);
        let room = slots[0].room();
        let row_groups_ahead = options.reads_ahead.saturating_mul(options.row_groups_max);
        intake.set_ahead_max(options.reads_ahead * room.pinned.max(1), row_groups_ahead);
        let report = FeedReport {
            slots: slots.len(),
            slot_device_bytes: room.device,
            slot_pinned_bytes: room.pinned,
            codec_reason: plan.host_reason.clone(),
            ..FeedReport::default()
        };
        let unpacking = plan.start(column_cache, device, slots.len())?;
        Ok(Self {
            column_cache: Arc::clone(column_cache),
            device,
            sources,
            slots,
            temp_bytes,
            intake,
            unpacking,
            row_groups_max: options.row_groups_max,
            copier,
            report,
            marks: None,
        })
    }

    /// From here on, keeps when what was done.
    pub(crate) fn keep_marks(&mut self) {
        self.marks = Some(Vec::new());
    }

    /// When what was done, if that was kept.
    pub(crate) fn take_marks(&mut self) -> Vec<MorselMarks> {
        self.marks.take().unwrap_or_default()
    }

    /// Morsels that can be in flight.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// From now on a morsel has at most this many row groups, at least 1.
    pub fn limit_row_groups(&mut self, most: usize) {
        assert!(most > 0, "a morsel has a row group");
        self.row_groups_max = most;
    }

    /// The next morsel, in slot `slot`, which are taken in turn; `None` at the end. Waits until the slot is free and
    /// for reads; the copies are enqueued on `stream`, and the chunks are there when it has come so far.
    ///
    /// `drop_row_group` says whether a row group is not wanted any more. It is asked before anything of the row group
    /// is read, and, where reads ran ahead, again before it is moved.
    ///
    /// # Errors
    ///
    /// `Corrupt` for damaged chunks, `Cancelled`, `OutOfMemory` for a row group that is larger without its codec than
    /// was to be expected; errors of reading, of copying, and of what ran in the slot before. After an error the
    /// feed is over.
    ///
    /// # Panics
    ///
    /// If the slot's morsel was not released.
    pub fn next(
        &mut self,
        slot: usize,
        stream: &Stream,
        drop_row_group: &mut dyn FnMut(u32) -> bool,
    ) -> Result<Option<Morsel>> {
        assert!(!self.slots[slot].is_out, "slot {slot} is released before it is used again");
        let Some(mut unpacking) = self.unpacking.take() else {
            let mut marks = self.begin_marks(slot);
            let prepared = self.prepare(slot, None, drop_row_group, &mut marks)?;
            let Some((draft, _)) = prepared else { return Ok(None) };
            self.enqueue_for(slot, &draft, stream, marks)?;
            return Ok(Some(self.morsel(slot, draft)));
        };
        let brought = self.bring_ahead(slot, &mut unpacking, drop_row_group).map(|()| unpacking.pop());
        let arrived = brought.and_then(|brought| {
            let Some(brought) = brought else { return Ok(None) };
            unpacking.arrive(&self.slots, &self.intake.table, &brought)?;
            stream.wait_for(&brought.arrived)?;
            Ok(Some(brought.draft))
        });
        self.unpacking = Some(unpacking);
        Ok(arrived?.map(|draft| self.morsel(slot, draft)))
    }

    /// Steps 1 to 4 for slot `slot`; `None` at the end.
    fn prepare(
        &mut self,
        slot: usize,
        unpacking: Option<&Unpacking>,
        drop_row_group: DropRowGroup<'_>,
        marks: &mut Option<MorselMarks>,
    ) -> Result<Option<(Draft, Option<Packed>)>> {
        let mut lap = |activity, bytes| {
            if let Some(marks) = marks {
                marks.lap(activity, bytes);
            }
        };
        let asked_before = self.intake.counts.disk_bytes;
        self.intake.begin_round(drop_row_group)?;
        lap(Activity::Read, self.intake.counts.disk_bytes - asked_before);
        self.slots[slot].wait_free()?;
        lap(Activity::SlotWait, 0);
        let (mut incoming, draft) = self.take(slot, drop_row_group)?;
        if incoming.is_empty() {
            return Ok(None);
        }
        // What is in memory is as long as it was taken to be.
        let draft = match self.sources.iter().any(|source| matches!(source, Source::Disk)) {
            true => {
                self.intake.arrive(&mut incoming)?;
                lap(Activity::ReadWait, 0);
                self.lay_out(slot, &incoming)?
            }
            false => draft,
        };
        self.intake.give_back(incoming.split_off(draft.row_groups.len()));
        let packed = self.stage(slot, &draft, &incoming, unpacking)?;
        lap(Activity::Stage, draft.bytes().pinned as u64);
        Ok(Some((draft, packed)))
    }

    fn begin_marks(&self, slot: usize) -> Option<MorselMarks> {
        self.marks.is_some().then(|| MorselMarks::begin(slot))
    }

    fn enqueue_for(
        &mut self,
        slot: usize,
        draft: &Draft,
        stream: &Stream,
        marks: Option<MorselMarks>,
    ) -> Result<()> {
        match marks {
            Some(marks) => self.enqueue_marked(slot, draft, stream, marks),
            None => self.enqueue(slot, draft, stream),
        }
    }

    /// Brings a morsel to `slot`, and to those after it that are free.
    fn bring_ahead(
        &mut self,
        slot: usize,
        unpacking: &mut Unpacking,
        drop_row_group: DropRowGroup<'_>,
    ) -> Result<()> {
        for next in unpacking.slots_from(slot) {
            if next != slot && !self.slots[next].is_free()? {
                return Ok(());
            }
            let mut marks = self.begin_marks(next);
            let prepared = self.prepare(next, Some(unpacking), drop_row_group, &mut marks)?;
            let Some((draft, packed)) = prepared else { return Ok(()) };
            self.enqueue_for(next, &draft, unpacking.stream(next), marks)?;
            let brought = unpacking.enqueue(next, &self.slots[next], draft, packed)?;
            unpacking.push(brought);
        }
        Ok(())
    }

    /// Tells that everything that reads the slot's morsel is complete when `done` is.
    ///
    /// # Panics
    ///
    /// If the slot holds no morsel.
    pub fn release(&mut self, slot: usize, done: Event) {
        self.slots[slot].release(done);
    }

    /// Widths of the bit-packed pages that came from disk so far, of the column `index` of those that do.
    pub(super) fn widths(&self, index: usize) -> BTreeSet<u8> {
        self.intake.widths[index].clone()
    }

    /// What it did so far.
    pub fn report(&self) -> FeedReport {
        let counts = self.intake.counts.clone();
        FeedReport {
            row_groups_dropped: counts.row_groups_dropped,
            row_groups_ahead_max: counts.row_groups_ahead_max,
            disk_bytes: counts.disk_bytes,
            codec_bytes_before: counts.codec_bytes_before,
            codec_bytes_after: counts.codec_bytes_after,
            codec_time: counts.codec_time,
            codec_reason: self.report.codec_reason.clone().filter(|_| counts.codec_bytes_before > 0),
            device_codec_bytes_before: counts.device_codec_bytes_before,
            device_codec_bytes_after: counts.device_codec_bytes_after,
            device_codec_time: self.unpacking.as_ref().map_or(Duration::ZERO, |unpacking| unpacking.time),
            device_codec_name: self.unpacking.as_ref().map(Unpacking::name),
            disk_wait: counts.disk_wait,
            ..self.report.clone()
        }
    }

    /// Row groups for a morsel, by estimate where they are on disk.
    fn take(&mut self, slot: usize, drop_row_group: DropRowGroup<'_>) -> Result<(Vec<Incoming>, Draft)> {
        let room = self.slots[slot].room();
        let mut draft = Draft::default();
        let (mut taken, mut pieces) = (Vec::new(), Vec::with_capacity(self.sources.len()));
        while taken.len() < self.row_groups_max {
            let Some(next) = self.intake.peek(drop_row_group)? else { break };
            pieces_of(&self.sources, next, &mut pieces);
            if !taken.is_empty() && !(draft.bytes() + draft.growth(&pieces)).fits(room) {
                break;
            }
            draft.push(next.row_group, &pieces);
            taken.extend(self.intake.take());
        }
        Ok((taken, draft))
    }

    /// The morsel of the first of these row groups, as many as fit now that their lengths are known.
    fn lay_out(&mut self, slot: usize, incoming: &[Incoming]) -> Result<Draft> {
        let mut draft = Draft::default();
        let mut pieces = Vec::with_capacity(self.sources.len());
        for next in incoming {
            pieces_of(&self.sources, next, &mut pieces);
            let bytes = draft.bytes() + draft.growth(&pieces);
            if !bytes.fits(self.slots[slot].room()) {
                if !draft.row_groups.is_empty() {
                    break;
                }
                self.intake.verify(next)?;
                let source = SlotSource {
                    column_cache: &self.column_cache,
                    device: self.device,
                    temp_bytes: self.temp_bytes,
                };
                self.slots[slot].grow(source, bytes)?;
            }
            draft.push(next.row_group, &pieces);
        }
        Ok(draft)
    }

    fn stage(
        &mut self,
        slot: usize,
        draft: &Draft,
        incoming: &[Incoming],
        unpacking: Option<&Unpacking>,
    ) -> Result<Option<Packed>> {
        let bytes = draft.bytes().pinned;
        if bytes == 0 {
            return Ok(None);
        }
        let slot = &self.slots[slot];
        slot.staging.with_bytes_mut(|target| {
            let (staged, packed) = target[..bytes].split_at_mut(draft.staged_bytes());
            let parts = self.intake.stage(incoming, staged, packed)?;
            let unpacking = unpacking.filter(|_| !parts.is_empty());
            unpacking.map(|unpacking| unpacking.pack(slot, draft, parts, packed)).transpose()
        })?
    }

    fn enqueue(&mut self, slot: usize, draft: &Draft, stream: &Stream) -> Result<()> {
        let Slot { device, staging, .. } = &self.slots[slot];
        let staged = draft.staged_bytes();
        stream.copy(&staging.slice(0..staged), &device.slice(0..staged))?;
        let helper_bytes_before = self.copier.as_ref().map_or(0, MultiLinkCopier::helper_link_bytes);
        for (at, run) in draft.copies() {
            let Source::Pinned(column) = &self.sources[run.column] else { continue };
            let source = column.extents[run.extent].slice(run.start..run.end);
            let target = device.slice(at..at + source.len());
            match &mut self.copier {
                Some(copier) => copier.copy(stream, &source, &target)?,
                None => stream.copy(&source, &target)?,
            }
        }
        if let Some(copier) = &mut self.copier {
            copier.join(stream)?;
            self.report.helper_link_bytes += copier.helper_link_bytes() - helper_bytes_before;
        }
        self.report.moved_bytes += (draft.bytes().device - draft.unpacked().len()) as u64;
        Ok(())
    }

    /// As [`enqueue`](Self::enqueue), between two events.
    fn enqueue_marked(
        &mut self,
        slot: usize,
        draft: &Draft,
        stream: &Stream,
        mut marks: MorselMarks,
    ) -> Result<()> {
        let before = stream.record()?;
        self.enqueue(slot, draft, stream)?;
        marks.copied_bytes = draft.bytes().device as u64;
        if marks.copied_bytes > 0 {
            marks.copy = Some((before, stream.record()?));
        }
        self.marks.get_or_insert_default().push(marks);
        Ok(())
    }

    fn morsel(&mut self, slot: usize, draft: Draft) -> Morsel {
        let Slot { device, is_out, .. } = &mut self.slots[slot];
        *is_out = true;
        let bytes = draft.packed().start;
        let addresses = draft.addresses(device.address());
        let mut reads = Vec::new();
        if bytes > 0 {
            reads.push(device.slice(0..bytes));
        }
        for source in &self.sources {
            let column = match source {
                Source::Device(column) => column,
                Source::Pinned(column) => {
                    let bytes = |row_group: &u32| column.places[*row_group as usize].bytes as u64;
                    self.report.pinned_bytes += draft.row_groups.iter().map(bytes).sum::<u64>();
                    continue;
                }
                Source::Disk => continue,
            };
            let mut last_extent = None;
            for row_group in &draft.row_groups {
                let place = column.places[*row_group as usize];
                self.report.device_bytes += place.bytes as u64;
                if last_extent.replace(place.extent) != Some(place.extent) {
                    reads.push(column.extents[place.extent].span());
                }
            }
        }
        self.report.morsels += 1;
        self.report.row_groups += draft.row_groups.len() as u64;
        Morsel { row_groups: draft.row_groups, addresses, reads }
    }
}

/// The fastest tier of a column.
fn source(column_cache: &ColumnCache, table: &Table, column: usize, device: DeviceId) -> Source {
    let key = (table.id(), column);
    match column_cache.cached(key, device) {
        Some(cached) => Source::Device(cached),
        None => column_cache.pinned(key).map_or(Source::Disk, Source::Pinned),
    }
}

/// Puts the chunks of a row group, one a column, into `pieces`.
fn pieces_of(sources: &[Source], incoming: &Incoming, pieces: &mut Vec<Piece>) {
    let row_group = incoming.row_group as usize;
    let mut staged = incoming.chunks.iter();
    let piece = |source: &Source| match source {
        Source::Device(column) => Piece::Cached(column.address(row_group)),
        Source::Pinned(column) => Piece::Pinned(column.places[row_group]),
        Source::Disk => staged.next().map_or(Piece::Staged(0), |chunk| match chunk.packing {
            Some(packing) => Piece::Packed { stripped: chunk.stripped, packed: packing.bytes() },
            None => Piece::Staged(chunk.stripped),
        }),
    };
    pieces.clear();
    pieces.extend(sources.iter().map(piece));
}

/// What a feed is to bring.
struct Scan<'a> {
    table: &'a Table,
    columns: &'a [usize],
    row_groups: &'a [u32],
    /// By column.
    sources: &'a [Source],
}

/// Slots, and what is done with codecs in them.
struct Taken {
    slots: Vec<Slot>,
    plan: UnpackPlan,
    temp_bytes: usize,
    /// Bytes of chunks that come from pinned memory.
    pinned_bytes: usize,
}

impl Scan<'_> {
    /// Takes slots for what the device decompresses by `plan`; where there is not enough memory for that, the host
    /// decompresses.
    fn take_slots(
        &self,
        column_cache: &ColumnCache,
        device: DeviceId,
        plan: UnpackPlan,
        options: FeedOptions,
    ) -> Result<Taken> {
        let need = self.need(&plan.codecs)?;
        let temp_bytes = plan.temp_bytes(need.slot(options.morsel_bytes).device)?;
        let source = SlotSource { column_cache, device, temp_bytes };
        match take_slots(source, need, options.slots, options.morsel_bytes) {
            Err(error)
                if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) && !plan.codecs.is_empty() =>
            {
                self.take_slots(column_cache, device, UnpackPlan::refused(&error), options)
            }
            slots => {
                let slots = slots.context(|| format!("feeding table '{}' to {device}", self.table.name()))?;
                Ok(Taken { slots, plan, temp_bytes, pinned_bytes: need.runs })
            }
        }
    }

    /// What its row groups take in slots, by estimate where they are on disk under a codec; the device decompresses these.
    fn need(&self, device_codecs: &[Codec]) -> Result<Need> {
        let (mut all, mut largest) = (Draft::default(), SlotBytes::default());
        if self.sources.iter().all(|source| matches!(source, Source::Device(_))) {
            return Ok(Need { largest, all: all.bytes(), runs: 0 });
        }
        let mut pieces = Vec::with_capacity(self.columns.len());
        for row_group in self.row_groups {
            pieces.clear();
            for (column, source) in self.columns.iter().zip(self.sources) {
                pieces.push(self.piece(*column, source, *row_group as usize, device_codecs)?);
            }
            largest = largest.max(Draft::default().growth(&pieces));
            all.push(*row_group, &pieces);
        }
        Ok(Need { largest, all: all.bytes(), runs: all.run_bytes() })
    }

    fn piece(
        &self,
        column: usize,
        source: &Source,
        row_group: usize,
        device_codecs: &[Codec],
    ) -> Result<Piece> {
        Ok(match source {
            Source::Device(_) => Piece::Cached(0),
            Source::Pinned(stored) => Piece::Pinned(stored.places[row_group]),
            Source::Disk => {
                let stripped = estimated_chunk_bytes(self.table, row_group, column)?;
                let codec = self.table.chunk(row_group, column)?.encoding.codec;
                match device_codecs.contains(&codec) {
                    true => {
                        let packing = estimated_packing(self.table, row_group, column, stripped)?;
                        Piece::Packed { stripped, packed: packing.bytes() }
                    }
                    false => Piece::Staged(stripped),
                }
            }
        })
    }
}
