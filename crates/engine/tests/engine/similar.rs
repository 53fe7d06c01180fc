//! `SIMILAR TO` matches a whole text with a pattern of SQL. Expected values are written by hand: plain DataFusion looks
//! for the pattern as a regex anywhere in the text.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use datafusion::physical_plan::displayable;
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::{ErrorKind, Result};

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// The first column of all rows.
async fn column(session: &PeltonSession, sql: &str) -> Result<Vec<String>> {
    let batches = session.query(sql).await?.collect().await?;
    let mut values = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        values.extend((0..column.len()).map(|row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => array_value_to_string(column, row).unwrap(),
        }));
    }
    Ok(values)
}

async fn check(session: &PeltonSession, sql: &str, expected: &[&str]) {
    let found = column(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(found, expected, "{sql}");
}

#[tokio::test]
async fn patterns_match_whole_texts() {
    let session = session();
    for (text, pattern, expected) in [
        ("abc", "b", "false"),
        ("abc", "abc", "true"),
        ("abc", "%b%", "true"),
        ("abc", "a_c", "true"),
        ("abc", "a%", "true"),
        ("abc", "_", "false"),
        ("", "", "true"),
        ("", "%", "true"),
        ("", "_", "false"),
        ("b", "a|b", "true"),
        ("ab", "a|b", "false"),
        ("xd", "abc|%d", "true"),
        ("abcx", "abc|%d", "false"),
        ("abab", "(ab)+", "true"),
        ("aba", "(ab)+", "false"),
        ("ac", "a(b|c)", "true"),
        ("aaa", "a{2,3}", "true"),
        ("a", "a{2,3}", "false"),
        ("a", "ab?", "true"),
        ("5", "[0-9]", "true"),
        ("55", "[0-9]", "false"),
        ("x", "[^0-9]", "true"),
        ("%", "[%_]", "true"),
        ("x", "[%_]", "false"),
        ("ä7", "[[:alpha:]][[:digit:]]", "true"),
        ("ä", "_", "true"),
        ("7", r"\d", "true"),
        // These mean nothing in a pattern.
        ("a.c", "a.c", "true"),
        ("abc", "a.c", "false"),
        ("^a$", "^a$", "true"),
        ("a", "^a$", "false"),
        // Several lines.
        ("a\nb", "a%b", "true"),
        ("a\nb", "a_b", "true"),
        ("a\nb", "a", "false"),
        ("a\n", "a", "false"),
        // Escapes.
        ("a%", r"a\%", "true"),
        ("ab", r"a\%", "false"),
        ("a|b", r"a\|b", "true"),
        (r"a\b", r"a\\b", "true"),
    ] {
        check(&session, &format!("SELECT '{text}' SIMILAR TO '{pattern}'"), &[expected]).await;
        let not = if expected == "true" { "false" } else { "true" };
        check(&session, &format!("SELECT '{text}' NOT SIMILAR TO '{pattern}'"), &[not]).await;
        // The same for values that are known row by row.
        let rows = format!("(VALUES ('{text}', '{pattern}')) AS t(x, p)");
        check(&session, &format!("SELECT x SIMILAR TO '{pattern}' FROM {rows}"), &[expected]).await;
        check(&session, &format!("SELECT x SIMILAR TO p FROM {rows}"), &[expected]).await;
        check(&session, &format!("SELECT x NOT SIMILAR TO p FROM {rows}"), &[not]).await;
    }
}

#[tokio::test]
async fn escape_names_another_character() {
    let session = session();
    for (expression, expected) in [
        ("'a%' SIMILAR TO 'a!%' ESCAPE '!'", "true"),
        ("'ab' SIMILAR TO 'a!%' ESCAPE '!'", "false"),
        ("'a!' SIMILAR TO 'a!!' ESCAPE '!'", "true"),
        (r"'a\b' SIMILAR TO 'a\b' ESCAPE '!'", "true"),
        (r"'a%' SIMILAR TO 'a\%' ESCAPE '!'", "false"),
        ("'a%' SIMILAR TO p ESCAPE '!' FROM (VALUES ('a!%')) AS t(p)", "true"),
        ("'ab' SIMILAR TO p ESCAPE '!' FROM (VALUES ('a!%')) AS t(p)", "false"),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
}

#[tokio::test]
async fn null_is_similar_to_nothing_and_nothing_to_null() {
    let session = session();
    for expression in [
        "'a' SIMILAR TO NULL",
        "'a' NOT SIMILAR TO NULL",
        "'a' SIMILAR TO CAST(NULL AS VARCHAR)",
        "NULL SIMILAR TO 'a'",
        "CAST(NULL AS VARCHAR) NOT SIMILAR TO 'a'",
        "'a' SIMILAR TO (SELECT min(p) FROM (VALUES ('a')) AS t(p) WHERE p = 'b')",
    ] {
        check(&session, &format!("SELECT {expression}"), &["NULL"]).await;
    }
    let rows = "(VALUES (1, 'abc', 'a%'), (2, 'abc', 'b'), (3, 'abc', NULL), (4, NULL, '%')) AS t(k, x, p)";
    check(
        &session,
        &format!("SELECT x SIMILAR TO p FROM {rows} ORDER BY k"),
        &["true", "false", "NULL", "NULL"],
    )
    .await;
    check(&session, &format!("SELECT k FROM {rows} WHERE x NOT SIMILAR TO p"), &["2"]).await;
    let of_none = "(SELECT min(p) FROM (VALUES ('a')) AS u(p) WHERE p = 'b')";
    let of_rows = format!("SELECT x SIMILAR TO {of_none} FROM {rows} ORDER BY k");
    check(&session, &of_rows, &["NULL"; 4]).await;
}

#[tokio::test]
async fn patterns_stand_wherever_conditions_stand() {
    let session = session();
    let rows =
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'abc'), (2, 'abd'), (3, 'xyz'), (4, NULL)) AS v(k, x)";
    session.query(rows).await.unwrap().collect().await.unwrap();
    session
        .query("CREATE VIEW v AS SELECT k FROM t WHERE x SIMILAR TO 'ab_'")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    for (sql, expected) in [
        ("SELECT k FROM t WHERE x SIMILAR TO 'ab(c|d)' ORDER BY k", &["1", "2"][..]),
        ("SELECT k FROM t WHERE x SIMILAR TO 'abc|xyz' ORDER BY k", &["1", "3"]),
        ("SELECT k FROM t WHERE x NOT SIMILAR TO 'abc|xyz' ORDER BY k", &["2"]),
        ("SELECT k FROM t WHERE NOT x SIMILAR TO ('a' || '%') ORDER BY k", &["3"]),
        ("SELECT k FROM t WHERE x SIMILAR TO (SELECT 'a%') ORDER BY k", &["1", "2"]),
        ("SELECT count(*) FILTER (WHERE x SIMILAR TO 'a%') FROM t", &["2"]),
        ("SELECT sum(k) FROM t GROUP BY x SIMILAR TO 'a%' ORDER BY 1", &["3", "3", "4"]),
        ("SELECT count(*) FROM t GROUP BY ROLLUP(x SIMILAR TO 'a%') ORDER BY 1", &["1", "1", "2", "4"]),
        ("SELECT count(*) FROM t AS a JOIN t AS b ON a.k = b.k AND a.x SIMILAR TO 'a%'", &["2"]),
        ("SELECT k FROM t WHERE k IN (SELECT k FROM t WHERE x SIMILAR TO 'x%')", &["3"]),
        ("SELECT k FROM t ORDER BY x SIMILAR TO 'x%', k LIMIT 1", &["1"]),
        ("SELECT k FROM v ORDER BY k", &["1", "2"]),
    ] {
        check(&session, sql, expected).await;
    }
    let query = session.query("SELECT x SIMILAR TO 'a%' FROM t").await.unwrap();
    let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
    assert!(plan.contains("(?s)^(a.*)$"), "{plan}");
    let batches = query.collect().await.unwrap();
    assert_eq!(batches[0].schema().field(0).name(), "x SIMILAR TO 'a%'");
}

#[tokio::test]
async fn what_is_no_pattern_is_an_error_of_the_users_that_shows_it() {
    let session = session();
    for pattern in ["a(", "a)|(b", "*", "a{3,2}", "[a", r"a\", r"\q", "[[:letters:]]"] {
        for sql in [
            format!("SELECT 'a' SIMILAR TO '{pattern}'"),
            format!("SELECT x FROM (VALUES ('a')) AS t(x) WHERE x SIMILAR TO '{pattern}'"),
            format!("SELECT 'a' SIMILAR TO p FROM (VALUES ('{pattern}')) AS t(p)"),
        ] {
            let error = column(&session, &sql).await.expect_err(&sql);
            assert_eq!(*error.kind(), ErrorKind::InvalidInput, "{sql}: {error}");
            let message = error.to_string();
            assert!(message.contains(&format!("the pattern '{pattern}' of SIMILAR TO")), "{sql}: {message}");
            assert!(!message.contains('\n'), "{sql}: {message}");
        }
    }
}

/// A regex that all texts match is no test whether there is one.
#[tokio::test]
async fn null_matches_no_regex_and_is_no_mismatch() {
    let session = session();
    let texts = "(VALUES (1, 'a'), (2, ''), (3, NULL)) AS v(id, t)";
    for condition in ["t ~ '.*'", "t ~* '.*'", "regexp_like(t, '.*')", "regexp_like(t, '.*', 'i')"] {
        let sql = format!("SELECT {condition} FROM {texts} ORDER BY id");
        check(&session, &sql, &["true", "true", "NULL"]).await;
        check(&session, &format!("SELECT id FROM {texts} WHERE NOT {condition}"), &[]).await;
        check(&session, &format!("SELECT id FROM {texts} WHERE ({condition}) IS NULL"), &["3"]).await;
        check(&session, &format!("SELECT id FROM {texts} WHERE {condition} ORDER BY id"), &["1", "2"]).await;
    }
}
