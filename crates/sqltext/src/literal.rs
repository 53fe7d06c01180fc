//! Errors about values: which literal of the statement a message is about. Messages repeat the value, or name an
//! operation that only one place of the statement has.

use std::ops::Range;

use super::find::text_range;
use super::lex::{Kind, Token};
use super::place::{Complaint, Error, without_origin};

/// `Divide by zero error`: a divisor that is written as zero, else the only division there is.
pub(super) fn division_by_zero(error: &Error) -> Option<Complaint> {
    error.message.contains("Divide by zero").then_some(())?;
    let divisions = operators(error.tokens, |token| token.is_symbol("/") || token.is_symbol("%"));
    let by_zero = divisions.iter().find(|at| error.tokens.get(*at + 1).is_some_and(is_zero));
    let place = match (by_zero, divisions.as_slice()) {
        (Some(at), _) | (None, [at]) => Some(operation(error.tokens, *at)),
        _ => None,
    };
    at(error, place?)
}

/// `Cannot coerce arithmetic expression Int64 + Utf8 to valid types`: the operator beside a text, else the only one.
pub(super) fn wrong_operands(error: &Error) -> Option<Complaint> {
    let (_, rest) = error.message.split_once("Cannot coerce arithmetic expression ")?;
    let (types, _) = rest.split_once(" to valid types")?;
    let symbol =
        ["+", "-", "*", "/", "%"].into_iter().find(|symbol| types.contains(&format!(" {symbol} ")))?;
    let all = operators(error.tokens, |token| token.is_symbol(symbol));
    let is_text = |index: Option<usize>| {
        index.and_then(|index| error.tokens.get(index)).is_some_and(|token| token.kind == Kind::Text)
    };
    let beside_text = all.iter().find(|at| is_text(at.checked_sub(1)) || is_text(Some(*at + 1)));
    let place = match (beside_text, all.as_slice()) {
        (Some(at), _) | (None, [at]) => operation(error.tokens, *at),
        _ => return None,
    };
    let (left, right) = types.split_once(&format!(" {symbol} "))?;
    let message = format!("no operator {symbol} takes {left} and {right}; cast one of them");
    Some(Complaint { message, place: Some(place), suggestion: None })
}

/// A message that quotes a text of the statement: `Error parsing timestamp from '2024-02-30': …`.
pub(super) fn quoted_text(error: &Error) -> Option<Complaint> {
    let place = quoted(error.message).find_map(|text| text_range(error.tokens, text))?;
    at(error, place)
}

/// A message that repeats a number of the statement: `Can't cast value 300 to type Int8`.
pub(super) fn number(error: &Error) -> Option<Complaint> {
    let markers = [("cast value ", " to "), ("error: ", " is too large"), ("specified: ", ",")];
    let said = markers.iter().find_map(|(before, after)| {
        error.message.split_once(before)?.1.split_once(after)?.0.rsplit(' ').next()
    })?;
    let (said, plain) = (said.trim_start_matches('-'), said.trim_start_matches('-').trim_end_matches(".0"));
    let is_said = |token: &&Token| token.kind == Kind::Number && (token.text == said || token.text == plain);
    let token = error.tokens.iter().rfind(is_said)?;
    at(error, token.start..token.end())
}

/// A message that quotes a word of the statement, or ends in one: `Date part 'foo' not supported`.
pub(super) fn quoted_word(error: &Error) -> Option<Complaint> {
    let last = ["Unsupported SQL type ", "Invalid qualifier "];
    let last = last.iter().find_map(|marker| Some(error.message.split_once(marker)?.1));
    let is_word =
        |token: &&Token, word: &str| token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word);
    let words = last.into_iter().chain(quoted(error.message));
    let found = words.filter_map(|word| error.tokens.iter().find(|token| is_word(token, word))).next()?;
    at(error, found.start..found.end())
}

fn at(error: &Error, place: Range<usize>) -> Option<Complaint> {
    Some(Complaint { message: without_origin(error.message), place: Some(place), suggestion: None })
}

/// What stands between quotes of either kind.
fn quoted(message: &str) -> impl Iterator<Item = &str> {
    ['\'', '"'].into_iter().flat_map(|quote| message.split(quote).skip(1).step_by(2))
}

/// The indices of the tokens that `are` between two operands.
fn operators(tokens: &[Token], are: impl Fn(&Token) -> bool) -> Vec<usize> {
    (1..tokens.len().saturating_sub(1)).filter(|&at| are(&tokens[at])).collect()
}

/// The operator at index `at` with its neighbours.
fn operation(tokens: &[Token], at: usize) -> Range<usize> {
    tokens[at - 1].start..tokens[at + 1].end()
}

fn is_zero(token: &Token) -> bool {
    token.kind == Kind::Number && token.text.parse() == Ok(0.0)
}
