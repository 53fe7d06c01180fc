//! `row_number`, `rank`, `dense_rank` and `ntile` as BIGINT, which they are in PostgreSQL and DuckDB. In DataFusion 55 they are
//! unsigned: `-r` and `abs(r - 3)` of such a column fail, and so do functions that take a BIGINT.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::error::Result;
use datafusion::functions_window::ntile::ntile_udwf;
use datafusion::functions_window::rank::{dense_rank_udwf, rank_udwf};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Documentation, Expr, LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::scalar::ScalarValue;

/// These functions, in place of DataFusion's.
pub(crate) fn ranks() -> [Arc<WindowUDF>; 4] {
    [row_number_udwf(), rank_udwf(), dense_rank_udwf(), ntile_udwf()].map(signed)
}

/// A call of `row_number`, for plans that number rows themselves.
pub(crate) fn row_number() -> Expr {
    signed(row_number_udwf()).call(Vec::new())
}

fn signed(other: Arc<WindowUDF>) -> Arc<WindowUDF> {
    Arc::new(WindowUDF::from(Signed { other }))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Signed {
    /// DataFusion's.
    other: Arc<WindowUDF>,
}

impl WindowUDFImpl for Signed {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(SignedRanks { other: self.other.partition_evaluator_factory(args)? }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Field::new(args.name(), DataType::Int64, false).into())
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.other.sort_options()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.other.inner().limit_effect(args)
    }
}

/// DataFusion's evaluator, its results as BIGINT. None of these functions looks at a frame.
#[derive(Debug)]
struct SignedRanks {
    other: Box<dyn PartitionEvaluator>,
}

impl PartitionEvaluator for SignedRanks {
    fn is_causal(&self) -> bool {
        self.other.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        self.other.evaluate_all(values, num_rows).map(with_sign)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        match self.other.evaluate(values, range)? {
            ScalarValue::UInt64(rank) => Ok(ScalarValue::Int64(rank.map(|rank| rank as i64))),
            other => other.cast_to(&DataType::Int64),
        }
    }

    fn evaluate_all_with_rank(&self, num_rows: usize, peers: &[Range<usize>]) -> Result<ArrayRef> {
        self.other.evaluate_all_with_rank(num_rows, peers).map(with_sign)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.other.supports_bounded_execution()
    }

    fn include_rank(&self) -> bool {
        self.other.include_rank()
    }
}

/// `ranks` as BIGINT. All of them fit: a partition has fewer than 2^63 rows.
fn with_sign(ranks: ArrayRef) -> ArrayRef {
    Arc::new(ranks.as_primitive::<UInt64Type>().unary::<_, Int64Type>(|rank| rank as i64))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int64Array;

    use super::*;

    #[test]
    fn ranks_of_whole_partitions_and_of_single_rows_are_signed() {
        for (rank, expected) in ranks().iter().zip([[1, 2, 3], [1, 1, 3], [1, 1, 2]]) {
            let evaluator = || rank.partition_evaluator_factory(PartitionEvaluatorArgs::default()).unwrap();
            let name = rank.name();
            let keys: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![7, 7, 8]))];
            let all = match evaluator().include_rank() {
                true => evaluator().evaluate_all_with_rank(3, &[0..2, 2..3]),
                false => evaluator().evaluate_all(&keys, 3),
            };
            assert_eq!(all.unwrap().as_primitive::<Int64Type>().values(), &expected, "{name}");
            let mut by_row = evaluator();
            for (row, expected) in expected.into_iter().enumerate() {
                let found = by_row.evaluate(&keys, &(row..row + 1)).unwrap();
                assert_eq!(found, ScalarValue::Int64(Some(expected)), "{name}");
            }
        }
    }
}
