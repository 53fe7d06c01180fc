//! A name of a WITH that a WITH around has too, under a name of its own: DataFusion 55 takes it for written twice.
//!
//! ```text
//!   WITH s AS (…) SELECT … FROM (WITH s AS (…) SELECT s.k FROM s)
//!   WITH s AS (…) SELECT … FROM (WITH "!with_1" AS (…) SELECT s.k FROM "!with_1" AS s)
//! ```

use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, Query, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use crate::expansion::normal;
use crate::parse::visit_sql;

/// Renames each name of a WITH in `statement` that a WITH around it has too.
pub(crate) fn rename_shadowing(statement: &mut Statement) {
    let _ = visit_sql(statement, &mut Shadowing::default());
}

#[derive(Default)]
struct Shadowing {
    /// Of each query around what is visited, outermost first: the names of its WITH.
    queries: Vec<Vec<String>>,
    count: usize,
}

impl VisitorMut for Shadowing {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let names =
            query.with.iter().flat_map(|with| &with.cte_tables).map(|named| normal(&named.alias.name));
        self.queries.push(names.collect());
        ControlFlow::Continue(())
    }

    /// From the inside out: what is still called so in a query further in is this one.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Infallible> {
        let own = self.queries.pop().unwrap_or_default();
        for (place, name) in own.iter().enumerate() {
            if self.queries.iter().any(|around| around.contains(name)) {
                self.count += 1;
                rename(query, place, name, Ident::with_quote('"', format!("!with_{}", self.count)));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Calls the name at `place` of the WITH of `query` as `new`, and so what reads it: the queries after it, and its own if
/// it is recursive.
fn rename(query: &mut Query, place: usize, name: &str, new: Ident) {
    let Some(mut with) = query.with.take() else { return };
    let mut references = References { name, new: &new };
    let first = if with.recursive { place } else { place + 1 };
    for later in with.cte_tables.iter_mut().skip(first) {
        let _ = later.query.visit(&mut references);
    }
    let _ = query.visit(&mut references);
    with.cte_tables[place].alias.name = new;
    query.with = Some(with);
}

struct References<'a> {
    name: &'a str,
    new: &'a Ident,
}

impl VisitorMut for References<'_> {
    type Break = Infallible;

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Infallible> {
        if let TableFactor::Table { name, alias, args: None, .. } = relation
            && let [part] = name.0.as_slice()
            && let Some(written) = part.as_ident().cloned()
            && normal(&written) == self.name
        {
            *name = ObjectName::from(vec![self.new.clone()]);
            alias.get_or_insert(TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
        }
        ControlFlow::Continue(())
    }
}
