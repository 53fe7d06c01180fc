//! Memory of queries: what joins, sorts and aggregates may hold before they spill or fail.
//!
//! ```text
//!   session   one pool that its queries share: what a command line or a script wants, which runs one at a time
//!   query     a pool of its own, QueryMemory: what a server wants, where no query may starve another
//! ```
//!
//! The pool does not count batches on their way between operators, those between partitions included ([`Uncounted`]),
//! nor what expressions and windows make: the account beside it does ([`crate::metered`]).

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
    UnboundedMemoryPool,
};

use pelton_limits::Account;

use crate::metered;

/// Consumers that the error of a full pool names.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// The memory of one query, apart from that of all others.
#[derive(Debug, Clone)]
pub struct QueryMemory {
    pool: Arc<dyn MemoryPool>,
    account: Option<Account>,
}

impl QueryMemory {
    /// At most `limit_bytes`, beyond which operators spill or fail; `None`: as much as there is.
    pub fn new(limit_bytes: Option<u64>) -> Self {
        let pool: Arc<dyn MemoryPool> = match limit_bytes {
            Some(limit) => bounded(limit),
            None => Arc::new(UnboundedMemoryPool::default()),
        };
        Self { pool, account: metered::account(limit_bytes) }
    }

    /// Bytes that operators hold now.
    pub fn reserved_bytes(&self) -> u64 {
        self.pool.reserved() as u64
    }

    /// What is counted beside the pool.
    pub(crate) fn account(&self) -> Option<Account> {
        self.account.clone()
    }

    pub(crate) fn pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.pool)
    }
}

/// A pool of `limit_bytes` that is shared out evenly among those who could spill.
pub(crate) fn bounded(limit_bytes: u64) -> Arc<dyn MemoryPool> {
    let pool = FairSpillPool::new(usize::try_from(limit_bytes).unwrap_or(usize::MAX));
    Arc::new(Uncounted(TrackConsumersPool::new(pool, CONSUMERS_NAMED)))
}

/// A pool that grants batches between partitions whatever they ask for and counts the rest. A `RepartitionExec` that is
/// refused memory writes batches to files and may then wait for one that is behind another, for ever: DataFusion issue
/// 24883. With a version that has its fix (pull request 24891) this can go.
#[derive(Debug)]
struct Uncounted<P>(P);

/// True for the queues of a `RepartitionExec`; the merge in one has a word in its brackets.
fn is_between_partitions(consumer: &MemoryConsumer) -> bool {
    let rest = consumer.name().strip_prefix("RepartitionExec[");
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

impl<P: MemoryPool> MemoryPool for Uncounted<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    // Their share of a fair pool is kept free for them, though nobody counts what they take.
    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.0.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if !is_between_partitions(reservation.consumer()) {
            self.0.grow(reservation, additional);
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if !is_between_partitions(reservation.consumer()) {
            self.0.shrink(reservation, shrink);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::error::Result<()> {
        match is_between_partitions(reservation.consumer()) {
            true => Ok(()),
            false => self.0.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

impl<P: fmt::Display> fmt::Display for Uncounted<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_between_partitions_are_granted_what_others_are_refused() {
        let pool = bounded(1000);
        let of = |name: &str| MemoryConsumer::new(name).with_can_spill(true).register(&pool);
        let (queue, merge) = (of("RepartitionExec[0]"), of("RepartitionExec[Merge 0]"));
        queue.try_grow(1 << 20).unwrap();
        assert_eq!(pool.reserved(), 0);
        // Half of the pool is the queue's share.
        merge.try_grow(500).unwrap();
        assert!(merge.try_grow(1).is_err());
        queue.free();
        assert_eq!(pool.reserved(), 500);
    }
}
