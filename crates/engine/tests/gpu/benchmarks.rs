//! All queries of SSB and TPC-H, beside plain DataFusion on the same rows.

use datafusion::arrow::compute::concat_batches;
use pelton_datagen::{Dataset, Query as BenchmarkQuery, batches, queries, tables};
use pelton_engine::{Filters, MemoryTest, OverflowChecks, PeltonSession, RuntimeOptions, SessionOptions};

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

pub(crate) const SCALE: f64 = 0.003;
const SEED: u64 = 42;

pub(crate) fn load(dataset: Dataset) -> Tables {
    load_at(dataset, SCALE, 4096)
}

/// The tables at `scale`, in row groups of `row_group_rows`.
pub(crate) fn load_at(dataset: Dataset, scale: f64, row_group_rows: u32) -> Tables {
    let loaded = Tables::new();
    for table in tables(dataset, scale).unwrap() {
        let rows: Vec<_> = batches(dataset, table.name, scale, 0, 1, SEED).unwrap().collect();
        loaded.add(table.name, concat_batches(&table.schema, &rows).unwrap(), row_group_rows, vec![]);
    }
    loaded
}

/// Subtrees of TPC-H's queries that run on the device at least, all of which have been seen there.
const TPCH_SUBTREES: [(&str, usize); 22] = [
    ("Q1", 1),
    ("Q2", 1),
    ("Q3", 1),
    ("Q4", 1),
    ("Q5", 1),
    ("Q6", 1),
    ("Q7", 1),
    ("Q8", 1),
    ("Q9", 1),
    ("Q10", 1),
    ("Q11", 2),
    ("Q12", 1),
    ("Q13", 1),
    ("Q14", 1),
    ("Q15", 1),
    ("Q16", 1),
    ("Q17", 1),
    ("Q18", 1),
    ("Q19", 1),
    ("Q20", 1),
    ("Q21", 1),
    ("Q22", 1),
];

/// Runs `query` both ways; gives how many subtrees ran on the device.
async fn check(tables: &Tables, session: &PeltonSession, query: &BenchmarkQuery) -> usize {
    let sql = query.sql_for_scale(SCALE);
    let (actual, ran) = run(session, &sql).await;
    assert_same_rows(&actual, &tables.expected(&sql).await, query.name);
    let reasons = fallbacks(&ran);
    // Many keys, some of rows that the CPU brings: how wide they are is known only then.
    let is_too_wide =
        ["Q10", "Q18"].contains(&query.name) && reasons.iter().all(|reason| reason.contains("group keys"));
    assert!(reasons.is_empty() || is_too_wide, "{} fell back: {reasons:?}", query.name);
    device_nodes(&ran).len() - reasons.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_of_ssb_runs_as_one_subtree_with_the_same_rows() {
    let tables = load(Dataset::Ssb);
    let session = tables.session(&on_host());
    for query in queries(Dataset::Ssb) {
        assert_eq!(check(&tables, &session, query).await, 1, "{}", query.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_of_tpch_has_the_same_rows_and_runs_on_the_device() {
    let tables = load(Dataset::Tpch);
    let session = tables.session(&on_host());
    for (query, (name, subtrees)) in queries(Dataset::Tpch).iter().zip(TPCH_SUBTREES) {
        assert_eq!(query.name, name);
        let planned = session.query(&query.sql_for_scale(SCALE)).await.unwrap();
        let nodes = device_nodes(&planned).len();
        assert!(nodes >= subtrees, "{name}: {nodes} of {subtrees} subtrees on the device");
        check(&tables, &session, query).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arithmetic_checked_everywhere_has_the_same_rows() {
    let everywhere = RuntimeOptions { overflow_checks: OverflowChecks::Everywhere, ..on_host().runtime };
    let options = SessionOptions { runtime: everywhere, ..on_host() };
    let tables = load(Dataset::Tpch);
    let session = tables.session(&options);
    for name in ["Q1", "Q6", "Q9", "Q14"] {
        let query = queries(Dataset::Tpch).iter().find(|query| query.name == name).unwrap();
        assert_eq!(check(&tables, &session, query).await, 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_computed_without_branches_have_the_same_rows() {
    let predicated = RuntimeOptions { filters: Filters::Predicated, ..on_host().runtime };
    let options = SessionOptions { runtime: predicated, ..on_host() };
    for (dataset, names) in [
        (Dataset::Ssb, ["Q1.1", "Q1.2", "Q1.3", "Q2.1", "Q4.1"].as_slice()),
        (Dataset::Tpch, ["Q1", "Q6", "Q12", "Q14"].as_slice()),
    ] {
        let tables = load(dataset);
        let session = tables.session(&options);
        let chosen: Vec<_> = queries(dataset).iter().filter(|query| names.contains(&query.name)).collect();
        assert_eq!(chosen.len(), names.len());
        for query in chosen {
            assert_eq!(check(&tables, &session, query).await, 1, "{}", query.name);
        }
    }
}

/// Runs all queries of both benchmarks under `runtime`, none of which may fall back to the CPU.
async fn same_rows_under(runtime: RuntimeOptions) {
    let options = SessionOptions { runtime, ..on_host() };
    for dataset in [Dataset::Ssb, Dataset::Tpch] {
        let tables = load(dataset);
        let session = tables.session(&options);
        for query in queries(dataset) {
            let sql = query.sql_for_scale(SCALE);
            let (actual, ran) = run(&session, &sql).await;
            assert_same_rows(&actual, &tables.expected(&sql).await, query.name);
            let reasons = fallbacks(&ran);
            assert!(reasons.is_empty(), "{} fell back: {reasons:?}", query.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_devices_together_give_the_same_rows() {
    same_rows_under(RuntimeOptions { more_devices: vec![1, 2], row_groups_max: 1, ..on_host().runtime })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_refused_once_at_every_step_gives_the_same_rows() {
    let runtime =
        RuntimeOptions { memory_test: MemoryTest::RefuseOnce, row_groups_max: 1, ..on_host().runtime };
    same_rows_under(runtime).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_all_spill_give_the_same_rows() {
    let runtime =
        RuntimeOptions { memory_test: MemoryTest::SpillAlways, row_groups_max: 1, ..on_host().runtime };
    same_rows_under(runtime).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hash_tables_that_all_spill_give_the_same_rows() {
    let runtime =
        RuntimeOptions { memory_test: MemoryTest::SpillTables, row_groups_max: 1, ..on_host().runtime };
    same_rows_under(runtime).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_with_room_for_one_row_grow_and_give_the_same_rows() {
    let runtime = RuntimeOptions { first_rows: Some(1), row_groups_max: 1, ..on_host().runtime };
    same_rows_under(runtime).await;
}
