//! Filters go down a physical plan by the position of columns, not by their names.
//!
//! DataFusion 55 hands a filter on to a node's inputs by looking its columns up by name, and takes the first of a name. Where
//! two columns share one, as after every join of tables that both have an `id`, the filter arrives with another column:
//!
//! ```text
//!   Filter u.id IS DISTINCT FROM t.id               (lost)
//!     Projection t.id, u.id                 ─▶        Projection t.id, u.id
//!       Join t, u                                       Join t, u
//!         Scan u                                          Scan u  id IS DISTINCT FROM id
//! ```
//!
//! These rules take the place of DataFusion's two. They walk plans as those do; a filter that names a column whose name is
//! not unique where it would be looked up stays where it is.
//!
//! A semi join also passes filters on its keys to the side whose rows it does not give, where DataFusion takes the column of the
//! same name, whatever the key there is. Here it is the key that stands beside it:
//!
//! ```text
//!   c.k = a.k                             filter: k is in c
//!     Scan c
//!     LeftSemi a.k = b.j, b.k > a.x       ─▶ of a: k, of b: j, not k
//! ```
//!
//! What a join derives while it runs goes to both sides of an inner join below, by the keys of that, and of an outer join to the
//! side that only comes where there is a key on the other:
//!
//! ```text
//!   b.k = a.k                             filter: k is in b, of few rows
//!     Scan b
//!     Inner c.j = d.k                     ─▶ of d: k, of c: j, so that few rows of c are put into a table
//! ```
//!
//! And a total of `min` and `max` passes down what is beyond the bounds that it has so far. DataFusion's says nothing of a call
//! that has seen no value yet, or whose argument is computed, so that the rows for it are dropped by the bounds of the others:
//! `max(i), max(x)` of rows that begin with a great i and NULL for x. Here such a total passes its filter only where it has one
//! call.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation,
    PushedDown, PushedDownPredicate,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::files::asks_for_uncounted_nulls;
use crate::opaque::has_lossy_cast;

type Filters = Vec<Arc<dyn PhysicalExpr>>;
type Propagated = FilterPushdownPropagation<Arc<dyn ExecutionPlan>>;

/// DataFusion's rules with these two in place of its own.
pub(crate) fn install(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
    let theirs = [
        (FilterPushdown::new(), FilterPushdownPhase::Pre),
        (FilterPushdown::new_post_optimization(), FilterPushdownPhase::Post),
    ];
    for (rule, phase) in theirs {
        let place = rules.iter_mut().find(|candidate| candidate.name() == rule.name());
        // A session of somebody's own may have left the rule out.
        if let Some(place) = place {
            *place = Arc::new(FiltersByPosition { name: rule.name().to_owned(), phase });
        }
    }
}

/// `plan` with the filters that its operators derive while they run offered to its scans.
///
/// # Errors
///
/// Of DataFusion's operators, where they are not put together again.
pub(crate) fn with_derived_filters(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(push_down(&plan, Vec::new(), config, FilterPushdownPhase::Post)?.updated_node.unwrap_or(plan))
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug)]
struct FiltersByPosition {
    name: String,
    phase: FilterPushdownPhase,
}

impl PhysicalOptimizerRule for FiltersByPosition {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(push_down(&plan, Vec::new(), config, self.phase)?.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Offers `filters`, which parents pass on to `node`, and those of `node` itself to its inputs; says which of `filters`
/// need not be looked at any more.
fn push_down(
    node: &Arc<dyn ExecutionPlan>,
    filters: Filters,
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<Propagated> {
    let offered: Vec<usize> = (0..filters.len()).filter(|&index| may_pass(&filters[index], node)).collect();
    if node.children().is_empty() {
        return hand_over(node, &filters, &offered, config, phase);
    }
    let passing: Filters = offered.iter().map(|&index| Arc::clone(&filters[index])).collect();
    let description = node.gather_filters_for_pushdown(phase, passing.clone(), config)?;
    let (mut from_parents, own) = (description.parent_filters(), description.self_filters());
    if let Some((join, other)) = semi_join(node) {
        from_parents[other] = by_keys(&passing, join, other)?;
    }
    if let (Some(join), FilterPushdownPhase::Post) = (node.downcast_ref::<HashJoinExec>(), phase) {
        for &other in without_rows_of_their_own(join) {
            add_by_keys(&mut from_parents[other], &passing, join, other)?;
        }
    }

    let mut taken = vec![Vec::new(); filters.len()];
    let mut own_taken = Vec::new();
    let mut children = Vec::new();
    for (index, child) in node.children().into_iter().enumerate() {
        let mut pushed: Filters = Vec::new();
        let own_places: Vec<Option<usize>> = own[index]
            .iter()
            .map(|filter| place(&mut pushed, filter, !is_volatile(filter) && !forgets_calls(node)))
            .collect();
        let parent_places: Vec<Option<usize>> = from_parents[index]
            .iter()
            .map(|filter| {
                place(&mut pushed, &filter.predicate, matches!(filter.discriminant, PushedDown::Yes))
            })
            .collect();
        let result = push_down(child, pushed, config, phase)?;
        let answer = |place: Option<usize>| place.map_or(PushedDown::No, |place| result.filters[place]);
        let own_answers = own_places.iter().zip(&own[index]);
        own_taken.push(
            own_answers.map(|(&place, filter)| answer(place).wrap_expression(Arc::clone(filter))).collect(),
        );
        taken.iter_mut().for_each(|answers| answers.push(PushedDown::No));
        for (&filter, &place) in offered.iter().zip(&parent_places) {
            taken[filter][index] = answer(place);
        }
        children.push(result.updated_node.unwrap_or_else(|| Arc::clone(child)));
    }

    let updated = replace_children_if_necessary(Arc::clone(node), children)?;
    let parent_filters = filters.into_iter().zip(taken);
    let result = ChildPushdownResult {
        parent_filters: parent_filters
            .map(|(filter, child_results)| ChildFilterPushdownResult { filter, child_results })
            .collect(),
        self_filters: own_taken,
    };
    let mut propagated = updated.handle_child_pushdown_result(phase, result, config)?;
    if propagated.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        propagated.updated_node = Some(updated);
    }
    Ok(propagated)
}

/// Offers those of `filters` that are at the places `offered` to `leaf`, which looks at whatever it is given.
fn hand_over(
    leaf: &Arc<dyn ExecutionPlan>,
    filters: &[Arc<dyn PhysicalExpr>],
    offered: &[usize],
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<Propagated> {
    let parent_filters = offered.iter().map(|&index| ChildFilterPushdownResult {
        filter: Arc::clone(&filters[index]),
        child_results: Vec::new(),
    });
    let result = ChildPushdownResult { parent_filters: parent_filters.collect(), self_filters: Vec::new() };
    let mut propagated = leaf.handle_child_pushdown_result(phase, result, config)?;
    let answers = std::mem::replace(&mut propagated.filters, vec![PushedDown::No; filters.len()]);
    for (&index, answer) in offered.iter().zip(answers) {
        propagated.filters[index] = answer;
    }
    Ok(propagated)
}

/// Adds `filter` to those for a child, where it goes there; returns its place among them.
fn place(pushed: &mut Filters, filter: &Arc<dyn PhysicalExpr>, goes: bool) -> Option<usize> {
    goes.then(|| {
        pushed.push(Arc::clone(filter));
        pushed.len() - 1
    })
}

/// Whether `node` may be asked to pass `filter`, on its output, to its inputs. A hash join goes by position on its own
/// output and a projection on its input; the inputs of a union may name its columns otherwise.
fn may_pass(filter: &Arc<dyn PhysicalExpr>, node: &Arc<dyn ExecutionPlan>) -> bool {
    let found_in = |child: &Arc<dyn ExecutionPlan>, column: &Column| {
        let is_there =
            !node.is::<UnionExec>() || child.schema().field(column.index()).name() == column.name();
        is_there && is_unique(child, column.name())
    };
    // A scan of Parquet compares what is cast, and takes NULLs that are not counted for none.
    let stays = node
        .downcast_ref::<DataSourceExec>()
        .is_some_and(|scan| has_lossy_cast(filter, &node.schema()) || asks_for_uncounted_nulls(filter, scan));
    !is_volatile(filter)
        && !stays
        && collect_columns(filter).iter().all(|column| {
            let own = node.is::<HashJoinExec>() || is_unique(node, column.name());
            own && (node.is::<ProjectionExec>()
                || node.children().into_iter().all(|child| found_in(child, column)))
        })
}

/// Whether the filter that `node` narrows may drop rows that one of its calls needs.
fn forgets_calls(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|total| total.aggr_expr().len() > 1)
}

/// The semi join that `node` is, and the place of the input whose rows it does not give.
fn semi_join(node: &Arc<dyn ExecutionPlan>) -> Option<(&HashJoinExec, usize)> {
    let join = node.downcast_ref::<HashJoinExec>()?;
    match join.join_type() {
        JoinType::LeftSemi => Some((join, 1)),
        JoinType::RightSemi => Some((join, 0)),
        _ => None,
    }
}

/// The inputs of `join` of which no row is given that has no equal key on the other side, where rows of both are given.
fn without_rows_of_their_own(join: &HashJoinExec) -> &'static [usize] {
    match join.join_type() {
        JoinType::Inner => &[0, 1],
        JoinType::Left => &[1],
        JoinType::Right => &[0],
        _ => &[],
    }
}

/// Adds what `join` says of `filters` on its rows to its input `other` by the keys there to what goes there anyway.
fn add_by_keys(
    passed: &mut [PushedDownPredicate],
    filters: &[Arc<dyn PhysicalExpr>],
    join: &HashJoinExec,
    other: usize,
) -> Result<()> {
    for (passed, by_keys) in passed.iter_mut().zip(by_keys(filters, join, other)?) {
        if matches!((&passed.discriminant, &by_keys.discriminant), (PushedDown::No, PushedDown::Yes)) {
            *passed = by_keys;
        }
    }
    Ok(())
}

/// What `join` says of `filters` on its rows to its input `other`: each of its rows has an equal key there.
fn by_keys(
    filters: &[Arc<dyn PhysicalExpr>],
    join: &HashJoinExec,
    other: usize,
) -> Result<Vec<PushedDownPredicate>> {
    let over_keys = |filter: &Arc<dyn PhysicalExpr>| {
        Ok(match over_keys(filter, join, other)? {
            Some(filter) => PushedDownPredicate::supported(filter),
            None => PushedDownPredicate::unsupported(Arc::clone(filter)),
        })
    };
    filters.iter().map(over_keys).collect()
}

/// `filter` with the keys of the input `other` in place of those beside them; `None` where it looks at anything else.
fn over_keys(
    filter: &Arc<dyn PhysicalExpr>,
    join: &HashJoinExec,
    other: usize,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut are_keys = true;
    let rewritten = Arc::clone(filter).transform_up(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        match key_beside(column, join, other) {
            Some(key) => Ok(Transformed::yes(Arc::new(key) as Arc<dyn PhysicalExpr>)),
            None => {
                are_keys = false;
                Ok(Transformed::no(part))
            }
        }
    })?;
    Ok(are_keys.then_some(rewritten.data))
}

/// The column of the input `other` that `column`, of the rows of `join`, has to be equal to.
fn key_beside(column: &Column, join: &HashJoinExec, other: usize) -> Option<Column> {
    let place = match &join.projection {
        Some(projection) => projection[column.index()],
        None => column.index(),
    };
    let schemas = [join.left().schema(), join.right().schema()];
    // Where the columns begin that are not those of `other`.
    let begin = match (other, join.join_type()) {
        (0, JoinType::Inner | JoinType::Right) => schemas[0].fields().len(),
        _ => 0,
    };
    join.on().iter().find_map(|(left, right)| {
        let keys = [left.downcast_ref::<Column>()?, right.downcast_ref::<Column>()?];
        let data_type = |side: usize| schemas[side].field(keys[side].index()).data_type();
        let is_beside = begin + keys[1 - other].index() == place && data_type(0) == data_type(1);
        is_beside.then(|| keys[other].clone())
    })
}

fn is_unique(node: &Arc<dyn ExecutionPlan>, name: &str) -> bool {
    node.schema().fields().iter().filter(|field| field.name() == name).count() <= 1
}
