//! Arithmetic of doubles: every operation rounds by itself, so that kernels give the bits that the CPU does. Processors and
//! GPUs have an instruction that rounds a product and a sum once, which compilers like to use.

use pelton_error::CancelFlag;
use pelton_exec::{Filters, HostRows, RuntimeOptions};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, CompareOp, Expr, Op, Plan, Sink, Source, Type,
};
use pelton_pipeline::{RowColumn, RowValues, Rows};

use crate::oracle::{Cell, as_they_come, column, int, options, runtime, single, sort, sorted};

/// Rows of one vector.
const ROWS: usize = 1024;

/// A group has rows `i` and `i + 32` of 64, which one lane adds up, so that it is known what is added to what.
const GROUPS: i32 = 512;

/// The columns `x`, `y`, `z` and `group`. Products of `x` and `y` have more bits than a double.
struct Table {
    factors: Vec<[f64; 3]>,
    groups: Vec<i32>,
}

impl Table {
    fn new() -> Self {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            1.0 + (state >> 12) as f64 / (1_u64 << 52) as f64
        };
        // Products of a group nearly cancel out, and what rounding took from them shows.
        let sign = |row: usize| if (row / 32).is_multiple_of(2) { 1.0 } else { -1.0 };
        let factors = (0..ROWS).map(|row| [sign(row) * next(), next(), -next()]).collect();
        let groups = (0..ROWS as i32).map(|row| row / 64 * 32 + row % 32).collect();
        Self { factors, groups }
    }

    fn rows(&self) -> Rows {
        let of = |index: usize| RowValues::F64(self.factors.iter().map(|row| row[index]).collect());
        let values = [of(0), of(1), of(2), RowValues::I32(self.groups.clone())];
        let columns = values.map(|values| RowColumn { values, valid: None });
        Rows { row_count: ROWS, columns: columns.to_vec() }
    }

    fn columns() -> Vec<Column> {
        let of =
            |name: &str, ty, bounds| Column { name: name.into(), ty, is_nullable: false, bounds, text: None };
        let groups = Some(Bounds { min: 0, max: i128::from(GROUPS) - 1 });
        vec![
            of("x", Type::F64, None),
            of("y", Type::F64, None),
            of("z", Type::F64, None),
            of("group", Type::I32, groups),
        ]
    }
}

/// What kernels of the host do in different ways.
fn ways() -> impl Iterator<Item = RuntimeOptions> {
    let ways = [
        (Filters::Branching, HostRows::Slices),
        (Filters::Branching, HostRows::Lanes),
        (Filters::Predicated, HostRows::Lanes),
    ];
    ways.into_iter().map(|(filters, host_rows)| RuntimeOptions { filters, host_rows, ..options() })
}

fn found(options: RuntimeOptions, table: &Table, ops: Vec<Op>, sink: Sink) -> Rows {
    let plan = Plan { host_input_count: 1, ..single(Source::HostInput(0), Table::columns(), ops, sink) };
    runtime(options).run(&plan, vec![table.rows()], &CancelFlag::new()).unwrap().0
}

fn of(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic { op, left: Box::new(left), right: Box::new(right) }
}

fn product() -> Expr {
    of(ArithmeticOp::Multiply, column(0), column(1))
}

#[test]
fn a_product_is_rounded_before_anything_is_added_to_it() {
    let table = Table::new();
    let expected = table.factors.iter().map(|[x, y, z]| [z + x * y, z - x * y, x * y - z]);
    let expected: Vec<[f64; 3]> = expected.collect();
    let is_other = |(row, [x, y, z]): (&[f64; 3], &[f64; 3])| row[0] != x.mul_add(*y, *z);
    assert!(expected.iter().zip(&table.factors).filter(|pair| is_other(*pair)).count() > ROWS / 4);
    for options in ways() {
        let columns = vec![
            of(ArithmeticOp::Add, column(2), product()),
            of(ArithmeticOp::Subtract, column(2), product()),
            of(ArithmeticOp::Subtract, product(), column(2)),
        ];
        let sink = Sink::Materialize { columns, top: None, order: None };
        let mut expected: Vec<Vec<Cell>> =
            expected.iter().map(|row| row.iter().copied().map(Cell::Float).collect()).collect();
        sort(&mut expected);
        assert_eq!(sorted(&found(options.clone(), &table, Vec::new(), sink)), expected, "{options:?}");
    }
}

/// The sum of the products of two rows, in one step each; and whether another rounding would show.
fn sum_of_group(table: &Table, group: i32) -> (f64, bool) {
    let rows = table.factors.iter().zip(&table.groups).filter(|(_, of)| **of == group);
    let [[a, b, _], [c, d, _]] = rows.map(|(row, _)| *row).collect::<Vec<_>>()[..] else {
        panic!("a group has two rows")
    };
    let sum = a * b + c * d;
    (sum, sum != c.mul_add(d, a * b))
}

#[test]
fn products_are_rounded_before_they_are_summed_up() {
    let table = Table::new();
    let groups = 0..GROUPS;
    assert!(groups.clone().filter(|group| sum_of_group(&table, *group).1).count() > groups.len() / 4);
    let filtered = || groups.clone().step_by(100);
    assert!(filtered().any(|group| sum_of_group(&table, group).1));
    let sum = || vec![Aggregate { function: AggregateFunction::Sum, input: Some(product()) }];
    for options in ways() {
        let sink = Sink::Aggregate { keys: vec![column(3)], aggregates: sum(), expected: None };
        let expected = groups
            .clone()
            .map(|group| vec![Cell::Int(group.into()), Cell::Float(sum_of_group(&table, group).0)]);
        let expected: Vec<Vec<Cell>> = expected.collect();
        assert_eq!(sorted(&found(options.clone(), &table, Vec::new(), sink)), expected, "{options:?}");
        for group in filtered() {
            let is_group =
                Expr::Compare { op: CompareOp::Eq, left: Box::new(column(3)), right: Box::new(int(group)) };
            let sink = Sink::Aggregate { keys: Vec::new(), aggregates: sum(), expected: None };
            let rows = found(options.clone(), &table, vec![Op::Filter(is_group)], sink);
            assert_eq!(as_they_come(&rows), [[Cell::Float(sum_of_group(&table, group).0)]], "{options:?}");
        }
    }
}
