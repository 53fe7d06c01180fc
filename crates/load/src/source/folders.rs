//! Columns that the folders of files name, such as `year=2024/`, beside those that the files hold.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use pelton_error::{Error, Result};
use pelton_remote::{PartitionColumn, PartitionType, PartitionValue, Partitions};
use pelton_store::TableSchema;

use super::files::ListedFile;

/// The folder columns of all files of a load.
pub(crate) struct FolderColumns {
    partitions: Partitions,
    /// Which of them are columns of the table; the others are columns of the files.
    used: Vec<bool>,
    is_settled: bool,
}

impl FolderColumns {
    /// Of the folders of `files`.
    pub(crate) fn of(files: &[ListedFile]) -> Result<Self> {
        let partitions = Partitions::of(files.iter().map(|file| file.path_below.as_str()))?;
        let used = vec![true; partitions.columns.len()];
        Ok(Self { partitions, used, is_settled: false })
    }

    fn used(&self) -> impl Iterator<Item = (usize, &PartitionColumn)> {
        self.partitions.columns.iter().enumerate().filter(|(index, _)| self.used[*index])
    }

    /// Leaves out what the first file holds itself.
    pub(crate) fn settle(&mut self, first: &TableSchema) {
        if !std::mem::replace(&mut self.is_settled, true) {
            let columns = self.partitions.columns.iter();
            self.used = columns.map(|column| first.index_of(&column.name).is_none()).collect();
        }
    }

    /// What of the table's columns a file holds.
    pub(crate) fn without(&self, schema: &TableSchema) -> TableSchema {
        let mut own = schema.clone();
        own.columns.retain(|column| self.used().all(|(_, folder)| folder.name != column.name));
        own
    }

    /// The columns of a file, and after them those of its folders.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where two folders of a file name the same column.
    pub(crate) fn with(&self, mut own: TableSchema) -> Result<TableSchema> {
        let fields: Vec<Field> = self.used().map(|(_, column)| field_of(column)).collect();
        if fields.is_empty() {
            return Ok(own);
        }
        let folders = TableSchema::from_arrow(&Schema::new(fields));
        own.columns.extend(folders.map_err(|error| error.context("columns that folders name"))?.columns);
        Ok(own)
    }

    /// What the folders of file `index` say.
    pub(crate) fn values(&self, index: usize) -> FolderValues {
        let values = &self.partitions.values[index];
        FolderValues(
            self.used().map(|(position, column)| (field_of(column), values[position].clone())).collect(),
        )
    }
}

fn field_of(column: &PartitionColumn) -> Field {
    let data_type = match column.kind {
        PartitionType::Int64 => DataType::Int64,
        PartitionType::Date => DataType::Date32,
        PartitionType::Text => DataType::Utf8,
    };
    Field::new(&column.name, data_type, true)
}

/// Columns with one value for all rows of a file.
#[derive(Debug, Clone)]
pub(crate) struct FolderValues(Vec<(Field, PartitionValue)>);

impl FolderValues {
    /// `batch` with these columns after its own.
    pub(crate) fn append_to(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.0.is_empty() {
            return Ok(batch);
        }
        let row_count = batch.num_rows();
        let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
        let mut columns = batch.columns().to_vec();
        for (field, value) in &self.0 {
            fields.push(Arc::new(field.clone()));
            columns.push(repeated(value, row_count));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(row_count));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(|error| {
            Error::invalid_input("columns of folders do not fit the file's").with_source(error)
        })
    }
}

fn repeated(value: &PartitionValue, row_count: usize) -> ArrayRef {
    match value {
        PartitionValue::Int64(value) => Arc::new(Int64Array::from(vec![*value; row_count])),
        PartitionValue::Date(value) => Arc::new(Date32Array::from(vec![*value; row_count])),
        PartitionValue::Text(value) => Arc::new(StringArray::from(vec![value.as_deref(); row_count])),
    }
}
