//! Reordered plans return what the original ones do.

use std::sync::Arc;

use crate::support::{StatisticsTable, join_order, session};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::collect;
use pelton_planner::Estimates;

/// xorshift64*, so that a failing seed can be named.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn nullable(&mut self, bound: u64) -> Option<i64> {
        (self.below(8) > 0).then(|| self.below(bound) as i64)
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Six tables with the same column names: k INT, j BIGINT, s VARCHAR, v DOUBLE, all with NULLs.
fn random_tables(random: &mut Random) -> Vec<StatisticsTable> {
    [3, 10, 40, 25, 6, 15]
        .into_iter()
        .enumerate()
        .map(|(table, rows)| {
            let domain = 4 + 8 * table as u64;
            let mut column =
                |bound: u64| -> Vec<Option<i64>> { (0..rows).map(|_| random.nullable(bound)).collect() };
            let k: Int32Array = column(domain).into_iter().map(|v| v.map(|v| v as i32)).collect();
            let j: Int64Array = column(domain / 2).into_iter().collect();
            let s: StringArray = column(domain).into_iter().map(|v| v.map(|v| format!("s{v}"))).collect();
            let v: Float64Array = column(100).into_iter().map(|v| v.map(|v| v as f64 / 4.0)).collect();
            let columns: Vec<(&str, ArrayRef)> =
                vec![("k", Arc::new(k)), ("j", Arc::new(j)), ("s", Arc::new(s)), ("v", Arc::new(v))];
            let batch = RecordBatch::try_from_iter_with_nullable(
                columns.into_iter().map(|(name, array)| (name, array, true)),
            );
            StatisticsTable::counted(&format!("t{table}"), batch.unwrap())
        })
        .collect()
}

/// A join of `count` tables, some of them twice, by equalities of all kinds, with filters across.
fn random_query(random: &mut Random, count: usize) -> String {
    let mut from = vec![];
    let mut predicates = vec![];
    for relation in 0..count {
        from.push(format!("t{} r{relation}", random.below(6)));
        if relation > 0 {
            let other = random.below(relation as u64);
            predicates.push(match random.below(8) {
                0 => format!("r{other}.k = r{relation}.j"),
                1 => format!("r{other}.s = r{relation}.s"),
                2 => format!("r{other}.k + 1 = r{relation}.k"),
                3 => format!("r{other}.j = r{relation}.j AND r{other}.k = r{relation}.k"),
                4 => format!("r{other}.v = CAST(r{relation}.k AS DOUBLE)"),
                _ => format!("r{other}.k = r{relation}.k"),
            });
        }
    }
    for _ in 0..random.below(3) {
        let (a, b) = (random.below(count as u64), random.below(count as u64));
        predicates.push(match random.below(6) {
            0 => format!("r{a}.v < r{b}.v + 10"),
            1 => format!("(r{a}.j = 1 OR r{b}.j = 2)"),
            2 => format!("r{a}.k + r{b}.k > 3"),
            3 => format!("r{a}.s <> r{b}.s"),
            4 => format!("r{a}.k = r{b}.j"),
            _ => format!("r{a}.k IN (1, 2, 3)"),
        });
    }
    let select = random.one_of(&["*", "r0.k, r1.s, r0.k AS again", "count(*), sum(r1.j)", "r1.v * 2, r0.s"]);
    format!("SELECT {select} FROM {} WHERE {}", from.join(", "), predicates.join(" AND "))
}

/// Runs `sql` with the rules or without; the rows as sorted text, and the join order.
async fn run(
    tables: &[StatisticsTable],
    sql: &str,
    with_rules: bool,
    partitions: usize,
) -> (Vec<String>, String) {
    let context = session(tables, with_rules, partitions);
    let frame = context.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let plan = frame.create_physical_plan().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let order = join_order(&plan);
    let batches = collect(plan, context.task_ctx()).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let row_count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let mut rows: Vec<String> = text.lines().map(str::to_owned).filter(|_| row_count > 0).collect();
    rows.sort();
    (rows, order)
}

/// Checks `sql`; says whether the rules changed the plan.
async fn assert_same_result(tables: &[StatisticsTable], sql: &str) -> bool {
    let (expected, original_order) = run(tables, sql, false, 1).await;
    let mut is_changed = false;
    for partitions in [1, 3] {
        let (actual, order) = run(tables, sql, true, partitions).await;
        assert!(actual == expected, "{sql}\n{order}\n{} rows, not {}", actual.len(), expected.len());
        is_changed |= order != original_order;
    }
    is_changed
}

#[tokio::test]
async fn random_joins_return_the_same_rows() {
    let mut changed_count = 0;
    for seed in 1..=80 {
        let mut random = Random::new(seed);
        let tables = random_tables(&mut random);
        let count = 3 + random.below(3) as usize;
        let sql = random_query(&mut random, count);
        changed_count += usize::from(assert_same_result(&tables, &sql).await);
    }
    assert!(changed_count > 40, "only {changed_count} of 80 plans were changed");
}

#[tokio::test]
async fn regions_within_other_operators_return_the_same_rows() {
    let tables = random_tables(&mut Random::new(42));
    let inner = "SELECT a.k, b.j, c.s, a.v FROM t2 a, t3 b, t0 c WHERE a.k = b.k AND b.j = c.j";
    let mut changed_count = 0;
    for sql in [
        format!("SELECT * FROM ({inner}) x LEFT JOIN t4 y ON x.k = y.k"),
        format!("SELECT * FROM t4 y RIGHT JOIN ({inner}) x ON x.k = y.k AND x.v < y.v"),
        format!("SELECT * FROM ({inner}) x FULL JOIN t5 y ON x.j = y.j"),
        format!("SELECT * FROM t5 WHERE k IN (SELECT k FROM ({inner}))"),
        format!("SELECT * FROM t5 WHERE k NOT IN (SELECT k FROM ({inner}) WHERE k IS NOT NULL)"),
        format!(
            "SELECT * FROM t5 y WHERE NOT EXISTS (SELECT 1 FROM ({inner}) x WHERE x.k = y.k AND x.v > y.v)"
        ),
        format!("SELECT k, count(*), sum(v) FROM ({inner}) GROUP BY k HAVING count(*) > 1"),
        format!("SELECT x.k, x.s, y.s FROM ({inner}) x, t1 y, t5 z WHERE x.j = y.j AND y.k = z.k"),
        format!(
            "SELECT * FROM ({inner}) x JOIN (SELECT k, max(v) AS m FROM t5 GROUP BY k) y ON x.k = y.k JOIN t0 z ON y.k = z.k"
        ),
        format!("{inner} UNION ALL SELECT k, j, s, v FROM t1"),
        "SELECT * FROM t1 a JOIN t2 b USING (k) JOIN t3 c USING (k) JOIN t0 d ON c.j = d.j".to_owned(),
        "SELECT a.k FROM t2 a, t3 b, t1 c WHERE a.k = b.k AND a.j = b.k AND c.k = b.k".to_owned(),
        "SELECT * FROM t1 a, t3 b, t0 c, t4 d WHERE a.v < b.v AND b.k = c.k AND c.j + d.j = a.j".to_owned(),
        "SELECT a.k FROM t2 a, t3 b, t0 c WHERE a.k = b.k AND b.j = c.j AND a.v + c.v > -random()".to_owned(),
        "SELECT * FROM t0 a, t4 b, t0 c".to_owned(),
        "SELECT count(*) FROM t0 a, t4 b, t1 c WHERE a.k <> c.k".to_owned(),
    ] {
        changed_count += usize::from(assert_same_result(&tables, &sql).await);
    }
    assert!(changed_count > 4, "only {changed_count} plans were changed");
}

#[tokio::test]
async fn null_safe_joins_keep_matching_nulls() {
    let tables = random_tables(&mut Random::new(7));
    for sql in [
        "SELECT * FROM t2 a JOIN t3 b ON a.k IS NOT DISTINCT FROM b.k JOIN t0 c ON b.j IS NOT DISTINCT FROM c.j",
        "SELECT * FROM t2 a JOIN t3 b ON a.k IS NOT DISTINCT FROM b.k JOIN t0 c ON b.j = c.j",
        "SELECT * FROM t2 a JOIN t3 b ON a.k = b.k JOIN t0 c ON b.j IS NOT DISTINCT FROM c.j JOIN t4 d ON c.k = d.k",
        "SELECT k, j FROM t2 INTERSECT SELECT k, j FROM t3",
    ] {
        assert_same_result(&tables, sql).await;
    }
}

#[tokio::test]
async fn twelve_relations_return_the_same_rows() {
    for seed in 1..=6 {
        let mut random = Random::new(1000 + seed);
        let tables = random_tables(&mut random);
        let mut from = vec!["t0 r0".to_owned()];
        let mut predicates = vec![];
        for relation in 1..12 {
            from.push(format!("t{} r{relation}", [0, 4][random.below(2) as usize]));
            let other = random.below(relation);
            predicates.push(format!("r{other}.k = r{relation}.k"));
        }
        let sql = format!("SELECT * FROM {} WHERE {}", from.join(", "), predicates.join(" AND "));
        assert_same_result(&tables, &sql).await;
    }
}

#[tokio::test]
async fn annotation_of_an_executed_plan_shows_actual_rows() {
    let tables = random_tables(&mut Random::new(3));
    let context = session(&tables, true, 2);
    let frame = context
        .sql("SELECT a.k, count(*) FROM t2 a, t3 b, t0 c WHERE a.k = b.k AND b.j = c.j GROUP BY a.k")
        .await;
    let plan = frame.unwrap().create_physical_plan().await.unwrap();
    let before = pelton_planner::annotate(&plan, &Estimates::default(), true);
    assert!(!before.contains("q="), "{before}");
    collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let after = pelton_planner::annotate(&plan, &Estimates::default(), true);
    for line in after.lines() {
        assert!(line.contains("rows est="), "{after}");
    }
    assert!(after.contains("StatisticsScan: t0, rows est=3 actual=3 q=1.00\n"), "{after}");
    assert!(after.lines().any(|line| line.contains("HashJoinExec") && line.contains(" q=")), "{after}");
    assert!(!pelton_planner::annotate(&plan, &Estimates::default(), false).contains("actual="));
}
