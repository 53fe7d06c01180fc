//! Groups that come out of a device in pieces: they are those of the CPU, somebody slow holds nobody up, who stops in the
//! middle leaves nothing behind, and memory of the query holds some of them at once, not all.

use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use pelton_datagen::Dataset;
use pelton_engine::{PeltonSession, Runtime, RuntimeOptions, SessionOptions};

use crate::benchmarks::load_at;
use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// 150,000 groups, of which nothing is for the CPU to look at, and which no further pipeline reads.
const MANY: &str =
    "SELECT l_orderkey, max(l_shipdate), min(l_partkey), count(l_tax) FROM lineitem GROUP BY l_orderkey";

const OTHERS: [&str; 8] = [
    // Keys of several words.
    "SELECT l_orderkey, l_linenumber, l_extendedprice, count(*) FROM lineitem WHERE l_partkey % 5 = 1 \
     GROUP BY l_orderkey, l_linenumber, l_extendedprice",
    // Sums that another type may have to hold, and what is computed of them.
    "SELECT l_orderkey, count(*), avg(l_suppkey) FROM lineitem GROUP BY l_orderkey",
    "SELECT l_orderkey, sum(l_extendedprice), sum(l_quantity) * 2 + 1 FROM lineitem GROUP BY l_orderkey",
    "SELECT l_orderkey % 20000 AS k, sum(l_orderkey * 1000003), avg(l_discount) FROM lineitem GROUP BY k",
    // Texts with a dictionary and without.
    "SELECT l_shipmode, l_orderkey, max(l_shipinstruct) FROM lineitem WHERE l_quantity < 9 GROUP BY l_shipmode, l_orderkey",
    "SELECT o_comment, count(*), min(o_orderdate) FROM orders WHERE o_orderkey % 3 = 0 GROUP BY o_comment",
    // Keys and values that are NULL.
    "SELECT few.l_partkey, count(few.l_tax), sum(few.l_suppkey) FROM orders \
     LEFT JOIN (SELECT * FROM lineitem WHERE l_linenumber = 6) few ON few.l_orderkey = o_orderkey GROUP BY few.l_partkey",
    // None at all.
    "SELECT l_orderkey, count(*) FROM lineitem WHERE l_quantity > 1000 GROUP BY l_orderkey",
];

/// So many places at once.
fn in_pieces_of(places: u64) -> SessionOptions {
    let runtime = RuntimeOptions { first_rows: Some(places), ..on_host().runtime };
    SessionOptions { runtime, ..on_host() }
}

/// Device memory that a run holds beyond what idle streams do.
fn is_under_way(runtime: &Runtime) -> bool {
    runtime.machine().device_budget(runtime.device()).unwrap().used_bytes() > 1 << 20
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

async fn check(session: &PeltonSession, tables: &Tables, sql: &str) {
    let (actual, query) = run(session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert!(!device_nodes(&query).is_empty(), "{sql}");
    assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_given_out_are_those_of_the_cpu() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    for options in [on_host(), in_pieces_of(3000)] {
        let session = tables.session(&options);
        for sql in OTHERS.into_iter().chain([MANY]) {
            check(&session, &tables, sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_cut_off_the_groups_that_are_more_than_enough() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    let session = tables.session(&in_pieces_of(1000));
    for limit in [1, 999, 1000, 1001, 5000] {
        let query = session.query(&format!("{MANY} LIMIT {limit}")).await.unwrap();
        assert_eq!(count(&query.collect().await.unwrap()), limit);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_stops_the_run_for_a_while_and_holds_nobody_up() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    let runtime = RuntimeOptions { device_memory_limit_bytes: Some(40 << 20), ..in_pieces_of(4000).runtime };
    let session = tables.session(&SessionOptions { runtime, ..on_host() });
    let slow = session.query(MANY).await.unwrap();
    let mut reader = slow.stream().await.unwrap();
    let first = reader.next().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let runtime = session.runtime().unwrap();
    assert!(is_under_way(&runtime), "the run is over before its groups are taken");

    // It asks for memory that the slow query holds.
    let started = Instant::now();
    let other = "SELECT l_partkey, l_suppkey, l_linenumber, count(*) FROM lineitem \
                 GROUP BY l_partkey, l_suppkey, l_linenumber";
    assert_same_rows(&run(&session, other).await.0, &tables.expected(other).await, other);
    assert!(started.elapsed() < Duration::from_secs(60));

    let rest: Vec<RecordBatch> = reader.try_collect().await.unwrap();
    assert_eq!(first.num_rows() + count(&rest), 150_000);
    assert_eq!(fallbacks(&slow), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_in_the_middle_leaves_nothing_behind() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    let session = tables.session(&in_pieces_of(2000));
    for _ in 0..3 {
        let query = session.query(MANY).await.unwrap();
        let mut reader = query.stream().await.unwrap();
        assert!(reader.next().await.unwrap().unwrap().num_rows() > 0);
        let runtime = session.runtime().unwrap();
        assert!(is_under_way(&runtime), "groups that nobody has taken yet");
        drop(reader);
        let started = Instant::now();
        while is_under_way(&runtime) {
            assert!(started.elapsed() < Duration::from_secs(20), "memory stays in use");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    check(&session, &tables, MANY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_with_less_memory_than_its_groups_take_gets_them_in_pieces() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    // 150,000 groups of four columns of 4 and 8 bytes take 4 MB.
    let session = tables.session(&SessionOptions { memory_limit_bytes: Some(2 << 20), ..in_pieces_of(2000) });
    let slow = session.query(MANY).await.unwrap();
    let mut reader = slow.stream().await.unwrap();
    let mut rows = 0;
    while let Some(batch) = reader.next().await {
        rows += batch.unwrap().num_rows();
        if rows.is_multiple_of(7) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(rows, 150_000);
    assert_eq!(fallbacks(&slow), Vec::<String>::new());
}
