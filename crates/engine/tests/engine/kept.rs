//! PREPARE and EXECUTE: values keep their types.

use crate::spellings::{check, check_error, session};

#[tokio::test]
async fn values_are_not_cut_to_the_types_of_columns() {
    let session = session();
    check(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (3)) AS v(k)", &[]).await;
    check(&session, "PREPARE p AS SELECT count(*) FROM t WHERE k < $1", &[]).await;
    check(&session, "EXECUTE p(1.5)", &["1"]).await;
    check(&session, "EXECUTE P(2e0 + 0.5)", &["2"]).await;
    check(&session, "EXECUTE p(1)", &["0"]).await;
    check(&session, "PREPARE q(INTEGER) AS SELECT k + $1 FROM t ORDER BY 1 LIMIT $2", &[]).await;
    check(&session, "EXECUTE q('10', 2)", &["11", "12"]).await;
    check(&session, "PREPARE r AS SELECT k FROM t WHERE k IN (?, ?) ORDER BY ?, k DESC", &[]).await;
    check(&session, "EXECUTE r(1, 3, 1)", &["3", "1"]).await;
    check(&session, "DEALLOCATE r", &[]).await;
    check_error(&session, "EXECUTE r(1, 3, 1)", "prepared statement 'r' does not exist").await;
    check(&session, "DEALLOCATE ALL", &[]).await;
    check_error(&session, "EXECUTE p(1)", "prepared statement 'p' does not exist").await;
}

#[tokio::test]
async fn a_parameter_may_have_several_places() {
    let session = session();
    check(
        &session,
        "CREATE TABLE t AS VALUES (DATE '2024-01-05'), (DATE '2024-02-01'), (DATE '2024-05-01')",
        &[],
    )
    .await;
    let sql = "PREPARE p AS SELECT count(*) FROM t WHERE column1 BETWEEN $1 AND $1 + INTERVAL '1 month'";
    check(&session, sql, &[]).await;
    check(&session, "EXECUTE p(DATE '2024-01-01')", &["2"]).await;
    check(&session, "EXECUTE p(CAST(NULL AS DATE))", &["0"]).await;
}

#[tokio::test]
async fn what_cannot_be_executed_is_refused() {
    let session = session();
    check_error(&session, "PREPARE p AS SELECT k FROM nope", "nope' not found").await;
    check_error(&session, "PREPARE p AS SELECT $name", "has no number").await;
    check(&session, "PREPARE p AS SELECT $1", &[]).await;
    check_error(&session, "PREPARE p AS SELECT 1", "already exists").await;
    check_error(&session, "EXECUTE p", "takes 1 parameters, not 0").await;
    check_error(&session, "EXECUTE p(1, 2)", "takes 1 parameters, not 2").await;
    check_error(&session, "EXECUTE p(k)", "k").await;
    check_error(&session, "EXECUTE p((SELECT 1))", "is a subquery").await;
    check_error(&session, "EXECUTE p(random())", "random() is not").await;
    check_error(&session, "DEALLOCATE q", "prepared statement 'q' does not exist").await;
}
