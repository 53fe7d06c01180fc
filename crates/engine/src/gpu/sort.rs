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
//!
//! What does not fit a device is sorted there in runs, and rows of several devices are sorted on each: the host merges
//! them, so they have to fit its part of the query's memory.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, replace_children_if_necessary};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Expr, Plan, RowOrder, Sink, SortKey, Source};

use super::builder::Flow;
use super::device::DeviceHandle;
use super::lower::without_exchanges;
use super::top::FirstRows;
use super::value::{LateText, kernel_type};
use crate::deferred::DeferredExec;

/// Of so many rows at most the first are found by a threshold: the host looks at as many again after each morsel. A guess.
const FIRST_ROWS_MAX: usize = 1 << 14;
/// The same of groups, which are all there and whose zone maps say nothing: to sort them takes little longer than to look at
/// them. A guess.
const FIRST_GROUPS_MAX: usize = 1 << 10;
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
        let most = if is_of_groups(&self.input) { FIRST_GROUPS_MAX } else { FIRST_ROWS_MAX };
        self.row_count.is_some_and(|rows| rows <= most)
    }

    /// Whether `other` asks the same of its input as this of its own.
    pub(super) fn asks_alike(&self, other: &Self) -> bool {
        self.keys == other.keys && self.row_count == other.row_count
    }

    /// How many rows are wanted; `None`: all.
    pub(super) fn row_count(&self) -> Option<usize> {
        self.row_count
    }

    /// What is sorted by.
    pub(super) fn keys(&self) -> &[PhysicalSortExpr] {
        &self.keys
    }

    /// The order of the rows of `flow`, whose outputs have the types of `schema`; and by key, which text is read where those
    /// of several rows begin alike. `columns`: those of the rows, to which others may be added that are not the result.
    ///
    /// # Errors
    ///
    /// `Unsupported` for keys that kernels do not compute or sort by.
    pub(super) fn lower(
        &self,
        flow: &mut Flow,
        schema: &SchemaRef,
        columns: &mut Vec<Expr>,
    ) -> Result<(RowOrder, Vec<Option<LateText>>)> {
        let mut texts = Vec::with_capacity(self.keys.len());
        let keys = self.keys.iter().map(|key| {
            let (is_descending, nulls_first) = (key.options.descending, key.options.nulls_first);
            let value = flow.exprs(schema).carry(&key.expr)?;
            kernel_type(&value.data_type)?;
            let view = value.late.as_ref().and_then(|late| late.view);
            let (key, text) = match (&value.late, view) {
                (Some(_), Some(view)) => (Expr::Column(view), Some(value.expr)),
                (Some(_), None) => (flow.exprs(schema).lower(&key.expr)?.expr, None),
                (None, _) if !value.is_text() || flow.builder.has_dictionary(&value.expr) => {
                    (value.expr, None)
                }
                (None, _) if flow.builder.is_view(&value.expr) => (value.expr.clone(), Some(value.expr)),
                (None, _) => {
                    let text = format!("a sort by {}, text without a dictionary", key.expr);
                    return Err(Error::unsupported(text));
                }
            };
            let text = text.map(|text| {
                let known = columns.iter().position(|column| *column == text);
                known.unwrap_or_else(|| {
                    columns.push(text);
                    columns.len() - 1
                })
            });
            texts.push(value.late.filter(|_| text.is_some()));
            Ok(SortKey { key, is_descending, nulls_first, text })
        });
        let order = RowOrder {
            keys: keys.collect::<Result<_>>()?,
            row_count: self.row_count.map(|rows| rows as u64),
            expected: pelton_planner::estimated_rows(&self.input).map(|rows| rows as u64),
            windows: None,
        };
        Ok((order, texts))
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
        // Who wants many of the groups expects more of them than an estimate may say, and a threshold takes a kernel, too.
        let wants_many = self.row_count.is_some_and(|rows| rows > FIRST_GROUPS_MAX);
        if let (Source::Groups(_), Some(groups)) = (&last.source, expected)
            && groups < least as f64
            && !wants_many
        {
            return Err(Error::unsupported(format!(
                "a sort of {groups:.0} groups, which the CPU is faster at; from {least} on a device is"
            )));
        }
        device.check_sorts()?;
        let (Some(runs), Some(most)) = (Runs::of(plan, device), device.sorted_bytes_max()) else {
            return Ok(());
        };
        if runs.bytes <= most as f64 {
            return Ok(());
        }
        let (rows, mb) = (runs.rows, |bytes: f64| format!("{:.0} MB", bytes / 1e6));
        let remedy = match runs.fits_device {
            true => "raise --memory-limit, or take one device",
            false => "raise --device-memory-limit or --memory-limit",
        };
        Err(Error::unsupported(format!(
            "a sort of {rows:.0} rows, whose runs, about {}, the host would merge in {}; {remedy}",
            mb(runs.bytes),
            mb(most as f64)
        )))
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

/// Sorted rows that go to the host as runs, as far as planning knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Runs {
    /// Rows that are sorted.
    pub(super) rows: f64,
    /// Rows in all runs.
    pub(super) kept_rows: f64,
    /// Bytes of the runs.
    pub(super) bytes: f64,
    /// Whether there would be none on one device.
    fits_device: bool,
}

impl Runs {
    /// Of the sort that `plan` ends in; `None` where there is none, or it is done at once on one device.
    pub(super) fn of(plan: &Plan, device: &DeviceHandle) -> Option<Self> {
        let last = plan.pipelines.last()?;
        let Sink::Materialize { columns, order: Some(order), .. } = &last.sink else { return None };
        let rows = order.expected? as f64;
        let workers = match &last.source {
            Source::Table(scan) => scan.row_groups.len().clamp(1, device.device_count()),
            Source::Groups(_) | Source::HostInput(_) => 1,
        };
        // The beginning of a text takes two words.
        let texts = order.keys.iter().filter(|key| key.text.is_some()).count();
        let values = (columns.len() + order.keys.len() + texts) as u64;
        let (held, of_run) = ((8 * values + SORT_BYTES) as f64, (8 * values) as f64);
        let limit = device.memory_limit_bytes().map_or(f64::INFINITY, |bytes| bytes as f64);
        let fits_device = rows * held <= limit;
        if fits_device && workers == 1 {
            return None;
        }
        // Arrays of rows double: a run is a quarter of what the device holds at least.
        let run_count = (4.0 * rows * held / limit).max(workers as f64);
        let kept_rows = order.row_count.map_or(rows, |wanted| rows.min(wanted as f64 * run_count));
        Some(Self { rows, kept_rows, bytes: kept_rows * of_run, fits_device })
    }
}

/// `plan`, a merge above projections of partitions that are sorted each by itself, with the projections above the merge; and
/// what is sorted then.
///
/// ```text
///   SortPreservingMergeExec: fetch=20000           ProjectionExec
///     ProjectionExec                         ─▶      SortPreservingMergeExec: fetch=20000    all rows, one sort
///       SortExec: TopK(fetch=20000)                    SortExec: TopK(fetch=20000)
/// ```
pub(super) fn merged_below_projections(
    plan: &Arc<dyn ExecutionPlan>,
) -> Option<(Arc<dyn ExecutionPlan>, Sorted)> {
    fn merged(
        below: &Arc<dyn ExecutionPlan>,
        fetch: Option<usize>,
    ) -> Option<(Arc<dyn ExecutionPlan>, Sorted)> {
        let below = in_order(below);
        if let Some(projection) = below.downcast_ref::<ProjectionExec>() {
            let (merge, sorted) = merged(projection.input(), fetch)?;
            let above = replace_children_if_necessary(Arc::clone(below), vec![merge]).ok()?;
            return Some((above, sorted));
        }
        let sort = below.downcast_ref::<SortExec>()?;
        let merge = SortPreservingMergeExec::new(sort.expr().clone(), Arc::clone(below)).with_fetch(fetch);
        let merge: Arc<dyn ExecutionPlan> = Arc::new(merge);
        let sorted = Sorted::of(&merge)?;
        Some((merge, sorted))
    }
    let merge = plan.downcast_ref::<SortPreservingMergeExec>()?;
    in_order(merge.input()).downcast_ref::<ProjectionExec>()?;
    let (above, sorted) = merged(merge.input(), merge.fetch())?;
    // The sort may go by more than the merge, or by what it is equal to; never by less.
    let is_as_fine = above.equivalence_properties().ordering_satisfy(merge.expr().clone()).unwrap_or(false);
    is_as_fine.then_some((above, sorted))
}

/// Whether the rows of `plan` are groups, or what is computed of groups.
fn is_of_groups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let plan = without_exchanges(plan);
    plan.is::<AggregateExec>()
        || ((plan.is::<ProjectionExec>() || plan.is::<FilterExec>()) && is_of_groups(plan.children()[0]))
}

/// The first node below `plan` that does more than hand its input's rows on, in order.
pub(super) fn in_order(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let hands_on = plan.is::<CooperativeExec>() || plan.is::<BufferExec>() || plan.is::<DeferredExec>();
    if hands_on && plan.fetch().is_none() { in_order(plan.children()[0]) } else { plan }
}
