//! Plans of the CPU are made once for many queries of one text, and every query gets the answer of now.

mod common;

use std::sync::Arc;

use common::{Tables, integers, run};
use datafusion::physical_plan::ExecutionPlan;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

/// Joins whose filters go to scans, a top-k whose filter does, groups and an order.
const TOP: &str = "SELECT name, region, sum(value) AS total FROM facts JOIN d1 ON f1 = d1.id JOIN d2 ON f2 = d2.id \
                   JOIN d3 ON f3 = d3.id JOIN d4 ON f4 = d4.id WHERE d1.grade < 40 AND d2.grade > 20 AND d3.grade <> 7 \
                   GROUP BY name, region ORDER BY total DESC, name, region LIMIT 20";
const TEXTS: [&str; 12] = [
    TOP,
    "SELECT row, value FROM facts ORDER BY value DESC, row LIMIT 7",
    "SELECT f1, count(*) FROM facts WHERE f2 IN (SELECT id FROM d2 WHERE grade = 3) GROUP BY f1 ORDER BY f1",
    "SELECT count(*) FROM facts WHERE NOT EXISTS (SELECT 1 FROM d1 WHERE d1.id = f1 AND d1.grade > 5)",
    "SELECT row FROM facts WHERE value > (SELECT avg(value) FROM facts) ORDER BY row LIMIT 50",
    "SELECT f1, row, row_number() OVER (PARTITION BY f1 ORDER BY value, row) AS place FROM facts ORDER BY row LIMIT 90",
    "SELECT f1 FROM facts WHERE value > 900 UNION ALL SELECT id FROM d1 WHERE grade > 90 ORDER BY 1",
    "SELECT count(*) FROM d1 a JOIN d2 b ON a.grade < b.grade",
    "SELECT count(*), sum(a.grade) FROM d1 a, d2 b WHERE a.id = 3",
    "SELECT name, max(value) FROM facts LEFT JOIN d1 ON f1 = id AND grade > 50 GROUP BY name ORDER BY name",
    "SELECT min(value), max(row) FROM facts WHERE f3 > 10",
    "SELECT a.row, b.row FROM facts a JOIN facts b ON a.value = b.value AND a.row < b.row ORDER BY 1, 2 LIMIT 11",
];

fn cpu() -> SessionOptions {
    SessionOptions { threads: Some(4), device: DeviceChoice::Cpu, ..SessionOptions::default() }
}

fn facts(rows: i64, seed: i64) -> arrow::array::RecordBatch {
    let drawn = |by: i64, of: i64| (0..rows).map(|row| (row * by + row / 7 * seed + seed) % of).collect();
    integers(&[
        ("row", (0..rows).collect()),
        ("f1", drawn(17, 100)),
        ("f2", drawn(29, 90)),
        ("f3", drawn(31, 80)),
        ("f4", drawn(37, 70)),
        ("value", drawn(7919, 1000)),
    ])
}

fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("facts", facts(6000, 1), 500, vec![]);
    for (name, rows) in [("d1", 100), ("d2", 90), ("d3", 80), ("d4", 70)] {
        let columns = match name {
            "d1" => vec![("name", (0..rows).map(|id| id % 9).collect())],
            "d4" => vec![("region", (0..rows).map(|id| id % 5).collect())],
            _ => vec![],
        };
        let own: [(&str, Vec<i64>); 2] =
            [("id", (0..rows).collect()), ("grade", (0..rows).map(|id| id * 53 % 100).collect())];
        let columns: Vec<(&str, Vec<i64>)> = own.into_iter().chain(columns).collect();
        tables.add(name, integers(&columns), 64, vec![]);
    }
    tables
}

async fn assert_right(session: &PeltonSession, tables: &Tables, text: &str) {
    let (actual, _) = run(session, text).await;
    assert_eq!(actual, tables.expected(text).await, "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_text_gives_the_right_answer_every_time_that_its_plan_is_reused() {
    let tables = tables();
    let session = tables.session(&cpu());
    for text in TEXTS {
        let expected = tables.expected(text).await;
        for time in 0..12 {
            let (actual, query) = run(&session, text).await;
            assert_eq!(actual, expected, "{text}, time {time}");
            // Bounds that an aggregate gives to a scan are not made anew.
            let is_copied = time > 0 && !text.starts_with("SELECT min");
            assert_eq!(query.has_cached_plan(), is_copied, "{text}, time {time}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_queries_with_a_load_in_between_see_the_rows_of_their_time() {
    let tables = tables();
    let session = tables.session(&cpu());
    for time in 0..100 {
        if time % 20 == 10 {
            tables.add("facts", facts(5000 + time, time + 2), 500, vec![]);
        }
        let (actual, query) = run(&session, TOP).await;
        assert_eq!(actual, tables.expected(TOP).await, "time {time}");
        assert_eq!(query.has_cached_plan(), time > 0 && time % 20 != 10, "time {time}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_threads_run_one_text_at_once() {
    let tables = tables();
    let session = Arc::new(tables.session(&cpu()));
    for text in [TOP, TEXTS[1], TEXTS[4]] {
        let expected = tables.expected(text).await;
        let clients = (0..16).map(|_| {
            let (session, expected) = (Arc::clone(&session), expected.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
                runtime.block_on(async {
                    for _ in 0..8 {
                        assert_eq!(run(&session, text).await.0, expected, "{text}");
                    }
                });
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_query_that_is_dropped_midway_leaves_nothing_to_the_next() {
    let tables = tables();
    let session = tables.session(&cpu());
    let expected = tables.expected(TOP).await;
    assert_eq!(run(&session, TOP).await.0, expected);
    for _ in 0..20 {
        let query = session.query(TOP).await.unwrap();
        assert!(query.has_cached_plan());
        drop(query.stream().await.unwrap()); // its partitions have begun
        assert_eq!(run(&session, TOP).await.0, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_skip_and_count_what_a_first_plan_does() {
    let tables = tables();
    let session = tables.session(&cpu());
    let text = "SELECT row FROM facts JOIN d1 ON row = id WHERE grade = 53";
    let (_, first) = run(&session, text).await;
    for _ in 0..3 {
        let (_, again) = run(&session, text).await;
        assert!(again.has_cached_plan());
        for (before, now) in first.scan_reports().unwrap().iter().zip(again.scan_reports().unwrap()) {
            assert_eq!((before.bytes_read, before.output_rows), (now.bytes_read, now.output_rows));
            assert_eq!((&before.skipped, &before.io), (&now.skipped, &now.io));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copies_share_no_filter_with_each_other() {
    fn filters(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<u64>) {
        found.extend(plan.dynamic_expressions_produced().iter().filter_map(|filter| filter.expression_id()));
        plan.children().into_iter().for_each(|child| filters(child, found));
    }
    let tables = tables();
    let session = tables.session(&cpu());
    let mut found = Vec::new();
    for _ in 0..4 {
        filters(session.query(TOP).await.unwrap().physical_plan(), &mut found);
    }
    let count = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), count);
    assert!(count >= 4 * 5, "four joins and a top-k, four times: {count}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn plans_that_spill_are_reused_too() {
    let tables = tables();
    let session = tables.session(&SessionOptions { memory_limit_bytes: Some(64 << 20), ..cpu() });
    for text in TEXTS {
        for _ in 0..4 {
            assert_right(&session, &tables, text).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn chance_time_and_settings_are_looked_at_every_time() {
    let tables = tables();
    let session = tables.session(&cpu());
    let drawn = "SELECT random() FROM d1 ORDER BY 1 LIMIT 3";
    let first = run(&session, drawn).await;
    let again = run(&session, drawn).await;
    assert_ne!(first.0, again.0);
    assert!(!again.1.has_cached_plan());
    for _ in 0..2 {
        assert!(!run(&session, "SELECT now() FROM d1 LIMIT 1").await.1.has_cached_plan());
    }
    assert_right(&session, &tables, TOP).await;
    run(&session, "SET datafusion.execution.target_partitions = 2").await;
    let (actual, query) = run(&session, TOP).await;
    assert!(!query.has_cached_plan());
    assert_eq!(actual, tables.expected(TOP).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn prepared_statements_take_each_time_the_values_that_are_bound() {
    let tables = tables();
    let session = tables.session(&cpu());
    let prepared = session.prepare("SELECT count(*) AS c FROM facts JOIN d1 ON f1 = id WHERE grade < $1").await.unwrap();
    for bound in [5, 50, 5, 95] {
        let values = integers(&[("$1", vec![bound])]);
        let query = session.query_prepared(&prepared, Some(&values)).await.unwrap();
        let rows = query.collect().await.unwrap();
        let text = format!("SELECT count(*) AS c FROM facts JOIN d1 ON f1 = id WHERE grade < {bound}");
        let drawn = arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string();
        assert_eq!(drawn, tables.expected(&text).await);
    }
}
