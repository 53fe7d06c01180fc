//! Deliveries: columns in host memory as row ranges that kernels of a device may read.
//!
//! ```text
//!   slot 0   copy chunk 0 ─ compute ─────────── copy chunk 3 ─ compute
//!   slot 1          copy chunk 1 ─ compute ───────────  copy chunk 4 ─ ...
//!   slot 2                 copy chunk 2 ─ compute
//! ```
//!
//! A slot is a stream with buffers. What the caller enqueues on a chunk's stream runs after the chunk has arrived and
//! before the slot is used again; so while one chunk is computed on, the next ones are on the link. Methods that pull
//! deliver everything as one chunk, at once: the memory itself.
//!
//! Several columns are cut at the same rows. Bound: `depth` chunks of device memory, and as much pinned memory for
//! staged copies.

use std::ops::Range;

use pelton_device::{Buffer, DeviceId, Machine, MemoryKind, NodeId, PageLock, Place, Span, Stream};
use pelton_error::{Error, Result, ResultExt};

use crate::method::Method;
use crate::options::TransferOptions;

/// Fixed-width values in host memory.
#[derive(Debug, Clone)]
pub struct Column {
    /// All values.
    pub span: Span,
    /// Bytes of one value.
    pub row_bytes: usize,
}

/// A transfer of columns to a device, chunk by chunk.
pub struct Delivery {
    machine: Machine,
    device: DeviceId,
    method: Method,
    columns: Vec<Column>,
    row_count: usize,
    rows_per_chunk: usize,
    next_row: usize,
    next_slot: usize,
    slots: Vec<Slot>,
    /// Threads of staged copies.
    copiers: Vec<Stream>,
    options: TransferOptions,
}

struct Slot {
    stream: Stream,
    /// Device memory, one buffer a column; none if kernels read the source itself.
    landing: Vec<Buffer>,
    /// Pinned memory of staged copies.
    staging: Vec<Buffer>,
    locks: Vec<PageLock>,
}

/// Rows that have been enqueued to arrive.
#[derive(Debug)]
pub struct Chunk {
    /// Which rows.
    pub rows: Range<usize>,
    /// Their values, one span a column, readable by work on [`Delivery::stream`] of this chunk.
    pub spans: Vec<Span>,
    slot: usize,
}

impl Delivery {
    /// Prepares to deliver `columns` to `device` by `method`; nothing moves yet.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if columns differ in rows, their memory is not what the method reads, or an option is out of
    /// range; `Unsupported` if the device lacks the capability; `OutOfMemory` if a chunk in flight does not fit.
    pub fn open(
        machine: &Machine,
        device: DeviceId,
        method: Method,
        columns: Vec<Column>,
        options: TransferOptions,
    ) -> Result<Self> {
        options.check()?;
        method.check(machine, device)?;
        let row_count = check_columns(method, &columns)?;
        let row_bytes: usize = columns.iter().map(|column| column.row_bytes).sum();
        let rows_per_chunk =
            if method.is_push() { options.chunk_bytes / row_bytes.max(1) } else { row_count };
        if rows_per_chunk == 0 && row_count > 0 {
            return Err(Error::invalid_input(format!(
                "chunks of {} bytes hold no row of {row_bytes} bytes; take larger chunks",
                options.chunk_bytes
            )));
        }
        let mut delivery = Self {
            machine: machine.clone(),
            device,
            method,
            columns,
            row_count,
            rows_per_chunk: rows_per_chunk.clamp(1, row_count.max(1)),
            next_row: 0,
            next_slot: 0,
            slots: Vec::new(),
            copiers: Vec::new(),
            options,
        };
        delivery.make_slots().context(|| format!("{method} to {device}"))?;
        Ok(delivery)
    }

    /// The next rows, enqueued to arrive; `None` after the last. Waits while all slots are in use.
    ///
    /// # Errors
    ///
    /// `Cancelled`; what the device or, for staged copies, a thread reports.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        self.options.cancel.check()?;
        if self.next_row == self.row_count {
            return Ok(None);
        }
        let rows = self.next_row..self.row_count.min(self.next_row + self.rows_per_chunk);
        let slot = self.next_slot;
        if rows.start / self.rows_per_chunk >= self.slots.len() {
            self.slots[slot].stream.wait_blocking()?;
        }
        self.slots[slot].locks.clear();
        let sources: Vec<Span> = self.columns.iter().map(|column| column.rows(&rows)).collect();
        let spans = self.enqueue(slot, sources).context(|| format!("{} to {}", self.method, self.device))?;
        self.next_row = rows.end;
        self.next_slot = (slot + 1) % self.slots.len();
        Ok(Some(Chunk { rows, spans, slot }))
    }

    /// Where work on `chunk` is to be enqueued.
    pub fn stream(&self, chunk: &Chunk) -> &Stream {
        &self.slots[chunk.slot].stream
    }

    /// Waits until every chunk has arrived and all work on them is done.
    ///
    /// # Errors
    ///
    /// The first error of a copy or of work.
    pub fn wait_blocking(&mut self) -> Result<()> {
        let outcomes: Vec<Result<()>> = self.slots.iter().map(|slot| slot.stream.wait_blocking()).collect();
        for slot in &mut self.slots {
            slot.locks.clear();
        }
        outcomes.into_iter().collect()
    }

    fn make_slots(&mut self) -> Result<()> {
        let chunk_count = self.row_count.div_ceil(self.rows_per_chunk);
        let depth = if self.method.is_push() { self.options.depth.min(chunk_count.max(1)) } else { 1 };
        let node = self.machine.device(self.device)?.node;
        let take = |kind: &MemoryKind| -> Result<Vec<Buffer>> {
            let buffer = |column: &Column| {
                let bytes = column.row_bytes * self.rows_per_chunk;
                self.machine.allocate(kind.clone(), bytes, self.options.on_full)
            };
            self.columns.iter().map(buffer).collect()
        };
        let mut slots = Vec::with_capacity(depth);
        for _ in 0..depth {
            let stream = self.machine.stream(Place::Device(self.device))?;
            let makes_copy = self.method.makes_copy() && self.row_count > 0;
            let landing = if makes_copy { take(&MemoryKind::Device(self.device))? } else { Vec::new() };
            let stages = self.method == Method::StagedCopy && self.row_count > 0;
            let staging = if stages { take(&MemoryKind::Pinned(node))? } else { Vec::new() };
            slots.push(Slot { stream, landing, staging, locks: Vec::new() });
        }
        self.slots = slots;
        if self.method == Method::StagedCopy {
            let copiers =
                (0..self.options.copy_threads).map(|_| self.machine.stream(Place::Host(NodeId(node.0))));
            self.copiers = copiers.collect::<Result<_>>()?;
        }
        Ok(())
    }

    fn enqueue(&mut self, slot: usize, sources: Vec<Span>) -> Result<Vec<Span>> {
        let (method, device) = (self.method, self.device);
        let copiers = &self.copiers;
        let slot = &mut self.slots[slot];
        if !method.makes_copy() {
            if method == Method::UnifiedPrefetch {
                for source in &sources {
                    slot.stream.prefetch(source, Place::Device(device))?;
                }
            }
            return Ok(sources);
        }
        let targets: Vec<Span> = slot
            .landing
            .iter()
            .zip(&sources)
            .map(|(landing, source)| landing.slice(0..source.len()))
            .collect();
        for (index, (source, target)) in sources.iter().zip(&targets).enumerate() {
            match method {
                Method::StagedCopy => stage(copiers, &slot.stream, &slot.staging[index], source, target)?,
                Method::DynamicPinning => {
                    let lock = self.machine.page_lock(source, self.options.keeps_page_locks)?;
                    copy_pieces(&slot.stream, lock.pieces(), target)?;
                    slot.locks.push(lock);
                }
                _ => slot.stream.copy(source, target)?,
            }
        }
        Ok(targets)
    }
}

impl Column {
    fn rows(&self, rows: &Range<usize>) -> Span {
        self.span.slice(rows.start * self.row_bytes..rows.end * self.row_bytes)
    }
}

/// The number of rows, the same in every column.
fn check_columns(method: Method, columns: &[Column]) -> Result<usize> {
    let mut row_count = None;
    for (index, column) in columns.iter().enumerate() {
        if !method.reads(column.span.kind()) {
            return Err(Error::invalid_input(format!(
                "column {index}: {method} does not read {}; it reads {}",
                column.span.kind(),
                method.source_kind(NodeId(0))
            )));
        }
        if column.row_bytes == 0 || !column.span.len().is_multiple_of(column.row_bytes) {
            return Err(Error::invalid_input(format!(
                "column {index}: {} bytes are no whole number of rows of {} bytes",
                column.span.len(),
                column.row_bytes
            )));
        }
        let rows = column.span.len() / column.row_bytes;
        if *row_count.get_or_insert(rows) != rows {
            return Err(Error::invalid_input(format!(
                "column {index} has {rows} rows, others have another number"
            )));
        }
    }
    row_count.ok_or_else(|| Error::invalid_input("a delivery of no columns"))
}

/// Copies pieces of a source, in order, to `target`.
fn copy_pieces(stream: &Stream, pieces: &[Span], target: &Span) -> Result<()> {
    let mut offset = 0;
    for piece in pieces {
        stream.copy(piece, &target.slice(offset..offset + piece.len()))?;
        offset += piece.len();
    }
    assert_eq!(offset, target.len(), "the pieces are the source");
    Ok(())
}

/// Copies through pinned memory: each thread a share, each share on as soon as it is there.
fn stage(copiers: &[Stream], stream: &Stream, staging: &Buffer, source: &Span, target: &Span) -> Result<()> {
    let share = source.len().div_ceil(copiers.len()).next_multiple_of(64).max(64);
    for (copier, start) in copiers.iter().zip((0..source.len()).step_by(share)) {
        let range = start..source.len().min(start + share);
        let staged = staging.slice(range.clone());
        copier.copy(&source.slice(range.clone()), &staged)?;
        stream.wait_for(&copier.record()?)?;
        stream.copy(&staged, &target.slice(range))?;
    }
    Ok(())
}
