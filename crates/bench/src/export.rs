//! A data set as Parquet files: `OUT/<table>/part-00000.parquet`, written by several threads.
//!
//! Parts concatenate to the same rows however many there are. A file appears under its name only when it
//! is complete; a run that is cancelled or fails leaves no half file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use pelton_datagen::{Dataset, TableSpec};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_load::CancelFlag;

/// Rows of a Parquet row group: the same as Pelton's default, so that both can skip equally finely.
pub const ROW_GROUP_ROWS: usize = 131_072;

/// Rows below which one file is enough.
const PART_ROWS_MIN: u64 = 500_000;

/// What to write.
#[derive(Debug, Clone)]
pub struct Export {
    /// The data set.
    pub dataset: Dataset,
    /// Its scale factor.
    pub scale: f64,
    /// The same seed gives the same rows.
    pub seed: u64,
    /// Compression of all columns.
    pub compression: Compression,
    /// Threads, and the most parts that a table is cut into.
    pub threads: usize,
}

/// A written table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Its name.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Export {
    /// Writes `table` below `out`; `rows_written` is added to as rows go out.
    pub fn write_table(
        &self,
        table: &TableSpec,
        out: &Path,
        rows_written: &AtomicU64,
        cancel: &CancelFlag,
    ) -> Result<Exported> {
        let directory = out.join(table.name);
        std::fs::create_dir_all(&directory).context(|| format!("creating '{}'", directory.display()))?;
        let part_count = (table.row_count / PART_ROWS_MIN).clamp(1, self.threads.max(1) as u64) as u32;
        let parts: Vec<Result<u64>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..part_count)
                .map(|part| {
                    let path = directory.join(format!("part-{part:05}.parquet"));
                    scope.spawn(move || self.write_part(table, part, part_count, &path, rows_written, cancel))
                })
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("a generator does not panic")).collect()
        });
        let mut bytes = 0;
        for part in parts {
            bytes += part?;
        }
        Ok(Exported { table: table.name.to_owned(), rows: table.row_count, bytes })
    }

    fn write_part(
        &self,
        table: &TableSpec,
        part: u32,
        part_count: u32,
        path: &Path,
        rows_written: &AtomicU64,
        cancel: &CancelFlag,
    ) -> Result<u64> {
        let batches =
            pelton_datagen::batches(self.dataset, table.name, self.scale, part, part_count, self.seed)?;
        let counted = batches.map(|batch| {
            cancel.check()?;
            rows_written.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            Ok(batch)
        });
        write_parquet(path, &table.schema, self.compression, counted)
    }
}

/// Writes `batches` as one Parquet file; returns its bytes.
pub fn write_parquet(
    path: &Path,
    schema: &SchemaRef,
    compression: Compression,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<u64> {
    let unfinished = Unfinished(path.with_extension("part"));
    let written = write_unfinished(&unfinished.0, schema, compression, batches)
        .context(|| format!("writing '{}'", path.display()))?;
    std::fs::rename(&unfinished.0, path).context(|| format!("renaming to '{}'", path.display()))?;
    Ok(written)
}

/// A file that is removed unless it was renamed.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write_unfinished(
    path: &Path,
    schema: &SchemaRef,
    compression: Compression,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<u64> {
    let file = File::create(path).context(|| "creating it".into())?;
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let parquet_error = |error| Error::new(ErrorKind::Io, "encoding Parquet").with_source(error);
    let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).map_err(parquet_error)?;
    for batch in batches {
        writer.write(&batch?).map_err(parquet_error)?;
    }
    writer.finish().map_err(parquet_error)?;
    Ok(std::fs::metadata(path).context(|| "measuring it".into())?.len())
}
