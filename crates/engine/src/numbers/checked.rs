//! Arithmetic that never gives a wrong number: what `+`, `-`, `*`, unary minus and the division of decimals become.
//!
//! ```text
//!   a + b, a - b, a * b   integers of one type, or DECIMALs   their type, or an error
//!   -a                    an integer                          its type, or an error
//!   a / b                 a DECIMAL and a DECIMAL or integer  DOUBLE, or an error where b is zero
//! ```
//!
//! Each is a scalar function to DataFusion, named for what it does in EXPLAIN. In column names it looks like the operator
//! that it stands for, so that nothing else of a query changes. The check works on whole batches (`ints`, `decimals`):
//! operands of NULL rows may overflow unseen.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric::div;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use pelton_error::Error;

use super::doubles::{POWER_MAX, doubles};
use super::name::{infix, negated, sql_type};
use super::{decimals, ints};
use crate::error::to_datafusion;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CheckedOp {
    Add,
    Subtract,
    Multiply,
    Negate,
    /// Of decimals, as a double.
    Divide,
}

impl CheckedOp {
    /// As it is written.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract | Self::Negate => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Negate => "negate",
            Self::Divide => "divide",
        }
    }

    fn operator(self) -> Operator {
        match self {
            Self::Add => Operator::Plus,
            Self::Subtract | Self::Negate => Operator::Minus,
            Self::Multiply => Operator::Multiply,
            Self::Divide => Operator::Divide,
        }
    }
}

/// One operator of a query.
#[derive(Debug)]
pub(crate) struct Checked {
    op: CheckedOp,
    /// Of the result.
    data_type: DataType,
    /// About as the query has it, for errors. Not part of what the function is.
    text: String,
    signature: Signature,
}

impl Checked {
    /// `left op right` as an expression of type `data_type`.
    pub(super) fn binary(op: CheckedOp, left: Expr, right: Expr, data_type: DataType) -> Expr {
        let text = infix(&left, op.sign(), &right);
        Self::call(op, vec![left, right], data_type, text)
    }

    /// `-operand`.
    pub(super) fn negation(operand: Expr, data_type: DataType) -> Expr {
        let text = negated(&operand);
        Self::call(CheckedOp::Negate, vec![operand], data_type, text)
    }

    fn call(op: CheckedOp, args: Vec<Expr>, data_type: DataType, text: String) -> Expr {
        let signature = Signature::any(args.len(), Volatility::Immutable);
        let function = ScalarUDF::from(Self { op, data_type, text, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
    }

    /// What is computed.
    pub(crate) fn op(&self) -> CheckedOp {
        self.op
    }

    /// Of the result.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn compute(&self, args: &[ColumnarValue]) -> Result<ArrayRef> {
        let operands = args.iter().map(Operand::of).collect::<Result<Vec<_>>>()?;
        // To find out what a condition is for NULLs, rules compute it of NULLs of any type.
        let is_number = |operand: &Operand| operand.array.data_type().is_numeric();
        if let Some(other) = operands.iter().find(|operand| !is_number(operand)) {
            if other.array.logical_null_count() < other.array.len() {
                return internal_err!("{} of {}", self.op.name(), other.array.data_type());
            }
            let rows =
                operands.iter().find(|operand| !operand.is_constant).map_or(1, |rows| rows.array.len());
            return Ok(new_null_array(&self.data_type, rows));
        }
        match (operands.as_slice(), self.op) {
            ([left, right], CheckedOp::Divide) => self.quotient(left, right),
            ([left, right], op) if self.data_type.is_integer() => {
                ints::binary(op, left, right).map_err(|values| self.overflow(&values))
            }
            ([left, right], op) => {
                decimals::binary(op, left, right, &self.data_type).map_err(|values| self.overflow(&values))
            }
            ([operand], _) => ints::negate(operand).map_err(|values| self.overflow(&values)),
            _ => unreachable!("operators have one or two operands"),
        }
    }

    fn quotient(&self, left: &Operand, right: &Operand) -> Result<ArrayRef> {
        let (left, right) = (left.as_doubles()?, right.as_doubles()?);
        let divisors = right.array.as_primitive::<Float64Type>();
        let rows = if left.is_constant { divisors.len() } else { left.array.len() };
        let is_zero = |row: &usize| divisors.value(right.index(*row)) == 0.0;
        // NULL divided by 0 is NULL.
        if ints::first_valid(rows, ints::valid_rows(&left, &right).as_ref(), is_zero).is_some() {
            let message = format!("Divide by zero in `{}`; NULLIF(divisor, 0) gives NULL instead", self.text);
            return Err(to_datafusion(Error::invalid_input(message)));
        }
        Ok(div(&left, &right)?)
    }

    /// The error for `values`, the operands of the first row that does not fit.
    fn overflow(&self, values: &str) -> datafusion::error::DataFusionError {
        let remedy = match &self.data_type {
            DataType::Int64 | DataType::UInt64 => "DECIMAL(38,0) or DOUBLE",
            narrow if narrow.is_integer() => "BIGINT, DECIMAL(38,0) or DOUBLE",
            _ => "DOUBLE",
        };
        let result = sql_type(&self.data_type);
        to_datafusion(Error::invalid_input(format!(
            "{values} overflows {result} in `{}`; cast an operand to {remedy}",
            self.text
        )))
    }
}

impl PartialEq for Checked {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.data_type == other.data_type
    }
}

impl Eq for Checked {}

impl Hash for Checked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.data_type.hash(state);
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.op.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // As DataFusion names what this stands for.
        Ok(match args {
            [left, right] => {
                format!("{} {} {}", left.schema_name(), self.op.operator(), right.schema_name())
            }
            [operand] => format!("(- {})", operand.schema_name()),
            _ => unreachable!("operators have one or two operands"),
        })
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.op.name(), self.data_type.clone(), is_nullable).into())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_null =
            |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(constant) if constant.is_null());
        if args.args.iter().any(is_null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_new_null(&self.data_type)?));
        }
        let result = self.compute(&args.args)?;
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }

    fn evaluate_bounds(&self, _: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&self.data_type)
    }

    /// What does not wrap keeps the order of its operands.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.op, inputs) {
            (CheckedOp::Add, [left, right]) => left.sort_properties.add(&right.sort_properties),
            (CheckedOp::Subtract, [left, right]) => left.sort_properties.sub(&right.sort_properties),
            (CheckedOp::Negate, [operand]) => -operand.sort_properties,
            (_, inputs) if inputs.iter().all(|input| input.sort_properties == SortProperties::Singleton) => {
                SortProperties::Singleton
            }
            _ => SortProperties::Unordered,
        })
    }
}

/// A column, or a constant as an array of one.
#[derive(Debug)]
pub(super) struct Operand {
    pub(super) array: ArrayRef,
    pub(super) is_constant: bool,
}

impl Operand {
    fn of(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self { array: Arc::clone(array), is_constant: false },
            ColumnarValue::Scalar(constant) => Self { array: constant.to_array()?, is_constant: true },
        })
    }

    /// As doubles, as Arrow casts them, which kernels do too; but powers of ten that are no doubles would make 0.9999999999999999
    /// of 1 as a DECIMAL(38,37).
    fn as_doubles(&self) -> Result<Self> {
        let array = match self.array.data_type() {
            DataType::Decimal128(_, scale) if !(0..=POWER_MAX).contains(scale) => doubles(&self.array)?,
            _ => cast(&self.array, &DataType::Float64)?,
        };
        Ok(Self { array, is_constant: self.is_constant })
    }

    /// The place of the operand of `row`.
    pub(super) fn index(&self, row: usize) -> usize {
        if self.is_constant { 0 } else { row }
    }
}

impl Datum for Operand {
    fn get(&self) -> (&dyn Array, bool) {
        (self.array.as_ref(), self.is_constant)
    }
}
