//! Estimates against actual rows, on data as uniform as the formulas assume.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::physical_plan::collect;

use crate::support::{StatisticsTable, session};

/// Largest acceptable ratio between estimate and truth, in either direction.
const Q_ERROR_MAX: f64 = 2.0;

/// A column by name and its value in each row.
type Column = (&'static str, fn(i64) -> i64);

fn table(name: &str, rows: i64, columns: &[Column]) -> StatisticsTable {
    let columns = columns.iter().map(|(name, value)| {
        let array: Int64Array = (0..rows).map(|row| Some(value(row))).collect();
        (*name, Arc::new(array) as ArrayRef)
    });
    StatisticsTable::counted(name, RecordBatch::try_from_iter(columns).unwrap())
}

#[tokio::test]
async fn estimates_of_uniform_data_are_within_a_factor_of_two() {
    let tables = [
        table("fact", 2000, &[("id", |i| i), ("dim_id", |i| i % 100), ("part_id", |i| i / 80)]),
        table("dim", 100, &[("id", |i| i), ("kind", |i| i % 10)]),
        table("part", 50, &[("id", |i| i), ("kind", |i| i % 5)]),
    ];
    for sql in [
        "SELECT * FROM fact WHERE id < 500",
        "SELECT * FROM fact WHERE id BETWEEN 100 AND 299 AND dim_id IN (1, 2, 3, 4, 5)",
        "SELECT * FROM fact WHERE id < 500 OR dim_id = 7",
        "SELECT * FROM fact JOIN dim ON dim_id = dim.id",
        "SELECT * FROM fact JOIN dim ON dim_id = dim.id WHERE kind = 3",
        "SELECT * FROM fact JOIN dim ON dim_id = dim.id JOIN part ON part_id = part.id WHERE dim.kind = 3 AND part.kind = 1",
        "SELECT * FROM fact a JOIN fact b ON a.dim_id = b.dim_id",
        "SELECT * FROM dim, part",
        "SELECT * FROM dim JOIN part ON dim.kind = part.kind",
        "SELECT * FROM part LEFT JOIN fact ON part_id = part.id",
        "SELECT * FROM part WHERE id IN (SELECT part_id FROM fact)",
        "SELECT * FROM part WHERE id NOT IN (SELECT part_id FROM fact)",
        "SELECT * FROM dim WHERE EXISTS (SELECT 1 FROM fact WHERE dim_id = dim.id AND fact.id < 20)",
        "SELECT dim_id, count(*) FROM fact GROUP BY dim_id",
        "SELECT dim_id, part_id, count(*) FROM fact GROUP BY dim_id, part_id",
        "SELECT kind, count(*) FROM fact JOIN dim ON dim_id = dim.id GROUP BY kind",
        "SELECT DISTINCT part_id FROM fact WHERE dim_id = 5",
        "SELECT count(*) FROM fact",
        "SELECT id FROM dim UNION ALL SELECT id FROM part",
        "SELECT id FROM fact ORDER BY id LIMIT 10 OFFSET 5",
        "SELECT id, row_number() OVER (PARTITION BY dim_id ORDER BY id) FROM fact",
    ] {
        for partitions in [1, 3] {
            let context = session(&tables, true, partitions);
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let estimated = pelton_planner::estimated_rows(&plan).expect("all tables are counted");
            let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
            let actual = batches.iter().map(RecordBatch::num_rows).sum::<usize>() as f64;
            let q_error = (estimated / actual).max(actual / estimated);
            let text = pelton_planner::annotate(&plan, true);
            assert!(q_error <= Q_ERROR_MAX, "{sql}: {estimated} rows, not {actual}\n{text}");
        }
    }
}
