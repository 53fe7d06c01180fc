//! Rows as they wait to be encoded: the table's columns, with plain offsets for text, as a view would keep its whole page
//! in memory.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use pelton_error::{Error, Result};
use pelton_store::{ColumnSchema, TableSchema};

/// The Arrow schema of rows of a table of `schema`.
pub(crate) fn staging_schema(schema: &TableSchema) -> SchemaRef {
    let field = |column: &ColumnSchema| {
        let data_type = match column.logical.to_arrow() {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            other => other,
        };
        Field::new(&column.name, data_type, column.nullable)
    };
    Arc::new(Schema::new(schema.columns.iter().map(field).collect::<Fields>()))
}

/// `batch` with the types of `staging`, whose columns it has in order.
pub(crate) fn conform(batch: &RecordBatch, staging: &SchemaRef) -> Result<RecordBatch> {
    let strictly = CastOptions { safe: false, ..Default::default() };
    let arrays = batch.columns().iter().zip(staging.fields()).map(|(column, field)| {
        cast_with_options(column, field.data_type(), &strictly)
            .map_err(|error| Error::invalid_input(format!("column '{}'", field.name())).with_source(error))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(staging), arrays.collect::<Result<_>>()?, &options)
        .map_err(|error| Error::invalid_input("rows do not fit the schema").with_source(error))
}
