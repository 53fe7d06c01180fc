//! Tables whose statistics are counted from their rows, or declared without any rows.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, replace_children_if_necessary,
};
use datafusion::prelude::{SessionConfig, SessionContext};

/// A table of rows in memory with statistics.
#[derive(Debug, Clone)]
pub(crate) struct StatisticsTable {
    name: String,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    statistics: Statistics,
    /// How often scans of it were asked for statistics.
    asked: Arc<AtomicUsize>,
}

impl StatisticsTable {
    /// A table of BIGINT columns given as (name, distinct count) that claims `rows` but has none. Its
    /// schema and fields carry metadata.
    pub(crate) fn declared(name: &str, rows: usize, columns: &[(&str, usize)]) -> Self {
        let metadata = |key: &str| HashMap::from([(key.to_owned(), name.to_owned())]);
        let fields: Vec<_> = columns
            .iter()
            .map(|(column, _)| Field::new(*column, DataType::Int64, true).with_metadata(metadata("table")))
            .collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata(name)));
        let column_statistics = columns
            .iter()
            .map(|(_, distinct_count)| {
                ColumnStatistics::new_unknown().with_distinct_count(Precision::Inexact(*distinct_count))
            })
            .collect();
        Self {
            name: name.to_owned(),
            schema,
            batches: vec![],
            statistics: Statistics {
                num_rows: Precision::Exact(rows),
                total_byte_size: Precision::Absent,
                column_statistics,
            },
            asked: Arc::default(),
        }
    }

    /// The table of the rows of `batch`, statistics counted.
    pub(crate) fn counted(name: &str, batch: RecordBatch) -> Self {
        let column_statistics = batch
            .columns()
            .iter()
            .map(|array| {
                let values: Vec<_> = (0..array.len())
                    .map(|row| ScalarValue::try_from_array(array, row).unwrap())
                    .filter(|value| !value.is_null())
                    .collect();
                let compare = |a: &&ScalarValue, b: &&ScalarValue| a.partial_cmp(b).unwrap();
                let known = |value: Option<&ScalarValue>| {
                    value.map_or(Precision::Absent, |value| Precision::Exact(value.clone()))
                };
                ColumnStatistics::new_unknown()
                    .with_null_count(Precision::Exact(array.null_count()))
                    .with_min_value(known(values.iter().min_by(compare)))
                    .with_max_value(known(values.iter().max_by(compare)))
                    .with_distinct_count(Precision::Exact(values.iter().collect::<HashSet<_>>().len()))
            })
            .collect();
        Self {
            name: name.to_owned(),
            schema: batch.schema(),
            statistics: Statistics {
                num_rows: Precision::Exact(batch.num_rows()),
                total_byte_size: Precision::Absent,
                column_statistics,
            },
            batches: vec![batch],
            asked: Arc::default(),
        }
    }

    /// How often scans of it were asked for statistics since the last call.
    pub(crate) fn take_times_asked(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }

    /// The same table with nothing known about it.
    pub(crate) fn without_statistics(mut self) -> Self {
        self.statistics = Statistics::new_unknown(&self.schema);
        self
    }
}

#[async_trait]
impl TableProvider for StatisticsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(indices) => Arc::new(self.schema.project(indices)?),
            None => Arc::clone(&self.schema),
        };
        let batches = self
            .batches
            .iter()
            .map(|batch| match projection {
                Some(indices) => Ok(batch.project(indices)?),
                None => Ok(batch.clone()),
            })
            .collect::<Result<_>>()?;
        Ok(Arc::new(StatisticsScan {
            name: self.name.clone(),
            batches,
            statistics: Arc::new(self.statistics.clone().project(projection)),
            asked: Arc::clone(&self.asked),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

#[derive(Debug)]
struct StatisticsScan {
    name: String,
    batches: Vec<RecordBatch>,
    statistics: Arc<Statistics>,
    asked: Arc<AtomicUsize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DisplayAs for StatisticsScan {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "StatisticsScan: {}", self.name)
    }
}

impl ExecutionPlan for StatisticsScan {
    fn name(&self) -> &str {
        "StatisticsScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows: usize = self.batches.iter().map(RecordBatch::num_rows).sum();
        BaselineMetrics::new(&self.metrics, partition).record_output(rows);
        Ok(Box::pin(MemoryStream::try_new(self.batches.clone(), self.schema(), None)?))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(&self.statistics))
    }
}

/// An operator in the place of one of DataFusion's, which it carries out; DataFusion knows nothing of its rows.
#[derive(Debug)]
pub(crate) struct StandIn(Arc<dyn ExecutionPlan>);

impl StandIn {
    /// In the place of `operator`.
    pub(crate) fn of(operator: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self(operator))
    }

    /// What `node` stands for, if it is such an operator.
    pub(crate) fn stands_for(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        node.downcast_ref::<Self>().map(|stand_in| Arc::clone(&stand_in.0))
    }
}

impl DisplayAs for StandIn {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("StandIn of ")?;
        self.0.fmt_as(form, f)
    }
}

impl ExecutionPlan for StandIn {
    fn name(&self) -> &str {
        "StandIn"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::of(replace_children_if_necessary(Arc::clone(&self.0), children)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

/// `plan` and all nodes below it, parents before their children.
pub(crate) fn nodes(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let below = plan.children().into_iter().flat_map(nodes);
    std::iter::once(Arc::clone(plan)).chain(below).collect()
}

/// A session over `tables`, with the rules or without.
pub(crate) fn session(
    tables: &[StatisticsTable],
    with_rules: bool,
    target_partitions: usize,
) -> SessionContext {
    let mut builder = SessionStateBuilder::new()
        .with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(target_partitions));
    if with_rules {
        builder =
            builder.with_physical_optimizer_rules(pelton_planner::install(PhysicalOptimizer::new().rules));
    }
    let context = SessionContext::new_with_state(builder.build());
    for table in tables {
        context.register_table(table.name.as_str(), Arc::new(table.clone())).unwrap();
    }
    context
}

/// The joins of a plan as `(build probe)`, scans by name, other nodes left out.
pub(crate) fn join_order(plan: &Arc<dyn ExecutionPlan>) -> String {
    if let Some(scan) = plan.downcast_ref::<StatisticsScan>() {
        return scan.name.clone();
    }
    let children: Vec<_> = plan.children().into_iter().map(join_order).collect();
    let is_join = plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>();
    if plan.is::<CrossJoinExec>() {
        format!("({} x {})", children[0], children[1])
    } else if is_join {
        format!("({} {})", children[0], children[1])
    } else {
        children.join(" + ")
    }
}
