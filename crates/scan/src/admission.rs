//! Whose turn it is to admit a column.
//!
//! One at a time, so that two admissions do not evict each other's columns. Work in the background may take long over
//! one; a query that somebody waits for goes on without the admission then.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

#[derive(Debug, Default)]
pub(super) struct Admission {
    turn: Mutex<()>,
    /// Work in the background that has the turn or waits for it.
    in_background: AtomicUsize,
}

/// The turn, until dropped.
pub(super) struct AdmissionTurn<'a> {
    _turn: MutexGuard<'a, ()>,
    _counted: Option<Counted<'a>>,
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Admission {
    /// Waits for the turn. `None` for work that somebody waits for, while other work in the background has it.
    pub(super) fn enter(&self, is_in_background: bool) -> Option<AdmissionTurn<'_>> {
        let counted = is_in_background.then(|| Counted::new(&self.in_background));
        if let Some(turn) = self.try_turn() {
            return Some(AdmissionTurn { _turn: turn, _counted: counted });
        }
        if !is_in_background && self.in_background.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Some(AdmissionTurn { _turn: turn, _counted: counted })
    }

    /// The turn, where nobody has it.
    pub(super) fn try_enter(&self) -> Option<AdmissionTurn<'_>> {
        self.try_turn().map(|turn| AdmissionTurn { _turn: turn, _counted: None })
    }

    fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_an_admission_in_the_background() {
        let admission = Admission::default();
        let turn = admission.enter(true).unwrap();
        assert!(admission.enter(false).is_none());
        assert!(admission.try_enter().is_none());
        drop(turn);
        assert!(admission.enter(false).is_some());
        assert!(admission.enter(true).is_some());
    }

    #[test]
    fn who_is_waited_for_waits_for_its_like() {
        let admission = Admission::default();
        let turn = admission.enter(false).unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| admission.enter(false).is_some());
            drop(turn);
            assert!(other.join().unwrap());
        });
    }
}
