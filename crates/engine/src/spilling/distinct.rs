//! Several COUNT(DISTINCT …) over a table, each by groups of its own, which spill.
//!
//! ```text
//!   Aggregate                            CrossJoin                       one row each
//!     count(DISTINCT a)                    Aggregate  count(DISTINCT a)  ─ DataFusion: count(a) over groups by a
//!     count(DISTINCT b), sum(c)   ─▶       Aggregate  count(DISTINCT b)
//!       t                                  Aggregate  sum(c)
//!                                            t, three times
//! ```
//!
//! By groups likewise, and what is joined are rows of the same keys, of which each part has one.
//!
//! Only over stored tables, which give the same rows each time, and only where the values might not fit.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::PeltonTable;

/// Begins the names of keys that a part is joined by; nobody asks for them.
const KEY_PREFIX: &str = "__pelton_key_";
/// Bytes of a distinct value in a set.
const VALUE_BYTES: u64 = 48;

/// See the module.
#[derive(Debug)]
pub(crate) struct DistinctCounts {
    limit_bytes: Option<u64>,
}

impl DistinctCounts {
    /// For queries of `limit_bytes`.
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes }
    }
}

impl AnalyzerRule for DistinctCounts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(limit) = self.limit_bytes else { return Ok(plan) };
        let apart = plan.transform_up_with_subqueries(|plan| match &plan {
            LogicalPlan::Aggregate(aggregate) if are_many(aggregate, limit)? => {
                Ok(Transformed::yes(apart(aggregate)?))
            }
            _ => Ok(Transformed::no(plan)),
        });
        Ok(apart?.data)
    }

    fn name(&self) -> &str {
        "pelton_distinct_counts"
    }
}

/// What is counted, where `expr` counts distinct values of it.
fn counted(expr: &Expr) -> Option<&Expr> {
    let Expr::AggregateFunction(call) = expr else { return None };
    let params = &call.params;
    let is_plain = params.distinct && params.filter.is_none() && params.order_by.is_empty();
    match &params.args[..] {
        [arg] if is_plain && call.func.name() == "count" => Some(arg),
        _ => None,
    }
}

/// Whether `aggregate` counts distinct values of several things, or of one beside other aggregates, over stored rows so
/// many that a quarter of `limit` might not hold them.
fn are_many(aggregate: &Aggregate, limit: u64) -> Result<bool> {
    let counts = aggregate.aggr_expr.iter().filter(|expr| counted(expr).is_some()).count();
    let is_single = !aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if !is_single || counts == 0 || aggregate.aggr_expr.len() < 2 {
        return Ok(false);
    }
    let mut own = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
    let (mut rows, mut is_stored) = (0, !own.any(Expr::is_volatile));
    aggregate.input.apply_with_subqueries(|plan| {
        match plan {
            LogicalPlan::TableScan(scan) => match source_as_provider(&scan.source) {
                Ok(provider) => match provider.downcast_ref::<PeltonTable>() {
                    Some(table) => rows = rows.max(table.table().row_count()),
                    None => is_stored = false,
                },
                Err(_) => is_stored = false,
            },
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Join(_) => {}
            _ => is_stored = false,
        }
        for expr in plan.expressions() {
            is_stored &= !expr.is_volatile();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_stored && rows.saturating_mul(VALUE_BYTES) > limit / 4)
}

/// `aggregate` as a join of aggregates, each over all rows.
fn apart(aggregate: &Aggregate) -> Result<LogicalPlan> {
    let (counts, others): (Vec<&Expr>, Vec<&Expr>) =
        aggregate.aggr_expr.iter().partition(|expr| counted(expr).is_some());
    let mut parts: Vec<Vec<Expr>> = counts.into_iter().map(|expr| vec![expr.clone()]).collect();
    if !others.is_empty() {
        parts.push(others.into_iter().cloned().collect());
    }
    let key_count = aggregate.group_expr.len();
    let columns = aggregate
        .schema
        .iter()
        .map(|(qualifier, field)| Column::new(qualifier.cloned(), field.name().clone()))
        .collect::<Vec<_>>();
    let keys = &columns[..key_count];
    let mut joined: Option<LogicalPlanBuilder> = None;
    for (number, exprs) in parts.into_iter().enumerate() {
        let part = Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), exprs)?;
        let part = LogicalPlan::Aggregate(part);
        joined = Some(match joined {
            None => LogicalPlanBuilder::from(part),
            Some(joined) if keys.is_empty() => joined.cross_join(part)?,
            Some(joined) => {
                let named = (0..key_count).map(|key| format!("{KEY_PREFIX}{number}_{key}"));
                let named: Vec<Column> = named.map(Column::from_name).collect();
                let part = renamed(part, &named)?;
                let on = (keys.to_vec(), named);
                joined.join_detailed(part, JoinType::Inner, on, None, NullEquality::NullEqualsNull)?
            }
        });
    }
    let columns = columns.into_iter().map(Expr::Column);
    joined.expect("there are aggregates").project(columns.collect::<Vec<_>>())?.build()
}

/// `part` with these names for its first columns.
fn renamed(part: LogicalPlan, names: &[Column]) -> Result<LogicalPlan> {
    let columns = part.schema().columns().into_iter().enumerate().map(|(place, column)| {
        let name = names.get(place).map(|name| name.name.clone());
        let column = Expr::Column(column);
        match name {
            Some(name) => column.alias(name),
            None => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(part).project(columns)?.build()
}
