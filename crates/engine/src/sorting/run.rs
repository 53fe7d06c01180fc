//! A sort by words while it runs: of one partition, or of all of them together.
//!
//! ```text
//!   partition 0 ─▶ held, ends of keys ─┐         ┌─▶ words ─▶ dealt out by splitters ─┐       ┌─▶ range 0, sorted ─┐
//!   partition 1 ─▶ held, ends of keys ─┼─ layout ┼─▶ words ─▶ dealt out               ┼───────┼─▶ range 1, sorted  ┼─▶ rows
//!   partition 2 ─▶ held, ends of keys ─┘         └─▶ words ─▶ dealt out               ┘       └─▶ range 2, sorted ─┘
//! ```
//!
//! Each step is done by all partitions at the same time. Splitters are words of a sample; since each word has its row's place,
//! no two are equal, and ranges are of about the same length whatever the keys.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{concat_batches, interleave_record_batch};
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{BaselineMetrics, SpillMetrics};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::{StreamExt, TryStreamExt};

use super::external::{ExternalSort, KeyBytes};
use super::keys::{Key, Layout, Range, Word};
use crate::spilling::{Given, Spill};

/// Rows that are sorted in one go, at most: more would take seconds, which cannot be cancelled.
const ROWS_MAX: usize = 1 << 26;
/// Rows that are put together into one batch, in batches of the usual length. Where memory is limited to less than this, batches
/// stay as they come: what puts them together needs room for them twice.
const HELD_BATCHES: usize = 8;
const LARGE_LIMIT: usize = 1 << 30;
/// Words of a partition that splitters are chosen from.
const SAMPLE: usize = 256;
/// Batches of the result that a task gathers.
const GATHERED_BATCHES: usize = 8;

/// Rows that are held, in batches larger than they came: rows are gathered from all of them at once.
struct Held {
    /// Of a batch, at least; `None`: as they come.
    least_rows: Option<usize>,
    batches: Vec<RecordBatch>,
    batches_bytes: usize,
    few: Vec<RecordBatch>,
    few_rows: usize,
    few_bytes: RecordBatchMemoryCounter,
    rows: usize,
}

impl Held {
    fn new(least_rows: Option<usize>) -> Self {
        let few_bytes = RecordBatchMemoryCounter::new();
        Self {
            least_rows,
            batches: Vec::new(),
            batches_bytes: 0,
            few: Vec::new(),
            few_rows: 0,
            few_bytes,
            rows: 0,
        }
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.few_rows += batch.num_rows();
        self.few_bytes.count_batch(&batch);
        self.few.push(batch);
        if self.least_rows.is_some_and(|least| self.few_rows >= least) { self.put_together() } else { Ok(()) }
    }

    fn put_together(&mut self) -> Result<()> {
        let few = std::mem::take(&mut self.few);
        if self.few_rows > 0 {
            let batch = concat_batches(&few[0].schema(), &few)?;
            self.batches_bytes += get_record_batch_memory_size(&batch);
            self.batches.push(batch);
        }
        (self.few_rows, self.few_bytes) = (0, RecordBatchMemoryCounter::new());
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.batches_bytes + self.few_bytes.memory_usage()
    }

    fn batches(mut self) -> Result<Vec<RecordBatch>> {
        if self.least_rows.is_none() {
            return Ok(self.few);
        }
        self.put_together()?;
        Ok(self.batches)
    }
}

/// A sort while it runs.
pub(super) struct Run {
    pub(super) sort: Arc<SortExec>,
    /// Of each partition, with what it may hold.
    pub(super) inputs: Vec<(SendableRecordBatchStream, MemoryReservation)>,
    pub(super) metrics: BaselineMetrics,
    pub(super) spilled: SpillMetrics,
    pub(super) is_by_words: bool,
    pub(super) context: Arc<TaskContext>,
}

/// What a partition holds.
struct Partition {
    rows: Vec<RecordBatch>,
    /// `None` where everything is held.
    rest: Option<SendableRecordBatchStream>,
    keys: Vec<Key>,
    /// Of each key; `None` where one has values too far apart.
    ranges: Option<Vec<Range>>,
    reservation: MemoryReservation,
}

impl Run {
    /// The rows in order.
    pub(super) async fn rows(mut self) -> Result<SendableRecordBatchStream> {
        let batch_rows = self.context.session_config().batch_size();
        let inputs = std::mem::take(&mut self.inputs);
        let is_small = matches!(self.context.memory_pool().memory_limit(), MemoryLimit::Finite(limit) if limit < LARGE_LIMIT);
        if is_small && !self.is_by_words {
            let inputs =
                inputs.into_iter().map(|(input, reservation)| (Vec::new(), Some(input), reservation));
            return self.by_bytes(inputs.collect()).await;
        }
        let least_rows = (self.is_by_words && !is_small).then_some(batch_rows * HELD_BATCHES);
        let reads = inputs.into_iter().map(|(input, reservation)| {
            let by_words = self.is_by_words.then(|| Arc::clone(&self.sort));
            Partition::read(by_words, input, reservation, least_rows)
        });
        let partitions = at_once(reads.collect()).await?;
        let is_whole = partitions.iter().all(|partition| partition.rest.is_none());
        if is_whole && !self.is_by_words {
            return self.in_memory(partitions);
        }
        let layout = if is_whole { layout_of(&partitions) } else { None };
        match layout {
            None => {
                let held = partitions
                    .into_iter()
                    .map(|Partition { rows, rest, reservation, .. }| (rows, rest, reservation));
                self.by_bytes(held.collect()).await
            }
            Some(layout) if layout.is_short() => self.sorted::<u64>(partitions, layout).await,
            Some(layout) => self.sorted::<u128>(partitions, layout).await,
        }
    }

    async fn sorted<W: Word>(
        self,
        partitions: Vec<Partition>,
        layout: Layout,
    ) -> Result<SendableRecordBatchStream> {
        let layout = Arc::new(layout);
        let (mut held, mut reservations, mut makes) = (Vec::new(), Vec::new(), Vec::new());
        for Partition { rows, keys, reservation, .. } in partitions {
            let (first, layout) = (held.len(), Arc::clone(&layout));
            held.extend(rows.iter().cloned());
            reservations.push(reservation);
            makes.push(async move { Ok(layout.words::<W>(&keys, &rows, first)) });
        }
        let parts = at_once(makes).await?;
        let ranges = sorted_ranges(parts).await?;
        Ok(self.gathered(Arc::new(held), layout, ranges, reservations))
    }

    /// The rows of `held` in the order of `ranges`, which are gathered by several tasks.
    fn gathered<W: Word>(
        self,
        held: Arc<Vec<RecordBatch>>,
        layout: Arc<Layout>,
        ranges: Vec<Vec<W>>,
        reservations: Vec<MemoryReservation>,
    ) -> SendableRecordBatchStream {
        let (batch_rows, schema) = (self.context.session_config().batch_size(), self.sort.schema());
        let (tasks, metrics) = (ranges.len(), self.metrics);
        let piece_rows = batch_rows * GATHERED_BATCHES;
        let ranges: Vec<Arc<Vec<W>>> = ranges.into_iter().map(Arc::new).collect();
        let pieces: Vec<_> = ranges
            .into_iter()
            .flat_map(|words| {
                let rows = words.len();
                (0..rows)
                    .step_by(piece_rows)
                    .map(move |from| (Arc::clone(&words), from..rows.min(from + piece_rows)))
            })
            .collect();
        let gather = move |(words, piece): (Arc<Vec<W>>, std::ops::Range<usize>)| {
            let (held, layout, time) =
                (Arc::clone(&held), Arc::clone(&layout), metrics.elapsed_compute().clone());
            let gathered = async move {
                let _timer = time.timer();
                let held: Vec<&RecordBatch> = held.iter().collect();
                let batches = words[piece].chunks(batch_rows).map(|words| {
                    let places: Vec<(usize, usize)> = words.iter().map(|word| layout.place(*word)).collect();
                    Ok(interleave_record_batch(&held, &places)?)
                });
                batches.collect::<Result<Vec<RecordBatch>>>()
            };
            let metrics = metrics.clone();
            async move {
                let batches = joined(SpawnedTask::spawn(gathered).join().await)?;
                metrics.record_output(batches.iter().map(RecordBatch::num_rows).sum());
                Ok::<_, DataFusionError>(futures::stream::iter(batches.into_iter().map(Ok)))
            }
        };
        let rows = futures::stream::iter(pieces).map(gather).buffered(tasks).try_flatten();
        // Held until the last row is out.
        let rows = rows.inspect(move |_| _ = &reservations);
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// The rows of `partitions`, which are all there, sorted by DataFusion's operator: it takes texts in memory in a fifth less
    /// time than ours.
    fn in_memory(self, partitions: Vec<Partition>) -> Result<SendableRecordBatchStream> {
        let (keys, schema) = (self.sort.expr().clone(), self.sort.input().schema());
        let sorted = partitions.into_iter().map(|Partition { rows, reservation, .. }| {
            // The operator reserves what it is given.
            reservation.free();
            let rows = futures::stream::iter(rows.into_iter().map(Ok));
            let rows = Given::stream(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows)));
            let sort = SortExec::new(keys.clone(), rows).with_preserve_partitioning(true);
            Arc::new(sort) as Arc<dyn ExecutionPlan>
        });
        let mut sorted: Vec<_> = sorted.collect();
        match sorted.len() {
            1 => sorted.remove(0).execute(0, self.context),
            _ => SortPreservingMergeExec::new(keys, UnionExec::try_new(sorted)?).execute(0, self.context),
        }
    }

    /// What is held and the rest of each partition, sorted by bytes.
    async fn by_bytes(self, partitions: Vec<Unsorted>) -> Result<SendableRecordBatchStream> {
        let (keys, schema) = (self.sort.expr().clone(), self.sort.schema());
        let bytes = Arc::new(KeyBytes::new(&keys, &schema)?);
        let sorts = partitions.into_iter().map(|(rows, rest, reservation)| {
            let sort = ExternalSort {
                keys: Arc::clone(&bytes),
                spill: Spill::new(&self.context, &self.spilled, Arc::clone(&schema)),
                reservation,
                batch_rows: self.context.session_config().batch_size(),
                rows_max: ROWS_MAX,
                time: self.metrics.elapsed_compute().clone(),
            };
            let none = || Box::pin(EmptyRecordBatchStream::new(Arc::clone(&schema))) as _;
            sort.sorted(Arc::clone(&schema), rows, rest.unwrap_or_else(none))
        });
        let mut sorts: Vec<_> = sorts.collect();
        let rows = match sorts.len() {
            1 => sorts.remove(0).await?,
            _ => {
                let sorted = sorts.into_iter().map(|sort| {
                    let rows = futures::stream::once(sort).try_flatten();
                    Given::stream(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), rows)))
                });
                let sorted = UnionExec::try_new(sorted.collect())?;
                SortPreservingMergeExec::new(keys, sorted).execute(0, Arc::clone(&self.context))?
            }
        };
        let metrics = self.metrics;
        let rows =
            rows.inspect(move |batch| metrics.record_output(batch.as_ref().map_or(0, RecordBatch::num_rows)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// What a partition holds, and what comes after it.
type Unsorted = (Vec<RecordBatch>, Option<SendableRecordBatchStream>, MemoryReservation);

impl Partition {
    /// Reads `input` to its end, or to where the pool has no more room; with keys for a sort `by_words`.
    async fn read(
        by_words: Option<Arc<SortExec>>,
        mut input: SendableRecordBatchStream,
        reservation: MemoryReservation,
        least_rows: Option<usize>,
    ) -> Result<Self> {
        let mut held = Held::new(least_rows);
        while let Some(batch) = input.next().await.transpose()? {
            if batch.num_rows() == 0 {
                continue;
            }
            held.push(batch)?;
            let needed = match &by_words {
                // A word a row, once more when it is dealt out, and keys before they are words.
                Some(_) => held.bytes() + held.rows * 3 * size_of::<u128>(),
                // Rows twice, as DataFusion's operator asks for them.
                None => 2 * held.bytes(),
            };
            if held.rows > ROWS_MAX || reservation.try_resize(needed).is_err() {
                let rows = held.batches()?;
                return Ok(Self { rows, rest: Some(input), keys: Vec::new(), ranges: None, reservation });
            }
        }
        let rows = held.batches()?;
        let keys = by_words.iter().flat_map(|sort| sort.expr().iter()).map(|key| {
            let of = |batch: &RecordBatch| key.expr.evaluate(batch)?.into_array(batch.num_rows());
            Ok((rows.iter().map(of).collect::<Result<Vec<ArrayRef>>>()?, key.options))
        });
        let keys = keys.collect::<Result<Vec<Key>>>()?;
        let ranges = keys.iter().map(|(arrays, _)| Range::of(arrays.iter())).collect();
        Ok(Self { rows, rest: None, keys, ranges, reservation })
    }
}

/// Words that hold rows of all `partitions`.
fn layout_of(partitions: &[Partition]) -> Option<Layout> {
    let mut all: Option<Vec<Range>> = None;
    for partition in partitions {
        let ranges = partition.ranges.as_ref()?;
        all = Some(match all {
            None => ranges.clone(),
            Some(all) => all.iter().zip(ranges).map(|(a, b)| a.and(b)).collect::<Option<_>>()?,
        });
    }
    let batches = || partitions.iter().flat_map(|partition| &partition.rows);
    let most = batches().map(RecordBatch::num_rows).max().unwrap_or(0);
    Layout::of(all?, batches().count(), most)
}

/// The words of `parts` in order, in as many ranges.
async fn sorted_ranges<W: Word>(parts: Vec<Vec<W>>) -> Result<Vec<Vec<W>>> {
    let count = parts.len();
    let sample = |part: &Vec<W>| part.iter().copied().step_by(part.len() / SAMPLE + 1).collect::<Vec<W>>();
    let mut sample: Vec<W> = parts.iter().flat_map(sample).collect();
    sample.sort_unstable();
    let splitters: Vec<W> =
        (1..count).filter_map(|at| sample.get(at * sample.len() / count).copied()).collect();
    let splitters = Arc::new(splitters);
    let deals = parts.into_iter().map(|part| {
        let splitters = Arc::clone(&splitters);
        async move {
            if splitters.is_empty() {
                return Ok(vec![part]);
            }
            let mut ranges =
                vec![Vec::with_capacity(part.len() / (splitters.len() + 1)); splitters.len() + 1];
            for word in part {
                ranges[splitters.partition_point(|splitter| *splitter <= word)].push(word);
            }
            Ok(ranges)
        }
    });
    let mut ranges: Vec<Vec<Vec<W>>> = vec![Vec::new(); splitters.len() + 1];
    for dealt in at_once(deals.collect()).await? {
        ranges.iter_mut().zip(dealt).for_each(|(range, part)| range.push(part));
    }
    let sorts = ranges.into_iter().map(|mut range| async move {
        let mut words = if range.len() == 1 { range.remove(0) } else { range.concat() };
        words.sort_unstable();
        Ok(words)
    });
    at_once(sorts.collect()).await
}

/// What `all` give, each in a task of its own; one alone in this one.
async fn at_once<T: Send + 'static>(
    mut all: Vec<impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    if all.len() == 1 {
        return Ok(vec![all.remove(0).await?]);
    }
    let mut tasks = JoinSet::new();
    let count = all.len();
    for (number, one) in all.into_iter().enumerate() {
        tasks.spawn(async move { (number, one.await) });
    }
    let mut given: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while let Some(done) = tasks.join_next().await {
        let (number, one) = done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        given[number] = Some(one?);
    }
    Ok(given.into_iter().flatten().collect())
}

/// What a task gave.
pub(super) fn joined<T>(done: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    done.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
