//! Frames that end before the row, by distances of a key that may be NULL.
//!
//! ```text
//!   sum(x) OVER (ORDER BY k RANGE BETWEEN 9 PRECEDING AND 4 PRECEDING)      of a row whose k is NULL: all rows whose k is NULL
//!
//!   BoundedWindowAggExec: rows are computed as their batches come     ─▶     WindowAggExec: once the partition is there
//! ```
//!
//! DataFusion 55 takes such a frame for one that needs no later rows. Rows whose key is NULL are peers, and some of them may be
//! in a later batch: what they had depended on how rows were cut into batches.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

/// Has windows of such frames wait for their last NULL.
#[derive(Debug)]
pub(crate) struct WindowFrames;

impl PhysicalOptimizerRule for WindowFrames {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else {
                return Ok(Transformed::no(node));
            };
            let schema = window.input().schema();
            let waits_in_vain = |expr: &Arc<dyn WindowExpr>| {
                ends_before(expr)
                    && expr.order_by().iter().any(|key| key.expr.nullable(&schema).unwrap_or(true))
            };
            if window.window_expr().iter().any(waits_in_vain) {
                return whole(window).map(Transformed::yes);
            }
            Ok(Transformed::no(node))
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "pelton_window_frames"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the frame of `expr` is by distances and ends before the row.
fn ends_before(expr: &Arc<dyn WindowExpr>) -> bool {
    let frame = expr.get_window_frame();
    let is_far =
        |bound: &WindowFrameBound| matches!(bound, WindowFrameBound::Preceding(far) if !far.is_null());
    frame.units == WindowFrameUnits::Range && is_far(&frame.end_bound)
}

/// What computes `window` once a partition is there, with what rows come in the order of.
fn whole(window: &BoundedWindowAggExec) -> Result<Arc<dyn ExecutionPlan>> {
    let exprs = window.window_expr().to_vec();
    if window.input_order_mode == InputOrderMode::Sorted {
        return Ok(Arc::new(WindowAggExec::try_new(exprs, Arc::clone(window.input()), true)?));
    }
    // Its partitions are not sorted: they have to be, and what comes out is in the order of before.
    let mut keys = window.partition_by_sort_keys()?;
    keys.extend(exprs.first().into_iter().flat_map(|expr| expr.order_by().iter().cloned()));
    let sorted = |keys: LexOrdering, input| -> Arc<dyn ExecutionPlan> {
        Arc::new(SortExec::new(keys, input).with_preserve_partitioning(true))
    };
    let input = match LexOrdering::new(keys) {
        Some(keys) => sorted(keys, Arc::clone(window.input())),
        None => Arc::clone(window.input()),
    };
    let whole = Arc::new(WindowAggExec::try_new(exprs, input, true)?);
    Ok(match window.properties().output_ordering() {
        Some(keys) => sorted(keys.clone(), whole),
        None => whole,
    })
}
