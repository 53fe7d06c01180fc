//! Several COUNT(DISTINCT …) over all of a table, each by groups of its own, which spill.
//!
//! ```text
//!   Aggregate                            CrossJoin                       one row each
//!     count(DISTINCT a)                    Aggregate  count(DISTINCT a)  ─ DataFusion: count(a) over groups by a
//!     count(DISTINCT b), sum(c)   ─▶       Aggregate  count(DISTINCT b)
//!       t                                  Aggregate  sum(c)
//!                                            t, three times
//! ```
//!
//! Only over stored tables, which give the same rows each time, and only where the values might not fit.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::PeltonTable;

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
    if !aggregate.group_expr.is_empty() || counts == 0 || aggregate.aggr_expr.len() < 2 {
        return Ok(false);
    }
    let (mut rows, mut is_stored) = (0, true);
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
    let mut joined: Option<LogicalPlanBuilder> = None;
    for exprs in parts {
        let part = Aggregate::try_new(Arc::clone(&aggregate.input), Vec::new(), exprs)?;
        let part = LogicalPlan::Aggregate(part);
        joined = Some(match joined {
            None => LogicalPlanBuilder::from(part),
            Some(joined) => joined.cross_join(part)?,
        });
    }
    let columns = aggregate
        .schema
        .iter()
        .map(|(qualifier, field)| Expr::Column(Column::new(qualifier.cloned(), field.name().clone())));
    joined.expect("there are aggregates").project(columns.collect::<Vec<_>>())?.build()
}
