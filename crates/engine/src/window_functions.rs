//! Functions over windows, where DataFusion 55 loses count or digits, or gives another type.
//!
//! ```text
//!   sum, avg, var, stddev of doubles      folded.rs    never subtract: two stacks of partial results
//!   bool_and, bool_or                     truth.rs     count what is true and what is false
//!   string_agg, bit_and, bit_or, median,
//!   sum and avg of DISTINCT doubles,
//!   covar_pop, covar_samp, corr, regr_…   anew.rs      aggregate the rows of each frame anew
//!   lag, lead                             shift.rs     IGNORE NULLS; rows and defaults from columns, or NULL
//!   nth_value                             nth.rs       numbers from columns
//!   row_number, rank, dense_rank, ntile   ranks.rs     are BIGINT
//! ```
//!
//! DataFusion takes out of an aggregate what leaves a frame. Of doubles that keeps what was rounded on the way: after 1e20 a sum
//! is 0, after a NaN it is NaN, and the variance of equal values is a number around 0. Aggregates that cannot take out
//! anything are an error there. `numbers` asks for `sum` and `avg` itself and registers the ranks, and the rule below gives
//! windows the others; what has no window is left to DataFusion.

mod anew;
mod folded;
mod function;
mod nth;
mod ranks;
mod shift;
mod truth;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Window, WindowFunctionDefinition};
use datafusion::optimizer::AnalyzerRule;

pub(crate) use folded::{average, sum};
pub(crate) use ranks::{ranks, row_number};

/// Adds `lag`, `lead` and `nth_value` in place of DataFusion's.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let functions = builder.window_functions().get_or_insert_default();
    functions.extend(shift::both());
    functions.push(nth::nth_value());
    builder
}

/// Gives windows the functions of this module. After types are coerced.
#[derive(Debug)]
pub(crate) struct WindowFunctions;

impl AnalyzerRule for WindowFunctions {
    fn name(&self) -> &str {
        "pelton_window_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Window(window) if window.window_expr.iter().any(has_replaced) => {
                let exprs = window.window_expr.into_iter().map(replaced).collect::<Result<Vec<_>>>()?;
                Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(exprs, window.input)?)))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

fn has_replaced(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::WindowFunction(call) if replacement(call).is_some())))
        .unwrap_or(false)
}

/// `expr` with functions of this module, under its old name.
fn replaced(expr: Expr) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&expr);
    let replaced = expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut call) => Ok(match replacement(&call) {
            Some(function) => {
                call.fun = function;
                Transformed::yes(Expr::WindowFunction(call))
            }
            None => Transformed::no(Expr::WindowFunction(call)),
        }),
        other => Ok(Transformed::no(other)),
    });
    Ok(name.restore(replaced?.data))
}

/// What to compute `call` by, if it is not computed by that already.
fn replacement(call: &WindowFunction) -> Option<WindowFunctionDefinition> {
    match &call.fun {
        WindowFunctionDefinition::AggregateUDF(inner) => {
            function::sliding(inner, call.params.distinct).map(WindowFunctionDefinition::AggregateUDF)
        }
        WindowFunctionDefinition::WindowUDF(inner)
            if call.params.null_treatment == Some(NullTreatment::IgnoreNulls) =>
        {
            shift::passing_over_nulls(inner).map(|shift| WindowFunctionDefinition::WindowUDF(Arc::new(shift)))
        }
        WindowFunctionDefinition::WindowUDF(_) => None,
    }
}
