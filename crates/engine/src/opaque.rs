//! Expressions that are not to be compared by what is inside them, though DataFusion 55 does so.
//!
//! Casts that give one value for many: what is true of such a cast says less of what is cast.
//!
//! ```text
//!   CAST(price AS INTEGER) = 5                      many prices, not 5.00 alone
//!   CAST(price AS DECIMAL(9,1)) IN (1.5, 2.5)       likewise
//!   CAST(instant AS TIMESTAMP) = '2024-01-01'       what the clocks of a zone showed, not the instant of that number
//! ```
//!
//! DataFusion 55 compares what is cast with the constant, cast back, if only the constant survives that. It does so with
//! logical plans (`simplify.rs` keeps these casts from it) and where it reads Parquet files (`by_position.rs` keeps such
//! filters above the scan).
//!
//! Fractions of seconds: where `t` counts seconds, `t < '10:00:00.5'` compares `CAST(t AS TIMESTAMP(9))` with a constant. DataFusion
//! compares `t` with the constant cut to seconds, so that 10:00:00 is not below it. Such casts are kept apart from the constants,
//! and taken off afterwards by what is right for the operator ([`in_own_unit`]).
//!
//! Years: `extract(year FROM t) < 3000` becomes `t < '3000-01-01'`, which timestamps in nanoseconds, from 1677 to 2262,
//! do not have; DataFusion compares with NULL then.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::scalar::ScalarValue;

/// Whether several values of `from` that are told apart are one value of `to`, for types that DataFusion takes for the
/// same numbers.
fn is_lossy(from: &DataType, to: &DataType) -> bool {
    let digits = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(*scale)
        }
        integer if integer.is_integer() => Some(0),
        _ => None,
    };
    match (from, to) {
        (DataType::Timestamp(_, Some(zone)), DataType::Timestamp(_, None))
        | (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(zone))) => !is_utc(zone),
        (DataType::Dictionary(_, values), to) => is_lossy(values, to),
        (from, DataType::Dictionary(_, values)) => is_lossy(from, values),
        (from, to) if from.is_decimal() => digits(from).zip(digits(to)).is_some_and(|(from, to)| to < from),
        _ => false,
    }
}

/// Whether the clocks of `zone` show what an instant is counted by.
pub(crate) fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "Z" | "+00:00" | "Etc/UTC")
}

/// Years that begin and end within the nanoseconds of 64 bits.
const YEARS: RangeInclusive<i64> = 1678..=2261;

/// What is to be kept together in a plan's own expressions.
pub(crate) struct Opaque {
    schema: DFSchema,
    /// Unless all numbers that are written are years of [`YEARS`].
    may_have_far_years: bool,
}

impl Opaque {
    /// `None` where `plan` has nothing of it.
    pub(crate) fn in_plan(plan: &LogicalPlan) -> Option<Self> {
        let may_be = |expr: &Expr| match expr {
            Expr::Cast(_) | Expr::TryCast(_) => true,
            Expr::ScalarFunction(call) => call.name() == "date_part",
            _ => false,
        };
        let year_of = |expr: &Expr| match expr {
            Expr::Literal(value, _) if value.data_type().is_integer() => value.cast_to(&DataType::Int64).ok(),
            _ => None,
        };
        let is_near =
            |value: &ScalarValue| matches!(value, ScalarValue::Int64(Some(year)) if YEARS.contains(year));
        let expressions = plan.expressions();
        let some = |is: &dyn Fn(&Expr) -> bool| {
            expressions.iter().any(|expr| expr.exists(|part| Ok(is(part))).unwrap_or(true))
        };
        if !some(&may_be) {
            return None;
        }
        let has_near = some(&|expr| year_of(expr).is_some_and(|year| is_near(&year)));
        let has_far = some(&|expr| year_of(expr).is_some_and(|year| !is_near(&year)));
        let opaque = Self { schema: columns_of(plan)?, may_have_far_years: has_far || !has_near };
        some(&|expr| opaque.has(expr) || opaque.compares_finer(expr)).then_some(opaque)
    }

    /// Whether `expr` itself is such.
    pub(crate) fn has(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
                expr.get_type(&self.schema).is_ok_and(|from| is_lossy(&from, field.data_type()))
            }
            Expr::ScalarFunction(call) if self.may_have_far_years && call.name() == "date_part" => {
                let is_nanos = |data_type| matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _));
                call.args.iter().any(|arg| arg.get_type(&self.schema).is_ok_and(is_nanos))
            }
            _ => false,
        }
    }

    /// Whether `expr` itself compares timestamps that are cast to a finer unit.
    pub(crate) fn compares_finer(&self, expr: &Expr) -> bool {
        let is_finer = |operand: &Expr| self.own_unit(operand).is_some();
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
                is_finer(left) || is_finer(right)
            }
            Expr::InList(list) => is_finer(&list.expr),
            Expr::Between(between) => is_finer(&between.expr),
            _ => false,
        }
    }

    /// The unit of the timestamps that `expr` casts to a finer one.
    pub(crate) fn own_unit(&self, expr: &Expr) -> Option<TimeUnit> {
        let (inside, to) = match expr {
            Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
            Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
            _ => return None,
        };
        let from = inside.get_type(&self.schema).ok()?;
        let DataType::Timestamp(unit, _) = from else { return None };
        (is_finer(&from, to) && inside.any_column_refs()).then_some(unit)
    }
}

/// Whether `to` are the timestamps `from` in a finer unit.
fn is_finer(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Timestamp(own, zone), DataType::Timestamp(finer, other)) => {
            zone == other && per_second(*finer) > per_second(*own)
        }
        _ => false,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// `expr` without the cast, where it compares timestamps that are cast to a finer unit with constants. `own_unit` gives what is cast
/// and its unit.
pub(crate) fn in_own_unit(
    expr: Expr,
    own_unit: &dyn Fn(&Expr) -> Option<(Expr, TimeUnit)>,
) -> Transformed<Expr> {
    let compared = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (own_unit(left), own_unit(right)) {
            (Some((inside, unit)), None) => compared(inside, unit, *op, right),
            (None, Some((inside, unit))) => op.swap().and_then(|op| compared(inside, unit, op, left)),
            _ => None,
        },
        Expr::InList(InList { expr: cast, list, negated }) => {
            own_unit(cast).and_then(|(inside, unit)| listed(inside, unit, list, *negated))
        }
        _ => None,
    };
    compared.map_or_else(|| Transformed::no(expr), Transformed::yes)
}

/// `inside op constant`, in the unit of `inside`: a constant between two of its values is above one and below the next.
fn compared(inside: Expr, unit: TimeUnit, op: Operator, constant: &Expr) -> Option<Expr> {
    let (floor, is_exact) = floor(constant, unit)?;
    Some(match op {
        _ if is_exact && op.supports_propagation() => binary(inside, op, lit(floor)),
        Operator::Lt | Operator::LtEq => binary(inside, Operator::LtEq, lit(floor)),
        Operator::Gt | Operator::GtEq => binary(inside, Operator::Gt, lit(floor)),
        Operator::Eq => beside(inside, floor, false),
        Operator::NotEq => beside(inside, floor, true),
        Operator::IsDistinctFrom => lit(true),
        Operator::IsNotDistinctFrom => lit(false),
        _ => return None,
    })
}

/// `inside IN (list)`, in the unit of `inside`.
fn listed(inside: Expr, unit: TimeUnit, list: &[Expr], negated: bool) -> Option<Expr> {
    let floors = list.iter().map(|item| floor(item, unit)).collect::<Option<Vec<_>>>()?;
    let any = floors.first()?.0.clone();
    let exact: Vec<Expr> =
        floors.into_iter().filter(|(_, is_exact)| *is_exact).map(|(item, _)| lit(item)).collect();
    if exact.is_empty() {
        return Some(beside(inside, any, negated));
    }
    Some(Expr::InList(InList { expr: Box::new(inside), list: exact, negated }))
}

/// `outcome` for every value of `inside`, and NULL for none.
fn beside(inside: Expr, floor: ScalarValue, outcome: bool) -> Expr {
    let op = if outcome { Operator::Or } else { Operator::And };
    let below = binary(inside.clone(), Operator::LtEq, lit(floor.clone()));
    binary(below, op, binary(inside, Operator::Gt, lit(floor)))
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

/// The last timestamp of `unit` that is not after `constant`, and whether it is the same; `None` for what is no constant of a finer
/// unit.
fn floor(constant: &Expr, unit: TimeUnit) -> Option<(ScalarValue, bool)> {
    let Expr::Literal(constant, _) = constant else { return None };
    let (value, finer, zone) = match constant {
        ScalarValue::TimestampMillisecond(value, zone) => (*value, TimeUnit::Millisecond, zone.clone()),
        ScalarValue::TimestampMicrosecond(value, zone) => (*value, TimeUnit::Microsecond, zone.clone()),
        ScalarValue::TimestampNanosecond(value, zone) => (*value, TimeUnit::Nanosecond, zone.clone()),
        _ => return None,
    };
    let units = per_second(finer) / per_second(unit);
    if units == 0 {
        return None;
    }
    let floor = value.map(|value| value.div_euclid(units));
    let floor = match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(floor, zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(floor, zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(floor, zone),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(floor, zone),
    };
    Some((floor, value.is_none_or(|value| value.rem_euclid(units) == 0)))
}

/// The columns that expressions of `plan` may name. Filters of a scan name more than it gives.
pub(crate) fn columns_of(plan: &LogicalPlan) -> Option<DFSchema> {
    if let LogicalPlan::TableScan(scan) = plan {
        let schema = scan.source.schema();
        return DFSchema::try_from_qualified_schema(scan.table_name.clone(), &schema).ok();
    }
    let inputs = plan.inputs();
    Some(if inputs.is_empty() { DFSchema::clone(plan.schema()) } else { merge_schema(&inputs) })
}

/// Whether a lossy cast is in `expr`, whose columns are those of `schema`.
pub(crate) fn has_lossy_cast(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let mut found = false;
    let _ = expr.apply(|part| {
        let cast = part.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
        let cast =
            cast.or_else(|| part.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type())));
        found |=
            cast.is_some_and(|(inside, to)| inside.data_type(schema).is_ok_and(|from| is_lossy(&from, to)));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::cast;

    use super::*;

    #[test]
    fn casts_that_keep_all_values_apart_are_not_lossy() {
        let decimal = |scale| DataType::Decimal128(9, scale);
        let instant = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Second, zone.map(Into::into));
        for (from, to, expected) in [
            (decimal(2), DataType::Int32, true),
            (decimal(2), decimal(1), true),
            (decimal(2), decimal(2), false),
            (decimal(2), decimal(3), false),
            (decimal(0), DataType::Int64, false),
            (decimal(2), DataType::Float64, false),
            (DataType::Int64, DataType::Int8, false), // values that do not fit are errors
            (DataType::Int64, decimal(0), false),
            (instant(Some("+02:00")), instant(None), true),
            (instant(Some("+02:00")), instant(Some("UTC")), false),
            (instant(Some("UTC")), instant(None), false),
        ] {
            assert_eq!(is_lossy(&from, &to), expected, "{from} {to}");
        }
    }

    #[test]
    fn a_constant_between_two_seconds_is_above_one_and_below_the_next() {
        let column = || Expr::Column("t".into());
        let own_unit = |expr: &Expr| match expr {
            Expr::Cast(cast) => Some((cast.expr.as_ref().clone(), TimeUnit::Second)),
            _ => None,
        };
        let nanos = || cast(column(), DataType::Timestamp(TimeUnit::Nanosecond, None));
        let at = |value: i64| lit(ScalarValue::TimestampNanosecond(Some(value), None));
        let second = |value: i64| lit(ScalarValue::TimestampSecond(Some(value), None));
        let of = |op, value| in_own_unit(binary(nanos(), op, at(value)), &own_unit).data;
        let is = |op, value| binary(column(), op, second(value));
        assert_eq!(of(Operator::Lt, 2_000_000_000), is(Operator::Lt, 2));
        assert_eq!(of(Operator::Lt, 2_500_000_000), is(Operator::LtEq, 2));
        assert_eq!(of(Operator::GtEq, 2_500_000_000), is(Operator::Gt, 2));
        assert_eq!(of(Operator::Lt, -500_000_000), is(Operator::LtEq, -1));
        assert_eq!(of(Operator::Eq, -1_000_000_000), is(Operator::Eq, -1));
        let (below, above) = (is(Operator::LtEq, 0), is(Operator::Gt, 0));
        assert_eq!(of(Operator::Eq, 1), binary(below.clone(), Operator::And, above.clone()));
        assert_eq!(of(Operator::NotEq, 1), binary(below, Operator::Or, above));
        assert_eq!(of(Operator::Minus, 0), binary(nanos(), Operator::Minus, at(0)));
        let swapped = in_own_unit(binary(at(2_500_000_000), Operator::Lt, nanos()), &own_unit).data;
        assert_eq!(swapped, is(Operator::Gt, 2));
        let list = |expr, list| Expr::InList(InList { expr: Box::new(expr), list, negated: true });
        let found = in_own_unit(list(nanos(), vec![at(1), at(3_000_000_000)]), &own_unit).data;
        assert_eq!(found, list(column(), vec![second(3)]));
    }
}
