//! IGNORE NULLS in the parentheses of a call, where it is that call's.
//!
//! ```text
//!   first_value(abs(x) IGNORE NULLS) OVER w      sqlparser 0.62 reads     first_value( «abs(x) IGNORE NULLS» ) OVER w
//!                                                it means                 first_value( «abs(x)» IGNORE NULLS ) OVER w
//! ```
//!
//! The words may follow the parenthesis of a call as well, `lag(x) IGNORE NULLS OVER w`, and the parser takes them for those of
//! the call that ends before them. Of `abs` DataFusion drops them without a word. So a function that has such a clause takes
//! it from the call that its last argument ends with, unless that has a window of its own.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, VisitorMut,
};

use crate::expansion::normal;
use crate::parse::visit_sql;

/// Functions that pass over NULL where they are told to.
const WITH_CLAUSE: [&str; 6] = ["first_value", "last_value", "nth_value", "lag", "lead", "array_agg"];

/// Gives the functions of `statement` the IGNORE NULLS and RESPECT NULLS that stand in their parentheses.
pub(crate) fn write_null_treatments(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Treatments);
}

struct Treatments;

impl VisitorMut for Treatments {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && has_clause(call)
        {
            take_treatment(call);
        }
        ControlFlow::Continue(())
    }
}

/// Whether `call` is of a function that may have the clause.
fn has_clause(call: &Function) -> bool {
    let [name] = call.name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| WITH_CLAUSE.contains(&normal(name).as_str()))
}

/// Moves the clause at the end of the last argument of `call` behind it.
fn take_treatment(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else { return };
    let Some(FunctionArg::Unnamed(arg) | FunctionArg::Named { arg, .. }) = list.args.last_mut() else {
        return;
    };
    let FunctionArgExpr::Expr(arg) = arg else { return };
    if let Some(last) = last_call(arg).filter(|last| last.over.is_none())
        && let Some(treatment) = last.null_treatment.take()
    {
        list.clauses.insert(0, FunctionArgumentClause::IgnoreOrRespectNulls(treatment));
    }
}

/// The call that the text of `expr` ends with.
fn last_call(expr: &mut Expr) -> Option<&mut Function> {
    match expr {
        Expr::Function(call) => Some(call),
        Expr::BinaryOp { right: last, .. }
        | Expr::UnaryOp { expr: last, .. }
        | Expr::IsDistinctFrom(_, last)
        | Expr::IsNotDistinctFrom(_, last)
        | Expr::Between { high: last, .. }
        | Expr::Like { pattern: last, .. }
        | Expr::ILike { pattern: last, .. } => last_call(last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{Query, SelectItem, SetExpr, Statement as Sql};

    use super::*;

    /// Whether the call that is all of `expr` has the clause.
    fn is_treated(expr: &str) -> bool {
        let mut statement = crate::parse::parse(&format!("SELECT {expr}")).unwrap().remove(0);
        crate::titles::untitle(&mut statement);
        let Statement::Statement(sql) = statement else { panic!("{expr}") };
        let Sql::Query(query) = *sql else { panic!("{expr}") };
        let Query { body, .. } = *query;
        let SetExpr::Select(select) = *body else { panic!("{expr}") };
        let SelectItem::UnnamedExpr(Expr::Function(call)) = &select.projection[0] else { panic!("{expr}") };
        let FunctionArguments::List(list) = &call.args else { panic!("{expr}") };
        call.null_treatment.is_some()
            || list
                .clauses
                .iter()
                .any(|clause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_)))
    }

    #[test]
    fn the_clause_is_that_of_the_call_around_it() {
        for (expr, expected) in [
            ("first_value(abs(x) IGNORE NULLS) OVER (ORDER BY i)", true),
            ("Last_Value(x + abs(y) IGNORE NULLS) OVER (ORDER BY i)", true),
            ("lag(x, 1, -abs(y) RESPECT NULLS) OVER (ORDER BY i)", true),
            ("array_agg(upper(t) IGNORE NULLS ORDER BY i)", true),
            ("first_value(f(g(x)) IGNORE NULLS) OVER ()", true),
            ("lag(x IGNORE NULLS) OVER (ORDER BY i)", true),
            ("lag(abs(x)) IGNORE NULLS OVER (ORDER BY i)", true),
            ("first_value(abs(x)) OVER (ORDER BY i)", false),
            ("coalesce(first_value(x) IGNORE NULLS)", false),
        ] {
            assert_eq!(is_treated(expr), expected, "{expr}");
        }
    }
}
