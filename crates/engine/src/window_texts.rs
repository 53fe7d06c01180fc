//! Texts that pass through windows.
//!
//! ```text
//!   views     [length, first bytes, buffer, place] ...   a slice, and what is appended to it, refers to all buffers so far
//!   offsets   [end of each] + bytes                      what is appended to a slice is copied, and no more than the slice
//!
//!   BoundedWindowAggExec                ProjectionExec: texts as views again
//!     input                      ─▶       BoundedWindowAggExec
//!                                           ProjectionExec: texts with offsets
//!                                             input
//! ```
//!
//! DataFusion 55 appends each batch to the rows that are not computed yet, and slices those off that are. Of views that keeps
//! the buffers of all batches, and looks at all of them with each: 5 million rows with a text of 50 bytes, `sum(v) OVER (ORDER
//! BY k)`, took 19.3 s where they take 3.0 s without the text, and held all texts in memory (two cores, 2026-11-26). Columns that a
//! window computes with, or that rows are known to be in the order of, stay views.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Has texts pass through windows as bytes of their own. After all rules that look for windows.
#[derive(Debug)]
pub(crate) struct WindowTexts;

impl PhysicalOptimizerRule for WindowTexts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() else {
                return Ok(Transformed::no(node));
            };
            Ok(match copying(window)? {
                Some(copying) if promises_the_same(&node, &copying) => Transformed::yes(copying),
                _ => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "pelton_window_texts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `window` over texts with offsets; `None` where it has none to pass on.
fn copying(window: &BoundedWindowAggExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (input, used) = (window.input(), used_columns(window));
    let schema = input.schema();
    // DataFusion says of nobody's columns that a FILTER reads them (window_filters.rs leaves few).
    if window.window_expr().iter().any(|expr| format!("{expr:?}").contains("filter: Some(")) {
        return Ok(None);
    }
    let passed =
        |index: usize| with_offsets(schema.field(index).data_type()).filter(|_| !used.contains(&index));
    if !(0..schema.fields().len()).any(|index| passed(index).is_some()) {
        return Ok(None);
    }
    let column = |index: usize, of: &dyn ExecutionPlan| -> (Arc<dyn PhysicalExpr>, String) {
        let name = of.schema().field(index).name().clone();
        (Arc::new(Column::new(&name, index)), name)
    };
    let cast = |(expr, name): (Arc<dyn PhysicalExpr>, String), to: DataType| {
        (Arc::new(CastExpr::new(expr, to, None)) as Arc<dyn PhysicalExpr>, name)
    };
    let below = (0..schema.fields().len()).map(|index| match passed(index) {
        Some(ty) => cast(column(index, input.as_ref()), ty),
        None => column(index, input.as_ref()),
    });
    let below = Arc::new(ProjectionExec::try_new(below.collect::<Vec<_>>(), Arc::clone(input))?);
    let (exprs, mode) = (window.window_expr().to_vec(), window.input_order_mode.clone());
    let can_repartition = !window.partition_keys().is_empty();
    let inner = Arc::new(BoundedWindowAggExec::try_new(exprs, below, mode, can_repartition)?);
    let above = (0..inner.schema().fields().len()).map(|index| {
        let is_passed = index < schema.fields().len() && passed(index).is_some();
        match is_passed {
            true => cast(column(index, inner.as_ref()), schema.field(index).data_type().clone()),
            false => column(index, inner.as_ref()),
        }
    });
    let above = above.collect::<Vec<_>>();
    Ok(Some(Arc::new(ProjectionExec::try_new(above, inner)?)))
}

/// The type of the same texts or bytes without views; `None` for all others.
fn with_offsets(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Utf8View => Some(DataType::LargeUtf8),
        DataType::BinaryView => Some(DataType::LargeBinary),
        _ => None,
    }
}

/// Columns of its input that `window` computes with, or whose order or partitions others may count on.
fn used_columns(window: &BoundedWindowAggExec) -> HashSet<usize> {
    let of_window = |expr: &Arc<dyn WindowExpr>| {
        let all = expr.all_expressions();
        all.args.into_iter().chain(all.partition_by_exprs).chain(all.order_by_exprs).collect::<Vec<_>>()
    };
    let mut exprs: Vec<Arc<dyn PhysicalExpr>> = window.window_expr().iter().flat_map(of_window).collect();
    let order = window.properties().output_ordering().into_iter().flatten();
    exprs.extend(order.map(|key| Arc::clone(&key.expr)));
    if let Partitioning::Hash(keys, _) = window.properties().output_partitioning() {
        exprs.extend(keys.iter().cloned());
    }
    exprs.iter().flat_map(collect_columns).map(|column| column.index()).collect()
}

/// Whether parents of `before` find what they count on in `after`.
fn promises_the_same(before: &Arc<dyn ExecutionPlan>, after: &Arc<dyn ExecutionPlan>) -> bool {
    let is_in_order = before
        .output_ordering()
        .is_none_or(|order| after.equivalence_properties().ordering_satisfy(order.clone()).unwrap_or(false));
    is_in_order
        && before.schema() == after.schema()
        && before.output_partitioning() == after.output_partitioning()
}
