//! Windows whose values follow from the rows so far, batch by batch.
//!
//! ```text
//!   rows, sorted by partition and order ──▶ where partitions and peers begin ──▶ one pass over the batch for each function
//!                                                                                    │ sums of RANGE frames wait for the last peer
//!                                                                                    └──▶ the batch with its values
//! ```
//!
//! row_number, rank, dense_rank, lag and lead, and count, sum, avg, min, max, first_value and last_value from the start of a
//! partition to the row or its peers, or of so many rows around it. Rows wait for those after them that are asked for.
//! DataFusion's operator keeps rows and state for each partition apart, which takes longer than the sort below where
//! partitions have some ten rows (docs/perf/limits.md). It keeps the other functions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::BoundedWindowAggExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties,
    replace_children_if_necessary,
};

use crate::stand_in::answers_of;

mod around;
mod function;
mod moving;
mod run;
#[cfg(test)]
mod tests;
mod values;

use function::Function;
use run::Run;

/// Has windows run in one pass where they may. After the rule that looks for windows for a device.
#[derive(Debug)]
pub(crate) struct RunningWindows;

impl PhysicalOptimizerRule for RunningWindows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            Ok(match RunningWindowExec::of(&node) {
                Some(running) => Transformed::yes(Arc::new(running) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "pelton_running_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A window operator that keeps what it has come to, and no rows but those that wait for others. See the module.
pub(crate) struct RunningWindowExec {
    window: Arc<BoundedWindowAggExec>,
    functions: Vec<Function>,
    metrics: ExecutionPlanMetricsSet,
}

impl RunningWindowExec {
    /// In place of `node`, where it is a window over sorted rows and has these functions alone.
    fn of(node: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let window: Arc<dyn Any + Send + Sync> = Arc::clone(node) as _;
        let window = window.downcast::<BoundedWindowAggExec>().ok()?;
        if window.input_order_mode != InputOrderMode::Sorted || window.state_observer().is_some() {
            return None;
        }
        let schema = window.input().schema();
        let functions = window.window_expr().iter().map(|expr| Function::of(expr, &schema));
        let functions = functions.collect::<Option<_>>()?;
        Some(Self { window, functions, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// DataFusion's operator.
    pub(crate) fn replaced(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.window) as _
    }
}

impl fmt::Debug for RunningWindowExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningWindowExec").field("window", &self.window).finish_non_exhaustive()
    }
}

impl DisplayAs for RunningWindowExec {
    fn fmt_as(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(form, DisplayFormatType::TreeRender) {
            f.write_str("RunningWindowExec of ")?;
        }
        self.window.fmt_as(form, f)
    }
}

impl ExecutionPlan for RunningWindowExec {
    answers_of!(window);

    fn name(&self) -> &str {
        "RunningWindowExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = replace_children_if_necessary(Arc::clone(&self.window) as _, children)?;
        Ok(match Self::of(&node) {
            Some(running) => Arc::new(running),
            None => node,
        })
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.window.input().execute(partition, context)?;
        let of = self.window.window_expr()[0].all_expressions();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let keys = [of.partition_by_exprs, of.order_by_exprs];
        let run = Run::new(input, keys, &self.functions, self.schema(), metrics);
        let rows = futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
