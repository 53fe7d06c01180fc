//! Functions, operators and literals that PostgreSQL or DuckDB have and DataFusion does not, and parts of intervals.
//! Expected values are PostgreSQL's, or DuckDB's where PostgreSQL has no such function.

use arrow::array::Array;
use arrow::util::display::array_value_to_string;
use pelton_engine::{PeltonSession, SessionOptions};

pub(crate) fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// That the first column of `sql` is `expected`.
pub(crate) async fn check(session: &PeltonSession, sql: &str, expected: &[&str]) {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut values = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        values.extend((0..column.len()).map(|row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => array_value_to_string(column, row).unwrap(),
        }));
    }
    assert_eq!(values, expected, "{sql}");
}

pub(crate) async fn check_error(session: &PeltonSession, sql: &str, words: &str) {
    let error = match session.query(sql).await {
        Ok(query) => query.collect().await.unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(words), "{sql}: {error}");
}

/// 9 days, 12 hours, 34 minutes and 56.5 seconds.
const DIFFERENCE: &str = "TIMESTAMP '2024-02-29 12:34:56.5' - TIMESTAMP '2024-02-20 00:00:00'";

#[tokio::test]
async fn differences_of_timestamps_are_days_and_a_time() {
    let session = session();
    for (part, expected) in [
        ("day", "9"),
        ("hour", "12"),
        ("minute", "34"),
        ("second", "56"),
        ("millisecond", "56500"),
        ("microsecond", "56500000"),
        ("nanosecond", "56500000000"),
        ("epoch", "822896.5"),
        ("month", "0"),
        ("year", "0"),
    ] {
        check(&session, &format!("SELECT extract({part} FROM {DIFFERENCE})"), &[expected]).await;
        check(&session, &format!("SELECT date_part('{part}', {DIFFERENCE})"), &[expected]).await;
    }
    let difference = "TIMESTAMP '2024-02-20 00:00:00' - TIMESTAMP '2024-02-29 12:34:56.5'";
    for (part, expected) in [("day", "-9"), ("hour", "-12"), ("second", "-56"), ("epoch", "-822896.5")] {
        check(&session, &format!("SELECT extract({part} FROM {difference})"), &[expected]).await;
    }
    let rows = "(VALUES (TIMESTAMP '2024-01-02 03:00:00', TIMESTAMP '2024-01-01 00:00:00'), (NULL, NULL)) AS t(b, a)";
    check(&session, &format!("SELECT extract(hour FROM b - a) FROM {rows}"), &["3", "NULL"]).await;
    check(
        &session,
        &format!("SELECT extract(day FROM b - a) FROM {rows} WHERE extract(hour FROM b - a) = 3"),
        &["1"],
    )
    .await;
    check(&session, &format!("SELECT extract(hour FROM max(b) - min(a)) FROM {rows}"), &["3"]).await;
}

#[tokio::test]
async fn intervals_keep_their_hours_and_fractions_of_seconds() {
    let session = session();
    for (expression, expected) in [
        ("extract(hour FROM INTERVAL '36 hours')", "36"),
        ("extract(millisecond FROM INTERVAL '1 minute 5.5 seconds')", "5500"),
        ("extract(quarter FROM INTERVAL '4 months')", "2"),
        ("extract(decade FROM INTERVAL '25 years')", "2"),
        ("extract(epoch FROM INTERVAL '1 day 2 hours')", "93600.0"),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
}

#[tokio::test]
async fn dates_have_centuries_and_decades() {
    let session = session();
    for (day, century, decade, millennium) in [
        ("2000-12-31", "20", "200", "2"),
        ("2001-01-01", "21", "200", "3"),
        ("1999-06-01", "20", "199", "2"),
        ("0001-01-01", "1", "0", "1"),
    ] {
        check(&session, &format!("SELECT extract(century FROM DATE '{day}')"), &[century]).await;
        check(&session, &format!("SELECT extract(decade FROM DATE '{day}')"), &[decade]).await;
        check(&session, &format!("SELECT date_part('millennium', DATE '{day}')"), &[millennium]).await;
    }
    check(&session, "SELECT extract(century FROM TIMESTAMP '2024-02-29 12:00:00')", &["21"]).await;
}

#[tokio::test]
async fn replacements_have_dollars_and_groups_of_one_digit() {
    let session = session();
    for (sql, expected) in [
        ("SELECT regexp_replace('a5', '[0-9]', '$1')", "a$1"),
        ("SELECT regexp_replace('aXbX', 'X', '$$', 'g')", "a$$b$$"),
        (r"SELECT regexp_replace('abc', '(b)', '\12')", "ab2c"),
        (r"SELECT regexp_replace('abc', 'b', '[\&]')", "a[b]c"),
        (r"SELECT regexp_replace('ab', '(a)(b)', '\2\1')", "ba"),
        ("SELECT regexp_replace('aa', 'a', 'b', '')", "ba"),
        ("SELECT regexp_replace(x, '^(.)', '$0') FROM (VALUES ('ab')) AS t(x)", "$0b"),
    ] {
        check(&session, sql, &[expected]).await;
    }
}

#[tokio::test]
async fn bins_of_timestamps_reach_as_far_as_dates() {
    let session = session();
    let at = "CAST('3000-01-01T12:34:56' AS TIMESTAMP(6))";
    for (sql, expected) in [
        (format!("SELECT date_bin(INTERVAL '1 day', {at})"), vec!["3000-01-01T00:00:00"]),
        (
            format!("SELECT date_bin(INTERVAL '15 minutes', {at}, TIMESTAMP '2000-01-01 00:05:00')"),
            vec!["3000-01-01T12:20:00"],
        ),
        (
            format!("SELECT date_bin(INTERVAL '1 hour', t) FROM (VALUES ({at}), (NULL)) AS v(t) ORDER BY t"),
            vec!["3000-01-01T12:00:00", "NULL"],
        ),
        (format!("SELECT date_bin(CAST(NULL AS INTERVAL), {at})"), vec!["NULL"]),
    ] {
        check(&session, &sql, &expected).await;
    }
    let months = format!("SELECT date_bin(INTERVAL '1 month', {at})");
    check_error(&session, &months, "bins of days and times alone").await;
}

#[tokio::test]
async fn timestamps_are_truncated_to_decades_centuries_and_millennia() {
    let session = session();
    for (value, expected) in [
        ("date_trunc('decade', TIMESTAMP '2024-03-01 12:00:00')", "2020-01-01T00:00:00"),
        ("date_trunc('century', TIMESTAMP '2000-12-31 00:00:00')", "1901-01-01T00:00:00"),
        ("date_trunc('century', DATE '2001-01-01')", "2001-01-01T00:00:00"),
        ("date_trunc('MILLENNIUM', DATE '2000-12-31')", "1001-01-01T00:00:00"),
        ("date_trunc('centuries', CAST(NULL AS TIMESTAMP))", "NULL"),
        ("extract(year FROM date_trunc('decade', '2024-03-01'))", "2020"),
    ] {
        check(&session, &format!("SELECT {value}"), &[expected]).await;
    }
    let days = "(VALUES (DATE '1999-05-05'), (DATE '2003-05-05'), (DATE '2009-12-31')) AS t(day)";
    let decades = format!("SELECT date_trunc('decade', day) AS d FROM {days} GROUP BY d ORDER BY d");
    check(&session, &decades, &["1990-01-01T00:00:00", "2000-01-01T00:00:00"]).await;
    check_error(&session, "SELECT date_trunc('century', INTERVAL '1 year')", "takes dates and timestamps")
        .await;
    session.query("SET TIME ZONE 'Europe/Berlin'").await.unwrap();
    let (at, begin) = ("TIMESTAMPTZ '2000-12-31 23:30:00+00'", "TIMESTAMPTZ '2000-12-31 23:00:00+00'");
    check(&session, &format!("SELECT date_trunc('century', {at}) = {begin}"), &["true"]).await;
}

#[tokio::test]
async fn ages_are_months_days_and_a_time() {
    let session = session();
    for (value, expected) in [
        ("age(TIMESTAMP '2001-04-10 00:00:00', TIMESTAMP '1957-06-13 00:00:00')", "525 mons 27 days"),
        ("age(DATE '2024-03-01', TIMESTAMP '2024-01-31 12:00:00')", "1 mons 12 hours"),
        ("age(TIMESTAMP '2024-01-31 12:00:00', DATE '2024-03-01')", "-1 mons -12 hours"),
        ("age(TIMESTAMP '2024-01-01 00:00:01.5', DATE '2024-01-01') = INTERVAL '1.5 seconds'", "true"),
        ("extract(year FROM age(DATE '2024-01-01', DATE '0001-01-01'))", "2023"),
        ("age(NULL, DATE '2024-01-01')", "NULL"),
        ("age(current_date) = INTERVAL '0 days'", "true"),
    ] {
        check(&session, &format!("SELECT {value}"), &[expected]).await;
    }
    let days = "(VALUES (DATE '2024-03-01', DATE '2024-02-29'), (NULL, DATE '2024-02-29')) AS t(b, a)";
    check(&session, &format!("SELECT age(b, a) FROM {days}"), &["1 days", "NULL"]).await;
    check_error(&session, "SELECT age(1, 2)", "age takes dates and timestamps").await;
}

#[tokio::test]
async fn operators_are_those_of_postgresql() {
    let session = session();
    for (value, expected) in [
        ("2 ^ 3 ^ 2", "64.0"),
        ("-2 ^ 2", "4.0"),
        ("2 * 3 ^ 2", "18.0"),
        ("2 ^ -1", "0.5"),
        ("~5", "-6"),
        ("~1 + 1", "-3"),
        ("~x", "4"),
        ("arrow_typeof(~CAST(x AS SMALLINT))", "Int16"),
        ("xor(6, 3)", "5"),
        ("6 XOR 3", "5"),
        ("|/ 25", "5.0"),
        ("||/ 27e0", "3.0"),
    ] {
        check(&session, &format!("SELECT {value} FROM (VALUES (-5)) AS t(x)"), &[expected]).await;
    }
}

#[tokio::test]
async fn arrays_lose_and_change_all_items_of_a_value() {
    let session = session();
    check(&session, "SELECT array_remove([1, 2, 1], 1)", &["[2]"]).await;
    check(&session, "SELECT array_replace([1, 2, 1], 1, 7)", &["[7, 2, 7]"]).await;
}

#[tokio::test]
async fn times_of_day_need_no_leading_zeros() {
    let session = session();
    for (value, expected) in [
        ("CAST('1:2' AS TIME)", "01:02:00"),
        ("TIME ' 1:2:3'", "01:02:03"),
        ("CAST('2024-02-29 1:2' AS TIMESTAMP)", "2024-02-29T01:02:00"),
    ] {
        check(&session, &format!("SELECT {value}"), &[expected]).await;
    }
}

#[tokio::test]
async fn distinct_values_have_a_deviation() {
    let session = session();
    let rows = "(VALUES (1, 1), (2, 1), (3, 4), (4, NULL)) AS t(id, x)";
    for (sql, expected) in [
        (format!("SELECT round(stddev(DISTINCT x), 6) FROM {rows}"), &["2.12132"][..]),
        (format!("SELECT stddev_pop(DISTINCT x) FROM {rows}"), &["1.5"]),
        (format!("SELECT stddev_pop(DISTINCT x) + count(*) FROM {rows}"), &["5.5"]),
        (format!("SELECT stddev_samp(DISTINCT x) FROM {rows} WHERE id < 3"), &["NULL"]),
        (format!("SELECT var_pop(DISTINCT x) + avg(DISTINCT x) + avg(x) FROM {rows}"), &["6.75"]),
        (
            format!("SELECT stddev_pop(DISTINCT x) AS s FROM {rows} GROUP BY id % 2 ORDER BY s"),
            &["0.0", "1.5"],
        ),
        (
            format!(
                "SELECT stddev_pop(DISTINCT x) OVER (ORDER BY id ROWS 1 PRECEDING) FROM {rows} ORDER BY id"
            ),
            &["0.0", "0.0", "1.5", "0.0"],
        ),
        (
            format!("SELECT stddev_pop(DISTINCT x) FILTER (WHERE id < 4) OVER () FROM {rows} WHERE id > 2"),
            &["0.0", "0.0"],
        ),
    ] {
        check(&session, &sql, expected).await;
    }
}

#[tokio::test]
async fn collations_of_bytes_change_nothing_and_others_are_refused() {
    let session = session();
    let words = "(VALUES ('b'), ('A'), ('a'), ('B')) AS t(x)";
    let sorted = format!("SELECT x FROM {words} ORDER BY x COLLATE \"C\"");
    check(&session, &sorted, &["A", "B", "a", "b"]).await;
    let above = format!("SELECT count(*) FROM {words} WHERE x COLLATE \"POSIX\" > 'Z'");
    check(&session, &above, &["2"]).await;
    let german = format!("SELECT x FROM {words} ORDER BY x COLLATE \"de_DE\"");
    check_error(&session, &german, "COLLATE \"de_DE\" is not supported").await;
}

#[tokio::test]
async fn intervals_are_multiplied_and_divided() {
    let session = session();
    for (expression, expected) in [
        ("INTERVAL '2 hours' * 3 = INTERVAL '6 hours'", "true"),
        ("2 * INTERVAL '1 day' = INTERVAL '48 hours'", "true"),
        ("INTERVAL '1 hour' / 2 = INTERVAL '30 minutes'", "true"),
        ("INTERVAL '1 hour' * 2 / 3 = INTERVAL '40 minutes'", "true"),
        ("INTERVAL '1 day' * 0.5 = INTERVAL '12 hours'", "true"),
        ("INTERVAL '1 day' * NULL", "NULL"),
        ("DATE '2024-01-31' + INTERVAL '1 month' * 13", "2025-02-28"),
        ("extract(hour FROM (TIMESTAMP '2024-01-02 02:00:00' - TIMESTAMP '2024-01-01 00:00:00') / 2)", "13"),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
    let days = "SELECT DATE '2024-01-01' + INTERVAL '1 day' * v FROM generate_series(1, 3) AS g(v)";
    check(&session, days, &["2024-01-02", "2024-01-03", "2024-01-04"]).await;
    check_error(&session, "SELECT INTERVAL '1 day' / 0", "division by zero").await;
    check_error(&session, "SELECT INTERVAL '1 month' * 1e12", "out of range").await;
}

#[tokio::test]
async fn functions_and_operators_of_postgresql() {
    let session = session();
    for (expression, expected) in [
        ("mod(17, 5)", "2"),
        ("mod(-17, 5)", "-2"),
        ("mod(10 + 7, 2 + 3) * 2", "4"),
        ("ceiling(1.2e0)", "2.0"),
        ("'abc' ^@ 'ab'", "true"),
        ("trim(both from '  a ')", "a"),
        ("trim(leading from '  a ') || '.'", "a ."),
        ("NULL || NULL", "NULL"),
        ("make_timestamp(2024, 2, 29, 12, 30, 1.5)", "2024-02-29T12:30:01.500"),
        ("CAST('2024-02-29 12:34' AS TIMESTAMP)", "2024-02-29T12:34:00"),
        ("CAST(' 2024-02-29' AS DATE)", "2024-02-29"),
        ("([1, 2, 3, 4][2:])[1]", "2"),
        ("array_length([1, 2, 3, 4][:3])", "3"),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
    let logic = "(VALUES (1, true), (2, false), (3, NULL)) AS t(id, p)";
    check(&session, &format!("SELECT id FROM {logic} WHERE p = 'true'"), &["1"]).await;
    check(&session, &format!("SELECT id FROM {logic} WHERE 'no' = p"), &["2"]).await;
    check_error(&session, &format!("SELECT id FROM {logic} WHERE p = 'x'"), "x").await;
}

#[tokio::test]
async fn functions_and_fields_of_duckdb() {
    let session = session();
    for (expression, expected) in [
        ("year(DATE '2024-02-29')", "2024"),
        ("month(DATE '2024-02-29')", "2"),
        ("day(DATE '2024-02-29')", "29"),
        ("quarter(DATE '2024-02-29')", "1"),
        ("dayofweek(DATE '2024-02-29')", "4"),
        ("hour(TIMESTAMP '2024-02-29 12:34:56')", "12"),
        ("dayname(DATE '2024-02-29')", "Thursday"),
        ("monthname(DATE '2024-02-29')", "February"),
        ("last_day(DATE '2024-02-10')", "2024-02-29"),
        ("date_diff('day', DATE '2024-01-01', DATE '2024-03-01')", "60"),
        ("date_diff('month', DATE '2023-12-31', DATE '2024-03-01')", "3"),
        ("date_diff('week', DATE '2024-01-01', DATE '2024-03-01')", "8"),
        ("date_diff('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 02:00:00')", "2"),
        ("({'a': 5}).a", "5"),
        ("struct_extract({'a': 1, 'b': NULL}, 'a')", "1"),
    ] {
        check(&session, &format!("SELECT {expression}"), &[expected]).await;
    }
}

#[tokio::test]
async fn texts_of_intervals_have_clocks_and_years() {
    let session = session();
    for (interval, expected) in [
        ("INTERVAL '02:00:00'", "2 hours"),
        ("INTERVAL '1 day -02:00:00.5'", "1 days -2 hours -0.500000000 secs"),
        ("INTERVAL '1-2' YEAR TO MONTH", "14 mons"),
        ("INTERVAL '3 04:05' DAY TO MINUTE", "3 days 4 hours 5 mins"),
        ("CAST('1 day 02:00' AS INTERVAL)", "1 days 2 hours"),
        ("-INTERVAL '02:00'", "-2 hours"),
    ] {
        check(&session, &format!("SELECT {interval}"), &[expected]).await;
    }
    check_error(&session, "SELECT INTERVAL '02:75'", "02:75").await;
}

#[tokio::test]
async fn nulls_of_lists_are_written_in_texts() {
    let session = session();
    for (value, expected) in [
        ("[1, NULL, 3]", "[1, NULL, 3]"),
        ("['a', NULL, 'b c']", "[a, NULL, b c]"),
        ("[[1], NULL]", "[[1], NULL]"),
        ("CAST(NULL AS INTEGER[])", "NULL"),
        ("[1.5, 2]", "[1.5, 2.0]"),
    ] {
        check(&session, &format!("SELECT CAST({value} AS VARCHAR)"), &[expected]).await;
        check(&session, &format!("SELECT CAST(x AS VARCHAR) FROM (VALUES ({value})) AS t(x)"), &[expected])
            .await;
    }
}

#[tokio::test]
async fn groups_by_nothing_are_one_of_all_rows() {
    let session = session();
    let rows = "(VALUES (1), (2), (2)) AS v(x)";
    for (sql, expected) in [
        (format!("SELECT count(*) FROM {rows} GROUP BY ()"), &["3"][..]),
        (format!("SELECT count(*) FROM {rows} WHERE x > 7 GROUP BY ()"), &["0"]),
        (format!("SELECT count(*) FROM {rows} WHERE x > 7 GROUP BY (), () HAVING count(*) > 0"), &[]),
        (format!("SELECT count(*) FROM {rows} GROUP BY x, () ORDER BY x"), &["1", "2"]),
        (
            format!("SELECT (SELECT max(x) FROM {rows} WHERE x < y GROUP BY ()) FROM (VALUES (3)) AS w(y)"),
            &["2"],
        ),
        (format!("SELECT 5 FROM {rows} HAVING true"), &["5"]),
        (format!("SELECT 5 FROM {rows} HAVING 1 > 2"), &[]),
        (format!("SELECT max(x) FROM {rows} HAVING true"), &["2"]),
    ] {
        check(&session, &sql, expected).await;
    }
}

#[tokio::test]
async fn keys_of_distinct_on_stand_in_any_order() {
    let session = session();
    let rows = "(VALUES (1, 1, 'b'), (1, 1, 'a'), (2, 1, 'd'), (1, 2, 'c')) AS v(x, y, t)";
    for (sql, expected) in [
        (format!("SELECT DISTINCT ON (x, y) t FROM {rows} ORDER BY y, x, t"), &["a", "d", "c"][..]),
        (format!("SELECT DISTINCT ON (x, y) t FROM {rows} ORDER BY x, x DESC, y DESC, t"), &["c", "a", "d"]),
        (format!("SELECT DISTINCT ON (2) t, x FROM {rows} ORDER BY x, t DESC"), &["c", "d"]),
        (format!("SELECT DISTINCT ON (x, y) t FROM {rows} ORDER BY x, y, t"), &["a", "c", "d"]),
    ] {
        check(&session, &sql, expected).await;
    }
}

#[tokio::test]
async fn limits_beyond_all_rows_are_none() {
    let session = session();
    let (rows, most) = ("(VALUES (1), (2)) AS v(x)", i64::MAX);
    for (sql, expected) in [
        (
            format!("SELECT x FROM {rows} LEFT JOIN (VALUES (1)) AS w(y) ON x = y LIMIT {most} OFFSET 2"),
            &[][..],
        ),
        (format!("SELECT x FROM {rows} CROSS JOIN (VALUES (1)) AS w(y) LIMIT {most} OFFSET 5"), &[]),
        (format!("SELECT x FROM {rows} UNION ALL SELECT 3 LIMIT {most} OFFSET 9"), &[]),
        (format!("SELECT x FROM (SELECT x FROM {rows} OFFSET {most}) OFFSET {most}"), &[]),
        (format!("SELECT count(*) FROM (SELECT x FROM {rows} LIMIT {most}) LIMIT {most}"), &["2"]),
        (format!("SELECT x FROM {rows} ORDER BY x LIMIT {most} OFFSET 1"), &["2"]),
    ] {
        check(&session, &sql, expected).await;
    }
}

#[tokio::test]
async fn null_beside_what_is_no_text_is_null() {
    let session = session();
    for of in ["x || NULL", "NULL || x", "1.5 || NULL", "NULL || 'a'", "NULL || NULL", "'a' || x || NULL"] {
        check(&session, &format!("SELECT {of} FROM (VALUES (1)) AS v(x)"), &["NULL"]).await;
    }
    check(&session, "SELECT [x] || NULL FROM (VALUES (1)) AS v(x)", &["[1, ]"]).await;
}
