//! A hash table as the end of a pipeline: where a row's key goes, and its payload with it.
//!
//! Beside the table the kernel notes what the host asks of it: the number of rows, the least and the greatest packed
//! key and, for pipelines that skip row groups by them, the first packed keys, each once.

use pelton_error::{Error, Result};

use super::args::Arg;
use super::block::Block;
use super::groups::Limits;
use super::layout::{SinkLayout, TableKind, TableLayout, packed_domains};
use super::probe;
use super::rows;
use super::sink::{RowCode, store, values_of};
use super::source::RowScope;
use super::value::Value;
use super::waiting::Waiting;
use crate::ir::{Expr, Type};

/// A direct table may have this many packed keys per row of its source.
const DIRECT_KEYS_PER_ROW: u64 = 16;

/// As many keys are noted for the host at most: each is looked for in the zone map of every row group of later scans.
/// A guess at where that still costs less than what it saves.
pub const KEYS_NOTED_MAX: usize = 64;

/// How many packed keys there may be where they are hashes.
const HASHES: u64 = 1 << 62;

/// The build of one table.
pub(super) struct Build<'b> {
    pub(super) table: usize,
    pub(super) keys: &'b [Expr],
    pub(super) payload: &'b [Expr],
    /// Its keys turned out not to be unique.
    pub(super) is_hashed: bool,
    /// Its keys are noted for the host.
    pub(super) wants_keys: bool,
    /// Only whether it has a key is asked of it: keys may repeat.
    pub(super) is_key_set: bool,
}

impl Build<'_> {
    /// Generates the insertion of a row.
    pub(super) fn generate(
        &self,
        limits: &Limits,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> Result<RowCode> {
        let key_values = self.valid_keys(scope, block)?;
        let packed = packed_domains(&key_values, "a join key");
        let compared_keys = if packed.is_none() { key_values.len() } else { 0 };
        let (keys, packed_key_count) = packed.unwrap_or((Vec::new(), HASHES));
        let (kind, key) = match compared_keys {
            0 => {
                let kind = self.kind(packed_key_count, keys.len(), limits);
                (kind, probe::packed_key(&key_values, &keys, block))
            }
            _ => (TableKind::Hashed, probe::hashed_key(&probe::words_of_keys(&key_values, block), block)),
        };
        let stats = scope.kernel.args.pointer(Arg::TableStats(self.table), "i64");
        // What can be computed of many rows at once is, before single rows go into the table.
        let of_slice = block.is_slice().then(|| values_of(self.payload, scope, block)).transpose()?;
        let place = match kind {
            TableKind::Direct => self.set_bit(&key, &stats, scope, block),
            TableKind::Hashed => self.insert(&key, &stats, limits.is_repeated, scope, block),
        };
        block.line(format!("if (i64({key}) < AT(least)) AT(least) = i64({key});"));
        block.line(format!("if (i64({key}) > AT(most)) AT(most) = i64({key});"));
        let arrays = |index| (Arg::Payload(self.table, index), Arg::PayloadValid(self.table, index));
        let mut payload = of_slice.map_or_else(|| values_of(self.payload, scope, block), Ok)?;
        payload.extend(key_values.into_iter().take(compared_keys));
        let payload = store(&payload, &place, arrays, scope, block)?;
        Ok(with_stats(TableLayout { kind, keys, packed_key_count, payload, compared_keys }, &stats))
    }

    /// The keys of a row that has all of them.
    fn valid_keys(&self, scope: &mut RowScope<'_, '_>, block: &mut Block) -> Result<Vec<Value>> {
        let mut values = values_of(self.keys, scope, block)?;
        let valid = values.iter().filter_map(|key| key.valid.clone()).reduce(|a, b| format!("{a} && {b}"));
        if let Some(valid) = valid {
            block.keep_if(&valid);
            values.iter_mut().for_each(|key| key.valid = None);
        }
        if values.iter().any(|key| key.ty == Type::Text) {
            return Err(Error::unsupported("a join on texts, not on hashes of them"));
        }
        Ok(values)
    }

    fn kind(&self, packed_key_count: u64, key_count: usize, limits: &Limits) -> TableKind {
        let by_rows = limits.row_count.saturating_mul(DIRECT_KEYS_PER_ROW).max(1 << 22);
        let is_sparse = packed_key_count > limits.table_keys_max.min(by_rows);
        if self.is_hashed || is_sparse || key_count > 1 { TableKind::Hashed } else { TableKind::Direct }
    }

    /// Puts the row at its packed key.
    fn set_bit(&self, key: &str, stats: &str, scope: &mut RowScope<'_, '_>, block: &mut Block) -> String {
        block.each_row();
        let args = &mut scope.kernel.args;
        let flags = args.pointer(Arg::Flags, "u32");
        let bitmap = args.pointer(Arg::Bitmap(self.table), "u32");
        let bit = block.define("u32", "b", format!("1u << ({key} & 31)"));
        let before = block.define("u32", "b", format!("atomic_or({bitmap} + ({key} >> 5), {bit}) & {bit}"));
        if !self.is_key_set {
            block.line(format!("if ({before}) raise_flag({flags}, FLAG_DUPLICATE);"));
        }
        self.note(&before, key, stats, block);
        block.line(format!("if (!{before}) AT(built)++;"));
        key.to_owned()
    }

    /// Puts the row in front of its key's chain.
    fn insert(
        &self,
        key: &str,
        stats: &str,
        is_repeated: bool,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> String {
        let (table, args) = (self.table, &mut scope.kernel.args);
        let (flags, rows_max) = (args.pointer(Arg::Flags, "u32"), args.word(Arg::TableRowsMax(table)));
        let waiting = args.pointer(Arg::Waiting, "u64");
        let (keys, mask) = (args.pointer(Arg::TableKeys(table), "u64"), args.word(Arg::TableSlotMask(table)));
        let (heads, next) = (args.pointer(Arg::Heads(table), "u32"), args.pointer(Arg::Next(table), "u32"));
        let (bloom, bloom_mask) = (args.pointer(Arg::Bloom(table), "u32"), args.word(Arg::BloomMask(table)));
        let find = format!("slot_to_insert({keys}, {mask}, {key}, {waiting})");
        let count = format!("(u64*){stats}");
        // Last of all a place is taken: every row that has one is in the table. A slot without a row is no harm.
        let (slot, row, arrived) = match block.is_slice() && !is_repeated {
            true => {
                let slot = Waiting::find_in_slice("u64", "s", &find, "NO_KEY", scope, block);
                let row = rows::places_of_slice(&count, block);
                (slot, row, Waiting::arrive(false, block))
            }
            false => {
                let arrived = Waiting::arrive(is_repeated, block);
                let slot = block.define("u64", "s", find);
                arrived.wait_if(&format!("{slot} == NO_KEY"), scope, block);
                let row = block.define("u64", "w", format!("reserve_row({count})"));
                (slot, row, arrived)
            }
        };
        arrived.wait_if(&format!("{row} >= {rows_max}"), scope, block);
        let before = block.define("u32", "h", format!("atomic_swap({heads} + {slot}, u32({row}) + 1)"));
        block.line(format!("{next}[{row}] = {before};"));
        block.line(format!("if ({before}) raise_flag({flags}, FLAG_DUPLICATE);"));
        self.note(&before, key, stats, block);
        block.line(format!("bloom_insert({bloom}, {bloom_mask}, {key});"));
        row
    }

    /// Notes a packed key that was not there `before`.
    fn note(&self, before: &str, key: &str, stats: &str, block: &mut Block) {
        if self.wants_keys {
            block.line(format!("if (!{before}) note_key((u64*){stats} + 3, {KEYS_NOTED_MAX}, {key});"));
        }
    }
}

/// The code around the rows of a build: of each lane the least and the greatest packed key, and the rows of a direct
/// table.
fn with_stats(layout: TableLayout, stats: &str) -> RowCode {
    let built = match layout.kind {
        TableKind::Direct => format!(
            "{{ const u64 n = lane_sum(built); if (IS_FIRST_LANE && n) atomic_add((u64*){stats}, n); }}\n"
        ),
        TableKind::Hashed => String::new(),
    };
    RowCode {
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
    }
}
