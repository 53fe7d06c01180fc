//! Short forms of PostgreSQL and DuckDB, written out.
//!
//! ```text
//!   FROM a                          SELECT * FROM a
//!   k IN (VALUES (1), (3))          k IN (SELECT * FROM (VALUES (1), (3)) AS "!rows")
//!   LIMIT (SELECT 4)                LIMIT (4)
//!   SHOW TABLES                     SELECT * FROM information_schema.tables WHERE … ORDER BY …
//! ```
//!
//! DataFusion 55 gives the first no columns and refuses the next two; its SHOW TABLES lists the tables of information_schema
//! with those of the user.

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, LimitClause, Query, Select, SelectFlavor, SelectItem, SetExpr,
    ShowStatementOptions, TableFactor, TableWithJoins, VisitorMut,
};

use crate::dialect::PeltonDialect;
use crate::parse::visit_sql;

/// The tables and views of the user.
const TABLES: &str = "(SELECT * FROM information_schema.tables WHERE table_schema <> 'information_schema' \
                      ORDER BY table_catalog, table_schema, table_name)";

/// Writes the short forms of `statement` out.
pub(crate) fn write_out(statement: &mut Statement) {
    write_tables(statement);
    let _ = visit_sql(statement, &mut ShortForms);
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

struct ShortForms;

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
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            select.projection.push(SelectItem::Wildcard(Default::default()));
            select.flavor = SelectFlavor::Standard;
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
