//! What columns of results are called, and the names of their types.

use arrow::datatypes::SchemaRef;
use pelton_engine::PeltonSession;

use crate::spellings::{check, session};

async fn titles(session: &PeltonSession, sql: &str) -> Vec<String> {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let names = |schema: SchemaRef| -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let titles = names(query.schema());
    for batch in query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}")) {
        assert_eq!(names(batch.schema()), titles, "{sql}");
    }
    titles
}

#[tokio::test]
async fn columns_without_a_name_are_called_by_their_text() {
    let session = session();
    check(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y)", &[]).await;
    let cases: [(&str, &[&str]); 11] = [
        ("SELECT 1", &["1"]),
        (
            "SELECT t.x, count(*), sum( x+1 ) FROM t GROUP BY x ORDER BY count(*), x",
            &["x", "count(*)", "sum(x + 1)"],
        ),
        ("SELECT CAST(x AS INT), x::SMALLINT, x FROM t", &["CAST(x AS INT)", "x::SMALLINT", "x"]),
        ("SELECT (SELECT max(x) FROM t), mod(x, 2) FROM t", &["(SELECT max(x) FROM t)", "mod(x, 2)"]),
        ("SELECT 1, 1, x, x FROM t", &["1", "1_1", "x", "x_1"]),
        ("SELECT *, x * 2 FROM t", &["x", "y", "x * 2"]),
        ("SELECT * FROM (SELECT x + 1, upper(y) FROM t)", &["x + 1", "upper(y)"]),
        ("WITH s AS (SELECT sum(x) FROM t) SELECT * FROM s", &["sum(x)"]),
        ("SELECT x + 1 FROM t UNION ALL SELECT 7", &["x + 1"]),
        ("SELECT DISTINCT x + 1 FROM t ORDER BY x + 1 DESC", &["x + 1"]),
        ("SELECT x + 1 FROM t GROUP BY x + 1 HAVING count(*) > 0", &["x + 1"]),
    ];
    for (sql, expected) in cases {
        assert_eq!(titles(&session, sql).await, expected, "{sql}");
        // And with a plan of the cache.
        assert_eq!(titles(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn titles_are_names_of_what_is_stored() {
    let session = session();
    check(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2)) AS v(x)", &[]).await;
    check(&session, "CREATE TABLE u AS SELECT count(*), sum(x + 1) FROM t", &[]).await;
    check(&session, "CREATE VIEW w AS SELECT count(*), sum(x + 1) FROM t", &[]).await;
    for table in ["u", "w"] {
        let sql = format!("SELECT * FROM {table}");
        assert_eq!(titles(&session, &sql).await, ["count(*)", "sum(x + 1)"], "{sql}");
        check(&session, &format!("SELECT \"sum(x + 1)\" FROM {table}"), &["5"]).await;
    }
    // By a title columns are known in ORDER BY and in subqueries too.
    check(&session, "SELECT \"x + 1\" FROM (SELECT x + 1 FROM t) ORDER BY 1", &["2", "3"]).await;
    check(&session, "SELECT -x FROM t ORDER BY \"-x\"", &["-2", "-1"]).await;
    // A cast of a column is called as the column.
    check(&session, "SELECT x FROM (SELECT x::INT FROM t) ORDER BY x", &["1", "2"]).await;
}

#[tokio::test]
async fn prepared_statements_have_titles() {
    let session = session();
    check(&session, "PREPARE p AS SELECT $1 + 1", &[]).await;
    assert_eq!(titles(&session, "EXECUTE p(1)").await, ["$1 + 1"]);
    let prepared = session.prepare("SELECT 1 + 1").await.unwrap();
    assert_eq!(prepared.schema().field(0).name(), "1 + 1");
    let query = session.query_prepared(&prepared, None).await.unwrap();
    assert_eq!(query.schema().field(0).name(), "1 + 1");
}

#[tokio::test]
async fn types_are_called_as_in_sql() {
    let session = session();
    let columns = "1 AS b, 'a' AS s, 1.50 AS d, [1::INT] AS l, DATE '2024-01-01' AS day";
    check(&session, &format!("CREATE TABLE t AS SELECT {columns}"), &[]).await;
    let types = ["BIGINT", "VARCHAR", "DECIMAL(3,2)", "INTEGER[]", "DATE"];
    for sql in ["DESCRIBE t", "DESCRIBE SELECT * FROM t"] {
        let query = session.query(sql).await.unwrap();
        assert_eq!(column(&query.collect().await.unwrap(), "data_type"), types, "{sql}");
    }
    let listed =
        "SELECT data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position";
    check(&session, listed, &types).await;
    let shown = session.query("SHOW COLUMNS FROM t").await.unwrap();
    assert_eq!(column(&shown.collect().await.unwrap(), "data_type"), types);
    check(&session, "SELECT arrow_typeof(b) FROM t", &["Int64"]).await;
}

#[tokio::test]
async fn tables_that_are_shown_are_those_of_the_user() {
    let session = session();
    check(&session, "CREATE TABLE t AS SELECT 1", &[]).await;
    check(&session, "CREATE VIEW a AS SELECT 1", &[]).await;
    let shown = session.query("SHOW TABLES").await.unwrap().collect().await.unwrap();
    assert_eq!(column(&shown, "table_name"), ["a", "t"]);
}

fn column(batches: &[arrow::array::RecordBatch], name: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for batch in batches {
        let values = batch.column_by_name(name).unwrap();
        let text = |row| arrow::util::display::array_value_to_string(values, row).unwrap();
        texts.extend((0..batch.num_rows()).map(text));
    }
    texts
}
