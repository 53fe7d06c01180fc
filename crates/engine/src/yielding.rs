//! Joins without an equality let go of their thread now and then, so that a cancelled query stops.
//!
//! ```text
//!   AggregateExec            takes batches as long as there are any; a task is cancelled only between two of its polls
//!     CooperativeExec        ◀── added: pending after some batches
//!       CrossJoinExec        one batch of the right side gives as many batches as the left side has rows
//!         DataSourceExec     DataFusion's own rule makes leaves cooperative; this one is asked for a batch too rarely
//! ```
//!
//! A nested-loop join that finds no row for a batch gives nothing to count, and stops only after that batch.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};

/// Makes joins cooperative that multiply rows.
#[derive(Debug, Default)]
pub(crate) struct YieldingRule;

impl PhysicalOptimizerRule for YieldingRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            if node.is::<CrossJoinExec>() || node.is::<NestedLoopJoinExec>() {
                return Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>));
            }
            Ok(Transformed::no(node))
        })?;
        Ok(wrapped.data)
    }

    fn name(&self) -> &str {
        "pelton_yielding"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan`, for a query that others wait for, with equality joins that yield too: one whose keys repeat makes thousands
/// of rows of each it reads. Its scans are those of `plan`.
pub(crate) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let transformed = plan.transform_up(|node| {
        if node.is::<HashJoinExec>() || node.is::<SortMergeJoinExec>() {
            return Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>));
        }
        Ok(Transformed::no(node))
    });
    Ok(transformed?.data)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::session::{PeltonSession, SessionOptions};

    #[tokio::test]
    async fn a_cancelled_cross_join_lets_go_of_its_thread() {
        let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
        let session = PeltonSession::open(None, &options).unwrap();
        // The left side is in memory at once; the right side is a single batch, over long after this test.
        let sql = "SELECT sum(a.value * b.value) FROM range(1000000) AS a, range(8000) AS b";
        let query = session.query(sql).await.unwrap();
        // On this test's one thread the time limit is seen only when the query lets go.
        let limited = tokio::time::timeout(Duration::from_millis(300), query.collect());
        let started = std::time::Instant::now();
        assert!(limited.await.is_err());
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    }
}
