//! Arrow IPC: files are read at chosen batches, streams from their start. arrow-ipc panics on some damaged files; that is an
//! error here like any other.

use std::io::{BufReader, Read};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::{ArrowError, Result as ArrowResult};
use arrow::ipc::reader::{FileReader, StreamReader};
use pelton_error::{Error, Result, guarded, guarded_items};

use crate::place::{Place, ReadSeek, of_store};

/// The first bytes of a file, which a stream lacks.
const FILE_MAGIC: &[u8] = b"ARROW1";

type Buffered = BufReader<Box<dyn ReadSeek>>;

/// One IPC file or stream.
#[derive(Debug, Clone)]
pub(crate) struct IpcFile {
    pub(crate) schema: SchemaRef,
    /// `None` for a stream.
    pub(crate) batch_count: Option<usize>,
}

impl IpcFile {
    pub(crate) fn open(place: &Place) -> Result<Self> {
        if is_file_format(place)? {
            let reader = file_reader(place, None)?;
            return Ok(Self { schema: reader.schema(), batch_count: Some(reader.num_batches()) });
        }
        Ok(Self { schema: stream_reader(place, None)?.schema(), batch_count: None })
    }

    /// Reads columns `columns`, in ascending order, of batches `first..first + count` of a file, or of a whole stream.
    pub(crate) fn read(
        &self,
        place: &Place,
        first: usize,
        count: usize,
        columns: Vec<usize>,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> {
        let owned = place.clone();
        let named = move |batch: ArrowResult<RecordBatch>| batch.map_err(|error| damaged(&owned, error));
        if self.batch_count.is_none() {
            let batches = unpanicked(stream_reader(place, Some(columns))?);
            return Ok(Box::new(batches.map(named)));
        }
        let mut reader = file_reader(place, Some(columns))?;
        reader.set_index(first).map_err(|error| damaged(place, error))?;
        Ok(Box::new(unpanicked(reader.take(count)).map(named)))
    }
}

fn is_file_format(place: &Place) -> Result<bool> {
    let mut start = Vec::new();
    let read = place.open()?.take(FILE_MAGIC.len() as u64).read_to_end(&mut start);
    read.map_err(|error| {
        of_store(&error).unwrap_or_else(|| Error::io(format!("reading {}", place.name()), error))
    })?;
    Ok(start == FILE_MAGIC)
}

fn file_reader(place: &Place, columns: Option<Vec<usize>>) -> Result<FileReader<Buffered>> {
    let file = place.open_buffered()?;
    opened(place, || FileReader::try_new(file, columns))
}

fn stream_reader(place: &Place, columns: Option<Vec<usize>>) -> Result<StreamReader<Buffered>> {
    let file = place.open_buffered()?;
    opened(place, || StreamReader::try_new(file, columns))
}

fn opened<T>(place: &Place, open: impl FnOnce() -> ArrowResult<T>) -> Result<T> {
    let reader = guarded(open).unwrap_or_else(|panic| Err(ArrowError::IpcError(panic)));
    reader.map_err(|error| damaged(place, error))
}

/// `batches`, whose panic is an error.
fn unpanicked(
    batches: impl Iterator<Item = ArrowResult<RecordBatch>>,
) -> impl Iterator<Item = ArrowResult<RecordBatch>> {
    guarded_items(batches).map(|batch| batch.unwrap_or_else(|panic| Err(ArrowError::IpcError(panic))))
}

fn damaged(place: &Place, error: ArrowError) -> Error {
    of_store(&error).unwrap_or_else(|| {
        Error::corrupt(format!("{}: not a readable Arrow IPC file", place.name())).with_source(error)
    })
}
