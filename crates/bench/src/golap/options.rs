//! What the experiments are called with.

use std::path::PathBuf;
use std::str::FromStr;

use pelton_engine::DeviceChoice;
use pelton_error::{Error, Result};

/// The largest scale of a quick run: seconds for all experiments together.
const QUICK_SCALE: f64 = 0.05;
/// The paper's scale factor of SSB and TPC-H.
pub(super) const PAPER_SCALE: f64 = 200.0;
/// The paper's storage, bytes per second: 19.5 GiB/s as fio measured it.
pub(super) const PAPER_STORAGE_BYTES_PER_S: f64 = 19.5 * (1u64 << 30) as f64;

/// An experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Figure 1: SSB Q1.1 by way of execution.
    E1,
    /// Figure 4: read bandwidth by requests in flight and their size.
    E2,
    /// Figure 9: queries from end to end under four settings.
    E3,
    /// Figure 10: compression ratio against bandwidth, by column.
    E4,
    /// Figure 11: chunk size and number of pipelines.
    E5,
    /// Figure 12: the same with all rows copied to host memory, with and without overlap.
    E6,
    /// Table 1: choosing encodings from samples.
    E7,
    /// Figures 13 and 14: chunk size and skipping.
    E8,
    /// Figure 16: all queries beside other systems.
    E10,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::E1, Self::E2, Self::E3, Self::E4, Self::E5, Self::E6, Self::E7, Self::E8, Self::E10];
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = Self::ALL.map(|part| format!("{part:?}").to_lowercase());
        let known = names.iter().position(|name| *name == text.trim().to_lowercase());
        known.map(|index| Self::ALL[index]).ok_or_else(|| {
            Error::invalid_input(format!("no experiment '{text}'; choose from {}", names.join(", ")))
        })
    }
}

/// What to carry out, on what, how large.
#[derive(Debug, Clone)]
pub struct GolapOptions {
    /// The experiments.
    pub parts: Vec<Part>,
    /// Scale of SSB and TPC-H; taxi trips are scaled alike.
    pub scale: f64,
    /// Where files and tables are made, and found again by the next run.
    pub dir: PathBuf,
    /// Where queries run.
    pub device: DeviceChoice,
    /// Reads of tables are held to this many bytes per second.
    pub storage_bytes_per_s: u64,
    /// Few queries and sizes: seconds in all.
    pub is_quick: bool,
    /// Counted repetitions of each figure.
    pub repetitions: u32,
    /// Threads of the CPU engine and of loading.
    pub threads: usize,
    /// DuckDB's times, as `tests/perf/peers.py --json` writes them.
    pub duckdb: Option<PathBuf>,
    /// Seed of generated data and samples.
    pub seed: u64,
}

impl GolapOptions {
    /// What can be refused before anything is made.
    pub(super) fn check(&self) -> Result<()> {
        if self.parts.is_empty() {
            return Err(Error::invalid_input(
                "no experiment chosen; name one, such as e3, or leave --only out",
            ));
        }
        if self.repetitions == 0 {
            return Err(Error::invalid_input("0 repetitions measure nothing; ask for 1 at least"));
        }
        if self.storage_bytes_per_s == 0 {
            return Err(Error::invalid_input("a storage rate of 0 bytes/s never ends; ask for 1MB or more"));
        }
        if self.is_quick && self.scale > QUICK_SCALE {
            return Err(Error::invalid_input(format!(
                "scale {} is not quick; at most {QUICK_SCALE} is, or leave --quick out",
                self.scale
            )));
        }
        Ok(())
    }

    /// The storage rate as reports write it.
    pub(super) fn storage_text(&self) -> String {
        format!("{} MB/s", self.storage_bytes_per_s as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_go_by_their_number_in_the_paper_s_order() {
        assert_eq!("e10".parse::<Part>().unwrap(), Part::E10);
        assert_eq!(" E3".parse::<Part>().unwrap(), Part::E3);
        let message = "e9".parse::<Part>().unwrap_err().to_string();
        assert!(message.contains("e9") && message.contains("e10"), "{message}");
        assert!(Part::ALL.is_sorted());
    }
}
