//! `LIKE … ESCAPE`: patterns in the one form that is executed, whose escape character is the backslash.
//!
//! ```text
//!   'a!%b!!c\' ESCAPE '!'   ─▶   'a\%b!c\\'
//! ```

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, Value, VisitorMut};
use pelton_error::{Error, Result};

use crate::parse::visit_sql;

/// Characters that mean something in a pattern.
const SPECIAL: [char; 3] = ['%', '_', '\\'];

/// Rewrites every constant pattern that has an escape character of its own.
///
/// # Errors
///
/// A pattern that ends with its escape character; a pattern with an escape character that is no constant.
pub(crate) fn write_backslashes(statement: &mut Statement) -> Result<()> {
    match visit_sql(statement, &mut Patterns) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Patterns;

impl VisitorMut for Patterns {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let escape_char = match expr {
            Expr::Like { escape_char, .. } | Expr::ILike { escape_char, .. } => escape_char.take(),
            _ => None,
        };
        let Some(escape) = escape_char else { return ControlFlow::Continue(()) };
        let whole = expr.to_string();
        let (Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }) = expr
        else {
            return ControlFlow::Continue(());
        };
        match rewrite(pattern, &escape.value) {
            Rewritten::Done => ControlFlow::Continue(()),
            Rewritten::Left => {
                *escape_char = Some(escape);
                ControlFlow::Continue(())
            }
            Rewritten::Ends => ControlFlow::Break(Error::invalid_input(format!(
                "{whole} ESCAPE {escape}: the pattern ends with its escape character"
            ))),
            Rewritten::Computed => ControlFlow::Break(Error::unsupported(format!(
                "{whole} ESCAPE {escape}: with ESCAPE, the pattern has to be a constant; the backslash needs no ESCAPE"
            ))),
        }
    }
}

enum Rewritten {
    Done,
    /// To planning, which refuses it by name.
    Left,
    Ends,
    Computed,
}

fn rewrite(pattern: &mut Expr, escape: &Value) -> Rewritten {
    let Value::SingleQuotedString(escape) = escape else { return Rewritten::Left };
    let mut characters = escape.chars();
    let (escape, None) = (characters.next(), characters.next()) else { return Rewritten::Left };
    if escape == Some('\\') {
        return Rewritten::Done;
    }
    let Expr::Value(value) = pattern else { return Rewritten::Computed };
    let text = match &mut value.value {
        Value::SingleQuotedString(text) => text,
        Value::Null => return Rewritten::Done,
        _ => return Rewritten::Computed,
    };
    let Some(written) = with_backslashes(text, escape) else { return Rewritten::Ends };
    *text = written;
    Rewritten::Done
}

/// `pattern` with backslashes for `escape`, where None escapes nothing; None where it ends with `escape`.
fn with_backslashes(pattern: &str, escape: Option<char>) -> Option<String> {
    let mut written = String::with_capacity(pattern.len() + 4);
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let (literal, is_escaped) = match Some(character) == escape {
            true => (rest.next()?, true),
            false => (character, character == '\\'),
        };
        if is_escaped && SPECIAL.contains(&literal) {
            written.push('\\');
        }
        written.push(literal);
    }
    Some(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_backslashes() {
        let of = |pattern, escape| with_backslashes(pattern, escape);
        assert_eq!(of("a!%b!!c\\", Some('!')).as_deref(), Some("a\\%b!c\\\\"));
        assert_eq!(of("!x_%", Some('!')).as_deref(), Some("x_%"));
        assert_eq!(of("!\\", Some('!')).as_deref(), Some("\\\\"));
        assert_eq!(of("a\\%", None).as_deref(), Some("a\\\\%"), "ESCAPE '' escapes nothing");
        assert_eq!(of("a%%", Some('%')).as_deref(), Some("a\\%"), "an escape character may be a wildcard");
        assert_eq!(of("a!", Some('!')), None);
    }
}
