//! Parquet: row groups are read independently, in parallel and at random. The library panics on some damaged files; that is an
//! error here like any other.

use std::fs::File;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::ChunkReader;
use pelton_error::{Error, Result, ResultExt, guarded, guarded_items};

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
                loaded(&file, options).map_err(damaged)?
            }
            Place::Store(object) => {
                let reader = tail.unwrap_or_else(|| Tail::begin(object)).wait_blocking()?;
                loaded(&reader, options)
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
        Ok(guarded_items(reader).map(move |batch| match batch {
            Ok(batch) => batch.map_err(|error| damaged(error.to_string())),
            Err(panic) => Err(damaged(panic)),
        }))
    }

    fn batches(
        &self,
        input: impl ChunkReader + 'static,
        index: usize,
        wanted: ProjectionMask,
    ) -> ParquetResult<ParquetRecordBatchReader> {
        let build = || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(input, self.metadata.clone())
                .with_projection(wanted)
                .with_row_groups(vec![index])
                .with_batch_size(BATCH_ROWS)
                .build()
        };
        guarded(build).unwrap_or_else(|panic| Err(ParquetError::General(panic)))
    }
}

/// The footer of `input`, whose columns lie within the file.
fn loaded(input: &impl ChunkReader, options: ArrowReaderOptions) -> ParquetResult<ArrowReaderMetadata> {
    let metadata = guarded(|| ArrowReaderMetadata::load(input, options));
    let metadata = metadata.unwrap_or_else(|panic| Err(ParquetError::General(panic)))?;
    check_layout(metadata.metadata(), input.len()).map_err(ParquetError::General)?;
    Ok(metadata)
}

/// That the columns that a footer tells of lie within a file of so many bytes. The readers take it for granted.
///
/// # Errors
///
/// Names the row group and the column that does not.
pub fn check_layout(metadata: &ParquetMetaData, file_bytes: u64) -> std::result::Result<(), String> {
    let lies_within = |column: &ColumnChunkMetaData| {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let end = start.checked_add(column.compressed_size());
        start >= 0 && column.compressed_size() >= 0 && end.is_some_and(|end| end as u64 <= file_bytes)
    };
    for (index, row_group) in metadata.row_groups().iter().enumerate() {
        if let Some(column) = row_group.columns().iter().find(|column| !lies_within(column)) {
            return Err(format!(
                "column {} of row group {index} lies beyond the end of the file",
                column.column_path()
            ));
        }
    }
    Ok(())
}
