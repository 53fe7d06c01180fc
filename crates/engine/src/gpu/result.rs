//! The rows that come out of a run, as Arrow batches.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, PrimitiveArray,
    RecordBatch, RecordBatchOptions, UInt32Array, UInt64Array,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use pelton_error::{Error, Result};
use pelton_exec::{PartColumn, RowsPart};
use pelton_pipeline::codegen::{Form, PayloadColumn};
use pelton_pipeline::ir::{Bounds, Type};
use pelton_pipeline::{Dictionary, RowColumn, RowValues, Rows};

use super::text::text_array;

/// Makes the counts of averages NULL where their sums, the columns after, are: by that DataFusion's last stage knows
/// groups without values.
pub(super) fn counts_are_null_with_sums(rows: &mut Rows, average_counts: &[usize]) {
    for &count in average_counts {
        if count + 1 < rows.columns.len() {
            rows.columns[count].valid = rows.columns[count + 1].valid.clone();
        }
    }
}

/// `rows` in batches of at most `batch_rows`, with the columns of `schema`; those that were `fetched` as they are.
///
/// # Errors
///
/// `Corrupt` for text that is not UTF-8; `InvalidInput` where the columns are others than the schema's.
pub(super) fn batches(
    rows: Rows,
    fetched: Vec<Option<ArrayRef>>,
    schema: &SchemaRef,
    batch_rows: usize,
) -> Result<Vec<RecordBatch>> {
    if rows.row_count == 0 {
        return Ok(Vec::new());
    }
    if rows.columns.len() != schema.fields().len() {
        let (found, wanted) = (rows.columns.len(), schema.fields().len());
        return Err(Error::invalid_input(format!("a run gave {found} columns where the plan has {wanted}")));
    }
    let fetched = fetched.into_iter().chain(std::iter::repeat(None));
    let columns = rows.columns.into_iter().zip(schema.fields()).zip(fetched);
    let columns = columns.map(|((column, field), fetched)| match fetched {
        Some(fetched) => Ok(fetched),
        None => array(column, field.data_type()),
    });
    let columns = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.row_count));
    let all = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(wrong_type)?;
    let starts = (0..rows.row_count).step_by(batch_rows.max(1));
    Ok(starts.map(|start| all.slice(start, batch_rows.min(rows.row_count - start))).collect())
}

/// As [`batches`], of some rows that came out while the run went on. What lies in memory as Arrow wants it stays there.
///
/// # Errors
///
/// Likewise.
pub(super) fn batches_of_part(
    part: RowsPart,
    schema: &SchemaRef,
    batch_rows: usize,
) -> Result<Vec<RecordBatch>> {
    if part.columns.len() != schema.fields().len() {
        let (found, wanted) = (part.columns.len(), schema.fields().len());
        return Err(Error::invalid_input(format!("a run gave {found} columns where the plan has {wanted}")));
    }
    let dictionaries = part.columns.iter().zip(schema.fields());
    let dictionaries: Vec<Option<ArrayRef>> = dictionaries
        .map(|(column, field)| dictionary_of(column, part.row_count, field.data_type()))
        .collect::<Result<_>>()?;
    // What is made anew is made batch by batch: small arrays are found in memory that was used just before.
    let batch = |start: usize| {
        let row_count = batch_rows.min(part.row_count - start);
        let columns = part.columns.iter().zip(&dictionaries).zip(schema.fields());
        let columns = columns.map(|((column, dictionary), field)| {
            let rows = column.rows(start, row_count);
            array_of_part(rows, dictionary.as_ref(), row_count, field.data_type())
        });
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_>>()?, &options)
            .map_err(wrong_type)
    };
    (0..part.row_count).step_by(batch_rows.max(1)).map(batch).collect()
}

/// The texts that `column` has numbers of, as an array: where they are no more than its rows.
fn dictionary_of(column: &PartColumn, row_count: usize, data_type: &DataType) -> Result<Option<ArrayRef>> {
    match &column.layout.dictionary {
        Some(dictionary) if column.layout.form == Form::Id && dictionary.entries.len() <= row_count => {
            text_array(data_type, dictionary.entries.iter().map(Some)).map(Some)
        }
        _ => Ok(None),
    }
}

/// A column of `row_count` rows as an array of `data_type`: over the same bytes where their form is that of the type.
/// `dictionary`: what the numbers of texts stand for, if that is known.
fn array_of_part(
    column: PartColumn,
    dictionary: Option<&ArrayRef>,
    row_count: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let bits = |valid: &Bytes| BooleanBuffer::collect_bool(row_count, |row| valid[row] != 0);
    let nulls = column.valid.as_ref().map(|valid| NullBuffer::new(bits(valid)));
    let PartColumn { layout, values, valid } = column;
    if let Some(dictionary) = dictionary {
        let ids = UInt32Array::new(numbers(values), nulls);
        check_ids(ids.iter().flatten(), dictionary.len())?;
        return take(dictionary.as_ref(), &ids, None).map_err(wrong_type);
    }
    let array: ArrayRef = match (layout.form, layout.ty, data_type) {
        (Form::I32, Type::I32, _) => Arc::new(Int32Array::new(numbers(values), nulls)),
        (Form::F64, Type::F64, _) => Arc::new(Float64Array::new(numbers(values), nulls)),
        (Form::I64, Type::I64, _) => Arc::new(Int64Array::new(numbers(values), nulls)),
        (Form::I64, Type::I128, DataType::Decimal128(precision, scale)) => {
            let narrow: ScalarBuffer<i64> = numbers(values);
            let wide: Vec<i128> = narrow.iter().map(|value| i128::from(*value)).collect();
            Arc::new(decimals_within(wide.into(), nulls, layout.bounds, (*precision, *scale))?)
        }
        (Form::I128, Type::I128, DataType::Decimal128(precision, scale)) => {
            Arc::new(decimals_within(numbers(values), nulls, layout.bounds, (*precision, *scale))?)
        }
        _ => {
            let column = PartColumn { layout, values, valid };
            let mut rows = RowsPart { row_count, columns: vec![column] }.into_rows()?;
            return array(rows.columns.remove(0), data_type);
        }
    };
    if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type).map_err(wrong_type) }
}

/// `bytes` as numbers, where they lie if they lie right.
fn numbers<T: ArrowNativeType>(bytes: Bytes) -> ScalarBuffer<T> {
    let buffer = match bytes.as_ptr().addr().is_multiple_of(align_of::<T>()) {
        true => Buffer::from(bytes),
        false => Buffer::from(&*bytes),
    };
    ScalarBuffer::from(buffer)
}

/// Decimals that lie between `bounds`, which is looked at only where those do not show that the type holds them.
fn decimals_within(
    values: ScalarBuffer<i128>,
    nulls: Option<NullBuffer>,
    bounds: Option<Bounds>,
    (precision, scale): (u8, i8),
) -> Result<Decimal128Array> {
    let most = 10_i128.pow(u32::from(precision)) - 1;
    if !bounds.is_some_and(|bounds| -most <= bounds.min && bounds.max <= most) {
        return decimals(values, nulls, precision, scale);
    }
    PrimitiveArray::new(values, nulls).with_precision_and_scale(precision, scale).map_err(wrong_type)
}

/// Whether an array of `data_type` holds whatever may be in `column`, as far as its bounds are known: [`array`] then refuses
/// none.
pub(super) fn is_held(column: &PayloadColumn, data_type: &DataType) -> bool {
    let is_within =
        |most: i128| column.bounds.is_some_and(|bounds| -most <= bounds.min && bounds.max <= most);
    match (column.ty, data_type) {
        (Type::I64 | Type::I128, DataType::Decimal128(precision, _)) => {
            is_within(10_i128.pow(u32::from(*precision)) - 1)
        }
        (Type::I128, DataType::Int64) => is_within(i128::from(i64::MAX)),
        (ty, _) => ty != Type::I128,
    }
}

/// A column as an array of `data_type`.
pub(super) fn array(column: RowColumn, data_type: &DataType) -> Result<ArrayRef> {
    let nulls = column.valid.map(NullBuffer::from);
    let array: ArrayRef = match (column.values, data_type) {
        (RowValues::Bool(values), _) => {
            let bits = BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        (RowValues::I32(values), _) => Arc::new(Int32Array::new(values.into(), nulls)),
        (RowValues::I64(values), DataType::Decimal128(precision, scale)) => {
            let values: Vec<i128> = values.into_iter().map(i128::from).collect();
            Arc::new(decimals(values.into(), nulls, *precision, *scale)?)
        }
        // A count, as the state of an average: never negative.
        (RowValues::I64(values), DataType::UInt64) => {
            let values: Vec<u64> = values.into_iter().map(|value| value as u64).collect();
            Arc::new(UInt64Array::new(values.into(), nulls))
        }
        (RowValues::I64(values), _) => Arc::new(Int64Array::new(values.into(), nulls)),
        (RowValues::I128(values), DataType::Decimal128(precision, scale)) => {
            Arc::new(decimals(values.into(), nulls, *precision, *scale)?)
        }
        (RowValues::I128(values), DataType::Int64) => {
            let values: Result<Vec<i64>> = values.into_iter().map(|value| narrow(value, data_type)).collect();
            Arc::new(Int64Array::new(values?.into(), nulls))
        }
        (RowValues::F64(values), _) => Arc::new(Float64Array::new(values.into(), nulls)),
        (RowValues::Text { ids, dictionary }, _) => {
            return texts(&ids, &dictionary, nulls.as_ref(), data_type);
        }
        (RowValues::I128(_), other) => {
            return Err(Error::invalid_input(format!("a run gave decimals where the plan has {other}")));
        }
    };
    if array.data_type() == data_type { Ok(array) } else { cast(&array, data_type).map_err(wrong_type) }
}

fn decimals(
    values: ScalarBuffer<i128>,
    nulls: Option<NullBuffer>,
    precision: u8,
    scale: i8,
) -> Result<Decimal128Array> {
    // What is NULL may be anything.
    let most = 10_i128.pow(u32::from(precision)) - 1;
    let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let mut beyond = values.iter().enumerate().filter(|(_, value)| !(-most..=most).contains(*value));
    if let Some((_, value)) = beyond.find(|(row, _)| is_valid(*row)) {
        return Err(too_large(*value, &DataType::Decimal128(precision, scale)));
    }
    PrimitiveArray::new(values, nulls).with_precision_and_scale(precision, scale).map_err(wrong_type)
}

/// A sum as 64 bits.
fn narrow(value: i128, data_type: &DataType) -> Result<i64> {
    i64::try_from(value).map_err(|_| too_large(value, data_type))
}

/// What the plan's type does not hold: the CPU reports it.
fn too_large(value: i128, data_type: &DataType) -> Error {
    Error::unsupported(format!("{value} overflows {data_type}, which the CPU looks at"))
}

fn texts(
    ids: &[u32],
    dictionary: &Dictionary,
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let entries = &dictionary.entries;
    let is_valid = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let valid = ids.iter().enumerate().filter(|(row, _)| is_valid(*row));
    check_ids(valid.map(|(_, id)| *id), entries.len())?;
    if ids.len() < entries.len() {
        let texts = ids.iter().enumerate().map(|(row, id)| is_valid(row).then(|| entries.get(*id as usize)));
        return text_array(data_type, texts);
    }
    // Each entry is looked at once.
    let all = text_array(data_type, entries.iter().map(Some))?;
    let ids: UInt32Array = ids.iter().enumerate().map(|(row, id)| is_valid(row).then_some(*id)).collect();
    take(all.as_ref(), &ids, None).map_err(wrong_type)
}

/// That each of `ids` is the number of one of so many texts.
fn check_ids(mut ids: impl Iterator<Item = u32>, entries: usize) -> Result<()> {
    match ids.find(|id| *id as usize >= entries) {
        Some(id) => Err(Error::corrupt(format!("text {id} of a dictionary of {entries}"))),
        None => Ok(()),
    }
}

pub(super) fn wrong_type(error: ArrowError) -> Error {
    Error::invalid_input(format!("a run gave columns that the plan does not have: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(rows: Rows, schema: &SchemaRef, batch_rows: usize) -> Result<Vec<RecordBatch>> {
        super::batches(rows, Vec::new(), schema, batch_rows)
    }
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{Date32Type, Decimal128Type, Field, Schema};

    fn rows(values: RowValues, valid: Option<Vec<bool>>) -> Rows {
        Rows { row_count: values.len(), columns: vec![RowColumn { values, valid }] }
    }

    fn schema(data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("c", data_type, true)]))
    }

    #[test]
    fn a_group_without_values_has_no_count_for_its_average() {
        let column = |values, valid| RowColumn { values: RowValues::I64(values), valid };
        let columns = vec![column(vec![2, 0], None), column(vec![9, 0], Some(vec![true, false]))];
        let mut rows = Rows { row_count: 2, columns };
        counts_are_null_with_sums(&mut rows, &[0]);
        assert_eq!(rows.columns[0].valid, Some(vec![true, false]));
    }

    #[test]
    fn rows_are_cut_to_batches() {
        let found =
            batches(rows(RowValues::I64((0..10).collect()), None), &schema(DataType::Int64), 4).unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 4, 2]);
        assert!(batches(rows(RowValues::I64(vec![]), None), &schema(DataType::Int64), 4).unwrap().is_empty());
    }

    #[test]
    fn decimals_and_dates_take_the_type_of_the_plan() {
        let decimal = schema(DataType::Decimal128(20, 2));
        let found =
            batches(rows(RowValues::I64(vec![150, 0]), Some(vec![true, false])), &decimal, 8).unwrap();
        let column = found[0].column(0).as_primitive::<Decimal128Type>();
        assert_eq!((column.value(0), column.is_null(1), column.scale()), (150, true, 2));
        let found = batches(rows(RowValues::I32(vec![8036]), None), &schema(DataType::Date32), 8).unwrap();
        assert_eq!(found[0].column(0).as_primitive::<Date32Type>().value(0), 8036);
    }

    #[test]
    fn sums_that_the_type_of_the_plan_does_not_hold_are_the_cpu_s() {
        let cases = [
            (i128::from(i64::MAX), DataType::Int64, true),
            (i128::from(i64::MAX) + 1, DataType::Int64, false),
            (10_i128.pow(38) - 1, DataType::Decimal128(38, 2), true),
            (-(10_i128.pow(38)), DataType::Decimal128(38, 2), false),
        ];
        for (value, data_type, fits) in cases {
            let found = batches(rows(RowValues::I128(vec![value]), None), &schema(data_type), 8);
            let kind = found.map(|_| ()).map_err(|error| error.kind().clone());
            let expected = if fits { Ok(()) } else { Err(pelton_error::ErrorKind::Unsupported) };
            assert_eq!(kind, expected, "{value}");
        }
    }

    #[test]
    fn texts_come_from_their_dictionary() {
        let mut dictionary = Dictionary::default();
        dictionary.entries.push(b"a").unwrap();
        dictionary.entries.push(b"b").unwrap();
        let dictionary = Arc::new(dictionary);
        let of =
            |ids: Vec<u32>, valid| rows(RowValues::Text { ids, dictionary: Arc::clone(&dictionary) }, valid);
        let found = batches(of(vec![1, 9, 0], Some(vec![true, false, true])), &schema(DataType::Utf8View), 8);
        let found = found.unwrap();
        let column = found[0].column(0).as_string_view();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("b"), None, Some("a")]);
        assert!(batches(of(vec![2], None), &schema(DataType::Utf8View), 8).is_err());
    }
}
