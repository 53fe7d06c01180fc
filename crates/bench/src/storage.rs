//! `pelton bench storage`: bytes of Pelton tables beside the same rows as Parquet with Snappy and with Zstd.

use std::path::Path;
use std::sync::atomic::AtomicU64;

use parquet::basic::{Compression, ZstdLevel};
use pelton_engine::bytes_text;
use pelton_error::Result;
use pelton_load::CancelFlag;
use pelton_store::{ColumnSummary, Warehouse};
use serde::Serialize;

use crate::export::Export;
use crate::results::TextTable;
use crate::workload::Workload;

/// One table's bytes.
#[derive(Debug, Clone, Serialize)]
pub struct StorageResult {
    /// The data set and scale, `ssb-sf1`.
    pub workload: String,
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Uncompressed bytes.
    pub raw_bytes: u64,
    /// Bytes of chunks.
    pub pelton_bytes: u64,
    /// Bytes of zone maps and sketches, sideways ones included.
    pub pelton_metadata_bytes: u64,
    /// Files of Parquet with Snappy.
    pub parquet_snappy_bytes: u64,
    /// Files of Parquet with Zstd level 1.
    pub parquet_zstd_bytes: u64,
}

/// Makes the tables and both kinds of Parquet files, and measures them.
pub fn run(workload: &Workload, cancel: &CancelFlag, say: &dyn Fn(&str)) -> Result<Vec<StorageResult>> {
    let prepared = workload.prepare(cancel, say)?;
    let warehouse = Warehouse::open(&prepared.warehouse)?;
    let scratch = workload.root().join("parquet-zstd");
    let mut results = Vec::new();
    for spec in pelton_datagen::tables(workload.dataset, workload.scale)? {
        let table = warehouse.table(spec.name)?;
        let sum = |figure: fn(&ColumnSummary) -> u64| {
            (0..table.schema().columns.len()).map(|column| figure(table.column_summary(column))).sum::<u64>()
        };
        let zstd = Export {
            dataset: workload.dataset,
            scale: workload.scale,
            seed: workload.seed,
            compression: Compression::ZSTD(ZstdLevel::default()),
            threads: workload.threads,
        };
        let zstd = zstd.write_table(&spec, &scratch, &AtomicU64::new(0), cancel)?;
        say(&format!("measured {}", spec.name));
        let metadata_bytes = directory_bytes(table.dir())?.saturating_sub(data_bytes(table.dir())?);
        results.push(StorageResult {
            workload: format!("{}-sf{}", workload.dataset, workload.scale),
            table: spec.name.to_owned(),
            rows: table.row_count(),
            raw_bytes: sum(|summary| summary.raw_bytes),
            pelton_bytes: data_bytes(table.dir())?,
            pelton_metadata_bytes: metadata_bytes,
            parquet_snappy_bytes: directory_bytes(&workload.root().join("parquet").join(spec.name))?,
            parquet_zstd_bytes: zstd.bytes,
        });
    }
    Ok(results)
}

/// The bytes as a table, with a line of totals.
pub fn table(results: &[StorageResult]) -> TextTable {
    let mut table = TextTable::new(&[
        "table",
        "rows",
        "raw",
        "Pelton",
        "metadata",
        "Parquet Snappy",
        "Parquet Zstd",
        "of Snappy",
        "of Zstd",
    ]);
    let row = |name: &str, rows: u64, bytes: [u64; 5]| {
        let [raw, pelton, metadata, snappy, zstd] = bytes;
        let share = |of: u64| format!("{:.2}", (pelton + metadata) as f64 / of.max(1) as f64);
        let mut cells = vec![name.to_owned(), rows.to_string()];
        cells.extend([raw, pelton, metadata, snappy, zstd].map(bytes_text));
        cells.extend([share(snappy), share(zstd)]);
        cells
    };
    let mut total = (0, [0; 5]);
    for result in results {
        let bytes = [
            result.raw_bytes,
            result.pelton_bytes,
            result.pelton_metadata_bytes,
            result.parquet_snappy_bytes,
            result.parquet_zstd_bytes,
        ];
        table.push(row(&result.table, result.rows, bytes));
        total.0 += result.rows;
        total.1.iter_mut().zip(bytes).for_each(|(sum, value)| *sum += value);
    }
    table.push(row("total", total.0, total.1));
    table
}

/// Bytes of all files of a table that hold chunks.
fn data_bytes(directory: &Path) -> Result<u64> {
    files_bytes(directory, |name| name.starts_with("data-"))
}

fn directory_bytes(directory: &Path) -> Result<u64> {
    files_bytes(directory, |_| true)
}

fn files_bytes(directory: &Path, counts: impl Fn(&str) -> bool) -> Result<u64> {
    use pelton_error::ResultExt;
    let listing = || format!("listing '{}'", directory.display());
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).context(listing)? {
        let entry = entry.context(listing)?;
        if counts(&entry.file_name().to_string_lossy()) {
            bytes += entry.metadata().context(listing)?.len();
        }
    }
    Ok(bytes)
}
