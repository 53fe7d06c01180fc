//! Queries that need more memory than there is: operators that spill in place of those that do not.
//!
//! ```text
//!   pool     who may hold how much
//!   plan     SortExec with a large LIMIT     ─▶ SortExec, limited above: a sort spills, a heap of the first rows does not
//!            HashJoinExec                    ─▶ PeltonJoinExec, which all threads build as well
//!            WindowAggExec                   ─▶ SpillingWindowExec
//!            AggregateExec, by groups        ─▶ SpillingAggregateExec
//!            its first step                  ─▶ PartialAggregateExec, by texts or by integers
//!            COUNT(DISTINCT) of all rows     ─▶ DistinctMergeExec, its last step, by all threads
//!            median, array_agg by group      ─▶ over rows that are sorted by group
//!            several COUNT(DISTINCT)         ─▶ a join of aggregates of one row
//!   settings partitions and rows of a batch follow from the limit
//! ```
//!
//! Operators that certainly fit stay as they are, so that plans over small tables are DataFusion's. Nothing here changes
//! an answer, nor the order of rows where the plan promises one.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::SessionConfig;
use pelton_planner::{Estimates, keys_are_words};

use crate::expected;

mod aggregates;
mod counts;
mod distinct;
mod files;
mod given;
mod groups;
mod join;
mod pool;
mod window;

pub(crate) use counts::DistinctMergeExec;
pub(crate) use distinct::DistinctCounts;
pub(crate) use files::{Rows as SpilledRows, Spill, Writer};
pub(crate) use given::Given;
pub(crate) use groups::{Count, PartialAggregateExec, SpillingAggregateExec, are_integers, has_plain_groups};
pub(crate) use join::{Bounds, PeltonJoinExec, both_bounds, bounds_as, bounds_of};
pub(crate) use pool::SharingPool;
pub(crate) use window::SpillingWindowExec;

/// A build side that is expected to take less than this share of the limit stays as it is: estimates may be wrong by as much.
const SMALL_SHARE: u64 = 64;
/// Memory that a partition should have at least: batches, a sort's merge, a hash table that is worth having, and batches that
/// wait for it while it writes to files. With half of that, sorts in two partitions had 330 MB resident under 70 and under
/// 130 MB, and one in three failed; in one partition they have 160 MB (2 cores, 2026-11-26).
const PARTITION_BYTES: u64 = 64 << 20;
/// Of the limit, for each row of a batch: at 8192 rows from 128 MiB on, at 1024 with 20 MB. A merge of sorted files holds
/// two batches of each, so that large batches make many passes of few files.
const BATCH_ROW_BYTES: u64 = 16 << 10;
const BATCH_ROWS_MIN: u64 = 512;
/// A heap of more rows than this is slower than a sort: 29 s beside 5 s for a fifth of 5 million rows (two cores of a
/// rented virtual machine, 2026-11). Where between some thousand and a million the two meet is a guess.
const HEAP_ROWS_MAX: usize = 100_000;
/// Bytes that a text is taken for where nothing is known of it.
const TEXT_BYTES: usize = 32;

/// Puts operators that spill where others might not fit.
#[derive(Debug)]
pub(crate) struct SpillingRule {
    limit_bytes: Option<u64>,
    table_rows_min: usize,
}

impl SpillingRule {
    /// Its name among the rules.
    pub(crate) const NAME: &'static str = "pelton_spilling";

    /// For queries of `limit_bytes`; tables of fewer rows than `table_rows_min` are built by one thread.
    pub(crate) fn new(limit_bytes: Option<u64>, table_rows_min: usize) -> Self {
        Self { limit_bytes, table_rows_min }
    }
}

impl SpillingRule {
    /// `plan` for memory of the limit.
    fn spilling(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        // Operators that hold much at the same time share what there is.
        let mut holders = 0;
        plan.apply(|node| {
            holders += usize::from(node.is::<HashJoinExec>() || node.is::<WindowAggExec>());
            Ok(TreeNodeRecursion::Continue)
        })?;
        let is_limited = self.limit_bytes.is_some();
        let limit = self.limit_bytes.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let budget = limit / 2 / holders.max(1);
        let estimates = expected::estimates();
        let changed = plan.transform_up(|node| {
            let spilling = if let Some(sort) = node.downcast_ref::<SortExec>() {
                large_top(sort, limit)
            } else if node.is::<HashJoinExec>() {
                joining(&node, is_limited.then_some(limit), budget, self.table_rows_min, &estimates)
            } else if node.is::<AggregateExec>() {
                self.aggregating(&node, is_limited.then_some(limit), &estimates)?
            } else if !is_limited {
                None
            } else if let Some(window) = node.downcast_ref::<WindowAggExec>() {
                Some(Arc::new(SpillingWindowExec::new(window, budget)?) as _)
            } else {
                None
            };
            Ok(spilling.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(changed.data)
    }

    /// In place of an aggregate one of ours.
    fn aggregating(
        &self,
        node: &Arc<dyn ExecutionPlan>,
        limit: Option<usize>,
        estimates: &Estimates,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(partial) = PartialAggregateExec::of(node, self.table_rows_min, estimates)? {
            return Ok(Some(Arc::new(partial)));
        }
        if let Some(merging) = DistinctMergeExec::of(node, self.table_rows_min, estimates) {
            return Ok(Some(Arc::new(merging)));
        }
        if let Some(limit) = limit
            && let Some(over_sorted) = aggregates::over_sorted(node, limit, estimates)?
        {
            return Ok(Some(over_sorted));
        }
        let spilling = SpillingAggregateExec::of(node, limit, self.table_rows_min, estimates)?;
        Ok(spilling.map(|spilling| Arc::new(spilling) as _))
    }
}

impl PhysicalOptimizerRule for SpillingRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // Without a limit, a heap of very many rows is slower than a sort all the same.
        self.spilling(plan)
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// In place of a sort that would hold its first rows in a heap, one that spills, where they may be too many.
fn large_top(sort: &SortExec, limit: usize) -> Option<Arc<dyn ExecutionPlan>> {
    let fetch = sort.fetch()?;
    let partitions = sort.properties().partitioning.partition_count().max(1);
    // The heap keeps the batches that its rows are in, and encoded keys.
    let needed = row_bytes(&sort.schema()).saturating_mul(3).saturating_mul(fetch).saturating_mul(partitions);
    let is_large = needed > limit / 4 || fetch > HEAP_ROWS_MAX;
    is_large.then(|| Arc::new(LocalLimitExec::new(Arc::new(sort.with_fetch(None)), fetch)) as _)
}

/// In place of a join one that spills, where it may not fit into its share of `limit`, or whose table is worth being built
/// by all threads.
fn joining(
    node: &Arc<dyn ExecutionPlan>,
    limit: Option<usize>,
    budget: usize,
    table_rows_min: usize,
    estimates: &Estimates,
) -> Option<Arc<dyn ExecutionPlan>> {
    let join: Arc<dyn std::any::Any + Send + Sync> = Arc::clone(node) as _;
    let join = join.downcast::<HashJoinExec>().ok()?;
    let rows = expected::rows(estimates, join.left());
    let bytes = rows.map(|rows| rows.saturating_mul(row_bytes(&join.left().schema())));
    let fits_in = |limit: usize, bytes: usize| (bytes as u64).saturating_mul(SMALL_SHARE) < limit as u64;
    let fits = limit.is_none_or(|limit| bytes.is_some_and(|bytes| fits_in(limit, bytes)));
    let order = node.output_ordering().cloned();
    let is_large = rows.is_none_or(|rows| rows >= table_rows_min);
    if fits && !(is_large && order.is_none() && keys_are_words(&join)) {
        return None;
    }
    let joining: Arc<dyn ExecutionPlan> = Arc::new(PeltonJoinExec::new(join, budget)?);
    // What is above may rely on the order of the probe side.
    Some(match order {
        Some(order) => Arc::new(SortExec::new(order, joining).with_preserve_partitioning(true)),
        None => joining,
    })
}

/// Bytes of a row of `schema`, as far as types tell.
pub(crate) fn row_bytes(schema: &Schema) -> usize {
    let of = |of: &DataType| of.primitive_width().unwrap_or(TEXT_BYTES);
    schema.fields().iter().map(|field| of(field.data_type())).sum()
}

/// `config` for queries of `limit` bytes: fewer partitions and smaller batches where that is little.
pub(crate) fn settings(config: SessionConfig, limit: u64) -> SessionConfig {
    let partitions = usize::try_from(limit / PARTITION_BYTES).unwrap_or(usize::MAX).max(1);
    let partitions = config.target_partitions().min(partitions);
    let rows = (limit / BATCH_ROW_BYTES).max(BATCH_ROWS_MIN);
    // The next power of two below.
    let rows = 1_usize << rows.ilog2().min(40);
    let batch_rows = config.batch_size().min(rows);
    // Each sort holds this back for its merge: a fixed 10 MB would leave small limits nothing to sort in.
    let merge_bytes = usize::try_from(limit / 16 / partitions as u64).unwrap_or(usize::MAX);
    let merge_bytes = config.options().execution.sort_spill_reservation_bytes.min(merge_bytes);
    config
        .with_target_partitions(partitions)
        .with_batch_size(batch_rows)
        .with_sort_spill_reservation_bytes(merge_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_from_the_limit() {
        let of = |limit: u64| {
            let config = SessionConfig::new().with_target_partitions(4).with_batch_size(8192);
            let config = settings(config, limit);
            (config.target_partitions(), config.batch_size())
        };
        assert_eq!(of(20_000_000), (1, 1024));
        assert_eq!(of(50_000_000), (1, 2048));
        assert_eq!(of(100_000_000), (1, 4096));
        assert_eq!(of(200_000_000), (2, 8192));
        assert_eq!(of(1 << 40), (4, 8192));
        assert_eq!(of(1), (1, 512));
    }
}
