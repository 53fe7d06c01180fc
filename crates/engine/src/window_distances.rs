//! Keys of frames by distances have room for what lies beyond them.
//!
//! ```text
//!   sum(x) OVER (ORDER BY k RANGE 3 PRECEDING)      ─▶     sum(x) OVER (ORDER BY CAST(k AS BIGINT) RANGE 3 PRECEDING)
//!     k a SMALLINT, say
//! ```
//!
//! DataFusion 55 adds distances to keys in the type of the keys. Where that has no such number, a frame goes on to the end of the
//! partition, with the rows whose key is NULL; 2 less 5 without a sign is 0, whose rows the frame then has; and a distance that the
//! type does not hold is taken for UNBOUNDED. A wider type holds all of these. Keys of BIGINT stay, for it is their ends alone that
//! distances pass seldom.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Window, WindowFrameBound, WindowFrameUnits, cast,
};
use datafusion::optimizer::AnalyzerRule;

/// Digits of the greatest number of 64 bits without a sign.
const UNSIGNED_DIGITS: u8 = 20;

/// Widens such keys. Before types are coerced, which gives distances the type of the key.
#[derive(Debug)]
pub(crate) struct WindowDistances;

impl AnalyzerRule for WindowDistances {
    fn name(&self) -> &str {
        "pelton_window_distances"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Window(window) if window.window_expr.iter().any(|expr| is_narrow(expr, &window)) => {
                let of_window = |expr: &Expr| widened(expr.clone(), &window);
                let exprs = window.window_expr.iter().map(of_window).collect::<Result<Vec<_>>>()?;
                Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(exprs, window.input)?)))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

/// Whether a key in `expr` is to be wider.
fn is_narrow(expr: &Expr, window: &Window) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::WindowFunction(call) if wider_type(call, window).is_some())))
        .unwrap_or(false)
}

/// `expr` with wider keys, under its old name.
fn widened(expr: Expr, window: &Window) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&expr);
    let changed = expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut call) => Ok(match wider_type(&call, window) {
            Some(wider) => {
                let key = &mut call.params.order_by[0].expr;
                *key = cast(key.clone(), wider);
                Transformed::yes(Expr::WindowFunction(call))
            }
            None => Transformed::no(Expr::WindowFunction(call)),
        }),
        other => Ok(Transformed::no(other)),
    });
    Ok(name.restore(changed?.data))
}

/// The type that the key of `call` is to have; `None` where its frame is by no distance of a key, or that has room.
fn wider_type(call: &WindowFunction, window: &Window) -> Option<DataType> {
    use DataType::{Decimal128, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let frame = &call.params.window_frame;
    let is_far = |bound: &WindowFrameBound| *bound != WindowFrameBound::CurrentRow && !bound.is_unbounded();
    let has_distance = is_far(&frame.start_bound) || is_far(&frame.end_bound);
    if frame.units != WindowFrameUnits::Range || !has_distance {
        return None;
    }
    let [key] = call.params.order_by.as_slice() else { return None };
    match key.expr.get_type(window.input.schema().as_ref()).ok()? {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Some(Int64),
        UInt64 => Some(Decimal128(UNSIGNED_DIGITS, 0)),
        _ => None,
    }
}
