//! A subtree on a device below every operator of DataFusion that has children: what the operator counts on (partitions,
//! order, schema) still holds, and the answer is the CPU's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use pelton_engine::{PeltonGpuExec, SessionOptions};
use pelton_exec::RuntimeOptions;

use crate::common::{Tables, integers, run};
use crate::{assert_same_rows, on_host};

/// Groups that a device can make, of which a parent below takes `s` and `f_key`.
const GROUPS: &str = "(SELECT f_key, sum(f_value) AS s FROM fact GROUP BY f_key)";
const MORE: &str = "(SELECT d_group AS f_key, sum(d_key) AS s FROM dim GROUP BY d_group)";

/// An operator, the statements that bring it about, and the query whose plan has it above a device's node.
struct Parent {
    operator: &'static str,
    settings: &'static [&'static str],
    sql: String,
}

fn parent(operator: &'static str, settings: &'static [&'static str], sql: &str) -> Parent {
    Parent { operator, settings, sql: sql.replace("GROUPS", GROUPS).replace("MORE", MORE) }
}

/// Many partitions on both sides of joins.
const PARTITIONED: &[&str] = &[
    "SET datafusion.optimizer.hash_join_single_partition_threshold = 0",
    "SET datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
];
const MERGE: &[&str] = &["SET datafusion.optimizer.prefer_hash_join = false"];
const PIECEWISE: &[&str] = &["SET datafusion.optimizer.enable_piecewise_merge_join = true"];
const BUFFERED: &[&str] = &["SET datafusion.execution.hash_join_buffering_capacity = 1000000"];
const TOP: &[&str] = &["SET datafusion.optimizer.enable_window_topn = true"];

fn parents() -> Vec<Parent> {
    vec![
        parent("FilterExec", &[], "SELECT * FROM GROUPS WHERE md5(CAST(s AS VARCHAR)) < 'a'"),
        parent("ProjectionExec", &[], "SELECT f_key, md5(CAST(s AS VARCHAR)) FROM GROUPS WHERE s > 7"),
        parent("AggregateExec", &[], "SELECT f_key % 7, bit_or(CAST(s AS BIGINT)) FROM GROUPS GROUP BY 1"),
        parent("RepartitionExec", &[], "SELECT f_key % 7, bit_or(CAST(s AS BIGINT)) FROM GROUPS GROUP BY 1"),
        parent(
            "CoalescePartitionsExec",
            &[],
            "SELECT bit_or(CAST(s AS BIGINT)), count(*) FROM (SELECT s FROM GROUPS WHERE md5(CAST(s AS VARCHAR)) < 'a')",
        ),
        parent("SortExec", &[], "SELECT f_key, s FROM GROUPS ORDER BY s, f_key"),
        parent(
            "SortPreservingMergeExec",
            &[],
            "SELECT f_key % 7 AS k, bit_or(CAST(s AS BIGINT)) FROM GROUPS GROUP BY 1 ORDER BY 1",
        ),
        parent("GlobalLimitExec", &[], "SELECT count(*) FROM (SELECT s FROM GROUPS LIMIT 7 OFFSET 3)"),
        parent(
            "UnionExec",
            &[],
            "SELECT f_key, s FROM GROUPS UNION ALL SELECT 0, bit_or(CAST(s AS BIGINT)) FROM GROUPS",
        ),
        parent(
            "InterleaveExec",
            &[],
            "SELECT f_key, bit_or(CAST(s AS BIGINT)), count(*) FROM (SELECT f_key, s FROM GROUPS UNION ALL SELECT f_key, s FROM MORE \
             UNION ALL SELECT f_key, bit_or(f_value) AS s FROM fact GROUP BY f_key) GROUP BY f_key",
        ),
        parent("WindowAggExec", &[], "SELECT f_key, s, sum(s) OVER (PARTITION BY f_key % 3) FROM GROUPS"),
        parent(
            "BoundedWindowAggExec",
            &[],
            "SELECT f_key, s, nth_value(s, 2) OVER (PARTITION BY f_key % 3 ORDER BY s, f_key) FROM GROUPS",
        ),
        parent(
            "RunningWindowExec",
            &[],
            "SELECT f_key, s, row_number() OVER (PARTITION BY f_key % 3 ORDER BY s, f_key) FROM GROUPS",
        ),
        parent(
            "PartitionedTopKExec",
            TOP,
            "SELECT * FROM (SELECT f_key, s, row_number() OVER (PARTITION BY f_key % 3 ORDER BY s, f_key) AS n FROM GROUPS) WHERE n <= 2",
        ),
        parent(
            "HashJoinExec",
            &[],
            "SELECT a.f_key, a.s, b.s FROM GROUPS a FULL JOIN MORE b ON a.f_key = b.f_key",
        ),
        parent(
            "HashJoinExec",
            PARTITIONED,
            "SELECT a.f_key, a.s, b.s FROM GROUPS a FULL JOIN MORE b ON a.f_key = b.f_key",
        ),
        parent(
            "HashJoinExec",
            PARTITIONED,
            "SELECT a.f_key, a.s, b.m FROM GROUPS a FULL JOIN (SELECT f_key, bit_or(f_value) AS m FROM fact GROUP BY f_key) b \
             ON a.f_key = b.f_key",
        ),
        parent(
            "SortMergeJoinExec",
            MERGE,
            "SELECT a.f_key, a.s, b.s FROM GROUPS a FULL JOIN MORE b ON a.f_key = b.f_key",
        ),
        parent("NestedLoopJoinExec", &[], "SELECT a.f_key, b.s FROM GROUPS a FULL JOIN MORE b ON a.s < b.s"),
        parent(
            "PiecewiseMergeJoinExec",
            PIECEWISE,
            "SELECT a.f_key, b.s FROM GROUPS a JOIN MORE b ON a.s < b.s",
        ),
        parent(
            "CrossJoinExec",
            &[],
            "SELECT a.f_key, b.l FROM GROUPS a CROSS JOIN (VALUES ([1]), ([2])) b(l)",
        ),
        parent("UnnestExec", &[], "SELECT f_key, unnest([s, f_key]) FROM GROUPS"),
        parent(
            "CooperativeExec",
            &[],
            "SELECT a.f_key, a.s, b.s FROM GROUPS a FULL JOIN MORE b ON a.f_key = b.f_key",
        ),
        parent(
            "BufferExec",
            BUFFERED,
            "SELECT a.f_key, a.s, b.s FROM GROUPS a FULL JOIN MORE b ON a.f_key = b.f_key",
        ),
        parent(
            "ScalarSubqueryExec",
            &[],
            "SELECT md5(CAST(s AS VARCHAR)), (SELECT bit_or(d_key) FROM dim) FROM GROUPS",
        ),
        parent(
            "RecursiveQueryExec",
            &[],
            "WITH RECURSIVE r AS (SELECT max(s) AS n FROM GROUPS UNION ALL SELECT CAST(n / 2 AS DECIMAL(38, 0)) FROM r WHERE n > 1) SELECT * FROM r",
        ),
    ]
}

/// Operators above which, or below which, no device's node can come: why.
const NEVER: [(&str, &str); 14] = [
    ("ExplainExec", "has no children"),
    ("StreamingTableExec", "has no children"),
    ("EmptyExec", "has no children"),
    ("PlaceholderRowExec", "has no children"),
    ("LazyMemoryExec", "has no children"),
    ("WorkTableExec", "has no children"),
    ("AnalyzeExec", "sessions run EXPLAIN ANALYZE themselves"),
    (
        "LocalLimitExec",
        "limits go into operators, or become one of all partitions, before the device's rule runs",
    ),
    ("CoalesceBatchesExec", "is planned for the top of a repartition by the order's key alone; deprecated"),
    ("PartialSortExec", "is planned for inputs without an end"),
    ("SymmetricHashJoinExec", "is planned for inputs without an end"),
    ("AsyncFuncExec", "needs a function of the user's that is asynchronous"),
    ("OutputRequirementExec", "is gone before the device's rule runs"),
    ("DataSinkExec", "is above plans that are run by themselves"),
];

/// The operators that DataFusion's sources define, tests aside.
fn operators() -> BTreeSet<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"));
    let crates = std::fs::read_dir(home.join("registry/src")).expect("cargo's copies of the sources");
    let crates = crates.map(|registry| registry.unwrap().path().join("datafusion-physical-plan-55.2.0/src"));
    let mut folders: Vec<PathBuf> = crates.filter(|sources| sources.is_dir()).take(1).collect();
    assert!(!folders.is_empty(), "another version of DataFusion: say which here, and look through the list");
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let text = text.split("mod tests {").next().unwrap();
                    let heads = text.lines().filter_map(|line| line.strip_prefix("impl ExecutionPlan for "));
                    found.extend(heads.map(|rest| rest.trim_end_matches([' ', '{']).to_owned()));
                }
            }
        }
    }
    // Operators of DataFusion's own tests.
    found.retain(|name| {
        !["Test", "Mock", "Barrier", "Error", "Statistics", "Blocking", "Panic"]
            .iter()
            .any(|test| name.starts_with(test))
    });
    found
}

#[test]
fn every_operator_is_in_one_of_the_lists() {
    let listed: BTreeSet<String> = parents().iter().map(|parent| parent.operator.to_owned()).collect();
    let never = NEVER.iter().map(|(name, _)| (*name).to_owned());
    let listed: BTreeSet<String> = listed.into_iter().chain(never).collect();
    let missing: Vec<String> = operators().difference(&listed).cloned().collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Whether some operator called `name` has a device's node below it.
fn is_above_device(plan: &Arc<dyn ExecutionPlan>, name: &str) -> bool {
    fn has_device(plan: &Arc<dyn ExecutionPlan>) -> bool {
        plan.is::<PeltonGpuExec>() || plan.children().into_iter().any(has_device)
    }
    let children = plan.children();
    plan.name() == name && children.iter().any(|child| has_device(child))
        || children.into_iter().any(|child| is_above_device(child, name))
}

/// Whether rows of a device are dealt to several partitions somewhere in `plan`.
fn is_dealt(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_here = plan.downcast_ref::<RepartitionExec>().is_some_and(|repartition| {
        matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
            && repartition.input().is::<PeltonGpuExec>()
    });
    is_here || plan.children().into_iter().any(is_dealt)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_above_a_device_has_what_it_counts_on() {
    let tables = Tables::new();
    let rows = 6000;
    let fact = [("f_key", (0..rows).map(|row| row % 97).collect()), ("f_value", (0..rows).collect())];
    tables.add("fact", integers(&fact), 500, vec![]);
    let dim = [("d_key", (0..97).collect()), ("d_group", (0..97).map(|key| key / 10).collect())];
    tables.add("dim", integers(&dim), 97, vec![]);
    let mut missing = Vec::new();
    let mut dealt = BTreeSet::new();
    // As they are, and with the rows of devices dealt to all partitions in small batches.
    for (threads, dealt_rows_min, batch_rows) in [(4, 1 << 40, 8192), (4, 0, 7), (1, 0, 7)] {
        for parent in parents() {
            let host = on_host();
            let runtime = RuntimeOptions { dealt_rows_min, ..host.runtime };
            let session = tables.session(&SessionOptions { threads: Some(threads), runtime, ..host });
            run(&session, &format!("SET datafusion.execution.batch_size = {batch_rows}")).await;
            for setting in parent.settings {
                run(&session, setting).await;
            }
            let (actual, query) = run(&session, &parent.sql).await;
            assert_same_rows(&actual, &tables.expected(&parent.sql).await, &parent.sql);
            if is_dealt(query.physical_plan()) {
                assert!(threads > 1 && dealt_rows_min == 0, "{}", parent.sql);
                dealt.insert(parent.operator);
            }
            if threads > 1 && !is_above_device(query.physical_plan(), parent.operator) {
                let plan = datafusion::physical_plan::displayable(query.physical_plan().as_ref())
                    .indent(false)
                    .to_string();
                missing.push(format!("{}: {}\n{plan}", parent.operator, parent.sql));
            }
        }
    }
    for operator in
        ["FilterExec", "ProjectionExec", "AggregateExec", "HashJoinExec", "UnionExec", "UnnestExec"]
    {
        assert!(dealt.contains(operator), "no rows of a device are dealt below {operator}: {dealt:?}");
    }
    assert!(missing.is_empty(), "no plan has these above a device's node:\n{}", missing.join("\n"));
}
