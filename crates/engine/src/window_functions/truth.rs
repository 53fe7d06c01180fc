//! `bool_and` and `bool_or` over frames that move on: as many values as are true, and as are false.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

#[derive(Debug)]
pub(super) struct Truth {
    is_and: bool,
    trues: usize,
    falses: usize,
}

impl Truth {
    pub(super) fn new(is_and: bool) -> Self {
        Self { is_and, trues: 0, falses: 0 }
    }
}

/// How many of `values` are true, and how many false.
fn counts(values: &ArrayRef) -> (usize, usize) {
    let trues = values.as_boolean().true_count();
    (trues, values.len() - values.null_count() - trues)
}

impl Accumulator for Truth {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (trues, falses) = counts(&values[0]);
        self.trues += trues;
        self.falses += falses;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (trues, falses) = counts(&values[0]);
        self.trues -= trues;
        self.falses -= falses;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let is_true = if self.is_and { self.falses == 0 } else { self.trues > 0 };
        Ok(ScalarValue::Boolean((self.trues + self.falses > 0).then_some(is_true)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("the aggregate of a frame is not merged with others")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("the aggregate of a frame is not merged with others")
    }
}
