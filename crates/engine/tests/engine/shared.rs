//! Subqueries that are used several times, and ROLLUP, which makes such: beside DataFusion without our rules.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, PeltonSession, Query, SessionOptions};
use pelton_testkit::Random;

use crate::common::{Tables, integers, run};

const ROWS: i64 = 400;

fn tables() -> Tables {
    let tables = Tables::new();
    let maybe = |row: i64, nth: i64, value: i64| (row % nth != nth - 1).then_some(value);
    let texts = |nth: i64, of: i64| -> ArrayRef {
        Arc::new(
            (0..ROWS)
                .map(|row| maybe(row, nth, row * 7 % of).map(|v| format!("text {v}")))
                .collect::<StringArray>(),
        )
    };
    let decimals = (0..ROWS).map(|row| maybe(row, 11, row * 13 - 700).map(i128::from));
    let decimals = decimals.collect::<Decimal128Array>().with_precision_and_scale(7, 2).unwrap();
    let columns: [(&str, ArrayRef); 7] = [
        ("a", texts(17, 3)),
        ("b", Arc::new((0..ROWS).map(|row| maybe(row, 13, row % 5)).collect::<Int64Array>())),
        ("c", texts(400, 4)),
        ("v", Arc::new((0..ROWS).map(|row| maybe(row, 7, row * 31 % 100)).collect::<Int64Array>())),
        (
            "n",
            Arc::new((0..ROWS).map(|row| maybe(row, 9, row % 50).map(|v| v as i32)).collect::<Int32Array>()),
        ),
        ("d", Arc::new(decimals)),
        // Sums of these are exact in any order.
        (
            "f",
            Arc::new(
                (0..ROWS).map(|row| maybe(row, 5, row).map(|v| v as f64 / 4.0)).collect::<Float64Array>(),
            ),
        ),
    ];
    let rows =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
    tables.add("t", rows, 64, vec![]);
    tables
}

fn session(tables: &Tables) -> PeltonSession {
    tables.session(&options())
}

fn options() -> SessionOptions {
    SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() }
}

fn plan_of(query: &Query) -> String {
    displayable(query.physical_plan().as_ref()).indent(false).to_string()
}

/// Checks the answer of `sql`, of which the plan has so many subtrees that are computed once.
async fn check(tables: &Tables, session: &PeltonSession, sql: &str, shared: usize) {
    for time in 0..3 {
        let (actual, query) = run(session, sql).await;
        assert_eq!(actual, tables.expected(sql).await, "time {time}: {sql}");
        let plan = plan_of(&query);
        assert_eq!(plan.matches("computed once").count(), shared, "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_statement_has_twice_is_computed_once() {
    let tables = tables();
    let session = session(&tables);
    let v = "WITH v AS (SELECT b, sum(v) AS s, count(*) AS c FROM t GROUP BY b)";
    let joined = format!("{v} SELECT x.b, x.s, y.s FROM v x JOIN v y ON x.b = y.b + 1 ORDER BY 1");
    check(&tables, &session, &joined, 1).await;
    // The plan is cached, and each run computes it once more.
    assert!(run(&session, &joined).await.1.has_cached_plan());
    for (sql, shared) in [
        // Its value, and where it is compared.
        ("SELECT b FROM v WHERE s = (SELECT max(s) FROM v) ORDER BY 1", 1),
        ("SELECT b, s FROM v WHERE s IN (SELECT max(s) FROM v GROUP BY b % 2) ORDER BY 1", 1),
        ("SELECT b, s FROM v UNION ALL SELECT b, s FROM v UNION ALL SELECT b, -s FROM v ORDER BY 1, 2", 1),
        ("SELECT count(*) FROM v x, v y, v z WHERE x.b < y.b AND y.b < z.b", 1),
        // Filters are part of it.
        ("SELECT x.s, y.s FROM v x, v y WHERE x.b = 1 AND y.b = 2", 0),
        ("SELECT x.s, y.s FROM v x, v y WHERE x.b = 1 AND y.b = 1", 1),
        // Columns that nobody reads are not.
        ("SELECT sum(x.s), sum(y.c) FROM v x, v y WHERE x.b = y.b", 0),
    ] {
        check(&tables, &session, &format!("{v} {sql}"), shared).await;
    }
    let nested = "WITH v AS (SELECT a, b, sum(v) AS s FROM t GROUP BY a, b), \
                  w AS (SELECT a, max(s) AS s FROM v GROUP BY a) \
                  SELECT v.b, w.s, u.s FROM v JOIN w ON v.a = w.a AND v.s = w.s JOIN w u ON u.a = w.a ORDER BY 1, 2, 3";
    check(&tables, &session, nested, 2).await;
    let windows = "WITH v AS (SELECT a, b, s, rank() OVER (PARTITION BY a ORDER BY s, b) AS r \
                   FROM (SELECT a, b, sum(v) AS s FROM t GROUP BY a, b)) \
                   SELECT x.a, x.b, x.s, y.s FROM v x JOIN v y ON x.a = y.a AND x.r = y.r + 1 ORDER BY 1, 2";
    check(&tables, &session, windows, 1).await;
    let two = "SELECT * FROM (SELECT DISTINCT b FROM t) x JOIN (SELECT DISTINCT b FROM t) y ON x.b = y.b ORDER BY 1";
    check(&tables, &session, two, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_the_same_twice_is_computed_twice() {
    let tables = tables();
    let session = session(&tables);
    // Functions that make tables have one name, whatever they are given.
    let series = |to: u32| format!("(SELECT count(*) AS c, sum(value) AS s FROM generate_series(1, {to}))");
    let sql = format!("SELECT * FROM {} x, {} y", series(3), series(5));
    let (actual, query) = run(&session, &sql).await;
    assert!(actual.contains("| 3 | 6 | 5 | 15 |"), "{actual}");
    assert!(!plan_of(&query).contains("SharedExec"));
    let random =
        "SELECT x.r <> y.r FROM (SELECT max(random()) AS r FROM t) x, (SELECT max(random()) AS r FROM t) y";
    let (actual, query) = run(&session, random).await;
    assert!(actual.contains("true"), "{actual}");
    assert!(!plan_of(&query).contains("SharedExec"));
    let recursive = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < (SELECT count(DISTINCT b) FROM t)) \
                     SELECT x.c, y.c FROM (SELECT count(*) AS c FROM r) x, (SELECT count(*) AS c FROM r) y";
    let (actual, query) = run(&session, recursive).await;
    assert!(actual.contains("| 5 | 5 |"), "{actual}");
    assert!(!plan_of(&query).contains("SharedExec"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn levels_are_those_of_the_oracle() {
    let tables = tables();
    let session = session(&tables);
    let seed = 67;
    let random = &mut Random::new(seed);
    let calls = [
        "count(*)",
        "count(v)",
        "sum(v)",
        "sum(n)",
        "sum(d)",
        "sum(f)",
        "avg(v)",
        "avg(n)",
        "avg(d)",
        "avg(f)",
        "min(a)",
        "max(d)",
        "min(f)",
        "bool_or(v > 90)",
        "bit_xor(v)",
        "sum(v) FILTER (WHERE n > 20)",
        "avg(d) FILTER (WHERE b = 2)",
        "count(*) FILTER (WHERE f > 50)",
    ];
    let others = ["count(DISTINCT v)", "median(v)", "sum(DISTINCT n)"];
    let sets = [
        "ROLLUP (a, b, c)",
        "CUBE (a, b)",
        "CUBE (c, a, b)",
        "a, ROLLUP (b, c)",
        "ROLLUP (a, v % 3)",
        "GROUPING SETS ((a, b), (b), ())",
        "GROUPING SETS ((a, b), (b), (b))",
        "GROUPING SETS ((a), (b))",
        "GROUPING SETS ((a, b, c), (a, c), (c))",
        "ROLLUP (a), ROLLUP (b)",
    ];
    for number in 0..150 {
        let sets = random.pick(&sets);
        let mut chosen: Vec<&str> = (0..1 + random.below(4)).map(|_| *random.pick(&calls)).collect();
        if random.one_in(10) {
            chosen.push(*random.pick(&others));
        }
        let named: Vec<String> =
            chosen.iter().enumerate().map(|(number, call)| format!("{call} AS x{number}")).collect();
        let keys: Vec<&str> = ["a", "b", "c", "v % 3"].into_iter().filter(|key| sets.contains(key)).collect();
        let groupings: Vec<String> = keys.iter().map(|key| format!("grouping({key})")).collect();
        let filter = random.pick(&["", "WHERE b > 1", "WHERE v < 50 OR a IS NULL"]);
        let having = random.pick(&["", "", "HAVING count(*) > 3"]);
        let order: Vec<String> =
            (1..=keys.len() * 2 + named.len()).map(|column| column.to_string()).collect();
        let sql = format!(
            "SELECT {}, {}, {} FROM t {filter} GROUP BY {sets} {having} ORDER BY {}",
            keys.join(", "),
            groupings.join(", "),
            named.join(", "),
            order.join(", ")
        );
        let (actual, _) = run(&session, &sql).await;
        assert_eq!(actual, tables.expected(&sql).await, "seed {seed}, number {number}: {sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_finest_level_sees_rows() {
    let tables = tables();
    let session = session(&tables);
    let rollup = "SELECT a, b, sum(v), avg(d) FROM t GROUP BY ROLLUP (a, b)";
    let (_, query) = run(&session, rollup).await;
    let plan = plan_of(&query);
    assert_eq!(plan.matches("PeltonScanExec").count(), 1, "{plan}");
    assert_eq!(plan.matches("computed once").count(), 2, "{plan}");
    // Not even a row is the total of none.
    let empty = "SELECT a, count(*), sum(v), avg(v) FROM t WHERE b > 100 GROUP BY ROLLUP (a)";
    let (actual, _) = run(&session, empty).await;
    assert!(actual.contains("|   | 0        |        |        |"), "{actual}");
    let twice = "WITH r AS (SELECT a, b, sum(v) AS s FROM t GROUP BY ROLLUP (a, b)) \
                 SELECT x.a, x.b, x.s, y.s FROM r x JOIN r y ON x.a = y.a WHERE y.b IS NULL ORDER BY 1, 2, 3, 4";
    let (actual, _) = run(&session, twice).await;
    assert_eq!(actual, tables.expected(twice).await);
}

/// Of groups that are shared and do not fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_rows_go_to_files_beyond_the_limit() {
    let tables = Tables::new();
    let rows = 400_000;
    let keys: Vec<i64> = (0..rows).map(|row| row * 7919 % 300_000).collect();
    tables.add("t", integers(&[("k", keys), ("v", (0..rows).collect())]), 1 << 16, vec![]);
    let sql = "WITH v AS (SELECT k, concat('a longer text ', k) AS s, sum(v) AS v FROM t GROUP BY 1, 2) \
               SELECT count(*), sum(x.v), max(x.s), sum(y.v), count(DISTINCT y.s) FROM v x JOIN v y ON x.k = y.k + 1";
    for memory_limit_bytes in [None, Some(32 << 20)] {
        let session = tables.session(&SessionOptions { memory_limit_bytes, ..options() });
        let (actual, query) = run(&session, sql).await;
        assert_eq!(actual, tables.expected(sql).await, "{memory_limit_bytes:?}");
        assert!(plan_of(&query).contains("computed once"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stops_or_fails_leaves_the_session_as_it_was() {
    let tables = tables();
    let session = session(&tables);
    let v = "WITH v AS (SELECT b, c, sum(v) AS s FROM t GROUP BY b, c)";
    for _ in 0..20 {
        let some = format!("{v} SELECT count(*) FROM (SELECT x.b FROM v x, v y WHERE x.s > y.s LIMIT 5)");
        assert!(run(&session, &some).await.0.contains("| 5 "));
        let failing = format!(
            "{v}, w AS (SELECT b, sum(s / (b - 2)) AS q FROM v GROUP BY b) SELECT * FROM w x JOIN w y ON x.b = y.b + 1"
        );
        let error = session.query(&failing).await.unwrap().collect().await.unwrap_err();
        assert!(error.to_string().contains("Divide by zero"), "{error}");
    }
    check(
        &tables,
        &session,
        &format!("{v} SELECT x.b, y.c, x.s FROM v x JOIN v y ON x.s = y.s ORDER BY 1, 2, 3"),
        1,
    )
    .await;
}
