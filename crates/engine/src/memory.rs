//! Memory of queries: what joins, sorts and aggregates may hold before they spill or fail.
//!
//! ```text
//!   session   one pool that its queries share: what a command line or a script wants, which runs one at a time
//!   query     a pool of its own, QueryMemory: what a server wants, where no query may starve another
//!   kernels   an eighth beside them, where kernels compiled for the host may be used; beside a GPU 4 GiB at most
//! ```
//!
//! The pool does not count batches on their way between operators, those between partitions included ([`SharingPool`]),
//! nor what expressions and windows make: the account beside it does ([`crate::metered`]).

use std::num::NonZeroUsize;
use std::sync::{Arc, Once};

use datafusion::execution::memory_pool::{MemoryPool, TrackConsumersPool, UnboundedMemoryPool};

use pelton_limits::{Account, available_memory, let_code_go};

use crate::gpu::DeviceChoice;
use crate::metered;
use crate::spilling::SharingPool;

/// Below this limit all memory is for queries: what kernels of the host need at least is a large part of it.
const KERNELS_FROM_BYTES: u64 = 4 << 30;
/// The share of the memory that kernels of the host and the columns that they read may take. A guess.
const KERNELS_SHARE: u64 = 8;

/// Beside a GPU they hold tables and groups of their own, and no columns: no more than this. A guess.
const BESIDE_GPU_BYTES_MAX: u64 = 4 << 30;

/// What queries may take of `limit_bytes`, and what is left for kernels compiled for the host
/// ([`SessionOptions::host_kernel_bytes`](crate::SessionOptions::host_kernel_bytes)), if `choice` may use any here.
pub fn memory_shares(limit_bytes: Option<u64>, choice: DeviceChoice) -> (Option<u64>, u64) {
    let all = limit_bytes.or_else(|| available_memory().map(|available| available.bytes)).unwrap_or(0);
    let share = all / KERNELS_SHARE;
    let kernels = match (choice.tries_host(), choice.works_beside_gpu()) {
        _ if all < KERNELS_FROM_BYTES => 0,
        (true, _) => share,
        (false, true) => share.min(BESIDE_GPU_BYTES_MAX),
        (false, false) => 0,
    };
    (limit_bytes.map(|bytes| bytes - kernels), kernels)
}

/// Below this limit the code that only planning runs is much of it.
const SMALL_BYTES: u64 = 256 << 20;

/// A query is planned, of a session of this limit: under a small one, the first in the process lets go of the code that
/// planned it.
pub(crate) fn is_planned(limit_bytes: Option<u64>) {
    static PLANNED: Once = Once::new();
    if limit_bytes.is_some_and(|bytes| bytes < SMALL_BYTES) {
        PLANNED.call_once(let_code_go);
    }
}

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

/// A pool of `limit_bytes`.
pub(crate) fn bounded(limit_bytes: u64) -> Arc<dyn MemoryPool> {
    let pool = SharingPool::new(usize::try_from(limit_bytes).unwrap_or(usize::MAX));
    Arc::new(TrackConsumersPool::new(pool, CONSUMERS_NAMED))
}
