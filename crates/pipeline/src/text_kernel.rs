//! Functions of text that kernels compute themselves, from its bytes.
//!
//! Text is UTF-8. Its order is that of its bytes, which is that of its characters' code points too.

use std::sync::Arc;

use crate::ir::{CompareOp, TextExtract, TextHashKey, Type};

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
    /// The hash that stands for the text where texts are equal or not, as `I128`.
    Hash {
        /// The text.
        input: TextPart,
        /// What it is keyed by. Another key is no other program.
        key: TextHashKey,
    },
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
            TextKernel::Hash { .. } => Type::I128,
            _ => Type::Bool,
        }
    }
}

/// Which part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// What a pattern takes out; all of it where the text does not match.
    Extract(Arc<TextExtract>),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pattern: &str) -> (Vec<Vec<u8>>, bool, bool) {
        let LikePattern { pieces, is_start_anchored, is_end_anchored } = LikePattern::parse(pattern, None);
        (pieces, is_start_anchored, is_end_anchored)
    }

    fn pieces(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        pieces.iter().map(|piece| piece.to_vec()).collect()
    }

    #[test]
    fn a_pattern_is_the_pieces_between_percent_signs() {
        assert_eq!(parsed(""), (pieces(&[]), true, true));
        assert_eq!(parsed("%"), (pieces(&[]), false, false));
        assert_eq!(parsed("%%"), (pieces(&[]), false, false));
        assert_eq!(parsed("abc"), (pieces(&[b"abc"]), true, true));
        assert_eq!(parsed("abc%"), (pieces(&[b"abc"]), true, false));
        assert_eq!(parsed("%abc"), (pieces(&[b"abc"]), false, true));
        assert_eq!(parsed("%a%%b%"), (pieces(&[b"a", b"b"]), false, false));
        assert_eq!(parsed("a%b"), (pieces(&[b"a", b"b"]), true, true));
        assert_eq!(parsed("é_%"), (pieces(&[b"\xC3\xA9\xFF"]), true, false));
    }

    #[test]
    fn an_escape_makes_the_next_character_stand_for_itself_and_at_the_end_is_itself() {
        assert_eq!(parsed(r"\%a\_%"), (pieces(&[b"%a_"]), true, false));
        assert_eq!(parsed(r"\a\\"), (pieces(&[br"a\"]), true, true));
        assert_eq!(parsed(r"a\"), (pieces(&[br"a\"]), true, true));
        assert_eq!(parsed(r"%\"), (pieces(&[br"\"]), false, true));
        assert_eq!(parsed(r"a\%"), (pieces(&[b"a%"]), true, true));
        assert_eq!(LikePattern::parse(r"!%\_", Some('!')).pieces, pieces(&[b"%\\\xFF"]));
    }

    /// Whether `text` matches `pattern` by what arrow's kernel makes of it (arrow-string 59, `predicate.rs`): a regular
    /// expression with `.*` for `%`, `.` for `_` that takes a line feed too, and a backslash that is dropped in front of
    /// what it makes literal.
    fn matches(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|skipped| matches(&text[skipped..], rest)),
            ['_', rest @ ..] => !text.is_empty() && matches(&text[1..], rest),
            ['\\', literal, rest @ ..] | [literal, rest @ ..] => {
                text.first() == Some(literal) && matches(&text[1..], rest)
            }
        }
    }

    /// The same by the pieces, from the left: the first match of each.
    fn matches_pieces(text: &str, pattern: &LikePattern) -> bool {
        let fits = |at: usize, piece: &[u8]| {
            let mut rest = text[at..].chars();
            for character in String::from_utf8_lossy(&piece_text(piece)).chars() {
                let found = rest.next()?;
                if character != '\u{1}' && character != found {
                    return None;
                }
            }
            Some(text.len() - rest.as_str().len())
        };
        let mut at = 0;
        for (number, piece) in pattern.pieces.iter().enumerate() {
            let is_last = number + 1 == pattern.pieces.len();
            let mut starts = (at..=text.len()).filter(|start| text.is_char_boundary(*start));
            let found = match (number == 0 && pattern.is_start_anchored, is_last && pattern.is_end_anchored) {
                (true, true) => fits(0, piece).filter(|end| *end == text.len()),
                (true, false) => fits(0, piece),
                (false, true) => starts.find_map(|start| fits(start, piece).filter(|end| *end == text.len())),
                (false, false) => starts.find_map(|start| fits(start, piece)),
            };
            let Some(end) = found else { return false };
            at = end;
        }
        !pattern.pieces.is_empty() || !pattern.is_start_anchored || text.is_empty()
    }

    /// `piece` with a character that no test has for `ANY_CHARACTER`.
    fn piece_text(piece: &[u8]) -> Vec<u8> {
        piece.iter().map(|byte| if *byte == ANY_CHARACTER { 1 } else { *byte }).collect()
    }

    #[test]
    fn pieces_match_what_the_pattern_matches() {
        let alphabet = ['a', 'b', 'é', '%', '_', '\\', '\n'];
        let string = |number: usize, length: usize| -> String {
            (0..length)
                .map(|place| alphabet[number / alphabet.len().pow(place as u32) % alphabet.len()])
                .collect()
        };
        let all = |length_max: usize| {
            (0..=length_max).flat_map(move |length| {
                (0..alphabet.len().pow(length as u32)).map(move |n| string(n, length))
            })
        };
        let texts: Vec<(String, Vec<char>)> = all(2)
            .chain(["aab".into(), "éab".into(), "abab".into()])
            .map(|t| (t.clone(), t.chars().collect()))
            .collect();
        for pattern in all(4) {
            let characters: Vec<char> = pattern.chars().collect();
            let parsed = LikePattern::parse(&pattern, None);
            for (text, text_characters) in &texts {
                let expected = matches(text_characters, &characters);
                assert_eq!(matches_pieces(text, &parsed), expected, "{text:?} LIKE {pattern:?}");
            }
        }
    }
}
