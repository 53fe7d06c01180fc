//! Columns that a top-k only carries are fetched for the rows that come out of it.
//!
//! ```text
//!   SortPreservingMergeExec fetch=10            PeltonFetchExec                  the other columns of ten rows
//!     SortExec TopK fetch=10             ─▶       SortPreservingMergeExec fetch=10
//!       PeltonScanExec of 105 columns               SortExec TopK fetch=10
//!                                                     PeltonScanExec of the keys and row numbers
//! ```
//!
//! A scan that carries a column decodes each of its pages with a row that was among the first ones so far; here a page is
//! decoded for each row of the result, on all cores. It pays where these are fewer pages than the column has. A row
//! keeps its number for as long as a snapshot is there, which the operator holds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt64Array, new_empty_array,
};
use datafusion::arrow::compute::{concat, concat_batches, take};
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ColumnStatistics, DataFusionError};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, Statistics, StatisticsArgs,
};
use futures::{StreamExt, TryStreamExt};
use pelton_error::CancelFlag;
use pelton_io::IoEngine;
use pelton_scan::parallel;
use pelton_store::{Table, column_to_arrow, read_chunk_pages_blocking};

use crate::by_position::with_derived_filters;
use crate::error::to_datafusion;
use crate::scan::{PeltonScanExec, first_rows};

/// A result of more rows is not waited for as a whole. A guess.
const ROWS_MAX: usize = 1 << 10;
/// A column has at least so many times the pages that may be decoded for the result: below it, reading the column once
/// costs about the same. A guess.
const PAGES_A_ROW: usize = 2;

/// Puts [`PeltonFetchExec`] above top-k operators whose input carries columns.
#[derive(Debug, Default)]
pub(crate) struct FetchingRule;

impl PhysicalOptimizerRule for FetchingRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fetching = plan.transform_down(|node| match fetching(&node, config)? {
            Some(fetching) => Ok(Transformed::new(fetching, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        });
        fetching.data()
    }

    fn name(&self) -> &str {
        "pelton_fetching"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan`, a top-k of a scan, with what it only carries fetched at the end.
fn fetching(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(top) = Top::of(plan) else { return Ok(None) };
    let Some((keys, sort_keys)) = top.keys() else { return Ok(None) };
    if !top.pays(&keys) {
        return Ok(None);
    }
    let columns = top.columns.iter().map(|column| match keys.binary_search(column) {
        Ok(input) => Origin::Input(input),
        Err(_) => Origin::Table(*column),
    });
    let columns = columns.collect();
    let mut input: Arc<dyn ExecutionPlan> = Arc::new(top.scan.with_row_numbers(keys)?);
    if top.is_cooperative {
        input = Arc::new(CooperativeExec::new(input));
    }
    let sort = SortExec::new(sort_keys.clone(), input)
        .with_fetch(top.sort.fetch())
        .with_preserve_partitioning(top.sort.preserve_partitioning());
    let mut input = with_derived_filters(Arc::new(sort), config)?;
    if let Some(merge) = top.merge {
        input = Arc::new(SortPreservingMergeExec::new(sort_keys, input).with_fetch(merge.fetch()));
    }
    let properties = PlanProperties::clone(top.sort.properties());
    let fetching: Arc<dyn ExecutionPlan> = Arc::new(PeltonFetchExec {
        input,
        table: Arc::clone(top.scan.table()),
        io: Arc::clone(top.scan.io()),
        columns,
        properties: Arc::new(properties.with_partitioning(Partitioning::UnknownPartitioning(1))),
        metrics: ExecutionPlanMetricsSet::new(),
    });
    let Some(projection) = top.projection else { return Ok(Some(fetching)) };
    let exprs = projection.expr().to_vec();
    let above = ProjectionExec::try_new_with_schema_metadata(exprs, fetching, &projection.schema())?;
    Ok(Some(Arc::new(above)))
}

/// Whether `merged`, of columns of `projection` where there is one, is the order `sorted` of its input.
fn is_order_of(merged: &LexOrdering, projection: Option<&ProjectionExec>, sorted: &LexOrdering) -> bool {
    let Some(projection) = projection else { return merged == sorted };
    let below = merged.iter().map(|key| {
        let expr = Arc::clone(&key.expr).transform_up(|part| match part.downcast_ref::<Column>() {
            Some(column) => {
                let expr = Arc::clone(&projection.expr()[column.index()].expr);
                Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(part)),
        });
        expr.data().map(|expr| PhysicalSortExpr { expr, options: key.options })
    });
    below.zip(sorted).all(|(below, sorted)| below.is_ok_and(|below| below == *sorted))
        && merged.len() == sorted.len()
}

/// A top-k of the rows of a scan, in one partition.
struct Top<'p> {
    merge: Option<&'p SortPreservingMergeExec>,
    /// What DataFusion puts between the sort and the merge.
    projection: Option<&'p ProjectionExec>,
    sort: &'p SortExec,
    /// Which columns of the table the sort has.
    columns: Vec<usize>,
    is_cooperative: bool,
    scan: &'p PeltonScanExec,
    row_count: usize,
}

impl<'p> Top<'p> {
    fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        if plan.output_partitioning().partition_count() != 1 {
            return None;
        }
        let merge = plan.downcast_ref::<SortPreservingMergeExec>();
        let merged = merge.map_or(plan, |merge| merge.input());
        let projection = merged.downcast_ref::<ProjectionExec>().filter(|_| merge.is_some());
        let sort = projection.map_or(merged, |projection| projection.input()).downcast_ref::<SortExec>()?;
        if merge.is_some_and(|merge| !is_order_of(merge.expr(), projection, sort.expr())) {
            return None;
        }
        let of_each = sort.fetch()?; // else each partition sorts all of its rows, and holds them
        let row_count = if let Some(merge) = merge { merge.fetch()? } else { of_each };
        let picked = sort.input().downcast_ref::<ProjectionExec>();
        let below = picked.map_or(sort.input(), |picked| picked.input());
        let cooperative = below.downcast_ref::<CooperativeExec>();
        let scan = cooperative.map_or(below, |below| below.input()).downcast_ref::<PeltonScanExec>()?;
        let is_plain = scan.fetch_rows().is_none() && scan.row_number_output().is_none();
        let is_cooperative = cooperative.is_some();
        let columns = match picked {
            None => scan.projection().to_vec(),
            Some(picked) => {
                let of_scan = picked.expr().iter().map(|picked| picked.expr.downcast_ref::<Column>());
                let columns = of_scan.map(|column| scan.projection().get(column?.index()).copied());
                columns.collect::<Option<_>>()?
            }
        };
        let top = Self { merge, projection, sort, columns, is_cooperative, scan, row_count };
        (is_plain && row_count <= ROWS_MAX).then_some(top)
    }

    /// The table's columns that the sort reads, ascending, and the sort of these.
    fn keys(&self) -> Option<(Vec<usize>, LexOrdering)> {
        let outputs = self.sort.expr().iter().flat_map(|key| collect_columns(&key.expr));
        let mut keys: Vec<usize> = outputs.map(|column| self.columns[column.index()]).collect();
        keys.sort_unstable();
        keys.dedup();
        let moved = self.sort.expr().iter().map(|key| {
            let expr = Arc::clone(&key.expr).transform_up(|part| {
                let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
                let of_table = self.columns[column.index()];
                let input = keys.binary_search(&of_table).expect("collected above");
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), input)) as Arc<dyn PhysicalExpr>))
            });
            Some(PhysicalSortExpr { expr: expr.data().ok()?, options: key.options })
        });
        let sort_keys = LexOrdering::new(moved.collect::<Option<Vec<_>>>()?)?;
        Some((keys, sort_keys))
    }

    /// Whether some column is read for nothing else than the result, and has many more pages than that has rows.
    fn pays(&self, keys: &[usize]) -> bool {
        let filtered = self.scan.filter_columns();
        let table = self.scan.table();
        let is_carried = |column: &usize| !keys.contains(column) && !filtered.contains(column);
        let pages = self.scan.rows_left() / u64::from(table.page_rows()).max(1);
        self.columns.iter().any(is_carried)
            && pages >= (PAGES_A_ROW * self.row_count) as u64
            && self.row_count > 0
    }
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// A column of the input.
    Input(usize),
    /// A column of the table.
    Table(usize),
}

/// The rows of its input with further columns of the table that they are of; the last column of the input has the numbers
/// of rows.
#[derive(Clone)]
pub(crate) struct PeltonFetchExec {
    input: Arc<dyn ExecutionPlan>,
    table: Arc<Table>,
    io: Arc<IoEngine>,
    columns: Vec<Origin>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PeltonFetchExec {
    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() })
    }

    /// Rows of the input as rows of the output, by `threads` threads.
    fn fetched(&self, rows: &RecordBatch, threads: usize) -> pelton_error::Result<Vec<ArrayRef>> {
        let numbers = rows.columns().last().expect("the numbers of rows").as_primitive::<Int64Type>();
        let groups = by_row_group(&self.table, numbers.values());
        let wanted = self.columns.iter().filter_map(|column| match column {
            Origin::Table(column) => Some(*column),
            Origin::Input(_) => None,
        });
        let jobs: Vec<_> =
            wanted.flat_map(|column| groups.iter().map(move |group| (column, group))).collect();
        let parts = parallel::map(jobs, threads, &CancelFlag::new(), |(column, group)| {
            group.rows_of(&self.table, &self.io, column)
        })?;
        let mut parts = parts.chunks(groups.len().max(1));
        let places: UInt64Array = places_of(&groups, rows.num_rows()).into();
        let columns = self.columns.iter().map(|column| match column {
            Origin::Input(input) => Ok(Arc::clone(rows.column(*input))),
            Origin::Table(_) => {
                let parts = parts.next().expect("parts of each column");
                let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
                let all = concat(&parts).and_then(|all| take(all.as_ref(), &places, None));
                all.map_err(|error| crate::error::from_datafusion(error.into()))
            }
        });
        columns.collect()
    }

    /// All rows of the input as one batch of the output.
    async fn all(self, rows: SendableRecordBatchStream, threads: usize) -> Result<RecordBatch> {
        let (schema, input) = (self.schema(), rows.schema());
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        let rows = concat_batches(&input, &batches)?;
        let count = rows.num_rows();
        if count == 0 {
            let empty = schema.fields().iter().map(|field| new_empty_array(field.data_type()));
            return Ok(RecordBatch::try_new(Arc::clone(&schema), empty.collect())?);
        }
        let work = move || self.fetched(&rows, threads);
        let columns = tokio::task::spawn_blocking(work).await;
        let columns = columns.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(schema, columns.map_err(to_datafusion)?, &options)?)
    }
}

/// The wanted rows of a row group.
struct OfRowGroup {
    index: usize,
    /// By page: rows within it.
    by_page: BTreeMap<usize, Vec<usize>>,
    /// Where the rows stand in the result, in the order of `by_page`.
    places: Vec<usize>,
}

/// `numbers` of rows of `table` by row group.
fn by_row_group(table: &Table, numbers: &[i64]) -> Vec<OfRowGroup> {
    let (firsts, page_rows) = (first_rows(table), table.page_rows() as usize);
    let mut groups: BTreeMap<usize, BTreeMap<usize, Vec<(usize, usize)>>> = BTreeMap::new();
    for (place, &number) in numbers.iter().enumerate() {
        let group = firsts.partition_point(|first| *first <= number) - 1;
        let row = (number - firsts[group]) as usize;
        let pages = groups.entry(group).or_default();
        pages.entry(row / page_rows).or_default().push((row % page_rows, place));
    }
    let of_group = |(index, pages): (usize, BTreeMap<usize, Vec<(usize, usize)>>)| OfRowGroup {
        index,
        places: pages.values().flatten().map(|(_, place)| *place).collect(),
        by_page: pages
            .into_iter()
            .map(|(page, rows)| (page, rows.into_iter().map(|(row, _)| row).collect()))
            .collect(),
    };
    groups.into_iter().map(of_group).collect()
}

/// For each row of the result where it stands among the rows of all `groups`.
fn places_of(groups: &[OfRowGroup], row_count: usize) -> Vec<u64> {
    let mut places = vec![0; row_count];
    let all = groups.iter().flat_map(|group| &group.places);
    all.zip(0..).for_each(|(place, at)| places[*place] = at);
    places
}

impl OfRowGroup {
    /// The rows of `column`, in the order of `by_page`.
    fn rows_of(&self, table: &Arc<Table>, io: &IoEngine, column: usize) -> pelton_error::Result<ArrayRef> {
        let page_rows = table.page_rows() as usize;
        let page_count = (table.row_group(self.index).row_count as usize).div_ceil(page_rows);
        let pages: Vec<bool> = (0..page_count).map(|page| self.by_page.contains_key(&page)).collect();
        let bytes = read_chunk_pages_blocking(io, table, self.index, column, &pages)?;
        let decode = || {
            let view = table.chunk_view(self.index, column, &bytes)?;
            column_to_arrow(view.decode_pages(&pages)?, &table.schema().columns[column].logical)
        };
        let decoded = decode().map_err(|error| table.of_chunk(self.index, column, error))?;
        // Only the last page of a row group is shorter, and it is the last one here too.
        let rows = self.by_page.values().enumerate();
        let rows = rows.flat_map(|(page, rows)| rows.iter().map(move |row| (page * page_rows + row) as u64));
        let rows = UInt64Array::from_iter_values(rows);
        let taken = take(decoded.as_ref(), &rows, None);
        let taken = taken.map_err(|error| crate::error::from_datafusion(error.into()))?;
        Ok(match taken.as_string_view_opt() {
            Some(texts) => Arc::new(texts.gc()), // lets go of the page
            None => taken,
        })
    }
}

impl fmt::Debug for PeltonFetchExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(DisplayFormatType::Default, f)
    }
}

impl DisplayAs for PeltonFetchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns.iter().filter_map(|column| match column {
            Origin::Table(column) => Some(self.table.schema().columns[*column].name.as_str()),
            Origin::Input(_) => None,
        });
        let columns: Vec<&str> = columns.collect();
        write!(f, "PeltonFetchExec: table={}, columns=[{}]", self.table.name(), columns.join(", "))
    }
}

impl ExecutionPlan for PeltonFetchExec {
    fn name(&self) -> &str {
        "PeltonFetchExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.with_input(children.swap_remove(0)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let (threads, batch_rows) =
            (context.session_config().target_partitions(), context.session_config().batch_size());
        let rows = self.input.execute(partition, context)?;
        let fetched = futures::stream::once(self.clone().all(rows, threads));
        let batches = fetched.map_ok(move |rows| {
            let first = (0..rows.num_rows()).step_by(batch_rows.max(1));
            let slices = first.map(move |at| rows.slice(at, batch_rows.min(rows.num_rows() - at)));
            futures::stream::iter(slices.map(Ok::<_, DataFusionError>).collect::<Vec<_>>())
        });
        let batches = batches.try_flatten().inspect_ok(move |batch| baseline.record_output(batch.num_rows()));
        let schema: SchemaRef = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let column_statistics = self.columns.iter().map(|column| match column {
            Origin::Input(input) => inputs[0].column_statistics[*input].clone(),
            Origin::Table(_) => ColumnStatistics::new_unknown(),
        });
        let column_statistics = column_statistics.collect();
        Ok(Arc::new(Statistics { column_statistics, ..Statistics::clone(&inputs[0]) }))
    }
}
