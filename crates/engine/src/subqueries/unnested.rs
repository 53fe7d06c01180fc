//! What `unnest` repeats is no key any more.
//!
//! ```text
//!   SELECT DISTINCT x FROM (SELECT x, unnest(ARRAY[1, 2]) AS y FROM t GROUP BY x)
//!
//!   Distinct  x                                   each x twice, for the DISTINCT was left out
//!     Projection  x
//!       Unnest  y
//!         Projection  x, ARRAY[1, 2] AS y   ─▶    Projection  or_null(x) AS x, ARRAY[1, 2] AS y
//!           Aggregate  x
//! ```
//!
//! DataFusion 55 takes the keys of what `unnest` reads for keys of what it gives, and the items for what depends on them. So it
//! leaves out DISTINCT, and keys of GROUP BY and ORDER BY behind such a key; and a join for partners of such keys becomes one
//! that asks whether there is a partner. Of a call it knows no key.
//!
//! It adds what depends on a key to a GROUP BY as soon as it plans one, before any rule runs, and leaves it out again later. Where
//! a GROUP BY stands above such an `unnest`, the statement is planned once more, with relations that have no such keys. So it is
//! above groups whose keys are none (`joined_keys.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Unnest};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::TableFactor;

use super::lateral::has_keys;
use super::values::or_null;
use crate::joined_keys::{has_false_keys, without_false_keys};

/// Runs before types are coerced, which computes all schemas anew. Keys may come to be known only once DISTINCT has become
/// GROUP BY.
#[derive(Debug)]
pub(crate) struct UnnestedKeys;

impl AnalyzerRule for UnnestedKeys {
    fn name(&self) -> &str {
        "pelton_unnested_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Unnest(unnest) if has_keys(&unnest.input)? => without_keys(unnest),
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

/// `unnest` over calls in place of the columns that it repeats.
fn without_keys(unnest: Unnest) -> Result<Transformed<LogicalPlan>> {
    let schema = unnest.input.schema();
    let (exprs, below) = match unnest.input.as_ref() {
        LogicalPlan::Projection(projection) if projection.expr.len() == schema.fields().len() => {
            (projection.expr.clone(), Arc::clone(&projection.input))
        }
        _ => (schema.columns().into_iter().map(Expr::Column).collect(), Arc::clone(&unnest.input)),
    };
    let lists = unnest.exec_columns.iter().map(|list| schema.index_of_column(list));
    let lists = lists.collect::<Result<Vec<usize>>>()?;
    let (mut columns, mut has_repeated) = (Vec::with_capacity(exprs.len()), false);
    for (place, (expr, (relation, field))) in exprs.into_iter().zip(schema.iter()).enumerate() {
        let is_repeated = !lists.contains(&place) && matches!(expr.clone().unalias(), Expr::Column(_));
        has_repeated |= is_repeated;
        columns.push(match is_repeated {
            true => or_null(expr.unalias()).alias_qualified(relation.cloned(), field.name()),
            false => expr,
        });
    }
    if !has_repeated {
        return Ok(Transformed::no(LogicalPlan::Unnest(unnest)));
    }
    let input = Arc::new(LogicalPlan::Projection(Projection::try_new(columns, below)?));
    let unnest = Unnest::try_new(input, unnest.exec_columns, unnest.options)?;
    Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
}

fn is_keyed(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Unnest(unnest) => !unnest.schema.functional_dependencies().is_empty(),
        LogicalPlan::Aggregate(aggregate) => has_false_keys(aggregate),
        _ => false,
    }
}

/// Whether `plan` has groups of what an `unnest` gives, or other groups, that are taken to have keys which are none.
pub(crate) fn groups_unnested(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && !aggregate.group_expr.is_empty()
        {
            let input: &LogicalPlan = &aggregate.input;
            found |= input.exists(|below| Ok(is_keyed(below)))?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Plans the relations of one statement without such keys.
#[derive(Debug, Default)]
pub(crate) struct UnnestedRelations {
    /// The relation that comes next is the one that was asked for here, to be planned as any other.
    is_asked: AtomicBool,
}

impl RelationPlanner for UnnestedRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let may_unnest = matches!(relation, TableFactor::Table { .. } | TableFactor::Derived { .. });
        if self.is_asked.swap(false, Ordering::Relaxed) || !may_unnest {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        self.is_asked.store(true, Ordering::Relaxed);
        let plan = keyless(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

fn keyless(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.exists(|node| Ok(is_keyed(node)))? {
        return Ok(plan);
    }
    let rewritten = plan.transform_up(|node| match node {
        LogicalPlan::Unnest(unnest) => without_keys(unnest),
        LogicalPlan::Aggregate(aggregate) if has_false_keys(&aggregate) => without_false_keys(aggregate),
        other => Ok(Transformed::yes(other.recompute_schema()?)),
    });
    Ok(rewritten?.data)
}
