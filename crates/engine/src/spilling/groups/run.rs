//! One partition of an aggregate that spills: what it reads, and then file by file what it wrote.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

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
/// What a table takes is added up for all of its groups: not before a new group came for so many of them, at most.
const LOOK_SHARE: usize = 32;
/// Tasks that files are done by at the same time. Each has its part of the memory, so that more need more and smaller files.
const TASKS_MAX: usize = 2;
/// Batches of groups that wait to be taken from them.
const BATCHES_READY: usize = 2;
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
    /// Tasks that do what was written.
    pub(super) tasks: usize,
    /// What they give.
    pub(super) shared: Option<SendableRecordBatchStream>,
    pub(super) pool: Arc<dyn MemoryPool>,
    pub(super) reservation: MemoryReservation,
    /// Of groups that cannot be taken apart, what is more than a share: it is of those who cannot spill.
    pub(super) beyond: MemoryReservation,
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
                self.beyond.free();
            }
            if let Some(groups) = &mut self.shared {
                return groups.next().await.transpose();
            }
            let is_in_files = self.todo.iter().all(|todo| matches!(todo, Todo::Files(..)));
            if self.tasks > 1 && self.todo.len() > 1 && is_in_files {
                self.shared = Some(self.share_out());
                continue;
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

    /// Has tasks do what is to be done; gives what they give.
    fn share_out(&mut self) -> SendableRecordBatchStream {
        let mut todo: Vec<Vec<Todo>> = (0..self.tasks).map(|_| Vec::new()).collect();
        for (number, part) in std::mem::take(&mut self.todo).into_iter().enumerate() {
            todo[number % self.tasks].push(part);
        }
        let mut all = RecordBatchReceiverStream::builder(Arc::clone(&self.shape.schema), BATCHES_READY);
        for (number, todo) in todo.into_iter().enumerate() {
            // What is held here is nothing from now on: the first has its share.
            let reservation = match number {
                0 => self.reservation.new_empty(),
                _ => self.reservation.consumer().clone_with_new_id().register(&self.pool),
            };
            let run = Self {
                shape: Arc::clone(&self.shape),
                keys: self.keys.clone(),
                spill: self.spill.clone(),
                todo,
                given: None,
                tasks: 1,
                shared: None,
                pool: Arc::clone(&self.pool),
                reservation,
                beyond: self.beyond.new_empty(),
                expected_rows: None,
                room: self.room,
                batch_rows: self.batch_rows,
                buffer_bytes: self.buffer_bytes / self.tasks,
                metrics: self.metrics.clone(),
            };
            let taker = all.tx();
            all.spawn(run.give_to(taker));
        }
        all.build()
    }

    /// Gives all groups to `taker`, until that is gone.
    async fn give_to(mut self, taker: Sender<Result<RecordBatch>>) -> Result<()> {
        while let Some(groups) = self.next().await? {
            if taker.send(Ok(groups)).await.is_err() {
                break;
            }
        }
        Ok(())
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
        let mut since_look = 0;
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
            since_look += batch.num_rows();
            if since_look < table.len() / LOOK_SHARE {
                continue;
            }
            since_look = 0;
            // Its groups are brought together before they go out or to files.
            let bytes = table.bytes();
            let needed = bytes + bytes / 2 + if parts.is_some() { self.buffer_bytes } else { 0 };
            if level >= LEVELS {
                self.take_to_end(needed, bytes)?;
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
                    let count = part_count(seen / self.tasks, rows);
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
            self.beyond.free();
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

    /// Takes `needed` bytes for a table of `bytes` whose groups no hash takes apart, or what there is for those who cannot spill.
    fn take_to_end(&mut self, needed: usize, bytes: usize) -> Result<()> {
        if self.reservation.try_resize(needed).is_ok() {
            return Ok(());
        }
        self.beyond.try_resize(bytes.saturating_sub(self.reservation.size()))
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

/// Tasks that what is in files may be done by: as many as there are threads, within limits.
pub(super) fn tasks() -> usize {
    Handle::try_current().map_or(1, |handle| handle.metrics().num_workers()).clamp(1, TASKS_MAX)
}

/// Files for `rows` rows, where there is room for a table of `seen` of them.
fn part_count(seen: usize, rows: usize) -> usize {
    // Parts differ in size: half as many again.
    let parts = rows as f64 / seen.max(1) as f64 * 1.5;
    (parts as usize).clamp(PARTS_MIN, PARTS_MAX)
}
