//! Joins end soon after their query was cancelled, however much they multiply and however little they find.
//!
//! ```text
//!   AggregateExec          takes batches as long as there are any; a task is cancelled only between two of its polls
//!     CooperativeExec      ◀── YieldingRule: pending after some batches
//!       HashJoinExec       ◀── stoppable: its condition fails once the query is cancelled
//!         DataSourceExec   DataFusion's own rule makes leaves cooperative; this one is asked for a batch too rarely
//! ```
//!
//! One batch that a join reads gives thousands where there is no equality or keys repeat, and DataFusion's operators
//! yield only where leaves do: so joins yield as well. A join whose condition finds nothing gives no batch to yield
//! after; it evaluates the condition every few thousand pairs of rows, and that looks at the query's flag.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use pelton_error::CancelFlag;

use crate::error::to_datafusion;
use crate::spilling::PeltonJoinExec;

/// Makes joins cooperative.
#[derive(Debug, Default)]
pub(crate) struct YieldingRule;

impl PhysicalOptimizerRule for YieldingRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|node| {
            let is_join = node.is::<CrossJoinExec>()
                || node.is::<NestedLoopJoinExec>()
                || node.is::<HashJoinExec>()
                || node.is::<SortMergeJoinExec>();
            Ok(match is_join {
                true => Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>),
                false => Transformed::no(node),
            })
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

/// `plan` with joins that fail once `cancel` is set, those by merging excepted. Its scans are those of `plan`.
pub(crate) fn stoppable(plan: Arc<dyn ExecutionPlan>, cancel: &CancelFlag) -> Result<Arc<dyn ExecutionPlan>> {
    let filter = |filter: &JoinFilter| {
        let condition = Stoppable { condition: Arc::clone(filter.expression()), cancel: cancel.clone() };
        JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), Arc::clone(filter.schema()))
    };
    let transformed = plan.transform_up(|node| {
        let stopping: Option<Arc<dyn ExecutionPlan>> = if let Some(join) = node.downcast_ref::<HashJoinExec>()
            && let Some(condition) = join.filter()
        {
            Some(join.builder().with_filter(Some(filter(condition))).build_exec()?)
        } else if let Some(spilling) = node.downcast_ref::<PeltonJoinExec>()
            && let Some(condition) = spilling.join().filter()
        {
            let join = spilling.join().builder().with_filter(Some(filter(condition))).build()?;
            Some(Arc::new(spilling.with_join(join)))
        } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
            && let Some(condition) = join.filter()
        {
            let builder = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter(condition)));
            Some(Arc::new(builder.build()?))
        } else {
            None
        };
        Ok(stopping.map_or_else(|| Transformed::no(node), Transformed::yes))
    });
    Ok(transformed?.data)
}

/// `node` as it was before it was made [`stoppable`], for those who look at conditions; `None` where it was not.
pub(crate) fn as_planned(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let planned = |filter: &JoinFilter| {
        let stoppable = filter.expression().downcast_ref::<Stoppable>()?;
        let (condition, columns) = (Arc::clone(&stoppable.condition), filter.column_indices().to_vec());
        Some(JoinFilter::new(condition, columns, Arc::clone(filter.schema())))
    };
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let filter = planned(join.filter()?)?;
        return join.builder().with_filter(Some(filter)).build_exec().ok();
    }
    let join = node.downcast_ref::<NestedLoopJoinExec>()?;
    let filter = planned(join.filter()?)?;
    let planned = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build().ok()?;
    Some(Arc::new(planned))
}

/// A condition that fails once its query is cancelled.
#[derive(Debug)]
struct Stoppable {
    condition: Arc<dyn PhysicalExpr>,
    cancel: CancelFlag,
}

impl PhysicalExpr for Stoppable {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.cancel.check().map_err(to_datafusion)?;
        self.condition.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.condition.return_field(schema)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { condition: children.swap_remove(0), cancel: self.cancel.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl fmt::Display for Stoppable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PartialEq for Stoppable {
    fn eq(&self, other: &Self) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Stoppable {}

impl Hash for Stoppable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use futures::TryStreamExt;
    use pelton_error::{CancelFlag, ErrorKind};

    use crate::error::from_datafusion;
    use crate::memory::QueryMemory;
    use crate::session::{PeltonSession, Query, SessionOptions};

    /// Far below what these queries would take, and far above what stopping takes.
    const SOON: Duration = Duration::from_secs(3);

    async fn query(sql: &str) -> Query {
        let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
        PeltonSession::open(None, &options).unwrap().query(sql).await.unwrap()
    }

    #[tokio::test]
    async fn a_cancelled_join_lets_go_of_its_thread() {
        // The left side is in memory at once; the right side is a single batch, over long after this test.
        for condition in ["true", "a.value + b.value >= 0", "a.value % 2 = b.value % 2"] {
            let sql = format!(
                "SELECT sum(a.value * b.value) FROM range(1000000) AS a JOIN range(8000) AS b ON {condition}"
            );
            let query = query(&sql).await;
            let started = Instant::now();
            // On this test's one thread the time limit is seen only when the query lets go.
            let limited = tokio::time::timeout(Duration::from_millis(300), query.collect());
            assert!(limited.await.is_err(), "{condition}");
            assert!(started.elapsed() < SOON, "{condition}: {:?}", started.elapsed());
        }
    }

    #[tokio::test]
    async fn a_join_that_finds_nothing_stops_when_its_query_is_cancelled() {
        for condition in ["a.value + b.value < 0", "a.value % 2 = b.value % 2 AND a.value + b.value < 0"] {
            let sql =
                format!("SELECT count(*) FROM range(3000000) AS a JOIN range(8000) AS b ON {condition}");
            let query = query(&sql).await;
            let cancel = CancelFlag::new();
            let rows = query.stream_within(&QueryMemory::new(None), &cancel).await.unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                cancel.cancel();
            });
            let started = Instant::now();
            let error = from_datafusion(rows.try_collect::<Vec<_>>().await.unwrap_err());
            assert_eq!(error.kind(), &ErrorKind::Cancelled, "{condition}: {error}");
            assert!(started.elapsed() < SOON, "{condition}: {:?}", started.elapsed());
        }
    }
}
