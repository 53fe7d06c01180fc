//! Read-ahead of a scan: reads of chunks on disk are begun some row groups ahead, and row groups are taken in order.
//!
//! ```text
//!   row groups ─ wanted? ─► reads under way, a bounded number of bytes ─ still wanted? ─► waited for, in order
//!                                                                        ─► measured: length without codec
//!                                                                        ─► checksum, decompressed to a buffer
//! ```
//!
//! Checksums, codecs and copies run on several threads where there are enough bytes. Row groups whose columns are all
//! in memory are taken in the same order, with nothing to read.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton_chunk::{Codec, decompressed_bytes};
use pelton_error::{CancelFlag, Result};
use pelton_io::{AlignedBytes, IoEngine, ReadFuture};
use pelton_store::Table;

use super::decompress::{Body, CompressedSize, Part, write_body};
use super::extent::{CHUNK_ALIGN, decompress_stored};
use super::formats::{estimated_chunk_bytes, section_count};
use super::parallel;

/// Another thread is worth starting for each of these that are copied; a guess.
const BYTES_PER_THREAD: usize = 2 << 20;
/// So much longer than copying bytes takes decompressing to them; a guess between LZ4 and Deflate.
const CODEC_COST: usize = 8;

/// Decides whether a row group is not wanted any more.
pub(super) type DropRowGroup<'a> = &'a mut dyn FnMut(u32) -> bool;

/// The row groups that come to a prefetcher, in order. After its end there may be more.
pub type RowGroups = Box<dyn Iterator<Item = u32> + Send>;

/// Row groups in order, with the reads of their chunks on disk.
pub(super) struct ReadAhead {
    pub(super) table: Arc<Table>,
    io: Arc<IoEngine>,
    /// Table columns that are read from disk.
    columns: Vec<usize>,
    /// Codecs that the device decompresses.
    device_codecs: Vec<Codec>,
    /// Those not begun.
    rest: RowGroups,
    ahead: VecDeque<Incoming>,
    ahead_bytes: usize,
    /// Reads are begun while there are fewer.
    ahead_bytes_max: usize,
    /// Likewise, row groups.
    ahead_row_groups_max: usize,
    /// By disk column, stored and decompressed bytes of chunks with codec so far: what the next ones are estimated by.
    seen: Vec<(u64, u64)>,
    /// By disk column: widths of bit-packed pages so far.
    pub(super) widths: Vec<BTreeSet<u8>>,
    threads: usize,
    cancel: CancelFlag,
    /// Counts the morsels, so that nobody is asked twice about a row group in one go.
    round: u64,
    pub(super) counts: ReadAheadCounts,
}

/// What was read so far.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadAheadCounts {
    /// The most row groups lined up at once.
    pub(super) row_groups_ahead_max: usize,
    pub(super) disk_bytes: u64,
    pub(super) disk_wait: Duration,
    pub(super) codec_bytes_before: u64,
    pub(super) codec_bytes_after: u64,
    pub(super) codec_time: Duration,
    /// Of chunks that the device decompresses.
    pub(super) device_codec_bytes_before: u64,
    pub(super) device_codec_bytes_after: u64,
    pub(super) row_groups_dropped: u64,
}

/// A row group on its way.
pub(super) struct Incoming {
    pub(super) row_group: u32,
    /// One for each disk column.
    pub(super) chunks: Vec<Chunk>,
    /// When it was last asked about.
    round: u64,
    estimated_bytes: usize,
}

/// A chunk on its way.
pub(super) struct Chunk {
    read: Option<ReadFuture>,
    /// As stored, once they are here.
    bytes: Option<AlignedBytes>,
    /// By the directory.
    has_codec: bool,
    /// Its length without codec: estimated, and exact once the bytes are here.
    pub(super) decompressed: usize,
    /// Where the device decompresses it: estimated, and exact once the bytes are here.
    pub(super) compressed_size: Option<CompressedSize>,
}

impl ReadAhead {
    pub(super) fn new(
        table: &Arc<Table>,
        io: &Arc<IoEngine>,
        columns: Vec<usize>,
        device_codecs: Vec<Codec>,
        row_groups: RowGroups,
        threads: usize,
        cancel: CancelFlag,
    ) -> Self {
        Self {
            table: Arc::clone(table),
            io: Arc::clone(io),
            seen: vec![(0, 0); columns.len()],
            widths: vec![BTreeSet::new(); columns.len()],
            columns,
            device_codecs,
            rest: row_groups,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            ahead_bytes_max: 0,
            ahead_row_groups_max: 0,
            threads,
            cancel,
            round: 0,
            counts: ReadAheadCounts::default(),
        }
    }

    /// Reads are begun while those under way are of fewer bytes, and of fewer row groups.
    pub(super) fn set_ahead_max(&mut self, bytes: usize, row_groups: usize) {
        (self.ahead_bytes_max, self.ahead_row_groups_max) = (bytes, row_groups);
    }

    /// Another morsel is put together: begins reads, as far ahead as may be.
    pub(super) fn begin_round(&mut self, drop_row_group: DropRowGroup<'_>) -> Result<()> {
        self.round += 1;
        let known = self.ahead.len();
        while !self.columns.is_empty() && self.has_room_ahead() {
            if !self.admit_next(drop_row_group)? {
                break;
            }
        }
        self.counts.row_groups_ahead_max = self.counts.row_groups_ahead_max.max(self.ahead.len());
        self.begin_reads(known)
    }

    fn has_room_ahead(&self) -> bool {
        self.ahead_bytes < self.ahead_bytes_max && self.ahead.len() < self.ahead_row_groups_max
    }

    /// Lines up the next row group that is wanted; false at the end.
    fn admit_next(&mut self, drop_row_group: DropRowGroup<'_>) -> Result<bool> {
        for row_group in self.rest.by_ref() {
            self.cancel.check()?;
            if drop_row_group(row_group) {
                self.counts.row_groups_dropped += 1;
                continue;
            }
            let mut chunks = Vec::with_capacity(self.columns.len());
            for index in 0..self.columns.len() {
                let column = self.columns[index];
                let codec = self.table.chunk(row_group as usize, column)?.encoding.codec;
                let has_codec = codec != Codec::None;
                let decompressed = self.estimate(row_group as usize, index)?;
                let is_compressed = self.device_codecs.contains(&codec);
                let compressed_size = is_compressed.then(|| {
                    estimated_compressed_size(&self.table, row_group as usize, column, decompressed)
                });
                let compressed_size = compressed_size.transpose()?;
                chunks.push(Chunk { read: None, bytes: None, has_codec, decompressed, compressed_size });
            }
            let estimated_bytes = chunks.iter().map(Chunk::pinned_bytes).sum();
            self.ahead_bytes += estimated_bytes;
            self.ahead.push_back(Incoming { row_group, chunks, round: self.round, estimated_bytes });
            return Ok(true);
        }
        Ok(false)
    }

    /// The length that a chunk will have without codec.
    fn estimate(&self, row_group: usize, index: usize) -> Result<usize> {
        let location = self.table.chunk(row_group, self.columns[index])?;
        let (stored, decompressed) = self.seen[index];
        if location.encoding.codec == Codec::None || stored == 0 {
            return estimated_chunk_bytes(&self.table, row_group, self.columns[index]);
        }
        let bytes = location.stored_bytes as f64 * decompressed as f64 / stored as f64;
        Ok((bytes as usize).next_multiple_of(CHUNK_ALIGN))
    }

    /// Begins the reads of the row groups lined up from the one at `first` on. What lies in the page cache is copied
    /// by whoever asks, so several threads do.
    fn begin_reads(&mut self, first: usize) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut jobs = Vec::new();
        let mut bytes = 0;
        for incoming in self.ahead.iter_mut().skip(first) {
            for (column, chunk) in self.columns.iter().zip(&mut incoming.chunks) {
                let location = self.table.chunk(incoming.row_group as usize, *column)?;
                bytes += location.stored_bytes;
                jobs.push((location, chunk));
            }
        }
        self.cancel.before_bringing(bytes)?;
        self.counts.disk_bytes += bytes;
        let threads = threads_for(self.threads, bytes as usize);
        parallel::map(jobs, threads, &self.cancel, |(location, chunk)| {
            let file = self.table.segment_file(location.segment);
            chunk.read = Some(self.io.read(file, location.byte_offset, location.stored_bytes as usize));
            Ok(())
        })?;
        Ok(())
    }

    /// The next row group that is wanted still.
    pub(super) fn peek(&mut self, drop_row_group: DropRowGroup<'_>) -> Result<Option<&Incoming>> {
        loop {
            if self.ahead.is_empty() {
                if !self.admit_next(drop_row_group)? {
                    return Ok(None);
                }
                self.begin_reads(0)?;
            }
            let round = self.round;
            let first = self.ahead.front_mut().expect("one was just lined up, or there before");
            let is_wanted = first.round == round || !drop_row_group(first.row_group);
            first.round = round;
            if is_wanted {
                return Ok(self.ahead.front());
            }
            self.take();
            self.counts.row_groups_dropped += 1;
        }
    }

    /// Takes out what [`peek`](Self::peek) showed.
    pub(super) fn take(&mut self) -> Option<Incoming> {
        let incoming = self.ahead.pop_front()?;
        self.ahead_bytes -= incoming.estimated_bytes;
        Some(incoming)
    }

    /// Puts row groups that did not fit back, to be the next ones.
    pub(super) fn give_back(&mut self, incoming: Vec<Incoming>) {
        for incoming in incoming.into_iter().rev() {
            self.ahead_bytes += incoming.estimated_bytes;
            self.ahead.push_front(incoming);
        }
    }

    /// Waits for the chunks of these row groups and measures them. What a chunk says of its length is held against its
    /// checksum only when it is staged; until then no more than room is made for it.
    pub(super) fn arrive(&mut self, incoming: &mut [Incoming]) -> Result<()> {
        for row_group in incoming {
            let number = row_group.row_group as usize;
            for (index, chunk) in row_group.chunks.iter_mut().enumerate() {
                let Some(read) = chunk.read.take() else { continue };
                self.cancel.check()?;
                let column = self.columns[index];
                let started = Instant::now();
                let bytes =
                    read.wait_blocking().map_err(|error| self.table.of_chunk(number, column, error))?;
                self.counts.disk_wait += started.elapsed();
                let (decompressed, compressed_size) =
                    measure(&self.table, number, column, &bytes, &mut self.widths[index])?;
                if chunk.has_codec {
                    self.seen[index].0 += bytes.len() as u64;
                    self.seen[index].1 += decompressed as u64;
                }
                chunk.decompressed = decompressed;
                chunk.compressed_size = chunk.compressed_size.and(Some(compressed_size));
                chunk.bytes = Some(bytes);
            }
        }
        Ok(())
    }

    /// Holds the chunks of a row group that is here against their checksums.
    pub(super) fn verify(&self, incoming: &Incoming) -> Result<()> {
        let mut chunks = self.columns.iter().zip(&incoming.chunks);
        chunks.try_for_each(|(column, chunk)| {
            self.table.verify_chunk(incoming.row_group as usize, *column, chunk.stored())
        })
    }

    /// Verifies the chunks of these row groups and writes them: to `staged` one after the other, each at a multiple of
    /// 128, and the bodies of those that the device decompresses to `compressed`. Answers the parts of the latter.
    pub(super) fn stage(
        &mut self,
        incoming: &[Incoming],
        mut staged: &mut [u8],
        mut compressed: &mut [u8],
    ) -> Result<Vec<Part>> {
        let mut cost = staged.len() + compressed.len();
        let mut jobs = Vec::new();
        let (mut body_start, mut target_start) = (0, 0);
        for row_group in incoming {
            for (index, chunk) in row_group.chunks.iter().enumerate() {
                let (row_group, column) = (row_group.row_group as usize, self.columns[index]);
                let room = chunk.decompressed.next_multiple_of(CHUNK_ALIGN);
                let Some(compressed_size) = chunk.compressed_size else {
                    let (target, rest) = staged.split_at_mut(room);
                    cost += if chunk.has_codec { CODEC_COST * chunk.decompressed } else { 0 };
                    jobs.push((row_group, column, chunk, None, &mut target[..chunk.decompressed]));
                    staged = rest;
                    continue;
                };
                let (target, rest) = compressed.split_at_mut(compressed_size.body);
                let body = Body { row_group, column, compressed: body_start, target: target_start };
                jobs.push((row_group, column, chunk, Some(body), target));
                (body_start, target_start) = (body_start + compressed_size.body, target_start + room);
                compressed = rest;
            }
        }
        assert!(staged.is_empty(), "the buffer was laid out for these chunks");
        let counts = StageCounts::default();
        let table = &self.table;
        let threads = threads_for(self.threads, cost);
        let parts =
            parallel::map(jobs, threads, &self.cancel, |(row_group, column, chunk, body, target)| {
                let stored = chunk.stored();
                table.verify_chunk(row_group, column, stored)?;
                if let Some(body) = body {
                    let view = table.chunk_view(row_group, column, stored)?;
                    counts.compressed(stored.len(), chunk.decompressed);
                    return write_body(&view, stored, body, target)
                        .map_err(|error| table.of_chunk(row_group, column, error));
                }
                let started = Instant::now();
                decompress_stored(table, row_group, column, stored, target)?;
                if chunk.has_codec {
                    counts.decompressed(stored.len(), target.len(), started);
                }
                Ok(Vec::new())
            })?;
        counts.add_to(&mut self.counts);
        Ok(parts.into_iter().flatten().collect())
    }
}

/// What threads that stage count.
#[derive(Default)]
struct StageCounts {
    codec_bytes_before: AtomicU64,
    codec_bytes_after: AtomicU64,
    codec_nanoseconds: AtomicU64,
    device_codec_bytes_before: AtomicU64,
    device_codec_bytes_after: AtomicU64,
}

impl StageCounts {
    fn decompressed(&self, before: usize, after: usize, started: Instant) {
        self.codec_bytes_before.fetch_add(before as u64, Ordering::Relaxed);
        self.codec_bytes_after.fetch_add(after as u64, Ordering::Relaxed);
        self.codec_nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn compressed(&self, before: usize, after: usize) {
        self.device_codec_bytes_before.fetch_add(before as u64, Ordering::Relaxed);
        self.device_codec_bytes_after.fetch_add(after as u64, Ordering::Relaxed);
    }

    fn add_to(self, counts: &mut ReadAheadCounts) {
        counts.codec_bytes_before += self.codec_bytes_before.into_inner();
        counts.codec_bytes_after += self.codec_bytes_after.into_inner();
        counts.codec_time += Duration::from_nanos(self.codec_nanoseconds.into_inner());
        counts.device_codec_bytes_before += self.device_codec_bytes_before.into_inner();
        counts.device_codec_bytes_after += self.device_codec_bytes_after.into_inner();
    }
}

/// How many of `threads` something done to `bytes` is worth.
fn threads_for(threads: usize, bytes: usize) -> usize {
    threads.min(1 + bytes / BYTES_PER_THREAD)
}

/// The length of a chunk without its codec, and what it takes compressed; notes its widths. One that does not add up
/// is held against its checksum first, which says more.
fn measure(
    table: &Table,
    row_group: usize,
    column: usize,
    bytes: &[u8],
    widths: &mut BTreeSet<u8>,
) -> Result<(usize, CompressedSize)> {
    match table.chunk_view(row_group, column, bytes) {
        Ok(view) => {
            widths.extend(view.packed_widths());
            Ok((decompressed_bytes(&view), CompressedSize::of(&view)))
        }
        Err(error) => table.verify_chunk(row_group, column, bytes).and(Err(error)),
    }
}

/// What a chunk takes compressed, as far as the directory of chunks shows.
pub(super) fn estimated_compressed_size(
    table: &Table,
    row_group: usize,
    column: usize,
    decompressed: usize,
) -> Result<CompressedSize> {
    let stored = table.chunk(row_group, column)?.stored_bytes as usize;
    Ok(CompressedSize::estimated(stored, decompressed, section_count(table, row_group)))
}

impl Chunk {
    /// The bytes as stored, once they are here.
    fn stored(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// What it takes of pinned memory.
    fn pinned_bytes(&self) -> usize {
        self.compressed_size.map_or(self.decompressed, |compressed_size| compressed_size.bytes())
    }
}
