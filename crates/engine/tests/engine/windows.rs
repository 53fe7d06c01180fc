//! Windows that DataFusion computes wrongly or not at all: copies of named windows, frames that move on over doubles, truth
//! values and texts, lag and lead, frames of peers by intervals.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::array_value_to_string;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

/// A day has rows before and after those of another.
const ROWS: &str =
    "(VALUES (1, 1, 10), (2, 1, NULL), (3, 2, 30), (4, 2, 40), (5, 2, NULL), (6, 1, 60)) AS t(id, day, k)";

fn session() -> PeltonSession {
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    PeltonSession::open(None, &options).unwrap()
}

/// Rows of `values`, in SQL, numbered from 1: t(id, x).
fn numbered(values: &[&str]) -> String {
    let row = |(row, value): (usize, &&str)| format!("({}, {value})", row + 1);
    let rows: Vec<String> = values.iter().enumerate().map(row).collect();
    format!("(VALUES {}) AS t(id, x)", rows.join(", "))
}

/// The only column of `sql`.
async fn column(session: &PeltonSession, sql: &str) -> String {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut values = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        for row in 0..batch.num_rows() {
            values.push(match column.data_type() {
                _ if column.is_null(row) => "NULL".to_owned(),
                DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
                _ => array_value_to_string(column, row).unwrap(),
            });
        }
    }
    values.join(", ")
}

/// That each function gives, over the rows beside it, this by `id`.
async fn check(cases: &[(&str, &str, &str)]) {
    let session = session();
    for (function, rows, expected) in cases {
        let sql = format!("SELECT {function} AS v FROM {rows} ORDER BY id");
        assert_eq!(column(&session, &sql).await, *expected, "{sql}");
    }
}

#[tokio::test]
async fn copies_of_a_window_have_its_partitions_and_order() {
    let session = session();
    for (sql, expected) in [
        (
            "sum(k) OVER (w ORDER BY id) AS v FROM {rows} WINDOW w AS (PARTITION BY day)",
            "10, 10, 30, 70, 70, 70",
        ),
        ("sum(k) OVER (w) AS v FROM {rows} WINDOW w AS (PARTITION BY day)", "70, 70, 70, 70, 70, 70"),
        (
            "count(k) OVER (w ROWS 1 PRECEDING) AS v FROM {rows} WINDOW w AS (PARTITION BY day ORDER BY id)",
            "1, 1, 1, 2, 1, 1",
        ),
        (
            "sum(k) OVER u AS v FROM {rows} WINDOW w AS (PARTITION BY day), u AS (w ORDER BY id)",
            "10, 10, 30, 70, 70, 70",
        ),
        ("id FROM {rows} WINDOW w AS (ORDER BY id) QUALIFY sum(k) OVER w > 10", "3, 4, 5, 6"),
    ] {
        let sql = format!("SELECT {} ORDER BY id", sql.replace("{rows}", ROWS));
        assert_eq!(column(&session, &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn windows_that_cannot_be_copied_are_refused() {
    let session = session();
    for (over, words) in [
        ("(w PARTITION BY id)", "keeps its PARTITION BY"),
        ("(w ORDER BY k)", "has an ORDER BY"),
        ("(v)", "write OVER v without parentheses"),
        ("(u)", "there is no window u"),
    ] {
        let sql = format!(
            "SELECT sum(k) OVER {over} FROM {ROWS} WINDOW w AS (PARTITION BY day ORDER BY id), v AS (w ROWS 1 PRECEDING)"
        );
        let error = match session.query(&sql).await {
            Ok(_) => panic!("{sql} is planned"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[tokio::test]
async fn doubles_that_left_a_frame_are_gone() {
    let far = numbered(&["1e20", "1e0", "1e0", "2e0"]);
    let infinite = numbered(&["CAST('Infinity' AS DOUBLE)", "1e0", "1e0", "2e0"]);
    let nan = numbered(&["CAST('NaN' AS DOUBLE)", "1e0", "1e0", "2e0"]);
    let equal = numbered(&["0.1e0", "NULL", "1e20", "0.1e0", "0.1e0", "0.1e0"]);
    check(&[
        (
            "sum(x) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            far.as_str(),
            "1e20, 1e20, 4.0, 3.0",
        ),
        ("sum(x) OVER (ORDER BY id GROUPS 1 PRECEDING)", far.as_str(), "1e20, 1e20, 2.0, 3.0"),
        (
            "avg(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
            far.as_str(),
            "2.5e19, 1.3333333333333333, 1.5, 2.0",
        ),
        (
            "sum(x) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)",
            far.as_str(),
            "NULL, 1e20, 1e20, 2.0",
        ),
        (
            "covar_pop(x, x) OVER (ORDER BY id ROWS 1 PRECEDING) = 0e0",
            far.as_str(),
            "true, false, true, false",
        ),
        ("sum(x) OVER (ORDER BY id RANGE 1 PRECEDING)", infinite.as_str(), "inf, inf, 2.0, 3.0"),
        ("avg(x) OVER (ORDER BY id RANGE 1 PRECEDING)", nan.as_str(), "NaN, NaN, 1.0, 1.5"),
        ("var_pop(x) OVER (ORDER BY id ROWS 1 PRECEDING)", nan.as_str(), "0.0, NaN, 0.0, 0.25"),
        (
            "stddev(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
            nan.as_str(),
            "NaN, 0.0, 0.7071067811865476, NULL",
        ),
        (
            "stddev(x) OVER (ORDER BY id ROWS 1 PRECEDING) < 1e0",
            equal.as_str(),
            "NULL, NULL, NULL, false, true, true",
        ),
        (
            "stddev_pop(x) OVER (ORDER BY id DESC RANGE 1 PRECEDING) = 0e0",
            equal.as_str(),
            "true, true, false, true, true, true",
        ),
        (
            "var_samp(x) OVER (ORDER BY id GROUPS 2 PRECEDING) = 0e0",
            equal.as_str(),
            "NULL, NULL, false, false, false, true",
        ),
    ])
    .await;
}

#[tokio::test]
async fn long_frames_of_doubles_are_right_too() {
    let session = session();
    let rows = "(SELECT value, CASE value WHEN 0 THEN 1e20 WHEN 1 THEN CAST('NaN' AS DOUBLE) ELSE 0.1e0 END AS x FROM range(3000)) AS t";
    for (function, condition) in [
        ("stddev(x)", "v = 0e0"),
        ("var_pop(x)", "v = 0e0"),
        ("avg(x)", "abs(v - 0.1e0) < 1e-12"),
        ("sum(x)", "abs(v - 50.1e0) < 1e-9"),
    ] {
        let sql = format!(
            "SELECT count(*) FROM (SELECT value, {function} OVER (ORDER BY value ROWS 500 PRECEDING) AS v FROM {rows}) AS w \
             WHERE value > 501 AND {condition}"
        );
        assert_eq!(column(&session, &sql).await, "2498", "{sql}");
    }
}

#[tokio::test]
async fn frames_move_on_of_all_aggregates() {
    let truth = numbered(&["true", "true", "NULL", "false", "true", "true", "NULL", "NULL", "NULL"]);
    let texts = numbered(&["'a'", "'b'", "NULL", "'d'", "'e'"]);
    let bits = numbered(&["7", "5", "2", "NULL", "NULL"]);
    check(&[
        (
            "bool_and(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            truth.as_str(),
            "true, true, false, false, false, true, true, NULL, NULL",
        ),
        (
            "bool_or(x) OVER (ORDER BY id ROWS 1 PRECEDING)",
            truth.as_str(),
            "true, true, true, false, true, true, true, NULL, NULL",
        ),
        (
            "string_agg(x, '-') OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
            texts.as_str(),
            "a, a-b, a-b, b-d, d-e",
        ),
        (
            "string_agg(x, '') OVER (ORDER BY id ROWS UNBOUNDED PRECEDING)",
            texts.as_str(),
            "a, ab, ab, abd, abde",
        ),
        ("bit_and(x) OVER (ORDER BY id ROWS 1 PRECEDING)", bits.as_str(), "7, 5, 0, 2, NULL"),
    ])
    .await;
    // Of more pieces than are kept apart.
    let sql = "SELECT count(*) FROM (SELECT value, string_agg(CAST(value % 10 AS VARCHAR), '') OVER (ORDER BY value ROWS 99 PRECEDING) AS s \
               FROM range(1000)) AS w WHERE value >= 99 AND length(s) = 100 AND right(s, 1) = CAST(value % 10 AS VARCHAR)";
    assert_eq!(column(&session(), sql).await, "901");
}

#[tokio::test]
async fn frames_that_end_before_they_start_have_no_rows_and_exclude_may_be_written() {
    let none = "NULL, NULL, NULL, NULL, NULL, NULL";
    check(&[
        ("max(k) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 4 PRECEDING)", ROWS, none),
        ("sum(k) OVER (ORDER BY day GROUPS BETWEEN 1 PRECEDING AND 2 PRECEDING)", ROWS, none),
        ("first_value(k) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING)", ROWS, none),
        ("count(*) OVER (ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 2 FOLLOWING)", ROWS, "0, 0, 0, 0, 0, 0"),
        ("sum(id) OVER (ORDER BY id ROWS 1 PRECEDING EXCLUDE NO OTHERS)", ROWS, "1, 3, 5, 7, 9, 11"),
    ])
    .await;
}

#[tokio::test]
async fn values_of_other_rows_are_counted_as_they_are_told() {
    let gaps = numbered(&["1", "NULL", "2", "3", "4", "5", "NULL", "6", "7"]);
    check(&[
        ("lead(x, 2 IGNORE NULLS) OVER (ORDER BY id)", gaps.as_str(), "3, 3, 4, 5, 6, 7, 7, NULL, NULL"),
        ("lag(x, 2 IGNORE NULLS) OVER (ORDER BY id)", gaps.as_str(), "NULL, NULL, NULL, 1, 2, 3, 4, 4, 5"),
        ("lead(x, 1, 0) IGNORE NULLS OVER (ORDER BY id)", gaps.as_str(), "2, 2, 3, 4, 5, 6, 6, 7, 0"),
        ("lag(k, NULL) OVER (ORDER BY id)", ROWS, "NULL, NULL, NULL, NULL, NULL, NULL"),
        ("lag(k, 1, id) OVER (ORDER BY id)", ROWS, "1, 10, NULL, 30, 40, NULL"),
        ("lag(k, 2 * id - 8) OVER (ORDER BY id)", ROWS, "NULL, 60, NULL, 40, 30, NULL"),
        ("lead(k, 1, 0.5) OVER (PARTITION BY day ORDER BY id)", ROWS, "NULL, 60.0, 40.0, NULL, 0.5, 0.5"),
        ("lead(k, 1, -1) OVER (PARTITION BY day ORDER BY id)", ROWS, "NULL, 60, 40, NULL, -1, -1"),
        ("lag(id, -2, -1) OVER (ORDER BY id DESC)", ROWS, "-1, -1, 1, 2, 3, 4"),
    ])
    .await;
    check(&[
        ("nth_value(k, id) OVER (ORDER BY id)", ROWS, "10, NULL, 30, 40, NULL, 60"),
        ("nth_value(k, 7 - id) OVER (ORDER BY id)", ROWS, "NULL, NULL, NULL, 30, NULL, 10"),
        (
            "nth_value(k, day IGNORE NULLS) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING)",
            ROWS,
            "10, 10, 40, 40, 60, 60",
        ),
    ])
    .await;
    // A LIMIT keeps the rows that are passed over.
    let sql = format!(
        "SELECT lead(x, 1 IGNORE NULLS) OVER (ORDER BY id) AS v FROM {} ORDER BY id LIMIT 1",
        numbered(&["1", "NULL", "NULL", "NULL", "5"])
    );
    assert_eq!(column(&session(), &sql).await, "5");
}

#[tokio::test]
async fn keys_without_distances_have_peers() {
    let intervals = "(VALUES (1, INTERVAL '1 day'), (2, INTERVAL '24 hours'), (3, INTERVAL '2 days'), (4, NULL)) AS t(id, i)";
    let times = "(VALUES (1, TIME '12:00:00'), (2, TIME '11:00:00'), (3, TIME '12:00:00')) AS t(id, m)";
    check(&[
        ("rank() OVER (ORDER BY i)", intervals, "1, 1, 3, 4"),
        ("dense_rank() OVER (ORDER BY i NULLS FIRST)", intervals, "2, 2, 3, 1"),
        ("count(*) OVER (ORDER BY i DESC NULLS LAST)", intervals, "3, 3, 1, 4"),
        ("sum(id) OVER (ORDER BY m RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", times, "4, 6, 4"),
    ])
    .await;
}

#[tokio::test]
async fn nulls_of_calls_are_ignored_by_the_function_around_them() {
    let gaps = numbered(&["NULL", "-2", "NULL", "4"]);
    check(&[
        ("first_value(abs(x) IGNORE NULLS) OVER (ORDER BY id)", gaps.as_str(), "NULL, 2, 2, 2"),
        ("last_value(abs(x) + abs(x) IGNORE NULLS) OVER (ORDER BY id)", gaps.as_str(), "NULL, 4, 4, 8"),
        ("lag(coalesce(x, NULL) IGNORE NULLS) OVER (ORDER BY id)", gaps.as_str(), "NULL, NULL, -2, -2"),
        ("lag(coalesce(x, NULL)) IGNORE NULLS OVER (ORDER BY id)", gaps.as_str(), "NULL, NULL, -2, -2"),
        ("last_value(abs(x) RESPECT NULLS) OVER (ORDER BY id)", gaps.as_str(), "NULL, 2, NULL, 4"),
    ])
    .await;
}

#[tokio::test]
async fn ranks_have_a_sign() {
    let ties = numbered(&["1", "1", "2"]);
    check(&[
        ("-rank() OVER (ORDER BY x)", ties.as_str(), "-1, -1, -3"),
        ("2 - -(row_number() OVER (ORDER BY id))", ties.as_str(), "3, 4, 5"),
        ("-ntile(2) OVER (ORDER BY id)", ties.as_str(), "-1, -1, -2"),
        ("NOT (rank() OVER (ORDER BY x) > 1)", ties.as_str(), "true, true, false"),
        ("ntile(2) OVER (ORDER BY id) - (rank() OVER (ORDER BY x))", ties.as_str(), "0, 0, -1"),
        ("rank() OVER (ORDER BY x) - 2", ties.as_str(), "-1, -1, 1"),
    ])
    .await;
    let ranked = "(SELECT id, x, row_number() OVER (ORDER BY id) AS n, rank() OVER (ORDER BY x) AS r, \
                  dense_rank() OVER (ORDER BY x) AS d, ntile(2) OVER (ORDER BY id) AS q \
                  FROM (VALUES (1, 1), (2, 1), (3, 2)) AS v(id, x)) AS t";
    check(&[
        ("n - 5", ranked, "-4, -3, -2"),
        ("-r", ranked, "-1, -1, -3"),
        ("abs(r - 3)", ranked, "2, 2, 0"),
        ("d - r", ranked, "0, 0, -1"),
        ("q - n", ranked, "0, -1, -1"),
        ("lag(n, 1, -5) OVER (ORDER BY id)", ranked, "-5, 1, 2"),
        ("lead(r, 1, -r) OVER (ORDER BY id)", ranked, "1, 3, -3"),
        ("substr('abc', n)", ranked, "abc, bc, c"),
        ("n > -1", ranked, "true, true, true"),
        ("n = x", ranked, "true, false, false"),
        ("arrow_typeof(n)", ranked, "Int64, Int64, Int64"),
        ("arrow_typeof(q)", ranked, "Int64, Int64, Int64"),
    ])
    .await;
}

#[tokio::test]
async fn ranks_are_stored_filtered_and_joined_as_bigint() {
    let session = session();
    let stored =
        format!("CREATE TABLE stored AS SELECT id, row_number() OVER (ORDER BY id DESC) AS n FROM {ROWS}");
    column(&session, &stored).await;
    let first_of_days = format!(
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY day ORDER BY id) AS r FROM {ROWS}) AS s \
         WHERE r <= 1 ORDER BY id"
    );
    for (sql, expected) in [
        ("SELECT DISTINCT arrow_typeof(n) FROM stored", "Int64"),
        ("SELECT n - 4 FROM stored ORDER BY n", "-3, -2, -1, 0, 1, 2"),
        ("SELECT id FROM stored WHERE n < 3 ORDER BY id", "5, 6"),
        (
            "SELECT rank() OVER (ORDER BY id) AS v FROM stored WHERE n > 4 UNION ALL SELECT -1 ORDER BY v",
            "-1, 1, 2",
        ),
        (
            "SELECT n FROM stored JOIN (SELECT row_number() OVER (ORDER BY id) AS r FROM stored) AS s ON r = id \
             WHERE r > 4 ORDER BY n",
            "1, 2",
        ),
        (first_of_days.as_str(), "1, 3"),
    ] {
        assert_eq!(column(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn frames_by_distances_that_end_before_they_start_have_peers_of_no_key_alone() {
    let keys = numbered(&["1", "2", "NULL", "NULL"]);
    check(&[
        (
            "sum(id) OVER (ORDER BY x RANGE BETWEEN 3 PRECEDING AND 5 PRECEDING)",
            keys.as_str(),
            "NULL, NULL, 7, 7",
        ),
        ("count(*) OVER (ORDER BY x RANGE BETWEEN 5 FOLLOWING AND 3 FOLLOWING)", keys.as_str(), "0, 0, 2, 2"),
        ("count(*) OVER (ORDER BY x ROWS BETWEEN 3 PRECEDING AND 5 PRECEDING)", keys.as_str(), "0, 0, 0, 0"),
    ])
    .await;
    let days = numbered(&["DATE '2024-01-01'", "DATE '2024-01-03'", "NULL", "NULL"]);
    check(&[
        (
            "sum(id) OVER (ORDER BY x RANGE BETWEEN INTERVAL '1 day' PRECEDING AND INTERVAL '3' DAY PRECEDING)",
            days.as_str(),
            "NULL, NULL, 7, 7",
        ),
        (
            "count(*) OVER (ORDER BY x RANGE BETWEEN INTERVAL '5 days' FOLLOWING AND INTERVAL '3 days' FOLLOWING)",
            days.as_str(),
            "0, 0, 2, 2",
        ),
    ])
    .await;
}

#[tokio::test]
async fn distances_pass_the_ends_of_the_types_of_keys() {
    let cast = |values: &[&str], data_type: &str| {
        let written = |value: &&str| format!("CAST({value} AS {data_type})");
        let values: Vec<String> = values.iter().map(written).collect();
        numbered(&values.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let tiny = cast(&["127", "1", "-128", "NULL"], "TINYINT");
    let unsigned = cast(&["3", "0", "9"], "INT UNSIGNED");
    let large = cast(&["3", "0", "18446744073709551615"], "BIGINT UNSIGNED");
    check(&[
        ("count(*) OVER (ORDER BY x RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING)", tiny.as_str(), "1, 1, 1, 1"),
        ("count(*) OVER (ORDER BY x NULLS FIRST RANGE 1 PRECEDING)", tiny.as_str(), "1, 1, 1, 1"),
        (
            "count(*) OVER (ORDER BY x RANGE BETWEEN 255 PRECEDING AND 128 PRECEDING)",
            tiny.as_str(),
            "1, 1, 0, 1",
        ),
        (
            "count(*) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING)",
            unsigned.as_str(),
            "0, 0, 2",
        ),
        (
            "count(*) OVER (ORDER BY x DESC RANGE BETWEEN 5 FOLLOWING AND UNBOUNDED FOLLOWING)",
            unsigned.as_str(),
            "0, 0, 2",
        ),
        (
            "count(*) OVER (ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING)",
            large.as_str(),
            "0, 0, 2",
        ),
    ])
    .await;
}
