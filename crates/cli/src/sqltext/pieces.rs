//! A script as its pieces: statements up to their semicolons, and dot commands, which are lines of their own.

use super::lex::{Kind, scan, tokens};

/// A part of a script that is run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A line that starts with a dot, without the dot.
    Command(&'a str),
    /// A statement without its semicolon.
    Statement(&'a str),
}

/// The pieces of `script` in order, each with the byte it starts at. Comments alone are none.
pub(crate) fn pieces(script: &str) -> Vec<(usize, Piece<'_>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((start, piece, next)) = piece_from(script, at) {
        found.push((start, piece));
        at = next;
    }
    found
}

/// The first piece of `script` from byte `from` on: where it starts, what it is, where to go on.
fn piece_from(script: &str, from: usize) -> Option<(usize, Piece<'_>, usize)> {
    let rest = &script[from..];
    let mut start = None;
    for token in scan(rest) {
        match (token.kind, start) {
            (Kind::Comment, _) => {}
            (Kind::Semicolon, None) => {}
            (Kind::Semicolon, Some(first)) => {
                let text = rest[first..token.start].trim_end();
                return Some((from + first, Piece::Statement(text), from + token.end()));
            }
            (Kind::Symbol, None) if token.text == "." => {
                let line = rest[token.start..].lines().next().unwrap_or_default();
                let next = from + token.start + line.len();
                return Some((from + token.start, Piece::Command(line[1..].trim()), next));
            }
            (_, None) => start = Some(token.start),
            (_, Some(_)) => {}
        }
    }
    start.map(|first| (from + first, Piece::Statement(rest[first..].trim_end()), script.len()))
}

/// True where Enter runs `input`: every statement has its semicolon, a dot command is one line, and blanks are nothing.
pub(crate) fn is_complete(input: &str) -> bool {
    let Some((start, piece)) = pieces(input).pop() else {
        return tokens(input).iter().all(|token| token.is_closed);
    };
    match piece {
        Piece::Command(_) => true,
        Piece::Statement(text) => {
            let after = tokens(&input[start + text.len()..]);
            is_word_of_shell(text) || after.first().is_some_and(|token| token.kind == Kind::Semicolon)
        }
    }
}

/// True for the words that end other shells and are no statement.
pub(crate) fn is_word_of_shell(text: &str) -> bool {
    ["quit", "exit", "help"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<Piece<'_>> {
        pieces(script).into_iter().map(|(_, piece)| piece).collect()
    }

    #[test]
    fn scripts_fall_into_statements_and_commands() {
        use Piece::{Command, Statement};
        assert_eq!(
            texts("-- first\nSELECT 1; .mode csv  \nSELECT ';'\n;;"),
            [Statement("SELECT 1"), Command("mode csv"), Statement("SELECT ';'")]
        );
        assert_eq!(texts("SELECT 1 -- no end"), [Statement("SELECT 1 -- no end")]);
        assert_eq!(texts(" ;; -- nothing\n"), []);
        assert_eq!(texts("SELECT t\n.5"), [Statement("SELECT t\n.5")]);
        assert_eq!(pieces("  SELECT 1; SELECT 2")[1].0, 12);
    }

    #[test]
    fn enter_runs_what_is_whole() {
        for whole in
            ["", "  ", "SELECT 1;", "SELECT 1; -- done", ".tables", "-- note", "SELECT 1; SELECT 2;", "exit"]
        {
            assert!(is_complete(whole), "{whole}");
        }
        for part in
            ["SELECT 1", "SELECT ';", "SELECT 1; SELECT 2", "/* note", "SELECT 1 -- ;", "SELECT 'a\n;"]
        {
            assert!(!is_complete(part), "{part}");
        }
    }
}
