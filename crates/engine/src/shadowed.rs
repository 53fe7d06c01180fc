//! A projection that gives a column the name of one that it reads is not mistaken for the same projection above it.
//!
//! DataFusion 55 takes a projection for superfluous where the one below it has equal expressions. They are equal as text;
//! the names in them mean different columns:
//!
//! ```text
//!   Projection v + 1 AS v                                  Projection __shadowed_1 + 1 AS v
//!     Projection v + 1 AS v        would become one,  ─▶     Projection v + 1 AS __shadowed_1
//!       Scan v                                                 Scan v
//! ```
//!
//! This rule runs before DataFusion's. Below a projection it renames each column whose name its own projection also reads.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

type Rules = Vec<Arc<dyn OptimizerRule + Send + Sync>>;

/// `rules` with this one before each that merges projections.
pub(crate) fn install(rules: Rules) -> Rules {
    let merging = OptimizeProjections::new();
    let mut installed = Rules::new();
    for rule in rules {
        if rule.name() == merging.name() {
            installed.push(Arc::new(ShadowedRule));
        }
        installed.push(rule);
    }
    installed
}

#[derive(Debug)]
struct ShadowedRule;

impl OptimizerRule for ShadowedRule {
    fn name(&self) -> &str {
        "pelton_shadowed_columns"
    }

    /// From the top, so that of a chain of projections each but the first is looked at as one below another.
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(outer) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Projection(inner) = outer.input.as_ref() else { return Ok(Transformed::no(plan)) };
        let new_names = new_names(inner, config);
        if new_names.iter().all(Option::is_none) {
            return Ok(Transformed::no(plan));
        }
        let renamed = inner.expr.iter().zip(&new_names).map(|(expr, name)| match name {
            Some(name) => expr.clone().unalias().alias(name.clone()),
            None => expr.clone(),
        });
        let renamed = Projection::try_new(renamed.collect(), Arc::clone(&inner.input))?;
        let above = outer.expr.iter().map(|expr| on_new_names(expr, inner, &new_names));
        let above = above.collect::<Result<Vec<_>>>()?;
        let input = Arc::new(LogicalPlan::Projection(renamed));
        let above = Projection::try_new_with_schema(above, input, Arc::clone(&outer.schema))?;
        Ok(Transformed::yes(LogicalPlan::Projection(above)))
    }
}

/// For each column of `projection` that has the name of another one which the projection reads, a name of its own.
fn new_names(projection: &Projection, config: &dyn OptimizerConfig) -> Vec<Option<String>> {
    let reads: Vec<Column> =
        projection.expr.iter().flat_map(|expr| expr.column_refs().into_iter().cloned()).collect();
    let columns = projection.schema.columns();
    let expressions = columns.iter().zip(&projection.expr);
    let shadows = |(column, expr): (&Column, &Expr)| {
        let is_itself = expr.try_as_col() == Some(column);
        (!is_itself && reads.contains(column)).then(|| config.alias_generator().next("__shadowed"))
    };
    expressions.map(shadows).collect()
}

/// `expr`, which reads the columns of `inner`, on their new names and under its own name.
fn on_new_names(expr: &Expr, inner: &Projection, new_names: &[Option<String>]) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(expr);
    let rewritten = expr.clone().transform_up(|expr| {
        let Expr::Column(column) = &expr else { return Ok(Transformed::no(expr)) };
        Ok(match &new_names[inner.schema.index_of_column(column)?] {
            Some(name) => Transformed::yes(Expr::Column(Column::new_unqualified(name.clone()))),
            None => Transformed::no(expr),
        })
    })?;
    Ok(name.restore(rewritten.data))
}
