//! Values in generated code: an expression in C++, what type it has, what it may be.

use std::sync::Arc;

use crate::ir::{Bounds, Type};
use crate::text::Dictionary;

/// How a value is held in a register or an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// One byte in an array, 0 or 1.
    Bool,
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
    /// 128 bits.
    I128,
    /// A double.
    F64,
    /// The number of a dictionary entry.
    Id,
    /// Where a text's bytes lie in a chunk, and how many; in registers alone.
    View,
    /// Where a text lies in the heap of the groups that are the source: the word of their state. In arrays alone.
    Kept,
    /// A text of at most 15 bytes in 128 bits: the bytes from the highest on, then zeros, in the lowest byte the length.
    /// Equal numbers are equal texts, and their order is that of unsigned numbers.
    Short,
}

impl Form {
    pub(crate) fn c_type(self) -> &'static str {
        match self {
            Form::Bool => "bool",
            Form::I32 => "i32",
            Form::I64 => "i64",
            Form::I128 => "i128",
            Form::F64 => "f64",
            Form::Id => "u32",
            Form::View => "TextView",
            Form::Kept => "u64",
            Form::Short => "u128",
        }
    }

    /// The type of an array of such values in memory.
    pub(crate) fn array_type(self) -> &'static str {
        if self == Form::Bool { "u8" } else { self.c_type() }
    }

    /// Bytes of a value in an array.
    pub fn bytes(self) -> usize {
        match self {
            Form::Bool => 1,
            Form::I32 | Form::Id => 4,
            Form::I64 | Form::F64 | Form::Kept => 8,
            Form::I128 | Form::Short => 16,
            Form::View => unreachable!("views lie in no array"),
        }
    }

    /// The narrowest form of a value of type `ty` between `bounds`.
    pub(crate) fn of(ty: Type, bounds: Option<Bounds>) -> Self {
        match ty {
            Type::Bool => Form::Bool,
            Type::I32 => Form::I32,
            Type::I64 => Form::I64,
            Type::I128 if bounds.is_some_and(fits_i64) => Form::I64,
            Type::I128 => Form::I128,
            Type::F64 => Form::F64,
            Type::Text => Form::Id,
        }
    }
}

/// What every value of `ty` lies between, for integers.
pub(crate) fn type_bounds(ty: Type) -> Option<Bounds> {
    match ty {
        Type::I32 => Some(Bounds { min: i32::MIN.into(), max: i32::MAX.into() }),
        Type::I64 => Some(Bounds { min: i64::MIN.into(), max: i64::MAX.into() }),
        Type::Bool => Some(Bounds { min: 0, max: 1 }),
        Type::I128 | Type::F64 | Type::Text => None,
    }
}

/// True where every value between `bounds` is one of 64 bits.
pub(crate) fn fits_i64(bounds: Bounds) -> bool {
    within(bounds, Bounds { min: i64::MIN.into(), max: i64::MAX.into() })
}

/// True where `inner` lies in `outer`.
pub(crate) fn within(inner: Bounds, outer: Bounds) -> bool {
    inner.min >= outer.min && inner.max <= outer.max
}

/// The bounds of either.
pub(crate) fn union(a: Option<Bounds>, b: Option<Bounds>) -> Option<Bounds> {
    let (a, b) = (a?, b?);
    Some(Bounds { min: a.min.min(b.min), max: a.max.max(b.max) })
}

/// A value as generated code names it.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    /// A C++ expression without side effects, cheap to repeat: a name or a constant.
    pub(crate) code: String,
    /// As `code`: whether the value is not NULL; `None` where it never is.
    pub(crate) valid: Option<String>,
    pub(crate) ty: Type,
    pub(crate) form: Form,
    pub(crate) bounds: Option<Bounds>,
    /// What a `Text` value is a number of.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
    /// Of a view: the word that leads to it in the heap of the groups that are the source.
    pub(crate) kept: Option<String>,
}

impl Value {
    pub(crate) fn new(code: impl Into<String>, ty: Type, bounds: Option<Bounds>) -> Self {
        let bounds = bounds.or(type_bounds(ty));
        Self {
            code: code.into(),
            valid: None,
            ty,
            form: Form::of(ty, bounds),
            bounds,
            dictionary: None,
            kept: None,
        }
    }

    /// A text of the groups that are the source as what arrays hold of it.
    pub(crate) fn in_array(mut self) -> Self {
        if let (Form::View, Some(word)) = (self.form, self.kept.take()) {
            (self.form, self.code) = (Form::Kept, word);
        }
        self
    }

    pub(crate) fn with_valid(mut self, valid: Option<String>) -> Self {
        self.valid = valid;
        self
    }

    /// `code` where the condition that it is true needs to hold and NULL counts as false.
    pub(crate) fn is_true(&self) -> String {
        match &self.valid {
            Some(valid) => format!("({} && {valid})", self.code),
            None => self.code.clone(),
        }
    }

    /// Of a condition: it is true or NULL.
    pub(crate) fn may_be_true(&self) -> String {
        match &self.valid {
            Some(valid) => format!("({} || !{valid})", self.code),
            None => self.code.clone(),
        }
    }

    /// Of a condition: it is false or NULL.
    pub(crate) fn may_be_false(&self) -> String {
        match &self.valid {
            Some(valid) => format!("(!{} || !{valid})", self.code),
            None => format!("!{}", self.code),
        }
    }
}

/// The value as a C++ constant of 64 bits.
pub(crate) fn i64_constant(value: i64) -> String {
    if value == i64::MIN { "(-9223372036854775807ll - 1)".into() } else { format!("{value}ll") }
}

/// The value as a C++ constant in `form`.
pub(crate) fn constant(value: i128, form: Form) -> String {
    match form {
        Form::Bool => if value == 0 { "false" } else { "true" }.into(),
        Form::I32 => format!("i32({value}ll)"),
        Form::Id => format!("{value}u"),
        Form::F64 => format!("f64({value})"),
        Form::I64 => i64_constant(value as i64),
        Form::View | Form::Kept | Form::Short => unreachable!("numbers are no texts"),
        Form::I128 => {
            let bits = value as u128;
            format!("i128((u128({}ull) << 64) | u128({}ull))", (bits >> 64) as u64, bits as u64)
        }
    }
}

/// The conjunction of validities.
pub(crate) fn both_valid(a: &Option<String>, b: &Option<String>) -> Option<String> {
    match (a, b) {
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (Some(a), Some(b)) if a == b => Some(a.clone()),
        (Some(a), Some(b)) => Some(format!("({a} && {b})")),
    }
}
