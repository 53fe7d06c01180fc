//! Arrow IPC: files are read at chosen batches, streams from their start.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::{ArrowError, Result as ArrowResult};
use arrow::ipc::reader::{FileReader, StreamReader};
use pelton_error::{Error, Result, ResultExt};

/// The first bytes of a file, which a stream lacks.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// One IPC file or stream.
#[derive(Debug, Clone)]
pub(crate) struct IpcFile {
    pub(crate) schema: SchemaRef,
    /// `None` for a stream.
    pub(crate) batch_count: Option<usize>,
}

impl IpcFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if is_file_format(path)? {
            let reader = file_reader(path)?;
            return Ok(Self { schema: reader.schema(), batch_count: Some(reader.num_batches()) });
        }
        Ok(Self { schema: stream_reader(path)?.schema(), batch_count: None })
    }

    /// Reads batches `first..first + count` of a file, or a whole stream.
    pub(crate) fn read(
        &self,
        path: &Path,
        first: usize,
        count: usize,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> {
        let name = path.to_path_buf();
        let named = move |batch: ArrowResult<RecordBatch>| batch.map_err(|error| damaged(&name, error));
        if self.batch_count.is_none() {
            return Ok(Box::new(stream_reader(path)?.map(named)));
        }
        let mut reader = file_reader(path)?;
        reader.set_index(first).map_err(|error| damaged(path, error))?;
        Ok(Box::new(reader.take(count).map(named)))
    }
}

fn is_file_format(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let file = File::open(path).context(|| format!("opening {}", path.display()))?;
    file.take(FILE_MAGIC.len() as u64)
        .read_to_end(&mut start)
        .context(|| format!("reading {}", path.display()))?;
    Ok(start == FILE_MAGIC)
}

fn file_reader(path: &Path) -> Result<FileReader<BufReader<File>>> {
    let file = File::open(path).context(|| format!("opening {}", path.display()))?;
    FileReader::try_new_buffered(file, None).map_err(|error| damaged(path, error))
}

fn stream_reader(path: &Path) -> Result<StreamReader<BufReader<File>>> {
    let file = File::open(path).context(|| format!("opening {}", path.display()))?;
    StreamReader::try_new_buffered(file, None).map_err(|error| damaged(path, error))
}

fn damaged(path: &Path, error: ArrowError) -> Error {
    Error::corrupt(format!("{}: not a readable Arrow IPC file", path.display())).with_source(error)
}
