//! TPC-H, through the `tpchgen` crates, which cut each table into parts themselves.
//!
//! The specification fixes the seeds, so the rows depend on the scale alone. `nation` and `region` are of
//! constant size and come whole in part 0.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RecordBatchIterator,
    RegionArrow, SupplierArrow,
};

use crate::part::{BATCH_ROWS, Part};
use crate::{StarLink, TableSpec, link};

pub(crate) const NAMES: [&str; 8] =
    ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"];

pub(crate) const STAR_LINKS: [(&str, StarLink); 9] = [
    link("lineitem", "l_orderkey", "orders", "o_orderkey"),
    link("lineitem", "l_partkey", "part", "p_partkey"),
    link("lineitem", "l_suppkey", "supplier", "s_suppkey"),
    link("orders", "o_custkey", "customer", "c_custkey"),
    link("partsupp", "ps_partkey", "part", "p_partkey"),
    link("partsupp", "ps_suppkey", "supplier", "s_suppkey"),
    link("customer", "c_nationkey", "nation", "n_nationkey"),
    link("supplier", "s_nationkey", "nation", "n_nationkey"),
    link("nation", "n_regionkey", "region", "r_regionkey"),
];

/// Nations and regions, whatever the scale.
const NATION_COUNT: u64 = 25;
const REGION_COUNT: u64 = 5;
/// `tpchgen` counts the parts of `partsupp`; each has this many suppliers.
const SUPPLIERS_PER_PART: i64 = 4;

pub(crate) fn tables(scale: f64) -> Vec<TableSpec> {
    NAMES
        .into_iter()
        .map(|name| TableSpec { name, schema: schema(name, scale), row_count: row_count(name, scale) })
        .collect()
}

/// Streams one part of `table`, one of [`NAMES`].
pub(crate) fn batches(table: &str, scale: f64, part: Part) -> Box<dyn Iterator<Item = RecordBatch> + Send> {
    if part.index > 0 && is_constant(table) {
        return Box::new(std::iter::empty());
    }
    Box::new(generator(table, scale, part))
}

fn is_constant(table: &str) -> bool {
    matches!(table, "nation" | "region")
}

/// The generator counts parts from 1.
fn generator(table: &str, scale: f64, part: Part) -> Box<dyn RecordBatchIterator> {
    macro_rules! generate {
        ($rows:ident, $batches:ident) => {
            Box::new(
                $batches::new($rows::new(scale, part.index as i32 + 1, part.count as i32))
                    .with_batch_size(BATCH_ROWS as usize),
            )
        };
    }
    match table {
        "lineitem" => generate!(LineItemGenerator, LineItemArrow),
        "orders" => generate!(OrderGenerator, OrderArrow),
        "partsupp" => generate!(PartSuppGenerator, PartSuppArrow),
        "part" => generate!(PartGenerator, PartArrow),
        "customer" => generate!(CustomerGenerator, CustomerArrow),
        "supplier" => generate!(SupplierGenerator, SupplierArrow),
        "nation" => generate!(NationGenerator, NationArrow),
        "region" => generate!(RegionGenerator, RegionArrow),
        other => unreachable!("'{other}' is not a TPC-H table"),
    }
}

fn schema(table: &str, scale: f64) -> SchemaRef {
    generator(table, scale, Part { index: 0, count: 1 }).schema().clone()
}

fn row_count(table: &str, scale: f64) -> u64 {
    let rows = match table {
        "lineitem" => return lineitem_count(scale),
        "orders" => OrderGenerator::calculate_row_count(scale, 1, 1),
        "partsupp" => PartSuppGenerator::calculate_row_count(scale, 1, 1) * SUPPLIERS_PER_PART,
        "part" => PartGenerator::calculate_row_count(scale, 1, 1),
        "customer" => CustomerGenerator::calculate_row_count(scale, 1, 1),
        "supplier" => SupplierGenerator::calculate_row_count(scale, 1, 1),
        "nation" => return NATION_COUNT,
        "region" => return REGION_COUNT,
        other => unreachable!("'{other}' is not a TPC-H table"),
    };
    rows as u64
}

/// Adds up the lines of all orders, drawn as the generator draws them: a few milliseconds per scale unit.
fn lineitem_count(scale: f64) -> u64 {
    let mut line_count = OrderGenerator::create_line_count_random();
    let draw = |_| {
        let lines = line_count.next_value() as u64;
        line_count.row_finished();
        lines
    };
    (0..OrderGenerator::calculate_row_count(scale, 1, 1)).map(draw).sum()
}
