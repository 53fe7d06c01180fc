//! Accounts: what one query holds, in allocations of 32 KiB and more.
//!
//! An account is a slot of a fixed table, so that the allocator reaches it by number, without a lock and without
//! memory. Which account a thread takes memory for is set while the query's futures are polled ([`Account::enter`]). A
//! slot is free again once its query is gone and all that it took was freed.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use crate::{heap, watcher};

/// Accounts at a time; further ones count for the process alone.
const SLOTS: usize = 1024;
/// The account of what belongs to no query.
const NOBODY: u64 = 0;

const FREE: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// On cache lines of its own: threads of different queries are not to wait for each other.
#[repr(align(128))]
struct Slot {
    state: AtomicU8,
    /// Handles of the query; it is gone with the last.
    handles: AtomicUsize,
    held: AtomicI64,
    limit: AtomicU64,
    ceiling: AtomicU64,
    excess: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        state: AtomicU8::new(FREE),
        handles: AtomicUsize::new(0),
        held: AtomicI64::new(0),
        limit: AtomicU64::new(u64::MAX),
        ceiling: AtomicU64::new(u64::MAX),
        excess: AtomicU8::new(0),
        waker: Mutex::new(None),
    }
}; SLOTS];

/// What a thread counts for the account that it is in before it tells the account.
const STEP_BYTES: i64 = 128 << 10;

thread_local! {
    static OWNER: Cell<u64> = const { Cell::new(NOBODY) };
    /// Of the account that this thread is in: what it has not been told yet.
    static UNTOLD: Cell<i64> = const { Cell::new(0) };
}

/// The account that this thread takes memory for.
#[inline]
pub(crate) fn owner() -> u64 {
    OWNER.get()
}

/// Counts an allocation for `owner`, or its end. Batches come and go by the thousand a second in every thread of a query:
/// most of them are gone again before the account hears of them.
#[inline]
pub(crate) fn add(owner: u64, bytes: i64) {
    if owner == NOBODY {
        return;
    }
    let untold = if owner == OWNER.get() { UNTOLD.replace(0) + bytes } else { bytes };
    if owner == OWNER.get() && untold.abs() <= STEP_BYTES {
        UNTOLD.set(untold);
    } else {
        TABLE[owner as usize].held.fetch_add(untold, Ordering::Relaxed);
    }
}

/// Puts this thread into the account `number`; gives the one that it was in.
fn change_to(number: u64) -> u64 {
    let before = OWNER.replace(number);
    let untold = UNTOLD.replace(0);
    if untold != 0 {
        TABLE[before as usize].held.fetch_add(untold, Ordering::Relaxed);
    }
    before
}

/// Bytes that account `number` holds, as far as it has been told and as this thread knows.
fn held_by(number: u64) -> u64 {
    let untold = if number == OWNER.get() { UNTOLD.get() } else { 0 };
    (TABLE[number as usize].held.load(Ordering::Relaxed) + untold).max(0) as u64
}

/// Why the query of an account has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It holds more than its own ceiling.
    Own,
    /// The process holds more than all of it may, and this query the most.
    Process,
    /// The machine is about to run out of memory, and this query holds the most.
    Machine,
}

/// What there would have to be and is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// What was asked for.
    pub requested_bytes: u64,
    /// What is left.
    pub available_bytes: u64,
    /// The limit, as the user knows it.
    pub limit_bytes: u64,
}

/// A handle of what one query holds.
#[derive(Debug)]
pub struct Account(u64);

impl Account {
    /// An account of a query with this limit, which fails at `ceiling_bytes`.
    pub fn open(limit_bytes: u64, ceiling_bytes: u64) -> Self {
        let found = (1..SLOTS).find(|&number| {
            let slot = &TABLE[number];
            slot.state.load(Ordering::Relaxed) != OPEN
                && slot.held.load(Ordering::Relaxed) <= 0
                && claim(slot)
        });
        let Some(number) = found else { return Self(NOBODY) };
        let slot = &TABLE[number];
        slot.limit.store(limit_bytes, Ordering::Relaxed);
        slot.ceiling.store(ceiling_bytes, Ordering::Relaxed);
        slot.excess.store(0, Ordering::Relaxed);
        slot.handles.store(1, Ordering::Relaxed);
        watcher::begin();
        Self(number as u64)
    }

    /// The account that this thread is in.
    pub fn current() -> Option<Self> {
        let owner = owner();
        // Whoever entered it has a handle.
        (owner != NOBODY).then(|| {
            TABLE[owner as usize].handles.fetch_add(1, Ordering::Relaxed);
            Self(owner)
        })
    }

    /// Until the guard goes, what this thread takes is counted here.
    pub fn enter(&self) -> Entered {
        Entered(change_to(self.0))
    }

    /// Bytes that the query holds, to 128 KiB for every thread that works for it just now.
    pub fn held_bytes(&self) -> u64 {
        held_by(self.0)
    }

    /// Bytes that the query may hold, as the user knows it.
    pub fn limit_bytes(&self) -> u64 {
        self.slot().limit.load(Ordering::Relaxed)
    }

    /// Set once the query has to end.
    pub fn excess(&self) -> Option<Excess> {
        match self.slot().excess.load(Ordering::Relaxed) {
            1 => Some(Excess::Own),
            2 => Some(Excess::Process),
            3 => Some(Excess::Machine),
            _ => None,
        }
    }

    /// Whom to wake when the query has to end.
    pub fn wake(&self, waker: &Waker) {
        let mut kept = self.slot().waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Whether `bytes` more would keep below the ceiling.
    ///
    /// # Errors
    ///
    /// What is left.
    pub fn check_room(&self, bytes: u64) -> Result<(), NoRoom> {
        let slot = self.slot();
        let (limit, ceiling) = (slot.limit.load(Ordering::Relaxed), slot.ceiling.load(Ordering::Relaxed));
        within(bytes, self.held_bytes(), ceiling, limit)
    }

    fn slot(&self) -> &'static Slot {
        &TABLE[self.0 as usize]
    }
}

impl Clone for Account {
    fn clone(&self) -> Self {
        self.slot().handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let is_last = self.slot().handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if self.0 != NOBODY && is_last {
            let waker = self.slot().waker.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(waker);
            self.slot().state.store(CLOSED, Ordering::Release);
            watcher::end();
        }
    }
}

fn claim(slot: &Slot) -> bool {
    let claimed = |from| slot.state.compare_exchange(from, OPEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    claimed(FREE) || claimed(CLOSED)
}

fn within(bytes: u64, held: u64, ceiling: u64, limit: u64) -> Result<(), NoRoom> {
    let available_bytes = ceiling.saturating_sub(held);
    match bytes <= available_bytes {
        true => Ok(()),
        false => Err(NoRoom { requested_bytes: bytes, available_bytes, limit_bytes: limit }),
    }
}

/// Whether `bytes` more fit, for the query that this thread works for and for the process.
///
/// # Errors
///
/// What is left.
pub fn process_room(bytes: u64) -> Result<(), NoRoom> {
    // Not an account of its own: dropping one would close the query's.
    let slot = &TABLE[owner() as usize];
    let limit = slot.limit.load(Ordering::Relaxed);
    within(bytes, held_by(owner()), slot.ceiling.load(Ordering::Relaxed), limit)?;
    let (limit, ceiling) = watcher::process_limit();
    within(bytes, heap::heap_bytes(), ceiling, limit)
}

/// See [`Account::enter`].
#[derive(Debug)]
pub struct Entered(u64);

impl Drop for Entered {
    fn drop(&mut self) {
        change_to(self.0);
    }
}

/// Marks every open account that holds more than its ceiling. Gives the one that holds the most, for
/// [`mark`], and what it holds; none while one that was marked is still at its end.
pub(crate) fn look() -> Option<(usize, u64)> {
    let (mut most, mut is_ending) = (None, false);
    for (number, slot) in TABLE.iter().enumerate().skip(1) {
        if slot.state.load(Ordering::Relaxed) != OPEN {
            continue;
        }
        let held = slot.held.load(Ordering::Relaxed).max(0) as u64;
        if held > slot.ceiling.load(Ordering::Relaxed) {
            mark(number, Excess::Own);
        }
        is_ending |= slot.excess.load(Ordering::Relaxed) != 0;
        if most.is_none_or(|(_, most)| held >= most) {
            most = Some((number, held));
        }
    }
    most.filter(|_| !is_ending)
}

/// Has the query of an account end.
pub(crate) fn mark(number: usize, excess: Excess) {
    let slot = &TABLE[number];
    let code = match excess {
        Excess::Own => 1,
        Excess::Process => 2,
        Excess::Machine => 3,
    };
    if slot.excess.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let waker = slot.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_ceiling_leaves() {
        let account = Account::open(100, 150);
        let _in = account.enter();
        assert!(account.check_room(150).is_ok());
        let no_room = NoRoom { requested_bytes: 151, available_bytes: 150, limit_bytes: 100 };
        assert_eq!(account.check_room(151), Err(no_room));
        add(account.0, 100);
        assert_eq!(process_room(51).unwrap_err().available_bytes, 50);
        add(account.0, -100);
    }

    #[test]
    fn an_account_past_its_ceiling_is_marked_and_a_slot_waits_for_its_memory() {
        let account = Account::open(100, 150);
        add(account.0, 200);
        look();
        assert_eq!(account.excess(), Some(Excess::Own));
        let number = account.0;
        drop(account);
        let next = Account::open(100, 150);
        assert_ne!(next.0, number, "its memory is not freed");
        add(number, -200);
        assert_eq!(next.excess(), None);
    }
}
