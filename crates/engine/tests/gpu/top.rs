//! ORDER BY … LIMIT: the device gives few rows, the sort above takes the right ones.

use pelton_datagen::Dataset;
use pelton_engine::PeltonSession;
use pelton_testkit::random_rows;

use crate::benchmarks::load;
use crate::common::{Tables, integers, run};
use crate::nodes::explanation;
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// The rows of `sql` are the oracle's, and the device gave what it needs of them and little more.
async fn check(tables: &Tables, session: &PeltonSession, sql: &str) {
    let text = explanation(session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("  top "), "{sql}: {text}");
    let (actual, query) = run(session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    let reasons = fallbacks(&query);
    assert!(reasons.is_empty(), "{sql}: {reasons:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_of_ssb_are_those_of_the_oracle() {
    let tables = load(Dataset::Ssb);
    let session = tables.session(&on_host());
    for sql in [
        "SELECT lo_revenue FROM lineorder ORDER BY lo_revenue DESC LIMIT 10",
        "SELECT lo_revenue FROM lineorder ORDER BY lo_revenue LIMIT 5 OFFSET 5",
        "SELECT lo_orderkey, lo_linenumber, lo_revenue FROM lineorder WHERE lo_discount > 5 \
         ORDER BY lo_revenue DESC, lo_orderkey, lo_linenumber LIMIT 7",
        "SELECT lo_revenue - lo_supplycost AS profit FROM lineorder ORDER BY profit DESC LIMIT 3",
        "SELECT lo_orderkey, lo_linenumber, c_city, lo_extendedprice FROM lineorder \
         JOIN customer ON lo_custkey = c_custkey WHERE c_region = 'ASIA' \
         ORDER BY lo_extendedprice, lo_orderkey, lo_linenumber LIMIT 20",
        "SELECT d_year, lo_orderkey, lo_linenumber FROM lineorder JOIN date ON lo_orderdate = d_datekey \
         ORDER BY d_year, lo_orderkey DESC, lo_linenumber LIMIT 12",
    ] {
        check(&tables, &session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_of_tpch_are_those_of_the_oracle() {
    let tables = load(Dataset::Tpch);
    let session = tables.session(&on_host());
    for sql in [
        "SELECT l_shipdate FROM lineitem ORDER BY l_shipdate LIMIT 10",
        "SELECT l_orderkey, l_linenumber, l_extendedprice * (1 - l_discount) AS price FROM lineitem \
         WHERE l_shipdate < DATE '1995-01-01' ORDER BY price DESC, l_orderkey, l_linenumber LIMIT 10",
        "SELECT o_orderkey, o_totalprice, c_name FROM orders JOIN customer ON o_custkey = c_custkey \
         WHERE c_mktsegment = 'BUILDING' ORDER BY o_totalprice DESC, o_orderkey LIMIT 10",
        "SELECT o_orderdate, o_orderkey FROM orders WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem \
         WHERE l_quantity > 45) ORDER BY o_orderdate DESC, o_orderkey LIMIT 15",
    ] {
        check(&tables, &session, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_extremes_and_ties_come_as_the_sort_wants_them() {
    let tables = Tables::new();
    tables.add("a", random_rows(1, 700), 64, vec![]);
    let session = tables.session(&on_host());
    for key in ["int", "big", "day", "small", "price", "at", "uint"] {
        for order in ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"] {
            for limit in [1, 9, 80, 1000] {
                let sql = format!("SELECT {key} FROM a ORDER BY {key}{order} LIMIT {limit}");
                check(&tables, &session, &sql).await;
            }
            let sql =
                format!("SELECT {key}, id FROM a WHERE id > 20 ORDER BY {key}{order}, id DESC LIMIT 30");
            check(&tables, &session, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_no_threshold_is_for_have_all_rows_sorted() {
    let tables = Tables::new();
    tables.add("a", random_rows(1, 700), 64, vec![]);
    let session = tables.session(&on_host());
    for sql in [
        "SELECT id, word FROM a ORDER BY word, id LIMIT 5",
        "SELECT id, double FROM a ORDER BY double DESC, id LIMIT 5",
        "SELECT id, huge FROM a ORDER BY huge, id LIMIT 5",
    ] {
        let (actual, query) = run(&session, sql).await;
        assert_same_rows(&actual, &tables.expected(sql).await, sql);
        assert!(!device_nodes(&query).is_empty(), "{sql}");
        let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
        assert!(text.contains("  the first 5 sorted by "), "{sql}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_first_rows_and_what_was_not_read_for_them() {
    let tables = Tables::new();
    let rows = integers(&[("key", (0..6000).collect()), ("value", (0..6000).map(|row| row % 7).collect())]);
    tables.add("t", rows, 500, vec![]);
    let session = tables.session(&on_host());
    let sql = "SELECT key, value FROM t ORDER BY key DESC LIMIT 10";
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("top 10 by key desc: rows of key, value"), "{text}");
    let text = explanation(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(text.contains("skipped beyond the threshold: 11 row groups"), "{text}");
    assert!(text.contains("500 rows in, 10 out"), "{text}");
}

/// Which of the rows, as text, is not among those of the oracle.
fn stranger<'a>(some: &'a str, all: &'a str) -> Option<&'a str> {
    let all = crate::sorted(all);
    crate::sorted(some).into_iter().find(|row| all.binary_search(row).is_err())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_groups_no_more_than_are_enough_leave_the_device() {
    let tables = load(Dataset::Ssb);
    let session = tables.session(&on_host());
    let groups = "SELECT lo_custkey, lo_quantity, count(*) AS n, sum(lo_revenue) AS revenue FROM lineorder GROUP BY 1, 2";
    let expected = tables.expected(groups).await;
    let count = crate::sorted(&expected).len();
    assert!(count > 1000, "{count} groups");
    for (limit, rows, brought) in
        [("LIMIT 10", 10, 10), ("LIMIT 7 OFFSET 5", 7, 12), ("LIMIT 1000000", count, count)]
    {
        let sql = format!("{groups} {limit}");
        let (actual, query) = run(&session, &sql).await;
        assert_eq!(crate::sorted(&actual).len(), rows, "{sql}");
        let narrow = |drawn: &str| drawn.replace(' ', "");
        assert_eq!(stranger(&narrow(&actual), &narrow(&expected)), None, "{sql}");
        assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
        let nodes = device_nodes(&query);
        let given: usize = nodes.iter().filter_map(|node| node.metrics()?.output_rows()).sum();
        assert_eq!(given, brought, "{sql}");
    }
    // Whatever selects or counts rows needs them all.
    for sql in [
        format!("SELECT count(*) FROM (SELECT * FROM ({groups}) WHERE n > 1 LIMIT 100000)"),
        format!("SELECT sum(n) FROM ({groups})"),
    ] {
        let (actual, _) = run(&session, &sql).await;
        assert_same_rows(&actual, &tables.expected(&sql).await, &sql);
    }
}
