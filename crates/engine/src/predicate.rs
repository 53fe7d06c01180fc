//! From DataFusion's physical expressions to tests on zone maps.
//!
//! ```text
//! lo_discount BETWEEN 1 AND 3 AND f(x) = 2   →   And[ Test(lo_discount >= 1), Test(lo_discount <= 3), Unknown ]
//! ```
//!
//! The translation is conservative (Boeschen, Ziegler, Binnig: GOLAP, 2024, section 4): whatever is not
//! understood becomes `Unknown`, which never skips anything. What is understood in part, such as the prefix of
//! a LIKE pattern, is joined to `Unknown` by AND: it may rule rows out, but proves nothing, and its negation
//! rules nothing out. Negation is pushed to the leaves, where
//! three-valued logic makes `NOT (a = 5)` and `a <> 5` true for the same rows.

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

/// Translates `expr`, whose columns are indices into `schema`, into tests on the zone maps of those columns.
pub(crate) fn zone_predicate(expr: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> Predicate<usize> {
    let any = expr.as_ref();
    if let Some(dynamic) = any.downcast_ref::<DynamicFilterPhysicalExpr>() {
        return match dynamic.current() {
            Ok(current) => zone_predicate(&current, schema),
            Err(_) => Predicate::Unknown,
        };
    }
    if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
        return binary_predicate(binary, schema);
    }
    if let Some(not) = any.downcast_ref::<NotExpr>() {
        return zone_predicate(not.arg(), schema).negate();
    }
    if let Some(list) = any.downcast_ref::<InListExpr>() {
        return in_list_predicate(list, schema);
    }
    if let Some(is_null) = any.downcast_ref::<IsNullExpr>() {
        return column_test(is_null.arg(), schema, |_| Some(ColumnTest::IsNull));
    }
    if let Some(is_not_null) = any.downcast_ref::<IsNotNullExpr>() {
        return column_test(is_not_null.arg(), schema, |_| Some(ColumnTest::IsNotNull));
    }
    if let Some(like) = any.downcast_ref::<LikeExpr>() {
        return like_predicate(like, schema);
    }
    if let Some(case) = any.downcast_ref::<CaseExpr>() {
        return case_predicate(case, schema);
    }
    if let Some(call) = any.downcast_ref::<ScalarFunctionExpr>() {
        return call_predicate(call, schema);
    }
    if let Some(literal) = any.downcast_ref::<Literal>() {
        return literal_predicate(literal);
    }
    if let Some(column) = any.downcast_ref::<Column>() {
        // A bare boolean column is true where it equals true.
        return match schema.columns.get(column.index()).map(|column| &column.logical) {
            Some(LogicalType::Bool) => Predicate::Test {
                column: column.index(),
                test: ColumnTest::Compare(CompareOp::Eq, Scalar::Int(1)),
            },
            _ => Predicate::Unknown,
        };
    }
    Predicate::Unknown
}

fn binary_predicate(binary: &BinaryExpr, schema: &TableSchema) -> Predicate<usize> {
    let both = || vec![zone_predicate(binary.left(), schema), zone_predicate(binary.right(), schema)];
    match binary.op() {
        Operator::And => Predicate::And(both()),
        Operator::Or => Predicate::Or(both()),
        op => {
            let Some(compare) = compare_op(op) else { return Predicate::Unknown };
            if let Some(literal) = as_literal(binary.right()) {
                compare_predicate(binary.left(), compare, literal, schema)
            } else if let Some(literal) = as_literal(binary.left()) {
                compare_predicate(binary.right(), mirrored(compare), literal, schema)
            } else {
                Predicate::Unknown
            }
        }
    }
}

fn compare_predicate(
    side: &Arc<dyn PhysicalExpr>,
    op: CompareOp,
    literal: &ScalarValue,
    schema: &TableSchema,
) -> Predicate<usize> {
    column_test(side, schema, |logical| Some(ColumnTest::Compare(op, zone_scalar(literal, logical)?)))
}

fn in_list_predicate(list: &InListExpr, schema: &TableSchema) -> Predicate<usize> {
    let mut has_null = false;
    let test = column_test(list.expr(), schema, |logical| {
        let mut values = Vec::with_capacity(list.list().len());
        for item in list.list() {
            let literal = as_literal(item)?;
            if literal.is_null() {
                has_null = true; // no row is true for it, but none is false any more
                continue;
            }
            values.push(zone_scalar(literal, logical)?);
        }
        Some(ColumnTest::In(values))
    });
    let test = if has_null { necessary(test) } else { test };
    if list.negated() { test.negate() } else { test }
}

/// A condition that every row satisfies for which the expression is true, and others may, too.
fn necessary(condition: Predicate<usize>) -> Predicate<usize> {
    Predicate::And(vec![condition, Predicate::Unknown])
}

fn like_predicate(like: &LikeExpr, schema: &TableSchema) -> Predicate<usize> {
    if like.case_insensitive() {
        return Predicate::Unknown;
    }
    let Some(pattern) = as_literal(like.pattern()).and_then(text_of) else { return Predicate::Unknown };
    let prefix: String = pattern.chars().take_while(|c| !matches!(c, '%' | '_' | '\\')).collect();
    let test = column_test(like.expr(), schema, |logical| {
        let starts_with = ColumnTest::StartsWith(prefix.as_bytes().to_vec());
        (matches!(logical, LogicalType::Utf8) && !prefix.is_empty()).then_some(starts_with)
    });
    let is_prefix_alone = pattern.strip_prefix(prefix.as_str()) == Some("%");
    let test = if is_prefix_alone { test } else { necessary(test) };
    if like.negated() { test.negate() } else { test }
}

/// A row takes one branch of a CASE: where no branch can be true, the CASE cannot. Hash joins write
/// their per-partition bounds so.
fn case_predicate(case: &CaseExpr, schema: &TableSchema) -> Predicate<usize> {
    let branches = case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr());
    necessary(Predicate::Or(branches.map(|branch| zone_predicate(branch, schema)).collect()))
}

fn call_predicate(call: &ScalarFunctionExpr, schema: &TableSchema) -> Predicate<usize> {
    match (call.fun().name(), call.args()) {
        ("starts_with", [text, prefix]) => {
            let Some(prefix) = as_literal(prefix).and_then(text_of) else { return Predicate::Unknown };
            column_test(text, schema, |logical| {
                matches!(logical, LogicalType::Utf8)
                    .then(|| ColumnTest::StartsWith(prefix.as_bytes().to_vec()))
            })
        }
        _ => Predicate::Unknown,
    }
}

/// TRUE matches all rows (an empty conjunction), FALSE and NULL none (an empty disjunction).
fn literal_predicate(literal: &Literal) -> Predicate<usize> {
    match literal.value() {
        ScalarValue::Boolean(Some(true)) => Predicate::And(Vec::new()),
        ScalarValue::Boolean(_) => Predicate::Or(Vec::new()),
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

/// The column behind `expr`, looking through casts that keep every value and its order.
fn as_column(expr: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> Option<usize> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return (column.index() < schema.columns.len()).then(|| column.index());
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

fn compare_op(op: &Operator) -> Option<CompareOp> {
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
fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::LtEq => CompareOp::GtEq,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::GtEq => CompareOp::LtEq,
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
