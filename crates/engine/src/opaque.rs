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
//! Years: `extract(year FROM t) < 3000` becomes `t < '3000-01-01'`, which timestamps in nanoseconds, from 1677 to 2262,
//! do not have; DataFusion compares with NULL then.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
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
        some(&|expr| opaque.has(expr)).then_some(opaque)
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
}
