//! How fast this machine decodes a column, measured on its own: no storage, no query, no pipeline.
//!
//! ```text
//!   chunks in memory ─┬─ thread 1   chunk by chunk: codec off, values decoded (a GPU decodes values by itself)
//!                     └─ thread n
//! ```
//!
//! Where a device decompresses, its own events tell instead (`scan.rs`). The best of a few rounds counts, since nothing
//! but the work itself belongs to the rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use pelton_chunk::{ChunkView, decompress_chunk, decompressed_bytes};
use pelton_error::Result;
use pelton_io::{AlignedBytes, IoEngine, IoOptions};
use pelton_store::{Table, column_to_arrow, read_chunk};

/// Rounds over the column; the fastest counts.
const ROUNDS: usize = 5;

/// What is done to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Its codec is taken off: what the host does for a GPU, whose kernels read light encodings.
    Decompress,
    /// Its values are decoded to Arrow, as a scan on the CPU does.
    Decode,
}

/// Uncompressed bytes per second at which `threads` threads do `work` to all chunks of `column`.
pub(super) fn rate(table: &Arc<Table>, column: usize, work: Work, threads: usize) -> Result<f64> {
    let engine = IoEngine::start(IoOptions::default())?;
    let chunks: Vec<AlignedBytes> = (0..table.row_group_count())
        .map(|row_group| read_chunk(&engine, table, row_group, column)?.wait_blocking())
        .collect::<Result<_>>()?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        round(table, column, work, threads, &chunks)?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(table.column_summary(column).raw_bytes as f64 / best.max(1e-9))
}

fn round(table: &Table, column: usize, work: Work, threads: usize, chunks: &[AlignedBytes]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<()> {
        let mut room = Vec::new();
        loop {
            let row_group = next.fetch_add(1, Ordering::Relaxed);
            let Some(bytes) = chunks.get(row_group) else { return Ok(()) };
            process(table, column, work, &table.chunk_view(row_group, column, bytes)?, &mut room)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("decoding does not panic"))
    })
}

fn process(table: &Table, column: usize, work: Work, view: &ChunkView<'_>, room: &mut Vec<u8>) -> Result<()> {
    match work {
        Work::Decompress => {
            room.resize(decompressed_bytes(view), 0);
            decompress_chunk(view, room)?;
            std::hint::black_box(room.as_slice());
        }
        Work::Decode => {
            let logical = &table.schema().columns[column].logical;
            std::hint::black_box(column_to_arrow(view.decode()?, logical)?);
        }
    }
    Ok(())
}
