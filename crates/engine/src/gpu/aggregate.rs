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
//! Functions are in `functions.rs`. With GROUPING SETS each row goes on once for each of them, with NULL for the keys that
//! the set lacks and the number of the set as a further key. DISTINCT is in `distinct.rs`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode,
};
use datafusion::physical_plan::projection::ProjectionExec;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Column, CompareOp, Expr, Literal as Constant, Sink, Source,
    Type,
};

use super::builder::{Flow, PipelineBuilder};
use super::functions::{
    Function, Made, State, argument, check_average_states, is_distinct, is_variance, only_where,
};
use super::lower::{Lowering, Needed, columns_of, without_exchanges};
use super::of_groups::{OfGroups, OfState};
use super::value::{LateText, Value, kernel_type, type_bounds};

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
        let first = first_stage(top)?;
        let gives_states = top.mode().output_mode() == AggregateOutputMode::Partial;
        if gives_states {
            check_states(first)?;
        }
        let grouped = self.group_rows(first, expected)?;
        if !self.is_last(grouped.pipeline) {
            return Err(Error::unsupported("the result is what a part of it makes too"));
        }
        self.late = (0..grouped.keys.len()).map(|key| grouped.late(key)).collect();
        self.key_rows = grouped.rows_of_texts();
        let has_total = has_total(first);
        if needs_more(top) || has_total || !projections.is_empty() {
            let projections = projections.iter().map(|above| (above.expr().into(), above.schema()));
            let keys = (0..grouped.keys.len()).map(OfState::Whole);
            let columns = keys.chain(grouped.results.iter().copied()).collect();
            let of_groups = OfGroups::new(columns, top.schema(), projections.collect());
            self.of_groups = Some(if has_total { of_groups.with_total() } else { of_groups });
            return Ok(());
        }
        for (function, result) in first.aggr_expr().iter().zip(&grouped.results) {
            if let OfState::Average { count, .. } = *result {
                check_average_states(function)?;
                self.average_counts.push(count);
            }
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
        let first = first_stage(top)?;
        if has_total(first) {
            return Err(Error::unsupported("kernels give no grand total of no rows to further pipelines"));
        }
        let expected = pelton_planner::estimated_rows(plan).map(|groups| groups as u64);
        let grouped = self.group_rows(first, expected)?;
        let builder = self.source_of(&grouped)?;
        let schema = plan.schema();
        let mut outputs = vec![None; schema.fields().len()];
        for (index, key) in grouped.keys.iter().enumerate().filter(|(index, _)| needed.contains(index)) {
            if let Some((text, row)) = &grouped.texts[index] {
                outputs[index] = Some(text_of_group(text, *row, index));
                continue;
            }
            let late = key.late.clone().map(|late| {
                late.renumbered(|column| grouped.keys.iter().position(|key| key.as_column() == Some(column)))
            });
            outputs[index] = Some(Value { expr: Expr::Column(index), late, ..key.clone() });
        }
        for (index, result) in grouped.results.iter().enumerate() {
            let column = grouped.keys.len() + index;
            if needed.contains(&column) {
                let field = schema.field(column);
                let (data_type, is_nullable) = (field.data_type(), field.is_nullable());
                outputs[column] = Some(match *result {
                    OfState::Whole(state) => whole(state, data_type, is_nullable)?,
                    OfState::Count(state) => or_zero(whole(state, data_type, true)?),
                    OfState::Average { count, unit } => average(count, unit),
                    OfState::Variance { .. } => {
                        return Err(Error::unsupported("variances are the host's, of few groups at the end"));
                    }
                });
            }
        }
        Ok(Flow { builder, outputs })
    }

    /// Ends a pipeline in the groups of `first`, the stage that reads rows.
    fn group_rows(&mut self, first: &AggregateExec, expected: Option<u64>) -> Result<Grouped> {
        let group_exprs = first.group_expr().expr();
        let arguments: Vec<_> =
            first.aggr_expr().iter().flat_map(|function| function.expressions()).collect();
        let filters = first.filter_expr().iter().flatten();
        let needed = columns_of(group_exprs.iter().map(|(expr, _)| expr).chain(&arguments).chain(filters));
        let mut flow = self.flow(first.input(), &needed)?;
        if first.group_expr().has_grouping_set() {
            let keys = keys_of_sets(first, &mut flow)?;
            return self.group_flow(flow, first, keys, expected);
        }
        let schema = first.input().schema();
        let hands_on = !first.aggr_expr().iter().any(|function| is_distinct(function));
        let values = group_exprs.iter().map(|(expr, _)| flow.exprs(&schema).carry(expr));
        let values = values.collect::<Result<Vec<Value>>>()?;
        let mut keys = Vec::with_capacity(values.len());
        for (value, (_, name)) in values.iter().zip(group_exprs) {
            let determining = value.late.as_ref().filter(|_| hands_on);
            if let Some(table) = determining.and_then(|late| determining_table(late, &values)) {
                self.unique_tables.push(table);
                keys.push(Key { name: name.clone(), value: value.clone(), text: None });
            } else {
                keys.push(Key::of(name, value.clone(), &mut flow, &schema)?);
            }
        }
        self.group_flow(flow, first, keys, expected)
    }

    /// Ends `flow` in groups by `keys`, with the functions of `first`.
    fn group_flow(
        &mut self,
        mut flow: Flow,
        first: &AggregateExec,
        keys: Vec<Key>,
        expected: Option<u64>,
    ) -> Result<Grouped> {
        if first.aggr_expr().iter().any(|function| is_distinct(function)) {
            return self.distinct_groups(flow, first, keys, expected);
        }
        let schema = first.input().schema();
        let functions = first.aggr_expr().iter().zip(first.filter_expr()).map(|(function, filter)| {
            let input = argument(function, filter.as_ref(), None, &mut flow, &schema)?;
            Function::of_rows(function, input.as_ref(), &flow.builder)
        });
        let functions = functions.collect::<Result<Vec<Function>>>()?;
        self.end_in_groups(flow.builder, keys, functions, expected)
    }

    /// Ends `builder` in groups by `keys` with the states of `functions`.
    ///
    /// # Errors
    ///
    /// `Unsupported` for keys that groups do not have.
    pub(super) fn end_in_groups(
        &mut self,
        builder: PipelineBuilder,
        keys: Vec<Key>,
        functions: Vec<Function>,
        expected: Option<u64>,
    ) -> Result<Grouped> {
        builder.check_kept(keys.iter().map(|key| &key.value))?;
        let mut results = Vec::with_capacity(functions.len());
        let mut state = keys.len();
        for function in &functions {
            results.push(match function.made {
                Made::Whole => OfState::Whole(state),
                Made::Count => OfState::Count(state),
                Made::Average { unit } => OfState::Average { count: state, unit },
                Made::Variance(variance) => OfState::Variance { count: state, variance },
            });
            state += function.states.len();
        }
        let rows = keys.iter().filter_map(|key| key.text.as_ref().map(|text| (&key.name, text)));
        let rows = rows.map(|(name, text)| State::least_row(name, &text.expr));
        let functions: Vec<Function> = functions.into_iter().chain(rows.map(Function::least_row)).collect();
        let purpose = if keys.is_empty() { "aggregate of" } else { "groups of" };
        let states = functions.iter().flat_map(|function| &function.states);
        let sink = Sink::Aggregate {
            keys: keys.iter().map(|key| key.value.expr.clone()).collect(),
            aggregates: states.map(|state| state.aggregate.clone()).collect(),
            expected,
        };
        let pipeline = self.finish(builder, purpose, sink);
        let mut grouped =
            Grouped { pipeline, names: Vec::new(), keys: Vec::new(), texts: Vec::new(), functions, results };
        for Key { name, value, text } in keys {
            grouped.names.push(name);
            grouped.keys.push(value);
            state += usize::from(text.is_some());
            grouped.texts.push(text.map(|text| (text, state - 1)));
        }
        Ok(grouped)
    }

    /// The groups as the source of a pipeline, whose columns are their keys, then their states.
    pub(super) fn source_of(&self, grouped: &Grouped) -> Result<PipelineBuilder> {
        let keys = grouped.keys.iter().zip(&grouped.names).map(|(key, name)| {
            let ty = if key.late.is_some() { Type::I64 } else { kernel_type(&key.data_type)? };
            Ok((name, ty, key.is_nullable))
        });
        let states = grouped.functions.iter().flat_map(|function| &function.states);
        let states = states.map(|state| Ok((&state.name, state.ty, state.is_nullable())));
        let columns = keys.chain(states).map(|column: Result<_>| {
            let (name, ty, is_nullable) = column?;
            Ok(Column { name: name.clone(), ty, is_nullable, bounds: None, text: None })
        });
        let columns = columns.collect::<Result<Vec<Column>>>()?;
        let states = grouped.functions.iter().flat_map(|function| &function.states);
        let views = states.enumerate().filter(|(_, state)| state.is_plain_text);
        let views = views.map(|(index, _)| grouped.keys.len() + index).collect();
        let name = format!("groups of pipeline {}", grouped.pipeline);
        let source = Source::Groups(grouped.pipeline);
        Ok(PipelineBuilder::new(source, columns, name, None, &self.parameters).with_views(views))
    }
}

/// What groups are made by.
pub(super) struct Key {
    pub(super) name: String,
    /// By what rows are in one group.
    pub(super) value: Value,
    /// The text that `value` is the hash of, as the number of its row.
    pub(super) text: Option<Value>,
}

impl Key {
    /// `value` as a key: by its hash where it is a text that is fetched at the end.
    pub(super) fn of(name: &str, value: Value, flow: &mut Flow, schema: &SchemaRef) -> Result<Self> {
        let name = name.to_owned();
        match &value.late {
            None => Ok(Self { name, value, text: None }),
            Some(late) => {
                let hash = flow.exprs(schema).hash_of_late(&value, late)?;
                Ok(Self { name, value: hash, text: Some(value) })
            }
        }
    }
}

/// `text` as the column of groups that has the number of its row, where column `hash` has its hash.
fn text_of_group(text: &Value, row: usize, hash: usize) -> Value {
    let late = text.late.clone().expect("a text that is fetched at the end");
    let late = LateText { hash: Some(Expr::Column(hash)), view: None, brought_by: Vec::new(), ..late };
    Value { expr: Expr::Column(row), late: Some(late), ..text.clone() }
}

/// The keys of grouping sets: of each set its own, NULL for the others, and the number that the plan gives the set.
fn keys_of_sets(first: &AggregateExec, flow: &mut Flow) -> Result<Vec<Key>> {
    let (group_by, schema) = (first.group_expr(), first.input().schema());
    let sets = group_by.groups();
    if group_by.expr().is_empty() {
        return Err(Error::unsupported("kernels have no grouping sets without any key"));
    }
    let turn = flow.builder.repeat(u32::try_from(sets.len()).expect("sets of a query"));
    let mut keys = Vec::with_capacity(group_by.expr().len() + 1);
    for (index, (expr, name)) in group_by.expr().iter().enumerate() {
        let value = flow.exprs(&schema).carry(expr)?;
        let Key { name, value, text } = Key::of(name, value, flow, &schema)?;
        let has_key = sets.iter().zip(0..).filter(|(lacks, _)| !lacks[index]).map(|(_, set)| set);
        let values: Vec<i128> = has_key.collect();
        let is_whole = values.len() == sets.len();
        let of_sets = Expr::In { input: Box::new(turn.clone()), values };
        let in_sets = |value| if is_whole { value } else { only_where(value, vec![of_sets.clone()]) };
        keys.push(Key { name, value: in_sets(value), text: text.map(in_sets) });
    }
    let field = first.schema().field(keys.len()).clone();
    let ty = kernel_type(field.data_type())?;
    let is_turn = |set: i32| Expr::Compare {
        op: CompareOp::Eq,
        left: Box::new(turn.clone()),
        right: Box::new(Expr::Literal(Constant::I32(set))),
    };
    let branches = numbers_of(sets).into_iter().zip(0..).map(|(number, set)| {
        let number = match ty {
            Type::I32 => Constant::I32(number as i32),
            _ => Constant::I64(number as i64),
        };
        (is_turn(set), Expr::Literal(number))
    });
    let mut branches: Vec<(Expr, Expr)> = branches.collect();
    let otherwise = branches.pop().map(|(_, number)| Box::new(number));
    let expr = match (branches.is_empty(), otherwise) {
        (true, Some(only)) => *only,
        (_, otherwise) => Expr::Case { branches, otherwise },
    };
    let data_type = field.data_type().clone();
    let value = Value { expr, data_type, is_nullable: false, bounds: None, late: None };
    keys.push(Key { name: field.name().clone(), value, text: None });
    Ok(keys)
}

/// DataFusion's number of each set: a bit for each key that it lacks, the first key's the highest; above these, how many
/// equal sets come before it.
fn numbers_of(sets: &[Vec<bool>]) -> Vec<u64> {
    let of_set = |(index, lacks): (usize, &Vec<bool>)| {
        let bits = lacks.iter().fold(0, |bits, lacks| bits << 1 | u64::from(*lacks));
        let before = sets[..index].iter().filter(|other| *other == lacks).count() as u64;
        bits | before << lacks.len()
    };
    sets.iter().enumerate().map(of_set).collect()
}

/// Whether one of the grouping sets has no key: then there is a group even of no rows.
fn has_total(first: &AggregateExec) -> bool {
    let group_by = first.group_expr();
    group_by.has_grouping_set() && group_by.groups().iter().any(|lacks| lacks.iter().all(|lacks| *lacks))
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
fn determining_table(late: &LateText, keys: &[Value]) -> Option<usize> {
    let is_key =
        |column: &usize| keys.iter().any(|key| key.late.is_none() && key.as_column() == Some(*column));
    let determines = |(_, looked_up): &&(usize, Vec<usize>)| looked_up.iter().all(is_key);
    late.brought_by.iter().find(determines).map(|(table, _)| *table)
}

/// A pipeline that ends in groups.
pub(super) struct Grouped {
    pub(super) pipeline: usize,
    /// Of the keys.
    names: Vec<String>,
    pub(super) keys: Vec<Value>,
    /// Of keys that are hashes: the text, and the column of groups with the number of its row. These are the last ones.
    pub(super) texts: Vec<Option<(Value, usize)>>,
    functions: Vec<Function>,
    /// How each function's result comes from the columns of groups: keys, then states.
    results: Vec<OfState>,
}

impl Grouped {
    /// What is fetched for key `key` in the end.
    fn late(&self, key: usize) -> Option<LateText> {
        let text = self.texts[key].as_ref().map(|(text, _)| text);
        text.unwrap_or(&self.keys[key]).late.clone()
    }

    /// Keys that are hashes, each with the column of groups that has the numbers of rows.
    fn rows_of_texts(&self) -> Vec<(usize, usize)> {
        let texts = self.texts.iter().enumerate();
        texts.filter_map(|(key, text)| text.as_ref().map(|(_, row)| (key, *row))).collect()
    }

    /// Function `number` of groups that are made of these.
    pub(super) fn of_groups(&self, number: usize) -> Function {
        let before = self.functions[..number].iter().map(|function| function.states.len());
        self.functions[number].of_groups(self.keys.len() + before.sum::<usize>())
    }
}

/// Whether the results of `top` take more than the sink makes: what is computed of sums, or the count of no rows.
pub(super) fn needs_more(top: &AggregateExec) -> bool {
    let is_computed =
        |function: &AggregateFunctionExpr| function.fun().name() == "avg" || is_variance(function);
    top.mode().output_mode() == AggregateOutputMode::Final
        && (top.aggr_expr().iter().any(|function| is_computed(function))
            || top.group_expr().is_empty() && top.aggr_expr().iter().any(|function| is_distinct(function)))
}

/// Column `state` of groups as a value of the plan's type, which a sum may leave.
fn whole(state: usize, data_type: &DataType, is_nullable: bool) -> Result<Value> {
    let state = Box::new(Expr::Column(state));
    let expr = match (kernel_type(data_type)?, type_bounds(data_type)) {
        (ty @ (Type::I32 | Type::I64 | Type::I128), Some(bounds)) => {
            Expr::Within { input: Box::new(Expr::Cast { input: state, to: ty }), bounds }
        }
        (Type::Bool, _) => {
            Expr::Compare { op: CompareOp::Ne, left: state, right: Box::new(Expr::Literal(Constant::I32(0))) }
        }
        _ => *state,
    };
    Ok(Value { expr, data_type: data_type.clone(), is_nullable, bounds: None, late: None })
}

/// `value`, a BIGINT, or 0 where it is NULL.
fn or_zero(value: Value) -> Value {
    let is_null = Expr::IsNull(Box::new(value.expr.clone()));
    let branches = vec![(is_null, Expr::Literal(Constant::I64(0)))];
    let expr = Expr::Case { branches, otherwise: Some(Box::new(value.expr)) };
    Value { expr, is_nullable: false, ..value }
}

/// The average of which column `state` has the count and the next one the sum: `sum / (count * unit)` as doubles, which
/// is how the CPU divides.
fn average(state: usize, unit: f64) -> Value {
    let double = |column| Box::new(Expr::Cast { input: Box::new(Expr::Column(column)), to: Type::F64 });
    let divisor = match unit {
        1.0 => double(state),
        unit => {
            let right = Box::new(Expr::Literal(Constant::F64(unit)));
            Box::new(Expr::Arithmetic { op: ArithmeticOp::Multiply, left: double(state), right })
        }
    };
    let expr = Expr::Arithmetic { op: ArithmeticOp::Divide, left: double(state + 1), right: divisor };
    Value { expr, data_type: DataType::Float64, is_nullable: true, bounds: None, late: None }
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

/// That what the sink keeps is what the plan takes for the states of `first`.
fn check_states(first: &AggregateExec) -> Result<()> {
    if first.group_expr().has_grouping_set() {
        return Err(Error::unsupported("the states of grouping sets, whose last stage is elsewhere"));
    }
    let is_other = |function: &&Arc<AggregateFunctionExpr>| is_distinct(function) || is_variance(function);
    match first.aggr_expr().iter().find(is_other) {
        Some(function) => {
            Err(Error::unsupported(format!("{}: its states, whose last stage is elsewhere", function.name())))
        }
        None => Ok(()),
    }
}
