//! Rows that wait: where a sink has no room for a row, it and those behind it in its lane do.
//!
//! ```text
//!   launch      mask: the rows of the vector ──► … ──► the sink has room: done
//!                                                      it has none: the word of vector and lane gets the rows left
//!   the run     makes room, and launches the same morsel again
//!   launch      mask: what the words say ──► …
//! ```
//!
//! Through slices, rows of several lanes come in turn, each lane's still in their order: one whose row waits is full, and
//! slices after that go on without it.
//!
//! A word belongs to one lane of one warp, so none of this needs atomics. A row that comes to the sink several times,
//! for its matches, goes on where it stopped: finished tables give matches in the same order every time. Rows before it
//! in the word are done, so it is the first of those that wait, and one number a word says how far it has come.

use super::args::{Arg, Args};
use super::block::Block;
use super::source::RowScope;

/// The mask that a vector begins with.
pub(super) fn first_mask(may_be_full: bool, args: &mut Args, body: &mut Block) {
    body.line("u32 mask[LANES];");
    if !may_be_full {
        body.line("EACH_LANE { AT(mask) = first_mask(end - row, lane); }");
        return;
    }
    let undone = args.pointer(Arg::Undone, "u32");
    body.line("const u64 vector_words = (first_vector + (row >> 10)) * 32;");
    body.open("if (is_redo) {");
    body.line(format!("EACH_LANE {{ AT(mask) = take_undone({undone} + vector_words + lane); }}"));
    body.line("if (!any_lane(mask)) continue;");
    body.close();
    body.line("else EACH_LANE { AT(mask) = first_mask(end - row, lane); }");
}

/// Where the words of a tile's row group begin.
pub(super) fn tile_head(may_be_full: bool, body: &mut Block) {
    if may_be_full {
        body.line("const u64 first_vector = first_vectors[group];");
    }
}

/// What the loop over the rows of a lane notes for the sink.
pub(super) struct Lane {
    pub(super) may_be_full: bool,
    /// A row may come to the sink several times.
    pub(super) is_repeated: bool,
}

impl Lane {
    /// Before the loop over the rows of `mask`.
    pub(super) fn open(&self, mask: &str, args: &mut Args, body: &mut Block) {
        if self.may_be_full && self.is_repeated {
            let emitted = args.pointer(Arg::Emitted, "u64");
            body.line(format!(
                "u64 emitted_before = is_redo && {mask} ? {emitted}[vector_words + lane] : 0;"
            ));
        }
    }

    /// What each row begins with. `rest`: it and those after it in its lane. `emitted_before`: how often its lane's first row
    /// has come to the sink.
    pub(super) fn row_head(&self, rest: &str, emitted_before: &str) -> Vec<String> {
        if !self.may_be_full {
            return Vec::new();
        }
        let mut lines = vec![format!("const u32 rest = {rest};")];
        if self.is_repeated {
            lines.push(format!("const u64 skipped = {emitted_before};"));
            lines.push(format!("u64 emitted = {emitted_before} = 0;"));
        }
        lines
    }

    /// For each row, outside of slices.
    pub(super) fn begin_row(&self, rest: &str, body: &mut Block) {
        self.row_head(rest, "emitted_before").iter().for_each(|line| body.line(line));
    }

    /// Opens the loop over the slices of a vector.
    pub(super) fn open_slices(&self, args: &mut Args, body: &mut Block) {
        if self.may_be_full && self.is_repeated {
            let emitted = args.pointer(Arg::Emitted, "u64");
            body.line("u64 emitted_before[LANES];");
            body.line(format!(
                "EACH_LANE {{ AT(emitted_before) = is_redo && AT(mask) ? {emitted}[vector_words + lane] : 0; }}"
            ));
        }
        if self.may_be_full {
            body.line("u32 full = 0;");
        }
        body.open("for (u32 r = 0; r < 32; r++) {");
        body.line(match self.may_be_full {
            true => "u32 live = slice_of_masks(mask, r) & ~full;",
            false => "u32 live = rows_of_slice(end - row, r);",
        });
        body.line("if (!live) continue;");
    }
}

/// Closes all scopes; rows that wait leave the loop over the rows of a lane.
pub(super) fn close_rows(may_be_full: bool, body: &mut Block) {
    if may_be_full {
        body.close_to(LANE_DEPTH);
        body.line("lane_is_full:;");
    }
    body.close_to(0);
}

/// Scopes around what a lane does: tiles, vectors, lanes.
const LANE_DEPTH: usize = 3;

/// How the sink sends rows to wait.
pub(super) struct Waiting {
    is_repeated: bool,
}

impl Waiting {
    /// A row comes to the sink, perhaps not for the first time.
    pub(super) fn arrive(is_repeated: bool, block: &mut Block) -> Self {
        if is_repeated {
            block.line("if (emitted++ < skipped) continue;");
        }
        Self { is_repeated }
    }

    /// What `find` gives for each row of a slice; rows for which that is `nothing` have no room and wait. No row may come
    /// several times.
    pub(super) fn find_in_slice(
        c_type: &str,
        prefix: &str,
        find: &str,
        nothing: &str,
        scope: &mut RowScope<'_, '_>,
        block: &mut Block,
    ) -> String {
        let args = &mut scope.kernel.args;
        let (undone, waiting) = (args.pointer(Arg::Undone, "u32"), args.pointer(Arg::Waiting, "u64"));
        let found = block.define_slice(c_type, prefix, |found| {
            format!(
                "EACH_LIVE_LANE {{ {found}[lane] = {find}; if ({found}[lane] == {nothing}) {{ \
                 wait_for_room({undone} + vector_words + lane, mask[lane] >> r << r, {waiting}); \
                 full |= 1u << lane; live &= ~(1u << lane); }} }}"
            )
        });
        block.slice_line("if (!live) continue;");
        found
    }

    /// Where `condition` holds, the sink has no room for it.
    pub(super) fn wait_if(&self, condition: &str, scope: &mut RowScope<'_, '_>, block: &mut Block) {
        let args = &mut scope.kernel.args;
        let (undone, waiting) = (args.pointer(Arg::Undone, "u32"), args.pointer(Arg::Waiting, "u64"));
        block.open(format!("if ({condition}) {{"));
        block.line(format!("wait_for_room({undone} + vector_words + lane, rest, {waiting});"));
        if self.is_repeated {
            let emitted = args.pointer(Arg::Emitted, "u64");
            block.line(format!("{emitted}[vector_words + lane] = emitted - 1;"));
        }
        block.line(match block.is_row_of_slice() {
            true => "full |= 1u << lane; goto next_row;",
            false => "goto lane_is_full;",
        });
        block.close();
    }
}
