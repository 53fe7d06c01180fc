//! Tells code from comments and strings in Rust source, so that checks on words see what they mean.
//!
//! [`split`] returns two texts of the same length and lines as the source: one with only the code, one with
//! only the comments; everything else is blanks. Character literals and lifetimes are told apart the way the
//! compiler's lexer does: `'a` followed by another `'` is a character.

/// The two halves of a source text; strings are in neither.
pub(crate) struct Halves {
    pub(crate) code: String,
    pub(crate) comments: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits `source` into code and comments.
pub(crate) fn split(source: &str) -> Halves {
    let chars: Vec<char> = source.chars().collect();
    let mut kinds = vec![Kind::Code; chars.len()];
    let mut at = 0;
    while at < chars.len() {
        let (end, kind) = token(&chars, at);
        kinds[at..end].fill(kind);
        at = end;
    }
    let only = |wanted: Kind| {
        let keep = |(&char, &kind): (&char, &Kind)| if kind == wanted || char == '\n' { char } else { ' ' };
        chars.iter().zip(&kinds).map(keep).collect()
    };
    Halves { code: only(Kind::Code), comments: only(Kind::Comment) }
}

/// Where the token at `at` ends, and what it is. Code goes word by word or character by character.
fn token(chars: &[char], at: usize) -> (usize, Kind) {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => (find(chars, at, '\n'), Kind::Comment),
        ['/', '*', ..] => (block_comment_end(chars, at), Kind::Comment),
        ['"', ..] => (string_end(chars, at + 1), Kind::Literal),
        ['\'', '\\', ..] => (find(chars, at + 3, '\'') + 1, Kind::Literal),
        ['\'', _, '\'', ..] => (at + 3, Kind::Literal),
        [first, ..] if first.is_alphanumeric() || *first == '_' => word(chars, at),
        _ => (at + 1, Kind::Code),
    }
    .clamp_to(chars.len())
}

/// A word, or the string whose prefix it is: `r"…"`, `b"…"`, `br#"…"#`, `c"…"`.
fn word(chars: &[char], at: usize) -> (usize, Kind) {
    let len = chars[at..].iter().take_while(|char| char.is_alphanumeric() || **char == '_').count();
    let prefix: String = chars[at..at + len].iter().collect();
    let end = at + len;
    match prefix.as_str() {
        "r" | "br" | "cr" => match raw_string_end(chars, end) {
            Some(end) => (end, Kind::Literal),
            None => (end, Kind::Code),
        },
        "b" | "c" if chars.get(end) == Some(&'"') => (string_end(chars, end + 1), Kind::Literal),
        _ => (end, Kind::Code),
    }
}

/// `at` is behind the opening quote.
fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// `at` is behind the `r`; `None` if no string begins here (a raw identifier).
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|char| **char == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let close: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = at + hashes + 1;
    let found = chars[body..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(chars.len(), |offset| body + offset + close.len()))
}

/// Block comments nest.
fn block_comment_end(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match chars[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn find(chars: &[char], from: usize, wanted: char) -> usize {
    let from = from.min(chars.len());
    chars[from..].iter().position(|char| *char == wanted).map_or(chars.len(), |offset| from + offset)
}

trait ClampTo {
    fn clamp_to(self, len: usize) -> Self;
}

impl ClampTo for (usize, Kind) {
    /// Source that ends within a literal ends there.
    fn clamp_to(self, len: usize) -> Self {
        (self.0.min(len), self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Vec<&str> {
        text.split(|char: char| !char.is_alphanumeric() && char != '_')
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        let halves = split("let a = \"secret \\\" still\"; // note\n/* outer /* inner */ more */ b");
        assert_eq!(words_of(&halves.code), ["let", "a", "b"]);
        assert_eq!(words_of(&halves.comments), ["note", "outer", "inner", "more"]);
    }

    #[test]
    fn raw_and_byte_strings_end_at_their_own_quote() {
        let halves = split("f(r#\"in \" it\"#, b\"x\", br\"y\", c\"z\", r#match) end");
        assert_eq!(words_of(&halves.code), ["f", "r", "match", "end"]);
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        let halves = split("fn f<'a>(x: &'a str) { g('\"', '\\'', 'q', '\\u{7f}') } // end");
        assert_eq!(words_of(&halves.code), ["fn", "f", "a", "x", "a", "str", "g"]);
        assert_eq!(words_of(&halves.comments), ["end"]);
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = "a\n\"x\ny\"\n// c\nb";
        let halves = split(source);
        assert_eq!(halves.code.lines().count(), source.lines().count());
        assert_eq!(halves.code.lines().nth(4), Some("b"));
        assert_eq!(halves.comments.lines().nth(3), Some("// c"));
    }

    #[test]
    fn unfinished_source_ends_quietly() {
        for source in ["\"abc", "r#\"abc", "/* abc", "'\\", "\"abc\\", "b\""] {
            assert_eq!(split(source).code.chars().count(), source.chars().count(), "{source}");
        }
    }
}
