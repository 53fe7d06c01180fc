//! Estimates against actual rows, on data as uniform as the formulas assume.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec};
use datafusion::physical_plan::{ExecutionPlan, collect};
use pelton_planner::Estimates;

use crate::support::{StandIn, StatisticsTable, nodes, session};

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
            let text = pelton_planner::annotate(&plan, &Estimates::default(), true);
            assert!(q_error <= Q_ERROR_MAX, "{sql}: {estimated} rows, not {actual}\n{text}");
        }
    }
}

/// `plan` with joins and groups carried out by others, which `estimates` are asked for on the way, as a rule does.
fn carried_out(plan: Arc<dyn ExecutionPlan>, estimates: &Estimates) -> Arc<dyn ExecutionPlan> {
    let replaced = plan.transform_up(|node| {
        estimates.rows(&node);
        Ok(match node.is::<HashJoinExec>() || node.is::<AggregateExec>() {
            true => Transformed::yes(StandIn::of(node)),
            false => Transformed::no(node),
        })
    });
    replaced.unwrap().data
}

#[tokio::test]
async fn operators_are_estimated_as_what_they_stand_for() {
    let tables = [
        table("fact", 2000, &[("id", |i| i), ("dim_id", |i| i % 100), ("part_id", |i| i / 80)]),
        table("dim", 100, &[("id", |i| i), ("kind", |i| i % 10)]),
        table("part", 50, &[("id", |i| i), ("kind", |i| i % 5)]),
    ];
    for sql in [
        "SELECT * FROM fact JOIN dim ON dim_id = dim.id WHERE kind = 3",
        "SELECT * FROM fact JOIN dim ON dim_id = dim.id AND fact.id < kind",
        "SELECT * FROM fact JOIN dim ON dim_id = dim.id JOIN part ON part_id = part.id WHERE dim.kind = 3 AND part.kind = 1",
        "SELECT * FROM part LEFT JOIN fact ON part_id = part.id",
        "SELECT * FROM part WHERE id NOT IN (SELECT part_id FROM fact)",
        "SELECT kind, count(*) FROM fact JOIN dim ON dim_id = dim.id GROUP BY kind",
        "SELECT DISTINCT part_id FROM fact WHERE dim_id = 5",
        "SELECT sum(part_id) FROM fact",
        "SELECT a.id FROM (SELECT dim_id AS id, count(*) FROM fact GROUP BY dim_id) a JOIN dim ON a.id = dim.id LIMIT 7",
    ] {
        let context = session(&tables, true, 3);
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let rows_of = |plan: &Arc<dyn ExecutionPlan>, estimates: &Estimates| -> Vec<_> {
            nodes(plan).iter().map(|node| estimates.rows(node)).collect()
        };
        let expected = rows_of(&plan, &Estimates::default());
        let carried_out = carried_out(plan, &Estimates::new(StandIn::stands_for));
        assert_eq!(rows_of(&carried_out, &Estimates::new(StandIn::stands_for)), expected, "{sql}");
        assert_ne!(rows_of(&carried_out, &Estimates::default()), expected, "whoever does not know: {sql}");
    }
}

#[tokio::test]
async fn a_table_is_asked_once_by_a_rule_that_asks_for_each_node() {
    let names: Vec<String> = (0..8).map(|table| format!("t{table}")).collect();
    let tables: Vec<_> =
        names.iter().map(|name| table(name, 100, &[("x", |i| i), ("y", |i| i % 10)])).collect();
    let joined: Vec<String> =
        names[1..].iter().map(|name| format!("LEFT JOIN {name} ON {name}.x = t0.x")).collect();
    let sql = format!("SELECT t0.y, count(*) FROM t0 {} GROUP BY t0.y", joined.join(" "));
    let context = session(&tables, true, 3);
    let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
    for table in &tables {
        table.take_times_asked(); // by DataFusion's rules
    }
    let estimates = Estimates::new(StandIn::stands_for);
    let carried_out = carried_out(plan, &estimates);
    for node in nodes(&carried_out) {
        estimates.rows(&node);
    }
    let asked: Vec<usize> = tables.iter().map(StatisticsTable::take_times_asked).collect();
    assert_eq!(asked, [1; 8]);
    // By those who keep nothing from one node to the next each is asked for every node above it.
    for node in nodes(&carried_out) {
        Estimates::new(StandIn::stands_for).rows(&node);
    }
    assert!(tables.iter().all(|table| table.take_times_asked() > 1));
}

#[tokio::test]
async fn a_node_that_a_plan_has_twice_is_two_relations() {
    let tables = [StatisticsTable::declared("t", 100, &[("x", 50)])];
    let context = session(&tables, false, 1);
    let scan =
        || async { context.sql("SELECT x FROM t").await.unwrap().create_physical_plan().await.unwrap() };
    let (one, other) = (scan().await, scan().await);
    let pairs_of_values = |left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>| {
        let pairs: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(Arc::clone(left), Arc::clone(right)));
        let column = |index: usize| Arc::new(ColumnExpr::new("x", index)) as Arc<dyn PhysicalExpr>;
        let by = (0..2).map(|index| (column(index), format!("x{index}"))).collect();
        let by = PhysicalGroupBy::new_single(by);
        let schema = pairs.schema();
        let groups =
            AggregateExec::try_new(AggregateMode::Single, by, vec![], vec![], pairs, schema).unwrap();
        let groups: Arc<dyn ExecutionPlan> = Arc::new(groups);
        Estimates::default().rows(&groups).unwrap()
    };
    let expected = pairs_of_values(&one, &other);
    // Of one relation of 100 rows there would be 100 pairs at most.
    assert!(expected > 2000.0, "{expected}");
    assert_eq!(pairs_of_values(&one, &one), expected);
}
