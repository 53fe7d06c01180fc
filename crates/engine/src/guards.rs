//! What fails for some rows is not computed of those that a condition beside it decides.
//!
//! ```text
//!   WHERE b <> 0 AND 10 / b > 0            b <> 0 AND CASE WHEN b <> 0 THEN 10 / b > 0 ELSE FALSE END
//!   WHERE s <> 'x' AND CAST(s AS INT) = 1  likewise
//!   b = 0 OR 10 / b > 0                    CASE WHEN b = 0 THEN TRUE ELSE b = 0 OR 10 / b > 0 END
//! ```
//!
//! SQL leaves the order of AND open, but who writes the first means it, PostgreSQL and DuckDB answer, and so does a subquery whose
//! WHERE was merged with that around it. DataFusion 55 computes both sides of all rows. Only divisions of exact numbers and casts
//! of texts are looked for: other things fail too rarely for what a CASE costs, and a DOUBLE divided by zero is infinite. All
//! conditions that cannot fail are guards, wherever they stand. They are computed twice, once more in the CASE; so where some of
//! them say that no divisor is zero, those alone are. It is written once the plan is optimized: rules take CASE apart, and compute
//! once what stands twice.
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
    let guards: Vec<&Expr> = sure.iter().filter(|condition| !may_change(condition)).collect();
    let guards = enough_of(guards, &failing.iter().collect::<Vec<_>>(), Operator::And, schema);
    match (conjunction(guards.into_iter().cloned()), conjunction(failing.iter().cloned())) {
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
        let guards: Vec<&Expr> = sure.into_iter().filter(|part| !may_change(part)).collect();
        let guards = enough_of(guards, &failing, op, schema).into_iter().cloned();
        let decided = if op == Operator::And { conjunction(guards) } else { disjunction(guards) };
        match decided {
            Some(decided) if !failing.is_empty() => Ok(Transformed::yes(match op {
                Operator::And => when(!decided, lit(false)).otherwise(part)?,
                _ => when(decided, lit(true)).otherwise(part)?,
            })),
            _ => Ok(Transformed::no(part)),
        }
    })
}

/// Those of `guards`, the parts of an AND or an OR, that suffice for what may fail beside them: one for each divisor where they say
/// that it is not zero, else all.
fn enough_of<'a>(guards: Vec<&'a Expr>, failing: &[&Expr], op: Operator, schema: &DFSchema) -> Vec<&'a Expr> {
    let mut enough: Vec<&'a Expr> = Vec::new();
    for part in failing {
        let Some(divisors) = divisors_of(part, schema) else { return guards };
        for divisor in divisors {
            let Some(&guard) = guards.iter().find(|guard| tells_from_zero(guard, divisor, op, schema)) else {
                return guards;
            };
            if !enough.contains(&guard) {
                enough.push(guard);
            }
        }
    }
    enough
}

/// What `expr` divides by that may be zero; `None` where it may fail for another reason.
fn divisors_of<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<Vec<&'a Expr>> {
    let mut divisors = Some(Vec::new());
    let walked = expr.apply(|part| {
        if matches!(part, Expr::Case(_)) {
            return Ok(TreeNodeRecursion::Jump);
        }
        if fails_itself(part, schema) {
            divisors = divisors.take().zip(divisor_of(part)).map(|(mut divisors, divisor)| {
                divisors.push(divisor);
                divisors
            });
        }
        Ok(if divisors.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.ok().and(divisors)
}

/// Whether `divisor` is not zero where `guard` is true, or where it is false beside an `op` of OR.
fn tells_from_zero(guard: &Expr, divisor: &Expr, op: Operator, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: compared, right }) = guard else { return false };
    let (side, compared, constant) = match (&**left, &**right) {
        (side, Expr::Literal(constant, _)) => (side, Some(*compared), constant),
        (Expr::Literal(constant, _), side) => (side, compared.swap(), constant),
        _ => return false,
    };
    // An integer is zero where it is zero as another number.
    let is_divisor = side == divisor
        || matches!(divisor, Expr::Cast(cast) if *cast.expr == *side
            && side.get_type(schema).is_ok_and(|data_type| data_type.is_integer()));
    let compared =
        if op == Operator::And { compared } else { compared.and_then(|compared| compared.negate()) };
    let zero = ScalarValue::new_zero(&constant.data_type()).ok();
    let Some(order) = zero.and_then(|zero| zero.partial_cmp(constant)) else { return false };
    if constant.is_null() {
        return false;
    }
    // Whether zero itself passes.
    let passes = match compared {
        Some(Operator::Eq) => order.is_eq(),
        Some(Operator::NotEq) => order.is_ne(),
        Some(Operator::Lt) => order.is_lt(),
        Some(Operator::LtEq) => order.is_le(),
        Some(Operator::Gt) => order.is_gt(),
        Some(Operator::GtEq) => order.is_ge(),
        _ => return false,
    };
    is_divisor && !passes
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
    let is_float = |side: &Expr| side.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
    match expr {
        Expr::Cast(cast) => {
            let is_text = cast.expr.get_type(schema).is_ok_and(|from| from.is_string());
            is_text && !cast.field.data_type().is_string() && !matches!(&*cast.expr, Expr::Literal(..))
        }
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            divides(expr) && !(is_float(left) && is_float(right))
        }
        other => divides(other),
    }
}

/// Whether `expr` divides by what may be zero.
fn divides(expr: &Expr) -> bool {
    divisor_of(expr).is_some_and(may_be_zero)
}

fn divisor_of(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, right, .. }) => {
            Some(right.as_ref())
        }
        Expr::ScalarFunction(call) if call.name() == "divide" => call.args.last(),
        _ => None,
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{cast, col};

    use super::*;

    fn schema() -> DFSchema {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let numbers =
            [field("a", DataType::Int64), field("b", DataType::Int64), field("f", DataType::Float64)];
        let fields: Vec<Field> = numbers.into_iter().chain([field("s", DataType::Utf8)]).collect();
        DFSchema::try_from(Schema::new(fields)).unwrap()
    }

    /// What `conditions` beside `a = 3` become, one below the other.
    fn check(conditions: &[Expr], expected: &[&str]) {
        let conditions = [col("a").eq(lit(3_i64))].into_iter().chain(conditions.iter().cloned()).collect();
        let found = guarded_conditions(conditions, &schema()).unwrap();
        let found: Vec<String> = found.iter().map(Expr::to_string).collect();
        assert_eq!(found, expected);
    }

    fn quotient() -> Expr {
        (lit(10_i64) / col("b")).gt(lit(1_i64))
    }

    #[test]
    fn what_tells_a_divisor_from_zero_is_guard_enough() {
        for (guard, text) in [
            (col("b").not_eq(lit(0_i64)), "b != Int64(0)"),
            (col("b").gt(lit(0_i64)), "b > Int64(0)"),
            (col("b").lt_eq(lit(-1_i64)), "b <= Int64(-1)"),
            (col("b").eq(lit(5_i64)), "b = Int64(5)"),
            (lit(1_i64).lt_eq(col("b")), "Int64(1) <= b"),
        ] {
            let case = format!("CASE WHEN {text} THEN Int64(10) / b > Int64(1) ELSE Boolean(false) END");
            check(&[guard, quotient()], &["a = Int64(3)", text, &case]);
        }
        let either = col("a").eq(lit(3_i64)).or(col("b").eq(lit(0_i64))).or(quotient());
        let either = guarded(either, &schema()).unwrap().data.to_string();
        assert!(either.starts_with("CASE WHEN b = Int64(0) THEN Boolean(true) ELSE "), "{either}");
    }

    #[test]
    fn all_guard_what_none_is_enough_for() {
        for (guard, text) in [
            (col("b").gt_eq(lit(0_i64)), "b >= Int64(0)"),
            (col("b").not_eq(lit(1_i64)), "b != Int64(1)"),
            (col("a").not_eq(lit(0_i64)), "a != Int64(0)"),
        ] {
            let case = format!(
                "CASE WHEN a = Int64(3) AND {text} THEN Int64(10) / b > Int64(1) ELSE Boolean(false) END"
            );
            check(&[guard, quotient()], &["a = Int64(3)", text, &case]);
        }
        let number = cast(col("s"), DataType::Int64).eq(lit(1_i64));
        check(
            &[number],
            &[
                "a = Int64(3)",
                "CASE WHEN a = Int64(3) THEN CAST(s AS Int64) = Int64(1) ELSE Boolean(false) END",
            ],
        );
    }

    #[test]
    fn what_cannot_fail_is_not_guarded() {
        let half = (col("b") / lit(2_i64)).gt(lit(1_i64));
        check(&[half], &["a = Int64(3)", "b / Int64(2) > Int64(1)"]);
        let infinite = (lit(1_f64) / col("f")).gt(lit(1_f64));
        check(&[infinite], &["a = Int64(3)", "Float64(1) / f > Float64(1)"]);
    }
}
