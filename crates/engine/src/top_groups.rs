//! Groups are cut to the first ones only where it is them that are sorted, and nothing else looks at all of them.
//!
//! ```text
//!   SELECT k, max(v) FROM t GROUP BY k ORDER BY max(v) DESC LIMIT 2     SELECT -k AS k FROM t GROUP BY k ORDER BY k LIMIT 2
//!
//!   SortExec TopK fetch=2  max                                          SortExec TopK fetch=2  k
//!     ProjectionExec       k, max                                         ProjectionExec       -k AS k
//!       AggregateExec      k, max    ◀── keeps the 2 greatest               AggregateExec      k     ◀── keeps all
//! ```
//!
//! DataFusion 55 looks for what is sorted by name, in whatever stands below the sort and keeps the number of rows: in the right
//! plan it would keep the 2 least k, whose -k are the last ones, and below a window, as in `count(*) OVER ()`, it would take
//! groups away that the window counts. This rule goes by position, through operators that look at rows one by one.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::topk_aggregation::TopKAggregation;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateMode, LimitOptions, topk_types_supported,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

type Node = Arc<dyn ExecutionPlan>;

/// Where a group's key stands in what an aggregate of one key gives, and where its only call.
const KEY: usize = 0;
const CALL: usize = 1;

/// DataFusion's rules with this one in place of its own.
pub(crate) fn install(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
    let theirs = TopKAggregation::new();
    // A session of somebody's own may have left the rule out.
    if let Some(place) = rules.iter_mut().find(|rule| rule.name() == theirs.name()) {
        *place = Arc::new(TopGroups { theirs });
    }
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug)]
struct TopGroups {
    theirs: TopKAggregation,
}

impl PhysicalOptimizerRule for TopGroups {
    fn optimize(&self, plan: Node, config: &ConfigOptions) -> Result<Node> {
        if !config.optimizer.enable_topk_aggregation {
            return Ok(plan);
        }
        let limited = plan.transform_down(|node| {
            Ok(match below_sort(&node)? {
                Some(limited) => Transformed::yes(replace_children_if_necessary(node, vec![limited])?),
                None => Transformed::no(node),
            })
        });
        limited.data()
    }

    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Which rows are asked for: so many, the first ones by a column in this order.
struct Top {
    row_count: usize,
    order: SortOptions,
}

/// The input of `node` with its groups limited, where `node` is a top-k by one column of them.
fn below_sort(node: &Node) -> Result<Option<Node>> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(None) };
    let (Some(row_count), [key]) = (sort.fetch(), &sort.expr()[..]) else { return Ok(None) };
    let Some(column) = key.expr.downcast_ref::<Column>() else { return Ok(None) };
    limited(sort.input(), column.index(), &Top { row_count, order: key.options })
}

/// `plan`, of whose rows the `top` ones by `column` are asked for, with its groups limited to those; `None` where they are not.
fn limited(plan: &Node, column: usize, top: &Top) -> Result<Option<Node>> {
    if let Some(groups) = plan.downcast_ref::<AggregateExec>() {
        return if top.is_of(groups, column) { limited_groups(groups, column, top) } else { Ok(None) };
    }
    let below = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projection.expr()[column].expr.downcast_ref::<Column>().map(Column::index)
    } else {
        passes_on(plan).then_some(column)
    };
    let children = plan.children();
    let (Some(below), [input]) = (below, &children[..]) else { return Ok(None) };
    let Some(input) = limited(input, below, top)? else { return Ok(None) };
    replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some)
}

/// `groups`, limited; where they are put together from parts, these are limited, too.
fn limited_groups(groups: &AggregateExec, column: usize, top: &Top) -> Result<Option<Node>> {
    let limit = LimitOptions::new_with_order(top.row_count, top.order.descending);
    let whole: Node = Arc::new(groups.with_new_limit_options(Some(limit)));
    let of_parts = matches!(groups.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
    let parts = if of_parts { limited(groups.input(), column, top)? } else { None };
    Ok(Some(match parts {
        Some(parts) => replace_children_if_necessary(whole, vec![parts])?,
        None => whole,
    }))
}

impl Top {
    /// Whether the top rows of `groups` by `column` are found without keeping the others.
    fn is_of(&self, groups: &AggregateExec, column: usize) -> bool {
        let ([(key, _)], true) = (groups.group_expr().expr(), groups.group_expr().is_single()) else {
            return false;
        };
        let Ok(key_type) = key.data_type(&groups.input().schema()) else { return false };
        if groups.filter_expr().iter().any(Option::is_some) {
            return false;
        }
        match (groups.get_minmax_desc(), groups.aggr_expr()) {
            (Some((field, is_max)), [call]) => {
                // A group is the first one as long as it has seen NULL alone, and may be any other one after that.
                let schema = groups.input_schema();
                let may_be_null = |arg: &Arc<dyn PhysicalExpr>| arg.nullable(&schema).unwrap_or(true);
                let sinks = self.order.nulls_first && call.expressions().iter().any(may_be_null);
                column == CALL
                    && is_max == self.order.descending
                    && !sinks
                    && topk_types_supported(&key_type, field.data_type())
            }
            (None, []) => column == KEY && topk_types_supported(&key_type, &key_type),
            _ => false,
        }
    }
}

/// Whether `plan` gives all rows of its input, as they are.
fn passes_on(plan: &Node) -> bool {
    plan.is::<RepartitionExec>()
        || plan.is::<CooperativeExec>()
        || (plan.is::<CoalescePartitionsExec>() && plan.fetch().is_none())
}
