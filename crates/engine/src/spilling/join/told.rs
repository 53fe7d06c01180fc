//! What the table of a join tells the scans of its probe side: the filter that they drop rows by.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, InListExpr, lit};
use datafusion::physical_plan::ExecutionPlan;

use super::keys::Bounds;
use super::table::{Table, Words, evaluated};

/// Whether `plan` reads the filter of this id.
pub(super) fn reads(plan: &Arc<dyn ExecutionPlan>, id: u64) -> Result<bool> {
    let mut is_read = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |root| {
            is_read |= root.exists(|part| Ok(part.expression_id() == Some(id)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if is_read { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(is_read)
}

/// What rows of the probe side that match have in common: `keys` of them, which are columns of `schema`, are within the
/// bounds of the table and among its words. `values` are those of a single key, where they are few.
pub(super) fn filter(
    table: &Table,
    keys: &[Arc<dyn PhysicalExpr>],
    values: Option<ArrayRef>,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let mut parts = Vec::new();
    for (key, bounds) in keys.iter().zip(table.bounds()) {
        let Some((least, most)) = bounds_as(bounds, &key.data_type(schema)?)? else { continue };
        let compared = |operator, value| -> Arc<dyn PhysicalExpr> {
            Arc::new(BinaryExpr::new(Arc::clone(key), operator, lit(value)))
        };
        parts.push(compared(Operator::GtEq, least));
        parts.push(compared(Operator::LtEq, most));
    }
    parts.push(match (values, keys) {
        (Some(values), [key]) => {
            Arc::new(InListExpr::try_new_from_array(Arc::clone(key), values, false, schema)?)
        }
        _ => Arc::new(AmongWords { keys: keys.to_vec(), words: Arc::clone(table.words()) }),
    });
    let both = |a, b| Arc::new(BinaryExpr::new(a, Operator::And, b)) as Arc<dyn PhysicalExpr>;
    Ok(parts.into_iter().reduce(both).unwrap_or_else(|| lit(true)))
}

/// `bounds` as values of `of`.
pub(crate) fn bounds_as(bounds: &Bounds, of: &DataType) -> Result<Option<(ScalarValue, ScalarValue)>> {
    let Some(bounds) = bounds else { return Ok(None) };
    // No integer that is a key is larger than 64 bits; dates and times are integers with another name.
    let scalar = |value: i128| match of {
        DataType::UInt64 => Ok(ScalarValue::UInt64(Some(value as u64))),
        _ => as_type(value as i64, of),
    };
    Ok(Some((scalar(*bounds.start())?, scalar(*bounds.end())?)))
}

fn as_type(value: i64, of: &DataType) -> Result<ScalarValue> {
    match of {
        // 32 bits of days; casts go from integers of as many bits.
        DataType::Date32 => ScalarValue::Int32(Some(value as i32)).cast_to(of),
        _ => ScalarValue::Int64(Some(value)).cast_to(of),
    }
}

/// Whether keys may be those of a row of the build side.
struct AmongWords {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    words: Arc<Words>,
}

impl PhysicalExpr for AmongWords {
    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let keys = evaluated(&self.keys, batch)?;
        Ok(ColumnarValue::Array(Arc::new(self.words.may_match(&keys)?)))
    }

    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::new(Field::new("among_words", DataType::Boolean, false)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { keys, words: Arc::clone(&self.words) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AmongWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hash_lookup")
    }
}

impl fmt::Debug for AmongWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmongWords").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl PartialEq for AmongWords {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && Arc::ptr_eq(&self.words, &other.words)
    }
}

impl Eq for AmongWords {}

impl Hash for AmongWords {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.keys.hash(state);
        Arc::as_ptr(&self.words).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn bounds_are_values_of_their_key() {
        use DataType as D;
        let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
        let zones = [None, Some("+02:00".into())];
        let times = units.iter().flat_map(|unit| zones.clone().map(|zone| D::Timestamp(*unit, zone)));
        let numbers = [D::Int8, D::Int16, D::Int32, D::Int64, D::UInt8, D::UInt16, D::UInt32, D::UInt64];
        for of in numbers.into_iter().chain([D::Date32, D::Date64]).chain(times) {
            let (least, most) = bounds_as(&Some(3..=100), &of).unwrap().unwrap();
            assert_eq!((least.data_type(), most.data_type()), (of.clone(), of.clone()));
            assert!(least < most, "{of}");
        }
        let all = bounds_as(&Some(0..=i128::from(u64::MAX)), &D::UInt64).unwrap().unwrap();
        assert_eq!(all.1, ScalarValue::UInt64(Some(u64::MAX)));
    }
}
