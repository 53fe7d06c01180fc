//! The memory limit: what a user may say of it, what it is by default, and how far beyond it memory may go.
//!
//! ```text
//!   0 ────────── limit ─────── ceiling ───── what there is
//!       operators reserve,      │  slack: what operators hold beside what they reserve,
//!       then spill or fail      │  batches on their way, results of expressions
//!                               └─ beyond it the query fails, whatever it is doing
//! ```

use std::fmt;
use std::str::FromStr;

use crate::machine::{Available, available_memory};
use crate::size::{bytes_text, parse_size};

/// The share of what there is that is taken by default.
pub const DEFAULT_PERCENT: u64 = 80;

/// The share of what there is that the slack may reach into.
const CEILING_PERCENT: u64 = 90;

/// How far memory may go beyond the limit. Plans that reserve all they may were seen to hold up to some hundred MB
/// beside it: a batch for each partition and operator, hash tables while they grow.
pub const SLACK_BYTES: u64 = 512 << 20;

/// A memory limit as a user gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryLimit {
    /// That many bytes.
    Bytes(u64),
    /// A share of what there is.
    Percent(f64),
    /// No limit.
    Unlimited,
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self::Percent(DEFAULT_PERCENT as f64)
    }
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::Unlimited);
        }
        let Some(percent) = text.strip_suffix('%') else {
            let bytes = parse_size(text);
            return bytes
                .map(Self::Bytes)
                .map_err(|error| format!("{error}; or a share such as 50%, or none"));
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self::Percent(percent)),
            _ => Err(format!("'{text}' is not a share of memory between 0% and 100%")),
        }
    }
}

impl MemoryLimit {
    /// The limit in bytes; `None`: there is none, or it is a share of something unknown.
    pub fn bytes(self) -> Option<u64> {
        self.of(available_memory())
    }

    fn of(self, available: Option<Available>) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => Some(((available?.bytes as f64 / 100.0) * percent) as u64),
            Self::Unlimited => None,
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.bytes(), available_memory()) {
            (Self::Unlimited, ..) | (_, None, _) => f.write_str("no limit"),
            (Self::Percent(percent), Some(bytes), Some(available)) => {
                write!(f, "{}, {percent} % of {}", bytes_text(bytes), available.bound)
            }
            (_, Some(bytes), _) => f.write_str(&bytes_text(bytes)),
        }
    }
}

/// What a query with this limit may hold before it fails: the limit and [`SLACK_BYTES`], but not more than nine tenths
/// of what there is, unless the limit itself is more.
pub fn ceiling_bytes(limit_bytes: u64) -> u64 {
    ceiling(limit_bytes, available_memory())
}

fn ceiling(limit_bytes: u64, available: Option<Available>) -> u64 {
    let most = available.map_or(u64::MAX, |available| available.bytes / 100 * CEILING_PERCENT);
    limit_bytes.saturating_add(SLACK_BYTES).min(most).max(limit_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Bound;

    const MACHINE: Option<Available> = Some(Available { bytes: 10 << 30, bound: Bound::Machine });

    #[test]
    fn a_limit_is_a_size_a_share_or_none() {
        let limit = |text: &str| text.parse::<MemoryLimit>();
        assert_eq!(limit("2GB"), Ok(MemoryLimit::Bytes(2_000_000_000)));
        assert_eq!(limit("50%").unwrap().of(MACHINE), Some(5 << 30));
        assert_eq!(limit(" 12.5 % ").unwrap().of(MACHINE), Some((10 << 30) / 8));
        assert_eq!(limit("none").unwrap().of(MACHINE), None);
        for wrong in ["0%", "101%", "-5%", "x%", "0", "much", "nan%"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
        assert!(limit("much").unwrap_err().contains("50%, or none"));
        assert_eq!(MemoryLimit::default().of(MACHINE), Some((10 << 30) / 10 * 8));
        assert_eq!(MemoryLimit::default().of(None), None);
    }

    #[test]
    fn the_slack_leaves_a_tenth_of_the_machine_alone() {
        assert_eq!(ceiling(1 << 30, MACHINE), (1 << 30) + SLACK_BYTES);
        assert_eq!(ceiling(8 << 30, MACHINE), (8 << 30) + SLACK_BYTES);
        assert_eq!(ceiling(9 << 30, MACHINE), 9 << 30);
        assert_eq!(ceiling((9 << 30) - 1000, MACHINE), (10 << 30) / 100 * 90);
        assert_eq!(ceiling(20 << 30, MACHINE), 20 << 30);
    }
}
