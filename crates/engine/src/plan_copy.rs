//! Copies of plans that run beside what they were copied from.
//!
//! ```text
//!   planned, run by the first query
//!      └─ to_keep ──▶ kept: never run, shares nothing that a run changes
//!            ├─ to_run ──▶ the second query's        each with filters of its own, and results of its own
//!            └─ to_run ──▶ the third query's         for the scalar subqueries
//! ```
//!
//! A copy has other nodes, and shares what no run changes: expressions, schemas, properties, what a scan skips. DataFusion's
//! `reset_state` makes operators start anew, with two gaps that are closed here. The results of scalar subqueries are in
//! one container that the copy would share, and resetting empties it under whoever waits for it; here each copy gets
//! another container, and every expression that reads the old one is replaced. And scans would go on obeying filters that
//! operators of the original narrow: `new_filters.rs`. Where a device runs a subtree, the plan that the CPU would fall back
//! to is a copy whose scans are told no filters.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::{ScalarSubqueryResults, SubqueryIndex};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::gpu::PeltonGpuExec;
use crate::new_filters::NewFilters;
use crate::scan::PeltonScanExec;
use crate::shared::{NewSharing, SharedExec, tied};
use crate::spilling::PeltonJoinExec;

/// A copy of `plan` to make copies from; `None` where not every expression that reads the results of a scalar subquery, or
/// a filter that is narrowed meanwhile, can be replaced.
///
/// # Errors
///
/// Of DataFusion's operators, where they are not put together again.
pub(crate) fn to_keep(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filters) = NewFilters::of(plan)? else { return Ok(None) };
    let results = NewResults::of(plan)?;
    let of_device = |node: &PeltonGpuExec| node.to_keep(&results);
    let copying = Copying { results: &results, filters: Some(&filters), of_device };
    let kept = tied(copying.copy(plan)?)?;
    let is_apart = !results.are_missed_in(&kept)? && filters.are_all_in(&kept)?;
    Ok(is_apart.then_some(kept))
}

/// A copy of `kept` to run.
///
/// # Errors
///
/// As [`to_keep`].
pub(crate) fn to_run(kept: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let filters = NewFilters::of(kept)?;
    let results = NewResults::of(kept)?;
    let of_device = |node: &PeltonGpuExec| node.with_results(&results);
    tied(Copying { results: &results, filters: filters.as_ref(), of_device }.copy(kept)?)
}

/// What a copy has of its own.
struct Copying<'a, F> {
    results: &'a NewResults,
    /// `None`: scans are told no filters.
    filters: Option<&'a NewFilters>,
    /// Copies nodes for devices, whose children are copies.
    of_device: F,
}

impl<F: Fn(&PeltonGpuExec) -> Result<PeltonGpuExec>> Copying<'_, F> {
    /// A copy of `plan` as if it had never run.
    fn copy(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children().into_iter().map(|child| self.copy(child));
        let children = children.collect::<Result<Vec<_>>>()?;
        let filter = self.filters.and_then(|filters| filters.for_copy_of(plan));
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.results.in_node(Arc::new(joined_anew(join, children, filter)?));
        }
        if let Some(spilling) = plan.downcast_ref::<PeltonJoinExec>() {
            let join = joined_anew(spilling.join(), children, filter)?;
            return self.results.in_node(Arc::new(spilling.with_join(join)));
        }
        if let Some(scan) = plan.downcast_ref::<PeltonScanExec>() {
            let told = self.filters.map_or_else(|| Ok(scan.told_nothing()), |new| scan.with_filters_of(new));
            return self.results.in_node(Arc::new(told?.anew()));
        }
        let plan = match children.is_empty() {
            true => Arc::clone(plan),
            false => replace_children_if_necessary(Arc::clone(plan), children)?,
        };
        if let Some(node) = plan.downcast_ref::<PeltonGpuExec>() {
            return Ok(Arc::new((self.of_device)(node)?));
        }
        if let Some(node) = plan.downcast_ref::<ScalarSubqueryExec>() {
            let (input, links) = (Arc::clone(node.input()), node.subqueries().to_vec());
            let results = self.results.replaced(node.results());
            return Ok(Arc::new(ScalarSubqueryExec::new(input, links, results)));
        }
        let plan = plan.reset_state()?;
        let plan = match (filter, plan.downcast_ref::<SortExec>()) {
            (Some(filter), Some(sort)) => Arc::new(sort.clone().with_dynamic_filter_expr(filter)?) as _,
            // A sort of all rows has been given a filter, which it does not narrow.
            (None, Some(sort)) if sort.fetch().is_none() => Arc::new(sort.with_fetch(None)) as _,
            _ => plan,
        };
        self.results.in_node(plan)
    }
}

/// `join` of `children` as if it had never run, to narrow `filter`.
fn joined_anew(
    join: &HashJoinExec,
    children: Vec<Arc<dyn ExecutionPlan>>,
    filter: Option<Arc<DynamicFilterPhysicalExpr>>,
) -> Result<HashJoinExec> {
    let join = join.builder().reset_state().with_new_children(children)?.build()?;
    match filter {
        Some(filter) => join.with_dynamic_filter_expr(filter),
        None => Ok(join),
    }
}

/// For the results of scalar subqueries in a plan, and of subtrees that it uses several times, those of a copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct NewResults {
    scalars: Vec<(ScalarSubqueryResults, ScalarSubqueryResults)>,
    sharing: NewSharing,
}

impl NewResults {
    /// Empty results for each scalar subquery of `plan`, and each subtree that is shared.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let mut pairs = Vec::new();
        plan.apply(|node| {
            if let Some(node) = node.downcast_ref::<ScalarSubqueryExec>() {
                let slots = node.subqueries().iter().map(|link| link.index.as_usize() + 1);
                pairs.push((node.results().clone(), ScalarSubqueryResults::new(slots.max().unwrap_or(0))));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self { scalars: pairs, sharing: NewSharing::of(plan)? })
    }

    /// True for a plan without either.
    pub(crate) fn is_empty(&self) -> bool {
        self.scalars.is_empty() && self.sharing.is_empty()
    }

    /// These, and `later`, which stand in place of some of these.
    pub(crate) fn then(&self, later: &Self) -> Self {
        let scalars = self.scalars.iter().chain(&later.scalars).cloned().collect();
        Self { scalars, sharing: self.sharing.then(&later.sharing) }
    }

    /// A copy of `plan`, which is for the CPU alone, to make copies from; no scan of it is told filters.
    ///
    /// # Errors
    ///
    /// As [`to_keep`].
    pub(crate) fn copy_for_keeping(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let of_device = |node: &PeltonGpuExec| node.to_keep(self);
        Copying { results: self, filters: None, of_device }.copy(plan)
    }

    /// `plan` with expressions that read these results.
    pub(crate) fn in_plan(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if self.is_empty() {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let replaced = match node.downcast_ref::<PeltonGpuExec>() {
                Some(node) => Arc::new(node.with_results(self)?),
                None => self.in_node(node)?,
            };
            Ok(Transformed::yes(replaced))
        })
        .data()
    }

    /// `expr`, which reads these results.
    pub(crate) fn in_expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        if self.is_empty() {
            return Ok(Arc::clone(expr));
        }
        Arc::clone(expr)
            .transform_up(|part| {
                let Some(subquery) = part.downcast_ref::<ScalarSubqueryExpr>() else {
                    return Ok(Transformed::no(part));
                };
                let replaced = reading(subquery, self.replaced(subquery.results()))?;
                Ok(Transformed::yes(replaced))
            })
            .data()
    }

    /// `node`, of the kinds whose expressions can be replaced, with these results in place of the old ones.
    fn in_node(&self, node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if self.is_empty() || !self.are_old_in_node(&node)? {
            return Ok(node);
        }
        if let Some(shared) = node.downcast_ref::<SharedExec>() {
            return Ok(Arc::new(self.sharing.in_node(shared)));
        }
        if let Some(scan) = node.downcast_ref::<PeltonScanExec>() {
            return Ok(Arc::new(scan.with_results(self)?));
        }
        if let Some(filter) = node.downcast_ref::<FilterExec>() {
            let predicate = self.in_expr(filter.predicate())?;
            return Ok(Arc::new(FilterExecBuilder::from(filter).with_predicate(predicate).build()?));
        }
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            return self.in_projection(projection);
        }
        if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
            return self.in_join(join);
        }
        Ok(node)
    }

    fn in_projection(&self, node: &ProjectionExec) -> Result<Arc<dyn ExecutionPlan>> {
        let exprs = node.expr().iter().map(|projected| {
            Ok(ProjectionExpr { expr: self.in_expr(&projected.expr)?, alias: projected.alias.clone() })
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        let (input, schema) = (Arc::clone(node.input()), node.schema());
        Ok(Arc::new(ProjectionExec::try_new_with_schema_metadata(exprs, input, &schema)?))
    }

    fn in_join(&self, node: &NestedLoopJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = |filter: &JoinFilter| -> Result<JoinFilter> {
            let expr = self.in_expr(filter.expression())?;
            Ok(JoinFilter::new(expr, filter.column_indices().to_vec(), Arc::clone(filter.schema())))
        };
        let (left, right) = (Arc::clone(node.left()), Arc::clone(node.right()));
        let join = NestedLoopJoinExecBuilder::new(left, right, *node.join_type())
            .with_filter(node.filter().map(replaced).transpose()?)
            .with_projection_ref(node.projection().clone());
        Ok(Arc::new(join.build()?))
    }

    /// What stands in place of `results` in the end.
    fn replaced(&self, results: &ScalarSubqueryResults) -> ScalarSubqueryResults {
        let mut now = results;
        for (old, new) in &self.scalars {
            now = if now == old { new } else { now };
        }
        now.clone()
    }

    /// Whether anything in `copy` still reads old results.
    fn are_missed_in(&self, copy: &Arc<dyn ExecutionPlan>) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        copy.exists(|node| match node.downcast_ref::<PeltonGpuExec>() {
            Some(device) => {
                Ok(self.are_old_in(device.parameters())? || self.are_missed_in(device.planned())?)
            }
            None => self.are_old_in_node(node),
        })
    }

    fn are_old_in_node(&self, node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
        let mut found = node.downcast_ref::<SharedExec>().is_some_and(|shared| self.sharing.is_old(shared));
        node.apply_expressions(&mut |expr| {
            found |= self.are_old_in([expr])?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    }

    fn are_old_in<'e>(&self, exprs: impl IntoIterator<Item = &'e Arc<dyn PhysicalExpr>>) -> Result<bool> {
        let is_old = |results: &ScalarSubqueryResults| self.scalars.iter().any(|(old, _)| old == results);
        for expr in exprs {
            let reads = |part: &Arc<dyn PhysicalExpr>| {
                Ok(part.downcast_ref::<ScalarSubqueryExpr>().is_some_and(|part| is_old(part.results())))
            };
            if expr.exists(reads)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `subquery`, which reads `results`.
fn reading(subquery: &ScalarSubqueryExpr, results: ScalarSubqueryResults) -> Result<Arc<dyn PhysicalExpr>> {
    let field = subquery.return_field(&Schema::empty())?;
    let data_type = field.data_type().clone();
    Ok(Arc::new(ScalarSubqueryExpr::new(data_type, field.is_nullable(), index_of(subquery), results)))
}

/// Which of the results `subquery` reads.
pub(crate) fn index_of(subquery: &ScalarSubqueryExpr) -> SubqueryIndex {
    #[expect(deprecated, reason = "there is no other way to ask")]
    subquery.index()
}
