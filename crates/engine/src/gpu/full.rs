//! FULL joins: the rows of a LEFT join, and with them the rows of the right side that have no match.
//!
//! ```text
//!   AggregateExec Partial              UnionExec
//!     HashJoinExec Full                  AggregateExec Partial
//!       left                    ─▶         HashJoinExec Left              left, right
//!       right                            AggregateExec Partial
//!                                          ProjectionExec                 NULLs for the columns of the left side
//!                                            HashJoinExec RightAnti       left, right
//! ```
//!
//! A table does not remember which of its rows were met, so each side probes the other one once. Both are scanned twice,
//! which is why this is done only where they are scans, joins and filters of tables: nothing that the host computes, and no
//! groups, are made twice.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use datafusion::scalar::ScalarValue;
use pelton_pipeline::ir::{Plan, Sink};

use super::lower::{Lowered, moves_rows_only};

type Node = Arc<dyn ExecutionPlan>;

/// A plan over a FULL join in two parts, whose rows together are those of the plan or, of an aggregate, give them.
pub(super) struct FullParts {
    /// Over the LEFT join, and over the unmatched rows of the right side.
    pub(super) parts: [Node; 2],
    /// The aggregate that takes the states of both parts' groups, where the plan is one that has no other.
    merge: Option<AggregateExec>,
}

impl FullParts {
    /// `plan`, where it is over a FULL join and may be taken apart.
    ///
    /// # Errors
    ///
    /// Of DataFusion's operators, where they are not put together again.
    pub(super) fn of(plan: &Node) -> Result<Option<Self>> {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
            return Ok(parts_of(plan)?.map(|parts| Self { parts, merge: None }));
        };
        let is_whole = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
        if (!is_whole && *aggregate.mode() != AggregateMode::Partial) || aggregate.limit_options().is_some() {
            return Ok(None);
        }
        let Some(parts) = parts_of(aggregate.input())? else { return Ok(None) };
        if !is_whole {
            let states = |part: Node| replace_children_if_necessary(Arc::clone(plan), vec![part]);
            let [left, right] = parts;
            return Ok(Some(Self { parts: [states(left)?, states(right)?], merge: None }));
        }
        let partial = |input: Node| {
            AggregateExec::try_new(
                AggregateMode::Partial,
                aggregate.group_expr().clone(),
                aggregate.aggr_expr().to_vec(),
                aggregate.filter_expr().to_vec(),
                input,
                aggregate.input_schema(),
            )
        };
        let [left, right] = parts;
        let parts: [Node; 2] = [Arc::new(partial(left)?), Arc::new(partial(right)?)];
        let merge = AggregateExec::try_new(
            AggregateMode::Final,
            aggregate.group_expr().as_final(),
            aggregate.aggr_expr().to_vec(),
            vec![None; aggregate.aggr_expr().len()],
            Arc::new(CoalescePartitionsExec::new(Arc::clone(&parts[0]))),
            aggregate.input_schema(),
        )?;
        Ok(Some(Self { parts, merge: Some(merge) }))
    }

    /// Whether it makes nothing twice but scans and tables.
    pub(super) fn is_cheap(lowered: &Lowered) -> bool {
        let Plan { pipelines, .. } = &lowered.plan;
        let groups = pipelines.iter().filter(|pipeline| matches!(pipeline.sink, Sink::Aggregate { .. }));
        let of_result = pipelines.last().is_some_and(|last| matches!(last.sink, Sink::Aggregate { .. }));
        lowered.host_inputs.is_empty() && groups.count() == usize::from(of_result)
    }

    /// The plan, of what gives the rows of its `parts`.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn over(self, parts: [Node; 2]) -> Result<Node> {
        let union = UnionExec::try_new(parts.into())?;
        let Some(merge) = self.merge else { return Ok(union) };
        let states = Arc::new(CoalescePartitionsExec::new(union));
        replace_children_if_necessary(Arc::new(merge), vec![states])
    }
}

/// What is over a FULL join and does to each row what it would do to any: over both parts of it.
fn parts_of(plan: &Node) -> Result<Option<[Node; 2]>> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        if *join.join_type() != JoinType::Full || plan.fetch().is_some() {
            return Ok(None);
        }
        let of_type = |join_type| join.builder().reset_state().with_type(join_type);
        let unmatched = of_type(JoinType::RightAnti).with_projection(None).build_exec()?;
        let unmatched = beside_nulls(plan, join.left(), unmatched, join.projection.as_deref())?;
        return Ok(Some([of_type(JoinType::Left).build_exec()?, unmatched]));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        if *join.join_type() != JoinType::Full {
            return Ok(None);
        }
        let of_type = |join_type, projection: Option<Vec<usize>>| {
            let (left, right) = (Arc::clone(join.left()), Arc::clone(join.right()));
            let builder = NestedLoopJoinExecBuilder::new(left, right, join_type);
            builder.with_filter(join.filter().cloned()).with_projection(projection).build()
        };
        let projection = join.projection().as_deref();
        let left = of_type(JoinType::Left, projection.map(<[usize]>::to_vec))?;
        let unmatched: Node = Arc::new(of_type(JoinType::RightAnti, None)?);
        return Ok(Some([Arc::new(left), beside_nulls(plan, join.left(), unmatched, projection)?]));
    }
    let is_passed_through =
        (plan.is::<FilterExec>() || plan.is::<ProjectionExec>()) && plan.fetch().is_none();
    if !is_passed_through && !moves_rows_only(plan) {
        return Ok(None);
    }
    let Some([left, right]) = parts_of(plan.children()[0])? else { return Ok(None) };
    if !is_passed_through {
        return Ok(Some([left, right]));
    }
    let over = |part| replace_children_if_necessary(Arc::clone(plan), vec![part]);
    Ok(Some([over(left)?, over(right)?]))
}

/// `unmatched`, rows of the right side alone, as rows of `join`.
fn beside_nulls(join: &Node, left: &Node, unmatched: Node, projection: Option<&[usize]>) -> Result<Node> {
    let left_count = left.schema().fields().len();
    let schema = join.schema();
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let expr: Arc<dyn PhysicalExpr> = match projection.map_or(index, |columns| columns[index]) {
            column if column < left_count => {
                Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?))
            }
            column => Arc::new(Column::new(field.name(), column - left_count)),
        };
        Ok(ProjectionExpr { expr, alias: field.name().clone() })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(columns, unmatched)?))
}
