//! FILTER of aggregates over windows: what the condition leaves out is NULL to the aggregate.
//!
//! ```text
//!   sum(x) FILTER (WHERE p) OVER w      ─▶   sum(CASE WHEN p THEN x END) OVER w
//!   count(*) FILTER (WHERE p) OVER w    ─▶   count(CASE WHEN p THEN 1 END) OVER w
//! ```
//!
//! DataFusion 55 keeps the condition where no optimisation sees it: whoever gives the columns below a window other places
//! leaves it with the old ones. An argument is seen by all, and by kernels. Only aggregates that pass over NULL are
//! rewritten.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Window, WindowFunctionDefinition, when};
use datafusion::optimizer::AnalyzerRule;

/// Aggregates to which NULL is no value; of two arguments, wherever it is.
const WITHOUT_NULL: [&str; 20] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "covar_samp",
    "covar_pop",
    "corr",
    "median",
    "percentile_cont",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "string_agg",
];

/// Moves conditions of windows to what they are over.
#[derive(Debug)]
pub(crate) struct WindowFilters;

impl AnalyzerRule for WindowFilters {
    fn name(&self) -> &str {
        "pelton_window_filters"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Window(window) if window.window_expr.iter().any(has_filter) => {
                let exprs = window.window_expr.into_iter().map(without_filter).collect::<Result<Vec<_>>>()?;
                Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(exprs, window.input)?)))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

/// Whether there is a condition in `expr` that can be moved.
fn has_filter(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::WindowFunction(call) if is_movable(call)))).unwrap_or(false)
}

fn is_movable(call: &WindowFunction) -> bool {
    let passes_over_null = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(aggregate) => WITHOUT_NULL.contains(&aggregate.name()),
        WindowFunctionDefinition::WindowUDF(_) => false,
    };
    passes_over_null && call.params.filter.is_some() && !call.params.args.is_empty()
}

/// `expr`, under its old name.
fn without_filter(expr: Expr) -> Result<Expr> {
    let names = NamePreserver::new_for_projection();
    let name = names.save(&expr);
    let moved = expr.transform_up(|expr| match expr {
        Expr::WindowFunction(call) if is_movable(&call) => {
            let WindowFunction { fun, params } = *call;
            let WindowFunctionParams { mut args, filter, .. } = params;
            if let Some(condition) = filter {
                args[0] = when(*condition, args[0].clone()).end()?;
            }
            let params = WindowFunctionParams { args, filter: None, ..params };
            Ok(Transformed::yes(Expr::WindowFunction(Box::new(WindowFunction { fun, params }))))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(name.restore(moved?.data))
}
