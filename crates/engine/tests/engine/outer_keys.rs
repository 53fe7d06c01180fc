//! Outer joins below others whose keys may be NULL, of all kinds, beside DataFusion without our rules.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use datafusion::physical_plan::displayable;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_testkit::Random;

use crate::common::{Tables, run};

const TABLES: [&str; 4] = ["a", "b", "c", "d"];
/// Small, so that each side has rows without a partner, rows with several, and rows whose key is NULL.
const ROWS: i64 = 12;

fn tables() -> Tables {
    let tables = Tables::new();
    for (number, name) in (1..).zip(TABLES) {
        let column = |factor: i64| -> Arc<Int64Array> {
            let value = |row: i64| (row * factor + number) % 9;
            Arc::new((0..ROWS).map(|row| (value(row) != 3).then_some(value(row))).collect())
        };
        let columns = [("k", column(number), true), ("v", column(number + 4), true), ("w", column(7), true)];
        let columns =
            columns.map(|(column, values, nullable)| (format!("{name}_{column}"), values as _, nullable));
        tables.add(name, RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 5, vec![]);
    }
    tables
}

fn session(tables: &Tables) -> PeltonSession {
    tables.session(&SessionOptions {
        threads: Some(2),
        device: DeviceChoice::Cpu,
        ..SessionOptions::default()
    })
}

/// A column of one of `tables`.
fn column(tables: &[&str], random: &mut Random) -> String {
    format!("{}_{}", random.pick(tables), random.pick(&["k", "v", "w"]))
}

/// A relation of some of `names`, in brackets where it is one, and those whose columns it has.
fn relation<'a>(names: &[&'a str], random: &mut Random) -> (String, Vec<&'a str>) {
    let [first, rest @ ..] = names else { panic!("no table") };
    if rest.is_empty() {
        return ((*first).to_owned(), vec![first]);
    }
    let at = 1 + random.below(names.len() as u64 - 1) as usize;
    let (left, mut has) = relation(&names[..at], random);
    let (right, of_right) = relation(&names[at..], random);
    let kinds = [
        "JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
        "RIGHT SEMI JOIN",
    ];
    let kind = random.pick(&kinds);
    let equality = if random.one_in(10) { "IS NOT DISTINCT FROM" } else { "=" };
    let mut on = format!("{} {equality} {}", column(&has, random), column(&of_right, random));
    if random.one_in(5) {
        on += &format!(" AND {} < {}", column(&has, random), column(&of_right, random));
    }
    match *kind {
        "LEFT SEMI JOIN" | "LEFT ANTI JOIN" => {}
        "RIGHT SEMI JOIN" => has = of_right,
        _ => has.extend(of_right),
    }
    let joined = format!("({left} {kind} {right} ON {on})");
    if random.one_in(5) {
        // What is grouped has the names of its keys, as before.
        let all: Vec<String> =
            has.iter().flat_map(|name| ["k", "v", "w"].map(|column| format!("{name}_{column}"))).collect();
        let keys = all.join(", ");
        return (format!("(SELECT {keys} FROM {joined} GROUP BY {keys})"), has);
    }
    (joined, has)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_outer_joins_give_the_rows_of_the_oracle() {
    let tables = tables();
    let session = session(&tables);
    let seed = 55;
    let random = &mut Random::new(seed);
    for number in 0..300 {
        let (from, has) = relation(&TABLES[..3 + random.below(2) as usize], random);
        let sums: Vec<String> = has
            .iter()
            .flat_map(|name| ["k", "v", "w"].map(|column| format!("sum({name}_{column})")))
            .collect();
        let mut sql = format!("SELECT count(*), {} FROM {from}", sums.join(", "));
        if random.one_in(5) {
            let not = random.pick(&["NOT ", ""]);
            let own = column(&has, random);
            sql += &format!(
                " WHERE {own} {not}IN (SELECT a.a_v FROM a LEFT JOIN b ON a.a_k = b.b_k WHERE b.b_k > 1)"
            );
        }
        let (actual, _) = run(&session, &sql).await;
        assert_eq!(actual, tables.expected(&sql).await, "seed {seed}, number {number}: {sql}");
    }
}

#[tokio::test]
async fn a_key_of_the_other_side_makes_an_outer_join_an_inner_one() {
    let tables = tables();
    let session = session(&tables);
    let check = async |sql: &str, inner: bool| {
        let (actual, query) = run(&session, sql).await;
        assert_eq!(actual, tables.expected(sql).await, "{sql}");
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        let kinds = ["join_type=Left,", "join_type=Right,", "join_type=Full,"];
        assert_eq!(!kinds.iter().any(|kind| plan.contains(kind)), inner, "{sql}\n{plan}");
    };
    check("SELECT count(*) FROM a LEFT JOIN b ON a_k = b_k JOIN c ON b_v = c_v", true).await;
    check("SELECT count(*) FROM a LEFT JOIN b ON a_k = b_k JOIN c ON a_v = c_v", false).await;
    check("SELECT count(*) FROM a FULL JOIN b ON a_k = b_k, c WHERE b_v = c_v AND a_w = c_w", true).await;
    check("SELECT count(*) FROM (SELECT b_v AS x FROM a LEFT JOIN b ON a_k = b_k) t JOIN c ON x = c_v", true)
        .await;
    check(
        "SELECT count(*) FROM (SELECT b_v, sum(a_v) FROM a LEFT JOIN b ON a_k = b_k GROUP BY b_v) t JOIN c ON b_v = c_v",
        true,
    )
    .await;
    check("SELECT count(*) FROM a LEFT JOIN b ON a_k = b_k JOIN c ON b_v IS NOT DISTINCT FROM c_v", false)
        .await;
    check("SELECT count(*) FROM a LEFT JOIN b ON a_k = b_k WHERE b_v IN (SELECT c_v FROM c)", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_partner_is_of_an_anti_join() {
    let tables = tables();
    let session = session(&tables);
    let check = async |sql: &str, anti: bool| {
        let (actual, query) = run(&session, sql).await;
        assert_eq!(actual, tables.expected(sql).await, "{sql}");
        let plan = displayable(query.physical_plan().as_ref()).indent(false).to_string();
        assert_eq!(plan.contains("Anti,"), anti, "{sql}\n{plan}");
    };
    for join in ["a LEFT JOIN b", "b RIGHT JOIN a"] {
        for on in ["a_k = b_k", "a_k = b_k AND a_v < b_v", "b_k = a_k AND a_v = b_w"] {
            let of = |asked: &str| {
                format!("SELECT * FROM {join} ON {on} WHERE {asked} ORDER BY a_k, a_v, a_w, b_k, b_v, b_w")
            };
            check(&of("b_k IS NULL"), true).await;
            check(&of("b_k IS NULL AND (a_v > 2 OR b_v IS NULL) AND a_w < 6"), true).await;
            // A row of b may have NULL there.
            check(&of("b_v IS NULL AND a_k > 1"), false).await;
            check(&of("b_k IS NULL OR a_v = 1"), false).await;
            check(
                &format!("SELECT count(*), sum(b_w), sum(a_w) FROM {join} ON {on} WHERE b_k IS NULL"),
                true,
            )
            .await;
        }
    }
    // Rows of b with NULL there come too.
    check("SELECT count(*) FROM a FULL JOIN b ON a_k = b_k WHERE b_k IS NULL", false).await;
    check("SELECT count(*) FROM a LEFT JOIN b ON a_k IS NOT DISTINCT FROM b_k WHERE b_k IS NULL", false)
        .await;
    check(
        "SELECT count(*) FROM a LEFT JOIN b ON a_k = b_k JOIN c ON a_v = c_v WHERE b_k IS NULL AND c_w > 1",
        true,
    )
    .await;
}
