//! Which query an aggregate is of, which groups sets have, and keys that DataFusion confuses. Expected values are those of
//! DuckDB 2.0.1.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

/// Table a.
const ROWS: &str = "(VALUES (1, 1), (1, 2), (2, 3)) AS a(k, d)";

fn session(threads: usize) -> PeltonSession {
    let options =
        SessionOptions { threads: Some(threads), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    PeltonSession::open(None, &options).unwrap()
}

/// All rows, columns with a bar between; the error where there are none.
async fn rows(session: &PeltonSession, sql: &str) -> Result<Vec<String>, String> {
    let query = session.query(sql).await.map_err(|error| error.to_string())?;
    let batches = query.collect().await.map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for batch in &batches {
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = batch.columns().iter().map(|column| match column.is_null(row) {
                true => "NULL".to_owned(),
                false => array_value_to_string(column, row).unwrap(),
            });
            values.collect::<Vec<_>>().join("|")
        }));
    }
    Ok(rows)
}

async fn check(session: &PeltonSession, sql: &str, expected: &[&str]) {
    let found = rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(found, expected, "{sql}");
}

#[tokio::test]
async fn aggregates_of_outer_columns_alone_are_of_the_outer_query() {
    let session = session(2);
    for (sql, expected) in [
        ("SELECT (SELECT count(a.d) FROM (VALUES (1)) AS v(c)) FROM {rows}", &["3"][..]),
        ("SELECT (SELECT count(d) + 1 FROM (VALUES (1)) AS v(c)) AS n FROM {rows}", &["4"]),
        ("SELECT count(*), (SELECT max(a.d) FROM (VALUES (1)) AS v(c)) FROM {rows}", &["3|3"]),
        ("SELECT (SELECT sum(a.d) + sum(c) FROM (VALUES (1), (2)) AS v(c)) FROM {rows}", &["9"]),
        (
            "SELECT k, (SELECT sum(a.d) FROM (VALUES (1)) AS v(c)) AS n FROM {rows} GROUP BY k ORDER BY k",
            &["1|3", "2|3"],
        ),
        (
            "SELECT k, (SELECT sum(a.d) FROM (VALUES (1)) AS v(c) WHERE c = a.k) AS n FROM {rows} GROUP BY k ORDER BY k",
            &["1|3", "2|NULL"],
        ),
        ("SELECT k FROM {rows} GROUP BY k HAVING (SELECT count(a.d) FROM (VALUES (1)) AS v(c)) > 1", &["1"]),
        ("SELECT EXISTS (SELECT sum(a.d) FROM (VALUES (1)) AS v(c)) FROM {rows}", &["true"]),
        (
            "SELECT (SELECT (SELECT sum(a.d) FROM (VALUES (1)) AS w(c)) FROM (VALUES (1)) AS v(c)) FROM {rows}",
            &["6"],
        ),
        // Those that name a column of the subquery as well are the subquery's.
        (
            "SELECT d, (SELECT sum(a.d + c) FROM (VALUES (1), (2)) AS v(c)) AS n FROM {rows} ORDER BY d",
            &["1|5", "2|7", "3|9"],
        ),
    ] {
        check(&session, &sql.replace("{rows}", ROWS), expected).await;
    }
}

#[tokio::test]
async fn aggregates_of_outer_queries_that_cannot_have_them_are_refused() {
    let session = session(2);
    for (sql, words) in [
        (
            "SELECT k FROM {rows} WHERE (SELECT sum(a.d) FROM (VALUES (1)) AS v(c)) > 2",
            "aggregates are not allowed in WHERE",
        ),
        ("SELECT k, (SELECT sum(a.d) FROM (VALUES (1)) AS v(c)) FROM {rows}", "must appear in GROUP BY"),
        (
            "SELECT (SELECT sum(a.d) FROM (VALUES (1), (2)) AS v(c) WHERE c = a.k) FROM {rows}",
            "must appear in GROUP BY",
        ),
    ] {
        let error = rows(&session, &sql.replace("{rows}", ROWS)).await.unwrap_err();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_sets_with_constant_keys_come_once() {
    let session = session(8);
    let of = "(SELECT value % 3 AS k, value % 5 AS j, value % 5 AS x FROM range(30000)) AS t";
    let constant = ["0|a|5", "0|NULL|5", "1|a|5", "1|NULL|5", "2|a|5", "2|NULL|5", "NULL|a|5", "NULL|NULL|5"];
    let sql = format!("SELECT k, 'a' AS c, count(DISTINCT x) FROM {of} GROUP BY CUBE (k, 'a') ORDER BY 1, 2");
    check(&session, &sql, &constant).await;
    let sql = format!("SELECT k, count(DISTINCT x) FROM {of} WHERE k = 1 GROUP BY CUBE (k, j) ORDER BY 1, 2");
    let one = ["1|1"; 5].into_iter().chain(["1|5"]).chain(["NULL|1"; 5]).chain(["NULL|5"]);
    check(&session, &sql, &one.collect::<Vec<_>>()).await;
    let sql = format!(
        "SELECT k, count(*) FROM (SELECT k, j, median(x) AS m FROM {of} GROUP BY ROLLUP (k, j)) AS s GROUP BY k ORDER BY k"
    );
    check(&session, &sql, &["0|6", "1|6", "2|6", "NULL|1"]).await;
}

#[tokio::test]
async fn keys_of_sets_may_be_computed() {
    let session = session(2);
    for (sql, expected) in [
        (
            "SELECT d IN (d) AS p, count(*) FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-02'), (NULL)) AS t(d) \
             GROUP BY ROLLUP (d IN (d)) ORDER BY 1, 2",
            &["true|2", "NULL|1", "NULL|3"][..],
        ),
        (
            "SELECT d + 1 AS n, count(*), grouping(d + 1) AS g \
             FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-02'), (DATE '2024-01-01')) AS t(d) \
             GROUP BY ROLLUP (d + 1) ORDER BY 1",
            &["2024-01-02|2|0", "2024-01-03|1|0", "NULL|3|1"],
        ),
        (
            "SELECT k > 1 AS p, j, sum(k) FROM (VALUES (1, 1), (2, 1), (3, 2)) AS t(k, j) GROUP BY CUBE (k > 1, j) \
             ORDER BY 1, 2",
            &[
                "false|1|1",
                "false|NULL|1",
                "true|1|2",
                "true|2|3",
                "true|NULL|5",
                "NULL|1|3",
                "NULL|2|3",
                "NULL|NULL|6",
            ],
        ),
        (
            "SELECT k > 1 AS p, count(DISTINCT j), rank() OVER (ORDER BY count(*)) AS r \
             FROM (VALUES (1, 1), (2, 1), (3, 2)) AS t(k, j) GROUP BY ROLLUP (k > 1) HAVING count(*) > 1 ORDER BY 1",
            &["true|2|1", "NULL|2|2"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
}

#[tokio::test]
async fn a_column_and_a_cast_of_it_are_two_keys() {
    let session = session(2);
    for (sql, expected) in [
        (
            "SELECT k, CAST(k AS DOUBLE) AS d, count(*) FROM (VALUES (1), (2), (1)) AS t(k) \
             GROUP BY k, CAST(k AS DOUBLE) ORDER BY 1",
            &["1|1.0|2", "2|2.0|1"][..],
        ),
        (
            "SELECT day, CAST(day AS TIMESTAMP) = day, count(*) FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-02')) AS t(day) \
             GROUP BY day, CAST(day AS TIMESTAMP) ORDER BY day",
            &["2024-01-01|true|1", "2024-01-02|true|1"],
        ),
        (
            "SELECT count(*) FROM (SELECT count(DISTINCT k) AS n FROM (VALUES (1), (2), (1)) AS t(k) \
             GROUP BY k, CAST(k AS DOUBLE)) AS s",
            &["2"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
}
