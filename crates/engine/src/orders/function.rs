//! `as_is(x)`: x, of whose order and range nothing is known.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// The function's name in EXPLAIN.
pub(crate) use pelton_planner::AS_IS;

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(AsIs::new())));

/// `as_is(expr)`.
pub(super) fn as_is(expr: Expr) -> Expr {
    FUNCTION.call(vec![expr])
}

pub(super) fn is_as_is(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == AS_IS)
}

/// `as_is(expr)` in a physical plan; `schema` is of the rows that it reads.
pub(super) fn planned(
    expr: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &ConfigOptions,
) -> Result<Arc<dyn PhysicalExpr>> {
    let function: &Arc<ScalarUDF> = &FUNCTION;
    let config = Arc::new(config.clone());
    Ok(Arc::new(ScalarFunctionExpr::try_new(Arc::clone(function), vec![expr], schema, config)?))
}

/// What is said of functions where they say nothing: no order, any value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsIs {
    signature: Signature,
}

impl AsIs {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for AsIs {
    fn name(&self) -> &str {
        AS_IS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
