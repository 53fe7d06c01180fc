//! What a trace costs: each query with and without one in turn, in one process, in wall time and in processor time.
//!
//! ```text
//! cargo run --release --example trace_cost -- WAREHOUSE DEVICE PAIRS FILE.sql…
//! ```
//!
//! Plans run once, so each run has one of its own, made before its time is taken. Processor time is that of all threads,
//! by Linux's scheduler: other programs on the machine add little to it. Of each kind the median counts.

use std::fs;
use std::time::{Duration, Instant};

use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::{Error, Result, ResultExt};

/// Pairs before those that count.
const WARM_UP: usize = 3;

#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    processor: Duration,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [warehouse, device, pairs, files @ ..] = args.as_slice() else {
        return Err(Error::invalid_input("arguments: WAREHOUSE DEVICE PAIRS FILE.sql…"));
    };
    let pairs: usize =
        pairs.parse().map_err(|_| Error::invalid_input(format!("'{pairs}' is no number of pairs")))?;
    let options = SessionOptions { device: device.parse()?, ..SessionOptions::default() };
    let session = PeltonSession::open(Some(warehouse.into()), &options)?;
    let runtime = tokio::runtime::Runtime::new().context(|| "starting the thread pool".into())?;
    println!("query        processor ms  traced  ratio   wall ms  traced  ratio");
    for file in files {
        let sql = fs::read_to_string(file).context(|| format!("reading {file}"))?;
        let sql = sql.trim().trim_end_matches(';');
        let mut costs = [Vec::new(), Vec::new()];
        for pair in 0..WARM_UP + pairs {
            // Whoever comes second finds caches warm: each does so every other time.
            for is_traced in [pair % 2 == 0, pair % 2 == 1] {
                let cost = runtime.block_on(run(&session, sql, is_traced))?;
                if pair >= WARM_UP {
                    costs[usize::from(is_traced)].push(cost);
                }
            }
        }
        let of = |pick: fn(&Cost) -> Duration| {
            let [plain, traced] = costs.each_ref().map(|costs| median_ms(costs, pick));
            format!("{plain:9.2} {traced:7.2} {:6.3}", traced / plain)
        };
        let name = file.rsplit('/').next().unwrap_or(file);
        println!("{name:12} {}   {}", of(|cost| cost.processor), of(|cost| cost.wall));
    }
    Ok(())
}

async fn run(session: &PeltonSession, sql: &str, is_traced: bool) -> Result<Cost> {
    let query = session.query(sql).await?;
    let query = if is_traced { query.traced() } else { query };
    let (started, processor) = (Instant::now(), processor_time()?);
    query.collect().await?;
    Ok(Cost { wall: started.elapsed(), processor: processor_time()?.saturating_sub(processor) })
}

/// What all threads of this process have used.
fn processor_time() -> Result<Duration> {
    let threads = fs::read_dir("/proc/self/task").context(|| "listing threads".into())?;
    let of_thread = |entry: fs::DirEntry| -> Option<u64> {
        // A thread may have ended since the folder was listed.
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Ok(Duration::from_nanos(threads.flatten().filter_map(of_thread).sum()))
}

fn median_ms(costs: &[Cost], pick: fn(&Cost) -> Duration) -> f64 {
    let mut times: Vec<_> = costs.iter().map(pick).collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
