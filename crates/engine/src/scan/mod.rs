//! The scan of a Pelton table: skip, read ahead, verify, decode, filter.
//!
//! ```text
//!   zone maps ──▶ row groups to read ──▶ dealt round robin to the partitions
//!                                              │
//!      per partition:  reads in flight ──▶ verify ──▶ decode filter columns ──▶ filter (`order.rs`)
//!                      (io engine)                                                │ selected rows
//!                                          decode the other columns' pages ◀──────┘
//!                                                      │
//!                                                 record batches
//! ```
//!
//! Traffic: the stored bytes of the needed columns of the kept row groups, once.

mod counted;
mod exec;
mod filter;
mod keys;
mod metrics;
mod narrow;
mod order;
mod pieces;
mod routed;
mod selection;
mod stream;

pub(crate) use counted::Counted;
pub use exec::{PeltonScanExec, ScanOptions};
pub(crate) use exec::{ScanSource, SidewaysFilter};
pub use metrics::{ScanReport, Skipped};
pub(crate) use stream::first_rows;
