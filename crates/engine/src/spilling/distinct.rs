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
use datafusion::common::{Column, JoinType, NullEquality, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Case, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::provider::PeltonTable;

/// Begins the names of keys that a part is joined by; nobody asks for them.
const KEY_PREFIX: &str = "__pelton_key_";
/// The name of the values that a part counts.
const VALUE: &str = "__pelton_value";
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

/// What is counted, where `expr` counts distinct values of it: of `count(DISTINCT x) FILTER (WHERE f)` CASE WHEN f THEN x END.
fn counted(expr: &Expr) -> Option<Expr> {
    let Expr::AggregateFunction(call) = expr else { return None };
    let params = &call.params;
    let [arg] = &params.args[..] else { return None };
    if !params.distinct || !params.order_by.is_empty() || call.func.name() != "count" {
        return None;
    }
    Some(match &params.filter {
        None => arg.clone(),
        Some(filter) => Expr::Case(Case::new(None, vec![(filter.clone(), Box::new(arg.clone()))], None)),
    })
}

/// Whether `aggregate` counts distinct values of several things, of an expression, or beside other aggregates, over stored rows
/// so many that a quarter of `limit` might not hold them.
fn are_many(aggregate: &Aggregate, limit: u64) -> Result<bool> {
    let counts = aggregate.aggr_expr.iter().filter_map(counted).collect::<Vec<_>>();
    let is_single = !aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
    // DataFusion itself groups one count of a column by its values.
    let is_grouped = aggregate.aggr_expr.len() == 1 && matches!(counts[..], [Expr::Column(_)]);
    if !is_single || counts.is_empty() || is_grouped {
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
    let named = |part: usize| {
        (0..aggregate.group_expr.len()).map(move |key| Column::from_name(format!("{KEY_PREFIX}{part}_{key}")))
    };
    let mut joined: Option<LogicalPlanBuilder> = None;
    for (number, part) in parts(aggregate)?.into_iter().enumerate() {
        let keys: Vec<Column> = named(number).collect();
        let part = renamed(part, &keys)?;
        joined = Some(match joined {
            None => LogicalPlanBuilder::from(part),
            Some(joined) if keys.is_empty() => joined.cross_join(part)?,
            Some(joined) => {
                let on = (named(0).collect::<Vec<_>>(), keys);
                joined.join_detailed(part, JoinType::Inner, on, None, NullEquality::NullEqualsNull)?
            }
        });
    }
    let columns =
        aggregate.schema.iter().enumerate().map(|(place, (qualifier, field))| match named(0).nth(place) {
            Some(key) => Expr::Column(key).alias_qualified(qualifier.cloned(), field.name()),
            None => Expr::Column(Column::from_name(field.name())),
        });
    joined.expect("there are aggregates").project(columns.collect::<Vec<_>>())?.build()
}

/// The aggregates that `aggregate` is made of: one for each distinct count, and one for all else.
fn parts(aggregate: &Aggregate) -> Result<Vec<LogicalPlan>> {
    let (counts, others): (Vec<&Expr>, Vec<&Expr>) =
        aggregate.aggr_expr.iter().partition(|expr| counted(expr).is_some());
    let mut parts = counts.into_iter().map(|count| counting(aggregate, count)).collect::<Result<Vec<_>>>()?;
    if !others.is_empty() {
        let exprs = others.into_iter().cloned().collect();
        let input = Arc::clone(&aggregate.input);
        parts.push(LogicalPlan::Aggregate(Aggregate::try_new(input, aggregate.group_expr.clone(), exprs)?));
    }
    Ok(parts)
}

/// The groups of `aggregate` with `count` alone, which counts a column: what DataFusion groups by. It looks for nothing else, and
/// an expression may be simplified into something that it does not look into.
fn counting(aggregate: &Aggregate, count: &Expr) -> Result<LogicalPlan> {
    let Some((Expr::AggregateFunction(call), value)) = Some(count).zip(counted(count)) else {
        return internal_err!("{count} counts no distinct values");
    };
    let name = |key| Column::from_name(format!("{KEY_PREFIX}{key}"));
    let keys = aggregate.group_expr.iter().enumerate();
    let mut exprs: Vec<Expr> = keys.map(|(key, expr)| expr.clone().alias(name(key).name)).collect();
    let keys = (0..exprs.len()).map(|key| Expr::Column(name(key))).collect::<Vec<_>>();
    exprs.push(value.alias(VALUE));
    let rows = LogicalPlanBuilder::from(aggregate.input.as_ref().clone()).project(exprs)?;
    let values = vec![Expr::Column(Column::from_name(VALUE))];
    let counted = AggregateFunction::new_udf(Arc::clone(&call.func), values, true, None, vec![], None);
    let counted = Expr::AggregateFunction(counted);
    let number = Expr::Column(Column::from_name(counted.schema_name().to_string()));
    let named = [&keys[..], &[number.alias(count.schema_name().to_string())]].concat();
    rows.aggregate(keys, vec![counted])?.project(named)?.build()
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
