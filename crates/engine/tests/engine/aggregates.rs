//! Aggregates beside what PostgreSQL answers. Expected values are written by hand: plain DataFusion answers some of these
//! wrongly and refuses others.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow::util::display::array_value_to_string;
use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::Tables;

/// Table r: seq from 1 to 120; at, ten minutes apart from a noon to the next morning; k, from -2 to 3; and t, which is
/// NULL in each fifth row.
fn session() -> (Tables, PeltonSession) {
    let tables = Tables::new();
    let seqs = 1..=120_i64;
    let text = |seq: i64| (seq % 5 != 0).then(|| ["a", "b", "c"][(seq % 3) as usize]);
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("seq", Arc::new(Int64Array::from_iter_values(seqs.clone())), false),
        (
            "at",
            Arc::new(TimestampNanosecondArray::from_iter_values(
                seqs.clone().map(|seq| (43_200 + seq * 600) * 1_000_000_000),
            )),
            false,
        ),
        ("k", Arc::new(Int64Array::from_iter_values(seqs.clone().map(|seq| (seq - 60) / 20))), false),
        ("t", Arc::new(seqs.map(text).collect::<StringArray>()), true),
    ];
    tables.add("r", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 40, vec![]);
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    (tables, session)
}

/// All rows, columns with a bar between.
async fn rows(session: &PeltonSession, sql: &str) -> Vec<String> {
    let query = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = query.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = Vec::new();
    for batch in &batches {
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = batch.columns().iter().map(|column| match column.is_null(row) {
                true => "NULL".to_owned(),
                false => array_value_to_string(column, row).unwrap(),
            });
            values.collect::<Vec<_>>().join("|")
        }));
    }
    rows
}

async fn check(session: &PeltonSession, sql: &str, expected: &[&str]) {
    assert_eq!(rows(session, sql).await, expected, "{sql}");
}

/// A limit of groups is one of all rows that are asked for, whatever has the name of the key.
#[tokio::test]
async fn groups_are_limited_by_what_is_sorted_alone() {
    let (_tables, session) = session();
    for (sql, expected) in [
        ("SELECT -seq AS seq FROM r GROUP BY seq ORDER BY seq LIMIT 2", &["-120", "-119"][..]),
        ("SELECT -seq AS seq FROM (SELECT DISTINCT seq FROM r) ORDER BY seq LIMIT 2", &["-120", "-119"]),
        ("SELECT seq % 7 AS seq FROM r GROUP BY seq ORDER BY seq DESC LIMIT 3", &["6", "6", "6"]),
        ("SELECT seq, count(*) OVER () FROM r GROUP BY seq ORDER BY seq LIMIT 2", &["1|120", "2|120"]),
        (
            "SELECT seq, row_number() OVER (ORDER BY seq DESC) FROM r GROUP BY seq ORDER BY seq LIMIT 2",
            &["1|120", "2|119"],
        ),
        (
            "SELECT seq, lag(seq) OVER (ORDER BY seq) FROM r GROUP BY seq ORDER BY seq DESC LIMIT 2",
            &["120|119", "119|118"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
    for (sql, limits) in [
        ("SELECT seq, max(k) AS m FROM r GROUP BY seq ORDER BY m DESC LIMIT 2", true),
        ("SELECT DISTINCT seq AS s FROM r ORDER BY s LIMIT 2", true),
        ("SELECT seq, min(k) AS m FROM r GROUP BY seq ORDER BY m DESC LIMIT 2", false),
    ] {
        let plan = rows(&session, &format!("EXPLAIN {sql}")).await.join("\n");
        assert_eq!(plan.contains("lim=[2]"), limits, "{plan}");
    }
}

/// Rows beyond the bounds of one call are not all that the others need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_of_several_columns_read_the_rows_of_each() {
    const ROWS: i64 = 3000;
    let tables = Tables::new();
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("i", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| ROWS - row))), false),
        ("x", Arc::new((0..ROWS).map(|row| (row >= ROWS / 2).then_some(row)).collect::<Int64Array>()), true),
    ];
    tables.add("r", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 128, vec![]);
    let options = SessionOptions {
        threads: Some(3),
        batch_rows: 16,
        device: DeviceChoice::Cpu,
        ..SessionOptions::default()
    };
    let session = tables.session(&options);
    check(&session, "SELECT max(i), max(x) FROM r WHERE i > 0", &["3000|2999"]).await;
    check(&session, "SELECT max(i), min(x) FROM r WHERE i % 2 = 0", &["3000|1500"]).await;
    check(&session, "SELECT max(i), max(i) FILTER (WHERE i < 3), max(-i) FROM r WHERE i > 0", &["3000|2|-1"])
        .await;
}

/// A total of no rows is a row: whether one is asked for is not a question to the rows.
#[tokio::test]
async fn conditions_without_columns_stay_above_totals() {
    let (_tables, session) = session();
    let rows = "(VALUES (1), (2)) AS v(x)";
    let no = "(SELECT max(y) FROM (VALUES (5)) AS w(y)) > 100";
    for (sql, expected) in [
        (format!("SELECT count(*) FROM {rows} HAVING {no}"), &[][..]),
        (format!("SELECT count(*) FROM {rows} HAVING NOT {no}"), &["2"]),
        (format!("SELECT n FROM (SELECT count(*) AS n, 5 AS c FROM {rows}) WHERE c > 7"), &[]),
        (format!("SELECT n FROM (SELECT count(*) AS n, 5 AS c FROM {rows}) WHERE c > 4 AND n > 1"), &["2"]),
        (
            format!(
                "SELECT n FROM (SELECT n, c FROM (SELECT count(*) AS n, 5 AS c FROM {rows}) WHERE n > 0) WHERE c > 7"
            ),
            &[],
        ),
        (
            format!(
                "SELECT n FROM (SELECT count(*) AS n, 5 AS c FROM {rows}) JOIN (VALUES (1)) AS w(y) ON c > 7"
            ),
            &[],
        ),
        (
            format!(
                "SELECT n FROM (SELECT count(*) AS n, false AS c FROM {rows} GROUP BY ROLLUP (x)) WHERE c"
            ),
            &[],
        ),
        (
            format!(
                "SELECT n FROM (SELECT count(DISTINCT x + 0) AS n FROM {rows} GROUP BY CUBE (x)) WHERE {no}"
            ),
            &[],
        ),
        (
            format!(
                "SELECT n FROM (SELECT count(*) AS n FROM {rows} GROUP BY GROUPING SETS ((x), ())) WHERE {no}"
            ),
            &[],
        ),
        (format!("SELECT x FROM (SELECT x, count(*) FROM {rows} GROUP BY x) WHERE {no}"), &[]),
    ] {
        check(&session, &sql, expected).await;
    }
}

/// What chance drops are rows of groups, windows and pairs, and not of what these are made of.
#[tokio::test]
async fn chance_is_asked_of_the_rows_that_it_is_written_for() {
    let (_tables, session) = session();
    let chance = "random() < 0.5";
    let of_pairs = |joined: &str| {
        format!(
            "SELECT count(DISTINCT n) > 3 FROM (SELECT a.seq, count(b.seq) AS n FROM {joined} GROUP BY a.seq)"
        )
    };
    for (sql, expected) in [
        (
            format!("SELECT DISTINCT n FROM (SELECT count(*) OVER () AS n FROM r) WHERE {chance} AND n > 0"),
            &["120"][..],
        ),
        (
            format!(
                "SELECT count(*) FROM (SELECT n FROM (SELECT t, seq % 4 AS q, count(*) AS n FROM r WHERE \
                 t IS NOT NULL GROUP BY t, seq % 4) WHERE {chance}) WHERE n <> 8"
            ),
            &["0"],
        ),
        (
            format!(
                "SELECT DISTINCT n IN (0, 120) FROM (SELECT a.seq, count(*) AS n FROM r AS a CROSS JOIN r AS b WHERE \
                 {chance} GROUP BY a.seq)"
            ),
            &["false"],
        ),
        (
            format!(
                "SELECT DISTINCT n IN (0, 120) FROM (SELECT a.seq, count(*) AS n FROM r AS a JOIN r AS b ON {chance} \
                 GROUP BY a.seq)"
            ),
            &["false"],
        ),
        (
            format!(
                "SELECT count(*) > 0 AND count(*) < 120 FROM (SELECT seq FROM r ORDER BY seq) WHERE {chance} AND seq > 0"
            ),
            &["true"],
        ),
        // Of two tables, each pair of rows has a chance of its own.
        (of_pairs(&format!("r AS a LEFT JOIN r AS b ON {chance}")), &["true"]),
        (of_pairs(&format!("r AS b RIGHT JOIN r AS a ON {chance}")), &["true"]),
        (of_pairs(&format!("r AS a FULL JOIN r AS b ON {chance}")), &["true"]),
        (of_pairs(&format!("r AS a LEFT JOIN r AS b ON a.k = b.k AND {chance}")), &["true"]),
        (
            "SELECT count(*) > 0 FROM (SELECT a.seq, count(b.seq) AS n FROM r AS a LEFT JOIN r AS b ON \
             a.seq + CAST(floor(random() * 3) AS BIGINT) = b.seq GROUP BY a.seq) WHERE seq < 100 AND n <> 1"
                .to_owned(),
            &["true"],
        ),
        (
            "SELECT count(*) > 0 FROM (SELECT k, count(*) AS n FROM r AS a WHERE EXISTS (SELECT 1 FROM r AS b WHERE \
             b.k = a.k AND random() < 0.05) GROUP BY k) WHERE n NOT IN (1, 20, 39)"
                .to_owned(),
            &["true"],
        ),
        (
            format!(
                "SELECT count(*) FROM (SELECT a.seq AS x, b.seq AS y, count(*) AS n FROM r AS a JOIN r AS b ON {chance} \
                 CROSS JOIN (VALUES (1), (2)) AS v(z) GROUP BY a.seq, b.seq) WHERE n <> 2"
            ),
            &["0"],
        ),
    ] {
        check(&session, &sql, expected).await;
    }
}

#[tokio::test]
async fn extremes_of_nested_values_are_in_the_order_of_sorts() {
    let (_tables, session) = session();
    for (values, expected) in [
        ("([1, 2]), ([3]), (NULL), ([1])", "[1]|[3]"),
        ("([1, NULL]), ([1, 5])", "[1, 5]|[1, ]"),
        ("([[1]]), ([[0, 7]])", "[[0, 7]]|[[1]]"),
        ("([{'x': 1}]), ([{'x': 0}])", "[{x: 0}]|[{x: 1}]"),
        ("({'x': [1]}), ({'x': [0]})", "{x: [0]}|{x: [1]}"),
        ("({'x': 1, 'y': NULL}), ({'x': 1, 'y': 2})", "{x: 1, y: 2}|{x: 1, y: }"),
    ] {
        check(&session, &format!("SELECT min(a), max(a) FROM (VALUES {values}) AS v(a)"), &[expected]).await;
        let grouped =
            format!("SELECT min(a), max(a) FROM (VALUES {values}) AS v(a) GROUP BY a IS NULL ORDER BY 1");
        let first = rows(&session, &grouped).await.into_iter().next();
        assert_eq!(first.as_deref(), Some(expected), "{grouped}");
    }
    check(&session, "SELECT max([seq, k]) FROM r WHERE seq < 0", &["NULL"]).await;
}

#[tokio::test]
async fn bounds_of_casts_that_do_not_keep_the_order_answer_nothing() {
    let (_tables, session) = session();
    for (sql, expected) in [
        ("SELECT max(v), min(v) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM r) AS s", "99|1"),
        ("SELECT max(CAST(seq AS VARCHAR)), min(CAST(seq AS VARCHAR)) FROM r", "99|1"),
        (
            "SELECT max(v) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM r UNION ALL SELECT CAST(seq AS VARCHAR) FROM r) AS s",
            "99",
        ),
        ("SELECT max(v), min(v) FROM (SELECT CAST(at AS TIME) AS v FROM r) AS s", "23:50:00|00:00:00"),
        ("SELECT max(v), min(v) FROM (SELECT CAST(k AS BOOLEAN) AS v FROM r) AS s", "true|false"),
        ("SELECT max(CAST(v AS BIGINT)) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM r) AS s", "120"),
        (
            "SELECT count(*) FROM (SELECT CAST(seq AS VARCHAR) AS v FROM r) AS s JOIN (VALUES ('99'), ('98')) AS u(w) ON v = w",
            "2",
        ),
        ("SELECT max(k) FROM r WHERE CAST(k AS BOOLEAN) AND seq > 0", "3"),
    ] {
        check(&session, sql, &[expected]).await;
    }
}

#[tokio::test]
async fn bounds_of_casts_that_keep_the_order_still_answer_without_rows() {
    let (_tables, session) = session();
    for (sql, expected) in [
        ("SELECT max(v), min(v) FROM (SELECT CAST(seq AS DECIMAL(9,2)) AS v FROM r) AS s", "120.00|1.00"),
        ("SELECT max(v), min(v) FROM (SELECT CAST(at AS DATE) AS v FROM r) AS s", "1970-01-02|1970-01-01"),
        ("SELECT max(seq), count(*) FROM r", "120|120"),
        // Of two aggregates one is answered so, though the other may not be.
        (
            "SELECT m, n FROM (SELECT max(seq) AS m FROM r) AS x CROSS JOIN (SELECT max(CAST(seq AS VARCHAR)) AS n FROM r) AS y",
            "120|99",
        ),
    ] {
        check(&session, sql, &[expected]).await;
    }
    let query = session.query("SELECT max(v), min(v) FROM (SELECT CAST(at AS DATE) AS v FROM r) AS s").await;
    let plan = displayable(query.unwrap().physical_plan().as_ref()).indent(false).to_string();
    assert!(plan.contains("PlaceholderRowExec") && !plan.contains("PeltonScanExec"), "{plan}");
}

#[tokio::test]
async fn an_order_that_makes_no_difference_is_dropped() {
    let (_tables, session) = session();
    for (sql, expected) in [
        ("SELECT sum(k ORDER BY seq), count(seq ORDER BY t) FROM r", &["3|120"][..]),
        (
            "SELECT k, count(seq ORDER BY t), max(seq ORDER BY t DESC) FROM r WHERE k > 0 GROUP BY k ORDER BY k",
            &["1|20|99", "2|20|119", "3|1|120"],
        ),
        ("SELECT count(DISTINCT k ORDER BY k), avg(seq ORDER BY seq DESC, t) FROM r", &["6|60.5"]),
        ("SELECT count(seq ORDER BY t) FILTER (WHERE t IS NULL) + 1 FROM r", &["25"]),
        ("SELECT count(seq ORDER BY t) AS n FROM r HAVING count(seq ORDER BY t) > 119", &["120"]),
    ] {
        check(&session, sql, expected).await;
    }
}

#[tokio::test]
async fn texts_are_put_together_in_several_orders() {
    let (_tables, session) = session();
    for (sql, expected) in [
        (
            "SELECT string_agg(t, '' ORDER BY seq), string_agg(t, '' ORDER BY seq DESC) FROM r WHERE seq < 7",
            &["bcaba|abacb"][..],
        ),
        (
            "SELECT string_agg(DISTINCT t, ',' ORDER BY t), string_agg(t, ',' ORDER BY seq), count(seq ORDER BY t) \
             FROM r WHERE seq < 7",
            &["a,b,c|b,c,a,b,a|6"],
        ),
        (
            "SELECT k, string_agg(t, '-' ORDER BY seq), array_agg(seq ORDER BY seq DESC), \
             string_agg(t, '-' ORDER BY seq DESC) FILTER (WHERE seq > 3) AS down \
             FROM r WHERE seq IN (1, 2, 5, 110, 113) GROUP BY k ORDER BY k",
            &["-2|b-c|[5, 2, 1]|NULL", "2|c|[113, 110]|c"],
        ),
        (
            "SELECT string_agg(t, '' ORDER BY seq) AS up FROM r WHERE seq < 7 \
             HAVING string_agg(t, NULL ORDER BY seq DESC) = 'abacb'",
            &["bcaba"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
}

#[tokio::test]
async fn distinct_values_are_in_their_own_order_whatever_others_are_in() {
    let (_tables, session) = session();
    for (sql, expected) in [
        (
            "SELECT string_agg(DISTINCT t, ',' ORDER BY t), string_agg(DISTINCT t, ',' ORDER BY t DESC) FROM r",
            &["a,b,c|c,b,a"][..],
        ),
        (
            "SELECT array_agg(DISTINCT k ORDER BY k), array_agg(DISTINCT k ORDER BY k DESC) FROM r WHERE k > 0",
            &["[1, 2, 3]|[3, 2, 1]"],
        ),
        (
            "SELECT k, array_agg(DISTINCT t ORDER BY t DESC), array_agg(seq ORDER BY seq), \
             string_agg(DISTINCT t, ',' ORDER BY t) FROM r WHERE seq IN (111, 112, 113, 120) GROUP BY k ORDER BY k",
            &["2|[c, b, a]|[111, 112, 113]|a,b,c", "3|[]|[120]|NULL"],
        ),
        // Of rows in the opposite order.
        (
            "SELECT array_agg(DISTINCT k ORDER BY k DESC) FROM (SELECT k FROM r ORDER BY k LIMIT 100) AS s WHERE k > 0",
            &["[2, 1]"],
        ),
        // Without an order of their own, of rows that are in one.
        (
            "SELECT array_length(array_agg(DISTINCT k)) FROM (SELECT k FROM r ORDER BY seq) AS s WHERE k > 0",
            &["3"],
        ),
        ("SELECT string_agg(DISTINCT t, ',') FROM (SELECT t FROM r ORDER BY seq) AS s WHERE t = 'a'", &["a"]),
        (
            "SELECT array_agg(seq ORDER BY k, seq), array_agg(seq ORDER BY seq DESC), array_agg(seq ORDER BY seq) \
             FROM r WHERE seq > 117",
            &["[118, 119, 120]|[120, 119, 118]|[118, 119, 120]"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
}

#[tokio::test]
async fn grouping_sets_of_which_no_column_is_asked_for_are_grouped() {
    let (_tables, session) = session();
    for (sql, expected) in [
        // Three groups by both, three by t alone, two by k alone, and all.
        (
            "SELECT count(*) FROM (SELECT t, k, count(*) AS n FROM r WHERE seq IN (1, 5, 23) GROUP BY CUBE (t, k)) AS s",
            &["9"][..],
        ),
        ("SELECT count(*) FROM (SELECT t FROM r WHERE seq > 1000 GROUP BY ROLLUP (t)) AS s", &["1"]),
        ("SELECT DISTINCT grouping(t) AS g FROM r GROUP BY CUBE (t, k) ORDER BY g", &["0", "1"]),
        (
            "SELECT t, k, grouping(t, k) FROM r WHERE seq < 4 GROUP BY CUBE (t, k) HAVING grouping(t) = 1 OR t = 'a' ORDER BY 1, 2",
            &["a|-2|0", "a|NULL|1", "NULL|-2|2", "NULL|NULL|3"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
}

#[tokio::test]
async fn keys_of_rollup_and_cube_may_be_several_columns() {
    let (_tables, session) = session();
    let of = |keys: &str| format!("SELECT t, k, count(*) FROM r WHERE seq < 4 GROUP BY {keys} ORDER BY 1, 2");
    let pairs = ["a|-2|1", "b|-2|1", "c|-2|1"];
    check(&session, &of("ROLLUP ((t, k))"), &[&pairs[..], &["NULL|NULL|3"]].concat()).await;
    check(&session, &of("CUBE ((t, k))"), &[&pairs[..], &["NULL|NULL|3"]].concat()).await;
    let with_texts = ["a|-2|1", "a|NULL|1", "b|-2|1", "b|NULL|1", "c|-2|1", "c|NULL|1"];
    check(&session, &of("GROUPING SETS ((t, k), ROLLUP (t))"), &[&with_texts[..], &["NULL|NULL|3"]].concat())
        .await;
}

#[tokio::test]
async fn percentile_disc_and_mode_give_values_of_the_group() {
    let (_tables, session) = session();
    for (sql, expected) in [
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY seq) FROM r", &["60"][..]),
        ("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY seq DESC) FROM r", &["61"]),
        (
            "SELECT percentile_disc(0) WITHIN GROUP (ORDER BY t), mode() WITHIN GROUP (ORDER BY k) FROM r",
            &["a|0"],
        ),
        ("SELECT percentile_disc(1) WITHIN GROUP (ORDER BY at) FROM r WHERE false", &["NULL"]),
        (
            "SELECT k, percentile_disc(0.25) WITHIN GROUP (ORDER BY seq), mode() WITHIN GROUP (ORDER BY t DESC) \
             FROM r WHERE k > 1 GROUP BY k ORDER BY k",
            &["2|104|c", "3|120|NULL"],
        ),
        ("SELECT mode() WITHIN GROUP (ORDER BY t) FILTER (WHERE t <> 'a') FROM r WHERE seq < 7", &["b"]),
        // Both zeros are one value.
        (
            "SELECT mode() WITHIN GROUP (ORDER BY x) \
             FROM (VALUES (-0e0), (0e0), (-0e0), (0e0), (5e0), (5e0), (5e0)) AS z(x)",
            &["0.0"],
        ),
    ] {
        check(&session, sql, expected).await;
    }
    let sql = "SELECT percentile_disc(1.5) WITHIN GROUP (ORDER BY seq) FROM r";
    let error = match session.query(sql).await {
        Ok(query) => query.collect().await.unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("a number from 0 to 1"), "{error}");
}

#[tokio::test]
async fn floor_and_ceil_of_decimals_may_need_a_digit_more() {
    let (_tables, session) = session();
    check(
        &session,
        "SELECT floor(-0.5) = -1, ceil(0.5) = 1, floor(-9.5) = -10, ceil(9.5) = 10",
        &["true|true|true|true"],
    )
    .await;
    let sql = "SELECT max(ceil(CAST(seq AS DECIMAL(4,1)) + 879.9)) = 1000, min(floor(-CAST(seq AS DECIMAL(4,1)))) = -120 FROM r";
    check(&session, sql, &["true|true"]).await;
    check(&session, "SELECT floor(CAST(-999.5 AS DECIMAL(4,1))) = -1000, ceiling(1.2) = 2", &["true|true"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_in_an_order_are_made_group_by_group_where_memory_is_little() {
    const ROWS: i64 = 200_000;
    let tables = Tables::new();
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * 7919 % ROWS))), false),
        ("k", Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row % 50))), false),
        ("s", Arc::new((0..ROWS).map(|row| Some(format!("{row:024}"))).collect::<StringArray>()), false),
    ];
    tables.add("r", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 40_000, vec![]);
    let session = |memory_limit_bytes| {
        tables.session(&SessionOptions {
            threads: Some(2),
            device: DeviceChoice::Cpu,
            memory_limit_bytes,
            ..SessionOptions::default()
        })
    };
    for call in ["string_agg(s, ',' ORDER BY id DESC)", "array_to_string(array_agg(s ORDER BY s, id), ',')"] {
        let sql =
            format!("SELECT k, length({call}) AS n, md5({call}) AS digest FROM r GROUP BY k ORDER BY k");
        let expected = rows(&session(None), &sql).await;
        assert_eq!(expected.len(), 50);
        assert_eq!(rows(&session(Some(24 << 20)), &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn equal_pairs_and_bits_of_equal_numbers_count_once_with_distinct() {
    let (_tables, session) = session();
    let rows = "(VALUES (1, 2e0, 1e0, 5), (1, 2e0, 1e0, 5), (1, 4e0, 3e0, 6), (1, 4e0, NULL, NULL), (2, 1e0, 1e0, 7)) \
                AS p(k, y, x, i)";
    for (call, of_groups, of_all) in [
        ("regr_count(DISTINCT y, x)", ["2", "1"], "3"),
        ("round(covar_pop(DISTINCT y, x), 6)", ["1.0", "0.0"], "1.111111"),
        ("regr_slope(DISTINCT y, x) > 0", ["true", "NULL"], "true"),
        ("round(corr(DISTINCT y, x), 6)", ["1.0", "NULL"], "0.944911"),
        ("regr_count(DISTINCT x, x)", ["2", "1"], "2"),
        ("bit_xor(DISTINCT i)", ["3", "7"], "4"),
    ] {
        // Beside others, DISTINCT is not written as groups.
        for beside in ["", ", count(DISTINCT y)", ", count(*)"] {
            let sql =
                format!("SELECT r FROM (SELECT k, {call} AS r{beside} FROM {rows} GROUP BY k) ORDER BY k");
            check(&session, &sql, &of_groups).await;
            let sql = format!("SELECT r FROM (SELECT {call} AS r{beside} FROM {rows})");
            check(&session, &sql, &[of_all]).await;
        }
    }
}

#[tokio::test]
async fn the_correlation_of_a_group_is_that_of_its_rows_alone_however_large_they_are() {
    let (_tables, session) = session();
    let corr = "round(corr(1e9 + seq, 1e9 - 3 * seq), 6)";
    check(&session, &format!("SELECT {corr} FROM r"), &["-1.0"]).await;
    check(&session, &format!("SELECT {corr} FROM r GROUP BY seq % 2 ORDER BY seq % 2"), &["-1.0", "-1.0"])
        .await;
}
