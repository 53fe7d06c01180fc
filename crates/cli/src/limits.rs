//! What the process holds itself to, by its command.

use pelton_limits::{available_memory, ceiling_bytes, set_last_resort, set_process_limit, set_purge_delay};

/// How far past the ceiling memory may go before a program that runs one statement ends itself: the query was asked to
/// end already, and did not come to a point where it could.
const LAST_SLACK_BYTES: u64 = 256 << 20;
/// The share of what there is that no program takes.
const MOST_PERCENT: u64 = 95;

/// Limits all that runs in this process together.
pub(crate) fn limit_process(limit_bytes: Option<u64>) {
    set_purge_delay(limit_bytes);
    let Some(limit) = limit_bytes else { return };
    set_process_limit(limit, ceiling_bytes(limit));
    set_last_resort(most_bytes());
}

/// As [`limit_process`], for a process that has nothing to go on with when its statement fails.
pub(crate) fn limit_single_run(limit_bytes: Option<u64>) {
    limit_process(limit_bytes);
    if let Some(limit) = limit_bytes {
        set_last_resort(ceiling_bytes(limit).saturating_add(LAST_SLACK_BYTES).min(most_bytes().max(limit)));
    }
}

fn most_bytes() -> u64 {
    available_memory().map_or(u64::MAX, |available| available.bytes / 100 * MOST_PERCENT)
}
