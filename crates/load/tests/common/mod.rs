//! What the tests of loading share: a warehouse in a temporary folder, small loads, reading tables back.
#![allow(dead_code, unreachable_pub)] // each test file uses some of it

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::util::display::array_value_to_string;
use pelton_error::Result;
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_load::{CancelFlag, LoadReport, LoadRequest, NoProgress, load, load_batches};
use pelton_store::{Table, Warehouse, WriteMode, column_to_arrow, read_chunk};
use tempfile::TempDir;

/// A warehouse and a folder for input files.
pub struct World {
    pub dir: TempDir,
    pub warehouse: Warehouse,
}

impl World {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        let warehouse = Warehouse::open_or_create(dir.path().join("warehouse")).unwrap();
        Self { dir, warehouse }
    }

    /// The path of input file `name`.
    pub fn input(&self, name: &str) -> PathBuf {
        self.dir.path().join("in").join(name)
    }

    /// Writes input file `name`.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.input(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    /// Creates table `t` of `inputs`.
    pub fn load(&self, inputs: &[&str]) -> Result<LoadReport> {
        self.load_as(&request("t", inputs))
    }

    pub fn load_as(&self, request: &LoadRequest) -> Result<LoadReport> {
        load(&self.warehouse, request, &NoProgress, &CancelFlag::new())
    }

    pub fn load_batches(&self, request: &LoadRequest, batches: Vec<RecordBatch>) -> Result<LoadReport> {
        let schema = batches[0].schema();
        let batches = Box::new(batches.into_iter().map(Ok));
        load_batches(&self.warehouse, request, &schema, batches, &NoProgress, &CancelFlag::new())
    }

    /// The message of the error that loading `inputs` gives, with the input folder left out.
    pub fn error(&self, inputs: &[&str]) -> String {
        self.error_as(&request("t", inputs))
    }

    pub fn error_as(&self, request: &LoadRequest) -> String {
        let message = self.load_as(request).unwrap_err().to_string();
        self.assert_nothing_left();
        message.replace(&format!("{}/", self.dir.path().join("in").display()), "")
    }

    pub fn assert_nothing_left(&self) {
        let left: Vec<PathBuf> =
            std::fs::read_dir(self.warehouse.dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// The values of column `name` of table `t`, as text; NULL as `-`.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let table = self.warehouse.table("t").unwrap();
        texts(&column(&table, name))
    }
}

/// A load with small row groups.
pub fn request(table: &str, inputs: &[&str]) -> LoadRequest {
    let inputs = inputs.iter().map(ToString::to_string).collect();
    let mut request = LoadRequest::new(table, WriteMode::Create, inputs);
    request.options.choose.row_group_rows = vec![1000];
    request.options.choose.page_rows = 1024;
    request.options.choose.codecs = vec![pelton_chunk::Codec::None];
    request.options.thread_count = 3;
    request
}

/// All rows of a column.
pub fn column(table: &Arc<Table>, name: &str) -> ArrayRef {
    let options = IoOptions { mode: IoMode::Buffered, ring: false, ..IoOptions::default() };
    let engine = IoEngine::start(options).unwrap();
    let position = table.schema().index_of(name).unwrap();
    let logical = &table.schema().columns[position].logical;
    let mut arrays = vec![arrow::array::new_empty_array(&logical.to_arrow())];
    for row_group in 0..table.row_group_count() {
        let bytes = read_chunk(&engine, table, row_group, position).unwrap().wait_blocking().unwrap();
        let decoded = table.chunk_view(row_group, position, &bytes).unwrap().decode().unwrap();
        arrays.push(column_to_arrow(decoded, logical).unwrap());
    }
    concat(&arrays.iter().map(|array| array.as_ref()).collect::<Vec<&dyn Array>>()).unwrap()
}

/// All rows of `table`, row by row, as text.
pub fn rows(table: &Arc<Table>) -> Vec<Vec<String>> {
    let columns: Vec<Vec<String>> =
        table.schema().columns.iter().map(|schema| texts(&column(table, &schema.name))).collect();
    (0..table.row_count() as usize)
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}

pub fn texts(array: &ArrayRef) -> Vec<String> {
    let text = |row| match array.is_null(row) {
        true => "-".to_string(),
        false => array_value_to_string(array, row).unwrap(),
    };
    (0..array.len()).map(text).collect()
}

/// Writes `batches` as Parquet with row groups of `row_group_rows`.
pub fn write_parquet(path: &Path, batches: &[RecordBatch], row_group_rows: usize) {
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(row_group_rows))
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
}
