//! What fails for some rows, beside what drops them.

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};

use crate::common::{Tables, integers};

async fn count(session: &PeltonSession, sql: &str) -> Result<i64, String> {
    let query = session.query(sql).await.map_err(|error| error.to_string())?;
    let batches = query.collect().await.map_err(|error| error.to_string())?;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).expect("one row");
    assert_eq!(batch.column(0).null_count(), 0, "{sql}");
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0))
}

/// Of a table, of rows that are no table, and of both joined.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_guard_what_stands_beside_them() {
    let tables = Tables::new();
    tables.add("t", integers(&[("b", (0..5000).collect()), ("c", vec![3; 5000])]), 1024, vec![]);
    let options = SessionOptions { threads: Some(2), device: DeviceChoice::Cpu, ..SessionOptions::default() };
    let session = tables.session(&options);
    for from in ["t", "(SELECT * FROM generate_series(0, 4999) AS g(b), (VALUES (3)) AS v(c))"] {
        for (condition, expected) in [
            ("b <> 0 AND 10 / b > 0", 10),
            ("10 / b > 0 AND b <> 0", 10),
            ("b <> 0 AND 10 % b = 1 AND b < 100", 2),
            ("b = 0 OR 10 / b > 0", 11),
            ("NOT (b = 0 OR 10 / b > 0)", 4989),
            ("c = 4 OR (b <> 0 AND 10 / b > 0)", 10),
            ("CASE WHEN b <> 0 THEN 10 / b > 0 ELSE false END", 10),
            ("CASE WHEN b = 0 THEN true WHEN 10 / b > 0 THEN true ELSE false END", 11),
            ("10 / nullif(b, 0) > 0", 10),
            ("b <> 7 AND CAST(CASE WHEN b = 7 THEN 'x' ELSE b::TEXT END AS BIGINT) < 10", 9),
        ] {
            let sql = format!("SELECT count(*) FROM {from} AS r WHERE {condition}");
            assert_eq!(count(&session, &sql).await, Ok(expected), "{sql}");
        }
        for (sql, expected) in [
            (
                format!(
                    "SELECT count(*) FROM (SELECT * FROM {from} AS r WHERE b <> 0) AS q WHERE 10 / b > 0"
                ),
                10,
            ),
            (
                format!(
                    "SELECT count(*) FROM {from} AS r JOIN t AS s ON r.b = s.b AND r.b <> 0 AND 10 / s.b > 0 WHERE s.b > 0"
                ),
                10,
            ),
            (format!("SELECT count(CASE WHEN b <> 0 AND 10 / b > 0 THEN 1 END) FROM {from} AS r"), 10),
            (format!("SELECT count(*) FILTER (WHERE b <> 0 AND 10 / b > 0) FROM {from} AS r"), 10),
        ] {
            assert_eq!(count(&session, &sql).await, Ok(expected), "{sql}");
        }
        let unguarded = count(&session, &format!("SELECT count(*) FROM {from} AS r WHERE 10 / b > 0")).await;
        assert!(unguarded.is_err_and(|error| error.contains("Divide by zero")));
    }
}
