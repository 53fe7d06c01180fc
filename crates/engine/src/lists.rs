//! IN over a list that rows have a say in, as comparisons.
//!
//! DataFusion 55 takes a list for one of constants if it can be computed over no rows at all. CASE, and `coalesce`, which it
//! makes a CASE of, say NULL then, so `x IN (CASE … END, 1, 2, 3)` never finds what the CASE gives. In SQL a list is short for
//! comparisons; where one of its items names a column, this rule writes them out:
//!
//! ```text
//!   x IN (a, 1)         x = a OR x = 1
//!   x NOT IN (a, 1)     NOT (x = a OR x = 1)
//! ```

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, not};
use datafusion::optimizer::AnalyzerRule;

/// Writes such lists out. It runs after types are coerced, when both sides of each comparison have one type.
#[derive(Debug)]
pub(crate) struct ListsOfColumns;

impl AnalyzerRule for ListsOfColumns {
    fn name(&self) -> &str {
        "pelton_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr.transform_up(|expr| Ok(written_out(expr)))?.update_data(|expr| name.restore(expr)))
            })
        });
        Ok(rewritten?.data)
    }
}

fn written_out(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::InList(InList { expr, list, negated })
            if list.iter().any(|item| item.any_column_refs() || item.contains_outer()) =>
        {
            let found = any_equal(&expr, &list);
            Transformed::yes(if negated { not(found) } else { found })
        }
        other => Transformed::no(other),
    }
}

/// `value` equals one of `items`, as a balanced tree: a long list is not a deep one.
fn any_equal(value: &Expr, items: &[Expr]) -> Expr {
    match items {
        [item] => value.clone().eq(item.clone()),
        items => {
            let (left, right) = items.split_at(items.len() / 2);
            any_equal(value, left).or(any_equal(value, right))
        }
    }
}
