//! Random expressions of a type, over the columns that a row has so far.
//!
//! How large integers may become is estimated (`bits`), so that few of them overflow: those that do are wanted, but a
//! plan that always overflows tests little else.

use pelton_pipeline::ir::{
    ArithmeticOp, Bounds, CompareOp, DatePart, DateUnit, Expr, Literal, SignChange, Type,
};

use super::evaluate::DECIMAL_MAX;
use super::parameter::{DOUBLES, Parameter};
use super::random::Random;
use super::recipe::{Domain, Recipe};
use super::text::{self, TextForm};

/// A column that expressions may read.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) ty: Type,
    /// Where integers lie, by estimate.
    pub(crate) low: i128,
    pub(crate) high: i128,
    /// Kernels know bounds of it.
    pub(crate) is_bounded: bool,
    pub(crate) is_date: bool,
    pub(crate) domain: Option<Domain>,
    /// A sum of integers, which bounds make an `I64` or an `I128`: it is read as an `I128`.
    pub(crate) is_sum: bool,
    /// A sum of doubles, which depends on their order: nothing is computed from it.
    pub(crate) is_about: bool,
    /// Of texts.
    pub(crate) text: TextForm,
}

impl Known {
    /// The column of a probe that marks rows.
    pub(crate) fn mark() -> Self {
        Self {
            ty: Type::Bool,
            low: 0,
            high: 1,
            is_bounded: true,
            is_date: false,
            domain: None,
            is_sum: false,
            is_about: false,
            text: TextForm::Numbers,
        }
    }

    pub(crate) fn of(recipe: &Recipe, is_bounded: bool) -> Self {
        let Recipe { ty, low, high, is_date, domain, .. } = *recipe;
        Self {
            ty,
            low,
            high,
            is_bounded,
            is_date,
            domain,
            is_sum: false,
            is_about: false,
            text: TextForm::Numbers,
        }
    }

    /// A column of what `made` computes.
    pub(crate) fn made(made: &Made) -> Self {
        let end = 1i128 << made.bits.min(126);
        let is_bounded = made.bits < 40;
        Self {
            ty: made.ty,
            low: -end,
            high: end,
            is_bounded,
            is_date: false,
            domain: None,
            is_sum: false,
            is_about: false,
            text: text::form_of(&made.expr),
        }
    }

    fn bits(&self) -> u32 {
        bits_of(self.low).max(bits_of(self.high))
    }
}

/// An expression; of integers all are below 2^bits, by estimate.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) expr: Expr,
    pub(crate) ty: Type,
    pub(crate) bits: u32,
}

fn bits_of(value: i128) -> u32 {
    128 - value.unsigned_abs().leading_zeros()
}

/// Bits of a type, without the sign.
pub(crate) fn width(ty: Type) -> u32 {
    match ty {
        Type::I32 => 31,
        Type::I64 => 63,
        _ => 126,
    }
}

pub(crate) const INTEGERS: [Type; 3] = [Type::I32, Type::I64, Type::I128];
pub(crate) const COMPARISONS: [CompareOp; 6] =
    [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];

/// The integer of `ty` that is nearest to `value`.
pub(crate) fn integer_literal(ty: Type, value: i128) -> Literal {
    match ty {
        Type::I32 => Literal::I32(value.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
        Type::I64 => Literal::I64(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64),
        _ => Literal::I128(value.clamp(-DECIMAL_MAX, DECIMAL_MAX)),
    }
}

pub(crate) fn literal(ty: Type, value: i128) -> Expr {
    Expr::Literal(integer_literal(ty, value))
}

pub(crate) fn boxed(made: Made) -> Box<Expr> {
    Box::new(made.expr)
}

/// Makes expressions.
pub(crate) struct Expressions<'e> {
    pub(crate) random: &'e mut Random,
    pub(crate) columns: &'e [Known],
    /// Those of the plan so far.
    pub(crate) parameters: &'e mut Vec<Parameter>,
    /// Rows have numbers.
    pub(crate) has_row_numbers: bool,
    /// Results need not fit their types.
    pub(crate) is_wild: bool,
}

impl Expressions<'_> {
    /// The number of a column that `is_wanted`, and is a value.
    pub(crate) fn column_number(&mut self, is_wanted: impl Fn(&Known) -> bool) -> Option<usize> {
        self.any_column(|column| column.text != TextForm::View && is_wanted(column))
    }

    /// As `column_number`, or of a view of text.
    pub(crate) fn any_column(&mut self, is_wanted: impl Fn(&Known) -> bool) -> Option<usize> {
        let is_one = |at: &usize| !self.columns[*at].is_about && is_wanted(&self.columns[*at]);
        let all: Vec<usize> = (0..self.columns.len()).filter(is_one).collect();
        all.get(self.random.below(all.len().max(1) as u64) as usize).copied()
    }

    /// A column that `is_wanted`.
    pub(crate) fn column(&mut self, is_wanted: impl Fn(&Known) -> bool) -> Option<Made> {
        let at = self.column_number(is_wanted)?;
        let Known { ty, is_sum, .. } = self.columns[at];
        let (input, bits) = (Expr::Column(at), self.columns[at].bits());
        let expr = if is_sum { Expr::Cast { input: Box::new(input), to: ty } } else { input };
        Some(Made { expr, ty, bits })
    }

    pub(crate) fn of(&mut self, ty: Type, depth: u32) -> Made {
        match ty {
            Type::Bool => self.condition(depth),
            Type::F64 => self.double(depth),
            Type::Text => self.text(),
            _ => self.integer(ty, depth),
        }
    }

    /// Of any type.
    pub(crate) fn any(&mut self, depth: u32) -> Made {
        let ty = *self.random.pick(&[Type::Bool, Type::I32, Type::I64, Type::I128, Type::F64, Type::Text]);
        self.of(ty, depth)
    }

    /// A text; NULL where there is none.
    fn text(&mut self) -> Made {
        let at = self.any_column(|column| column.ty == Type::Text);
        match at.map(|at| (at, self.columns[at].text)) {
            Some((at, TextForm::View)) => self.of_text(at, Type::Text),
            Some((at, TextForm::Numbers)) if self.random.one_in(4) => self.of_text(at, Type::Text),
            Some((at, _)) if !self.random.one_in(40) => {
                Made { expr: Expr::Column(at), ty: Type::Text, bits: 0 }
            }
            _ => Made { expr: Expr::Literal(Literal::Null(Type::Text)), ty: Type::Text, bits: 0 },
        }
    }

    /// A value that is known when the plan is run: a parameter that there is already, or another one.
    pub(crate) fn parameter(&mut self, ty: Type) -> Made {
        let known = self.parameters.iter().position(|parameter| parameter.ty == ty);
        let number = match known {
            Some(number) if self.random.one_in(3) => number,
            _ => {
                self.parameters.push(Parameter::new(ty, self.is_wild, self.random));
                self.parameters.len() - 1
            }
        };
        Made { expr: Expr::Parameter { number, ty }, ty, bits: self.parameters[number].bits }
    }

    fn of_text(&mut self, column: usize, ty: Type) -> Made {
        let bits = if ty == Type::I32 { 8 } else { 63 };
        let function = match self.columns[column].text {
            TextForm::View => text::of_view(ty, self.random),
            _ => text::of_type(ty),
        };
        Made { expr: Expr::OfText { column, function }, ty, bits }
    }

    /// A function of text of type `ty`, where there is a text.
    pub(crate) fn of_some_text(&mut self, ty: Type) -> Option<Made> {
        let column = self.any_column(|column| column.ty == Type::Text && column.text.has_function(ty))?;
        Some(self.of_text(column, ty))
    }

    fn small_literal(&mut self, ty: Type) -> Made {
        let value = match self.random.below(if self.is_wild { 5 } else { 20 }) {
            0 => 1 << self.random.below(width(ty).into()),
            1 => -(1 << self.random.below(width(ty).into())),
            2 => *self.random.pick(&[DECIMAL_MAX, -DECIMAL_MAX, 0]),
            _ => self.random.between(-9, 30),
        };
        let expr = literal(ty, value);
        let bits = bits_of(value).min(width(ty));
        Made { expr, ty, bits }
    }

    fn leaf(&mut self, ty: Type) -> Made {
        if self.random.one_in(40) {
            return Made { expr: Expr::Literal(Literal::Null(ty)), ty, bits: 0 };
        }
        if self.random.one_in(25) {
            return self.parameter(ty);
        }
        if ty == Type::I64 && self.has_row_numbers && self.random.one_in(10) {
            return Made { expr: Expr::RowNumber, ty, bits: 13 };
        }
        if self.random.percent(60)
            && let Some(made) = self.column(|column| column.ty == ty)
        {
            return made;
        }
        let fits = |column: &Known| INTEGERS.contains(&column.ty) && column.bits() <= width(ty);
        match self.column(fits) {
            Some(made) if self.random.percent(70) => self.cast(made, ty),
            _ => self.small_literal(ty),
        }
    }

    fn cast(&mut self, made: Made, to: Type) -> Made {
        if made.ty == to && !self.random.one_in(20) {
            return made;
        }
        let bits = made.bits.min(width(to));
        Made { expr: Expr::Cast { input: boxed(made), to }, ty: to, bits }
    }

    pub(crate) fn integer(&mut self, ty: Type, depth: u32) -> Made {
        if depth == 0 {
            return self.leaf(ty);
        }
        let wrap = |expr, bits| Made { expr, ty, bits };
        let is_decimal = ty == Type::I128;
        match self.random.below(14) {
            0..=3 => self.sum_or_product(ty, depth),
            4 if !is_decimal => self.quotient(ty, depth),
            5 => self.case(ty, depth),
            6 => {
                let from = *self.random.pick(&INTEGERS);
                let made = self.integer(from, depth - 1);
                // A narrower type seldom gets more than it holds.
                let is_wild = self.is_wild && self.random.one_in(4);
                if made.bits > width(ty) && !is_wild { self.leaf(ty) } else { self.cast(made, ty) }
            }
            7 => {
                let input = self.condition(depth - 1);
                wrap(Expr::Cast { input: boxed(input), to: ty }, 1)
            }
            8 => {
                let made = self.integer(ty, depth - 1);
                let slack = if self.random.one_in(10) { made.bits / 2 } else { made.bits };
                let end = 1i128 << slack.min(126);
                let bounds = Bounds { min: -end, max: end };
                wrap(Expr::Within { input: boxed(made), bounds }, slack)
            }
            9 if !is_decimal => {
                let made = self.integer(ty, depth - 1);
                let by = self.random.between(1, 40) as i64;
                match self.random.one_in(2) {
                    true => wrap(Expr::FloorDivide { input: boxed(made.clone()), by }, made.bits),
                    false => wrap(Expr::Modulo { input: boxed(made), by }, 6),
                }
            }
            10 | 11 if ty == Type::I32 => self.date_part(),
            12 if ty == Type::I32 => self.of_some_text(ty).unwrap_or_else(|| self.leaf(ty)),
            12 if ty == Type::I64 && self.random.one_in(3) => {
                self.of_some_text(ty).unwrap_or_else(|| self.leaf(ty))
            }
            _ => self.leaf(ty),
        }
    }

    fn sum_or_product(&mut self, ty: Type, depth: u32) -> Made {
        let (left, right) = (self.integer(ty, depth - 1), self.integer(ty, depth - 1));
        let op = *self.random.pick(&[ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply]);
        let bits = match op {
            ArithmeticOp::Multiply => left.bits + right.bits,
            _ => left.bits.max(right.bits) + 1,
        };
        if bits > width(ty) && !self.random.one_in(if self.is_wild { 1 } else { 30 }) {
            return left;
        }
        let expr = Expr::Arithmetic { op, left: boxed(left), right: boxed(right) };
        Made { expr, ty, bits: bits.min(width(ty)) }
    }

    /// By a constant, or by something that may be 0, mostly where it is not.
    fn quotient(&mut self, ty: Type, depth: u32) -> Made {
        let op = *self.random.pick(&[ArithmeticOp::Divide, ArithmeticOp::Remainder]);
        let left = self.integer(ty, depth - 1);
        let divide = |left: &Made, right: Expr| Expr::Arithmetic {
            op,
            left: Box::new(left.expr.clone()),
            right: Box::new(right),
        };
        let bits = left.bits;
        let wrap = |expr| Made { expr, ty, bits };
        if self.random.percent(50) {
            let by = self.random.between(1, 99) * if self.random.one_in(5) { -1 } else { 1 };
            return wrap(divide(&left, literal(ty, by)));
        }
        let right = self.integer(ty, depth - 1).expr;
        if self.random.one_in(12) {
            let is_said = self.random.one_in(2);
            let by = if is_said { Expr::NonZero { input: Box::new(right) } } else { right };
            return wrap(divide(&left, by));
        }
        let zero = Box::new(literal(ty, 0));
        let is_safe = Expr::Compare { op: CompareOp::Gt, left: Box::new(right.clone()), right: zero };
        wrap(Expr::Case { branches: vec![(is_safe, divide(&left, right))], otherwise: None })
    }

    pub(crate) fn case(&mut self, ty: Type, depth: u32) -> Made {
        let mut bits = 0;
        let mut branches = Vec::new();
        for _ in 0..=self.random.below(2) {
            let value = self.of(ty, depth - 1);
            bits = bits.max(value.bits);
            branches.push((self.condition(depth - 1).expr, value.expr));
        }
        let otherwise = self.random.percent(70).then(|| self.of(ty, depth - 1));
        bits = bits.max(otherwise.as_ref().map_or(0, |made| made.bits));
        Made { expr: Expr::Case { branches, otherwise: otherwise.map(boxed) }, ty, bits }
    }

    /// A date, where there is one.
    fn date(&mut self) -> Option<Expr> {
        let input = self.column(|column| column.is_date)?.expr;
        let input = Box::new(input);
        Some(match self.random.below(4) {
            0 => Expr::DateTrunc { unit: self.unit(), input },
            1 => Expr::AddMonths { input, months: self.random.between(-30, 30) as i32 },
            _ => *input,
        })
    }

    fn unit(&mut self) -> DateUnit {
        *self.random.pick(&[DateUnit::Week, DateUnit::Month, DateUnit::Quarter, DateUnit::Year])
    }

    fn date_part(&mut self) -> Made {
        let Some(date) = self.date() else { return self.leaf(Type::I32) };
        if self.random.one_in(4) {
            return Made { expr: date, ty: Type::I32, bits: 22 };
        }
        let part = *self.random.pick(&[
            DatePart::Year,
            DatePart::IsoYear,
            DatePart::Quarter,
            DatePart::Month,
            DatePart::Week,
            DatePart::Day,
            DatePart::DayOfYear,
            DatePart::DayOfWeek,
            DatePart::IsoDayOfWeek,
        ]);
        Made { expr: Expr::DatePart { part, input: Box::new(date) }, ty: Type::I32, bits: 14 }
    }

    pub(crate) fn double(&mut self, depth: u32) -> Made {
        let wrap = |expr| Made { expr, ty: Type::F64, bits: 0 };
        let choice = if depth == 0 { 0 } else { self.random.below(8) };
        match choice {
            0 | 1 => match self.column(|column| column.ty == Type::F64) {
                Some(made) if self.random.percent(75) => made,
                _ if self.random.one_in(4) => self.parameter(Type::F64),
                _ => wrap(Expr::Literal(Literal::F64(*self.random.pick(&DOUBLES)))),
            },
            2..=4 => {
                use ArithmeticOp::{Add, Divide, Multiply, Subtract};
                let op = *self.random.pick(&[Add, Subtract, Multiply, Divide]);
                let (left, right) = (self.double(depth - 1), self.double(depth - 1));
                wrap(Expr::Arithmetic { op, left: boxed(left), right: boxed(right) })
            }
            5 => {
                let from = *self.random.pick(&INTEGERS);
                wrap(Expr::Cast { input: boxed(self.integer(from, depth - 1)), to: Type::F64 })
            }
            6 if self.random.one_in(2) => self.case(Type::F64, depth),
            6 if self.random.one_in(2) => {
                let sign = *self.random.pick(&[SignChange::Flipped, SignChange::Cleared]);
                wrap(Expr::WithSign { input: boxed(self.double(depth - 1)), sign })
            }
            6 => wrap(Expr::FloatKey { input: boxed(self.double(depth - 1)) }),
            _ => self.of_some_text(Type::F64).unwrap_or_else(|| self.double(depth - 1)),
        }
    }
}
