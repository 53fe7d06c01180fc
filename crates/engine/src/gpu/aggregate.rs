//! Aggregates as the end of a pipeline.
//!
//! ```text
//!   AggregateExec Final                          one sink makes the whole, and the result has Final's columns
//!     RepartitionExec | CoalescePartitionsExec
//!       AggregateExec Partial                    with avg: one sink makes the states, which Final on the CPU divides
//! ```
//!
//! The states of `avg` are a count and a sum, and the count is NULL where the sum is; the others' states are their
//! results.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode,
};
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{Aggregate, AggregateFunction, Sink, Type};

use super::arithmetic::is_integer;
use super::builder::Flow;
use super::lower::{Lowering, columns_of, without_exchanges};
use super::value::{Value, kernel_type};
use crate::error::from_datafusion;

/// Bits that the keys of a group may need together.
const KEY_BITS_MAX: f64 = 63.0;
/// The state of an average: a count and a sum.
const AVERAGE_STATES: usize = 2;

impl Lowering<'_> {
    /// The groups of an aggregate as the result; about `expected` of them.
    ///
    /// # Errors
    ///
    /// `Unsupported` for groups and functions that kernels do not have.
    pub(super) fn aggregate(&mut self, top: &AggregateExec, expected: Option<u64>) -> Result<()> {
        let first = first_stage(top)?;
        let gives_states = top.mode().output_mode() == AggregateOutputMode::Partial;
        check(first)?;
        let group_exprs = first.group_expr().expr();
        let arguments: Vec<_> =
            first.aggr_expr().iter().flat_map(|function| function.expressions()).collect();
        let needed = columns_of(group_exprs.iter().map(|(expr, _)| expr).chain(&arguments));
        let mut flow = self.flow(first.input(), &needed)?;
        let schema = first.input().schema();
        let keys = group_exprs.iter().map(|(expr, name)| {
            let key = flow.exprs(&schema).lower(expr)?;
            check_key(&key, name)?;
            Ok(key)
        });
        let keys = keys.collect::<Result<Vec<Value>>>()?;
        check_combinations(&keys)?;
        let mut aggregates = Vec::new();
        for function in first.aggr_expr() {
            let lowered = lower_function(function, &mut flow, first, gives_states)?;
            if lowered.len() == AVERAGE_STATES {
                self.average_counts.push(keys.len() + aggregates.len());
            }
            aggregates.extend(lowered);
        }
        let purpose = if keys.is_empty() { "aggregate of" } else { "groups of" };
        let keys = keys.into_iter().map(|key| key.expr).collect();
        self.finish(flow.builder, purpose, Sink::Aggregate { keys, aggregates, expected });
        Ok(())
    }
}

/// The stage that reads rows: `top`, or the partial one below it.
fn first_stage(top: &AggregateExec) -> Result<&AggregateExec> {
    if top.mode().input_mode() == AggregateInputMode::Raw {
        return Ok(top);
    }
    let below = without_exchanges(top.input()).downcast_ref::<AggregateExec>();
    match below.filter(|first| *first.mode() == AggregateMode::Partial) {
        Some(first) if first.aggr_expr().len() == top.aggr_expr().len() => Ok(first),
        _ => Err(Error::unsupported("the stage of the aggregate that reads rows is elsewhere")),
    }
}

fn check(first: &AggregateExec) -> Result<()> {
    if first.group_expr().has_grouping_set()
        || !first.group_expr().is_single() && !first.group_expr().is_empty()
    {
        return Err(Error::unsupported("kernels have no grouping sets"));
    }
    if first.filter_expr().iter().any(Option::is_some) {
        return Err(Error::unsupported("kernels have no FILTER of an aggregate"));
    }
    for function in first.aggr_expr() {
        if function.is_distinct() {
            return Err(Error::unsupported(format!("{}: kernels have no DISTINCT", function.name())));
        }
        if !function.order_bys().is_empty() {
            return Err(Error::unsupported(format!("{}: kernels aggregate in no order", function.name())));
        }
    }
    Ok(())
}

fn check_key(key: &Value, name: &str) -> Result<()> {
    match kernel_type(&key.data_type)? {
        Type::F64 => Err(Error::unsupported(format!("{name}: kernels do not group by doubles"))),
        _ => Ok(()),
    }
}

/// Kernels hold the keys of a group in one word: what is known to need more is left to the CPU before anything runs.
fn check_combinations(keys: &[Value]) -> Result<()> {
    let bits = keys.iter().filter_map(|key| key.bounds).map(|bounds| {
        // One more than there are values, for NULL.
        (bounds.max as f64 - bounds.min as f64 + 2.0).log2()
    });
    match bits.sum::<f64>() {
        bits if bits <= KEY_BITS_MAX => Ok(()),
        bits => {
            Err(Error::unsupported(format!("its group keys need {bits:.0} bits, more than {KEY_BITS_MAX}")))
        }
    }
}

/// `function` as one aggregate, or as the two that make the state of an average.
fn lower_function(
    function: &Arc<AggregateFunctionExpr>,
    flow: &mut Flow,
    first: &AggregateExec,
    gives_states: bool,
) -> Result<Vec<Aggregate>> {
    let schema = first.input().schema();
    let arguments = function.expressions();
    let [argument] = arguments.as_slice() else {
        return Err(Error::unsupported(format!("{} has several arguments", function.name())));
    };
    let is_count_of_rows = function.fun().name() == "count"
        && argument.downcast_ref::<Literal>().is_some_and(|constant| !constant.value().is_null());
    if is_count_of_rows {
        return Ok(vec![Aggregate { function: AggregateFunction::Count, input: None }]);
    }
    let input = flow.exprs(&schema).lower(argument)?;
    let of = |function| Aggregate { function, input: Some(input.expr.clone()) };
    let result = function.field();
    match function.fun().name() {
        "count" => Ok(vec![of(AggregateFunction::Count)]),
        "sum" => {
            check_sum(&input, result.data_type(), function.name())?;
            Ok(vec![of(AggregateFunction::Sum)])
        }
        "min" => check_extreme(&input, function.name()).map(|()| vec![of(AggregateFunction::Min)]),
        "max" => check_extreme(&input, function.name()).map(|()| vec![of(AggregateFunction::Max)]),
        "avg" if gives_states => {
            let states = function.state_fields().map_err(from_datafusion)?;
            check_average_states(&input, &states, function.name())?;
            Ok(vec![of(AggregateFunction::Count), of(AggregateFunction::Sum)])
        }
        "avg" => Err(Error::unsupported(format!("{}: the CPU divides, from states", function.name()))),
        other => Err(Error::unsupported(format!("kernels have no aggregate {other}"))),
    }
}

fn check_sum(input: &Value, result: &DataType, name: &str) -> Result<()> {
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

fn check_extreme(input: &Value, name: &str) -> Result<()> {
    match kernel_type(&input.data_type)? {
        Type::I32 | Type::I64 | Type::I128 => Ok(()),
        _ => {
            Err(Error::unsupported(format!("{name}: kernels have no least or greatest {}", input.data_type)))
        }
    }
}

/// The states of an average must be a count, then a sum of the input's kind.
fn check_average_states(input: &Value, states: &[FieldRef], name: &str) -> Result<()> {
    match states {
        [count, sum] if *count.data_type() == DataType::UInt64 => check_sum(input, sum.data_type(), name),
        _ => Err(Error::unsupported(format!("{name}: states other than a count and a sum"))),
    }
}
