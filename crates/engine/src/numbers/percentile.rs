//! `percentile_cont` by the formula of the SQL standard, in doubles, as PostgreSQL computes it.
//!
//! ```text
//!   row = fraction * (n - 1)           of n values in order, from the least, with DESC from the greatest
//!   lower + (row - floor(row)) * (upper - lower)      the values at floor(row) and ceil(row)
//! ```
//!
//! DataFusion 55 rounds `row - floor(row)` to six digits, and counts from the greatest by 1 - fraction, which is rounded
//! too. For fractions 0 and 1 it takes `min` and `max`, whose groups know neither NaN nor infinities. All values are kept,
//! 8 bytes each, and a group's are put into order as far as it takes. Names, types and states are DataFusion's.

use std::iter::repeat_n;
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, RecordBatch,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, EmitTo, GroupsAccumulator,
    Signature,
};
use datafusion::scalar::ScalarValue;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::accumulate;

use super::total::kept_rows;

/// `percentile_cont` in place of DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PercentileCont {
    /// DataFusion's.
    other: Arc<AggregateUDF>,
}

impl PercentileCont {
    pub(super) fn new() -> Self {
        Self { other: percentile_cont_udaf() }
    }
}

impl AggregateUDFImpl for PercentileCont {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn aliases(&self) -> &[String] {
        self.other.aliases()
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.other.return_type(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.other.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct || is_untyped(&args) {
            return self.create_sliding_accumulator(args);
        }
        self.other.accumulator(args.clone())?; // refuses what is no fraction
        Ok(Box::new(Values { values: Vec::new(), percentile: Percentile::of(&args)?, input: input(&args) }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let inner = self.other.create_sliding_accumulator(args.clone())?;
        if is_untyped(&args) {
            return Ok(inner);
        }
        let (percentile, input) = (Percentile::of(&args)?, input(&args));
        Ok(Box::new(Stated { inner, percentile, input, is_distinct: args.is_distinct }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.other.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.other.create_groups_accumulator(args.clone())?; // refuses what is no fraction
        Ok(Box::new(Groups { values: Vec::new(), percentile: Percentile::of(&args)?, input: input(&args) }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

/// The type of the values and of the result.
fn input(args: &AccumulatorArgs) -> DataType {
    args.expr_fields[0].data_type().clone()
}

/// Whether all values are NULLs that nothing gives a type.
fn is_untyped(args: &AccumulatorArgs) -> bool {
    args.expr_fields[0].data_type().is_null()
}

/// Which of the values in order is asked for.
#[derive(Debug, Clone, Copy)]
struct Percentile {
    fraction: f64,
    descends: bool,
}

impl Percentile {
    /// That of a call whose fraction DataFusion has checked.
    fn of(args: &AccumulatorArgs) -> Result<Self> {
        let no_rows = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let fraction = match args.exprs[1].evaluate(&no_rows)? {
            ColumnarValue::Scalar(value) => value.cast_to(&DataType::Float64)?,
            ColumnarValue::Array(_) => ScalarValue::Null,
        };
        let ScalarValue::Float64(Some(fraction)) = fraction else {
            return internal_err!("{} is no fraction", args.exprs[1]);
        };
        let descends = args.order_bys.first().is_some_and(|key| key.options.descending);
        Ok(Self { fraction, descends })
    }

    /// What it is among `values`, whose order is lost.
    fn among(self, values: &mut [f64]) -> Option<f64> {
        let last = values.len().checked_sub(1)?;
        let row = self.fraction * last as f64;
        let (first, second) = (row.floor() as usize, row.ceil() as usize);
        let mut nth = |row: usize| {
            let row = if self.descends { last - row } else { row };
            *values.select_nth_unstable_by(row, f64::total_cmp).1
        };
        let lower = nth(first);
        if first == second {
            return Some(lower);
        }
        Some(lower + (row - first as f64) * (nth(second) - lower))
    }
}

fn doubles(values: &dyn Array) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// Shows `take` the values of each list of `states`, and which one it is.
fn for_each_list(states: &ArrayRef, mut take: impl FnMut(usize, &[f64])) -> Result<()> {
    let lists = states.as_list::<i32>();
    let values = doubles(lists.values())?;
    for (row, ends) in lists.value_offsets().windows(2).enumerate() {
        if lists.is_valid(row) {
            take(row, &values.values()[ends[0] as usize..ends[1] as usize]);
        }
    }
    Ok(())
}

/// A list of each group, with items of type `input`.
fn lists(groups: &[Vec<f64>], input: &DataType) -> Result<ListArray> {
    let ends = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
    let values = cast(&Float64Array::from(groups.concat()), input)?;
    Ok(ListArray::new(item_of(input), ends, values, None))
}

fn item_of(input: &DataType) -> FieldRef {
    Field::new_list_field(input.clone(), true).into()
}

/// All values, of which none goes.
#[derive(Debug)]
struct Values {
    values: Vec<f64>,
    percentile: Percentile,
    input: DataType,
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(doubles(&values[0])?.iter().flatten());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for_each_list(&states[0], |_, values| self.values.extend_from_slice(values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = std::mem::take(&mut self.values);
        Ok(vec![ScalarValue::List(Arc::new(lists(&[values], &self.input)?))])
    }

    /// A window asks for it row by row, so the values stay.
    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::Float64(self.percentile.among(&mut self.values)).cast_to(&self.input)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}

/// DataFusion's, which can tell values apart and let them go, with the percentile of the values of its state.
#[derive(Debug)]
struct Stated {
    inner: Box<dyn Accumulator>,
    percentile: Percentile,
    input: DataType,
    is_distinct: bool,
}

impl Accumulator for Stated {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let states = self.inner.state()?.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
        if !self.is_distinct {
            self.inner.merge_batch(&states)?; // the state of all values takes them out
        }
        let mut all = Vec::new();
        for_each_list(&states[0], |_, values| all.extend_from_slice(values))?;
        ScalarValue::Float64(self.percentile.among(&mut all)).cast_to(&self.input)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// All values of each group.
#[derive(Debug)]
struct Groups {
    values: Vec<Vec<f64>>,
    percentile: Percentile,
    input: DataType,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.values.resize(group_count, Vec::new());
        accumulate(groups, &doubles(&values[0])?, filter, |group, value| self.values[group].push(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], group_count: usize) -> Result<()> {
        self.values.resize(group_count, Vec::new());
        for_each_list(&states[0], |row, values| self.values[groups[row]].extend_from_slice(values))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.values).into_iter();
        let found: Float64Array = groups.map(|mut values| self.percentile.among(&mut values)).collect();
        Ok(cast(&found, &self.input)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.values);
        Ok(vec![Arc::new(lists(&groups, &self.input)?)])
    }

    /// A list of one value for each row; NULL where the row does not count.
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = &values[0]; // the fraction comes along
        let ends = OffsetBuffer::from_lengths(repeat_n(1, values.len()));
        let nulls = NullBuffer::union(filter.map(kept_rows).as_ref(), values.nulls());
        Ok(vec![Arc::new(ListArray::new(item_of(&self.input), ends, Arc::clone(values), nulls))])
    }

    fn size(&self) -> usize {
        let values: usize = self.values.iter().map(|values| values.capacity() * size_of::<f64>()).sum();
        size_of_val(self) + self.values.capacity() * size_of::<Vec<f64>>() + values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fraction: f64, descends: bool, values: &[f64], expected: Option<f64>) {
        let found = Percentile { fraction, descends }.among(&mut values.to_vec());
        assert_eq!(
            found.map(f64::to_bits),
            expected.map(f64::to_bits),
            "{fraction} of {values:?}: {found:?}"
        );
    }

    /// Printed by PostgreSQL 15.
    #[test]
    fn percentiles_are_interpolated_with_all_digits() {
        check(0.5, false, &[], None);
        check(0.3, false, &[7.0], Some(7.0));
        check(0.3333333333, false, &[1.0, 0.0], Some(0.3333333333));
        check(0.7, false, &[10.0, 1.0, 4.0], Some(6.3999999999999995));
        check(0.7, true, &[10.0, 1.0, 4.0], Some(2.8000000000000003));
        check(0.9, true, &[10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0], Some(1.0));
        check(0.0, true, &[1.0, f64::NAN], Some(f64::NAN));
        check(1.0, false, &[f64::NEG_INFINITY, f64::NEG_INFINITY], Some(f64::NEG_INFINITY));
    }
}
