//! Scans text and IPC files: partitions share the files, and the blocks of each.
//!
//! ```text
//!   files ──▶ partition 0 takes file 0, block after block ──▶ batches
//!             partition 1 takes file 1 …                          no file left: blocks of files still under way
//! ```
//!
//! A block is cut by whoever asks for it, with the file locked, and decoded outside the lock. One large file is thus
//! decoded by all partitions, whatever its quotes, and one partition alone gives the rows in order. Cutting is little
//! work beside decoding.
//!
//! Bound: a block and its rows for each partition.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
};
use futures::stream;
use pelton_files::{Part, Parts, View};

use crate::error::to_datafusion;

/// Bytes of files that are worth a partition of their own.
const PARTITION_BYTES: u64 = 4 << 20;
/// Files that EXPLAIN names.
const NAMED_FILES: usize = 5;

/// A scan of some of a set of files.
pub(super) struct FilesExec {
    view: View,
    /// Which of the set.
    files: Arc<[usize]>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// What is under way, by whose it is.
    runs: Mutex<Vec<Run>>,
}

/// One execution of the scan.
struct Run {
    context: Weak<TaskContext>,
    feed: Arc<Feed>,
    /// Which partitions were begun.
    begun: Vec<bool>,
}

impl FilesExec {
    /// Of `files`, in at most `partition_count` partitions; no more than `limit` rows of each are wanted.
    pub(super) fn new(view: View, files: Vec<usize>, partition_count: usize, limit: Option<usize>) -> Self {
        let bytes: u64 = files.iter().map(|&file| view.sources().file_bytes(file)).sum();
        let worth = usize::try_from(bytes / PARTITION_BYTES).unwrap_or(usize::MAX);
        let partition_count = worth.clamp(1, partition_count.max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(view.schema())),
            Partitioning::UnknownPartitioning(partition_count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            view,
            files: files.into(),
            limit,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            runs: Mutex::default(),
        }
    }

    /// The feed that all partitions of one execution share. Executions are told apart by their context, and a partition
    /// that is begun again in the same context belongs to a new one.
    fn feed(&self, partition: usize, context: &Arc<TaskContext>) -> Arc<Feed> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.context.strong_count() > 0);
        let is_ours = |run: &&mut Run| run.context.as_ptr() == Arc::as_ptr(context) && !run.begun[partition];
        if let Some(run) = runs.iter_mut().find(is_ours) {
            run.begun[partition] = true;
            return Arc::clone(&run.feed);
        }
        let feed = Arc::new(Feed::new(self.view.clone(), Arc::clone(&self.files)));
        let mut begun = vec![false; self.properties.partitioning.partition_count()];
        begun[partition] = true;
        runs.push(Run { context: Arc::downgrade(context), feed: Arc::clone(&feed), begun });
        feed
    }

    fn statistics(&self, partition: Option<usize>) -> Statistics {
        let sources = self.view.sources();
        let mut statistics = Statistics::new_unknown(self.view.schema());
        let divisor = partition.map_or(1, |_| self.properties.partitioning.partition_count());
        let rows: Option<u64> = self.files.iter().map(|&file| sources.row_estimate(file)).sum();
        if let Some(rows) = rows.and_then(|rows| usize::try_from(rows).ok()) {
            statistics.num_rows = Precision::Inexact((rows / divisor).min(self.limit.unwrap_or(usize::MAX)));
        }
        let bytes: u64 = self.files.iter().map(|&file| sources.file_bytes(file)).sum();
        statistics.total_byte_size =
            Precision::Inexact(usize::try_from(bytes).unwrap_or(usize::MAX) / divisor);
        statistics
    }
}

impl fmt::Debug for FilesExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesExec").field("files", &self.files).finish_non_exhaustive()
    }
}

impl DisplayAs for FilesExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.files.iter().take(NAMED_FILES).map(|&file| self.view.sources().file_name(file));
        write!(f, "FilesExec: files=[{}", names.collect::<Vec<_>>().join(", "))?;
        if self.files.len() > NAMED_FILES {
            write!(f, ", {} more", self.files.len() - NAMED_FILES)?;
        }
        let columns = self.view.schema().fields().iter().map(|field| field.name().as_str());
        write!(f, "], projection=[{}]", columns.collect::<Vec<_>>().join(", "))?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl ExecutionPlan for FilesExec {
    fn name(&self) -> &'static str {
        "FilesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert!(children.is_empty(), "a scan is a leaf");
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let count = self.properties.partitioning.partition_count();
        Ok(Arc::new(Self::new(self.view.clone(), self.files.to_vec(), count, self.limit)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reading = Reading {
            feed: self.feed(partition, &context),
            own: None,
            ready: VecDeque::new(),
            left: self.limit.unwrap_or(usize::MAX),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            _context: context,
        };
        let schema: SchemaRef = Arc::clone(self.view.schema());
        let batches = stream::try_unfold(reading, |reading| async move { reading.next().await });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(self.statistics(args.partition())))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }
}

/// One partition of an execution.
struct Reading {
    feed: Arc<Feed>,
    /// The file that this partition began.
    own: Option<usize>,
    ready: VecDeque<RecordBatch>,
    /// Rows still wanted.
    left: usize,
    metrics: BaselineMetrics,
    /// Tells the execution from others as long as one of its partitions runs.
    _context: Arc<TaskContext>,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(batch) = self.ready.pop_front() {
                let batch = batch.slice(0, batch.num_rows().min(self.left));
                self.left -= batch.num_rows();
                self.metrics.record_output(batch.num_rows());
                return Ok(Some((batch, self)));
            }
            // Reading waits for disks and networks, which is no task for a thread that runs operators.
            let (feed, mut own, time) =
                (Arc::clone(&self.feed), self.own, self.metrics.elapsed_compute().clone());
            let read = tokio::task::spawn_blocking(move || {
                let _timer = time.timer();
                feed.next(&mut own).map(|batches| (batches, own))
            });
            let read = read.await.map_err(|error| internal_datafusion_err!("reading a file: {error}"))?;
            let (batches, own) = read.map_err(to_datafusion)?;
            self.own = own;
            match batches {
                Some(batches) => self.ready.extend(batches.into_iter().filter(|batch| batch.num_rows() > 0)),
                None => return Ok(None),
            }
        }
    }
}

/// The blocks of all files of one execution.
struct Feed {
    view: View,
    files: Arc<[usize]>,
    /// The next file that nobody has begun.
    next: AtomicUsize,
    parts: Vec<Mutex<Option<Parts>>>,
}

impl Feed {
    fn new(view: View, files: Arc<[usize]>) -> Self {
        let parts = |&file: &usize| Mutex::new(Some(view.sources().parts_of(file, file + 1)));
        let parts = files.iter().map(parts).collect();
        Self { view, files, next: AtomicUsize::new(0), parts }
    }

    /// The rows of the next block; `None` where there is none left.
    fn next(&self, own: &mut Option<usize>) -> pelton_error::Result<Option<Vec<RecordBatch>>> {
        let Some(part) = self.take(own).transpose()? else { return Ok(None) };
        self.view.read(&part)?.collect::<pelton_error::Result<Vec<_>>>().map(Some)
    }

    fn take(&self, own: &mut Option<usize>) -> Option<pelton_error::Result<Part>> {
        loop {
            if let Some(part) = own.and_then(|index| self.take_of(index)) {
                return Some(part);
            }
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.files.len() {
                break;
            }
            *own = Some(index);
        }
        *own = None;
        (0..self.files.len()).find_map(|index| self.take_of(index))
    }

    fn take_of(&self, index: usize) -> Option<pelton_error::Result<Part>> {
        let mut parts = self.parts[index].lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.as_mut()?.next();
        if !matches!(part, Some(Ok(_))) {
            *parts = None;
        }
        part
    }
}
