//! Rows that do not fit in memory: Arrow IPC files with LZ4 in a folder of their own.
//!
//! ```text
//! <warehouse>/.scratch-<pid>-<n>/     locked (flock) by the load that made it
//!     0.arrow  1.arrow  ...           a stage, sorted runs
//! ```
//!
//! The folder goes when the load ends, however it ends. A killed load leaves its folder behind, unlocked:
//! the next load finds it by taking the lock, and removes it.

use std::fs::{self, File, TryLockError};
use std::io::{BufWriter, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions};
use pelton_error::{Error, Result, ResultExt};

const PREFIX: &str = ".scratch-";

/// Where a load spills; the folder is made with the first file.
#[derive(Debug)]
pub(crate) struct Scratch {
    warehouse: PathBuf,
    folder: Mutex<Option<Folder>>,
    file_count: AtomicU64,
    spilled_bytes: AtomicU64,
}

/// A locked folder, removed on drop.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Holds the lock on the folder.
    _lock: File,
}

impl Folder {
    fn create(warehouse: &Path) -> Result<Self> {
        for attempt in 0.. {
            let path = warehouse.join(format!("{PREFIX}{}-{attempt}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    return Err(Error::io(format!("making scratch folder {}", path.display()), error));
                }
            }
            // Another load may take the new folder for an abandoned one before the lock is ours.
            let Ok(lock) = File::open(&path) else { continue };
            if lock.try_lock().is_ok() && path.exists() {
                return Ok(Self { path, _lock: lock });
            }
        }
        unreachable!("a free name is found before the counter ends")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays is found and removed by the next load.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Scratch {
    /// Prepares to spill inside `warehouse`, and removes what killed loads left there.
    pub(crate) fn new(warehouse: &Path) -> Result<Self> {
        remove_abandoned(warehouse)?;
        Ok(Self {
            warehouse: warehouse.to_path_buf(),
            folder: Mutex::new(None),
            file_count: AtomicU64::new(0),
            spilled_bytes: AtomicU64::new(0),
        })
    }

    /// The path of file `name`, in a folder that exists.
    fn path(&self, name: &str) -> Result<PathBuf> {
        let mut folder = self.folder.lock().expect("nothing panics under this lock");
        let folder = match &mut *folder {
            Some(folder) => folder,
            none => none.insert(Folder::create(&self.warehouse)?),
        };
        Ok(folder.path.join(name))
    }

    /// Bytes written to the folder so far.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes.load(Ordering::Relaxed)
    }

    /// Starts a new file of rows.
    pub(crate) fn writer(&self, schema: &SchemaRef) -> Result<SpillWriter<'_>> {
        let index = self.file_count.fetch_add(1, Ordering::Relaxed);
        let path = self.path(&format!("{index}.arrow"))?;
        let file = File::create(&path).context(|| format!("making scratch file {}", path.display()))?;
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
        let writer = options
            .and_then(|options| FileWriter::try_new_with_options(BufWriter::new(file), schema, options))
            .map_err(|error| write_error(&path, error))?;
        Ok(SpillWriter { scratch: self, path, writer, batch_rows: Vec::new(), batch_bytes_max: 0 })
    }
}

/// Removes the scratch folders in `warehouse` that no living load holds.
fn remove_abandoned(warehouse: &Path) -> Result<()> {
    let doing = || format!("looking for scratch folders in {}", warehouse.display());
    for entry in fs::read_dir(warehouse).context(doing)? {
        let entry = entry.context(doing)?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        match folder.try_lock() {
            // Another load may be removing it as well.
            Ok(()) => match fs::remove_dir_all(entry.path()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::io(doing(), error)),
                _ => {}
            },
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(Error::io(doing(), error)),
        }
    }
    Ok(())
}

/// Writes one file of rows.
pub(crate) struct SpillWriter<'a> {
    scratch: &'a Scratch,
    path: PathBuf,
    writer: FileWriter<BufWriter<File>>,
    batch_rows: Vec<usize>,
    batch_bytes_max: u64,
}

impl SpillWriter<'_> {
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.batch_rows.push(batch.num_rows());
        self.batch_bytes_max = self.batch_bytes_max.max(crate::budget::batch_bytes(batch));
        self.writer.write(batch).map_err(|error| write_error(&self.path, error))
    }

    /// Ends the file; it can be read from now on.
    pub(crate) fn finish(mut self) -> Result<SpillFile> {
        self.writer.finish().map_err(|error| write_error(&self.path, error))?;
        let file_bytes =
            fs::metadata(&self.path).context(|| format!("reading {}", self.path.display()))?.len();
        self.scratch.spilled_bytes.fetch_add(file_bytes, Ordering::Relaxed);
        let Self { path, batch_rows, batch_bytes_max, .. } = self;
        Ok(SpillFile { path, batch_rows, batch_bytes_max })
    }
}

/// A finished file of rows; removed on drop.
#[derive(Debug)]
pub(crate) struct SpillFile {
    path: PathBuf,
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
        let file =
            File::open(&self.path).context(|| format!("opening scratch file {}", self.path.display()))?;
        let reader =
            FileReader::try_new_buffered(file, None).map_err(|error| read_error(&self.path, error))?;
        Ok(SpillReader { path: self.path.clone(), reader })
    }
}

/// The part of `batch`, whose first row is row `start`, that lies in `range`.
pub(crate) fn overlap(batch: &RecordBatch, start: u64, range: &Range<u64>) -> Option<RecordBatch> {
    let end = start + batch.num_rows() as u64;
    let (first, last) = (range.start.max(start), range.end.min(end));
    (first < last).then(|| batch.slice((first - start) as usize, (last - first) as usize))
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads a file of rows in order or at chosen batches.
pub(crate) struct SpillReader {
    path: PathBuf,
    reader: FileReader<std::io::BufReader<File>>,
}

impl SpillReader {
    /// Makes batch `index` the next one.
    pub(crate) fn seek(&mut self, index: usize) -> Result<()> {
        self.reader.set_index(index).map_err(|error| read_error(&self.path, error))
    }
}

impl Iterator for SpillReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.reader.next()?.map_err(|error| read_error(&self.path, error)))
    }
}

fn write_error(path: &Path, error: ArrowError) -> Error {
    let doing = format!("writing scratch file {}", path.display());
    match error {
        ArrowError::IoError(_, source) if is_full(&source) => Error::io(
            format!(
                "the disk is full: {doing}; free some space, raise the memory limit or use a warehouse elsewhere"
            ),
            source,
        ),
        ArrowError::IoError(_, source) => Error::io(doing, source),
        other => Error::new(pelton_error::ErrorKind::Io, doing).with_source(other),
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

fn read_error(path: &Path, error: ArrowError) -> Error {
    Error::corrupt(format!("reading back scratch file {}", path.display())).with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn batch(first: i64) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 10));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn batches_come_back_and_the_folder_goes() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(dir.path()).unwrap();
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
        drop((file, scratch));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_folders_nobody_holds_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let living = Folder::create(dir.path()).unwrap();
        fs::create_dir(dir.path().join(".scratch-1-0")).unwrap();
        fs::write(dir.path().join(".scratch-1-0/0.arrow"), b"left by a kill").unwrap();
        Scratch::new(dir.path()).unwrap();
        assert!(living.path.exists());
        assert!(!dir.path().join(".scratch-1-0").exists());
    }
}
