//! Sorts as the end of a subtree: the device gives its rows in order.
//!
//! ```text
//!   SortPreservingMergeExec           PeltonGpuExec: output_ordering=[a DESC, b]
//!     SortExec: [a DESC, b]     ─▶      pipeline: … ─► rows of a, b, c in order of a desc, b
//!       FilterExec …
//! ```
//!
//! A sort that stops after few rows is better off with a threshold (`top.rs`), as long as its first key is an integer. A sort
//! of few groups stays above: another kernel would take longer than the host does. A sort of partitions, each by itself, is
//! a sort of all rows, unless a parent counts on the partitions.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Plan, RowOrder, Sink, SortKey, Source};

use super::builder::Flow;
use super::device::DeviceHandle;
use super::top::FirstRows;
use super::value::kernel_type;
use crate::deferred::DeferredExec;

/// Of so many rows at most the first are found by a threshold: the host looks at as many again after each morsel. A guess.
const FIRST_ROWS_MAX: usize = 1 << 14;
/// Bytes of device memory that a sort takes for a row beside the row itself: its number, and the word that is sorted by, each
/// before a pass and after it.
const SORT_BYTES: u64 = 2 * (4 + 8);

/// A sort, with what is below it.
#[derive(Debug, Clone)]
pub(super) struct Sorted {
    /// Whose rows are sorted.
    pub(super) input: Arc<dyn ExecutionPlan>,
    /// What gives the sorted rows on the CPU, in one partition.
    pub(super) cpu: Arc<dyn ExecutionPlan>,
    keys: LexOrdering,
    row_count: Option<usize>,
    /// What a threshold would do for it.
    pub(super) first: Option<FirstRows>,
}

impl Sorted {
    /// What `plan` sorts, if it sorts all rows: a sort, or one of each partition with the merge above it.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            let sort = in_order(merge.input()).downcast_ref::<SortExec>()?;
            let partitions = merge.input().output_partitioning().partition_count();
            // Each partition may stop at a number of rows where all of them together do no later.
            let stops_alike = match (sort.fetch(), merge.fetch()) {
                (None, _) => true,
                (Some(_), None) => partitions == 1,
                (Some(of_each), Some(of_all)) => partitions == 1 || of_all <= of_each,
            };
            let row_count = sort.fetch().into_iter().chain(merge.fetch()).min();
            return (sort.expr() == merge.expr() && stops_alike)
                .then(|| Self::new(sort, row_count, Arc::clone(plan)));
        }
        let sort = plan.downcast_ref::<SortExec>()?;
        if plan.output_partitioning().partition_count() == 1 {
            return Some(Self::new(sort, sort.fetch(), Arc::clone(plan)));
        }
        let merge = || SortPreservingMergeExec::new(sort.expr().clone(), Arc::clone(plan));
        sort.fetch().is_none().then(|| Self::new(sort, None, Arc::new(merge())))
    }

    fn new(sort: &SortExec, row_count: Option<usize>, cpu: Arc<dyn ExecutionPlan>) -> Self {
        let (input, keys, first) = (Arc::clone(sort.input()), sort.expr().clone(), FirstRows::of(sort));
        Self { input, cpu, keys, row_count, first }
    }

    /// Whether it stops after so few rows that a threshold finds them.
    pub(super) fn is_of_few_rows(&self) -> bool {
        self.row_count.is_some_and(|rows| rows <= FIRST_ROWS_MAX)
    }

    /// How many rows are wanted; `None`: all.
    pub(super) fn row_count(&self) -> Option<usize> {
        self.row_count
    }

    /// What is sorted by.
    pub(super) fn keys(&self) -> &[PhysicalSortExpr] {
        &self.keys
    }

    /// The order of the rows of `flow`, whose outputs have the types of `schema`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for keys that kernels do not compute or sort by.
    pub(super) fn lower(&self, flow: &mut Flow, schema: &SchemaRef) -> Result<RowOrder> {
        let keys = self.keys.iter().map(|key| {
            let value = flow.exprs(schema).lower(&key.expr)?;
            kernel_type(&value.data_type)?;
            if value.is_text() && !flow.builder.has_dictionary(&value.expr) {
                return Err(Error::unsupported(format!("a sort by {}, text without a dictionary", key.expr)));
            }
            let (is_descending, nulls_first) = (key.options.descending, key.options.nulls_first);
            Ok(SortKey { key: value.expr, is_descending, nulls_first })
        });
        Ok(RowOrder {
            keys: keys.collect::<Result<_>>()?,
            row_count: self.row_count.map(|rows| rows as u64),
            expected: pelton_planner::estimated_rows(&self.input).map(|rows| rows as u64),
            windows: None,
        })
    }

    /// Whether `device` should sort the rows of `plan`, which has been lowered.
    ///
    /// # Errors
    ///
    /// `Unsupported` with why the CPU is to do it.
    pub(super) fn check(&self, plan: &Plan, device: &DeviceHandle) -> Result<()> {
        let Some(last) = plan.pipelines.last() else { return Ok(()) };
        let expected = pelton_planner::estimated_rows(&self.input);
        let least = device.sorted_groups_min();
        if let (Source::Groups(_), Some(groups)) = (&last.source, expected)
            && groups < least as f64
        {
            return Err(Error::unsupported(format!(
                "a sort of {groups:.0} groups, which the CPU is faster at; from {least} on a device is"
            )));
        }
        if let (Source::Table(scan), count @ 2..) = (&last.source, device.device_count())
            && scan.row_groups.len() > 1
        {
            return Err(Error::unsupported(format!("{count} devices do not sort rows together")));
        }
        device.check_sorts()?;
        let Sink::Materialize { columns, order: Some(order), .. } = &last.sink else { return Ok(()) };
        if let (Some(rows), Some(limit)) = (expected, device.memory_limit_bytes()) {
            let row_bytes = 8 * (columns.len() + order.keys.len()) as u64 + SORT_BYTES;
            let bytes = rows * row_bytes as f64;
            if bytes > limit as f64 {
                return Err(Error::unsupported(format!(
                    "a sort of {rows:.0} rows, about {:.0} MB, does not fit the device's memory of {:.0} MB; \
                     raise --device-memory-limit",
                    bytes / 1e6,
                    limit as f64 / 1e6
                )));
            }
        }
        Ok(())
    }

    /// What is known of the rows in order, for who takes them from the device: their order, and which columns are equal or
    /// constant.
    pub(super) fn properties(&self) -> EquivalenceProperties {
        let schema = self.cpu.schema();
        let mut properties = EquivalenceProperties::new_with_orderings(schema, [self.keys.clone()]);
        // What cannot be said of columns is left out.
        let _ = properties.add_equivalence_group(self.cpu.equivalence_properties().eq_group().clone());
        properties
    }
}

/// The first node below `plan` that does more than hand its input's rows on, in order.
pub(super) fn in_order(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let hands_on = plan.is::<CooperativeExec>() || plan.is::<BufferExec>() || plan.is::<DeferredExec>();
    if hands_on && plan.fetch().is_none() { in_order(plan.children()[0]) } else { plan }
}
