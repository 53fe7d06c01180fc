//! Which orders come out of which statistics; no rows are read.

use std::sync::Arc;

use crate::support::{StatisticsTable, join_order, session};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::displayable;
use pelton_planner::Estimates;

const TARGET_PARTITIONS: usize = 4;

async fn plan(tables: &[StatisticsTable], sql: &str, with_rules: bool) -> Arc<dyn ExecutionPlan> {
    let context = session(tables, with_rules, TARGET_PARTITIONS);
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// The join order with the rules, after checking that they keep the schema.
async fn ordered(tables: &[StatisticsTable], sql: &str) -> String {
    let original = plan(tables, sql, false).await;
    let reordered = plan(tables, sql, true).await;
    assert_eq!(original.schema(), reordered.schema());
    join_order(&reordered)
}

fn table(name: &str, rows: usize, columns: &[(&str, usize)]) -> StatisticsTable {
    StatisticsTable::declared(name, rows, columns)
}

#[tokio::test]
async fn small_table_named_last_is_joined_first() {
    let tables = [
        table("big", 1_000_000, &[("mid_id", 100_000), ("small_id", 1_000)]),
        table("mid", 100_000, &[("id", 100_000)]),
        table("small", 50, &[("id", 50)]),
    ];
    let sql = "SELECT * FROM big, mid, small WHERE mid_id = mid.id AND small_id = small.id";
    assert_eq!(join_order(&plan(&tables, sql, false).await), "(small (mid big))");
    assert_eq!(ordered(&tables, sql).await, "((small big) mid)");
}

#[tokio::test]
async fn star_probes_the_most_selective_dimension_first() {
    let tables = [
        table("fact", 6_000_000, &[("a_id", 1_000), ("b_id", 1_000), ("c_id", 1_000)]),
        table("a", 1_000, &[("id", 1_000), ("kind", 2)]),
        table("b", 1_000, &[("id", 1_000), ("kind", 100)]),
        table("c", 1_000, &[("id", 1_000), ("kind", 10)]),
    ];
    let sql = "SELECT count(*) FROM fact, a, b, c WHERE a_id = a.id AND b_id = b.id AND c_id = c.id \
               AND a.kind = 1 AND b.kind = 1 AND c.kind = 1";
    assert_eq!(ordered(&tables, sql).await, "(a (c (b fact)))");
}

#[tokio::test]
async fn snowflake_reduces_its_dimension_before_the_fact_table() {
    let tables = [
        table("lineitem", 6_000_000, &[("order_id", 1_500_000)]),
        table("orders", 1_500_000, &[("id", 1_500_000), ("customer_id", 100_000)]),
        table("customer", 150_000, &[("id", 150_000), ("nation_id", 25)]),
        table("nation", 25, &[("id", 25), ("name", 25)]),
    ];
    let sql = "SELECT count(*) FROM lineitem, orders, customer, nation WHERE order_id = orders.id \
               AND customer_id = customer.id AND nation_id = nation.id AND nation.name = 7";
    let order = ordered(&tables, sql).await;
    assert_eq!(order, "(((nation customer) orders) lineitem)");
}

#[tokio::test]
async fn transitive_equality_spares_a_cross_product() {
    // The query names a and c only through the large b.
    let tables = [
        table("a", 100, &[("x", 100)]),
        table("b", 1_000_000, &[("x", 100)]),
        table("c", 100, &[("x", 100)]),
    ];
    let sql = "SELECT count(*) FROM a, b, c WHERE a.x = b.x AND b.x = c.x";
    let order = ordered(&tables, sql).await;
    assert!(["((a c) b)", "((c a) b)"].contains(&order.as_str()), "{order}");
}

#[tokio::test]
async fn cycle_and_clique_start_at_the_small_end() {
    let tables = [
        table("a", 1_000_000, &[("x", 1_000), ("y", 1_000)]),
        table("b", 1_000_000, &[("y", 1_000), ("z", 1_000)]),
        table("c", 10, &[("z", 10), ("x", 10)]),
    ];
    let sql = "SELECT count(*) FROM a, b, c WHERE a.y = b.y AND b.z = c.z AND c.x = a.x";
    let order = ordered(&tables, sql).await;
    assert!(order.contains("(c a)") || order.contains("(c b)"), "{order}");
    let sql = "SELECT count(*) FROM a, b, c WHERE a.x = b.z AND b.z = c.z AND c.z = a.x";
    let order = ordered(&tables, sql).await;
    assert!(order.contains("(c a)") || order.contains("(c b)"), "{order}");
}

#[tokio::test]
async fn disconnected_tables_are_multiplied_last() {
    let tables = [
        table("a", 100_000, &[("x", 100_000)]),
        table("b", 1_000, &[("x", 1_000)]),
        table("c", 10, &[("y", 10)]),
    ];
    let sql = "SELECT count(*) FROM a, c, b WHERE a.x = b.x";
    let order = ordered(&tables, sql).await;
    assert!(order.contains("(b a)"), "{order}");
}

#[tokio::test]
async fn joins_below_outer_and_semi_joins_and_aggregates_are_ordered() {
    let tables = [
        table("big", 1_000_000, &[("mid_id", 100_000), ("small_id", 1_000)]),
        table("mid", 100_000, &[("id", 100_000)]),
        table("small", 50, &[("id", 50)]),
        table("other", 10, &[("id", 10)]),
    ];
    let inner = "SELECT mid.id FROM big, mid, small WHERE mid_id = mid.id AND small_id = small.id";
    for sql in [
        format!("SELECT * FROM ({inner}) t LEFT JOIN other ON t.id = other.id"),
        format!("SELECT * FROM ({inner}) t WHERE t.id IN (SELECT id FROM other)"),
        format!("SELECT * FROM ({inner}) t WHERE NOT EXISTS (SELECT 1 FROM other WHERE other.id = t.id)"),
        format!("SELECT count(*), id FROM ({inner}) GROUP BY id"),
    ] {
        let order = ordered(&tables, &sql).await;
        assert!(order.contains("((small big) mid)"), "{sql}: {order}");
    }
}

#[tokio::test]
async fn order_stays_without_row_counts() {
    let tables = [
        table("big", 1_000_000, &[("mid_id", 100_000), ("small_id", 1_000)]),
        table("mid", 100_000, &[("id", 100_000)]).without_statistics(),
        table("small", 50, &[("id", 50)]),
    ];
    let sql = "SELECT * FROM big, mid, small WHERE mid_id = mid.id AND small_id = small.id";
    let original = plan(&tables, sql, false).await;
    assert_eq!(ordered(&tables, sql).await, join_order(&original));
}

#[tokio::test]
async fn order_stays_for_a_small_gain() {
    // Both dimensions keep every row of the fact table: neither order is better.
    let tables = [
        table("fact", 1_000_000, &[("a_id", 1_000), ("b_id", 1_010)]),
        table("a", 1_000, &[("id", 1_000)]),
        table("b", 1_010, &[("id", 1_010)]),
    ];
    let sql = "SELECT count(*) FROM fact, a, b WHERE a_id = a.id AND b_id = b.id";
    assert_eq!(ordered(&tables, sql).await, "(b (a fact))");
    let sql = "SELECT count(*) FROM fact, b, a WHERE a_id = a.id AND b_id = b.id";
    assert_eq!(ordered(&tables, sql).await, "(a (b fact))");
}

#[tokio::test]
async fn intermediate_results_carry_only_what_is_read_above() {
    let tables = [
        table("big", 1_000_000, &[("mid_id", 100_000), ("small_id", 1_000), ("v", 10), ("w", 10)]),
        table("mid", 100_000, &[("id", 100_000), ("p", 10)]),
        table("small", 50, &[("id", 50), ("q", 10)]),
    ];
    let sql = "SELECT v, p FROM big, mid, small WHERE mid_id = mid.id AND small_id = small.id AND w < q";
    let reordered = plan(&tables, sql, true).await;
    assert_eq!(join_order(&reordered), "((small big) mid)");
    let text = displayable(reordered.as_ref()).indent(false).to_string();
    assert!(text.contains("filter=q@1 > w@0, projection=[mid_id@2, v@4]"), "{text}");
}

#[tokio::test]
async fn build_sides_follow_the_estimates_of_intermediate_results() {
    // DataFusion takes 20 % of the rows for any filter on a string-like OR; the estimate is 2 rows.
    let tables =
        [table("a", 100_000, &[("id", 100_000), ("kind", 100_000)]), table("b", 1_000, &[("id", 1_000)])];
    let sql = "SELECT * FROM b, a WHERE a.id = b.id AND (a.kind = 1 OR a.kind + a.id = 2 AND a.kind = 3)";
    assert_eq!(ordered(&tables, sql).await, "(a b)");
}

#[tokio::test]
async fn many_relations_are_ordered_greedily() {
    let columns: Vec<(String, usize)> = (0..14).map(|d| (format!("d{d}_id"), 1_000)).collect();
    let columns: Vec<(&str, usize)> = columns.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let mut tables = vec![table("fact", 1_000_000, &columns)];
    let mut sql = "SELECT count(*) FROM fact".to_owned();
    let mut predicates = vec![];
    for dimension in 0..14 {
        let name = format!("d{dimension}");
        // The last dimension named keeps the fewest rows.
        tables.push(table(&name, 1_000 - 70 * dimension, &[("id", 1_000 - 70 * dimension)]));
        sql += &format!(", {name}");
        predicates.push(format!("{name}_id = {name}.id"));
    }
    sql += &format!(" WHERE {}", predicates.join(" AND "));
    let order = ordered(&tables, &sql).await;
    assert!(order.contains("(d13 fact)"), "{order}");
    assert!(order.contains("(d12 (d13 fact))"), "{order}");
}

#[tokio::test]
async fn annotation_shows_the_estimates_the_order_was_chosen_by() {
    let tables = [
        table("big", 1_000_000, &[("mid_id", 100_000), ("small_id", 1_000)]),
        table("mid", 100_000, &[("id", 100_000)]),
        table("small", 50, &[("id", 50)]),
    ];
    let sql = "SELECT * FROM big, mid, small WHERE mid_id = mid.id AND small_id = small.id";
    let text = pelton_planner::annotate(&plan(&tables, sql, true).await, &Estimates::default(), false);
    let join_estimates: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("HashJoinExec"))
        .map(|line| line.rsplit_once("rows ").unwrap().1)
        .collect();
    assert_eq!(join_estimates, ["est=50000", "est=50000"], "{text}");
    assert!(text.contains("StatisticsScan: small, rows est=50\n"), "{text}");
}
