//! `-rank() OVER w`: numbers of rows are unsigned to DataFusion 55, which negates none; to PostgreSQL they are BIGINT.
//!
//! ```text
//!   -rank() OVER (ORDER BY x)      ─▶     -CAST(rank() OVER (ORDER BY x) AS BIGINT)
//! ```

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, UnaryOperator, Value, VisitorMut};

use crate::expansion::normal;
use crate::parse::visit_sql;

/// Functions of windows that count rows or groups of them.
const RANKS: [&str; 4] = ["row_number", "rank", "dense_rank", "ntile"];

/// Gives ranks that `statement` negates a sign.
pub(crate) fn write_signs(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Signs);
}

struct Signs;

impl VisitorMut for Signs {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } = expr
            && is_rank(operand)
        {
            let rank = std::mem::replace(operand.as_mut(), Expr::Value(Value::Null.into()));
            **operand = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(rank),
                data_type: DataType::BigInt(None),
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }
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
