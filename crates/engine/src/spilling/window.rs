//! Window functions over whole partitions, some partitions at a time.
//!
//! ```text
//!   rows, sorted by partition ──▶ held until they are a chunk ──▶ WindowAggExec over the whole partitions in it
//!                                   │ one partition is more than the budget, and every function gives one value for it
//!                                   └──▶ accumulators, and the rows to a file ──▶ the rows from the file, with the values
//! ```
//!
//! DataFusion's operator collects all of its input. A partition beyond the budget whose functions give each row another
//! value (ntile, a sum to the end) is held in memory, and reserved: it fails where there is none.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{SortColumn, concat, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::common::utils::evaluate_partition_ranges;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Accumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::window::PlainAggregateWindowExpr;
use datafusion::physical_expr::{OrderingRequirements, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, WindowExpr};
use futures::StreamExt;

use super::files::{Rows, Spill, Writer};
use super::given::Given;
use crate::stand_in::answers_of;

/// A window operator that spills. See the module.
pub(crate) struct SpillingWindowExec {
    window: Arc<WindowAggExec>,
    budget_bytes: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl SpillingWindowExec {
    /// `window`, in about `budget_bytes`.
    pub(super) fn new(window: &WindowAggExec, budget_bytes: usize) -> Result<Self> {
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { window: Arc::new(window.clone()), budget_bytes, metrics })
    }

    /// The window without a limit.
    pub(crate) fn window(&self) -> &WindowAggExec {
        &self.window
    }
}

impl fmt::Debug for SpillingWindowExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillingWindowExec").field("window", &self.window).finish_non_exhaustive()
    }
}

impl DisplayAs for SpillingWindowExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("SpillingWindowExec of ")?;
        }
        self.window.fmt_as(form, f)
    }
}

impl ExecutionPlan for SpillingWindowExec {
    answers_of!(window);

    fn name(&self) -> &str {
        "SpillingWindowExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let window = over(&self.window, children.swap_remove(0))?;
        Ok(Arc::new(Self::new(&window, self.budget_bytes)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties().partitioning.partition_count().max(1);
        let input = self.window.input().execute(partition, Arc::clone(&context))?;
        let reservation = MemoryConsumer::new(format!("SpillingWindow[{partition}]"));
        let spilled = SpillMetrics::new(&self.metrics, partition);
        let run = Run {
            keys: self.window.partition_by_sort_keys()?,
            is_one_value: self.window.window_expr().iter().all(is_one_value),
            spill: Spill::new(&context, &spilled, self.window.input().schema()),
            window: Arc::clone(&self.window),
            input: Some(input),
            held: VecDeque::new(),
            held_bytes: 0,
            budget_bytes: self.budget_bytes / partitions,
            reservation: reservation.register(context.memory_pool()),
            current: None,
            batch_rows: context.session_config().batch_size(),
            context,
        };
        let rows = futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// `window` over another input.
fn over(window: &WindowAggExec, input: Arc<dyn ExecutionPlan>) -> Result<WindowAggExec> {
    let can_repartition = !window.partition_keys().is_empty();
    WindowAggExec::try_new(window.window_expr().to_vec(), input, can_repartition)
}

/// True for an aggregate over all of its partition, for each row.
fn is_one_value(expr: &Arc<dyn WindowExpr>) -> bool {
    let Some(plain) = expr.as_any().downcast_ref::<PlainAggregateWindowExpr>() else { return false };
    let frame = plain.get_window_frame();
    let is_all = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => frame.units == WindowFrameUnits::Range && plain.order_by().is_empty(),
        bound => bound.is_unbounded(),
    };
    // Its filter is not to be had, but shows.
    let has_no_filter = format!("{plain:?}").ends_with("filter: None }");
    is_all(&frame.start_bound) && is_all(&frame.end_bound) && has_no_filter
}

/// One partition of the plan while it runs.
struct Run {
    window: Arc<WindowAggExec>,
    keys: Vec<PhysicalSortExpr>,
    is_one_value: bool,
    spill: Spill,
    context: Arc<TaskContext>,
    /// `None` at its end.
    input: Option<SendableRecordBatchStream>,
    held: VecDeque<RecordBatch>,
    held_bytes: usize,
    budget_bytes: usize,
    reservation: MemoryReservation,
    current: Option<Current>,
    batch_rows: usize,
}

/// Rows that come.
enum Current {
    /// Of the operator, large batches.
    Chunk(SendableRecordBatchStream, Option<(RecordBatch, usize)>),
    /// Of a file, to which these values are added.
    File(SendableRecordBatchStream, Vec<ScalarValue>),
}

impl Current {
    /// The next rows, as `schema` has them.
    async fn next(&mut self, batch_rows: usize, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        match self {
            Self::Chunk(rows, rest) => loop {
                let Some((batch, start)) = rest else {
                    match rows.next().await.transpose()? {
                        Some(batch) if batch.num_rows() > batch_rows => *rest = Some((batch, 0)),
                        batch => return Ok(batch),
                    }
                    continue;
                };
                // Copies: a slice keeps, and counts as, all that it is of.
                let end = (*start + batch_rows).min(batch.num_rows());
                let taken =
                    take_record_batch(batch, &UInt32Array::from_iter_values(*start as u32..end as u32))?;
                *start = end;
                if end == batch.num_rows() {
                    *rest = None;
                }
                return Ok(Some(taken));
            },
            Self::File(rows, values) => {
                let Some(batch) = rows.next().await.transpose()? else { return Ok(None) };
                let added = values.iter().map(|value| value.to_array_of_size(batch.num_rows()));
                let added = added.collect::<Result<Vec<ArrayRef>>>()?;
                let columns = batch.columns().iter().cloned().chain(added).collect();
                Ok(Some(RecordBatch::try_new(Arc::clone(schema), columns)?))
            }
        }
    }
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(current) = &mut self.current else {
                if self.begin().await? {
                    continue;
                }
                return Ok(None);
            };
            match current.next(self.batch_rows, &self.window.schema()).await? {
                Some(batch) => return Ok(Some(batch)),
                None => self.current = None,
            }
        }
    }

    /// Begins the next partitions; false at the end of all.
    async fn begin(&mut self) -> Result<bool> {
        let chunk_bytes = self.budget_bytes / 4;
        loop {
            let Some(input) = &mut self.input else {
                let rest = Vec::from(std::mem::take(&mut self.held));
                return self.chunk(rest);
            };
            let Some(batch) = input.next().await.transpose()? else {
                self.input = None;
                continue;
            };
            if batch.num_rows() == 0 {
                continue;
            }
            self.held_bytes += get_record_batch_memory_size(&batch);
            self.held.push_back(batch);
            if self.held_bytes < chunk_bytes {
                continue;
            }
            if let Some(whole) = self.whole_partitions()? {
                return self.chunk(whole);
            }
            if self.is_one_value && self.held_bytes >= chunk_bytes {
                return self.by_file().await;
            }
            // The operator holds rows, all of them in one piece, and results.
            self.reservation.try_resize(self.held_bytes * 3)?;
        }
    }

    /// `rows`, which are whole partitions, through the operator.
    fn chunk(&mut self, rows: Vec<RecordBatch>) -> Result<bool> {
        if rows.is_empty() {
            return Ok(false);
        }
        let input = Given::ordered(self.window.input().properties().eq_properties.clone(), rows);
        let rows = over(&self.window, input)?.execute(0, Arc::clone(&self.context))?;
        self.held_bytes = self.held.iter().map(get_record_batch_memory_size).sum();
        self.reservation.free();
        self.current = Some(Current::Chunk(rows, None));
        Ok(true)
    }

    /// Takes from what is held all but the last partition, which may go on; `None` where it is one.
    fn whole_partitions(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        for at in (0..self.held.len()).rev() {
            let starts = self.starts(at)?;
            let Some(&start) = starts.last() else { continue };
            let mut whole: Vec<RecordBatch> = self.held.drain(..at).collect();
            if start > 0 {
                let batch = &self.held[0];
                whole.push(batch.slice(0, start));
                let rest = UInt32Array::from_iter_values(start as u32..batch.num_rows() as u32);
                self.held[0] = take_record_batch(batch, &rest)?;
            }
            return Ok(Some(whole));
        }
        Ok(None)
    }

    /// Rows of the held batch `at` with which a partition begins that is not the first of all that is held.
    fn starts(&self, at: usize) -> Result<Vec<usize>> {
        let batch = &self.held[at];
        let ranges = evaluate_partition_ranges(batch.num_rows(), &self.columns(batch)?)?;
        let mut starts: Vec<usize> = ranges.into_iter().map(|range| range.start).collect();
        let is_first_new = at > 0 && !self.are_peers(&self.held[at - 1], batch)?;
        if !is_first_new {
            starts.remove(0);
        }
        Ok(starts)
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<SortColumn>> {
        self.keys.iter().map(|key| key.evaluate_to_sort_column(batch)).collect()
    }

    /// Whether the last row of `before` is of the partition of the first of `after`.
    fn are_peers(&self, before: &RecordBatch, after: &RecordBatch) -> Result<bool> {
        let last = self.columns(&before.slice(before.num_rows() - 1, 1))?;
        let first = self.columns(&after.slice(0, 1))?;
        let both = last.into_iter().zip(first).map(|(last, first)| {
            let values = concat(&[last.values.as_ref(), first.values.as_ref()])?;
            Ok(SortColumn { values, options: last.options })
        });
        let both = both.collect::<Result<Vec<_>>>()?;
        Ok(evaluate_partition_ranges(2, &both)?.len() == 1)
    }

    /// The partition that is held, which may go on, through a file.
    async fn by_file(&mut self) -> Result<bool> {
        let exprs = self.window.window_expr().to_vec();
        let mut sums = exprs.iter().map(|expr| accumulator(expr)).collect::<Result<Vec<_>>>()?;
        let mut writer = Writer::new(self.spill.clone());
        let mut add = |batch: &RecordBatch| -> Result<()> {
            for (expr, sum) in exprs.iter().zip(&mut sums) {
                sum.update_batch(&expr.evaluate_args(batch)?)?;
            }
            writer.write(batch)
        };
        loop {
            // One batch is kept to compare the next with.
            while self.held.len() > 1 {
                let batch = self.held.pop_front().expect("there are two");
                add(&batch)?;
            }
            let input = self.input.as_mut().expect("its end was not seen");
            let Some(batch) = input.next().await.transpose()? else {
                self.input = None;
                break;
            };
            if batch.num_rows() > 0 {
                self.held.push_back(batch);
                if let Some(&start) = self.starts(1)?.first() {
                    let batch = &self.held[1];
                    let before = batch.slice(0, start);
                    let rest = UInt32Array::from_iter_values(start as u32..batch.num_rows() as u32);
                    let rest = take_record_batch(batch, &rest)?;
                    self.held.truncate(1);
                    self.held.extend([before, rest].into_iter().filter(|batch| batch.num_rows() > 0));
                    break;
                }
            }
        }
        // What is behind the partition stays; at the end of the input nothing is.
        let stays = usize::from(self.input.is_some());
        while self.held.len() > stays {
            let batch = self.held.pop_front().expect("there are more");
            add(&batch)?;
        }
        let values = sums.iter_mut().map(|sum| sum.evaluate()).collect::<Result<Vec<_>>>()?;
        let rows: Rows = writer.end()?;
        self.held_bytes = self.held.iter().map(get_record_batch_memory_size).sum();
        self.reservation.free();
        self.current = Some(Current::File(rows.read(&self.spill)?, values));
        Ok(true)
    }
}

/// What adds up the rows of a partition for `expr`, which is an aggregate.
fn accumulator(expr: &Arc<dyn WindowExpr>) -> Result<Box<dyn Accumulator>> {
    let plain = expr.as_any().downcast_ref::<PlainAggregateWindowExpr>();
    plain.expect("it was looked at").get_aggregate_expr().create_accumulator()
}
