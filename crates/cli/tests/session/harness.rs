//! A warehouse with one table of every type, and queries on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::Result;
use pelton_load::{CancelFlag, LoadOptions, LoadRequest, NoProgress, load_batches};
use pelton_store::{SampleOptions, Table, Warehouse, WriteMode};
use tempfile::TempDir;

/// A directory in memory, where there is one: nothing here is about disks, which take long to sync.
pub(crate) fn scratch() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) }
}

/// A warehouse that goes at the end.
pub(crate) struct Place {
    directory: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir_in(scratch()).unwrap() }
    }

    /// Loads `rows` as table `name` in row groups of `row_group_rows`.
    pub(crate) fn load(&self, name: &str, rows: &RecordBatch, mode: WriteMode, row_group_rows: u32) {
        let row_group_rows = vec![row_group_rows];
        self.load_as(name, rows, mode, SampleOptions { row_group_rows, ..SampleOptions::default() });
    }

    /// Loads `rows` as table `name`, with encodings chosen as `choose` says.
    pub(crate) fn load_as(&self, name: &str, rows: &RecordBatch, mode: WriteMode, choose: SampleOptions) {
        let warehouse = Warehouse::open_or_create(self.directory.path()).unwrap();
        let choose = SampleOptions { page_rows: 1024, ..choose };
        let request = LoadRequest {
            options: LoadOptions { choose, ..LoadOptions::default() },
            ..LoadRequest::new(name, mode, Vec::new())
        };
        let batches = Box::new(vec![Ok(rows.clone())].into_iter());
        load_batches(&warehouse, &request, &rows.schema(), batches, &NoProgress, &CancelFlag::new()).unwrap();
    }

    pub(crate) fn session(&self, options: &SessionOptions) -> PeltonSession {
        PeltonSession::open(Some(self.directory.path().to_owned()), options).unwrap()
    }

    /// Table `name`.
    pub(crate) fn table(&self, name: &str) -> Arc<Table> {
        Warehouse::open(self.directory.path()).unwrap().table(name).unwrap()
    }

    /// The files of table `name` that hold its state, in order of their names.
    pub(crate) fn files(&self, name: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path().join(name)).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| !path.ends_with("lock"));
        files.sort();
        files
    }

    /// The file of table `name` whose name starts with `prefix`.
    pub(crate) fn file(&self, name: &str, prefix: &str) -> PathBuf {
        let starts = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        self.files(name).into_iter().find(starts).unwrap()
    }
}

/// Two threads on any machine.
pub(crate) fn options() -> SessionOptions {
    SessionOptions { threads: Some(2), ..SessionOptions::default() }
}

/// The answer to `sql`, drawn.
pub(crate) async fn answer(session: &PeltonSession, sql: &str) -> Result<String> {
    let batches = session.query(sql).await?.collect().await?;
    let batches: Vec<RecordBatch> = batches.into_iter().filter(|batch| batch.num_rows() > 0).collect();
    Ok(pretty_format_batches(&batches).unwrap().to_string())
}

/// Writes `bytes` over the file, in place.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
