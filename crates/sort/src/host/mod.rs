//! What the host's cores do: sort, merge, and cut sorted runs at a rank.

mod merge;
mod paradis;
mod radix;
mod select;

pub use merge::{Run, merge};
pub use paradis::paradis;
pub use radix::{SortedColumns, sort, sort_into};
pub use select::cuts;

/// Threads that are worth starting for so many rows: starting one takes some 20 µs, in which a core merges thousands.
pub(crate) fn useful_threads(row_count: usize, thread_count: usize) -> usize {
    const ROWS_PER_THREAD: usize = 32 << 10;
    thread_count.clamp(1, row_count / ROWS_PER_THREAD + 1)
}
