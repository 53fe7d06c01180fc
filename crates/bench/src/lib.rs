//! Experiments: data sets as files and tables, queries on them beside a peer, results as tables and JSON.
//!
//! Each experiment checks its answers before it reports a time, names the phases that a time includes, and
//! prints ratios to something measured in the same run.

#![forbid(unsafe_code)]

pub mod export;
pub mod golap;
pub mod queries;
pub mod results;
pub mod sampling;
pub mod storage;
mod wait;
pub mod workload;
