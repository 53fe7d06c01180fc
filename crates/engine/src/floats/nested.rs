//! `max` and `min` of lists, structs and maps.
//!
//! DataFusion 55 has an error for lists within structs and lists, and takes structs with NULL in them for equal. Here values are in
//! the order that sorts have: element by element, NULL last, the shorter list first. Groups have an accumulator each.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array, make_comparator};
use datafusion::arrow::compute::{SortOptions, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;

/// NULL is greater than all values.
const ORDER: SortOptions = SortOptions { descending: false, nulls_first: false };

#[derive(Debug)]
pub(super) struct NestedExtreme {
    is_max: bool,
    data_type: DataType,
    /// The one value, once there is one.
    held: Option<ArrayRef>,
}

impl NestedExtreme {
    pub(super) fn new(is_max: bool, data_type: &DataType) -> Self {
        Self { is_max, data_type: data_type.clone(), held: None }
    }

    /// True where a value that compares so with another takes its place.
    fn wins(&self, ordering: Ordering) -> bool {
        if self.is_max { ordering.is_gt() } else { ordering.is_lt() }
    }

    fn value(&self) -> Result<ScalarValue> {
        match &self.held {
            Some(held) => ScalarValue::try_from_array(held, 0),
            None => ScalarValue::try_from(&self.data_type),
        }
    }
}

impl Accumulator for NestedExtreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = &values[0];
        let compare = make_comparator(values, values, ORDER)?;
        let mut rows = (0..values.len()).filter(|row| values.is_valid(*row));
        let Some(first) = rows.next() else { return Ok(()) };
        let best = rows.fold(first, |best, row| if self.wins(compare(row, best)) { row } else { best });
        if let Some(held) = &self.held
            && !self.wins(make_comparator(values, held, ORDER)?(best, 0))
        {
            return Ok(());
        }
        // A copy: a slice would keep the whole batch.
        self.held = Some(take(values, &UInt32Array::from(vec![best as u32]), None)?);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held.as_ref().map_or(0, |held| held.get_array_memory_size())
    }
}
