//! Arithmetic at the ends of its types: the exact result, or a run that ends and names the check; never another number.

use pelton_error::{CancelFlag, ErrorKind};
use pelton_exec::{Filters, OverflowChecks, Runtime, RuntimeOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, CompareOp, Expr, Literal, Op, Plan, Sink,
    Source, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use crate::oracle::{Cell, column, int, options, runtime, single, sorted};

const DECIMAL_MAX: i128 = 10_i128.pow(38) - 1;

const OPS: [ArithmeticOp; 5] = [
    ArithmeticOp::Add,
    ArithmeticOp::Subtract,
    ArithmeticOp::Multiply,
    ArithmeticOp::Divide,
    ArithmeticOp::Remainder,
];

/// The ends of `ty`, what lies beside them and between.
fn extremes(ty: Type) -> Vec<i128> {
    let (min, max): (i128, i128) = match ty {
        Type::I32 => (i32::MIN.into(), i32::MAX.into()),
        Type::I64 => (i64::MIN.into(), i64::MAX.into()),
        _ => (-DECIMAL_MAX, DECIMAL_MAX),
    };
    let root = 1 << ((128 - max.leading_zeros()) / 2);
    vec![
        min,
        min + 1,
        min / 2 - 1,
        -root,
        -3,
        -1,
        0,
        1,
        2,
        root - 1,
        root,
        max / 2,
        max / 2 + 1,
        max - 1,
        max,
    ]
}

/// What `left op right` is; `None` where its type does not hold it.
fn exact(op: ArithmeticOp, left: i128, right: i128, ty: Type) -> Option<i128> {
    let result = match op {
        ArithmeticOp::Add => left.checked_add(right),
        ArithmeticOp::Subtract => left.checked_sub(right),
        ArithmeticOp::Multiply => left.checked_mul(right),
        ArithmeticOp::Divide => left.checked_div(right),
        ArithmeticOp::Remainder => left.checked_rem(right),
    }?;
    let fits = match ty {
        Type::I32 => i32::try_from(result).is_ok(),
        Type::I64 => i64::try_from(result).is_ok(),
        _ => result.abs() <= DECIMAL_MAX,
    };
    fits.then_some(result)
}

fn values(ty: Type, values: &[i128]) -> RowValues {
    match ty {
        Type::I32 => RowValues::I32(values.iter().map(|value| *value as i32).collect()),
        Type::I64 => RowValues::I64(values.iter().map(|value| *value as i64).collect()),
        _ => RowValues::I128(values.to_vec()),
    }
}

fn source_column(name: &str, ty: Type, is_nullable: bool) -> Column {
    let all = extremes(ty);
    let bounds = Some(Bounds { min: all[0], max: all[all.len() - 1] });
    Column { name: name.into(), ty, is_nullable, bounds, text: None }
}

/// Rows of `(which, left, right)`, `left` NULL where `left` is.
fn rows(ty: Type, which: &[i32], left: &[Option<i128>], right: &[i128]) -> Rows {
    let column = |values, valid| RowColumn { values, valid };
    let numbers: Vec<i128> = left.iter().map(|value| value.unwrap_or(right[0])).collect();
    Rows {
        row_count: which.len(),
        columns: vec![
            column(RowValues::I32(which.to_vec()), None),
            column(values(ty, &numbers), Some(left.iter().map(Option::is_some).collect())),
            column(values(ty, right), None),
        ],
    }
}

fn plan(ty: Type, ops: Vec<Op>, sink: Sink) -> Plan {
    let which =
        Column { bounds: Some(Bounds { min: -1, max: 9 }), ..source_column("which", Type::I32, false) };
    let columns = vec![which, source_column("left", ty, true), source_column("right", ty, false)];
    Plan { host_input_count: 1, ..single(Source::HostInput(0), columns, ops, sink) }
}

fn arithmetic(op: ArithmeticOp) -> Expr {
    Expr::Arithmetic { op, left: Box::new(column(1)), right: Box::new(column(2)) }
}

fn is(value: i32) -> Expr {
    Expr::Compare { op: CompareOp::Eq, left: Box::new(column(0)), right: Box::new(int(value)) }
}

/// The one number that comes out, or `None` where the run ends with an overflow.
fn outcome(runtime: &Runtime, plan: &Plan, rows: Rows) -> Option<Vec<Vec<Cell>>> {
    match runtime.run(plan, vec![rows], &CancelFlag::new()) {
        Ok((rows, _)) => Some(sorted(&rows)),
        Err(error) => {
            assert_eq!(error.kind(), &ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("overflow"), "{error}");
            None
        }
    }
}

fn number(rows: &[Vec<Cell>]) -> i128 {
    let Cell::Int(number) = rows[0][0] else { panic!("{rows:?}") };
    number
}

/// One kernel computes all of `ops` in branches of a CASE: what is in branches that are not taken does not count.
fn check_operations(ty: Type, ops: &[ArithmeticOp], options: RuntimeOptions) {
    let branches = ops.iter().enumerate().map(|(which, op)| (is(which as i32), arithmetic(*op))).collect();
    let case = Expr::Case { branches, otherwise: None };
    let plan = plan(
        ty,
        vec![Op::Filter(is_not_negative())],
        Sink::Materialize { columns: vec![case], top: None, order: None },
    );
    let runtime = runtime(options);
    for (which, op) in ops.iter().enumerate() {
        for left in extremes(ty) {
            for right in extremes(ty) {
                let found = outcome(&runtime, &plan, rows(ty, &[which as i32], &[Some(left)], &[right]));
                let expected = exact(*op, left, right, ty);
                let what = format!("{left} {op:?} {right} of {ty:?}");
                match (found, expected) {
                    (Some(found), Some(expected)) => assert_eq!(number(&found), expected, "{what}"),
                    // Decimals near their end are left to the CPU, which knows exactly.
                    (None, Some(expected)) => {
                        assert!(expected.abs() > DECIMAL_MAX / 10_000 * 9_999, "{what}")
                    }
                    (Some(found), None) => panic!("{what} gave {found:?}"),
                    (None, None) => {}
                }
                // A row that the filter drops, and one without a value, count for nothing.
                let dropped = rows(ty, &[-1, which as i32], &[Some(left), None], &[right, right]);
                assert_eq!(
                    outcome(&runtime, &plan, dropped),
                    Some(vec![vec![Cell::Null]]),
                    "{what}, dropped"
                );
            }
        }
    }
}

fn is_not_negative() -> Expr {
    Expr::Compare { op: CompareOp::Ge, left: Box::new(column(0)), right: Box::new(int(0)) }
}

#[test]
fn integers_of_32_bits_are_exact_or_reported() {
    check_operations(Type::I32, &OPS, options());
}

#[test]
fn integers_of_64_bits_are_exact_or_reported() {
    check_operations(Type::I64, &OPS, options());
}

#[test]
fn decimals_are_exact_or_reported() {
    check_operations(Type::I128, &OPS[..3], options());
}

#[test]
fn conditions_without_branches_keep_dropped_rows_from_counting() {
    check_operations(Type::I64, &OPS, RuntimeOptions { filters: Filters::Predicated, ..options() });
}

#[test]
fn and_and_or_look_no_further_than_sql_would() {
    let overflows = || {
        let (left, right) =
            (Box::new(arithmetic(ArithmeticOp::Multiply)), Box::new(Expr::Literal(Literal::I64(7))));
        Expr::Compare { op: CompareOp::Eq, left, right }
    };
    let conditions = [
        (Expr::And(vec![is(0), overflows()]), [None, Some(0)]),
        (Expr::Or(vec![is(1), overflows()]), [None, Some(1)]),
    ];
    let runtime = runtime(options());
    for (condition, expected) in conditions {
        let count = vec![Aggregate { function: AggregateFunction::Count, input: None }];
        let sink = Sink::Aggregate { keys: Vec::new(), aggregates: count, expected: None };
        let plan = plan(Type::I64, vec![Op::Filter(condition)], sink);
        for (which, expected) in expected.into_iter().enumerate() {
            let max = i128::from(i64::MAX);
            let found = outcome(&runtime, &plan, rows(Type::I64, &[which as i32], &[Some(max)], &[max]));
            assert_eq!(found.map(|rows| number(&rows)), expected);
        }
    }
}

#[test]
fn casts_to_narrower_integers_are_exact_or_reported() {
    let narrow = Bounds { min: -128, max: 127 };
    let cast = Expr::Cast { input: Box::new(column(1)), to: Type::I32 };
    let within = Expr::Within { input: Box::new(column(1)), bounds: narrow };
    let runtime = runtime(options());
    for (expr, bounds) in [(cast, Bounds { min: i32::MIN.into(), max: i32::MAX.into() }), (within, narrow)] {
        let sink = Sink::Materialize { columns: vec![expr], top: None, order: None };
        let plan = plan(Type::I64, Vec::new(), sink);
        let beside = |end: i128| [end - 1, end, end + 1];
        for value in [beside(bounds.min), beside(bounds.max), [0, i64::MIN.into(), i64::MAX.into()]].concat()
        {
            let found = outcome(&runtime, &plan, rows(Type::I64, &[0], &[Some(value)], &[0]));
            let fits = (bounds.min..=bounds.max).contains(&value);
            assert_eq!(found.map(|rows| number(&rows)), fits.then_some(value));
        }
    }
}

/// Sums of extremes, over one group, few and many, of rows in several orders.
#[test]
fn sums_are_exact_or_reported() {
    let everywhere = RuntimeOptions { overflow_checks: OverflowChecks::Everywhere, ..options() };
    for ty in [Type::I32, Type::I64, Type::I128] {
        let ends = extremes(ty);
        let (min, max) = (ends[0], ends[ends.len() - 1]);
        let lists = [
            vec![max],
            vec![max; 40],
            vec![min; 1025],
            [vec![max; 3], vec![min; 3]].concat(),
            (0..3000).map(|row| if row % 2 == 0 { max } else { min }).collect(),
            ends.repeat(70),
        ];
        for keys in [Vec::new(), vec![column(0)], vec![column(0), wide_key()]] {
            let sum = vec![Aggregate { function: AggregateFunction::Sum, input: Some(column(2)) }];
            let sink = Sink::Aggregate { keys: keys.clone(), aggregates: sum, expected: None };
            let plan = plan(ty, Vec::new(), sink);
            for options in [options(), everywhere.clone()] {
                let runtime = runtime(options);
                for list in &lists {
                    let which = vec![1; list.len()];
                    let found = outcome(&runtime, &plan, rows(ty, &which, &vec![Some(1); list.len()], list));
                    let exact = list.iter().try_fold(0_i128, |sum, value| sum.checked_add(*value));
                    match found {
                        Some(found) => {
                            assert_eq!(Some(found[0].last().unwrap()), exact.map(Cell::Int).as_ref());
                        }
                        None => assert_eq!(ty, Type::I128, "sums of integers always fit"),
                    }
                }
            }
        }
    }
}

/// A key of more values than are groups by position.
fn wide_key() -> Expr {
    let wide = Expr::Cast { input: Box::new(column(0)), to: Type::I64 };
    let by = Box::new(Expr::Literal(Literal::I64(1 << 40)));
    Expr::Arithmetic { op: ArithmeticOp::Multiply, left: Box::new(wide), right: by }
}

#[test]
fn zeros_are_equal_and_so_are_nans_which_are_the_greatest() {
    let ordered = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN, -f64::NAN];
    let ranks = [0, 1, 2, 2, 3, 4, 5, 5];
    let column_of = |name: &str| Column {
        name: name.into(),
        ty: Type::F64,
        is_nullable: false,
        bounds: None,
        text: None,
    };
    let compare = |op| Expr::Compare { op, left: Box::new(column(0)), right: Box::new(column(1)) };
    let ops = [CompareOp::Eq, CompareOp::Ne, CompareOp::Lt, CompareOp::Le, CompareOp::Gt, CompareOp::Ge];
    let sink = Sink::Materialize { columns: ops.map(compare).to_vec(), top: None, order: None };
    let columns = vec![column_of("a"), column_of("b")];
    let plan = Plan { host_input_count: 1, ..single(Source::HostInput(0), columns, Vec::new(), sink) };
    let runtime = runtime(options());
    for (a, rank_a) in ordered.iter().zip(ranks) {
        for (b, rank_b) in ordered.iter().zip(ranks) {
            let double = |value: f64| RowColumn { values: RowValues::F64(vec![value]), valid: None };
            let rows = Rows { row_count: 1, columns: vec![double(*a), double(*b)] };
            let found = outcome(&runtime, &plan, rows).unwrap();
            let expected = [
                rank_a == rank_b,
                rank_a != rank_b,
                rank_a < rank_b,
                rank_a <= rank_b,
                rank_a > rank_b,
                rank_a >= rank_b,
            ];
            assert_eq!(found[0], expected.map(|holds| Cell::Int(holds.into())), "{a} beside {b}");
        }
    }
}
