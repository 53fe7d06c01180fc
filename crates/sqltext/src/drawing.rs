//! An error of a statement, drawn: the message, the line it is about, carets under the place, what may have been meant.

use std::ops::Range;

use crate::place::Complaint;
use crate::width::{clipped, columns as columns_of};

/// A part of the drawing, for those who colour it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The carets.
    Carets,
    /// What may have been meant.
    Hint,
    /// The number of the line, and the bar beside it.
    Margin,
}

/// The complaint as lines of at most `columns` columns, but for the message; `shade` gives parts their colours.
pub fn drawn(
    complaint: &Complaint,
    sql: &str,
    columns: usize,
    shade: impl Fn(Part, String) -> String,
) -> String {
    let hint = complaint.suggestion.as_ref().map(|name| format!("did you mean {name}?"));
    let Some(place) = &complaint.place else {
        let hint = hint.map(|hint| format!("; {}", shade(Part::Hint, hint)));
        return format!("{}{}", complaint.message, hint.unwrap_or_default());
    };
    let line = Line::around(sql, place, columns);
    let carets = shade(Part::Carets, "^".repeat(line.caret_columns));
    let hint = hint.map(|hint| format!(" {}", shade(Part::Hint, hint))).unwrap_or_default();
    let (number, margin) = (line.number.to_string(), " ".repeat(line.number.to_string().len()));
    let bar = shade(Part::Margin, "|".to_owned());
    format!(
        "{}\n  {} {bar} {}\n  {margin} {bar} {}{carets}{hint}",
        complaint.message,
        shade(Part::Margin, number),
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
        let caret_columns = columns_of(&marked).clamp(1, room / 2);
        let text = format!("{before}{marked}{after}");
        let text = match columns_of(&text) > room {
            true => format!("{}…", clipped(&text, room - 1)),
            false => text,
        };
        Self { number, text, before_columns: columns_of(&before), caret_columns }
    }
}

/// The end of `text` that fits into this many columns, with a sign where something is left out.
fn tail(text: &str, columns: usize) -> String {
    let mut start = 0;
    while columns_of(&text[start..]) > columns {
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

    fn plain(_: Part, text: String) -> String {
        text
    }

    fn check(sql: &str, place: Range<usize>, columns: usize, expected: &str) {
        let complaint =
            Complaint { message: "no".into(), place: Some(place), suggestion: Some("yes".into()) };
        assert_eq!(drawn(&complaint, sql, columns, plain), expected);
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
        assert_eq!(drawn(&complaint, "SELECT 1", 80, plain), "no");
    }

    #[test]
    fn parts_are_coloured_one_by_one() {
        let complaint = Complaint { message: "no".into(), place: Some(0..6), suggestion: None };
        let shaded = drawn(&complaint, "SELECT 1", 80, |part, text| format!("<{part:?} {text}>"));
        assert_eq!(shaded, "no\n  <Margin 1> <Margin |> SELECT 1\n    <Margin |> <Carets ^^^^^^>");
    }
}
