//! Queries whose subtrees run as kernels, compiled for the host: never another answer than plain DataFusion's.

#[path = "../common/mod.rs"]
mod common;

mod arithmetic;
mod benchmarks;
mod cached_copies;
mod cancelling;
mod copies;
mod dates;
mod fallback;
mod fetched;
mod groups_out;
mod join_keys;
mod nodes;
mod parents;
mod placed;
mod plan_cache;
mod predicates;
mod rows_out;
mod served;
mod shapes;
mod shared;
mod short_of_memory;
mod sorted;
mod sorted_texts;
mod stages;
mod symbols;
mod text_keys;
mod together;
mod top;
mod trial;
mod windows;

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use pelton_engine::{DeviceChoice, PeltonGpuExec, Query, SessionOptions};
use pelton_exec::RuntimeOptions;

/// Everything that kernels can do, on the host's cores. Programs are kept between runs of the tests.
fn on_host() -> SessionOptions {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs");
    SessionOptions {
        threads: Some(2),
        device: DeviceChoice::Host,
        runtime: RuntimeOptions {
            cache: Some(cache),
            workers: 2,
            // Every source is also compiled for a GPU, where there is NVRTC (CI installs it).
            check_for: pelton_pipeline::nvrtc_status().is_ok().then_some((9, 0)),
            ..RuntimeOptions::default()
        },
        ..SessionOptions::default()
    }
}

/// The nodes of a planned query that run on a device.
fn device_nodes(query: &Query) -> Vec<Arc<dyn ExecutionPlan>> {
    fn walk(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<dyn ExecutionPlan>>) {
        if plan.is::<PeltonGpuExec>() {
            found.push(Arc::clone(plan));
        }
        plan.children().into_iter().for_each(|child| walk(child, found));
    }
    let mut found = Vec::new();
    walk(query.physical_plan(), &mut found);
    found
}

/// Why nodes of an executed query ran on the CPU after all.
fn fallbacks(query: &Query) -> Vec<String> {
    let nodes = device_nodes(query);
    nodes.iter().filter_map(|node| node.downcast_ref::<PeltonGpuExec>()?.fallback_reason()).collect()
}

/// Compares two drawn tables, in whatever order their rows are; shows where they first differ.
fn assert_same_rows(actual: &str, expected: &str, what: &str) {
    let (actual, expected) = (sorted(actual), sorted(expected));
    let differ = actual.iter().zip(&expected).find(|(actual, expected)| actual != expected);
    assert!(differ.is_none(), "{what}: {differ:?}");
    assert_eq!(actual.len(), expected.len(), "rows of {what}");
}

/// The rows of a drawn table, in an order of their own.
fn sorted(drawn: &str) -> Vec<&str> {
    let mut rows: Vec<&str> =
        drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(str::trim).collect();
    rows.sort_unstable();
    rows
}
