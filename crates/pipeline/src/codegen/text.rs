//! Functions of text that kernels compute from its bytes, and the constants that they hold it against.
//!
//! What a pattern is made of (how many pieces, what they are anchored to, whether it has a `_`) is compiled in; its bytes
//! lie in a table in memory, as do literals and the numbers of a substring. So the same query over other constants finds
//! its program in the cache.
//!
//! ```text
//!   table of text constants   entry 0 │ entry 1 │ … │ entries of lists │ bytes, each text from a multiple of 4 on
//! ```

use std::sync::Arc;

use pelton_error::{Error, Result};

use super::args::Arg;
use super::block::Block;
use super::scope::Scope;
use super::source::RowScope;
use super::value::{Form, Value};
use crate::ir::{
    ANY_CHARACTER, Bounds, CompareOp, ExtractStep, LikePattern, SHORT_TEXT_BYTES, TextExtract, TextFunction,
    TextHashKey, TextKernel, TextPart, Type,
};

/// Bytes of an entry of the table.
const ENTRY_BYTES: usize = 16;

/// An entry of the table, see cuda/pipeline/text.h.
#[derive(Debug, Clone)]
enum TextConstant {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Substring { skipped: u32, length: u32 },
    HashKey(TextHashKey),
    Extract(Arc<TextExtract>),
}

/// What a step of a pattern is, see cuda/pipeline/text.h.
#[derive(Debug, Clone, Copy)]
enum StepKind {
    Literal,
    Optional,
    /// Bytes of a set.
    Set,
    /// Bytes but one.
    Until,
    Begin,
    End,
}

/// The text constants of one kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextConstants {
    entries: Vec<TextConstant>,
}

impl TextConstants {
    /// The number of one more.
    fn add(&mut self, constant: TextConstant) -> usize {
        self.entries.push(constant);
        self.entries.len() - 1
    }

    /// The table; empty where there is no constant.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        // Entries of lists come after all others.
        let mut listed: Vec<Listed<'_>> = Vec::new();
        let mut words: Vec<[u32; 4]> = Vec::new();
        let listed_count: usize = self.entries.iter().map(TextConstant::listed).sum();
        let mut bytes_offset = (self.entries.len() + listed_count) * ENTRY_BYTES;
        let mut bytes: Vec<u8> = Vec::new();
        let mut place_of = |text: &[u8]| {
            let offset = bytes_offset as u32;
            bytes.extend_from_slice(text);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes_offset += text.len().next_multiple_of(4);
            offset
        };
        let mut text_entry = |text: &[u8]| {
            let first = |at: usize| u32::from(text.get(at).copied().unwrap_or(0)) << (8 * at);
            let mask = |at: usize| if at < text.len() { 0xFF << (8 * at) } else { 0 };
            [place_of(text), text.len() as u32, (0..4).map(first).sum(), (0..4).map(mask).sum()]
        };
        for entry in &self.entries {
            words.push(match entry {
                TextConstant::Text(text) => text_entry(text),
                TextConstant::List(texts) => {
                    let first = self.entries.len() + listed.len();
                    listed.extend(texts.iter().map(|text| Listed::Text(text)));
                    [first as u32, texts.len() as u32, 0, 0]
                }
                TextConstant::Extract(extract) => {
                    let first = self.entries.len() + listed.len();
                    listed.extend(extract.steps().iter().map(Listed::Step));
                    [first as u32, extract.steps().len() as u32, extract.optional_count() as u32, 0]
                }
                TextConstant::Substring { skipped, length } => [*skipped, *length, 0, 0],
                TextConstant::HashKey(TextHashKey(first, second)) => {
                    [*first as u32, (*first >> 32) as u32, *second as u32, (*second >> 32) as u32]
                }
            });
        }
        for entry in listed {
            words.push(match entry {
                Listed::Text(text) => text_entry(text),
                Listed::Step(step) => {
                    let Step { kind, bytes, count, byte } = Step::of(step);
                    [text_entry(&bytes)[0], count, kind as u32, byte]
                }
            });
        }
        let words = words.iter().flatten().flat_map(|word| word.to_le_bytes());
        words.chain(bytes.iter().copied()).collect()
    }
}

impl TextConstant {
    /// Entries that it takes behind those of all constants.
    fn listed(&self) -> usize {
        match self {
            TextConstant::List(texts) => texts.len(),
            TextConstant::Extract(extract) => extract.steps().len(),
            _ => 0,
        }
    }
}

/// What stands behind the entries of all constants.
enum Listed<'a> {
    Text(&'a [u8]),
    Step(&'a ExtractStep),
}

/// A step of a pattern as the table has it.
struct Step {
    kind: StepKind,
    /// What lies among the bytes.
    bytes: Vec<u8>,
    /// How many bytes a text is to have, of a set at least.
    count: u32,
    /// What ends [`StepKind::Until`].
    byte: u32,
}

impl Step {
    fn of(step: &ExtractStep) -> Self {
        let step_of = |kind, bytes: &[u8], count: usize| Self {
            kind,
            bytes: bytes.to_vec(),
            count: count as u32,
            byte: 0,
        };
        match step {
            ExtractStep::Literal(bytes) => step_of(StepKind::Literal, bytes, bytes.len()),
            ExtractStep::Optional(bytes) => step_of(StepKind::Optional, bytes, bytes.len()),
            ExtractStep::Bytes { set, is_some } => match set.lacks_one() {
                Some(byte) => {
                    Self { byte: byte.into(), ..step_of(StepKind::Until, &[], usize::from(*is_some)) }
                }
                None => {
                    let set: Vec<u8> = set.0.iter().flat_map(|word| word.to_le_bytes()).collect();
                    step_of(StepKind::Set, &set, usize::from(*is_some))
                }
            },
            ExtractStep::Begin => step_of(StepKind::Begin, &[], 0),
            ExtractStep::End => step_of(StepKind::End, &[], 0),
        }
    }
}

/// `function` of `text`, which is a view.
pub(super) fn of_view(
    text: &Value,
    function: &dyn TextFunction,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<Value> {
    let Some(kernel) = function.kernel() else {
        return Err(Error::unsupported(format!("{} of text without a dictionary", function.name())));
    };
    let (ty, wanted) = (kernel.ty(), function.ty());
    if ty != wanted && (ty, wanted) != (Type::I32, Type::I64) {
        let name = function.name();
        return Err(Error::invalid_input(format!("{name} of type {wanted:?}, computed as {ty:?}")));
    }
    let value = match &kernel {
        TextKernel::Text(part) => short(text, part, function.name(), scope, block),
        TextKernel::Hash { .. } => {
            let code = code_of(&kernel, &text.code, scope);
            Value::new(block.define(Form::I128.c_type(), "h", code), Type::I128, None)
        }
        TextKernel::ByteLength(_) | TextKernel::CharacterLength(_) => {
            let code = code_of(&kernel, &text.code, scope);
            let code = block.define(Form::of(wanted, None).c_type(), "t", code);
            Value::new(code, wanted, Some(Bounds { min: 0, max: i32::MAX.into() }))
        }
        _ => Value::new(block.define("bool", "b", code_of(&kernel, &text.code, scope)), Type::Bool, None),
    };
    Ok(value.with_valid(text.valid.clone()))
}

/// A part of the view as a value; where it is too long the run is refused.
fn short(
    text: &Value,
    part: &TextPart,
    name: String,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Value {
    let view = block.define("auto", "t", part_of(part, &text.code, scope));
    let what = format!("{name} has more than {SHORT_TEXT_BYTES} bytes");
    scope.refuse_where(&format!("byte_length({view}) > SHORT_TEXT_BYTES"), &text.valid, what, block);
    let code = block.define(Form::Short.c_type(), "t", format!("short_text({view})"));
    Value { form: Form::Short, ..Value::new(code, Type::Text, None) }
}

/// A C++ expression for `kernel` of the view `text`, but for `Text`. What decides AND and OR early saves the rest.
fn code_of(kernel: &TextKernel, text: &str, scope: &mut RowScope<'_, '_>) -> String {
    let is_not = |is_negated: bool| if is_negated { "!" } else { "" };
    match kernel {
        TextKernel::Like { input, pattern, is_negated } => {
            format!("{}{}", is_not(*is_negated), like(pattern, &part_of(input, text, scope), scope))
        }
        TextKernel::Compare { op, input, with } => {
            let part = part_of(input, text, scope);
            let index = scope.kernel.text_constants.add(TextConstant::Text(with.clone()));
            let (function, test) = match op {
                CompareOp::Eq => ("text_equals", ""),
                CompareOp::Ne => ("!text_equals", ""),
                CompareOp::Lt => ("text_order", " < 0"),
                CompareOp::Le => ("text_order", " <= 0"),
                CompareOp::Gt => ("text_order", " > 0"),
                CompareOp::Ge => ("text_order", " >= 0"),
            };
            format!("({function}({part}, {}, {index}){test})", table(scope))
        }
        TextKernel::In { input, values, is_negated } => {
            let part = part_of(input, text, scope);
            let index = scope.kernel.text_constants.add(TextConstant::List(values.clone()));
            format!("{}text_in({part}, {}, {index})", is_not(*is_negated), table(scope))
        }
        TextKernel::ByteLength(part) => format!("i32(byte_length({}))", part_of(part, text, scope)),
        TextKernel::CharacterLength(part) => format!("text_characters({})", part_of(part, text, scope)),
        TextKernel::Hash { input, key } => {
            let part = part_of(input, text, scope);
            let index = scope.kernel.text_constants.add(TextConstant::HashKey(*key));
            format!("text_hash({part}, {}, {index})", table(scope))
        }
        TextKernel::Text(_) => unreachable!("a text is no part of another function"),
        TextKernel::Not(input) => format!("!{}", code_of(input, text, scope)),
        TextKernel::And(inputs) => all_of(inputs, " && ", "true", text, scope),
        TextKernel::Or(inputs) => all_of(inputs, " || ", "false", text, scope),
    }
}

fn all_of(
    inputs: &[TextKernel],
    sign: &str,
    of_none: &str,
    text: &str,
    scope: &mut RowScope<'_, '_>,
) -> String {
    let inputs: Vec<String> = inputs.iter().map(|input| code_of(input, text, scope)).collect();
    if inputs.is_empty() { of_none.into() } else { format!("({})", inputs.join(sign)) }
}

fn like(pattern: &LikePattern, text: &str, scope: &mut RowScope<'_, '_>) -> String {
    let pieces = pattern.pieces.iter().cloned();
    let first = scope.kernel.text_constants.entries.len();
    pieces.for_each(|piece| _ = scope.kernel.text_constants.add(TextConstant::Text(piece)));
    let function = if pattern.has_any_character() { "text_like_characters" } else { "text_like" };
    let LikePattern { pieces, is_start_anchored, is_end_anchored } = pattern;
    let (count, table) = (pieces.len(), table(scope));
    format!("{function}<{is_start_anchored}, {is_end_anchored}, {count}>({text}, {table}, {first})")
}

fn part_of(part: &TextPart, text: &str, scope: &mut RowScope<'_, '_>) -> String {
    let (function, constant) = match part {
        TextPart::Whole => return text.to_owned(),
        TextPart::Substring { start, length } => {
            let (skipped, length) = substring(*start, *length);
            ("text_part", TextConstant::Substring { skipped, length })
        }
        TextPart::Extract(extract) => ("text_extract", TextConstant::Extract(Arc::clone(extract))),
    };
    let index = scope.kernel.text_constants.add(constant);
    format!("{function}({text}, {}, {index})", table(scope))
}

/// Characters before a substring, and how many it has at most; the greatest number is all.
fn substring(start: i64, length: Option<u64>) -> (u32, u32) {
    let skipped = u32::try_from((start.max(1) - 1).unsigned_abs()).unwrap_or(u32::MAX);
    let missing = if start < 1 { start.abs_diff(1) } else { 0 };
    let length = length.map_or(u64::MAX, |length| length.saturating_sub(missing));
    (skipped, u32::try_from(length).unwrap_or(u32::MAX))
}

fn table(scope: &mut RowScope<'_, '_>) -> String {
    scope.kernel.args.pointer(Arg::TextConstants, "const u8")
}

// As in cuda/pipeline/text.h.
const _: () = assert!(ANY_CHARACTER == 0xFF && SHORT_TEXT_BYTES == 15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substring_that_starts_before_the_text_is_the_shorter_for_it() {
        assert_eq!(substring(1, Some(2)), (0, 2));
        assert_eq!(substring(3, None), (2, u32::MAX));
        assert_eq!(substring(0, Some(2)), (0, 1));
        assert_eq!(substring(-1, Some(2)), (0, 0));
        assert_eq!(substring(-5, Some(2)), (0, 0));
        assert_eq!(substring(-5, None), (0, u32::MAX));
        assert_eq!(substring(i64::MAX, Some(u64::MAX)), (u32::MAX, u32::MAX));
        assert_eq!(substring(i64::MIN, Some(u64::MAX)), (0, u32::MAX));
    }

    #[test]
    fn the_table_has_entries_then_those_of_lists_then_bytes() {
        let mut constants = TextConstants::default();
        constants.add(TextConstant::Text(b"google".to_vec()));
        constants.add(TextConstant::List(vec![b"a".to_vec(), Vec::new()]));
        constants.add(TextConstant::Substring { skipped: 3, length: 2 });
        let bytes = constants.into_bytes();
        let words: Vec<u32> =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let goog = u32::from_le_bytes(*b"goog");
        assert_eq!(words[..4], [80, 6, goog, u32::MAX]);
        assert_eq!(words[4..8], [3, 2, 0, 0]);
        assert_eq!(words[8..12], [3, 2, 0, 0]);
        assert_eq!(words[12..16], [88, 1, u32::from(b'a'), 0xFF]);
        assert_eq!(words[16..20], [92, 0, 0, 0]);
        assert_eq!(&bytes[80..], b"google\0\0a\0\0\0");
        assert!(TextConstants::default().into_bytes().is_empty());
    }
}
