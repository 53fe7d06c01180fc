//! One partition of an aggregate that spills: what it reads, and then file by file what it wrote.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryReservation};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::StreamExt;

use super::table::{Shape, Table};
use crate::spilling::files::{Keys, Partitioner, Rows, Spill};

/// Files of one pass, at least and at most.
const PARTS_MIN: usize = 8;
const PARTS_MAX: usize = 64;
/// Bytes that wait to be dealt out to files: this share of the limit, within these. The more, the fewer and larger are the
/// batches in the files.
const BUFFER_SHARE: usize = 8;
const BUFFER_MIN: usize = 256 << 10;
const BUFFER_MAX: usize = 16 << 20;
/// A table that holds more than this share of its rows as groups is not worth filling again soon. A guess.
const SHARE_WORTH_GROUPING: f64 = 0.5;
/// So many times the rows of such a table go to files before the next one is filled: what comes later may repeat more.
const PASSED_TIMES: usize = 8;
/// Passes over files after which a table takes what it needs: what is left is a group or two.
const LEVELS: u64 = 8;
/// Of a partition's memory, what a table may begin with, and groups at most: an estimate may be far too large.
const ROOM_SHARE: usize = 16;
const ROOM_MAX: usize = 1 << 21;
/// What a group by an integer takes of a table that is half full.
const ROOM_GROUP_BYTES: usize = 32;
/// Of the hash that deals groups out; each level has another.
const SEED: u64 = 0x9a09;

/// See the module.
pub(super) struct Run {
    pub(super) shape: Arc<Shape>,
    pub(super) keys: Keys,
    pub(super) spill: Spill,
    pub(super) todo: Vec<Todo>,
    /// Groups that go out, from this row on.
    pub(super) given: Option<(RecordBatch, usize)>,
    pub(super) reservation: MemoryReservation,
    pub(super) expected_rows: Option<usize>,
    /// Groups by an integer that a table begins with room for.
    pub(super) room: usize,
    pub(super) batch_rows: usize,
    /// Bytes that wait to be dealt out to files.
    pub(super) buffer_bytes: usize,
    pub(super) metrics: BaselineMetrics,
}

/// What is to be grouped.
pub(super) enum Todo {
    /// What the aggregate reads.
    Input(SendableRecordBatchStream),
    /// States, which have been dealt out so many times.
    Files(Rows, u64),
}

impl Run {
    /// It, of `input`.
    pub(super) fn of(mut self, input: SendableRecordBatchStream) -> Self {
        self.todo.push(Todo::Input(input));
        self
    }

    /// The next groups.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((groups, from)) = self.given.take() {
                let rows = self.batch_rows.min(groups.num_rows() - from);
                if rows > 0 {
                    let batch = groups.slice(from, rows);
                    self.given = Some((groups, from + rows));
                    self.metrics.record_output(rows);
                    return Ok(Some(batch));
                }
                drop(groups);
                self.reservation.free();
            }
            match self.todo.pop() {
                Some(Todo::Input(input)) => {
                    let table = Table::of_input(&self.shape, self.room)?;
                    self.group(table, input, 0, self.expected_rows).await?;
                }
                Some(Todo::Files(rows, level)) => {
                    let table = Table::of_states(&self.shape)?;
                    let states = rows.read(&self.spill)?;
                    self.group(table, states, level, Some(rows.rows)).await?;
                }
                None => return Ok(None),
            }
        }
    }

    /// Groups `rows`: they are given next if `table` has room for them, else to be done from files.
    async fn group(
        &mut self,
        mut table: Table,
        mut rows: SendableRecordBatchStream,
        level: u64,
        expected_rows: Option<usize>,
    ) -> Result<()> {
        let time = self.metrics.elapsed_compute().clone();
        let mut parts: Option<Partitioner> = None;
        let (mut seen, mut seen_by_table, mut to_pass) = (0_usize, 0_usize, 0_usize);
        while let Some(batch) = rows.next().await.transpose()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let _timer = time.timer();
            seen += batch.num_rows();
            if to_pass > 0
                && let Some(parts) = &mut parts
            {
                to_pass = to_pass.saturating_sub(batch.num_rows());
                parts.add(table.as_states(&batch)?)?;
                continue;
            }
            table.add(&batch)?;
            seen_by_table += batch.num_rows();
            // Its groups are brought together before they go out or to files.
            let bytes = table.bytes();
            let needed = bytes + bytes / 2 + if parts.is_some() { self.buffer_bytes } else { 0 };
            if level >= LEVELS {
                self.reservation.try_resize(needed)?;
                continue;
            }
            if self.reservation.try_resize(needed).is_ok() {
                continue;
            }
            let groups = table.len();
            let parts = match &mut parts {
                Some(parts) => parts,
                None => {
                    let keys = Keys { seed: SEED + level, ..self.keys.clone() };
                    let rows = expected_rows.unwrap_or(seen * 16).max(seen * 2);
                    let count = part_count(seen, rows);
                    parts.insert(Partitioner::new(keys, count, self.buffer_bytes, &self.spill))
                }
            };
            parts.add(table.take_states()?)?;
            self.reservation.try_resize(self.buffer_bytes).or_else(|_| self.reservation.try_resize(0))?;
            if groups as f64 > seen_by_table as f64 * SHARE_WORTH_GROUPING {
                to_pass = seen_by_table.saturating_mul(PASSED_TIMES);
            }
            seen_by_table = 0;
        }
        drop(rows);
        let _timer = time.timer();
        let Some(mut parts) = parts else {
            let groups = table.finish()?;
            // The table is gone; of a large one this is a part.
            let _ = self.reservation.try_resize(groups.get_array_memory_size());
            self.given = Some((groups, 0));
            return Ok(());
        };
        if table.len() > 0 {
            parts.add(table.take_states()?)?;
        }
        drop(table);
        self.reservation.free();
        let (parts, _) = parts.end()?;
        let all: usize = parts.iter().map(|part| part.rows).sum();
        for part in parts.into_iter().filter(|part| part.rows > 0) {
            // One file has it all: no hash takes it apart.
            let level = if part.rows == all { LEVELS } else { level + 1 };
            self.todo.push(Todo::Files(part, level));
        }
        Ok(())
    }
}

/// Bytes that may wait to be dealt out to files in a query of `limit`.
pub(super) fn buffer_bytes(limit: &MemoryLimit) -> usize {
    match limit {
        MemoryLimit::Finite(bytes) => (bytes / BUFFER_SHARE).clamp(BUFFER_MIN, BUFFER_MAX),
        _ => BUFFER_MAX,
    }
}

/// Groups that a table begins with room for, of `expected` ones: as many as take a small share of a partition's memory.
pub(super) fn room(expected: usize, limit: &MemoryLimit, partitions: usize) -> usize {
    let bytes = match limit {
        MemoryLimit::Finite(bytes) => bytes / partitions / ROOM_SHARE,
        _ => usize::MAX,
    };
    expected.min(ROOM_MAX).min(bytes / ROOM_GROUP_BYTES)
}

/// Files for `rows` rows, where there is room for a table of `seen` of them.
fn part_count(seen: usize, rows: usize) -> usize {
    // Parts differ in size: half as many again.
    let parts = rows as f64 / seen.max(1) as f64 * 1.5;
    (parts as usize).clamp(PARTS_MIN, PARTS_MAX)
}
