//! Tables over keys of all kinds, beside a map of the standard library.

use std::collections::HashMap;

use datafusion::arrow::array::Int64Array;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::physical_expr::expressions::Column;

use super::super::slots::mixed;
use super::*;

type Keys = Vec<[Option<i64>; 2]>;

/// Two keys a row in batches of 1000.
fn build(rows: &Keys, key_count: usize, threads: usize) -> Build {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
    ]));
    let column = |rows: &[[Option<i64>; 2]], key: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row[key]).collect::<Int64Array>())
    };
    let batches = rows.chunks(1000).map(|rows| {
        RecordBatch::try_new(Arc::clone(&schema), vec![column(rows, 0), column(rows, 1)]).unwrap()
    });
    Build {
        batches: Arc::new(batches.collect()),
        keys: (0..key_count).map(|key| Arc::new(Column::new("", key)) as _).collect(),
        wanted: vec![true, false],
        wants_filter: true,
        threads,
        schema,
    }
}

fn run(build: Build) -> Option<Table> {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    threads.block_on(build.run()).unwrap()
}

/// Every key finds its rows, in their order, and passes the filter; others find none.
fn check(rows: &Keys, key_count: usize, threads: usize) -> Table {
    let table = run(build(rows, key_count, threads)).unwrap();
    let mut of_keys: HashMap<Vec<i64>, Vec<u32>> = HashMap::new();
    for (row, keys) in rows.iter().enumerate() {
        if let Some(keys) = keys[..key_count].iter().copied().collect::<Option<Vec<i64>>>() {
            of_keys.entry(keys).or_default().push(row as u32);
        }
    }
    let of_key = |key: usize| Arc::new(rows.iter().map(|row| row[key]).collect::<Int64Array>()) as ArrayRef;
    let keys: Vec<ArrayRef> = (0..key_count).map(of_key).collect();
    let first = table.first_rows(&keys).unwrap();
    let may_match = table.words().may_match(&keys).unwrap();
    for (row, keys) in rows.iter().enumerate() {
        let keys: Option<Vec<i64>> = keys[..key_count].iter().copied().collect();
        let (mut found, mut next) = (Vec::new(), first[row]);
        while next != 0 {
            found.push(next - 1);
            next = if table.is_unique() { 0 } else { table.next_row(next - 1) };
        }
        assert_eq!(Some(&found), keys.as_ref().map_or(Some(&Vec::new()), |keys| of_keys.get(keys)));
        assert_eq!(may_match.value(row), keys.is_some());
    }
    assert_eq!(table.is_unique(), of_keys.values().all(|rows| rows.len() == 1));
    assert_eq!(table.column(0).unwrap().as_ref(), of_key(0).as_ref());
    assert!(table.column(1).is_err());
    table
}

fn numbers(count: usize, key: impl Fn(i64) -> [Option<i64>; 2]) -> Keys {
    (0..count as i64).map(key).collect()
}

#[test]
fn keys_find_their_rows() {
    for count in [0, 1, 999, 40_000, 70_000] {
        for threads in [1, 3] {
            let dense = numbers(count, |row| [Some(row * 7 % 100_003 - 5), Some(row % 3)]);
            check(&dense, 1, threads);
            check(&dense, 2, threads);
            let ranked = numbers(count, |row| [Some(row / 2 * 37 - 1000), Some(row % 2)]);
            check(&ranked, 1, threads);
            check(&ranked, 2, threads);
            let sparse = numbers(count, |row| [Some(row.wrapping_mul(0x1234_5678_9abc)), None]);
            check(&sparse, 1, threads);
            check(&sparse, 2, threads);
            let repeated = numbers(count, |row| [(row % 11 != 0).then_some(row / 3), Some(-row % 100)]);
            check(&repeated, 1, threads);
            check(&repeated, 2, threads);
        }
    }
}

#[test]
fn a_key_may_have_all_rows() {
    let table = run(build(&numbers(200_000, |_| [Some(i64::MIN), None]), 1, 3)).unwrap();
    let key: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN]));
    let mut next = table.first_rows(&[key]).unwrap()[0];
    for row in 0..200_000 {
        assert_eq!(next, row + 1);
        next = table.next_row(row);
    }
    assert_eq!(next, 0);
}

#[test]
fn few_others_pass_the_filter() {
    let sparse = numbers(100_000, |row| [Some(row * 1_000_003), None]);
    let table = check(&sparse, 1, 2);
    let others: ArrayRef = Arc::new((0..100_000).map(|row| row * 1_000_003 + 7).collect::<Int64Array>());
    let passed = table.words().may_match(&[Arc::clone(&others)]).unwrap().true_count();
    assert!(passed < 5_000, "{passed}");
    assert!(table.first_rows(&[others]).unwrap().iter().all(|first| *first == 0));
}

#[test]
fn a_region_with_too_many_words_gets_more_slots() {
    // Words whose hashes all begin alike.
    let of_region = (0..i64::MAX).filter(|word| mixed(*word as u64) >> 62 == 0);
    let mut rows: Keys = of_region.take(100_000).map(|word| [Some(word), None]).collect();
    rows.push([Some(0), None]);
    rows.push([Some(1 << 60), None]);
    check(&rows, 1, 3);
}

#[test]
fn keys_that_are_no_words_make_no_table() {
    let wide = numbers(10, |row| [Some(row << 58), Some(row << 58)]);
    assert!(run(build(&wide, 2, 1)).is_none());
    check(&wide, 1, 1);
}
