//! One step done for many things on several threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pelton_error::{CancelFlag, Error, Result};

/// What `work` answers for each of `jobs`, in their order; up to `threads` threads take them in turn, the caller's
/// among them. The first error, or a cancellation, keeps those not begun from being begun.
///
/// # Errors
///
/// The first of `work`; `Cancelled`.
pub fn map<J: Send, T: Send>(
    jobs: Vec<J>,
    threads: usize,
    cancel: &CancelFlag,
    work: impl Fn(J) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let count = jobs.len();
    let round = Round {
        jobs: Mutex::new(jobs.into_iter().enumerate()),
        outcomes: Mutex::new(std::iter::repeat_with(|| None).take(count).collect()),
        failure: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            let helper = std::thread::Builder::new().name("pelton-columns".into());
            // Without a helper the caller's thread does more.
            let _ = helper.spawn_scoped(scope, || round.work_off(cancel, &work));
        }
        round.work_off(cancel, &work);
    });
    let Round { outcomes, failure, .. } = round;
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => {
            let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
            Ok(outcomes
                .into_iter()
                .map(|outcome| outcome.expect("without a failure every job is done"))
                .collect())
        }
    }
}

struct Round<J, T> {
    jobs: Mutex<std::iter::Enumerate<std::vec::IntoIter<J>>>,
    outcomes: Mutex<Vec<Option<T>>>,
    failure: Mutex<Option<Error>>,
}

impl<J, T> Round<J, T> {
    fn work_off(&self, cancel: &CancelFlag, work: &impl Fn(J) -> Result<T>) {
        loop {
            let Some((index, job)) = lock(&self.jobs).next() else { return };
            match cancel.check().and_then(|()| work(job)) {
                Ok(outcome) => lock(&self.outcomes)[index] = Some(outcome),
                Err(error) => {
                    lock(&self.failure).get_or_insert(error);
                    lock(&self.jobs).by_ref().for_each(drop);
                    return;
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pelton_error::ErrorKind;

    use super::*;

    #[test]
    fn outcomes_are_in_the_order_of_the_jobs() {
        for threads in [1, 4] {
            for count in [0, 1, 1000] {
                let doubled =
                    map((0..count).collect(), threads, &CancelFlag::new(), |job| Ok(job * 2)).unwrap();
                assert_eq!(doubled, (0..count).map(|job| job * 2).collect::<Vec<usize>>());
            }
        }
    }

    #[test]
    fn a_failure_is_answered_and_ends_the_round() {
        let begun = AtomicUsize::new(0);
        let error = map((0..1000).collect(), 2, &CancelFlag::new(), |job: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if job == 3 { Err(Error::corrupt("the fourth")) } else { Ok(()) }
        })
        .unwrap_err();
        assert_eq!(error.to_string(), "the fourth");
        assert!(begun.load(Ordering::Relaxed) < 1000);
    }

    #[test]
    fn nothing_is_begun_once_cancelled() {
        let cancel = CancelFlag::new();
        cancel.cancel();
        let error = map(vec![()], 1, &cancel, |()| -> Result<()> { panic!("begun") }).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Cancelled);
    }
}
