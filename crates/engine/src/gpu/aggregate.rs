//! Aggregates as the end of a pipeline, and their groups as the source of the next.
//!
//! ```text
//!   AggregateExec Final                          one sink makes the whole, and the result has Final's columns
//!     RepartitionExec | CoalescePartitionsExec
//!       AggregateExec Partial                    by itself: one sink makes the states
//!
//!   pipeline 0   scan ─► groups by key: count, sum
//!   pipeline 1   groups of pipeline 0 ─► average = sum / count ─► filter ─► probe, build, aggregate, …
//! ```
//!
//! The states of `avg` are a count and a sum, and the count is NULL where the sum is; the others' states are their
//! results.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode,
};
use datafusion::physical_plan::projection::ProjectionExec;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Column, Expr, Literal as Constant, Sink, Source, Type,
};

use super::arithmetic::is_integer;
use super::builder::{Flow, PipelineBuilder};
use super::lower::{Lowering, Needed, columns_of, without_exchanges};
use super::of_groups::{OfGroups, OfState};
use super::value::{LateText, Value, kernel_type, type_bounds};
use crate::error::from_datafusion;

/// The state of an average: a count and a sum.
const AVERAGE_STATES: usize = 2;

impl Lowering<'_> {
    /// The groups of an aggregate as the result, or as what the host computes `projections` of; about `expected` of them.
    ///
    /// # Errors
    ///
    /// `Unsupported` for groups and functions that kernels do not have.
    pub(super) fn aggregate(
        &mut self,
        top: &AggregateExec,
        projections: &[&ProjectionExec],
        expected: Option<u64>,
    ) -> Result<()> {
        let gives_states = top.mode().output_mode() == AggregateOutputMode::Partial;
        let divides = needs_division(top);
        let grouped = self.group_rows(first_stage(top)?, expected, gives_states || divides)?;
        self.late = grouped.keys.iter().map(|key| key.late.clone()).collect();
        if divides || !projections.is_empty() {
            let projections = projections.iter().map(|above| (above.expr().into(), above.schema()));
            self.of_groups =
                Some(OfGroups::new(grouped.states_of(top)?, top.schema(), projections.collect()));
        } else {
            self.average_counts.extend(grouped.average_counts);
        }
        Ok(())
    }

    /// The groups of an aggregate as a source, with the columns that are needed.
    ///
    /// # Errors
    ///
    /// As [`aggregate`](Self::aggregate).
    pub(super) fn groups(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        top: &AggregateExec,
        needed: &Needed,
    ) -> Result<Flow> {
        if top.mode().output_mode() == AggregateOutputMode::Partial {
            return Err(Error::unsupported("the states of an aggregate, whose last stage is elsewhere"));
        }
        let expected = pelton_planner::estimated_rows(plan).map(|groups| groups as u64);
        let first = first_stage(top)?;
        let grouped = self.group_rows(first, expected, true)?;
        let key_type = |key: &Value| match key.late {
            Some(_) => Ok(Type::I64),
            None => kernel_type(&key.data_type),
        };
        let columns = grouped.keys.iter().map(|key| (key_type(key), key.is_nullable));
        let columns = columns.chain(grouped.states.iter().map(|(ty, nullable)| (Ok(*ty), *nullable)));
        let columns = columns.enumerate().map(|(index, (ty, is_nullable))| {
            let name = grouped.names.get(index).cloned().unwrap_or_default();
            Ok(Column { name, ty: ty?, is_nullable, bounds: None, text: None })
        });
        let columns = columns.collect::<Result<Vec<Column>>>()?;
        let source = Source::Groups(grouped.pipeline);
        let name = format!("groups of pipeline {}", grouped.pipeline);
        let builder = PipelineBuilder::new(source, columns, name, None, &self.parameters);
        let schema = plan.schema();
        let mut outputs = vec![None; schema.fields().len()];
        for (index, key) in grouped.keys.iter().enumerate().filter(|(index, _)| needed.contains(index)) {
            let late = key.late.clone().map(|late| {
                late.renumbered(|column| grouped.keys.iter().position(|key| key.as_column() == Some(column)))
            });
            outputs[index] = Some(Value { expr: Expr::Column(index), late, ..key.clone() });
        }
        let mut state = grouped.keys.len();
        for (index, function) in top.aggr_expr().iter().enumerate() {
            let column = grouped.keys.len() + index;
            let is_average = grouped.average_counts.contains(&state);
            if needed.contains(&column) {
                let field = schema.field(column);
                let input = &grouped.inputs[index];
                outputs[column] = Some(match is_average {
                    true => average(state, input.as_ref(), function.name())?,
                    false => whole(state, field.data_type(), field.is_nullable())?,
                });
            }
            state += if is_average { AVERAGE_STATES } else { 1 };
        }
        Ok(Flow { builder, outputs })
    }

    /// Ends a pipeline in the groups of `first`, the stage that reads rows: with averages as results, which is refused,
    /// or as states.
    fn group_rows(
        &mut self,
        first: &AggregateExec,
        expected: Option<u64>,
        gives_states: bool,
    ) -> Result<Grouped> {
        check(first)?;
        let group_exprs = first.group_expr().expr();
        let arguments: Vec<_> =
            first.aggr_expr().iter().flat_map(|function| function.expressions()).collect();
        let needed = columns_of(group_exprs.iter().map(|(expr, _)| expr).chain(&arguments));
        let mut flow = self.flow(first.input(), &needed)?;
        let schema = first.input().schema();
        let keys = group_exprs.iter().map(|(expr, _)| flow.exprs(&schema).carry(expr));
        let keys = keys.collect::<Result<Vec<Value>>>()?;
        for late in keys.iter().filter_map(|key| key.late.as_ref()) {
            self.unique_tables.push(determining_table(late, &keys)?);
        }
        let mut names: Vec<String> = group_exprs.iter().map(|(_, name)| name.clone()).collect();
        let (mut aggregates, mut inputs, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let mut average_counts = Vec::new();
        for function in first.aggr_expr() {
            let (lowered, input) = lower_function(function, &mut flow, first, gives_states)?;
            if lowered.len() == AVERAGE_STATES {
                average_counts.push(keys.len() + aggregates.len());
                names.push(format!("count of {}", function.name()));
                states.push((Type::I64, false));
            }
            names.push(function.name().to_owned());
            let is_count = lowered.last().is_some_and(|last| last.function == AggregateFunction::Count);
            let ty = input.as_ref().map_or(Ok(Type::I64), |input| kernel_type(&input.data_type))?;
            states.push(if is_count { (Type::I64, false) } else { (ty, true) });
            aggregates.extend(lowered);
            inputs.push(input);
        }
        let purpose = if keys.is_empty() { "aggregate of" } else { "groups of" };
        let exprs = keys.iter().map(|key| key.expr.clone()).collect();
        let sink = Sink::Aggregate { keys: exprs, aggregates, expected };
        let pipeline = self.finish(flow.builder, purpose, sink);
        Ok(Grouped { pipeline, keys, names, inputs, states, average_counts })
    }
}

/// The least and greatest values of a column by key, as a source.
pub(super) struct Extremes {
    pub(super) builder: PipelineBuilder,
    pub(super) keys: Vec<Value>,
    /// One a function.
    pub(super) values: Vec<Value>,
}

impl Lowering<'_> {
    /// Ends `builder` in groups by `keys` with these `functions` of `value`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for keys that kernels do not hold.
    pub(super) fn extremes(
        &mut self,
        builder: PipelineBuilder,
        keys: &[Value],
        value: &Value,
        functions: &[AggregateFunction],
    ) -> Result<Extremes> {
        let expected = builder.distinct_keys(keys);
        let aggregate =
            |function: &AggregateFunction| Aggregate { function: *function, input: Some(value.expr.clone()) };
        let sink = Sink::Aggregate {
            keys: keys.iter().map(|key| key.expr.clone()).collect(),
            aggregates: functions.iter().map(aggregate).collect(),
            expected,
        };
        let pipeline = self.finish(builder, "groups of", sink);
        let of_keys = keys.iter().map(|key| ("key", key, key.is_nullable));
        let all: Vec<_> = of_keys.chain(functions.iter().map(|_| ("extreme", value, true))).collect();
        let columns = all.iter().map(|(name, value, is_nullable)| {
            let ty = kernel_type(&value.data_type)?;
            Ok(Column { name: (*name).into(), ty, is_nullable: *is_nullable, bounds: None, text: None })
        });
        let columns = columns.collect::<Result<Vec<Column>>>()?;
        let name = format!("groups of pipeline {pipeline}");
        let builder = PipelineBuilder::new(Source::Groups(pipeline), columns, name, None, &self.parameters);
        let values = all.iter().enumerate().map(|(index, (_, value, is_nullable))| Value {
            bounds: value.bounds,
            ..Value::column(index, value.data_type.clone(), *is_nullable)
        });
        let mut keys_then_values: Vec<Value> = values.collect();
        let values = keys_then_values.split_off(keys.len());
        Ok(Extremes { builder, keys: keys_then_values, values })
    }
}

/// The hash table whose row the other `keys` determine if its keys do not repeat: rows of one group then have one such
/// row, so that the row number in it is as good a key as the text.
fn determining_table(late: &LateText, keys: &[Value]) -> Result<usize> {
    let is_key =
        |column: &usize| keys.iter().any(|key| key.late.is_none() && key.as_column() == Some(*column));
    match late.brought_by.iter().find(|(_, looked_up)| looked_up.iter().all(is_key)) {
        Some((table, _)) => Ok(*table),
        None => Err(Error::unsupported(format!(
            "text '{}' of '{}' has no dictionary, and no other group key determines it",
            late.table.schema().columns[late.column].name,
            late.table.name()
        ))),
    }
}

/// A pipeline that ends in groups.
struct Grouped {
    pipeline: usize,
    keys: Vec<Value>,
    /// Of its columns.
    names: Vec<String>,
    /// What each function is over; `None` for a count of rows.
    inputs: Vec<Option<Value>>,
    /// Types of the columns behind the keys, and whether they may be NULL; sums may turn out wider.
    states: Vec<(Type, bool)>,
    /// Columns that are counts of averages; their sums come behind.
    average_counts: Vec<usize>,
}

impl Grouped {
    /// How the columns of `top` come from keys and states.
    fn states_of(&self, top: &AggregateExec) -> Result<Vec<OfState>> {
        let mut columns: Vec<OfState> = (0..self.keys.len()).map(OfState::Whole).collect();
        let mut state = self.keys.len();
        for (function, input) in top.aggr_expr().iter().zip(&self.inputs) {
            let is_average = self.average_counts.contains(&state);
            if is_average && *function.field().data_type() != DataType::Float64 {
                return Err(Error::unsupported(format!("{}: an average of another type", function.name())));
            }
            columns.push(match is_average {
                true => OfState::Average { count: state, unit: unit_of(input.as_ref(), function.name())? },
                false => OfState::Whole(state),
            });
            state += if is_average { AVERAGE_STATES } else { 1 };
        }
        Ok(columns)
    }
}

/// Whether the results of `top` take a division, which the sink does not make.
pub(super) fn needs_division(top: &AggregateExec) -> bool {
    top.mode().output_mode() == AggregateOutputMode::Final
        && top.aggr_expr().iter().any(|function| function.fun().name() == "avg")
}

/// Column `state` of groups as a value of the plan's type, which a sum may leave.
fn whole(state: usize, data_type: &DataType, is_nullable: bool) -> Result<Value> {
    let expr = match (kernel_type(data_type)?, type_bounds(data_type)) {
        (ty @ (Type::I32 | Type::I64 | Type::I128), Some(bounds)) => {
            let input = Expr::Cast { input: Box::new(Expr::Column(state)), to: ty };
            Expr::Within { input: Box::new(input), bounds }
        }
        _ => Expr::Column(state),
    };
    Ok(Value { expr, data_type: data_type.clone(), is_nullable, bounds: None, late: None })
}

/// The average of which column `state` has the count and the next one the sum: `sum / (count * 10^scale)` as doubles,
/// which is how the CPU divides.
fn average(state: usize, input: Option<&Value>, name: &str) -> Result<Value> {
    let unit = unit_of(input, name)?;
    let double = |column| Box::new(Expr::Cast { input: Box::new(Expr::Column(column)), to: Type::F64 });
    let divisor = match unit {
        1.0 => double(state),
        unit => {
            let right = Box::new(Expr::Literal(Constant::F64(unit)));
            Box::new(Expr::Arithmetic { op: ArithmeticOp::Multiply, left: double(state), right })
        }
    };
    let expr = Expr::Arithmetic { op: ArithmeticOp::Divide, left: double(state + 1), right: divisor };
    Ok(Value { expr, data_type: DataType::Float64, is_nullable: true, bounds: None, late: None })
}

/// What the unscaled values of `input` are multiples of, by which their average is divided.
fn unit_of(input: Option<&Value>, name: &str) -> Result<f64> {
    match input.map(|input| &input.data_type) {
        Some(DataType::Decimal128(_, scale)) => Ok(10_f64.powi(i32::from(*scale))),
        Some(other) if is_integer(other) || *other == DataType::Float64 => Ok(1.0),
        _ => Err(Error::unsupported(format!("{name}: an average of another type"))),
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

/// `function` as one aggregate, or as the two that make the state of an average; with what it is over.
fn lower_function(
    function: &Arc<AggregateFunctionExpr>,
    flow: &mut Flow,
    first: &AggregateExec,
    gives_states: bool,
) -> Result<(Vec<Aggregate>, Option<Value>)> {
    let schema = first.input().schema();
    let arguments = function.expressions();
    let [argument] = arguments.as_slice() else {
        return Err(Error::unsupported(format!("{} has several arguments", function.name())));
    };
    let is_count_of_rows = function.fun().name() == "count"
        && argument.downcast_ref::<Literal>().is_some_and(|constant| !constant.value().is_null());
    if is_count_of_rows {
        return Ok((vec![Aggregate { function: AggregateFunction::Count, input: None }], None));
    }
    let input = flow.exprs(&schema).lower(argument)?;
    let of = |function| Aggregate { function, input: Some(input.expr.clone()) };
    let result = function.field();
    let aggregates = match function.fun().name() {
        "count" => vec![of(AggregateFunction::Count)],
        "sum" => {
            check_sum(&input, result.data_type(), function.name())?;
            vec![of(AggregateFunction::Sum)]
        }
        "min" => check_extreme(&input, function.name()).map(|()| vec![of(AggregateFunction::Min)])?,
        "max" => check_extreme(&input, function.name()).map(|()| vec![of(AggregateFunction::Max)])?,
        "avg" if gives_states => {
            let states = function.state_fields().map_err(from_datafusion)?;
            check_average_states(&input, &states, function.name())?;
            vec![of(AggregateFunction::Count), of(AggregateFunction::Sum)]
        }
        "avg" => return Err(Error::unsupported(format!("{}: the sink does not divide", function.name()))),
        other => return Err(Error::unsupported(format!("kernels have no aggregate {other}"))),
    };
    Ok((aggregates, Some(input)))
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
