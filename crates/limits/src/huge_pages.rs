//! Huge pages, which pay for gigabytes of rows and not for what a process begins with.
//!
//! ```text
//!   start, first statement is planned    pages of 4 KB     some 4 MB, in a few places of each thread's heap
//!   from its first row on                pages of 2 MB     as the system has them
//! ```
//!
//! The first byte that is written in a huge page makes the system clear all of it. Planning a first query, that was a quarter of
//! the time (docs/perf/cpu.md).

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether [`begin_with_small_pages`] was asked for and nobody has ended it.
static IS_SMALL: AtomicBool = AtomicBool::new(false);

/// Memory that is written for the first time comes in small pages until [`go_on_with_huge_pages`]. For programs of Pelton's own:
/// it counts for the whole process. Where the process has no huge pages anyway, nothing happens.
pub fn begin_with_small_pages() {
    if are_forbidden() == Some(false) && forbid(true) {
        IS_SMALL.store(true, Ordering::Relaxed);
    }
}

/// From now on memory comes in huge pages where the system has them, if [`begin_with_small_pages`] kept it from that.
pub fn go_on_with_huge_pages() {
    if IS_SMALL.load(Ordering::Relaxed) && IS_SMALL.swap(false, Ordering::Relaxed) {
        // What could be forbidden can be allowed again.
        let _ = forbid(false);
    }
}

/// Whether this process has no huge pages; `None` where the system does not say.
#[cfg(target_os = "linux")]
fn are_forbidden() -> Option<bool> {
    // SAFETY: the call reads a flag of this process and takes no memory.
    match unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } {
        0 => Some(false),
        1.. => Some(true),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn are_forbidden() -> Option<bool> {
    None
}

/// True where the system did so.
#[cfg(target_os = "linux")]
fn forbid(forbids: bool) -> bool {
    // SAFETY: the call sets a flag of this process: memory that is there already stays as it is.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(forbids), 0, 0, 0) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn forbid(_: bool) -> bool {
    false
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_began_with_small_pages_has_huge_ones_again_and_one_that_has_none_never() {
        let are_off = || are_forbidden().unwrap();
        let before = are_off();
        go_on_with_huge_pages();
        assert_eq!(are_off(), before, "nobody began");
        assert!(forbid(false));
        begin_with_small_pages();
        assert!(are_off());
        go_on_with_huge_pages();
        assert!(!are_off());
        assert!(forbid(true));
        begin_with_small_pages();
        go_on_with_huge_pages();
        assert!(are_off(), "it was so before");
        assert!(forbid(before));
    }
}
