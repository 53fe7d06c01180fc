//! Inner joins of keys at the rate of links and memories: on a GPU, on the CPU, and beyond what a GPU holds.
//!
//! ```text
//!   Joiner ── join(build, probe, target) ──► Report
//!
//!   gpu       one table, in device memory or where it is put; both sides there, or        device/single.rs
//!             streamed from the host                                                      device/table.rs
//!   radix     both sides partitioned on the device, pairs joined in shared memory         device/radix.rs
//!   hybrid    as many partitions as fit stay in a table, the others wait in the host      device/hybrid.rs
//!   nopa      the host's cores, one table                                                 host/single.rs
//!   pro       the host's cores, partitions of caches' size                                host/radix.rs
//!   auto      what is predicted to be fastest                                             predict.rs
//! ```
//!
//! Rows are a column of keys and a column of values, words of one width of 4 or 8 bytes, without a sign. Every key is
//! legal and may occur any number of times on both sides. A join counts its matches and adds up the products of their
//! values, or writes the values of both sides of each match, in any order. An algorithm changes times and never what
//! matches; however a join ends, nothing of it is under way afterwards.
//!
//! The crate chooses no place for tables, parses nothing and knows no SQL, no Arrow, no NULLs and no columns but these:
//! rows whose key is NULL match nothing, so that whoever knows of them leaves them out.
//!
//! Sources: Lutz, Breß, Zeuch, Rabl, Markl, "Pump Up the Volume", 2020; Schuh, Chen, Dittrich, "An Experimental
//! Comparison of Thirteen Relational Equi-Joins in Main Memory", 2016; DeWitt et al., "Implementation Techniques for Main
//! Memory Database Systems", 1984 (hybrid hash join).

#![forbid(unsafe_code)]

mod options;
mod report;
mod rows;

mod device;
mod host;

mod joiner;
mod predict;

pub mod generate;

pub use joiner::Joiner;
pub use options::{Algorithm, JoinOptions, KeyRange, TablePlace};
pub use report::{Prediction, Report};
pub use rows::{Rows, Target};
