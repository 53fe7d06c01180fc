//! Values of several types beside each other, and filters that joins pass on: over Parquet, whose row groups such filters skip.
//! Expected values are written by hand.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use pelton_engine::{PeltonSession, SessionOptions};
use tempfile::TempDir;

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// The first column of what `sql` gives, in its order.
async fn column(session: &PeltonSession, sql: &str) -> Vec<String> {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut found = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        found.extend((0..column.len()).map(|row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => array_value_to_string(column, row).unwrap(),
        }));
    }
    found
}

/// That the first value which each query gives is the one beside it.
async fn check(session: &PeltonSession, cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        assert_eq!(column(session, sql).await, [*expected], "{sql}");
    }
}

/// A file `name.parquet` in `directory` with the rows of `query`.
async fn add(session: &PeltonSession, directory: &TempDir, name: &str, query: &str) {
    let file = directory.path().join(format!("{name}.parquet"));
    column(session, &format!("COPY ({query}) TO '{}'", file.display())).await;
}

/// `sql` with the files of `directory` for its names in brackets.
fn over(directory: &TempDir, sql: &str) -> String {
    sql.replace('[', &format!("'{}/", directory.path().display())).replace(']', ".parquet'")
}

#[tokio::test]
async fn decimals_and_doubles_of_subqueries_are_compared_as_doubles() {
    let rows = "(VALUES (0.0), (0.5)) AS v(d)";
    let counted = |condition: &str| format!("SELECT count(*) FROM {rows} WHERE {condition}");
    let cases = [
        ("SELECT CAST(0 AS DECIMAL(5,2)) IN (SELECT 1e-20)".to_owned(), "false"),
        ("SELECT CAST(0 AS DECIMAL(5,2)) IN (SELECT 1e300)".to_owned(), "false"),
        ("SELECT 1e-20 IN (SELECT 0.0)".to_owned(), "false"),
        ("SELECT 0.5e0 IN (SELECT 0.5)".to_owned(), "true"),
        (
            "SELECT 0.5 IN (SELECT CAST('Infinity' AS DOUBLE) UNION ALL SELECT CAST('NaN' AS DOUBLE))"
                .to_owned(),
            "false",
        ),
        (counted("d IN (SELECT 1e-20)"), "0"),
        (counted("d NOT IN (SELECT 1e-20)"), "2"),
        (counted("d = ANY (SELECT 1e-20 UNION ALL SELECT 0.5e0)"), "1"),
        (counted("d < ALL (SELECT 1e-20)"), "1"),
        ("SELECT count(*) FROM (SELECT 0.0 INTERSECT SELECT 1e-20) AS q".to_owned(), "0"),
        ("SELECT count(*) FROM (SELECT 0.0 EXCEPT ALL SELECT 1e-20) AS q".to_owned(), "1"),
    ];
    let cases: Vec<_> = cases.iter().map(|(sql, expected)| (sql.as_str(), *expected)).collect();
    check(&session(), &cases).await;
}

#[tokio::test]
async fn decimals_of_many_digits_become_the_nearest_double() {
    check(
        &session(),
        &[
            ("SELECT CAST(CAST(1 AS DECIMAL(38,37)) AS DOUBLE) = 1e0", "true"),
            ("SELECT CAST(x AS DOUBLE) = 1e0 FROM (SELECT CAST(1 AS DECIMAL(38,37)) AS x) AS v", "true"),
            ("SELECT x = 1e0 FROM (SELECT CAST(1 AS DECIMAL(38,37)) AS x) AS v", "true"),
            ("SELECT CAST(1 AS DECIMAL(38,37)) / 1 = 1e0", "true"),
            ("SELECT 1 / x = 1e0 FROM (SELECT CAST(1 AS DECIMAL(38,37)) AS x) AS v", "true"),
            ("SELECT TRY_CAST(CAST(0.7 AS DECIMAL(38,30)) AS DOUBLE)", "0.7"),
            ("SELECT CAST(9007199254740993.25 AS DOUBLE) = 9007199254740993.25e0", "true"),
            ("SELECT CAST(CAST(NULL AS DECIMAL(38,37)) AS DOUBLE)", "NULL"),
        ],
    )
    .await;
}

#[tokio::test]
async fn semi_joins_pass_filters_on_to_the_key_beside_and_not_to_its_namesake() {
    let (session, directory) = (session(), tempfile::tempdir().unwrap());
    let rows = "generate_series(1, 1000) AS s(g)";
    add(&session, &directory, "a", &format!("SELECT g AS k, g * 3 AS x FROM {rows}")).await;
    add(&session, &directory, "b", &format!("SELECT g AS j, g + 1000000 AS k FROM {rows}")).await;
    add(&session, &directory, "i", &format!("SELECT CAST(g AS INTEGER) AS k FROM {rows}")).await;
    add(&session, &directory, "d", &format!("SELECT CAST(g AS DECIMAL(10,1)) AS k FROM {rows}")).await;
    let cases = [
        "SELECT count(*) FROM (VALUES (1), (2), (3)) AS c(k) JOIN (SELECT k, x FROM [a] AS a
         WHERE EXISTS (SELECT 1 FROM [b] AS b WHERE b.j = a.k AND b.k > a.x)) AS s ON s.k = c.k",
        "SELECT count(*) FROM (VALUES (1), (2), (3)) AS c(k) JOIN (SELECT k FROM [a] AS a
         WHERE k IN (SELECT j FROM [b] AS b WHERE b.k > a.x)) AS s ON s.k = c.k",
        "SELECT count(*) FROM (VALUES (1.0), (2.0), (3.0)) AS c(k) JOIN (SELECT k FROM [d]
         INTERSECT SELECT k FROM [i]) AS s ON s.k = c.k",
        "SELECT count(*) FROM (SELECT k FROM (VALUES (1), (2), (3)) AS v(k)
         INTERSECT (SELECT k FROM [i] INTERSECT SELECT k FROM [d])) AS q",
        "SELECT count(*) FROM ((SELECT k FROM [i] WHERE k < 4 INTERSECT SELECT k FROM [d]) INTERSECT SELECT CAST(k AS DOUBLE)
         FROM [a]) AS q",
    ];
    for sql in cases {
        let sql = over(&directory, sql);
        assert_eq!(column(&session, &sql).await, ["3"], "{sql}");
    }
}

#[tokio::test]
async fn a_date_minus_a_date_is_a_number_of_days_where_bounds_are_known() {
    let (session, directory) = (session(), tempfile::tempdir().unwrap());
    let rows =
        "SELECT g AS k, DATE '2024-02-28' + CAST(g AS INTEGER) AS day FROM generate_series(0, 9) AS s(g)";
    add(&session, &directory, "days", rows).await;
    for (condition, expected) in [
        ("day - DATE '2024-02-28' = k", "10"),
        ("day - DATE '2024-02-28' = 3", "1"),
        ("DATE '2024-03-01' - day > 0", "2"),
        ("k BETWEEN day - day AND 3", "4"),
        ("coalesce(k, 5) BETWEEN day - day AND 3", "4"),
        ("day - DATE '2024-02-28' - k IS DISTINCT FROM 0", "0"),
    ] {
        let sql = over(&directory, &format!("SELECT count(*) FROM [days] WHERE {condition}"));
        assert_eq!(column(&session, &sql).await, [expected], "{sql}");
    }
    let joined = "SELECT count(*) FROM [days] AS a JOIN [days] AS b ON a.k = b.day - DATE '2024-02-28'";
    assert_eq!(column(&session, &over(&directory, joined)).await, ["10"]);
}

#[tokio::test]
async fn binaries_held_in_two_ways_have_a_common_type() {
    let (session, directory) = (session(), tempfile::tempdir().unwrap());
    let rows = "SELECT 1 AS k, CAST('b' AS BYTEA) AS b UNION ALL SELECT 2, CAST(NULL AS BYTEA)";
    add(&session, &directory, "binaries", rows).await;
    for (expression, expected) in [
        ("coalesce(b, CAST('a' AS BYTEA))", ["62", "61"]),
        ("coalesce(NULL, CAST('a' AS BYTEA), b)", ["61", "61"]),
        ("lead(b, 1, CAST('c' AS BYTEA)) OVER (ORDER BY k)", ["NULL", "63"]),
    ] {
        let sql = over(&directory, &format!("SELECT {expression} AS v FROM [binaries] ORDER BY k"));
        assert_eq!(column(&session, &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn distinct_doubles_are_aggregated_in_frames_that_move() {
    let session = session();
    for (call, expected) in [
        ("sum(DISTINCT x)", ["1.0", "3.0", "2.0", "7.0"]),
        ("avg(DISTINCT x)", ["1.0", "1.5", "2.0", "3.5"]),
        ("median(DISTINCT x)", ["1.0", "1.5", "2.0", "3.5"]),
    ] {
        let sql = format!(
            "SELECT {call} OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS v
             FROM (VALUES (1, 1e0), (2, 2e0), (3, 2e0), (4, 5e0)) AS r(id, x) ORDER BY id"
        );
        assert_eq!(column(&session, &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn rows_of_arithmetic_are_looked_up_in_a_select_list() {
    let sql = "SELECT (k + 1, t) IN (SELECT 2, 'a') AS v FROM (VALUES (1, 'a'), (2, 'a'), (NULL, 'a'), (NULL, 'b')) AS r(k, t)";
    assert_eq!(column(&session(), sql).await, ["true", "false", "NULL", "false"]);
}
