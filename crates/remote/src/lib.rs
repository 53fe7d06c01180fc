//! Objects by URL: what S3-compatible stores and HTTP servers hold, as files that are read in ranges.
//!
//! ```text
//!   's3://bucket/sales/year=*/*.parquet'
//!        │ location: base, folder, pattern
//!        ▼
//!   store of the base ── named: its errors in our words, large ranges in pieces ── object_store ── network
//!        │                                    │
//!        │ list: object, folder or pattern    │ objects: the same for callers that wait
//!        ▼                                    ▼
//!   paths, and what their folders say    readers with pieces on the way ahead of them
//!   (partitions)
//! ```
//!
//! Credentials come from the environment and appear in no message. A request has a time limit, is sent again after
//! errors that pass, and is given up after a bounded time. Nothing here knows formats, tables or SQL.

#![forbid(unsafe_code)]

mod location;

mod explain;
mod named;
mod store;

mod list;
mod partitions;

mod objects;
mod pieces;
mod reader;

pub use list::list;
pub use location::{Location, is_url};
pub use objects::{Object, Objects, Pending};
pub use partitions::{PartitionColumn, PartitionType, PartitionValue, Partitions};
pub use pieces::Pieces;
pub use reader::ObjectReader;
pub use store::{StoreOptions, open_store};
