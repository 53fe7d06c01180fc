//! Rows that come out of a device while the run goes on: they are those of the CPU, somebody slow holds nobody up, and
//! who stops in the middle leaves nothing behind.

use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use pelton_datagen::Dataset;
use pelton_engine::{Runtime, RuntimeOptions, SessionOptions};

use crate::benchmarks::load_at;
use crate::common::run;
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// Numbers, decimals, dates, texts with and without a dictionary; 600,000 rows in.
const MANY: &str = "SELECT l_orderkey, l_linenumber, l_extendedprice, l_shipdate, l_shipmode, l_comment \
                    FROM lineitem WHERE l_quantity < 40 AND l_partkey % 7 <> 3";

const OTHERS: [&str; 3] = [
    "SELECT o_totalprice, c_name, c_acctbal, l_linenumber FROM lineitem, orders, customer \
     WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey AND o_totalprice > 100000",
    // Rows without a match have NULLs.
    "SELECT o_orderkey, few.l_quantity, few.l_shipmode, few.l_shipdate FROM orders \
     LEFT JOIN (SELECT * FROM lineitem WHERE l_linenumber = 7) few ON few.l_orderkey = o_orderkey \
     WHERE o_orderkey % 3 = 0",
    "SELECT l_partkey FROM lineitem WHERE l_quantity > 1000",
];

/// Parts are as small as they get.
fn options() -> SessionOptions {
    SessionOptions { memory_limit_bytes: Some(64 << 20), ..on_host() }
}

/// Device memory that a run holds beyond what idle streams do.
fn is_under_way(runtime: &Runtime) -> bool {
    runtime.machine().device_budget(runtime.device()).unwrap().used_bytes() > 1 << 20
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_given_out_are_those_of_the_cpu() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    let session = tables.session(&options());
    for sql in OTHERS.into_iter().chain([MANY]) {
        let expected = tables.expected(sql).await;
        let (actual, query) = run(&session, sql).await;
        assert_same_rows(&actual, &expected, sql);
        assert!(!device_nodes(&query).is_empty(), "{sql}");
        assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_stops_the_run_for_a_while_and_holds_nobody_up() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    let runtime = RuntimeOptions { device_memory_limit_bytes: Some(24 << 20), ..on_host().runtime };
    let session = tables.session(&SessionOptions { runtime, ..options() });
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let all = session.query(MANY).await.unwrap().stream().await.unwrap();
    let all = count(&all.try_collect::<Vec<_>>().await.unwrap());

    let slow = session.query(MANY).await.unwrap();
    let mut reader = slow.stream().await.unwrap();
    let first = reader.next().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let runtime = session.runtime().unwrap();
    assert!(is_under_way(&runtime), "the run is over before its rows are taken");

    // It asks for memory that the slow query holds.
    let groups = "SELECT l_orderkey, count(*), sum(l_quantity) FROM lineitem GROUP BY l_orderkey";
    let started = Instant::now();
    let (actual, query) = run(&session, groups).await;
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_same_rows(&actual, &tables.expected(groups).await, groups);
    assert_eq!(fallbacks(&query), Vec::<String>::new());

    let rest: Vec<RecordBatch> = reader.try_collect().await.unwrap();
    assert_eq!(first.num_rows() + count(&rest), all);
    assert_eq!(fallbacks(&slow), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_in_the_middle_leaves_nothing_behind() {
    let tables = load_at(Dataset::Tpch, 0.1, 16_384);
    let session = tables.session(&options());
    let expected = tables.expected(MANY).await;
    for _ in 0..3 {
        let query = session.query(MANY).await.unwrap();
        let mut reader = query.stream().await.unwrap();
        assert!(reader.next().await.unwrap().unwrap().num_rows() > 0);
        drop(reader);
        let runtime = session.runtime().unwrap();
        let started = Instant::now();
        while is_under_way(&runtime) {
            assert!(started.elapsed() < Duration::from_secs(20), "memory stays in use");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_same_rows(&run(&session, MANY).await.0, &expected, MANY);
}
