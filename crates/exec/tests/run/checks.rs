//! What overflow checks cost: the same aggregates with checks where bounds ask for them, which is nowhere here, and with
//! all arithmetic checked and all sums in 128 bits. The answers are the same. The figures are printed:
//!
//! ```sh
//! cargo test --release -p pelton-exec --test run checks -- --nocapture      # or, of a bundle: tests/…/run checks --nocapture
//! ```
//!
//! On a GPU the table has 32 million rows and lies in its memory, and kernels are timed by the device's clock.

use std::sync::Arc;
use std::time::Duration;

use pelton_chunk::{Column as Values_, Encoding, Values};
use pelton_error::CancelFlag;
use pelton_exec::{OverflowChecks, Runtime, RuntimeOptions, TargetChoice};
use pelton_pipeline::ir::{
    Aggregate, AggregateFunction, ArithmeticOp, Bounds, Column, Expr, Plan, Sink, Source, TableScan, Type,
};
use pelton_store::{ColumnSchema, LogicalType, Table, TableSchema};

use crate::fixture::{Place, place};
use crate::oracle::{Cell, column, options, runtime, single, sorted};

const ROW_GROUP_ROWS: u32 = 1 << 16;
const RUNS: usize = 7;

/// Two columns of 32 bits, two of 64, two of decimals; a key of 20 values.
fn columns() -> Vec<(&'static str, LogicalType, Type, Bounds)> {
    let decimal = LogicalType::Decimal { precision: 20, scale: 2 };
    let to = |max| Bounds { min: 0, max };
    vec![
        ("a32", LogicalType::Int32, Type::I32, to(9_999)),
        ("b32", LogicalType::Int32, Type::I32, to(99)),
        ("a64", LogicalType::Int64, Type::I64, to(9_999_999)),
        ("b64", LogicalType::Int64, Type::I64, to(9_999)),
        ("price", decimal.clone(), Type::I128, to(9_999_999)),
        ("discount", decimal, Type::I128, to(99)),
        ("key", LogicalType::Int32, Type::I32, to(19)),
    ]
}

fn values(index: usize, max: i128, first: u64, rows: u64) -> Values_ {
    let number = |row: u64| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15 >> index) >> 24) % (max as u64 + 1);
    let all = || (first..first + rows).map(number);
    let values = match columns()[index].2 {
        Type::I32 => Values::I32(all().map(|value| value as i32).collect()),
        Type::I64 => Values::I64(all().map(|value| value as i64).collect()),
        _ => Values::I128(all().map(i128::from).collect()),
    };
    Values_ { values, validity: None }
}

fn table(rows: u64) -> Place {
    let schema = columns().into_iter().map(|(name, logical, ..)| ColumnSchema {
        name: name.into(),
        logical,
        nullable: false,
    });
    let schema = TableSchema::new(schema.collect()).unwrap();
    let encodings = vec!["bitpack".parse::<Encoding>().unwrap(); columns().len()];
    // Two segments of as many rows.
    place(schema, &encodings, ROW_GROUP_ROWS, rows / 2, |first, count| {
        (0..columns().len()).map(|index| values(index, columns()[index].3.max, first, count)).collect()
    })
}

fn source(table: &Arc<Table>) -> (Source, Vec<Column>) {
    let described = columns().into_iter().map(|(name, _, ty, bounds)| Column {
        name: name.into(),
        ty,
        is_nullable: false,
        bounds: Some(bounds),
        text: None,
    });
    let row_groups = (0..table.row_group_count() as u32).collect();
    let columns: Vec<Column> = described.collect();
    let scan = TableScan {
        table: Arc::clone(table),
        columns: (0..columns.len()).collect(),
        row_groups,
        uses_runtime_filters: true,
    };
    (Source::Table(scan), columns)
}

fn times(left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic { op: ArithmeticOp::Multiply, left: Box::new(left), right: Box::new(right) }
}

fn plus(left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic { op: ArithmeticOp::Add, left: Box::new(left), right: Box::new(right) }
}

/// Sums of expressions, in all rows and by a key.
fn cases() -> Vec<(&'static str, Vec<Expr>, Expr)> {
    vec![
        ("sum(a32)", vec![], column(0)),
        ("sum(a32 + b32)", vec![], plus(column(0), column(1))),
        ("sum(a32 * b32)", vec![], times(column(0), column(1))),
        ("sum(a64)", vec![], column(2)),
        ("sum(a64 * b64)", vec![], times(column(2), column(3))),
        ("sum(price * discount)", vec![], times(column(4), column(5))),
        ("sum(price * discount * discount)", vec![], times(times(column(4), column(5)), column(5))),
        ("sum(a64 * b64) by key", vec![column(6)], times(column(2), column(3))),
        ("sum(price * discount) by key", vec![column(6)], times(column(4), column(5))),
    ]
}

/// The answer, and the least time that the kernel took.
fn measure(runtime: &Runtime, plan: &Plan) -> (Vec<Vec<Cell>>, Duration) {
    let run = || runtime.run(plan, Vec::new(), &CancelFlag::new()).unwrap();
    let (rows, report) = run();
    let times = (1..RUNS).map(|_| run().1.pipelines[0].kernels).chain([report.pipelines[0].kernels]);
    (sorted(&rows), times.min().unwrap())
}

#[test]
fn checks_everywhere_give_the_same_sums() {
    let is_gpu = matches!(options().target, TargetChoice::Cuda { .. });
    let rows: u64 = if is_gpu { 1 << 25 } else { 1 << 17 };
    let roomy = |overflow_checks| RuntimeOptions {
        overflow_checks,
        device_memory_limit_bytes: None,
        pinned_memory_limit_bytes: None,
        ..options()
    };
    let needed = runtime(roomy(OverflowChecks::WhereNeeded));
    let everywhere = runtime(roomy(OverflowChecks::Everywhere));
    let place = table(rows);
    let (source, columns) = source(&place.table);
    for (name, keys, sum) in cases() {
        let aggregates = vec![Aggregate { function: AggregateFunction::Sum, input: Some(sum) }];
        let sink = Sink::Aggregate { keys, aggregates, expected: None };
        let plan = single(source.clone(), columns.clone(), Vec::new(), sink);
        let (unchecked_rows, unchecked) = measure(&needed, &plan);
        let (checked_rows, checked) = measure(&everywhere, &plan);
        assert_eq!(checked_rows, unchecked_rows, "{name}");
        let per_row = |time: Duration| time.as_secs_f64() * 1e9 / rows as f64;
        println!(
            "{name}: {rows} rows, unchecked {:.4} ns a row, checked {:.4}, {:.2}x",
            per_row(unchecked),
            per_row(checked),
            checked.as_secs_f64() / unchecked.as_secs_f64().max(1e-9)
        );
    }
}
