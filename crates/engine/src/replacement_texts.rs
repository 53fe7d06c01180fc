//! Replacements of `regexp_replace` that are written out, as PostgreSQL and DuckDB read them.
//!
//! ```text
//!                                           PostgreSQL, DuckDB      DataFusion 55
//!   regexp_replace(t, '[0-9]+', '$1')       $1                      group 1
//!   regexp_replace(t, '(a)(b)', '\12')      group 1, and 2          group 12
//!   regexp_replace(t, 'a', '<\&>')          <a>, PostgreSQL alone   <\&>
//! ```
//!
//! A group has one digit, and a dollar is one: `$$` to DataFusion. Replacements from columns are left to it. It has an error for
//! flags of which there are none, `''`.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use crate::expansion::normal;

/// Writes the replacement of `call` as DataFusion reads it, if it has one.
pub(crate) fn write_replacement(call: &mut Function) {
    let is_meant = match call.name.0.as_slice() {
        [name] => name.as_ident().is_some_and(|name| normal(name) == "regexp_replace"),
        _ => false,
    };
    let FunctionArguments::List(list) = &mut call.args else { return };
    if !is_meant {
        return;
    }
    if let Some(replacement) = list.args.get_mut(2).and_then(text_of) {
        *replacement = written(replacement);
    }
    if list.args.get_mut(3).and_then(text_of).is_some_and(|flags| flags.is_empty()) {
        list.args.truncate(3);
    }
}

/// The text that `arg` is.
fn text_of(arg: &mut FunctionArg) -> Option<&mut String> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &mut value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn written(replacement: &str) -> String {
    let mut written = String::with_capacity(replacement.len());
    let mut rest = replacement.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek().copied()) {
            ('$', _) => written.push_str("$$"),
            ('\\', Some('&')) => {
                rest.next();
                written.push_str("${0}");
            }
            ('\\', Some(escaped)) => {
                rest.next();
                let is_followed = rest.peek().is_some_and(char::is_ascii_digit);
                if escaped.is_ascii_digit() && is_followed {
                    written.push_str(&format!("${{{escaped}}}"));
                } else {
                    written.extend(['\\', escaped]);
                }
            }
            _ => written.push(next),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_kept_and_groups_have_one_digit() {
        for (replacement, expected) in [
            ("", ""),
            ("ä$1", "ä$$1"),
            ("$$", "$$$$"),
            (r"\1", r"\1"),
            (r"\2 \1", r"\2 \1"),
            (r"\12", "${1}2"),
            (r"<\&>", "<${0}>"),
            (r"\\1", r"\\1"),
            (r"\", r"\"),
        ] {
            assert_eq!(written(replacement), expected, "{replacement}");
        }
    }
}
