//! How fast a table is chosen for, written and scanned on this machine: `cargo run --release -p pelton-store
//! --example scan_rate [DIR]`. Prints one line a step; rates are of uncompressed bytes unless they say stored.

use std::sync::Arc;
use std::time::Instant;

use pelton_chunk::{ByteValues, Column, Values};
use pelton_error::Result;
use pelton_io::{IoEngine, IoMode, IoOptions};
use pelton_store::{
    ColumnSchema, LogicalType, Objective, Sample, SampleOptions, Table, TableSchema, TableWriter, Warehouse,
    WriteMode, WriteOptions, choose, column_to_arrow, encode_row_group, read_chunk,
};

const ROW_GROUPS: u64 = 16;
const ROWS: u64 = 128 * 1024;

/// A mixing step of SplitMix64.
fn noise(index: u64) -> u64 {
    let mut mixed = index.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 27;
    mixed.wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 31)
}

fn texts(text: impl Fn(u64) -> String, rows: std::ops::Range<u64>) -> Column {
    let mut values = ByteValues::default();
    rows.for_each(|row| values.push(text(row).as_bytes()).expect("the texts are short"));
    Column::new(Values::Bytes(values))
}

fn comment(row: u64) -> String {
    const WORDS: [&str; 8] =
        ["quickly", "final", "deposits", "haggle", "express", "furiously", "accounts", "among"];
    (0..4).map(|word| WORDS[(noise(row * 8 + word) % 8) as usize]).collect::<Vec<_>>().join(" ")
}

fn schema() -> TableSchema {
    let price = LogicalType::Decimal { precision: 15, scale: 2 };
    let columns = [
        ("key", LogicalType::Int64),
        ("customer", LogicalType::Int32),
        ("price", price),
        ("discount", LogicalType::Float64),
        ("date", LogicalType::Date),
        ("mode", LogicalType::Utf8),
        ("comment", LogicalType::Utf8),
    ];
    let columns = columns.map(|(name, logical)| ColumnSchema { name: name.into(), logical, nullable: true });
    TableSchema::new(columns.to_vec()).expect("the names differ")
}

fn row_group(index: u64) -> Vec<Column> {
    let rows = index * ROWS..(index + 1) * ROWS;
    vec![
        Column::new(Values::I64(rows.clone().map(|row| (row / 4) as i64).collect())),
        Column::new(Values::I32(rows.clone().map(|row| (noise(row) % 30_000) as i32).collect())),
        Column::new(Values::I64(rows.clone().map(|row| (noise(row) % 10_000_000) as i64).collect())),
        Column::new(Values::F64(rows.clone().map(|row| (noise(row) % 11) as f64 / 100.0).collect())),
        Column::new(Values::I32(rows.clone().map(|row| 8000 + (noise(row) % 2500) as i32).collect())),
        texts(|row| ["AIR", "RAIL", "SHIP", "TRUCK"][(noise(row) % 4) as usize].into(), rows.clone()),
        texts(comment, rows),
    ]
}

fn report(what: &str, started: Instant, bytes: u64) {
    let seconds = started.elapsed().as_secs_f64();
    println!("{what:<52} {:>8.1} ms  {:>7.2} GB/s", seconds * 1e3, bytes as f64 / seconds / 1e9);
}

/// Reads every chunk of `columns` with a row group of read-ahead, and decodes to Arrow if asked.
fn scan(engine: &IoEngine, table: &Arc<Table>, columns: &[usize], decode: bool) -> Result<()> {
    let start = |row_group| {
        columns
            .iter()
            .map(move |&column| read_chunk(engine, table, row_group, column))
            .collect::<Result<Vec<_>>>()
    };
    let mut ahead = start(0)?;
    for row_group in 0..table.row_group_count() {
        let next = if row_group + 1 < table.row_group_count() { start(row_group + 1)? } else { Vec::new() };
        for (chunk, &column) in std::mem::replace(&mut ahead, next).into_iter().zip(columns) {
            let bytes = chunk.wait_blocking()?;
            if decode {
                let decoded = table.chunk_view(row_group, column, &bytes)?.decode()?;
                std::hint::black_box(column_to_arrow(decoded, &table.schema().columns[column].logical)?);
            }
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "scan_rate.warehouse".into());
    let warehouse = Warehouse::open_or_create(&dir)?;
    let row_groups: Vec<Vec<Column>> = (0..ROW_GROUPS).map(row_group).collect();
    let raw_bytes: u64 = row_groups.iter().flatten().map(|column| column.values.raw_bytes()).sum();

    for objective in [Objective::Smallest, Objective::Fastest { storage_bytes_per_s: 1 << 30 }] {
        let sample = Sample { schema: schema(), runs: row_groups[..2].to_vec() };
        let started = Instant::now();
        let plan = choose(&sample, &SampleOptions { objective, ..SampleOptions::default() })?;
        report(&format!("{objective:?}: choose"), started, 0);
        for choice in &plan.columns {
            let best = &choice.candidates[0];
            let rate = best.decode_bytes_per_s as f64 / 1e9;
            println!(
                "  {:<10} {:<16} {:>6.2}x {rate:>7.2} GB/s",
                choice.column,
                choice.encoding,
                choice.ratio(best)
            );
        }
        let started = Instant::now();
        let mut writer =
            TableWriter::begin(&warehouse, "t", schema(), WriteMode::Replace, WriteOptions::default())?;
        writer.set_plan(&plan)?;
        for columns in &row_groups {
            writer.append(encode_row_group(columns, &plan)?)?;
        }
        report("encode and append, one core", started, raw_bytes);
        let started = Instant::now();
        let table = writer.commit()?;
        report("commit (fsync; stored bytes)", started, table.stored_bytes());

        let all: Vec<usize> = (0..schema().columns.len()).collect();
        for (mode, ring) in [(IoMode::Direct, true), (IoMode::Direct, false), (IoMode::Buffered, true)] {
            let engine = IoEngine::start(IoOptions { mode, ring, ..IoOptions::default() })?;
            scan(&engine, &table, &all, false)?;
            let started = Instant::now();
            scan(&engine, &table, &all, false)?;
            report(
                &format!("read and verify, {mode:?}, ring {ring} (stored bytes)"),
                started,
                table.stored_bytes(),
            );
        }
        let engine = IoEngine::start(IoOptions::default())?;
        for column in all {
            let started = Instant::now();
            scan(&engine, &table, &[column], true)?;
            let name = &schema().columns[column].name;
            report(
                &format!("scan of '{name}' to Arrow, one core"),
                started,
                table.column_summary(column).raw_bytes,
            );
        }
    }
    warehouse.drop_table("t")
}
