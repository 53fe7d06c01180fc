//! `sum`, exact: BIGINT of integers up to 32 bits, DECIMAL(38, s) of BIGINT and of decimals, an error past that.
//!
//! Floats and intervals are summed by DataFusion. Groups take their input as it is, without a cast to the wider type
//! of the result before it.

use std::mem::size_of;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, PrimitiveArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::NullState;

use super::total::{
    Summand, Total, add_column, for_summand, null_of, rows_as_states, state_type, sum_type, too_large,
    totals_as, totals_as_states,
};
use super::types::coerced_by;
use crate::window_functions;

/// `sum` in place of DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    signature: Signature,
    /// DataFusion's, for floats and intervals.
    other: Arc<AggregateUDF>,
}

impl Sum {
    pub(super) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable), other: sum_udaf() }
    }
}

/// Our `sum`.
pub(crate) fn sum() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(AggregateUDF::from(Sum::new())));
    Arc::clone(&FUNCTION)
}

/// Whether `function` is our `sum`.
pub(crate) fn is_sum(function: &AggregateUDF) -> bool {
    function.inner().is::<Sum>()
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [exact] if sum_type(exact).is_some() => Ok(arguments.to_vec()),
            _ => coerced_by(&self.other, arguments),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        sum_type(&arguments[0]).map_or_else(|| self.other.return_type(arguments), Ok)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input = args.input_fields[0].data_type();
        match state_type(input) {
            None => self.other.state_fields(args),
            Some(_) if args.is_distinct => Ok(vec![distinct_state_field(args.name, input)]),
            Some(state) => Ok(vec![Field::new(format_state_name(args.name, "sum"), state, true).into()]),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let input = args.expr_fields[0].data_type().clone();
        match args.is_distinct {
            false => for_summand!(input, running(&args, &input), self.other.accumulator(args)),
            true => for_summand!(input, distinct(&args, &input), self.other.accumulator(args)),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.expr_fields[0].data_type() {
            DataType::Float64 if !args.is_distinct => Ok(window_functions::sum()),
            exact if sum_type(exact).is_some() => self.accumulator(args),
            _ => self.other.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match sum_type(args.expr_fields[0].data_type()) {
            Some(_) => !args.is_distinct,
            None => self.other.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let input = args.expr_fields[0].data_type().clone();
        for_summand!(input, grouped(&args, &input), self.other.create_groups_accumulator(args))
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

/// The distinct values that a stage has seen, as a list.
pub(super) fn distinct_state_field(name: &str, input: &DataType) -> FieldRef {
    let values = Field::new_list_field(input.clone(), true);
    Field::new_list(format_state_name(name, "distinct"), values, false).into()
}

fn running<T: Summand<A>, A: Total>(
    args: &AccumulatorArgs,
    input: &DataType,
) -> Result<Box<dyn Accumulator>> {
    Ok(Box::new(Running::<T, A> {
        total: A::default(),
        count: 0,
        name: args.name.to_owned(),
        result: args.return_field.data_type().clone(),
        state: state_type(input).expect("a summand has states"),
        input: std::marker::PhantomData,
    }))
}

/// One sum, of all rows or of those in a sliding frame.
#[derive(Debug)]
struct Running<T, A> {
    total: A,
    /// Values in it: without any the sum is NULL.
    count: u64,
    name: String,
    result: DataType,
    state: DataType,
    input: std::marker::PhantomData<T>,
}

impl<T, A: Total> Running<T, A> {
    fn set(&mut self, (total, overflows): (A, bool)) -> Result<()> {
        self.total = total;
        if overflows { Err(too_large(&self.name, &self.result)) } else { Ok(()) }
    }

    fn as_nullable(&self) -> Option<A> {
        (self.count > 0).then_some(self.total)
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
        let (total, count, overflows) =
            add_column::<A::Arrow, A>(states[0].as_primitive(), self.total, A::plus);
        self.count += count;
        self.set((total, overflows))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = match self.as_nullable() {
            Some(total) => totals_as_states(vec![total], None, &self.state),
            None => null_of(&self.state),
        };
        Ok(vec![ScalarValue::try_from_array(&state, 0)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.as_nullable() {
            Some(total) => {
                ScalarValue::try_from_array(&totals_as(vec![total], None, &self.result, &self.name)?, 0)
            }
            None => ScalarValue::try_new_null(&self.result),
        }
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
    Ok(Box::new(DistinctSum {
        values: DistinctValues::<T>::new(input),
        name: args.name.to_owned(),
        result: args.return_field.data_type().clone(),
    }))
}

/// How often each value occurs, and the exact sum of the values.
#[derive(Debug)]
pub(super) struct DistinctValues<T: ArrowPrimitiveBits> {
    counts: HashMap<i128, (T::Native, u64)>,
    pub(super) total: i128,
    input: DataType,
}

/// Types whose values are told apart by their bits.
pub(super) trait ArrowPrimitiveBits: Summand<i128> {}

impl<T: Summand<i128>> ArrowPrimitiveBits for T {}

impl<T: ArrowPrimitiveBits> DistinctValues<T> {
    pub(super) fn new(input: &DataType) -> Self {
        Self { counts: HashMap::new(), total: 0, input: input.clone() }
    }

    /// Values that occur.
    pub(super) fn count(&self) -> u64 {
        self.counts.len() as u64
    }

    /// False where the total no longer fits 128 bits.
    #[must_use]
    pub(super) fn add(&mut self, column: &dyn Array) -> bool {
        let column = column.as_primitive::<T>();
        let mut overflows = false;
        for value in column.iter().flatten() {
            let key = value.into();
            let entry = self.counts.entry(key).or_insert((value, 0));
            if entry.1 == 0 {
                let (total, overflow) = self.total.overflowing_add(key);
                self.total = total;
                overflows |= overflow;
            }
            entry.1 += 1;
        }
        !overflows
    }

    pub(super) fn remove(&mut self, column: &dyn Array) {
        for value in column.as_primitive::<T>().iter().flatten() {
            let key = value.into();
            let Some(entry) = self.counts.get_mut(&key) else { continue };
            entry.1 -= 1;
            if entry.1 == 0 {
                self.counts.remove(&key);
                self.total = self.total.wrapping_sub(key);
            }
        }
    }

    /// Adds lists of values that other stages have seen.
    #[must_use]
    #[allow(clippy::unnecessary_fold)] // all states are added, whatever the first ones come to
    pub(super) fn merge(&mut self, states: &dyn Array) -> bool {
        states.as_list::<i32>().iter().flatten().fold(true, |fits, values| self.add(&values) && fits)
    }

    pub(super) fn state(&self) -> Result<ScalarValue> {
        let values = self.counts.values().map(|(value, _)| *value);
        let values = PrimitiveArray::<T>::from_iter_values(values).with_data_type(self.input.clone());
        let field = Field::new_list_field(self.input.clone(), true).into();
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::new(field, offsets, Arc::new(values), None))))
    }

    pub(super) fn size(&self) -> usize {
        self.counts.capacity() * (size_of::<(i128, T::Native, u64)>() + 1)
    }
}

/// The sum of values that occur at least once.
#[derive(Debug)]
struct DistinctSum<T: ArrowPrimitiveBits> {
    values: DistinctValues<T>,
    name: String,
    result: DataType,
}

impl<T: ArrowPrimitiveBits> DistinctSum<T> {
    fn check(&self, fits: bool) -> Result<()> {
        if fits { Ok(()) } else { Err(too_large(&self.name, &self.result)) }
    }
}

impl<T: ArrowPrimitiveBits> Accumulator for DistinctSum<T> {
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
        if self.values.count() == 0 {
            return ScalarValue::try_new_null(&self.result);
        }
        let total = self.values.total;
        let array = match (&self.result, i64::try_from(total)) {
            (DataType::Int64, Ok(total)) => totals_as(vec![total], None, &self.result, &self.name)?,
            (DataType::Int64, Err(_)) => return Err(too_large(&self.name, &self.result)),
            _ => totals_as(vec![total], None, &self.result, &self.name)?,
        };
        ScalarValue::try_from_array(&array, 0)
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
        seen: NullState::new(),
        name: args.name.to_owned(),
        result: args.return_field.data_type().clone(),
        state: state_type(input).expect("a summand has states"),
        input: std::marker::PhantomData,
    }))
}

/// A sum a group.
struct Grouped<T, A> {
    totals: Vec<A>,
    /// Groups without a value are NULL.
    seen: NullState,
    name: String,
    result: DataType,
    state: DataType,
    input: std::marker::PhantomData<T>,
}

impl<T: Summand<A>, A: Total> Grouped<T, A> {
    fn add<I: Summand<A>>(
        &mut self,
        column: &PrimitiveArray<I>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.totals.resize(group_count, A::default());
        let (totals, mut overflows) = (self.totals.as_mut_slice(), false);
        self.seen.accumulate(groups, column, filter, group_count, |group, value| {
            let (total, overflow) = totals[group].plus(value.into());
            totals[group] = total;
            overflows |= overflow;
        });
        if overflows { Err(too_large(&self.name, &self.result)) } else { Ok(()) }
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
        self.add(values[0].as_primitive::<T>(), groups, filter, group_count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.add(states[0].as_primitive::<A::Arrow>(), groups, None, group_count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        totals_as(totals, self.seen.build(emit_to), &self.result, &self.name)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let totals = emit_to.take_needed(&mut self.totals);
        Ok(vec![totals_as_states(totals, self.seen.build(emit_to), &self.state)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Ok(vec![rows_as_states::<T, A>(&values[0], filter, &self.state)])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.totals.capacity() * size_of::<A>() + self.seen.size() + self.name.capacity()
    }
}
