//! The arbiter of one device's memory: who goes on, and who steps aside, when not all queries fit at once.
//!
//! ```text
//!              memory is refused
//!                     │  what is cached is evicted; still refused
//!        oldest ──────┴────── younger
//!          │                     │ parks: its state is copied to the host, all its device memory is freed
//!   younger ones are asked       │
//!   to park, one change at       ▼
//!   a time; then alone        waits ──► it is the oldest, or the first in line and its wish is free
//!          │                     │
//!        spills or fails         ▼ its state is copied back, it goes on where it was
//! ```
//!
//! A query takes a turn when it starts. The oldest never parks and in the end has all memory to itself, so every query
//! ends. The arbiter moves nothing itself: queries look at [`Turn::is_asked_to_park`] where they can step aside. It
//! counts no bytes either: that is the budget's part.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pelton_error::{CancelFlag, Result};

use crate::budget::Budget;
use crate::evict::Evictables;

/// How often a query that waits looks whether it is cancelled: nobody is told when that flag is set.
const CANCEL_INTERVAL: Duration = Duration::from_millis(5);

/// Decides between the queries on one device when its memory is short.
pub struct MemoryArbiter {
    budget: Arc<Budget>,
    /// Numbers the queries of the machine.
    queries: Arc<Mutex<u64>>,
    cached: Evictables,
    state: Mutex<State>,
    changed: Condvar,
}

/// The place of a query in the order of arrival, then that of a part that runs beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    query: u64,
    part: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Running,
    Parked,
    /// Its parts run, or it has hardly begun: it holds what it holds, and others do not wait for it.
    Resting,
    /// It brings together what the same query has on several devices, without waiting for memory.
    Busy,
}

#[derive(Default)]
struct State {
    turns: BTreeMap<Place, Entry>,
    /// Counts the moments at which memory was given back.
    given_back: u64,
    /// The oldest while it waits for memory, or one that comes back, until it has taken what it wants: until then nobody
    /// else comes back.
    wanting: Option<Place>,
}

struct Entry {
    doing: Doing,
    is_asked: Arc<AtomicBool>,
}

/// Work that nobody waits for is numbered from here on.
const BACKGROUND_FIRST: u64 = 1 << 63;

impl State {
    fn is_oldest(&self, place: Place) -> bool {
        let stands =
            |place: &Place, entry: &Entry| entry.doing != Doing::Resting || !self.has_parts(place.query);
        let oldest = self.turns.iter().find(|(place, entry)| stands(place, entry));
        oldest.is_none_or(|(oldest, _)| *oldest >= place)
    }

    fn has_parts(&self, query: u64) -> bool {
        self.turns.range(Place { query, part: 1 }..Place { query: query + 1, part: 0 }).next().is_some()
    }

    fn is_first_in_line(&self, place: Place) -> bool {
        let first = self.turns.iter().find(|(_, entry)| entry.doing == Doing::Parked);
        first.is_some_and(|(first, _)| *first == place)
    }

    fn set(&mut self, place: Place, doing: Doing) {
        if let Some(entry) = self.turns.get_mut(&place) {
            entry.doing = doing;
            entry.is_asked.store(false, Ordering::Relaxed);
        }
    }
}

impl MemoryArbiter {
    /// For the device whose memory `budget` is; arbiters of one machine share `queries`.
    pub(crate) fn new(budget: Arc<Budget>, queries: &Arc<Mutex<u64>>) -> Arc<Self> {
        let (cached, state) = (Evictables::default(), Mutex::default());
        Arc::new(Self { budget, queries: Arc::clone(queries), cached, state, changed: Condvar::new() })
    }

    /// Registers what may be evicted: `evict` frees up to so many bytes that nobody uses and answers how many. It is
    /// called without a lock.
    pub fn add_evictable(&self, evict: impl Fn(u64) -> u64 + Send + Sync + 'static) {
        self.cached.add(evict);
    }

    /// Evicts at least `bytes` of what is cached, as far as there is some that nobody uses; answers how many.
    pub fn evict(&self, bytes: u64) -> u64 {
        self.cached.evict(bytes)
    }

    /// The turn of a query that starts now, on this device alone.
    pub fn turn(self: &Arc<Self>) -> Turn {
        Self::turns(std::slice::from_ref(self)).remove(0)
    }

    /// The turn of work that nobody waits for, on this device alone.
    #[cfg(test)]
    fn turn_in_background(self: &Arc<Self>) -> Turn {
        Self::turns_in_background(std::slice::from_ref(self)).remove(0)
    }

    /// The turns of a query that starts now on several devices of a machine, one each: it comes after the same queries
    /// on all of them.
    pub(crate) fn turns(arbiters: &[Arc<Self>]) -> Vec<Turn> {
        Self::turns_from(arbiters, 0)
    }

    /// As [`turns`](Self::turns) of work that nobody waits for: it comes after all queries, those to come too.
    pub(crate) fn turns_in_background(arbiters: &[Arc<Self>]) -> Vec<Turn> {
        Self::turns_from(arbiters, BACKGROUND_FIRST)
    }

    fn turns_from(arbiters: &[Arc<Self>], first_query: u64) -> Vec<Turn> {
        let Some(first) = arbiters.first() else { return Vec::new() };
        let mut queries = first.queries.lock().unwrap_or_else(PoisonError::into_inner);
        let query = first_query + *queries;
        *queries += 1;
        arbiters
            .iter()
            .map(|arbiter| arbiter.register(&mut arbiter.lock(), Place { query, part: 0 }))
            .collect()
    }

    /// Has all that wait look again: what they wait for may be over.
    pub fn wake(&self) {
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// Queries that wait for memory, by their parts.
    pub fn parked(&self) -> usize {
        self.lock().turns.values().filter(|entry| entry.doing == Doing::Parked).count()
    }

    fn register(self: &Arc<Self>, state: &mut State, place: Place) -> Turn {
        let is_asked = Arc::new(AtomicBool::new(false));
        state.turns.insert(place, Entry { doing: Doing::Running, is_asked: Arc::clone(&is_asked) });
        let seen = Cell::new(state.given_back);
        Turn { arbiter: Arc::clone(self), place, is_asked, is_wanting: Cell::new(false), seen }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, CANCEL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Tells all that wait that memory was given back.
    fn note_given_back(&self, state: &mut State) {
        state.given_back += 1;
        self.changed.notify_all();
    }
}

impl fmt::Debug for MemoryArbiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(f, "arbiter of {:?}, {} turns", self.budget, state.turns.len())
    }
}

/// The turn of a query, or of a part of one; over when it is dropped.
pub struct Turn {
    arbiter: Arc<MemoryArbiter>,
    place: Place,
    is_asked: Arc<AtomicBool>,
    is_wanting: Cell<bool>,
    /// What was given back when it last tried.
    seen: Cell<u64>,
}

impl Turn {
    /// Who decides.
    pub fn arbiter(&self) -> &Arc<MemoryArbiter> {
        &self.arbiter
    }

    /// The number of its query, from 1 on, of those that this machine has run.
    pub fn query(&self) -> u64 {
        self.place.query + 1
    }

    /// Whether none that is older is left. That stays so.
    pub fn is_oldest(&self) -> bool {
        self.arbiter.lock().is_oldest(self.place)
    }

    /// Whether an older one waits for the memory of this one. One load: ask between morsels.
    pub fn is_asked_to_park(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Turns of `count` parts of this query that run at once, in order; this one is over until [`resume`](Self::resume).
    pub fn split(&self, count: u32) -> Vec<Turn> {
        let mut state = self.arbiter.lock();
        state.set(self.place, Doing::Resting);
        let query = self.place.query;
        (1..=count).map(|part| self.arbiter.register(&mut state, Place { query, part })).collect()
    }

    /// It waits for what the same query does elsewhere: nobody asks it to park until it goes on.
    pub fn rest(&self) {
        self.arbiter.lock().set(self.place, Doing::Resting);
    }

    /// It brings together what the same query has on several devices, and takes no memory that it would wait for.
    pub fn be_busy(&self) {
        self.arbiter.lock().set(self.place, Doing::Busy);
    }

    /// Waits until `is_over`, or until it is asked to park; whether it is asked.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    pub fn wait_blocking(&self, is_over: &dyn Fn() -> bool, cancel: &CancelFlag) -> Result<bool> {
        let mut state = self.arbiter.lock();
        loop {
            cancel.check()?;
            if is_over() {
                return Ok(false);
            }
            if self.is_asked_to_park() {
                return Ok(true);
            }
            state = self.arbiter.wait(state);
        }
    }

    /// It goes on after a rest, or when its parts are over.
    pub fn resume(&self) {
        self.arbiter.lock().set(self.place, Doing::Running);
    }

    /// The oldest was refused memory: asks younger ones to park and waits until something was given back. False where
    /// nothing was since the last time and nobody is left to ask. Until [`go_on`](Self::go_on) no other query comes back.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    pub fn ask_younger_blocking(&self, cancel: &CancelFlag) -> Result<bool> {
        let mut state = self.arbiter.lock();
        state.wanting = Some(self.place);
        self.is_wanting.set(true);
        let outcome = loop {
            if state.given_back != self.seen.get() {
                self.seen.set(state.given_back);
                break Ok(true);
            }
            let younger = state.turns.range(self.place..).skip(1);
            let active = younger.filter(|(_, entry)| matches!(entry.doing, Doing::Running | Doing::Busy));
            if active.map(|(_, entry)| entry.is_asked.store(true, Ordering::Relaxed)).count() == 0 {
                break Ok(false);
            }
            if let Err(cancelled) = cancel.check() {
                break Err(cancelled);
            }
            self.arbiter.changed.notify_all();
            state = self.arbiter.wait(state);
        };
        state.turns.values().for_each(|entry| entry.is_asked.store(false, Ordering::Relaxed));
        outcome
    }

    /// It has what it wanted, if it wanted any: others may come back.
    pub fn go_on(&self) {
        if self.is_wanting.replace(false) {
            let mut state = self.arbiter.lock();
            if state.wanting == Some(self.place) {
                state.wanting = None;
                self.arbiter.note_given_back(&mut state);
                self.seen.set(state.given_back);
            }
        }
    }

    /// It gave some memory back and runs on.
    pub fn gave_back(&self) {
        self.go_on();
        let mut state = self.arbiter.lock();
        self.arbiter.note_given_back(&mut state);
        self.seen.set(state.given_back);
    }

    /// It is over, though what holds it is kept.
    pub fn end(&self) {
        let mut state = self.arbiter.lock();
        if state.turns.remove(&self.place).is_none() {
            return;
        }
        if state.wanting == Some(self.place) {
            state.wanting = None;
        }
        self.arbiter.note_given_back(&mut state);
    }

    /// It has given all memory back: waits until it is the oldest, or the first in line while `wish_bytes` are free. Once
    /// it has taken those it calls [`go_on`](Self::go_on).
    ///
    /// # Errors
    ///
    /// `Cancelled`, at most some milliseconds after the flag was set.
    pub fn park_blocking(&self, wish_bytes: u64, cancel: &CancelFlag) -> Result<()> {
        let budget = &self.arbiter.budget;
        let mut state = self.arbiter.lock();
        if state.wanting == Some(self.place) {
            state.wanting = None;
        }
        self.is_wanting.set(false);
        state.set(self.place, Doing::Parked);
        self.arbiter.note_given_back(&mut state);
        let outcome = loop {
            if let Err(cancelled) = cancel.check() {
                break Err(cancelled);
            }
            let is_free = || budget.used_bytes().saturating_add(wish_bytes) <= budget.limit_bytes();
            let is_next = state.is_first_in_line(self.place) && state.wanting.is_none() && is_free();
            if is_next || state.is_oldest(self.place) {
                // The next in line counts what this one takes.
                state.wanting = Some(self.place);
                self.is_wanting.set(true);
                break Ok(());
            }
            state = self.arbiter.wait(state);
        };
        state.set(self.place, Doing::Running);
        self.seen.set(state.given_back);
        outcome
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "turn {}.{}", self.place.query, self.place.part)
    }
}

#[cfg(test)]
mod tests {
    use pelton_error::{ErrorKind, Tier};

    use super::*;
    use crate::budget::OnFull;

    fn arbiter(limit_bytes: u64) -> Arc<MemoryArbiter> {
        MemoryArbiter::new(Budget::new(Tier::Device, "memory of device 0", limit_bytes), &Arc::default())
    }

    fn wait_until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_in_the_background_is_younger_than_queries_that_come_later() {
        let arbiter = arbiter(100);
        let first_trial = arbiter.turn_in_background();
        assert!(first_trial.is_oldest());
        let second_trial = arbiter.turn_in_background();
        assert!(first_trial.is_oldest() && !second_trial.is_oldest());
        let query = arbiter.turn();
        assert!(query.is_oldest() && !first_trial.is_oldest() && !second_trial.is_oldest());
        drop(query);
        assert!(first_trial.is_oldest());
    }

    #[test]
    fn the_oldest_gets_what_younger_ones_give_back() {
        let arbiter = arbiter(100);
        let (older, younger) = (arbiter.turn(), arbiter.turn());
        let held = arbiter.budget.reserve(80, OnFull::Refuse).unwrap();
        let never = CancelFlag::new();
        std::thread::scope(|scope| {
            let never = &never;
            let arbiter = &arbiter;
            scope.spawn(move || {
                wait_until(|| younger.is_asked_to_park());
                drop(held);
                younger.park_blocking(80, never).unwrap();
                assert!(arbiter.budget.reserve(80, OnFull::Refuse).is_ok());
            });
            assert!(arbiter.budget.reserve(50, OnFull::Refuse).is_err());
            assert!(older.ask_younger_blocking(never).unwrap());
            let granted = arbiter.budget.reserve(50, OnFull::Refuse).unwrap();
            assert!(!older.ask_younger_blocking(never).unwrap(), "nobody is left to ask");
            older.go_on();
            assert_eq!(arbiter.parked(), 1, "the younger one does not fit beside it");
            drop(granted);
            older.gave_back();
        });
        assert!(older.is_oldest());
    }

    #[test]
    fn those_that_wait_come_back_in_order_of_arrival() {
        let arbiter = arbiter(100);
        let oldest = arbiter.turn();
        let held = arbiter.budget.reserve(100, OnFull::Refuse).unwrap();
        let turns: Vec<Turn> = (0..5).map(|_| arbiter.turn()).collect();
        let back = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (number, turn) in turns.into_iter().enumerate() {
                let (back, arbiter) = (&back, &arbiter);
                scope.spawn(move || {
                    turn.park_blocking(60, &CancelFlag::new()).unwrap();
                    let _held = arbiter.budget.reserve(60, OnFull::Refuse).unwrap();
                    back.lock().unwrap().push(number);
                    turn.go_on();
                });
            }
            wait_until(|| arbiter.parked() == 5);
            drop(held);
            drop(oldest);
        });
        assert_eq!(back.into_inner().unwrap(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_query_that_waits_can_be_cancelled() {
        let arbiter = arbiter(100);
        let (_oldest, younger) = (arbiter.turn(), arbiter.turn());
        let _held = arbiter.budget.reserve(100, OnFull::Refuse).unwrap();
        let flag = CancelFlag::new();
        std::thread::scope(|scope| {
            let its_flag = flag.clone();
            let waiting = scope.spawn(move || younger.park_blocking(1, &its_flag));
            wait_until(|| arbiter.parked() == 1);
            flag.cancel();
            assert_eq!(waiting.join().unwrap().unwrap_err().kind(), &ErrorKind::Cancelled);
        });
        assert_eq!(arbiter.parked(), 0);
    }

    #[test]
    fn the_first_of_the_parts_of_a_query_is_the_oldest() {
        let arbiter = arbiter(100);
        let query = arbiter.turn();
        let parts = query.split(2);
        let next = arbiter.turn();
        assert_eq!((parts[0].is_oldest(), parts[1].is_oldest()), (true, false));
        parts[0].end();
        assert!(parts[1].is_oldest());
        drop(parts);
        assert!(!next.is_oldest(), "the query still holds what its parts have made");
        query.resume();
        assert!(query.is_oldest());
    }

    #[test]
    fn what_is_cached_is_evicted_as_far_as_need_be() {
        let arbiter = arbiter(100);
        arbiter.add_evictable(|bytes| bytes.min(30));
        arbiter.add_evictable(|bytes| bytes.min(50));
        assert_eq!((arbiter.evict(20), arbiter.evict(60), arbiter.evict(u64::MAX)), (20, 60, 80));
    }
}
