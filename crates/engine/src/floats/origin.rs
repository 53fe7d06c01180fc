//! What is known of the floats of an expression: whether there may be NaNs and zeros among them.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::DefaultTableSource;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use pelton_zone::Scalar;

use crate::numbers::NEAREST_DOUBLE;
use crate::provider::PeltonTable;

/// Values that may be among those of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Floats {
    pub(super) nan: bool,
    /// Zeros of both signs.
    pub(super) zero: bool,
    /// Infinities, of which arithmetic makes NaNs.
    infinite: bool,
}

impl Floats {
    const ANY: Self = Self { nan: true, zero: true, infinite: true };
    /// What integers and decimals become: far from the ends of the range, and one zero.
    const NUMBERS: Self = Self { nan: false, zero: false, infinite: false };
}

/// What may be among the values of `expr`, an expression over the rows of `inputs`.
pub(super) fn floats_of(expr: &Expr, inputs: &[&LogicalPlan]) -> Floats {
    match expr {
        Expr::Alias(alias) => floats_of(&alias.expr, inputs),
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => of_value(*value),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => of_value(f64::from(*value)),
        Expr::Literal(value, _) if value.is_null() => Floats::NUMBERS,
        Expr::Cast(cast) if is_exact(&cast.expr, inputs) => Floats::NUMBERS,
        Expr::Cast(cast) if *cast.field.data_type() == DataType::Float64 && is_float(&cast.expr, inputs) => {
            floats_of(&cast.expr, inputs)
        }
        // Of fewer bits small numbers become zeros, and large ones infinities; texts may spell any.
        Expr::Cast(cast) if is_float(&cast.expr, inputs) => {
            Floats { zero: true, infinite: true, ..floats_of(&cast.expr, inputs) }
        }
        Expr::Cast(_) => Floats::ANY,
        // Once a cast of a decimal.
        Expr::ScalarFunction(call) if call.name() == NEAREST_DOUBLE => Floats::NUMBERS,
        Expr::Column(column) => inputs.iter().find_map(|plan| of_column(column, plan)).unwrap_or(Floats::ANY),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            of_arithmetic(floats_of(left, inputs), *op, floats_of(right, inputs))
        }
        _ if is_exact(expr, inputs) => Floats::NUMBERS,
        _ => Floats::ANY,
    }
}

/// Whether the values of `expr` are integers or decimals.
fn is_exact(expr: &Expr, inputs: &[&LogicalPlan]) -> bool {
    is_of_type(expr, inputs, |data_type| data_type.is_integer() || data_type.is_decimal())
}

/// Whether the values of `expr` are floats.
fn is_float(expr: &Expr, inputs: &[&LogicalPlan]) -> bool {
    is_of_type(expr, inputs, DataType::is_floating)
}

fn is_of_type(expr: &Expr, inputs: &[&LogicalPlan], is_such: fn(&DataType) -> bool) -> bool {
    let is_such_of = |plan: &&LogicalPlan| {
        let data_type = expr.get_type(plan.schema().as_ref());
        data_type.is_ok_and(|data_type| is_such(&data_type))
    };
    match expr {
        Expr::Literal(value, _) => is_such(&value.data_type()),
        _ => inputs.iter().any(is_such_of),
    }
}

fn of_value(value: f64) -> Floats {
    let zero = value == 0.0 && value.is_sign_negative();
    // As far from the ends as integers and decimals are, so that arithmetic with those has no end to come to.
    Floats { nan: value.is_nan(), zero, infinite: value.abs() > 1e100 }
}

fn of_arithmetic(a: Floats, op: Operator, b: Floats) -> Floats {
    let nan = a.nan || b.nan;
    match op {
        Operator::Plus | Operator::Minus => {
            Floats { nan: nan || a.infinite && b.infinite, zero: a.zero || b.zero, infinite: true }
        }
        Operator::Multiply => Floats { nan: nan || a.infinite || b.infinite, zero: true, infinite: true },
        _ => Floats::ANY,
    }
}

/// Of a column of `plan`; `None` where the plan has none of the name.
fn of_column(column: &Column, plan: &LogicalPlan) -> Option<Floats> {
    let index = plan.schema().maybe_index_of_column(column)?;
    Some(of_output(index, plan))
}

/// Of output column `index` of `plan`.
fn of_output(index: usize, plan: &LogicalPlan) -> Floats {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = scan.source.downcast_ref::<DefaultTableSource>();
            let table = provider.and_then(|source| source.table_provider.downcast_ref::<PeltonTable>());
            let stored = match &scan.projection {
                Some(projection) => projection.get(index).copied(),
                None => Some(index),
            };
            match (table, stored) {
                (Some(table), Some(stored)) => of_stored(table, stored),
                _ => Floats::ANY,
            }
        }
        LogicalPlan::Projection(projection) => {
            floats_of(&projection.expr[index], &[projection.input.as_ref()])
        }
        LogicalPlan::Aggregate(aggregate) => of_aggregate(index, aggregate),
        LogicalPlan::SubqueryAlias(alias) => of_output(index, &alias.input),
        LogicalPlan::Filter(filter) => of_output(index, &filter.input),
        LogicalPlan::Sort(sort) => of_output(index, &sort.input),
        LogicalPlan::Limit(limit) => of_output(index, &limit.input),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match plan.schema().fields().len() == left + join.right.schema().fields().len() {
                true if index >= left => of_output(index - left, &join.right),
                true => of_output(index, &join.left),
                false => Floats::ANY,
            }
        }
        _ => Floats::ANY,
    }
}

/// Of output column `index` of an aggregate: a key, or a mean of numbers.
fn of_aggregate(index: usize, aggregate: &Aggregate) -> Floats {
    let inputs = [aggregate.input.as_ref()];
    if let [Expr::GroupingSet(_), ..] = aggregate.group_expr.as_slice() {
        return Floats::ANY;
    }
    let Some(expr) = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).nth(index) else {
        return Floats::ANY;
    };
    match expr.clone().unalias() {
        Expr::AggregateFunction(call) => {
            let is_mean = matches!(call.func.name(), "avg" | "sum" | "min" | "max");
            let of_numbers = |arg: &Expr| floats_of(arg, &inputs) == Floats::NUMBERS;
            match is_mean && call.params.args.iter().all(of_numbers) {
                true => Floats::NUMBERS,
                false => Floats::ANY,
            }
        }
        key => floats_of(&key, &inputs),
    }
}

fn of_stored(table: &PeltonTable, column: usize) -> Floats {
    let summary = table.table().column_summary(column);
    let zero = Scalar::Float(0.0);
    let spans_zero = |min: &Scalar, max: &Scalar| {
        min.compare(&zero).is_none_or(|order| order.is_le())
            && max.compare(&zero).is_none_or(|order| order.is_ge())
    };
    let zero = match (&summary.min, &summary.max) {
        (Some(min), Some(max)) => spans_zero(min, max),
        _ => false, // NULLs and NaNs alone
    };
    let is_large =
        |bound: &Option<Scalar>| !matches!(bound, Some(Scalar::Float(value)) if value.abs() <= 1e100);
    Floats { nan: summary.has_nan, zero, infinite: is_large(&summary.min) || is_large(&summary.max) }
}
