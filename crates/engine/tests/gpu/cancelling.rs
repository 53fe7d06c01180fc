//! Queries that nobody waits for any more: the run stops, its memory is back, and the next query is none the worse.

use std::time::{Duration, Instant};

use futures::StreamExt;
use pelton_engine::{Runtime, RuntimeOptions, SessionOptions};

use crate::common::{Tables, integers, run};
use crate::{assert_same_rows, fallbacks, on_host};

const GROUPS: &str = "SELECT key, sum(value) FROM t WHERE value > 3 GROUP BY key";

/// What streams that wait for their next use may hold (32 KiB each); the groups of this query take more.
const IDLE_BYTES_MAX: u64 = 1 << 20;

/// Whether a run holds memory, on the device or pinned.
fn is_under_way(runtime: &Runtime) -> bool {
    let machine = runtime.machine();
    let device = machine.device_budget(runtime.device()).unwrap().used_bytes();
    device > IDLE_BYTES_MAX || machine.pinned_budget().used_bytes() > IDLE_BYTES_MAX
}

/// Waits until `holds`, some seconds at most.
async fn wait_until(holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() > Duration::from_secs(20) {
            return false;
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_stops_the_run_and_gives_its_memory_back() {
    let tables = Tables::new();
    let rows = 200_000;
    let keys = (0..rows).map(|row| row * 7919 % 1_000_003).collect();
    tables.add("t", integers(&[("key", keys), ("value", (0..rows).collect())]), 1000, vec![]);
    let runtime = RuntimeOptions { morsel_bytes: 1, ..on_host().runtime };
    let session = tables.session(&SessionOptions { runtime, ..on_host() });
    let expected = tables.expected(GROUPS).await;
    assert_same_rows(&run(&session, GROUPS).await.0, &expected, GROUPS);
    let runtime = session.runtime().unwrap();
    assert!(!is_under_way(&runtime));
    let mut dropped_under_way = 0;
    for _ in 0..5 {
        let query = session.query(GROUPS).await.unwrap();
        let mut stream = query.stream().await.unwrap();
        let reading = tokio::spawn(async move { stream.next().await.is_some() });
        if !wait_until(|| is_under_way(&runtime) || reading.is_finished()).await {
            panic!("the run does not begin");
        }
        reading.abort();
        dropped_under_way += usize::from(reading.await.is_err());
        assert!(wait_until(|| !is_under_way(&runtime)).await, "memory stays in use");
    }
    assert!(dropped_under_way > 0, "every run was over before its stream was dropped");
    let (actual, query) = run(&session, GROUPS).await;
    assert_same_rows(&actual, &expected, GROUPS);
    assert!(fallbacks(&query).is_empty());
    assert!(!is_under_way(&runtime));
}
