//! The plan node of a scan. Planning decides which row groups are read; `execute` deals them out.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, split_conjunction};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use pelton_io::IoEngine;
use pelton_limits::bytes_text;
use pelton_store::Table;
use pelton_zone::{Predicate, SkipKinds};

use super::counted::{self, Counted};
use super::metrics::{PlannedBytes, ScanReport};
use super::stream;
use crate::error::to_datafusion;
use crate::memo::{PruneQuestion, ZoneMemo};
use crate::new_filters::NewFilters;
use crate::plan_copy::NewResults;
use crate::predicate::zone_predicate;
use crate::prune::{Pruned, SkippedBy};
use crate::statistics;

/// What a session sets for all its scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    /// Which kinds of metadata may skip row groups; none turns skipping off.
    pub skip: SkipKinds,
    /// Whether dimension predicates skip row groups of a fact table.
    pub sideways: bool,
    /// Whether filters derived by joins and top-k are used.
    pub dynamic: bool,
    /// Row groups a partition reads ahead of the one it decodes.
    pub read_ahead: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { skip: SkipKinds::ALL, sideways: true, dynamic: true, read_ahead: 2 }
    }
}

/// A predicate on a dimension, to be tested on this fact table's sideways zone maps.
#[derive(Debug, Clone)]
pub(crate) struct SidewaysFilter {
    /// For EXPLAIN: `customer.c_region = ASIA`.
    pub(crate) text: String,
    /// Over indices into `Table::sideways`.
    pub(crate) predicate: Predicate<usize>,
}

/// What a scan reads, and how.
#[derive(Clone)]
pub(crate) struct ScanSource {
    /// The snapshot.
    pub(crate) table: Arc<Table>,
    /// What planning knows of the snapshot.
    pub(crate) memo: Arc<ZoneMemo>,
    /// Reads its files.
    pub(crate) io: Arc<IoEngine>,
    /// What may be skipped by.
    pub(crate) options: ScanOptions,
}

/// Scans a Pelton table.
#[derive(Clone)]
pub struct PeltonScanExec {
    pub(super) table: Arc<Table>,
    memo: Arc<ZoneMemo>,
    pub(super) io: Arc<IoEngine>,
    pub(super) options: ScanOptions,
    /// Table columns in output order.
    pub(super) projection: Vec<usize>,
    /// Whether the numbers of rows in the table are a column more, the last one.
    pub(super) numbers_rows: bool,
    /// Conjuncts over table columns that every output row satisfies.
    pub(super) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters over table columns that other operators derive while the query runs.
    pub(super) dynamic: Vec<Arc<dyn PhysicalExpr>>,
    sideways: Vec<SidewaysFilter>,
    /// What EXPLAIN should say about metadata that could not be used.
    notes: Vec<String>,
    pub(super) pruned: Arc<Pruned>,
    pub(super) limit: Option<usize>,
    /// No operator above holds its batches, which then need no buffers of their own size.
    pub(super) is_passing: bool,
    properties: Arc<PlanProperties>,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

impl PeltonScanExec {
    /// Plans a scan of `projection` (all columns where `None`), of rows that satisfy `conjuncts` (over table
    /// columns), into at most `partition_count` partitions.
    pub(crate) fn try_new(
        source: ScanSource,
        projection: Option<&[usize]>,
        conjuncts: Vec<Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        partition_count: usize,
    ) -> Result<Self> {
        let ScanSource { table, memo, io, options } = source;
        let io = Arc::new(io.tallied()); // EXPLAIN ANALYZE says what this scan read, not what all have
        let projection = match projection {
            Some(columns) => columns.to_vec(),
            None => (0..table.schema().columns.len()).collect(),
        };
        let schema: SchemaRef = Arc::new(table.arrow_schema().project(&projection)?);
        let partition_count = partition_count.clamp(1, table.row_group_count().max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partition_count),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        let scan = Self {
            pruned: Arc::default(),
            table,
            memo,
            io,
            options,
            projection,
            numbers_rows: false,
            conjuncts,
            dynamic: Vec::new(),
            sideways: Vec::new(),
            notes: Vec::new(),
            limit,
            is_passing: false,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        };
        scan.prune()
    }

    /// The table snapshot this scan reads.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// True where the table keeps metadata of other tables' attributes.
    pub(crate) fn has_sideways_metadata(&self) -> bool {
        !self.table.sideways().is_empty()
    }

    /// Table columns in output order.
    pub(crate) fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The row groups that planning left, ascending.
    pub(crate) fn row_groups(&self) -> &[u32] {
        &self.pruned.kept
    }

    /// Rows of these row groups.
    pub(crate) fn rows_left(&self) -> u64 {
        let rows_of = |&row_group: &u32| u64::from(self.table().row_group(row_group as usize).row_count);
        self.row_groups().iter().map(rows_of).sum()
    }

    /// The session's scan options.
    pub(crate) fn options(&self) -> &ScanOptions {
        &self.options
    }

    /// The static conjuncts as one zone predicate.
    pub(crate) fn zone_predicate(&self) -> Predicate<usize> {
        let conjuncts = self.conjuncts.iter().map(|expr| zone_predicate(expr, self.table.schema()));
        Predicate::And(conjuncts.collect()).intersect_ranges()
    }

    /// The conjuncts, most selective first by the zone maps' estimate.
    pub(crate) fn ordered_conjuncts(&self) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let mut ranked = Vec::with_capacity(self.conjuncts.len());
        for expr in &self.conjuncts {
            let predicate = zone_predicate(expr, self.table.schema());
            let rows = match predicate {
                Predicate::Unknown => f64::MAX, // LIKE and the like: last
                known => self.memo.estimated_rows(&self.table, &known).map_err(to_datafusion)?,
            };
            ranked.push((rows, Arc::clone(expr)));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(ranked.into_iter().map(|(_, expr)| expr).collect())
    }

    /// The row limit, if the query has one that reaches the scan.
    pub(crate) fn fetch_rows(&self) -> Option<usize> {
        self.limit
    }

    /// True where nothing can keep a row of the table from the output.
    pub(crate) fn reads_every_row(&self) -> bool {
        self.conjuncts.is_empty()
            && self.dynamic.is_empty()
            && self.sideways.is_empty()
            && self.limit.is_none()
    }

    /// How many filters other operators tell it while the query runs.
    pub(crate) fn told_filters(&self) -> usize {
        self.dynamic.len()
    }

    /// True where the query itself restricts this table.
    pub(crate) fn is_filtered(&self) -> bool {
        !self.conjuncts.is_empty()
    }

    /// The static conjuncts as text.
    pub(crate) fn predicate_text(&self) -> String {
        let texts: Vec<String> = self.conjuncts.iter().map(pelton_planner::quoted).collect();
        texts.join(" AND ")
    }

    /// The same scan, whose batches nothing above holds.
    pub(crate) fn passing(&self) -> Self {
        Self { is_passing: true, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }
    }

    /// This scan with dimension predicates applied sideways, and notes on those that could not be.
    pub(crate) fn with_sideways(&self, sideways: Vec<SidewaysFilter>, notes: Vec<String>) -> Result<Self> {
        Self { sideways, notes, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }.prune()
    }

    /// This scan of other columns, with the numbers of rows as a column more; no other operator tells it filters.
    pub(crate) fn with_row_numbers(&self, projection: Vec<usize>) -> Result<Self> {
        let columns = self.table.arrow_schema().project(&projection)?;
        let number = Field::new(ROW_NUMBER, DataType::Int64, false);
        let fields = columns.fields().iter().cloned().chain([Arc::new(number)]);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let properties =
            PlanProperties::clone(&self.properties).with_eq_properties(EquivalenceProperties::new(schema));
        let metrics = ExecutionPlanMetricsSet::new();
        let properties = Arc::new(properties);
        Ok(Self { projection, numbers_rows: true, properties, metrics, ..self.told_nothing() })
    }

    /// Which column of its output has the numbers of rows.
    pub(crate) fn row_number_output(&self) -> Option<usize> {
        self.numbers_rows.then_some(self.projection.len())
    }

    /// What reads the table's files.
    pub(crate) fn io(&self) -> &Arc<IoEngine> {
        &self.io
    }

    /// Columns that conjuncts read.
    pub(crate) fn filter_columns(&self) -> Vec<usize> {
        let columns = self.conjuncts.iter().flat_map(datafusion::physical_expr::utils::collect_columns);
        columns.map(|column| column.index()).collect()
    }

    /// This scan, which no other operator tells filters.
    pub(crate) fn told_nothing(&self) -> Self {
        Self { dynamic: Vec::new(), ..self.clone() }
    }

    /// This scan, which is told new filters in place of those that it was.
    pub(crate) fn with_filters_of(&self, new: &NewFilters) -> Result<Self> {
        let dynamic = self.dynamic.iter().map(|expr| new.in_expr(expr));
        Ok(Self { dynamic: dynamic.collect::<Result<_>>()?, ..self.clone() })
    }

    /// This scan, of which nothing is counted yet.
    pub(crate) fn anew(self) -> Self {
        Self { io: Arc::new(self.io.tallied()), metrics: ExecutionPlanMetricsSet::new(), ..self }
    }

    /// This scan with conjuncts that read `results`. What it skips is as before: nothing is known of results in advance.
    pub(crate) fn with_results(&self, results: &NewResults) -> Result<Self> {
        let conjuncts = self.conjuncts.iter().map(|expr| results.in_expr(expr));
        Ok(Self { conjuncts: conjuncts.collect::<Result<_>>()?, ..self.clone() })
    }

    fn with_filters(
        &self,
        conjuncts: Vec<Arc<dyn PhysicalExpr>>,
        dynamic: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        Self { conjuncts, dynamic, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }.prune()
    }

    /// Rows that pass the static conjuncts: by zone maps, and by the planner's defaults where those know nothing, such as
    /// of `LIKE '%a%'`.
    pub(crate) fn estimated_rows(&self) -> pelton_error::Result<f64> {
        let of_zones = |expr: &Arc<dyn PhysicalExpr>| zone_predicate(expr, self.table.schema());
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for expr in &self.conjuncts {
            match of_zones(expr) {
                Predicate::Unknown => unknown.push(expr),
                predicate => known.push(predicate),
            }
        }
        let rows = self.memo.estimated_rows(&self.table, &Predicate::And(known).intersect_ranges())?;
        if unknown.is_empty() {
            return Ok(rows);
        }
        let statistics = statistics::of_table(&self.table);
        let share = |expr: &Arc<dyn PhysicalExpr>| pelton_planner::predicate_selectivity(expr, &statistics);
        Ok(rows * unknown.into_iter().map(share).product::<f64>())
    }

    /// What passes the conjuncts, where that was counted for an estimate.
    pub(crate) fn counted(&self) -> Option<Arc<Counted>> {
        let is_known = !self.conjuncts.is_empty() && self.conjuncts.iter().all(counted::is_of_rows_alone);
        if !is_known || self.limit.is_some() {
            return None;
        }
        let has_all = |counted: &Counted| {
            let mut columns = counted::bounded_columns(self).into_iter();
            columns.all(|column| counted.bounds.contains_key(&column))
        };
        // Whoever runs the query hears of what is wrong with it.
        self.memo.counted(&self.conjuncts, has_all, || counted::count(self).unwrap_or_default())
    }

    /// All rows of `columns` that pass the conjuncts, in one partition.
    pub(super) fn of_columns(&self, columns: &[usize]) -> Result<Self> {
        let source = ScanSource {
            table: Arc::clone(&self.table),
            memo: Arc::clone(&self.memo),
            io: Arc::clone(&self.io),
            options: self.options,
        };
        Self::try_new(source, Some(columns), self.conjuncts.clone(), None, 1)
    }

    /// Decides which row groups are read: by metadata, then by a plain limit.
    fn prune(mut self) -> Result<Self> {
        let question = PruneQuestion {
            own: self.zone_predicate(),
            sideways: self.sideways.iter().map(|filter| filter.predicate.clone()).collect(),
            kinds: self.options.skip,
        };
        self.pruned = self.memo.pruned(&self.table, &question).map_err(to_datafusion)?;
        if let (Some(limit), true) = (self.limit, self.conjuncts.is_empty()) {
            let mut pruned = Pruned::clone(&self.pruned);
            pruned.kept.truncate(self.row_groups_holding(&pruned.kept, limit));
            self.pruned = Arc::new(pruned);
        }
        Ok(self)
    }

    /// How many of `row_groups`, from the front, hold `row_count` rows.
    fn row_groups_holding(&self, row_groups: &[u32], row_count: usize) -> usize {
        let mut rows = 0;
        row_groups
            .iter()
            .take_while(|&&row_group| {
                let wanted = rows < row_count;
                rows += self.table.row_group(row_group as usize).row_count as usize;
                wanted
            })
            .count()
    }

    /// Table columns that the scan reads: output and filters, ascending.
    pub(super) fn read_columns(&self) -> Vec<usize> {
        let mut columns = self.projection.clone();
        for expr in &self.conjuncts {
            let used = datafusion::physical_expr::utils::collect_columns(expr);
            columns.extend(used.iter().map(Column::index));
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What this scan skipped, read and answered for; after execution with what it measured.
    pub fn report(&self) -> Result<ScanReport> {
        let planned =
            PlannedBytes::of(&self.table, &self.read_columns(), &self.pruned).map_err(to_datafusion)?;
        Ok(planned.report(
            self.table.name(),
            io_description(&self.io),
            &self.notes,
            &self.metrics.clone_inner(),
        ))
    }

    /// How a device came by `disk_bytes` of this scan; its reads are not told apart by the way that they took.
    pub(crate) fn device_io_text(&self, disk_bytes: u64) -> String {
        format!("{}: {}", engine_name(&self.io), bytes_text(disk_bytes))
    }

    /// An output-schema expression in terms of table columns.
    fn to_table_columns(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let rewritten = Arc::clone(expr).transform_up(|node| match node.downcast_ref::<Column>() {
            Some(column) => {
                let table_column = self.projection[column.index()];
                Ok(Transformed::yes(
                    Arc::new(Column::new(column.name(), table_column)) as Arc<dyn PhysicalExpr>
                ))
            }
            None => Ok(Transformed::no(node)),
        })?;
        Ok(rewritten.data)
    }
}

/// The name of the column with the numbers of rows, which no query can ask for.
const ROW_NUMBER: &str = "#row";

fn engine_name(io: &IoEngine) -> &'static str {
    if io.uses_ring() { "io_uring" } else { "positioned reads" }
}

fn io_description(io: &IoEngine) -> String {
    let engine = engine_name(io);
    let counters = io.counters();
    let by_way = format!(
        "{engine}: {} past the page cache, {} through it, {} from it",
        bytes_text(counters.direct_bytes),
        bytes_text(counters.buffered_bytes),
        bytes_text(counters.cached_bytes)
    );
    match io.fallback() {
        Some(reason) => format!("{by_way} ({reason})"),
        None => by_way,
    }
}

fn is_dynamic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.exists(|node| Ok(node.is::<DynamicFilterPhysicalExpr>())).unwrap_or(true)
}

impl fmt::Debug for PeltonScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for PeltonScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let columns: Vec<&str> =
            self.projection.iter().map(|&column| self.table.schema().columns[column].name.as_str()).collect();
        if format == DisplayFormatType::TreeRender {
            writeln!(f, "table={}", self.table.name())?;
            return write!(f, "columns={}", columns.join(", "));
        }
        write!(f, "PeltonScanExec: table={}, columns=[{}]", self.table.name(), columns.join(", "))?;
        let (kept, total) = (self.pruned.kept.len(), self.table.row_group_count());
        write!(f, ", row_groups={kept}/{total}")?;
        if self.numbers_rows {
            write!(f, ", row numbers")?;
        }
        for by in SkippedBy::ALL {
            let count = self.pruned.skipped.iter().filter(|(_, skipped_by)| *skipped_by == by).count();
            if count > 0 {
                write!(f, ", skipped_{}={count}", by.name())?;
            }
        }
        if !self.conjuncts.is_empty() {
            write!(f, ", filter=[{}]", self.predicate_text())?;
        }
        for filter in &self.sideways {
            write!(f, ", sideways=[{}]", filter.text)?;
        }
        if !self.dynamic.is_empty() {
            let texts: Vec<String> = self.dynamic.iter().map(ToString::to_string).collect();
            write!(f, ", dynamic=[{}]", texts.join(" AND "))?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        for note in &self.notes {
            write!(f, ", note=[{note}]")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for PeltonScanExec {
    fn name(&self) -> &'static str {
        "PeltonScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.conjuncts.iter().chain(&self.dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
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
        // What is counted belongs to one run.
        Ok(Arc::new(Self { metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        stream::open(self, partition, &context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let partition_count = self.properties.partitioning.partition_count();
        let divisor = if args.partition().is_some() { partition_count } else { 1 };
        statistics::of_scan(self, divisor).map(Arc::new).map_err(to_datafusion)
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let scan = Self { limit, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() };
        scan.prune().ok().map(|scan| Arc::new(scan) as _)
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let (mut conjuncts, mut dynamic) = (self.conjuncts.clone(), self.dynamic.clone());
        let mut answers = Vec::with_capacity(child_pushdown_result.parent_filters.len());
        for parent in child_pushdown_result.parent_filters {
            let filter = self.to_table_columns(&parent.filter)?;
            if is_dynamic(&filter) {
                if self.options.dynamic {
                    dynamic.push(filter);
                }
                answers.push(PushedDown::No); // an offer taken up, not a promise
            } else {
                conjuncts.extend(split_conjunction(&filter).into_iter().cloned());
                answers.push(PushedDown::Yes);
            }
        }
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if conjuncts.len() == self.conjuncts.len() && dynamic.len() == self.dynamic.len() {
            return Ok(propagation);
        }
        let updated: Arc<dyn ExecutionPlan> = Arc::new(self.with_filters(conjuncts, dynamic)?);
        Ok(propagation.with_updated_node(updated))
    }
}
