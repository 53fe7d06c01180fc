//! Sideways metadata: what the rows of a fact table's row groups say about a dimension.
//!
//! ```text
//!   lineorder ─lo_custkey─► customer.c_region      for each row group of lineorder the zone map of the
//!                                                  c_region values its rows refer to
//! ```
//!
//! It holds for the dimension as it was when the fact table was written: a declaration names the id of every
//! dimension table on its path, and is to be ignored where one of them has another id now.

use crate::schema::LogicalType;

/// One step from a fact table (or a dimension) to the dimension its column refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidewaysLink {
    /// The referring column.
    pub fact_column: String,
    /// The table referred to.
    pub dimension_table: String,
    /// Its key.
    pub dimension_key: String,
}

/// A column of another table whose zone maps are kept for each row group of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidewaysColumn {
    /// How to get from this table to the column's table; at least one link.
    pub path: Vec<SidewaysLink>,
    /// The column's name in the last table of the path.
    pub column: String,
    /// The id of each table on the path when the metadata was made.
    pub dimension_ids: Vec<TableId>,
    /// The column's type.
    pub logical: LogicalType,
}

/// Names one state of one table: random, new with every commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableId(pub u64);

impl std::fmt::Display for TableId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
