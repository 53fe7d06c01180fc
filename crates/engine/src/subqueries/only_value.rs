//! The value of a scalar subquery that may have more than one row, which is an error where it has.
//!
//! ```text
//!   (SELECT name FROM s WHERE s.id = t.parent)   ─▶   only_value(v, n)
//!                                                       LEFT JOIN (SELECT id, first_value(name) AS v, count(*) AS n
//!                                                                  FROM s … GROUP BY id) ON id = t.parent
//! ```
//!
//! It is asked above the join, of rows that the query has: those that a filter or another branch of a CASE rules out may have as
//! many as they like.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, FetchType, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use pelton_error::Error;

use crate::error::to_datafusion;

/// Whether `plan` has one row at most for each row of its query, whatever it reads.
pub(super) fn has_one_row_at_most(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) => {
            let is_one = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))));
            is_one || has_one_row_at_most(&limit.input)
        }
        LogicalPlan::Sort(sort) => sort.fetch == Some(1) || has_one_row_at_most(&sort.input),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => has_one_row_at_most(plan.inputs()[0]),
        _ => false,
    }
}

/// `value`, of `rows` rows: NULL where there are none.
///
/// # Errors
///
/// When it is evaluated for a row whose subquery has more than one.
pub(super) fn only_value(value: Expr, rows: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(OnlyValue::new())));
    FUNCTION.call(vec![value, rows])
}

/// Whether `expr` itself is such a call.
pub(super) fn is_only_value(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<OnlyValue>())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl OnlyValue {
    /// Volatile, for a filter that goes below the join would ask it of rows that the query does not have.
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "only_value"
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
        let has_more = match &args.args[1] {
            ColumnarValue::Array(rows) => {
                rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1)
            }
            ColumnarValue::Scalar(rows) => matches!(rows, ScalarValue::Int64(Some(2..))),
        };
        if has_more {
            return Err(to_datafusion(Error::invalid_input(
                "a subquery that is used as a value has more than one row; add a condition, an aggregate or LIMIT 1 to \
                 it",
            )));
        }
        Ok(args.args.swap_remove(0))
    }
}
