//! The rows of a query that has run, for any consumer of Arrow streams. Their buffers are shared, not copied.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchIterator};
use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::stream::stream_capsule;

/// Batches in memory.
#[pyclass(frozen, module = "pelton._native")]
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Rows {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl Rows {
    /// How many.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// All of them as an Arrow stream; may be asked for repeatedly.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        stream_capsule(py, Box::new(reader), requested_schema)
    }
}
