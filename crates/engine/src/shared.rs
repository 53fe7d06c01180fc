//! Subqueries that a statement has several times are computed once.
//!
//! ```text
//!   WITH v AS (SELECT … GROUP BY …)             optimized plan             planned
//!   SELECT … FROM v a JOIN v b ON …             Join                       HashJoinExec
//!                                                 Aggregate …      ─▶        SharedExec 1 ── AggregateExec …
//!                                                 Aggregate …                SharedExec 1      its rows are read twice
//!
//!   rules see all of it at each place: a device that runs several shares them itself; then one place keeps it
//! ```
//!
//! DataFusion puts a name of a WITH, or a view, in every place where it is used. Once the plan is optimized, subtrees that
//! are still equal give equal rows: filters and columns that differ keep them apart (`find.rs`). The first to ask for rows
//! has the subtree run; its rows are kept for all others, beyond the memory limit in files (`rows.rs`). Only groups, distinct
//! rows and windows are shared: what streams through a join is made faster than it is kept. `levels.rs` makes such subtrees
//! of ROLLUP.

mod exec;
mod find;
mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

pub(crate) use self::exec::{NewSharing, SharedExec, SharedPlans, tied};
use self::find::SharedNode;
pub(crate) use self::find::at_places;
use crate::guards::write_guards;
use crate::levels;

/// `builder`, which plans subtrees once that a statement has several times, unless it plans in a way of its own.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let planner = builder.query_planner();
    if planner.is_none() {
        *planner = Some(Arc::new(SharingPlanner));
    }
    builder
}

/// DataFusion's planner, of plans in which equal subtrees are found.
#[derive(Debug)]
struct SharingPlanner;

#[async_trait]
impl QueryPlanner for SharingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = levels::rewritten(find::shared(write_guards(plan.clone())?)?)?;
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OfShared)]);
        planner.create_physical_plan(&plan, session).await
    }
}

/// Plans [`SharedNode`]s.
struct OfShared;

#[async_trait]
impl ExtensionPlanner for OfShared {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<SharedNode>() else { return Ok(None) };
        let partitions = session.config().target_partitions();
        let schema = Arc::clone(node.schema.inner());
        let exec = SharedExec::new(Arc::clone(&node.sharing), node.place, schema, partitions);
        Ok(Some(match physical_inputs.first() {
            Some(input) => Arc::new(exec.with_input(Arc::clone(input))),
            None => Arc::new(exec),
        }))
    }
}
