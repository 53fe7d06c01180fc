//! `x ~ '.*'` is NULL where `x` is.
//!
//! ```text
//!   x ~ '.*'        x IS NOT NULL OR NULL
//! ```
//!
//! DataFusion 55 makes it `x IS NOT NULL`, which is FALSE there: in a SELECT list and below NOT that is another answer.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::simplify::map_expressions;

/// Runs after types are coerced, which finds what is no text.
#[derive(Debug)]
pub(crate) struct AnyTexts;

impl AnalyzerRule for AnyTexts {
    fn name(&self) -> &str {
        "pelton_any_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(with_null_tests)?.data)
    }
}

fn with_null_tests(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(of_any_text(part).is_some()))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    map_expressions(plan, &|expr| {
        expr.transform_up(|part| {
            let tested =
                of_any_text(&part).map(|text| text.clone().is_not_null().or(lit(ScalarValue::Boolean(None))));
            Ok(tested.map_or_else(|| Transformed::no(part), Transformed::yes))
        })
    })
}

/// What `expr` matches with a pattern that all texts have.
fn of_any_text(expr: &Expr) -> Option<&Expr> {
    let (text, pattern) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::RegexMatch | Operator::RegexIMatch, right }) => {
            (&**left, &**right)
        }
        // Becomes such a match.
        Expr::ScalarFunction(call) if call.name() == "regexp_like" => match call.args.as_slice() {
            [text, pattern] => (text, pattern),
            [text, pattern, flags] if is_text(flags, "i") => (text, pattern),
            _ => return None,
        },
        _ => return None,
    };
    is_text(pattern, ".*").then_some(text)
}

fn is_text(expr: &Expr, text: &str) -> bool {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten() == Some(text),
        Expr::Cast(cast) => is_text(&cast.expr, text),
        _ => false,
    }
}
