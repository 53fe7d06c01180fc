//! Joins whose hash tables are more than the device's memory: partition by partition on the device, with the rows of the
//! CPU.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use pelton_engine::{PeltonSession, Query, RuntimeOptions, SessionOptions};
use pelton_exec::MemoryTest;

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// Rows of the larger table.
const ROWS: i64 = 60_000;
/// Less than the hash table of either table takes, and more than a scan does.
const LIMIT_BYTES: u64 = 1 << 20;

/// `key` repeats and is NULL now and then, as `double` is, which has both zeros and NaN; `word` has a dictionary.
fn rows(count: i64, step: i64) -> RecordBatch {
    let key = |row: i64| (row % 97 > 0).then_some(row * step % (ROWS / 2) - 100);
    let double = |row: i64| match row * step % 31 {
        0 => None,
        1 => Some(-0.0),
        2 => Some(f64::NAN),
        3 => Some(0.0),
        _ => Some((row * step % 40_000) as f64 / 8.0),
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..count))),
        ("key", Arc::new((0..count).map(key).collect::<Int64Array>())),
        ("double", Arc::new((0..count).map(double).collect::<Float64Array>())),
        ("word", Arc::new((0..count).map(|row| Some(format!("word {}", row % 7))).collect::<StringArray>())),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, name != "id"));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("l", rows(ROWS, 7), 4096, vec![]);
    tables.add("r", rows(ROWS - 9_000, 11), 4096, vec![]);
    tables.add("d", rows(300, 1), 4096, vec![]);
    tables
}

/// What the report says of spilled tables: rows of them, rows that waited, partitions joined and split, rows scanned.
#[derive(Debug, Default)]
struct Spilled {
    table_rows: u64,
    waited: u64,
    joined: usize,
    split: usize,
}

fn spilled(query: &Query) -> Spilled {
    let mut spilled = Spilled::default();
    for node in device_nodes(query) {
        let node = node.downcast_ref::<pelton_engine::PeltonGpuExec>().unwrap();
        let report = node.run_report().expect("it ran on the device");
        for pipeline in &report.pipelines {
            spilled.table_rows += pipeline.spilled_table_rows;
            spilled.waited += pipeline.rows_waited_for_tables;
            spilled.joined += pipeline.partitions_joined;
            spilled.split += pipeline.partitions_split;
            // No row is scanned twice.
            assert!(pipeline.rows_in <= ROWS as u64 && pipeline.repeats <= 1, "{pipeline:?}");
        }
    }
    spilled
}

/// The rows of `sql` are those of plain DataFusion or, where that compares doubles otherwise, of `cpu`; all of it ran on the
/// device.
async fn check(tables: &Tables, session: &PeltonSession, cpu: Option<&PeltonSession>, sql: &str) -> Spilled {
    let (actual, query) = run(session, sql).await;
    let expected = match cpu {
        Some(cpu) => run(cpu, sql).await.0,
        None => tables.expected(sql).await,
    };
    assert_same_rows(&actual, &expected, sql);
    assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
    assert!(!device_nodes(&query).is_empty(), "{sql}");
    spilled(&query)
}

const JOINS: [&str; 14] = [
    "SELECT count(*), sum(l.id), sum(r.id) FROM l JOIN r ON l.key = r.key",
    "SELECT l.id, r.id, r.word FROM l JOIN r ON l.key = r.key WHERE l.id % 13 = 1",
    "SELECT r.word, l.word, count(*), max(l.id) FROM l JOIN r ON l.key = r.key AND l.id < r.id GROUP BY r.word, l.word",
    "SELECT count(*), sum(l.id), count(r.id), sum(r.id) FROM l LEFT JOIN r ON l.key = r.key AND l.word = r.word",
    "SELECT l.key % 50 AS k, count(*), count(r.id), sum(r.id) FROM l LEFT JOIN r ON l.key = r.key AND l.id < r.id GROUP BY k",
    "SELECT count(*), sum(l.id), count(l.id), sum(r.id) FROM l RIGHT JOIN r ON l.key = r.key",
    "SELECT count(*), count(l.id), count(r.id), sum(l.id), sum(r.id) FROM l FULL JOIN r ON l.key = r.key AND l.id % 3 = r.id % 3",
    "SELECT count(*), sum(id) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.key = l.key AND r.id > l.id)",
    "SELECT count(*), sum(id) FROM l WHERE key IN (SELECT key FROM r WHERE id % 3 = 0)",
    "SELECT count(*), sum(id) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.key = l.key)",
    "SELECT count(*), sum(id) FROM l WHERE id % 7 = 1 OR key IN (SELECT key FROM r WHERE id > 4000)",
    "SELECT id FROM l WHERE key NOT IN (SELECT key FROM r WHERE key IS NOT NULL AND id % 5 > 0) ORDER BY id DESC LIMIT 40",
    "SELECT l.id, r.id FROM l JOIN r ON l.key = r.key ORDER BY l.id, r.id LIMIT 500",
    "SELECT k, sum(n) FROM (SELECT l.key AS k, r.word AS w, count(*) AS n FROM l JOIN r ON l.key = r.key GROUP BY l.key, r.word) \
     GROUP BY k HAVING sum(n) > 3",
];

fn limited(bytes: u64) -> SessionOptions {
    let morsels = RuntimeOptions { morsel_bytes: 64 << 10, ..on_host().runtime };
    SessionOptions { runtime: morsels, device_memory_limit_bytes: Some(bytes), ..on_host() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hash_tables_of_many_times_the_memory_are_joined_in_partitions() {
    let tables = tables();
    let session = tables.session(&limited(LIMIT_BYTES));
    for sql in JOINS {
        let spilled = check(&tables, &session, None, sql).await;
        assert!(spilled.table_rows > 0 && spilled.joined > 1 && spilled.waited > 0, "{sql}: {spilled:?}");
    }
    let budget = session.runtime().unwrap();
    let budget = budget.machine().device_budget(budget.device()).unwrap();
    assert!(budget.peak_bytes() <= LIMIT_BYTES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_join_runs_in_partitions_of_every_table() {
    let tables = tables();
    let runtime =
        RuntimeOptions { memory_test: MemoryTest::SpillTables, row_groups_max: 3, ..on_host().runtime };
    let session = tables.session(&SessionOptions { runtime, ..on_host() });
    for sql in JOINS {
        let spilled = check(&tables, &session, None, sql).await;
        assert!(spilled.table_rows > 0 && spilled.joined > 1 && spilled.waited > 0, "{sql}: {spilled:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubles_and_texts_are_keys_of_spilled_tables() {
    let tables = tables();
    let session = tables.session(&limited(LIMIT_BYTES));
    let cpu = tables.session(&SessionOptions { threads: Some(2), ..SessionOptions::default() });
    for sql in [
        "SELECT count(*), sum(l.id), sum(r.id) FROM l JOIN r ON l.double = r.double AND l.key = r.key",
        "SELECT count(*), sum(l.id), sum(r.id) FROM l LEFT JOIN r ON l.double = r.double AND l.word = r.word AND l.id % 97 = r.id % 97",
        "SELECT count(*), sum(l.id) FROM l WHERE double IN (SELECT double FROM r WHERE id % 2 = 0)",
    ] {
        let spilled = check(&tables, &session, Some(&cpu), sql).await;
        assert!(spilled.table_rows > 0 && spilled.joined > 1, "{sql}: {spilled:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_wait_again_at_the_next_spilled_table() {
    let tables = tables();
    let session = tables.session(&limited(LIMIT_BYTES));
    for sql in [
        "SELECT count(*), sum(l.id), sum(r.id), sum(s.id) FROM l JOIN r ON l.key = r.key JOIN r AS s ON s.id = l.id",
        "SELECT d.word, s.word, count(*), sum(r.id) FROM l JOIN d ON l.id % 300 = d.id LEFT JOIN r ON l.key = r.key \
         JOIN l AS s ON s.id = r.id WHERE l.id % 3 > 0 GROUP BY d.word, s.word",
        "SELECT count(*), sum(id) FROM l WHERE key IN (SELECT key FROM r WHERE id % 3 = 0) \
         AND NOT EXISTS (SELECT 1 FROM r WHERE r.id = l.id AND r.key > 500)",
    ] {
        let spilled = check(&tables, &session, None, sql).await;
        assert!(spilled.table_rows > ROWS as u64 && spilled.waited > 0, "{sql}: {spilled:?}");
    }
}
