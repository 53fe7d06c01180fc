//! Finding in a statement what a message names: by line and column, by name, by the text of a string.

use std::ops::Range;

use super::lex::{Kind, Token, tokens};

/// The byte that `1, Column: 8` says.
pub(crate) fn offset_of(sql: &str, numbers: &str) -> Option<usize> {
    let (line, column) = numbers.split_once(", Column: ")?;
    let digits = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    let (line, column): (usize, usize) = (line.trim().parse().ok()?, column[..digits].parse().ok()?);
    let before: usize = sql.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let in_line = sql[before..].char_indices().nth(column.checked_sub(1)?);
    Some(in_line.map_or(sql.len(), |(at, _)| before + at))
}

/// The token at or around `start`; a place of no length past the last.
pub(crate) fn token_range(tokens: &[Token], start: usize) -> Range<usize> {
    let found = tokens.iter().find(|token| token.start <= start && start < token.end());
    found.map_or(start..start, |token| token.start..token.end())
}

/// Where `name` stands in the statement, or as much of its end as does; best where the tokens around it `fit`.
pub(crate) fn range_of(
    statement: &[Token],
    name: &str,
    fit: impl Fn(Option<&Token>, Option<&Token>) -> bool,
) -> Option<Range<usize>> {
    let parts: Vec<String> = tokens(name).iter().filter_map(Token::name).collect();
    for from in 0..parts.len() {
        let found: Vec<(usize, usize)> = (0..statement.len())
            .filter_map(|at| matched(statement, at, &parts[from..]).map(|end| (at, end)))
            .collect();
        let around = |&&(at, end): &&(usize, usize)| {
            fit(at.checked_sub(1).map(|before| &statement[before]), statement.get(end))
        };
        if let Some((at, end)) = found.iter().find(around).or(found.first()) {
            return Some(statement[*at].start..statement[*end - 1].end());
        }
    }
    None
}

/// The index after the tokens that read as `parts` with dots between, from index `at` on.
fn matched(statement: &[Token], at: usize, parts: &[String]) -> Option<usize> {
    let mut end = at;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            statement.get(end).filter(|token| token.is_symbol("."))?;
            end += 1;
        }
        statement.get(end).filter(|token| token.name().as_ref() == Some(part))?;
        end += 1;
    }
    Some(end)
}

/// Where the statement has a string that reads `text`.
pub(crate) fn text_range(statement: &[Token], text: &str) -> Option<Range<usize>> {
    let written = format!("'{}'", text.replace('\'', "''"));
    let found = statement.iter().find(|token| token.kind == Kind::Text && token.text == written);
    found.map(|token| token.start..token.end())
}

/// The dotted name that `text` starts with, with its quotes.
pub(crate) fn leading_name(text: &str) -> &str {
    let mut end = 0;
    let mut wants_part = true;
    for token in tokens(text) {
        let is_part = matches!(token.kind, Kind::Word | Kind::QuotedName) && wants_part;
        if token.start != end || !(is_part || (token.is_symbol(".") && !wants_part)) {
            break;
        }
        end = token.end();
        wants_part = !is_part;
    }
    text[..end].trim_end_matches('.')
}

/// The part of `t.name` after the last dot outside of quotes, as it is written.
pub(crate) fn field_part(field: &str) -> &str {
    tokens(field).last().map_or(field, |token| &field[token.start..])
}

pub(crate) fn last_part(name: &str) -> String {
    tokens(name).last().and_then(Token::name).unwrap_or_default()
}
