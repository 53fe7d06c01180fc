//! The row filters of a scan: the query's own predicates, then filters derived while it runs.
//!
//! A static conjunct must be evaluated: the scan promised it. A dynamic filter (bounds and keys of a
//! finished hash build, the threshold of a top-k) is an offer: it is dropped for the rest of the stream
//! once it lets most rows pass, since the join above will test them anyway.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;

use pelton_store::Table;
use pelton_zone::Predicate;

use super::narrow::Narrow;
use super::routed::Routed;
use super::selection::passed_bits;
use crate::error::to_datafusion;
use crate::predicate::zone_predicate;
use crate::prune::ZoneLookup;

/// Rows that a filter sees at a time: small enough for intermediates to stay in the L2 cache.
const SLICE_ROWS: usize = 8192;

/// The same of a filter that sees the rows of each partition by themselves.
const ROUTED_SLICE_ROWS: usize = 8 * SLICE_ROWS;

/// A dynamic filter that lets more than this share of the rows pass is not worth its evaluation (a guess
/// between the cost of a hash probe saved and a hash probe made twice).
const PASS_RATE_MAX: f64 = 0.7;

/// Rows to see before a dynamic filter is judged.
const JUDGE_AFTER_ROWS: u64 = 50_000;

/// One conjunct over some columns of the table.
#[derive(Debug, Clone)]
pub(super) struct ScanFilter {
    /// Table columns the conjunct reads, ascending.
    pub(super) columns: Vec<usize>,
    /// The conjunct over `columns`.
    expr: Arc<dyn PhysicalExpr>,
    /// The rows of `columns`, which the conjunct takes as they are stored or as others have them.
    narrow: Narrow,
    takes_stored: bool,
    /// What zone maps may prove about the conjunct: it holds for every row of a row group.
    proof: Option<(Predicate<usize>, ZoneLookup)>,
    /// True for filters that may be dropped.
    optional: bool,
    /// What a join in partitions has made of the filter, and the generation of the filter that it was made of.
    routed: Option<(u64, Option<Arc<Routed>>)>,
    rows_in: u64,
    rows_out: u64,
}

impl ScanFilter {
    /// A conjunct of the query over `table`'s columns: it is evaluated wherever zone maps do not prove it.
    pub(super) fn required(expr: &Arc<dyn PhysicalExpr>, table: &Table) -> Result<Self> {
        let predicate = zone_predicate(expr, table.schema());
        let zones = ZoneLookup::own(table, &predicate).map_err(to_datafusion)?;
        let filter =
            Self { proof: Some((predicate, zones)), optional: false, ..Self::optional(expr, table)? };
        Ok(match filter.narrow.over_stored(&filter.expr)? {
            Some(expr) => Self { expr, takes_stored: true, ..filter },
            None => filter,
        })
    }

    /// A filter over `table`'s columns that may be dropped.
    pub(super) fn optional(expr: &Arc<dyn PhysicalExpr>, table: &Table) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let narrow = Narrow::of(&Arc::new(table.arrow_schema().project(&columns)?));
        let expr = Arc::clone(expr)
            .transform_up(|node| {
                let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
                let position = columns.binary_search(&column.index()).expect("collected above");
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), position)) as Arc<dyn PhysicalExpr>))
            })?
            .data;
        Ok(Self {
            columns,
            expr,
            narrow,
            takes_stored: false,
            proof: None,
            optional: true,
            routed: None,
            rows_in: 0,
            rows_out: 0,
        })
    }

    /// True for comparisons with constants, which cost less than moving the values that do not pass.
    pub(super) fn is_cheap(&self) -> bool {
        self.proof.as_ref().is_some_and(|(predicate, _)| is_known(predicate))
    }

    /// True where zone maps prove that every row of `row_group` passes.
    pub(super) fn holds_throughout(&self, row_group: usize) -> bool {
        self.proof.as_ref().is_some_and(|(predicate, zones)| zones.matches_all(predicate, row_group))
    }

    /// False once the filter has proved not to filter.
    pub(super) fn is_worthwhile(&self) -> bool {
        !self.optional
            || self.rows_in < JUDGE_AFTER_ROWS
            || (self.rows_out as f64) < PASS_RATE_MAX * self.rows_in as f64
    }

    /// One bit a row: does it pass? `arrays` are the columns of `self.columns` as they are stored, all of `row_count` rows.
    pub(super) fn evaluate(&mut self, arrays: Vec<ArrayRef>, row_count: usize) -> Result<BooleanBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.narrow.stored()), arrays, &options)?;
        let mut passed = BooleanBufferBuilder::new(row_count);
        let routed = self.routed()?;
        let slice_rows = if routed.is_some() { ROUTED_SLICE_ROWS } else { SLICE_ROWS };
        for first in (0..row_count).step_by(slice_rows) {
            let mut slice = batch.slice(first, slice_rows.min(row_count - first));
            if !self.takes_stored {
                slice = self.narrow.widened(slice)?;
            }
            if let Some(routed) = &routed {
                passed.append_buffer(&routed.evaluate(&slice)?);
                continue;
            }
            let result = self.expr.evaluate(&slice)?.into_array(slice.num_rows())?;
            let result = result.as_boolean_opt().ok_or_else(|| {
                DataFusionError::Internal(format!(
                    "filter {} is {}, not boolean",
                    self.expr,
                    result.data_type()
                ))
            })?;
            passed.append_buffer(&passed_bits(result));
        }
        let passed = passed.finish();
        self.rows_in += row_count as u64;
        self.rows_out += passed.count_set_bits() as u64;
        Ok(passed)
    }

    /// The filter by partition, where it has become such a one.
    fn routed(&mut self) -> Result<Option<Arc<Routed>>> {
        let Some(dynamic) = self.expr.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(None) };
        // Read first: what is newer than its number is made again, never the other way round.
        let generation = self.expr.snapshot_generation();
        if self.routed.as_ref().is_none_or(|(known, _)| *known != generation) {
            self.routed = Some((generation, Routed::of(&dynamic.current()?).map(Arc::new)));
        }
        Ok(self.routed.as_ref().and_then(|(_, routed)| routed.clone()))
    }
}

/// False where some part is more than a comparison with constants.
fn is_known(predicate: &Predicate<usize>) -> bool {
    match predicate {
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().all(is_known),
        Predicate::Test { .. } => true,
        Predicate::Unknown => false,
    }
}
