//! `max` and `min` of floats by group, and of nested values (`nested.rs`).
//!
//! DataFusion 55 begins a group with the most extreme finite number and goes on by `<`: the maximum of minus infinity
//! alone is -1.8e308, and a NaN, the greatest of all, never counts. Here groups begin with the end of the order that
//! `float_key` gives. All else is DataFusion's.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Float32Type, Float64Type};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use super::nested::NestedExtreme;

/// The function to take for `name`, `max` or `min`, of a float or a nested value; none for others.
pub(super) fn extreme(name: &str) -> Option<Arc<AggregateUDF>> {
    static MAX: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| of(max_udaf(), true));
    static MIN: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| of(min_udaf(), false));
    match name {
        "max" => Some(Arc::clone(&MAX)),
        "min" => Some(Arc::clone(&MIN)),
        _ => None,
    }
}

fn of(inner: Arc<AggregateUDF>, is_max: bool) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Extreme { inner, is_max }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    is_max: bool,
}

impl Extreme {
    /// Groups that begin with `least` where the largest is looked for, else with `greatest`.
    fn groups<T: ArrowPrimitiveType + Send>(
        &self,
        (least, greatest): (T::Native, T::Native),
        data_type: &DataType,
        is_less: fn(T::Native, T::Native) -> bool,
    ) -> Box<dyn GroupsAccumulator> {
        let is_max = self.is_max;
        let groups = PrimitiveGroupsAccumulator::<T, _>::new(data_type, move |current, new| {
            if if is_max { is_less(*current, new) } else { is_less(new, *current) } {
                *current = new;
            }
        });
        Box::new(groups.with_starting_value(if is_max { least } else { greatest }))
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            nested if nested.is_nested() => Ok(Box::new(NestedExtreme::new(self.is_max, nested))),
            _ => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.return_field.data_type().is_nested() && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type();
        match data_type {
            DataType::Float64 => {
                Ok(self.groups::<Float64Type>((f64::NEG_INFINITY, f64::NAN), data_type, |left, right| {
                    left.total_cmp(&right).is_lt()
                }))
            }
            DataType::Float32 => {
                Ok(self.groups::<Float32Type>((f32::NEG_INFINITY, f32::NAN), data_type, |left, right| {
                    left.total_cmp(&right).is_lt()
                }))
            }
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
