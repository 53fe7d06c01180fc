//! Functions of text that kernels compute themselves, from its bytes.
//!
//! Text is UTF-8. Its order is that of its bytes, which is that of its characters' code points too.

use crate::ir::{CompareOp, Type};

/// The longest text that kernels hold as a value, in bytes.
pub const SHORT_TEXT_BYTES: usize = 15;

/// Stands for one character in the pieces of a [`LikePattern`]: a byte that UTF-8 never has.
pub const ANY_CHARACTER: u8 = 0xFF;

/// A function of one text that kernels compute from its bytes. Of NULL the result is NULL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TextKernel {
    /// Whether the text matches a pattern, or does not.
    Like {
        /// The text.
        input: TextPart,
        /// What it is held against.
        pattern: LikePattern,
        /// NOT LIKE.
        is_negated: bool,
    },
    /// A comparison of its bytes with a constant.
    Compare {
        /// The order that is tested.
        op: CompareOp,
        /// The first operand.
        input: TextPart,
        /// The second.
        with: Vec<u8>,
    },
    /// Whether the text is among these, or is not.
    In {
        /// The text.
        input: TextPart,
        /// Constants, in any order.
        values: Vec<Vec<u8>>,
        /// NOT IN.
        is_negated: bool,
    },
    /// How many bytes it has, as `I32`.
    ByteLength(TextPart),
    /// How many characters it has, as `I32`.
    CharacterLength(TextPart),
    /// The text itself, as `Text`. One of more than [`SHORT_TEXT_BYTES`] ends the run with an error of kind
    /// `Unsupported`.
    Text(TextPart),
    /// Negation.
    Not(Box<TextKernel>),
    /// Whether all hold.
    And(Vec<TextKernel>),
    /// Whether any holds.
    Or(Vec<TextKernel>),
}

impl TextKernel {
    /// The type of its results.
    pub fn ty(&self) -> Type {
        match self {
            TextKernel::ByteLength(_) | TextKernel::CharacterLength(_) => Type::I32,
            TextKernel::Text(_) => Type::Text,
            _ => Type::Bool,
        }
    }
}

/// Which part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextPart {
    /// All of it.
    Whole,
    /// As SQL's `substr`: the characters whose numbers, from 1, are at least `start` and below `start` + `length`.
    Substring {
        /// The first one; below 1, characters that are not there count towards the length.
        start: i64,
        /// How many; `None` is all from `start` on.
        length: Option<u64>,
    },
}

/// The pattern of a LIKE.
///
/// ```text
///   a%b_c%     "a" starts the text, "b_c" follows anywhere, anything may end it
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LikePattern {
    /// What stands between `%`, in order, none of it empty; [`ANY_CHARACTER`] stands for `_`.
    pub pieces: Vec<Vec<u8>>,
    /// Whether the first piece starts the text; without pieces, whether the text is empty.
    pub is_start_anchored: bool,
    /// Whether the last piece ends the text; without pieces, whether the text is empty.
    pub is_end_anchored: bool,
}

impl LikePattern {
    /// Reads a pattern as SQL writes it. `%` stands for any characters, `_` for one, and `escape` (without one, a
    /// backslash) makes the character after it stand for itself; at the end it stands for itself.
    pub fn parse(pattern: &str, escape: Option<char>) -> Self {
        let escape = escape.unwrap_or('\\');
        let mut pieces = vec![Vec::new()];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let piece = pieces.last_mut().expect("there is one from the start on");
            let mut literal = |character: char| {
                piece.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            };
            match character {
                _ if character == escape => literal(characters.next().unwrap_or(escape)),
                '%' => pieces.push(Vec::new()),
                '_' => piece.push(ANY_CHARACTER),
                _ => literal(character),
            }
        }
        // What is empty at an end of several pieces lies beside a `%`.
        let is_free = |end: Option<&Vec<u8>>| pieces.len() > 1 && end.is_some_and(Vec::is_empty);
        let (is_start_anchored, is_end_anchored) = (!is_free(pieces.first()), !is_free(pieces.last()));
        pieces.retain(|piece| !piece.is_empty());
        Self { pieces, is_start_anchored, is_end_anchored }
    }

    /// Whether it has a `_`.
    pub fn has_any_character(&self) -> bool {
        self.pieces.iter().flatten().any(|byte| *byte == ANY_CHARACTER)
    }
}
