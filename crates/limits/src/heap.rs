//! The allocator: mimalloc, counted.
//!
//! ```text
//!   below 1 MiB    a counter of the thread, which joins the process' own in steps of 256 KiB
//!   from 32 KiB    [ bytes of the caller ... | account: 8 bytes ]   counted for the account of the query that took it,
//!                                                                    and given back to it whoever frees it
//! ```
//!
//! The account stands behind the caller's bytes, where alignment does not matter and where every call finds it: Rust
//! says the size when it frees. Counting costs some instructions, and atomic additions, for which threads wait for each
//! other, only in steps.
//!
//! Past the last resort, or when the system has no memory, the process ends here with a line of its own. Rust would
//! abort it, or the kernel kill it; and an allocator may not unwind.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mimalloc::MiMalloc;

use crate::account;

/// From here on an allocation is counted for an account.
const LARGE_BYTES: usize = 32 << 10;
/// What is kept behind a large allocation: the number of its account.
const OWNER_BYTES: usize = size_of::<u64>();
/// What a thread counts before it tells the process.
const STEP_BYTES: i64 = 256 << 10;
/// From here on the process counts an allocation at once, and looks for room before it is made.
const LOOK_BYTES: usize = 1 << 20;
/// How often, and how long between, memory is looked at again before the process is given up: queries that are over
/// their limit may be letting go of theirs.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Allocations below [`LOOK_BYTES`], as far as threads have told.
static SMALL: AtomicI64 = AtomicI64::new(0);
/// The others.
static LARGE: AtomicI64 = AtomicI64::new(0);
static LAST_RESORT: AtomicU64 = AtomicU64::new(u64::MAX);

/// A thread's first allocation finds this and registers what tells the rest when the thread ends.
const UNREGISTERED: i64 = i64::MIN / 2;

thread_local! {
    static UNTOLD: Cell<i64> = const { Cell::new(UNREGISTERED) };
    static TELL_AT_END: TellAtEnd = const { TellAtEnd };
}

struct TellAtEnd;

impl Drop for TellAtEnd {
    fn drop(&mut self) {
        SMALL.fetch_add(UNTOLD.replace(0), Ordering::Relaxed);
    }
}

/// Bytes that Rust code of this process holds, to 256 KiB a thread; 0 where [`Heap`] is not its allocator.
pub fn heap_bytes() -> u64 {
    (SMALL.load(Ordering::Relaxed) + LARGE.load(Ordering::Relaxed)).max(0) as u64
}

/// Ends the process with an error line when its heap is about to pass `bytes` and stays there for half a second. For
/// programs that run one thing: in others, the work that holds the most is stopped long before.
pub fn set_last_resort(bytes: u64) {
    LAST_RESORT.store(bytes, Ordering::Relaxed);
}

// Of the library that is linked for `MiMalloc`; its crate declares it for a feature that nothing else here needs.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    /// Not where the environment says otherwise.
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// The numbers of mimalloc's options, version 3 (`mi_option_e` in mimalloc.h).
const ARENA_EAGER_COMMIT: c_int = 4;
const PURGE_DELAY: c_int = 15;

/// Below this limit, what the allocator keeps of freed memory is much of the limit.
const SMALL_BYTES: u64 = 256 << 20;
/// From this limit on, memory that is freed may stay for [`LONG_DELAY`].
const AMPLE_BYTES: u64 = 4 << 30;
/// Longer than most queries take, so that what one operator frees the next one finds, whole and in huge pages.
const LONG_DELAY: Duration = Duration::from_secs(10);

/// How long memory that is freed stays with the process, by the limit that it is held to; mimalloc has 1 s.
///
/// ```text
///   limit     below 256 MiB    to 4 GiB    above, or none
///   delay               0 s         1 s              10 s
/// ```
///
/// A hash join through files under a limit of 50 MB had 90 MB less resident without a delay, and took 2.8 s instead of 2.1 s (two
/// cores, 2026-11). What goes back within a query splits huge pages and is faulted in again: TPC-H took 1 to 5 % longer with 1 s
/// than without an end (docs/perf/tpcds.md). The variable `MIMALLOC_PURGE_DELAY`, in ms, comes before the long delay.
pub fn set_purge_delay(limit_bytes: Option<u64>) {
    match limit_bytes {
        // SAFETY: two stores to options, which the allocator reads at each use.
        Some(..SMALL_BYTES) => unsafe {
            mi_option_set(PURGE_DELAY, 0);
            mi_option_set(ARENA_EAGER_COMMIT, 0);
        },
        Some(SMALL_BYTES..AMPLE_BYTES) => {}
        // SAFETY: as above.
        _ => unsafe { mi_option_set_default(PURGE_DELAY, LONG_DELAY.as_millis() as c_long) },
    }
}

/// The allocator; a program names it as its `#[global_allocator]`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heap;

/// Counts an allocation below [`LOOK_BYTES`] (or its end, below 0).
#[inline]
fn count(bytes: i64) {
    let untold = UNTOLD.get() + bytes;
    UNTOLD.set(untold);
    if untold.unsigned_abs() > STEP_BYTES as u64 {
        tell(untold);
    }
}

#[cold]
fn tell(untold: i64) {
    if untold < UNREGISTERED / 2 {
        UNTOLD.set(untold - UNREGISTERED);
        // Registering may allocate, which finds a counter that is in use already. A thread that is at its end has
        // nothing to register with, and what it still does is not told.
        let _ = TELL_AT_END.try_with(|_| ());
        return;
    }
    UNTOLD.set(0);
    let now = SMALL.fetch_add(untold, Ordering::Relaxed) + untold;
    if untold > 0 && (now + LARGE.load(Ordering::Relaxed)).max(0) as u64 > LAST_RESORT.load(Ordering::Relaxed)
    {
        wait_for_room(0);
    }
}

#[inline]
fn count_large(owner: u64, bytes: i64) {
    if bytes.unsigned_abs() < LOOK_BYTES as u64 {
        count(bytes);
    } else {
        LARGE.fetch_add(bytes, Ordering::Relaxed);
    }
    account::add(owner, bytes);
}

/// Waits until `more` bytes fit below the last resort, and ends the process if they do not.
#[cold]
#[inline(never)]
fn wait_for_room(more: usize) {
    for _ in 0..LOOKS {
        if heap_bytes().saturating_add(more as u64) <= LAST_RESORT.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    end(more);
}

/// Ends the process with status 1. Its files without a name go with it.
#[cold]
#[inline(never)]
fn end(more: usize) -> ! {
    let mut line = Line { bytes: [0; 256], len: 0 };
    let held = heap_bytes() >> 20;
    // Nothing here may allocate.
    let _ = writeln!(
        line,
        "pelton: memory limit reached: {} MiB more were asked for at once, with {held} MiB held; raise --memory-limit or \
         select less",
        more >> 20
    );
    // SAFETY: the pointer and the length are those of the line, which lives on this stack; file descriptor 2 may be
    // anything. `_exit` runs no code of this process.
    unsafe {
        libc::write(2, line.bytes.as_ptr().cast(), line.len);
        libc::_exit(1)
    }
}

/// Text on the stack.
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.len += taken;
        Ok(())
    }
}

/// True where `bytes` more are to be looked at, because they are many and there may be no room.
#[inline]
fn is_past_last_resort(bytes: usize) -> bool {
    bytes >= LOOK_BYTES && heap_bytes().saturating_add(bytes as u64) > LAST_RESORT.load(Ordering::Relaxed)
}

/// Makes a large allocation; `make` is given its layout with the owner behind it.
///
/// # Safety
///
/// `layout` has a size of at least [`LARGE_BYTES`]; `make` returns memory of the layout that it is given, or null.
unsafe fn large(layout: Layout, make: impl Fn(Layout) -> *mut u8) -> *mut u8 {
    if is_past_last_resort(layout.size()) {
        wait_for_room(layout.size());
    }
    let Ok(whole) = Layout::from_size_align(layout.size() + OWNER_BYTES, layout.align()) else {
        return std::ptr::null_mut();
    };
    let bytes = retried(whole.size(), || make(whole));
    let owner = account::owner();
    // SAFETY: `bytes` is not null and has OWNER_BYTES beyond the size of `layout`, which nobody else knows of.
    unsafe { bytes.add(layout.size()).cast::<u64>().write_unaligned(owner) };
    count_large(owner, layout.size() as i64);
    bytes
}

/// What `make` gives; where the system has no memory, again and again for half a second, and then no more of this
/// process.
#[inline]
fn retried(size: usize, make: impl Fn() -> *mut u8) -> *mut u8 {
    let bytes = make();
    if bytes.is_null() { retried_slowly(size, make) } else { bytes }
}

#[cold]
fn retried_slowly(size: usize, make: impl Fn() -> *mut u8) -> *mut u8 {
    for _ in 0..LOOKS {
        std::thread::sleep(BETWEEN_LOOKS);
        let bytes = make();
        if !bytes.is_null() {
            return bytes;
        }
    }
    end(size)
}

/// The account that a large allocation of this size was counted for.
///
/// # Safety
///
/// `bytes` was made by [`large`] with a layout of `size` bytes and is not freed.
unsafe fn owner_of(bytes: *mut u8, size: usize) -> u64 {
    // SAFETY: `large` wrote it there.
    unsafe { bytes.add(size).cast::<u64>().read_unaligned() }
}

// SAFETY: all memory is mimalloc's, by the layouts that the caller gives, except that large ones have OWNER_BYTES more
// behind them: in every call the size alone tells which those are. Nothing unwinds.
//
// None of these is inlined: the allocator of a program is compiled with the program, and programs are optimized less.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE_BYTES {
            count(layout.size() as i64);
            // SAFETY: as of the caller.
            return retried(layout.size(), || unsafe { MiMalloc.alloc(layout) });
        }
        // SAFETY: the size was looked at; `MiMalloc` gives memory of the layout or null.
        unsafe { large(layout, |whole| MiMalloc.alloc(whole)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE_BYTES {
            count(layout.size() as i64);
            // SAFETY: as of the caller.
            return retried(layout.size(), || unsafe { MiMalloc.alloc_zeroed(layout) });
        }
        // SAFETY: the size was looked at; `MiMalloc` gives memory of the layout or null.
        unsafe { large(layout, |whole| MiMalloc.alloc_zeroed(whole)) }
    }

    unsafe fn dealloc(&self, bytes: *mut u8, layout: Layout) {
        if layout.size() < LARGE_BYTES {
            count(-(layout.size() as i64));
        } else {
            // SAFETY: made by this allocator with this layout, so by `large`.
            let owner = unsafe { owner_of(bytes, layout.size()) };
            count_large(owner, -(layout.size() as i64));
        }
        // SAFETY: as of the caller; mimalloc does not look at the layout.
        unsafe { MiMalloc.dealloc(bytes, layout) }
    }

    unsafe fn realloc(&self, bytes: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let old_size = layout.size();
        if old_size < LARGE_BYTES && new_size < LARGE_BYTES {
            count(new_size as i64 - old_size as i64);
            // SAFETY: as of the caller.
            return retried(new_size, || unsafe { MiMalloc.realloc(bytes, layout, new_size) });
        }
        // SAFETY: as of the caller.
        unsafe { realloc_large(bytes, layout, new_size) }
    }
}

/// As `GlobalAlloc::realloc` where the old size or the new one is large.
///
/// # Safety
///
/// As of `GlobalAlloc::realloc`.
unsafe fn realloc_large(bytes: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    let old_size = layout.size();
    let was_large = old_size >= LARGE_BYTES;
    // SAFETY: a large one was made by `large` with this size.
    let owner = if was_large { unsafe { owner_of(bytes, old_size) } } else { account::owner() };
    if new_size > old_size && is_past_last_resort(new_size - old_size) {
        wait_for_room(new_size - old_size);
    }
    let is_large = new_size >= LARGE_BYTES;
    let whole = if is_large { new_size.saturating_add(OWNER_BYTES) } else { new_size };
    // SAFETY: as of the caller; mimalloc keeps the old bytes where it returns null, and does not look at the old size.
    let bytes = retried(whole, || unsafe { MiMalloc.realloc(bytes, layout, whole) });
    match was_large {
        true => count_large(owner, -(old_size as i64)),
        false => count(-(old_size as i64)),
    }
    if is_large {
        // SAFETY: there are OWNER_BYTES behind the new size.
        unsafe { bytes.add(new_size).cast::<u64>().write_unaligned(owner) };
        count_large(owner, new_size as i64);
    } else {
        count(new_size as i64);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;

    /// Bytes that account `owner` holds after each step.
    fn held(account: &Account, step: impl FnOnce()) -> u64 {
        step();
        account.held_bytes()
    }

    #[test]
    fn large_allocations_are_counted_for_their_account_wherever_they_are_freed() {
        let account = Account::open(1 << 40, 1 << 40);
        let other = Account::open(1 << 40, 1 << 40);
        let of = |size| Layout::from_size_align(size, 64).unwrap();
        // SAFETY: each pointer is used with the layout that it was last made with, and freed once.
        unsafe {
            let mut bytes = std::ptr::null_mut();
            let taken = held(&account, || {
                bytes = {
                    let _in = account.enter();
                    Heap.alloc(of(LARGE_BYTES))
                }
            });
            assert_eq!(taken, LARGE_BYTES as u64);
            bytes.write_bytes(7, LARGE_BYTES);
            // Another account's thread makes it larger, small, large again and frees it.
            let _in = other.enter();
            let grown = held(&account, || bytes = Heap.realloc(bytes, of(LARGE_BYTES), 3 * LARGE_BYTES));
            assert_eq!(grown, 3 * LARGE_BYTES as u64);
            assert_eq!(std::slice::from_raw_parts(bytes, LARGE_BYTES), [7; LARGE_BYTES]);
            let small = held(&account, || bytes = Heap.realloc(bytes, of(3 * LARGE_BYTES), 100));
            assert_eq!((small, std::slice::from_raw_parts(bytes, 100)), (0, &[7; 100][..]));
            bytes = Heap.realloc(bytes, of(100), LARGE_BYTES + 1);
            assert_eq!((account.held_bytes(), other.held_bytes()), (0, LARGE_BYTES as u64 + 1));
            Heap.dealloc(bytes, of(LARGE_BYTES + 1));
            assert_eq!(other.held_bytes(), 0);
            let zeroed = Heap.alloc_zeroed(of(LARGE_BYTES));
            assert_eq!(std::slice::from_raw_parts(zeroed, LARGE_BYTES), [0; LARGE_BYTES]);
            Heap.dealloc(zeroed, of(LARGE_BYTES));
        }
    }

    #[test]
    fn small_allocations_of_threads_that_have_ended_are_counted() {
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let before = SMALL.load(Ordering::Relaxed);
        for _ in 0..10 {
            // SAFETY: the layout is of more than no bytes.
            let take = move || unsafe { Heap.alloc(layout) as usize };
            let address = std::thread::spawn(take).join().unwrap();
            // SAFETY: it was taken above with this layout, and is freed once.
            let free = move || unsafe { Heap.dealloc(address as *mut u8, layout) };
            std::thread::spawn(free).join().unwrap();
        }
        assert_eq!(SMALL.load(Ordering::Relaxed), before);
    }
}
