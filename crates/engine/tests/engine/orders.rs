//! Rows in an order that says less of an expression, or of a column, than DataFusion takes it to say. Expected values are
//! written by hand: plain DataFusion does not sort.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use pelton_engine::{PeltonSession, SessionOptions};

/// Four rows in the order of `ts`.
const ROWS: &str =
    "(SELECT * FROM (SELECT CAST(column1 AS TIMESTAMP) AS ts, column2 AS x, column3 AS k FROM (VALUES
    ('2024-01-01 10:00:00', 3.1e0, 3), ('2024-01-02 09:00:00', 2.9e0, 1), ('2024-01-03 11:00:00', 3.4e0, 2),
    ('2024-01-04 09:00:00', 7e0, 4)) AS v) AS r ORDER BY ts LIMIT 10) AS rows_by_ts";

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// The first column of what `sql` gives, where `ROWS` stands for the rows.
async fn check(session: &PeltonSession, sql: &str, expected: &[&str]) {
    let sql = sql.replace("ROWS", ROWS);
    let query = session.query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut found = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        found.extend((0..column.len()).map(|row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => array_value_to_string(column, row).unwrap(),
        }));
    }
    assert_eq!(found, expected, "{sql}");
}

#[tokio::test]
async fn times_of_rows_in_the_order_of_instants_are_sorted() {
    let session = session();
    let times = ["09:00:00", "09:00:00", "10:00:00", "11:00:00"];
    check(&session, "SELECT CAST(ts AS TIME) FROM ROWS ORDER BY CAST(ts AS TIME)", &times).await;
    check(&session, "SELECT CAST(ts AS TIME) AS t FROM ROWS ORDER BY t LIMIT 3", &times[..3]).await;
    let grouped = "SELECT CAST(ts AS TIME) AS t, count(*) FROM ROWS GROUP BY CAST(ts AS TIME) ORDER BY t";
    check(&session, grouped, &times[1..]).await;
    let ranks = "SELECT rank() OVER (ORDER BY CAST(ts AS TIME)) AS r FROM ROWS ORDER BY r";
    check(&session, ranks, &["1", "1", "3", "4"]).await;
}

#[tokio::test]
async fn casts_that_keep_the_order_need_no_sort() {
    let session = session();
    let sql = format!("EXPLAIN SELECT ts FROM {ROWS} ORDER BY CAST(ts AS DATE)");
    let batches = session.query(&sql).await.unwrap().collect().await.unwrap();
    let text = format!("{batches:?}");
    assert_eq!(text.matches("SortExec").count(), 1, "{text}");
}

#[tokio::test]
async fn the_rows_of_a_subquery_are_chosen_by_its_own_order() {
    let session = session();
    let last = "(SELECT * FROM ROWS ORDER BY ts DESC LIMIT 2) AS last";
    for (by, expected) in [
        ("date_trunc('month', ts)", ["4", "2"]),
        ("CAST(ts AS TIME)", ["2", "4"]),
        ("CAST(ts AS DATE)", ["4", "2"]),
    ] {
        check(&session, &format!("SELECT k FROM {last} ORDER BY {by} DESC"), &expected).await;
    }
    let greatest = "(SELECT * FROM ROWS ORDER BY k DESC LIMIT 2) AS greatest";
    check(&session, &format!("SELECT k FROM {greatest} ORDER BY k > 0 DESC"), &["4", "3"]).await;
    check(&session, &format!("SELECT k FROM {greatest} ORDER BY round(k, -3) DESC"), &["4", "3"]).await;
}

#[tokio::test]
async fn columns_that_a_cast_merges_are_not_constant() {
    let session = session();
    let cast = "SELECT k FROM ROWS WHERE CAST(x AS INTEGER) = 3 ORDER BY x, k";
    check(&session, cast, &["3", "2"]).await;
    check(&session, "SELECT k FROM ROWS WHERE CAST(x AS INTEGER) BETWEEN 3 AND 3 ORDER BY x, k", &["3", "2"])
        .await;
    let negated = "SELECT k FROM ROWS WHERE CAST(-x AS INTEGER) = -3 ORDER BY x DESC, k";
    check(&session, negated, &["2", "3"]).await;
}

#[tokio::test]
async fn columns_that_a_division_merges_are_not_constant() {
    let session = session();
    check(&session, "SELECT k FROM ROWS WHERE CAST(k AS BIGINT) / 2 = 1 ORDER BY k", &["2", "3"]).await;
    check(&session, "SELECT k FROM ROWS WHERE 4 / CAST(k AS BIGINT) = 1 ORDER BY k", &["3", "4"]).await;
}

#[tokio::test]
async fn columns_that_equal_a_constant_are_constant() {
    let session = session();
    check(&session, "SELECT k FROM ROWS WHERE x = 3.1e0 ORDER BY x, k", &["3"]).await;
}

#[tokio::test]
async fn null_comes_where_the_statement_has_it_though_only_one_truth_value_becomes_null() {
    let session = session();
    let logic = |expr: &str, order: &str| {
        format!(
            "SELECT {expr} FROM (SELECT k > 2 AS b FROM ROWS ORDER BY b{order} LIMIT 10) AS r \
             ORDER BY {expr}{order}"
        )
    };
    check(&session, &logic("b OR NULL", ""), &["true", "true", "NULL", "NULL"]).await;
    check(&session, &logic("b AND NULL", ""), &["false", "false", "NULL", "NULL"]).await;
    let down = " DESC NULLS LAST";
    check(&session, &logic("b AND NULL", down), &["false", "false", "NULL", "NULL"]).await;
}

#[tokio::test]
async fn row_groups_are_not_skipped_by_times_of_their_first_and_last_instants() {
    let session = session();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.parquet");
    let file = file.display();
    let copy = format!("COPY (SELECT * FROM {ROWS}) TO '{file}'");
    session.query(&copy).await.unwrap().collect().await.unwrap();
    for cast in ["CAST", "TRY_CAST"] {
        let sql = format!("SELECT count(*) FROM '{file}' WHERE {cast}(ts AS TIME) > '09:30:00'");
        check(&session, &sql, &["2"]).await;
    }
}

#[tokio::test]
async fn windows_above_filters_by_casts_are_planned() {
    let session = session();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    std::fs::write(&file, "p,t,u,v\n1,1.5,a,10\n1,2.5,a,20\n2,1.5,b,30\n").unwrap();
    let rows = "SELECT CAST(p AS SMALLINT) AS p, CAST(t AS DECIMAL(18,4)) AS t, CAST(u AS VARCHAR) AS u,
                CAST(v AS DECIMAL(9,2)) AS v";
    let sql = format!(
        "SELECT sum(v) OVER (PARTITION BY p ORDER BY t NULLS LAST) AS s FROM ({rows} FROM '{}') AS r \
         WHERE t = 1.5 AND u <> 'c' ORDER BY s",
        file.display()
    );
    check(&session, &sql, &["10.00", "30.00"]).await;
}

/// Rows 1 to 3, of which 2 and 3 have a partner whose `c` is 7.
const WITH_SEVEN: &str = "(VALUES (1),(2),(3)) AS a(id) LEFT JOIN
    (SELECT 7 AS c, v.id FROM (VALUES (2),(3)) AS v(id)) AS s ON s.id = a.id";

#[tokio::test]
async fn a_constant_of_an_outer_join_is_null_for_rows_without_a_partner() {
    for threads in [1, 2] {
        let options = SessionOptions { threads: Some(threads), ..SessionOptions::default() };
        let session = PeltonSession::open(None, &options).unwrap();
        let ids = ["2", "3", "1"];
        let sorted = format!("SELECT a.id FROM {WITH_SEVEN} ORDER BY s.c, a.id");
        check(&session, &sorted, &ids).await;
        check(&session, &format!("{sorted} LIMIT 2"), &ids[..2]).await;
        let ranks = format!(
            "SELECT r FROM (SELECT a.id, rank() OVER (ORDER BY s.c, a.id) AS r FROM {WITH_SEVEN}) AS ranked ORDER BY id"
        );
        check(&session, &ranks, &["3", "1", "2"]).await;
        let grouped = format!(
            "SELECT n FROM (SELECT s.c, count(*) AS n FROM (SELECT s.c, a.id FROM {WITH_SEVEN} ORDER BY a.id LIMIT 9) AS s
             GROUP BY s.c) AS g ORDER BY c"
        );
        check(&session, &grouped, &["2", "1"]).await;
    }
}

#[tokio::test]
async fn constants_of_both_sides_of_a_full_join_are_null_for_some_rows() {
    let session = session();
    let left = "(SELECT 5 AS c, v.id FROM (VALUES (1),(2)) AS v(id)) AS l";
    let right = "(SELECT 7 AS d, v.id FROM (VALUES (2),(3)) AS v(id)) AS r";
    let full = format!("SELECT coalesce(l.id, r.id) AS n FROM {left} FULL JOIN {right} ON l.id = r.id");
    check(&session, &format!("{full} ORDER BY l.c, n"), &["1", "2", "3"]).await;
    check(&session, &format!("{full} ORDER BY r.d, n"), &["2", "3", "1"]).await;
    check(&session, &format!("{full} ORDER BY l.c DESC, n"), &["3", "1", "2"]).await;
    let outer = format!("SELECT r.id FROM {left} RIGHT JOIN {right} ON l.id = r.id ORDER BY l.c, r.id");
    check(&session, &outer, &["2", "3"]).await;
    let by_range =
        format!("SELECT r.id FROM {left} RIGHT JOIN {right} ON l.id > r.id - 1 ORDER BY l.c DESC, r.id");
    check(&session, &by_range, &["3", "2"]).await;
}

#[tokio::test]
async fn a_column_that_a_filter_below_an_outer_join_makes_constant_is_null_for_some_rows() {
    let session = session();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.parquet");
    let file = file.display();
    let copy = format!("COPY (SELECT * FROM (VALUES (2,3),(3,3),(1,4)) AS v(id,k)) TO '{file}'");
    session.query(&copy).await.unwrap().collect().await.unwrap();
    let joined = format!(
        "SELECT a.id FROM (VALUES (1),(2),(3)) AS a(id) LEFT JOIN (SELECT id, k FROM '{file}' WHERE k = 3) AS s
         ON s.id = a.id"
    );
    check(&session, &format!("{joined} ORDER BY s.k, a.id"), &["2", "3", "1"]).await;
    check(&session, &format!("{joined} ORDER BY s.k % 2, a.id"), &["2", "3", "1"]).await;
}

#[tokio::test]
async fn rows_of_a_join_are_not_in_the_order_of_both_sides() {
    let session = session();
    let left = "(SELECT * FROM (VALUES (1,1),(2,2),(3,3)) AS l(a,k) ORDER BY a LIMIT 10) AS l";
    let right =
        "(SELECT b, k FROM (VALUES (1,3,1),(1,2,2),(1,1,3),(2,1,4)) AS r(b,k,o) ORDER BY b, o LIMIT 10) AS r";
    for join in ["JOIN", "RIGHT JOIN"] {
        let sql = format!("SELECT l.a FROM {left} {join} {right} ON l.k = r.k ORDER BY r.b, l.a");
        check(&session, &sql, &["1", "2", "3", "1"]).await;
    }
}

#[tokio::test]
async fn groups_of_several_sets_are_not_in_the_order_of_their_input() {
    for threads in [1, 2] {
        let options = SessionOptions { threads: Some(threads), ..SessionOptions::default() };
        let session = PeltonSession::open(None, &options).unwrap();
        let counts =
            "SELECT n FROM (SELECT m, count(*) OVER (PARTITION BY m) AS n, array_agg(id ORDER BY m) AS ids
                      FROM (VALUES (1,NULL),(3,1)) AS v(id,m) GROUP BY ROLLUP (m)) AS g ORDER BY n, m";
        check(&session, counts, &["1", "2", "2"]).await;
        let sorted = "SELECT m FROM (SELECT * FROM (VALUES (1,2),(3,1)) AS v(id,m) ORDER BY m LIMIT 9) AS v
                      GROUP BY ROLLUP (m) ORDER BY m";
        check(&session, sorted, &["1", "2", "NULL"]).await;
        let constant = "SELECT m FROM (SELECT 7 AS m, id FROM (VALUES (1),(2)) AS v(id)) AS v
                        GROUP BY ROLLUP (m) ORDER BY m DESC";
        check(&session, constant, &["NULL", "7"]).await;
        let equal = "SELECT b FROM (VALUES (1,1),(2,2)) AS v(a,b) WHERE a = b
                     GROUP BY GROUPING SETS ((a), (b), (a, b)) ORDER BY a, b";
        check(&session, equal, &["1", "NULL", "2", "NULL", "1", "2"]).await;
    }
}

#[tokio::test]
async fn rows_are_sorted_by_comparisons_of_whatever_is_computed() {
    let session = session();
    let texts = "(VALUES (1e0,'a'),(2e0,'bb'),(3e0,'cc')) AS v(x,t)";
    for key in [
        "x > 1",
        "sqrt(x) + 1 > 2.1",
        "length(t) > 1",
        "upper(t) >= 'B'",
        "NOT (round(x) < 2)",
        "length(t) BETWEEN 2 AND 3",
        "CASE WHEN length(t) > 1 THEN 2 ELSE 1 END > 1",
    ] {
        let counts = format!("SELECT count(*) OVER (PARTITION BY {key}) AS n FROM {texts} ORDER BY n");
        check(&session, &counts, &["1", "2", "2"]).await;
        let lists = format!("SELECT CAST(array_agg(x ORDER BY {key} DESC, x) AS VARCHAR) FROM {texts}");
        check(&session, &lists, &["[2.0, 3.0, 1.0]"]).await;
        let twice = format!(
            "SELECT t FROM (SELECT * FROM {texts} UNION ALL SELECT * FROM {texts}) AS u ORDER BY {key}, t"
        );
        check(&session, &twice, &["a", "a", "bb", "bb", "cc", "cc"]).await;
    }
}

#[tokio::test]
async fn a_key_that_comes_again_adds_nothing_to_the_order_of_an_aggregate() {
    let session = session();
    let rows = "(VALUES (1,'b'),(1,'b'),(2,'c')) AS v(k,t)";
    let joined = |by: &str| {
        format!(
            "SELECT s FROM (SELECT k, string_agg(t, ',' ORDER BY {by}) AS s FROM {rows} GROUP BY k) AS g ORDER BY k"
        )
    };
    for by in ["k, k DESC", "k, k", "t, k, t DESC"] {
        check(&session, &joined(by), &["b,b", "c"]).await;
    }
}
