//! Columns in memory: chunks without codec, one after the other in few large buffers.
//!
//! ```text
//!   extent 0  │ chunk 0 │ chunk 1   │ chunk 2 │        every chunk starts at a multiple of 128 bytes
//!   extent 1  │ chunk 3    │ chunk 4 │                 and has its room up to the next one to itself
//! ```
//!
//! An extent is loaded by one thread: its chunks are read, held against their checksums, measured and written to the
//! extent's buffer, decompressed. Extents are cut by estimate so that what lies beside a buffer meanwhile is bounded.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use pelton_chunk::{decompress_chunk, decompressed_bytes};
use pelton_device::{Buffer, Machine, MemoryKind, OnFull};
use pelton_error::{CancelFlag, Result};
use pelton_io::{AlignedBytes, IoEngine};
use pelton_store::{Table, read_chunk};

use super::formats::estimated_chunk_bytes;

/// Chunks start at multiples of this, so that their sections do.
pub(super) const CHUNK_ALIGN: usize = 128;

/// A column's chunks in memory of one kind, all row groups of a snapshot.
#[derive(Debug)]
pub(super) struct StoredColumn {
    /// One buffer an extent.
    pub(super) extents: Vec<Buffer>,
    /// By row group.
    pub(super) places: Vec<ChunkPlace>,
    /// Widths of its bit-packed pages.
    pub(super) widths: BTreeSet<u8>,
}

/// Where a chunk lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkPlace {
    pub(super) extent: usize,
    /// In the extent.
    pub(super) start: usize,
    /// Length of the chunk.
    pub(super) bytes: usize,
}

impl ChunkPlace {
    /// Where the chunk's room ends.
    pub(super) fn end(&self) -> usize {
        self.start + self.room()
    }

    /// What it takes, alignment included.
    pub(super) fn room(&self) -> usize {
        self.bytes.next_multiple_of(CHUNK_ALIGN)
    }
}

impl StoredColumn {
    /// Bytes of its buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len() as u64).sum()
    }

    /// Where the chunk of a row group starts.
    pub(super) fn address(&self, row_group: usize) -> u64 {
        let place = self.places[row_group];
        self.extents[place.extent].address() + place.start as u64
    }

    /// The column that these extents, in order, are of.
    pub(super) fn assemble(extents: Vec<LoadedExtent>) -> Self {
        let mut column = Self { extents: Vec::new(), places: Vec::new(), widths: BTreeSet::new() };
        for loaded in extents {
            let extent = column.extents.len();
            let mut start = 0;
            for bytes in loaded.chunk_bytes {
                let place = ChunkPlace { extent, start, bytes };
                start = place.end();
                column.places.push(place);
            }
            column.extents.push(loaded.buffer);
            column.widths.extend(loaded.widths);
        }
        column
    }
}

/// An extent, loaded.
pub(super) struct LoadedExtent {
    pub(super) buffer: Buffer,
    /// Lengths of its chunks, in order.
    pub(super) chunk_bytes: Vec<usize>,
    pub(super) widths: BTreeSet<u8>,
}

/// The row groups of each extent of a column: as many as take about `extent_bytes`, at least one.
pub(super) fn plan_extents(table: &Table, column: usize, extent_bytes: usize) -> Result<Vec<Range<usize>>> {
    let mut extents = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for row_group in 0..table.row_group_count() {
        let next = estimated_chunk_bytes(table, row_group, column)?;
        if row_group > start && bytes + next > extent_bytes {
            extents.push(start..row_group);
            (start, bytes) = (row_group, 0);
        }
        bytes += next;
    }
    if start < table.row_group_count() {
        extents.push(start..table.row_group_count());
    }
    Ok(extents)
}

/// Reads the chunks of `row_groups` into pinned memory.
///
/// # Errors
///
/// Of reading, `Corrupt` for damaged chunks, `OutOfMemory` at the budget of pinned memory, `Cancelled`.
pub(super) fn load_extent(
    machine: &Machine,
    io: &IoEngine,
    table: &Arc<Table>,
    column: usize,
    row_groups: Range<usize>,
    cancel: &CancelFlag,
) -> Result<LoadedExtent> {
    let stored = |row_group| Ok::<u64, pelton_error::Error>(table.chunk(row_group, column)?.stored_bytes);
    cancel.before_bringing(row_groups.clone().map(stored).sum::<Result<u64>>()?)?;
    let reads = row_groups
        .clone()
        .map(|row_group| read_chunk(io, table, row_group, column))
        .collect::<Result<Vec<_>>>()?;
    let mut chunks = Vec::with_capacity(reads.len());
    let mut widths = BTreeSet::new();
    for (row_group, read) in row_groups.zip(reads) {
        cancel.check()?;
        let bytes = read.wait_blocking()?;
        let view = table.chunk_view(row_group, column, &bytes)?;
        widths.extend(view.packed_widths());
        chunks.push((row_group, decompressed_bytes(&view), bytes));
    }
    let room: usize = chunks.iter().map(|(_, bytes, _)| bytes.next_multiple_of(CHUNK_ALIGN)).sum();
    let buffer = machine.allocate(MemoryKind::PINNED, room, OnFull::Refuse)?;
    buffer.with_bytes_mut(|target| fill(table, column, &chunks, target, cancel))??;
    Ok(LoadedExtent { buffer, chunk_bytes: chunks.iter().map(|(_, bytes, _)| *bytes).collect(), widths })
}

fn fill(
    table: &Table,
    column: usize,
    chunks: &[(usize, usize, AlignedBytes)],
    mut target: &mut [u8],
    cancel: &CancelFlag,
) -> Result<()> {
    for (row_group, decompressed, bytes) in chunks {
        cancel.check()?;
        let (room, rest) = target.split_at_mut(decompressed.next_multiple_of(CHUNK_ALIGN));
        decompress_stored(table, *row_group, column, bytes, &mut room[..*decompressed])?;
        target = rest;
    }
    Ok(())
}

/// Writes verified `bytes` of a chunk without their codec; errors name the chunk.
pub(super) fn decompress_stored(
    table: &Table,
    row_group: usize,
    column: usize,
    bytes: &[u8],
    target: &mut [u8],
) -> Result<()> {
    let view = table.chunk_view(row_group, column, bytes)?;
    decompress_chunk(&view, target).map_err(|error| table.of_chunk(row_group, column, error))
}
