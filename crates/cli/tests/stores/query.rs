//! Queries over objects.

use crate::harness::Place;
use crate::{ok, put, rows, stores};

#[test]
fn objects_folders_and_patterns_are_queried() {
    let place = Place::new();
    put(&place, "q/year=2023/a.parquet", "SELECT v FROM generate_series(1, 1000) AS g(v)");
    put(&place, "q/year=2024/b.parquet", "SELECT v FROM generate_series(1001, 3000) AS g(v)");
    let sum = |what: &str| rows(&place, "s3", &format!("SELECT count(*), sum(v) FROM 's3://pelton/q{what}'"));
    assert_eq!(sum("/year=2023/a.parquet"), ["1000,500500"]);
    assert_eq!(sum(""), ["3000,4501500"]);
    assert_eq!(sum("/"), ["3000,4501500"]);
    assert_eq!(sum("/year=*/b*.parquet"), ["2000,4001000"]);
    let by_year = "SELECT year, count(*) FROM 's3://pelton/q/*/*.parquet' GROUP BY year ORDER BY year";
    assert_eq!(rows(&place, "s3", by_year), ["2023,1000", "2024,2000"]);
    let filtered = "SELECT max(v) FROM 's3a://pelton/q/' WHERE year = 2023 AND v % 7 = 0";
    assert_eq!(rows(&place, "s3", filtered), ["994"]);
}

#[test]
fn csv_and_json_are_queried_too() {
    let place = Place::new();
    put(&place, "text/a.csv", "SELECT v, v * 2 AS w FROM generate_series(1, 100) AS g(v)");
    put(&place, "text/a.json", "SELECT v FROM generate_series(1, 100) AS g(v)");
    assert_eq!(rows(&place, "s3", "SELECT sum(w) FROM 's3://pelton/text/a.csv'"), ["10100"]);
    assert_eq!(rows(&place, "s3", "SELECT sum(v) FROM 's3://pelton/text/a.json'"), ["5050"]);
}

#[test]
fn external_tables_find_their_store() {
    let place = Place::new();
    put(&place, "ext/a.parquet", "SELECT v FROM generate_series(1, 10) AS g(v)");
    let sql = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://pelton/ext/'; SELECT sum(v) FROM t";
    let file = place.file("q.sql", sql);
    assert!(ok(&place, "s3", &["sql", "--format", "csv", "--file", &file]).contains("55"));
}

#[test]
fn a_store_that_fails_now_and_then_gives_the_same_rows() {
    let place = Place::new();
    let series = "SELECT v, v * v AS w FROM generate_series(1, 400000) AS g(v)";
    put(&place, "faults/a.parquet", series);
    let query = "SELECT count(*), sum(v), sum(w) FROM 's3://pelton/faults/a.parquet'";
    assert_eq!(rows(&place, "faulty", query), rows(&place, "s3", query));
}

#[test]
fn files_of_an_http_server_are_queried() {
    let place = Place::new();
    let target = format!("{}/a b.parquet", stores("directory"));
    ok(&place, "s3", &["sql", &format!("COPY (SELECT v FROM generate_series(1, 9) AS g(v)) TO '{target}'")]);
    let url = format!("{}/a%20b.parquet", stores("http"));
    assert_eq!(rows(&place, "s3", &format!("SELECT sum(v) FROM '{url}'")), ["45"]);
}
