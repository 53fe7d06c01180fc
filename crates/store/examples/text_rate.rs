//! How small texts are under each encoding, and how fast they are scanned: `cargo run --release -p pelton-store --example
//! text_rate DIR FILE…`, each file a column, a text a line. Prints a row of a Markdown table for each column and way of storing
//! it. A scan reads all chunks from the page cache, checks them and decodes them to Arrow, on one core; the least of some.

use std::sync::Arc;
use std::time::Instant;

use pelton_chunk::{ByteValues, Codec, Column, Values};
use pelton_error::{Error, Result, ResultExt};
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_store::{
    ColumnSchema, LogicalType, Objective, Sample, SampleOptions, Table, TablePlan, TableSchema, TableWriter,
    Warehouse, WriteMode, WriteOptions, choose, column_to_arrow, encode_row_group, read_chunk,
};

const ROWS: usize = 128 * 1024;
const SCANS: usize = 7;
/// Row groups that `choose` looks at.
const SAMPLED: usize = 2;

/// The name of a way, and what it chooses among.
fn ways() -> Result<Vec<(&'static str, SampleOptions)>> {
    let forced = |encoding: &str, codec: Codec| -> Result<SampleOptions> {
        let (force_encoding, force_codec) = (Some(encoding.parse()?), Some(codec));
        Ok(SampleOptions { force_encoding, force_codec, ..SampleOptions::default() })
    };
    let fastest = |storage_bytes_per_s| SampleOptions {
        objective: Objective::Fastest { storage_bytes_per_s },
        ..SampleOptions::default()
    };
    Ok(vec![
        ("plain", forced("plain", Codec::None)?),
        ("symbols", forced("fsst+plain", Codec::None)?),
        ("LZ4", forced("plain", Codec::Lz4)?),
        ("Zstd", forced("plain", Codec::Zstd)?),
        ("symbols, Zstd", forced("fsst+plain", Codec::Zstd)?),
        ("`auto`", fastest(1_000_000_000)),
        ("`gpu`", SampleOptions { codecs: vec![Codec::None], ..SampleOptions::default() }),
        ("`cpu`", fastest(10_000_000_000)),
        ("`archive`", SampleOptions::default()),
    ])
}

fn schema() -> TableSchema {
    let text = ColumnSchema { name: "text".into(), logical: LogicalType::Utf8, nullable: true };
    TableSchema::new(vec![text]).expect("one column")
}

fn row_groups(lines: &str) -> Result<Vec<Column>> {
    let lines: Vec<&str> = lines.lines().collect();
    let column = |lines: &[&str]| {
        let mut values = ByteValues::default();
        lines.iter().try_for_each(|line| values.push(line.as_bytes()))?;
        Ok(Column::new(Values::Bytes(values)))
    };
    lines.chunks(ROWS).map(column).collect()
}

fn write(warehouse: &Warehouse, row_groups: &[Column], plan: &TablePlan) -> Result<Arc<Table>> {
    let mut writer =
        TableWriter::begin(warehouse, "t", schema(), WriteMode::Replace, WriteOptions::default())?;
    writer.set_plan(plan)?;
    for column in row_groups {
        writer.append(encode_row_group(std::slice::from_ref(column), plan)?)?;
    }
    writer.commit()
}

/// Seconds.
fn scan(engine: &IoEngine, table: &Arc<Table>) -> Result<f64> {
    let started = Instant::now();
    for row_group in 0..table.row_group_count() {
        let bytes = read_chunk(engine, table, row_group, 0)?.wait_blocking()?;
        let decoded = table.chunk_view(row_group, 0, &bytes)?.decode()?;
        std::hint::black_box(column_to_arrow(decoded, &LogicalType::Utf8)?);
    }
    Ok(started.elapsed().as_secs_f64())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or_else(|| Error::invalid_input("usage: text_rate DIR FILE..."))?;
    let warehouse = Warehouse::open_or_create(&dir)?;
    let engine = IoEngine::start(IoOptions { mode: IoMode::Buffered, ..IoOptions::default() })?;
    println!("| column | stored as | encoding | MB | of plain | scan ms | texts GB/s |");
    println!("| --- | --- | --- | ---: | ---: | ---: | ---: |");
    for path in args {
        let lines = std::fs::read_to_string(&path).context(|| format!("reading '{path}'"))?;
        let name = std::path::Path::new(&path).file_stem().unwrap_or_default().to_string_lossy();
        let row_groups = row_groups(&lines)?;
        let raw_bytes: u64 = row_groups.iter().map(|column| column.values.raw_bytes()).sum();
        let step = row_groups.len().div_ceil(SAMPLED);
        let runs = row_groups.iter().step_by(step).map(|column| vec![column.clone()]).collect();
        let sample = Sample { schema: schema(), runs };
        let mut plain_bytes = 0;
        for (way, options) in ways()? {
            let plan = choose(&sample, &options)?;
            let table = write(&warehouse, &row_groups, &plan)?;
            let times = (0..SCANS).map(|_| scan(&engine, &table)).collect::<Result<Vec<f64>>>()?;
            let seconds = times.into_iter().fold(f64::INFINITY, f64::min);
            let stored_bytes = table.column_summary(0).stored_bytes;
            if way == "plain" {
                plain_bytes = stored_bytes;
            }
            println!(
                "| {name} | {way} | {} | {:.1} | {:.2} | {:.0} | {:.2} |",
                plan.columns[0].encoding,
                stored_bytes as f64 / 1e6,
                stored_bytes as f64 / plain_bytes.max(1) as f64,
                seconds * 1e3,
                raw_bytes as f64 / seconds / 1e9
            );
        }
    }
    warehouse.drop_table("t")
}
