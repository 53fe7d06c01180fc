//! Estimates are the planner's, whoever carries an operator out and whoever asks.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::TryStreamExt;
use pelton_engine::{DeviceChoice, PeltonSession, QueryMemory, SessionOptions};
use pelton_error::CancelFlag;

use crate::common::{Tables, integers, run};

const FACTS: i64 = 20_000;
const KEYS: i64 = 1000;

/// How EXPLAIN begins the line of an operator of ours, before that of the one that it stands for.
const OURS: [&str; 4] =
    ["PeltonJoinExec of ", "PartialAggregateExec of ", "SpillingAggregateExec of ", "DistinctMergeExec of "];

/// Facts of which each has an `a` and a `b`, and what is known of these.
fn tables() -> Tables {
    let tables = Tables::new();
    let of_facts = |value: fn(i64) -> i64| (0..FACTS).map(value).collect::<Vec<_>>();
    let facts = integers(&[
        ("id", of_facts(|row| row)),
        ("a", of_facts(|row| row * 7 % KEYS)),
        ("b", of_facts(|row| row / 20)),
        ("v", of_facts(|row| row % 100)),
        ("k", of_facts(|row| row % 10)),
        ("n", of_facts(|row| row / 10 % 20)),
    ]);
    tables.add("fact", facts, 4096, vec![]);
    for name in ["da", "db"] {
        let of_keys = |value: fn(i64) -> i64| (0..KEYS).map(value).collect::<Vec<_>>();
        let keys =
            [("id", of_keys(|row| row)), ("kind", of_keys(|row| row % 10)), ("x", of_keys(|row| row % 90))];
        tables.add(name, integers(&keys), 4096, vec![]);
    }
    tables
}

/// In which operators are ours from `table_rows_min` rows on.
fn session(tables: &Tables, table_rows_min: usize) -> PeltonSession {
    tables.session(&SessionOptions {
        threads: Some(2),
        device: DeviceChoice::Cpu,
        table_rows_min,
        ..SessionOptions::default()
    })
}

/// The operators of `sql` in EXPLAIN, each with the rows that are expected of it.
async fn explained(session: &PeltonSession, sql: &str) -> Vec<String> {
    let (text, _) = run(session, &format!("EXPLAIN {sql}")).await;
    let lines = text.lines().filter(|line| line.contains("rows est="));
    lines.map(|line| line.trim_matches(['|', ' ']).to_owned()).collect()
}

/// The rows that EXPLAIN expects in `line`.
fn shown_rows(line: &str) -> usize {
    let (_, rows) = line.rsplit_once("rows est=").unwrap_or_else(|| panic!("{line}"));
    rows.parse().unwrap_or_else(|_| panic!("{line}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_of_our_operators_what_it_shows_of_datafusions() {
    let tables = tables();
    let (theirs, ours) = (session(&tables, usize::MAX), session(&tables, 1));
    let mut seen = [0; OURS.len()];
    for sql in [
        "SELECT fact.id, x FROM fact JOIN da ON a = da.id WHERE kind = 3",
        // DataFusion's statistics know nothing of what is beside the equality.
        "SELECT fact.id, x FROM fact JOIN da ON a = da.id AND v < x",
        "SELECT fact.id FROM fact JOIN da ON a = da.id JOIN db ON b = db.id WHERE da.kind = 3 AND db.kind IN (1, 2)",
        "SELECT v, count(*), sum(x) FROM fact JOIN da ON a = da.id AND v < x GROUP BY v",
        "SELECT f.id FROM fact f JOIN fact g ON f.a = g.a AND f.b = g.b WHERE g.v < 5",
        "SELECT da.id, v FROM da LEFT JOIN fact ON a = da.id AND v > 40",
        "SELECT * FROM da WHERE EXISTS (SELECT 1 FROM fact WHERE a = da.id AND fact.id < x)",
        "SELECT * FROM da WHERE NOT EXISTS (SELECT 1 FROM fact WHERE a = da.id AND v = 7)",
        "SELECT DISTINCT k, n FROM fact",
        "SELECT count(DISTINCT a), count(DISTINCT v), sum(n) FROM fact JOIN db ON b = db.id AND v < x",
    ] {
        let (expected, mut actual) = (explained(&theirs, sql).await, explained(&ours, sql).await);
        assert!(!expected.is_empty(), "{sql}");
        for line in &mut actual {
            for (ours, seen) in OURS.iter().zip(&mut seen) {
                *seen += usize::from(line.contains(ours));
                *line = line.replace(ours, "");
            }
        }
        assert_eq!(actual, expected, "{sql}");
    }
    assert!(seen.iter().all(|times| *times > 0), "{OURS:?} {seen:?}");
}

/// The conditions of joins that can be cancelled are wrapped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_shows_the_same_of_joins_that_can_be_cancelled() {
    let tables = tables();
    for session in [usize::MAX, 1].map(|table_rows_min| session(&tables, table_rows_min)) {
        for sql in [
            "EXPLAIN SELECT fact.id, x FROM fact JOIN da ON a = da.id AND v < x",
            "EXPLAIN SELECT da.x, db.kind FROM da JOIN db ON da.x < db.kind",
        ] {
            let (expected, query) = run(&session, sql).await;
            let rows = query.stream_within(&QueryMemory::new(None), &CancelFlag::new()).await.unwrap();
            let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
            assert_eq!(pretty_format_batches(&batches).unwrap().to_string(), expected, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_of_joins_are_what_explain_shows() {
    fn joins(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<dyn ExecutionPlan>>) {
        if plan.name() == "PeltonJoinExec" {
            found.push(Arc::clone(plan));
        }
        plan.children().into_iter().for_each(|child| joins(child, found));
    }
    let tables = tables();
    let session = session(&tables, 1);
    for sql in [
        "SELECT fact.id, x FROM fact JOIN da ON a = da.id AND v < x",
        "SELECT fact.id FROM fact JOIN da ON a = da.id AND v < da.x JOIN db ON b = db.id AND v > db.x",
        "SELECT * FROM da WHERE EXISTS (SELECT 1 FROM fact WHERE a = da.id AND fact.id < x)",
    ] {
        let lines = explained(&session, sql).await;
        let shown: Vec<_> = lines.iter().filter(|line| line.contains(OURS[0])).collect();
        let query = session.query(sql).await.unwrap();
        let mut found = Vec::new();
        joins(query.physical_plan(), &mut found);
        assert!(!found.is_empty() && found.len() == shown.len(), "{sql}\n{lines:#?}");
        for (join, line) in found.iter().zip(shown) {
            let of = |partition| {
                let args = StatisticsArgs::new().with_partition(partition);
                let statistics = StatisticsContext::new().compute(join.as_ref(), &args).unwrap();
                statistics.num_rows.get_value().copied().unwrap_or_else(|| panic!("{line}"))
            };
            // One is rounded, the other rounded up.
            assert!(of(None).abs_diff(shown_rows(line)) <= 1, "{} rows: {line}", of(None));
            let partitions = join.properties().partitioning.partition_count();
            assert!((of(None)..of(None) + partitions).contains(&(of(Some(0)) * partitions)), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_are_ours_by_the_rows_that_the_planner_expects() {
    let tables = tables();
    // A third of 20,000 rows; DataFusion's statistics, which leave the second condition out, say 20,000.
    let sql = "SELECT v, count(*), sum(x) FROM fact JOIN da ON a = da.id AND v < x GROUP BY v";
    let plan = async |table_rows_min: usize| {
        let query = session(&tables, table_rows_min).query(sql).await.unwrap();
        displayable(query.physical_plan().as_ref()).indent(false).to_string()
    };
    let few = plan(10_000).await;
    assert!(!few.contains("AggregateExec of"), "{few}");
    let many = plan(5_000).await;
    assert!(many.contains("AggregateExec of"), "{many}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_places_of_a_shared_subtree_are_estimated_alike() {
    let tables = tables();
    let session = session(&tables, 1);
    let sql = "WITH v AS (SELECT k, n, sum(v) AS s FROM fact GROUP BY k, n) \
               SELECT x.k, y.k, count(*), sum(x.s + y.s) FROM v x JOIN v y ON x.n = y.n GROUP BY x.k, y.k";
    let lines = explained(&session, sql).await;
    let places: Vec<_> = lines.iter().filter(|line| line.contains("SharedExec")).collect();
    assert_eq!(places.len(), 2, "{lines:#?}");
    assert_eq!(shown_rows(places[0]), shown_rows(places[1]), "{lines:#?}");
    // Ten values at either place: above, what is known of columns comes from both.
    let groups = lines.iter().find(|line| line.contains("AggregateExec")).unwrap();
    assert!((90..=110).contains(&shown_rows(groups)), "{lines:#?}");
}
