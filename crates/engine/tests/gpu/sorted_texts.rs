//! ORDER BY and windows by texts without a dictionary: kernels sort by how they begin, and the host puts in order those
//! that begin alike.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use pelton_engine::{PeltonSession, RuntimeOptions, SessionOptions};

use crate::common::{Tables, run};
use crate::nodes::explanation;
use crate::{assert_same_rows, device_nodes, fallbacks, on_host};

/// More than the texts of small tables are made a dictionary of at once.
const ROWS: i64 = 6000;

/// On the host's cores, where groups are sorted however few there are.
fn sorting() -> SessionOptions {
    let host = on_host();
    SessionOptions { runtime: RuntimeOptions { sorted_groups_min: 0, ..host.runtime }, ..host }
}

/// A text that begins as others do: empty, of zeros, of 14 to 17 bytes, with a character that is cut in two after the 15th
/// byte, or with much in common.
fn url(row: i64) -> Option<String> {
    let long = "https://www.example.org/";
    Some(match row * 7919 % 23 {
        0 => return None,
        1 => String::new(),
        2 => "\0".repeat((row % 20) as usize),
        3 => format!("{}{}", &long[..14], ["é", "è", "\u{10348}", "e\0", "e", ""][(row % 6) as usize]),
        4 => long[..15].to_owned(),
        5 => format!("{}\0{}", &long[..15], row % 2),
        6 => format!("{}/", &long[..15]),
        7 | 8 => format!("{row}"),
        9 => format!("日本語のページ{}", row % 50),
        _ => format!("{long}{}/{}", row % 3, row * 31 % 400),
    })
}

/// `url` and `name` have no dictionary and share beginnings; `word` has one.
fn tables() -> Tables {
    let numbers = |number: &dyn Fn(i64) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(number)))
    };
    let texts = |text: &dyn Fn(i64) -> Option<String>| -> ArrayRef {
        Arc::new((0..ROWS).map(text).collect::<StringArray>())
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", numbers(&|row| row)),
        ("n", numbers(&|row| row * 104_729 % 5)),
        ("many", numbers(&|row| row * 7919 % 997)),
        ("word", texts(&|row| (row % 6 > 0).then(|| format!("word {}", row % 4)))),
        ("url", texts(&url)),
        ("name", texts(&|row| Some(format!("Customer#000000{}", row * 17 % 4500)))),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    let tables = Tables::new();
    tables.add("t", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 1000, vec![]);
    let few: Vec<(&str, ArrayRef)> = vec![
        ("key", Arc::new(Int64Array::from_iter_values(0..900))),
        ("size", Arc::new(Int64Array::from_iter_values((0..900).map(|key| key % 7)))),
    ];
    tables.add("few", RecordBatch::try_from_iter(few).unwrap(), 512, vec![]);
    tables
}

/// The rows of `sql`, whose keys never tie, are those of DataFusion in its order, and the device has sorted them.
async fn check(session: &PeltonSession, tables: &Tables, sql: &str) -> String {
    let text = explanation(session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let (plan, on_device) = text.split_once("-- on the device").unwrap_or_else(|| panic!("{sql}: {text}"));
    assert!(!plan.contains("SortExec") && !plan.contains("SortPreservingMergeExec"), "{sql}: {text}");
    assert!(on_device.contains("sorted by "), "{sql}: {text}");
    let (actual, query) = run(session, sql).await;
    assert_eq!(actual, tables.expected(sql).await, "{sql}");
    assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
    assert!(!device_nodes(&query).is_empty(), "{sql}");
    text
}

/// As `check`, of windows: their rows come in any order.
async fn check_windows(session: &PeltonSession, tables: &Tables, sql: &str) {
    let text = explanation(session, &format!("EXPLAIN {sql}")).await;
    let (plan, on_device) = text.split_once("-- on the device").unwrap_or_else(|| panic!("{sql}: {text}"));
    assert!(!plan.contains("WindowAggExec") && !plan.contains("SortExec"), "{sql}: {text}");
    assert!(on_device.contains("with windows "), "{sql}: {text}");
    let (actual, query) = run(session, sql).await;
    assert_same_rows(&actual, &tables.expected(sql).await, sql);
    assert_eq!(fallbacks(&query), Vec::<String>::new(), "{sql}");
}

const ORDERS: [&str; 12] = [
    "SELECT id, url FROM t ORDER BY url, id",
    "SELECT id, url FROM t ORDER BY url DESC NULLS LAST, id DESC",
    "SELECT url, id, n FROM t ORDER BY url DESC, n DESC, id",
    "SELECT id, name FROM t ORDER BY url NULLS FIRST, name DESC, id",
    "SELECT id, url, word FROM t ORDER BY n, url DESC NULLS FIRST, word, name, id",
    "SELECT id FROM t ORDER BY word DESC NULLS LAST, name, url DESC, many, id",
    "SELECT id, url, name FROM t WHERE id % 7 > 2 ORDER BY name DESC, url NULLS FIRST, id",
    "SELECT id, url FROM t WHERE id < 40 ORDER BY url, id",
    "SELECT id, url FROM t WHERE id = 77 ORDER BY url",
    "SELECT id, url FROM t WHERE id < 0 ORDER BY url",
    "SELECT t.id, t.url, few.size FROM t JOIN few ON t.many = few.key ORDER BY few.size, t.url, t.id",
    "SELECT id, length(url) AS l, url FROM t WHERE url LIKE '%example%' ORDER BY l DESC, url, id",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_in_the_order_of_whole_texts() {
    let tables = tables();
    let session = tables.session(&sorting());
    for sql in ORDERS {
        check(&session, &tables, sql).await;
    }
    let text = check(&session, &tables, ORDERS[0]).await;
    assert!(text.contains(" rows whose texts begin alike: put in order by the host"), "{text}");
    let text =
        check(&session, &tables, "SELECT id FROM t WHERE octet_length(url) <= 15 ORDER BY url, id").await;
    assert!(!text.contains(" rows whose texts begin alike"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_by_a_text_are_found_among_those_that_begin_alike() {
    let tables = tables();
    let session = tables.session(&sorting());
    for limit in ["LIMIT 1", "LIMIT 10", "LIMIT 300 OFFSET 777", "LIMIT 1000 OFFSET 4000", "LIMIT 100000"] {
        check(&session, &tables, &format!("SELECT id, url FROM t ORDER BY url, id {limit}")).await;
        let sql = format!("SELECT name, id FROM t ORDER BY url DESC NULLS LAST, name, id {limit}");
        check(&session, &tables, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_devices_and_one_without_room_merge_texts_that_begin_alike() {
    let tables = tables();
    let runtime = RuntimeOptions { more_devices: vec![1, 2], ..sorting().runtime };
    let three = tables.session(&SessionOptions { runtime, ..sorting() });
    let runtime = RuntimeOptions {
        memory_test: pelton_engine::MemoryTest::SpillAlways,
        first_rows: Some(64),
        ..sorting().runtime
    };
    let spilling = tables.session(&SessionOptions { runtime, ..sorting() });
    for sql in ORDERS {
        check(&three, &tables, sql).await;
        check(&spilling, &tables, sql).await;
    }
    for session in [&three, &spilling] {
        let text = check(session, &tables, ORDERS[0]).await;
        assert!(text.contains("  sorted runs: "), "{text}");
    }
    for limit in ["LIMIT 1", "LIMIT 300 OFFSET 777"] {
        let sql = format!("SELECT id, url FROM t ORDER BY url, name DESC, id {limit}");
        check(&three, &tables, &sql).await;
        check(&spilling, &tables, &sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_sorted_by_their_least_and_greatest_texts() {
    let tables = tables();
    let session = tables.session(&sorting());
    for sql in [
        "SELECT many, max(url) AS most FROM t GROUP BY many ORDER BY most DESC NULLS LAST, many",
        "SELECT many % 50 AS g, min(name) AS least, max(url) AS most FROM t GROUP BY g ORDER BY most, least DESC, g",
    ] {
        check(&session, &tables, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_over_partitions_and_peers_of_whole_texts() {
    let tables = tables();
    let session = tables.session(&sorting());
    let of_peers = "rank() OVER ({w}), dense_rank() OVER ({w}), cume_dist() OVER ({w}), count(*) OVER ({w}), \
                    sum(many) OVER ({w}), count(url) OVER ({w}), min(id) OVER ({w})";
    let of_rows = "row_number() OVER ({w}), lag(id) OVER ({w}), sum(many) OVER ({w} ROWS UNBOUNDED PRECEDING), \
                   first_value(id) OVER ({w}), ntile(4) OVER ({w})";
    let over =
        |functions: &str, window: &str| format!("SELECT id, {} FROM t", functions.replace("{w}", window));
    for window in [
        "PARTITION BY url",
        "PARTITION BY url ORDER BY n DESC",
        "ORDER BY url DESC",
        "PARTITION BY n ORDER BY url NULLS FIRST",
        "PARTITION BY word, name ORDER BY url DESC NULLS LAST",
        "PARTITION BY url, name ORDER BY n",
    ] {
        check_windows(&session, &tables, &over(of_peers, window)).await;
    }
    for window in [
        "PARTITION BY url ORDER BY id DESC",
        "ORDER BY url, id",
        "PARTITION BY n, url ORDER BY name DESC, id",
        "PARTITION BY name ORDER BY url NULLS FIRST, id",
    ] {
        check_windows(&session, &tables, &over(of_rows, window)).await;
    }
    // Texts of other rows.
    let of_texts = "lag(url) OVER ({w}), lead(name, 3) OVER ({w}), first_value(url) OVER ({w}), \
                    last_value(name) OVER ({w} ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING), \
                    nth_value(url, 2) OVER ({w} ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING), lag(word) OVER ({w})";
    for window in
        ["PARTITION BY n ORDER BY many, id", "PARTITION BY url ORDER BY name, id", "ORDER BY id DESC"]
    {
        check_windows(&session, &tables, &over(of_texts, window)).await;
    }
    let sql = "SELECT t.id, lag(t.url) OVER (PARTITION BY few.size ORDER BY t.id) FROM few JOIN t ON t.many = few.key";
    check_windows(&session, &tables, sql).await;
    check_windows(
        &session,
        &tables,
        "SELECT id, url, rank() OVER (PARTITION BY url ORDER BY name, id) FROM t",
    )
    .await;
}
