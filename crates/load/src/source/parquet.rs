//! Parquet: row groups are read independently, in parallel and at random.

use std::fs::File;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use pelton_error::{Error, Result, ResultExt};

/// Rows read into one batch.
const BATCH_ROWS: usize = 8192;

/// The footer of one file.
#[derive(Debug, Clone)]
pub(crate) struct ParquetFile {
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).context(|| format!("opening {}", path.display()))?;
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|error| {
            Error::corrupt(format!("{}: not a readable Parquet file", path.display())).with_source(error)
        })?;
        Ok(Self { metadata })
    }

    pub(crate) fn arrow_schema(&self) -> &Schema {
        self.metadata.schema()
    }

    pub(crate) fn row_group_count(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Rows of row group `index`; a negative count of a damaged file is none.
    pub(crate) fn row_count(&self, index: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(index).num_rows()).unwrap_or(0)
    }

    /// Stored bytes of row group `index`.
    pub(crate) fn stored_bytes(&self, index: usize) -> u64 {
        u64::try_from(self.metadata.metadata().row_group(index).compressed_size()).unwrap_or(0)
    }

    /// Reads row group `index`.
    pub(crate) fn read(
        &self,
        path: &Path,
        index: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let name = path.display().to_string();
        let damaged = move |error: String| {
            Error::corrupt(format!("{name}, row group {index}: not readable")).with_source(error)
        };
        let file = File::open(path).context(|| format!("opening {}", path.display()))?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(vec![index])
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| damaged(error.to_string()))?;
        Ok(reader.map(move |batch| batch.map_err(|error| damaged(error.to_string()))))
    }
}
