//! WITH RECURSIVE whose terms have columns of different types.

use crate::spellings::{check, check_error, session};

fn numbers(first: &str, next: &str) -> String {
    format!(
        "WITH RECURSIVE t(x) AS (SELECT {first} UNION ALL SELECT {next} FROM t WHERE x < 3) SELECT x FROM t"
    )
}

#[tokio::test]
async fn a_first_term_that_cannot_hold_the_next_is_refused() {
    let session = session();
    for (first, next) in [
        ("1", "x + 0.5"),
        ("1", "(x + 0.5)"),
        ("1", "x + 0.5 AS y"),
        ("1", "x + 0.5e0"),
        ("1.0", "x + 0.25"),
        ("CAST(1 AS DECIMAL(9,2))", "x * 1.5e0"),
    ] {
        check_error(&session, &numbers(first, next), "recursive query 't': column 1 has type").await;
    }
    let nested = format!("SELECT * FROM ({}) AS u", numbers("1", "x + 0.5"));
    check_error(&session, &nested, "cast the column of the first term").await;
}

#[tokio::test]
async fn types_that_hold_the_next_are_kept() {
    let session = session();
    check(
        &session,
        &numbers("CAST(1 AS DECIMAL(9,1))", "CAST(x + 1 AS DECIMAL(9,1))"),
        &["1.0", "2.0", "3.0"],
    )
    .await;
    check(&session, &numbers("1e0", "x + 0.5"), &["1.0", "1.5", "2.0", "2.5", "3.0"]).await;
    check(&session, &numbers("1", "CAST(x + 1.5 AS BIGINT)"), &["1", "2", "3"]).await;
    check(&session, &numbers("CAST(1 AS INTEGER)", "x + 1"), &["1", "2", "3"]).await;
    let words = "WITH RECURSIVE t(x, n) AS (SELECT 'a', 1 UNION ALL SELECT x || 'b', n + 1 FROM t WHERE n < 3) \
                 SELECT x FROM t";
    check(&session, words, &["a", "ab", "abb"]).await;
    check(
        &session,
        "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT 1 + 0.5) SELECT x FROM t ORDER BY x",
        &["1.0", "1.5"],
    )
    .await;
}

#[tokio::test]
async fn subqueries_that_read_the_recursion_are_refused() {
    let session = session();
    for condition in [
        "x < (SELECT max(x) + 1 FROM t) AND x < 3",
        "EXISTS (SELECT 1 FROM T AS u WHERE u.x > 1)",
        "x + 1 NOT IN (SELECT y FROM (SELECT x AS y FROM t) AS u)",
        "x < ANY (SELECT x FROM t)",
    ] {
        let sql = format!(
            "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE {condition}) SELECT x FROM t"
        );
        check_error(&session, &sql, "recursive query 't' is read by a subquery").await;
    }
    let others = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t WHERE x < (WITH t AS (SELECT 3 AS y) \
                  SELECT max(y) FROM t)) SELECT x FROM t WHERE x > (SELECT min(x) FROM t) ORDER BY x";
    check(&session, others, &["2", "3"]).await;
}
