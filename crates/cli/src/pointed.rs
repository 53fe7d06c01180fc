//! Errors of statements, drawn: the message, the line it is about, carets under the place, what may have been meant.

use std::ops::Range;

use pelton_engine::PeltonSession;
use pelton_error::{Error, ErrorKind};

use crate::paint::{Paint, Shade};
use crate::screen;
use crate::sqltext::{Complaint, complaint};

/// Columns where there is no terminal to ask.
const PLAIN_COLUMNS: usize = 100;

/// `error` of running `sql`, its message followed by the place. What is not the statement's fault is left as it is.
pub(crate) fn pointed(error: Error, sql: &str, session: &PeltonSession) -> Error {
    pointed_in(error, sql, session, Paint::of_stderr(), screen::stderr_columns())
}

/// As the command shows the `error` of running `sql`, its message followed by the place, but without colours: for a
/// program that shows it somewhere else.
pub fn pointed_plainly(error: Error, sql: &str, session: &PeltonSession) -> Error {
    pointed_in(error, sql, session, Paint::off(), PLAIN_COLUMNS)
}

fn pointed_in(error: Error, sql: &str, session: &PeltonSession, paint: Paint, columns: usize) -> Error {
    if !matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) {
        return error;
    }
    let complaint = complaint(&error.to_string(), sql, &table_names(session));
    Error::new(error.kind().clone(), drawn(&complaint, sql, paint, columns))
}

/// Tables and views that a statement may name.
pub(crate) fn table_names(session: &PeltonSession) -> Vec<String> {
    let state = session.context().state();
    let catalog = &state.config_options().catalog;
    let schema = session.context().catalog(&catalog.default_catalog);
    let schema = schema.and_then(|found| found.schema(&catalog.default_schema));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names.dedup();
    names
}

/// The complaint as lines of at most `columns` columns, but for the message.
fn drawn(complaint: &Complaint, sql: &str, paint: Paint, columns: usize) -> String {
    let hint = complaint.suggestion.as_ref().map(|name| format!("did you mean {name}?"));
    let Some(place) = &complaint.place else {
        let hint = hint.map(|hint| format!("; {}", paint.shade(Shade::Hint, hint)));
        return format!("{}{}", complaint.message, hint.unwrap_or_default());
    };
    let line = Line::around(sql, place, columns);
    let carets = paint.shade(Shade::Error, "^".repeat(line.caret_columns));
    let hint = hint.map(|hint| format!(" {}", paint.shade(Shade::Hint, hint))).unwrap_or_default();
    let (number, margin) = (line.number.to_string(), " ".repeat(line.number.to_string().len()));
    let bar = paint.shade(Shade::Dim, "|");
    format!(
        "{}\n  {} {bar} {}\n  {margin} {bar} {}{carets}{hint}",
        complaint.message,
        paint.shade(Shade::Dim, number),
        line.text,
        " ".repeat(line.before_columns),
    )
}

/// The line of a statement that holds a place, as much of it as fits.
struct Line {
    number: usize,
    text: String,
    /// Columns before the place.
    before_columns: usize,
    /// Columns of the place, at least 1.
    caret_columns: usize,
}

impl Line {
    fn around(sql: &str, place: &Range<usize>, columns: usize) -> Self {
        let start = sql[..place.start].rfind('\n').map_or(0, |at| at + 1);
        let end = sql[place.start..].find('\n').map_or(sql.len(), |at| place.start + at);
        let number = sql[..start].matches('\n').count() + 1;
        let shown = |text: &str| text.replace('\t', " ").replace('\r', "");
        let before = shown(&sql[start..place.start]);
        let marked = shown(&sql[place.start..place.end.min(end)]);
        let after = shown(&sql[place.end.min(end)..end]);
        // The number, a bar and the spaces around them.
        let room = columns.saturating_sub(number.to_string().len() + 5).max(20);
        let before = tail(&before, room / 2);
        let caret_columns = screen::columns(&marked).clamp(1, room / 2);
        let text = format!("{before}{marked}{after}");
        let text = match screen::columns(&text) > room {
            true => format!("{}…", screen::clipped(&text, room - 1)),
            false => text,
        };
        Self { number, text, before_columns: screen::columns(&before), caret_columns }
    }
}

/// The end of `text` that fits into this many columns, with a sign where something is left out.
fn tail(text: &str, columns: usize) -> String {
    let mut start = 0;
    while screen::columns(&text[start..]) > columns {
        start += text[start..].chars().next().map_or(1, char::len_utf8);
    }
    if start == 0 {
        return text.to_owned();
    }
    let kept = text[start..].chars().skip(1).collect::<String>();
    format!("…{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, place: Range<usize>, columns: usize, expected: &str) {
        let complaint =
            Complaint { message: "no".into(), place: Some(place), suggestion: Some("yes".into()) };
        assert_eq!(drawn(&complaint, sql, Paint::off(), columns), expected);
    }

    #[test]
    fn carets_stand_under_the_place() {
        check("SELECT a,\n\tbc\nFROM t", 11..13, 80, "no\n  2 |  bc\n    |  ^^ did you mean yes?");
        check(
            "SELECT 'ä日', b",
            16..17,
            80,
            "no\n  1 | SELECT 'ä日', b\n    |               ^ did you mean yes?",
        );
    }

    #[test]
    fn the_end_of_a_statement_has_a_caret_too() {
        check("SELECT", 6..6, 80, "no\n  1 | SELECT\n    |       ^ did you mean yes?");
    }

    #[test]
    fn a_long_line_is_cut_around_its_place() {
        let sql = format!("SELECT {} , bad, {}", "a".repeat(100), "b".repeat(100));
        let at = sql.find("bad").unwrap();
        let expected = "no\n  1 | …aaaaaaaaa , bad, bbbbbbb…\n    |              ^^^ did you mean yes?";
        check(&sql, at..at + 3, 32, expected);
    }

    #[test]
    fn what_has_no_place_is_its_message() {
        let complaint = Complaint { message: "no".into(), place: None, suggestion: None };
        assert_eq!(drawn(&complaint, "SELECT 1", Paint::off(), 80), "no");
    }

    #[test]
    fn colours_come_only_where_they_are_on() {
        let complaint = Complaint { message: "no".into(), place: Some(0..6), suggestion: None };
        assert!(drawn(&complaint, "SELECT 1", Paint::on(), 80).contains("\x1b[1;31m^^^^^^\x1b[0m"));
        assert!(!drawn(&complaint, "SELECT 1", Paint::off(), 80).contains('\x1b'));
    }
}
