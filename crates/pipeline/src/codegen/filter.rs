//! Steps that narrow the mask of a vector before any row is gone through: which conditions can be such steps, and
//! their code.
//!
//! A condition on the source's columns alone commutes with every probe, so all of them come first: ranges, because
//! they are compared among packed bits; then other conditions; then bitmaps of direct tables, the sparsest first.

use std::collections::BTreeMap;

use pelton_error::Result;

use super::args::{Arg, Args};
use super::block::Block;
use super::layout::{BuiltTable, TableKind};
use super::source::{RowScope, SourceColumn};
use super::{Generator, expr, probe};
use crate::ir::{CompareOp, Expr, Literal, Op, Pipeline, ProbeKind, Type};

/// A range filter of one source column.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) column: usize,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// Which steps narrow the mask.
#[derive(Debug, Default)]
pub(crate) struct FilterPlan {
    ranges: Vec<Range>,
    conditions: Vec<Expr>,
    /// Ops that are probes of bitmaps, in the order of their steps.
    bitmaps: Vec<usize>,
    /// Ops with nothing left to do in the row loop.
    done: Vec<usize>,
}

impl FilterPlan {
    pub(crate) fn of(pipeline: &Pipeline, source: &[SourceColumn], tables: &[Option<BuiltTable>]) -> Self {
        let mut plan = Self::default();
        let mut ranges: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
        for (index, op) in pipeline.ops.iter().enumerate() {
            match op {
                Op::Filter(condition) if reads_source_alone(condition, source.len()) => {
                    plan.done.push(index);
                    for conjunct in conjuncts(condition) {
                        match as_range(&conjunct, pipeline, source) {
                            Some(range) => narrow(&mut ranges, range),
                            None => plan.conditions.push(conjunct),
                        }
                    }
                }
                Op::Probe { table, keys, kind } if keys.iter().all(|key| reads_source_alone(key, source.len())) => {
                    let Some(built) = tables.get(*table).and_then(Option::as_ref) else { continue };
                    if built.layout.kind == TableKind::Direct && *kind != ProbeKind::Outer {
                        plan.bitmaps.push(index);
                    }
                    if let Some(range) = key_range(keys, *kind, built, pipeline, source) {
                        narrow(&mut ranges, range);
                    }
                }
                _ => {}
            }
        }
        plan.bitmaps.sort_by(|a, b| density(&pipeline.ops[*a], tables).total_cmp(&density(&pipeline.ops[*b], tables)));
        plan.ranges = ranges.into_iter().map(|(column, (low, high))| Range { column, low, high }).collect();
        plan
    }

    /// True where the row loop has nothing to do for op `index`.
    pub(crate) fn is_done(&self, index: usize) -> bool {
        self.done.contains(&index)
    }

    /// True where op `index` is a probe whose match the mask guarantees.
    pub(crate) fn is_matched(&self, index: usize) -> bool {
        self.bitmaps.contains(&index)
    }

    pub(crate) fn range_bounds(&self) -> Vec<(i64, i64)> {
        self.ranges.iter().map(|range| (range.low, range.high)).collect()
    }

    pub(crate) fn range_columns(&self) -> Vec<usize> {
        self.ranges.iter().map(|range| range.column).collect()
    }

    pub(crate) fn declare_codes(&self, body: &mut Block) {
        for i in 0..self.ranges.len() {
            body.line(format!("u32 code_low{i} = 0, code_end{i} = 0;"));
        }
    }

    /// Codes of the dictionary between which a range lies.
    pub(crate) fn find_codes(&self, args: &mut Args, body: &mut Block) {
        for (i, range) in self.ranges.iter().enumerate() {
            let (low, high) = (args.word(Arg::RangeLow(i)), args.word(Arg::RangeHigh(i)));
            let k = range.column;
            body.line(format!("code_low{i} = p{k}.code_from(i64({low})); code_end{i} = p{k}.code_after(i64({high}));"));
        }
    }
}

fn density(op: &Op, tables: &[Option<BuiltTable>]) -> f64 {
    match op {
        Op::Probe { table, kind, .. } => {
            let density = tables[*table].as_ref().map_or(1.0, BuiltTable::density);
            if *kind == ProbeKind::Anti { 1.0 - density } else { density }
        }
        _ => 1.0,
    }
}

fn narrow(ranges: &mut BTreeMap<usize, (i64, i64)>, range: Range) {
    let entry = ranges.entry(range.column).or_insert((i64::MIN, i64::MAX));
    *entry = (entry.0.max(range.low), entry.1.min(range.high));
}

/// The conditions that `condition` is the conjunction of.
fn conjuncts(condition: &Expr) -> Vec<Expr> {
    match condition {
        Expr::And(inputs) => inputs.iter().flat_map(conjuncts).collect(),
        other => vec![other.clone()],
    }
}

/// True where `expr` reads no column but the first `count`.
pub(crate) fn reads_source_alone(expr: &Expr, count: usize) -> bool {
    let all = |inputs: &[Expr]| inputs.iter().all(|input| reads_source_alone(input, count));
    match expr {
        Expr::Column(column) | Expr::OfText { column, .. } => *column < count,
        Expr::Literal(_) => true,
        Expr::Arithmetic { left, right, .. } | Expr::Compare { left, right, .. } => {
            reads_source_alone(left, count) && reads_source_alone(right, count)
        }
        Expr::And(inputs) | Expr::Or(inputs) => all(inputs),
        Expr::Not(input)
        | Expr::IsNull(input)
        | Expr::In { input, .. }
        | Expr::Cast { input, .. }
        | Expr::DatePart { input, .. } => reads_source_alone(input, count),
        Expr::Case { branches, otherwise } => {
            branches.iter().all(|(a, b)| reads_source_alone(a, count) && reads_source_alone(b, count))
                && otherwise.as_ref().is_none_or(|otherwise| reads_source_alone(otherwise, count))
        }
    }
}

/// The source column that `expr` is, perhaps in a wider type.
fn plain_column(expr: &Expr, pipeline: &Pipeline, source: &[SourceColumn]) -> Option<usize> {
    match expr {
        Expr::Column(column) if *column < source.len() && source[*column].has_ranges() => {
            matches!(pipeline.columns[*column].ty, Type::I32 | Type::I64 | Type::I128).then_some(*column)
        }
        Expr::Cast { input, to: Type::I64 | Type::I128 } => plain_column(input, pipeline, source),
        _ => None,
    }
}

fn integer(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(Literal::I32(value)) => Some((*value).into()),
        Expr::Literal(Literal::I64(value)) => Some((*value).into()),
        Expr::Literal(Literal::I128(value)) => Some(*value),
        _ => None,
    }
}

fn as_range(condition: &Expr, pipeline: &Pipeline, source: &[SourceColumn]) -> Option<Range> {
    let Expr::Compare { op, left, right } = condition else { return None };
    let (column, op, value) = match (plain_column(left, pipeline, source), plain_column(right, pipeline, source)) {
        (Some(column), None) => (column, *op, integer(right)?),
        (None, Some(column)) => (column, mirrored(*op), integer(left)?),
        _ => return None,
    };
    let value = i64::try_from(value).ok()?;
    let (low, high) = match op {
        CompareOp::Eq => (value, value),
        CompareOp::Lt => (i64::MIN, value.checked_sub(1)?),
        CompareOp::Le => (i64::MIN, value),
        CompareOp::Gt => (value.checked_add(1)?, i64::MAX),
        CompareOp::Ge => (value, i64::MAX),
        CompareOp::Ne => return None,
    };
    Some(Range { column, low, high })
}

fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        same => same,
    }
}

/// Keys that occur in a table, as a range of the column that is looked up there, if that leaves much out.
fn key_range(
    keys: &[Expr],
    kind: ProbeKind,
    built: &BuiltTable,
    pipeline: &Pipeline,
    source: &[SourceColumn],
) -> Option<Range> {
    let [key] = keys else { return None };
    if !matches!(kind, ProbeKind::Inner | ProbeKind::Semi) {
        return None;
    }
    let column = plain_column(key, pipeline, source)?;
    let (occurring, possible) = (built.key_range()?, pipeline.columns[column].bounds?);
    let share = (occurring.max - occurring.min) as f64 / ((possible.max - possible.min) as f64).max(1.0);
    (share < WORTHWHILE_SHARE).then_some(())?;
    Some(Range { column, low: i64::try_from(occurring.min).ok()?, high: i64::try_from(occurring.max).ok()? })
}

/// A range of keys that leaves out less than the rest of this is not looked at.
const WORTHWHILE_SHARE: f64 = 0.8;

impl Generator<'_> {
    /// The steps that narrow the mask.
    pub(super) fn masks(&mut self, body: &mut Block) -> Result<()> {
        for i in 0..self.plan.ranges.len() {
            self.range_step(i, body);
        }
        let mut is_first = self.plan.ranges.is_empty();
        for condition in self.plan.conditions.clone() {
            self.step(body, is_first, |scope, block| Ok(expr::generate(&condition, scope, block)?.is_true()))?;
            is_first = false;
        }
        for index in self.plan.bitmaps.clone() {
            let Op::Probe { table, keys, kind } = &self.request.pipeline.ops[index] else { continue };
            let is_anti = *kind == ProbeKind::Anti;
            self.step(body, is_first, |scope, block| {
                let found = probe::bitmap_test(*table, keys, scope, block)?;
                Ok(if is_anti { format!("!({found})") } else { found })
            })?;
            is_first = false;
        }
        body.line("if (!any_lane(mask)) continue;");
        Ok(())
    }

    fn range_step(&mut self, i: usize, body: &mut Block) {
        let k = self.plan.ranges[i].column;
        let args = &mut self.kernel.args;
        let (low, high) = (args.word(Arg::RangeLow(i)), args.word(Arg::RangeHigh(i)));
        let widths = self.request.source[k].known_widths();
        if i > 0 {
            body.line("if (!any_lane(mask)) continue;");
        }
        body.line(format!(
            "EACH_LANE {{ AT(mask) = p{k}.in_range<{widths}>(v, lane, i64({low}), i64({high}), code_low{i}, \
             code_end{i}, AT(mask)); }}"
        ));
        if self.kernel.columns[k].is_nullable {
            body.line(format!("EACH_LANE {{ AT(mask) = p{k}.valid_mask(v, lane, AT(mask)); }}"));
        }
    }

    /// Keeps the rows for which `test` generates a true condition. The first step of all meets whole vectors, and goes
    /// through every row, several at a time; later ones meet few rows, and go through those that are left.
    fn step(
        &mut self,
        body: &mut Block,
        is_first: bool,
        test: impl FnOnce(&mut RowScope<'_, '_>, &mut Block) -> Result<String>,
    ) -> Result<()> {
        body.line("if (!any_lane(mask)) continue;");
        body.open("EACH_LANE {");
        body.line("u32 left = AT(mask), keep = 0;");
        if is_first {
            body.line("UNROLL_4");
            body.open("for (u32 r = 0; r < 32; r++) {");
            body.open("if (left >> r & 1) {");
        } else {
            body.open("while (left) {");
            body.line("const u32 r = trailing_zeros(left);");
            body.line("left &= left - 1;");
        }
        let mut scope = RowScope::new(&mut self.kernel);
        let condition = test(&mut scope, body)?;
        body.line(format!("keep |= u32({condition}) << r;"));
        if is_first {
            body.close();
        }
        body.close();
        body.line("AT(mask) = keep;");
        body.close();
        Ok(())
    }
}
