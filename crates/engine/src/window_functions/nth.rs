//! `nth_value` whose number comes from a column: DataFusion 55 takes it from constants alone.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::functions_window::nth_value::nth_value_udwf;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::scalar::ScalarValue;

/// `nth_value`, in place of DataFusion's.
pub(super) fn nth_value() -> Arc<WindowUDF> {
    Arc::new(WindowUDF::from(Nth { other: nth_value_udwf() }))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Nth {
    /// DataFusion's.
    other: Arc<WindowUDF>,
}

impl WindowUDFImpl for Nth {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        self.other.field(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        match args.input_exprs() {
            [_, number] if !number.is::<Literal>() => Ok(Box::new(OfRow {
                row: 0,
                is_reversed: args.is_reversed(),
                passes_over_nulls: args.ignore_nulls(),
            })),
            _ => self.other.partition_evaluator_factory(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::Reversed(Arc::new(WindowUDF::from(self.clone())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.other.inner().limit_effect(args)
    }
}

/// The value that the number of each row says, of its frame. It needs all rows of a partition, and is asked for each once, in
/// their order.
#[derive(Debug)]
struct OfRow {
    /// The next.
    row: usize,
    is_reversed: bool,
    passes_over_nulls: bool,
}

impl PartitionEvaluator for OfRow {
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        let (argument, numbers) = (&values[0], &values[1]);
        let number = ScalarValue::try_from_array(numbers, self.row)?.cast_to(&DataType::Int64)?;
        self.row += 1;
        let found = match number {
            ScalarValue::Int64(Some(number @ 1..)) => self.find(argument, frame, number as usize - 1),
            ScalarValue::Int64(Some(number)) => {
                return exec_err!("nth_value counts from 1; there is no value {number}");
            }
            _ => None,
        };
        match found {
            Some(row) => ScalarValue::try_from_array(argument, row),
            None => ScalarValue::try_from(argument.data_type()),
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

impl OfRow {
    /// The row of `frame` that has `before` others before it.
    fn find(&self, argument: &ArrayRef, frame: &Range<usize>, before: usize) -> Option<usize> {
        let nulls = if self.passes_over_nulls { argument.logical_nulls() } else { None };
        match (nulls, self.is_reversed) {
            (None, false) => frame.clone().nth(before),
            (None, true) => frame.clone().nth_back(before),
            (Some(nulls), false) => frame.clone().filter(|row| nulls.is_valid(*row)).nth(before),
            (Some(nulls), true) => frame.clone().rev().filter(|row| nulls.is_valid(*row)).nth(before),
        }
    }
}
