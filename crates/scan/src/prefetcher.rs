//! The prefetcher of a scan: forms morsels of row groups and copies their chunks to the device, some morsels ahead.
//!
//! ```text
//!   next(buffer k) 1. begins reads of chunks on disk, some morsels ahead
//!                  2. waits until buffer k is free         (back-pressure)
//!                  3. takes row groups while they fit      (asks whether each is wanted still)
//!                  4. waits for their chunks on disk; checksums, codecs off, into the buffer's pinned memory
//!                  5. enqueues the copies: one of the pinned memory, one per run of each pinned column; runs may come
//!                     in part over the host links of idle neighbours
//!                  Where the device decompresses codecs, 4 leaves them on, 1 to 5 are done for every free buffer
//!                  at once, and a buffer's morsel is given out when it is decompressed
//!   release(k)     says when kernels are done with it
//! ```
//!
//! A morsel is a number of row groups whose chunks take a buffer's memory at most; of columns cached on the device it
//! takes nothing. Bounds: the buffers taken at the start; reads of `reads_ahead` morsels.
//!
//! Traffic: the bytes of chunks without codec, once over the host link, unless they are cached on the device.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pelton_chunk::Codec;
use pelton_device::{DeviceId, Event, Span, Stream};
use pelton_error::{CancelFlag, ErrorKind, Result, ResultExt};
use pelton_store::Table;
use pelton_trace::Activity;
use pelton_transfer::MultiLinkCopier;

use super::ColumnCache;
use super::device_decompression::{Compressed, DecompressionPlan, DeviceDecompression};
use super::extent::StoredColumn;
use super::formats::estimated_chunk_bytes;
use super::morsel_layout::{MorselLayout, Piece, StagingBytes};
use super::read_ahead::{DropRowGroup, Incoming, ReadAhead, RowGroups, estimated_compressed_size};
use super::staging::{Need, StagingBuffer, StagingSource, take_buffers};
use super::timings::MorselTimings;

/// How a prefetcher forms morsels.
#[derive(Debug, Clone, Copy)]
pub struct PrefetchOptions {
    /// Bytes of chunks that a morsel moves at most, if one row group is not more.
    pub morsel_bytes: usize,
    /// Row groups of a morsel at most; at least 1.
    pub row_groups_max: usize,
    /// Morsels in flight at most; at least 1, and 3 to keep the link busy.
    pub staging_buffers: usize,
    /// Morsels whose reads may be under way at once, that of the next call included; at least 1.
    pub reads_ahead: usize,
}

/// The prefetcher of one scan on one device.
pub struct Prefetcher {
    column_cache: Arc<ColumnCache>,
    device: DeviceId,
    /// By column of the scan.
    sources: Vec<Source>,
    buffers: Vec<StagingBuffer>,
    /// What a buffer that grows takes.
    temp_bytes: usize,
    read_ahead: ReadAhead,
    /// Where the device decompresses codecs.
    decompression: Option<DeviceDecompression>,
    row_groups_max: usize,
    /// Copies over neighbours' links too, where there are any that pay.
    copier: Option<MultiLinkCopier>,
    report: PrefetchReport,
    /// Of the morsels given out, where they are recorded.
    timings: Option<Vec<MorselTimings>>,
}

impl Drop for Prefetcher {
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
    /// In pinned memory, where kernels read it.
    InPlace(Arc<StoredColumn>),
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

/// What a prefetcher did so far.
#[derive(Debug, Clone, Default)]
pub struct PrefetchReport {
    /// Staging buffers, each for one morsel in flight.
    pub staging_buffers: usize,
    /// Device memory of each buffer, bytes.
    pub buffer_device_bytes: usize,
    /// Pinned memory of each buffer, bytes.
    pub buffer_pinned_bytes: usize,
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

impl Prefetcher {
    /// A prefetcher of these columns of these row groups, in this order; takes the buffers. Each column is read to the
    /// end from the tier that it is in now.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` where even one buffer for the largest row group is refused, `InvalidInput` for a device that the
    /// machine lacks, errors of reading the chunk directory.
    pub fn new(
        column_cache: &Arc<ColumnCache>,
        device: DeviceId,
        table: &Arc<Table>,
        columns: &[usize],
        row_groups: &[u32],
        options: PrefetchOptions,
        cancel: CancelFlag,
    ) -> Result<Self> {
        let coming: Vec<u32> = row_groups.to_vec();
        let row_groups = (row_groups, Box::new(coming.into_iter()) as RowGroups);
        Self::of_shared(column_cache, device, table, columns, row_groups, options, cancel)
    }

    /// As [`new`](Self::new), of row groups that are shared with other prefetchers: the list names all that may come,
    /// in any order, and the iterator gives those that come here. It is asked for one when there is room for it, and,
    /// once it had none left, again by each further call of [`next`](Self::next).
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn of_shared(
        column_cache: &Arc<ColumnCache>,
        device: DeviceId,
        table: &Arc<Table>,
        columns: &[usize],
        (row_groups, coming): (&[u32], RowGroups),
        options: PrefetchOptions,
        cancel: CancelFlag,
    ) -> Result<Self> {
        assert!(options.staging_buffers > 0, "a prefetcher has a buffer");
        assert!(options.row_groups_max > 0, "a morsel has a row group");
        assert!(options.reads_ahead > 0, "the next morsel is read");
        column_cache.machine().device(device)?;
        let sources: Vec<Source> =
            columns.iter().map(|column| source(column_cache, table, *column, device)).collect();
        let on_disk = columns.iter().zip(&sources).filter(|(_, source)| matches!(source, Source::Disk));
        let on_disk: Vec<usize> = on_disk.map(|(column, _)| *column).collect();
        let scan = Scan { table, columns, row_groups, sources: &sources };
        let plan = DecompressionPlan::of(column_cache, device, table, &on_disk, row_groups)?;
        let taken = scan.take_buffers(column_cache, device, plan, options)?;
        let Taken { buffers, plan, temp_bytes, pinned_bytes } = taken;
        let copier = column_cache.take_copier(device, pinned_bytes)?;
        let (threads, codecs) = (column_cache.options.threads, plan.codecs.clone());
        let mut read_ahead =
            ReadAhead::new(table, &column_cache.io, on_disk, codecs, coming, threads, cancel);
        let room = buffers[0].room();
        let row_groups_ahead = options.reads_ahead.saturating_mul(options.row_groups_max);
        read_ahead.set_ahead_max(options.reads_ahead * room.pinned.max(1), row_groups_ahead);
        let report = PrefetchReport {
            staging_buffers: buffers.len(),
            buffer_device_bytes: room.device,
            buffer_pinned_bytes: room.pinned,
            codec_reason: plan.host_reason.clone(),
            ..PrefetchReport::default()
        };
        let decompression = plan.start(column_cache, device, buffers.len())?;
        Ok(Self {
            column_cache: Arc::clone(column_cache),
            device,
            sources,
            buffers,
            temp_bytes,
            read_ahead,
            decompression,
            row_groups_max: options.row_groups_max,
            copier,
            report,
            timings: None,
        })
    }

    /// Records timings from now on.
    pub fn record_timings(&mut self) {
        self.timings = Some(Vec::new());
    }

    /// The timings so far, if they were recorded.
    pub fn take_timings(&mut self) -> Vec<MorselTimings> {
        self.timings.take().unwrap_or_default()
    }

    /// Morsels that can be in flight.
    pub fn buffer_count(&self) -> usize {
        self.buffers.len()
    }

    /// From now on a morsel has at most this many row groups, at least 1.
    pub fn limit_row_groups(&mut self, most: usize) {
        assert!(most > 0, "a morsel has a row group");
        self.row_groups_max = most;
    }

    /// The next morsel, in staging buffer `buffer`; buffers are used in turn. `None` at the end. Waits until the buffer
    /// is free and for reads; the copies are enqueued on `stream`, and the chunks are there when it has come so far.
    ///
    /// `drop_row_group` says whether a row group is not wanted any more. It is asked before anything of the row group
    /// is read, and, where reads ran ahead, again before it is moved.
    ///
    /// # Errors
    ///
    /// `Corrupt` for damaged chunks, `Cancelled`, `OutOfMemory` for a row group that is larger without its codec than
    /// was to be expected; errors of reading, of copying, and of what ran in the buffer before. After an error the
    /// prefetcher is over.
    ///
    /// # Panics
    ///
    /// If the buffer's morsel was not released.
    pub fn next(
        &mut self,
        buffer: usize,
        stream: &Stream,
        drop_row_group: &mut dyn FnMut(u32) -> bool,
    ) -> Result<Option<Morsel>> {
        assert!(!self.buffers[buffer].is_out, "buffer {buffer} is released before it is used again");
        let Some(mut decompression) = self.decompression.take() else {
            let mut timings = self.begin_timings(buffer);
            let prepared = self.prepare(buffer, None, drop_row_group, &mut timings)?;
            let Some((layout, _)) = prepared else { return Ok(None) };
            self.enqueue_for(buffer, &layout, stream, timings)?;
            return Ok(Some(self.morsel(buffer, layout)));
        };
        let brought =
            self.bring_ahead(buffer, &mut decompression, drop_row_group).map(|()| decompression.pop());
        let arrived = brought.and_then(|brought| {
            let Some(brought) = brought else { return Ok(None) };
            decompression.arrive(&self.buffers, &self.read_ahead.table, &brought)?;
            stream.wait_for(&brought.arrived)?;
            Ok(Some(brought.layout))
        });
        self.decompression = Some(decompression);
        Ok(arrived?.map(|layout| self.morsel(buffer, layout)))
    }

    /// Steps 1 to 4 for buffer `buffer`; `None` at the end.
    fn prepare(
        &mut self,
        buffer: usize,
        decompression: Option<&DeviceDecompression>,
        drop_row_group: DropRowGroup<'_>,
        timings: &mut Option<MorselTimings>,
    ) -> Result<Option<(MorselLayout, Option<Compressed>)>> {
        let mut lap = |activity, bytes| {
            if let Some(timings) = timings {
                timings.lap(activity, bytes);
            }
        };
        let asked_before = self.read_ahead.counts.disk_bytes;
        self.read_ahead.begin_round(drop_row_group)?;
        lap(Activity::Read, self.read_ahead.counts.disk_bytes - asked_before);
        self.buffers[buffer].wait_free()?;
        lap(Activity::BufferWait, 0);
        let (mut incoming, layout) = self.take(buffer, drop_row_group)?;
        if incoming.is_empty() {
            return Ok(None);
        }
        // What is in memory is as long as it was taken to be.
        let layout = match self.sources.iter().any(|source| matches!(source, Source::Disk)) {
            true => {
                self.read_ahead.arrive(&mut incoming)?;
                lap(Activity::ReadWait, 0);
                self.lay_out(buffer, &incoming)?
            }
            false => layout,
        };
        self.read_ahead.give_back(incoming.split_off(layout.row_groups.len()));
        let compressed = self.stage(buffer, &layout, &incoming, decompression)?;
        lap(Activity::Stage, layout.bytes().pinned as u64);
        Ok(Some((layout, compressed)))
    }

    fn begin_timings(&self, buffer: usize) -> Option<MorselTimings> {
        self.timings.is_some().then(|| MorselTimings::begin(buffer))
    }

    fn enqueue_for(
        &mut self,
        buffer: usize,
        layout: &MorselLayout,
        stream: &Stream,
        timings: Option<MorselTimings>,
    ) -> Result<()> {
        match timings {
            Some(timings) => self.enqueue_timed(buffer, layout, stream, timings),
            None => self.enqueue(buffer, layout, stream),
        }
    }

    /// Brings a morsel to `buffer`, and to those after it that are free.
    fn bring_ahead(
        &mut self,
        buffer: usize,
        decompression: &mut DeviceDecompression,
        drop_row_group: DropRowGroup<'_>,
    ) -> Result<()> {
        for next in decompression.buffers_from(buffer) {
            if next != buffer && !self.buffers[next].is_free()? {
                return Ok(());
            }
            let mut timings = self.begin_timings(next);
            let prepared = self.prepare(next, Some(decompression), drop_row_group, &mut timings)?;
            let Some((layout, compressed)) = prepared else { return Ok(()) };
            self.enqueue_for(next, &layout, decompression.stream(next), timings)?;
            let brought = decompression.enqueue(next, &self.buffers[next], layout, compressed)?;
            decompression.push(brought);
        }
        Ok(())
    }

    /// Tells that everything that reads the buffer's morsel is complete when `done` is.
    ///
    /// # Panics
    ///
    /// If the buffer holds no morsel.
    pub fn release(&mut self, buffer: usize, done: Event) {
        self.buffers[buffer].release(done);
    }

    /// Widths of the bit-packed pages that came from disk so far, of the column `index` of those that do.
    pub(super) fn widths(&self, index: usize) -> BTreeSet<u8> {
        self.read_ahead.widths[index].clone()
    }

    /// What it did so far.
    pub fn report(&self) -> PrefetchReport {
        let counts = self.read_ahead.counts.clone();
        PrefetchReport {
            row_groups_dropped: counts.row_groups_dropped,
            row_groups_ahead_max: counts.row_groups_ahead_max,
            disk_bytes: counts.disk_bytes,
            codec_bytes_before: counts.codec_bytes_before,
            codec_bytes_after: counts.codec_bytes_after,
            codec_time: counts.codec_time,
            codec_reason: self.report.codec_reason.clone().filter(|_| counts.codec_bytes_before > 0),
            device_codec_bytes_before: counts.device_codec_bytes_before,
            device_codec_bytes_after: counts.device_codec_bytes_after,
            device_codec_time: self
                .decompression
                .as_ref()
                .map_or(Duration::ZERO, |decompression| decompression.time),
            device_codec_name: self.decompression.as_ref().map(DeviceDecompression::name),
            disk_wait: counts.disk_wait,
            ..self.report.clone()
        }
    }

    /// Row groups for a morsel, by estimate where they are on disk.
    fn take(
        &mut self,
        buffer: usize,
        drop_row_group: DropRowGroup<'_>,
    ) -> Result<(Vec<Incoming>, MorselLayout)> {
        let room = self.buffers[buffer].room();
        let mut layout = MorselLayout::default();
        let (mut taken, mut pieces) = (Vec::new(), Vec::with_capacity(self.sources.len()));
        while taken.len() < self.row_groups_max {
            let Some(next) = self.read_ahead.peek(drop_row_group)? else { break };
            pieces_of(&self.sources, next, &mut pieces);
            if !taken.is_empty() && !(layout.bytes() + layout.growth(&pieces)).fits(room) {
                break;
            }
            layout.push(next.row_group, &pieces);
            taken.extend(self.read_ahead.take());
        }
        Ok((taken, layout))
    }

    /// The morsel of the first of these row groups, as many as fit now that their lengths are known.
    fn lay_out(&mut self, buffer: usize, incoming: &[Incoming]) -> Result<MorselLayout> {
        let mut layout = MorselLayout::default();
        let mut pieces = Vec::with_capacity(self.sources.len());
        for next in incoming {
            pieces_of(&self.sources, next, &mut pieces);
            let bytes = layout.bytes() + layout.growth(&pieces);
            if !bytes.fits(self.buffers[buffer].room()) {
                if !layout.row_groups.is_empty() {
                    break;
                }
                self.read_ahead.verify(next)?;
                let source = StagingSource {
                    column_cache: &self.column_cache,
                    device: self.device,
                    temp_bytes: self.temp_bytes,
                };
                self.buffers[buffer].grow(source, bytes)?;
            }
            layout.push(next.row_group, &pieces);
        }
        Ok(layout)
    }

    fn stage(
        &mut self,
        buffer: usize,
        layout: &MorselLayout,
        incoming: &[Incoming],
        decompression: Option<&DeviceDecompression>,
    ) -> Result<Option<Compressed>> {
        let bytes = layout.bytes().pinned;
        if bytes == 0 {
            return Ok(None);
        }
        let buffer = &self.buffers[buffer];
        buffer.pinned.with_bytes_mut(|target| {
            let (staged, compressed) = target[..bytes].split_at_mut(layout.staged_bytes());
            let parts = self.read_ahead.stage(incoming, staged, compressed)?;
            let decompression = decompression.filter(|_| !parts.is_empty());
            decompression
                .map(|decompression| decompression.write_words(buffer, layout, parts, compressed))
                .transpose()
        })?
    }

    fn enqueue(&mut self, buffer: usize, layout: &MorselLayout, stream: &Stream) -> Result<()> {
        let Some(device) = self.buffers[buffer].copied_to() else { return Ok(()) };
        let pinned = &self.buffers[buffer].pinned;
        let staged = layout.staged_bytes();
        stream.copy(&pinned.slice(0..staged), &device.slice(0..staged))?;
        let helper_bytes_before = self.copier.as_ref().map_or(0, MultiLinkCopier::helper_link_bytes);
        for (at, run) in layout.copies() {
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
        self.report.moved_bytes += (layout.bytes().device - layout.decompressed().len()) as u64;
        Ok(())
    }

    /// As [`enqueue`](Self::enqueue), between two events.
    fn enqueue_timed(
        &mut self,
        buffer: usize,
        layout: &MorselLayout,
        stream: &Stream,
        mut timings: MorselTimings,
    ) -> Result<()> {
        let before = stream.record()?;
        self.enqueue(buffer, layout, stream)?;
        timings.copied_bytes = layout.bytes().device as u64;
        if timings.copied_bytes > 0 {
            timings.copy = Some((before, stream.record()?));
        }
        self.timings.get_or_insert_default().push(timings);
        Ok(())
    }

    fn morsel(&mut self, buffer: usize, layout: MorselLayout) -> Morsel {
        self.buffers[buffer].is_out = true;
        let device = self.buffers[buffer].read_by_kernels();
        let bytes = layout.compressed().start;
        let addresses = layout.addresses(device.address());
        let mut reads = Vec::new();
        if bytes > 0 {
            reads.push(device.slice(0..bytes));
        }
        for source in &self.sources {
            let column = match source {
                Source::Device(column) | Source::InPlace(column) => column,
                Source::Pinned(column) => {
                    let bytes = |row_group: &u32| column.places[*row_group as usize].bytes as u64;
                    self.report.pinned_bytes += layout.row_groups.iter().map(bytes).sum::<u64>();
                    continue;
                }
                Source::Disk => continue,
            };
            let mut last_extent = None;
            for row_group in &layout.row_groups {
                let place = column.places[*row_group as usize];
                match source {
                    Source::InPlace(_) => self.report.pinned_bytes += place.bytes as u64,
                    _ => self.report.device_bytes += place.bytes as u64,
                }
                if last_extent.replace(place.extent) != Some(place.extent) {
                    reads.push(column.extents[place.extent].span());
                }
            }
        }
        self.report.morsels += 1;
        self.report.row_groups += layout.row_groups.len() as u64;
        Morsel { row_groups: layout.row_groups, addresses, reads }
    }
}

/// The fastest tier of a column.
fn source(column_cache: &ColumnCache, table: &Table, column: usize, device: DeviceId) -> Source {
    let key = (table.id(), column);
    match column_cache.cached(key, device) {
        Some(cached) => Source::Device(cached),
        None if column_cache.options.in_place == Some(device) => {
            column_cache.pinned(key).map_or(Source::Disk, Source::InPlace)
        }
        None => column_cache.pinned(key).map_or(Source::Disk, Source::Pinned),
    }
}

/// Puts the chunks of a row group, one a column, into `pieces`.
fn pieces_of(sources: &[Source], incoming: &Incoming, pieces: &mut Vec<Piece>) {
    let row_group = incoming.row_group as usize;
    let mut staged = incoming.chunks.iter();
    let piece = |source: &Source| match source {
        Source::Device(column) | Source::InPlace(column) => Piece::Cached(column.address(row_group)),
        Source::Pinned(column) => Piece::Pinned(column.places[row_group]),
        Source::Disk => staged.next().map_or(Piece::Staged(0), |chunk| match chunk.compressed_size {
            Some(compressed_size) => {
                Piece::Compressed { decompressed: chunk.decompressed, compressed: compressed_size.bytes() }
            }
            None => Piece::Staged(chunk.decompressed),
        }),
    };
    pieces.clear();
    pieces.extend(sources.iter().map(piece));
}

/// What a prefetcher is to copy to the device.
struct Scan<'a> {
    table: &'a Table,
    columns: &'a [usize],
    row_groups: &'a [u32],
    /// By column.
    sources: &'a [Source],
}

/// Staging buffers, and what is done with codecs in them.
struct Taken {
    buffers: Vec<StagingBuffer>,
    plan: DecompressionPlan,
    temp_bytes: usize,
    /// Bytes of chunks that come from pinned memory.
    pinned_bytes: usize,
}

impl Scan<'_> {
    /// Takes buffers for what the device decompresses by `plan`; where there is not enough memory for that, the host
    /// decompresses.
    fn take_buffers(
        &self,
        column_cache: &ColumnCache,
        device: DeviceId,
        plan: DecompressionPlan,
        options: PrefetchOptions,
    ) -> Result<Taken> {
        let need = self.need(&plan.codecs)?;
        let temp_bytes = plan.temp_bytes(need.buffer(options.morsel_bytes).device)?;
        let source = StagingSource { column_cache, device, temp_bytes };
        match take_buffers(source, need, options.staging_buffers, options.morsel_bytes) {
            Err(error)
                if matches!(error.kind(), ErrorKind::OutOfMemory { .. }) && !plan.codecs.is_empty() =>
            {
                self.take_buffers(column_cache, device, DecompressionPlan::refused(&error), options)
            }
            buffers => {
                let buffers =
                    buffers.context(|| format!("prefetching table '{}' to {device}", self.table.name()))?;
                Ok(Taken { buffers, plan, temp_bytes, pinned_bytes: need.runs })
            }
        }
    }

    /// What its row groups take in buffers, by estimate where they are on disk under a codec that the device
    /// decompresses.
    fn need(&self, device_codecs: &[Codec]) -> Result<Need> {
        let (mut all, mut largest) = (MorselLayout::default(), StagingBytes::default());
        if self.sources.iter().all(|source| matches!(source, Source::Device(_) | Source::InPlace(_))) {
            return Ok(Need { largest, all: all.bytes(), runs: 0 });
        }
        let mut pieces = Vec::with_capacity(self.columns.len());
        for row_group in self.row_groups {
            pieces.clear();
            for (column, source) in self.columns.iter().zip(self.sources) {
                pieces.push(self.piece(*column, source, *row_group as usize, device_codecs)?);
            }
            largest = largest.max(MorselLayout::default().growth(&pieces));
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
            Source::Device(_) | Source::InPlace(_) => Piece::Cached(0),
            Source::Pinned(stored) => Piece::Pinned(stored.places[row_group]),
            Source::Disk => {
                let decompressed = estimated_chunk_bytes(self.table, row_group, column)?;
                let codec = self.table.chunk(row_group, column)?.encoding.codec;
                match device_codecs.contains(&codec) {
                    true => {
                        let compressed_size =
                            estimated_compressed_size(self.table, row_group, column, decompressed)?;
                        Piece::Compressed { decompressed, compressed: compressed_size.bytes() }
                    }
                    false => Piece::Staged(decompressed),
                }
            }
        })
    }
}
