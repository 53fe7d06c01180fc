//! Three truth values of a comparison with all rows of a subquery.
//!
//! ```text
//!              sought row     found      no such row, but a NULL on a side     neither
//!   IN         x = y          TRUE       NULL                                  FALSE
//!   NOT IN     x = y          FALSE      NULL                                  TRUE
//!   < ANY      x < y          TRUE       NULL                                  FALSE
//!   < ALL      not x < y      FALSE      NULL                                  TRUE
//! ```

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit, not};
use datafusion::scalar::ScalarValue;

use super::outer::as_outer;
use super::rows::first_column;

/// What a row says where all of them are looked at together; the greatest of a query's row decides.
const OTHER: i64 = 0;
const UNKNOWN: i64 = 1;
const FOUND: i64 = 2;

/// What is asked of a condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Which of the three it is.
    Value,
    /// Whether it is TRUE.
    True,
}

/// `value <op> ANY (subquery)`, `value <op> ALL (subquery)`, or what IN makes of it.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'a> {
    pub(super) op: Operator,
    pub(super) subquery: &'a Arc<LogicalPlan>,
    /// What the comparison with a row has to be for this row to decide.
    pub(super) sought: bool,
    /// What the condition is where there is such a row.
    pub(super) decided: bool,
}

impl Comparison<'_> {
    /// The comparison with a row, as an expression in the subquery; `plan` is the schema of `value`.
    fn with_row(&self, value: &Expr, plan: &DFSchema) -> Result<Expr> {
        let left = Box::new(as_outer(value.clone(), plan)?);
        Ok(Expr::BinaryExpr(BinaryExpr { left, op: self.op, right: Box::new(first_column(self.subquery)) }))
    }

    /// Whether a row decides.
    pub(super) fn decides(&self, value: &Expr, plan: &DFSchema) -> Result<Expr> {
        let compared = self.with_row(value, plan)?;
        Ok(if self.sought { compared } else { not(compared) })
    }

    /// What a row says, as a number.
    pub(super) fn state(&self, value: &Expr, plan: &DFSchema) -> Result<Expr> {
        let decides = self.decides(value, plan)?;
        let whens = [(decides.clone(), FOUND), (decides.is_null(), UNKNOWN)];
        let whens = whens.into_iter().map(|(when, state)| (Box::new(when), Box::new(lit(state)))).collect();
        Ok(Expr::Case(Case::new(None, whens, Some(Box::new(lit(OTHER))))))
    }

    /// The condition by the greatest of these numbers; NULL where there are no rows.
    pub(super) fn truth_of(&self, state: Expr) -> Truth {
        let is = |number: i64| state.clone().eq(lit(number)).is_true();
        Truth { found: is(FOUND), unknown: Some(is(UNKNOWN)), decided: self.decided }
    }
}

/// A condition; its parts are never NULL.
pub(super) struct Truth {
    pub(super) found: Expr,
    /// `None` where it cannot be.
    pub(super) unknown: Option<Expr>,
    pub(super) decided: bool,
}

impl Truth {
    pub(super) fn into_expr(self, wanted: Wanted) -> Expr {
        let Self { found, unknown, decided } = self;
        match (unknown, wanted, decided) {
            (None, _, true) | (_, Wanted::True, true) => found,
            (None, _, false) => not(found),
            (Some(unknown), Wanted::True, false) => not(found.or(unknown)),
            (Some(unknown), Wanted::Value, _) => {
                let null = lit(ScalarValue::Boolean(None));
                let whens =
                    vec![(Box::new(found), Box::new(lit(decided))), (Box::new(unknown), Box::new(null))];
                Expr::Case(Case::new(None, whens, Some(Box::new(lit(!decided)))))
            }
        }
    }
}
