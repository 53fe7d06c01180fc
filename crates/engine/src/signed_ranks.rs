//! `-rank() OVER w`: numbers of rows are unsigned to DataFusion 55, which negates none; to PostgreSQL they are BIGINT. So is the
//! difference of two of them, which may be less than 0.
//!
//! ```text
//!   -rank() OVER (ORDER BY x)      ─▶     -CAST(rank() OVER (ORDER BY x) AS BIGINT)
//!   rank() OVER v - rank() OVER w  ─▶     CAST(rank() OVER v AS BIGINT) - CAST(rank() OVER w AS BIGINT)
//! ```
//!
//! Ranks that a subquery gives are not known as such, and stay unsigned.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, UnaryOperator, Value, VisitorMut,
};

use crate::expansion::normal;
use crate::parse::visit_sql;

/// Functions of windows that count rows or groups of them.
const RANKS: [&str; 4] = ["row_number", "rank", "dense_rank", "ntile"];

/// Gives ranks that `statement` negates or subtracts a sign.
pub(crate) fn write_signs(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Signs);
}

struct Signs;

impl VisitorMut for Signs {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } if is_rank(operand) => sign(operand),
            Expr::BinaryOp { left, op: BinaryOperator::Minus, right } if is_rank(left) && is_rank(right) => {
                sign(left);
                sign(right);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Makes `rank` a BIGINT.
fn sign(rank: &mut Expr) {
    let unsigned = std::mem::replace(rank, Expr::Value(Value::Null.into()));
    *rank = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(unsigned),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    };
}

/// Whether `expr` is a call of such a function, within parentheses or not.
fn is_rank(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_rank(inner),
        Expr::Function(call) => match call.name.0.as_slice() {
            [name] => {
                let is_listed = name.as_ident().is_some_and(|name| RANKS.contains(&normal(name).as_str()));
                is_listed && call.over.is_some()
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::titles::untitle;

    #[test]
    fn negated_ranks_are_signed() {
        for (sql, meant) in [
            (
                "SELECT -rank() OVER (ORDER BY x) FROM t",
                "SELECT -CAST(rank() OVER (ORDER BY x) AS BIGINT) FROM t",
            ),
            (
                "SELECT 1 + -(Row_Number() OVER (ORDER BY x)) FROM t",
                "SELECT 1 + -CAST((Row_Number() OVER (ORDER BY x)) AS BIGINT) FROM t",
            ),
            (
                "SELECT ntile(2) OVER (ORDER BY x) - (rank() OVER (ORDER BY y)), rank() OVER (ORDER BY x) - 1 FROM t",
                "SELECT CAST(ntile(2) OVER (ORDER BY x) AS BIGINT) - CAST((rank() OVER (ORDER BY y)) AS BIGINT), \
                 rank() OVER (ORDER BY x) - 1 FROM t",
            ),
            (
                "SELECT -sum(x) OVER (ORDER BY x), -rank FROM t",
                "SELECT -sum(x) OVER (ORDER BY x), -rank FROM t",
            ),
        ] {
            let mut statement = parse(sql).unwrap().remove(0);
            untitle(&mut statement);
            assert_eq!(statement.to_string(), meant, "{sql}");
        }
    }
}
