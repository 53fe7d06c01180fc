//! DataFusion's expressions as kernels compute them.
//!
//! ```text
//!   column, constant            as they are
//!   one text column alone       a function of its dictionary's entries      text.rs
//!   AND OR NOT, comparisons     of two values brought to one type           arithmetic.rs
//!   + - * / %, abs, casts       as Arrow computes them, to the bit          arithmetic.rs
//!   dates, timestamps, intervals    as Arrow computes them                  dates.rs
//!   IN, CASE, IS NULL
//!   everything else             refused by name: it stays on the CPU
//! ```
//!
//! What is refused is an error of kind `Unsupported` whose message EXPLAIN shows.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::functions::math::abs::AbsFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NegativeExpr,
    NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ColumnarValue;
use datafusion::scalar::ScalarValue;
use pelton_error::{Error, Result};
use pelton_pipeline::ir::{ArithmeticOp, CompareOp, Expr, TextFunction, Type};

use super::arithmetic;
use super::builder::{PipelineBuilder, output};
use super::dates;
use super::text::{EntryFunction, is_deterministic, text_input};
use super::text_kernel::extract_of;
use super::value::{LateText, Value, integer, is_text, kernel_type, literal};
use crate::error::from_datafusion;
use crate::floats::NAME as FLOAT_KEY;
use crate::numbers::{Checked, CheckedOp, NEAREST_DOUBLE};
use crate::orders::AS_IS;

/// Lowers expressions over the columns of one plan node into one pipeline.
pub(super) struct Exprs<'a> {
    /// Where functions of computed texts put their inputs.
    pub(super) builder: &'a mut PipelineBuilder,
    /// The columns that expressions name.
    pub(super) inputs: &'a [Option<Value>],
    /// Their types.
    pub(super) schema: &'a Schema,
}

impl Exprs<'_> {
    /// How `expr` is computed.
    ///
    /// # Errors
    ///
    /// `Unsupported` where kernels cannot.
    pub(super) fn lower(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Value> {
        let value = self.carry(expr)?;
        match &value.late {
            None => Ok(value),
            Some(late) => {
                self.builder.parameters.ask(late);
                Err(Error::unsupported(format!(
                    "text '{}' of '{}' has no dictionary, and more is asked of it than to be handed on",
                    late.table.schema().columns[late.column].name,
                    late.table.name()
                )))
            }
        }
    }

    /// As [`lower`](Self::lower); of a text without a dictionary the column that has its bytes.
    ///
    /// # Errors
    ///
    /// Likewise, also where its bytes are not there.
    pub(super) fn lower_text(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Value> {
        let value = self.carry(expr)?;
        match value.late.as_ref().and_then(|late| late.view) {
            Some(view) => Ok(Value { expr: Expr::Column(view), late: None, ..value }),
            None => self.lower(expr),
        }
    }

    /// As [`lower`](Self::lower), of what is only asked whether it is NULL.
    fn for_null_test(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr> {
        let value = self.carry(expr)?;
        match value.late.as_ref().and_then(LateText::null_test) {
            Some(tested) => Ok(tested),
            None => self.lower(expr).map(|value| value.expr),
        }
    }

    /// As [`lower`](Self::lower), of what is only handed on: a column may be a text that is fetched at the end.
    ///
    /// # Errors
    ///
    /// Likewise.
    pub(super) fn carry(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Value> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return output(self.inputs, column.index()).cloned();
        }
        if let Some(constant) = expr.downcast_ref::<Literal>() {
            return literal(constant.value());
        }
        if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>()
            && let (AS_IS, [input, ..]) = (function.fun().name(), function.args())
        {
            return self.carry(input);
        }
        if let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() {
            return self.parameter(expr, subquery);
        }
        if let Some(constant) = constant_value(expr) {
            return literal(&constant);
        }
        if let Some(column) = text_input(expr, self.schema) {
            let of_text = EntryFunction::try_new(expr, self.schema, column)
                .and_then(|function| self.of_text(function, column));
            // What is not NULL for NULL, such as CASE or IS NULL, is looked at piece by piece, and so is what kernels do
            // not compute as a whole.
            return of_text.or_else(|error| self.structure(expr).map_err(|_| error));
        }
        self.structure(expr)
    }

    /// As [`lower`](Self::lower), of a condition.
    ///
    /// # Errors
    ///
    /// Likewise.
    pub(super) fn condition(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr> {
        let value = self.lower(expr)?;
        if value.data_type != DataType::Boolean {
            return Err(Error::unsupported(format!("{expr} is no condition")));
        }
        Ok(value.expr)
    }

    /// The value of a scalar subquery, which has run when the pipelines do.
    fn parameter(&mut self, expr: &Arc<dyn PhysicalExpr>, subquery: &ScalarSubqueryExpr) -> Result<Value> {
        let field = subquery.return_field(self.schema).map_err(from_datafusion)?;
        let data_type = field.data_type().clone();
        let ty = kernel_type(&data_type)?;
        if ty == Type::Text {
            return Err(Error::unsupported("a scalar subquery of text"));
        }
        let number = self.builder.parameters.number(expr);
        Ok(Value {
            expr: Expr::Parameter { number, ty },
            data_type,
            is_nullable: true,
            bounds: None,
            late: None,
        })
    }

    fn of_text(&mut self, function: EntryFunction, column: usize) -> Result<Value> {
        let input = output(self.inputs, column)?.clone();
        let name = self.schema.field(column).name();
        let column = match &input.late {
            // Of bytes without a function that kernels have nothing is computed.
            None if self.builder.is_view(&input.expr) && function.kernel().is_none() => None,
            None => self.builder.as_column(name, input.clone()).as_column(),
            Some(late) => {
                self.builder.parameters.ask(late);
                late.view.filter(|_| function.kernel().is_some())
            }
        };
        let Some(column) = column else {
            return Err(Error::unsupported(format!("{} of a text without a dictionary", function.name())));
        };
        let data_type = function.data_type().clone();
        let function: Arc<dyn TextFunction> = Arc::new(function);
        let is_nullable = input.is_nullable || function.is_nullable();
        Ok(Value {
            expr: Expr::OfText { column, function },
            data_type,
            is_nullable,
            bounds: None,
            late: None,
        })
    }

    fn structure(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Value> {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(expr, binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let input = self.lower(not.arg())?;
            return Ok(boolean(Expr::Not(Box::new(input.expr)), input.is_nullable));
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            return Ok(boolean(Expr::IsNull(Box::new(self.for_null_test(test.arg())?)), false));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            let is_null = Expr::IsNull(Box::new(self.for_null_test(test.arg())?));
            return Ok(boolean(Expr::Not(Box::new(is_null)), false));
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(expr, case);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let input = self.lower(cast.expr())?;
            return arithmetic::cast(input, cast.cast_type());
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            let input = self.lower(cast.expr())?;
            return arithmetic::try_cast(input, cast.cast_type());
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let input = self.lower(negative.arg())?;
            return arithmetic::negate(input);
        }
        if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.function(expr, function);
        }
        Err(Error::unsupported(format!("kernels do not compute {expr}")))
    }

    fn binary(&mut self, expr: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr) -> Result<Value> {
        if matches!(binary.op(), Operator::And | Operator::Or) {
            return self.connective(*binary.op(), expr);
        }
        if self.is_of_two_texts(binary)? {
            let op = arithmetic::compare_op(*binary.op());
            return self.of_two_texts(expr, op, [binary.left(), binary.right()]);
        }
        let left = self.lower(binary.left())?;
        if let (Some(sign), Some(interval)) = (sign(*binary.op()), interval(binary.right())) {
            return dates::plus_interval(left, &interval, sign);
        }
        let right = self.lower(binary.right())?;
        if let Some(op) = arithmetic::compare_op(*binary.op()) {
            let is_nullable = left.is_nullable || right.is_nullable;
            let (left, right) = arithmetic::to_one_type(left, right)?;
            let (left, right) = (Box::new(left.expr), Box::new(right.expr));
            return Ok(boolean(Expr::Compare { op, left, right }, is_nullable));
        }
        let Some(op) = arithmetic::arithmetic_op(*binary.op()) else {
            return Err(Error::unsupported(format!("kernels have no operator {}", binary.op())));
        };
        let data_type = expr.data_type(self.schema).map_err(from_datafusion)?;
        if op == ArithmeticOp::Subtract && matches!(data_type, DataType::Duration(_)) {
            return dates::difference(left, right, &data_type);
        }
        arithmetic::arithmetic(op, left, right, &data_type)
    }

    fn is_of_two_texts(&self, binary: &BinaryExpr) -> Result<bool> {
        let is_text_here = |side: &Arc<dyn PhysicalExpr>| -> Result<bool> {
            Ok(is_text(&side.data_type(self.schema).map_err(from_datafusion)?))
        };
        Ok(is_text_here(binary.left())? && is_text_here(binary.right())?)
    }

    /// AND and OR, with what hangs from them by the same operator beside each other.
    fn connective(&mut self, op: Operator, expr: &Arc<dyn PhysicalExpr>) -> Result<Value> {
        let mut parts = Vec::new();
        flatten(op, expr, &mut parts);
        let parts = parts.into_iter().map(|part| self.lower(part)).collect::<Result<Vec<Value>>>()?;
        let is_nullable = parts.iter().any(|part| part.is_nullable);
        let parts = parts.into_iter().map(|part| part.expr).collect();
        let connected = if op == Operator::And { Expr::And(parts) } else { Expr::Or(parts) };
        Ok(boolean(connected, is_nullable))
    }

    fn in_list(&mut self, list: &InListExpr) -> Result<Value> {
        let input = self.lower(list.expr())?;
        let among = match kernel_type(&input.data_type)? {
            Type::I32 | Type::I64 | Type::I128 => in_integers(input.clone(), list)?,
            Type::F64 => return self.in_doubles(input, list),
            _ => return Err(Error::unsupported(format!("IN over {}", input.data_type))),
        };
        let among = if list.negated() { Expr::Not(Box::new(among)) } else { among };
        Ok(boolean(among, input.is_nullable))
    }

    /// Each compared, as `=` compares doubles: a list may hold NULL.
    fn in_doubles(&mut self, input: Value, list: &InListExpr) -> Result<Value> {
        let mut is_nullable = input.is_nullable;
        let equal = list.list().iter().map(|value| {
            let value = self.lower(value)?;
            is_nullable |= value.is_nullable;
            let (left, right) = arithmetic::to_one_type(input.clone(), value)?;
            let (left, right) = (Box::new(left.expr), Box::new(right.expr));
            Ok(Expr::Compare { op: CompareOp::Eq, left, right })
        });
        let among = Expr::Or(equal.collect::<Result<_>>()?);
        let among = if list.negated() { Expr::Not(Box::new(among)) } else { among };
        Ok(boolean(among, is_nullable))
    }

    /// The condition of a branch.
    pub(super) fn when(&mut self, case: &CaseExpr, when: &Arc<dyn PhysicalExpr>) -> Result<Expr> {
        match case.expr() {
            Some(subject) => {
                let is_equal = BinaryExpr::new(Arc::clone(subject), Operator::Eq, Arc::clone(when));
                let is_equal: Arc<dyn PhysicalExpr> = Arc::new(is_equal);
                self.condition(&is_equal)
            }
            None => self.condition(when),
        }
    }

    fn case(&mut self, expr: &Arc<dyn PhysicalExpr>, case: &CaseExpr) -> Result<Value> {
        let data_type = expr.data_type(self.schema).map_err(from_datafusion)?;
        if is_text(&data_type) {
            return self.case_of_texts(expr, case, data_type);
        }
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        let mut is_nullable = case.else_expr().is_none();
        for (when, then) in case.when_then_expr() {
            let condition = self.when(case, when)?;
            let then = arithmetic::cast(self.lower(then)?, &data_type)?;
            is_nullable |= then.is_nullable;
            branches.push((condition, then.expr));
        }
        let otherwise = match case.else_expr() {
            Some(value) => {
                let value = arithmetic::cast(self.lower(value)?, &data_type)?;
                is_nullable |= value.is_nullable;
                Some(Box::new(value.expr))
            }
            None => None,
        };
        Ok(Value {
            expr: Expr::Case { branches, otherwise },
            data_type,
            is_nullable,
            bounds: None,
            late: None,
        })
    }

    /// Kernels check what they compute wherever bounds do not rule an overflow out.
    fn checked(&mut self, checked: &Checked, args: &[Arc<dyn PhysicalExpr>]) -> Result<Value> {
        let op = match checked.op() {
            CheckedOp::Add => ArithmeticOp::Add,
            CheckedOp::Subtract => ArithmeticOp::Subtract,
            CheckedOp::Multiply => ArithmeticOp::Multiply,
            CheckedOp::Divide => ArithmeticOp::Divide,
            CheckedOp::Negate => return arithmetic::negate(self.lower(&args[0])?),
        };
        let (left, right) = (self.lower(&args[0])?, self.lower(&args[1])?);
        match op {
            ArithmeticOp::Divide => arithmetic::quotient(left, right),
            _ => arithmetic::arithmetic(op, left, right, checked.data_type()),
        }
    }

    fn function(&mut self, expr: &Arc<dyn PhysicalExpr>, function: &ScalarFunctionExpr) -> Result<Value> {
        let refused = || Error::unsupported(format!("kernels do not compute {expr}"));
        if function.fun().name() == AS_IS {
            let [input, ..] = function.args() else { return Err(refused()) };
            return self.lower(input);
        }
        if function.fun().name() == FLOAT_KEY {
            let [input] = function.args() else { return Err(refused()) };
            return arithmetic::float_key(self.lower(input)?);
        }
        if function.fun().name() == NEAREST_DOUBLE {
            let [input] = function.args() else { return Err(refused()) };
            return arithmetic::nearest_double(self.lower(input)?);
        }
        if function.fun().inner().is::<AbsFunc>() {
            let [input] = function.args() else { return Err(refused()) };
            return arithmetic::absolute(self.lower(input)?);
        }
        if let Some(extract) = extract_of(function) {
            return self.extracted(expr, &function.args()[0], extract);
        }
        if let Some(checked) = function.fun().inner().downcast_ref::<Checked>() {
            return self.checked(checked, function.args());
        }
        let of_dates: fn(&str, Value) -> Result<Value> = match function.fun().inner() {
            inner if inner.is::<DatePartFunc>() => dates::part,
            inner if inner.is::<DateTruncFunc>() => dates::trunc,
            _ => return Err(refused()),
        };
        let [name, input] = function.args() else { return Err(refused()) };
        let name = name.downcast_ref::<Literal>().and_then(|name| name.value().try_as_str()).flatten();
        let name = name.ok_or_else(refused)?.to_owned();
        of_dates(&name, self.lower(input)?)
    }
}

/// Of what follows a plus or minus.
fn sign(op: Operator) -> Option<i32> {
    match op {
        Operator::Plus => Some(1),
        Operator::Minus => Some(-1),
        _ => None,
    }
}

fn interval(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    constant_value(expr).filter(|value| matches!(value.data_type(), DataType::Interval(_)))
}

fn boolean(expr: Expr, is_nullable: bool) -> Value {
    Value { expr, data_type: DataType::Boolean, is_nullable, bounds: None, late: None }
}

fn flatten<'a>(op: Operator, expr: &'a Arc<dyn PhysicalExpr>, parts: &mut Vec<&'a Arc<dyn PhysicalExpr>>) {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == op => {
            flatten(op, binary.left(), parts);
            flatten(op, binary.right(), parts);
        }
        _ => parts.push(expr),
    }
}

fn in_integers(input: Value, list: &InListExpr) -> Result<Expr> {
    let values = list.list().iter().map(|value| {
        let value = constant_value(value)
            .ok_or_else(|| Error::unsupported(format!("IN a list that holds {value}, no constant")))?;
        if value.data_type() != input.data_type {
            let types = (value.data_type(), &input.data_type);
            return Err(Error::unsupported(format!("IN a list of {} for {}", types.0, types.1)));
        }
        integer(&value)
    });
    Ok(Expr::In { input: Box::new(input.expr), values: values.collect::<Result<_>>()? })
}

/// What an expression of constants alone comes to.
fn constant_value(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        return Some(constant.value().clone());
    }
    if !collect_columns(expr).is_empty() || !is_deterministic(expr) {
        return None;
    }
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row).ok()?;
    match expr.evaluate(&batch).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0).ok(),
    }
}
