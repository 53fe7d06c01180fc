//! Reading one chunk: its place from the directory, its bytes from the engine, its checksum before anyone
//! decodes them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pelton_error::Result;

use crate::io::{AlignedBytes, IoEngine, ReadFuture};
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
