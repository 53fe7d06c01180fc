//! `count(DISTINCT …)` by group, with one set of what all groups have seen.
//!
//! ```text
//!   value ──▶ its number among the values of all groups ──┐
//!   group ────────────────────────────────────────────────┴──▶ a set of pairs: a new one is counted for its group
//! ```
//!
//! DataFusion 55 has this for integers. Of other types it keeps a set of values for each group, which takes 4 KB and more
//! where they are texts, however few, and looks at the rows of each group by themselves. Here a pair takes some 16 bytes, and a
//! value is kept once, however many groups have it.

use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, UInt32Array, new_empty_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{filter, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::hash_utils::RandomState;
use datafusion::common::{HashSet, resources_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion::physical_plan::aggregates::group_values::GroupValues;
use datafusion::scalar::ScalarValue;

use super::table::groups_by;

/// `count` in place of DataFusion's, which does all but distinct values of groups.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Count {
    other: Arc<AggregateUDF>,
}

impl Count {
    pub(crate) fn new() -> Self {
        Self { other: count_udaf() }
    }
}

/// Whether distinct values of `args` are counted here: of types whose values a table of groups tells apart.
fn is_ours(args: &AccumulatorArgs) -> bool {
    let [field] = args.expr_fields else { return false };
    let ty = field.data_type();
    let is_text = matches!(
        ty,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    );
    args.is_distinct && !ty.is_integer() && (is_text || ty.is_primitive() || *ty == DataType::Boolean)
}

impl AggregateUDFImpl for Count {
    fn name(&self) -> &str {
        self.other.name()
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.other.return_type(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.other.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.other.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.other.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.other.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        is_ours(&args) || self.other.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match is_ours(&args) {
            true => Ok(Box::new(DistinctCounts::of(args.expr_fields[0].data_type())?)),
            false => self.other.create_groups_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.other.order_sensitivity()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.other.default_value(ty)
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.other.inner().value_from_stats(args)
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.other.inner().set_monotonicity(ty)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.other.documentation()
    }
}

/// See the module.
struct DistinctCounts {
    /// Of one column, the value.
    schema: SchemaRef,
    values: Box<dyn GroupValues>,
    /// The group in the upper half, the number of the value in the lower.
    pairs: HashSet<u64, RandomState>,
    counts: Vec<i64>,
    /// Of the values of a batch.
    numbers: Vec<usize>,
}

impl DistinctCounts {
    fn of(ty: &DataType) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![Field::new("value", ty.clone(), true)]));
        Ok(Self {
            values: groups_by(&schema, 0)?,
            schema,
            pairs: HashSet::default(),
            counts: Vec::new(),
            numbers: Vec::new(),
        })
    }

    fn value_type(&self) -> &DataType {
        self.schema.field(0).data_type()
    }

    /// There are so many groups from now on.
    fn grow(&mut self, groups: usize) -> Result<()> {
        if u32::try_from(groups).is_err() {
            return resources_err!("count(DISTINCT …) of {groups} groups in one table: at most 4294967295");
        }
        self.counts.resize(groups, 0);
        Ok(())
    }

    /// Adds `values`, none of which is NULL, each to its group.
    fn add(&mut self, values: &ArrayRef, groups: impl Iterator<Item = usize>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.number(values)?;
        for (group, &number) in groups.zip(&self.numbers) {
            self.counts[group] += i64::from(self.pairs.insert(pair(group, number)));
        }
        Ok(())
    }

    /// Finds the numbers of `values`.
    fn number(&mut self, values: &ArrayRef) -> Result<()> {
        self.values.intern(std::slice::from_ref(values), &mut self.numbers)?;
        if u32::try_from(self.values.len()).is_err() {
            return resources_err!("count(DISTINCT …) of more than 4294967295 values in one table");
        }
        Ok(())
    }

    /// Takes the first groups out, as `emit` says: their counts, and where `listed` their values as lists; what is left
    /// is numbered anew.
    fn take(&mut self, emit: EmitTo, is_listed: bool) -> Result<(Vec<i64>, Option<ListArray>)> {
        let counts = emit.take_needed(&mut self.counts);
        let pairs = std::mem::take(&mut self.pairs);
        if !is_listed && self.counts.is_empty() {
            self.values = groups_by(&self.schema, 0)?;
            return Ok((counts, None));
        }
        let values = match self.values.is_empty() {
            true => new_empty_array(self.value_type()),
            false => self.values.emit(EmitTo::All)?.swap_remove(0),
        };
        self.values = groups_by(&self.schema, 0)?;
        let mut ends = Vec::with_capacity(counts.len() + 1);
        ends.push(0_i32);
        let mut listed = 0_i64;
        for count in &counts {
            listed += count;
            match i32::try_from(listed) {
                Ok(end) => ends.push(end),
                Err(_) => return resources_err!("count(DISTINCT …) of more than 2147483647 values at once"),
            }
        }
        let (mut next, mut numbers) = (ends.clone(), vec![0_u32; listed as usize]);
        let (mut groups_left, mut numbers_left) = (Vec::new(), Vec::new());
        for pair in pairs {
            let (group, number) = ((pair >> 32) as usize, pair as u32);
            if group < counts.len() {
                numbers[next[group] as usize] = number;
                next[group] += 1;
            } else {
                groups_left.push(group - counts.len());
                numbers_left.push(number);
            }
        }
        if !groups_left.is_empty() {
            let left = take(&values, &UInt32Array::from(numbers_left), None)?;
            self.number(&left)?;
            let numbered = groups_left.into_iter().zip(&self.numbers);
            self.pairs = numbered.map(|(group, &number)| pair(group, number)).collect();
        }
        let lists = is_listed.then(|| {
            let values = take(&values, &UInt32Array::from(numbers), None)?;
            self.lists(ends, values)
        });
        Ok((counts, lists.transpose()?))
    }

    /// A list of values of each group, the first up to the second of `ends`, and so on.
    fn lists(&self, ends: Vec<i32>, values: ArrayRef) -> Result<ListArray> {
        let item = Arc::new(Field::new_list_field(self.value_type().clone(), true));
        Ok(ListArray::try_new(item, OffsetBuffer::new(ScalarBuffer::from(ends)), values, None)?)
    }
}

fn pair(group: usize, number: usize) -> u64 {
    (group as u64) << 32 | number as u64
}

/// The rows that are counted, where not all are: those with a value, for which `condition` is true.
fn counted(values: &ArrayRef, condition: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let nulls = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    let valid = nulls.map(|nulls| nulls.into_inner());
    let kept = condition.map(|condition| match condition.nulls() {
        Some(known) => condition.values() & known.inner(),
        None => condition.values().clone(),
    });
    match (valid, kept) {
        (Some(valid), Some(kept)) => Some(&valid & &kept),
        (valid, kept) => valid.or(kept),
    }
}

impl GroupsAccumulator for DistinctCounts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups)?;
        let Some(counted) = counted(&values[0], opt_filter) else {
            return self.add(&values[0], group_indices.iter().copied());
        };
        let groups: Vec<usize> = counted.set_indices().map(|row| group_indices[row]).collect();
        let values = filter(&values[0], &BooleanArray::new(counted, None))?;
        self.add(&values, groups.into_iter())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups)?;
        let lists = values[0].as_list::<i32>();
        let (first, end) = (lists.offsets()[0] as usize, lists.offsets()[lists.len()] as usize);
        let values = lists.values().slice(first, end - first);
        let groups = group_indices.iter().zip(lists.offsets().lengths());
        self.add(&values, groups.flat_map(|(group, count)| std::iter::repeat_n(*group, count)))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (counts, _) = self.take(emit_to, false)?;
        Ok(Arc::new(Int64Array::from(counts)))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (_, lists) = self.take(emit_to, true)?;
        Ok(lists.into_iter().map(|lists| Arc::new(lists) as ArrayRef).collect())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let lists = match counted(&values[0], opt_filter) {
            None => self.lists((0..=rows as i32).collect(), Arc::clone(&values[0]))?,
            Some(counted) => {
                let mut ends = Vec::with_capacity(rows + 1);
                ends.push(0);
                ends.extend(counted.iter().scan(0, |end, is_counted| {
                    *end += i32::from(is_counted);
                    Some(*end)
                }));
                self.lists(ends, filter(&values[0], &BooleanArray::new(counted, None))?)?
            }
        };
        Ok(vec![Arc::new(lists)])
    }

    fn size(&self) -> usize {
        // A byte beside each, and an eighth of the places stays free.
        let pairs = self.pairs.capacity() * (size_of::<u64>() + 1) * 8 / 7;
        let words = self.counts.capacity() + self.numbers.capacity();
        pairs + words * size_of::<u64>() + self.values.size()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::arrow::array::{Decimal128Array, StringViewArray};

    use super::*;

    /// Batches of values and groups, and of conditions where `has_condition`.
    type Batch = (ArrayRef, Vec<usize>, Option<BooleanArray>);

    /// Some rows of 40 groups, from `first_group` on; texts of every length, some long, and decimals.
    fn batch(seed: usize, first_group: usize, is_text: bool) -> Batch {
        let rows = 200;
        let at = |row: usize| (row * 7919 + seed * 104_729) % 1009;
        let values: ArrayRef = match is_text {
            true => Arc::new(
                (0..rows)
                    .map(|row| (at(row) % 11 > 0).then(|| "é".repeat(at(row) % 17) + &at(row).to_string()))
                    .collect::<StringViewArray>(),
            ),
            false => Arc::new(
                (0..rows).map(|row| (at(row) % 7 > 0).then(|| at(row) as i128)).collect::<Decimal128Array>(),
            ),
        };
        let groups = (0..rows).map(|row| first_group + at(row + 5) % 40).collect();
        let condition = |row: usize| (at(row) % 5 > 0).then(|| at(row) % 3 > 0);
        let condition = seed.is_multiple_of(2).then(|| (0..rows).map(condition).collect());
        (values, groups, condition)
    }

    /// What a plain loop finds for each group.
    fn expected(batches: &[Batch], groups: usize) -> Vec<i64> {
        let mut sets = vec![BTreeSet::new(); groups];
        for (values, of, condition) in batches {
            for (row, group) in of.iter().enumerate() {
                let is_counted = condition.as_ref().is_none_or(|of| of.is_valid(row) && of.value(row));
                if is_counted && values.is_valid(row) {
                    sets[*group].insert(ScalarValue::try_from_array(values, row).unwrap().to_string());
                }
            }
        }
        sets.iter().map(|set| set.len() as i64).collect()
    }

    fn add(counts: &mut DistinctCounts, (values, groups, condition): &Batch, from: usize, total: usize) {
        let groups: Vec<usize> = groups.iter().map(|group| group - from).collect();
        counts.update_batch(std::slice::from_ref(values), &groups, condition.as_ref(), total - from).unwrap();
    }

    fn numbers(counts: &ArrayRef) -> Vec<i64> {
        counts.as_primitive::<datafusion::arrow::datatypes::Int64Type>().values().to_vec()
    }

    #[test]
    fn first_groups_that_are_taken_out_leave_the_others_as_they_are() {
        for (is_text, is_state) in [(true, false), (true, true), (false, false), (false, true)] {
            let batches: Vec<Batch> = (0..20).map(|number| batch(number, number * 13, is_text)).collect();
            let total = 19 * 13 + 40;
            let ty = batches[0].0.data_type().clone();
            let (mut counts, mut merged) =
                (DistinctCounts::of(&ty).unwrap(), DistinctCounts::of(&ty).unwrap());
            let (mut taken, mut found) = (0, Vec::new());
            for (number, of) in batches.iter().enumerate() {
                add(&mut counts, of, taken, number * 13 + 40);
                // No later batch has a group before those of the next one.
                let done = (number + 1) * 13 - taken;
                let emit = if number == 19 { EmitTo::All } else { EmitTo::First(done) };
                if is_state {
                    let state = counts.state(emit).unwrap();
                    let groups: Vec<usize> = (0..state[0].len()).map(|group| taken + group).collect();
                    merged.merge_batch(&state, &groups, groups.last().map_or(0, |last| last + 1)).unwrap();
                } else {
                    found.extend(numbers(&counts.evaluate(emit).unwrap()));
                }
                taken += done;
            }
            if is_state {
                found = numbers(&merged.evaluate(EmitTo::All).unwrap());
            }
            assert_eq!(found, expected(&batches, total), "text: {is_text}, states: {is_state}");
            assert!(counts.counts.is_empty() && counts.pairs.is_empty() && counts.values.is_empty());
        }
    }

    #[test]
    fn rows_as_states_are_counted_as_rows() {
        for is_text in [true, false] {
            let batches: Vec<Batch> = (0..6).map(|number| batch(number, 0, is_text)).collect();
            let mut merged = DistinctCounts::of(batches[0].0.data_type()).unwrap();
            for (values, groups, condition) in &batches {
                // Slices have offsets that do not begin at 0.
                let states =
                    merged.convert_to_state(std::slice::from_ref(values), condition.as_ref()).unwrap();
                for (from, rows) in [(0, 50), (50, 1), (51, 0), (51, values.len() - 51)] {
                    let state = [states[0].slice(from, rows)];
                    merged.merge_batch(&state, &groups[from..from + rows], 40).unwrap();
                }
            }
            assert_eq!(numbers(&merged.evaluate(EmitTo::All).unwrap()), expected(&batches, 40));
        }
    }

    #[test]
    fn a_value_that_many_groups_have_is_kept_once() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["a text of more than twelve bytes"; 1000]));
        let mut counts = DistinctCounts::of(texts.data_type()).unwrap();
        for first in (0..1_000_000).step_by(1000) {
            let groups: Vec<usize> = (first..first + 1000).collect();
            counts.update_batch(std::slice::from_ref(&texts), &groups, None, first + 1000).unwrap();
        }
        assert!(counts.size() < 50 << 20, "{} bytes for a million groups of one text", counts.size());
        assert!(numbers(&counts.evaluate(EmitTo::All).unwrap()).iter().all(|count| *count == 1));
    }
}
