//! The value of a subquery without rows is NULL, though its column is NOT NULL.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::{Tables, run};

/// Table t: id 0 to 3, and g, which is id / 2 but 7 in the last row; neither is ever NULL.
fn tables() -> (Tables, PeltonSession) {
    let tables = Tables::new();
    let column = |values: [i64; 4]| -> ArrayRef { Arc::new(Int64Array::from_iter_values(values)) };
    let columns = [("id", column([0, 1, 2, 3]), false), ("g", column([0, 0, 1, 7]), false)];
    tables.add("t", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 2, vec![]);
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    (tables, session)
}

#[tokio::test]
async fn a_subquery_without_rows_is_null() {
    let (tables, session) = tables();
    let nothing = "(SELECT id FROM t WHERE id < 0)";
    let null = "CAST(NULL AS BIGINT)";
    for (sql, same) in [
        (format!("SELECT {nothing} AS v"), format!("SELECT {null} AS v")),
        (format!("SELECT {nothing} IS NULL AS v"), "SELECT true AS v".to_owned()),
        (format!("SELECT {nothing} + 1 AS v"), format!("SELECT {null} AS v")),
        (format!("SELECT coalesce({nothing}, 7) AS v"), "SELECT 7 AS v".to_owned()),
        ("SELECT (SELECT 1 WHERE false) AS v".to_owned(), format!("SELECT {null} AS v")),
        ("SELECT (SELECT 1 WHERE false) IS NULL AS v".to_owned(), "SELECT true AS v".to_owned()),
        (
            "SELECT (SELECT count(*) FROM t HAVING count(*) > 9) AS v".to_owned(),
            format!("SELECT {null} AS v"),
        ),
        (
            format!("SELECT v IS NULL AS v FROM (SELECT {nothing} AS v) AS inner_rows"),
            "SELECT true AS v".to_owned(),
        ),
        (
            format!("SELECT {nothing} AS v UNION ALL SELECT 1 ORDER BY v"),
            "SELECT * FROM (VALUES (1), (NULL)) AS r (v) ORDER BY v".to_owned(),
        ),
        (format!("SELECT count(*) AS v FROM t WHERE {nothing} IS NULL"), "SELECT 4 AS v".to_owned()),
        (format!("SELECT count(*) AS v FROM t WHERE id = {nothing}"), "SELECT 0 AS v".to_owned()),
        (format!("SELECT count(*) AS v FROM t GROUP BY {nothing}"), "SELECT 4 AS v".to_owned()),
        (
            format!("SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE {nothing} IS NULL) ORDER BY id"),
            "SELECT id FROM t ORDER BY id".to_owned(),
        ),
    ] {
        assert_eq!(run(&session, &sql).await.0, tables.expected(&same).await, "{sql}");
    }
}

#[tokio::test]
async fn a_subquery_with_a_row_has_its_value() {
    let (tables, session) = tables();
    for (sql, same) in [
        ("SELECT (SELECT id FROM t WHERE id = 2) AS v", "SELECT 2 AS v"),
        ("SELECT (SELECT id FROM t WHERE id = 2) IS NULL AS v", "SELECT false AS v"),
        ("SELECT (SELECT count(*) FROM t WHERE id < 0) AS v", "SELECT 0 AS v"),
        ("SELECT count(*) AS v FROM t WHERE id > (SELECT id FROM t WHERE id = 1)", "SELECT 2 AS v"),
    ] {
        assert_eq!(run(&session, sql).await.0, tables.expected(same).await, "{sql}");
    }
    let query = session.query("SELECT (SELECT id FROM t)").await.unwrap();
    assert!(query.collect().await.unwrap_err().to_string().contains("more than one row"));
}

#[tokio::test]
async fn subqueries_about_a_row_are_null_where_they_find_none() {
    let (tables, session) = tables();
    let rows = |values: &str| format!("SELECT * FROM (VALUES {values}) AS r (id, v) ORDER BY id");
    for (value, expected) in [
        (
            "(SELECT count(*) FROM t AS s WHERE s.g = t.g HAVING count(*) > 1)",
            "(0, 2), (1, 2), (2, NULL), (3, NULL)",
        ),
        (
            "(SELECT count(*) FROM t AS s WHERE s.g = t.g HAVING count(*) > 1) IS NULL",
            "(0, false), (1, false), (2, true), (3, true)",
        ),
        ("(SELECT s.id FROM t AS s WHERE s.id = t.g + 1 LIMIT 1)", "(0, 1), (1, 1), (2, 2), (3, NULL)"),
        (
            "(SELECT s.id FROM t AS s WHERE s.id = t.g + 1 LIMIT 1) IS NULL",
            "(0, false), (1, false), (2, false), (3, true)",
        ),
        ("(SELECT count(*) FROM t AS s WHERE s.id = t.g + 1)", "(0, 1), (1, 1), (2, 1), (3, 0)"),
    ] {
        let sql = format!("SELECT id, {value} AS v FROM t ORDER BY id");
        assert_eq!(run(&session, &sql).await.0, tables.expected(&rows(expected)).await, "{sql}");
    }
}
