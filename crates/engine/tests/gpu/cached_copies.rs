//! Cached plans with state of the CPU in them: copies run at once, one after another and while others are made, and read
//! nothing of each other.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNode;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::StreamExt;
use pelton_datagen::{Dataset, queries};
use pelton_engine::{DeviceChoice, PeltonSession, Query, SessionOptions};

use crate::benchmarks::{SCALE, load};
use crate::common::{Tables, integers, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// A scalar subquery that the kernels of a device are given, and one that the filter of a scan is.
const ABOVE_MEAN: &str = "SELECT key, sum(value) AS total FROM t WHERE value > (SELECT max(key) FROM t) GROUP BY key \
                          HAVING sum(value) > (SELECT sum(value) / 8 FROM t) ORDER BY key";

/// Rows above a device, filtered and changed by the CPU with the results of two scalar subqueries.
const ON_CPU: &str = "SELECT md5(CAST(total + (SELECT bit_or(id) FROM d) AS VARCHAR)) AS h FROM \
                      (SELECT key, sum(value) AS total FROM t GROUP BY key) \
                      WHERE md5(CAST(total AS VARCHAR)) <> md5(CAST((SELECT max(id) FROM d) AS VARCHAR))";

/// A join of the CPU, above devices and below one.
const JOINED: &str = "SELECT count(*) AS pairs, sum(v.total) AS sums, max(d.name) AS names FROM \
                      (SELECT key, sum(value) AS total FROM t GROUP BY key) v FULL JOIN d ON v.key < d.id";

/// The join of the CPU has a condition that the result of a scalar subquery is in.
const JOINED_BY_RESULT: &str = "SELECT count(*) AS pairs, sum(v.total) AS sums FROM \
                                (SELECT key, sum(value) AS total FROM t GROUP BY key) v FULL JOIN d \
                                ON v.key + d.id < (SELECT max(id) FROM d) AND v.key < d.id";

const ALL: [&str; 4] = [ABOVE_MEAN, ON_CPU, JOINED, JOINED_BY_RESULT];

fn fill(tables: &Tables, rows: i64, ids: i64) {
    let keys = (0..rows).map(|row| row % 7).collect();
    tables.add("t", integers(&[("key", keys), ("value", (0..rows).collect())]), 500, vec![]);
    tables.add("d", integers(&[("id", (0..ids).collect()), ("name", (10..10 + ids).collect())]), 500, vec![]);
}

/// Runs `text` again, which must not be planned.
async fn run_cached(session: &PeltonSession, text: &str) -> (String, Query) {
    let (rows, query) = run(session, text).await;
    assert!(query.has_cached_plan(), "planned anew: {text}");
    (rows, query)
}

fn nodes_of(query: &Query, is_one: impl Fn(&Arc<dyn ExecutionPlan>) -> bool) -> Vec<Arc<dyn ExecutionPlan>> {
    let mut found = Vec::new();
    let walked = query.physical_plan().apply(|node| {
        found.extend(is_one(node).then(|| Arc::clone(node)));
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    walked.unwrap();
    found
}

async fn check_repeats(tables: &Tables, session: &PeltonSession, text: &str) -> String {
    let (first, query) = run(session, text).await;
    assert!(!query.has_cached_plan() && !device_nodes(&query).is_empty(), "{text}");
    assert_same_rows(&first, &tables.expected(text).await, text);
    for _ in 0..2 {
        assert_same_rows(&run_cached(session, text).await.0, &first, text);
    }
    let all = futures::future::join_all((0..6).map(|_| run_cached(session, text))).await;
    all.into_iter().for_each(|(again, _)| assert_same_rows(&again, &first, text));
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subqueries_and_joins_of_the_cpu_are_planned_once_for_each_snapshot() {
    let tables = Tables::new();
    let session = tables.session(&on_host());
    let mut before: Vec<String> = vec![String::new(); ALL.len()];
    // The results of all subqueries are others each time.
    for (rows, ids) in [(2000, 5), (3000, 6), (900, 9), (2000, 5)] {
        fill(&tables, rows, ids);
        for (text, before) in ALL.into_iter().zip(&mut before) {
            let now = check_repeats(&tables, &session, text).await;
            assert_ne!(&now, before, "{text}");
            *before = now;
        }
    }
    let (_, query) = run_cached(&session, JOINED).await;
    assert!(!nodes_of(&query, |node| node.is::<NestedLoopJoinExec>()).is_empty());
    assert!(fallbacks(&query).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_that_fall_back_to_the_cpu_have_results_of_their_own_there() {
    let tables = Tables::new();
    let session = tables.session(&SessionOptions { device_memory_limit_bytes: Some(1 << 10), ..on_host() });
    for (rows, ids) in [(2000, 5), (900, 9)] {
        fill(&tables, rows, ids);
        for text in ALL {
            check_repeats(&tables, &session, text).await;
            assert!(!fallbacks(&run_cached(&session, text).await.1).is_empty(), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_is_made_while_another_runs() {
    let tables = Tables::new();
    fill(&tables, 2000, 5);
    for limit in [None, Some(1 << 10)] {
        let session = tables.session(&SessionOptions { device_memory_limit_bytes: limit, ..on_host() });
        for text in ALL {
            let expected = tables.expected(text).await;
            // The very first is not a copy, and copies are made of what it was copied to.
            let mut running = Vec::new();
            for _ in 0..4 {
                let query = session.query(text).await.unwrap();
                let mut rows = query.stream().await.unwrap();
                let begun = rows.next().await.transpose().unwrap();
                running.push((query, begun, rows));
            }
            let waiting = session.query(text).await.unwrap();
            for (query, begun, rows) in running {
                let rest: Vec<_> = rows.map(Result::unwrap).collect().await;
                let all: Vec<_> = begun.into_iter().chain(rest).collect();
                let drawn = arrow::util::pretty::pretty_format_batches(&all).unwrap().to_string();
                assert_same_rows(&drawn, &expected, text);
                drop(query);
            }
            // Others have run to their end, and this has seen nothing of it.
            for node in nodes_of(&waiting, |node| node.is::<ScalarSubqueryExec>()) {
                let node = node.downcast_ref::<ScalarSubqueryExec>().unwrap();
                let results = node.subqueries().iter().map(|link| node.results().get(link.index));
                assert!(results.into_iter().all(|result| result.is_none()), "{text}");
            }
            waiting.collect().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_rows_that_one_copy_keeps_filter_no_other() {
    let tables = Tables::new();
    let values = (0..20_000).map(|row| (row * 7919) % 20_011).collect();
    tables.add("t", integers(&[("key", (0..20_000).collect()), ("value", values)]), 500, vec![]);
    let session = tables.session(&SessionOptions { device_memory_limit_bytes: Some(1 << 10), ..on_host() });
    let text = "SELECT key, value FROM t WHERE value > 3 ORDER BY value DESC, key LIMIT 7";
    let (first, query) = run(&session, text).await;
    assert_eq!(fallbacks(&query).len(), 1);
    assert_same_rows(&first, &tables.expected(text).await, text);
    for _ in 0..20 {
        let all = futures::future::join_all((0..8).map(|_| run_cached(&session, text))).await;
        all.into_iter().for_each(|(again, _)| assert_eq!(again, first));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_in_an_expression_that_no_copy_can_replace_is_planned_anew() {
    let tables = Tables::new();
    let text = "SELECT bit_xor(greatest + (SELECT bit_or(id) FROM d)) AS x FROM \
                (SELECT key, max(value) AS greatest FROM t GROUP BY key)";
    let session = tables.session(&on_host());
    for ids in [5, 9] {
        fill(&tables, 2000, ids);
        for _ in 0..2 {
            let (rows, query) = run(&session, text).await;
            let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
            assert!(!query.has_cached_plan() && !device_nodes(&query).is_empty(), "{plan}");
            assert_same_rows(&rows, &tables.expected(text).await, text);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cpu_alone_gives_the_same() {
    let tables = Tables::new();
    let session = tables.session(&SessionOptions { device: DeviceChoice::Cpu, ..on_host() });
    for (rows, ids) in [(2000, 5), (900, 9)] {
        fill(&tables, rows, ids);
        for text in ALL {
            for _ in 0..2 {
                let (rows, _) = run(&session, text).await;
                assert_same_rows(&rows, &tables.expected(text).await, text);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_of_tpch_are_planned_once() {
    let tables = load(Dataset::Tpch);
    let session = tables.session(&on_host());
    for query in queries(Dataset::Tpch) {
        let text = query.sql_for_scale(SCALE);
        let (first, _) = run(&session, &text).await;
        assert_same_rows(&first, &tables.expected(&text).await, query.name);
        let all = futures::future::join_all((0..3).map(|_| run(&session, &text))).await;
        for (again, copy) in all {
            assert!(copy.has_cached_plan(), "{}", query.name);
            assert_same_rows(&again, &first, query.name);
        }
    }
}
