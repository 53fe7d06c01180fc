//! Groups in files, beside DataFusion's groups in memory.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringViewArray,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use pelton_limits::{SpillOptions, SpillSpace};

use super::{Count, PartialAggregateExec, SpillingAggregateExec, aggregate_of};
use crate::{expected, memory};

const ROWS: usize = 6000;

/// What is grouped in each test.
const CALLS: &str = "count(*), count(v), sum(v), min(v), max(v), avg(v), sum(d), avg(d), min(s), max(s), bool_or(b), \
                     sum(v) FILTER (WHERE b), count(*) FILTER (WHERE v > 10)";

/// Numbers that look random, from 0 up to `below`; every `null_every`-th is NULL.
fn numbers(seed: u64, below: u64, null_every: usize) -> Vec<Option<i64>> {
    let mut state = seed;
    let next = |row: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (!row.is_multiple_of(null_every)).then_some(((state >> 33) % below) as i64)
    };
    (1..=ROWS).map(next).collect()
}

/// A session over `t` with keys of every kind, few and many, in batches of 100 rows.
fn session(partitions: usize) -> SessionContext {
    let few = numbers(1, 7, 11);
    let many = numbers(2, 4000, 13);
    let half = numbers(3, 900, 17);
    let v = numbers(4, 1000, 5);
    let texts = |of: &[Option<i64>]| -> ArrayRef {
        let text = |value: &i64| format!("{} {}", "é".repeat(*value as usize % 20), value);
        Arc::new(of.iter().map(|value| value.as_ref().map(text)).collect::<StringViewArray>())
    };
    let decimals = v.iter().map(|v| v.map(i128::from)).collect::<Decimal128Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("few", Arc::new(Int64Array::from(few))),
        ("many", Arc::new(Int64Array::from(many.clone()))),
        ("half", Arc::new(Int64Array::from(half.clone()))),
        ("row", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("txt", texts(&many)),
        ("day", Arc::new(half.iter().map(|day| day.map(|day| day as i32)).collect::<Date32Array>())),
        ("f", Arc::new(many.iter().map(|v| v.map(|v| v as f64 / 8.0)).collect::<Float64Array>())),
        ("v", Arc::new(Int64Array::from(v.clone()))),
        ("d", Arc::new(decimals.with_precision_and_scale(12, 2).unwrap())),
        ("s", texts(&half)),
        ("b", Arc::new(v.iter().map(|v| v.map(|v| v % 3 == 0)).collect::<BooleanArray>())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let mut parts = vec![Vec::new(); partitions];
    for number in 0..ROWS / 100 {
        parts[number % partitions].push(batch.slice(number * 100, 100));
    }
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(100);
    let session = SessionContext::new_with_config(config);
    session.register_table("t", Arc::new(MemTable::try_new(batch.schema(), parts).unwrap())).unwrap();
    session
}

fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")
        }));
    }
    rows.sort_unstable();
    rows
}

/// `plan` with aggregates of ours wherever there may be some, and these.
fn spilling(plan: Arc<dyn ExecutionPlan>) -> (Arc<dyn ExecutionPlan>, Vec<Arc<dyn ExecutionPlan>>) {
    let (mut found, estimates) = (Vec::new(), expected::estimates());
    let plan = plan.transform_up(|node| {
        Ok(match aggregate_of(&node).filter(|aggregate| SpillingAggregateExec::can_do(aggregate)) {
            Some(aggregate) => {
                let node = Arc::new(SpillingAggregateExec::new(aggregate, None)) as Arc<dyn ExecutionPlan>;
                found.push(Arc::clone(&node));
                Transformed::yes(node)
            }
            None => match PartialAggregateExec::of(&node, 0, &estimates)? {
                Some(partial) => {
                    found.push(Arc::new(partial) as Arc<dyn ExecutionPlan>);
                    Transformed::yes(Arc::clone(&found[found.len() - 1]))
                }
                None => Transformed::no(node),
            },
        })
    });
    (plan.unwrap().data, found)
}

/// Runs `sql` both ways, with `limit_bytes` for the one that spills; gives how many files were made.
fn check(sql: &str, partitions: usize, limit_bytes: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let options = SpillOptions { directory: Some(folder.path().to_owned()), ..SpillOptions::default() };
    let space = SpillSpace::new(&options);
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(crate::spill::disk_manager(&space))
        .with_memory_pool(memory::bounded(limit_bytes))
        .build()
        .unwrap();
    let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    pool.block_on(async {
        let session = session(partitions);
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let expected = rows(&collect(plan, session.task_ctx()).await.unwrap());
        // What is compared with counts as DataFusion does.
        session.register_udaf(AggregateUDF::from(Count::new()));
        let limited = TaskContext::default().with_session_config(session.copied_config());
        let limited = Arc::new(limited.with_runtime(Arc::new(runtime)));
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let (plan, nodes) = spilling(plan);
        assert!(!nodes.is_empty(), "nothing to spill in {sql}");
        let found = collect(Arc::clone(&plan), Arc::clone(&limited)).await.unwrap();
        assert!(found.iter().all(|batch| batch.schema() == plan.schema() && batch.num_rows() <= 100));
        assert!(rows(&found) == expected, "{sql} in {partitions} partitions and {limit_bytes} bytes");
        let files = |node: &Arc<dyn ExecutionPlan>| node.metrics().and_then(|metrics| metrics.spill_count());
        let files = nodes.iter().filter_map(files).sum();
        drop((plan, nodes));
        assert_eq!(limited.memory_pool().reserved(), 0, "{sql}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{sql}");
        files
    })
}

/// Room for some hundred groups.
const SMALL: u64 = 64 << 10;

#[test]
fn groups_in_files_are_groups_in_memory() {
    for keys in ["many", "txt", "row", "f", "day, many", "txt, few", "many, b", "d, row", "many % 50, row"] {
        for partitions in [1, 3] {
            let sql = format!("SELECT {keys}, {CALLS} FROM t GROUP BY {keys}");
            assert!(check(&sql, partitions, SMALL) > 0, "nothing was spilled: {sql}");
        }
    }
}

#[test]
fn groups_that_fit_make_no_files() {
    for keys in ["few", "many", "txt, few"] {
        let sql = format!("SELECT {keys}, {CALLS} FROM t GROUP BY {keys}");
        assert_eq!(check(&sql, 1, 64 << 20), 0);
    }
    assert_eq!(check("SELECT few, sum(v) FROM t GROUP BY few", 3, SMALL), 0);
}

#[test]
fn distinct_rows_spill_too() {
    for partitions in [1, 3] {
        assert!(check("SELECT DISTINCT many, few FROM t", partitions, SMALL) > 0);
        assert!(check("SELECT DISTINCT txt FROM t", partitions, SMALL) > 0);
        assert!(check("SELECT many, count(DISTINCT half) FROM t GROUP BY many", partitions, SMALL) > 0);
    }
}

#[test]
fn aggregates_without_a_form_for_groups_spill_as_well() {
    let sql = "SELECT many, round(stddev(v), 6), round(corr(v, half), 6), count(DISTINCT v), sum(DISTINCT half) FROM t GROUP BY many";
    for partitions in [1, 3] {
        assert!(check(sql, partitions, SMALL) > 0);
    }
}

#[test]
fn values_of_groups_spill_and_one_group_may_take_more_than_a_share() {
    let few = "SELECT few, median(v), sum(v), max(s) FROM t GROUP BY few";
    assert!(check(few, 1, SMALL) > 0);
    check(few, 3, SMALL);
    for partitions in [1, 3] {
        check("SELECT many, median(v), median(f) FROM t GROUP BY many", partitions, SMALL);
    }
    // No file takes the values of this group apart.
    assert!(check("SELECT row < 0, median(row), count(*) FROM t GROUP BY row < 0", 1, SMALL) > 0);
}

#[test]
fn grouping_sets_spill_in_their_last_step() {
    let sql = format!("SELECT many, few, grouping(few), {CALLS} FROM t GROUP BY ROLLUP (many, few)");
    assert!(check(&sql, 3, SMALL) > 0);
}

#[test]
fn nothing_has_no_groups() {
    for partitions in [1, 3] {
        assert_eq!(check("SELECT many, sum(v) FROM t WHERE v < 0 GROUP BY many", partitions, SMALL), 0);
    }
}

#[test]
fn partitions_without_groups_give_no_rows_of_any_aggregate() {
    // Correlations have no form for groups.
    let calls = "count(DISTINCT day), count(DISTINCT d), count(DISTINCT b), corr(v, half) IS NULL";
    for (condition, partitions) in [("v < 0", 1), ("v < 0", 3), ("true", 3), ("few = 3 OR many % 500 = 7", 3)]
    {
        let sql = format!("SELECT b, {calls} FROM t WHERE {condition} GROUP BY b");
        assert_eq!(check(&sql, partitions, 64 << 20), 0);
    }
    // And where states went to files before.
    let sql = format!("SELECT many, {calls} FROM t WHERE many % 2 = 0 GROUP BY many");
    assert!(check(&sql, 3, SMALL) > 0);
}

#[test]
fn distinct_values_of_every_type_are_counted_by_group() {
    let calls = "count(DISTINCT txt), count(DISTINCT s) FILTER (WHERE b), count(DISTINCT day), count(DISTINCT d), \
                 count(DISTINCT b), count(DISTINCT f), count(DISTINCT v), count(DISTINCT arrow_cast(s, 'Utf8')), \
                 count(DISTINCT arrow_cast(txt, 'LargeUtf8')), count(DISTINCT arrow_cast(s, 'Binary')), \
                 count(DISTINCT arrow_cast(s, 'BinaryView')), \
                 count(DISTINCT arrow_cast(v, 'Timestamp(Second, Some(\"+01:00\"))')), \
                 count(DISTINCT arrow_cast(s, 'Dictionary(Int32, Utf8)')), sum(v)";
    for keys in ["few", "many", "txt", "few, s", "few, day", "b, f"] {
        let sql = format!("SELECT {keys}, {calls} FROM t GROUP BY {keys}");
        for partitions in [1, 3] {
            assert_eq!(check(&sql, partitions, 256 << 20), 0);
        }
    }
    let calls = "count(DISTINCT txt), count(DISTINCT s) FILTER (WHERE b), count(DISTINCT d), \
                 count(DISTINCT arrow_cast(s, 'Utf8'))";
    for keys in ["many", "txt", "few, s"] {
        let sql = format!("SELECT {keys}, {calls} FROM t GROUP BY {keys}");
        assert!(check(&sql, 1, 8 * SMALL) > 0, "nothing was spilled: {sql}");
    }
}

#[test]
fn one_group_of_many_rows_ends() {
    // Its keys are long; whatever is dealt out goes to one file.
    for partitions in [1, 3] {
        check(
            "SELECT repeat('x', 3000), count(DISTINCT txt) FROM t GROUP BY repeat('x', 3000)",
            partitions,
            SMALL,
        );
        check("SELECT few, count(DISTINCT v) FROM t GROUP BY few", partitions, SMALL);
    }
}

/// Rows that the first step of `sql`, an aggregate by texts, gives of the 6000, with `limit_bytes` and so many rows before it
/// gives up to group where half of them are groups.
async fn rows_of_first_step(sql: &str, limit_bytes: u64, rows_to_pass: usize) -> usize {
    let session = session(2);
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let (plan, nodes) = spilling(plan);
    let first = nodes.iter().find(|node| node.is::<PartialAggregateExec>()).expect("an aggregate by texts");
    let mut config = session.copied_config();
    let options = &mut config.options_mut().execution;
    options.skip_partial_aggregation_probe_rows_threshold = rows_to_pass;
    options.skip_partial_aggregation_probe_ratio_threshold = 0.5;
    let pool = memory::bounded(limit_bytes);
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap();
    let context = TaskContext::default().with_session_config(config).with_runtime(Arc::new(runtime));
    let (context, expected) = (Arc::new(context), session.sql(sql).await.unwrap().collect().await.unwrap());
    // The last step reads what the first gives, with all memory.
    let states = collect(Arc::clone(first), Arc::clone(&context)).await.unwrap();
    assert!(states.iter().all(|batch| batch.schema() == first.schema() && batch.num_rows() <= 100));
    assert_eq!(context.memory_pool().reserved(), 0);
    assert_eq!(rows(&collect(plan, session.task_ctx()).await.unwrap()), rows(&expected));
    states.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn a_first_step_gives_its_groups_and_rows_where_they_are_hardly_fewer_and_what_does_not_fit() {
    let by =
        |keys: &str| format!("SELECT {keys}, sum(v), max(s), count(DISTINCT half) FROM t GROUP BY {keys}");
    let (few, many) = (by("s, few % 2"), by("txt, row"));
    let all = 64 << 20;
    // Of each of two partitions.
    let groups = rows_of_first_step(&few, all, 100_000).await;
    assert!((900..=5400).contains(&groups), "{groups}");
    assert_eq!(rows_of_first_step(&many, all, 100_000).await, ROWS);
    // Some hundred rows are grouped first; what comes then is given as it comes.
    assert_eq!(rows_of_first_step(&many, all, 500).await, ROWS);
    let given = rows_of_first_step(&few, SMALL, 100_000).await;
    assert!(given > groups && given <= ROWS, "{given} rows, {groups} groups");
}

#[tokio::test]
async fn groups_that_were_given_on_come_again() {
    const GROUPS: i64 = 150_000;
    // Three rows a group, one after the other, so that groups go on early, and batches begin within one.
    let keys: Vec<i64> = (0..GROUPS * 3).map(|row| row / 3).collect();
    let texts = keys.iter().map(|key| Some(if key % 2 == 0 { "even" } else { "odd" }));
    let columns: [(&str, ArrayRef); 2] =
        [("txt", Arc::new(texts.collect::<StringViewArray>())), ("key", Arc::new(Int64Array::from(keys)))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let parts: Vec<_> = (0..batch.num_rows()).step_by(1000).map(|from| batch.slice(from, 1000)).collect();
    let halves = parts.chunks(parts.len() / 2).map(<[RecordBatch]>::to_vec).collect();
    let session = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    session.register_table("t", Arc::new(MemTable::try_new(batch.schema(), halves).unwrap())).unwrap();
    for keys in ["txt, key", "txt, key, key / 2.0", "key, concat(txt, key % 7)"] {
        let sql = format!("SELECT {keys}, count(*) AS n FROM t GROUP BY {keys}");
        let plan = session.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let (plan, nodes) = spilling(plan);
        let first = nodes.iter().find(|node| node.is::<PartialAggregateExec>()).expect("a first step");
        let given = collect(Arc::clone(first), session.task_ctx()).await.unwrap();
        let given: usize = given.iter().map(RecordBatch::num_rows).sum();
        assert!(given > GROUPS as usize, "{keys}: no group was given on and came again");
        let groups = collect(plan, session.task_ctx()).await.unwrap();
        assert_eq!(groups.iter().map(RecordBatch::num_rows).sum::<usize>(), GROUPS as usize, "{keys}");
        let counts = groups.iter().flat_map(|batch| {
            let counts = batch.column_by_name("n").unwrap();
            counts.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
        });
        assert!(counts.into_iter().all(|count| count == 3), "{keys}");
    }
}
