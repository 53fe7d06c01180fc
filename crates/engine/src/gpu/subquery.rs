//! Scalar subqueries over what their query reads too: each becomes the one row of a join, so that both are one plan of a
//! device, where what is common to them runs once.
//!
//! ```text
//!   ScalarSubqueryExec                              FilterExec  total = greatest
//!     FilterExec  total = (subquery 0)                CrossJoinExec
//!       groups of lineitem                  ─▶          greatest of (groups of lineitem)        one row
//!     greatest of (groups of lineitem)                  groups of lineitem
//! ```
//!
//! Only subqueries that are one row whatever they read, aggregates without keys, and that one filter alone asks for. The
//! join is kept where fewer rows are scanned with it: the device found that the subquery and its query have parts in common.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::CrossJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::scalar_subquery::{ScalarSubqueryExec, ScalarSubqueryLink};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};

use super::contract::Contract;
use super::exec::PeltonGpuExec;
use super::lower::without_exchanges;
use super::rule::counts_on_hash;
use super::trial::PeltonTrialExec;
use crate::plan_copy::index_of;
use crate::scan::PeltonScanExec;

/// Of the rows that are scanned a join must save so many at least. A guess: a parameter is cheaper than a column.
const SHARE_SAVED: f64 = 1.0 / 8.0;

/// `plan` with subqueries as sides of joins, as `on_device` makes it, where that scans considerably fewer rows.
///
/// # Errors
///
/// Of DataFusion's operators, where they are not put together again, and those of `on_device`.
pub(super) fn joined(
    plan: &Arc<dyn ExecutionPlan>,
    by_hash: bool,
    on_device: impl FnOnce(&Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() else { return Ok(None) };
    let (mut input, mut left) = (Arc::clone(node.input()), Vec::new());
    for link in node.subqueries() {
        let is_promising = is_one_row(&link.plan) && has_scan_in_common(&link.plan, node.input());
        match if is_promising { with_join(&input, node, link)? } else { None } {
            Some(with_join) => input = with_join,
            None => left.push(link.clone()),
        }
    }
    if left.len() == node.subqueries().len() {
        return Ok(None);
    }
    let joined: Arc<dyn ExecutionPlan> = match left.is_empty() {
        true => input,
        false => Arc::new(ScalarSubqueryExec::new(input, left, node.results().clone())),
    };
    if !Contract::of(plan, by_hash).is_kept_by(&joined) {
        return Ok(None);
    }
    let placed = on_device(&joined)?;
    let saves = scanned_rows(&placed) as f64 <= scanned_rows(plan) as f64 * (1.0 - SHARE_SAVED);
    Ok(saves.then_some(placed))
}

/// Whether `plan` has exactly one row, whatever it reads.
fn is_one_row(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let plan = without_exchanges(plan);
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return is_one_row(projection.input());
    }
    let aggregate = plan.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| {
        aggregate.group_expr().is_empty() && aggregate.mode().output_mode() == AggregateOutputMode::Final
    })
}

/// Whether both scan the same rows of a table.
fn has_scan_in_common(plan: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<PeltonScanExec>() {
        Some(scan) => scans(other).into_iter().any(|other| {
            other.table().id() == scan.table().id()
                && other.row_groups() == scan.row_groups()
                && other.predicate_text() == scan.predicate_text()
        }),
        None => plan.children().into_iter().any(|child| has_scan_in_common(child, other)),
    }
}

fn scans(plan: &Arc<dyn ExecutionPlan>) -> Vec<&PeltonScanExec> {
    match plan.downcast_ref::<PeltonScanExec>() {
        Some(scan) => vec![scan],
        None => plan.children().into_iter().flat_map(scans).collect(),
    }
}

/// Rows of the row groups that `plan` goes through, those of each scan by itself.
fn scanned_rows(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let of_device =
        |node: &PeltonGpuExec| -> u64 { node.scans().iter().map(|(_, scan)| scan.rows_left()).sum() };
    if let Some(trial) = plan.downcast_ref::<PeltonTrialExec>() {
        return of_device(trial.candidate())
            + trial.candidate().children().into_iter().map(scanned_rows).sum::<u64>();
    }
    let own = match plan.downcast_ref::<PeltonScanExec>() {
        Some(scan) => scan.rows_left(),
        None => plan.downcast_ref::<PeltonGpuExec>().map_or(0, of_device),
    };
    own + plan.children().into_iter().map(scanned_rows).sum::<u64>()
}

/// `input`, the query of `node`, with the subquery of `link` as a side of a join below the filter that asks for it; `None`
/// where others ask, or count on what a join would change.
fn with_join(
    input: &Arc<dyn ExecutionPlan>,
    node: &ScalarSubqueryExec,
    link: &ScalarSubqueryLink,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let asks = |expr: &Arc<dyn PhysicalExpr>| {
        let subquery = expr.downcast_ref::<ScalarSubqueryExpr>();
        subquery.is_some_and(|asked| asked.results() == node.results() && index_of(asked) == link.index)
    };
    let mut asking = Vec::new();
    input.apply(|part| {
        if any_expr(part, &asks)? {
            asking.push(Arc::clone(part));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let [asking] = asking.as_slice() else { return Ok(None) };
    let Some(filter) = asking.downcast_ref::<FilterExec>() else { return Ok(None) };
    let is_plain = filter.fetch().is_none()
        && link.plan.schema().fields().len() == 1
        && link.plan.output_partitioning().partition_count() == 1;
    if !is_plain {
        return Ok(None);
    }
    let name = link.plan.schema().field(0).name().clone();
    let predicate = Arc::clone(filter.predicate()).transform_up(|part| {
        if let Some(column) = part.downcast_ref::<Column>() {
            return Ok(Transformed::yes(Arc::new(Column::new(column.name(), column.index() + 1)) as _));
        }
        Ok(match asks(&part) {
            true => Transformed::yes(Arc::new(Column::new(&name, 0)) as _),
            false => Transformed::no(part),
        })
    });
    let outputs = match filter.projection().as_ref() {
        Some(projection) => projection.iter().map(|column| column + 1).collect(),
        None => (1..=filter.input().schema().fields().len()).collect(),
    };
    let join = CrossJoinExec::new(Arc::clone(&link.plan), Arc::clone(filter.input()));
    let above = FilterExecBuilder::new(predicate.data()?, Arc::new(join))
        .with_default_selectivity(filter.default_selectivity())
        .apply_projection(Some(outputs))?;
    with_node(input, asking, &(Arc::new(above.build()?) as _), false)
}

/// Whether an expression of `node` has a part of which `is_it` is true.
fn any_expr(node: &Arc<dyn ExecutionPlan>, is_it: &impl Fn(&Arc<dyn PhysicalExpr>) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(&mut |expr| {
        found |= expr.exists(|part| Ok(is_it(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// `plan` with `new` in place of `old`; `None` where a node above counts on what only `old` has. `by_hash`: a parent of
/// `plan` counts on how its rows are partitioned.
fn with_node(
    plan: &Arc<dyn ExecutionPlan>,
    old: &Arc<dyn ExecutionPlan>,
    new: &Arc<dyn ExecutionPlan>,
    by_hash: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let contract = Contract::of(plan, by_hash);
    if Arc::ptr_eq(plan, old) {
        return Ok(contract.is_kept_by(new).then(|| Arc::clone(new)));
    }
    let children = plan
        .children()
        .into_iter()
        .enumerate()
        .map(|(index, child)| with_node(child, old, new, counts_on_hash(plan, index, by_hash)));
    let Some(children) = children.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
    if !contract.holds_over(&children) {
        return Ok(None);
    }
    let above = replace_children_if_necessary(Arc::clone(plan), children)?;
    Ok(contract.is_kept_by(&above).then_some(above))
}
