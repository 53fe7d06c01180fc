//! Reading one chunk: its place from the directory, its bytes from the engine, its checksum before anyone
//! decodes them.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pelton_chunk::ChunkView;
use pelton_error::Result;
use pelton_io::{AlignedBytes, IoEngine, ReadFuture};

use crate::table::Table;

/// Starts reading column `column` of row group `row_group`; the read is under way when this returns.
///
/// # Errors
///
/// The chunk directory cannot be read. Errors of the read itself come from the future.
pub fn read_chunk(
    engine: &IoEngine,
    table: &Arc<Table>,
    row_group: usize,
    column: usize,
) -> Result<ChunkRead> {
    let location = table.chunk(row_group, column)?;
    let file = table.segment_file(location.segment);
    // The directory was checked to lie within the file, so the length fits memory if the file does.
    let bytes = engine.read(file, location.byte_offset, location.stored_bytes as usize);
    Ok(ChunkRead { bytes, table: Arc::clone(table), row_group, column })
}

/// Reads what these pages of a chunk are decoded from, and blocks this thread until it is here: a buffer of the chunk's
/// length with zeros in place of the other pages. A chunk whose checksum has not been checked in this process is read
/// whole.
///
/// # Errors
///
/// `Corrupt` for damaged chunks; of reading.
pub fn read_chunk_pages_blocking(
    engine: &IoEngine,
    table: &Arc<Table>,
    row_group: usize,
    column: usize,
    pages: &[bool],
) -> Result<AlignedBytes> {
    if !table.is_verified(row_group, column) {
        return read_chunk(engine, table, row_group, column)?.wait_blocking();
    }
    let location = table.chunk(row_group, column)?;
    let file = table.segment_file(location.segment);
    let len = location.stored_bytes as usize;
    let read = |range: Range<usize>| {
        let read = engine.read(file, location.byte_offset + range.start as u64, range.len());
        futures::executor::block_on(read)
    };
    let parts = || -> Result<AlignedBytes> {
        let head = read(0..len.min(ChunkView::head_bytes(pages.len())))?;
        let ranges = ChunkView::ranges_of_pages(&head, len, pages)?;
        let mut bytes = AlignedBytes::zeroed(len)?;
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            bytes.whole_mut()[range.clone()].copy_from_slice(&read(range)?);
        }
        Ok(bytes)
    };
    parts().map_err(|error| table.of_chunk(row_group, column, error))
}

/// The verified bytes of a chunk, when they have arrived. The checksum is computed by whoever polls.
pub struct ChunkRead {
    bytes: ReadFuture,
    table: Arc<Table>,
    row_group: usize,
    column: usize,
}

impl ChunkRead {
    /// Blocks this thread until the chunk is here.
    pub fn wait_blocking(self) -> Result<AlignedBytes> {
        futures::executor::block_on(self)
    }
}

impl Future for ChunkRead {
    type Output = Result<AlignedBytes>;

    fn poll(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Self::Output> {
        let read = ready!(Pin::new(&mut self.bytes).poll(ctx));
        let (row_group, column) = (self.row_group, self.column);
        Poll::Ready(match read {
            Ok(bytes) => self.table.verify_chunk(row_group, column, &bytes).map(|()| bytes),
            Err(error) => Err(self.table.of_chunk(row_group, column, error)),
        })
    }
}
