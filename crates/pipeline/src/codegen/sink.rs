//! What happens to each row that the mask has left: remaining conditions, computed columns, probes; then the sink.

use pelton_error::Result;

use super::args::Arg;
use super::block::Block;
use super::build::Build;
use super::groups;
use super::layout::{BuiltTable, PayloadColumn, SinkLayout, TableKind};
use super::scope::Scope;
use super::source::{PendingPayload, RowScope};
use super::value::Value;
use super::{Generator, expr, filter, probe, rows, waiting};
use crate::ir::{Bounds, Expr, Op, ProbeKind, Sink, Type};

/// The code of the row loop, and what it needs before and after all rows.
#[derive(Debug)]
pub(crate) struct RowCode {
    /// For one row.
    pub(crate) text: String,
    /// Declarations of accumulators.
    pub(crate) prologue: String,
    /// From accumulators to memory.
    pub(crate) epilogue: String,
    /// Shared memory of a block, besides scratch.
    pub(crate) shared_bytes: usize,
    pub(crate) sink: SinkLayout,
}

impl Generator<'_> {
    /// True where a row may come to the sink several times.
    pub(super) fn multiplies_rows(&self) -> bool {
        self.request.pipeline.ops.iter().any(|op| self.repetitions(op) > 1)
    }

    /// Rows that come to the sink at most; the greatest number where nobody knows.
    fn rows_at_sink(&self) -> u64 {
        let repetitions = self.request.pipeline.ops.iter().map(|op| self.repetitions(op));
        repetitions.fold(self.request.row_count, u64::saturating_mul)
    }

    /// How often a row leaves `op` at most; the greatest number where a probe may give it several matches.
    fn repetitions(&self, op: &Op) -> u64 {
        match op {
            Op::Probe { table, kind, .. } if kind.brings_payload() => {
                let built = self.request.tables[*table].as_ref();
                if built.is_some_and(|built| !built.is_unique) { u64::MAX } else { 1 }
            }
            Op::Repeat { count } => (*count).into(),
            Op::Filter(_) | Op::Compute { .. } | Op::Probe { .. } => 1,
        }
    }

    /// The row loop's body.
    pub(super) fn row_loop(&mut self) -> Result<RowCode> {
        let is_sliced = self.plan.is_sliced();
        let mut block = if is_sliced { Block::of_slices() } else { Block::default() };
        let pipeline = self.request.pipeline;
        let scratch = self.scratch_bytes() * self.block_warps();
        let limits = groups::Limits {
            is_hashed: self.request.is_hashed,
            direct_keys_max: self.request.direct_keys_max,
            groups_expected: self.request.groups_expected,
            direct_bytes_max: self.request.direct_bytes_max,
            direct_ratio_max: self.request.direct_ratio_max,
            table_keys_max: self.request.table_keys_max,
            shared_offset: scratch,
            shared_bytes_max: super::SHARED_BYTES_MAX.saturating_sub(scratch),
            row_count: self.rows_at_sink(),
            is_repeated: self.multiplies_rows(),
        };
        let is_hashed = self.request.is_hashed;
        let mut next_column = pipeline.columns.len();
        if is_sliced {
            self.range_slices(&mut block);
        }
        let mut scope = RowScope::new(&mut self.kernel);
        let mut guard = Guard::new(self.plan.is_predicated());
        let mut share = 1.0;
        for step in self.plan.row_steps() {
            if block.is_slice() && step.reads_views(scope.kernel.source) {
                let (kept, before) = (block.open_rows(), scope.snapshot());
                let condition = filter::test(step, pipeline, &mut scope, &mut block)?;
                block.close_rows(&kept, &condition);
                scope.restore(before);
                continue;
            }
            let condition = filter::test(step, pipeline, &mut scope, &mut block)?;
            guard.add(condition, &mut scope, &mut block);
            if let filter::Step::Bitmap(index) = step {
                leave_sparse(&mut share, &pipeline.ops[index], self.request.tables, &mut block);
            }
        }
        for (index, op) in pipeline.ops.iter().enumerate() {
            match op {
                Op::Filter(_) if self.plan.is_done(index) => {}
                Op::Filter(condition) => {
                    let value = expr::generate(condition, &mut scope, &mut block)?;
                    guard.add(value.is_true(), &mut scope, &mut block);
                }
                Op::Compute { value, .. } => {
                    let value = expr::generate(value, &mut scope, &mut block)?;
                    scope.set(next_column, value);
                    next_column += 1;
                }
                Op::Repeat { count } => {
                    guard.open(&mut scope, &mut block);
                    let turn = block.name("t");
                    block.open(format!("for (i32 {turn} = 0; {turn} < {count}; {turn}++) {{"));
                    let bounds = Bounds { min: 0, max: i128::from(*count) - 1 };
                    scope.set(next_column, Value::new(turn, Type::I32, Some(bounds)));
                    next_column += 1;
                }
                Op::Probe { table, keys, kind, residual } => {
                    let is_matched = self.plan.is_matched(index);
                    let residual = residual.as_ref();
                    let probe = Probe { table: *table, keys, kind: *kind, residual, is_matched };
                    if probe.needs_row(&scope) {
                        guard.open(&mut scope, &mut block);
                    }
                    probe.generate(next_column, &mut scope, &mut block)?;
                    next_column += probe.added_columns(&scope);
                    if !is_matched {
                        leave_sparse(&mut share, op, self.request.tables, &mut block);
                    }
                }
            }
        }
        let is_global = matches!(&pipeline.sink, Sink::Aggregate { keys, .. } if keys.is_empty());
        let keep = if is_global { guard.take(&mut block) } else { None };
        guard.open(&mut scope, &mut block);
        let mut code = match &pipeline.sink {
            Sink::Build { table, keys, payload } => {
                let (wants_keys, is_key_set) = (self.request.wants_keys, self.request.is_key_set);
                let build = Build { table: *table, keys, payload, is_hashed, wants_keys, is_key_set };
                build.generate(&limits, &mut scope, &mut block)?
            }
            Sink::Aggregate { keys, aggregates, .. } => {
                groups::aggregate(keys, aggregates, keep, &limits, &mut scope, &mut block)?
            }
            Sink::Materialize { columns, top, order } => {
                let wanted = rows::Wanted { columns, top: top.as_ref(), order: order.as_ref() };
                rows::materialize(&wanted, &self.plan, limits.is_repeated, &mut scope, &mut block)?
            }
        };
        let limits = waiting::Lane { may_be_full: code.sink.may_be_full(), is_repeated: limits.is_repeated };
        block.close_all(&limits.row_head("mask[lane] >> r << r", "emitted_before[lane]"));
        code.text = block.into_text();
        Ok(code)
    }
}

/// A slice goes on as single rows where probes leave this share of rows or less: one or two of 32, as far as direct tables
/// tell how many of the keys that there may be they have. (Of keys of hashed tables few of those there may be occur.)
const SPARSE_SHARE: f64 = 1.0 / 16.0;

/// Takes the probe `op` into `share`, the share of rows that have come so far, and goes on row by row where it is small.
fn leave_sparse(share: &mut f64, op: &Op, tables: &[Option<BuiltTable>], block: &mut Block) {
    if let Op::Probe { table, kind: ProbeKind::Inner | ProbeKind::Semi | ProbeKind::Anti, .. } = op
        && tables[*table].as_ref().is_some_and(|built| built.layout.kind == TableKind::Direct)
    {
        *share *= filter::density(op, tables).clamp(0.0, 1.0);
    }
    if *share <= SPARSE_SHARE {
        block.each_row();
    }
}

/// What a row must fulfil: branches, one inside the other, or conditions that are combined where they are needed.
struct Guard {
    is_predicated: bool,
    conditions: Vec<String>,
}

impl Guard {
    fn new(is_predicated: bool) -> Self {
        Self { is_predicated, conditions: Vec::new() }
    }

    fn add(&mut self, condition: String, scope: &mut RowScope<'_, '_>, block: &mut Block) {
        match self.is_predicated {
            true => {
                scope.guards().push(condition.clone());
                self.conditions.push(condition);
            }
            false => block.keep_if(&condition),
        }
    }

    /// All conditions so far as one value without branches; `None` where there is none.
    fn take(&mut self, block: &mut Block) -> Option<String> {
        let conditions = std::mem::take(&mut self.conditions);
        let all =
            conditions.iter().map(|condition| format!("u32({condition})")).collect::<Vec<_>>().join(" & ");
        (!conditions.is_empty()).then(|| block.define("bool", "keep", all))
    }

    /// A branch of its own, for what only rows that pass may do; branches from here on.
    fn open(&mut self, scope: &mut RowScope<'_, '_>, block: &mut Block) {
        if let Some(keep) = self.take(block) {
            block.open(format!("if ({keep}) {{"));
            scope.guards().clear();
        }
        self.is_predicated = false;
    }
}

/// A probe in the row loop.
struct Probe<'p> {
    table: usize,
    keys: &'p [Expr],
    kind: ProbeKind,
    residual: Option<&'p Expr>,
    /// The mask has only rows that match (or, for `Anti`, do not).
    is_matched: bool,
}

impl Probe<'_> {
    fn payload_columns(&self, scope: &RowScope<'_, '_>) -> usize {
        scope.kernel.tables[self.table].as_ref().expect("built before").layout.brought_columns()
    }

    fn added_columns(&self, scope: &RowScope<'_, '_>) -> usize {
        self.kind.added_columns(self.payload_columns(scope))
    }

    /// True where the probe itself drops rows or reads what only rows that match have.
    fn needs_row(&self, scope: &RowScope<'_, '_>) -> bool {
        !self.is_matched || self.added_columns(scope) > 0
    }

    fn generate(&self, first_column: usize, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<()> {
        if self.is_matched && !self.kind.brings_payload() {
            return Ok(());
        }
        let probe::ProbeKey { condition, key, words } =
            probe::probe_key(self.table, self.keys, scope, block)?;
        let built = scope.kernel.tables[self.table].as_ref().expect("built before");
        let (kind, is_unique) = (built.layout.kind, built.is_unique);
        let is_tested = self.residual.is_some()
            || self.kind == ProbeKind::Mark
            || self.kind != ProbeKind::Inner && words.is_some();
        if is_tested {
            let first = self.first_match(kind, &condition, &key, scope, block);
            let matches = Matches { probe: self, kind, words, first, first_column };
            return match self.kind {
                ProbeKind::Outer => matches.all_or_none(scope, block),
                _ => matches.any(scope, block),
            };
        }
        let (row, matched) = match kind {
            TableKind::Direct => self.direct(&condition, key, scope, block),
            TableKind::Hashed => self.hashed(&condition, &key, is_unique, scope, block),
        };
        if let Some(words) = words {
            let is_equal = probe::has_keys(self.table, &words, &row, scope);
            block.open(format!("if ({is_equal}) {{"));
        }
        if self.kind.brings_payload() {
            self.set_payload(first_column, &row, matched.as_ref(), scope);
        }
        Ok(())
    }

    /// Payload columns are those of `row` from here on, of which `matched` says whether there is one.
    fn set_payload(
        &self,
        first_column: usize,
        row: &str,
        matched: Option<&String>,
        scope: &mut RowScope<'_, '_>,
    ) {
        for index in 0..self.payload_columns(scope) {
            let (row, matched) = (row.to_owned(), matched.cloned());
            scope
                .set_pending(first_column + index, PendingPayload { table: self.table, index, row, matched });
        }
    }

    fn direct(
        &self,
        condition: &str,
        key: String,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> (String, Option<String>) {
        if self.is_matched {
            return (key, None);
        }
        let found = probe::is_in_bitmap(self.table, condition, &key, scope, block);
        let found = block.define("bool", "b", found);
        match self.kind {
            ProbeKind::Outer => return (key, Some(found)),
            ProbeKind::Anti => block.keep_if(&format!("!{found}")),
            ProbeKind::Inner | ProbeKind::Semi => block.keep_if(&found),
            ProbeKind::Mark => unreachable!("marks are set by any match"),
        }
        (key, None)
    }

    /// The first row of the key's chain, counted from 1, as a variable; 0 where the key has none.
    fn first_in_chain(
        &self,
        condition: &str,
        key: &str,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> String {
        let (table, args) = (self.table, &mut scope.kernel.args);
        let (keys, mask) =
            (args.pointer(Arg::TableKeys(table), "const u64"), args.word(Arg::TableSlotMask(table)));
        let (bloom, bloom_mask) =
            (args.pointer(Arg::Bloom(table), "const u64"), args.word(Arg::BloomMask(table)));
        let heads = args.pointer(Arg::Heads(table), "const u32");
        let may_hold = format!("{condition} && bloom_may_hold({bloom}, {bloom_mask}, {key})");
        let find = |first: &str| {
            format!(
                "if ({may_hold}) {{ const u64 slot = slot_of({keys}, {mask}, {key}); \
                 if (slot != NO_KEY) {first} = load({heads} + slot); }}"
            )
        };
        if block.is_slice() {
            return block.define_slice("u32", "h", |first| {
                let find = find(&format!("{first}[lane]"));
                format!("SLICE {first}[lane] = 0; EACH_LIVE_LANE {{ {find} }}")
            });
        }
        let first = block.name("h");
        block.line(format!("u32 {first} = 0;"));
        block.line(find(&first));
        first
    }

    /// As [`first_in_chain`](Self::first_in_chain), of a direct table a row counted from 1 too.
    fn first_match(
        &self,
        kind: TableKind,
        condition: &str,
        key: &str,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> String {
        if kind == TableKind::Hashed {
            return self.first_in_chain(condition, key, scope, block);
        }
        let bitmap = scope.kernel.args.pointer(Arg::Bitmap(self.table), "const u32");
        let first = block.name("h");
        block.line(format!(
            "u32 {first} = {condition} && bitmap_holds({bitmap}, {key}) ? u32({key}) + 1 : 0;"
        ));
        first
    }

    /// Finds the first row of the key's chain, counted from 1; opens the loop over the chain where it may be longer.
    fn hashed(
        &self,
        condition: &str,
        key: &str,
        is_unique: bool,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> (String, Option<String>) {
        let first = self.first_in_chain(condition, key, scope, block);
        let next = scope.kernel.args.pointer(Arg::Next(self.table), "const u32");
        let row = format!("({first} - 1)");
        match self.kind {
            ProbeKind::Semi => block.keep_if(&format!("{first} != 0")),
            ProbeKind::Anti => block.keep_if(&format!("{first} == 0")),
            ProbeKind::Inner if is_unique => block.keep_if(&format!("{first} != 0")),
            ProbeKind::Inner => {
                block.open(format!("for (; {first}; {first} = load({next} + ({first} - 1))) {{"))
            }
            ProbeKind::Outer => {
                let matched = block.define("bool", "b", format!("{first} != 0"));
                if !is_unique {
                    let more = block.name("q");
                    block.open(format!(
                        "for (bool {more} = true; {more}; {more} = {first} && ({first} = load({next} + ({first} - 1)))) {{"
                    ));
                }
                return (row, Some(matched));
            }
            ProbeKind::Mark => unreachable!("marks are set by any match"),
        }
        (row, None)
    }
}

/// The rows of a key's chain, of which those are matches that have the keys, where the chain is that of their hash, and
/// fulfil a residual condition, if there is one.
struct Matches<'p> {
    probe: &'p Probe<'p>,
    kind: TableKind,
    /// The words of the keys, where they are compared.
    words: Option<String>,
    /// A variable: the next row of the chain, counted from 1; 0 at its end.
    first: String,
    first_column: usize,
}

impl Matches<'_> {
    /// Goes to the next row of the chain.
    fn step(&self, scope: &mut RowScope<'_, '_>) -> String {
        let first = &self.first;
        match self.kind {
            TableKind::Direct => format!("{first} = 0"),
            TableKind::Hashed => {
                let next = scope.kernel.args.pointer(Arg::Next(self.probe.table), "const u32");
                format!("{first} = load({next} + ({first} - 1))")
            }
        }
    }

    /// Whether not all rows of the chain are matches.
    fn are_tested(&self) -> bool {
        self.words.is_some() || self.probe.residual.is_some()
    }

    /// Sets variable `found` to `value` where the next row of the chain is a match, and goes on to the one behind it; all
    /// while `found` is 0.
    fn find(&self, found: &str, value: &str, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<()> {
        let (first, step) = (&self.first, self.step(scope));
        let depth = block.depth();
        block.open(format!("for (; {first} && !{found}; {step}) {{"));
        let row = format!("({first} - 1)");
        if let Some(words) = &self.words {
            let is_equal = probe::has_keys(self.probe.table, words, &row, scope);
            block.open(format!("if ({is_equal}) {{"));
        }
        let outside = scope.snapshot();
        self.probe.set_payload(self.first_column, &row, None, scope);
        if let Some(residual) = self.probe.residual {
            let holds = expr::generate(residual, scope, block)?.is_true();
            block.open(format!("if ({holds}) {{"));
        }
        block.line(format!("{found} = {value};"));
        scope.restore(outside);
        block.close_to(depth);
        Ok(())
    }

    /// Looks for any match: opens the condition under which the row goes on, or adds the column that says so.
    fn any(&self, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<()> {
        let found = block.name("b");
        match self.are_tested() {
            true => {
                block.line(format!("bool {found} = false;"));
                self.find(&found, "true", scope, block)?;
            }
            false => block.line(format!("const bool {found} = {} != 0;", self.first)),
        }
        match self.probe.kind {
            ProbeKind::Mark => scope.set(self.first_column, Value::new(found, Type::Bool, None)),
            ProbeKind::Anti => block.open(format!("if (!{found}) {{")),
            _ => block.open(format!("if ({found}) {{")),
        }
        Ok(())
    }

    /// Opens the loop over all matches, or once over none.
    fn all_or_none(&self, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<()> {
        let (found, any, more) = (block.name("m"), block.name("a"), block.name("q"));
        block.line(format!("u32 {found} = 0;"));
        block.line(format!("bool {any} = false;"));
        let again = format!("{any} = true, {more} = {found} && {}", self.first);
        block.open(format!("for (bool {more} = true; {more}; {again}) {{"));
        block.line(format!("{found} = 0;"));
        self.find(&found, &self.first, scope, block)?;
        // Behind the last match there may be rows that are none.
        block.open(format!("if ({found} || !{any}) {{"));
        let matched = block.define("bool", "b", format!("{found} != 0"));
        self.probe.set_payload(self.first_column, &format!("({found} - 1)"), Some(&matched), scope);
        Ok(())
    }
}

pub(super) fn values_of(
    exprs: &[Expr],
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<Vec<Value>> {
    exprs.iter().map(|expr| expr::generate(expr, scope, block)).collect()
}

/// Stores values into arrays at `place`.
pub(super) fn store(
    values: &[Value],
    place: &str,
    arrays: impl Fn(usize) -> (Arg, Arg),
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<Vec<PayloadColumn>> {
    let columns = values.iter().map(PayloadColumn::of).collect::<Result<Vec<_>>>()?;
    for (index, value) in values.iter().enumerate() {
        let (array, valid_array) = arrays(index);
        let ty = value.form.array_type();
        let array = scope.kernel.args.pointer(array, ty);
        block.line(format!("{array}[{place}] = {ty}({});", value.code));
        if let Some(valid) = &value.valid {
            let valid_array = scope.kernel.args.pointer(valid_array, "u8");
            block.line(format!("{valid_array}[{place}] = u8({valid});"));
        }
    }
    Ok(columns)
}
