//! Keys of ROLLUP, CUBE and GROUPING SETS that are computed get computed below.
//!
//! ```text
//!   Projection  n AS "day + 1", sum(x)
//!     Aggregate  ROLLUP (n), sum(x)              ROLLUP (day + 1)
//!       Projection  *, day + 1 AS n
//! ```
//!
//! Grouping sets are one expression to DataFusion 55. Rules that give another form to what is inside, and a name of its own, so
//! that others find it, do so with all sets together: those of a predicate are no sets any more then, and their columns are
//! not found. Columns are left as they are by all rules. `grouping(day + 1)` names the new columns as well.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;

/// The columns of keys, with a number; no user's name begins like this.
const KEY: &str = "__pelton_set_key";

/// Runs before types are coerced, which is the first to give keys other forms.
#[derive(Debug)]
pub(crate) struct SetKeys;

impl AnalyzerRule for SetKeys {
    fn name(&self) -> &str {
        "pelton_set_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match &plan {
            LogicalPlan::Aggregate(aggregate) => Ok(match over_columns(aggregate)? {
                Some(over_columns) => Transformed::yes(over_columns),
                None => Transformed::no(plan),
            }),
            _ => Ok(Transformed::no(plan)),
        });
        Ok(rewritten?.data)
    }
}

/// `aggregate` over sets of columns; `None` where it has no others.
fn over_columns(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let [Expr::GroupingSet(sets)] = &aggregate.group_expr[..] else { return Ok(None) };
    let mut keys: Vec<&Expr> = Vec::new();
    for key in grouping_set_to_exprlist(&aggregate.group_expr)? {
        if !matches!(key, Expr::Column(_)) && !keys.contains(&key) {
            keys.push(key);
        }
    }
    // What stands in a subquery and names columns around it is moved up from there, not down.
    if keys.is_empty() || keys.iter().any(|key| is_of_a_query(key)) {
        return Ok(None);
    }
    let name = |number: usize| format!("{KEY}_{number}");
    let column_of = |expr: &Expr| {
        let number = keys.iter().position(|key| *key == expr)?;
        Some(Expr::Column(Column::new_unqualified(name(number))))
    };
    let as_column = |expr: &Expr| column_of(expr).unwrap_or_else(|| expr.clone());
    let input = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let computed = keys.iter().enumerate().map(|(number, key)| (*key).clone().alias(name(number)));
    let below = Projection::try_new(input.chain(computed).collect(), Arc::clone(&aggregate.input))?;
    let all = |exprs: &Vec<Expr>| exprs.iter().map(as_column).collect::<Vec<Expr>>();
    let sets = match sets {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(all(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(all(exprs)),
        GroupingSet::GroupingSets(sets) => GroupingSet::GroupingSets(sets.iter().map(all).collect()),
    };
    let calls = aggregate.aggr_expr.iter().map(|call| naming_columns(call, &as_column));
    let calls = calls.collect::<Result<Vec<Expr>>>()?;
    let below = Arc::new(LogicalPlan::Projection(below));
    let grouped = Aggregate::try_new(below, vec![Expr::GroupingSet(sets)], calls)?;
    if grouped.schema.fields().len() != aggregate.schema.fields().len() {
        return Ok(None);
    }
    // Of the number of the set no plan knows yet.
    let columns = grouped.schema.columns().into_iter().zip(aggregate.schema.iter());
    let columns = columns.filter(|(column, _)| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let output = columns.map(|(column, (qualifier, field))| {
        match column.relation.as_ref() == qualifier && column.name == *field.name() {
            true => Expr::Column(column),
            false => Expr::Column(column).alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    let output: Vec<Expr> = output.collect();
    let grouped = Arc::new(LogicalPlan::Aggregate(grouped));
    Ok(Some(LogicalPlan::Projection(Projection::try_new(output, grouped)?)))
}

/// Whether `expr` names columns of a query around, or has one within.
fn is_of_a_query(expr: &Expr) -> bool {
    let is_of = |expr: &Expr| {
        matches!(
            expr,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        )
    };
    expr.exists(|expr| Ok(is_of(expr))).unwrap_or(true)
}

/// `call` under its name, with columns for the keys that `grouping` asks about.
fn naming_columns(call: &Expr, as_column: &dyn Fn(&Expr) -> Expr) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(call);
    let named = call.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                call.params.args = call.params.args.iter().map(as_column).collect();
                Transformed::yes(Expr::AggregateFunction(call))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(if named.transformed { name.restore(named.data) } else { named.data })
}
