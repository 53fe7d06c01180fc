//! Sorts by keys as bytes: of what is no number, of numbers that do not go into a word, and of rows that do not fit into memory.
//!
//! ```text
//!   rows ─▶ held, with their keys as bytes ─▶ no more room: sorted ─▶ a run, in a file ─┐
//!                     ▲      the next ones are held meanwhile            a run          ├─▶ a tree of losers ─▶ rows
//!                     └──────────────────────────────────────────────    a run         ─┘
//! ```
//!
//! Bytes are those of `arrow-row`: they compare as the keys do, and the first sixteen of those that not all have in common, held as two
//! words, mostly tell.
//! A run is written by another thread while the next one is read, so from the second on they are of half the memory. Runs whose
//! batches would not fit into it together are merged in several passes.
//!
//! DataFusion sorts what it spills batch by batch and merges the batches, in one thread.
//!
//! Graefe, "Implementing Sorting in Database Systems", ACM Computing Surveys 2006, sections 3.1 (normalized keys), 4.1 (merging with
//! a tree of losers) and 5 (how many runs are merged at once).

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::run::joined;
use crate::spilling::{Spill, SpilledRows, Writer};

/// Bytes of a batch in a file of which many may be merged at once, at most.
const RUN_BATCH_BYTES: usize = 256 << 10;
/// Rows of such a batch, at least: less are a waste of calls.
const RUN_BATCH_ROWS: usize = 64;
/// Of a run, at least: what is refused less than this is held all the same.
const RUN_BYTES_MIN: usize = 1 << 20;
/// Runs that are merged at once.
const RUNS_MIN: usize = 4;
const RUNS_MAX: usize = 256;
/// Batches of a run that are there while it is merged: the one that is read, the next one, and what rows were picked from.
const BATCHES_OF_RUN: usize = 3;

/// Makes keys into bytes.
pub(super) struct KeyBytes {
    keys: LexOrdering,
    converter: RowConverter,
    /// No key has more bytes than two words.
    are_short: bool,
}

impl KeyBytes {
    /// Of `keys` over rows of `schema`.
    pub(super) fn new(keys: &LexOrdering, schema: &SchemaRef) -> Result<Self> {
        let types = keys.iter().map(|key| key.expr.data_type(schema)).collect::<Result<Vec<_>>>()?;
        // A byte before each says whether it is NULL.
        let width = |ty: &DataType| match ty {
            DataType::Boolean => Some(2),
            _ => ty.primitive_width().map(|width| width + 1),
        };
        let width: Option<usize> = types.iter().map(width).sum();
        let fields =
            types.into_iter().zip(keys).map(|(ty, key)| SortField::new_with_options(ty, key.options));
        Ok(Self {
            keys: keys.clone(),
            converter: RowConverter::new(fields.collect())?,
            are_short: width.is_some_and(|width| width <= size_of::<Prefix>()),
        })
    }

    fn of(&self, batch: &RecordBatch) -> Result<Rows> {
        let keys = self.keys.iter().map(|key| key.expr.evaluate(batch)?.into_array(batch.num_rows()));
        Ok(self.converter.convert_columns(&keys.collect::<Result<Vec<_>>>()?)?)
    }
}

/// The first bytes of a key.
type Prefix = [u64; 2];

fn prefix(key: &[u8]) -> Prefix {
    let mut bytes = [0; 16];
    let count = key.len().min(bytes.len());
    bytes[..count].copy_from_slice(&key[..count]);
    let bytes = u128::from_be_bytes(bytes);
    [(bytes >> 64) as u64, bytes as u64]
}

/// A row that is held.
#[derive(Clone, Copy)]
struct Entry {
    prefix: Prefix,
    batch: u32,
    row: u32,
}

impl Entry {
    fn place(&self) -> (u32, u32) {
        (self.batch, self.row)
    }
}

/// The rows of a batch, whose keys are told apart from byte `first` on.
fn entries(batch: usize, keys: &Rows, first: usize) -> impl Iterator<Item = Entry> {
    keys.iter().enumerate().map(move |(row, key)| Entry {
        prefix: prefix(&key.data()[first..]),
        batch: batch as u32,
        row: row as u32,
    })
}

/// Rows as they come, with their keys.
#[derive(Default)]
struct Keyed {
    batches: Vec<RecordBatch>,
    /// Of each batch, unless keys are short.
    keys: Vec<Rows>,
    /// Of each row, if they are.
    entries: Vec<Entry>,
    bytes: RecordBatchMemoryCounter,
    key_bytes: usize,
    rows: usize,
}

impl Keyed {
    fn push(&mut self, batch: RecordBatch, keys: &KeyBytes) -> Result<()> {
        let of_rows = keys.of(&batch)?;
        if keys.are_short {
            self.entries.extend(entries(self.batches.len(), &of_rows, 0));
        } else {
            self.key_bytes += of_rows.size();
            self.keys.push(of_rows);
        }
        self.rows += batch.num_rows();
        self.bytes.count_batch(&batch);
        self.batches.push(batch);
        Ok(())
    }

    /// With what sorting it takes.
    fn needed(&self) -> usize {
        let entries = self.rows.max(self.entries.capacity());
        self.bytes.memory_usage() + self.key_bytes + entries * size_of::<Entry>()
    }

    /// How many bytes all keys begin with in common.
    fn common(&self) -> usize {
        let mut keys = self.keys.iter().flat_map(|keys| keys.iter()).map(|key| key.data());
        let Some(first) = keys.next() else { return 0 };
        keys.fold(first.len(), |common, key| match key.get(..common) == Some(&first[..common]) {
            true => common,
            false => first.iter().zip(key).take_while(|(one, other)| one == other).count(),
        })
    }

    fn sorted(mut self) -> Sorted {
        let mut entries = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            let (common, keys) = (self.common(), &self.keys);
            entries.reserve_exact(self.rows);
            for (number, keys) in keys.iter().enumerate() {
                entries.extend(self::entries(number, keys, common));
            }
            let key = |entry: &Entry| keys[entry.batch as usize].row(entry.row as usize).data();
            entries.sort_unstable_by(|one, other| {
                let by_prefix = one.prefix.cmp(&other.prefix);
                by_prefix.then_with(|| key(one).cmp(key(other))).then_with(|| one.place().cmp(&other.place()))
            });
        } else {
            entries.sort_unstable_by_key(|entry| (entry.prefix, entry.place()));
        }
        let bytes = self.bytes.memory_usage() + entries.len() * size_of::<Entry>();
        Sorted { batches: self.batches, entries, bytes }
    }
}

/// Rows in memory, in order.
struct Sorted {
    batches: Vec<RecordBatch>,
    entries: Vec<Entry>,
    bytes: usize,
}

impl Sorted {
    /// So many rows at a time.
    fn pieces(self, rows: usize) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        let count = self.entries.len();
        (0..count).step_by(rows).map(move |from| {
            let batches: Vec<&RecordBatch> = self.batches.iter().collect();
            let entries = &self.entries[from..count.min(from + rows)];
            let places: Vec<_> =
                entries.iter().map(|entry| (entry.batch as usize, entry.row as usize)).collect();
            Ok(interleave_record_batch(&batches, &places)?)
        })
    }

    fn write(self, spill: Spill) -> Result<SpilledRows> {
        let mut writer = Writer::new(spill);
        let row_bytes = self.bytes / self.entries.len().max(1);
        let rows = (RUN_BATCH_BYTES / row_bytes.max(1)).max(RUN_BATCH_ROWS);
        for piece in self.pieces(rows) {
            writer.write(&piece?)?;
        }
        writer.end()
    }
}

/// Rows in order.
enum SortedRun {
    File(SpilledRows),
    Memory(Sorted),
}

impl SortedRun {
    fn stream(
        self,
        schema: &SchemaRef,
        spill: &Spill,
        batch_rows: usize,
    ) -> Result<SendableRecordBatchStream> {
        match self {
            Self::File(rows) => rows.read(spill),
            Self::Memory(sorted) => {
                let pieces = futures::stream::iter(sorted.pieces(batch_rows));
                Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), pieces)))
            }
        }
    }
}

/// Rows that came before it was known that there are too many, without their keys.
struct Waiting {
    batches: std::vec::IntoIter<RecordBatch>,
    rows: usize,
    row_bytes: usize,
}

impl Waiting {
    fn of(batches: Vec<RecordBatch>) -> Self {
        let mut bytes = RecordBatchMemoryCounter::new();
        batches.iter().for_each(|batch| _ = bytes.count_batch(batch));
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let row_bytes = bytes.memory_usage().div_ceil(rows.max(1));
        Self { batches: batches.into_iter(), rows, row_bytes }
    }

    fn bytes(&self) -> usize {
        self.rows * self.row_bytes
    }

    fn next(&mut self) -> Option<RecordBatch> {
        let batch = self.batches.next()?;
        self.rows -= batch.num_rows();
        Some(batch)
    }
}

/// A sort of one partition while it runs.
pub(super) struct ExternalSort {
    pub(super) keys: Arc<KeyBytes>,
    pub(super) spill: Spill,
    pub(super) reservation: MemoryReservation,
    pub(super) batch_rows: usize,
    /// Rows that are sorted in one go, at most.
    pub(super) rows_max: usize,
    pub(super) time: Time,
}

/// A run that is being written, and the memory that it takes meanwhile.
struct Writing {
    run: SpawnedTask<Result<SpilledRows>>,
    bytes: usize,
}

impl ExternalSort {
    /// `rows` and then `rest`, in order. They are of `schema`.
    pub(super) async fn sorted(
        self,
        schema: SchemaRef,
        rows: Vec<RecordBatch>,
        mut rest: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream> {
        let mut held = Keyed::default();
        let mut waiting = Waiting::of(rows);
        let (mut runs, mut in_memory, mut most) = (Vec::new(), 0, 0);
        let mut writing: Option<Writing> = None;
        // Of a run, once it is known for what there is room.
        let mut run_bytes: Option<usize> = None;
        loop {
            let is_full = run_bytes.is_some_and(|bytes| held.needed() >= bytes);
            let written = writing.as_ref().map_or(0, |writing| writing.bytes);
            let others = in_memory + written + waiting.bytes();
            if is_full || self.reservation.try_resize(others + held.needed()).is_err() {
                if let Some(writing) = writing.take() {
                    runs.push(SortedRun::File(joined(writing.run.join().await)?));
                    // What was written has made room.
                    if !is_full {
                        continue;
                    }
                }
                if is_full || held.needed() >= RUN_BYTES_MIN {
                    most = most.max(in_memory + held.needed());
                    run_bytes.get_or_insert_with(|| RUN_BYTES_MIN.max(held.needed() / 2));
                    runs = self.in_files(runs).await?;
                    in_memory = 0;
                    let bytes = held.needed();
                    self.reservation.try_resize(bytes + waiting.bytes()).ok();
                    writing = Some(Writing { run: self.write(std::mem::take(&mut held)), bytes });
                }
            } else if held.rows > self.rows_max {
                let sorted = self.sort(std::mem::take(&mut held));
                in_memory += sorted.bytes;
                runs.push(SortedRun::Memory(sorted));
            }
            let next = match waiting.next() {
                Some(batch) => {
                    tokio::task::consume_budget().await;
                    Some(batch)
                }
                None => rest.next().await.transpose()?,
            };
            match next {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.push(&mut held, batch)?,
                None => break,
            }
        }
        drop(rest);
        most = most.max(in_memory + held.needed());
        if let Some(writing) = writing.take() {
            runs.push(SortedRun::File(joined(writing.run.join().await)?));
        }
        if held.rows > 0 || runs.is_empty() {
            runs.push(SortedRun::Memory(self.sort(held)));
        }
        if runs.iter().any(|run| matches!(run, SortedRun::File(_))) {
            runs = self.in_files(runs).await?;
        }
        self.merged(schema, runs, most).await
    }

    fn push(&self, held: &mut Keyed, batch: RecordBatch) -> Result<()> {
        let _timer = self.time.timer();
        held.push(batch, &self.keys)
    }

    fn sort(&self, held: Keyed) -> Sorted {
        let _timer = self.time.timer();
        held.sorted()
    }

    /// Sorts and writes `rows`, beside what is done here.
    fn write(&self, rows: Keyed) -> SpawnedTask<Result<SpilledRows>> {
        let (spill, time) = (self.spill.clone(), self.time.clone());
        SpawnedTask::spawn(async move {
            let _timer = time.timer();
            rows.sorted().write(spill)
        })
    }

    /// `runs`, all of them in files.
    async fn in_files(&self, runs: Vec<SortedRun>) -> Result<Vec<SortedRun>> {
        let mut written = Vec::with_capacity(runs.len());
        for run in runs {
            written.push(match run {
                SortedRun::File(_) => run,
                SortedRun::Memory(sorted) => {
                    let spill = self.spill.clone();
                    let writing = SpawnedTask::spawn(async move { sorted.write(spill) });
                    SortedRun::File(joined(writing.join().await)?)
                }
            });
        }
        Ok(written)
    }

    /// The rows of `runs`, in several passes where batches of all do not fit into `memory` bytes.
    async fn merged(
        self,
        schema: SchemaRef,
        mut runs: Vec<SortedRun>,
        memory: usize,
    ) -> Result<SendableRecordBatchStream> {
        let files = runs.iter().filter_map(|run| match run {
            SortedRun::File(rows) => Some((rows.batch_bytes, rows.batch_rows)),
            SortedRun::Memory(_) => None,
        });
        if let Some((bytes, rows)) = files.max() {
            let run_bytes = bytes.max(1) * BATCHES_OF_RUN;
            let at_once = (memory / run_bytes).clamp(RUNS_MIN, RUNS_MAX);
            self.reservation.try_resize(memory.min(runs.len() * run_bytes)).ok();
            while runs.len() > at_once {
                // As few as are needed, so that the last pass has all that it can merge.
                let count = at_once.min(runs.len() - at_once + 1);
                let some = runs.drain(..count).collect();
                let mut merge = self.merge(&schema, some, rows.max(RUN_BATCH_ROWS)).await?;
                let mut writer = Writer::new(self.spill.clone());
                while let Some(batch) = merge.next().await? {
                    writer.write(&batch)?;
                }
                runs.push(SortedRun::File(writer.end()?));
            }
        }
        if runs.len() == 1 {
            let rows = runs.remove(0).stream(&schema, &self.spill, self.batch_rows)?;
            // What is held stays reserved until the last row is out.
            let rows = rows.inspect(move |_| _ = &self);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        let merge = self.merge(&schema, runs, self.batch_rows).await?;
        let rows = futures::stream::try_unfold((merge, self), |(mut merge, sort)| async move {
            Ok(merge.next().await?.map(|batch| (batch, (merge, sort))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// The rows of `runs` in order, so many at a time.
    async fn merge(&self, schema: &SchemaRef, runs: Vec<SortedRun>, batch_rows: usize) -> Result<Merge> {
        let streams = runs.into_iter().map(|run| run.stream(schema, &self.spill, self.batch_rows));
        Merge::of(streams.collect::<Result<_>>()?, Arc::clone(&self.keys), batch_rows, self.time.clone())
            .await
    }
}

/// A run that is merged, at a row of one of its batches.
struct Cursor {
    rows: SendableRecordBatchStream,
    /// Of the batch; `None` after the last one.
    keys: Option<Rows>,
    /// The place of the batch among those that are there.
    batch: usize,
    row: usize,
    prefix: Prefix,
}

impl Cursor {
    fn key(&self) -> Option<&[u8]> {
        self.keys.as_ref().map(|keys| keys.row(self.row).data())
    }

    /// Whether its row comes after that of `other`; after the last row nothing does.
    fn is_after(&self, other: &Self) -> bool {
        match (self.key(), other.key()) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(key), Some(other_key)) => {
                let by_prefix = self.prefix.cmp(&other.prefix);
                by_prefix.then_with(|| key.cmp(other_key)) == Ordering::Greater
            }
        }
    }
}

/// What became of picking rows.
enum Picked {
    /// There are as many as a batch has, or no more.
    Done,
    /// The batch of this run is used up.
    Read(usize),
}

/// Runs that are merged.
struct Merge {
    keys: Arc<KeyBytes>,
    cursors: Vec<Cursor>,
    /// In the first place the cursor whose row is next, in the others those that lost to one that went on up from there.
    tree: Vec<usize>,
    /// What rows were picked from, or will be.
    batches: Vec<RecordBatch>,
    picked: Vec<(usize, usize)>,
    batch_rows: usize,
    time: Time,
}

impl Merge {
    async fn of(
        runs: Vec<SendableRecordBatchStream>,
        keys: Arc<KeyBytes>,
        batch_rows: usize,
        time: Time,
    ) -> Result<Self> {
        let cursor = |rows| Cursor { rows, keys: None, batch: 0, row: 0, prefix: [0; 2] };
        let cursors: Vec<Cursor> = runs.into_iter().map(cursor).collect();
        let (count, picked) = (cursors.len(), Vec::with_capacity(batch_rows));
        let mut merge = Self {
            keys,
            cursors,
            tree: vec![usize::MAX; count],
            batches: Vec::new(),
            picked,
            batch_rows,
            time,
        };
        for cursor in 0..count {
            merge.read(cursor).await?;
        }
        for cursor in 0..count {
            merge.enter(cursor);
        }
        Ok(merge)
    }

    /// The next batch of a run.
    async fn read(&mut self, cursor: usize) -> Result<()> {
        let cursor = &mut self.cursors[cursor];
        cursor.keys = None;
        while let Some(batch) = cursor.rows.next().await.transpose()? {
            if batch.num_rows() > 0 {
                let _timer = self.time.timer();
                let keys = self.keys.of(&batch)?;
                (cursor.batch, cursor.row) = (self.batches.len(), 0);
                cursor.prefix = prefix(keys.row(0).data());
                cursor.keys = Some(keys);
                self.batches.push(batch);
                break;
            }
        }
        Ok(())
    }

    /// Puts a cursor into the tree while that is being filled, up to a place that is free.
    fn enter(&mut self, cursor: usize) {
        let (mut winner, mut node) = (cursor, (self.cursors.len() + cursor) / 2);
        while node != 0 && self.tree[node] != usize::MAX {
            self.play(&mut winner, node);
            node /= 2;
        }
        self.tree[node] = winner;
    }

    /// The winner has another row: it plays again, up to the top.
    fn replay(&mut self) {
        let mut winner = self.tree[0];
        let mut node = (self.cursors.len() + winner) / 2;
        while node != 0 {
            self.play(&mut winner, node);
            node /= 2;
        }
        self.tree[0] = winner;
    }

    fn play(&mut self, winner: &mut usize, node: usize) {
        if self.cursors[*winner].is_after(&self.cursors[self.tree[node]]) {
            std::mem::swap(winner, &mut self.tree[node]);
        }
    }

    fn pick(&mut self) -> Picked {
        let time = self.time.clone();
        let _timer = time.timer();
        while self.picked.len() < self.batch_rows {
            let winner = self.tree[0];
            let cursor = &mut self.cursors[winner];
            let Some(keys) = &cursor.keys else { break };
            self.picked.push((cursor.batch, cursor.row));
            cursor.row += 1;
            if cursor.row == keys.num_rows() {
                return Picked::Read(winner);
            }
            cursor.prefix = prefix(keys.row(cursor.row).data());
            self.replay();
        }
        Picked::Done
    }

    /// The next rows.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Picked::Read(cursor) = self.pick() {
            self.read(cursor).await?;
            self.replay();
        }
        if self.picked.is_empty() {
            return Ok(None);
        }
        let _timer = self.time.timer();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let rows = interleave_record_batch(&batches, &self.picked)?;
        self.picked.clear();
        let mut left = Vec::with_capacity(self.cursors.len());
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.keys.is_some()) {
            left.push(self.batches[cursor.batch].clone());
            cursor.batch = left.len() - 1;
        }
        self.batches = left;
        Ok(Some(rows))
    }
}
