//! The rule that settles build sides and partition modes by the same estimates as the join order.
//!
//! DataFusion's `JoinSelection` swaps the sides of a join if its own statistics, which know neither
//! filters on strings nor the rows out of joins well, call the left one larger. It would undo part of
//! the chosen order, so this rule goes over its result: the side with fewer bytes is built; a small one
//! is built once and shared by all threads, a large one in partitions.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};

use crate::estimate::estimated_rows;

/// Bytes that a row of a hash table takes beside its columns: hash, bucket and chain. A guess.
const HASH_ENTRY_BYTES: f64 = 24.0;
/// Bytes taken for a value of a type of variable width. A guess.
const VARIABLE_WIDTH_BYTES: usize = 32;

/// Chooses build sides; the physical optimizer rule `pelton_join_sides`.
///
/// Must run right after `JoinSelection`, while plans have no exchanges yet.
#[derive(Debug, Default)]
pub struct JoinSides {}

impl JoinSides {
    /// The rule; it has no state.
    pub fn new() -> Self {
        Self {}
    }
}

impl PhysicalOptimizerRule for JoinSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        plan.transform_up(|node| settle(node, config)).data()
    }

    fn name(&self) -> &str {
        "pelton_join_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn settle(
    node: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let settled = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        settle_hash_join(join, config)?
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        match smaller_side(join.left(), join.right()) {
            Some((JoinSide::Right, _)) if join.join_type().supports_swap() => Some(join.swap_inputs()?),
            _ => None,
        }
    } else if let Some(join) = node.downcast_ref::<CrossJoinExec>() {
        match smaller_side(join.left(), join.right()) {
            Some((JoinSide::Right, _)) => Some(join.swap_inputs()?),
            _ => None,
        }
    } else {
        None
    };
    // Where tables disagree about schema metadata, a swap would change which one wins.
    let settled = settled.filter(|settled| settled.schema() == node.schema());
    Ok(settled.map_or_else(|| Transformed::no(node), Transformed::yes))
}

fn settle_hash_join(join: &HashJoinExec, config: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !join.join_type().supports_swap() || join.null_aware {
        return Ok(None);
    }
    let Some((side, build_rows)) = smaller_side(join.left(), join.right()) else {
        return Ok(None);
    };
    let mode = partition_mode(build_rows, config);
    if side == JoinSide::Right {
        join.swap_inputs(mode).map(Some)
    } else if mode != *join.partition_mode() {
        join.builder().with_partition_mode(mode).build_exec().map(Some)
    } else {
        Ok(None)
    }
}

/// The side with fewer bytes, left if equal, and its rows; `None` if either is not known.
fn smaller_side(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>) -> Option<(JoinSide, f64)> {
    let (left_rows, right_rows) = (estimated_rows(left)?, estimated_rows(right)?);
    let left_bytes = left_rows * row_bytes(&left.schema());
    let right_bytes = right_rows * row_bytes(&right.schema());
    Some(if right_bytes < left_bytes { (JoinSide::Right, right_rows) } else { (JoinSide::Left, left_rows) })
}

fn partition_mode(build_rows: f64, config: &ConfigOptions) -> PartitionMode {
    let is_parallel = config.execution.target_partitions > 1 && config.optimizer.repartition_joins;
    let rows_max = config.optimizer.hash_join_single_partition_threshold_rows as f64;
    if is_parallel && build_rows > rows_max { PartitionMode::Partitioned } else { PartitionMode::CollectLeft }
}

fn row_bytes(schema: &SchemaRef) -> f64 {
    let columns: usize = schema
        .fields()
        .iter()
        .map(|field| field.data_type().primitive_width().unwrap_or(VARIABLE_WIDTH_BYTES))
        .sum();
    HASH_ENTRY_BYTES + columns as f64
}
