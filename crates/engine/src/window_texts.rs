//! Texts that pass through windows.
//!
//! ```text
//!   views     [length, first bytes, buffer, place] ...   a slice, and what is appended to it, refers to all buffers so far
//!   offsets   [end of each] + bytes                      what is appended to a slice is copied, and no more than the slice
//!
//!   BoundedWindowAggExec                ProjectionExec: texts as views again
//!     SortExec                            BoundedWindowAggExec
//!       input                    ─▶         SortExec
//!                                             ProjectionExec: texts with offsets
//!                                               input
//! ```
//!
//! DataFusion 55 appends each batch to the rows that are not computed yet, and slices those off that are. Of views that keeps
//! the buffers of all batches, and looks at all of them with each: 5 million rows with a text of 50 bytes, `sum(v) OVER (ORDER
//! BY k)`, took 19.3 s where they take 3.0 s without the text, and held all texts in memory (two cores, 2026-11-26). Keys of
//! partitions and orders are columns whatever their type; arguments of functions stay views.
//!
//! Above the window nothing is known of the order of texts that were views below it. Where an operator counts on that, all
//! windows of the plan leave alone the columns that rows are in the order of.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

/// Has texts pass through windows as bytes of their own. After all rules that look for windows.
#[derive(Debug)]
pub(crate) struct WindowTexts;

/// Which texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Those that no function computes with.
    All,
    /// Of these, those that rows are not known to be in the order of, or partitioned by.
    WithoutOrder,
}

impl PhysicalOptimizerRule for WindowTexts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = copying_all(&plan, Which::All)?;
        if !changed.transformed {
            return Ok(plan);
        }
        let is_kept = is_in_order_of(&plan, &changed.data)
            && SanityCheckPlan::new().optimize(Arc::clone(&changed.data), config).is_ok();
        Ok(if is_kept { changed.data } else { copying_all(&plan, Which::WithoutOrder)?.data })
    }

    fn name(&self) -> &str {
        "pelton_window_texts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn copying_all(plan: &Arc<dyn ExecutionPlan>, which: Which) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Arc::clone(plan).transform_up(|node| {
        let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else {
            return Ok(Transformed::no(node));
        };
        Ok(match copying(window, which)? {
            Some(copying) if copying.schema() == node.schema() => match which {
                Which::WithoutOrder if !promises_the_same(&node, &copying) => Transformed::no(node),
                _ => Transformed::yes(copying),
            },
            _ => Transformed::no(node),
        })
    })
}

/// `window` over texts with offsets; `None` where it has none to pass on.
fn copying(window: &BoundedWindowAggExec, which: Which) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // DataFusion says of nobody's columns that a FILTER reads them (window_filters.rs leaves few).
    if window.window_expr().iter().any(|expr| format!("{expr:?}").contains("filter: Some(")) {
        return Ok(None);
    }
    let (schema, used) = (window.input().schema(), used_columns(window, which));
    let passed = |index: usize| {
        let ty = schema.fields().get(index).map(|field| field.data_type());
        ty.and_then(with_offsets).filter(|_| !used.contains(&index))
    };
    if !(0..schema.fields().len()).any(|index| passed(index).is_some()) {
        return Ok(None);
    }
    // Below sorts, which then have the texts in the same form.
    let mut above = Vec::new();
    let mut input = Arc::clone(window.input());
    while which == Which::All && moves_rows_alone(&input) {
        let child = Arc::clone(input.children()[0]);
        above.push(std::mem::replace(&mut input, child));
    }
    let mut input = projected(&input, passed)?;
    for node in above.into_iter().rev() {
        input = replace_children_if_necessary(node, vec![input])?;
    }
    let (exprs, mode) = (window.window_expr().to_vec(), window.input_order_mode.clone());
    let can_repartition = !window.partition_keys().is_empty();
    // It refuses rows that it does not know to be in order.
    let Ok(inner) = BoundedWindowAggExec::try_new(exprs, input, mode, can_repartition) else {
        return Ok(None);
    };
    let as_before = |index: usize| passed(index).map(|_| schema.field(index).data_type().clone());
    Ok(Some(projected(&(Arc::new(inner) as Arc<dyn ExecutionPlan>), as_before)?))
}

/// The columns of `input`, those cast for which there is a type.
fn projected(
    input: &Arc<dyn ExecutionPlan>,
    to: impl Fn(usize) -> Option<DataType>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let expr = match to(index) {
            Some(ty) => Arc::new(CastExpr::new(column, ty, None)) as Arc<dyn PhysicalExpr>,
            None => column,
        };
        (expr, field.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::clone(input))?))
}

/// The type of the same texts or bytes without views; `None` for all others.
fn with_offsets(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Utf8View => Some(DataType::LargeUtf8),
        DataType::BinaryView => Some(DataType::LargeBinary),
        _ => None,
    }
}

/// Whether `node` gives the rows of its child with other neighbours, and computes nothing but keys that are columns.
fn moves_rows_alone(node: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return sort.fetch().is_none() && sort.expr().iter().all(|key| key.expr.is::<Column>());
    }
    if let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() {
        return merge.fetch().is_none() && merge.expr().iter().all(|key| key.expr.is::<Column>());
    }
    if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
        return match repartition.partitioning() {
            Partitioning::Hash(keys, _) => keys.iter().all(|key| key.is::<Column>()),
            Partitioning::RoundRobinBatch(_) => true,
            _ => false,
        };
    }
    node.is::<CoalescePartitionsExec>() && node.fetch().is_none()
}

/// Columns of its input that stay views.
fn used_columns(window: &BoundedWindowAggExec, which: Which) -> HashSet<usize> {
    let mut used = HashSet::new();
    let mut computed: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for expr in window.window_expr() {
        let all = expr.all_expressions();
        computed.extend(all.args);
        let keys = all.partition_by_exprs.into_iter().chain(all.order_by_exprs);
        computed.extend(keys.filter(|key| which == Which::WithoutOrder || !key.is::<Column>()));
    }
    if which == Which::WithoutOrder {
        let order = window.properties().output_ordering().into_iter().flatten();
        computed.extend(order.map(|key| Arc::clone(&key.expr)));
        if let Partitioning::Hash(keys, _) = window.properties().output_partitioning() {
            computed.extend(keys.iter().cloned());
        }
    }
    used.extend(computed.iter().flat_map(collect_columns).map(|column| column.index()));
    used
}

/// Whether parents of `before` find what they count on in `after`.
fn promises_the_same(before: &Arc<dyn ExecutionPlan>, after: &Arc<dyn ExecutionPlan>) -> bool {
    let partitions_are_kept = match (before.output_partitioning(), after.output_partitioning()) {
        (Partitioning::Hash(..), Partitioning::Hash(..))
        | (Partitioning::Range(_), Partitioning::Range(_)) => {
            before.output_partitioning() == after.output_partitioning()
        }
        (Partitioning::Hash(..) | Partitioning::Range(_), _) => false,
        (before, after) => before.partition_count() == after.partition_count(),
    };
    is_in_order_of(before, after) && partitions_are_kept
}

/// Whether `after` is known to be in the order of `before`.
fn is_in_order_of(before: &Arc<dyn ExecutionPlan>, after: &Arc<dyn ExecutionPlan>) -> bool {
    before
        .output_ordering()
        .is_none_or(|order| after.equivalence_properties().ordering_satisfy(order.clone()).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    const ROWS: &str = "CREATE TABLE t AS SELECT value AS id, value % 3 AS g, arrow_cast(concat('a text of many bytes ', \
                        value % 7), 'Utf8View') AS s, arrow_cast(concat('another text of many bytes ', value % 5), \
                        'Utf8View') AS u FROM range(100)";

    /// How often the plan of `sql` casts to offsets; its rows are the same with and without.
    async fn casts(sql: &str) -> usize {
        let ctx = SessionContext::new_with_config(SessionConfig::new().with_batch_size(7));
        ctx.sql(ROWS).await.unwrap().collect().await.unwrap();
        // Each is run once: some operators can be run no more.
        let planned = async || ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let (plan, other) = (planned().await, planned().await);
        let changed = WindowTexts.optimize(Arc::clone(&plan), &ConfigOptions::new()).unwrap();
        assert_eq!(changed.schema(), plan.schema());
        let rows = async |plan| {
            let batches = collect(plan, ctx.task_ctx()).await.unwrap();
            let text = pretty_format_batches(&batches).unwrap().to_string();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let shown = displayable(changed.as_ref()).indent(false).to_string();
        assert_eq!(rows(changed).await, rows(other).await, "{sql}");
        shown.matches("AS LargeUtf8").count()
    }

    #[tokio::test]
    async fn texts_pass_with_offsets() {
        assert_eq!(casts("SELECT s, u, sum(id) OVER (ORDER BY id) FROM t").await, 2);
        assert_eq!(casts("SELECT id, sum(id) OVER (ORDER BY id) FROM t").await, 0);
    }

    #[tokio::test]
    async fn keys_have_them_below_their_sort() {
        assert_eq!(casts("SELECT u, row_number() OVER (PARTITION BY s ORDER BY id) FROM t").await, 2);
        assert_eq!(casts("SELECT id, rank() OVER (ORDER BY s, u) FROM t").await, 2);
    }

    #[tokio::test]
    async fn arguments_of_functions_stay_views() {
        assert_eq!(casts("SELECT u, lag(s) OVER (ORDER BY id) FROM t").await, 1);
        assert_eq!(casts("SELECT min(s) OVER (PARTITION BY g ORDER BY id) FROM t").await, 0);
        let filter = "SELECT u, array_agg(id) FILTER (WHERE s > 'a') OVER (ORDER BY id) FROM t";
        assert_eq!(casts(filter).await, 0);
    }

    #[tokio::test]
    async fn what_rows_are_in_the_order_of_stays_a_view_where_somebody_counts_on_it() {
        let sql = "SELECT s, u, row_number() OVER (ORDER BY s) FROM t ORDER BY s";
        assert_eq!(casts(sql).await, 1);
    }
}
