//! Tests of selectivity estimates.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::prelude::SessionContext;

use super::*;

/// One relation of 1,000 rows:
/// `id` 1..=1000 distinct; `city` 50 distinct strings; `day` in 1992..=1998, not counted; `note` unknown.
fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("city", DataType::Utf8, true),
        Field::new("day", DataType::Date32, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("flag", DataType::Boolean, true),
    ])
}

fn statistics() -> Statistics {
    let unknown = ColumnStatistics::new_unknown;
    Statistics {
        num_rows: Precision::Exact(1000),
        total_byte_size: Precision::Absent,
        column_statistics: vec![
            unknown()
                .with_min_value(Precision::Exact(ScalarValue::Int64(Some(1))))
                .with_max_value(Precision::Exact(ScalarValue::Int64(Some(1000)))),
            unknown().with_distinct_count(Precision::Exact(50)).with_null_count(Precision::Exact(100)),
            unknown()
                // 1992-01-01 and 1998-12-31
                .with_min_value(Precision::Exact(ScalarValue::Date32(Some(8035))))
                .with_max_value(Precision::Exact(ScalarValue::Date32(Some(10591)))),
            unknown(),
            unknown(),
        ],
    }
}

fn parse(sql: &str) -> Arc<dyn PhysicalExpr> {
    let context = SessionContext::new();
    let schema = DFSchema::try_from(schema()).unwrap();
    let expr = context.parse_sql_expr(sql, &schema).unwrap();
    context.create_physical_expr(expr, &schema).unwrap()
}

fn kept(sql: &str) -> f64 {
    predicate_selectivity(&parse(sql), &statistics())
}

fn assert_kept(sql: &str, expected: f64) {
    let actual = kept(sql);
    assert!((actual - expected).abs() < 0.002, "{sql} keeps {actual}, not {expected}");
}

#[test]
fn equality_keeps_one_value_of_the_domain() {
    assert_kept("id = 5", 0.001);
    assert_kept("5 = id", 0.001);
    assert_kept("city = 'Rome'", 0.9 / 50.0);
    assert_kept("city <> 'Rome'", 1.0 - 0.9 / 50.0);
    assert_kept("note = 'x'", EQUALITY_DEFAULT);
}

#[test]
fn equality_outside_the_range_keeps_nothing() {
    assert_kept("id = 2000", 0.0);
    assert_kept("id IN (2000, 3000)", 0.0);
}

#[test]
fn range_keeps_its_share() {
    assert_kept("id <= 100", 0.1);
    assert_kept("id < 101", 0.1);
    assert_kept("id > 900", 0.1);
    assert_kept("100 >= id", 0.1);
    assert_kept("id > 5000", 0.0);
    assert_kept("note < 'x'", INEQUALITY_DEFAULT);
}

#[test]
fn bounds_of_one_column_are_taken_together() {
    assert_kept("id > 400 AND id <= 500", 0.1);
    assert_kept("id BETWEEN 401 AND 500", 0.1);
    assert_kept("day >= DATE '1994-01-01' AND day < DATE '1995-01-01'", 1.0 / 7.0);
    assert_kept("id > 500 AND id < 400", 0.0);
}

#[test]
fn range_of_a_cast_column_is_in_the_units_of_the_column() {
    assert_kept("CAST(day AS TIMESTAMP) >= TIMESTAMP '1998-01-01T00:00:00'", 1.0 / 7.0);
}

#[test]
fn connectives_combine_as_independent() {
    assert_kept("id <= 500 AND city = 'Rome'", 0.5 * 0.9 / 50.0);
    assert_kept("id <= 500 OR id > 900", 1.0 - 0.5 * 0.9);
    assert_kept("NOT (id <= 100)", 0.9);
    assert_kept("city IN ('a', 'b', 'c', 'd', 'e')", 0.09);
    assert_kept("city NOT IN ('a', 'b', 'c', 'd', 'e')", 0.91);
}

#[test]
fn nulls_and_literals_and_flags() {
    assert_kept("city IS NULL", 0.1);
    assert_kept("city IS NOT NULL", 0.9);
    assert_kept("flag", 0.5);
    assert_kept("true", 1.0);
    assert_kept("city LIKE '%burg'", LIKE_DEFAULT);
}

#[test]
fn filter_narrows_only_the_columns_it_names() {
    let input = Profile::from_statistics(&statistics(), 1);
    let output = filter(&input, &parse("id <= 100 AND city = 'Rome'"));
    assert!((output.rows.unwrap() - 1.8).abs() < 0.01, "{:?}", output.rows);
    assert_eq!(output.columns[0].domain, Some(100.0));
    assert_eq!(output.columns[1].domain, Some(1.0));
    assert_eq!(output.columns[2].domain, input.columns[2].domain);
    assert_eq!(output.columns[0].source.rows, 1000.0);
}
