//! A file means the same loaded and queried in place: columns, types, rows, and what is said where it cannot be read.

use std::fs;
use std::path::Path;

use arrow::array::{Array, Int64Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use pelton_engine::{FileSettings, PeltonSession, SessionOptions};
use pelton_error::Result;
use pelton_files::{Encoding, InferRows, TextOptions, parse_column_types, type_name};
use pelton_load::{CancelFlag, LoadRequest, NoProgress, load};
use pelton_store::{Warehouse, WriteMode};

/// Rows as text, the first being names and types.
type Lines = Vec<String>;

async fn lines(session: &PeltonSession, sql: &str) -> Result<Lines> {
    let query = session.query(sql).await?;
    let schema = query.schema();
    let heads =
        schema.fields().iter().map(|field| format!("{} {}", field.name(), type_name(field.data_type())));
    let mut lines = vec![heads.collect::<Vec<_>>().join("|")];
    for batch in query.collect().await? {
        lines.extend((0..batch.num_rows()).map(|row| line(&batch, row)));
    }
    Ok(lines)
}

fn line(batch: &RecordBatch, row: usize) -> String {
    let cell = |column: &arrow::array::ArrayRef| match column.is_null(row) {
        true => "NULL".to_owned(),
        false => array_value_to_string(column, row).unwrap(),
    };
    batch.columns().iter().map(cell).collect::<Vec<_>>().join("|")
}

fn session(directory: Option<&Path>, text: &TextOptions) -> PeltonSession {
    let files = FileSettings { text: text.clone(), input_format: None };
    let options = SessionOptions { threads: Some(2), files, ..SessionOptions::default() };
    PeltonSession::open(directory.map(Path::to_owned), &options).unwrap()
}

/// What `input` gives when it is loaded and then queried, and when it is queried in place.
async fn both(root: &Path, input: &str, text: &TextOptions) -> (Result<Lines>, Result<Lines>) {
    let named = format!("{}/{input}", root.display());
    let directory = tempfile::tempdir().unwrap();
    let warehouse = Warehouse::open_or_create(directory.path()).unwrap();
    let request =
        LoadRequest { text: text.clone(), ..LoadRequest::new("t", WriteMode::Create, vec![named.clone()]) };
    let loaded = load(&warehouse, &request, &NoProgress, &CancelFlag::new());
    let loaded = match loaded {
        Ok(_) => lines(&session(Some(directory.path()), text), "SELECT * FROM t").await,
        Err(error) => Err(error),
    };
    (loaded, lines(&session(None, text), &format!("SELECT * FROM '{named}'")).await)
}

struct Case {
    name: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
    /// What is named; the only file where it is empty.
    input: &'static str,
    text: TextOptions,
    /// The lines, or a part of the error.
    expected: std::result::Result<Vec<&'static str>, &'static str>,
}

fn rows(
    name: &'static str,
    file: &'static str,
    bytes: impl Into<Vec<u8>>,
    expected: &[&'static str],
) -> Case {
    Case {
        name,
        files: vec![(file, bytes.into())],
        input: "",
        text: TextOptions::default(),
        expected: Ok(expected.to_vec()),
    }
}

fn refused(name: &'static str, file: &'static str, bytes: impl Into<Vec<u8>>, part: &'static str) -> Case {
    Case { expected: Err(part), ..rows(name, file, bytes, &[]) }
}

fn with(case: Case, change: impl FnOnce(&mut TextOptions)) -> Case {
    let mut text = case.text.clone();
    change(&mut text);
    Case { text, ..case }
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn cases() -> Vec<Case> {
    let late = |value: &str| format!("a\n{}{value}\n", "1\n".repeat(1500));
    let utf16: Vec<u8> = "a;b\nä;1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut cases = vec![
        rows("LF", "f.csv", "a,b\n1,x\n", &["a BIGINT|b VARCHAR", "1|x"]),
        rows("CRLF", "f.csv", "a,b\r\n1,x\r\n", &["a BIGINT|b VARCHAR", "1|x"]),
        rows("CR", "f.csv", "a,b\r1,x\r2,y", &["a BIGINT|b VARCHAR", "1|x", "2|y"]),
        rows("breaks in quotes", "f.csv", "a,b\n1,\"x\r\ny\"\n", &["a BIGINT|b VARCHAR", "1|x\r\ny"]),
        rows("mark", "f.csv", "\u{feff}a\n1\n", &["a BIGINT", "1"]),
        rows(
            "NULL and empty",
            "f.csv",
            "a,b\n,\n\"\",\"\"\n1,x\n",
            &["a BIGINT|b VARCHAR", "NULL|NULL", "NULL|", "1|x"],
        ),
        rows("one column", "f.csv", "a\n1\n\n2\n", &["a BIGINT", "1", "NULL", "2"]),
        rows("no name", "f.csv", ",b,\n1,x,2\n", &["column_1 BIGINT|b VARCHAR|column_3 BIGINT", "1|x|2"]),
        rows("trailing delimiter", "f.csv", "a,b,\n1,x,\n", &["a BIGINT|b VARCHAR", "1|x"]),
        rows("tbl", "f.tbl", "1|x|\n2|y|\n", &["column_1 BIGINT|column_2 VARCHAR", "1|x", "2|y"]),
        rows("tsv", "f.tsv", "a\tb\n1\tx,y\n", &["a BIGINT|b VARCHAR", "1|x,y"]),
        rows("gz", "f.csv.gz", gzip("a\n1\n"), &["a BIGINT", "1"]),
        rows("zst", "f.jsonl.zst", zstd::encode_all(&b"{\"a\":1}\n"[..], 1).unwrap(), &["a BIGINT", "1"]),
        rows(
            "ndjson",
            "f.ndjson",
            "{\"a\":1,\"b\":\"x\"}\n{\"b\":\"y\"}\n",
            &["a BIGINT|b VARCHAR", "1|x", "NULL|y"],
        ),
        rows(
            "numbers",
            "f.json",
            "{\"a\":1}\n{\"a\":1.5}\n{\"a\":\"NaN\"}\n",
            &["a DOUBLE", "1.0", "1.5", "NaN"],
        ),
        rows("CR in JSON", "f.json", "{\"a\":1}\r{\"a\":2}\r", &["a BIGINT", "1", "2"]),
        rows(
            "date and time",
            "f.csv",
            "a\n2024-01-01\n2024-01-01 10:00:00.25\n",
            &["a TIMESTAMP(3)", "2024-01-01T00:00:00", "2024-01-01T10:00:00.250"],
        ),
        rows(
            "zone",
            "f.csv",
            "a\n2024-01-01T10:00:00+02:00\n",
            &["a TIMESTAMPTZ(0)", "2024-01-01T08:00:00Z"],
        ),
        rows("big", "f.csv", "a\n9007199254740993\n1.5\n", &["a VARCHAR", "9007199254740993", "1.5"]),
        refused("two names", "f.csv", "a,a\n1,2\n", "two columns are named 'a'"),
        refused("ragged", "f.csv", "a,b\n1\n", "line 2: 1 fields where 2 are expected"),
        refused("open quote", "f.csv", "a\n\"1\n", "line 2: the quote of a field is not closed"),
        refused("not text", "f.csv", b"a\n\xff\n", "line 2, column 'a': the text is not UTF-8"),
        refused("no object", "f.json", "{\"a\":1}\n[2]\n", "line 2: not one JSON object"),
        refused("unknown ending", "f.docx", "x", "the name does not tell the format"),
        with(
            rows(
                "several NULLs",
                "f.csv",
                "a,b\nNA,-\n1,\"-\"\n",
                &["a BIGINT|b VARCHAR", "NULL|NULL", "1|-"],
            ),
            |text| {
                text.nulls = vec!["NA".into(), "-".into()];
            },
        ),
        with(
            rows("other syntax", "f.csv", "a;b\n# x;\"\n'1';'x''\\'y'\n", &["a BIGINT|b VARCHAR", "1|x''y"]),
            |text| {
                (text.delimiter, text.quote, text.escape, text.comment) =
                    (Some(b';'), Some(b'\''), Some(b'\\'), Some(b'#'));
            },
        ),
        with(rows("latin1", "f.csv", b"a\n\xe4\x80\n", &["a VARCHAR", "ä€"]), |text| {
            text.encoding = Encoding::Windows1252
        }),
        with(rows("utf-16", "f.csv", utf16, &["a VARCHAR|b BIGINT", "ä|1"]), |text| {
            (text.encoding, text.delimiter) = (Encoding::Utf16, Some(b';'));
        }),
        with(rows("no header", "f.csv", "1,x\n", &["column_1 BIGINT|column_2 VARCHAR", "1|x"]), |text| {
            text.header = Some(false);
        }),
        with(
            rows("given types", "f.csv", "a,b\n007,1.50\n", &["a VARCHAR|b DECIMAL(5,2)", "007|1.50"]),
            |text| {
                text.column_types = parse_column_types("a=VARCHAR,b=DECIMAL(5,2)").unwrap();
            },
        ),
        with(
            refused(
                "misfit of a given type",
                "f.csv",
                "a\n1.555\n",
                "line 2, column 'a': '1.555' is not a valid DECIMAL(5,2), as was asked for",
            ),
            |text| {
                text.column_types = parse_column_types("a=DECIMAL(5,2)").unwrap();
            },
        ),
        with(
            refused(
                "type of no column",
                "f.csv",
                "a\n1\n",
                "column 'b', which the files do not have; they have a",
            ),
            |text| {
                text.column_types = parse_column_types("b=INT").unwrap();
            },
        ),
        Case {
            name: "names, not positions",
            files: vec![("d/1.csv", "a,b\n1,x\n".into()), ("d/2.csv", "b,a,c\ny,2.5,7\n".into())],
            input: "d",
            ..rows("", "", "", &["a DOUBLE|b VARCHAR|c BIGINT", "1.0|x|NULL", "2.5|y|7"])
        },
        Case {
            name: "folders",
            files: vec![("d/k=1/1.csv", "a\n1\n".into()), ("d/k=2/2.csv", "a\n2\n".into())],
            input: "d",
            ..rows("", "", "", &["a BIGINT|k BIGINT", "1|1", "2|2"])
        },
        Case {
            name: "several formats",
            files: vec![("d/1.csv", "a\n1\n".into()), ("d/2.json", "{\"a\":2}\n".into())],
            input: "d",
            ..refused(
                "",
                "",
                "",
                "several formats: 1 of csv (such as 1.csv), 1 of json (such as 2.json); choose one with a pattern",
            )
        },
        Case {
            name: "nothing in common",
            files: vec![("d/1.csv", "a\n1\n".into()), ("d/2.csv", "b\n1\n".into())],
            input: "d",
            ..refused("", "", "", "none of its columns (b) is in the files before it (a)")
        },
    ];
    for (value, wider) in [("1.5", "DOUBLE"), ("x", "VARCHAR"), ("99999999999999999999", "VARCHAR")] {
        let heads: &'static str = Box::leak(format!("a {wider}").into_boxed_str());
        let one = if wider == "DOUBLE" { "1.0" } else { "1" };
        let lines: Vec<&'static str> =
            std::iter::once(heads).chain(std::iter::repeat_n(one, 1500)).chain([value]).collect();
        cases.push(rows("a late value", "f.csv", late(value), &lines));
    }
    cases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_the_same_loaded_and_in_place() {
    for case in cases() {
        let root = tempfile::tempdir().unwrap();
        for (name, bytes) in &case.files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        let input = if case.input.is_empty() { case.files[0].0 } else { case.input };
        let (loaded, in_place) = both(root.path(), input, &case.text).await;
        for (how, found) in [("loaded", loaded), ("in place", in_place)] {
            match (&case.expected, found) {
                (Ok(expected), Ok(found)) => assert_eq!(&found, expected, "{}, {how}", case.name),
                (Err(part), Err(error)) => {
                    let error = error.to_string();
                    assert!(error.contains(part), "{}, {how}: {error}", case.name);
                }
                (_, found) => panic!("{}, {how}: {found:?}", case.name),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_after_those_that_were_looked_at_widen_a_load_and_fail_in_place() {
    let misfits = [
        ("a\n1\n1.5\n", "BIGINT", "a=DOUBLE"),
        ("a\n2024-01-01\n2024-01-01 10:00:00\n", "DATE", "a=TIMESTAMP"),
        ("a\n2024-01-01 10:00:00\n2024-01-01 10:00:00.5\n", "TIMESTAMP(0)", "a=TIMESTAMP"),
        ("a\ntrue\nmaybe\n", "BOOLEAN", "a=VARCHAR"),
    ];
    let text = TextOptions { infer_rows: InferRows::First(1), ..TextOptions::default() };
    for (content, narrow, remedy) in misfits {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("f.csv"), content).unwrap();
        let (loaded, in_place) = both(root.path(), "f.csv", &text).await;
        let all = session(None, &TextOptions::default());
        let whole = lines(&all, &format!("SELECT * FROM '{}/f.csv'", root.path().display())).await;
        assert_eq!(loaded.unwrap(), whole.unwrap(), "{content}");
        let error = in_place.unwrap_err().to_string();
        assert!(error.contains("f.csv, line 3, column 'a': '"), "{error}");
        assert!(error.contains(&format!("is not a valid {narrow}")) && error.contains(remedy), "{error}");
        assert!(error.contains("pelton.infer_rows"), "{error}");
    }
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f.json"), "{\"a\":1}\n{\"a\":2,\"b\":3}\n").unwrap();
    let (loaded, in_place) = both(root.path(), "f.json", &text).await;
    assert_eq!(loaded.unwrap(), ["a BIGINT|b BIGINT", "1|NULL", "2|3"]);
    assert!(in_place.unwrap_err().to_string().contains("line 2: column 'b' is not among the columns"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_session_say_how_files_are_read() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f.txt"), "1;NA\n").unwrap();
    let session = session(None, &TextOptions::default());
    let settings = [
        ("input_format", "csv"),
        ("header", "false"),
        ("delimiter", ";"),
        ("null", "NA,-"),
        ("column_types", "column_1=SMALLINT"),
    ];
    for (key, value) in settings {
        session.query(&format!("SET pelton.{key} = '{value}'")).await.unwrap().collect().await.unwrap();
    }
    let found = lines(&session, &format!("SELECT * FROM '{}/f.txt'", root.path().display())).await.unwrap();
    assert_eq!(found, ["column_1 SMALLINT|column_2 VARCHAR", "1|NULL"]);
    let wrong = session.query("SET pelton.delimiter = 'ab'").await;
    let wrong = match wrong {
        Ok(query) => query.collect().await.err(),
        Err(error) => Some(error),
    };
    assert!(wrong.unwrap().to_string().contains("a delimiter is one ASCII character"));
}

/// A row in four has a line break within quotes, and every block begins somewhere in a quoted field of some row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions_read_every_record_of_a_large_file_once() {
    const ROWS: i64 = 600_000;
    let root = tempfile::tempdir().unwrap();
    let mut csv = String::from("k,text\n");
    for row in 0..ROWS {
        let text =
            if row % 4 == 0 { "\"two\nlines, and a \"\"quote\"\"\"" } else { "one line of several words" };
        csv.push_str(&format!("{row},{text}\n"));
    }
    assert!(csv.len() > 12 << 20, "larger than what a partition is worth");
    fs::write(root.path().join("f.csv"), csv).unwrap();
    let session = session(None, &TextOptions::default());
    let path = format!("{}/f.csv", root.path().display());
    let counted =
        lines(&session, &format!("SELECT count(*), count(DISTINCT k), sum(k) FROM '{path}'")).await.unwrap();
    assert_eq!(counted[1], format!("{ROWS}|{ROWS}|{}", ROWS * (ROWS - 1) / 2));
    let counted = lines(&session, &format!("SELECT count(*) FROM '{path}' WHERE text LIKE 'two%quote\"'"))
        .await
        .unwrap();
    assert_eq!(counted[1], (ROWS / 4).to_string());
    // One plan that runs twice reads the file twice.
    let query = session.query(&format!("SELECT count(*) FROM '{path}'")).await.unwrap();
    for _ in 0..2 {
        let batches = query.collect().await.unwrap();
        let count = batches[0].column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0);
        assert_eq!(count, ROWS);
    }
    let limited = lines(&session, &format!("SELECT k FROM '{path}' LIMIT 7")).await.unwrap();
    assert_eq!(limited.len(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_goes_by_name_in_both_and_two_columns_of_one_name_are_refused() {
    let write = |path: &Path, batch: &RecordBatch| {
        let file = fs::File::create(path).unwrap();
        let mut writer =
            datafusion::parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
    };
    let long = |value: i64| std::sync::Arc::new(Int64Array::from(vec![value])) as arrow::array::ArrayRef;
    let short = |value: i32| {
        std::sync::Arc::new(arrow::array::Int32Array::from(vec![value])) as arrow::array::ArrayRef
    };
    let root = tempfile::tempdir().unwrap();
    write(
        &root.path().join("1.parquet"),
        &RecordBatch::try_from_iter([("a", short(1)), ("b", long(2))]).unwrap(),
    );
    write(
        &root.path().join("2.parquet"),
        &RecordBatch::try_from_iter([("b", long(4)), ("a", long(1 << 40))]).unwrap(),
    );
    let text = TextOptions::default();
    for found in <[_; 2]>::from(both(root.path(), "*.parquet", &text).await) {
        // Partitions give their rows in no particular order.
        let mut found = found.unwrap();
        found[1..].sort();
        assert_eq!(found, ["a BIGINT|b BIGINT", "1099511627776|4", "1|2"]);
    }
    let bounds =
        format!("SELECT min(a), max(a), count(*) FROM '{}/*.parquet' WHERE a > 0", root.path().display());
    assert_eq!(lines(&session(None, &text), &bounds).await.unwrap()[1], "1|1099511627776|2");
    let twice = RecordBatch::try_from_iter([("x", long(1)), ("x", long(2))]).unwrap();
    write(&root.path().join("twice.parquet"), &twice);
    for found in <[_; 2]>::from(both(root.path(), "twice.parquet", &text).await) {
        assert!(found.unwrap_err().to_string().contains("two columns are named 'x'"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrow_files_and_streams_are_the_same_in_both() {
    let numbers: arrow::array::ArrayRef = std::sync::Arc::new(Int64Array::from(vec![Some(1), None]));
    let texts: arrow::array::ArrayRef =
        std::sync::Arc::new(arrow::array::StringViewArray::from(vec!["x", "y"]));
    let batch = RecordBatch::try_from_iter([("a", numbers), ("b", texts)]).unwrap();
    let root = tempfile::tempdir().unwrap();
    for name in ["f.arrow", "f.feather", "f.ipc"] {
        let file = fs::File::create(root.path().join(name)).unwrap();
        let mut writer = arrow::ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
    }
    let file = fs::File::create(root.path().join("f.arrows")).unwrap();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    for name in ["f.arrow", "f.feather", "f.ipc", "f.arrows", "*"] {
        for found in <[_; 2]>::from(both(root.path(), name, &TextOptions::default()).await) {
            let found = found.unwrap();
            assert_eq!(found[..3], ["a BIGINT|b VARCHAR", "1|x", "NULL|y"], "{name}");
            assert_eq!(found.len(), if name == "*" { 9 } else { 3 });
        }
    }
    let swapped = format!("SELECT b, a FROM '{}/f.arrow' WHERE a = 1", root.path().display());
    assert_eq!(lines(&session(None, &TextOptions::default()), &swapped).await.unwrap()[1], "x|1");
}
