//! Inputs of operators that are made and run while a query runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// What is looked at in an expression.
type Look<'a> = &'a mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>;

/// Rows that were made already, once, in one partition.
pub(crate) struct Given {
    rows: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl Given {
    /// The rows of `stream`.
    pub(crate) fn stream(stream: SendableRecordBatchStream) -> Arc<dyn ExecutionPlan> {
        let equal = EquivalenceProperties::new(stream.schema());
        Self::with(equal, stream)
    }

    /// `batches`; each is gone once it was taken.
    pub(super) fn batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Arc<dyn ExecutionPlan> {
        Self::ordered(EquivalenceProperties::new(schema), batches)
    }

    /// As [`batches`](Self::batches), in the order that `equal` says.
    pub(super) fn ordered(equal: EquivalenceProperties, batches: Vec<RecordBatch>) -> Arc<dyn ExecutionPlan> {
        let rows = futures::stream::iter(batches.into_iter().map(Ok));
        let rows = RecordBatchStreamAdapter::new(Arc::clone(equal.schema()), rows);
        Self::with(equal, Box::pin(rows))
    }

    fn with(equal: EquivalenceProperties, rows: SendableRecordBatchStream) -> Arc<dyn ExecutionPlan> {
        let partitioning = Partitioning::UnknownPartitioning(1);
        let properties =
            PlanProperties::new(equal, partitioning, EmissionType::Incremental, Boundedness::Bounded);
        Arc::new(Self { rows: Mutex::new(Some(rows)), properties: Arc::new(properties) })
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}

impl DisplayAs for Given {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}

impl ExecutionPlan for Given {
    fn name(&self) -> &str {
        "Given"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(&self, _: Look<'_>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.ok_or_else(|| DataFusionError::Internal("rows are given once".to_owned()))
    }
}

/// An input that is executed with a context of its own, whatever is above it.
#[derive(Debug)]
pub(super) struct Within {
    input: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
}

impl Within {
    /// `input`, in `context`.
    pub(super) fn over(input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { input: Arc::clone(input), context: Arc::clone(context) })
    }
}

impl DisplayAs for Within {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Within")
    }
}

impl ExecutionPlan for Within {
    fn name(&self) -> &str {
        "Within"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(&self, _: Look<'_>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::over(&children[0], &self.context))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, Arc::clone(&self.context))
    }
}
