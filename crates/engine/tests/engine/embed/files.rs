//! Files by path: folders that name columns, patterns, and what is said of names that are none.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::statistics::Statistics;
use pelton_engine::{PeltonSession, SessionOptions};
use pelton_error::ErrorKind;

use crate::common::run;

async fn copy(session: &PeltonSession, query: &str, target: &Path) {
    fs::create_dir_all(target.parent().unwrap()).unwrap();
    session
        .query(&format!("COPY ({query}) TO '{}'", target.display()))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
}

/// `sales/year=…/country=…/part.parquet` with rows `v`, one folder of NULL.
async fn sales(session: &PeltonSession, directory: &Path) -> String {
    let folders = [("2023", "de"), ("2023", "a%20b"), ("2024", "de"), ("2024", "__HIVE_DEFAULT_PARTITION__")];
    for (index, (year, country)) in folders.iter().enumerate() {
        let path = directory.join(format!("sales/year={year}/country={country}/part.parquet"));
        let (first, last) = (index * 100, index * 100 + 99);
        copy(session, &format!("SELECT v FROM generate_series({first}, {last}) AS g(v)"), &path).await;
    }
    fs::write(directory.join("sales/_SUCCESS"), "").unwrap();
    directory.join("sales").display().to_string()
}

fn session() -> PeltonSession {
    PeltonSession::open(None, &SessionOptions { threads: Some(2), ..SessionOptions::default() }).unwrap()
}

/// The rows of `sql`, one text each, cells apart by spaces.
async fn rows(session: &PeltonSession, sql: &str) -> Vec<String> {
    let (drawn, _) = run(session, sql).await;
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    };
    drawn.lines().filter(|line| line.starts_with('|')).skip(1).map(cells).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_parquet_file_is_said_to_be_none() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let long = |length: u32| [b"PAR1".as_slice(), &[0; 20], &length.to_le_bytes(), b"PAR1"].concat();
    let cases = [
        Vec::new(),
        b"x".to_vec(),
        b"PAR1".to_vec(),
        b"PAR1PAR1".to_vec(),
        long(20),
        long(u32::MAX),
        long(1 << 30),
    ];
    for (index, bytes) in cases.into_iter().enumerate() {
        let path = directory.path().join(format!("{index}.parquet"));
        std::fs::write(&path, bytes).unwrap();
        let error = session.query(&format!("SELECT * FROM '{}'", path.display())).await.err().unwrap();
        let message = error.to_string();
        assert!(message.contains(&format!("{index}.parquet is not a Parquet file: ")), "{message}");
        assert!(!message.contains("bug"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_in_lists_of_json_keep_their_digits() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let path = directory.path().join("a.jsonl");
    std::fs::write(&path, "{\"a\":[9007199254740993,1.5]}\n{\"a\":[3]}\n").unwrap();
    let sql = format!("SELECT a[1] FROM '{}'", path.display());
    assert_eq!(rows(&session, &sql).await, ["9007199254740993", "3"]);
    std::fs::write(directory.path().join("b.jsonl"), "{\"a\":[1]}\n{\"a\":{\"b\":1}}\n").unwrap();
    let sql = format!("SELECT a FROM '{}'", directory.path().join("b.jsonl").display());
    let message = session.query(&sql).await.err().unwrap().to_string();
    assert!(message.contains("column 'a' is a list in some rows and an object in others"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_are_columns_with_types_and_nulls() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let sales = sales(&session, directory.path()).await;
    let by =
        format!("SELECT year, country, count(*), sum(v) FROM '{sales}' GROUP BY year, country ORDER BY 1, 2");
    assert_eq!(
        rows(&session, &by).await,
        ["2023 a b 100 14950", "2023 de 100 4950", "2024 de 100 24950", "2024 100 34950"]
    );
    let counted = format!("SELECT count(*), count(country), min(year), max(year) FROM '{sales}'");
    assert_eq!(rows(&session, &counted).await, ["400 300 2023 2024"]);
    let typed = format!("SELECT arrow_typeof(year), arrow_typeof(country) FROM '{sales}' LIMIT 1");
    assert_eq!(rows(&session, &typed).await, ["Int64 Utf8View"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_of_files_without_rows_are_no_values() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let sales = sales(&session, directory.path()).await;
    let empty = directory.path().join("sales/year=2025/country=fr/part.parquet");
    copy(&session, "SELECT v FROM generate_series(1, 1) AS g(v) WHERE v > 1", &empty).await;
    let sql = format!("SELECT min(year), max(year), max(country) FROM '{sales}'");
    assert_eq!(rows(&session, &sql).await, ["2023 2024 de"]);
    let sql = format!("SELECT count(DISTINCT year) FROM '{sales}' WHERE year = 2025");
    assert_eq!(rows(&session, &sql).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_on_folders_opens_only_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let sales = sales(&session, directory.path()).await;
    let sql = format!("SELECT sum(v) FROM '{sales}' WHERE year > 2023 AND country IS NOT NULL");
    let (drawn, query) = run(&session, &sql).await;
    assert!(drawn.contains("24950"), "{drawn}");
    let plan =
        datafusion::physical_plan::displayable(query.physical_plan().as_ref()).indent(false).to_string();
    assert_eq!(plan.matches("part.parquet").count(), 1, "{plan}");
    assert_eq!(rows(&session, &format!("SELECT v FROM '{sales}' WHERE year = 1999")).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_names_columns_from_its_first_wildcard_on() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let sales = sales(&session, directory.path()).await;
    let sql = format!("SELECT * FROM '{sales}/year=2023/country=*/*.parquet' ORDER BY v LIMIT 1");
    assert_eq!(rows(&session, &sql).await, ["0 de"]);
    let sql = format!(
        "SELECT year, count(*) FROM '{sales}/year=*/country=de/part.parquet' GROUP BY year ORDER BY 1"
    );
    assert_eq!(rows(&session, &sql).await, ["2023 100", "2024 100"]);
    let one = format!("SELECT * FROM '{sales}/year=2023/country=de/part.parquet' ORDER BY v LIMIT 1");
    assert_eq!(rows(&session, &one).await, ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_the_files_hold_stands() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    copy(&session, "SELECT 7 AS k, 1 AS v", &directory.path().join("t/k=9/a.parquet")).await;
    let table = directory.path().join("t").display().to_string();
    assert_eq!(rows(&session, &format!("SELECT * FROM '{table}'")).await, ["7 1"]);
}

/// A Parquet file of one column `a`, a row group for each two rows.
fn write_column(path: &Path, values: ArrayRef) {
    let batch = RecordBatch::try_from_iter_with_nullable([("a", values, true)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2)).build();
    let file = fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Puts what `statistics` makes of the statistics of each row group into the footer of the file at `path`.
fn rewrite_statistics(path: &Path, statistics: impl Fn(usize) -> Option<Statistics>) {
    let file = fs::File::open(path).unwrap();
    let footer = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let column = |index: usize, column: &ColumnChunkMetaData| {
        let builder = column.clone().into_builder();
        let builder = match statistics(index) {
            Some(statistics) => builder.set_statistics(statistics),
            None => builder.clear_statistics(),
        };
        builder.set_column_index_offset(None).set_column_index_length(None).build().unwrap()
    };
    let row_group = |(index, group): (usize, &RowGroupMetaData)| {
        let columns = group.columns().iter().map(|chunk| column(index, chunk)).collect();
        group.clone().into_builder().set_column_metadata(columns).build().unwrap()
    };
    let row_groups = footer.row_groups().iter().enumerate().map(row_group).collect();
    let footer = footer.into_builder().set_row_groups(row_groups).build();
    let mut bytes = fs::read(path).unwrap();
    // The footer ends with its length and the magic bytes.
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
    bytes.truncate(end - length as usize);
    ParquetMetaDataWriter::new(&mut bytes, &footer).finish().unwrap();
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_count_only_where_footers_tell_them() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let file = |name: &str| directory.path().join(name);
    let all = |name: &str| format!("FROM '{}'", file(name).display());
    // Bounds of INTEGER are none of BIGINT.
    write_column(&file("1.parquet"), Arc::new(Int32Array::from(vec![1, 1000])));
    write_column(&file("2.parquet"), Arc::new(Int64Array::from(vec![5, 10])));
    let sql = format!("SELECT min(a), max(a), count(a) {}", all("*.parquet"));
    assert_eq!(rows(&session, &sql).await, ["1 1000 4"]);
    // Of the second row group, nothing is known.
    write_column(&file("some.parquet"), Arc::new(Int64Array::from(vec![1, 2, 30, 40])));
    let of_first =
        |index: usize| (index == 0).then(|| Statistics::int64(Some(1), Some(2), None, Some(0), false));
    rewrite_statistics(&file("some.parquet"), of_first);
    let sql = format!("SELECT min(a), max(a), count(a) {}", all("some.parquet"));
    assert_eq!(rows(&session, &sql).await, ["1 40 4"]);
    let location = file("some.parquet");
    let declared = format!("CREATE EXTERNAL TABLE some STORED AS PARQUET LOCATION '{}'", location.display());
    session.query(&declared).await.unwrap().collect().await.unwrap();
    assert_eq!(rows(&session, "SELECT min(a), max(a), count(a) FROM some").await, ["1 40 4"]);
    assert_eq!(rows(&session, &format!("SELECT a {} WHERE a > 30", all("some.parquet"))).await, ["40"]);
    // NULLs are not counted.
    write_column(&file("nulls.parquet"), Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)])));
    rewrite_statistics(&file("nulls.parquet"), |_| Some(Statistics::int64(None, None, None, None, false)));
    let sql = format!("SELECT min(a), max(a), count(a) {}", all("nulls.parquet"));
    assert_eq!(rows(&session, &sql).await, ["1 4 3"]);
    let sql = format!("SELECT count(*) {} WHERE a IS NULL", all("nulls.parquet"));
    assert_eq!(rows(&session, &sql).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_groups_are_not_skipped_by_what_many_values_are_cast_to() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let path = directory.path().join("prices.parquet");
    let prices = "SELECT CAST(v AS DECIMAL(9, 2)) AS price FROM (VALUES (1.25), (1.26)) AS t(v)";
    copy(&session, prices, &path).await;
    let sql = format!("SELECT price FROM '{}' WHERE CAST(price AS INTEGER) = 1 ORDER BY 1", path.display());
    assert_eq!(rows(&session, &sql).await, ["1.25", "1.26"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_nothing_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let session = session();
    let message = async |sql: String| session.query(&sql).await.err().expect("nothing is there").to_string();
    let missing = message("SELECT * FROM 'no/such.parquet'".into()).await;
    assert!(missing.contains("not found") && missing.contains("--warehouse"), "{missing}");
    let unmatched = message(format!("SELECT * FROM '{}/*.parquet'", directory.path().display())).await;
    assert!(unmatched.contains("names no file that can be read"), "{unmatched}");
    fs::write(directory.path().join("x.docx"), "x").unwrap();
    let unknown = message(format!("SELECT * FROM '{}/x.docx'", directory.path().display())).await;
    assert!(unknown.contains("the name does not tell the format"), "{unknown}");
    let no_bucket = message("SELECT * FROM 's3:///k.parquet'".into()).await;
    assert!(no_bucket.contains("the bucket is missing"), "{no_bucket}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_named() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error =
        session().query(&format!("SELECT * FROM 'http://127.0.0.1:{port}/a.parquet'")).await.err().unwrap();
    assert_eq!(error.kind(), &ErrorKind::Io);
    let message = error.to_string();
    assert!(message.contains("cannot connect to 127.0.0.1") && message.contains("a.parquet"), "{message}");
}
