//! Huge pages, which pay for gigabytes of rows and not for what a process begins with.
//!
//! ```text
//!   start, first statement is planned    pages of 4 KB     some 4 MB, in a few places of each thread's heap
//!   from its first row on                pages of 2 MB     as the system has them
//! ```
//!
//! The first byte that is written in a huge page makes the system clear all of it. Planning a first query, that was a quarter of
//! the time (docs/perf/cpu.md).

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Whether [`begin_with_small_pages`] was asked for and nobody has ended it.
static IS_SMALL: AtomicBool = AtomicBool::new(false);

/// Memory that is written for the first time comes in small pages until [`go_on_with_huge_pages`]. For programs of Pelton's own:
/// it counts for the whole process. Where the process has no huge pages anyway, nothing happens.
pub fn begin_with_small_pages() {
    if transparent_huge_pages_are_disabled() == Ok(false) && disable_transparent_huge_pages(true).is_ok() {
        IS_SMALL.store(true, Ordering::Relaxed);
    }
}

/// From now on memory comes in huge pages where the system has them, if [`begin_with_small_pages`] kept it from that.
pub fn go_on_with_huge_pages() {
    if IS_SMALL.load(Ordering::Relaxed) && IS_SMALL.swap(false, Ordering::Relaxed) {
        // What could be forbidden can be allowed again.
        let _ = disable_transparent_huge_pages(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_began_with_small_pages_has_huge_ones_again_and_one_that_has_none_never() {
        let are_off = || transparent_huge_pages_are_disabled().unwrap();
        let before = are_off();
        go_on_with_huge_pages();
        assert_eq!(are_off(), before, "nobody began");
        disable_transparent_huge_pages(false).unwrap();
        begin_with_small_pages();
        assert!(are_off());
        go_on_with_huge_pages();
        assert!(!are_off());
        disable_transparent_huge_pages(true).unwrap();
        begin_with_small_pages();
        go_on_with_huge_pages();
        assert!(are_off(), "it was so before");
        disable_transparent_huge_pages(before).unwrap();
    }
}
