//! Keeps the type of `sum` where DataFusion splits an aggregate with DISTINCT in two.
//!
//! ```text
//!   SELECT sum(a), count(DISTINCT b)
//!     SELECT sum(a'), count(b) FROM (SELECT sum(a) AS a', b … GROUP BY b)
//! ```
//!
//! Its rule takes the sum of sums for a sum of the same type. Here a sum of BIGINT is a DECIMAL, so it is cast back. And it takes
//! `corr(DISTINCT x, x)` for an aggregate of one argument, and fails where it finds two.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, cast};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// DataFusion's rule, with the types of before.
#[derive(Debug, Default)]
pub(super) struct DistinctKeepsTypes(SingleDistinctToGroupBy);

impl OptimizerRule for DistinctKeepsTypes {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        if aggregate.aggr_expr.iter().any(is_of_several) {
            return Ok(Transformed::no(plan));
        }
        let before = plan.schema().clone();
        let rewritten = self.0.rewrite(plan, config)?;
        if !rewritten.transformed {
            return Ok(rewritten);
        }
        rewritten.map_data(|plan| match plan {
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                let columns = expr.into_iter().zip(before.fields()).map(|(expr, field)| {
                    if expr.get_type(input.schema())? == *field.data_type() {
                        return Ok(expr);
                    }
                    Ok(match expr {
                        Expr::Alias(alias) => cast(*alias.expr, field.data_type().clone())
                            .alias_qualified(alias.relation, alias.name),
                        other => cast(other, field.data_type().clone()).alias(field.name()),
                    })
                });
                let columns = columns.collect::<Result<Vec<_>>>()?;
                Ok(LogicalPlan::Projection(Projection::try_new(columns, input)?))
            }
            other => Ok(other),
        })
    }
}

/// Whether `expr` aggregates distinct values of several arguments.
fn is_of_several(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(call) if call.params.distinct && call.params.args.len() > 1)
}
