//! What DataFusion's names of expressions leave out, written as functions, which they show.
//!
//! ```text
//!   expression                           name                     with these
//!   k - (id - 1)                         k - id - 1               k - coalesce(id - 1)
//!   NOT (p AND q)                        NOT p AND q              NOT coalesce(p AND q)
//!   EXISTS (…), another EXISTS (…)       EXISTS, EXISTS           EXISTS, coalesce(EXISTS)
//! ```
//!
//! An operand is wrapped where its operator binds less than the one around it, whether parentheses were written or not: so
//! expressions that are equal stay equal. Of subqueries the first stays, and each other one of the statement is wrapped as
//! often as says which it is. The optimizer takes `coalesce` of one argument away.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Query, Select, UnaryOperator, Value, VisitMut, VisitorMut,
};

use super::coalesced;
use crate::parse::visit_sql;

/// Wraps of one statement: each may be a level more of what planning descends into, beside the thousand that a statement
/// may have.
const WRAPS_MAX: usize = 100;

/// Wraps what names leave out in all clauses of `statement` whose expressions become columns.
pub(super) fn write_brackets(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Brackets { subqueries: Vec::new(), wraps_left: WRAPS_MAX });
}

struct Brackets {
    /// The subqueries of the statement, in the order they were met.
    subqueries: Vec<String>,
    wraps_left: usize,
}

impl VisitorMut for Brackets {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if let Some(order_by) = &mut query.order_by {
            self.write(&mut order_by.kind);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        self.write(&mut select.projection);
        self.write(&mut select.group_by);
        self.write(&mut select.having);
        self.write(&mut select.named_window);
        self.write(&mut select.qualify);
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            self.write(keys);
        }
        ControlFlow::Continue(())
    }
}

impl Brackets {
    fn write<T: VisitMut>(&mut self, node: &mut T) {
        let _ = node.visit(&mut Operands { brackets: self, inner: 0 });
    }

    fn wrap(&mut self, expr: &mut Expr) {
        if self.wraps_left > 0 {
            self.wraps_left -= 1;
            let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = coalesced(inner);
        }
    }

    fn number_subquery(&mut self, expr: &mut Expr) {
        let text = expr.to_string();
        let known = self.subqueries.iter().position(|known| *known == text);
        let nth = known.unwrap_or_else(|| {
            self.subqueries.push(text);
            self.subqueries.len() - 1
        });
        (0..nth).for_each(|_| self.wrap(expr));
    }
}

struct Operands<'a> {
    brackets: &'a mut Brackets,
    /// Queries around what is visited, whose clauses are looked at by themselves, and comparisons with one.
    inner: usize,
}

impl VisitorMut for Operands<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.inner += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Infallible> {
        self.inner -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        self.inner += usize::from(is_quantified(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        self.inner -= usize::from(is_quantified(expr));
        if self.inner > 0 {
            return ControlFlow::Continue(());
        }
        let own = rank(expr);
        match expr {
            Expr::Exists { .. }
            | Expr::InSubquery { .. }
            | Expr::Subquery(_)
            | Expr::AnyOp { .. }
            | Expr::AllOp { .. } => self.brackets.number_subquery(expr),
            Expr::BinaryOp { left, right, .. }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => {
                self.left_operand(left, own);
                self.right_operand(right, own);
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr }
            | Expr::IsNull(expr)
            | Expr::IsNotNull(expr)
            | Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr)
            | Expr::IsUnknown(expr)
            | Expr::IsNotUnknown(expr)
            | Expr::InList { expr, .. } => self.left_operand(expr, own),
            Expr::Like { expr, pattern, .. }
            | Expr::ILike { expr, pattern, .. }
            | Expr::SimilarTo { expr, pattern, .. } => {
                self.left_operand(expr, own);
                self.right_operand(pattern, own);
            }
            Expr::Between { expr, low, high, .. } => {
                self.left_operand(expr, own);
                self.right_operand(low, own);
                self.right_operand(high, own);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Operands<'_> {
    fn left_operand(&mut self, operand: &mut Expr, around: u8) {
        if rank(operand) < around {
            self.brackets.wrap(operand);
        }
    }

    fn right_operand(&mut self, operand: &mut Expr, around: u8) {
        if rank(operand) <= around {
            self.brackets.wrap(operand);
        }
    }
}

fn is_quantified(expr: &Expr) -> bool {
    matches!(expr, Expr::AnyOp { .. } | Expr::AllOp { .. })
}

/// How tightly the operator of `expr` binds in its name; what is no operator, most. Any ranks tell names apart as long as
/// chains of one rank lean to the left.
fn rank(expr: &Expr) -> u8 {
    use BinaryOperator::{
        And, Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Or, Plus, Spaceship, Xor,
    };
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Plus, expr: inner } => rank(inner),
        Expr::BinaryOp { op, .. } => match op {
            Or | Xor => 1,
            And => 2,
            Eq | NotEq | Lt | LtEq | Gt | GtEq | Spaceship => 4,
            Plus | Minus => 6,
            Multiply | Divide | Modulo => 7,
            _ => 5,
        },
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => 3,
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::Between { .. } => 4,
        _ => u8::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::titles::untitle;

    fn written(sql: &str) -> String {
        let mut statement = parse(sql).unwrap().remove(0);
        untitle(&mut statement);
        write_brackets(&mut statement);
        statement.to_string()
    }

    #[test]
    fn operands_that_bind_less_are_wrapped() {
        for (expr, expected) in [
            ("k - (id - 1)", "k - coalesce((id - 1))"),
            ("k - id - 1", "k - id - 1"),
            ("(k - id) - 1", "(k - id) - 1"),
            ("k * (id + 1)", "k * coalesce((id + 1))"),
            ("(k * id) + 1", "(k * id) + 1"),
            ("NOT (p AND q)", "NOT coalesce((p AND q))"),
            ("NOT p AND q", "NOT p AND q"),
            ("(p OR q) IS NULL", "coalesce((p OR q)) IS NULL"),
            ("sum(k - (id - 1)) > 0", "sum(k - coalesce((id - 1))) > 0"),
            ("abs(id - 1)", "abs(id - 1)"),
        ] {
            assert_eq!(written(&format!("SELECT {expr} FROM a")), format!("SELECT {expected} FROM a"));
        }
        let condition = "SELECT 1 FROM a WHERE k - (id - 1) > 0";
        assert_eq!(written(condition), condition, "a condition has no name");
    }

    #[test]
    fn subqueries_are_numbered() {
        let sql = "SELECT (SELECT 1), (SELECT 2), (SELECT 1), (SELECT 3)";
        let expected = "SELECT (SELECT 1), coalesce((SELECT 2)), (SELECT 1), coalesce(coalesce((SELECT 3)))";
        assert_eq!(written(sql), expected);
    }

    #[test]
    fn wraps_are_bounded() {
        let check = || {
            let sql = format!("SELECT {}k{} FROM a", "k - (".repeat(500), ")".repeat(500));
            assert_eq!(written(&sql).matches("coalesce").count(), WRAPS_MAX);
        };
        std::thread::Builder::new().stack_size(crate::STACK_BYTES).spawn(check).unwrap().join().unwrap();
    }
}
