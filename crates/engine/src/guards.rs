//! What fails for some rows is not computed of those that a condition beside it decides.
//!
//! ```text
//!   WHERE b <> 0 AND 10 / b > 0            b <> 0 AND CASE WHEN b <> 0 THEN 10 / b > 0 ELSE FALSE END
//!   WHERE s <> 'x' AND CAST(s AS INT) = 1  likewise
//!   b = 0 OR 10 / b > 0                    CASE WHEN b = 0 THEN TRUE ELSE b = 0 OR 10 / b > 0 END
//! ```
//!
//! SQL leaves the order of AND open, but who writes the first means it, PostgreSQL and DuckDB answer, and so does a subquery whose
//! WHERE was merged with that around it. DataFusion 55 computes both sides of all rows. Only divisions and casts of texts are
//! looked for: other things fail too rarely for what a CASE costs. All conditions that cannot fail are guards, wherever they
//! stand. It is written once the plan is optimized: rules take CASE apart, and compute once what stands twice.
//!
//! A CASE of the statement guards as well, and DataFusion makes AND and OR of one that is BOOLEAN. So until the plan is optimized,
//! it is `CASE TRUE WHEN …`, which means the same and is left alone.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Filter, LogicalPlan, Operator, TableScan, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use crate::balance::parts;
use crate::opaque::columns_of;
use crate::simplify::map_expressions;
use crate::subqueries::may_change;

/// Has DataFusion leave alone what is BOOLEAN and guards. Runs once types are known.
#[derive(Debug)]
pub(crate) struct GuardingCases;

impl AnalyzerRule for GuardingCases {
    fn name(&self) -> &str {
        "pelton_guarding_cases"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let Some(schema) = schema_if_failing(&plan)? else { return Ok(Transformed::no(plan)) };
            map_expressions(plan, &|expr| expr.transform_up(|part| Ok(kept_case(part, &schema))))
        });
        Ok(rewritten?.data)
    }
}

/// `expr` as DataFusion leaves it alone, if it is a CASE that guards.
fn kept_case(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Case(case) if case.expr.is_none() && guards(&case, schema) => {
            Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case }))
        }
        other => Transformed::no(other),
    }
}

fn guards(case: &Case, schema: &DFSchema) -> bool {
    let branches = case.when_then_expr.iter().flat_map(|(when, then)| [when, then]);
    branches.chain(&case.else_expr).any(|branch| may_fail(branch, schema))
}

/// `plan`, which is optimized, with guards.
pub(crate) fn write_guards(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let Some(schema) = schema_if_failing(&plan)? else { return Ok(Transformed::no(plan)) };
        Ok(match plan {
            LogicalPlan::Filter(filter) => {
                let conditions = split_conjunction_owned(filter.predicate);
                match conjunction(guarded_conditions(conditions, &schema)?) {
                    Some(predicate) => {
                        Transformed::yes(LogicalPlan::Filter(Filter::new(predicate, filter.input)))
                    }
                    None => Transformed::yes(filter.input.as_ref().clone()),
                }
            }
            LogicalPlan::TableScan(scan) => {
                let filters = guarded_conditions(scan.filters, &schema)?;
                Transformed::yes(LogicalPlan::TableScan(TableScan { filters, ..scan }))
            }
            LogicalPlan::Join(mut join) => {
                let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
                join.filter = conjunction(guarded_conditions(conditions, &schema)?);
                Transformed::yes(LogicalPlan::Join(join))
            }
            other => map_expressions(other, &|expr| guarded(expr, &schema))?,
        })
    });
    Ok(rewritten?.data)
}

/// `conditions`, all of which are asked, the failing ones of rows alone for which the others are true.
fn guarded_conditions(conditions: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let conditions = conditions.into_iter().map(|condition| Ok(guarded(condition, schema)?.data));
    let conditions = conditions.collect::<Result<Vec<_>>>()?;
    let (failing, mut sure): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(|condition| may_fail(condition, schema));
    let guard = conjunction(sure.iter().filter(|condition| !may_change(condition)).cloned());
    match (guard, conjunction(failing.iter().cloned())) {
        (Some(guard), Some(failing)) => sure.push(when(guard, failing).otherwise(lit(false))?),
        _ => sure.extend(failing),
    }
    Ok(sure)
}

/// `expr`, of any three-valued use, with guards in its ANDs and ORs, and its own CASEs as they were written.
fn guarded(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| {
        let op = match &part {
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => *op,
            Expr::Case(Case { expr: Some(base), .. }) if **base == lit(true) => {
                let Expr::Case(case) = part else { unreachable!("it is one") };
                return Ok(Transformed::yes(Expr::Case(Case { expr: None, ..case })));
            }
            _ => return Ok(Transformed::no(part)),
        };
        let all = parts(&part, |part| match part {
            Expr::BinaryExpr(binary) if binary.op == op => Ok((&*binary.left, &*binary.right)),
            other => Err(other),
        });
        let (failing, sure): (Vec<&Expr>, Vec<&Expr>) = all.iter().partition(|part| may_fail(part, schema));
        let sure = sure.into_iter().filter(|part| !may_change(part)).cloned();
        let decided = if op == Operator::And { conjunction(sure) } else { disjunction(sure) };
        match decided {
            Some(decided) if !failing.is_empty() => Ok(Transformed::yes(match op {
                Operator::And => when(!decided, lit(false)).otherwise(part)?,
                _ => when(decided, lit(true)).otherwise(part)?,
            })),
            _ => Ok(Transformed::no(part)),
        }
    })
}

/// The columns of `plan`'s expressions, if one of them may fail.
fn schema_if_failing(plan: &LogicalPlan) -> Result<Option<DFSchema>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(divides(part) || matches!(part, Expr::Cast(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(None);
    }
    let Some(schema) = columns_of(plan) else { return Ok(None) };
    let mut fails = false;
    plan.apply_expressions(|expr| {
        fails |= expr.exists(|part| Ok(fails_itself(part, &schema)))?;
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(fails.then_some(schema))
}

/// Whether computing `expr` may fail, other than within a CASE, which guards.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let mut fails = false;
    let walked = expr.apply(|part| {
        Ok(match part {
            Expr::Case(_) => TreeNodeRecursion::Jump,
            part if fails_itself(part, schema) => {
                fails = true;
                TreeNodeRecursion::Stop
            }
            _ => TreeNodeRecursion::Continue,
        })
    });
    fails || walked.is_err()
}

fn fails_itself(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Cast(cast) => {
            let is_text = cast.expr.get_type(schema).is_ok_and(|from| from.is_string());
            is_text && !cast.field.data_type().is_string() && !matches!(&*cast.expr, Expr::Literal(..))
        }
        other => divides(other),
    }
}

/// Whether `expr` divides by what may be zero.
fn divides(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            may_be_zero(right)
        }
        Expr::ScalarFunction(call) if call.name() == "divide" => call.args.last().is_some_and(may_be_zero),
        _ => false,
    }
}

fn may_be_zero(divisor: &Expr) -> bool {
    match divisor {
        Expr::Literal(value, _) => ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| *value == zero),
        Expr::Cast(cast) => may_be_zero(&cast.expr),
        Expr::ScalarFunction(call) => call.name() != "nullif",
        _ => true,
    }
}
