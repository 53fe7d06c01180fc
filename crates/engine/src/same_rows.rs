//! Operators that give the rows of their one input as they are, and work that waits until all rows have been taken.

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use futures::{Stream, StreamExt};

/// Within `impl ExecutionPlan`: the rows of the operator in the field `$input`, with their order, partitions and statistics.
macro_rules! gives_rows_of {
    ($input:ident) => {
        fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
            self.$input.properties()
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.$input]
        }

        fn maintains_input_order(&self) -> Vec<bool> {
            vec![true]
        }

        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            )
                -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::ChildStats> {
            vec![datafusion::physical_plan::ChildStats::At(partition)]
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            _: &datafusion::physical_plan::StatisticsArgs,
        ) -> datafusion::error::Result<std::sync::Arc<datafusion::common::Statistics>> {
            Ok(std::sync::Arc::clone(&inputs[0]))
        }
    };
}

pub(crate) use gives_rows_of;

/// `rows`, then `work`, which begins once all of them have been taken.
pub(crate) fn then_run(
    rows: impl Stream<Item = Result<RecordBatch>>,
    work: impl Future<Output = ()>,
) -> impl Stream<Item = Result<RecordBatch>> {
    let work = futures::stream::once(work);
    // What comes last is nothing, and is only polled once all rows have come.
    rows.map(Some).chain(work.map(|()| None)).filter_map(std::future::ready)
}
