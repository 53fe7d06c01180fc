//! `avg` of integers and decimals: a DOUBLE, divided once from an exact sum.
//!
//! ```text
//!   state    count, sum (NULL where no value was seen)
//!   result   sum / (count * 10^scale), as doubles
//! ```
//!
//! While sum and divisor have at most 53 bits, the result is the double nearest to the true average. Floats and
//! durations are averaged by DataFusion.

use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::accumulate;

use super::sum::{ArrowPrimitiveBits, DistinctValues, distinct_state_field};
use super::total::{
    Summand, Total, add_column, for_summand, null_of, rows_as_states, state_type, sum_type, too_large,
    totals_as_states,
};
use super::types::coerced_by;
use crate::window_functions;

/// `avg` in place of DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Avg {
    signature: Signature,
    /// DataFusion's, for floats and durations.
    other: Arc<AggregateUDF>,
}

impl Avg {
    pub(super) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), other: avg_udaf() }
    }
}

/// Whether averages of `input` come from an exact sum.
pub(crate) fn is_exact(input: &DataType) -> bool {
    sum_type(input).is_some() && !matches!(input, DataType::Duration(_))
}

/// Whether `function` is our `avg`.
pub(crate) fn is_avg(function: &AggregateUDF) -> bool {
    function.inner().is::<Avg>()
}

impl AggregateUDFImpl for Avg {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        self.other.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [exact] if is_exact(exact) => Ok(arguments.to_vec()),
            _ => coerced_by(&self.other, arguments),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if is_exact(&arguments[0]) { Ok(DataType::Float64) } else { self.other.return_type(arguments) }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input = args.input_fields[0].data_type();
        match state_type(input).filter(|_| is_exact(input)) {
            None => self.other.state_fields(args),
            Some(_) if args.is_distinct => Ok(vec![distinct_state_field(args.name, input)]),
            Some(sum) => Ok(vec![
                Field::new(format_state_name(args.name, "count"), DataType::UInt64, true).into(),
                Field::new(format_state_name(args.name, "sum"), sum, true).into(),
            ]),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let input = args.expr_fields[0].data_type().clone();
        match (is_exact(&input), args.is_distinct) {
            (false, _) => self.other.accumulator(args),
            (true, false) => for_summand!(input, running(&args, &input), self.other.accumulator(args)),
            (true, true) => for_summand!(input, distinct(&args, &input), self.other.accumulator(args)),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields[0].data_type() {
            DataType::Float64 if !args.is_distinct => Ok(window_functions::average()),
            exact if is_exact(exact) => self.accumulator(args),
            _ => self.other.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match is_exact(args.expr_fields[0].data_type()) {
            true => !args.is_distinct,
            false => self.other.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let input = args.expr_fields[0].data_type().clone();
        match is_exact(&input) {
            true => for_summand!(input, grouped(&args, &input), self.other.create_groups_accumulator(args)),
            false => self.other.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

/// 10^scale of `input`: what its unscaled values are multiples of.
pub(crate) fn unit_of(input: &DataType) -> f64 {
    match input {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            10_f64.powi(i32::from(*scale))
        }
        _ => 1.0,
    }
}

/// Of `count` values that add up to `total` times `unit`.
pub(crate) fn average<A: Total>(total: A, count: u64, unit: f64) -> f64 {
    total.as_f64() / (count as f64 * unit)
}

fn running<T: Summand<A>, A: Total>(
    args: &AccumulatorArgs,
    input: &DataType,
) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Running::<T, A> {
        total: A::default(),
        count: 0,
        name: args.name.to_owned(),
        unit: unit_of(input),
        state: state_type(input).expect("a summand has states"),
        input: std::marker::PhantomData,
    }))
}

/// One average, of all rows or of those in a sliding frame.
#[derive(Debug)]
struct Running<T, A> {
    total: A,
    count: u64,
    name: String,
    unit: f64,
    state: DataType,
    input: std::marker::PhantomData<T>,
}

impl<T, A: Total> Running<T, A> {
    fn set(&mut self, (total, overflows): (A, bool)) -> Result<()> {
        self.total = total;
        if overflows { Err(too_large(&self.name, &self.state)) } else { Ok(()) }
    }
}

impl<T: Summand<A>, A: Total> Accumulator for Running<T, A> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count, overflows) = add_column::<T, A>(values[0].as_primitive(), self.total, A::plus);
        self.count += count;
        self.set((total, overflows))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (total, count, overflows) = add_column::<T, A>(values[0].as_primitive(), self.total, A::minus);
        self.count -= count;
        self.set((total, overflows))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let counts = states[0].as_primitive::<UInt64Type>();
        self.count += counts.iter().flatten().sum::<u64>();
        let (total, _, overflows) = add_column::<A::Arrow, A>(states[1].as_primitive(), self.total, A::plus);
        self.set((total, overflows))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = match self.count {
            0 => null_of(&self.state),
            _ => totals_as_states(vec![self.total], None, &self.state),
        };
        Ok(vec![ScalarValue::UInt64(Some(self.count)), ScalarValue::try_from_array(&sum, 0)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let average = (self.count > 0).then(|| average(self.total, self.count, self.unit));
        Ok(ScalarValue::Float64(average))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.name.capacity()
    }
}

fn distinct<T: Summand<A>, A: Total>(args: &AccumulatorArgs, input: &DataType) -> Result<Box<dyn Accumulator>>
where
    T::Native: Into<i128>,
{
    let _ = std::marker::PhantomData::<A>;
    Ok(Box::new(DistinctAverage {
        values: DistinctValues::<T>::new(input),
        name: args.name.to_owned(),
        unit: unit_of(input),
    }))
}

/// The average of values that occur at least once.
#[derive(Debug)]
struct DistinctAverage<T: ArrowPrimitiveBits> {
    values: DistinctValues<T>,
    name: String,
    unit: f64,
}

impl<T: ArrowPrimitiveBits> DistinctAverage<T> {
    fn check(&self, fits: bool) -> Result<()> {
        if fits { Ok(()) } else { Err(too_large(&self.name, &DataType::Decimal128(38, 0))) }
    }
}

impl<T: ArrowPrimitiveBits> Accumulator for DistinctAverage<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let fits = self.values.add(&values[0]);
        self.check(fits)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.remove(&values[0]);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let fits = self.values.merge(&states[0]);
        self.check(fits)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.values.state()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.values.count();
        Ok(ScalarValue::Float64((count > 0).then(|| average(self.values.total, count, self.unit))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.name.capacity() + self.values.size()
    }
}

fn grouped<T: Summand<A>, A: Total>(
    args: &AccumulatorArgs,
    input: &DataType,
) -> Result<Box<dyn GroupsAccumulator>> {
    Ok(Box::new(Grouped::<T, A> {
        totals: Vec::new(),
        counts: Vec::new(),
        name: args.name.to_owned(),
        unit: unit_of(input),
        state: state_type(input).expect("a summand has states"),
        input: std::marker::PhantomData,
    }))
}

/// An average a group; NULL where the count is zero.
struct Grouped<T, A> {
    totals: Vec<A>,
    counts: Vec<u64>,
    name: String,
    unit: f64,
    state: DataType,
    input: std::marker::PhantomData<T>,
}

impl<T: Summand<A>, A: Total> Grouped<T, A> {
    fn resize(&mut self, group_count: usize) {
        self.totals.resize(group_count, A::default());
        self.counts.resize(group_count, 0);
    }

    fn check(&self, overflows: bool) -> Result<()> {
        if overflows { Err(too_large(&self.name, &self.state)) } else { Ok(()) }
    }
}

impl<T: Summand<A>, A: Total> GroupsAccumulator for Grouped<T, A> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.resize(group_count);
        let (totals, counts) = (self.totals.as_mut_slice(), self.counts.as_mut_slice());
        let mut overflows = false;
        accumulate(groups, values[0].as_primitive::<T>(), filter, |group, value| {
            let (total, overflow) = totals[group].plus(value.into());
            totals[group] = total;
            counts[group] += 1;
            overflows |= overflow;
        });
        self.check(overflows)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.resize(group_count);
        let (totals, counts) = (self.totals.as_mut_slice(), self.counts.as_mut_slice());
        let mut overflows = false;
        accumulate(groups, states[0].as_primitive::<UInt64Type>(), None, |group, count| {
            counts[group] += count
        });
        accumulate(groups, states[1].as_primitive::<A::Arrow>(), None, |group, value| {
            let (total, overflow) = totals[group].plus(value);
            totals[group] = total;
            overflows |= overflow;
        });
        self.check(overflows)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        let totals = emit_to.take_needed(&mut self.totals);
        let nulls = NullBuffer::from_iter(counts.iter().map(|&count| count > 0));
        let averages = totals.iter().zip(&counts).map(|(&total, &count)| average(total, count, self.unit));
        Ok(Arc::new(Float64Array::new(averages.collect(), Some(nulls))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let counts = emit_to.take_needed(&mut self.counts);
        let totals = emit_to.take_needed(&mut self.totals);
        let nulls = NullBuffer::from_iter(counts.iter().map(|&count| count > 0));
        let sums = totals_as_states(totals, Some(nulls), &self.state);
        Ok(vec![Arc::new(UInt64Array::from(counts)), sums])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let sums = rows_as_states::<T, A>(&values[0], filter, &self.state);
        let counts = UInt64Array::new(vec![1; sums.len()].into(), sums.nulls().cloned());
        Ok(vec![Arc::new(counts), sums])
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.totals.capacity() * size_of::<A>()
            + self.counts.capacity() * size_of::<u64>()
            + self.name.capacity()
    }
}
