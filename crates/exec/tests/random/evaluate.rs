//! Expressions, evaluated for one row as SQL does it: what is not reached is not evaluated.
//!
//! A result that its type does not hold is *poison*: it is noted where it arises, and it spreads to what is computed
//! from it, but not beyond a NULL, nor to an AND that is false or an OR that is true without it.

use std::cell::Cell as Flag;
use std::sync::Arc;

use pelton_pipeline::ir::{
    ArithmeticOp, Bounds, CompareOp, Expr, Literal, SignChange, TextFunction, TextResults, Type,
};

use super::calendar;
use super::cell::{Cell, Row};

pub(crate) const DECIMAL_MAX: i128 = 10_i128.pow(38) - 1;
/// Kernels may take products of decimals from here on for an overflow: they estimate them.
const DECIMAL_NEARLY_MAX: i128 = 9_999 * 10_i128.pow(34);

/// What expressions see beside the row.
pub(crate) struct Scope<'s> {
    /// Of the columns of a row.
    pub(crate) types: Vec<Type>,
    /// The values of the plan's parameters.
    pub(crate) parameters: &'s [Literal],
    /// Of the row in its table.
    pub(crate) row_number: Flag<usize>,
    /// Whether something that was evaluated overflowed, or came close.
    pub(crate) is_noted: Flag<bool>,
}

impl<'s> Scope<'s> {
    pub(crate) fn new(types: Vec<Type>, parameters: &'s [Literal]) -> Self {
        Self { types, parameters, row_number: Flag::new(0), is_noted: Flag::new(false) }
    }

    fn poison(&self) -> Cell {
        self.is_noted.set(true);
        Cell::Poison
    }

    /// `value` where `bounds` hold it.
    fn within(&self, value: Option<i128>, bounds: Bounds) -> Cell {
        match value {
            Some(value) if value >= bounds.min && value <= bounds.max => Cell::Int(value),
            _ => self.poison(),
        }
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> Type {
        match expr {
            Expr::Column(column) => self.types[*column],
            Expr::Literal(literal) => literal_type(literal),
            Expr::Parameter { ty, .. } => *ty,
            Expr::RowNumber => Type::I64,
            Expr::Arithmetic { left, .. } => self.type_of(left),
            Expr::Compare { .. }
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::In { .. } => Type::Bool,
            Expr::Case { branches, .. } => self.type_of(&branches[0].1),
            Expr::Cast { to, .. } => *to,
            Expr::Within { input, .. }
            | Expr::Where { input, .. }
            | Expr::NonZero { input }
            | Expr::FloorDivide { input, .. }
            | Expr::Modulo { input, .. } => self.type_of(input),
            Expr::FloatKey { .. } | Expr::WithSign { .. } => Type::F64,
            Expr::DatePart { .. } | Expr::DateTrunc { .. } | Expr::AddMonths { .. } => Type::I32,
            Expr::OfText { function, .. } => function.ty(),
        }
    }

    pub(crate) fn evaluate(&self, expr: &Expr, row: &Row) -> Cell {
        let integer = |input: &Expr, of: &dyn Fn(i128) -> Cell| match self.evaluate(input, row) {
            Cell::Int(value) => of(value),
            other => other,
        };
        match expr {
            Expr::Column(column) => row[*column].clone(),
            Expr::Literal(literal) => literal_cell(literal),
            Expr::Parameter { number, .. } => literal_cell(&self.parameters[*number]),
            Expr::RowNumber => Cell::Int(self.row_number.get() as i128),
            Expr::Arithmetic { op, left, right } => {
                let (a, b) = (self.evaluate(left, row), self.evaluate(right, row));
                both(a, b, |a, b| self.arithmetic(*op, a, b, self.type_of(left)))
            }
            Expr::Compare { op, left, right } => {
                let (a, b) = (self.evaluate(left, row), self.evaluate(right, row));
                both(a, b, |a, b| Cell::of_bool(compare(*op, &a, &b)))
            }
            Expr::And(inputs) => self.connective(inputs, row, false),
            Expr::Or(inputs) => self.connective(inputs, row, true),
            Expr::Not(input) => integer(input, &|value| Cell::of_bool(value == 0)),
            Expr::IsNull(input) => match self.evaluate(input, row) {
                Cell::Poison => Cell::Poison,
                other => Cell::of_bool(other.is_null()),
            },
            Expr::In { input, values } => integer(input, &|value| Cell::of_bool(values.contains(&value))),
            Expr::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    match self.evaluate(condition, row) {
                        Cell::Int(1) => return self.evaluate(value, row),
                        Cell::Poison => return Cell::Poison,
                        _ => {}
                    }
                }
                otherwise.as_ref().map_or(Cell::Null, |otherwise| self.evaluate(otherwise, row))
            }
            Expr::Where { input, condition } => match self.evaluate(condition, row) {
                Cell::Int(1) => self.evaluate(input, row),
                Cell::Poison => Cell::Poison,
                _ => Cell::Null,
            },
            Expr::Cast { input, to } => integer(input, &|value| match to {
                Type::F64 if self.type_of(input) != Type::F64 => Cell::Float(value as f64),
                // Sums pass 38 digits.
                to if self.type_of(input) == *to => Cell::Int(value),
                _ => self.within(Some(value), limits(*to)),
            }),
            Expr::Within { input, bounds } => integer(input, &|value| self.within(Some(value), *bounds)),
            Expr::NonZero { input } => {
                integer(input, &|value| if value == 0 { self.poison() } else { Cell::Int(value) })
            }
            Expr::FloatKey { input } => self.evaluate(input, row).with_one_zero(),
            Expr::WithSign { input, sign } => match (self.evaluate(input, row), sign) {
                (Cell::Float(value), SignChange::Flipped) => Cell::Float(-value),
                (Cell::Float(value), SignChange::Cleared) => Cell::Float(value.abs()),
                (other, _) => other,
            },
            Expr::DatePart { part, input } => {
                integer(input, &|day| Cell::Int(calendar::part(*part, day as i64).into()))
            }
            Expr::DateTrunc { unit, input } => {
                integer(input, &|day| Cell::Int(calendar::trunc(*unit, day as i64).into()))
            }
            Expr::AddMonths { input, months } => {
                integer(input, &|day| Cell::Int(calendar::add_months(day as i64, (*months).into()).into()))
            }
            Expr::FloorDivide { input, by } => {
                integer(input, &|value| Cell::Int(value.div_euclid((*by).into())))
            }
            Expr::Modulo { input, by } => integer(input, &|value| Cell::Int(value.rem_euclid((*by).into()))),
            Expr::OfText { column, function } => match &row[*column] {
                Cell::Text(text) => of_text(function, text),
                other => other.clone(),
            },
        }
    }

    /// AND, which false decides, or OR, which true does.
    fn connective(&self, inputs: &[Expr], row: &Row, decides: bool) -> Cell {
        let mut result = Cell::of_bool(!decides);
        for input in inputs {
            match self.evaluate(input, row) {
                Cell::Int(value) if (value != 0) == decides => return Cell::of_bool(decides),
                Cell::Poison => result = Cell::Poison,
                Cell::Null if !result.is_poison() => result = Cell::Null,
                _ => {}
            }
        }
        result
    }

    fn arithmetic(&self, op: ArithmeticOp, a: Cell, b: Cell, ty: Type) -> Cell {
        let (a, b) = match (a, b) {
            (Cell::Float(a), Cell::Float(b)) => {
                return Cell::Float(match op {
                    ArithmeticOp::Add => a + b,
                    ArithmeticOp::Subtract => a - b,
                    ArithmeticOp::Multiply => a * b,
                    ArithmeticOp::Divide => a / b,
                    ArithmeticOp::Remainder => panic!("no remainder of doubles"),
                });
            }
            (Cell::Int(a), Cell::Int(b)) => (a, b),
            other => panic!("arithmetic on {other:?}"),
        };
        let exact = match op {
            ArithmeticOp::Add => a.checked_add(b),
            ArithmeticOp::Subtract => a.checked_sub(b),
            ArithmeticOp::Multiply => a.checked_mul(b),
            ArithmeticOp::Divide => a.checked_div(b),
            ArithmeticOp::Remainder => a.checked_rem(b),
        };
        if ty == Type::I128 && exact.is_some_and(|exact| exact.abs() > DECIMAL_NEARLY_MAX) {
            self.is_noted.set(true);
        }
        self.within(exact, limits(ty))
    }
}

/// NULL where one is, then poison where one is.
fn both(a: Cell, b: Cell, of: impl Fn(Cell, Cell) -> Cell) -> Cell {
    match () {
        () if a.is_null() || b.is_null() => Cell::Null,
        () if a.is_poison() || b.is_poison() => Cell::Poison,
        () => of(a, b),
    }
}

fn limits(ty: Type) -> Bounds {
    match ty {
        Type::I32 => Bounds { min: i32::MIN.into(), max: i32::MAX.into() },
        Type::I64 => Bounds { min: i64::MIN.into(), max: i64::MAX.into() },
        _ => Bounds { min: -DECIMAL_MAX, max: DECIMAL_MAX },
    }
}

/// The two zeros are equal, and so are all NaNs, which are greater than anything else.
fn compare(op: CompareOp, a: &Cell, b: &Cell) -> bool {
    let (is_less, is_equal) = match (a, b) {
        (Cell::Int(a), Cell::Int(b)) => (a < b, a == b),
        (Cell::Float(a), Cell::Float(b)) => {
            (a < b || (b.is_nan() && !a.is_nan()), a == b || (a.is_nan() && b.is_nan()))
        }
        other => panic!("comparing {other:?}"),
    };
    match op {
        CompareOp::Eq => is_equal,
        CompareOp::Ne => !is_equal,
        CompareOp::Lt => is_less,
        CompareOp::Le => is_less || is_equal,
        CompareOp::Gt => !is_less && !is_equal,
        CompareOp::Ge => !is_less,
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Bool(_) => Type::Bool,
        Literal::I32(_) => Type::I32,
        Literal::I64(_) => Type::I64,
        Literal::I128(_) => Type::I128,
        Literal::F64(_) => Type::F64,
        Literal::Null(ty) => *ty,
    }
}

fn literal_cell(literal: &Literal) -> Cell {
    match literal {
        Literal::Bool(value) => Cell::of_bool(*value),
        Literal::I32(value) => Cell::Int((*value).into()),
        Literal::I64(value) => Cell::Int((*value).into()),
        Literal::I128(value) => Cell::Int(*value),
        Literal::F64(value) => Cell::Float(*value),
        Literal::Null(_) => Cell::Null,
    }
}

fn of_text(function: &Arc<dyn TextFunction>, text: &[u8]) -> Cell {
    let result = match function.evaluate(&[text]).expect("functions of tests answer") {
        TextResults::Bool(values) => values[0].map(Cell::of_bool),
        TextResults::I32(values) => values[0].map(|value| Cell::Int(value.into())),
        TextResults::I128(values) => values[0].map(Cell::Int),
        TextResults::I64(values) => values[0].map(|value| Cell::Int(value.into())),
        TextResults::F64(values) => values[0].map(Cell::Float),
        TextResults::Text(values) => values[0].as_ref().map(|text| Cell::Text(Arc::from(&text[..]))),
    };
    result.unwrap_or(Cell::Null)
}
