//! Comparisons of rows, as comparisons of their columns: NULL where SQL says so.
//!
//! ```text
//!   (a, b) IN ((1, 2), (3, 4))        a = 1 AND b = 2 OR a = 3 AND b = 4
//!   (a, b) < (1, 2)                   a < 1 OR a = 1 AND b < 2
//!   (a, b) IS DISTINCT FROM (1, 2)    a IS DISTINCT FROM 1 OR b IS DISTINCT FROM 2
//!   (a, b) BETWEEN (1, 2) AND (3, 4)  (a, b) >= (1, 2) AND (a, b) <= (3, 4)
//!   CASE (a, b) WHEN (1, 2) THEN …    CASE WHEN a = 1 AND b = 2 THEN …
//!
//!   (a, b) < (SELECT x, y …)          (SELECT a < "!1" OR a = "!1" AND b < "!2"
//!                                      FROM (SELECT x, y …) AS "!row" ("!1", "!2"))
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
//! ROW(a, b) is (a, b), and columns may be rows themselves. DataFusion 55 compares structs in their place, in which NULL equals
//! NULL, and has no subquery of several columns. IN is NULL where no comparison with a row is TRUE and one is NULL.
//! A condition is asked only whether it is TRUE: there NULL is as good as FALSE, and below NOT as good as TRUE, so that EXISTS,
//! which is never NULL, says the same. Columns that are never NULL are equal or not, so that such a join hashes them.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, JoinConstraint, JoinOperator, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, UnaryOperator, VisitorMut, visit_expressions_mut,
};
use pelton_error::{Error, Result};

use crate::balance::joined;
use crate::dialect::PeltonDialect;
use crate::parse::visit_sql;
use crate::spellings::plain_call;

/// What stands for the condition where a query about rows is written as text.
const CONDITION: &str = "!condition";

/// Compares the columns of rows that are written out, and looks up those that are compared with a subquery.
///
/// # Errors
///
/// `InvalidInput` for rows of different lengths; `Unsupported` for a row that is computed and compared with a subquery, other
/// than in a condition of WHERE or ON.
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
        Expr::BinaryOp { left, op, right } if is_comparison(op) => {
            let (left, right) = (row(left)?, row(right)?);
            Some(same_length(&left, &right).map(|()| nested(comparison(&left, op, &right))))
        }
        Expr::IsDistinctFrom(left, right) => {
            let (left, right) = (row(left)?, row(right)?);
            Some(same_length(&left, &right).map(|()| nested(distinct(&left, &right, false))))
        }
        Expr::IsNotDistinctFrom(left, right) => {
            let (left, right) = (row(left)?, row(right)?);
            Some(same_length(&left, &right).map(|()| nested(distinct(&left, &right, true))))
        }
        Expr::Between { expr, negated, low, high } => {
            let (within, low, high) = (row(expr)?, row(low)?, row(high)?);
            let is_at = |op, bound: &[Expr]| {
                same_length(&within, bound).map(|()| nested(comparison(&within, &op, bound)))
            };
            let bounds = is_at(BinaryOperator::GtEq, &low)
                .and_then(|low| Ok((low, is_at(BinaryOperator::LtEq, &high)?)));
            Some(bounds.map(|(low, high)| {
                let between = nested(binary(low, BinaryOperator::And, high));
                if *negated { opposite(between) } else { between }
            }))
        }
        Expr::InList { expr, list, negated } if !list.is_empty() => {
            let (left, items) = (row(expr)?, list.iter().map(row).collect::<Option<Vec<_>>>()?);
            let equal = |right: &Cow<'_, [Expr]>| {
                same_length(&left, right).map(|()| nested(equality(&left, right, &BinaryOperator::Eq)))
            };
            let found = items.iter().map(equal).collect::<Result<Vec<Expr>>>();
            Some(found.map(|found| {
                let found = nested(joined(found, &|left, right| binary(left, BinaryOperator::Or, right)));
                if *negated { opposite(found) } else { found }
            }))
        }
        Expr::Case { case_token, end_token, operand: Some(operand), conditions, else_result } => {
            let operand = row(operand)?;
            let rows = conditions.iter().map(|when| row(&when.condition)).collect::<Option<Vec<_>>>()?;
            let whens = conditions.iter().zip(&rows).map(|(when, row)| {
                same_length(&operand, row)?;
                let condition = equality(&operand, row, &BinaryOperator::Eq);
                Ok(CaseWhen { condition, result: when.result.clone() })
            });
            Some(whens.collect::<Result<Vec<CaseWhen>>>().map(|conditions| Expr::Case {
                case_token: case_token.clone(),
                end_token: end_token.clone(),
                operand: None,
                conditions,
                else_result: else_result.clone(),
            }))
        }
        _ => None,
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The columns of a row that is written out, with the word ROW or without.
fn row(expr: &Expr) -> Option<Cow<'_, [Expr]>> {
    match expr {
        Expr::Tuple(columns) if !columns.is_empty() => Some(Cow::Borrowed(columns.as_slice())),
        Expr::Nested(inner) => row(inner),
        Expr::Function(call) => {
            let (_, columns) = plain_call(call, |name| name == "row")?;
            (!columns.is_empty()).then_some(Cow::Owned(columns))
        }
        _ => None,
    }
}

/// # Errors
///
/// That the rows, or rows that are columns of them, have different numbers of columns.
fn same_length(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() != right.len() {
        return Err(Error::invalid_input(format!(
            "a row of {} columns is compared with one of {}; give both the same number",
            left.len(),
            right.len()
        )));
    }
    left.iter().zip(right).try_for_each(|(left, right)| match (row(left), row(right)) {
        (Some(left), Some(right)) => same_length(&left, &right),
        _ => Ok(()),
    })
}

/// `left op right` of rows of the same length.
fn comparison(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Expr {
    match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => equality(left, right, op),
        _ => order(left, right, op),
    }
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

/// That one column is distinct from that beside it, or for `is_not` that none is; never NULL.
fn distinct(left: &[Expr], right: &[Expr], is_not: bool) -> Expr {
    let chain = if is_not { BinaryOperator::And } else { BinaryOperator::Or };
    let columns = left.iter().zip(right).map(|(left, right)| {
        if let (Some(left), Some(right)) = (row(left), row(right)) {
            return nested(distinct(&left, &right, is_not));
        }
        let (left, right) = (Box::new(operand(left)), Box::new(operand(right)));
        nested(if is_not { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) })
    });
    joined(columns.collect(), &|left, right| binary(left, chain.clone(), right))
}

fn column(left: &Expr, op: &BinaryOperator, right: &Expr) -> Expr {
    match (row(left), row(right)) {
        (Some(left), Some(right)) => nested(comparison(&left, op, &right)),
        _ => binary(operand(left), op.clone(), operand(right)),
    }
}

fn opposite(condition: Expr) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(condition) })
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
        match looked_up(expr) {
            Some(Ok(value)) => *expr = value,
            Some(Err(error)) => return ControlFlow::Break(error),
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// The value of `expr`, where it compares a row with a subquery.
fn looked_up(expr: &Expr) -> Option<Result<Expr>> {
    if let Expr::InSubquery { expr: compared, subquery, negated } = expr {
        let columns = row(compared)?;
        let word = if *negated { "NOT IN" } else { "IN" };
        let moved = check_movable(&columns, word);
        return Some(moved.map(|()| value(&columns, subquery, *negated, expr.to_string())));
    }
    let (columns, op, subquery) = beside_subquery(expr)?;
    let moved = check_movable(&columns, &op.to_string());
    Some(moved.map(|()| value_of_row(&columns, &op, subquery, expr.to_string())))
}

/// # Errors
///
/// That a row of `columns` cannot be compared with a subquery in a place where aggregates may stand.
fn check_movable(columns: &[Expr], word: &str) -> Result<()> {
    if columns.iter().all(is_movable) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "{} {word} (SELECT …): outside WHERE and ON a row that is compared with a subquery has to be of columns, constants \
         and arithmetic; compute its columns in the SELECT list of a subquery in FROM",
        Expr::Tuple(columns.to_vec())
    )))
}

/// The row, the comparison and the subquery, where `expr` compares a row with that of a subquery.
fn beside_subquery(expr: &Expr) -> Option<(Cow<'_, [Expr]>, BinaryOperator, &Query)> {
    let Expr::BinaryOp { left, op, right } = expr else { return None };
    if !is_comparison(op) {
        return None;
    }
    match (left.as_ref(), right.as_ref()) {
        (_, Expr::Subquery(subquery)) => Some((row(left)?, op.clone(), subquery.as_ref())),
        (Expr::Subquery(subquery), _) => Some((row(right)?, mirrored(op), subquery.as_ref())),
        _ => None,
    }
}

/// The comparison that says the same with its sides swapped.
fn mirrored(op: &BinaryOperator) -> BinaryOperator {
    match op {
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        other => other.clone(),
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
            let columns = row(expr).filter(|columns| all || columns.iter().all(is_simple));
            let found = columns.map(|columns| exists(&columns, subquery, *negated, unknown));
            if let Some(found) = found {
                *condition = found;
            }
        }
        Expr::BinaryOp { .. } if all => {
            let value = beside_subquery(condition)
                .map(|(columns, op, subquery)| value_of_row(&columns, &op, subquery, condition.to_string()));
            if let Some(value) = value {
                *condition = value;
            }
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
    named(asked(&text, &condition, subquery), name)
}

/// `columns op subquery`: the comparison with the only row of `subquery`, and NULL where it has none. In a result it is called
/// `name`.
fn value_of_row(columns: &[Expr], op: &BinaryOperator, subquery: &Query, name: String) -> Expr {
    let names: Vec<Expr> = names(columns).map(Expr::Identifier).collect();
    let text = format!("(SELECT \"{CONDITION}\" AS \"!name\" FROM {})", rows_of(columns));
    named(asked(&text, &comparison(columns, op, &names), subquery), name)
}

/// `value`, a query of one column, which gets this name.
fn named(mut value: Expr, name: String) -> Expr {
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
