//! Columns that a top-k only carries are fetched for its rows: the same rows, in the same order.

use datafusion::physical_plan::displayable;
use pelton_engine::{ScanOptions, SessionOptions};
use pelton_testkit::random_rows;

use crate::common::{Tables, run};
use crate::{fallbacks, on_host};

/// Twenty pages of 1024 rows, in seven row groups.
const ROWS: usize = 20_000;

/// Orders of all rows, each with so few first ones that they have few pages.
const FETCHED: [&str; 11] = [
    "SELECT * FROM a WHERE word LIKE '%a%' ORDER BY int, id LIMIT 7",
    "SELECT * FROM a ORDER BY id DESC LIMIT 1",
    "SELECT double, word, id FROM a ORDER BY big DESC NULLS LAST, id LIMIT 9",
    "SELECT word, day, price, id FROM a WHERE int > -400 ORDER BY word DESC NULLS LAST, id DESC LIMIT 4 OFFSET 5",
    "SELECT word FROM a ORDER BY double, small DESC, id LIMIT 8",
    "SELECT * FROM a WHERE id * 2 = 39998 ORDER BY int LIMIT 3",
    "SELECT * FROM a WHERE id % 1024 IN (0, 1023) OR id % 3000 IN (0, 2999) ORDER BY id DESC LIMIT 9",
    "SELECT at, word, id FROM a WHERE word IS NULL ORDER BY id DESC LIMIT 6",
    "SELECT x.word, y.id, y.at FROM (SELECT id, word, at FROM a ORDER BY id LIMIT 3) x \
     JOIN (SELECT id, day, at FROM a WHERE int IS NOT NULL ORDER BY id DESC LIMIT 2) y ON x.id < y.id ORDER BY 2, 1 LIMIT 4",
    "SELECT day, huge, uint, flag FROM a WHERE word >= 'b' ORDER BY abs(small), id LIMIT 9",
    "SELECT word, int FROM a ORDER BY id LIMIT 0 OFFSET 3",
];

fn tables(rows: usize) -> Tables {
    let tables = Tables::new();
    tables.add("a", random_rows(5, rows), 3000, vec![]);
    tables
}

/// The rows of a drawn table, in order.
fn rows_of(drawn: &str) -> Vec<&str> {
    drawn.lines().filter(|line| line.starts_with('|')).skip(1).collect()
}

async fn check(tables: &Tables, options: &SessionOptions, sql: &str, is_fetched: bool) {
    let session = tables.session(options);
    let (actual, query) = run(&session, sql).await;
    assert_eq!(rows_of(&actual), rows_of(&tables.expected(sql).await), "{sql}");
    let plan = displayable(query.physical_plan().as_ref()).indent(true).to_string();
    assert_eq!(plan.contains("PeltonFetchExec"), is_fetched, "{sql}: {plan}");
    assert!(fallbacks(&query).is_empty(), "{sql}: {:?}", fallbacks(&query));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_rows_have_the_columns_of_their_own_rows() {
    let tables = tables(ROWS);
    let unskipped = ScanOptions { dynamic: false, ..ScanOptions::default() };
    let all = [
        SessionOptions::default(),
        SessionOptions { threads: Some(1), batch_rows: 3, ..SessionOptions::default() },
        SessionOptions { threads: Some(5), scan: unskipped, ..SessionOptions::default() },
        SessionOptions { memory_limit_bytes: Some(48 << 20), ..SessionOptions::default() },
        on_host(),
    ];
    for options in all {
        for sql in FETCHED {
            let is_empty = sql.contains("LIMIT 0");
            check(&tables, &options, sql, !is_empty).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_fetched_where_nothing_is_carried_or_many_pages_are_read() {
    let tables = tables(ROWS);
    for sql in [
        "SELECT id, int FROM a ORDER BY int, id LIMIT 5",
        "SELECT id, word FROM a WHERE word LIKE '%a%' ORDER BY id LIMIT 5",
        "SELECT * FROM a ORDER BY id LIMIT 10",
        "SELECT * FROM a ORDER BY id",
        "SELECT word, count(*) FROM a GROUP BY word ORDER BY 2 DESC, 1 LIMIT 3",
    ] {
        check(&tables, &SessionOptions::default(), sql, false).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_the_snapshot_that_was_planned() {
    for options in [SessionOptions::default(), on_host()] {
        let tables = tables(ROWS);
        let sql = FETCHED[0];
        let expected = tables.expected(sql).await;
        let planned = tables.session(&options).query(sql).await.unwrap();
        tables.add("a", random_rows(6, 5000), 700, vec![]);
        let batches = planned.collect().await.unwrap();
        let actual = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        assert_eq!(rows_of(&actual), rows_of(&expected));
        assert_ne!(rows_of(&tables.expected(sql).await), rows_of(&expected));
    }
}
