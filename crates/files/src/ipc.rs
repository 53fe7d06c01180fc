//! Arrow IPC: files are read at chosen batches, streams from their start.

use std::io::{BufReader, Read};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::{ArrowError, Result as ArrowResult};
use arrow::ipc::reader::{FileReader, StreamReader};
use pelton_error::{Error, Result};

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
            return Ok(Box::new(stream_reader(place, Some(columns))?.map(named)));
        }
        let mut reader = file_reader(place, Some(columns))?;
        reader.set_index(first).map_err(|error| damaged(place, error))?;
        Ok(Box::new(reader.take(count).map(named)))
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
    FileReader::try_new(place.open_buffered()?, columns).map_err(|error| damaged(place, error))
}

fn stream_reader(place: &Place, columns: Option<Vec<usize>>) -> Result<StreamReader<Buffered>> {
    StreamReader::try_new(place.open_buffered()?, columns).map_err(|error| damaged(place, error))
}

fn damaged(place: &Place, error: ArrowError) -> Error {
    of_store(&error).unwrap_or_else(|| {
        Error::corrupt(format!("{}: not a readable Arrow IPC file", place.name())).with_source(error)
    })
}
