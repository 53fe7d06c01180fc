//! Skipping never changes an answer: random tables, random predicates, plain DataFusion as the oracle.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_engine::{ScanOptions, SessionOptions, SkippedBy};
use pelton_load::StarLink;
use pelton_testkit::{Random, random_predicate, random_rows};
use pelton_zone::SkipKinds;

use crate::common::{Tables, integers, run};

fn unskipped() -> SessionOptions {
    let scan =
        ScanOptions { skip: SkipKinds::NONE, sideways: false, dynamic: false, ..ScanOptions::default() };
    SessionOptions { scan, ..SessionOptions::default() }
}

#[tokio::test]
async fn random_predicates_select_the_same_rows_as_the_oracle() {
    let tables = Tables::new();
    tables.add("t", random_rows(7, 3000), 97, vec![]);
    let skipping = tables.session(&SessionOptions::default());
    let tiny_batches =
        tables.session(&SessionOptions { batch_rows: 7, threads: Some(1), ..Default::default() });
    let reading_all = tables.session(&unskipped());
    let mut random = Random::new(11);
    let mut skipped = 0;
    for case in 0..150 {
        let sql = format!("SELECT id, word FROM t WHERE {} ORDER BY id", random_predicate(&mut random));
        let expected = tables.expected(&sql).await;
        let (actual, query) = run(&skipping, &sql).await;
        assert_eq!(sorted(&actual), sorted(&expected), "case {case}: {sql}");
        skipped += query.scan_reports().unwrap()[0].skipped.values().map(|skip| skip.row_groups).sum::<u64>();
        for session in [&tiny_batches, &reading_all] {
            assert_eq!(sorted(&run(session, &sql).await.0), sorted(&expected), "case {case}: {sql}");
        }
    }
    assert!(skipped > 100, "only {skipped} row groups were skipped: the test does not test skipping");
}

/// Drawn tables of no rows differ in their header; rows do not.
fn sorted(drawn: &str) -> Vec<&str> {
    let mut rows: Vec<&str> =
        drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(str::trim).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test]
async fn unfiltered_counts_and_bounds_come_from_metadata() {
    let tables = Tables::new();
    tables.add("t", random_rows(3, 1000), 100, vec![]);
    let session = tables.session(&SessionOptions::default());
    let sql = "SELECT count(*), min(int), max(big), min(day), count(price) FROM t";
    let (actual, query) = run(&session, sql).await;
    assert_eq!(sorted(&actual), sorted(&tables.expected(sql).await));
    assert!(query.scan_reports().unwrap().is_empty(), "the table should not have been read");
}

fn star() -> Tables {
    let tables = Tables::new();
    let dimension =
        integers(&[("d_key", (0..100).collect()), ("d_group", (0..100).map(|key| key / 10).collect())]);
    tables.add("dim", dimension, 1000, vec![]);
    // Rows arrive ordered by the dimension's group, so that each row group refers to one or two groups.
    let keys: Vec<i64> = (0..5000).map(|row| (row / 500) * 10 + (row * 7) % 10).collect();
    let fact = integers(&[("f_dim", keys), ("f_value", (0..5000).collect())]);
    let link = StarLink {
        fact_column: "f_dim".into(),
        dimension_table: "dim".into(),
        dimension_key: "d_key".into(),
    };
    tables.add("fact", fact, 250, vec![link]);
    tables
}

/// Dynamic filters off: what is skipped is skipped by sideways metadata alone.
fn sideways_only() -> SessionOptions {
    let scan = ScanOptions { dynamic: false, ..ScanOptions::default() };
    SessionOptions { scan, ..SessionOptions::default() }
}

async fn skipped_by(tables: &Tables, options: &SessionOptions, sql: &str, by: SkippedBy) -> u64 {
    let session = tables.session(options);
    let (actual, query) = run(&session, sql).await;
    assert_eq!(sorted(&actual), sorted(&tables.expected(sql).await), "{sql}");
    let reports = query.scan_reports().unwrap();
    let fact = reports.iter().find(|report| report.table == "fact").expect("the fact table is read");
    fact.skipped.get(&by).map_or(0, |skipped| skipped.row_groups)
}

#[tokio::test]
async fn dimension_filters_skip_fact_row_groups_sideways() {
    let tables = star();
    let joins = [
        "SELECT sum(f_value) FROM fact, dim WHERE f_dim = d_key AND d_group = 3",
        "SELECT sum(f_value) FROM dim JOIN fact ON d_key = f_dim WHERE d_group IN (3)",
        "SELECT sum(f_value) FROM fact WHERE f_dim IN (SELECT d_key FROM dim WHERE d_group = 3)",
        "SELECT count(*) FROM dim LEFT JOIN fact ON d_key = f_dim WHERE d_group = 3",
    ];
    for sql in joins {
        assert_eq!(skipped_by(&tables, &sideways_only(), sql, SkippedBy::Sideways).await, 18, "{sql}");
    }
}

#[tokio::test]
async fn joins_that_keep_unmatched_fact_rows_skip_nothing_sideways() {
    let tables = star();
    let joins = [
        "SELECT count(*), count(d_group) FROM fact LEFT JOIN (SELECT * FROM dim WHERE d_group = 3) d ON f_dim = d_key",
        "SELECT count(*) FROM fact FULL JOIN (SELECT * FROM dim WHERE d_group = 3) d ON f_dim = d_key",
        "SELECT count(*) FROM fact WHERE f_dim NOT IN (SELECT d_key FROM dim WHERE d_group = 3)",
        "SELECT count(*) FROM fact WHERE NOT EXISTS (SELECT 1 FROM dim WHERE d_key = f_dim AND d_group = 3)",
        "SELECT count(*) FROM (SELECT * FROM fact ORDER BY f_value LIMIT 700) f, dim WHERE f_dim = d_key AND d_group = 3",
    ];
    for sql in joins {
        assert_eq!(skipped_by(&tables, &sideways_only(), sql, SkippedBy::Sideways).await, 0, "{sql}");
    }
}

/// A NULL among the keys of the fact table, or that it has any, decides about keys of all groups.
#[tokio::test]
async fn not_in_the_fact_table_skips_nothing_sideways() {
    let tables = Tables::new();
    let nullable = |columns: [(&str, Vec<Option<i64>>); 2]| {
        let columns =
            columns.map(|(name, values)| (name, Arc::new(Int64Array::from(values)) as ArrayRef, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let keys = (0..100).map(Some).chain([None]).collect();
    let groups = (0..100).map(|key| Some(key / 10)).chain([Some(3)]).collect();
    tables.add("dim", nullable([("d_key", keys), ("d_group", groups)]), 1000, vec![]);
    let keys = (0..5000).map(|row| (row != 4999).then_some(row / 50)).collect();
    let link = StarLink {
        fact_column: "f_dim".into(),
        dimension_table: "dim".into(),
        dimension_key: "d_key".into(),
    };
    let fact = nullable([("f_dim", keys), ("f_value", (0..5000).map(Some).collect())]);
    tables.add("fact", fact, 250, vec![link]);
    for of_fact in ["f_value > 2500", "f_value BETWEEN 2500 AND 4000"] {
        let sql = format!(
            "SELECT count(*) FROM dim WHERE d_group = 3 AND d_key NOT IN (SELECT f_dim FROM fact WHERE {of_fact})"
        );
        assert_eq!(skipped_by(&tables, &sideways_only(), &sql, SkippedBy::Sideways).await, 0, "{sql}");
    }
}

#[tokio::test]
async fn a_changed_dimension_makes_sideways_metadata_stale() {
    let tables = star();
    let moved =
        integers(&[("d_key", (0..100).collect()), ("d_group", (0..100).map(|key| 9 - key / 10).collect())]);
    tables.add("dim", moved, 1000, vec![]);
    let sql = "SELECT sum(f_value) FROM fact, dim WHERE f_dim = d_key AND d_group = 3";
    assert_eq!(skipped_by(&tables, &sideways_only(), sql, SkippedBy::Sideways).await, 0);
    let session = tables.session(&sideways_only());
    let (plan, _) = run(&session, &format!("EXPLAIN {sql}")).await;
    assert!(plan.contains("changed since"), "{plan}");
}

#[tokio::test]
async fn keys_found_by_a_join_skip_row_groups_not_yet_read() {
    let tables = star();
    let scan = ScanOptions { sideways: false, ..ScanOptions::default() };
    let options = SessionOptions { scan, threads: Some(1), ..SessionOptions::default() };
    let sql = "SELECT sum(f_value) FROM fact, dim WHERE f_dim = d_key AND d_group = 3";
    assert_eq!(skipped_by(&tables, &options, sql, SkippedBy::Dynamic).await, 18);
}

/// Orders of customers, their lines, and a few orders that a query picks.
fn orders() -> Tables {
    let tables = Tables::new();
    let column = |rows: i64, value: fn(i64) -> i64| (0..rows).map(value).collect::<Vec<_>>();
    let customers = integers(&[("c_key", column(100, |row| row))]);
    let orders =
        integers(&[("o_key", column(20_000, |row| row)), ("o_customer", column(20_000, |row| row % 100))]);
    let lines =
        integers(&[("l_order", column(60_000, |row| row / 3)), ("l_value", column(60_000, |row| row % 11))]);
    let picked =
        integers(&[("p_order", column(500, |row| row * 37 % 5000)), ("p_value", column(500, |row| row))]);
    tables.add("customers", customers, 1000, vec![]);
    tables.add("orders", orders, 1000, vec![]);
    tables.add("lines", lines, 1000, vec![]);
    tables.add("picked", picked, 1000, vec![]);
    tables
}

#[tokio::test]
async fn a_build_side_waits_for_the_filter_of_the_join_above() {
    let tables = orders();
    let sql = "SELECT count(*), sum(l_value) FROM customers JOIN orders ON c_key = o_customer JOIN lines ON o_key = \
               l_order WHERE o_key IN (SELECT p_order FROM picked GROUP BY p_order HAVING sum(p_value) > 490)";
    let expected = tables.expected(sql).await;
    for threads in [1, 2, 5] {
        let session = tables.session(&SessionOptions { threads: Some(threads), ..SessionOptions::default() });
        let (plan, _) = run(&session, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("DeferredExec"), "{plan}");
        for _ in 0..3 {
            let (actual, query) = run(&session, sql).await;
            assert_eq!(sorted(&actual), sorted(&expected), "{threads} threads");
            let reports = query.scan_reports().unwrap();
            let of_orders = reports.iter().find(|report| report.table == "orders").expect("orders are read");
            assert!(
                of_orders.output_rows < 20,
                "{} of 20000 orders, {threads} threads",
                of_orders.output_rows
            );
        }
    }
}
