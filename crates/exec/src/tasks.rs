//! The row groups of one scan as tasks of several workers.
//!
//! ```text
//!   row groups   0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 …        bands by number
//!   worker 0     0 1 2 3             8 9 10 11                  its own list, in order
//!   worker 1               4 5 6 7               12 13 …
//!
//!   a worker whose list is empty, and all of whose kernels are done, takes the last half of the longest list
//! ```
//!
//! A row group is dealt by its number in the table, not by its place in the scan: so it comes to the same worker in
//! every query, whatever planning has skipped. Bands keep neighbours together, which a copy from pinned memory takes
//! at once, and spread a scan of one region of the table. No more is taken from another worker than half of what it has
//! left, and only by one that has nothing to do: faster workers get more, and most row groups stay where they were
//! dealt.
//!
//! Where the host's cores work beside devices, all take from one list: they are not as fast as each other, and nothing
//! of such a scan stays where it was.
//!
//! What a worker has taken, it runs. All methods may be called by all workers at
//! once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Row groups of a band at most.
const BAND_MAX: usize = 16;
/// Bands of a worker at least, where there are enough row groups.
const BANDS_MIN: usize = 8;

/// The row groups of a scan, by worker.
pub(crate) struct Tasks {
    state: Mutex<State>,
    workers: usize,
    /// All take from the first list.
    is_one_list: bool,
}

#[derive(Default)]
struct State {
    is_dealt: bool,
    /// What each worker has not taken.
    left: Vec<VecDeque<u32>>,
    /// Of a top-k: as many rows as are wanted have at least this rank.
    least_rank: Option<i64>,
}

impl Tasks {
    /// Tasks of so many workers, none of which is dealt.
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        let state = State { left: vec![VecDeque::new(); workers], ..State::default() };
        Arc::new(Self { state: Mutex::new(state), workers, is_one_list: false })
    }

    /// Tasks of so many workers, of different speed, who take from one list.
    pub(crate) fn of_one_list(workers: usize) -> Arc<Self> {
        let state = State { left: vec![VecDeque::new()], ..State::default() };
        Arc::new(Self { state: Mutex::new(state), workers, is_one_list: true })
    }

    /// Deals `row_groups` of a table of `table_row_groups`, and puts the list of each worker in order; only the first
    /// call does.
    pub(crate) fn deal(
        &self,
        row_groups: &[u32],
        table_row_groups: usize,
        in_order: impl Fn(&[u32]) -> Vec<u32>,
    ) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_dealt, true) {
            return;
        }
        if self.is_one_list {
            state.left = vec![in_order(row_groups).into()];
            return;
        }
        let band = (table_row_groups / (self.workers * BANDS_MIN)).clamp(1, BAND_MAX);
        let mut lists = vec![Vec::new(); self.workers];
        for &row_group in row_groups {
            lists[row_group as usize / band % self.workers].push(row_group);
        }
        state.left = lists.iter().map(|list| in_order(list).into()).collect();
    }

    /// What `worker` takes, one by one, until its own list is empty.
    pub(crate) fn of_worker(self: &Arc<Self>, worker: usize) -> impl Iterator<Item = u32> + Send + use<> {
        let tasks = Arc::clone(self);
        std::iter::from_fn(move || tasks.take(worker))
    }

    fn take(&self, worker: usize) -> Option<u32> {
        self.state().left[self.list_of(worker)].pop_front()
    }

    /// Moves half of the longest list to that of `worker`, which is empty; false where nothing is left.
    pub(crate) fn take_over(&self, worker: usize) -> bool {
        let mut state = self.state();
        if !state.left[self.list_of(worker)].is_empty() {
            return true;
        }
        let longest = (0..state.left.len()).rev().max_by_key(|other| state.left[*other].len());
        let Some(longest) = longest.filter(|other| !state.left[*other].is_empty()) else { return false };
        let kept = state.left[longest].len() / 2;
        let moved = state.left[longest].split_off(kept);
        state.left[worker] = moved;
        true
    }

    /// Raises the least rank that is wanted of a top-k to `rank`, and gives what it is by all workers.
    pub(crate) fn raise_least_rank(&self, rank: Option<i64>) -> Option<i64> {
        let mut state = self.state();
        state.least_rank = state.least_rank.max(rank);
        state.least_rank
    }

    /// How many workers share them.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers
    }

    fn list_of(&self, worker: usize) -> usize {
        if self.is_one_list { 0 } else { worker }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs each of `parts` in a thread of its own, the first in this one; gives what each answers.
pub(crate) fn in_threads<P: Send, T: Send>(parts: &mut [P], run: impl Fn(&mut P) -> T + Sync) -> Vec<T> {
    let Some((first, others)) = parts.split_first_mut() else { return Vec::new() };
    let run = &run;
    std::thread::scope(|threads| {
        let others: Vec<_> = others.iter_mut().map(|other| threads.spawn(move || run(other))).collect();
        let first = run(first);
        let joined = others.into_iter().map(|other| match other.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        [first].into_iter().chain(joined).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(workers: usize, row_groups: &[u32], table_row_groups: usize) -> Arc<Tasks> {
        let tasks = Tasks::new(workers);
        tasks.deal(row_groups, table_row_groups, <[u32]>::to_vec);
        tasks
    }

    fn all(tasks: &Arc<Tasks>, worker: usize) -> Vec<u32> {
        tasks.of_worker(worker).collect()
    }

    #[test]
    fn one_worker_gets_all_in_order() {
        let tasks = dealt(1, &[7, 3, 9], 10);
        assert_eq!(all(&tasks, 0), [7, 3, 9]);
        assert!(!tasks.take_over(0));
    }

    #[test]
    fn each_list_is_put_in_order_by_itself() {
        let tasks = Tasks::new(2);
        tasks.deal(&[0, 1, 2, 3, 4], 5, |list| list.iter().rev().copied().collect());
        assert_eq!((all(&tasks, 0), all(&tasks, 1)), (vec![4, 2, 0], vec![3, 1]));
    }

    #[test]
    fn a_row_group_comes_to_the_same_worker_whatever_else_is_scanned() {
        let every: Vec<u32> = (0..100).collect();
        let (first, second) = (dealt(3, &every, 100), dealt(3, &every[40..], 100));
        for worker in 0..3 {
            let rest: Vec<u32> = all(&first, worker).into_iter().filter(|group| *group >= 40).collect();
            assert_eq!(all(&second, worker), rest);
            assert!((15..=25).contains(&rest.len()), "{} of 60", rest.len());
        }
    }

    #[test]
    fn an_idle_worker_takes_the_last_half_of_the_longest_list() {
        let tasks = dealt(2, &(0..20).collect::<Vec<_>>(), 20);
        assert_eq!(all(&tasks, 1), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
        assert!(tasks.take_over(1));
        assert_eq!(all(&tasks, 1), [10, 12, 14, 16, 18]);
        assert_eq!(all(&tasks, 0), [0, 2, 4, 6, 8]);
        assert!(!tasks.take_over(0) && !tasks.take_over(1));
    }

    #[test]
    fn workers_of_different_speed_take_from_one_list() {
        let tasks = Tasks::of_one_list(3);
        tasks.deal(&[4, 5, 6], 10, <[u32]>::to_vec);
        assert_eq!((tasks.take(2), tasks.take(0), tasks.take_over(1)), (Some(4), Some(5), true));
        assert_eq!((tasks.take(1), tasks.take(1), tasks.take_over(1)), (Some(6), None, false));
    }

    #[test]
    fn fewer_row_groups_than_workers_are_taken_by_whoever_comes() {
        let tasks = dealt(3, &[1], 2);
        assert!(tasks.take_over(2));
        assert_eq!(all(&tasks, 2), [1]);
        assert!(!tasks.take_over(0) && !tasks.take_over(1));
        assert!(!dealt(3, &[], 0).take_over(1));
    }
}
