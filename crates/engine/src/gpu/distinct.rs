//! DISTINCT in aggregates: groups by the keys and the arguments that are to be distinct, which are the source of the
//! groups by the keys alone.
//!
//! ```text
//!   SELECT k, count(DISTINCT a), sum(b) … GROUP BY k
//!     pipeline 0   rows ─► groups by k, a: sum(b)
//!     pipeline 1   groups of pipeline 0 ─► groups by k: count(a), sum(sum(b))
//!
//!   SELECT k, count(DISTINCT a), sum(DISTINCT b), count(*) … GROUP BY k
//!     pipeline 0   rows ─► twice ─► groups by k, a in the first turn, b in the second: count(*) in the first
//!     pipeline 1   groups of pipeline 0 ─► groups by k: count(a), sum(b), sum(count(*))
//! ```
//!
//! In a turn of another argument, and where a FILTER does not hold, an argument is NULL, which no function counts.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use pelton_error::Result;
use pelton_pipeline::ir::{CompareOp, Expr, Literal};

use super::aggregate::{Grouped, Key};
use super::builder::Flow;
use super::functions::{Function, argument, is_distinct};
use super::lower::Lowering;
use super::value::Value;

/// An argument that is to be distinct, where this holds.
type Distinct = (Vec<Arc<dyn PhysicalExpr>>, Option<Arc<dyn PhysicalExpr>>);

/// Where the states of a function are among the groups by keys and arguments.
enum Place {
    /// The values that are distinct are this one among the arguments.
    Distinct(usize),
    /// The function is this one among those over all rows.
    Plain(usize),
}

impl Lowering<'_> {
    /// Ends `flow` in groups by `keys`, with the functions of `first`, some of them of distinct values.
    ///
    /// # Errors
    ///
    /// `Unsupported` for functions that kernels do not have.
    pub(super) fn distinct_groups(
        &mut self,
        mut flow: Flow,
        first: &AggregateExec,
        keys: Vec<Key>,
        expected: Option<u64>,
    ) -> Result<Grouped> {
        let schema = first.input().schema();
        let arguments = arguments_of(first);
        let turns = (arguments.len() > 1).then(|| flow.builder.repeat(arguments.len() as u32));
        let (mut of_arguments, mut plain, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (function, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
            let of_function = (function.expressions(), filter.clone());
            let number = arguments.iter().position(|other| *other == of_function);
            let number = number.filter(|_| is_distinct(function));
            let turn = turns.as_ref().map(|turns| is_turn(turns, number.unwrap_or(0)));
            let input = argument(function, filter.as_ref(), turn, &mut flow, &schema)?;
            places.push(match (number, input) {
                (Some(number), Some(input)) => {
                    if number == of_arguments.len() {
                        let name = format!("value of {}", function.name());
                        of_arguments.push(Key { name, value: input, text: None });
                    }
                    Place::Distinct(number)
                }
                (_, input) => {
                    plain.push(Function::of_rows(function, input.as_ref(), &flow.builder)?);
                    Place::Plain(plain.len() - 1)
                }
            });
        }
        let key_count = keys.len();
        let keys: Vec<Key> = keys.into_iter().chain(of_arguments).collect();
        let values: Vec<Value> = keys.iter().map(|key| key.value.clone()).collect();
        let groups_expected = if turns.is_some() { None } else { flow.builder.distinct_keys(&values) };
        let names: Vec<String> = keys.iter().take(key_count).map(|key| key.name.clone()).collect();
        let grouped = self.end_in_groups(flow.builder, keys, plain, groups_expected)?;
        let column = |index: usize| {
            let key: &Value = &grouped.keys[index];
            Value { bounds: key.bounds, ..Value::column(index, key.data_type.clone(), key.is_nullable) }
        };
        let functions = first.aggr_expr().iter().zip(places).map(|(function, place)| match place {
            Place::Distinct(number) => Function::of(function, Some(&column(key_count + number))),
            Place::Plain(number) => Ok(grouped.of_groups(number)),
        });
        let functions = functions.collect::<Result<Vec<Function>>>()?;
        let keys = names.into_iter().zip(0..).map(|(name, key): (String, usize)| {
            let text = grouped.texts[key].as_ref();
            let text = text.map(|(text, row)| Value { expr: Expr::Column(*row), ..text.clone() });
            Key { name, value: column(key), text }
        });
        let keys = keys.collect();
        let builder = self.source_of(&grouped)?;
        self.end_in_groups(builder, keys, functions, expected)
    }
}

/// The arguments of `first` that are to be distinct, each once, in the order in which functions name them.
fn arguments_of(first: &AggregateExec) -> Vec<Distinct> {
    let mut arguments: Vec<Distinct> = Vec::new();
    for (function, filter) in first.aggr_expr().iter().zip(first.filter_expr()) {
        let argument = (function.expressions(), filter.clone());
        if is_distinct(function) && !arguments.contains(&argument) {
            arguments.push(argument);
        }
    }
    arguments
}

fn is_turn(turns: &Expr, number: usize) -> Expr {
    let number = Expr::Literal(Literal::I32(number as i32));
    Expr::Compare { op: CompareOp::Eq, left: Box::new(turns.clone()), right: Box::new(number) }
}
