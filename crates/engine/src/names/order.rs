//! What names in ORDER BY mean: one that stands alone is a column of the result first, in an expression it is one of FROM.
//!
//! ```text
//!   SELECT -id AS id FROM a ORDER BY id              by -id
//!   SELECT -id AS id FROM a ORDER BY id + 0          by the column of a
//! ```
//!
//! DataFusion 55 takes a column of the result in expressions too, and has no plan where both stand side by side. So
//!
//! 1. a key that is written as an expression of the SELECT list is called by its name, which DataFusion computes once;
//! 2. where a key names a column of FROM that is also a name of the result, the query is sorted under hidden names:
//!
//!    ```text
//!      SELECT "!column_1" AS id FROM (SELECT -id AS "!column_1" FROM a ORDER BY id + 0) AS "!rows"
//!    ```
//!
//! Whether FROM has such a column is known only when this is planned. If it has not, the statement is planned as it was
//! written: DuckDB and DataFusion know names of the result in expressions as well, where PostgreSQL does not.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, VisitMut, VisitorMut,
};

use super::name_of;
use crate::expansion::normal;
use crate::parse::visit_sql;
use crate::short_forms::all_of;

/// Calls keys of ORDER BY in `statement` by the columns of the result that compute the same; true where others name
/// columns that may be meant to be those of FROM.
pub(super) fn name_keys(statement: &mut Statement) -> bool {
    let mut keys = Keys { has_clash: false };
    let _ = visit_sql(statement, &mut keys);
    keys.has_clash
}

/// Sorts under hidden names where [`name_keys`] found that names may be meant otherwise.
pub(super) fn hide_names(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Hiding);
}

struct Keys {
    has_clash: bool,
}

impl VisitorMut for Keys {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if let Some((select, keys)) = sorted(query) {
            // Of a column with its table DataFusion knows that it is the same.
            for key in keys.iter_mut().filter(|key| !is_alone(&key.expr) && last_name(&key.expr).is_none()) {
                if let Some(alias) = alias_of(&key.expr, select) {
                    key.expr = Expr::Identifier(alias);
                }
            }
            self.has_clash |= keys.iter_mut().any(|key| clashes(key, select));
        }
        ControlFlow::Continue(())
    }
}

struct Hiding;

impl VisitorMut for Hiding {
    type Break = Infallible;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        if let Some((select, keys)) = sorted(query)
            && keys.iter_mut().any(|key| clashes(key, select))
        {
            let columns = hidden(select, keys);
            let rows = query.clone();
            *query = all_of(rows);
            if let SetExpr::Select(shown) = query.body.as_mut() {
                shown.projection = columns;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The SELECT and the ORDER BY of `query`, where both have names alone: no `*`, and each row once.
fn sorted(query: &mut Query) -> Option<(&mut Select, &mut [OrderByExpr])> {
    let Query { body, order_by: Some(order_by), pipe_operators, .. } = query else { return None };
    let (SetExpr::Select(select), OrderByKind::Expressions(keys)) = (body.as_mut(), &mut order_by.kind)
    else {
        return None;
    };
    let has_names = select.projection.iter().all(|item| name_of(item).is_some());
    let is_plain = pipe_operators.is_empty() && select.into.is_none() && has_names;
    (is_plain && !matches!(select.distinct, Some(Distinct::On(_))))
        .then_some((select.as_mut(), keys.as_mut_slice()))
}

/// A name, or a position or another constant.
fn is_alone(key: &Expr) -> bool {
    matches!(key, Expr::Identifier(_) | Expr::Value(_))
}

/// The name that `select` gives to `expr`, if to nothing else.
fn alias_of(expr: &Expr, select: &Select) -> Option<Ident> {
    let alias = select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr: shown, alias } if shown == expr => Some(alias),
        _ => None,
    })?;
    let name = normal(alias);
    let named =
        select.projection.iter().filter(|item| title(item).is_some_and(|title| normal(&title) == name));
    (named.count() == 1).then(|| alias.clone())
}

/// What a column of a result is called.
fn title(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().cloned(),
        other => name_of(other).map(|name| Ident::with_quote('"', name)),
    }
}

/// Whether `key` names a column that `select` gives the name of to something else. What is DISTINCT is sorted by its own
/// columns alone.
fn clashes(key: &mut OrderByExpr, select: &Select) -> bool {
    if is_alone(&key.expr) || select.distinct.is_some() {
        return false;
    }
    let new_names = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            let (name, is_same) = (normal(alias), last_name(expr) == Some(normal(alias)));
            (!is_same).then_some(name)
        }
        _ => None,
    });
    let names: Vec<String> = new_names.collect();
    !names.is_empty() && key.expr.visit(&mut Mentions { names: &names, inner: 0 }).is_break()
}

/// The name of the column that `expr` is, without its table.
fn last_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(normal(name)),
        Expr::CompoundIdentifier(names) => names.last().map(normal),
        _ => None,
    }
}

/// Breaks at a column that is called as one of these.
struct Mentions<'a> {
    names: &'a [String],
    /// Queries around what is visited, whose names may be others.
    inner: usize,
}

impl VisitorMut for Mentions<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.inner += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.inner -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match last_name(expr) {
            Some(name) if self.inner == 0 && self.names.contains(&name) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Gives the columns of `select` hidden names, and keys that are a column of the result that name; returns the columns
/// that show them under their own. Names that nothing is taken for stay, for GROUP BY and HAVING may know columns by them.
fn hidden(select: &mut Select, keys: &mut [OrderByExpr]) -> Vec<SelectItem> {
    let titles: Vec<Ident> = select.projection.iter().filter_map(title).collect();
    let is_hidden: Vec<bool> = select
        .projection
        .iter()
        .zip(&titles)
        .map(|(item, title)| {
            let named = [normal(title)];
            let mut mentions = Mentions { names: &named, inner: 0 };
            let is_alias = matches!(item, SelectItem::ExprWithAlias { .. });
            let mut others = keys.iter_mut().filter(|key| !is_alone(&key.expr));
            let is_twice = titles.iter().filter(|other| normal(other) == named[0]).count() > 1;
            !is_alias || is_twice || others.any(|key| key.expr.visit(&mut mentions).is_break())
        })
        .collect();
    let mut columns = Vec::new();
    for (nth, (item, title)) in select.projection.iter_mut().zip(titles).enumerate() {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else {
            continue;
        };
        let mut name = title.clone();
        if is_hidden[nth] {
            name = Ident::with_quote('"', format!("!column_{}", nth + 1));
            let is_title = |key: &Expr| matches!(key, Expr::Identifier(key) if normal(key) == normal(&title));
            for key in keys.iter_mut().filter(|key| is_title(&key.expr)) {
                key.expr = Expr::Identifier(name.clone());
            }
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: name.clone() };
        }
        columns.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(name), alias: title });
    }
    columns
}
