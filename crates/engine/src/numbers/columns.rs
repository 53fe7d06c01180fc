//! Columns of VALUES in which a decimal stands beside a double.
//!
//! ```text
//!   VALUES (1.25), (1e-20)          VALUES (CAST(1.25 AS DOUBLE)), (1e-20)
//! ```
//!
//! DataFusion brings both to DECIMAL(30,15) while it plans, where 1e-20 is 0 and 1e30 an error; in a plan it cannot be told
//! any more what was written. A double is known here by its text: a number with an exponent, a cast, and arithmetic of
//! these. One that a function or a subquery gives is not. Rows of INSERT take the types of their table instead.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Query, SetExpr, Value, Values,
    VisitorMut,
};

use crate::parse::visit_sql;

/// Makes columns of VALUES in `statement` doubles where one of their rows is.
pub(crate) fn write_columns(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Columns);
}

struct Columns;

impl VisitorMut for Columns {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
        match statement {
            ast::Statement::Insert(ast::Insert { source: Some(rows), .. })
                if matches!(rows.body.as_ref(), SetExpr::Values(_)) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        in_set(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// A loop to the left, which is where long chains go that are not balanced.
fn in_set(set: &mut SetExpr) {
    let mut set = set;
    loop {
        match set {
            SetExpr::Values(values) => return in_values(values),
            SetExpr::SetOperation { left, right, .. } => {
                in_set(right);
                set = left.as_mut();
            }
            _ => return,
        }
    }
}

fn in_values(values: &mut Values) {
    let column_count = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..column_count {
        let mut items = values.rows.iter().filter_map(|row| row.content.get(column));
        if !items.any(is_double) {
            continue;
        }
        for item in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
            if !is_double(item) && may_be_number(item) {
                *item = as_double(std::mem::replace(item, Expr::Value(Value::Null.into())));
            }
        }
    }
}

/// Whether `expr` is a float, as far as its text says.
fn is_double(expr: &Expr) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    match expr {
        Expr::Cast { data_type, array: false, .. } => matches!(
            data_type,
            DataType::Double(_)
                | DataType::DoublePrecision
                | DataType::Float(_)
                | DataType::Real
                | DataType::Float4
                | DataType::Float8
                | DataType::Float32
                | DataType::Float64
        ),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_double(inner),
        Expr::BinaryOp { left, op: Plus | Minus | Multiply | Divide | Modulo, right } => {
            is_double(left) || is_double(right)
        }
        _ => false,
    }
}

/// A constant that is none stays as it is: NULL, a parameter, a text, which DataFusion reads as a number.
fn may_be_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => may_be_number(inner),
        Expr::TypedString(_) | Expr::Interval(_) => false,
        _ => true,
    }
}

fn as_double(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}
