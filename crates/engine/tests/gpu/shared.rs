//! What two parts of a statement have in common is computed once: groups, hash tables, and what a scalar subquery reads.

use datafusion::physical_plan::displayable;
use pelton_datagen::{Dataset, queries};
use pelton_engine::{DeviceChoice, PeltonSession, Query, SessionOptions};

use crate::common::{Tables, integers, run};
use crate::nodes::explanation;
use crate::{assert_same_rows, benchmarks, device_nodes, fallbacks, on_host};

/// Orders of 40 customers, and customers by area.
fn tables() -> Tables {
    let tables = Tables::new();
    let rows = 6000_i64;
    let orders = integers(&[
        ("o_id", (0..rows).collect()),
        ("o_customer", (0..rows).map(|row| row * row % 41).collect()),
        ("o_amount", (0..rows).map(|row| row * 37 % 1009).collect()),
        ("o_bonus", (0..rows).map(|row| row * 11 % 13).collect()),
    ]);
    tables.add("orders", orders, 500, vec![]);
    let customers = integers(&[
        ("c_id", (0..60).collect()),
        ("c_area", (0..60).map(|id| id % 7).collect()),
        ("c_boss", (0..60).map(|id| id / 3).collect()),
    ]);
    tables.add("customer", customers, 60, vec![]);
    tables
}

/// How often rows of `table` were scanned, and how many row groups those scans read together.
fn reads_of(query: &Query, table: &str) -> (usize, u64) {
    let reports = query.scan_reports().unwrap();
    let of_table = reports.iter().filter(|report| report.table == table);
    of_table.fold((0, 0), |(scans, read), report| (scans + 1, read + report.row_groups_read))
}

/// Runs `sql`, which one node of the device answers in full, as plain DataFusion does.
async fn ran_whole(tables: &Tables, session: &PeltonSession, sql: &str) -> Query {
    let (actual, ran) = run(session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    let plan = displayable(ran.physical_plan().as_ref()).indent(true).to_string();
    assert_eq!(device_nodes(&ran).len(), 1, "{sql}: {plan}");
    assert!(fallbacks(&ran).is_empty(), "{sql}: {:?}", fallbacks(&ran));
    ran
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_and_its_maximum_read_their_table_once() {
    let tables = benchmarks::load(Dataset::Tpch);
    let session = tables.session(&on_host());
    let query = queries(Dataset::Tpch).iter().find(|query| query.name == "Q15").unwrap();
    let sql = query.sql_for_scale(benchmarks::SCALE);
    let ran = ran_whole(&tables, &session, &sql).await;
    let (scans, read) = reads_of(&ran, "lineitem");
    let report = &ran.scan_reports().unwrap()[0];
    assert_eq!(scans, 1);
    assert!(read > 1 && read <= report.row_groups_total, "{read} of {} row groups", report.row_groups_total);
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert_eq!(text.matches("reads lineitem").count(), 1, "{text}");
    assert!(text.contains("made once, read by pipelines 1 and "), "{text}");
    assert!(!text.contains("ScalarSubqueryExec"), "{text}");
    // The second time the plan comes from the cache.
    let again = ran_whole(&tables, &session, &sql).await;
    assert!(again.has_cached_plan());
    assert_eq!(reads_of(&again, "lineitem"), (scans, read));
    // The CPU computes the view once in a way of its own.
    let on_cpu = tables.session(&SessionOptions { device: DeviceChoice::Cpu, ..on_host() });
    let (actual, ran) = run(&on_cpu, &sql).await;
    assert_same_rows(&actual, &tables.expected(&sql).await, "Q15 on the CPU");
    assert_eq!(reads_of(&ran, "lineitem"), (1, read));
}

const TOTALS: &str =
    "WITH totals AS (SELECT o_customer AS customer, sum(o_amount) AS total FROM orders GROUP BY o_customer)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_with_are_computed_once_however_often_they_are_used() {
    let tables = tables();
    let session = tables.session(&on_host());
    for select in [
        "SELECT a.customer, b.customer FROM totals a JOIN totals b ON a.total = b.total",
        "SELECT a.customer, a.total - b.total FROM totals a JOIN totals b ON a.customer = b.customer + 1",
        "SELECT c_area, sum(a.total), count(*), sum(b.total) FROM customer JOIN totals a ON c_id = a.customer \
         JOIN totals b ON c_boss = b.customer GROUP BY c_area",
        "SELECT customer FROM totals WHERE total > (SELECT avg(total) FROM totals)",
        "SELECT customer FROM totals WHERE total = (SELECT max(total) FROM totals) OR total = (SELECT min(total) FROM totals)",
        "SELECT count(*), sum(total) FROM totals WHERE total < (SELECT max(total) / 2 FROM totals)",
        "SELECT customer, total FROM totals WHERE total > (SELECT avg(total) FROM totals) ORDER BY total DESC, customer LIMIT 3",
        // Of no rows the greatest is NULL, and nothing is equal to it.
        "SELECT customer FROM totals WHERE total = (SELECT max(total) FROM totals WHERE total < 0)",
    ] {
        let sql = format!("{TOTALS} {select}");
        let ran = ran_whole(&tables, &session, &sql).await;
        assert_eq!(reads_of(&ran, "orders"), (1, 12), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_build_sides_are_one_hash_table() {
    let tables = tables();
    let session = tables.session(&on_host());
    let sql = "SELECT a.c_area, b.c_area, count(*), sum(o_amount) FROM orders JOIN customer a ON o_customer = a.c_id \
               JOIN customer b ON o_bonus = b.c_id GROUP BY a.c_area, b.c_area";
    let ran = ran_whole(&tables, &session, sql).await;
    assert_eq!(reads_of(&ran, "customer"), (1, 1));
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("made once, read by pipelines 1 and 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_differs_at_all_is_not_shared() {
    let tables = tables();
    let session = tables.session(&on_host());
    for (sql, scans) in [
        // Another filter, function, key, divisor.
        (
            "SELECT count(*) FROM (SELECT o_customer k, sum(o_amount) s FROM orders WHERE o_bonus > 3 GROUP BY 1) a JOIN \
          (SELECT o_customer k, sum(o_amount) s FROM orders WHERE o_bonus > 4 GROUP BY 1) b ON a.k = b.k AND a.s > b.s",
            2,
        ),
        (
            "SELECT a.k, a.s, b.s FROM (SELECT o_customer k, sum(o_amount) s FROM orders GROUP BY 1) a JOIN \
          (SELECT o_customer k, min(o_amount) s FROM orders GROUP BY 1) b ON a.k = b.k",
            2,
        ),
        (
            "SELECT count(*), sum(b.s) FROM (SELECT o_customer k, sum(o_amount) s FROM orders GROUP BY 1) a JOIN \
          (SELECT o_bonus k, sum(o_amount) s FROM orders GROUP BY 1) b ON a.k = b.k",
            2,
        ),
        (
            "SELECT a.k, a.s, b.s FROM (SELECT o_customer k, sum(CASE WHEN o_amount / 0e0 > 0 THEN 1 ELSE 2 END) s FROM orders \
          WHERE o_amount > 0 GROUP BY 1) a JOIN (SELECT o_customer k, sum(CASE WHEN o_amount / -0e0 > 0 THEN 1 ELSE 2 END) s FROM orders \
          WHERE o_amount > 0 GROUP BY 1) b ON a.k = b.k",
            2,
        ),
        // The same groups, of which one side asks for more: each has its own.
        (
            "SELECT a.k, a.s, b.n FROM (SELECT o_customer k, sum(o_amount) s FROM orders GROUP BY 1) a JOIN \
          (SELECT o_customer k, sum(o_amount) s, count(*) n FROM orders GROUP BY 1) b ON a.k = b.k AND a.s = b.s",
            2,
        ),
    ] {
        let (actual, ran) = run(&session, sql).await;
        assert_same_rows(&actual, &tables.expected(sql).await, sql);
        assert_eq!(reads_of(&ran, "orders").0, scans, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chance_is_asked_each_time() {
    let tables = tables();
    let session = tables.session(&on_host());
    for (function, kind) in [("random()", "DOUBLE"), ("uuid()", "VARCHAR")] {
        // Of one and the same draw all rows would be equal.
        let sql = format!(
            "WITH drawn AS (SELECT o_id, CAST({function} AS {kind}) AS drawn FROM orders) SELECT count(*), \
             count(CASE WHEN a.drawn = b.drawn THEN 1 END) FROM drawn a JOIN drawn b ON a.o_id = b.o_id"
        );
        let (actual, _) = run(&session, &sql).await;
        assert!(actual.contains("| 6000     | 0 "), "{sql}: {actual}");
        let sql = format!(
            "WITH drawn AS (SELECT o_customer k, max(CAST({function} AS {kind})) AS drawn FROM orders GROUP BY o_customer) \
             SELECT count(*) FROM drawn WHERE drawn = (SELECT max(drawn) FROM drawn)"
        );
        let (actual, _) = run(&session, &sql).await;
        assert!(actual.contains("| 0 "), "{sql}: {actual}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subquery_that_several_places_ask_for_stays_one() {
    let tables = tables();
    let session = tables.session(&on_host());
    for select in [
        "SELECT customer, total - (SELECT max(total) FROM totals) FROM totals WHERE total < (SELECT max(total) FROM totals)",
        "SELECT customer FROM totals WHERE total < (SELECT max(total) FROM totals LIMIT 1)",
        "SELECT customer FROM totals WHERE total = (SELECT total FROM totals WHERE customer = 3)",
        "SELECT customer FROM totals WHERE total > (SELECT min(total) FROM totals WHERE total < (SELECT max(total) FROM totals))",
    ] {
        let sql = format!("{TOTALS} {select}");
        let (actual, ran) = run(&session, &sql).await;
        assert_same_rows(&actual, &tables.expected(&sql).await, &sql);
        assert!(fallbacks(&ran).is_empty(), "{sql}: {:?}", fallbacks(&ran));
    }
}
