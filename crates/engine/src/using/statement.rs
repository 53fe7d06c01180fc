//! Joins that merge columns, as relations with names of ours.
//!
//! ```text
//!   FROM a FULL JOIN b USING (k) JOIN c USING (k) WHERE k > 2
//!   FROM ((a FULL JOIN b USING (k)) AS "!using_1" JOIN c USING (k)) AS "!using_2" WHERE "!using_2".k > 2
//! ```
//!
//! Conditions name the merged columns by these relations: DataFusion finds a name without a table in the SELECT list,
//! GROUP BY, HAVING and ORDER BY, but not in WHERE and ON. In subqueries all clauses do, where it would look into the
//! query around first.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::common::JoinType;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, JoinConstraint, JoinOperator, OrderByKind, PipeOperator, Query, Select,
    SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use pelton_error::{Error, Result};

use super::{NATURAL, ROWS, USING, merging};
use crate::expansion::normal;
use crate::parse::visit_sql;

/// Which of the joins get names that merge columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameJoins {
    /// Those of a FROM that has a RIGHT or a FULL one, and those of subqueries.
    IfNeeded,
    All,
}

/// Gives names to joins of `statement` that merge columns; true where there are any, for [`MergedJoins`](super::MergedJoins) to plan.
///
/// # Errors
///
/// `Unsupported` for such a join behind `|>`.
pub(crate) fn name_joins(statement: &mut Statement, which: NameJoins) -> Result<bool> {
    let mut joins = Joins { all: which == NameJoins::All, ..Joins::default() };
    match visit_sql(statement, &mut joins) {
        ControlFlow::Continue(()) => Ok(joins.count > 0),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Whether joins of `statement` merge columns.
pub(crate) fn merges(statement: &mut Statement) -> bool {
    visit_sql(statement, &mut Merging).is_break()
}

struct Merging;

impl VisitorMut for Merging {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        match select.from.iter().any(has_any_merging) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Merged columns by their names: the relation that has them, `None` where it is not known.
type Merged = HashMap<String, Option<Ident>>;

#[derive(Default)]
struct Joins {
    all: bool,
    count: usize,
    /// Expressions and LATERAL relations around what is visited: a query in them may name columns of one around.
    depth: usize,
    /// Of each query around what is visited, innermost last: the merged columns of its SELECT.
    queries: Vec<Merged>,
}

impl VisitorMut for Joins {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        for operator in &query.pipe_operators {
            if let PipeOperator::Join(join) = operator
                && merges_both(&join.join_operator)
            {
                return ControlFlow::Break(Error::unsupported(
                    "RIGHT or FULL JOIN with USING or NATURAL behind |>: write ON, and COALESCE(a.k, b.k) AS k for the \
                     column of both sides",
                ));
            }
        }
        self.queries.push(Merged::new());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let merged = self.queries.pop().unwrap_or_default();
        if self.depth > 0
            && let SetExpr::Select(select) = query.body.as_ref()
            && let Some(order_by) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order_by.kind
        {
            keys.iter_mut().for_each(|key| name_key(&mut key.expr, select, &merged));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let is_subquery = self.depth > 0;
        let mut merged = Merged::new();
        for table in &mut select.from {
            add(&mut merged, self.name(table, is_subquery || self.all));
        }
        if !merged.is_empty() {
            keep_titles(select, &merged);
            name_columns(&mut select.selection, &merged);
            if is_subquery {
                name_columns(&mut select.projection, &merged);
                name_columns(&mut select.group_by, &merged);
                name_columns(&mut select.having, &merged);
                name_columns(&mut select.named_window, &merged);
                name_columns(&mut select.qualify, &merged);
                if let Some(Distinct::On(keys)) = &mut select.distinct {
                    name_columns(keys, &merged);
                }
            }
        }
        if let Some(of_query) = self.queries.last_mut() {
            *of_query = merged;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Error> {
        self.depth += usize::from(is_lateral(relation));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Error> {
        self.depth -= usize::from(is_lateral(relation));
        ControlFlow::Continue(())
    }
}

impl Joins {
    /// Names the joins of `table` that merge columns, where `all` or some of them need it.
    fn name(&mut self, table: &mut TableWithJoins, all: bool) -> Merged {
        if !(all || has_merging(table)) {
            self.name_within(&mut table.relation, false);
            for join in &mut table.joins {
                self.name_within(&mut join.relation, false);
            }
            return Merged::new();
        }
        let TableWithJoins { relation, joins } = table.clone();
        let mut left = TableWithJoins { relation, joins: Vec::new() };
        let mut merged = self.name_within(&mut left.relation, true);
        for mut join in joins {
            let of_right = self.name_within(&mut join.relation, true);
            let mut of_both = merged.clone();
            add(&mut of_both, of_right.clone());
            if let Some(condition) = condition_of(&mut join.join_operator) {
                name_columns(condition, &of_both);
            }
            merged = match &join.join_operator {
                JoinOperator::Semi(_) | JoinOperator::LeftSemi(_) => merged,
                JoinOperator::Anti(_) | JoinOperator::LeftAnti(_) => merged,
                JoinOperator::RightSemi(_) | JoinOperator::RightAnti(_) => of_right,
                _ => of_both,
            };
            let keys = merging(&join.join_operator).map(|(_, constraint)| keys_of(constraint));
            let is_left = is_lateral(&join.relation); // DataFusion shows it the tables on its left
            left.joins.push(join);
            let Some(keys) = keys else { continue };
            let name = (!is_left).then(|| self.next(if keys.is_some() { USING } else { NATURAL }));
            match keys {
                Some(keys) => merged.extend(keys.into_iter().map(|key| (key, name.clone()))),
                None => merged.values_mut().for_each(|relation| *relation = None),
            }
            if let Some(name) = name {
                left = TableWithJoins { relation: named(left, name), joins: Vec::new() };
            }
        }
        *table = left;
        merged
    }

    /// The same for the joins in parentheses; where these have a name, their merged columns are those of that relation.
    fn name_within(&mut self, relation: &mut TableFactor, all: bool) -> Merged {
        let TableFactor::NestedJoin { table_with_joins: table, alias } = relation else {
            return Merged::new();
        };
        if alias.is_none() {
            return self.name(table, all);
        }
        let shows_sides = has_merging(table) || self.all && has_any_merging(table);
        self.name(table, self.all);
        if shows_sides {
            let rows = named(TableWithJoins::clone(table), self.next(ROWS));
            **table = TableWithJoins { relation: rows, joins: Vec::new() };
        }
        Merged::new()
    }

    fn next(&mut self, prefix: &str) -> Ident {
        self.count += 1;
        Ident::with_quote('"', format!("{prefix}{}", self.count))
    }
}

fn named(table: TableWithJoins, name: Ident) -> TableFactor {
    let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: Some(alias) }
}

/// Whether a join of `table` merges columns of which the left one may be NULL.
fn has_merging(table: &TableWithJoins) -> bool {
    let within = |relation: &TableFactor| match relation {
        TableFactor::NestedJoin { table_with_joins, alias: None } => has_merging(table_with_joins),
        _ => false,
    };
    within(&table.relation)
        || table.joins.iter().any(|join| merges_both(&join.join_operator) || within(&join.relation))
}

/// Whether a join of `table` merges columns, in parentheses too.
fn has_any_merging(table: &TableWithJoins) -> bool {
    let within = |relation: &TableFactor| match relation {
        TableFactor::NestedJoin { table_with_joins, .. } => has_any_merging(table_with_joins),
        _ => false,
    };
    within(&table.relation)
        || table.joins.iter().any(|join| merging(&join.join_operator).is_some() || within(&join.relation))
}

fn merges_both(operator: &JoinOperator) -> bool {
    matches!(merging(operator), Some((JoinType::Right | JoinType::Full, _)))
}

fn is_lateral(relation: &TableFactor) -> bool {
    match relation {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::UNNEST { .. } => true,
        _ => false,
    }
}

/// The names in USING; `None` of NATURAL.
fn keys_of(constraint: &JoinConstraint) -> Option<Vec<String>> {
    let JoinConstraint::Using(names) = constraint else { return None };
    Some(names.iter().filter_map(|name| name.0.last()?.as_ident()).map(normal).collect())
}

fn condition_of(operator: &mut JoinOperator) -> Option<&mut Expr> {
    use JoinOperator::{
        Anti, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti, RightOuter,
        RightSemi, Semi,
    };
    match operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on) | FullOuter(on)
        | Semi(on) | LeftSemi(on) | RightSemi(on) | Anti(on) | LeftAnti(on) | RightAnti(on) => match on {
            JoinConstraint::On(condition) => Some(condition),
            _ => None,
        },
        _ => None,
    }
}

/// Adds the merged columns of another relation; one that both have is not known by its name.
fn add(merged: &mut Merged, others: Merged) {
    for (column, relation) in others {
        merged.entry(column).and_modify(|relation| *relation = None).or_insert(relation);
    }
}

/// Expressions of the SELECT list over merged columns are called what they were written as, without our names.
fn keep_titles(select: &mut Select, merged: &Merged) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let mut renamed = expr.clone();
        name_columns(&mut renamed, merged);
        if renamed != *expr && !matches!(expr, Expr::Identifier(_)) {
            let alias = Ident::with_quote('"', expr.to_string());
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// A key of ORDER BY of `select`, whose SELECT list has been named: the name of a column of the result means that.
fn name_key(key: &mut Expr, select: &Select, merged: &Merged) {
    if let Expr::Identifier(name) = key {
        let name = normal(name);
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } if normal(alias) == name => return,
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts))
                    if parts.last().is_some_and(|part| normal(part) == name) =>
                {
                    *key = Expr::CompoundIdentifier(parts.clone());
                    return;
                }
                _ => {}
            }
        }
    }
    name_columns(key, merged);
}

/// Writes the relations of merged columns that are named without a table, but not in subqueries.
fn name_columns<T: VisitMut>(node: &mut T, merged: &Merged) {
    let _ = node.visit(&mut Columns { merged, inner: 0 });
}

struct Columns<'a> {
    merged: &'a Merged,
    /// Queries and lambdas around what is visited, whose names may be others.
    inner: usize,
}

impl VisitorMut for Columns<'_> {
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
        self.inner += usize::from(matches!(expr, Expr::Lambda(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        match expr {
            Expr::Lambda(_) => self.inner -= 1,
            Expr::Identifier(name) if self.inner == 0 => {
                if let Some(Some(relation)) = self.merged.get(&normal(name)) {
                    *expr = Expr::CompoundIdentifier(vec![relation.clone(), name.clone()]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
