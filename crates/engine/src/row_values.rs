//! Comparisons of rows, as comparisons of their columns: NULL where SQL says so.
//!
//! ```text
//!   (a, b) IN ((1, 2), (3, 4))        a = 1 AND b = 2 OR a = 3 AND b = 4
//!   (a, b) < (1, 2)                   a < 1 OR a = 1 AND b < 2
//!
//!   conditions of WHERE, HAVING and ON, below AND, OR and NOT:
//!   (a, b) IN (SELECT x, y …)         EXISTS (SELECT 1 FROM (SELECT x, y …) AS "!row" ("!1", "!2")
//!                                             WHERE a = "!1" AND b = "!2")
//!   (a, b) NOT IN (SELECT x, y …)     NOT EXISTS (… WHERE (a = "!1" OR a IS NULL OR "!1" IS NULL)
//!                                                     AND (b = "!2" OR b IS NULL OR "!2" IS NULL))
//!
//!   elsewhere:
//!   (a, b) IN (SELECT x, y …)         (SELECT CASE WHEN bool_or(a = "!1" AND b = "!2") THEN TRUE
//!                                                  WHEN bool_or((a = "!1" AND b = "!2") IS NULL) THEN NULL
//!                                                  ELSE FALSE END FROM …)
//! ```
//!
//! DataFusion 55 compares structs in their place, in which NULL equals NULL, and has no subquery of several columns. IN is
//! NULL where no comparison with a row is TRUE and one is NULL. A condition is asked only whether it is TRUE: there NULL
//! is as good as FALSE, and below NOT as good as TRUE, so that EXISTS, which is never NULL, says the same. Columns that are
//! never NULL are equal or not, so that such a join hashes them.

use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, UnaryOperator, VisitorMut, visit_expressions_mut,
};
use pelton_error::{Error, Result};

use crate::balance::joined;
use crate::dialect::PeltonDialect;
use crate::parse::visit_sql;

/// What stands for the condition where a query about rows is written as text.
const CONDITION: &str = "!condition";

/// Compares the columns of rows that are written out, and looks up those that are compared with a subquery.
///
/// # Errors
///
/// `InvalidInput` for rows of different lengths; `Unsupported` for a row that is computed, IN a subquery that is no
/// condition of WHERE or ON.
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
        select.selection.iter_mut().for_each(|condition| look_up(condition, true, false));
        // What aggregates is not to be moved into a subquery.
        select.having.iter_mut().for_each(|condition| look_up(condition, false, false));
        select.qualify.iter_mut().for_each(|condition| look_up(condition, false, false));
        select.from.iter_mut().for_each(look_up_in_joins);
        ControlFlow::Continue(())
    }

    /// Comes to what no condition has been made of.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::InSubquery { expr: compared, subquery, negated } = &*expr else {
            return ControlFlow::Continue(());
        };
        let Some(columns) = row(compared) else { return ControlFlow::Continue(()) };
        if !columns.iter().all(is_movable) {
            return ControlFlow::Break(Error::unsupported(format!(
                "{compared} {}IN (SELECT …): outside WHERE and ON a row that is looked up in a subquery has to be of \
                 columns, constants and arithmetic; compute its columns in the SELECT list of a subquery in FROM",
                if *negated { "NOT " } else { "" }
            )));
        }
        *expr = value(columns, subquery, *negated, expr.to_string());
        ControlFlow::Continue(())
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
            look_up(condition, true, false);
        }
    }
}

/// Writes what in `condition` looks up rows as EXISTS, by which NULL becomes `unknown`: what it is as good as here. `all`:
/// also rows that are not of columns and constants alone.
fn look_up(condition: &mut Expr, all: bool, unknown: bool) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            look_up(left, all, unknown);
            look_up(right, all, unknown);
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => look_up(expr, all, !unknown),
        Expr::Nested(inner) => look_up(inner, all, unknown),
        Expr::InSubquery { expr, subquery, negated } => {
            let Some(columns) = row(expr).filter(|columns| all || columns.iter().all(is_simple)) else {
                return;
            };
            *condition = exists(columns, subquery, *negated, unknown);
        }
        _ => {}
    }
}

fn is_simple(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

/// Whether `expr` means the same within a subquery, and however often it is computed: it is of columns and constants.
fn is_movable(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } | Expr::Cast { expr: inner, .. } => {
            is_movable(inner)
        }
        Expr::BinaryOp { left, right, .. } => is_movable(left) && is_movable(right),
        other => is_simple(other),
    }
}

/// Whether `subquery` has the row of `columns`, or has not where that is `negated`; `unknown` where SQL says NULL.
fn exists(columns: &[Expr], subquery: &Query, negated: bool, unknown: bool) -> Expr {
    let names: Vec<Expr> = names(columns).map(Expr::Identifier).collect();
    // A row for which the comparison is NULL is there where IN may be TRUE, and NOT IN may not.
    let condition = match unknown == negated {
        true => equality(columns, &names, &BinaryOperator::Eq),
        false => {
            let columns = columns.iter().zip(&names).map(|(left, right)| may_be_equal(left, right)).collect();
            joined(columns, &|left, right| binary(left, BinaryOperator::And, right))
        }
    };
    let word = if negated { "NOT EXISTS" } else { "EXISTS" };
    let text = format!("{word} (SELECT 1 FROM {} WHERE \"{CONDITION}\")", rows_of(columns));
    asked(&text, &condition, subquery)
}

/// That `left = right` is not FALSE.
fn may_be_equal(left: &Expr, right: &Expr) -> Expr {
    let equal = column(left, &BinaryOperator::Eq, right);
    if !is_simple(left) {
        return Expr::IsNotFalse(Box::new(nested(equal)));
    }
    let nulls = [left, right].map(|side| Expr::IsNull(Box::new(side.clone())));
    nested(nulls.into_iter().fold(equal, |found, null| binary(found, BinaryOperator::Or, null)))
}

/// The value of IN, or of NOT IN where that is `negated`, from one computation of `subquery`: two need not give the same
/// rows. In a result it is called `name`.
fn value(columns: &[Expr], subquery: &Query, negated: bool, name: String) -> Expr {
    let names: Vec<Expr> = names(columns).map(Expr::Identifier).collect();
    let condition = equality(columns, &names, &BinaryOperator::Eq);
    let (found, otherwise) = if negated { ("FALSE", "TRUE") } else { ("TRUE", "FALSE") };
    let text = format!(
        "(SELECT CASE WHEN bool_or(\"{CONDITION}\") THEN {found} WHEN bool_or(\"{CONDITION}\" IS NULL) THEN NULL \
         ELSE {otherwise} END AS \"!name\" FROM {})",
        rows_of(columns)
    );
    let mut value = asked(&text, &condition, subquery);
    if let [SelectItem::ExprWithAlias { alias, .. }] = select_of(&mut value).projection.as_mut_slice() {
        alias.value = name;
    }
    value
}

/// What the columns of a subquery are called that are compared with `columns`; no user's names begin like this.
fn names(columns: &[Expr]) -> impl Iterator<Item = Ident> {
    (1..=columns.len()).map(|nth| Ident::with_quote('"', format!("!{nth}")))
}

/// A table under these names, as text; [`asked`] gives it its rows.
fn rows_of(columns: &[Expr]) -> String {
    let names: Vec<String> = names(columns).map(|name| name.to_string()).collect();
    format!("(SELECT 1) AS \"!row\" ({})", names.join(", "))
}

/// The query about [`rows_of`] that `text` is, of the rows of `subquery`, with `condition` in its place.
fn asked(text: &str, condition: &Expr, subquery: &Query) -> Expr {
    let parser = DFParserBuilder::new(text).with_dialect(&PeltonDialect).build();
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    let mut asked = parsed.expect("it is SQL").expr;
    let _ = visit_expressions_mut(&mut asked, |expr| {
        if matches!(expr, Expr::Identifier(name) if name.value == CONDITION) {
            *expr = nested(condition.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    if let [TableWithJoins { relation: TableFactor::Derived { subquery: rows, .. }, .. }] =
        select_of(&mut asked).from.as_mut_slice()
    {
        **rows = subquery.clone();
    }
    asked
}

fn select_of(query: &mut Expr) -> &mut Select {
    let select = match query {
        Expr::Exists { subquery, .. } | Expr::Subquery(subquery) => match subquery.body.as_mut() {
            SetExpr::Select(select) => Some(select.as_mut()),
            _ => None,
        },
        _ => None,
    };
    select.expect("it is a SELECT")
}
