//! Zone maps: what is known of a column chunk without reading it.
//!
//! ```text
//!   Column ──build──▶ ZoneMap ──write_zone_maps──▶ one section a column ──read_zone_maps──▶ ZoneMap
//!              │        row, null and distinct count                                         │
//!              │        min, max                                                             ▼
//!              │        histogram      256 B     Predicate ──prune──▶ row groups to read, and which
//!              │        Bloom filter  1024 B                          kind of metadata ruled out the others
//!              └──▶ Sketch   distinct values, merged over a segment
//! ```
//!
//! Invariant: [`ZoneMap::test`] never rules out a chunk with a matching row, whichever kinds are enabled and
//! whether floats are compared by IEEE or by total order. [`ZoneMap::matches_all`] errs the other way.
//! Cost: one pass for the bounds, one for the rest; one hash a value, shared by filter and sketch.
//! The bytes are specified in `docs/specs/zone.md`. No I/O, no Arrow, no SQL.

#![forbid(unsafe_code)]

mod bins;
mod bloom;
mod build;
mod column_test;
mod hash;
mod histogram;
mod predicate;
mod scalar;
mod section;
mod selectivity;
mod sketch;
mod skip;
mod strings;
mod zone_map;

pub use bloom::Bloom;
pub use column_test::{ColumnTest, CompareOp};
pub use hash::hash_scalar;
pub use histogram::Histogram;
pub use predicate::{Predicate, PruneResult, prune};
pub use scalar::Scalar;
pub use section::{read_zone_maps, write_zone_maps};
pub use sketch::Sketch;
pub use skip::{SkipCounts, SkipKind, SkipKinds, Verdict};
pub use zone_map::{BOUND_BYTES_MAX, ZoneMap, ZoneOptions};
