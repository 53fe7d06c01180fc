//! Subqueries that name columns of their query, in FROM after LATERAL and as values: their aggregates, windows, LIMIT and lists are
//! those of one row of that query.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::{Tables, run};

/// Tables t (id, k) and s (id, k, v): of the k of t, s has one three times, one once, one not at all, and both have NULL.
fn tables() -> (Tables, PeltonSession) {
    let tables = Tables::new();
    let column = |values: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let of_t = [
        ("id", column(&[Some(1), Some(2), Some(3), Some(4), Some(5)]), false),
        ("k", column(&[Some(1), Some(1), Some(2), Some(3), None]), true),
    ];
    tables.add("t", RecordBatch::try_from_iter_with_nullable(of_t).unwrap(), 2, vec![]);
    let of_s = [
        ("id", column(&[Some(1), Some(2), Some(3), Some(4), Some(5)]), false),
        ("k", column(&[Some(1), Some(1), Some(1), Some(2), None]), true),
        ("v", column(&[Some(10), Some(20), Some(30), Some(40), Some(50)]), true),
    ];
    tables.add("s", RecordBatch::try_from_iter_with_nullable(of_s).unwrap(), 2, vec![]);
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    (tables, session)
}

/// That each statement gives columns of these names with these rows; they are DuckDB's.
async fn check(cases: &[(&str, &str, &str)]) {
    let (tables, session) = tables();
    for (sql, names, rows) in cases {
        let (actual, _) = run(&session, sql).await;
        let expected = tables.expected(&format!("SELECT * FROM (VALUES {rows}) AS v({names})")).await;
        assert_eq!(actual, expected, "{sql}");
    }
}

/// The error that `sql` ends with, planned or run.
async fn error_of(session: &PeltonSession, sql: &str) -> String {
    match session.query(sql).await {
        Err(error) => error.to_string(),
        Ok(query) => match query.collect().await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{sql} is answered"),
        },
    }
}

#[tokio::test]
async fn having_of_a_scalar_subquery_is_asked_of_each_row() {
    check(&[
        (
            "SELECT id, (SELECT max(s.v) FROM s WHERE s.k = t.k HAVING count(*) < 2) AS n FROM t ORDER BY id",
            "id, n",
            "(1, NULL), (2, NULL), (3, 40), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT id, (SELECT max(s.v) FROM s WHERE s.k = t.k HAVING count(*) <> 1) AS n FROM t ORDER BY id",
            "id, n",
            "(1, 30), (2, 30), (3, NULL), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT id, (SELECT 5 FROM s WHERE s.k = t.k HAVING count(*) = 0) AS n FROM t ORDER BY id",
            "id, n",
            "(1, NULL), (2, NULL), (3, NULL), (4, 5), (5, 5)",
        ),
        (
            "SELECT id FROM t WHERE (SELECT max(s.v) FROM s WHERE s.k = t.k HAVING count(*) < 3) > 0 ORDER \
             BY id",
            "id",
            "(3)",
        ),
        (
            "SELECT t.id, l.n FROM t LEFT JOIN LATERAL (SELECT max(s.v) AS n FROM s WHERE s.k = t.k HAVING \
             count(*) < 2) AS l ON true ORDER BY t.id",
            "id, n",
            "(1, NULL), (2, NULL), (3, 40), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, l.n FROM t, LATERAL (SELECT count(*) AS n FROM s WHERE s.k = t.k HAVING count(*) = \
             0) AS l ORDER BY t.id",
            "id, n",
            "(4, 0), (5, 0)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn count_of_no_rows_is_not_null_whatever_is_made_of_it() {
    check(&[
        (
            "SELECT id, (SELECT count(*) IS NULL FROM s WHERE s.k = t.k) AS n FROM t ORDER BY id",
            "id, n",
            "(1, false), (2, false), (3, false), (4, false), (5, false)",
        ),
        (
            "SELECT id FROM t WHERE (SELECT count(*) IS NOT NULL FROM s WHERE s.k = t.k) ORDER BY id",
            "id",
            "(1), (2), (3), (4), (5)",
        ),
        (
            "SELECT id, (SELECT count(*) * 0 FROM s WHERE s.k = t.k) AS n FROM t ORDER BY id",
            "id, n",
            "(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)",
        ),
        (
            "SELECT id, (SELECT coalesce(5, max(s.v)) FROM s WHERE s.k = t.k) AS n FROM t ORDER BY id",
            "id, n",
            "(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)",
        ),
        (
            "SELECT id, (SELECT count(*) + 1 FROM s WHERE s.k = t.k) AS n FROM t ORDER BY id",
            "id, n",
            "(1, 4), (2, 4), (3, 2), (4, 1), (5, 1)",
        ),
        (
            "SELECT id, (SELECT CASE WHEN count(*) = 0 THEN -1 ELSE max(s.v) END FROM s WHERE s.k = t.k) AS \
             n FROM t ORDER BY id",
            "id, n",
            "(1, 30), (2, 30), (3, 40), (4, -1), (5, -1)",
        ),
        (
            "SELECT id, (SELECT coalesce(max(s.v), -7) FROM s WHERE s.k = t.k) AS n FROM t ORDER BY id",
            "id, n",
            "(1, 30), (2, 30), (3, 40), (4, -7), (5, -7)",
        ),
        (
            "SELECT t.id, l.n FROM t, LATERAL (SELECT count(*) IS NULL AS n FROM s WHERE s.k = t.k) AS l \
             ORDER BY t.id",
            "id, n",
            "(1, false), (2, false), (3, false), (4, false), (5, false)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn windows_of_lateral_are_over_the_rows_of_one_row() {
    check(&[
        (
            "SELECT t.id, l.id AS s, l.r FROM t, LATERAL (SELECT s.id, row_number() OVER (ORDER BY s.v) AS r \
             FROM s WHERE s.k = t.k) AS l ORDER BY 1, 2",
            "id, s, r",
            "(1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 1, 1), (2, 2, 2), (2, 3, 3), (3, 4, 1)",
        ),
        (
            "SELECT t.id, l.id AS s, l.n FROM t, LATERAL (SELECT s.id, count(*) OVER () AS n FROM s WHERE \
             s.k = t.k) AS l ORDER BY 1, 2",
            "id, s, n",
            "(1, 1, 3), (1, 2, 3), (1, 3, 3), (2, 1, 3), (2, 2, 3), (2, 3, 3), (3, 4, 1)",
        ),
        (
            "SELECT t.id, l.n FROM t LEFT JOIN LATERAL (SELECT s.id AS n FROM s WHERE s.k = t.k QUALIFY \
             row_number() OVER (ORDER BY s.v DESC) = 1) AS l ON true ORDER BY 1",
            "id, n",
            "(1, 3), (2, 3), (3, 4), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, l.id AS s, l.n FROM t, LATERAL (SELECT s.id, sum(s.v) OVER (PARTITION BY s.k ORDER \
             BY s.id) AS n FROM s WHERE s.v <= t.id * 10) AS l ORDER BY 1, 2",
            "id, s, n",
            "(1, 1, 10), (2, 1, 10), (2, 2, 30), (3, 1, 10), (3, 2, 30), (3, 3, 60), (4, 1, 10), (4, 2, 30), \
             (4, 3, 60), (4, 4, 40), (5, 1, 10), (5, 2, 30), (5, 3, 60), (5, 4, 40), (5, 5, 50)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn lateral_has_the_first_rows_of_each_row() {
    check(&[
        (
            "SELECT t.id, l.id AS s FROM t, LATERAL (SELECT s.id FROM s WHERE s.k = t.k ORDER BY s.v DESC \
             LIMIT 2) AS l ORDER BY 1, 2",
            "id, s",
            "(1, 2), (1, 3), (2, 2), (2, 3), (3, 4)",
        ),
        (
            "SELECT t.id, l.id AS s FROM t LEFT JOIN LATERAL (SELECT s.id FROM s WHERE s.k = t.k ORDER BY \
             s.v DESC LIMIT 1) AS l ON true ORDER BY 1, 2",
            "id, s",
            "(1, 3), (2, 3), (3, 4), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, l.id AS s FROM t LEFT JOIN LATERAL (SELECT s.id FROM s WHERE s.k = t.k ORDER BY \
             s.v OFFSET 1) AS l ON l.id < 3 ORDER BY 1, 2",
            "id, s",
            "(1, 2), (2, 2), (3, NULL), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, l.id AS s FROM t, LATERAL (SELECT DISTINCT ON (s.k) s.id FROM s WHERE s.id <= t.id \
             ORDER BY s.k, s.v DESC) AS l ORDER BY 1, 2",
            "id, s",
            "(1, 1), (2, 2), (3, 3), (4, 3), (4, 4), (5, 3), (5, 4), (5, 5)",
        ),
        (
            "SELECT t.id, l.id AS s, m.id AS u FROM t, LATERAL (SELECT s.id FROM s WHERE s.k = t.k ORDER BY \
             s.v LIMIT 1) AS l, LATERAL (SELECT s.id FROM s WHERE s.id > l.id ORDER BY s.id LIMIT 1) AS m \
             ORDER BY 1",
            "id, s, u",
            "(1, 1, 2), (2, 1, 2), (3, 4, 5)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn lateral_compares_by_more_than_equality() {
    check(&[
        (
            "SELECT t.id, l.n FROM t CROSS JOIN LATERAL (SELECT count(*) AS n FROM s WHERE s.k < t.k) AS l \
             ORDER BY 1",
            "id, n",
            "(1, 0), (2, 0), (3, 3), (4, 4), (5, 0)",
        ),
        (
            "SELECT t.id, l.k, l.n FROM t, LATERAL (SELECT s.k, count(*) AS n FROM s WHERE s.k >= t.k GROUP \
             BY s.k) AS l ORDER BY 1, 2",
            "id, k, n",
            "(1, 1, 3), (1, 2, 1), (2, 1, 3), (2, 2, 1), (3, 2, 1)",
        ),
        (
            "SELECT t.id, l.n FROM t, LATERAL (SELECT max(s.v) AS n FROM s WHERE s.k = t.k AND s.id < t.id) \
             AS l ORDER BY 1",
            "id, n",
            "(1, NULL), (2, 10), (3, NULL), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, l.k FROM t, LATERAL (SELECT DISTINCT s.k FROM s WHERE s.k < t.k) AS l ORDER BY 1, 2",
            "id, k",
            "(3, 1), (4, 1), (4, 2)",
        ),
        (
            "SELECT t.id, l.n FROM t, LATERAL (SELECT s.id AS n FROM s WHERE s.k = t.k UNION ALL SELECT u.id \
             + 100 FROM t AS u WHERE u.k = t.k) AS l ORDER BY 1, 2",
            "id, n",
            "(1, 1), (1, 2), (1, 3), (1, 101), (1, 102), (2, 1), (2, 2), (2, 3), (2, 101), (2, 102), (3, 4), \
             (3, 103), (4, 104)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn lateral_without_from_computes_beside_the_row() {
    check(&[
        (
            "SELECT t.id, l.b FROM t, LATERAL (SELECT t.k * 2 AS b) AS l ORDER BY 1",
            "id, b",
            "(1, 2), (2, 2), (3, 4), (4, 6), (5, NULL)",
        ),
        (
            "SELECT t.id, l.b, m.c FROM t, LATERAL (SELECT t.k * 2 AS b) AS l, LATERAL (SELECT l.b + 1 AS c) \
             AS m ORDER BY 1",
            "id, b, c",
            "(1, 2, 3), (2, 2, 3), (3, 4, 5), (4, 6, 7), (5, NULL, NULL)",
        ),
        (
            "SELECT t.id, l.b FROM t JOIN LATERAL (SELECT t.k * 2 AS b) AS l ON l.b > 2 ORDER BY 1",
            "id, b",
            "(3, 4), (4, 6)",
        ),
        (
            "SELECT t.id, l.b FROM t LEFT JOIN LATERAL (SELECT t.k * 2 AS b) AS l ON l.b > 2 ORDER BY 1",
            "id, b",
            "(1, NULL), (2, NULL), (3, 4), (4, 6), (5, NULL)",
        ),
        (
            "SELECT t.id, l.v FROM t, LATERAL (VALUES (t.k), (t.k + 10)) AS l(v) ORDER BY 1, 2",
            "id, v",
            "(1, 1), (1, 11), (2, 1), (2, 11), (3, 2), (3, 12), (4, 3), (4, 13), (5, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, l.name, l.v FROM t, LATERAL (VALUES ('k', t.k), ('id', t.id), ('none', 0)) AS \
             l(name, v) ORDER BY 1, 2",
            "id, name, v",
            "(1, 'id', 1), (1, 'k', 1), (1, 'none', 0), (2, 'id', 2), (2, 'k', 1), (2, 'none', 0), (3, 'id', \
             3), (3, 'k', 2), (3, 'none', 0), (4, 'id', 4), (4, 'k', 3), (4, 'none', 0), (5, 'id', 5), (5, \
             'k', NULL), (5, 'none', 0)",
        ),
        (
            "SELECT t.id, (SELECT max(v.x) FROM (VALUES (t.k), (t.id)) AS v(x)) AS n FROM t ORDER BY 1",
            "id, n",
            "(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
        ),
        (
            "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM s, LATERAL (SELECT s.id + t.k AS total) AS l \
             WHERE l.total = 4) ORDER BY 1",
            "id",
            "(1), (2), (3), (4)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn lists_of_columns_are_rows_in_from() {
    check(&[
        (
            "SELECT t.id, u.v FROM t, unnest([k, id]) AS u(v) ORDER BY 1, 2",
            "id, v",
            "(1, 1), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3), (4, 4), (5, 5), (5, NULL)",
        ),
        (
            "SELECT t.id, (SELECT sum(v) FROM unnest([t.k, t.id]) AS u(v)) AS n FROM t ORDER BY 1",
            "id, n",
            "(1, 2), (2, 3), (3, 5), (4, 7), (5, 5)",
        ),
        (
            "SELECT t.id, l.v FROM t, LATERAL generate_series(1, t.k) AS l(v) ORDER BY 1, 2",
            "id, v",
            "(1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)",
        ),
        (
            "SELECT t.id, l.v FROM t, generate_series(t.k, 3) AS l(v) WHERE l.v > 1 ORDER BY 1, 2",
            "id, v",
            "(1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (4, 3)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn rows_of_lists_are_numbered_with_ordinality() {
    check(&[
        ("SELECT * FROM unnest([7, 8]) WITH ORDINALITY AS u(x, i)", "x, i", "(7, 1), (8, 2)"),
        (
            "SELECT u.u, ordinality FROM unnest([7, 8]) WITH ORDINALITY AS u",
            "u, ordinality",
            "(7, 1), (8, 2)",
        ),
        (
            "SELECT * FROM generate_series(5, 7) WITH ORDINALITY",
            "generate_series, ordinality",
            "(5, 1), (6, 2), (7, 3)",
        ),
        (
            "SELECT u.a, u.b, u.i FROM unnest([1, 2], [3]) WITH ORDINALITY AS u(a, b, i)",
            "a, b, i",
            "(1, 3, 1), (2, NULL, 2)",
        ),
        (
            "SELECT t.id, u.x, u.i FROM t, unnest([k, id]) WITH ORDINALITY AS u(x, i) ORDER BY 1, 3",
            "id, x, i",
            "(1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 2, 2), (3, 2, 1), (3, 3, 2), (4, 3, 1), (4, 4, 2), \
             (5, NULL, 1), (5, 5, 2)",
        ),
        (
            "SELECT t.id, l.v, l.ordinality FROM t, LATERAL generate_series(0, t.k) WITH ORDINALITY AS l(v) \
             WHERE t.id > 2 ORDER BY 1, 2",
            "id, v, ordinality",
            "(3, 0, 1), (3, 1, 2), (3, 2, 3), (4, 0, 1), (4, 1, 2), (4, 2, 3), (4, 3, 4)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_scalar_subquery_may_have_one_row_by_its_data() {
    check(&[
        (
            "SELECT t.id, (SELECT u.k FROM t AS u WHERE u.id = t.k) AS n FROM t ORDER BY 1",
            "id, n",
            "(1, 1), (2, 1), (3, 1), (4, 2), (5, NULL)",
        ),
        (
            "WITH g AS (SELECT k, count(*) AS n FROM s GROUP BY k) SELECT id, (SELECT n FROM g WHERE g.k = \
             t.k) AS n FROM t ORDER BY 1",
            "id, n",
            "(1, 3), (2, 3), (3, 1), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT id, (SELECT max(s.v) FROM s WHERE s.k = t.k OFFSET 1) AS n FROM t ORDER BY 1",
            "id, n",
            "(1, NULL), (2, NULL), (3, NULL), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT id FROM t WHERE (SELECT s.v FROM s WHERE s.id = t.id) > 20 ORDER BY 1",
            "id",
            "(3), (4), (5)",
        ),
        (
            "SELECT id, (SELECT s.v FROM s WHERE s.k = t.k) AS n FROM t WHERE k > 1 ORDER BY 1",
            "id, n",
            "(3, 40), (4, NULL)",
        ),
        (
            "SELECT id, CASE WHEN k = 1 THEN 0 ELSE (SELECT s.v FROM s WHERE s.k = t.k) END AS n FROM t \
             ORDER BY 1",
            "id, n",
            "(1, 0), (2, 0), (3, 40), (4, NULL), (5, NULL)",
        ),
        ("SELECT sum((SELECT s.v FROM s WHERE s.id = t.id)) AS n FROM t", "n", "(150)"),
    ])
    .await;
}

#[tokio::test]
async fn values_of_subqueries_are_known_in_on_of_outer_joins_and_in_values() {
    check(&[
        (
            "SELECT t.id, s.id AS s FROM t LEFT JOIN s ON s.id = (SELECT max(u.id) FROM s AS u WHERE u.k = \
             t.k) ORDER BY 1",
            "id, s",
            "(1, 3), (2, 3), (3, 4), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, s.id AS s FROM t LEFT JOIN s ON t.k = s.k AND s.id > (SELECT min(u.id) FROM s AS u \
             WHERE u.k = s.k) ORDER BY 1, 2",
            "id, s",
            "(1, 2), (1, 3), (2, 2), (2, 3), (3, NULL), (4, NULL), (5, NULL)",
        ),
        (
            "SELECT t.id, s.id AS s FROM t FULL JOIN s ON t.id = s.id AND s.id = (SELECT max(u.id) FROM s AS \
             u WHERE u.k = t.k) ORDER BY 1, 2",
            "id, s",
            "(1, NULL), (2, NULL), (3, NULL), (4, NULL), (5, NULL), (NULL, 1), (NULL, 2), (NULL, 3), (NULL, \
             4), (NULL, 5)",
        ),
        (
            "SELECT v.a, v.b FROM (VALUES ((SELECT max(k) FROM t), 2), (3, (SELECT min(v) FROM s))) AS v(a, \
             b) ORDER BY 1, 2",
            "a, b",
            "(3, 2), (3, 10)",
        ),
    ])
    .await;
}

#[tokio::test]
async fn columns_of_a_union_are_compared_by_their_common_type() {
    check(&[(
        "SELECT u.id FROM (SELECT CAST(id AS INTEGER) AS id, CAST(k AS INTEGER) AS k FROM t UNION ALL \
             SELECT id, k FROM s) AS u WHERE EXISTS (SELECT 1 FROM (SELECT CAST(k AS INTEGER) AS k FROM t \
             WHERE id < 3) AS w WHERE w.k = u.k) ORDER BY 1",
        "id",
        "(1), (1), (2), (2), (3)",
    )])
    .await;
}

#[tokio::test]
async fn a_scalar_subquery_with_several_rows_is_an_error_of_rows_that_the_query_has() {
    let (_tables, session) = tables();
    for sql in [
        "SELECT id, (SELECT s.v FROM s WHERE s.k = t.k) FROM t",
        "SELECT id FROM t WHERE (SELECT s.v FROM s WHERE s.k = t.k) > 0",
        "SELECT sum((SELECT s.v FROM s WHERE s.k = t.k)) FROM t",
        "SELECT id, (SELECT t.k UNION ALL SELECT t.id) FROM t",
    ] {
        let error = error_of(&session, sql).await;
        assert!(error.contains("more than one row"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn what_cannot_be_computed_for_each_row_is_refused() {
    let (_tables, session) = tables();
    for (sql, words) in [
        (
            "SELECT t.id, l.n FROM t, \
             LATERAL (SELECT s.k, count(*) AS n FROM s WHERE s.k = t.k GROUP BY ROLLUP (s.k)) AS l",
            "GROUPING SETS",
        ),
        (
            "SELECT t.id, l.n FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM t) AS t, \
             LATERAL (SELECT count(*) AS n FROM s WHERE s.k < t.r) AS l",
            "computed once more",
        ),
    ] {
        let error = error_of(&session, sql).await;
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[tokio::test]
async fn products_of_aggregates_are_joined_without_the_rows_around() {
    let (_tables, session) = tables();
    for value in ["0.5 * sum(u.k)", "sum(u.k) * 0.5", "min(u.k)", "avg(u.k) + 1"] {
        let sql = format!("SELECT t.id FROM t WHERE t.k > (SELECT {value} FROM t AS u WHERE u.id = t.id)");
        let query = session.query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        assert!(!plan.contains("__pelton_outer"), "{sql}\n{plan}");
    }
}

/// What `unnest` repeats for each item is no key: DISTINCT, keys of groups and of orders, and partners of joins stay.
#[tokio::test]
async fn what_is_repeated_for_items_is_no_key() {
    let items = "(SELECT k, unnest([2, 1]) AS i FROM s GROUP BY k)";
    let counted = "(SELECT k, n, unnest([2, 1]) AS i FROM (SELECT k, count(*) AS n FROM s GROUP BY k))";
    for (sql, names, rows) in [
        (format!("SELECT DISTINCT k FROM {items} ORDER BY k"), "k", "(1), (2), (NULL)"),
        (
            format!("SELECT k, i FROM {items} ORDER BY k, i"),
            "k, i",
            "(1, 1), (1, 2), (2, 1), (2, 2), (NULL, 1), (NULL, 2)",
        ),
        (format!("SELECT k, count(*) AS n FROM {items} GROUP BY k ORDER BY k"), "k, n", "(1, 2), (2, 2), (NULL, 2)"),
        (
            format!("SELECT k, count(*) AS n FROM {items} GROUP BY k, i ORDER BY k"),
            "k, n",
            "(1, 1), (1, 1), (2, 1), (2, 1), (NULL, 1), (NULL, 1)",
        ),
        (
            format!("SELECT k, sum(n) AS n FROM {counted} GROUP BY k, n, i ORDER BY k"),
            "k, n",
            "(1, 3), (1, 3), (2, 1), (2, 1), (NULL, 1), (NULL, 1)",
        ),
        (
            format!("WITH c AS {counted} SELECT k, sum(n) AS n FROM c GROUP BY k ORDER BY k"),
            "k, n",
            "(1, 6), (2, 2), (NULL, 2)",
        ),
        (
            format!("SELECT t.id FROM t JOIN {items} AS c ON t.k = c.k ORDER BY t.id"),
            "id",
            "(1), (1), (2), (2), (3), (3)",
        ),
        (format!("SELECT k FROM {items} INTERSECT SELECT 1"), "k", "(1)"),
        (format!("SELECT k FROM {items} EXCEPT SELECT 1 ORDER BY k"), "k", "(2), (NULL)"),
        (
            "SELECT k, count(*) AS n FROM (SELECT k, unnest([2, 1]) AS i FROM (SELECT DISTINCT k FROM s)) GROUP BY k, i \
             ORDER BY k"
                .to_owned(),
            "k, n",
            "(1, 1), (1, 1), (2, 1), (2, 1), (NULL, 1), (NULL, 1)",
        ),
        (
            "SELECT DISTINCT k FROM (SELECT DISTINCT k FROM s) AS d, LATERAL unnest([k, 7]) AS u(i) ORDER BY k"
                .to_owned(),
            "k",
            "(1), (2), (NULL)",
        ),
    ] {
        check(&[(sql.as_str(), names, rows)]).await;
    }
    let (_tables, session) = tables();
    let error = error_of(&session, &format!("SELECT k, i, count(*) FROM {items} GROUP BY k")).await;
    assert!(error.contains("GROUP BY"), "{error}");
}

/// The key of one side of a join is no key of groups by it and columns of the other side.
#[tokio::test]
async fn a_key_before_a_join_is_none_of_groups_with_more_columns() {
    let joined = "(SELECT g.k, s.v, count(*) AS c FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g \
                  JOIN s ON s.k = g.k GROUP BY g.k, s.v) AS j";
    let distinct = "(SELECT DISTINCT g.k, s.v FROM (SELECT DISTINCT k FROM t) AS g JOIN s ON s.k = g.k) AS j";
    let (keys, pairs) = ("(1), (2)", "(1, 30), (1, 20), (1, 10), (2, 40)");
    for rows in [joined, distinct] {
        for (sql, names, expected) in [
            (format!("SELECT DISTINCT k FROM {rows} ORDER BY k"), "k", keys),
            (format!("SELECT k, v FROM {rows} ORDER BY k, v DESC"), "k, v", pairs),
            (format!("SELECT count(*) AS n FROM t LEFT JOIN {rows} ON j.k = t.k"), "n", "(9)"),
            (format!("SELECT count(*) AS n FROM t JOIN {rows} ON j.k = t.k"), "n", "(7)"),
            (format!("SELECT k, count(*) AS n FROM {rows} GROUP BY k ORDER BY k"), "k, n", "(1, 3), (2, 1)"),
            (format!("SELECT k, sum(v) AS n FROM {rows} GROUP BY k ORDER BY k"), "k, n", "(1, 60), (2, 40)"),
            (format!("SELECT count(*) AS n FROM (SELECT k FROM {rows} GROUP BY k, v) AS g"), "n", "(4)"),
        ] {
            check(&[(sql.as_str(), names, expected)]).await;
        }
    }
    // What a key decides is decided by it still.
    check(&[(
        "SELECT g.k, g.n, count(*) AS c FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g JOIN s ON s.k = g.k \
         GROUP BY g.k, g.n ORDER BY 1",
        "k, n, c",
        "(1, 2, 3), (2, 1, 1)",
    )])
    .await;
    let (_tables, session) = tables();
    let error = error_of(&session, &format!("SELECT k, v, count(*) FROM {joined} GROUP BY k")).await;
    assert!(error.contains("GROUP BY"), "{error}");
}
