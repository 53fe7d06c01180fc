//! An aggregate of a subquery whose arguments name columns of a query around it alone is an aggregate of that query.
//!
//! ```text
//!   SELECT (SELECT count(a.d) + v.c FROM v) FROM a      one row: it is the rows of a that are counted
//!
//!   Projection  (SELECT outer(n) + v.c FROM v)
//!     Aggregate  n = count(a.d)
//!       a
//! ```
//!
//! DataFusion 55 computes it for the rows of the subquery, once for each row around. Here the call moves to the SELECT or HAVING
//! around it, which groups all its rows if it has no groups yet, and the subquery names the result. Where a query cannot have
//! aggregates, as in WHERE, it is an error.
//!
//! SQL:2016, part 2, 6.9 <set function specification>, syntax rule 6 (aggregated arguments and the aggregation query).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, Projection, Subquery, Window};
use datafusion::optimizer::AnalyzerRule;
use pelton_error::Error;

use super::Names;
use super::outer::{has_subquery, outer_columns, outer_columns_of, subquery_of};
use crate::error::to_datafusion;

/// What columns of results are called, with a number.
const RESULT: &str = "outer_aggregate";

/// Runs before types are coerced, and before anything is said of rows that a subquery has.
#[derive(Debug)]
pub(crate) struct OuterAggregates;

impl AnalyzerRule for OuterAggregates {
    fn name(&self) -> &str {
        "pelton_outer_aggregates"
    }

    /// From the inside out: what a query takes is not there any more for those around it.
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let names = Names::default();
        Ok(plan.transform_up_with_subqueries(|plan| rewrite(plan, &names))?.data)
    }
}

/// `plan` with the aggregates of its own that are in its subqueries.
fn rewrite(plan: LogicalPlan, names: &Names) -> Result<Transformed<LogicalPlan>> {
    let mut has_subqueries = false;
    plan.apply_expressions(|expr| {
        has_subqueries |= has_subquery(expr);
        Ok(if has_subqueries { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_subqueries {
        return Ok(Transformed::no(plan));
    }
    let rows = rows_of(&plan);
    let mut moved = Moved { rows: &rows, names, calls: Vec::new() };
    let rewritten = plan.clone().map_subqueries(|subquery| moved.out_of(subquery))?;
    let calls = moved.calls;
    if calls.is_empty() {
        return Ok(Transformed::no(plan));
    }
    let plan = match rewritten.data {
        LogicalPlan::Projection(projection) => of_projection(projection, calls, &rows)?,
        LogicalPlan::Filter(filter) => match with_calls(&filter.input, &calls)? {
            Some(input) => LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?),
            None => return Err(misplaced("WHERE")),
        },
        LogicalPlan::Sort(_) => {
            return Err(to_datafusion(Error::unsupported(
                "an aggregate in a subquery of ORDER BY is one of the query around; compute the subquery in the SELECT list \
                 and order by that column",
            )));
        }
        _ => return Err(misplaced("GROUP BY, ON and arguments of other functions")),
    };
    Ok(Transformed::yes(plan))
}

/// The columns that an aggregate beside the expressions of `plan` may name.
fn rows_of(plan: &LogicalPlan) -> DFSchema {
    let mut plan = plan;
    if let LogicalPlan::Sort(sort) = plan {
        plan = sort.input.as_ref();
    }
    while let LogicalPlan::Projection(Projection { input, .. })
    | LogicalPlan::Filter(Filter { input, .. })
    | LogicalPlan::Window(Window { input, .. }) = plan
    {
        match input.as_ref() {
            LogicalPlan::Aggregate(aggregate) => return aggregate.input.schema().as_ref().clone(),
            LogicalPlan::Filter(_) | LogicalPlan::Window(_) => plan = input.as_ref(),
            other => return other.schema().as_ref().clone(),
        }
    }
    merge_schema(&plan.inputs())
}

/// The SELECT list over groups that have `calls` as well.
fn of_projection(projection: Projection, calls: Vec<Expr>, rows: &DFSchema) -> Result<LogicalPlan> {
    let Projection { expr, input, schema, .. } = projection;
    let input = match with_calls(&input, &calls)? {
        Some(input) => input,
        None if has_windows(&input) => {
            return Err(to_datafusion(Error::unsupported(
                "a subquery aggregates the rows of a query that has window functions; name the aggregate in the SELECT \
                 list of a subquery in FROM",
            )));
        }
        None => {
            check_is_grouped(&expr, rows)?;
            LogicalPlan::Aggregate(Aggregate::try_new(input, Vec::new(), calls)?)
        }
    };
    Ok(LogicalPlan::Projection(Projection::try_new_with_schema(expr, Arc::new(input), schema)?))
}

/// `plan` with `calls` among its aggregates; `None` where it has no groups.
fn with_calls(plan: &LogicalPlan, calls: &[Expr]) -> Result<Option<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let (input, groups) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
            let all = aggregate.aggr_expr.iter().chain(calls).cloned().collect();
            Some(LogicalPlan::Aggregate(Aggregate::try_new(input, groups, all)?))
        }
        LogicalPlan::Filter(filter) => match with_calls(&filter.input, calls)? {
            Some(input) => {
                Some(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), Arc::new(input))?))
            }
            None => None,
        },
        LogicalPlan::Window(window) => match with_calls(&window.input, calls)? {
            Some(input) => {
                Some(LogicalPlan::Window(Window::try_new(window.window_expr.clone(), Arc::new(input))?))
            }
            None => None,
        },
        _ => None,
    })
}

fn has_windows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Window(_) => true,
        LogicalPlan::Filter(filter) => has_windows(&filter.input),
        _ => false,
    }
}

/// That `exprs` of a SELECT whose rows have become one group name no column of `rows`.
fn check_is_grouped(exprs: &[Expr], rows: &DFSchema) -> Result<()> {
    for expr in exprs {
        let mut named = expr.column_refs().into_iter().cloned();
        let outer = outer_columns_of(expr, &[]).into_iter().map(|(_, column)| column);
        let ungrouped = named.next().or_else(|| outer.into_iter().find(|column| rows.has_column(column)));
        if let Some(column) = ungrouped {
            return Err(to_datafusion(Error::invalid_input(format!(
                "column {column} must appear in GROUP BY or be used in an aggregate, since an aggregate in a subquery \
                 groups the rows of this query: its arguments are columns of this query alone"
            ))));
        }
    }
    Ok(())
}

fn misplaced(place: &str) -> DataFusionError {
    to_datafusion(Error::invalid_input(format!(
        "aggregates are not allowed in {place}, and one in a subquery there is of the query around, as its arguments are \
         columns of that query alone; write a subquery in FROM that has the aggregate in its SELECT list"
    )))
}

/// Aggregates that leave subqueries.
struct Moved<'a> {
    /// What they may name.
    rows: &'a DFSchema,
    names: &'a Names,
    /// They themselves, over `rows`, under names of their own.
    calls: Vec<Expr>,
}

impl Moved<'_> {
    fn out_of(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(|call| self.is_ours(call)) => {
                self.out_of_aggregate(aggregate).map(Transformed::yes)
            }
            LogicalPlan::Filter(filter) if is_ungrouped(&filter.input) && !self.calls.is_empty() => {
                Err(to_datafusion(Error::unsupported(
                    "HAVING of a subquery without groups has aggregates of the query around alone; write the condition \
                     in the WHERE of the subquery, over an aggregate that a subquery in FROM computes",
                )))
            }
            LogicalPlan::Subquery(subquery) if !self.calls.is_empty() => {
                let outer = outer_columns(&subquery.subquery).into_iter();
                let outer_ref_columns =
                    outer.map(|(field, column)| Expr::OuterReferenceColumn(field, column)).collect();
                Ok(Transformed::yes(LogicalPlan::Subquery(Subquery { outer_ref_columns, ..subquery })))
            }
            other => Ok(Transformed::no(other)),
        })
    }

    /// Whether `call` names columns of `rows`, and nothing else.
    fn is_ours(&self, call: &Expr) -> bool {
        let (mut has_ours, mut has_others) = (false, false);
        // The closure gives no errors.
        let _ = call.apply(|expr| {
            match expr {
                Expr::OuterReferenceColumn(_, column) if self.rows.has_column(column) => has_ours = true,
                Expr::OuterReferenceColumn(..) | Expr::Column(_) => has_others = true,
                other => has_others |= subquery_of(other).is_some(),
            }
            Ok(TreeNodeRecursion::Continue)
        });
        has_ours && !has_others
    }

    /// `aggregate`, or what it is over, with the results of the calls in place of those that leave it.
    fn out_of_aggregate(&mut self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let schema = Arc::clone(&aggregate.schema);
        let mut output: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
        let first = output.len() - aggregate.aggr_expr.len();
        let mut kept = Vec::new();
        for (number, call) in aggregate.aggr_expr.into_iter().enumerate() {
            if !self.is_ours(&call) {
                kept.push(call);
                continue;
            }
            let name = self.names.next(RESULT);
            let (qualifier, field) = schema.qualified_field(first + number);
            let outer = Arc::new(field.as_ref().clone().with_name(&name));
            output[first + number] = Expr::OuterReferenceColumn(outer, Column::new_unqualified(&name))
                .alias_qualified(qualifier.cloned(), field.name());
            self.calls.push(over_rows(call)?.unalias().alias(name));
        }
        let input = match kept.is_empty() && aggregate.group_expr.is_empty() {
            true => aggregate.input,
            false => Arc::new(LogicalPlan::Aggregate(Aggregate::try_new(
                aggregate.input,
                aggregate.group_expr,
                kept,
            )?)),
        };
        Ok(LogicalPlan::Projection(Projection::try_new(output, input)?))
    }
}

/// `call` as the query around has it.
fn over_rows(call: Expr) -> Result<Expr> {
    let named = call.transform_up(|expr| {
        Ok(match expr {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            other => Transformed::no(other),
        })
    });
    Ok(named?.data)
}

/// Whether `plan` was an aggregate without groups all of whose calls have left.
fn is_ungrouped(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = plan else { return false };
    let is_result = |expr: &Expr| match expr {
        Expr::Alias(alias) => match alias.expr.as_ref() {
            Expr::OuterReferenceColumn(_, column) => column.name.contains(RESULT),
            _ => false,
        },
        _ => false,
    };
    !matches!(projection.input.as_ref(), LogicalPlan::Aggregate(_)) && projection.expr.iter().any(is_result)
}
