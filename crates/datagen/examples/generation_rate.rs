//! Measures how fast one thread makes each table: `cargo run --release -p pelton-datagen --example
//! generation_rate [ssb|tpch|taxi|hits] [SCALE]`.

use std::time::Instant;

use pelton_datagen::{Dataset, batches, tables};
use pelton_error::{Error, Result};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dataset: Dataset = arguments.next().as_deref().unwrap_or("ssb").parse()?;
    let scale = arguments.next().unwrap_or_else(|| "0.1".into());
    let scale = scale.parse().map_err(|_| Error::invalid_input(format!("'{scale}' is not a scale")))?;
    println!("{:<12} {:>12} {:>10} {:>14} {:>10}", "table", "rows", "seconds", "rows/s", "MB/s");
    for spec in tables(dataset, scale)? {
        let start = Instant::now();
        let mut bytes = 0;
        for batch in batches(dataset, spec.name, scale, 0, 1, 1)? {
            bytes += batch.get_array_memory_size();
        }
        let seconds = start.elapsed().as_secs_f64();
        let rows_per_s = spec.row_count as f64 / seconds;
        let megabytes_per_s = bytes as f64 / 1e6 / seconds;
        let (name, rows) = (spec.name, spec.row_count);
        println!("{name:<12} {rows:>12} {seconds:>10.3} {rows_per_s:>14.0} {megabytes_per_s:>10.0}");
    }
    Ok(())
}
