//! Feeds a scan: deals row groups into morsels and brings their chunks to the device.
//!
//! ```text
//!   next(slot k)   1. begins reads of chunks on disk, some morsels ahead
//!                  2. waits until slot k is free           (back-pressure)
//!                  3. takes row groups while they fit      (asks whether each is wanted still)
//!                  4. waits for their chunks on disk; checksums, codecs off, into the slot's pinned memory
//!                  5. enqueues the copies: one of the pinned memory, one a run of each pinned column; runs may come
//!                     in part over the host links of idle neighbours
//!   release(k)     says when kernels are done with it
//! ```
//!
//! A morsel is a number of row groups whose chunks take a slot's memory at most; of columns that the device keeps it
//! takes nothing. Bounds: slots as they were taken at the start; reads ahead of (slots + 1) morsels.
//!
//! Traffic: the bytes of chunks without codec, once over the host link, unless the device keeps them.

use std::sync::Arc;
use std::time::Duration;

use pelton_device::{DeviceId, Event, Span, Stream};
use pelton_error::{CancelFlag, Result, ResultExt};
use pelton_fabric::transfer::Borrower;
use pelton_store::Table;

use super::Homes;
use super::draft::{Draft, Piece, SlotBytes};
use super::extent::StoredColumn;
use super::formats::{check_readable, estimated_chunk_bytes};
use super::intake::{DropRowGroup, Incoming, Intake};
use super::marks::MorselMarks;
use super::slots::{Need, Slot, SlotSource, take_slots};
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
}

/// Feeds one scan on one device.
pub struct Feed {
    homes: Arc<Homes>,
    device: DeviceId,
    /// By column of the scan.
    sources: Vec<Source>,
    slots: Vec<Slot>,
    intake: Intake,
    row_groups_max: usize,
    /// Of neighbours' links, where there are any to borrow.
    borrower: Option<Borrower>,
    report: FeedReport,
    /// Of the morsels given out, where somebody asked for them.
    marks: Option<Vec<MorselMarks>>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(borrower) = self.borrower.take() {
            self.homes.give_back_borrower(self.device, borrower);
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
    /// Slots.
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
    /// Bytes asked of the table's files, those found in the page cache included.
    pub disk_bytes: u64,
    /// Bytes copied to the device.
    pub moved_bytes: u64,
    /// Of them, over links of neighbours.
    pub borrowed_bytes: u64,
    /// Bytes of chunks found on the device.
    pub device_bytes: u64,
    /// Bytes of chunks that had a codec, with it.
    pub codec_bytes_before: u64,
    /// Bytes of the same chunks without it.
    pub codec_bytes_after: u64,
    /// Time that threads took to decompress, all together.
    pub codec_time: Duration,
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
        homes: &Arc<Homes>,
        device: DeviceId,
        table: &Arc<Table>,
        columns: &[usize],
        row_groups: &[u32],
        options: FeedOptions,
        cancel: CancelFlag,
    ) -> Result<Self> {
        assert!(options.slots > 0, "a feed has a slot");
        assert!(options.row_groups_max > 0, "a morsel has a row group");
        homes.machine().device(device)?;
        columns.iter().try_for_each(|column| check_readable(table, *column))?;
        let sources: Vec<Source> =
            columns.iter().map(|column| source(homes, table, *column, device)).collect();
        let need = need(table, columns, row_groups, &sources)?;
        let slots = take_slots(SlotSource { homes, device }, need, options.slots, options.morsel_bytes)
            .context(|| format!("feeding table '{}' to {device}", table.name()))?;
        let pinned_bytes = need.all.device - need.all.pinned;
        let borrower = homes.take_borrower(device, pinned_bytes)?;
        let on_disk = columns.iter().zip(&sources).filter(|(_, source)| matches!(source, Source::Disk));
        let on_disk = on_disk.map(|(column, _)| *column).collect();
        let mut intake =
            Intake::new(table, &homes.io, on_disk, row_groups.to_vec(), homes.options.threads, cancel);
        let room = slots[0].room();
        intake.set_ahead_bytes_max((slots.len() + 1) * room.pinned.max(1));
        let report = FeedReport {
            slots: slots.len(),
            slot_device_bytes: room.device,
            slot_pinned_bytes: room.pinned,
            ..FeedReport::default()
        };
        Ok(Self {
            homes: Arc::clone(homes),
            device,
            sources,
            slots,
            intake,
            row_groups_max: options.row_groups_max,
            borrower,
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

    /// From now on a morsel has at most so many row groups, at least 1.
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
        let mut marks = self.marks.is_some().then(|| MorselMarks::begin(slot));
        let mut lap = |activity, bytes| {
            if let Some(marks) = &mut marks {
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
        self.stage(slot, &draft, &incoming)?;
        lap(Activity::Stage, draft.bytes().pinned as u64);
        match marks {
            Some(marks) => self.enqueue_marked(slot, &draft, stream, marks)?,
            None => self.enqueue(slot, &draft, stream)?,
        }
        Ok(Some(self.morsel(slot, draft)))
    }

    /// Tells that everything that reads the slot's morsel is complete when `done` is.
    ///
    /// # Panics
    ///
    /// If the slot holds no morsel.
    pub fn release(&mut self, slot: usize, done: Event) {
        self.slots[slot].release(done);
    }

    /// What it did so far.
    pub fn report(&self) -> FeedReport {
        let counts = self.intake.counts.clone();
        FeedReport {
            row_groups_dropped: counts.row_groups_dropped,
            disk_bytes: counts.disk_bytes,
            codec_bytes_before: counts.codec_bytes_before,
            codec_bytes_after: counts.codec_bytes_after,
            codec_time: counts.codec_time,
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
                let source = SlotSource { homes: &self.homes, device: self.device };
                self.slots[slot].grow(source, bytes)?;
            }
            draft.push(next.row_group, &pieces);
        }
        Ok(draft)
    }

    fn stage(&mut self, slot: usize, draft: &Draft, incoming: &[Incoming]) -> Result<()> {
        let bytes = draft.bytes().pinned;
        if bytes == 0 {
            return Ok(());
        }
        let staging = &self.slots[slot].staging;
        staging.with_bytes_mut(|target| self.intake.stage(incoming, &mut target[..bytes]))?
    }

    fn enqueue(&mut self, slot: usize, draft: &Draft, stream: &Stream) -> Result<()> {
        let Slot { device, staging, .. } = &self.slots[slot];
        let bytes = draft.bytes();
        stream.copy(&staging.slice(0..bytes.pinned), &device.slice(0..bytes.pinned))?;
        let borrowed_before = self.borrower.as_ref().map_or(0, Borrower::borrowed_bytes);
        for (at, run) in draft.copies() {
            let Source::Pinned(column) = &self.sources[run.column] else { continue };
            let source = column.extents[run.extent].slice(run.start..run.end);
            let target = device.slice(at..at + source.len());
            match &mut self.borrower {
                Some(borrower) => borrower.copy(stream, &source, &target)?,
                None => stream.copy(&source, &target)?,
            }
        }
        if let Some(borrower) = &mut self.borrower {
            borrower.join(stream)?;
            self.report.borrowed_bytes += borrower.borrowed_bytes() - borrowed_before;
        }
        self.report.moved_bytes += bytes.device as u64;
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
        let bytes = draft.bytes().device;
        let addresses = draft.addresses(device.address());
        let mut reads = Vec::new();
        if bytes > 0 {
            reads.push(device.slice(0..bytes));
        }
        for source in &self.sources {
            let Source::Device(column) = source else { continue };
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

/// The fastest home of a column.
fn source(homes: &Homes, table: &Table, column: usize, device: DeviceId) -> Source {
    let key = (table.id(), column);
    match homes.kept(key, device) {
        Some(kept) => Source::Device(kept),
        None => homes.pinned(key).map_or(Source::Disk, Source::Pinned),
    }
}

/// Puts the chunks of a row group, one a column, into `pieces`.
fn pieces_of(sources: &[Source], incoming: &Incoming, pieces: &mut Vec<Piece>) {
    let row_group = incoming.row_group as usize;
    let mut staged = incoming.chunks.iter();
    let piece = |source: &Source| match source {
        Source::Device(column) => Piece::Kept(column.address(row_group)),
        Source::Pinned(column) => Piece::Pinned(column.places[row_group]),
        Source::Disk => Piece::Staged(staged.next().map_or(0, |chunk| chunk.stripped)),
    };
    pieces.clear();
    pieces.extend(sources.iter().map(piece));
}

/// What the row groups of a scan take in slots, by estimate where they are on disk under a codec.
fn need(table: &Table, columns: &[usize], row_groups: &[u32], sources: &[Source]) -> Result<Need> {
    let (mut all, mut largest) = (Draft::default(), SlotBytes::default());
    if sources.iter().all(|source| matches!(source, Source::Device(_))) {
        return Ok(Need { largest, all: all.bytes() });
    }
    let mut pieces = Vec::with_capacity(columns.len());
    for row_group in row_groups {
        pieces.clear();
        for (column, source) in columns.iter().zip(sources) {
            pieces.push(match source {
                Source::Device(_) => Piece::Kept(0),
                Source::Pinned(stored) => Piece::Pinned(stored.places[*row_group as usize]),
                Source::Disk => Piece::Staged(estimated_chunk_bytes(table, *row_group as usize, *column)?),
            });
        }
        largest = largest.max(Draft::default().growth(&pieces));
        all.push(*row_group, &pieces);
    }
    Ok(Need { largest, all: all.bytes() })
}
