//! Short forms of PostgreSQL and DuckDB, written out.
//!
//! ```text
//!   FROM a                          SELECT * FROM a
//!   k IN (VALUES (1), (3))          k IN (SELECT * FROM (VALUES (1), (3)) AS "!rows")
//!   LIMIT (SELECT 4)                LIMIT (4)
//!   GROUP BY ()                     HAVING count(*) >= 0
//!   HAVING false                    HAVING (false) AND count(*) >= 0
//!   DISTINCT ON (a, b) … ORDER BY b, a, b DESC, c
//!                                   DISTINCT ON (b, a) … ORDER BY b, a, c
//!   DISTINCT ON (1) a, b            DISTINCT ON (a) a, b
//!   SHOW TABLES                     SELECT * FROM information_schema.tables WHERE … ORDER BY …
//!   sum(v) AS v FROM (…) … HAVING sum(v) > 1
//!                                   sum(v) AS v FROM (…) AS "!from_1" … HAVING sum(v) > 1
//! ```
//!
//! DataFusion 55 gives the first no columns and refuses the others; its SHOW TABLES lists the tables of information_schema
//! with those of the user. In HAVING and QUALIFY it takes a name for the column of the result where the one of FROM is of no
//! table: the last would be sum(sum(v)).

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Distinct, Expr, GroupByExpr, Ident, LimitClause, OrderByKind, Query, Select,
    SelectFlavor, SelectItem, SetExpr, ShowStatementOptions, TableAlias, TableFactor, TableWithJoins, Value,
    VisitorMut, visit_expressions,
};

use crate::dialect::PeltonDialect;
use crate::expansion::normal;
use crate::parse::visit_sql;

/// The tables and views of the user.
const TABLES: &str = "(SELECT * FROM information_schema.tables WHERE table_schema <> 'information_schema' \
                      ORDER BY table_catalog, table_schema, table_name)";

/// Writes the short forms of `statement` out.
pub(crate) fn write_out(statement: &mut Statement) {
    write_tables(statement);
    let _ = visit_sql(statement, &mut ShortForms::default());
}

fn write_tables(statement: &mut Statement) {
    let Statement::Statement(statement) = statement else { return };
    if let ast::Statement::ShowTables {
        terse: false,
        history: false,
        extended: false,
        full: false,
        external: false,
        show_options:
            ShowStatementOptions {
                show_in: None,
                starts_with: None,
                limit: None,
                limit_from: None,
                filter_position: None,
            },
    } = statement.as_ref()
    {
        **statement = ast::Statement::Query(parsed(TABLES));
    }
}

/// The query that `text` is, in parentheses.
fn parsed(text: &str) -> Box<Query> {
    let parser = DFParserBuilder::new(text).with_dialect(&PeltonDialect).build();
    let parsed = parser.and_then(|mut parser| parser.parse_expr());
    let Expr::Subquery(query) = parsed.expect("it is SQL").expr else { unreachable!("{text}") };
    query
}

/// `SELECT * FROM (rows) AS "!rows"`.
pub(crate) fn all_of(rows: Query) -> Query {
    let mut query = parsed("(SELECT * FROM (SELECT 1) AS \"!rows\")");
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }] =
            select.from.as_mut_slice()
    {
        **subquery = rows;
    }
    *query
}

#[derive(Default)]
struct ShortForms {
    /// How many subqueries have got a name.
    named: usize,
}

impl VisitorMut for ShortForms {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, offset, .. }) => {
                limit.iter_mut().for_each(write_constant);
                offset.iter_mut().for_each(|offset| write_constant(&mut offset.value));
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                write_constant(offset);
                write_constant(limit);
            }
            None => {}
        }
        order_keys(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            select.projection.push(SelectItem::Wildcard(Default::default()));
            select.flavor = SelectFlavor::Standard;
        }
        write_total(select);
        if may_mean_results(select)
            && let [TableWithJoins { relation: TableFactor::Derived { alias, .. }, joins }] =
                select.from.as_mut_slice()
            && alias.is_none()
            && joins.is_empty()
        {
            self.named += 1;
            let name = Ident::with_quote('"', format!("!from_{}", self.named));
            *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Infallible> {
        if let Expr::InSubquery { subquery, .. } = expr
            && matches!(subquery.body.as_ref(), SetExpr::Values(_))
        {
            let values = Query::clone(subquery);
            **subquery = all_of(values);
        }
        ControlFlow::Continue(())
    }
}

/// Whether HAVING or QUALIFY of `select` has a name that it gives to a column of its result.
fn may_mean_results(select: &Select) -> bool {
    let results: Vec<String> = select
        .projection
        .iter()
        .filter_map(|column| match column {
            SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
            _ => None,
        })
        .collect();
    select.having.iter().chain(&select.qualify).any(|condition| {
        let found = visit_expressions(condition, |part| match part {
            Expr::Identifier(name) if results.contains(&normal(name)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    })
}

/// Asks a total of its rows where the statement is one by GROUP BY (), or by a HAVING that has no aggregate. Beside other keys ()
/// adds none.
fn write_total(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    let is_nothing = |key: &Expr| matches!(key, Expr::Tuple(parts) if parts.is_empty());
    let is_total = match keys.is_empty() {
        true => select.having.as_ref().is_some_and(is_constant),
        false => keys.iter().all(is_nothing),
    };
    keys.retain(|key| !is_nothing(key));
    if is_total {
        let any = parsed("(SELECT 1 HAVING count(*) >= 0)");
        let SetExpr::Select(any) = *any.body else { return };
        select.having = match (select.having.take(), any.having) {
            (Some(having), Some(any)) => Some(Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(having))),
                op: BinaryOperator::And,
                right: Box::new(any),
            }),
            (None, any) => any,
            (having, None) => having,
        };
    }
}

/// Whether `expr` has neither columns nor calls, of which one may be an aggregate.
fn is_constant(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Function(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_continue()
}

/// Writes the keys of DISTINCT ON that are positions as the columns that they stand for, and all of them in the order of ORDER BY.
/// That has no key twice then: of rows that are equal by it the second time tells nothing.
fn order_keys(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let select: &mut Select = select;
    let Some(Distinct::On(keys)) = &mut select.distinct else { return };
    for key in keys.iter_mut() {
        if let Some(column) = at_position(key, &select.projection) {
            *key = column.clone();
        }
    }
    let order = query.order_by.as_mut().map(|order| &mut order.kind);
    let Some(OrderByKind::Expressions(order)) = order else { return };
    let mut texts: Vec<String> = Vec::new();
    order.retain(|sorted| {
        let text = sorted.expr.to_string();
        let is_new = !texts.contains(&text);
        texts.extend(is_new.then_some(text));
        is_new
    });
    let place = |key: &Expr| {
        let text = key.to_string();
        texts.iter().position(|sorted| *sorted == text)
    };
    if keys.iter().all(|key| place(key).is_some()) {
        keys.sort_by_cached_key(place);
    }
}

/// The expression of `columns` that `key` is the position of, if no `*` stands before it.
fn at_position<'a>(key: &Expr, columns: &'a [SelectItem]) -> Option<&'a Expr> {
    let Expr::Value(value) = key else { return None };
    let Value::Number(number, _) = &value.value else { return None };
    let position: usize = number.parse().ok()?;
    let columns = columns.get(..position)?;
    let expr = |column: &'a SelectItem| match column {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    };
    columns.iter().map(expr).collect::<Option<Vec<&'a Expr>>>()?.pop()
}

/// Puts what a subquery without rows computes into its place.
fn write_constant(expr: &mut Expr) {
    if let Expr::Subquery(query) = expr
        && let Some(computed) = computed(query)
    {
        *expr = Expr::Nested(Box::new(computed.clone()));
    }
}

/// The only expression of `query`, if it is all there is.
fn computed(query: &Query) -> Option<&Expr> {
    let Query { with: None, body, order_by: None, limit_clause: None, fetch: None, pipe_operators, .. } =
        query
    else {
        return None;
    };
    let SetExpr::Select(select) = body.as_ref() else { return None };
    let is_plain = pipe_operators.is_empty()
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if is_plain => Some(expr),
        _ => None,
    }
}
