//! Aggregates and the order of rows: those that do not depend on it do without, and those that do get theirs.
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
//!
//! An ORDER BY inside of an aggregate that does not depend on it is dropped, as in `count(k ORDER BY t)`: DataFusion 55 hands
//! the keys of the order to the function, and `count` takes them for what is counted. And of texts that are put together in
//! several orders in one aggregate, which DataFusion refuses, those of all orders but the first become lists, which are sorted
//! on their own:
//!
//! ```text
//!   string_agg(t, ',' ORDER BY id)     ─▶     array_to_string(array_agg(t ORDER BY id) FILTER (WHERE t IS NOT NULL), ',')
//! ```
//!
//! Distinct values are put in order by the function itself (`distinct.rs`).

mod distinct;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_nested::expr_fn::array_to_string;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, SortExpr, Window, cast, ident, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::window_functions::row_number;

/// Aggregates that take rows in their order.
const ORDERED: [&str; 5] = ["array_agg", "string_agg", "first_value", "last_value", "nth_value"];

/// Aggregates that give the same for rows in any order, beside those of regression (`regr_…`).
const UNORDERED: [&str; 19] = [
    "approx_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "median",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// The column of the numbers.
const NUMBER: &str = "pelton.order";

/// The columns of lists.
const LIST: &str = "pelton.list";

/// Makes aggregates follow the order of their input.
#[derive(Debug)]
pub(crate) struct OrderedAggregatesRule;

impl AnalyzerRule for OrderedAggregatesRule {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let ordered = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => {
                let aggregate =
                    without_needless_orders(aggregate)?.transform_data(distinct_in_their_order)?;
                let numbered = aggregate.transform_data(|aggregate| {
                    match aggregate.aggr_expr.iter().any(follows_rows) && is_ordered(&aggregate.input) {
                        true => by_number(aggregate),
                        false => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
                    }
                });
                numbered?.transform_data(in_one_order)
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

/// `aggregate` without the ORDER BY of functions that do not depend on it.
fn without_needless_orders(mut aggregate: Aggregate) -> Result<Transformed<Aggregate>> {
    let is_needless = |expr: &Expr| match expr {
        Expr::AggregateFunction(call) => {
            let name = call.func.name();
            !call.params.order_by.is_empty() && (UNORDERED.contains(&name) || name.starts_with("regr_"))
        }
        _ => false,
    };
    let has_needless = |expr: &Expr| expr.exists(|expr| Ok(is_needless(expr))).unwrap_or(false);
    if !aggregate.aggr_expr.iter().any(has_needless) {
        return Ok(Transformed::no(aggregate));
    }
    let names = NamePreserver::new_for_projection();
    let without = |expr: Expr| -> Result<Expr> {
        let name = names.save(&expr);
        let without = expr.transform_up(|expr| {
            Ok(match expr {
                expr @ Expr::AggregateFunction(_) if !is_needless(&expr) => Transformed::no(expr),
                Expr::AggregateFunction(mut call) => {
                    call.params.order_by.clear();
                    Transformed::yes(Expr::AggregateFunction(call))
                }
                other => Transformed::no(other),
            })
        });
        Ok(name.restore(without?.data))
    };
    let calls = std::mem::take(&mut aggregate.aggr_expr);
    aggregate.aggr_expr = calls.into_iter().map(without).collect::<Result<_>>()?;
    Ok(Transformed::yes(aggregate))
}

/// `aggregate` with functions that put distinct values in order whatever order rows come in.
fn distinct_in_their_order(mut aggregate: Aggregate) -> Result<Transformed<Aggregate>> {
    let replaced = |expr: Expr| {
        expr.transform_up(|expr| {
            Ok(match expr {
                Expr::AggregateFunction(mut call) => match distinct::in_its_order(&call) {
                    Some(function) => {
                        call.func = function;
                        Transformed::yes(Expr::AggregateFunction(call))
                    }
                    None => Transformed::no(Expr::AggregateFunction(call)),
                },
                other => Transformed::no(other),
            })
        })
    };
    let calls = std::mem::take(&mut aggregate.aggr_expr);
    let mut is_changed = false;
    for call in calls {
        let call = replaced(call)?;
        is_changed |= call.transformed;
        aggregate.aggr_expr.push(call.data);
    }
    Ok(Transformed::new_transformed(aggregate, is_changed))
}

/// `plan` with texts in one order alone, where it is an aggregate that puts them together in several.
fn in_one_order(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    let mut orders = aggregate.aggr_expr.iter().filter_map(ordered_texts).map(|call| &call.params.order_by);
    let Some(first) = orders.next() else { return Ok(Transformed::no(plan)) };
    if orders.all(|order| order == first) {
        return Ok(Transformed::no(plan));
    }
    let columns = aggregate.schema.columns();
    let mut output: Vec<Expr> = columns.iter().cloned().map(Expr::Column).collect();
    let mut calls = aggregate.aggr_expr.clone();
    let first_call = columns.len() - calls.len();
    for (number, call) in aggregate.aggr_expr.iter().enumerate() {
        let Some(texts) = ordered_texts(call).filter(|call| call.params.order_by != *first) else { continue };
        let [text, delimiter] = &texts.params.args[..] else { continue };
        let name = format!("{LIST}.{number}");
        let delimiter = match delimiter {
            Expr::Literal(value, _) if value.is_null() => lit(""),
            other => other.clone(),
        };
        let (qualifier, field) = aggregate.schema.qualified_field(first_call + number);
        let joined = array_to_string(Expr::Column(Column::new_unqualified(&name)), delimiter);
        output[first_call + number] =
            cast(joined, field.data_type().clone()).alias_qualified(qualifier.cloned(), field.name());
        calls[number] = list_of(texts, text).alias(name);
    }
    let input = Arc::clone(&aggregate.input);
    let lists = LogicalPlan::Aggregate(Aggregate::try_new(input, aggregate.group_expr.clone(), calls)?);
    Ok(Transformed::yes(LogicalPlanBuilder::from(lists).project(output)?.build()?))
}

/// The call of `string_agg` that `expr` is, if it takes rows in an ORDER BY.
fn ordered_texts(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => ordered_texts(&alias.expr),
        Expr::AggregateFunction(call)
            if call.func.name() == "string_agg"
                && !call.params.order_by.is_empty()
                && !distinct::sorts_itself(call) =>
        {
            Some(call)
        }
        _ => None,
    }
}

/// The texts that `call` puts together, in its order; NULL where there are none.
fn list_of(call: &AggregateFunction, text: &Expr) -> Expr {
    let is_there = text.clone().is_not_null();
    let mut params = call.params.clone();
    params.args.truncate(1);
    params.filter = Some(Box::new(match params.filter.take() {
        Some(filter) => is_there.and(*filter),
        None => is_there,
    }));
    Expr::AggregateFunction(AggregateFunction { func: array_agg_udaf(), params })
}

/// Whether there is an aggregate in `expr` that takes rows as they come.
fn follows_rows(expr: &Expr) -> bool {
    let found = expr.exists(|expr| {
        Ok(match expr {
            // What is distinct comes in no order but its own, and DataFusion knows no other for it.
            Expr::AggregateFunction(call) => {
                let params = &call.params;
                params.order_by.is_empty() && !params.distinct && ORDERED.contains(&call.func.name())
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
