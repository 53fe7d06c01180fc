//! The Star Schema Benchmark: sizes, schemas and links of its five tables.
//!
//! Follows O'Neil, O'Neil, Chen: Star Schema Benchmark, Revision 3, 2009. Where the paper leaves room,
//! the choice is that of its generator (ssb-dbgen), but for these, which keep data clean and sizes exact:
//!
//! - `lineorder` has exactly 6,000,000 rows per scale unit: orders come in pairs that have 8 lines together,
//!   each 1 to 7, all equally often. (The generator draws each order's lines alone and lands nearby.)
//! - `part` has 200,000 * (1 + floor(log2 scale)) rows; below scale 1, where that formula ends, 200,000 * scale.
//! - `date` has 2557 rows, every day of 1992 to 1998 (the paper says 2556, which forgets a leap day), with true
//!   week days; the first week of a year is its first seven days.
//! - Order dates are uniform from 1992-01-01 to 1998-08-02, as in TPC-H, so that commit dates lie in `date`.
//! - Brands are written with two digits (`MFGR#1101`), since `p_brand1` is fixed text of 9 characters.
//! - Every customer orders. Money is in cents, in 32-bit integers, which no single value outgrows.

mod date;
mod dimensions;
mod lineorder;

use arrow::array::RecordBatch;

use crate::part::{Part, PartBatches};
use crate::{StarLink, TableSpec, link, scaled};
use date::Dates;
use dimensions::{Customers, Parts, Suppliers};
use lineorder::Lineorders;

pub(crate) const NAMES: [&str; 5] = ["lineorder", "customer", "supplier", "part", "date"];

pub(crate) const STAR_LINKS: [(&str, StarLink); 4] = [
    link("lineorder", "lo_custkey", "customer", "c_custkey"),
    link("lineorder", "lo_suppkey", "supplier", "s_suppkey"),
    link("lineorder", "lo_partkey", "part", "p_partkey"),
    link("lineorder", "lo_orderdate", "date", "d_datekey"),
];

/// Row counts of one scale; keys of a dimension are `1..=count`.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    orders: u64,
    customers: u32,
    suppliers: u32,
    parts: u32,
}

impl Sizes {
    fn at(scale: f64) -> Self {
        Self {
            orders: scaled(1_500_000, scale),
            customers: scaled(30_000, scale) as u32,
            suppliers: scaled(2_000, scale) as u32,
            parts: part_count(scale),
        }
    }
}

fn part_count(scale: f64) -> u32 {
    if scale < 1.0 {
        return scaled(200_000, scale) as u32;
    }
    200_000 * (1 + (scale as u32).ilog2())
}

pub(crate) fn tables(scale: f64) -> Vec<TableSpec> {
    let sizes = Sizes::at(scale);
    let spec = |name| TableSpec {
        name,
        schema: match name {
            "lineorder" => lineorder::schema(),
            "customer" => dimensions::customer_schema(),
            "supplier" => dimensions::supplier_schema(),
            "part" => dimensions::part_schema(),
            "date" => date::schema(),
            other => unreachable!("'{other}' is not an SSB table"),
        },
        row_count: row_count(name, &sizes),
    };
    NAMES.into_iter().map(spec).collect()
}

/// Streams one part of `table`, one of [`NAMES`].
pub(crate) fn batches(
    table: &'static str,
    scale: f64,
    part: Part,
    seed: u64,
) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
    let sizes = Sizes::at(scale);
    let rows = row_count(table, &sizes);
    match table {
        "lineorder" => Box::new(PartBatches::new(Lineorders::new(sizes), table, rows, part, seed)),
        "customer" => Box::new(PartBatches::new(Customers::new(), table, rows, part, seed)),
        "supplier" => Box::new(PartBatches::new(Suppliers::new(), table, rows, part, seed)),
        "part" => Box::new(PartBatches::new(Parts::new(), table, rows, part, seed)),
        "date" => Box::new(PartBatches::new(Dates::new(), table, rows, part, seed)),
        other => unreachable!("'{other}' is not an SSB table"),
    }
}

fn row_count(table: &str, sizes: &Sizes) -> u64 {
    match table {
        "lineorder" => sizes.orders * lineorder::LINES_PER_ORDER,
        "customer" => sizes.customers.into(),
        "supplier" => sizes.suppliers.into(),
        "part" => sizes.parts.into(),
        "date" => date::DAY_COUNT.into(),
        other => unreachable!("'{other}' is not an SSB table"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_logarithm_of_the_scale() {
        let expected = [(0.1, 20_000), (1.0, 200_000), (1.9, 200_000), (2.0, 400_000), (10.0, 800_000)];
        for (scale, parts) in expected {
            assert_eq!(part_count(scale), parts, "scale {scale}");
        }
        assert_eq!(part_count(1000.0), 2_000_000);
    }
}
