//! Rows held in memory stay under the limit, whatever the size of the input, and the result is right.

mod common;

use std::sync::Arc;

use arrow::array::*;
use common::{World, column, request, rows, texts};
use pelton_load::{ClusterBy, LoadRequest};

/// Bytes of rows a load may hold in these tests.
const LIMIT_BYTES: u64 = 4 << 20;
const ROW_COUNT: i64 = 500_000;

fn limited() -> LoadRequest {
    let mut request = request("t", &[]);
    request.options.memory_limit_bytes = LIMIT_BYTES;
    request
}

/// Five times the limit: three columns of about 42 bytes a row, of which `group` repeats.
fn batches() -> Vec<RecordBatch> {
    let batch = |first: i64| {
        let numbers = first..first + 2000;
        let scrambled = numbers.clone().map(|n| n * 7919 % 1_000_003);
        let texts = numbers.clone().map(|n| format!("text number {n:08}"));
        RecordBatch::try_from_iter([
            ("n", Arc::new(Int64Array::from_iter_values(numbers.clone())) as ArrayRef),
            ("group", Arc::new(Int64Array::from_iter_values(numbers.map(|n| n * 31 % 97))) as ArrayRef),
            ("scrambled", Arc::new(Int64Array::from_iter_values(scrambled)) as ArrayRef),
            ("text", Arc::new(StringArray::from_iter_values(texts)) as ArrayRef),
        ])
        .unwrap()
    };
    (0..ROW_COUNT / 2000).map(|index| batch(index * 2000)).collect()
}

#[test]
fn rows_of_a_generator_spill_and_come_back_in_order() {
    let world = World::new();
    let report = world.load_batches(&limited(), batches()).unwrap();
    assert!(report.raw_bytes > 5 * LIMIT_BYTES, "{}", report.raw_bytes);
    assert!(report.spilled_bytes > 0);
    assert!(report.held_bytes_max <= LIMIT_BYTES, "{}", report.held_bytes_max);
    let numbers: Vec<String> = (0..ROW_COUNT).map(|n| n.to_string()).collect();
    assert_eq!(world.texts("n"), numbers);
    let scratch = std::fs::read_dir(world.warehouse.dir()).unwrap().count();
    assert_eq!(scratch, 1, "only the table is left");
}

#[test]
fn text_files_spill_and_come_back_in_order() {
    let world = World::new();
    let text: String =
        (0..ROW_COUNT).map(|n| format!("{n},{},text number {n:08} and more\n", n % 7)).collect();
    let input = world.write("a.csv", format!("n,k,text\n{text}"));
    let mut request = limited();
    request.inputs = vec![input];
    let report = world.load_as(&request).unwrap();
    assert!(report.raw_bytes > 5 * LIMIT_BYTES, "{}", report.raw_bytes);
    assert!(report.spilled_bytes > 0);
    assert!(report.held_bytes_max <= LIMIT_BYTES, "{}", report.held_bytes_max);
    assert_eq!(world.texts("n"), (0..ROW_COUNT).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_sort_larger_than_the_limit_merges_runs_in_several_passes() {
    let world = World::new();
    let mut request = limited();
    request.cluster_by = ClusterBy::Columns(vec!["group".into(), "scrambled".into()]);
    let report = world.load_batches(&request, batches()).unwrap();
    assert_eq!(report.cluster_by, ["group", "scrambled"]);
    assert!(report.held_bytes_max <= LIMIT_BYTES, "{}", report.held_bytes_max);
    // Staged once and sorted at least once.
    assert!(report.spilled_bytes > report.raw_bytes / 4, "{}", report.spilled_bytes);
    let table = world.warehouse.table("t").unwrap();
    let key = |name: &str| texts(&column(&table, name)).into_iter().map(|text| text.parse::<i64>().unwrap());
    let mut expected: Vec<(i64, i64, i64)> =
        (0..ROW_COUNT).map(|n| (n * 31 % 97, n * 7919 % 1_000_003, n)).collect();
    expected.sort_unstable();
    let actual: Vec<(i64, i64, i64)> = key("group")
        .zip(key("scrambled"))
        .zip(key("n"))
        .map(|((group, scrambled), n)| (group, scrambled, n))
        .collect();
    assert_eq!(actual, expected);
}

#[test]
fn a_row_group_that_cannot_fit_says_what_to_change() {
    let world = World::new();
    let mut request = limited();
    request.options.choose.row_group_rows = vec![1 << 20];
    let error = world.load_batches(&request, batches()).unwrap_err();
    assert!(error.to_string().ends_with("raise the limit or choose fewer rows per row group"), "{error}");
    world.assert_nothing_left();
}

#[test]
fn the_table_does_not_depend_on_threads_or_limit() {
    let load = |threads: usize, limit: u64| {
        let world = World::new();
        let mut request = limited();
        request.options.thread_count = threads;
        request.options.memory_limit_bytes = limit;
        request.cluster_by = ClusterBy::Columns(vec!["group".into()]);
        world.load_batches(&request, batches().into_iter().take(20).collect()).unwrap();
        rows(&world.warehouse.table("t").unwrap())
    };
    let expected = load(1, 1 << 30);
    assert_eq!(load(3, 1 << 30), expected);
    assert_eq!(load(2, 1 << 20), expected);
}
