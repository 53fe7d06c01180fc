//! The rule that settles build sides and partition modes by the same estimates as the join order.
//!
//! DataFusion's `JoinSelection` swaps the sides of a join if its own statistics, which know neither
//! filters on strings nor the rows out of joins well, call the left one larger. It would undo part of
//! the chosen order, so this rule goes over its result: the side with fewer bytes is built, into one table that all
//! threads build and share. Where keys do not go into words, one thread builds it where that ends sooner, else all threads
//! build partitions of it, for which both sides are exchanged.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};

use crate::estimate::Estimator;

/// Bytes that a row of a hash table takes beside its columns: hash, bucket and chain. A guess.
const HASH_ENTRY_BYTES: f64 = 24.0;
/// Bytes taken for a value of a type of variable width. A guess.
const VARIABLE_WIDTH_BYTES: usize = 32;

/// What a row costs one thread, in ns: to be put into a hash table, and to be exchanged between partitions. Only their
/// ratio counts, which was chosen among several by the times of TPC-H (`docs/perf/cpu.md`).
const BUILD_NS: f64 = 80.0;
const EXCHANGE_NS: f64 = 25.0;
/// No more rows than these are put into a table that all threads build and share. A guess.
const SHARED_ROWS_MAX: f64 = 256e6;
/// No more rows than these are built by one thread: what it waits for memory grows with its table, which is not priced.
const ONE_THREAD_ROWS_MAX: f64 = 8e6;

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
        let mut estimator = Estimator::default();
        plan.transform_up(|node| settle(node, &mut estimator, config)).data()
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
    estimator: &mut Estimator,
    config: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let settled = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        settle_hash_join(join, estimator, config)?
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        match smaller_side(join.left(), join.right(), estimator) {
            Some((JoinSide::Right, _)) if join.join_type().supports_swap() => Some(join.swap_inputs()?),
            _ => None,
        }
    } else if let Some(join) = node.downcast_ref::<CrossJoinExec>() {
        match smaller_side(join.left(), join.right(), estimator) {
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

fn settle_hash_join(
    join: &HashJoinExec,
    estimator: &mut Estimator,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !join.join_type().supports_swap() || join.null_aware {
        return Ok(None);
    }
    let Some((side, rows)) = smaller_side(join.left(), join.right(), estimator) else {
        return Ok(None);
    };
    let mode = partition_mode(rows, keys_are_words(join), config);
    if side == JoinSide::Right {
        join.swap_inputs(mode).map(Some)
    } else if mode != *join.partition_mode() {
        join.builder().with_partition_mode(mode).build_exec().map(Some)
    } else {
        Ok(None)
    }
}

/// Rows of both sides, by estimate.
#[derive(Debug, Clone, Copy)]
struct SideRows {
    build: f64,
    probe: f64,
}

/// The side with fewer bytes, left if equal, and the rows of both where that one is built; `None` if either is not known.
fn smaller_side(
    left: &Arc<dyn ExecutionPlan>,
    right: &Arc<dyn ExecutionPlan>,
    estimator: &mut Estimator,
) -> Option<(JoinSide, SideRows)> {
    let (left_rows, right_rows) = (estimator.rows(left)?, estimator.rows(right)?);
    let left_bytes = left_rows * row_bytes(&left.schema());
    let right_bytes = right_rows * row_bytes(&right.schema());
    Some(if right_bytes < left_bytes {
        (JoinSide::Right, SideRows { build: right_rows, probe: left_rows })
    } else {
        (JoinSide::Left, SideRows { build: left_rows, probe: right_rows })
    })
}

/// Whether the keys of `join` go into words, so that its table is one that all threads build and share: integers, dates and
/// times, of which NULL matches nothing.
pub fn keys_are_words(join: &HashJoinExec) -> bool {
    let of = |key: &PhysicalExprRef, side: &Arc<dyn ExecutionPlan>| key.data_type(&side.schema()).ok();
    let is_word = |(left, right): &(PhysicalExprRef, PhysicalExprRef)| {
        let (left, right) = (of(left, join.left()), of(right, join.right()));
        let is_known = |of: DataType| {
            of.is_integer() || matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
        };
        left == right && left.is_some_and(is_known)
    };
    let is_plain = !join.null_aware && join.null_equality() == NullEquality::NullEqualsNothing;
    is_plain && !join.on().is_empty() && join.on().iter().all(is_word)
}

fn partition_mode(rows: SideRows, are_words: bool, config: &ConfigOptions) -> PartitionMode {
    let threads = config.execution.target_partitions;
    let rows_max = config.optimizer.hash_join_single_partition_threshold_rows as f64;
    let is_parallel = threads > 1 && config.optimizer.repartition_joins;
    let is_sooner = match are_words {
        true => rows.build <= SHARED_ROWS_MAX,
        false => is_sooner_in_one_thread(rows, threads as f64),
    };
    if is_parallel && rows.build > rows_max && !is_sooner {
        PartitionMode::Partitioned
    } else {
        PartitionMode::CollectLeft
    }
}

/// Whether one thread has built its table before all have exchanged both sides and built theirs. The filter that a table
/// gives to the scan of the other side is cheaper from one table, too: there is no partition to find first.
fn is_sooner_in_one_thread(rows: SideRows, threads: f64) -> bool {
    let exchanged = (rows.build * (BUILD_NS + EXCHANGE_NS) + rows.probe * EXCHANGE_NS) / threads;
    rows.build <= ONE_THREAD_ROWS_MAX && rows.build * BUILD_NS <= exchanged
}

fn row_bytes(schema: &SchemaRef) -> f64 {
    let columns: usize = schema
        .fields()
        .iter()
        .map(|field| field.data_type().primitive_width().unwrap_or(VARIABLE_WIDTH_BYTES))
        .sum();
    HASH_ENTRY_BYTES + columns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(build: f64, probe: f64, threads: usize) -> PartitionMode {
        let mut config = ConfigOptions::default();
        config.execution.target_partitions = threads;
        partition_mode(SideRows { build, probe }, false, &config)
    }

    #[test]
    fn small_sides_are_built_once() {
        for threads in [1, 2, 16, 128] {
            assert_eq!(mode(100_000.0, 100_000.0, threads), PartitionMode::CollectLeft, "{threads} threads");
        }
    }

    #[test]
    fn a_side_is_built_once_where_the_other_is_many_times_as_large() {
        assert_eq!(mode(300_000.0, 60e6, 16), PartitionMode::CollectLeft);
        assert_eq!(mode(1e6, 60e6, 16), PartitionMode::CollectLeft);
        assert_eq!(mode(1e6, 4e6, 16), PartitionMode::Partitioned);
        assert_eq!(mode(1e6, 60e6, 128), PartitionMode::Partitioned);
    }

    #[test]
    fn large_sides_are_built_in_partitions() {
        assert_eq!(mode(15e6, 6e9, 16), PartitionMode::Partitioned);
        assert_eq!(mode(15e6, 60e6, 2), PartitionMode::Partitioned);
    }

    #[test]
    fn a_table_that_all_threads_build_is_shared() {
        let mut config = ConfigOptions::default();
        config.execution.target_partitions = 16;
        let mode = |build| partition_mode(SideRows { build, probe: 6e9 }, true, &config);
        assert_eq!(mode(15e6), PartitionMode::CollectLeft);
        assert_eq!(mode(1e9), PartitionMode::Partitioned);
    }

    #[test]
    fn one_thread_never_exchanges() {
        assert_eq!(mode(15e6, 15e6, 1), PartitionMode::CollectLeft);
    }
}
