//! IN, EXISTS and comparisons with ANY and ALL have SQL's three truth values wherever they stand.
//!
//! DataFusion 55 makes a semi or an anti join of a condition that is a conjunct of WHERE. Below OR, NOT and
//! CASE it joins for a *mark*, a column that says whether a row has a match, so that IN is FALSE where it
//! should be NULL; in a SELECT list, an aggregate, ON or ORDER BY it makes no plan at all; and where a
//! subquery aggregates, limits or numbers rows of its query's row, it moves the comparison with that row
//! above them. This rule leaves alone what becomes a right semi or anti join, and writes the others with
//! marks, each of which is an EXISTS and so never NULL:
//!
//! ```text
//!   Projection  CASE WHEN m1.mark THEN TRUE                          x IN (SELECT y FROM s WHERE s.k = t.k)
//!                    WHEN m2.mark OR x IS NULL AND m3.mark THEN NULL
//!                    ELSE FALSE END
//!     LeftMark m3   t.k = s.k                                      the subquery has rows       if x may be NULL
//!       LeftMark m2   t.k = s.k AND y IS NULL                      one of them is NULL         if y may be NULL
//!         LeftMark m1   t.k = s.k AND x = y                        one of them equals x
//!           t
//! ```
//!
//! A subquery that names no column of its query has these three only once: one row says whether it is empty
//! and whether it holds a NULL. Where the comparison with the query's row cannot be moved up to the join, the
//! subquery is computed for each combination of the outer columns that it names, as T. Neumann and A. Kemper,
//! "Unnesting Arbitrary Queries" (2015), do.
//!
//! Subqueries of FROM that name columns of what stands before them are joined with these in the same way (lateral.rs), and a
//! scalar subquery that has more than one row for a row of its query is an error of that row (only_value.rs).
//!
//! Where the rows of a subquery may differ between two computations, because of a LIMIT, a window or a volatile
//! function, one computation gives the truth value of each combination. What cannot be computed is refused.

mod comparison;
mod domain;
mod lateral;
mod marks;
mod only_value;
mod outer;
mod outer_aggregates;
mod peel;
mod places;
mod rows;
mod series;
mod unnested;
mod values;

use std::cell::Cell;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;

pub(crate) use outer_aggregates::OuterAggregates;
pub(crate) use rows::may_change;
pub(crate) use series::unnest_series;
pub(crate) use unnested::{UnnestedKeys, UnnestedRelations, groups_unnested};
pub(crate) use values::NullableValues;

/// Runs after types are coerced, so that both sides of a comparison have one type, and before floats become
/// keys.
#[derive(Debug)]
pub(crate) struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn name(&self) -> &str {
        "pelton_subqueries"
    }

    /// From the inside out: what is inside a subquery has become joins when the subquery is looked at.
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let names = Names::default();
        let typed = plan.transform_up_with_subqueries(outer::with_types)?;
        let plan = match typed.transformed {
            true => TypeCoercion::new().analyze(typed.data, config)?,
            false => typed.data,
        };
        Ok(plan.transform_up_with_subqueries(|plan| places::rewrite(plan, &names))?.data)
    }
}

/// Gives names that no user's begins like, each once in a plan.
#[derive(Debug, Default)]
struct Names(Cell<usize>);

impl Names {
    fn next(&self, what: &str) -> String {
        self.0.set(self.0.get() + 1);
        format!("__pelton_{what}_{}", self.0.get())
    }
}
