//! Aggregates are answered from statistics only where the bounds in them are those of what is aggregated.
//!
//! ```text
//!   Aggregate max(v)
//!     Projection CAST(seq AS VARCHAR) AS v        from '1' to '400', though '99' is among the values
//!       Scan seq                                  from 1 to 400
//! ```
//!
//! DataFusion 55 casts the bounds of a column to get those of a cast of it, whatever the types, and its rule
//! `aggregate_statistics` answers `min`, `max` and, by joins of ranges that share nothing, `count` from them. A filter likewise
//! casts what it compares a cast with to get bounds of the column. This rule takes the place of that one: it hands over the
//! largest parts of a plan without such casts, and lets rows be read in the others.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

type Node = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// DataFusion's rules with this one in place of its own.
pub(crate) fn install(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
    let theirs = AggregateStatistics::new();
    // A session of somebody's own may have left the rule out.
    if let Some(place) = rules.iter_mut().find(|rule| rule.name() == theirs.name()) {
        *place = Arc::new(BoundsOfCasts { theirs });
    }
}

/// Takes the place of DataFusion's rule of the same name.
#[derive(Debug)]
struct BoundsOfCasts {
    theirs: AggregateStatistics,
}

impl PhysicalOptimizerRule for BoundsOfCasts {
    fn optimize(&self, plan: Node, config: &ConfigOptions) -> Result<Node> {
        match self.in_parts(plan, config)? {
            (plan, true) => self.theirs.optimize(plan, config),
            (plan, false) => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn schema_check(&self) -> bool {
        self.theirs.schema_check()
    }
}

impl BoundsOfCasts {
    /// `plan` and whether all of its bounds hold. If they do not, the largest parts of it whose bounds do are done; otherwise
    /// nothing is, for `plan` may be part of a larger one.
    fn in_parts(&self, plan: Node, config: &ConfigOptions) -> Result<(Node, bool)> {
        let inputs = plan.children().into_iter().map(|input| self.in_parts(Arc::clone(input), config));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        if inputs.iter().all(|(_, holds)| *holds) && keeps_bounds(&plan) {
            return Ok((plan, true));
        }
        let inputs = inputs.into_iter().map(|(input, holds)| match holds {
            true => self.theirs.optimize(input, config),
            false => Ok(input),
        });
        Ok((replace_children_if_necessary(plan, inputs.collect::<Result<Vec<_>>>()?)?, false))
    }
}

/// Whether bounds of what `plan` reads give those of what it gives, as DataFusion computes them.
fn keeps_bounds(plan: &Node) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        return projection.expr().iter().all(|projected| casts_keep_order(&projected.expr, &schema));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return casts_keep_apart(filter.predicate(), &filter.input().schema());
    }
    let scan = plan.downcast_ref::<DataSourceExec>();
    let files = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
    let Some(files) = files else { return true };
    let schema = files.file_source().table_schema().table_schema();
    let projection = files.file_source().projection();
    projection.is_none_or(|exprs| exprs.iter().all(|projected| casts_keep_order(&projected.expr, schema)))
}

/// Whether `expr` is no cast, whose bounds are not taken from anything, or one of casts that all keep the order.
fn casts_keep_order(expr: &Expr, schema: &Schema) -> bool {
    let mut expr = expr;
    while let Some(cast) = expr.downcast_ref::<CastExpr>() {
        match cast.expr().data_type(schema) {
            Ok(from) if keeps_order(&from, cast.cast_type()) => expr = cast.expr(),
            _ => return false,
        }
    }
    true
}

/// Whether all casts in `predicate` are of values that stay apart, so that one of the result is one of the column.
fn casts_keep_apart(predicate: &Expr, schema: &Schema) -> bool {
    let mut keep = true;
    let _ = predicate.apply(|part| {
        if let Some(cast) = part.downcast_ref::<CastExpr>() {
            let from = cast.expr().data_type(schema);
            keep &= from.is_ok_and(|from| CastExpr::check_bigger_cast(cast.cast_type(), &from));
        }
        Ok(if keep { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    keep
}

/// Whether of two values of `from` the greater is never the lesser one as `to`.
pub(crate) fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Duration, Int32, Time32, Time64, Timestamp};
    let is_text = |data_type: &DataType| data_type.is_string();
    match (from, to) {
        (from, to) if from == to => true,
        (DataType::Dictionary(_, from), to) => keeps_order(from, to),
        (Boolean, to) => to.is_numeric(),
        (from, to) if from.is_numeric() && to.is_numeric() => true,
        (from, to) if is_text(from) && is_text(to) => true,
        (Date32 | Date64 | Timestamp(_, None), Date32 | Date64 | Timestamp(_, None)) => true,
        (Timestamp(_, Some(_)), Timestamp(_, Some(_))) => true, // the same instants on other clocks
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) | (Duration(_), Duration(_)) => true,
        (Int32, Date32) | (Date32, Int32) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_of_numbers_and_instants_keep_the_order_and_others_do_not() {
        let decimal = DataType::Decimal128(9, 2);
        let instant = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into));
        let time = DataType::Time64(TimeUnit::Nanosecond);
        for (from, to, expected) in [
            (DataType::Int32, DataType::Int32, true),
            (DataType::Int32, DataType::Int8, true), // values that do not fit are errors
            (DataType::Float64, DataType::Int32, true),
            (decimal.clone(), DataType::Float32, true),
            (DataType::Boolean, DataType::Int32, true),
            (DataType::Int32, DataType::Boolean, false),
            (DataType::Int32, DataType::Utf8, false),
            (DataType::Boolean, DataType::Utf8, false),
            (DataType::Utf8View, DataType::Utf8, true),
            (DataType::Utf8, DataType::Int64, false),
            (DataType::Utf8, DataType::Date32, false),
            (instant(None), DataType::Date32, true),
            (DataType::Date32, instant(None), true),
            (instant(None), time, false),
            (instant(Some("+02:00")), instant(Some("UTC")), true),
            (instant(Some("Europe/Berlin")), instant(None), false),
            (instant(Some("Europe/Berlin")), DataType::Date32, false),
            (DataType::Date32, DataType::Utf8, false),
        ] {
            assert_eq!(keeps_order(&from, &to), expected, "{from} {to}");
        }
    }
}
