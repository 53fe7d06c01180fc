//! Columns that the folders of files name, such as `year=2024/`, beside those that the files hold.

use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use pelton_error::{Error, Result};
use pelton_remote::{PartitionColumn, PartitionType, PartitionValue, Partitions};

use crate::files::ListedFile;

/// The folder columns of all files of a set.
#[derive(Debug)]
pub(crate) struct FolderColumns {
    partitions: Partitions,
    /// Which of them are columns of the set; the others are columns of the files.
    used: Vec<bool>,
}

impl FolderColumns {
    /// Of the folders of `files`.
    pub(crate) fn of(files: &[ListedFile]) -> Result<Self> {
        let partitions = Partitions::of(files.iter().map(|file| file.path_below.as_str()))?;
        let used = vec![true; partitions.columns.len()];
        let is_again = |index: &usize| {
            let name = &partitions.columns[*index].name;
            partitions.columns[..*index].iter().any(|column| column.name == *name)
        };
        if let Some(index) = (0..used.len()).find(is_again) {
            return Err(Error::invalid_input(format!(
                "columns that folders name: two folders of '{}' name column '{}'; rename one",
                files[0].path_below, partitions.columns[index].name
            )));
        }
        Ok(Self { partitions, used })
    }

    fn used(&self) -> impl Iterator<Item = (usize, &PartitionColumn)> {
        self.partitions.columns.iter().enumerate().filter(|(index, _)| self.used[*index])
    }

    /// Without those that the files hold themselves.
    pub(crate) fn beside(self, own: &[Field]) -> Self {
        let columns = self.partitions.columns.iter();
        let used = columns.map(|column| own.iter().all(|field| *field.name() != column.name)).collect();
        Self { partitions: self.partitions, used }
    }

    /// What of a table's columns the files hold, for all that their folders tell.
    pub(crate) fn without(&self, schema: &Schema) -> Schema {
        let is_own = |field: &&Arc<Field>| self.used().all(|(_, folder)| folder.name != *field.name());
        Schema::new(schema.fields().iter().filter(is_own).cloned().collect::<Vec<_>>())
    }

    /// The columns, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        self.used().map(|(_, column)| field_of(column))
    }

    /// Where column `name` is among them.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.used().position(|(_, column)| column.name == name)
    }

    /// What the folders of file `index` say.
    pub(crate) fn values(&self, index: usize) -> FolderValues {
        let values = &self.partitions.values[index];
        FolderValues(self.used().map(|(position, _)| values[position].clone()).collect())
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
pub(crate) struct FolderValues(Vec<PartitionValue>);

impl FolderValues {
    pub(crate) fn value(&self, position: usize) -> &PartitionValue {
        &self.0[position]
    }

    /// Column `position` of so many rows.
    pub(crate) fn array(&self, position: usize, row_count: usize) -> ArrayRef {
        match &self.0[position] {
            PartitionValue::Int64(value) => Arc::new(Int64Array::from(vec![*value; row_count])),
            PartitionValue::Date(value) => Arc::new(Date32Array::from(vec![*value; row_count])),
            PartitionValue::Text(value) => Arc::new(StringArray::from(vec![value.as_deref(); row_count])),
        }
    }
}
