//! `pelton generate`: a benchmark data set as Parquet files.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parquet::basic::{Compression, ZstdLevel};
use pelton_bench::export::Export;
use pelton_datagen::{Dataset, TableSpec};
use pelton_engine::{bytes_text, counted};
use pelton_error::{Error, Result};

use crate::args::{CompressionArg, DatasetArg, GenerateArgs};
use crate::progress::row_bar;
use crate::{cancel, console};

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    let export = Export {
        dataset: dataset(args.dataset),
        scale: args.scale,
        seed: args.seed,
        compression: match args.compression {
            CompressionArg::None => Compression::UNCOMPRESSED,
            CompressionArg::Snappy => Compression::SNAPPY,
            CompressionArg::Zstd => Compression::ZSTD(ZstdLevel::default()),
        },
        threads: args.threads.unwrap_or_else(core_count),
    };
    let cancel = cancel::flag_on_ctrl_c()?;
    for table in wanted_tables(args, export.dataset)? {
        let started = Instant::now();
        let rows_written = AtomicU64::new(0);
        let bar = row_bar(table.row_count, format!("generating {}", table.name), args.quiet);
        let written = std::thread::scope(|scope| {
            let worker = scope.spawn(|| export.write_table(&table, &args.out, &rows_written, &cancel));
            while !worker.is_finished() {
                bar.set_position(rows_written.load(Ordering::Relaxed));
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            worker.join().expect("a generator does not panic")
        })?;
        bar.finish_and_clear();
        if !args.quiet {
            let seconds = started.elapsed().as_secs_f64();
            console::say(format_args!(
                "{}: {}, {} in {seconds:.2} s",
                written.table,
                counted(written.rows, "row"),
                bytes_text(written.bytes)
            ));
        }
    }
    Ok(())
}

fn wanted_tables(args: &GenerateArgs, dataset: Dataset) -> Result<Vec<TableSpec>> {
    let tables = pelton_datagen::tables(dataset, args.scale)?;
    for name in &args.tables {
        if !tables.iter().any(|table| table.name == name) {
            let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
            return Err(Error::invalid_input(format!(
                "{dataset} has no table '{name}'; it has {}",
                names.join(", ")
            )));
        }
    }
    let is_wanted =
        |table: &TableSpec| args.tables.is_empty() || args.tables.iter().any(|name| name == table.name);
    Ok(tables.into_iter().filter(is_wanted).collect())
}

pub(crate) fn dataset(arg: DatasetArg) -> Dataset {
    match arg {
        DatasetArg::Ssb => Dataset::Ssb,
        DatasetArg::Tpch => Dataset::Tpch,
        DatasetArg::Taxi => Dataset::Taxi,
    }
}

pub(crate) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
