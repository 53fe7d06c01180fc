//! Distinct values of groups: by sets of all groups together, and apart where a limit is small.

use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, SessionOptions};

use crate::common::{Tables, integers, run};

/// Rows whose sets a quarter of 32 MiB might not hold.
const ROWS: i64 = 200_000;

fn tables() -> Tables {
    let tables = Tables::new();
    let of_rows = |value: fn(i64) -> i64| (0..ROWS).map(value).collect();
    let columns = [
        ("row", of_rows(|row| row)),
        ("few", of_rows(|row| row * 7919 % 7)),
        ("many", of_rows(|row| row * 31 % 50_021)),
        ("value", of_rows(|row| row * row % 9973)),
    ];
    tables.add("t", integers(&columns), 10_000, vec![]);
    tables
}

const CALLS: [&str; 5] = [
    "count(DISTINCT value), count(DISTINCT many)",
    "count(DISTINCT concat('text of some length ', value % 1000)), count(*), avg(row)",
    "count(DISTINCT CASE WHEN value % 3 > 0 THEN value / 4.0 END), count(DISTINCT value % 2 = 0), sum(row)",
    "count(DISTINCT few) FILTER (WHERE value > 10), count(DISTINCT concat(many, 'x')), max(value)",
    "count(DISTINCT many) FILTER (WHERE value % 3 > 0), count(DISTINCT many) FILTER (WHERE nullif(value, 5) < 9)",
];

const KEYS: [&str; 5] =
    ["few", "many", "nullif(few, 3)", "concat('key ', few)", "nullif(many % 100, 7), concat('k', few)"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_of_groups_are_those_of_the_oracle_with_and_without_a_limit() {
    let tables = tables();
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let plenty = tables.session(&options);
    let limited = tables.session(&SessionOptions { memory_limit_bytes: Some(32 << 20), ..options });
    for keys in KEYS {
        for calls in CALLS {
            let order = if keys.contains("), ") { "1, 2" } else { "1" };
            let sql = format!("SELECT {keys}, {calls} FROM t GROUP BY {keys} ORDER BY {order}");
            let expected = tables.expected(&sql).await;
            let (actual, query) = run(&plenty, &sql).await;
            assert_eq!(actual, expected, "{sql}");
            let joins = |query: &pelton_engine::Query| {
                let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
                plan.matches("Join").count()
            };
            assert_eq!(joins(&query), 0, "{sql}");
            let (actual, query) = run(&limited, &sql).await;
            assert_eq!(actual, expected, "{sql}");
            assert!(joins(&query) > 0, "{sql}");
        }
    }
    // One count, of what is no column.
    for sql in [
        "SELECT few, count(DISTINCT many) FILTER (WHERE value > 10) FROM t GROUP BY few ORDER BY few",
        "SELECT few % 3 AS k, count(DISTINCT many + 1 - 1) FROM t GROUP BY few % 3 ORDER BY k",
        "SELECT count(DISTINCT many) FILTER (WHERE value > 10), count(DISTINCT upper(concat('x', many))) FROM t",
        "SELECT count(DISTINCT many) FILTER (WHERE value > 10000) FROM t",
    ] {
        let (actual, query) = run(&limited, sql).await;
        assert_eq!(actual, tables.expected(sql).await, "{sql}");
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        let mut aggregates = plan.lines().filter(|line| line.contains("AggregateExec"));
        assert!(aggregates.all(|line| !line.contains("DISTINCT")), "{plan}");
    }
    // Nothing is split where the parts might not be of the same rows.
    for sql in [
        "SELECT few, count(DISTINCT value), count(*) FROM t GROUP BY few, random() > 2",
        "SELECT few, count(DISTINCT value), count(*) FROM t GROUP BY ROLLUP (few)",
    ] {
        let (_, query) = run(&limited, sql).await;
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        assert!(!plan.contains("Join"), "{plan}");
    }
}
