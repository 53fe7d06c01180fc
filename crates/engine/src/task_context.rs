//! The context that operators run in, with one part of it exchanged.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;

/// `context` with `runtime` in place of its own. DataFusion's method of this name takes a context that nobody else has.
pub(crate) fn with_runtime(context: &TaskContext, runtime: Arc<RuntimeEnv>) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        runtime,
    ))
}
