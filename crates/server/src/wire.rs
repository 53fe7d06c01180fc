//! The columns that clients see: Pelton's, with layouts that every Arrow client reads.
//!
//! ```text
//!   Utf8View  ─▶ Utf8         older clients know no views, and a view's batch would send every byte its views might
//!   BinaryView ─▶ Binary      have looked at
//!   Dictionary ─▶ its values
//! ```
//!
//! The schema that a ticket announces is the schema of the batches that follow, field by field: clients compare them.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

/// `schema` as clients see it.
pub(crate) fn schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// `batch` with the columns of `schema`, which is what [`schema`] made of the batch's own.
pub(crate) fn batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        cast(column, field.data_type())
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
}

fn field(field: &FieldRef) -> FieldRef {
    let data_type = data_type(field.data_type());
    if &data_type == field.data_type() {
        return Arc::clone(field);
    }
    let plain = Field::new(field.name(), data_type, field.is_nullable());
    Arc::new(plain.with_metadata(field.metadata().clone()))
}

fn data_type(data_type_here: &DataType) -> DataType {
    match data_type_here {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => data_type(values),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int32Array, StringViewArray};
    use arrow::datatypes::Int32Type;

    #[test]
    fn views_and_dictionaries_travel_as_plain_text() {
        let text: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a text beyond twelve bytes"), None]));
        let coded: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::from_iter([Some("x"), Some("x")]));
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let here = RecordBatch::try_from_iter([("t", text), ("d", coded), ("n", number)]).unwrap();
        let schema = schema(here.schema().as_ref());
        let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
        assert_eq!(types, [&DataType::Utf8, &DataType::Utf8, &DataType::Int32]);
        let sent = batch(&here, &schema).unwrap();
        assert_eq!(sent.schema(), schema);
        assert_eq!(
            sent.column(0).as_string::<i32>().iter().collect::<Vec<_>>(),
            [Some("a text beyond twelve bytes"), None]
        );
        assert_eq!(sent.column(1).as_string::<i32>().value(1), "x");
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let none = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(3));
        let here = RecordBatch::try_new_with_options(Arc::clone(&none), vec![], &options).unwrap();
        assert_eq!(batch(&here, &schema(&none)).unwrap().num_rows(), 3);
    }
}
