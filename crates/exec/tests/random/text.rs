//! Functions of text of every type that a function may have.

use std::sync::Arc;

use pelton_error::Result;
use pelton_pipeline::ir::{TextFunction, TextResults, Type};

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
