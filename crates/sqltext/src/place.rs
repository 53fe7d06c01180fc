//! Which place of a statement an error is about, and what may have been meant there.
//!
//! ```text
//!   pelton: no column 'nme'                     the message, without what only a parser would say
//!     2 | SELECT id, nme FROM t                 the line of the statement
//!       |            ^^^ did you mean name?     the place, and the nearest name
//! ```
//!
//! DataFusion says places of syntax errors as line and column. Of other errors it names the thing, which is looked for
//! in the statement.

use std::ops::Range;

use super::distance::nearest;
use super::find::{field_part, last_part, leading_name, offset_of, range_of, text_range, token_range};
use super::lex::{Kind, Token, tokens};
use super::literal;

/// An error as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub message: String,
    /// The bytes of the statement that it is about.
    pub place: Option<Range<usize>>,
    /// What may have been meant.
    pub suggestion: Option<String>,
}

/// The complaint that `message`, DataFusion's, is about `sql`. `tables` are the names there are.
pub fn complaint(message: &str, sql: &str, tables: &[String]) -> Complaint {
    let tokens: Vec<Token> = tokens(sql).into_iter().filter(|token| token.kind != Kind::Comment).collect();
    let readings = [
        syntax,
        placed,
        missing_column,
        missing_table,
        missing_function,
        wrong_arguments,
        ambiguous_column,
        ungrouped_column,
        literal::division_by_zero,
        literal::wrong_operands,
        literal::quoted_text,
        literal::number,
        literal::quoted_word,
    ];
    let found = readings.iter().find_map(|reading| reading(&Error { message, sql, tokens: &tokens, tables }));
    found.unwrap_or_else(|| Complaint { message: without_origin(message), place: None, suggestion: None })
}

/// What a reading may look at.
pub(super) struct Error<'a> {
    pub(super) message: &'a str,
    sql: &'a str,
    pub(super) tokens: &'a [Token<'a>],
    tables: &'a [String],
}

/// `SQL error: ParserError("Expected: …, found: x at Line: 1, Column: 8")`.
fn syntax(error: &Error) -> Option<Complaint> {
    let (_, rest) = error
        .message
        .split_once("ParserError(\"")
        .or_else(|| error.message.split_once("TokenizerError(\""))?;
    let text =
        rest.rsplit_once("\")").map_or(rest, |(text, _)| text).replace("\\\"", "\"").replace("\\'", "'");
    let text = text.replace("\\n", "\n");
    let (what, at) = match text.rsplit_once(" at Line: ") {
        Some((what, numbers)) => (what.to_owned(), offset_of(error.sql, numbers)),
        None => (text.clone(), None),
    };
    let is_at_end = what.contains("found: EOF");
    let start = if is_at_end { Some(error.sql.trim_end().len()) } else { at };
    let what = what.replace("Expected: ", "expected ").replace(", found: EOF", ", but the statement ends");
    let what = what.replace(", found: ", ", found ");
    Some(Complaint {
        message: format!("syntax error: {what}"),
        place: start.map(|start| token_range(error.tokens, start)),
        suggestion: None,
    })
}

/// `the statement nests too deep: … at Line: 1, Column: 8`: Pelton's own errors about a place.
fn placed(error: &Error) -> Option<Complaint> {
    let (what, numbers) = error.message.rsplit_once(" at Line: ")?;
    let place = offset_of(error.sql, numbers).map(|start| token_range(error.tokens, start));
    Some(Complaint { message: what.to_owned(), place, suggestion: None })
}

/// `No field named t.nme. Did you mean 't.name'?`, then all fields there are.
fn missing_column(error: &Error) -> Option<Complaint> {
    let (_, rest) = error.message.split_once("No field named ")?;
    let name = leading_name(rest);
    let mut there_are: Vec<&str> = Vec::new();
    let (_, list) = rest.split_once("Valid fields are ").unwrap_or_default();
    for field in list.trim_end_matches('.').split(", ").filter(|field| !field.is_empty()) {
        if !there_are.contains(&field) {
            there_are.push(field); // one of each, in their order
        }
    }
    let bare = last_part(name);
    let suggestion = match nearest(&bare, there_are.iter().map(|field| field_part(field))) {
        Some(field) if field_part(name) != name => {
            Some(format!("{}{field}", name.trim_end_matches(field_part(name))))
        }
        Some(field) => Some(shortest(field, &there_are)),
        None => quoted_after(rest, "Did you mean '").map(str::to_owned),
    };
    let place = range_of(error.tokens, name, |_, _| true);
    // Who writes "x" often means the text, unless a column is called nearly that.
    let is_same = |found: &String| found.replace('"', "").eq_ignore_ascii_case(&bare);
    let text = place.clone().filter(|place| error.sql[place.clone()].starts_with('"'));
    let suggestion = match text {
        Some(_) if !suggestion.as_ref().is_some_and(is_same) => {
            Some(format!("the text '{bare}', in single quotes"))
        }
        _ => suggestion,
    };
    let message = match (&suggestion, there_are.len()) {
        (Some(_), _) | (None, 0) => format!("no column {name}"),
        (None, count) => format!("no column {name}; there {}", listed(&there_are, count)),
    };
    Some(Complaint { message, place, suggestion })
}

/// Fields at most that a message names.
const FIELDS_LISTED_MAX: usize = 12;

fn listed(fields: &[&str], count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    let shown = fields.iter().take(FIELDS_LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
    match count.checked_sub(FIELDS_LISTED_MAX) {
        None | Some(0) => format!("{verb} {shown}"),
        Some(more) => format!("{verb} {shown} and {more} more"),
    }
}

/// `table 'pelton.public.t' not found`.
fn missing_table(error: &Error) -> Option<Complaint> {
    let name = quoted_after(error.message, "table '")?;
    let (_, there_is) = error.message.split_once(&format!("table '{name}' not found"))?;
    // A statement that names no catalog is told about one.
    let bare = name.strip_prefix("pelton.public.").or(name.strip_prefix("pelton.")).unwrap_or(name);
    let suggestion = nearest(bare, error.tables.iter().map(String::as_str)).map(as_written);
    let suggestion =
        suggestion.or_else(|| has_ending(bare).then(|| format!("the file '{bare}', in single quotes")));
    let is_table = |before: Option<&Token>, _: Option<&Token>| {
        before.is_some_and(|token| is_table_keyword(token) || token.is_symbol(","))
    };
    let file = text_range(error.tokens, bare);
    let message = match file {
        Some(_) if there_is.contains("files are not queried here") => format!("no table '{bare}'{there_is}"),
        Some(_) => format!("there is no file '{bare}'"),
        None => format!("table '{bare}' not found{there_is}"),
    };
    let suggestion = suggestion.filter(|text| file.is_none() || !text.starts_with("the file"));
    Some(Complaint { message, place: file.or_else(|| range_of(error.tokens, bare, is_table)), suggestion })
}

/// True for what reads like the name of a file: `sales.csv`.
fn has_ending(name: &str) -> bool {
    let endings =
        ["parquet", "csv", "tsv", "tbl", "json", "jsonl", "ndjson", "arrow", "feather", "ipc", "gz", "zst"];
    name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
}

/// A name as a statement has to write it: what is not lower case needs quotes.
fn as_written(name: &str) -> String {
    let is_plain =
        |at: usize, one: char| one == '_' || one.is_ascii_lowercase() || at > 0 && one.is_ascii_digit();
    match name.chars().enumerate().all(|(at, one)| is_plain(at, one)) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn is_table_keyword(token: &Token) -> bool {
    ["from", "join", "into", "update", "table", "describe", "view"].iter().any(|word| token.is_word(word))
}

/// `Invalid function 'x'.` and `table function 'x' not found`.
fn missing_function(error: &Error) -> Option<Complaint> {
    let name = quoted_after(error.message, "Invalid function '")
        .or_else(|| quoted_after(error.message, "table function '"))?;
    let place = range_of(error.tokens, name, |_, after| after.is_some_and(|token| token.is_symbol("(")));
    // DataFusion offers some function for any name.
    let offered = quoted_after(error.message, "Did you mean '");
    let suggestion = nearest(name, offered).map(str::to_owned);
    Some(Complaint { message: format!("no function '{name}'"), place, suggestion })
}

/// `No function matches the given name and argument types 'sum(Utf8)'. …`, then the candidates, one a line.
fn wrong_arguments(error: &Error) -> Option<Complaint> {
    let call = quoted_after(error.message, "given name and argument types '")?;
    let (_, list) = error.message.split_once("Candidate functions:").unwrap_or_default();
    let candidates: Vec<&str> = list.lines().map(str::trim).filter(|line| line.contains('(')).collect();
    let there = match candidates.len() {
        0 => String::new(),
        count => format!("; there {}", listed(&candidates, count)),
    };
    let name = call.split('(').next().unwrap_or(call);
    let place = range_of(error.tokens, name, |_, after| after.is_some_and(|token| token.is_symbol("(")));
    Some(Complaint { message: format!("no function takes {call}{there}"), place, suggestion: None })
}

/// `Ambiguous reference to unqualified field x`.
fn ambiguous_column(error: &Error) -> Option<Complaint> {
    let (_, rest) = error.message.split_once("Ambiguous reference to unqualified field ")?;
    let name = leading_name(rest);
    let place = range_of(error.tokens, name, |before, _| before.is_none_or(|token| !token.is_symbol(".")));
    let message = format!("column {name} is in more than one table; write table.{name}");
    Some(Complaint { message, place, suggestion: None })
}

/// `column "t.x" must appear in the GROUP BY clause or must be part of an aggregate function …`.
fn ungrouped_column(error: &Error) -> Option<Complaint> {
    let (before, _) = error.message.split_once("\" must appear in the GROUP BY clause")?;
    let (_, name) = before.rsplit_once("olumn \"")?;
    let message = format!("column {name} must be in GROUP BY or inside of an aggregate function");
    Some(Complaint { message, place: range_of(error.tokens, name, |_, _| true), suggestion: None })
}

/// `message` without the parts of DataFusion that it went through.
pub(super) fn without_origin(message: &str) -> String {
    let origins = [
        "Error during planning: ",
        "Execution error: ",
        "SQL error: ",
        "Schema error: ",
        "Arrow error: ",
        "Cast error: ",
        "Parser error: ",
        "Compute error: ",
        "Invalid argument error: ",
        "type_coercion: ",
    ];
    // The rule that evaluated a constant is of no interest.
    let rule = message.strip_prefix("Optimizer rule '").and_then(|rest| rest.split_once("' failed: "));
    let mut text = rule.map_or(message, |(_, rest)| rest);
    while let Some(rest) = origins.iter().find_map(|origin| text.strip_prefix(origin)) {
        text = rest;
    }
    text.to_owned()
}

/// The text from after `marker` to the quote that follows.
fn quoted_after<'a>(message: &'a str, marker: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(marker)?;
    Some(rest.split_once('\'')?.0)
}

/// `field` alone where it says which of `fields` is meant, else the first with its table.
fn shortest(field: &str, fields: &[&str]) -> String {
    let mut same = fields.iter().filter(|other| field_part(other) == field);
    match (fields.contains(&field), same.next(), same.next()) {
        (false, Some(first), Some(_)) => (*first).to_owned(),
        _ => field.to_owned(),
    }
}

#[cfg(test)]
mod tests;
