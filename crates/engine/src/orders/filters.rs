//! The rule that keeps DataFusion from taking a column for constant above a filter that many of its values pass.
//!
//! ```text
//!   Filter CAST(x AS INTEGER) = 3      ─▶  Filter CAST(as_is(x) AS INTEGER) = 3
//!   Filter i / 10 = 1                  ─▶  Filter as_is(i) / 10 = 1
//! ```
//!
//! DataFusion 55 computes the interval of values that a condition leaves: back through a cast by the cast of the result, back
//! through a division by the product. It finds one value where there are several; a sum of floats that is rounded has several
//! operands, too. Where a condition has one part that DataFusion computes no interval of, it computes none of the condition, so
//! one part is enough. `x = 3` is left alone, and so are casts that keep all values apart.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use super::function::planned;

/// Hides from what a filter leaves what several values have in common. After filters have gone down to scans, which skip by
/// them, and before the rule that looks for orders.
#[derive(Debug)]
pub(super) struct ManyValues;

impl PhysicalOptimizerRule for ManyValues {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            let schema = filter.input().schema();
            if !check_support(filter.predicate(), &schema) {
                return Ok(Transformed::no(node)); // of such a condition nothing is computed
            }
            let predicate = hidden(filter.predicate(), &schema, config)?;
            if !predicate.transformed {
                return Ok(Transformed::no(node));
            }
            let filter = FilterExecBuilder::from(filter).with_predicate(predicate.data).build()?;
            Ok(Transformed::yes(Arc::new(filter) as Arc<dyn ExecutionPlan>))
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        "pelton_many_values"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `predicate` with `as_is` in its first part that gives one value for many.
fn hidden(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &ConfigOptions,
) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    let mut is_hidden = false;
    Arc::clone(predicate).transform_up(|part| {
        if is_hidden || !merges_values(&part, schema) {
            return Ok(Transformed::no(part));
        }
        let mut operands: Vec<Arc<dyn PhysicalExpr>> = part.children().into_iter().cloned().collect();
        let Some(operand) = operands.iter_mut().find(|operand| !operand.is::<Literal>()) else {
            return Ok(Transformed::no(part));
        };
        *operand = planned(Arc::clone(operand), schema, config)?;
        is_hidden = true;
        Ok(Transformed::yes(part.with_new_children(operands)?))
    })
}

/// Whether `part` itself, of columns of `schema`, may give one value for several of an operand.
fn merges_values(part: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if let Some(cast) = part.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        return !from.is_ok_and(|from| keeps_apart(&from, cast.cast_type()));
    }
    let Some(binary) = part.downcast_ref::<BinaryExpr>() else { return false };
    let data_type = binary.left().data_type(schema);
    match binary.op() {
        Operator::Divide => true,
        Operator::Plus | Operator::Minus | Operator::Multiply => data_type.is_ok_and(|ty| ty.is_floating()),
        _ => false,
    }
}

/// Whether no two values of `from` are the same as `to`. Values that do not fit are errors.
fn keeps_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    match (from, to) {
        (from, to) if CastExpr::check_bigger_cast(to, from) => true,
        (from, to) if from.is_integer() => to.is_integer() || to.is_decimal() || to.is_string(),
        (Date32, Date64 | Timestamp(_, None)) => true,
        (Timestamp(from, zone), Timestamp(to, other)) => from <= to && zone == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_that_give_one_value_for_many_are_known() {
        let instant = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        let (seconds, nanos) = (TimeUnit::Second, TimeUnit::Nanosecond);
        for (from, to, expected) in [
            (DataType::Int32, DataType::Int64, true),
            (DataType::Int64, DataType::Int8, true),
            (DataType::Int32, DataType::Utf8View, true),
            (DataType::Int32, DataType::Boolean, false),
            (DataType::Int32, DataType::Float64, true),
            (DataType::Int64, DataType::Float64, false),
            (DataType::Float64, DataType::Int32, false),
            (DataType::Float64, DataType::Float32, false),
            (DataType::Date32, instant(nanos, None), true),
            (instant(nanos, None), DataType::Date32, false),
            (instant(seconds, None), instant(nanos, None), true),
            (instant(nanos, None), instant(seconds, None), false),
            (instant(nanos, Some("Europe/Berlin")), instant(nanos, None), false),
        ] {
            assert_eq!(keeps_apart(&from, &to), expected, "{from} {to}");
        }
    }
}
