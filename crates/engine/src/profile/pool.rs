//! A memory pool that tells a trace what is reserved, whenever that changes.

use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use pelton_pipeline::{MemoryTier, Trace};

/// A query's view of the session's pool: who wraps it changes no answer and no limit.
///
/// What is told is what the whole pool holds, other queries of the session included.
#[derive(Debug)]
pub(crate) struct TracedPool {
    inner: Arc<dyn MemoryPool>,
    trace: Arc<Trace>,
}

impl TracedPool {
    /// Tells `trace` about `inner`.
    pub(crate) fn new(inner: Arc<dyn MemoryPool>, trace: Arc<Trace>) -> Self {
        Self { inner, trace }
    }

    fn tell(&self) {
        self.trace.memory(MemoryTier::Pool, self.inner.reserved() as u64);
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
        let inner = Arc::new(GreedyMemoryPool::new(100));
        let pool: Arc<dyn MemoryPool> = Arc::new(TracedPool::new(inner, Arc::clone(&trace)));
        let held = MemoryConsumer::new("test").register(&pool);
        held.try_grow(60).unwrap();
        assert!(held.try_grow(50).is_err());
        assert!(matches!(pool.memory_limit(), MemoryLimit::Finite(100)));
        drop(held);
        assert_eq!(pool.reserved(), 0);
        assert_eq!(trace.curve(MemoryTier::Pool).peak_bytes, 60);
    }
}
