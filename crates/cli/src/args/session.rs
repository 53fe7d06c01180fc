//! The flags that say how queries run: those of the shell, `sql`, `serve` and `bench queries`.

use clap::{Args as ClapArgs, ValueEnum};
use pelton_engine::{Decompress, DeviceChoice, THREADS_MAX};
use pelton_limits::MemoryLimit;

use super::{SpillArgs, parse_size};

/// How queries run.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct SessionArgs {
    /// Threads a query runs in [default: all cores].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Memory for queries: a size such as 4GB, a share of what machine, container and ulimit leave, or none. Sorts, groups,
    /// joins and windows spill beyond it; what cannot spill fails.
    #[arg(long, value_name = "SIZE|PERCENT|none", default_value = "80%")]
    pub(crate) memory_limit: MemoryLimit,
    #[command(flatten)]
    pub(crate) spill: SpillArgs,
    /// Rows in a batch between operators.
    #[arg(long, default_value_t = 8192, hide_short_help = true)]
    pub(crate) batch_rows: usize,
    /// How table files are read: through the page cache, past it (O_DIRECT), or whichever suits the table's size.
    #[arg(long, value_enum, default_value_t = IoModeArg::Auto, hide_short_help = true)]
    pub(crate) io: IoModeArg,
    /// Read with plain positioned reads even where io_uring is available.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_io_uring: bool,
    /// Metadata that may skip row groups; a comma-separated choice, `none` or `all`.
    #[arg(
        long,
        value_name = "KINDS",
        default_value = "all",
        hide_short_help = true,
        help = "Metadata that may skip row groups: all, none, or some of nulls,minmax,histogram,bloom,sideways,dynamic"
    )]
    pub(crate) skip: String,
    /// Keep the join order that the query was written in.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_join_order: bool,
    /// Where queries run: auto (on a GPU where that turned out to be faster; without one, in kernels compiled for this
    /// machine's cores likewise), cpu, gpu and gpu:<number> (on that GPU, whatever can run there), or gpu+host (likewise,
    /// and the machine's cores take some of the rows that come over its link from pinned memory).
    #[arg(long, value_name = "DEVICE", value_parser = parse_device, default_value = "auto")]
    pub(crate) device: DeviceChoice,
    /// GPUs that work on a query together, from the one of --device on: each takes some of the row groups.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) devices: u32,
    /// Device memory of each GPU that queries and the column cache may take, such as 8GiB [default: what is free].
    #[arg(long, alias = "device-mem-cap", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) device_memory_limit: Option<u64>,
    /// Device memory of the column cache, such as 2GiB or 0; part of the limit [default: half of the device's memory].
    #[arg(long, value_name = "SIZE", value_parser = parse_size_or_none, hide_short_help = true)]
    pub(crate) device_cache: Option<u64>,
    /// Pinned host memory of the column cache, such as 8GiB or 0: columns that GPUs have no room for; part of the limit
    /// [default: half of it].
    #[arg(long, value_name = "SIZE", value_parser = parse_size_or_none, hide_short_help = true)]
    pub(crate) pinned_cache: Option<u64>,
    /// Pinned host memory that queries, the column cache and pinned tables may take, such as 32GiB [default: half of the
    /// machine's].
    #[arg(long, alias = "pinned-mem-cap", value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    pub(crate) pinned_memory_limit: Option<u64>,
    /// Plan every query anew: no plan comes from the plan cache.
    #[arg(long, alias = "no-kept-plans", hide_short_help = true)]
    pub(crate) no_plan_cache: bool,
    /// Transfer pinned data over a GPU's own host link alone, not over those of idle neighbours too.
    #[arg(long, alias = "no-borrowed-links", hide_short_help = true)]
    pub(crate) no_multi_link: bool,
    /// How kernels drop rows that conditions are not true for: condition by condition, or all at once without
    /// branches. For measurements.
    #[arg(long, value_enum, default_value_t = FiltersArg::Branching, hide = true)]
    pub(crate) filters: FiltersArg,
    /// Where kernels check arithmetic for overflow: where bounds of columns do not rule it out, or everywhere. Answers
    /// are the same. For measurements.
    #[arg(long, value_enum, default_value_t = OverflowChecksArg::WhereNeeded, hide = true)]
    pub(crate) overflow_checks: OverflowChecksArg,
    /// Who decompresses what a GPU reads from disk: auto (who is predicted to be faster), host, or device (nvCOMP).
    #[arg(long, value_name = "WHO", value_parser = parse_decompress, default_value = "auto", hide = true)]
    pub(crate) decompress: Decompress,
    /// Load this table into pinned memory first, where a GPU reads it at the full rate of its link. Repeatable.
    #[arg(long, value_name = "TABLE")]
    pub(crate) pin: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FiltersArg {
    Branching,
    Predicated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverflowChecksArg {
    WhereNeeded,
    Everywhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoModeArg {
    Auto,
    Direct,
    Buffered,
}

/// A device by name. `host` is one too: kernels compiled for the host's cores, for tests.
fn parse_device(text: &str) -> Result<DeviceChoice, String> {
    text.parse().map_err(|error: pelton_error::Error| error.to_string())
}

fn parse_decompress(text: &str) -> Result<Decompress, String> {
    text.parse().map_err(|error: pelton_error::Error| error.to_string())
}

/// A number of threads that a machine may have.
pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=THREADS_MAX).contains(&count) => Ok(count),
        _ => Err(format!("a number from 1 to {THREADS_MAX} is needed")),
    }
}

/// As [`parse_size`], or 0.
fn parse_size_or_none(text: &str) -> Result<u64, String> {
    if text.trim() == "0" { Ok(0) } else { parse_size(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_as_many_as_a_machine_may_have() {
        assert_eq!((parse_threads("1"), parse_threads("1024")), (Ok(1), Ok(1024)));
        for text in ["0", "1025", "1000000", "-1", "two"] {
            let error = parse_threads(text).unwrap_err();
            assert!(error.contains("from 1 to 1024"), "{text}: {error}");
        }
    }
}
