//! Names and short forms: what a name in ORDER BY means, expressions that DataFusion names alike, names of a WITH, and what
//! PostgreSQL and DuckDB write shorter; each beside a statement of the same meaning in plain DataFusion.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::Tables;
use crate::same::{check_same, error_of};

/// Tables a (id, k, g) and b (id, k), each with a NULL in `k`.
fn tables() -> (Tables, PeltonSession) {
    let tables = Tables::new();
    let column = |values: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let (ids, k) = ([Some(1), Some(2), Some(3), Some(4)], [Some(3), Some(1), None, Some(2)]);
    let columns = [
        ("id", column(&ids), false),
        ("k", column(&k), true),
        ("g", column(&[Some(1), Some(1), Some(2), Some(3)]), true),
    ];
    tables.add("a", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 2, vec![]);
    let columns = [("id", column(&ids[..3]), false), ("k", column(&[Some(3), None, Some(4)]), true)];
    tables.add("b", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 2, vec![]);
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    (tables, session)
}

/// That each statement gives what the one beside it gives in plain DataFusion.
async fn check(cases: &[(&str, &str)]) {
    check_same(tables(), cases).await;
}

#[tokio::test]
async fn a_name_in_an_expression_of_order_by_is_a_column_of_from() {
    let by_id = "SELECT n AS id FROM (SELECT id AS o, -id AS n FROM a) ORDER BY o";
    let of_some = by_id.replace("FROM a)", "FROM a WHERE id > 1)");
    check(&[
        ("SELECT -id AS id FROM a ORDER BY id + 0", by_id),
        ("SELECT -id AS id FROM a ORDER BY a.id", by_id),
        ("SELECT -id AS id FROM a WHERE id > 1 ORDER BY a.id", of_some.as_str()),
        ("SELECT -id AS id FROM a ORDER BY id", "SELECT -id AS id FROM a ORDER BY 1"),
        ("SELECT 10 - id AS id FROM a ORDER BY id * 1 LIMIT 2", "SELECT * FROM (VALUES (9), (8)) AS v(id)"),
        (
            "SELECT max(id) AS m FROM (SELECT -id AS id FROM a ORDER BY id + 0 DESC LIMIT 2) AS s",
            "SELECT -3 AS m",
        ),
        (
            "WITH s AS (SELECT -id AS id, k FROM a ORDER BY id + 0, k LIMIT 3) SELECT sum(id) AS n, sum(k) AS k FROM s",
            "SELECT CAST(-6 AS DECIMAL(38, 0)) AS n, CAST(4 AS DECIMAL(38, 0)) AS k",
        ),
        // The names of the other columns stay.
        (
            "SELECT -id AS id, k, a.g, k + 1 AS more FROM a ORDER BY id + 0, more",
            "SELECT n AS id, k, g, k + 1 AS more FROM (SELECT id AS o, -id AS n, k, g FROM a) ORDER BY o",
        ),
    ])
    .await;
}

#[tokio::test]
async fn keys_of_order_by_that_the_result_has_are_its_columns() {
    check(&[
        (
            "SELECT sum(k) AS k FROM a GROUP BY g ORDER BY sum(k), g",
            "SELECT s AS k FROM (SELECT g, sum(k) AS s FROM a GROUP BY g) ORDER BY s, g",
        ),
        (
            "SELECT DISTINCT k - (id - 1) AS p FROM a ORDER BY k - (id - 1)",
            "SELECT p FROM (SELECT DISTINCT k - id + 1 AS p FROM a) ORDER BY p",
        ),
        ("SELECT id + 1 AS id FROM a ORDER BY id + 1 DESC", "SELECT id + 1 AS id FROM a ORDER BY 1 DESC"),
    ])
    .await;
}

#[tokio::test]
async fn names_of_the_result_alone_are_known_in_expressions_too() {
    check(&[
        ("SELECT id * 2 AS n FROM a ORDER BY -n", "SELECT id * 2 AS n FROM a ORDER BY id DESC"),
        (
            "SELECT g, count(*) AS n FROM a GROUP BY g ORDER BY -n, g",
            "SELECT g, count(*) AS n FROM a GROUP BY g ORDER BY 2 DESC, 1",
        ),
    ])
    .await;
    let (_tables, session) = tables();
    let error = error_of(&session, "SELECT id AS n FROM a ORDER BY m + 1").await;
    assert!(error.contains("No field named m"), "{error}");
}

#[tokio::test]
async fn names_in_having_and_qualify_are_columns_of_from_first() {
    check(&[
        (
            "SELECT g, sum(v) AS v FROM (SELECT g, id * 2 AS v FROM a) GROUP BY g HAVING sum(v) > 6 ORDER BY g",
            "SELECT g, 2 * sum(id) AS v FROM a WHERE g = 3 GROUP BY g",
        ),
        (
            "SELECT -v AS v, count(*) AS n FROM (SELECT id * 2 AS v FROM a) GROUP BY v HAVING v > 4 ORDER BY 1",
            "SELECT * FROM (VALUES (-8, 1), (-6, 1)) AS v(v, n)",
        ),
        (
            "SELECT -v AS v FROM (SELECT id * 2 AS v FROM a) QUALIFY row_number() OVER (ORDER BY v) = 1",
            "SELECT -2 AS v",
        ),
        (
            "SELECT max(v) AS v FROM (SELECT id * 2 AS v FROM a) HAVING max(v) > 7",
            "SELECT * FROM (VALUES (8)) AS v(v)",
        ),
        // Names of the result alone are known, too.
        (
            "SELECT g, count(*) AS n FROM (SELECT g + 0 AS g FROM a) GROUP BY g HAVING n > 1",
            "SELECT * FROM (VALUES (1, 2)) AS v(g, n)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_column_may_have_a_name_that_the_tables_have_beside_it() {
    check(&[
        (
            "SELECT *, k + 1 AS k, id AS n FROM a ORDER BY a.id",
            "SELECT *, k + 1 AS k_1, id AS n FROM a ORDER BY id",
        ),
        (
            "SELECT a.*, k + 1 AS k, -id AS id FROM a ORDER BY a.id",
            "SELECT *, k + 1 AS k_1, -id AS id_1 FROM a ORDER BY a.id",
        ),
        ("SELECT id, id + 1 AS id FROM a ORDER BY 1", "SELECT id, id + 1 AS id_1 FROM a ORDER BY 1"),
    ])
    .await;
}

#[tokio::test]
async fn expressions_that_differ_in_parentheses_are_different_columns() {
    check(&[
        (
            "SELECT k * (id + 1), k * id + 1 FROM a ORDER BY id",
            "SELECT k * id + k AS \"k * (id + 1)\", k * id + 1 FROM a ORDER BY id",
        ),
        (
            "SELECT g, sum(k - (id - 1)) AS x, sum(k - id - 1) AS y FROM a GROUP BY g ORDER BY g",
            "SELECT g, sum(k + 1 - id) AS x, sum(k - id - 1) AS y FROM a GROUP BY g ORDER BY g",
        ),
        (
            "SELECT g, sum(k - (id - 1)) AS x FROM a GROUP BY g HAVING sum(k - id - 1) > -2 ORDER BY g",
            "SELECT g, x FROM (SELECT g, sum(k + 1 - id) AS x, sum(k - id - 1) AS y FROM a GROUP BY g) WHERE y > -2 ORDER BY g",
        ),
        (
            "SELECT id, sum(k - (id - 1)) OVER (ORDER BY id) AS p, sum(k - id - 1) OVER (ORDER BY id) AS q FROM a ORDER BY id",
            "SELECT id, sum(k + 1 - id) OVER (ORDER BY id) AS p, sum(k - id - 1) OVER (ORDER BY id) AS q FROM a ORDER BY id",
        ),
        (
            "SELECT count(*) FILTER (WHERE NOT (k > 1 AND id > 3)) AS p, count(*) FILTER (WHERE NOT k > 1 AND id > 3) AS q FROM a",
            "SELECT 3 AS p, 0 AS q",
        ),
        // Groups are found whatever parentheses they are written with.
        (
            "SELECT k - (id - 1) AS p, k - id - 1 AS q, count(*) AS n FROM a GROUP BY (k - (id - 1)), (k - id) - 1 ORDER BY p",
            "SELECT p, p - 2 AS q, count(*) AS n FROM (SELECT k - id + 1 AS p FROM a) GROUP BY p ORDER BY p",
        ),
    ])
    .await;
}

#[tokio::test]
async fn subqueries_are_different_columns() {
    let (in_b, in_a) = ("k IN (SELECT k FROM b WHERE k IS NOT NULL)", "k IN (SELECT id FROM a WHERE id < 3)");
    let value_of = |found: &str| format!("CASE WHEN {found} THEN true WHEN k IS NOT NULL THEN false END");
    let (p, q) = (value_of("k = 3 OR k = 4"), value_of("k < 3"));
    check(&[
        (
            "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)",
            "SELECT 4 AS \"(SELECT count(*) FROM a)\", 3 AS \"(SELECT count(*) FROM b)\"",
        ),
        (
            format!("SELECT id, {in_b} AS p, {in_a} AS q FROM a ORDER BY id").as_str(),
            format!("SELECT id, {p} AS p, {q} AS q FROM a ORDER BY id").as_str(),
        ),
        (
            format!("SELECT {in_b} AS p, {in_a} AS q, count(*) AS n FROM a GROUP BY p, q ORDER BY p, q").as_str(),
            format!(
                "SELECT p, q, count(*) AS n FROM (SELECT {p} AS p, {q} AS q FROM a) GROUP BY p, q ORDER BY p, q"
            )
            .as_str(),
        ),
        (
            format!(
                "SELECT count(*) FILTER (WHERE {in_b}) AS p, count(*) FILTER (WHERE {in_a}) AS q FROM a"
            )
            .as_str(),
            "SELECT 1 AS p, 2 AS q",
        ),
        (
            "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.k = a.k) THEN 1 END) AS p, \
             sum(CASE WHEN EXISTS (SELECT 1 FROM b WHERE b.id = a.k) THEN 1 END) AS q FROM a",
            "SELECT CAST(1 AS DECIMAL(38, 0)) AS p, CAST(3 AS DECIMAL(38, 0)) AS q",
        ),
    ])
    .await;
    let (_tables, session) = tables();
    let query = session
        .query("SELECT EXISTS (SELECT 1 FROM b WHERE b.k = a.k), EXISTS (SELECT 1 FROM b) FROM a")
        .await
        .unwrap();
    let names: Vec<String> = query.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", "EXISTS (SELECT 1 FROM b)"]);
}

#[tokio::test]
async fn branches_of_a_union_are_called_as_the_first() {
    check(&[
        (
            "SELECT k, NULL FROM a UNION SELECT NULL, k FROM b ORDER BY 1, 2",
            "SELECT k, \"NULL\" FROM (SELECT k, CAST(NULL AS BIGINT) AS \"NULL\" FROM a UNION SELECT CAST(NULL AS BIGINT), k AS l \
             FROM b) ORDER BY 1, 2",
        ),
        ("SELECT k AS n, id AS n FROM a ORDER BY 2", "SELECT k AS n, id AS n_1 FROM a ORDER BY 2"),
    ])
    .await;
}

#[tokio::test]
async fn a_name_of_a_with_hides_that_of_one_around() {
    check(&[
        (
            "WITH s AS (SELECT k FROM a) SELECT k FROM (WITH s AS (SELECT k FROM b) SELECT s.k FROM s) AS i ORDER BY k",
            "SELECT k FROM b ORDER BY k",
        ),
        // The query of the name itself still sees the one around.
        (
            "WITH s AS (SELECT id FROM a) SELECT id FROM (WITH s AS (SELECT id + 1 AS id FROM s) SELECT id FROM s) AS i ORDER BY id",
            "SELECT id + 1 AS id FROM a ORDER BY 1",
        ),
        (
            "WITH s AS (SELECT 1 AS v) SELECT s.v, i.n FROM s, (WITH s AS (SELECT 2 AS v), t AS (SELECT v + 1 AS n FROM s) \
             SELECT n FROM t WHERE n IN (WITH s AS (SELECT 3 AS v) SELECT v FROM s)) AS i",
            "SELECT 1 AS v, 3 AS n",
        ),
        (
            "WITH s AS (SELECT 9 AS v) SELECT max(v) AS m FROM (WITH RECURSIVE s AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM s \
             WHERE v < 4) SELECT v FROM s) AS i",
            "SELECT 4 AS m",
        ),
    ])
    .await;
}

#[tokio::test]
async fn short_forms_are_written_out() {
    check(&[
        ("FROM b ORDER BY id", "SELECT id, k FROM b ORDER BY id"),
        ("SELECT sum(id) AS s FROM (FROM b) AS t", "SELECT sum(id) AS s FROM b"),
        ("FROM a |> WHERE k > 2 |> SELECT id", "SELECT id FROM a WHERE k > 2"),
        ("TABLE b ORDER BY id", "SELECT id, k FROM b ORDER BY id"),
        (
            "SELECT id FROM a WHERE id > 3 UNION ALL SELECT id FROM (TABLE b) AS t WHERE id > 2 ORDER BY id",
            "SELECT * FROM (VALUES (3), (4)) AS v(id)",
        ),
        (
            "SELECT id FROM a WHERE k IN (VALUES (1), (3)) ORDER BY id",
            "SELECT id FROM a WHERE k IN (1, 3) ORDER BY id",
        ),
        (
            "SELECT id FROM a WHERE k NOT IN (VALUES (1), (3)) ORDER BY id",
            "SELECT id FROM a WHERE k NOT IN (1, 3) ORDER BY id",
        ),
        ("SELECT id FROM a ORDER BY id LIMIT (SELECT 2)", "SELECT id FROM a ORDER BY id LIMIT 2"),
        (
            "SELECT id FROM a ORDER BY id LIMIT 1 OFFSET (SELECT 1 + 1)",
            "SELECT id FROM a ORDER BY id LIMIT 1 OFFSET 2",
        ),
        (
            "SELECT id FROM a ORDER BY id FETCH FIRST (1 + 1) ROWS ONLY",
            "SELECT id FROM a ORDER BY id LIMIT 2",
        ),
        (
            "SELECT id FROM a ORDER BY id OFFSET 1 ROW FETCH NEXT (1 + 1) ROWS ONLY",
            "SELECT id FROM a ORDER BY id LIMIT 2 OFFSET 1",
        ),
        (
            "WITH s AS MATERIALIZED (SELECT k FROM a), t AS NOT MATERIALIZED (SELECT k FROM b) \
             SELECT count(*) AS n FROM s JOIN t ON s.k = t.k",
            "SELECT 1 AS n",
        ),
    ])
    .await;
}
