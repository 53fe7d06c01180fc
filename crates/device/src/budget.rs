//! Budgets: permission to use bytes of a tier, given before the bytes are taken.
//!
//! A budget has a limit. A reservation is given at once, or, if it does not fit, refused or waited for, as the caller
//! chose; those that wait are served in the order they came, so that a large request is not starved by small ones.
//! Dropping a reservation gives it back.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pelton_error::{Error, ErrorKind, Result, Tier};

/// How often one that waits looks for what nobody has noticed to be free.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// What to do when a budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// Fail at once.
    Refuse,
    /// Wait for others to give back, this long at most.
    Wait(Duration),
}

/// Bytes of one tier that may be used at once.
#[derive(Debug)]
pub struct Budget {
    tier: Tier,
    /// What the bytes are, for messages: "memory of device 0".
    name: String,
    limit_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: u64,
    peak_bytes: u64,
    next_ticket: u64,
    waiting: VecDeque<u64>,
}

/// Bytes reserved from a budget; given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// A budget of `limit_bytes` of `tier`; `name` says in messages what is budgeted.
    pub fn new(tier: Tier, name: impl Into<String>, limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            tier,
            name: name.into(),
            limit_bytes,
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// All that may be used at once, bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What is reserved now, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes
    }

    /// The most that was ever reserved at once, bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.lock().peak_bytes
    }

    /// Reserves `bytes`.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` with both sizes: at once if it exceeds the limit or `on_full` says so, else when the wait is over.
    pub fn reserve(self: &Arc<Self>, bytes: u64, on_full: OnFull) -> Result<Reservation> {
        self.reserve_polling(bytes, on_full, || {})
    }

    /// As [`reserve`](Self::reserve); while it waits it calls `poll` again and again, without a lock, for what is given
    /// back only if somebody looks.
    pub(crate) fn reserve_polling(
        self: &Arc<Self>,
        bytes: u64,
        on_full: OnFull,
        poll: impl Fn(),
    ) -> Result<Reservation> {
        if bytes > self.limit_bytes {
            return Err(self.refusal(
                bytes,
                self.limit_bytes,
                "more than all of it; ask for less or raise the limit",
            ));
        }
        let mut state = self.lock();
        if state.waiting.is_empty() && state.used_bytes + bytes <= self.limit_bytes {
            return Ok(self.grant(&mut state, bytes));
        }
        let OnFull::Wait(patience) = on_full else {
            let available = self.limit_bytes - state.used_bytes;
            return Err(self.refusal(bytes, available, "give some back, ask for less, or ask to wait"));
        };
        // Beyond a century nobody waits.
        let deadline = Instant::now() + patience.min(Duration::from_secs(3_000_000_000));
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        loop {
            if state.waiting.front() == Some(&ticket) && state.used_bytes + bytes <= self.limit_bytes {
                state.waiting.pop_front();
                let reservation = self.grant(&mut state, bytes);
                self.changed.notify_all();
                return Ok(reservation);
            }
            let now = Instant::now();
            if now >= deadline {
                state.waiting.retain(|waiting| *waiting != ticket);
                self.changed.notify_all();
                let available = self.limit_bytes - state.used_bytes;
                let advice =
                    format!("waited {:.1} s in vain; give some back or ask for less", patience.as_secs_f64());
                return Err(self.refusal(bytes, available, &advice));
            }
            let pause = POLL_INTERVAL.min(deadline - now);
            let (waited, timeout) =
                self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = waited;
            if timeout.timed_out() {
                drop(state);
                poll();
                state = self.lock();
            }
        }
    }

    fn grant(self: &Arc<Self>, state: &mut State, bytes: u64) -> Reservation {
        state.used_bytes += bytes;
        state.peak_bytes = state.peak_bytes.max(state.used_bytes);
        assert!(state.used_bytes <= self.limit_bytes, "a budget is never exceeded");
        Reservation { budget: Arc::clone(self), bytes }
    }

    fn refusal(&self, requested_bytes: u64, available_bytes: u64, advice: &str) -> Error {
        Error::new(
            ErrorKind::OutOfMemory { tier: self.tier, requested_bytes, available_bytes },
            format!(
                "{}: {requested_bytes} bytes asked for, {available_bytes} of {} free: {advice}",
                self.name, self.limit_bytes
            ),
        )
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// How much is reserved, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.lock().used_bytes -= self.bytes;
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_beyond_the_cap_is_refused_with_both_sizes() {
        let budget = Budget::new(Tier::Device, "memory of device 0", 100);
        let held = budget.reserve(60, OnFull::Refuse).unwrap();
        let error = budget.reserve(50, OnFull::Refuse).unwrap_err();
        assert_eq!(
            error.kind(),
            &ErrorKind::OutOfMemory { tier: Tier::Device, requested_bytes: 50, available_bytes: 40 }
        );
        assert!(error.to_string().contains("memory of device 0: 50 bytes asked for, 40 of 100 free"));
        drop(held);
        assert_eq!(budget.used_bytes(), 0);
        assert_eq!(budget.peak_bytes(), 60);
    }

    #[test]
    fn a_request_that_can_never_fit_does_not_wait() {
        let budget = Budget::new(Tier::Device, "memory of device 0", 100);
        let started = Instant::now();
        assert!(budget.reserve(101, OnFull::Wait(Duration::from_secs(60))).is_err());
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_waiting_request_is_served_when_bytes_come_back() {
        let budget = Budget::new(Tier::Pinned, "pinned host memory", 100);
        let held = budget.reserve(80, OnFull::Refuse).unwrap();
        let waiter = {
            let budget = Arc::clone(&budget);
            std::thread::spawn(move || {
                budget.reserve(90, OnFull::Wait(Duration::from_secs(60))).unwrap().bytes()
            })
        };
        while budget.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        let small = budget.reserve(10, OnFull::Refuse);
        assert!(small.is_err(), "those that wait come first");
        drop(held);
        assert_eq!(waiter.join().unwrap(), 90);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn concurrent_use_stays_under_the_cap() {
        let budget = Budget::new(Tier::Device, "memory of device 0", 64 << 20);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let budget = &budget;
                scope.spawn(move || {
                    for round in 0..500_u64 {
                        let bytes = (thread * 7919 + round * 104_729) % (40 << 20) + 1;
                        let held = budget.reserve(bytes, OnFull::Wait(Duration::from_secs(60))).unwrap();
                        assert!(budget.used_bytes() <= 64 << 20);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.used_bytes(), 0);
        assert!(budget.peak_bytes() <= 64 << 20);
    }
}
