//! `auto`: the CPU first, then whoever took less.

use std::time::Duration;

use pelton_engine::{DeviceChoice, SessionOptions};

use crate::common::{Tables, integers, run};
use crate::nodes::explanation;
use crate::{assert_same_rows, device_nodes, on_host};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_device_is_tried_out_behind_a_query_and_then_whoever_took_less_runs() {
    let tables = Tables::new();
    let rows = 200_000;
    let fact = integers(&[
        ("f_key", (0..rows).map(|row| row * 7 % 9973).collect()),
        ("f_value", (0..rows).collect()),
    ]);
    tables.add("fact", fact, 50_000, vec![]);
    let session = tables.session(&SessionOptions { device: DeviceChoice::AutoHost, ..on_host() });
    let query_above = |least: i64| {
        format!(
            "SELECT f_key, sum(f_value) FROM fact WHERE f_value > {least} GROUP BY f_key ORDER BY 2 DESC LIMIT 5"
        )
    };
    let (actual, query) = run(&session, &query_above(10)).await;
    assert_same_rows(&actual, &tables.expected(&query_above(10)).await, "first");
    assert!(device_nodes(&query).is_empty(), "the first run is the CPU's");
    let verdict = async {
        loop {
            // Other numbers, the same query. Where a part is the CPU's, smaller parts of it are tried out.
            run(&session, &query_above(11)).await;
            let text = explanation(&session, &format!("EXPLAIN {}", query_above(11))).await;
            if let Some(at) = text.find(" ms on the device, ") {
                return text[..at + 40].to_owned();
            }
            if !text.contains("PeltonTrialExec") && !text.contains("PeltonGpuExec") {
                return "the CPU".to_owned();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), verdict).await.expect("a verdict within five minutes");
    for least in [12, 13, 14] {
        let (actual, _) = run(&session, &query_above(least)).await;
        assert_same_rows(&actual, &tables.expected(&query_above(least)).await, "later");
    }
}
