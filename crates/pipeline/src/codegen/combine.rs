//! Groups of several parts made one: what several workers made of their rows, or one at several times. The kernel is
//! the same for every query; what the words of a state do is given to it as an array.

use super::layout::{GroupLayout, SinkLayout, WordKind};
use super::{CHUNK, FIXED_ARGS, Generated, HEAP, STATE, TARGET, TEXT, equal_hashes};

const COMBINE: &str = include_str!("../../../../cuda/pipeline/combine.h");
/// The kernel that adds the groups of a part to a table: see `cuda/pipeline/combine.h`.
pub const COMBINE_ENTRY: &str = "k_combine";

/// The kernels that make one table of groups out of several of `layout`, as a pipeline that ends in such groups and
/// has no rows of its own. `has_equal_hashes` as in [`Request`](super::Request).
pub fn combine(layout: &GroupLayout, has_equal_hashes: bool) -> Generated {
    let equal = equal_hashes(has_equal_hashes);
    let (with_heap, texts) = match layout.has_text_heap() {
        true => ("#define PELTON_TEXT_HEAP\n", [CHUNK, TEXT, HEAP].concat()),
        false => ("", String::new()),
    };
    let text = format!(
        "{equal}{with_heap}#define PELTON_ARG_COUNT {FIXED_ARGS}\n#define PELTON_SHARED_BYTES 0\n\
         {TARGET}{texts}{STATE}{COMBINE}"
    );
    let checks = layout.words.iter().map(|kind| check(*kind)).max().unwrap_or(0);
    Generated {
        text,
        args: Vec::new(),
        luts: Vec::new(),
        text_constants: Vec::new(),
        checks: vec!["the sum of a group's parts may overflow".into(); checks as usize],
        ranges: Vec::new(),
        literals: Vec::new(),
        key_lists: Vec::new(),
        sink: SinkLayout::Groups(layout.clone()),
        block_threads: 256,
        shared_bytes: 0,
        is_sliced: false,
    }
}

/// What the kernel is told of the words of `layout`, one word each.
pub fn combined_words(layout: &GroupLayout) -> Vec<u64> {
    let number = |kind: WordKind| match kind {
        WordKind::Add => 0,
        WordKind::AddLow { .. } => 1,
        WordKind::AddHigh => 2,
        WordKind::AddDouble => 3,
        WordKind::Min => 4,
        WordKind::Max => 5,
        WordKind::Key => 6,
        WordKind::LeastText => 7,
        WordKind::GreatestText => 8,
    };
    layout.words.iter().map(|kind| number(*kind) | u64::from(check(*kind)) << 8).collect()
}

/// The number of the check of a word's sum; 0 where it has none.
fn check(kind: WordKind) -> u32 {
    match kind {
        WordKind::AddLow { check: Some(check) } => check,
        _ => 0,
    }
}
