//! Tests on zone maps beside the expressions that they stand for, row by row.

use arrow::array::{AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use datafusion::logical_expr::Operator::{
    And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or,
};
use datafusion::physical_expr::expressions::{
    CaseExpr, binary, col, in_list, is_not_null, is_null, like, lit, not,
};
use pelton_store::column_from_arrow;
use pelton_testkit::Random;
use pelton_zone::{SkipKinds, Verdict, ZoneMap, ZoneOptions};

use super::*;

type Expr = Arc<dyn PhysicalExpr>;

/// A row group of a few rows: an integer, a boolean and a text column of few values and many NULLs.
fn row_group(random: &mut Random) -> RecordBatch {
    let rows = 1 + random.below(4) as usize;
    let mut maybe = |values: u64| (!random.one_in(4)).then(|| random.below(values));
    let integers: Vec<_> = (0..rows).map(|_| maybe(4).map(|value| value as i64)).collect();
    let booleans: Vec<_> = (0..rows).map(|_| maybe(2).map(|value| value == 1)).collect();
    let texts: Vec<_> =
        (0..rows).map(|_| maybe(4).map(|value| ["", "a", "ab", "b"][value as usize])).collect();
    let columns: [(&str, arrow::array::ArrayRef, bool); 3] = [
        ("n", Arc::new(Int64Array::from(integers)), true),
        ("flag", Arc::new(BooleanArray::from(booleans)), true),
        ("word", Arc::new(StringArray::from(texts)), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn zone_maps(rows: &RecordBatch, schema: &TableSchema) -> Vec<ZoneMap> {
    let columns = rows.columns().iter().zip(&schema.columns);
    let columns = columns.map(|(array, column)| column_from_arrow(array, &column.logical).unwrap());
    columns.map(|column| ZoneMap::build(&column, &ZoneOptions::default()).0).collect()
}

/// A condition `depth` levels deep.
fn condition(random: &mut Random, rows: &RecordBatch, depth: u32) -> Expr {
    if depth == 0 || random.one_in(5) {
        return leaf(random, rows);
    }
    let schema = rows.schema();
    let mut part = || condition(random, rows, depth - 1);
    let (a, b) = (part(), part());
    match random.below(12) {
        0..=2 => binary(a, And, b, &schema).unwrap(),
        3..=5 => binary(a, Or, b, &schema).unwrap(),
        6 | 7 => not(a).unwrap(),
        8 => is_null(a).unwrap(),
        9 => binary(a, *random.pick(&[IsDistinctFrom, IsNotDistinctFrom]), truth(random), &schema).unwrap(),
        10 => binary(truth(random), *random.pick(&[Eq, NotEq]), a, &schema).unwrap(),
        _ => {
            let otherwise = (!random.one_in(3)).then(|| Arc::clone(&b));
            Arc::new(CaseExpr::try_new(None, vec![(a, b)], otherwise).unwrap())
        }
    }
}

fn truth(random: &mut Random) -> Expr {
    lit(ScalarValue::Boolean(*random.pick(&[Some(true), Some(false), None])))
}

fn leaf(random: &mut Random, rows: &RecordBatch) -> Expr {
    let schema = rows.schema();
    let number =
        |random: &mut Random| lit(ScalarValue::Int64((!random.one_in(5)).then(|| random.below(5) as i64)));
    let n = col("n", &schema).unwrap();
    match random.below(10) {
        0..=3 => {
            let list = (0..1 + random.below(4)).map(|_| number(random)).collect();
            in_list(n, list, &random.one_in(2), &schema).unwrap()
        }
        4 | 5 => {
            let op = *random.pick(&[Eq, NotEq, Lt, LtEq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom]);
            let number = number(random);
            let (left, right) = if random.one_in(2) { (n, number) } else { (number, n) };
            binary(left, op, right, &schema).unwrap()
        }
        6 => col("flag", &schema).unwrap(),
        7 => truth(random),
        8 => {
            let pattern = lit(*random.pick(&["a%", "%", "a", "a_", "ab%"]));
            like(random.one_in(2), false, col("word", &schema).unwrap(), pattern, &schema).unwrap()
        }
        _ => {
            let column = col(["n", "flag", "word"][random.below(3) as usize], &schema).unwrap();
            if random.one_in(2) { is_null(column).unwrap() } else { is_not_null(column).unwrap() }
        }
    }
}

/// Of each row whether `expr` is TRUE.
fn is_true(expr: &Expr, rows: &RecordBatch) -> Vec<bool> {
    let values = expr.evaluate(rows).unwrap().into_array(rows.num_rows()).unwrap();
    values.as_boolean().iter().map(|value| value == Some(true)).collect()
}

#[test]
fn no_matching_row_is_skipped_and_only_matching_rows_are_said_to_match() {
    let mut random = Random::new(12);
    let (mut skipped, mut matched) = (0, 0);
    for case in 0..60_000 {
        let rows = row_group(&mut random);
        let schema = TableSchema::from_arrow(&rows.schema()).unwrap();
        let zones = zone_maps(&rows, &schema);
        let expr = condition(&mut random, &rows, 3);
        let predicate = zone_predicate(&expr, &schema);
        let passing = is_true(&expr, &rows);
        for predicate in [predicate.clone(), predicate.intersect_ranges()] {
            let lookup = |column: &usize| zones.get(*column);
            if predicate.evaluate(SkipKinds::ALL, &lookup) != Verdict::May {
                assert!(!passing.contains(&true), "case {case}: {expr} skips {rows:?}\n{predicate:?}");
                skipped += 1;
            }
            if predicate.matches_all(&lookup) {
                assert!(
                    !passing.contains(&false),
                    "case {case}: {expr} matches all of {rows:?}\n{predicate:?}"
                );
                matched += 1;
            }
        }
    }
    assert!(
        skipped > 10_000 && matched > 5_000,
        "{skipped} skipped, {matched} matched: the test tests nothing"
    );
}

#[test]
fn a_list_with_null_is_never_left() {
    let rows = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![7])) as _)]).unwrap();
    let schema = TableSchema::from_arrow(&rows.schema()).unwrap();
    let list = |negated| {
        let items = vec![lit(1i64), lit(2i64), lit(3i64), lit(ScalarValue::Int64(None))];
        in_list(col("n", &rows.schema()).unwrap(), items, &negated, &rows.schema()).unwrap()
    };
    for expr in [list(true), not(list(false)).unwrap()] {
        assert_eq!(zone_predicate(&expr, &schema), Predicate::Or(vec![]), "{expr}");
    }
}
