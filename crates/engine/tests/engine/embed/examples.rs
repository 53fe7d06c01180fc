//! The examples, run as a reader would run them.

use super::on_host;
use crate::common::{Tables, integers};

#[allow(dead_code)] // its `main` is for the command line
#[path = "../../../examples/mixed_join.rs"]
mod mixed_join;
#[allow(dead_code)]
#[path = "../../../examples/register_table.rs"]
mod register_table;
#[allow(dead_code)]
#[path = "../../../examples/stored_as.rs"]
mod stored_as;

/// Table `t` of 5000 rows: `k` from 0 to 19 in turn.
fn tables() -> Tables {
    let tables = Tables::new();
    let keys: Vec<i64> = (0..5000).map(|row| row % 20).collect();
    tables.add("t", integers(&[("k", keys.clone()), ("v", keys)]), 1024, vec![]);
    tables
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_registered_by_hand() {
    let tables = tables();
    let drawn = register_table::demonstrate(&tables.directory().join("t"), &on_host()).await.unwrap();
    assert!(drawn.contains("| 5000 |"), "{drawn}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_created_by_sql_and_read_as_a_data_frame() {
    let tables = tables();
    let drawn = stored_as::demonstrate(&tables.directory().join("t"), "k").await.unwrap();
    let rows: Vec<&str> = drawn.lines().filter(|line| line.contains("250")).collect();
    assert_eq!(
        rows,
        ["| 0 | 250  |", "| 1 | 250  |", "| 2 | 250  |", "| 3 | 250  |", "| 4 | 250  |"],
        "{drawn}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_in_memory_are_joined_with_a_table_on_a_device() {
    let tables = tables();
    let directory = tables.directory().join("t");
    let (plan, rows) = mixed_join::demonstrate(&directory, "k", &on_host()).await.unwrap();
    assert!(plan.contains("PeltonGpuExec"), "{plan}");
    assert!(rows.contains("| eight | 250  |") && rows.lines().count() == 14, "{rows}");
}
