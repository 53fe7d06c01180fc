//! `coalesce` of binary values that are held in two ways.
//!
//! ```text
//!   coalesce(b, CAST('a' AS BYTEA))      b of a table or a Parquet file is a BinaryView, the constant a Binary
//! ```
//!
//! DataFusion 55 has a type for both in CASE, UNION, comparisons and `greatest`, and none here, nor for a binary beside NULL.
//! All else is DataFusion's.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// Puts it in the place of DataFusion's.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    for function in builder.scalar_functions().iter_mut().flatten() {
        if function.name() == "coalesce" {
            *function = Arc::new(ScalarUDF::from(Coalesce { theirs: Arc::clone(function) }));
        }
    }
    builder
}

/// The type of values that are all binary or NULL, and not all of one type; `None` for others.
pub(crate) fn common_binary(types: &[DataType]) -> Option<DataType> {
    let is_binary = |data_type: &DataType| {
        matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    };
    let known: Vec<&DataType> = types.iter().filter(|data_type| !data_type.is_null()).collect();
    let first = *known.first()?;
    if !known.iter().all(|data_type| is_binary(data_type)) {
        return None;
    }
    match known.iter().all(|data_type| *data_type == first) {
        false => Some(DataType::BinaryView),
        true => (known.len() < types.len()).then(|| first.clone()),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce {
    /// DataFusion's.
    theirs: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.theirs.name()
    }

    fn aliases(&self) -> &[String] {
        self.theirs.aliases()
    }

    fn signature(&self) -> &Signature {
        self.theirs.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match common_binary(types) {
            Some(common) => Ok(vec![common; types.len()]),
            None => self.theirs.coerce_types(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.theirs.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.theirs.simplify(args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.theirs.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.theirs.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.theirs.short_circuits()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.theirs.documentation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_of_several_types_have_a_common_one() {
        use DataType::{Binary, BinaryView, Null, Utf8};
        assert_eq!(common_binary(&[BinaryView, Binary]), Some(BinaryView));
        assert_eq!(common_binary(&[Null, Binary, BinaryView]), Some(BinaryView));
        assert_eq!(common_binary(&[Null, Binary]), Some(Binary));
        for types in [vec![Binary, Binary], vec![Null], vec![BinaryView, Utf8], vec![Utf8, Binary], vec![]] {
            assert_eq!(common_binary(&types), None, "{types:?}");
        }
    }
}
