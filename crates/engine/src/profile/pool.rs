//! A memory pool that tells a trace what is reserved, whenever that has changed by a [`STEP_BYTES`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use pelton_trace::{MemoryTier, Trace};

/// Less is not worth telling: operators ask for a few bytes with every batch.
const STEP_BYTES: usize = 64 << 10;

/// A query's view of the session's pool: who wraps it changes no answer and no limit.
///
/// What is told is what the whole pool holds, other queries of the session included.
#[derive(Debug)]
pub(crate) struct TracedPool {
    inner: Arc<dyn MemoryPool>,
    trace: Arc<Trace>,
    /// What the trace was told last.
    told: AtomicUsize,
}

impl TracedPool {
    /// Tells `trace` about `inner`.
    pub(crate) fn new(inner: Arc<dyn MemoryPool>, trace: Arc<Trace>) -> Self {
        Self { inner, trace, told: AtomicUsize::new(0) }
    }

    fn tell(&self) {
        let reserved = self.inner.reserved();
        let told = self.told.load(Ordering::Relaxed);
        if reserved.abs_diff(told) >= STEP_BYTES || (reserved == 0 && told > 0) {
            self.told.store(reserved, Ordering::Relaxed);
            self.trace.memory(MemoryTier::Pool, reserved as u64);
        }
    }
}

impl fmt::Display for TracedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl MemoryPool for TracedPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.tell();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
        self.tell();
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let granted = self.inner.try_grow(reservation, additional);
        self.tell();
        granted
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    #[test]
    fn a_trace_hears_of_what_is_reserved_and_limits_hold() {
        let trace = Trace::start();
        let inner = Arc::new(GreedyMemoryPool::new(10 * STEP_BYTES));
        let pool: Arc<dyn MemoryPool> = Arc::new(TracedPool::new(inner, Arc::clone(&trace)));
        let held = MemoryConsumer::new("test").register(&pool);
        held.try_grow(6 * STEP_BYTES).unwrap();
        held.try_grow(1).unwrap();
        assert!(held.try_grow(5 * STEP_BYTES).is_err());
        assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(bytes) if bytes == 10 * STEP_BYTES));
        drop(held);
        assert_eq!(pool.reserved(), 0);
        let curve = trace.curve(MemoryTier::Pool);
        assert_eq!(curve.peak_bytes, 6 * STEP_BYTES as u64, "a byte more is not told");
        assert_eq!(curve.points.last().map(|(_, bytes)| *bytes), Some(0));
    }
}
