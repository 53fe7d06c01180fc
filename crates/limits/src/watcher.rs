//! The thread that compares what is held with what may be, every few milliseconds while there are accounts.
//!
//! ```text
//!   an account beyond its own ceiling          its query ends
//!   the process beyond its ceiling             the query that holds the most ends
//!   the machine with less than 3 % free        the same, if that query holds an eighth of the machine or more
//! ```
//!
//! One query ends at a time: memory comes back only after it has.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::account::{self, Excess};
use crate::heap::heap_bytes;
use crate::machine::{available_memory, free_bytes};

/// Memory fills at some GB/s a thread: this much time is some ten MB of it.
const INTERVAL: Duration = Duration::from_millis(5);
/// The machine is looked at less often; that costs 15 us.
const MACHINE_INTERVAL: Duration = Duration::from_millis(50);
/// The machine is short of memory below this share of it.
const MACHINE_FREE_MIN: u64 = 32;
/// A query that holds less than this share of the machine is not what fills it.
const MACHINE_QUERY_MIN: u64 = 8;

static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);
static CEILING: AtomicU64 = AtomicU64::new(u64::MAX);
static OPEN: AtomicUsize = AtomicUsize::new(0);
static SLEEP: Mutex<()> = Mutex::new(());
static WAKE: Condvar = Condvar::new();

/// Limits what all queries of the process and all else on its heap hold together: to `limit_bytes` as users know it,
/// and in truth to `ceiling_bytes`.
pub fn set_process_limit(limit_bytes: u64, ceiling_bytes: u64) {
    LIMIT.store(limit_bytes, Ordering::Relaxed);
    CEILING.store(ceiling_bytes, Ordering::Relaxed);
}

/// Limit and ceiling of the process.
pub(crate) fn process_limit() -> (u64, u64) {
    (LIMIT.load(Ordering::Relaxed), CEILING.load(Ordering::Relaxed))
}

/// An account was opened.
pub(crate) fn begin() {
    static START: Once = Once::new();
    // Without the counting allocator there is nothing to compare.
    if heap_bytes() == 0 {
        return;
    }
    START.call_once(|| {
        let thread = std::thread::Builder::new().name("pelton-memory".to_owned()).stack_size(256 << 10);
        // A process without room for one more thread has its queries checked where they ask.
        let _ = thread.spawn(watch);
    });
    if OPEN.fetch_add(1, Ordering::SeqCst) == 0 {
        let _held = SLEEP.lock().unwrap_or_else(PoisonError::into_inner);
        WAKE.notify_one();
    }
}

/// An account was closed.
pub(crate) fn end() {
    // One that was opened before anything was counted has not been counted either.
    let _ = OPEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| open.checked_sub(1));
}

fn watch() {
    let mut machine_looked = Instant::now();
    loop {
        {
            let held = SLEEP.lock().unwrap_or_else(PoisonError::into_inner);
            drop(WAKE.wait_while(held, |()| OPEN.load(Ordering::SeqCst) == 0));
        }
        std::thread::sleep(INTERVAL);
        let Some((largest, held)) = account::look() else { continue };
        if heap_bytes() > CEILING.load(Ordering::Relaxed) {
            account::mark(largest, Excess::Process);
        } else if machine_looked.elapsed() > MACHINE_INTERVAL {
            machine_looked = Instant::now();
            if is_machine_short(held) {
                account::mark(largest, Excess::Machine);
            }
        }
    }
}

/// True where the machine has little memory left, and a query that holds `held` bytes is why.
fn is_machine_short(held: u64) -> bool {
    let (Some(all), Some(free)) = (available_memory(), free_bytes()) else { return false };
    free < all.bytes / MACHINE_FREE_MIN && held > all.bytes / MACHINE_QUERY_MIN
}
