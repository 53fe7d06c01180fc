//! Statements that nest as deep, and chains that are as long, as is allowed: they run, on threads with the stack that the
//! engine asks for, and beyond the limit there is an error with a place. What computes at each level is planned by
//! DataFusion in more than linear time (it names an expression by all that is in it), so that is tested at fewer levels.

use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use pelton_engine::{PeltonSession, STACK_BYTES, SessionOptions};

/// Far more than any of these takes on an idle machine, and far less than one by the square of its length.
const SOON: Duration = Duration::from_secs(60);

fn on_its_own_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap()
}

/// The only value of `sql`, or the error.
fn answer(sql: String) -> Result<i64, String> {
    on_its_own_stack(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let session =
                PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() });
            let query = session.unwrap().query(&sql).await.map_err(|error| error.to_string())?;
            let batches = query.collect().await.map_err(|error| error.to_string())?;
            let rows: Vec<_> = batches.iter().filter(|batch| batch.num_rows() > 0).collect();
            assert_eq!((rows.len(), rows[0].num_rows()), (1, 1));
            let value = cast(rows[0].column(0), &DataType::Int64).unwrap();
            Ok(value.as_primitive::<Int64Type>().value(0))
        })
    })
}

fn nested(levels: usize, before: &str, inner: &str, after: &str) -> String {
    format!("{}{inner}{}", before.repeat(levels), after.repeat(levels))
}

fn check(name: &str, sql: String, expected: i64) {
    let started = Instant::now();
    let found = answer(sql);
    let elapsed = started.elapsed();
    println!("{name}: {elapsed:.2?}");
    assert_eq!(found, Ok(expected), "{name}");
    assert!(elapsed < SOON, "{name}: {elapsed:?}");
}

/// `count` times `part`, with `#` as the number.
fn many(count: usize, part: &str, by: &str) -> String {
    (0..count).map(|number| part.replace('#', &number.to_string())).collect::<Vec<_>>().join(by)
}

const ROWS: &str = "(SELECT value AS v FROM range(10))";

#[test]
fn a_thousand_levels_run() {
    let levels = 999; // one more is the subquery with the rows
    for (name, expr, expected) in [
        ("parentheses", nested(levels, "(", "v", ")"), 45),
        ("NOT", format!("CASE WHEN {} THEN v ELSE 0 END", nested(1000, "NOT ", "v > 4", "")), 35),
        ("functions", nested(300, "abs(", "v", ")"), 45),
        ("CASE", nested(levels, "CASE WHEN v < 20 THEN ", "v", " ELSE 0 END"), 45),
        ("CASE in ELSE", nested(levels, "CASE WHEN v > 20 THEN 0 ELSE ", "v", " END"), 45),
        ("sums in parentheses", nested(levels, "(1 + ", "v", ")"), 45 + 10 * 999),
        ("a chain of sums", format!("v{}", " + 1".repeat(levels)), 45 + 10 * 999),
    ] {
        check(name, format!("SELECT sum(e) FROM (SELECT {expr} AS e FROM {ROWS})"), expected);
    }
}

#[test]
fn a_thousand_levels_of_subqueries_run() {
    let from = nested(998, "(SELECT v FROM ", ROWS, ")");
    check("subqueries in FROM", format!("SELECT sum(v) FROM {from}"), 45);
    // Alike as text at every level, and not superfluous at any.
    let adding = |inner: String, _| format!("(SELECT v + 1 AS v FROM {inner} WHERE v >= 0)");
    let from = (0..150).fold(ROWS.to_owned(), adding);
    check("subqueries in FROM that compute", format!("SELECT sum(v) FROM {from}"), 45 + 10 * 150);
    let scalar = nested(14, "(SELECT ", "1", ")");
    check("scalar subqueries", format!("SELECT {scalar}"), 1);
}

#[test]
fn long_chains_run() {
    // DataFusion finds the columns of a UNION in time that grows with the square of its length: 20 s for 10,000.
    check(
        "UNION ALL",
        format!("SELECT sum(a) FROM ({})", many(4000, "SELECT # AS a", " UNION ALL ")),
        7_998_000,
    );
    check("UNION", format!("SELECT sum(a) FROM ({})", many(1000, "SELECT # % 10 AS a", " UNION ")), 45);
    let where_of = |condition: String| format!("SELECT count(*) FROM range(10000) WHERE {condition}");
    check("OR", where_of(many(5000, "value = 2 * #", " OR ")), 5000);
    check("OR of ranges", where_of(many(5000, "value > # AND value < # + 2", " OR ")), 5000);
    check("AND", where_of(many(5000, "value <> #", " AND ")), 5000);
    check("AND of ranges", where_of(many(5000, "value > #", " AND ")), 5000);
    check("IN", where_of(format!("value IN ({})", many(100_000, "#", ", "))), 10_000);
    check("NOT IN", where_of(format!("value NOT IN ({})", many(100_000, "#", ", "))), 0);
    let whens = many(2000, "WHEN value = # THEN 2 * #", " ");
    check("CASE", format!("SELECT sum(CASE {whens} END) FROM range(10000)"), 3_998_000);
    let whens = many(2000, "WHEN # THEN 2 * #", " ");
    let rows = "(SELECT value AS v FROM range(10000))";
    check("CASE of a value", format!("SELECT sum(CASE v {whens} END) FROM {rows}"), 3_998_000);
}

#[test]
fn what_is_deeper_is_refused_with_its_place() {
    for (sql, place) in [
        (format!("SELECT {}", nested(1001, "(", "1", ")")), "Line: 1, Column: 1008"),
        (
            format!("SELECT 1;\nSELECT {}", nested(2000, "CASE WHEN true THEN ", "1", " END")),
            "Line: 2, Column: 20008",
        ),
        (format!("SELECT 1{}", " + 1".repeat(100_000)), "Line: 1, Column: 8010"),
        (format!("SELECT {} true", "NOT ".repeat(100_000)), "Line: 1, Column: 8008"),
    ] {
        let error = answer(sql).unwrap_err();
        assert!(error.contains("nests too deep"), "{error:.200}");
        assert!(error.contains(place), "{error:.200}");
    }
}
