//! Recursive terms of WITH RECURSIVE keep their values: a type that cannot hold them is refused, as in PostgreSQL.
//!
//! ```text
//!   WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 0.5 FROM t WHERE x < 3) SELECT * FROM t
//!   DataFusion 55                              SELECT CAST(x + 0.5 AS BIGINT) …       1, 1, 1, … without an end
//! ```
//!
//! Columns of a recursive query have the types of its first term, and DataFusion casts the others to them. Its cast looks as one
//! that was written, so computed columns of recursive terms are wrapped in `recursive_column` before the statement is planned.
//! Where the plan casts that, the cast was added. Integers of all widths stay allowed beside each other: their casts fail where
//! a number does not fit. No plan has `recursive_column` afterwards.
//!
//! A subquery of a recursive term that reads the recursive query is refused, as in PostgreSQL: DataFusion gives the rows of the last
//! step to one reader, and does not look for it in subqueries.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, ObjectName, Query, SelectItem, SetExpr, SetOperator, Visit, Visitor, VisitorMut,
};
use pelton_error::Error;

use crate::expansion::normal;
use crate::parse::visit_sql;
use crate::simplify::map_expressions;
use crate::spellings::written;

/// What computed columns of recursive terms are wrapped in.
const NAME: &str = "recursive_column";

/// # Errors
///
/// Names a recursive query that a subquery of its recursive term reads.
pub(crate) fn refuse_subqueries(statement: &mut Statement) -> pelton_error::Result<()> {
    match visit_sql(statement, &mut Recursions) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(Error::unsupported(format!(
            "recursive query '{name}' is read by a subquery of its recursive term; read it once, in FROM of that term, and \
             carry along in a column what the subquery would compute"
        ))),
    }
}

struct Recursions;

impl VisitorMut for Recursions {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        let Some(with) = query.with.as_ref().filter(|with| with.recursive) else {
            return ControlFlow::Continue(());
        };
        for table in &with.cte_tables {
            let SetExpr::SetOperation { op: SetOperator::Union, right, .. } = table.query.body.as_ref()
            else {
                continue;
            };
            let mut readers = Readers { name: normal(&table.alias.name), subqueries: 0, hidden: 0 };
            if right.visit(&mut readers).is_break() {
                return ControlFlow::Break(readers.name);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Looks for subqueries that read the relation of this name.
struct Readers {
    name: String,
    /// How many subqueries are around what is visited.
    subqueries: usize,
    /// How many queries around it have a WITH of this name.
    hidden: usize,
}

impl Readers {
    fn is_hidden_in(&self, query: &Query) -> bool {
        let mut names = query.with.iter().flat_map(|with| &with.cte_tables);
        names.any(|table| normal(&table.alias.name) == self.name)
    }
}

impl Visitor for Readers {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.hidden += usize::from(self.is_hidden_in(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.hidden -= usize::from(self.is_hidden_in(query));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.subqueries += usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.subqueries -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let is_meant = match relation.0.as_slice() {
            [name] => name.as_ident().is_some_and(|name| normal(name) == self.name),
            _ => false,
        };
        if is_meant && self.subqueries > 0 && self.hidden == 0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn is_subquery(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. })
}

/// Wraps computed columns of recursive terms; false where there are none.
pub(crate) fn mark_columns(statement: &mut Statement) -> bool {
    // Its text is kept.
    if matches!(statement, Statement::Statement(inner) if matches!(**inner, ast::Statement::CreateView(_))) {
        return false;
    }
    let mut terms = Terms(false);
    let _ = visit_sql(statement, &mut terms);
    terms.0
}

/// Holds whether a column was wrapped.
struct Terms(bool);

impl VisitorMut for Terms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = query.with.as_mut().filter(|with| with.recursive) else {
            return ControlFlow::Continue(());
        };
        for table in &mut with.cte_tables {
            let SetExpr::SetOperation { op: SetOperator::Union, right, .. } = table.query.body.as_mut()
            else {
                continue;
            };
            let SetExpr::Select(select) = right.as_mut() else { continue };
            for item in &mut select.projection {
                let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                    continue;
                };
                if is_computed(expr) {
                    *expr = written("recursive_column($1)", std::slice::from_ref(&*expr));
                    self.0 = true;
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether `expr` computes a value of one type, without a subquery, a parameter or rows of its own.
fn is_computed(expr: &ast::Expr) -> bool {
    struct Others;
    impl Visitor for Others {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => {
                    ControlFlow::Break(())
                }
                ast::Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("unnest") => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let is_computed = matches!(
        expr,
        ast::Expr::BinaryOp { .. }
            | ast::Expr::UnaryOp { .. }
            | ast::Expr::Function(_)
            | ast::Expr::Case { .. }
            | ast::Expr::Nested(_)
    );
    is_computed && expr.visit(&mut Others).is_continue()
}

/// `plan` with its columns as they were written.
///
/// # Errors
///
/// Names a recursive query and a column whose type does not hold what its recursive term gives.
pub(crate) fn unmark_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|plan| {
        check(plan)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let is_marked = |expr: &Expr| expr.exists(|expr| Ok(marked(expr).is_some())).unwrap_or(true);
    let unmarked = plan.transform_up_with_subqueries(|plan| {
        if !plan.expressions().iter().any(is_marked) {
            return Ok(Transformed::no(plan));
        }
        map_expressions(plan, &|expr| {
            expr.transform_up(|expr| {
                Ok(match marked(&expr) {
                    Some(inner) => Transformed::yes(inner.clone()),
                    None => Transformed::no(expr),
                })
            })
        })
    });
    Ok(unmarked?.data)
}

/// What a wrapped column computes.
fn marked(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == NAME => call.args.first(),
        _ => None,
    }
}

/// That a recursive query casts no column of its recursive term to a type that cannot hold it.
fn check(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::RecursiveQuery(query) = plan else { return Ok(()) };
    let LogicalPlan::Projection(Projection { expr, input, .. }) = query.recursive_term.as_ref() else {
        return Ok(());
    };
    for (nth, column) in expr.iter().enumerate() {
        let Expr::Cast(Cast { expr, field }) = unaliased(column) else { continue };
        let Some(computed) = marked(unaliased(expr)) else { continue };
        let (from, to) = (computed.get_type(input.schema())?, field.data_type());
        if !holds(to, &from) {
            return plan_err!(
                "recursive query '{}': column {} has type {} in its first term and {} in its recursive term; cast the \
                 column of the first term to {}",
                query.name,
                nth + 1,
                to,
                from,
                from
            );
        }
    }
    Ok(())
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Whether a column of type `to` holds values of type `from`, or fails where it does not.
fn holds(to: &DataType, from: &DataType) -> bool {
    use DataType::{Date32, Decimal32, Decimal64, Decimal128, Decimal256, Timestamp};
    let scale = |data_type: &DataType| match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some(*scale)
        }
        _ => None,
    };
    match (scale(to), scale(from)) {
        (Some(to), Some(from)) => to >= from,
        (Some(_), None) => !from.is_floating(),
        (None, Some(from)) => !to.is_integer() || from <= 0,
        (None, None) if to.is_integer() => !from.is_floating(),
        (None, None) => !matches!((to, from), (Date32, Timestamp(..))),
    }
}

/// `recursive_column(x)`: `x`.
pub(crate) fn recursive_column() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(RecursiveColumn { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RecursiveColumn {
    signature: Signature,
}

impl ScalarUDFImpl for RecursiveColumn {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
