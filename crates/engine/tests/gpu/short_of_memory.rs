//! Joins whose hash tables are more than the device's memory: partition by partition on the device, with the rows of the
//! CPU.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::physical_plan::ExecutionPlan;
use pelton_engine::{PeltonGpuExec, PeltonSession, Query, RuntimeOptions, SessionOptions};
use pelton_exec::MemoryTest;

use crate::common::{Tables, run};
use crate::nodes::explanation;
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
    table(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..count))),
        ("key", Arc::new((0..count).map(key).collect::<Int64Array>())),
        ("double", Arc::new((0..count).map(double).collect::<Float64Array>())),
        ("word", texts(count, |row| format!("word {}", row % 7))),
    ])
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, name != "id"));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn texts(count: i64, text: impl Fn(i64) -> String) -> ArrayRef {
    Arc::new((0..count).map(|row| Some(text(row))).collect::<StringArray>())
}

fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("l", rows(ROWS, 7), 4096, vec![]);
    tables.add("r", rows(ROWS - 9_000, 11), 4096, vec![]);
    tables.add("d", rows(300, 1), 4096, vec![]);
    tables
}

/// What the report says of spilled tables: rows of them, rows that waited, partitions joined and split.
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
        let node = node.downcast_ref::<PeltonGpuExec>().unwrap();
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

const JOINS: [&str; 15] = [
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
    "SELECT count(*) FROM l WHERE key IS NULL OR key NOT IN (SELECT key FROM r WHERE id % 97 > 0)",
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

/// Of half of the rows the key is `common`, of the others each one has its own; some have none.
fn skewed(count: i64, common: impl Fn(i64) -> i64) -> RecordBatch {
    let key = |row: i64| match row % 97 {
        0 => None,
        _ if row % 2 == 0 => Some(common(row)),
        _ => Some(row - 100),
    };
    table(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..count))),
        ("key", Arc::new((0..count).map(key).collect::<Int64Array>())),
        ("word", texts(count, |row| format!("word {}", row % 7))),
    ])
}

/// `one` has one key that more rows have than a hash table has room for, `few` has some keys of which a partition has too
/// many together.
fn skewed_tables() -> Tables {
    let tables = Tables::new();
    tables.add("l", rows(ROWS, 7), 4096, vec![]);
    tables.add("one", skewed(ROWS - 4_000, |_| 1), 4096, vec![]);
    tables.add("few", skewed(ROWS - 4_000, |row| row / 2 % 4 * 1_000_003), 4096, vec![]);
    tables
}

/// Of table `s`.
const SKEWED: [&str; 6] = [
    "SELECT count(*), sum(l.id), sum(s.id), count(s.word) FROM l JOIN s ON l.key = s.key",
    "SELECT l.word, s.word, count(*), sum(s.id) FROM l LEFT JOIN s ON l.key = s.key GROUP BY l.word, s.word",
    "SELECT count(*), sum(l.id), count(l.id), sum(s.id) FROM l FULL JOIN s ON l.key = s.key",
    "SELECT count(*), sum(id) FROM l WHERE EXISTS (SELECT 1 FROM s WHERE s.key = l.key)",
    "SELECT count(*), sum(id) FROM l WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.key = l.key)",
    "SELECT count(*), sum(id) FROM l WHERE id % 7 = 1 OR key IN (SELECT key FROM s)",
];

/// With conditions beside equal keys, for which all rows of a key have to be there at once.
const WITH_CONDITIONS: [&str; 3] = [
    "SELECT count(*), sum(l.id), count(s.id), sum(s.id) FROM l LEFT JOIN s ON l.key = s.key AND l.id < s.id",
    "SELECT count(*), sum(id) FROM l WHERE EXISTS (SELECT 1 FROM s WHERE s.key = l.key AND s.id % 30 <> l.id % 30)",
    "SELECT count(*), sum(id) FROM l WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.key = l.key AND s.id % 30 <> l.id % 30)",
];

fn over(sql: &str, table: &str) -> String {
    sql.replace(" s ", &format!(" {table} AS s ")).replace(" s)", &format!(" {table} AS s)"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_are_too_large_are_split_further() {
    let tables = skewed_tables();
    let session = tables.session(&limited(LIMIT_BYTES));
    for sql in SKEWED {
        let sql = over(sql, "few");
        let spilled = check(&tables, &session, None, &sql).await;
        assert!(spilled.table_rows > 0 && spilled.split > 0, "{sql}: {spilled:?}");
    }
    for sql in WITH_CONDITIONS {
        let sql = over(sql, "few");
        let spilled = check(&tables, &session, None, &sql).await;
        assert!(spilled.table_rows > 0 && spilled.joined > 1, "{sql}: {spilled:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_of_more_rows_than_fit_is_joined_piece_by_piece() {
    let tables = skewed_tables();
    let session = tables.session(&limited(LIMIT_BYTES));
    for sql in SKEWED {
        let sql = over(sql, "one");
        let spilled = check(&tables, &session, None, &sql).await;
        assert!(spilled.table_rows > 0 && spilled.split > 0, "{sql}: {spilled:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_all_rows_of_one_key_at_once_is_left_to_the_cpu_where_they_do_not_fit() {
    let tables = skewed_tables();
    let session = tables.session(&limited(LIMIT_BYTES / 2));
    for sql in WITH_CONDITIONS {
        let sql = over(sql, "one");
        let (actual, query) = run(&session, &sql).await;
        assert_same_rows(&actual, &tables.expected(&sql).await, &sql);
        let reasons = fallbacks(&query);
        assert!(reasons.len() == 1 && reasons[0].contains("have one key, or few"), "{sql}: {reasons:?}");
        assert!(reasons[0].contains("raise --device-memory-limit"), "{sql}: {reasons:?}");
    }
}

/// Rows beside texts that have no dictionary, many of which occur twice.
fn plain_texts(count: i64) -> RecordBatch {
    let more = texts(count, |row| format!("Customer#{:09}", row * 7919 % 34_000));
    let rows = rows(count, 11);
    let names = ["id", "key", "double", "word"];
    let columns = names.iter().zip(rows.columns()).map(|(name, column)| (*name, Arc::clone(column)));
    table(columns.chain([("name", more)]).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_spilled_tables_bring_texts_without_a_dictionary() {
    let tables = Tables::new();
    tables.add("l", rows(ROWS, 7), 4096, vec![]);
    tables.add("p", plain_texts(ROWS - 9_000), 4096, vec![]);
    tables.add("q", plain_texts(ROWS), 4096, vec![]);
    tables.add("r", rows(ROWS - 9_000, 11), 4096, vec![]);
    let session = tables.session(&limited(LIMIT_BYTES));
    for sql in [
        "SELECT l.id, p.name FROM l JOIN p ON l.key = p.key WHERE l.id % 13 = 1",
        "SELECT l.id, p.name, l.word FROM l LEFT JOIN p ON l.key = p.key AND l.id < p.id WHERE l.id % 13 = 1",
        "SELECT count(*), sum(octet_length(p.name)), sum(l.id) FROM l JOIN p ON l.key = p.key WHERE l.id % 3 > 0",
        "SELECT count(*), sum(a.id), sum(b.id) FROM p AS a JOIN p AS b ON a.name = b.name",
        "SELECT p.name, l.id FROM l JOIN p ON l.key = p.key ORDER BY l.id DESC, p.id LIMIT 300",
        "SELECT substr(p.name, 10, 5) AS part, count(*) FROM l JOIN p ON l.key = p.key GROUP BY part",
        "SELECT p.name, p.id, l.id FROM p JOIN l ON l.key = p.key WHERE l.id % 5 = 2 ORDER BY p.name, p.id, l.id",
    ] {
        let spilled = check(&tables, &session, None, sql).await;
        assert!(spilled.table_rows > 0 && spilled.joined > 1, "{sql}: {spilled:?}");
    }
    // The bytes that kernels sort by are not among what waits: the CPU runs that, with the same answer.
    let sql = "SELECT q.name, q.id, r.id FROM q JOIN r ON q.key = r.key ORDER BY q.name, q.id, r.id LIMIT 60";
    let (actual, query) = run(&session, sql).await;
    assert_eq!(actual, tables.expected(sql).await, "{sql}");
    let reasons = fallbacks(&query);
    assert!(reasons.iter().all(|reason| reason.contains("text without a dictionary")), "{sql}: {reasons:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_host_has_no_room_for_either_is_left_to_the_cpu() {
    let tables = tables();
    let session =
        tables.session(&SessionOptions { memory_limit_bytes: Some(3 << 20), ..limited(LIMIT_BYTES) });
    let sql = "SELECT count(*), sum(l.id), sum(r.id) FROM l JOIN r ON l.key = r.key";
    let (actual, query) = run(&session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    let reasons = fallbacks(&query);
    assert!(reasons.len() == 1 && reasons[0].contains("rows that wait for them"), "{reasons:?}");
    assert!(reasons[0].contains("raise --device-memory-limit or --memory-limit"), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explanations_say_what_of_a_join_was_spilled() {
    let tables = tables();
    let sql = "SELECT count(*), sum(l.id), sum(r.id) FROM l JOIN r ON l.key = r.key";
    let text = explanation(&tables.session(&limited(LIMIT_BYTES)), &format!("EXPLAIN ANALYZE {sql}")).await;
    let line = |what: &str| {
        let line = text.lines().find(|line| line.contains(what));
        line.unwrap_or_else(|| panic!("{what}: {text}")).trim().to_owned()
    };
    let table = line("spilled a hash table of ");
    assert!(table.contains(" rows, ") && table.contains(" MB, in "), "{table}");
    let partitions = table.rsplit(' ').nth(1).unwrap();
    assert!(partitions.parse::<u64>().unwrap() > 4, "{table}");
    let rows = line(" waited on the host for ");
    assert!(rows.contains(&format!(" for {partitions} partitions of spilled hash tables")), "{rows}");
    let text = explanation(&tables.session(&limited(64 << 20)), &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(!text.contains("spilled") && !text.contains("waited on the host"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_at_once_join_in_partitions_in_turn() {
    let tables = tables();
    let session = tables.session(&limited(2 * LIMIT_BYTES));
    let (mut joined, mut parked) = (0, 0);
    for some in JOINS[..12].chunks(4) {
        let all = futures::future::join_all(some.iter().map(|sql| run(&session, sql))).await;
        for (sql, (actual, query)) in some.iter().zip(all) {
            assert_same_rows(&actual, &tables.expected(sql).await, sql);
            assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
            joined += spilled(&query).joined;
            let nodes = device_nodes(&query);
            let times =
                |node: &Arc<dyn ExecutionPlan>| Some(node.downcast_ref::<PeltonGpuExec>()?.times_parked());
            parked += nodes.iter().filter_map(times).sum::<usize>();
        }
    }
    assert!(joined > 24 && parked > 0, "{joined} partitions, parked {parked} times");
}
