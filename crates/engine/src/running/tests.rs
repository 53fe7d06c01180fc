//! Windows in one pass, beside DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext, col};

use super::{RunningWindowExec, RunningWindows};
use crate::numbers::with_numbers;

const ROWS: usize = 2000;

fn numbers(seed: u64, below: u64, null_every: usize) -> Vec<Option<i64>> {
    let mut state = seed;
    let next = |row: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (!row.is_multiple_of(null_every)).then_some(((state >> 33) % below) as i64 - 20)
    };
    (1..=ROWS).map(next).collect()
}

/// A session over `t`, in batches of `batch_rows` rows.
fn session(batch_rows: usize) -> SessionContext {
    let v = numbers(4, 100, 5);
    let of = |numbers: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(numbers.to_vec())) };
    let text = |value: &Option<i64>| value.map(|value| format!("text number {value}"));
    let decimals = v.iter().map(|v| v.map(i128::from)).collect::<Decimal128Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("many", of(&numbers(1, 300, 13))),
        ("few", of(&numbers(2, 3, 17))),
        ("txt", Arc::new(numbers(3, 200, 19).iter().map(text).collect::<StringViewArray>())),
        ("k", of(&numbers(5, 40, 11))),
        ("row", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("v", of(&v)),
        ("i", Arc::new(v.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>())),
        ("u", Arc::new(v.iter().map(|v| v.map(|v| v.unsigned_abs())).collect::<UInt64Array>())),
        ("d", Arc::new(decimals.with_precision_and_scale(12, 2).unwrap())),
        ("f", Arc::new(v.iter().map(|v| v.map(|v| v as f64 / 8.0)).collect::<Float64Array>())),
        ("day", Arc::new(v.iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>())),
        ("ts", Arc::new(v.iter().copied().collect::<TimestampMicrosecondArray>().with_timezone("UTC"))),
        ("none", Arc::new(Int64Array::from(vec![None; ROWS]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let config = SessionConfig::new().with_target_partitions(1).with_batch_size(batch_rows);
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let session = SessionContext::new_with_state(with_numbers(state).build());
    session
        .register_table("t", Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap()))
        .unwrap();
    session
}

fn count(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let mut count = 0;
    plan.apply(|node| {
        count += usize::from(node.is::<RunningWindowExec>());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    count
}

/// Runs `sql` both ways; gives how many windows run in one pass.
fn check(sql: &str, batch_rows: usize) -> usize {
    let pool = tokio::runtime::Builder::new_current_thread().build().unwrap();
    pool.block_on(async {
        let session = session(batch_rows);
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let expected = collect(plan, session.task_ctx()).await.unwrap();
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let plan = RunningWindows.optimize(plan, &ConfigOptions::new()).unwrap();
        let found = collect(Arc::clone(&plan), session.task_ctx()).await.unwrap();
        let schema = plan.schema();
        let [found, expected] = [found, expected].map(|batches| concat_batches(&schema, &batches).unwrap());
        assert!(found == expected, "{sql} in batches of {batch_rows} rows");
        count(&plan)
    })
}

const CALLS: [&str; 41] = [
    "row_number()",
    "rank()",
    "dense_rank()",
    "count(*)",
    "count(v)",
    "count(txt)",
    "count(none)",
    "sum(v)",
    "sum(u)",
    "sum(d)",
    "sum(f)",
    "sum(none)",
    "sum(i)",
    "avg(d)",
    "avg(i)",
    "avg(u)",
    "sum(v / 4.0)",
    "avg(f)",
    "avg(v)",
    "min(v)",
    "max(v)",
    "min(i)",
    "max(d)",
    "min(day)",
    "max(ts)",
    "min(u)",
    "max(none)",
    "lag(v)",
    "lag(txt, 3)",
    "lag(d, 2, 7.5)",
    "lag(v, 0)",
    "lag(txt, 1, 'none')",
    "lag(v, -2)",
    "lead(v)",
    "lead(txt, 20, '')",
    "lead(f, 200)",
    "lead(ts, -1)",
    "lead(i, 1, 5)",
    "first_value(txt)",
    "last_value(txt)",
    "first_value(v + 1)",
];

#[test]
fn values_are_those_of_datafusion() {
    // DataFusion takes long over batches of few rows.
    for (batch_rows, rows) in [(1, 150), (7, 700), (100, ROWS), (8192, ROWS)] {
        for window in [
            "PARTITION BY many ORDER BY row",
            "PARTITION BY many ORDER BY row ROWS UNBOUNDED PRECEDING",
            "PARTITION BY many ORDER BY k",
            "PARTITION BY few ORDER BY k DESC NULLS LAST",
            "PARTITION BY few, txt ORDER BY k, row",
            "PARTITION BY txt ORDER BY k GROUPS UNBOUNDED PRECEDING",
            "ORDER BY k",
            "ORDER BY txt, k",
            "ORDER BY none",
            "ORDER BY row ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            "PARTITION BY many ORDER BY row ROWS 3 PRECEDING",
            "PARTITION BY few ORDER BY k, row ROWS BETWEEN 100 PRECEDING AND 20 FOLLOWING",
            "PARTITION BY txt ORDER BY row ROWS BETWEEN CURRENT ROW AND 7 FOLLOWING",
            "ORDER BY txt, row ROWS BETWEEN 0 PRECEDING AND 0 FOLLOWING",
        ] {
            let calls: Vec<String> = CALLS.iter().map(|call| format!("{call} OVER ({window})")).collect();
            let sql = format!("SELECT row, {} FROM t WHERE row < {rows}", calls.join(", "));
            assert!(check(&sql, batch_rows) > 0, "not in one pass: {sql}");
        }
    }
}

#[test]
fn each_of_these_runs_in_one_pass() {
    for call in CALLS {
        assert_eq!(
            check(&format!("SELECT row, {call} OVER (PARTITION BY many ORDER BY k, row) FROM t"), 64),
            1,
            "{call}"
        );
    }
}

#[test]
fn others_are_left_to_datafusion() {
    for call in [
        "lag(v) IGNORE NULLS OVER (PARTITION BY many ORDER BY row)",
        "lead(v, 5000) OVER (PARTITION BY many ORDER BY row)",
        "sum(v) OVER (PARTITION BY many ORDER BY row ROWS 200 PRECEDING)",
        "sum(v) OVER (PARTITION BY many ORDER BY row ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)",
        "sum(v) OVER (PARTITION BY many ORDER BY k RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)",
        "sum(v) FILTER (WHERE v > 3) OVER (PARTITION BY many ORDER BY row)",
        "min(f) OVER (PARTITION BY many ORDER BY row)",
        "sum(v) OVER (PARTITION BY many)",
        "ntile(3) OVER (PARTITION BY many ORDER BY row)",
        "max(txt) OVER (PARTITION BY many ORDER BY row)",
    ] {
        assert_eq!(check(&format!("SELECT row, {call} FROM t"), 64), 0, "{call}");
    }
}

#[test]
fn unsigned_ranks_of_datafusion_are_left_to_it() {
    let pool = tokio::runtime::Builder::new_current_thread().build().unwrap();
    pool.block_on(async {
        let session = session(64);
        let by_row = row_number().order_by(vec![col("row").sort(true, false)]).build().unwrap();
        let rows = session.table("t").await.unwrap().window(vec![by_row]).unwrap();
        let plan = rows.create_physical_plan().await.unwrap();
        let plan = RunningWindows.optimize(plan, &ConfigOptions::new()).unwrap();
        assert_eq!(count(&plan), 0);
        let found = collect(plan, session.task_ctx()).await.unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS);
    });
}

#[test]
fn no_rows_have_no_values() {
    check("SELECT row, rank() OVER (ORDER BY k), sum(v) OVER (ORDER BY k) FROM t WHERE row < 0", 64);
}

#[test]
fn windows_above_windows_run_in_one_pass_each() {
    let sql = "SELECT row, rank() OVER (PARTITION BY many ORDER BY k), sum(v) OVER (PARTITION BY few ORDER BY k) FROM t";
    assert_eq!(check(sql, 64), 2);
    let sql = "SELECT row, sum(s) OVER (PARTITION BY many ORDER BY k, row) \
               FROM (SELECT *, sum(v) OVER (PARTITION BY many ORDER BY k) AS s FROM t)";
    assert_eq!(check(sql, 64), 2);
}

#[test]
fn a_sum_that_has_no_place_in_its_type_is_an_error() {
    let pool = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ask = |sql: &'static str| {
        pool.block_on(async {
            let session = session(64);
            let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let plan = RunningWindows.optimize(plan, &ConfigOptions::new()).unwrap();
            assert_eq!(count(&plan), 1);
            collect(plan, session.task_ctx()).await.map_err(|error| error.to_string())
        })
    };
    let by_row = ask(
        "SELECT sum(x) OVER (ORDER BY row) FROM (SELECT row, CAST('60000000000000000000000000000000000000' AS \
                      DECIMAL(38,0)) * CASE row % 4 WHEN 1 THEN 1 WHEN 2 THEN -1 ELSE 0 END AS x FROM t)",
    );
    assert!(by_row.is_ok(), "{by_row:?}");
    let by_row = ask(
        "SELECT sum(x) OVER (ORDER BY row) FROM (SELECT row, CAST('60000000000000000000000000000000000000' AS \
                      DECIMAL(38,0)) AS x FROM t)",
    );
    assert!(by_row.unwrap_err().contains("overflows DECIMAL(38,0)"));
}
