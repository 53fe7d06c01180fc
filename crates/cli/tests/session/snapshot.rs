//! A query reads the table as it was when it was planned, whatever happens to the table meanwhile.

use futures::StreamExt;
use pelton_engine::SessionOptions;
use pelton_store::WriteMode;
use pelton_testkit::random_rows;

use crate::harness::{Place, answer, options};

#[tokio::test(flavor = "multi_thread")]
async fn an_open_query_keeps_its_snapshot() {
    let place = Place::new();
    let old = random_rows(1, 5000);
    place.load("t", &old, WriteMode::Create, 100);
    let session = place.session(&SessionOptions { threads: Some(1), batch_rows: 50, ..options() });
    let planned = session.query("SELECT id, text, big FROM t").await.unwrap();
    let running = session.query("SELECT id, text, big FROM t").await.unwrap();
    let mut stream = running.stream().await.unwrap();
    let mut rows = vec![stream.next().await.unwrap().unwrap()];

    place.load("t", &random_rows(2, 700), WriteMode::Append, 100);
    place.load("t", &random_rows(3, 10), WriteMode::Replace, 100);
    assert_eq!(place.files("t").len(), 3, "the replaced segments should be gone");

    while let Some(batch) = stream.next().await {
        rows.push(batch.unwrap());
    }
    let count =
        |batches: &[arrow::array::RecordBatch]| batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
    assert_eq!(count(&rows), 5000);
    assert_eq!(count(&planned.collect().await.unwrap()), 5000);
    let ids = |batches: &[arrow::array::RecordBatch]| {
        use arrow::array::AsArray;
        let values = |batch: &arrow::array::RecordBatch| {
            batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
        };
        let mut ids: Vec<i64> = batches.iter().flat_map(values).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&rows), (0..5000).collect::<Vec<i64>>());
    let now = answer(&session, "SELECT count(*) AS n, max(id) AS top FROM t").await.unwrap();
    assert!(now.contains("| 10 | 9   |"), "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_query_outlives_its_table() {
    let place = Place::new();
    place.load("t", &random_rows(1, 1000), WriteMode::Create, 100);
    let session = place.session(&options());
    let planned = session.query("SELECT id, word FROM t WHERE id >= 0").await.unwrap();
    pelton_store::Warehouse::open(place.files("t")[0].parent().unwrap().parent().unwrap())
        .unwrap()
        .drop_table("t")
        .unwrap();
    let rows: usize = planned.collect().await.unwrap().iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows, 1000);
    assert!(answer(&session, "SELECT * FROM t").await.unwrap_err().to_string().contains("not found"));
}
