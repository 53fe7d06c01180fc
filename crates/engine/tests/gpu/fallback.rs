//! When a device refuses: the CPU answers, and says why. What is an error on the CPU is one here.

use pelton_engine::{RuntimeOptions, SessionOptions};
use pelton_error::ErrorKind;

use crate::common::{Tables, integers, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

fn tables() -> Tables {
    let tables = Tables::new();
    let rows = 20_000;
    let keys = (0..rows).map(|row| row * 7919 % 1_000_003).collect();
    tables.add("t", integers(&[("key", keys), ("value", (0..rows).collect())]), 5000, vec![]);
    tables
}

const GROUPS: &str = "SELECT key, sum(value) FROM t WHERE value > 3 GROUP BY key";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_device_memory_the_cpu_answers_and_says_why() {
    let tables = tables();
    let session = tables.session(&SessionOptions { device_memory_limit_bytes: Some(1 << 16), ..on_host() });
    let (actual, query) = run(&session, GROUPS).await;
    assert_same_rows(&actual, &tables.expected(GROUPS).await, GROUPS);
    assert_eq!(device_nodes(&query).len(), 1);
    let reasons = fallbacks(&query);
    assert!(reasons.len() == 1 && reasons[0].contains("memory"), "{reasons:?}");
    let report = &query.scan_reports().unwrap()[0];
    assert!(report.bytes_read > 0 && report.row_groups_read == 4, "{report:?}");
}

/// The host computes the window, which the join takes as its input; falling back runs it a second time.
const JOIN_OF_WINDOW: &str = "SELECT n, count(*), sum(value) FROM t JOIN \
     (SELECT key AS k, row_number() OVER (PARTITION BY key % 50 ORDER BY key) AS n FROM t) ON key = k GROUP BY n";
/// The same, where the host's part stops at a number of rows: its last row must not be lost the second time.
const JOIN_OF_TOP: &str = "SELECT n, count(*), sum(value) FROM t JOIN \
     (SELECT key AS k, value % 3 AS n FROM t ORDER BY key LIMIT 7000) ON key = k GROUP BY n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_that_fall_back_at_once_share_nothing_with_each_other_or_with_their_host_inputs() {
    let tables = tables();
    let session = tables.session(&SessionOptions { device_memory_limit_bytes: Some(1 << 16), ..on_host() });
    for sql in [JOIN_OF_WINDOW, JOIN_OF_TOP, GROUPS] {
        let expected = tables.expected(sql).await;
        let all = futures::future::join_all((0..16).map(|_| run(&session, sql))).await;
        for (actual, query) in all {
            assert_same_rows(&actual, &expected, sql);
            assert!(!fallbacks(&query).is_empty(), "{sql}: nothing fell back");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_table_is_an_error_and_not_a_reason_to_try_the_cpu() {
    let tables = tables();
    let session = tables.session(&on_host());
    let query = session.query(GROUPS).await.unwrap();
    tables.damage("t");
    let error = query.collect().await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Corrupt, "{error}");
    assert!(fallbacks(&query).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_morsel_at_a_time_and_equal_hashes_change_nothing() {
    let tables = tables();
    let expected = tables.expected(GROUPS).await;
    let small = RuntimeOptions {
        overlap: false,
        morsel_bytes: 1,
        staging_buffers: 1,
        equal_hashes: true,
        ..on_host().runtime
    };
    let session = tables.session(&SessionOptions { runtime: small, batch_rows: 100, ..on_host() });
    let (actual, query) = run(&session, GROUPS).await;
    assert_same_rows(&actual, &expected, GROUPS);
    assert!(fallbacks(&query).is_empty());
}
