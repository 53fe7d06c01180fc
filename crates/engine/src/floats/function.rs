//! `float_key(x)`: x with one zero and one NaN.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::orders::any_of;

/// The function's name in EXPLAIN.
pub(crate) const NAME: &str = "float_key";

/// `float_key(expr)`; `expr` itself where it is one already.
pub(super) fn float_key(expr: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(FloatKey::new())));
    match &expr {
        Expr::ScalarFunction(call) if call.name() == NAME => expr,
        _ => FUNCTION.call(vec![expr]),
    }
}

pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatKey {
    signature: Signature,
}

impl FloatKey {
    fn new() -> Self {
        let types = vec![DataType::Float64, DataType::Float32, DataType::Float16];
        Self { signature: Signature::uniform(1, types, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for FloatKey {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    /// Any value of the type: without a type DataFusion fails to compare the range, and takes what was just sorted by such a
    /// comparison for not sorted.
    fn evaluate_bounds(&self, ranges: &[&Interval]) -> Result<Interval> {
        any_of(&ranges.first().map_or(DataType::Null, |range| range.data_type()))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.swap_remove(0) {
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(keys(values))),
            ColumnarValue::Scalar(value) => {
                let key = ScalarValue::try_from_array(&keys(value.to_array()?), 0)?;
                Ok(ColumnarValue::Scalar(key))
            }
        }
    }
}

/// The keys of an array: itself where all of its values are.
fn keys(values: ArrayRef) -> ArrayRef {
    match values.data_type() {
        // NaN compares with nothing, so `v == v` tells it, and adding 0.0 turns -0.0 into 0.0 and changes nothing else.
        DataType::Float64 => {
            keys_of::<Float64Type>(values, |v| if v.is_nan() { f64::NAN } else { v + 0.0 }, |v| v.to_bits())
        }
        DataType::Float32 => keys_of::<Float32Type>(
            values,
            |v| if v.is_nan() { f32::NAN } else { v + 0.0 },
            |v| v.to_bits().into(),
        ),
        DataType::Float16 => keys_of::<Float16Type>(
            values,
            |v| match v.to_bits() {
                0x8000 => Default::default(),
                bits if bits & 0x7fff > 0x7c00 => {
                    <Float16Type as ArrowPrimitiveType>::Native::from_f32(f32::NAN)
                }
                _ => v,
            },
            |v| v.to_bits().into(),
        ),
        _ => values,
    }
}

fn keys_of<T: ArrowPrimitiveType>(
    values: ArrayRef,
    key: impl Fn(T::Native) -> T::Native,
    bits: impl Fn(T::Native) -> u64,
) -> ArrayRef {
    let floats: &PrimitiveArray<T> = values.as_primitive();
    // One pass without branches; nearly always it finds nothing to change.
    let differs =
        floats.values().iter().fold(0, |differs, value| differs | (bits(key(*value)) ^ bits(*value)));
    if differs == 0 {
        return values;
    }
    Arc::new(floats.unary::<_, T>(key))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, Float32Array, Float64Array};

    use super::*;

    #[test]
    fn there_is_one_zero_and_one_nan() {
        let values =
            [Some(-0.0), Some(0.0), Some(f64::NAN), Some(-f64::NAN), None, Some(-1.5), Some(f64::INFINITY)];
        let keyed = keys(Arc::new(Float64Array::from(values.to_vec())));
        let bits = |value: f64| value.to_bits();
        let keyed: Vec<_> = keyed.as_primitive::<Float64Type>().iter().map(|value| value.map(bits)).collect();
        let expected =
            [Some(0.0), Some(0.0), Some(f64::NAN), Some(f64::NAN), None, Some(-1.5), Some(f64::INFINITY)];
        assert_eq!(keyed, expected.map(|value| value.map(bits)));
        let singles = keys(Arc::new(Float32Array::from(vec![-0.0, -f32::NAN, 2.0])));
        let bits: Vec<_> =
            singles.as_primitive::<Float32Type>().values().iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [0.0f32.to_bits(), f32::NAN.to_bits(), 2.0f32.to_bits()]);
    }

    #[test]
    fn keys_are_not_copied() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(0.0), Some(f64::NAN)]));
        assert!(Arc::ptr_eq(&keys(Arc::clone(&values)), &values));
        assert_eq!(keys(values).null_count(), 1);
    }
}
