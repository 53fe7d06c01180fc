//! A NULL in a list or struct that is cast to text is written `NULL`, as in DuckDB; DataFusion 55 leaves it out.
//!
//! ```text
//!   CAST([1, NULL, 3] AS VARCHAR)      [1, NULL, 3]      not  [1, , 3]
//! ```

use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::format::DEFAULT_FORMAT_OPTIONS;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::simplify::map_expressions;

/// Writes out the NULLs of lists and structs. It runs after types are coerced, so casts that were added are seen too.
#[derive(Debug)]
pub(crate) struct ListTexts;

impl AnalyzerRule for ListTexts {
    fn name(&self) -> &str {
        "pelton_list_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            if !plan.expressions().iter().any(has_cast_to_text) {
                return Ok(Transformed::no(plan));
            }
            let schema = merge_schema(&plan.inputs());
            map_expressions(plan, &|expr| expr.transform_up(|expr| written_out(expr, &schema)))
        });
        Ok(rewritten?.data)
    }
}

/// What `expr` casts to text, and the type of that text.
fn cast_to_text(expr: &Expr) -> Option<(&Expr, &DataType)> {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expr else {
        return None;
    };
    let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text.then(|| (expr.as_ref(), field.data_type()))
}

fn has_cast_to_text(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(cast_to_text(expr).is_some())).unwrap_or(true)
}

fn written_out(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some((value, text)) = cast_to_text(&expr) else { return Ok(Transformed::no(expr)) };
    let is_nested = value.get_type(schema).is_ok_and(|data_type| {
        use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct};
        matches!(
            data_type,
            List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..) | Struct(_) | Map(..)
        )
    });
    Ok(match is_nested {
        true => {
            let function =
                NestedText { text: text.clone(), signature: Signature::any(1, Volatility::Immutable) };
            Transformed::yes(ScalarUDF::from(function).call(vec![value.clone()]))
        }
        false => Transformed::no(expr),
    })
}

/// `nested_text(x)`: a list or struct as text.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedText {
    text: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for NestedText {
    fn name(&self) -> &str {
        "nested_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.text.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Field::new(self.name(), self.text.clone(), is_nullable).into())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = CastOptions { safe: false, format_options: DEFAULT_FORMAT_OPTIONS.with_null("NULL") };
        Ok(match args.args.swap_remove(0) {
            ColumnarValue::Array(values) => {
                ColumnarValue::Array(cast_with_options(&values, &self.text, &options)?)
            }
            ColumnarValue::Scalar(value) => {
                let text = cast_with_options(&value.to_array()?, &self.text, &options)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&text, 0)?)
            }
        })
    }
}
