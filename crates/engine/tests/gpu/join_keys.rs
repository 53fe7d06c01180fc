//! Joins by keys that one number does not hold, on the device to the end, whatever their hashes are.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use pelton_engine::{RuntimeOptions, SessionOptions};

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// More than the texts of small tables are made a dictionary of at once.
const ROWS: i64 = 5000;

/// `text` has no dictionary in `l` and `r`, and has one in `few`. All but `id` may be NULL, and all but `id` repeat.
fn rows(count: i64, step: i64) -> RecordBatch {
    let text = |row: i64| match row * step % 61 {
        0 => None,
        1 => Some(String::new()),
        2 => Some("ñ".repeat(300 + (row % 2) as usize)),
        _ => Some(format!("text {}", row * step % (ROWS - 700))),
    };
    let double = |row: i64| match row * step % 29 {
        0 => None,
        1 => Some(-0.0),
        2 => Some(0.0),
        3 => Some(f64::NAN),
        4 => Some(-f64::NAN),
        _ => Some((row * step % 1300) as f64 / 4.0),
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..count))),
        ("text", Arc::new((0..count).map(text).collect::<StringArray>())),
        ("double", Arc::new((0..count).map(double).collect::<Float64Array>())),
        (
            "flag",
            Arc::new((0..count).map(|row| (row % 3 > 0).then_some(row % 3 == 1)).collect::<BooleanArray>()),
        ),
        // Their least and their greatest are further apart than 2^63.
        (
            "wide",
            Arc::new(Int64Array::from_iter((0..count).map(|row| match row * step % 900 {
                0 => None,
                1 => Some(i64::MIN),
                2 => Some(i64::MAX),
                other => Some((other - 450) * 20_000_000_000_000_000),
            }))),
        ),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, name != "id"));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("l", rows(ROWS, 1), 2000, vec![]);
    tables.add("r", rows(ROWS - 300, 7), 2000, vec![]);
    tables.add("few", rows(40, 3), 2000, vec![]);
    tables
}

const BOTH: &str = "SELECT count(*), count(l.id), count(r.id), sum(l.id), sum(r.id)";

/// Of every kind of join, each with keys of other types, and the nodes on the device.
const JOINS: [(&str, usize); 15] = [
    ("BOTH FROM l JOIN r ON l.text = r.text", 1),
    ("BOTH FROM l JOIN few AS r ON l.text = r.text AND l.flag = r.flag", 1),
    ("BOTH FROM l LEFT JOIN r ON l.double = r.double AND l.flag = r.flag AND l.id < r.id", 1),
    ("BOTH FROM l RIGHT JOIN r ON l.wide = r.wide", 1),
    (
        "BOTH FROM l RIGHT JOIN r ON l.text = r.text AND l.wide = r.wide AND l.double = r.double AND l.flag = r.flag",
        1,
    ),
    ("BOTH FROM l FULL JOIN r ON l.text = r.text AND l.id % 5 < r.id % 5", 2),
    ("BOTH FROM l FULL JOIN r ON l.double = r.double", 2),
    ("BOTH FROM l FULL JOIN r ON l.id = r.id AND l.flag = r.flag", 2),
    (
        "SELECT l.text IS NULL AS none, r.flag, count(*), count(l.text), count(r.text) FROM l FULL JOIN r \
      ON l.text IS NOT DISTINCT FROM r.text AND l.double IS NOT DISTINCT FROM r.double GROUP BY none, r.flag",
        2,
    ),
    (
        "SELECT count(*), sum(id) FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.text = l.text AND r.id > l.id)",
        1,
    ),
    (
        "SELECT count(*), sum(id) FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.wide = l.wide AND r.id < 600)",
        1,
    ),
    (
        "SELECT count(*), sum(id) FROM l WHERE id % 7 = 1 OR double IN (SELECT double FROM r WHERE id > 4000)",
        1,
    ),
    (
        "SELECT count(*), sum(id) FROM l WHERE text NOT IN (SELECT text FROM r WHERE text IS NOT NULL AND id < 2000)",
        1,
    ),
    ("SELECT count(*), sum(id) FROM l WHERE text NOT IN (SELECT text FROM r WHERE id < 2000)", 1),
    // Some rows of one key meet a row whose text is NULL, and others none.
    (
        "SELECT k, r.text, count(*), sum(l.id) FROM (SELECT id % 100 AS k, id FROM l) AS l \
         LEFT JOIN r ON k = r.id AND l.id > 2000 GROUP BY k, r.text",
        1,
    ),
];

async fn hold(options: &SessionOptions, joins: impl Iterator<Item = &(&'static str, usize)>) {
    let tables = tables();
    let session = tables.session(options);
    // Plain DataFusion compares some doubles by their bits; ours on the CPU does not.
    let on_cpu = tables.session(&SessionOptions { threads: Some(2), ..SessionOptions::default() });
    for &(sql, nodes) in joins {
        let sql = sql.replace("BOTH", BOTH);
        let expected = match sql.contains("double") {
            true => run(&on_cpu, &sql).await.0,
            false => tables.expected(&sql).await,
        };
        let (actual, query) = run(&session, &sql).await;
        assert_same_rows(&actual, &expected, &sql);
        assert_eq!(device_nodes(&query).len(), nodes, "{sql}");
        assert!(fallbacks(&query).is_empty(), "{sql}: {:?}", fallbacks(&query));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_by_any_key_stay_on_the_device() {
    hold(&on_host(), JOINS.iter()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_hashes_of_different_keys_are_no_match() {
    let runtime = RuntimeOptions { equal_hashes: true, ..on_host().runtime };
    // Kernels are compiled anew for this: of each kind of match one.
    hold(&SessionOptions { runtime, ..on_host() }, JOINS.iter().step_by(2)).await;
}
