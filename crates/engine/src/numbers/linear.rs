//! Sums of one column plus several constants, from one sum and one count.
//!
//! ```text
//!   sum(x + 1), sum(x + 2), sum(x - 3)   ─▶   s + 1 * n, s + 2 * n, s - 3 * n   of   s = sum(x), n = count(x)
//! ```
//!
//! DataFusion does so for arithmetic that wraps. Here it is done where no row can overflow: an integer narrower than a
//! BIGINT, widened, beside a constant that leaves room for it. Everything else is added up row by row, so that the row
//! that overflows is an error.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Cast, Expr, ExprSchemable, LogicalPlan, Projection, cast, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::checked::{Checked, CheckedOp};
use super::sum::Sum;

/// Digits of a BIGINT.
const DIGITS: u8 = 19;
/// The type of a sum of BIGINT.
const SUM: DataType = DataType::Decimal128(38, 0);
/// Beside a constant of at most this size, 32 bits more or less do not overflow a BIGINT.
const CONSTANT_MAX: u64 = 1 << 62;
/// So many sums of one column are worth the projection.
const SUMS_MIN: usize = 3;

/// The rule. It comes after [`CheckedArithmetic`](super::overflow::CheckedArithmetic).
#[derive(Debug)]
pub(super) struct LinearSums;

impl AnalyzerRule for LinearSums {
    fn name(&self) -> &str {
        "linear_sums"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |plan: LogicalPlan| match plan {
            LogicalPlan::Aggregate(aggregate) if worth_it(&aggregate)? => rewritten(&aggregate),
            other => Ok(Transformed::no(other)),
        };
        plan.transform_up_with_subqueries(of_node).map(|plan| plan.data)
    }
}

/// `sum(x op constant)`.
struct Linear<'a> {
    call: &'a AggregateFunction,
    x: &'a Expr,
    op: CheckedOp,
    constant: i64,
}

impl<'a> Linear<'a> {
    fn of(expr: &'a Expr, schema: &DFSchema) -> Result<Option<Self>> {
        let Expr::AggregateFunction(call) = expr else { return Ok(None) };
        let params = &call.params;
        let is_plain = call.func.inner().is::<Sum>()
            && !params.distinct
            && params.filter.is_none()
            && params.order_by.is_empty()
            && params.null_treatment.is_none();
        let [Expr::ScalarFunction(arithmetic)] = params.args.as_slice() else { return Ok(None) };
        let Some(checked) = arithmetic.func.inner().downcast_ref::<Checked>().filter(|_| is_plain) else {
            return Ok(None);
        };
        let (x, constant) = match (checked.op(), arithmetic.args.as_slice()) {
            (
                CheckedOp::Add | CheckedOp::Subtract,
                [x, Expr::Literal(ScalarValue::Int64(Some(constant)), _)],
            )
            | (CheckedOp::Add, [Expr::Literal(ScalarValue::Int64(Some(constant)), _), x]) => (x, *constant),
            _ => return Ok(None),
        };
        if constant.unsigned_abs() > CONSTANT_MAX || !is_widened(x, schema)? {
            return Ok(None);
        }
        Ok(Some(Self { call, x, op: checked.op(), constant }))
    }

    /// Sum and count of column `number` of those that are summed so: both under names of their own, as a cast has the
    /// name of what it casts.
    fn parts(&self, number: usize) -> [Expr; 2] {
        let mut sum = self.call.clone();
        sum.params.args = vec![self.x.clone()];
        let names = names(number);
        [Expr::AggregateFunction(sum).alias(&names[0]), count(self.x.clone()).alias(&names[1])]
    }

    /// The value, above an aggregate with these [`parts`](Self::parts).
    fn value(&self, number: usize) -> Expr {
        let [sum, rows] = names(number).map(|name| Expr::Column(Column::new_unqualified(name)));
        let rows = cast(rows, DataType::Decimal128(DIGITS, 0));
        let constant = lit(ScalarValue::Decimal128(Some(i128::from(self.constant)), DIGITS, 0));
        let product = Checked::binary(CheckedOp::Multiply, constant, rows, SUM);
        Checked::binary(self.op, sum, product, SUM)
    }
}

fn names(number: usize) -> [String; 2] {
    [format!("__linear_sum_{number}"), format!("__linear_count_{number}")]
}

/// True for a cast to BIGINT of an integer of fewer bits.
fn is_widened(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let Expr::Cast(Cast { expr, field }) = expr else { return Ok(false) };
    let is_narrow = matches!(expr.get_type(schema)?, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32);
    Ok(*field.data_type() == Int64 && is_narrow && !expr.is_volatile())
}

fn worth_it(aggregate: &Aggregate) -> Result<bool> {
    if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
        return Ok(false);
    }
    let mut sums: Vec<(&Expr, usize)> = Vec::new();
    for expr in &aggregate.aggr_expr {
        if let Some(linear) = Linear::of(expr, aggregate.input.schema())? {
            match sums.iter_mut().find(|(x, _)| *x == linear.x) {
                Some((_, number)) => *number += 1,
                None => sums.push((linear.x, 1)),
            }
        }
    }
    Ok(sums.iter().any(|(_, number)| *number >= SUMS_MIN))
}

fn rewritten(aggregate: &Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = &aggregate.schema;
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let (groups, results) = columns.split_at(schema.fields().len() - aggregate.aggr_expr.len());
    let mut projected = groups.to_vec();
    let mut needed: Vec<Expr> = Vec::new();
    let mut summed: Vec<&Expr> = Vec::new();
    for (expr, result) in aggregate.aggr_expr.iter().zip(results) {
        let Some(linear) = Linear::of(expr, aggregate.input.schema())? else {
            needed.push(expr.clone());
            projected.push(result.clone());
            continue;
        };
        let known = summed.iter().position(|x| *x == linear.x);
        let number = known.unwrap_or(summed.len());
        if known.is_none() {
            summed.push(linear.x);
            needed.extend(linear.parts(number));
        }
        projected.push(linear.value(number).alias(result.schema_name().to_string()));
    }
    let below = Aggregate::try_new(Arc::clone(&aggregate.input), aggregate.group_expr.clone(), needed)?;
    let projection = Projection::try_new(projected, Arc::new(LogicalPlan::Aggregate(below)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
