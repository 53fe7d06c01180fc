//! `FETCH FIRST n ROWS ONLY` as the LIMIT that it is.
//!
//! ```text
//!   OFFSET 3 ROWS FETCH NEXT 2 ROWS ONLY   ─▶   LIMIT 2 OFFSET 3
//! ```

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Value, VisitorMut};
use pelton_error::{Error, Result};

use crate::parse::visit_sql;

/// Writes each FETCH FIRST and FETCH NEXT of `statement` as a LIMIT.
///
/// # Errors
///
/// `Unsupported` for WITH TIES and PERCENT; `InvalidInput` beside a LIMIT.
pub(crate) fn write_limits(statement: &mut Statement) -> Result<()> {
    match visit_sql(statement, &mut Limits) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Limits;

impl VisitorMut for Limits {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
        if fetch.with_ties {
            return ControlFlow::Break(Error::unsupported(
                "FETCH … WITH TIES: name rank() OVER (ORDER BY …) in a subquery in FROM, and filter by it",
            ));
        }
        if fetch.percent {
            return ControlFlow::Break(Error::unsupported(
                "FETCH … PERCENT: name row_number() OVER (ORDER BY …) and count(*) OVER () in a subquery in FROM, and \
                 compare them",
            ));
        }
        let one = || Expr::Value(Value::Number("1".to_owned(), false).into());
        let limit = Some(fetch.quantity.unwrap_or_else(one));
        query.limit_clause = match query.limit_clause.take() {
            None => Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() }),
            Some(LimitClause::LimitOffset { limit: None, offset, limit_by }) => {
                Some(LimitClause::LimitOffset { limit, offset, limit_by })
            }
            Some(_) => {
                return ControlFlow::Break(Error::invalid_input(
                    "a query has either LIMIT or FETCH FIRST; leave one of them out",
                ));
            }
        };
        ControlFlow::Continue(())
    }
}
