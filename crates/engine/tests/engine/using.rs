//! USING and NATURAL: their columns, beside the same joins by ON with the columns written out.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::{Tables, run};
use crate::same::{check_same, error_of};

/// Tables a (k, x), b (k, y) and c (k, z), of which each has keys that the others lack, and two have NULL.
fn tables() -> (Tables, PeltonSession) {
    let tables = Tables::new();
    let keys = [
        [Some(1), Some(2), Some(3), Some(3), None],
        [Some(2), Some(3), Some(4), Some(6), None],
        [Some(3), Some(4), Some(5), Some(1), Some(7)],
    ];
    for ((table, value), keys) in [("a", "x"), ("b", "y"), ("c", "z")].into_iter().zip(keys) {
        let values: Int64Array = (0..).map(|row| Some(10 * row)).take(keys.len()).collect();
        let columns: [(&str, ArrayRef, bool); 2] =
            [("k", Arc::new(Int64Array::from_iter(keys)), true), (value, Arc::new(values), true)];
        tables.add(table, RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 3, vec![]);
    }
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    (tables, session)
}

/// That each statement gives what the one beside it gives in plain DataFusion.
async fn check(cases: &[(&str, &str)]) {
    check_same(tables(), cases).await;
}

#[tokio::test]
async fn a_full_join_has_the_key_of_either_side() {
    let (_tables, session) = tables();
    let sql =
        "SELECT k, a.k AS of_a, b.k AS of_b, x, y FROM a FULL JOIN b USING (k) ORDER BY k, x, y NULLS LAST";
    let (actual, _) = run(&session, sql).await;
    let expected = [
        "+---+------+------+----+----+",
        "| k | of_a | of_b | x  | y  |",
        "+---+------+------+----+----+",
        "| 1 | 1    |      | 0  |    |",
        "| 2 | 2    | 2    | 10 | 0  |",
        "| 3 | 3    | 3    | 20 | 10 |",
        "| 3 | 3    | 3    | 30 | 10 |",
        "| 4 |      | 4    |    | 20 |",
        "| 6 |      | 6    |    | 30 |",
        "|   |      |      | 40 |    |",
        "|   |      |      |    | 40 |",
        "+---+------+------+----+----+",
    ];
    assert_eq!(actual, expected.join("\n"));
}

#[tokio::test]
async fn the_merged_column_comes_first_and_once() {
    let full = "SELECT coalesce(a.k, b.k) AS k, x, y FROM a FULL JOIN b ON a.k = b.k ORDER BY 1, 2, 3";
    let right = "SELECT b.k AS k, x, y FROM a RIGHT JOIN b ON a.k = b.k ORDER BY 1, 2, 3";
    check(&[
        ("SELECT * FROM a FULL JOIN b USING (k) ORDER BY 1, 2, 3", full),
        ("SELECT * FROM a NATURAL FULL JOIN b ORDER BY 1, 2, 3", full),
        ("SELECT * FROM (a FULL JOIN b USING (k)) AS t ORDER BY 1, 2, 3", full),
        ("SELECT t.* FROM (a FULL JOIN b USING (k)) AS t ORDER BY k, x, y", full),
        ("SELECT * FROM (SELECT * FROM a FULL JOIN b USING (k)) ORDER BY 1, 2, 3", full),
        ("WITH t AS (SELECT * FROM a FULL JOIN b USING (k)) SELECT k, x, y FROM t ORDER BY 1, 2, 3", full),
        ("SELECT * FROM a RIGHT JOIN b USING (k) ORDER BY 1, 2, 3", right),
        ("SELECT * FROM a NATURAL RIGHT JOIN b ORDER BY 1, 2, 3", right),
        (
            "SELECT a.*, b.y FROM a FULL JOIN b USING (k) ORDER BY 1, 2, 3",
            "SELECT a.k, x, y FROM a FULL JOIN b ON a.k = b.k ORDER BY 1, 2, 3",
        ),
    ])
    .await;
}

#[tokio::test]
async fn chains_compare_the_merged_column() {
    let (tables, session) = tables();
    let merged = |kind: &str, left: &str, right: &str| match kind {
        "FULL JOIN" => format!("coalesce({left}, {right})"),
        "RIGHT JOIN" => right.to_owned(),
        _ => left.to_owned(),
    };
    let kinds = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];
    for first in kinds {
        for second in kinds {
            let of_two = merged(first, "a.k", "b.k");
            let of_three = merged(second, &of_two, "c.k");
            let from = format!("a {first} b ON a.k = b.k {second} c ON {of_two} = c.k");
            let expected = tables
                .expected(&format!(
                    "SELECT {of_three} AS k, x, y, z FROM {from} WHERE {of_three} > 1 ORDER BY 1, 2, 3, 4"
                ))
                .await;
            for joins in [
                format!("a {first} b USING (k) {second} c USING (k)"),
                format!("(a {first} b USING (k)) {second} c USING (k)"),
            ] {
                let sql = format!("SELECT k, x, y, z FROM {joins} WHERE k > 1 ORDER BY 1, 2, 3, 4");
                assert_eq!(run(&session, &sql).await.0, expected, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn the_merged_column_is_known_beside_a_third_table() {
    check(&[
        (
            "SELECT a.x, b.y, t.z FROM a JOIN b USING (k) JOIN (SELECT k AS id, z FROM c) AS t ON t.id = k ORDER BY 1",
            "SELECT a.x, b.y, c.z FROM a JOIN b ON a.k = b.k JOIN c ON c.k = a.k ORDER BY 1",
        ),
        (
            "SELECT k FROM a LEFT JOIN b USING (k) LEFT JOIN c USING (k) ORDER BY k",
            "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k ORDER BY k",
        ),
        (
            "SELECT * FROM a JOIN b USING (k) LEFT JOIN c USING (k) WHERE k > 2 ORDER BY 1, 2",
            "SELECT a.k, x, y, z FROM a JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k WHERE a.k > 2 ORDER BY 1, 2",
        ),
        (
            "SELECT k, x FROM a JOIN b USING (k) WHERE k < 3 ORDER BY k",
            "SELECT a.k, x FROM a JOIN b ON a.k = b.k WHERE a.k < 3 ORDER BY 1",
        ),
    ])
    .await;
}

#[tokio::test]
async fn every_clause_knows_the_merged_column() {
    let rows = "(SELECT coalesce(a.k, b.k) AS k, x, y FROM a FULL JOIN b ON a.k = b.k) AS t";
    let on_rows = |sql: &str| sql.replace("FROM t", &format!("FROM {rows}"));
    let cases = [
        "SELECT k, x FROM t WHERE k > 2 ORDER BY k, x",
        "SELECT x, y FROM t WHERE k IN (SELECT k FROM c) ORDER BY 1, 2",
        "SELECT k, count(*) AS n FROM t GROUP BY k HAVING k > 1 ORDER BY k",
        "SELECT sum(k) AS s, max(k + 1) AS m FROM t",
        "SELECT DISTINCT k AS kk FROM t ORDER BY kk",
        "SELECT y FROM t ORDER BY k DESC NULLS LAST, y",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY x, y) AS n FROM t ORDER BY 1, 2",
        "SELECT CASE WHEN k > 2 THEN k ELSE 0 END AS c, x FROM t ORDER BY 1, 2",
        "SELECT k FROM t WHERE k < 3 UNION ALL SELECT k FROM t WHERE k > 3 ORDER BY 1",
    ];
    let expected = cases.map(on_rows);
    let actual = cases.map(|sql| sql.replace("FROM t", "FROM a FULL JOIN b USING (k)"));
    let pairs: Vec<(&str, &str)> =
        actual.iter().zip(&expected).map(|(sql, same)| (sql.as_str(), same.as_str())).collect();
    check(&pairs).await;
    check(&[(
        "SELECT c.z, x, y FROM a FULL JOIN b USING (k) JOIN c ON c.k = k + 1 ORDER BY 1, 2, 3",
        "SELECT c.z, x, y FROM a FULL JOIN b ON a.k = b.k JOIN c ON c.k = coalesce(a.k, b.k) + 1 ORDER BY 1, 2, 3",
    )])
    .await;
}

#[tokio::test]
async fn in_subqueries_the_merged_column_is_not_one_of_a_query_around() {
    check(&[
        (
            "SELECT x, (SELECT max(k) FROM b FULL JOIN c USING (k)) AS m FROM a ORDER BY x",
            "SELECT x, 7 AS m FROM a ORDER BY x",
        ),
        (
            "SELECT x, (SELECT max(k) FROM b JOIN c USING (k)) AS m FROM a ORDER BY x",
            "SELECT x, 4 AS m FROM a ORDER BY x",
        ),
        (
            "SELECT x, (SELECT k FROM b FULL JOIN c USING (k) ORDER BY k LIMIT 1) AS m FROM a ORDER BY x",
            "SELECT x, 1 AS m FROM a ORDER BY x",
        ),
        (
            "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b RIGHT JOIN c USING (k) WHERE k = a.k) ORDER BY x",
            "SELECT x FROM a WHERE a.k IN (SELECT c.k FROM c) ORDER BY x",
        ),
    ])
    .await;
    let (_tables, session) = tables();
    let error = error_of(&session, "SELECT (SELECT max(k) FROM b NATURAL FULL JOIN c) AS m FROM a").await;
    assert!(error.contains("write USING (k) in place of NATURAL"), "{error}");
}

#[tokio::test]
async fn columns_of_the_result_are_called_as_they_are_written() {
    let (_tables, session) = tables();
    let query =
        session.query("SELECT k, k + 1, sum(k) FROM a FULL JOIN b USING (k) GROUP BY k").await.unwrap();
    let names: Vec<String> = query.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["k", "k + 1", "sum(k)"]);
}

#[tokio::test]
async fn what_is_not_clear_is_refused() {
    let (_tables, session) = tables();
    for sql in ["SELECT k FROM a FULL JOIN b USING (k), c", "SELECT k FROM a FULL JOIN b ON a.k = b.k"] {
        error_of(&session, sql).await;
    }
    let error = error_of(&session, "FROM a |> FULL JOIN b USING (k) |> SELECT k").await;
    assert!(error.contains("COALESCE(a.k, b.k) AS k"), "{error}");
    let error = error_of(&session, "SELECT * FROM a AS \" a\" FULL JOIN b USING (k)").await;
    assert!(error.contains("begins with a letter"), "{error}");
}
