//! How long each algorithm takes, from the rates of the machine; the least one is chosen.
//!
//! ```text
//!   gpu      link + table cleared + a random access for each row; the kernel hides behind the link or the link behind it
//!   radix    link + 40 bytes of device memory a row and pass, of rows of 16 bytes, + 16 to join
//!   hybrid   (2 - f) times the link, f the share of build rows that stay; never less than gpu
//!   nopa     a random access of the host's memory for each row
//!   pro      passes over the host's memory
//! ```
//!
//! Shares of rates that kernels reach are guesses until docs/perf/join.md measures them.

use std::time::Duration;

use pelton_device::Machine;

use crate::device::{radix_bytes, resident_rows, single_bytes};
use crate::host::TABLE_ROWS_MAX;
use crate::options::{Algorithm, JoinOptions};
use crate::rows::{Rows, Target};

/// Of the rate of device memory, what partitioning and joining reach. A guess.
const RADIX_SHARE: f64 = 0.5;
/// A row of a table that is an array by key, and of a general one with its atomic operation, on a device. Guesses: random
/// accesses are 41 G/s there.
const PERFECT_BUILD_S: f64 = 40e-12;
const GENERAL_BUILD_S: f64 = 100e-12;
/// What the link keeps of its rate where both directions are in use: 101.8 of 2 x 55.5 GB/s.
const DUPLEX_SHARE: f64 = 0.92;
/// A row that a core looks up in memory, and one that it partitions and joins. Guesses.
const HOST_RANDOM_S: f64 = 60e-9;
const HOST_RADIX_S: f64 = 25e-9;
/// To start and to end anything: streams, launches, waits. A guess.
const FIXED_S: f64 = 200e-6;

/// Why an algorithm cannot do a join, or how long it takes.
pub(crate) fn predict(
    machine: &Machine,
    algorithm: Algorithm,
    build: &Rows,
    probe: &Rows,
    target: &Target,
    options: &JoinOptions,
) -> Option<Duration> {
    let (rates, width) = (&options.rates, build.width_bytes());
    let (build_rows, probe_rows) = (build.count() as f64, probe.count() as f64);
    let is_here = |rows: &Rows| rows.is_on(options.device) && rows.count() > 0;
    let available = |bytes: u64| -> Option<()> {
        let budget = machine.device_budget(options.device).ok()?;
        let free = budget.limit_bytes().saturating_sub(budget.used_bytes());
        let limit = options.device_memory_limit_bytes.map_or(free, |limit| limit.min(free));
        (bytes <= limit).then_some(())
    };
    let link = |rows: &Rows| if is_here(rows) { 0.0 } else { rows.bytes() as f64 / rates.link.bytes_per_s };
    let both = link(build) + link(probe);
    let memory = |bytes: f64| bytes / rates.device_memory.bytes_per_s;
    let pairs = match target {
        Target::Sum => 0,
        Target::Pairs { build_values, .. } => 2 * build_values.len() as u64,
    };
    let build_s = if options.key_range.is_some() { PERFECT_BUILD_S } else { GENERAL_BUILD_S };
    let kernel = build_rows * build_s + probe_rows * rates.pipeline.far_probe_s + memory(36.0 * build_rows);
    let host_rows = (build_rows + probe_rows) / options.thread_count as f64;
    let is_on_host = build.is_host_visible() && probe.is_host_visible();
    let seconds = match algorithm {
        Algorithm::Auto => return None,
        Algorithm::Gpu => {
            // Room for chunks in flight besides the table.
            let chunks = if both > 0.0 { 6 << 20 } else { 0 };
            available(single_bytes(options, build.count(), width) + chunks + pairs / 16)?;
            both.max(kernel)
        }
        Algorithm::Radix => {
            available(radix_bytes(options, build, probe) + pairs)?;
            let bits = (build_rows / 1024.0).max(1.0).log2();
            let passes = (bits / 9.0).ceil();
            let row = width as f64;
            both + memory((build_rows + probe_rows) * row * (5.0 * passes + 2.0)) / RADIX_SHARE
        }
        Algorithm::Hybrid => {
            if is_here(build) || is_here(probe) {
                return None;
            }
            let budget = machine.device_budget(options.device).ok()?;
            let free = budget.limit_bytes().saturating_sub(budget.used_bytes());
            let limit = options.device_memory_limit_bytes.map_or(free, |limit| limit.min(free));
            let rows = resident_rows(limit, options.chunk_bytes, width);
            if rows == 0 {
                return None;
            }
            let least = build_rows.min(probe_rows).max(1.0);
            let stays = (rows as f64 / least).min(1.0);
            let again = if stays < 1.0 { (1.0 / DUPLEX_SHARE - 1.0) + (1.0 - stays) } else { 0.0 };
            (both * (1.0 + again)).max(kernel) + FIXED_S
        }
        Algorithm::Nopa | Algorithm::Pro if !is_on_host => return None,
        Algorithm::Nopa if build.count() > TABLE_ROWS_MAX => return None,
        Algorithm::Nopa => host_rows * HOST_RANDOM_S,
        Algorithm::Pro => {
            let bytes = (build.bytes() + probe.bytes()) as f64;
            (host_rows * HOST_RADIX_S).max(3.5 * bytes / rates.host_memory.bytes_per_s)
        }
    };
    Some(Duration::from_secs_f64(seconds + FIXED_S))
}
