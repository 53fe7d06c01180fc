//! The rule that puts `float_key` around operands; the places are those of `mod.rs`.
//!
//! It runs after types are coerced, so both sides of a comparison are floats or neither is, and before plans are
//! rewritten into joins and aggregates, so each place still looks as it was written.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ExprSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Case, InList, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr, lit,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use super::extreme::extreme;
use super::function::{float_key, is_float};
use super::origin::floats_of;

/// Makes floats comparable by their bits.
#[derive(Debug)]
pub(crate) struct FloatKeyRule;

impl AnalyzerRule for FloatKeyRule {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(with_keys)?.data)
    }

    fn name(&self) -> &str {
        "pelton_float_keys"
    }
}

/// Rows that an expression is about.
struct Place<'a> {
    schema: &'a DFSchema,
    inputs: &'a [&'a LogicalPlan],
}

/// What compares the values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Bits: two zeros and several NaNs are to be made one.
    Bits,
    /// DataFusion's comparison: the zeros are one already.
    Value,
}

fn with_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_floats(&plan) {
        return Ok(Transformed::no(plan));
    }
    let inputs: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
    let schema = if inputs.is_empty() { DFSchema::clone(plan.schema()) } else { merge_schema(&inputs) };
    let place = Place { schema: &schema, inputs: &inputs };
    let is_key = match &plan {
        LogicalPlan::Aggregate(aggregate) => Some((aggregate.group_expr.len(), By::Value)),
        LogicalPlan::Join(join) => Some((2 * join.on.len(), By::Bits)),
        LogicalPlan::Sort(sort) => Some((sort.expr.len(), By::Bits)),
        _ => None,
    };
    let names = NamePreserver::new(&plan);
    let mut number = 0;
    let rewritten = plan.map_expressions(|expr| {
        number += 1;
        let key = is_key.filter(|(count, _)| number <= *count).map(|(_, by)| by);
        let mut rewrite = |expr: Expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| place.with_keys(expr))?;
            let expr = match key {
                Some(by) => expr.transform_data(|expr| Ok(place.keyed(expr, by)))?,
                None => expr,
            };
            Ok(expr.update_data(|expr| name.restore(expr)))
        };
        match expr {
            Expr::GroupingSet(_) => expr.map_children(&mut rewrite),
            other => rewrite(other),
        }
    })?;
    rewritten.transform_data(|plan| match plan {
        LogicalPlan::Distinct(Distinct::All(input)) => distinct_of_keys(input),
        other => Ok(Transformed::no(other)),
    })
}

/// Whether the rows of `plan` or of its inputs, or its expressions, may hold floats or nested values; cheap to tell and mostly
/// false.
fn has_floats(plan: &LogicalPlan) -> bool {
    let is_any = |data_type: &DataType| is_float(data_type) || data_type.is_nested();
    let of_rows = |plan: &LogicalPlan| plan.schema().fields().iter().any(|field| is_any(field.data_type()));
    let of_expr = |expr: &Expr| {
        expr.exists(|expr| {
            Ok(match expr {
                Expr::Literal(value, _) => is_float(&value.data_type()),
                Expr::Cast(cast) => is_float(cast.field.data_type()),
                Expr::TryCast(cast) => is_float(cast.field.data_type()),
                Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::OuterReferenceColumn(..) => true,
                _ => false,
            })
        })
        .unwrap_or(true)
    };
    of_rows(plan) || plan.inputs().into_iter().any(of_rows) || plan.expressions().iter().any(of_expr)
}

/// DISTINCT of rows whose floats are keys.
fn distinct_of_keys(input: Arc<LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    let keyed = keys_of_rows(&input, By::Value)?;
    let changed = keyed.is_some();
    let input = keyed.map_or(input, Arc::new);
    Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::All(input)), changed))
}

/// `plan` with keys in place of its floats, under the same names; `None` where they are keys as they are.
fn keys_of_rows(plan: &Arc<LogicalPlan>, by: By) -> Result<Option<LogicalPlan>> {
    let schema = plan.schema();
    let place = Place { schema, inputs: &[plan.as_ref()] };
    let mut changed = false;
    let columns: Vec<Expr> = schema
        .columns()
        .into_iter()
        .map(|column| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let keyed = place.keyed(Expr::Column(column), by);
            changed |= keyed.transformed;
            if keyed.transformed { keyed.data.alias_qualified(relation, name) } else { keyed.data }
        })
        .collect();
    if !changed {
        return Ok(None);
    }
    Ok(Some(LogicalPlanBuilder::new_from_arc(Arc::clone(plan)).project(columns)?.build()?))
}

impl Place<'_> {
    fn is_nested(&self, expr: &Expr) -> bool {
        expr.get_type(self.schema as &dyn ExprSchema).is_ok_and(|data_type| data_type.is_nested())
    }

    fn is_float(&self, expr: &Expr) -> bool {
        expr.get_type(self.schema as &dyn ExprSchema).is_ok_and(|data_type| is_float(&data_type))
    }

    /// `expr`, as a key if it is a float that is none for sure.
    fn keyed(&self, expr: Expr, by: By) -> Transformed<Expr> {
        if !self.is_float(&expr) {
            return Transformed::no(expr);
        }
        let floats = floats_of(&expr, self.inputs);
        match floats.nan || by == By::Bits && floats.zero {
            true => Transformed::yes(float_key(expr)),
            false => Transformed::no(expr),
        }
    }

    fn key(&self, expr: Expr, by: By) -> Expr {
        self.keyed(expr, by).data
    }

    /// `expr` with keys where it compares floats itself.
    fn with_keys(&self, expr: Expr) -> Result<Transformed<Expr>> {
        Ok(Transformed::yes(match expr {
            Expr::BinaryExpr(binary) if is_comparison(binary.op) => self.comparison(binary),
            Expr::Between(mut between) if self.is_float(&between.expr) => {
                between.expr = Box::new(self.key(*between.expr, By::Value));
                between.low = Box::new(self.key(*between.low, By::Value));
                between.high = Box::new(self.key(*between.high, By::Value));
                Expr::Between(between)
            }
            Expr::InList(list) if self.is_float(&list.expr) => {
                let items = list.list.into_iter().map(|item| self.key(item, By::Bits));
                let items = items.collect();
                Expr::InList(InList { expr: Box::new(self.key(*list.expr, By::Bits)), list: items, ..list })
            }
            Expr::InSubquery(mut query) if self.is_float(&query.expr) => {
                if let Some(keyed) = keys_of_rows(&query.subquery.subquery, By::Bits)? {
                    query.subquery.subquery = Arc::new(keyed);
                }
                Expr::InSubquery(InSubquery { expr: Box::new(self.key(*query.expr, By::Bits)), ..query })
            }
            Expr::Case(Case { expr: Some(value), when_then_expr, else_expr }) if self.is_float(&value) => {
                let whens = when_then_expr.into_iter();
                let whens = whens.map(|(when, then)| (Box::new(self.key(*when, By::Bits)), then)).collect();
                Expr::Case(Case::new(Some(Box::new(self.key(*value, By::Bits))), whens, else_expr))
            }
            Expr::ScalarFunction(call)
                if call.name() == "nullif"
                    && call.args.iter().any(|arg| self.is_float(arg))
                    && !call.args[0].is_volatile() =>
            {
                self.null_if(call.args)
            }
            Expr::ScalarFunction(mut call) if matches!(call.name(), "greatest" | "least") => {
                call.args = call.args.into_iter().map(|arg| self.key(arg, By::Value)).collect();
                Expr::ScalarFunction(call)
            }
            Expr::AggregateFunction(mut call) => {
                let is_counted = call.params.distinct || counts(call.func.name());
                let by = if is_counted { By::Bits } else { By::Value };
                if is_counted || orders(call.func.name()) {
                    call.params.args = call.params.args.into_iter().map(|arg| self.key(arg, by)).collect();
                }
                if let [arg] = call.params.args.as_slice()
                    && (self.is_float(arg) || self.is_nested(arg))
                    && let Some(extreme) = extreme(call.func.name())
                {
                    call.func = extreme;
                }
                call.params.order_by = self.sorted(call.params.order_by);
                Expr::AggregateFunction(call)
            }
            Expr::WindowFunction(mut call) => {
                let params = &mut call.params;
                let keys = std::mem::take(&mut params.partition_by).into_iter();
                params.partition_by = keys.map(|key| self.key(key, By::Bits)).collect();
                params.order_by = self.sorted(std::mem::take(&mut params.order_by));
                if params.distinct || counts(call.fun.name()) || orders(call.fun.name()) {
                    let args = std::mem::take(&mut params.args).into_iter();
                    params.args = args.map(|arg| self.key(arg, By::Bits)).collect();
                }
                Expr::WindowFunction(call)
            }
            other => return Ok(Transformed::no(other)),
        }))
    }

    fn comparison(&self, binary: BinaryExpr) -> Expr {
        let BinaryExpr { left, op, right } = binary;
        if !self.is_float(&left) && !self.is_float(&right) {
            return Expr::BinaryExpr(BinaryExpr { left, op, right });
        }
        // Two sides that are equal may become keys of a join, whose runtime filters compare bits.
        let is_constant = |expr: &Expr| matches!(expr, Expr::Literal(..));
        let may_join = matches!(op, Operator::Eq | Operator::IsNotDistinctFrom)
            && !is_constant(&left)
            && !is_constant(&right);
        let by = if may_join { By::Bits } else { By::Value };
        let (left, right) = (Box::new(self.key(*left, by)), Box::new(self.key(*right, by)));
        Expr::BinaryExpr(BinaryExpr { left, op, right })
    }

    /// `nullif(a, b)` as the CASE that the SQL standard defines it by.
    fn null_if(&self, mut args: Vec<Expr>) -> Expr {
        let (b, a) = (args.pop().expect("nullif takes two"), args.pop().expect("nullif takes two"));
        let null = a
            .get_type(self.schema as &dyn ExprSchema)
            .and_then(|data_type| ScalarValue::try_new_null(&data_type));
        let null = null.unwrap_or(ScalarValue::Null);
        let equal =
            self.comparison(BinaryExpr { left: Box::new(a.clone()), op: Operator::Eq, right: Box::new(b) });
        Expr::Case(Case::new(None, vec![(Box::new(equal), Box::new(lit(null)))], Some(Box::new(a))))
    }

    fn sorted(&self, keys: Vec<SortExpr>) -> Vec<SortExpr> {
        keys.into_iter().map(|key| SortExpr { expr: self.key(key.expr, By::Bits), ..key }).collect()
    }
}

/// Whether the aggregate `name` is about the order of its values.
fn orders(name: &str) -> bool {
    matches!(name, "min" | "max" | "median" | "percentile_cont" | "percentile_disc")
}

/// Whether the aggregate `name` is about how often a value comes.
fn counts(name: &str) -> bool {
    name == "mode"
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
