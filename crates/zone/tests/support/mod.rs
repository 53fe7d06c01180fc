//! Random columns and tests of them, and their meaning row by row.

use std::ops::Bound;

use pelton_chunk::types::{ByteValues, Column, Validity, Values};
use pelton_zone::{ColumnTest, CompareOp, Predicate, Scalar, SkipKind, SkipKinds};
use proptest::prelude::*;

/// How floats are compared; zone maps must be right by both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// NaN has no order, -0.0 equals 0.0.
    Ieee,
    /// -NaN < -0.0 < 0.0 < NaN.
    Total,
}

pub(crate) const READINGS: [Reading; 2] = [Reading::Ieee, Reading::Total];

/// Value `row` of a column; `None` where it is NULL.
pub(crate) fn value_at(column: &Column, row: usize) -> Option<Scalar> {
    if !column.is_valid(row) {
        return None;
    }
    Some(match &column.values {
        Values::U8(values) => Scalar::Int(values[row].into()),
        Values::U16(values) => Scalar::Int(values[row].into()),
        Values::U32(values) => Scalar::Int(values[row].into()),
        Values::U64(values) => Scalar::Int(values[row].into()),
        Values::I8(values) => Scalar::Int(values[row].into()),
        Values::I16(values) => Scalar::Int(values[row].into()),
        Values::I32(values) => Scalar::Int(values[row].into()),
        Values::I64(values) => Scalar::Int(values[row].into()),
        Values::I128(values) => Scalar::Int(values[row]),
        Values::F32(values) => Scalar::Float(values[row].into()),
        Values::F64(values) => Scalar::Float(values[row]),
        Values::Bytes(values) => Scalar::Bytes(values.get(row).to_vec()),
    })
}

/// What SQL says of one value and a test: true, false or NULL.
pub(crate) fn passes(value: &Option<Scalar>, test: &ColumnTest, reading: Reading) -> Option<bool> {
    let value = match (value, test) {
        (value, ColumnTest::IsNull) => return Some(value.is_none()),
        (value, ColumnTest::IsNotNull) => return Some(value.is_some()),
        // No value is in an empty list, not even NULL.
        (_, ColumnTest::In(constants)) if constants.is_empty() => return Some(false),
        (None, _) => return None,
        (Some(value), _) => value,
    };
    let compare = |op, constant: &Scalar| compares(value, op, constant, reading);
    Some(match test {
        ColumnTest::Compare(op, constant) => compare(*op, constant),
        ColumnTest::In(constants) => constants.iter().any(|constant| compare(CompareOp::Eq, constant)),
        ColumnTest::StartsWith(prefix) => matches!(value, Scalar::Bytes(bytes) if bytes.starts_with(prefix)),
        ColumnTest::Range { lower, upper } => {
            (match lower {
                Bound::Included(constant) => compare(CompareOp::GtEq, constant),
                Bound::Excluded(constant) => compare(CompareOp::Gt, constant),
                Bound::Unbounded => true,
            }) && (match upper {
                Bound::Included(constant) => compare(CompareOp::LtEq, constant),
                Bound::Excluded(constant) => compare(CompareOp::Lt, constant),
                Bound::Unbounded => true,
            })
        }
        ColumnTest::IsNull | ColumnTest::IsNotNull => unreachable!("decided above"),
    })
}

fn compares(value: &Scalar, op: CompareOp, constant: &Scalar, reading: Reading) -> bool {
    let order = match (value, constant) {
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(b)),
        (Scalar::Bytes(a), Scalar::Bytes(b)) => Some(a.cmp(b)),
        (Scalar::Float(a), Scalar::Float(b)) if reading == Reading::Total => Some(a.total_cmp(b)),
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(b),
        // Comparing across domains is not ours to define; any row may match.
        _ => return true,
    };
    match op {
        CompareOp::Eq => order.is_some_and(|order| order.is_eq()),
        CompareOp::NotEq => order.is_none_or(|order| order.is_ne()),
        CompareOp::Lt => order.is_some_and(|order| order.is_lt()),
        CompareOp::LtEq => order.is_some_and(|order| order.is_le()),
        CompareOp::Gt => order.is_some_and(|order| order.is_gt()),
        CompareOp::GtEq => order.is_some_and(|order| order.is_ge()),
    }
}

/// What SQL says of a row and a predicate; `unknown` stands for what metadata cannot tell.
pub(crate) fn holds(
    predicate: &Predicate<usize>,
    row: &[Option<Scalar>],
    unknown: Option<bool>,
    reading: Reading,
) -> Option<bool> {
    let parts = |parts: &[Predicate<usize>]| -> Vec<Option<bool>> {
        parts.iter().map(|part| holds(part, row, unknown, reading)).collect()
    };
    // NULL unless a part decides.
    let decided_by = |parts: Vec<Option<bool>>, decisive: bool| {
        if parts.contains(&Some(decisive)) {
            return Some(decisive);
        }
        if parts.contains(&None) { None } else { Some(!decisive) }
    };
    match predicate {
        Predicate::And(inner) => decided_by(parts(inner), false),
        Predicate::Or(inner) => decided_by(parts(inner), true),
        Predicate::Test { column, test } => passes(&row[*column], test, reading),
        Predicate::Unknown => unknown,
    }
}

/// All sixteen sets of kinds.
pub(crate) fn subsets() -> impl Iterator<Item = SkipKinds> {
    (0..16).map(|bits| SkipKind::ALL.into_iter().filter(|kind| bits >> *kind as u8 & 1 == 1).collect())
}

/// A column of any type with up to 300 rows, some NULL.
pub(crate) fn column() -> impl Strategy<Value = Column> {
    let len = 0..300usize;
    let values = prop_oneof![
        numbers(len.clone(), any::<u8>()).prop_map(Values::U8),
        numbers(len.clone(), any::<u16>()).prop_map(Values::U16),
        numbers(len.clone(), any::<u32>()).prop_map(Values::U32),
        numbers(len.clone(), prop_oneof![any::<u64>(), Just(u64::MAX), Just(0), 5u64..90])
            .prop_map(Values::U64),
        numbers(len.clone(), any::<i8>()).prop_map(Values::I8),
        numbers(len.clone(), prop_oneof![any::<i16>(), -9i16..9]).prop_map(Values::I16),
        numbers(len.clone(), prop_oneof![any::<i32>(), 8000i32..9000]).prop_map(Values::I32),
        numbers(len.clone(), prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), -70i64..700])
            .prop_map(Values::I64),
        numbers(len.clone(), wide_integer()).prop_map(Values::I128),
        numbers(len.clone(), float().prop_map(|value| value as f32)).prop_map(Values::F32),
        numbers(len.clone(), float()).prop_map(Values::F64),
        numbers(len, byte_string()).prop_map(|strings| Values::Bytes(byte_values(&strings))),
    ];
    (values, validity_seed()).prop_map(|(values, seed)| with_nulls(values, seed))
}

/// Values drawn from a small pool, so that they repeat and leave gaps.
fn numbers<T: Clone + std::fmt::Debug + 'static>(
    len: std::ops::Range<usize>,
    value: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Vec<T>> {
    let pool = prop::collection::vec(value, 1..40);
    (pool, prop::collection::vec(any::<prop::sample::Index>(), len))
        .prop_map(|(pool, picks)| picks.iter().map(|pick| pick.get(&pool).clone()).collect())
        .boxed()
}

fn wide_integer() -> impl Strategy<Value = i128> {
    let digits_38 = 10i128.pow(38) - 1;
    prop_oneof![
        any::<i128>(),
        -digits_38..=digits_38,
        any::<i64>().prop_map(i128::from),
        Just(i128::MIN),
        Just(i128::MAX),
        -20i128..20
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -100.0..100.0f64,
        (0..12i32).prop_map(|step| f64::from(step) / 4.0),
        prop::sample::select(vec![
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::from_bits(1),
            f64::MIN_POSITIVE
        ]),
    ]
}

fn byte_string() -> impl Strategy<Value = Vec<u8>> {
    let tail = || prop::collection::vec(any::<u8>(), 0..6);
    prop_oneof![
        "[a-c]{0,3}".prop_map(String::into_bytes),
        tail(),
        tail().prop_map(|tail| [b"Customer#0000".as_slice(), &tail].concat()),
        // Longer than a bound may be, alike to its end and beyond.
        (60..70usize, tail()).prop_map(|(len, tail)| [vec![b'x'; len], tail].concat()),
        (60..70usize, tail()).prop_map(|(len, tail)| [vec![u8::MAX; len], tail].concat()),
        Just(Vec::new()),
    ]
}

fn byte_values(strings: &[Vec<u8>]) -> ByteValues {
    let mut values = ByteValues::default();
    strings.iter().for_each(|string| values.push(string).unwrap());
    values
}

/// No validity, no value at all, or every third to ninth row NULL.
fn validity_seed() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), Just(1), 3..9usize]
}

fn with_nulls(values: Values, every: usize) -> Column {
    let validity = Validity::from_bools((0..values.len()).map(|row| row % every.max(1) != 0));
    Column { values, validity: (every > 0).then_some(validity) }
}

/// A test whose constants are values of the column, their neighbours, or anything.
pub(crate) fn test_of(column: &Column) -> BoxedStrategy<ColumnTest> {
    let constant = constant_for(column);
    let op = prop::sample::select(vec![
        CompareOp::Eq,
        CompareOp::NotEq,
        CompareOp::Lt,
        CompareOp::LtEq,
        CompareOp::Gt,
        CompareOp::GtEq,
    ]);
    let bound = || {
        let constant = constant.clone();
        (0..5u8, constant).prop_map(|(form, constant)| match form {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Excluded(constant),
            _ => Bound::Included(constant),
        })
    };
    prop_oneof![
        6 => (op, constant.clone()).prop_map(|(op, constant)| ColumnTest::Compare(op, constant)),
        4 => (bound(), bound()).prop_map(|(lower, upper)| ColumnTest::Range { lower, upper }),
        2 => prop::collection::vec(constant.clone(), 0..4).prop_map(ColumnTest::In),
        1 => Just(ColumnTest::IsNull),
        1 => Just(ColumnTest::IsNotNull),
        2 => (constant.clone(), 0..70usize).prop_map(|(constant, len)| match constant {
            Scalar::Bytes(bytes) => ColumnTest::StartsWith(bytes[..len.min(bytes.len())].to_vec()),
            _ => ColumnTest::StartsWith(b"1".to_vec()),
        }),
    ]
    .boxed()
}

fn constant_for(column: &Column) -> BoxedStrategy<Scalar> {
    let present: Vec<Scalar> = (0..column.len()).filter_map(|row| value_at(column, row)).collect();
    let domain = match &column.values {
        Values::Bytes(_) => byte_string().prop_map(Scalar::Bytes).boxed(),
        Values::F32(_) | Values::F64(_) => float().prop_map(Scalar::Float).boxed(),
        _ => wide_integer().prop_map(Scalar::Int).boxed(),
    };
    if present.is_empty() {
        return domain;
    }
    let near = (prop::sample::select(present), -2..=2i8).prop_map(|(value, step)| neighbour(value, step));
    let any_domain =
        prop_oneof![Just(Scalar::Int(3)), Just(Scalar::Float(3.0)), Just(Scalar::Bytes(b"3".to_vec()))];
    prop_oneof![8 => near, 4 => domain, 1 => any_domain].boxed()
}

fn neighbour(value: Scalar, step: i8) -> Scalar {
    match value {
        Scalar::Int(value) => Scalar::Int(value.saturating_add(step.into())),
        Scalar::Float(value) if step > 0 => Scalar::Float(value.next_up()),
        Scalar::Float(value) if step < 0 => Scalar::Float(value.next_down()),
        Scalar::Bytes(mut bytes) => {
            match step {
                2 => bytes.push(0),
                -2 => drop(bytes.pop()),
                _ => bytes.last_mut().into_iter().for_each(|byte| *byte = byte.wrapping_add_signed(step)),
            }
            Scalar::Bytes(bytes)
        }
        other => other,
    }
}
