//! Functions of an aggregate: what the sink keeps of each, and how its result comes from that.
//!
//! ```text
//!   count                    count
//!   sum                      sum
//!   min, max                 min, max; of booleans as the numbers 0 and 1; of text by the order of its bytes
//!   bool_and, bool_or        min, max of booleans
//!   avg                      count and sum
//!   var, stddev, …           count, sum and sum of squares; of integers and decimals
//!   f(x) FILTER (WHERE c)    f(x where c): NULL elsewhere, which every function leaves out
//! ```
//!
//! The states of `avg` are a count and a sum, and the count is NULL where the sum is; the others' states are their
//! results.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Aggregate, AggregateFunction, ArithmeticOp, Expr, Literal as Constant, Type};

use super::arithmetic::is_integer;
use super::builder::{Flow, PipelineBuilder};
use super::value::{Value, kernel_type};
use super::variance::Variance;
use crate::error::from_datafusion;

/// What the sink keeps of a function.
pub(super) struct Function {
    /// One, or those of an average or a variance.
    pub(super) states: Vec<State>,
    pub(super) made: Made,
}

/// A column of groups behind their keys.
pub(super) struct State {
    pub(super) name: String,
    pub(super) aggregate: Aggregate,
    /// Sums may turn out wider.
    pub(super) ty: Type,
    /// It is a text without a dictionary: a view where the groups are a source.
    pub(super) is_plain_text: bool,
}

/// How a function's result comes from its states.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Made {
    /// It is the state.
    Whole,
    /// It is the state, 0 where that is NULL: a sum of counts.
    Count,
    /// The second state divided by the first times `unit`.
    Average { unit: f64 },
    /// Of count, sum and sum of squares.
    Variance(Variance),
}

impl State {
    fn of(name: &str, function: AggregateFunction, input: Option<&Value>) -> Result<Self> {
        let ty = match (function, input) {
            (AggregateFunction::Count, _) | (_, None) => Type::I64,
            (_, Some(input)) => kernel_type(&input.data_type)?,
        };
        let input = input.map(|input| input.expr.clone());
        let (input, ty) = match (input, ty) {
            (Some(input), Type::Bool) => {
                (Some(Expr::Cast { input: Box::new(input), to: Type::I32 }), Type::I32)
            }
            unchanged => unchanged,
        };
        let aggregate = Aggregate { function, input };
        Ok(Self { name: name.to_owned(), aggregate, ty, is_plain_text: false })
    }

    /// The least number of a row whose text is a key of the group.
    pub(super) fn least_row(name: &str, row: &Expr) -> Self {
        let aggregate = Aggregate { function: AggregateFunction::Min, input: Some(row.clone()) };
        Self { name: format!("row of {name}"), aggregate, ty: Type::I64, is_plain_text: false }
    }

    /// Whether the state of a group may be NULL.
    pub(super) fn is_nullable(&self) -> bool {
        self.aggregate.function != AggregateFunction::Count
    }

    /// The state of groups that are made of groups, of which `column` has this state.
    fn of_groups(&self, column: usize) -> Self {
        let function = match self.aggregate.function {
            AggregateFunction::Count | AggregateFunction::Sum => AggregateFunction::Sum,
            extreme => extreme,
        };
        let aggregate = Aggregate { function, input: Some(Expr::Column(column)) };
        Self { name: self.name.clone(), aggregate, ty: self.ty, is_plain_text: self.is_plain_text }
    }
}

impl Function {
    /// What brings the text of a key.
    pub(super) fn least_row(state: State) -> Self {
        Self { states: vec![state], made: Made::Whole }
    }

    /// What the sink keeps of `function` over `input`, its argument; `None`: all rows.
    ///
    /// # Errors
    ///
    /// `Unsupported` for functions that kernels do not have.
    pub(super) fn of(function: &AggregateFunctionExpr, input: Option<&Value>) -> Result<Self> {
        let name = function.name();
        let one = |kind, input| Ok(Self { states: vec![State::of(name, kind, input)?], made: Made::Whole });
        let Some(input) = input else { return one(AggregateFunction::Count, None) };
        let result = function.field();
        match function.fun().name() {
            "count" => one(AggregateFunction::Count, Some(input)),
            "sum" => {
                check_sum(input, result.data_type(), name)?;
                one(AggregateFunction::Sum, Some(input))
            }
            "min" | "bool_and" => {
                kernel_type(&input.data_type)?;
                one(AggregateFunction::Min, Some(input))
            }
            "max" | "bool_or" => {
                kernel_type(&input.data_type)?;
                one(AggregateFunction::Max, Some(input))
            }
            "avg" if *result.data_type() == DataType::Float64 => {
                let unit = unit_of(input, name)?;
                let count = State::of(&format!("count of {name}"), AggregateFunction::Count, Some(input))?;
                let sum = State::of(name, AggregateFunction::Sum, Some(input))?;
                Ok(Self { states: vec![count, sum], made: Made::Average { unit } })
            }
            "var" | "var_pop" | "stddev" | "stddev_pop" => Self::variance(function, input),
            "avg" => Err(Error::unsupported(format!("{name}: an average of another type"))),
            other => Err(Error::unsupported(format!("kernels have no aggregate {other}"))),
        }
    }

    fn variance(function: &AggregateFunctionExpr, input: &Value) -> Result<Self> {
        let name = function.name();
        let is_exact = input.data_type != DataType::Float64 && !function.is_distinct();
        let variance = Variance::of(function.fun().name(), unit_of(input, name)?).filter(|_| is_exact);
        let variance = variance.ok_or_else(|| {
            Error::unsupported(format!("{name}: kernels have variances of integers and decimals alone"))
        })?;
        let wide = Box::new(Expr::Cast { input: Box::new(input.expr.clone()), to: Type::I128 });
        let square = Expr::Arithmetic { op: ArithmeticOp::Multiply, left: wide.clone(), right: wide };
        let mut squares = State::of(&format!("squares of {name}"), AggregateFunction::Sum, Some(input))?;
        squares = State {
            aggregate: Aggregate { input: Some(square), ..squares.aggregate },
            ty: Type::I128,
            ..squares
        };
        let count = State::of(&format!("count of {name}"), AggregateFunction::Count, Some(input))?;
        let sum = State::of(&format!("sum of {name}"), AggregateFunction::Sum, Some(input))?;
        Ok(Self { states: vec![count, sum, squares], made: Made::Variance(variance) })
    }

    /// What the sink keeps of `function` over `input`, a value of `builder`.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub(super) fn of_rows(
        function: &AggregateFunctionExpr,
        input: Option<&Value>,
        builder: &PipelineBuilder,
    ) -> Result<Self> {
        let mut made = Self::of(function, input)?;
        let is_plain = input.is_some_and(|input| input.is_text() && !builder.has_dictionary(&input.expr));
        made.states.iter_mut().for_each(|state| state.is_plain_text = is_plain && state.ty == Type::Text);
        Ok(made)
    }

    /// The same of groups that are made of groups, whose columns from `column` on have its states.
    pub(super) fn of_groups(&self, column: usize) -> Self {
        let states = self.states.iter().enumerate();
        let is_count = self.made == Made::Whole && !self.states[0].is_nullable();
        Self {
            states: states.map(|(index, state)| state.of_groups(column + index)).collect(),
            made: if is_count { Made::Count } else { self.made },
        }
    }
}

/// That the plan takes a count, then the sum that kernels make, for the states of `function`, an average.
///
/// # Errors
///
/// `Unsupported` where it takes others.
pub(super) fn check_average_states(function: &AggregateFunctionExpr) -> Result<()> {
    let states = function.state_fields().map_err(from_datafusion)?;
    let is_sum =
        |sum: &DataType| matches!(sum, DataType::Int64 | DataType::Decimal128(..) | DataType::Float64);
    match states.as_slice() {
        [count, sum] if *count.data_type() == DataType::UInt64 && is_sum(sum.data_type()) => Ok(()),
        _ => Err(Error::unsupported(format!("{}: states other than a count and a sum", function.name()))),
    }
}

/// Whether equal values count once in `function`, and that makes a difference.
pub(super) fn is_distinct(function: &AggregateFunctionExpr) -> bool {
    function.is_distinct() && !matches!(function.fun().name(), "min" | "max" | "bool_and" | "bool_or")
}

/// What `function` is over: NULL where `conditions` do not all hold; `None` where it counts all rows.
///
/// # Errors
///
/// `Unsupported` for orders, several arguments, and what kernels do not compute.
pub(super) fn argument(
    function: &AggregateFunctionExpr,
    filter: Option<&Arc<dyn PhysicalExpr>>,
    turn: Option<Expr>,
    flow: &mut Flow,
    schema: &SchemaRef,
) -> Result<Option<Value>> {
    argument_of(function, &function.expressions(), filter, turn, flow, schema)
}

/// As [`argument`], of `function` over these `arguments` in place of its own.
///
/// # Errors
///
/// Likewise.
pub(super) fn argument_of(
    function: &AggregateFunctionExpr,
    arguments: &[Arc<dyn PhysicalExpr>],
    filter: Option<&Arc<dyn PhysicalExpr>>,
    turn: Option<Expr>,
    flow: &mut Flow,
    schema: &SchemaRef,
) -> Result<Option<Value>> {
    if !function.order_bys().is_empty() {
        return Err(Error::unsupported(format!("{}: kernels aggregate in no order", function.name())));
    }
    let [argument] = arguments else {
        return Err(Error::unsupported(format!("{} has several arguments", function.name())));
    };
    let counts_rows = function.fun().name() == "count"
        && !function.is_distinct()
        && argument.downcast_ref::<Literal>().is_some_and(|constant| !constant.value().is_null());
    let mut exprs = flow.exprs(schema);
    let input = match function.fun().name() {
        _ if counts_rows => None,
        "count" => Some(exprs.counted(argument, function.is_distinct())?),
        "min" | "max" => Some(exprs.lower_text(argument)?),
        _ => Some(exprs.lower(argument)?),
    };
    let input = input.map(|input| if is_variance(function) { exact(input, flow) } else { input });
    let filter = filter.map(|filter| flow.exprs(schema).condition(filter)).transpose()?;
    let conditions: Vec<Expr> = turn.into_iter().chain(filter).collect();
    if conditions.is_empty() {
        return Ok(input);
    }
    let input = input.unwrap_or_else(|| Value {
        expr: Expr::Literal(Constant::Bool(true)),
        data_type: DataType::Boolean,
        is_nullable: false,
        bounds: None,
        late: None,
    });
    Ok(Some(only_where(input, conditions)))
}

/// Whether `function` is a variance or a standard deviation.
pub(super) fn is_variance(function: &AggregateFunctionExpr) -> bool {
    Variance::of(function.fun().name(), 1.0).is_some()
}

/// The integer or decimal of which `value` is the double, where it is one.
fn exact(value: Value, flow: &Flow) -> Value {
    let of_cast = |expr: &Expr| match expr {
        Expr::Cast { input, to: Type::F64 } => Some((**input).clone()),
        _ => None,
    };
    let found = match flow.builder.definition(&value.expr) {
        Expr::Arithmetic { op: ArithmeticOp::Divide, left, right } => match **right {
            Expr::Literal(Constant::F64(unit)) => of_cast(left).zip(decimal_of(unit)),
            _ => None,
        },
        expr => of_cast(expr).map(|input| (input, DataType::Int64)),
    };
    match found {
        Some((expr, data_type)) => Value { expr, data_type, ..value },
        None => value,
    }
}

/// The type of decimals whose unscaled values are multiples of 1 / `unit`.
fn decimal_of(unit: f64) -> Option<DataType> {
    (0..=38).find(|scale| 10_f64.powi(*scale) == unit).map(|scale| DataType::Decimal128(38, scale as i8))
}

/// `value` where `conditions` all hold, else NULL.
pub(super) fn only_where(value: Value, mut conditions: Vec<Expr>) -> Value {
    let condition = match conditions.len() {
        1 => conditions.swap_remove(0),
        _ => Expr::And(conditions),
    };
    let expr = Expr::Where { input: Box::new(value.expr), condition: Box::new(condition) };
    Value { expr, is_nullable: true, ..value }
}

/// That kernels sum `input` to a `result`.
///
/// # Errors
///
/// `Unsupported` where they do not.
pub(super) fn check_sum(input: &Value, result: &DataType, name: &str) -> Result<()> {
    let keeps_its_type = match (&input.data_type, result) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from == to,
        (from, DataType::Int64 | DataType::Decimal128(_, 0)) => is_integer(from),
        (DataType::Float64, DataType::Float64) => true,
        _ => false,
    };
    match keeps_its_type {
        true => Ok(()),
        false => Err(Error::unsupported(format!("{name}: kernels do not sum {}", input.data_type))),
    }
}

/// What the unscaled values of `input` are multiples of, by which their average is divided.
///
/// # Errors
///
/// `Unsupported` for what has no average as a double.
pub(super) fn unit_of(input: &Value, name: &str) -> Result<f64> {
    match &input.data_type {
        DataType::Decimal128(_, scale) => Ok(10_f64.powi(i32::from(*scale))),
        other if is_integer(other) || *other == DataType::Float64 => Ok(1.0),
        _ => Err(Error::unsupported(format!("{name}: an average of another type"))),
    }
}
