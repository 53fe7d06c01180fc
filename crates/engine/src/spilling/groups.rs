//! Groups that need not fit into memory.
//!
//! ```text
//!   SpillingAggregateExec   a table of groups takes rows until its share of the pool is used up
//!      │ that never happens   the groups of the table
//!      │ it does              states of its groups go to files by the hash of their keys, and the table begins again;
//!      │                      where it held hardly fewer groups than rows, the next rows go to the files one by one
//!      └                      then, file by file: a table of the states in it, into files again by another hash where that
//!                             does not fit either; of one partition, two files at a time, each by a task with half the memory
//! ```
//!
//! DataFusion's operator sorts what it spills and merges all sorted files, in one thread, which takes several times as long as
//! putting rows where their group is. States are DataFusion's, and tables but for those by integers, dates, times or one text.
//!
//! Graefe, "Query Evaluation Techniques for Large Databases", ACM Computing Surveys 1993, section 4.2 (hashing with overflow
//! files, applied to aggregation).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::NullEquality;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
    replace_children_if_necessary,
};
use pelton_planner::Estimates;

mod distinct;
mod integers;
mod keys;
mod packed;
mod partial;
mod run;
mod seen;
mod table;
#[cfg(test)]
mod tests;
mod texts;

pub(crate) use distinct::Count;
pub(crate) use partial::PartialAggregateExec;
use run::{Run, buffer_bytes, room, tasks};
use table::Shape;
pub(crate) use table::are_integers;

use super::aggregates::first_of;
use super::files::{Keys, Spill};
use crate::expected;
use crate::stand_in::answers_of;

/// A grouped aggregate that spills. See the module.
pub(crate) struct SpillingAggregateExec {
    aggregate: Arc<AggregateExec>,
    /// Rows that are expected of the input.
    expected_rows: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

impl SpillingAggregateExec {
    /// In place of `node`, where it is an aggregate whose groups might not fit into their part of `limit`, or one by integers
    /// or a text over so many rows that [`keys`] pays.
    pub(super) fn of(
        node: &Arc<dyn ExecutionPlan>,
        limit: Option<usize>,
        rows_min: usize,
        estimates: &Estimates,
    ) -> Result<Option<Self>> {
        let Some(aggregate) = aggregate_of(node) else { return Ok(None) };
        if !Self::can_do(&aggregate) {
            return Ok(None);
        }
        let shape = Shape::of(&aggregate)?;
        let expected_rows = expected::rows(estimates, aggregate.input());
        let state_bytes = super::row_bytes(&shape.state_schema);
        let fits = |rows: usize, limit: usize| {
            (rows.saturating_mul(state_bytes) as u64).saturating_mul(super::SMALL_SHARE) < limit as u64
        };
        // How many groups there are is often a guess, of a union say; there are no more than rows.
        let most_groups = match first_of(&aggregate) {
            Some(first) => expected::rows(estimates, first.input()),
            None => expected_rows,
        };
        let may_spill = limit.is_some_and(|limit| !most_groups.is_some_and(|rows| fits(rows, limit)));
        let is_large = expected_rows.is_none_or(|rows| rows >= rows_min);
        let is_ours = may_spill || (is_large && (shape.is_by_integers() || shape.is_by_one_text()));
        Ok(is_ours.then(|| Self::new(aggregate, expected_rows)))
    }

    /// In place of `aggregate`, over so many rows, where it is one that can spill.
    pub(super) fn in_place_of(aggregate: AggregateExec, expected_rows: Option<usize>) -> Option<Self> {
        Self::can_do(&aggregate).then(|| Self::new(Arc::new(aggregate), expected_rows))
    }

    fn new(aggregate: Arc<AggregateExec>, expected_rows: Option<usize>) -> Self {
        Self { aggregate, expected_rows, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// DataFusion's operator.
    pub(crate) fn replaced(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.aggregate) as _
    }

    /// The last step of such groups.
    fn can_do(aggregate: &AggregateExec) -> bool {
        let is_last = !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        is_last && has_plain_groups(aggregate)
    }
}

/// Whether groups are made by hash, all of them are asked for, and their values do not depend on the order of rows.
pub(crate) fn has_plain_groups(aggregate: &AggregateExec) -> bool {
    let by = aggregate.group_expr();
    by.is_single()
        && !by.is_true_no_grouping()
        && matches!(aggregate.input_order_mode(), InputOrderMode::Linear)
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && aggregate.required_input_ordering().iter().all(Option::is_none)
        && aggregate.aggr_expr().iter().all(|call| call.order_bys().is_empty())
}

fn aggregate_of(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<AggregateExec>> {
    let node: Arc<dyn Any + Send + Sync> = Arc::clone(node) as _;
    node.downcast::<AggregateExec>().ok()
}

impl fmt::Debug for SpillingAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillingAggregateExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for SpillingAggregateExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("SpillingAggregateExec of ")?;
        }
        self.aggregate.fmt_as(form, f)
    }
}

impl ExecutionPlan for SpillingAggregateExec {
    answers_of!(aggregate);

    fn name(&self) -> &str {
        "SpillingAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = replace_children_if_necessary(Arc::clone(&self.aggregate) as _, children)?;
        let lost = || DataFusionError::Internal("an aggregate became something else".to_owned());
        let aggregate = aggregate_of(&node).ok_or_else(lost)?;
        // Over sorted rows groups end one by one.
        Ok(match Self::can_do(&aggregate) {
            true => Arc::new(Self::new(aggregate, self.expected_rows)),
            false => node,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shape = Arc::new(Shape::of(&self.aggregate)?);
        let input = self.aggregate.input().execute(partition, Arc::clone(&context))?;
        let partitions = self.aggregate.input().properties().partitioning.partition_count().max(1);
        let consumer = MemoryConsumer::new(format!("SpillingAggregate[{partition}]")).with_can_spill(true);
        let spilled = SpillMetrics::new(&self.metrics, partition);
        let keys = shape.state_keys();
        let expected_rows = self.expected_rows.map(|rows| rows / partitions);
        let limit = context.memory_pool().memory_limit();
        // Of states hardly two are of one group.
        let expected_groups = expected_rows.filter(|_| shape.reads_states()).unwrap_or(0);
        let run = Run {
            spill: Spill::new(&context, &spilled, Arc::clone(&shape.state_schema)),
            shape,
            keys: Keys { exprs: keys, nulls: NullEquality::NullEqualsNull, seed: 0 },
            todo: Vec::new(),
            given: None,
            // What several partitions have is done by as many tasks already.
            tasks: if partitions == 1 { tasks() } else { 1 },
            shared: None,
            pool: Arc::clone(context.memory_pool()),
            reservation: consumer.register(context.memory_pool()),
            beyond: MemoryConsumer::new(format!("SpillingAggregate[{partition}], last groups"))
                .register(context.memory_pool()),
            expected_rows,
            room: room(expected_groups, &limit, partitions),
            batch_rows: context.session_config().batch_size(),
            buffer_bytes: buffer_bytes(&limit) / partitions,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows = futures::stream::try_unfold(run.of(input), |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
