//! Deterministic generators: Star Schema Benchmark, TPC-H, taxi trips, page views.
//!
//! ```text
//!   (dataset, table, scale, seed)
//!          │
//!          ▼             each batch has its own random sequence: (seed, table, batch)
//!   ┌───────┬───────┬───────┬───────┬───────┐
//!   │batch 0│batch 1│batch 2│  ...  │batch n│      32768 rows each, the last one short
//!   └───────┴───────┴───────┴───────┴───────┘
//!    └─ part 0 of 2 ─┘└───── part 1 of 2 ───┘
//! ```
//!
//! 1. [`tables`] says what a dataset holds at a scale: names, schemas, exact row counts.
//! 2. [`batches`] streams one part of one table. The parts of a table concatenate to the same rows however
//!    many there are, so threads can share a table without talking to each other.
//! 3. [`star_links`] says which columns refer to which tables, [`queries`] what is asked of them.
//!
//! Bound: one batch of one table per iterator. TPC-H adds the text pool that all its iterators share
//! (300 MiB once per process), from which the specification draws comments.
//!
//! | dataset | scale 1 | source |
//! |---|---|---|
//! | `ssb`  | 6 M lineorders   | O'Neil, O'Neil, Chen: Star Schema Benchmark, Revision 3, 2009 |
//! | `tpch` | 6 M lineitems    | TPC-H 3, through the `tpchgen` crates; the seed is fixed by its specification |
//! | `taxi` | 10 M trips, 2018-2022 | columns and marginals of the NYC TLC yellow-taxi trip records |

#![forbid(unsafe_code)]

mod calendar;
mod hits;
mod part;
mod queries;
mod random;
mod ssb;
mod taxi;
mod tpch;
mod words;

use std::fmt;
use std::str::FromStr;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pelton_error::{Error, Result};

pub use queries::{Query, queries};

use part::Part;

/// The scales at which every table has rows and every key fits its column.
const SCALE_MIN: f64 = 0.001;
/// Page views are one table of many rows per scale unit; this is a thousand of them.
const HITS_SCALE_MIN: f64 = 0.000_01;
const SCALE_MAX: f64 = 10_000.0;

/// What can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dataset {
    /// Star Schema Benchmark: a fact table and four dimensions.
    Ssb,
    /// TPC-H: eight tables.
    Tpch,
    /// Taxi trips: one wide table in time order.
    Taxi,
    /// Page views: ClickBench's table of 105 columns.
    Hits,
}

impl Dataset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ssb, Self::Tpch, Self::Taxi, Self::Hits];

    fn scale_min(self) -> f64 {
        match self {
            Self::Ssb | Self::Tpch | Self::Taxi => SCALE_MIN,
            Self::Hits => HITS_SCALE_MIN,
        }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssb => "ssb",
            Self::Tpch => "tpch",
            Self::Taxi => "taxi",
            Self::Hits => "hits",
        })
    }
}

impl FromStr for Dataset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|dataset| dataset.to_string() == name).ok_or_else(|| {
            Error::invalid_input(format!("no dataset '{name}'; choose ssb, tpch, taxi or hits"))
        })
    }
}

/// One table of a dataset at some scale.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Its columns, as every batch has them.
    pub schema: SchemaRef,
    /// Exactly how many rows all parts have together.
    pub row_count: u64,
}

/// A column of a fact table that refers to the key of a dimension table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StarLink {
    /// The referring column.
    pub fact_column: &'static str,
    /// The table it refers to.
    pub dimension_table: &'static str,
    /// The unique column of that table.
    pub dimension_key: &'static str,
}

/// The tables of `dataset` at `scale`, fact table first.
pub fn tables(dataset: Dataset, scale: f64) -> Result<Vec<TableSpec>> {
    check_scale(dataset, scale)?;
    Ok(match dataset {
        Dataset::Ssb => ssb::tables(scale),
        Dataset::Tpch => tpch::tables(scale),
        Dataset::Taxi => taxi::tables(scale),
        Dataset::Hits => hits::tables(scale),
    })
}

/// Streams part `part` (from 0) of `part_count` of `table`, in batches of at most 65536 rows.
///
/// The rows are a function of `(dataset, table, scale, seed)`; `part_count` only cuts them.
pub fn batches(
    dataset: Dataset,
    table: &str,
    scale: f64,
    part: u32,
    part_count: u32,
    seed: u64,
) -> Result<Box<dyn Iterator<Item = RecordBatch> + Send>> {
    check_scale(dataset, scale)?;
    let table = known_table(dataset, table)?;
    let part = Part::new(part, part_count)?;
    Ok(match dataset {
        Dataset::Ssb => ssb::batches(table, scale, part, seed),
        Dataset::Tpch => tpch::batches(table, scale, part),
        Dataset::Taxi => taxi::batches(scale, part, seed),
        Dataset::Hits => hits::batches(scale, part, seed),
    })
}

/// The columns of `table` that refer to other tables of `dataset`. A column that would reach a dimension
/// a second time (`lo_commitdate`) is left out, since a query means the first.
pub fn star_links(dataset: Dataset, table: &str) -> Vec<StarLink> {
    let links: &[(&str, StarLink)] = match dataset {
        Dataset::Ssb => &ssb::STAR_LINKS,
        Dataset::Tpch => &tpch::STAR_LINKS,
        Dataset::Taxi | Dataset::Hits => &[],
    };
    links.iter().filter(|(owner, _)| *owner == table).map(|(_, link)| *link).collect()
}

/// For the tables of links: `owner.column -> dimension.key`.
const fn link(
    owner: &'static str,
    fact_column: &'static str,
    dimension_table: &'static str,
    dimension_key: &'static str,
) -> (&'static str, StarLink) {
    (owner, StarLink { fact_column, dimension_table, dimension_key })
}

fn check_scale(dataset: Dataset, scale: f64) -> Result<()> {
    let min = dataset.scale_min();
    if (min..=SCALE_MAX).contains(&scale) {
        return Ok(());
    }
    Err(Error::invalid_input(format!("scale {scale} is out of range; choose one from {min} to {SCALE_MAX}")))
}

fn known_table(dataset: Dataset, table: &str) -> Result<&'static str> {
    let names: &[&'static str] = match dataset {
        Dataset::Ssb => &ssb::NAMES,
        Dataset::Tpch => &tpch::NAMES,
        Dataset::Taxi => &taxi::NAMES,
        Dataset::Hits => &hits::NAMES,
    };
    names.iter().find(|name| **name == table).copied().ok_or_else(|| {
        Error::invalid_input(format!("no table '{table}' in {dataset}; it has {}", names.join(", ")))
    })
}

/// The scale at which the table `hits` has `rows` rows.
pub fn hits_scale(rows: u64) -> f64 {
    hits::scale(rows)
}

/// `base` rows per unit of scale.
fn scaled(base: u32, scale: f64) -> u64 {
    (f64::from(base) * scale).round() as u64
}
