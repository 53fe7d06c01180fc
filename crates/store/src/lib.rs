//! Tables on disk: what a table is made of, how it is written all at once, how it is read.
//!
//! ```text
//!   Arrow ──column_from_arrow──► columns ──choose (sample)──► TablePlan
//!                                   └──encode_row_group, on every core──► TableWriter ──commit──► files
//!
//!   Warehouse ──table──► Table: a snapshot; manifest only
//!                          │ zone_maps, column_summary      what need not be read
//!                          └ read_chunk through IoEngine ──► ChunkView::decode ──column_to_arrow──► Arrow
//! ```
//!
//! Invariants: a table is the state of one commit, before, during and after a crash; a reader keeps the state
//! it opened; bytes that are decoded have passed their checksum. The files are specified byte by byte in
//! `docs/specs/table.md`. Deliberately absent: SQL, DataFusion, caching of data, deletes and updates.

#![forbid(unsafe_code)]

mod schema;

mod convert;

mod format;

mod disk;
mod lock;
mod segment;
mod sideways;
mod summary;
mod table;
mod warehouse;

mod encode;
mod plan;
mod sample;
mod writer;

mod reader;

pub use convert::{column_from_arrow, column_to_arrow, column_to_stored_arrow};
pub use encode::{EncodedRowGroup, encode_row_group};
pub use format::directory::ChunkLocation;
pub use format::{ALIGNMENT, FORMAT_VERSION};
pub use plan::{Candidate, ColumnChoice, DEFAULT_ROW_GROUP_ROWS, Objective, ROW_GROUP_ROWS_MAX, TablePlan};
pub use reader::{ChunkRead, read_chunk, read_chunk_pages_blocking};
pub use sample::{Sample, SampleOptions, choose};
pub use schema::{ColumnSchema, LogicalType, TableSchema};
pub use sideways::{SidewaysColumn, SidewaysLink, TableId};
pub use summary::ColumnSummary;
pub use table::{RowGroup, Table};
pub use warehouse::{TableStamp, Warehouse};
pub use writer::{TableWriter, WriteMode, WriteOptions};
