//! Conditions in print: text stands in quotes as in SQL, since `name = apple` reads like a comparison of two columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::scalar::ScalarValue;

/// `expr` as DataFusion prints it, but for text.
pub fn quoted(expr: &Arc<dyn PhysicalExpr>) -> String {
    with_quotes(expr).to_string()
}

/// `plan`, a node to be printed, with quotes in its condition if it is a filter.
pub(crate) fn printable(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Arc::clone(plan) };
    let built = FilterExecBuilder::from(filter).with_predicate(with_quotes(filter.predicate())).build();
    built.map_or_else(|_| Arc::clone(plan), |filter| Arc::new(filter) as Arc<dyn ExecutionPlan>)
}

/// `expr` with other texts in the place of its texts: for print, not for evaluation.
fn with_quotes(expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    let rewritten = Arc::clone(expr).transform_up(|node| {
        let text = node.downcast_ref::<Literal>().and_then(|literal| in_quotes(literal.value()));
        Ok(match text {
            Some(text) => Transformed::yes(Arc::new(Literal::new(text)) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(node),
        })
    });
    rewritten.map_or_else(|_| Arc::clone(expr), |rewritten| rewritten.data)
}

fn in_quotes(value: &ScalarValue) -> Option<ScalarValue> {
    let quote = |text: &String| Some(format!("'{}'", text.replace('\'', "''")));
    match value {
        ScalarValue::Utf8(Some(text)) => Some(ScalarValue::Utf8(quote(text))),
        ScalarValue::LargeUtf8(Some(text)) => Some(ScalarValue::LargeUtf8(quote(text))),
        ScalarValue::Utf8View(Some(text)) => Some(ScalarValue::Utf8View(quote(text))),
        ScalarValue::Dictionary(keys, inner) => {
            Some(ScalarValue::Dictionary(keys.clone(), Box::new(in_quotes(inner)?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn text_has_quotes_and_numbers_have_none() {
        let schema = Schema::new(vec![
            Field::new("name", DataType::Utf8View, true),
            Field::new("n", DataType::Int32, true),
        ]);
        let schema = datafusion::common::DFSchema::try_from(schema).unwrap();
        let check = |expr: Expr, expected: &str| {
            let expr = SessionContext::new().create_physical_expr(expr, &schema).unwrap();
            assert_eq!(quoted(&expr), expected);
        };
        let text = |text: &str| lit(ScalarValue::Utf8View(Some(text.into())));
        check(col("name").eq(text("it's")), "name@0 = 'it''s'");
        check(col("n").gt(lit(3)).and(col("name").like(text("a%"))), "n@1 > 3 AND name@0 LIKE 'a%'");
        check(col("name").eq(lit(ScalarValue::Utf8View(None))), "name@0 = NULL");
    }
}
