//! Measures the load rate: `cargo run --release -p pelton-load --example load_rate [ROWS]`.
//!
//! Loads rows like those of an order table from a generator, CSV and Parquet, and sorted, and prints MB of
//! uncompressed rows a second, by the clock and by processor time.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use pelton_error::Result;
use pelton_load::{CancelFlag, ClusterBy, LoadReport, LoadRequest, NoProgress, load, load_batches};
use pelton_store::{Warehouse, WriteMode};

fn batch(first: i64) -> RecordBatch {
    let rows = || first..first + 8192;
    let mixed = |n: i64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) as u64 >> 20;
    let ints = |modulus: u64| {
        Arc::new(Int32Array::from_iter_values(rows().map(|n| (mixed(n) % modulus) as i32))) as ArrayRef
    };
    let modes = ["AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "REG AIR"];
    let texts = rows().map(|n| modes[(mixed(n) % 7) as usize]);
    RecordBatch::try_from_iter([
        ("order", Arc::new(Int64Array::from_iter_values(rows().map(|n| n / 4))) as ArrayRef),
        ("customer", ints(30_000)),
        ("part", ints(200_000)),
        ("date", Arc::new(Date32Array::from_iter_values(rows().map(|n| 8000 + (mixed(n) % 2400) as i32)))),
        ("quantity", ints(50)),
        ("price", ints(10_000_000)),
        ("discount", ints(11)),
        ("mode", Arc::new(StringArray::from_iter_values(texts)) as ArrayRef),
    ])
    .expect("columns of one length")
}

/// Processor time of all threads so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|text| text.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Runs a load and prints its rates: by the clock, and by the processor time of all threads.
fn measure(name: &str, load: impl FnOnce() -> Result<LoadReport>) -> Result<()> {
    let (started, cpu_before) = (Instant::now(), cpu_seconds());
    let report = load()?;
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let raw = report.raw_bytes as f64 / 1e6;
    println!("{name:<10} {:>5.0} MB/s, {:>5.0} MB/s a core  {:?}", raw / seconds, raw / cpu, report.phases);
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let row_count: i64 = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    let dir = std::env::temp_dir().join(format!("pelton-load-rate-{}", std::process::id()));
    let warehouse = Warehouse::open_or_create(&dir)?;
    let batches: Vec<RecordBatch> = (0..row_count / 8192).map(|index| batch(index * 8192)).collect();
    let schema = batches[0].schema();
    let csv = dir.join("rows.csv");
    let mut writer = arrow::csv::Writer::new(std::fs::File::create(&csv)?);
    let parquet = dir.join("rows.parquet");
    let mut columns =
        parquet::arrow::ArrowWriter::try_new(std::fs::File::create(&parquet)?, schema.clone(), None)?;
    for batch in &batches {
        writer.write(batch)?;
        columns.write(batch)?;
    }
    drop(writer);
    columns.close()?;

    let request = |inputs: Vec<String>| LoadRequest::new("rows", WriteMode::Replace, inputs);
    let (progress, cancel) = (NoProgress, CancelFlag::new());
    for cluster_by in [ClusterBy::None, ClusterBy::Columns(vec!["date".into(), "discount".into()])] {
        println!("{cluster_by:?}");
        let mut generator = request(vec![]);
        generator.cluster_by = cluster_by.clone();
        let rows = Box::new(batches.clone().into_iter().map(Ok));
        measure("generator", || load_batches(&warehouse, &generator, &schema, rows, &progress, &cancel))?;
        for path in [&csv, &parquet] {
            let mut files = request(vec![path.display().to_string()]);
            files.cluster_by = cluster_by.clone();
            let name = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            measure(&name, || load(&warehouse, &files, &progress, &cancel))?;
        }
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
