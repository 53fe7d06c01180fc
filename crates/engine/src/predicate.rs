//! From DataFusion's physical expressions to tests on zone maps.
//!
//! ```text
//! lo_discount BETWEEN 1 AND 3 AND f(x) = 2   →   And[ Test(lo_discount >= 1), Test(lo_discount <= 3), Unknown ]
//! ```
//!
//! A condition is TRUE, FALSE or NULL for a row, so "not TRUE" is not "FALSE". Each kind of expression is therefore
//! translated twice: into the rows for which it is TRUE, and into those for which it is FALSE. NOT swaps the two.
//!
//! ```text
//!                   TRUE for                     FALSE for
//!   a AND b         both TRUE                    one of them FALSE
//!   a OR b          one of them TRUE             both FALSE
//!   NOT a           a FALSE                      a TRUE
//!   x IN (1, 2)     x = 1 or x = 2               x <> 1 and x <> 2
//!   x IN (1, NULL)  x = 1                        no row
//!   a IS TRUE       a TRUE                       a FALSE, and rows that metadata cannot tell (a NULL)
//!   NULL            no row                       no row
//! ```
//!
//! The translation is conservative (Boeschen, Ziegler, Binnig: GOLAP, 2024, section 4): whatever is not understood
//! becomes `Unknown`, which neither skips a row group nor says that all of its rows match. Where a test holds for more
//! rows than the expression, such as the prefix of a LIKE pattern, it is joined to `Unknown` by AND: it may rule row
//! groups out and proves nothing. Where it holds for fewer rows, it is joined by OR.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr,
    LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::scalar::ScalarValue;
use pelton_store::{LogicalType, TableSchema};
use pelton_zone::{ColumnTest, CompareOp, Predicate, Scalar};

use crate::floats;

/// Translates `expr`, whose columns are indices into `schema`, into tests on the zone maps of those columns: the rows
/// for which it is TRUE.
pub(crate) fn zone_predicate(expr: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> Predicate<usize> {
    rows_where(expr, true, schema)
}

/// The rows for which `expr` is `outcome`: TRUE or FALSE, and not NULL.
fn rows_where(expr: &Arc<dyn PhysicalExpr>, outcome: bool, schema: &TableSchema) -> Predicate<usize> {
    let any = expr.as_ref();
    if let Some(dynamic) = any.downcast_ref::<DynamicFilterPhysicalExpr>() {
        return match dynamic.current() {
            Ok(current) => rows_where(&current, outcome, schema),
            Err(_) => Predicate::Unknown,
        };
    }
    if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
        return binary_predicate(binary, outcome, schema);
    }
    if let Some(not) = any.downcast_ref::<NotExpr>() {
        return rows_where(not.arg(), !outcome, schema);
    }
    if let Some(list) = any.downcast_ref::<InListExpr>() {
        return in_list_predicate(list, outcome, schema);
    }
    if let Some(is_null) = any.downcast_ref::<IsNullExpr>() {
        return null_test(is_null.arg(), outcome, schema);
    }
    if let Some(is_not_null) = any.downcast_ref::<IsNotNullExpr>() {
        return null_test(is_not_null.arg(), !outcome, schema);
    }
    if let Some(like) = any.downcast_ref::<LikeExpr>() {
        return like_predicate(like, outcome, schema);
    }
    if let Some(case) = any.downcast_ref::<CaseExpr>() {
        return case_predicate(case, outcome, schema);
    }
    if let Some(call) = any.downcast_ref::<ScalarFunctionExpr>() {
        return call_predicate(call, outcome, schema);
    }
    if let Some(literal) = any.downcast_ref::<Literal>() {
        return literal_predicate(literal, outcome);
    }
    if any.is::<Column>() {
        return column_test(expr, schema, |logical| {
            let wanted = Scalar::Int(i128::from(outcome));
            matches!(logical, LogicalType::Bool).then_some(ColumnTest::Compare(CompareOp::Eq, wanted))
        });
    }
    Predicate::Unknown
}

fn binary_predicate(binary: &BinaryExpr, outcome: bool, schema: &TableSchema) -> Predicate<usize> {
    let both =
        || vec![rows_where(binary.left(), outcome, schema), rows_where(binary.right(), outcome, schema)];
    match (binary.op(), outcome) {
        (Operator::And, true) | (Operator::Or, false) => return Predicate::And(both()),
        (Operator::Or, true) | (Operator::And, false) => return Predicate::Or(both()),
        _ => {}
    }
    let (side, literal, op) = match (as_literal(binary.left()), as_literal(binary.right())) {
        (_, Some(literal)) => (binary.left(), literal, *binary.op()),
        (Some(literal), None) => (binary.right(), literal, mirrored(*binary.op())),
        (None, None) => return Predicate::Unknown,
    };
    match op {
        Operator::IsNotDistinctFrom => same_predicate(side, literal, outcome, schema),
        Operator::IsDistinctFrom => same_predicate(side, literal, !outcome, schema),
        op => match compare_op(op) {
            Some(op) => compare_predicate(side, op, literal, outcome, schema),
            None => Predicate::Unknown,
        },
    }
}

fn compare_predicate(
    side: &Arc<dyn PhysicalExpr>,
    op: CompareOp,
    literal: &ScalarValue,
    outcome: bool,
    schema: &TableSchema,
) -> Predicate<usize> {
    if literal.is_null() {
        return nothing();
    }
    if let (Some(wanted), None) = (as_bool(literal), as_column(side, schema)) {
        return match op {
            CompareOp::Eq => rows_where(side, wanted == outcome, schema),
            CompareOp::NotEq => rows_where(side, wanted != outcome, schema),
            _ => Predicate::Unknown,
        };
    }
    let op = if outcome { op } else { op.negate() };
    column_test(side, schema, |logical| Some(ColumnTest::Compare(op, zone_scalar(literal, logical)?)))
}

/// `side IS NOT DISTINCT FROM literal`, which is never NULL; `outcome`: whether it holds.
fn same_predicate(
    side: &Arc<dyn PhysicalExpr>,
    literal: &ScalarValue,
    outcome: bool,
    schema: &TableSchema,
) -> Predicate<usize> {
    if literal.is_null() {
        return null_test(side, outcome, schema);
    }
    let compared = compare_predicate(side, CompareOp::Eq, literal, outcome, schema);
    match outcome {
        true => compared,
        false => Predicate::Or(vec![compared, null_test(side, true, schema)]),
    }
}

fn in_list_predicate(list: &InListExpr, outcome: bool, schema: &TableSchema) -> Predicate<usize> {
    let is_in = outcome != list.negated();
    let has_null = list.list().iter().any(|item| as_literal(item).is_some_and(ScalarValue::is_null));
    if has_null && !is_in {
        return nothing(); // the value may be the unknown one: not in the list is never TRUE
    }
    let test = column_test(list.expr(), schema, |logical| {
        let literals = list.list().iter().map(|item| as_literal(item));
        let values = literals.filter(|literal| !literal.is_some_and(ScalarValue::is_null));
        values.map(|literal| zone_scalar(literal?, logical)).collect::<Option<Vec<_>>>().map(ColumnTest::In)
    });
    if is_in { test } else { test.negate() }
}

fn null_test(side: &Arc<dyn PhysicalExpr>, is_null: bool, schema: &TableSchema) -> Predicate<usize> {
    let test = if is_null { ColumnTest::IsNull } else { ColumnTest::IsNotNull };
    column_test(side, schema, |_| Some(test))
}

/// A condition that every row satisfies for which the expression has the outcome, and others may, too.
fn necessary(condition: Predicate<usize>) -> Predicate<usize> {
    Predicate::And(vec![condition, Predicate::Unknown])
}

/// No row.
fn nothing() -> Predicate<usize> {
    Predicate::Or(Vec::new())
}

/// Every row.
fn everything() -> Predicate<usize> {
    Predicate::And(Vec::new())
}

fn like_predicate(like: &LikeExpr, outcome: bool, schema: &TableSchema) -> Predicate<usize> {
    if like.case_insensitive() || outcome == like.negated() {
        return Predicate::Unknown;
    }
    let Some(pattern) = as_literal(like.pattern()).and_then(text_of) else { return Predicate::Unknown };
    let prefix: String = pattern.chars().take_while(|c| !matches!(c, '%' | '_' | '\\')).collect();
    let test = column_test(like.expr(), schema, |logical| {
        let starts_with = ColumnTest::StartsWith(prefix.as_bytes().to_vec());
        (matches!(logical, LogicalType::Utf8) && !prefix.is_empty()).then_some(starts_with)
    });
    let is_prefix_alone = pattern.strip_prefix(prefix.as_str()) == Some("%");
    if is_prefix_alone { test } else { necessary(test) }
}

/// A row takes one branch of a CASE: where no branch can have the outcome, the CASE cannot. Hash joins write
/// their per-partition bounds so.
fn case_predicate(case: &CaseExpr, outcome: bool, schema: &TableSchema) -> Predicate<usize> {
    let branches = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
    necessary(Predicate::Or(branches.map(|branch| rows_where(branch, outcome, schema)).collect()))
}

fn call_predicate(call: &ScalarFunctionExpr, outcome: bool, schema: &TableSchema) -> Predicate<usize> {
    match (call.fun().name(), call.args()) {
        ("starts_with", [text, prefix]) if outcome => {
            let Some(prefix) = as_literal(prefix).and_then(text_of) else { return Predicate::Unknown };
            column_test(text, schema, |logical| {
                matches!(logical, LogicalType::Utf8)
                    .then(|| ColumnTest::StartsWith(prefix.as_bytes().to_vec()))
            })
        }
        _ => Predicate::Unknown,
    }
}

fn literal_predicate(literal: &Literal, outcome: bool) -> Predicate<usize> {
    match literal.value() {
        ScalarValue::Boolean(Some(value)) if *value == outcome => everything(),
        ScalarValue::Boolean(_) | ScalarValue::Null => nothing(),
        _ => Predicate::Unknown,
    }
}

fn column_test(
    side: &Arc<dyn PhysicalExpr>,
    schema: &TableSchema,
    test: impl FnOnce(&LogicalType) -> Option<ColumnTest>,
) -> Predicate<usize> {
    let Some(index) = as_column(side, schema) else { return Predicate::Unknown };
    match test(&schema.columns[index].logical) {
        Some(test) => Predicate::Test { column: index, test },
        None => Predicate::Unknown,
    }
}

/// The column behind `expr`, looking through what keeps every value and its order: casts, and keys of floats.
fn as_column(expr: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> Option<usize> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return (column.index() < schema.columns.len()).then(|| column.index());
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>()
        && let (floats::NAME, [inside]) = (call.fun().name(), call.args())
    {
        return as_column(inside, schema); // zone maps know one zero, and rule nothing out by a NaN
    }
    let cast = expr.downcast_ref::<CastExpr>()?;
    let column = as_column(cast.expr(), schema)?;
    keeps_order(&schema.columns[column].logical, cast.cast_type()).then_some(column)
}

fn keeps_order(from: &LogicalType, to: &DataType) -> bool {
    use LogicalType::*;
    match from {
        Int8 | Int16 | Int32 => {
            let bits = |ty: &DataType| match ty {
                DataType::Int16 => 16,
                DataType::Int32 => 32,
                DataType::Int64 => 64,
                _ => 0,
            };
            let from_bits = match from {
                Int8 => 8,
                Int16 => 16,
                _ => 32,
            };
            bits(to) > from_bits
        }
        UInt8 | UInt16 | UInt32 => matches!(to, DataType::Int64 | DataType::UInt64),
        Utf8 => matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
        _ => false,
    }
}

fn as_literal(expr: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_deref()
        }
        _ => None,
    }
}

fn as_bool(literal: &ScalarValue) -> Option<bool> {
    match literal {
        ScalarValue::Boolean(value) => *value,
        _ => None,
    }
}

fn compare_op(op: Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::NotEq,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::LtEq,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::GtEq,
        _ => return None,
    })
}

/// `literal op column` as `column op literal`.
fn mirrored(op: Operator) -> Operator {
    match op {
        Operator::Lt => Operator::Gt,
        Operator::LtEq => Operator::GtEq,
        Operator::Gt => Operator::Lt,
        Operator::GtEq => Operator::LtEq,
        same => same,
    }
}

/// A literal in the terms of a column's zone maps; `None` where the two do not compare value by value.
pub(crate) fn zone_scalar(value: &ScalarValue, logical: &LogicalType) -> Option<Scalar> {
    use LogicalType::*;
    let int = |value: i128| Some(Scalar::Int(value));
    match (logical, value) {
        (Bool, ScalarValue::Boolean(Some(v))) => int(i128::from(*v)),
        (Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64, value) => int(integer_of(value)?),
        (Decimal { scale, .. }, ScalarValue::Decimal128(Some(v), _, literal_scale))
            if scale == literal_scale =>
        {
            int(*v)
        }
        (Float32, ScalarValue::Float32(Some(v))) => Some(Scalar::Float(f64::from(*v))),
        (Float64, ScalarValue::Float64(Some(v))) => Some(Scalar::Float(*v)),
        (Date, ScalarValue::Date32(Some(v))) => int(i128::from(*v)),
        (Timestamp { unit, .. }, value) => int(i128::from(timestamp_of(value, unit)?)),
        (Utf8, value) => Some(Scalar::Bytes(text_of(value)?.as_bytes().to_vec())),
        (
            Binary,
            ScalarValue::Binary(Some(v))
            | ScalarValue::LargeBinary(Some(v))
            | ScalarValue::BinaryView(Some(v)),
        ) => Some(Scalar::Bytes(v.clone())),
        _ => None,
    }
}

fn integer_of(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(Some(v)) => i128::from(*v),
        ScalarValue::Int16(Some(v)) => i128::from(*v),
        ScalarValue::Int32(Some(v)) => i128::from(*v),
        ScalarValue::Int64(Some(v)) => i128::from(*v),
        ScalarValue::UInt8(Some(v)) => i128::from(*v),
        ScalarValue::UInt16(Some(v)) => i128::from(*v),
        ScalarValue::UInt32(Some(v)) => i128::from(*v),
        ScalarValue::UInt64(Some(v)) => i128::from(*v),
        _ => return None,
    })
}

fn timestamp_of(value: &ScalarValue, unit: &TimeUnit) -> Option<i64> {
    match (value, unit) {
        (ScalarValue::TimestampSecond(v, _), TimeUnit::Second)
        | (ScalarValue::TimestampMillisecond(v, _), TimeUnit::Millisecond)
        | (ScalarValue::TimestampMicrosecond(v, _), TimeUnit::Microsecond)
        | (ScalarValue::TimestampNanosecond(v, _), TimeUnit::Nanosecond) => *v,
        _ => None,
    }
}

#[cfg(test)]
mod tests;
