//! Outer joins whose rows without a partner another join drops are inner ones.
//!
//! ```text
//!   Join  sr_reason_sk = r_reason_sk              NULL equals nothing: rows of sales without a return end here
//!     Join LEFT  ss_item_sk = sr_item_sk   ─▶  Join INNER
//!       store_sales                              store_sales
//!       store_returns                            store_returns
//!     reason
//! ```
//!
//! DataFusion looks for that in filters alone. An inner join may be put in any order with those around it.
//!
//! Galindo-Legaria, Rosenthal, "Outerjoin Simplification and Reordering for Query Optimization", TODS 1997, section 3.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with the one of this file behind DataFusion's for filters.
pub(crate) fn install(mut rules: Rules) -> Rules {
    let theirs = rules.iter().position(|rule| rule.name() == "eliminate_outer_join");
    let place = theirs.expect("DataFusion eliminates outer joins by another rule now");
    rules.insert(place + 1, Arc::new(OuterKeys));
    rules
}

/// See the module.
#[derive(Debug)]
struct OuterKeys;

impl OptimizerRule for OuterKeys {
    fn name(&self) -> &str {
        "pelton_outer_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        let (drops_left, drops_right) = drops(join);
        let (left_keys, right_keys): (Vec<&Expr>, Vec<&Expr>) = join.on.iter().map(|(l, r)| (l, r)).unzip();
        let left = if drops_left { without_nulls(&join.left, &columns(left_keys))? } else { None };
        let right = if drops_right { without_nulls(&join.right, &columns(right_keys))? } else { None };
        Ok(match over(join, join.join_type, left, right) {
            Some(join) => Transformed::yes(join),
            None => Transformed::no(plan),
        })
    }
}

/// Whether a row of the left side, and one of the right side, with NULL in a key is as good as none.
fn drops(join: &Join) -> (bool, bool) {
    if join.null_equality == NullEquality::NullEqualsNull || join.null_aware {
        return (false, false);
    }
    match join.join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti => (false, true),
        JoinType::Right | JoinType::RightAnti => (true, false),
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => (false, false),
    }
}

/// Those of `keys` that are columns.
fn columns<'a>(keys: impl IntoIterator<Item = &'a Expr>) -> Vec<Column> {
    keys.into_iter().filter_map(as_column).collect()
}

/// The column that `expr` is, by whatever name.
fn as_column(expr: &Expr) -> Option<Column> {
    match expr {
        Expr::Alias(alias) => as_column(&alias.expr),
        Expr::Column(column) => Some(column.clone()),
        _ => None,
    }
}

/// `plan` with inner joins for outer ones, where nobody asks for rows that have NULL in one of `columns`; `None` where it stays
/// as it is.
fn without_nulls(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let places = columns.iter().filter_map(|column| plan.schema().maybe_index_of_column(column));
    // The columns of the input that these are.
    let below: Vec<Column> = match plan {
        LogicalPlan::Join(join) => return of_join(join, columns),
        LogicalPlan::Filter(_) => columns.to_vec(),
        LogicalPlan::Projection(projection) => {
            places.filter_map(|place| as_column(&projection.expr[place])).collect()
        }
        LogicalPlan::SubqueryAlias(named) => {
            places.map(|place| Column::from(named.input.schema().qualified_field(place))).collect()
        }
        // The rows with NULL in a key are a group of their own.
        LogicalPlan::Aggregate(aggregate) => match &aggregate.group_expr[..] {
            [Expr::GroupingSet(_)] => return Ok(None),
            keys => places.filter_map(|place| keys.get(place).and_then(as_column)).collect(),
        },
        _ => return Ok(None),
    };
    let Some(input) = without_nulls(plan.inputs()[0], &below)? else { return Ok(None) };
    let over_input = plan.clone().map_children(|_| Ok(Transformed::yes(input.clone())))?;
    Ok(Some(over_input.data))
}

fn of_join(join: &Join, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    let of = |schema: &DFSchema| {
        let own = columns.iter().filter(|column| schema.maybe_index_of_column(column).is_some());
        own.cloned().collect::<Vec<Column>>()
    };
    // Semi joins and the like give columns of one side; the other's have the same names at times.
    let (left_columns, right_columns) = match join.join_type {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (of(join.left.schema()), Vec::new()),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (Vec::new(), of(join.right.schema()))
        }
        _ => (of(join.left.schema()), of(join.right.schema())),
    };
    let join_type = match (join.join_type, !left_columns.is_empty(), !right_columns.is_empty()) {
        (JoinType::Left, _, true) | (JoinType::Right, true, _) | (JoinType::Full, true, true) => {
            JoinType::Inner
        }
        (JoinType::Full, true, false) => JoinType::Left,
        (JoinType::Full, false, true) => JoinType::Right,
        (kept, _, _) => kept,
    };
    let left = without_nulls(&join.left, &left_columns)?;
    let right = without_nulls(&join.right, &right_columns)?;
    Ok(over(join, join_type, left, right))
}

/// `join` as one of `join_type` over the sides that are given; `None` where nothing changes.
fn over(
    join: &Join,
    join_type: JoinType,
    left: Option<LogicalPlan>,
    right: Option<LogicalPlan>,
) -> Option<LogicalPlan> {
    if join_type == join.join_type && left.is_none() && right.is_none() {
        return None;
    }
    Some(LogicalPlan::Join(Join {
        left: left.map_or_else(|| Arc::clone(&join.left), Arc::new),
        right: right.map_or_else(|| Arc::clone(&join.right), Arc::new),
        join_type,
        ..join.clone()
    }))
}
