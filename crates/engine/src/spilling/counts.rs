//! The last step of COUNT(DISTINCT …) over all rows, which all threads take part in.
//!
//! ```text
//!   first step, a partition: its distinct values ─┬─▶ by hash: values of part 1 ──▶ of all partitions: distinct ones ─┐
//!   first step, a partition: its distinct values ─┴─▶ by hash: values of part 2 ──▶ of all partitions: distinct ones ─┴▶ sum
//! ```
//!
//! DataFusion puts what all partitions have found into one set, in one thread, which takes as long as all partitions together
//! where few values come twice. Equal values have equal hashes, so that those of different parts are counted apart. Sets are
//! DataFusion's; other aggregates of the same step are made as it makes them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    replace_children_if_necessary,
};
use futures::TryStreamExt;
use futures::future::try_join_all;
use pelton_planner::Estimates;

use crate::expected;
use crate::stand_in::answers_of;

/// Of the hashes that deal values out; sets have their own.
const SEED: u64 = 0xC0FF_EE11;

/// The last step of an aggregate over all rows that counts distinct values. See the module.
pub(crate) struct DistinctMergeExec {
    aggregate: Arc<AggregateExec>,
    /// Fewer values are put into one set.
    values_min: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl DistinctMergeExec {
    /// In place of `node`, where it is such a step over several partitions of so many rows, or nobody knows of how many.
    pub(super) fn of(node: &Arc<dyn ExecutionPlan>, rows_min: usize, estimates: &Estimates) -> Option<Self> {
        let aggregate = aggregate_of(node).filter(|aggregate| Self::can_do(aggregate))?;
        let first = partitions_of(&aggregate).and_then(|first| first.downcast_ref::<AggregateExec>());
        let expected_rows = first.and_then(|first| expected::rows(estimates, first.input()));
        let is_large = expected_rows.is_none_or(|rows| rows >= rows_min);
        is_large.then(|| Self::new(aggregate, rows_min))
    }

    fn new(aggregate: Arc<AggregateExec>, values_min: usize) -> Self {
        Self { aggregate, values_min, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// DataFusion's operator.
    pub(crate) fn replaced(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.aggregate) as _
    }

    fn can_do(aggregate: &AggregateExec) -> bool {
        *aggregate.mode() == AggregateMode::Final
            && aggregate.group_expr().is_true_no_grouping()
            && aggregate.limit_options().is_none()
            && aggregate.dynamic_expressions_produced().is_empty()
            && aggregate.required_input_ordering().iter().all(Option::is_none)
            && aggregate.aggr_expr().iter().all(|call| call.order_bys().is_empty())
            && aggregate.aggr_expr().iter().any(|call| item_of(call).is_some())
            && partitions_of(aggregate).is_some_and(|of| of.output_partitioning().partition_count() > 1)
    }
}

/// What gives the states of each partition to `aggregate`.
fn partitions_of(aggregate: &AggregateExec) -> Option<&Arc<dyn ExecutionPlan>> {
    let all = aggregate.input().downcast_ref::<CoalescePartitionsExec>()?;
    all.fetch().is_none().then(|| all.input())
}

fn aggregate_of(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<AggregateExec>> {
    let node: Arc<dyn Any + Send + Sync> = Arc::clone(node) as _;
    node.downcast::<AggregateExec>().ok()
}

/// The values in the states of `call`, where that counts distinct values of a kind of which equal ones have equal bytes.
fn item_of(call: &AggregateFunctionExpr) -> Option<FieldRef> {
    if !call.is_distinct() || call.fun().name() != "count" || call.expressions().len() != 1 {
        return None;
    }
    let fields = call.state_fields().ok()?;
    let [state] = &fields[..] else { return None };
    let DataType::List(item) = state.data_type() else { return None };
    let ty = item.data_type();
    let has_one_form = ty.is_integer()
        || ty.is_temporal()
        || matches!(ty, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 | DataType::Decimal128(..));
    has_one_form.then(|| Arc::clone(item))
}

impl fmt::Debug for DistinctMergeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistinctMergeExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for DistinctMergeExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("DistinctMergeExec of ")?;
        }
        self.aggregate.fmt_as(form, f)
    }
}

impl ExecutionPlan for DistinctMergeExec {
    answers_of!(aggregate);

    fn name(&self) -> &str {
        "DistinctMergeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = replace_children_if_necessary(Arc::clone(&self.aggregate) as _, children)?;
        let lost = || DataFusionError::Internal("an aggregate became something else".to_owned());
        let aggregate = aggregate_of(&node).ok_or_else(lost)?;
        Ok(match Self::can_do(&aggregate) {
            true => Arc::new(Self::new(aggregate, self.values_min)),
            false => node,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(input) = partitions_of(&self.aggregate) else {
            return internal_err!("distinct values are merged over one partition");
        };
        let count = input.output_partitioning().partition_count();
        let states = (0..count).map(|number| input.execute(number, Arc::clone(&context)));
        let merge = Merge {
            states: states.collect::<Result<_>>()?,
            calls: self.aggregate.aggr_expr().to_vec(),
            schema: self.schema(),
            values_min: self.values_min,
            context,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let row = futures::stream::once(merge.row());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), row)))
    }
}

/// One execution.
struct Merge {
    /// Of each partition.
    states: Vec<SendableRecordBatchStream>,
    calls: Vec<Arc<AggregateFunctionExpr>>,
    schema: SchemaRef,
    values_min: usize,
    context: Arc<TaskContext>,
    metrics: BaselineMetrics,
}

impl Merge {
    async fn row(self) -> Result<RecordBatch> {
        let parts = self.states.len();
        let collected =
            self.states.into_iter().map(|states| at_once(states.try_collect::<Vec<RecordBatch>>()));
        let states: Vec<RecordBatch> = try_join_all(collected).await?.into_iter().flatten().collect();
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let (mut row, mut first) = (Vec::with_capacity(self.calls.len()), 0);
        for call in self.calls {
            let columns = first..first + call.state_fields()?.len();
            first = columns.end;
            let of_call = |batch: &RecordBatch| batch.columns()[columns.clone()].to_vec();
            let states: Vec<Vec<ArrayRef>> = states.iter().map(of_call).collect();
            let values = item_of(&call).map(|item| (item, values_of(&states)));
            row.push(match values {
                Some((item, values)) if count_of(&values) >= self.values_min => {
                    let bytes = values.iter().map(|values| values.get_array_memory_size()).sum();
                    let reservation =
                        MemoryConsumer::new("DistinctMerge").register(self.context.memory_pool());
                    reservation.try_grow(bytes)?;
                    let count = distinct_count(call, (item, values), parts).await?;
                    Arc::new(Int64Array::from(vec![count]))
                }
                _ => value_of(&call, &states)?.to_array()?,
            });
        }
        let row = RecordBatch::try_new(self.schema, row)?;
        self.metrics.record_output(row.num_rows());
        Ok(row)
    }
}

/// What `work` gives, in a task of its own.
async fn at_once<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    SpawnedTask::spawn(work).join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

/// What `call` makes of all states.
fn value_of(call: &AggregateFunctionExpr, states: &[Vec<ArrayRef>]) -> Result<ScalarValue> {
    let mut all = call.create_accumulator()?;
    states.iter().try_for_each(|states| all.merge_batch(states))?;
    all.evaluate()
}

/// The values in lists.
fn values_of(states: &[Vec<ArrayRef>]) -> Vec<ArrayRef> {
    let lists = states.iter().map(|states| states[0].as_list::<i32>());
    lists.flat_map(|lists| lists.iter().flatten().collect::<Vec<_>>()).collect()
}

fn count_of(values: &[ArrayRef]) -> usize {
    values.iter().map(|values| values.len()).sum()
}

/// How many distinct values there are in all, as `call` counts them; by tasks for so many parts.
async fn distinct_count(
    call: Arc<AggregateFunctionExpr>,
    (item, values): (FieldRef, Vec<ArrayRef>),
    parts: usize,
) -> Result<i64> {
    let dealt = values.into_iter().map(|values| at_once(async move { deal(&values, parts) }));
    let mut dealt = try_join_all(dealt).await?;
    let counts = (0..parts).map(|part| {
        let of_part: Vec<ArrayRef> = dealt.iter_mut().map(|dealt| Arc::clone(&dealt[part])).collect();
        let (call, item) = (Arc::clone(&call), Arc::clone(&item));
        at_once(async move {
            let mut all = call.create_accumulator()?;
            for values in of_part {
                let offsets = OffsetBuffer::from_lengths([values.len()]);
                let list = ListArray::try_new(Arc::clone(&item), offsets, values, None)?;
                all.merge_batch(&[Arc::new(list) as ArrayRef])?;
            }
            match all.evaluate()? {
                ScalarValue::Int64(Some(count)) => Ok(count),
                other => internal_err!("a count of distinct values is {other:?}"),
            }
        })
    });
    Ok(try_join_all(counts.collect::<Vec<_>>()).await?.into_iter().sum())
}

/// `values` in so many parts, by hash.
fn deal(values: &ArrayRef, parts: usize) -> Result<Vec<ArrayRef>> {
    let mut hashes = vec![0; values.len()];
    create_hashes([values], &RandomState::with_seed(SEED), &mut hashes)?;
    let mut rows: Vec<Vec<u32>> = vec![Vec::new(); parts];
    for (row, hash) in hashes.iter().enumerate() {
        rows[(((hash >> 32) * parts as u64) >> 32) as usize].push(row as u32);
    }
    let of_part = |rows: Vec<u32>| Ok(take(values, &UInt32Array::from(rows), None)?);
    rows.into_iter().map(of_part).collect()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Date32Array, Decimal128Array, Int16Array, StringViewArray};
    use datafusion::common::tree_node::{Transformed, TreeNode};
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    const ROWS: u64 = 5000;

    /// A session over `t` in three partitions, in batches of 100 rows.
    fn session() -> SessionContext {
        let numbers = |factor: u64, below: u64, null_every: u64| {
            (1..=ROWS).map(move |row| {
                (!row.is_multiple_of(null_every)).then_some((row.wrapping_mul(factor) >> 5) % below)
            })
        };
        let wide = numbers(0x9E37_79B9_7F4A_7C15, 3000, 7);
        let text = |number: Option<u64>| {
            number.map(|number| format!("{} {number}", "é".repeat(number as usize % 9)))
        };
        let decimals = numbers(0xC2B2_AE3D_27D4_EB4F, 900, 3).map(|number| number.map(i128::from));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(wide.clone().map(|number| number.map(|n| n as i64)).collect::<Int64Array>())),
            ("t", Arc::new(wide.clone().map(text).collect::<StringViewArray>())),
            (
                "s",
                Arc::new(
                    numbers(0x1656_67B1_9E37_79F9, 50, 11)
                        .map(|n| n.map(|n| n as i16))
                        .collect::<Int16Array>(),
                ),
            ),
            ("d", Arc::new(decimals.collect::<Decimal128Array>().with_precision_and_scale(12, 2).unwrap())),
            ("day", Arc::new(wide.map(|number| number.map(|n| n as i32)).collect::<Date32Array>())),
            ("no", Arc::new((0..ROWS).map(|_| None::<i64>).collect::<Int64Array>())),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .unwrap();
        let mut parts = vec![Vec::new(); 3];
        for number in 0..ROWS as usize / 100 {
            parts[number % 3].push(batch.slice(number * 100, 100));
        }
        let config = SessionConfig::new().with_target_partitions(3).with_batch_size(100);
        let session = SessionContext::new_with_config(config);
        session.register_table("t", Arc::new(MemTable::try_new(batch.schema(), parts).unwrap())).unwrap();
        session
    }

    /// Whether the answer of `sql` is DataFusion's, and values are counted here.
    async fn check(sql: &str, values_min: usize, is_ours: bool) {
        let session = session();
        // Each is run once: exchanges give what they have to one reader.
        let plan = || async { session.sql(sql).await.unwrap().create_physical_plan().await.unwrap() };
        let mut found = 0;
        let ours = plan().await.transform_up(|node| {
            Ok(match DistinctMergeExec::of(&node, values_min, &expected::estimates()) {
                Some(ours) => {
                    found += 1;
                    Transformed::yes(Arc::new(ours) as Arc<dyn ExecutionPlan>)
                }
                None => Transformed::no(node),
            })
        });
        assert_eq!(found, usize::from(is_ours), "{sql}");
        let answer = |plan| collect(plan, session.task_ctx());
        assert_eq!(answer(ours.unwrap().data).await.unwrap(), answer(plan().await).await.unwrap(), "{sql}");
    }

    #[tokio::test]
    async fn counts_are_those_of_datafusion() {
        for values_min in [0, 4000] {
            for sql in [
                "SELECT count(DISTINCT n), count(DISTINCT t), count(*) FROM t",
                "SELECT count(DISTINCT s), count(DISTINCT d), count(DISTINCT day), sum(n), min(t), avg(d) FROM t",
                "SELECT count(DISTINCT no), count(DISTINCT n), count(no) FROM t",
                "SELECT count(DISTINCT n) FILTER (WHERE s < 9), count(DISTINCT t) FILTER (WHERE s > 99) FROM t",
            ] {
                check(sql, values_min, true).await;
            }
        }
    }

    #[tokio::test]
    async fn partitions_without_rows_count_nothing() {
        check("SELECT count(DISTINCT n), count(DISTINCT t), sum(DISTINCT n) FROM t WHERE s IS NULL", 0, true)
            .await;
        check("SELECT count(DISTINCT n), count(DISTINCT t) FROM t WHERE n < 0", 0, true).await;
    }

    #[tokio::test]
    async fn what_has_groups_or_several_forms_is_left_to_datafusion() {
        check("SELECT s, count(DISTINCT n), count(DISTINCT t) FROM t GROUP BY s ORDER BY s", 0, false).await;
        check("SELECT count(DISTINCT CAST(n AS DOUBLE)), sum(DISTINCT n) FROM t", 0, false).await;
        check("SELECT count(n), sum(s) FROM t", 0, false).await;
    }

    #[test]
    fn parts_have_all_values_and_equal_ones_the_same() {
        let values: ArrayRef = Arc::new((0..1000_i64).map(|value| value % 300).collect::<Int64Array>());
        let parts = deal(&values, 7).unwrap();
        assert_eq!(count_of(&parts), 1000);
        let mut homes = std::collections::HashMap::new();
        for (part, values) in parts.iter().enumerate() {
            for value in values.as_primitive::<datafusion::arrow::datatypes::Int64Type>().values() {
                assert_eq!(*homes.entry(*value).or_insert(part), part);
            }
        }
        assert!(parts.iter().all(|part| part.len() > 30));
    }
}
