//! Random conditions.

use pelton_pipeline::ir::{Expr, Literal, Type};

use super::expressions::{COMPARISONS, Expressions, INTEGERS, Known, Made, boxed, literal};
use super::text::TextForm;

impl Expressions<'_> {
    /// `column op constant`, as ranges are.
    pub(crate) fn range(&mut self) -> Option<Expr> {
        let is_range = |column: &Known| INTEGERS.contains(&column.ty) && column.low < column.high;
        let at = self.column_number(is_range)?;
        let Known { ty, low, high, is_sum, .. } = self.columns[at];
        let value = self.random.between(low, high);
        // One value is seldom there.
        let is_order = self.random.percent(85);
        let op = *self.random.pick(if is_order { &COMPARISONS[1..] } else { &COMPARISONS });
        let (mut input, mut of) = (Expr::Column(at), ty);
        if is_sum {
            input = Expr::Cast { input: Box::new(input), to: ty };
        }
        if ty == Type::I32 && self.random.one_in(4) {
            (input, of) = (Expr::Cast { input: Box::new(input), to: Type::I64 }, Type::I64);
        }
        let constant = if self.random.one_in(12) { self.parameter(of).expr } else { literal(of, value) };
        let (left, right) = (Box::new(input), Box::new(constant));
        Some(match self.random.one_in(4) {
            true => Expr::Compare { op, left: right, right: left },
            false => Expr::Compare { op, left, right },
        })
    }

    pub(crate) fn condition(&mut self, depth: u32) -> Made {
        let wrap = |expr| Made { expr, ty: Type::Bool, bits: 1 };
        if depth == 0 {
            let column = self.column(|column| column.ty == Type::Bool);
            return match column {
                Some(made) if self.random.percent(40) => made,
                _ if self.random.one_in(25) => self.parameter(Type::Bool),
                _ if self.random.one_in(30) => {
                    let literals = [Literal::Bool(true), Literal::Bool(false), Literal::Null(Type::Bool)];
                    wrap(Expr::Literal(*self.random.pick(&literals)))
                }
                _ => self.range().map_or_else(|| wrap(Expr::Literal(Literal::Bool(true))), wrap),
            };
        }
        match self.random.below(12) {
            0..=3 => {
                let ty = *self.random.pick(&[Type::I32, Type::I64, Type::I128, Type::F64, Type::Bool]);
                let op = *self.random.pick(&COMPARISONS);
                let (left, right) = (self.of(ty, depth - 1), self.of(ty, depth - 1));
                wrap(Expr::Compare { op, left: boxed(left), right: boxed(right) })
            }
            4 | 5 => {
                let count = if self.random.one_in(20) { 0 } else { 2 + self.random.below(2) };
                let inputs = (0..count).map(|_| self.condition(depth - 1).expr).collect();
                wrap(if self.random.one_in(2) { Expr::And(inputs) } else { Expr::Or(inputs) })
            }
            6 => wrap(Expr::Not(boxed(self.condition(depth - 1)))),
            7 => wrap(Expr::IsNull(match self.any_column(|column| column.text == TextForm::View) {
                Some(view) if self.random.one_in(3) => Box::new(Expr::Column(view)),
                _ => boxed(self.any(depth - 1)),
            })),
            8 => {
                let ty = *self.random.pick(&INTEGERS);
                let input = self.integer(ty, depth - 1);
                let values = (0..self.random.below(6)).map(|_| self.random.between(-9, 60)).collect();
                wrap(Expr::In { input: boxed(input), values })
            }
            9 => self.case(Type::Bool, depth),
            10 => self.of_some_text(Type::Bool).unwrap_or_else(|| self.condition(depth - 1)),
            _ => self.condition(0),
        }
    }
}
