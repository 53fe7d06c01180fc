//! Rows come in as they are in the files, whatever the format.

mod common;

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use common::{World, column, request, rows, texts, write_parquet};
use pelton_error::ErrorKind;
use pelton_load::{InputFormat, LoadRequest};
use pelton_store::WriteMode;

/// Every type, a NULL in every column, in the forms in which Arrow has it.
fn every_type() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("i8", Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)]))),
        ("i16", Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("u8", Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)]))),
        ("u16", Arc::new(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)]))),
        ("u32", Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)]))),
        ("u64", Arc::new(UInt64Array::from(vec![Some(0), None, Some(u64::MAX)]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(-1.5), None, Some(f32::NAN)]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::INFINITY)]))),
        ("date", Arc::new(Date32Array::from(vec![Some(-1), None, Some(20_000)]))),
        ("utf8", Arc::new(StringArray::from(vec![Some("ä"), None, Some("")]))),
        ("large", Arc::new(LargeStringArray::from(vec![Some("x"), None, Some("y")]))),
        ("view", Arc::new(StringViewArray::from(vec![Some("longer than twelve bytes"), None, Some("z")]))),
        ("dict", Arc::new([Some("a"), None, Some("a")].into_iter().collect::<DictionaryArray<Int32Type>>())),
        ("bin", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x00\xff"), None, Some(b"")]))),
        (
            "ts",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("+00:00")),
        ),
        ("ts_s", Arc::new(TimestampSecondArray::from(vec![Some(0), None, Some(1)]))),
        ("dec", decimals(15, 2)),
        ("dec38", decimals(38, 10)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn decimals(precision: u8, scale: i8) -> ArrayRef {
    let values = Decimal128Array::from(vec![Some(-12345), None, Some(10_i128.pow(u32::from(precision)) - 1)]);
    Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
}

fn assert_same_rows(world: &World, expected: &RecordBatch) {
    let table = world.warehouse.table("t").unwrap();
    assert_eq!(table.row_count(), expected.num_rows() as u64);
    for (field, values) in expected.schema().fields().iter().zip(expected.columns()) {
        assert_eq!(texts(&column(&table, field.name())), texts(values), "column {}", field.name());
    }
}

#[test]
fn every_type_comes_through_parquet_and_arrow() {
    let batch = every_type();
    type Write = fn(&World, &RecordBatch) -> String;
    let parquet: Write = |world, batch| {
        write_parquet(&world.input("t.parquet"), std::slice::from_ref(batch), 2);
        world.input("t.parquet").display().to_string()
    };
    let file: Write = |world, batch| {
        let path = world.input("t.arrow");
        let mut writer = FileWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        path.display().to_string()
    };
    let stream: Write = |world, batch| {
        let path = world.input("t.arrows");
        let mut writer = StreamWriter::try_new(File::create(&path).unwrap(), &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        path.display().to_string()
    };
    for write in [parquet, file, stream] {
        let world = World::new();
        let input = write(&world, &batch);
        assert_eq!(world.load(&[&input]).unwrap().row_count, 3);
        assert_same_rows(&world, &batch);
    }
}

#[test]
fn csv_types_are_inferred_and_empty_fields_are_null() {
    let world = World::new();
    let text = "\u{feff}i,f,d,ts,b,s,none\r\n1,1.5,2024-02-29,2024-01-01T10:00:00,true,\"a,\r\nb\",\r\n\r\n,,,,,,\r\n-2,3,1969-12-31,2024-01-01 00:00:01,FALSE,\"say \"\"hi\"\"\",";
    let input = world.write("a.csv", text);
    world.load(&[&input]).unwrap();
    let table = world.warehouse.table("t").unwrap();
    let types: Vec<String> = table.schema().columns.iter().map(|column| column.logical.to_string()).collect();
    assert_eq!(types, ["int64", "float64", "date", "timestamp(s)", "bool", "utf8", "utf8"]);
    let expected = [
        ["1", "1.5", "2024-02-29", "2024-01-01T10:00:00", "true", "a,\r\nb", "-"],
        ["-", "-", "-", "-", "-", "-", "-"],
        ["-2", "3.0", "1969-12-31", "2024-01-01T00:00:01", "false", "say \"hi\"", "-"],
    ];
    assert_eq!(rows(&table), expected);
}

#[test]
fn files_of_dbgen_need_no_options() {
    let world = World::new();
    let input = world.write("region.tbl", "0|AFRICA|lar deposits|\n1|AMERICA|hs use ironic|\n");
    world.load(&[&input]).unwrap();
    let table = world.warehouse.table("t").unwrap();
    let names: Vec<&str> = table.schema().columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["column_1", "column_2", "column_3"]);
    assert_eq!(rows(&table)[1], ["1", "AMERICA", "hs use ironic"]);
}

#[test]
fn csv_options_override_what_the_name_tells() {
    let world = World::new();
    let input = world.write("odd.txt", "1;'a;b';NA\n2;NA;3\n");
    let mut request = request("t", &[&input]);
    request.format = Some(InputFormat::Csv);
    request.text.delimiter = Some(b';');
    request.text.quote = Some(b'\'');
    request.text.header = Some(false);
    request.text.nulls = vec!["NA".into()];
    world.load_as(&request).unwrap();
    let table = world.warehouse.table("t").unwrap();
    assert_eq!(rows(&table), [["1", "a;b", "-"], ["2", "-", "3"]]);
}

#[test]
fn json_members_come_in_any_order_and_may_be_missing() {
    let world = World::new();
    let text = "{\"a\": 1, \"b\": \"x\", \"c\": 1.5, \"d\": true, \"e\": null}\n\n{\"c\": 2, \"a\": -7}\n{\"b\": \"y\\n\", \"a\": null}";
    let input = world.write("a.jsonl", text);
    world.load(&[&input]).unwrap();
    assert_eq!(world.texts("a"), ["1", "-7", "-"]);
    assert_eq!(world.texts("b"), ["x", "-", "y\n"]);
    assert_eq!(world.texts("c"), ["1.5", "2.0", "-"]);
    assert_eq!(world.texts("d"), ["true", "-", "-"]);
    assert_eq!(world.texts("e"), ["-", "-", "-"]);
}

#[test]
fn compressed_text_of_many_blocks_keeps_its_order() {
    let mut csv = String::from("n,text\n");
    for row in 0..150_000 {
        let text = if row % 1000 == 0 { format!("\"row\n{row}\"") } else { format!("row {row} of many") };
        csv.push_str(&format!("{row},{text}\n"));
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv.as_bytes()).unwrap();
    let zstd = zstd::encode_all(csv.as_bytes(), 1).unwrap();
    let expected: Vec<String> = (0..150_000).map(|row| row.to_string()).collect();
    for (name, bytes) in
        [("a.csv", csv.clone().into_bytes()), ("a.csv.gz", gzip.finish().unwrap()), ("a.csv.zst", zstd)]
    {
        let world = World::new();
        let input = world.write(name, bytes);
        let report = world.load(&[&input]).unwrap();
        assert_eq!((report.row_count, report.row_group_count), (150_000, 150), "{name}");
        assert_eq!(world.texts("n"), expected, "{name}");
        assert_eq!(world.texts("text")[2000], "row\n2000");
    }
}

#[test]
fn inputs_may_differ_in_format_and_columns_in_order() {
    let world = World::new();
    let batch = RecordBatch::try_from_iter([
        ("b", Arc::new(StringArray::from(vec!["p"])) as ArrayRef),
        ("a", Arc::new(Int64Array::from(vec![3])) as ArrayRef),
    ]);
    world.write("1.csv", "a,b\n1,x\n");
    world.write("2.jsonl", "{\"b\":\"y\",\"a\":2}\n");
    write_parquet(&world.input("3.parquet"), &[batch.unwrap()], 10);
    world.write("4.csv", "b,a\nq,4\n");
    world.write("5.csv", "");
    world.write("6.csv", "a,b\n");
    world.write("readme.md", "not data");
    let folder = world.dir.path().join("in").display().to_string();
    assert!(world.error(&[&folder]).contains("holds files of several formats: 1 of parquet"));
    let inputs = ["*.csv", "*.jsonl", "*.parquet"].map(|pattern| format!("{folder}/{pattern}"));
    let report = world.load(&inputs.each_ref().map(String::as_str)).unwrap();
    assert_eq!(world.texts("a"), ["1", "4", "2", "3"]);
    assert_eq!(world.texts("b"), ["x", "q", "y", "p"]);
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn parquet_row_groups_are_read_in_order_by_many_threads() {
    let world = World::new();
    let batch = |first: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 5000));
        RecordBatch::try_from_iter([("n", values)]).unwrap()
    };
    write_parquet(&world.input("1.parquet"), &[batch(0), batch(5000)], 700);
    write_parquet(&world.input("2.parquet"), &[batch(10_000)], 5000);
    let glob = world.input("*.parquet").display().to_string();
    let report = world.load(&[&glob]).unwrap();
    assert_eq!(report.spilled_bytes, 0);
    assert_eq!(world.texts("n"), (0..15_000).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn inputs_without_rows_make_an_empty_table() {
    let empty = RecordBatch::new_empty(Arc::new(Schema::new(vec![Field::new(
        "when",
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        true,
    )])));
    let world = World::new();
    write_parquet(&world.input("e.parquet"), &[empty], 10);
    let report = world.load(&[&world.input("e.parquet").display().to_string()]).unwrap();
    assert_eq!((report.row_count, report.row_group_count), (0, 0));
    assert_eq!(world.warehouse.table("t").unwrap().row_count(), 0);
    let world = World::new();
    let input = world.write("h.csv", "a,b\n");
    assert_eq!(world.load(&[&input]).unwrap().row_count, 0);
}

#[test]
fn an_append_parses_text_by_the_types_of_the_table() {
    let world = World::new();
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("price", decimals_of(&[150])),
        ("raw", Arc::new(BinaryArray::from_vec(vec![b"ab"])) as ArrayRef),
    ]);
    write_parquet(&world.input("a.parquet"), &[batch.unwrap()], 10);
    world.load(&[&world.input("a.parquet").display().to_string()]).unwrap();
    let headed = world.write("b.csv", "price,id,raw\n2.5,2,xy\n");
    let bare = world.write("c.tbl", "3|3.25|z|\n");
    let json = world.write("d.jsonl", "{\"id\":4,\"price\":4.75}\n");
    let mut request = request("t", &[&headed, &bare, &json]);
    request.mode = WriteMode::Append;
    assert_eq!(world.load_as(&request).unwrap().row_count, 3);
    assert_eq!(world.texts("id"), ["1", "2", "3", "4"]);
    assert_eq!(world.texts("price"), ["1.50", "2.50", "3.25", "4.75"]);
    assert_eq!(world.texts("raw"), ["6162", "7879", "7a", "-"]);
}

fn decimals_of(unscaled: &[i128]) -> ArrayRef {
    let values = Decimal128Array::from(unscaled.to_vec());
    Arc::new(values.with_precision_and_scale(10, 2).unwrap())
}

#[test]
fn some_columns_of_parquet_files_are_loaded_in_the_order_asked_for_if_all_files_have_them_alike() {
    let world = World::new();
    let rows = every_type();
    let path = world.input("a.parquet");
    write_parquet(&path, std::slice::from_ref(&rows), 2);
    let some = |inputs: &[&str], names: &[&str]| LoadRequest {
        columns: Some(names.iter().map(ToString::to_string).collect()),
        is_scratch: true,
        ..request("t", inputs)
    };
    let a = path.to_str().unwrap();
    world.load_as(&some(&[a], &["utf8", "i8", "dec38"])).unwrap();
    let table = world.warehouse.table("t").unwrap();
    let names: Vec<&str> = table.schema().columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["utf8", "i8", "dec38"]);
    for name in names {
        assert_eq!(texts(&column(&table, name)), texts(rows.column_by_name(name).unwrap()), "{name}");
    }
    world.warehouse.drop_table("t").unwrap();
    let other = world.input("b.parquet");
    let i8s: ArrayRef = Arc::new(Int16Array::from(vec![1]));
    write_parquet(&other, &[RecordBatch::try_from_iter([("i8", i8s)]).unwrap()], 1);
    for names in [["i8"], ["utf8"], ["missing"]] {
        let error = world.load_as(&some(&[a, other.to_str().unwrap()], &names)).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(names[0]), "{error}");
    }
}
