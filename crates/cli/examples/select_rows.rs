//! The time of a query, from its text to all of its rows in memory: what `tests/perf/python.py` is held against.
//!
//! ```text
//! cargo run --release --example select_rows -- WAREHOUSE RUNS 'SELECT …'
//! ```

use std::time::Instant;

use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::{Error, Result, ResultExt};

/// As the command and the Python package have it.
#[global_allocator]
static ALLOCATOR: pelton_limits::Heap = pelton_limits::Heap;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [warehouse, runs, sql] = args.as_slice() else {
        return Err(Error::invalid_input("arguments: WAREHOUSE RUNS SQL"));
    };
    let runs: usize =
        runs.parse().map_err(|_| Error::invalid_input(format!("'{runs}' is no number of runs")))?;
    let session = PeltonSession::open(Some(warehouse.into()), &SessionOptions::default())?;
    let runtime = tokio::runtime::Runtime::new().context(|| "starting the thread pool".into())?;
    let mut milliseconds = Vec::with_capacity(runs);
    for _ in 0..runs {
        let started = Instant::now();
        let batches = runtime.block_on(async { session.query(sql).await?.collect().await })?;
        milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
        println!(
            "{} rows in {} batches",
            batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
            batches.len()
        );
    }
    milliseconds.sort_by(f64::total_cmp);
    println!("median {:.1} ms, least {:.1} ms", milliseconds[runs / 2], milliseconds[0]);
    Ok(())
}
