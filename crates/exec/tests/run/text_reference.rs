//! What functions of text that kernels compute give, one text at a time.

use pelton_error::Result;
use pelton_pipeline::ir::{
    ANY_CHARACTER, CompareOp, LikePattern, TextFunction, TextKernel, TextPart, TextResults, Type,
};

/// A function that kernels compute; over a dictionary, computed here.
#[derive(Debug, Clone)]
pub(crate) struct ByKernel(pub(crate) TextKernel);

impl TextFunction for ByKernel {
    fn ty(&self) -> Type {
        self.0.ty()
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults> {
        let all = entries.iter().map(|text| std::str::from_utf8(text).expect("UTF-8"));
        Ok(match &self.0 {
            TextKernel::ByteLength(part) => {
                TextResults::I32(all.map(|text| Some(part_of(text, part).len() as i32)).collect())
            }
            TextKernel::CharacterLength(part) => {
                TextResults::I32(all.map(|text| Some(part_of(text, part).chars().count() as i32)).collect())
            }
            TextKernel::Text(part) => {
                TextResults::Text(all.map(|text| Some(part_of(text, part).into())).collect())
            }
            TextKernel::Hash { input, key } => {
                TextResults::I128(all.map(|text| Some(key.hash(part_of(text, input).as_bytes()))).collect())
            }
            condition => TextResults::Bool(all.map(|text| Some(holds(condition, text))).collect()),
        })
    }

    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn kernel(&self) -> Option<TextKernel> {
        Some(self.0.clone())
    }
}

pub(crate) fn part_of(text: &str, part: &TextPart) -> String {
    let (start, length) = match part {
        TextPart::Whole => return text.into(),
        TextPart::Substring { start, length } => (*start, *length),
        TextPart::Extract(extract) => return text[extract.part_of(text.as_bytes())].into(),
    };
    let end = length.map_or(i128::MAX, |length| i128::from(start) + i128::from(length));
    let is_inside = |place: &i128| *place >= i128::from(start) && *place < end;
    text.chars().zip(1..).filter(|(_, place)| is_inside(place)).map(|(character, _)| character).collect()
}

fn holds(condition: &TextKernel, text: &str) -> bool {
    match condition {
        TextKernel::Like { input, pattern, is_negated } => {
            like(&part_of(text, input), pattern) != *is_negated
        }
        TextKernel::Compare { op, input, with } => {
            let order = part_of(text, input).as_bytes().cmp(with);
            match op {
                CompareOp::Eq => order.is_eq(),
                CompareOp::Ne => order.is_ne(),
                CompareOp::Lt => order.is_lt(),
                CompareOp::Le => order.is_le(),
                CompareOp::Gt => order.is_gt(),
                CompareOp::Ge => order.is_ge(),
            }
        }
        TextKernel::In { input, values, is_negated } => {
            values.contains(&part_of(text, input).into_bytes()) != *is_negated
        }
        TextKernel::Not(input) => !holds(input, text),
        TextKernel::And(inputs) => inputs.iter().all(|input| holds(input, text)),
        TextKernel::Or(inputs) => inputs.iter().any(|input| holds(input, text)),
        other => panic!("{other:?} is no condition"),
    }
}

/// What may stand in a text.
enum Wanted {
    Any,
    One,
    Character(char),
}

/// By which ends of the pattern's parts each end of the text's parts may be reached.
fn like(text: &str, pattern: &LikePattern) -> bool {
    let mut wanted = Vec::new();
    if !pattern.is_start_anchored {
        wanted.push(Wanted::Any);
    }
    for (number, piece) in pattern.pieces.iter().enumerate() {
        if number > 0 {
            wanted.push(Wanted::Any);
        }
        for part in piece.split_inclusive(|byte| *byte == ANY_CHARACTER) {
            let (literal, is_any) = match part.split_last() {
                Some((&ANY_CHARACTER, literal)) => (literal, true),
                _ => (part, false),
            };
            wanted.extend(std::str::from_utf8(literal).unwrap().chars().map(Wanted::Character));
            wanted.extend(is_any.then_some(Wanted::One));
        }
    }
    if !pattern.is_end_anchored {
        wanted.push(Wanted::Any);
    }
    let text: Vec<char> = text.chars().collect();
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for wanted in wanted {
        let mut next = vec![false; text.len() + 1];
        for at in 0..=text.len() {
            next[at] = match wanted {
                Wanted::Any => reached[at] || (at > 0 && next[at - 1]),
                Wanted::One => at > 0 && reached[at - 1],
                Wanted::Character(character) => at > 0 && reached[at - 1] && text[at - 1] == character,
            };
        }
        reached = next;
    }
    reached[text.len()]
}
