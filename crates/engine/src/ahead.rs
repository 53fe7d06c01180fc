//! What a statement will ask of its tables, as far as its text tells.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Ident, visit_expressions};

/// The names of columns that `statement` compares with something that is no column: those of joins are not among them.
pub(crate) fn compared_columns(statement: &Statement) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return compared_columns(&explain.statement),
        _ => return names,
    };
    let _ = visit_expressions(statement, |expr| {
        let compared = match expr {
            Expr::BinaryOp { left, op, right } if compares(op) => match (column(left), column(right)) {
                (Some(name), None) | (None, Some(name)) => Some(name),
                _ => None,
            },
            Expr::Between { expr, .. }
            | Expr::InList { expr, .. }
            | Expr::Like { expr, .. }
            | Expr::ILike { expr, .. } => column(expr),
            _ => None,
        };
        names.extend(compared);
        ControlFlow::<Infallible>::Continue(())
    });
    names
}

fn compares(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The name of a column, as tables have it; `None` for other expressions.
fn column(expr: &Expr) -> Option<String> {
    let Ident { value, quote_style, .. } = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        Expr::Nested(inner) => return column(inner),
        _ => return None,
    };
    Some(if quote_style.is_some() { value.clone() } else { value.to_lowercase() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_beside_something_else_are_compared() {
        let sql = "EXPLAIN SELECT a + 1, t.B FROM t JOIN u ON t.k = u.k WHERE t.C = 1 AND 3 < d AND \"E\" IN (1, 2) AND (f) LIKE 'x%' \
                   AND g BETWEEN h AND 7 AND i + 1 = 4 AND k2 = u.l AND EXISTS (SELECT 1 FROM v WHERE m <> 'z')";
        let statement = crate::parse::parse(sql).unwrap().remove(0);
        let names: Vec<String> = compared_columns(&statement).into_iter().collect();
        assert_eq!(names, ["E", "c", "d", "f", "g", "m"]);
    }
}
