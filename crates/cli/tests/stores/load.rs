//! Loads from objects.

use crate::harness::{Place, csv, interrupt, outcome, wait_until, watched};
use crate::{ok, pelton, put, rows, stores};

fn load(place: &Place, store: &str, args: &[&str]) {
    let args: Vec<&str> = ["load", "--quiet", "--table", "t"].iter().chain(args).copied().collect();
    ok(place, store, &args);
}

const CHECK: &str = "SELECT count(*), sum(v), min(t), max(t) FROM t";

/// 400 000 rows in row groups of 50 000.
fn put_many(place: &Place, key: &str) {
    let rows = "SELECT v, concat('text ', v % 1000) AS t FROM generate_series(1, 400000) AS g(v)";
    let sql = format!("COPY ({rows}) TO 's3://pelton/{key}' OPTIONS ('format.max_row_group_size' '50000')");
    ok(place, "s3", &["sql", &sql]);
}

#[test]
fn parquet_is_loaded_from_patterns_with_the_columns_of_folders() {
    let place = Place::new();
    put(&place, "l/year=2023/a.parquet", "SELECT v FROM generate_series(1, 1000) AS g(v)");
    put(&place, "l/year=2024/b.parquet", "SELECT v FROM generate_series(1001, 3000) AS g(v)");
    load(&place, "s3", &["s3://pelton/l/year=*/*.parquet"]);
    let by_year = "SELECT year, count(*), sum(v) FROM t GROUP BY year ORDER BY year";
    assert_eq!(rows(&place, "s3", by_year), ["2023,1000,500500", "2024,2000,4001000"]);
    load(&place, "s3", &["--append", "s3://pelton/l/"]);
    assert_eq!(rows(&place, "s3", "SELECT count(*) FROM t"), ["6000"]);
}

#[test]
fn many_row_groups_are_read_in_order_also_from_a_store_that_fails_now_and_then() {
    let place = Place::new();
    put_many(&place, "many/a.parquet");
    let expected = ["400000,80000200000,text 0,text 999"];
    for store in ["s3", "faulty"] {
        load(&place, store, &["--replace", "s3://pelton/many/a.parquet"]);
        assert_eq!(rows(&place, store, CHECK), expected, "{store}");
        let first = "SELECT v FROM t LIMIT 1";
        assert_eq!(rows(&place, store, first), ["1"], "{store}");
    }
}

#[test]
fn text_and_arrow_are_loaded_too() {
    let place = Place::new();
    put(&place, "kinds/a.csv", "SELECT v, 'x' AS t FROM generate_series(1, 50000) AS g(v)");
    put(&place, "kinds/a.json", "SELECT v, 'x' AS t FROM generate_series(1, 50000) AS g(v)");
    put(&place, "kinds/a.arrow", "SELECT v, 'x' AS t FROM generate_series(1, 50000) AS g(v)");
    for kind in ["csv", "json", "arrow"] {
        load(&place, "faulty", &["--replace", &format!("s3://pelton/kinds/a.{kind}")]);
        assert_eq!(rows(&place, "s3", CHECK), ["50000,1250025000,x,x"], "{kind}");
    }
}

#[test]
fn files_of_an_http_server_are_loaded() {
    let place = Place::new();
    std::fs::write(format!("{}/rows.csv", stores("directory")), csv(0, 20_000)).unwrap();
    load(&place, "s3", &[&format!("{}/rows.csv", stores("http"))]);
    assert_eq!(rows(&place, "s3", "SELECT count(*), max(k) FROM t"), ["20000,19999"]);
}

#[test]
fn memory_is_bounded_whatever_the_size_of_an_object() {
    let place = Place::new();
    let rows = "SELECT v, md5(v::VARCHAR) AS t FROM generate_series(1, 1500000) AS g(v)";
    ok(&place, "s3", &["sql", &format!("COPY ({rows}) TO 's3://pelton/large/a.parquet'")]);
    let args = ["load", "--quiet", "--table", "t", "--memory-limit", "48MiB", "--threads", "2"];
    let mut command = pelton(&place, &stores("s3"));
    command.args(args).arg("s3://pelton/large/a.parquet");
    let (status, peak) = watched(command.spawn().unwrap());
    assert!(status.success());
    assert!(peak < 320 << 20, "{peak} bytes at most");
}

#[test]
fn a_load_is_cancelled_while_it_waits() {
    let place = Place::new();
    put_many(&place, "cancel/a.parquet");
    // A server that takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let mut command = pelton(&place, &endpoint);
    command.args(["load", "--quiet", "--table", "t", "s3://pelton/cancel/a.parquet"]);
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    assert!(wait_until(&mut child, || crate::harness::handles_interrupts(pid)));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let start = std::time::Instant::now();
    interrupt(&child);
    let outcome = outcome(child);
    assert_eq!(outcome.status, Some(130), "{}", outcome.stderr);
    assert!(start.elapsed().as_secs() < 10);
    assert!(place.warehouse_files().iter().all(|name| !name.contains("manifest")));
}
