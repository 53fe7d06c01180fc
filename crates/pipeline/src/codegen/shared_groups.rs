//! Few groups: each block keeps copies of their states in shared memory, several so that lanes seldom meet, and adds them to
//! memory in the end.

use super::groups::atomic_update;
use super::layout::{GroupLayout, WordKind};
use super::sink::RowCode;

/// Copies of the state in shared memory: as many as fit, up to one a lane; fewer than 4 are not worth their barrier.
pub(super) fn shared_copies(state_bytes: usize, bytes_max: usize) -> u32 {
    [32, 16, 8, 4].into_iter().find(|copies| state_bytes.saturating_mul(*copies) <= bytes_max).unwrap_or(0)
        as u32
}

/// Copies that a thread of the host keeps for itself: several, so that a row seldom adds to what the row before it has
/// just written, as long as they take half of a first cache of 32 KiB; one in a second cache. Both sizes are guesses.
pub(super) fn thread_copies(state_bytes: usize) -> u32 {
    let copies = [(32, 16 << 10), (8, 16 << 10), (4, 16 << 10), (1, 256 << 10)];
    let fits = |(copies, bytes_max): &&(usize, usize)| state_bytes.saturating_mul(*copies) <= *bytes_max;
    copies.iter().find(fits).map_or(0, |(copies, _)| *copies as u32)
}

/// Code that clears the copies in shared memory before, and adds them to memory after.
pub(super) fn share(code: &mut RowCode, layout: &GroupLayout, groups: &str, offset: usize) {
    let (words, copies, count) = (layout.words.len(), layout.shared_copies, layout.packed_key_count);
    code.prologue += &format!("u64* const shared_groups = (u64*)(block_shared + {offset});\n");
    let identities: Vec<String> = layout.words.iter().map(|kind| format!("{}ull", kind.identity())).collect();
    code.prologue += &format!(
        "{{ const u64 identity[] = {{{}}};\n\
         for (u64 i = THREAD_IN_BLOCK; i < {}ull; i += THREADS_IN_BLOCK) shared_groups[i] = identity[i % {words}]; }}\n\
         BLOCK_BARRIER;\n",
        identities.join(", "),
        count * u64::from(copies) * words as u64,
    );
    code.epilogue += "BLOCK_BARRIER;\n";
    code.epilogue += &format!(
        "for (u64 i = THREAD_IN_BLOCK; i < {}ull; i += THREADS_IN_BLOCK) {{\n\
         const u64* const from = shared_groups + i * {words}; u64* const to = {groups} + i / {copies} * {words};\n\
         if (from[0] == 0) continue;\n",
        count * u64::from(copies),
    );
    for (word, kind) in layout.words.iter().enumerate().filter(|(_, kind)| **kind != WordKind::AddHigh) {
        let value = match kind {
            WordKind::AddLow { .. } => format!("u128(from[{word}]) | u128(from[{}]) << 64", word + 1),
            WordKind::AddDouble => format!("*(const f64*)(from + {word})"),
            WordKind::Min | WordKind::Max => format!("i64(from[{word}])"),
            _ => format!("from[{word}]"),
        };
        code.epilogue += &atomic_update(*kind, &format!("to + {word}"), &value);
        code.epilogue += "\n";
    }
    code.epilogue += "}\n";
}
