//! Aggregates whose result depends on the order of rows, over a subquery that has an ORDER BY.
//!
//! ```text
//!   array_agg(v)                              array_agg(v ORDER BY n)
//!     Sort: t DESC                   ─▶         Window: row_number() AS n
//!                                                 Sort: t DESC
//! ```
//!
//! DataFusion keeps the order of a subquery for LIMIT and for windows without an order of their own, but deals rows to
//! several partitions below an aggregate, and then drops the sort, for nothing seems to need it. So the rows get numbers
//! where they are in order, and the aggregate is told to take them by number.
//!
//! A window without an order of its own keeps its input's only until an operator above wants another order: DataFusion
//! then sorts below the window by that. So such a window gets the keys of the subquery, where it still sees them.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, Window, ident,
};
use datafusion::optimizer::AnalyzerRule;

/// Aggregates that take rows in their order.
const ORDERED: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// The column of the numbers.
const NUMBER: &str = "pelton.order";

/// Makes aggregates follow the order of their input.
#[derive(Debug)]
pub(crate) struct OrderedAggregatesRule;

impl AnalyzerRule for OrderedAggregatesRule {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let ordered = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate)
                if aggregate.aggr_expr.iter().any(follows_rows) && is_ordered(&aggregate.input) =>
            {
                by_number(aggregate)
            }
            LogicalPlan::Window(window) if window.window_expr.iter().any(is_unordered) => {
                match order_of(&window.input) {
                    Some(keys) => by_keys(window, &keys),
                    None => Ok(Transformed::no(LogicalPlan::Window(window))),
                }
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(ordered?.data)
    }

    fn name(&self) -> &str {
        "pelton_ordered_aggregates"
    }
}

/// Whether there is an aggregate in `expr` that takes rows as they come.
fn follows_rows(expr: &Expr) -> bool {
    let found = expr.exists(|expr| {
        Ok(match expr {
            Expr::AggregateFunction(call) => {
                call.params.order_by.is_empty() && ORDERED.contains(&call.func.name())
            }
            _ => false,
        })
    });
    found.unwrap_or(false)
}

/// Whether rows of `plan` come in an order that was asked for.
fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Projection(projection) => is_ordered(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_ordered(&alias.input),
        LogicalPlan::Filter(filter) => is_ordered(&filter.input),
        LogicalPlan::Limit(limit) => is_ordered(&limit.input),
        LogicalPlan::Unnest(unnest) => is_ordered(&unnest.input),
        _ => false,
    }
}

fn by_number(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    // By the keys, where they are to be seen: a sort below a window without an order may be taken for needless.
    let number = match order_of(&aggregate.input) {
        Some(keys) => row_number().order_by(keys).build()?,
        None => row_number(),
    };
    let numbered = LogicalPlanBuilder::new_from_arc(Arc::clone(&aggregate.input))
        .window(vec![number.alias(NUMBER)])?
        .build()?;
    let names = NamePreserver::new_for_projection();
    let by_number = |expr: Expr| -> Result<Expr> {
        let name = names.save(&expr);
        let ordered = expr.transform_up(|expr| {
            Ok(match expr {
                Expr::AggregateFunction(mut call) if follows_rows(&Expr::AggregateFunction(call.clone())) => {
                    let order_by = vec![ident(NUMBER).sort(true, false)];
                    call.params = AggregateFunctionParams { order_by, ..call.params };
                    Transformed::yes(Expr::AggregateFunction(call))
                }
                other => Transformed::no(other),
            })
        });
        Ok(name.restore(ordered?.data))
    };
    let aggr_expr = aggregate.aggr_expr.into_iter().map(by_number).collect::<Result<Vec<_>>>()?;
    let input = Arc::new(numbered);
    let plan = Aggregate::try_new_with_schema(input, aggregate.group_expr, aggr_expr, aggregate.schema)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(plan)))
}

/// Window functions that take rows in their order. The others give peers the same value, and so need no order.
const ORDERED_WINDOWS: [&str; 8] =
    ["row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value", "array_agg"];

/// Whether `expr` is a window over all rows as they come, whose values depend on that.
fn is_unordered(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_unordered(&alias.expr),
        Expr::WindowFunction(call) => {
            let params = &call.params;
            params.order_by.is_empty()
                && params.partition_by.is_empty()
                && ORDERED_WINDOWS.contains(&call.fun.name())
        }
        _ => false,
    }
}

/// The keys that the rows of `plan` are in order by, as expressions over them; `None` where it does not show them all.
fn order_of(plan: &LogicalPlan) -> Option<Vec<SortExpr>> {
    match plan {
        LogicalPlan::Sort(sort) => Some(sort.expr.clone()),
        LogicalPlan::Filter(filter) => order_of(&filter.input),
        LogicalPlan::Limit(limit) => order_of(&limit.input),
        LogicalPlan::SubqueryAlias(alias) => {
            let place = |column: &Column| alias.input.schema().maybe_index_of_column(column);
            shown(order_of(&alias.input)?, plan, &place)
        }
        LogicalPlan::Projection(projection) => {
            let place = |column: &Column| {
                let is_column =
                    |expr: &Expr| matches!(expr.clone().unalias(), Expr::Column(found) if found == *column);
                projection.expr.iter().position(is_column)
            };
            shown(order_of(&projection.input)?, plan, &place)
        }
        _ => None,
    }
}

/// `keys` with the columns of `plan` in place of those below it, which are at `place`.
fn shown(
    keys: Vec<SortExpr>,
    plan: &LogicalPlan,
    place: &dyn Fn(&Column) -> Option<usize>,
) -> Option<Vec<SortExpr>> {
    let columns = plan.schema().columns();
    let keys = keys.into_iter().map(|key| {
        let mut is_shown = true;
        let expr = key.expr.transform_up(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match place(column) {
                    Some(index) => Transformed::yes(Expr::Column(columns[index].clone())),
                    None => {
                        is_shown = false;
                        Transformed::no(expr)
                    }
                },
                _ => Transformed::no(expr),
            })
        });
        let expr = expr.ok()?.data;
        is_shown.then_some(SortExpr { expr, asc: key.asc, nulls_first: key.nulls_first })
    });
    keys.collect()
}

fn by_keys(window: Window, keys: &[SortExpr]) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new_for_projection();
    let by_keys = |expr: Expr| -> Result<Expr> {
        if !is_unordered(&expr) {
            return Ok(expr);
        }
        let name = names.save(&expr);
        let ordered = expr.transform_up(|expr| {
            Ok(match expr {
                Expr::WindowFunction(mut call) => {
                    call.params.order_by = keys.to_vec(); // the frame stays the one of all rows
                    Transformed::yes(Expr::WindowFunction(call))
                }
                other => Transformed::no(other),
            })
        });
        Ok(name.restore(ordered?.data))
    };
    let exprs = window.window_expr.into_iter().map(by_keys).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(exprs, window.input)?)))
}
