//! The first step of an aggregate by texts or by integers: groups of each partition, of which the last step makes those of all.
//!
//! As DataFusion's, but texts that come again and again are known by their bits ([`super::seen`]), and integers are found faster
//! ([`super::keys`]). Groups that do not fit go on to the last step, which can have one group come several times, and so do
//! those that will not come again, as over a table that is sorted by them. So do rows one by one, where hardly two are of one
//! group.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, replace_children_if_necessary,
};
use futures::StreamExt;
use pelton_planner::Estimates;

use super::table::{Shape, Table};
use super::{aggregate_of, has_plain_groups};
use crate::expected;
use crate::stand_in::answers_of;

/// Groups whose keys and states a core's cache holds. A guess.
const GROUPS_TOGETHER: usize = 1 << 16;
/// Where rows of a group come together, groups are at most this share of rows for it to be worth grouping them, and new ones
/// come at least at this share of the rate at which they came before. Guesses.
const SHARE_TOGETHER: f64 = 0.5;
const SHARE_STEADY: f64 = 0.8;

/// The first step of an aggregate by texts or by integers. See the module.
pub(crate) struct PartialAggregateExec {
    aggregate: Arc<AggregateExec>,
    /// What it took the place of, where that is something else.
    planned: Option<Arc<dyn ExecutionPlan>>,
    metrics: ExecutionPlanMetricsSet,
}

impl PartialAggregateExec {
    /// In place of `node`, where it is the first step of an aggregate by texts, or by integers, over so many rows that it pays.
    pub(in crate::spilling) fn of(
        node: &Arc<dyn ExecutionPlan>,
        rows_min: usize,
        estimates: &Estimates,
    ) -> Result<Option<Self>> {
        let Some(aggregate) = aggregate_of(node).filter(|aggregate| Self::can_do(aggregate)) else {
            return Ok(None);
        };
        let shape = Shape::of(&aggregate)?;
        if !shape.is_by_text() && !shape.is_by_integers() {
            return Ok(None);
        }
        let expected_rows = expected::rows(estimates, aggregate.input());
        Ok(expected_rows.is_none_or(|rows| rows >= rows_min).then(|| Self::new(aggregate, None)))
    }

    /// `aggregate`, which makes of states what `node` makes of rows.
    pub(crate) fn in_place_of(node: &Arc<dyn ExecutionPlan>, aggregate: AggregateExec) -> Self {
        Self::new(Arc::new(aggregate), Some(Arc::clone(node)))
    }

    fn new(aggregate: Arc<AggregateExec>, planned: Option<Arc<dyn ExecutionPlan>>) -> Self {
        Self { aggregate, planned, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// What it does, and over what.
    pub(crate) fn aggregate(&self) -> &Arc<AggregateExec> {
        &self.aggregate
    }

    /// DataFusion's operator.
    pub(crate) fn replaced(&self) -> Arc<dyn ExecutionPlan> {
        self.planned.clone().unwrap_or_else(|| Arc::clone(&self.aggregate) as _)
    }

    fn can_do(aggregate: &AggregateExec) -> bool {
        let is_first = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        is_first && has_plain_groups(aggregate)
    }
}

impl fmt::Debug for PartialAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialAggregateExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for PartialAggregateExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("PartialAggregateExec of ")?;
        }
        self.aggregate.fmt_as(form, f)
    }
}

impl ExecutionPlan for PartialAggregateExec {
    answers_of!(aggregate);

    fn name(&self) -> &str {
        "PartialAggregateExec"
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
        let planned = self.planned.clone();
        Ok(if Self::can_do(&aggregate) { Arc::new(Self::new(aggregate, planned)) } else { node })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let options = &context.session_config().options().execution;
        let shape = Arc::new(Shape::of(&self.aggregate)?);
        let run = Run {
            table: Table::of_input(&shape, 0)?,
            input: Some(self.aggregate.input().execute(partition, Arc::clone(&context))?),
            schema: self.schema(),
            given: None,
            reservation: MemoryConsumer::new(format!("PartialAggregate[{partition}]"))
                .register(context.memory_pool()),
            seen: 0,
            together: Together::default(),
            is_passing: false,
            rows_to_pass: options.skip_partial_aggregation_probe_rows_threshold,
            share_to_pass: options.skip_partial_aggregation_probe_ratio_threshold,
            batch_rows: context.session_config().batch_size(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows = futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// One partition.
struct Run {
    table: Table,
    /// `None` once all of it is read.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    /// Groups that go out, from this row on.
    given: Option<(RecordBatch, usize)>,
    reservation: MemoryReservation,
    /// Rows since the table was empty.
    seen: usize,
    together: Together,
    /// Whether rows go out as they are.
    is_passing: bool,
    /// After so many rows, of which groups are this share, they do.
    rows_to_pass: usize,
    share_to_pass: f64,
    batch_rows: usize,
    metrics: BaselineMetrics,
}

impl Run {
    /// The next groups.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
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
            let Some(input) = &mut self.input else { return Ok(None) };
            let batch = input.next().await.transpose()?;
            let time = self.metrics.elapsed_compute().clone();
            let _timer = time.timer();
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) if self.is_passing => self.give(self.table.as_states(&batch)?)?,
                Some(batch) => self.add(&batch)?,
                None => {
                    self.input = None;
                    self.give_groups()?;
                }
            }
        }
    }

    /// Adds rows to their groups, which go out where they do not fit, or are hardly fewer than their rows.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.table.add(batch)?;
        self.seen += batch.num_rows();
        let is_many =
            self.seen >= self.rows_to_pass && self.table.len() as f64 > self.seen as f64 * self.share_to_pass;
        if is_many {
            self.is_passing = true;
            return self.give_groups();
        }
        if self.together.is_done(self.table.len(), self.seen) {
            return self.give_groups();
        }
        let bytes = self.table.bytes();
        // Groups are brought together before they go out.
        if self.reservation.try_resize(bytes + bytes / 2).is_err() {
            self.give_groups()?;
            self.table.shrink();
        }
        Ok(())
    }

    fn give_groups(&mut self) -> Result<()> {
        (self.seen, self.together) = (0, Together::default());
        if self.table.len() == 0 {
            return Ok(());
        }
        let groups = if self.is_passing || self.input.is_none() {
            self.table.take_states()?
        } else {
            self.table.take_some_states()?
        };
        // The table is empty; of what it held this is a part.
        let _ = self.reservation.try_resize(groups.get_array_memory_size());
        self.give(groups)
    }

    fn give(&mut self, states: RecordBatch) -> Result<()> {
        let states = RecordBatch::try_new(Arc::clone(&self.schema), states.columns().to_vec())?;
        self.given = Some((states, 0));
        Ok(())
    }
}

/// Looks whether rows of one group come together.
#[derive(Debug, Default)]
struct Together {
    /// Groups and rows when there were half to a quarter as many rows, and half of these to all.
    before: (usize, usize),
    mark: (usize, usize),
}

impl Together {
    /// Whether those of `groups` are hardly going to come again after `rows` rows: there are more than a core's cache holds,
    /// fewer than rows, and new ones come as often as at first.
    fn is_done(&mut self, groups: usize, rows: usize) -> bool {
        if rows >= self.mark.1 * 2 {
            self.before = std::mem::replace(&mut self.mark, (groups, rows));
        }
        let share = groups as f64 / rows as f64;
        let share_since = (groups - self.before.0) as f64 / (rows - self.before.1).max(1) as f64;
        groups >= GROUPS_TOGETHER && share <= SHARE_TOGETHER && share_since >= share * SHARE_STEADY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_go_on_where_their_rows_come_together_and_stay_where_they_come_again() {
        let done_after = |groups_of: &dyn Fn(usize) -> usize| {
            let mut together = Together::default();
            (1..1000).map(|batch| batch * 8192).find(|rows| together.is_done(groups_of(*rows), *rows))
        };
        // Four rows a group, one after the other.
        assert_eq!(done_after(&|rows| rows / 4), Some(32 * 8192));
        // Of so many groups each row has any.
        let of = |count: f64| move |rows: usize| (count * (1.0 - (-(rows as f64) / count).exp())) as usize;
        for count in [1e4, 6e4, 7e4, 1e5, 2e5, 5e5, 1e6] {
            assert_eq!(done_after(&of(count)), None, "{count} groups");
        }
        // Hardly two rows are of one.
        assert_eq!(done_after(&|rows| rows * 9 / 10), None);
    }
}
