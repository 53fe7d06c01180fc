//! Comparisons of rows, as comparisons of their columns: NULL where SQL says so.
//!
//! ```text
//!   (a, b) IN ((1, 2), (3, 4))        a = 1 AND b = 2 OR a = 3 AND b = 4
//!   (a, b) < (1, 2)                   a < 1 OR a = 1 AND b < 2
//!   (a, b) IN (SELECT x, y …)         EXISTS (SELECT 1 FROM (SELECT x, y …) AS "!row" ("!1", "!2")
//!                                             WHERE a = "!1" AND b = "!2")
//! ```
//!
//! DataFusion 55 compares structs in their place, in which NULL equals NULL, and has no subquery of several columns. The
//! last of the three is TRUE where IN is, and FALSE where IN is NULL. So it stands only where both are the same, as a
//! condition by itself or beside AND.

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SetExpr, TableFactor,
    TableWithJoins, UnaryOperator, VisitorMut,
};
use pelton_error::{Error, Result};

use crate::balance::joined;
use crate::dialect::PeltonDialect;
use crate::parse::visit_sql;

/// Compares the columns of rows that are written out, and looks up those that are compared with a subquery.
///
/// # Errors
///
/// `InvalidInput` for rows of different lengths; `Unsupported` for a row IN a subquery where NULL is not as good as FALSE.
pub(crate) fn compare_rows(statement: &mut Statement) -> Result<()> {
    if let ControlFlow::Break(error) = visit_sql(statement, &mut Rows) {
        return Err(error);
    }
    match visit_sql(statement, &mut Lookups) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rows;

impl VisitorMut for Rows {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match compared(expr) {
            Some(Ok(columns)) => *expr = columns,
            Some(Err(error)) => return ControlFlow::Break(error),
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// `expr` over columns, where it compares rows.
fn compared(expr: &Expr) -> Option<Result<Expr>> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (row(left)?, row(right)?);
            let compare: fn(&[Expr], &[Expr], &BinaryOperator) -> Expr = match op {
                BinaryOperator::Eq | BinaryOperator::NotEq => equality,
                BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
                    order
                }
                _ => return None,
            };
            Some(same_length(left, right).map(|()| nested(compare(left, right, op))))
        }
        Expr::InList { expr, list, negated } if !list.is_empty() => {
            let (left, items) = (row(expr)?, list.iter().map(row).collect::<Option<Vec<_>>>()?);
            let equal =
                |right| same_length(left, right).map(|()| nested(equality(left, right, &BinaryOperator::Eq)));
            let found = items.into_iter().map(equal).collect::<Result<Vec<Expr>>>();
            Some(found.map(|found| {
                let found = nested(joined(found, &|left, right| binary(left, BinaryOperator::Or, right)));
                match negated {
                    true => nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) }),
                    false => found,
                }
            }))
        }
        _ => None,
    }
}

/// The columns of a row that is written out.
fn row(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(columns) if !columns.is_empty() => Some(columns.as_slice()),
        Expr::Nested(inner) => row(inner),
        _ => None,
    }
}

fn same_length(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "a row of {} columns is compared with one of {}; give both the same number",
        left.len(),
        right.len()
    )))
}

/// That all columns are equal or, for `<>`, that one is not.
fn equality(left: &[Expr], right: &[Expr], op: &BinaryOperator) -> Expr {
    let chain = if *op == BinaryOperator::Eq { BinaryOperator::And } else { BinaryOperator::Or };
    let columns = left.iter().zip(right).map(|(left, right)| column(left, op, right)).collect();
    joined(columns, &|left, right| binary(left, chain.clone(), right))
}

/// The first columns that differ decide.
fn order(left: &[Expr], right: &[Expr], op: &BinaryOperator) -> Expr {
    let (left, left_rest) = left.split_first().expect("a row has columns");
    let (right, right_rest) = right.split_first().expect("a row has columns");
    if left_rest.is_empty() {
        return column(left, op, right);
    }
    let strict = match op {
        BinaryOperator::LtEq => &BinaryOperator::Lt,
        BinaryOperator::GtEq => &BinaryOperator::Gt,
        other => other,
    };
    let rest = nested(order(left_rest, right_rest, op));
    let decided_later = nested(binary(column(left, &BinaryOperator::Eq, right), BinaryOperator::And, rest));
    binary(column(left, strict, right), BinaryOperator::Or, decided_later)
}

fn column(left: &Expr, op: &BinaryOperator, right: &Expr) -> Expr {
    binary(operand(left), op.clone(), operand(right))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// What is not simple has parentheses, so that the text of a view says the same.
fn operand(expr: &Expr) -> Expr {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_) => expr.clone(),
        other => nested(other.clone()),
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

struct Lookups;

impl VisitorMut for Lookups {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        select.selection.iter_mut().for_each(|condition| look_up(condition, true));
        // What aggregates is not to be moved into a subquery.
        select.having.iter_mut().for_each(|condition| look_up(condition, false));
        select.qualify.iter_mut().for_each(|condition| look_up(condition, false));
        select.from.iter_mut().for_each(look_up_in_joins);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match &*expr {
            Expr::InSubquery { expr: compared, negated, .. } if row(compared).is_some() => {
                let word = if *negated { "NOT EXISTS" } else { "EXISTS" };
                ControlFlow::Break(Error::unsupported(format!(
                    "{compared} {}IN (SELECT …): a row is looked up in a subquery only by IN, as a condition of WHERE, \
                     HAVING or ON by itself or beside AND; write {word} (SELECT … WHERE …) with an equality for each \
                     column",
                    if *negated { "NOT " } else { "" }
                )))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn look_up_in_joins(table: &mut TableWithJoins) {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    let within = |relation: &mut TableFactor| {
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            look_up_in_joins(table_with_joins);
        }
    };
    within(&mut table.relation);
    for join in &mut table.joins {
        within(&mut join.relation);
        if let Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on) =
            &mut join.join_operator
            && let JoinConstraint::On(condition) = on
        {
            look_up(condition, true);
        }
    }
}

/// Writes the conjuncts of `condition` that look up rows as EXISTS; `all`: also rows that are not of columns and constants
/// alone.
fn look_up(condition: &mut Expr, all: bool) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            look_up(left, all);
            look_up(right, all);
        }
        Expr::Nested(inner) => look_up(inner, all),
        Expr::InSubquery { expr, subquery, negated: false } => {
            let Some(columns) = row(expr).filter(|columns| all || columns.iter().all(is_simple)) else {
                return;
            };
            *condition = exists(columns, subquery);
        }
        _ => {}
    }
}

fn is_simple(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

/// Whether `subquery` has the row of `columns`.
fn exists(columns: &[Expr], subquery: &Query) -> Expr {
    let names: Vec<Ident> =
        (1..=columns.len()).map(|nth| Ident::with_quote('"', format!("!{nth}"))).collect();
    let listed = names.iter().map(ToString::to_string).collect::<Vec<String>>().join(", ");
    let mut exists = parsed(&format!("EXISTS (SELECT 1 FROM (SELECT 1) AS \"!row\" ({listed}) WHERE TRUE)"));
    if let Expr::Exists { subquery: around, .. } = &mut exists
        && let SetExpr::Select(select) = around.body.as_mut()
        && let [TableWithJoins { relation: TableFactor::Derived { subquery: rows, .. }, .. }] =
            select.from.as_mut_slice()
    {
        **rows = subquery.clone();
        let names: Vec<Expr> = names.into_iter().map(Expr::Identifier).collect();
        select.selection = Some(equality(columns, &names, &BinaryOperator::Eq));
    }
    exists
}

fn parsed(text: &str) -> Expr {
    let parser = DFParserBuilder::new(text).with_dialect(&PeltonDialect).build();
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    parsed.expect("it is SQL").expr
}
