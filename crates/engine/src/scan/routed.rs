//! The filter that a join in partitions gives to a scan, evaluated a partition at a time.
//!
//! ```text
//!   CASE hash(key) % 3                 rows of a slice by partition
//!     WHEN 0 THEN key in table 0         0: 17  4 25 …   their keys ─▶ key in table 0 ─▶ bits of rows 17, 4, 25
//!     WHEN 1 THEN key in table 1         1:  9 12  3 …
//! ```
//!
//! DataFusion's CASE gives the same bits. It goes through all rows for each branch and merges what the branches give row by
//! row, which takes longer with 16 partitions than everything else in the scan.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Literal};
use datafusion::physical_plan::joins::HashExpr;

use super::selection::passed_bits;

/// More partitions than this are left to CASE: no machine has so many threads.
const PARTITIONS_MAX: u64 = 4096;

/// A condition for each partition of the rows.
#[derive(Debug)]
pub(super) struct Routed {
    /// The partition of a row, below the number of `conditions`.
    partition: Arc<dyn PhysicalExpr>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone)]
enum Condition {
    Constant(bool),
    Of(Arc<dyn PhysicalExpr>),
}

impl Routed {
    /// `expr` by partition, if it is a CASE over `hash % n`, which is never NULL, with conditions for numbers below n.
    pub(super) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let case = expr.downcast_ref::<CaseExpr>()?;
        let partition = case.expr()?;
        let modulo = partition.downcast_ref::<BinaryExpr>()?;
        if *modulo.op() != Operator::Modulo || !modulo.left().is::<HashExpr>() {
            return None;
        }
        let count = number(modulo.right()).filter(|count| (1..=PARTITIONS_MAX).contains(count))?;
        let otherwise = match case.else_expr() {
            None => Condition::Constant(false),
            Some(expr) => condition(expr),
        };
        let mut conditions = vec![otherwise; count as usize];
        // The first that fits counts, as in CASE.
        for (when, then) in case.when_then_expr().iter().rev() {
            *conditions.get_mut(number(when)? as usize)? = condition(then);
        }
        Some(Self { partition: Arc::clone(partition), conditions })
    }

    /// A bit for each row of `batch`: its condition holds.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let row_count = batch.num_rows();
        let partitions = self.partition.evaluate(batch)?.into_array(row_count)?;
        let partitions = partitions.as_primitive_opt::<UInt64Type>().ok_or_else(|| {
            DataFusionError::Internal(format!("the partition of a row is {}", partitions.data_type()))
        })?;
        let (rows, ends) = by_partition(partitions.values(), self.conditions.len());
        let mut passed = BooleanBufferBuilder::new(row_count);
        passed.append_n(row_count, false);
        let mut first = 0;
        for (condition, end) in self.conditions.iter().zip(ends) {
            let of_partition = &rows[first..end];
            first = end;
            match condition {
                _ if of_partition.is_empty() => {}
                Condition::Constant(holds) => {
                    of_partition.iter().for_each(|&row| passed.set_bit(row as usize, *holds));
                }
                Condition::Of(expr) => {
                    let bits = evaluate_at(expr, batch, of_partition)?;
                    bits.set_indices().for_each(|at| passed.set_bit(of_partition[at] as usize, true));
                }
            }
        }
        Ok(passed.finish())
    }
}

fn condition(expr: &Arc<dyn PhysicalExpr>) -> Condition {
    match expr.downcast_ref::<Literal>().map(Literal::value) {
        Some(ScalarValue::Boolean(value)) => Condition::Constant(value.unwrap_or(false)),
        _ => Condition::Of(Arc::clone(expr)),
    }
}

fn number(expr: &Arc<dyn PhysicalExpr>) -> Option<u64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::UInt64(value) => *value,
        _ => None,
    }
}

/// The numbers of the rows, those of the first of `count` partitions first, and where each partition ends.
fn by_partition(partitions: &[u64], count: usize) -> (Vec<u32>, Vec<usize>) {
    let mut places = vec![0; count];
    partitions.iter().for_each(|&partition| places[partition as usize] += 1);
    let mut sum = 0;
    for place in &mut places {
        (*place, sum) = (sum, sum + *place);
    }
    let mut rows = vec![0; partitions.len()];
    for (row, &partition) in partitions.iter().enumerate() {
        let place = &mut places[partition as usize];
        rows[*place] = row as u32;
        *place += 1;
    }
    (rows, places)
}

/// One bit for each of `rows`.
fn evaluate_at(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch, rows: &[u32]) -> Result<BooleanBuffer> {
    let indices = UInt32Array::from_iter_values(rows.iter().copied());
    let columns = batch.columns().iter().map(|column| take(column, &indices, None));
    let columns: Vec<ArrayRef> = columns.collect::<std::result::Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let taken = RecordBatch::try_new_with_options(batch.schema(), columns, &options)?;
    let result = expr.evaluate(&taken)?.into_array(rows.len())?;
    let result = result.as_boolean_opt().ok_or_else(|| {
        DataFusionError::Internal(format!("filter {expr} is {}, not boolean", result.data_type()))
    })?;
    Ok(passed_bits(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{Column, binary, lit};
    use datafusion::physical_plan::joins::SeededRandomState;

    const ROWS: i64 = 1000;

    /// Rows of `id` and of `key`, which is NULL in every seventh.
    fn batch() -> RecordBatch {
        let schema = Schema::new(["id", "key"].map(|name| Field::new(name, DataType::Int64, true)).to_vec());
        let ids = Int64Array::from_iter_values(0..ROWS);
        let keys: Int64Array = (0..ROWS).map(|row| (row % 7 != 0).then_some(row * 31 % 97)).collect();
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(keys)]).unwrap()
    }

    fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, index))
    }

    fn hash() -> Arc<dyn PhysicalExpr> {
        Arc::new(HashExpr::new(vec![column("id", 0)], SeededRandomState::with_seed(5), "hash".to_owned()))
    }

    /// CASE hash(id) % count WHEN … THEN key < bound … ELSE otherwise.
    fn case(
        count: u64,
        bounds: &[(u64, i64)],
        otherwise: Option<Arc<dyn PhysicalExpr>>,
    ) -> Arc<dyn PhysicalExpr> {
        let schema = batch().schema();
        let partition = binary(hash(), Operator::Modulo, lit(count), &schema).unwrap();
        let branch = |&(number, bound): &(u64, i64)| {
            (lit(number), binary(column("key", 1), Operator::Lt, lit(bound), &schema).unwrap())
        };
        Arc::new(CaseExpr::try_new(Some(partition), bounds.iter().map(branch).collect(), otherwise).unwrap())
    }

    #[track_caller]
    fn assert_as_case(expr: &Arc<dyn PhysicalExpr>) {
        let batch = batch();
        let by_case = expr.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
        let routed = Routed::of(expr).expect("a CASE by partition");
        assert_eq!(routed.evaluate(&batch).unwrap(), passed_bits(by_case.as_boolean()));
        let empty = batch.slice(0, 0);
        assert_eq!(routed.evaluate(&empty).unwrap().len(), 0);
    }

    #[test]
    fn bits_are_those_of_case() {
        for count in [1, 2, 3, 16, 100] {
            let all: Vec<(u64, i64)> = (0..count).map(|number| (number, number as i64 * 5)).collect();
            for otherwise in [None, Some(lit(false)), Some(lit(true))] {
                assert_as_case(&case(count, &all, otherwise.clone()));
                assert_as_case(&case(count, &all[..all.len().div_ceil(2)], otherwise));
            }
        }
    }

    #[test]
    fn the_first_of_two_branches_counts() {
        assert_as_case(&case(2, &[(0, 50), (0, 90), (1, 10)], Some(lit(true))));
    }

    #[test]
    fn other_expressions_are_left_alone() {
        let schema = batch().schema();
        let comparison = binary(column("key", 1), Operator::Lt, lit(5_i64), &schema).unwrap();
        assert!(Routed::of(&comparison).is_none());
        assert!(Routed::of(&case(2, &[(2, 5)], None)).is_none(), "a number that no row has");
        assert!(Routed::of(&case(PARTITIONS_MAX + 1, &[(0, 5)], None)).is_none());
        let ids = binary(column("id", 0), Operator::Modulo, lit(2_i64), &schema).unwrap();
        let by_column =
            CaseExpr::try_new(Some(ids), vec![(lit(0_i64), Arc::clone(&comparison))], None).unwrap();
        assert!(Routed::of(&(Arc::new(by_column) as Arc<dyn PhysicalExpr>)).is_none(), "it may be NULL");
        let searched = CaseExpr::try_new(None, vec![(comparison, lit(true))], None).unwrap();
        assert!(Routed::of(&(Arc::new(searched) as Arc<dyn PhysicalExpr>)).is_none());
    }
}
