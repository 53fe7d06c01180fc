//! `as_is(x)`: x, of whose order and range nothing is known.
//!
//! ```text
//!   as_is(x)               no order, of any range; constant where x is
//!   as_is(x), of a type    likewise, for an x that DataFusion computes no range of, not even the type of one (keys.rs)
//!   as_is(x, varying())    not even constant: for DataFusion, what is computed of constants alone is constant, so there is
//!                          one more operand, of which it knows nothing (claims.rs)
//! ```

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// The function's name in EXPLAIN.
pub(crate) use pelton_planner::AS_IS;

static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(AsIs::new(None))));

/// `as_is(expr)`.
pub(crate) fn as_is(expr: Expr) -> Expr {
    FUNCTION.call(vec![expr])
}

/// `as_is(expr)`, which is of the type `data_type`.
pub(super) fn as_is_of(expr: Expr, data_type: DataType) -> Expr {
    ScalarUDF::from(AsIs::new(Some(data_type))).call(vec![expr])
}

/// Whether `expr` is what [`as_is_of`] gives.
pub(super) fn is_as_is_of(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else { return false };
    call.func.inner().downcast_ref::<AsIs>().is_some_and(|function| function.of.is_some())
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

/// `as_is(expr, varying())` in a physical plan: as [`planned`], and not constant where `expr` is.
pub(super) fn unknown(
    expr: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    config: &ConfigOptions,
) -> Result<Arc<dyn PhysicalExpr>> {
    static VARYING: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Varying::new())));
    let function: &Arc<ScalarUDF> = &FUNCTION;
    let varying: &Arc<ScalarUDF> = &VARYING;
    let config = Arc::new(config.clone());
    let varying = ScalarFunctionExpr::try_new(Arc::clone(varying), vec![], schema, Arc::clone(&config))?;
    let args: Vec<Arc<dyn PhysicalExpr>> = vec![expr, Arc::new(varying)];
    Ok(Arc::new(ScalarFunctionExpr::try_new(Arc::clone(function), args, schema, config)?))
}

/// Whether `expr` is what [`unknown`] gives.
pub(super) fn is_unknown(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| call.fun().name() == AS_IS && call.args().len() > 1)
}

/// What is said of functions where they say nothing: no order, any value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsIs {
    signature: Signature,
    /// The type of the argument, where DataFusion does not find it with the argument's range.
    of: Option<DataType>,
}

impl AsIs {
    fn new(of: Option<DataType>) -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable), of }
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

    /// Any value of the type: DataFusion compares ranges of one type alone, and fails where they are of two.
    fn evaluate_bounds(&self, ranges: &[&Interval]) -> Result<Interval> {
        let of_argument = || ranges.first().map(|range| range.data_type());
        any_of(&self.of.clone().or_else(of_argument).unwrap_or(DataType::Null))
    }
}

/// The range of all values of `data_type`.
pub(crate) fn any_of(data_type: &DataType) -> Result<Interval> {
    Interval::make_unbounded(data_type).or_else(|_| Interval::make_unbounded(&DataType::Null))
}

/// An operand of which DataFusion knows nothing, not that it is the same in each row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Varying {
    signature: Signature,
}

impl Varying {
    fn new() -> Self {
        Self { signature: Signature::nullary(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Varying {
    fn name(&self) -> &str {
        "varying"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}
