//! Brings files into tables: sources, schema agreement, clustering, sideways metadata.
//!
//! ```text
//!   files ──pelton_files──▶ parts ──reader, in parallel──▶ batches in input order
//!                                                        │
//!          text and generators: stage ◀──────────────────┤
//!          --cluster-by: sort, merge  ◀──────────────────┤
//!                                                        ▼
//!                               write: row groups ──encode, in parallel──▶ store::TableWriter ──▶ commit
//!                                          ▲                ▲
//!                       sample ──▶ store::choose        sideways ◀── dimension tables
//! ```
//!
//! Invariants: the order of rows and the bytes of a table depend on the request alone, not on threads or
//! timing; rows in memory stay under the request's limit, whatever the input; a load that does not commit
//! leaves no table, no rows and no scratch files. Deliberately absent: SQL, reading tables for queries.

#![forbid(unsafe_code)]

mod load;
mod progress;
mod report;
mod request;

mod reader;
mod staging;

mod budget;
mod sample;
mod scratch;
mod stage;

mod cluster;
mod key_words;
mod keys;
mod merge;
mod sort;

mod dimension;
mod key_index;
mod sideways;

mod row_groups;
mod write;

pub use load::{load, load_batches};
pub use pelton_error::CancelFlag;
pub use pelton_files::{
    Encoding, InferRows, InputFormat, TextOptions, parse_char, parse_column_types, parse_optional_char,
};
pub use progress::{NoProgress, Phase, Progress, Snapshot};
pub use report::LoadReport;
pub use request::{ClusterBy, DISK_BYTES_PER_S, LoadOptions, LoadRequest, Purpose, StarLink};
