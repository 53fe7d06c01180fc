//! Aggregates as parts that are put together again: what each level keeps of a group.
//!
//! ```text
//!   call       of rows               of parts      result
//!   sum(x)     sum(x)                sum           it
//!   count(x)   count(x)              sum           it; 0 of no groups
//!   avg(x)     sum(x), count(x)      sum, sum      exact_average(sum, count), or sum / count of floats
//!   min(x) …   min(x)                min           it
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, BinaryExpr, Expr, ExprSchemable, Operator, cast, lit, when,
};

use super::average::exact_average;
use super::column;
use crate::numbers;
use crate::spilling::Count;

/// Functions that put their own results together.
const OF_THEMSELVES: [&str; 7] = ["min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"];

/// One column of a level.
#[derive(Debug, PartialEq)]
struct Part {
    of_rows: Expr,
    /// The function of parts.
    merge: Merge,
    data_type: DataType,
}

#[derive(Debug, Clone, PartialEq)]
enum Merge {
    /// `sum`.
    Sum,
    /// `sum`, 0 where there is nothing.
    Count,
    /// This one.
    Itself(Arc<AggregateUDF>),
}

/// All columns of a level but its keys.
pub(super) struct Parts {
    parts: Vec<Part>,
    results: Vec<Expr>,
}

impl Parts {
    /// Those of the calls of `aggregate`; `None` where one cannot be put together from parts.
    pub(super) fn of(aggregate: &Aggregate) -> Result<Option<Self>> {
        let mut all = Self { parts: Vec::new(), results: Vec::new() };
        for call in &aggregate.aggr_expr {
            let Some(result) = all.result_of(call, aggregate.input.schema())? else { return Ok(None) };
            all.results.push(result);
        }
        Ok(Some(all))
    }

    fn result_of(&mut self, expr: &Expr, input: &DFSchema) -> Result<Option<Expr>> {
        let call = match expr {
            Expr::Alias(alias) => return self.result_of(&alias.expr, input),
            Expr::AggregateFunction(call) => call,
            _ => return Ok(None),
        };
        let params = &call.params;
        let is_plain = !params.distinct
            && params.order_by.is_empty()
            && params.null_treatment.is_none()
            && params.args.len() == 1
            && !expr.is_volatile();
        if !is_plain {
            return Ok(None);
        }
        let result_type = expr.get_type(input)?;
        let is_summed = |data_type: &DataType| {
            matches!(data_type, DataType::Int64 | DataType::Decimal128(..) | DataType::Float64)
        };
        Ok(match call.func.name() {
            "sum" if numbers::is_sum(&call.func) && is_summed(&result_type) => {
                Some(self.part(expr.clone(), Merge::Sum, result_type))
            }
            "count" if result_type == DataType::Int64 => {
                Some(self.part(expr.clone(), Merge::Count, result_type))
            }
            "avg" if numbers::is_avg(&call.func) && result_type == DataType::Float64 => {
                let of = params.args[0].get_type(input)?;
                let total = with_function(call, numbers::sum());
                let total_type = total.get_type(input)?;
                if !is_summed(&total_type) {
                    return Ok(None);
                }
                let total = self.part(total, Merge::Sum, total_type);
                let count = with_function(call, Arc::new(AggregateUDF::from(Count::new())));
                let count = self.part(count, Merge::Count, DataType::Int64);
                Some(match numbers::is_exact(&of) {
                    true => exact_average(total, count),
                    false => divided(total, cast(count, DataType::Float64)),
                })
            }
            name if OF_THEMSELVES.contains(&name) => {
                Some(self.part(expr.clone(), Merge::Itself(Arc::clone(&call.func)), result_type))
            }
            _ => None,
        })
    }

    /// The column that has `of_rows`, of this type.
    fn part(&mut self, of_rows: Expr, merge: Merge, data_type: DataType) -> Expr {
        let part = Part { of_rows, merge, data_type };
        let known = self.parts.iter().position(|known| *known == part);
        let number = known.unwrap_or_else(|| {
            self.parts.push(part);
            self.parts.len() - 1
        });
        column(&name(number))
    }

    /// The calls that make parts of rows.
    pub(super) fn of_rows(&self) -> Vec<Expr> {
        let parts = self.parts.iter().enumerate();
        parts.map(|(number, part)| part.of_rows.clone().alias(name(number))).collect()
    }

    /// The calls that make parts of parts.
    pub(super) fn of_parts(&self) -> Vec<Expr> {
        let parts = self.parts.iter().enumerate();
        let calls = parts.map(|(number, part)| {
            let function = match &part.merge {
                Merge::Sum | Merge::Count => numbers::sum(),
                Merge::Itself(function) => Arc::clone(function),
            };
            function.call(vec![column(&name(number))]).alias(name(number))
        });
        calls.collect()
    }

    /// Parts that were made of parts, in `schema`, as parts that were made of rows are; `None` where they are. `is_of_all`: of all
    /// groups, of which there may be none.
    pub(super) fn narrowed(&self, schema: &DFSchema, is_of_all: bool) -> Result<Option<Vec<Expr>>> {
        let (mut is_changed, mut exprs) = (false, Vec::new());
        for (number, part) in self.parts.iter().enumerate() {
            let mut expr = column(&name(number));
            if expr.get_type(schema)? != part.data_type {
                expr = cast(expr, part.data_type.clone());
                is_changed = true;
            }
            if is_of_all && part.merge == Merge::Count {
                expr = when(expr.clone().is_null(), lit(0_i64)).otherwise(expr)?;
                is_changed = true;
            }
            exprs.push(expr.alias(name(number)));
        }
        Ok(is_changed.then_some(exprs))
    }

    /// The results of the calls, from parts.
    pub(super) fn results(&self) -> impl Iterator<Item = Expr> + '_ {
        self.results.iter().cloned()
    }
}

/// `call` of another function.
fn with_function(call: &AggregateFunction, function: Arc<AggregateUDF>) -> Expr {
    Expr::AggregateFunction(AggregateFunction { func: function, params: call.params.clone() })
}

fn divided(dividend: Expr, divisor: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(dividend), Operator::Divide, Box::new(divisor)))
}

fn name(number: usize) -> String {
    format!("part {number}")
}
