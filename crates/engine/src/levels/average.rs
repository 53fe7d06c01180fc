//! `exact_average(sum, count)`: as `avg` of integers and decimals divides.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::numbers::{average, unit_of};

/// The average of `count` values that add up to `sum`; NULL of none.
pub(super) fn exact_average(sum: Expr, count: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(ExactAverage::new())));
    FUNCTION.call(vec![sum, count])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactAverage {
    signature: Signature,
}

impl ExactAverage {
    fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ExactAverage {
    fn name(&self) -> &str {
        "exact_average"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let (sums, counts) = (&columns[0], columns[1].as_primitive::<Int64Type>());
        let unit = unit_of(sums.data_type());
        let of = |row: usize, sum: &dyn Fn(usize) -> f64| {
            let is_any = sums.is_valid(row) && counts.is_valid(row) && counts.value(row) > 0;
            is_any.then(|| sum(row))
        };
        let averages: Float64Array = match sums.data_type() {
            DataType::Int64 => {
                let sums = sums.as_primitive::<Int64Type>();
                let of_row = |row| average(sums.value(row), counts.value(row) as u64, unit);
                (0..counts.len()).map(|row| of(row, &of_row)).collect()
            }
            _ => {
                let sums = sums.as_primitive::<Decimal128Type>();
                let of_row = |row| average(sums.value(row), counts.value(row) as u64, unit);
                (0..counts.len()).map(|row| of(row, &of_row)).collect()
            }
        };
        match are_scalars {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&averages, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(averages))),
        }
    }
}
