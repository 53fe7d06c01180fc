//! The keys that a join tells a scan, as bits: whole numbers of a range that is small beside the rows.
//!
//! ```text
//!   date >= 2450815 AND date <= 2452642 AND date in the join's table
//!
//!   once, for each number of the range:   2450815  2450816  2450817 …
//!                                            0        1        1    …   ◀── does it pass?
//!   for each row:   date 2450817 ──▶ bit 2 ──▶ it passes;   date 7, NULL ──▶ it does not
//! ```
//!
//! A key that is looked up among 121 takes 6.5 ns of a core (Q3 of TPC-DS, scale 10, 16 cores). What a bit takes was not measured.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    UInt8Type, UInt16Type, UInt32Type,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

use super::selection::passed_bits;

/// Rows that a scan has for each number of the range, at least: looking the numbers up then takes a sixteenth of what looking
/// up the rows would.
const ROWS_PER_NUMBER: u64 = 16;
/// Numbers of a range at most, for 2 MiB of bits.
const NUMBERS_MAX: u64 = 1 << 24;
/// Numbers that are held against the condition at a time.
const NUMBERS_AT_ONCE: u64 = 8192;

/// The numbers that pass.
#[derive(Debug)]
pub(super) struct KeyBits {
    /// The number of the first bit.
    first: i64,
    words: Vec<u64>,
}

impl KeyBits {
    /// What passes `condition`, which cannot fail, over rows of `schema`. `None` where that is not one column of whole
    /// numbers, or the condition does not keep it within a range that is worth it for `rows` rows.
    pub(super) fn of(
        condition: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        rows: u64,
    ) -> Result<Option<Self>> {
        let [field] = &schema.fields()[..] else { return Ok(None) };
        if !is_supported(field.data_type()) {
            return Ok(None);
        }
        let mut range = Range::default();
        range.narrow_by(condition);
        let Range { least: Some(first), most: Some(last) } = range else { return Ok(None) };
        let count =
            last.checked_sub(first).and_then(|count| u64::try_from(count).ok()).map_or(0, |count| count + 1);
        if count == 0 || count > NUMBERS_MAX || count.saturating_mul(ROWS_PER_NUMBER) > rows {
            return Ok(None);
        }
        let mut words = vec![0_u64; count.div_ceil(64) as usize];
        for begin in (0..count).step_by(NUMBERS_AT_ONCE as usize) {
            let end = (begin + NUMBERS_AT_ONCE).min(count);
            let numbers = numbers(first + begin as i64..=first + (end - 1) as i64, field.data_type())?;
            let batch = RecordBatch::try_new(Arc::clone(schema), vec![numbers])?;
            let result = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            let result = result.as_boolean_opt().ok_or_else(|| {
                DataFusionError::Internal(format!(
                    "filter {condition} is {}, not boolean",
                    result.data_type()
                ))
            })?;
            for index in passed_bits(result).set_indices() {
                let at = begin as usize + index;
                words[at / 64] |= 1 << (at % 64);
            }
        }
        Ok(Some(Self { first, words }))
    }

    /// One bit a row of `column`: does it pass?
    pub(super) fn passed(&self, column: &ArrayRef) -> Result<BooleanBuffer> {
        Ok(match column.data_type() {
            DataType::Int8 => self.passed_of::<Int8Type>(column),
            DataType::Int16 => self.passed_of::<Int16Type>(column),
            DataType::Int32 => self.passed_of::<Int32Type>(column),
            DataType::Int64 => self.passed_of::<Int64Type>(column),
            DataType::UInt8 => self.passed_of::<UInt8Type>(column),
            DataType::UInt16 => self.passed_of::<UInt16Type>(column),
            DataType::UInt32 => self.passed_of::<UInt32Type>(column),
            DataType::Date32 => self.passed_of::<Date32Type>(column),
            other => return Err(DataFusionError::Internal(format!("keys of a filter are {other}"))),
        })
    }

    fn passed_of<T: ArrowPrimitiveType<Native: Into<i64>>>(&self, column: &ArrayRef) -> BooleanBuffer {
        let column = column.as_primitive::<T>();
        let values = column.values();
        let bits = BooleanBuffer::collect_bool(values.len(), |row| {
            let number: i64 = values[row].into();
            // What is below the first is beyond the last as well.
            let at = number.wrapping_sub(self.first) as u64;
            self.words.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
        });
        match column.nulls() {
            Some(nulls) => &bits & nulls.inner(),
            None => bits,
        }
    }
}

fn is_supported(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::Date32
    )
}

/// The numbers of `range`, all of which `data_type` has.
fn numbers(range: std::ops::RangeInclusive<i64>, data_type: &DataType) -> Result<ArrayRef> {
    if *data_type == DataType::Date32 {
        let days = Int32Array::from_iter_values(range.map(|number| number as i32));
        return Ok(cast(&days, data_type)?);
    }
    Ok(cast(&Int64Array::from_iter_values(range), data_type)?)
}

/// What the only column is compared with, in a conjunction: no row beyond it passes, and no NULL.
#[derive(Default)]
struct Range {
    least: Option<i64>,
    most: Option<i64>,
}

impl Range {
    fn narrow_by(&mut self, condition: &Arc<dyn PhysicalExpr>) {
        let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return };
        if *binary.op() == Operator::And {
            self.narrow_by(binary.left());
            self.narrow_by(binary.right());
            return;
        }
        let constant = binary.right().downcast_ref::<Literal>().and_then(|literal| whole(literal.value()));
        let (true, Some(constant)) = (binary.left().is::<Column>(), constant) else { return };
        let at_least = |known: Option<i64>| Some(known.map_or(constant, |known| known.max(constant)));
        let at_most = |known: Option<i64>| Some(known.map_or(constant, |known| known.min(constant)));
        match binary.op() {
            // A bound that is not reached is a number too many.
            Operator::GtEq | Operator::Gt => self.least = at_least(self.least),
            Operator::LtEq | Operator::Lt => self.most = at_most(self.most),
            Operator::Eq => (self.least, self.most) = (at_least(self.least), at_most(self.most)),
            _ => {}
        }
    }
}

fn whole(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        ScalarValue::UInt8(value) => value.map(i64::from),
        ScalarValue::UInt16(value) => value.map(i64::from),
        ScalarValue::UInt32(value) => value.map(i64::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{in_list, lit};

    use super::*;

    fn column() -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new("k", 0))
    }

    fn binary(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right))
    }

    fn schema(data_type: &DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("k", data_type.clone(), true)]))
    }

    /// `k >= least AND k <= most AND k IN (keys)`, of that type.
    fn condition(data_type: &DataType, least: i64, most: i64, keys: &[i64]) -> Arc<dyn PhysicalExpr> {
        let constant = |number: i64| -> Arc<dyn PhysicalExpr> {
            let array = numbers(number..=number, data_type).unwrap();
            Arc::new(Literal::new(ScalarValue::try_from_array(&array, 0).unwrap()))
        };
        let bounds = binary(
            binary(column(), Operator::GtEq, constant(least)),
            Operator::And,
            binary(column(), Operator::LtEq, constant(most)),
        );
        let keys = keys.iter().map(|key| constant(*key)).collect();
        binary(bounds, Operator::And, in_list(column(), keys, &false, &schema(data_type)).unwrap())
    }

    #[test]
    fn bits_pass_what_the_condition_passes() {
        let signed = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::Date32];
        let unsigned = [DataType::UInt8, DataType::UInt16, DataType::UInt32];
        let ranges = [(-3, 100), (0, 0), (5, 127), (-128, -70)];
        let types = signed
            .iter()
            .map(|one| (one, &ranges[..]))
            .chain(unsigned.iter().map(|one| (one, &ranges[1..3])));
        for (data_type, ranges) in types {
            for &(least, most) in ranges {
                let keys: Vec<i64> = (least..=most).filter(|key| key % 3 != 1).chain([least]).collect();
                let condition = condition(data_type, least, most, &keys);
                let bits = KeyBits::of(&condition, &schema(data_type), 1 << 20).unwrap().unwrap();
                let lowest = if unsigned.contains(data_type) { 0 } else { -128 };
                let all = numbers(lowest..=127, data_type).unwrap();
                let nothing = datafusion::arrow::array::new_null_array(data_type, 3);
                let rows = datafusion::arrow::compute::concat(&[&all, &nothing, &all]).unwrap().slice(1, 200);
                let batch = RecordBatch::try_new(schema(data_type), vec![Arc::clone(&rows)]).unwrap();
                let expected = condition.evaluate(&batch).unwrap().into_array(200).unwrap();
                let expected = passed_bits(expected.as_boolean());
                assert_eq!(bits.passed(&rows).unwrap(), expected, "{data_type} {least} {most}");
                assert!(expected.count_set_bits() > 0);
            }
        }
    }

    #[test]
    fn numbers_far_from_the_range_do_not_pass() {
        let condition = condition(&DataType::Int64, i64::MAX - 9, i64::MAX, &[i64::MAX - 1, i64::MAX]);
        let bits = KeyBits::of(&condition, &schema(&DataType::Int64), 1000).unwrap().unwrap();
        let numbers = [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 10, i64::MAX - 2, i64::MAX - 1, i64::MAX];
        let rows: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let passed: Vec<bool> = bits.passed(&rows).unwrap().iter().collect();
        assert_eq!(passed, [false, false, false, false, false, false, true, true]);
    }

    #[test]
    fn ranges_that_are_unknown_or_not_worth_it_are_left_to_the_condition() {
        let int = schema(&DataType::Int32);
        let is_some =
            |condition: &Arc<dyn PhysicalExpr>, rows| KeyBits::of(condition, &int, rows).unwrap().is_some();
        let hundred = condition(&DataType::Int32, 1, 100, &[3]);
        assert!(is_some(&hundred, 100 * ROWS_PER_NUMBER));
        assert!(!is_some(&hundred, 100 * ROWS_PER_NUMBER - 1));
        assert!(!is_some(&condition(&DataType::Int32, 0, NUMBERS_MAX as i64, &[3]), u64::MAX));
        assert!(!is_some(&condition(&DataType::Int32, 7, 6, &[3]), u64::MAX));
        let most = binary(column(), Operator::LtEq, lit(100_i32));
        assert!(!is_some(&most, u64::MAX));
        let least = binary(column(), Operator::GtEq, lit(1_i32));
        // A row beyond the bounds may pass.
        assert!(!is_some(&binary(Arc::clone(&most), Operator::Or, Arc::clone(&least)), u64::MAX));
        assert!(is_some(&binary(most, Operator::And, least), u64::MAX));
        let text = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8View, true)]));
        assert!(KeyBits::of(&hundred, &text, u64::MAX).unwrap().is_none());
    }
}
