//! A script as its pieces: statements up to their semicolons, and dot commands, which are lines of their own.

use super::lex::{Kind, scan, tokens};

/// A part of a script that is run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line that starts with a dot, without the dot.
    Command(&'a str),
    /// A statement without its semicolon.
    Statement(&'a str),
}

/// The pieces of `script` in order, each with the byte it starts at. Comments alone are none.
pub fn pieces(script: &str) -> Vec<(usize, Piece<'_>)> {
    let mut position = Position::default();
    std::iter::from_fn(|| position.next_piece(script, true)).collect()
}

/// A script that comes bit by bit; its pieces are there as soon as they are whole.
#[derive(Debug, Default)]
pub struct GrowingScript {
    text: String,
    position: Position,
}

impl GrowingScript {
    /// Adds what comes next.
    pub fn push(&mut self, more: &str) {
        self.position.forget_done(&mut self.text);
        self.text.push_str(more);
    }

    /// The next piece that is whole; with `is_all` the script has ended and so has its last piece.
    pub fn next_piece(&mut self, is_all: bool) -> Option<Piece<'_>> {
        self.position.next_piece(&self.text, is_all).map(|(_, piece)| piece)
    }
}

/// How far a script has been taken apart.
#[derive(Debug, Default)]
struct Position {
    /// Pieces up to this byte are done.
    done: usize,
    /// Where the statement starts that is not whole yet.
    start: Option<usize>,
    /// Where scanning goes on: the last token seen may grow.
    scanned: usize,
}

impl Position {
    /// The next piece of `script` and the byte that it starts at.
    fn next_piece<'a>(&mut self, script: &'a str, is_all: bool) -> Option<(usize, Piece<'a>)> {
        let from = self.scanned;
        // A statement that was its last token alone may yet turn out to be a comment.
        self.start = self.start.filter(|&start| start < from);
        for token in scan(&script[from..]) {
            let at = from + token.start;
            self.scanned = at;
            match (token.kind, self.start) {
                (Kind::Comment, _) => {}
                (Kind::Semicolon, None) => {}
                (Kind::Semicolon, Some(first)) => {
                    self.go_on_at(from + token.end());
                    return Some((first, Piece::Statement(script[first..at].trim_end())));
                }
                (Kind::Symbol, None) if token.text == "." => {
                    let line = script[at..].lines().next().unwrap_or_default();
                    if !is_all && at + line.len() == script.len() {
                        return None; // the line may go on
                    }
                    self.go_on_at(at + line.len());
                    return Some((at, Piece::Command(line[1..].trim())));
                }
                (_, None) => self.start = Some(at),
                (_, Some(_)) => {}
            }
        }
        let first = self.start.filter(|_| is_all)?;
        self.go_on_at(script.len());
        Some((first, Piece::Statement(script[first..].trim_end())))
    }

    fn go_on_at(&mut self, next: usize) {
        *self = Self { done: next, start: None, scanned: next };
    }

    /// Drops what is done from the front of `script`.
    fn forget_done(&mut self, script: &mut String) {
        script.drain(..self.done);
        self.start = self.start.map(|start| start - self.done);
        self.scanned -= self.done;
        self.done = 0;
    }
}

/// True where Enter runs `input`: every statement has its semicolon, a dot command is one line, and blanks are nothing.
pub fn is_complete(input: &str) -> bool {
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
pub fn is_word_of_shell(text: &str) -> bool {
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
    fn a_script_falls_into_the_same_pieces_however_it_comes() {
        let script = "-- a;\nSELECT 'b;''c', \"d;\" /* ; */ FROM t;\n.mode csv\n;;E'\\';'; SELECT $t$;$t$;\n.quit\nSELECT 1 -- ;\n, 2";
        let expected: Vec<String> = texts(script).iter().map(|piece| format!("{piece:?}")).collect();
        assert_eq!(expected.len(), 6);
        for length in 1..script.len() {
            let (mut growing, mut found) = (GrowingScript::default(), Vec::new());
            for at in (0..script.len()).step_by(length) {
                growing.push(&script[at..(at + length).min(script.len())]);
                let is_all = at + length >= script.len();
                while let Some(piece) = growing.next_piece(is_all) {
                    found.push(format!("{piece:?}"));
                }
            }
            assert_eq!(found, expected, "in steps of {length}");
        }
    }

    #[test]
    fn a_statement_is_there_with_its_semicolon_and_a_command_with_its_line() {
        let mut script = GrowingScript::default();
        script.push("SELECT 1");
        assert_eq!(script.next_piece(false), None);
        script.push("; .mode");
        assert_eq!(script.next_piece(false), Some(Piece::Statement("SELECT 1")));
        assert_eq!(script.next_piece(false), None);
        script.push(" csv\n");
        assert_eq!(script.next_piece(false), Some(Piece::Command("mode csv")));
        assert_eq!(script.next_piece(true), None);
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
