//! The plan cache gives queries of the same text the same plan, and never a stale one.

use pelton_engine::SessionOptions;

use crate::common::{Tables, integers, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

const SUM: &str = "SELECT key, sum(value) AS total FROM t WHERE value > 3 GROUP BY key ORDER BY key";

fn add(tables: &Tables, rows: i64) {
    let keys = (0..rows).map(|row| row % 7).collect();
    tables.add("t", integers(&[("key", keys), ("value", (0..rows).collect())]), 500, vec![]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_query_of_a_text_takes_the_cached_plan_and_a_new_snapshot_ends_it() {
    let tables = Tables::new();
    add(&tables, 2000);
    let session = tables.session(&on_host());
    let (first, query) = run(&session, SUM).await;
    assert!(!query.has_cached_plan() && device_nodes(&query).len() == 1);
    for _ in 0..2 {
        let (again, query) = run(&session, SUM).await;
        assert!(query.has_cached_plan() && fallbacks(&query).is_empty());
        assert_eq!(again, first);
    }
    add(&tables, 3000);
    let (actual, query) = run(&session, SUM).await;
    assert!(!query.has_cached_plan());
    assert_same_rows(&actual, &tables.expected(SUM).await, SUM);
    assert_ne!(actual, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_or_a_setting_ends_cached_plans() {
    let tables = Tables::new();
    add(&tables, 2000);
    let session = tables.session(&on_host());
    let (first, _) = run(&session, SUM).await;
    run(&session, "SET datafusion.execution.batch_size = 100").await;
    let (again, query) = run(&session, SUM).await;
    assert!(!query.has_cached_plan(), "the settings changed");
    assert_eq!(again, first);
    run(&session, "CREATE VIEW v AS SELECT key, value FROM t").await;
    let of_view = SUM.replace("FROM t", "FROM v");
    let (through, _) = run(&session, &of_view).await;
    assert_eq!(through, first);
    assert!(run(&session, &of_view).await.1.has_cached_plan());
    run(&session, "CREATE OR REPLACE VIEW v AS SELECT key, value + 1 AS value FROM t").await;
    let (other, query) = run(&session, &of_view).await;
    assert!(!query.has_cached_plan(), "the view changed");
    assert_ne!(other, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_depends_on_the_time_is_planned_anew() {
    let tables = Tables::new();
    add(&tables, 2000);
    let session = tables.session(&on_host());
    let text = "SELECT sum(value) FROM t WHERE value < extract(year FROM now())";
    for _ in 0..2 {
        let (_, query) = run(&session, text).await;
        assert!(!query.has_cached_plan());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_of_a_cached_plan_run_at_once_and_fall_back_each_by_itself() {
    let tables = Tables::new();
    add(&tables, 2000);
    tables.add("d", integers(&[("id", (0..5).collect()), ("name", (10..15).collect())]), 500, vec![]);
    let text = "SELECT name, sum(value) AS total FROM t JOIN d ON key = id WHERE name > 10 GROUP BY name ORDER BY name";
    let session = tables.session(&SessionOptions { device_memory_limit_bytes: Some(1 << 10), ..on_host() });
    let (first, query) = run(&session, text).await;
    assert_eq!(fallbacks(&query).len(), device_nodes(&query).len());
    assert_same_rows(&first, &tables.expected(text).await, text);
    let all = futures::future::join_all((0..4).map(|_| run(&session, text))).await;
    for (again, query) in all {
        assert!(query.has_cached_plan());
        assert_eq!(again, first);
        assert!(query.scan_reports().unwrap().iter().all(|report| report.bytes_read > 0));
    }
}
