//! Launches: what a kernel goes through, its argument words, its grid.

use pelton_device::{Event, Span, Work};
use pelton_error::{Error, Result};
use pelton_pipeline::codegen::{Arg, ENTRY, SinkLayout};
use pelton_pipeline::{Launch, Rows};

use super::allocate::THREADS_PER_MULTIPROCESSOR;
use super::execution::{Execution, Kernel};
use super::finish::Output;
use super::memory::{Lane, VECTOR_ROWS};
use super::report::PipelineReport;
use super::rows_out::RowsOut;

/// Blocks of a grid at most.
const BLOCKS_MAX: u64 = 1 << 20;

impl Execution<'_> {
    /// Enqueues the kernel over a morsel; where it gives rows, waits for them, or leaves them to `out`.
    pub(super) fn run_morsel(
        &self,
        kernel: &mut Kernel,
        (lane, morsel): (&Lane, &Morsel),
        out: Option<&mut RowsOut<'_>>,
        launched: &mut Vec<Launched>,
        report: &mut PipelineReport,
    ) -> Result<Option<Rows>> {
        if morsel.rows == 0 {
            return Ok(None);
        }
        if let Some(out) = out {
            return out.run(self, kernel, (lane, morsel), launched, report).map(|()| None);
        }
        if let (SinkLayout::Rows(layout), None) = (kernel.generated.sink.clone(), kernel.held_rows()) {
            return Output { layout: &layout, lane }.run(self, kernel, morsel, launched, report).map(Some);
        }
        self.launch(kernel, lane, morsel, false)?;
        Ok(None)
    }

    /// Enqueues the kernel over a morsel, or over its rows that wait.
    pub(super) fn launch(&self, kernel: &Kernel, lane: &Lane, morsel: &Morsel, is_redo: bool) -> Result<()> {
        let Lane { stream, descriptors, waiting } = lane;
        let may_wait = kernel.generated.sink.may_be_full();
        if may_wait {
            waiting.make_room(self, kernel, stream, morsel.vectors())?;
        }
        let (chunks, row_counts) = descriptors.send(stream, &morsel.addresses, &morsel.row_counts)?;
        let largest = morsel.row_counts.iter().copied().max().unwrap_or(0);
        let rows: u64 = morsel.row_counts.iter().map(|count| u64::from(*count)).sum();
        let (tile_rows, tiles_per_group) = self.tiles(rows, largest)?;
        let generated = &kernel.generated;
        let mut words = Vec::with_capacity(generated.args.len());
        for arg in &generated.args {
            words.push(match arg {
                Arg::Chunks => chunks,
                Arg::RowGroupRows => row_counts,
                Arg::RowGroupCount => morsel.row_counts.len() as u64,
                Arg::TileRows => u64::from(tile_rows),
                Arg::TilesPerGroup => u64::from(tiles_per_group),
                Arg::IsRedo => u64::from(is_redo),
                Arg::Undone => waiting.undone_address(),
                Arg::Emitted => waiting.emitted_address(),
                Arg::Waiting => waiting.count_address(),
                other => kernel.state.word(*other).ok_or_else(|| {
                    Error::invalid_input(format!("a pipeline without a value for its argument {other:?}"))
                })?,
            });
        }
        let warps = u64::from(generated.block_threads / 32);
        let tiles = morsel.row_counts.len() as u64 * u64::from(tiles_per_group);
        let mut grid = self.grid(tiles.div_ceil(warps), generated.block_threads, generated.shared_bytes)?;
        if generated.shared_bytes == 0 {
            // Blocks without anything to set up are cheap, and as many as there are tiles balance themselves.
            grid.blocks = tiles.div_ceil(warps).clamp(1, BLOCKS_MAX) as u32;
        }
        let workers = (self.runtime.options.workers as u64).clamp(1, tiles.max(1)) as u32;
        let mut reads = morsel.reads.clone();
        reads.push(descriptors.span().clone());
        let mut writes: Vec<Span> = kernel.state.spans().cloned().collect();
        if may_wait {
            writes.extend(waiting.spans());
        }
        let work: Work =
            kernel.program.work("pipeline", ENTRY, words, Launch { grid, workers }, reads, writes)?;
        kernel.started.replace(Some(stream.record()?));
        stream.run(work)?;
        match may_wait {
            true => waiting.bring(stream),
            false if kernel.is_direct_build() => waiting.bring_flags(stream, kernel.state.span(Arg::Flags)?),
            false => Ok(()),
        }
    }

    /// Rows of a tile, so that a morsel keeps the whole device busy, and tiles of the largest row group.
    fn tiles(&self, rows: u64, largest_group_rows: u32) -> Result<(u32, u32)> {
        let multiprocessors = self.runtime.machine.device(self.worker.device)?.multiprocessors;
        let warps = u64::from(multiprocessors * THREADS_PER_MULTIPROCESSOR / 32);
        let tile_rows = (rows / warps / 1024).clamp(1, 8) as u32 * 1024;
        Ok((tile_rows, largest_group_rows.div_ceil(tile_rows).max(1)))
    }
}

/// A kernel under way.
pub(super) struct Launched {
    pub(super) buffer: usize,
    pub(super) rows: u64,
    pub(super) started: Event,
    pub(super) done: Event,
}

impl Launched {
    /// The last launch of `kernel`, whose rows are counted with another one.
    pub(super) fn without_rows(buffer: usize, kernel: &Kernel, done: &Event) -> Option<Self> {
        kernel.started.take().map(|started| Self { buffer, rows: 0, started, done: done.clone() })
    }
}

/// Row groups that one launch goes through.
pub(super) struct Morsel {
    /// Of a table.
    pub(super) row_groups: Vec<u32>,
    pub(super) addresses: Vec<u64>,
    /// Of each, or places for rows.
    pub(super) row_counts: Vec<u32>,
    /// Of all together.
    pub(super) rows: u64,
    pub(super) reads: Vec<Span>,
}

impl Morsel {
    /// Vectors of all row groups, each of which begins one.
    pub(super) fn vectors(&self) -> usize {
        vectors(&self.row_counts)
    }
}

/// Vectors of row groups of so many rows.
pub(super) fn vectors(row_counts: &[u32]) -> usize {
    row_counts.iter().map(|rows| rows.div_ceil(VECTOR_ROWS) as usize).sum()
}
