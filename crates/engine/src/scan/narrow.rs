//! Decimals of up to 18 digits as a scan has them: the whole numbers of 64 bits that are stored.
//!
//! ```text
//!   decoded    i64, all rows ──▶ compared with constants ──▶ selected rows, i64 ──▶ batches ──▶ Decimal128
//! ```
//!
//! So rows that no one gets are not made twice as wide, and a batch is widened when it leaves, while it is in the cache.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use pelton_store::LogicalType;

/// Rows as they are stored, and as others have them.
#[derive(Debug, Clone)]
pub(super) struct Narrow {
    schema: SchemaRef,
    stored: SchemaRef,
    /// The columns that differ.
    columns: Vec<usize>,
}

impl Narrow {
    /// Of rows of `schema`, whose columns are those of tables.
    pub(super) fn of(schema: &SchemaRef) -> Self {
        let is_narrow = |column: &usize| {
            let logical = LogicalType::from_arrow(schema.field(*column).data_type());
            matches!(logical, Some(logical @ LogicalType::Decimal { .. }) if logical.to_stored_arrow() == DataType::Int64)
        };
        let columns: Vec<usize> = (0..schema.fields().len()).filter(is_narrow).collect();
        if columns.is_empty() {
            return Self { schema: Arc::clone(schema), stored: Arc::clone(schema), columns };
        }
        let mut fields = schema.fields().to_vec();
        for &column in &columns {
            fields[column] = Arc::new(schema.field(column).clone().with_data_type(DataType::Int64));
        }
        let stored = Schema::new_with_metadata(fields, schema.metadata().clone());
        Self { schema: Arc::clone(schema), stored: Arc::new(stored), columns }
    }

    /// The schema of rows as others have them.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The schema of rows as they are stored.
    pub(super) fn stored(&self) -> &SchemaRef {
        &self.stored
    }

    /// Rows as others have them.
    pub(super) fn widened(&self, rows: RecordBatch) -> Result<RecordBatch> {
        if self.columns.is_empty() {
            return Ok(rows);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let mut columns = rows.columns().to_vec();
        for &column in &self.columns {
            columns[column] = wide(&columns[column], self.schema.field(column).data_type());
        }
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// `expr`, over rows as others have them, over rows as they are stored: where it compares decimals with constants of
    /// their scale, or with each other, and does nothing else with them.
    pub(super) fn over_stored(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let mut used = 0;
        expr.apply(|node| {
            used += usize::from(self.scale_of(node).is_some());
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut compared = 0;
        let over_stored = Arc::clone(expr).transform_up(|node| {
            let Some((comparison, columns)) = self.comparison(&node) else {
                return Ok(Transformed::no(node));
            };
            compared += columns;
            Ok(Transformed::yes(comparison))
        })?;
        Ok((used == compared).then_some(over_stored.data))
    }

    /// A comparison of whole numbers in place of `node`, and how many columns it names.
    fn comparison(&self, node: &Arc<dyn PhysicalExpr>) -> Option<(Arc<dyn PhysicalExpr>, usize)> {
        let binary = node.downcast_ref::<BinaryExpr>()?;
        if !is_comparison(*binary.op()) {
            return None;
        }
        let (left, right) = (binary.left(), binary.right());
        let (left, right, columns) = match (self.scale_of(left), self.scale_of(right)) {
            (Some(one), Some(other)) if one == other => (Arc::clone(left), Arc::clone(right), 2),
            (Some(scale), None) => (Arc::clone(left), whole(right, scale)?, 1),
            (None, Some(scale)) => (whole(left, scale)?, Arc::clone(right), 1),
            _ => return None,
        };
        Some((Arc::new(BinaryExpr::new(left, *binary.op(), right)), columns))
    }

    /// The scale of `expr`, if it is a column that is narrow where it is stored.
    fn scale_of(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<i8> {
        let column = expr.downcast_ref::<Column>()?.index();
        match self.schema.field(column).data_type() {
            DataType::Decimal128(_, scale) if self.columns.contains(&column) => Some(*scale),
            _ => None,
        }
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    matches!(op, O::Eq | O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq)
}

/// A decimal of `scale` as the whole number that is stored for it.
fn whole(expr: &Arc<dyn PhysicalExpr>, scale: i8) -> Option<Arc<dyn PhysicalExpr>> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Decimal128(Some(value), _, of) if *of == scale => {
            let whole = i64::try_from(*value).ok()?;
            Some(Arc::new(Literal::new(ScalarValue::Int64(Some(whole)))))
        }
        _ => None,
    }
}

/// Whole numbers as decimals of type `ty`.
fn wide(values: &ArrayRef, ty: &DataType) -> ArrayRef {
    let wide = values.as_primitive::<Int64Type>().unary::<_, Decimal128Type>(i128::from);
    Arc::new(wide.with_data_type(ty.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::arrow::array::{BooleanArray, Decimal128Array, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, cast, lit};

    fn decimal(value: i128, precision: u8, scale: i8) -> Arc<dyn PhysicalExpr> {
        lit(ScalarValue::Decimal128(Some(value), precision, scale))
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("text", DataType::Utf8View, true),
            Field::new("a", DataType::Decimal128(18, 2), true),
            Field::new("b", DataType::Decimal128(18, 2), true),
            Field::new("c", DataType::Decimal128(7, 3), true),
            Field::new("large", DataType::Decimal128(19, 2), true),
        ]))
    }

    fn column(name: &str) -> Arc<dyn PhysicalExpr> {
        datafusion::physical_expr::expressions::col(name, &schema()).unwrap()
    }

    fn compare(
        left: &Arc<dyn PhysicalExpr>,
        op: Operator,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        binary(Arc::clone(left), op, Arc::clone(right), &schema()).unwrap()
    }

    /// Some rows as others have them, and as they are stored.
    fn rows() -> (RecordBatch, RecordBatch) {
        let values = [Some(-5), None, Some(0), Some(700), Some(i64::MAX / 100)];
        let decimals = |precision, scale| -> ArrayRef {
            let values: Decimal128Array = values.iter().map(|value| value.map(i128::from)).collect();
            Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
        };
        let other: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), Some(1), None, Some(700), Some(-9)]));
        let (text, large): (ArrayRef, ArrayRef) =
            (Arc::new(StringViewArray::from(vec!["a", "b", "c", "d", "e"])), decimals(19, 2));
        let whole: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let narrow = Narrow::of(&schema());
        let stored =
            vec![Arc::clone(&text), whole, Arc::clone(&other), Arc::clone(&other), Arc::clone(&large)];
        let wide = vec![
            text,
            decimals(18, 2),
            wide(&other, &DataType::Decimal128(18, 2)),
            wide(&other, &DataType::Decimal128(7, 3)),
            large,
        ];
        let batch = |schema: &SchemaRef, columns| RecordBatch::try_new(Arc::clone(schema), columns).unwrap();
        (batch(&schema(), wide), batch(narrow.stored(), stored))
    }

    #[test]
    fn stored_rows_become_what_others_have() {
        let (wide, stored) = rows();
        let narrow = Narrow::of(&schema());
        assert_eq!(narrow.columns, [1, 2, 3]);
        assert_eq!(narrow.widened(stored.slice(1, 3)).unwrap(), wide.slice(1, 3));
        assert_eq!(narrow.widened(stored).unwrap(), wide);
    }

    #[test]
    fn comparisons_are_those_of_the_stored_numbers() {
        let (wide, stored) = rows();
        let narrow = Narrow::of(&schema());
        let bits = |expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch| -> BooleanArray {
            expr.evaluate(rows).unwrap().into_array(rows.num_rows()).unwrap().as_boolean().clone()
        };
        use Operator as O;
        for op in [O::Eq, O::NotEq, O::Lt, O::LtEq, O::Gt, O::GtEq] {
            let with_constant = compare(&column("a"), op, &decimal(700, 18, 2));
            let turned = compare(&decimal(-5, 18, 2), op, &column("a"));
            let with_each_other = compare(&column("a"), op, &column("b"));
            let both = compare(&with_constant, O::Or, &turned);
            let beside_text = compare(
                &with_constant,
                O::And,
                &compare(&column("text"), O::Lt, &lit(ScalarValue::Utf8View(Some("d".into())))),
            );
            for expr in [with_constant, turned, with_each_other, both, beside_text] {
                let over_stored = narrow.over_stored(&expr).unwrap().unwrap();
                assert_eq!(bits(&over_stored, &stored), bits(&expr, &wide), "{expr}");
            }
        }
    }

    #[test]
    fn whatever_else_is_done_with_decimals_takes_them_wide() {
        let narrow = Narrow::of(&schema());
        use Operator as O;
        let sum = compare(&column("a"), O::Plus, &column("b"));
        let wider = cast(column("a"), &schema(), DataType::Decimal128(30, 2)).unwrap();
        for expr in [
            compare(&column("a"), O::Lt, &decimal(700, 18, 3)),
            compare(&column("a"), O::Lt, &decimal(1 << 70, 38, 2)),
            compare(&column("a"), O::Lt, &column("c")),
            compare(&column("a"), O::Lt, &column("large")),
            compare(&column("a"), O::Lt, &lit(ScalarValue::Decimal128(None, 18, 2))),
            compare(&column("a"), O::IsDistinctFrom, &decimal(700, 18, 2)),
            compare(&sum, O::Lt, &decimal(700, 19, 2)),
            compare(&wider, O::Lt, &decimal(700, 30, 2)),
            compare(
                &compare(&column("a"), O::Lt, &decimal(7, 18, 2)),
                O::And,
                &compare(&wider, O::Lt, &decimal(700, 30, 2)),
            ),
        ] {
            assert!(narrow.over_stored(&expr).unwrap().is_none(), "{expr}");
        }
        assert!(narrow.over_stored(&compare(&column("large"), O::Lt, &decimal(7, 19, 2))).unwrap().is_some());
    }
}
