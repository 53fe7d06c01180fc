//! Estimates of joins with small tables, whose filters are tried while a query is planned.

use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::{Tables, integers, run};

const DAYS: i64 = 73_000;
const SALES: i64 = 20_000;

/// A calendar of 200 years, and sales of five of them, 200 days of which are those of the first 200 keys.
fn tables() -> Tables {
    let tables = Tables::new();
    let years: Vec<i32> = (0..DAYS).map(|day| 1900 + (day / 365) as i32).collect();
    let months: Vec<i32> = (0..DAYS).map(|day| 1 + (day % 365 / 31) as i32).collect();
    let names: Vec<String> = (0..DAYS).map(|day| format!("day {}", day % 7)).collect();
    let days: Vec<i32> = (0..DAYS as i32).collect();
    let rows = RecordBatch::try_from_iter([
        ("day", Arc::new(Int32Array::from(days)) as _),
        ("year", Arc::new(Int32Array::from(years)) as _),
        ("month", Arc::new(Int32Array::from(months)) as _),
        ("name", Arc::new(StringArray::from(names)) as _),
    ]);
    tables.add("calendar", rows.unwrap(), 1 << 17, vec![]);
    let sold = (0..SALES).map(|row| 36_500 + row * 31 % 1825).collect();
    let sales = integers(&[("sold", sold), ("amount", (0..SALES).collect())]);
    tables.add("sales", sales, 1 << 16, vec![]);
    tables
}

/// Joins are ours where they build tables of at least `table_rows_min` rows.
fn session(tables: &Tables, table_rows_min: usize) -> PeltonSession {
    tables.session(&SessionOptions {
        threads: Some(2),
        device: DeviceChoice::Cpu,
        table_rows_min,
        ..SessionOptions::default()
    })
}

/// The rows that the join of `sql` is expected to give.
async fn estimate(session: &PeltonSession, sql: &str) -> i64 {
    let (plan, _) = run(session, &format!("EXPLAIN {sql}")).await;
    let join = plan.lines().find(|line| line.contains("JoinExec")).unwrap_or_else(|| panic!("{plan}"));
    let (_, rows) = join.split_once("rows est=").unwrap_or_else(|| panic!("{join}"));
    rows.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn joins_with_part_of_a_small_table_are_estimated_by_its_keys() {
    let tables = tables();
    // DataFusion's joins, and ours.
    let sessions = [usize::MAX, 1].map(|table_rows_min| session(&tables, table_rows_min));
    let filters = [
        "year = 2001",
        "year = 2001 AND month = 2",
        "month = 11",
        "name = 'day 3'",
        "name LIKE '%5'",
        "year < 1990",
    ];
    for filter in filters {
        let from = format!("FROM sales JOIN calendar ON sold = day WHERE {filter}");
        let (counted, _) = run(&sessions[0], &format!("SELECT count(*) AS c {from}")).await;
        let counted: i64 =
            counted.split(|c: char| !c.is_ascii_digit()).find_map(|part| part.parse().ok()).unwrap();
        let (most, least) = (counted * 3 / 2 + 20, counted * 2 / 3 - 20);
        for session in &sessions {
            let estimated = estimate(session, &format!("SELECT * {from}")).await;
            assert!((least..=most).contains(&estimated), "{filter}: {estimated} for {counted}");
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_filter_is_said_by_the_query() {
    let tables = tables();
    let session = session(&tables, usize::MAX);
    let sql = "SELECT count(*) FROM sales JOIN calendar ON sold = day WHERE 10 / (month - 5) > 0";
    let message = match session.query(sql).await {
        Ok(query) => query.collect().await.expect_err("a month is 5").to_string(),
        Err(error) => error.to_string(),
    };
    assert!(message.to_lowercase().contains("divide by zero"), "{message}");
    // And damage by whoever reads the table.
    tables.damage("calendar");
    let query =
        session.query("SELECT count(*) FROM sales JOIN calendar ON sold = day WHERE year = 2001").await;
    let message = match query {
        Ok(query) => query.collect().await.expect_err("damaged").to_string(),
        Err(error) => error.to_string(),
    };
    assert!(message.contains("calendar"), "{message}");
}

#[tokio::test]
async fn rows_without_a_partner_are_expected_of_outer_joins() {
    let tables = tables();
    let session = session(&tables, usize::MAX);
    // Hardly any day has a sale.
    let sql = "SELECT day, amount FROM calendar LEFT JOIN sales ON sold = day WHERE amount IS NULL";
    let (plan, _) = run(&session, &format!("EXPLAIN {sql}")).await;
    let filter = plan.lines().find(|line| line.contains("FilterExec")).unwrap_or_else(|| panic!("{plan}"));
    let (_, rows) = filter.split_once("rows est=").unwrap();
    let rows: i64 = rows.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    assert!((50_000..100_000).contains(&rows), "{rows}\n{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn planning_counts_as_often_as_a_statement_has_filters() {
    let tables = tables();
    let session = session(&tables, usize::MAX);
    // More than a task may do before its runtime asks it to stop for a moment, and more than are kept.
    let branches: Vec<String> =
        (0..200).map(|n| format!("SELECT count(*) AS c FROM calendar WHERE day % 200 = {n}")).collect();
    let sql = format!("SELECT count(*), sum(c) FROM ({})", branches.join(" UNION ALL "));
    let (answer, _) = run(&session, &sql).await;
    assert!(answer.contains("| 200      | 73000  |"), "{answer}");
}
