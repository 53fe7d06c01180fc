//! Tokens of SQL text: words, names, strings, comments. Any text has tokens; what is not closed says so.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or an unquoted name.
    Word,
    /// Digits, and what belongs to a number.
    Number,
    /// A name in double quotes or backquotes.
    QuotedName,
    /// A string in single quotes or dollar quotes.
    Text,
    /// `-- …` or `/* … */`.
    Comment,
    /// The end of a statement.
    Semicolon,
    /// One character of anything else.
    Symbol,
}

/// A token and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// The token as it is written, with its quotes.
    pub text: &'a str,
    /// Byte at which it starts.
    pub start: usize,
    /// False for quotes and comments that the text ends inside of.
    pub is_closed: bool,
}

impl Token<'_> {
    /// Byte after its last.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// True for this keyword, however it is written.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// True for this symbol.
    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// The name that it stands for: words in lower case, quoted names as they are.
    pub fn name(&self) -> Option<String> {
        match self.kind {
            Kind::Word => Some(self.text.to_lowercase()),
            Kind::QuotedName => {
                let quote = &self.text[..1];
                let inner = &self.text[1..];
                let inner = if self.is_closed { &inner[..inner.len() - 1] } else { inner };
                Some(inner.replace(&quote.repeat(2), quote))
            }
            _ => None,
        }
    }
}

/// The tokens of `text`; white space is between them.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    scan(text).collect()
}

/// The tokens of `text`, found as they are asked for.
pub(crate) fn scan(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let start = end + text[end..].find(|c: char| !c.is_whitespace())?;
        let (kind, length, is_closed) = token_at(&text[start..]);
        end = start + length;
        Some(Token { kind, text: &text[start..end], start, is_closed })
    })
}

/// Kind, length in bytes and whether it is closed of the token that `rest` starts with.
fn token_at(rest: &str) -> (Kind, usize, bool) {
    let first = rest.chars().next().unwrap_or(' ');
    let closed = |(length, is_closed): (usize, bool), kind| (kind, length, is_closed);
    match first {
        '\'' => closed(quoted_length(rest, '\'', false), Kind::Text),
        '"' | '`' => closed(quoted_length(rest, first, false), Kind::QuotedName),
        'e' | 'E' if rest[1..].starts_with('\'') => {
            let (length, is_closed) = quoted_length(&rest[1..], '\'', true);
            (Kind::Text, length + 1, is_closed)
        }
        '$' if dollar_tag(rest).is_some() => closed(dollar_length(rest), Kind::Text),
        '-' if rest.starts_with("--") => (Kind::Comment, rest.find('\n').unwrap_or(rest.len()), true),
        '/' if rest.starts_with("/*") => closed(block_comment_length(rest), Kind::Comment),
        ';' => (Kind::Semicolon, 1, true),
        '0'..='9' => (Kind::Number, number_length(rest), true),
        first if is_word_char(first) => {
            (Kind::Word, rest.find(|c| !is_word_char(c)).unwrap_or(rest.len()), true)
        }
        first => (Kind::Symbol, first.len_utf8(), true),
    }
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@' | '#')
}

/// Length of `rest`, which starts with `quote`, up to the quote that closes it; doubled quotes are part of it.
fn quoted_length(rest: &str, quote: char, has_escapes: bool) -> (usize, bool) {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if has_escapes && c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return (at + 1, true);
        }
    }
    (rest.len(), false)
}

/// `$tag$` or `$$` at the start of `rest`.
fn dollar_tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 2;
    let name = &rest[1..end - 1];
    let is_tag = !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_tag.then(|| &rest[..end])
}

fn dollar_length(rest: &str) -> (usize, bool) {
    let tag = dollar_tag(rest).unwrap_or("$");
    match rest[tag.len()..].find(tag) {
        Some(at) => (at + 2 * tag.len(), true),
        None => (rest.len(), false),
    }
}

/// Comments may hold comments.
fn block_comment_length(rest: &str) -> (usize, bool) {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let step = match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return (at, true);
        }
    }
    (rest.len(), false)
}

fn number_length(rest: &str) -> usize {
    let is_part = |(at, c): (usize, char)| {
        let after_exponent = at > 0 && matches!(rest.as_bytes()[at - 1], b'e' | b'E');
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || (after_exponent && matches!(c, '+' | '-'))
    };
    rest.char_indices().find(|&at| !is_part(at)).map_or(rest.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(Kind, &str)]) {
        let found: Vec<_> = tokens(text).iter().map(|token| (token.kind, token.text)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn words_numbers_and_symbols_are_told_apart() {
        use Kind::{Number, Semicolon, Symbol, Word};
        check("a.b2", &[(Word, "a"), (Symbol, "."), (Word, "b2")]);
        check("1.5e-3+x;", &[(Number, "1.5e-3"), (Symbol, "+"), (Word, "x"), (Semicolon, ";")]);
        check("größe", &[(Word, "größe")]);
        check("", &[]);
    }

    #[test]
    fn what_looks_like_an_end_inside_of_quotes_is_none() {
        use Kind::{Comment, QuotedName, Text, Word};
        check("'it''s; --'", &[(Text, "'it''s; --'")]);
        check(r"E'a\'b;' x", &[(Text, r"E'a\'b;'"), (Word, "x")]);
        check("\"a;\"\"b\"", &[(QuotedName, "\"a;\"\"b\"")]);
        check("$t$ ;'$t$", &[(Text, "$t$ ;'$t$")]);
        check("-- a;\nb", &[(Comment, "-- a;"), (Word, "b")]);
        check("/* a /* b; */ c */ d", &[(Comment, "/* a /* b; */ c */"), (Word, "d")]);
    }

    #[test]
    fn what_is_not_closed_says_so() {
        for text in ["'abc", "'abc''", "\"abc", "/* a /* */", "$$ a", "E'a\\'"] {
            assert!(!tokens(text).last().unwrap().is_closed, "{text}");
        }
        assert!(tokens("-- abc").last().unwrap().is_closed);
    }

    #[test]
    fn names_are_what_the_quotes_stand_for() {
        let name = |text: &str| tokens(text)[0].name();
        assert_eq!(name("Name"), Some("name".to_owned()));
        assert_eq!(name("\"A \"\"b\"\"\""), Some("A \"b\"".to_owned()));
        assert_eq!(name("'text'"), None);
    }
}
