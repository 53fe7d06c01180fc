//! Conditions have the truth value that SQL gives them, whatever the optimizer makes of them: each row of a table of all
//! combinations of values is compared with an evaluation that is written out here.

#![allow(clippy::type_complexity, clippy::manual_try_fold)] // tables of tests; folds over values that may be NULL

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_testkit::Random;

use crate::common::Tables;

/// TRUE, FALSE or NULL.
type Truth = Option<bool>;

/// Columns x, y, z (integers, z never NULL) and b of one row.
#[derive(Debug, Clone, Copy)]
struct Row {
    numbers: [Option<i64>; 3],
    flag: Truth,
}

fn rows() -> Vec<Row> {
    let values = [None, Some(1), Some(2), Some(3), Some(4)];
    let mut rows = Vec::new();
    for x in values {
        for y in values {
            for flag in [None, Some(false), Some(true)] {
                rows.push(Row { numbers: [x, y, Some(1 + rows.len() as i64 % 4)], flag });
            }
        }
    }
    rows
}

fn table() -> (Tables, PeltonSession) {
    let rows = rows();
    let numbers = |of: usize| Int64Array::from_iter(rows.iter().map(|row| row.numbers[of]));
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("id", std::sync::Arc::new(Int64Array::from_iter_values(0..rows.len() as i64)), false),
        ("x", std::sync::Arc::new(numbers(0)), true),
        ("y", std::sync::Arc::new(numbers(1)), true),
        ("z", std::sync::Arc::new(numbers(2)), false),
        ("b", std::sync::Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.flag))), true),
    ];
    let tables = Tables::new();
    tables.add("t", RecordBatch::try_from_iter_with_nullable(columns).unwrap(), 8, vec![]);
    let session = tables.session(&SessionOptions { threads: Some(2), ..SessionOptions::default() });
    (tables, session)
}

/// A condition as text, and what it is for a row.
struct Condition {
    text: String,
    value: Box<dyn Fn(Row) -> Truth>,
}

/// A number as text, and what it is for a row.
struct Number {
    text: String,
    value: Box<dyn Fn(Row) -> Option<i64>>,
}

fn condition(text: String, value: impl Fn(Row) -> Truth + 'static) -> Condition {
    Condition { text, value: Box::new(value) }
}

fn and(a: Truth, b: Truth) -> Truth {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Truth, b: Truth) -> Truth {
    not(and(not(a), not(b)))
}

fn not(a: Truth) -> Truth {
    a.map(|a| !a)
}

fn equal(a: Option<i64>, b: Option<i64>) -> Truth {
    Some(a? == b?)
}

fn column(random: &mut Random) -> Number {
    // x most of all: the optimizer joins conditions on one column.
    let at = [0, 0, 0, 1, 2][random.below(5) as usize];
    Number { text: ["x", "y", "z"][at].into(), value: Box::new(move |row| row.numbers[at]) }
}

fn constant(random: &mut Random) -> Number {
    let value = (!random.one_in(6)).then(|| 1 + random.below(5) as i64);
    Number { text: value.map_or("NULL".into(), |value| value.to_string()), value: Box::new(move |_| value) }
}

fn tree(random: &mut Random, depth: u32) -> Condition {
    if depth == 0 || random.one_in(6) {
        return leaf(random);
    }
    let a = tree(random, depth - 1);
    match random.below(13) {
        0..=3 => {
            let b = tree(random, depth - 1);
            condition(format!("({} AND {})", a.text, b.text), move |row| and((a.value)(row), (b.value)(row)))
        }
        4..=7 => {
            let b = tree(random, depth - 1);
            condition(format!("({} OR {})", a.text, b.text), move |row| or((a.value)(row), (b.value)(row)))
        }
        8 | 9 => condition(format!("(NOT {})", a.text), move |row| not((a.value)(row))),
        10 => {
            let tests: [(&str, fn(Truth) -> bool); 6] = [
                ("TRUE", |a| a == Some(true)),
                ("NOT TRUE", |a| a != Some(true)),
                ("FALSE", |a| a == Some(false)),
                ("NOT FALSE", |a| a != Some(false)),
                ("UNKNOWN", |a| a.is_none()),
                ("NOT NULL", |a| a.is_some()),
            ];
            let (text, test) = tests[random.below(6) as usize];
            condition(format!("({} IS {text})", a.text), move |row| Some(test((a.value)(row))))
        }
        11 => {
            let b = tree(random, depth - 1);
            let is_not = random.one_in(2);
            let text = if is_not { "NOT " } else { "" };
            condition(format!("({} IS {text}DISTINCT FROM {})", a.text, b.text), move |row| {
                Some(((a.value)(row) == (b.value)(row)) == is_not)
            })
        }
        _ => {
            let (b, c) = (tree(random, depth - 1), tree(random, depth - 1));
            let text = format!("(CASE WHEN {} THEN {} ELSE {} END)", a.text, b.text, c.text);
            condition(
                text,
                move |row| if (a.value)(row) == Some(true) { (b.value)(row) } else { (c.value)(row) },
            )
        }
    }
}

fn leaf(random: &mut Random) -> Condition {
    let a = column(random);
    match random.below(10) {
        0..=4 => {
            let item = |random: &mut Random| match random.one_in(8) {
                true => column(random),
                false => constant(random),
            };
            let items: Vec<Number> = (0..1 + random.below(6)).map(|_| item(random)).collect();
            let is_not = random.one_in(2);
            let texts: Vec<&str> = items.iter().map(|item| item.text.as_str()).collect();
            let text = format!("({} {}IN ({}))", a.text, if is_not { "NOT " } else { "" }, texts.join(", "));
            condition(text, move |row| {
                let found = items
                    .iter()
                    .fold(Some(false), |found, item| or(found, equal((a.value)(row), (item.value)(row))));
                if is_not { not(found) } else { found }
            })
        }
        5..=7 => {
            let b = if random.one_in(4) { column(random) } else { constant(random) };
            let tests: [(&str, fn(i64, i64) -> bool); 4] =
                [("=", |a, b| a == b), ("<>", |a, b| a != b), ("<", |a, b| a < b), (">=", |a, b| a >= b)];
            let (op, test) = tests[random.below(4) as usize];
            condition(format!("({} {op} {})", a.text, b.text), move |row| {
                Some(test((a.value)(row)?, (b.value)(row)?))
            })
        }
        8 => condition("b".into(), |row| row.flag),
        _ => {
            let value = [None, Some(true), Some(false)][random.below(3) as usize];
            let text = value.map_or("CAST(NULL AS BOOLEAN)".into(), |value: bool| value.to_string());
            condition(text, move |_| value)
        }
    }
}

async fn truths(session: &PeltonSession, condition: &str) -> Vec<Truth> {
    let sql = format!("SELECT {condition} AS c FROM t ORDER BY id");
    let batches = session.query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = batches.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let columns = batches.iter().map(|batch| batch.column(0));
    let truths = columns.flat_map(|column| match column.as_boolean_opt() {
        Some(values) => values.iter().collect::<Vec<_>>(),
        None => vec![None; column.len()],
    });
    truths.collect()
}

async fn passing(session: &PeltonSession, condition: &str) -> Vec<i64> {
    let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
    let batches = session.query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let batches = batches.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

async fn check(session: &PeltonSession, text: &str, expected: &[Truth]) {
    assert_eq!(truths(session, text).await, expected, "SELECT {text}");
    let ids = |wanted| {
        let rows = expected.iter().enumerate().filter(|(_, truth)| **truth == Some(wanted));
        rows.map(|(id, _)| id as i64).collect::<Vec<_>>()
    };
    assert_eq!(passing(session, text).await, ids(true), "WHERE {text}");
    assert_eq!(passing(session, &format!("NOT {text}")).await, ids(false), "WHERE NOT {text}");
}

#[tokio::test]
async fn random_conditions_have_the_value_of_three_valued_logic() {
    let (_tables, session) = table();
    let rows = rows();
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let tree = tree(&mut random, 3);
        let expected: Vec<Truth> = rows.iter().map(|row| (tree.value)(*row)).collect();
        check(&session, &tree.text, &expected).await;
    }
}

#[tokio::test]
async fn lists_of_one_column_are_no_sets() {
    let (_tables, session) = table();
    let lists =
        ["(1, 2)", "(3, 4)", "(2, 3, 4, 5)", "(1, 2, 3, 4)", "(1, NULL)", "(5, 6, 7, NULL)", "(3)", "(y, 1)"];
    let is_in = |row: Row, list: &str| {
        let items = list.trim_matches(['(', ')']).split(", ");
        items.fold(Some(false), |found, item| {
            let item = if item == "y" { row.numbers[1] } else { item.parse().ok() };
            or(found, equal(row.numbers[0], item))
        })
    };
    for a in lists {
        for b in lists {
            for (is_not_a, is_not_b) in [(false, false), (false, true), (true, false), (true, true)] {
                let word = |is_not| if is_not { "NOT IN" } else { "IN" };
                let value =
                    |row, list, is_not: bool| if is_not { not(is_in(row, list)) } else { is_in(row, list) };
                for (op, join) in [("AND", and as fn(Truth, Truth) -> Truth), ("OR", or)] {
                    let text = format!("(x {} {a} {op} x {} {b})", word(is_not_a), word(is_not_b));
                    let expected: Vec<Truth> = rows()
                        .into_iter()
                        .map(|row| join(value(row, a, is_not_a), value(row, b, is_not_b)))
                        .collect();
                    check(&session, &text, &expected).await;
                }
            }
        }
    }
}
