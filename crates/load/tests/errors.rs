//! What cannot be loaded is refused by file, line and column, and leaves nothing behind.

mod common;

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field};
use common::{World, request, write_parquet};
use pelton_error::ErrorKind;
use pelton_load::{CancelFlag, NoProgress, load_batches};
use pelton_store::WriteMode;

/// A load of `input` whose columns have these types.
fn typed(input: &str, types: &str) -> pelton_load::LoadRequest {
    let mut request = request("t", &[input]);
    request.text.column_types = pelton_load::parse_column_types(types).unwrap();
    request
}

/// 1500 good rows before the bad one.
fn good_rows(columns: usize) -> String {
    let row = |row: usize| vec![row.to_string(); columns].join(",");
    (0..1500).map(|index| row(index) + "\n").collect()
}

#[test]
fn a_bad_value_is_named_by_line_column_and_text() {
    let cases = [
        ("x,1", "a.csv, line 1502, column 'a': 'x' is not a valid BIGINT, as was asked for"),
        (
            "1,99999999999999999999",
            "a.csv, line 1502, column 'b': '99999999999999999999' is not a valid BIGINT, as was asked for",
        ),
        ("1,1.5", "a.csv, line 1502, column 'b': '1.5' is not a valid BIGINT, as was asked for"),
        (
            "1,\"two\nlines\"",
            "a.csv, line 1502, column 'b': 'two\nlines' is not a valid BIGINT, as was asked for",
        ),
        ("1", "a.csv, line 1502: 1 fields where 2 are expected"),
        ("1,2,3", "a.csv, line 1502: 3 fields where 2 are expected"),
        ("\n\r\n1,x", "a.csv, line 1504, column 'b': 'x' is not a valid BIGINT, as was asked for"),
    ];
    for (row, expected) in cases {
        let world = World::new();
        let input = world.write("a.csv", format!("a,b\n{}{row}\n7,8\n", good_rows(2)));
        assert_eq!(world.error_as(&typed(&input, "a=BIGINT,b=BIGINT")), expected, "{row:?}");
    }
}

#[test]
fn lines_are_counted_through_quoted_newlines_and_carriage_returns() {
    let world = World::new();
    let mut text = String::from("a,b\r\n");
    for row in 0..1200 {
        text.push_str(&format!("{row},\"x\r\ny\"\r\n"));
    }
    let input = world.write("a.csv", text + "oops,z\r\n");
    let expected = "a.csv, line 2402, column 'a': 'oops' is not a valid BIGINT, as was asked for";
    assert_eq!(world.error_as(&typed(&input, "a=BIGINT")), expected);
}

#[test]
fn text_that_is_not_utf8_is_named() {
    let world = World::new();
    let input = world.write("a.csv", b"a,b\n1,fine\n2,\xff\xfe\n");
    assert_eq!(
        world.error(&[&input]),
        "a.csv, line 3, column 'b': the text is not UTF-8; name its encoding (--encoding latin1, or SET pelton.encoding)"
    );
}

#[test]
fn a_ragged_dbgen_line_counts_its_fields_without_the_trailing_one() {
    let world = World::new();
    let input = world.write("a.tbl", "1|a|\n2|b|\n3|\n");
    assert_eq!(world.error(&[&input]), "a.tbl, line 3: 1 fields where 2 are expected");
}

#[test]
fn a_bad_json_line_is_named() {
    let good: String = (0..1100).map(|row| format!("{{\"a\":{row},\"b\":\"x\"}}\n")).collect();
    let cases = [
        ("{\"a\":1.5}", "'1.5' is not a valid BIGINT, as was asked for"),
        ("{\"a\":99999999999999999999}", "'99999999999999999999' is not a valid BIGINT, as was asked for"),
        ("{\"a\":\"x\"}", "'x' is not a valid BIGINT, as was asked for"),
    ];
    for (row, expected) in cases {
        let world = World::new();
        let input = world.write("a.jsonl", format!("{good}{row}\n{{\"a\":1}}\n"));
        let expected = format!("a.jsonl, line 1101, column 'a': {expected}");
        assert_eq!(world.error_as(&typed(&input, "a=BIGINT")), expected, "{row:?}");
    }
    let world = World::new();
    let input = world.write("a.jsonl", format!("{good}{{\"a\":1\n{{\"a\":2}}\n"));
    assert!(world.error(&[&input]).starts_with("a.jsonl, line 1101: not one JSON object"));
    let world = World::new();
    let mixed = world.write("a.jsonl", format!("{good}{{\"a\":[1]}}\n"));
    let message = world.error(&[&mixed]);
    assert!(
        message.contains("column 'a' is a list or an object in some rows and not in others"),
        "{message}"
    );
}

#[test]
fn files_must_agree_by_name_and_type() {
    let int = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let text =
        RecordBatch::try_from_iter([("a", Arc::new(StringArray::from(vec!["1"])) as ArrayRef)]).unwrap();
    let other = RecordBatch::try_from_iter([("b", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let world = World::new();
    let path = |name: &str| world.input(name).display().to_string();
    for (name, batch) in [("1.parquet", &int), ("2.parquet", &text), ("3.parquet", &other)] {
        write_parquet(&world.input(name), std::slice::from_ref(batch), 10);
    }
    assert_eq!(
        world.error(&[&path("1.parquet"), &path("2.parquet")]),
        "2.parquet: column 'a' is VARCHAR but BIGINT in 1.parquet; convert one of them"
    );
    let more = world.write("4.csv", "a,z\n1,2\n");
    let fewer = world.write("5.csv", "z\n2\n");
    let report = world.load(&[&more, &fewer]).unwrap();
    assert_eq!(report.warnings.len(), 1);
    assert!(report.warnings[0].ends_with("5.csv; it is NULL in those rows"), "{:?}", report.warnings);
    assert_eq!(
        (world.texts("a"), world.texts("z")),
        (vec!["1".into(), "-".into()], vec!["2".into(), "2".into()])
    );
    let mut append = request("t", &[&path("3.parquet")]);
    append.mode = WriteMode::Append;
    let error = world.load_as(&append).unwrap_err().to_string();
    assert!(error.ends_with("3.parquet: column 'b' is not in the table"), "{error}");
}

#[test]
fn types_without_a_place_are_refused_by_column() {
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let list: ArrayRef = new_null_array(&DataType::List(field), 1);
    let world = World::new();
    write_parquet(&world.input("a.parquet"), &[RecordBatch::try_from_iter([("tags", list)]).unwrap()], 10);
    let message = world.error(&[&world.input("a.parquet").display().to_string()]);
    assert!(
        message.starts_with("a.parquet: column 'tags' has type List(Int32), which Pelton does not store"),
        "{message}"
    );
    let json = world.write("a.jsonl", "{\"x\":{\"y\":1}}\n");
    let message = world.error(&[&json]);
    assert!(message.starts_with("a.jsonl: column 'x' has type Struct"), "{message}");
}

#[test]
fn damaged_files_are_named() {
    let world = World::new();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
    write_parquet(&world.input("good.parquet"), &[batch], 1000);
    let good = std::fs::read(world.input("good.parquet")).unwrap();
    let cut = world.write("cut.parquet", &good[..good.len() / 2]);
    assert!(world.error(&[&cut]).starts_with("cut.parquet: not a readable Parquet file: "));
    let mut holed = good.clone();
    // The header of the first page; Parquet has no checksum over values.
    holed[4..40].fill(0xff);
    let holed = world.write("holed.parquet", holed);
    assert!(world.error(&[&holed]).contains("holed.parquet"));
    let ipc = world.write("not.arrow", b"ARROW1\0\0and then nothing of the kind");
    assert!(world.error(&[&ipc]).starts_with("not.arrow: not a readable Arrow IPC file: "));
    let ends = world.write("ends.parquet", b"PAR1PAR1");
    assert!(world.error(&[&ends]).starts_with("ends.parquet: not a readable Parquet file: "));
    // A footer that tells of nothing: arrow-ipc looks for its schema.
    let empty =
        [b"ARROW1\0\0".as_slice(), &[8, 0, 0, 0, 4, 0, 4, 0, 4, 0, 0, 0], &12_u32.to_le_bytes(), b"ARROW1"]
            .concat();
    let empty = world.write("empty.arrow", empty);
    assert!(world.error(&[&empty]).starts_with("empty.arrow: not a readable Arrow IPC file: "));
    let gzip = world.write("cut.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b");
    assert!(world.error(&[&gzip]).starts_with("cut.csv.gz: the compressed data is damaged"));
}

#[test]
fn empty_inputs_and_missing_ones_are_explained() {
    let world = World::new();
    let empty = world.write("a.csv", "");
    assert_eq!(
        world.error(&[&empty]),
        "every input file is empty, so nothing tells the columns of the table"
    );
    assert_eq!(world.error(&["/no/such.csv"]), "no file or directory '/no/such.csv'");
}

#[test]
fn an_append_must_fit_the_table_and_a_failed_one_leaves_it_as_it_was() {
    let world = World::new();
    let first = world.write("a.csv", "a,b\n1,2\n");
    world.load(&[&first]).unwrap();
    let table = world.warehouse.table("t").unwrap();
    let bad = world.write("b.csv", "a,b\n3,4\n5,six\n");
    let mut append = request("t", &[&bad]);
    append.mode = WriteMode::Append;
    let error = world.load_as(&append).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("b.csv, line 3, column 'b': 'six' is not a valid BIGINT, as the table's column is"),
        "{error}"
    );
    assert_eq!(world.warehouse.table("t").unwrap().id(), table.id());
    assert_eq!(world.texts("b"), ["2"]);
    let error = world.load_as(&request("t", &[&first])).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn cancelling_midway_leaves_nothing() {
    let world = World::new();
    let cancel = CancelFlag::new();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
    for stop_at in [1, 50, 199] {
        let (flag, again) = (cancel.clone(), batch.clone());
        flag.as_atomic().store(false, std::sync::atomic::Ordering::Relaxed);
        let batches = (0..200).map(move |index| {
            if index == stop_at {
                flag.cancel();
            }
            Ok(again.clone())
        });
        let mut request = request("t", &[]);
        request.options.memory_limit_bytes = 200_000;
        let loaded = load_batches(
            &world.warehouse,
            &request,
            &batch.schema(),
            Box::new(batches),
            &NoProgress,
            &cancel,
        );
        assert_eq!(*loaded.unwrap_err().kind(), ErrorKind::Cancelled);
        world.assert_nothing_left();
    }
}

/// The write that fails when the child below passes its limit of file size.
const CHILD: &str = "PELTON_LOAD_TEST_DIR";

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let noise = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(noise)));
    let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
    if let Some(dir) = std::env::var_os(CHILD) {
        let warehouse = pelton_store::Warehouse::open(dir).unwrap();
        for memory_limit_bytes in [1 << 30, 1 << 20] {
            let mut request = request("t", &[]);
            request.options.memory_limit_bytes = memory_limit_bytes;
            let batches = (0..200).map(|part| Ok(batch.slice(part * 1000, 1000))).collect::<Vec<_>>();
            let error = load_batches(
                &warehouse,
                &request,
                &batch.schema(),
                Box::new(batches.into_iter()),
                &NoProgress,
                &CancelFlag::new(),
            );
            println!("{}", error.unwrap_err());
        }
        return;
    }
    let world = World::new();
    let test = std::env::current_exe().unwrap();
    // 512 KiB a file; the signal is ignored so that the write fails instead.
    let script = format!(
        "trap '' XFSZ; ulimit -f 512; exec '{}' --exact a_full_disk_is_an_error_and_leaves_nothing --nocapture",
        test.display()
    );
    let child = std::process::Command::new("bash")
        .args(["-c", &script])
        .env(CHILD, world.warehouse.dir())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}{}", String::from_utf8_lossy(&child.stderr));
    assert!(output.contains("writing") && output.contains("/t/data-"), "{output}");
    assert!(output.contains("the disk is full") && output.contains("of spilled rows"), "{output}");
    assert!(output.contains("--spill-dir"), "{output}");
    world.assert_nothing_left();
}
