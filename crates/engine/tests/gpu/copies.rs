//! Parquet files that a query has read are there encoded for the next one, which runs as over a table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use pelton_datagen::{Dataset, batches, queries, tables};
use pelton_engine::{CopyColumns, DeviceChoice, PeltonSession, SessionOptions, parse, with_numbers};
use pelton_limits::{SpillLimit, SpillOptions};

use crate::benchmarks::{SCALE, load};
use crate::common::{integers, run};
use crate::nodes::explanation;
use crate::served::Served;
use crate::{assert_same_rows, device_nodes, on_host};

/// Everything on the device that can be, and copies that are there when a query ends.
fn copying() -> SessionOptions {
    SessionOptions { copy_columns: CopyColumns::AtEnd, ..on_host() }
}

fn session(options: &SessionOptions) -> PeltonSession {
    PeltonSession::open(None, options).unwrap()
}

/// Writes `rows` to `path` in row groups of `row_group_rows`, and has it be a file that `age` seconds ago last changed:
/// long enough that a further change would show in its time.
fn write(path: &Path, rows: &RecordBatch, row_group_rows: usize, age: u64) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group_rows)).build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
}

/// Plain DataFusion's answer over the rows of `path` as table `t`, read whole: its scan of Parquet skips by statistics,
/// which leave NaN out.
async fn plainly(path: &Path, sql: &str) -> String {
    let files: Vec<PathBuf> = match path.is_dir() {
        true => std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect(),
        false => vec![path.to_owned()],
    };
    let reader =
        |file: &PathBuf| ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    let schema = Arc::clone(reader(&files[0]).schema());
    let rows = files.iter().flat_map(|file| reader(file).build().unwrap()).map(Result::unwrap).collect();
    let state = with_numbers(SessionStateBuilder::new().with_default_features()).build();
    let context = SessionContext::new_with_state(state);
    context.register_table("t", Arc::new(MemTable::try_new(schema, vec![rows]).unwrap())).unwrap();
    let plan = context.state().statement_to_plan(parse(sql).unwrap().remove(0)).await.unwrap();
    let rows = context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

/// `sql` with `t` as the files at `path`.
fn over(path: &Path, sql: &str) -> String {
    sql.replace("FROM t", &format!("FROM '{}' AS t", path.display()))
}

/// Runs `sql` over `path` twice beside plain DataFusion; gives how the second time was planned.
async fn twice(session: &PeltonSession, path: &Path, sql: &str) -> String {
    let expected = plainly(path, sql).await;
    let named = over(path, sql);
    let (first, _) = run(session, &named).await;
    assert_same_rows(&first, &expected, sql);
    let (second, _) = run(session, &named).await;
    assert_same_rows(&second, &expected, sql);
    explanation(session, &format!("EXPLAIN {named}")).await
}

fn numbers(rows: i64) -> RecordBatch {
    integers(&[("k", (0..rows).map(|row| row % 7).collect()), ("v", (0..rows).collect())])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_query_over_a_file_runs_on_the_device_and_skips_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write(&path, &numbers(300_000), 10_000, 60);
    let session = session(&copying());
    let sql = "SELECT k, sum(v), count(*) FROM t WHERE v < 1000 GROUP BY k";
    let before = explanation(&session, &format!("EXPLAIN {}", over(&path, sql))).await;
    assert!(before.contains("PeltonCopyExec: encodes columns [k, v]"), "{before}");
    assert!(!before.contains("PeltonGpuExec"), "{before}");
    let after = twice(&session, &path, sql).await;
    assert!(after.contains("PeltonGpuExec") && after.contains("copy of numbers.parquet"), "{after}");
    assert!(after.contains("1 of 3 row groups"), "{after}");
    assert!(!after.contains("DataSourceExec"), "{after}");
    // Without a device the files are read, and there is no second copy of them to hold.
    let cpu = session.on_device(DeviceChoice::Cpu).unwrap();
    let text = twice(&cpu, &path, sql).await;
    assert!(text.contains("DataSourceExec") && !text.contains("PeltonCopyExec"), "{text}");
    let back = cpu.on_device(DeviceChoice::Host).unwrap();
    assert!(
        explanation(&back, &over(&path, &format!("EXPLAIN {sql}"))).await.contains("copy of numbers.parquet")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_later_queries_read_are_put_beside_those_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write(&path, &numbers(140_000), 9_999, 60);
    let session = session(&copying());
    let after = twice(&session, &path, "SELECT sum(v) FROM t").await;
    assert!(after.contains("PeltonGpuExec"), "{after}");
    let k = over(&path, "EXPLAIN SELECT k, sum(v) FROM t GROUP BY k");
    let before = explanation(&session, &k).await;
    assert!(before.contains("PeltonCopyExec: encodes columns [k, v]"), "{before}");
    let after = twice(&session, &path, "SELECT k, sum(v), min(v) FROM t WHERE k <> 3 GROUP BY k").await;
    assert!(after.contains("PeltonGpuExec") && after.contains("2 of 2 row groups"), "{after}");
    // Numbers of rows need no column, and come from what is known.
    let (rows, _) = run(&session, &over(&path, "SELECT count(*) FROM t")).await;
    assert!(rows.contains("140000"), "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_has_changed_is_read_anew_and_copied_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    let sql = "SELECT sum(v), max(k), count(*) FROM t";
    let session = session(&copying());
    write(&path, &numbers(1000), 1000, 60);
    assert!(twice(&session, &path, sql).await.contains("PeltonGpuExec"));
    // As long, of the same name, another time; then the same time and another length.
    let other =
        integers(&[("k", (0..1000).map(|_| 9).collect()), ("v", (0..1000).rev().map(|v| v * 3).collect())]);
    write(&path, &other, 1000, 40);
    let text = explanation(&session, &over(&path, &format!("EXPLAIN {sql}"))).await;
    assert!(text.contains("PeltonCopyExec"), "{text}");
    assert!(twice(&session, &path, sql).await.contains("PeltonGpuExec"));
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    write(&path, &numbers(2000), 1000, 40);
    File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert!(twice(&session, &path, sql).await.contains("PeltonGpuExec"));
    // Gone: an error that names it, and the next query is as ever.
    std::fs::remove_file(&path).unwrap();
    let error = match session.query(&over(&path, sql)).await {
        Ok(query) => query.collect().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("numbers.parquet"), "{error}");
    write(&path, &numbers(10), 1000, 60);
    assert!(twice(&session, &path, sql).await.contains("PeltonGpuExec"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_folder_are_one_table_and_empty_ones_are_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("b.parquet"), &numbers(5000), 777, 60);
    write(&folder.path().join("a.parquet"), &numbers(0), 10, 60);
    write(&folder.path().join("c.parquet"), &numbers(1), 10, 60);
    let session = session(&copying());
    let sql = "SELECT k, sum(v), count(*) FROM t GROUP BY k";
    let after = twice(&session, folder.path(), sql).await;
    assert!(after.contains("copy of b.parquet and 1 more"), "{after}");
    // One more file is another set of files.
    write(&folder.path().join("d.parquet"), &numbers(100), 10, 60);
    assert!(twice(&session, folder.path(), sql).await.contains("copy of b.parquet and 2 more"));
    let none = folder.path().join("a.parquet");
    twice(&session, &none, sql).await;
    twice(&session, &none, "SELECT sum(v), min(k), count(*) FROM t").await;
}

/// One column of each type, with NULL, the extremes and what floats have.
fn all_types() -> RecordBatch {
    let none = |row: usize| row % 11 == 5;
    fn column<T>(rows: usize, none: impl Fn(usize) -> bool, of: impl Fn(usize) -> T) -> Vec<Option<T>> {
        (0..rows).map(|row| (!none(row)).then(|| of(row))).collect()
    }
    let rows = 3000;
    let float = |row: usize| match row % 8 {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::INFINITY,
        3 => f64::MIN,
        4 => f64::MIN_POSITIVE,
        _ => row as f64 / 10.0,
    };
    let text = |row: usize| match row % 5 {
        0 => String::new(),
        1 => "ä".repeat(row % 90),
        2 => format!("{}\u{10ffff}", "z".repeat(70)),
        _ => format!("text {row}"),
    };
    let i64s = |row: usize| [i64::MIN, i64::MAX, 0, row as i64][row % 4];
    let decimal = |row: usize| [-(10_i128.pow(15) - 1), 10_i128.pow(15) - 1, row as i128][row % 3];
    let wide = |row: usize| [-(10_i128.pow(38) - 1), 10_i128.pow(38) - 1, row as i128][row % 3];
    let texts: Vec<Option<String>> = column(rows, none, text);
    let few: Vec<Option<String>> = column(rows, none, |row| format!("kind {}", row % 6));
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..rows).map(|row| (!none(row)).then(|| vec![Some(row as i32), None])),
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(column(rows, none, |row| row % 3 == 0)))),
        ("i8", Arc::new(Int8Array::from(column(rows, none, |row| row as i8)))),
        ("i16", Arc::new(Int16Array::from(column(rows, none, |row| (row * 97) as i16)))),
        ("i32", Arc::new(Int32Array::from(column(rows, none, |row| [i32::MIN, i32::MAX, 7][row % 3])))),
        ("i64", Arc::new(Int64Array::from(column(rows, none, i64s)))),
        ("u8", Arc::new(UInt8Array::from(column(rows, none, |row| row as u8)))),
        ("u16", Arc::new(UInt16Array::from(column(rows, none, |row| (row * 97) as u16)))),
        ("u32", Arc::new(UInt32Array::from(column(rows, none, |row| [u32::MAX, 0, row as u32][row % 3])))),
        ("u64", Arc::new(UInt64Array::from(column(rows, none, |row| [u64::MAX, 0, row as u64][row % 3])))),
        ("f32", Arc::new(Float32Array::from(column(rows, none, |row| float(row) as f32)))),
        ("f64", Arc::new(Float64Array::from(column(rows, none, float)))),
        (
            "d15",
            Arc::new(
                Decimal128Array::from(column(rows, none, decimal)).with_precision_and_scale(15, 2).unwrap(),
            ),
        ),
        (
            "d38",
            Arc::new(
                Decimal128Array::from(column(rows, none, wide)).with_precision_and_scale(38, 10).unwrap(),
            ),
        ),
        ("day", Arc::new(Date32Array::from(column(rows, none, |row| row as i32 - 1500)))),
        (
            "us",
            Arc::new(TimestampMicrosecondArray::from(column(rows, none, |row| row as i64 * 86_399_999_999))),
        ),
        (
            "ms",
            Arc::new(
                TimestampMillisecondArray::from(column(rows, none, |row| -(row as i64) * 1001))
                    .with_timezone("UTC"),
            ),
        ),
        ("text", Arc::new(StringArray::from(texts.clone()))),
        ("few", Arc::new(StringArray::from(few))),
        (
            "bytes",
            Arc::new(BinaryArray::from(
                texts.iter().map(|t| t.as_deref().map(str::as_bytes)).collect::<Vec<_>>(),
            )),
        ),
        ("none", Arc::new(Int64Array::from(vec![None; rows]))),
        ("row", Arc::new(Int64Array::from((0..rows as i64).collect::<Vec<_>>()))),
        ("list", Arc::new(lists)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_every_type_are_those_of_the_parquet_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("types.parquet");
    let rows = all_types();
    write(&path, &rows, 700, 60);
    let session = session(&copying());
    let schema = rows.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str()).filter(|name| *name != "list");
    let all = names.collect::<Vec<_>>().join(", ");
    // Bits and all: what is drawn does not tell -0.0 from 0.0 in a sum, but does in a value.
    let after = twice(&session, &path, &format!("SELECT {all} FROM t")).await;
    assert!(after.contains("copy of types.parquet"), "{after}");
    // And those that the CPU scans of the copy: rows of one table as they are stay there.
    let on_cpu = crate::copies::session(&SessionOptions { device: DeviceChoice::AutoHost, ..copying() });
    let after = twice(&on_cpu, &path, &format!("SELECT {all} FROM t")).await;
    assert!(after.contains("copy of types.parquet") && !after.contains("PeltonGpuExec"), "{after}");
    for condition in [
        "f64 > 5",
        "f32 = 'NaN'",
        "text >= 'zzz'",
        "u64 > 9223372036854775807",
        "i64 < 0",
        "d38 > 1",
        "none IS NULL",
        "us > '1975-01-01'",
        "ms < '1969-12-31T23:59:59Z'",
        "day < '1970-01-01'",
        "few = 'kind 3'",
        "b",
        "text IS NULL AND row > 100",
        "i8 = -128",
        "u8 = 255",
        "d15 = 9999999999999.99",
    ] {
        twice(&session, &path, &format!("SELECT count(*), min(row), max(row) FROM t WHERE {condition}"))
            .await;
    }
    twice(&session, &path, "SELECT few, count(text), sum(d15), max(u32), min(i32) FROM t GROUP BY few").await;
    // A list stays with the Parquet reader, and what is beside it in a scan.
    let listed = twice(&session, &path, "SELECT row, list FROM t WHERE row < 20").await;
    assert!(listed.contains("PeltonCopyExec: Parquet alone, a column is of a type"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_plain_table_stays_with_the_parquet_reader() {
    let folder = tempfile::tempdir().unwrap();
    // Folders that name columns.
    let year = folder.path().join("year=2024");
    std::fs::create_dir(&year).unwrap();
    write(&year.join("a.parquet"), &numbers(100), 10, 60);
    let session = session(&copying());
    let sql = format!("SELECT year, sum(v) FROM '{}' GROUP BY year", folder.path().display());
    for _ in 0..2 {
        assert!(run(&session, &sql).await.0.contains("| 2024 | 4950 "));
    }
    let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
    assert!(text.contains("Parquet alone, folders name columns"), "{text}");
    // A file that is named twice has its rows twice, if DataFusion thinks so.
    let file = folder.path().join("twice.parquet");
    write(&file, &numbers(100), 10, 60);
    assert!(twice(&session, &file, "SELECT sum(v) FROM t").await.contains("PeltonGpuExec"));
    let both = vec![file.to_str().unwrap(), file.to_str().unwrap()];
    let both = session.context().read_parquet(both, ParquetReadOptions::default()).await.unwrap();
    session.context().register_table("both", both.into_view()).unwrap();
    let plain = SessionContext::new();
    let twice_named = vec![file.to_str().unwrap(), file.to_str().unwrap()];
    let expected = plain.read_parquet(twice_named, ParquetReadOptions::default()).await.unwrap();
    let expected = expected.count().await.unwrap();
    for _ in 0..2 {
        let (rows, _) = run(&session, "SELECT count(v) FROM both WHERE v >= 0").await;
        assert!(rows.contains(&format!("| {expected} ")), "{rows}");
    }
    // Files whose columns are of several types: the one that differs stays, the other is copied.
    let mixed = tempfile::tempdir().unwrap();
    write(&mixed.path().join("a.parquet"), &numbers(100), 10, 60);
    let ints = Int32Array::from((0..50).collect::<Vec<_>>());
    let longs = Int64Array::from((0..50).collect::<Vec<_>>());
    let narrow: Vec<(&str, ArrayRef)> = vec![("k", Arc::new(ints)), ("v", Arc::new(longs))];
    write(&mixed.path().join("b.parquet"), &RecordBatch::try_from_iter(narrow).unwrap(), 10, 60);
    let named = |sql: &str| over(mixed.path(), sql);
    for _ in 0..2 {
        assert!(run(&session, &named("SELECT sum(k), sum(v) FROM t")).await.0.contains("| 6175 "));
        assert!(run(&session, &named("SELECT sum(v) FROM t")).await.0.contains("| 6175 "));
    }
    let text = explanation(&session, &named("EXPLAIN SELECT sum(k) FROM t")).await;
    assert!(text.contains("column 'k' is not of one type in every file"), "{text}");
    let text = explanation(&session, &named("EXPLAIN SELECT sum(v) FROM t")).await;
    assert!(text.contains("PeltonGpuExec"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_larger_than_copies_may_be_is_not_copied_and_the_coldest_copy_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let spill = |bytes: u64| SpillOptions {
        directory: Some(folder.path().join("spill")),
        limit: SpillLimit::Bytes(bytes),
    };
    let paths: Vec<PathBuf> = (0..3).map(|file| folder.path().join(format!("{file}.parquet"))).collect();
    // As good as random: 8 bytes a row.
    let noise = |row: i64| (0..3).fold(row, |x, _| (x ^ (x >> 29)).wrapping_mul(0x1e37_79b9_7f4a_7c15));
    let rows = integers(&[("v", (1..=100_000).map(noise).collect())]);
    paths.iter().for_each(|path| write(path, &rows, 50_000, 60));
    let sql = "SELECT count(v), min(v), max(v) FROM t WHERE v > 5";
    let none = session(&SessionOptions { spill: spill(1_000_000), ..copying() });
    let text = twice(&none, &paths[0], sql).await;
    assert!(text.contains("Parquet alone, column 'v'") && text.contains("--spill-limit"), "{text}");
    // Room for two of 800 KB, not for three.
    let two = session(&SessionOptions { spill: spill(4_000_000), ..copying() });
    for path in &paths {
        assert!(twice(&two, path, sql).await.contains("PeltonGpuExec"));
    }
    let planned = |path: PathBuf| {
        let session = &two;
        async move { explanation(session, &over(&path, &format!("EXPLAIN {sql}"))).await }
    };
    assert!(planned(paths[0].clone()).await.contains("encodes columns [v]"));
    assert!(planned(paths[2].clone()).await.contains("PeltonGpuExec"));
    // Nothing with a name is left.
    assert_eq!(std::fs::read_dir(folder.path().join("spill")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_stops_before_the_end_copies_nothing_and_copies_come_behind_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write(&path, &numbers(50_000), 1000, 60);
    let behind = session(&SessionOptions { copy_columns: CopyColumns::Behind, ..on_host() });
    let sql = "SELECT sum(v) FROM t";
    let (rows, _) = run(&behind, &over(&path, "SELECT v FROM t LIMIT 1")).await;
    assert_eq!(rows.lines().count(), 5);
    let there = async {
        while !explanation(&behind, &over(&path, &format!("EXPLAIN {sql}"))).await.contains("PeltonGpuExec") {
            run(&behind, &over(&path, sql)).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), there).await.expect("a copy within a minute");
    assert_same_rows(&run(&behind, &over(&path, sql)).await.0, &plainly(&path, sql).await, sql);
    let never = session(&SessionOptions { copy_columns: CopyColumns::Never, ..on_host() });
    let text = twice(&never, &path, sql).await;
    assert!(text.contains("DataSourceExec") && !text.contains("PeltonCopyExec"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_copied_under_its_etag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    let served = Served::default();
    let put = |rows: &RecordBatch| {
        write(&path, rows, 1000, 60);
        served.put("/a%20b/numbers.parquet", std::fs::read(&path).unwrap());
    };
    put(&numbers(20_000));
    let sql = format!("SELECT sum(v), count(*), max(k) FROM '{}/a b/numbers.parquet' AS t", served.start());
    let plain = "SELECT sum(v), count(*), max(k) FROM t";
    let session = session(&copying());
    for rows in
        [numbers(20_000), numbers(10_000), integers(&[("k", vec![1; 10_000]), ("v", vec![2; 10_000])])]
    {
        put(&rows);
        for round in 0..2 {
            let before = *served.sent.lock().unwrap();
            assert_same_rows(&run(&session, &sql).await.0, &plainly(&path, plain).await, "an object");
            let sent = *served.sent.lock().unwrap() - before;
            assert!(round == 0 || sent < 10_000, "the second time the copy is read, not {sent} bytes");
        }
        let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
        assert!(text.contains("PeltonGpuExec") && text.contains("copy of numbers.parquet"), "{text}");
    }
}

/// The tables of TPC-H as external tables over Parquet files, a table in one file or several.
async fn tpch(folder: &Path, options: &SessionOptions) -> PeltonSession {
    let session = session(options);
    for table in tables(Dataset::Tpch, SCALE).unwrap() {
        let rows: Vec<_> = batches(Dataset::Tpch, table.name, SCALE, 0, 1, 42).unwrap().collect();
        let rows = concat_batches(&table.schema, &rows).unwrap();
        let directory = folder.join(table.name);
        std::fs::create_dir(&directory).unwrap();
        let files = if table.name == "lineitem" { 3 } else { 1 };
        let length = rows.num_rows().div_ceil(files);
        for file in 0..files {
            let part = rows.slice(file * length, length.min(rows.num_rows() - file * length));
            write(&directory.join(format!("{file}.parquet")), &part, 1000, 60);
        }
        let (name, location) = (table.name, directory.display());
        run(&session, &format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{location}/'"))
            .await;
    }
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_of_tpch_over_parquet_has_the_same_rows_and_runs_on_the_device_the_second_time() {
    let folder = tempfile::tempdir().unwrap();
    let session = tpch(folder.path(), &copying()).await;
    let oracle = load(Dataset::Tpch);
    for query in queries(Dataset::Tpch) {
        let sql = query.sql_for_scale(SCALE);
        let expected = oracle.expected(&sql).await;
        // A query reads some tables only after others had rows; what is there the second time depends on none.
        for round in 0..3 {
            let (actual, ran) = run(&session, &sql).await;
            assert_same_rows(&actual, &expected, &format!("{}, round {round}", query.name));
            if round == 2 {
                assert!(!device_nodes(&ran).is_empty(), "{} ran on the CPU", query.name);
            }
        }
        let text = explanation(&session, &format!("EXPLAIN {sql}")).await;
        assert!(!text.contains("DataSourceExec"), "{}: {text}", query.name);
    }
}
