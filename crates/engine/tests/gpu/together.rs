//! Sixteen queries at once on one device that has too little memory for all of them.
//!
//! On the host target at a small scale; with a GPU and under another scale by hand:
//!
//! ```sh
//! PELTON_TOGETHER=gpu PELTON_TOGETHER_SCALE=1 PELTON_TOGETHER_LIMIT=1073741824 cargo test --release -p pelton-engine --test gpu together -- --nocapture
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use datafusion::physical_plan::ExecutionPlan;
use pelton_datagen::{Dataset, queries};
use pelton_engine::{DeviceChoice, PeltonGpuExec, SessionOptions};

use crate::benchmarks::{SCALE, load_at};
use crate::common::run;
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

const CLIENTS: usize = 16;
/// Enough for every query alone, far from enough for all.
const LIMIT_BYTES: u64 = 12 << 20;

fn times_parked(node: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    Some(node.downcast_ref::<PeltonGpuExec>()?.times_parked())
}

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is '{text}'")),
        Err(_) => default,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn sixteen_queries_at_once_in_little_memory_all_end_with_the_same_rows() {
    let scale = variable("PELTON_TOGETHER_SCALE", SCALE);
    let loaded = load_at(Dataset::Tpch, scale, if scale < 0.1 { 4096 } else { 131_072 });
    let mut expected = Vec::new();
    for query in queries(Dataset::Tpch) {
        let sql = query.sql_for_scale(scale);
        expected.push((query.name, loaded.expected(&sql).await, sql));
    }
    let is_gpu = std::env::var("PELTON_TOGETHER").is_ok_and(|device| device == "gpu");
    let mut options = SessionOptions {
        device_memory_limit_bytes: Some(variable("PELTON_TOGETHER_LIMIT", LIMIT_BYTES)),
        ..on_host()
    };
    if is_gpu {
        options.device = DeviceChoice::Gpu(None);
        options.threads = None;
    }
    let (session, expected) = (Arc::new(loaded.session(&options)), Arc::new(expected));
    let (on_device, parked, fell_back) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let counts = Arc::new((on_device, parked, fell_back));
    let started = Instant::now();
    let client = |number: usize| {
        let (session, expected, counts) = (Arc::clone(&session), Arc::clone(&expected), Arc::clone(&counts));
        async move {
            for turn in 0..expected.len() {
                let (name, rows, sql) = &expected[(turn + number * 5) % expected.len()];
                let (actual, ran) = run(&session, sql).await;
                assert_same_rows(&actual, rows, name);
                counts.0.fetch_add(device_nodes(&ran).len(), Ordering::Relaxed);
                let reasons = fallbacks(&ran);
                reasons.iter().for_each(|reason| println!("{name} fell back: {reason}"));
                counts.2.fetch_add(reasons.len(), Ordering::Relaxed);
                let parked: usize = device_nodes(&ran).iter().filter_map(times_parked).sum();
                counts.1.fetch_add(parked, Ordering::Relaxed);
            }
        }
    };
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(client(number))).collect();
    for client in clients {
        client.await.unwrap();
    }
    let [on_device, parked, fell_back] =
        [&counts.0, &counts.1, &counts.2].map(|count| count.load(Ordering::Relaxed));
    println!(
        "{} queries in {:.2} s: {on_device} subtrees on the device, parked {parked} times, {fell_back} fell back",
        CLIENTS * expected.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(parked > 0, "no query had to wait for memory");
    assert!(fell_back * 20 < on_device, "{fell_back} of {on_device} subtrees fell back");
}
