//! Whole tables in memory, and columns by name.

#![allow(dead_code, reason = "each test binary uses its share")]

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int32Type, Int64Type};
use pelton_datagen::{Dataset, TableSpec, batches, tables};

/// The specification of one table.
pub(crate) fn spec(dataset: Dataset, table: &str, scale: f64) -> TableSpec {
    tables(dataset, scale).unwrap().into_iter().find(|spec| spec.name == table).unwrap()
}

/// All rows of a table, made as `part_count` parts one after another.
pub(crate) fn generate(dataset: Dataset, table: &str, scale: f64, part_count: u32, seed: u64) -> RecordBatch {
    let parts: Vec<RecordBatch> = (0..part_count)
        .flat_map(|part| batches(dataset, table, scale, part, part_count, seed).unwrap())
        .collect();
    concat_batches(&spec(dataset, table, scale).schema, &parts).unwrap()
}

/// A table made in one part with seed 1.
pub(crate) struct Table(RecordBatch);

impl Table {
    pub(crate) fn new(dataset: Dataset, table: &str, scale: f64) -> Self {
        Self(generate(dataset, table, scale, 1, 1))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.num_rows()
    }

    /// A column of 32- or 64-bit integers without NULL.
    pub(crate) fn ints(&self, column: &str) -> Vec<i64> {
        let array = self.0.column_by_name(column).unwrap();
        assert_eq!(array.null_count(), 0, "{column}");
        match array.data_type() {
            DataType::Int32 => {
                array.as_primitive::<Int32Type>().values().iter().map(|v| (*v).into()).collect()
            }
            DataType::Int64 => array.as_primitive::<Int64Type>().values().to_vec(),
            other => panic!("{column} is {other}"),
        }
    }

    pub(crate) fn primitives<T: ArrowPrimitiveType>(&self, column: &str) -> Vec<Option<T::Native>> {
        self.0.column_by_name(column).unwrap().as_primitive::<T>().iter().collect()
    }

    pub(crate) fn doubles(&self, column: &str) -> Vec<Option<f64>> {
        self.primitives::<Float64Type>(column)
    }

    /// A column of text; NULL as "".
    pub(crate) fn texts(&self, column: &str) -> Vec<String> {
        let array = self.0.column_by_name(column).unwrap().as_string_view();
        array.iter().map(|text| text.unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn distinct_texts(&self, column: &str) -> Vec<String> {
        let mut texts = self.texts(column);
        texts.sort_unstable();
        texts.dedup();
        texts
    }

    /// The smallest and the largest value.
    pub(crate) fn bounds(&self, column: &str) -> (i64, i64) {
        let ints = self.ints(column);
        (*ints.iter().min().unwrap(), *ints.iter().max().unwrap())
    }
}
