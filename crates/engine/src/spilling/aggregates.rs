//! Aggregates that keep all values of a group, over rows that are sorted by group: one group is held at a time.
//!
//! ```text
//!   Final: median(x) by g                           SinglePartitioned: median(x) by g     gives a group when it ends
//!     Repartition by g                     ─▶         Sort by g                           spills
//!       Partial: median(x) by g                         Repartition by g
//!         input                                           input
//! ```
//!
//! Medians of few groups need no order: their values go to files by the hash of their group, which is less work.
//!
//! DataFusion's operator holds the values of all groups, and cannot go on where they are more than its share. What an
//! aggregate gives does not depend on the order of its rows where it says none. Where it says one, `string_agg(x ORDER BY y)`,
//! rows are sorted by group and then by that, in place of the sort that DataFusion has put below.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use pelton_planner::Estimates;

use super::{PartialAggregateExec, SpillingAggregateExec};
use crate::expected;

/// Aggregates whose state grows with the rows of a group.
const KEEP_ALL: [&str; 4] = ["median", "array_agg", "string_agg", "percentile_cont"];
/// Those of them that give the same in whatever order values come.
const IN_ANY_ORDER: [&str; 2] = ["median", "percentile_cont"];
/// Where groups have so many values on average, they are kept by group; each group has a vector of its own. A guess.
const VALUES_OF_GROUP: usize = 64;
/// Bytes of a value that is kept, where its type is not looked at.
const VALUE_BYTES: usize = 32;

/// In place of `node`, an aggregate over sorted rows, where its values might not fit into a quarter of `limit`.
pub(super) fn over_sorted(
    node: &Arc<dyn ExecutionPlan>,
    limit: usize,
    estimates: &Estimates,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(last) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Some(first) = first_of(last) else { return Ok(None) };
    let keeps_all = first.aggr_expr().iter().any(|call| KEEP_ALL.contains(&call.fun().name()));
    let is_plain = first.group_expr().is_single() && !first.group_expr().is_empty();
    let has_limit = first.limit_options().is_some() || last.limit_options().is_some();
    if !keeps_all || !is_plain || has_limit {
        return Ok(None);
    }
    let is_sorted = !matches!(first.input_order_mode(), InputOrderMode::Linear);
    let rows = expected::rows(estimates, first.input());
    if is_sorted || rows.is_some_and(|rows| rows.saturating_mul(VALUE_BYTES) < limit / 4) {
        return Ok(None);
    }
    let keys = first.group_expr().input_exprs();
    let by_group = keys.iter().map(|key| PhysicalSortExpr::new(Arc::clone(key), SortOptions::default()));
    let within = first.required_input_ordering().into_iter().flatten().next();
    let within = within.into_iter().flat_map(OrderingRequirements::into_single).map(PhysicalSortExpr::from);
    let Some(order) = LexOrdering::new(by_group.chain(within)) else { return Ok(None) };
    let partitions = node.output_partitioning().partition_count();
    let input = Arc::clone(unsorted(first.input()));
    let (input, mode): (Arc<dyn ExecutionPlan>, _) =
        match (partitions, input.output_partitioning().partition_count()) {
            (1, 1) => (input, AggregateMode::Single),
            (1, _) => (Arc::new(CoalescePartitionsExec::new(input)), AggregateMode::Single),
            _ => {
                let by = Partitioning::Hash(keys, partitions);
                (Arc::new(RepartitionExec::try_new(input, by)?), AggregateMode::SinglePartitioned)
            }
        };
    if is_worth_hashing(first, rows, expected::rows(estimates, node)) {
        let aggregate = AggregateExec::try_new(
            mode,
            first.group_expr().clone(),
            first.aggr_expr().to_vec(),
            first.filter_expr().to_vec(),
            Arc::clone(&input),
            first.input_schema(),
        )?;
        let is_same = aggregate.schema() == node.schema();
        if let Some(hashed) = SpillingAggregateExec::in_place_of(aggregate, rows).filter(|_| is_same) {
            return Ok(Some(Arc::new(hashed)));
        }
    }
    let sorted = Arc::new(SortExec::new(order, input).with_preserve_partitioning(true));
    let aggregate = AggregateExec::try_new(
        mode,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        sorted,
        first.input_schema(),
    )?;
    let is_same =
        aggregate.schema() == node.schema() && matches!(aggregate.input_order_mode(), InputOrderMode::Sorted);
    Ok(is_same.then(|| Arc::new(aggregate) as _))
}

/// Whether the values that `first` keeps may come in any order, and groups are few enough to have a vector each.
fn is_worth_hashing(first: &AggregateExec, rows: Option<usize>, groups: Option<usize>) -> bool {
    let (Some(rows), Some(groups)) = (rows, groups) else { return false };
    let mut keeping = first.aggr_expr().iter().filter(|call| KEEP_ALL.contains(&call.fun().name()));
    groups.saturating_mul(VALUES_OF_GROUP) <= rows
        && keeping.all(|call| {
            let is_in_any_order = IN_ANY_ORDER.contains(&call.fun().name()) && call.order_bys().is_empty();
            is_in_any_order && !call.is_distinct() && call.groups_accumulator_supported()
        })
}

/// What is below sorts of all rows.
fn unsorted(mut input: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    loop {
        if let Some(sort) = input.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) {
            input = sort.input();
        } else if let Some(merge) =
            input.downcast_ref::<SortPreservingMergeExec>().filter(|merge| merge.fetch().is_none())
        {
            input = merge.input();
        } else {
            return input;
        }
    }
}

/// The aggregate that reads rows, of one in one step or in two.
pub(super) fn first_of(last: &AggregateExec) -> Option<&AggregateExec> {
    match last.mode() {
        AggregateMode::Single | AggregateMode::SinglePartitioned => Some(last),
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let mut below = last.input();
            loop {
                if let Some(first) = below.downcast_ref::<PartialAggregateExec>() {
                    let first = first.aggregate().as_ref();
                    return (*first.mode() == AggregateMode::Partial).then_some(first);
                }
                if let Some(first) = below.downcast_ref::<AggregateExec>() {
                    return (*first.mode() == AggregateMode::Partial).then_some(first);
                }
                let passes_on = below.is::<RepartitionExec>()
                    || below.is::<CoalescePartitionsExec>()
                    || below.is::<CooperativeExec>();
                below = match below.children()[..] {
                    [child] if passes_on => child,
                    _ => return None,
                };
            }
        }
        _ => None,
    }
}
