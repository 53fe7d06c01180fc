//! Rows that are made once and read several times.
//!
//! ```text
//!   plan, all partitions at once ──▶ batches in memory ── beyond what may be held ──▶ files
//!                                       │ 0 │ 1 │ 2 │ …                              │ 0 │ 1 │ …
//!   reader p of n: those numbered p, p + n, …, as soon as they are there             once all are written
//! ```
//!
//! Whoever makes rows waits for nobody, so no reader can hold up another. Reading again gives the same rows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::sync::watch;

use crate::spilling::{Spill, SpilledRows, Writer};

/// Of one file: readers share them.
const FILE_BYTES: usize = 16 << 20;

/// Rows in the making, or made.
pub(super) struct Making {
    held: Arc<Held>,
    /// Ends with this.
    _task: SpawnedTask<()>,
}

/// What has been made so far.
struct Held {
    state: Mutex<State>,
    /// Counts changes of it.
    changes: watch::Sender<u64>,
    spill: Spill,
}

struct State {
    batches: Vec<RecordBatch>,
    /// Of these: they may be slices of the same memory.
    counted: RecordBatchMemoryCounter,
    memory: MemoryReservation,
    /// What is being written.
    writer: Option<Writer>,
    files: Vec<SpilledRows>,
    end: Option<Result<(), Arc<DataFusionError>>>,
}

impl Making {
    /// Has `plan` run.
    ///
    /// # Errors
    ///
    /// Of operators that refuse to start.
    pub(super) fn start(
        plan: &Arc<dyn ExecutionPlan>,
        metrics: &SpillMetrics,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let memory = MemoryConsumer::new("shared rows").with_can_spill(true).register(context.memory_pool());
        let state = State {
            batches: Vec::new(),
            counted: RecordBatchMemoryCounter::new(),
            memory,
            writer: None,
            files: Vec::new(),
            end: None,
        };
        let spill = Spill::new(context, metrics, plan.schema());
        let held = Arc::new(Held { state: Mutex::new(state), changes: watch::Sender::new(0), spill });
        let partitions = 0..plan.output_partitioning().partition_count();
        let rows = partitions.map(|partition| plan.execute(partition, Arc::clone(context)));
        let rows = rows.collect::<Result<Vec<SendableRecordBatchStream>>>()?;
        let made = Arc::clone(&held);
        let task = SpawnedTask::spawn(async move {
            let end = made.take_all(rows).await;
            made.change(|state| state.end = Some(end.map_err(Arc::new)));
        });
        Ok(Self { held, _task: task })
    }
}

impl Held {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changes.send_modify(|count| *count += 1);
        changed
    }

    /// Takes all rows of `streams`, each in a task of its own.
    async fn take_all(self: &Arc<Self>, streams: Vec<SendableRecordBatchStream>) -> Result<()> {
        let mut tasks: JoinSet<Result<()>> = JoinSet::new();
        for mut stream in streams {
            let held = Arc::clone(self);
            tasks.spawn(async move {
                while let Some(batch) = stream.next().await {
                    held.take(batch?)?;
                }
                Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        }
        self.change(State::close)
    }

    fn take(&self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.change(|state| state.take(batch, &self.spill))
    }
}

impl State {
    fn take(&mut self, batch: RecordBatch, spill: &Spill) -> Result<()> {
        let is_in_memory = self.writer.is_none() && self.files.is_empty();
        if is_in_memory {
            self.counted.count_batch(&batch);
            if self.memory.try_resize(self.counted.memory_usage()).is_ok() {
                self.batches.push(batch);
                return Ok(());
            }
        }
        let writer = self.writer.get_or_insert_with(|| Writer::new(spill.clone()));
        writer.write(&batch)?;
        if writer.bytes() >= FILE_BYTES { self.close() } else { Ok(()) }
    }

    /// Ends the file that is being written.
    fn close(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            self.files.push(writer.end()?);
        }
        Ok(())
    }
}

/// What a reader finds.
enum Next {
    Rows(RecordBatch),
    /// There will be more.
    NotYet,
    /// No more in memory.
    End,
}

impl Held {
    /// Batch `at` of those in memory.
    fn next(&self, at: usize) -> Result<Next> {
        let state = self.state();
        match (&state.end, state.batches.get(at)) {
            (Some(Err(error)), _) => Err(DataFusionError::Shared(Arc::clone(error))),
            (_, Some(batch)) => Ok(Next::Rows(batch.clone())),
            (Some(Ok(())), None) => Ok(Next::End),
            (None, None) => Ok(Next::NotYet),
        }
    }
}

/// The rows of reader `number` of so many `readers`.
pub(super) fn read(
    making: Arc<Making>,
    number: usize,
    readers: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let start = (Arc::clone(&making), making.held.changes.subscribe(), number);
    let in_memory = futures::stream::try_unfold(start, move |(making, mut changes, at)| async move {
        loop {
            changes.borrow_and_update();
            match making.held.next(at)? {
                Next::Rows(batch) => {
                    // Rows that are there already never wait, and others want the thread.
                    tokio::task::consume_budget().await;
                    return Ok(Some((batch, (making, changes, at + readers))));
                }
                Next::End => return Ok(None),
                // Whoever sends goes only with who makes the rows, which is held here.
                Next::NotYet => drop(changes.changed().await),
            }
        }
    });
    let in_files = futures::stream::once(async move {
        let files: Vec<SpilledRows> = {
            let state = making.held.state();
            state.files.iter().skip(number).step_by(readers).cloned().collect()
        };
        let spill = making.held.spill.clone();
        let rows = files.into_iter().map(move |file| {
            let _until_read = &making;
            file.read(&spill)
        });
        Ok::<_, DataFusionError>(futures::stream::iter(rows).try_flatten())
    });
    in_memory.chain(in_files.try_flatten())
}
