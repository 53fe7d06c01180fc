//! `pelton generate`: a benchmark data set as Parquet files.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parquet::basic::{Compression, ZstdLevel};
use pelton_bench::export::Export;
use pelton_datagen::{Dataset, TableSpec, hits_scale};
use pelton_engine::{bytes_text, counted};
use pelton_error::{Error, Result};

use crate::args::{CompressionArg, DatasetArg, GenerateArgs, SizeArgs};
use crate::progress::row_bar;
use crate::{cancel, console};

/// Rows of hits where nobody says; the real table has a hundred times as many.
const HITS_ROWS: u64 = 1_000_000;
/// What its smallest scale gives.
const HITS_ROWS_MIN: u64 = 1_000;

pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    let dataset = dataset(args.dataset);
    let export = Export {
        dataset,
        scale: scale(dataset, args.size)?,
        seed: args.seed,
        compression: match args.compression {
            CompressionArg::None => Compression::UNCOMPRESSED,
            CompressionArg::Snappy => Compression::SNAPPY,
            CompressionArg::Zstd => Compression::ZSTD(ZstdLevel::default()),
        },
        threads: args.threads.unwrap_or_else(core_count),
    };
    let cancel = cancel::flag_on_ctrl_c()?;
    for table in wanted_tables(args, &export)? {
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

fn wanted_tables(args: &GenerateArgs, export: &Export) -> Result<Vec<TableSpec>> {
    let dataset = export.dataset;
    let tables = pelton_datagen::tables(dataset, export.scale)?;
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
        DatasetArg::Hits => Dataset::Hits,
    }
}

/// The scale that `size` asks for.
pub(crate) fn scale(dataset: Dataset, size: SizeArgs) -> Result<f64> {
    match (size.scale, size.rows, dataset) {
        (_, Some(rows), Dataset::Hits) if rows < HITS_ROWS_MIN => {
            Err(Error::invalid_input(format!("--rows {rows} is too few; hits has at least {HITS_ROWS_MIN}")))
        }
        (_, Some(rows), Dataset::Hits) => Ok(hits_scale(rows)),
        (_, Some(_), _) => Err(Error::invalid_input(format!("--rows is for hits; give {dataset} a --scale"))),
        (Some(scale), None, _) => Ok(scale),
        (None, None, Dataset::Hits) => Ok(hits_scale(HITS_ROWS)),
        (None, None, _) => Ok(1.0),
    }
}

pub(crate) fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(scale: Option<f64>, rows: Option<u64>) -> SizeArgs {
        SizeArgs { scale, rows }
    }

    #[test]
    fn hits_takes_rows_and_the_others_a_scale() {
        let rows_of_hits = |size| {
            let scale = scale(Dataset::Hits, size).unwrap();
            pelton_datagen::tables(Dataset::Hits, scale).unwrap()[0].row_count
        };
        assert_eq!(rows_of_hits(size(None, Some(12_345))), 12_345);
        assert_eq!(rows_of_hits(size(None, None)), HITS_ROWS);
        assert_eq!(rows_of_hits(size(Some(0.001), None)), 100_000);
        assert_eq!(scale(Dataset::Taxi, size(None, None)).unwrap(), 1.0);
        let error = scale(Dataset::Taxi, size(None, Some(5))).unwrap_err();
        assert_eq!(error.to_string(), "--rows is for hits; give taxi a --scale");
    }

    #[test]
    fn the_fewest_rows_are_those_of_the_smallest_scale() {
        let smallest = scale(Dataset::Hits, size(None, Some(HITS_ROWS_MIN))).unwrap();
        assert!(pelton_datagen::tables(Dataset::Hits, smallest).is_ok());
        let error = scale(Dataset::Hits, size(None, Some(HITS_ROWS_MIN - 1))).unwrap_err();
        assert_eq!(error.to_string(), "--rows 999 is too few; hits has at least 1000");
    }
}
