//! Sorting what the host's memory does not hold: runs on disk, merged with bounded memory.
//!
//! ```text
//!   push ──► batch in pinned memory ── sorted as any ──► run on disk           until the input ends
//!
//!   run 0   ░░░░░░░░├── block ──┤                        a block of every run in memory; what is below the last key
//!   run 1   ░░░░░├── block ──┤                           of every block cannot be preceded by anything on disk: it
//!   run 2   ░░░░░░░░░░░├─ block ─┤                       is merged by all cores and handed on, blocks are refilled
//! ```
//!
//! If there are more runs than blocks of a useful size fit, runs that are neighbours are merged to longer ones first.
//! Stable. Traffic: every row written to disk once and read once, and once more for each such pass.

use std::ops::Range;
use std::sync::Arc;

use pelton_device::MemoryKind;
use pelton_error::{Error, Result, ResultExt};
use pelton_limits::{SpillFile, SpillSpace};
use zerocopy::IntoBytes;

use crate::host::{Run, merge};
use crate::key::{Carried, Key, SortSpec, mask, with_types};
use crate::options::SortOptions;
use crate::report::Report;
use crate::rows::Rows;
use crate::sorter::{Prepared, Sorter};

/// The least bytes of a block: what a disk reads at nearly its rate. A guess.
const BLOCK_BYTES_MIN: usize = 1 << 20;

/// Where sorted rows go: bytes of keys, and bytes of as many payloads.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Limits of a sort beyond memory.
#[derive(Debug, Clone)]
pub struct ExternalOptions {
    /// How batches are sorted.
    pub sort: SortOptions,
    /// Host memory that it takes: pinned for batches, then plain for blocks.
    pub memory_limit_bytes: usize,
    /// The least bytes of a block that is read at a time.
    pub block_bytes_min: usize,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        Self { sort: SortOptions::default(), memory_limit_bytes: 1 << 30, block_bytes_min: BLOCK_BYTES_MIN }
    }
}

/// A sort of any number of rows.
pub struct ExternalSort {
    sorter: Sorter,
    spec: SortSpec,
    options: ExternalOptions,
    space: Arc<SpillSpace>,
    /// A batch of so many rows at most, and where it is sorted to.
    source: Rows,
    target: Rows,
    prepared: Prepared,
    filled: usize,
    runs: Vec<RunFile>,
    reports: Vec<Report>,
    passes: u64,
}

/// A sorted run on disk.
struct RunFile {
    keys: SpillFile,
    payloads: Option<SpillFile>,
    count: usize,
}

/// What a sort beyond memory did.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalReport {
    /// Rows.
    pub row_count: u64,
    /// Batches that were sorted.
    pub batch_count: u64,
    /// Passes over everything that merged runs to longer ones, before the last merge.
    pub pass_count: u64,
    /// Bytes written to disk; none if there was one batch.
    pub spilled_bytes: u64,
    /// Of each batch.
    pub batches: Vec<Report>,
}

impl ExternalSort {
    /// Takes the memory of a sort that spills to `space`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the limit holds no two rows; else as [`Sorter::prepare`].
    pub fn new(
        sorter: Sorter,
        spec: SortSpec,
        options: ExternalOptions,
        space: Arc<SpillSpace>,
    ) -> Result<Self> {
        let batch_rows = options.memory_limit_bytes / 2 / spec.row_bytes();
        if batch_rows < 2 {
            return Err(Error::invalid_input(format!(
                "{} bytes of memory hold no two batches of rows; raise the limit",
                options.memory_limit_bytes
            )));
        }
        let rows = || Rows::allocate(sorter.machine(), spec, &MemoryKind::PINNED, batch_rows);
        let (source, target) = (rows()?, rows()?);
        let prepared = sorter.prepare(spec, batch_rows, options.sort.clone())?;
        let (runs, reports) = (Vec::new(), Vec::new());
        Ok(Self {
            sorter,
            spec,
            options,
            space,
            source,
            target,
            prepared,
            filled: 0,
            runs,
            reports,
            passes: 0,
        })
    }

    /// Rows of a batch.
    pub fn batch_rows(&self) -> usize {
        self.source.count()
    }

    /// Takes rows: bytes of whole keys, and of as many payloads.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for bytes of other lengths; `OutOfMemory` if the disk is full or the limit on it reached; what
    /// devices answer.
    pub fn push(&mut self, keys: &[u8], payloads: &[u8]) -> Result<()> {
        let (key_bytes, payload_bytes) = (self.spec.key_bytes(), self.spec.payload.bytes());
        let count = keys.len() / key_bytes;
        if keys.len() != count * key_bytes || payloads.len() != count * payload_bytes {
            return Err(Error::invalid_input(format!(
                "{} bytes of keys and {} of payloads are not as many of each",
                keys.len(),
                payloads.len()
            )));
        }
        let mut taken = 0;
        while taken < count {
            let room = (self.source.count() - self.filled).min(count - taken);
            let (from, to) = (taken..taken + room, self.filled..self.filled + room);
            put(self.source.keys(), key_bytes, &to, &keys[from.start * key_bytes..from.end * key_bytes])?;
            if let Some(column) = self.source.payloads() {
                let bytes = &payloads[from.start * payload_bytes..from.end * payload_bytes];
                put(column, payload_bytes, &to, bytes)?;
            }
            taken += room;
            self.filled += room;
            if self.filled == self.source.count() && taken < count {
                self.spill()?;
            }
        }
        Ok(())
    }

    /// Sorts what is left and hands all rows on, in order.
    ///
    /// # Errors
    ///
    /// Those of `sink`; else as [`push`](Self::push).
    pub fn finish(mut self, sink: Sink<'_>) -> Result<ExternalReport> {
        if self.runs.is_empty() {
            let rows = self.sort_batch()?;
            let keys = rows.keys().host_bytes()?;
            let payloads = rows.payloads().map(pelton_device::Span::host_bytes).transpose()?;
            sink(keys.as_ref(), payloads.as_ref().map_or(&[][..], AsRef::as_ref))?;
        } else {
            if self.filled > 0 {
                self.spill()?;
            }
            // The batches' memory makes room for that of blocks.
            let nothing = Rows::allocate(self.sorter.machine(), self.spec, &MemoryKind::PINNED, 0)?;
            (self.source, self.target) = (nothing.clone(), nothing);
            self.prepared = self.sorter.prepare(self.spec, 0, self.options.sort.clone())?;
            let Self { spec, options, space, runs, passes, .. } = &mut self;
            let runs = std::mem::take(runs);
            *passes = with_types!(spec, merge_runs(*spec, options, space, runs, sink))
                .context(|| "merging runs on disk".into())?;
        }
        Ok(ExternalReport {
            row_count: self.reports.iter().map(|report| report.row_count).sum(),
            batch_count: self.reports.len() as u64,
            pass_count: self.passes,
            spilled_bytes: self.space.written_bytes(),
            batches: self.reports,
        })
    }

    /// The rows of the batch, sorted.
    fn sort_batch(&mut self) -> Result<Rows> {
        let count = std::mem::take(&mut self.filled);
        let (source, target) = (self.source.slice(0..count), self.target.slice(0..count));
        let report = if count == self.source.count() {
            self.prepared.sort(&source, &target)?
        } else {
            // Less than what this was prepared for: the devices' memory is given back and taken anew.
            self.prepared = self.sorter.prepare(self.spec, 0, self.options.sort.clone())?;
            self.sorter.sort(&source, &target, self.options.sort.clone())?
        };
        self.reports.push(report);
        Ok(target)
    }

    fn spill(&mut self) -> Result<()> {
        let rows = self.sort_batch()?;
        let file = |column: &pelton_device::Span| -> Result<SpillFile> {
            let file = self.space.file()?;
            file.append(column.host_bytes()?.as_ref())?;
            Ok(file)
        };
        let keys = file(rows.keys())?;
        let payloads = rows.payloads().map(file).transpose()?;
        self.runs.push(RunFile { keys, payloads, count: rows.count() });
        Ok(())
    }
}

fn put(column: &pelton_device::Span, width: usize, rows: &Range<usize>, bytes: &[u8]) -> Result<()> {
    column.buffer().with_bytes_mut(|all| all[rows.start * width..rows.end * width].copy_from_slice(bytes))
}

/// Merges runs until their blocks fit in memory, then into `sink`; how many passes that took before the last.
fn merge_runs<K: Key, P: Carried>(
    spec: SortSpec,
    options: &ExternalOptions,
    space: &Arc<SpillSpace>,
    mut runs: Vec<RunFile>,
    sink: Sink<'_>,
) -> Result<u64> {
    // Half for the blocks, half for what is merged of them.
    let rows_max = options.memory_limit_bytes / 2 / spec.row_bytes();
    let block_rows_min = (options.block_bytes_min / spec.row_bytes()).max(1);
    let fan_in = (rows_max / block_rows_min).max(2);
    let mut passes = 0;
    while runs.len() > fan_in {
        let mut longer = Vec::new();
        let mut rest = runs.into_iter().peekable();
        while rest.peek().is_some() {
            let group: Vec<RunFile> = rest.by_ref().take(fan_in).collect();
            let (keys, payloads) =
                (space.file()?, (spec.payload.bytes() > 0).then(|| space.file()).transpose()?);
            let count = group.iter().map(|run| run.count).sum();
            merge_group::<K, P>(spec, options, rows_max, &group, &mut |key_bytes, payload_bytes| {
                keys.append(key_bytes)?;
                payloads.as_ref().map_or(Ok(()), |payloads| payloads.append(payload_bytes))
            })?;
            longer.push(RunFile { keys, payloads, count });
        }
        runs = longer;
        passes += 1;
    }
    merge_group::<K, P>(spec, options, rows_max, &runs, sink)?;
    Ok(passes)
}

/// A block of a run in memory.
struct Block<K, P> {
    keys: Vec<K>,
    payloads: Vec<P>,
    /// Rows of it that were merged.
    merged: usize,
    /// Rows of the run that were read.
    read: usize,
}

fn merge_group<K: Key, P: Carried>(
    spec: SortSpec,
    options: &ExternalOptions,
    rows_max: usize,
    runs: &[RunFile],
    sink: Sink<'_>,
) -> Result<()> {
    let mask = mask::<K::Bits>(spec.order.direction);
    let block_rows = (rows_max / runs.len()).max(1);
    let mut blocks: Vec<Block<K, P>> =
        runs.iter().map(|_| Block { keys: Vec::new(), payloads: Vec::new(), merged: 0, read: 0 }).collect();
    let (mut merged_keys, mut merged_payloads): (Vec<K>, Vec<P>) = (Vec::new(), Vec::new());
    loop {
        options.sort.cancel.check()?;
        for (run, block) in runs.iter().zip(&mut blocks) {
            block.refill(spec, run, block_rows)?;
        }
        // Of runs that go on, the one whose block ends first says up to where nothing can come from disk any more.
        let ends = blocks.iter().zip(runs).enumerate().filter(|(_, (block, run))| block.read < run.count);
        let bound = ends
            .map(|(number, (block, _))| {
                (block.keys.last().expect("a run that goes on").bits() ^ mask, number)
            })
            .min();
        let parts: Vec<Range<usize>> = blocks
            .iter()
            .enumerate()
            .map(|(number, block)| {
                let rest = &block.keys[block.merged..];
                let count = bound.map_or(rest.len(), |(bits, of)| {
                    // Equal keys of earlier runs come first, so they may go; those of later ones wait.
                    rest.partition_point(|key| (key.bits() ^ mask, number) <= (bits, of))
                });
                block.merged..block.merged + count
            })
            .collect();
        let slices: Vec<Run<'_, K, P>> = blocks
            .iter()
            .zip(&parts)
            .map(|(block, part)| Run {
                keys: &block.keys[part.clone()],
                payloads: &block.payloads[part.clone()],
            })
            .collect();
        let count: usize = parts.iter().map(Range::len).sum();
        if count == 0 {
            return Ok(());
        }
        merged_keys.resize(count, K::of_bits(K::Bits::default()));
        merged_payloads.resize(count, P::default());
        let threads = options.sort.thread_count;
        merge(&slices, spec.order.direction, &mut merged_keys, &mut merged_payloads, threads);
        sink(merged_keys.as_bytes(), merged_payloads.as_bytes())?;
        for (block, part) in blocks.iter_mut().zip(parts) {
            block.merged = part.end;
        }
    }
}

impl<K: Key, P: Carried> Block<K, P> {
    /// Reads on where everything read was merged, or most of it.
    fn refill(&mut self, spec: SortSpec, run: &RunFile, block_rows: usize) -> Result<()> {
        let left = self.keys.len() - self.merged;
        let count = (run.count - self.read).min(block_rows.saturating_sub(left));
        if count == 0 || left > block_rows / 2 {
            return Ok(());
        }
        self.keys.drain(..self.merged);
        self.payloads.drain(..self.merged);
        self.merged = 0;
        self.keys.resize(left + count, K::of_bits(K::Bits::default()));
        self.payloads.resize(left + count, P::default());
        read(&run.keys, self.keys[left..].as_mut_bytes(), self.read * spec.key_bytes())?;
        if let Some(payloads) = &run.payloads {
            read(payloads, self.payloads[left..].as_mut_bytes(), self.read * spec.payload.bytes())?;
        }
        self.read += count;
        let bits = |key: &K| key.bits() ^ mask::<K::Bits>(spec.order.direction);
        if !self.keys[left.saturating_sub(1)..].is_sorted_by_key(bits) {
            return Err(Error::corrupt(
                "a run on disk is not sorted; the disk gave other bytes than it was given",
            ));
        }
        Ok(())
    }
}

fn read(file: &SpillFile, bytes: &mut [u8], offset: usize) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], (offset + done) as u64)? {
            0 => return Err(Error::corrupt("a run on disk is shorter than what was written of it")),
            count => done += count,
        }
    }
    Ok(())
}
