//! Aggregates of distinct values, and of pairs by group, that DataFusion computes otherwise.
//!
//! ```text
//!   corr(DISTINCT y, x), covar_…, regr_…     DataFusion 55 takes equal pairs as often as they come; here once
//!   bit_xor(DISTINCT x) … GROUP BY k         likewise; its own set of values, which it has for a total alone
//!   corr(y, x) … GROUP BY k                  from sums of squares: of 1e9 + 1, 1e9 + 2, … it is NULL, or any number; here as
//!                                            a total, from differences from the mean
//! ```
//!
//! A group takes memory for each of its distinct pairs.

use std::collections::HashSet;
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
};
use datafusion::scalar::ScalarValue;

/// Has groups that keep sums of squares.
const CORRELATION: &str = "corr";
/// Has groups that do not know DISTINCT.
const BITS: &str = "bit_xor";

/// Puts the functions in the place of those that the session has.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    for function in builder.aggregate_functions().iter_mut().flatten() {
        if is_of_pairs(function.name()) || function.name() == BITS {
            let inner = Arc::clone(function);
            *function = Arc::new(AggregateUDF::from(OfDistinct { inner }));
        }
    }
    builder
}

/// Whether aggregates of this name take pairs of doubles.
fn is_of_pairs(name: &str) -> bool {
    name == CORRELATION || name.starts_with("covar_") || name.starts_with("regr_")
}

/// All of `inner` but for distinct values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfDistinct {
    inner: Arc<AggregateUDF>,
}

impl OfDistinct {
    fn keeps_pairs(&self, is_distinct: bool) -> bool {
        is_distinct && is_of_pairs(self.inner.name())
    }
}

impl AggregateUDFImpl for OfDistinct {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let keeps_pairs = self.keeps_pairs(args.is_distinct);
        let inner = self.inner.accumulator(args)?;
        if !keeps_pairs {
            return Ok(inner);
        }
        Ok(Box::new(DistinctPairs { pairs: HashSet::new(), inner }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if !self.keeps_pairs(args.is_distinct) {
            return self.inner.state_fields(args);
        }
        let list = |side: &str| -> FieldRef {
            let name = format_state_name(args.name, side);
            Field::new_list(name, Field::new_list_field(DataType::Float64, true), true).into()
        };
        Ok(vec![list("distinct_y"), list("distinct_x")])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct && self.inner.name() != CORRELATION && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.keeps_pairs(args.is_distinct) {
            return self.accumulator(args);
        }
        self.inner.create_sliding_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            ReversedUDAF::NotSupported | ReversedUDAF::Reversed(_) => ReversedUDAF::NotSupported,
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// Pairs of doubles, each of which is aggregated once. A pair with NULL is none.
#[derive(Debug)]
struct DistinctPairs {
    /// As bits, with one zero and one NaN.
    pairs: HashSet<(u64, u64)>,
    inner: Box<dyn Accumulator>,
}

impl Accumulator for DistinctPairs {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (ys, xs) = (values[0].as_primitive::<Float64Type>(), values[1].as_primitive::<Float64Type>());
        let pairs = ys.iter().zip(xs).filter_map(|(y, x)| y.zip(x));
        let new = pairs.filter(|(y, x)| self.pairs.insert((bits(*y), bits(*x))));
        let (ys, xs): (Vec<f64>, Vec<f64>) = new.unzip();
        self.inner.update_batch(&[Arc::new(Float64Array::from(ys)), Arc::new(Float64Array::from(xs))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (ys, xs) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for state in (0..ys.len()).filter(|&state| ys.is_valid(state)) {
            self.update_batch(&[ys.value(state), xs.value(state)])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let double = |bits: u64| ScalarValue::from(f64::from_bits(bits));
        let pairs = self.pairs.iter().map(|(y, x)| (double(*y), double(*x)));
        let (ys, xs): (Vec<ScalarValue>, Vec<ScalarValue>) = pairs.unzip();
        let list = |values: &[ScalarValue]| ScalarValue::new_list_nullable(values, &DataType::Float64);
        Ok(vec![ScalarValue::List(list(&ys)), ScalarValue::List(list(&xs))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        // A byte of control for each place.
        let place = size_of::<(u64, u64)>() + 1;
        size_of_val(self) + self.pairs.capacity() * place + self.inner.size()
    }
}

/// What is the same for values that are equal in SQL.
fn bits(value: f64) -> u64 {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 }; // -0.0 + 0.0 is 0.0
    value.to_bits()
}

#[cfg(test)]
mod tests {
    use datafusion::functions_aggregate::covariance::CovarianceAccumulator;
    use datafusion_functions_aggregate_common::stats::StatsType;

    use super::*;

    fn nothing() -> DistinctPairs {
        let inner = CovarianceAccumulator::try_new(StatsType::Population).unwrap();
        DistinctPairs { pairs: HashSet::new(), inner: Box::new(inner) }
    }

    fn columns(pairs: &[(Option<f64>, Option<f64>)]) -> [ArrayRef; 2] {
        let (ys, xs): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        [Arc::new(Float64Array::from(ys)), Arc::new(Float64Array::from(xs))]
    }

    #[test]
    fn equal_pairs_count_once_in_whatever_part_they_come() {
        let (one, three) = ((Some(1.0), Some(1.0)), (Some(3.0), Some(3.0)));
        let mut whole = nothing();
        for part in [vec![one, one, (None, Some(2.0))], vec![three, one], vec![]] {
            let mut partial = nothing();
            partial.update_batch(&columns(&part)).unwrap();
            let state = partial.state().unwrap();
            let state: Vec<ArrayRef> = state.iter().map(|list| list.to_array().unwrap()).collect();
            whole.merge_batch(&state).unwrap();
        }
        assert_eq!(whole.pairs.len(), 2);
        assert_eq!(whole.evaluate().unwrap(), ScalarValue::Float64(Some(1.0)));
        assert_eq!(whole.evaluate().unwrap(), ScalarValue::Float64(Some(1.0)));
    }

    #[test]
    fn zeros_and_nans_are_one_value_each() {
        assert_eq!(bits(-0.0), bits(0.0));
        assert_eq!(bits(-f64::NAN), bits(f64::NAN));
        assert_ne!(bits(1.0), bits(-1.0));
    }
}
