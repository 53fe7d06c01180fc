//! Sorts by words, beside DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics, Time};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use pelton_limits::{SpillOptions, SpillSpace};

use super::WordSortExec;
use super::external::{ExternalSort, KeyBytes};
use crate::memory;
use crate::spilling::Spill;

const ROWS: usize = 40_000;

fn numbers(seed: u64, below: u64, null_every: usize) -> Vec<Option<i64>> {
    let mut state = seed;
    let next = |row: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (!row.is_multiple_of(null_every)).then_some(((state >> 33) % below) as i64)
    };
    (1..=ROWS).map(next).collect()
}

/// A session over `t` in batches of several lengths, dealt out to `partitions`.
fn session(partitions: usize) -> SessionContext {
    let few = numbers(1, 5, 7);
    let many = numbers(2, 2000, 13);
    let wide: Vec<Option<i64>> = many
        .iter()
        .map(|v| v.map(|v| v.wrapping_mul(0x7123_4567_89ab_cdef).wrapping_add(i64::MIN)))
        .collect();
    let special =
        [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MIN_POSITIVE, 1e300];
    let float = |v: i64| special.get(v as usize).copied().unwrap_or(v as f64 / 7.0 - 100.0);
    let huge =
        many.iter().map(|v| v.map(|v| i128::from(v - 1000) * 10_i128.pow(34))).collect::<Decimal128Array>();
    let small = many.iter().map(|v| v.map(|v| i128::from(v - 1000))).collect::<Decimal128Array>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("row", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("few", Arc::new(Int64Array::from(few.clone()))),
        ("many", Arc::new(Int64Array::from(many.clone()))),
        ("wide", Arc::new(Int64Array::from(wide.clone()))),
        ("tiny", Arc::new(few.iter().map(|v| v.map(|v| v as i8 - 2)).collect::<Int8Array>())),
        ("u", Arc::new(wide.iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>())),
        ("f", Arc::new(many.iter().map(|v| v.map(float)).collect::<Float64Array>())),
        ("g", Arc::new(many.iter().map(|v| v.map(|v| float(v) as f32)).collect::<Float32Array>())),
        ("b", Arc::new(few.iter().map(|v| v.map(|v| v == 2)).collect::<BooleanArray>())),
        ("day", Arc::new(many.iter().map(|v| v.map(|v| v as i32 - 500)).collect::<Date32Array>())),
        ("ts", Arc::new(wide.iter().copied().collect::<TimestampMicrosecondArray>().with_timezone("UTC"))),
        ("d", Arc::new(small.with_precision_and_scale(12, 2).unwrap())),
        ("h", Arc::new(huge.with_precision_and_scale(38, 0).unwrap())),
        ("none", Arc::new(Int64Array::from(vec![None; ROWS]))),
        ("one", Arc::new(Int64Array::from(vec![7; ROWS]))),
        ("txt", Arc::new(many.iter().map(|v| v.map(|v| format!("text {v}"))).collect::<StringViewArray>())),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let mut parts = vec![Vec::new(); partitions];
    let (mut from, mut lengths) = (0, [1, 900, 0, 1500, 599].into_iter().cycle());
    while from < ROWS {
        let to = ROWS.min(from + lengths.next().unwrap());
        // With memory of its own.
        let rows = UInt32Array::from_iter_values(from as u32..to as u32);
        parts[to % partitions].push(take_record_batch(&batch, &rows).unwrap());
        from = to;
    }
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(256);
    let config = config.with_sort_spill_reservation_bytes(16 << 10);
    let session = SessionContext::new_with_config(config);
    session.register_table("t", Arc::new(MemTable::try_new(batch.schema(), parts).unwrap())).unwrap();
    session
}

/// `plan` with all sorts by words that may be, and how many these are.
fn by_words(plan: Arc<dyn ExecutionPlan>) -> (Arc<dyn ExecutionPlan>, usize) {
    let plan = plan.transform_up(|node| {
        Ok(match WordSortExec::of(&node).or_else(|| WordSortExec::of_all(&node)) {
            Some(sort) => Transformed::yes(Arc::new(sort) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(node),
        })
    });
    let (plan, mut count) = (plan.unwrap().data, 0);
    plan.apply(|node| {
        count += usize::from(node.is::<WordSortExec>());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    (plan, count)
}

/// Runs `sql` both ways, in one partition and in several; gives how many sorts were by words where they may be, and how many bytes were spilled.
fn check(sql: &str, limit_bytes: u64) -> (usize, u64) {
    let [one, several] = [1, 3].map(|partitions| check_in(sql, partitions, limit_bytes));
    assert_eq!((one.0, one.1 > 0), (several.0, several.1 > 0), "{sql}");
    one
}

fn check_in(sql: &str, partitions: usize, limit_bytes: u64) -> (usize, u64) {
    let folder = tempfile::tempdir().unwrap();
    let options = SpillOptions { directory: Some(folder.path().to_owned()), ..SpillOptions::default() };
    let space = SpillSpace::new(&options);
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(crate::spill::disk_manager(&space))
        .with_memory_pool(memory::bounded(limit_bytes))
        .build()
        .unwrap();
    let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    pool.block_on(async {
        let session = session(partitions);
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let expected = collect(plan, session.task_ctx()).await.unwrap();
        let limited = TaskContext::default().with_session_config(session.copied_config());
        let limited = Arc::new(limited.with_runtime(Arc::new(runtime)));
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let (plan, count) = by_words(plan);
        let found = collect(Arc::clone(&plan), Arc::clone(&limited)).await.unwrap();
        let schema = plan.schema();
        let [found, expected] = [found, expected].map(|batches| concat_batches(&schema, &batches).unwrap());
        assert!(found == expected, "{sql} in {partitions}");
        drop(plan);
        assert_eq!(limited.memory_pool().reserved(), 0, "{sql}");
        (count, space.written_bytes())
    })
}

const ENOUGH: u64 = 1 << 30;
const KEYS: [&str; 14] =
    ["few", "many", "wide", "tiny", "u", "f", "g", "b", "day", "ts", "d", "h", "none", "one"];

#[test]
fn rows_come_in_the_order_of_datafusion() {
    for key in KEYS {
        for order in ["", "DESC", "NULLS FIRST", "DESC NULLS LAST"] {
            let sql = format!("SELECT * FROM t ORDER BY {key} {order}, row");
            assert_eq!(check(&sql, ENOUGH), (1, 0), "{sql}");
        }
    }
}

#[test]
fn keys_of_all_kinds_go_into_a_word_together() {
    for keys in [
        "few, many DESC, row",
        "b NULLS FIRST, tiny DESC NULLS LAST, day, row DESC",
        "wide DESC, few, row",
        "none, one, few, row",
        "f DESC, few, row",
        "few DESC, d NULLS FIRST, b, row",
        // More than 128 bits: by bytes.
        "wide, u DESC, row",
        "h, wide, row",
    ] {
        assert_eq!(check(&format!("SELECT * FROM t ORDER BY {keys}"), ENOUGH), (1, 0), "{keys}");
    }
}

#[test]
fn rows_of_equal_keys_stay_in_their_order() {
    let pool = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let sql = "SELECT few, row FROM t ORDER BY few";
    let rows = pool.block_on(async {
        let session = session(1);
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let (plan, count) = by_words(plan);
        assert_eq!(count, 1);
        collect(plan, session.task_ctx()).await.unwrap()
    });
    let rows = concat_batches(&rows[0].schema(), &rows).unwrap();
    let [few, row] = [0, 1].map(|column| rows.column(column).to_data());
    let (few, row) = (Int64Array::from(few), Int64Array::from(row));
    for at in 1..ROWS {
        let is_peer = few.is_valid(at) == few.is_valid(at - 1) && few.value(at) == few.value(at - 1);
        assert!(!is_peer || few.is_null(at) || row.value(at) > row.value(at - 1));
    }
}

#[test]
fn what_does_not_fit_is_spilled() {
    for keys in ["many, row", "few DESC, wide, row"] {
        let (sorts, bytes) = check(&format!("SELECT * FROM t ORDER BY {keys}"), 1 << 20);
        assert!(sorts == 1 && bytes > 0, "{keys}");
    }
}

/// Keys that are compared as bytes.
const TEXT_KEYS: [&str; 7] = [
    "txt, row",
    "txt DESC NULLS LAST, few, row",
    "few NULLS FIRST, txt DESC, row",
    "arrow_cast(txt, 'Utf8'), row DESC",
    "arrow_cast(txt, 'LargeBinary') DESC, row",
    "concat('a long beginning that all have in common ', txt), b, f DESC, row",
    "h, wide, txt, row",
];

#[test]
fn texts_are_sorted_by_their_bytes() {
    for keys in TEXT_KEYS {
        assert_eq!(check(&format!("SELECT * FROM t ORDER BY {keys}"), ENOUGH), (1, 0), "{keys}");
    }
}

#[test]
fn runs_in_files_are_merged_in_as_many_passes_as_it_takes() {
    for keys in TEXT_KEYS.into_iter().chain(["h DESC, u, row", "wide, u, few, row"]) {
        for limit in [1 << 20, 4 << 20] {
            let (sorts, bytes) = check(&format!("SELECT * FROM t ORDER BY {keys}"), limit);
            assert!(sorts == 1 && bytes > 0, "{keys}");
        }
    }
}

/// Sorts `t` by text and row in one partition, so many rows at a time, where the pool has so many bytes; gives how many were written.
fn sorted_in_runs(rows_max: usize, limit_bytes: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let options = SpillOptions { directory: Some(folder.path().to_owned()), ..SpillOptions::default() };
    let space = SpillSpace::new(&options);
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(crate::spill::disk_manager(&space))
        .with_memory_pool(memory::bounded(limit_bytes))
        .build()
        .unwrap();
    let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    pool.block_on(async {
        let session = session(1);
        let sql = "SELECT * FROM t ORDER BY txt, row";
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let (keys, input) = (plan.output_ordering().unwrap().clone(), Arc::clone(plan.children()[0]));
        let expected = collect(plan, session.task_ctx()).await.unwrap();
        let context = TaskContext::default().with_session_config(session.copied_config());
        let context = Arc::new(context.with_runtime(Arc::new(runtime)));
        let (schema, set) = (input.schema(), ExecutionPlanMetricsSet::new());
        let sort = ExternalSort {
            keys: Arc::new(KeyBytes::new(&keys, &schema).unwrap()),
            spill: Spill::new(&context, &SpillMetrics::new(&set, 0), Arc::clone(&schema)),
            reservation: MemoryConsumer::new("a sort").with_can_spill(true).register(context.memory_pool()),
            batch_rows: 300,
            rows_max,
            time: Time::new(),
        };
        let rows = input.execute(0, Arc::clone(&context)).unwrap();
        let sorted = sort.sorted(Arc::clone(&schema), Vec::new(), rows).await.unwrap();
        let found = datafusion::physical_plan::common::collect(sorted).await.unwrap();
        assert!(found.iter().all(|batch| batch.num_rows() <= 300));
        let [found, expected] = [found, expected].map(|batches| concat_batches(&schema, &batches).unwrap());
        assert!(found == expected, "{rows_max} rows, {limit_bytes} bytes");
        assert_eq!(context.memory_pool().reserved(), 0);
        space.written_bytes()
    })
}

#[test]
fn runs_stay_in_memory_while_there_is_room() {
    for rows_max in [1000, 15_000, ROWS] {
        assert_eq!(sorted_in_runs(rows_max, ENOUGH), 0);
        assert!(sorted_in_runs(rows_max, 8 << 20) > 0);
    }
}

#[test]
fn others_are_left_to_datafusion() {
    assert_eq!(check("SELECT * FROM t ORDER BY make_array(few), row", ENOUGH).0, 0);
    assert_eq!(check("SELECT * FROM t ORDER BY few, row LIMIT 7", ENOUGH).0, 0);
}

#[test]
fn no_rows_are_sorted() {
    assert_eq!(check("SELECT row, many FROM t WHERE row < 0 ORDER BY many", ENOUGH).1, 0);
}
