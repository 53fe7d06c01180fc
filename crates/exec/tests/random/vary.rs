//! One shape, many plans: the same pipelines over other tables and other constants, with the same kernels.
//!
//! What changes are constants that come to kernels as arguments: the sides of comparisons, what texts are compared with,
//! how many rows are wanted, which row groups are read. What a kernel is compiled from stays.

use std::sync::Arc;

use pelton_pipeline::ir::{Expr, LikePattern, Literal, Op, Pipeline, Plan, Sink, Source, TextKernel, Type};

use super::expressions::{integer_literal, width};
use super::parameter::DOUBLES;
use super::random::Random;
use super::tables::Tables;
use super::text_reference::ByKernel;

const TEXTS: [&str; 9] = ["", "AIR", "mail", "rail", "a longer text with an e", "é", "e", "ml", "~"];

/// `plan`, which reads tables of `from`, over the same tables of `to`.
pub(crate) fn moved(plan: &Plan, from: &Tables, to: &Tables, random: &mut Random) -> Plan {
    let mut plan = plan.clone();
    for pipeline in &mut plan.pipelines {
        let Source::Table(scan) = &mut pipeline.source else { continue };
        let number = from.relations.iter().position(|relation| relation.table.id() == scan.table.id());
        let table = &to.relations[number.expect("plans read these tables")].table;
        scan.table = Arc::clone(table);
        let is_part = random.one_in(10);
        let groups = 0..table.row_group_count() as u32;
        scan.row_groups = groups.filter(|_| !is_part || random.percent(60)).collect();
    }
    plan
}

/// `plan` with other constants.
pub(crate) fn with_other_constants(plan: &Plan, random: &mut Random) -> Plan {
    let mut plan = plan.clone();
    plan.pipelines.iter_mut().for_each(|pipeline| vary_pipeline(pipeline, random));
    plan
}

fn vary_pipeline(pipeline: &mut Pipeline, random: &mut Random) {
    for op in &mut pipeline.ops {
        match op {
            Op::Filter(condition) => vary(condition, random),
            Op::Compute { value, .. } => vary(value, random),
            Op::Probe { keys, residual, .. } => {
                keys.iter_mut().chain(residual).for_each(|expr| vary(expr, random));
            }
            Op::Repeat { .. } => {}
        }
    }
    match &mut pipeline.sink {
        Sink::Build { keys, payload, .. } => {
            keys.iter_mut().chain(payload).for_each(|expr| vary(expr, random));
        }
        Sink::Aggregate { keys, aggregates, .. } => {
            let inputs = aggregates.iter_mut().filter_map(|aggregate| aggregate.input.as_mut());
            keys.iter_mut().chain(inputs).for_each(|expr| vary(expr, random));
        }
        Sink::Materialize { columns, top, order } => {
            columns.iter_mut().for_each(|expr| vary(expr, random));
            for wanted in top.iter_mut().map(|top| &mut top.row_count) {
                *wanted = random.below(*wanted + 3);
            }
            for wanted in order.iter_mut().filter_map(|order| order.row_count.as_mut()) {
                *wanted = random.below(*wanted + 3);
            }
        }
    }
}

/// Other constants beside comparisons in `expr`, and in what its texts are compared with.
fn vary(expr: &mut Expr, random: &mut Random) {
    match expr {
        Expr::Compare { left, right, .. } => {
            for side in [left, right] {
                match &mut **side {
                    Expr::Literal(literal) => *literal = near(*literal, random),
                    other => vary(other, random),
                }
            }
        }
        Expr::Arithmetic { left, right, .. } => [left, right].into_iter().for_each(|side| vary(side, random)),
        Expr::And(inputs) | Expr::Or(inputs) => inputs.iter_mut().for_each(|input| vary(input, random)),
        Expr::Case { branches, otherwise } => {
            for (condition, value) in branches {
                vary(condition, random);
                vary(value, random);
            }
            otherwise.iter_mut().for_each(|value| vary(value, random));
        }
        Expr::Where { input, condition } => {
            [input, condition].into_iter().for_each(|side| vary(side, random))
        }
        Expr::OfText { function, .. } => {
            if let Some(kernel) = function.kernel() {
                *function = Arc::new(ByKernel(other_texts(&kernel, random)));
            }
        }
        Expr::Not(input)
        | Expr::IsNull(input)
        | Expr::In { input, .. }
        | Expr::Cast { input, .. }
        | Expr::Within { input, .. }
        | Expr::FloatKey { input }
        | Expr::WithSign { input, .. }
        | Expr::NonZero { input }
        | Expr::DatePart { input, .. }
        | Expr::DateTrunc { input, .. }
        | Expr::AddMonths { input, .. }
        | Expr::FloorDivide { input, .. }
        | Expr::Modulo { input, .. } => vary(input, random),
        Expr::Column(_) | Expr::Literal(_) | Expr::Parameter { .. } | Expr::RowNumber => {}
    }
}

/// Another number not far from `literal`; 0, which guards divisions, stays.
fn near(literal: Literal, random: &mut Random) -> Literal {
    let (ty, value) = match literal {
        Literal::I32(value) => (Type::I32, i128::from(value)),
        Literal::I64(value) => (Type::I64, i128::from(value)),
        Literal::I128(value) if i64::try_from(value).is_ok() => (Type::I128, value),
        Literal::F64(_) if random.one_in(3) => return Literal::F64(*random.pick(&DOUBLES)),
        Literal::F64(value) => return Literal::F64(value * random.between(-1, 9) as f64 / 4.0),
        _ => return literal,
    };
    if value == 0 {
        return literal;
    }
    let reach = value.abs() / 2 + 3;
    let end = (1i128 << width(ty).min(62)) - 1;
    integer_literal(ty, random.between(value - reach, value + reach).clamp(-end, end))
}

fn other_texts(kernel: &TextKernel, random: &mut Random) -> TextKernel {
    match kernel {
        TextKernel::Compare { op, input, with } if !with.is_empty() => {
            let with = random.pick(&TEXTS[1..]).as_bytes().to_vec();
            TextKernel::Compare { op: *op, input: input.clone(), with }
        }
        TextKernel::In { input, values, is_negated } => {
            let values = values.iter().map(|_| random.pick(&TEXTS).as_bytes().to_vec()).collect();
            TextKernel::In { input: input.clone(), values, is_negated: *is_negated }
        }
        TextKernel::Like { input, pattern, is_negated } if !pattern.has_any_character() => {
            // Other pieces, as many and in the same places.
            let pieces =
                pattern.pieces.iter().map(|_| random.pick(&TEXTS[1..]).as_bytes().to_vec()).collect();
            let pattern = LikePattern { pieces, ..pattern.clone() };
            TextKernel::Like { input: input.clone(), pattern, is_negated: *is_negated }
        }
        other => other.clone(),
    }
}
