//! The row groups of a scan on their way in: reads of chunks on disk run ahead, and are taken in order.
//!
//! ```text
//!   row groups ─ wanted? ─► reads under way, a bounded number of bytes ─ still wanted? ─► waited for, in order
//!                                                                        ─► measured: length without codec
//!                                                                        ─► checksum, stripped to a slot
//! ```
//!
//! What is done to bytes is done on several threads where there are enough of them. Row groups whose columns are all
//! in memory go through as well, with nothing to read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pelton_chunk::{Codec, stripped_bytes};
use pelton_error::{CancelFlag, Result};
use pelton_store::{AlignedBytes, IoEngine, ReadFuture, Table};

use super::extent::{CHUNK_ALIGN, strip_chunk};
use super::formats::estimated_chunk_bytes;
use super::parallel;

/// Another thread is worth starting for each of these that are copied; a guess.
const BYTES_PER_THREAD: usize = 2 << 20;
/// So much longer than copying bytes takes decompressing to them; a guess between LZ4 and Deflate.
const CODEC_COST: usize = 8;

/// Decides whether a row group is not wanted any more.
pub(super) type DropRowGroup<'a> = &'a mut dyn FnMut(u32) -> bool;

/// Row groups in order, with the reads of their chunks on disk.
pub(super) struct Intake {
    pub(super) table: Arc<Table>,
    io: Arc<IoEngine>,
    /// Table columns that are read from disk.
    columns: Vec<usize>,
    /// Those not begun.
    rest: std::vec::IntoIter<u32>,
    ahead: VecDeque<Incoming>,
    ahead_bytes: usize,
    /// Reads are begun while there are fewer.
    ahead_bytes_max: usize,
    /// By disk column, stored and stripped bytes of chunks with codec so far: what the next ones are estimated by.
    seen: Vec<(u64, u64)>,
    threads: usize,
    cancel: CancelFlag,
    /// Counts the morsels, so that nobody is asked twice about a row group in one go.
    round: u64,
    pub(super) counts: IntakeCounts,
}

/// What came in.
#[derive(Debug, Clone, Default)]
pub(super) struct IntakeCounts {
    pub(super) disk_bytes: u64,
    pub(super) disk_wait: Duration,
    pub(super) codec_bytes_before: u64,
    pub(super) codec_bytes_after: u64,
    pub(super) codec_time: Duration,
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
    pub(super) stripped: usize,
}

impl Intake {
    pub(super) fn new(
        table: &Arc<Table>,
        io: &Arc<IoEngine>,
        columns: Vec<usize>,
        row_groups: Vec<u32>,
        threads: usize,
        cancel: CancelFlag,
    ) -> Self {
        Self {
            table: Arc::clone(table),
            io: Arc::clone(io),
            seen: vec![(0, 0); columns.len()],
            columns,
            rest: row_groups.into_iter(),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            ahead_bytes_max: 0,
            threads,
            cancel,
            round: 0,
            counts: IntakeCounts::default(),
        }
    }

    pub(super) fn set_ahead_bytes_max(&mut self, bytes: usize) {
        self.ahead_bytes_max = bytes;
    }

    /// Another morsel is put together: begins reads, as far ahead as may be.
    pub(super) fn begin_round(&mut self, drop_row_group: DropRowGroup<'_>) -> Result<()> {
        self.round += 1;
        let known = self.ahead.len();
        while !self.columns.is_empty() && self.ahead_bytes < self.ahead_bytes_max {
            if !self.admit_next(drop_row_group)? {
                break;
            }
        }
        self.begin_reads(known)
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
                let has_codec = self.table.chunk(row_group as usize, column)?.encoding.codec != Codec::None;
                let stripped = self.estimate(row_group as usize, index)?;
                chunks.push(Chunk { read: None, bytes: None, has_codec, stripped });
            }
            let estimated_bytes = chunks.iter().map(|chunk| chunk.stripped).sum();
            self.ahead_bytes += estimated_bytes;
            self.ahead.push_back(Incoming { row_group, chunks, round: self.round, estimated_bytes });
            return Ok(true);
        }
        Ok(false)
    }

    /// The length that a chunk will have without codec.
    fn estimate(&self, row_group: usize, index: usize) -> Result<usize> {
        let location = self.table.chunk(row_group, self.columns[index])?;
        let (stored, stripped) = self.seen[index];
        if location.encoding.codec == Codec::None || stored == 0 {
            return estimated_chunk_bytes(&self.table, row_group, self.columns[index]);
        }
        let bytes = location.stored_bytes as f64 * stripped as f64 / stored as f64;
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
                let stripped = measure(&self.table, number, column, &bytes)?;
                if chunk.has_codec {
                    self.seen[index].0 += bytes.len() as u64;
                    self.seen[index].1 += stripped as u64;
                }
                chunk.stripped = stripped;
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

    /// Verifies the chunks of these row groups and writes them to `target`, one after the other, each at a multiple of
    /// 128.
    pub(super) fn stage(&mut self, incoming: &[Incoming], mut target: &mut [u8]) -> Result<()> {
        let mut cost = target.len();
        let mut jobs = Vec::new();
        for row_group in incoming {
            for (index, chunk) in row_group.chunks.iter().enumerate() {
                let (room, rest) = target.split_at_mut(chunk.stripped.next_multiple_of(CHUNK_ALIGN));
                cost += if chunk.has_codec { CODEC_COST * chunk.stripped } else { 0 };
                jobs.push((row_group.row_group as usize, index, chunk, &mut room[..chunk.stripped]));
                target = rest;
            }
        }
        assert!(target.is_empty(), "the slot was laid out for these chunks");
        let (before, after, nanoseconds) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (table, columns) = (&self.table, &self.columns);
        let threads = threads_for(self.threads, cost);
        parallel::map(jobs, threads, &self.cancel, |(row_group, index, chunk, target)| {
            let (stored, column) = (chunk.stored(), columns[index]);
            table.verify_chunk(row_group, column, stored)?;
            let started = Instant::now();
            strip_chunk(table, row_group, column, stored, target)?;
            if chunk.has_codec {
                before.fetch_add(stored.len() as u64, Ordering::Relaxed);
                after.fetch_add(target.len() as u64, Ordering::Relaxed);
                nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
            Ok(())
        })?;
        self.counts.codec_bytes_before += before.into_inner();
        self.counts.codec_bytes_after += after.into_inner();
        self.counts.codec_time += Duration::from_nanos(nanoseconds.into_inner());
        Ok(())
    }
}

/// How many of `threads` something done to `bytes` is worth.
fn threads_for(threads: usize, bytes: usize) -> usize {
    threads.min(1 + bytes / BYTES_PER_THREAD)
}

/// The length of a chunk without its codec. One that does not add up is held against its checksum first, which says
/// more.
fn measure(table: &Table, row_group: usize, column: usize, bytes: &[u8]) -> Result<usize> {
    match table.chunk_view(row_group, column, bytes) {
        Ok(view) => Ok(stripped_bytes(&view)),
        Err(error) => table.verify_chunk(row_group, column, bytes).and(Err(error)),
    }
}

impl Chunk {
    /// The bytes as stored, once they are here.
    fn stored(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}
