//! Parts, units and intervals of dates and timestamps: what kernels compute is what Arrow computes.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int64Array, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use datafusion::physical_plan::displayable;
use pelton_testkit::Random;

use crate::common::{Tables, run};
use crate::{assert_same_rows, fallbacks, on_host};

/// Days between 1833 and 2106; ends of months and years and both sides of 1970 among them.
fn days(random: &mut Random) -> Vec<i32> {
    let edges = [-50_000, -25_567, -25_508, -1, 0, 58, 59, 60, 10_956, 10_957, 11_016, 11_017, 50_000];
    let some = (0..900).map(|_| random.below(100_000) as i32 - 50_000);
    let a_leap_year = (0..366).map(|day| 18_262 + day);
    edges.into_iter().chain(some).chain(a_leap_year).collect()
}

fn tables() -> Tables {
    let mut random = Random::new(7);
    let days = days(&mut random);
    let seconds: Vec<Option<i64>> = days
        .iter()
        .map(|day| {
            let second = *random.pick(&[0, 1, 86_399, 3_600, 59, 60, 45_296]);
            (!random.one_in(12)).then_some(i64::from(*day) * 86_400 + second)
        })
        .collect();
    let mut instants = |a_second: i64| -> Vec<Option<i64>> {
        let of = |second: &Option<i64>| {
            let within = random.below(a_second as u64) as i64;
            second.map(|second| second * a_second + within)
        };
        seconds.iter().map(of).collect()
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..days.len() as i64))),
        ("day", Arc::new(Date32Array::from(days.clone()))),
        ("s", Arc::new(TimestampSecondArray::from(instants(1)))),
        ("ms", Arc::new(TimestampMillisecondArray::from(instants(1_000)))),
        ("us", Arc::new(TimestampMicrosecondArray::from(instants(1_000_000)))),
        ("ns", Arc::new(TimestampNanosecondArray::from(instants(1_000_000_000)))),
        ("utc", Arc::new(TimestampMicrosecondArray::from(instants(1_000_000)).with_timezone("UTC"))),
        ("berlin", Arc::new(TimestampMillisecondArray::from(instants(1_000)).with_timezone("Europe/Berlin"))),
        (
            "late",
            Arc::new(TimestampSecondArray::from_iter_values(days.iter().map(|day| i64::from(*day) << 28))),
        ),
    ];
    let tables = Tables::new();
    let rows = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    tables.add("t", rows.unwrap(), 512, vec![]);
    tables
}

/// The value of each expression in each row is the oracle's; `is_on_device`: kernels compute them, to the end.
async fn check(expressions: &[String], is_on_device: bool) {
    let tables = tables();
    let session = tables.session(&on_host());
    // A row is a group of its own.
    let value = |expression: &String| match expression.contains("epoch") {
        true => format!("sum({expression})"),
        false => format!("max({expression})"),
    };
    let values: Vec<String> = expressions.iter().map(value).collect();
    for values in values.chunks(if is_on_device { 8 } else { 1 }) {
        let sql = format!("SELECT id, {} FROM t WHERE id > 2 GROUP BY id", values.join(", "));
        let (actual, query) = run(&session, &sql).await;
        assert_same_rows(&actual, &tables.expected(&sql).await, &sql);
        assert!(fallbacks(&query).is_empty(), "{sql}: {:?}", fallbacks(&query));
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        assert_eq!(!plan.contains("AggregateExec"), is_on_device, "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_those_of_arrow() {
    let of_days = ["year", "isoyear", "quarter", "month", "week", "day", "doy", "dow", "isodow", "epoch"];
    let of_times = ["hour", "minute", "second", "millisecond", "microsecond"];
    let mut expressions = Vec::new();
    for column in ["day", "s", "ms", "us", "ns", "utc"] {
        let parts = of_days.iter().chain(if column == "day" { [].iter() } else { of_times.iter() });
        expressions.extend(parts.map(|part| format!("date_part('{part}', {column})")));
    }
    check(&expressions, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_are_cut_off_as_by_datafusion() {
    let units =
        ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];
    let mut expressions = vec!["date_trunc('minute', berlin)".to_owned()];
    for column in ["s", "ms", "us", "ns", "utc"] {
        expressions.extend(units.iter().map(|unit| format!("date_trunc('{unit}', {column})")));
    }
    check(&expressions, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn intervals_casts_and_differences_are_those_of_arrow() {
    let mut expressions: Vec<String> = Vec::new();
    for interval in ["1 month", "-13 months", "1 year 2 months 3 days", "90 days"] {
        expressions
            .extend(["day", "s", "us", "utc"].map(|column| format!("{column} + INTERVAL '{interval}'")));
        expressions.extend(["day", "ms", "utc"].map(|column| format!("{column} - INTERVAL '{interval}'")));
    }
    let others = [
        "us + INTERVAL '1 day 2 hours 3 minutes 4.000005 seconds'",
        "ms - INTERVAL '36 hours'",
        "CAST(us AS DATE)",
        "CAST(utc AS DATE)",
        "CAST(ns AS DATE)",
        "CAST(day AS TIMESTAMP(0))",
        "CAST(ms AS TIMESTAMP(6))",
        "us - arrow_cast(day, 'Timestamp(Microsecond, None)')",
    ];
    expressions.extend(others.map(str::to_owned));
    check(&expressions, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_zones_and_far_years_change_stays_on_the_cpu() {
    let expressions = [
        "date_trunc('day', berlin)",
        "date_part('hour', berlin)",
        "CAST(berlin AS DATE)",
        "berlin + INTERVAL '1 hour'",
        "date_part('year', late)",
        "CAST(us AS TIMESTAMP(3))",
        "us + INTERVAL '1 nanosecond'",
    ];
    check(&expressions.map(str::to_owned), false).await;
}
