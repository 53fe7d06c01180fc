//! Runs of plans on one device or several, GPUs or threads of the host: what was compiled meets what was brought.
//!
//! ```text
//!   Plan ──► Runtime ──► Rows, RunReport
//!              ├ options       how pipelines run: on what, by which kernels, in how much memory
//!              ├ team          the workers of a run, one a device; tasks: who takes which row groups
//!              ├ combine       partial groups made one
//!              ├ execution     what one worker does: stages of pipelines that do not wait for each other; each is
//!              │               repeated where keys are not unique
//!              ├ prepare       how the columns of a source are stored; allocate: tables, groups and rows: memory on the device
//!              ├ waiting       rows that find no room in their sink; grow: larger tables and groups
//!              ├ scan          morsels in flight; at_once: rows that a caller gives, groups; launch: descriptors, grids
//!              ├ parking       a query steps aside for an older one; spill: groups that are more than fits
//!              ├ spilled_tables    hash tables that are more than fits; partitions: who probes them; keyed_rows: rows
//!              │               split by hashes of keys
//!              ├ runtime_filter, top    what finished tables and thresholds rule out
//!              ├ ordered       rows that come in an order: kept on the device, sorted there; sorted_runs: what does not
//!              │               fit there, or several have sorted, merged on the host
//!              ├ rows_out      rows that are given out while their pipeline runs
//!              └ finish        flags read, groups gathered, many of them given out in pieces (groups_out); results: words
//!                              become rows
//! ```
//!
//! Invariants: a plan gives the rows that the same query gives on the CPU, or an error of kind `Unsupported` or
//! `OutOfMemory` that sends it there; memory is taken under the device's budget; however a run ends, what its streams
//! still do is waited for; without a trace it is not timed morsel by morsel. Deliberately absent: SQL, DataFusion,
//! Arrow; source code, which `pelton-pipeline` writes; files and codecs, which are the prefetcher's; the choice of what
//! runs where; rows that are sent from device to device.

#![forbid(unsafe_code)]

mod runtime;

mod allocate;
mod at_once;
mod combine;
mod execution;
mod finish;
mod groups_out;
mod grow;
mod host_input;
mod host_worker;
mod keyed_rows;
mod launch;
mod memory;
mod options;
mod ordered;
mod parking;
mod partitions;
mod prepare;
mod report;
mod results;
mod room;
mod rows_out;
mod runtime_filter;
mod scan;
mod sorted_runs;
mod spill;
mod spilled_tables;
mod tasks;
mod team;
mod text_order;
mod text_ties;
mod top;
mod trace;
mod waiting;
mod windows;

pub use groups_out::{SomeGroups, TakeGroups};
pub use options::{Filters, HostRows, MemoryTest, OverflowChecks, RuntimeOptions, TargetChoice};
pub use ordered::check_sorts;
pub use pelton_transfer::Links;
pub use report::{PipelineReport, RunReport};
pub use rows_out::{PartColumn, RowsPart, TakeRows};
pub use runtime::{RunWith, Runtime, stages};
pub use text_ties::ReadTexts;
