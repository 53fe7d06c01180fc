//! Folders that name columns.

mod common;

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use common::{World, request, rows, write_parquet};
use pelton_load::InputFormat;
use pelton_store::WriteMode;

/// The rows of table `t`, cells apart by spaces.
fn loaded(world: &World) -> Vec<String> {
    let table = world.warehouse.table("t").unwrap();
    rows(&table).into_iter().map(|row| row.join(" ")).collect()
}

fn names_and_types(world: &World) -> Vec<String> {
    let table = world.warehouse.table("t").unwrap();
    table.schema().columns.iter().map(|column| format!("{} {}", column.name, column.logical)).collect()
}

fn folder(world: &World) -> String {
    world.dir.path().join("in").display().to_string()
}

#[test]
fn folders_of_csv_are_typed_columns_after_those_of_the_files() {
    let world = World::new();
    world.write("y=2023/d=2024-02-29/c=a%20b/1.csv", "v\n1\n2\n");
    world.write("y=2024/d=2024-03-01/c=__HIVE_DEFAULT_PARTITION__/2.csv", "v\n3\n");
    world.load(&[&folder(&world)]).unwrap();
    assert_eq!(names_and_types(&world), ["v int64", "y int64", "d date", "c utf8"]);
    assert_eq!(loaded(&world), ["1 2023 2024-02-29 a b", "2 2023 2024-02-29 a b", "3 2024 2024-03-01 -"]);
}

#[test]
fn json_and_csv_without_header_take_what_folders_say() {
    let world = World::new();
    world.write("y=1/1.json", "{\"v\": 1}\n");
    world.write("y=2/2.json", "{\"v\": 2}\n");
    world.load(&[&folder(&world)]).unwrap();
    assert_eq!(loaded(&world), ["1 1", "2 2"]);
    let world = World::new();
    world.write("y=1/1.csv", "1,a\n");
    world.write("y=2/2.csv", "2,b\n");
    let mut plain = request("t", &[&folder(&world)]);
    plain.text.header = Some(false);
    world.load_as(&plain).unwrap();
    assert_eq!(loaded(&world), ["1 a 1", "2 b 2"]);
}

#[test]
fn an_append_puts_folders_into_the_columns_of_the_table() {
    let world = World::new();
    for name in ["y=1/1.json", "y=1/1.csv"] {
        let text = if name.ends_with("csv") { "v\n5\n" } else { "{\"v\": 5}\n" };
        world.write(name, text);
    }
    world.load(&[&format!("{}/y=*/*.csv", folder(&world))]).unwrap();
    for kind in ["csv", "json"] {
        let mut append = request("t", &[&format!("{}/y=*/*.{kind}", folder(&world))]);
        append.mode = WriteMode::Append;
        world.load_as(&append).unwrap();
    }
    assert_eq!(loaded(&world), ["5 1", "5 1", "5 1"]);
}

#[test]
fn a_column_that_the_files_hold_stands() {
    let world = World::new();
    for (folder, value) in [("k=8", 1), ("k=9", 2)] {
        std::fs::create_dir_all(world.input(folder)).unwrap();
        let column = |value| Arc::new(Int64Array::from(vec![value])) as _;
        let batch = RecordBatch::try_from_iter([("k", column(value)), ("v", column(7))]).unwrap();
        write_parquet(&world.input(&format!("{folder}/a.parquet")), &[batch], 100);
    }
    world.load(&[&folder(&world)]).unwrap();
    assert_eq!(loaded(&world), ["1 7", "2 7"]);
}

#[test]
fn a_file_or_folder_named_itself_says_nothing() {
    let world = World::new();
    let file = world.write("y=1/m=2/1.csv", "v\n1\n");
    world.load(&[&file]).unwrap();
    assert_eq!(names_and_types(&world), ["v int64"]);
    let world = World::new();
    world.write("y=1/m=2/1.csv", "v\n1\n");
    world.load(&[&format!("{}/y=1", folder(&world))]).unwrap();
    assert_eq!(names_and_types(&world), ["v int64", "m int64"]);
}

#[test]
fn folders_that_differ_in_kind_are_refused() {
    let world = World::new();
    world.write("y=1/1.csv", "v\n1\n");
    world.write("2.csv", "v\n1\n");
    let message = world.error(&[&folder(&world)]);
    assert!(message.contains("'2.csv' name no columns, those of 'y=1/1.csv' y"), "{message}");
    let world = World::new();
    world.write("y=1/y=2/1.csv", "v\n1\n");
    let message = world.error(&[&folder(&world)]);
    assert!(message.contains("columns that folders name") && message.contains('y'), "{message}");
}

#[test]
fn a_url_of_an_unknown_kind_is_a_path_that_is_not_there() {
    let world = World::new();
    let mut wrong = request("t", &["gs://bucket/a.csv"]);
    wrong.format = Some(InputFormat::Csv);
    assert_eq!(world.error_as(&wrong), "no file or directory 'gs://bucket/a.csv'");
    assert!(world.error(&["s3:///a.csv"]).contains("the bucket is missing"));
}
