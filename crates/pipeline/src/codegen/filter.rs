//! Steps that narrow the mask of a vector before any row is looked at: which conditions can be such steps, and
//! their code.
//!
//! A condition on the source's columns alone commutes with every probe, so all of them come first: ranges, because
//! they are compared among packed bits; then other conditions; then bitmaps of direct tables, the sparsest first; at
//! last conditions on texts without a dictionary, whose bytes are looked at.
//! Predicated, none of them narrows masks: all are conditions of the row (`sink.rs`).

use std::collections::BTreeMap;

use pelton_error::Result;

use super::args::{Arg, Args};
use super::block::Block;
use super::layout::{BuiltTable, TableKind};
use super::runtime_filter::{self, KeyList};
use super::source::{RowScope, SourceColumn};
use super::{Generator, expr, probe};
use crate::ir::{CompareOp, Expr, Literal, Op, Pipeline, ProbeKind, Sink, TopK, Type};

/// A range filter of one source column.
#[derive(Debug, Clone)]
pub struct Range {
    /// The column of the source.
    pub column: usize,
    /// The least value that passes.
    pub low: i64,
    /// The greatest.
    pub high: i64,
    /// True where a finished table has narrowed it: planning could not know.
    pub is_runtime_filter: bool,
}

/// A step that looks at single rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'p> {
    /// A condition on columns of the source.
    Condition(&'p Expr),
    /// The bitmap that op number so probes.
    Bitmap(usize),
}

impl Step<'_> {
    /// Whether it is a condition on views of text, as columns of `source`.
    pub(crate) fn reads_views(self, source: &[SourceColumn]) -> bool {
        matches!(self, Step::Condition(condition) if reads_any(condition, &|column| source[column].is_view()))
    }
}

/// Words of a lane that are held in registers at once at most.
const FUSED_WORDS_MAX: usize = 48;

/// Which steps narrow the mask.
#[derive(Debug, Default)]
pub(crate) struct FilterPlan {
    ranges: Vec<Range>,
    conditions: Vec<Expr>,
    /// Conditions that go through the bytes of texts, which takes longest.
    text_conditions: Vec<Expr>,
    /// Ops that are probes of bitmaps, the sparsest first.
    bitmaps: Vec<usize>,
    /// Ops that are filters taken apart into the above.
    done: Vec<usize>,
    /// Ranges that are compared together, in registers.
    fused: Vec<usize>,
    /// The range of a top-k's key.
    top: Option<usize>,
    key_lists: Vec<KeyList>,
    rows: Rows,
}

/// In which order a kernel looks at rows and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Rows {
    /// Each condition narrows the masks of lanes; then comes one row after the other.
    #[default]
    Branching,
    /// All conditions of a row are computed, and no step narrows masks.
    Predicated,
    /// Slices of 32 rows, of which every step leaves some.
    Sliced,
}

impl FilterPlan {
    pub(crate) fn of(
        pipeline: &Pipeline,
        source: &[SourceColumn],
        tables: &[Option<BuiltTable>],
        rows: Rows,
    ) -> Self {
        let is_predicated = rows == Rows::Predicated;
        let mut plan = Self { rows, ..Self::default() };
        let mut ranges: BTreeMap<usize, Range> = BTreeMap::new();
        for (index, op) in pipeline.ops.iter().enumerate() {
            match op {
                Op::Filter(condition) if reads_source_alone(condition, source.len()) => {
                    plan.done.push(index);
                    for conjunct in conjuncts(condition) {
                        match as_range(&conjunct, pipeline, source) {
                            Some(range) if !is_predicated => narrow(&mut ranges, range),
                            _ if reads_any(&conjunct, &|column| source[column].is_view()) => {
                                plan.text_conditions.push(conjunct);
                            }
                            _ => plan.conditions.push(conjunct),
                        }
                    }
                }
                Op::Probe { table, keys, kind, residual }
                    if keys.iter().all(|key| reads_source_alone(key, source.len())) =>
                {
                    let Some(built) = tables.get(*table).and_then(Option::as_ref) else { continue };
                    let is_whole = !kind.keeps_all() && residual.is_none();
                    if built.layout.kind == TableKind::Direct && is_whole {
                        plan.bitmaps.push(index);
                    }
                    if let Some(range) = runtime_filter::key_range(op, tables, pipeline, source) {
                        narrow(&mut ranges, range);
                    }
                }
                _ => {}
            }
        }
        plan.bitmaps.sort_by(|a, b| {
            density(&pipeline.ops[*a], tables).total_cmp(&density(&pipeline.ops[*b], tables))
        });
        let top = top_column(pipeline, source).filter(|_| !is_predicated);
        if let Some(column) = top {
            narrow(&mut ranges, Range { column, low: i64::MIN, high: i64::MAX, is_runtime_filter: false });
        }
        plan.ranges = ranges.into_values().collect();
        plan.top = top.and_then(|column| plan.ranges.iter().position(|range| range.column == column));
        plan.fused = plan.ranges_in_registers(source);
        plan.key_lists = runtime_filter::key_lists(pipeline, source.len(), tables);
        plan
    }

    /// The range filter that leaves out rows beyond the threshold of a top-k, if one does.
    pub(crate) fn top_range(&self) -> Option<usize> {
        self.top
    }

    /// What source columns may be for rows to find something in finished tables.
    pub(crate) fn key_lists(&self) -> &[KeyList] {
        &self.key_lists
    }

    /// True where all conditions of a row are computed, and no step narrows masks.
    pub(crate) fn is_predicated(&self) -> bool {
        self.rows == Rows::Predicated
    }

    /// True where the kernel works on slices of rows.
    pub(crate) fn is_sliced(&self) -> bool {
        self.rows == Rows::Sliced
    }

    /// The ranges whose columns' words fit registers together, if they are at least two.
    fn ranges_in_registers(&self, source: &[SourceColumn]) -> Vec<usize> {
        let mut words = 0;
        let mut fused = Vec::new();
        if self.rows != Rows::Branching {
            return fused;
        }
        for (i, range) in self.ranges.iter().enumerate() {
            let Some((_, width)) = source[range.column].register_width() else { continue };
            if words + usize::from(width) <= FUSED_WORDS_MAX {
                words += usize::from(width);
                fused.push(i);
            }
        }
        if fused.len() > 1 { fused } else { Vec::new() }
    }

    /// True where the row loop has nothing to do for op `index`.
    pub(crate) fn is_done(&self, index: usize) -> bool {
        self.done.contains(&index)
    }

    /// True where op `index` is a probe whose match is known when the row loop comes to it.
    pub(crate) fn is_matched(&self, index: usize) -> bool {
        self.bitmaps.contains(&index)
    }

    /// The step that meets whole vectors, and is worth a pass over their rows of its own: the first one, where no
    /// ranges come before it.
    fn whole_step(&self) -> Option<Step<'_>> {
        if self.has_whole_step() { self.row_steps_from(0).next() } else { None }
    }

    /// The steps that the row loop begins with.
    pub(crate) fn row_steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.row_steps_from(usize::from(self.has_whole_step()))
    }

    fn has_whole_step(&self) -> bool {
        self.ranges.is_empty() && self.rows == Rows::Branching
    }

    fn row_steps_from(&self, first: usize) -> impl Iterator<Item = Step<'_>> {
        let bitmaps = self.bitmaps.iter().map(|index| Step::Bitmap(*index));
        let all = self.conditions.iter().map(Step::Condition).chain(bitmaps);
        all.chain(self.text_conditions.iter().map(Step::Condition)).skip(first)
    }

    /// The range filters, by number.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    pub(crate) fn declare_codes(&self, body: &mut Block) {
        if self.is_predicated() {
            return;
        }
        for i in 0..self.ranges.len() {
            body.line(format!("u32 code_low{i} = 0, code_end{i} = 0;"));
        }
    }

    /// Declares the ranges that are compared in registers.
    pub(crate) fn declare_fused(&self, source: &[SourceColumn], body: &mut Block) {
        for &i in &self.fused {
            let (_, width) =
                source[self.ranges[i].column].register_width().expect("only such ranges are fused");
            body.line(format!("TopRange<{width}> fused{i};"));
        }
    }

    /// Finds what the ranges mean in the current page.
    pub(crate) fn find_fused(&self, source: &[SourceColumn], args: &mut Args, body: &mut Block) {
        for &i in &self.fused {
            let k = self.ranges[i].column;
            let (_, width) = source[k].register_width().expect("only such ranges are fused");
            let (low, high) = (args.word(Arg::RangeLow(i)), args.word(Arg::RangeHigh(i)));
            body.line(format!(
                "fused{i} = p{k}.packed_range<{width}>(i64({low}), i64({high}), code_low{i}, code_end{i});"
            ));
        }
    }

    /// Codes of the dictionary between which a range lies.
    pub(crate) fn find_codes(&self, args: &mut Args, body: &mut Block) {
        if self.is_predicated() {
            return;
        }
        for (i, range) in self.ranges.iter().enumerate() {
            let (low, high) = (args.word(Arg::RangeLow(i)), args.word(Arg::RangeHigh(i)));
            let k = range.column;
            body.line(format!(
                "code_low{i} = p{k}.code_from(i64({low})); code_end{i} = p{k}.code_after(i64({high}));"
            ));
        }
    }
}

/// The share of possible keys for which the probe `op` lets a row pass.
pub(super) fn density(op: &Op, tables: &[Option<BuiltTable>]) -> f64 {
    match op {
        Op::Probe { table, kind, .. } => {
            let density = tables[*table].as_ref().map_or(1.0, BuiltTable::density);
            if *kind == ProbeKind::Anti { 1.0 - density } else { density }
        }
        _ => 1.0,
    }
}

fn narrow(ranges: &mut BTreeMap<usize, Range>, range: Range) {
    let known = ranges.entry(range.column).or_insert_with(|| range.clone());
    known.low = known.low.max(range.low);
    known.high = known.high.min(range.high);
    known.is_runtime_filter |= range.is_runtime_filter;
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
    !reads_any(expr, &|column| column >= count)
}

/// True where `expr` reads a column that is one of `these`.
fn reads_any(expr: &Expr, these: &dyn Fn(usize) -> bool) -> bool {
    let any = |inputs: &[Expr]| inputs.iter().any(|input| reads_any(input, these));
    match expr {
        Expr::Column(column) | Expr::OfText { column, .. } => these(*column),
        Expr::Literal(_) | Expr::Parameter { .. } | Expr::RowNumber => false,
        Expr::Arithmetic { left, right, .. } | Expr::Compare { left, right, .. } => {
            reads_any(left, these) || reads_any(right, these)
        }
        Expr::And(inputs) | Expr::Or(inputs) => any(inputs),
        Expr::Where { input, condition } => reads_any(input, these) || reads_any(condition, these),
        Expr::Not(input)
        | Expr::IsNull(input)
        | Expr::In { input, .. }
        | Expr::Cast { input, .. }
        | Expr::Within { input, .. }
        | Expr::NonZero { input }
        | Expr::FloatKey { input }
        | Expr::WithSign { input, .. }
        | Expr::DatePart { input, .. }
        | Expr::DateTrunc { input, .. }
        | Expr::AddMonths { input, .. }
        | Expr::FloorDivide { input, .. }
        | Expr::Modulo { input, .. } => reads_any(input, these),
        Expr::Case { branches, otherwise } => {
            branches.iter().any(|(a, b)| reads_any(a, these) || reads_any(b, these))
                || otherwise.as_ref().is_some_and(|otherwise| reads_any(otherwise, these))
        }
    }
}

/// The source column that `expr` is, perhaps in a wider type.
pub(super) fn plain_column(expr: &Expr, pipeline: &Pipeline, source: &[SourceColumn]) -> Option<usize> {
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
    let (column, op, value) =
        match (plain_column(left, pipeline, source), plain_column(right, pipeline, source)) {
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
    Some(Range { column, low, high, is_runtime_filter: false })
}

/// The column of the source that a top-k's key is, where a range filter can leave rows out by it. Rows without a key
/// would not pass.
fn top_column(pipeline: &Pipeline, source: &[SourceColumn]) -> Option<usize> {
    let Sink::Materialize { top: Some(TopK { key, .. }), .. } = &pipeline.sink else { return None };
    plain_column(key, pipeline, source).filter(|column| !pipeline.columns[*column].is_nullable)
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

impl Generator<'_> {
    /// The steps that narrow the mask.
    pub(super) fn masks(&mut self, body: &mut Block) -> Result<()> {
        if self.plan.is_predicated() {
            self.decode_starts(body);
            return Ok(());
        }
        self.fused_step(body);
        let singles: Vec<usize> =
            (0..self.plan.ranges.len()).filter(|i| !self.plan.fused.contains(i)).collect();
        for i in singles {
            self.range_step(i, body);
        }
        // Texts of vectors that a first step leaves out are not looked for.
        let reads_views = self.whole_step_reads_views();
        if reads_views {
            self.decode_starts(body);
        }
        self.whole_step(body)?;
        if !reads_views {
            self.decode_starts(body);
        }
        body.line("if (!any_lane(mask)) continue;");
        Ok(())
    }

    /// All ranges, of a slice.
    pub(super) fn range_slices(&mut self, block: &mut Block) {
        for (i, range) in self.plan.ranges.iter().enumerate() {
            let (k, args) = (range.column, &mut self.kernel.args);
            let (low, high) = (args.word(Arg::RangeLow(i)), args.word(Arg::RangeHigh(i)));
            block.keep_lanes(&format!(
                "slice_in_range(p{k}, v, r, live, i64({low}), i64({high}), code_low{i}, code_end{i})"
            ));
            if self.kernel.columns[k].is_nullable {
                block.keep_lanes(&format!("slice_valid(p{k}, v, r)"));
            }
        }
    }

    /// All ranges of columns whose words fit registers, row by row together.
    fn fused_step(&mut self, body: &mut Block) {
        let fused = self.plan.fused.clone();
        if fused.is_empty() {
            return;
        }
        let join = |parts: Vec<String>, sign: &str| parts.join(sign);
        let empty = fused.iter().map(|i| format!("fused{i}.is_empty")).collect();
        body.line(format!("if ({}) continue;", join(empty, " || ")));
        body.open("EACH_LANE {");
        for &i in &fused {
            let k = self.plan.ranges[i].column;
            let (bits, width) = self.request.source[k].register_width().expect("only such ranges are fused");
            body.line(format!("LaneWords<{bits}, {width}> w{i};"));
            body.line(format!("w{i}.load_from(p{k}.packed_vector(v), lane);"));
        }
        body.line("u32 inside = 0;");
        body.line("UNROLL");
        let holds = fused.iter().map(|i| format!("fused{i}.holds(w{i}.top(r))")).collect();
        body.line(format!("for (u32 r = 0; r < 32; r++) inside |= u32({}) << r;", join(holds, " & ")));
        body.line("AT(mask) &= inside;");
        for k in fused.iter().map(|i| self.plan.ranges[*i].column) {
            if self.kernel.columns[k].is_nullable {
                body.line(format!("AT(mask) = p{k}.valid_mask(v, lane, AT(mask));"));
            }
        }
        body.close();
    }

    fn range_step(&mut self, i: usize, body: &mut Block) {
        let k = self.plan.ranges[i].column;
        let args = &mut self.kernel.args;
        let (low, high) = (args.word(Arg::RangeLow(i)), args.word(Arg::RangeHigh(i)));
        let widths = self.request.source[k].known_widths();
        body.line("if (!any_lane(mask)) continue;");
        body.line(format!(
            "EACH_LANE {{ AT(mask) = p{k}.in_range<{widths}>(v, lane, i64({low}), i64({high}), code_low{i}, \
             code_end{i}, AT(mask)); }}"
        ));
        if self.kernel.columns[k].is_nullable {
            body.line(format!("EACH_LANE {{ AT(mask) = p{k}.valid_mask(v, lane, AT(mask)); }}"));
        }
    }

    /// Whether the first condition is one on views of text. (The keys of a bitmap are numbers that may be functions of
    /// one.)
    fn whole_step_reads_views(&self) -> bool {
        let is_view = |column: usize| self.request.source[column].is_view();
        match self.plan.whole_step() {
            Some(Step::Condition(condition)) => reads_any(condition, &is_view),
            Some(Step::Bitmap(index)) => {
                let Op::Probe { keys, .. } = &self.request.pipeline.ops[index] else { return false };
                keys.iter().any(|key| reads_any(key, &is_view))
            }
            None => false,
        }
    }

    /// The first condition or bitmap, over all rows, several at a time; where it goes through texts, that is work
    /// enough.
    fn whole_step(&mut self, body: &mut Block) -> Result<()> {
        let reads_views = self.whole_step_reads_views();
        let Some(step) = self.plan.whole_step() else { return Ok(()) };
        body.open("EACH_LANE {");
        body.line("const u32 all = AT(mask);");
        body.line("u32 keep = 0;");
        if !reads_views {
            body.line("UNROLL_4");
        }
        body.open("for (u32 r = 0; r < 32; r++) {");
        body.open("if (all >> r & 1) {");
        self.find_place(body);
        let mut scope = RowScope::new(&mut self.kernel);
        let condition = test(step, self.request.pipeline, &mut scope, body)?;
        body.line(format!("keep |= u32({condition}) << r;"));
        body.close();
        body.close();
        body.line("AT(mask) = keep;");
        body.close();
        Ok(())
    }
}

/// The condition under which `step` keeps a row.
pub(super) fn test(
    step: Step<'_>,
    pipeline: &Pipeline,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<String> {
    match step {
        Step::Condition(condition) => Ok(expr::generate(condition, scope, block)?.is_true()),
        Step::Bitmap(index) => {
            let Op::Probe { table, keys, kind, .. } = &pipeline.ops[index] else {
                unreachable!("only probes have bitmaps")
            };
            let found = probe::bitmap_test(*table, keys, scope, block)?;
            Ok(if *kind == ProbeKind::Anti { format!("!({found})") } else { found })
        }
    }
}
