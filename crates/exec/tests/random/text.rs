//! Functions of text of every type that a function may have.

use std::sync::Arc;

use pelton_error::Result;
use pelton_pipeline::ir::{Expr, LikePattern, TextFunction, TextKernel, TextPart, TextResults, Type};

use super::expressions::COMPARISONS;
use super::random::Random;
use super::text_reference::ByKernel;

/// How kernels hold a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// As the number of a dictionary entry.
    Numbers,
    /// Where it lies: no value, but there are functions of it.
    View,
    /// As a few bytes: a value, and nothing is computed from it.
    Short,
}

impl TextForm {
    /// Whether there is a function of it of type `ty`.
    pub(crate) fn has_function(self, ty: Type) -> bool {
        match self {
            TextForm::Numbers => true,
            TextForm::View => matches!(ty, Type::Bool | Type::I32 | Type::Text),
            TextForm::Short => false,
        }
    }
}

/// What a text is that `expr`, no column, computes.
pub(crate) fn form_of(expr: &Expr) -> TextForm {
    match expr {
        Expr::OfText { function, .. } if function.kernel().is_some() => TextForm::Short,
        _ => TextForm::Numbers,
    }
}

/// A function of a view.
pub(crate) fn of_view(ty: Type, random: &mut Random) -> Arc<dyn TextFunction> {
    const PATTERNS: [&str; 16] = [
        "%",
        "",
        "%e%",
        "a%",
        "%l",
        "AIR",
        "_%",
        "%é_",
        "r_il",
        "%a%e%",
        "%longer%an e%",
        "%zz%",
        "___",
        "%_7%7",
        "S%ß%",
        "%\\%",
    ];
    const CONSTANTS: [&str; 6] = ["", "AIR", "mail", "a longer text with an e", "é", "e"];
    let part = match random.below(3) {
        0 => {
            let length = (!random.one_in(4)).then(|| random.below(5));
            TextPart::Substring { start: random.between(-1, 4) as i64, length }
        }
        _ => TextPart::Whole,
    };
    let is_negated = random.one_in(4);
    Arc::new(ByKernel(match (ty, random.below(4)) {
        (Type::I32, 0 | 1) => TextKernel::ByteLength(part),
        (Type::I32, _) => TextKernel::CharacterLength(part),
        // Never too long.
        (Type::Text, _) => TextKernel::Text(TextPart::Substring {
            start: random.between(-1, 9) as i64,
            length: Some(random.below(6)),
        }),
        (_, 0 | 1) => {
            let pattern = *random.pick(&PATTERNS);
            let pattern = LikePattern::parse(pattern, None);
            TextKernel::Like { input: part, pattern, is_negated }
        }
        (_, 2) => {
            let with = random.pick(&CONSTANTS).as_bytes().to_vec();
            TextKernel::Compare { op: *random.pick(&COMPARISONS), input: part, with }
        }
        _ => {
            let count = random.below(4);
            let values = (0..count).map(|_| random.pick(&CONSTANTS).as_bytes().to_vec()).collect();
            TextKernel::In { input: part, values, is_negated }
        }
    }))
}

/// One of a handful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// Its bytes.
    Length,
    /// A number of 64 bits of its bytes; NULL of a text without any.
    Digest,
    /// Whether it has an `e`; NULL of texts of 7 bytes.
    HasE,
    /// Its length less a half; not a number where that is 4.5.
    Half,
    /// Its first byte; NULL of a text without any.
    First,
}

pub(crate) fn of_type(ty: Type) -> Arc<dyn TextFunction> {
    Arc::new(match ty {
        Type::I32 => Function::Length,
        Type::I64 => Function::Digest,
        Type::Bool => Function::HasE,
        Type::F64 => Function::Half,
        Type::Text => Function::First,
        Type::I128 => panic!("no function of text is a decimal"),
    })
}

impl TextFunction for Function {
    fn ty(&self) -> Type {
        match self {
            Function::Length => Type::I32,
            Function::Digest => Type::I64,
            Function::HasE => Type::Bool,
            Function::Half => Type::F64,
            Function::First => Type::Text,
        }
    }

    fn is_nullable(&self) -> bool {
        !matches!(self, Function::Length | Function::Half)
    }

    fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults> {
        let digest = |text: &[u8]| text.iter().fold(7, |sum: i64, byte| sum * 31 + i64::from(*byte));
        let half = |text: &[u8]| if text.len() == 5 { f64::NAN } else { text.len() as f64 - 0.5 };
        let all = entries.iter();
        Ok(match self {
            Function::Length => TextResults::I32(all.map(|text| Some(text.len() as i32)).collect()),
            Function::Digest => {
                TextResults::I64(all.map(|text| (!text.is_empty()).then(|| digest(text))).collect())
            }
            Function::HasE => {
                TextResults::Bool(all.map(|text| (text.len() != 7).then(|| text.contains(&b'e'))).collect())
            }
            Function::Half => TextResults::F64(all.map(|text| Some(half(text))).collect()),
            Function::First => {
                TextResults::Text(all.map(|text| text.first().map(|byte| vec![*byte])).collect())
            }
        })
    }

    fn name(&self) -> String {
        format!("{self:?}")
    }
}
