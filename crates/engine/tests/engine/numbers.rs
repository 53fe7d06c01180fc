//! Numbers in queries: types of results, exact sums, and errors instead of wrong numbers.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::array_value_to_string;
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::{Error, ErrorKind, Result};

use crate::common::Tables;

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// The only value of the only row of `sql`, and its type.
async fn value(session: &PeltonSession, sql: &str) -> Result<(String, String)> {
    let batches = session.query(sql).await?.collect().await?;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).expect("a row");
    let column = batch.column(0);
    Ok((array_value_to_string(column, 0).unwrap(), sql_type(column.data_type())))
}

fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::UInt64 => "BIGINT UNSIGNED".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        other => other.to_string().to_uppercase(),
    }
}

async fn check(cases: &[(&str, &str, &str)]) {
    let session = session();
    for (expression, expected, data_type) in cases {
        let found = value(&session, &format!("SELECT {expression}")).await;
        let expected = Ok((expected.to_string(), data_type.to_string()));
        assert_eq!(found.map_err(|error| error.to_string()), expected, "{expression}");
    }
}

#[tokio::test]
async fn literals_are_what_they_look_like() {
    check(&[
        ("1.50", "1.50", "DECIMAL(3,2)"),
        ("-0.05", "-0.05", "DECIMAL(2,2)"),
        (".5", "0.5", "DECIMAL(1,1)"),
        ("1e3", "1000.0", "DOUBLE"),
        ("1.5E-3", "0.0015", "DOUBLE"),
        ("-1.5e0", "-1.5", "DOUBLE"),
        ("18446744073709551615", "18446744073709551615", "BIGINT UNSIGNED"),
        ("18446744073709551616", "18446744073709551616", "DECIMAL(20,0)"),
        ("1234567890123456789012345678901234567890.0", "1.2345678901234568e39", "DOUBLE"),
        ("0.1 + 0.2 = 0.3", "true", "BOOLEAN"),
        ("0.1e0 + 0.2e0 = 0.3e0", "false", "BOOLEAN"),
    ])
    .await;
}

#[tokio::test]
async fn quotients_of_decimals_have_the_digits_of_a_double() {
    check(&[
        ("1.00 / 3.00", "0.3333333333333333", "DOUBLE"),
        ("1 / 3.0", "0.3333333333333333", "DOUBLE"),
        ("7 / 2", "3", "BIGINT"),
        ("7.5 % 2", "1.5", "DECIMAL(2,1)"),
        ("1.00 / NULL", "", "DOUBLE"),
    ])
    .await;
}

#[tokio::test]
async fn decimals_beside_doubles_are_doubles() {
    check(&[
        ("2e0 * 0.5", "1.0", "DOUBLE"),
        ("1e300 > 0.5", "true", "BOOLEAN"),
        ("1e-20 = 0.0", "false", "BOOLEAN"),
        ("1e-20 BETWEEN 0.0 AND 0.5", "true", "BOOLEAN"),
        ("1e300 IN (0.5, 1.5)", "false", "BOOLEAN"),
        ("CASE WHEN true THEN 1e300 ELSE 0.5 END", "1e300", "DOUBLE"),
        ("coalesce(1e300, 0.5)", "1e300", "DOUBLE"),
        ("x FROM (SELECT 1e300 AS x UNION ALL SELECT 0.5) ORDER BY x DESC", "1e300", "DOUBLE"),
        ("count(*) FROM (VALUES (1e0)) AS a(x) JOIN (VALUES (1.0)) AS b(y) ON x = y", "1", "BIGINT"),
        ("'1.554' = 1.55", "false", "BOOLEAN"),
        ("round(2.567, 2)", "2.57", "DECIMAL(4,2)"),
        ("power(2.5, 2)", "6.25", "DOUBLE"),
        ("sqrt(2.25)", "1.5", "DOUBLE"),
    ])
    .await;
}

#[tokio::test]
async fn sums_are_exact_and_averages_doubles() {
    let big = "(VALUES (9223372036854775807), (9223372036854775807)) AS t(x)";
    let sum = |of: &str| format!("{of} FROM {big}");
    let cases = [
        (sum("sum(x)"), "18446744073709551614", "DECIMAL(38,0)"),
        (sum("sum(DISTINCT x)"), "9223372036854775807", "DECIMAL(38,0)"),
        (sum("avg(x)"), "9.223372036854776e18", "DOUBLE"),
        (sum("sum(x) FILTER (WHERE x < 0)"), "", "DECIMAL(38,0)"),
        (sum("sum(x) OVER ()"), "18446744073709551614", "DECIMAL(38,0)"),
        ("sum(x::INT) FROM (VALUES (2147483647), (2147483647)) AS t(x)".into(), "4294967294", "BIGINT"),
        ("sum(x) FROM (VALUES (1.10), (2.20)) AS t(x)".into(), "3.30", "DECIMAL(38,2)"),
        ("avg(x) FROM (VALUES (1.10), (2.21)) AS t(x)".into(), "1.655", "DOUBLE"),
        ("avg(DISTINCT x) FROM (VALUES (1), (1), (2)) AS t(x)".into(), "1.5", "DOUBLE"),
        ("sum(x) FROM (VALUES (1.5e0), (2e0)) AS t(x)".into(), "3.5", "DOUBLE"),
        ("avg(x) FROM (SELECT 1 AS x WHERE false)".into(), "", "DOUBLE"),
        ("approx_percentile_cont(x, 0.5) FROM (VALUES (1), (2), (3)) AS t(x)".into(), "2.0", "DOUBLE"),
    ];
    let cases: Vec<_> =
        cases.iter().map(|(sql, value, data_type)| (sql.as_str(), *value, *data_type)).collect();
    check(&cases).await;
}

#[tokio::test]
async fn numbers_of_rows_are_bigint() {
    let of = |call: &str| format!("{call} FROM (VALUES (7), (8)) AS t(x) ORDER BY x");
    let ranked = "FROM (SELECT row_number() OVER (ORDER BY x) AS r FROM (VALUES (7), (8)) AS v(x)) AS t";
    let cases = [
        (of("row_number() OVER (ORDER BY x)"), "1", "BIGINT"),
        (of("rank() OVER (ORDER BY x)"), "1", "BIGINT"),
        (of("dense_rank() OVER (ORDER BY x)"), "1", "BIGINT"),
        (of("ntile(2) OVER (ORDER BY x)"), "1", "BIGINT"),
        (of("rank() OVER (ORDER BY x) - 5"), "-4", "BIGINT"),
        ("row_number() OVER () - 1 FROM (VALUES (7)) AS t(x)".into(), "0", "BIGINT"),
        (format!("sum(r) {ranked}"), "3", "DECIMAL(38,0)"),
        (format!("max(r) {ranked}"), "2", "BIGINT"),
        (format!("x FROM (SELECT r AS x {ranked} UNION ALL SELECT -1) AS u ORDER BY x"), "-1", "BIGINT"),
    ];
    let cases: Vec<_> =
        cases.iter().map(|(sql, value, data_type)| (sql.as_str(), *value, *data_type)).collect();
    check(&cases).await;
}

/// Values printed by PostgreSQL 15, but for the type of REAL and DISTINCT, windows and groups, which it has not here.
#[tokio::test]
async fn percentiles_are_interpolated_with_all_digits() {
    let of = |call: &str, values: &str| format!("{call} FROM (VALUES {values}) AS t(x)");
    let within = |fraction: &str, order: &str, values: &str| {
        of(&format!("percentile_cont({fraction}) WITHIN GROUP (ORDER BY x{order})"), values)
    };
    let tens = "(10e0), (9e0), (8e0), (7e0), (6e0), (5e0), (4e0), (3e0), (2e0), (1e0), (0e0)";
    let filtered = "percentile_cont(0.33333333) WITHIN GROUP (ORDER BY x) FILTER (WHERE x < 10)";
    let greatest = |sql: &str| format!("max(p) FROM ({sql}) AS t");
    let cases = [
        (within("0.3333333333", "", "(0e0), (1e0)"), "0.3333333333", "DOUBLE"),
        (within("0.123456789", "", "(1), (1000000000)"), "123456789.87654321", "DOUBLE"),
        (within("0.3", "", "(1.1), (1.2), (1.7)"), "1.16", "DOUBLE"),
        (within("0.7", " DESC", "(1e0), (4e0), (10e0)"), "2.8000000000000003", "DOUBLE"),
        (within("0.9", " DESC", tens), "1.0", "DOUBLE"),
        (within("1", "", "(CAST('NaN' AS DOUBLE PRECISION)), (4e0)"), "NaN", "DOUBLE"),
        (within("0.5", "", "(CAST(NULL AS DOUBLE PRECISION))"), "", "DOUBLE"),
        (of(filtered, "(1e0), (2e0), (4e0), (100e0)"), "1.66666666", "DOUBLE"),
        (of("percentile_cont(DISTINCT x, 0.3333333333)", "(0e0), (1e0), (1e0)"), "0.3333333333", "DOUBLE"),
        (of("quantile_cont(x, 0.25)", "(CAST(1.5 AS REAL)), (CAST(2.5 AS REAL))"), "1.75", "FLOAT32"),
        (
            greatest(
                "SELECT percentile_cont(x, 0.3333333333) AS p FROM (VALUES (1, 1e0), (2, -5e0), (1, 0e0)) AS t(g, x) \
                 GROUP BY g",
            ),
            "0.3333333333",
            "DOUBLE",
        ),
        (
            greatest(
                "SELECT percentile_cont(x, 1e0) AS p FROM (VALUES (1, CAST('-Infinity' AS DOUBLE PRECISION))) AS t(g, x) \
                 GROUP BY g",
            ),
            "-inf",
            "DOUBLE",
        ),
        (
            greatest(
                "SELECT percentile_cont(x, 0.3333333333) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS p \
                 FROM (VALUES (0e0), (1e0), (4e0)) AS t(x)",
            ),
            "1.9999999999",
            "DOUBLE",
        ),
        (
            greatest(
                "SELECT percentile_cont(x, 0.33333333) FILTER (WHERE x < 10) OVER (ORDER BY x) AS p \
                 FROM (VALUES (1e0), (2e0), (4e0), (100e0)) AS t(x)",
            ),
            "1.66666666",
            "DOUBLE",
        ),
    ];
    let cases: Vec<_> =
        cases.iter().map(|(sql, value, data_type)| (sql.as_str(), *value, *data_type)).collect();
    check(&cases).await;
}

/// Beyond 100,000 rows partial groups are given up where they are as many, and rows go on as states.
#[tokio::test]
async fn percentiles_of_as_many_groups_as_rows_are_found() {
    check(&[(
        "count(*) FROM (SELECT g, percentile_cont(g + 1, 0.5) AS p FROM (SELECT value % 300000 AS g \
         FROM generate_series(1, 300001)) AS t GROUP BY g) AS groups WHERE p = g + 1",
        "300000",
        "BIGINT",
    )])
    .await;
}

/// `SELECT`s that must end in an error of the user's, each with a piece of the text.
#[tokio::test]
async fn what_overflows_is_an_error_that_names_the_expression_and_the_remedy() {
    let session = session();
    let setup = "CREATE TABLE t AS SELECT 2147483647::INT AS i, 9223372036854775807 AS b, 255::TINYINT UNSIGNED AS u, \
                 99999999999999999999999999999999999999::DECIMAL(38,0) AS d, 0.00 AS z, TIMESTAMP '2262-01-01' AS ts, \
                 DATE '2024-01-01' AS day, 1 AS g";
    session.query(setup).await.unwrap().collect().await.unwrap();
    let mut wrong = Vec::new();
    for (sql, text) in [
        (
            "SELECT 2000000000::INT + 2000000000::INT",
            "2000000000 + 2000000000 overflows INTEGER in `2000000000 + 2000000000`",
        ),
        (
            "SELECT i + i FROM t",
            "2147483647 + 2147483647 overflows INTEGER in `i + i`; cast an operand to BIGINT",
        ),
        (
            "SELECT b * 2 FROM t",
            "9223372036854775807 * 2 overflows BIGINT in `b * 2`; cast an operand to DECIMAL(38,0)",
        ),
        ("SELECT -b - 2 FROM t", "overflows BIGINT in `-b - 2`"),
        ("SELECT -(-b - 1) FROM t", "overflows BIGINT in `-(-b - 1)`"),
        ("SELECT abs(-b - 1) FROM t", "9223372036854775808"),
        ("SELECT d + 1 FROM t", "overflows DECIMAL(38,0) in `d + 1`; cast an operand to DOUBLE"),
        ("SELECT d * d FROM t", "overflows DECIMAL(38,0)"),
        ("SELECT b::INT FROM t", "9223372036854775807"),
        ("SELECT 3000000000::INT", "3000000000"),
        ("SELECT 1 FROM t WHERE b + 1 > 0", "overflows BIGINT"),
        ("SELECT 1 FROM t JOIN t AS o ON t.b + o.b = 0", "overflows BIGINT"),
        ("SELECT 1 FROM t JOIN t AS o ON t.g = o.g AND t.b + o.b > o.g", "overflows BIGINT"),
        ("SELECT 1 FROM t ORDER BY b + g", "overflows BIGINT"),
        ("SELECT sum(b + g) FROM t", "overflows BIGINT"),
        ("SELECT count(*) FROM t GROUP BY b + g", "overflows BIGINT"),
        ("SELECT count(*) FROM t HAVING max(b) + 1 > 0", "overflows BIGINT"),
        ("SELECT sum(b + g) OVER (ORDER BY i) FROM t", "overflows BIGINT"),
        ("SELECT CASE WHEN b + g > 0 THEN 1 END FROM t", "overflows BIGINT"),
        ("SELECT (SELECT max(b) + 1 FROM t)", "overflows BIGINT"),
        ("SELECT 1 FROM t WHERE g IN (SELECT b + 1 FROM t)", "overflows BIGINT"),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.b + t.g > 5)", "overflows BIGINT"),
        ("WITH c AS (SELECT b + 1 AS x FROM t) SELECT x FROM c", "overflows BIGINT"),
        ("SELECT b + 1 FROM t UNION ALL SELECT 1", "overflows BIGINT"),
        (
            "SELECT sum(x) FROM (SELECT d AS x FROM t UNION ALL SELECT d FROM t)",
            "sum(x) overflows DECIMAL(38,0)",
        ),
        ("SELECT 1.00 / z FROM t", "Divide by zero in `1.00 / z`"),
        ("SELECT 1 / (g - 1) FROM t", "Divide by zero"),
        ("SELECT 1 % (g - 1) FROM t", "Divide by zero"),
        ("SELECT 1.5 % z FROM t", "Divide by zero"),
        ("SELECT (-b - 1) / -1 FROM t", "Overflow happened on: -9223372036854775808 / -1"),
        ("SELECT ts + INTERVAL '400' YEAR FROM t", "out of range"),
        ("SELECT ts::TIMESTAMP + INTERVAL '1000000' DAY FROM t", "out of range"),
        ("SELECT day + INTERVAL '9000000' YEAR FROM t", ""),
        ("SELECT day - INTERVAL '900000' YEAR FROM t", ""),
        ("SELECT INTERVAL '2000000000' MONTH + INTERVAL '2000000000' MONTH", ""),
        ("SELECT 0.00000000000000000001 * 0.00000000000000000001", "digits after the point"),
    ] {
        let is_right = |error: &Error| {
            let message = error.to_string();
            *error.kind() == ErrorKind::InvalidInput && message.contains(text) && !message.contains('\n')
        };
        match value(&session, sql).await {
            Err(error) if is_right(&error) => {}
            Err(error) => wrong.push(format!("{sql}: {:?} {error}", error.kind())),
            Ok(value) => wrong.push(format!("{sql}: {value:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn null_divided_by_zero_is_null() {
    let session = session();
    let rows = "FROM (VALUES (NULL, 0.0), (3.0, 2.0)) AS t(a, b)";
    let quotients = [("sum(a / b)", "", "1.5"), ("count(a / 0.0)", " WHERE a IS NULL", "0")];
    for (call, condition, expected) in quotients {
        let (found, _) = value(&session, &format!("SELECT {call} {rows}{condition}")).await.unwrap();
        assert_eq!(found, expected, "{call}");
    }
}

/// What is stored has neither: a float of fewer bits has both.
#[tokio::test]
async fn doubles_become_zeros_and_infinities_where_they_are_cast_to_real() {
    let columns: [(&str, ArrayRef); 2] = [
        ("small", Arc::new(Float64Array::from(vec![-1e-60, -2e-60]))),
        ("large", Arc::new(Float64Array::from(vec![1e50, 2e50]))),
    ];
    let tables = Tables::new();
    tables.add("t", RecordBatch::try_from_iter(columns).unwrap(), 8, vec![]);
    let session = tables.session(&SessionOptions { threads: Some(2), ..SessionOptions::default() });
    for condition in [
        "CAST(small AS REAL) IN (0e0, 5e0, 6e0, 7e0, 8e0)",
        "CAST(large AS REAL) - CAST(large AS REAL) = CAST('NaN' AS REAL)",
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(value(&session, &sql).await.unwrap().0, "2", "{sql}");
    }
}

#[tokio::test]
async fn views_and_prepared_statements_are_checked() {
    let session = session();
    for sql in
        ["CREATE TABLE t AS SELECT 9223372036854775807 AS b", "CREATE VIEW v AS SELECT b + 1 AS x FROM t"]
    {
        session.query(sql).await.unwrap().collect().await.unwrap();
    }
    assert!(value(&session, "SELECT x FROM v").await.is_err());
}

#[tokio::test]
async fn columns_are_called_what_was_written() {
    let session = session();
    let query = session.query("SELECT a + 1, -a, a * a - 2, sum(a + 1) FROM (VALUES (1)) AS t(a) GROUP BY a");
    let batches = query.await.unwrap().collect().await.unwrap();
    let schema = batches[0].schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a + 1", "-a", "a * a - 2", "sum(a + 1)"]);
}

#[tokio::test]
async fn a_sum_beside_a_distinct_count_keeps_its_type() {
    check(&[
        (
            "sum(x::INT) + 0 * count(DISTINCT y) FROM (VALUES (1, 1), (2, 1), (3, 2)) AS t(x, y)",
            "6",
            "BIGINT",
        ),
        (
            "sum(x) + 0 * count(DISTINCT y) FROM (VALUES (1, 1), (2, 1), (3, 2)) AS t(x, y)",
            "6",
            "DECIMAL(38,0)",
        ),
    ])
    .await;
}

/// Frames that slide take values out again.
#[tokio::test]
async fn sliding_frames_take_values_out_exactly() {
    let rows = "(VALUES (1, 9223372036854775807), (2, 9223372036854775807), (3, 1), (4, NULL)) AS t(k, x)";
    let frame = "OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)";
    let of = |function: &str| {
        format!("string_agg(s, ' ') FROM (SELECT CAST({function} {frame} AS VARCHAR) AS s FROM {rows})")
    };
    let cases = [
        (of("sum(x)"), "9223372036854775807 18446744073709551614 9223372036854775808 1"),
        (of("avg(x::DECIMAL(38,0))"), "9.223372036854776e18 9.223372036854776e18 4.611686018427388e18 1.0"),
    ];
    let cases: Vec<_> = cases.iter().map(|(sql, value)| (sql.as_str(), *value, "LARGEUTF8")).collect();
    check(&cases).await;
}

#[tokio::test]
async fn decimals_beside_doubles_in_rows_are_doubles() {
    let values = |rows: &str| format!("(SELECT min(x) FROM (VALUES {rows}) AS v(x))");
    let union = |rows: &str| format!("(SELECT min(x) FROM (SELECT {rows}) AS v)");
    let cases = [
        (values("(1.25), (1e-20)"), "1e-20"),
        (values("(1e30), (1.25)"), "1.25"),
        (values("(1), (2.5), (3e0)"), "1.0"),
        (values("(-(1.5)), (CAST(2 AS REAL)), (NULL)"), "-1.5"),
        (values("(1.5), (2 * 1e-20)"), "2e-20"),
        (union("1 AS x UNION ALL SELECT 1.5 UNION ALL SELECT 1e-20"), "1e-20"),
        (union("1e-20 AS x UNION ALL SELECT 1 UNION ALL SELECT 1.5"), "1e-20"),
        (union("1 AS x UNION SELECT 1.5 UNION SELECT 1e-20 UNION SELECT 1e30"), "1e-20"),
        (union("1 AS x UNION ALL (SELECT 1.5 UNION ALL SELECT 1e-20)"), "1e-20"),
        (union("x * 1e-20 AS x FROM (SELECT 1 AS x UNION ALL SELECT 1.5) AS u"), "1e-20"),
    ];
    for (expression, expected) in cases {
        check(&[(expression.as_str(), expected, "DOUBLE")]).await;
    }
    check(&[("(SELECT min(x) FROM (VALUES (1), (2.50)) AS v(x))", "1.00", "DECIMAL(22,2)")]).await;
}
