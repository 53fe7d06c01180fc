//! `COLLATE` where it says what holds anyway: texts are compared by their bytes.
//!
//! ```text
//!   ORDER BY t COLLATE "C"   ─▶   ORDER BY t
//! ```

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Value, VisitorMut};
use pelton_error::{Error, Result};

use crate::parse::visit_sql;

/// Names of the order of bytes, which is that of code points.
const OF_BYTES: [&str; 7] = ["c", "posix", "default", "ucs_basic", "c.utf-8", "c.utf8", "binary"];

/// Takes the collations away from the expressions of `statement`.
///
/// # Errors
///
/// Names a collation that is not the order of bytes.
pub(crate) fn drop_collations(statement: &mut Statement) -> Result<()> {
    match visit_sql(statement, &mut Collations) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Collations;

impl VisitorMut for Collations {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Collate { expr: text, collation } = expr else { return ControlFlow::Continue(()) };
        if !is_of_bytes(collation) {
            return ControlFlow::Break(Error::unsupported(format!(
                "COLLATE {collation} is not supported, as texts are compared by their bytes: leave it out, or write \
                 COLLATE \"C\", which says the same; lower(…) on both sides compares without regard to case"
            )));
        }
        let text = std::mem::replace(text.as_mut(), Expr::Value(Value::Null.into()));
        *expr = text;
        ControlFlow::Continue(())
    }
}

/// Whether `collation` is the order of bytes, whatever schema it is said to be in.
fn is_of_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| OF_BYTES.contains(&name.value.to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::titles::untitle;

    #[test]
    fn the_order_of_bytes_needs_no_collation() {
        for (sql, expected) in [
            ("SELECT x COLLATE \"C\" FROM t", "SELECT x FROM t"),
            ("SELECT x || y COLLATE \"POSIX\" < 'a' FROM t", "SELECT x || y < 'a' FROM t"),
            (
                "SELECT x FROM t ORDER BY lower(x) COLLATE pg_catalog.\"default\" DESC, y",
                "SELECT x FROM t ORDER BY lower(x) DESC, y",
            ),
            ("SELECT max(x COLLATE C) FROM t", "SELECT max(x) FROM t"),
        ] {
            let mut statement = parse(sql).unwrap().remove(0);
            untitle(&mut statement);
            assert_eq!(statement.to_string(), expected, "{sql}");
        }
    }

    #[test]
    fn other_collations_are_named() {
        for collation in ["\"de_DE\"", "\"en-x-icu\"", "nocase"] {
            let error = parse(&format!("SELECT x FROM t ORDER BY x COLLATE {collation}")).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(&format!("COLLATE {collation} is not supported")), "{error}");
            assert!(error.contains("lower"), "{error}");
        }
    }
}
