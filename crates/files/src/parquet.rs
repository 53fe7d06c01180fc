//! Parquet: row groups are read independently, in parallel and at random.

use std::fs::File;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::ChunkReader;
use pelton_error::{Error, Result, ResultExt};

use crate::object::{Failure, RowGroupReader, Tail};
use crate::place::Place;

/// Rows read into one batch.
const BATCH_ROWS: usize = 8192;

/// The footer of one file.
#[derive(Debug, Clone)]
pub(crate) struct ParquetFile {
    metadata: ArrowReaderMetadata,
}

impl ParquetFile {
    /// Opens the file at `place`; `tail` is its end, where that was asked for before.
    pub(crate) fn open(place: &Place, tail: Option<Tail>) -> Result<Self> {
        let options = ArrowReaderOptions::new();
        let damaged = |error: ParquetError| {
            Error::corrupt(format!("{}: not a readable Parquet file", place.name())).with_source(error)
        };
        let metadata = match place {
            Place::Disk(path) => {
                let file = File::open(path).context(|| format!("opening {}", path.display()))?;
                ArrowReaderMetadata::load(&file, options).map_err(damaged)?
            }
            Place::Store(object) => {
                let reader = tail.unwrap_or_else(|| Tail::begin(object)).wait_blocking()?;
                ArrowReaderMetadata::load(&reader, options)
                    .map_err(|error| reader.failure.take().unwrap_or_else(|| damaged(error)))?
            }
        };
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

    /// Reads the columns at `columns`, ascending, of row group `index`; of an object, `share_bytes` may be on their way.
    pub(crate) fn read(
        &self,
        place: &Place,
        index: usize,
        share_bytes: u64,
        columns: &[usize],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let schema = self.metadata.metadata().file_metadata().schema_descr();
        let wanted = ProjectionMask::roots(schema, columns.iter().copied());
        let (reader, failure) = match place {
            Place::Disk(path) => {
                let file = File::open(path).context(|| format!("opening {}", path.display()))?;
                (self.batches(file, index, wanted), Failure::default())
            }
            Place::Store(object) => {
                let row_group = self.metadata.metadata().row_group(index);
                let reader = RowGroupReader::begin(object, row_group, &wanted, share_bytes)?;
                let failure = reader.failure.clone();
                (self.batches(reader, index, wanted), failure)
            }
        };
        let name = place.name();
        let damaged = move |error: String| {
            failure.take().unwrap_or_else(|| {
                Error::corrupt(format!("{name}, row group {index}: not readable")).with_source(error)
            })
        };
        let reader = reader.map_err(|error| damaged(error.to_string()))?;
        Ok(reader.map(move |batch| batch.map_err(|error| damaged(error.to_string()))))
    }

    fn batches(
        &self,
        input: impl ChunkReader + 'static,
        index: usize,
        wanted: ProjectionMask,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        ParquetRecordBatchReaderBuilder::new_with_metadata(input, self.metadata.clone())
            .with_projection(wanted)
            .with_row_groups(vec![index])
            .with_batch_size(BATCH_ROWS)
            .build()
    }
}
