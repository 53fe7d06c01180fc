//! `CREATE EXTERNAL TABLE … STORED AS PELTON`: what it makes, keeps and refuses.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use pelton_engine::{SessionOptions, from_datafusion, with_pelton};

use super::{on_host, sorted};
use crate::common::{Tables, integers};

fn tables() -> Tables {
    let tables = Tables::new();
    let keys = || (0..4000).map(|row| row % 10).collect();
    tables.add("fact", integers(&[("f_key", keys()), ("f_value", (0..4000).collect())]), 1024, vec![]);
    tables.add(
        "dim",
        integers(&[("d_key", (0..10).collect()), ("d_group", (0..10).collect())]),
        1024,
        vec![],
    );
    tables
}

fn session(options: &SessionOptions) -> SessionContext {
    let pelton = with_pelton(SessionStateBuilder::new().with_default_features(), options).unwrap();
    SessionContext::new_with_state(pelton.builder.build())
}

async fn create(session: &SessionContext, tables: &Tables, name: &str) {
    let directory = tables.directory().join(name);
    let sql = format!("CREATE EXTERNAL TABLE {name} STORED AS PELTON LOCATION '{}'", directory.display());
    session.sql(&sql).await.unwrap();
}

async fn rows(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_such_tables_are_skipped_ordered_and_run_on_a_device() {
    let tables = tables();
    let session = session(&on_host());
    create(&session, &tables, "fact").await;
    create(&session, &tables, "dim").await;
    let sql = "SELECT d_group, sum(f_value) AS s FROM fact JOIN dim ON f_key = d_key WHERE d_group < 3 GROUP BY d_group";
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let plan = displayable(plan.as_ref()).indent(false).to_string();
    assert!(plan.contains("PeltonGpuExec"), "{plan}");
    assert_eq!(sorted(&rows(&session, sql).await), sorted(&tables.expected(sql).await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_come_from_statistics_without_a_scan() {
    let tables = tables();
    let session = session(&SessionOptions::default());
    create(&session, &tables, "fact").await;
    let sql = "SELECT count(*), min(f_value) AS least, max(f_value) AS most FROM fact";
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    assert!(!displayable(plan.as_ref()).indent(false).to_string().contains("PeltonScan"));
    assert_eq!(rows(&session, sql).await, tables.expected(sql).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_keeps_the_snapshot_it_was_created_with() {
    let tables = tables();
    let session = session(&SessionOptions::default());
    create(&session, &tables, "dim").await;
    tables.add("dim", integers(&[("d_key", vec![1]), ("d_group", vec![1])]), 1024, vec![]);
    assert!(rows(&session, "SELECT count(d_key) FROM dim").await.contains("| 10 "));
    session.sql("DROP TABLE dim").await.unwrap();
    create(&session, &tables, "dim").await;
    assert!(rows(&session, "SELECT count(d_key) FROM dim").await.contains("| 1 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_the_remedy() {
    let tables = tables();
    let session = session(&SessionOptions::default());
    let at = |name: &str| tables.directory().join(name).display().to_string();
    let cases = [
        (format!("CREATE EXTERNAL TABLE t STORED AS PELTON LOCATION '{}'", at("facts")), "no table 'facts'"),
        (
            format!("CREATE EXTERNAL TABLE t (a INT) STORED AS PELTON LOCATION '{}'", at("dim")),
            "leave the list out",
        ),
        (
            format!("CREATE EXTERNAL TABLE t STORED AS PELTON LOCATION '{}' OPTIONS ('a.b' 'c')", at("dim")),
            "leave OPTIONS out",
        ),
        ("CREATE EXTERNAL TABLE t STORED AS PELTON LOCATION 's3://b/t'".to_owned(), "disks of this machine"),
    ];
    for (sql, expected) in cases {
        let error = from_datafusion(session.sql(&sql).await.unwrap_err()).to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
}
