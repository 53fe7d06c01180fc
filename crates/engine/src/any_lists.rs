//! `x = ANY (list)` where NULL is in the list.
//!
//! ```text
//!   x = ANY (l)      ─▶     NOT (x <> ALL (l))
//!   x < ANY (l)      ─▶     NOT (x >= ALL (l))
//! ```
//!
//! A value that equals none of a list with NULL in it may be in the list or not: NULL, where DataFusion 55 says false. What it
//! makes of ALL is right. A list of constants without NULL stays, for it becomes an IN, and so does a parameter, whose type is
//! found by what stands around it.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitorMut};

use crate::parse::visit_sql;

/// Writes comparisons of `statement` with any value of a list as such with all of them.
pub(crate) fn write_alls(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Alls);
}

struct Alls;

impl VisitorMut for Alls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::AnyOp { compare_op, right, .. } = expr
            && is_list(right)
            && let Some(opposite) = opposite_of(compare_op)
        {
            let any = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            if let Expr::AnyOp { left, right, .. } = any {
                let all = Expr::AllOp { left, compare_op: opposite, right };
                let not =
                    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) };
                *expr = Expr::Nested(Box::new(not));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The comparison that holds where `op` does not. `<> ANY` is right as it is.
fn opposite_of(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

/// Whether `right` is a list that may have NULL in it: no subquery, no other constants, no parameter.
fn is_list(right: &Expr) -> bool {
    match right {
        Expr::Nested(inner) => is_list(inner),
        Expr::Array(array) => !array.elem.iter().all(is_constant),
        Expr::Subquery(_) | Expr::Value(_) => false,
        _ => true,
    }
}

/// Whether `expr` is a constant other than NULL.
fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(constant) if constant.value != Value::Null)
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::titles::untitle;

    #[test]
    fn any_value_of_a_list_with_null_is_not_all_others() {
        for (sql, meant) in [
            ("SELECT x = ANY(l) FROM t", "SELECT (NOT (x <> ALL(l))) FROM t"),
            ("SELECT x >= SOME(ARRAY[1, y]) FROM t", "SELECT (NOT (x < ALL(ARRAY[1, y]))) FROM t"),
            ("SELECT x = ANY(ARRAY[1, NULL]) FROM t", "SELECT (NOT (x <> ALL(ARRAY[1, NULL]))) FROM t"),
            ("SELECT x = ANY(ARRAY[1, 2]) FROM t", "SELECT x = ANY(ARRAY[1, 2]) FROM t"),
            ("SELECT x = ANY(SELECT y FROM u) FROM t", "SELECT x = ANY(SELECT y FROM u) FROM t"),
            ("SELECT x <> ANY(l), x = ANY($1) FROM t", "SELECT x <> ANY(l), x = ANY($1) FROM t"),
        ] {
            let mut statement = parse(sql).unwrap().remove(0);
            untitle(&mut statement);
            assert_eq!(statement.to_string(), meant, "{sql}");
        }
    }
}
