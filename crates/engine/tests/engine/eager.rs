//! Groups below joins that add texts to them: beside DataFusion without our rules.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_testkit::Random;

use crate::common::{Tables, run};

/// Keys of customers; some of them twice, so that what is bought counts twice, and some have no customer.
const CUSTOMERS: i64 = 60;
const SALES: i64 = 3000;

fn rows_of(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn tables() -> Tables {
    let tables = Tables::new();
    let mut random = Random::new(7);
    let mut maybe = |nth: u64, value: i64| (random.below(nth) != 0).then_some(value);
    let customers = CUSTOMERS + CUSTOMERS / 10;
    let key = |row: i64| row % CUSTOMERS * 2;
    let texts = |values: Vec<Option<i64>>| -> ArrayRef {
        Arc::new(
            values.into_iter().map(|v| v.map(|v| format!("a text, number {v}"))).collect::<StringArray>(),
        )
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new((0..customers).map(|row| maybe(20, key(row))).collect::<Int64Array>())),
        ("name", texts((0..customers).map(|row| maybe(9, row % 50)).collect())),
        ("city", texts((0..customers).map(|row| maybe(9, row % 7)).collect())),
        ("nation", Arc::new((0..customers).map(|row| maybe(9, row % 4)).collect::<Int64Array>())),
    ];
    tables.add("customer", rows_of(columns), 64, vec![]);
    let nations = vec![
        ("n", Arc::new(Int64Array::from(vec![0, 1, 2])) as ArrayRef),
        ("nation_name", Arc::new(StringArray::from(vec!["here", "there", "elsewhere"]))),
    ];
    tables.add("nation", rows_of(nations), 64, vec![]);
    let mut number = |below: u64| random.below(below) as i64;
    let amounts = (0..SALES).map(|_| Some(i128::from(number(2000)) - 700)).collect::<Decimal128Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "c",
            Arc::new((0..SALES).map(|row| (row % 31 != 0).then_some(row / 9 % 130)).collect::<Int64Array>()),
        ),
        ("year", Arc::new((0..SALES).map(|row| Some((row / 500) as i32)).collect::<Int32Array>())),
        ("amount", Arc::new(amounts.with_precision_and_scale(7, 2).unwrap())),
        ("items", Arc::new((0..SALES).map(|_| Some(number(9) as i32)).collect::<Int32Array>())),
        ("many", Arc::new((0..SALES).map(|_| Some(number(9))).collect::<Int64Array>())),
        // Sums of these are exact in any order.
        ("share", Arc::new((0..SALES).map(|_| Some(number(64) as f64 / 8.0)).collect::<Float64Array>())),
        ("kind", texts((0..SALES).map(|row| Some(row % 3)).collect())),
    ];
    tables.add("sales", rows_of(columns), 256, vec![]);
    tables
}

fn session(tables: &Tables) -> PeltonSession {
    // Of so few rows groups are not worth being made early otherwise.
    tables.session(&SessionOptions {
        threads: Some(2),
        device: DeviceChoice::Cpu,
        table_rows_min: 1,
        ..SessionOptions::default()
    })
}

/// Checks the answer of `sql`; whether it has groups below a join.
async fn is_eager(tables: &Tables, session: &PeltonSession, sql: &str) -> bool {
    let (actual, query) = run(session, sql).await;
    assert_eq!(actual, tables.expected(sql).await, "{sql}");
    let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
    let is_reduced = plan.contains("mode=PartialReduce");
    assert_eq!(plan.matches("mode=Partial,").count(), 1, "{sql}\n{plan}");
    is_reduced
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_made_before_texts_join_them() {
    let tables = tables();
    let session = session(&tables);
    let of = |calls: &str, by: &str, filter: &str| {
        format!(
            "SELECT {by}, {calls} FROM sales JOIN customer ON c = k {filter} GROUP BY {by} ORDER BY {by}, 3, 4"
        )
    };
    let all = "sum(amount), count(*), count(items), avg(amount), min(many), max(kind), sum(items), sum(share), \
               avg(share), sum(amount) FILTER (WHERE items > 3), sum(amount * 2 - items)";
    for sql in [
        of(all, "name, city, year", ""),
        of(all, "city, name", "WHERE year > 1 AND nation <> 2"),
        of("count(*), count(items)", "name, upper(city), year + nation", ""),
        "SELECT name, nation_name, city, sum(amount), count(*) FROM sales JOIN customer ON c = k \
         JOIN nation ON nation = n GROUP BY name, nation_name, city ORDER BY 1, 2, 3"
            .to_owned(),
        "SELECT s.name, s.city, sum(s.twice), count(*) FROM (SELECT name, city, amount * 2 AS twice \
         FROM sales JOIN customer ON c = k) s GROUP BY s.name, s.city ORDER BY 1, 2"
            .to_owned(),
    ] {
        assert!(is_eager(&tables, &session, &sql).await, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_fail_or_is_no_sum_of_parts_waits_for_the_join() {
    let tables = tables();
    let session = session(&tables);
    let of = |call: &str, by: &str| {
        format!("SELECT {by}, {call} FROM sales JOIN customer ON c = k GROUP BY {by} ORDER BY {by}")
    };
    for sql in [
        // Sums of 64 bits may be too large, also where no customer has them.
        of("sum(many)", "name, city"),
        of("max(amount / (items + 1))", "name, city"),
        of("sum(length(city))", "name, city"),
        of("sum(amount)", "name, city, share"),
        of("sum(amount)", "name, city, kind"),
        of("sum(amount)", "name, year"),
    ] {
        assert!(!is_eager(&tables, &session, &sql).await, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_groupings_equal_those_without_rules() {
    let tables = tables();
    let session = session(&tables);
    let mut random = Random::new(11);
    let calls =
        ["sum(amount)", "count(*)", "avg(amount)", "min(kind)", "max(amount)", "sum(share)", "avg(items)"];
    let keys = ["name", "city", "year", "c", "nation", "nation_name", "items", "k"];
    let filters =
        ["year < 4", "items <> 2", "nation > 0", "city LIKE '%3'", "amount > 0", "k < 90", "c > 20"];
    let mut eager = 0;
    for _ in 0..60 {
        let pick = |random: &mut Random, of: &[&str], most: u64| -> Vec<String> {
            let mut picked: Vec<String> = Vec::new();
            for _ in 0..=random.below(most) {
                let one = of[random.below(of.len() as u64) as usize].to_owned();
                if !picked.contains(&one) {
                    picked.push(one);
                }
            }
            picked
        };
        let mut by = pick(&mut random, &keys, 3);
        by.extend(
            ["name", "city"]
                .map(str::to_owned)
                .into_iter()
                .filter(|key| !by.contains(key))
                .collect::<Vec<_>>(),
        );
        let (by, calls) = (by.join(", "), pick(&mut random, &calls, 3).join(", "));
        let filters = pick(&mut random, &filters, 2).join(" AND ");
        let nation = if by.contains("nation_name") { "JOIN nation ON nation = n" } else { "" };
        let sql = format!(
            "SELECT {by}, {calls} FROM sales JOIN customer ON c = k {nation} WHERE {filters} GROUP BY {by} ORDER BY {by}"
        );
        eager += usize::from(is_eager(&tables, &session, &sql).await);
    }
    assert!(eager > 30, "{eager} of 60");
}
