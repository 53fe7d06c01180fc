//! `auto`: the CPU first, then whoever took less.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use pelton_engine::{DeviceChoice, SessionOptions, memory_shares};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_on_trial_are_as_many_as_are_expected_without() {
    fn on_trial(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let is_it = plan.name() == "PeltonTrialExec";
        let below = || plan.children().into_iter().find_map(on_trial);
        if is_it { Some(Arc::clone(plan)) } else { below() }
    }
    let tables = Tables::new();
    let rows = 200_000;
    let fact = integers(&[
        ("f_key", (0..rows).map(|row| row * 7 % 9973).collect()),
        ("f_value", (0..rows).collect()),
    ]);
    tables.add("fact", fact, 50_000, vec![]);
    let session = tables.session(&SessionOptions { device: DeviceChoice::AutoHost, ..on_host() });
    let sql = "SELECT f_key, sum(f_value) FROM fact WHERE f_value > 9 GROUP BY f_key ORDER BY 2 DESC LIMIT 5";
    let query = session.query(sql).await.unwrap();
    let trial = on_trial(query.physical_plan()).expect("nothing is known of it yet");
    let rows = |plan: &Arc<dyn ExecutionPlan>| {
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        statistics.unwrap().num_rows.get_value().copied()
    };
    assert!(rows(&trial).is_some());
    assert_eq!(rows(&trial), rows(trial.children()[0]));
}

/// Without a GPU, kernels compiled for the host are tried out for a query that comes again and scans enough rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_gpu_kernels_of_the_host_are_tried_out_for_what_comes_again() {
    let (memory_limit_bytes, host_kernel_bytes) = memory_shares(Some(16 << 30), DeviceChoice::Auto);
    if host_kernel_bytes == 0 {
        println!("SKIPPED: there is a GPU here, or no C++ compiler");
        return;
    }
    assert_eq!((memory_limit_bytes, host_kernel_bytes), (Some(14 << 30), 2 << 30));
    assert_eq!(memory_shares(Some(1 << 30), DeviceChoice::Auto), (Some(1 << 30), 0));
    assert_eq!(memory_shares(Some(16 << 30), DeviceChoice::Cpu), (Some(16 << 30), 0));
    let tables = Tables::new();
    let rows = 1_100_000;
    let fact = integers(&[
        ("f_key", (0..rows).map(|row| row * 7 % 13).collect()),
        ("f_value", (0..rows).map(|row| row % 1000).collect()),
    ]);
    let few = fact.slice(0, 100_000);
    tables.add("fact", fact, 250_000, vec![]);
    tables.add("few", few, 50_000, vec![]);
    let options = SessionOptions {
        device: DeviceChoice::Auto,
        memory_limit_bytes,
        host_kernel_bytes,
        runtime: on_host().runtime,
        ..SessionOptions::default()
    };
    let session = tables.session(&options);
    let query = |table: &str| {
        format!(
            "SELECT f_key, sum(f_value * f_value), count(*) FROM {table} WHERE f_value > 10 GROUP BY f_key ORDER BY 1"
        )
    };
    let expected = tables.expected(&query("fact")).await;
    let of_few = explanation(&session, &format!("EXPLAIN {}", query("few"))).await;
    assert!(!of_few.contains("PeltonTrialExec"), "too few rows: {of_few}");
    let chosen = async {
        loop {
            let (actual, ran) = run(&session, &query("fact")).await;
            assert_same_rows(&actual, &expected, "of fact");
            let text = explanation(&session, &format!("EXPLAIN {}", query("fact"))).await;
            if !text.contains("PeltonTrialExec") {
                return (text, ran);
            }
            assert!(device_nodes(&ran).is_empty(), "it is tried out behind a query");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (text, _) = tokio::time::timeout(Duration::from_secs(300), chosen).await.expect("a verdict");
    // Unoptimised operators of the CPU are slow; kernels are compiled as ever.
    if text.contains("PeltonGpuExec") {
        assert!(text.contains(" ms in compiled kernels, "), "{text}");
        let (actual, ran) = run(&session, &query("fact")).await;
        assert_same_rows(&actual, &expected, "in kernels");
        assert_eq!(device_nodes(&ran).len(), 1);
    }
}
