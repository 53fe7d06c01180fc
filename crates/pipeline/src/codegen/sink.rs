//! What happens to each row that the mask has left: remaining conditions, computed columns, probes; then the sink.

use pelton_error::{Error, Result};

use super::args::Arg;
use super::block::Block;
use super::groups;
use super::layout::{KeyDomain, PayloadColumn, SinkLayout, TableKind, TableLayout, code_count};
use super::source::{PendingPayload, RowScope};
use super::value::Value;
use super::{Generator, expr, filter, probe};
use crate::ir::{Expr, Op, ProbeKind, Sink};

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
    /// True where a probe may give a row several matches.
    fn multiplies_rows(&self) -> bool {
        let may_repeat = |op: &Op| match op {
            Op::Probe { table, kind: ProbeKind::Inner | ProbeKind::Outer, .. } => {
                self.request.tables[*table].as_ref().is_some_and(|built| !built.is_unique)
            }
            _ => false,
        };
        self.request.pipeline.ops.iter().any(may_repeat)
    }

    /// The row loop's body.
    pub(super) fn row_loop(&mut self) -> Result<RowCode> {
        let mut block = Block::default();
        let pipeline = self.request.pipeline;
        let scratch = self.scratch_bytes() * self.block_warps();
        let limits = groups::Limits {
            direct_codes_max: self.request.direct_codes_max,
            table_codes_max: self.request.table_codes_max,
            shared_offset: scratch,
            shared_bytes_max: super::SHARED_BYTES_MAX.saturating_sub(scratch),
            row_count: if self.multiplies_rows() { u64::MAX } else { self.request.row_count },
        };
        let is_hashed = self.request.is_hashed;
        let mut next_column = pipeline.columns.len();
        let mut scope = RowScope::new(&mut self.kernel);
        for step in self.plan.row_steps() {
            let condition = filter::test(step, pipeline, &mut scope, &mut block)?;
            block.open(format!("if ({condition}) {{"));
        }
        for (index, op) in pipeline.ops.iter().enumerate() {
            match op {
                Op::Filter(_) if self.plan.is_done(index) => {}
                Op::Filter(condition) => {
                    let value = expr::generate(condition, &mut scope, &mut block)?;
                    block.open(format!("if ({}) {{", value.is_true()));
                }
                Op::Compute { value, .. } => {
                    let value = expr::generate(value, &mut scope, &mut block)?;
                    scope.set(next_column, value);
                    next_column += 1;
                }
                Op::Probe { table, keys, kind } => {
                    let probe =
                        Probe { table: *table, keys, kind: *kind, is_matched: self.plan.is_matched(index) };
                    probe.generate(next_column, &mut scope, &mut block)?;
                    next_column += probe.added_columns(&scope);
                }
            }
        }
        let depth_of_rows = block.depth();
        let mut code = match &pipeline.sink {
            Sink::Build { table, keys, payload } => {
                build(*table, keys, payload, is_hashed, &limits, &mut scope, &mut block)?
            }
            Sink::Aggregate { keys, aggregates } => {
                groups::aggregate(keys, aggregates, &limits, &mut scope, &mut block)?
            }
            Sink::Materialize { columns } => materialize(columns, &mut scope, &mut block)?,
        };
        debug_assert!(block.depth() >= depth_of_rows);
        block.close_to(0);
        code.text = block.into_text();
        Ok(code)
    }
}

/// A probe in the row loop.
struct Probe<'p> {
    table: usize,
    keys: &'p [Expr],
    kind: ProbeKind,
    /// The mask has only rows that match (or, for `Anti`, do not).
    is_matched: bool,
}

impl Probe<'_> {
    fn brings_payload(&self) -> bool {
        matches!(self.kind, ProbeKind::Inner | ProbeKind::Outer)
    }

    fn added_columns(&self, scope: &RowScope<'_, '_>) -> usize {
        let layout = |table: usize| &scope.kernel.tables[table].as_ref().expect("built before").layout;
        if self.brings_payload() { layout(self.table).payload.len() } else { 0 }
    }

    fn generate(&self, first_column: usize, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<()> {
        if self.is_matched && !self.brings_payload() {
            return Ok(());
        }
        let (condition, code) = probe::probe_code(self.table, self.keys, scope, block)?;
        let built = scope.kernel.tables[self.table].as_ref().expect("built before");
        let (kind, is_unique) = (built.layout.kind, built.is_unique);
        let (row, matched) = match kind {
            TableKind::Direct => self.direct(&condition, code, scope, block),
            TableKind::Hashed => self.hashed(&condition, &code, is_unique, scope, block),
        };
        for index in 0..self.added_columns(scope) {
            let payload =
                PendingPayload { table: self.table, index, row: row.clone(), matched: matched.clone() };
            scope.set_pending(first_column + index, payload);
        }
        Ok(())
    }

    fn direct(
        &self,
        condition: &str,
        code: String,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> (String, Option<String>) {
        if self.is_matched {
            return (code, None);
        }
        let bitmap = scope.kernel.args.pointer(Arg::Bitmap(self.table), "const u32");
        let found = block.define("bool", "b", format!("{condition} && bitmap_holds({bitmap}, {code})"));
        match self.kind {
            ProbeKind::Outer => return (code, Some(found)),
            ProbeKind::Anti => block.open(format!("if (!{found}) {{")),
            ProbeKind::Inner | ProbeKind::Semi => block.open(format!("if ({found}) {{")),
        }
        (code, None)
    }

    /// Finds the first row of the key's chain, counted from 1; opens the loop over the chain where it may be longer.
    fn hashed(
        &self,
        condition: &str,
        code: &str,
        is_unique: bool,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> (String, Option<String>) {
        let (table, args) = (self.table, &mut scope.kernel.args);
        let (keys, mask) =
            (args.pointer(Arg::TableKeys(table), "const u64"), args.word(Arg::TableSlotMask(table)));
        let (bloom, bloom_mask) =
            (args.pointer(Arg::Bloom(table), "const u64"), args.word(Arg::BloomMask(table)));
        let (heads, next) =
            (args.pointer(Arg::Heads(table), "const u32"), args.pointer(Arg::Next(table), "const u32"));
        let first = block.name("h");
        block.line(format!("u32 {first} = 0;"));
        block.open(format!("if ({condition} && bloom_may_hold({bloom}, {bloom_mask}, {code})) {{"));
        block.line(format!("const u64 slot = slot_of({keys}, {mask}, {code});"));
        block.line(format!("if (slot != NO_KEY) {first} = load({heads} + slot);"));
        block.close();
        let row = format!("({first} - 1)");
        match self.kind {
            ProbeKind::Semi => block.open(format!("if ({first}) {{")),
            ProbeKind::Anti => block.open(format!("if (!{first}) {{")),
            ProbeKind::Inner if is_unique => block.open(format!("if ({first}) {{")),
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
        }
        (row, None)
    }
}

fn values_of(exprs: &[Expr], scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<Vec<Value>> {
    exprs.iter().map(|expr| expr::generate(expr, scope, block)).collect()
}

fn build(
    table: usize,
    keys: &[Expr],
    payload: &[Expr],
    is_hashed: bool,
    limits: &groups::Limits,
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<RowCode> {
    let mut key_values = values_of(keys, scope, block)?;
    if let Some(valid) =
        key_values.iter().filter_map(|key| key.valid.clone()).reduce(|a, b| format!("{a} && {b}"))
    {
        block.open(format!("if ({valid}) {{"));
        key_values.iter_mut().for_each(|key| key.valid = None);
    }
    if key_values.iter().any(|key| key.ty == crate::ir::Type::Text) {
        return Err(Error::unsupported("a join on text"));
    }
    let domains =
        key_values.iter().map(|key| KeyDomain::of(key, "a join key")).collect::<Result<Vec<_>>>()?;
    let codes = code_count(&domains, "join keys")?;
    let is_sparse = codes
        > limits.table_codes_max.min(limits.row_count.saturating_mul(DIRECT_CODES_PER_ROW).max(1 << 22));
    let kind =
        if is_hashed || is_sparse || domains.len() > 1 { TableKind::Hashed } else { TableKind::Direct };
    let code = probe::code_of(&key_values, &domains, block);
    let args = &mut scope.kernel.args;
    let flags = args.pointer(Arg::Flags, "u32");
    let stats = args.pointer(Arg::TableStats(table), "i64");
    let place = match kind {
        TableKind::Direct => {
            let bitmap = args.pointer(Arg::Bitmap(table), "u32");
            let bit = block.define("u32", "b", format!("1u << ({code} & 31)"));
            block.line(format!(
                "if (atomic_or({bitmap} + ({code} >> 5), {bit}) & {bit}) atomic_or({flags}, FLAG_DUPLICATE);"
            ));
            block.line("AT(built)++;");
            code.clone()
        }
        TableKind::Hashed => {
            let rows_max = args.word(Arg::TableRowsMax(table));
            let row = block.define("u64", "w", format!("reserve_row((u64*){stats})"));
            block.line(format!(
                "if ({row} >= {rows_max}) {{ atomic_or({flags}, FLAG_TABLE_FULL); continue; }}"
            ));
            insert(table, &code, &row, &flags, scope, block);
            row
        }
    };
    block.line(format!("if (i64({code}) < AT(least)) AT(least) = i64({code});"));
    block.line(format!("if (i64({code}) > AT(most)) AT(most) = i64({code});"));
    let columns = store(
        payload,
        &place,
        |index| (Arg::Payload(table, index), Arg::PayloadValid(table, index)),
        scope,
        block,
    )?;
    let built = if kind == TableKind::Direct {
        format!(
            "{{ const u64 n = lane_sum(built); if (IS_FIRST_LANE && n) atomic_add((u64*){stats}, n); }}\n"
        )
    } else {
        String::new()
    };
    let layout = TableLayout { kind, keys: domains, code_count: codes, payload: columns };
    Ok(RowCode {
        text: String::new(),
        prologue: "u64 built[LANES]; i64 least[LANES], most[LANES];\n\
                   EACH_LANE { AT(built) = 0; AT(least) = 0x7FFFFFFFFFFFFFFFll; AT(most) = -1; }\n"
            .into(),
        epilogue: format!(
            "{built}{{ const i64 low = lane_min(least), high = lane_max(most);\n\
             if (IS_FIRST_LANE && high >= 0) {{ atomic_min({stats} + 1, low); atomic_max({stats} + 2, high); }} }}\n"
        ),
        shared_bytes: 0,
        sink: SinkLayout::Build(layout),
    })
}

/// A direct table may have this many codes for each row of its source.
const DIRECT_CODES_PER_ROW: u64 = 16;

/// Puts row `row` in front of its key's chain.
fn insert(table: usize, code: &str, row: &str, flags: &str, scope: &mut RowScope<'_, '_>, block: &mut Block) {
    let args = &mut scope.kernel.args;
    let (keys, mask) = (args.pointer(Arg::TableKeys(table), "u64"), args.word(Arg::TableSlotMask(table)));
    let (heads, next) = (args.pointer(Arg::Heads(table), "u32"), args.pointer(Arg::Next(table), "u32"));
    let (bloom, bloom_mask) = (args.pointer(Arg::Bloom(table), "u32"), args.word(Arg::BloomMask(table)));
    let slot =
        block.define("u64", "s", format!("slot_to_insert({keys}, {mask}, {code}, {flags}, FLAG_TABLE_FULL)"));
    block.line(format!("if ({slot} == NO_KEY) continue;"));
    let before = block.define("u32", "h", format!("atomic_swap({heads} + {slot}, u32({row}) + 1)"));
    block.line(format!("{next}[{row}] = {before};"));
    block.line(format!("if ({before}) atomic_or({flags}, FLAG_DUPLICATE);"));
    block.line(format!("bloom_insert({bloom}, {bloom_mask}, {code});"));
}

/// Stores values into arrays at `place`.
fn store(
    exprs: &[Expr],
    place: &str,
    arrays: impl Fn(usize) -> (Arg, Arg),
    scope: &mut RowScope<'_, '_>,
    block: &mut Block,
) -> Result<Vec<PayloadColumn>> {
    let values = values_of(exprs, scope, block)?;
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
    Ok(values.iter().map(PayloadColumn::of).collect())
}

fn materialize(columns: &[Expr], scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<RowCode> {
    let args = &mut scope.kernel.args;
    let (count, capacity) = (args.pointer(Arg::OutputCount, "u64"), args.word(Arg::OutputCapacity));
    let flags = args.pointer(Arg::Flags, "u32");
    let place = block.define("u64", "w", format!("reserve_row({count})"));
    block.line(format!("if ({place} >= {capacity}) {{ atomic_or({flags}, FLAG_OUTPUT_FULL); continue; }}"));
    let columns =
        store(columns, &place, |index| (Arg::Output(index), Arg::OutputValid(index)), scope, block)?;
    Ok(RowCode {
        text: String::new(),
        prologue: String::new(),
        epilogue: String::new(),
        shared_bytes: 0,
        sink: SinkLayout::Rows(columns),
    })
}
