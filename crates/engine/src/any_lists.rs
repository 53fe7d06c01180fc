//! `x = ANY (list)` where NULL is in the list, and `x = ANY (SELECT …)`.
//!
//! ```text
//!   x = ANY (l)               ─▶     NOT (x <> ALL (l))
//!   x < ANY (l)               ─▶     NOT (x >= ALL (l))
//!   x = ANY (SELECT …)        ─▶     x IN (SELECT …)
//!   x <> ALL (SELECT …)       ─▶     x NOT IN (SELECT …)
//! ```
//!
//! A value that equals none of a list with NULL in it may be in the list or not: NULL, where DataFusion 55 says false. What it
//! makes of ALL is right. A list of constants without NULL stays, for it becomes an IN, and so does a parameter, whose type is
//! found by what stands around it. IN of a subquery is a join on a key, and may look up a row of several columns.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, UnaryOperator, Value, VisitorMut};

use crate::parse::visit_sql;

/// Writes comparisons of `statement` with any value of a list as such with all of them, and equality with rows of a subquery
/// as IN.
pub(crate) fn write_alls(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Alls);
}

struct Alls;

impl VisitorMut for Alls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_meant = match &*expr {
            Expr::AnyOp { compare_op, right, .. } => {
                is_list(right) && opposite_of(compare_op).is_some()
                    || is_query(right) && *compare_op == BinaryOperator::Eq
            }
            Expr::AllOp { compare_op, right, .. } => is_query(right) && *compare_op == BinaryOperator::NotEq,
            _ => false,
        };
        if is_meant {
            let comparison = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = Expr::Nested(Box::new(written(comparison)));
        }
        ControlFlow::Continue(())
    }
}

/// What `comparison` becomes.
fn written(comparison: Expr) -> Expr {
    match comparison {
        Expr::AnyOp { left, compare_op, right, is_some } => match (*right, opposite_of(&compare_op)) {
            (Expr::Subquery(rows), _) => in_rows(left, rows, false),
            (list, Some(opposite)) => {
                let all = Expr::AllOp { left, compare_op: opposite, right: Box::new(list) };
                Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) }
            }
            (list, None) => Expr::AnyOp { left, compare_op, right: Box::new(list), is_some },
        },
        Expr::AllOp { left, compare_op, right } => match *right {
            Expr::Subquery(rows) => in_rows(left, rows, true),
            list => Expr::AllOp { left, compare_op, right: Box::new(list) },
        },
        other => other,
    }
}

/// `left` IN `subquery`; a comparison to the left of ANY would bind less than IN.
fn in_rows(left: Box<Expr>, subquery: Box<Query>, negated: bool) -> Expr {
    let expr = if matches!(*left, Expr::BinaryOp { .. }) { Box::new(Expr::Nested(left)) } else { left };
    Expr::InSubquery { expr, subquery, negated }
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

fn is_query(right: &Expr) -> bool {
    matches!(right, Expr::Subquery(_))
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
            ("SELECT x = ANY(SELECT y FROM u) FROM t", "SELECT (x IN (SELECT y FROM u)) FROM t"),
            ("SELECT x <> ALL(SELECT y FROM u) FROM t", "SELECT (x NOT IN (SELECT y FROM u)) FROM t"),
            ("SELECT x + 1 = SOME(SELECT y FROM u) FROM t", "SELECT ((x + 1) IN (SELECT y FROM u)) FROM t"),
            ("SELECT x > ANY(SELECT y FROM u) FROM t", "SELECT x > ANY(SELECT y FROM u) FROM t"),
            ("SELECT x <> ANY(l), x = ANY($1) FROM t", "SELECT x <> ANY(l), x = ANY($1) FROM t"),
        ] {
            let mut statement = parse(sql).unwrap().remove(0);
            untitle(&mut statement);
            assert_eq!(statement.to_string(), meant, "{sql}");
        }
    }
}
