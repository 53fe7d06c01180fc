//! Texts as codes of symbols: whatever reads them, on the CPU and on a device, has the answer of plain DataFusion.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use pelton_engine::{RuntimeOptions, SessionOptions};
use pelton_store::Warehouse;

use crate::common::{Tables, run};
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// More than the texts of small tables are made a dictionary of at once.
const ROWS: i64 = 5000;

fn texts(rows: i64, text: impl Fn(i64) -> Option<String>) -> ArrayRef {
    Arc::new((0..rows).map(text).collect::<StringArray>())
}

fn numbers(rows: i64, number: impl Fn(i64) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows).map(number)))
}

fn url(row: i64) -> String {
    match row * 7919 % 31 {
        0 => String::new(),
        1 => format!("ünïcode/日本語/{}", row % 40),
        2 => "https://www.host".to_owned() + &"x".repeat(row as usize % 400),
        3 => format!("{row}"),
        _ => format!(
            "http{}://www.host{}.org/page/{}?q={}",
            if row % 2 == 0 { "" } else { "s" },
            row % 17,
            row % 900,
            row / 700
        ),
    }
}

/// All texts are in codes of symbols. `beginning` has lengths around those of words and of short texts.
fn tables() -> Tables {
    let lengths = [0, 1, 3, 4, 14, 15, 16, 17, 60];
    let beginning = |row: i64| {
        let text = "www.host.org/page/".repeat(5);
        format!("{}{}", &text[..lengths[(row % 9) as usize]], ["", "", "\0", "z"][(row / 9 % 4) as usize])
    };
    let columns = vec![
        ("id", numbers(ROWS, |row| row)),
        ("n", numbers(ROWS, |row| row * 7919 % 101)),
        ("url", texts(ROWS, |row| Some(url(row)))),
        ("other", texts(ROWS, |row| (row % 4 > 0).then(|| url(row * 31 % ROWS)))),
        ("beginning", texts(ROWS, |row| (row % 11 > 0).then(|| beginning(row)))),
        ("few", texts(ROWS, |row| (row % 5 > 0).then(|| format!("few {}", row % 7)))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let tables = Tables::stored_as("fsst+plain");
    tables.add("t", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 1500, vec![]);
    let columns = vec![
        ("key", texts(700, |row| (row % 9 > 0).then(|| url(row * 11)))),
        ("size", numbers(700, |row| row % 7)),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    tables.add("u", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 300, vec![]);

    let table = Warehouse::open(tables.directory()).unwrap().table("t").unwrap();
    for row_group in 0..table.row_group_count() {
        for column in 2..6 {
            assert!(table.chunk(row_group, column).unwrap().encoding.to_string().starts_with("fsst+plain"));
        }
    }
    tables
}

const QUERIES: [&str; 27] = [
    "SELECT * FROM t",
    "SELECT id, url FROM t WHERE url LIKE '%page/7%q=1'",
    "SELECT id, other FROM t WHERE other LIKE 'http_://www.host3.%' OR url = ''",
    "SELECT id FROM t WHERE other NOT LIKE '%host%' AND url LIKE '%日_語%'",
    "SELECT id, few FROM t WHERE url IN ('', 'few 1', '3', 'ünïcode/日本語/7') AND few <> 'few 2'",
    "SELECT count(*), min(id) FROM t WHERE url >= 'https://www.host1' AND other < 'https'",
    "SELECT sum(length(url)), sum(octet_length(other)), max(length(beginning)), count(few) FROM t",
    "SELECT id FROM t WHERE substr(beginning, 2, 3) = 'ww.' AND substr(url, 9) LIKE 'www%'",
    "SELECT id FROM t WHERE upper(beginning) = 'WWW.' OR starts_with(other, 'ünï')",
    "SELECT id, url, other, beginning FROM t WHERE n = 7",
    "SELECT url, count(*), sum(n) FROM t GROUP BY url",
    "SELECT beginning, few, count(*) FROM t GROUP BY beginning, few",
    "SELECT substr(url, 1, 8) AS s, min(other), max(beginning), count(DISTINCT url) FROM t GROUP BY s",
    "SELECT n, min(url), max(url), min(other), max(beginning) FROM t GROUP BY n",
    "SELECT min(url), max(url), min(other), max(other), min(beginning), max(few) FROM t",
    "SELECT DISTINCT other FROM t WHERE n < 40",
    "SELECT CASE WHEN n % 2 = 0 THEN url ELSE other END AS k, count(*) FROM t GROUP BY k",
    "SELECT coalesce(other, few, 'none') AS k, count(*), min(url) FROM t GROUP BY k",
    "SELECT regexp_replace(url, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1') AS k, avg(length(url)), count(*), min(url) \
     FROM t GROUP BY k",
    "SELECT regexp_replace(other, '[0-9]+', '#') AS k, count(*) FROM t GROUP BY k",
    "SELECT count(*) FROM t WHERE regexp_like(url, 'host1[0-6]\\.org/page/[0-9]*5\\?')",
    "SELECT t.id, u.size FROM t JOIN u ON t.url = u.key",
    "SELECT u.key, count(*), sum(t.n), max(t.beginning) FROM u LEFT JOIN t ON t.other = u.key GROUP BY u.key",
    "SELECT count(*), sum(id) FROM t WHERE url NOT IN (SELECT key FROM u WHERE key IS NOT NULL)",
    "SELECT count(*), min(url) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.key = t.other AND u.size > 3)",
    "SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.url = b.other AND a.few = b.few",
    "SELECT few, beginning, lag(url) OVER (PARTITION BY few ORDER BY beginning DESC, id), \
     rank() OVER (PARTITION BY few ORDER BY beginning DESC, id) FROM t",
];

const ORDERED: [&str; 6] = [
    "SELECT id, beginning FROM t ORDER BY beginning, id",
    "SELECT id, beginning FROM t ORDER BY beginning DESC NULLS LAST, id DESC",
    "SELECT id, url, other FROM t ORDER BY n, url DESC NULLS FIRST, other, id",
    "SELECT id, url FROM t WHERE other LIKE '%page%' ORDER BY url, id LIMIT 50 OFFSET 1000",
    "SELECT id, url FROM t WHERE n < 50 ORDER BY id DESC LIMIT 100",
    "SELECT n, max(url) AS most FROM t GROUP BY n ORDER BY most DESC, n",
];

/// Runs all queries; gives how many nodes of theirs ran on a device.
async fn check(options: &SessionOptions) -> usize {
    let tables = tables();
    let session = tables.session(options);
    let mut nodes = 0;
    for sql in QUERIES {
        let (actual, query) = run(&session, sql).await;
        assert_same_rows(&actual, &tables.expected(sql).await, sql);
        assert!(fallbacks(&query).is_empty(), "{sql}: {:?}", fallbacks(&query));
        nodes += device_nodes(&query).len();
    }
    for sql in ORDERED {
        let (actual, query) = run(&session, sql).await;
        assert_eq!(actual, tables.expected(sql).await, "{sql}");
        assert!(fallbacks(&query).is_empty(), "{sql}: {:?}", fallbacks(&query));
        nodes += device_nodes(&query).len();
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cpu_reads_symbols_as_it_reads_other_texts() {
    let nodes = check(&SessionOptions { threads: Some(2), ..SessionOptions::default() }).await;
    assert_eq!(nodes, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kernels_read_symbols_as_they_read_other_texts() {
    let nodes = check(&on_host()).await;
    assert!(nodes >= 30, "only {nodes} nodes ran on the device");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_devices_read_symbols_and_sort_them() {
    let runtime = RuntimeOptions { more_devices: vec![1, 2], sorted_groups_min: 0, ..on_host().runtime };
    let nodes = check(&SessionOptions { runtime, ..on_host() }).await;
    assert!(nodes >= 30, "only {nodes} nodes ran on the device");
}
