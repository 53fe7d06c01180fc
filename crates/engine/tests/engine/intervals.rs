//! Intervals compare by their length. Expected values are written by hand: plain DataFusion compares months first, then
//! days, then nanoseconds.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use datafusion::physical_plan::displayable;
use pelton_engine::{PeltonSession, SessionOptions};

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// Spans of a second less than a day, of a day, of 25 hours and without an end; and three events.
async fn session_with_tables() -> PeltonSession {
    let session = session();
    for sql in [
        "CREATE TABLE spans AS SELECT * FROM (VALUES \
         (1, TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 23:59:59'), \
         (2, TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 00:00:00'), \
         (3, TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 01:00:00'), \
         (4, TIMESTAMP '2024-01-01 00:00:00', NULL)) AS t(id, a, b)",
        "CREATE TABLE events AS SELECT * FROM (VALUES (TIMESTAMP '2024-01-01 00:00:00'), \
         (TIMESTAMP '2024-01-01 23:00:00'), (TIMESTAMP '2024-01-02 23:30:00')) AS t(ts)",
    ] {
        session.query(sql).await.unwrap().collect().await.unwrap();
    }
    session
}

/// The first column of all rows.
async fn column(session: &PeltonSession, sql: &str) -> Vec<String> {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut values = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        values.extend((0..column.len()).map(|row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => array_value_to_string(column, row).unwrap(),
        }));
    }
    values
}

async fn check(session: &PeltonSession, sql: &str, expected: &[&str]) {
    assert_eq!(column(session, sql).await, expected, "{sql}");
}

#[tokio::test]
async fn constants_compare_by_length() {
    let session = session();
    for (expression, expected) in [
        ("INTERVAL '24 hours' = INTERVAL '1 day'", "true"),
        ("INTERVAL '24 hours' <> INTERVAL '1 day'", "false"),
        ("INTERVAL '30 days' = INTERVAL '1 month'", "true"),
        ("INTERVAL '1 year' = INTERVAL '360 days'", "true"),
        ("INTERVAL '1 month' > INTERVAL '31 days'", "false"),
        ("INTERVAL '1 month' > INTERVAL '29 days 23 hours'", "true"),
        ("INTERVAL '25 hours' <= INTERVAL '1 day'", "false"),
        ("- INTERVAL '25 hours' < - INTERVAL '1 day'", "true"),
        ("INTERVAL '1 day' - INTERVAL '24 hours' = INTERVAL '0 days'", "true"),
        ("INTERVAL '24 hours' IS DISTINCT FROM INTERVAL '1 day'", "false"),
        ("INTERVAL '24 hours' IS NOT DISTINCT FROM INTERVAL '1 day'", "true"),
        ("INTERVAL '1 day' IS NOT DISTINCT FROM NULL", "false"),
        ("INTERVAL '1 day' < NULL", "NULL"),
        ("INTERVAL '36 hours' BETWEEN INTERVAL '1 day' AND INTERVAL '2 days'", "true"),
        ("INTERVAL '36 hours' NOT BETWEEN INTERVAL '2 days' AND INTERVAL '3 days'", "true"),
        ("INTERVAL '48 hours' IN (INTERVAL '1 day', INTERVAL '2 days')", "true"),
        ("INTERVAL '48 hours' NOT IN (INTERVAL '1 day', INTERVAL '3 days')", "true"),
        ("INTERVAL '72 hours' IN (INTERVAL '1 day', NULL)", "NULL"),
        ("CASE INTERVAL '24 hours' WHEN INTERVAL '1 day' THEN 'day' ELSE 'other' END", "day"),
        ("TIME '13:00:00' - TIME '12:00:00' < INTERVAL '1 day'", "true"),
        ("TIMESTAMP '2024-01-02 01:00:00' - TIMESTAMP '2024-01-01 00:00:00' < INTERVAL '1 day'", "false"),
        ("TIMESTAMP '2024-01-02 01:00:00' - TIMESTAMP '2024-01-01 00:00:00' > INTERVAL '1 day'", "true"),
        ("DATE '2024-01-02' - TIMESTAMP '2024-01-01 00:00:00' = INTERVAL '1 day'", "true"),
        (
            "CAST('9999-01-01T00:00:00' AS TIMESTAMP(6)) - CAST('0001-01-01T00:00:00' AS TIMESTAMP(6)) \
             > INTERVAL '9000 years'",
            "true",
        ),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
}

#[tokio::test]
async fn differences_of_timestamps_compare_with_intervals() {
    let session = session_with_tables().await;
    for (condition, expected) in [
        ("b - a < INTERVAL '1 day'", &["1"][..]),
        ("b - a = INTERVAL '1 day'", &["2"]),
        ("b - a <> INTERVAL '1 day'", &["1", "3"]),
        ("INTERVAL '1 day' <= b - a", &["2", "3"]),
        ("NOT b - a > INTERVAL '1 day'", &["1", "2"]),
        ("b - a IS DISTINCT FROM INTERVAL '1 day'", &["1", "3", "4"]),
        ("b - a BETWEEN INTERVAL '24 hours' AND INTERVAL '25 hours'", &["2", "3"]),
        ("b - a NOT BETWEEN INTERVAL '1 day' AND INTERVAL '2 days'", &["1"]),
        ("b - a IN (INTERVAL '24 hours', INTERVAL '1 day 1 hour')", &["2", "3"]),
        ("b - a NOT IN (INTERVAL '1 day')", &["1", "3"]),
        ("CASE b - a WHEN INTERVAL '1 day' THEN true ELSE false END", &["2"]),
        ("b - a < (SELECT INTERVAL '1 day')", &["1"]),
        ("b - a IN (SELECT INTERVAL '1 day')", &["2"]),
        (
            "b - a >= ALL (SELECT i FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours')) AS u(i))",
            &["2", "3"],
        ),
        ("b - INTERVAL '1 day' < a", &["1"]),
    ] {
        check(&session, &format!("SELECT id FROM spans WHERE {condition} ORDER BY id"), expected).await;
    }
}

#[tokio::test]
async fn differences_of_aggregates_and_of_both_sides_of_a_join_compare_with_intervals() {
    let session = session_with_tables().await;
    for (sql, expected) in [
        ("SELECT max(b) - min(a) > INTERVAL '1 day' FROM spans", "true"),
        ("SELECT max(b) - min(a) > INTERVAL '5 years' FROM spans", "false"),
        ("SELECT count(*) FROM spans HAVING max(b) - min(a) > INTERVAL '1 day'", "4"),
        ("SELECT count(*) FILTER (WHERE b - a < INTERVAL '1 day') FROM spans", "1"),
        (
            "SELECT count(*) FROM events AS x JOIN events AS y \
             ON x.ts < y.ts AND y.ts - x.ts < INTERVAL '1 day'",
            "1",
        ),
        (
            "SELECT count(*) FROM events AS x JOIN events AS y \
             ON x.ts < y.ts AND y.ts - x.ts <= INTERVAL '2 days'",
            "3",
        ),
        (
            "SELECT count(*) FROM events AS x LEFT JOIN events AS y \
             ON x.ts < y.ts AND y.ts - x.ts < INTERVAL '1 day' WHERE y.ts IS NULL",
            "2",
        ),
        (
            "SELECT count(*) FROM events AS x WHERE EXISTS \
             (SELECT 1 FROM events AS y WHERE x.ts < y.ts AND y.ts - x.ts < INTERVAL '1 day')",
            "1",
        ),
        ("SELECT count(*) FROM spans AS x JOIN spans AS y ON x.b - x.a = y.b - y.a", "3"),
    ] {
        check(&session, sql, &[expected]).await;
    }
}

/// By length: 1 day, 25 hours, 1 month, 30 days and 1 hour.
const INTERVALS: &str = "(VALUES ('25h', INTERVAL '25 hours'), ('1d', INTERVAL '1 day'), ('none', NULL), \
                         ('30d1h', INTERVAL '30 days 1 hour'), ('1mon', INTERVAL '1 month')) AS t(n, i)";

#[tokio::test]
async fn intervals_are_ordered_by_length() {
    let session = session();
    let of = |rest: &str| format!("SELECT n FROM {INTERVALS} {rest}");
    check(&session, &of("ORDER BY i"), &["1d", "25h", "1mon", "30d1h", "none"]).await;
    check(&session, &of("ORDER BY i DESC"), &["none", "30d1h", "1mon", "25h", "1d"]).await;
    check(&session, &of("ORDER BY i NULLS FIRST LIMIT 2"), &["none", "1d"]).await;
    check(&session, &of("WHERE i IN (SELECT INTERVAL '720 hours')"), &["1mon"]).await;
    let texts = format!("SELECT string_agg(n, ' ' ORDER BY i) FROM {INTERVALS}");
    check(&session, &texts, &["1d 25h 1mon 30d1h none"]).await;
    let joined =
        format!("SELECT n FROM {INTERVALS} JOIN (VALUES (INTERVAL '24 hours')) AS u(j) ON t.i = u.j");
    check(&session, &joined, &["1d"]).await;
    let partitions = "SELECT count(*) OVER (PARTITION BY i) \
                      FROM (VALUES (INTERVAL '24 hours'), (INTERVAL '1 day'), (INTERVAL '2 days')) AS t(i)";
    let mut counts = column(&session, partitions).await;
    counts.sort();
    assert_eq!(counts, ["1", "2", "2"]);
}

#[tokio::test]
async fn least_and_greatest_intervals_are_those_by_length() {
    let session = session();
    let of = |columns: &str, rest: &str| format!("SELECT {columns} FROM {INTERVALS} {rest}");
    check(&session, &of("max(i) = INTERVAL '721 hours'", ""), &["true"]).await;
    check(&session, &of("min(i) = INTERVAL '24 hours'", ""), &["true"]).await;
    check(&session, &of("max(i) FILTER (WHERE n <> '30d1h') = INTERVAL '30 days'", ""), &["true"]).await;
    check(&session, &of("max(i)", "WHERE n = 'none'"), &["NULL"]).await;
    check(&session, &of("min(i)", "WHERE false"), &["NULL"]).await;
    let groups = of(
        "max(i) = INTERVAL '25 hours'",
        "GROUP BY n LIKE '%h' AND n NOT LIKE '30%' HAVING min(i) > INTERVAL '1 day'",
    );
    check(&session, &groups, &["true"]).await;
}

/// Two intervals of a day, one of 25 hours, two of 30 days, two that are NULL.
const REPEATED: &str = "(VALUES ('a', INTERVAL '24 hours'), ('b', INTERVAL '1 day'), ('c', INTERVAL '30 days'), \
                        ('d', INTERVAL '1 month'), ('e', INTERVAL '25 hours'), ('f', NULL), ('g', NULL)) AS t(n, i)";

#[tokio::test]
async fn intervals_are_grouped_by_length() {
    let session = session();
    let of = |columns: &str, rest: &str| format!("SELECT {columns} FROM {REPEATED} {rest}");
    let names = "string_agg(n, ' ' ORDER BY n)";
    check(&session, &of(names, "GROUP BY i ORDER BY i"), &["a b", "e", "c d", "f g"]).await;
    check(&session, &of("i IS NULL", "GROUP BY i ORDER BY i"), &["false", "false", "false", "true"]).await;
    check(&session, &of(names, "GROUP BY i, n > 'b' ORDER BY 1"), &["a b", "c d", "e", "f g"]).await;
    check(&session, &of(names, "GROUP BY i HAVING i > INTERVAL '24 hours' ORDER BY i"), &["e", "c d"]).await;
    check(&session, &of(names, "GROUP BY i + INTERVAL '1 hour' ORDER BY 1"), &["a b", "c d", "e", "f g"])
        .await;
    check(&session, &of("count(DISTINCT i)", ""), &["3"]).await;
    check(&session, &of("count(DISTINCT i) + count(DISTINCT n)", ""), &["10"]).await;
    check(&session, &of("DISTINCT ON (i) n", "ORDER BY i, n"), &["a", "e", "c", "f"]).await;
    let distinct = format!("SELECT count(*) FROM (SELECT DISTINCT i FROM {REPEATED}) AS d");
    check(&session, &distinct, &["4"]).await;
    let union = "SELECT count(*) FROM (SELECT INTERVAL '24 hours' AS i UNION SELECT INTERVAL '1 day' \
                 UNION SELECT INTERVAL '2 days') AS u";
    check(&session, union, &["2"]).await;
    let except =
        format!("SELECT count(*) FROM (SELECT i FROM {REPEATED} EXCEPT SELECT INTERVAL '720 hours') AS u");
    check(&session, &except, &["3"]).await;
}

/// Intervals of one length differ where they are added to a date.
#[tokio::test]
async fn a_group_gives_back_an_interval_that_is_in_it() {
    let session = session();
    for (intervals, expected) in [
        ("(INTERVAL '1 month'), (INTERVAL '1 month')", "2024-03-01"),
        ("(INTERVAL '30 days'), (INTERVAL '30 days')", "2024-03-02"),
        ("(INTERVAL '1 month'), (INTERVAL '30 days')", "2024-03-02"),
        ("(INTERVAL '30 days'), (INTERVAL '1 month')", "2024-03-02"),
    ] {
        for rest in ["GROUP BY i", "GROUP BY i HAVING count(*) = 2"] {
            let sql = format!("SELECT DATE '2024-02-01' + i FROM (VALUES {intervals}) AS t(i) {rest}");
            check(&session, &sql, &[expected]).await;
        }
    }
    // Neither column may be NULL, and that is what the table is declared with.
    for sql in [
        "CREATE TABLE days AS SELECT INTERVAL '24 hours' AS i UNION SELECT INTERVAL '1 day'",
        "CREATE TABLE later AS SELECT DATE '2024-02-01' + i AS d FROM \
         (SELECT DISTINCT INTERVAL '1 month' AS i FROM (VALUES (1), (2)) AS t(x)) AS d",
    ] {
        session.query(sql).await.unwrap().collect().await.unwrap();
    }
    check(&session, "SELECT i = INTERVAL '1 day' FROM days", &["true"]).await;
    check(&session, "SELECT d FROM later", &["2024-03-01"]).await;
}

#[tokio::test]
async fn greatest_least_and_nullif_are_by_length() {
    let session = session();
    for (expression, expected) in [
        ("DATE '2024-02-01' + greatest(INTERVAL '1 month', INTERVAL '31 days')", "2024-03-03"),
        (
            "DATE '2024-02-01' + least(INTERVAL '1 month', INTERVAL '31 days', INTERVAL '32 days')",
            "2024-03-01",
        ),
        ("DATE '2024-02-01' + greatest(INTERVAL '1 month', INTERVAL '30 days')", "2024-03-01"),
        ("DATE '2024-02-01' + greatest(INTERVAL '30 days', INTERVAL '1 month')", "2024-03-02"),
        ("greatest(NULL, INTERVAL '1 day') = INTERVAL '24 hours'", "true"),
        ("least(CAST(NULL AS INTERVAL), NULL)", "NULL"),
        ("nullif(INTERVAL '1 day', INTERVAL '24 hours')", "NULL"),
        ("DATE '2024-02-01' + nullif(INTERVAL '1 month', INTERVAL '31 days')", "2024-03-01"),
        ("nullif(INTERVAL '1 day', NULL) = INTERVAL '1 day'", "true"),
        (
            "greatest(TIMESTAMP '2024-01-02 01:00:00' - TIMESTAMP '2024-01-01 00:00:00', INTERVAL '1 day') \
             = INTERVAL '25 hours'",
            "true",
        ),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
    let where_is = |condition: &str| format!("SELECT n FROM {REPEATED} WHERE {condition} ORDER BY n");
    let of_a_day = &["a", "b", "f", "g"];
    check(&session, &where_is("greatest(i, INTERVAL '1 day') = INTERVAL '24 hours'"), of_a_day).await;
    check(&session, &where_is("nullif(i, INTERVAL '24 hours') IS NULL"), of_a_day).await;
}

#[tokio::test]
async fn plans_compare_lengths_with_a_constant() {
    let session = session_with_tables().await;
    let query = session.query("SELECT id FROM spans WHERE b - a < INTERVAL '1 day'").await.unwrap();
    let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
    assert!(plan.contains("interval_length("), "{plan}");
    assert!(plan.contains("86400000000000"), "the constant is computed while planning:\n{plan}");
}
