//! Pelton tables in DataFusion: catalog, skipping, scans, statistics, EXPLAIN.
//!
//! ```text
//!   PeltonSession ── SessionContext ── WarehouseSchema ── PeltonTable ── PeltonScanExec
//!                        │ physical rules: join order (pelton-planner), sideways skipping,
//!                        └                 subtrees to a device ── PeltonGpuExec (pelton-exec)
//! ```
//!
//! Two interfaces: [`PeltonSession`] is a whole session over one warehouse; [`with_pelton`] adds the same to a
//! DataFusion session of one's own, in which Pelton tables stand beside any others. The examples `register_table`,
//! `stored_as` and `mixed_join` show the second.
//!
//! This is the lowest crate that knows DataFusion's tables and plans; `pelton-planner` below it knows plans
//! alone. Bytes, files and zone maps belong to `pelton-store` and `pelton-zone`.

#![forbid(unsafe_code)]

mod ahead;
mod any_lists;
mod any_texts;
mod balance;
mod bins;
mod bounded;
mod by_position;
mod calendar;
mod cast_bounds;
mod catalog;
mod coalesce;
mod collations;
mod copies;
mod copy_options;
mod copy_targets;
mod cores;
mod date_parts;
mod deferred;
mod depth;
mod dialect;
mod discrete;
mod eager;
mod embed;
mod error;
mod expansion;
mod expected;
mod explain;
mod extension;
mod extract;
mod factory;
mod far_limits;
mod fetch;
mod fetch_first;
mod files;
mod floats;
mod gpu;
mod guards;
mod interval_products;
mod interval_texts;
mod intervals;
mod joined_keys;
mod kept;
mod known_words;
mod levels;
mod like_escapes;
mod list_texts;
mod listing;
mod lists;
mod memo;
mod memory;
mod metered;
mod multisets;
mod names;
mod new_filters;
mod null_keys;
mod null_treatments;
mod numbers;
mod of_distinct;
mod opaque;
mod ordered;
mod orders;
mod outer_keys;
mod parse;
mod passing;
mod plan_cache;
mod plan_copy;
mod planning;
mod predicate;
mod prepared;
mod profile;
mod provider;
mod prune;
mod pushed_filters;
mod recursion;
mod replacement_texts;
mod row_values;
mod rows;
mod running;
mod same_rows;
mod scan;
mod session;
mod set_keys;
mod shadowed;
mod shadowed_names;
mod shared;
mod short_forms;
mod sideways;
mod similar;
mod simplify;
mod sorting;
mod spellings;
mod spill;
mod spilling;
mod sql_types;
mod stand_in;
mod statistics;
mod stores;
mod subqueries;
#[cfg(feature = "substrait")]
mod substrait;
mod synonyms;
mod task_context;
mod titles;
mod top_groups;
mod unmatched;
mod using;
mod version;
mod whole;
mod window_distances;
mod window_filters;
mod window_frames;
mod window_functions;
mod window_peers;
mod window_specs;
mod window_texts;
mod yielding;
mod zones;

pub use copies::CopyColumns;
pub use datafusion::sql::parser::Statement;
pub use depth::STACK_BYTES;
pub use embed::only_reads;
pub use error::from_datafusion;
pub use explain::counted;
pub use extension::{Extension, with_pelton};
pub use files::{FileSettings, with_files};
pub use gpu::{DeviceChoice, DeviceHandle, PeltonGpuExec, StepTime};
pub use listing::ListedTable;
pub use memory::{QueryMemory, memory_shares};
pub use numbers::with_numbers;
pub use parse::parse;
pub use pelton_exec::{Filters, Links, MemoryTest, OverflowChecks, Runtime, RuntimeOptions};
pub use pelton_limits::bytes_text;
pub use pelton_scan::Decompress;
pub use planning::cancellable;
pub use prepared::Prepared;
pub use profile::{
    Ceiling, Ceilings, Lane, LinkKind, LinkUse, MemoryUse, Metric, Place, ProfileContext, ProfileNode,
    QueryProfile, QueryState, Timeline, TimelineSpan, Unit,
};
pub use provider::PeltonTable;
pub use prune::SkippedBy;
pub use rows::{Delimited, NonFinite};
pub use scan::{PeltonScanExec, ScanOptions, ScanReport, Skipped};
pub use session::{PeltonSession, Query, SessionOptions, THREADS_MAX};
pub use sql_types::sql_type_name;
