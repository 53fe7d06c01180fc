//! Parameters of plans: what the leaves of expressions may be besides columns and constants, another value in each run.

use pelton_pipeline::ir::{Literal, Type};

use super::expressions::{integer_literal, width};
use super::random::Random;

/// A parameter; integers are below 2^bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) ty: Type,
    pub(crate) bits: u32,
}

pub(crate) const DOUBLES: [f64; 9] = [f64::NAN, f64::INFINITY, -0.0, 0.0, 1.5, -2.25, 1e-300, 3e40, 0.1];

impl Parameter {
    /// Mostly a small one.
    pub(crate) fn new(ty: Type, is_wild: bool, random: &mut Random) -> Self {
        let most = if random.one_in(if is_wild { 4 } else { 20 }) { width(ty) } else { 6 };
        let bits = if ty == Type::Bool { 1 } else { 1 + random.below(most.into()) as u32 };
        Self { ty, bits }
    }

    /// A value of it.
    pub(crate) fn value(&self, random: &mut Random) -> Literal {
        if random.one_in(8) {
            return Literal::Null(self.ty);
        }
        match self.ty {
            Type::Bool => Literal::Bool(random.one_in(2)),
            Type::F64 => Literal::F64(*random.pick(&DOUBLES)),
            Type::Text => panic!("no parameter is a text"),
            ty => {
                let end = (1i128 << self.bits) - 1;
                let value = match random.below(5) {
                    0 => end,
                    1 => -end,
                    _ => random.between(-end, end),
                };
                integer_literal(ty, value)
            }
        }
    }
}
