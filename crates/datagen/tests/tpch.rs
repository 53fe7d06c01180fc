//! TPC-H: the sizes its specification states, and the first row it is known by.

mod common;

use arrow::datatypes::DataType;
use common::{Table, spec};
use pelton_datagen::{Dataset, star_links};

#[test]
fn sizes_follow_the_specification() {
    let expected = [
        ("lineitem", 6_001_215),
        ("orders", 1_500_000),
        ("partsupp", 800_000),
        ("part", 200_000),
        ("customer", 150_000),
        ("supplier", 10_000),
        ("nation", 25),
        ("region", 5),
    ];
    for (name, count) in expected {
        assert_eq!(spec(Dataset::Tpch, name, 1.0).row_count, count, "{name}");
    }
}

#[test]
fn types_are_exact_where_money_is_concerned() {
    let schema = spec(Dataset::Tpch, "lineitem", 0.01).schema;
    let data_type = |column| schema.field_with_name(column).unwrap().data_type();
    assert_eq!(data_type("l_extendedprice"), &DataType::Decimal128(15, 2));
    assert_eq!(data_type("l_shipdate"), &DataType::Date32);
    assert_eq!(data_type("l_comment"), &DataType::Utf8View);
}

#[test]
fn every_reference_is_met() {
    for table in ["lineitem", "orders", "partsupp", "customer", "supplier", "nation"] {
        let rows = Table::new(Dataset::Tpch, table, 0.01);
        for link in star_links(Dataset::Tpch, table) {
            let mut keys = Table::new(Dataset::Tpch, link.dimension_table, 0.01).ints(link.dimension_key);
            keys.sort_unstable();
            for value in rows.ints(link.fact_column) {
                assert!(keys.binary_search(&value).is_ok(), "{link:?} misses {value}");
            }
        }
    }
}

#[test]
fn the_first_line_is_that_of_the_reference_generator() {
    let lines = Table::new(Dataset::Tpch, "lineitem", 0.01);
    assert_eq!(lines.ints("l_orderkey")[0], 1);
    assert_eq!(lines.texts("l_comment")[0], "egular courts above the");
    assert_eq!(lines.texts("l_shipmode")[0], "TRUCK");
}
