//! Aggregates that give back one of the values of a group: `percentile_disc` and `mode`.
//!
//! ```text
//!   percentile_disc(f) WITHIN GROUP (ORDER BY x)   value number ceil(f * n) of n in order; the first for f = 0
//!   mode() WITHIN GROUP (ORDER BY x)               the value that comes most often, of several the first
//! ```
//!
//! Values of any type that is ordered are counted, so a group takes memory for each of its distinct values. NULLs do not count.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

/// Adds both to the functions of a session.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    for (name, argument_count) in [("mode", 1), ("percentile_disc", 2)] {
        let signature = Signature::any(argument_count, Volatility::Immutable);
        aggregates.push(Arc::new(AggregateUDF::from(Discrete { name, signature })));
    }
    builder
}

/// The value is the first argument, for DataFusion puts the key of WITHIN GROUP before the others.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Discrete {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for Discrete {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let list = |name: &str, items: DataType| -> FieldRef {
            let name = format_state_name(args.name, name);
            Field::new_list(name, Field::new_list_field(items, true), true).into()
        };
        Ok(vec![list("values", args.input_fields[0].data_type().clone()), list("counts", DataType::Int64)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Counted {
            counts: HashMap::new(),
            value_bytes: 0,
            fraction: if self.name == "mode" { None } else { Some(fraction(&args)?) },
            descends: args.order_bys.first().is_some_and(|key| key.options.descending),
            data_type: args.expr_fields[0].data_type().clone(),
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    /// Values are put into order here.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The constant that a call of `percentile_disc` has beside its values.
fn fraction(args: &AccumulatorArgs) -> Result<f64> {
    let no_rows = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let value = match args.exprs[1].evaluate(&no_rows)? {
        ColumnarValue::Scalar(value) => value.cast_to(&DataType::Float64)?,
        ColumnarValue::Array(_) => ScalarValue::Null,
    };
    match value {
        ScalarValue::Float64(Some(fraction)) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => exec_err!("percentile_disc takes a number from 0 to 1, not {}", args.exprs[1]),
    }
}

/// How often each value came.
#[derive(Debug)]
struct Counted {
    counts: HashMap<ScalarValue, i64>,
    /// What the values take beside their places in the table.
    value_bytes: usize,
    /// Of `percentile_disc`.
    fraction: Option<f64>,
    descends: bool,
    data_type: DataType,
}

impl Counted {
    fn add(&mut self, value: ScalarValue, count: i64) {
        if let Some(known) = self.counts.get_mut(&value) {
            *known += count;
            return;
        }
        self.value_bytes += value.size() - size_of::<ScalarValue>();
        self.counts.insert(value, count);
    }

    fn order(&self, left: &ScalarValue, right: &ScalarValue) -> Ordering {
        let order = left.partial_cmp(right).unwrap_or(Ordering::Equal);
        if self.descends { order.reverse() } else { order }
    }

    fn mode(&self) -> Option<&ScalarValue> {
        let most = self.counts.iter().max_by(|(left, left_count), (right, right_count)| {
            left_count.cmp(right_count).then_with(|| self.order(right, left))
        });
        most.map(|(value, _)| value)
    }

    fn percentile(&self, fraction: f64) -> Option<&ScalarValue> {
        let total: i64 = self.counts.values().sum();
        let mut values: Vec<(&ScalarValue, i64)> =
            self.counts.iter().map(|(value, count)| (value, *count)).collect();
        values.sort_unstable_by(|(left, _), (right, _)| self.order(left, right));
        let row = ((fraction * total as f64).ceil() as i64).max(1);
        let mut reached = 0;
        let found = values.into_iter().find(|(_, count)| {
            reached += count;
            reached >= row
        });
        found.map(|(value, _)| value)
    }
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = &values[0]; // the fraction comes along
        let nulls = values.logical_nulls();
        for row in (0..values.len()).filter(|&row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))) {
            self.add(ScalarValue::try_from_array(values, row)?, 1);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, counts) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for state in (0..values.len()).filter(|&state| values.is_valid(state)) {
            let (values, counts) = (values.value(state), counts.value(state));
            for (row, count) in counts.as_primitive::<Int64Type>().values().iter().enumerate() {
                self.add(ScalarValue::try_from_array(&values, row)?, *count);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<ScalarValue>, Vec<i64>) =
            std::mem::take(&mut self.counts).into_iter().unzip();
        let counts: Vec<ScalarValue> = counts.into_iter().map(ScalarValue::from).collect();
        Ok(vec![
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.data_type)),
            ScalarValue::List(ScalarValue::new_list_nullable(&counts, &DataType::Int64)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = match self.fraction {
            Some(fraction) => self.percentile(fraction),
            None => self.mode(),
        };
        found.cloned().map_or_else(|| ScalarValue::try_new_null(&self.data_type), Ok)
    }

    fn size(&self) -> usize {
        // A byte of control for each place.
        let place = size_of::<(ScalarValue, i64)>() + 1;
        size_of_val(self) + self.value_bytes + self.counts.capacity() * place
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int32Array, StringArray};

    use super::*;

    fn counted(fraction: Option<f64>, descends: bool, data_type: DataType) -> Counted {
        Counted { counts: HashMap::new(), value_bytes: 0, fraction, descends, data_type }
    }

    /// What `values`, in two parts that are merged, give.
    fn check(fraction: Option<f64>, descends: bool, values: &[Option<i32>], expected: Option<i32>) {
        let mut whole = counted(fraction, descends, DataType::Int32);
        for part in values.chunks(values.len().div_ceil(2).max(1)) {
            let mut partial = counted(fraction, descends, DataType::Int32);
            partial.update_batch(&[Arc::new(Int32Array::from(part.to_vec()))]).unwrap();
            let state = partial.state().unwrap();
            let state: Vec<ArrayRef> = state.iter().map(|state| state.to_array().unwrap()).collect();
            whole.merge_batch(&state).unwrap();
        }
        assert_eq!(whole.evaluate().unwrap(), ScalarValue::Int32(expected), "{fraction:?} of {values:?}");
    }

    #[test]
    fn percentiles_are_values_and_the_first_that_is_far_enough() {
        let values = [Some(30), None, Some(10), Some(40), Some(20)];
        for (fraction, expected) in [(0.0, 10), (0.25, 10), (0.26, 20), (0.5, 20), (0.75, 30), (1.0, 40)] {
            check(Some(fraction), false, &values, Some(expected));
        }
        check(Some(0.5), true, &values, Some(30));
        check(Some(0.5), false, &[Some(1), Some(1), Some(1), Some(9)], Some(1));
        check(Some(0.5), false, &[None], None);
        check(Some(0.5), false, &[], None);
    }

    #[test]
    fn of_several_modes_the_first_in_order_is_taken() {
        check(None, false, &[Some(1), Some(2), None, None, None, Some(2)], Some(2));
        check(None, false, &[Some(3), Some(1), Some(3), Some(1)], Some(1));
        check(None, true, &[Some(3), Some(1), Some(3), Some(1)], Some(3));
        check(None, false, &[None, None], None);
    }

    #[test]
    fn texts_are_counted_with_their_bytes() {
        let mut texts = counted(None, false, DataType::Utf8);
        texts.update_batch(&[Arc::new(StringArray::from(vec!["a longer text", "b", "b"]))]).unwrap();
        assert_eq!(texts.evaluate().unwrap(), ScalarValue::from("b"));
        assert!(texts.size() > size_of_val(&texts) + "a longer text".len());
    }
}
