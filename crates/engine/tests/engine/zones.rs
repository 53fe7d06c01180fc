//! Instants, wall clocks and the session's time zone. Expected values are PostgreSQL's, as Arrow writes them.

use std::sync::Arc;

use arrow::array::{RecordBatch, TimestampMicrosecondArray};

use crate::spellings::{check, check_error, session};

#[tokio::test]
async fn timestamptz_is_an_instant_before_a_zone_is_set() {
    let session = session();
    for (value, expected) in [
        ("TIMESTAMPTZ '2024-07-01 12:00:00+02'", "2024-07-01T10:00:00Z"),
        ("CAST('2024-07-01 12:00:00+02' AS TIMESTAMPTZ)", "2024-07-01T10:00:00Z"),
        ("TIMESTAMPTZ '2024-07-01 12:00:00+02' AT TIME ZONE 'America/New_York'", "2024-07-01T06:00:00"),
        ("TIMESTAMPTZ '2024-07-01 12:00:00+02' AT TIME ZONE 'asia/tokyo'", "2024-07-01T19:00:00"),
        ("TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Asia/Tokyo'", "2024-07-01T03:00:00Z"),
        (
            "TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Asia/Tokyo' AT TIME ZONE 'UTC'",
            "2024-07-01T03:00:00",
        ),
        ("timezone('Asia/Tokyo', TIMESTAMP '2024-07-01 12:00:00')", "2024-07-01T03:00:00Z"),
        ("DATE '2024-01-01' AT TIME ZONE 'Asia/Tokyo'", "2024-01-01T09:00:00"),
        ("TIMESTAMP '2024-10-27 02:30:00' AT TIME ZONE 'Europe/Berlin'", "2024-10-27T01:30:00Z"),
        ("TIMESTAMP '2024-03-31 02:30:00' AT TIME ZONE 'Europe/Berlin'", "2024-03-31T01:30:00Z"),
        ("TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE NULL", "NULL"),
        ("CAST(TIMESTAMPTZ '2024-07-01 12:00:00+02' AS TIMESTAMP)", "2024-07-01T10:00:00"),
        ("arrow_typeof(now())", "Timestamp(ns, \"UTC\")"),
        ("arrow_typeof(localtimestamp)", "Timestamp(ns)"),
        ("arrow_typeof(localtime)", "Time64(ns)"),
        ("now() AT TIME ZONE 'Asia/Tokyo' - localtimestamp = INTERVAL '9 hours'", "true"),
        ("CAST(now() AS DATE) = current_date", "true"),
        ("now() - INTERVAL '1 day' < now()", "true"),
    ] {
        check(&session, &format!("SELECT {value}"), &[expected]).await;
    }
    check_error(&session, "SELECT now() AT TIME ZONE 'nowhere'", "unknown time zone 'nowhere'").await;
    check_error(&session, "SELECT now() AT TIME ZONE 2", "name of a zone").await;
    check_error(&session, "SELECT TIME '10:00:00' AT TIME ZONE 'UTC'", "takes a timestamp").await;
}

#[tokio::test]
async fn columns_with_a_zone_compare_as_instants() {
    let session = session();
    // 2024-07-01 10:00 and 11:00 in UTC.
    let instants = TimestampMicrosecondArray::from(vec![1_719_828_000_000_000, 1_719_831_600_000_000]);
    let batch = RecordBatch::try_from_iter([("at", Arc::new(instants.with_timezone("Europe/Berlin")) as _)]);
    session.context().register_batch("moments", batch.unwrap()).unwrap();
    let twelve = "TIMESTAMPTZ '2024-07-01 12:00:00+02'";
    for (sql, expected) in [
        (format!("SELECT count(*) FROM moments WHERE at = {twelve}"), "1"),
        (format!("SELECT count(*) FROM moments WHERE at > {twelve}"), "1"),
        (format!("SELECT count(*) FROM moments JOIN (SELECT {twelve} AS t) AS u ON at = t"), "1"),
        (
            format!("SELECT count(DISTINCT at) FROM (SELECT at FROM moments UNION ALL SELECT {twelve}) AS u"),
            "2",
        ),
        (
            "SELECT count(*) FROM moments WHERE at AT TIME ZONE 'Asia/Tokyo' = TIMESTAMP '2024-07-01 19:00:00'".to_owned(),
            "1",
        ),
    ] {
        check(&session, &sql, &[expected]).await;
    }
}

#[tokio::test]
async fn declared_columns_are_instants() {
    let session = session();
    check(&session, "CREATE TABLE t (a TIMESTAMPTZ, z VARCHAR)", &[]).await;
    let rows =
        "INSERT INTO t VALUES ('2024-07-01 12:00:00+02', 'Asia/Tokyo'), ('2024-01-01 00:00:00Z', 'UTC')";
    check(&session, rows, &["2"]).await;
    check(&session, "SELECT a FROM t ORDER BY a", &["2024-01-01T00:00:00Z", "2024-07-01T10:00:00Z"]).await;
    let expected = ["2024-01-01T00:00:00", "2024-07-01T19:00:00"];
    check(&session, "SELECT a AT TIME ZONE z AS x FROM t ORDER BY x", &expected).await;
}

#[tokio::test]
async fn a_zone_that_is_set_shows_instants_until_it_is_reset() {
    let session = session();
    let instant = "SELECT TIMESTAMPTZ '2024-07-01 10:00:00Z'";
    for (set, expected) in [
        ("SET TIME ZONE 'Europe/Berlin'", "2024-07-01T12:00:00+02:00"),
        ("SET timezone = '+05:30'", "2024-07-01T15:30:00+05:30"),
        ("RESET timezone", "2024-07-01T10:00:00Z"),
        ("SET TIME ZONE 'Asia/Tokyo'", "2024-07-01T19:00:00+09:00"),
        ("SET TIME ZONE LOCAL", "2024-07-01T10:00:00Z"),
    ] {
        check(&session, set, &[]).await;
        check(&session, instant, &[expected]).await;
    }
    check(&session, "SET TIME ZONE 'Asia/Tokyo'", &[]).await;
    let clock = "SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'UTC'";
    check(&session, clock, &["2024-07-01T21:00:00+09:00"]).await;
}
