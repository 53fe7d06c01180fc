//! Memory of queries: what joins, sorts and aggregates may hold before they spill or fail.
//!
//! ```text
//!   session   one pool that its queries share: what a command line or a script wants, which runs one at a time
//!   query     a pool of its own, QueryMemory: what a server wants, where no query may starve another
//! ```
//!
//! Batches on their way between operators are not counted; partitions and the rows of a batch bound them.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryPool, TrackConsumersPool, UnboundedMemoryPool,
};

/// Consumers that the error of a full pool names.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// The memory of one query, apart from that of all others.
#[derive(Debug, Clone)]
pub struct QueryMemory {
    pool: Arc<dyn MemoryPool>,
}

impl QueryMemory {
    /// At most `limit_bytes`, beyond which operators spill or fail; `None`: as much as there is.
    pub fn new(limit_bytes: Option<u64>) -> Self {
        let pool: Arc<dyn MemoryPool> = match limit_bytes {
            Some(limit) => bounded(limit),
            None => Arc::new(UnboundedMemoryPool::default()),
        };
        Self { pool }
    }

    /// Bytes that operators hold now.
    pub fn reserved_bytes(&self) -> u64 {
        self.pool.reserved() as u64
    }

    pub(crate) fn pool(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.pool)
    }
}

/// A pool of `limit_bytes` that is shared out evenly among those who could spill.
pub(crate) fn bounded(limit_bytes: u64) -> Arc<dyn MemoryPool> {
    let pool = FairSpillPool::new(usize::try_from(limit_bytes).unwrap_or(usize::MAX));
    Arc::new(TrackConsumersPool::new(pool, CONSUMERS_NAMED))
}
