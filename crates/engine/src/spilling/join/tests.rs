//! Every type of join in files and blocks, beside DataFusion's join in memory.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, collect};
use datafusion::prelude::SessionConfig;
use pelton_limits::{SpillOptions, SpillSpace};

use super::PeltonJoinExec;
use crate::memory;

const TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// Keys of both sides; one at a time varies from the first.
#[derive(Debug, Clone)]
struct Case {
    left: Vec<Option<i64>>,
    right: Vec<Option<i64>>,
    join_type: JoinType,
    has_filter: bool,
    nulls: NullEquality,
    is_not_in: bool,
    is_partitioned: bool,
    projection: Option<Vec<usize>>,
    budget_bytes: usize,
}

/// Some rows a hash table, so that most pairs of files fit, and one hot key does not.
const SMALL: usize = 8 << 10;

impl Default for Case {
    fn default() -> Self {
        Self {
            left: keys(700, 60, 7),
            right: keys(500, 90, 5),
            join_type: JoinType::Inner,
            has_filter: false,
            nulls: NullEquality::NullEqualsNothing,
            is_not_in: false,
            is_partitioned: false,
            projection: None,
            budget_bytes: SMALL,
        }
    }
}

/// `count` keys below `distinct`, of which every `null_every`-th is NULL.
fn keys(count: usize, distinct: u64, null_every: usize) -> Vec<Option<i64>> {
    let mut state = count as u64;
    let next = |row: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (!row.is_multiple_of(null_every)).then_some((state >> 33) as i64 % distinct as i64)
    };
    (1..=count).map(next).collect()
}

fn schema(side: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(format!("{side}_key"), DataType::Int64, true),
        Field::new(format!("{side}_text"), DataType::Utf8View, false),
        Field::new(format!("{side}_row"), DataType::Int64, false),
    ]))
}

/// Batches of 64 rows in two partitions.
fn side(name: &str, keys: &[Option<i64>], partitions: usize) -> Arc<dyn ExecutionPlan> {
    let mut parts = vec![Vec::new(); partitions];
    for (number, chunk) in keys.chunks(64).enumerate() {
        let rows = || (0..chunk.len()).map(|row| (number * 64 + row) as i64);
        let texts = rows().map(|row| Some(format!("{name} {} of some length", row * 7)));
        let columns: Vec<_> = vec![
            Arc::new(Int64Array::from(chunk.to_vec())) as _,
            Arc::new(texts.collect::<StringViewArray>()) as _,
            Arc::new(Int64Array::from_iter_values(rows())) as _,
        ];
        parts[number % partitions].push(RecordBatch::try_new(schema(name), columns).unwrap());
    }
    MemorySourceConfig::try_new_exec(&parts, schema(name), None).unwrap()
}

impl Case {
    fn join(&self) -> HashJoinExec {
        let key = |name: &str| Arc::new(Column::new(&format!("{name}_key"), 0)) as PhysicalExprRef;
        let (left, right) = match self.is_partitioned {
            false => (side("l", &self.left, 1), side("r", &self.right, 2)),
            true => {
                let dealt = |name: &str, keys: &[Option<i64>]| {
                    let by = Partitioning::Hash(vec![key(name)], 3);
                    Arc::new(RepartitionExec::try_new(side(name, keys, 1), by).unwrap())
                        as Arc<dyn ExecutionPlan>
                };
                (dealt("l", &self.left), dealt("r", &self.right))
            }
        };
        let mode = if self.is_partitioned { PartitionMode::Partitioned } else { PartitionMode::CollectLeft };
        let on = vec![(key("l"), key("r"))];
        let filter = self.has_filter.then(filter);
        HashJoinExec::try_new(
            left,
            right,
            on,
            filter,
            &self.join_type,
            self.projection.clone(),
            mode,
            self.nulls,
            self.is_not_in,
        )
        .unwrap()
    }
}

/// l_row < 2 * r_row, near enough: about half of the pairs.
fn filter() -> JoinFilter {
    let both = Schema::new(vec![
        Field::new("l_row", DataType::Int64, false),
        Field::new("r_row", DataType::Int64, false),
    ]);
    let columns = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 2, side });
    let less =
        BinaryExpr::new(Arc::new(Column::new("l_row", 0)), Operator::Lt, Arc::new(Column::new("r_row", 1)));
    JoinFilter::new(Arc::new(less), columns.to_vec(), Arc::new(both))
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

/// Runs `case` both ways; gives how many files were made.
fn check(case: &Case) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let options = SpillOptions { directory: Some(folder.path().to_owned()), ..SpillOptions::default() };
    let space = SpillSpace::new(&options);
    let runtime = RuntimeEnvBuilder::new()
        .with_disk_manager_builder(crate::spill::disk_manager(&space))
        .with_memory_pool(memory::bounded((case.budget_bytes as u64).max(1 << 20)))
        .build()
        .unwrap();
    let config = SessionConfig::new().with_batch_size(50);
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let limited = Arc::new(
        TaskContext::default()
            .with_session_config(context.session_config().clone())
            .with_runtime(Arc::new(runtime)),
    );
    let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let right = pool.block_on(collect(Arc::new(case.join()), context)).unwrap();
    let spilling = Arc::new(PeltonJoinExec::new(Arc::new(case.join()), case.budget_bytes).unwrap());
    let ours = pool.block_on(collect(Arc::clone(&spilling) as _, Arc::clone(&limited))).unwrap();
    assert_eq!(rows(&ours), rows(&right), "{case:?}");
    for batch in &ours {
        assert_eq!(batch.schema(), spilling.schema());
    }
    let files = spilling.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
    drop(spilling);
    assert_eq!(limited.memory_pool().reserved(), 0, "{case:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{case:?}");
    files
}

/// All types of join, with and without a condition, over one and several build sides.
fn check_all(case: &Case) {
    for join_type in TYPES {
        for has_filter in [false, true] {
            for is_partitioned in [false, true] {
                let case = Case { join_type, has_filter, is_partitioned, ..case.clone() };
                let files = check(&case);
                assert!(files > 0 || case.left.is_empty(), "nothing was spilled: {case:?}");
            }
        }
    }
}

#[test]
fn joins_in_files_are_joins_in_memory() {
    check_all(&Case::default());
}

#[test]
fn a_join_that_fits_makes_no_files() {
    for join_type in TYPES {
        let case = Case { join_type, budget_bytes: 1 << 20, ..Case::default() };
        assert_eq!(check(&case), 0);
    }
}

#[test]
fn a_side_may_be_empty() {
    check_all(&Case { right: Vec::new(), ..Case::default() });
    check_all(&Case { left: Vec::new(), ..Case::default() });
}

#[test]
fn one_key_of_half_the_rows_goes_by_blocks() {
    let hot = |count: usize, distinct| {
        let rest = keys(count, distinct, 9);
        rest.into_iter()
            .enumerate()
            .map(|(row, key)| if row % 2 == 0 { Some(1) } else { key })
            .collect::<Vec<_>>()
    };
    check_all(&Case { left: hot(400, 50), right: hot(300, 40), ..Case::default() });
    check_all(&Case { left: vec![Some(1); 300], right: vec![Some(1); 200], ..Case::default() });
    check_all(&Case { left: vec![None; 300], right: vec![None; 200], ..Case::default() });
}

#[test]
fn null_may_equal_null() {
    check_all(&Case { nulls: NullEquality::NullEqualsNull, ..Case::default() });
}

#[test]
fn not_in_knows_of_nulls_on_either_side() {
    let some = |keys: Vec<Option<i64>>| keys.into_iter().filter(Option::is_some).collect::<Vec<_>>();
    let of =
        |left, right| Case { left, right, join_type: JoinType::LeftAnti, is_not_in: true, ..Case::default() };
    let (left, right) = (keys(700, 200, 7), keys(500, 90, 5));
    for case in [
        of(left.clone(), right.clone()),
        of(left.clone(), some(right.clone())),
        of(some(left.clone()), some(right)),
        of(left, Vec::new()),
    ] {
        assert!(check(&case) > 0);
    }
}

#[test]
fn columns_may_be_left_out_and_change_places() {
    for join_type in [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full] {
        check(&Case { join_type, projection: Some(vec![5, 0, 1]), ..Case::default() });
    }
}

/// Joins that fit, of integer keys: over our table.
#[test]
fn joins_over_a_table_are_joins_of_datafusion() {
    let some = |keys: Vec<Option<i64>>| keys.into_iter().filter(Option::is_some).collect::<Vec<_>>();
    let hot = |count| vec![Some(1); count];
    let spread = |count: i64| (0..count).map(|row| Some(row.wrapping_mul(0x0123_4567_89ab_cdef))).collect();
    let sides = [
        (keys(700, 60, 7), keys(500, 90, 5)),
        (some(keys(700, 5000, 7)), keys(500, 5000, 5)),
        (keys(300, 3, 4), keys(200, 4, 6)),
        (hot(150), hot(140)),
        (spread(500), spread(700)),
        (vec![None; 100], keys(100, 5, 3)),
        (keys(100, 5, 3), vec![None; 100]),
        (Vec::new(), keys(200, 50, 7)),
        (keys(200, 50, 7), Vec::new()),
        (vec![Some(i64::MIN), Some(i64::MAX - 1), Some(0)], vec![Some(i64::MAX), Some(0), Some(i64::MIN)]),
        // All numbers there are: no words.
        (vec![Some(i64::MIN), Some(i64::MAX)], vec![Some(i64::MAX), Some(0), Some(i64::MIN)]),
    ];
    for (left, right) in sides {
        for join_type in TYPES {
            for has_filter in [false, true] {
                for is_partitioned in [false, true] {
                    let (left, right) = (left.clone(), right.clone());
                    let budget_bytes = 64 << 20;
                    let case = Case {
                        left,
                        right,
                        join_type,
                        has_filter,
                        is_partitioned,
                        budget_bytes,
                        ..Case::default()
                    };
                    assert_eq!(check(&case), 0);
                }
            }
        }
    }
}

#[test]
fn columns_of_a_table_may_be_left_out_and_change_places() {
    for join_type in [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full] {
        for projection in [vec![5, 0, 1], vec![4], vec![2], vec![]] {
            let projection = Some(projection);
            check(&Case { join_type, projection, budget_bytes: 64 << 20, ..Case::default() });
        }
    }
}
