//! Random arithmetic on random tables of extremes and NULLs: kernels compute what the CPU computes, and where that is an
//! error it is one here.

use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_testkit::{Random, random_rows};

use crate::common::Tables;
use crate::{device_nodes, fallbacks, on_host};

const SEED: u64 = 29;
/// Expressions of one kernel: each kernel is a C++ compile.
const BATCH: usize = 10;

/// An answer, or that there is none.
async fn outcome(session: &PeltonSession, sql: &str) -> (Result<String, String>, bool) {
    let query = match session.query(sql).await {
        Ok(query) => query,
        Err(error) => return (Err(error.to_string()), false),
    };
    match query.collect().await {
        Ok(batches) => {
            let drawn = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
            let mut rows: Vec<&str> = drawn.lines().filter(|line| line.starts_with('|')).skip(1).collect();
            rows.sort_unstable();
            let is_on_device = !device_nodes(&query).is_empty() && fallbacks(&query).is_empty();
            (Ok(rows.join("\n")), is_on_device)
        }
        Err(error) => (Err(error.to_string()), false),
    }
}

/// Both sessions over the same rows: kernels on the host, and the CPU.
fn sessions(tables: &Tables) -> (PeltonSession, PeltonSession) {
    let on_device = tables.session(&on_host());
    (on_device, tables.session(&SessionOptions { device: DeviceChoice::Cpu, ..on_host() }))
}

/// Both give the same; gives whether the device did it alone.
async fn check((on_device, on_cpu): &(PeltonSession, PeltonSession), sql: &str) -> bool {
    let ((found, ran), (expected, _)) = (outcome(on_device, sql).await, outcome(on_cpu, sql).await);
    assert_eq!(found, expected, "seed {SEED}: {sql}");
    ran
}

/// A number: a column, a constant, or arithmetic on numbers of the same kind.
fn number(random: &mut Random, kind: Kind, depth: u32) -> String {
    if depth == 0 || random.one_in(5) {
        return match (kind, random.one_in(4)) {
            (Kind::Integer, true) => {
                random.pick(&["0", "1", "-1", "7", "2147483647", "CAST(3 AS INT)"]).to_string()
            }
            (Kind::Integer, false) => {
                random.pick(&["int", "big", "tiny", "small", "utiny", "uint", "id"]).to_string()
            }
            (Kind::Decimal, true) => {
                random.pick(&["0.01", "1.5", "100.00", "-3.25", "12345678.9"]).to_string()
            }
            (Kind::Decimal, false) => random.pick(&["price", "huge"]).to_string(),
            (Kind::Double, true) => random.pick(&["0e0", "-0e0", "1.5e0", "1e300"]).to_string(),
            (Kind::Double, false) => "double".to_string(),
        };
    }
    let part = |random: &mut Random| number(random, kind, depth - 1);
    match random.below(if kind == Kind::Integer { 10 } else { 8 }) {
        0 | 1 => format!("({} + {})", part(random), part(random)),
        2 | 3 => format!("({} - {})", part(random), part(random)),
        4 => format!("({} * {})", part(random), part(random)),
        5 => format!("(-({}))", part(random)),
        6 => {
            let test = format!("{} > {}", part(random), part(random));
            format!("(CASE WHEN {test} THEN {} WHEN flag THEN {} END)", part(random), part(random))
        }
        7 if kind == Kind::Double => format!("({} / {})", part(random), part(random)),
        7 => format!("abs({})", part(random)),
        8 => format!("CAST({} AS {})", part(random), random.pick(&["SMALLINT", "INT", "BIGINT"])),
        _ => format!("({} {} {})", part(random), random.pick(&["/", "%"]), part(random)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Decimal,
    Double,
}

/// Rows whose numbers are small enough for most arithmetic beside those with the ends of their types.
fn tables() -> Tables {
    let tables = Tables::new();
    tables.add("t", random_rows(SEED, 1500), 1000, vec![]);
    tables
}

/// Row by row, so that one overflow does not hide the others: constants of a range filter are arguments of a kernel,
/// and each batch of expressions is compiled once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_arithmetic_gives_the_numbers_of_the_cpu_or_its_errors() {
    let tables = tables();
    let sessions = sessions(&tables);
    let mut random = Random::new(SEED);
    let (mut on_device, mut checked) = (0, 0);
    for kind in [Kind::Integer, Kind::Integer, Kind::Decimal, Kind::Double] {
        for _ in 0..2 {
            let numbers: Vec<String> = (0..BATCH).map(|_| number(&mut random, kind, 2)).collect();
            for _ in 0..25 {
                let row = random.below(1500);
                let sql = format!("SELECT {} FROM t WHERE id = {row}", aliased(&numbers));
                on_device += usize::from(check(&sessions, &sql).await);
                checked += 1;
            }
            for one in numbers.iter().take(3) {
                // Sums of doubles depend on the order of rows.
                let sum = if kind == Kind::Double { "count" } else { "sum" };
                let sql = format!(
                    "SELECT flag, count(*), {sum}({one}) FROM t WHERE id < 40 AND ({one}) > 3 GROUP BY flag"
                );
                on_device += usize::from(check(&sessions, &sql).await);
                checked += 1;
            }
        }
    }
    assert!(on_device * 3 >= checked, "only {on_device} of {checked} ran on the device");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubles_compare_as_on_the_cpu_zeros_and_nans_too() {
    use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
    use std::sync::Arc;
    let doubles =
        vec![Some(0.0), Some(-0.0), None, Some(f64::NAN), Some(-f64::NAN), Some(f64::INFINITY), Some(-1.5)];
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..doubles.len() as i64));
    let doubles: ArrayRef = Arc::new(Float64Array::from(doubles));
    let rows = RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("d", doubles, true)]).unwrap();
    let tables = Tables::new();
    tables.add("t", rows, 1000, vec![]);
    let sessions = sessions(&tables);
    for (condition, expected) in [
        ("d = 0.0e0", vec![0, 1]),
        ("d = -0.0e0", vec![0, 1]),
        ("d IN (-0.0e0, 7e0)", vec![0, 1]),
        ("d IN (5e0, 6e0, 7e0, 8e0, -0.0e0)", vec![0, 1]),
        ("d NOT IN (5e0, 6e0, 7e0, 8e0, 0.0e0)", vec![3, 4, 5, 6]),
        ("CASE d WHEN 0.0e0 THEN true ELSE false END", vec![0, 1]),
        ("d = CAST('NaN' AS DOUBLE)", vec![3, 4]),
        ("d > 1e300", vec![3, 4, 5]),
        ("d < 0.0e0", vec![6]),
        ("d >= -0.0e0", vec![0, 1, 3, 4, 5]),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        let (found, ran) = outcome(&sessions.0, &sql).await;
        let expected: Vec<String> = expected.iter().map(|id| format!("| {id}  |")).collect();
        assert_eq!(found, Ok(expected.join("\n")), "{condition}");
        assert!(ran, "{condition}");
    }
}

/// Texts that are no numbers, in rows that a condition leaves out: the dictionary has them all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_no_row_asks_about_is_no_error() {
    use arrow::array::{ArrayRef, RecordBatch, StringArray};
    use std::sync::Arc;
    let words: ArrayRef = Arc::new(StringArray::from(vec!["12", "x", "30", "12"]));
    let tables = Tables::new();
    tables.add("t", RecordBatch::try_from_iter([("word", words)]).unwrap(), 1000, vec![]);
    let sql = "SELECT word, sum(CASE WHEN word <> 'x' THEN CAST(word AS INT) END) FROM t GROUP BY word";
    check(&sessions(&tables), sql).await;
}

fn aliased(numbers: &[String]) -> String {
    let named = numbers.iter().enumerate().map(|(number, one)| format!("{one} AS c{number}"));
    named.collect::<Vec<_>>().join(", ")
}
