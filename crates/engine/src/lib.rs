//! Pelton tables in DataFusion: catalog, skipping, scans, statistics, EXPLAIN.
//!
//! ```text
//!   PeltonSession ── SessionContext ── WarehouseSchema ── PeltonTable ── PeltonScanExec
//!                        │ physical rules: join order (pelton-planner), sideways skipping,
//!                        └                 subtrees to a device ── PeltonGpuExec (pelton-pipeline)
//! ```
//!
//! This is the lowest crate that knows DataFusion's tables and plans; `pelton-planner` below it knows plans
//! alone. Bytes, files and zone maps belong to `pelton-store` and `pelton-zone`.

#![forbid(unsafe_code)]

mod catalog;
mod depth;
mod error;
mod explain;
mod gpu;
mod listing;
mod memory;
mod predicate;
mod prepared;
mod provider;
mod prune;
mod scan;
mod session;
mod sideways;
mod statistics;
mod yielding;

pub use depth::STACK_BYTES;
pub use error::from_datafusion;
pub use explain::bytes_text;
pub use gpu::{DeviceChoice, Devices, PeltonGpuExec};
pub use listing::ListedTable;
pub use memory::QueryMemory;
pub use pelton_pipeline::{Runtime, RuntimeOptions};
pub use prepared::Prepared;
pub use provider::PeltonTable;
pub use prune::SkippedBy;
pub use scan::{PeltonScanExec, ScanOptions, ScanReport, Skipped};
pub use session::{PeltonSession, Query, SessionOptions, with_gpu};
