//! What the SQL standard, PostgreSQL and DuckDB write and DataFusion does not: FETCH FIRST, comparisons of rows, BETWEEN
//! SYMMETRIC, names of functions, conditions below a subquery with a name.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::Tables;
use crate::same::{check_same, error_of};

/// Table r: id, and all combinations of a and b of 1, 2 and NULL; table s: some rows x and y, one of them with NULL.
fn tables() -> (Tables, PeltonSession) {
    let tables = Tables::new();
    let values = [Some(1), Some(2), None];
    let column = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let a = values.iter().flat_map(|a| [*a; 3]).collect();
    let b = values.iter().cycle().take(9).copied().collect();
    let columns =
        [("id", column((0..9).map(Some).collect()), false), ("a", column(a), true), ("b", column(b), true)];
    tables.add("r", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 4, vec![]);
    let (x, y) = (vec![Some(1), Some(2), Some(1)], vec![Some(2), Some(1), None]);
    let columns = [("x", column(x), true), ("y", column(y), true)];
    tables.add("s", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 4, vec![]);
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    (tables, session)
}

/// That each statement gives what the one beside it gives in plain DataFusion.
async fn check(cases: &[(&str, &str)]) {
    check_same(tables(), cases).await;
}

/// That each statement is refused with these words.
async fn check_errors(cases: &[(&str, &str)]) {
    let (_tables, session) = tables();
    for (sql, words) in cases {
        let error = error_of(&session, sql).await;
        assert!(error.contains(words), "{sql}: {error}");
    }
}

#[tokio::test]
async fn fetch_first_is_limit() {
    check(&[
        ("SELECT id FROM r ORDER BY id FETCH FIRST 2 ROWS ONLY", "SELECT id FROM r ORDER BY id LIMIT 2"),
        ("SELECT id FROM r ORDER BY id FETCH FIRST ROW ONLY", "SELECT id FROM r ORDER BY id LIMIT 1"),
        (
            "SELECT id FROM r ORDER BY id OFFSET 3 ROWS FETCH NEXT 2 ROWS ONLY",
            "SELECT id FROM r ORDER BY id LIMIT 2 OFFSET 3",
        ),
        (
            "SELECT max(id) AS m FROM (SELECT id FROM r ORDER BY id FETCH NEXT 4 ROWS ONLY) AS t",
            "SELECT 3 AS m",
        ),
    ])
    .await;
    check_errors(&[
        ("SELECT id FROM r ORDER BY a FETCH FIRST 2 ROWS WITH TIES", "rank()"),
        ("SELECT id FROM r ORDER BY a FETCH FIRST 10 PERCENT ROWS ONLY", "row_number()"),
        ("SELECT id FROM r ORDER BY a LIMIT 3 FETCH FIRST 2 ROWS ONLY", "either LIMIT or FETCH FIRST"),
    ])
    .await;
}

#[tokio::test]
async fn rows_are_compared_column_by_column() {
    let cases = [
        ("(a, b) IN ((1, 2), (2, 2))", "(a = 1 AND b = 2) OR (a = 2 AND b = 2)"),
        ("(a, b) NOT IN ((1, 2), (2, 2))", "NOT ((a = 1 AND b = 2) OR (a = 2 AND b = 2))"),
        ("(a, b) IN ((1, NULL), (2, 2))", "(a = 1 AND b = CAST(NULL AS BIGINT)) OR (a = 2 AND b = 2)"),
        ("(a, b) NOT IN ((1, NULL))", "NOT (a = 1 AND b = CAST(NULL AS BIGINT))"),
        ("(a, b) = (1, 2)", "a = 1 AND b = 2"),
        ("(a, b) <> (1, 2)", "NOT (a = 1 AND b = 2)"),
        ("(a, b) < (2, 2)", "a < 2 OR (a = 2 AND b < 2)"),
        ("(a, b) >= (1, 2)", "a > 1 OR (a = 1 AND b >= 2)"),
        ("(a, b, id) <= (1, 2, 1)", "a < 1 OR (a = 1 AND (b < 2 OR (b = 2 AND id <= 1)))"),
        ("ROW(a, b) = ROW(1, 2)", "a = 1 AND b = 2"),
        ("row(a, b) <> (1, 2)", "NOT (a = 1 AND b = 2)"),
        ("(a, b) < ROW(2, 2)", "a < 2 OR (a = 2 AND b < 2)"),
        ("ROW(a, b, id) >= ROW(1, 2, 4)", "a > 1 OR (a = 1 AND (b > 2 OR (b = 2 AND id >= 4)))"),
        ("ROW(a + 1, b) IN (ROW(2, 2), (3, 2))", "(a = 1 AND b = 2) OR (a = 2 AND b = 2)"),
        ("ROW(a, b) NOT IN ((1, NULL))", "NOT (a = 1 AND b = CAST(NULL AS BIGINT))"),
        ("ROW(a, b) IS DISTINCT FROM (1, 2)", "a IS DISTINCT FROM 1 OR b IS DISTINCT FROM 2"),
        (
            "(a, b) IS NOT DISTINCT FROM ROW(1, CAST(NULL AS BIGINT))",
            "a IS NOT DISTINCT FROM 1 AND b IS NOT DISTINCT FROM CAST(NULL AS BIGINT)",
        ),
        (
            "ROW(a, b) BETWEEN ROW(1, 2) AND (2, 1)",
            "(a > 1 OR (a = 1 AND b >= 2)) AND (a < 2 OR (a = 2 AND b <= 1))",
        ),
        (
            "(a, b) NOT BETWEEN (1, 2) AND (2, 1)",
            "NOT ((a > 1 OR (a = 1 AND b >= 2)) AND (a < 2 OR (a = 2 AND b <= 1)))",
        ),
        (
            "ROW(ROW(a, b), id) < ROW((1, 2), 4)",
            "(a < 1 OR (a = 1 AND b < 2)) OR ((a = 1 AND b = 2) AND id < 4)",
        ),
        (
            "((a, b), id) IN (((1, 2), 1), ROW(ROW(2, 2), 4))",
            "(a = 1 AND b = 2 AND id = 1) OR (a = 2 AND b = 2 AND id = 4)",
        ),
        (
            "CASE ROW(a, b) WHEN (1, 2) THEN true WHEN ROW(2, NULL) THEN true ELSE false END",
            "CASE WHEN a = 1 AND b = 2 THEN true ELSE false END",
        ),
        (
            "CASE WHEN ROW(a, b) >= ROW(1, 2) THEN true ELSE false END",
            "CASE WHEN a > 1 OR (a = 1 AND b >= 2) THEN true ELSE false END",
        ),
    ];
    for (rows, columns) in cases {
        let value = |condition: &str| format!("SELECT id, {condition} AS v FROM r ORDER BY id");
        let rows_of = |condition: &str| format!("SELECT id FROM r WHERE {condition} ORDER BY id");
        check(&[
            (value(rows).as_str(), value(columns).as_str()),
            (rows_of(rows).as_str(), rows_of(columns).as_str()),
        ])
        .await;
    }
    check(&[
        (
            "SELECT r.id, s.x FROM r LEFT JOIN s ON ROW(r.a, r.b) = ROW(s.x, s.y) ORDER BY 1, 2",
            "SELECT r.id, s.x FROM r LEFT JOIN s ON r.a = s.x AND r.b = s.y ORDER BY 1, 2",
        ),
        (
            "SELECT r.id, s.x FROM r JOIN s ON ROW(r.a, r.b) < (s.x, s.y) ORDER BY 1, 2",
            "SELECT r.id, s.x FROM r JOIN s ON r.a < s.x OR (r.a = s.x AND r.b < s.y) ORDER BY 1, 2",
        ),
        (
            "SELECT a, count(*) AS n FROM r GROUP BY a HAVING ROW(a, count(*)) < ROW(2, 3) ORDER BY 1",
            "SELECT a, count(*) AS n FROM r GROUP BY a HAVING a < 2 OR (a = 2 AND count(*) < 3) ORDER BY 1",
        ),
    ])
    .await;
    check_errors(&[
        ("SELECT (a, b) = (1, 2, 3) FROM r", "a row of 2 columns is compared with one of 3"),
        (
            "SELECT ROW(a, b) BETWEEN (1, 2) AND (1, 2, 3) FROM r",
            "a row of 2 columns is compared with one of 3",
        ),
        ("SELECT ROW(ROW(a, b), 1) = ((1, 2, 3), 1) FROM r", "a row of 2 columns is compared with one of 3"),
    ])
    .await;
}

/// With x = 2, table s has the row (2, 1) alone.
#[tokio::test]
async fn rows_are_compared_with_the_row_of_a_subquery() {
    for (rows, columns) in [
        ("(a, b) = (SELECT x, y FROM s WHERE x = 2)", "a = 2 AND b = 1"),
        ("ROW(a, b) <> (SELECT x, y FROM s WHERE x = 2)", "a <> 2 OR b <> 1"),
        ("(a, b) < (SELECT max(x), min(y) FROM s)", "a < 2 OR (a = 2 AND b < 1)"),
        ("(SELECT x, y FROM s WHERE x = 2) >= ROW(a, b)", "a < 2 OR (a = 2 AND b <= 1)"),
        ("((a, b) = (SELECT x, y FROM s WHERE x = 3)) IS NULL", "true"),
        (
            "(a, b) = (SELECT x, y FROM s WHERE x = r.a AND y IS NOT NULL)",
            "CASE a WHEN 1 THEN b = 2 WHEN 2 THEN b = 1 END",
        ),
        ("(a, b) = ANY (SELECT x, y FROM s WHERE y IS NOT NULL)", "(a = 1 AND b = 2) OR (a = 2 AND b = 1)"),
        (
            "ROW(a, b) <> ALL (SELECT x, y FROM s WHERE y IS NOT NULL)",
            "NOT ((a = 1 AND b = 2) OR (a = 2 AND b = 1))",
        ),
        ("ROW(a, b) IN (SELECT x, y FROM s WHERE x = 2)", "a = 2 AND b = 1"),
    ] {
        check(&[
            (
                format!("SELECT id, {rows} AS v FROM r ORDER BY id").as_str(),
                format!("SELECT id, {columns} AS v FROM r ORDER BY id").as_str(),
            ),
            (
                format!("SELECT id FROM r WHERE {rows} ORDER BY id").as_str(),
                format!("SELECT id FROM r WHERE {columns} ORDER BY id").as_str(),
            ),
        ])
        .await;
    }
    check(&[
        (
            "SELECT id FROM r WHERE (abs(a), b) = (SELECT x, y FROM s WHERE x = 2)",
            "SELECT id FROM r WHERE a = 2 AND b = 1",
        ),
        (
            "SELECT r.id, t.id AS other FROM r LEFT JOIN r AS t ON r.id = t.id AND (t.a, t.b) = (SELECT x, y FROM s WHERE x = 2) \
             ORDER BY 1",
            "SELECT r.id, t.id AS other FROM r LEFT JOIN r AS t ON r.id = t.id AND t.a = 2 AND t.b = 1 ORDER BY 1",
        ),
    ])
    .await;
    check_errors(&[(
        "SELECT (abs(a), b) = (SELECT x, y FROM s) FROM r",
        "of columns, constants and arithmetic",
    )])
    .await;
}

#[tokio::test]
async fn bounds_of_between_symmetric_stand_in_either_order() {
    check(&[
        (
            "SELECT 2 BETWEEN SYMMETRIC 3 AND 1 AS i, 2 NOT BETWEEN SYMMETRIC 3 AND 1 AS o, 2 BETWEEN ASYMMETRIC 3 AND 1 AS a, \
             2 BETWEEN SYMMETRIC NULL AND 1 AS n, 1 + 1 BETWEEN SYMMETRIC 3 AND 1 = true AS e",
            "SELECT true AS i, false AS o, false AS a, CAST(NULL AS BOOLEAN) AS n, true AS e",
        ),
        (
            "SELECT id, a BETWEEN SYMMETRIC b AND 1 AS v FROM r WHERE id NOT BETWEEN SYMMETRIC 3 AND 2 ORDER BY id",
            "SELECT id, a >= b AND a <= 1 OR a >= 1 AND a <= b AS v FROM r WHERE id < 2 OR id > 3 ORDER BY id",
        ),
    ])
    .await;
}

#[tokio::test]
async fn many_rows_in_a_list_are_planned() {
    let (_tables, session) = tables();
    let list: Vec<String> = (0..500).map(|row| format!("({row}, {})", row + 1)).collect();
    let sql = format!("SELECT id FROM r WHERE (a, b) IN ({})", list.join(", "));
    let batches = session.query(&sql).await.unwrap().collect().await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[tokio::test]
async fn rows_are_looked_up_in_subqueries() {
    check(&[
        (
            "SELECT id FROM r WHERE (a, b) IN (SELECT x, y FROM s) AND id < 8 ORDER BY id",
            "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE x = a AND y = b) ORDER BY id",
        ),
        (
            "SELECT id FROM r WHERE (a + 1, b) IN (SELECT x + y, y FROM s WHERE y <> r.id) ORDER BY id",
            "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE x + y = a + 1 AND y = b AND y <> r.id) ORDER BY id",
        ),
        (
            "SELECT a, b, count(*) AS n FROM r GROUP BY a, b HAVING (a, b) IN (SELECT x, y FROM s) ORDER BY 1, 2",
            "SELECT a, b, count(*) AS n FROM r WHERE (a = 1 AND b = 2) OR (a = 2 AND b = 1) GROUP BY a, b ORDER BY 1, 2",
        ),
        (
            "SELECT r.id, s.x FROM r JOIN s ON r.a = s.x AND (r.a, r.b) IN (SELECT x, y FROM s) ORDER BY 1, 2",
            "SELECT r.id, s.x FROM r JOIN s ON r.a = s.x WHERE (r.a = 1 AND r.b = 2) OR (r.a = 2 AND r.b = 1) ORDER BY 1, 2",
        ),
    ])
    .await;
    check_errors(&[
        (
            "SELECT (abs(a), b) IN (SELECT x, y FROM s) FROM r",
            "has to be of columns, constants and arithmetic",
        ),
        (
            "SELECT a FROM r GROUP BY a HAVING (a, max(b)) NOT IN (SELECT x, y FROM s)",
            "of columns, constants and arithmetic",
        ),
    ])
    .await;
}

/// Of table s, (1, 2) and (2, 1) are TRUE, (2, 2) differs from all of its rows, and of all else a NULL is in the way.
#[tokio::test]
async fn rows_that_are_not_in_a_subquery_differ_from_all_of_its_rows() {
    let (found, differs) = ("(a = 1 AND b = 2) OR (a = 2 AND b = 1)", "a = 2 AND b = 2");
    let value = format!("CASE WHEN {found} THEN true WHEN {differs} THEN false END");
    let opposite = format!("CASE WHEN {found} THEN false WHEN {differs} THEN true END");
    for (rows, columns) in [
        ("(a, b) IN (SELECT x, y FROM s)", value.as_str()),
        ("(a, b) NOT IN (SELECT x, y FROM s)", opposite.as_str()),
        ("NOT ((a, b) IN (SELECT x, y FROM s))", opposite.as_str()),
        ("NOT (a, b) NOT IN (SELECT x, y FROM s)", value.as_str()),
        (
            "(a, b) NOT IN (SELECT x, y FROM s WHERE x <> r.id)",
            "CASE id WHEN 1 THEN true WHEN 3 THEN false WHEN 4 THEN true END",
        ),
        ("(a, b) NOT IN (SELECT x, y FROM s WHERE false)", "true"),
        (
            "(a, 1) NOT IN (SELECT x, y FROM s WHERE y IS NOT NULL)",
            "CASE a WHEN 1 THEN true WHEN 2 THEN false END",
        ),
        ("((1, 1) IN (SELECT x, y FROM s)) IS NULL", "true"),
        ("(a, b) IN (SELECT x, y FROM s) OR id = 1", format!("{value} OR id = 1").as_str()),
        ("NOT ((a, b) IN (SELECT x, y FROM s) AND id > 1)", format!("NOT ({value} AND id > 1)").as_str()),
        ("((a, b) IN (SELECT x, y FROM s)) IS NULL", format!("({value}) IS NULL").as_str()),
    ] {
        check(&[
            (
                format!("SELECT id, {rows} AS v FROM r ORDER BY id").as_str(),
                format!("SELECT id, {columns} AS v FROM r ORDER BY id").as_str(),
            ),
            (
                format!("SELECT id FROM r WHERE {rows} ORDER BY id").as_str(),
                format!("SELECT id FROM r WHERE {columns} ORDER BY id").as_str(),
            ),
        ])
        .await;
    }
    let computed = "(a + 1, b) NOT IN (SELECT x + 1, y FROM s)";
    check(&[
        (format!("SELECT id FROM r WHERE {computed}").as_str(), "SELECT id FROM r WHERE a = 2 AND b = 2"),
        (
            "SELECT a, b, count(*) AS n FROM r GROUP BY a, b HAVING (a, b) NOT IN (SELECT x, y FROM s)",
            "SELECT a, b, 1 AS n FROM r WHERE a = 2 AND b = 2",
        ),
        (
            "SELECT r.id, s.x FROM r LEFT JOIN s ON r.a = s.x AND (r.a, r.b) NOT IN (SELECT x, y FROM s) ORDER BY 1, 2",
            "SELECT r.id, s.x FROM r LEFT JOIN s ON r.a = s.x AND r.a = 2 AND r.b = 2 ORDER BY 1, 2",
        ),
        (
            "SELECT count(*) FILTER (WHERE (a, b) NOT IN (SELECT x, y FROM s)) AS n FROM r",
            "SELECT count(*) FILTER (WHERE a = 2 AND b = 2) AS n FROM r",
        ),
    ])
    .await;
}

#[tokio::test]
async fn columns_of_rows_in_subqueries_are_called_what_was_written() {
    let (_tables, session) = tables();
    let sql = "SELECT (a, b) IN (SELECT x, y FROM s), (a, b) NOT IN (SELECT y, x FROM s) FROM r";
    let batches = session.query(sql).await.unwrap().collect().await.unwrap();
    let schema = batches[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["(a, b) IN (SELECT x, y FROM s)", "(a, b) NOT IN (SELECT y, x FROM s)"]);
}

#[tokio::test]
async fn rows_without_null_that_are_not_in_a_subquery_are_hashed() {
    let (_tables, session) = tables();
    for (sql, hashes) in [
        ("SELECT id FROM r WHERE (id, id) NOT IN (SELECT id, id + 1 FROM r)", true),
        ("SELECT id FROM r WHERE (id, b) NOT IN (SELECT id, b FROM r)", true),
        ("SELECT id FROM r WHERE (a, b) NOT IN (SELECT x, y FROM s)", false),
    ] {
        let query = session.query(sql).await.unwrap();
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        assert_eq!(plan.contains("HashJoin"), hashes, "{sql}:\n{plan}");
    }
}

#[tokio::test]
async fn conditions_on_columns_that_a_subquery_does_not_show_are_found() {
    check(&[
        (
            "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM (SELECT x FROM s WHERE y <> r.id) AS q WHERE a = q.x) ORDER BY id",
            "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE y <> r.id AND a = x) ORDER BY id",
        ),
        (
            "SELECT id FROM r WHERE a IN (SELECT q.x FROM (SELECT x FROM s WHERE y <> r.id) AS q) ORDER BY id",
            "SELECT id FROM r WHERE EXISTS (SELECT 1 FROM s WHERE y <> r.id AND a = x) ORDER BY id",
        ),
        (
            "SELECT id, (SELECT max(q.x) FROM (SELECT x FROM s WHERE y = r.b) AS q) AS m FROM r ORDER BY id",
            "SELECT id, (SELECT max(x) FROM s WHERE y = r.b) AS m FROM r ORDER BY id",
        ),
    ])
    .await;
}

#[tokio::test]
async fn functions_have_the_names_of_other_systems() {
    check(&[
        (
            "SELECT sign(-5) AS i, sign(0) AS z, sign(CAST(-2.5 AS DECIMAL(5, 2))) AS d, sign(1.5e0) AS f, sign(NULL) AS n",
            "SELECT signum(-5) AS i, signum(0) AS z, signum(CAST(-2.5 AS DECIMAL(5, 2))) AS d, signum(1.5e0) AS f, \
             signum(NULL) AS n",
        ),
        (
            "SELECT sign(a) AS s, round(variance(id), 6) AS v FROM r GROUP BY 1 ORDER BY 1",
            "SELECT signum(a) AS s, round(var_samp(id), 6) AS v FROM r GROUP BY 1 ORDER BY 1",
        ),
    ])
    .await;
}
