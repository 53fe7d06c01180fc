//! The row filters of a scan: the query's own predicates, and filters that other operators derive while it runs.
//!
//! A static conjunct must be evaluated: the scan promised it. A dynamic filter (bounds and keys of a
//! finished hash build, the threshold of a top-k) is an offer: while it lets most rows pass it is left out
//! of most row groups, since the join above will test the rows anyway. `order.rs` has the order of evaluation.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;

use pelton_store::Table;
use pelton_zone::Predicate;

use super::keys::KeyBits;
use super::narrow::Narrow;
use super::order::{Measured, RETRY_EVERY};
use super::routed::Routed;
use super::selection::passed_bits;
use crate::eager::never_fails;
use crate::error::to_datafusion;
use crate::predicate::zone_predicate;
use crate::prune::ZoneLookup;

/// Rows that a filter sees at a time: small enough for intermediates to stay in the L2 cache.
const SLICE_ROWS: usize = 8192;

/// The same of a filter that sees the rows of each partition by themselves.
const ROUTED_SLICE_ROWS: usize = 8 * SLICE_ROWS;

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
    /// True for filters that may be left out.
    optional: bool,
    /// True where some row may have an error in place of a result.
    may_fail: bool,
    /// Rows that the filter is for, about.
    rows: u64,
    /// What a dynamic filter says, and the generation of it that says so: 0 before it was asked.
    told: Told,
    generation: u64,
    measured: Measured,
    /// Row groups, one after the other, that the filter was left out of.
    left_out: u32,
}

/// What a dynamic filter says by now.
#[derive(Debug, Clone)]
enum Told {
    /// That all rows pass: the operator that narrows it knows no better yet.
    Nothing,
    /// A condition, as static conjuncts are.
    Condition,
    /// The whole numbers that pass a condition.
    Keys(Arc<KeyBits>),
    /// A condition for each partition of a join.
    Routed(Arc<Routed>),
}

impl Told {
    fn of(current: &Arc<dyn PhysicalExpr>) -> Self {
        let value = current.downcast_ref::<Literal>().map(Literal::value);
        if matches!(value, Some(ScalarValue::Boolean(Some(true)))) {
            return Self::Nothing;
        }
        Routed::of(current).map_or(Self::Condition, |routed| Self::Routed(Arc::new(routed)))
    }
}

impl ScanFilter {
    /// A conjunct of the query over `table`'s columns: it is evaluated wherever zone maps do not prove it.
    pub(super) fn required(expr: &Arc<dyn PhysicalExpr>, table: &Table) -> Result<Self> {
        let predicate = zone_predicate(expr, table.schema());
        let zones = ZoneLookup::own(table, &predicate).map_err(to_datafusion)?;
        let mut filter =
            Self { proof: Some((predicate, zones)), optional: false, ..Self::optional(expr, table, 0)? };
        filter.may_fail &= !filter.is_cheap(); // what zone maps understand compares values and nothing else
        Ok(match filter.narrow.over_stored(&filter.expr)? {
            Some(expr) => Self { expr, takes_stored: true, ..filter },
            None => filter,
        })
    }

    /// A filter over `table`'s columns that may be left out, for about so many `rows`.
    pub(super) fn optional(expr: &Arc<dyn PhysicalExpr>, table: &Table, rows: u64) -> Result<Self> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        let narrow = Narrow::of(&Arc::new(table.arrow_schema().project(&columns)?));
        let may_fail = may_fail(expr, &table.arrow_schema());
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
            may_fail,
            rows,
            told: Told::Condition,
            generation: 0,
            measured: Measured::NOTHING,
            left_out: 0,
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

    /// Whether the next row group is held against the filter. One that has proved not to filter is tried again from time
    /// to time: what it says, or the rows, may have changed.
    pub(super) fn is_due(&mut self) -> Result<bool> {
        self.refresh()?;
        if matches!(self.told, Told::Nothing) {
            return Ok(false);
        }
        if !self.optional || self.measured.drops_enough() {
            return Ok(true);
        }
        self.left_out += 1;
        if self.left_out < RETRY_EVERY {
            return Ok(false);
        }
        self.left_out = 0;
        self.measured.begin_anew();
        Ok(true)
    }

    /// True for dynamic filters.
    pub(super) fn is_offer(&self) -> bool {
        self.optional
    }

    /// False for filters that may fail: they stay behind all others.
    pub(super) fn may_move(&self) -> bool {
        !self.may_fail
    }

    /// True until the filter has seen rows.
    pub(super) fn is_new(&self) -> bool {
        self.measured.is_nothing()
    }

    /// Filters of a higher rank are evaluated before this one. See `order.rs`.
    pub(super) fn rank(&self) -> f64 {
        if self.may_fail { f64::NEG_INFINITY } else { self.measured.rank() }
    }

    /// One bit a row: does it pass? `arrays` are the columns of `self.columns` as they are stored, all of `row_count` rows.
    pub(super) fn evaluate(&mut self, arrays: Vec<ArrayRef>, row_count: usize) -> Result<BooleanBuffer> {
        self.refresh()?;
        let started = Instant::now();
        if let Told::Keys(keys) = &self.told {
            let passed = keys.passed(&arrays[0])?;
            self.measured.add(row_count, passed.count_set_bits(), started.elapsed());
            return Ok(passed);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.narrow.stored()), arrays, &options)?;
        let mut passed = BooleanBufferBuilder::new(row_count);
        let routed = match &self.told {
            Told::Routed(routed) => Some(routed),
            Told::Nothing | Told::Condition | Told::Keys(_) => None,
        };
        let slice_rows = if routed.is_some() { ROUTED_SLICE_ROWS } else { SLICE_ROWS };
        for first in (0..row_count).step_by(slice_rows) {
            let mut slice = batch.slice(first, slice_rows.min(row_count - first));
            if !self.takes_stored {
                slice = self.narrow.widened(slice)?;
            }
            if let Some(routed) = routed {
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
        self.measured.add(row_count, passed.count_set_bits(), started.elapsed());
        Ok(passed)
    }

    /// Asks a dynamic filter what it says by now. One that says something else is judged anew.
    fn refresh(&mut self) -> Result<()> {
        let Some(dynamic) = self.expr.downcast_ref::<DynamicFilterPhysicalExpr>() else { return Ok(()) };
        // Read first: what is newer than its number is made again, never the other way round.
        let generation = self.expr.snapshot_generation();
        if self.generation != generation {
            let current = dynamic.current()?;
            self.told = Told::of(&current);
            if matches!(self.told, Told::Condition) && !self.may_fail {
                let keys = KeyBits::of(&current, self.narrow.schema(), self.rows)?;
                self.told = keys.map_or(Told::Condition, |keys| Told::Keys(Arc::new(keys)));
            }
            self.generation = generation;
            self.measured.begin_anew();
        }
        Ok(())
    }
}

/// Whether `expr`, over rows of `schema`, may fail on some row. Dynamic filters look values up, which fails only where
/// computing the values does.
fn may_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    match expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
        Some(dynamic) => dynamic.children().into_iter().any(|value| may_fail(value, schema)),
        None => !never_fails(expr, schema),
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

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, cast, lit};

    fn schema() -> Schema {
        Schema::new(["a", "b"].map(|name| Field::new(name, DataType::Int64, true)).to_vec())
    }

    fn column(name: &str) -> Arc<dyn PhysicalExpr> {
        datafusion::physical_expr::expressions::col(name, &schema()).unwrap()
    }

    fn binary(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    /// A filter over `key` that says nothing yet.
    fn dynamic(key: Arc<dyn PhysicalExpr>) -> Arc<DynamicFilterPhysicalExpr> {
        Arc::new(DynamicFilterPhysicalExpr::new(vec![key], lit(true)))
    }

    #[test]
    fn divisions_and_casts_may_fail_wherever_they_are_and_comparisons_never() {
        let quotient = || binary(column("a"), Operator::Divide, column("b"));
        let less = binary(column("a"), Operator::Lt, lit(5_i64));
        let fails: [Arc<dyn PhysicalExpr>; 4] = [
            binary(quotient(), Operator::Lt, lit(5_i64)),
            binary(Arc::clone(&less), Operator::Or, binary(quotient(), Operator::Eq, lit(1_i64))),
            binary(cast(column("a"), &schema(), DataType::Int8).unwrap(), Operator::Eq, lit(1_i8)),
            dynamic(quotient()),
        ];
        let passes: [Arc<dyn PhysicalExpr>; 3] =
            [Arc::clone(&less), binary(less, Operator::And, column("b")), dynamic(column("a"))];
        assert!(fails.iter().all(|expr| may_fail(expr, &schema())));
        assert!(!passes.iter().any(|expr| may_fail(expr, &schema())));
    }

    #[test]
    fn a_dynamic_filter_says_nothing_until_it_is_told() {
        let filter = dynamic(column("a"));
        assert!(matches!(Told::of(&filter.current().unwrap()), Told::Nothing));
        filter.update(binary(column("a"), Operator::Lt, lit(5_i64))).unwrap();
        assert!(matches!(Told::of(&filter.current().unwrap()), Told::Condition));
        filter.update(lit(false)).unwrap();
        assert!(matches!(Told::of(&filter.current().unwrap()), Told::Condition), "no row passes");
    }
}
