//! Functions of one text column: DataFusion evaluates them, once for each entry of the column's dictionary.
//!
//! ```text
//!   p_name LIKE '%green%'      dictionary   antique   forest green   …
//!                                 ▼             ▼          ▼
//!                              evaluate       false       true       …    kernels look rows' numbers up here
//! ```
//!
//! So whatever DataFusion can say of a text, kernels can: comparisons, LIKE, IN, substring, upper, length. A function
//! qualifies if it sees nothing but that column and constants, gives the same for the same text every time, and gives
//! NULL for NULL: kernels do not ask it about NULL. That is tried out when the query is planned.

use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, LargeStringArray, RecordBatch, StringArray, StringViewArray, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Date32Type, Field, Float64Type, Int32Type, Int64Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use pelton_error::{Error, ErrorKind, Result};
use pelton_pipeline::ir::{TextFunction, TextKernel, TextResults, Type};

use super::text_kernel::kernel_of;
use super::value::{is_text, kernel_type};
use crate::error::from_datafusion;

/// An expression over one text column, as a function of that text.
pub(super) struct EntryFunction {
    /// Over column 0 of `schema`.
    expr: Arc<dyn PhysicalExpr>,
    schema: Arc<Schema>,
    data_type: DataType,
    ty: Type,
    is_nullable: bool,
    name: String,
    kernel: Option<TextKernel>,
}

/// The one text column that `expr` is a function of, if it is one of nothing else.
pub(super) fn text_input(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    let columns = collect_columns(expr);
    let column = columns.iter().next()?;
    let is_of_one = columns.len() == 1 && is_text(schema.field(column.index()).data_type());
    (is_of_one && is_deterministic(expr)).then(|| column.index())
}

/// True where equal columns give equal results: nothing is read but columns and constants.
pub(super) fn is_deterministic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut pure = true;
    let walked = expr.apply(|node| {
        let is_leaf = node.children().is_empty();
        let is_constant_or_column = node.is::<Column>() || node.is::<Literal>();
        let is_volatile = node
            .downcast_ref::<ScalarFunctionExpr>()
            .is_some_and(|function| function.fun().signature().volatility == Volatility::Volatile);
        pure &= !is_volatile && (!is_leaf || is_constant_or_column);
        Ok(if pure { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    pure && walked.is_ok()
}

impl EntryFunction {
    /// `expr` over `schema`, a function of column `column` alone.
    ///
    /// # Errors
    ///
    /// `Unsupported` where its result is of no type that kernels hold, or not NULL for NULL.
    pub(super) fn try_new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, column: usize) -> Result<Self> {
        let field = schema.field(column);
        let schema = Arc::new(Schema::new(vec![Field::new(field.name(), field.data_type().clone(), true)]));
        let rewritten = Arc::clone(expr).transform_up(|node| match node.downcast_ref::<Column>() {
            Some(column) => {
                let first: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), 0));
                Ok(Transformed::yes(first))
            }
            None => Ok(Transformed::no(node)),
        });
        let expr = rewritten.map_err(from_datafusion)?.data;
        let data_type = expr.data_type(&schema).map_err(from_datafusion)?;
        let ty = result_type(&data_type)?;
        let never_null = Schema::new(vec![schema.field(0).clone().with_nullable(false)]);
        let is_nullable = expr.nullable(&never_null).map_err(from_datafusion)?;
        let name = name_of(&expr);
        let kernel = kernel_of(&expr);
        let function = Self { expr, schema, data_type, ty, is_nullable, name, kernel };
        function.check_null_gives_null()?;
        Ok(function)
    }

    /// The type of its results in the plan.
    pub(super) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn check_null_gives_null(&self) -> Result<()> {
        let null = new_null_array(self.schema.field(0).data_type(), 1);
        if self.results(null)?.is_null(0) {
            return Ok(());
        }
        Err(Error::unsupported(format!("{} is not NULL where its column is", self.name)))
    }

    fn results(&self, entries: ArrayRef) -> Result<ArrayRef> {
        let row_count = entries.len();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![entries])
            .map_err(|error| Error::unsupported(format!("{}: {error}", self.name)))?;
        self.expr
            .evaluate(&batch)
            .and_then(|results| results.into_array(row_count))
            .map_err(|error| from_datafusion(error).context(format!("evaluating {}", self.name)))
    }
}

impl fmt::Debug for EntryFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl TextFunction for EntryFunction {
    fn ty(&self) -> Type {
        self.ty
    }

    fn is_nullable(&self) -> bool {
        self.is_nullable
    }

    fn evaluate(&self, entries: &[&[u8]]) -> Result<TextResults> {
        let array = text_array(self.schema.field(0).data_type(), entries.iter().map(|&entry| Some(entry)))?;
        // The entry that it fails for may be of rows that no condition lets through: the CPU looks at rows.
        let results = self.results(array).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => Error::unsupported(error.to_string()),
            _ => error,
        })?;
        Ok(match self.ty {
            Type::Bool => TextResults::Bool(results.as_boolean().iter().collect()),
            Type::I32 if self.data_type == DataType::Date32 => {
                TextResults::I32(results.as_primitive::<Date32Type>().iter().collect())
            }
            Type::I32 => TextResults::I32(results.as_primitive::<Int32Type>().iter().collect()),
            Type::I64 => TextResults::I64(results.as_primitive::<Int64Type>().iter().collect()),
            Type::F64 => TextResults::F64(results.as_primitive::<Float64Type>().iter().collect()),
            _ => {
                TextResults::Text(texts(&results).into_iter().map(|text| text.map(<[u8]>::to_vec)).collect())
            }
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn kernel(&self) -> Option<TextKernel> {
        self.kernel.clone()
    }

    fn is_same_as(&self, other: &dyn TextFunction) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| {
            self.expr.as_ref() == other.expr.as_ref()
                && self.schema == other.schema
                && self.data_type == other.data_type
        })
    }
}

fn result_type(data_type: &DataType) -> Result<Type> {
    let is_held = matches!(
        data_type,
        DataType::Boolean | DataType::Int32 | DataType::Date32 | DataType::Int64 | DataType::Float64
    );
    if is_held || is_text(data_type) {
        return kernel_type(data_type);
    }
    Err(Error::unsupported(format!("kernels look up no {data_type} by text")))
}

/// What EXPLAIN shows. Where constants could be drawn alike for different functions, their digest follows: several of
/// them, and one that reads as a column does.
fn name_of(expr: &Arc<dyn PhysicalExpr>) -> String {
    let (mut count, mut is_like_column, mut hasher) = (0, false, DefaultHasher::new());
    let walked = expr.apply(|node| {
        if let Some(literal) = node.downcast_ref::<Literal>() {
            let drawn = format!("{:?}", literal.value());
            count += 1;
            is_like_column |= drawn.contains('@');
            drawn.hash(&mut hasher);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match walked {
        Ok(_) if count < 2 && !is_like_column => expr.to_string(),
        _ => format!("{expr} #{:08x}", hasher.finish() as u32),
    }
}

/// Texts as an Arrow array of `data_type`.
///
/// # Errors
///
/// `Corrupt` for a text that is not UTF-8.
pub(super) fn text_array<'a>(
    data_type: &DataType,
    texts: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef> {
    let texts = texts
        .map(|text| text.map(std::str::from_utf8).transpose())
        .collect::<std::result::Result<Vec<Option<&str>>, _>>()
        .map_err(|error| Error::corrupt(format!("a text is not UTF-8: {error}; load the table again")))?;
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::from(texts)),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from(texts)),
        _ => Arc::new(StringViewArray::from_iter(texts)),
    })
}

/// The texts of an Arrow array of any of the three types.
pub(super) fn texts(array: &ArrayRef) -> Vec<Option<&[u8]>> {
    fn bytes<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<&'a [u8]>> {
        texts.map(|text| text.map(str::as_bytes)).collect()
    }
    match array.data_type() {
        DataType::Utf8 => bytes(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => bytes(array.as_string::<i64>().iter()),
        _ => bytes(array.as_string_view().iter()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, in_list, is_null, like, lit};

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("word", DataType::Utf8View, true),
        ])
    }

    fn text(value: &str) -> Arc<dyn PhysicalExpr> {
        lit(datafusion::scalar::ScalarValue::Utf8View(Some(value.into())))
    }

    fn word() -> Arc<dyn PhysicalExpr> {
        col("word", &schema()).unwrap()
    }

    #[test]
    fn a_function_of_one_text_is_evaluated_once_an_entry() {
        let matches = like(false, false, word(), text("%ee%"), &schema()).unwrap();
        assert_eq!(text_input(&matches, &schema()), Some(1));
        let function = EntryFunction::try_new(&matches, &schema(), 1).unwrap();
        let results = function.evaluate(&[b"green", b"blue", b""]).unwrap();
        assert!(
            matches!(results, TextResults::Bool(values) if values == [Some(true), Some(false), Some(false)])
        );
        assert!(!function.is_nullable());
    }

    #[test]
    fn what_is_not_null_for_null_is_no_function_of_entries() {
        let missing = is_null(word()).unwrap();
        assert!(EntryFunction::try_new(&missing, &schema(), 1).is_err());
    }

    #[test]
    fn functions_of_other_columns_are_left_alone() {
        let number = binary(col("n", &schema()).unwrap(), Operator::Gt, lit(3_i64), &schema()).unwrap();
        assert_eq!(text_input(&number, &schema()), None);
        let equal = binary(word(), Operator::Eq, text("x"), &schema()).unwrap();
        let both = binary(number, Operator::And, equal, &schema()).unwrap();
        assert_eq!(text_input(&both, &schema()), None);
    }

    #[test]
    fn lists_that_are_drawn_alike_have_names_apart() {
        let named = |list: Vec<Arc<dyn PhysicalExpr>>| {
            let among = in_list(word(), list, &false, &schema()).unwrap();
            EntryFunction::try_new(&among, &schema(), 1).unwrap().name()
        };
        let (one, two) = (named(vec![text("a, b"), text("c")]), named(vec![text("a"), text("b, c")]));
        assert_ne!(one, two);
        assert_eq!(one, named(vec![text("a, b"), text("c")]));
    }

    #[test]
    fn a_constant_that_is_drawn_as_a_column_has_a_name_apart() {
        let named = |other: Arc<dyn PhysicalExpr>| {
            let equal = binary(word(), Operator::Eq, other, &schema()).unwrap();
            EntryFunction::try_new(&equal, &schema(), 1).unwrap().name()
        };
        assert_ne!(named(word()), named(text("word@0")));
        assert_eq!(named(text("blue")), "word@0 = blue");
    }

    #[test]
    fn a_text_that_is_not_utf8_is_a_damaged_table() {
        let equal = binary(word(), Operator::Eq, text("x"), &schema()).unwrap();
        let function = EntryFunction::try_new(&equal, &schema(), 1).unwrap();
        let error = function.evaluate(&[&[0xff]]).unwrap_err();
        assert_eq!(error.kind(), &pelton_error::ErrorKind::Corrupt);
    }
}
