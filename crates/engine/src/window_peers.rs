//! Frames of peers by keys that have no distances.
//!
//! ```text
//!   rank() OVER (ORDER BY i)      RANGE  BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
//!                            ─▶   GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
//! ```
//!
//! The frame of a window that names none is a RANGE. DataFusion 55 looks for the type of its distances, which for keys such as
//! intervals, times of day and binary values is an error, although such a frame has no distance. In groups of peers it is the
//! same rows.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

/// Writes such frames as GROUPS. Before types are coerced, which is where the error comes from.
#[derive(Debug)]
pub(crate) struct WindowPeers;

impl AnalyzerRule for WindowPeers {
    fn name(&self) -> &str {
        "pelton_window_peers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Window(window) if window.window_expr.iter().any(|expr| has_peers(expr, &window)) => {
                let of_window = |expr: &Expr| of_groups(expr.clone(), &window);
                let exprs = window.window_expr.iter().map(of_window).collect::<Result<Vec<_>>>()?;
                Ok(Transformed::yes(LogicalPlan::Window(Window::try_new(exprs, window.input)?)))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

fn has_peers(expr: &Expr, window: &Window) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::WindowFunction(call) if is_of_peers(call, window))))
        .unwrap_or(false)
}

/// `expr` with frames of groups, under its old name.
fn of_groups(expr: Expr, window: &Window) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(&expr);
    let changed = expr.transform_up(|expr| match expr {
        Expr::WindowFunction(mut call) if is_of_peers(&call, window) => {
            let frame = &call.params.window_frame;
            let (start, end) = (frame.start_bound.clone(), frame.end_bound.clone());
            call.params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(name.restore(changed?.data))
}

/// Whether the frame of `call` is by a key without distances, and has none.
fn is_of_peers(call: &WindowFunction, window: &Window) -> bool {
    let frame = &call.params.window_frame;
    let is_near = |bound: &WindowFrameBound| *bound == WindowFrameBound::CurrentRow || bound.is_unbounded();
    if frame.units != WindowFrameUnits::Range || !is_near(&frame.start_bound) || !is_near(&frame.end_bound) {
        return false;
    }
    let Some(key) = call.params.order_by.first() else { return false };
    key.expr.get_type(window.input.schema().as_ref()).is_ok_and(|data_type| !has_distances(&data_type))
}

/// Types that DataFusion takes for the key of a RANGE.
fn has_distances(data_type: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Duration, FixedSizeBinary, Interval, LargeBinary, Struct, Time32, Time64,
    };
    !matches!(
        data_type,
        Interval(_)
            | Duration(_)
            | Time32(_)
            | Time64(_)
            | Binary
            | LargeBinary
            | BinaryView
            | FixedSizeBinary(_)
            | Struct(_)
    )
}
