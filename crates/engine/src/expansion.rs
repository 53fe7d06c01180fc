//! How many queries and tables a statement has once each name of a WITH stands for its query.
//!
//! ```text
//!   WITH a AS (SELECT … FROM t), b AS (SELECT … FROM a, a), c AS (SELECT … FROM b, b) SELECT … FROM c
//!             2                           5                           11                          12
//! ```
//!
//! Such a name is planned anew wherever it is used, so twenty of them in a kilobyte of text would become a million
//! joins. This counts them in the text, before anything is planned; views count as one table here, and are counted with
//! what they hold in [`planning`](crate::planning).

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, Select, Visit, Visitor};
use pelton_error::{Error, Result};

/// Queries and tables that a statement may have: those of UNION ALL over 20,000 queries.
const PARTS_MAX: u64 = 40_001;

/// # Errors
///
/// That `statement` reads too many tables, and what to do about it.
pub(crate) fn check(statement: &Statement) -> Result<()> {
    match parts_of(statement) {
        ..=PARTS_MAX => Ok(()),
        parts => Err(Error::invalid_input(format!(
            "the statement has {parts} queries and tables once its WITH names are replaced by their queries, more than \
             the {PARTS_MAX} that are planned: use each name less often, or store what is used again as a table"
        ))),
    }
}

fn parts_of(statement: &Statement) -> u64 {
    let mut count = Count::default();
    let _ = match statement {
        Statement::Statement(statement) => statement.visit(&mut count),
        Statement::Explain(explain) => return parts_of(&explain.statement),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => query.visit(&mut count),
            CopyToSource::Relation(_) => return 1,
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => return 0,
    };
    count.total
}

#[derive(Default)]
struct Count {
    total: u64,
    /// The queries around what is visited, outermost first.
    queries: Vec<Level>,
}

/// A query that is visited.
#[derive(Default)]
struct Level {
    parts: u64,
    /// By where they are: the queries of its WITH that are still to come, and their names.
    to_come: HashMap<usize, String>,
    /// The queries and tables that each name of its WITH stands for.
    names: HashMap<String, u64>,
}

impl Visitor for Count {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        let to_come = names.map(|named| (address(&named.query), normal(&named.alias.name))).collect();
        self.queries.push(Level { to_come, ..Level::default() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        // A query without SELECT, such as VALUES, is something to plan too.
        let parts = self.queries.pop().map_or(0, |level| level.parts).max(1);
        let around = self.queries.last_mut();
        match around.and_then(|around| Some((around.to_come.remove(&address(query))?, around))) {
            Some((name, around)) => drop(around.names.insert(name, parts)),
            None => self.add(parts),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.add(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = match relation.0.as_slice() {
            [part] => part.as_ident().map(normal),
            _ => None,
        };
        let of_name = |name: String| self.queries.iter().rev().find_map(|level| level.names.get(&name));
        let parts = name.and_then(of_name).copied().unwrap_or(1);
        self.add(parts);
        ControlFlow::Continue(())
    }
}

impl Count {
    fn add(&mut self, parts: u64) {
        let count = self.queries.last_mut().map_or(&mut self.total, |level| &mut level.parts);
        *count = count.saturating_add(parts);
    }
}

fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

/// `name` as it is looked up.
pub(crate) fn normal(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParserBuilder;

    fn count(sql: &str) -> u64 {
        let mut parser = DFParserBuilder::new(sql).build().unwrap();
        parts_of(&parser.parse_statements().unwrap()[0])
    }

    #[test]
    fn a_name_counts_as_what_it_stands_for_wherever_it_is_used() {
        assert_eq!(count("SELECT 1"), 1);
        assert_eq!(count("VALUES (1), (2)"), 1);
        assert_eq!(count("SELECT * FROM t, u JOIN t AS v ON true WHERE x IN (SELECT y FROM w)"), 6);
        assert_eq!(count("WITH a AS (SELECT * FROM t, u) SELECT * FROM a, A, \"A\""), 1 + 3 + 3 + 1);
        assert_eq!(count("WITH a AS (SELECT 1), b AS (SELECT * FROM a, a) SELECT * FROM b, b"), 1 + 3 + 3);
        assert_eq!(count("EXPLAIN WITH a AS (SELECT 1) SELECT (SELECT max(x) FROM a) FROM a"), 4);
        assert_eq!(count("WITH t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t, s.t"), 1 + 3 + 1);
        let inner = "WITH a AS (SELECT * FROM t, t, t) SELECT * FROM a";
        assert_eq!(count(&format!("WITH a AS (SELECT 1) SELECT * FROM a, ({inner}) AS b, a")), 1 + 1 + 5 + 1);
        assert_eq!(count("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT * FROM r"), 1 + 3);
        assert_eq!(count("COPY (WITH a AS (SELECT 1) SELECT * FROM a, a) TO 'x.csv'"), 3);
    }

    #[test]
    fn doubling_is_refused_however_often_and_long_unions_are_not() {
        let doubled = |times: usize| {
            let steps =
                (1..=times).map(|step| format!("a{step} AS (SELECT x.v FROM a{0} x, a{0} y)", step - 1));
            let steps: Vec<String> = steps.collect();
            format!("WITH a0 AS (SELECT 1 AS v), {} SELECT * FROM a{times}", steps.join(", "))
        };
        let check =
            |sql: &str| check(&DFParserBuilder::new(sql).build().unwrap().parse_statements().unwrap()[0]);
        assert!(check(&doubled(13)).is_ok());
        for times in [15, 21, 100] {
            let error = check(&doubled(times)).unwrap_err().to_string();
            assert!(error.contains("WITH names"), "{times}: {error}");
        }
        assert!(check(&vec!["SELECT v FROM t"; 2000].join(" UNION ALL ")).is_ok());
    }
}
