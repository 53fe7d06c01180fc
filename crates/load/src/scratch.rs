//! Rows that do not fit in memory: Arrow IPC files with LZ4 in a [`SpillSpace`].
//!
//! The files have no names, so they are gone with the load, however it ends. They lie in the warehouse, which has to have
//! room for the table anyway, unless the request names another folder.

use std::io::{BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use pelton_error::{Error, Result};
use pelton_limits::{SpillOptions, SpillReader as FileBytes, SpillSpace};

/// Where a load spills.
#[derive(Debug)]
pub(crate) struct Scratch {
    space: Arc<SpillSpace>,
}

impl Scratch {
    /// Prepares to spill as `options` say, inside `warehouse` if they name no folder.
    pub(crate) fn new(warehouse: &Path, options: &SpillOptions) -> Self {
        let directory = options.directory.clone().unwrap_or_else(|| warehouse.to_path_buf());
        let options = SpillOptions { directory: Some(directory), ..options.clone() };
        Self { space: SpillSpace::new(&options) }
    }

    /// Bytes spilled so far.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.space.written_bytes()
    }

    /// Starts a new file of rows.
    pub(crate) fn writer(&self, schema: &SchemaRef) -> Result<SpillWriter> {
        let file = Arc::new(self.space.file()?);
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
        let out = BufWriter::new(Appender(Arc::clone(&file)));
        let writer = options
            .and_then(|options| FileWriter::try_new_with_options(out, schema, options))
            .map_err(write_error)?;
        Ok(SpillWriter { file, writer, batch_rows: Vec::new(), batch_bytes_max: 0 })
    }
}

/// Writes at the end of a file.
struct Appender(Arc<pelton_limits::SpillFile>);

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes one file of rows.
pub(crate) struct SpillWriter {
    file: Arc<pelton_limits::SpillFile>,
    writer: FileWriter<BufWriter<Appender>>,
    batch_rows: Vec<usize>,
    batch_bytes_max: u64,
}

impl SpillWriter {
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.batch_rows.push(batch.num_rows());
        self.batch_bytes_max = self.batch_bytes_max.max(crate::budget::batch_bytes(batch));
        self.writer.write(batch).map_err(write_error)
    }

    /// Ends the file; it can be read from now on.
    pub(crate) fn finish(mut self) -> Result<SpillFile> {
        self.writer.finish().map_err(write_error)?;
        let Self { file, batch_rows, batch_bytes_max, .. } = self;
        Ok(SpillFile { file, batch_rows, batch_bytes_max })
    }
}

/// A finished file of rows; gone with its last reader.
#[derive(Debug)]
pub(crate) struct SpillFile {
    file: Arc<pelton_limits::SpillFile>,
    /// Rows of each batch, in order.
    pub(crate) batch_rows: Vec<usize>,
    /// Bytes of the largest batch in memory.
    pub(crate) batch_bytes_max: u64,
}

impl SpillFile {
    /// The rows of the file that lie in `range`, in pieces; the file's first row is row `start`.
    pub(crate) fn rows(&self, mut start: u64, range: &Range<u64>) -> Result<Vec<RecordBatch>> {
        let mut rows = Vec::new();
        let mut reader = self.reader()?;
        for (index, &batch_rows) in self.batch_rows.iter().enumerate() {
            let end = start + batch_rows as u64;
            if range.start < end && start < range.end {
                reader.seek(index)?;
                let batch = reader.next().expect("the batch was written")?;
                rows.extend(overlap(&batch, start, range));
            }
            start = end;
        }
        Ok(rows)
    }

    /// Opens the file at its first batch.
    pub(crate) fn reader(&self) -> Result<SpillReader> {
        let bytes = FileBytes::new(Arc::clone(&self.file));
        let reader = FileReader::try_new_buffered(bytes, None).map_err(read_error)?;
        Ok(SpillReader { reader })
    }
}

/// The part of `batch`, whose first row is row `start`, that lies in `range`.
pub(crate) fn overlap(batch: &RecordBatch, start: u64, range: &Range<u64>) -> Option<RecordBatch> {
    let end = start + batch.num_rows() as u64;
    let (first, last) = (range.start.max(start), range.end.min(end));
    (first < last).then(|| batch.slice((first - start) as usize, (last - first) as usize))
}

/// Reads a file of rows in order or at chosen batches.
pub(crate) struct SpillReader {
    reader: FileReader<BufReader<FileBytes>>,
}

impl SpillReader {
    /// Makes batch `index` the next one.
    pub(crate) fn seek(&mut self, index: usize) -> Result<()> {
        self.reader.set_index(index).map_err(read_error)
    }
}

impl Iterator for SpillReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.reader.next()?.map_err(read_error))
    }
}

fn write_error(error: ArrowError) -> Error {
    of_space(&error)
        .unwrap_or_else(|| Error::new(pelton_error::ErrorKind::Io, "writing spilled rows").with_source(error))
}

fn read_error(error: ArrowError) -> Error {
    of_space(&error).unwrap_or_else(|| Error::corrupt("reading back spilled rows").with_source(error))
}

/// What the spill space said, with folder and remedy, somewhere among the sources.
fn of_space(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    if let Some(ours) = error.downcast_ref::<Error>() {
        return Some(Error::new(ours.kind().clone(), ours.to_string()));
    }
    error.source().and_then(of_space)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use pelton_limits::SpillLimit;

    use super::*;

    fn batch(first: i64) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 10));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn batches_come_back_and_nothing_has_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path(), &SpillOptions::default());
        let mut writer = scratch.writer(&batch(0).schema()).unwrap();
        for first in [0, 10, 20] {
            writer.write(&batch(first)).unwrap();
        }
        let file = writer.finish().unwrap();
        assert_eq!(file.batch_rows, [10, 10, 10]);
        assert!(scratch.spilled_bytes() > 0);
        let mut reader = file.reader().unwrap();
        reader.seek(1).unwrap();
        let rest: Vec<RecordBatch> = reader.collect::<Result<_>>().unwrap();
        assert_eq!(rest, [batch(10), batch(20)]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_limit_is_said_once_with_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let options = SpillOptions { directory: None, limit: SpillLimit::Bytes(100) };
        let mut writer = Scratch::new(dir.path(), &options).writer(&batch(0).schema()).unwrap();
        let written = writer.write(&batch(0)).and_then(|()| writer.finish().map(|_| ()));
        let text = written.unwrap_err().to_string();
        assert!(
            text.starts_with("spill limit reached") && text.matches("--spill-limit").count() == 1,
            "{text}"
        );
    }
}
