//! The pool that operators of a query reserve memory from.
//!
//! ```text
//!   0 ─────────────────────────────── limit ──────── overdraft
//!   │ kept for those who cannot spill │ the rest, in equal shares for those who can │ those who cannot, once more
//! ```
//!
//! - Who can spill has a share of its own: the limit less what those hold who cannot, or less what is kept where that is more, by
//!   the number of those who can. A share is never below [`FLOOR_BYTES`], so that whoever has spilled all it holds can
//!   take its next batch: without that, an operator fails or not by what others happen to hold.
//! - Of a large limit, who can spill may hold as much as is left free, if that is more than its share, and nobody takes more
//!   than is free: equal shares among all operators of a plan would have a table of 4 GB spill while 90 GB lie idle. Of a
//!   small limit, what the first takes the next would lack.
//! - Who cannot spill takes what is free, and beyond the limit the overdraft: the merge of a sort, for instance, asks
//!   when it has no other way left.
//! - Batches between partitions are granted whatever they are and counted nowhere here. A `RepartitionExec` that is
//!   refused memory writes batches to files and may then wait for one that is behind another, for ever: DataFusion issue
//!   24883. With a version that has its fix (pull request 24891) this can go. Their bytes are counted by the allocator.
//!   So are those of the merge of sorted partitions, which holds a batch of each and asks for all that the batches are
//!   slices of.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use pelton_limits::bytes_text;

/// What everybody who can spill may hold, whatever others do: some batches.
const FLOOR_BYTES: usize = 1 << 20;
/// What is kept of the limit for those who cannot spill: half, but not more than this unless an eighth is. What sorts and
/// groups reserve is about half of what they hold while they merge.
const KEPT_MAX: usize = 128 << 20;
/// What those who cannot spill may take beyond the limit: a quarter of it, within these, and not more than the limit. Guesses, from which the tables
/// in docs/perf/limits.md followed.
const OVERDRAFT_MIN: usize = 16 << 20;
const OVERDRAFT_MAX: usize = 64 << 20;

/// A limit is large from here on. A guess; those that docs/perf/limits.md has measured are below.
const LARGE_LIMIT: usize = 1 << 30;

/// See the module.
#[derive(Debug)]
pub(crate) struct SharingPool {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Registered, and able to spill.
    spillers: usize,
    spillable: usize,
    fixed: usize,
}

impl SharingPool {
    /// A pool of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::new(State::default()) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn kept(&self) -> usize {
        (self.limit / 2).min(KEPT_MAX.max(self.limit / 8))
    }

    fn overdraft(&self) -> usize {
        (self.limit / 4).clamp(OVERDRAFT_MIN, OVERDRAFT_MAX).min(self.limit)
    }

    /// What one of `state`'s spillers may hold.
    fn share(&self, state: &State) -> usize {
        let rest = self.limit.saturating_sub(state.fixed.max(self.kept()));
        (rest / state.spillers.max(1)).max(FLOOR_BYTES.min(self.limit))
    }

    /// What one of `state`'s spillers that holds `held` may take more.
    fn left_for(&self, state: &State, held: usize) -> usize {
        let share = self.share(state);
        if self.limit < LARGE_LIMIT {
            return share.saturating_sub(held);
        }
        let free = self.limit.saturating_sub(state.fixed.max(self.kept())).saturating_sub(state.spillable);
        let most = share.min(held + free).max((held + free) / 2).max(FLOOR_BYTES);
        most.saturating_sub(held)
    }

    /// Who asked for `more` than the `left` that it may take; all figures are of the same moment.
    fn refused(
        &self,
        state: &State,
        reservation: &MemoryReservation,
        more: usize,
        left: usize,
    ) -> DataFusionError {
        let text = |bytes: usize| bytes_text(bytes as u64);
        let (name, held) = (reservation.consumer().name(), reservation.size());
        let others = (state.fixed + state.spillable).saturating_sub(held);
        let beyond = match is_spiller(reservation.consumer()) {
            true => String::new(),
            false => format!(" and the {} beyond it for what cannot spill", text(self.overdraft())),
        };
        DataFusionError::ResourcesExhausted(format!(
            "{name} asks for {} beside the {} that it holds and may take {} more; others hold {} of the limit of {}{beyond}",
            text(more),
            text(held),
            text(left),
            text(others),
            text(self.limit),
        ))
    }
}

/// True for the queues of a `RepartitionExec`, of which the merge in one has a word in its brackets, and for the merge of
/// sorted partitions.
fn is_between_partitions(consumer: &MemoryConsumer) -> bool {
    let rest = consumer.name().strip_prefix("RepartitionExec[");
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        || consumer.name().starts_with("SortPreservingMergeExec")
}

fn is_spiller(consumer: &MemoryConsumer) -> bool {
    consumer.can_spill() && !is_between_partitions(consumer)
}

impl MemoryPool for SharingPool {
    fn name(&self) -> &str {
        "sharing"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.with(|state| state.spillers += usize::from(is_spiller(consumer)));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.with(|state| state.spillers -= usize::from(is_spiller(consumer)));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let consumer = reservation.consumer();
        self.with(|state| match (is_between_partitions(consumer), is_spiller(consumer)) {
            (true, _) => {}
            (_, true) => state.spillable += additional,
            (_, false) => state.fixed += additional,
        });
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let consumer = reservation.consumer();
        self.with(|state| match (is_between_partitions(consumer), is_spiller(consumer)) {
            (true, _) => {}
            (_, true) => state.spillable = state.spillable.saturating_sub(shrink),
            (_, false) => state.fixed = state.fixed.saturating_sub(shrink),
        });
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        if is_between_partitions(consumer) {
            return Ok(());
        }
        self.with(|state| {
            if is_spiller(consumer) {
                let left = self.left_for(state, reservation.size());
                if additional > left {
                    return Err(self.refused(state, reservation, additional, left));
                }
                state.spillable += additional;
                return Ok(());
            }
            let most = self.limit.saturating_add(self.overdraft());
            let left = most.saturating_sub(state.fixed + state.spillable);
            if additional > left {
                return Err(self.refused(state, reservation, additional, left));
            }
            state.fixed += additional;
            Ok(())
        })
    }

    fn reserved(&self) -> usize {
        self.with(|state| state.spillable + state.fixed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for SharingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(limit: {})", self.name(), bytes_text(self.limit as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MB: usize = 1 << 20;

    fn consumer(pool: &Arc<dyn MemoryPool>, name: &str, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new(name).with_can_spill(can_spill).register(pool)
    }

    #[test]
    fn who_can_spill_has_a_share_that_others_cannot_take() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharingPool::new(80 * MB));
        let (one, other) = (consumer(&pool, "a", true), consumer(&pool, "b", true));
        // Half is kept: 40 MB for two.
        one.try_grow(20 * MB).unwrap();
        assert!(one.try_grow(1).is_err());
        other.try_grow(20 * MB).unwrap();
        let fixed = consumer(&pool, "c", false);
        // What was kept, and a quarter of the limit.
        fixed.try_grow(60 * MB).unwrap();
        assert!(fixed.try_grow(1).is_err());
        // 20 MB are left for two; what is held already stays.
        other.free();
        assert!(other.try_grow(10 * MB + 1).is_err());
        other.try_grow(10 * MB).unwrap();
        drop((one, other, fixed));
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn of_a_large_limit_who_can_spill_may_hold_as_much_as_is_left() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharingPool::new(8000 * MB));
        let all: Vec<_> = (0..10).map(|_| consumer(&pool, "a", true)).collect();
        // 1000 MB are kept: shares of 700 MB, and half of 7000 for one while others have nothing.
        (0..35).for_each(|_| all[0].try_grow(100 * MB).unwrap());
        assert!(all[0].try_grow(1).is_err());
        all[1].try_grow(1750 * MB).unwrap();
        assert!(all[1].try_grow(1).is_err());
        all[2].try_grow(875 * MB).unwrap();
        // The next have their shares, until nothing is left.
        all[3].try_grow(700 * MB).unwrap();
        assert!(all[4].try_grow(176 * MB).is_err());
        all[4].try_grow(175 * MB).unwrap();
        assert!(all[5].try_grow(2 * MB).is_err());
        // Some batches there are always.
        all[5].try_grow(MB).unwrap();
    }

    #[test]
    fn whoever_can_spill_may_hold_some_batches() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharingPool::new(20 * MB));
        let all: Vec<_> = (0..40).map(|_| consumer(&pool, "a", true)).collect();
        for one in &all {
            one.try_grow(MB).unwrap();
            assert!(one.try_grow(1).is_err());
        }
    }

    #[test]
    fn who_is_refused_is_told_who_holds_what() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharingPool::new(100_000_000));
        let (sort, list) = (consumer(&pool, "Sort", true), consumer(&pool, "List", false));
        sort.try_grow(10_000_000).unwrap();
        list.try_grow(30_000_000).unwrap();
        let check = |refused: Result<()>, expected: &str| {
            let message = refused.unwrap_err().to_string();
            assert!(message.lines().next().unwrap().ends_with(expected), "{message}");
        };
        check(
            sort.try_grow(90_000_000),
            "Sort asks for 90.0 MB beside the 10.0 MB that it holds and may take 40.0 MB more; others hold 30.0 MB of \
             the limit of 100.0 MB",
        );
        check(
            list.try_grow(90_000_000),
            "List asks for 90.0 MB beside the 30.0 MB that it holds and may take 85.0 MB more; others hold 10.0 MB of \
             the limit of 100.0 MB and the 25.0 MB beyond it for what cannot spill",
        );
    }

    #[test]
    fn queues_between_partitions_are_granted_what_others_are_refused() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharingPool::new(80 * MB));
        let queue = consumer(&pool, "RepartitionExec[0]", true);
        let merge = consumer(&pool, "RepartitionExec[Merge 0]", true);
        queue.try_grow(1 << 40).unwrap();
        assert_eq!(pool.reserved(), 0);
        merge.try_grow(40 * MB).unwrap();
        assert!(merge.try_grow(1).is_err());
        queue.free();
        assert_eq!(pool.reserved(), 40 * MB);
    }
}
