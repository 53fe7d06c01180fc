//! Long chains of AND, of OR and of UNION, from as deep as they are long to as deep as the logarithm of that.
//!
//! ```text
//!         OR                         OR
//!        /  \                      /    \
//!       OR   d                   OR      OR
//!      /  \          ─▶         /  \    /  \
//!     OR   c                   a    b  c    d
//!    /  \
//!   a    b
//! ```
//!
//! The parser makes a tree that leans to the left. Rules of DataFusion look at all that is below a node for each node,
//! which takes time by the square of the depth, and recursion takes stack by the depth. These operators are
//! associative, so the parts stay as they are, in their order. Sums are not (floats round, integers overflow), and what
//! stands in parentheses is left as it was written. Short chains are, too: nothing is gained there.

#![allow(clippy::result_large_err)] // the unchanged expression is handed back as the error

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Value, Values, VisitorMut,
};

use crate::parse::visit_sql;

/// Chains of more parts than this become balanced; a guess at where depth begins to cost anything.
const PARTS_MAX: usize = 32;

/// Balances the chains of `statement`, those of subqueries too.
pub(crate) fn balance(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Balancer);
}

/// Comes to a chain from above: it is balanced before anything descends into it.
struct Balancer;

impl VisitorMut for Balancer {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            let chain = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = joined(parts(chain, |expr| sides(expr, &op)), &|left, right| Expr::BinaryOp {
                left: Box::new(left),
                op: op.clone(),
                right: Box::new(right),
            });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        balance_set(&mut query.body);
        ControlFlow::Continue(())
    }
}

/// Balances the chain of unions at `set`; where it is another operator, those on both sides.
fn balance_set(set: &mut Box<SetExpr>) {
    // EXCEPT and INTERSECT keep their shape: a loop to the left, which is where their chains go.
    let mut set = set;
    loop {
        if let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. } = set.as_ref()
            && matches!(set_quantifier, SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None)
        {
            let quantifier = *set_quantifier;
            let chain = std::mem::replace(set.as_mut(), nothing());
            let mut parts = parts(chain, |set| union_sides(set, quantifier));
            // Below a union stands another operator, or a union that treats rows differently: one of each at most.
            parts.iter_mut().for_each(|part| {
                let mut boxed = Box::new(std::mem::replace(part, nothing()));
                if matches!(*boxed, SetExpr::SetOperation { .. }) {
                    balance_set(&mut boxed);
                }
                *part = *boxed;
            });
            **set = joined(parts, &|left, right| SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: quantifier,
                left: Box::new(left),
                right: Box::new(right),
            });
            return;
        }
        let SetExpr::SetOperation { left, right, .. } = set.as_mut() else { return };
        if matches!(right.as_ref(), SetExpr::SetOperation { .. }) {
            balance_set(right);
        }
        set = left;
    }
}

/// What stands in a set's place while it is rebuilt.
fn nothing() -> SetExpr {
    SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() })
}

/// Both sides of `expr` where it is `op`, else itself.
fn sides(expr: Expr, op: &BinaryOperator) -> Result<(Expr, Expr), Expr> {
    match expr {
        Expr::BinaryOp { left, op: found, right } if found == *op => Ok((*left, *right)),
        other => Err(other),
    }
}

fn union_sides(set: SetExpr, quantifier: SetQuantifier) -> Result<(SetExpr, SetExpr), SetExpr> {
    match set {
        SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right }
            if set_quantifier == quantifier =>
        {
            Ok((*left, *right))
        }
        other => Err(other),
    }
}

/// The parts of a chain in order. `split` gives both sides of an operator of the chain.
pub(crate) fn parts<T>(chain: T, split: impl Fn(T) -> Result<(T, T), T>) -> Vec<T> {
    let (mut open, mut parts) = (vec![chain], Vec::new());
    while let Some(next) = open.pop() {
        match split(next) {
            Ok((left, right)) => open.extend([left, right]),
            Err(part) => parts.push(part),
        }
    }
    parts.reverse();
    parts
}

/// `parts` under one operator: halves under halves where there are many, else leaning to the left as parsed.
pub(crate) fn joined<T>(mut parts: Vec<T>, join: &impl Fn(T, T) -> T) -> T {
    if parts.len() > PARTS_MAX {
        let right = parts.split_off(parts.len().div_ceil(2));
        return join(joined(parts, join), joined(right, join));
    }
    parts.into_iter().reduce(join).expect("a chain has parts")
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParserBuilder;
    use datafusion::sql::sqlparser::ast::VisitMut;

    use super::*;

    fn balanced(sql: &str) -> Statement {
        let mut parser = DFParserBuilder::new(sql).build().unwrap();
        let mut statement = parser.parse_statements().unwrap().remove(0).unwrap();
        balance(&mut statement);
        statement
    }

    #[test]
    fn a_balanced_chain_reads_as_it_was_written() {
        let many = |part: &str, by: &str| vec![part; 700].join(by);
        for sql in [
            format!("SELECT {}", many("a = 1", " OR ")),
            format!("SELECT {}", many("a AND NOT b", " OR ")),
            format!(
                "SELECT * FROM (SELECT 1 WHERE {}) WHERE x IN (SELECT {})",
                many("a", " AND "),
                many("b", " OR ")
            ),
            many("SELECT 1", " UNION ALL "),
            many("SELECT 1 UNION ALL SELECT 2", " UNION "),
            format!("EXPLAIN {}", many("SELECT 1 EXCEPT SELECT 2", " UNION ALL ")),
            many("SELECT a IS NULL", " EXCEPT "),
            "SELECT a OR (b OR c) AND d AND e UNION SELECT 1 UNION ALL SELECT 2".to_owned(),
        ] {
            on_a_large_stack(move || assert_eq!(balanced(&sql).to_string(), sql));
        }
    }

    /// What is not balanced yet is as deep as it is long.
    fn on_a_large_stack(check: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(crate::STACK_BYTES).spawn(check).unwrap().join().unwrap();
    }

    #[test]
    fn long_chains_are_not_deep() {
        on_a_large_stack(check_depths);
    }

    fn check_depths() {
        let depth = |mut expr: &Expr| {
            let mut depth = 0;
            while let Expr::BinaryOp { left, .. } = expr {
                (depth, expr) = (depth + 1, left.as_ref());
            }
            depth
        };
        let mut parser = DFParserBuilder::new(vec!["a"; 4096].join(" AND ").as_str()).build().unwrap();
        let mut expr = parser.parse_expr().unwrap().expr;
        assert_eq!(depth(&expr), 4095);
        let _ = expr.visit(&mut Balancer);
        assert_eq!(depth(&expr), 7 + PARTS_MAX - 1, "halves of halves, then as parsed");
    }
}
