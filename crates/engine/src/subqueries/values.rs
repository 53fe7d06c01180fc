//! The value of a scalar subquery without rows is NULL, whatever its column may be.
//!
//! ```text
//!   (SELECT z_id FROM nothing)   ─▶   (SELECT or_null(z_id) AS z_id FROM nothing)
//! ```
//!
//! DataFusion 55 takes the value for what the column is declared as. So where that is NOT NULL, IS NULL becomes FALSE,
//! `coalesce` its first argument, and a result refuses the NULL. `or_null` gives what it is given and says that it may be
//! NULL. It stands where a subquery may give no row; an aggregate without GROUP BY always gives one.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

/// Runs before types are coerced, which computes all schemas anew.
#[derive(Debug)]
pub(crate) struct NullableValues;

impl AnalyzerRule for NullableValues {
    fn name(&self) -> &str {
        "pelton_nullable_values"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // A subquery is called what its column is, so names stay.
        let rewritten = plan
            .transform_up_with_subqueries(|plan| plan.map_expressions(|expr| expr.transform_up(nullable)));
        Ok(rewritten?.data)
    }
}

fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })
            if is_declared_not_null(&subquery) && !has_a_row(&subquery) =>
        {
            let subquery = Arc::new(with_null(subquery)?);
            Ok(Transformed::yes(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_declared_not_null(plan: &LogicalPlan) -> bool {
    plan.schema().fields().first().is_some_and(|field| !field.is_nullable())
}

/// Whether `plan` has a row, whatever it reads.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Window(window) => has_a_row(&window.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && has_a_row(&sort.input),
        LogicalPlan::EmptyRelation(relation) => relation.produce_one_row,
        _ => false,
    }
}

/// `plan`, whose first column may be NULL.
fn with_null(plan: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let (relation, field) = plan.schema().qualified_field(0);
    let (relation, name) = (relation.cloned(), field.name().clone());
    let (value, input) = match plan.as_ref() {
        LogicalPlan::Projection(Projection { expr, input, .. }) if expr.len() == 1 => {
            (expr[0].clone().unalias(), Arc::clone(input))
        }
        _ => (Expr::Column(Column::new(relation.clone(), &name)), Arc::clone(&plan)),
    };
    let value = or_null(value).alias_qualified(relation, name);
    Ok(LogicalPlan::Projection(Projection::try_new(vec![value], input)?))
}

/// `expr`, of which the optimizer knows nothing but its type.
pub(super) fn or_null(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(OrNull::new())));
    FUNCTION.call(vec![expr])
}

/// Whether `expr` itself is such a call.
pub(super) fn is_or_null(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<OrNull>())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl OrNull {
    /// Volatile, for a call over constants would be replaced by its value, which is not NULL.
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        "or_null"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(field.with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
