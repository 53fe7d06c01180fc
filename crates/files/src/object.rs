//! Parquet in an object store: a footer in one request, a row group with the next pages of every column on their way.
//!
//! ```text
//!   object   |  row group 0: a a a b b b c c c  |  row group 1 …  | footer |
//!                              ▲     ▲     ▲                       └ tail ┘ first request of a file
//!                              └ one window of pieces a column chunk, all begun when the row group is opened
//! ```
//!
//! Bound: `WINDOW_PIECES` pieces a column, of a size that the share of the budget gives, at least
//! `PIECE_BYTES_MIN`, whatever the size of the row group.

use std::io::Read;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};
use pelton_error::{Error, Result};
use pelton_remote::{Object, Pending, Pieces};

/// Bytes of the first request, which hold the footer of all but wide tables.
const TAIL_BYTES: u64 = 64 << 10;
/// Pieces that one window may hold: see [`Pieces`].
const WINDOW_PIECES: u64 = 6;
/// Smaller requests cost more than they save.
const PIECE_BYTES_MIN: u64 = 64 << 10;

/// The end of an object, on its way.
pub(crate) struct Tail {
    object: Object,
    start: u64,
    bytes: Pending<Bytes>,
}

impl Tail {
    /// Asks for the end of `object`.
    pub(crate) fn begin(object: &Object) -> Self {
        let start = object.bytes().saturating_sub(TAIL_BYTES);
        Self { bytes: object.begin(start..object.bytes()), object: object.clone(), start }
    }

    /// Waits for it.
    pub(crate) fn wait_blocking(self) -> Result<TailReader> {
        let bytes = self.bytes.wait_blocking()?;
        Ok(TailReader { object: self.object, start: self.start, bytes, failure: Failure::default() })
    }
}

/// What went wrong below a format library that keeps only the text of errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    /// The first error since the last call.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::General(text)
    }
}

/// An object whose end is at hand.
pub(crate) struct TailReader {
    object: Object,
    start: u64,
    bytes: Bytes,
    pub(crate) failure: Failure,
}

impl Length for TailReader {
    fn len(&self) -> u64 {
        self.object.bytes()
    }
}

impl ChunkReader for TailReader {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let length = self.object.bytes().saturating_sub(start);
        Ok(std::io::Cursor::new(self.get_bytes(start, length as usize)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.saturating_add(length as u64);
        if end > self.object.bytes() {
            return Err(ParquetError::EOF(format!("bytes {start} to {end} of {}", self.object.bytes())));
        }
        match start.checked_sub(self.start) {
            Some(skipped) => Ok(self.bytes.slice(skipped as usize..skipped as usize + length)),
            None => self.object.read_blocking(start..end).map_err(|error| self.failure.keep(error)),
        }
    }
}

/// The column chunks of one row group, each read through a window.
pub(crate) struct RowGroupReader {
    object_bytes: u64,
    windows: Vec<Arc<Mutex<Pieces>>>,
    /// Where each window lies, by start.
    ranges: Vec<Range<u64>>,
    pub(crate) failure: Failure,
}

impl RowGroupReader {
    /// Begins to read the columns of `row_group` that are `wanted`, with `share_bytes` for what is on its way.
    pub(crate) fn begin(
        object: &Object,
        row_group: &RowGroupMetaData,
        wanted: &ProjectionMask,
        share_bytes: u64,
    ) -> Result<Self> {
        let mut ranges = column_ranges(row_group, wanted, object.bytes()).ok_or_else(|| {
            Error::corrupt(format!("{}: a column lies beyond the end of the file", object.url()))
        })?;
        ranges.sort_by_key(|range| range.start);
        let piece_bytes = share_bytes / (ranges.len().max(1) as u64 * WINDOW_PIECES);
        let piece_bytes = piece_bytes.max(PIECE_BYTES_MIN);
        let window = |range: &Range<u64>| {
            let mut pieces = Pieces::new(object.clone(), range.clone(), piece_bytes, piece_bytes);
            pieces.begin();
            Arc::new(Mutex::new(pieces))
        };
        let windows = ranges.iter().map(window).collect();
        Ok(Self { object_bytes: object.bytes(), windows, ranges, failure: Failure::default() })
    }

    /// The window that holds `position`.
    fn window(&self, position: u64) -> ParquetResult<&Arc<Mutex<Pieces>>> {
        let after = self.ranges.partition_point(|range| range.start <= position);
        let index = after.checked_sub(1).filter(|&index| position < self.ranges[index].end);
        index.map(|index| &self.windows[index]).ok_or_else(|| {
            ParquetError::EOF(format!("byte {position} belongs to no column of the row group"))
        })
    }
}

/// Where the `wanted` columns lie; `None` where one does not lie within the file.
fn column_ranges(
    row_group: &RowGroupMetaData,
    wanted: &ProjectionMask,
    file_bytes: u64,
) -> Option<Vec<Range<u64>>> {
    let range = |column: &parquet::file::metadata::ColumnChunkMetaData| {
        let start = column.dictionary_page_offset().filter(|&offset| offset > 0);
        let start = u64::try_from(start.unwrap_or(column.data_page_offset())).ok()?;
        let start = start.min(u64::try_from(column.data_page_offset()).ok()?);
        let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        (end <= file_bytes).then_some(start..end)
    };
    let columns = row_group.columns().iter().enumerate();
    columns.filter(|(leaf, _)| wanted.leaf_included(*leaf)).map(|(_, column)| range(column)).collect()
}

impl Length for RowGroupReader {
    fn len(&self) -> u64 {
        self.object_bytes
    }
}

impl ChunkReader for RowGroupReader {
    type T = WindowReader;

    fn get_read(&self, start: u64) -> ParquetResult<WindowReader> {
        let window = Arc::clone(self.window(start)?);
        Ok(WindowReader { window, position: start, failure: self.failure.clone() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut window = self.window(start)?.lock().unwrap_or_else(PoisonError::into_inner);
        if start.saturating_add(length as u64) > window.range().end {
            return Err(ParquetError::EOF(format!("{length} bytes from {start} leave their column")));
        }
        window.all_blocking(start, length).map_err(|error| self.failure.keep(error))
    }
}

/// Reads on within one window.
pub(crate) struct WindowReader {
    window: Arc<Mutex<Pieces>>,
    position: u64,
    failure: Failure,
}

impl Read for WindowReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let some = window.some_blocking(self.position, buffer.len());
        let bytes = some.map_err(|error| std::io::Error::other(self.failure.keep(error)))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
}
