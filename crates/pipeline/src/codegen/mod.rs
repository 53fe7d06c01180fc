//! From a pipeline to the source of its kernel: one function that decodes, filters, probes and aggregates.
//!
//! ```text
//!   for each tile, a few vectors of 1024 rows, one a warp
//!     open the pages                                   where bytes lie, widths, bases
//!     for each vector
//!       a mask of 32 rows a lane                       narrowed by each step, left as soon as it is empty:
//!         ranges          compared among packed bits, those of several columns together
//!         the first condition or bitmap, where there is no range
//!       for each row left                              conditions, bitmaps of direct tables, the sparsest first;
//!                                                      payloads, remaining probes and conditions, the sink
//!   accumulators of lanes ─► warp ─► memory
//! ```
//!
//! On the host a vector is 32 slices of 32 rows that follow each other, and what can be said of a whole slice is: decoding,
//! conditions, arithmetic, sums without groups are loops over its rows that the compiler makes vectors of (`block.rs`).
//!
//! What can be known before the kernel runs is compiled into it: types, nullability, formats, widths of packed pages,
//! the layout of tables. What differs from run to run (addresses, bounds of ranges, numbers that columns are
//! compared with) are arguments, so that the same
//! query over other constants finds its program in the cache.

mod args;
mod arithmetic;
mod block;
mod build;
mod checks;
mod combine;
mod dates;
mod expr;
mod filter;
mod group_source;
mod groups;
mod layout;
mod probe;
mod rows;
mod runtime_filter;
mod scope;
mod shared_groups;
mod sink;
mod sort_words;
mod source;
mod text;
mod text_extremes;
mod value;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;

use pelton_error::{Error, Result, ResultExt};

pub use args::Arg;
pub use build::KEYS_NOTED_MAX;
pub use combine::{COMBINE_ENTRY, combine, combined_words};
pub use filter::Range;
pub use group_source::ROW_GROUP_PLACES;
pub use layout::{
    AggregateOutput, BuiltTable, GroupKind, GroupLayout, KeyDomain, OrderLayout, PayloadColumn, RowsLayout,
    SinkLayout, TableKind, TableLayout, TextKey, TopLayout, WideKey, WideKeys, WordKind, hashed_slots,
    of_order,
};
pub use runtime_filter::{KeyList, is_key_set, wants_keys};
pub use source::{SourceColumn, StoredAs};
pub use value::Form;

pub use crate::text_results::Lut;

use self::block::Block;
use self::checks::Checks;
use self::source::KernelContext;
use crate::ir::Pipeline;
use crate::text::Dictionary;

/// The parts of every source that do not depend on the query.
pub const TARGET: &str = include_str!("../../../../cuda/pipeline/target.h");
const CHUNK: &str = include_str!("../../../../cuda/pipeline/chunk.h");
/// Of kernels that go through slices.
const SLICE: &str = include_str!("../../../../cuda/pipeline/slice.h");
const STATE: &str = include_str!("../../../../cuda/pipeline/state.h");
const FIXED: &str = include_str!("../../../../cuda/pipeline/fixed.h");
/// Of kernels that read views of text.
const TEXT: &str = concat!(
    include_str!("../../../../cuda/pipeline/text_view.h"),
    include_str!("../../../../cuda/pipeline/text.h")
);
/// Of those whose texts may be codes of symbols.
const TEXT_CODED: &str = include_str!("../../../../cuda/pipeline/text_coded.h");

/// Of kernels that keep texts in a heap, or read them there.
const HEAP: &str = include_str!("../../../../cuda/pipeline/heap.h");

/// The kernel's name in the program of a pipeline.
pub const ENTRY: &str = "k_run";
/// The kernel that fills words.
pub const FILL_ENTRY: &str = "k_fill";
/// The kernel that gathers the groups that have rows.
pub const COMPACT_ENTRY: &str = "k_compact";
/// The kernel that moves groups to a larger table.
pub const MOVE_GROUPS_ENTRY: &str = "k_move_groups";
/// The kernel that moves the keys of a hash table to a larger one.
pub const MOVE_KEYS_ENTRY: &str = "k_move_keys";
/// Words that the fixed kernels take, all as many.
pub const FIXED_ARGS: usize = 17;
/// Shared memory of a block that every device has.
const SHARED_BYTES_MAX: usize = 48 << 10;
/// Threads of a block, where scratch memory does not ask for fewer.
const BLOCK_THREADS: usize = 256;

/// What the generator may choose, and what it must know.
pub struct Request<'a> {
    /// What to generate a kernel for.
    pub pipeline: &'a Pipeline,
    /// How its source is stored, by column.
    pub source: &'a [SourceColumn],
    /// What was built so far, by number.
    pub tables: &'a [Option<BuiltTable>],
    /// The groups that are the source, if they are.
    pub groups: Option<&'a GroupLayout>,
    /// Dictionaries of the source's text columns, by column.
    pub dictionaries: HashMap<usize, Arc<Dictionary>>,
    /// Rows of the source.
    pub row_count: u64,
    /// What is found by its key must be found by hashing: keys of the table to build turned out not to be unique, or
    /// there is no room by position.
    pub is_hashed: bool,
    /// The most packed keys of groups by position, however few groups there may be.
    pub direct_keys_max: u64,
    /// The groups that a hashed table would begin with room for: where it takes as much memory as all packed keys by
    /// position do, they are found by position.
    pub groups_expected: u64,
    /// The most bytes of groups that are found by position for that reason.
    pub direct_bytes_max: u64,
    /// How many times the bytes of a hashed table these may be.
    pub direct_ratio_max: u64,
    /// The most packed keys of a direct table.
    pub table_keys_max: u64,
    /// All hashes equal, to test collisions.
    pub has_equal_hashes: bool,
    /// All conditions of a row are computed, without branches.
    pub is_predicated: bool,
    /// Rows are decoded and filtered 32 at a time, where that is possible: for the host alone.
    pub is_sliced: bool,
    /// All arithmetic is checked, whatever bounds show.
    pub checks_everywhere: bool,
    /// A later pipeline has a use for the keys of the table that is built.
    pub wants_keys: bool,
    /// Later pipelines ask of the table that is built whether it has a key, and nothing else.
    pub is_key_set: bool,
}

impl Generated {
    /// Whether rows come to the sink several times, so that how often is noted of those that wait.
    pub fn has_repeated_rows(&self) -> bool {
        self.args.contains(&Arg::Emitted)
    }
}

/// A kernel and how to run it.
pub struct Generated {
    /// The source, to be compiled.
    pub text: String,
    /// What each word stands for.
    pub args: Vec<Arg>,
    /// Results of text functions, by number.
    pub luts: Vec<Lut>,
    /// Constants that texts are held against; empty where there are none.
    pub text_constants: Vec<u8>,
    /// What checks find, such as overflow; the flags name one by its number from 1.
    pub checks: Vec<String>,
    /// The range filters, by number.
    pub ranges: Vec<Range>,
    /// Numbers that columns are compared with, by number.
    pub literals: Vec<u64>,
    /// What finished tables leave of source columns.
    pub key_lists: Vec<KeyList>,
    /// What it leaves behind.
    pub sink: SinkLayout,
    /// Threads of a block.
    pub block_threads: u32,
    /// Shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// It goes through slices, which compiles for the host alone.
    pub is_sliced: bool,
}

/// Generates the kernel.
///
/// # Errors
///
/// `Unsupported` for what kernels cannot do or cannot do exactly as the CPU would; a text function's own error.
pub fn generate(request: Request<'_>) -> Result<Generated> {
    let name = request.pipeline.name.clone();
    Generator::new(request).run().context(|| format!("pipeline '{name}'"))
}

/// The source of the kernels that are the same for every query; `has_equal_hashes` as in [`Request`].
pub fn fixed(has_equal_hashes: bool) -> String {
    format!(
        "{}#define PELTON_ARG_COUNT {FIXED_ARGS}\n#define PELTON_SHARED_BYTES 0\n{TARGET}{STATE}{FIXED}",
        equal_hashes(has_equal_hashes)
    )
}

/// What makes all hashes of a source equal, or not.
fn equal_hashes(are_equal: bool) -> &'static str {
    if are_equal { "#define PELTON_EQUAL_HASHES\n" } else { "" }
}

struct Generator<'a> {
    request: Request<'a>,
    kernel: KernelContext<'a>,
    plan: filter::FilterPlan,
}

impl<'a> Generator<'a> {
    fn new(request: Request<'a>) -> Self {
        // Groups lie in no pages.
        let is_sliced = request.is_sliced && request.groups.is_none();
        let kernel = KernelContext {
            columns: &request.pipeline.columns,
            source: request.source,
            tables: request.tables,
            groups: request.groups,
            dictionaries: request.dictionaries.clone(),
            args: args::Args::default(),
            luts: Vec::new(),
            literals: Vec::new(),
            text_constants: text::TextConstants::default(),
            checks: Checks::new(request.checks_everywhere),
            is_sliced,
        };
        let rows = match (is_sliced, request.is_predicated) {
            (true, _) => filter::Rows::Sliced,
            (false, true) => filter::Rows::Predicated,
            (false, false) => filter::Rows::Branching,
        };
        let plan = filter::FilterPlan::of(request.pipeline, request.source, request.tables, rows);
        Self { request, kernel, plan }
    }

    fn run(mut self) -> Result<Generated> {
        let mut body = Block::default();
        let warps = self.block_warps();
        if self.scratch_bytes() > SHARED_BYTES_MAX {
            return Err(Error::unsupported(
                "more columns of text without a dictionary than shared memory is for",
            ));
        }
        let rows = self.row_loop()?;
        let scratch_bytes = self.scratch_bytes() * warps;
        self.prologue(&mut body, &rows)?;
        body.open("for (u64 tile = WARP; tile < tiles; tile += WARP_COUNT) {");
        self.tile_head(&mut body, scratch_bytes, warps)?;
        waiting::tile_head(rows.sink.may_be_full(), &mut body);
        body.open("for (u32 row = start; row < end; row += 1024) {");
        self.open_pages(&mut body);
        body.line("const u32 v = page_row >> 10;");
        if self.plan.is_sliced() {
            self.slices(&rows, &mut body)?;
            return Ok(self.finish(body, rows, scratch_bytes, warps));
        }
        waiting::first_mask(rows.sink.may_be_full(), &mut self.kernel.args, &mut body);
        if let Some(layout) = self.request.groups {
            group_source::occupied(layout, &mut self.kernel.args, &mut body);
        }
        self.decode_deltas(&mut body)?;
        self.masks(&mut body)?;
        self.open_rows(&rows.sink, &mut body);
        rows.text.lines().for_each(|line| body.line(line));
        waiting::close_rows(rows.sink.may_be_full(), &mut body);
        Ok(self.finish(body, rows, scratch_bytes, warps))
    }

    /// The slices of a vector, whose rows are decoded and filtered together.
    fn slices(&mut self, rows: &sink::RowCode, body: &mut Block) -> Result<()> {
        let may_be_full = rows.sink.may_be_full();
        if may_be_full {
            waiting::first_mask(true, &mut self.kernel.args, body);
        }
        self.decode_deltas(body)?;
        self.find_starts(body);
        let limits = waiting::Lane { may_be_full, is_repeated: self.multiplies_rows() };
        limits.open_slices(&mut self.kernel.args, body);
        rows.text.lines().for_each(|line| body.line(line));
        body.close_to(0);
        Ok(())
    }

    /// The kernel, of which `body` lacks what comes after all rows.
    fn finish(
        mut self,
        mut body: Block,
        rows: sink::RowCode,
        scratch_bytes: usize,
        warps: usize,
    ) -> Generated {
        rows.epilogue.lines().for_each(|line| body.line(line));
        let args = &mut self.kernel.args;
        let report = self.kernel.checks.report(|| args.pointer(Arg::Flags, "u32"));
        report.into_iter().for_each(|report| body.line(report));
        let shared_bytes = scratch_bytes + rows.shared_bytes;
        Generated {
            text: self.assemble(&body.into_text(), &rows.sink, shared_bytes),
            args: self.kernel.args.list().to_vec(),
            luts: self.kernel.luts,
            text_constants: self.kernel.text_constants.into_bytes(),
            checks: self.kernel.checks.into_sites(),
            ranges: self.plan.ranges().to_vec(),
            literals: self.kernel.literals,
            key_lists: self.plan.key_lists().to_vec(),
            sink: rows.sink,
            block_threads: warps as u32 * 32,
            shared_bytes: shared_bytes as u32,
            is_sliced: self.plan.is_sliced(),
        }
    }

    /// Opens the loop over the rows of a lane: those that the mask has left or, predicated, all that there are.
    fn open_rows(&mut self, sink: &SinkLayout, body: &mut Block) {
        body.open("EACH_LANE {");
        let row_limits =
            waiting::Lane { may_be_full: sink.may_be_full(), is_repeated: self.multiplies_rows() };
        if self.plan.is_predicated() {
            body.line("const u32 all = AT(mask);");
            row_limits.open("all", &mut self.kernel.args, body);
            body.line("UNROLL_4");
            body.open("for (u32 r = 0; r < 32; r++) {");
            body.open("if (all >> r & 1) {");
            row_limits.begin_row("all >> r << r", body);
            self.find_place(body);
            return;
        }
        body.line("u32 left = AT(mask);");
        row_limits.open("left", &mut self.kernel.args, body);
        body.open("while (left) {");
        body.line("const u32 r = trailing_zeros(left);");
        row_limits.begin_row("left", body);
        body.line("left &= left - 1;");
        self.find_place(body);
    }

    /// Where the group lies that is the current row.
    fn find_place(&self, body: &mut Block) {
        if self.request.groups.is_some() {
            body.line(group_source::PLACE);
        }
    }

    /// Scratch memory of a warp.
    fn scratch_bytes(&self) -> usize {
        self.request.source.iter().map(SourceColumn::scratch_bytes).sum()
    }

    fn block_warps(&self) -> usize {
        let wanted = BLOCK_THREADS / 32;
        match self.scratch_bytes() {
            0 => wanted,
            bytes => (SHARED_BYTES_MAX / bytes).clamp(1, wanted),
        }
    }

    fn assemble(&self, body: &str, sink: &SinkLayout, shared_bytes: usize) -> String {
        let count = self.kernel.args.list().len();
        let has_heap = matches!(sink, SinkLayout::Groups(layout) if layout.has_text_heap())
            || self.request.groups.is_some_and(GroupLayout::has_text_heap);
        let has_views = has_heap || self.request.source.iter().any(SourceColumn::is_view);
        let slice = if self.plan.is_sliced() { SLICE } else { "" };
        let has_coded = self.request.source.iter().any(SourceColumn::is_coded);
        let (text, heap) = (if has_views { TEXT } else { "" }, if has_heap { HEAP } else { "" });
        let coded = if has_coded { TEXT_CODED } else { "" };
        let equal = equal_hashes(self.request.has_equal_hashes);
        format!(
            "{equal}#define PELTON_ARG_COUNT {count}\n#define PELTON_SHARED_BYTES {shared_bytes}\n\
             {TARGET}{CHUNK}{slice}{text}{coded}{heap}{STATE}\nENTRY({ENTRY}) {{\n{body}}}\n"
        )
    }

    fn prologue(&mut self, body: &mut Block, rows: &sink::RowCode) -> Result<()> {
        let args = &mut self.kernel.args;
        let chunks = args.pointer(Arg::Chunks, "const u64");
        let row_counts = args.pointer(Arg::RowGroupRows, "const u32");
        let (count, tiles) = (args.word(Arg::RowGroupCount), args.word(Arg::TilesPerGroup));
        let tile_rows = args.word(Arg::TileRows);
        let redo = rows.sink.may_be_full().then(|| args.word(Arg::IsRedo));
        body.line("BLOCK_SHARED");
        body.line(Checks::declaration());
        body.line(format!("const u64* const chunks = {chunks};"));
        body.line(format!("const u32* const row_counts = {row_counts};"));
        body.line(format!("const u32 tiles_per_group = u32({tiles});"));
        body.line(format!("const u64 tiles = {count} * tiles_per_group;"));
        body.line(format!("const u32 tile_rows = u32({tile_rows});"));
        if let Some(redo) = redo {
            body.line(format!("const u32* const first_vectors = row_counts + {count};"));
            body.line(format!("const bool is_redo = {redo} != 0;"));
        }
        rows.prologue.lines().for_each(|line| body.line(line));
        Ok(())
    }

    fn tile_head(&self, body: &mut Block, scratch_bytes: usize, warps: usize) -> Result<()> {
        let is_chunked = self.request.groups.is_none();
        let stride = if is_chunked { self.kernel.first_row_word() + 1 } else { 1 };
        body.line("const u32 group = u32(tile / tiles_per_group);");
        body.line("const u32 group_rows = row_counts[group];");
        body.line("const u32 start = u32(tile % tiles_per_group) * tile_rows;");
        body.line("if (start >= group_rows) continue;");
        body.line("const u32 end = group_rows - start < tile_rows ? group_rows : start + tile_rows;");
        body.line(format!("const u64* const c = chunks + u64(group) * {stride};"));
        match (is_chunked, self.request.source.is_empty()) {
            (false, _) => body.line(group_source::ONE_PAGE),
            (true, true) => body.line("const u32 page_rows = 1024;"),
            (true, false) => body.line("const u32 page_rows = load((const u32*)(c[0] + 12));"),
        }
        body.line("const u32 pages = (group_rows + page_rows - 1) / page_rows;");
        body.line("u32 page = start / page_rows, page_row = start - page * page_rows - 1024;");
        for (k, source) in self.request.source.iter().enumerate().filter(|(_, source)| source.is_chunked()) {
            body.line(format!("{} p{k};", source.page_type()?));
        }
        for (place, k) in self.text_columns().enumerate() {
            body.line(format!(
                "const u32* const m{k} = (const u32*)c[{}];",
                self.request.source.len() + place
            ));
        }
        self.plan.declare_codes(body);
        self.plan.declare_fused(self.request.source, body);
        let mut offset = 0;
        let has_scratch = |(_, source): &(usize, &SourceColumn)| source.scratch_bytes() > 0;
        for (k, source) in self.request.source.iter().enumerate().filter(has_scratch) {
            let (ty, bytes) = (source.scratch_type()?, source.scratch_bytes());
            body.line(format!(
                "{ty}* const s{k} = ({ty}*)(block_shared + {offset} + WARP_IN_BLOCK * {bytes});"
            ));
            offset += bytes * warps;
        }
        assert_eq!(offset, scratch_bytes, "every warp has scratch memory for every such column");
        Ok(())
    }

    /// Source columns whose row groups come with numbers of dictionary entries.
    fn text_columns(&self) -> impl Iterator<Item = usize> {
        let is_text = |(_, source): &(usize, &SourceColumn)| source.stored.has_mapping();
        self.request.source.iter().enumerate().filter(is_text).map(|(k, _)| k)
    }

    fn open_pages(&mut self, body: &mut Block) {
        body.line("page_row += 1024;");
        body.line("if (page_row == page_rows) { page++; page_row = 0; }");
        body.open("if (row == start || page_row == 0) {");
        body.line("const u32 page_start = page * page_rows;");
        body.line(
            "const u32 rows = group_rows - page_start < page_rows ? group_rows - page_start : page_rows;",
        );
        for (k, _) in self.request.source.iter().enumerate().filter(|(_, source)| source.is_chunked()) {
            body.line(format!("p{k}.open((const u8*)c[{k}], page, pages, rows);"));
        }
        self.plan.find_codes(&mut self.kernel.args, body);
        self.plan.find_fused(self.request.source, &mut self.kernel.args, body);
        body.close();
    }

    fn decode_deltas(&self, body: &mut Block) -> Result<()> {
        let deltas: Vec<usize> =
            (0..self.request.source.len()).filter(|k| self.request.source[*k].has_delta()).collect();
        if deltas.is_empty() {
            return Ok(());
        }
        body.line("WARP_BARRIER;");
        body.line("const u32 page_start = page * page_rows;");
        body.line(
            "const u32 page_end = group_rows - page_start < page_rows ? group_rows : page_start + page_rows;",
        );
        for k in deltas {
            let ty = self.request.source[k].scratch_type()?;
            body.open(format!("if (p{k}.is(DELTA) && p{k}.nulls != 1) {{"));
            body.line(format!(
                "EACH_LANE {{ delta_vector<{ty}>(p{k}.body, p{k}.width(), p{k}.extra, u64(p{k}.base), \
                 p{k}.base_of_bases, page_end - page_start, v, s{k}, lane); }}"
            ));
            body.close();
        }
        body.line("WARP_BARRIER;");
        Ok(())
    }

    /// Says how to find where the texts of the vector start, which is done for the first row that asks.
    fn find_starts(&self, body: &mut Block) {
        for k in self.columns_with_starts() {
            body.line(format!("bool has_starts{k} = false;"));
            body.line(format!(
                "const auto starts{k} = [&] {{ if (!has_starts{k}) {{ p{k}.decode(v, s{k}); has_starts{k} = true; }} \
                 return s{k}; }};"
            ));
        }
    }

    /// Source columns whose texts have starts to be found.
    fn columns_with_starts(&self) -> Vec<usize> {
        (0..self.request.source.len()).filter(|k| self.request.source[*k].has_starts()).collect()
    }

    /// Finds where the texts of the vector start, for rows to come; all lanes are here.
    fn decode_starts(&self, body: &mut Block) {
        let texts = self.columns_with_starts();
        if texts.is_empty() {
            return;
        }
        body.line("if (!any_lane(mask)) continue;");
        body.line("WARP_BARRIER;");
        texts.iter().for_each(|k| body.line(format!("p{k}.decode(v, s{k});")));
        body.line("WARP_BARRIER;");
    }
}
